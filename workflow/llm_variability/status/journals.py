"""What stands in a journal, by a scan that reads no answer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

# How a draw begins and ends whose answer begins with a letter, digit or sign of ASCII: it is not
# empty. Others are read whole. Journals are ASCII JSON, in which a quotation mark inside a text
# stands behind a backslash, so the end cannot be found in an answer.
_BEGIN = re.compile(
    rb'\{"draw": \{"prompt_id": "([^"\\]*)", "replicate": ([0-9]+), "seed": -?[0-9]+,'
    rb' "raw": "[!#-\[\]-~]'
)
_FINISH = b', "finish_reason": "'
_END = re.compile(
    rb', "finish_reason": "([a-z_]+)"(?:, "prompt_tokens": [0-9]+)?'
    rb'(?:, "completion_tokens": ([0-9]+))?\}\}'
)

Key = tuple[str, int]


class Seen(NamedTuple):
    """What a draw came to. tokens: of its answer. flaw: `failed`, `empty`, `cut` or none."""

    tokens: int
    flaw: str | None


@dataclass
class Scan:
    """What was read of a journal.

    draws: by prompt and replicate. began: the last session, in seconds of the epoch; None before
    one. session_tokens: generated since. written: when the file was last written to.
    """

    draws: dict[Key, Seen] = field(default_factory=dict)
    began: float | None = None
    session_tokens: int = 0
    written: float = 0.0
    read_to: int = 0
    inode: int = -1

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens a second of the last session, up to the last draw; None if it has no length."""
        if self.began is None or self.written <= self.began:
            return None
        return self.session_tokens / (self.written - self.began)


def _see_draw(line: bytes) -> tuple[Key, Seen] | None:
    """Read a draw; None if the line is none, or damaged."""
    begin = _BEGIN.match(line)
    end = _END.fullmatch(line, max(line.rfind(_FINISH), 0)) if begin else None
    if begin is None or end is None:
        return _see_any_draw(line)
    seen = Seen(int(end[2] or 0), "cut" if end[1] == b"length" else None)
    return (begin[1].decode(), int(begin[2])), seen


def _see_any_draw(line: bytes) -> tuple[Key, Seen] | None:
    """Read a draw that has an error or no answer, or is written in another way than today's."""
    try:
        draw = json.loads(line)["draw"]
        key = str(draw["prompt_id"]), int(draw["replicate"])
        flaw = None
        if draw.get("error") is not None:
            flaw = "failed"
        elif not (draw.get("raw") or "").strip():
            flaw = "empty"
        elif draw.get("finish_reason") == "length":
            flaw = "cut"
        return key, Seen(int(draw.get("completion_tokens") or 0), flaw)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _began(line: bytes) -> float | None:
    """Read when a session began; None for a line that says something else."""
    try:
        return datetime.fromisoformat(json.loads(line)["session"]["began"]).timestamp()
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def scan_lines(lines: Iterable[bytes], scan: Scan) -> None:
    """Add whole lines to a scan. A damaged one counts for nothing."""
    for line in lines:
        if line.startswith(b'{"session"'):
            began = _began(line)
            if began is not None:
                scan.began, scan.session_tokens = began, 0
            continue
        found = _see_draw(line)
        if found is not None and found[0] not in scan.draws:
            scan.draws[found[0]] = found[1]
            scan.session_tokens += found[1].tokens


class JournalReader:
    """Reads journals that grow: asked again, it reads what is new."""

    def __init__(self) -> None:
        self._scans: dict[Path, Scan] = {}

    def read(self, path: Path) -> Scan:
        """Scan a journal's whole lines; an empty scan for a file that is gone."""
        try:
            with path.open("rb") as file:
                status = os.fstat(file.fileno())
                scan = self._scans.get(path)
                if scan is None or scan.inode != status.st_ino or status.st_size < scan.read_to:
                    scan = Scan(inode=status.st_ino)
                file.seek(scan.read_to)
                content = file.read()
        except OSError:
            return Scan()
        whole = content[: content.rfind(b"\n") + 1]
        scan_lines(whole.splitlines(), scan)
        scan.read_to += len(whole)
        scan.written = status.st_mtime
        self._scans[path] = scan
        return scan


@dataclass(frozen=True)
class Tally:
    """Draws that are wanted and made, and what became of them.

    tokens: of the answers. failed: refused by the server. empty: nothing came. cut: ended by the
    longest answer allowed.
    """

    done: int = 0
    tokens: int = 0
    failed: int = 0
    empty: int = 0
    cut: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.done + other.done,
            self.tokens + other.tokens,
            self.failed + other.failed,
            self.empty + other.empty,
            self.cut + other.cut,
        )


def tally_scan(scan: Scan, wanted: Mapping[str, int]) -> Tally:
    """Count the draws of a scan that are wanted. wanted: draws by prompt."""
    flaws = {"failed": 0, "empty": 0, "cut": 0}
    done = tokens = 0
    for (prompt, replicate), seen in scan.draws.items():
        if replicate < wanted.get(prompt, 0):
            done += 1
            tokens += seen.tokens
            if seen.flaw is not None:
                flaws[seen.flaw] += 1
    return Tally(done, tokens, **flaws)
