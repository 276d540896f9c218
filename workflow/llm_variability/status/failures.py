"""What failed in the last run, by the log that Snakemake keeps of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

_ERROR = re.compile(r"Error in rule (\S+):$")
_ERROR_OF_MEMBER = re.compile(r" {4}Error in rule \S+:$")
_GROUP = "Error in group "
_MEMBER = re.compile(r" {8}rule (\S+):$")
_FIELD = re.compile(r" +(jobid|log|wildcards|message): (.*)$")
_FINISHED = re.compile(r"Finished jobid: (\d+)\b")
_STEPS = re.compile(r"(\d+) of (\d+) steps \(")
_AGAIN = re.compile(r"Trying to restart job (\d+)\.")
_NAMED = re.compile(r"(\d{4}-\d\d-\d\dT\d{6}(?:\.\d+)?)\.snakemake\.log")
_SLURM = "slurmstepd: error: "
_TAIL_BYTES = 8192
_SLACK_S = 2.0

Outcome = Literal["under way", "done", "failed"]


@dataclass(frozen=True)
class Failure:
    """A job that failed and did not succeed later in the run.

    A group that a cluster ran as one job is one failure. rule: of the job; of a group its rules.
    jobs: how many. wildcards: as Snakemake writes them. log: as the run names it. told: the last
    line of the log. message: of the cluster, why it ended the job. is_tried_again: whether the run
    tries it again.
    """

    rule: str
    jobs: int
    wildcards: str
    log: str | None
    told: str | None
    message: str | None
    is_tried_again: bool


@dataclass(frozen=True)
class RunLog:
    """What Snakemake's log says of a run.

    began: seconds of the epoch, None if its name does not tell. steps, steps_done: None before the
    first is done. outcome: `under way` also of a run that was killed. recovered: jobs that failed
    and succeeded later. written: when the log was written to last.
    """

    path: Path
    began: float | None
    written: float
    steps: int | None
    steps_done: int | None
    outcome: Outcome
    failures: tuple[Failure, ...]
    recovered: int


@dataclass
class _Error:
    """A block of the log that tells of an error.

    message: of the cluster. log: of a group, that of the cluster. members: (job, rule, log).
    """

    message: str | None = None
    log: str | None = None
    members: list[tuple[int, str, str | None]] = field(default_factory=list)


@dataclass
class _Parsed:
    errors: list[_Error] = field(default_factory=list)
    wildcards: dict[int, str] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    steps: tuple[int, int] | None = None
    is_closed: bool = False


def list_candidates(results: Path, configured: str, directory: Path | None) -> list[Path]:
    """List the folders a run may have worked in, the likeliest first.

    configured: the results folder as the configuration has it. directory: where the user says.
    """
    if directory is not None:
        return [directory]
    absolute = results.absolute()
    parts = Path(configured).parts
    found = []
    if not Path(configured).is_absolute() and absolute.parts[-len(parts) :] == parts:
        found.append(Path(*absolute.parts[: -len(parts)]))
    return list(dict.fromkeys([*found, Path.cwd(), *absolute.parents]))


def find_log(results: Path, configured: str, directory: Path | None = None) -> Path | None:
    """Find the newest log of a run that worked on a results folder; None if there is none here.

    A working folder may have runs of several results folders, so a log is taken only if a job in
    it has files in this one.
    """
    mark = f" {configured.rstrip('/')}/"
    for folder in list_candidates(results, configured, directory):
        try:
            logs = sorted(folder.glob(".snakemake/log/*.snakemake.log"), reverse=True)
        except OSError:
            continue
        for log in logs:
            if _names(log, mark):
                return log
    return None


def _names(log: Path, mark: str) -> bool:
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            return any(
                mark in line and line.startswith(("    output: ", "    log: ", "    input: "))
                for line in lines
            )
    except OSError:
        return False


def _read_lines(lines: Iterator[str]) -> _Parsed:
    """Read a log in the form that Snakemake 9 gives it."""
    parsed = _Parsed()
    error: _Error | None = None
    job: int | None = None
    for line in lines:
        line = line.rstrip("\n")
        if not line.startswith(" "):
            # Blocks are indented, so anything else ends one.
            error = job = None
        if _ERROR_OF_MEMBER.match(line):
            error = None  # told with its group already
        elif found := _ERROR.match(line):
            error = _Error(members=[(-1, found[1], None)])
            parsed.errors.append(error)
        elif error is not None and (found := _MEMBER.match(line)):
            error.members.append((-1, found[1], None))
        elif found := _FIELD.match(line):
            key, value = found.groups()
            if error is None and key == "message" and value.startswith(_GROUP):
                error = _Error()
                parsed.errors.append(error)
            elif error is not None:
                _set_field(error, key, value)
                if key == "jobid" and value.isdigit():
                    parsed.again.discard(int(value))
            elif key == "jobid":
                job = int(value) if value.isdigit() else None
            elif key == "wildcards" and job is not None:
                parsed.wildcards[job] = value
        elif found := _FINISHED.match(line):
            parsed.finished.add(int(found[1]))
        elif found := _AGAIN.match(line):
            parsed.again.add(int(found[1]))
        elif found := _STEPS.match(line):
            parsed.steps = int(found[1]), int(found[2])
        elif line.startswith("Complete log(s): "):
            parsed.is_closed = True
    parsed.errors = [each for each in parsed.errors if each.members]
    return parsed


def _set_field(error: _Error, key: str, value: str) -> None:
    value = value.removesuffix(" (check log file(s) for error details)")
    if key == "message":
        error.message = None if value == "None" else value
        return
    if not error.members:
        # Of a group; those of its jobs come after it.
        if key == "log":
            error.log = value
        return
    job, rule, log = error.members[-1]
    if key == "jobid" and value.isdigit():
        job = int(value)
    elif key == "log":
        log = value
    error.members[-1] = job, rule, log


def read_last_line(path: Path, mark: str = "") -> str | None:
    """Read the last line of a log that says something and has the mark; None without one."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    return next((line.strip() for line in reversed(lines) if line.strip() and mark in line), None)


def _newest(logs: list[str], folder: Path) -> str | None:
    """Name the log that was written last; the first if none is there."""
    times = []
    for log in logs:
        try:
            times.append(((folder / log).stat().st_mtime, log))
        except OSError:
            continue
    return max(times)[1] if times else next(iter(logs), None)


def _describe(error: _Error, parsed: _Parsed, folder: Path) -> Failure:
    jobs = [job for job, _, _ in error.members]
    logs = [log.split(", ")[0] for _, _, log in error.members if log is not None]
    log = _newest(logs, folder) or error.log
    rules = list(dict.fromkeys(rule for _, rule, _ in error.members))
    message = error.message
    if error.log is not None:
        message = read_last_line(folder / error.log, _SLURM)
    return Failure(
        rule=", ".join(rules),
        jobs=len(jobs),
        wildcards=parsed.wildcards.get(jobs[0], "") if len(jobs) == 1 else "",
        log=log,
        told=None if log is None else read_last_line(folder / log),
        message=message,
        is_tried_again=any(job in parsed.again for job in jobs),
    )


def read_log(path: Path) -> RunLog:
    """Read Snakemake's log of a run. Raises OSError if it cannot be read."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        parsed = _read_lines(lines)
    # The last error of a job counts, where it was tried more than once.
    latest = {tuple(job for job, _, _ in each.members): each for each in parsed.errors}
    lasting = [
        each for jobs, each in latest.items() if not all(job in parsed.finished for job in jobs)
    ]
    folder = path.parents[2]
    failures = [_describe(each, parsed, folder) for each in lasting]
    if parsed.is_closed:
        failures = [replace(each, is_tried_again=False) for each in failures]
    outcome: Outcome = "under way"
    if parsed.is_closed:
        whole = parsed.steps is not None and parsed.steps[0] == parsed.steps[1]
        outcome = "done" if whole and not failures else "failed"
    name = _NAMED.fullmatch(path.name)
    began = None
    if name is not None:
        began = datetime.fromisoformat(name[1]).timestamp()
    return RunLog(
        path,
        began,
        path.stat().st_mtime,
        None if parsed.steps is None else parsed.steps[1],
        None if parsed.steps is None else parsed.steps[0],
        outcome,
        tuple(failures),
        len(latest) - len(lasting),
    )


def forget_older(log: RunLog, run_began: float) -> RunLog:
    """Take nothing from a log that was closed before a run began, whose own names no file yet."""
    if log.outcome == "under way" or log.written >= run_began - _SLACK_S:
        return log
    return replace(log, steps=None, steps_done=None, outcome="under way", failures=(), recovered=0)
