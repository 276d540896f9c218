"""The status of a real run, in a terminal: while it draws, when it is done, when it was killed."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from llm_variability.config import DEFAULT, load_settings
from llm_variability.status.batches import list_batches
from llm_variability.status.stages import STAGES, list_files
from running import HOME, FakeServer, Workspace, kill_hard, processes_with, small_study, wait_for

CELL = "T0.5-P1.0"
TARGETS = (
    "results/config.yaml",
    "results/encoders/minilm.json",
    "results/counts/labels/first.parquet",
)
WANTED = 16 * 3
COLUMNS = 80


class Terminal:
    """The status command in a terminal of 80 columns."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.screen, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        hidden = ("COLUMNS", "LINES")
        kept = {key: value for key, value in os.environ.items() if key not in hidden}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "llm_variability.status", *arguments],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=folder,
            env={**kept, "PYTHONPATH": str(HOME / "workflow"), "TERM": "xterm"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(terminal)
        self.shown = ""

    def read(self) -> str:
        """Read until the command ends."""
        while self._read_on():
            pass
        return self.shown

    def read_until(self, condition: Any, timeout_s: float) -> str:
        deadline = time.monotonic() + timeout_s
        while not condition(self.shown):
            assert time.monotonic() < deadline, self.shown
            assert self._read_on(), self.shown
        return self.shown

    def _read_on(self) -> bool:
        try:
            content = os.read(self.screen, 65536)
        except OSError:  # the other end is closed
            return False
        self.shown += content.decode().replace("\r\n", "\n")
        return bool(content)

    def press(self, key: bytes) -> None:
        os.write(self.screen, key)


def tell(workspace: Workspace) -> list[str]:
    """The lines of one status."""
    terminal = Terminal(workspace.folder, "results")
    shown = terminal.read()
    assert terminal.process.wait(timeout=30) == 0, shown
    assert "Traceback" not in shown
    lines = shown.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert all(line.isprintable() for line in lines)
    return lines


def jobs_in(folder: Path) -> list[psutil.Process]:
    """The jobs that draw in a folder."""
    found = []
    for job in processes_with("llm_variability.draws", "--engine-log"):
        with suppress(psutil.NoSuchProcess):
            found += [job] if job.cwd() == str(folder) else []
    return found


def counts(text: str) -> list[int]:
    """How many draws each redrawing told, in order."""
    return [int(done) for done in re.findall(rf"^(\d+) of {WANTED} draws", text, re.MULTILINE)]


def quick_study(server: FakeServer, **model: Any) -> dict[str, Any]:
    return small_study(
        models={"first": {**server.model("first"), **model}},
        grid={"temperature": [0.5], "top_p": [1.0]},
    )


@pytest.fixture
def study(server: FakeServer, workspace: Workspace) -> Any:
    """A configured run of one cell whose server answers slowly."""
    workspace.configure(quick_study(server))
    server.order(delay_s=0.8)
    yield workspace
    server.order()


def test_a_run_is_followed_from_its_first_draws_to_its_end(
    study: Workspace, server: FakeServer
) -> None:
    run = study.start(*TARGETS)
    wait_for(lambda: study.journal_draws(CELL), 60, "the first draws")
    watching = Terminal(study.folder, "results", "--watch", "0.5")
    shown = watching.read_until(lambda text: len(set(counts(text))) >= 3, 60)
    watching.press(b"\x03")
    assert watching.process.wait(timeout=30) == 0
    assert "Traceback" not in watching.read()
    done = counts(shown)
    assert done == sorted(done)
    assert 0 < done[0] < done[-1] < WANTED
    assert f"run {run.pid} on {os.uname().nodename} is at work, begun" in shown
    assert re.search(r"the last came \w+ ago; [0-9.]+k? tokens/s; about \w+ left", shown)
    server.order()
    output, _ = run.communicate(timeout=120)
    assert run.returncode == 0, output[-3000:]

    lines = tell(study)
    text = "\n".join(lines)
    # The end of a line may be anywhere.
    flat = re.sub(r"\n? +", " ", text)
    assert f"the last was run {run.pid} on" in flat
    assert flat.split("\n")[0].endswith("ago): it is done")
    assert counts(text) == [WANTED]
    (row,) = [line for line in lines if line.startswith("labels first")]
    assert row.split()[2:5] == [str(WANTED), str(WANTED), "100%"]
    assert "complete: weights, prompts, counts (the newest file " in flat
    not_begun = "embeddings, similarity, sensitivity, diversity, fits, examples, report, record"
    assert f"not begun: {not_begun}" in flat
    assert f"endpoint first: {WANTED} requests" in flat
    assert "failed jobs of the last run: none" in lines


def test_a_run_that_was_killed_is_told_as_such(study: Workspace, server: FakeServer) -> None:
    run = study.start(*TARGETS)
    made = wait_for(lambda: study.journal_draws(CELL), 60, "the first draws")
    kill_hard(run.pid)
    run.wait()
    server.order()
    wait_for(lambda: not jobs_in(study.folder), 60, "the orphaned job to end by itself")
    lines = tell(study)
    flat = " ".join(" ".join(lines).split())
    assert f"no run is at work; the last was run {run.pid} on" in flat
    assert "it was cut off: killed, or its machine went down" in flat
    assert len(made) <= counts("\n".join(lines))[0] < WANTED


def test_a_job_that_fails_is_told_with_its_reason(study: Workspace, server: FakeServer) -> None:
    server.order()
    study.configure(quick_study(server, budget={"tokens": 900}))
    done = study.attempt("--cores", "2", "--retries", "0", *TARGETS)
    assert done.returncode != 0
    lines = tell(study)
    flat = " ".join(" ".join(lines).split())
    log = f"results/logs/draws/labels/first/{CELL}.log"
    assert f"failed jobs of the last run: 1 generate labels, first, {CELL} [{log}]: " in flat
    assert "it ended before all was done" in flat
    survey = json.loads(Terminal(study.folder, "results", "--json").read())
    (failure,) = survey["log"]["failures"]
    assert "models.first.budget.tokens: " in failure["told"]
    assert failure["log"] == log
    (spent,) = survey["spending"]
    made = len(study.journal_draws(CELL))
    assert spent["requests"] == made == survey["rows"][0]["tally"]["done"] > 0
    assert 20 * made < spent["tokens"] <= spent["tokens_allowed"] == 900


def test_every_file_it_looks_for_is_one_that_a_run_makes(
    server: FakeServer, workspace: Workspace
) -> None:
    config = {**DEFAULT, "models": {name: server.model(name) for name in ("first", "second")}}
    studies = config["studies"]
    code = {**studies["code"], "paraphrase": {"model": "first"}}
    people = {**studies["personas"], "dialogue": {"exchanges": 2}}
    people["personas"] = {**people["personas"], "model": "second"}
    workspace.configure({**config, "studies": {**studies, "code": code, "personas": people}})
    told = workspace.attempt("--dry-run")
    assert told.returncode == 0, told.stdout[-3000:]
    made = {
        path
        for outputs in re.findall(r"^    output: (.*)$", told.stdout, re.MULTILINE)
        for path in outputs.split(", ")
    }
    settings = load_settings([workspace.folder / "config.yaml"])
    batches = list_batches(settings, Path("results"))
    looked_for = {
        *(f"results/{file}" for stage in STAGES for file in list_files(stage, settings)),
        *(str(batch.prompts) for batch in batches),
        *(str(table) for batch in batches for table in batch.tables),
    }
    assert looked_for <= made
    drawn = re.findall(r"^rule generate\w*:$", told.stdout, re.MULTILINE)
    assert len(batches) == len(drawn) > 0
