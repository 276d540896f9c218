"""One cell: which draws it wants, and the table made of those its journal has."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.config import GREEDY, Model, cell_name
from llm_variability.draws.answers import (
    classify_answer,
    opens_reasoning,
    shows_reasoning,
    split_reasoning,
)
from llm_variability.draws.client import Sampling
from llm_variability.draws.journal import Draw, JournalContent
from llm_variability.draws.orders import Order
from llm_variability.draws.seeds import draw_seed
from llm_variability.draws.templates import (
    Messages,
    fix_date,
    make_messages,
    read_chat_template,
    read_history,
)
from llm_variability.tables import DRAWS

log = logging.getLogger(__name__)

_IDENTITY_FIELDS = ("dtype", "trust_remote_code", "engine_args")
_RENDERING_FIELDS = ("system_prompt", "chat_template_args")
_REQUEST_FIELDS = ("omit_fields", "max_tokens_field")


@dataclass(frozen=True)
class Cell:
    """A cell of the grid and what it is drawn from.

    manifest: of the model's weights. prompts: the stimuli table. temperature and top_p are
    canonical text; top_p is None for greedy decoding.
    """

    study: str
    model_name: str
    model: Model
    manifest: Mapping[str, Any]
    prompts: pl.DataFrame
    temperature: str
    top_p: str | None
    max_new_tokens: int
    seed: int

    @property
    def name(self) -> str:
        return cell_name(self.temperature, self.top_p)

    @property
    def sampling(self) -> Sampling:
        return Sampling(
            float(self.temperature),
            float(self.top_p or 1),
            self.max_new_tokens + self.model.reasoning_tokens,
            keep_special_tokens=self.model.reasoning == "harmony",
        )

    @cached_property
    def template(self) -> str | None:
        """The chat template with a fixed date, if it would insert today's; else None."""
        if self.manifest["path"] is None:
            return None
        own = read_chat_template(Path(self.manifest["path"]))
        return None if own is None else fix_date(own, self.model.template_date)

    def identity(self) -> dict[str, Any]:
        """Everything beside the prompt and the draw's number that decides what a draw is."""
        settings, default = self.model.model_dump(), Model.model_fields
        settings["omit_fields"] = sorted(set(settings["omit_fields"]))
        rendering = {
            field: settings[field]
            for field in (*_RENDERING_FIELDS, *_REQUEST_FIELDS)
            if settings[field] != default[field].default
        }
        if self.template is not None:
            rendering["template_date"] = self.model.template_date
        return {
            "weights": self.manifest["identity"],
            "seed": self.seed,
            **{field: settings[field] for field in _IDENTITY_FIELDS},
            **rendering,
            **self.sampling.to_json(),
        }

    @property
    def _said(self) -> pl.DataFrame:
        """Its prompts, with a history of null where the stimuli have none."""
        if "history" in self.prompts.columns:
            return self.prompts
        return self.prompts.with_columns(history=pl.lit(None, dtype=pl.String))

    def turns(self) -> pl.DataFrame:
        """List the distinct prompts: prompt_id, system, prompt and history."""
        columns = ("prompt_id", "system", "prompt", "history")
        return self._said.select(columns).unique(maintain_order=True)

    def messages(self, system: str | None, prompt: str, history: str | None = None) -> Messages:
        """The turns of a prompt, as the model's policy has them.

        history: as in the stimuli. Raises ValueError for one that cannot be read.
        """
        return make_messages(system, prompt, self.model.system_prompt, read_history(history))

    def orders(self) -> Iterator[Order]:
        """List every draw the cell wants, replicate by replicate.

        A prompt that several augmentations of a study of code come to is drawn from once.
        """
        column = "greedy_replicates" if self.temperature == GREEDY else "replicates"
        prompts = self._said.with_columns(pl.col(column).max().over("prompt_id"))
        prompts = prompts.unique("prompt_id", keep="first", maintain_order=True)
        rows = prompts.select("prompt_id", "system", "prompt", "history", column).rows()
        for replicate in range(max((row[4] for row in rows), default=0)):
            for prompt_id, system, prompt, history, wanted in rows:
                if replicate < wanted:
                    seed = draw_seed(self.seed, prompt_id, replicate)
                    turns = self.messages(system, prompt, history)
                    yield Order(prompt_id, replicate, seed, turns)


def _reasoning_is_open(draws: list[Draw], sessions: list[dict[str, Any]]) -> bool:
    """Tell whether the prompts end inside <think>: by the rendered prompt, or by what came."""
    prompts = [str(session.get("rendered_prompt", "")) for session in sessions]
    return any(prompt.rstrip().endswith("<think>") for prompt in prompts) or any(
        opens_reasoning(draw.raw) for draw in draws
    )


def tabulate_draws(cell: Cell, content: JournalContent, factors: list[str]) -> pl.DataFrame:
    """Make a cell's draws table from its journal, in the order of prompts and replicates."""
    rows = []
    form = cell.model.reasoning
    draws = [content.draws[order.prompt_id, order.replicate] for order in cell.orders()]
    opened = form == "think" and _reasoning_is_open(draws, content.sessions)
    for draw in draws:
        answer = split_reasoning(draw.raw, form, draw.reasoning, opened)
        text, status = classify_answer(answer.final, draw.finish_reason, draw.error)
        row = {**vars(draw), "text": text, "reasoning": answer.reasoning, "status": status}
        rows.append(row)
    if form == "none" and any(shows_reasoning(draw.raw) for draw in draws):
        log.warning(
            "%s: answers hold marks of reasoning, which is measured with them;"
            " see models.%s.reasoning",
            cell.name,
            cell.model_name,
        )
    schema = {name: column.dtype for name, column in DRAWS.columns.items()}
    groups = cell.prompts.select("prompt_id", *factors)
    return pl.DataFrame(rows, schema=schema).join(
        groups, on="prompt_id", how="left", maintain_order="left"
    )
