"""Cosine sums: against brute force, by the centroid identity, and without a text."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.similarity.cosine import sum_cosines, summarise_similarity


def unit_rows(count: int, width: int = 16, seed: int = 3) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, width)) + 0.3
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def pair_cosines(rows: np.ndarray) -> np.ndarray:
    """Every unordered pair's cosine, one by one."""
    return np.array(
        [
            float(np.dot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other)))
            for one, other in itertools.combinations(rows, 2)
        ]
    )


counts = st.integers(2, 30)
seeds = st.integers(0, 2**32 - 1)


@given(counts, seeds)
def test_half_the_sums_are_the_sum_over_all_pairs(count: int, seed: int) -> None:
    rows = unit_rows(count, seed=seed)
    assert sum_cosines(rows)[0].sum() / 2 == pytest.approx(pair_cosines(rows).sum(), abs=1e-9)


@given(counts, seeds)
def test_half_the_squares_are_the_sum_of_squares_over_all_pairs(count: int, seed: int) -> None:
    rows = unit_rows(count, seed=seed)
    expected = (pair_cosines(rows) ** 2).sum()
    assert sum_cosines(rows)[1].sum() / 2 == pytest.approx(expected, abs=1e-9)


def test_each_text_has_the_sums_over_its_own_mates() -> None:
    rows = unit_rows(7)
    sums, squares = sum_cosines(rows)
    for i in range(7):
        mates = np.array([rows[i] @ rows[j] for j in range(7) if j != i])
        assert sums[i] == pytest.approx(mates.sum(), abs=1e-12)
        assert squares[i] == pytest.approx((mates**2).sum(), abs=1e-12)


@given(counts, seeds)
def test_the_mean_cosine_follows_from_the_centroid(count: int, seed: int) -> None:
    rows = unit_rows(count, seed=seed)
    centroid = rows.mean(axis=0)
    total = count**2 * centroid @ centroid - count  # n(n-1) m = n^2 |mean|^2 - n
    assert sum_cosines(rows)[0].sum() == pytest.approx(total, abs=1e-9)


@given(st.integers(3, 20), seeds, st.data())
def test_taking_a_text_off_equals_leaving_it_out(
    count: int, seed: int, data: st.DataObject
) -> None:
    rows = unit_rows(count, seed=seed)
    gone = data.draw(st.integers(0, count - 1))
    sums, squares = sum_cosines(rows)
    left = pair_cosines(np.delete(rows, gone, axis=0))
    assert sums.sum() / 2 - sums[gone] == pytest.approx(left.sum(), abs=1e-9)
    assert squares.sum() / 2 - squares[gone] == pytest.approx((left**2).sum(), abs=1e-9)


@given(st.integers(2, 12), seeds, st.data())
def test_the_order_of_texts_does_not_matter(count: int, seed: int, data: st.DataObject) -> None:
    rows = unit_rows(count, seed=seed)
    order = data.draw(st.permutations(range(count)))
    assert np.allclose(sum_cosines(rows[order])[0], sum_cosines(rows)[0][order], atol=1e-12)


def test_identical_texts_have_cosine_one() -> None:
    sums, squares = sum_cosines(np.repeat(unit_rows(1), 5, axis=0))
    assert np.allclose(sums, 4, atol=1e-12)
    assert np.allclose(squares, 4, atol=1e-12)


def test_opposite_texts_have_cosine_minus_one() -> None:
    row = unit_rows(1)
    sums, squares = sum_cosines(np.concatenate([row, -row]))
    assert np.allclose(sums, -1)
    assert np.allclose(squares, 1)


def test_orthogonal_texts_have_cosine_zero() -> None:
    sums, squares = sum_cosines(np.eye(4))
    assert np.array_equal(sums, np.zeros(4))
    assert np.array_equal(squares, np.zeros(4))


def test_a_text_alone_has_no_cosines() -> None:
    assert [part.tolist() for part in sum_cosines(unit_rows(1))] == [[0.0], [0.0]]


def test_no_texts_have_no_cosines() -> None:
    assert [part.tolist() for part in sum_cosines(np.zeros((0, 8)))] == [[], []]


def test_single_precision_vectors_are_summed_in_double() -> None:
    rows = unit_rows(400, 384).astype(np.float32)
    exact = rows.astype(np.float64)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    centroid = exact.mean(axis=0)
    expected = 400**2 * centroid @ centroid - 400
    assert sum_cosines(rows)[0].sum() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("length", [0.0, 0.99, 1.01, np.nan, np.inf])
def test_rows_that_are_not_of_unit_length_are_refused(length: float) -> None:
    rows = unit_rows(3)
    rows[1] *= length
    with pytest.raises(ValueError, match="not of unit length"), np.errstate(invalid="ignore"):
        sum_cosines(rows)


# -------------------------------------------------------------------------- groups of a cell


def cell(groups: list[tuple[str, str]]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "format": [group[0] for group in groups],
            "race": [group[1] for group in groups],
            "prompt_id": [f"p{group}" for group in groups],
            "replicate": list(range(len(groups))),
            "text_hash": [f"h{number}" for number in range(len(groups))],
        }
    )


GROUPS = [("f", "A"), ("f", "B"), ("f", "A"), ("g", "A"), ("f", "B"), ("f", "A"), ("g", "B")]


def summary_of(groups: list[tuple[str, str]], vectors: np.ndarray) -> pl.DataFrame:
    rows_of = {f"h{number}": number for number in range(len(groups))}
    return summarise_similarity(cell(groups), vectors, rows_of, ["format", "race"])


def test_texts_are_compared_inside_their_group_alone() -> None:
    vectors = unit_rows(len(GROUPS))
    sums = summary_of(GROUPS, vectors)["cosine_sum"]
    for i, group in enumerate(GROUPS):
        mates = [j for j, other in enumerate(GROUPS) if other == group and j != i]
        assert sums[i] == pytest.approx(sum(vectors[i] @ vectors[j] for j in mates), abs=1e-12)


def test_mates_are_the_other_texts_of_the_group() -> None:
    assert summary_of(GROUPS, unit_rows(7))["n_mates"].to_list() == [2, 1, 2, 0, 1, 2, 0]


def test_a_text_alone_in_its_group_has_zero_mates_and_sums() -> None:
    alone = summary_of(GROUPS, unit_rows(7)).filter(pl.col("n_mates") == 0)
    assert alone["cosine_sum"].to_list() == [0.0, 0.0]


def test_rows_stay_in_the_order_of_the_draws() -> None:
    assert summary_of(GROUPS, unit_rows(7))["replicate"].to_list() == list(range(7))


def test_draws_with_the_same_text_are_mates_of_each_other() -> None:
    draws = cell([("f", "A")] * 3).with_columns(text_hash=pl.lit("h0"))
    summary = summarise_similarity(draws, unit_rows(1), {"h0": 0}, ["format", "race"])
    assert summary["cosine_sum"].to_list() == pytest.approx([2.0, 2.0, 2.0])


def test_a_cell_without_measured_texts_gives_an_empty_table() -> None:
    empty = cell(GROUPS).clear()
    assert len(summarise_similarity(empty, np.zeros((0, 4)), {}, ["format", "race"])) == 0
