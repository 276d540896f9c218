"""Runs that are killed in the middle: the next one finishes, and no draw is made twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import polars as pl
import psutil
import pytest

from running import (
    FakeServer,
    Workspace,
    kill_hard,
    processes_with,
    small_study,
    wait_for,
)

CELL = "T0.5-P0.8"
TARGET = f"results/draws/labels/first/{CELL}.parquet"
DRAWS = 16 * 3


@pytest.fixture
def study(server: FakeServer, workspace: Workspace) -> Any:
    """A configured run whose server answers slowly, and the keys it was asked for."""
    workspace.configure(small_study(models={"first": server.model("first")}))
    server.order(delay_s=0.4)
    (server.folder / "requests.jsonl").unlink(missing_ok=True)
    yield workspace
    server.order()


def draws_made(workspace: Workspace) -> int:
    return len(workspace.journal_draws(CELL))


def job_processes(workspace: Workspace) -> list[psutil.Process]:
    """The Python processes of this run's cell job (not the shell that holds its command)."""
    jobs = processes_with("llm_variability.draws", CELL, "--engine-log")
    return [
        job for job in jobs if job.cwd() == str(workspace.folder) and "python" in job.cmdline()[0]
    ]


def assert_finished_without_repeats(workspace: Workspace, kept: list[tuple[str, int]]) -> None:
    made = workspace.journal_draws(CELL)
    assert made[: len(kept)] == kept
    assert len(made) == len(set(made)) == DRAWS
    assert len(pl.read_parquet(workspace.folder / TARGET)) == DRAWS
    leftovers = [path for path in workspace.folder.rglob("*.tmp") if "draws" in path.parts]
    assert leftovers == []


def assert_kept_draws_were_asked_for_once(server: FakeServer, in_flight: int) -> None:
    """Only the requests that were under way when the process died may be made again."""
    asked = Counter(request["seed"] for request in server.requests())
    assert len(asked) == DRAWS
    assert sum(count - 1 for count in asked.values()) <= in_flight


def test_a_killed_snakemake_is_finished_by_the_next_run(
    study: Workspace, server: FakeServer
) -> None:
    run = study.start(TARGET)
    wait_for(lambda: draws_made(study) >= 8, 60, "the first draws")
    kill_hard(run.pid)
    run.wait()
    wait_for(lambda: not job_processes(study), 20, "the orphaned job to end by itself")
    assert not (study.folder / TARGET).exists()
    kept = study.journal_draws(CELL)
    server.order()
    study.run(TARGET)
    assert_finished_without_repeats(study, kept)
    assert_kept_draws_were_asked_for_once(server, in_flight=4)


def test_a_run_right_after_a_killed_one_waits_for_its_orphan(
    study: Workspace, server: FakeServer
) -> None:
    run = study.start(TARGET)
    wait_for(lambda: draws_made(study) >= 4, 60, "the first draws")
    kill_hard(run.pid)
    run.wait()
    server.order()
    study.run(TARGET)
    assert_finished_without_repeats(study, kept=[])


def test_a_killed_job_is_tried_again_in_the_same_run(study: Workspace, server: FakeServer) -> None:
    run = study.start(TARGET)
    wait_for(lambda: draws_made(study) >= 8, 60, "the first draws")
    for job in job_processes(study):
        kill_hard(job.pid)
    kept = study.journal_draws(CELL)
    server.order()
    output, _ = run.communicate(timeout=120)
    assert run.returncode == 0, output[-3000:]
    assert_finished_without_repeats(study, kept)
    assert_kept_draws_were_asked_for_once(server, in_flight=4)


def test_a_line_cut_off_by_a_crash_costs_that_draw_alone(
    study: Workspace, server: FakeServer
) -> None:
    server.order()
    study.run(TARGET)
    journal = study.journals(CELL)[0]
    lines = journal.read_bytes().splitlines(keepends=True)
    assert b'"end"' in lines[-1]
    journal.write_bytes(b"".join(lines[:-1])[:-20])
    (study.folder / TARGET).unlink()
    asked = len(server.requests())
    study.run(TARGET)
    assert len(server.requests()) == asked + 1
    assert_finished_without_repeats(study, kept=[])


def test_a_partial_table_is_not_taken_for_a_whole_one(study: Workspace, server: FakeServer) -> None:
    server.order()
    study.run(TARGET)
    table = study.folder / TARGET
    table.write_bytes(table.read_bytes()[:-100])
    told = study.attempt("--cores", "2", "results/counts/labels/first.parquet").stdout
    assert "is no table of this project" in told


def test_a_server_that_fails_stops_the_run_with_one_clear_line_and_loses_nothing(
    study: Workspace, server: FakeServer
) -> None:
    run = study.start("--retries", "0", TARGET)
    wait_for(lambda: draws_made(study) >= 8, 60, "the first draws")
    server.order(mode="500")
    output, _ = run.communicate(timeout=180)
    assert run.returncode != 0
    assert "draws could not be made (HTTP 500: made-up failure)" in output
    kept = study.journal_draws(CELL)
    assert len(kept) >= 8
    server.order()
    study.run(TARGET)
    assert_finished_without_repeats(study, kept)


def test_empty_unanswered_and_truncated_draws_are_counted(
    study: Workspace, server: FakeServer
) -> None:
    server.order(mode="mixed")
    study.run(TARGET)
    draws = pl.read_parquet(study.folder / TARGET)
    kinds = dict(draws.group_by("status").len().iter_rows())
    seeds = [seed % 7 for seed in draws["seed"]]
    expected = {"empty": seeds.count(0), "no_answer": seeds.count(1), "truncated": seeds.count(2)}
    expected["ok"] = DRAWS - sum(expected.values())
    assert kinds == {status: count for status, count in expected.items() if count}
    assert draws.filter(pl.col("status").is_in(["empty", "no_answer"]))["text"].null_count() == (
        expected["empty"] + expected["no_answer"]
    )


def test_a_second_run_in_the_same_folder_is_refused_in_one_line(
    study: Workspace, server: FakeServer
) -> None:
    run = study.start(TARGET)
    wait_for(lambda: draws_made(study) >= 2, 60, "the first draws")
    second = study.attempt("--cores", "1", TARGET)
    server.order()
    output, _ = run.communicate(timeout=120)
    assert second.returncode != 0
    assert f"run {run.pid}" in second.stdout
    assert "is working here; wait for it" in second.stdout
    assert "Traceback" not in second.stdout
    assert run.returncode == 0, output[-3000:]


def test_the_key_of_an_endpoint_is_written_nowhere(
    server: FakeServer, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-do-not-write-me-anywhere"
    monkeypatch.setenv("TEST_ENDPOINT_KEY", secret)
    model = {**server.model("first"), "api_key_env": "TEST_ENDPOINT_KEY"}
    workspace.configure(small_study(models={"first": model}))
    output = workspace.run(TARGET)
    assert secret not in output
    written = [path for path in workspace.folder.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert not [path for path in written if secret.encode() in path.read_bytes()]


def test_a_budget_stops_the_run_before_it_is_passed_and_a_higher_one_goes_on(
    study: Workspace, server: FakeServer
) -> None:
    server.order()
    small = {**server.model("first"), "budget": {"tokens": 1200}}
    study.configure(small_study(models={"first": small}))
    told = study.attempt("--cores", "2", "--retries", "0", TARGET)
    assert told.returncode != 0
    assert "models.first.budget.tokens: " in told.stdout
    assert "raise it to go on" in told.stdout
    assert "Traceback" not in told.stdout
    kept = study.journal_draws(CELL)
    assert 0 < len(kept) < DRAWS
    spent = sum(20 + len(text.split()) for text in _answers(study))  # as the server's usage says
    assert spent <= 1200
    study.configure(
        small_study(models={"first": {**server.model("first"), "budget": {"tokens": 100_000}}})
    )
    study.run(TARGET)
    assert_finished_without_repeats(study, kept)
    assert_kept_draws_were_asked_for_once(server, in_flight=0)


def _answers(workspace: Workspace) -> list[str]:
    """The texts in a cell's journals."""
    records = [
        json.loads(line)
        for path in workspace.journals(CELL)
        for line in path.read_text().splitlines()
    ]
    return [record["draw"]["raw"] for record in records if "draw" in record]
