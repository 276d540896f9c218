"""The study of personas through the whole workflow, with two models that make their answers up."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from fake_server import REWRITING
from running import HOME, SNAKEMAKE, FakeServer, Workspace, parse_jobs, small_study

PERSONAS = ["junior-engineer", "principal-engineer", "english-teacher", "astrophysicist"]


def persona_study(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "personas",
        "stimuli": "resources/tasks",
        "tasks": {"brief": None},
        "personas": {"model": "first", "iterations": 3, "attempts": 3, "max_new_tokens": 80},
        "frame": {"postfix": "Write it in Python."},
        "draws": 3,
        "max_new_tokens": 300,
        **changes,
    }


def configure(workspace: Workspace, server: FakeServer, *models: str, **changes: Any) -> None:
    config = small_study(
        models={name: server.model(name) for name in models},
        grid={"temperature": [0.5], "top_p": [1.0]},
        studies={"personas": persona_study(**changes)},
    )
    config["separation"] = {"permutations": 199, "classifier_permutations": 39, "topics": 3}
    workspace.configure(config)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, server: FakeServer) -> Workspace:
    """A run of a study of personas, and of nothing else."""
    workspace = Workspace(tmp_path_factory.mktemp("personas"))
    configure(workspace, server, "first", "second")
    workspace.run()
    return workspace


def read(workspace: Workspace, path: str) -> pl.DataFrame:
    return pl.read_parquet(workspace.folder / "results" / path)


def test_flagged_rewritings_are_asked_for_again_and_no_others(
    finished: Workspace, server: FakeServer
) -> None:
    found = read(finished, "personas/personas.parquet")
    assert found.filter(pl.col("attempt") > 0).height
    for (_, _, _), tries in found.group_by("task", "persona", "iteration"):
        *failed, last = tries.sort("attempt")["used"].to_list()
        assert not any(failed)
        assert last or len(failed) == 2
    assert set(found.filter(~pl.col("used"))["flags"]) == {"meta adrift"}
    asked = [
        request
        for request in server.requests()
        if REWRITING in request["body"]["messages"][-1]["content"]
    ]
    assert len(asked) == found.height
    assert {request["model"] for request in asked} == {"first"}


def test_every_prompt_goes_to_every_model(finished: Workspace) -> None:
    found = read(finished, "personas/personas.parquet").filter("used")
    stimuli = read(finished, "stimuli/personas.parquet")
    assert stimuli.height == found.height
    for model in ("first", "second"):
        draws = read(finished, f"draws/personas/{model}/T0.5-P1.0.parquet")
        assert sorted(draws["prompt_id"]) == sorted([*stimuli["prompt_id"]] * 3)


def test_code_of_personas_who_ask_in_other_words_is_told_apart(finished: Workspace) -> None:
    # The made-up models write a statement for each word, so other words are other programs.
    rows = read(finished, "separation/personas/similarity.parquet").filter(
        pl.col("measure") == "tsed",
        pl.col("variant") == "iterations",
        pl.col("factor") == "persona",
        pl.col("task").is_null(),
        pl.col("first").is_null(),
    )
    assert rows.height == 2
    assert (rows["same_prompt"] > rows["within"]).all()
    assert (rows["within"] > rows["between"]).all()
    assert (rows["p_value"] < 0.05).all()
    leakage = read(finished, "separation/personas/leakage.parquet")
    assert set(leakage["folds"]) == {"task"}
    assert leakage["accuracy"].is_between(0, 1).all()


def test_what_the_prompts_speak_of_is_what_the_descriptions_say(finished: Workspace) -> None:
    entities = read(finished, "wording/personas/entities.parquet")
    assert set(entities["persona"]) == {f"{role}-male" for role in PERSONAS}
    style = read(finished, "wording/personas/style.parquet")
    assert set(style["prompt_id"]) == set(read(finished, "stimuli/personas.parquet")["prompt_id"])


def test_the_page_has_the_study(finished: Workspace) -> None:
    page = (finished.folder / "results/report.html").read_text()
    for label in yaml.safe_load((HOME / "resources/personas.yaml").read_text())["roles"].values():
        assert label["label"] in page
    assert "Traceback" not in page


def test_nothing_is_left_to_do_after_a_run(finished: Workspace) -> None:
    assert not finished.planned_jobs()


def test_a_model_added_later_draws_alone_and_asks_for_no_rewriting(
    finished: Workspace, server: FakeServer
) -> None:
    configure(finished, server, "first", "second", "third")
    planned = Counter(rule for rule, _ in finished.planned_jobs())
    configure(finished, server, "first", "second")
    assert planned["generate"] == planned["features"] == planned["prompt_tsed"] == 1
    assert planned["generate_rewritings"] == planned["linguistics"] == 0


def test_an_iteration_more_keeps_the_prompts_that_are_there(
    finished: Workspace, server: FakeServer
) -> None:
    before = read(finished, "stimuli/personas.parquet")
    asked = len(server.requests())
    more = {**persona_study()["personas"], "iterations": 4}
    configure(finished, server, "first", "second", personas=more)
    try:
        finished.run("results/stimuli/personas.parquet")
        after = read(finished, "stimuli/personas.parquet")
        first_round = read(finished, "personas/personas.parquet").filter(attempt=0)
    finally:
        configure(finished, server, "first", "second")
    kept = before.join(
        first_round.filter("used").with_columns(pl.col("iteration").cast(pl.String)),
        on=["task", "persona", "iteration"],
        how="semi",
    )
    assert set(kept["prompt_id"]) <= set(after["prompt_id"])
    assert len(server.requests()) - asked < first_round.height


def test_models_that_may_ask_back_are_answered_and_then_write_code(
    tmp_path: Path, server: FakeServer
) -> None:
    workspace = Workspace(tmp_path)
    configure(
        workspace,
        server,
        "first",
        "second",
        tasks={"brief": ["calculator"]},
        dialogue={"exchanges": 1, "max_new_tokens": 60},
        draws=2,
    )
    workspace.run()
    asked = 0
    for model in ("first", "second"):
        dialogues = read(workspace, f"dialogues/personas/{model}/dialogues.parquet")
        assert dialogues.height == 2 * read(workspace, "stimuli/personas.parquet").height
        assert set(dialogues["exchanges"]) == {0, 1}
        assert set(dialogues["ended"]) <= {"code", "words"}
        asked += dialogues["exchanges"].sum()
    changes = read(workspace, "dialogues/personas/changes.parquet").filter(
        pl.col("measure") == "tsed", pl.col("persona").is_null()
    )
    assert changes["asked"].sum() == asked
    assert (workspace.folder / "results/figures/personas/persona-dialogue.svg").exists()
    assert not workspace.planned_jobs()


def test_a_refusing_model_is_told_and_counted_and_ends_nothing(
    tmp_path: Path, server: FakeServer
) -> None:
    workspace = Workspace(tmp_path)
    once = {"model": "first", "iterations": 2, "attempts": 1}
    configure(workspace, server, "first", personas=once, tasks={"brief": ["calculator"]})
    server.order(mode="refuse")
    try:
        workspace.run()
    finally:
        server.order()
    found = read(workspace, "personas/personas.parquet")
    assert found.height == 8
    assert not found["used"].any()
    assert set(found["flags"]) == {"refusal adrift"}
    assert read(workspace, "stimuli/personas.parquet").is_empty()
    page = (workspace.folder / "results/report.html").read_text()
    assert "refus" in page


def test_the_published_study_is_planned_whole(tmp_path: Path) -> None:
    keys = {f"{name}_API_KEY": "x" for name in ("OPENAI", "ANTHROPIC")}
    config = str(HOME / "config/personas.yaml")
    told = subprocess.run(
        [*SNAKEMAKE, "--directory", str(tmp_path), "--configfile", config, "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
        env={**Workspace(tmp_path).environment(), **keys},
    )
    assert told.returncode == 0, told.stdout + told.stderr
    jobs = Counter(rule for rule, _ in parse_jobs(told.stdout))
    assert jobs["generate"] == 3  # three models, one setting
    assert jobs["generate_rewritings"] == jobs["persona_requests"] == 3
    assert jobs["features"] == jobs["prompt_tsed"] == jobs["prompt_cosine"] == 3
    assert jobs["separation"] == jobs["linguistics"] == 1
