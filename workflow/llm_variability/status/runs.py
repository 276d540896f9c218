"""Whether a run is at work in a results folder, told without touching its lock."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from llm_variability.preflight import RunLock

LOCKS = Path("/proc/locks")

_OWNER = re.compile(r"run (\d+) on (\S+)")
_SLACK_S = 2.0

RunState = Literal["at work", "elsewhere", "gone"]


@dataclass(frozen=True)
class Run:
    """The run that took a results folder last.

    pid, host: None while it writes them. began: seconds of the epoch. state: `at work`; `gone`; or
    `elsewhere`, on another machine, whose locks cannot be seen from here.
    """

    pid: int | None
    host: str | None
    began: float
    state: RunState


def holds_lock(locks: str, status: os.stat_result, pid: int | None) -> bool:
    """Tell whether somebody holds a file lock (flock) on a file.

    locks: the text of /proc/locks. status: of the file. pid: who is said to hold it. The kernel's
    device number is not the file's on every file system; there, the process tells.
    """
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    for line in locks.splitlines():
        fields = line.split()
        if len(fields) < 6 or fields[1] != "FLOCK":
            continue
        on, _, inode = fields[5].rpartition(":")
        if inode == str(status.st_ino) and (on == device or fields[4] == str(pid)):
            return True
    return False


def _is_alive(pid: int | None, began: float) -> bool:
    """Tell whether a process that may have taken a lock then is still there."""
    try:
        return pid is not None and psutil.Process(pid).create_time() <= began + _SLACK_S
    except psutil.Error:
        return False


def find_run(results: Path, locks: Path = LOCKS) -> Run | None:
    """Find the run that took the results folder last; None if there never was one.

    No lock is tried: a run that begins at that moment would be refused. The kernel's list of locks
    says who holds one; where there is none, whether the process is alive.
    """
    path = RunLock(str(results)).path
    try:
        status = path.stat()
        owner = _OWNER.match(path.read_text("utf-8", "replace")[:200])
    except OSError:
        return None
    pid, host = (int(owner[1]), owner[2]) if owner else (None, None)
    state: RunState = "gone"
    if host is not None and host != os.uname().nodename:
        state = "elsewhere"
    else:
        try:
            is_held = holds_lock(locks.read_text(), status, pid)
        except OSError:
            is_held = _is_alive(pid, status.st_mtime)
        state = "at work" if is_held else "gone"
    return Run(pid, host, status.st_mtime, state)
