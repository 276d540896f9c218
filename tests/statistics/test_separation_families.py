"""Families of tests of personas: which of them no number of findings can make significant."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.separation.families import (
    Unreachable,
    adjust_leakage,
    adjust_means,
    adjust_separation,
    find_unreachable,
)
from llm_variability.table_contract import Table
from llm_variability.tables_personas import LEAKAGE, PERSONA_MEANS, SEPARATION


def rows_of(table: Table, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Make rows of a table that is not adjusted yet."""
    adjusted = ("p_holm", "p_bh", "family_size")
    schema = {name: each.dtype for name, each in table.columns.items() if name not in adjusted}
    return pl.DataFrame([{"study": "s", **row} for row in rows], schema=schema)


def guesses(tests: int, p_value: float) -> pl.DataFrame:
    """Make rows of as many settings, guessed from syntax."""
    rows = [
        {"model": "m", "temperature": str(i), "features": "syntax", "p_value": p_value}
        for i in range(tests)
    ]
    return adjust_leakage(rows_of(LEAKAGE, rows))


@given(st.integers(1, 60), st.integers(1, 1300))
def test_a_family_is_told_if_the_smallest_possible_p_values_are_not_below_5_percent(
    tests: int, permutations: int
) -> None:
    best = guesses(tests, 1 / (1 + permutations))
    found = find_unreachable(LEAKAGE, best, permutations)
    # Holm's first step, by hand: m times the smallest, here of integers alone.
    assert bool(found) == (20 * tests >= permutations + 1)
    if best["p_holm"].min() != pytest.approx(0.05):  # not where rounding decides
        assert bool(found) == (best["p_holm"] >= 0.05).all()
    for each in found:
        assert (each.tests, each.smallest) == (tests, 1 / (1 + permutations))
        assert each.adjusted == pytest.approx(best["p_holm"][0])
        assert not find_unreachable(LEAKAGE, best, each.needed)
        assert find_unreachable(LEAKAGE, best, each.needed - 1)


def test_families_have_names_and_come_largest_first() -> None:
    head = {"model": "m", "temperature": "0", "measure": "tsed", "variant": "iterations"}
    contrasts: list[dict[str, Any]] = [
        {"factor": "persona"},
        *({"factor": "persona", "task": task} for task in "ab"),
        *({"factor": "role", "first": role} for role in "abc"),
        *({"factor": "role", "first": a, "second": b} for a, b in ("ab", "ac", "ad", "bc")),
    ]
    rows = [head | contrast | {"p_value": 0.5} for contrast in contrasts]
    separation = adjust_separation(rows_of(SEPARATION, [*rows, head | {"factor": "gender"}]))
    assert find_unreachable(SEPARATION, separation, 9) == [
        Unreachable("pairs of roles, tsed", 4, 0.1, 0.4, 80),
        Unreachable("levels of roles, tsed", 3, 0.1, 3 * 0.1, 60),
        Unreachable("tasks of personas, tsed", 2, 0.1, 0.2, 40),
        Unreachable("all levels of personas, tsed", 1, 0.1, 0.1, 20),
    ]
    assert len(find_unreachable(SEPARATION, separation, 60)) == 1
    assert find_unreachable(SEPARATION, separation, 80) == []


def test_families_of_features_are_told_once_for_all_models_and_settings() -> None:
    features = [
        {"model": model, "temperature": t, "feature": name, "persona": persona, "p_value": 0.5}
        for model, t in (("m", "0"), ("m", "1.0"), ("n", "0"))
        for name in ("lines", "loops", "tests")[: 3 if t == "0" else 2]
        for persona in "ab"
    ]
    prompts = [{"feature": "words", "persona": persona, "p_value": 0.5} for persona in "ab"]
    means = adjust_means(rows_of(PERSONA_MEANS, [*prompts, *features]))
    found = find_unreachable(PERSONA_MEANS, means, 9)
    assert [each[:2] for each in found] == [("features of programs", 3), ("features of prompts", 1)]
    assert find_unreachable(PERSONA_MEANS, means.clear(), 9) == []


def test_a_persona_that_is_not_compared_has_no_p_value_but_the_others_have() -> None:
    rows = [
        {"model": "m", "temperature": "0", "feature": name, "persona": persona, "p_value": p}
        for name, values in (("lines", (0.01, None, 0.01)), ("loops", (0.04, 0.04, 0.04)))
        for persona, p in zip("abc", values, strict=True)
    ] + [
        {"model": "m", "temperature": "0", "feature": "tests", "persona": persona}
        for persona in "abc"
    ]
    means = adjust_means(rows_of(PERSONA_MEANS, rows))
    # Holm of 0.01 and 0.04: twice the first, and the second.
    assert means["p_holm"].to_list() == [0.02, None, 0.02, *[0.04] * 3, *[None] * 3]
    assert means["family_size"].to_list() == [2, None, 2, *[2] * 3, *[None] * 3]
