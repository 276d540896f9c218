"""Answers to the requests of all rounds: which become prompts, what is still lacking."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from llm_variability.personas.flags import FLAGS, find_flags, fold_words, read_message
from llm_variability.stimuli.persona_file import Persona
from llm_variability.stimuli.personas import WHO_ASKS
from llm_variability.stimuli.tasks import TaskOfSet
from llm_variability.streams import begin_stream
from llm_variability.tables_personas import REWRITINGS

log = logging.getLogger(__name__)

NEVER_USED = ("empty",)
"""Flags with which nothing is used, whatever the settings say."""

Missing = dict[tuple[str, str], list[int]]
"""The iterations that each task and persona lack."""


def list_missing(tasks: Collection[str], personas: Sequence[Persona], iterations: int) -> Missing:
    """List what is lacking before anything was asked: every iteration."""
    return {(task, persona.name): list(range(iterations)) for task in tasks for persona in personas}


class _Reader:
    """Reads rounds of answers one after the other, and knows what was said before."""

    def __init__(
        self,
        tasks: Mapping[str, TaskOfSet],
        personas: Sequence[Persona],
        iterations: int,
        leave_out: Collection[str],
    ) -> None:
        self._tasks = tasks
        self._personas = {persona.name: persona for persona in personas}
        self._barred = {*NEVER_USED, *leave_out}
        self._said: dict[tuple[str, str], set[str]] = {}
        self.missing = list_missing(tasks, personas, iterations)

    def read(self, attempt: int, draws: pl.DataFrame) -> Iterator[dict[str, Any]]:
        """Read a round: the n-th draw of a task and persona is for the n-th iteration it lacks."""
        lacking = {key: list(iterations) for key, iterations in self.missing.items()}
        for row in draws.sort("replicate", maintain_order=True).iter_rows(named=True):
            key = row["task"], row["persona"]
            if key not in lacking or row["replicate"] >= len(lacking[key]):
                continue
            iteration = lacking[key][row["replicate"]]
            text = read_message(row["text"] or "")
            flags = self._flag(key, text, row["status"] == "truncated")
            used = self._barred.isdisjoint(flags)
            if used:
                self.missing[key].remove(iteration)
                self._said.setdefault((key[0], fold_words(text)), set()).add(key[1])
            yield {
                **{name: row[name] for name in (*WHO_ASKS, "seed", "status")},
                "iteration": iteration,
                "attempt": attempt,
                "text": text or None,
                "flags": " ".join(flags),
                "used": used,
            }

    def _flag(self, key: tuple[str, str], text: str, cut: bool) -> tuple[str, ...]:
        task, persona = key
        flags = find_flags(text, self._tasks[task].task.text, self._personas[persona], cut)
        said = self._said.get((task, fold_words(text)), set())
        again = ["repeated"] if persona in said else []
        return (*flags, *again, *(["shared"] if said - {persona} else []))


def read_rounds(
    rounds: Sequence[pl.DataFrame],
    tasks: Mapping[str, TaskOfSet],
    personas: Sequence[Persona],
    iterations: int,
    leave_out: Collection[str],
) -> tuple[pl.DataFrame, Missing]:
    """Read the answers of all rounds so far.

    rounds: draws tables with the columns of WHO_ASKS, in their order. leave_out: flags with which
    an answer is not used, beside NEVER_USED.
    Returns a rewritings table with nothing sampled yet, and the iterations still lacking.
    """
    reader = _Reader(tasks, personas, iterations, leave_out)
    rows = [row for attempt, draws in enumerate(rounds) for row in reader.read(attempt, draws)]
    types = {name: column.dtype for name, column in REWRITINGS.columns.items()}
    table = pl.DataFrame([{**row, "sampled": False} for row in rows], schema=types)
    return table.sort(_order(table, tasks, personas)), reader.missing


def _order(
    table: pl.DataFrame, tasks: Collection[str], personas: Sequence[Persona]
) -> list[pl.Expr]:
    ranks = {
        "task": {task: rank for rank, task in enumerate(tasks)},
        "persona": {persona.name: rank for rank, persona in enumerate(personas)},
    }
    placed = [
        pl.col(name).replace_strict(places, return_dtype=pl.Int32) for name, places in ranks.items()
    ]
    return [*placed, pl.col("iteration"), pl.col("attempt")]


def sample_prompts(rewritings: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Mark one used rewriting of each task and persona, as the published study drew one.

    Which it is depends on the seed, task and persona and on which iterations there are.
    """
    chosen = []
    used = rewritings.filter("used").group_by("task", "persona", maintain_order=True)
    for (task, persona), rows in used:
        stream = begin_stream(seed, "personas/sampled", str(task), str(persona))
        there = sorted(rows["iteration"].to_list())
        chosen.append((task, persona, there[int(stream.integers(len(there)))]))
    marks = pl.DataFrame(
        chosen,
        schema={"task": pl.String, "persona": pl.String, "iteration": pl.Int32},
        orient="row",
    ).with_columns(chosen=pl.lit(True))
    return (
        rewritings.join(
            marks, on=["task", "persona", "iteration"], how="left", maintain_order="left"
        )
        .with_columns(sampled=pl.col("used") & pl.col("chosen").fill_null(False))
        .drop("chosen")
    )


def tell_rewritings(rewritings: pl.DataFrame, missing: Missing) -> None:
    """Say in the log what came, what was wrong with it and what is lacking after all rounds."""
    log.info("%d answers, %d of them used", len(rewritings), int(rewritings["used"].sum()))
    flags = rewritings["flags"].str.split(" ").explode()
    for flag, meaning in FLAGS.items():
        if count := int((flags == flag).sum()):
            log.info("%d %s: %s", count, flag, meaning)
    for (task, persona), iterations in missing.items():
        if iterations:
            log.warning(
                "%s, %s: no usable prompt for %d iterations", task, persona, len(iterations)
            )
