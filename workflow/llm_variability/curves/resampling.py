"""Tasks drawn anew, and tasks left out one at a time: weights, intervals and standard errors.

Both stay inside the sets of tasks: sets are what a study chose, tasks are the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit

from llm_variability.curves.points import Floats, Names
from llm_variability.streams import begin_stream

MIN_TASKS = 4
"""Fewer tasks have no interval: three have ten different samples, and their whole range misses the
median of their population in one study of four."""

CONFIDENCE = 0.95

MAX_UNDEFINED = 0.01
"""Largest share of bootstrap samples in which a number may be undefined if it has an interval."""


class Interval(NamedTuple):
    """An interval, or the reason why an end of it is missing."""

    low: float | None
    high: float | None
    reason: str | None


def draw_weights(sets: Names, seed: int, resamples: int) -> Floats:
    """Draw tasks with replacement, within each set: how often each sample holds each task.

    The samples of a set depend on the seed, the set's name and its size alone, so all models,
    measures and settings share them, and the sets together are drawn as each by itself.

    sets: (tasks,) the set of each. Returns (resamples, tasks).
    Source: Efron and Tibshirani 1993, section 8.3.
    """
    weights = np.zeros((resamples, len(sets)))
    for name in np.unique(sets):
        rows = np.flatnonzero(sets == name)
        stream = begin_stream(seed, "curves", str(name))
        weights[:, rows] = stream.multinomial(
            len(rows), np.full(len(rows), 1 / len(rows)), size=resamples
        )
    return weights


def delete_weights(n_tasks: int) -> Floats:
    """Give the (tasks, tasks) weights that leave out one task each."""
    return np.ones((n_tasks, n_tasks)) - np.eye(n_tasks)


def explain_size(sets: Names) -> str | None:
    """Say why tasks of these sets are too few for an interval; None if they are enough."""
    names, sizes = np.unique(sets, return_counts=True)
    if len(sets) < MIN_TASKS:
        tasks = "1 task" if len(sets) == 1 else f"{len(sets)} tasks"
        return f"{tasks} with a pair: an interval needs {MIN_TASKS}"
    if sizes.min() < 2:
        return (
            f"one task with a pair in set {names[sizes.argmin()]}: an interval needs 2 in each set"
        )
    return None


def expanded_tail(n_tasks: int, n_sets: int) -> float:
    """Give the share of bootstrap samples beyond each end of a 95% interval.

    Samples spread less than the tasks' population does, by the root of (n - sets) / n, and the
    normal has shorter tails than t; an interval for a mean whose samples are normal is that of t
    if the tails are Phi(-sqrt(n / (n - sets)) t) instead of 2.5%.
    Source: Hesterberg 2015, The American Statistician 69, section 4.2 (expanded percentiles).
    """
    df = n_tasks - n_sets
    return float(ndtr(-np.sqrt(n_tasks / df) * stdtrit(df, (1 + CONFIDENCE) / 2)))


def find_interval(samples: Floats, sets: Names) -> Interval:
    """Find the expanded percentile interval of a number from its bootstrap samples.

    samples: (resamples,) infinite where the number is beyond every bound, NaN where it is
        undefined. sets: (tasks with a pair,) the set of each.
    An end that is infinite is None, with the reason.
    """
    if reason := explain_size(sets):
        return Interval(None, None, reason)
    defined = np.sort(samples[~np.isnan(samples)])
    lost = 1 - len(defined) / len(samples)
    if lost > MAX_UNDEFINED:
        return Interval(None, None, f"undefined in {lost:.1%} of the bootstrap samples")
    tail = expanded_tail(len(sets), len(np.unique(sets)))
    below = max(int(np.floor(tail * (len(defined) + 1))) - 1, 0)
    low, high = float(defined[below]), float(defined[len(defined) - 1 - below])
    if np.isfinite(high):
        return Interval(low, high, None)
    share = float(np.isinf(defined).mean())
    reason = f"no upper end: not reached in {share:.1%} of the bootstrap samples"
    return Interval(low if np.isfinite(low) else None, None, reason)


def bootstrap_test(estimate: float, parts: Sequence[tuple[Floats, Names]]) -> Test | None:
    """Test a number against 0, from bootstrap samples of what it is the sum of.

    The variance of n tasks of S sets is that of the samples times n / (n - S), on n - S degrees of
    freedom; those of independent parts add up, with Satterthwaite's degrees of freedom.

    parts: independent ones, each its (resamples,) samples and the (tasks,) set of each task;
        samples that are no finite number are left out.
    Returns None if the samples are all equal.
    """
    variances, df = [], []
    for samples, sets in parts:
        n_tasks, n_sets = len(sets), len(np.unique(sets))
        spread = float(samples[np.isfinite(samples)].var(ddof=1))
        variances.append(spread * n_tasks / (n_tasks - n_sets))
        df.append(n_tasks - n_sets)
    return _test(estimate, np.array(variances), np.array(df))


class Test(NamedTuple):
    """A difference's standard error, the degrees of freedom of t, its two-sided p value."""

    std_error: float
    df: float
    p_value: float

    @property
    def margin(self) -> float:
        """Half the width of the 95% interval."""
        return self.std_error * float(stdtrit(self.df, (1 + CONFIDENCE) / 2))


def jackknife(estimate: float, without: Floats, sets: Names) -> Test | None:
    """Test a number against 0, from its values without each of the tasks.

    With n_s tasks of set s and d_s the sum of squares of their values about their mean, the
    variance is the sum of (n_s - 1) / n_s d_s; the degrees of freedom are Satterthwaite's, n_s - 1
    a set. For the mean of one set this is the t test.

    without: (tasks,). sets: (tasks,) the set of each, two tasks of each at least.
    Returns None if no task makes a difference.
    Source: Wolter 2007, Introduction to Variance Estimation, section 4.5; Satterthwaite 1946.
    """
    parts, df = [], []
    for name in np.unique(sets):
        values = without[sets == name]
        centred = values - values.mean()
        parts.append((len(values) - 1) / len(values) * float(centred @ centred))
        df.append(len(values) - 1)
    return _test(estimate, np.array(parts), np.array(df))


def _test(estimate: float, variances: Floats, df: Floats) -> Test | None:
    error = float(np.sqrt(variances.sum()))
    # Rounding alone moves a number of size 1 by some 1e-16 from sample to sample.
    if error < 1e-12:
        return None
    pooled = float(variances.sum() ** 2 / (variances**2 / df).sum())
    return Test(error, pooled, float(2 * stdtr(pooled, -abs(estimate / error))))
