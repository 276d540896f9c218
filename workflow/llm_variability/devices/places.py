"""Places in a machine's lease: what is on which devices, and who uses it.

The lease is a folder. In it, each engine, and each encoder that has a device to itself, has a place
of its own: a numbered folder with the engine's socket, a state that says what it is and which
devices it has, and a file lock `users`. That is held shared by each job that uses the engine, and
exclusively by one that loads it, ends it, or is an encoder. The lock `lock` of the whole folder is
held, for a moment each time, while places are looked at or given; no model is loaded under it. The
kernel drops all locks when a process dies, however it dies, and what a place says without a living
process behind it is not believed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import socket
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import IO

from llm_variability.devices.keeper import ENDING, end_marked
from llm_variability.devices.processes import ProcessId, kill_tree

log = logging.getLogger(__name__)


class EngineFailed(OSError):
    """The engine did not come up, or is gone."""


def lease_folder() -> Path:
    """Give the folder of this machine's (scheduler job's) lease, made if need be.

    It lies under the system's temporary folder, since a Unix socket's path is at most 107 bytes
    and a lease means nothing on another machine. Raises EngineFailed if someone else owns it.
    """
    where = f"{socket.gethostname()}/{os.environ.get('SLURM_JOB_ID', '')}"
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
def locked(folder: Path) -> Iterator[None]:
    """Hold the lease's own lock for the body, which must be short."""
    with (folder / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def try_flock(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@dataclass(frozen=True)
class State:
    """What is in a place. identity and model are None for an encoder, keeper until it is known.

    owner: the run it belongs to, which was started in `folder`. ready: it has loaded.
    """

    owner: ProcessId
    identity: str | None
    model: str | None
    folder: str
    devices: tuple[str, ...]
    keeper: ProcessId | None = None
    ready: bool = False

    def write(self, place: Path) -> None:
        temporary = place / "state.json.tmp"
        temporary.write_text(json.dumps(asdict(self)))
        temporary.replace(place / "state.json")

    @classmethod
    def read(cls, place: Path) -> State | None:
        """Read what is in a place; None if there is nothing, or nothing that makes sense."""
        try:
            fields = json.loads((place / "state.json").read_text())
            keeper = fields["keeper"]
            return cls(
                **fields
                | {
                    "owner": ProcessId(**fields["owner"]),
                    "keeper": None if keeper is None else ProcessId(**keeper),
                    "devices": tuple(fields["devices"]),
                }
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None

    @property
    def kept(self) -> bool:
        """Whether its engine has a keeper that lives."""
        return self.keeper is not None and self.keeper.alive


def clear_place(path: Path, state: State | None) -> None:
    """End whatever engine is in a place, its left-over processes included, and empty the place."""
    if state is not None and state.keeper is not None:
        keeper = state.keeper.process()
        if keeper is not None:
            log.info("ending the engine of %s", state.model)
            kill_tree(keeper, grace_s=20)
    if (path / "mark").exists():
        end_marked((path / "mark").read_text())
    for name in ("engine.sock", "mark", ENDING, "state.json"):
        (path / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class Place:
    """A place that is taken, and by what.

    users: its lock, open. idle: nobody used it, so that this process has the lock exclusively.
    """

    path: Path
    users: IO[str]
    idle: bool
    state: State

    @property
    def socket(self) -> Path:
        return self.path / "engine.sock"

    @property
    def used(self) -> float:
        """When a job last came or went, in seconds since the epoch."""
        return os.fstat(self.users.fileno()).st_mtime

    def keep(self) -> Place:
        """Give the same place with a handle of its own on its lock."""
        return replace(self, users=os.fdopen(os.dup(self.users.fileno()), "a"))

    def become(self, state: State) -> Place:
        """Write down what is in the place now."""
        state.write(self.path)
        return replace(self, state=state)

    def touch(self) -> None:
        """Note that a job came or went."""
        os.utime(self.users.fileno())

    def clear(self) -> None:
        clear_place(self.path, self.state)


def _is_left_over(
    path: Path, state: State | None, owner: ProcessId, distrusted: Collection[ProcessId]
) -> bool:
    """Tell whether what is in a place that nobody uses is to be cleared away by a run."""
    if state is None or not state.kept or not state.owner.alive:
        return True
    # A job that loads an engine uses its place, so nobody waits for one that is not ready.
    unusable = not state.ready or (path / ENDING).exists() or state.keeper in distrusted
    return state.owner == owner and unusable


def survey(
    folder: Path, owner: ProcessId, distrusted: Collection[ProcessId], opened: ExitStack
) -> list[Place]:
    """List the places that are taken, having cleared away what is left over.

    To be called under the lease's own lock. opened: closes their locks.
    """
    places = []
    for path in sorted(each for each in folder.iterdir() if each.name.isdigit()):
        users = (path / "users").open("a")
        idle = try_flock(users, fcntl.LOCK_EX)
        state = State.read(path)
        if idle and _is_left_over(path, state, owner, distrusted):
            clear_place(path, state)
            state = None
        if state is None:
            users.close()
        else:
            places.append(Place(path, opened.enter_context(users), idle, state))
    return places


def give_place(folder: Path, state: State, opened: ExitStack) -> Place:
    """Put something in the first place that is not taken; its lock is held exclusively.

    To be called under the lease's own lock. opened: closes that of the place.
    """
    for number in count():
        path = folder / str(number)
        path.mkdir(exist_ok=True)
        users = opened.enter_context((path / "users").open("a"))
        if not (path / "state.json").exists() and try_flock(users, fcntl.LOCK_EX):
            state.write(path)
            place = Place(path, users, idle=True, state=state)
            place.touch()
            return place
    raise AssertionError("numbers do not end")
