"""Bootstrap of mean pairwise cosines over texts: a check on the jackknife, from the vectors."""

from __future__ import annotations

import numpy as np

from llm_variability.fits.random_intercept import Floats


def bootstrap_mean_cosines(vectors: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Draw units with replacement and take the mean cosine over the pairs of different units.

    A unit that is drawn twice makes no pair with itself, whose cosine of 1 no two texts have. With
    w the number of times each unit is drawn the mean is (|sum of w x|^2 - sum of w^2) over
    (n^2 - sum of w^2), so that no pair is formed.

    vectors: (..., n, d) of unit length; what stands before n (the formats of a names study) shares
        each draw. Returns (draws, ...) means.
    Source: Efron and Tibshirani 1993, chapter 6.
    """
    n = vectors.shape[-2]
    weights = rng.multinomial(n, np.full(n, 1 / n), size=draws).astype(float)
    totals = np.einsum("bn,...nd->b...d", weights, vectors)
    own = (weights**2).sum(axis=1).reshape(-1, *[1] * (vectors.ndim - 2))
    means: Floats = ((totals**2).sum(axis=-1) - own) / (n**2 - own)
    return means
