"""Dyadic-cluster-robust covariance against the sandwich built from its definition."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import statsmodels.api as sm

from llm_variability.fits.coding import code_full_factorial
from llm_variability.fits.dyadic import fit_dyadic
from llm_variability.fits.profile import fit_profile
from llm_variability.fits.random_intercept import GroupedOutcome
from llm_variability.tables import Factor

_, CODING = code_full_factorial(
    [Factor("race", ("White", "Asian"), "White"), Factor("gender", ("man", "woman"), "man")]
)
BLOCKS = 3


def draw_pairs(seed: int, sizes: np.ndarray) -> list[dict]:
    """Pairs of explicit unit vectors, each with its block, group and two texts."""
    rng = np.random.default_rng(seed)
    pairs = []
    for block in range(BLOCKS):
        for group in range(len(CODING)):
            n = sizes[block, group]
            vectors = rng.normal(size=(n, 5)) + rng.normal(size=5)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            for i, k in combinations(range(n), 2):
                texts = {(block, group, i), (block, group, k)}
                pairs.append(
                    {"block": block, "group": group, "texts": texts, "y": vectors[i] @ vectors[k]}
                )
    return pairs


def summarise(pairs: list[dict], sizes: np.ndarray) -> tuple[GroupedOutcome, np.ndarray]:
    """Counts, means and sums of squares of the groups, and the sums of squares over the texts."""
    keys = [(block, group) for block in range(BLOCKS) for group in range(len(CODING))]
    values = [
        np.array([pair["y"] for pair in pairs if (pair["block"], pair["group"]) == key])
        for key in keys
    ]
    text_ss = []
    for block, group in keys:
        sums = np.array(
            [
                sum(pair["y"] for pair in pairs if (block, group, i) in pair["texts"])
                for i in range(sizes[block, group])
            ]
        )
        text_ss.append(((sums - sums.mean()) ** 2).sum())
    outcome = GroupedOutcome(
        block=np.array([block for block, _ in keys]),
        coding=np.array([CODING[group] for _, group in keys]),
        count=np.array([len(each) for each in values]),
        mean=np.array([each.mean() for each in values]),
        within_ss=np.array([((each - each.mean()) ** 2).sum() for each in values]),
    )
    return outcome, np.array(text_ss)


SIZES = {
    "equal": np.full((BLOCKS, len(CODING)), 4),
    "unequal": np.array([[3, 5, 4, 2], [6, 3, 3, 4], [2, 4, 5, 3]]),
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("seed", [1, 2])
def test_covariance_is_the_sandwich_over_pairs_that_share_a_text(
    seed: int, sizes: np.ndarray
) -> None:
    pairs = draw_pairs(seed, sizes)
    rows = np.array([CODING[pair["group"]][1:] for pair in pairs])
    blocks = np.eye(BLOCKS)[[pair["block"] for pair in pairs]]
    fit = sm.OLS([pair["y"] for pair in pairs], np.hstack([rows, blocks])).fit()
    design = fit.model.exog
    meat = np.zeros((design.shape[1], design.shape[1]))
    for d, first in enumerate(pairs):
        for e, second in enumerate(pairs):
            if first["texts"] & second["texts"]:
                meat += fit.resid[d] * fit.resid[e] * np.outer(design[d], design[e])
    bread = np.linalg.inv(design.T @ design)
    expected = (bread @ meat @ bread)[: rows.shape[1], : rows.shape[1]]

    outcome, text_ss = summarise(pairs, sizes)
    estimate, covariance = fit_dyadic(outcome, sizes.ravel(), text_ss)

    np.testing.assert_allclose(estimate, fit.params[: rows.shape[1]], atol=1e-12)
    np.testing.assert_allclose(covariance, expected, atol=1e-12)


def test_effects_are_those_of_the_mixed_model_where_counts_are_equal() -> None:
    outcome, text_ss = summarise(draw_pairs(3, SIZES["equal"]), SIZES["equal"])
    estimate, _ = fit_dyadic(outcome, SIZES["equal"].ravel(), text_ss)
    np.testing.assert_allclose(estimate, fit_profile(outcome).estimate[1:], atol=1e-9)


def test_groups_that_are_fitted_exactly_have_the_variance_of_their_means() -> None:
    """Without lack of fit a difference of two groups has the sum of their variances."""
    sizes = SIZES["equal"]
    outcome, text_ss = summarise(draw_pairs(4, sizes), sizes)
    exact = replace(outcome, mean=outcome.coding @ np.array([0.4, 0.1, -0.1, 0.2]))
    _, covariance = fit_dyadic(exact, sizes.ravel(), text_ss)
    n = sizes.ravel()
    variance = 4 * (text_ss - outcome.within_ss) / (n * (n - 1)) ** 2
    of_group = variance.reshape(BLOCKS, -1).sum(axis=0) / BLOCKS**2
    assert covariance[0, 0] == pytest.approx(of_group[0] + of_group[2], rel=1e-9)
