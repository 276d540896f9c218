"""Contrasts of mean cosines: standard errors under two scopes, and intervals that hold at once.

A contrast's estimate is the same under both: each group's mean cosine, averaged over the blocks
with equal weights, and a linear combination of these averages. What differs is what would be
drawn anew if the study were repeated: the texts alone, or the blocks (writing formats) as well.

Arrays may have leading axes throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import chdtrc, stdtr, stdtrit

from llm_variability.fits.random_intercept import Floats, Integers

FORMATS_FIXED = "formats fixed"
FORMATS_RANDOM = "formats random"
SCOPES = (FORMATS_FIXED, FORMATS_RANDOM)

CONFIDENCE = 0.95
DRAWS = 20_000
_SEED = 20151
_NEIGHBOURS = 20


@dataclass(frozen=True)
class GroupVariance:
    """How uncertain the groups' means are, averaged over the blocks.

    variance: (..., groups) if the blocks are the ones there are; squared cosines.
    shared: (..., groups) the part of it that comes from units in common: the mean covariance of
        two blocks. 0 where every text is a unit of its own.
    df: (..., groups) degrees of freedom of `variance`, and of `shared`.
    """

    variance: Floats
    shared: Floats
    df: Floats


@dataclass(frozen=True)
class Inference:
    """Contrasts in cosines.

    estimate: (..., terms). covariance: (..., terms, terms). df: (..., terms) of t.
    joint_df: degrees of freedom that all variances share because they come from the same blocks;
        None where that is not so.
    """

    estimate: Floats
    covariance: Floats
    df: Floats
    joint_df: int | None = None

    @property
    def std_error(self) -> Floats:
        error: Floats = np.sqrt(np.diagonal(self.covariance, axis1=-2, axis2=-1))
        return error

    @property
    def p_value(self) -> Floats:
        """Two-sided, by Student's t."""
        p: Floats = 2 * stdtr(self.df, -np.abs(self.estimate / self.std_error))
        return p

    @property
    def margin(self) -> Floats:
        """Half the width of each contrast's own 95% interval."""
        half: Floats = stdtrit(self.df, (1 + CONFIDENCE) / 2) * self.std_error
        return half


def combine_independent(variance: Floats, n_texts: Floats | Integers) -> GroupVariance:
    """Average blocks whose texts have nothing in common.

    The degrees of freedom are those of Satterthwaite 1946, n - 1 in each block.

    variance: (..., blocks, groups) of each mean, estimated from its texts. n_texts: their number.
    """
    parts = variance / variance.shape[-2] ** 2
    total = parts.sum(axis=-2)
    return GroupVariance(
        total, np.zeros_like(total), _ratio(total**2, (parts**2 / (n_texts - 1)).sum(axis=-2))
    )


def combine_shared(covariance: Floats, n_units: Floats | Integers) -> GroupVariance:
    """Average blocks that share their units.

    covariance: (..., groups, blocks, blocks) of the blocks' means. n_units: (..., groups).
    `shared` is not negative: names that are typical in one format are not less so in another.
    """
    blocks = covariance.shape[-1]
    total = covariance.sum(axis=(-2, -1))
    between = np.maximum(total - np.trace(covariance, axis1=-2, axis2=-1), 0)
    shared = between / max(blocks * (blocks - 1), 1)
    return GroupVariance(total / blocks**2, shared, np.asarray(n_units - 1, dtype=float))


def infer_formats_fixed(means: Floats, groups: GroupVariance, weights: Floats) -> Inference:
    """Test contrasts as they are in these blocks: only the texts would be drawn anew.

    The variance is that of the groups' means, the degrees of freedom are Satterthwaite's.

    means: (..., blocks, groups) mean cosines. weights: (terms, groups) of `contrasts`.
    """
    df = _ratio(
        (groups.variance @ (weights**2).T) ** 2,
        (groups.variance**2 / groups.df) @ (weights**4).T,
    )
    return Inference(
        means.mean(axis=-2) @ weights.T,
        _weigh(groups.variance, weights),
        df,
    )


def infer_formats_random(means: Floats, groups: GroupVariance, weights: Floats) -> Inference:
    """Test contrasts as they are in the population that the blocks are a sample of.

    The contrasts differ from block to block, by the texts that were drawn and because blocks and
    groups interact; their variance over the blocks holds both, whatever the interaction of each
    contrast is, and no text needs a variance of its own: t with blocks - 1 degrees of freedom.
    Units that all blocks share move them together, which their spread does not show, so `shared`
    is added, with Satterthwaite's degrees of freedom.

    means: (..., blocks, groups), two blocks at least. weights: (terms, groups) of `contrasts`.
    """
    blocks = means.shape[-2]
    by_block = means @ weights.T
    centred = by_block - by_block.mean(axis=-2, keepdims=True)
    spread = np.swapaxes(centred, -1, -2) @ centred / (blocks - 1) / blocks
    own = np.diagonal(spread, axis1=-2, axis2=-1)
    shared = groups.shared @ (weights**2).T
    shared_squares = (groups.shared**2 / groups.df) @ (weights**4).T
    df = _ratio((own + shared) ** 2, own**2 / (blocks - 1) + shared_squares)
    return Inference(
        by_block.mean(axis=-2),
        spread + _weigh(groups.shared, weights),
        df,
        joint_df=blocks - 1,
    )


def simultaneous_quantile(inference: Inference) -> float:
    """Find c such that estimate +- c std_error cover all contrasts at once in 95 of 100 studies.

    The largest |t| of correlated contrasts, by Monte Carlo with a fixed seed (c is good to about
    0.5%). Formats fixed: multivariate t with the smallest degrees of freedom of the family.
    Formats random: every draw makes means and variances of all contrasts from the same blocks,
    as the study does, since a variance of few blocks is far from known.

    inference: one family, without leading axes. Returns the quantile of t if it has one contrast.
    Source: Hothorn, Bretz and Westfall 2008, Biometrical Journal 50, section 3.
    """
    terms = len(inference.estimate)
    df = float(inference.df.min())
    if terms == 1:
        return float(stdtrit(df, (1 + CONFIDENCE) / 2))
    error = inference.std_error
    root = _square_root(inference.covariance / np.outer(error, error)).astype(np.float32)
    joint = inference.joint_df is not None and np.allclose(inference.df, inference.joint_df)
    normals = _draw_normals((inference.joint_df or 0) if joint else 0, terms)
    largest = np.abs(normals[0] @ root.T)
    if joint:
        residuals = normals[1:] @ root.T
        largest /= np.sqrt(np.einsum("jdt,jdt->dt", residuals, residuals) / inference.joint_df)
        return float(np.quantile(largest.max(axis=1), CONFIDENCE))
    return _studentised_quantile(largest.max(axis=1).astype(float), df, terms)


@lru_cache(maxsize=8)
def _draw_normals(further: int, terms: int) -> npt.NDArray[np.float32]:
    """Draw (1 + further, DRAWS, terms) standard normals, the same ones for every setting."""
    random = np.random.default_rng(_SEED)
    return random.standard_normal((1 + further, DRAWS, terms), dtype=np.float32)


def _studentised_quantile(largest: Floats, df: float, terms: int) -> float:
    """Find the quantile of largest / sqrt(chi-square / df), the chi-square integrated exactly.

    It lies between the quantile of one contrast and Bonferroni's, but for Monte Carlo error.
    """
    if np.isinf(df):
        return float(np.quantile(largest, CONFIDENCE))
    # Neighbours in order stand for each other: the integral is smooth, and is made fewer times.
    largest = np.sort(largest).reshape(-1, _NEIGHBOURS).mean(axis=1)

    def excess(quantile: float) -> float:
        return float(chdtrc(df, df * (largest / quantile) ** 2).mean()) - CONFIDENCE

    low = 0.9 * float(stdtrit(df, (1 + CONFIDENCE) / 2))
    high = 1.1 * float(stdtrit(df, 1 - (1 - CONFIDENCE) / 2 / terms))
    return float(brentq(excess, low, high, xtol=1e-4))


def _square_root(correlation: Floats) -> Floats:
    """Give R with R R' = correlation, which may be singular."""
    values, vectors = np.linalg.eigh(correlation)
    root: Floats = vectors * np.sqrt(np.clip(values, 0, None))
    return root


def _weigh(variance: Floats, weights: Floats) -> Floats:
    weighed: Floats = (weights * variance[..., None, :]) @ weights.T
    return weighed


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Divide; infinitely many degrees of freedom where there is no variance to estimate."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Floats = np.where(denominator > 0, numerator / denominator, np.inf)
    return ratio
