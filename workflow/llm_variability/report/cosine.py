"""Raw mean cosine by group and temperature, of one model and of several.

Source: homogeneity-bias-robustness, figure 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import polars as pl
from matplotlib.figure import Figure

from llm_variability.report.figures import draw_headings, figure_style
from llm_variability.report.lines import Line, Panel, draw_panels
from llm_variability.tables import Design, Factor

_FACTOR_PANELS_A_ROW, _MODEL_PANELS_A_ROW = 3, 3


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


def average_over_groups(means: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Average the mean cosines of each level of the first factor over top-p and other factors.

    Every group of every setting counts the same, as in the paper's figure 2.
    means: the mean cosine table of one encoder, any number of models.
    Returns model, factor, factor_level, temperature (text), settings and mean_cosine: models in
    their order, levels in the design's.
    """
    first = design.factors[0]
    return (
        means.drop_nulls("mean_cosine")
        .select(
            "model",
            pl.col(first.name).alias("factor_level"),
            "temperature",
            "top_p",
            "mean_cosine",
        )
        .group_by(["model", "factor_level", "temperature"], maintain_order=True)
        .agg(
            pl.lit(first.name).alias("factor"),
            pl.struct("temperature", "top_p").n_unique().cast(pl.Int64).alias("settings"),
            pl.col("mean_cosine").mean(),
        )
        .sort(
            _rank("model", means["model"].unique(maintain_order=True)),
            _rank("factor_level", first.levels),
            pl.col("temperature").cast(pl.Float64),
        )
        .select("model", "factor", "factor_level", "temperature", "settings", "mean_cosine")
    )


def _rank(column: str, names: Iterable[str]) -> pl.Expr:
    ranks = {name: at for at, name in enumerate(names)}
    return pl.col(column).replace_strict(ranks, return_dtype=pl.Int64)


def _lines(part: pl.DataFrame, column: str, levels: Sequence[str]) -> dict[str, Line]:
    """Make a line a level, its temperatures ascending; a level without a mean has none."""
    lines = {}
    for level in levels:
        points = (
            part.filter(pl.col(column) == level)
            .with_columns(pl.col("temperature").cast(pl.Float64))
            .sort("temperature")
        )
        if points.height:
            lines[level] = Line(points["temperature"].to_list(), points["mean_cosine"].to_list())
    return lines


def _levels(factor: Factor) -> list[str]:
    return [factor.reference, *(level for level in factor.levels if level != factor.reference)]


def _parts(averages: pl.DataFrame, design: Design) -> Iterator[tuple[str, pl.DataFrame]]:
    """Part the averages by the factors after the first."""
    panels = [("", averages)]
    for factor in design.factors[1:]:
        panels = [
            (f"{title}, {level}" if title else level, part.filter(pl.col(factor.name) == level))
            for title, part in panels
            for level in factor.levels
        ]
    yield from ((title, part) for title, part in panels if part.height)


def _draw(
    panels: Sequence[Panel], factor: Factor, columns: int, title: str, averaged: str, encoder: str
) -> Figure:
    if not panels:
        figure = Figure(figsize=(6.4, 1.6))
        draw_headings(figure, title, "No group has two texts, so there is no cosine.")
        return figure
    names = _levels(factor)
    shown = {name: f"{name} (reference)" if name == factor.reference else name for name in names}
    figure = draw_panels(
        [(head, {shown[name]: line for name, line in lines.items()}) for head, lines in panels],
        [shown[name] for name in names],
        legend=factor.name,
        y_labels=["mean pairwise cosine"],
        columns=columns,
        dashed=shown[factor.reference],
    )
    greedy = any(line.temperatures[0] == 0 for _, lines in panels for line in lines.values())
    hollow = " · hollow: greedy decoding" if greedy else ""
    draw_headings(
        figure, title, f"Mean cosine of pairs, averaged over {averaged}\n{encoder}{hollow}"
    )
    return figure


def draw_mean_cosine(means: pl.DataFrame, design: Design, model: str, encoder: str) -> Figure:
    """Draw the mean cosine of one model and encoder: lines by the first factor, panels by the rest.

    The reference level is dashed. Greedy decoding has hollow markers: there all draws of a prompt
    are equal by construction in some studies.
    """
    averages = average_over_top_p(means, design)
    first = design.factors[0]
    with figure_style():
        panels = [
            (title, _lines(part, first.name, first.levels))
            for title, part in _parts(averages, design)
        ]
        averaged = f"top-p and {design.block}"
        return _draw(panels, first, _FACTOR_PANELS_A_ROW, model, averaged, encoder)


def draw_models_mean_cosine(averages: pl.DataFrame, design: Design, encoder: str) -> Figure:
    """Draw the mean cosine of every model: a panel a model, lines by the first factor.

    averages: as `average_over_groups` gives them, one encoder.
    """
    first = design.factors[0]
    with figure_style():
        panels = [
            (str(model), _lines(part, "factor_level", first.levels))
            for (model,), part in averages.partition_by(
                "model", maintain_order=True, as_dict=True
            ).items()
        ]
        others = ["top-p", design.block, *(factor.name for factor in design.factors[1:])]
        averaged = f"{', '.join(others[:-1])} and {others[-1]}"
        title = "Mean cosine by temperature"
        return _draw(panels, first, _MODEL_PANELS_A_ROW, title, averaged, encoder)
