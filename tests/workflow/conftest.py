"""Fixtures of the workflow tests: a made-up server and a folder to run in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from running import FakeServer, Workspace, wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeServer]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "faults.json").write_text("{}")
    script = Path(__file__).with_name("fake_server.py")
    process = subprocess.Popen([sys.executable, str(script), str(folder)])
    try:
        port = wait_for(lambda: (folder / "port").exists(), 30, "the made-up server")
        port = int((folder / "port").read_text())
        yield FakeServer(folder, port)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)
