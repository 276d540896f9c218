"""The client: which faults pass, which stay, and that no draw is lost or made up."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from chat_server import ChatServer, Reply, completion, refusal, running
from llm_variability.draws import client
from llm_variability.draws.client import (
    Order,
    Progress,
    RunGone,
    Sampling,
    Server,
    ServerGone,
    ServerRefuses,
    make_draws,
    read_completion,
    render_prompt_tokens,
)
from llm_variability.draws.journal import Draw

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
) -> tuple[list[Draw], list[str]]:
    kept: list[Draw] = []
    where = server if isinstance(server, Server) else Server(server.url, "served", key=key)
    faults = asyncio.run(
        make_draws(
            where, SAMPLING, orders, keep or kept.append, run_lives, max_in_flight, timeout_s
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


# ---------------------------------------------------------------------------- final refusals


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
    assert draw_from(Server(nobody, "m")) == ([], ["no connection to the server"])


def test_an_endpoint_that_comes_back_is_used(nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []
    real = client._request

    async def connect_late(
        session: aiohttp.ClientSession, server: Server, sampling: Sampling, wanted: Order
    ) -> Draw:
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
