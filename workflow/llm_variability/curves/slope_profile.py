"""Profile REML of lines whose intercepts and slopes vary over tasks, from sums over each task.

The model is `y = b0 + b1 x + (u_j + v_j x) + e` for an observation of task j at rate x, with
`(u_j, v_j) ~ N(0, s2 D)` and `e ~ N(0, s2)`. Fixed and random effects have the same two columns,
so a task enters the likelihood through its own least-squares line alone: with the QR decomposition
`X_j = Q_j R_j`, `z_j = Q_j' y_j` and r_j^2 what is left about that line,

    y' V^-1 y = sum of r_j^2 + z_j' W_j^-1 z_j     with W_j = I + R_j D R_j'.

For `D = L L'` and `B = R_j L`, which are 2 x 2, `det W = 1 + |B|^2 + det(B)^2` and
`z' W^-1 z = (|z|^2 + |B' J z|^2) / det W` with J a quarter turn: sums of squares, so nothing
cancels however large D is. b and s2 are profiled out; what remains is a search over the three
numbers of L, at a cost that does not depend on the number of observations.

Sources: Bates, Maechler, Bolker and Walker 2015, J. Stat. Software 67(1), sections 2 and 3.4 (the
relative covariance factor L and the profiled REML criterion); Laird and Ware 1982, Biometrics 38
(the model).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llm_variability.fits.random_intercept import (
    MIN_RESIDUAL_SHARE,
    Floats,
    GroupedOutcome,
    UnfittableError,
)

MIN_TASKS = 3
"""Tasks with two rates or more below which no line is fitted."""

_SAME_RATE = 1e-9
_BASIS = np.array([[[1.0, 0], [0, 0]], [[0, 0], [1, 0]], [[0, 0], [0, 1]]])


@dataclass(frozen=True)
class SlopePoint:
    """The profiled criterion at one factor L, or (with leading axes) at several.

    Rates are standardised, and the outcome is taken from its mean.

    deviance: -2 restricted log-likelihood but for a constant.
    factor: (..., 2, 2) the factor L, lower triangular.
    estimate: (..., 2) intercept and slope.
    var_residual: residual variance.
    covariance: (..., 2, 2) of the estimate at a known D, divided by var_residual.
    information: (..., tasks, 2, 2) X_j' V_j^-1 X_j, times var_residual.
    score: (..., tasks, 2) X_j' V_j^-1 (y_j - X_j b), times var_residual.
    """

    deviance: Floats
    factor: Floats
    estimate: Floats
    var_residual: Floats
    covariance: Floats
    information: Floats
    score: Floats

    @property
    def slope(self) -> Floats:
        """(2, 2) symmetric derivative of the deviance by D, at one factor."""
        weighed = self.information @ self.covariance @ self.information
        residual = self.score.T @ self.score / self.var_residual
        total = self.information.sum(axis=0) - weighed.sum(axis=0) - residual
        return np.asarray(total, dtype=float)


@dataclass(frozen=True)
class Curvature:
    """Second derivatives at one factor, by L11, L21, L22 and the logarithm of var_residual.

    hessian: (4, 4) of -2 restricted log-likelihood.
    covariance_slope: (4, 2, 2) derivative of the estimate's covariance, in the units of
        `SlopePoint.covariance`.
    """

    hessian: Floats
    covariance_slope: Floats


class SlopeProfile:
    """The restricted likelihood as a function of the relative covariance factor L alone.

    L is given as theta = (L11, L21, L22) in units of one over the square root of the mean number
    of observations a task, rates standardised: 1 is where tasks vary as much as their means err.
    """

    def __init__(self, outcome: GroupedOutcome) -> None:
        """Take every task apart into its line and what is left about it, once for all factors.

        outcome: `block` is the task, `coding` the columns 1 and rate.
        Raises UnfittableError if there are fewer than MIN_TASKS tasks with two rates or more.
        """
        weight, rate = outcome.count.astype(float), outcome.coding[:, 1]
        self.n_tasks = outcome.n_blocks
        self.n_observations = outcome.n_observations
        self.degrees = outcome.n_observations - 2
        self.total_ss = outcome.total_ss
        self.shift = outcome.grand_mean
        self._require_rates(outcome)
        centre = float(np.average(rate, weights=weight))
        scale = float(np.sqrt(np.average((rate - centre) ** 2, weights=weight)))
        self.back = np.array([[1, -centre / scale], [0, 1 / scale]])
        self.log_scale = float(np.log(scale))
        self.unit = 1 / np.sqrt(outcome.n_observations / outcome.n_blocks)
        x, y = (rate - centre) / scale, outcome.mean - self.shift

        def total(values: Floats) -> Floats:
            sums: Floats = np.zeros(self.n_tasks)
            np.add.at(sums, outcome.block, weight * values)
            return sums

        size = total(np.ones_like(x))
        x_mean, y_mean = total(x) / size, total(y) / size
        x_left, y_left = x - x_mean[outcome.block], y - y_mean[outcome.block]
        spread = np.sqrt(np.where(self.has_slope, total(x_left**2), 0.0))
        along = total(x_left * y_left) / np.where(self.has_slope, spread, 1) * self.has_slope
        own = along / np.where(self.has_slope, spread, 1)
        about = y_left - own[outcome.block] * x_left
        self.inside_ss = float(total(about**2).sum() + outcome.within_ss.sum())
        self.root = np.zeros((self.n_tasks, 2, 2))
        self.root[:, 0, 0], self.root[:, 0, 1] = np.sqrt(size), np.sqrt(size) * x_mean
        self.root[:, 1, 1] = spread
        self.target = np.column_stack([np.sqrt(size) * y_mean, along])

    def _require_rates(self, outcome: GroupedOutcome) -> None:
        rate, block = outcome.coding[:, 1], outcome.block
        low, high = np.full(self.n_tasks, np.inf), np.full(self.n_tasks, -np.inf)
        np.minimum.at(low, block, rate)
        np.maximum.at(high, block, rate)
        self.has_slope = high - low > _SAME_RATE
        if not np.isfinite(self.total_ss):
            raise UnfittableError("the similarities are not finite")
        if self.n_tasks < MIN_TASKS:
            raise UnfittableError(f"{self.n_tasks} tasks with pairs: fewer than {MIN_TASKS}")
        if np.ptp(rate) <= _SAME_RATE:
            raise UnfittableError("one rate alone: a slope needs two")
        if (varied := int(self.has_slope.sum())) < MIN_TASKS:
            raise UnfittableError(
                f"{varied} tasks with pairs at two rates or more: fewer than {MIN_TASKS}"
            )

    def require_residual(self, random: str) -> None:
        """Raise UnfittableError if random effects and rate leave nothing to tell noise by."""
        left_ss, lines = self.inside_ss, self.n_tasks + int(self.has_slope.sum())
        if random == "intercept":
            spread, along = self.root[:, 1, 1], self.target[:, 1]
            common = (spread @ along) / (spread @ spread)
            left_ss, lines = (
                left_ss + float(((along - common * spread) ** 2).sum()),
                (self.n_tasks + 1),
            )
        if self.n_observations <= lines:
            raise UnfittableError(
                f"{self.n_observations} observations of {self.n_tasks} tasks leave no residual"
            )
        if left_ss <= MIN_RESIDUAL_SHARE * self.total_ss:
            raise UnfittableError("no variance within tasks beyond what the rate explains")

    def at(self, theta: Floats) -> SlopePoint:
        """Evaluate the profile at (..., 3) numbers of L."""
        factor = self.unit * np.einsum("...k,kab->...ab", theta, _BASIS)
        spread = self.root @ factor[..., None, :, :]
        twist = spread[..., 0, 0] * spread[..., 1, 1] - spread[..., 0, 1] * spread[..., 1, 0]
        determinant = 1 + (spread**2).sum(axis=(-2, -1)) + twist**2
        turned = np.stack([-spread[..., 1, :], spread[..., 0, :]], axis=-1)
        straight = np.broadcast_to(np.eye(2), turned.shape)
        whitener = np.concatenate([straight, turned], axis=-2)
        whitener = whitener / np.sqrt(determinant)[..., None, None]
        coding = whitener @ self.root
        target = np.einsum("...jka,ja->...jk", whitener, self.target)
        information = np.swapaxes(coding, -1, -2) @ coding
        covariance = np.linalg.inv(information.sum(axis=-3))
        pull = np.einsum("...jka,...jk->...a", coding, target)
        estimate = np.einsum("...ab,...b->...a", covariance, pull)
        residual = target - np.einsum("...jka,...a->...jk", coding, estimate)
        residual_ss = self.inside_ss + (residual**2).sum(axis=(-2, -1))
        var_residual = residual_ss / self.degrees
        deviance = (
            self.degrees * np.log(var_residual)
            + np.log(determinant).sum(axis=-1)
            - np.linalg.slogdet(covariance)[1]
        )
        score = np.einsum("...jka,...jk->...ja", coding, residual)
        return SlopePoint(deviance, factor, estimate, var_residual, covariance, information, score)

    def curvature(self, point: SlopePoint) -> Curvature:
        """Differentiate the slope of the deviance once more, in closed form."""
        information, covariance, score = point.information, point.covariance, point.score
        step = self.unit * _BASIS
        by_theta = step @ point.factor.T
        by_theta = by_theta + np.swapaxes(by_theta, -1, -2)
        moved = information @ by_theta[:, None]
        drop = moved @ information
        covariance_slope = covariance @ drop.sum(axis=1) @ covariance
        pulled = np.einsum("kjab,jb->kja", moved, score)
        estimate_slope = -pulled.sum(axis=1) @ covariance
        score_slope = -pulled - np.einsum("jab,kb->kja", information, estimate_slope)
        once = drop @ covariance @ information
        crossed = np.einsum("kja,jb->kab", score_slope, score)
        second = (
            -drop.sum(axis=1)
            + once.sum(axis=1)
            + np.swapaxes(once, -1, -2).sum(axis=1)
            - (information @ covariance_slope[:, None] @ information).sum(axis=1)
            - (crossed + np.swapaxes(crossed, -1, -2)) / point.var_residual
        )
        bend = np.einsum("kac,lbc->klab", step, step)
        hessian = np.zeros((4, 4))
        hessian[:3, :3] = np.einsum("kab,lab->kl", second, by_theta) + 2 * np.einsum(
            "ab,klab->kl", point.slope, bend
        )
        outer = score.T @ score / point.var_residual
        hessian[:3, 3] = hessian[3, :3] = np.einsum("ab,kab->k", outer, by_theta)
        hessian[3, 3] = self.degrees
        return Curvature(hessian, np.concatenate([covariance_slope, covariance[None]]))

    def gradient(self, point: SlopePoint) -> Floats:
        """(3,) derivative of the deviance by theta."""
        pull: Floats = 2 * self.unit * (point.slope @ point.factor)
        return pull[[0, 1, 1], [0, 0, 1]]

    def complete_deviance(self, point: SlopePoint) -> float:
        """Give -2 restricted log-likelihood with the constants that `SlopePoint` leaves out."""
        constant = self.degrees * (1 + np.log(2 * np.pi)) + 2 * self.log_scale
        return float(point.deviance + constant)

    def place(self, relative: Floats) -> Floats:
        """Give the theta of a (2, 2) covariance of tasks' intercepts and slopes in their own units.

        relative: divided by var_residual; made positive semidefinite if it is not.
        """
        forth = np.linalg.inv(self.back) / self.unit
        values, vectors = np.linalg.eigh(forth @ relative @ forth.T)
        root = vectors * np.sqrt(np.clip(values, 0, None))
        upper: Floats = np.asarray(np.linalg.qr(root.T, mode="r"))
        lower = upper.T * np.where(np.diag(upper) < 0, -1.0, 1.0)
        return np.array([lower[0, 0], lower[1, 0], lower[1, 1]])
