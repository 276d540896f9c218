"""All of a study's averages to its tables of curves, summaries and contrasts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from llm_variability.curves.contrasts import Curves, find_lines, tabulate_contrasts
from llm_variability.curves.curve_table import ALL, tabulate_points
from llm_variability.curves.points import Panel, build_panels, order_sets
from llm_variability.curves.resampling import draw_weights
from llm_variability.curves.summaries import tabulate_summaries
from llm_variability.curves.traces import Trace
from llm_variability.table_contract import Table
from llm_variability.tables_code import CURVE_CONTRASTS, CURVE_SUMMARIES, CURVES


class CurveTables(NamedTuple):
    """The tables CURVES, CURVE_SUMMARIES and CURVE_CONTRASTS of a study."""

    curves: pl.DataFrame
    summaries: pl.DataFrame
    contrasts: pl.DataFrame


def tabulate_curves(
    averages: pl.DataFrame,
    *,
    study: str,
    seed: int,
    resamples: int,
    sets: Sequence[str] = (),
) -> CurveTables:
    """Make curves, summaries and contrasts of all models, measures, settings and sets.

    p values of contrasts are not yet adjusted. Where a study has one set alone, contrasts are those
    of all sets together: to test the same twice would make the families larger.

    averages: rows of AVERAGES tables, with a column `model`; models, measures and settings stay in
        the order they come in.
    seed: the study's; intervals follow from it, the sets' names and their sizes.
    sets: their order, from the oldest to the newest; those not named follow by name.
    Raises ValueError if a prompt's average is there twice.
    """
    points: list[dict[str, Any]] = []
    summaries: list[dict[str, Any]] = []
    compared: dict[tuple[Any, ...], list[Curves]] = {}
    for panel in build_panels(averages):
        group = compared.setdefault((panel.measure, panel.temperature, panel.top_p), [])
        for task_set in _list_sets(panel, sets):
            part = panel.take(task_set)
            weights = draw_weights(part.sets, seed, resamples)
            points += tabulate_points(part, task_set, weights)
            traces: dict[str, Trace] = {}
            summaries += tabulate_summaries(part, task_set, weights, traces)
            if task_set is ALL or len(np.unique(panel.sets)) > 1:
                group.append(Curves(panel.model, task_set, traces, find_lines(part)))
    contrasts = [
        {"measure": measure, "temperature": temperature, "top_p": top_p, **row}
        for (measure, temperature, top_p), group in compared.items()
        for row in tabulate_contrasts(group)
    ]
    return CurveTables(
        _tabulate(points, study, CURVES),
        _tabulate(summaries, study, CURVE_SUMMARIES),
        _tabulate(contrasts, study, CURVE_CONTRASTS),
    )


def _list_sets(panel: Panel, asked: Sequence[str]) -> list[str | None]:
    return [*order_sets(panel.sets, asked), ALL]


def _tabulate(rows: Iterable[Mapping[str, Any]], study: str, table: Table) -> pl.DataFrame:
    """Make a table; what a row does not name is empty."""
    empty = dict.fromkeys(table.columns)
    return pl.DataFrame(
        [{**empty, **row, "study": study} for row in rows],
        schema={name: column.dtype for name, column in table.columns.items()},
    )
