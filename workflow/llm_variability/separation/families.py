"""p values of a study's comparisons of personas, adjusted for the tests of their families."""

from __future__ import annotations

import polars as pl

from llm_variability.fits.multiplicity import adjust_within

SEPARATION_FAMILY = ["study", "measure", "variant", "factor", "kind"]
"""Columns whose values never share a family of contrasts. `kind` is overall, task, level, pair."""

MEANS_FAMILY = ["study", "model", "temperature", "top_p", "of"]
"""The same of features: `of` is programs or prompts."""

LEAKAGE_FAMILY = ["study", "features"]
"""The same of the classifier."""

_KIND = (
    pl.when(pl.col("second").is_not_null())
    .then(pl.lit("pair"))
    .when(pl.col("first").is_not_null())
    .then(pl.lit("level"))
    .when(pl.col("task").is_not_null())
    .then(pl.lit("task"))
    .otherwise(pl.lit("overall"))
)


def adjust_separation(separation: pl.DataFrame) -> pl.DataFrame:
    """Adjust the p values of contrasts by Holm and by Benjamini and Hochberg.

    A family is all contrasts of one kind of one factor on one measure: of all models and settings.
    separation: rows of a SEPARATION table without the adjusted columns.
    """
    rows = separation.with_columns(kind=_KIND)
    return adjust_within(rows, pl.lit(True), SEPARATION_FAMILY).drop("kind")


def adjust_means(means: pl.DataFrame) -> pl.DataFrame:
    """Adjust the p values of features; each feature has one, in the rows of all its personas.

    A family is all features of the programs of one model and setting, or all of the prompts: a p
    value by permutation cannot be so small that it stands in a family of hundreds of settings.
    means: rows of a PERSONA_MEANS table without the adjusted columns.
    """
    feature = ["study", "model", "temperature", "top_p", "feature"]
    tests = means.select(*feature, "p_value").unique(maintain_order=True)
    of = pl.when(pl.col("model").is_null()).then(pl.lit("prompts")).otherwise(pl.lit("programs"))
    adjusted = adjust_within(tests.with_columns(of=of), pl.lit(True), MEANS_FAMILY)
    return means.join(
        adjusted.drop("of", "p_value"),
        on=feature,
        how="left",
        nulls_equal=True,
        maintain_order="left",
        validate="m:1",
    )


def adjust_leakage(leakage: pl.DataFrame) -> pl.DataFrame:
    """Adjust the p values of the classifier.

    A family is all models and settings, seen by the same features.
    leakage: rows of a LEAKAGE table without the adjusted columns.
    """
    return adjust_within(leakage, pl.lit(True), LEAKAGE_FAMILY)
