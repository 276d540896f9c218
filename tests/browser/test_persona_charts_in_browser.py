"""The charts of personas in a real browser: switches, keyboard, numbers, phones."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from chromium import BROWSER_TEST, open_page, serious_violations

pytestmark = BROWSER_TEST

unit = Path(__file__).parents[1] / "unit"
inputs = SimpleNamespace(**runpy.run_path(str(unit / "persona_inputs.py")))

KINDS = ("style", "separation", "similarity", "features", "leakage", "confusions")
FIRST, SECOND = (name for name, _, _ in inputs.list_personas()[:2])


def chart_of(kind: str) -> str:
    return f"#study-personas-chart-{kind}"


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """The page of a study of two models, two settings and two measures."""
    folder = tmp_path_factory.mktemp("results")
    inputs.write_persona_results(folder)
    return inputs.make_persona_page(folder, inputs.make_persona_report(folder))


def read_row(page: Path, table: str, **where: str | None) -> dict[str, str]:
    """The one row of a CSV file with these values."""
    rows = pl.read_csv(page.parent / f"tables/{table}.csv", infer_schema=False)
    conditions = (pl.col(key).eq_missing(pl.lit(value)) for key, value in where.items())
    (row,) = rows.filter(*conditions).rows(named=True)
    return row


def contrast(page: Path, **where: str | None) -> dict[str, str]:
    """A row of similarities at temperature 1."""
    place = {"temperature": "1.0", "variant": "iterations", "task": None}
    return read_row(page, "persona_separation", **(place | where))


def written(value: str, decimals: int = 3) -> str:
    """A number of a table as the page writes it."""
    return f"{float(value):.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def p_value(value: str) -> str:
    return "< .001" if float(value) < 0.001 else f"{float(value):.3f}".removeprefix("0")


def focus(view, kind: str, said: str) -> list[dict[str, str]]:
    """Focus the mark that says so; the rows of the readout by their headings."""
    mark = view.locator(f'{chart_of(kind)} .drawing [tabindex][aria-label^="{said}"]')
    assert mark.count() == 1
    mark.focus()
    table = view.locator(f"{chart_of(kind)} .readout table")
    heads = table.locator("thead th").all_text_contents()
    return [
        dict(zip(heads, row.locator("th, td").all_text_contents(), strict=True))
        for row in table.locator("tbody tr").all()
    ]


def choose(view, kind: str, switch: str, option: str) -> None:
    """Choose an option of a chart and wait until it is drawn anew."""
    drawn = view.get_attribute(chart_of(kind), "data-drawn")
    view.select_option(f"{chart_of(kind)}-{switch}", label=option)
    view.wait_for_function(
        "([chart, drawn]) => document.querySelector(chart).dataset.drawn !== drawn",
        arg=[chart_of(kind), drawn],
    )


def test_every_chart_is_drawn_in_silence(page):
    with open_page(page) as (view, noticed):
        marks = {
            kind: view.locator(f"{chart_of(kind)} .drawing [tabindex]").count() for kind in KINDS
        }
        features = {"style": 6, "features": len(inputs.FEATURE_COLUMNS) + len(inputs.CAME_KINDS)}
        # Of two models each: all, two tasks, four personas, six pairs; two views.
        assert marks == {
            "style": 4 * features["style"],
            "separation": 2 * 13,
            "similarity": 2 * 10,
            "features": 2 * 4 * features["features"],
            "leakage": 2 * 2,
            "confusions": 2 * 16,
        }
        assert noticed.everything() == []


def test_a_contrast_under_the_focus_tells_its_row_under_every_measure(page):
    with open_page(page) as (view, _):
        rows = focus(view, "separation", "model-b, junior engineer – principal engineer")
    assert [row["Measure"] for row in rows] == ["TSED", "encoder-a"]
    for row, measure in zip(rows, inputs.MEASURES, strict=True):
        found = contrast(page, model="model-b", measure=measure, first=FIRST, second=SECOND)
        assert row["within − between"] == written(found["difference"])
        interval = f"[{written(found['ci_low'])}, {written(found['ci_high'])}]"
        assert row["95% interval"] == interval
        assert [row["p"], row["p, Holm"]] == [p_value(found["p_value"]), p_value(found["p_holm"])]
        assert [row["prompts"], row["pairs"]] == [found["n_prompts"], found["n_pairs"]]


def test_a_cell_of_the_matrix_tells_how_alike_two_personas_are(page):
    with open_page(page) as (view, _):
        rows = focus(view, "similarity", "model-a, principal engineer, junior engineer")
    found = contrast(page, model="model-a", measure="tsed", first=FIRST, second=SECOND)
    assert rows[0]["similarity"] == written(found["between"])
    assert rows[0]["one prompt"] == written(found["same_prompt"])


def test_a_feature_under_the_focus_tells_the_means_of_all_personas(page):
    with open_page(page) as (view, _):
        rows = focus(view, "features", "model-a, calls of input, English teacher")
        current = view.locator(f"{chart_of('features')} .readout [aria-current]")
        assert current.locator("th").all_text_contents() == ["English teacher"]
    for row, (persona, _, _) in zip(rows, inputs.list_personas(), strict=True):
        found = read_row(
            page,
            "persona_means",
            model="model-a",
            temperature="1.0",
            feature="inputs",
            persona=persona,
        )
        assert row["mean"].rstrip("*") == written(found["mean"], 2)
        assert row["p"] == p_value(found["p_value"])


def test_a_guess_tells_accuracy_and_chance(page):
    with open_page(page) as (view, _):
        rows = focus(view, "leakage", "model-a, tokens")
    found = read_row(page, "persona_leakage", model="model-a", temperature="1.0", features="tokens")
    told = next(row for row in rows if row["Seen"] == "tokens")
    assert told["balanced accuracy"].rstrip("*") == f"{100 * float(found['accuracy']):.1f}%"
    assert told["chance"] == f"{100 * float(found['chance']):.1f}%"
    assert told["p"] == p_value(found["p_value"])


def test_arrow_keys_go_from_cell_to_cell(page):
    with open_page(page) as (view, _):
        view.locator(f'{chart_of("confusions")} .drawing [tabindex="0"]').focus()
        captions = []
        for key in ("ArrowDown", "ArrowRight"):
            view.keyboard.press(key)
            captions.append(view.evaluate("document.activeElement.getAttribute('aria-label')"))
    places = [caption.split(":")[0].split(", ")[-2:] for caption in captions]
    assert places == [
        ["principal engineer", "junior engineer"],
        ["principal engineer", "principal engineer"],
    ]


@pytest.mark.parametrize(
    ("switch", "option", "where"),
    [
        ("measure", "Encoder-a", {"measure": "encoder-a"}),
        ("setting", "Temperature 0", {"temperature": "0"}),
    ],
)
def test_a_switch_shows_other_rows(page, switch, option, where):
    place = {"model": "model-a", "measure": "tsed", "first": None}
    with open_page(page) as (view, noticed):
        choose(view, "separation", switch, option)
        view.click(f"{chart_of('separation')} summary")
        caption = view.locator(f"{chart_of('separation')} details caption").text_content()
        rows = focus(view, "separation", "model-a, all together")
        assert noticed.everything() == []
    assert option.lower() in caption.lower()
    found = contrast(page, **(place | where))
    assert written(found["difference"]) in {row["within − between"].rstrip("*") for row in rows}


def test_one_sampled_prompt_has_a_cross_that_says_why_nothing_is_tested(page):
    with open_page(page) as (view, _):
        choose(view, "separation", "variant", "One sampled prompt, as published")
        marks = view.locator(f"{chart_of('separation')} .drawing [tabindex]")
        assert marks.count() == 2
        focus_row = focus(view, "separation", "model-a, all together")[0]
    assert focus_row["Note"].startswith("one prompt a persona and task")
    assert focus_row["between"] == written(str(inputs.BETWEEN))


def test_what_a_chart_shows_is_told_in_sentences(page):
    with open_page(page) as (view, _):
        told = {
            kind: view.locator(f"{chart_of(kind)} .finding li").all_text_contents()
            for kind in KINDS
        }
    assert told["similarity"] == [
        "Model-a: similarity within one 0.600, between two 0.500.",
        "Model-b: similarity within one 0.550, between two 0.500.",
    ]
    # Without type hints, which have no number, 23 features; p .001 of each in a family of 27.
    assert told["features"] == [
        f"{model}: 2 of 23 features differ between personas: classes, calls of input; after Holm 2."
        for model in ("Model-a", "Model-b")
    ]
    assert told["leakage"][0] == (
        "Model-a: balanced accuracy 50.0%; asterisk in 2 of 2 views (above chance);"
        " after Holm in 2."
    )
    assert told["confusions"][0] == "Syntax: guessed right 50.0%, taken for another 16.7%."


def test_files_are_offered_of_the_setting_that_has_them(page):
    links = f"{chart_of('similarity')} .files a"
    with open_page(page) as (view, _):
        assert view.locator(links).first.get_attribute("href") == (
            "figures/personas/persona-similarity-tsed.svg"
        )
        choose(view, "similarity", "setting", "Temperature 0")
        assert view.locator(links).count() == 0


def test_nothing_sticks_out_on_a_phone(page):
    with open_page(page, width=390) as (view, noticed):
        for kind in KINDS:
            view.locator(f'{chart_of(kind)} .drawing [tabindex="0"]').focus()
        assert view.evaluate("document.documentElement.scrollWidth") <= 390
        assert noticed.everything() == []


def test_screen_readers_find_nothing_wrong(page):
    with open_page(page) as (view, _):
        for kind in KINDS:
            view.locator(f'{chart_of(kind)} .drawing [tabindex="0"]').focus()
        assert serious_violations(view) == []
