"""The command that draws a setting of a study of code: one journal, one file an augmentation."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from chat_server import ChatServer, running
from llm_variability.draws import __main__ as command
from llm_variability.draws.journal import read_journal
from llm_variability.stimuli.code import DESIGN
from llm_variability.tables import (
    COUNTS,
    DRAWS,
    SESSIONS,
    STIMULI,
    THROUGHPUT,
    read_table,
    write_table,
)

PROMPTS = {
    # augmentation -> (prompt_id, prompt); rate 0.8 changes no more of the first than rate 0.4 does.
    "original": [("p0", "add"), ("p1", "sort")],
    "synonym-0.4": [("q0", "sum"), ("q1", "order")],
    "synonym-0.8": [("q0", "sum"), ("q2", "rank")],
    "paraphrase-low": [],
}
REPLICATES = 2


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with running(ChatServer()) as server:
        yield server


def run(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["draws", *map(str, arguments)])
    command.main()


@pytest.fixture
def drawn(tmp_path: Path, chat: ChatServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a model's draws, after two runs of the same setting."""
    rows = [
        {
            **dict.fromkeys(DESIGN.columns, "x"),
            "task": f"own/{number}",
            "augmentation": augmentation,
            "prompt_id": prompt_id,
            "prompt": prompt,
            "system": None,
            "replicates": REPLICATES,
            "greedy_replicates": 1,
        }
        for augmentation, prompts in PROMPTS.items()
        for number, (prompt_id, prompt) in enumerate(prompts)
    ]
    stimuli, manifest = tmp_path / "stimuli.parquet", tmp_path / "m.json"
    metadata = {"study": "code", "design": DESIGN.to_json()}
    write_table(pl.DataFrame(rows), stimuli, STIMULI, metadata)
    manifest.write_text(json.dumps({"identity": "m", "path": None}))
    folder = tmp_path / "draws/code/m"
    for _ in range(2):
        run(
            monkeypatch,
            *("generate", "--study", "code", "--model", "m", "--setting", "T1.0-P0.9"),
            *("--augmentations", *PROMPTS),
            *("--settings", json.dumps({"endpoint": chat.url, "max_in_flight": 2})),
            *("--manifest", manifest, "--stimuli", stimuli, "--max-new-tokens", 50, "--seed", 1),
            *("--engine-log", tmp_path / "engine.log"),
            *("--output", *(folder / f"T1.0-P0.9/{name}.parquet" for name in PROMPTS)),
        )
    return folder


def test_a_prompt_that_two_augmentations_share_is_drawn_from_once(
    drawn: Path, chat: ChatServer
) -> None:
    (journal,) = (drawn / "journals").glob("T1.0-P0.9.*.jsonl")
    distinct = {prompt for prompts in PROMPTS.values() for prompt, _ in prompts}
    assert len(read_journal(journal).draws) == len(distinct) * REPLICATES == 10
    asked = Counter(body["seed"] for body in chat.bodies)
    assert set(asked.values()) == {1}
    assert len(asked) == 10


def test_each_augmentation_has_a_file_of_its_own_rows(drawn: Path) -> None:
    for augmentation, prompts in PROMPTS.items():
        table = read_table(drawn / f"T1.0-P0.9/{augmentation}.parquet", DRAWS)
        assert table.select("prompt_id", "replicate", "task", "augmentation").rows() == [
            (prompt_id, replicate, f"own/{number}", augmentation)
            for replicate in range(REPLICATES)
            for number, (prompt_id, _) in enumerate(prompts)
        ]


def test_all_augmentations_are_counted_and_their_sessions_once(
    drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, sessions, total = (tmp_path / f"{name}.parquet" for name in ("c", "s", "t"))
    files = sorted((drawn / "T1.0-P0.9").glob("*.parquet"))
    run(
        monkeypatch,
        *("count", "--draws", *files, "--output", counts, "--sessions", sessions),
    )
    assert read_table(counts, COUNTS)["draws"].sum() == 6 * REPLICATES
    (session,) = read_table(sessions, SESSIONS).iter_rows(named=True)
    assert (session["draws"], session["completion_tokens"]) == (10, 10 * 7)
    run(monkeypatch, "summarise", "--sessions", sessions, "--output", total)
    (row,) = read_table(total, THROUGHPUT).iter_rows(named=True)
    assert (row["study"], row["sessions"], row["broken_off"], row["draws"]) == ("code", 1, 0, 10)
