"""Contrasts of any measure of a group's texts, from its values with each unit left out.

What `text_level` does for mean cosines this does for a measure that is no mean of pairs. The
variance of a group's value is the jackknife's,

    (n - 1) / n  sum over units of (value without unit i - their mean)^2,

which is right for smooth functions of the texts' distribution as n grows, and errs on the large
side for few texts (Efron and Stein 1981, Annals of Statistics 9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from llm_variability.fits.coding import list_groups
from llm_variability.fits.contrasts import list_contrasts
from llm_variability.fits.fit_table import (
    Setting,
    complete_rows,
    require_blocks,
    require_levels,
    tabulate_rows,
)
from llm_variability.fits.random_intercept import Floats, UnfittableError
from llm_variability.fits.text_inference import (
    FORMATS_FIXED,
    FORMATS_RANDOM,
    SCOPES,
    GroupVariance,
    combine_independent,
    combine_shared,
    infer_formats_fixed,
    infer_formats_random,
)
from llm_variability.fits.text_level import (
    ESTIMATORS,
    LEVEL,
    describe_contrasts,
    require_deletable,
)
from llm_variability.fits.text_variance import correct_covariance, jackknife_covariance
from llm_variability.tables import Design

MIN_STD_ERROR = 1e-10
"""Standard error, as a share of the largest value, that rounding alone can make."""

NO_VARIANCE = {
    FORMATS_FIXED: "no variance: the measure stays the same whichever text is left out",
    FORMATS_RANDOM: "no variance: the measure differs by the same in every block",
}

Key = tuple[str, ...]
"""A block x group: the block, then a level of each factor."""


@dataclass(frozen=True)
class Measured:
    """A measure of one group's texts, and of those without each in turn, in its own units.

    value: NaN if it has none. deleted: (n,) in the order of the texts.
    """

    value: float
    deleted: Floats


@dataclass(frozen=True)
class MeasuredSetting:
    """A measure of every block x group of one setting.

    n_texts: of each block x group before all were cut to the same number; absent for none.
    measured: of each block x group with two texts or more.
    units: the unit that each text left out belongs to, where a design names one.
    no_jackknife: why the jackknife's variance of it is not to be had; None where it is.
    """

    n_texts: Mapping[Key, int]
    measured: Mapping[Key, Measured]
    units: Mapping[Key, Sequence[str]] | None = None
    no_jackknife: str | None = None


def fit_measure(
    settings: Mapping[Setting, MeasuredSetting],
    design: Design,
    *,
    study: str,
    model: str,
    analysis: str,
    measure: str,
) -> pl.DataFrame:
    """Estimate every contrast of a measure at each setting of a model, under both scopes.

    A term's estimate is the mean over the blocks of a linear combination of the groups' values, in
    the measure's own units (`outcome_mean` 0, `outcome_sd` 1), every block with the same weight.
    Standard errors, degrees of freedom and intervals are those of `text_inference`: from the
    jackknife if the blocks are fixed, from the contrast's spread over the blocks if they are
    random. `n_observations` counts the texts measured.

    What cannot be estimated is a row with a reason, as in `fit_table.fit_settings`: greedy anchors,
    groups without texts, fewer than four texts in one, a measure without a value or variance, or
    without a jackknife where one is needed: with fixed blocks, or units that all blocks share.

    Returns a FITS table, in the order of `settings`.
    """
    rows: list[dict[str, Any]] = []
    for setting, of_groups in settings.items():
        blocks = design.blocks or tuple(sorted({key[0] for key in of_groups.n_texts}))
        used = [len(each.deleted) for each in of_groups.measured.values()]
        for scope in SCOPES:
            head = {
                "study": study,
                "model": model,
                "analysis": analysis,
                "measure": measure,
                "temperature": setting[0],
                "top_p": setting[1],
                "level": LEVEL,
                "scope": scope,
                "n_observations": sum(used),
                "n_blocks": len({key[0] for key in of_groups.measured}),
                "backend": ESTIMATORS[scope],
            }
            rows += complete_rows(
                head, design, partial(infer_measure, of_groups, design, blocks, scope)
            )
    return tabulate_rows(rows)


def infer_measure(
    setting: MeasuredSetting, design: Design, blocks: tuple[str, ...], scope: str
) -> list[Mapping[str, Any]]:
    """Estimate every contrast of one setting under one scope; a mapping a row of a FITS table.

    Raises UnfittableError, with the reason, if there is nothing to estimate.
    """
    groups = list_groups(design.factors)
    keys = [(block, *group) for block in blocks for group in groups]
    n_texts = np.array([setting.n_texts.get(key, 0) for key in keys])
    require_levels(n_texts, keys, design)
    if scope == FORMATS_RANDOM:
        require_blocks(blocks, design.block, "a sample of them")
    require_deletable(n_texts, keys)
    if setting.no_jackknife and (scope == FORMATS_FIXED or design.unit is not None):
        raise UnfittableError(setting.no_jackknife)
    measured = [setting.measured[key] for key in keys]
    for key, each in zip(keys, measured, strict=True):
        if not (np.isfinite(each.value) and np.isfinite(each.deleted).all()):
            raise UnfittableError(f"no value: the texts of {' / '.join(key)} are too short for it")
    shape = len(blocks), len(groups)
    values = np.array([each.value for each in measured]).reshape(shape)
    variance = combine_deleted(setting, design, blocks)
    contrasts = list_contrasts(design.factors)
    infer = infer_formats_fixed if scope == FORMATS_FIXED else infer_formats_random
    inference = infer(values, variance, np.array([each.weights for each in contrasts]))
    least = MIN_STD_ERROR * max(float(np.abs(values).max()), MIN_STD_ERROR)
    if not (inference.std_error >= least).any():
        raise UnfittableError(NO_VARIANCE[scope])
    return describe_contrasts(inference, contrasts, (0.0, 1.0), least, NO_VARIANCE[scope])


def combine_deleted(
    setting: MeasuredSetting, design: Design, blocks: tuple[str, ...]
) -> GroupVariance:
    """Estimate the variance of each group's value, averaged over the blocks.

    Blocks are independent where every text is a unit of its own. Where the design names a unit, it
    is left out of all blocks at once: that gives the blocks' covariances, with the correlations of
    what deleting each unit does and the blocks' own jackknife variances.

    Raises UnfittableError if a unit has several texts in one block x group.
    """
    groups = list_groups(design.factors)
    deviations = {
        (block, *group): _centre(setting.measured[block, *group].deleted)
        for block in blocks
        for group in groups
    }
    sizes = np.array([[len(deviations[b, *g]) for g in groups] for b in blocks])
    squares = np.array([[(deviations[b, *g] ** 2).sum() for g in groups] for b in blocks])
    variance = (sizes - 1) / sizes * squares
    if design.unit is None:
        return combine_independent(variance, sizes)
    if setting.units is None:
        raise ValueError(f"the texts' units are wanted: the design has the unit {design.unit}")
    tables = [_lay_out(deviations, setting.units, blocks, group, design.unit) for group in groups]
    covariance = np.array([jackknife_covariance(table) for table in tables])
    shared = correct_covariance(covariance, np.diagonal(covariance, axis1=-2, axis2=-1), variance.T)
    return combine_shared(shared, np.array([table.shape[1] for table in tables]))


def _centre(deleted: Floats) -> Floats:
    centred: Floats = deleted - deleted.mean()
    return centred


def _lay_out(
    deviations: Mapping[Key, Floats],
    units: Mapping[Key, Sequence[str]],
    blocks: tuple[str, ...],
    group: Key,
    unit: str,
) -> Floats:
    """Lay a group's deviations out as (blocks, units), 0 where a block lacks the unit."""
    every = sorted({name for block in blocks for name in units[block, *group]})
    column = {name: i for i, name in enumerate(every)}
    table = np.zeros((len(blocks), len(every)))
    for row, block in enumerate(blocks):
        names = units[block, *group]
        if len(set(names)) < len(names):
            twice = next(name for name in names if list(names).count(name) > 1)
            where = " / ".join([block, *group, twice])
            raise UnfittableError(f"{unit} with several texts where one is compared: {where}")
        table[row, [column[name] for name in names]] = deviations[block, *group]
    return table
