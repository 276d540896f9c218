"""p values of a study's comparisons of personas, adjusted for the tests of their families."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from llm_variability.fits.multiplicity import adjust_within
from llm_variability.table_contract import Table
from llm_variability.tables_personas import LEAKAGE, PERSONA_MEANS, SEPARATION

SEPARATION_FAMILY = ["study", "measure", "variant", "factor", "kind"]
"""Columns whose values never share a family of contrasts. `kind` is overall, task, level, pair."""

MEANS_FAMILY = ["study", "model", "temperature", "top_p", "of"]
"""The same of features: `of` is programs or prompts."""

LEAKAGE_FAMILY = ["study", "features"]
"""The same of the classifier."""

LEVEL = 0.05
"""What an adjusted p value has to be below."""

_KIND = (
    pl.when(pl.col("second").is_not_null())
    .then(pl.lit("pair"))
    .when(pl.col("first").is_not_null())
    .then(pl.lit("level"))
    .when(pl.col("task").is_not_null())
    .then(pl.lit("task"))
    .otherwise(pl.lit("overall"))
)


_OF = pl.when(pl.col("model").is_null()).then(pl.lit("prompts")).otherwise(pl.lit("programs"))

_FAMILY_NAMES = {
    SEPARATION.name: pl.format(
        "{} of {}s, {}",
        _KIND.replace_strict(
            {"overall": "all levels", "task": "tasks", "level": "levels", "pair": "pairs"}
        ),
        pl.col("factor"),
        pl.col("measure"),
    ),
    PERSONA_MEANS.name: pl.format("features of {}", _OF),
    LEAKAGE.name: pl.format("guesses from {}", pl.col("features")),
}
"""What a family of a table's tests is called, whatever the model and setting."""

PROMPT_FEATURES = "features of prompts"
"""The family of tests that programs have no part in."""


class Unreachable(NamedTuple):
    """A family with too many tests for its permutations.

    family: as in `pairs of personas, tsed`. tests: its p values. smallest: the smallest p value
    that there can be. adjusted: the same by Holm. needed: permutations that are enough.
    """

    family: str
    tests: int
    smallest: float
    adjusted: float
    needed: int


def list_families(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """List the families of a table's tests with their numbers of tests, the largest first.

    table: SEPARATION, PERSONA_MEANS or LEAKAGE. rows: of it, adjusted. Returns `family`, each name
    once, and `family_size`.
    """
    return (
        rows.drop_nulls("family_size")
        .group_by(family=_FAMILY_NAMES[table.name], maintain_order=True)
        .agg(pl.col("family_size").max())
        .sort("family_size", descending=True, maintain_order=True)
    )


def find_unreachable(table: Table, rows: pl.DataFrame, permutations: int) -> list[Unreachable]:
    """Find the families in which no p value by Holm can be below 5%, whatever the data.

    A p value by permutation is no smaller than 1 / (1 + permutations), and the smallest of m is
    adjusted to m times that. Where all labellings were tried they are fewer, and p is larger still.
    table: SEPARATION, PERSONA_MEANS or LEAKAGE. rows: of it, adjusted. permutations: those that
    its p values were asked of. Returns the largest first, those of the same name once.
    """
    tests = list_families(table, rows).filter(
        pl.col("family_size") * (1 / LEVEL) >= 1 + permutations
    )
    smallest = 1 / (1 + permutations)
    return [
        Unreachable(family, size, smallest, min(1.0, size * smallest), round(size / LEVEL))
        for family, size in tests.rows()
    ]


def adjust_separation(separation: pl.DataFrame) -> pl.DataFrame:
    """Adjust the p values of contrasts by Holm and by Benjamini and Hochberg.

    A family is all contrasts of one kind of one factor on one measure: of all models and settings.
    separation: rows of a SEPARATION table without the adjusted columns.
    """
    rows = separation.with_columns(kind=_KIND)
    return adjust_within(rows, pl.lit(True), SEPARATION_FAMILY).drop("kind")


def adjust_means(means: pl.DataFrame) -> pl.DataFrame:
    """Adjust the p values of features; each has one, in the rows of all personas that it compares.

    A persona that is not compared, as it has no prompt with a value, has none adjusted either.
    A family is all features of the programs of one model and setting, or all of the prompts: a p
    value by permutation cannot be so small that it stands in a family of hundreds of settings.
    means: rows of a PERSONA_MEANS table without the adjusted columns.
    """
    feature = ["study", "model", "temperature", "top_p", "feature"]
    tests = means.select(*feature, "p_value").drop_nulls("p_value").unique(maintain_order=True)
    adjusted = adjust_within(tests.with_columns(of=_OF), pl.lit(True), MEANS_FAMILY)
    return means.join(
        adjusted.drop("of"),
        on=[*feature, "p_value"],
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
