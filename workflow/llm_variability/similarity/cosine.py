"""Pairwise cosines inside groups of texts, without a row a pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

_UNIT_TOLERANCE = 1e-3


def sum_cosines(embeddings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum each text's cosines, and their squares, to all other texts of its group.

    embeddings: (n, d), rows of unit length; computed in double precision.
    Returns two arrays of length n. Half their totals are the sum and the sum of squares over the
    n (n - 1) / 2 unordered pairs of Lee et al. 2024; deleting text i from a group takes exactly
    row i off those totals.
    Raises ValueError for rows that are not of unit length within 1e-3.
    """
    rows = np.asarray(embeddings, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.all(np.abs(lengths - 1) <= _UNIT_TOLERANCE):  # so written, NaN is refused too
        raise ValueError("the embeddings are not of unit length")
    rows = rows / lengths
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, 0.0)
    return cosines.sum(axis=1), np.einsum("ij,ij->i", cosines, cosines)


def summarise_similarity(
    draws: pl.DataFrame,
    embeddings: np.ndarray,
    rows_of: dict[str, int],
    group: Sequence[str],
    carried: Sequence[str] = (),
) -> pl.DataFrame:
    """Give each text of one cell its number of mates and its cosine sums.

    draws: one cell's draws with `text_hash`, the measured ones only. embeddings: (m, d), a row a
    distinct text; rows_of: from text hash to row. group: columns whose values texts must share to
    be compared; carried: columns to hand on as they are. Returns the similarity table without the
    setting's columns, in the order of draws.
    """
    counts = np.zeros(len(draws), dtype=np.int32)
    sums, squares = np.zeros(len(draws)), np.zeros(len(draws))
    vectors = embeddings[[rows_of[text_hash] for text_hash in draws["text_hash"]]]
    members = draws.with_row_index("row").group_by(*group, maintain_order=True).agg("row")
    for rows in members["row"].to_list():
        counts[rows] = len(rows) - 1
        sums[rows], squares[rows] = sum_cosines(vectors[rows])
    return draws.select(*group, *carried, "prompt_id", "replicate").with_columns(
        pl.Series("n_mates", counts),
        pl.Series("cosine_sum", sums),
        pl.Series("cosine_sum_squares", squares),
    )
