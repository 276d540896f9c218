"""Pairs of all programs of a task: which there are, how they are scored, what is written."""

from __future__ import annotations

import itertools
import json
import logging
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_variability.code import __main__ as command
from llm_variability.code.prompt_pairs import (
    count_left_out,
    list_prompt_pairs,
    tabulate_prompt_pairs,
)
from llm_variability.code.trees import parse_code, read_named_nodes
from llm_variability.code.tsed import compare_codes
from llm_variability.similarity.embedding import hash_text
from llm_variability.table_contract import Design
from llm_variability.tables import EMBEDDINGS, read_metadata, read_table, write_table
from llm_variability.tables_code import PROGRAMS
from llm_variability.tables_personas import PROGRAM_PAIRS

DESIGN = Design(
    "task", (), carried=("set", "language", "persona", "role", "gender", "iteration", "sampled")
)
MADE_BY = {
    "study": "tiny",
    "model": "m",
    "design": DESIGN.to_json(),
    "extraction": {"choice": "longest"},
    "grammars": {"tree-sitter": "0"},
}
# Golden pair of the published code: 7/15 from the first to the second, 0.4 the other way round.
FIRST = "def f(x):\n    y = x + 1\n    return y\n"
SECOND = "def g(a, b):\n    for i in range(a):\n        print(i * b)\n"
SMALL = "x = 1\n"
HOSTILE = "# </script>\u202e{{ 7 * 7 }}\nprint('\\x00', \"' OR 1=1 --\")\n"


def program(
    task: str,
    prompt_id: str,
    replicate: int,
    code: str | None = SMALL,
    *,
    persona: str = "teacher-male",
    status: str = "ok",
    setting: tuple[str, str | None] = ("0", None),
    language: str = "python",
) -> dict[str, Any]:
    nodes = None
    if status == "ok" and code is not None:
        nodes = len(read_named_nodes(parse_code(code, "python")))
    return {
        "task": task,
        "set": task.partition("/")[0],
        "language": language,
        "persona": persona,
        "role": persona.rpartition("-")[0],
        "gender": persona.rpartition("-")[2],
        "iteration": "0",
        "sampled": "yes",
        "temperature": setting[0],
        "top_p": setting[1],
        "prompt_id": prompt_id,
        "replicate": replicate,
        "draw_status": "ok",
        "status": status,
        "code": code,
        "source": "fence",
        "fences": 1,
        "tag": "",
        "nodes": nodes,
    }


def programs(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    schema = dict.fromkeys(DESIGN.columns, pl.String) | {
        name: column.dtype for name, column in PROGRAMS.columns.items()
    }
    return pl.DataFrame(list(rows), schema=schema)


def everything(table: pl.DataFrame) -> pl.Series:
    return pl.Series([True] * len(table), dtype=pl.Boolean)


# ------------------------------------------------------------------------------- which there are

TINY = programs(
    [
        program("brief/a", "a0", 0),
        program("brief/a", "a0", 1),
        program("brief/b", "b0", 0),
        program("brief/a", "a1", 0, persona="physicist-male"),
    ]
)


def test_every_two_programs_of_a_task_are_a_pair_those_of_one_prompt_too() -> None:
    pairs = list_prompt_pairs(TINY, everything(TINY))
    assert pairs.select("reference", "draw").rows() == [(0, 1), (0, 3), (1, 3)]


def test_both_ways_the_same_pairs_follow_turned_round() -> None:
    pairs = list_prompt_pairs(TINY, everything(TINY), both_ways=True)
    forward = [(0, 1), (0, 3), (1, 3)]
    assert pairs.select("reference", "draw").rows() == [
        *forward,
        *((draw, reference) for reference, draw in forward),
    ]


def test_programs_of_unlike_settings_or_languages_are_no_pair() -> None:
    table = programs(
        [
            program("brief/a", "a", 0),
            program("brief/a", "a", 0, setting=("1.0", "0.8")),
            program("brief/a", "a", 0, setting=("1.0", "1.0")),
            program("brief/a", "a", 1, language="go"),
            program("brief/a", "a", 2),
        ]
    )
    assert list_prompt_pairs(table, everything(table)).rows() == [(0, 4)]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=30),
    st.booleans(),
)
@settings(max_examples=60)
def test_there_are_as_many_pairs_as_programs_make(
    drawn: list[tuple[int, int, bool]], both_ways: bool
) -> None:
    at = (("0", None), ("1.0", "0.8"), ("1.0", "1.0"))
    table = programs(
        program(f"brief/{task}", f"p{number % 4}", number, setting=at[setting])
        for number, (task, setting, _) in enumerate(drawn)
    )
    compared = pl.Series([kept for _, _, kept in drawn], dtype=pl.Boolean)
    pairs = list_prompt_pairs(table, compared, both_ways)
    groups = [(task, setting) for task, setting, kept in drawn if kept]
    expected = sum(math.comb(groups.count(group), 2) for group in set(groups))
    assert len(pairs) == expected * (1 + both_ways)
    told = pairs.select("reference", "draw").rows()
    assert len({frozenset(pair) for pair in told}) == expected
    assert all(drawn[a][:2] == drawn[b][:2] and drawn[a][2] and drawn[b][2] for a, b in told)
    assert all(a < b for a, b in told[:expected])
    scores = np.arange(len(pairs), dtype=float)
    written = tabulate_prompt_pairs(table, pairs, scores, "m")
    assert len(written) == expected
    if both_ways:
        assert written["similarity"].to_list() == [k + expected / 2 for k in range(expected)]


def test_a_row_names_both_draws_in_the_order_of_the_programs() -> None:
    pairs = list_prompt_pairs(TINY, everything(TINY))
    table = tabulate_prompt_pairs(TINY, pairs, np.array([0.1, 0.2, 0.3]), "tsed")
    assert set(table.columns) == set(PROGRAM_PAIRS.columns)
    names = ("task", "first_prompt", "first_replicate", "second_prompt", "second_replicate")
    assert table.select(*names, "similarity").rows() == [
        ("brief/a", "a0", 0, "a0", 1, 0.1),
        ("brief/a", "a0", 0, "a1", 0, 0.2),
        ("brief/a", "a0", 1, "a1", 0, 0.3),
    ]
    assert table["measure"].unique().to_list() == ["tsed"]


def test_what_parses_and_is_not_compared_is_counted_by_setting() -> None:
    warm = ("1.0", "0.8")
    table = programs(
        [
            program("brief/a", "a", 0, FIRST),
            program("brief/a", "a", 1, None, status="no_code"),
            program("brief/a", "a", 0, SMALL, setting=warm),
        ]
    )
    compared = ((table["status"] == "ok") & (table["nodes"] <= 10)).fill_null(False)
    assert count_left_out(table, compared) == {"T0": 1, "T1.0-P0.8": 0}


# ----------------------------------------------------------------------------------- the commands


class Desk:
    """A folder with the programs of a model, and the commands on it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._patch = monkeypatch

    def save(self, rows: Sequence[dict[str, Any]]) -> None:
        write_table(programs(rows), self.folder / "programs.parquet", PROGRAMS, MADE_BY)

    def run(self, step: str, *arguments: Any) -> pl.DataFrame:
        output = self.folder / f"{step}.parquet"
        shared = ("--programs", self.folder / "programs.parquet", "--pairs", output)
        self._patch.setattr(sys, "argv", ["code", step, *map(str, (*shared, *arguments))])
        command.main()
        return read_table(output, PROGRAM_PAIRS)

    def tsed(
        self,
        *variants: str,
        costs: dict[str, float] | None = None,
        max_nodes: int = 5000,
    ) -> pl.DataFrame:
        return self.run(
            "prompt-tsed",
            *("--variants", *(variants or ("tsed", "tsed-published"))),
            *("--costs", json.dumps(costs), "--max-nodes", max_nodes),
            *("--threads", 1, "--compiled", self.folder / "compiled"),
        )

    def cosine(self, angles: dict[str, float]) -> pl.DataFrame:
        """Compare by vectors in the plane; angles: of each program's, in radians."""
        rows = [(hash_text(code), [math.cos(a), math.sin(a)], False) for code, a in angles.items()]
        schema = {name: column.dtype for name, column in EMBEDDINGS.columns.items()}
        path = self.folder / "vectors.parquet"
        table = pl.DataFrame(rows, schema=schema, orient="row")
        write_table(table, path, EMBEDDINGS, {"encoder_manifest": {"identity": "plane"}})
        return self.run("prompt-cosine", "--embeddings", path, "--encoder", "plane")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


ROWS = [
    program("brief/a", "a0", 0, FIRST),
    program("brief/a", "a0", 1, SECOND),
    program("brief/a", "a1", 0, None, status="no_code", persona="physicist-male"),
    program("brief/a", "a1", 1, SMALL, persona="physicist-male"),
    program("brief/b", "b0", 0, "def f(:", status="invalid"),
    program("brief/b", "b0", 1, FIRST),
    program("brief/b", "b1", 0, FIRST, persona="physicist-male"),
    program("brief/c", "c0", 0, HOSTILE),
    program("brief/a", "a0", 0, FIRST, setting=("1.0", "0.8")),
]


def test_pairs_are_scored_as_the_two_programs_are(desk: Desk) -> None:
    desk.save(ROWS)
    pairs = desk.tsed()
    code = {
        (row["prompt_id"], row["replicate"]): row["code"]
        for row in ROWS
        if row["temperature"] == "0"
    }
    assert len(pairs) == 2 * (math.comb(3, 2) + math.comb(2, 2))
    for row in pairs.iter_rows(named=True):
        first = code[row["first_prompt"], row["first_replicate"]]
        second = code[row["second_prompt"], row["second_replicate"]]
        there, back = compare_codes(
            [first, second], np.array([[0, 1], [1, 0]]), "python", row["measure"]
        )
        assert row["similarity"] == pytest.approx((there + back) / 2, abs=1e-12)
        assert row["measure"] == "tsed-published" or there == back
    same = pairs.filter(task="brief/b")
    assert same.select("first_prompt", "second_prompt", "similarity").unique().rows() == [
        ("b0", "b1", 1.0)
    ]


def test_a_measure_with_a_direction_is_the_mean_of_both(desk: Desk) -> None:
    for rows in (ROWS[:2], ROWS[1::-1]):
        desk.save(rows)
        (row,) = desk.tsed("tsed-published").to_dicts()
        assert row["similarity"] == pytest.approx((7 / 15 + 0.4) / 2)


def test_costs_of_the_configuration_are_those_of_tsed(desk: Desk) -> None:
    desk.save(ROWS[:2])
    unlike = {"delete": 1.0, "insert": 0.8, "rename": 1.0}
    pairs = desk.tsed(costs=unlike)
    # On this pair the published labels come to the same as the nodes' own types.
    assert pairs["similarity"].to_list() == pytest.approx([(7 / 15 + 0.4) / 2] * 2)
    assert read_metadata(desk.folder / "prompt-tsed.parquet")["costs"]["tsed"] == unlike


def test_larger_programs_are_left_out_of_trees_and_counted_but_not_of_cosines(desk: Desk) -> None:
    desk.save(ROWS)
    assert len(desk.tsed(max_nodes=10)) == 0
    made_by = read_metadata(desk.folder / "prompt-tsed.parquet")
    # Of the greedy setting FIRST three times, SECOND and HOSTILE.
    assert made_by["too_large"] == {"T0": 5, "T1.0-P0.8": 1}
    assert made_by["max_nodes"] == 10
    assert {key: made_by[key] for key in MADE_BY} == MADE_BY
    angles = {SMALL: 0.0, SECOND: math.pi / 2, FIRST: math.pi / 3, HOSTILE: 1.0}
    assert len(desk.cosine(angles)) == 4
    assert read_metadata(desk.folder / "prompt-cosine.parquet")["too_large"] == {
        "T0": 0,
        "T1.0-P0.8": 0,
    }


def test_the_cosines_are_those_of_the_programs_vectors(desk: Desk) -> None:
    desk.save(ROWS)
    angles = {SMALL: 0.0, SECOND: math.pi / 2, FIRST: math.pi / 3, HOSTILE: 1.0}
    pairs = desk.cosine(angles)
    names = ("first_prompt", "first_replicate", "second_prompt", "second_replicate")
    told = {row[:4]: row[4] for row in pairs.select(*names, "similarity").rows()}
    assert told == {
        ("a0", 0, "a0", 1): pytest.approx(math.cos(math.pi / 6)),
        ("a0", 0, "a1", 1): pytest.approx(0.5),
        ("a0", 1, "a1", 1): pytest.approx(0.0, abs=1e-7),
        ("b0", 1, "b1", 0): 1.0,
    }
    assert pairs["measure"].unique().to_list() == ["plane"]
    made_by = read_metadata(desk.folder / "prompt-cosine.parquet")
    assert made_by["encoder_manifest"] == {"identity": "plane"}


def test_where_no_reply_holds_a_program_the_tables_are_there_and_empty(desk: Desk) -> None:
    desk.save([program("brief/a", "a0", n, None, status="no_code") for n in range(3)])
    assert len(desk.tsed()) == len(desk.cosine({})) == 0
    made_by = read_metadata(desk.folder / "prompt-tsed.parquet")
    assert made_by["too_large"] == {"T0": 0}


def test_a_program_without_a_vector_ends_the_job_in_one_line(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.save(ROWS)
    with pytest.raises(SystemExit) as stopped, caplog.at_level(logging.ERROR):
        desk.cosine({SMALL: 0.0})
    assert stopped.value.code == 1
    assert "programs have no vector" in caplog.text


def test_the_same_programs_in_two_settings_are_compared_in_each(desk: Desk) -> None:
    at = (("0", None), ("0.5", "1.0"), ("1.0", "1.0"))
    rows = [
        program("brief/a", prompt, replicate, code, setting=setting)
        for setting, prompt, (replicate, code) in itertools.product(
            at, ("a0", "a1"), enumerate((FIRST, SECOND, HOSTILE))
        )
    ]
    desk.save(rows)
    pairs = desk.tsed("tsed")
    counted = pairs.group_by("temperature", "top_p").len()
    assert sorted(counted.rows()) == [(*setting, math.comb(6, 2)) for setting in sorted(at)]
    by_setting = [
        pairs.filter(temperature=temperature).drop("temperature", "top_p") for temperature, _ in at
    ]
    assert by_setting[0].equals(by_setting[1]) and by_setting[1].equals(by_setting[2])
