"""Profile REML against statsmodels, closed forms and what must not change a fit."""

import warnings
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.regression.mixed_linear_model import MixedLM

from llm_variability.fits.coding import code_full_factorial
from llm_variability.fits.profile import RemlProfile, fit_profile
from llm_variability.fits.random_intercept import (
    GroupedOutcome,
    UnfittableError,
    collapse_to_means,
    standardise,
)
from llm_variability.tables import Factor

RACE_GENDER = (
    Factor("race", ("White", "African", "Asian"), "White"),
    Factor("gender", ("man", "woman"), "man"),
)


def group_rows(y, block, group, coding):
    """Count, average and spread of rows by (block, group), without the package's own code."""
    cells = sorted(set(zip(block, group, strict=True)))
    values = [y[(block == b) & (group == g)] for b, g in cells]
    return GroupedOutcome(
        block=np.array([b for b, _ in cells]),
        coding=np.array([coding[g] for _, g in cells]),
        count=np.array([len(v) for v in values]),
        mean=np.array([v.mean() for v in values]),
        within_ss=np.array([((v - v.mean()) ** 2).sum() for v in values]),
    )


def simulate_rows(rng, n_blocks, sizes, block_sd, coding, residual_sd=1.0):
    effects = rng.normal(size=coding.shape[1])
    rows = []
    for b in range(n_blocks):
        shift = block_sd * rng.normal()
        for g in range(len(coding)):
            noise = residual_sd * rng.normal(size=sizes(b, g))
            rows += [(coding[g] @ effects + shift + e, b, g) for e in noise]
    y, block, group = (np.array(column) for column in zip(*rows, strict=True))
    return y, block, group


def simulate_cosines(rng, n_blocks, coding, texts):
    """Cosines of explicit pairs of unit vectors; a block and a group share directions."""
    block_axis = rng.normal(size=(n_blocks, 12))
    group_axis = rng.normal(size=(len(coding), 12))
    cosines, block, group = [], [], []
    for b in range(n_blocks):
        for g in range(len(coding)):
            vectors = block_axis[b] + 0.6 * group_axis[g] + rng.normal(size=(texts(b, g), 12))
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            for first, second in combinations(vectors, 2):
                cosines.append(first @ second)
                block.append(b)
                group.append(g)
    cosines = np.array(cosines)
    z = (cosines - cosines.mean()) / cosines.std(ddof=1)
    return z, np.array(block), np.array(group)


def fit_statsmodels(y, rows, block, method="powell"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = MixedLM(y, rows, block).fit(reml=True, method=method, ftol=1e-14, maxiter=2000)
    assert fit.converged
    return fit


@pytest.mark.parametrize("method", ["powell", "nm"])
@pytest.mark.parametrize("balanced", [True, False])
def test_profile_agrees_with_statsmodels_on_the_cosines_of_explicit_pairs(method, balanced) -> None:
    rng = np.random.default_rng(20)
    _, coding = code_full_factorial(RACE_GENDER)
    z, block, group = simulate_cosines(
        rng, 6, coding, (lambda b, g: 9) if balanced else (lambda b, g: 3 + (5 * b + 3 * g) % 9)
    )
    reference = fit_statsmodels(z, coding[group], block, method)

    fit = fit_profile(group_rows(z, block, group, coding))

    assert fit.converged
    np.testing.assert_allclose(fit.estimate, reference.fe_params, atol=1e-6)
    np.testing.assert_allclose(fit.std_error, reference.bse_fe, rtol=1e-4)
    assert fit.var_block == pytest.approx(reference.cov_re[0, 0], rel=1e-4)
    assert fit.var_residual == pytest.approx(reference.scale, rel=1e-4)


def test_profile_agrees_with_statsmodels_on_cell_means() -> None:
    rng = np.random.default_rng(21)
    _, coding = code_full_factorial(RACE_GENDER)
    z, block, group = simulate_cosines(rng, 7, coding, lambda b, g: 6)
    outcome, _, _ = standardise(collapse_to_means(group_rows(z, block, group, coding)))
    reference = fit_statsmodels(outcome.mean, outcome.coding, outcome.block)

    fit = fit_profile(outcome)

    np.testing.assert_allclose(fit.estimate, reference.fe_params, atol=1e-6)
    np.testing.assert_allclose(fit.std_error, reference.bse_fe, rtol=1e-4)
    assert fit.var_block == pytest.approx(reference.cov_re[0, 0], rel=1e-4)
    assert fit.var_residual == pytest.approx(reference.scale, rel=1e-4)


def test_profile_is_the_variance_analysis_where_the_design_is_balanced() -> None:
    rng = np.random.default_rng(22)
    n_blocks, size = 8, 15
    intercept = np.ones((1, 1))
    y, block, group = simulate_rows(rng, n_blocks, lambda b, g: size, 0.7, intercept)
    means = y.reshape(n_blocks, size).mean(axis=1)
    mean_square_within = y.reshape(n_blocks, size).var(axis=1, ddof=1).mean()
    mean_square_between = size * means.var(ddof=1)

    fit = fit_profile(group_rows(y, block, group, intercept))

    assert fit.estimate[0] == pytest.approx(y.mean(), abs=1e-12)
    assert fit.var_residual == pytest.approx(mean_square_within, rel=1e-8)
    assert fit.var_block == pytest.approx((mean_square_between - mean_square_within) / size)
    assert fit.std_error[0] == pytest.approx(np.sqrt(mean_square_between / (n_blocks * size)))


def test_variance_between_blocks_is_zero_where_the_variance_analysis_makes_it_negative() -> None:
    rng = np.random.default_rng(23)
    n_blocks, size = 6, 10
    y = rng.normal(size=(n_blocks, size))
    y -= y.mean(axis=1, keepdims=True)
    y = y.ravel()

    fit = fit_profile(
        group_rows(y, np.repeat(np.arange(n_blocks), size), np.zeros(60, int), np.ones((1, 1)))
    )

    assert fit.converged
    assert fit.var_block == 0
    assert fit.var_residual == pytest.approx(y.var(ddof=1))
    assert fit.std_error[0] == pytest.approx(y.std(ddof=1) / np.sqrt(60))


@pytest.mark.parametrize("ratio", [1e-6, 1e4, 1e8, 1e11])
def test_profile_finds_ratios_far_from_one(ratio) -> None:
    """Balanced blocks whose sums of squares are set, so that the closed form gives the ratio."""
    n_blocks, size = 5, 100_000
    between = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    residual = between.var(ddof=1) / (ratio + 1 / size)
    outcome = GroupedOutcome(
        block=np.arange(n_blocks),
        coding=np.ones((n_blocks, 1)),
        count=np.full(n_blocks, size),
        mean=between,
        within_ss=np.full(n_blocks, residual * (size - 1)),
    )

    fit = fit_profile(outcome)

    assert fit.converged
    assert fit.var_residual == pytest.approx(residual, rel=1e-6)
    assert fit.var_block == pytest.approx(ratio * residual, rel=1e-6)


def test_profile_finds_the_highest_point_of_a_dense_scan() -> None:
    rng = np.random.default_rng(24)
    _, coding = code_full_factorial(RACE_GENDER)
    for block_sd in (0.05, 0.3, 5.0):
        rows = simulate_rows(rng, 4, lambda b, g: 1 + (7 * b + g) % 5, block_sd, coding)
        profile = RemlProfile(group_rows(*rows, coding))
        best = profile.at(profile.minimise()).deviance
        scan = profile.at(np.concatenate([[0.0], np.logspace(-12, 12, 5000)])).deviance
        assert best <= scan.min() + 1e-9


def test_slope_is_the_derivative_of_the_deviance() -> None:
    rng = np.random.default_rng(25)
    _, coding = code_full_factorial(RACE_GENDER)
    rows = simulate_rows(rng, 5, lambda b, g: 2 + (b + g) % 4, 0.8, coding)
    profile = RemlProfile(group_rows(*rows, coding))
    for ratio in (0.01, 0.5, 20.0):
        step = 1e-5 * ratio
        difference = profile.at(ratio + step).deviance - profile.at(ratio - step).deviance
        assert profile.at(ratio).slope == pytest.approx(difference / (2 * step), rel=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    shift=st.floats(-1e4, 1e4),
    scale=st.floats(1e-3, 1e3),
)
def test_shift_moves_the_intercept_only_and_scale_multiplies_all(seed, shift, scale) -> None:
    rng = np.random.default_rng(seed)
    _, coding = code_full_factorial(RACE_GENDER)
    y, block, group = simulate_rows(rng, 5, lambda b, g: 2 + (b + g) % 4, 1.0, coding)
    before = fit_profile(group_rows(y, block, group, coding))

    after = fit_profile(group_rows(shift + scale * y, block, group, coding))

    moved = np.zeros(len(before.estimate))
    moved[0] = shift
    tolerance = 1e-6 * scale
    np.testing.assert_allclose(after.estimate, moved + scale * before.estimate, atol=tolerance)
    np.testing.assert_allclose(after.std_error, scale * before.std_error, rtol=1e-5)
    assert after.var_residual == pytest.approx(scale**2 * before.var_residual, rel=1e-5)
    assert after.var_block == pytest.approx(scale**2 * before.var_block, rel=1e-4, abs=tolerance)


def test_order_of_groups_and_names_of_blocks_do_not_matter() -> None:
    rng = np.random.default_rng(26)
    _, coding = code_full_factorial(RACE_GENDER)
    y, block, group = simulate_rows(rng, 5, lambda b, g: 2 + (b + g) % 4, 1.0, coding)
    outcome = group_rows(y, block, group, coding)
    shuffled = rng.permutation(len(outcome.mean))
    renamed = GroupedOutcome(
        block=np.array([3, 1, 4, 0, 2])[outcome.block][shuffled],
        coding=outcome.coding[shuffled],
        count=outcome.count[shuffled],
        mean=outcome.mean[shuffled],
        within_ss=outcome.within_ss[shuffled],
    )

    np.testing.assert_allclose(
        fit_profile(renamed).estimate, fit_profile(outcome).estimate, atol=1e-9
    )
    np.testing.assert_allclose(
        fit_profile(renamed).std_error, fit_profile(outcome).std_error, rtol=1e-7
    )


def test_exchanged_reference_turns_the_contrast_round() -> None:
    rng = np.random.default_rng(27)
    forth = code_full_factorial([Factor("gender", ("man", "woman"), "man")])[1]
    back = code_full_factorial([Factor("gender", ("man", "woman"), "woman")])[1]
    y, block, group = simulate_rows(rng, 5, lambda b, g: 4 + b, 1.0, forth)

    one = fit_profile(group_rows(y, block, group, forth))
    other = fit_profile(group_rows(y, block, group, back))

    assert other.estimate[1] == pytest.approx(-one.estimate[1], abs=1e-9)
    assert other.std_error[1] == pytest.approx(one.std_error[1], rel=1e-7)
    assert other.estimate[0] == pytest.approx(one.estimate.sum(), abs=1e-9)


def test_confidence_intervals_cover_the_true_effect_as_often_as_they_say() -> None:
    """400 data sets of 13 blocks: 95% give or take three standard errors of a proportion."""
    rng = np.random.default_rng(28)
    coding = code_full_factorial([Factor("gender", ("man", "woman"), "man")])[1]
    covered = 0
    for _ in range(400):
        counts = np.full(26, 20)
        effect = np.array([0.5, -0.3])
        block = np.repeat(np.arange(13), 2)
        rows = np.tile(coding, (13, 1))
        mean = rows @ effect + 0.6 * rng.normal(size=13)[block] + rng.normal(size=26) / 20**0.5
        fit = fit_profile(GroupedOutcome(block, rows, counts, mean, rng.chisquare(19, size=26)))
        covered += abs(fit.estimate[1] - effect[1]) < 1.959964 * fit.std_error[1]
    assert covered / 400 == pytest.approx(0.95, abs=3 * np.sqrt(0.95 * 0.05 / 400))


def test_outcome_that_is_no_number_is_refused() -> None:
    y = np.array([1.0, 2.0, np.nan, 4.0])
    outcome = group_rows(y, np.array([0, 0, 1, 1]), np.zeros(4, int), np.ones((1, 1)))
    with pytest.raises(UnfittableError, match="not finite"):
        fit_profile(outcome)


def test_one_block_has_no_random_intercept() -> None:
    outcome = group_rows(np.arange(6.0), np.zeros(6, int), np.zeros(6, int), np.ones((1, 1)))
    with pytest.raises(UnfittableError, match="only one block"):
        fit_profile(outcome)


def test_one_observation_a_block_cannot_tell_the_variances_apart() -> None:
    outcome = group_rows(np.arange(6.0), np.arange(6), np.zeros(6, int), np.ones((1, 1)))
    with pytest.raises(UnfittableError, match="leave no residual"):
        fit_profile(outcome)


def test_effects_without_their_own_groups_are_singular() -> None:
    coding = np.array([[1.0, 1.0], [1.0, 1.0]])
    y = np.arange(12.0) % 5
    outcome = group_rows(y, np.repeat([0, 1, 2], 4), np.tile([0, 0, 1, 1], 3), coding)
    with pytest.raises(UnfittableError, match="tell all fixed effects apart"):
        fit_profile(outcome)


def test_effects_equal_to_the_blocks_are_singular() -> None:
    y = np.arange(8.0) % 3
    outcome = group_rows(y, np.repeat([0, 1], 4), np.repeat([0, 1], 4), np.array([[1, 0], [1, 1]]))
    with pytest.raises(UnfittableError, match="no difference between blocks"):
        fit_profile(outcome)


def test_too_few_observations_for_the_effects_are_refused() -> None:
    _, coding = code_full_factorial(RACE_GENDER)
    outcome = group_rows(
        np.arange(6.0), np.array([0, 0, 0, 1, 1, 1]), np.arange(6), np.asarray(coding)
    )
    with pytest.raises(UnfittableError, match="too few"):
        fit_profile(outcome)


def test_blocks_that_explain_everything_leave_no_fit() -> None:
    y = np.repeat([1.0, 2.0, 4.0], 5)
    outcome = group_rows(y, np.repeat([0, 1, 2], 5), np.zeros(15, int), np.ones((1, 1)))
    with pytest.raises(UnfittableError, match="no variance within blocks"):
        fit_profile(outcome)
