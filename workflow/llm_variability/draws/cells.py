"""One cell: which draws it wants, which its journal has, and the table made of them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.config import GREEDY, ConfigError, Model, cell_name
from llm_variability.devices.lease import EngineRequest, lease_engine
from llm_variability.devices.processes import find_owner
from llm_variability.draws.answers import (
    classify_answer,
    opens_reasoning,
    shows_reasoning,
    split_reasoning,
)
from llm_variability.draws.client import (
    Order,
    Progress,
    RunGone,
    Sampling,
    Server,
    ServerGone,
    ServerRefuses,
    detokenize,
    make_draws,
    render_prompt_tokens,
)
from llm_variability.draws.engine import (
    SERVED_NAME,
    context_length,
    engine_version,
    server_command,
    server_environment,
)
from llm_variability.draws.journal import Draw, Journal, JournalContent, fingerprint
from llm_variability.draws.seeds import draw_seed
from llm_variability.draws.templates import Messages, fix_date, make_messages, read_chat_template
from llm_variability.tables import DRAWS

log = logging.getLogger(__name__)

ENGINE_LOADS = 3
"""How often one job may load an engine again that died under it."""

_IDENTITY_FIELDS = ("dtype", "trust_remote_code", "engine_args")
_RENDERING_FIELDS = ("system_prompt", "chat_template_args")


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

    @property
    def template(self) -> str | None:
        """The chat template with a fixed date, if it would insert today's; else None."""
        if self.manifest["path"] is None:
            return None
        own = read_chat_template(Path(self.manifest["path"]))
        return None if own is None else fix_date(own, self.model.template_date)

    def identity(self) -> dict[str, Any]:
        """Everything beside the prompt and the draw's number that decides what a draw is."""
        settings, default = self.model.model_dump(), Model.model_fields
        rendering = {
            field: settings[field]
            for field in _RENDERING_FIELDS
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

    def messages(self, system: str | None, prompt: str) -> Messages:
        """The turns of a prompt, as the model's policy has them."""
        return make_messages(system, prompt, self.model.system_prompt)

    def orders(self) -> Iterator[Order]:
        """List every draw the cell wants, replicate by replicate."""
        column = "greedy_replicates" if self.temperature == GREEDY else "replicates"
        rows = self.prompts.select("prompt_id", "system", "prompt", column).rows()
        for replicate in range(max((row[3] for row in rows), default=0)):
            for prompt_id, system, prompt, wanted in rows:
                if replicate < wanted:
                    seed = draw_seed(self.seed, prompt_id, replicate)
                    yield Order(prompt_id, replicate, seed, self.messages(system, prompt))


def require_weights(model_name: str, manifest: Mapping[str, Any]) -> None:
    """Raise ConfigError if the folder that a manifest names is gone."""
    path = manifest["path"]
    if path is not None and not Path(path).is_dir():
        raise ConfigError(
            f"{model_name}: its weights are gone from {path};"
            " run snakemake with --forcerun fetch_model"
        )


def engine_request(cell: Cell, engine_log: Path) -> EngineRequest:
    """Say which engine a cell needs."""
    folder = Path(cell.manifest["path"])
    environment = server_environment()
    served = fingerprint(
        {
            "weights": cell.manifest["identity"],
            "path": str(folder),
            "settings": cell.model.model_dump(),
            "environment": environment,
        }
    )
    return EngineRequest(
        model_name=cell.model_name,
        identity=served,
        command=lambda socket: server_command(
            cell.model, folder, socket, takes_template=cell.template is not None
        ),
        environment=environment,
        log=engine_log,
        load_timeout_s=cell.model.load_timeout_s,
    )


@contextmanager
def serve(cell: Cell, engine_log: Path) -> Iterator[Server]:
    """Give the server that answers for a cell's model: its endpoint, or a leased engine."""
    if cell.model.endpoint is None:
        with lease_engine(engine_request(cell, engine_log)) as path:
            yield Server(
                "http://engine/v1",
                SERVED_NAME,
                socket=path,
                is_engine=True,
                template_args=cell.model.chat_template_args,
                template=cell.template,
            )
        return
    key = None
    if cell.model.api_key_env is not None:
        key = os.environ.get(cell.model.api_key_env)
        if not key:
            raise ConfigError(
                f"models.{cell.model_name}.api_key_env: the environment variable"
                f" {cell.model.api_key_env} is not set"
            )
    yield Server(
        cell.model.endpoint,
        cell.model.served_name or cell.model_name,
        key=key,
        template_args=cell.model.chat_template_args,
    )


@dataclass(frozen=True)
class Rendering:
    """What the chat template makes of a cell's prompts.

    tokens: the token ids of each prompt, by its id. example: the first as text. ignored: the
    template's arguments that change nothing.
    """

    tokens: Mapping[str, tuple[int, ...]]
    example: str
    ignored: tuple[str, ...]

    def facts(self) -> dict[str, Any]:
        """What of it is recorded with the draws."""
        return {
            "rendered_prompt": self.example,
            "rendered_prompt_sha256": hashlib.sha256(self.example.encode()).hexdigest(),
            "ignored_template_args": list(self.ignored),
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


def render_prompts(cell: Cell, server: Server) -> Rendering:
    """Render the prompts on our own engine and check what came, on its token ids.

    Says which of the template's arguments it ignores. Raises ConfigError if the template refuses a
    prompt, if a prompt leaves no room for the answer, begins with the same token twice (two BOS),
    or loses its system prompt.
    """
    rows = cell.prompts.select("prompt_id", "system", "prompt").unique(maintain_order=True).rows()
    timeout_s = cell.model.request_timeout_s
    messages = [cell.messages(system, prompt) for _, system, prompt in rows]
    try:
        tokens = asyncio.run(render_prompt_tokens(server, messages, timeout_s))
    except ValueError as error:
        hint = "; if it knows no system turn, set system_prompt: merge or omit"
        raise ConfigError(f"models.{cell.model_name}: {error}{hint}") from error
    longest = context_length(Path(cell.manifest["path"]), cell.model.max_model_len)
    new = cell.sampling.max_new_tokens
    for (_, _, prompt), ids in zip(rows, tokens, strict=True):
        if len(ids) + new > longest:
            raise ConfigError(
                f"models.{cell.model_name}.max_model_len: {longest} leaves no room for a prompt of"
                f" {len(ids)} tokens and {new} new ones: {prompt[:60]!r}"
            )
        if len(ids) > 1 and ids[0] == ids[1]:
            raise ConfigError(
                f"{cell.model_name}: a rendered prompt begins with token {ids[0]} twice"
            )
    rendered = asyncio.run(detokenize(server, tokens[0], timeout_s))
    system = rows[0][1]
    if system is not None and cell.model.system_prompt != "omit" and system not in rendered:
        raise ConfigError(
            f"models.{cell.model_name}.system_prompt: its chat template drops the system prompt;"
            " set merge, or omit to do without it"
        )
    ignored = tuple(_ignored_arguments(cell, server, messages[0], tokens[0]))
    for name in ignored:
        log.warning(
            "models.%s.chat_template_args.%s: the chat template ignores it: the rendered prompt is"
            " the same without it",
            cell.model_name,
            name,
        )
    ids_by_prompt = {row[0]: tuple(ids) for row, ids in zip(rows, tokens, strict=True)}
    return Rendering(ids_by_prompt, rendered, ignored)


def _session_facts(cell: Cell, server: Server) -> dict[str, Any]:
    return {
        "began": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "host": platform.node(),
        "machine": platform.machine(),
        "engine": engine_version() if server.is_engine else cell.model.endpoint,
        "devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "tensor_parallel": cell.model.tensor_parallel,
    }


def _with_tokens(orders: list[Order], rendering: Rendering | None) -> list[Order]:
    if rendering is None:
        return orders
    return [replace(order, tokens=rendering.tokens[order.prompt_id]) for order in orders]


def draw_cell(cell: Cell, journal: Journal, engine_log: Path) -> None:
    """Make the draws that a cell's journal lacks.

    An engine that dies is loaded again, at most `ENGINE_LOADS` times. Raises ValueError if draws
    remain that could not be made, in which case the next run goes on where this one stopped.
    """
    owner = find_owner()
    wanted = list(cell.orders())
    title = f"{cell.study} {cell.model_name} {cell.name}"

    def missing() -> list[Order]:
        return [
            order for order in wanted if (order.prompt_id, order.replicate) not in journal.draws
        ]

    if not missing():
        log.info("%s: all %d draws are in the journal", title, len(wanted))
        return
    progress = Progress(title, len(wanted) - len(missing()), len(wanted))
    keep = _keeper(journal, progress)
    faults: list[str] = []
    for load in range(1, ENGINE_LOADS + 1):
        try:
            with serve(cell, engine_log) as server:
                rendering = render_prompts(cell, server) if server.is_engine else None
                rendered = rendering.facts() if rendering is not None else {}
                journal.begin_session({**_session_facts(cell, server), **rendered})
                faults = asyncio.run(
                    make_draws(
                        server,
                        cell.sampling,
                        _with_tokens(missing(), rendering),
                        keep,
                        lambda: owner.alive,
                        cell.model.max_in_flight,
                        cell.model.request_timeout_s,
                    )
                )
            break
        except RunGone:
            raise
        except ServerRefuses as error:
            raise ConfigError(f"models.{cell.model_name}: {error}") from error
        except (ServerGone, ConnectionError) as error:
            log.warning("%s: %s", title, error)
            faults = [str(error)]
            if load == ENGINE_LOADS:
                break
    if left := len(missing()):
        reason = faults[-1] if faults else "unknown"
        raise ValueError(
            f"{title}: {left} of {len(wanted)} draws could not be made ({reason});"
            " those made are kept, and the next run goes on from there"
        )


def _keeper(journal: Journal, progress: Progress) -> Callable[[Draw], None]:
    def keep(draw: Draw) -> None:
        journal.append(draw)
        progress.count(draw)

    return keep


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
