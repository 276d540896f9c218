"""p values of a study's curves, adjusted for the number of tests in their families."""

from __future__ import annotations

import polars as pl

from llm_variability.fits.multiplicity import adjust_within

CONTRAST_FAMILY = ["study", "measure", "summary", "kind"]
"""Columns whose values never share a family of contrasts: other questions, or the same one asked of
another measure."""

FIT_FAMILY = ["study", "measure", "level", "random", "backend"]
"""The same for the mixed models' slopes."""

TESTED_TERM = "rate"


def adjust_contrasts(contrasts: pl.DataFrame) -> pl.DataFrame:
    """Adjust the p values of contrasts by Holm and by Benjamini and Hochberg.

    A family is all contrasts of one kind (model, method or set) of one summary on one measure: over
    all models, methods, sets and settings. Rows without a p value keep nulls.
    contrasts: rows of a CURVE_CONTRASTS table, with or without the adjusted columns.
    """
    return _adjust(contrasts, pl.lit(True), CONTRAST_FAMILY)


def adjust_slopes(fits: pl.DataFrame) -> pl.DataFrame:
    """Adjust the p values of the slopes of mixed models; an intercept asks nothing.

    A family is all slopes at one level with the same random effects on one measure.
    fits: rows of a CURVE_FITS table, with or without the adjusted columns.
    """
    return _adjust(fits, pl.col("term") == TESTED_TERM, FIT_FAMILY)


def _adjust(table: pl.DataFrame, asked: pl.Expr, family: list[str]) -> pl.DataFrame:
    bare = table.drop("p_holm", "p_bh", "family_size", strict=False)
    return adjust_within(bare, asked, family)
