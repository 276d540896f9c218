"""Differences between models, methods and sets of tasks, each with a test over tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from llm_variability.curves.points import Floats, Names, Panel, Point
from llm_variability.curves.resampling import (
    MIN_TASKS,
    Test,
    bootstrap_test,
    delete_weights,
    explain_size,
    find_interval,
    jackknife,
)
from llm_variability.curves.rescaling import weigh_tasks
from llm_variability.curves.shapes import half_life
from llm_variability.curves.summaries import explain_absence
from llm_variability.curves.traces import Samples, Trace, summarise
from llm_variability.tables_code import SUMMARIES

LINES = ("ceiling", "floor")


@dataclass(frozen=True)
class Line:
    """Ceiling or floor: its mean over tasks, and without each of them, (samples, 1)."""

    tasks: Names
    sets: Names
    whole: Floats
    without: Floats


@dataclass(frozen=True)
class Curves:
    """What one model, measure, setting and set of tasks have to compare."""

    model: str
    task_set: str | None
    traces: dict[str, Trace]
    lines: dict[str, Line]


def find_lines(panel: Panel) -> dict[str, Line]:
    """Give ceiling and floor of a panel; a line without any pair is not put in."""
    lines = {}
    for name in LINES:
        values = panel.similarity[:, [panel.points.index(Point(name))]]
        present = ~np.isnan(values[:, 0])
        if present.any():
            n_tasks = int(present.sum())
            with np.errstate(invalid="ignore"):
                lines[name] = Line(
                    panel.tasks[present],
                    panel.sets[present],
                    weigh_tasks(np.ones((1, n_tasks)), values[present]),
                    weigh_tasks(delete_weights(n_tasks), values[present]),
                )
    return lines


def tabulate_contrasts(curves: Sequence[Curves]) -> Iterator[dict[str, Any]]:
    """Give the CURVE_CONTRASTS rows of one measure and setting, p values not yet adjusted.

    curves: of all models and sets, models in order, sets of a model from the oldest to the newest.
    A row's estimate is that of `first` less that of `second`: models and methods in their order,
    the newer set less the older one.
    """
    for a, b in combinations(curves, 2):
        same_model, same_set = a.model == b.model, a.task_set == b.task_set
        if same_set and not same_model:
            held = {"model": None, "set": a.task_set}
            yield from _compare("model", a, b, (a.model, b.model), held)
        if same_model and None not in (a.task_set, b.task_set):
            held = {"model": a.model, "set": None}
            yield from _compare("set", b, a, (str(b.task_set), str(a.task_set)), held)
    for each in curves:
        for first, second in combinations(each.traces, 2):
            named = {
                "kind": "method",
                "model": each.model,
                "method": None,
                "set": each.task_set,
                "first": first,
                "second": second,
            }
            yield from _compare_traces(each.traces[first], each.traces[second], named)


def _compare(
    kind: str, a: Curves, b: Curves, names: tuple[str, str], held: dict[str, str | None]
) -> Iterator[dict[str, Any]]:
    named = {"kind": kind, **held, "first": names[0], "second": names[1]}
    for method in a.traces:
        if method in b.traces:
            yield from _compare_traces(
                a.traces[method], b.traces[method], named | {"method": method}
            )
    for line in LINES:
        if line in a.lines and line in b.lines:
            first, second = a.lines[line], b.lines[line]
            row = _test(first, second, first.whole, second.whole, lambda x, y: (x - y)[:, 0])
            yield {**named, "method": None, "summary": line, **row}


def _compare_traces(a: Trace, b: Trace, named: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for summary in SUMMARIES:
        if summary == "half_life":
            row = _test_half_lives(a, b, named)
        else:
            row = _test(a, b, _stack(a.whole), _stack(b.whole), _subtract(summary, a, b))
        yield {**named, "summary": summary, **row}


def _subtract(summary: str, a: Trace, b: Trace) -> Callable[[Floats, Floats], Floats]:
    def difference(first: Floats, second: Floats) -> Floats:
        end = np.minimum(first[:, 0, -1], second[:, 0, -1])
        values = [
            summarise((each[:, 0], each[:, 1]), trace.used, end)[summary]
            for each, trace in ((first, a), (second, b))
        ]
        with np.errstate(invalid="ignore"):
            subtracted: Floats = values[0] - values[1]
        return subtracted

    return difference


def jackknife_difference(summary: str, a: Trace, b: Trace) -> Test | None:
    """Test the difference of two curves' summary by leaving out each task; None if it cannot be."""
    tasks, sets = _join_tasks(a, b)
    difference = _subtract(summary, a, b)
    whole = _stack(a.whole), _stack(b.whole)
    estimate = float(difference(*whole)[0])
    without = difference(_align(a, whole[0], tasks), _align(b, whole[1], tasks))
    if not np.isfinite([estimate, *without]).all():
        return None
    return jackknife(estimate, without, sets)


def _test_half_lives(a: Trace, b: Trace, named: dict[str, Any]) -> dict[str, Any]:
    """Test a difference of half-lives by bootstrap samples, where both are bounded."""
    tasks, sets = _join_tasks(a, b)
    pair = ((named["first"], a), (named["second"], b))
    values = [float(half_life(*trace.whole)[0]) for _, trace in pair]
    absent = [
        f"{name}: {explain_absence(trace)}"
        for (name, trace), value in zip(pair, values, strict=True)
        if not np.isfinite(value)
    ]
    if absent:
        return _without_test(tasks, None, "; ".join(absent))
    estimate = values[0] - values[1]
    if reason := _explain_few(a, b, sets):
        return _without_test(tasks, estimate, reason)
    for name, trace in pair:
        if find_interval(trace.half_lives, trace.sets).high is None:
            return _without_test(tasks, estimate, f"{name}: no upper end of its half-life")
    if named["kind"] == "set":
        parts = [(trace.half_lives, trace.sets) for _, trace in pair]
    elif np.array_equal(a.asked, b.asked):
        with np.errstate(invalid="ignore"):
            parts = [(a.half_lives - b.half_lives, sets)]
    else:
        return _without_test(tasks, estimate, "they were asked different tasks")
    return _tell(tasks, estimate, bootstrap_test(estimate, parts))


def _stack(samples: Samples) -> Floats:
    """Put rates and heights into one array, (samples, 2, points)."""
    return np.stack(samples, axis=1)


def _test(
    a: Trace | Line,
    b: Trace | Line,
    whole_a: Floats,
    whole_b: Floats,
    difference: Callable[[Floats, Floats], Floats],
) -> dict[str, Any]:
    """Test a difference by leaving out each task, from both where it is in both."""
    tasks, sets = _join_tasks(a, b)
    estimate = float(difference(whole_a, whole_b)[0])
    if reason := _explain_few(a, b, sets):
        return _without_test(tasks, estimate, reason)
    without = difference(_align(a, whole_a, tasks), _align(b, whole_b, tasks))
    if not np.isfinite(without).all():
        task = tasks[int((~np.isfinite(without)).argmax())]
        return _without_test(tasks, estimate, f"undefined without task {task}")
    return _tell(tasks, estimate, jackknife(estimate, without, sets))


def _tell(tasks: Names, estimate: float, test: Test | None) -> dict[str, Any]:
    if test is None:
        return _without_test(tasks, estimate, "no variance: no task makes a difference")
    return {
        "n_tasks": len(tasks),
        "estimate": estimate,
        "std_error": test.std_error,
        "ci_low": estimate - test.margin,
        "ci_high": estimate + test.margin,
        "p_value": test.p_value,
    }


def _without_test(tasks: Names, estimate: float | None, reason: str) -> dict[str, Any]:
    return {"n_tasks": len(tasks), "estimate": estimate, "reason": reason}


def _explain_few(a: Trace | Line, b: Trace | Line, sets: Names) -> str | None:
    for each in (a, b):
        if len(each.tasks) < MIN_TASKS:
            return explain_size(each.sets)
    return explain_size(sets)


def _join_tasks(a: Trace | Line, b: Trace | Line) -> tuple[Names, Names]:
    """Give the tasks of either, in order, and the set of each."""
    tasks, first = np.unique(np.concatenate([a.tasks, b.tasks]), return_index=True)
    return tasks, np.concatenate([a.sets, b.sets])[first]


def _align(each: Trace | Line, whole: Floats, tasks: Names) -> Floats:
    """Give a curve without each of the tasks; whole where it has no such task."""
    aligned = np.repeat(whole, len(tasks), axis=0)
    without = each.without if isinstance(each, Line) else _stack(each.without)
    aligned[np.searchsorted(tasks, each.tasks)] = without
    return aligned
