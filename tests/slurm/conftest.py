"""Fixtures of the tests on Slurm: a cluster on this machine, and a folder to run in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))
sys.path.insert(0, str(Path(__file__).parent))

from cluster import Cluster, cluster, find_obstacle
from running import FakeServer, Workspace, serving
from site_profile import write_profile


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    if obstacle := find_obstacle():
        pytest.skip(f"no Slurm to try: {obstacle}")
    with cluster() as running:
        yield running


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeServer]:
    with serving(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    return write_profile(tmp_path / "profile")


@pytest.fixture
def workspace(slurm: Cluster, tmp_path: Path, profile: Path) -> Iterator[Workspace]:
    slurm.restore_nodes()
    yield Workspace(tmp_path, profile)
    slurm.restore_nodes()
