"""How uncertain a group's mean cosine is, from the three numbers that are kept of each text.

The mean cosine over all pairs of n texts is a U-statistic of order two (Hoeffding 1948). With
`s_i` the sum of text i's cosines to its n - 1 mates, m the mean over the pairs and W the pairs'
sum of squared deviations from m,

    m without text i, less m  =  -2 (s_i - mean of s) / ((n - 1) (n - 2)),

so that every variance here is a matter of A = sum over texts of (s_i - mean of s)^2 and of W. With
z the variance of a text's typicality (its expected cosine to others) and p the variance of what
is left of a cosine once the typicality of both texts is known, the variance of m is

    4 z / n + 2 p / (n (n - 1)).

Arrays may have leading axes throughout.
"""

from __future__ import annotations

import numpy as np

from llm_variability.fits.random_intercept import Floats

MIN_TEXTS = 3
"""Texts of a group without which nothing can be deleted and a mean be left."""


def jackknife_deviations(cosine_sum: Floats) -> Floats:
    """Give what deleting each text does to the mean cosine of its group.

    cosine_sum: (..., n) sum of each text's cosines to its mates, n >= 3. Returns (..., n) mean of
    the pairs that are left, less the mean of all pairs; these add up to 0.
    Raises ValueError for fewer than three texts.
    """
    n = cosine_sum.shape[-1]
    if n < MIN_TEXTS:
        raise ValueError(f"{n} texts: a jackknife of pairs needs at least {MIN_TEXTS}")
    centred = cosine_sum - cosine_sum.mean(axis=-1, keepdims=True)
    deviations: Floats = -2 * centred / ((n - 1) * (n - 2))
    return deviations


def jackknife_variance(cosine_sum: Floats) -> Floats:
    """Estimate the variance of a group's mean cosine by deleting one text at a time.

    Its expectation is 4 z / n + 4 p / (n (n - 2)): the part that falls with n is right, the part
    that falls with n^2 counts about twice, so that it errs on the large side, at n = 10 by some
    10 to 30%, at n = 50 by a few percent. It is never negative.

    cosine_sum: (..., n), n >= 3. Returns (...) variances in squared cosines.
    Source: Arvesen 1969, Annals of Mathematical Statistics 40 (jackknife of U-statistics).
    """
    n = cosine_sum.shape[-1]
    variance: Floats = (n - 1) / n * (jackknife_deviations(cosine_sum) ** 2).sum(axis=-1)
    return variance


def dyadic_variance(cosine_sum: Floats, within_ss: Floats, corrected: bool = False) -> Floats:
    """Estimate the variance of a group's mean cosine from all products of pairs that share a text.

    It is 4 (A - W) / (n (n - 1))^2: in the sum over texts of (sum of a text's residuals)^2 each
    pair meets itself twice, and W takes one of these off. Its expectation is the variance times
    (n - 2) (n - 3) / (n (n - 1)), so that it errs on the small side, at n = 10 by 38%, at n = 50
    by 8%; `corrected` divides by that factor and is without bias. Either can be negative where
    texts hardly differ in typicality.

    cosine_sum: (..., n), n >= 2, or n >= 4 if corrected. within_ss: (...) the pairs' sum of squared
    deviations from their mean. Returns (...) variances in squared cosines.
    Raises ValueError for a correction with fewer than four texts.
    Source: Aronow, Samii and Assenova 2015, Political Analysis 23, equation (1).
    """
    n = cosine_sum.shape[-1]
    centred = cosine_sum - cosine_sum.mean(axis=-1, keepdims=True)
    raw: Floats = 4 * ((centred**2).sum(axis=-1) - within_ss) / (n * (n - 1)) ** 2
    if not corrected:
        return raw
    if n < 4:
        raise ValueError(f"{n} texts: the correction needs at least 4")
    return raw * (n * (n - 1) / ((n - 2) * (n - 3)))


def jackknife_covariance(deviations: Floats) -> Floats:
    """Estimate the covariance that the blocks' mean cosines have by sharing their units.

    Deleting a unit takes its text out of every block at once.

    deviations: (..., blocks, units) of one group, what deleting a unit does to each block's mean:
    `jackknife_deviations`, and 0 where a block lacks the unit. Returns (..., blocks, blocks).
    """
    n = deviations.shape[-1]
    covariance: Floats = (n - 1) / n * deviations @ np.swapaxes(deviations, -1, -2)
    return covariance
