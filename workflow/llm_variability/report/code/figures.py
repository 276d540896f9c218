"""The figures of a study of code: curves over the realised rate, paraphrases, and their files.

Source: prompt-variability-code-generation, figures 1 to 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from llm_variability.augmentation.paraphrase import BANDS as BLEU_OF_BANDS
from llm_variability.config import GREEDY, cell_name
from llm_variability.config_code import BANDS, PARAPHRASE
from llm_variability.report.code.names import BANDS_KIND, PARAPHRASES_KIND, CodeFigure
from llm_variability.report.comparisons import Setting, at_setting
from llm_variability.report.figures import INK, MUTED, RULE, draw_headings, figure_style
from llm_variability.report.lines import draw_legend, line_style, longest_line

ALL_SETS = "all sets"
"""How the sets of a study are called where they are taken together."""

_BAND_COLOURS = {"low": "#0072B2", "medium": "#E69F00", "high": "#D55E00"}
_BAND_MARKERS = {"low": "o", "medium": "^", "high": "D"}
_LEFT, _TOP, _BOTTOM = 0.75, 1.15, 0.55
_PANEL_HEIGHT, _ROW_GAP = 2.0, 0.5
_PANEL_WIDTHS = {1: 4.6, 2: 3.2, 3: 2.6}
_NARROWEST = 2.3
_RIGHT_OF_PANEL = 0.5
_CEILING_DASHES = (0, (1, 1.2))
_FLOOR_DASHES = (0, (5, 1.5, 1, 1.5))
_REFERENCES = {"ceiling": _CEILING_DASHES, "floor": _FLOOR_DASHES}


def choose_setting(curves: pl.DataFrame) -> Setting | None:
    """Choose the setting that the page shows first: greedy decoding, as published.

    Without it, the sampled setting nearest to it: the lowest temperature, and of it the lowest
    top-p. None if there is no row.
    """
    settings = curves.select("temperature", "top_p").unique().rows()
    if not settings:
        return None
    return min(settings, key=lambda setting: (float(setting[0]), float(setting[1] or 0)))


def describe_choice(setting: Setting) -> str:
    """Say which setting is shown, and why if it is not the published one."""
    if setting[0] == GREEDY:
        return "temperature 0 (greedy decoding), the published setting"
    return (
        f"temperature {setting[0]} and top-p {setting[1]} ({cell_name(*setting)}), the setting"
        " nearest to greedy decoding, which was not drawn"
    )


def describe_setting(setting: Setting) -> str:
    """Write a setting in words."""
    if setting[0] == GREEDY:
        return "temperature 0"
    return f"temperature {setting[0]}, top-p {setting[1]}"


def list_methods(curves: pl.DataFrame) -> list[str]:
    """List the methods with a rate, in the order of the rows."""
    methods = curves.filter(pl.col("comparison") == "augmented", pl.col("method") != PARAPHRASE)
    return methods["method"].unique(maintain_order=True).drop_nulls().to_list()


def list_sets(curves: pl.DataFrame) -> list[str]:
    """List the sets of tasks, in the order of the rows."""
    return curves["set"].drop_nulls().unique(maintain_order=True).to_list()


def of_set(name: str | None) -> pl.Expr:
    """Tell the rows of a set, or of all sets together."""
    return pl.col("set").eq_missing(pl.lit(name, pl.String))


def _values(rescaled: bool) -> tuple[str, str, str]:
    if rescaled:
        return ("rescaled", "rescaled_low", "rescaled_high")
    return ("estimate", "ci_low", "ci_high")


def _draw_band(axes: Axes, x: Sequence[float], rows: pl.DataFrame, names: Any, colour: str) -> None:
    """Shade the intervals of the points that have one."""
    low, high = (
        [math.nan if value is None else value for value in rows[name]] for name in names[1:]
    )
    if any(not math.isnan(a + b) for a, b in zip(low, high, strict=True)):
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def _draw_curve(axes: Axes, rows: pl.DataFrame, style: dict[str, Any], rescaled: bool) -> None:
    """Draw one model's curve; points without a value are left out."""
    names = _values(rescaled)
    rows = rows.drop_nulls(["realised", names[0]]).sort("realised", maintain_order=True)
    if not rows.height:
        return
    x = rows["realised"].to_list()
    _draw_band(axes, x, rows, names, style["color"])
    axes.plot(
        x,
        rows[names[0]].to_list(),
        **style,
        markersize=4.5,
        linewidth=1.6,
        markeredgecolor="white",
        markeredgewidth=0.5,
    )


def _draw_references(
    axes: Axes, curves: pl.DataFrame, styles: dict[str, dict[str, Any]], label: bool
) -> None:
    """Draw each model's ceiling and floor with their intervals, named to the right of the panel.

    curves: rows of one measure, setting and set.
    """
    ends = {}
    for comparison, dashes in _REFERENCES.items():
        rows = curves.filter(pl.col("comparison") == comparison).drop_nulls("estimate")
        for row in rows.iter_rows(named=True):
            colour = styles[row["model"]]["color"]
            axes.axhline(row["estimate"], color=colour, linewidth=1, linestyle=dashes, zorder=1)
            if row["ci_low"] is not None and row["ci_high"] is not None:
                axes.axhspan(row["ci_low"], row["ci_high"], color=colour, alpha=0.07, linewidth=0)
        if rows.height:
            ends[comparison] = float(rows["estimate"].mean())  # type: ignore[arg-type]
    if label:
        _name_references(axes, ends)


def _name_references(axes: Axes, ends: dict[str, float]) -> None:
    for name, height in ends.items():
        axes.annotate(
            name,
            (1, height),
            xycoords=("axes fraction", "data"),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=MUTED,
            annotation_clip=False,
        )


def _draw_rescaled_references(axes: Axes, label: bool) -> None:
    for height, dashes in zip((1.0, 0.0), _REFERENCES.values(), strict=True):
        axes.axhline(height, color=MUTED, linewidth=1, linestyle=dashes, zorder=1)
    if label:
        _name_references(axes, {"ceiling": 1.0, "floor": 0.0})


def _tidy(axes: Axes) -> None:
    axes.grid(axis="y", color=RULE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=2)


def _limit_rescaled(grid: Sequence[Axes], curves: pl.DataFrame) -> None:
    """Let the estimates decide the y axis; a wide interval may leave it."""
    values = curves.filter(pl.col("method").is_not_null())["rescaled"].drop_nulls().to_list()
    low, high = min([0.0, *values]), max([1.0, *values])
    for axes in grid:
        axes.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))


def _nothing(title: str, subtitle: str, told: str) -> Figure:
    figure = Figure(figsize=(6.4, 1.6))
    draw_headings(figure, title, f"{told}\n{subtitle}")
    return figure


def _styles(models: Sequence[str]) -> dict[str, dict[str, Any]]:
    return {model: line_style(rank) for rank, model in enumerate(models)}


def _lay_out(
    rows: int, columns: int, names: Sequence[str], *, width: float | None = None
) -> tuple[Figure, Any, float]:
    """Make the panels, all sizes in inches. Returns figure, axes, left end of the legend."""
    panel = width or _PANEL_WIDTHS.get(columns, _NARROWEST)
    room = _RIGHT_OF_PANEL + 0.75 + 0.075 * max(longest_line(names), 12)
    full = _LEFT + panel * columns + 0.12 * (columns - 1) + room
    height = _TOP + rows * _PANEL_HEIGHT + (rows - 1) * _ROW_GAP + _BOTTOM
    height = max(height, 1.2 + 0.19 * (len(names) + 4))
    figure = Figure(figsize=(full, height))
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    figure.subplots_adjust(
        left=_LEFT / full,
        right=1 - room / full,
        top=1 - _TOP / height,
        bottom=1 - (_TOP + rows * _PANEL_HEIGHT + (rows - 1) * _ROW_GAP) / height,
        wspace=0.12 / panel,
        hspace=_ROW_GAP / _PANEL_HEIGHT,
    )
    return figure, grid, 1 - (room - _RIGHT_OF_PANEL) / full


def draw_curves(
    curves: pl.DataFrame,
    models: Sequence[str],
    measure: str,
    setting: Setting,
    *,
    rescaled: bool = False,
    by_set: bool = False,
) -> Figure:
    """Draw similarity over the realised rate: a panel a method, a line a model.

    curves: rows of a CURVES table. models: all of the study, in the legend's order. rescaled: from
    the floor, 0, to the ceiling, 1. by_set: a row of panels a set of tasks; else all sets together.
    """
    shown = curves.filter(pl.col("measure") == measure, at_setting(setting))
    methods = list_methods(shown)
    sets: list[str | None] = [*list_sets(shown)] if by_set else [None]
    title = "Similarity of code by realised rate" + (", set by set" if by_set else "")
    subtitle = (
        f"{measure}{', rescaled from floor (0) to ceiling (1)' if rescaled else ''} ·"
        f" {describe_setting(setting)} · {'a row a set of tasks' if by_set else ALL_SETS}\n"
        "shaded: 95% intervals, tasks resampled · dotted: ceiling; dash-dotted: floor"
    )
    with figure_style():
        if not methods or not sets:
            return _nothing(title, subtitle.split("\n")[0], "No prompt was changed by a rate.")
        styles = _styles(models)
        figure, grid, left = _lay_out(len(sets), len(methods), models)
        for at, name in enumerate(sets):
            of_row = shown.filter(of_set(name))
            for place, method in enumerate(methods):
                axes = grid[at, place]
                is_last = place == len(methods) - 1
                if rescaled:
                    _draw_rescaled_references(axes, is_last)
                else:
                    _draw_references(axes, of_row, styles, is_last)
                rows = of_row.filter(pl.col("method") == method)
                for model in models:
                    _draw_curve(axes, rows.filter(model=model), styles[model], rescaled)
                _tidy(axes)
                if not rows.drop_nulls(["realised", _values(rescaled)[0]]).height:
                    axes.text(0.5, 0.5, "no number", ha="center", transform=axes.transAxes)
                if at == 0:
                    axes.set_title(method, fontsize=10, fontweight="bold", loc="left")
                if at == len(sets) - 1:
                    axes.set_xlabel("realised rate")
            told = "rescaled similarity" if rescaled else "similarity"
            grid[at, 0].set_ylabel(told if name is None else f"{name}\n{told}")
        if rescaled:
            _limit_rescaled(list(grid.flat), shown)
        draw_legend(figure, "model", styles, left)
        draw_headings(figure, title, subtitle)
    return figure


def _has_no_paraphrase(bands: pl.DataFrame, band: str) -> bool:
    return not bands.filter(pl.col("rate") == band, pl.col("n_tasks_asked") > 0).height


def draw_bands(
    curves: pl.DataFrame, models: Sequence[str], measure: str, setting: Setting
) -> Figure:
    """Draw similarity by band of paraphrases, the original first: a line a model, all sets.

    A band without a prompt stays empty and says so.
    """
    shown = curves.filter(pl.col("measure") == measure, at_setting(setting), of_set(None))
    bands = shown.filter(pl.col("method") == PARAPHRASE)
    title = "Similarity of code by diversity of the paraphrase"
    subtitle = (
        f"{measure} · {describe_setting(setting)} · {ALL_SETS} · original: the ceiling\n"
        "bars: 95% intervals, tasks resampled · BLEU: low 0.5 to 1, medium 0.2 to 0.5, high below"
    )
    with figure_style():
        styles = _styles(models)
        figure, grid, left = _lay_out(1, 1, models)
        axes = grid[0, 0]
        _draw_references(axes, shown, styles, label=True)
        for rank, model in enumerate(models):
            of_model = shown.filter(model=model)
            points = [
                of_model.filter(pl.col("comparison") == "ceiling"),
                *(of_model.filter(pl.col("method") == PARAPHRASE, rate=band) for band in BANDS),
            ]
            x = [at + 0.5 * ((rank + 0.5) / len(models) - 0.5) for at in range(len(points))]
            found = [
                (place, each.row(0, named=True))
                for place, each in zip(x, points, strict=True)
                if each.drop_nulls("estimate").height
            ]
            heights = {place: row["estimate"] for place, row in found}
            axes.plot(
                x,
                [heights.get(place, math.nan) for place in x],
                **styles[model],
                markersize=5.5,
                linewidth=1,
                markeredgecolor="white",
                markeredgewidth=0.5,
                zorder=3,
            )
            for place, row in found:
                if row["ci_low"] is not None and row["ci_high"] is not None:
                    colour = styles[model]["color"]
                    axes.vlines(place, row["ci_low"], row["ci_high"], color=colour, linewidth=1.4)
        for at, band in enumerate(BANDS, start=1):
            if _has_no_paraphrase(bands, band):
                axes.text(
                    at,
                    0.5,
                    "no paraphrase",
                    rotation=90,
                    ha="center",
                    va="center",
                    color=MUTED,
                    transform=axes.get_xaxis_transform(),
                )
        axes.set_xlim(-0.5, len(BANDS) + 0.5)
        axes.set_xticks(range(len(BANDS) + 1), ["original", *BANDS])
        axes.set_xlabel("diversity of the paraphrase")
        axes.set_ylabel("similarity")
        _tidy(axes)
        draw_legend(figure, "model", styles, left)
        draw_headings(figure, title, subtitle)
    return figure


_SCORES = {
    "similarity": "cosine to the original",
    "bertscore": "BERTScore to the original",
}


def draw_paraphrases(paraphrases: pl.DataFrame, study: str) -> Figure:
    """Draw BLEU against semantic similarity of paraphrases, by band; hollow: not used.

    paraphrases: rows of a PARAPHRASES table; those without a text have no point. A second panel has
    the BERTScore where it was computed. Source: figure 1.
    """
    scored = paraphrases.drop_nulls("bleu")
    panels = [name for name in _SCORES if scored[name].count()] or ["similarity"]
    title = "Paraphrases: diversity against semantic similarity"
    lacking = paraphrases.height - scored.height
    subtitle = (
        f"{study} · {paraphrases.height:,} asked for, {int(paraphrases['used'].sum()):,} used"
        f" (filled), {lacking:,} without a text\n"
        "dashed: where one band of diversity ends and the next begins"
    )
    with figure_style():
        labels = {}
        for band in BANDS:
            of_band = scored.filter(band=band)
            used = int(of_band["used"].sum())
            labels[band] = f"{band}: {used:,} of {of_band.height:,} used"
            if not of_band.height:
                labels[band] = f"{band}: no paraphrase"
        figure, grid, left = _lay_out(1, len(panels), [*labels.values()], width=3.6)
        for at, name in enumerate(panels):
            axes = grid[0, at]
            for band in BANDS:
                for used in (False, True):
                    points = scored.filter(band=band, used=used).drop_nulls(name)
                    axes.scatter(
                        points["bleu"],
                        points[name],
                        s=18,
                        marker=_BAND_MARKERS[band],
                        facecolors=_BAND_COLOURS[band] if used else "none",
                        edgecolors="white" if used else _BAND_COLOURS[band],
                        linewidths=0.4 if used else 0.9,
                    )
            for edge in (BLEU_OF_BANDS[band][0] for band in ("low", "medium")):
                axes.axvline(edge, color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
            if not scored.drop_nulls(name).height:
                axes.text(0.5, 0.5, "no paraphrase", ha="center", transform=axes.transAxes)
            axes.set_xlim(-0.03, 1.03)
            axes.set_xlabel("sacreBLEU against the original")
            axes.set_title(_SCORES[name], fontsize=10, fontweight="bold", loc="left")
            _tidy(axes)
        grid[0, 0].set_ylabel("semantic similarity")
        figure.legend(
            handles=[
                Line2D(
                    [],
                    [],
                    linestyle="none",
                    marker=_BAND_MARKERS[band],
                    color=_BAND_COLOURS[band],
                    label=label,
                )
                for band, label in labels.items()
            ],
            loc="upper left",
            frameon=False,
            bbox_to_anchor=(left - 0.02, 1 - 0.95 / figure.get_figheight()),
            fontsize=8.5,
            labelcolor=INK,
            title="diversity",
            title_fontsize=8.5,
            alignment="left",
        )
        draw_headings(figure, title, subtitle)
    return figure


def draw_code_figure(
    figure: CodeFigure,
    curves: pl.DataFrame,
    paraphrases: pl.DataFrame | None,
    models: Sequence[str],
    setting: Setting,
    study: str,
) -> Figure:
    """Draw one of `list_code_figures`. Raises ValueError if it needs paraphrases and has none."""
    if figure.kind == BANDS_KIND:
        return draw_bands(curves, models, figure.measure, setting)
    if figure.kind == PARAPHRASES_KIND:
        if paraphrases is None:
            raise ValueError(f"study {study}: figure 1 needs the paraphrases; see --paraphrases")
        return draw_paraphrases(paraphrases, study)
    return draw_curves(
        curves,
        models,
        figure.measure,
        setting,
        rescaled=figure.kind.endswith("-rescaled"),
        by_set=figure.kind.startswith("sets"),
    )
