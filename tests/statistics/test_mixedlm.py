"""The statsmodels backend: its expanded data, and its agreement with the profile."""

import numpy as np
import pytest

from llm_variability.fits import mixedlm
from llm_variability.fits.coding import code_full_factorial
from llm_variability.fits.mixedlm import expand_groups, fit_mixedlm
from llm_variability.fits.profile import fit_profile
from llm_variability.fits.random_intercept import GroupedOutcome, UnfittableError
from llm_variability.tables import Factor

FACTORS = (
    Factor("race", ("White", "African", "Asian"), "White"),
    Factor("gender", ("man", "woman"), "man"),
)


def make_outcome(seed: int, block_sd: float, n_blocks: int = 6) -> GroupedOutcome:
    rng = np.random.default_rng(seed)
    _, coding = code_full_factorial(FACTORS)
    block = np.repeat(np.arange(n_blocks), len(coding))
    rows = np.tile(coding, (n_blocks, 1))
    count = rng.integers(1, 12, size=len(block))
    mean = rows @ rng.normal(size=6) + block_sd * rng.normal(size=n_blocks)[block]
    mean += rng.normal(size=len(block)) / np.sqrt(count)
    within = np.where(count > 1, rng.chisquare(np.maximum(count - 1, 1)), 0.0)
    return GroupedOutcome(block, rows, count, mean, within)


def test_expanded_data_have_the_groups_counts_means_and_sums_of_squares() -> None:
    outcome = make_outcome(1, 1.0)
    observed, coding, block = expand_groups(outcome)
    stop = np.cumsum(outcome.count)
    for i, (end, n) in enumerate(zip(stop, outcome.count, strict=True)):
        values = observed[end - n : end]
        assert values.mean() == pytest.approx(outcome.mean[i], abs=1e-12)
        assert ((values - values.mean()) ** 2).sum() == pytest.approx(outcome.within_ss[i])
        assert (coding[end - n : end] == outcome.coding[i]).all()
        assert (block[end - n : end] == outcome.block[i]).all()
    assert len(observed) == stop[-1]


def test_single_observation_with_a_spread_is_refused() -> None:
    ones = np.ones(2, dtype=int)
    outcome = GroupedOutcome(np.arange(2), np.ones((2, 1)), ones, np.zeros(2), np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="no sum of squares"):
        expand_groups(outcome)


@pytest.mark.parametrize("block_sd", [0.5, 1.0, 20.0])
def test_statsmodels_and_the_profile_give_the_same_fit(block_sd: float) -> None:
    outcome = make_outcome(2, block_sd)
    ours, theirs = fit_profile(outcome), fit_mixedlm(outcome)
    assert theirs.converged
    np.testing.assert_allclose(ours.estimate, theirs.estimate, atol=1e-6)
    np.testing.assert_allclose(ours.std_error, theirs.std_error, rtol=1e-4)
    assert ours.var_block == pytest.approx(theirs.var_block, rel=1e-4)
    assert ours.var_residual == pytest.approx(theirs.var_residual, rel=1e-4)


def test_statsmodels_and_the_profile_agree_at_the_boundary() -> None:
    outcome = make_outcome(2, 0.0)
    ours, theirs = fit_profile(outcome), fit_mixedlm(outcome)
    assert ours.var_block == 0
    assert theirs.converged
    assert theirs.var_block == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(ours.estimate, theirs.estimate, atol=1e-6)


def test_optimiser_that_stops_elsewhere_has_not_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    real = mixedlm.MixedLM

    class Stalled(real):
        def fit(self, **options: object) -> object:
            return super().fit(**{**options, "method": "powell", "maxiter": 0, "ftol": 1e9})

    monkeypatch.setattr(mixedlm, "MixedLM", Stalled)
    outcome = make_outcome(2, 20.0)
    assert not fit_mixedlm(outcome).converged


def test_singular_matrix_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def singular(*_: object) -> None:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(mixedlm, "MixedLM", singular)
    with pytest.raises(UnfittableError, match="singular"):
        fit_mixedlm(make_outcome(2, 1.0))
