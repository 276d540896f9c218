"""The journal: what is written stays, what was cut off is made again, two never write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_variability.draws.journal import Draw, Journal, JournalBusy, fingerprint, read_journal

WORKFLOW = Path(__file__).parents[2] / "workflow"


def draw(replicate: int, **fields: object) -> Draw:
    return Draw("p", replicate, 100 + replicate, **{"raw": f"text {replicate}", **fields})  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journals" / "T0.jsonl"


@pytest.fixture
def three(path: Path) -> Path:
    """A journal of a session and three draws."""
    with Journal(path) as journal:
        journal.begin_session({"engine": "e"})
        for replicate in range(3):
            journal.append(draw(replicate))
    return path


def test_a_draw_comes_back_as_it_was_written(path: Path) -> None:
    written = Draw(
        "p",
        0,
        2**63 - 1,
        raw="two\nlines “ü” \u2028 \U0001f600",
        reasoning="hm",
        finish_reason="stop",
        prompt_tokens=3,
        completion_tokens=4,
    )
    with Journal(path) as journal:
        journal.append(written)
    assert read_journal(path).draws == {("p", 0): written}


def test_a_refused_draw_comes_back_with_its_error(path: Path) -> None:
    with Journal(path) as journal:
        journal.append(Draw("p", 0, 1, error="HTTP 400: no"))
    assert read_journal(path).draws["p", 0].error == "HTTP 400: no"


def test_an_empty_answer_is_told_from_none(path: Path) -> None:
    with Journal(path) as journal:
        journal.append(draw(0, raw=""))
        journal.append(draw(1, raw=None))
    read = read_journal(path).draws
    assert (read["p", 0].raw, read["p", 1].raw) == ("", None)


def test_a_journal_opened_again_knows_its_draws(three: Path) -> None:
    with Journal(three) as journal:
        assert sorted(journal.draws) == [("p", 0), ("p", 1), ("p", 2)]


def test_a_journal_opened_again_keeps_what_it_had(three: Path) -> None:
    before = three.read_bytes()
    with Journal(three) as journal:
        journal.append(draw(3))
    assert three.read_bytes().startswith(before)


def test_sessions_are_kept_in_order(three: Path) -> None:
    with Journal(three) as journal:
        journal.begin_session({"engine": "f"})
    assert read_journal(three).sessions == [{"engine": "e"}, {"engine": "f"}]


def test_a_journal_that_is_not_there_is_empty(path: Path) -> None:
    content = read_journal(path)
    assert (content.draws, content.sessions) == ({}, [])


@pytest.mark.parametrize("cut", [1, 2, 30])
def test_a_last_line_that_was_cut_off_is_left_out(three: Path, cut: int) -> None:
    three.write_bytes(three.read_bytes()[:-cut])
    assert sorted(read_journal(three).draws) == [("p", 0), ("p", 1)]


def test_a_cut_off_line_is_taken_away_before_the_next_is_written(three: Path) -> None:
    three.write_bytes(three.read_bytes()[:-5])
    with Journal(three) as journal:
        journal.append(draw(2, raw="made again"))
    lines = [json.loads(line) for line in three.read_text().splitlines()]
    assert [line["draw"]["raw"] for line in lines[1:]] == ["text 0", "text 1", "made again"]


@pytest.mark.parametrize("damage", [b'{"draw": {"prom', b"\0\0\0\0", b"[]", b"{}", b'{"draw": {}}'])
def test_a_damaged_line_in_the_middle_is_refused_by_number(three: Path, damage: bytes) -> None:
    lines = three.read_bytes().splitlines(keepends=True)
    three.write_bytes(b"".join([lines[0], damage + b"\n", *lines[1:]]))
    with pytest.raises(ValueError, match=f"{three}: line 2 is damaged; move the file away"):
        read_journal(three)


def test_a_draw_made_twice_is_refused(three: Path) -> None:
    before = three.read_bytes()
    with Journal(three) as journal, pytest.raises(ValueError, match="made twice"):
        journal.append(draw(1))
    assert three.read_bytes() == before


def test_a_second_writer_is_refused(path: Path) -> None:
    with Journal(path), pytest.raises(JournalBusy, match="another job is writing it"):
        Journal(path, patience_s=0)


def test_the_refusal_says_on_which_machine_the_writer_runs(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        journal.begin_session({"host": "node-3"})
        with pytest.raises(JournalBusy, match="another job on node-3 is writing it; wait for"):
            Journal(path, patience_s=0)


def test_a_journal_that_was_closed_can_be_written_by_another(three: Path) -> None:
    with Journal(three, patience_s=0) as journal:
        journal.append(draw(3))
    assert ("p", 3) in read_journal(three).draws


WRITER = """
import sys, time
from pathlib import Path
from llm_variability.draws.journal import Draw, Journal
journal = Journal(Path(sys.argv[1]))
for number in range(1_000_000):
    journal.append(Draw("p", number, number, raw="x" * 200))
    print(number, flush=True)
"""


@pytest.fixture
def killed_at(path: Path) -> Iterator[int]:
    """A writer killed while it writes; the number of the last draw it told about."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(WORKFLOW)},
    )
    assert process.stdout is not None
    told = [int(process.stdout.readline()) for _ in range(50)]
    process.send_signal(signal.SIGKILL)
    told += [int(line) for line in process.stdout.read().splitlines()]
    process.wait()
    process.stdout.close()
    yield told[-1]


def test_a_killed_writer_loses_no_draw_that_it_had_finished(killed_at: int, path: Path) -> None:
    draws = read_journal(path).draws
    assert {("p", number) for number in range(killed_at + 1)} <= draws.keys()


def test_the_journal_of_a_killed_writer_is_free_at_once(killed_at: int, path: Path) -> None:
    with Journal(path, patience_s=0) as journal:
        assert ("p", killed_at) in journal.draws


def test_a_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


@pytest.mark.parametrize("other", [{"a": 2}, {"a": "1"}, {"a": 1, "b": None}, {"b": 1}, {"a": 1.5}])
def test_other_settings_have_another_fingerprint(other: dict[str, object]) -> None:
    assert fingerprint(other) != fingerprint({"a": 1})
