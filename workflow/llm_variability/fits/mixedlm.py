"""The random-intercept fit by statsmodels' MixedLM, on expanded data."""

from __future__ import annotations

import warnings

import numpy as np
from statsmodels.regression.mixed_linear_model import MixedLM

from llm_variability.fits.profile import RemlProfile
from llm_variability.fits.random_intercept import (
    Floats,
    GroupedOutcome,
    Integers,
    RandomInterceptFit,
    UnfittableError,
)

_DEVIANCE_TOLERANCE = 1e-4


def expand_groups(outcome: GroupedOutcome) -> tuple[Floats, Floats, Integers]:
    """Make single observations that have the groups' counts, means and sums of squares.

    A group of n observations becomes n // 2 of them one step above its mean, as many one step
    below, and for odd n one on the mean. These are not the observations that were measured, but
    the fit is the same: block and fixed effects are equal within a group, so the restricted
    likelihood sees its observations through the sums of y and of y^2 only.

    Returns the outcome (observations,), the design matrix (observations, terms) and the block
    numbers (observations,).
    Raises ValueError if a group of one observation has a sum of squares.
    """
    if np.any((outcome.count < 2) & (outcome.within_ss > 0)):
        raise ValueError("a group of one observation has no sum of squares")
    half = outcome.count // 2
    step = np.sqrt(outcome.within_ss / np.maximum(2 * half, 1))
    group = np.repeat(np.arange(len(outcome.count)), outcome.count)
    first = np.cumsum(outcome.count) - outcome.count
    rank = np.arange(len(group)) - first[group]
    side = np.where(rank < half[group], 1.0, np.where(rank < 2 * half[group], -1.0, 0.0))
    return outcome.mean[group] + side * step[group], outcome.coding[group], outcome.block[group]


def fit_mixedlm(outcome: GroupedOutcome) -> RandomInterceptFit:
    """Fit a random-intercept model by REML with statsmodels' MixedLM.

    Powell's method searches, without gradients: on some hundred thousand rows the gradient
    methods stop where they start, or step over the boundary to a variance of 0, and say that they
    have converged. For the same reason statsmodels' word is not enough: the fit has converged if
    statsmodels says so and the deviance at its variance ratio is within 1e-4 of the profile's
    minimum.

    Raises UnfittableError if the model is not identifiable, or statsmodels finds a singular matrix
    or no finite standard errors.
    """
    profile = RemlProfile(outcome)
    optimum = float(profile.at(profile.minimise()).deviance)
    observed, coding, block = expand_groups(outcome)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = MixedLM(observed, coding, block).fit(
                reml=True, method="powell", ftol=1e-14, maxiter=1000
            )
            std_error = np.asarray(fit.bse_fe, dtype=float)
    except np.linalg.LinAlgError as error:
        raise UnfittableError("singular: statsmodels met a matrix it cannot invert") from error
    if not np.all(np.isfinite(std_error)):
        raise UnfittableError("statsmodels finds no standard errors at the optimum")
    ratio = max(float(fit.cov_re[0, 0]) / float(fit.scale), 0.0)
    excess = float(profile.at(ratio).deviance) - optimum
    return RandomInterceptFit(
        estimate=np.asarray(fit.fe_params, dtype=float),
        std_error=std_error,
        var_block=ratio * float(fit.scale),
        var_residual=float(fit.scale),
        converged=bool(fit.converged and excess < _DEVIANCE_TOLERANCE),
    )
