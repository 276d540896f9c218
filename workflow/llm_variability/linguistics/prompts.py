"""Rewritings and prompts brought together: which prompt each used rewriting became."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from llm_variability.linguistics.parsing import Sentence
from llm_variability.tables import TableError

KEY = ("task", "persona", "iteration")
"""What a rewriting and its prompt have in common; no two of either share it."""


@dataclass(frozen=True)
class Prompt:
    """A prompt: who asks for what, and the sentences of the rewriting, without the frame."""

    task: str
    persona: str
    role: str
    gender: str
    prompt_id: str
    iteration: str
    sentences: Sequence[Sentence]

    @property
    def named(self) -> dict[str, str]:
        """Its columns in tables by prompt."""
        names = ("task", "persona", "role", "gender", "prompt_id")
        return {name: getattr(self, name) for name in names}


def match_prompts(rewritings: pl.DataFrame, stimuli: pl.DataFrame) -> pl.DataFrame:
    """Find the prompt of each rewriting that is used.

    rewritings: a REWRITINGS table. stimuli: the STIMULI table made of it.
    Returns columns task, persona, role, gender, iteration (text), text, prompt_id, in the order of
    the rewritings. Raises TableError for a used rewriting without a text or without exactly one
    prompt, and for a prompt without a used rewriting.
    """
    used = rewritings.filter("used").with_columns(pl.col("iteration").cast(pl.String))
    if without := used.filter(pl.col("text").is_null()).height:
        raise TableError(f"{without} used rewritings have no text")
    _refuse_repeats(used, "used rewritings")
    _refuse_repeats(stimuli, "prompts")
    matched = used.join(
        stimuli.select(*KEY, "prompt_id"), on=list(KEY), how="left", maintain_order="left"
    )
    if lacking := matched["prompt_id"].null_count():
        raise TableError(f"{lacking} used rewritings have no prompt; make the prompts anew")
    if surplus := stimuli.height - matched.height:
        raise TableError(f"{surplus} prompts have no used rewriting; make the prompts anew")
    return matched.select("task", "persona", "role", "gender", "iteration", "text", "prompt_id")


def _refuse_repeats(rows: pl.DataFrame, what: str) -> None:
    repeated = rows.filter(rows.select(KEY).is_duplicated())
    if repeated.height:
        task, persona, iteration = repeated.select(KEY).row(0)
        raise TableError(f"{task}, {persona}, iteration {iteration}: {repeated.height} {what}")
