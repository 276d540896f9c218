"""Labellings against plain enumeration, their p values against hand counts."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.separation.permutations import (
    count_labellings,
    draw_labellings,
    drawn_test,
    exact_test,
    list_labellings,
)

members = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=7)


def enumerate_within(labels: np.ndarray, cells: np.ndarray) -> set[tuple[int, ...]]:
    """All different labellings, by permuting everything and keeping what stays in its cell."""
    kept = set()
    for order in permutations(range(len(labels))):
        if (cells[list(order)] == cells).all():
            kept.add(tuple(int(label) for label in labels[list(order)]))
    return kept


def name_alike(row: tuple[int, ...], cells: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Name labels that are as frequent in a cell by where they stand first."""
    named = []
    for cell in np.unique(cells):
        labels = [label for label, where in zip(row, cells, strict=True) if where == cell]
        sizes = Counter(labels)
        first = {label: labels.index(label) for label in sizes}
        named.append(tuple((sizes[label], first[label]) for label in labels))
    return tuple(named)


@given(members)
def test_every_labelling_within_cells_is_listed_once(drawn: list[tuple[int, int]]) -> None:
    labels, cells = np.array(drawn).T
    listed = list_labellings(labels, cells)
    expected = enumerate_within(labels, cells)
    assert len(listed) == count_labellings(labels, cells) == len(expected)
    assert {tuple(row) for row in listed.tolist()} == expected


@given(members)
def test_labellings_that_differ_in_names_alone_are_listed_once(
    drawn: list[tuple[int, int]],
) -> None:
    labels, cells = np.array(drawn).T
    listed = list_labellings(labels, cells, alike=True)
    expected = {name_alike(row, cells) for row in enumerate_within(labels, cells)}
    assert len(listed) == count_labellings(labels, cells, alike=True) == len(expected)
    assert {name_alike(tuple(row), cells) for row in listed.tolist()} == expected


def test_four_pairs_can_be_named_in_2520_ways_and_paired_in_105() -> None:
    labels = np.repeat(np.arange(4), 2)
    cells = np.zeros(8, dtype=int)
    assert count_labellings(labels, cells) == 2520  # 8! / 2^4
    assert count_labellings(labels, cells, alike=True) == 105  # 7 x 5 x 3


def test_random_labellings_stay_in_their_cells_and_are_equally_probable() -> None:
    labels, cells = np.array([0, 0, 1, 1, 5, 6]), np.array([0, 0, 0, 0, 1, 1])
    drawn = draw_labellings(labels, cells, 6000, np.random.default_rng(1))
    times = Counter(tuple(row) for row in drawn.tolist())
    assert set(times) == enumerate_within(labels, cells)
    # 12 labellings, 500 times each; five standard deviations of a binomial are 107.
    assert max(abs(n - 500) for n in times.values()) < 107


def test_an_exact_p_value_is_a_share_and_a_drawn_one_counts_the_observed_value() -> None:
    values = np.array([0.1, 0.2, 0.3, 0.3])
    assert exact_test(0.3, values) == (0.5, 0.0)
    p, error = drawn_test(0.3, values)
    assert p == pytest.approx(3 / 5)
    assert error == pytest.approx(np.sqrt(0.6 * 0.4 / 4))
    assert drawn_test(1.0, values).p_value == pytest.approx(1 / 5)


def test_values_that_differ_by_rounding_are_as_large() -> None:
    assert exact_test(0.1 + 0.2, np.array([0.3, 0.1])).p_value == 0.5
