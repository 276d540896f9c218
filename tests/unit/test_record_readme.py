"""The README of a results folder: every file and every column."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from llm_variability.record.__main__ import HOME, record_run
from llm_variability.record.files import KINDS, list_paths, sort_files
from llm_variability.record.readme import describe_results
from llm_variability.report.csv_tables import CSV_TABLES
from llm_variability.tables import read_metadata
from record_inputs import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "results"
    write_run(folder)
    record_run(folder, HOME)
    return folder


@pytest.fixture(scope="module")
def readme(run: Path) -> str:
    return (run / "README.md").read_text(encoding="utf-8")


def test_every_file_of_a_run_is_described(run: Path, readme: str) -> None:
    found, unknown = sort_files(list_paths(run))
    assert unknown == []
    assert len(found) > 60
    for each in found:
        assert f"`{each.kind.pattern}`" in readme
    assert "Not made by the workflow" not in readme


def test_every_kind_of_file_says_what_it_is() -> None:
    assert all(kind.what for kind in KINDS)
    assert len({kind.pattern for kind in KINDS}) == len(KINDS)


def test_a_parquet_file_keeps_the_contract_that_it_is_said_to(run: Path) -> None:
    found, _ = sort_files(list_paths(run))
    checked = 0
    for each in found:
        for place in each.places:
            if place.endswith(".parquet"):
                tables = {table.name for table in each.kind.tables}
                assert read_metadata(run / place)["table"] in tables, place
                checked += 1
    assert checked > 40


def test_every_column_of_a_table_is_described(readme: str) -> None:
    for name, table in CSV_TABLES.items():
        section = readme.split(f"\n### Columns of {name}.csv\n")[1].split("\n### ")[0]
        for column, each in table.columns.items():
            row = rf"^\| `{column}` \| {re.escape(str(each.dtype))}[^|]*\| [^|]+ \|$"
            assert re.search(row, section, re.MULTILINE), (name, column)


def test_links_lead_to_files_and_headings(run: Path, readme: str) -> None:
    headings = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", readme, re.MULTILINE)
    }
    links = re.findall(r"\]\(([^)]+)\)", readme)
    assert len(links) > 60
    for link in links:
        assert link[1:] in headings if link.startswith("#") else (run / link).exists(), link


def test_a_study_s_own_columns_are_named(readme: str) -> None:
    assert "`race` (African, Asian, Hispanic, White; reference: White)" in readme


def test_a_file_that_somebody_put_there_is_no_fault_and_said_to_be_strange(
    run: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(run, tmp_path / "results")
    (folder / "my *notes*.txt").write_text("hello")
    assert (
        "- my \\*notes\\*.txt" in describe_results(folder).split("## Not made by the workflow")[1]
    )


def test_folders_are_told_by_the_place_of_what_is_in_them() -> None:
    found, unknown = sort_files(
        [
            "draws/code/m/journals/T0.1.jsonl",
            "draws/code/m/T0/keyboard-0.1.parquet",
            "draws/labels/m/T1.0-P0.8.parquet",
            "models/m/config.json",
            "models/m.json",
            "dialogues/p/turn-0.parquet",
            "elsewhere/x.parquet",
        ]
    )
    assert {each.kind.pattern: each.places for each in found} == {
        "draws/{study}/{model}/journals/": ("draws/code/m/journals/",),
        "draws/{study}/{model}/{cell}.parquet": (
            "draws/code/m/T0/keyboard-0.1.parquet",
            "draws/labels/m/T1.0-P0.8.parquet",
        ),
        "dialogues/{study}/": ("dialogues/p/",),
        "models/{model}.json": ("models/m.json",),
        "models/{model}/": ("models/m/",),
    }
    assert unknown == ["elsewhere/x.parquet"]
