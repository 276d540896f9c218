"""False positives, coverage and power of the tests of the package, as dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from llm_variability.calibration.candidates import PACKAGE, TEXT_FIXED, TEXT_RANDOM
from llm_variability.calibration.table import (
    COVERAGE_BAND,
    LEVEL_BAND,
    SHOWN_DESIGNS,
    select_shown,
)
from llm_variability.config import ConfigError
from llm_variability.fits.random_intercept import Floats
from llm_variability.fits.text_inference import SCOPES
from llm_variability.report.figures import INK, MUTED, RULE, draw_headings, figure_style

TITLE = "Which test keeps its level"

# Okabe and Ito: they stay apart for every kind of colour vision; the shapes do in grey.
LOOKS = {
    "pairwise": ("#D55E00", "v"),
    "cell": ("#CC79A7", "s"),
    TEXT_FIXED: ("#0072B2", "o"),
    TEXT_RANDOM: ("#009E73", "D"),
}
BAND = "#d9dde5"

_MEASURES = ("false_positives", "covered", "power")
_LABELS = {
    "false_positives": "false positives, %",
    "covered": "coverage of 95% intervals, %",
    "power": "power, %",
}
_TICKS: dict[str, Sequence[float]] = {
    "false_positives": (0, 1, 5, 10, 20, 40, 60, 80, 100),
    "covered": (100, 99, 95, 90, 80, 60, 40, 20, 0),
    "power": (0, 20, 40, 60, 80, 100),
}


def _place(measure: str, share: float | Floats) -> Any:
    """Place a share on its axis: errors by their square root, so that 5% is told from 1 and 10%."""
    if measure == "false_positives":
        return np.sqrt(share)
    return 1 - np.sqrt(1 - share) if measure == "covered" else share


def _draw_panel(axes: Axes, rows: pl.DataFrame, measure: str, texts: Sequence[int]) -> None:
    band = {"false_positives": LEVEL_BAND, "covered": COVERAGE_BAND}.get(measure)
    if band:
        low, high = band
        axes.axhspan(_place(measure, low), _place(measure, high), color=BAND, linewidth=0, zorder=0)
    for at, test in enumerate(PACKAGE):
        colour, marker = LOOKS[test]
        of_test = rows.filter(pl.col("test") == test)
        own = bool(of_test["own"].all())
        x = np.array([texts.index(n) for n in of_test["texts"]]) + 0.15 * (at - 1.5)
        low, middle, high = (
            _place(measure, of_test[name].to_numpy())
            for name in (f"{measure}_low", measure, f"{measure}_high")
        )
        axes.plot(x, middle, color=colour, linewidth=1.8 if own else 0.7, zorder=3 if own else 2)
        axes.vlines(x, low, high, color=colour, linewidth=1.2, zorder=4)
        filled = of_test["keeps_level"].to_numpy()
        for i in range(len(x)):
            axes.plot(
                x[i],
                middle[i],
                marker=marker,
                markersize=6.5 if own else 5,
                markerfacecolor=colour if filled[i] else "white",
                markeredgecolor=colour,
                markeredgewidth=1.1,
                clip_on=False,
                zorder=6 if own else 5,
            )
    ticks = _TICKS[measure]
    axes.set_yticks([_place(measure, tick / 100) for tick in ticks], [str(tick) for tick in ticks])
    axes.set_ylim(-0.02, 1.02)
    axes.set_xticks(range(len(texts)), [str(n) for n in texts])
    axes.set_xlim(-0.5, len(texts) - 0.5)
    axes.tick_params(length=2)
    axes.grid(axis="y", color=RULE, linewidth=0.4)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def draw_calibration(table: pl.DataFrame) -> Figure:
    """Draw how often the tests of the package reject and cover: a column a design and a scope.

    table: the columns of `table.SCHEMA`. Rows are false positives, coverage and power, over the
    number of texts in a format x group, as `table.select_shown` chooses them.
    Raises ConfigError if the table has no such studies.
    """
    shown = select_shown(table)
    panels = [
        (design, scope)
        for design in SHOWN_DESIGNS
        for scope in SCOPES
        if shown.filter(pl.col("design") == design, pl.col("scope") == scope).height
    ]
    if not panels:
        raise ConfigError(f"no study of {' or '.join(SHOWN_DESIGNS)} with slopes: nothing to draw")
    texts = sorted(shown["texts"].unique())
    with figure_style():
        width, height = 1.1 + 2.25 * len(panels), 8.6
        figure = Figure(figsize=(width, height))
        grid = figure.subplots(3, len(panels), sharey="row", squeeze=False)
        figure.subplots_adjust(
            left=0.75 / width,
            right=1 - 0.15 / width,
            top=1 - 1.35 / height,
            bottom=1.15 / height,
            wspace=0.1,
            hspace=0.18,
        )
        for column, (design, scope) in enumerate(panels):
            rows = shown.filter(pl.col("design") == design, pl.col("scope") == scope)
            for axes, measure in zip(grid[:, column], _MEASURES, strict=True):
                _draw_panel(axes, rows, measure, texts)
                axes.tick_params(axis="y", length=0 if column else 2)
            question = "in these formats" if scope == SCOPES[0] else "in such formats"
            unit = "names" if design == "names" else "texts"
            grid[0, column].set_title(
                f"{design}\n{scope}: {question}", fontsize=9, color=INK, loc="left", linespacing=1.4
            )
            grid[2, column].set_xlabel(f"{unit} in a format x group")
        for axes, measure in zip(grid[:, 0], _MEASURES, strict=True):
            axes.set_ylabel(_LABELS[measure])
        _draw_legend(figure, width, height)
        studies = int(table["studies"].max())  # type: ignore[arg-type]
        draw_headings(
            figure,
            TITLE,
            f"Simulated studies of known truth, up to {studies:,} a dot: 13 formats that differ in"
            " the effect (SD 0.04),\nno difference in the row of false positives, one of 0.04 in"
            " the others. Vertical lines: 95% Monte Carlo interval.",
        )
    return figure


def _draw_legend(figure: Figure, width: float, height: float) -> None:
    handles: list[Any] = [
        Line2D([], [], color=colour, marker=marker, markersize=6)
        for colour, marker in LOOKS.values()
    ]
    labels = list(LOOKS)
    handles.append(Patch(facecolor=BAND))
    labels.append("4 to 6%, and 94 to 96%")
    handles.append(
        Line2D([], [], marker="o", markersize=6, markerfacecolor="white", markeredgecolor=MUTED)
    )
    handles[-1].set_linestyle("none")
    labels.append("hollow: more than 6% false positives")
    figure.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.1 / width, 0.05 / height),
        ncols=3,
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
    )
