"""Sessions: who made a model's draws, where, on which devices and how fast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import polars as pl

from llm_variability.tables import SESSIONS, THROUGHPUT

_FACTS = ("host", "engine", "devices", "tensor_parallel")


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def tabulate_sessions(
    temperature: str, top_p: str | None, sessions: Iterable[Mapping[str, Any]]
) -> pl.DataFrame:
    """Make a sessions table of what a draws table's metadata say.

    What an endpoint said of itself has no row: it is no session.
    """
    rows = [
        {
            "temperature": temperature,
            "top_p": top_p,
            "began": _moment(session["began"]),
            "ended": _moment(session.get("ended")),
            **{name: session.get(name) for name in _FACTS},
            "draws": session.get("draws"),
            "completion_tokens": session.get("completion_tokens"),
        }
        for session in sessions
        if "began" in session
    ]
    return pl.DataFrame(rows, schema={name: c.dtype for name, c in SESSIONS.columns.items()})


def busy_seconds(intervals: Iterable[tuple[datetime, datetime]]) -> float:
    """Tell how long at least one of some intervals lasted: settings are drawn side by side."""
    total, reached = 0.0, None
    for began, ended in sorted(intervals):
        start = began if reached is None else max(began, reached)
        total += max((ended - start).total_seconds(), 0.0)
        reached = ended if reached is None else max(ended, reached)
    return total


def summarise_sessions(sessions: pl.DataFrame) -> pl.DataFrame:
    """Sum a study's sessions by machine, engine and devices (a throughput table).

    sessions: of all settings of one study and model. `seconds` is the time in which at least one
    session drew; sessions that were broken off have no end and are left out of it, as are their
    tokens of the rate.
    """
    rows = []
    for facts, part in sessions.group_by(*_FACTS, maintain_order=True):
        whole = part.filter(pl.col("ended").is_not_null())
        seconds = busy_seconds(whole.select("began", "ended").rows())
        tokens = int(whole["completion_tokens"].sum())
        rows.append(
            {
                **dict(zip(_FACTS, facts, strict=True)),
                "sessions": len(part),
                "broken_off": len(part) - len(whole),
                "draws": part["draws"].sum(),
                "completion_tokens": part["completion_tokens"].sum(),
                "seconds": seconds,
                "tokens_per_s": tokens / seconds if seconds else None,
            }
        )
    schema = {name: c.dtype for name, c in THROUGHPUT.columns.items() if name != "study"}
    return pl.DataFrame(rows, schema=schema)
