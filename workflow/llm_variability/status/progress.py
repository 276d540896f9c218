"""How many draws are made of those that are wanted, by step, study and model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from llm_variability.config import GREEDY, Settings, cell_name
from llm_variability.status.batches import (
    Batch,
    Identities,
    find_journal,
    list_batches,
    same_identity,
)
from llm_variability.status.journals import JournalReader, Scan, Tally, tally_scan
from llm_variability.tables import TableError, read_metadata

AT_WORK_S = 60.0
"""A journal written to within this many seconds is of a batch that is being drawn."""

_GREEDY_SETTING = cell_name(GREEDY, None)

Wanted = dict[str, int]
"""Draws by prompt."""


@dataclass(frozen=True)
class Row:
    """How far the draws of a step, a study and a model are.

    batches, batches_done: settings, and those of which every draw is made. wanted: draws; None if
    no prompt is there yet; counts what is known while `waiting` batches have no prompts. tally: of
    the draws made. tokens_per_s: of the batches being drawn, or of the one drawn within the last
    minute, before the next begins; None if there is none. seconds_left: at that rate; None if
    nobody knows. last_draw: in seconds of the epoch. uncertain: the journals may be of another
    configuration (the weights cannot be read here).
    """

    step: str
    study: str
    model: str
    batches: int
    batches_done: int
    waiting: int
    wanted: int | None
    tally: Tally
    tokens_per_s: float | None
    seconds_left: float | None
    last_draw: float | None
    uncertain: bool

    @property
    def is_complete(self) -> bool:
        return self.batches_done == self.batches

    @property
    def is_begun(self) -> bool:
        return self.tally.done > 0 or self.last_draw is not None


@dataclass(frozen=True)
class Made:
    """What is made of one batch.

    wanted: None without prompts. is_written: whether its tables are there.
    """

    wanted: int | None
    tally: Tally
    tokens_per_s: float | None = None
    last_draw: float | None = None
    uncertain: bool = False
    is_written: bool = False
    journal: Path | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every draw is made; of a batch that wants none, whether its table is there."""
        if self.wanted is None:
            return False
        return self.tally.done >= self.wanted and (self.wanted > 0 or self.is_written)


def estimate_left(wanted: int, tally: Tally, tokens_per_s: float | None) -> float | None:
    """Estimate the seconds until all draws are made: tokens still to come over tokens a second.

    A draw to come is taken to be as long as those made. None if nothing is being drawn, or nothing
    was made yet; 0 if no draw is lacking.
    """
    if tally.done >= wanted:
        return 0.0
    if not tokens_per_s or not tally.tokens:
        return None
    return (wanted - tally.done) * (tally.tokens / tally.done) / tokens_per_s


def make_row(key: tuple[str, str, str], made: Made) -> Row:
    """Make a row of one batch. key: step, study and model."""
    return Row(
        *key,
        batches=1,
        batches_done=int(made.is_complete),
        waiting=int(made.wanted is None),
        wanted=made.wanted,
        tally=made.tally,
        tokens_per_s=made.tokens_per_s,
        seconds_left=None,
        last_draw=made.last_draw,
        uncertain=made.uncertain,
    )


def sum_rows(rows: Sequence[Row], key: tuple[str, str, str] = ("", "", "")) -> Row | None:
    """Sum rows into one; None if there are none. key: its step, study and model.

    What is left is told at the rate of now: too much where more will be drawn side by side, too
    little where what is to come is slower.
    """
    if not rows:
        return None
    tally = sum((row.tally for row in rows), Tally())
    rates = [row.tokens_per_s for row in rows if row.tokens_per_s is not None]
    wanted = [row.wanted for row in rows if row.wanted is not None]
    rate = sum(rates) if rates else None
    waiting = sum(row.waiting for row in rows)
    return Row(
        *key,
        batches=sum(row.batches for row in rows),
        batches_done=sum(row.batches_done for row in rows),
        waiting=waiting,
        wanted=sum(wanted) if wanted else None,
        tally=tally,
        tokens_per_s=rate,
        seconds_left=None if waiting else estimate_left(sum(wanted), tally, rate),
        last_draw=max((row.last_draw for row in rows if row.last_draw is not None), default=None),
        uncertain=any(row.uncertain for row in rows),
    )


class Stamp(NamedTuple):
    """A file and what changes when it is written anew."""

    path: Path
    written_ns: int
    bytes: int


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return Stamp(path, status.st_mtime_ns, status.st_size)


class ProgressReader:
    """Counts draws; asked again, it reads what has changed since."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._journals = JournalReader()
        self._wanted: dict[tuple[Stamp, str, tuple[str, ...]], Wanted | None] = {}
        self._tallies: dict[tuple[Path, str], tuple[Any, Tally]] = {}

    def read(self, settings: Settings, now: float) -> list[Row]:
        """Count the draws of every row. now: in seconds of the epoch."""
        identities = Identities(settings, _read_manifests(settings, self.results))
        rows: dict[tuple[str, str, str], list[Made]] = {}
        for batch in list_batches(settings, self.results):
            rows.setdefault(batch.row, []).append(self._count(batch, identities.of(batch), now))
        summed = (
            sum_rows([make_row(key, each) for each in self._with_rate(made, now)], key)
            for key, made in rows.items()
        )
        return [row for row in summed if row is not None]

    def _with_rate(self, made: list[Made], now: float) -> list[Made]:
        """Give an unfinished row that is between two batches the rate of the one just drawn."""
        if all(each.is_complete for each in made) or any(each.tokens_per_s for each in made):
            return made
        last = max(made, key=lambda each: each.last_draw or 0)
        if last.journal is None:
            return made
        rate = _rate_now(self._journals.read(last.journal), now)
        return [replace(each, tokens_per_s=rate) if each is last else each for each in made]

    def _count(self, batch: Batch, identity: Mapping[str, Any] | None, now: float) -> Made:
        wanted = self._find_wanted(batch)
        journal = find_journal(batch, identity)
        last = _written(journal)
        uncertain = identity is None and journal is not None
        if wanted is None:
            return Made(None, Tally(), last_draw=last, uncertain=uncertain)
        total = sum(wanted.values())
        stamps = [stamp for path in batch.tables if (stamp := _stamp(path)) is not None]
        tally = self._count_tables(batch, stamps, wanted, identity)
        rate = None
        if tally.done < total and journal is not None:
            scan = self._journals.read(journal)
            tally = max(tally, tally_scan(scan, wanted), key=lambda each: each.done)
            rate = _rate_now(scan, now) if tally.done < total else None
        is_written = len(stamps) == len(batch.tables)
        return Made(total, tally, rate, last, uncertain, is_written, journal)

    def _find_wanted(self, batch: Batch) -> Wanted | None:
        """Give how many draws of each prompt a batch wants; None while there are no prompts."""
        stamp = _stamp(batch.prompts)
        if stamp is None:
            return None
        column = "greedy_replicates" if batch.setting == _GREEDY_SETTING else "replicates"
        key = stamp, column, batch.augmentations
        if key not in self._wanted:
            self._wanted[key] = _read_wanted(batch.prompts, column, batch.augmentations)
        return self._wanted[key]

    def _count_tables(
        self,
        batch: Batch,
        stamps: Sequence[Stamp],
        wanted: Wanted,
        identity: Mapping[str, Any] | None,
    ) -> Tally:
        """Count the draws of a batch's tables that are there and of this configuration."""
        key = batch.folder, batch.setting
        state = tuple(stamps), _stamp(batch.prompts), None if identity is None else str(identity)
        if key not in self._tallies or self._tallies[key][0] != state:
            current = [stamp.path for stamp in stamps if _is_current(stamp.path, identity)]
            draws = _read_draws(current)
            tally = Tally() if draws is None else tally_draws(draws, wanted)
            self._tallies[key] = state, tally
        return self._tallies[key][1]


def _rate_now(scan: Scan, now: float) -> float | None:
    return scan.tokens_per_s if now - scan.written <= AT_WORK_S else None


def _written(path: Path | None) -> float | None:
    try:
        return None if path is None else path.stat().st_mtime
    except OSError:
        return None


def _read_wanted(path: Path, column: str, augmentations: Sequence[str]) -> Wanted | None:
    """Read how many draws of each prompt are wanted; None of what is no whole stimuli table.

    augmentations: those whose prompts are drawn from; all if there is none.
    """
    try:
        prompts = pl.scan_parquet(path, glob=False)
        if augmentations:
            prompts = prompts.filter(pl.col("augmentation").is_in(list(augmentations)))
        return dict(prompts.select("prompt_id", column).collect().iter_rows())
    except (OSError, pl.exceptions.PolarsError):
        return None


def _is_current(path: Path, identity: Mapping[str, Any] | None) -> bool:
    """Tell whether a table's draws are those of an identity; without one, take them for it."""
    try:
        held = read_metadata(path)["identity"]
        return identity is None or same_identity(held, identity)
    except (TableError, ValueError, KeyError, TypeError):
        return False


_READ = ("prompt_id", "replicate", "status", "completion_tokens")


def _read_draws(paths: Sequence[Path]) -> pl.DataFrame | None:
    """Read what is counted of draws tables, without those that are damaged or went away."""
    if not paths:
        return None
    try:
        return pl.scan_parquet(list(paths), glob=False).select(_READ).collect()
    except (OSError, pl.exceptions.PolarsError):
        if len(paths) == 1:
            return None
    parts = [part for path in paths if (part := _read_draws([path])) is not None]
    return pl.concat(parts) if parts else None


def _read_manifests(settings: Settings, results: Path) -> dict[str, dict[str, Any]]:
    """Read the manifests of the models' weights that are there."""
    manifests = {}
    for model in settings.models:
        try:
            loaded = json.loads((results / "models" / f"{model}.json").read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(loaded, dict):
            manifests[model] = loaded
    return manifests


def tally_draws(draws: pl.DataFrame, wanted: Wanted) -> Tally:
    """Count the draws of tables that are wanted.

    draws: prompt_id, replicate, status, completion_tokens. wanted: draws by prompt.
    """
    asked = pl.DataFrame(
        {"prompt_id": list(wanted), "wanted": list(wanted.values())},
        schema={"prompt_id": pl.String, "wanted": pl.Int64},
    )
    kept = draws.join(asked, on="prompt_id").filter(pl.col("replicate") < pl.col("wanted"))
    kept = kept.unique(["prompt_id", "replicate"])
    counts = dict(kept["status"].value_counts().iter_rows())
    return Tally(
        done=len(kept),
        tokens=int(kept["completion_tokens"].cast(pl.Int64).sum()),
        failed=counts.get("error", 0),
        empty=counts.get("empty", 0) + counts.get("no_answer", 0),
        cut=counts.get("truncated", 0),
    )
