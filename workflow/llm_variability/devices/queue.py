"""The queue of those who want devices."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from llm_variability.devices.keeper import try_lock
from llm_variability.devices.places import State, locked
from llm_variability.devices.processes import ProcessId


@dataclass(frozen=True)
class Want:
    """What a job wants: some of the devices that it may use, for a model's engine or an encoder.

    identity and model are None for an encoder.
    """

    owner: ProcessId
    identity: str | None
    model: str | None
    count: int
    devices: tuple[str, ...]

    def is_met_by(self, state: State) -> bool:
        """Tell whether this is the engine that is wanted, loaded or not."""
        return (
            self.identity is not None
            and self.identity == state.identity
            and self.owner == state.owner
        )


def _read_want(path: Path) -> Want:
    fields = json.loads(path.read_text())
    fields["owner"] = ProcessId(**fields["owner"])
    fields["devices"] = tuple(fields["devices"])
    return Want(**fields)


@contextmanager
def queued(folder: Path, want: Want) -> Iterator[Callable[[], list[Want]]]:
    """Stand in the queue of those who want devices.

    Yields a function that tells, under the lease's own lock, what those want who came earlier. A
    place in the queue is a locked file, so that those who died stand there no more.
    """
    queue = folder / "queue"
    queue.mkdir(exist_ok=True)

    def earlier() -> list[Want]:
        found = []
        for path in sorted(queue.iterdir()):
            if path == own:
                break
            with suppress(FileNotFoundError), try_lock(path, fcntl.LOCK_EX) as left:
                if left:
                    path.unlink()
                else:
                    found.append(_read_want(path))
        return found

    with ExitStack() as opened:
        with locked(folder):
            last = max((int(path.name) for path in queue.iterdir()), default=0)
            own = queue / f"{last + 1:020d}"
            file = opened.enter_context(own.open("a"))
            opened.callback(own.unlink, missing_ok=True)
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(asdict(want)))
            file.flush()
        yield earlier
