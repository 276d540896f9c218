"""The client: which faults pass, which stay, and that no draw is lost or made up."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from chat_server import ChatServer, Reply, completion, page, refusal, running, silence
from llm_variability.config import Budget
from llm_variability.draws import client
from llm_variability.draws.budget import BudgetSpent, Ledger, Usage, bound_usage
from llm_variability.draws.client import (
    Order,
    Progress,
    RunGone,
    Sampling,
    Server,
    ServerGone,
    ServerRefuses,
    make_draws,
    render_prompt_tokens,
)
from llm_variability.draws.journal import Draw
from llm_variability.draws.replies import Reply as ServerReply
from llm_variability.draws.replies import read_completion, read_wait

SAMPLING = Sampling(temperature=0.7, top_p=0.9, max_new_tokens=33)
KEY = "hunter2-secret"


def order(number: int) -> Order:
    messages = ({"role": "system", "content": "s"}, {"role": "user", "content": f"q{number}"})
    return Order("p", number, 1000 + number, messages)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(client, "_LONGEST_WAIT_S", 0.5)


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with running(ChatServer()) as server:
        yield server


def draw_from(
    server: ChatServer | Server,
    orders: Iterable[Order] = (order(0),),
    *,
    key: str | None = None,
    run_lives: Callable[[], bool] = lambda: True,
    keep: Callable[[Draw], None] | None = None,
    max_in_flight: int = 4,
    timeout_s: float = 5,
    ledger: Ledger | None = None,
    answered: Callable[[str | None, str | None], None] = lambda model, system: None,
) -> tuple[list[Draw], list[str]]:
    kept: list[Draw] = []
    where = server if isinstance(server, Server) else Server(server.url, "served", key=key)
    faults = asyncio.run(
        make_draws(
            where,
            SAMPLING,
            orders,
            keep or kept.append,
            run_lives,
            max_in_flight,
            timeout_s,
            ledger,
            answered,
        )
    )
    return kept, faults


def then_fine(*first: Callable[[], web.StreamResponse]) -> Reply:
    """Reply as ordered at the first attempts, and well afterwards."""

    def reply(body: dict[str, Any], attempt: int) -> web.StreamResponse:
        return first[attempt]() if attempt < len(first) else completion("fine")

    return reply


# ------------------------------------------------------------------------- what is asked for


def test_every_request_carries_all_sampling_parameters(chat: ChatServer) -> None:
    draw_from(chat, [order(n) for n in range(3)])
    for body in chat.bodies:
        assert {name: body[name] for name in body if name not in ("seed", "messages")} == {
            "model": "served",
            "temperature": 0.7,
            "top_p": 0.9,
            "max_tokens": 33,
            "n": 1,
            "frequency_penalty": 0.0,
            "presence_penalty": 0.0,
        }


def test_every_request_carries_its_own_seed_and_messages(chat: ChatServer) -> None:
    draw_from(chat, [order(n) for n in range(20)])
    asked = {body["seed"]: body["messages"][-1]["content"] for body in chat.bodies}
    assert asked == {1000 + n: f"q{n}" for n in range(20)}


def test_a_retry_asks_for_the_same(chat: ChatServer) -> None:
    chat.reply = then_fine(lambda: refusal(500))
    draw_from(chat)
    assert chat.bodies[0] == chat.bodies[1]


def test_each_answer_goes_to_its_own_draw(chat: ChatServer) -> None:
    kept, _ = draw_from(chat, [order(n) for n in range(20)])
    assert {(draw.replicate, draw.seed, draw.raw) for draw in kept} == {
        (n, 1000 + n, f"answer to {1000 + n}") for n in range(20)
    }


def test_an_answer_is_kept_as_sent(chat: ChatServer) -> None:
    text = "\n <b>ü</b> \U0001f600 "
    chat.reply = lambda body, attempt: completion(text, "length", reasoning="hm")
    (draw,), _ = draw_from(chat)
    assert draw == Draw("p", 0, 1000, text, "hm", "length", 5, 7)


def test_the_key_is_sent_as_a_bearer_token(chat: ChatServer) -> None:
    draw_from(chat, key=KEY)
    assert chat.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_no_key_is_sent_where_there_is_none(chat: ChatServer) -> None:
    draw_from(chat)
    assert "Authorization" not in chat.headers[0]


def test_a_field_that_the_server_does_not_take_is_left_out(chat: ChatServer) -> None:
    draw_from(Server(chat.url, "m", omit_fields=("seed", "top_p", "n")))
    assert set(chat.bodies[0]) == {
        "model",
        "messages",
        "temperature",
        "max_tokens",
        "frequency_penalty",
        "presence_penalty",
    }


def test_the_bound_of_an_answer_goes_by_the_server_s_name(chat: ChatServer) -> None:
    draw_from(Server(chat.url, "m", max_tokens_field="max_completion_tokens"))
    assert chat.bodies[0]["max_completion_tokens"] == 33
    assert "max_tokens" not in chat.bodies[0]


def test_a_password_file_takes_no_key_s_place(
    chat: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    draw_from(chat, key=KEY)
    draw_from(chat, [order(1)])
    assert chat.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert "Authorization" not in chat.headers[1]


def test_a_proxy_of_the_environment_is_used(
    chat: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", chat.url.removesuffix("/v1"))
    monkeypatch.setenv("no_proxy", "elsewhere.invalid")
    kept, _ = draw_from(Server("http://far.invalid/v1", "m"))
    assert (kept[0].raw, chat.headers[0]["Host"]) == ("answer to 1000", "far.invalid")


def test_a_server_that_needs_no_proxy_is_asked_itself(
    chat: ChatServer, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", nobody.removesuffix("/v1"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert draw_from(chat)[0][0].raw == "answer to 1000"


def test_a_server_on_a_unix_socket_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with running(ChatServer(), path):
        kept, _ = draw_from(Server("http://engine/v1", "model", socket=path, is_engine=True))
    assert kept[0].raw == "answer to 1000"


# ------------------------------------------------------------------------------ passing faults

PASSING: dict[str, Callable[[], web.StreamResponse]] = {
    "500": lambda: refusal(500),
    "503": lambda: refusal(503),
    "429": lambda: refusal(429),
    "408": lambda: refusal(408),
    "cut off JSON": lambda: web.Response(text='{"choices": [{"message": {"con'),
    "empty reply": lambda: web.Response(text=""),
    "reply of another form": lambda: web.json_response({"object": "list"}),
    "no choices": lambda: web.json_response({"choices": []}),
    "content that is no text": lambda: completion([{"type": "text", "text": "a"}]),
    "bytes that are no text": lambda: web.Response(body=b'{"choices": "\xff\xfe'),
    "529": lambda: refusal(529),
    "a page in place of JSON": lambda: page(),
    "a page with status 502": lambda: page(502),
    "JSON nested too deep": lambda: web.Response(text="[" * 100_000),
    "null": lambda: web.Response(text="null"),
    "null for choices": lambda: web.json_response({"choices": None}),
    "null for a message": lambda: web.json_response({"choices": [{"message": None}]}),
    "an event stream": lambda: web.Response(text='data: {"choices": []}\n\ndata: [DONE]\n'),
    "200 with an error": lambda: web.json_response({"error": {"message": "overloaded"}}),
    "200 with an error in words": lambda: web.json_response({"error": "overloaded"}),
    "200 with an error beside an answer": lambda: completion("x", facts={"error": {"code": 502}}),
    "200 with an error in a choice": lambda: web.json_response(
        {"choices": [{"message": {"content": "half"}, "error": {"code": 502, "message": "gone"}}]}
    ),
    "finish_reason error": lambda: completion("half an answ", "error"),
    "a finish_reason that is no text": lambda: completion("x", {"a": 1}),
}


@pytest.mark.parametrize("case", PASSING)
def test_a_fault_that_passes_is_waited_out(case: str, chat: ChatServer) -> None:
    chat.reply = then_fine(PASSING[case], PASSING[case])
    kept, faults = draw_from(chat)
    assert ([draw.raw for draw in kept], faults, len(chat.bodies)) == (["fine"], [], 3)


def test_a_connection_closed_in_the_middle_is_waited_out(chat: ChatServer) -> None:
    async def cut_off(body: dict[str, Any], attempt: int) -> web.StreamResponse:
        if attempt:
            return completion("fine")
        raise asyncio.CancelledError  # aiohttp then closes the connection without a reply

    chat.reply = cut_off
    kept, faults = draw_from(chat)
    assert ([draw.raw for draw in kept], faults) == (["fine"], [])


def test_the_server_is_left_alone_as_long_as_it_asks(chat: ChatServer) -> None:
    begun: list[float] = []

    def reply(body: dict[str, Any], attempt: int) -> web.Response:
        begun.append(time.monotonic())
        return completion("fine") if attempt else refusal(429, Retry_After="0.4")

    chat.reply = reply
    draw_from(chat)
    assert begun[1] - begun[0] >= 0.4


@pytest.mark.parametrize("header", ["soon", "-5", "nan", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_wait_that_makes_no_sense_is_ignored(header: str, chat: ChatServer) -> None:
    chat.reply = then_fine(lambda: refusal(429, Retry_After=header))
    kept, _ = draw_from(chat)
    assert kept[0].raw == "fine"


def test_waits_grow_from_retry_to_retry(chat: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.random, "uniform", lambda low, high: 1.0)
    begun: list[float] = []

    def reply(body: dict[str, Any], attempt: int) -> web.Response:
        begun.append(time.monotonic())
        return refusal(500)

    chat.reply = reply
    draw_from(chat)
    waits = [after - before for before, after in zip(begun, begun[1:], strict=False)]
    for wait, least in zip(waits, (0.01, 0.02, 0.04, 0.08, 0.16), strict=True):
        assert wait >= least


def test_a_reply_that_never_ends_is_given_up_at_the_deadline(chat: ChatServer) -> None:
    chat.dribbles = 1
    begun = time.monotonic()
    kept, _ = draw_from(chat, timeout_s=0.4)
    assert (kept[0].raw, len(chat.bodies)) == ("answer to 1000", 2)
    assert 0.4 <= time.monotonic() - begun < 5


def test_a_reply_that_is_too_long_is_not_taken(
    chat: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_LONGEST_REPLY_BYTES", 10_000)
    chat.reply = then_fine(lambda: completion("x" * 10_000))
    assert draw_from(chat)[0][0].raw == "fine"


def test_a_connection_that_says_nothing_is_a_fault_after_a_bounded_time() -> None:
    begun = time.monotonic()
    with silence() as url:
        kept, faults = draw_from(Server(url, "m"), timeout_s=0.1)
    assert (kept, faults) == ([], ["no reply before the deadline (request_timeout_s)"])
    assert time.monotonic() - begun < 10


def test_a_hanging_server_is_given_up_at_the_deadline_and_asked_again(chat: ChatServer) -> None:
    async def reply(body: dict[str, Any], attempt: int) -> web.StreamResponse:
        if attempt == 0:
            await asyncio.sleep(30)
        return completion("fine")

    chat.reply = reply
    begun = time.monotonic()
    kept, _ = draw_from(chat, timeout_s=0.3)
    assert (kept[0].raw, time.monotonic() - begun < 5) == ("fine", True)


def test_a_fault_that_stays_is_returned_and_no_draw_is_made_up(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: refusal(500, "out of memory")
    kept, faults = draw_from(chat)
    assert (kept, faults) == ([], ["HTTP 500: out of memory"])


def test_a_fault_that_stays_is_tried_a_bounded_number_of_times(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: refusal(500)
    draw_from(chat)
    assert len(chat.bodies) == client.ATTEMPTS


def test_a_fault_of_one_draw_leaves_the_others_alone(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: refusal(500) if body["seed"] == 1003 else completion("x")
    kept, faults = draw_from(chat, [order(n) for n in range(10)])
    assert {draw.replicate for draw in kept} == set(range(10)) - {3}
    assert len(faults) == 1


def test_a_server_that_fails_always_is_not_asked_for_every_draw(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: refusal(500)
    draw_from(chat, [order(n) for n in range(200)], max_in_flight=4)
    assert len({body["seed"] for body in chat.bodies}) <= 2 * 4


def test_a_busy_server_is_given_more_time_but_not_for_ever(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: refusal(429, "slow down")
    assert draw_from(chat) == ([], ["HTTP 429: slow down"])
    assert client.ATTEMPTS < len(chat.bodies) == client.ATTEMPTS_WHEN_BUSY


def test_all_requests_wait_when_one_is_told_to(chat: ChatServer) -> None:
    begun: list[float] = []

    def reply(body: dict[str, Any], attempt: int) -> web.Response:
        begun.append(time.monotonic())
        return refusal(429, Retry_After="0.5") if len(begun) == 1 else completion("x")

    chat.reply = reply
    draw_from(chat, [order(n) for n in range(20)], max_in_flight=2)
    # One more may have been on its way when the first was told.
    assert len([at for at in begun[1:] if at - begun[0] < 0.5]) <= 2


def test_a_server_that_asks_for_too_long_a_wait_is_asked_no_more(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: refusal(429, "come back", Retry_After="3600")
    begun = time.monotonic()
    kept, faults = draw_from(chat, [order(n) for n in range(50)], max_in_flight=2)
    assert (kept, len(chat.bodies) <= 2, time.monotonic() - begun < 5) == ([], True, True)
    assert faults[-1] == ("HTTP 429: come back; the server asks to be left alone for 3,600 s")


def http_date(seconds: float) -> str:
    return format_datetime(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds), True)


WAITS: dict[str, tuple[dict[str, str], float | None]] = {
    "seconds": ({"Retry-After": "7"}, 7),
    "seconds with a point": ({"Retry-After": "0.4"}, 0.4),
    "a date, by the server's own clock": (
        {"Retry-After": http_date(90), "Date": http_date(0)},
        90,
    ),
    "a date that is past": ({"Retry-After": http_date(0), "Date": http_date(5)}, 0),
    "a date of an old form": (
        {"Retry-After": "Thu Jan  1 00:00:30 2026", "Date": http_date(0)},
        30,
    ),
    "no header": ({}, None),
    "less than nothing": ({"Retry-After": "-5"}, None),
    "words": ({"Retry-After": "soon"}, None),
    "no number": ({"Retry-After": "nan"}, None),
    "for ever": ({"Retry-After": "inf"}, None),
    "a date that no calendar has": ({"Retry-After": "Wed, 99 Oct 2026 99:00:00 GMT"}, None),
}


@pytest.mark.parametrize("case", WAITS)
def test_the_wait_that_a_server_asks_for_is_read(case: str) -> None:
    headers, seconds = WAITS[case]
    assert read_wait(headers) == seconds


def test_a_date_counts_from_now_where_the_server_does_not_tell_its_own() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), True)
    wait = read_wait({"Retry-After": later})
    assert wait is not None
    assert 97 <= wait <= 100


def test_the_server_is_left_alone_until_the_date_it_gives(chat: ChatServer) -> None:
    begun: list[float] = []

    def reply(body: dict[str, Any], attempt: int) -> web.Response:
        begun.append(time.monotonic())
        if attempt:
            return completion("fine")
        return refusal(503, Retry_After=http_date(1), Date=http_date(0))

    chat.reply = reply
    draw_from(chat)
    assert 1 <= begun[1] - begun[0] < 5


# ---------------------------------------------------------------------------- final refusals


def test_an_answer_that_a_filter_stopped_is_a_draw_with_an_error(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: completion("half an answ", "content_filter")
    (draw,), faults = draw_from(chat)
    assert draw.error == (
        "the endpoint's content filter stopped the answer (finish_reason content_filter)"
    )
    assert (draw.raw, len(chat.bodies), faults) == ("half an answ", 1, [])


def test_an_error_of_status_200_counts_by_its_code(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: web.json_response({"error": {"code": 400, "message": "no"}})
    (draw,), _ = draw_from(chat)
    assert (draw.error, len(chat.bodies)) == ("HTTP 200 with an error: no", 1)


FOR_ALL: dict[str, Callable[[], web.Response]] = {
    "nothing left on the account": lambda: web.json_response(
        {"error": {"message": "pay", "code": "insufficient_quota"}}, status=429
    ),
    "a field it does not know": lambda: web.json_response(
        {"error": {"message": "pay", "code": "unsupported_parameter", "param": "seed"}}, status=400
    ),
    "a field it does not know, told otherwise": lambda: web.json_response(
        {"message": {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"]}]}}, status=422
    ),
    "a model it does not know": lambda: web.json_response(
        {"error": {"message": "who", "code": "model_not_found"}}, status=400
    ),
    "a wrong key, told with status 200": lambda: web.json_response(
        {"error": {"message": "who", "code": 401}}
    ),
}


@pytest.mark.parametrize("case", FOR_ALL)
def test_what_every_request_would_meet_ends_the_cell_at_once(case: str, chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: FOR_ALL[case]()
    kept: list[Draw] = []
    with pytest.raises(ServerRefuses, match="refuses every request"):
        draw_from(chat, [order(n) for n in range(50)], keep=kept.append)
    assert (kept, len(chat.bodies) <= 4) == ([], True)


def test_a_prompt_that_is_too_long_is_refused_for_itself_alone(chat: ChatServer) -> None:
    error = {"message": "too long", "code": "context_length_exceeded", "param": "messages"}
    chat.reply = lambda body, attempt: (
        web.json_response({"error": error}, status=400) if body["seed"] == 1000 else completion("x")
    )
    kept, _ = draw_from(chat, [order(n) for n in range(3)])
    assert sorted((draw.replicate, draw.error) for draw in kept if draw.error) == [
        (0, "HTTP 400: too long")
    ]
    assert len(kept) == 3


def test_a_server_that_sends_elsewhere_is_not_followed(chat: ChatServer, nobody: str) -> None:
    chat.reply = lambda body, attempt: web.Response(status=308, headers={"Location": nobody})
    with pytest.raises(ServerRefuses, match=f"HTTP 308: .*it points to {nobody}"):
        draw_from(chat, key=KEY)


def test_a_page_in_place_of_an_error_is_told_by_its_title(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: page(502)
    assert draw_from(chat)[1] == ["HTTP 502: Bad gateway"]


def test_a_request_that_is_refused_becomes_a_draw_with_an_error(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: refusal(400, "this prompt\n is too long")
    kept, faults = draw_from(chat)
    assert kept == [Draw("p", 0, 1000, error="HTTP 400: this prompt is too long")]
    assert faults == []


def test_a_refused_request_is_not_asked_again(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: refusal(400)
    draw_from(chat)
    assert len(chat.bodies) == 1


@pytest.mark.parametrize("status", [401, 402, 403, 404, 405])
def test_a_refusal_of_every_request_ends_the_cell_and_stores_nothing(
    status: int, chat: ChatServer
) -> None:
    chat.reply = lambda body, attempt: refusal(status, "who are you")
    kept: list[Draw] = []
    with pytest.raises(ServerRefuses, match=f"refuses every request: HTTP {status}: who are you"):
        draw_from(chat, [order(n) for n in range(50)], keep=kept.append)
    assert kept == []


def test_null_content_is_kept_as_none(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: completion(None, "length", reasoning_content="so")
    (draw,), _ = draw_from(chat)
    assert (draw.raw, draw.reasoning, draw.error) == (None, "so", None)


def test_empty_content_is_kept_as_it_is(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: completion("")
    (draw,), _ = draw_from(chat)
    assert (draw.raw, draw.error, len(chat.bodies)) == ("", None, 1)


def test_a_refusal_in_place_of_content_is_what_the_model_said(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: completion(None, refusal="I can't help with that.")
    assert draw_from(chat)[0][0].raw == "I can't help with that."


@pytest.mark.parametrize(
    "usage",
    [None, [], "much", {}, {"prompt_tokens": "5"}, {"prompt_tokens": -1}, {"prompt_tokens": True}],
)
def test_a_usage_that_makes_no_sense_is_none(usage: Any, chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: completion("x", usage=usage)
    (draw,), _ = draw_from(chat)
    assert (draw.raw, draw.prompt_tokens, draw.completion_tokens) == ("x", None, None)


def test_what_the_server_says_answered_is_told(chat: ChatServer) -> None:
    facts = {"model": "served-2026-01", "system_fingerprint": "fp_1"}
    chat.reply = lambda body, attempt: completion("x", facts=facts)
    told: list[tuple[str | None, str | None]] = []
    draw_from(chat, answered=lambda model, system: told.append((model, system)))
    assert told == [("served-2026-01", "fp_1")]


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    body = '{"choices": [{"message": {"content": "a\\ud83d b\\ud83d\\ude00"}}]}'
    assert read_completion(order(0), body).raw == "a\ufffd b\U0001f600"


# ------------------------------------------------------------------------------------ the key


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_key_that_the_server_echoes_is_in_no_draw_fault_error_or_log(
    status: int, chat: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    # Near the cut of a long message, so that no half of the key is left either.
    chat.reply = lambda body, attempt: refusal(status, "x" * 490 + KEY)
    try:
        told = repr(draw_from(chat, key=KEY))
    except ServerRefuses as error:
        told = str(error)
    assert "HTTP" in told
    assert "hunter2" not in told + caplog.text


@pytest.mark.parametrize(
    "reply",
    [
        lambda: web.json_response({"error": f"who is {KEY}"}),
        lambda: web.Response(status=302, headers={"Location": f"http://elsewhere/{KEY}"}),
        lambda: web.Response(text=f"<html><title>{KEY}</title></html>", status=403),
        lambda: web.Response(text="x", headers={"Content-Type": f"text/{KEY}"}),
        lambda: web.Response(text='{"error": "who is \\u0068unter2-secret"}', status=400),
        lambda: completion(f"You are {KEY}.", reasoning=f"he sent {KEY}", facts={"model": KEY}),
    ],
)
def test_a_key_that_comes_back_in_any_place_is_hidden(
    reply: Callable[[], web.Response],
    chat: ChatServer,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    caplog.set_level(logging.DEBUG)
    chat.reply = lambda body, attempt: reply()
    told: list[Any] = []
    with Ledger(tmp_path / "m.jsonl", None) as ledger:
        try:
            told += draw_from(
                chat, key=KEY, ledger=ledger, answered=lambda *facts: told.append(facts)
            )
        except ServerRefuses as error:
            told.append(error)
    written = (tmp_path / "m.jsonl").read_text()
    assert "[key]" in repr(told)
    assert "hunter2" not in repr(told) + caplog.text + written


def test_a_placeholder_for_a_key_changes_no_answer(chat: ChatServer) -> None:
    chat.reply = lambda body, attempt: completion("if queue is EMPTY: return")
    assert draw_from(chat, key="EMPTY")[0][0].raw == "if queue is EMPTY: return"


def test_a_server_is_shown_without_its_key() -> None:
    assert "hunter2" not in repr(Server("http://h/v1", "m", key=KEY))


# --------------------------------------------------------------------------------- the budget

PROMPT_BOUND = bound_usage(order(0).messages, 33).prompt
"""Of every order below 10: all have as many bytes."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.jsonl"


def booked(path: Path) -> list[dict[str, Any]]:
    """Give the lines that settle a request."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [record for record in records if "settle" in record]


def test_a_draw_is_booked_with_what_the_server_says_it_used(chat: ChatServer, path: Path) -> None:
    with Ledger(path, Budget(tokens=10_000)) as ledger:
        draw_from(chat, [order(n) for n in range(3)], ledger=ledger)
        assert ledger.spending().usage == Usage(15, 21)


def test_the_worst_case_is_on_disk_before_a_request_is_sent(chat: ChatServer, path: Path) -> None:
    seen: list[Any] = []

    def reply(body: dict[str, Any], attempt: int) -> web.Response:
        seen.append(json.loads(path.read_text().splitlines()[-1]))
        return completion("x")

    chat.reply = reply
    with Ledger(path, Budget(tokens=10_000)) as ledger:
        draw_from(chat, ledger=ledger)
    assert (seen[0]["prompt"], seen[0]["completion"]) == (PROMPT_BOUND, 33)


COSTS: dict[str, tuple[Callable[[], web.StreamResponse], Usage | None]] = {
    "429": (lambda: refusal(429), Usage(0, 0)),
    "500": (lambda: refusal(500), Usage(0, 0)),
    "529": (lambda: refusal(529), Usage(0, 0)),
    "a gateway that heard nothing from its server": (lambda: refusal(504), None),
    "cut off JSON": (lambda: web.Response(text='{"choices": [{"mess'), None),
    "a page": (lambda: page(), None),
    "no usage": (lambda: completion("x", usage=None), None),
    "half a usage": (lambda: completion("x", usage={"prompt_tokens": 5}), None),
    "200 with an error": (lambda: web.json_response({"error": "no"}), None),
    "200 with an error and a usage": (
        lambda: web.json_response(
            {"error": "no", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
        ),
        Usage(3, 4),
    ),
    "an answer that broke off": (lambda: completion("x", "error"), Usage(5, 7)),
    "a filter": (lambda: completion("x", "content_filter"), Usage(5, 7)),
    "reasoning that is in the total alone": (
        lambda: completion(
            "x", usage={"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 30}
        ),
        Usage(5, 25),
    ),
}


@pytest.mark.parametrize("case", COSTS)
def test_each_request_is_booked_at_what_it_cost_or_may_have_cost(
    case: str, chat: ChatServer, path: Path
) -> None:
    reply, usage = COSTS[case]
    chat.reply = then_fine(reply)
    with Ledger(path, Budget(tokens=10_000)) as ledger:
        draw_from(chat, ledger=ledger)
        first = booked(path)[0]
        if usage is None:
            assert first["why"]
        else:
            assert (first["prompt"], first["completion"]) == usage


def test_a_request_without_a_reply_stays_booked_at_its_worst(path: Path) -> None:
    with silence() as url, Ledger(path, Budget(tokens=100_000)) as ledger:
        draw_from(Server(url, "m"), timeout_s=0.1, ledger=ledger)
        assert ledger.spending().usage == Usage(
            client.ATTEMPTS * PROMPT_BOUND, client.ATTEMPTS * 33
        )
    assert booked(path)[0]["why"] == "no reply before the deadline (request_timeout_s)"


def test_a_connection_that_was_never_made_costs_nothing(nobody: str, path: Path) -> None:
    with Ledger(path, Budget(tokens=10_000)) as ledger:
        draw_from(Server(nobody, "m"), ledger=ledger)
        assert ledger.spending().usage == Usage(0, 0)


def test_requests_that_are_broken_off_stay_booked_at_their_worst(
    chat: ChatServer, path: Path
) -> None:
    async def reply(body: dict[str, Any], attempt: int) -> web.StreamResponse:
        if body["seed"] == 1000:
            return refusal(401)
        await asyncio.sleep(30)
        return completion("x")

    chat.reply = reply
    with Ledger(path, Budget(tokens=10_000)) as ledger, pytest.raises(ServerRefuses):
        draw_from(chat, [order(1), order(2), order(0)], ledger=ledger)
    assert sorted(record.get("why", "") for record in booked(path)) == [
        "",
        "broken off before a reply",
        "broken off before a reply",
    ]


def test_draws_stop_before_the_budget_is_passed_and_those_made_are_kept(
    chat: ChatServer, path: Path
) -> None:
    # Each draw takes 12 tokens, and needs room for its worst case.
    limit = PROMPT_BOUND + 33 + 5 * 12
    kept: list[Draw] = []
    told = f"72 of {limit} tokens are spent, and the next"
    with Ledger(path, Budget(tokens=limit)) as ledger, pytest.raises(BudgetSpent, match=told):
        draw_from(chat, [order(n) for n in range(9)], keep=kept.append, ledger=ledger)
    assert len(kept) == len(chat.bodies) == 6


def test_a_budget_of_money_stops_draws_too(chat: ChatServer, path: Path) -> None:
    # A draw costs 5 x 1 + 7 x 2 = 19 millionths; its worst case is the prompt's bound + 66.
    worst = PROMPT_BOUND + 66
    budget = Budget(money=(worst + 2 * 19) / 1e6, prompt_price=1, completion_price=2)
    kept: list[Draw] = []
    with Ledger(path, budget) as ledger, pytest.raises(BudgetSpent) as raised:
        draw_from(chat, [order(n) for n in range(9)], keep=kept.append, ledger=ledger)
    assert (len(kept), raised.value.key) == (3, "money")


def test_requests_in_flight_when_the_budget_ends_are_still_kept(
    chat: ChatServer, path: Path
) -> None:
    chat.reply = slowly
    kept: list[Draw] = []
    wanted = [order(n % 10) for n in range(200)]
    two_at_once = Budget(tokens=2 * (PROMPT_BOUND + 33))
    with Ledger(path, two_at_once) as ledger, pytest.raises(BudgetSpent):
        draw_from(chat, wanted, keep=kept.append, ledger=ledger)
    assert 2 < len(kept) == len(chat.bodies)
    assert chat.most_in_flight == 2


# --------------------------------------------------------------------------- no server at all


@pytest.fixture
def nobody() -> str:
    """A URL at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}/v1"


def test_an_engine_that_refuses_connections_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with running(ChatServer(), path):
        pass
    with pytest.raises(ServerGone):
        draw_from(Server("http://engine/v1", "model", socket=path, is_engine=True))


def test_an_engine_that_is_gone_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_FIRST_WAIT_S", 30)
    begun = time.monotonic()
    with pytest.raises(ServerGone):
        draw_from(Server("http://engine/v1", "m", socket=tmp_path / "s", is_engine=True))
    assert time.monotonic() - begun < 5


def test_an_endpoint_that_refuses_connections_is_a_fault_after_retries(nobody: str) -> None:
    assert draw_from(Server(nobody, "m")) == ([], [f"no connection to {nobody}"])


def test_an_endpoint_that_comes_back_is_used(nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []
    real = client._request

    async def connect_late(
        session: aiohttp.ClientSession, server: Server, sampling: Sampling, wanted: Order
    ) -> ServerReply:
        attempts.append(1)
        url = nobody if len(attempts) < 3 else chat.url
        return await real(session, replace(server, base_url=url), sampling, wanted)

    monkeypatch.setattr(client, "_request", connect_late)
    with running(ChatServer()) as chat:
        kept, faults = draw_from(Server(nobody, "m"))
    assert ([draw.raw for draw in kept], faults) == (["answer to 1000"], [])


def test_an_engine_that_dies_while_prompts_are_rendered_is_gone(tmp_path: Path) -> None:
    server = Server("http://engine/v1", "m", socket=tmp_path / "s", is_engine=True)
    with pytest.raises(ServerGone):
        asyncio.run(render_prompt_tokens(server, [order(0).messages], 5))


# -------------------------------------------------------------------------------- many at once


async def slowly(body: dict[str, Any], attempt: int) -> web.StreamResponse:
    await asyncio.sleep(0.03)
    return completion("x")


@pytest.mark.parametrize("limit", [1, 5])
def test_no_more_requests_than_allowed_are_in_flight(limit: int, chat: ChatServer) -> None:
    chat.reply = slowly
    draw_from(chat, [order(n) for n in range(25)], max_in_flight=limit)
    assert chat.most_in_flight == limit


def test_a_draw_is_kept_as_soon_as_it_ends(chat: ChatServer) -> None:
    kept: list[int] = []

    async def reply(body: dict[str, Any], attempt: int) -> web.StreamResponse:
        if body["seed"] == 1000:  # answered only once another draw has been kept
            while 1 not in kept:
                await asyncio.sleep(0.01)
        return completion("x")

    chat.reply = reply
    draw_from(chat, [order(0), order(1)], keep=lambda draw: kept.append(draw.replicate))
    assert kept == [1, 0]


def test_a_draw_that_cannot_be_kept_stops_everything(chat: ChatServer) -> None:
    def full_disk(draw: Draw) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        draw_from(chat, [order(n) for n in range(50)], keep=full_disk, max_in_flight=2)
    assert len(chat.bodies) <= 4


def test_a_run_that_is_gone_stops_requests_that_hang(chat: ChatServer) -> None:
    async def hang(body: dict[str, Any], attempt: int) -> web.StreamResponse:
        await asyncio.sleep(60)
        return completion("x")

    chat.reply = hang
    asked = iter([True, True])
    begun = time.monotonic()
    with pytest.raises(RunGone):
        draw_from(chat, run_lives=lambda: next(asked, False), timeout_s=60)
    assert time.monotonic() - begun < 10


def test_nothing_to_draw_asks_for_nothing(chat: ChatServer) -> None:
    assert (draw_from(chat, []), chat.bodies) == (([], []), [])


# ------------------------------------------------------------------------------------ progress


def test_progress_tells_draws_done_of_all_tokens_a_second_and_time_left(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    now = [100.0]
    monkeypatch.setattr(client.time, "monotonic", lambda: now[0])
    progress = Progress("cell", done=10, total=100, every_s=5)
    for _ in range(30):  # 30 draws of 20 tokens in 60 s; the 60 left take 120 s
        now[0] += 2
        progress.count(Draw("p", 0, 0, completion_tokens=20))
    assert caplog.messages[-1] == "cell: 40/100 draws, 10 tokens/s, 2:00 left"


def test_progress_is_told_at_most_every_few_seconds(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    now = [0.0]
    monkeypatch.setattr(client.time, "monotonic", lambda: now[0])
    progress = Progress("cell", done=0, total=1000, every_s=5)
    for _ in range(100):
        now[0] += 0.1
        progress.count(Draw("p", 0, 0))
    assert len(caplog.messages) <= 2
