"""The columns of every CSV file of the studies of personas; nothing here draws."""

from __future__ import annotations

from typing import Any

import polars as pl

from llm_variability.personas.flags import FLAGS
from llm_variability.report.schemas import SCHEMAS
from llm_variability.table_contract import Table
from llm_variability.tables_personas import (
    CONFUSIONS,
    DIALOGUE_CHANGES,
    FAILED,
    LEAKAGE,
    PERSONA_MEANS,
    REPLY_KINDS,
    SEPARATION,
    SHARED_ENTITIES,
    TOPICS,
)

COUNTED = ("unclosed", "too_large", "distinct_programs")
"""What is counted of the replies besides their kind."""

CAME_KINDS = tuple(kind for kind in REPLY_KINDS if kind != FAILED)
"""What replies hold that came."""

SAME_WORDS = ("repeated", "shared")
"""Flags of rewritings that may be used all the same."""

_CELL: dict[str, Any] = {
    "study": pl.String,
    "model": pl.String,
    "cell": pl.String,
    "temperature": pl.String,
    "top_p": pl.String,
}


def name_flag(flag: str) -> str:
    """Name the column that counts what was wrong with rewritings."""
    return f"flag_{flag}"


def _types(table: Table) -> dict[str, Any]:
    types = {name: column.dtype for name, column in table.columns.items()}
    return {"study": pl.String, **types}


PERSONA_SCHEMAS: dict[str, dict[str, Any]] = {
    "persona_prompts": {
        "study": pl.String,
        "task": pl.String,
        "persona": pl.String,
        "role": pl.String,
        "gender": pl.String,
        "asked": pl.Int64,
        "attempts": pl.Int64,
        "used": pl.Int64,
        "missing": pl.Int64,
        "sampled": pl.Int64,
        **{name_flag(flag): pl.Int64 for flag in FLAGS},
        **{f"used_{flag}": pl.Int64 for flag in SAME_WORDS},
    },
    "persona_separation": _types(SEPARATION),
    "persona_means": _types(PERSONA_MEANS),
    "persona_leakage": _types(LEAKAGE),
    "persona_confusions": _types(CONFUSIONS),
    "persona_entities": _types(SHARED_ENTITIES),
    "persona_topics": _types(TOPICS),
    "persona_replies": {
        **_CELL,
        "persona": pl.String,
        "prompts": pl.Int64,
        "prompts_without_program": pl.Int64,
        "draws": pl.Int64,
        "replies": pl.Int64,
        **dict.fromkeys(REPLY_KINDS, pl.Int64),
        **{f"{kind}_share": pl.Float64 for kind in REPLY_KINDS},
        **dict.fromkeys(COUNTED, pl.Int64),
        "mean_reply_lines": pl.Float64,
        "mean_lines": pl.Float64,
    },
    "persona_draws": {
        **_CELL,
        **{name: kind for name, kind in SCHEMAS["draw_counts"].items() if name not in _CELL},
    },
    "persona_dialogues": _types(DIALOGUE_CHANGES),
}
"""Columns of each CSV file of the studies of personas. In `persona_prompts`, `asked` is the prompts
asked for and `flag_answer` and the like are attempts with that flag; in `persona_replies`,
`replies` are the draws that brought one, of which the shares of their kinds are; `failed_share` is
of the draws. `reply_lines` are of all replies and `lines` of the programs alone."""
