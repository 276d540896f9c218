"""A folder for one test's lease, its engines and its runs, and what happened there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from llm_variability.devices.lease import EngineRequest, lease_engine, ping
from llm_variability.devices.places import lease_folder

HERE = Path(__file__).parent
RUN = """
import subprocess, sys
jobs = [subprocess.Popen(line.rstrip("\\n").split("\\t")) for line in iter(sys.stdin.readline, "")]
for job in jobs:
    job.wait()
"""
"""A stand-in for Snakemake: starts a job for each line it reads, and ends after them."""


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = 20) -> Any:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {timeout_s} s in vain for {what}")


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Place:
    """A folder for one test's lease, its engines and its runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[subprocess.Popen[str]] = []

    # What happened.

    def lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def pids(self, what: str) -> list[int]:
        return [int(line.split()[1]) for line in self.lines("events") if line.startswith(what)]

    @property
    def loads(self) -> list[int]:
        return self.pids("load")

    @property
    def engine_processes(self) -> list[int]:
        return [pid for pid in (*self.loads, *self.pids("child")) if alive(pid)]

    @property
    def jobs(self) -> list[str]:
        """What jobs told, without the devices they got."""
        return [" ".join(line.split()[:2]) for line in self.lines("jobs")]

    def keeper(self) -> int:
        return int(json.loads((lease_folder() / "0/state.json").read_text())["keeper"]["pid"])

    # What to do.

    def request(
        self, model: str = "m", *flags: str, load_timeout_s: float = 30, device_count: int = 1
    ) -> EngineRequest:
        engine = [sys.executable, str(HERE / "fake_engine.py")]
        return EngineRequest(
            model_name=model,
            identity=model,
            command=lambda path: [*engine, str(path), str(self.folder / "events"), *flags],
            environment={},
            log=self.folder / "engine.log",
            load_timeout_s=load_timeout_s,
            device_count=device_count,
            on_cpu=True,
        )

    def use(self, model: str = "m", *flags: str, load_timeout_s: float = 30) -> int:
        """Lease an engine for a moment; its process."""
        with lease_engine(self.request(model, *flags, load_timeout_s=load_timeout_s)) as engine:
            assert ping(engine.socket)
            return self.loads[-1]

    def start_run(self) -> subprocess.Popen[str]:
        script = self.folder / "snakemake"
        script.write_text(RUN)
        run = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            text=True,
        )
        self.runs.append(run)
        return run

    def start_job(
        self, run: subprocess.Popen[str], name: str, model: str, count: int = 1, *flags: str
    ) -> None:
        """Start a job that wants a model on `count` devices; an encoder is the model `device`."""
        script = [sys.executable, str(HERE / "lease_job.py")]
        words = [*script, name, model, str(self.folder), str(count), *flags]
        assert run.stdin is not None
        run.stdin.write("\t".join(words) + "\n")
        run.stdin.flush()

    def wait_got(self, *names: str) -> None:
        wait_for(lambda: {f"{name} got" for name in names} <= set(self.jobs), f"{names} to begin")

    def wait_told(self, name: str, words: str) -> None:
        log = self.folder / f"{name}.log"
        wait_for(lambda: log.exists() and words in log.read_text(), f"{name} to say {words!r}")

    def devices(self, name: str) -> list[str]:
        """The devices that a job got."""
        (line,) = [line for line in self.lines("jobs") if line.startswith(f"{name} got ")]
        return line.split()[2].split(",")

    @staticmethod
    def kill_job(run: subprocess.Popen[str], name: str) -> None:
        living = [each for each in psutil.Process(run.pid).children() if alive(each.pid)]
        (job,) = [each for each in living if name in each.cmdline()]
        job.kill()

    @property
    def lease(self) -> Path:
        return lease_folder()

    def end_job(self, name: str) -> None:
        (self.folder / f"{name}.go").touch()
        wait_for(lambda: f"{name} done" in self.jobs, f"the end of job {name}")

    def clean(self) -> None:
        for run in self.runs:
            for process in psutil.Process(run.pid).children() if run.poll() is None else []:
                process.kill()
            run.kill()
            run.wait()
            if run.stdin is not None:
                run.stdin.close()
        # All of them, not only children of this process: what a killed run leaves has none.
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if str(self.folder) in " ".join(process.cmdline()):
                    process.kill()
        for pid in self.engine_processes:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def made_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Make a place with one device."""
    # Not pytest's own folder: a Unix socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="llmv-", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("PYTHONPATH", str(HERE.parents[1] / "workflow"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # one device, also where there are GPUs
    monkeypatch.delenv("LLM_VARIABILITY_DEVICES", raising=False)
    made = Place(folder)
    try:
        yield made
    finally:
        made.clean()
