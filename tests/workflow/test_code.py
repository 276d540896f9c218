"""The study of code through the whole workflow, with two models that make their programs up."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from running import HOME, SNAKEMAKE, FakeServer, Workspace, parse_jobs, small_study

SETTINGS = ["T0", "T0.5-P1.0"]
BANDS = ("low", "medium", "high")


def code_study(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "code",
        "stimuli": "resources/tasks",
        "tasks": {"open": None, "humaneval": [f"HumanEval-{number}" for number in range(5)]},
        "augmentation": {"methods": ["keyboard", "synonym"], "rates": [0, 0.3, 0.6]},
        "paraphrase": {"model": "first", "variants": 2, "temperatures": [0.5]},
        "frame": {"prefix": "Write Python.", "postfix": "Code only."},
        "grid": {"temperature": [0, 0.5], "top_p": [1.0]},
        "draws": 3,
        "max_new_tokens": 300,
        **changes,
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, server: FakeServer) -> Workspace:
    """A run of a study of code, and of nothing else."""
    workspace = Workspace(tmp_path_factory.mktemp("code"))
    config = small_study(models={name: server.model(name) for name in ("first", "second")})
    config["studies"] = {"code": code_study()}
    config["curves"] = {"resamples": 200}
    workspace.configure(config)
    workspace.run()
    return workspace


def read(workspace: Workspace, path: str) -> pl.DataFrame:
    return pl.read_parquet(workspace.folder / "results" / path)


def test_every_augmentation_has_a_cell_at_every_setting(finished: Workspace) -> None:
    stimuli = read(finished, "stimuli/code.parquet")
    augmentations = set(stimuli["augmentation"]) | {f"paraphrase-{band}" for band in BANDS}
    assert len(augmentations) == 1 + 2 * 2 + 3
    for model in ("first", "second"):
        for setting in SETTINGS:
            for augmentation in augmentations:
                draws = read(finished, f"draws/code/{model}/{setting}/{augmentation}.parquet")
                asked = stimuli.filter(augmentation=augmentation)
                assert sorted(draws["prompt_id"]) == sorted(list(asked["prompt_id"]) * 3)


def test_the_model_was_asked_with_the_frame_around_every_prompt(
    finished: Workspace, server: FakeServer
) -> None:
    asked = [request["body"]["messages"][-1]["content"] for request in server.requests()]
    programs = [text for text in asked if "<request>" not in text]
    assert programs
    assert all(text.startswith("Write Python.\n\n") for text in programs)
    assert all(text.endswith("\n\nCode only.") for text in programs)
    assert not any("Code only." in text for text in asked if "<request>" in text)


def test_paraphrases_are_scored_and_sorted_by_their_bleu(finished: Workspace) -> None:
    found = read(finished, "paraphrases/code.parquet")
    assert len(found) == 27 * 3 * 2
    assert found["similarity"].is_between(-1, 1.0001).all()
    bands = {"low": (0.5, 1.01), "medium": (0.2, 0.5), "high": (-0.01, 0.2)}
    for band, (low, high) in bands.items():
        assert found.filter(band=band)["bleu"].is_between(low, high, closed="left").all()
    stimuli = read(finished, "stimuli/code.parquet").filter(method="paraphrase")
    assert len(stimuli) == found["used"].sum()


def test_pairs_leave_out_a_draw_against_itself(finished: Workspace) -> None:
    pairs = read(finished, "pairs/code/first/tsed.parquet").filter(measure="tsed")
    ceiling = pairs.filter(comparison="ceiling")
    assert (ceiling["replicate"] != ceiling["reference_replicate"]).all()
    floor = pairs.filter(comparison="floor")
    assert (floor["task"] != floor["reference_task"]).all()
    assert (floor["set"] == floor["reference_task"].str.split("/").list.first()).all()
    augmented = pairs.filter(comparison="augmented")
    assert (augmented["task"] == augmented["reference_task"]).all()


def test_similarity_falls_with_the_rate_and_lies_between_ceiling_and_floor(
    finished: Workspace,
) -> None:
    curves = read(finished, "curves/code/curves.parquet").filter(
        pl.col("measure") == "tsed", pl.col("temperature") == "0", pl.col("set").is_null()
    )
    for model in ("first", "second"):
        rows = curves.filter(model=model)
        ceiling = rows.filter(comparison="ceiling")["estimate"][0]
        floor = rows.filter(comparison="floor")["estimate"][0]
        assert ceiling == pytest.approx(1)  # at temperature 0 the made-up models repeat themselves
        points = rows.filter(comparison="augmented", method="keyboard").sort("realised")
        values = points.filter(pl.col("realised") > 0)["estimate"].to_list()
        assert ceiling > values[0] > values[1] > floor - 0.1
    summaries = read(finished, "curves/code/summaries.parquet")
    assert set(summaries["summary"]) == {"auc", "half_life", "slope"}
    contrasts = read(finished, "curves/code/contrasts.parquet")
    assert set(contrasts["kind"]) == {"model", "method", "set"}
    adjusted = contrasts.drop_nulls("p_value")
    assert (adjusted["p_holm"] >= adjusted["p_value"]).all()


def test_refusals_are_counted_and_not_compared(finished: Workspace) -> None:
    counts = read(finished, "extractions/code/first.parquet")
    assert counts.filter(pl.col("temperature") == "0")["no_code"].sum() == 0
    assert counts.filter(pl.col("temperature") == "0.5")["no_code"].sum() > 0
    assert (
        counts["draws"].sum()
        == counts.select("ok", "invalid", "truncated", "no_code").sum().sum_horizontal()[0]
    )
    programs = read(finished, "programs/code/first.parquet")
    refused = programs.filter(status="no_code").select("prompt_id", "replicate", "temperature")
    pairs = read(finished, "pairs/code/first/tsed.parquet")
    assert pairs.join(refused, on=["prompt_id", "replicate", "temperature"]).is_empty()


def test_the_page_shows_the_study(finished: Workspace) -> None:
    page = (finished.folder / "results/report.html").read_text()
    assert "Study code" in page
    assert "keyboard" in page


def test_nothing_is_left_to_do(finished: Workspace) -> None:
    assert finished.planned_jobs() == set()


def test_a_rate_more_draws_that_rate_alone(finished: Workspace) -> None:
    """Each setting's job runs again, and finds the draws of the other rates in its journal."""
    text = (finished.folder / "config.yaml").read_text()
    config = yaml.safe_load(text)
    config["studies"]["code"]["augmentation"]["rates"] = [0, 0.3, 0.4, 0.6]
    finished.configure(config)
    try:
        jobs = finished.planned_jobs()
    finally:
        (finished.folder / "config.yaml").write_text(text)
    rules = Counter(rule for rule, _ in jobs)
    assert rules["code_stimuli"] == 1
    assert rules["generate_paraphrases"] == rules["wordnet"] == 0
    assert rules["generate_code"] == 2 * 2  # models, settings


def test_the_published_study_is_planned_whole(tmp_path: Path) -> None:
    keys = {f"{name}_API_KEY": "x" for name in ("OPENAI", "ANTHROPIC", "GEMINI", "LLAMA")}
    workspace = Workspace(tmp_path)
    told = subprocess.run(
        [
            *SNAKEMAKE,
            "--directory",
            str(tmp_path),
            "--configfile",
            str(HOME / "config/code-sensitivity.yaml"),
            "--dry-run",
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**workspace.environment(), **keys},
    )
    assert told.returncode == 0, told.stdout + told.stderr
    jobs = Counter(rule for rule, _ in parse_jobs(told.stdout))
    assert jobs["generate_code"] == 5  # five models, one setting
    assert told.stdout.count("/paraphrase-low.parquet") >= 5
    assert jobs["generate_paraphrases"] == 2
    assert jobs["extract_programs"] == jobs["tsed"] == jobs["code_cosine"] == 5
    assert jobs["curves"] == 1
