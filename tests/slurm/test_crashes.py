"""Jobs ended in mid-cell, nodes that go, two runs at once: no draw is lost or made twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest

from cluster import NODES, Cluster, call
from running import FakeServer, Workspace, kill_hard, small_study, wait_for

CELL = "T0.5-P0.8"
TARGET = f"results/draws/labels/first/{CELL}.parquet"
DRAWS = 16 * 3
JOB = "draws-first"


@pytest.fixture
def study(server: FakeServer, workspace: Workspace) -> Any:
    """A configured run whose server answers slowly, and the keys it was asked for."""
    workspace.configure(
        small_study(
            models={"first": server.model("first")}, grid={"temperature": [0.5], "top_p": [0.8]}
        )
    )
    server.order(delay_s=0.7)
    (server.folder / "requests.jsonl").unlink(missing_ok=True)
    yield workspace
    server.order()


def draws_made(workspace: Workspace) -> int:
    return len(workspace.journal_draws(CELL))


def begin(study: Workspace, slurm: Cluster, *arguments: str) -> tuple[Any, dict[str, str]]:
    """Start a run and wait until its job is in mid-cell; gives the run and the job."""
    run = study.start(*arguments, TARGET)
    wait_for(lambda: draws_made(study) >= 8, 90, "the first draws")
    (job,) = slurm.running(JOB)
    return run, job


def assert_finished_without_repeats(
    study: Workspace, server: FakeServer, kept: list[tuple[str, int]], in_flight: int = 4
) -> None:
    made = study.journal_draws(CELL)
    assert made[: len(kept)] == kept
    assert len(made) == len(set(made)) == DRAWS
    assert len(pl.read_parquet(study.folder / TARGET)) == DRAWS
    asked = Counter(request["seed"] for request in server.requests())
    assert len(asked) == DRAWS
    assert sum(count - 1 for count in asked.values()) <= in_flight
    left = [path for path in study.folder.glob("results/**/*.tmp") if "draws" in path.parts]
    assert left == []


def test_a_cancelled_job_loses_no_draw_and_the_rerun_finishes(
    study: Workspace, server: FakeServer, slurm: Cluster
) -> None:
    run, job = begin(study, slurm, "--retries", "0")
    call("scancel", job["id"])
    output, _ = run.communicate(timeout=120)
    assert run.returncode != 0
    assert f"Error in group {JOB}" in output
    assert not (study.folder / TARGET).exists()
    kept = study.journal_draws(CELL)
    assert 8 <= len(kept) < DRAWS
    server.order()
    study.run(TARGET)
    assert_finished_without_repeats(study, server, kept)


def test_a_cancelled_job_is_submitted_again_by_the_same_run(
    study: Workspace, server: FakeServer, slurm: Cluster
) -> None:
    run, job = begin(study, slurm)
    call("scancel", job["id"])
    kept = study.journal_draws(CELL)
    server.order()
    output, _ = run.communicate(timeout=180)
    assert run.returncode == 0, output[-3000:]
    assert_finished_without_repeats(study, server, kept)


def test_a_node_that_is_drained_finishes_its_job_and_gets_no_other(
    study: Workspace, server: FakeServer, slurm: Cluster
) -> None:
    run, job = begin(study, slurm)
    call("scontrol", "update", f"NodeName={job['node']}", "State=DRAIN", "Reason=test")
    server.order()
    output, _ = run.communicate(timeout=180)
    assert run.returncode == 0, output[-3000:]
    assert_finished_without_repeats(study, server, kept=[], in_flight=0)
    study.run("results/counts/labels/first.parquet")
    (last,) = [each for each in slurm.jobs() if "count_draws" in each["comment"]][-1:]
    assert last["node"] in set(NODES) - {job["node"]}


def test_a_node_that_goes_down_loses_no_draw(
    study: Workspace, server: FakeServer, slurm: Cluster
) -> None:
    """Slurm ends the job; it, or the run, starts it again on another node."""
    run, job = begin(study, slurm)
    call("scontrol", "update", f"NodeName={job['node']}", "State=DOWN", "Reason=test")
    kept = study.journal_draws(CELL)
    server.order()
    output, _ = run.communicate(timeout=240)
    assert run.returncode == 0, output[-3000:]
    assert_finished_without_repeats(study, server, kept)


def test_a_second_run_on_the_same_folder_is_refused_in_one_line(
    study: Workspace, server: FakeServer, slurm: Cluster
) -> None:
    run, _ = begin(study, slurm)
    jobs = len(slurm.jobs())
    refused = study.attempt("--cores", "1", TARGET)
    assert refused.returncode != 0
    (line,) = [each for each in refused.stdout.splitlines() if "is working here" in each]
    assert f"run {run.pid} on " in line
    assert len(slurm.jobs()) == jobs
    server.order()
    output, _ = run.communicate(timeout=180)
    assert run.returncode == 0, output[-3000:]
    assert_finished_without_repeats(study, server, kept=[], in_flight=0)


def test_a_run_after_a_killed_one_waits_for_the_job_that_still_draws(
    study: Workspace, server: FakeServer, slurm: Cluster
) -> None:
    """Slurm's jobs outlive the run that submitted them; a journal has one writer."""
    run, _ = begin(study, slurm)
    kill_hard(run.pid)
    run.wait()
    study.run(TARGET)
    assert_finished_without_repeats(study, server, kept=[], in_flight=0)


def test_a_partial_table_is_not_taken_for_a_whole_one(
    study: Workspace, server: FakeServer, slurm: Cluster
) -> None:
    server.order()
    study.run(TARGET)
    table = study.folder / TARGET
    table.write_bytes(table.read_bytes()[:-100])
    told = study.attempt("--cores", "1", "--retries", "0", "results/counts/labels/first.parquet")
    assert told.returncode != 0
    log = (study.folder / "results/logs/counts/labels/first.log").read_text()
    assert TARGET in log
    assert "Traceback" not in log
