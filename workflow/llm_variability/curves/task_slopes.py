"""Mixed models of a study of code: how similarity falls with the realised rate, over tasks.

    similarity = b0 + b1 realised + (u + v realised, of the task) + noise

for each measure, setting, set of tasks and method that has a rate. The ceiling, the unaltered
prompt's draws with each other, is rate 0. At level `pair` an observation is a pair of programs; at
level `task` it is the mean of a task at a nominal rate. Paraphrases have no rate, so they have no
line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from llm_variability.config_code import ORIGINAL, PARAPHRASE
from llm_variability.curves.random_slopes import (
    RANDOM,
    SlopeFit,
    fit_slopes,
    fit_slopes_statsmodels,
)
from llm_variability.fits.fit_table import MIN_SD, setting_order
from llm_variability.fits.random_intercept import GroupedOutcome, UnfittableError
from llm_variability.tables_code import CURVE_FITS

LEVELS = ("pair", "task")
"""What one observation is."""

TERMS = ("intercept", "rate")
"""Fixed effects: the similarity at rate 0, and what it changes by from rate 0 to rate 1."""

BACKENDS: Mapping[str, Callable[[GroupedOutcome, str], SlopeFit]] = {
    "profile": fit_slopes,
    "statsmodels": fit_slopes_statsmodels,
}

CONFIDENCE = 0.95


def fit_curves(
    averages: pl.DataFrame, *, study: str, model: str, backend: str = "profile"
) -> pl.DataFrame:
    """Fit the lines of one model: each measure, setting, set and method, at both levels.

    averages: an AVERAGES table with the columns `task`, `set`, `method` and `rate`, of one model
        and any number of measures and settings.
    backend: one of BACKENDS.

    A set is fitted alone and, with set null, all sets together. What cannot be fitted is one row
    with a reason and no numbers: fewer than three tasks with pairs at two rates or more, no
    variance, a search that did not reach a maximum. p values at level `task` are from t with
    Satterthwaite's degrees of freedom; at level `pair` from the normal distribution, as if no two
    pairs shared a draw.

    Returns a CURVE_FITS table whose adjusted p values and family sizes are empty.
    Raises ValueError for an unknown backend or a method with a rate that was not measured.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend: {backend!r} is none of {', '.join(BACKENDS)}")
    rows: list[dict[str, Any]] = []
    for head, observations in _part_curves(averages):
        for level in LEVELS:
            of_level = observations if level == "pair" else average_tasks(observations)
            for random in RANDOM:
                rows += _fit_rows(
                    {
                        "study": study,
                        "model": model,
                        **head,
                        "level": level,
                        "random": random,
                        "backend": backend,
                    },
                    of_level,
                )
    empty = dict.fromkeys(CURVE_FITS.columns)
    return pl.DataFrame(
        [{**empty, **row} for row in rows],
        schema={name: column.dtype for name, column in CURVE_FITS.columns.items()},
    )


def select_observations(averages: pl.DataFrame, method: str) -> pl.DataFrame:
    """Take the pairs a method's line is drawn through, of one measure and setting.

    The ceiling gives those at rate 0. An augmentation that left a prompt as it was has the very
    draws of the unaltered prompt, so its pairs are the ceiling's and do not count twice.

    Returns rows of `task`, `rate` (nominal; null for the ceiling), `realised`, `n_pairs`, `mean`
    and `within_ss`, a row a prompt that has pairs.
    Raises ValueError if a realised rate is missing.
    """
    ceiling = averages.filter(pl.col("comparison") == "ceiling")
    augmented = averages.filter(
        pl.col("comparison") == "augmented", pl.col("method") == method
    ).join(ceiling, on=["task", "prompt_id"], how="anti")
    if augmented["realised"].null_count():
        raise ValueError(f"averages: method {method} has rows without a realised rate")
    at_zero = ceiling.with_columns(rate=pl.lit(None, pl.String), realised=pl.lit(0.0))
    return (
        pl.concat([at_zero, augmented])
        .filter(pl.col("n_pairs") > 0)
        .select(
            "task",
            "rate",
            "realised",
            "n_pairs",
            "mean",
            within_ss=pl.col("within_ss").fill_null(0),
        )
        .sort("task", "realised", "rate", maintain_order=True)
    )


def average_tasks(observations: pl.DataFrame) -> pl.DataFrame:
    """Make one observation of a task at a nominal rate: the mean over its variants, equal weights.

    The realised rate is averaged alike, which leaves a line a line.
    """
    return (
        observations.group_by("task", "rate", maintain_order=True)
        .agg(pl.col("realised", "mean").mean())
        .with_columns(n_pairs=pl.lit(1, pl.Int64), within_ss=pl.lit(0.0))
    )


def _part_curves(averages: pl.DataFrame) -> Iterator[tuple[dict[str, Any], pl.DataFrame]]:
    """Part the averages into lines: what tells one, and its observations."""
    methods = [
        method
        for method in averages["method"].unique(maintain_order=True)
        if method not in (ORIGINAL, PARAPHRASE)
    ]
    keys = averages.select("measure", "temperature", "top_p").unique(maintain_order=True)
    measures = keys["measure"].unique(maintain_order=True).to_list()
    for measure, *setting in sorted(
        keys.iter_rows(), key=lambda key: (measures.index(key[0]), setting_order(key[1:]))
    ):
        here = averages.filter(
            pl.col("measure") == measure,
            pl.col("temperature") == setting[0],
            pl.col("top_p").eq_missing(pl.lit(setting[1], pl.String)),
        )
        for name in [*sorted(here["set"].unique()), None]:
            of_set = here if name is None else here.filter(pl.col("set") == name)
            for method in methods:
                if not of_set.filter(pl.col("method") == method).height:
                    continue
                yield (
                    {
                        "measure": measure,
                        "temperature": setting[0],
                        "top_p": setting[1],
                        "set": name,
                        "method": method,
                    },
                    select_observations(of_set, method),
                )


def _fit_rows(head: dict[str, Any], observations: pl.DataFrame) -> list[dict[str, Any]]:
    head |= {
        "n_observations": int(observations["n_pairs"].sum()),
        "n_tasks": observations["task"].n_unique(),
    }
    try:
        fit = BACKENDS[head["backend"]](_make_outcome(observations), head["random"])
        if not fit.converged:
            raise UnfittableError("the fit did not converge: no maximum was reached")
    except UnfittableError as error:
        return [{**head, "converged": False, "reason": str(error)}]
    return [{**head, **each} for each in _describe_terms(fit, head["level"])]


def _make_outcome(observations: pl.DataFrame) -> GroupedOutcome:
    if not observations.height:
        raise UnfittableError("no pairs")
    rate = observations["realised"].to_numpy()
    outcome = GroupedOutcome(
        block=np.unique(observations["task"].to_numpy(), return_inverse=True)[1].astype(np.int64),
        coding=np.column_stack([np.ones_like(rate), rate]),
        count=observations["n_pairs"].to_numpy(),
        mean=observations["mean"].to_numpy(),
        within_ss=observations["within_ss"].to_numpy(),
    )
    if outcome.total_ss < MIN_SD**2 * max(outcome.n_observations - 1, 1):
        raise UnfittableError("no variance: all similarities are equal")
    return outcome


def _describe_terms(fit: SlopeFit, level: str) -> Iterator[dict[str, Any]]:
    for i, term in enumerate(TERMS):
        estimate, error = float(fit.estimate[i]), float(fit.std_error[i])
        df = float(fit.df[i]) if level == "task" else None
        statistic = -abs(estimate) / error
        tail = float(ndtr(statistic) if df is None else stdtr(df, statistic))
        share = (1 + CONFIDENCE) / 2
        margin = error * float(ndtri(share) if df is None else stdtrit(df, share))
        yield {
            "term": term,
            "estimate": estimate,
            "std_error": error,
            "ci_low": estimate - margin,
            "ci_high": estimate + margin,
            "p_value": min(2 * tail, 1.0),
            "df": df,
            "var_intercept": fit.var_intercept,
            "var_slope": fit.var_slope,
            "correlation": fit.correlation,
            "var_residual": fit.var_residual,
            "converged": True,
        }
