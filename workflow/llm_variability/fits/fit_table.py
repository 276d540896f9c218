"""The fits of every setting, at every level, and the reasons where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from scipy.special import stdtr, stdtrit

from llm_variability.config import GREEDY
from llm_variability.fits.coding import code_full_factorial, list_groups
from llm_variability.fits.group_statistics import SETTING, summarise_groups
from llm_variability.fits.profile import fit_profile
from llm_variability.fits.random_intercept import (
    Floats,
    GroupedOutcome,
    Integers,
    RandomInterceptFit,
    UnfittableError,
    collapse_to_means,
    standardise,
)
from llm_variability.fits.text_inference import FORMATS_RANDOM, SCOPES
from llm_variability.fits.text_level import ESTIMATORS, LEVEL, fit_texts, require_deletable
from llm_variability.tables import FITS, Design

LEVELS = ("pairwise", "cell", LEVEL)
"""What one observation is: a pair of texts, the mean of a group's pairs in one block, or a text."""

VARIANTS = (("pairwise", None), ("cell", None), *((LEVEL, scope) for scope in SCOPES))
"""Each level with each of its scopes; the mixed models have none but their own."""

BACKENDS = ("profile", "statsmodels")

GREEDY_REASON = "greedy anchor: at temperature 0 repeats of a prompt only measure determinism"

MIN_SD = 1e-6
"""Standard deviation of cosines that the rounding of float32 unit vectors alone can make."""

Setting = tuple[str, str | None]
Fitter = Callable[[GroupedOutcome], RandomInterceptFit]


@dataclass(frozen=True)
class Groups:
    """One setting's groups, all that the design asks for: blocks in order, groups within them."""

    block_name: str
    blocks: tuple[str, ...]
    keys: list[tuple[str, ...]]
    n_texts: np.ndarray
    n_pairs: np.ndarray
    mean: np.ndarray
    within_ss: np.ndarray

    def n_observations(self, level: str) -> int:
        if level == "pairwise":
            return int(self.n_pairs.sum())
        return int((self.n_pairs > 0).sum() if level == "cell" else self.n_texts.sum())

    def n_blocks(self) -> int:
        return len({key[0] for key, pairs in zip(self.keys, self.n_pairs, strict=True) if pairs})


def find_backend(name: str) -> Fitter:
    """Give the function that fits. Raises ValueError unless the name is one of `BACKENDS`."""
    if name == "profile":
        return fit_profile
    if name == "statsmodels":
        from llm_variability.fits.mixedlm import fit_mixedlm

        return fit_mixedlm
    raise ValueError(f"backend: {name!r} is none of {', '.join(BACKENDS)}")


def fit_settings(
    similarity: pl.DataFrame,
    design: Design,
    *,
    study: str,
    model: str,
    measure: str,
    backend: str = "profile",
    settings: Iterable[Setting] = (),
    levels: Sequence[str] = LEVELS,
) -> pl.DataFrame:
    """Fit `z ~ full factorial of the design + (1 | block)` by REML to each setting of a model.

    Levels `pairwise` and `cell` are these fits; level `text` estimates the same effects, and
    contrasts averaged over the other factors, with standard errors from the texts or from the
    blocks (`text_level.fit_texts`), under each of two scopes, in the units of `pairwise`.

    At level `pairwise` z is the pairwise cosine, z-scored over all pairs of the setting; at level
    `cell` it is the mean cosine of each block x group, z-scored over these means. Both divide by
    the sample standard deviation (n - 1); `outcome_mean` and `outcome_sd` turn an estimate back
    into cosines. At level `pairwise`, p values and 95% intervals take the estimate as normal, as
    statsmodels does (`df` is null); pairs share texts, so these p values are too small. At level
    `cell` they use t on (blocks - 1) (groups - 1) degrees of freedom, since cells can be few; with
    the published 13 x 8 cells (84) that differs little from the published normal.

    A fit that cannot be made is one row with a `reason` and no term, estimate or standard error
    (at level `text` a single contrast without variance is a row with a term and a reason).
    That includes a setting in which any block x group of the design has fewer than two texts, or
    fewer than four at level `text`: a fit on the rest would answer another question without saying
    so.

    similarity: a SIMILARITY table of one model, all its settings.
    settings: (temperature, top-p) that must have rows, even if the table has no text of them.
    levels: those wanted, of `LEVELS`.
    Returns a FITS table, by ascending temperature and top-p.
    Raises ValueError for an unknown backend or level, a factor's level that the design lacks, or a
    similarity table that contradicts itself.
    Source: homogeneity paper, section 2.4, equation (1), and appendix J for the cell means.
    """
    fitter = find_backend(backend)
    if strange := [level for level in levels if level not in LEVELS]:
        raise ValueError(f"level: {strange[0]!r} is none of {', '.join(LEVELS)}")
    rows = []
    for setting, texts, groups in part_settings(similarity, design, settings):
        for level, scope in [each for each in VARIANTS if each[0] in levels]:
            head = {
                "study": study,
                "model": model,
                "analysis": "main",
                "measure": measure,
                "temperature": setting[0],
                "top_p": setting[1],
                "level": level,
                "scope": scope,
                "n_observations": groups.n_observations(level),
                "n_blocks": groups.n_blocks(),
                "backend": backend if scope is None else ESTIMATORS[scope],
            }
            fit = (
                partial(_fit_level, groups, design, level, fitter)
                if scope is None
                else partial(_fit_scope, texts, groups, design, scope)
            )
            rows += complete_rows(head, design, fit)
    return tabulate_rows(rows)


def complete_rows(
    head: Mapping[str, Any], design: Design, estimate: Callable[[], Iterable[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Give the rows of one setting, level and scope: a row an estimate, or one with the reason.

    head: what the rows have in common, the temperature among it; nothing is estimated where
    temperature 0 is but an anchor. estimate: raises UnfittableError if there is nothing to give.
    """
    try:
        if head["temperature"] == GREEDY and design.greedy_is_anchor:
            raise UnfittableError(GREEDY_REASON)
        estimates = list(estimate())
    except UnfittableError as error:
        return [{**head, "converged": False, "reason": str(error)}]
    return [{**head, "converged": True, **each} for each in estimates]


def part_settings(
    similarity: pl.DataFrame, design: Design, settings: Iterable[Setting] = ()
) -> Iterator[tuple[Setting, pl.DataFrame, Groups]]:
    """Give each setting, its texts and its groups, by ascending temperature and top-p.

    similarity, settings, errors raised: as in `fit_settings`.
    """
    statistics = summarise_groups(similarity, design)
    blocks = design.blocks or tuple(sorted(statistics[design.block].unique()))
    found = statistics.partition_by(SETTING, as_dict=True)
    for setting in sorted({*settings, *((key[0], key[1]) for key in found)}, key=setting_order):
        texts = similarity.filter(
            pl.col("temperature") == setting[0], pl.col("top_p").eq_missing(pl.lit(setting[1]))
        )
        yield (
            setting,
            texts,
            _complete_groups(found.get(setting, statistics.clear()), design, blocks),
        )


def tabulate_rows(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Make a FITS table; what a row does not name is empty."""
    empty = dict.fromkeys(FITS.columns)
    return pl.DataFrame(
        [{**empty, **row} for row in rows],
        schema={name: column.dtype for name, column in FITS.columns.items()},
    )


def describe_failures(fits: pl.DataFrame) -> Iterator[str]:
    """Say, a line a row of a FITS table, what could not be estimated and why."""
    for row in fits.filter(~pl.col("converged")).iter_rows(named=True):
        setting = f"temperature {row['temperature']}, top-p {row['top_p'] or 'none'}"
        names = ("analysis", "level", "scope", "coding", "term")
        parts = ", ".join(row[name] for name in names if row[name])
        yield f"{setting}, {parts}: no estimate: {row['reason']}"


def setting_order(setting: Setting) -> tuple[float, float]:
    """Give what sorts settings by ascending temperature and top-p; greedy decoding comes first."""
    temperature, top_p = setting
    return float(temperature), -1.0 if top_p is None else float(top_p)


def _complete_groups(statistics: pl.DataFrame, design: Design, blocks: tuple[str, ...]) -> Groups:
    keys = [(block, *group) for block in blocks for group in list_groups(design.factors)]
    grid = pl.DataFrame(keys, schema=dict.fromkeys(design.group, pl.String), orient="row")
    complete = grid.join(statistics, on=design.group, how="left", maintain_order="left")
    return Groups(
        block_name=design.block,
        blocks=blocks,
        keys=keys,
        n_texts=complete["n_texts"].fill_null(0).to_numpy(),
        n_pairs=complete["n_pairs"].fill_null(0).to_numpy(),
        mean=complete["mean_cosine"].to_numpy(),
        within_ss=complete["within_ss"].to_numpy(),
    )


def require_levels(n_texts: Integers, keys: Sequence[tuple[str, ...]], design: Design) -> None:
    """Raise UnfittableError unless every level of every factor has a text.

    n_texts: of each key, a block x group: the block, then a level of each factor.
    """
    if not n_texts.any():
        raise UnfittableError("no text was measured")
    for position, factor in enumerate(design.factors, start=1):
        present = {key[position] for key, n in zip(keys, n_texts, strict=True) if n}
        absent = [level for level in factor.levels if level not in present]
        if absent:
            raise UnfittableError(f"no text was measured for {factor.name} {', '.join(absent)}")


def require_blocks(blocks: Sequence[str], name: str, use: str) -> None:
    """Raise UnfittableError unless there are two blocks. name: what the design calls them."""
    if len(blocks) < 2:
        raise UnfittableError(f"only one {name}: {use} needs at least two")


def _require_complete(groups: Groups, design: Design) -> None:
    require_levels(groups.n_texts, groups.keys, design)
    small = [
        f"{' / '.join(key)} ({n})"
        for key, n in zip(groups.keys, groups.n_texts, strict=True)
        if n < 2
    ]
    if small:
        more = f" and {len(small) - 3} more" if len(small) > 3 else ""
        raise UnfittableError(f"fewer than two texts in {', '.join(small[:3])}{more}")
    _require_finite(groups)


def _require_finite(groups: Groups) -> None:
    if not (np.isfinite(groups.mean).all() and np.isfinite(groups.within_ss).all()):
        raise UnfittableError("a cosine is not finite")


def _pair_outcome(groups: Groups, coding: np.ndarray) -> GroupedOutcome:
    return GroupedOutcome(
        block=np.repeat(np.arange(len(groups.blocks)), len(coding)),
        coding=np.tile(coding, (len(groups.blocks), 1)),
        count=groups.n_pairs,
        mean=groups.mean,
        within_ss=groups.within_ss,
    )


def _degrees_of_freedom(groups: Groups, n_groups: int, level: str) -> float:
    """Give those of t: the residual ones of cell means, infinitely many (the normal) for pairs.

    Every block has every group, so contrasts of cell means are tested within blocks, exactly, on
    (blocks - 1) (groups - 1) degrees of freedom.
    """
    return float((len(groups.blocks) - 1) * (n_groups - 1)) if level == "cell" else np.inf


def _fit_level(
    groups: Groups, design: Design, level: str, fitter: Fitter
) -> list[Mapping[str, Any]]:
    _require_complete(groups, design)
    require_blocks(groups.blocks, groups.block_name, "its random intercept")
    terms, coding = code_full_factorial(design.factors)
    outcome = _pair_outcome(groups, coding)
    if level == "cell":
        outcome = collapse_to_means(outcome)
    scaled, mean, deviation = standardise(outcome)
    _require_spread(deviation)
    try:
        fit = fitter(scaled)
    except np.linalg.LinAlgError as error:
        raise UnfittableError("singular: a matrix of the fit cannot be inverted") from error
    if not fit.converged:
        raise UnfittableError("no convergence: the search for the variances did not end")
    if not (np.isfinite(fit.estimate).all() and np.isfinite(fit.std_error).all()):
        raise UnfittableError("an estimate or its standard error is not finite")
    statistic = fit.estimate / fit.std_error
    df = _degrees_of_freedom(groups, len(coding), level)
    margin = stdtrit(df, 0.975) * fit.std_error
    return [
        {
            "coding": "treatment",
            "term": term,
            "estimate": float(fit.estimate[i]),
            "std_error": float(fit.std_error[i]),
            "statistic": float(statistic[i]),
            "df": None if np.isinf(df) else df,
            "p_value": float(2 * stdtr(df, -abs(statistic[i]))),
            "ci_low": float(fit.estimate[i] - margin[i]),
            "ci_high": float(fit.estimate[i] + margin[i]),
            "var_block": fit.var_block,
            "var_residual": fit.var_residual,
            "outcome_mean": mean,
            "outcome_sd": deviation,
        }
        for i, term in enumerate(terms)
    ]


def _require_spread(deviation: float) -> None:
    if deviation < MIN_SD:
        raise UnfittableError("no variance: all cosines are equal")


def measure_outcome(
    groups: Groups, design: Design, scope: str
) -> tuple[Floats, Floats, tuple[float, float]]:
    """Give what level `text` is made from, where a setting has all that it needs.

    Returns the (blocks, groups) mean cosines, their pairs' sums of squared deviations, and mean
    and SD of all pairwise cosines. Raises UnfittableError, with the reason, for missing levels,
    fewer than four texts in a block x group, a single block as a sample of blocks, or cosines that
    are all equal.
    """
    require_levels(groups.n_texts, groups.keys, design)
    require_deletable(groups.n_texts, groups.keys)
    if scope == FORMATS_RANDOM:
        require_blocks(groups.blocks, groups.block_name, "a sample of them")
    _require_finite(groups)
    coding = code_full_factorial(design.factors)[1]
    _, mean, deviation = standardise(_pair_outcome(groups, coding))
    _require_spread(deviation)
    means, within_ss = (
        values.reshape(len(groups.blocks), -1) for values in (groups.mean, groups.within_ss)
    )
    return means, within_ss, (mean, deviation)


def _fit_scope(
    texts: pl.DataFrame, groups: Groups, design: Design, scope: str
) -> list[Mapping[str, Any]]:
    means, within_ss, outcome = measure_outcome(groups, design, scope)
    return fit_texts(texts, means, within_ss, design, groups.blocks, scope, outcome)
