"""Means over tasks, and where they lie between the floor and the ceiling of the same tasks."""

from __future__ import annotations

import numpy as np

from llm_variability.curves.points import CEILING, FLOOR, Flags, Floats, Panel, starts_curve

NOISE = 2.0
"""Standard errors by which a ceiling must be above its floor for a value to be rescaled."""


def weigh_tasks(weights: Floats, values: Floats) -> Floats:
    """Average each point's tasks.

    weights: (samples, tasks). values: (tasks, points), NaN where a task has none: it is left out.
    Returns (samples, points); NaN where a sample has no task.
    """
    present = ~np.isnan(values)
    total = weights @ present
    with np.errstate(invalid="ignore"):
        means: Floats = weights @ np.where(present, values, 0) / total
    return means


def find_rescalable(panel: Panel) -> Flags:
    """Tell, (tasks, points), which tasks have a pair at a point, a ceiling and a floor."""
    lines = panel.similarity[:, [panel.points.index(CEILING), panel.points.index(FLOOR)]]
    flags: Flags = ~np.isnan(panel.similarity) & ~np.isnan(lines).any(axis=1, keepdims=True)
    return flags


def rescale(panel: Panel, weights: Floats) -> Floats:
    """Put each sample's means between floor and ceiling: 0 is the floor, 1 the ceiling.

    All three means of a point are over the tasks that have all three.

    weights: (samples, tasks). Returns (samples, points) of (mean - floor) / (ceiling - floor); NaN
    where a sample's ceiling is not above its floor, or it has no task.
    """
    present = find_rescalable(panel)
    ceiling, floor = panel.points.index(CEILING), panel.points.index(FLOOR)
    means, tops, bottoms = (
        weigh_tasks(weights, np.where(present, values, np.nan))
        for values in (
            panel.similarity,
            panel.similarity[:, [ceiling]],
            panel.similarity[:, [floor]],
        )
    )
    means[:, floor] = bottoms[:, floor]
    starts = [ceiling, *(i for i, point in enumerate(panel.points) if starts_curve(point))]
    means[:, starts] = tops[:, starts]
    range_ = tops - bottoms
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled: Floats = np.where(range_ > 0, (means - bottoms) / range_, np.nan)
    return scaled


def explain_lines(panel: Panel) -> list[str | None]:
    """Say, point by point, why a mean cannot be put between floor and ceiling; None if it can."""
    present = find_rescalable(panel)
    tops, bottoms = (panel.similarity[:, panel.points.index(line)] for line in (CEILING, FLOOR))
    return [_explain(tops[rows], bottoms[rows], len(panel.tasks)) for rows in present.T]


def _explain(tops: Floats, bottoms: Floats, n_tasks: int) -> str | None:
    if not len(tops):
        return "no task has a pair here, a ceiling and a floor"
    if len(tops) == 1 < n_tasks:
        return f"one task of {n_tasks} has a pair here, a ceiling and a floor"
    told = f"the ceiling ({tops.mean():.3f}) is"
    if tops.mean() <= bottoms.mean():
        return f"{told} not above the floor ({bottoms.mean():.3f})"
    if len(tops) == 1:
        return None
    error = float(np.std(tops - bottoms, ddof=1) / np.sqrt(len(tops)))
    if tops.mean() - bottoms.mean() < NOISE * error:
        return (
            f"{told} above the floor ({bottoms.mean():.3f}) by less than {NOISE:g} standard errors"
            f" ({NOISE:g} × {error:.3f})"
        )
    return None
