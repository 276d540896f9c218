"""Design columns against patsy."""

import numpy as np
import pandas as pd
import pytest
from patsy import dmatrix

from llm_variability.fits.coding import code_full_factorial, list_groups
from llm_variability.tables import Factor

RACE = Factor("race", ("African", "Asian", "White"), "White")
GENDER = Factor("gender", ("man", "woman"), "man")
AGE = Factor("age", ("old", "middle", "young"), "middle")


@pytest.mark.parametrize(
    "factors",
    [[RACE], [RACE, GENDER], [GENDER, RACE], [RACE, GENDER, AGE]],
    ids=lambda factors: " * ".join(factor.name for factor in factors),
)
def test_columns_are_those_of_patsy(factors: list[Factor]) -> None:
    groups = pd.DataFrame(list_groups(factors), columns=[factor.name for factor in factors])
    formula = " * ".join(
        f"C({each.name}, Treatment({each.reference!r}), levels={list(each.levels)})"
        for each in factors
    )
    expected = dmatrix(formula, groups, return_type="dataframe")
    terms, coding = code_full_factorial(factors)
    by_name = {}
    for name, column in expected.items():
        for each in factors:
            head = f"C({each.name}, Treatment({each.reference!r}), levels={list(each.levels)})[T."
            name = name.replace(head, f"{each.name}[")
        by_name[name] = column.to_numpy()

    assert set(terms) == set(by_name)
    for term, column in zip(terms, coding.T, strict=True):
        np.testing.assert_array_equal(column, by_name[term])


def test_terms_come_by_order_of_interaction_and_then_as_in_the_design() -> None:
    terms, _ = code_full_factorial([RACE, GENDER])
    assert terms == [
        "Intercept",
        "race[African]",
        "race[Asian]",
        "gender[woman]",
        "race[African]:gender[woman]",
        "race[Asian]:gender[woman]",
    ]


def test_reference_outside_the_levels_is_refused() -> None:
    with pytest.raises(ValueError, match="race: the reference 'Blue'"):
        code_full_factorial([Factor("race", ("African", "White"), "Blue")])
