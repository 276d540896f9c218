"""Charts of the studies of code in a real browser: switches, keyboard, numbers, phone width."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from chromium import BROWSER_TEST, open_page, serious_violations

pytestmark = BROWSER_TEST

unit = Path(__file__).parents[1] / "unit"
inputs = SimpleNamespace(**runpy.run_path(str(unit / "code_inputs.py")))

CURVES, BANDS, DECODING, CONTRASTS = (
    f"#study-code-chart-{kind}" for kind in ("curves", "bands", "decoding", "contrasts")
)


def write_tables(folder: Path) -> None:
    """Let the measures of the made-up study differ, so that a switch between them shows."""
    for path, columns in (
        (folder / "curves/code/curves.parquet", ("estimate", "ci_low", "ci_high")),
        (folder / "curves/code/summaries.parquet", ("estimate", "ci_low", "ci_high")),
    ):
        frame = pl.read_parquet(path)
        metadata = pl.read_parquet_metadata(path)
        kept = {key: value for key, value in metadata.items() if key != "ARROW:schema"}
        is_encoder = pl.col("measure") == "encoder-a"
        changed = frame.with_columns(
            pl.when(is_encoder).then(pl.col(name) * 0.8 + 0.15).otherwise(pl.col(name)).alias(name)
            for name in columns
        )
        changed.write_parquet(path, metadata=kept)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """The page of a study of two models, two measures, three sets and five settings."""
    folder = tmp_path_factory.mktemp("results")
    inputs.write_code_results(folder)
    write_tables(folder)
    return inputs.make_code_page(folder, inputs.make_code_report(folder))


def read_csv(page: Path, name: str) -> pl.DataFrame:
    return pl.read_csv(page.parent / f"tables/{name}.csv", infer_schema=False)


@pytest.fixture(scope="module")
def curves(page) -> pl.DataFrame:
    return read_csv(page, "code_curves")


def written(value: str | None) -> str:
    """A number of a CSV file as the page writes it."""
    if value is None:
        return "–"
    return f"{float(value):.3f}".replace("-0.000", "0.000").replace("-", "\N{MINUS SIGN}")


def interval(low: str | None, high: str | None) -> str:
    return "–" if low is None and high is None else f"[{written(low)}, {written(high)}]"


def marks(view, chart: str) -> list[str]:
    """What each mark of a chart says."""
    found = view.locator(f"{chart} .drawing path[tabindex]")
    return found.evaluate_all("all => all.map((each) => each.getAttribute('aria-label'))")


def wait_for_change(view, chart: str, before: str | None) -> None:
    view.wait_for_function(
        "([chart, before]) => document.querySelector(chart).dataset.drawn !== before",
        arg=[chart, before],
    )


def choose(view, chart: str, switch: str, option: str) -> None:
    before = view.locator(chart).get_attribute("data-drawn")
    view.select_option(f"{chart}-{switch}", label=option)
    wait_for_change(view, chart, before)


def at(curves: pl.DataFrame, **where: str | None) -> pl.DataFrame:
    return curves.filter(*(pl.col(key).eq_missing(pl.lit(value)) for key, value in where.items()))


def of_curves(curves: pl.DataFrame) -> pl.DataFrame:
    """The rows of the chart of curves: all but those of paraphrases."""
    return curves.filter(pl.col("method").ne_missing("paraphrase"))


def similarities(labels: Iterable[str], name: str = "similarity") -> list[str]:
    return sorted(label.split(f"{name} ")[1].split(",")[0] for label in labels)


def expected_marks(rows: pl.DataFrame, column: str = "estimate") -> list[str]:
    """Ceiling and floor are drawn in the panel of each of the three methods."""
    lines = rows.filter(pl.col("method").is_null())
    points = rows.filter(pl.col("method").is_not_null())
    return sorted(map(written, [*points[column], *([*lines[column]] * 3)]))


GREEDY = {"temperature": "0", "top_p": None, "set": None}


def test_a_page_with_charts_of_code_is_silent_and_asks_nothing_of_the_network(page):
    with open_page(page) as (view, noticed):
        for chart in (CURVES, BANDS, DECODING, CONTRASTS):
            assert marks(view, chart)
        assert noticed.everything() == []


def test_the_marks_are_the_points_of_the_table(page, curves):
    with open_page(page) as (view, _):
        shown = at(of_curves(curves), measure="tsed", **GREEDY)
        assert similarities(marks(view, CURVES)) == expected_marks(shown)


@pytest.mark.parametrize(
    ("switch", "option", "where"),
    [
        ("measure", "Encoder-a", {"measure": "encoder-a"}),
        ("set", "Fresh", {"set": "fresh"}),
        ("setting", "Temperature 1.0, top-p 0.8", {"temperature": "1.0", "top_p": "0.8"}),
    ],
)
def test_a_switch_shows_other_points_of_the_table(page, curves, switch, option, where):
    with open_page(page) as (view, noticed):
        before = sorted(marks(view, CURVES))
        choose(view, CURVES, switch, option)
        after = marks(view, CURVES)
        assert sorted(after) != before or switch == "set"
        shown = at(of_curves(curves), **({"measure": "tsed"} | GREEDY | where))
        assert similarities(after) == expected_marks(shown)
        assert noticed.everything() == []


def test_the_marks_stand_as_high_as_the_chosen_values(page, curves):
    heights = """(all) => all.map((each) => [each.getAttribute("aria-label"),
      each.getBoundingClientRect().top])"""
    with open_page(page) as (view, _):
        choose(view, CURVES, "reading", "Rescaled from floor, 0, to ceiling, 1")
        found = view.locator(f"{CURVES} .drawing path[tabindex]").evaluate_all(heights)
        keyboard = {
            float(label.split("rescaled ")[1].split(",")[0].replace("\N{MINUS SIGN}", "-")): top
            for label, top in found
            if label.startswith("keyboard, model-a")
        }
        falling = [keyboard[value] for value in sorted(keyboard, reverse=True)]
        assert len(falling) == 6
        assert falling == sorted(falling)


def test_panels_can_be_models_with_a_series_a_method(page):
    with open_page(page) as (view, _):
        choose(view, CURVES, "panels", "Model")
        texts = view.locator(f"{CURVES} .drawing text").all_text_contents()
        assert {"Model-a", "Model-b", "keyboard", "synonym", "nlpaug-keyboard"} <= set(texts)
        assert "ceiling" not in texts


def test_series_differ_in_shape_as_well_as_in_colour(page):
    legend = f"{CURVES} .drawing .role-legend-symbol path"
    with open_page(page) as (view, _):
        for attribute in ("d", "fill"):
            looks = view.locator(legend).evaluate_all(
                f"all => all.map((each) => each.getAttribute('{attribute}'))"
            )
            assert len(looks) == 2
            assert len(set(looks)) == 2


def test_the_focused_point_tells_its_row_under_every_measure(page, curves):
    with open_page(page) as (view, _):
        view.focus(f"{CURVES}-reading")
        view.keyboard.press("Tab")
        view.keyboard.press("ArrowRight")
        caption = view.locator(f"{CURVES} .readout caption").inner_text()
        model, method, rate = caption.split(", ")[2:]
        rows = at(of_curves(curves), model=model, method=method, **GREEDY)
        rows = rows.filter(pl.col("rate") == rate.removeprefix("nominal rate "))
        assert rows["measure"].to_list() == ["tsed", "encoder-a"], caption
        told = [
            row.split("\t") for row in view.locator(f"{CURVES} .readout tbody tr").all_inner_texts()
        ]
        assert told == [
            [
                name,
                written(row["estimate"]),
                interval(row["ci_low"], row["ci_high"]),
                written(row["rescaled"]),
                interval(row["rescaled_low"], row["rescaled_high"]),
                written(row["realised"]),
                row["n_tasks"],
                row["n_tasks_asked"],
                row["n_pairs"],
            ]
            for name, row in zip(("TSED", "encoder-a"), rows.iter_rows(named=True), strict=True)
        ]


def test_arrow_keys_lead_along_a_curve_and_from_curve_to_curve(page):
    focused = "() => document.activeElement.getAttribute('aria-label').split(':')[0]"
    with open_page(page) as (view, _):
        view.focus(f"{CURVES}-reading")
        said = []
        for key in ("Tab", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
            view.keyboard.press(key)
            said.append(view.evaluate(focused))
        assert said == [
            "keyboard, model-a, nominal rate 0",
            "keyboard, model-a, nominal rate 0.2",
            "keyboard, model-a, nominal rate 0.4",
            "keyboard, model-b, nominal rate 0.4",
            "keyboard, model-b, nominal rate 0.2",
        ]


def test_the_table_of_what_is_shown_is_the_filtered_csv(page, curves):
    with open_page(page) as (view, _):
        choose(view, CURVES, "set", "Fresh")
        choose(view, CURVES, "measure", "Encoder-a")
        view.locator(f"{CURVES} details summary").click()
        view.locator(f"{CURVES} details tbody tr").first.wait_for()
        rows = view.locator(f"{CURVES} details tbody tr").all_inner_texts()
        found = sorted(tuple(row.split("\t")[:4]) for row in rows)
        shown = at(of_curves(curves), measure="encoder-a", **(GREEDY | {"set": "fresh"}))
        assert found == sorted(
            (
                row["method"] or row["comparison"],
                row["model"],
                row["rate"] or "none",
                written(row["estimate"]),
            )
            for row in shown.iter_rows(named=True)
        )


def test_a_point_without_a_number_tells_why(page):
    with open_page(page) as (view, _):
        lacking = [label for label in marks(view, BANDS) if "medium" in label]
        assert lacking
        assert all(label.endswith(": no prompt") for label in lacking)


def test_the_squares_are_the_summaries_of_the_table(page):
    summaries = read_csv(page, "code_summaries").filter(
        pl.col("measure") == "tsed", pl.col("model") == "model-b", pl.col("set").is_null()
    )
    with open_page(page) as (view, noticed):
        choose(view, DECODING, "model", "Model-b")
        for option, summary in (("Mean height of the curve", "auc"), ("Half-life", "half_life")):
            if summary != "auc":
                choose(view, DECODING, "summary", option)
            rows = summaries.filter(pl.col("summary") == summary)
            found = marks(view, DECODING)
            told = [label for label in found if ": value " in label]
            assert similarities(told, "value") == sorted(
                map(written, rows["estimate"].drop_nulls())
            )
            assert len(found) == rows.height
            texts = view.locator(f"{DECODING} .drawing .mark-text").all_text_contents()
            missing = rows.filter(pl.col("reason").str.starts_with("not reached")).height
            assert "".join(texts).count("notreached") == missing
        assert noticed.everything() == []


def test_the_squares_can_be_ceilings_and_name_their_file(page, curves):
    with open_page(page) as (view, _):
        choose(view, DECODING, "summary", "Ceiling")
        ceilings = at(curves, measure="tsed", model="model-a", set=None, comparison="ceiling")
        found = similarities(marks(view, DECODING), "value")
        assert found == sorted(map(written, ceilings["estimate"]))
        link = view.locator(f"{DECODING} .files a").first.get_attribute("href")
        assert link == "figures/code/model-a/code-tsed-ceiling.svg"
        assert (page.parent / link).is_file()


def test_a_difference_tells_its_p_values(page):
    contrasts = read_csv(page, "code_contrasts").filter(
        pl.col("measure") == "tsed",
        pl.col("kind") == "set",
        pl.col("model") == "model-a",
        pl.col("method") == "keyboard",
    )
    (row,) = contrasts.rows(named=True)
    with open_page(page) as (view, _):
        view.locator(f"{CONTRASTS} .drawing path[tabindex]").first.hover()
        told = view.locator(f"{CONTRASTS} .readout tbody tr").first.inner_text().split("\t")
        assert told[1] == f"{written(row['estimate'])}*"
        p_values = [f"{float(row[key]):.3f}"[1:] for key in ("p_value", "p_holm", "p_bh")]
        assert told[3:6] == p_values


def test_links_to_files_follow_the_switches_and_are_there(page):
    with open_page(page) as (view, _):
        choose(view, CURVES, "measure", "Encoder-a")
        choose(view, CURVES, "set", "Open")
        choose(view, CURVES, "reading", "Rescaled from floor, 0, to ceiling, 1")
        link = view.locator(f"{CURVES} .files a").first.get_attribute("href")
        assert link == "figures/code/code-encoder-a-sets-rescaled.svg"
        assert (page.parent / link).is_file()
        choose(view, CURVES, "setting", "Temperature 0.5, top-p 0.8")
        assert view.locator(f"{CURVES} .files a").count() == 0


@pytest.mark.parametrize(("scheme", "widths"), [("light", (390, 1280)), ("dark", (1280,))])
def test_axe_finds_no_serious_violation_and_nothing_scrolls_sideways(page, scheme, widths):
    with open_page(page, scheme=scheme) as (view, _):
        view.evaluate(
            "() => document.querySelectorAll('details').forEach((d) => { d.open = true; })"
        )
        view.locator(f"{CURVES} .drawing path[tabindex]").first.focus()
        for width in widths:
            view.set_viewport_size({"width": width, "height": 900})
            view.wait_for_timeout(500)
            assert serious_violations(view) == []
            assert view.evaluate("() => document.documentElement.scrollWidth") <= width


def test_the_page_of_code_can_be_read_without_scripts(page):
    with open_page(page, java_script=False) as (view, _):
        assert view.locator(f"{CURVES} .fallback").is_visible()
        assert view.locator("img").first.is_visible()


def test_curves_without_a_number_say_why_in_place_of_axes(page):
    def without_numbers(found: re.Match[str]) -> str:
        chart = json.loads(found[2])
        if f"#{chart['anchor']}" != CURVES:
            return found[0]
        nothing = [None] * len(chart["places"])
        for number in chart["numbers"]:
            chart["columns"][number["key"]] = nothing
        chart["columns"]["reason"] = {"values": ["no pair <b>"], "codes": [0] * len(nothing)}
        return found[1] + json.dumps(chart).replace("<", "\\u003c") + "</script>"

    text = re.sub(
        r'(<script type="application/json" data-chart>)([^<]*)</script>',
        without_numbers,
        page.read_text(encoding="utf-8"),
    )
    path = page.parent / "without.html"
    path.write_text(text, encoding="utf-8")
    with open_page(path) as (view, noticed):
        told = view.locator(f"{CURVES} .drawing").inner_text()
        assert told == "Nothing can be drawn here: no pair <b>."
        assert view.locator(f"{CURVES} .drawing svg").count() == 0
        assert noticed.everything() == []
