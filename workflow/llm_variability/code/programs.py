"""The programs in a cell's draws, and what became of its replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from llm_variability.code.extraction import extract_code
from llm_variability.code.trees import parse_code, read_named_nodes
from llm_variability.config_code import Extraction
from llm_variability.table_contract import SETTING
from llm_variability.tables_code import PROGRAM_STATUSES, PROGRAMS

_READ = ("status", "code", "source", "fences", "tag", "nodes")
"""Columns that are read from a reply."""

_NOTHING = ("no_code", None, "none", 0, "", None)
"""What they are where no reply came."""


def _read_reply(
    reply: str | None, language: str, cut_off: bool, how: Extraction
) -> tuple[Any, ...]:
    if reply is None:
        return _NOTHING
    found = extract_code(reply, language, cut_off=cut_off, **how.model_dump())
    nodes = None
    if found.status == "ok":
        nodes = len(read_named_nodes(parse_code(found.code, language)))
    return found.status, found.code or None, found.source, found.fences, found.tag, nodes


def read_programs(draws: pl.DataFrame, how: Extraction, columns: Sequence[str]) -> pl.DataFrame:
    """Take the program out of each draw of a cell.

    draws: a draws table whose design has the column `language`. columns: those of the design. A
    draw without a text (empty, no answer, refused by the server) has no code; each distinct reply
    is read once. Returns a programs table less the setting's columns, in the order of draws; no
    row for a cell without draws.
    Raises ConfigError for a language that is not known or whose grammar is not installed.
    """
    replies = draws.select(
        "text", "language", (pl.col("finish_reason") == "length").fill_null(False)
    ).rows()
    known = {
        (text, language, cut_off): _read_reply(text, language, cut_off, how)
        for text, language, cut_off in dict.fromkeys(replies)
    }
    read = pl.DataFrame(
        [known[reply] for reply in replies],
        schema={name: PROGRAMS.columns[name].dtype for name in _READ},
        orient="row",
    )
    drawn = draws.select(*columns, "prompt_id", "replicate", draw_status="status")
    return pl.concat([drawn, read], how="horizontal")


def choose_trees(programs: pl.DataFrame, max_nodes: int) -> pl.Series:
    """Say of each program, (n,), whether its tree can be compared: it parses and is not too large.

    programs: with status and nodes, as a programs table has them.
    """
    return ((programs["status"] == "ok") & (programs["nodes"] <= max_nodes)).fill_null(False)


def count_programs(
    programs: pl.DataFrame, columns: Sequence[str], max_nodes: int | None = None
) -> pl.DataFrame:
    """Count what became of the replies of each prompt at each setting (an extractions table).

    programs: a programs table. columns: those of the design. max_nodes: largest tree that is
    compared; larger ones are counted as too large.
    """
    whole = pl.col("status") == "ok"
    code = pl.col("code").filter(whole)
    large = pl.lit(False) if max_nodes is None else whole & (pl.col("nodes") > max_nodes)
    return programs.group_by(*SETTING, *columns, "prompt_id", maintain_order=True).agg(
        pl.len().alias("draws"),
        *((pl.col("status") == status).sum().alias(status) for status in PROGRAM_STATUSES),
        (pl.col("source") == "unclosed_fence").sum().alias("unclosed"),
        large.sum().alias("too_large"),
        code.n_unique().alias("distinct_programs"),
        (code.str.strip_chars_end("\n").str.count_matches("\n") + 1).sum().alias("lines"),
    )
