"""The keeper of an engine: starts a server and sees to it that it ends.

    python -m llm_variability.devices.keeper SPEC

It ends the server's whole process tree when the run that owns it is gone, when no job has held
the lease for a while, when the server dies, and on SIGTERM.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from llm_variability.devices.processes import ProcessId, kill_tree

MARK = "LLM_VARIABILITY_ENGINE"
"""Environment variable that marks every process of an engine, so that none can be orphaned."""

ENDING = "ending"
"""File beside an engine's socket that says that its keeper is about to end it."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class EngineSpec:
    """What an engine is started from.

    folder: its own, in that of the machine's lease. owner: the run it serves. idle_s: how long it
    may stay unused.
    """

    model_name: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    folder: str
    log: str
    owner_pid: int
    owner_created: float
    idle_s: float

    @property
    def owner(self) -> ProcessId:
        return ProcessId(self.owner_pid, self.owner_created)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _die_with_parent() -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_marked(mark: str) -> int:
    """Kill every process of an engine that outlived its keeper; returns how many there were."""
    needle = f"{MARK}={mark}".encode()
    ended = 0
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            environ = Path(f"/proc/{process.pid}/environ").read_bytes()
            if needle in environ.split(b"\0") and process.pid != os.getpid():
                process.kill()
                ended += 1
    return ended


@contextmanager
def try_lock(path: Path, how: int) -> Iterator[bool]:
    """Hold a file lock for the body if it is free; yields whether it was."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def post_guard(mark: str) -> int:
    """Fork a guard that ends the engine if its keeper is killed before it can.

    It waits for the end of a pipe that only the keeper holds, so no way of dying escapes it.
    Returns the pipe's writing end, to be kept open.
    """
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.close(writing)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.read(reading, 1)
        end_marked(mark)
        os._exit(0)
    os.close(reading)
    return writing


class _Stop(Exception):
    """A reason to end the engine."""


def _watch(server: subprocess.Popen[bytes], spec: EngineSpec, folder: Path) -> None:
    used = time.monotonic()
    while True:
        if server.poll() is not None:
            raise _Stop(f"the server ended with exit status {server.returncode}")
        if not spec.owner.alive:
            raise _Stop(f"the run it belongs to (process {spec.owner_pid}) is gone")
        # Only under the lease's own lock, so that nobody takes this look for a use.
        with try_lock(folder.parent / "lock", fcntl.LOCK_EX) as quiet:
            if quiet:
                with try_lock(folder / "users", fcntl.LOCK_EX) as unused:
                    if not unused:
                        used = time.monotonic()
                    elif time.monotonic() - used > spec.idle_s:
                        (folder / ENDING).touch()
                        raise _Stop(f"no job used it for {spec.idle_s:g} s")
        time.sleep(0.5)


def keep(spec: EngineSpec) -> None:
    """Run the server until there is a reason to stop, then end all of it."""
    folder = Path(spec.folder)

    def say(text: str) -> None:
        print(f"engine: {time.strftime('%Y-%m-%d %H:%M:%S')} {spec.model_name}: {text}", flush=True)

    def stop(number: int, frame: object) -> None:
        raise _Stop(f"signal {signal.Signals(number).name}")

    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    mark = f"{os.getpid()}-{psutil.Process().create_time()}"
    guard = post_guard(mark)
    server: subprocess.Popen[bytes] | None = None
    reason = "?"
    try:
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        (folder / "mark").write_text(mark)
        say("load begins")
        server = subprocess.Popen(
            list(spec.command),
            # vLLM renames its processes, which overwrites their environment, and with it the mark,
            # unless setproctitle is told to leave it alone.
            env={**os.environ, **dict(spec.environment), MARK: mark, "SPT_NOENV": "1"},
            stdin=subprocess.DEVNULL,
            cwd=folder,
            preexec_fn=_die_with_parent,  # noqa: PLW1509
        )
        _watch(server, spec, folder)
    except _Stop as stopped:
        reason = str(stopped)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        say(f"stops, since {reason}")
        if server is not None and server.poll() is None:
            kill_tree(psutil.Process(server.pid), grace_s=10)
        end_marked(mark)
        os.close(guard)
        say("stopped")


def main() -> None:
    fields = json.loads(sys.argv[1])
    fields["command"] = tuple(fields["command"])
    fields["environment"] = tuple((key, value) for key, value in fields["environment"])
    keep(EngineSpec(**fields))


def spawn_keeper(spec: EngineSpec) -> ProcessId:
    """Start the keeper of an engine, apart from this job: it outlives it."""
    log = Path(spec.log)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "llm_variability.devices.keeper", json.dumps(asdict(spec))],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return ProcessId.of(psutil.Process(keeper.pid))


if __name__ == "__main__":
    main()
