"""Line charts over temperature in small panels: one look for lines, panels and legend."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from llm_variability.report.figures import INK, MUTED, RULE

# Okabe and Ito, in an order whose neighbours also differ in grey; yellow is left out (too pale).
COLOURS = ["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"]
MARKERS = ["s", "o", "^", "D", "v", "P", "X", "<", "p", ">", "h", "d"]
DASHES: list[Any] = ["-", "-", "-", "-", (0, (5, 1.5, 1, 1.5)), (0, (1, 1)), (0, (7, 2))]
_SECOND_DASHES: list[Any] = [(0, (4, 1.5))] * 4 + ["-"] * 3

_LEFT, _TOP, _BOTTOM = 0.75, 1.15, 0.55
_PANEL_WIDTH, _PANEL_HEIGHT = 2.9, 2.0
_ROW_HEIGHT = 2.45
_TITLE_CHARACTER = 0.085
_LEGEND_CHARACTERS = 30


@dataclass(frozen=True)
class Line:
    """Values at ascending temperatures; the first is of greedy decoding if at temperature 0."""

    temperatures: Sequence[float]
    values: Sequence[float]


Panel = tuple[str, Mapping[str, Line]]
"""A title, and lines by their name."""


def line_style(rank: int, dashed: bool = False) -> dict[str, Any]:
    """Give colour, marker and dashes by rank; two ranks of one colour differ in the others."""
    turn, place = divmod(rank, len(COLOURS))
    dashes = _SECOND_DASHES if turn % 2 else DASHES
    return {
        "color": COLOURS[place],
        "marker": MARKERS[rank % len(MARKERS)],
        "linestyle": "--" if dashed else dashes[place],
    }


def _draw_line(axes: Axes, line: Line, style: dict[str, Any]) -> None:
    x, y = list(line.temperatures), list(line.values)
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


def draw_legend(
    figure: Figure, title: str, styles: Mapping[str, dict[str, Any]], left: float
) -> None:
    """Draw a legend to the right of `left` (a share of the width), below the headings.

    styles: colour, marker and dashes of each name, as `line_style` gives them.
    """
    handles = [
        Line2D([], [], **style, linewidth=1.6, markersize=5.5, label=_legend_label(name))
        for name, style in styles.items()
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


def _legend_label(name: str) -> str:
    return "\n".join(textwrap.wrap(name, _LEGEND_CHARACTERS)) or name


def longest_line(names: Sequence[str]) -> int:
    """Count the characters of the longest line that a legend of these names has."""
    return max((len(part) for name in names for part in _legend_label(name).split("\n")), default=0)


def _title_lines(title: str) -> str:
    return "\n".join(textwrap.wrap(title, int(_PANEL_WIDTH / _TITLE_CHARACTER)))


def _span(panels: Sequence[Panel]) -> list[float]:
    return sorted(
        {each for _, lines in panels for line in lines.values() for each in line.temperatures}
    )


def draw_panels(
    panels: Sequence[Panel],
    names: Sequence[str],
    *,
    legend: str,
    y_labels: Sequence[str],
    columns: int,
    dashed: str | None = None,
    zero_line: bool = False,
    share_y: bool = True,
) -> Figure:
    """Draw panels of lines over temperature, with one legend to their right and room for headings.

    panels: at least one. names: of all lines, in the legend's order; a line has the same look in
    every panel. y_labels: one for all panels, or one each. dashed: the line of the reference.
    zero_line: mark 0. Greedy decoding has a hollow marker and a dotted line to the next.
    """
    columns = min(len(panels), columns)
    rows = math.ceil(len(panels) / columns)
    styles = {name: line_style(rank, name == dashed) for rank, name in enumerate(names)}
    room = 0.75 + 0.075 * max(longest_line(names), len(legend))
    gap = 0.08 if share_y else 0.28
    width = _LEFT + _PANEL_WIDTH * columns + room
    rows_of_legend = sum(_legend_label(name).count("\n") + 1 for name in names) + 1
    height = max(_TOP + _BOTTOM + _ROW_HEIGHT * rows - 0.45, 1.2 + 0.19 * rows_of_legend)
    figure = Figure(figsize=(width, height))
    grid = figure.subplots(rows, columns, sharex=True, sharey=share_y, squeeze=False)
    figure.subplots_adjust(
        left=_LEFT / width,
        right=1 - room / width,
        top=1 - _TOP / height,
        bottom=1 - (_TOP + _ROW_HEIGHT * rows - 0.45) / height,
        wspace=gap,
        hspace=0.45 / _PANEL_HEIGHT,
    )
    ticks = _span(panels)
    for position, axes in enumerate(grid.flat):
        if position >= len(panels):
            axes.set_visible(False)
            continue
        title, lines = panels[position]
        if zero_line:
            axes.axhline(0, color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        for name, line in lines.items():
            _draw_line(axes, line, styles[name])
        axes.margins(x=0.06)
        axes.grid(axis="y", color=RULE, linewidth=0.5)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=2)
        axes.set_title(_title_lines(title), fontsize=10, fontweight="bold", loc="left")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        if len(y_labels) > 1:
            axes.set_ylabel(y_labels[position])
        elif position % columns == 0:
            axes.set_ylabel(y_labels[0])
        if position + columns >= len(panels):
            axes.set_xlabel("temperature")
            axes.tick_params(labelbottom=True)
    draw_legend(figure, legend, styles, left=1 - (room - 0.03) / width)
    return figure
