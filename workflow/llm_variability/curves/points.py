"""A model's average similarities, put into arrays: a row a task, a column a point of a curve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from llm_variability.config_code import BANDS, PARAPHRASE
from llm_variability.table_contract import SETTING

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Names = npt.NDArray[np.str_]

OF_PANEL = ["model", "measure", *SETTING]
"""Columns that a panel has one value of."""

_OF_POINT = ["comparison", "method", "rate"]


class Point(NamedTuple):
    """A point of a curve: a method at a nominal rate; or the ceiling or the floor."""

    comparison: str
    method: str | None = None
    rate: str | None = None


CEILING = Point("ceiling")
FLOOR = Point("floor")


@dataclass(frozen=True)
class Panel:
    """Similarities by task of one model and measure at one setting.

    points: the ceiling, the floor, then each method's points; a method with a rate begins with the
        unaltered prompt, so with the ceiling.
    tasks: (tasks,) names in order; sets: (tasks,) the set of each.
    similarity: (tasks, points) mean similarity; NaN where no pair of programs could be compared.
    realised: (tasks, points) realised rate; NaN where there is none.
    asked: (tasks, points) whether there is a prompt. n_pairs: (tasks, points) pairs of programs.
    """

    model: str
    measure: str
    temperature: str
    top_p: str | None
    points: tuple[Point, ...]
    tasks: npt.NDArray[np.str_]
    sets: npt.NDArray[np.str_]
    similarity: Floats
    realised: Floats
    asked: Flags
    n_pairs: Integers

    @property
    def methods(self) -> list[str]:
        """Methods with a rate, in the order of their points."""
        named = (point.method for point in self.points if point.method not in (None, PARAPHRASE))
        return [method for method in dict.fromkeys(named) if method is not None]

    def take(self, task_set: str | None) -> Panel:
        """Keep the tasks of one set; None: of all."""
        if task_set is None:
            return self
        rows = self.sets == task_set
        return Panel(
            self.model,
            self.measure,
            self.temperature,
            self.top_p,
            self.points,
            self.tasks[rows],
            self.sets[rows],
            self.similarity[rows],
            self.realised[rows],
            self.asked[rows],
            self.n_pairs[rows],
        )


def order_sets(found: Iterable[str], asked: Sequence[str] = ()) -> list[str]:
    """Put sets of tasks in order: those asked for as they are told, then the others by name."""
    there = set(found)
    return [each for each in asked if each in there] + sorted(there - set(asked))


def build_panels(averages: pl.DataFrame) -> Iterator[Panel]:
    """Part a study's averages by model, measure and setting, in the order they come in.

    A task's similarity at a point is the mean over the variants of its prompt that have a pair,
    each with the same weight: a variant is one of the texts that the rate stands for, and does not
    stand for fewer of them because fewer replies to it held a program. Its realised rate is the
    mean over the same variants.

    averages: rows of AVERAGES tables, with a column `model`.
    Raises ValueError if a prompt's average is there twice.
    """
    key = [*OF_PANEL, "augmentation", "comparison", "task", "prompt_id"]
    twice = averages.filter(averages.select(key).is_duplicated())
    if twice.height:
        row = twice.row(0, named=True)
        raise ValueError(
            f"averages: {row['model']}, {row['measure']}, {row['augmentation']}, task {row['task']}"
            f" ({row['comparison']}): prompt {row['prompt_id']} is there twice; allowed: once"
        )
    for _, part in averages.group_by(OF_PANEL, maintain_order=True):
        yield _build_panel(part)


def _build_panel(averages: pl.DataFrame) -> Panel:
    compared = (pl.col("n_pairs") > 0) & pl.col("mean").is_not_null()
    augmented = pl.col("comparison") == "augmented"
    cells = (
        averages.with_columns(
            pl.when(augmented).then(name).alias(name) for name in ("method", "rate")
        )
        .group_by(*_OF_POINT, "task", maintain_order=True)
        .agg(
            pl.col("mean").filter(compared).mean().alias("similarity"),
            pl.col("realised").filter(compared).mean(),
            pl.col("n_pairs").sum(),
        )
    )
    points = _list_points(cells)
    of_task = averages.select("task", "set").unique().sort("task")
    tasks = of_task["task"].to_numpy().astype(np.str_)
    first = averages.row(0, named=True)
    shape = (len(tasks), len(points))
    panel = Panel(
        **{name: first[name] for name in OF_PANEL},
        points=tuple(points),
        tasks=tasks,
        sets=of_task["set"].to_numpy().astype(np.str_),
        similarity=np.full(shape, np.nan),
        realised=np.full(shape, np.nan),
        asked=np.zeros(shape, dtype=bool),
        n_pairs=np.zeros(shape, dtype=np.int64),
    )
    _fill(panel, cells)
    _begin_curves(panel)
    return panel


def _list_points(cells: pl.DataFrame) -> list[Point]:
    found = cells.filter(pl.col("comparison") == "augmented").select("method", "rate").unique()
    points = [CEILING, FLOOR]
    for method in cells["method"].drop_nulls().unique(maintain_order=True):
        rates = found.filter(pl.col("method") == method)["rate"].to_list()
        if method == PARAPHRASE:
            points += [Point("augmented", method, band) for band in BANDS]
            continue
        start = None if "0" in rates else "0"
        points.append(Point("ceiling", method, start))
        points += [Point("augmented", method, rate) for rate in sorted(rates, key=float)]
    return points


def _fill(panel: Panel, cells: pl.DataFrame) -> None:
    columns = {point: number for number, point in enumerate(panel.points)}
    column = [columns[Point(*each)] for each in cells.select(_OF_POINT).iter_rows()]
    row = np.searchsorted(panel.tasks, cells["task"].to_numpy().astype(np.str_))
    panel.similarity[row, column] = cells["similarity"].cast(pl.Float64).fill_null(np.nan)
    panel.realised[row, column] = cells["realised"].cast(pl.Float64).fill_null(np.nan)
    panel.asked[row, column] = True
    panel.n_pairs[row, column] = cells["n_pairs"]


def _begin_curves(panel: Panel) -> None:
    """Let each curve begin with the ceiling, which lies at rate 0; both lines have no rate."""
    ceiling, floor = panel.points.index(CEILING), panel.points.index(FLOOR)
    for number, point in enumerate(panel.points):
        if starts_curve(point):
            for values in (panel.similarity, panel.asked, panel.n_pairs):
                values[:, number] = values[:, ceiling]
            panel.realised[:, number] = 0
    panel.realised[:, [ceiling, floor]] = np.nan


def starts_curve(point: Point) -> bool:
    """Tell whether a point is the ceiling, as the beginning of a method's curve."""
    return point.comparison == "ceiling" and point.method is not None
