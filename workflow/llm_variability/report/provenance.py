"""What made the numbers: packages, machine, commit, manifests."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from llm_variability.software import name_processor

_CREDENTIALS = re.compile(r"(://)[^/@\s]+@")


def without_credentials(text: str) -> str:
    """Blot out a user and password inside any URL of a text."""
    return _CREDENTIALS.sub(r"\1***@", text)


def without_own_folders(text: str) -> str:
    """Write paths below the working directory as from there, and those below home with `~`.

    A page may be published; where its maker's folders lie is nobody's business.
    """
    return text.replace(f"{Path.cwd()}/", "").replace(f"{Path.home()}/", "~/")


def describe_machine() -> dict[str, str]:
    """The Python, platform and processor that made the report."""
    return {
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "processor": f"{name_processor()}, {os.cpu_count()} logical cores",
    }


def describe_hardware(session: Mapping[str, Any]) -> str:
    """Say what a session drew on, without the machine's name."""
    if session.get("devices") is None:
        return "an endpoint"
    processor = session.get("processor") or session.get("machine") or "unknown processor"
    accelerators = session.get("accelerators") or []
    shown = [", ".join(accelerators)] if accelerators else []
    return "; ".join([f"devices {session['devices']}", *shown, str(processor)])


def list_makers(draws: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Say which engine, hardware and packages drew from each model.

    draws: metadata of draws tables. Returns model, engine, hardware, packages, each combination
    once; packages is empty for an endpoint.
    """
    makers = {}
    for metadata in draws:
        for session in metadata.get("sessions", []):
            if "began" in session:
                packages = session.get("packages") or {}
                maker = {
                    "model": str(metadata["model"]),
                    "engine": without_credentials(str(session.get("engine"))),
                    "hardware": describe_hardware(session),
                    "packages": ", ".join(f"{name} {each}" for name, each in packages.items()),
                }
                makers[tuple(maker.values())] = maker
    return list(makers.values())


def list_stages(tables: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Say which packages wrote the tables of each kind.

    tables: their metadata. Returns table, python, packages: a row more for a kind whose tables were
    written with different versions; tables that do not say are left out.
    """
    stages = {}
    for metadata in tables:
        made_with = dict(metadata.get("made_with") or {})
        if made_with:
            stage = {
                "table": str(metadata["table"]),
                "python": str(made_with.pop("python", "")),
                "packages": ", ".join(f"{name} {each}" for name, each in made_with.items()),
            }
            stages[tuple(stage.values())] = stage
    return [stages[key] for key in sorted(stages)]


def find_commit() -> str | None:
    """The git commit of this project's source, with what is known of local changes.

    None if the package does not stand in a checkout of its own.
    """
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    try:
        commit, changes = (
            subprocess.run(  # noqa: S603
                ["git", "-C", str(root), *arguments],  # noqa: S607
                capture_output=True,
                text=True,
                timeout=10,
                check=True,
            ).stdout.strip()
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "-uno"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}, with uncommitted changes" if changes else commit


def flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Write a JSON object's values as text, inner keys dotted; empty values are left out."""
    flat: dict[str, str] = {}
    for key, inner in value.items():
        name = f"{prefix}{key}"
        if isinstance(inner, Mapping):
            flat |= flatten(inner, f"{name}.")
        elif isinstance(inner, list) and inner and isinstance(inner[0], Mapping):
            for position, entry in enumerate(inner, start=1):
                flat |= flatten(entry, f"{name} {position}.")
        elif inner not in (None, "", []):
            text = inner if isinstance(inner, str) else json.dumps(inner, ensure_ascii=False)
            flat[name] = without_own_folders(without_credentials(text))
    return flat


def read_manifest(path: Path) -> dict[str, str]:
    """Read a model's or an encoder's manifest. Raises ValueError if it is no JSON object."""
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: is no JSON file: {error}") from error
    if not isinstance(loaded, dict):
        raise ValueError(f"{path}: is no JSON object")
    return {"name": path.stem, **flatten(loaded)}
