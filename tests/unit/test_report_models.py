"""Figures and tables over all models: counts, estimates, cosines, lengths; and smaller SVG."""

from __future__ import annotations

import io
import itertools
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from llm_variability.draws.counts import count_draws
from llm_variability.report import statements, summaries
from llm_variability.report.comparisons import average_by_temperature, tabulate_signals
from llm_variability.report.cosine import average_over_groups, draw_models_mean_cosine
from llm_variability.report.figures import save_figure
from llm_variability.report.heatmap import draw_heatmap
from llm_variability.report.length import draw_lengths, measure_lengths
from llm_variability.report.level_tests import CELL, PAIRWISE, TEXT_FIXED, View, list_views
from llm_variability.report.lines import line_style
from llm_variability.report.signals import LESS, MORE, draw_signals
from llm_variability.report.svg import compact_svg
from llm_variability.report.trend import draw_trend
from llm_variability.tables import Design, Factor

inputs = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("report_inputs.py"))))

LONG_NAME = "a-model-with-a-really-long-name.of-somebody-2048"
MODELS = [f"model-{number}" for number in range(11)] + [LONG_NAME]


def fits_of(models: list[str], design: Design) -> pl.DataFrame:
    terms = inputs.list_terms(design)
    rows = [
        inputs.fit_row(
            "s",
            model,
            "e",
            "pairwise",
            setting,
            term=term,
            estimate=0.1 * (rank - 4) + 0.02 * place,
            p_value=0.001 if place % 3 else 0.6,
            converged=True,
        )
        for rank, model in enumerate(models)
        for setting in inputs.list_settings(inputs.FULL_GRID)
        for place, term in enumerate(terms)
    ]
    return pl.DataFrame(rows, schema=inputs.SCHEMA)


def undrawn_labels(figure: Figure) -> set[int]:
    """Labels of ticks that lie outside of their axis's range."""
    undrawn = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if not low <= tick.get_loc() <= high:
                    undrawn |= {id(tick.label1), id(tick.label2)}
    return undrawn


def assert_texts_are_readable(figure: Figure) -> None:
    """Every text lies inside the figure and no two overlap."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    width, height = figure.bbox.size
    undrawn = undrawn_labels(figure)
    boxes = []
    for text in figure.findobj(Text):
        if not text.get_visible() or not text.get_text().strip() or id(text) in undrawn:
            continue
        box = text.get_window_extent(renderer)
        assert box.x0 >= -1 and box.x1 <= width + 1, f"{text.get_text()} leaves the figure"
        assert box.y0 >= -1 and box.y1 <= height + 1, f"{text.get_text()} leaves the figure"
        boxes.append((text.get_text(), box.padded(-1)))
    for (one, box), (other, beside) in itertools.combinations(boxes, 2):
        assert not box.overlaps(beside), f"{one!r} and {other!r} overlap"


def texts_of(figure: Figure) -> list[str]:
    return [
        text.get_text()
        for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))
        if text.get_text()
    ]


# ---------------------------------------------------------------------------------- bars of counts


def signal_rows(*rows: tuple[str, str, int, int, int]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "contrast": contrast,
                "model": model,
                "settings": settings,
                "positive": positive,
                "negative": negative,
                "significant_holm": positive // 2,
                "interaction": "×" in contrast,
            }
            for contrast, model, settings, positive, negative in rows
        ]
    )


def test_bars_are_as_long_as_the_counts_and_red_is_more_homogeneous():
    figure = draw_signals(
        signal_rows(("Asian (vs. White)", "m", 20, 7, 12)), ["m"], "cell level", "e"
    )
    bars = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    spans = {patch.get_facecolor(): (patch.get_x(), patch.get_width()) for patch in bars}
    shades = {name: matplotlib_colour(name) for name in (MORE, LESS, "#eceef2")}
    assert spans[shades[MORE]] == (0, 7)
    assert spans[shades[LESS]] == (7, 12)
    assert spans[shades["#eceef2"]] == (0, 20)
    assert {"7+", "12−", "19/20 (3)"} <= set(texts_of(figure))


def matplotlib_colour(name: str) -> tuple[float, ...]:
    from matplotlib.colors import to_rgba

    return to_rgba(name)


def test_the_directions_differ_without_colour():
    figure = draw_signals(
        signal_rows(("Asian (vs. White)", "m", 20, 7, 12)), ["m"], "cell level", "e"
    )
    hatched = [patch.get_hatch() for patch in figure.axes[0].patches if patch.get_width() == 12]
    plain = [patch.get_hatch() for patch in figure.axes[0].patches if patch.get_width() == 7]
    assert (hatched, plain) == (["////"], [None])


def test_interactions_are_not_among_the_bars_and_a_model_without_a_fit_says_so():
    rows = signal_rows(("Asian (vs. White)", "m", 20, 7, 12), ("Asian × woman", "m", 20, 1, 1))
    figure = draw_signals(rows, ["m", "other"], "cell level", "e")
    assert "Asian × woman" not in texts_of(figure)
    assert "no fit" in texts_of(figure)


@pytest.mark.parametrize("design", [inputs.DESIGN, inputs.NAMES_DESIGN], ids=["labels", "names"])
@pytest.mark.parametrize("number", [1, 2, 7, 12])
def test_figures_over_all_models_are_readable_with_any_number_of_them(design, number):
    models = MODELS[-number:]
    fits = fits_of(models, design)
    signals = tabulate_signals(fits, design)
    for view in list_views(design):
        label = view.explain(design, view.test.label)
        assert_texts_are_readable(draw_signals(signals, models, label, "all-mpnet-base-v2"))
    trend = average_by_temperature(fits, design)
    label = View(PAIRWISE).explain(design, "pairwise level")
    figure = draw_trend(trend, models, View(PAIRWISE), "all-mpnet-base-v2", label)
    assert_texts_are_readable(figure)


def test_figures_without_any_fit_say_so():
    fits = fits_of(["m"], inputs.DESIGN).clear()
    signals = tabulate_signals(fits, inputs.DESIGN)
    trend = average_by_temperature(fits, inputs.DESIGN)
    for figure in (
        draw_signals(signals, ["m"], "cell level", "e"),
        draw_trend(trend, ["m"], View(CELL), "e", "cell level"),
    ):
        assert any("No fit could be made" in text for text in texts_of(figure))


# ------------------------------------------------------------------------------------------- lines


def test_twelve_models_have_twelve_looks():
    looks = {
        (style["color"], style["marker"], str(style["linestyle"]))
        for style in map(line_style, range(12))
    }
    assert len(looks) == 12
    assert len({line_style(rank)["marker"] for rank in range(12)}) == 12
    for rank in range(5):
        first, second = line_style(rank), line_style(rank + 7)
        assert first["color"] == second["color"]
        assert first["linestyle"] != second["linestyle"]


def test_a_model_has_the_same_look_in_every_panel():
    models = MODELS[:5]
    fits = fits_of(models, inputs.DESIGN).filter(
        (pl.col("model") != "model-1") | (pl.col("term") != "race[African]")
    )
    averages = average_by_temperature(fits, inputs.DESIGN)
    figure = draw_trend(averages, models, View(CELL), "e", "cell level")
    first, second = (
        {line.get_color() for line in axes.get_lines() if line.get_linewidth() == 1.6}
        for axes in figure.axes[:2]
    )
    assert first < second
    assert len(second) == 5


def test_estimates_of_cell_means_are_in_their_own_unit():
    averages = average_by_temperature(fits_of(["m"], inputs.NAMES_DESIGN), inputs.NAMES_DESIGN)
    for test, unit in ((CELL, "SD of cell means"), (TEXT_FIXED, "SD of cosine")):
        figure = draw_trend(averages, ["m"], View(test), "e", test.label)
        assert f"mean β ({unit})" in texts_of(figure)


def test_estimates_by_temperature_stand_where_they_belong():
    fits = fits_of(["m"], inputs.NAMES_DESIGN)
    averages = average_by_temperature(fits, inputs.NAMES_DESIGN)
    figure = draw_trend(averages, ["m"], View(PAIRWISE), "e", "pairwise level")
    drawn = [line for line in figure.axes[0].get_lines() if line.get_linewidth() == 1.6][0]
    black = averages.filter(pl.col("term") == "group[Black]")
    assert list(drawn.get_xdata()) == [0.5, 1.0, 1.5, 2.0]
    assert list(drawn.get_ydata()) == pytest.approx(black["mean_estimate"].to_list()[1:])


# ------------------------------------------------------------------------------------ mean cosine


def test_every_setting_and_group_counts_the_same_in_a_models_mean_cosine():
    means = pl.DataFrame(
        {
            "model": ["b"] * 4 + ["a"],
            "race": ["White"] * 4 + ["Asian"],
            "gender": ["man", "woman"] * 2 + ["man"],
            "temperature": ["1.0"] * 5,
            "top_p": ["0.2", "0.2", "1.0", "1.0", "1.0"],
            "mean_cosine": [0.8, 0.6, 0.4, 0.2, 0.7],
            "pairs": [1, 1_000, 1, 1, 1],
        }
    )
    table = average_over_groups(means, inputs.DESIGN)
    assert table.rows() == [
        ("b", "race", "White", "1.0", 2, pytest.approx(0.5)),
        ("a", "race", "Asian", "1.0", 1, 0.7),
    ]


def test_a_factor_may_have_any_name():
    design = Design("format", (Factor("rank", ("old", "young"), "young"),))
    means = pl.DataFrame(
        {
            "model": ["m"] * 2,
            "rank": ["young", "old"],
            "temperature": ["1.0"] * 2,
            "top_p": ["1.0"] * 2,
            "mean_cosine": [0.1, 0.2],
        }
    )
    table = average_over_groups(means, design)
    assert table.select("factor", "factor_level").rows() == [("rank", "old"), ("rank", "young")]


@pytest.mark.parametrize("number", [1, 7, 12])
def test_a_mean_cosine_figure_has_a_panel_a_model(number):
    averages = pl.DataFrame(
        [
            (model, "race", race, temperature, 5, 0.9 - 0.2 * float(temperature) + 0.02 * rank)
            for model in MODELS[-number:]
            for rank, race in enumerate(inputs.RACES)
            for temperature in ("0", "0.5", "1.0")
        ],
        schema=["model", "factor", "factor_level", "temperature", "settings", "mean_cosine"],
        orient="row",
    )
    figure = draw_models_mean_cosine(averages, inputs.DESIGN, "all-mpnet-base-v2")
    assert sum(axes.get_visible() for axes in figure.axes) == number
    assert "White (reference)" in texts_of(figure)
    assert_texts_are_readable(figure)


# ------------------------------------------------------------------------------- length of answers


@given(st.lists(st.none() | st.text(st.sampled_from("ab \n\t\u00a0.é中"), max_size=20), min_size=1))
def test_words_are_what_white_space_parts(texts):
    draws = pl.DataFrame(
        {
            "prompt_id": ["p"] * len(texts),
            "format": ["f"] * len(texts),
            "text": texts,
            "status": ["ok"] * len(texts),
            "completion_tokens": [1] * len(texts),
        },
        schema_overrides={"text": pl.String},
    )
    counted = count_draws(draws, "1.0", "1.0", ["format"])
    assert counted["words"].to_list() == [sum(len(text.split()) for text in texts if text)]


def cells_of(*rows: tuple[str, str, int, int, int, int]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "model": model,
                "temperature": temperature,
                "draws": ok + truncated + empty,
                "ok": ok,
                "truncated": truncated,
                "empty": empty,
                "words": words,
            }
            for model, temperature, ok, truncated, empty, words in rows
        ]
    )


def test_mean_words_are_of_measured_texts_and_shares_are_of_draws():
    cells = cells_of(
        ("m", "1.0", 6, 2, 2, 240), ("m", "1.0", 10, 0, 0, 210), ("m", "0.5", 4, 0, 0, 80)
    )
    overall, low, high = measure_lengths(cells).to_dicts()
    assert overall["temperature"] is None
    # 22 texts of 530 words; 24 draws, 2 of them cut and 2 empty.
    assert (overall["texts"], overall["words"], overall["draws"]) == (22, 530, 24)
    assert overall["mean_words"] == pytest.approx(530 / 22)
    assert (low["temperature"], low["mean_words"]) == ("0.5", 20.0)
    # At 1.0: 18 texts of 450 words, 20 draws.
    assert high["mean_words"] == pytest.approx(25.0)
    assert (high["truncated_share"], high["empty_share"]) == (0.1, 0.1)


def test_a_model_without_a_text_has_no_mean_length():
    lengths = measure_lengths(cells_of(("m", "1.0", 0, 0, 3, 0)))
    assert lengths["mean_words"].to_list() == [None, None]
    assert lengths["empty_share"].to_list() == [1.0, 1.0]
    assert statements.describe_lengths(lengths) == "No answer has a text to measure."


def test_the_caption_of_lengths_names_the_shortest_the_longest_and_the_most_cut():
    cells = cells_of(
        ("terse", "1.0", 10, 0, 0, 200),
        ("wordy", "1.0", 6, 4, 0, 450),
        ("plain", "1.0", 10, 0, 0, 300),
    )
    assert statements.describe_lengths(measure_lengths(cells)) == (
        "terse writes 20.0 words a text, wordy 45.0; the others are between them."
        " Of the draws, at most 40% are cut at the token limit (wordy) and none is empty."
    )


@pytest.mark.parametrize("number", [1, 7, 12])
def test_a_figure_of_lengths_is_readable(number):
    cells = cells_of(
        *(
            (model, temperature, 90 - rank, 5 + rank, 5, (2_500 + 150 * rank))
            for rank, model in enumerate(MODELS[-number:])
            for temperature in ("0", "0.5", "1.0", "1.5", "2.0")
        )
    )
    figure = draw_lengths(measure_lengths(cells), "labels")
    assert_texts_are_readable(figure)
    for axes in figure.axes:
        low, high = axes.get_ylim()
        values = [value for line in axes.get_lines() for value in line.get_ydata()]
        assert low < min(values) and max(values) < high


# ------------------------------------------------------------------------------- texts that are cut


def test_a_text_longer_than_its_encoder_takes_is_an_alarm():
    counts = pl.DataFrame(
        [("m", "e", 200, 1), ("m", "f", 200, 0)],
        schema=["model", "encoder", "texts", "over_long"],
        orient="row",
    )
    assert list(statements.describe_over_long(counts)) == [
        "m: 1 of 200 texts (0.5%) is longer than e takes, so only the beginning is measured."
    ]


def test_texts_that_an_encoder_cuts_are_counted_by_study_model_and_encoder(tmp_path):
    inputs.write_results(
        tmp_path, models=["m"], encoders=["e"], grid=inputs.SMALL_GRID, over_long=3
    )
    counted = summaries.count_over_long(tmp_path / "similarity/labels/m/e.parquet")
    # 24 prompts: 2 greedy draws and 5 at each of two settings.
    assert counted.select("study", "model", "encoder", "texts", "over_long").rows() == [
        ("labels", "m", "e", 24 * 12, 3)
    ]


# --------------------------------------------------------------------------------------------- SVG


def drawn_parts(text: str) -> tuple[list[str], int]:
    root = ElementTree.fromstring(text)
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    return texts, len(list(root.iter("{http://www.w3.org/2000/svg}path")))


@pytest.mark.parametrize("name", ["Qwen3-8B", 'x style="fill: red" <b> & a$b$'])
def test_a_smaller_svg_has_every_text_and_path(tmp_path, name):
    fits = fits_of([name], inputs.DESIGN)
    figure = draw_heatmap(fits, inputs.DESIGN, name, View(PAIRWISE), "e")
    save_figure(figure, tmp_path / "figure", name)
    text = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    smaller = compact_svg(text)
    assert drawn_parts(smaller) == drawn_parts(text)
    assert name in drawn_parts(smaller)[0]
    assert len(smaller) < 0.6 * len(text)


def test_an_svg_that_is_damaged_is_told_in_one_line():
    with pytest.raises(ValueError, match="an SVG figure is damaged"):
        compact_svg("<svg><g></svg>")


def test_a_style_of_one_element_stays_there_and_one_of_several_is_shared():
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg">'
        '<g id="a"><path d="M 0 0.123456 \nL 1 1" style="fill: red"/></g>'
        '<path d="M 1 1" style="fill: red"/><text style="fill: blue" x="1"> a  b </text></svg>'
    )
    smaller = compact_svg(svg)
    assert smaller.count("fill: red") == 1
    assert smaller.count('class="s0"') == 2
    assert 'd="M0 0.12L1 1"' in smaller
    assert '<text style="fill: blue" x="1"> a  b </text>' in smaller


coordinates = st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(st.lists(coordinates, min_size=2, max_size=8), st.booleans())
def test_a_path_of_lines_goes_through_the_same_points_when_written_shorter(points, closed):
    path = "M " + " L ".join(f"{x} {y}" for x, y in points) + (" z" if closed else "")
    svg = f'<svg xmlns="http://www.w3.org/2000/svg"><path d="{path}"/></svg>'
    short = ElementTree.fromstring(compact_svg(svg))[1].attrib["d"]
    assert short.endswith("z") == closed
    walked: list[tuple[int, int]] = []
    for command, rest in re.findall(r"([MLHV])([^MLHVz]*)", short):
        numbers = [int(each) for each in rest.split()]
        if command == "H":
            walked.append((numbers[0], walked[-1][1]))
        elif command == "V":
            walked.append((walked[-1][0], numbers[0]))
        else:
            walked.append((numbers[0], numbers[1]))
    assert walked == points


def test_paths_that_differ_in_their_fill_share_the_rest_of_their_style():
    svg = '<svg xmlns="http://www.w3.org/2000/svg">' + "".join(
        f'<path d="M 1 1" style="fill: {fill}; stroke: #ffffff"/>'
        for fill in ("#ff0000", "#00ff00")
    )
    smaller = compact_svg(f"{svg}</svg>")
    assert smaller.count("stroke: #ffffff") == 1
    assert 'fill="#ff0000" class="s0"' in smaller
    assert 'fill="#00ff00" class="s0"' in smaller


def test_a_smaller_figure_is_the_same_bytes_at_every_run():
    figure = draw_signals(
        signal_rows(("Asian (vs. White)", "m", 20, 7, 12)), ["m"], "cell level", "e"
    )
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    assert compact_svg(text.getvalue()) == compact_svg(text.getvalue())


def test_arguments_that_a_template_ignores_are_said_once_each() -> None:
    sessions = [
        {"began": "1", "ignored_template_args": ["budget", "effort"]},
        {"began": "2", "ignored_template_args": ["budget"]},
        {"began": "before this was recorded"},
    ]
    assert list(statements.describe_ignored_arguments("m", sessions)) == [
        "m: its chat template ignores budget and effort: the rendered prompt is the same without."
    ]
    assert list(statements.describe_ignored_arguments("m", [{}])) == []
