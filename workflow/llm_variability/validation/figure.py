"""The samples, all texts and the published values as dots."""

from __future__ import annotations

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from llm_variability.report.figures import INK, MUTED, RULE, draw_headings, figure_style
from llm_variability.validation.comparison import collect_values
from llm_variability.validation.lee2024 import PUBLISHED, PUBLISHED_ENCODER, PublishedValue
from llm_variability.validation.sampling import ALL_TEXTS

# Okabe and Ito: they stay apart for every kind of colour vision, and in grey.
SAMPLE = "#0072B2"
WHOLE = "#D55E00"
BAND = "#d9dde5"

_HALF_ROW = 0.34
_SPREAD = 0.22


def _draw_row(axes: Axes, y: float, value: PublishedValue, measured: dict[str, float]) -> None:
    seeds = [each for seed, each in measured.items() if seed != ALL_TEXTS]
    # Seeds lie below one another in their order, so that equal values stay visible.
    step = 2 * _SPREAD / max(len(seeds) - 1, 1)
    heights = [y - _SPREAD + step * i if len(seeds) > 1 else y for i in range(len(seeds))]
    axes.fill_betweenx(
        [y - _HALF_ROW, y + _HALF_ROW], value.low, value.high, color=BAND, linewidth=0, zorder=1
    )
    if value.number is not None:
        axes.plot(
            [value.number] * 2,
            [y - _HALF_ROW, y + _HALF_ROW],
            color=MUTED,
            linewidth=1.2,
            zorder=6,
        )
    axes.plot(
        [measured[ALL_TEXTS]],
        [y],
        marker="D",
        markersize=7.5,
        markerfacecolor="white",
        markeredgecolor=WHOLE,
        markeredgewidth=1.6,
        linestyle="none",
        zorder=5,
    )
    axes.plot(
        seeds,
        heights,
        marker="o",
        markersize=4,
        color=SAMPLE,
        linestyle="none",
        markeredgecolor="white",
        markeredgewidth=0.4,
        zorder=4,
    )


def _draw_panel(
    axes: Axes, values: list[PublishedValue], estimates: pl.DataFrame, means: pl.DataFrame
) -> None:
    for y, value in enumerate(values):
        _draw_row(axes, y, value, collect_values(estimates, means, value))
    axes.set_yticks(range(len(values)), [value.name for value in values])
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.tick_params(length=2)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=RULE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def draw_comparison(
    estimates: pl.DataFrame, means: pl.DataFrame, *, encoder: str, per_cell: int
) -> Figure:
    """Draw the values of every seed, of all texts, and as published: a panel a measure.

    estimates, means: as `measure_samples` gives them. The grey band holds all values that are
    printed as the published one when rounded, the line in it is the number itself. Where a range
    is printed there is no line.
    """
    coefficients = [value for value in PUBLISHED if value.measure == "coefficient"]
    cosines = [value for value in PUBLISHED if value.measure == "mean cosine"]
    with figure_style():
        width, height = 7.6, 3.9
        figure = Figure(figsize=(width, height))
        left, right = figure.subplots(1, 2)
        figure.subplots_adjust(
            left=0.85 / width,
            right=1 - 0.2 / width,
            top=1 - 1.0 / height,
            bottom=0.95 / height,
            wspace=0.32,
        )
        _draw_panel(left, coefficients, estimates, means)
        left.axvline(0, color=INK, linewidth=0.8, zorder=0)
        left.set_xlabel("coefficient, standard deviations of the cosine")
        _draw_panel(right, cosines, estimates, means)
        right.set_xlabel("mean pairwise cosine")
        handles = [
            Line2D([], [], marker="o", color=SAMPLE, linestyle="none", markersize=4),
            Line2D(
                [],
                [],
                marker="D",
                linestyle="none",
                markersize=7,
                markerfacecolor="white",
                markeredgecolor=WHOLE,
                markeredgewidth=1.6,
            ),
            Patch(facecolor=BAND, edgecolor=MUTED),
        ]
        figure.legend(
            handles,
            [
                f"a seed's sample, {per_cell} texts a cell",
                "all texts",
                "published, and what rounds to it",
            ],
            loc="lower left",
            bbox_to_anchor=(0.1 / width, 0.03 / height),
            ncols=3,
            frameon=False,
            fontsize=8.5,
            labelcolor=INK,
        )
        n_seeds = estimates.filter(pl.col("seed") != ALL_TEXTS)["seed"].n_unique()
        draw_headings(
            figure,
            "GPT-3.5 texts of Lee et al. 2024",
            f"{n_seeds} sampling seeds, measured with {encoder}\n"
            f"Published: homogeneity paper, appendix D, measured with {PUBLISHED_ENCODER}",
        )
    return figure
