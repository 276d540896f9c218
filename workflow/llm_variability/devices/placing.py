"""Which devices an engine or an encoder gets, and what must go from them first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class Occupant:
    """What is on some devices: an engine or an encoder.

    evictable: it is an engine of the run that asks, and nobody uses it. used: when it was last
    used, in seconds since the epoch.
    """

    name: str
    devices: tuple[str, ...]
    evictable: bool
    used: float


@dataclass(frozen=True)
class Earlier:
    """One who came earlier and waits for devices.

    devices: all that it may use. same_run: whether it is of the run that asks.
    """

    devices: tuple[str, ...]
    same_run: bool


@dataclass(frozen=True)
class Choice:
    """The devices to take, and the occupants (by name) to end first."""

    devices: tuple[str, ...]
    evicted: tuple[str, ...]


def choose_devices(
    count: int,
    devices: Sequence[str],
    occupants: Collection[Occupant],
    earlier: Collection[Earlier] = (),
) -> Choice | None:
    """Choose `count` of the devices that one may use; None if it has to wait.

    Free ones are taken first, in their order. If there are too few, unused engines of one's own run
    go: as few as will do, those the longest unused before others. What somebody who came earlier
    may use is left alone, so that one who needs several devices gets them in the end. Only the own
    run's engines can be taken past another run's waiting job, which could not have those.
    """
    kept = {device for other in earlier for device in other.devices}
    kept_by_own = {device for other in earlier if other.same_run for device in other.devices}
    unused = sorted(
        (occupant for occupant in occupants if occupant.evictable),
        key=lambda occupant: occupant.used,
    )
    for evictions in range(len(unused) + 1):
        for evicted in combinations(unused, evictions):
            held = {
                each
                for occupant in occupants
                if occupant not in evicted
                for each in occupant.devices
            }
            freed = {each for occupant in evicted for each in occupant.devices} - held
            free = [each for each in devices if each not in held | freed | kept]
            found = free + [each for each in devices if each in freed - kept_by_own]
            if len(found) >= count:
                return Choice(tuple(found[:count]), tuple(each.name for each in evicted))
    return None


def rank_models(widths: Mapping[str, int], device_count: int) -> dict[str, int]:
    """Rank models so that those whose engines fit side by side share a rank.

    widths: from model to the devices that its engine takes, in the order in which models draw.
    Ranks count from 0; on one device each model has its own. A model joins the one before it as
    long as there are devices left, and one that takes more than there are has them all. A model of
    width 0, which runs elsewhere, joins the one before it.
    """
    ranks: dict[str, int] = {}
    rank, left = 0, device_count
    for model, wanted in widths.items():
        width = min(wanted, device_count)
        if width > left:
            rank, left = rank + 1, device_count
        left -= width
        ranks[model] = rank
    return ranks
