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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.config import GREEDY, ConfigError, Model, cell_name
from llm_variability.devices.lease import EngineRequest, lease_engine
from llm_variability.devices.processes import find_owner
from llm_variability.draws.answers import classify_answer
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
from llm_variability.draws.journal import Draw, Journal, fingerprint
from llm_variability.draws.seeds import draw_seed
from llm_variability.tables import DRAWS

log = logging.getLogger(__name__)

ENGINE_LOADS = 3
"""How often one job may load an engine again that died under it."""

_IDENTITY_FIELDS = ("dtype", "trust_remote_code", "engine_args")


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
        return Sampling(float(self.temperature), float(self.top_p or 1), self.max_new_tokens)

    def identity(self) -> dict[str, Any]:
        """Everything beside the prompt and the draw's number that decides what a draw is."""
        settings = self.model.model_dump()
        return {
            "weights": self.manifest["identity"],
            "seed": self.seed,
            **{field: settings[field] for field in _IDENTITY_FIELDS},
            **self.sampling.to_json(),
        }

    def orders(self) -> Iterator[Order]:
        """List every draw the cell wants, replicate by replicate."""
        column = "greedy_replicates" if self.temperature == GREEDY else "replicates"
        rows = self.prompts.select("prompt_id", "system", "prompt", column).rows()
        for replicate in range(max((row[3] for row in rows), default=0)):
            for prompt_id, system, prompt, wanted in rows:
                if replicate < wanted:
                    seed = draw_seed(self.seed, prompt_id, replicate)
                    yield Order(prompt_id, replicate, seed, _messages(system, prompt))


def _messages(system: str | None, prompt: str) -> tuple[Mapping[str, str], ...]:
    user = {"role": "user", "content": prompt}
    return (user,) if system is None else ({"role": "system", "content": system}, user)


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
        command=lambda socket: server_command(cell.model, folder, socket),
        environment=environment,
        log=engine_log,
        load_timeout_s=cell.model.load_timeout_s,
    )


@contextmanager
def serve(cell: Cell, engine_log: Path) -> Iterator[Server]:
    """Give the server that answers for a cell's model: its endpoint, or a leased engine."""
    if cell.model.endpoint is None:
        with lease_engine(engine_request(cell, engine_log)) as path:
            yield Server("http://engine/v1", SERVED_NAME, socket=path, is_engine=True)
        return
    key = None
    if cell.model.api_key_env is not None:
        key = os.environ.get(cell.model.api_key_env)
        if not key:
            raise ConfigError(
                f"models.{cell.model_name}.api_key_env: the environment variable"
                f" {cell.model.api_key_env} is not set"
            )
    yield Server(cell.model.endpoint, cell.model.served_name or cell.model_name, key=key)


def check_rendering(cell: Cell, server: Server) -> dict[str, Any]:
    """Check what the chat template makes of the prompts, on the engine's own token ids.

    Returns an example for the provenance. Raises ConfigError if a prompt leaves no room for the
    answer, begins with the same token twice (two BOS), or loses its system prompt.
    """
    rows = cell.prompts.select("system", "prompt").unique(maintain_order=True).rows()
    timeout_s = cell.model.request_timeout_s
    tokens = asyncio.run(render_prompt_tokens(server, [_messages(*row) for row in rows], timeout_s))
    longest = context_length(Path(cell.manifest["path"]), cell.model.max_model_len)
    for (_, prompt), ids in zip(rows, tokens, strict=True):
        if len(ids) + cell.max_new_tokens > longest:
            raise ConfigError(
                f"models.{cell.model_name}.max_model_len: {longest} leaves no room for a prompt of"
                f" {len(ids)} tokens and {cell.max_new_tokens} new ones: {prompt[:60]!r}"
            )
        if len(ids) > 1 and ids[0] == ids[1]:
            raise ConfigError(
                f"{cell.model_name}: a rendered prompt begins with token {ids[0]} twice"
            )
    rendered = asyncio.run(detokenize(server, tokens[0], timeout_s))
    system = rows[0][0]
    if system is not None and system not in rendered:
        raise ConfigError(f"{cell.model_name}: its chat template drops the system prompt")
    return {
        "rendered_prompt": rendered,
        "rendered_prompt_sha256": hashlib.sha256(rendered.encode()).hexdigest(),
    }


def _session_facts(cell: Cell, server: Server) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "began": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "host": platform.node(),
        "machine": platform.machine(),
        "engine": engine_version() if server.is_engine else cell.model.endpoint,
        "devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "tensor_parallel": cell.model.tensor_parallel,
    }
    if server.is_engine:
        facts |= check_rendering(cell, server)
    return facts


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
                journal.begin_session(_session_facts(cell, server))
                faults = asyncio.run(
                    make_draws(
                        server,
                        cell.sampling,
                        missing(),
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


def tabulate_draws(cell: Cell, journal: Journal, factors: list[str]) -> pl.DataFrame:
    """Make a cell's draws table from its journal, in the order of prompts and replicates."""
    rows = []
    for order in cell.orders():
        draw = journal.draws[order.prompt_id, order.replicate]
        text, status = classify_answer(draw.raw, draw.finish_reason, draw.error)
        rows.append({**vars(draw), "text": text, "status": status})
    schema = {name: column.dtype for name, column in DRAWS.columns.items()}
    draws = pl.DataFrame(rows, schema=schema)
    groups = cell.prompts.select("prompt_id", *factors)
    return draws.join(groups, on="prompt_id", how="left", maintain_order="left")
