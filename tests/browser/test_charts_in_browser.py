"""Charts of the page in a real browser: switches, keyboard, numbers, print, screen readers."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from chromium import BROWSER_TEST, open_page, serious_violations

pytestmark = BROWSER_TEST

unit = Path(__file__).parents[1] / "unit"
inputs = SimpleNamespace(**runpy.run_path(str(unit / "report_inputs.py")))

CHART = "#study-labels-estimates"
MARKS = f"{CHART} .drawing path[tabindex]"


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """The page of a study of two models and two encoders."""
    folder = tmp_path_factory.mktemp("results")
    inputs.write_results(
        folder,
        models=["tiny-model", "other-model"],
        encoders=["encoder-a", "encoder-b"],
        grid=(("0", "0.5", "2.0"), ("0.2", "1.0")),
    )
    return inputs.make_report(folder)


@pytest.fixture(scope="module")
def fits(page) -> pl.DataFrame:
    table = pl.read_csv(page.parent / "tables/fits.csv", infer_schema=False)
    return table.filter(pl.col("analysis") == "main")


def written(value: str) -> str:
    """A number of the table as the page writes it."""
    return f"{float(value):.2f}".replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")


def estimates(fits: pl.DataFrame, **where: str | None) -> set[str]:
    """The estimates of main contrasts and interactions of rows, as the page writes them."""
    rows = fits.filter(
        pl.col("term").is_not_null(),
        pl.col("term") != "Intercept",
        pl.col("temperature") != "0",
        *(pl.col(key).eq_missing(pl.lit(value)) for key, value in where.items()),
    )
    return {written(value) for value in rows["estimate"].drop_nulls()}


def seen(view) -> set[str]:
    """The numbers in the squares, without their marks."""
    texts = view.locator(
        f"{CHART} .drawing .mark-text.child_layer_1_marks text"
    ).all_text_contents()
    return {text.rstrip("*†") for text in texts} - {"–"}


def test_a_page_with_charts_is_silent_and_asks_nothing_of_the_network(page):
    with open_page(page) as (view, noticed):
        assert view.locator(MARKS).count() == 4 * 7
        assert noticed.everything() == []


def test_the_squares_hold_the_estimates_of_the_table(page, fits):
    with open_page(page) as (view, _):
        marginal = fits.filter(pl.col("coding").is_in(["marginal", "interaction"]))
        where = {"model": "tiny-model", "measure": "encoder-a", "scope": "formats fixed"}
        assert seen(view) == estimates(marginal, **where)


@pytest.mark.parametrize(
    ("switch", "option", "where"),
    [
        ("model", "Other-model", {"model": "other-model"}),
        ("encoder", "Encoder-b", {"measure": "encoder-b"}),
        ("level", "Cell level", {"level": "cell", "scope": None}),
        ("level", "Pairwise level (p far too small)", {"level": "pairwise", "scope": None}),
    ],
)
def test_a_switch_shows_other_estimates_of_the_table(page, fits, switch, option, where):
    published = fits.filter(pl.col("coding") == "treatment")
    rest = {"model": "tiny-model", "measure": "encoder-a", "scope": "formats fixed"} | where
    with open_page(page) as (view, noticed):
        view.select_option(f"{CHART}-coding", label="Published coding")
        view.select_option(f"{CHART}-{switch}", label=option)
        expected = estimates(published, **rest)
        assert expected != estimates(published, model="tiny-model", measure="encoder-a")
        view.wait_for_function(
            "([chart, first]) => [...document.querySelectorAll(`${chart} .drawing text`)]"
            ".some((text) => text.textContent.replace(/[*†]/, '') === first)",
            arg=[CHART, sorted(expected)[0]],
        )
        assert seen(view) == expected
        assert noticed.everything() == []


def test_levels_that_a_coding_lacks_cannot_be_chosen(page):
    with open_page(page) as (view, _):
        options = view.locator(f"{CHART}-level option")
        told = dict(
            zip(
                options.all_text_contents(),
                options.evaluate_all("all => all.map((each) => each.disabled)"),
                strict=True,
            )
        )
        assert told == {
            "Text level, formats fixed": False,
            "Text level, formats random": False,
            "Cell level": True,
            "Pairwise level (p far too small)": True,
        }


def test_panels_can_be_models_of_one_contrast(page):
    with open_page(page) as (view, _):
        view.select_option(f"{CHART}-panels", label="Model")
        view.wait_for_function(f"() => document.querySelectorAll({MARKS!r}).length === 8")
        titles = view.locator(f"{CHART} .drawing text")
        assert {"Tiny-model", "Other-model"} <= set(titles.all_text_contents())
        assert view.locator(f"{CHART}-model").is_hidden()
        assert view.locator(f"{CHART}-contrast").is_visible()


def test_the_focused_square_tells_the_numbers_of_every_level(page, fits):
    with open_page(page) as (view, _):
        view.focus(f"{CHART}-level")
        view.keyboard.press("Tab")
        view.keyboard.press("ArrowRight")
        rows = view.locator(f"{CHART} .readout tbody tr")
        assert rows.count() == 6
        caption = view.locator(f"{CHART} .readout caption").inner_text()
        group = caption.split(", ")[2].split(" (vs.")[0]
        here = fits.filter(
            pl.col("model") == "tiny-model",
            pl.col("measure") == "encoder-a",
            pl.col("temperature") == "0.5",
            pl.col("top_p") == "1.0",
            pl.col("term") == f"race[{group}]",
        )
        assert here.height == 6, caption
        told = [row.split("\t") for row in rows.all_inner_texts()]
        assert {row[2].rstrip("*†") for row in told} == {written(each) for each in here["estimate"]}
        assert {row[3] for row in told} == {
            f"[{written(low)}, {written(high)}]"
            for low, high in here.select("ci_low", "ci_high").iter_rows()
        }
        assert {row[7].replace(",", "") for row in told} == set(here["n_observations"])
        assert caption.startswith("Tiny-model, encoder-a")


def test_a_square_without_a_fit_tells_why(page, fits):
    (reason,) = fits.filter(pl.col("temperature") != "0")["reason"].drop_nulls().unique()
    with open_page(page) as (view, _):
        view.locator(MARKS).first.hover()
        told = view.locator(f"{CHART} .readout tbody tr").all_inner_texts()
        assert told and all(reason in row for row in told)


def test_arrow_keys_lead_from_square_to_square(page):
    with open_page(page) as (view, _):
        view.focus(f"{CHART}-level")
        view.keyboard.press("Tab")
        first = view.evaluate("() => document.activeElement.getAttribute('aria-label')")
        view.keyboard.press("ArrowRight")
        second = view.evaluate("() => document.activeElement.getAttribute('aria-label')")
        assert "top-p 0.2:" in first and "top-p 1.0:" in second
        assert first.split("top-p")[0] == second.split("top-p")[0]
        assert view.locator(f"{MARKS}[tabindex='0']").count() == 1


def test_pointing_at_a_square_tells_its_numbers(page):
    with open_page(page) as (view, _):
        mark = view.locator(MARKS).nth(5)
        mark.hover()
        told = view.locator(f"{CHART} .readout tbody tr").first.inner_text()
        assert mark.get_attribute("aria-label").split("β ")[1].split(",")[0] in told


def test_the_table_of_what_is_shown_has_a_row_a_square(page):
    with open_page(page) as (view, _):
        view.locator(f"{CHART} details summary").click()
        view.locator(f"{CHART} details tbody tr").first.wait_for()
        assert view.locator(f"{CHART} details tbody tr").count() == view.locator(MARKS).count()


def test_links_to_files_follow_the_switches(page):
    with open_page(page) as (view, _):
        view.select_option(f"{CHART}-coding", label="Published coding")
        view.select_option(f"{CHART}-model", label="Other-model")
        view.select_option(f"{CHART}-encoder", label="Encoder-b")
        view.select_option(f"{CHART}-level", label="Cell level")
        link = view.locator(f"{CHART} .files a").first.get_attribute("href")
        assert link == "figures/labels/other-model/encoder-b-cell.svg"
        assert (page.parent / link).is_file()


def test_the_page_can_be_read_without_scripts(page):
    with open_page(page, java_script=False) as (view, _):
        assert view.get_by_text("This chart needs JavaScript").first.is_visible()
        assert view.locator("img").first.is_visible()
        assert (
            view.locator("details.twin[open]").count() == view.locator("details.twin").count() > 0
        )


def test_a_picture_of_what_a_chart_shows_is_closed_where_scripts_run(page):
    with open_page(page) as (view, _):
        assert view.locator("details.twin").count() > 0
        assert view.locator("details.twin[open]").count() == 0


def test_words_of_a_chart_state_what_it_shows(page):
    with open_page(page) as (view, _):
        words = view.locator(f"{CHART} .drawing svg").get_attribute("aria-label")
        assert "Asian (vs. White): β" in words
        assert "settings" in words


@pytest.mark.parametrize(("scheme", "widths"), [("light", (390, 820, 1280)), ("dark", (1280,))])
def test_axe_finds_no_serious_violation_and_nothing_scrolls_sideways(page, scheme, widths):
    with open_page(page, scheme=scheme) as (view, _):
        view.evaluate(
            "() => document.querySelectorAll('details').forEach((d) => { d.open = true; })"
        )
        for width in widths:
            view.set_viewport_size({"width": width, "height": 900})
            view.wait_for_timeout(500)
            assert serious_violations(view) == []
            assert view.evaluate("() => document.documentElement.scrollWidth") <= width


def test_charts_are_printed(page, tmp_path):
    with open_page(page) as (view, _):
        view.emulate_media(media="print")
        assert view.locator(f"{CHART} .drawing svg").is_visible()
        assert view.locator(f"{CHART} .switches").is_hidden()
        assert view.locator("nav").is_hidden()
