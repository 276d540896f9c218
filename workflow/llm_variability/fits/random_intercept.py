"""What a random-intercept fit takes and gives, whichever backend makes it.

The model is that of the homogeneity paper, section 2.4, equation (1): for observation i of
block j, `y_ij = x_ij' beta + u_j + e_ij` with `u_j ~ N(0, var_block)` and
`e_ij ~ N(0, var_residual)`. Here x is the same for all observations of a group, so that the
observations enter the likelihood through each group's count, mean and sum of squares alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]

MIN_RESIDUAL_SHARE = 1e-12
"""Share of the total sum of squares below which what is left within the blocks is rounding."""


class UnfittableError(Exception):
    """A model that cannot be fitted to these data; the message is the reason, in plain words."""


@dataclass(frozen=True)
class GroupedOutcome:
    """An outcome, group by group.

    block: (groups,) number of the block that each group lies in, 0 to blocks - 1, none left out.
    coding: (groups, terms) row of the fixed effects' design matrix that a group's observations
        share.
    count: (groups,) observations, at least 1 each.
    mean: (groups,) their mean.
    within_ss: (groups,) sum of their squared deviations from that mean.
    """

    block: Integers
    coding: Floats
    count: Integers
    mean: Floats
    within_ss: Floats

    @property
    def n_observations(self) -> int:
        return int(self.count.sum())

    @property
    def n_blocks(self) -> int:
        return int(self.block.max()) + 1

    @property
    def grand_mean(self) -> float:
        return float(np.average(self.mean, weights=self.count))

    @property
    def total_ss(self) -> float:
        """Sum of the squared deviations of all observations from their mean."""
        between = self.count * (self.mean - self.grand_mean) ** 2
        return float(self.within_ss.sum() + between.sum())


@dataclass(frozen=True)
class RandomInterceptFit:
    """A fit by restricted maximum likelihood.

    estimate, std_error: (terms,) fixed effects in the outcome's units.
    var_block, var_residual: variances in the outcome's squared units; var_block may be 0.
    converged: whether the optimum was reached.
    """

    estimate: Floats
    std_error: Floats
    var_block: float
    var_residual: float
    converged: bool


def standardise(outcome: GroupedOutcome) -> tuple[GroupedOutcome, float, float]:
    """Take off the mean of all observations and divide by their standard deviation.

    The standard deviation is the sample one (divisor n - 1), as pandas computes it.
    Returns the z-scored outcome, the mean and the standard deviation; if the latter is 0 or not
    finite, the outcome comes back unscaled.
    """
    mean = outcome.grand_mean
    deviation = float(np.sqrt(outcome.total_ss / max(outcome.n_observations - 1, 1)))
    if not np.isfinite(deviation) or deviation == 0:
        return outcome, mean, deviation
    scaled = replace(
        outcome, mean=(outcome.mean - mean) / deviation, within_ss=outcome.within_ss / deviation**2
    )
    return scaled, mean, deviation


def collapse_to_means(outcome: GroupedOutcome) -> GroupedOutcome:
    """Make one observation of every group: its mean. Source: homogeneity paper, appendix J."""
    return replace(
        outcome,
        count=np.ones_like(outcome.count),
        within_ss=np.zeros_like(outcome.within_ss),
    )


def require_identifiable(outcome: GroupedOutcome) -> None:
    """Raise UnfittableError unless all effects and both variances can be told apart."""
    n_terms = outcome.coding.shape[1]
    if not np.isfinite(outcome.total_ss):
        raise UnfittableError("the outcome is not finite")
    if outcome.n_blocks < 2:
        raise UnfittableError("only one block: a random intercept needs at least two")
    if np.linalg.matrix_rank(outcome.coding) < n_terms:
        raise UnfittableError("singular: the data do not tell all fixed effects apart")
    if outcome.n_observations <= n_terms:
        raise UnfittableError(
            f"{outcome.n_observations} observations are too few for {n_terms} fixed effects"
        )
    intercepts = np.eye(outcome.n_blocks)[outcome.block]
    rank = int(np.linalg.matrix_rank(np.hstack([outcome.coding, intercepts])))
    if rank == n_terms:
        raise UnfittableError("singular: the fixed effects leave no difference between blocks")
    if rank >= outcome.n_observations:
        raise UnfittableError("singular: fixed effects and blocks leave no residual")
