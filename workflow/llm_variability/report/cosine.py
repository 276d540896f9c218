"""Raw mean cosine by group and temperature.

Source: homogeneity-bias-robustness, figure 2.
"""

from __future__ import annotations

import math
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from llm_variability.report.figures import INK, MUTED, RULE, figure_style
from llm_variability.tables import Design

# Okabe and Ito, in an order whose neighbours also differ in grey; yellow is left out (too pale).
COLOURS = ["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"]
MARKERS = ["s", "o", "^", "D", "v", "P", "X"]
DASHES: list[Any] = [
    "--",
    "-",
    "-",
    "-",
    (0, (5, 1.5, 1, 1.5)),
    (0, (1, 1)),
    (0, (7, 2)),
]

_PANELS_A_ROW = 3


def average_over_top_p(means: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Average the groups' mean cosines over top-p, every setting counting the same.

    means: the mean cosine table of one model and encoder.
    Returns the factor columns, temperature (float) and mean_cosine, sorted.
    """
    groups = [factor.name for factor in design.factors]
    return (
        means.drop_nulls("mean_cosine")
        .with_columns(pl.col("temperature").cast(pl.Float64))
        .group_by([*groups, "temperature"], maintain_order=True)
        .agg(pl.col("mean_cosine").mean())
        .sort([*groups, "temperature"])
    )


def _panels(averages: pl.DataFrame, design: Design) -> list[tuple[str, pl.DataFrame]]:
    others = [factor for factor in design.factors[1:] if factor.name in averages.columns]
    panels = [("", averages)]
    for factor in others:
        panels = [
            (f"{title}, {level}" if title else level, part.filter(pl.col(factor.name) == level))
            for title, part in panels
            for level in factor.levels
        ]
    return [(title, part) for title, part in panels if part.height]


def _draw_line(axes: Axes, points: pl.DataFrame, style: int) -> None:
    colour = COLOURS[style % len(COLOURS)]
    marker = MARKERS[style % len(MARKERS)]
    x, y = points["temperature"].to_list(), points["mean_cosine"].to_list()
    first_sampled = 1 if x and x[0] == 0 else 0
    dashes = DASHES[style % len(DASHES)]
    axes.plot(
        x[first_sampled:],
        y[first_sampled:],
        color=colour,
        marker=marker,
        markersize=5.5,
        linewidth=1.6,
        linestyle=dashes,
        markeredgecolor="white",
        markeredgewidth=0.5,
    )
    if first_sampled:
        axes.plot(x[:2], y[:2], color=colour, linewidth=0.7, linestyle=":")
        axes.plot(
            x[:1],
            y[:1],
            color=colour,
            marker=marker,
            markersize=5.5,
            linestyle="none",
            markerfacecolor="white",
            markeredgewidth=1.1,
        )


def draw_mean_cosine(means: pl.DataFrame, design: Design, model: str, encoder: str) -> Figure:
    """Draw the mean cosine of one model and encoder: lines by the first factor, panels by the rest.

    The reference level is dashed. Greedy decoding has hollow markers: there all draws of a prompt
    are equal by construction in some studies.
    """
    averages = average_over_top_p(means, design)
    lines = design.factors[0]
    levels = [lines.reference, *(level for level in lines.levels if level != lines.reference)]
    with figure_style():
        panels = _panels(averages, design)
        if not panels:
            figure = Figure(figsize=(6.4, 1.6))
            figure.text(0.03, 0.80, model, fontsize=13, fontweight="bold")
            figure.text(0.03, 0.40, "No group has two texts to compare, so there is no cosine.")
            return figure
        columns = min(len(panels), _PANELS_A_ROW)
        rows = math.ceil(len(panels) / columns)
        width, height = 0.8 + 2.9 * columns + 1.75, 1.25 + 2.55 * rows
        figure = Figure(figsize=(width, height))
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        figure.subplots_adjust(
            left=0.75 / width,
            right=1 - 1.75 / width,
            top=1 - 0.98 / height,
            bottom=0.55 / height,
            wspace=0.08,
            hspace=0.25,
        )
        for position, axes in enumerate(grid.flat):
            if position >= len(panels):
                axes.set_visible(False)
                continue
            title, part = panels[position]
            for style, level in enumerate(levels):
                points = part.filter(pl.col(lines.name) == level)
                if points.height:
                    _draw_line(axes, points, style)
            axes.set_title(title, fontsize=10, fontweight="bold", loc="left")
            ticks = averages["temperature"].unique().sort().to_list()
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.margins(x=0.06)
            axes.grid(axis="y", color=RULE, linewidth=0.5)
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(length=2)
            if position % columns == 0:
                axes.set_ylabel("mean pairwise cosine")
            if position + columns >= len(panels):
                axes.set_xlabel("temperature")
                axes.tick_params(labelbottom=True)
        handles = [
            Line2D(
                [],
                [],
                color=COLOURS[style % len(COLOURS)],
                linewidth=1.6,
                markersize=5.5,
                marker=MARKERS[style % len(MARKERS)],
                linestyle=DASHES[style % len(DASHES)],
                label=f"{level} (reference)" if level == lines.reference else level,
            )
            for style, level in enumerate(levels)
        ]
        figure.legend(
            handles=handles,
            loc="upper left",
            frameon=False,
            handlelength=3.0,
            bbox_to_anchor=(1 - 1.72 / width, 1 - 0.90 / height),
            fontsize=8.5,
            labelcolor=INK,
            title=lines.name,
            title_fontsize=8.5,
            alignment="left",
        )
        figure.text(
            0.15 / width, 1 - 0.12 / height, model, fontsize=13, fontweight="bold", va="top"
        )
        figure.text(
            0.15 / width,
            1 - 0.42 / height,
            f"Raw mean pairwise cosine, averaged over top-p and {design.block} · {encoder}"
            " · hollow: greedy decoding",
            fontsize=8.5,
            color=MUTED,
            va="top",
        )
    return figure
