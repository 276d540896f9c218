"""The mean cosines of studies that are not yet made, and the variances estimated with them.

The statistical model is that of calibration.studies: texts of skewed typicality, what is left
of a pair, formats that interact with the groups, names that keep part of their typicality over the
formats. It draws no vectors: the mean of a format x group, the sum of squares between its texts and
that within them have known distributions once the texts' typicality is drawn, so that a study of
any size costs the same as one of `MOST_DRAWN` texts.
"""

from __future__ import annotations

import numpy as np

from llm_variability.fits.random_intercept import Floats
from llm_variability.fits.text_inference import (
    GroupVariance,
    combine_independent,
    combine_shared,
)
from llm_variability.fits.text_variance import (
    correct_covariance,
    correct_jackknife,
    jackknife_covariance,
    jackknife_deviations,
)
from llm_variability.plan.population import Population

MOST_DRAWN = 60
"""Texts that are drawn one by one. More are drawn as this many that are as much more alike: the
mean's variance is the right one, and its estimate a little less certain than it would be."""


def draw_typicality(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Draw with mean 0 and SD 1, of skewness -1.41 and kurtosis 6: a gamma variable turned round.

    Single precision; the moments are those of published GPT-3.5 texts (`population.SKEWNESS`).
    """
    drawn: Floats = rng.standard_exponential(shape, dtype=np.float32)
    drawn += rng.standard_exponential(shape, dtype=np.float32)
    drawn -= 2
    drawn /= -np.sqrt(np.float32(2))
    return drawn


def draw_study(
    population: Population,
    shape: tuple[int, int, int],
    texts: int,
    *,
    names: bool,
    rng: np.random.Generator,
) -> tuple[Floats, GroupVariance]:
    """Draw many studies: how far the mean cosines are off, and how uncertain they seem.

    shape: (studies, formats, groups). texts: of each format x group, four or more.
    names: whether a format's texts are of names that stand in every format.
    Returns (studies, formats, groups) mean cosines less their true values, and the variance that
    `fits.text_level` would estimate.
    """
    drawn = min(texts, MOST_DRAWN)
    z = population.typicality * drawn / texts
    p = population.residual * drawn * (drawn - 1) / (texts * (texts - 1))
    if names:
        return _draw_names(z, p, population.shared, shape, drawn, texts, rng)
    return _draw_labels(z, p, shape, drawn, texts, rng)


def _draw_labels(
    z: float,
    p: float,
    shape: tuple[int, int, int],
    n: int,
    texts: int,
    rng: np.random.Generator,
) -> tuple[Floats, GroupVariance]:
    typical = draw_typicality((*shape, n), rng)
    mean = typical.mean(axis=-1, dtype=np.float64)
    squares = np.einsum("...i,...i->...", typical, typical).astype(np.float64) - n * mean**2
    means = 2 * np.sqrt(z) * mean + np.sqrt(2 * p / (n * (n - 1))) * rng.standard_normal(shape)
    # Between the texts: their typicality, and what the rest adds in its direction and across it.
    along = (n - 2) * np.sqrt(z * squares) + np.sqrt(p * (n - 2)) * rng.standard_normal(shape)
    between = along**2 + p * (n - 2) * rng.chisquare(n - 2, shape)
    within_ss = _add_residual(between, p, n, rng)
    variance = correct_jackknife(4 * between / (n * (n - 1) * (n - 2) ** 2), within_ss, np.array(n))
    return means, combine_independent(variance, np.full(shape, texts))


def _draw_names(
    z: float,
    p: float,
    shared: float,
    shape: tuple[int, int, int],
    n: int,
    texts: int,
    rng: np.random.Generator,
) -> tuple[Floats, GroupVariance]:
    size, formats, groups = shape
    own, common = (size, groups, formats, n), (size, groups, 1, n)
    typical = _share(draw_typicality(own, rng), draw_typicality(common, rng), shared)
    # Two formats share a pair's rest as far as both of its names stay where they are.
    rest = _share(
        rng.standard_normal(own, np.float32), rng.standard_normal(common, np.float32), shared**2
    )
    cosine_sum = (n - 2) * np.sqrt(z) * typical + np.sqrt(p * (n - 2)) * rest
    deviations = jackknife_deviations(cosine_sum.astype(np.float64))
    covariance = jackknife_covariance(deviations)
    jackknife = np.diagonal(covariance, axis1=-2, axis2=-1)
    between = jackknife * n * (n - 1) * (n - 2) ** 2 / 4
    corrected = correct_jackknife(jackknife, _add_residual(between, p, n, rng), np.array(n))
    level = _share(
        rng.standard_normal((size, groups, formats)),
        rng.standard_normal((size, groups, 1)),
        shared**2,
    )
    means = 2 * np.sqrt(z) * typical.mean(axis=-1) + np.sqrt(2 * p / (n * (n - 1))) * level
    return np.swapaxes(means, 1, 2), combine_shared(
        correct_covariance(covariance, jackknife, corrected),
        np.full((size, groups), texts),
    )


def _share(own: Floats, common: Floats, part: float) -> Floats:
    mixed: Floats = np.sqrt(1 - part) * own + np.sqrt(part) * common
    return mixed


def _add_residual(between: Floats, p: float, n: int, rng: np.random.Generator) -> Floats:
    """Give the pairs' sum of squares: between their texts, and what is left."""
    within: Floats = between / (n - 2) + p * rng.chisquare(n * (n - 3) / 2, between.shape)
    return within
