"""TSED: golden values of the published code, bounds, and the two variants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.code.edit_distance import Costs
from llm_variability.code.tsed import VARIANTS, compare_codes, scale_distances
from llm_variability.config import ConfigError

FIRST = "def f(x):\n    y = x + 1\n    return y\n"
SECOND = "def g(a, b):\n    for i in range(a):\n        print(i * b)\n"


def tsed(first: str, second: str, variant: str = "tsed", **options: object) -> float:
    pairs = np.array([[0, 1]])
    return float(compare_codes([first, second], pairs, "python", variant, **options)[0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("first", "second", "golden"), [(FIRST, SECOND, 7 / 15), (SECOND, FIRST, 0.4)]
)
def test_the_published_variant_gives_the_published_codes_values(
    first: str, second: str, golden: float
) -> None:
    assert tsed(first, second, "tsed-published") == pytest.approx(golden, abs=1e-12)
    # On this pair the published labels and the nodes' own types come to the same.
    published = VARIANTS["tsed-published"].costs
    assert tsed(first, second, "tsed", costs=published) == pytest.approx(golden, abs=1e-12)


@pytest.mark.parametrize(
    ("first", "second", "published", "own"),
    [("x = a + b\n", "x = a and b\n", 1.0, 6 / 7), ("x = 1\n", "x += 1\n", 1.0, 0.8)],
)
def test_nodes_own_types_tell_apart_what_published_labels_do_not(
    first: str, second: str, published: float, own: float
) -> None:
    assert tsed(first, second, "tsed-published") == published
    assert tsed(first, second) == pytest.approx(own, abs=1e-12)


def test_the_default_is_the_same_both_ways_round() -> None:
    assert tsed(FIRST, SECOND) == tsed(SECOND, FIRST)


def test_renaming_everything_changes_nothing() -> None:
    assert tsed(FIRST, FIRST.replace("x", "value").replace("y", "total")) == 1.0


@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_programs_score_one_and_two_empty_ones_too(variant: str) -> None:
    assert tsed(FIRST, FIRST, variant) == 1.0
    assert tsed("", "", variant) == 1.0


def test_an_empty_program_shares_only_its_root() -> None:
    assert tsed("", "x = 1\n") == pytest.approx(1 / 5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_similarities_stay_between_nothing_and_one(variant: str) -> None:
    codes = [
        FIRST,
        SECOND,
        "",
        "x = = 1",
        "class A:\n    pass\n" * 9,
        "((((((((1))))))))",
        "import a\n",
    ]
    pairs = np.array([(i, j) for i in range(len(codes)) for j in range(len(codes))])
    found = compare_codes(codes, pairs, "python", variant)
    assert np.all((found >= 0) & (found <= 1))


@given(st.floats(0, 50), st.integers(1, 40), st.integers(1, 40))
def test_scaling_follows_the_papers_formula(distance: float, first: int, second: int) -> None:
    found = scale_distances(np.array([distance]), np.array([[first, second]]))
    assert found[0] == pytest.approx(max(0.0, 1 - distance / max(first, second)))


def test_no_pairs_have_no_similarities() -> None:
    assert len(compare_codes([], np.zeros((0, 2)), "python")) == 0


def test_many_pairs_are_each_what_they_are_alone() -> None:
    codes = [FIRST, SECOND, FIRST, "x = 1\n"]
    pairs = np.array([(i, j) for i in range(4) for j in range(4)])
    together = compare_codes(codes, pairs, "python", "tsed-published")
    alone = [tsed(codes[i], codes[j], "tsed-published") for i, j in pairs]
    assert together.tolist() == alone


def test_costs_can_be_chosen() -> None:
    # One renaming of five nodes.
    assert tsed("x = 1\n", "x += 1\n", costs=Costs(1, 1, 0.5)) == pytest.approx(0.9)


def test_a_program_above_the_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"similarity\.max_nodes"):
        tsed("x = 1\n" * 10, "x = 1\n", max_nodes=30)
