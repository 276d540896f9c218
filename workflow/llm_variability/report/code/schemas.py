"""The columns of every CSV file of the studies of code; nothing here draws."""

from __future__ import annotations

from typing import Any

import polars as pl

from llm_variability.report.schemas import SCHEMAS
from llm_variability.tables import Table
from llm_variability.tables_code import (
    CURVE_CONTRASTS,
    CURVE_FITS,
    CURVE_SUMMARIES,
    CURVES,
    PROGRAM_STATUSES,
)

_CELL: dict[str, Any] = {
    "study": pl.String,
    "model": pl.String,
    "cell": pl.String,
    "temperature": pl.String,
    "top_p": pl.String,
    "augmentation": pl.String,
    "method": pl.String,
    "rate": pl.String,
}
COUNTED = ("unclosed", "too_large", "distinct_programs", "lines")
"""What is counted of the replies besides their status."""


def _types(table: Table) -> dict[str, Any]:
    return {name: column.dtype for name, column in table.columns.items()}


CODE_SCHEMAS: dict[str, dict[str, Any]] = {
    "code_curves": _types(CURVES),
    "code_summaries": _types(CURVE_SUMMARIES),
    "code_contrasts": _types(CURVE_CONTRASTS),
    "code_fits": _types(CURVE_FITS),
    "code_extractions": {
        **_CELL,
        "prompts": pl.Int64,
        "draws": pl.Int64,
        **dict.fromkeys(PROGRAM_STATUSES, pl.Int64),
        **{f"{status}_share": pl.Float64 for status in PROGRAM_STATUSES},
        **dict.fromkeys(COUNTED, pl.Int64),
    },
    "code_draws": {
        **_CELL,
        **{name: kind for name, kind in SCHEMAS["draw_counts"].items() if name not in _CELL},
    },
    "code_augmentations": {
        "study": pl.String,
        "set": pl.String,
        "augmentation": pl.String,
        "method": pl.String,
        "rate": pl.String,
        "texts": pl.Int64,
        "nominal": pl.Float64,
        "mean_realised": pl.Float64,
        "min_realised": pl.Float64,
        "max_realised": pl.Float64,
        "mean_bleu": pl.Float64,
        "eligible": pl.Int64,
        "replaceable": pl.Int64,
        "replaceable_share": pl.Float64,
        "asked": pl.Int64,
        "edited": pl.Int64,
        "repeated": pl.Int64,
    },
    "code_paraphrases": {
        "study": pl.String,
        "set": pl.String,
        "degree": pl.String,
        "band": pl.String,
        "flags": pl.String,
        "paraphrases": pl.Int64,
        "used": pl.Int64,
        "mean_bleu": pl.Float64,
        "mean_similarity": pl.Float64,
    },
}
"""Columns of each CSV file of the studies of code. In `code_paraphrases`, `band` is null where
there is no text to score."""
