"""Contrasts at equal length: cosines of pairs of longer texts tend to be higher.

Within a setting the cosine of a pair is regressed on the mean of the two lengths and on their
difference, with a mean of its own for every block x group: slopes come from pairs within groups,
so that a difference between groups is never taken for an effect of length. With slopes b, a
group's adjusted mean is

    mean cosine - b' (the group's mean covariates - those of all pairs of the setting).

Deleting a text takes its pairs off, which moves the mean of its own group and, through the slopes,
the adjusted means of all groups. Both follow from each text's sums over its mates: nothing is
fitted anew. Lengths are in words.

Source of the jackknife: Arvesen 1969, Annals of Mathematical Statistics 40 (functions of
U-statistics); its excess is taken off as in `text_variance.correct_jackknife`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_variability.fits.contrasts import Contrast, list_contrasts
from llm_variability.fits.random_intercept import Floats, Integers, UnfittableError
from llm_variability.fits.text_inference import FORMATS_FIXED, Inference
from llm_variability.fits.text_level import MIN_STD_ERROR, NO_VARIANCE, describe_contrasts
from llm_variability.fits.text_variance import correct_jackknife
from llm_variability.sensitivity.texts import GroupTexts
from llm_variability.tables import Factor

SLOPES = ("length[mean]", "length[difference]")
"""Terms of the slopes: on the mean of a pair's lengths, and on their absolute difference."""

MIN_DETERMINANT = 1e-9
"""Determinant of the covariates' correlations below which the slopes cannot be told apart."""

Numbers = NDArray[np.intp]


@dataclass(frozen=True)
class PairSums:
    """Sums over the pairs of one setting; the outcome stands before its two covariates.

    mean: (blocks, groups, 3) over the pairs of each group. within: (blocks, groups, 3, 3) sums of
        products of deviations from it. n_texts: (blocks, groups).
    sums: (texts, 3), products: (texts, 3, 3) of each text's pairs, as deviations likewise.
    block, group, unit: (texts,) numbers. Every text is a unit of its own, or units, which lie in
        one group each, have a text in several blocks.
    has_units: which of these it is.
    """

    mean: Floats
    within: Floats
    n_texts: Integers
    sums: Floats
    products: Floats
    block: Numbers
    group: Numbers
    unit: Numbers
    has_units: bool

    @property
    def overall(self) -> Floats:
        """(2,) the covariates' mean over all pairs."""
        pairs = self.n_texts * (self.n_texts - 1)
        average: Floats = np.average(self.mean[..., 1:], axis=(0, 1), weights=pairs)
        return average


@dataclass(frozen=True)
class Deleted:
    """What deleting each unit does: to the slopes, and to the contrasts at equal length.

    slopes: (units, 2). own: (units, terms), the part of a change that the unit's own group has at
        unchanged slopes. through_slopes: (units, terms), the rest of it.
    """

    slopes: Floats
    own: Floats
    through_slopes: Floats


def sum_pairs(vectors: Floats, words: Floats) -> tuple[Floats, Floats, Floats]:
    """Sum a group's cosines, mean lengths and differences of lengths, and all their products.

    vectors: (n, d) of unit length, n >= 2. words: (n,).
    Returns (3,) the means over its pairs; (n, 3) each text's sums over its mates of the deviations
    from these; and (n, 3, 3) of the products of these.
    """
    n = len(words)
    pair = np.stack(
        [
            vectors @ vectors.T,
            (words[:, None] + words) / 2,
            np.abs(words[:, None] - words),
        ],
        axis=-1,
    )
    others = ~np.eye(n, dtype=bool)
    mean = pair[others].mean(axis=0)
    pair -= mean
    pair[~others] = 0
    return mean, pair.sum(axis=1), np.swapaxes(pair, 1, 2) @ pair


def collect_pairs(blocks: Sequence[Sequence[GroupTexts]]) -> PairSums:
    """Sum the pairs of one setting. blocks: as `texts.part_groups` gives them."""
    shape = len(blocks), len(blocks[0])
    flat = [(b, g, texts) for b, of_block in enumerate(blocks) for g, texts in enumerate(of_block)]
    found = [sum_pairs(texts.vectors, texts.words) for _, _, texts in flat]
    sizes = [len(texts.words) for _, _, texts in flat]
    names = [(g, name) for _, g, texts in flat for name in texts.units or ()]
    number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    unit = [number[name] for name in names] if names else np.arange(sum(sizes))
    return PairSums(
        mean=np.array([each[0] for each in found]).reshape(*shape, 3),
        within=np.array([each[2].sum(axis=0) / 2 for each in found]).reshape(*shape, 3, 3),
        n_texts=np.array(sizes).reshape(shape),
        sums=np.concatenate([each[1] for each in found]),
        products=np.concatenate([each[2] for each in found]),
        block=np.repeat([b for b, _, _ in flat], sizes),
        group=np.repeat([g for _, g, _ in flat], sizes),
        unit=np.asarray(unit, dtype=np.intp),
        has_units=bool(names),
    )


def fit_slopes(within: Floats) -> Floats:
    """Fit the slopes from sums of products within groups.

    within: (..., 3, 3), the outcome first. Returns (..., 2) in cosines per word.
    Raises UnfittableError if lengths do not vary, or the two covariates vary together.
    """
    covariates = within[..., 1:, 1:]
    first, second = covariates[..., 0, 0], covariates[..., 1, 1]
    determinant = first * second - covariates[..., 0, 1] * covariates[..., 1, 0]
    if (first * second <= 0).any():
        raise UnfittableError("no variance: within the groups all texts are of the same length")
    if (determinant <= MIN_DETERMINANT * first * second).any():
        raise UnfittableError("singular: too few texts of a group differ in length from the others")
    solved: Floats = np.linalg.solve(covariates, within[..., 1:, :1])[..., 0]
    return solved


def adjust_means(mean: Floats, slopes: Floats, overall: Floats) -> Floats:
    """Give mean cosines at equal length.

    mean: (..., 3). slopes: (..., 2). overall: (2,), the covariates to adjust to.
    """
    adjusted: Floats = mean[..., 0] - ((mean[..., 1:] - overall) * slopes).sum(axis=-1)
    return adjusted


def delete_units(
    pairs: PairSums, unit: Numbers, weights: Floats, factor: Floats | None = None
) -> Deleted:
    """Delete each unit's texts, and their pairs with them, from all blocks at once.

    The covariates that means are adjusted to stay what they are, as the outcome's mean does.

    unit: (texts,) `pairs.unit`, or a number of its own for each text. weights: (terms, groups).
    factor: (blocks, groups) that changes of a group's own mean are multiplied by, or None.
    """
    blocks = len(pairs.mean)
    size = int(unit.max()) + 1
    n = pairs.n_texts[pairs.block, pairs.group]
    left = ((n - 1) * (n - 2) / 2)[:, None]
    shift = -pairs.sums / left
    change = -pairs.products + pairs.sums[:, :, None] * shift[:, None, :]
    total = np.zeros((size, 3, 3))
    np.add.at(total, unit, change)
    within = pairs.within.sum(axis=(0, 1))
    slopes = fit_slopes(within)
    moved_slopes = fit_slopes(within + total) - slopes

    own = adjust_means(shift, slopes, np.zeros(2))
    if factor is not None:
        own = own * factor[pairs.block, pairs.group]
    of_group = np.zeros((size, weights.shape[1]))
    np.add.at(of_group, (unit, pairs.group), own / blocks)
    covariates = np.zeros((size, weights.shape[1], 2))
    np.add.at(covariates, (unit, pairs.group), shift[:, 1:] / blocks)
    covariates += pairs.mean[..., 1:].mean(axis=0) - pairs.overall
    return Deleted(
        slopes=moved_slopes,
        own=of_group @ weights.T,
        through_slopes=-np.einsum("ugk,uk->ug", covariates, moved_slopes) @ weights.T,
    )


def delete_blocks(pairs: PairSums, weights: Floats) -> Floats:
    """Estimate contrasts and slopes without each block: (blocks, terms + 2)."""
    blocks = len(pairs.mean)
    of_block = pairs.within.sum(axis=1)
    slopes = fit_slopes(of_block.sum(axis=0) - of_block)
    others = (pairs.mean.sum(axis=0) - pairs.mean) / (blocks - 1)
    adjusted = adjust_means(others, slopes[:, None], pairs.overall)
    return np.concatenate([adjusted @ weights.T, slopes], axis=1)


def estimate(pairs: PairSums, weights: Floats) -> Floats:
    """Estimate contrasts at equal length, then the slopes: (terms + 2,)."""
    slopes = fit_slopes(pairs.within.sum(axis=(0, 1)))
    adjusted = adjust_means(pairs.mean.mean(axis=0), slopes, pairs.overall)
    return np.concatenate([weights @ adjusted, slopes])


def infer_formats_fixed(pairs: PairSums, weights: Floats) -> Inference:
    """Test contrasts and slopes as they are in these blocks: units would be drawn anew.

    Jackknife over units; each stratum that they are drawn from (a block x group, or a group whose
    units stand in all blocks) adds its variance, with Satterthwaite's degrees of freedom. Where
    slopes are 0 without error it is `text_inference.infer_formats_fixed`.

    Returns the terms of `weights`, then the two slopes.
    """
    parts, df = _jackknife(pairs, weights, pairs.unit)
    return Inference(
        estimate(pairs, weights), parts.sum(axis=0), _satterthwaite(_diagonals(parts), df)
    )


def infer_formats_random(pairs: PairSums, weights: Floats) -> Inference:
    """Test contrasts and slopes as they are in the population that the blocks are a sample of.

    Jackknife over blocks, slopes included; at known slopes this is the variance of the contrasts'
    spread over the blocks, as in `text_inference.infer_formats_random`. t has blocks - 1 degrees
    of freedom. What units do to all blocks alike does not show there, so the covariance that they
    make between blocks is added: the jackknife over units less that over single texts.

    Returns the terms of `weights`, then the two slopes.
    """
    blocks = len(pairs.mean)
    deleted = delete_blocks(pairs, weights)
    centred = deleted - deleted.mean(axis=0)
    spread = (blocks - 1) / blocks * centred.T @ centred
    found = estimate(pairs, weights)
    own = np.diagonal(spread)
    if not pairs.has_units:
        return Inference(found, spread, np.full(len(found), blocks - 1.0), joint_df=blocks - 1)
    together, df = _jackknife(pairs, weights, pairs.unit)
    apart, _ = _jackknife(pairs, weights, np.arange(len(pairs.unit)))
    by_group = apart.reshape(*pairs.n_texts.shape, *apart.shape[1:]).sum(axis=0)
    shared = _positive_part(together - by_group) * blocks / (blocks - 1)
    parts = np.concatenate([own[None], _diagonals(shared)])
    return Inference(
        found,
        spread + shared.sum(axis=0),
        _satterthwaite(parts, np.concatenate([[blocks - 1.0], df])),
        joint_df=blocks - 1,
    )


def _jackknife(pairs: PairSums, weights: Floats, unit: Numbers) -> tuple[Floats, Floats]:
    """Estimate the covariance that each stratum of units adds.

    unit: `pairs.unit` for strata that are groups, or a number of its own for each text, for strata
    that are blocks x groups. Returns (strata, terms + 2, terms + 2) and the degrees of freedom.
    """
    deleted = delete_units(pairs, unit, weights, _correction(pairs))
    changes = np.concatenate([deleted.own + deleted.through_slopes, deleted.slopes], axis=1)
    stratum_of_text = pairs.group
    if len(np.unique(unit)) == len(unit):
        stratum_of_text = pairs.block * weights.shape[1] + pairs.group
    stratum = np.zeros(len(changes), dtype=np.intp)
    stratum[unit] = stratum_of_text
    sizes = np.bincount(stratum)
    parts = []
    for number, n in enumerate(sizes):
        of_stratum = changes[stratum == number]
        centred = of_stratum - of_stratum.mean(axis=0)
        parts.append((n - 1) / n * centred.T @ centred)
    return np.array(parts), sizes - 1.0


def _correction(pairs: PairSums) -> Floats:
    """(blocks, groups) root of what `correct_jackknife` makes of a jackknife variance of 1."""
    slopes = fit_slopes(pairs.within.sum(axis=(0, 1)))
    residual = np.concatenate([[1.0], -slopes])
    n = pairs.n_texts
    own = (pairs.sums @ residual) ** 2
    squares = np.zeros(n.shape)
    np.add.at(squares, (pairs.block, pairs.group), own)
    jackknife = 4 * squares / ((n - 1.0) * n * (n - 2.0) ** 2)
    within_ss = np.maximum(residual @ pairs.within @ residual, 0)
    corrected = correct_jackknife(jackknife, within_ss, n)
    positive = jackknife > 0
    factor: Floats = np.sqrt(np.where(positive, corrected / np.where(positive, jackknife, 1), 0))
    return factor


def _diagonals(matrices: Floats) -> Floats:
    return np.diagonal(matrices, axis1=-2, axis2=-1)


def _satterthwaite(variances: Floats, df: Floats) -> Floats:
    """Give the degrees of freedom of a sum. variances: (parts, terms). df: (parts,)."""
    total = variances.sum(axis=0)
    squares = (variances**2 / df[:, None]).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        combined: Floats = np.where(squares > 0, total**2 / squares, np.inf)
    return combined


def _positive_part(matrices: Floats) -> Floats:
    """Set the negative eigenvalues of symmetric matrices to 0."""
    values, vectors = np.linalg.eigh(matrices)
    kept: Floats = (vectors * np.maximum(values, 0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return kept


def adjust_contrasts(
    pairs: PairSums, factors: Sequence[Factor], scope: str, outcome: tuple[float, float]
) -> list[Mapping[str, Any]]:
    """Estimate every contrast at equal length, and the slopes; a mapping a row of a FITS table.

    Terms, codings and units are those of `text_level.fit_texts`; the slopes, in outcome SDs per
    word, have no coding and no simultaneous interval.

    outcome: mean and SD of the pairwise cosines, as they are. Raises UnfittableError for slopes
    that cannot be estimated, with all texts or without one of them.
    """
    contrasts = list_contrasts(factors)
    weights = np.array([each.weights for each in contrasts])
    infer = infer_formats_fixed if scope == FORMATS_FIXED else infer_formats_random
    inference = infer(pairs, weights)
    terms = len(contrasts)
    rows = describe_contrasts(
        _take(inference, slice(0, terms)), contrasts, outcome, MIN_STD_ERROR, NO_VARIANCE
    )
    slopes = [Contrast("treatment", term, np.empty(0)) for term in SLOPES]
    none = {"coding": None, "simultaneous_low": None, "simultaneous_high": None}
    rows += [
        {**row, **none}
        for row in describe_contrasts(
            _take(inference, slice(terms, None)), slopes, outcome, 0.0, NO_VARIANCE
        )
    ]
    return rows


def _take(inference: Inference, terms: slice) -> Inference:
    return Inference(
        inference.estimate[terms],
        inference.covariance[terms, terms],
        inference.df[terms],
        inference.joint_df,
    )
