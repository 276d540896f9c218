"""Every point of every curve, raw and rescaled, with intervals from tasks drawn anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from llm_variability.curves.points import Floats, Panel, Point, starts_curve
from llm_variability.curves.resampling import Interval, find_interval
from llm_variability.curves.rescaling import explain_lines, find_rescalable, rescale, weigh_tasks

ALL = None
"""In place of a set's name: all sets together."""


def tabulate_points(
    panel: Panel, task_set: str | None, weights: Floats
) -> Iterator[dict[str, Any]]:
    """Give the CURVES rows of one set, or of all, without the study.

    A curve's first point is the ceiling itself, under comparison `augmented`, at rate 0; where a
    method changes a text at nominal rate 0 too, the first point has no nominal rate.

    panel: of this set's tasks. weights: (resamples, tasks) of bootstrap samples.
    """
    whole = np.ones((1, len(panel.tasks)))
    raw, raw_samples = (weigh_tasks(each, panel.similarity) for each in (whole, weights))
    scaled, scaled_samples = (rescale(panel, each) for each in (whole, weights))
    compared, rescalable = ~np.isnan(panel.similarity), find_rescalable(panel)
    realised = weigh_tasks(whole, np.where(compared, panel.realised, np.nan))
    for i, (point, lines) in enumerate(zip(panel.points, explain_lines(panel), strict=True)):
        reasons: list[str | None] = []
        interval = rescaled_interval = Interval(None, None, None)
        if compared[:, i].any():
            interval = find_interval(raw_samples[:, i], panel.sets[compared[:, i]])
            reasons += [interval.reason, lines]
            if lines is None:
                sets = panel.sets[rescalable[:, i]]
                rescaled_interval = find_interval(scaled_samples[:, i], sets)
                reasons.append(rescaled_interval.reason)
        else:
            reasons.append("no pair of programs")
        yield {
            **_describe(panel, task_set, point),
            "realised": _or_none(realised[0, i]),
            "n_tasks": int(compared[:, i].sum()),
            "n_tasks_asked": int(panel.asked[:, i].sum()),
            "n_pairs": int(panel.n_pairs[:, i].sum()),
            "estimate": _or_none(raw[0, i]),
            "ci_low": interval.low,
            "ci_high": interval.high,
            "rescaled": _or_none(scaled[0, i]) if lines is None else None,
            "rescaled_low": rescaled_interval.low,
            "rescaled_high": rescaled_interval.high,
            "reason": join_reasons(reasons),
        }


def describe_panel(panel: Panel) -> dict[str, Any]:
    """Give the columns that all rows of a panel share."""
    return {
        "model": panel.model,
        "measure": panel.measure,
        "temperature": panel.temperature,
        "top_p": panel.top_p,
    }


def join_reasons(reasons: list[str | None]) -> str | None:
    """Put reasons together, each once; None if there is none."""
    return "; ".join(dict.fromkeys(each for each in reasons if each)) or None


def _describe(panel: Panel, task_set: str | None, point: Point) -> dict[str, Any]:
    comparison = "augmented" if starts_curve(point) else point.comparison
    own = {"set": task_set, "comparison": comparison, "method": point.method, "rate": point.rate}
    return {**describe_panel(panel), **own}


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
