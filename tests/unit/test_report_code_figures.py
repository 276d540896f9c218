"""Figures of studies of code: what is drawn where, read back from the axes."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_rgba

from llm_variability.report.code.figures import (
    choose_setting,
    describe_choice,
    draw_bands,
    draw_curves,
    draw_paraphrases,
)
from llm_variability.report.code.heatmap import (
    arrange_panels,
    draw_code_heatmap,
    find_limits,
)
from llm_variability.report.code.names import list_code_figures, list_code_heatmaps
from llm_variability.report.code.section import locate_code_figures

inputs = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("code_inputs.py"))))
MODELS = ["model-a", "model-b"]
GREEDY = ("0", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    inputs.write_code_results(folder)
    return folder


@pytest.fixture(scope="module")
def curves(folder) -> pl.DataFrame:
    return pl.read_parquet(folder / "curves/code/curves.parquet")


@pytest.fixture(scope="module")
def summaries(folder) -> pl.DataFrame:
    return pl.read_parquet(folder / "curves/code/summaries.parquet")


def list_texts(figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def list_curves(axes) -> list:
    """The lines with markers: a curve each; ceiling and floor have none."""
    return [line for line in axes.lines if line.get_marker() not in ("None", None, "")]


def test_greedy_decoding_is_shown_first_else_the_setting_nearest_to_it(curves):
    assert choose_setting(curves) == GREEDY
    sampled = curves.filter(pl.col("temperature") != "0")
    assert choose_setting(sampled) == ("0.5", "0.8")
    assert "nearest to greedy" in describe_choice(("0.5", "0.8"))
    assert choose_setting(curves.clear()) is None


def test_settings_are_ordered_as_numbers():
    settings = pl.DataFrame({"temperature": ["10.0", "2.0"], "top_p": ["1.0", "1.0"]})
    assert choose_setting(settings) == ("2.0", "1.0")


def test_a_curve_stands_at_its_realised_rates(curves):
    figure = draw_curves(curves, MODELS, "tsed", GREEDY)
    keyboard, synonym, published = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == [*inputs.DECAY]
    first = list_curves(synonym)[0]
    assert first.get_xdata() == pytest.approx([0, 0.2, 0.4, 0.43, 0.43, 0.43])
    heights = [0.3 + 0.6 * math.exp(-x) for x in first.get_xdata()]
    assert first.get_ydata() == pytest.approx(heights)
    assert len(list_curves(keyboard)) == len(list_curves(published)) == 2


def test_ceiling_and_floor_are_lines_with_names(curves):
    figure = draw_curves(curves, MODELS, "tsed", GREEDY)
    heights = {
        line.get_ydata()[0]
        for line in figure.axes[0].lines
        if line not in list_curves(figure.axes[0])
    }
    assert heights == {0.9, 0.3}
    assert list_texts(figure) == ["ceiling", "floor"]


def test_rescaled_curves_begin_at_the_ceiling(curves):
    figure = draw_curves(curves, MODELS, "tsed", GREEDY, rescaled=True)
    for axes in figure.axes:
        for line in list_curves(axes):
            assert line.get_ydata()[0] == pytest.approx(1)
    second = list_curves(figure.axes[0])[1]
    assert second.get_ydata()[1] == pytest.approx(math.exp(-1.5 * 4 * 0.2))


def test_a_wide_interval_does_not_squeeze_the_rescaled_curves(curves):
    wide = curves.with_columns(rescaled_high=pl.lit(50.0))
    figure = draw_curves(wide, MODELS, "tsed", GREEDY, rescaled=True)
    assert figure.axes[0].get_ylim()[1] < 1.2


def test_sets_have_a_row_of_panels_each(curves):
    figure = draw_curves(curves, MODELS, "tsed", GREEDY, by_set=True)
    assert len(figure.axes) == 9
    labels = [axes.get_ylabel().split("\n")[0] for axes in figure.axes[::3]]
    assert labels == [*inputs.TASKS]


def test_a_panel_without_numbers_says_so(curves):
    last = ("1.0", "1.0")  # there the ceiling of the set open is below its floor
    figure = draw_curves(curves, MODELS, "tsed", last, rescaled=True, by_set=True)
    assert list_texts(figure).count("no number") == 3
    assert "no number" not in list_texts(draw_curves(curves, MODELS, "tsed", last, rescaled=True))


def test_a_study_without_methods_says_so(curves):
    bare = curves.filter(pl.col("method").is_null())
    figure = draw_curves(bare, MODELS, "tsed", GREEDY)
    assert any("No prompt was changed" in text.get_text() for text in figure.texts)


def test_an_empty_band_is_empty_and_says_so(curves):
    figure = draw_bands(curves, MODELS, "tsed", GREEDY)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == [
        "original",
        "low",
        "medium",
        "high",
    ]
    (told,) = [text for text in axes.texts if text.get_text() == "no paraphrase"]
    assert told.get_position()[0] == 2
    (first, _) = list_curves(axes)
    assert first.get_ydata() == pytest.approx([0.9, 0.78, math.nan, 0.6], nan_ok=True)


def test_a_band_without_a_row_is_shown_as_empty_too(curves):
    lacking = curves.filter((pl.col("rate") != "high").fill_null(value=True))
    assert list_texts(draw_bands(lacking, MODELS, "tsed", GREEDY)).count("no paraphrase") == 2


def test_paraphrases_are_points_by_band_hollow_if_unused(folder):
    paraphrases = pl.read_parquet(folder / "paraphrases/code.parquet")
    figure = draw_paraphrases(paraphrases, "code")
    (axes,) = figure.axes
    tasks = sum(inputs.TASKS.values())
    sizes = [len(points.get_offsets()) for points in axes.collections]
    # low, medium and high; of each those not used, then those used.
    assert sizes == [0, 2 * tasks, 0, 0, tasks, 2 * tasks]
    unused = axes.collections[4]
    assert len(unused.get_facecolors()) == 0 or np.allclose(unused.get_facecolors()[:, 3], 0)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        f"low: {2 * tasks} of {2 * tasks} used",
        "medium: no paraphrase",
        f"high: {2 * tasks} of {3 * tasks} used",
    ]


def test_bertscore_has_a_panel_of_its_own(folder):
    paraphrases = pl.read_parquet(folder / "paraphrases/code.parquet")
    scored = paraphrases.with_columns(bertscore=pl.col("similarity"))
    assert len(draw_paraphrases(scored, "code").axes) == 2


def test_paraphrases_that_all_failed_make_an_empty_figure(folder):
    paraphrases = pl.read_parquet(folder / "paraphrases/code.parquet").with_columns(
        bleu=pl.lit(None, pl.Float64), used=pl.lit(False)
    )
    assert "no paraphrase" in list_texts(draw_paraphrases(paraphrases, "code"))


def test_a_half_life_that_is_not_reached_is_marked(curves, summaries):
    panels = dict(arrange_panels(curves, summaries, "model-a", "tsed", "half_life"))
    assert panels["keyboard"][GREEDY].value == pytest.approx(math.log(2) / 4)
    assert all(cell.is_not_reached for cell in panels["synonym"].values())
    figure = draw_code_heatmap(
        curves,
        summaries,
        "model-a",
        "tsed",
        "half_life",
        find_limits(curves, summaries, "tsed", "half_life"),
    )
    told = [text.replace("\n", " ") for text in list_texts(figure)]
    assert told.count("not reached") == len(inputs.SETTINGS)
    assert any("not reached: at no rate" in text.get_text() for text in figure.texts)


def test_greedy_decoding_is_one_cell_over_all_top_ps(curves, summaries):
    limits = find_limits(curves, summaries, "tsed", "ceiling")
    figure = draw_code_heatmap(curves, summaries, "model-a", "tsed", "ceiling", limits)
    ceiling, floor = figure.axes[:2]
    assert (ceiling.get_title(loc="left"), floor.get_title(loc="left")) == ("ceiling", "floor")
    wide = [text for text in ceiling.texts if text.get_position() == (1.0, 0.5)]
    assert [text.get_text() for text in wide] == ["0.90"]
    assert [text.get_text() for text in ceiling.texts] == ["0.90", "0.85", "0.85", "0.80", "0.80"]


def test_a_setting_without_a_number_is_hatched(curves, summaries):
    lacking = summaries.filter((pl.col("top_p") != "0.8").fill_null(value=True))
    limits = find_limits(curves, lacking, "tsed", "auc")
    figure = draw_code_heatmap(curves, lacking, "model-a", "tsed", "auc", limits)
    assert [text.get_text() for text in figure.axes[0].texts].count("–") == 2
    hatched = [patch for patch in figure.axes[0].patches if patch.get_hatch() == "////"]
    assert [patch.get_xy() for patch in hatched] == [(0, 1), (0, 2)]
    assert hatched[0].get_facecolor() == to_rgba("#eceef2")


def test_all_models_have_one_scale(curves, summaries):
    limits = find_limits(curves, summaries, "tsed", "auc")
    ends = [0.05, 0.95]
    k, end = 1.5 * 4, 1.0
    assert limits.vmin == pytest.approx((1 - math.exp(-k * end)) / (k * end))
    assert ends[0] < limits.vmin < limits.vmax < ends[1]


def test_a_heatmap_of_equal_numbers_has_a_scale_with_a_width(curves, summaries):
    same = summaries.with_columns(estimate=pl.lit(0.5))
    limits = find_limits(curves, same, "tsed", "auc")
    assert (limits.vmin, limits.vmax) == pytest.approx((0.45, 0.55))


def test_figures_of_paraphrases_are_listed_only_where_there_are_some():
    plain = [each.ending for each in list_code_figures(["tsed", "a-b"], paraphrased=False)]
    assert plain[:2] == ["tsed-curves", "tsed-curves-rescaled"] and len(plain) == 8
    more = [each.ending for each in list_code_figures(["tsed", "a-b"], paraphrased=True)]
    assert set(more) - set(plain) == {"paraphrases", "tsed-bands", "a-b-bands"}


def test_every_figure_is_found_again_by_its_path():
    base = Path("results/figures/code")
    endings = [each.ending for each in list_code_figures(["tsed", "a-auc-b"], paraphrased=True)]
    maps = [each.ending for each in list_code_heatmaps(["tsed", "a-auc-b"])]
    paths = [base / f"code-{ending}.svg" for ending in endings]
    paths += [base / "model.1" / f"code-{ending}.svg" for ending in maps]
    assert set(locate_code_figures(paths)) == {("code", None, ending) for ending in endings} | {
        ("code", "model.1", ending) for ending in maps
    }
    with pytest.raises(ValueError, match=r"x\.png: a figure of a study of code is STUDY/code-NAME"):
        locate_code_figures([base / "x.png"])
