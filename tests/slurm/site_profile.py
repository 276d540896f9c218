"""The profile for Slurm as a user of the tests' cluster would have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from running import HOME

SITE = {"mem_mb": 3000, "cpus_per_task": 2}
"""What a user puts into the profile for this cluster."""

HURRY = {
    "slurm-no-account": True,
    "slurm-status-command": "squeue",
    "slurm-init-seconds-before-status-checks": 2,
    "seconds-between-status-checks": 2,
    "latency-wait": 10,
}
"""What a cluster without accounting needs, and what lets tests see the end of a job soon."""


def read_profile() -> dict[str, Any]:
    """Read the profile that is shipped."""
    profile: dict[str, Any] = yaml.safe_load((HOME / "profiles/slurm/config.yaml").read_text())
    return profile


def write_profile(folder: Path) -> Path:
    """Write the profile that is shipped, with this cluster's values in it; returns its folder."""
    profile = read_profile()
    for resources in [profile["default-resources"], *profile["set-resources"].values()]:
        resources |= {name: value for name, value in SITE.items() if name in resources}
    folder.mkdir()
    text = yaml.safe_dump({**profile, **HURRY}, sort_keys=False)
    (folder / "config.yaml").write_text(text)
    return folder
