"""Sessions: who drew, told from a journal, summed by machine."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.draws.journal import Draw, Journal, read_journal
from llm_variability.draws.sessions import busy_seconds, summarise_sessions, tabulate_sessions
from llm_variability.tables import SESSIONS, THROUGHPUT, write_table

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def session(began_s: float, ended_s: float | None, **facts: Any) -> dict[str, Any]:
    """A session as a draws table's metadata hold it, by its seconds after noon."""
    moments = {"began": began_s} | ({} if ended_s is None else {"ended": ended_s})
    return {
        **{name: (NOON + timedelta(seconds=at)).isoformat() for name, at in moments.items()},
        "host": "n1",
        "engine": "vllm 1",
        "devices": "0",
        "tensor_parallel": 1,
        **facts,
    }


def test_a_journal_says_what_each_session_made_and_which_was_broken_off(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        journal.begin_session({"began": "2026-05-01T12:00:00+0000", "host": "a"})
        journal.append(Draw("p", 0, 1, raw="x", completion_tokens=5))
    with Journal(path) as journal:
        journal.begin_session({"began": "2026-05-01T13:00:00+0000", "host": "b"})
        journal.append(Draw("p", 1, 2, raw="x", completion_tokens=7))
        journal.begin_session({"answered_by": "m"})
        journal.append(Draw("p", 2, 3, error="refused"))
        journal.end_session({"ended": "2026-05-01T13:01:00+0000"})
    content = read_journal(path)
    assert len(content.draws) == 3
    first, second, told = content.sessions
    assert (first["draws"], first["completion_tokens"], "ended" in first) == (1, 5, False)
    assert (second["draws"], second["completion_tokens"]) == (2, 7)
    assert second["ended"] == "2026-05-01T13:01:00+0000"
    assert told == {"answered_by": "m"}


def test_sessions_become_rows_and_what_an_endpoint_says_does_not() -> None:
    made = session(0, 60, draws=3, completion_tokens=120)
    table = tabulate_sessions("1.0", "0.8", [made, {"answered_by": "m"}, session(90, None)])
    assert table.select("temperature", "top_p", "draws", "host").rows() == [
        ("1.0", "0.8", 3, "n1"),
        ("1.0", "0.8", None, "n1"),
    ]
    assert table["ended"].to_list() == [NOON + timedelta(seconds=60), None]


def test_time_is_told_in_one_zone(tmp_path: Path) -> None:
    made = session(0, None) | {"began": "2026-05-01T14:00:00+0200"}
    assert tabulate_sessions("0", None, [made])["began"].to_list() == [NOON]


def test_settings_drawn_side_by_side_are_not_counted_twice() -> None:
    sessions = [
        session(0, 60, draws=10, completion_tokens=600),
        session(30, 90, draws=10, completion_tokens=300),
        session(200, 210, draws=1, completion_tokens=100),
        session(300, None, draws=2, completion_tokens=50),
        session(0, 10, draws=4, completion_tokens=70, host="n2"),
    ]
    first, second = summarise_sessions(tabulate_sessions("0", None, sessions)).iter_rows(named=True)
    assert (first["host"], first["sessions"], first["broken_off"]) == ("n1", 4, 1)
    assert (first["draws"], first["completion_tokens"]) == (23, 1050)
    assert first["seconds"] == 90 + 10
    assert first["tokens_per_s"] == pytest.approx(1000 / 100)
    assert (second["host"], second["seconds"], second["tokens_per_s"]) == ("n2", 10, 7)


def test_sessions_that_were_all_broken_off_have_no_rate() -> None:
    table = tabulate_sessions("0", None, [session(0, None, draws=1, completion_tokens=9)])
    (row,) = summarise_sessions(table).iter_rows(named=True)
    assert (row["seconds"], row["tokens_per_s"], row["completion_tokens"]) == (0, None, 9)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=8))
def test_busy_time_is_the_number_of_seconds_that_an_interval_covers(
    spans: list[tuple[int, int]],
) -> None:
    covered = {second for start, length in spans for second in range(start, start + length)}
    intervals = [
        (NOON + timedelta(seconds=start), NOON + timedelta(seconds=start + length))
        for start, length in spans
    ]
    assert busy_seconds(intervals) == len(covered)


def test_both_tables_keep_their_contracts(tmp_path: Path) -> None:
    sessions = tabulate_sessions("0", None, [session(0, 1, draws=1, completion_tokens=1)])
    write_table(sessions, tmp_path / "s.parquet", SESSIONS, {})
    summary = summarise_sessions(sessions).insert_column(0, pl.lit("labels").alias("study"))
    write_table(summary, tmp_path / "t.parquet", THROUGHPUT, {})
    assert json.dumps(summary["study"].to_list()) == '["labels"]'
