"""Cosines of the listed pairs of a model's programs."""

from __future__ import annotations

import logging

import numpy as np
import polars as pl

from llm_variability.config import ConfigError
from llm_variability.similarity.embedding import hash_text, stack_vectors

log = logging.getLogger(__name__)

_AT_ONCE = 2**14
"""Pairs whose vectors are held at once."""


def score_cosines(
    programs: pl.DataFrame, pairs: pl.DataFrame, embeddings: pl.DataFrame
) -> np.ndarray:
    """Give the cosine of each pair of programs, in double precision.

    programs: a programs table. pairs: as `pairs.list_pairs` gives them. embeddings: an embeddings
    table with the programs' texts; how many of them the encoder did not see whole is logged.
    Returns (m,), in [-1, 1]; 1 for equal programs.
    Raises ConfigError for a program without a vector.
    """
    rows, places = np.unique(
        pairs.select("reference", "draw").to_numpy().astype(np.int64), return_inverse=True
    )
    hashes = [hash_text(code) for code in programs["code"].gather(rows)]
    found = pl.DataFrame({"text_hash": hashes}, schema={"text_hash": pl.String}).join(
        embeddings.select("text_hash", "over_long").with_row_index("row"),
        on="text_hash",
        how="left",
        maintain_order="left",
    )
    if found["row"].null_count():
        raise ConfigError(
            f"embeddings: {found['row'].null_count()} of {len(found)} programs have no vector;"
            " programs and embeddings are not of one run"
        )
    log.info("%d of %d programs are longer than the encoder's limit", *_count_cut(found))
    vectors = stack_vectors(embeddings)
    drawn = found["row"].to_numpy().astype(np.int64)[places.reshape(-1, 2)]
    parts = [
        _pair_cosines(vectors, drawn[start : start + _AT_ONCE])
        for start in range(0, len(drawn), _AT_ONCE)
    ]
    return np.concatenate([np.zeros(0), *parts])


def _count_cut(found: pl.DataFrame) -> tuple[int, int]:
    return int(found["over_long"].sum()), len(found)


def _pair_cosines(vectors: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Give the cosines of pairs of rows; exactly 1 for a row and itself."""
    first, second = (vectors[pairs[:, side]].astype(np.float64) for side in (0, 1))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines = np.einsum("ij,ij->i", first, second) / lengths
    return np.where(pairs[:, 0] == pairs[:, 1], 1.0, np.clip(cosines, -1.0, 1.0))
