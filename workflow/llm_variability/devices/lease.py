"""The lease of a machine's devices: which engine runs where, and who may use it.

All jobs of a run that want the same model share one engine. Another model's engine goes on devices
that are free; if there are too few, engines that no job uses make room, or it waits. Two runs never
share an engine and never end each other's, but they may go on side by side, each on devices of its
own.
"""

from __future__ import annotations

import fcntl
import http.client
import logging
import os
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from llm_variability.devices.inventory import (
    describe_devices,
    list_devices,
    require_devices,
    show_devices,
)
from llm_variability.devices.keeper import EngineSpec, spawn_keeper
from llm_variability.devices.places import (
    EngineFailed,
    Place,
    State,
    give_place,
    lease_folder,
    locked,
    survey,
    try_flock,
)
from llm_variability.devices.placing import Choice, Earlier, Occupant, choose_devices
from llm_variability.devices.processes import ProcessId, find_owner
from llm_variability.devices.queue import Want, queued

log = logging.getLogger(__name__)

IDLE_S = 300.0
_POLL_S = 0.2
_POLL_ANOTHER_RUN_S = 2.0


@dataclass(frozen=True)
class EngineRequest:
    """What a job wants: a model served in a certain way.

    command: from the engine's socket to the command that serves it; environment: what it runs
    under. Two requests with equal `identity` can share an engine. device_count: the devices it
    takes. on_cpu: it uses no GPU, so that the ids of its devices mean nothing to it.
    """

    model_name: str
    identity: str
    command: Callable[[Path], list[str]]
    environment: Mapping[str, str]
    log: Path
    load_timeout_s: float
    device_count: int = 1
    on_cpu: bool = False


@dataclass(frozen=True)
class LeasedEngine:
    """An engine that a job may use: its socket, and the ids of the devices it runs on."""

    socket: Path
    devices: tuple[str, ...]


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


def _start_engine(place: Place, request: EngineRequest) -> Place:
    """Load a model in a new place, which this process then uses like any other job."""
    state = place.state
    log.info(
        "loading %s on %s (engine log: %s)",
        request.model_name,
        describe_devices(state.devices),
        request.log,
    )
    shown = show_devices(state.devices, request.on_cpu)
    spec = EngineSpec(
        model_name=request.model_name,
        command=tuple(request.command(place.socket)),
        environment=tuple({**request.environment, **shown}.items()),
        folder=str(place.path),
        log=str(request.log.resolve()),
        owner_pid=state.owner.pid,
        owner_created=state.owner.created,
        idle_s=float(os.environ.get("LLM_VARIABILITY_IDLE_S", IDLE_S)),
    )
    begun, log_size = time.monotonic(), _size(request.log)
    keeper = spawn_keeper(spec)
    place = place.become(replace(state, keeper=keeper))
    while not (place.socket.exists() and ping(place.socket)):
        waited = time.monotonic() - begun
        if not keeper.alive:
            place.clear()
            told = _last_lines(request.log, since=log_size)
            raise EngineFailed(f"the engine of {request.model_name} did not start: {told}")
        if waited > request.load_timeout_s:
            place.clear()
            raise EngineFailed(
                f"the engine of {request.model_name} did not load within"
                f" {request.load_timeout_s:g} s (load_timeout_s); its log is {request.log}"
            )
        time.sleep(_POLL_S)
    log.info("%s is loaded after %.0f s", request.model_name, time.monotonic() - begun)
    with locked(place.path.parent):
        place = place.become(replace(place.state, ready=True))
        fcntl.flock(place.users, fcntl.LOCK_SH)
    return place


def _say_why(places: Sequence[Place], want: Want) -> str:
    """Say for whom one waits who wants some of the devices."""
    reasons = []
    for place in places:
        state = place.state
        if not set(state.devices) & set(want.devices):
            continue
        if state.owner != want.owner:
            what = "encoder" if state.model is None else f"engine of {state.model}"
            where = describe_devices(state.devices)
            reasons.append(f"run {state.owner.pid} in {state.folder}, whose {what} is on {where}")
        elif not place.idle:
            reasons.append(
                "the encoder" if state.model is None else f"the last job that uses {state.model}"
            )
    return ", or ".join(dict.fromkeys(reasons)) or "those who came earlier"


def _choose(places: Sequence[Place], want: Want, queue: Sequence[Want]) -> Choice | None:
    """Choose devices, and the places to clear for them; None if they cannot be had yet."""
    occupants = [
        Occupant(
            name=place.path.name,
            devices=place.state.devices,
            evictable=place.idle and place.state.owner == want.owner,
            used=place.used,
        )
        for place in places
    ]
    # Who waits for an engine that is there, or is being loaded, takes no devices.
    earlier = [
        Earlier(other.devices, other.owner == want.owner)
        for other in queue
        if not any(other.is_met_by(place.state) for place in places)
    ]
    return choose_devices(want.count, want.devices, occupants, earlier)


@dataclass(frozen=True)
class _Turn:
    """What came of one look: a place, with those to clear first, or None and for whom to wait."""

    place: Place | None = None
    evicted: tuple[Place, ...] = ()
    reason: str = ""
    another_run: bool = False


def _take_turn(
    folder: Path, want: Want, distrusted: Collection[ProcessId], earlier: Callable[[], list[Want]]
) -> _Turn:
    """Join the engine that is wanted, or take devices for it, or say for whom to wait.

    distrusted: keepers of engines that did not answer.
    """
    with locked(folder), ExitStack() as opened:
        places = survey(folder, want.owner, distrusted, opened)
        for place in places:
            if want.is_met_by(place.state):
                usable = place.state.kept and place.state.keeper not in distrusted
                if place.state.ready and usable and try_flock(place.users, fcntl.LOCK_SH):
                    place.touch()
                    return _Turn(place.keep())
                if place.state.ready:
                    return _Turn(reason=f"the last job that uses {want.model}")
                return _Turn(reason=f"the job that loads {want.model}")
        choice = _choose(places, want, earlier())
        if choice is None:
            another_run = any(place.state.owner != want.owner for place in places)
            return _Turn(reason=_say_why(places, want), another_run=another_run)
        state = State(want.owner, want.identity, want.model, os.getcwd(), choice.devices)
        place = give_place(folder, state, opened)
        evicted = tuple(each.keep() for each in places if each.path.name in choice.evicted)
        return _Turn(place.keep(), evicted)


@contextmanager
def _placed(want: Want) -> Iterator[Place]:
    """Have a place for the body: that of the engine that is wanted, or a new one, still empty.

    Whoever wants an engine that is there joins at once, also past those who wait for devices: that
    loads fewer engines, and they only wait for as many jobs as there are. Devices go to those who
    wait for them in the order in which they came.
    """
    folder = lease_folder()
    distrusted: set[ProcessId] = set()
    told = ""
    with ExitStack() as held:
        with queued(folder, want) as earlier:
            while True:
                turn = _take_turn(folder, want, distrusted, earlier)
                if turn.place is None:
                    if turn.reason != told:
                        log.info("waiting for %s", turn.reason)
                        told = turn.reason
                    time.sleep(_POLL_ANOTHER_RUN_S if turn.another_run else _POLL_S)
                    continue
                held.callback(turn.place.users.close)
                for each in turn.evicted:
                    held.callback(each.users.close)
                if not turn.place.state.ready or ping(turn.place.socket):
                    break
                # It may still fill its devices, so it is ended before they are given away.
                if turn.place.state.keeper is not None:
                    distrusted.add(turn.place.state.keeper)
                turn.place.users.close()
        for each in turn.evicted:
            each.clear()
            each.users.close()
        yield turn.place


@contextmanager
def lease_engine(request: EngineRequest) -> Iterator[LeasedEngine]:
    """Use the engine of a model for the body.

    Waits for devices, and for jobs and runs that have them. Raises EngineFailed if the engine does
    not come up, ConfigError if there are fewer devices than it takes.
    """
    devices = list_devices(request.on_cpu)
    count = require_devices(request.model_name, request.device_count, devices)
    want = Want(find_owner(), request.identity, request.model_name, count, devices)
    with _placed(want) as place:
        if not place.state.ready:
            place = _start_engine(place, request)
        try:
            yield LeasedEngine(place.socket, place.state.devices)
        finally:
            place.touch()


@contextmanager
def lease_device() -> Iterator[str]:
    """Have one device alone for the body: no engine is on it meanwhile; yields its id.

    Takes a free one, or the one whose engine has been unused longest, which is ended; waits where
    all are in use.
    """
    want = Want(find_owner(), None, None, 1, list_devices())
    with _placed(want) as place:
        try:
            yield place.state.devices[0]
        finally:
            place.clear()
