"""Manifests: what the stage fetch says of a model or an encoder, for those who use its weights."""

from __future__ import annotations

import platform
from pathlib import Path

from llm_variability.config import ConfigError


def require_folder(path: Path, whose: str, rule: str) -> None:
    """Raise ConfigError if the folder of weights that a manifest names is not to be seen from here.

    whose: the model or encoder. rule: which fetches it.
    """
    if not path.is_dir():
        raise ConfigError(
            f"{whose}: {platform.node()} sees no weights in {path}; if they are gone, run snakemake"
            f" with --forcerun {rule}; if they are on another machine, put the hub's cache"
            " (HF_HOME) on a file system that both see"
        )
