"""The tables of studies of personas behind the page, made from the stages' tables, kept as CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.personas.flags import FLAGS
from llm_variability.report.personas.schemas import (
    CAME_KINDS,
    COUNTED,
    PERSONA_SCHEMAS,
    SAME_WORDS,
    name_flag,
)
from llm_variability.report.summaries import (
    count_draws,
    label_by_metadata,
    name_cells,
    shape_rows,
)
from llm_variability.table_contract import SETTING, Table
from llm_variability.tables import COUNTS, read_metadata, read_table
from llm_variability.tables_code import EXTRACTIONS
from llm_variability.tables_personas import (
    CONFUSIONS,
    DIALOGUE_CHANGES,
    FAILED,
    FEATURES,
    LEAKAGE,
    PERSONA_MEANS,
    REPLY_KINDS,
    REWRITINGS,
    SEPARATION,
    SHARED_ENTITIES,
    TOPICS,
)

_WHO = ("persona", "role", "gender")


def list_askers(rewritings: pl.DataFrame, made_by: Mapping[str, Any]) -> pl.DataFrame:
    """List every task and persona that was asked, those that gave no row among them.

    rewritings: a REWRITINGS table. made_by: its metadata, which name the tasks and personas.
    Returns task, persona, role, gender: in the order of the rows, then as the metadata have them.
    A persona without a row has its name as role and no gender.
    """
    who = rewritings.select(*_WHO).unique(maintain_order=True)
    known = {row[0]: row for row in who.iter_rows()}
    tasks = list(dict.fromkeys([*rewritings["task"], *made_by.get("tasks", {})]))
    personas = list(dict.fromkeys([*known, *made_by.get("personas", {})]))
    rows = [
        (task, *known.get(persona, (persona, persona, "")))
        for task, persona in product(tasks, personas)
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(("task", *_WHO), pl.String), orient="row")


def count_rewritings(rewritings: pl.DataFrame, made_by: Mapping[str, Any]) -> pl.DataFrame:
    """Count attempts by task and persona: which are used, what was wrong with them, what lacks.

    rewritings: a REWRITINGS table. made_by: its metadata; `iterations` are the prompts that were
    asked for of each task and persona, by default as many as the highest number says.
    """
    highest = rewritings["iteration"].max()
    iterations = int(made_by.get("iterations", highest + 1 if isinstance(highest, int) else 0))
    flags = pl.col("flags").str.split(" ")
    counted = rewritings.group_by("task", "persona").agg(
        pl.len().alias("attempts"),
        pl.col("used").sum(),
        pl.col("sampled").sum(),
        *(flags.list.contains(flag).sum().alias(name_flag(flag)) for flag in FLAGS),
        *(
            (flags.list.contains(flag) & pl.col("used")).sum().alias(f"used_{flag}")
            for flag in SAME_WORDS
        ),
    )
    numbers = [name for name in counted.columns if name not in ("task", "persona")]
    return (
        list_askers(rewritings, made_by)
        .join(counted, on=["task", "persona"], how="left", maintain_order="left")
        .with_columns(pl.col(numbers).fill_null(0).cast(pl.Int64))
        .with_columns(
            asked=pl.lit(iterations, pl.Int64),
            missing=pl.lit(iterations, pl.Int64) - pl.col("used"),
        )
    )


def count_replies(features: pl.DataFrame) -> pl.DataFrame:
    """Count what the replies of each setting and persona hold, in the order of the rows.

    features: rows of a FEATURES table. Shares and means are of the replies that came, null without
    any; the share that failed is of the draws. A prompt is without a program if none of its replies
    at the setting is one.
    """
    came = pl.col("reply") != FAILED
    is_kind = {kind: pl.col("reply") == kind for kind in REPLY_KINDS}
    has_program = pl.col("prompt_id").filter(is_kind["program"]).n_unique()
    counted = features.group_by(*SETTING, "persona", maintain_order=True).agg(
        pl.col("prompt_id").n_unique().cast(pl.Int64).alias("prompts"),
        (pl.col("prompt_id").n_unique().cast(pl.Int64) - has_program.cast(pl.Int64)).alias(
            "prompts_without_program"
        ),
        pl.len().cast(pl.Int64).alias("draws"),
        *(each.sum().cast(pl.Int64).alias(kind) for kind, each in is_kind.items()),
        came.sum().cast(pl.Int64).alias("replies"),
        *(is_kind[kind].filter(came).mean().alias(f"{kind}_share") for kind in CAME_KINDS),
        is_kind[FAILED].mean().alias(f"{FAILED}_share"),
        pl.col("reply_lines").filter(came).mean().alias("mean_reply_lines"),
        pl.col("lines").mean().alias("mean_lines"),
    )
    return name_cells(counted, *SETTING)


def count_extractions(extractions: pl.DataFrame) -> pl.DataFrame:
    """Add up what is counted of the programs of each setting and persona.

    extractions: rows of an EXTRACTIONS table.
    """
    sums = (pl.col(name).cast(pl.Int64).sum() for name in COUNTED)
    return extractions.group_by(*SETTING, "persona", maintain_order=True).agg(*sums)


def _collect_replies(features: Sequence[Path], extractions: Sequence[Path]) -> pl.DataFrame:
    """Bring replies and programs of all studies and models together."""
    replies = [
        label_by_metadata(path, count_replies(read_table(path, FEATURES)), "study", "model")
        for path in features
    ]
    programs = [
        label_by_metadata(path, count_extractions(read_table(path, EXTRACTIONS)), "study", "model")
        for path in extractions
    ]
    if not replies:
        return shape_rows([], PERSONA_SCHEMAS["persona_replies"])
    key = ["study", "model", *SETTING, "persona"]
    schema = {**dict.fromkeys(key, pl.String), **dict.fromkeys(COUNTED, pl.Int64)}
    counted = pl.concat([pl.DataFrame(schema=schema), *(each.select(*schema) for each in programs)])
    joined = pl.concat(replies).join(
        counted, on=key, how="left", nulls_equal=True, maintain_order="left", validate="1:1"
    )
    return shape_rows([joined], PERSONA_SCHEMAS["persona_replies"])


def collect_persona_tables(
    rewritings: Sequence[Path],
    separation: Sequence[Path],
    means: Sequence[Path],
    leakage: Sequence[Path],
    confusions: Sequence[Path],
    features: Sequence[Path],
    shared: Sequence[Path],
    topics: Sequence[Path],
    counts: Sequence[Path],
    extractions: Sequence[Path],
    dialogue_changes: Sequence[Path] = (),
) -> dict[str, pl.DataFrame]:
    """Read the stages' tables of all studies of personas, and make the page's tables of them.

    Rows keep the order of the files. Returns every table of `PERSONA_SCHEMAS`.
    """

    def of_study(paths: Sequence[Path], table: Table) -> list[pl.DataFrame]:
        return [label_by_metadata(path, read_table(path, table), "study") for path in paths]

    made = {
        "persona_prompts": [
            label_by_metadata(
                path, count_rewritings(read_table(path, REWRITINGS), read_metadata(path)), "study"
            )
            for path in rewritings
        ],
        "persona_separation": [read_table(path, SEPARATION) for path in separation],
        "persona_means": [read_table(path, PERSONA_MEANS) for path in means],
        "persona_leakage": [read_table(path, LEAKAGE) for path in leakage],
        "persona_confusions": [read_table(path, CONFUSIONS) for path in confusions],
        "persona_entities": of_study(shared, SHARED_ENTITIES),
        "persona_topics": of_study(topics, TOPICS),
        "persona_draws": [
            label_by_metadata(path, count_draws(read_table(path, COUNTS)), "study", "model")
            for path in counts
        ],
        "persona_dialogues": [read_table(path, DIALOGUE_CHANGES) for path in dialogue_changes],
    }
    tables = {name: shape_rows(frames, PERSONA_SCHEMAS[name]) for name, frames in made.items()}
    tables["persona_replies"] = _collect_replies(features, extractions)
    return {name: tables[name] for name in PERSONA_SCHEMAS}
