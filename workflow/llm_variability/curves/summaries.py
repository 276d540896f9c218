"""Area, half-life and slope of every curve, with intervals from tasks drawn anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from llm_variability.curves.curve_table import describe_panel, join_reasons
from llm_variability.curves.points import Floats, Panel
from llm_variability.curves.resampling import MAX_UNDEFINED, find_interval
from llm_variability.curves.traces import NoCurveError, Trace, Tracer, summarise
from llm_variability.tables_code import SUMMARIES


def tabulate_summaries(
    panel: Panel, task_set: str | None, weights: Floats, traces: dict[str, Trace]
) -> Iterator[dict[str, Any]]:
    """Give the CURVE_SUMMARIES rows of one set, or of all, without the study.

    panel: of this set's tasks. weights: (resamples, tasks) of bootstrap samples.
    traces: receives each method's curve; a method without one is not put in.
    """
    for method in panel.methods:
        head = {**describe_panel(panel), "set": task_set, "method": method}
        try:
            tracer = Tracer(panel, method)
        except NoCurveError as error:
            for name in SUMMARIES:
                yield {**head, "summary": name, "n_tasks": 0, "reason": str(error)}
            continue
        samples = summarise(tracer.draw(weights), tracer.used)
        trace = traces[method] = tracer.trace(samples["half_life"])
        whole = summarise(trace.whole, trace.used)
        for name in SUMMARIES:
            yield {
                **head,
                "summary": name,
                "n_tasks": len(trace.tasks),
                **_tell(float(whole[name][0]), samples[name], trace),
            }


def explain_absence(trace: Trace) -> str:
    """Say that a curve has no half-life."""
    return f"not reached below {trace.end:.3g}"


def _tell(estimate: float, samples: Floats, trace: Trace) -> dict[str, Any]:
    reached = bool(np.isfinite(estimate))
    interval = find_interval(samples, trace.sets)
    reasons = [None if reached else explain_absence(trace), interval.reason, trace.left_out]
    return {
        "estimate": estimate if reached else None,
        "std_error": _spread(samples) if reached and interval.low is not None else None,
        "ci_low": interval.low,
        "ci_high": interval.high if reached else None,
        "reason": join_reasons(reasons),
    }


def _spread(samples: Floats) -> float | None:
    """Give the standard deviation of the bootstrap samples, if it is a number."""
    defined = samples[~np.isnan(samples)]
    if not np.isfinite(defined).all() or 1 - len(defined) / len(samples) > MAX_UNDEFINED:
        return None
    return float(defined.std(ddof=1))
