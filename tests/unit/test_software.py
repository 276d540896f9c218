"""Which packages and what hardware something was made with."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path

import polars as pl

from llm_variability.software import find_versions, list_accelerators, name_processor
from llm_variability.tables import SESSIONS, read_metadata, write_table


def test_a_table_says_which_packages_wrote_it(tmp_path: Path) -> None:
    schema = {name: column.dtype for name, column in SESSIONS.columns.items()}
    handed_on = {"made_with": {"polars": "0.1"}}
    write_table(pl.DataFrame(schema=schema), tmp_path / "s.parquet", SESSIONS, handed_on)
    made_with = read_metadata(tmp_path / "s.parquet")["made_with"]
    assert made_with["python"] == platform.python_version()
    assert made_with["polars"] == importlib.metadata.version("polars")


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert list(find_versions(["polars", "no-such-package"])) == ["polars"]


def test_a_processor_is_named_as_linux_names_it(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: Made-up CPU @ 2 GHz\nmodel\t\t: 1\n")
    assert name_processor(file) == "Made-up CPU @ 2 GHz"


def test_gpus_of_one_model_are_named_once(tmp_path: Path) -> None:
    for number, name in enumerate(["NVIDIA H200", "NVIDIA A100", "NVIDIA H200"]):
        folder = tmp_path / f"0000:0{number}:00.0"
        folder.mkdir()
        (folder / "information").write_text(f"Model: \t\t {name}\nIRQ:   \t\t 16\n")
    assert list_accelerators(tmp_path) == ["NVIDIA A100", "NVIDIA H200"]
    assert list_accelerators(tmp_path / "none") == []
