"""The columns of every CSV file of the studies of code, as contracts; nothing here draws."""

from __future__ import annotations

import polars as pl

from llm_variability.report.schemas import CELL, DRAW_COUNTS, MODEL, STUDY, as_csv, list_types
from llm_variability.table_contract import SETTING, Column, Table
from llm_variability.tables_code import (
    AUGMENTATIONS,
    CURVE_CONTRASTS,
    CURVE_FITS,
    CURVE_SUMMARIES,
    CURVES,
    EXTRACTIONS,
    PROGRAM_STATUSES,
)

_CHANGED = {
    "augmentation": Column(
        pl.String, "how prompts were changed and how far: original, keyboard-0.1, paraphrase-low"
    ),
    "method": Column(pl.String, "how prompts were changed"),
    "rate": Column(pl.String, "nominal rate, or the band of paraphrases"),
}
_CELL = {**STUDY, **MODEL, "cell": CELL, **SETTING, **_CHANGED}
COUNTED = ("unclosed", "too_large", "distinct_programs", "lines")
"""What is counted of the replies besides their status."""


def _sum_of(name: str) -> Column:
    """Describe the sum, over a set's texts, of a column of the AUGMENTATIONS table."""
    return Column(pl.Int64, f"{AUGMENTATIONS.columns[name].meaning}; null: paraphrases", True)


CODE_REPORT_TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        as_csv("code_curves", CURVES),
        as_csv("code_summaries", CURVE_SUMMARIES),
        as_csv("code_contrasts", CURVE_CONTRASTS),
        as_csv("code_fits", CURVE_FITS),
        Table(
            "code_extractions",
            {
                **_CELL,
                "prompts": Column(pl.Int64, "prompts"),
                "draws": Column(pl.Int64, "draws made"),
                **{
                    status: Column(pl.Int64, f"replies of status {status}")
                    for status in PROGRAM_STATUSES
                },
                **{
                    f"{status}_share": Column(
                        pl.Float64, f"{status} / draws, 0 to 1; null: no draw", nullable=True
                    )
                    for status in PROGRAM_STATUSES
                },
                **{name: Column(pl.Int64, EXTRACTIONS.columns[name].meaning) for name in COUNTED},
            },
            row="a cell (setting and augmentation) of a model",
        ),
        Table(
            "code_draws",
            {**_CELL, **DRAW_COUNTS},
            row="a cell (setting and augmentation) of a model",
        ),
        Table(
            "code_augmentations",
            {
                **STUDY,
                "set": Column(pl.String, "set of tasks"),
                **_CHANGED,
                "texts": Column(pl.Int64, "changed texts"),
                "nominal": Column(
                    pl.Float64, "the rate asked for, 0 to 1; null: a band", nullable=True
                ),
                "mean_realised": Column(
                    pl.Float64, "mean share of the eligible units that was changed, 0 to 1", True
                ),
                "min_realised": Column(pl.Float64, "the least of these shares", nullable=True),
                "max_realised": Column(pl.Float64, "the greatest of them", nullable=True),
                "mean_bleu": Column(
                    pl.Float64, "mean sacreBLEU of paraphrases to the original, 0 to 1", True
                ),
                "eligible": _sum_of("eligible"),
                "replaceable": _sum_of("replaceable"),
                "replaceable_share": Column(
                    pl.Float64, "replaceable / eligible, 0 to 1", nullable=True
                ),
                "asked": _sum_of("asked"),
                "edited": _sum_of("edited"),
                "repeated": Column(pl.Int64, "texts that another variant has too, not drawn"),
            },
            row="a set of tasks, changed one way at one rate",
        ),
        Table(
            "code_paraphrases",
            {
                **STUDY,
                "set": Column(pl.String, "set of tasks"),
                "degree": Column(pl.String, "degree of diversity asked for: low, medium or high"),
                "band": Column(
                    pl.String, "low, medium or high diversity, by BLEU; null: no text", True
                ),
                "flags": Column(pl.String, "what may be wrong, parted by spaces; none: nothing"),
                "paraphrases": Column(pl.Int64, "paraphrases of this kind"),
                "used": Column(pl.Int64, "of these, used as prompts"),
                "mean_bleu": Column(pl.Float64, "mean sacreBLEU to the original, 0 to 1", True),
                "mean_similarity": Column(
                    pl.Float64, "mean cosine to the original, by the primary encoder", True
                ),
            },
            row="the paraphrases of a set of one degree, band and combination of flags",
        ),
    )
}
"""The CSV files that a report on studies of code has."""

CODE_SCHEMAS = list_types(CODE_REPORT_TABLES)
"""Columns of each CSV file of the studies of code. In `code_paraphrases`, `band` is null where
there is no text to score."""
