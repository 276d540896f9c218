"""Which devices this process may use, and how a process is shown those it got.

Ids are what CUDA_VISIBLE_DEVICES takes: numbers or UUIDs. No GPU library is asked, since a process
that looks at its GPUs once can be shown no others afterwards.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from llm_variability.config import ConfigError

OURS = "LLM_VARIABILITY_DEVICES"
"""Environment variable with the ids of the devices to use, in place of all that there are."""

GIVEN = "LLM_VARIABILITY_DEVICE"
"""Environment variable that tells an engine which devices it got."""

CUDA = "CUDA_VISIBLE_DEVICES"

CPU = ("cpu",)
"""The devices of a machine without a GPU: one, its processor."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9:._/-]*")
_NO_GPU = ("-1", "NoDevFiles")


def _parse_ids(name: str, text: str) -> tuple[str, ...]:
    ids = tuple(part.strip() for part in text.split(","))
    for each in ids:
        if not _ID.fullmatch(each):
            raise ConfigError(
                f"{name}: {text!r} names no devices; give ids with commas between, such as 0,1"
            )
        if ids.count(each) > 1:
            raise ConfigError(f"{name}: {text!r} names device {each} twice")
    return ids


def _visible_to_cuda(text: str) -> tuple[str, ...]:
    """Read CUDA_VISIBLE_DEVICES as CUDA does: what follows an id of no device is not there."""
    ids: list[str] = []
    for part in text.split(","):
        if part.strip() in _NO_GPU:
            break
        ids.append(part)
    return _parse_ids(CUDA, ",".join(ids)) if ids else ()


def list_devices(
    on_cpu: bool = False,
    environment: Mapping[str, str] = os.environ,
    device_files: Path = Path("/dev"),
) -> tuple[str, ...]:
    """List the ids of the devices that this process may use, at least one.

    They are those of LLM_VARIABILITY_DEVICES, or else of CUDA_VISIBLE_DEVICES, or else a number for
    each NVIDIA GPU that `device_files` has, counted from 0 as CUDA does; without any, the CPU.
    on_cpu: what is to run uses no GPU, so only LLM_VARIABILITY_DEVICES counts. Raises ConfigError
    for a variable that names no devices, or one twice.
    """
    if (ours := environment.get(OURS)) is not None:
        return _parse_ids(OURS, ours)
    if on_cpu:
        return CPU
    if (visible := environment.get(CUDA)) is not None:
        return (_visible_to_cuda(visible) if visible.strip() else ()) or CPU
    gpus = [path for path in device_files.glob("nvidia*") if path.name[len("nvidia") :].isdigit()]
    return tuple(str(number) for number in range(len(gpus))) or CPU


def show_devices(devices: Sequence[str], on_cpu: bool = False) -> dict[str, str]:
    """Give the environment in which a process sees these devices and no others."""
    ids = ",".join(devices)
    if on_cpu or tuple(devices) == CPU:
        return {GIVEN: ids}
    return {GIVEN: ids, CUDA: ids}


def describe_devices(devices: Sequence[str]) -> str:
    """Say which devices are meant: `the CPU`, `device 0`, `devices 0, 1`."""
    if tuple(devices) == CPU:
        return "the CPU"
    return f"device{'s' if len(devices) > 1 else ''} {', '.join(devices)}"


def require_devices(model: str, wanted: int, devices: Sequence[str]) -> int:
    """Give how many devices a model's engine takes; raise ConfigError if there are fewer.

    A CPU is one device, into however many parts the engine cuts the model there.
    """
    if tuple(devices) == CPU:
        return 1
    if wanted > len(devices):
        have = f"{len(devices)} device{'s' if len(devices) > 1 else ''} ({', '.join(devices)})"
        raise ConfigError(
            f"models.{model}.tensor_parallel: its engine takes {wanted} devices, and there"
            f" {'are' if len(devices) > 1 else 'is'} {have}; at most {len(devices)} is allowed"
        )
    return wanted
