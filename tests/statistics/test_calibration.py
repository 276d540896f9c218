"""The simulation study: its closed forms, its truth, and the rates of the tests that it chose."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from llm_variability.fits.coding import code_full_factorial
from llm_variability.fits.profile import fit_profile
from llm_variability.fits.random_intercept import GroupedOutcome, collapse_to_means

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/calibration.py"


@pytest.fixture(scope="module")
def calibration():
    spec = importlib.util.spec_from_file_location("calibration", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["calibration"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("level", ["pairwise", "cell"])
def test_closed_form_of_the_mixed_model_is_the_fit(calibration, level: str) -> None:
    study = calibration.Study("", "4 x 2 groups", 6, "formats random", slope=0.04)
    sample = calibration.draw_sample(study, 4, np.random.default_rng(1))
    _, coding = code_full_factorial(calibration.DESIGNS[study.design])
    closed = calibration.infer_mixed(sample, np.linalg.inv(coding)[1:], level)
    for i in range(4):
        outcome = GroupedOutcome(
            block=np.repeat(np.arange(13), 8),
            coding=np.tile(coding, (13, 1)),
            count=np.full(13 * 8, 15),
            mean=sample.means[i].ravel(),
            within_ss=sample.within_ss[i].ravel(),
        )
        fit = fit_profile(outcome if level == "pairwise" else collapse_to_means(outcome))
        np.testing.assert_allclose(closed.estimate[i], fit.estimate[1:], atol=1e-9)
        np.testing.assert_allclose(closed.std_error[i], fit.std_error[1:], rtol=1e-6)


@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_mean_cosines_are_those_of_the_stated_truth(calibration, shared: float) -> None:
    study = calibration.Study("", "2 groups", 10, "formats random", slope=0.04, shared=shared)
    sample = calibration.draw_sample(study, 2_000, np.random.default_rng(2))
    error = sample.means - sample.truth
    assert abs(error.mean()) < 4 * error.mean(axis=(1, 2)).std() / np.sqrt(2_000)


@pytest.mark.parametrize(
    ("scope", "test"),
    [("formats fixed", "text, formats fixed"), ("formats random", "text, formats random")],
)
def test_recommended_test_keeps_its_level_where_pairs_do_not(calibration, scope, test) -> None:
    """2,000 studies: 3 standard errors of a rate of 5% are 1.5 points."""
    study = calibration.Study("null", "2 groups", 30, scope, slope=0.04)
    found = {each.method: each for each in calibration.run_study(study, 2_000, 3)}
    assert found[test].rejected == pytest.approx(0.05, abs=0.015)
    assert found[test].covered == pytest.approx(0.95, abs=0.015)
    assert found["pairwise"].rejected > 0.5


def test_names_of_all_formats_need_their_covariance(calibration) -> None:
    study = calibration.Study("null", "names", 30, "formats fixed", slope=0.04, shared=0.5)
    found = {each.method: each for each in calibration.run_study(study, 1_000, 4)}
    assert found["text, formats fixed"].rejected == pytest.approx(0.05, abs=0.021)
    assert found["fixed, names as if new"].rejected > 0.3


def test_fixed_formats_have_more_power_than_cell_means_where_formats_interact(calibration) -> None:
    study = calibration.Study("", "2 groups", 50, "formats fixed", slope=0.02, effect=0.02)
    found = {each.method: each for each in calibration.run_study(study, 1_000, 5)}
    assert found["text, formats fixed"].rejected > 1.5 * found["cell"].rejected
    with pytest.raises(ValueError, match="a mean cosine is outside"):
        calibration.draw_truth(replace(study, slope=0.2), 100, np.random.default_rng(6))
