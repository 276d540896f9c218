"""Dyadic-cluster-robust covariance of the pairwise model, from sums a group.

A check on the text level: the same model as the published one, formats as intercepts, but any two
pairs that share a text may depend on each other in any way.
"""

from __future__ import annotations

import numpy as np

from llm_variability.fits.random_intercept import Floats, GroupedOutcome, Integers


def fit_dyadic(
    outcome: GroupedOutcome, n_texts: Integers, text_ss: Floats
) -> tuple[Floats, Floats]:
    """Fit blocks and effects to pairwise cosines; a covariance that is robust to shared texts.

    With a column of the design x less its block's mean, e the residual of pair d, and `~` for two
    pairs that share a text, the covariance is B M B, B the inverse of the sum of x x' and

        M = sum over d ~ d' of x_d e_d e_d' x_d'.

    Pairs that share a text lie in one group, where x is the same. There the sum over d ~ d' of
    e_d e_d' is the sum over texts of (its pairs' residuals)^2, less the sum over pairs of e_d^2,
    since a pair meets itself at both its texts. With n texts, P pairs, lack of fit q (the group's
    mean less what is fitted), A = `text_ss` and W = `within_ss` that is

        A + n (n - 1)^2 q^2 - W - P q^2.

    Where every group is fitted exactly (q = 0) it is (n (n - 1) / 2)^2 times
    `text_variance.dyadic_variance`. Effects and blocks that interact make q, which this
    variance counts in part only, as if it were drawn with the texts.

    outcome: counts are pairs; the first column of its coding is the intercept.
    n_texts: (groups,). text_ss: (groups,) sum over texts of (s - mean of s)^2, s a text's sum of
        the outcome over its mates.
    Returns the (terms - 1,) effects, the intercept aside, and their covariance. With the same
    counts in all groups the effects are those of the mixed model.
    Source: Aronow, Samii and Assenova 2015, Political Analysis 23, equation (2).
    """
    columns = np.column_stack([outcome.coding[:, 1:], outcome.mean])
    size = np.bincount(outcome.block, weights=outcome.count)
    totals = np.zeros((outcome.n_blocks, columns.shape[1]))
    np.add.at(totals, outcome.block, outcome.count[:, None] * columns)
    centred = columns - (totals / size[:, None])[outcome.block]
    design, target = centred[:, :-1], centred[:, -1]
    bread = np.linalg.inv(design.T @ (outcome.count[:, None] * design))
    estimate = bread @ (design.T @ (outcome.count * target))
    lack = target - design @ estimate
    products = (
        text_ss
        + n_texts * (n_texts - 1.0) ** 2 * lack**2
        - outcome.within_ss
        - outcome.count * lack**2
    )
    meat = design.T @ (products[:, None] * design)
    return estimate, bread @ meat @ bread
