"""The rescaled curve of a method over realised rates, in any sample of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from llm_variability.curves.points import Flags, Floats, Names, Panel, starts_curve
from llm_variability.curves.resampling import delete_weights
from llm_variability.curves.rescaling import explain_lines, find_rescalable, rescale, weigh_tasks
from llm_variability.curves.shapes import FIRST_THIRD, half_life, initial_slope, mean_height

NEAR = 0.01
"""Realised rates that differ by less are one rate, measured more than once."""

Samples = tuple[Floats, Floats]
"""Rates and heights of a curve in each sample, (samples, points) both, the first point (0, 1)."""


@dataclass(frozen=True)
class Trace:
    """The curve of one method, and where it lies without each of its tasks.

    asked: all tasks of the sets that bootstrap samples are drawn from.
    tasks, sets: (tasks,) those with a pair at a point of the curve, a ceiling and a floor.
    whole: of all tasks, one sample. without: a sample without each task, in the tasks' order.
    half_lives: (resamples,) in each bootstrap sample; infinite where it is not reached.
    used: (points,) the points that the slope at zero is taken from.
    left_out: why points are not part of the curve, if any is not.
    """

    asked: Names
    tasks: Names
    sets: Names
    whole: Samples
    without: Samples
    half_lives: Floats
    used: Flags
    left_out: str | None

    @property
    def end(self) -> float:
        """The largest realised rate."""
        return float(self.whole[0][0, -1])


class NoCurveError(ValueError):
    """Tasks from which no curve can be made, with the reason."""


class Tracer:
    """Makes a method's curve from samples of one set's tasks.

    Points whose realised rates are less than `NEAR` apart, or less than half the smallest step of
    the nominal rates, are averaged to one: where a text has no more words to replace, several
    nominal rates measure one realised rate, and the lowest of several noisy points would end the
    half-life too early.
    Raises NoCurveError if no point can be rescaled, or none has a realised rate above 0.
    """

    def __init__(self, panel: Panel, method: str) -> None:
        columns = [i for i, point in enumerate(panel.points) if point.method == method]
        columns = [i for i in columns if not starts_curve(panel.points[i])]
        reasons = explain_lines(panel)
        kept = [i for i in columns if reasons[i] is None]
        if not kept:
            raise NoCurveError(next((reasons[i] for i in columns if reasons[i]), "no rate"))
        self.panel = panel
        self.left_out = _tell_left_out(
            {panel.points[i].rate: reasons[i] for i in columns if reasons[i] is not None}
        )
        nominal = sorted(float(panel.points[i].rate or 0) for i in columns)
        step = min(np.diff(nominal), default=1.0)
        realised = self._average_rates(np.ones((1, len(panel.tasks))), np.array(kept))[0]
        if not realised.max() > 0:
            raise NoCurveError("no realised rate above 0")
        self.columns = np.array(kept)[np.argsort(realised, kind="stable")]
        self.merge = _merge_near(np.sort(realised), min(NEAR, step / 2))
        self.present = find_rescalable(panel)[:, self.columns].any(axis=1)
        self.whole = self.draw(np.ones((1, len(panel.tasks))))
        self.used = self.whole[0][0] <= FIRST_THIRD + 1e-9
        self.used[0], self.used[1] = False, True

    def draw(self, weights: Floats) -> Samples:
        """Give rates and heights in samples of tasks. weights: (samples, tasks)."""
        rates = self._average_rates(weights, self.columns) @ self.merge.T
        heights = rescale(self.panel, weights)[:, self.columns] @ self.merge.T
        order = np.argsort(rates, axis=1, kind="stable")
        rates, heights = (np.take_along_axis(each, order, axis=1) for each in (rates, heights))
        start = np.ones((len(weights), 1))
        return np.hstack([0 * start, rates]), np.hstack([start, heights])

    def trace(self, half_lives: Floats) -> Trace:
        """Give the curve of all tasks, and those without each of them.

        half_lives: (resamples,) in bootstrap samples, as `summarise` gives them.
        """
        deleted = delete_weights(len(self.panel.tasks))[self.present]
        return Trace(
            self.panel.tasks,
            self.panel.tasks[self.present],
            self.panel.sets[self.present],
            self.whole,
            self.draw(deleted),
            half_lives,
            self.used,
            self.left_out,
        )

    def _average_rates(self, weights: Floats, columns: npt.NDArray[np.int64]) -> Floats:
        there = find_rescalable(self.panel)[:, columns]
        return weigh_tasks(weights, np.where(there, self.panel.realised[:, columns], np.nan))


def summarise(samples: Samples, used: Flags, end: Floats | None = None) -> dict[str, Floats]:
    """Give the three numbers of a curve in each sample: (samples,) each.

    end: (samples,) where the area ends; default: at each sample's last rate.
    """
    rates, heights = samples
    return {
        "auc": mean_height(rates, heights, rates[:, -1] if end is None else end),
        "half_life": half_life(rates, heights),
        "slope": initial_slope(rates, heights, used),
    }


def _merge_near(rates: Floats, near: float) -> Floats:
    """Give the (merged, points) matrix that averages points whose ascending rates are near."""
    group = np.concatenate([[0], np.cumsum(np.diff(rates) >= near)]).astype(int)
    merge = (np.arange(group[-1] + 1)[:, None] == group).astype(float)
    merged: Floats = merge / merge.sum(axis=1, keepdims=True)
    return merged


def _tell_left_out(reasons: Mapping[str | None, str | None]) -> str | None:
    if not reasons:
        return None
    first = next(iter(reasons.values()))
    return f"without rate {', '.join(str(rate) for rate in reasons)}: {first}"
