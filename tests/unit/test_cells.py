"""A cell: what its draws depend on, what a second run asks for, how a failure ends."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from aiohttp import web

import chat_server
from chat_server import ChatServer, completion, refusal, running
from llm_variability.config import ConfigError, Model
from llm_variability.draws import client, drawing
from llm_variability.draws.budget import bound_usage
from llm_variability.draws.cells import Cell, tabulate_draws
from llm_variability.draws.client import Server, ServerGone
from llm_variability.draws.counts import count_draws
from llm_variability.draws.drawing import draw_cell, require_weights
from llm_variability.draws.journal import Journal, fingerprint, read_journal
from llm_variability.draws.rendering import Rendering, render_prompts
from llm_variability.logs import stage_log
from llm_variability.tables import DRAWS, Design, write_table

PROMPTS = pl.DataFrame(
    {
        "format": ["story", "story", "poem"],
        "race": ["A", "B", "A"],
        "prompt_id": ["p0", "p1", "p2"],
        "system": ["s", "s", None],
        "prompt": ["q0", "q1", "q2"],
        "replicates": [3, 3, 3],
        "greedy_replicates": [2, 2, 2],
    }
)


def cell(url: str = "http://127.0.0.1:9/v1", **changes: Any) -> Cell:
    settings = {"endpoint": url, "max_in_flight": 2, **changes.pop("settings", {})}
    made = Cell(
        study="s",
        model_name="m",
        model=Model.model_validate(settings),
        manifest={"identity": "weights", "path": None},
        prompts=PROMPTS,
        temperature="1.0",
        top_p="0.9",
        max_new_tokens=80,
        seed=1,
    )
    return dataclasses.replace(made, **changes)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_WAIT_S", 0.005)


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with running(ChatServer()) as server:
        yield server


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def draw(wanted: Cell, path: Path, ledger: Path | None = None) -> None:
    with Journal(path) as journal:
        draw_cell(wanted, journal, path.with_name("engine.log"), ledger=ledger)


# ----------------------------------------------------------- what a draw depends on, or does not

OTHER: dict[str, dict[str, Any]] = {
    "weights": {"manifest": {"identity": "others", "path": None}},
    "dtype": {"settings": {"dtype": "float32"}},
    "engine arguments": {"settings": {"engine_args": {"quantization": "fp8"}}},
    "temperature": {"temperature": "0.5"},
    "top-p": {"top_p": "0.5"},
    "longest answer": {"max_new_tokens": 40},
    "seed of the study": {"seed": 2},
    "policy of the system prompt": {"settings": {"system_prompt": "merge"}},
    "arguments of the template": {"settings": {"chat_template_args": {"enable_thinking": False}}},
    "room for reasoning": {"settings": {"reasoning_tokens": 100, "reasoning": "think"}},
    "special tokens kept": {"settings": {"reasoning": "harmony"}},
    "no seed sent": {"settings": {"omit_fields": ["seed"]}},
    "another bound of the answer": {"settings": {"max_tokens_field": "max_completion_tokens"}},
}
SAME: dict[str, dict[str, Any]] = {
    "longest context": {"settings": {"max_model_len": 512}},
    "requests in flight": {"settings": {"max_in_flight": 7}},
    "deadline of a request": {"settings": {"request_timeout_s": 1}},
    "deadline of loading": {"settings": {"load_timeout_s": 1}},
    "key": {"settings": {"api_key_env": "KEY"}},
    "share of the memory": {"settings": {"memory_fraction": 0.5}},
    "path of the same weights": {"manifest": {"identity": "weights", "path": "/elsewhere"}},
    "more draws": {"prompts": PROMPTS.with_columns(replicates=pl.lit(9))},
    "name of the model": {"model_name": "other"},
    "how reasoning is told": {"settings": {"reasoning": "think"}},
    "date that no template inserts": {"settings": {"template_date": "2020-02-02"}},
    "nothing left out": {"settings": {"omit_fields": [], "max_tokens_field": "max_tokens"}},
    "budget": {"settings": {"budget": {"tokens": 5}}},
}


@pytest.mark.parametrize("case", OTHER)
def test_draws_of_changed_settings_go_to_another_journal(case: str) -> None:
    assert fingerprint(cell(**OTHER[case]).identity()) != fingerprint(cell().identity())


@pytest.mark.parametrize("case", SAME)
def test_what_changes_no_draw_keeps_the_journal(case: str) -> None:
    assert fingerprint(cell(**SAME[case]).identity()) == fingerprint(cell().identity())


def test_settings_at_their_defaults_have_no_part_in_a_name() -> None:
    assert not {"omit_fields", "max_tokens_field"} & set(cell().identity())


def test_the_order_in_which_fields_are_left_out_changes_nothing() -> None:
    one, other = (
        cell(settings={"omit_fields": fields}).identity()
        for fields in (["seed", "top_p"], ["top_p", "seed", "top_p"])
    )
    assert one == other


# ---------------------------------------------------------------------------------- the orders


def test_a_cell_wants_every_replicate_of_every_prompt_once() -> None:
    names = [(order.prompt_id, order.replicate) for order in cell().orders()]
    assert sorted(names) == [(f"p{p}", r) for p in range(3) for r in range(3)]


def test_more_draws_leave_the_earlier_orders_as_they_were() -> None:
    more = cell(prompts=PROMPTS.with_columns(replicates=pl.lit(5)))
    assert list(more.orders())[:9] == list(cell().orders())


def test_a_greedy_cell_wants_the_greedy_draws() -> None:
    greedy = cell(temperature="0", top_p=None)
    assert {order.replicate for order in greedy.orders()} == {0, 1}


def test_prompts_may_want_different_numbers_of_draws() -> None:
    uneven = cell(prompts=PROMPTS.with_columns(replicates=pl.Series([1, 0, 2])))
    assert [(order.prompt_id, order.replicate) for order in uneven.orders()] == [
        ("p0", 0),
        ("p2", 0),
        ("p2", 1),
    ]


SAID = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a?"}]
TALKS = PROMPTS.with_columns(history=pl.Series([None, json.dumps(SAID), json.dumps(SAID)]))


def test_what_was_said_before_is_asked_with_the_prompt(chat: ChatServer, path: Path) -> None:
    wanted = cell(chat.url, prompts=TALKS)
    draw(wanted, path)
    system = {"role": "system", "content": "s"}
    sent = {body["messages"][-1]["content"]: body["messages"] for body in chat.bodies}
    assert sent == {
        "q0": [system, {"role": "user", "content": "q0"}],
        "q1": [system, *SAID, {"role": "user", "content": "q1"}],
        "q2": [*SAID, {"role": "user", "content": "q2"}],
    }


def test_a_column_of_no_history_changes_no_draw() -> None:
    nothing = cell(prompts=PROMPTS.with_columns(history=pl.lit(None, dtype=pl.String)))
    assert list(nothing.orders()) == list(cell().orders())
    assert nothing.identity() == cell().identity()


def test_a_draw_has_the_same_seed_at_every_temperature() -> None:
    seeds = {order.seed for order in cell(temperature="0.5").orders()}
    assert seeds == {order.seed for order in cell(temperature="2.0").orders()}


def test_the_system_prompt_comes_first_and_only_where_there_is_one() -> None:
    messages = {order.prompt_id: order.messages for order in cell().orders()}
    user = {"role": "user", "content": "q2"}
    assert messages["p2"] == (user,)
    assert messages["p0"][0] == {"role": "system", "content": "s"}


def test_greedy_decoding_sends_a_top_p_of_one() -> None:
    assert cell(temperature="0", top_p=None).sampling.to_json()["top_p"] == 1.0


def test_lost_weights_are_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="m: .* sees no weights in .*forcerun.*HF_HOME"):
        require_weights("m", {"identity": "w", "path": str(tmp_path / "gone")})


# -------------------------------------------------------------------------------- drawing a cell


def test_a_cell_asks_for_each_draw_once(chat: ChatServer, path: Path) -> None:
    draw(cell(chat.url), path)
    seeds = [body["seed"] for body in chat.bodies]
    assert sorted(seeds) == sorted(order.seed for order in cell().orders())


def test_a_second_run_of_a_cell_asks_for_nothing(chat: ChatServer, path: Path) -> None:
    draw(cell(chat.url), path)
    asked = len(chat.bodies)
    draw(cell(chat.url), path)
    assert len(chat.bodies) == asked == 9


def test_a_second_run_needs_no_server(chat: ChatServer, path: Path) -> None:
    draw(cell(chat.url), path)
    draw(cell("http://127.0.0.1:9/v1"), path)


def test_more_draws_ask_only_for_the_new_ones(chat: ChatServer, path: Path) -> None:
    draw(cell(chat.url), path)
    before = read_journal(path).draws
    chat.bodies.clear()
    draw(cell(chat.url, prompts=PROMPTS.with_columns(replicates=pl.lit(4))), path)
    assert len(chat.bodies) == 3
    assert before.items() <= read_journal(path).draws.items()


def test_every_session_is_recorded_and_only_those_that_draw(chat: ChatServer, path: Path) -> None:
    draw(cell(chat.url), path)
    draw(cell(chat.url), path)
    (session,) = read_journal(path).sessions
    assert session["engine"] == chat.url
    # This machine has nothing to do with what an endpoint answers.
    assert not {"packages", "processor"} & session.keys()


def fail_seeds(*failing: int) -> Any:
    def reply(body: dict[str, Any], attempt: int) -> Any:
        return refusal(500, "boom") if body["seed"] in failing else completion("x")

    return reply


def test_a_failure_says_how_many_are_left_and_why_in_one_line(chat: ChatServer, path: Path) -> None:
    chat.reply = fail_seeds(next(iter(cell().orders())).seed)
    with pytest.raises(ValueError, match="1 of 9 draws could not be made") as raised:
        draw(cell(chat.url), path)
    assert str(raised.value) == (
        "s m T1.0-P0.9: 1 of 9 draws could not be made (HTTP 500: boom);"
        " those made are kept, and the next run goes on from there"
    )


def test_a_failure_keeps_the_draws_that_were_made(chat: ChatServer, path: Path) -> None:
    chat.reply = fail_seeds(next(iter(cell().orders())).seed)
    with pytest.raises(ValueError, match="could not be made"):
        draw(cell(chat.url), path)
    assert len(read_journal(path).draws) == 8


def test_the_run_after_a_failure_asks_only_for_what_is_left(chat: ChatServer, path: Path) -> None:
    failing = next(iter(cell().orders())).seed
    chat.reply = fail_seeds(failing)
    with pytest.raises(ValueError, match="could not be made"):
        draw(cell(chat.url), path)
    chat.bodies.clear()
    chat.reply = fail_seeds()
    draw(cell(chat.url), path)
    assert [body["seed"] for body in chat.bodies] == [failing]


def test_a_wrong_key_ends_in_one_line_and_stores_nothing(
    chat: ChatServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMV_KEY", "hunter2-secret")
    chat.reply = lambda body, attempt: refusal(401, "wrong key hunter2-secret")
    with pytest.raises(ConfigError) as raised:
        draw(cell(chat.url, settings={"api_key_env": "LLMV_KEY"}), path)
    assert str(raised.value) == (
        f"models.m: {chat.url} refuses every request: HTTP 401: wrong key [key]"
    )
    assert read_journal(path).draws == {}


def test_a_key_that_is_not_set_ends_in_one_line(
    chat: ChatServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLMV_KEY", raising=False)
    with pytest.raises(ConfigError, match="models.m.api_key_env: .* LLMV_KEY is not set"):
        draw(cell(chat.url, settings={"api_key_env": "LLMV_KEY"}), path)


def test_the_key_is_not_in_the_journal(
    chat: ChatServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMV_KEY", "hunter2-secret")
    draw(cell(chat.url, settings={"api_key_env": "LLMV_KEY"}), path)
    assert chat.headers[0]["Authorization"] == "Bearer hunter2-secret"
    assert "hunter2" not in path.read_text()


def test_the_white_space_around_a_key_is_no_part_of_it(
    chat: ChatServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMV_KEY", " hunter2-secret\n")
    draw(cell(chat.url, settings={"api_key_env": "LLMV_KEY"}), path)
    assert chat.headers[0]["Authorization"] == "Bearer hunter2-secret"


@pytest.mark.parametrize("value", ["hunter2\nsecret", "hunter2\u2026"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(
    value: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMV_KEY", value)
    with pytest.raises(ConfigError, match="variable LLMV_KEY holds characters that no") as raised:
        draw(cell(settings={"api_key_env": "LLMV_KEY"}), path)
    assert "hunter2" not in str(raised.value)


@contextlib.contextmanager
def a_stage_s_own_log() -> Iterator[None]:
    """Let a stage set up its log as in a process of its own."""
    root = logging.root
    handlers, level = root.handlers, root.level
    root.handlers = []
    try:
        yield
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers = handlers
        root.setLevel(level)


def test_the_key_is_in_nothing_that_is_written(
    chat: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-hunter2-secret-of-some-length"
    monkeypatch.setenv("LLMV_KEY", secret)
    wanted = cell(chat.url, settings={"api_key_env": "LLMV_KEY", "budget": {"tokens": 10**6}})
    seeds = [order.seed for order in wanted.orders()]
    ways = [
        lambda: refusal(400, f"no {secret}"),
        lambda: refusal(429, f"no {secret}", Retry_After="0.01"),
        lambda: web.Response(text=f"<html>{secret}", status=502),
        lambda: web.Response(text='{"choices": "' + secret),
        lambda: completion(secret, reasoning=secret, facts={"model": secret}),
        lambda: completion(f"half {secret}", "content_filter"),
    ]

    def reply(body: dict[str, Any], attempt: int) -> web.Response:
        number = seeds.index(body["seed"])
        if number == 8:  # to the end
            return refusal(500, secret)
        return ways[number]() if number < len(ways) and attempt < 2 else completion("fine")

    chat.reply = reply
    journal, log = tmp_path / "journals" / "j.jsonl", tmp_path / "log.txt"
    ledger = tmp_path / "spending" / "m.jsonl"
    with a_stage_s_own_log(), pytest.raises(SystemExit), stage_log(log):
        logging.root.setLevel(logging.DEBUG)
        draw(wanted, journal, ledger)
    chat.reply = chat_server.answer_by_seed
    draw(wanted, journal, ledger)
    content = read_journal(journal)
    table = tabulate_draws(wanted, content, ["format"])
    metadata = {
        "sessions": content.sessions,
        "identity": wanted.identity(),
        "design": Design(block="format", factors=(), carried=()).to_json(),
    }
    write_table(table, tmp_path / "cell.parquet", DRAWS, metadata)
    assert "could not be made" in log.read_text()
    assert table["raw"].str.contains("[key]", literal=True).sum() == 2
    written = {path for path in tmp_path.rglob("*") if path.is_file()}
    names = {"j.jsonl", "log.txt", "m.jsonl", "m.lock", "cell.parquet"}
    assert {path.name for path in written} == names
    assert not [path for path in written if b"hunter2" in path.read_bytes()]
    assert "hunter2" not in str(table.rows())


# ------------------------------------------------------------------------ what is recorded


def test_a_session_says_that_no_seed_was_sent_and_what_was_left_out(
    chat: ChatServer, path: Path
) -> None:
    settings = {"omit_fields": ["top_p", "seed"], "max_tokens_field": "max_completion_tokens"}
    chat.reply = lambda body, attempt: completion("x")
    draw(cell(chat.url, settings=settings), path)
    assert "seed" not in chat.bodies[0]
    (session,) = read_journal(path).sessions
    assert (session["seeded"], session["omitted_fields"], session["max_tokens_field"]) == (
        False,
        ["seed", "top_p"],
        "max_completion_tokens",
    )


def test_a_session_with_every_field_says_that_it_was_seeded(chat: ChatServer, path: Path) -> None:
    draw(cell(chat.url), path)
    (session,) = read_journal(path).sessions
    assert session["seeded"] is True
    assert not {"omitted_fields", "max_tokens_field"} & set(session)


def test_each_system_that_answered_is_recorded_once(chat: ChatServer, path: Path) -> None:
    seeds = [order.seed for order in cell().orders()]

    def reply(body: dict[str, Any], attempt: int) -> web.Response:
        half = seeds.index(body["seed"]) // 5
        return completion("x", facts={"model": "big-0613", "system_fingerprint": f"fp{half}"})

    chat.reply = reply
    draw(cell(chat.url), path)
    answered = [
        (session["answered_by"], session["system_fingerprint"])
        for session in read_journal(path).sessions
        if "answered_by" in session
    ]
    assert sorted(answered) == [("big-0613", "fp0"), ("big-0613", "fp1")]


def test_a_filtered_answer_is_counted_as_an_error_and_has_no_text(
    chat: ChatServer, path: Path
) -> None:
    chat.reply = lambda body, attempt: completion("half", "content_filter")
    draw(cell(chat.url), path)
    table = tabulate_draws(cell(), read_journal(path), ["format"])
    assert set(table.select("text", "raw", "status").rows()) == {(None, "half", "error")}


# ------------------------------------------------------------------------------- the budget

WORST = max(bound_usage(order.messages, 80).tokens for order in cell().orders())


def budgeted(chat: ChatServer, tokens: int, **changes: Any) -> Cell:
    return cell(chat.url, settings={"budget": {"tokens": tokens}}, **changes)


def test_a_budget_that_is_spent_ends_in_one_line_and_keeps_what_was_made(
    chat: ChatServer, path: Path
) -> None:
    limit = WORST + 3 * 12
    with pytest.raises(ConfigError) as raised:
        draw(budgeted(chat, limit), path, path.with_name("m.ledger"))
    made = len(read_journal(path).draws)
    assert 4 <= made < 9
    assert str(raised.value).startswith(
        f"models.m.budget.tokens: {12 * made} of {limit} tokens are spent, and the next request may"
    )
    assert str(raised.value).endswith(
        f": raise it to go on (s m T1.0-P0.9: {9 - made} of 9 draws are left; those made are kept)"
    )


def test_a_budget_that_is_raised_goes_on_and_counts_what_was_spent(
    chat: ChatServer, path: Path
) -> None:
    ledger = path.with_name("m.ledger")
    with pytest.raises(ConfigError, match=r"budget\.tokens"):
        draw(budgeted(chat, WORST + 3 * 12), path, ledger)
    made = len(read_journal(path).draws)
    with pytest.raises(ConfigError, match=rf"budget\.tokens: {12 * made} of"):
        draw(budgeted(chat, WORST), path, ledger)
    assert len(read_journal(path).draws) == made
    draw(budgeted(chat, WORST + 9 * 12), path, ledger)
    assert len(chat.bodies) == len(read_journal(path).draws) == 9


def test_cells_share_a_budget(chat: ChatServer, tmp_path: Path) -> None:
    limit = WORST + 12 * 12
    draw(budgeted(chat, limit), tmp_path / "one", tmp_path / "m.ledger")
    with pytest.raises(ConfigError, match=r"budget\.tokens"):
        draw(budgeted(chat, limit, temperature="0.5"), tmp_path / "two", tmp_path / "m.ledger")
    assert 9 < len(chat.bodies) < 18
    assert 12 * len(chat.bodies) <= limit


@pytest.mark.parametrize("limit", [WORST, 3 * WORST, 20 * WORST])
def test_cells_at_once_never_pass_a_budget_together(
    limit: int, chat: ChatServer, tmp_path: Path
) -> None:
    billed: list[int] = []

    def reply(body: dict[str, Any], attempt: int) -> web.Response:
        used = {"prompt_tokens": body["seed"] % 9, "completion_tokens": body["seed"] % 80}
        billed.append(sum(used.values()))
        if body["seed"] % 4 == attempt:
            return refusal(504)  # after the work was done
        return completion("x", usage=used)

    def run(number: int) -> None:
        wanted = budgeted(chat, limit, temperature=f"0.{number}")
        with contextlib.suppress(ConfigError):
            draw(wanted, tmp_path / f"{number}.jsonl", tmp_path / "m.ledger")

    chat.reply = reply
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(1, 5)))
    drawn = [len(read_journal(tmp_path / f"{n}.jsonl").draws) for n in range(1, 5)]
    assert sum(drawn) > 0 or limit == WORST
    assert sum(billed) <= limit


def test_a_budget_without_a_ledger_is_refused(chat: ChatServer, path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^models\.m\.budget: there is no ledger"):
        draw(budgeted(chat, 10**6), path)
    assert chat.bodies == []


def test_spending_is_written_down_and_told_also_without_a_budget(
    chat: ChatServer, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    ledger = path.with_name("m.ledger")
    draw(cell(chat.url), path, ledger)
    assert caplog.messages[-1] == "m: 108 tokens spent in 9 requests"
    settled = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert sum(line["prompt"] for line in settled if "settle" in line) == 9 * 5


UNRENDERED = Rendering({f"p{number}": [1, 2, 3] for number in range(3)}, "", [])


class DyingEngine:
    """Stands for the lease: the engine dies under the job `deaths` times."""

    def __init__(self, chat: ChatServer, deaths: int) -> None:
        self.chat, self.deaths, self.loads = chat, deaths, 0

    def serve(self, wanted: Cell, engine_log: Path) -> Any:
        from contextlib import nullcontext

        self.loads += 1
        url = "http://127.0.0.1:9/v1" if self.loads <= self.deaths else self.chat.url
        return nullcontext(Server(url, "model", is_engine=True))


@pytest.fixture
def no_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "render_prompts", lambda wanted, server, folder: UNRENDERED)


@pytest.mark.usefixtures("no_rendering")
def test_an_engine_that_dies_is_loaded_again(
    chat: ChatServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = DyingEngine(chat, deaths=2)
    monkeypatch.setattr(drawing, "serve", engine.serve)
    draw(cell(), path)
    assert (engine.loads, len(read_journal(path).draws)) == (3, 9)


@pytest.mark.usefixtures("no_rendering")
def test_an_engine_that_dies_always_is_loaded_a_bounded_number_of_times(
    chat: ChatServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = DyingEngine(chat, deaths=99)
    monkeypatch.setattr(drawing, "serve", engine.serve)
    with pytest.raises(ValueError, match="9 of 9 draws .*the engine is gone"):
        draw(cell(), path)
    assert engine.loads == drawing.ENGINE_LOADS


def test_an_engine_that_dies_while_prompts_are_rendered_is_loaded_again(
    chat: ChatServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, checks = DyingEngine(chat, deaths=0), []

    def dies_once(wanted: Cell, server: Server, folder: Path) -> Rendering:
        checks.append(server)
        if len(checks) == 1:
            raise ServerGone("the engine does not answer")
        return UNRENDERED

    monkeypatch.setattr(drawing, "serve", engine.serve)
    monkeypatch.setattr(drawing, "render_prompts", dies_once)
    draw(cell(), path)
    assert (engine.loads, len(read_journal(path).draws)) == (2, 9)


# ----------------------------------------------------------------------------- rendered prompts

USER_TURNS_ONLY = (
    "{% for turn in messages %}{% if turn.role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "<user> {{ turn.content }}{% endfor %}<model>"
)
SILENTLY_WITHOUT_SYSTEM = (
    "{% for turn in messages if turn.role == 'user' %}<user> {{ turn.content }}{% endfor %}<model>"
)
THINKS = (
    "{% for turn in messages %}<{{ turn.role }}> {{ turn.content }}{% endfor %}<assistant>"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
)
ASKED_FOR_TODAY = (
    "{% set today = strftime_now('%d %B %Y') %}{% for turn in messages %}<{{ turn.role }}>"
    " {{ turn.content }}{% endfor %} Today is {{ today }}.<assistant>"
)


def on_engine(template: str = chat_server.PLAIN, **changes: Any) -> Cell:
    settings = {"package": "p", "endpoint": None, "max_model_len": 200, **changes.pop("model", {})}
    manifest = {"identity": "w", "path": "/weights", **changes.pop("manifest", {})}
    return cell(settings=settings, manifest=manifest, **changes)


def render(chat: ChatServer, wanted: Cell, folder: Path | None = None) -> Rendering:
    server = Server(
        chat.url,
        "model",
        is_engine=True,
        template_args=wanted.model.chat_template_args,
        template=wanted.template,
    )
    if folder is not None:
        return render_prompts(wanted, server, folder)
    with tempfile.TemporaryDirectory() as fresh:
        return render_prompts(wanted, server, Path(fresh))


def weights(folder: Path, template: str) -> dict[str, Any]:
    (folder / "chat_template.jinja").write_text(template)
    return {"path": str(folder)}


def test_every_prompt_is_rendered_to_its_tokens(chat: ChatServer) -> None:
    rendered = render(chat, on_engine())
    assert {name: "".join(map(chr, ids)) for name, ids in rendered.tokens.items()} == {
        "p0": "^<system> s\n<user> q0\n<assistant>",
        "p1": "^<system> s\n<user> q1\n<assistant>",
        "p2": "^<user> q2\n<assistant>",
    }


def test_what_was_said_before_is_rendered_with_the_prompt(chat: ChatServer) -> None:
    rendered = render(chat, on_engine(prompts=TALKS))
    assert {name: "".join(map(chr, ids)) for name, ids in rendered.tokens.items()} == {
        "p0": "^<system> s\n<user> q0\n<assistant>",
        "p1": "^<system> s\n<user> u\n<assistant> a?\n<user> q1\n<assistant>",
        "p2": "^<user> u\n<assistant> a?\n<user> q2\n<assistant>",
    }


def test_the_first_rendered_prompt_is_recorded_with_its_hash(chat: ChatServer) -> None:
    # printf '^<system> s\n<user> q0\n<assistant>' | sha256sum
    assert render(chat, on_engine()).facts() == {
        "rendered_prompt": "^<system> s\n<user> q0\n<assistant>",
        "rendered_prompt_sha256": EXPECTED_SHA,
        "ignored_template_args": [],
    }


EXPECTED_SHA = "8912d05dd529fd1400c62bb644d2fdf3582b0032485e93e9ecf77e73e618fc64"


def test_the_engine_is_asked_for_the_tokens_that_were_checked(
    chat: ChatServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "serve", DyingEngine(chat, deaths=0).serve)
    wanted = on_engine()
    draw(wanted, path)
    ids = render(chat, wanted).tokens
    expected = {order.seed: ids[order.prompt_id] for order in wanted.orders()}
    assert {body["seed"]: body["prompt"] for body in chat.bodies} == expected
    assert not any("messages" in body for body in chat.bodies)


def test_a_prompt_that_begins_with_a_token_twice_is_refused(chat: ChatServer) -> None:
    chat.template = f"^{chat.template}"
    with pytest.raises(ConfigError, match=f"begins with token {ord('^')} twice"):
        render(chat, on_engine())


def test_a_template_that_drops_the_system_prompt_is_refused_with_what_to_set(
    chat: ChatServer,
) -> None:
    chat.template = SILENTLY_WITHOUT_SYSTEM
    wanted = on_engine(prompts=PROMPTS.with_columns(system=pl.lit("Be a chatbot")))
    with pytest.raises(ConfigError, match=r"^models\.m\.system_prompt: .*drops .*; set merge, or"):
        render(chat, wanted)


def test_a_template_that_refuses_a_system_turn_is_told_with_what_to_set(chat: ChatServer) -> None:
    chat.template = USER_TURNS_ONLY
    with pytest.raises(ConfigError, match=r"System role not supported; .* system_prompt: merge"):
        render(chat, on_engine())


def test_a_merged_system_prompt_stands_in_the_user_turn(chat: ChatServer) -> None:
    chat.template = USER_TURNS_ONLY
    assert render(chat, on_engine(model={"system_prompt": "merge"})).example == (
        "<user> s\n\nq0<model>"
    )


def test_an_omitted_system_prompt_is_nowhere(chat: ChatServer) -> None:
    chat.template = USER_TURNS_ONLY
    assert render(chat, on_engine(model={"system_prompt": "omit"})).example == "<user> q0<model>"


def test_an_argument_of_the_template_changes_the_prompt(chat: ChatServer) -> None:
    chat.template = THINKS
    wanted = on_engine(model={"chat_template_args": {"enable_thinking": False}})
    rendered = render(chat, wanted)
    assert rendered.example.endswith("<assistant><think></think>")
    assert rendered.ignored == []


def test_an_argument_that_the_template_ignores_is_told_and_recorded(
    chat: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    chat.template = THINKS
    wanted = on_engine(
        model={"chat_template_args": {"enable_thinking": False, "thinking_budget": 7}}
    )
    rendered = render(chat, wanted)
    assert rendered.facts()["ignored_template_args"] == ["thinking_budget"]
    (told,) = caplog.messages
    assert told.startswith("models.m.chat_template_args.thinking_budget: the chat template ignores")


def test_prompts_are_rendered_once_for_all_cells(chat: ChatServer, tmp_path: Path) -> None:
    first = render(chat, on_engine(), tmp_path)
    asked = len(chat.renderings)
    again = render(chat, on_engine(temperature="0.5", seed=9, max_new_tokens=7), tmp_path)
    assert (again, len(chat.renderings)) == (first, asked)


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"system_prompt": "omit"}},
        {"model": {"chat_template_args": {"enable_thinking": False}}},
        {"model": {"engine_args": {"tokenizer-mode": "hf"}}},
        {"manifest": {"identity": "others"}},
        {"prompts": PROMPTS.with_columns(prompt_id=pl.Series(["p0", "p1", "p3"]))},
    ],
)
def test_what_changes_a_rendering_renders_anew(
    chat: ChatServer, tmp_path: Path, change: dict[str, Any]
) -> None:
    render(chat, on_engine(), tmp_path)
    asked = len(chat.renderings)
    render(chat, on_engine(**change), tmp_path)
    assert len(chat.renderings) >= asked + 3


def test_a_damaged_rendering_is_made_anew(chat: ChatServer, tmp_path: Path) -> None:
    first = render(chat, on_engine(), tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_text(kept.read_text()[:-9])
    assert render(chat, on_engine(), tmp_path) == first


def test_a_kept_rendering_is_checked_again(chat: ChatServer, tmp_path: Path) -> None:
    render(chat, on_engine(), tmp_path)
    with pytest.raises(ConfigError, match="100 leaves no room"):
        render(chat, on_engine(model={"max_model_len": 100}), tmp_path)


def test_a_template_gets_a_fixed_date_in_place_of_todays(chat: ChatServer, tmp_path: Path) -> None:
    manifest = weights(tmp_path, ASKED_FOR_TODAY)
    chat.template = ASKED_FOR_TODAY
    wanted = on_engine(manifest=manifest, model={"template_date": "2024-02-29"})
    assert "Today is 29 February 2024." in render(chat, wanted).example


def test_a_date_is_part_of_a_draw_only_where_the_template_has_one(tmp_path: Path) -> None:
    manifest = weights(tmp_path, ASKED_FOR_TODAY)
    days = [{"template_date": f"2024-02-0{day}"} for day in (1, 2)]
    dated = [fingerprint(on_engine(manifest=manifest, model=day).identity()) for day in days]
    plain = [fingerprint(on_engine(model=day).identity()) for day in days]
    assert dated[0] != dated[1]
    assert plain[0] == plain[1]


def test_a_prompt_that_leaves_no_room_for_the_answer_is_refused(chat: ChatServer) -> None:
    # "^<system> s\n<user> q0\n<assistant>" has 33 characters.
    with pytest.raises(ConfigError, match="112 leaves no room for a prompt of 33 tokens and 80"):
        render(chat, on_engine(model={"max_model_len": 112}))
    render(chat, on_engine(model={"max_model_len": 113}))


def test_the_model_s_own_context_limits_prompts_too(chat: ChatServer, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 90}')
    wanted = on_engine(manifest={"path": str(tmp_path)}, model={"max_model_len": None})
    with pytest.raises(ConfigError, match="90 leaves no room for a prompt of 33 tokens"):
        render(chat, wanted)


def test_tokens_for_reasoning_come_on_top_of_those_for_the_answer(chat: ChatServer) -> None:
    wanted = on_engine(model={"reasoning_tokens": 40, "reasoning": "think"})
    assert wanted.sampling.to_json()["max_tokens"] == 120
    with pytest.raises(ConfigError, match="33 tokens and 120 new ones"):
        short = {"reasoning_tokens": 40, "reasoning": "think", "max_model_len": 152}
        render(chat, on_engine(model=short))


# ------------------------------------------------------------------------------------ reasoning


def tabulated(chat: ChatServer, path: Path, wanted: Cell, reply: str) -> dict[str, Any]:
    chat.reply = lambda body, attempt: completion(reply, "length")
    draw(wanted, path)
    return tabulate_draws(wanted, read_journal(path), ["format"]).row(0, named=True)


def test_only_the_final_answer_is_measured_and_all_of_it_kept(chat: ChatServer, path: Path) -> None:
    wanted = cell(chat.url, settings={"reasoning": "think"})
    row = tabulated(chat, path, wanted, "<think>hm</think>A story.")
    assert (row["text"], row["reasoning"]) == ("A story.", "hm")
    assert row["raw"] == "<think>hm</think>A story."


def test_a_draw_cut_in_a_thought_that_the_prompt_opened_has_no_answer(
    chat: ChatServer, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat.template += "<think>\n"
    monkeypatch.setattr(drawing, "serve", DyingEngine(chat, deaths=0).serve)
    row = tabulated(chat, path, on_engine(model={"reasoning": "think"}), "hm, a story, well")
    assert (row["status"], row["text"], row["reasoning"]) == (
        "no_answer",
        None,
        "hm, a story, well",
    )


def test_without_the_prompt_a_thought_it_opened_is_known_by_those_that_close(
    chat: ChatServer, path: Path
) -> None:
    wanted = cell(chat.url, settings={"reasoning": "think"})
    first = next(iter(wanted.orders())).seed
    chat.reply = lambda body, attempt: completion(
        "thinking" if body["seed"] == first else "thought</think>answer"
    )
    draw(wanted, path)
    table = tabulate_draws(wanted, read_journal(path), ["format"])
    assert table["status"].to_list() == ["no_answer"] + ["ok"] * 8


def test_reading_reasoning_otherwise_makes_no_new_draw(chat: ChatServer) -> None:
    forms = [cell(settings={"reasoning": form}) for form in ("none", "think")]
    assert len({fingerprint(form.identity()) for form in forms}) == 1


def test_marks_of_reasoning_that_nobody_reads_are_told(
    chat: ChatServer, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    row = tabulated(chat, path, cell(chat.url), "<think>hm</think>A story.")
    assert row["text"] == "<think>hm</think>A story."
    assert "see models.m.reasoning" in caplog.messages[-1]


# -------------------------------------------------------------------------------- table, counts


def reply_by_replicate(body: dict[str, Any], attempt: int) -> Any:
    """One reply of each kind to the three replicates of every prompt, and one refusal."""
    number = {order.seed: order.replicate for order in cell().orders()}[body["seed"]]
    if body["messages"][-1]["content"] == "q2" and number == 2:
        return refusal(400, "no")
    return [completion(" same "), completion("cut", "length"), completion(" ")][number]


@pytest.fixture
def table(chat: ChatServer, path: Path) -> pl.DataFrame:
    chat.reply = reply_by_replicate
    with Journal(path) as journal:
        draw_cell(cell(chat.url), journal, path)
    return tabulate_draws(cell(), read_journal(path), ["format", "race"])


def test_the_table_has_a_row_for_every_draw_in_the_order_of_orders(table: pl.DataFrame) -> None:
    names = [(order.prompt_id, order.replicate) for order in cell().orders()]
    assert table.select("prompt_id", "replicate").rows() == names


def test_the_table_keeps_the_raw_answer_beside_the_measured_text(table: pl.DataFrame) -> None:
    first = table.row(0, named=True)
    assert (first["raw"], first["text"]) == (" same ", "same")


def test_the_table_gives_each_draw_its_group(table: pl.DataFrame) -> None:
    groups = set(table.select("prompt_id", "format", "race").rows())
    assert groups == {("p0", "story", "A"), ("p1", "story", "B"), ("p2", "poem", "A")}


def test_the_table_is_the_same_whatever_the_order_draws_came_in(
    chat: ChatServer, tmp_path: Path, table: pl.DataFrame
) -> None:
    chat.reply = reply_by_replicate
    backwards = tmp_path / "backwards.jsonl"
    lines = (tmp_path / "journal.jsonl").read_text().splitlines(keepends=True)
    backwards.write_text("".join(reversed(lines)))
    assert tabulate_draws(cell(), read_journal(backwards), ["format", "race"]).equals(table)


def test_every_draw_is_counted_under_its_status(table: pl.DataFrame) -> None:
    counted = count_draws(table, "1.0", "0.9", ["format", "race"])
    statuses = ["prompt_id", "draws", "ok", "empty", "truncated", "no_answer", "error"]
    assert counted.select(statuses).rows() == [
        ("p0", 3, 1, 1, 1, 0, 0),
        ("p1", 3, 1, 1, 1, 0, 0),
        ("p2", 3, 1, 0, 1, 0, 1),
    ]


def test_distinct_texts_and_tokens_are_counted(table: pl.DataFrame) -> None:
    counted = count_draws(table, "1.0", "0.9", ["format", "race"])
    counts = counted.select("distinct_texts", "completion_tokens").rows()
    assert counts == [(2, 21), (2, 21), (2, 14)]
