"""The study of names, beside the study of labels; and the published configuration."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from typing import Any

import polars as pl
import pytest
import yaml

from running import HOME, SNAKEMAKE, FakeServer, Workspace, parse_jobs, small_study

FORMATS = ["story", "biography"]


def names_study(**selection: Any) -> dict[str, Any]:
    return {
        "kind": "names",
        "stimuli": "resources/names.yaml",
        "names": {"per_group": 4, **selection},
        "formats": FORMATS,
        "draws": 1,
        "max_new_tokens": 40,
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, server: FakeServer) -> Workspace:
    """A run of both paradigms, the names as they are and matched by frequency."""
    workspace = Workspace(tmp_path_factory.mktemp("names"))
    config = small_study(models={"first": server.model("first")})
    config["studies"] |= {"names": names_study(), "matched": names_study(match="frequency")}
    workspace.configure(config)
    workspace.run()
    return workspace


def read(workspace: Workspace, path: str) -> pl.DataFrame:
    return pl.read_parquet(workspace.folder / "results" / path)


def test_a_names_study_asks_once_for_every_name_in_every_format(finished: Workspace) -> None:
    stimuli = read(finished, "stimuli/names.parquet")
    assert len(stimuli) == len(FORMATS) * 4 * 4 == stimuli["prompt_id"].n_unique()
    assert set(stimuli["group"]) == {"Black", "Hispanic", "Asian", "White"}
    garcia = stimuli.filter(pl.col("name") == "Garcia", pl.col("format") == "story")
    assert garcia["prompt"].to_list() == ["Write a thirty-word story about Garcia."]
    for cell in ("T0", "T0.5-P0.8", "T0.5-P1.0"):
        draws = read(finished, f"draws/names/first/{cell}.parquet")
        assert sorted(draws["prompt_id"]) == sorted(stimuli["prompt_id"])


def test_names_of_a_group_are_compared_with_each_other(finished: Workspace) -> None:
    similarity = read(finished, "similarity/names/first/minilm.parquet")
    assert similarity["n_mates"].unique().to_list() == [3]
    members = similarity.group_by("temperature", "top_p", "format", "group").agg(
        pl.col("name").n_unique()
    )
    assert members["name"].unique().to_list() == [4]


def test_greedy_decoding_is_analysed_in_a_names_study_only(finished: Workspace) -> None:
    for study, expected in (("names", True), ("matched", True), ("labels", False)):
        fits = read(finished, f"fits/{study}/first/minilm.parquet")
        greedy = fits.filter(pl.col("temperature") == "0")
        assert (greedy["estimate"].null_count() == 0) == expected
    terms = read(finished, "fits/names/first/minilm.parquet")["term"].unique(maintain_order=True)
    assert terms.to_list() == ["Intercept", "group[Black]", "group[Hispanic]", "group[Asian]"]


def test_matched_names_are_of_nearer_frequency(finished: Workspace) -> None:
    page = (finished.folder / "results/report.html").read_text()
    for study in ("names", "matched", "labels"):
        assert f"Study {study}" in page
    overlaps = {}
    for study in ("names", "matched"):
        file = finished.folder / f"results/stimuli/{study}.parquet"
        facts = json.loads(pl.read_parquet_metadata(file)["llm_variability"])["selection"]
        overlaps[study] = {row["group"]: row["overlap"] for row in facts["overlap"]}
    assert overlaps["names"]["Black"] < overlaps["matched"]["Black"]


def test_the_published_study_is_one_file_and_plans_the_right_jobs(workspace: Workspace) -> None:
    told = subprocess.run(
        [
            *SNAKEMAKE,
            "--dry-run",
            "--directory",
            str(workspace.folder),
            "--configfile",
            str(HOME / "config/homogeneity.yaml"),
        ],
        capture_output=True,
        text=True,
        env=workspace.environment(),
        check=False,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    planned = Counter(rule for rule, _ in parse_jobs(told.stdout))
    models, encoders, studies, settings = 7, 3, 2, 21
    assert planned["fetch_model"] == models
    assert planned["fetch_encoder"] == encoders
    assert planned["stimuli"] == studies
    assert planned["generate"] == models * studies * settings
    for rule in ("embed", "cosine", "fit", "analyse_sensitivity", "vendi_score"):
        assert planned[rule] == models * studies * encoders
    assert planned["lexical_diversity"] == models * studies
    assert planned["adjust"] == studies


def test_the_published_study_pins_every_model_and_encoder() -> None:
    config = yaml.safe_load((HOME / "config/homogeneity.yaml").read_text())
    weights = [*config["models"].values(), *config["encoders"].values()]
    assert len(weights) == len({entry["hub"] for entry in weights}) == 10
    assert all(re.fullmatch(r"[0-9a-f]{40}", entry["revision"]) for entry in weights)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown group": (
        {"names": {"per_group": 4, "groups": ["White", "Martian"]}},
        "Martian",
    ),
    "one name": ({"names": {"per_group": 1}}, "per_group: 1 is not allowed"),
    "names for labels": ({"kind": "labels"}, "the key names needs kind: names"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_about_names_ends_in_one_line_before_any_job(
    case: str, workspace: Workspace, server: FakeServer
) -> None:
    changes, expected = BAD[case]
    config = small_study(models={"first": server.model("first")})
    config["studies"] = {"names": names_study() | changes}
    workspace.configure(config)
    told = workspace.attempt("--cores", "1")
    assert told.returncode != 0
    (line,) = [line for line in told.stdout.splitlines() if "config.yaml: " in line]
    assert "studies.names" in line
    assert expected in line
    assert "Traceback" not in told.stdout
    assert not (workspace.folder / "results").exists()
