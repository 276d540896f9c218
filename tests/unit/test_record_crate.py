"""The record of a run as an RO-Crate: valid, complete, true to the files, and silent on secrets."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from crate_validation import PROFILES, fill_cache, list_issues
from llm_variability.record.__main__ import HOME, record_run
from llm_variability.record.files import list_paths
from record_inputs import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "results"
    write_run(folder)
    record_run(folder, HOME)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_cache(tmp_path_factory.mktemp("validator") / "cache")


@pytest.fixture(scope="module")
def text(run: Path) -> str:
    return (run / "ro-crate-metadata.json").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def entities(text: str) -> dict[str, Any]:
    graph = json.loads(text)["@graph"]
    assert len({each["@id"] for each in graph}) == len(graph)
    return {each["@id"]: each for each in graph}


def is_file(entity: dict[str, Any]) -> bool:
    return "File" in entity["@type"]


def ids(value: Any) -> list[str]:
    return [each["@id"] for each in (value if isinstance(value, list) else [value])]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_crate_keeps_every_requirement_of_its_profiles(
    run: Path, cache: Path, profile: str
) -> None:
    assert list_issues(run, profile, cache) == []


def test_the_validator_finds_what_is_missing(run: Path, cache: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(run, tmp_path / "broken")
    path = broken / "ro-crate-metadata.json"
    crate = json.loads(path.read_text(encoding="utf-8"))
    crate["@graph"] = [each for each in crate["@graph"] if each["@id"] != "#run"]
    path.write_text(json.dumps(crate), encoding="utf-8")
    issues = " ".join(list_issues(broken, PROFILES[0], cache))
    assert "MUST reference the root data entity's mainEntity as its instrument" in issues


def test_what_is_recommended_and_missing_is_what_nobody_told(run: Path, cache: Path) -> None:
    issues = list_issues(run, PROFILES[0], cache, "RECOMMENDED")
    # Who ran it, who publishes it, and where the workflow can be had are not known to a run; an
    # endpoint tells no version, and draws that were broken off have no end. The last is about the
    # workflow too: its id is a path, as its profile wants.
    known = (
        "agent",
        "author",
        "publisher",
        "have a url",
        "have a version",
        "have an endTime",
        "id SHOULD be an absolute URI",
    )
    assert [issue for issue in issues if not any(each in issue for each in known)] == []


def test_files_are_listed_with_their_size_and_checksum(run: Path, entities: dict[str, Any]) -> None:
    files = [each for each in entities.values() if is_file(each)]
    assert len(files) > 100
    for each in files:
        content = (run / each["@id"]).read_bytes()
        assert each["contentSize"] == str(len(content))
        assert each["sha256"] == hashlib.sha256(content).hexdigest()
        assert each["encodingFormat"]


def test_every_file_is_in_the_crate_by_itself_or_in_a_folder(
    run: Path, entities: dict[str, Any]
) -> None:
    parts = ids(entities["./"]["hasPart"])
    folders = tuple(part for part in parts if part.endswith("/"))
    lacking = [
        path
        for path in list_paths(run)
        if path not in parts and not path.startswith(folders) and path != "ro-crate-metadata.json"
    ]
    assert lacking == []


def test_the_run_took_the_configuration_and_gave_the_page(entities: dict[str, Any]) -> None:
    action = entities["#run"]
    taken, given = ids(action["object"]), ids(action["result"])
    assert {"config.yaml", "models/local.json", "encoders/mini.json", "#value/seed"} <= set(taken)
    assert {"report.html", "tables/fits.csv", "adjusted/labels.parquet"} <= set(given)
    assert not set(taken) & set(given)
    assert entities["#value/seed"]["value"] == 1
    assert entities["#value/grid.temperature"]["value"] == "0, 1.0"


def test_the_run_began_with_its_first_draw_and_ended_with_its_page(
    entities: dict[str, Any],
) -> None:
    assert entities["#run"]["startTime"] == "2023-11-14T19:59:00+00:00"
    assert entities["#run"]["endTime"] == "2023-11-14T22:13:20+00:00"
    assert entities["./"]["datePublished"] == "2023-11-14T22:13:20+00:00"
    assert "agent" not in entities["#run"]


def test_the_draws_of_a_model_are_an_action_of_its_engine(entities: dict[str, Any]) -> None:
    (local,) = (each for each in entities.values() if each.get("name") == "Draws from local")
    engine = entities[local["instrument"]["@id"]]
    assert (engine["name"], engine["softwareVersion"]) == ("vllm", "0.33.0")
    assert local["startTime"] == "2023-11-14T20:00:00+00:00"
    assert local["endTime"] == "2023-11-14T20:50:00+00:00"
    assert ids(local["result"]) == ["draws/labels/local/T0.5-P0.8.parquet"]


def test_draws_that_were_broken_off_have_no_end(entities: dict[str, Any]) -> None:
    (far,) = (each for each in entities.values() if each.get("name") == "Draws from far")
    assert "endTime" not in far
    assert entities[far["instrument"]["@id"]]["url"] == "https://***@example.invalid/v1"


def test_the_crate_names_no_folder_machine_or_secret(run: Path, text: str) -> None:
    for hidden in (str(run), str(HOME), "/tmp", "node-17", "secret"):
        assert hidden not in text


def test_the_same_run_gives_the_same_crate(run: Path, text: str) -> None:
    record_run(run, HOME)
    assert (run / "ro-crate-metadata.json").read_text(encoding="utf-8") == text


def test_the_workflow_is_beside_its_results(run: Path) -> None:
    assert (run / "workflow/Snakefile").read_bytes() == (HOME / "Snakefile").read_bytes()
    rules = {path.name for path in (HOME / "workflow/rules").glob("*.smk")}
    assert {path.name for path in (run / "workflow/workflow/rules").iterdir()} == rules
    assert not list((run / "workflow").rglob("__pycache__"))
