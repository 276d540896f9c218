"""Weights of contrasts against the inverse of the design matrix, patsy's sums and definitions."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from llm_variability.fits.coding import code_full_factorial, list_groups
from llm_variability.fits.contrasts import list_contrasts
from llm_variability.tables import Factor

RACE = Factor("race", ("White", "African", "Asian"), "White")
GENDER = Factor("gender", ("woman", "man"), "man")
AGE = Factor("age", ("old", "middle", "young"), "middle")


def weights_of(factors, coding):
    return {each.term: each.weights for each in list_contrasts(factors) if each.coding == coding}


@pytest.mark.parametrize("factors", [[RACE], [RACE, GENDER], [GENDER, RACE, AGE]])
def test_treatment_contrasts_are_the_coefficients_of_the_published_coding(factors) -> None:
    terms, coding = code_full_factorial(factors)
    weights = weights_of(factors, "treatment")
    assert list(weights) == terms
    np.testing.assert_allclose(np.array(list(weights.values())), np.linalg.inv(coding), atol=1e-12)


def test_marginal_contrasts_are_differences_of_averages_over_the_other_factors() -> None:
    groups = pd.DataFrame(list_groups([RACE, GENDER, AGE]), columns=["race", "gender", "age"])
    groups["y"] = np.random.default_rng(1).normal(size=len(groups))
    weights = weights_of([RACE, GENDER, AGE], "marginal")
    assert list(weights) == [
        "race[African]",
        "race[Asian]",
        "gender[woman]",
        "age[old]",
        "age[young]",
    ]
    for name, reference in (("race", "White"), ("gender", "man"), ("age", "middle")):
        means = groups.groupby(name)["y"].mean()
        for level in set(means.index) - {reference}:
            expected = means[level] - means[reference]
            assert weights[f"{name}[{level}]"] @ groups["y"] == pytest.approx(expected)


def test_marginal_contrasts_are_twice_the_coefficients_of_sum_coding_at_two_levels() -> None:
    """statsmodels, independent coding: with two levels a main effect is twice its coefficient."""
    two = Factor("race", ("African", "White"), "White")
    frame = pd.DataFrame(list_groups([two, GENDER]), columns=["race", "gender"])
    frame["y"] = [0.3, 0.9, -0.2, 0.5]
    fit = smf.ols("y ~ C(race, Sum) * C(gender, Sum, levels=['woman', 'man'])", frame).fit()
    marginal = weights_of([two, GENDER], "marginal")
    assert marginal["race[African]"] @ frame["y"] == pytest.approx(2 * fit.params.iloc[1])
    assert marginal["gender[woman]"] @ frame["y"] == pytest.approx(2 * fit.params.iloc[2])
    crossed = weights_of([two, GENDER], "interaction")
    assert crossed["race[African]:gender[woman]"] @ frame["y"] == pytest.approx(
        4 * fit.params.iloc[3]
    )


def test_interactions_of_two_factors_are_those_of_the_published_coding() -> None:
    crossed, published = (
        weights_of([RACE, GENDER], coding) for coding in ("interaction", "treatment")
    )
    assert list(crossed) == [term for term in published if ":" in term]
    for term, weights in crossed.items():
        np.testing.assert_allclose(weights, published[term], atol=1e-12)


def test_single_factor_has_the_same_contrasts_in_both_codings_and_no_interaction() -> None:
    published, marginal = weights_of([RACE], "treatment"), weights_of([RACE], "marginal")
    assert list(marginal) == ["race[African]", "race[Asian]"]
    for term, weights in marginal.items():
        np.testing.assert_array_equal(weights, published[term])
    assert weights_of([RACE], "interaction") == {}


def test_reference_outside_the_levels_is_refused() -> None:
    with pytest.raises(ValueError, match="race: the reference 'Blue'"):
        list_contrasts([Factor("race", ("African", "White"), "Blue")])
