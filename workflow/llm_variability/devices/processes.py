"""Which run a job belongs to, and whether that run still lives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

import psutil


@dataclass(frozen=True)
class ProcessId:
    """A process, told apart from a later one with the same number by when it began."""

    pid: int
    created: float

    @classmethod
    def of(cls, process: psutil.Process) -> ProcessId:
        return cls(process.pid, process.create_time())

    def process(self) -> psutil.Process | None:
        """Give the living process, or None."""
        try:
            found = psutil.Process(self.pid)
            alive = (
                abs(found.create_time() - self.created) < 1
                and found.status() != psutil.STATUS_ZOMBIE
            )
        except psutil.NoSuchProcess:
            return None
        return found if alive else None

    @property
    def alive(self) -> bool:
        return self.process() is not None


def _is_snakemake(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()[:3]
    except psutil.Error:
        return False
    names = [PurePath(word).name for word in words]
    return "snakemake" in names[:2] or names[1:] == ["-m", "snakemake"]


def find_owner() -> ProcessId:
    """Find the outermost Snakemake process above this one; without one, this process itself."""
    here = psutil.Process()
    runs = [process for process in here.parents() if _is_snakemake(process)]
    return ProcessId.of(runs[-1] if runs else here)


def kill_tree(process: psutil.Process, grace_s: float) -> None:
    """End a process and all its descendants: SIGTERM, then SIGKILL after `grace_s` seconds."""
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for member in family[:1]:
        _signal(member, terminate=True)
    _, alive = psutil.wait_procs(family, timeout=grace_s)
    for member in alive:
        _signal(member, terminate=False)
    psutil.wait_procs(alive, timeout=grace_s)


def _signal(process: psutil.Process, terminate: bool) -> None:
    try:
        process.terminate() if terminate else process.kill()
    except psutil.NoSuchProcess:
        return
