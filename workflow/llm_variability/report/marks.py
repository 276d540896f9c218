"""Marks of estimates: the asterisk asked for, and standard errors that are small by luck."""

from __future__ import annotations

from typing import Any

import polars as pl

from llm_variability.report.comparisons import STARS
from llm_variability.report.contrasts import ASTERISKS, SIGNIFICANCE, SMALL_ERROR, STARRED
from llm_variability.report.level_tests import FORMATS_FIXED, FORMATS_RANDOM

SMALL = "‡"
"""Marks a standard error of `formats random` below that of `formats fixed`."""

SMALL_NOTE = (
    f"{SMALL}: a standard error of “in such formats” below that of “in these formats”. An SE from"
    " few formats can be small by luck: claim “in such formats” only where “in these formats”"
    " agrees."
)

_SAME = (
    "study",
    "analysis",
    "model",
    "encoder",
    "measure",
    "level",
    "coding",
    "term",
    "temperature",
    "top_p",
)


def mark_estimates(table: pl.DataFrame, asterisks: str = "unadjusted") -> pl.DataFrame:
    """Add `starred` and `small_error`, and set `stars`, where it is there, to the same p-values.

    table: with level, scope, coding, term, std_error and p-values. asterisks: one of `ASTERISKS`.
    small_error: formats random, with a standard error below that of formats fixed of the same
    contrast: the texts alone make the estimate vary by more than that.
    """
    keys = [name for name in _SAME if name in table.columns]
    of_texts = table.filter(pl.col("scope") == FORMATS_FIXED).select(
        *keys, pl.col("std_error").alias("error of texts")
    )
    column = ASTERISKS[asterisks][0]
    small = (pl.col("scope") == FORMATS_RANDOM) & (pl.col("std_error") < pl.col("error of texts"))
    marked = table.join(
        of_texts, on=keys, how="left", nulls_equal=True, maintain_order="left"
    ).with_columns(
        small.fill_null(value=False).alias(SMALL_ERROR),
        (pl.col(column) < SIGNIFICANCE).fill_null(value=False).alias(STARRED),
    )
    if "stars" in table.columns:
        counts = sum((pl.col(column) < bound).cast(pl.Int64) for bound in STARS)
        marked = marked.with_columns(
            pl.when(pl.col("stars").is_not_null()).then(counts).alias("stars")
        )
    return marked.drop("error of texts")


def count_small_errors(table: pl.DataFrame) -> tuple[int, int]:
    """Count the marked standard errors of a table, and all of formats random."""
    random = table.filter(pl.col("scope") == FORMATS_RANDOM, pl.col("std_error").is_not_null())
    return int(random[SMALL_ERROR].sum()), random.height


def is_starred(row: dict[str, Any]) -> bool:
    """Tell whether an estimate has an asterisk: as marked, or unadjusted in an unmarked table."""
    if STARRED in row:
        return bool(row[STARRED])
    return row["p_value"] is not None and row["p_value"] < SIGNIFICANCE


def small_mark(row: dict[str, Any]) -> str:
    """Give the mark of a standard error that is small by luck, or nothing."""
    return SMALL if row.get(SMALL_ERROR) else ""


def star_rows(stars: str, among: pl.Expr | None = None) -> pl.Expr:
    """Give an asterisk where the p-value is below 5%, else null.

    stars: one of `ASTERISKS`. among: rows that may have one; all by default.
    """
    small = pl.col(ASTERISKS[stars][0]) < SIGNIFICANCE
    return pl.when(small if among is None else small & among).then(pl.lit("*")).otherwise(None)
