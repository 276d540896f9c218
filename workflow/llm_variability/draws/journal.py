"""The journal of a cell: an append-only file in which every finished draw is written at once.

JSON lines: `{"session": {...}}` whenever a job begins to draw, `{"draw": {...}}` for each draw,
`{"end": {...}}` when the job is through.
The file's name holds the fingerprint of everything that decides what a draw is (weights,
template, sampling parameters), so draws of changed weights are never taken for current ones, and
going back to an old setting finds its draws again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

DrawKey = tuple[str, int]


class JournalBusy(ValueError):
    """Another job is writing this journal."""


@dataclass(frozen=True)
class Draw:
    """What one request brought back, as the server sent it."""

    prompt_id: str
    replicate: int
    seed: int
    raw: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str | None = None

    @property
    def key(self) -> DrawKey:
        return self.prompt_id, self.replicate


class JournalContent(NamedTuple):
    """What stands in a journal: draws by key, sessions, and the length of its whole lines.

    A session that says when it began also has `draws` and `completion_tokens`, how many were made
    in it, and `ended` unless it was broken off.
    """

    draws: dict[DrawKey, Draw]
    sessions: list[dict[str, Any]]
    whole_bytes: int


def fingerprint(parts: Mapping[str, Any]) -> str:
    """Name everything that decides what a draw is: 16 hexadecimal digits of its JSON."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def journal_path(folder: Path, setting: str, identity: Mapping[str, Any]) -> Path:
    """Say where the draws of a setting lie. folder: of a study's draws by one model."""
    return folder / "journals" / f"{setting}.{fingerprint(identity)}.jsonl"


def read_journal(path: Path) -> JournalContent:
    """Read a journal. A last line that was cut off by a crash is left out, and made again.

    Raises ValueError if any other line is damaged: that is no crash, and guessing would be worse
    than stopping.
    """
    draws: dict[DrawKey, Draw] = {}
    sessions: list[dict[str, Any]] = []
    current: dict[str, Any] = {}
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            record = json.loads(line)
            if "draw" in record:
                draw = Draw(**record["draw"])
                draws.setdefault(draw.key, draw)
                _count(draw, current)
            elif "end" in record:
                current |= record["end"]
            else:
                sessions.append(record["session"])
                if "began" in record["session"]:
                    current = sessions[-1]
                    current |= {"draws": 0, "completion_tokens": 0}
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}: line {number} is damaged; move the file away") from error
    return JournalContent(draws, sessions, len(whole))


def _count(draw: Draw, session: dict[str, Any]) -> None:
    if "draws" in session:
        session["draws"] += 1
        session["completion_tokens"] += draw.completion_tokens or 0


class Journal:
    """A journal open for writing by this process alone.

    Use as a context manager. `draws` holds what is already there. Raises JournalBusy if another
    job still writes it after `patience_s` seconds.
    """

    def __init__(self, path: Path, patience_s: float = 60) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        self._lock(patience_s)
        content = read_journal(path)
        self.draws = content.draws
        if path.stat().st_size > content.whole_bytes:
            os.truncate(path, content.whole_bytes)

    def _lock(self, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    self._file.close()
                    raise JournalBusy(
                        f"{self.path}: another job{self._writer()} is writing it; wait for its end,"
                        " or end it"
                    ) from None
                time.sleep(0.2)

    def _writer(self) -> str:
        """Say on which machine the job runs that has the journal, by its last session."""
        hosts = [each["host"] for each in read_journal(self.path).sessions if "host" in each]
        return f" on {hosts[-1]}" if hosts else ""

    def _append(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record, ensure_ascii=True).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def begin_session(self, facts: Mapping[str, Any]) -> None:
        """Write what is about to draw: engine, versions, machine, time."""
        self._append({"session": dict(facts)})

    def end_session(self, facts: Mapping[str, Any]) -> None:
        """Write that what was about to draw is through."""
        self._append({"end": dict(facts)})

    def append(self, draw: Draw) -> None:
        """Write a finished draw to disk. Raises ValueError if it is there already."""
        if draw.key in self.draws:
            raise ValueError(f"{self.path}: draw {draw.key} was made twice")
        self._append({"draw": {k: v for k, v in vars(draw).items() if v is not None}})
        self.draws[draw.key] = draw

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
