"""The figures of the report."""

from __future__ import annotations

import io
import itertools
import runpy
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from llm_variability.report.__main__ import main
from llm_variability.report.cosine import average_over_top_p, draw_mean_cosine
from llm_variability.report.figures import INK, save_figure
from llm_variability.report.heatmap import (
    COLOURS,
    arrange_grid,
    choose_text_colour,
    describe_asterisks,
    describe_cell,
    draw_heatmap,
)
from llm_variability.report.level_tests import CELL, LEVEL_TESTS, MARGINAL, View, list_views
from llm_variability.tables import Design, Factor

inputs = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("report_inputs.py"))))


def fits_frame(rows: list[dict[str, object]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=inputs.SCHEMA)


def fitted(setting: tuple[str, str | None], term: str, estimate: float, **given: object):
    return inputs.fit_row(
        "labels",
        "m",
        "e",
        "cell",
        setting,
        **{"term": term, "estimate": estimate, "p_value": 0.2, "converged": True} | given,
    )


def texts_of(figure: object) -> set[str]:
    return {text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))}


def test_estimates_stand_at_their_temperature_and_top_p():
    fits = fits_frame(
        [
            fitted(("1.0", "0.8"), "race[Asian]", 0.1),
            fitted(("0.5", "1.0"), "race[Asian]", -0.2),
            inputs.fit_row("labels", "m", "e", "cell", ("0.5", "0.8"), reason="no variance"),
            fitted(("1.0", "1.0"), "race[Asian]", 0.3),
        ]
    )
    grid = arrange_grid(fits, inputs.DESIGN)
    assert (grid.temperatures, grid.top_ps) == (["0.5", "1.0"], ["0.8", "1.0"])
    np.testing.assert_array_equal(grid.panels[0].estimate, [[np.nan, -0.2], [0.1, 0.3]])
    assert grid.limit == 0.3


def test_the_greedy_cell_of_a_study_of_names_is_one_cell_over_all_top_p():
    rows = [
        fitted(setting, "group[Black]", 0.7 if setting[0] == "0" else 0.1, p_value=0.001)
        for setting in inputs.list_settings(inputs.FULL_GRID)
    ]
    figure = draw_heatmap(fits_frame(rows), inputs.NAMES_DESIGN, "m", View(CELL), "e")
    panel = figure.axes[0]
    found = [text.get_text() for text in panel.texts]
    assert found.count("0.70*") == 1
    assert found.count("0.10*") == 20
    assert [label.get_text() for label in panel.get_yticklabels()][0] == "0\n(greedy)"
    (span,) = [patch for patch in panel.patches if patch.get_width() == 5]
    assert (span.get_xy(), span.get_height()) == ((0, 0), 1)
    assert_texts_are_inside(figure)


def test_text_on_any_colour_of_the_scale_is_the_one_that_stands_out_more():
    # WCAG 2.1: relative luminance L, contrast ratio (L1 + .05) / (L2 + .05).
    def luminance(colour):
        linear = [
            each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4
            for each in to_rgb(colour)
        ]
        return sum(w * each for w, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    def contrast(one, other):
        low, high = sorted((luminance(one), luminance(other)))
        return (high + 0.05) / (low + 0.05)

    for place in range(0, 256, 5):
        colour = matplotlib.colormaps[COLOURS](place)
        chosen = choose_text_colour(colour)
        assert contrast(chosen, colour) == max(contrast(each, colour) for each in (INK, "white"))
        assert contrast(chosen, colour) > 3.8


def test_a_greedy_cell_that_could_not_be_fitted_is_hatched():
    rows = [
        inputs.fit_row("names", "m", "e", "cell", ("0", None), reason="no variance"),
        *(fitted(("1.0", top_p), "group[Black]", 0.1) for top_p in ("0.2", "1.0")),
    ]
    figure = draw_heatmap(fits_frame(rows), inputs.NAMES_DESIGN, "m", View(CELL), "e")
    (span,) = [patch for patch in figure.axes[0].patches if patch.get_width() == 2]
    assert span.get_hatch() == "////"
    assert [text.get_text() for text in figure.axes[0].texts].count("–") == 1


def test_the_greedy_anchor_has_no_row_but_a_fitted_greedy_cell_has():
    greedy = fitted(("0", None), "race[Asian]", 0.7)
    others = [fitted(("1.0", top_p), "race[Asian]", 0.1) for top_p in ("0.2", "1.0")]
    fits = fits_frame([greedy, *others])
    assert arrange_grid(fits, inputs.DESIGN).temperatures == ["1.0"]
    fitted_design = Design("format", inputs.DESIGN.factors, greedy_is_anchor=False)
    grid = arrange_grid(fits, fitted_design)
    np.testing.assert_array_equal(grid.panels[0].estimate, [[0.7, 0.7], [0.1, 0.1]])


@pytest.mark.parametrize(
    ("estimate", "p_value", "reliable", "text"),
    [
        (0.314, 0.049, True, "0.31*"),
        (0.314, 0.05, True, "0.31"),
        (-0.314, 0.001, False, "−0.31†"),
        (np.nan, np.nan, True, "–"),
    ],
)
def test_a_cell_tells_significance_and_trouble(estimate, p_value, reliable, text):
    assert describe_cell(estimate, p_value, reliable) == text


def test_long_names_of_levels_do_not_run_into_each_other():
    levels = ("Latter-day Saint (Mormon)", "Jewish, of an orthodox community", "Muslim", "Hindu")
    design = Design("block", (Factor("faith", (*levels, "none"), "none"),))
    fits = fits_frame([fitted(("1.0", "0.8"), f"faith[{level}]", 0.1) for level in levels])
    figure = draw_heatmap(fits, design, "m", View(CELL), "e")
    figure.savefig(io.BytesIO(), format="png")
    titles = [axes._left_title for axes in figure.axes if axes._left_title.get_text()]
    boxes = [title.get_window_extent() for title in titles]
    assert len(boxes) == len(levels)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


@pytest.mark.parametrize("terms", [1, 8])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 1), (5, 5)])
def test_a_heatmap_fits_any_grid_and_number_of_terms(rows, columns, terms):
    levels = tuple(f"group {index}" for index in range(terms))
    design = Design("block", (Factor("age", (*levels, "young"), "young"),))
    fits = fits_frame(
        [
            fitted((f"{row + 1}.0", f"0.{column + 1}"), f"age[{level}]", 0.1 * row - 0.1)
            for level in levels
            for row in range(rows)
            for column in range(columns)
        ]
    )
    figure = draw_heatmap(fits, design, "m", View(CELL), "e")
    assert {f"{level} (vs. young)" for level in levels} <= texts_of(figure)
    assert_texts_are_inside(figure)


@pytest.mark.parametrize("levels", [1, 2, 9])
def test_a_mean_cosine_figure_fits_any_number_of_levels(levels):
    names = tuple(f"people of group {index}" for index in range(levels))
    design = Design("format", (Factor("age", names, names[0]),))
    means = pl.DataFrame(
        {
            "age": names * 2,
            "temperature": ["0.5"] * levels + ["1.0"] * levels,
            "mean_cosine": [0.1 * index for index in range(2 * levels)],
        }
    )
    figure = draw_mean_cosine(means, design, "m", "all-mpnet-base-v2")
    assert_texts_are_inside(figure)
    lines = figure.axes[0].get_lines()
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines}
    assert len(lines) == len(looks) == levels


def assert_texts_are_inside(figure: Figure) -> None:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    width, height = figure.bbox.size
    for text in figure.findobj(lambda artist: hasattr(artist, "get_text") and artist.get_text()):
        box = text.get_window_extent(renderer)
        assert box.x0 >= -1 and box.x1 <= width + 1, f"{text.get_text()} leaves the figure"
        assert box.y0 >= -1 and box.y1 <= height + 1, f"{text.get_text()} leaves the figure"


def test_a_heatmap_without_any_fit_says_so_and_why():
    rows = [inputs.fit_row("labels", "m", "e", "cell", ("1.0", "1.0"), reason="one format only")]
    texts = " ".join(texts_of(draw_heatmap(fits_frame(rows), inputs.DESIGN, "m", View(CELL), "e")))
    assert "No fit could be made" in texts
    assert "1 setting: one format only" in texts


def test_a_heatmap_of_an_empty_table_says_so():
    texts = " ".join(texts_of(draw_heatmap(fits_frame([]), inputs.DESIGN, "m", View(CELL), "e")))
    assert "No fit could be made" in texts


def test_every_setting_counts_the_same_in_the_average_over_top_p():
    means = pl.DataFrame(
        {
            "race": ["Asian"] * 3,
            "temperature": ["1.0"] * 3,
            "top_p": ["0.2", "0.6", "1.0"],
            "mean_cosine": [0.9, 0.6, 0.3],
            "pairs": [1, 1_000, 1_000],
        }
    )
    design = Design("format", (Factor("race", ("Asian",), "Asian"),))
    assert average_over_top_p(means, design)["mean_cosine"].to_list() == [pytest.approx(0.6)]


def test_a_mean_cosine_figure_has_a_panel_a_level_of_the_second_factor(tmp_path):
    inputs.write_results(tmp_path, models=["m"], encoders=["e"])
    main(
        [
            "cosine",
            "--similarity",
            str(tmp_path / "similarity/labels/m/e.parquet"),
            "--stem",
            str(tmp_path / "figure"),
        ]
    )
    svg = (tmp_path / "figure.svg").read_text()
    for text in ("man", "woman", "African", "White (reference)", "temperature"):
        assert f">{text}</text>" in svg, text


def test_a_mean_cosine_figure_without_pairs_says_so():
    means = pl.DataFrame(
        schema={
            "race": pl.String,
            "gender": pl.String,
            "temperature": pl.String,
            "top_p": pl.String,
            "mean_cosine": pl.Float64,
        }
    )
    texts = texts_of(draw_mean_cosine(means, inputs.DESIGN, "m", "e"))
    assert any("no cosine" in text for text in texts)


def test_a_name_with_dollar_signs_or_markup_is_drawn_as_it_is(tmp_path):
    fits = fits_frame([fitted(("1.0", "1.0"), "race[Asian]", 0.1)])
    figure = draw_heatmap(fits, inputs.DESIGN, "a$b$<script>", View(CELL), "e")
    save_figure(figure, tmp_path / "figure", "a$b$<script>")
    svg = (tmp_path / "figure.svg").read_text()
    assert "a$b$&lt;script&gt;" in svg
    assert "<script" not in svg


def heatmaps(folder: Path, stem: str, *more: str, fits: str = "fits/labels/m/e.parquet") -> None:
    main(
        ["heatmap", "--fits", str(folder / fits), "--model", "m", "--encoder", "e"]
        + ["--stem", str(folder / stem), *more]
    )


def test_one_job_draws_every_test_and_a_figure_is_the_same_bytes_at_every_run(tmp_path):
    inputs.write_results(tmp_path, models=["m"], encoders=["e"], grid=inputs.SMALL_GRID)
    for run in ("first", "second"):
        heatmaps(tmp_path, run)
    keys = [*(test.key for test in LEVEL_TESTS), "text-fixed-marginal", "text-random-marginal"]
    drawn = {path.name for path in tmp_path.glob("first-*")}
    assert drawn == {f"first-{key}.{suffix}" for key in keys for suffix in ("png", "svg", "pdf")}
    for name in drawn:
        second = tmp_path / name.replace("first", "second")
        assert (tmp_path / name).read_bytes() == second.read_bytes(), name


def test_a_study_of_one_factor_has_no_heatmaps_of_marginal_contrasts(tmp_path):
    inputs.write_results(
        tmp_path, "names", ["m"], ["e"], inputs.SMALL_GRID, design=inputs.NAMES_DESIGN
    )
    heatmaps(tmp_path, "h", fits="fits/names/m/e.parquet")
    assert len(list(tmp_path.glob("h-*.svg"))) == len(LEVEL_TESTS)
    assert len(list_views(inputs.DESIGN)) == len(list_views(inputs.NAMES_DESIGN)) + 2


def test_asterisks_stand_for_the_p_value_asked_for_and_say_over_how_many_tests():
    adjusted = {"p_value": 0.01, "p_holm": 0.3, "p_bh": 0.04, "family_size": 1680}
    fits = fits_frame(
        [
            fitted(("1.0", "1.0"), "race[Asian]", 0.1, **adjusted),
            fitted(("1.0", "1.0"), "Intercept", 0.1, p_value=0.001),
        ]
    )
    said = {
        "unadjusted": ("0.10*", "* p < .05 (unadjusted, 1 test)"),
        "holm": ("0.10", "* p < .05 (Holm, 1,680 tests)"),
        "bh": ("0.10*", "* p < .05 (Benjamini-Hochberg, 1,680 tests)"),
    }
    for stars, (cell, note) in said.items():
        figure = draw_heatmap(fits, inputs.DESIGN, "m", View(CELL), "e", stars)
        assert cell in texts_of(figure), stars
        assert any(note in text for text in texts_of(figure)), stars


def test_families_of_several_sizes_are_told_by_the_largest():
    fits = fits_frame(
        [
            fitted(("1.0", top_p), "race[Asian]", 0.1, p_holm=0.1, family_size=size)
            for top_p, size in (("0.2", 4), ("1.0", 7))
        ]
    )
    assert describe_asterisks(fits, "holm") == "* p < .05 (Holm, up to 7 tests)"


def test_adjusted_asterisks_need_an_adjusted_table(tmp_path, caplog):
    inputs.write_results(tmp_path, models=["m"], encoders=["e"], grid=inputs.SMALL_GRID)
    with pytest.raises(SystemExit):
        heatmaps(tmp_path, "h", "--stars", "holm")
    assert "e.parquet: asterisks by --stars holm need an adjusted table, this is a fits table" in (
        caplog.text
    )
    heatmaps(tmp_path, "h", "--stars", "holm", fits="adjusted/labels.parquet")
    svg = (tmp_path / "h-text-fixed.svg").read_text()
    # Two settings, 7 contrasts in each; one model and encoder.
    assert "(Holm, 14 tests)" in svg


@pytest.mark.parametrize("key", [view.key for view in list_views(inputs.DESIGN)])
def test_the_headings_of_every_view_fit_a_small_figure(key):
    (view,) = [each for each in list_views(inputs.DESIGN) if each.key == key]
    coding = MARGINAL[0] if view.is_marginal else "treatment"
    fits = fits_frame(
        [fitted(("1.0", "1.0"), "race[Asian]", 0.1, coding=coding, p_bh=0.1, family_size=12_345)]
    )
    figure = draw_heatmap(fits, inputs.DESIGN, "m", view, "all-distilroberta-v1", "bh")
    assert_texts_are_inside(figure)


def test_bad_input_ends_in_one_line_without_a_traceback(tmp_path, caplog):
    (tmp_path / "broken.parquet").write_bytes(b"not Parquet")
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "heatmap",
                "--fits",
                str(tmp_path / "broken.parquet"),
                "--model",
                "m",
                "--encoder",
                "e",
                "--stem",
                str(tmp_path / "figure"),
            ]
        )
    assert ended.value.code == 1
    assert "broken.parquet: is no table of this project" in caplog.text
    assert "Traceback" not in caplog.text
