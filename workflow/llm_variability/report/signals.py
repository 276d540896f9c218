"""Significant settings by contrast and model, stacked by direction.

Source: homogeneity-bias-robustness, figures 1 and 3.
"""

from __future__ import annotations

import math
import textwrap

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from llm_variability.report.figures import INK, MUTED, RULE, draw_headings, figure_style

MORE, LESS = "#b2182b", "#4393c3"
"""Red: more homogeneous than the reference; blue, hatched: less. Ends of the heatmap's scale."""

_PANEL_WIDTHS = {1: 3.1, 2: 3.1, 3: 2.3}
"""Width in inches by the number of panels in a row."""
_BAR_PITCH = 0.27
_TOP, _BOTTOM, _RIGHT = 1.50, 0.50, 0.80
_ROW_GAP = 0.62
_COLUMN_GAP = 0.80
_NAME_CHARACTER = 0.078
_NAME_CHARACTERS = 26
_INK_ON_BAR = 0.26


def _draw_part(
    axes: Axes, row: int, left: int, count: int, most: int, width: float, *, positive: bool
) -> None:
    if not count:
        return
    axes.add_patch(
        Rectangle(
            (left, row - 0.36),
            count,
            0.72,
            facecolor=MORE if positive else LESS,
            edgecolor="white",
            hatch=None if positive else "////",
            linewidth=0.8,
        )
    )
    if count / most * width >= _INK_ON_BAR:
        axes.text(
            left + count / 2,
            row,
            f"{count}{'+' if positive else '−'}",
            ha="center",
            va="center",
            fontsize=8,
            fontweight="bold",
            color="white" if positive else INK,
            bbox=None
            if positive
            else {"boxstyle": "square,pad=0.12", "facecolor": "white", "edgecolor": "none"},
        )


def _draw_panel(axes: Axes, part: pl.DataFrame, models: list[str], most: int, width: float) -> None:
    rows = {model: at for at, model in enumerate(models)}
    seen = set()
    for model, settings, positive, negative, holm in part.select(
        "model", "settings", "positive", "negative", "significant_holm"
    ).iter_rows():
        row = rows[model]
        seen.add(model)
        axes.add_patch(Rectangle((0, row - 0.36), settings, 0.72, facecolor="#eceef2", linewidth=0))
        _draw_part(axes, row, 0, positive, most, width, positive=True)
        _draw_part(axes, row, positive, negative, most, width, positive=False)
        axes.text(
            most * 1.015,
            row,
            f"{positive + negative}/{settings} ({holm})",
            va="center",
            fontsize=8,
            color=MUTED,
        )
    for model in models:
        if model not in seen:
            axes.text(0.02 * most, rows[model], "no fit", va="center", fontsize=8, color=MUTED)
    axes.set_xlim(0, most)
    axes.set_ylim(len(models) - 0.5, -0.5)
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=RULE, linewidth=0.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=2)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def draw_signals(signals: pl.DataFrame, models: list[str], label: str, encoder: str) -> Figure:
    """Draw the counts of significant settings: a panel a main contrast, a bar a model.

    signals: rows of the signals table of one study, encoder and view; interactions are left out.
    models: all of the study, in the order of the bars; one without a fit says so. label: names the
    view.
    """
    signals = signals.filter(~pl.col("interaction"))
    title = "Settings with significant homogeneity bias"
    panels = [
        (str(contrast), part)
        for (contrast,), part in signals.partition_by(
            "contrast", maintain_order=True, as_dict=True
        ).items()
    ]
    with figure_style():
        if not panels:
            figure = Figure(figsize=(6.4, 1.6))
            draw_headings(figure, title, f"No fit could be made.\n{label} · {encoder}")
            return figure
        most = int(signals["settings"].max())  # type: ignore[arg-type]
        names = ["\n".join(textwrap.wrap(model, _NAME_CHARACTERS)) for model in models]
        longest = max(len(part) for name in names for part in name.split("\n"))
        lines = max(name.count("\n") for name in names) + 1
        left = 0.25 + _NAME_CHARACTER * longest
        columns = 3 if len(panels) == 3 else min(len(panels), 2)
        panel_width = _PANEL_WIDTHS[columns]
        rows = math.ceil(len(panels) / columns)
        panel_height = _BAR_PITCH * (1 if lines == 1 else 0.6 * lines) * len(models) + 0.1
        width = left + panel_width * columns + _COLUMN_GAP * (columns - 1) + _RIGHT
        width = max(width, 6.4)
        height = _TOP + rows * panel_height + (rows - 1) * _ROW_GAP + _BOTTOM
        figure = Figure(figsize=(width, height))
        for at, (contrast, part) in enumerate(panels):
            row, column = divmod(at, columns)
            axes = figure.add_axes(
                (
                    (left + column * (panel_width + _COLUMN_GAP)) / width,
                    1 - (_TOP + (row + 1) * panel_height + row * _ROW_GAP) / height,
                    panel_width / width,
                    panel_height / height,
                )
            )
            _draw_panel(axes, part, models, most, panel_width)
            axes.set_title(
                "\n".join(textwrap.wrap(contrast, int(panel_width / 0.082))),
                fontsize=10,
                fontweight="bold",
                loc="left",
            )
            axes.set_yticks(range(len(models)), names if column == 0 else [""] * len(models))
            if at + columns >= len(panels):
                axes.set_xlabel("settings", fontsize=8, color=MUTED, labelpad=2)
        figure.legend(
            handles=[
                Patch(facecolor=MORE, edgecolor="white", label="+ more homogeneous"),
                Patch(facecolor=LESS, edgecolor="white", hatch="////", label="− less homogeneous"),
                Patch(facecolor="#eceef2", label="not significant"),
            ],
            loc="upper left",
            bbox_to_anchor=(0.15 / width, 1 - 0.87 / height),
            ncols=3,
            frameon=False,
            fontsize=8.5,
            borderaxespad=0,
            borderpad=0,
            columnspacing=1.4,
        )
        draw_headings(
            figure,
            title,
            f"{label} · {encoder}\n"
            "p < .05, unadjusted (in brackets: after Holm) · against the reference",
        )
    return figure
