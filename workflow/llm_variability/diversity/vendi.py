"""The Vendi score: how many texts a group's texts are worth, from their cosines."""

from __future__ import annotations

import numpy as np

from llm_variability.fits.measure_level import Measured
from llm_variability.fits.random_intercept import Floats

MIN_JACKKNIFE = 20
"""Texts of a group without which the jackknife's variance of the score is too small.

Of null studies 11 to 13% are rejected at 5% with 4 to 6 texts, 7 to 8% with 10 and 5 to 6% with 20
(`benchmarks/diversity.py level --vendi --texts N`, docs/diversity.md).
"""


def measure_vendi(vectors: np.ndarray) -> Measured:
    """Exponential of the entropy of the eigenvalues of the Gram matrix of cosines, over n.

    From 1 (all texts alike) to n (all texts at right angles).

    vectors: (n, d), a row a text; they are brought to unit length in double precision.
    Source: Friedman and Dieng 2023, Transactions on Machine Learning Research, definition 3.1.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    n = len(rows)
    kept = np.array([[j for j in range(n) if j != i] for i in range(n)])
    left = cosines[kept[:, :, None], kept[:, None, :]]
    return Measured(float(score_gram(cosines)), score_gram(left) if n > 1 else np.full(n, np.nan))


def explain_no_jackknife(n_texts: int) -> str | None:
    """Say why a score of so many texts has no standard error by the jackknife; None if it has."""
    if n_texts >= MIN_JACKKNIFE:
        return None
    return f"Vendi score: its jackknife needs {MIN_JACKKNIFE} texts a group; there are {n_texts}"


def score_gram(cosines: Floats) -> Floats:
    """Score Gram matrices of cosines, (..., n, n); eigenvalues below 0 by rounding count as 0."""
    shares = np.clip(np.linalg.eigvalsh(cosines / cosines.shape[-1]), 0, None)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(shares > 0, shares * np.log(shares), 0).sum(axis=-1)
    score: Floats = np.exp(entropy)
    return score
