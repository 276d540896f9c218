"""The tests of one contrast: those of the package, and those that they were chosen from.

Each is computed from sufficient statistics, for many studies at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from llm_variability.calibration.studies import DESIGNS, Sample, Study
from llm_variability.fits.random_intercept import Floats
from llm_variability.fits.text_inference import (
    GroupVariance,
    Inference,
    combine_independent,
    combine_shared,
    infer_formats_fixed,
    infer_formats_random,
)
from llm_variability.fits.text_variance import (
    correct_covariance,
    correct_jackknife,
    dyadic_variance,
    jackknife_covariance,
    jackknife_deviations,
    jackknife_variance,
)

TEXT_FIXED, TEXT_RANDOM = "text, formats fixed", "text, formats random"
PACKAGE = ("pairwise", "cell", TEXT_FIXED, TEXT_RANDOM)
"""The tests that the fits tables hold."""


def infer_mixed(sample: Sample, weights: Floats, level: str) -> Inference:
    """Fit z ~ groups + (1 | format) to complete, equal groups, where REML is in closed form.

    The residual variance is the mean square left by formats and groups, or by groups alone where
    formats vary less than it; degrees of freedom as in the package.
    """
    means = sample.means
    formats, groups = means.shape[-2:]
    count = sample.pairs if level == "pairwise" else 1
    within = sample.within_ss.sum(axis=(-2, -1)) if level == "pairwise" else 0.0
    of_format = means.mean(axis=-1, keepdims=True) - means.mean(axis=(-2, -1), keepdims=True)
    left = means - means.mean(axis=-2, keepdims=True) - of_format
    residual_ss = within + count * (left**2).sum(axis=(-2, -1))
    format_ss = count * groups * (of_format**2).sum(axis=(-2, -1))
    residual_df = formats * groups * count - groups - (formats - 1)
    inner = format_ss / (formats - 1) > residual_ss / residual_df
    variance = np.where(
        inner,
        residual_ss / residual_df,
        (residual_ss + format_ss) / (residual_df + formats - 1),
    )
    df = (formats - 1) * (groups - 1) if level == "cell" else np.inf
    covariance = variance[:, None, None] * (weights @ weights.T) / (count * formats)
    return Inference(
        means.mean(axis=-2) @ weights.T, covariance, np.full(len(weights), df, dtype=float)
    )


def infer_meta_analysis(
    means: Floats, variance: Floats, weights: Floats, steps: int = 60
) -> Inference:
    """Random-effects meta-analysis of the format-wise contrasts, sampling variances as known.

    tau^2 by Paule and Mandel 1982; standard error and t of Hartung and Knapp 2001. means, variance:
    (studies, formats, groups); weights: (1, groups), one contrast.
    """
    difference = (means @ weights.T)[..., 0]
    known = (variance @ (weights**2).T)[..., 0]
    df = difference.shape[-1] - 1

    def weigh(tau2: Floats) -> tuple[Floats, Floats, Floats]:
        weight = 1 / (known + tau2[:, None])
        centre = (weight * difference).sum(axis=1) / weight.sum(axis=1)
        return weight, centre, (weight * (difference - centre[:, None]) ** 2).sum(axis=1)

    low, high = np.zeros(len(difference)), np.ones(len(difference))
    none = weigh(low)[2] <= df
    for _ in range(steps):
        middle = (low + high) / 2
        above = weigh(middle)[2] > df
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    weight, centre, spread = weigh(np.where(none, 0, low))
    error2 = spread / (df * weight.sum(axis=1))
    return Inference(centre[:, None], error2[:, None, None], np.full(1, float(df)))


def infer_strata(means: Floats, weights: Floats, shape: tuple[int, ...]) -> Inference:
    """Analysis of variance with an error stratum for each factor and interaction.

    Contrasts of a stratum are taken to interact with formats alike, those of different strata
    need not; Satterthwaite's degrees of freedom. means: (studies, formats, groups).
    """
    formats, groups = means.shape[-2:]
    left = means - means.mean(axis=-2, keepdims=True)
    variance = np.zeros(len(means))
    squares = np.zeros(len(means))
    for stratum in range(1, 2 ** len(shape)):
        projection = np.ones((1, 1))
        for i, levels in enumerate(shape):
            average = np.full((levels, levels), 1 / levels)
            part = np.eye(levels) - average if stratum >> i & 1 else average
            projection = np.kron(projection, part)
        df = (formats - 1) * round(np.trace(projection))
        mean_square = ((left @ projection) ** 2).sum(axis=(-2, -1)) / df
        share = (weights @ projection @ weights.T).item() / formats * mean_square
        variance += share
        squares += share**2 / df
    estimate = means.mean(axis=-2) @ weights.T
    return Inference(estimate, variance[:, None, None], (variance**2 / squares)[:, None])


def measure_variance(sample: Sample) -> Floats:
    """Estimate the variance of every mean cosine from its texts: (studies, formats, groups)."""
    n = np.array(sample.texts)
    return correct_jackknife(jackknife_variance(sample.cosine_sum), sample.within_ss, n)


def measure_groups(study: Study, sample: Sample) -> GroupVariance:
    """Estimate the variance of the groups' means by deleting texts or, of a names study, names."""
    if not study.shared:
        n = np.full(sample.means.shape, sample.texts)
        return combine_independent(measure_variance(sample), n)
    deviations = np.swapaxes(jackknife_deviations(sample.cosine_sum), 1, 2)
    covariance = correct_covariance(
        jackknife_covariance(deviations),
        np.swapaxes(jackknife_variance(sample.cosine_sum), 1, 2),
        np.swapaxes(measure_variance(sample), 1, 2),
    )
    return combine_shared(covariance, np.full(covariance.shape[:2], sample.texts))


def infer_all(study: Study, sample: Sample, weights: Floats) -> Iterator[tuple[str, Inference]]:
    """Give the tests of one contrast by name: `PACKAGE`, then the others.

    weights: (1, groups) of the contrast.
    """
    means, groups = sample.means, measure_groups(study, sample)
    n = np.full(means.shape, sample.texts)
    yield "pairwise", infer_mixed(sample, weights, "pairwise")
    yield "cell", infer_mixed(sample, weights, "cell")
    yield TEXT_FIXED, infer_formats_fixed(means, groups, weights)
    yield TEXT_RANDOM, infer_formats_random(means, groups, weights)
    if study.shared:
        apart = combine_independent(measure_variance(sample), n)
        yield "fixed, names as if new", infer_formats_fixed(means, apart, weights)
        yield "random, names as if new", infer_formats_random(means, apart, weights)
        return
    jackknife = jackknife_variance(sample.cosine_sum)
    dyadic = np.maximum(dyadic_variance(sample.cosine_sum, sample.within_ss), 1e-12)
    for name, variance in (("jackknife as it is", jackknife), ("dyadic", dyadic)):
        yield (
            f"fixed, {name}",
            infer_formats_fixed(means, combine_independent(variance, n), weights),
        )
    yield "random, meta-analysis", infer_meta_analysis(means, jackknife, weights)
    shape = tuple(len(factor.levels) for factor in DESIGNS[study.design])
    yield "random, error strata", infer_strata(means, weights, shape)
