"""Variances of mean cosines against pairs deleted by hand, expectations and the bootstrap."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_variability.fits.bootstrap import bootstrap_mean_cosines
from llm_variability.fits.text_variance import (
    correct_covariance,
    correct_jackknife,
    dyadic_variance,
    jackknife_covariance,
    jackknife_deviations,
    jackknife_variance,
)


def draw_vectors(seed: int, n: int, d: int = 6) -> np.ndarray:
    """Unit vectors around one direction, some texts much less typical than others."""
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=(n, d)) * rng.gamma(2, 0.3, size=(n, 1))
    drawn[:, 0] += 1
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def mean_of_pairs(cosines: np.ndarray, left_out: int | None = None) -> float:
    kept = [i for i in range(len(cosines)) if i != left_out]
    return float(np.mean([cosines[i, k] for i, k in combinations(kept, 2)]))


def sum_over_mates(cosines: np.ndarray) -> np.ndarray:
    return cosines.sum(axis=-1) - np.diagonal(cosines, axis1=-2, axis2=-1)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(3, 12))
def test_jackknife_is_that_of_pairs_deleted_one_text_at_a_time(seed: int, n: int) -> None:
    cosines = (vectors := draw_vectors(seed, n)) @ vectors.T
    deleted = np.array([mean_of_pairs(cosines, i) for i in range(n)])
    sums = sum_over_mates(cosines)
    np.testing.assert_allclose(
        jackknife_deviations(sums), deleted - mean_of_pairs(cosines), atol=1e-12
    )
    expected = (n - 1) / n * ((deleted - deleted.mean()) ** 2).sum()
    assert jackknife_variance(sums) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 9))
def test_corrected_variance_is_that_of_products_of_pairs_without_a_text_in_common(
    seed: int, n: int
) -> None:
    """m^2 less the mean product of disjoint pairs, whose expectation is that of m, squared.

    Or, where that is more, what the pairs would give were they independent.
    """
    cosines = (vectors := draw_vectors(seed, n)) @ vectors.T
    pairs = list(combinations(range(n), 2))
    disjoint = [cosines[d] * cosines[e] for d in pairs for e in pairs if not set(d) & set(e)]
    values = np.array([cosines[d] for d in pairs])
    unbiased = values.mean() ** 2 - np.mean(disjoint)
    expected = max(unbiased, values.var(ddof=1) / len(values))
    variance, within_ss = jackknife_variance(sum_over_mates(cosines)), values.var() * len(values)
    found = correct_jackknife(variance, within_ss, np.array(n))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)
    dyadic = dyadic_variance(sum_over_mates(cosines), np.array(within_ss))
    assert dyadic * n * (n - 1) / ((n - 2) * (n - 3)) == pytest.approx(
        unbiased, rel=1e-6, abs=1e-12
    )


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 9))
def test_dyadic_variance_is_the_sum_over_pairs_that_share_a_text(seed: int, n: int) -> None:
    cosines = (vectors := draw_vectors(seed, n)) @ vectors.T
    pairs = list(combinations(range(n), 2))
    residual = {d: cosines[d] - mean_of_pairs(cosines) for d in pairs}
    shared = [residual[d] * residual[e] for d in pairs for e in pairs if set(d) & set(e)]
    squares = sum(value**2 for value in residual.values())
    found = dyadic_variance(sum_over_mates(cosines), np.array(squares))
    assert found == pytest.approx(sum(shared) / len(pairs) ** 2, rel=1e-8, abs=1e-12)


def test_expectations_are_those_of_the_decomposition_into_typicality_and_the_rest() -> None:
    """Outcome a_i + a_k + b_ik with var(a) = 0.5 and var(b) = 2: z = 0.5, p = 2, all in one go."""
    rng, n, studies = np.random.default_rng(3), 7, 40_000
    z, p = 0.5, 2.0
    a = rng.normal(size=(studies, n)) * np.sqrt(z)
    b = np.triu(rng.normal(size=(studies, n, n)) * np.sqrt(p), k=1)
    outcome = a[:, :, None] + a[:, None, :] + b + np.swapaxes(b, -1, -2)
    upper = outcome[:, *np.triu_indices(n, k=1)]
    sums = sum_over_mates(outcome)
    within_ss = ((upper - upper.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    truth = 4 * z / n + 2 * p / (n * (n - 1))
    expected = {
        "mean": (upper.mean(axis=1) ** 2, truth),
        "jackknife": (jackknife_variance(sums), 4 * z / n + 4 * p / (n * (n - 2))),
        "dyadic": (
            dyadic_variance(sums, within_ss),
            truth * (n - 2) * (n - 3) / (n * (n - 1)),
        ),
        "corrected": (
            jackknife_variance(sums) * (n - 2) / (n - 3)
            - 4 * within_ss / (n * (n - 1) * (n - 2) * (n - 3)),
            truth,
        ),
    }
    for name, (values, value) in expected.items():
        margin = 4 * values.std() / np.sqrt(studies)
        assert margin < 0.05 * value
        assert abs(values.mean() - value) < margin, name


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bootstrap_over_texts_agrees(seed: int) -> None:
    """Ratio of standard errors: 4,000 draws leave 1.1% of error, n = 80 texts a few percent."""
    vectors = draw_vectors(seed, 80)
    means = bootstrap_mean_cosines(vectors, 4_000, np.random.default_rng(seed))
    cosines = vectors @ vectors.T
    jackknife = np.sqrt(jackknife_variance(sum_over_mates(cosines)))
    assert means.std(ddof=1) == pytest.approx(jackknife, rel=0.06)
    assert means.mean() == pytest.approx(mean_of_pairs(cosines), abs=jackknife / 10)


def test_bootstrap_draw_is_the_mean_over_pairs_of_different_texts() -> None:
    vectors = draw_vectors(5, 6)
    found = bootstrap_mean_cosines(vectors, 20, np.random.default_rng(8))
    weights = np.random.default_rng(8).multinomial(6, np.full(6, 1 / 6), size=20)
    for value, weight in zip(found, weights, strict=True):
        drawn = np.repeat(np.arange(6), weight)
        pairs = [vectors[i] @ vectors[k] for i, k in combinations(drawn, 2) if i != k]
        assert value == pytest.approx(np.mean(pairs))


def test_bootstrap_over_names_agrees_with_their_covariance() -> None:
    """Three formats of the same 90 names: a name keeps some of its typicality."""
    rng = np.random.default_rng(6)
    typical = rng.gamma(2, 0.3, size=(90, 1))
    drawn = rng.normal(size=(3, 90, 6)) * (typical + rng.gamma(2, 0.1, size=(3, 90, 1)))
    drawn[..., 0] += 1
    vectors = drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)
    means = bootstrap_mean_cosines(vectors, 6_000, np.random.default_rng(7))
    sums = sum_over_mates(vectors @ np.swapaxes(vectors, -1, -2))
    covariance = jackknife_covariance(jackknife_deviations(sums))
    assert covariance[0, 1] > 0.3 * covariance[0, 0]
    np.testing.assert_allclose(np.cov(means.T), covariance, rtol=0.15)


def test_covariance_has_the_variances_on_its_diagonal() -> None:
    vectors = np.stack([draw_vectors(seed, 11) for seed in (1, 2, 3)])
    sums = sum_over_mates(vectors @ np.swapaxes(vectors, -1, -2))
    covariance = jackknife_covariance(jackknife_deviations(sums))
    np.testing.assert_allclose(np.diagonal(covariance), jackknife_variance(sums), rtol=1e-12)


def test_corrected_covariance_keeps_the_correlations_and_has_the_corrected_variances() -> None:
    covariance = np.array([[4.0, 1.0, 0.0], [1.0, 9.0, 0.0], [0.0, 0.0, 0.0]])
    jackknife, corrected = np.array([4.0, 9.0, 0.0]), np.array([1.0, 4.0, 0.5])
    found = correct_covariance(covariance, jackknife, corrected)
    np.testing.assert_allclose(found, [[1, 1 / 3, 0], [1 / 3, 4, 0], [0, 0, 0]])


def test_texts_that_are_equally_typical_have_no_jackknife_variance() -> None:
    assert jackknife_variance(np.full(5, 2.4)) == pytest.approx(0, abs=1e-20)


def test_too_few_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="2 texts: a jackknife of pairs needs at least 3"):
        jackknife_variance(np.array([0.5, 0.5]))
