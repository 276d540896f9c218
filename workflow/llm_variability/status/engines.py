"""Which model an engine has loaded, by the lines that its keeper writes into its log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from llm_variability.config import Settings

_SAID = re.compile(
    rb"^engine: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (\S+): (load begins|stops, since (.*)|stopped)$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Engine:
    """What a model's engine log says.

    loads: how often it was loaded. since: of the last load, or of its end, in seconds of the
    epoch. is_up: whether no end of the last load is told. reason: why it stopped; None if it is up.
    """

    model: str
    loads: int
    since: float
    is_up: bool
    reason: str | None


def read_engine(model: str, log: bytes) -> Engine | None:
    """Read a model's engine log; None if nothing was loaded.

    The time of day is that of the machine the engine ran on, and taken for this machine's.
    """
    loads, since, is_up, reason = 0, 0.0, False, None
    for said in _SAID.finditer(log):
        if said[2].decode("utf-8", "replace") != model or said[3] == b"stopped":
            continue
        is_up = said[3] == b"load begins"
        loads += is_up
        reason = None if is_up else said[4].decode("utf-8", "replace")
        try:
            since = datetime.fromisoformat(said[1].decode()).timestamp()
        except ValueError:
            continue
    return Engine(model, loads, since, is_up, reason) if loads else None


def read_engines(settings: Settings, results: Path) -> list[Engine]:
    """Read the engine log of every model that has one."""
    engines = []
    for model in settings.models:
        try:
            log = (results / "logs" / "engines" / f"{model}.log").read_bytes()
        except OSError:
            continue
        engine = read_engine(model, log)
        if engine is not None:
            engines.append(engine)
    return engines
