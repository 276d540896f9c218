"""A finished run made up for the tests of its record: small, with all four kinds of study."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import yaml

from llm_variability.config import DEFAULT
from llm_variability.report.csv_tables import CSV_TABLES
from llm_variability.tables import DRAWS, read_design, read_table, write_table

HERE = Path(__file__).parent
groups, code, personas = (
    SimpleNamespace(**runpy.run_path(str(HERE / f"{name}.py")))
    for name in ("report_inputs", "code_inputs", "persona_inputs")
)
ENDED = 1_700_000_000
"""When the page was written: 2023-11-14 22:13:20 UTC."""


def session(began: str, ended: str | None, **changes: Any) -> dict[str, Any]:
    facts = {
        "began": began,
        "host": "node-17",
        "machine": "x86_64",
        "engine": "vllm 0.33.0",
        "devices": "0",
        "tensor_parallel": 1,
    }
    return {**facts, **({} if ended is None else {"ended": ended}), **changes}


SESSIONS = {
    "local": [
        session("2023-11-14T21:00:00+0100", "2023-11-14T21:30:00+0100"),
        session("2023-11-14T20:40:00+0000", "2023-11-14T20:50:00+0000"),
    ],
    "far": [
        session(
            "2023-11-14T19:59:00+0000",
            None,
            engine="https://user:secret@example.invalid/v1?key=secret",
            devices=None,
        )
    ],
}
"""Who drew the labels from two models."""


def write_draws(folder: Path, model: str, sessions: list[dict[str, Any]]) -> None:
    """Write a cell of draws of the labels with the sessions that made it."""
    known = next(folder.glob("draws/labels/*/*.parquet"))
    metadata = {
        "study": "labels",
        "model": model,
        "design": read_design(known).to_json(),
        "sessions": sessions,
    }
    path = folder / f"draws/labels/{model}/T0.5-P0.8.parquet"
    write_table(read_table(known, DRAWS), path, DRAWS, metadata)


def write_run(folder: Path) -> None:
    """Write a run's files, as far as its record reads them; figures and the page are empty."""
    code.write_code_results(folder)
    personas.write_persona_results(folder)
    # The rules keep them under another name than these makers do.
    (folder / "rewritings").rename(folder / "personas")
    groups.write_results(
        folder, models=["local"], encoders=["mini"], grid=groups.SMALL_GRID, further=False
    )
    for model, sessions in SESSIONS.items():
        write_draws(folder, model, sessions)
    config = {**DEFAULT, "results": str(folder)}
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (folder / "tables").mkdir()
    for name, table in CSV_TABLES.items():
        schema = {column: each.dtype for column, each in table.columns.items()}
        pl.DataFrame(schema=schema).write_csv(folder / f"tables/{name}.csv")
    for place in (
        "figures/labels/local/mini-cell.svg",
        "figures/labels/mini-cosine.pdf",
        "logs/draws/labels/local/T0.log",
        "draws/labels/local/journals/T0.abc.jsonl",
        "spending/far.jsonl",
        "spending/far.lock",
        "models/local/model.safetensors",
        "report.html",
    ):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(place, encoding="utf-8")
    os.utime(folder / "report.html", (ENDED, ENDED))
