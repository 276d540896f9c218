"""The beta heatmap of one model: temperature by top-p, one panel a contrast.

Source: homogeneity-bias-robustness, appendix E.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import seaborn
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from llm_variability.config import GREEDY
from llm_variability.report.contrasts import (
    ASTERISKS,
    SIGNIFICANCE,
    Contrast,
    is_anchor,
    is_intercept,
    list_contrasts,
    reference_note,
)
from llm_variability.report.figures import INK, MUTED, draw_headings, figure_style
from llm_variability.report.level_tests import View
from llm_variability.report.wording import signed
from llm_variability.tables import Design

Array = npt.NDArray[np.float64]

COLOURS = "RdBu_r"

_CELL_HEIGHT = 0.38
_CELL_WIDTH = 0.53
_PANEL_MIN_WIDTH = 1.65
_PANELS_WIDTH = 7.6
_GAP = 0.22
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.95, 1.25, 1.05, 0.60
_ROW_GAP = 0.78
_SCALE_MIN_HEIGHT = 1.5
_TITLE_LINE = 0.17
_TITLE_CHARACTER = 0.085
_SECONDARY = 0.82


@dataclass(frozen=True)
class Panel:
    """One contrast over the grid: (temperatures, top-ps) arrays, NaN where there is no fit."""

    contrast: Contrast
    estimate: Array
    p_value: Array
    reliable: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Grid:
    """The axes of a heatmap, and its panels."""

    temperatures: list[str]
    top_ps: list[str]
    panels: list[Panel]

    @property
    def limit(self) -> float:
        """The largest absolute estimate: the colour scale runs from its negative to it."""
        sizes = [np.nanmax(np.abs(each.estimate)) for each in self.panels if self._any(each)]
        return max([float(size) for size in sizes], default=0.0) or 0.1

    @staticmethod
    def _any(panel: Panel) -> bool:
        return bool(np.isfinite(panel.estimate).any())


def arrange_grid(fits: pl.DataFrame, design: Design, p_column: str = "p_value") -> Grid:
    """Lay the fits of one model, measure and view out over temperature x top-p.

    Settings in which nothing is fitted by design have no row. Greedy decoding, where it is
    fitted, has one fit, which stands under every top-p.
    """
    fits = fits.filter(~is_anchor(design))
    temperatures = sorted(fits["temperature"].unique(), key=float)
    top_ps = sorted(fits["top_p"].drop_nulls().unique(), key=float) or ["any"]
    rows = {text: index for index, text in enumerate(temperatures)}
    columns = {text: [index] for index, text in enumerate(top_ps)}
    everywhere = list(range(len(top_ps)))
    shape = (len(temperatures), len(top_ps))

    panels = []
    for contrast in list_contrasts(fits["term"], design):
        estimate, p_value = np.full(shape, np.nan), np.full(shape, np.nan)
        reliable = np.ones(shape, dtype=bool)
        of_term = fits.filter(pl.col("term") == contrast.term)
        for temperature, top_p, beta, p, converged in of_term.select(
            "temperature", "top_p", "estimate", p_column, "converged"
        ).iter_rows():
            where = (rows[temperature], everywhere if top_p is None else columns[top_p])
            estimate[where] = np.nan if beta is None else beta
            p_value[where] = np.nan if p is None else p
            reliable[where] = converged
        panels.append(Panel(contrast, estimate, p_value, reliable))
    return Grid(temperatures, top_ps, panels)


def describe_cell(estimate: float, p_value: float, reliable: bool) -> str:
    """Write what stands in a cell: `0.31*`, a dagger for a fit not to be relied on, or a dash."""
    if math.isnan(estimate):
        return "–"
    if not reliable:
        return f"{signed(estimate)}†"
    return f"{signed(estimate)}*" if p_value < SIGNIFICANCE else signed(estimate)


def choose_text_colour(background: str | tuple[float, ...] | Array) -> str:
    """Give that of dark and white text which has the higher contrast ratio on a colour."""
    paper = seaborn.utils.relative_luminance(background)
    ink = seaborn.utils.relative_luminance(INK)
    on_white, on_ink = 1.05 / (paper + 0.05), (paper + 0.05) / (ink + 0.05)
    return INK if on_ink >= on_white else "white"


def _title_lines(panel: Panel, width: float, secondary: bool) -> list[str]:
    """Break a panel's title into lines that its width in inches holds."""
    character = _TITLE_CHARACTER * (0.8 if secondary else 1)
    return textwrap.wrap(panel.contrast.label, max(8, int(width / character))) or [""]


def _greedy_row(grid: Grid) -> int | None:
    return grid.temperatures.index(GREEDY) if GREEDY in grid.temperatures else None


def _draw_greedy_row(axes: Axes, panel: Panel, row: int, mesh: QuadMesh, size: float) -> None:
    """Draw the row of greedy decoding as one cell over all top-p, since it has one fit."""
    estimate, width = panel.estimate[row, 0], panel.estimate.shape[1]
    colour = mesh.cmap(mesh.norm(estimate)) if np.isfinite(estimate) else None
    axes.add_patch(
        Rectangle(
            (0, row),
            width,
            1,
            facecolor=colour or "#eceef2",
            edgecolor="white" if colour else "#b5bbc7",
            hatch=None if colour else "////",
            lw=1.2 if colour else 0,
        )
    )
    axes.text(
        width / 2,
        row + 0.5,
        describe_cell(estimate, panel.p_value[row, 0], bool(panel.reliable[row, 0])),
        ha="center",
        va="center",
        fontsize=size,
        color=INK if colour is None else choose_text_colour(colour),
    )


def _draw_panel(axes: Axes, panel: Panel, grid: Grid, secondary: bool) -> QuadMesh:
    unfitted = np.isnan(panel.estimate)
    size = 8.5 * (_SECONDARY if secondary else 1)
    greedy = _greedy_row(grid)
    described = np.frompyfunc(describe_cell, 3, 1)
    labels = np.asarray(described(panel.estimate, panel.p_value, panel.reliable))
    if greedy is not None:
        labels[greedy] = ""
    seaborn.heatmap(
        panel.estimate,
        ax=axes,
        mask=unfitted,
        annot=labels,
        fmt="",
        annot_kws={"fontsize": size},
        cmap=COLOURS,
        vmin=-grid.limit,
        vmax=grid.limit,
        linewidths=1.2,
        linecolor="white",
        cbar=False,
        xticklabels=grid.top_ps,
        yticklabels=["0\n(greedy)" if text == GREEDY else text for text in grid.temperatures],
    )
    mesh = axes.collections[0]
    assert isinstance(mesh, QuadMesh)
    mesh.set_clip_on(False)  # it fills the panel exactly; a clip path a cell would bloat the SVG
    for text in axes.texts:
        column, row = (int(place) for place in text.get_position())
        text.set_color(choose_text_colour(mesh.cmap(mesh.norm(panel.estimate[row, column]))))
    if greedy is not None:
        _draw_greedy_row(axes, panel, greedy, mesh, size)
    for text in axes.texts:
        text.set_fontweight("bold" if text.get_text().endswith("*") else "normal")
    for row, column in np.argwhere(unfitted):
        if row == greedy:
            continue
        axes.add_patch(
            Rectangle(
                (column, row), 1, 1, facecolor="#eceef2", edgecolor="#b5bbc7", hatch="////", lw=0
            )
        )
        axes.text(column + 0.5, row + 0.5, "–", ha="center", va="center", fontsize=size)
    axes.tick_params(length=0, labelsize=size, labelrotation=0)
    axes.set_title(
        "\n".join(_title_lines(panel, axes.bbox.width / axes.figure.dpi, secondary)),
        fontsize=8.5 if secondary else 10,
        fontweight="normal" if secondary else "bold",
        color=MUTED if secondary else INK,
        loc="left",
        pad=5,
    )
    return mesh


def _no_fit_figure(fits: pl.DataFrame, titles: tuple[str, str]) -> Figure:
    reasons = fits["reason"].drop_nulls().value_counts(sort=True).iter_rows()
    lines = ["No fit could be made, so there is nothing to colour.", ""]
    for reason, count in list(reasons)[:6]:
        times = "1 setting" if count == 1 else f"{count} settings"
        lines += textwrap.wrap(f"{times}: {reason}", 84, subsequent_indent="    ")
    height = 1.5 + 0.19 * len(lines)
    figure = Figure(figsize=(7.5, height))
    draw_headings(figure, *titles)
    figure.text(0.02, 1 - 1.05 / height, "\n".join(lines), va="top", fontsize=9.5, linespacing=1.4)
    return figure


def _rows_of(panels: list[Panel], panel_width: float) -> list[list[Panel]]:
    """Break panels into as few rows as fit the width, about equally long."""
    fitting = max(1, int((_PANELS_WIDTH + _GAP) / (panel_width + _GAP)))
    length = math.ceil(len(panels) / max(1, math.ceil(len(panels) / fitting)))
    return [panels[at : at + length] for at in range(0, len(panels), max(1, length))]


def _draw_scale(
    figure: Figure, mesh: QuadMesh, box: tuple[float, float, float, float], unit: str
) -> None:
    axes = figure.add_axes(box)
    figure.colorbar(mesh, cax=axes)
    axes.tick_params(length=2, labelsize=8)
    axes.yaxis.set_major_formatter(lambda value, _: signed(value, 2))
    axes.locator_params(nbins=5)
    axes.set_ylabel(f"β ({unit})\nred: more homogeneous", fontsize=8, color=MUTED)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _notes(grid: Grid, marginal: bool) -> str:
    notes = []
    if not all(np.isfinite(panel.estimate).all() for panel in grid.panels):
        notes.append("hatched: no fit could be made")
    if not all(panel.reliable.all() for panel in grid.panels):
        notes.append("†: the fit did not converge")
    if any(panel.contrast.is_interaction for panel in grid.panels):
        notes.append(
            "small panels: differences of differences"
            if marginal
            else "small panels: interactions, added to the sum of their parts"
        )
    if marginal:
        notes.append("averaged over the other factors' levels")
    return "; ".join(notes)


def _draw_grid(grid: Grid, titles: tuple[str, str], view: View) -> Figure:
    """Place the panels, all sizes in inches: main effects in rows, interactions smaller below."""
    main = [panel for panel in grid.panels if not panel.contrast.is_interaction]
    secondary = [panel for panel in grid.panels if panel.contrast.is_interaction]
    panel_width = max(_CELL_WIDTH * len(grid.top_ps), _PANEL_MIN_WIDTH)
    panel_height = _CELL_HEIGHT * len(grid.temperatures)
    secondary_rows = _rows_of(secondary, _SECONDARY * panel_width)
    layout = [(row, 1.0) for row in _rows_of(main, panel_width)]
    layout += [(row, _SECONDARY) for row in secondary_rows]
    widths = [scale * len(row) * panel_width + _GAP * (len(row) - 1) for row, scale in layout]
    beside_scale = max(widths[: len(layout) - len(secondary_rows)] or widths)
    width = max(_LEFT + beside_scale + _RIGHT, _LEFT + max(widths) + 0.2, 6.4)
    title_heights = [
        _TITLE_LINE
        * max(len(_title_lines(panel, scale * panel_width, scale < 1)) - 1 for panel in row)
        for row, scale in layout
    ]
    panels_height = sum(scale * panel_height for _, scale in layout) + sum(title_heights)
    panels_height += _ROW_GAP * (len(layout) - 1)
    height = _TOP + max(panels_height, _SCALE_MIN_HEIGHT + title_heights[0]) + _BOTTOM

    figure = Figure(figsize=(width, height))
    draw_headings(figure, *titles)
    top = height - _TOP
    for (row, scale), title_height in zip(layout, title_heights, strict=True):
        top -= title_height
        bottom = top - scale * panel_height
        for index, panel in enumerate(row):
            left = _LEFT + index * (scale * panel_width + _GAP)
            axes = figure.add_axes(
                (
                    left / width,
                    bottom / height,
                    scale * panel_width / width,
                    scale * panel_height / height,
                )
            )
            mesh = _draw_panel(axes, panel, grid, secondary=scale < 1)
            axes.set_xlabel("top-p", fontsize=8, color=MUTED, labelpad=2)
            if index:
                axes.set_yticklabels([])
            else:
                axes.set_ylabel("temperature", fontsize=8, color=MUTED)
        top = bottom - _ROW_GAP

    bar_height = max(panel_height, _SCALE_MIN_HEIGHT)
    bar_left = (_LEFT + beside_scale + 0.25) / width
    bar_bottom = (height - _TOP - title_heights[0] - bar_height) / height
    box = (bar_left, bar_bottom, 0.14 / width, bar_height / height)
    _draw_scale(figure, mesh, box, view.test.unit)
    notes = _notes(grid, view.is_marginal)
    figure.text(0.15 / width, 0.10 / height, notes, fontsize=7.5, color=MUTED)
    return figure


def describe_asterisks(fits: pl.DataFrame, stars: str = "unadjusted") -> str:
    """Say whose p-values the asterisks stand for, and over how many tests they are adjusted.

    Unadjusted ones are counted in what is shown; the families of the others can be larger.
    """
    column, name = ASTERISKS[stars]
    tested = fits.filter(pl.col("term").is_in(_terms(fits)), pl.col(column).is_not_null())
    if column == "p_value":
        sizes = [tested.height]
    else:
        sizes = tested["family_size"].drop_nulls().unique().sort().to_list() or [0]
    number = f"{'up to ' if len(sizes) > 1 else ''}{sizes[-1]:,}"
    return f"* p < .05 ({name}, {number} {'test' if sizes[-1] == 1 else 'tests'})"


def _terms(fits: pl.DataFrame) -> list[str]:
    return [term for term in fits["term"].drop_nulls().unique() if not is_intercept(term)]


def draw_heatmap(
    fits: pl.DataFrame,
    design: Design,
    model: str,
    view: View,
    measure: str,
    stars: str = "unadjusted",
) -> Figure:
    """Draw the heatmap of one model, measure and view.

    fits: the rows of the fits table of that model, measure and view; may hold no estimate, and
    then the figure says so. stars: one of `ASTERISKS`; all but the first need the columns of an
    ADJUSTED table.
    """
    titles = (
        model,
        f"β by temperature and top-p · {view.label}"
        f" ({view.test.note.format(block=design.block)})\n"
        f"{measure} · {describe_asterisks(fits.filter(~is_anchor(design)), stars)}"
        f" · reference: {reference_note(design)}",
    )
    with figure_style():
        grid = arrange_grid(fits, design, ASTERISKS[stars][0])
        if any(np.isfinite(panel.estimate).any() for panel in grid.panels):
            return _draw_grid(grid, titles, view)
        return _no_fit_figure(fits.filter(~is_anchor(design)), titles)
