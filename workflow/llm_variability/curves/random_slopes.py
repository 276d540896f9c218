"""Lines whose intercepts and slopes vary over tasks: fits by REML and degrees of freedom.

The search is over the three numbers of `slope_profile.SlopeProfile`. Because what is sought is a
covariance D >= 0, the conditions for a maximum are known also where D is singular, and are checked
at the end of every search: with S the derivative of the deviance by D, S D = 0 and S >= 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.ndimage import minimum_filter
from scipy.optimize import minimize

from llm_variability.curves.slope_profile import SlopePoint, SlopeProfile
from llm_variability.fits.mixedlm import expand_groups
from llm_variability.fits.random_intercept import Floats, GroupedOutcome, UnfittableError

RANDOM = {"intercept": (0,), "intercept + slope": (0, 1, 2)}
"""What varies over tasks, with the numbers of theta that it leaves free."""

MAX_EXPANDED = 200_000
"""Observations up to which statsmodels is asked; it takes about a minute for these."""

_DECADES = (-1, 1, 3, 5, 7)
_CORRELATIONS = (-0.8, 0.0, 0.8)
_LEAST_GAIN = 1e-8
_NEAR_SINGULAR = 1e-3
_REFINEMENTS = 8
_SLOPE_TOLERANCE = 1e-6
_DEVIANCE_TOLERANCE = 1e-4
_LEAST_CURVATURE = 1e-10


@dataclass(frozen=True)
class SlopeFit:
    """A fit by restricted maximum likelihood, rates and outcome in their own units.

    estimate, std_error, df: (2,) intercept and slope; df by Satterthwaite.
    var_intercept: variance of the tasks' intercepts (at rate 0), 0 or more.
    var_slope, correlation: of the tasks' slopes, and with their intercepts; None where slopes do
        not vary by the model, the correlation also where one of the variances is 0.
    var_residual: residual variance.
    deviance: -2 restricted log-likelihood, as lme4 counts it.
    converged: whether the conditions for a maximum hold.
    """

    estimate: Floats
    std_error: Floats
    df: Floats
    var_intercept: float
    var_slope: float | None
    correlation: float | None
    var_residual: float
    deviance: float
    converged: bool


def fit_slopes(outcome: GroupedOutcome, random: str) -> SlopeFit:
    """Fit a line with tasks' random intercepts, or intercepts and slopes, by REML.

    outcome: `block` is the task, `coding` the columns 1 and rate.
    random: one of RANDOM.
    The fit is exact: the same optimum as on the single observations. Standard errors are those
    of generalised least squares at the variances found, as in lme4.
    Raises UnfittableError, with the reason, if the outcome cannot tell the effects apart.
    """
    profile = SlopeProfile(outcome)
    profile.require_residual(random)
    theta = find_maximum(profile, random)
    return _describe(profile, theta, random, is_maximum(profile, theta, random))


def fit_slopes_statsmodels(outcome: GroupedOutcome, random: str) -> SlopeFit:
    """Fit the same model with statsmodels' MixedLM, on single observations (`expand_groups`).

    Estimates and variances are statsmodels' (Powell's method, as in `fits.mixedlm`), and so are
    the standard errors, to which it adds what the variances are uncertain by. Degrees of freedom
    are those of `fit_slopes` at statsmodels' variances: it has none. The fit has converged if
    statsmodels says so and its deviance is within 1e-4 of the profile's minimum.

    Raises UnfittableError as `fit_slopes` does, for more than MAX_EXPANDED observations, and if
    statsmodels finds a singular matrix or no finite standard errors.
    """
    from statsmodels.regression.mixed_linear_model import MixedLM

    profile = SlopeProfile(outcome)
    profile.require_residual(random)
    if outcome.n_observations > MAX_EXPANDED:
        raise UnfittableError(
            f"{outcome.n_observations} observations: statsmodels is asked for {MAX_EXPANDED} at"
            " most; take backend profile"
        )
    observed, coding, task = expand_groups(outcome)
    varying = coding[:, : 1 if random == "intercept" else 2]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = MixedLM(observed, coding, task, exog_re=varying).fit(
                reml=True, method="powell", ftol=1e-14, maxiter=2000
            )
            std_error = np.asarray(fit.bse_fe, dtype=float)
    except np.linalg.LinAlgError as error:
        raise UnfittableError("singular: statsmodels met a matrix it cannot invert") from error
    if not np.all(np.isfinite(std_error)):
        raise UnfittableError("statsmodels finds no standard errors at the optimum")
    relative = np.zeros((2, 2))
    size = varying.shape[1]
    relative[:size, :size] = np.asarray(fit.cov_re) / float(fit.scale)
    theta = profile.place(relative)
    excess = _deviance(profile, theta) - _deviance(profile, find_maximum(profile, random))
    described = _describe(
        profile, theta, random, bool(fit.converged and excess < _DEVIANCE_TOLERANCE)
    )
    return replace(described, estimate=np.asarray(fit.fe_params, dtype=float), std_error=std_error)


def find_maximum(profile: SlopeProfile, random: str) -> Floats:
    """Find the (3,) theta of the highest restricted likelihood; a singular one is a proper answer.

    Every local minimum of a coarse grid over all magnitudes starts a trust-region Newton search
    with exact derivatives, and the lowest end counts. theta[2] = 0 (a correlation of 1 or -1) and
    theta = 0 are tried for themselves wherever the search ends near them, and kept where they are
    a maximum and the deviance does not rise by more than 1e-8.
    """
    free = RANDOM[random]
    found = [_descend(profile, start, free) for start in _list_starts(profile, free)]
    best = min(found, key=lambda theta: _deviance(profile, theta))
    for smaller in _list_smaller(free):
        if _distance(best, len(smaller)) > _NEAR_SINGULAR:
            continue
        start = np.where(np.isin(np.arange(3), smaller), best, 0.0)
        reduced = _descend(profile, start, smaller) if smaller else np.zeros(3)
        no_worse = _deviance(profile, reduced) <= _deviance(profile, best) + _LEAST_GAIN
        if no_worse and is_maximum(profile, reduced, random):
            best = reduced
    return best


def is_maximum(profile: SlopeProfile, theta: Floats, random: str) -> bool:
    """Check the conditions for a maximum of the restricted likelihood over all D >= 0, at theta.

    S and D are taken in units in which 1 is a change of the deviance by 1, for a theta of 1 as for
    a relative change of theta; the conditions have to hold to 1e-6.
    """
    point = profile.at(theta)
    size = 1 if random == "intercept" else 2
    slope, factor = point.slope[:size, :size], point.factor[:size, :size]
    steepest = max(
        float(np.abs(profile.unit * slope @ factor).max()),
        float(np.abs(factor.T @ slope @ factor).max()),
    )
    singular = np.linalg.matrix_rank(factor) < size
    least = float(np.linalg.eigvalsh(profile.unit**2 * slope)[0]) if singular else 0.0
    return steepest < _SLOPE_TOLERANCE and least > -_SLOPE_TOLERANCE


def _describe(profile: SlopeProfile, theta: Floats, random: str, converged: bool) -> SlopeFit:
    point = profile.at(theta)
    var_residual = float(point.var_residual)
    covariance = var_residual * profile.back @ point.covariance @ profile.back.T
    relative = profile.back @ point.factor
    spread = var_residual * relative @ relative.T
    slopes = random != "intercept"
    product_of_both = float(spread[0, 0] * spread[1, 1])
    correlation = None
    if slopes and product_of_both > 0:
        correlation = float(np.clip(spread[0, 1] / np.sqrt(product_of_both), -1, 1))
    return SlopeFit(
        estimate=profile.back @ point.estimate + np.array([profile.shift, 0]),
        std_error=np.sqrt(np.diag(covariance)),
        df=_satterthwaite(profile, point, random),
        var_intercept=float(spread[0, 0]),
        var_slope=float(spread[1, 1]) if slopes else None,
        correlation=correlation,
        var_residual=var_residual,
        deviance=profile.complete_deviance(point),
        converged=converged,
    )


def _satterthwaite(profile: SlopeProfile, point: SlopePoint, random: str) -> Floats:
    """(2,) degrees of freedom, 2 v^2 / var(v) with v the variance of intercept or slope.

    var(v) by the delta method from twice the inverse of the deviance's Hessian by theta and the
    logarithm of var_residual. At a boundary the numbers of theta that are 0 are left out: v does
    not change with them to first order. Source: Kuznetsova, Brockhoff and Christensen 2017, J.
    Stat. Software 82(13), section 2 (lmerTest).
    """
    curvature = profile.curvature(point)
    rank = int(np.linalg.matrix_rank(point.factor))
    active = [*RANDOM[random][: (0, 2, 3)[rank]], 3]
    hessian = curvature.hessian[np.ix_(active, active)]
    scale = 1 / np.sqrt(np.maximum(np.diag(hessian), np.finfo(float).tiny))
    values, vectors = np.linalg.eigh(hessian * np.outer(scale, scale))
    kept = values > _LEAST_CURVATURE * values.max()
    moved = profile.back @ curvature.covariance_slope[active] @ profile.back.T
    variance = profile.back @ point.covariance @ profile.back.T
    gradient = scale[:, None] * np.diagonal(moved, axis1=-2, axis2=-1) / np.diag(variance)
    along = vectors[:, kept].T @ gradient
    df: Floats = 1 / (along**2 / values[kept, None]).sum(axis=0)
    return df


def _deviance(profile: SlopeProfile, theta: Floats) -> float:
    return float(profile.at(theta).deviance)


def _list_smaller(free: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Which numbers of theta are free on each boundary, the largest first."""
    if len(free) > 1:
        yield free[:2]
    yield ()


def _distance(theta: Floats, kept: int) -> float:
    """Give the eigenvalue of D that is lost if only `kept` numbers of theta stay, or all of it."""
    factor = np.array([[theta[0], 0.0], [theta[1], theta[2]]])
    values = np.linalg.svd(factor, compute_uv=False) ** 2
    return float(values[1] if kept else values[0])


def _list_starts(profile: SlopeProfile, free: tuple[int, ...]) -> Floats:
    """Give (starts, 3) those points of a grid where none of their neighbours is lower."""
    scales = np.sqrt(10.0 ** np.array(_DECADES))
    if len(free) == 1:
        grid = np.column_stack([scales, 0 * scales, 0 * scales])
    else:
        correlation, first, second = np.meshgrid(_CORRELATIONS, scales, scales, indexing="ij")
        grid = np.stack(
            [first, second * correlation, second * np.sqrt(1 - correlation**2)], axis=-1
        )
    deviance = profile.at(grid).deviance
    starts: Floats = grid[deviance <= minimum_filter(deviance, size=3, mode="nearest")]
    return starts


def _descend(profile: SlopeProfile, start: Floats, free: tuple[int, ...]) -> Floats:
    """Search from a start, then refine as long as Newton's steps make the slope flatter."""
    kept = list(free)
    scale = np.array([abs(start[0]), *[np.hypot(start[1], start[2])] * 2])[kept]
    scale = np.where(scale > 0, scale, 1.0)

    def place(inner: Floats) -> Floats:
        theta = np.zeros(3)
        theta[kept] = inner * scale
        return theta

    @lru_cache(maxsize=2)
    def evaluate(inner: bytes) -> SlopePoint:
        return profile.at(place(np.frombuffer(inner)))

    def deviance(inner: Floats) -> float:
        return float(evaluate(inner.tobytes()).deviance)

    def slope(inner: Floats) -> Floats:
        found: Floats = scale * profile.gradient(evaluate(inner.tobytes()))[kept]
        return found

    def bend(inner: Floats) -> Floats:
        full = profile.curvature(evaluate(inner.tobytes())).hessian
        profiled = full[:3, :3] - np.outer(full[:3, 3], full[:3, 3]) / full[3, 3]
        chosen: Floats = np.outer(scale, scale) * profiled[np.ix_(kept, kept)]
        return chosen

    search = minimize(
        deviance,
        start[kept] / scale,
        jac=slope,
        hess=bend,
        method="trust-exact",
        options={"gtol": 1e-4, "maxiter": 100},
    )
    inner, steepness = search.x, np.abs(search.jac).max()
    for _ in range(_REFINEMENTS):
        step = np.linalg.lstsq(bend(inner), slope(inner), rcond=1e-12)[0]
        further = np.abs(slope(inner - step)).max()
        if not further < steepness:
            break
        inner, steepness = inner - step, further
    return place(inner)
