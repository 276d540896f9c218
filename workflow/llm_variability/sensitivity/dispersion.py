"""Permutation tests of equal dispersion of groups of unit vectors.

For n unit vectors with centroid c, sum of |x - c|^2 / (n - 1) is 1 less their mean pairwise
cosine. So the dispersion of a group and its homogeneity are one number, and groups that are
equally homogeneous can be tested as groups of equal dispersion: each vector is replaced by its
residual from the centroid of its own block x group, so that groups that lie elsewhere do not look
dispersed, the residuals change groups at random, and dispersions are computed about the new
centroids.

A residual of n vectors is shorter than a deviation from the true centre, by sqrt((n - 1) / n) in
the mean, and is scaled up by that. The permuted dispersions of groups of any size then have the
same expectation, so a difference has expectation 0.

Source: Anderson 2006, Biometrics 62 (distance-based tests for homogeneity of multivariate
dispersions; residuals permuted). Its statistic is the F of the distances to the centroid, ours the
difference of their mean squares, which is the difference of mean cosines that the fits estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_variability.fits.coding import list_groups
from llm_variability.fits.random_intercept import Floats, UnfittableError
from llm_variability.sensitivity.texts import GroupTexts
from llm_variability.streams import begin_stream
from llm_variability.tables import Factor

ALL_GROUPS = "all groups"
"""Term of the test that no group differs from another."""

NO_DISPERSION = "no variance: the texts of each group compared are all the same"

Labels = NDArray[np.int16]
Numbers = NDArray[np.intp]

TIE = 1e-6
"""Difference of cosines that the rounding of float32 vectors alone can make."""

ROUNDS = 100
"""Times that labellings are drawn anew where some leave a group less than two texts in a block."""

Statistic = Callable[[Sequence[Floats]], Floats]
"""From the (labellings, groups) dispersions of each stratum to a statistic a labelling."""

Strata = tuple[tuple[int, ...], ...]
"""Sets of groups (by number) within which texts are exchanged."""


@dataclass(frozen=True)
class Members:
    """The texts of one set of groups in one block.

    residuals: (n, d) scaled residuals from the centroids of their groups.
    labels: (n,) which of the set's groups each belongs to, 0 to groups - 1.
    unit: (n,) number of the unit that each is a text of.
    """

    residuals: Floats
    labels: Labels
    unit: Numbers


def list_main_effects(factors: Sequence[Factor]) -> list[tuple[str, str, Strata]]:
    """List (coding, term, strata) of every main effect, in the order of `list_contrasts`.

    Each stratum is the number of a reference group and of the group that is compared with it.
    Coding `treatment` has one, the other factors at their reference; `marginal` one for each
    combination of the other factors' levels. An interaction has none: where it is 0, main effects
    may still make groups differ, so that no texts are exchangeable.
    """
    numbers = {group: number for number, group in enumerate(list_groups(factors))}
    effects: list[tuple[str, str, Strata]] = []
    for coding in ("treatment", "marginal"):
        for i, factor in enumerate(factors):
            elsewhere = [
                (each.reference,) if coding == "treatment" else each.levels
                for j, each in enumerate(factors)
                if j != i
            ]
            for level in factor.levels:
                if level == factor.reference:
                    continue
                strata = tuple(
                    tuple(
                        numbers[(*others[:i], one, *others[i:])]
                        for one in (factor.reference, level)
                    )
                    for others in product(*elsewhere)
                )
                effects.append((coding, f"{factor.name}[{level}]", strata))
    return effects


def scale_residuals(vectors: Floats) -> Floats:
    """Take off the centroid and scale to the length of deviations from the true centre.

    vectors: (n, d), n >= 2. Returns (n, d): residuals times sqrt(n / (n - 1)).
    """
    n = len(vectors)
    residuals: Floats = (vectors - vectors.mean(axis=0)) * np.sqrt(n / (n - 1))
    return residuals


def disperse(residuals: Floats, labels: Labels, groups: int) -> Floats:
    """Compute each group's dispersion under many labellings.

    The sum of squares about a new centroid is that about 0 less n |centroid|^2, so a labelling
    costs one sum of vectors a group, and all of them one product of matrices a group, in single
    precision: good to 1e-6 for residuals of unit vectors.

    residuals: (n, d). labels: (labellings, n), 0 to groups - 1.
    Returns (labellings, groups) sums of squared distances over (members - 1); not a number where
    a group has less than two.
    """
    squares = (residuals**2).sum(axis=1)
    typical = squares.mean()
    columns = np.column_stack(
        [_fewest_coordinates(residuals), squares - typical, np.ones(len(squares))]
    ).astype(np.float32)
    found = np.empty((len(labels), groups))
    left = np.tile(columns.sum(axis=0), (len(labels), 1))
    for group in range(groups):
        if group < groups - 1:
            total = (labels == group).astype(np.float32) @ columns
            left -= total
        else:
            total = left  # what the other groups do not have
        n = total[:, -1].astype(float)
        about_zero = total[:, -2] + n * typical
        length2 = np.einsum("pd,pd->p", total[:, :-2], total[:, :-2])
        with np.errstate(divide="ignore", invalid="ignore"):
            found[:, group] = np.where(n > 1, (about_zero - length2 / n) / (n - 1), np.nan)
    return found


def _fewest_coordinates(vectors: Floats) -> Floats:
    """Turn n vectors of more than n dimensions into n dimensions; lengths and angles stay."""
    n, dimensions = vectors.shape
    if dimensions <= n:
        return vectors
    turned: Floats = np.asarray(np.linalg.qr(vectors.T, mode="r"))
    return turned.T


def draw_labels(labels: Labels, permutations: int, rng: np.random.Generator) -> Labels:
    """Permute labels at random: (permutations, n)."""
    drawn: Labels = rng.permuted(np.tile(labels, (permutations, 1)), axis=1)
    return drawn


def permute_independently(
    blocks: Sequence[Members], groups: int, permutations: int, rng: np.random.Generator
) -> Floats:
    """Permute each block by itself; every text is a unit of its own.

    Returns (permutations, groups) dispersions, averaged over the blocks.
    """
    total = np.zeros((permutations, groups))
    for block in blocks:
        total += disperse(block.residuals, draw_labels(block.labels, permutations, rng), groups)
    mean: Floats = total / len(blocks)
    return mean


def permute_units(
    blocks: Sequence[Members], groups: int, permutations: int, rng: np.random.Generator
) -> Floats:
    """Permute units, the same way in all blocks, so that what their texts share stays together.

    Where a block lacks some units, group sizes in it vary with the labelling; labellings that
    leave a group less than two texts in a block are drawn anew.

    Returns (permutations, groups) dispersions, averaged over the blocks. Raises UnfittableError
    if such labellings are all but a few.
    """
    own = np.zeros(1 + max(int(block.unit.max()) for block in blocks), dtype=np.int16)
    for block in blocks:
        own[block.unit] = block.labels
    kept: list[Floats] = []
    missing = permutations
    for _ in range(ROUNDS):
        labels = draw_labels(own, permutations, rng)
        found = np.mean(
            [disperse(block.residuals, labels[:, block.unit], groups) for block in blocks], axis=0
        )
        kept.append(found[np.isfinite(found).all(axis=1)][:missing])
        missing -= len(kept[-1])
        if not missing:
            return np.concatenate(kept)
    raise UnfittableError(
        "too many units lack a text: exchanging them leaves groups less than two texts"
    )


def permutation_p_value(observed: float, permuted: Floats) -> tuple[float, float]:
    """Give the p value of a statistic and its Monte Carlo standard error.

    p = (1 + number of permuted values that are as large) / (1 + number of them), so it is never 0
    and the test never rejects too often by having few of them. Its error is that of a proportion,
    sqrt(p (1 - p) / P).

    observed, permuted: a statistic that is large where the null hypothesis is wrong.
    Source: Phipson and Smyth 2010, Statistical Applications in Genetics and Molecular Biology 9.
    """
    number = len(permuted)
    p = (1 + int((permuted >= observed - TIE).sum())) / (1 + number)
    return p, float(np.sqrt(p * (1 - p) / number))


def spread_of_groups(dispersions: Floats, n_texts: Floats) -> Floats:
    """Measure how much groups differ: the root mean squared deviation from their mean.

    dispersions: (..., groups), averaged over the blocks. n_texts: (groups,) weights of the groups.
    Its square times the number of texts is the sum of squares between groups of an analysis of
    variance. Returns (...) in cosines.
    """
    share = n_texts / n_texts.sum()
    centred = dispersions - (dispersions @ share)[..., None]
    spread: Floats = np.sqrt((centred**2) @ share)
    return spread


@dataclass(frozen=True)
class DispersionTests:
    """The tests of one setting.

    blocks: its texts, as `texts.part_groups` gives them. names: each group's name.
    key: what its random numbers depend on, the study's seed among it.
    """

    blocks: Sequence[Sequence[GroupTexts]]
    names: Sequence[tuple[str, ...]]
    permutations: int
    key: tuple[str | int | None, ...]

    def permute(self, groups: tuple[int, ...]) -> Floats:
        """Exchange the texts, or units, of these groups: (permutations, groups) dispersions.

        The random numbers depend on which groups they are, not on the test that asks. Raises
        UnfittableError as `permute_units` does.
        """
        members = self.collect(groups)
        rng = begin_stream(*self.key, *("/".join(self.names[group]) for group in groups))
        draw = permute_independently if self.blocks[0][0].units is None else permute_units
        return draw(members, len(groups), self.permutations, rng)

    def collect(self, groups: tuple[int, ...]) -> list[Members]:
        """Put together the residuals of these groups, block by block."""
        collected = []
        number: dict[tuple[int, str], int] = {}
        for block in self.blocks:
            chosen = [block[group] for group in groups]
            sizes = [len(texts.vectors) for texts in chosen]
            names = [(i, name) for i, texts in enumerate(chosen) for name in texts.units or ()]
            unit = [number.setdefault(name, len(number)) for name in names]
            collected.append(
                Members(
                    np.concatenate([scale_residuals(texts.vectors) for texts in chosen]),
                    np.repeat(np.arange(len(groups), dtype=np.int16), sizes),
                    np.array(unit or range(sum(sizes)), dtype=np.intp),
                )
            )
        return collected


def compare_dispersions(
    tests: DispersionTests,
    means: Floats,
    factors: Sequence[Factor],
    outcome: tuple[float, float],
) -> list[Mapping[str, Any]]:
    """Test that groups are equally dispersed: all, and by each main effect.

    All groups: the estimate is `spread_of_groups`, which has no direction. A main effect has the
    estimate of level `text`, and is tested by exchanging only the groups that it compares
    (`list_main_effects`); two-sided, |difference of mean dispersions| against its permuted values.
    There is no standard error and no interval. Returns a mapping a row of a FITS table.

    means: (blocks, groups) mean cosines. outcome: mean and SD of the pairwise cosines.
    """
    mean, deviation = outcome
    averaged = means.mean(axis=0)
    n_texts = np.array([[len(texts.vectors) for texts in block] for block in tests.blocks])
    permute = cache(tests.permute)  # the strata of `treatment` are among those of `marginal`
    rows: list[Mapping[str, Any]] = []

    def add(coding: str | None, term: str, strata: Strata, measure: Statistic) -> None:
        head = {"coding": coding, "term": term}
        try:
            if all(averaged[list(stratum)].min() > 1 - TIE for stratum in strata):
                raise UnfittableError(NO_DISPERSION)
            permuted = measure([permute(stratum) for stratum in strata])
        except UnfittableError as error:
            rows.append(head | {"converged": False, "reason": str(error)})
            return
        observed = measure([1 - averaged[None, list(stratum)] for stratum in strata])
        p, mc_error = permutation_p_value(abs(float(observed[0])), np.abs(permuted))
        rows.append(
            head
            | {
                "estimate": float(observed[0]) / deviation,
                "p_value": p,
                "mc_error": mc_error,
                "outcome_mean": mean,
                "outcome_sd": deviation,
            }
        )

    every = tuple(range(len(tests.names)))
    weights = n_texts.sum(axis=0)
    add(None, ALL_GROUPS, (every,), lambda found: spread_of_groups(found[0], weights))
    for coding, term, strata in list_main_effects(factors):
        add(coding, term, strata, _mean_difference)
    return rows


def _mean_difference(strata: Sequence[Floats]) -> Floats:
    """Average (reference - other) over the strata: how much less the other group is dispersed."""
    difference: Floats = np.mean([each[:, 0] - each[:, 1] for each in strata], axis=0)
    return difference
