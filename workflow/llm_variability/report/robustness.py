"""Other analyses of the same draws: texts of equal length, whole texts, permutations, diversity."""

from __future__ import annotations

import polars as pl

from llm_variability.report.comparisons import list_estimates, usable_fits
from llm_variability.tables import Design

SENSITIVITY = ("length", "untruncated", "permutation")
"""Analyses that test the same contrasts of the mean cosine again."""

_SAME = ["measure", "level", "scope", "model", "coding", "term", "temperature", "top_p"]
_MAIN = ["estimate", "p_value", "p_holm", "p_bh"]


def set_beside_main(adjusted: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Give every estimate of a sensitivity analysis with the main one of the same contrast.

    adjusted: rows of an ADJUSTED table of one study, all analyses. Returns analysis, then what
    `list_estimates` gives, mc_error, and main_estimate, main_p_value, main_p_holm, main_p_bh (null
    where the main analysis has no such contrast).
    """
    main = usable_fits(adjusted.filter(pl.col("analysis") == "main"), design).select(
        *_SAME, *(pl.col(name).alias(f"main_{name}") for name in _MAIN)
    )
    beside = adjusted.filter(pl.col("analysis").is_in(SENSITIVITY)).join(
        main, on=_SAME, how="left", nulls_equal=True, maintain_order="left"
    )
    return list_estimates(
        beside, design, "analysis", "mc_error", *(f"main_{name}" for name in _MAIN)
    ).drop("stars")


def list_diversity(adjusted: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Give every estimate of a measure of diversity, in the measure's own units.

    adjusted: rows of an ADJUSTED table of one study, all analyses. Returns measure, then what
    `list_estimates` gives.
    """
    rows = list_estimates(adjusted.filter(pl.col("analysis") == "diversity"), design)
    return rows.rename({"encoder": "measure"}).drop("stars")


def average_diversity(values: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Average each group's values over the blocks, each with the same weight.

    values: a DIVERSITY table. Returns temperature, top_p, measure, the factors, value, blocks
    (those with a value) and texts (in the block with fewest).
    """
    groups = [factor.name for factor in design.factors]
    return values.group_by(["temperature", "top_p", "measure", *groups], maintain_order=True).agg(
        pl.col("value").mean(),
        pl.col("value").count().cast(pl.Int64).alias("blocks"),
        pl.col("n_texts").min().cast(pl.Int64).alias("texts"),
    )
