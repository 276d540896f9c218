"""The status as text: what is told, in a terminal's width, and nothing that it would obey."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.config import Budget, ConfigError
from llm_variability.draws.budget import Ledger, Usage
from llm_variability.status.__main__ import main, write_json
from llm_variability.status.layout import (
    fit,
    fit_middle,
    lay_out,
    make_printable,
    measure_width,
    tell_count,
    tell_duration,
    tell_percent,
    tell_time,
)
from llm_variability.status.page import write_page
from llm_variability.status.spending import read_spent
from llm_variability.status.survey import Surveyor
from status_inputs import MadeResults, labels_config, make_draws

PROMPTS = ["p1", "p2"]
NOW = time.mktime((2026, 12, 1, 12, 0, 0, 0, 0, -1))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeResults:
    monkeypatch.chdir(tmp_path)
    results = MadeResults(tmp_path / "results")
    results.configure(labels_config())
    results.write_prompts("stimuli/labels.parquet", PROMPTS, replicates=3, greedy=2)
    return results


def page_of(made: MadeResults, width: int = 80, is_whole: bool = False) -> list[str]:
    return write_page(Surveyor(made.folder).survey(time.time()), width, is_whole)


def words_of(lines: list[str], name: str) -> list[str]:
    """The words of the one line that begins with a name."""
    (line,) = [line for line in lines if line.strip().startswith(name)]
    return line.split()


def test_each_model_has_its_counts_under_the_study(made: MadeResults) -> None:
    cell = made.cell("labels", "first", "T0.5-P0.8")
    made.write_journal("draws/labels/first", cell, make_draws(PROMPTS, 3, tokens=1000))
    lines = page_of(made)
    assert any(line.startswith("6 of 32 draws (19%); the last came ") for line in lines)
    assert words_of(lines, "labels")[1:5] == ["6", "32", "19%", "6.0k"]
    assert words_of(lines, "first")[1:5] == ["6", "16", "38%", "6.0k"]
    assert words_of(lines, "second")[1:5] == ["0", "16", "0%", "0"]


def test_a_wide_terminal_shows_the_settings_done(made: MadeResults) -> None:
    cell = made.cell("labels", "first", "T0.5-P0.8")
    made.write_journal("draws/labels/first", cell, make_draws(PROMPTS, 3))
    lines = page_of(made, width=100)
    assert words_of(lines, "draws")[1] == "settings"
    assert words_of(lines, "labels")[1] == "1/6"
    assert words_of(lines, "first")[1] == "1/3"


def test_stages_are_told_by_their_files(made: MadeResults) -> None:
    for name in ("embeddings/labels/first/minilm", "similarity/labels/first/minilm"):
        path = made.folder / f"{name}.parquet"
        path.parent.mkdir(parents=True)
        path.touch()
    lines = page_of(made)
    assert words_of(lines, "embeddings")[1] == "1/2"
    assert words_of(lines, "similarity")[1] == "1/2"
    assert words_of(lines, "weights")[1] == "2/3"
    assert any(line.startswith("complete: prompts (") for line in lines)
    assert "not begun: counts, sensitivity, diversity, fits, examples, report, record" in lines
    assert words_of(page_of(made, is_whole=True), "fits")[1:] == ["0/3", "-"]


def test_many_rows_are_folded_unless_all_are_asked_for(made: MadeResults) -> None:
    models = [f"m{number}" for number in range(30)]
    made.configure(labels_config(models))
    for model in models[:9]:
        for setting in made.settings.cells("labels"):
            cell = made.cell("labels", model, setting)
            made.write_journal(f"draws/labels/{model}", cell, make_draws(PROMPTS, 3))
    cell = made.cell("labels", "m9", "T0")
    made.write_journal("draws/labels/m9", cell, make_draws(PROMPTS, 1))
    lines = page_of(made)
    assert [line.split()[0] for line in lines if line.startswith("  m")] == ["m9"]
    assert "9 more rows are complete: 144 draws (see --all)" in lines
    assert "20 more rows are not begun (see --all)" in lines
    assert words_of(lines, "labels")[1:3] == ["146", "480"]
    whole = page_of(made, is_whole=True)
    assert [line.split()[0] for line in whole if line.startswith("  m")] == models


def test_prompts_that_are_not_made_are_told(made: MadeResults) -> None:
    (made.folder / "stimuli/labels.parquet").unlink()
    lines = page_of(made)
    assert "labels: its prompts are not made yet" in lines
    assert words_of(lines, "first")[1:4] == ["0", "?", "?"]


def test_prompts_that_wait_for_what_a_model_writes_say_so(made: MadeResults) -> None:
    study = {
        "kind": "code",
        "stimuli": "resources/tasks",
        "tasks": {"humaneval": None},
        "paraphrase": {"model": "first", "temperatures": [0.5], "max_new_tokens": 9},
    }
    made.configure(labels_config(studies={"code": study}))
    made.write_prompts("paraphrases/code/requests.parquet", PROMPTS, 2, 2)
    cell = made.cell("code", "first", "T0.5-P1.0", max_new_tokens=9)
    folder = "paraphrases/code/first"
    made.write_journal(folder, cell, make_draws(PROMPTS, 1))
    lines = page_of(made)
    assert words_of(lines, "code: paraphrases")[2:5] == ["2", "4", "50%"]
    assert "code: its prompts wait for the paraphrases" in lines
    made.write_journal(folder, cell, make_draws(PROMPTS, 2))
    lines = page_of(made)
    assert not any("paraphrases" in line for line in lines)
    assert "code: its prompts are not made yet" in lines


def write_failures(made: MadeResults, count: int) -> Path:
    """Write Snakemake's log of a run in which jobs failed."""
    log = made.folder.parent / ".snakemake/log/2026-11-30T070000.000001.snakemake.log"
    log.parent.mkdir(parents=True)
    blocks = [
        f"Error in rule fit:\n    jobid: {number}\n    output: results/fits/{number}.parquet\n"
        f"    log: results/logs/fits/{number}.log (check log file(s) for error details)\n"
        for number in range(count)
    ]
    log.write_text("\n".join([*blocks, "Complete log(s): x", ""]))
    return log


def test_the_first_failures_are_told_and_the_others_counted(made: MadeResults) -> None:
    log = write_failures(made, 14)
    (made.folder / "logs/fits").mkdir(parents=True)
    (made.folder / "logs/fits/0.log").write_text("word " * 100)
    lines = page_of(made, width=60)
    at = lines.index("failed jobs of the last run: 14")
    assert lines[at + 1].startswith("  fit [results/logs/fits/0.log]: word word ")
    assert lines[at + 3].endswith("word …")
    assert lines[at + 4] == "  fit [results/logs/fits/1.log]: no word in a log"
    assert lines[at + 12] == "  fit [results/logs/fits/9.log]: no word in a log"
    assert lines[at + 13].startswith(f"  and 4 more, in {log}"[:40])
    assert len(lines) == at + 14


def test_a_log_that_was_closed_before_the_run_began_says_nothing_of_it(made: MadeResults) -> None:
    log = write_failures(made, 2)
    (made.folder / ".run.lock").write_text("run 123 on some-other-node")
    survey = Surveyor(made.folder).survey(time.time())
    assert survey.log is not None
    assert (survey.log.outcome, len(survey.log.failures)) == ("failed", 2)
    os.utime(log, (1000, 1000))
    survey = Surveyor(made.folder).survey(time.time())
    assert survey.log is not None
    assert (survey.log.outcome, len(survey.log.failures)) == ("under way", 0)
    assert "at work by the lock file" in " ".join(write_page(survey, 200))


def test_a_configuration_that_is_being_written_does_not_end_the_watch(made: MadeResults) -> None:
    surveyor = Surveyor(made.folder)
    before = surveyor.survey(0)
    (made.folder / "config.yaml").unlink()
    assert surveyor.survey(0).rows == before.rows
    with pytest.raises(ConfigError):
        Surveyor(made.folder).survey(0)


NASTY = "\x1b]0;owned\x07\x1b[2J\r\x9b31mred\u202ereversed\x7f\x00"


def test_no_escape_sequence_reaches_the_terminal(made: MadeResults) -> None:
    """Whatever stands in logs and in the lock file, lines hold characters to be seen alone."""
    (made.folder / ".run.lock").write_text(f"run 7 on {NASTY}".replace("\r", ""))
    engines = made.folder / "logs/engines"
    engines.mkdir(parents=True)
    told = f"engine: 2026-11-30 18:43:11 first: load begins\n{NASTY}\n"
    told += f"engine: 2026-11-30 18:43:12 first: stops, since {NASTY.replace(chr(13), '')}\n"
    (engines / "first.log").write_text(told)
    job = made.folder / "logs/job.log"
    job.write_text(f"fine\n{NASTY}{NASTY}")
    log = made.folder.parent / ".snakemake/log/2026-11-30T070000.000001.snakemake.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        f"Error in rule generate{NASTY.replace(chr(13), '')}:\n    message: None\n    jobid: 8\n"
        "    output: results/x.parquet\n    log: results/logs/job.log\n"
    )
    cell = made.cell("labels", "first", "T0")
    draws = make_draws(PROMPTS, 1)
    made.write_journal("draws/labels/first", cell, draws)
    survey = Surveyor(made.folder).survey(time.time())
    assert survey.log is not None
    assert "\x9b" in (survey.log.failures[0].told or "")
    assert "\x1b" in (survey.engines[0].reason or "")
    for line in write_page(survey, 80):
        assert line.isprintable(), line
        assert measure_width(line) <= 80
    assert write_json(survey).isascii()
    assert write_json(survey).isprintable()
    assert json.loads(write_json(survey))["engines"][0]["reason"] == survey.engines[0].reason


@given(st.text())
def test_printable_text_has_no_control_characters(text: str) -> None:
    shown = make_printable(text)
    # Some spaces, as that of U+3000, are not printable to Python, but are spaces to a terminal.
    assert all(each.isprintable() or unicodedata.category(each) == "Zs" for each in shown)


@given(st.text(st.characters(categories=["L", "N", "P", "M"])), st.integers(1, 40))
def test_a_fitted_text_takes_no_more_than_its_width(text: str, width: int) -> None:
    assert measure_width(fit(text, width)) <= width
    if measure_width(text) <= width:
        assert fit(text, width) == text


def test_a_name_is_cut_in_its_middle() -> None:
    assert fit_middle("Qwen2.5-7B-Instruct", 11) == "Qwen2…truct"
    assert fit_middle("short", 11) == "short"


def test_numbers_stand_under_each_other() -> None:
    rows = [["name", "n"], ["a", "1"], ["bcd", "100"]]
    assert lay_out(rows, 80) == ["name    n", "a       1", "bcd   100"]


@pytest.mark.parametrize(
    ("done", "wanted", "told"),
    [(0, 10, "0%"), (1, 1000, "1%"), (999, 1000, "99%"), (1000, 1000, "100%"), (0, 0, "100%")],
)
def test_a_share_is_never_rounded_to_none_or_all(done: int, wanted: int, told: str) -> None:
    assert tell_percent(done, wanted) == told


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (12_345, "12.3k"), (999_600, "1.0M"), (2e12, "2000G")],
)
def test_a_count_has_four_digits_at_most(number: float, told: str) -> None:
    assert tell_count(number) == told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.4, "0s"), (59.6, "1m00s"), (200, "3m20s"), (7500, "2h05m"), (273_600, "3d04h"), (-3, "0s")],
)
def test_a_duration_has_two_units(seconds: float, told: str) -> None:
    assert tell_duration(seconds) == told


def test_a_time_of_another_day_has_its_date() -> None:
    assert tell_time(NOW - 60, NOW) == "11:59:00"
    assert tell_time(NOW - 86400, NOW) == "2026-11-30 12:00"


def test_what_an_endpoint_cost_is_what_its_ledger_says(tmp_path: Path) -> None:
    budget = Budget(tokens=1000, money=5, prompt_price=1_000_000, completion_price=2_000_000)
    path = tmp_path / "first.jsonl"
    with Ledger(path, budget) as ledger:
        settled = ledger.reserve(Usage(1, 1), 60)
        assert settled is not None
        ledger.settle(settled, Usage(1, 1), "")
        assert ledger.reserve(Usage(0, 1), 60) is not None  # in flight
    spent = read_spent("first", path.read_bytes() + b'{"settle": "cut o', budget)
    assert (spent.requests, spent.tokens, spent.unknown) == (2, 3, 1)
    assert spent.money == pytest.approx(3 + 2)
    assert (spent.tokens_allowed, spent.money_allowed) == (1000, 5)
    with pytest.raises(ValueError, match="the ledger is damaged"):
        read_spent("first", b'{"settle": 1}\n{"reserve": 1}\n', None)


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["status", *arguments])
    main()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda folder: None, "is no folder"),
        (lambda folder: folder.mkdir(), "has no config.yaml, which a run of the whole"),
        (
            lambda folder: (folder.mkdir(), (folder / "config.yaml").write_text("- a\n")),
            "must be a mapping of keys to values",
        ),
    ],
)
def test_a_folder_without_results_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: object, told: str
) -> None:
    folder = tmp_path / "x\x1b[2J"
    make(folder)  # type: ignore[operator]
    with pytest.raises(SystemExit) as ended:
        run_main(monkeypatch, str(folder))
    assert told in str(ended.value)
    assert str(ended.value).isprintable()


def test_json_holds_the_same_counts(
    made: MadeResults, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = made.cell("labels", "first", "T0")
    made.write_journal("draws/labels/first", cell, make_draws(PROMPTS, 1))
    run_main(monkeypatch, "results", "--json")
    survey = json.loads(capsys.readouterr().out)
    rows = {row["model"]: row for row in survey["rows"]}
    assert rows["first"]["tally"] == {"done": 2, "tokens": 10, "failed": 0, "empty": 0, "cut": 0}
    assert rows["second"]["wanted"] == 16
    assert survey["run"] is None


def test_nothing_is_written(made: MadeResults, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = made.cell("labels", "first", "T0")
    made.write_journal("draws/labels/first", cell, make_draws(PROMPTS, 1))

    def state() -> dict[Path, tuple[int, int]]:
        paths = [made.folder.parent, *made.folder.parent.rglob("*")]
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}

    before = state()
    run_main(monkeypatch, "results")
    assert state() == before


def test_watching_ends_quietly_with_ctrl_c(
    made: MadeResults, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[float] = []

    def sleep(seconds: float) -> None:
        asked.append(seconds)
        if len(asked) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(SystemExit) as ended:
        run_main(monkeypatch, "results", "--watch", "2.5")
    assert ended.value.code == 0
    assert asked == [2.5, 2.5]
    assert capsys.readouterr().out.count("results: no run has been here") == 2


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "soon", "inf"])
def test_a_wait_that_makes_no_sense_is_refused(
    seconds: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run_main(monkeypatch, "results", "--watch", seconds)
    assert "invalid number of seconds" in capsys.readouterr().err


def test_a_reader_that_leaves_ends_it_quietly(made: MadeResults) -> None:
    """As `status results --watch | head -1` does."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "workflow")}
    command = [sys.executable, "-m", "llm_variability.status", str(made.folder), "--watch", "0.1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    assert isinstance(process.stdout, io.BufferedReader)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(timeout=30) == 0
