"""Standard errors, degrees of freedom and joint intervals against scipy and statsmodels."""

from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from llm_variability.fits.contrasts import list_contrasts
from llm_variability.fits.text_inference import (
    GroupVariance,
    Inference,
    combine_independent,
    combine_shared,
    infer_formats_fixed,
    infer_formats_random,
    simultaneous_quantile,
)
from llm_variability.tables import Factor

FACTORS = [
    Factor("race", ("White", "African", "Asian"), "White"),
    Factor("gender", ("man", "woman"), "man"),
]
TREATMENT = np.array(
    [each.weights for each in list_contrasts(FACTORS) if each.coding == "treatment"]
)
FORMATS = 7


def draw_means(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 0.6 + 0.1 * rng.normal(size=(FORMATS, 1)) + 0.03 * rng.normal(size=(FORMATS, 6))


def no_shared(groups: int = 6) -> GroupVariance:
    return GroupVariance(np.full(groups, 1e-5), np.zeros(groups), np.full(groups, 40.0))


def test_formats_as_a_sample_have_the_cluster_robust_variance_of_statsmodels() -> None:
    means = draw_means(1)
    frame = pd.DataFrame(
        [
            {"y": means[j, 2 * r + g], "format": j, "race": race, "gender": gender}
            for j in range(FORMATS)
            for r, race in enumerate(FACTORS[0].levels)
            for g, gender in enumerate(FACTORS[1].levels)
        ]
    )
    formula = "y ~ C(race, Treatment('White')) * C(gender, Treatment('man'))"
    fit = smf.ols(formula, frame).fit(
        cov_type="cluster", cov_kwds={"groups": frame["format"], "use_correction": False}
    )
    found = infer_formats_random(means, no_shared(), TREATMENT)
    np.testing.assert_allclose(found.estimate, fit.params, atol=1e-12)
    expected = fit.cov_params().to_numpy() * FORMATS / (FORMATS - 1)
    np.testing.assert_allclose(found.covariance, expected, atol=1e-15)


def test_formats_as_a_sample_have_the_t_test_of_scipy_on_the_differences_by_format() -> None:
    means = draw_means(2)
    found = infer_formats_random(means, no_shared(), TREATMENT)
    reference = stats.ttest_1samp(means @ TREATMENT.T, 0)
    np.testing.assert_allclose(found.p_value, reference.pvalue, rtol=1e-9)
    np.testing.assert_allclose(found.df, FORMATS - 1)
    low, high = reference.confidence_interval()
    np.testing.assert_allclose(found.estimate - found.margin, low)
    np.testing.assert_allclose(found.estimate + found.margin, high)


def test_single_format_has_the_welch_test_of_scipy() -> None:
    means = np.array([[0.61, 0.55]])
    variance, n = np.array([[4e-4, 9e-4]]), np.array([[12, 30]])
    groups = combine_independent(variance, n)
    found = infer_formats_fixed(means, groups, np.array([[-1.0, 1.0]]))
    reference = stats.ttest_ind_from_stats(
        0.55, np.sqrt(9e-4 * 30), 30, 0.61, np.sqrt(4e-4 * 12), 12, equal_var=False
    )
    assert found.estimate[0] == pytest.approx(-0.06)
    assert found.p_value[0] == pytest.approx(reference.pvalue)
    assert found.estimate[0] / found.std_error[0] == pytest.approx(reference.statistic)


def test_degrees_of_freedom_of_equal_parts_are_their_sum() -> None:
    """Satterthwaite: k equal variances of n - 1 degrees of freedom have k (n - 1)."""
    groups = combine_independent(np.full((FORMATS, 6), 2e-4), np.full((FORMATS, 6), 50))
    found = infer_formats_fixed(draw_means(3), groups, TREATMENT)
    parts = (TREATMENT != 0).sum(axis=1)
    np.testing.assert_allclose(found.df, parts * FORMATS * 49)
    np.testing.assert_allclose(found.std_error**2, parts * 2e-4 / FORMATS)


def test_multiple_of_a_contrast_has_the_same_test() -> None:
    rng = np.random.default_rng(9)
    groups = GroupVariance(
        rng.uniform(1e-4, 9e-4, 6), rng.uniform(1e-4, 4e-4, 6), rng.uniform(20, 60, 6)
    )
    for infer in (infer_formats_fixed, infer_formats_random):
        once = infer(draw_means(3), groups, TREATMENT)
        half = infer(draw_means(3), groups, TREATMENT / 2)
        np.testing.assert_allclose(half.df, once.df)
        np.testing.assert_allclose(half.p_value, once.p_value)
        np.testing.assert_allclose(half.margin, once.margin / 2)


def test_shared_units_add_what_does_not_average_out_over_formats() -> None:
    """Truth by hand: slopes of variance 1 in each of 6 formats, names that shift all by 0.5."""
    rng, studies, formats = np.random.default_rng(4), 20_000, 6
    slopes = rng.normal(size=(studies, formats, 2))
    names = np.sqrt(0.5) * rng.normal(size=(studies, 1, 2))
    shared = np.full((studies, 2), 0.5)
    groups = GroupVariance(np.full((studies, 2), 9.0), shared, np.full((studies, 2), 49.0))
    weights = np.array([[-1.0, 1.0]])
    found = infer_formats_random(slopes + names, groups, weights)
    truth = 2 * (1 / formats + 0.5)
    assert found.estimate[:, 0].var() == pytest.approx(truth, rel=0.04)
    assert (found.std_error**2).mean() == pytest.approx(truth, rel=0.02)
    assert ((found.df > formats - 1) & (found.df < formats - 1 + 2 * 49)).all()
    covered = np.abs(found.estimate) <= found.margin
    assert covered.mean() == pytest.approx(0.95, abs=0.006)


def test_units_that_are_not_shared_are_combined_as_independent_texts() -> None:
    variance, n = np.random.default_rng(5).uniform(1e-4, 4e-4, size=(FORMATS, 6)), 30
    apart = combine_independent(variance, np.full((FORMATS, 6), n))
    diagonal = np.array([np.diag(column) for column in variance.T])
    together = combine_shared(diagonal, np.full(6, n))
    np.testing.assert_allclose(together.variance, apart.variance)
    np.testing.assert_array_equal(together.shared, 0)


def test_shared_part_is_the_mean_covariance_of_two_formats() -> None:
    covariance = np.array([[[3e-4, 1e-4, 0], [1e-4, 3e-4, 2e-4], [0, 2e-4, 3e-4]]])
    found = combine_shared(covariance, np.array([20]))
    assert found.shared[0] == pytest.approx(1e-4)
    assert found.variance[0] == pytest.approx(15e-4 / 9)


def test_covariance_below_zero_counts_as_none() -> None:
    covariance = np.array([[[2e-4, -1e-4], [-1e-4, 2e-4]]])
    found = combine_shared(covariance, np.array([20]))
    assert found.shared[0] == 0
    assert found.variance[0] == pytest.approx(2e-4 / 4)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.01, 100), shift=st.floats(-5, 5))
def test_tests_of_effects_do_not_depend_on_scale_or_origin(seed, scale, shift) -> None:
    means = draw_means(seed)
    variance = np.random.default_rng(seed).uniform(1e-4, 4e-4, size=(FORMATS, 6))
    groups = combine_independent(variance, np.full((FORMATS, 6), 20))
    moved = combine_independent(variance * scale**2, np.full((FORMATS, 6), 20))
    for infer in (infer_formats_fixed, infer_formats_random):
        before = infer(means, groups, TREATMENT[1:])
        after = infer(scale * means + shift, moved, TREATMENT[1:])
        np.testing.assert_allclose(after.estimate, scale * before.estimate, atol=1e-10)
        np.testing.assert_allclose(after.std_error, scale * before.std_error, rtol=1e-6)
        np.testing.assert_allclose(after.df, before.df, rtol=1e-6)


def independent(terms: int, df: float, joint_df: int | None) -> Inference:
    return Inference(
        np.zeros(terms), np.diag(np.arange(1.0, terms + 1)), np.full(terms, df), joint_df
    )


def test_independent_contrasts_have_sidaks_quantile() -> None:
    for terms in (2, 5):
        expected = NormalDist().inv_cdf((1 + 0.95 ** (1 / terms)) / 2)
        assert simultaneous_quantile(independent(terms, np.inf, None)) == pytest.approx(
            expected, rel=0.01
        )
        expected = stats.t(12).ppf((1 + 0.95 ** (1 / terms)) / 2)
        assert simultaneous_quantile(independent(terms, 12, 12)) == pytest.approx(
            expected, rel=0.015
        )


def test_fixed_formats_have_the_quantile_of_scipys_multivariate_t() -> None:
    correlation = np.full((3, 3), 0.5) + 0.5 * np.eye(3)
    quantile = simultaneous_quantile(Inference(np.zeros(3), correlation, np.full(3, 20.0)))
    inside = stats.multivariate_t(shape=correlation, df=20).cdf(
        np.full(3, quantile), lower_limit=np.full(3, -quantile), random_state=1
    )
    assert inside == pytest.approx(0.95, abs=0.003)


def test_two_groups_compared_with_one_have_dunnetts_quantile() -> None:
    """Equal groups: scipy's Dunnett test at its own critical value has p = 0.05."""
    correlation = np.array([[1, 0.5], [0.5, 1]])
    quantile = simultaneous_quantile(Inference(np.zeros(2), correlation, np.full(2, 27.0)))
    base = np.tile([-1.0, 1.0], 5) * np.sqrt(0.9)
    shifted = base + quantile * np.sqrt(2 / 10)
    p = stats.dunnett(shifted, base, control=base, rng=np.random.default_rng(1)).pvalue[0]
    assert base.var(ddof=1) == pytest.approx(1)
    assert p == pytest.approx(0.05, abs=0.003)


def test_contrasts_that_are_one_and_the_same_have_the_quantile_of_t() -> None:
    same = Inference(np.zeros(3), np.ones((3, 3)), np.full(3, 12.0), 12)
    assert simultaneous_quantile(same) == pytest.approx(stats.t(12).ppf(0.975), rel=0.015)
    one = Inference(np.zeros(1), np.ones((1, 1)), np.full(1, 12.0), 12)
    assert simultaneous_quantile(one) == pytest.approx(stats.t(12).ppf(0.975), rel=1e-9)
