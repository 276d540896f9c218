"""From prompts to the token ids that a model is asked with, rendered once and checked."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llm_variability.config import ConfigError
from llm_variability.draws.cells import Cell
from llm_variability.draws.client import Server, detokenize, render_prompt_tokens
from llm_variability.draws.engine import context_length, engine_version
from llm_variability.draws.journal import fingerprint
from llm_variability.draws.templates import Messages

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rendering:
    """What the chat template makes of a cell's prompts.

    tokens: the token ids of each prompt, by its id. example: the first as text. ignored: the
    template's arguments that change nothing.
    """

    tokens: Mapping[str, list[int]]
    example: str
    ignored: list[str]

    def facts(self) -> dict[str, Any]:
        """What of it is recorded with the draws."""
        return {
            "rendered_prompt": self.example,
            "rendered_prompt_sha256": hashlib.sha256(self.example.encode()).hexdigest(),
            "ignored_template_args": self.ignored,
        }


def _ignored_arguments(
    cell: Cell, server: Server, messages: Messages, rendered: list[int]
) -> Iterator[str]:
    for name in server.template_args:
        others = {key: value for key, value in server.template_args.items() if key != name}
        plain = replace(server, template_args=others)
        tokens = render_prompt_tokens(plain, [messages], cell.model.request_timeout_s)
        if asyncio.run(tokens) == [rendered]:
            yield name


def _ask_engine(cell: Cell, server: Server) -> Rendering:
    rows, timeout_s = cell.turns().rows(), cell.model.request_timeout_s
    messages = [cell.messages(*turn) for _, *turn in rows]
    try:
        tokens = asyncio.run(render_prompt_tokens(server, messages, timeout_s))
    except ValueError as error:
        hint = "; if it knows no system turn, set system_prompt: merge or omit"
        raise ConfigError(f"models.{cell.model_name}: {error}{hint}") from error
    return Rendering(
        {row[0]: ids for row, ids in zip(rows, tokens, strict=True)},
        asyncio.run(detokenize(server, tokens[0], timeout_s)),
        list(_ignored_arguments(cell, server, messages[0], tokens[0])),
    )


def _check(cell: Cell, rendering: Rendering) -> None:
    rows, new = cell.turns().rows(), cell.sampling.max_new_tokens
    longest = context_length(Path(cell.manifest["path"]), cell.model.max_model_len)
    for prompt_id, _, prompt, _ in rows:
        ids = rendering.tokens[prompt_id]
        if len(ids) + new > longest:
            raise ConfigError(
                f"models.{cell.model_name}.max_model_len: {longest} leaves no room for a prompt of"
                f" {len(ids)} tokens and {new} new ones: {prompt[:60]!r}"
            )
        if len(ids) > 1 and ids[0] == ids[1]:
            raise ConfigError(
                f"{cell.model_name}: a rendered prompt begins with token {ids[0]} twice"
            )
    system = rows[0][1]
    dropped = system is not None and system not in rendering.example
    if dropped and cell.model.system_prompt != "omit":
        raise ConfigError(
            f"models.{cell.model_name}.system_prompt: its chat template drops the system prompt;"
            " set merge, or omit to do without it"
        )


def _kept_name(cell: Cell) -> str:
    """Name the file that keeps a rendering by all that decides it."""
    identity, sampling = cell.identity(), cell.sampling.to_json()
    decides = {key: value for key, value in identity.items() if key not in (*sampling, "seed")}
    decides |= {"engine": engine_version(), "prompts": cell.turns()["prompt_id"].to_list()}
    return f"prompts.{fingerprint(decides)}.json"


def _read_kept(path: Path) -> Rendering | None:
    try:
        return Rendering(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _keep(rendering: Rendering, path: Path) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(vars(rendering)), encoding="utf-8")
    os.replace(temporary, path)


def render_prompts(cell: Cell, server: Server, folder: Path) -> Rendering:
    """Render the prompts on our own engine and check what came, on its token ids.

    folder: where a rendering is kept, since all cells of a model have the same; one that is
    damaged is made anew. Says which of the template's arguments it ignores. Raises ConfigError if
    the template refuses a prompt, if a prompt leaves no room for the answer, begins with the same
    token twice (two BOS), or loses its system prompt.
    """
    path = folder / _kept_name(cell)
    kept = _read_kept(path)
    rendering = _ask_engine(cell, server) if kept is None else kept
    _check(cell, rendering)
    for name in rendering.ignored:
        log.warning(
            "models.%s.chat_template_args.%s: the chat template ignores it: the rendered prompt is"
            " the same without it",
            cell.model_name,
            name,
        )
    if kept is None:
        _keep(rendering, path)
    return rendering
