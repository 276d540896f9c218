"""The text level of one setting: from a row a text to every contrast under both scopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy.special import stdtr, stdtrit

from llm_variability.fits.coding import INTERCEPT, list_groups
from llm_variability.fits.contrasts import CODINGS, Contrast, list_contrasts
from llm_variability.fits.random_intercept import Floats, Integers, UnfittableError
from llm_variability.fits.text_inference import (
    CONFIDENCE,
    FORMATS_FIXED,
    FORMATS_RANDOM,
    GroupVariance,
    Inference,
    combine_independent,
    combine_shared,
    infer_formats_fixed,
    infer_formats_random,
    simultaneous_quantile,
)
from llm_variability.fits.text_variance import (
    MIN_TEXTS,
    correct_covariance,
    correct_jackknife,
    jackknife_covariance,
)
from llm_variability.tables import Design

LEVEL = "text"

ESTIMATORS = {FORMATS_FIXED: "jackknife", FORMATS_RANDOM: "format-clustered"}
"""What the standard error of each scope comes from; stands in the column `backend`."""

MIN_STD_ERROR = 1e-8
"""Standard error, in cosines, that the rounding of float32 unit vectors alone can make."""

NO_VARIANCE = "no variance: the texts of the groups compared are all equally typical"


def fit_texts(
    similarity: pl.DataFrame,
    means: Floats,
    within_ss: Floats,
    design: Design,
    blocks: tuple[str, ...],
    scope: str,
    outcome: tuple[float, float],
) -> list[Mapping[str, Any]]:
    """Estimate every contrast of one setting under one scope; a mapping a row of a FITS table.

    A term's estimate is the mean over the blocks of a linear combination of the groups' mean
    cosines, every block with the same weight, in the units of the pairwise fit: the intercept has
    the outcome's mean taken off, and all are divided by its standard deviation, which are taken as
    known. Where a design names a unit, that is what is resampled, in all blocks at once.
    `simultaneous_low` and `simultaneous_high` cover all terms of the same coding at once, the
    intercept aside.

    similarity: one setting of a SIMILARITY table, complete: four texts or more in every block x
        group. means, within_ss: (blocks, groups) mean cosines, and the pairs' sums of squared
        deviations from them. outcome: mean and SD of the pairwise cosines.
    A contrast without variance (of groups whose texts are all the same) has a reason in place of
    numbers. Raises UnfittableError if no contrast has any, or a unit has several texts in one
    block x group.
    """
    groups = measure_groups(similarity, within_ss, design, blocks)
    infer = infer_formats_fixed if scope == FORMATS_FIXED else infer_formats_random
    contrasts = list_contrasts(design.factors)
    inference = infer(means, groups, np.array([each.weights for each in contrasts]))
    if not (inference.std_error >= MIN_STD_ERROR).any():
        raise UnfittableError("no variance: in every group all texts are equally typical")
    return describe_contrasts(inference, contrasts, outcome, MIN_STD_ERROR, NO_VARIANCE)


def describe_contrasts(
    inference: Inference,
    contrasts: Sequence[Contrast],
    outcome: tuple[float, float],
    min_error: float,
    no_variance: str,
) -> list[Mapping[str, Any]]:
    """Write each contrast as a mapping a row of a FITS table, coding by coding.

    `simultaneous_low` and `simultaneous_high` cover all terms of a coding at once, the intercept
    aside. A contrast whose standard error is below `min_error` has the reason `no_variance`.

    inference: a term a contrast. outcome: mean and SD that estimates are brought to.
    """
    known = {i for i in range(len(contrasts)) if inference.std_error[i] >= min_error}
    rows: list[Mapping[str, Any]] = []
    for coding in CODINGS:
        members = [i for i in range(len(contrasts)) if contrasts[i].coding == coding]
        effects = [i for i in members if i in known and contrasts[i].term != INTERCEPT]
        quantile = simultaneous_quantile(_select(inference, effects)) if effects else np.nan
        for i in members:
            head = {"coding": coding, "term": contrasts[i].term}
            if i in known:
                rows.append(head | _describe(inference, contrasts[i], i, quantile, outcome))
            else:
                rows.append(head | {"converged": False, "reason": no_variance})
    return rows


def measure_groups(
    similarity: pl.DataFrame, within_ss: Floats, design: Design, blocks: tuple[str, ...]
) -> GroupVariance:
    """Estimate the variance of the groups' mean cosines by deleting one unit at a time.

    The jackknife's known excess is taken off (`correct_jackknife`).

    similarity: one setting, complete. The unit is the text, or the design's own: then deleting
        it takes its text out of all blocks at once.
    within_ss: (blocks, groups) the pairs' sums of squared deviations from their mean.
    Raises UnfittableError if a unit has several texts in one block x group.
    """
    deviations = similarity.with_columns(
        deleted=-2
        * (pl.col("cosine_sum") - pl.col("cosine_sum").mean().over(design.group))
        / (pl.col("n_mates") * (pl.col("n_mates") - 1))
    )
    groups = list_groups(design.factors)
    keys = [(block, *group) for block in blocks for group in groups]
    grid = pl.DataFrame(keys, schema=dict.fromkeys(design.group, pl.String), orient="row")
    sums = deviations.group_by(design.group).agg(n=pl.len(), squares=pl.col("deleted").pow(2).sum())
    complete = grid.join(sums, on=design.group, how="left", maintain_order="left")
    n, squares = (complete[name].to_numpy().reshape(within_ss.shape) for name in ("n", "squares"))
    jackknife = (n - 1) / n * squares
    variance = correct_jackknife(jackknife, within_ss, n)
    if design.unit is None:
        return combine_independent(variance, n)
    tables = _list_units(deviations, design, design.unit, blocks)
    covariance = np.array([jackknife_covariance(table) for table in tables])
    return combine_shared(
        correct_covariance(covariance, jackknife.T, variance.T),
        np.array([table.shape[1] for table in tables]),
    )


def require_deletable(n_texts: Integers, keys: list[tuple[str, ...]]) -> None:
    """Raise UnfittableError unless every block x group has two pairs without a text in common."""
    small = [
        f"{' / '.join(key)} ({n})" for key, n in zip(keys, n_texts, strict=True) if n < MIN_TEXTS
    ]
    if small:
        more = f" and {len(small) - 3} more" if len(small) > 3 else ""
        raise UnfittableError(f"fewer than four texts in {', '.join(small[:3])}{more}")


def require_single_texts(texts: pl.DataFrame, group: list[str], unit: str) -> None:
    """Raise UnfittableError if a unit has several texts in one group."""
    twice = texts.filter(pl.struct(*group, unit).is_duplicated())
    if twice.height:
        where = " / ".join(str(twice[name][0]) for name in [*group, unit])
        raise UnfittableError(f"{unit} with several texts where one is compared: {where}")


def _list_units(
    deviations: pl.DataFrame, design: Design, unit: str, blocks: tuple[str, ...]
) -> list[Floats]:
    """Lay each group's deviations out as (blocks, units), 0 where a block lacks the unit."""
    require_single_texts(deviations, design.group, unit)
    of_group = deviations.partition_by([factor.name for factor in design.factors], as_dict=True)
    return [
        of_group[group]
        .pivot(on=design.block, index=unit, values="deleted")
        .select(blocks)
        .fill_null(0)
        .to_numpy()
        .T
        for group in list_groups(design.factors)
    ]


def _select(inference: Inference, terms: list[int]) -> Inference:
    return Inference(
        inference.estimate[terms],
        inference.covariance[np.ix_(terms, terms)],
        inference.df[terms],
        inference.joint_df,
    )


def _describe(
    inference: Inference,
    contrast: Contrast,
    i: int,
    quantile: float,
    outcome: tuple[float, float],
) -> dict[str, Any]:
    """Bring the i-th contrast to the outcome's units, in which it is tested against 0."""
    mean, deviation = outcome
    is_intercept = contrast.term == INTERCEPT
    estimate = (float(inference.estimate[i]) - (mean if is_intercept else 0)) / deviation
    error = float(inference.std_error[i]) / deviation
    df = float(inference.df[i])
    own = float(stdtrit(df, (1 + CONFIDENCE) / 2)) * error
    joint = None if is_intercept else quantile * error
    return {
        "estimate": estimate,
        "std_error": error,
        "statistic": estimate / error,
        "df": df,
        "p_value": float(2 * stdtr(df, -abs(estimate / error))),
        "ci_low": estimate - own,
        "ci_high": estimate + own,
        "simultaneous_low": None if joint is None else estimate - joint,
        "simultaneous_high": None if joint is None else estimate + joint,
        "outcome_mean": mean,
        "outcome_sd": deviation,
    }
