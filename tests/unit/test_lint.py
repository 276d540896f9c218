"""The checks of `make lint`, one test each, so that `make test` counts them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    "command",
    [
        "ruff check .",
        "ruff format --check .",
        "mypy",
        "snakefmt --check Snakefile workflow/rules",
        "snakemake --lint",
    ],
)
def test_check_finds_nothing_to_complain_about(command: str) -> None:
    program, *arguments = command.split()
    done = subprocess.run(
        [BIN / program, *arguments],
        cwd=PROJECT,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
