"""A tiny study of code, as tables: draws, programs and the account of its augmentations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.table_contract import Design
from llm_variability.tables import DRAWS, write_table
from llm_variability.tables_code import AUGMENTATIONS, PROGRAMS

DESIGN = Design(
    "task", (), carried=("set", "language", "augmentation", "method", "rate", "variant")
)
MADE_BY = {"study": "tiny", "model": "m", "design": DESIGN.to_json()}


def frame(table: Any, rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """Put rows into a table's columns; what a row leaves out is null."""
    schema = dict.fromkeys(DESIGN.columns, pl.String) | {
        name: column.dtype for name, column in table.columns.items()
    }
    return pl.DataFrame(list(rows), schema=schema)


def design_of(task: str, augmentation: str, language: str = "python") -> dict[str, str]:
    """Give the design's columns of a prompt; task is set/id, augmentation as in a cell's name."""
    method, _, rate = augmentation.rpartition("-")
    return {
        "task": task,
        "set": task.partition("/")[0],
        "language": language,
        "augmentation": augmentation,
        "method": method or "original",
        "rate": rate if method else "0",
        "variant": "0",
    }


def account(
    task: str,
    augmentation: str,
    prompt_id: str,
    *,
    realised: float | None = 0.0,
    bleu: float | None = None,
    repeated: bool = False,
    language: str = "python",
) -> dict[str, Any]:
    """Make a row of an augmentations table."""
    row = {"prompt_id": prompt_id, "text": "t", "realised": realised, "bleu": bleu}
    return {**design_of(task, augmentation, language), **row, "repeated": repeated}


def program(
    task: str,
    augmentation: str,
    prompt_id: str,
    replicate: int,
    code: str | None = "x = 1\n",
    *,
    nodes: int | None = 5,
    status: str = "ok",
    temperature: str = "0",
    top_p: str | None = None,
    language: str = "python",
) -> dict[str, Any]:
    """Make a row of a programs table."""
    return {
        **design_of(task, augmentation, language),
        "temperature": temperature,
        "top_p": top_p,
        "prompt_id": prompt_id,
        "replicate": replicate,
        "draw_status": "ok",
        "status": status,
        "code": code,
        "source": "fence",
        "fences": 1,
        "tag": "",
        "nodes": nodes,
    }


def programs(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    return frame(PROGRAMS, rows)


def accounts(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    return frame(AUGMENTATIONS, rows)


def write_cell(
    path: Path,
    replies: Sequence[tuple[str, str, int, str | None]],
    augmentation: str,
    *,
    setting: tuple[str, str | None] = ("0", None),
    status: str = "ok",
    finish_reason: str = "stop",
) -> Path:
    """Write a cell's draws; replies are (task, prompt_id, replicate, text)."""
    rows = [
        {
            **design_of(task, augmentation),
            "prompt_id": prompt_id,
            "replicate": replicate,
            "seed": 7,
            "text": text,
            "raw": text,
            "status": status if text is not None else "empty",
            "finish_reason": finish_reason,
        }
        for task, prompt_id, replicate, text in replies
    ]
    metadata = {**MADE_BY, "temperature": setting[0], "top_p": setting[1]}
    write_table(frame(DRAWS, rows), path, DRAWS, metadata)
    return path
