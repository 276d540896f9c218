"""Profile REML of a random-intercept model from counts, means and sums of squares.

Given the variance ratio `r = var_block / var_residual`, the inverse of a block's covariance is
known in closed form (Woodbury). In the block-centred form it takes the sum of squares apart,

    y' V^-1 y = sum over observations (y - mean of block)^2 + sum over blocks w (mean of block)^2

with weight `w = N / (1 + r N)` for a block of N observations, and likewise for the fixed
effects. Both parts are sums of squares, so nothing cancels, however large r or N: the effects
are an ordinary least-squares fit to one small matrix (a QR decomposition), and what remains is a
search in one dimension. Its cost does not depend on the number of observations.

Sources: Patterson and Thompson 1971 (REML); Harville 1977, JASA 72 (profile of the variances);
Lindstrom and Bates 1988, JASA 83 (the profiled criterion and its QR form).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import brentq

from llm_variability.fits.random_intercept import (
    MIN_RESIDUAL_SHARE,
    Floats,
    GroupedOutcome,
    RandomInterceptFit,
    UnfittableError,
    require_identifiable,
)

_LARGEST_RATIO = 1e13
_STEPS_PER_DECADE = 2
_SLOPE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class ProfilePoint:
    """The profiled criterion at one variance ratio, or (with a leading axis) at several.

    deviance: -2 restricted log-likelihood, but for a constant.
    slope: its derivative by the ratio.
    estimate: (..., terms) fixed effects there.
    var_residual: residual variance there.
    root: (..., terms, terms) matrix whose square, root @ root', is the covariance that the
        estimate has at a known ratio, divided by var_residual.
    """

    deviance: Floats
    slope: Floats
    estimate: Floats
    var_residual: Floats
    root: Floats


class RemlProfile:
    """The restricted likelihood as a function of the variance ratio alone."""

    def __init__(self, outcome: GroupedOutcome) -> None:
        """Take the outcome apart into its share within and between blocks, once for all ratios.

        Raises UnfittableError if the model is not identifiable from the outcome, or if what is
        left within the blocks is no more than rounding.
        """
        require_identifiable(outcome)
        self.n_terms = outcome.coding.shape[1]
        self.degrees = outcome.n_observations - self.n_terms
        self.block_size = np.bincount(outcome.block, weights=outcome.count)
        columns = np.column_stack([outcome.coding, outcome.mean])
        totals = np.zeros((outcome.n_blocks, columns.shape[1]))
        np.add.at(totals, outcome.block, outcome.count[:, None] * columns)
        self.block_means = totals / self.block_size[:, None]
        centred = columns - self.block_means[outcome.block]
        factor = np.linalg.qr(np.sqrt(outcome.count)[:, None] * centred, mode="r")
        within = np.zeros((1, columns.shape[1]))
        within[0, -1] = np.sqrt(outcome.within_ss.sum())
        self.within = np.vstack([factor, within])
        self._require_residual(outcome)

    def _require_residual(self, outcome: GroupedOutcome) -> None:
        coding, target = self.within[:, :-1], self.within[:, -1]
        residual = target - coding @ np.linalg.lstsq(coding, target, rcond=None)[0]
        if residual @ residual <= MIN_RESIDUAL_SHARE * outcome.total_ss:
            raise UnfittableError("no variance within blocks beyond the fixed effects")

    def at(self, ratios: Floats | float) -> ProfilePoint:
        """Evaluate the profile at ratios of var_block to var_residual, each 0 or more."""
        ratios = np.asarray(ratios, dtype=float)
        weight = self.block_size / (1 + ratios[..., None] * self.block_size)
        between = np.sqrt(weight)[..., None] * self.block_means
        within = np.broadcast_to(self.within, (*ratios.shape, *self.within.shape))
        stacked: Floats = np.concatenate([within, between], axis=-2)
        factor: Floats = np.asarray(np.linalg.qr(stacked, mode="r"))
        size = self.n_terms
        root = np.linalg.inv(factor[..., :size, :size])
        estimate = (root @ factor[..., :size, size:])[..., 0]
        residual_ss = factor[..., size, size] ** 2
        block_coding, block_outcome = self.block_means[:, :size], self.block_means[:, size]
        block_residual = block_outcome - estimate @ block_coding.T
        leverage = ((block_coding @ root) ** 2).sum(axis=-1)
        diagonal = np.abs(np.diagonal(factor, axis1=-2, axis2=-1)[..., :size])
        deviance = (
            self.degrees * np.log(residual_ss / self.degrees)
            + np.log1p(ratios[..., None] * self.block_size).sum(axis=-1)
            + 2 * np.log(diagonal).sum(axis=-1)
        )
        slope = (
            weight.sum(axis=-1)
            - (weight**2 * leverage).sum(axis=-1)
            - self.degrees * (weight**2 * block_residual**2).sum(axis=-1) / residual_ss
        )
        return ProfilePoint(deviance, slope, estimate, residual_ss / self.degrees, root)

    def minimise(self) -> float:
        """Find the variance ratio of the highest restricted likelihood; 0 is a proper answer.

        The slope is scanned on a grid from 0 to a ratio no data of double precision can exceed;
        every change of its sign from falling to rising is refined to a root, and the lowest of
        these minima and the boundary wins. So neither a starting value nor a second, local
        minimum can mislead the search.
        Raises UnfittableError if the likelihood still rises at the largest ratio.
        """
        lowest = np.log10(1e-8 / self.block_size.max())
        steps = int(np.ceil((np.log10(_LARGEST_RATIO) - lowest) * _STEPS_PER_DECADE))
        grid = np.concatenate([[0.0], np.logspace(lowest, np.log10(_LARGEST_RATIO), steps + 1)])
        slope = self.at(grid).slope
        if slope[-1] < 0:
            raise UnfittableError("the variance between blocks is without bound")
        candidates = [0.0] if slope[0] >= 0 else []
        for i in np.flatnonzero((slope[:-1] < 0) & (slope[1:] >= 0)):
            candidates.append(_root(self._slope, float(grid[i]), float(grid[i + 1])))
        deviances = self.at(np.array(candidates)).deviance
        return candidates[int(np.argmin(deviances))]

    def ratio_sensitivity(self, ratio: float) -> tuple[Floats, float]:
        """Give (terms,) derivative of the estimate by the ratio, and the ratio's information.

        The information is half the second derivative of the deviance: the inverse of the ratio's
        sampling variance where the ratio is an inner minimum.
        """
        point = self.at(ratio)
        weight = self.block_size / (1 + ratio * self.block_size)
        block_coding, block_outcome = np.split(self.block_means, [self.n_terms], axis=1)
        block_residual = block_outcome[:, 0] - block_coding @ point.estimate
        whitened = block_coding @ point.root
        squares = (weight**2 * block_residual**2).sum()
        gradient = whitened.T @ (weight**2 * block_residual)
        loss = whitened.T @ (weight[:, None] ** 2 * whitened)
        residual_ss = self.degrees * point.var_residual
        squares_slope = 2 * (gradient @ gradient) - 2 * (weight**3 * block_residual**2).sum()
        curvature = (
            -(weight**2).sum()
            + 2 * (weight**3 * (whitened**2).sum(axis=1)).sum()
            - (loss**2).sum()
            - self.degrees * (squares_slope / residual_ss + squares**2 / residual_ss**2)
        )
        return -point.root @ gradient, float(curvature / 2)

    def _slope(self, ratio: float) -> float:
        return float(self.at(ratio).slope)


def _root(slope: Callable[[float], float], low: float, high: float) -> float:
    """Find where a slope rises through 0, in the logarithm of the ratio but next to 0 itself."""
    if low == 0:
        return float(brentq(slope, low, high, xtol=1e-12 * high, rtol=1e-14))
    at_log = partial(_at_log_ratio, slope)
    low, high = float(np.log(low)), float(np.log(high))
    # A root at an end of the interval can lie outside it once the logarithm has been rounded.
    if at_log(low) >= 0:
        return float(np.exp(low))
    if at_log(high) <= 0:
        return float(np.exp(high))
    return float(np.exp(brentq(at_log, low, high, xtol=1e-14, rtol=1e-14)))


def _at_log_ratio(slope: Callable[[float], float], log_ratio: float) -> float:
    ratio = float(np.exp(log_ratio))
    return ratio * slope(ratio)


def fit_profile(outcome: GroupedOutcome) -> RandomInterceptFit:
    """Fit a random-intercept model by REML from the groups' counts, means and sums of squares.

    The fit is exact: the same optimum as on the single observations. It has converged if the
    variance ratio is 0 and the likelihood falls from there, or if the derivative of the deviance
    by the logarithm of the ratio is below 1e-6.

    The standard errors come from the observed information, as in statsmodels: to the variance
    that generalised least squares gives at a known ratio they add what the estimate inherits from
    the ratio's own uncertainty (Kackar and Harville 1984, JASA 79, first order). Where every
    block holds the same groups in the same numbers this is nothing. At a ratio of 0, the boundary,
    it is left out: the information there is that of a slope, not of a maximum. statsmodels adds
    (or takes off) it even then, so that at the boundary and with unequal numbers, and only there,
    its standard errors differ by some percent.

    Raises UnfittableError if the model is not identifiable, nothing varies within the blocks, or
    the likelihood has no finite maximum.
    """
    profile = RemlProfile(outcome)
    ratio = profile.minimise()
    point = profile.at(ratio)
    variance = point.var_residual * (point.root**2).sum(axis=-1)
    if ratio > 0:
        drift, information = profile.ratio_sensitivity(ratio)
        if information > 0:
            variance = variance + drift**2 / information
    return RandomInterceptFit(
        estimate=point.estimate,
        std_error=np.sqrt(variance),
        var_block=ratio * float(point.var_residual),
        var_residual=float(point.var_residual),
        converged=bool(abs(ratio * float(point.slope)) < _SLOPE_TOLERANCE),
    )
