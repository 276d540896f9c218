"""The columns of every CSV file that the report writes and reads back, as contracts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from llm_variability.table_contract import SETTING, STATUSES, Column, Table
from llm_variability.tables import ADJUSTED, ANALYSES

STUDY = {"study": Column(pl.String, "study")}
MODEL = {"model": Column(pl.String, "language model")}
_ENCODER = {"encoder": Column(pl.String, "encoder whose cosine is the outcome")}
_MEAN = "mean cosine of the pairs of texts of one block and group, blocks pooled; null: no pair"


def describe_status(status: str) -> Column:
    """Describe the count of the draws that have a status."""
    return Column(pl.Int64, f"draws of status {status}")


def as_csv(name: str, table: Table, *, with_study: bool = False) -> Table:
    """Describe the CSV file that holds all rows of a kind of Parquet table.

    with_study: the study is put before the table's own columns.
    """
    columns = {**STUDY, **table.columns} if with_study else table.columns
    return replace(table, name=name, columns=columns)


def list_types(tables: Mapping[str, Table]) -> dict[str, dict[str, Any]]:
    """Give the type of each column of each table."""
    return {
        name: {column: each.dtype for column, each in table.columns.items()}
        for name, table in tables.items()
    }


_FIT = {
    **STUDY,
    **_ENCODER,
    **{name: ADJUSTED.columns[name] for name in ("level", "scope", "coding")},
    **MODEL,
    "term": ADJUSTED.columns["term"],
    "contrast": Column(
        pl.String, "what the term compares, in words; null where nothing was estimated", True
    ),
}
_INTERACTION = {
    "interaction": Column(pl.Boolean, "the term is an interaction of factors", nullable=True)
}
_ESTIMATE = {
    **_INTERACTION,
    **SETTING,
    **{
        name: ADJUSTED.columns[name]
        for name in (
            "estimate",
            "std_error",
            "ci_low",
            "ci_high",
            "simultaneous_low",
            "simultaneous_high",
            "p_value",
            "p_holm",
            "p_bh",
            "family_size",
        )
    },
    "reason": Column(pl.String, "why the numbers are missing, if they are", nullable=True),
}
_SETTINGS = Column(pl.Int64, "decoding settings with an estimate that can be relied on")
_MEAN_ESTIMATE = Column(
    pl.Float64, "mean of the estimates of these settings, in standard deviations of the outcome"
)
_SAME_SIGN = Column(
    pl.Float64, "share of these whose estimates have the same sign, 0 to 1; null: none", True
)
_CORRELATION = Column(
    pl.Float64, "Pearson's correlation of the two estimates, -1 to 1; null: undefined", True
)
_COUNTED = "the cells model x setting x contrast that have both estimates"

DRAW_COUNTS = {
    "prompts": Column(pl.Int64, "prompts"),
    "draws": Column(pl.Int64, "draws made"),
    **{status: describe_status(status) for status in STATUSES},
    "distinct_texts": Column(pl.Int64, "different texts of a prompt, summed over prompts"),
    "words": Column(pl.Int64, "words, parted by white space, of the measured texts"),
    "completion_tokens": Column(pl.Int64, "tokens generated"),
    "empty_share": Column(pl.Float64, "empty / draws, 0 to 1; null: no draw", nullable=True),
    "truncated_share": Column(
        pl.Float64, "truncated / draws, 0 to 1; null: no draw", nullable=True
    ),
    "repeated_prompts": Column(pl.Int64, "prompts with two texts or more, cut ones among them"),
    "identical_prompts": Column(pl.Int64, "of these, prompts whose texts are all the same"),
}
"""What is counted of the draws of a cell."""

CELL = Column(pl.String, "the cell's name, as its file of draws has it")

REPORT_TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        as_csv("fits", ADJUSTED),
        Table(
            "mean_cosine",
            {
                **STUDY,
                **MODEL,
                **SETTING,
                **_ENCODER,
                "mean_cosine": Column(pl.Float64, _MEAN, nullable=True),
                "texts": Column(pl.Int64, "texts of the group"),
                "pairs": Column(pl.Int64, "pairs of texts compared"),
                "fewest_texts": Column(pl.Int64, "texts in the block that has fewest"),
            },
            takes_factors=True,
            row="a group at a setting, by model and encoder",
        ),
        Table(
            "draw_counts",
            {**STUDY, **MODEL, **SETTING, "cell": CELL, **DRAW_COUNTS},
            row="a decoding setting of a model",
        ),
        Table(
            "determinism",
            {
                **STUDY,
                **MODEL,
                "prompts": Column(pl.Int64, "prompts drawn at temperature 0"),
                "repeated_prompts": Column(pl.Int64, "of these, with two texts or more"),
                "varying_prompts": Column(pl.Int64, "of these, with more than one text"),
                "draws": Column(pl.Int64, "draws made at temperature 0"),
            },
            row="a model of a study of groups that was drawn from at temperature 0",
        ),
        Table(
            "signals",
            {
                **_FIT,
                **_INTERACTION,
                "settings": _SETTINGS,
                "significant": Column(pl.Int64, "of these, with p_value below .05"),
                "positive": Column(pl.Int64, "of the significant ones, above 0"),
                "negative": Column(pl.Int64, "of the significant ones, below 0"),
                "significant_holm": Column(pl.Int64, "settings with p_holm below .05"),
                "significant_bh": Column(pl.Int64, "settings with p_bh below .05"),
                "mean_estimate": _MEAN_ESTIMATE,
            },
            row="a contrast of a model, by test and encoder, over all settings",
        ),
        Table(
            "default_estimates",
            {
                **_FIT,
                **_ESTIMATE,
                "stars": Column(
                    pl.Int64, "1, 2, 3: p_value below .05, .01, .001; null: no estimate", True
                ),
            },
            row="a contrast of a model at the default setting, by test and encoder",
        ),
        Table(
            "sensitivity",
            {
                "analysis": Column(
                    pl.String, f"one of {', '.join(ANALYSES[1:4])}: what was done differently"
                ),
                **_FIT,
                **_ESTIMATE,
                "mc_error": ADJUSTED.columns["mc_error"],
                "main_estimate": Column(
                    pl.Float64, "estimate of the same contrast in the main analysis", True
                ),
                "main_p_value": Column(pl.Float64, "its p_value", nullable=True),
                "main_p_holm": Column(pl.Float64, "its p_holm", nullable=True),
                "main_p_bh": Column(pl.Float64, "its p_bh", nullable=True),
            },
            row="a contrast at a setting in one of the other analyses",
        ),
        Table(
            "diversity_estimates",
            {
                "measure": Column(pl.String, "the measure of diversity"),
                **{name: column for name, column in _FIT.items() if name != "encoder"},
                **_ESTIMATE,
                "estimate": Column(pl.Float64, "difference, in the measure's unit", nullable=True),
            },
            row="a contrast of a measure of diversity at a setting",
        ),
        Table(
            "diversity",
            {
                **STUDY,
                **MODEL,
                **SETTING,
                "measure": Column(pl.String, "the measure of diversity"),
                "value": Column(
                    pl.Float64, "mean over blocks, in the measure's unit; null: none", True
                ),
                "blocks": Column(pl.Int64, "blocks with a value"),
                "texts": Column(pl.Int64, "texts in the block with fewest"),
            },
            takes_factors=True,
            row="a measure of a group at a setting",
        ),
        Table(
            "temperature_estimates",
            {
                **_FIT,
                "temperature": SETTING["temperature"],
                "settings": _SETTINGS,
                "mean_estimate": _MEAN_ESTIMATE,
            },
            row="a contrast of a model at a temperature, by test and encoder",
        ),
        Table(
            "temperature_cosine",
            {
                **STUDY,
                **_ENCODER,
                **MODEL,
                "factor": Column(pl.String, "a factor of the design"),
                "factor_level": Column(pl.String, "one of its levels"),
                "temperature": SETTING["temperature"],
                "settings": Column(pl.Int64, "decoding settings averaged over"),
                "mean_cosine": Column(
                    pl.Float64, "mean over groups and settings; null: no pair", nullable=True
                ),
            },
            row="a level of the first factor at a temperature, by model and encoder",
        ),
        Table(
            "encoder_agreement",
            {
                **STUDY,
                **{name: ADJUSTED.columns[name] for name in ("level", "scope", "coding")},
                "primary": Column(pl.String, "the first encoder"),
                "encoder": Column(pl.String, "the encoder that is compared with it"),
                "cells": Column(pl.Int64, _COUNTED),
                "sign_agreement": _SAME_SIGN,
                "significant_cells": Column(
                    pl.Int64, "of these, significant (p < .05) with the first encoder"
                ),
                "sign_agreement_significant": Column(
                    pl.Float64, "share of the significant ones with the same sign, 0 to 1", True
                ),
                "pearson_r": _CORRELATION,
            },
            row="a test and a further encoder",
        ),
        Table(
            "level_agreement",
            {
                **STUDY,
                **_ENCODER,
                **{name: ADJUSTED.columns[name] for name in ("level", "scope", "coding")},
                "term": Column(pl.String, "fixed effect; null: all contrasts", nullable=True),
                "contrast": Column(
                    pl.String, "what it compares, in words; null: all contrasts", nullable=True
                ),
                "cells": Column(pl.Int64, _COUNTED),
                "sign_agreement": _SAME_SIGN,
                "pearson_r": _CORRELATION,
                "pairwise_significant": Column(
                    pl.Int64, "of these, significant (p < .05) on pairs"
                ),
                "retained": Column(pl.Int64, "of these, significant in this test too"),
                "retained_share": Column(
                    pl.Float64, "retained / pairwise_significant, 0 to 1; null: none", True
                ),
            },
            row="a contrast (or all) in a test that is compared with that on pairs, by encoder",
        ),
        Table(
            "output_length",
            {
                **STUDY,
                **MODEL,
                "temperature": Column(
                    pl.String, "sampling temperature; null: all of them", nullable=True
                ),
                "draws": Column(pl.Int64, "draws made"),
                "texts": Column(pl.Int64, "of these, texts that are measured"),
                "words": Column(pl.Int64, "words, parted by white space, of these texts"),
                "mean_words": Column(pl.Float64, "words / texts; null: no text", nullable=True),
                "truncated": describe_status("truncated"),
                "truncated_share": DRAW_COUNTS["truncated_share"],
                "empty": describe_status("empty"),
                "empty_share": DRAW_COUNTS["empty_share"],
            },
            row="a model at a temperature, or over all",
        ),
        Table(
            "over_long",
            {
                **STUDY,
                **MODEL,
                **_ENCODER,
                "texts": Column(pl.Int64, "texts that were encoded"),
                "over_long": Column(
                    pl.Int64, "of these, longer than the encoder's limit: their end was not seen"
                ),
            },
            row="a model and encoder",
        ),
        Table(
            "name_selection",
            {
                **STUDY,
                "match": Column(pl.String, "how names are chosen: none or frequency", True),
                "list": Column(pl.String, "the list of names", nullable=True),
                "group": Column(pl.String, "group", nullable=True),
                "names": Column(pl.Int64, "names taken", nullable=True),
                "fewest": Column(pl.Float64, "bearers of the rarest; null: not counted", True),
                "median": Column(pl.Float64, "median number of bearers of a name", nullable=True),
                "most": Column(pl.Float64, "bearers of the most frequent", nullable=True),
                "flagged": Column(pl.Int64, "names left out: words or places too", nullable=True),
                "reference": Column(
                    pl.String, "group whose frequencies are compared; null: itself", nullable=True
                ),
                "overlap": Column(
                    pl.Float64, "overlap of the frequencies with its, 0 to 1 (the same)", True
                ),
            },
            row="a group of a study of names",
        ),
    )
}
"""The CSV files of every report."""

DIAGNOSTICS = Table(
    "diagnostics",
    {
        **STUDY,
        "check": Column(pl.String, "what is checked, as its anchor in the page has it"),
        "counted": Column(pl.String, "what a value is, in words"),
        "side": Column(pl.String, "above, below, at least, at most: where values raise an alarm"),
        "threshold": Column(pl.Float64, "the limit of a value; null: not known", nullable=True),
        "worst": Column(
            pl.Float64, "value nearest to an alarm or furthest in it; null: not checked", True
        ),
        "tied": Column(pl.Int64, "places that have it; the first of them is named"),
        "model": Column(pl.String, "its model; null: of all, or not checked", nullable=True),
        "setting": Column(pl.String, "its cell; null: of all, or not checked", nullable=True),
        "where": Column(pl.String, "what else tells its place", nullable=True),
        "place": Column(pl.String, "what a value is of"),
        "places": Column(pl.Int64, "places that have a value"),
        "beyond": Column(pl.Int64, "of these, beyond the threshold"),
        "verdict": Column(pl.String, "ok, alarm or not applicable"),
        "reason": Column(pl.String, "why it is not applicable, if it is not", nullable=True),
    },
    row="a check of a study",
)
"""What is checked of every study; written with the page, which shows the same."""

SCHEMAS = list_types(REPORT_TABLES)
"""Columns of each CSV file; `mean_cosine` and `diversity` have the study's factors as
well."""
