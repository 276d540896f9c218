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

from llm_variability.report.figures import INK, RULE, draw_headings, figure_style
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


def _line_style(rank: int) -> dict[str, Any]:
    """Colour, marker and dashes of a level; a second round of colours has other markers."""
    turn = rank // len(COLOURS)
    return {
        "color": COLOURS[rank % len(COLOURS)],
        "marker": MARKERS[(rank + turn) % len(MARKERS)],
        "linestyle": DASHES[rank] if rank < len(DASHES) else "-",
    }


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


def _draw_line(axes: Axes, points: pl.DataFrame, rank: int) -> None:
    style = _line_style(rank)
    x, y = points["temperature"].to_list(), points["mean_cosine"].to_list()
    first_sampled = 1 if x and x[0] == 0 else 0
    axes.plot(
        x[first_sampled:],
        y[first_sampled:],
        **style,
        markersize=5.5,
        linewidth=1.6,
        markeredgecolor="white",
        markeredgewidth=0.5,
    )
    if first_sampled:
        axes.plot(x[:2], y[:2], color=style["color"], linewidth=0.7, linestyle=":")
        axes.plot(
            x[:1],
            y[:1],
            **(style | {"linestyle": "none"}),
            markersize=5.5,
            markerfacecolor="white",
            markeredgewidth=1.1,
        )


def _draw_panel(axes: Axes, part: pl.DataFrame, factor: str, levels: list[str]) -> None:
    for rank, level in enumerate(levels):
        points = part.filter(pl.col(factor) == level)
        if points.height:
            _draw_line(axes, points, rank)
    axes.margins(x=0.06)
    axes.grid(axis="y", color=RULE, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=2)


def _draw_legend(figure: Figure, title: str, labels: list[str], left: float) -> None:
    handles = [
        Line2D([], [], **_line_style(rank), linewidth=1.6, markersize=5.5, label=label)
        for rank, label in enumerate(labels)
    ]
    figure.legend(
        handles=handles,
        loc="upper left",
        frameon=False,
        handlelength=3.0,
        bbox_to_anchor=(left, 1 - 0.95 / figure.get_figheight()),
        fontsize=8.5,
        labelcolor=INK,
        title=title,
        title_fontsize=8.5,
        alignment="left",
    )


def draw_mean_cosine(means: pl.DataFrame, design: Design, model: str, encoder: str) -> Figure:
    """Draw the mean cosine of one model and encoder: lines by the first factor, panels by the rest.

    The reference level is dashed. Greedy decoding has hollow markers: there all draws of a prompt
    are equal by construction in some studies.
    """
    averages = average_over_top_p(means, design)
    first = design.factors[0]
    levels = [first.reference, *(level for level in first.levels if level != first.reference)]
    labels = [f"{first.reference} (reference)", *levels[1:]]
    with figure_style():
        panels = _panels(averages, design)
        if not panels:
            figure = Figure(figsize=(6.4, 1.6))
            draw_headings(figure, model, "No group has two texts, so there is no cosine.")
            return figure
        columns = min(len(panels), _PANELS_A_ROW)
        rows = math.ceil(len(panels) / columns)
        legend = 0.75 + 0.075 * max(len(label) for label in [*labels, first.name])
        width, height = 0.75 + 2.9 * columns + legend, 1.6 + 2.45 * rows
        figure = Figure(figsize=(width, height))
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        figure.subplots_adjust(
            left=0.75 / width,
            right=1 - legend / width,
            top=1 - 1.05 / height,
            bottom=0.55 / height,
            wspace=0.08,
            hspace=0.25,
        )
        ticks = averages["temperature"].unique().sort().to_list()
        for position, axes in enumerate(grid.flat):
            if position >= len(panels):
                axes.set_visible(False)
                continue
            title, part = panels[position]
            _draw_panel(axes, part, first.name, levels)
            axes.set_title(title, fontsize=10, fontweight="bold", loc="left")
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            if position % columns == 0:
                axes.set_ylabel("mean pairwise cosine")
            if position + columns >= len(panels):
                axes.set_xlabel("temperature")
                axes.tick_params(labelbottom=True)
        _draw_legend(figure, first.name, labels, left=1 - (legend - 0.03) / width)
        greedy = " · hollow: greedy decoding" if 0 in ticks else ""
        draw_headings(
            figure,
            model,
            f"Mean cosine of pairs, averaged over top-p and {design.block}\n{encoder}{greedy}",
        )
    return figure
