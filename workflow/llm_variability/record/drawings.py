"""Who drew from each model, when and on what, as the metadata of the draws say."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_variability.report.provenance import describe_hardware
from llm_variability.tables import read_metadata


@dataclass(frozen=True)
class Drawing:
    """All draws of one model by one engine on one kind of machine.

    engine: name and version, or the endpoint's URL. ended: None if a job did not come to its end.
    tables: the draws tables, by their place in the results folder, sorted.
    """

    model: str
    engine: str
    hardware: str
    began: datetime.datetime
    ended: datetime.datetime | None
    tables: tuple[str, ...]


def read_moment(text: str) -> datetime.datetime:
    """Read a time with a zone, as sessions have it; in UTC."""
    return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)


def list_drawings(results: Path, places: Iterable[str]) -> list[Drawing]:
    """Tell who drew, from draws tables. places: of Parquet files; others than draws are skipped."""
    sessions: dict[tuple[str, str, str], list[tuple[str, Mapping[str, Any]]]] = {}
    for place in places:
        metadata = read_metadata(results / place)
        if metadata["table"] != "draws":
            continue
        for session in metadata.get("sessions", []):
            if "began" in session:
                key = (
                    str(metadata["model"]),
                    str(session.get("engine")),
                    describe_hardware(session),
                )
                sessions.setdefault(key, []).append((place, session))
    drawings = []
    for (model, engine, hardware), made in sorted(sessions.items()):
        ends = [read_moment(each["ended"]) if each.get("ended") else None for _, each in made]
        whole = [end for end in ends if end is not None]
        drawings.append(
            Drawing(
                model,
                engine,
                hardware,
                min(read_moment(each["began"]) for _, each in made),
                max(whole) if len(whole) == len(ends) else None,
                tuple(sorted({place for place, _ in made})),
            )
        )
    return drawings
