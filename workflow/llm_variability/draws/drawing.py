"""Draw a cell: get a server, render the prompts, ask for what the journal lacks."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from llm_variability.config import ConfigError, Model
from llm_variability.devices.lease import EngineRequest, lease_engine
from llm_variability.devices.processes import find_owner
from llm_variability.draws.budget import BudgetSpent, Ledger
from llm_variability.draws.cells import Cell
from llm_variability.draws.client import (
    Progress,
    RunGone,
    Server,
    ServerGone,
    ServerRefuses,
    make_draws,
)
from llm_variability.draws.engine import (
    SERVED_NAME,
    count_devices,
    engine_version,
    runs_on_cpu,
    server_command,
    server_environment,
)
from llm_variability.draws.journal import Draw, Journal, fingerprint
from llm_variability.draws.orders import Order
from llm_variability.draws.rendering import Rendering, render_prompts
from llm_variability.manifests import require_folder
from llm_variability.software import (
    ENGINE_PACKAGES,
    find_versions,
    list_accelerators,
    name_processor,
)

log = logging.getLogger(__name__)

ENGINE_LOADS = 3
"""How often one job may load an engine again that died under it."""

MOST_SYSTEMS = 100
"""How many systems that an endpoint answered with a job writes down."""


def require_weights(model_name: str, manifest: Mapping[str, Any]) -> None:
    """Raise ConfigError if the folder that a manifest names is not to be seen from here."""
    if manifest["path"] is not None:
        require_folder(Path(manifest["path"]), model_name, "fetch_model")


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
        device_count=count_devices(cell.model),
        on_cpu=runs_on_cpu(),
    )


@contextmanager
def serve(cell: Cell, engine_log: Path) -> Iterator[Server]:
    """Give the server that answers for a cell's model: its endpoint, or a leased engine."""
    if cell.model.endpoint is None:
        with lease_engine(engine_request(cell, engine_log)) as engine:
            yield Server(
                "http://engine/v1",
                SERVED_NAME,
                socket=engine.socket,
                is_engine=True,
                devices=engine.devices,
                template_args=cell.model.chat_template_args,
                template=cell.template,
            )
        return
    yield Server(
        cell.model.endpoint,
        cell.model.served_name or cell.model_name,
        key=_read_key(cell),
        template_args=cell.model.chat_template_args,
        omit_fields=tuple(cell.model.omit_fields),
        max_tokens_field=cell.model.max_tokens_field,
    )


def _read_key(cell: Cell) -> str | None:
    """Read the endpoint's key from the environment; None if it takes none."""
    name = cell.model.api_key_env
    if name is None:
        return None
    key = os.environ.get(name, "").strip()
    where = f"models.{cell.model_name}.api_key_env: the environment variable {name}"
    if not key:
        raise ConfigError(f"{where} is not set")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{where} holds characters that no key has")
    return key


def _endpoint_facts(cell: Cell) -> dict[str, Any]:
    """Say what of a request an endpoint was not sent, and what that costs."""
    facts: dict[str, Any] = {"seeded": "seed" not in cell.model.omit_fields}
    if cell.model.omit_fields:
        facts["omitted_fields"] = sorted(set(cell.model.omit_fields))
    if cell.model.max_tokens_field != Model.model_fields["max_tokens_field"].default:
        facts["max_tokens_field"] = cell.model.max_tokens_field
    return facts


def now() -> str:
    """Tell the time to the second, with the zone, as ISO 8601 has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _session_facts(cell: Cell, server: Server) -> dict[str, Any]:
    return {
        **({} if server.is_engine else _endpoint_facts(cell)),
        "began": now(),
        "host": platform.node(),
        "machine": platform.machine(),
        "engine": engine_version() if server.is_engine else cell.model.endpoint,
        "devices": ",".join(server.devices) or None,
        "tensor_parallel": cell.model.tensor_parallel,
        **(_engine_facts() if server.is_engine else {}),
    }


def _engine_facts() -> dict[str, Any]:
    """Say on what hardware and with which packages an engine of this machine answers."""
    return {
        "processor": name_processor(),
        "accelerators": [] if runs_on_cpu() else list_accelerators(),
        "packages": find_versions(ENGINE_PACKAGES),
    }


def _with_tokens(orders: list[Order], rendering: Rendering | None) -> list[Order]:
    if rendering is None:
        return orders
    return [replace(order, tokens=tuple(rendering.tokens[order.prompt_id])) for order in orders]


@contextmanager
def _opened_ledger(cell: Cell, path: Path | None) -> Iterator[Ledger | None]:
    """Open the ledger of an endpoint, and tell at the end what was spent; None for an engine."""
    if cell.model.budget is not None and path is None:
        raise ConfigError(f"models.{cell.model_name}.budget: there is no ledger to keep it in")
    if cell.model.endpoint is None or path is None:
        yield None
        return
    with Ledger(path, cell.model.budget) as ledger:
        yield ledger
        log.info("%s: %s", cell.model_name, ledger.tell())


def draw_cell(
    cell: Cell, journal: Journal, engine_log: Path, *, ledger: Path | None = None
) -> None:
    """Make the draws that a cell's journal lacks.

    ledger: the file that holds what the model's endpoint has cost, one for all cells; without
    effect for a model that is no endpoint. An engine that dies is loaded again, at most
    `ENGINE_LOADS` times. Raises ValueError if draws remain that could not be made, ConfigError if
    the endpoint refuses them all or the budget is spent; the next run goes on where this one
    stopped.
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
            with serve(cell, engine_log) as server, _opened_ledger(cell, ledger) as account:
                rendering = (
                    render_prompts(cell, server, journal.path.parent) if server.is_engine else None
                )
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
                        account,
                        _recorder(journal, server),
                    )
                )
                journal.end_session({"ended": now()})
            break
        except RunGone:
            raise
        except ServerRefuses as error:
            raise ConfigError(f"models.{cell.model_name}: {error}") from error
        except BudgetSpent as error:
            raise ConfigError(
                f"models.{cell.model_name}.budget.{error.key}: {error}"
                f" ({title}: {len(missing())} of {len(wanted)} draws are left; those made are kept)"
            ) from error
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


def _recorder(journal: Journal, server: Server) -> Callable[[str | None, str | None], None]:
    """Write down each model and system that an endpoint says answered, once."""
    known: set[tuple[str | None, str | None]] = {(None, None)}

    def record(model: str | None, system: str | None) -> None:
        if server.is_engine or (model, system) in known or len(known) > MOST_SYSTEMS:
            return
        known.add((model, system))
        journal.begin_session({"answered_by": model, "system_fingerprint": system})

    return record


def _keeper(journal: Journal, progress: Progress) -> Callable[[Draw], None]:
    def keep(draw: Draw) -> None:
        journal.append(draw)
        progress.count(draw)

    return keep
