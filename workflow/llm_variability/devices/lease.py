"""The lease of a device: which engine runs there, and who may use it.

All jobs of a run that want the same model share one engine; another model's job waits until no job
uses it, ends that engine and starts its own. Two runs never share an engine.

Two file locks order this. `lock` is held while the engine is looked at or changed. `users` is
held shared by each job that uses the engine, so it can be had exclusively only when nobody does.
The kernel drops both when a process dies, however it dies.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import logging
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from llm_variability.devices.keeper import EngineSpec, end_marked, spawn_keeper, try_lock
from llm_variability.devices.processes import ProcessId, find_owner, kill_tree

log = logging.getLogger(__name__)

IDLE_S = 300.0
_POLL_S = 0.2


class EngineFailed(OSError):
    """The engine did not come up, or is gone."""


@dataclass(frozen=True)
class EngineRequest:
    """What a job wants: a model served in a certain way.

    command: from the engine's socket to the command that serves it; environment: what it runs
    under. Two requests with equal `identity` can share an engine.
    """

    model_name: str
    identity: str
    command: Callable[[Path], list[str]]
    environment: Mapping[str, str]
    log: Path
    load_timeout_s: float


def lease_folder() -> Path:
    """Give the folder of this machine's (scheduler job's, device's) lease, made if need be.

    It lies under the system's temporary folder, since a Unix socket's path is at most 107 bytes
    and a lease means nothing on another machine. Raises EngineFailed if someone else owns it.
    """
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
    where = f"{socket.gethostname()}/{os.environ.get('SLURM_JOB_ID', '')}/{device}"
    key = hashlib.blake2b(where.encode(), digest_size=6).hexdigest()
    base = Path(tempfile.gettempdir())
    if len(str(base)) > 60:
        base = Path("/tmp")  # noqa: S108
    folder = base / f"llm-variability-{os.getuid()}-{key}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise EngineFailed(f"{folder} is not this user's alone; remove it")
    return folder


@contextmanager
def _locked(path: Path, waiting_for: str) -> Iterator[IO[str]]:
    with path.open("a") as file:
        _wait_lock(file, fcntl.LOCK_EX, waiting_for)
        yield file


def _wait_lock(file: IO[str], how: int, waiting_for: str) -> None:
    begun, told = time.monotonic(), False
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not told and time.monotonic() - begun > 2:
                log.info("waiting for %s", waiting_for)
                told = True
            time.sleep(_POLL_S)


def ping(path: Path, timeout_s: float = 30) -> bool:
    """Tell whether a healthy server answers on a Unix socket."""
    connection = http.client.HTTPConnection("engine", timeout=timeout_s)
    try:
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(timeout_s)
        connection.sock.connect(str(path))
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _read_state(folder: Path) -> dict[str, Any] | None:
    try:
        state: dict[str, Any] = json.loads((folder / "state.json").read_text())
        return state
    except (OSError, ValueError):
        return None


def _write_state(folder: Path, state: Mapping[str, Any]) -> None:
    temporary = folder / "state.json.tmp"
    temporary.write_text(json.dumps(state))
    temporary.replace(folder / "state.json")


def _process_of(pair: list[float]) -> ProcessId:
    return ProcessId(int(pair[0]), pair[1])


def _end_engine(folder: Path, state: Mapping[str, Any] | None) -> None:
    """End whatever engine this lease has, its left-over processes included."""
    if state is not None and (keeper := _process_of(state["keeper"]).process()) is not None:
        log.info("ending the engine of %s", state["model"])
        kill_tree(keeper, grace_s=20)
    if (folder / "mark").exists():
        end_marked((folder / "mark").read_text())
    for name in ("engine.sock", "state.json", "mark"):
        (folder / name).unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _last_lines(path: Path, since: int, count: int = 5) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(since, path.stat().st_size - 8192))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return " | ".join((errors or lines)[-count:])


def _start_engine(folder: Path, request: EngineRequest, owner: ProcessId) -> None:
    path = folder / "engine.sock"
    log.info("loading %s (engine log: %s)", request.model_name, request.log)
    spec = EngineSpec(
        model_name=request.model_name,
        command=tuple(request.command(path)),
        environment=tuple(request.environment.items()),
        folder=str(folder),
        log=str(request.log.resolve()),
        owner_pid=owner.pid,
        owner_created=owner.created,
        idle_s=float(os.environ.get("LLM_VARIABILITY_IDLE_S", IDLE_S)),
    )
    begun, log_size = time.monotonic(), _size(request.log)
    keeper = spawn_keeper(spec)
    state = {
        "keeper": [keeper.pid, keeper.created],
        "owner": [owner.pid, owner.created],
        "identity": request.identity,
        "model": request.model_name,
        "folder": os.getcwd(),
    }
    _write_state(folder, state)
    while not (path.exists() and ping(path)):
        waited = time.monotonic() - begun
        if not keeper.alive:
            _end_engine(folder, state)
            told = _last_lines(request.log, since=log_size)
            raise EngineFailed(f"the engine of {request.model_name} did not start: {told}")
        if waited > request.load_timeout_s:
            _end_engine(folder, state)
            raise EngineFailed(
                f"the engine of {request.model_name} did not load within"
                f" {request.load_timeout_s:g} s (load_timeout_s); its log is {request.log}"
            )
        time.sleep(_POLL_S)
    log.info("%s is loaded after %.0f s", request.model_name, time.monotonic() - begun)


def _is_ours(state: Mapping[str, Any], request: EngineRequest, owner: ProcessId) -> bool:
    same_run = _process_of(state["owner"]) == owner
    same_engine = state["identity"] == request.identity
    # A server whose keeper is gone is about to die, though it may still answer.
    return same_run and same_engine and _process_of(state["keeper"]).alive


def _foreign_run(state: Mapping[str, Any] | None, owner: ProcessId) -> str | None:
    """Tell which other living run has its engine here, if one has."""
    if state is None:
        return None
    other, keeper = _process_of(state["owner"]), _process_of(state["keeper"])
    if other == owner or not other.alive or not keeper.alive:
        return None
    return f"run {other.pid} in {state['folder']}, whose engine of {state['model']} is here"


@contextmanager
def _our_turn(folder: Path, owner: ProcessId) -> Iterator[dict[str, Any] | None]:
    """Hold `lock` for the body, once no other living run is on this device; yields the state."""
    told: str | None = None
    while True:
        with _locked(folder / "lock", "the engine"):
            state = _read_state(folder)
            other = _foreign_run(state, owner)
            if other is None:
                yield state
                return
        if other != told:
            log.info("waiting for %s", other)
            told = other
        time.sleep(2)


@contextmanager
def _queue(folder: Path) -> Iterator[Callable[[], bool]]:
    """Stand in the queue of those who want to change what is on the device.

    Yields a function that tells whether nobody came earlier. A place in the queue is a locked
    file, so that those who died stand there no more.
    """
    places = folder / "queue"
    places.mkdir(exist_ok=True)
    own = places / f"{time.time_ns():020d}-{os.getpid()}"

    def is_first() -> bool:
        for place in sorted(places.iterdir()):
            if place == own:
                return True
            with suppress(FileNotFoundError), try_lock(place, fcntl.LOCK_EX) as left:
                if not left:
                    return False
                place.unlink()
        return True

    with own.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield is_first
        finally:
            own.unlink(missing_ok=True)


def _try_flock(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take(
    folder: Path,
    users: IO[str],
    join: Callable[[dict[str, Any]], bool],
    change: Callable[[dict[str, Any] | None], None],
) -> None:
    """Join the users of what is on the device, or change it once they are done.

    Whoever wants what is there joins at once, also past those who wait to change it: that loads
    fewer engines, and they only wait for as many jobs as there are. Those who change it do so in
    the order in which they came. Afterwards `users` is locked by this process.
    """
    told = False
    owner = find_owner()
    with _queue(folder) as is_first:
        while True:
            with _our_turn(folder, owner) as state:
                if state is not None and join(state):
                    _wait_lock(users, fcntl.LOCK_SH, "the engine")
                    return
                if is_first() and _try_flock(users, fcntl.LOCK_EX):
                    change(state)
                    return
            if not told:
                what = state["model"] if state else "the device"
                log.info("waiting for the last job that uses %s", what)
                told = True
            time.sleep(_POLL_S)


@contextmanager
def lease_engine(request: EngineRequest) -> Iterator[Path]:
    """Use the engine of a model for the body; yields its socket.

    Waits for jobs that use another model, and for other runs on this device. Raises EngineFailed
    if the engine does not come up.
    """
    folder, owner = lease_folder(), find_owner()
    path = folder / "engine.sock"
    with (folder / "users").open("a") as users:

        def change(state: dict[str, Any] | None) -> None:
            _end_engine(folder, state)
            _start_engine(folder, request, owner)
            _wait_lock(users, fcntl.LOCK_SH, "the engine")

        _take(folder, users, lambda state: _is_ours(state, request, owner) and ping(path), change)
        yield path


@contextmanager
def lease_device() -> Iterator[None]:
    """Have the device alone for the body: no engine is on it, and none is started meanwhile.

    Waits for the jobs that use the engine, then ends it; waits for other runs on this device.
    """
    folder = lease_folder()
    with (folder / "users").open("a") as users:
        _take(folder, users, lambda state: False, lambda state: _end_engine(folder, state))
        yield
