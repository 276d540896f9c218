"""The programs of a cell: read from each reply, counted by what became of it."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_stage import DESIGN, design_of, frame, program, programs
from llm_variability.code import programs as module
from llm_variability.code.programs import count_programs, read_programs
from llm_variability.config import ConfigError
from llm_variability.config_code import Extraction
from llm_variability.tables import DRAWS
from llm_variability.tables_code import EXTRACTIONS, PROGRAM_STATUSES

COLUMNS = DESIGN.columns
FENCED = "Here it is:\n\n```python\nx = 1\n```\n"


def draws(*replies: dict[str, Any], language: str = "python") -> pl.DataFrame:
    return frame(
        DRAWS,
        [
            {
                **design_of("open/a", "original", language),
                "prompt_id": "p",
                "replicate": replicate,
                "seed": 1,
                "status": "ok",
                "finish_reason": "stop",
                **reply,
            }
            for replicate, reply in enumerate(replies)
        ],
    )


def read(*replies: dict[str, Any], language: str = "python", **how: Any) -> list[dict[str, Any]]:
    made = read_programs(draws(*replies, language=language), Extraction(**how), COLUMNS)
    return made.to_dicts()


def test_a_program_is_read_with_its_source_its_tag_and_its_named_nodes() -> None:
    (row,) = read({"text": FENCED})
    # module, expression_statement, assignment, identifier, integer
    wanted = {"status": "ok", "code": "x = 1\n", "source": "fence", "fences": 1, "nodes": 5}
    assert {name: row[name] for name in wanted} == wanted
    assert row["tag"] == "python"
    assert (row["task"], row["augmentation"], row["prompt_id"]) == ("open/a", "original", "p")


@pytest.mark.parametrize("status", ["error", "no_answer", "empty"])
def test_a_draw_without_a_text_has_no_code_and_keeps_its_own_status(status: str) -> None:
    (row,) = read({"text": None, "status": status, "finish_reason": None})
    assert (row["draw_status"], row["status"], row["code"], row["nodes"]) == (
        status,
        "no_code",
        None,
        None,
    )


def test_a_refusal_has_no_code() -> None:
    (row,) = read({"text": "I cannot help with that."})
    assert (row["draw_status"], row["status"], row["code"]) == ("ok", "no_code", None)


def test_code_that_does_not_parse_is_kept_without_nodes() -> None:
    (row,) = read({"text": "```python\ndef f(:\n    return\n```"})
    assert (row["status"], row["nodes"]) == ("invalid", None)
    assert row["code"].startswith("def f(:")


def test_a_fence_that_the_token_limit_cut_off_is_truncated() -> None:
    text = "```python\nx = 1\ny = 2"
    cut, whole = read(
        {"text": text, "finish_reason": "length", "status": "truncated"}, {"text": text}
    )
    assert (cut["status"], cut["source"], cut["nodes"]) == ("truncated", "unclosed_fence", None)
    # The same reply, ended by the model: its fence is unclosed, and it parses.
    assert (whole["status"], whole["source"]) == ("ok", "unclosed_fence")


def test_a_fence_that_closed_before_the_token_limit_is_whole() -> None:
    (row,) = read({"text": FENCED + "And so", "finish_reason": "length", "status": "truncated"})
    assert row["status"] == "ok"


def test_how_it_is_configured_reaches_the_extraction() -> None:
    two = "```python\na = 1\n```\nor\n```python\n# longer\nb = f(2)\n```\n"
    assert read({"text": two}, choice="first")[0]["code"] == "a = 1\n"
    assert read({"text": two}, strip_comments=True)[0]["code"] == "b = f(2)\n"


def test_the_language_is_that_of_the_draw() -> None:
    text = "```\nlet x = 1;\n```"
    pytest.importorskip("tree_sitter_javascript")
    assert read({"text": text}, language="javascript")[0]["status"] == "ok"
    assert read({"text": text}, language="python")[0]["status"] == "invalid"


def test_a_language_that_is_not_known_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="^language 'cobol' is not known.*$"):
        read({"text": FENCED}, language="cobol")


def test_a_cell_without_draws_has_no_row_and_the_same_columns() -> None:
    empty = read_programs(draws(), Extraction(), COLUMNS)
    full = read_programs(draws({"text": FENCED}), Extraction(), COLUMNS)
    assert len(empty) == 0
    assert empty.schema == full.schema


def test_a_reply_that_comes_again_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    extract = module.extract_code

    def count(reply: str, *rest: Any, **options: Any) -> Any:
        asked.append(reply)
        return extract(reply, *rest, **options)

    monkeypatch.setattr(module, "extract_code", count)
    rows = read({"text": FENCED}, {"text": "No."}, {"text": FENCED}, {"text": FENCED})
    assert asked == [FENCED, "No."]
    assert [row["status"] for row in rows] == ["ok", "no_code", "ok", "ok"]
    assert [row["replicate"] for row in rows] == [0, 1, 2, 3]


def test_replies_are_counted_by_prompt_and_setting() -> None:
    table = programs(
        [
            program("open/a", "original", "p", 0, "x = 1\n", nodes=5),
            program("open/a", "original", "p", 1, "x = 1\n", nodes=5),
            program("open/a", "original", "p", 2, "a()\n\nb()\n", nodes=11),
            program("open/a", "original", "p", 3, "def (\n", nodes=None, status="invalid"),
            program("open/a", "original", "p", 4, "y = 1\n", nodes=None, status="truncated")
            | {"source": "unclosed_fence"},
            program(
                "open/a",
                "original",
                "p",
                0,
                None,
                nodes=None,
                status="no_code",
                top_p="1.0",
                temperature="1.0",
            ),
        ]
    )
    first, second = count_programs(table, COLUMNS, max_nodes=10).to_dicts()
    wanted = {
        "temperature": "0",
        "top_p": None,
        "draws": 5,
        "ok": 3,
        "invalid": 1,
        "truncated": 1,
        "no_code": 0,
        "unclosed": 1,
        "too_large": 1,
        "distinct_programs": 2,
        "lines": 1 + 1 + 3,
    }
    assert {name: first[name] for name in wanted} == wanted
    assert (second["temperature"], second["draws"], second["no_code"]) == ("1.0", 1, 1)
    assert (second["distinct_programs"], second["lines"], second["too_large"]) == (0, 0, 0)
    assert set(first) == {*COLUMNS, *EXTRACTIONS.columns}


def test_a_program_of_the_largest_size_allowed_is_not_too_large() -> None:
    table = programs([program("open/a", "original", "p", 0, nodes=10)])
    assert count_programs(table, COLUMNS, max_nodes=10)["too_large"].to_list() == [0]
    assert count_programs(table, COLUMNS, max_nodes=9)["too_large"].to_list() == [1]


@given(st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from(PROGRAM_STATUSES)), max_size=12))
def test_every_reply_is_counted_under_one_status(replies: list[tuple[str, str]]) -> None:
    table = programs(
        program("open/a", "original", prompt, number, status=status)
        for number, (prompt, status) in enumerate(replies)
    )
    counted = count_programs(table, COLUMNS, max_nodes=10)
    assert counted["draws"].sum() == len(replies)
    for row in counted.iter_rows(named=True):
        of_prompt = [status for prompt, status in replies if prompt == row["prompt_id"]]
        assert {name: row[name] for name in PROGRAM_STATUSES} == {
            name: of_prompt.count(name) for name in PROGRAM_STATUSES
        }
