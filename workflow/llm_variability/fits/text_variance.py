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

from llm_variability.fits.random_intercept import Floats, Integers

MIN_TEXTS = 4
"""Texts of a group without which no two pairs are free of a common text."""


def jackknife_deviations(cosine_sum: Floats) -> Floats:
    """Give what deleting each text does to the mean cosine of its group.

    cosine_sum: (..., n) sum of each text's cosines to its mates, n >= 3. Returns (..., n) mean of
    the pairs that are left, less the mean of all pairs; these add up to 0.
    Raises ValueError for fewer than three texts.
    """
    n = cosine_sum.shape[-1]
    if n < 3:
        raise ValueError(f"{n} texts: a jackknife of pairs needs at least 3")
    centred = cosine_sum - cosine_sum.mean(axis=-1, keepdims=True)
    deviations: Floats = -2 * centred / ((n - 1) * (n - 2))
    return deviations


def jackknife_variance(cosine_sum: Floats) -> Floats:
    """Estimate the variance of a group's mean cosine by deleting one text at a time.

    Its expectation is 4 z / n + 4 p / (n (n - 2)): the part that falls with n is right, the part
    that falls with n^2 counts about twice, so that it errs on the large side: with p twice as large
    as z by 9% at n = 10, and by 2% at n = 50. It is never negative.

    cosine_sum: (..., n), n >= 3. Returns (...) variances in squared cosines.
    Source: Arvesen 1969, Annals of Mathematical Statistics 40 (jackknife of U-statistics).
    """
    n = cosine_sum.shape[-1]
    variance: Floats = (n - 1) / n * (jackknife_deviations(cosine_sum) ** 2).sum(axis=-1)
    return variance


def correct_jackknife(variance: Floats, within_ss: Floats, n_texts: Floats | Integers) -> Floats:
    """Take off a jackknife variance what it has too much.

    z and p follow from A and W, so the excess can be estimated and the rest is without bias. It is
    the square of m less the mean product of two pairs without a text in common, and also
    `dyadic_variance` times n (n - 1) / ((n - 2) (n - 3)):

        4 (A - W) / (n (n - 1) (n - 2) (n - 3)).

    It can fall below 0 by chance where p is all there is. Pairs that share texts never make a mean
    more certain than independent pairs do, so the variance of these, 4 W / (n (n - 1) (n - 2)
    (n + 1)), is the least that is given.

    variance: (...) of `jackknife_variance`. within_ss: (...) W. n_texts: (...) at least 4.
    Source: Efron and Stein 1981, Annals of Statistics 9, section 5 (the bias and its correction).
    """
    n = np.asarray(n_texts, dtype=float)  # whole numbers would overflow in the products
    unbiased = variance * (n - 2) / (n - 3) - 4 * within_ss / (n * (n - 1) * (n - 2) * (n - 3))
    least = 4 * within_ss / (n * (n - 1) * (n - 2) * (n + 1))
    return np.maximum(unbiased, least)


def dyadic_variance(cosine_sum: Floats, within_ss: Floats) -> Floats:
    """Estimate the variance of a group's mean cosine from all products of pairs that share a text.

    It is 4 (A - W) / (n (n - 1))^2: in the sum over texts of (sum of a text's residuals)^2 each
    pair meets itself twice, and W takes one of these off. Its expectation is the variance times
    (n - 2) (n - 3) / (n (n - 1)), so that it errs on the small side, at n = 10 by 38%, at n = 50
    by 8%. It can be negative where texts hardly differ in typicality.

    cosine_sum: (..., n), n >= 2. within_ss: (...) W. Returns (...) variances in squared cosines.
    Source: Aronow, Samii and Assenova 2015, Political Analysis 23, equation (1).
    """
    n = cosine_sum.shape[-1]
    centred = cosine_sum - cosine_sum.mean(axis=-1, keepdims=True)
    variance: Floats = 4 * ((centred**2).sum(axis=-1) - within_ss) / (n * (n - 1)) ** 2
    return variance


def jackknife_covariance(deviations: Floats) -> Floats:
    """Estimate the covariance that the blocks' mean cosines have by sharing their units.

    Deleting a unit takes its text out of every block at once.

    deviations: (..., blocks, units) of one group, what deleting a unit does to each block's mean:
    `jackknife_deviations`, and 0 where a block lacks the unit. Returns (..., blocks, blocks).
    """
    n = deviations.shape[-1]
    covariance: Floats = (n - 1) / n * deviations @ np.swapaxes(deviations, -1, -2)
    return covariance


def correct_covariance(covariance: Floats, jackknife: Floats, corrected: Floats) -> Floats:
    """Bring a covariance of blocks' means to corrected variances, their correlations unchanged.

    covariance: (..., blocks, blocks). jackknife, corrected: (..., blocks) the blocks' variances
    before and after `correct_jackknife`.
    """
    positive = jackknife > 0
    ratio = np.where(positive, corrected / np.where(positive, jackknife, 1), 0)
    factor: Floats = np.sqrt(ratio)
    scaled: Floats = covariance * factor[..., :, None] * factor[..., None, :]
    return scaled
