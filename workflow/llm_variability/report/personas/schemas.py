"""The columns of every CSV file of the studies of personas, as contracts; nothing here draws."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from llm_variability.personas.flags import FLAGS
from llm_variability.report.schemas import CELL, DRAW_COUNTS, MODEL, STUDY, as_csv, list_types
from llm_variability.table_contract import SETTING, Column, Table
from llm_variability.tables_code import EXTRACTIONS
from llm_variability.tables_personas import (
    CONFUSIONS,
    DIALOGUE_CHANGES,
    FAILED,
    LEAKAGE,
    PERSONA_MEANS,
    REPLY_KINDS,
    REWRITINGS,
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

_CELL = {**STUDY, **MODEL, "cell": CELL, **SETTING}
_KINDS: Mapping[str, str] = {
    "program": "a program of the task's language that parses",
    "invalid": "code of that language that does not parse",
    "truncated": "code of that language that was cut off",
    "other_code": "code of other languages only",
    "none": "no code at all",
    "failed": "no reply: refused by the server, no answer, or empty",
}


def name_flag(flag: str) -> str:
    """Name the column that counts what was wrong with rewritings."""
    return f"flag_{flag}"


PERSONA_REPORT_TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "persona_prompts",
            {
                **STUDY,
                **{
                    name: REWRITINGS.columns[name] for name in ("task", "persona", "role", "gender")
                },
                "asked": Column(pl.Int64, "prompts asked for"),
                "attempts": Column(pl.Int64, "attempts at them"),
                "used": Column(pl.Int64, "attempts that became prompts"),
                "missing": Column(pl.Int64, "asked - used"),
                "sampled": Column(pl.Int64, "prompts that are the one sampled"),
                **{
                    name_flag(flag): Column(pl.Int64, f"attempts with this fault: {meaning}")
                    for flag, meaning in FLAGS.items()
                },
                **{
                    f"used_{flag}": Column(pl.Int64, f"prompts flagged {flag}, used all the same")
                    for flag in SAME_WORDS
                },
            },
            row="a task and persona",
        ),
        as_csv("persona_separation", SEPARATION),
        as_csv("persona_means", PERSONA_MEANS),
        as_csv("persona_leakage", LEAKAGE),
        as_csv("persona_confusions", CONFUSIONS),
        as_csv("persona_entities", SHARED_ENTITIES, with_study=True),
        as_csv("persona_topics", TOPICS, with_study=True),
        Table(
            "persona_replies",
            {
                **_CELL,
                "persona": Column(pl.String, "persona"),
                "prompts": Column(pl.Int64, "prompts of the persona"),
                "prompts_without_program": Column(
                    pl.Int64, "of these, prompts whose replies hold no program"
                ),
                "draws": Column(pl.Int64, "draws made"),
                "replies": Column(pl.Int64, "draws that brought a reply"),
                **{
                    kind: Column(pl.Int64, f"draws that hold {_KINDS[kind]}") for kind in CAME_KINDS
                },
                FAILED: Column(pl.Int64, f"draws with {_KINDS[FAILED]}"),
                **{
                    f"{kind}_share": Column(
                        pl.Float64, f"{kind} / replies, 0 to 1; null: no reply", nullable=True
                    )
                    for kind in CAME_KINDS
                },
                f"{FAILED}_share": Column(
                    pl.Float64, f"{FAILED} / draws, 0 to 1; null: no draw", nullable=True
                ),
                **{
                    name: Column(pl.Int64, EXTRACTIONS.columns[name].meaning, nullable=True)
                    for name in COUNTED
                },
                "mean_reply_lines": Column(
                    pl.Float64, "mean lines of code of any language in a reply", nullable=True
                ),
                "mean_lines": Column(
                    pl.Float64, "mean lines of a program, blank ones left out", nullable=True
                ),
            },
            row="a persona in a cell of a model",
        ),
        Table("persona_draws", {**_CELL, **DRAW_COUNTS}, row="a decoding setting of a model"),
        as_csv("persona_dialogues", DIALOGUE_CHANGES, with_study=True),
    )
}
"""The CSV files that a report on studies of personas has."""

PERSONA_SCHEMAS = list_types(PERSONA_REPORT_TABLES)
"""Columns of each CSV file of the studies of personas. In `persona_prompts`, `asked` is the prompts
asked for and `flag_answer` and the like are attempts with that flag; in `persona_replies`,
`replies` are the draws that brought one, of which the shares of their kinds are; `failed_share` is
of the draws. `reply_lines` are of all replies and `lines` of the programs alone."""
