"""Sensitivity of one model's code as a function of decoding: temperature by top-p, a panel a
method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from llm_variability.config import GREEDY
from llm_variability.report.code.figures import list_methods, of_set
from llm_variability.report.code.names import HEATMAP_KINDS
from llm_variability.report.figures import INK, MUTED, draw_headings, figure_style
from llm_variability.report.heatmap import choose_text_colour
from llm_variability.report.wording import signed

COLOURS = "cividis"
NOT_REACHED = "not reached"
"""A half-life without a number whose reason begins so is longer than the rates that were tried."""

_WORDS = {
    "auc": ("Mean height of the rescaled curve", "1: as alike as at the ceiling, 0: as the floor"),
    "half_life": ("Rate at which half of the way to the floor is gone", "realised rate"),
    "ceiling": ("Similarity of the unaltered prompt's code", "to itself, and to other tasks'"),
}
_CELL_WIDTH, _CELL_HEIGHT, _PANEL_MIN_WIDTH = 0.62, 0.42, 1.6
_LEFT, _RIGHT, _TOP, _BOTTOM, _GAP = 0.95, 1.1, 1.15, 0.75, 0.22
_SCALE_MIN_HEIGHT = 1.3


@dataclass(frozen=True)
class Cell:
    """What stands at a setting: a number, or why there is none."""

    value: float | None
    text: str

    @property
    def is_not_reached(self) -> bool:
        return self.value is None and self.text == NOT_REACHED


Panel = tuple[str, dict[tuple[str, str | None], Cell]]
"""A title, and cells by setting."""


def _cell(value: float | None, reason: str | None) -> Cell:
    if value is not None:
        return Cell(value, signed(value))
    if reason is not None and reason.startswith(NOT_REACHED):
        return Cell(None, NOT_REACHED)
    return Cell(None, "–")


def arrange_panels(
    curves: pl.DataFrame, summaries: pl.DataFrame, model: str, measure: str, kind: str
) -> list[Panel]:
    """Lay one model's numbers out over the settings, all sets together.

    curves, summaries: rows of the tables CURVES and CURVE_SUMMARIES. kind: one of `HEATMAP_KINDS`.
    A panel a method; for the ceiling one of it and one of the floor.
    """
    of_model = (pl.col("model") == model) & (pl.col("measure") == measure) & of_set(None)
    if kind == "ceiling":
        rows = curves.filter(of_model, pl.col("comparison").is_in(["ceiling", "floor"]))
        panels, column = ["ceiling", "floor"], "comparison"
    else:
        rows = summaries.filter(of_model, pl.col("summary") == kind)
        panels, column = list_methods(curves), "method"
    return [
        (
            panel,
            {
                (temperature, top_p): _cell(value, reason)
                for temperature, top_p, value, reason in rows.filter(pl.col(column) == panel)
                .select("temperature", "top_p", "estimate", "reason")
                .iter_rows()
            },
        )
        for panel in panels
    ]


def find_limits(
    curves: pl.DataFrame, summaries: pl.DataFrame, measure: str, kind: str
) -> Normalize:
    """Give the colour scale, the same for all models of a study."""
    values = [
        cell.value
        for model in curves["model"].unique()
        for _, cells in arrange_panels(curves, summaries, model, measure, kind)
        for cell in cells.values()
        if cell.value is not None
    ]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = max(0.0, 0.1 - (high - low)) / 2
    return Normalize(low - room, high + room)


def _draw_cell(
    axes: Axes, column: float, row: int, width: int, cell: Cell, scale: ScalarMappable
) -> None:
    colour = None
    if cell.value is not None:
        colour = tuple(float(part) for part in scale.to_rgba(np.array([cell.value]))[0])
    hatch = None if colour else "...." if cell.is_not_reached else "////"
    axes.add_patch(
        Rectangle(
            (column, row),
            width,
            1,
            facecolor=colour or ("#fbf6e3" if cell.is_not_reached else "#eceef2"),
            edgecolor="#d9d2b4" if cell.is_not_reached else "#b5bbc7",
            hatch=hatch,
            linewidth=0,
        )
    )
    outline = Rectangle((column, row), width, 1, fill=False, edgecolor="white", linewidth=1.2)
    axes.add_patch(outline)
    axes.text(
        column + width / 2,
        row + 0.5,
        cell.text.replace(" ", "\n") if cell.is_not_reached and width == 1 else cell.text,
        ha="center",
        va="center",
        fontsize=6.5 if cell.is_not_reached else 8.5,
        linespacing=1.0,
        color=INK if colour is None else choose_text_colour(colour),
    )


def _draw_panel(
    axes: Axes, panel: Panel, temperatures: list[str], top_ps: list[str], scale: ScalarMappable
) -> None:
    title, cells = panel
    nothing = Cell(None, "–")
    for row, temperature in enumerate(temperatures):
        if temperature == GREEDY:
            cell = cells.get((temperature, None), nothing)
            _draw_cell(axes, 0, row, len(top_ps), cell, scale)
            continue
        for column, top_p in enumerate(top_ps):
            _draw_cell(axes, column, row, 1, cells.get((temperature, top_p), nothing), scale)
    axes.set_xlim(0, len(top_ps))
    axes.set_ylim(len(temperatures), 0)
    axes.set_xticks([at + 0.5 for at in range(len(top_ps))], top_ps)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(title, fontsize=10, fontweight="bold", loc="left", pad=5)
    axes.set_xlabel("top-p", fontsize=8, color=MUTED, labelpad=2)


def draw_code_heatmap(
    curves: pl.DataFrame,
    summaries: pl.DataFrame,
    model: str,
    measure: str,
    kind: str,
    limits: Normalize,
) -> Figure:
    """Draw one model's sensitivity over temperature and top-p.

    curves, summaries: rows of one study. kind: one of `HEATMAP_KINDS`. limits: as `find_limits`
    gives them. Greedy decoding has no top-p, so its cell lies over all of them. A half-life that no
    rate reached is marked.
    """
    panels = arrange_panels(curves, summaries, model, measure, kind)
    of_model = curves.filter(pl.col("model") == model, pl.col("measure") == measure)
    settings = set(of_model.select("temperature", "top_p").rows())
    temperatures = sorted({temperature for temperature, _ in settings}, key=float)
    top_ps = sorted({top_p for _, top_p in settings if top_p}, key=float) or ["any"]
    title, unit = _WORDS[kind]
    subtitle = f"{title}, by temperature and top-p\n{measure} · all sets · {unit}"
    with figure_style():
        if not settings:
            figure = Figure(figsize=(6.4, 1.6))
            draw_headings(figure, model, f"No curve could be made.\n{measure}")
            return figure
        return _draw(panels, temperatures, top_ps, (model, subtitle), limits, kind)


def _draw(
    panels: Sequence[Panel],
    temperatures: list[str],
    top_ps: list[str],
    titles: tuple[str, str],
    limits: Normalize,
    kind: str,
) -> Figure:
    """Place the panels in one row, all sizes in inches."""
    panel_width = max(_CELL_WIDTH * len(top_ps), _PANEL_MIN_WIDTH)
    panel_height = _CELL_HEIGHT * len(temperatures)
    scale_height = max(panel_height, _SCALE_MIN_HEIGHT)
    beside = len(panels) * panel_width + _GAP * (len(panels) - 1)
    width = max(_LEFT + beside + _RIGHT, 6.4)
    height = _TOP + scale_height + _BOTTOM
    scale = ScalarMappable(limits, matplotlib.colormaps[COLOURS])
    figure = Figure(figsize=(width, height))
    draw_headings(figure, *titles)
    for at, panel in enumerate(panels):
        axes = figure.add_axes(
            (
                (_LEFT + at * (panel_width + _GAP)) / width,
                1 - (_TOP + panel_height) / height,
                panel_width / width,
                panel_height / height,
            )
        )
        _draw_panel(axes, panel, temperatures, top_ps, scale)
        names = ["0\n(greedy)" if text == GREEDY else text for text in temperatures]
        places = [row + 0.5 for row in range(len(temperatures))]
        axes.set_yticks(places, [""] * len(names) if at else names)
        if not at:
            axes.set_ylabel("temperature", fontsize=8, color=MUTED)
    box = (
        (_LEFT + beside + 0.25) / width,
        1 - (_TOP + scale_height) / height,
        0.14 / width,
        scale_height / height,
    )
    bar = figure.colorbar(scale, cax=figure.add_axes(box))
    bar.ax.tick_params(length=2, labelsize=8)
    bar.ax.locator_params(nbins=5)
    bar.outline.set_visible(False)
    bar.set_label(HEATMAP_KINDS[kind], fontsize=8, color=MUTED)
    cells = [cell for _, found in panels for cell in found.values()]
    notes = []
    if any(cell.is_not_reached for cell in cells):
        notes.append("not reached: at no rate that was tried")
    if any(cell.text == "–" for cell in cells):
        notes.append("hatched: no number")
    figure.text(0.15 / width, 0.1 / height, "; ".join(notes), fontsize=7.5, color=MUTED)
    return figure
