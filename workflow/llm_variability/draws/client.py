"""Ask an OpenAI-compatible server for draws, many at a time, each with its own seed."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from llm_variability.draws.journal import Draw
from llm_variability.draws.templates import Messages

log = logging.getLogger(__name__)

ATTEMPTS = 6
_ENOUGH_TO_FORETELL = 20
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 60.0
_RETRYABLE = {408, 409, 425, 429}
_ABOUT_THE_REQUEST = {400, 413, 422}


class ServerGone(OSError):
    """The server does not answer any more."""


class ServerRefuses(ValueError):
    """The server refuses every request alike: a wrong key, an unknown model, a wrong URL."""


class RunGone(OSError):
    """The run this job belongs to has ended."""


@dataclass(frozen=True)
class Order:
    """A draw to be made: its name, its seed and its messages.

    tokens: the token ids that the messages render to, where we render them (on our own engine);
    then these are what is asked for, so that what was checked is what is drawn from.
    """

    prompt_id: str
    replicate: int
    seed: int
    messages: Messages
    tokens: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Server:
    """Where requests go. socket: a Unix socket, or None for the network.

    served_name: the model's name there. key: bearer token, or None. is_engine: it is ours, so a
    refused connection means that it died and no waiting will bring it back. template_args and
    template: what the chat template is given, and what to use in its place, if anything.
    """

    base_url: str
    served_name: str
    socket: Path | None = None
    key: str | None = None
    is_engine: bool = False
    template_args: Mapping[str, Any] = field(default_factory=dict)
    template: str | None = None

    def session(self, connections: int, timeout_s: float) -> aiohttp.ClientSession:
        connector: aiohttp.BaseConnector
        if self.socket is not None:
            connector = aiohttp.UnixConnector(path=str(self.socket), limit=connections)
        else:
            connector = aiohttp.TCPConnector(limit=connections)
        return aiohttp.ClientSession(
            connector=connector,
            headers={"Authorization": f"Bearer {self.key}"} if self.key else {},
            timeout=aiohttp.ClientTimeout(total=timeout_s),
            trust_env=self.socket is None,
        )

    def url(self, path: str) -> str:
        return f"{self.base_url.rstrip('/')}/{path}"

    def root_url(self, path: str) -> str:
        return f"{self.base_url.rstrip('/').removesuffix('/v1')}/{path}"


@dataclass(frozen=True)
class Sampling:
    """Sampling parameters; all are sent with every request, so that no default leaks in.

    keep_special_tokens: leave the model's special tokens in the text, where they tell its
    reasoning from its answer.
    """

    temperature: float
    top_p: float
    max_new_tokens: int
    keep_special_tokens: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_new_tokens,
            "n": 1,
            "frequency_penalty": 0.0,
            "presence_penalty": 0.0,
            **({"skip_special_tokens": False} if self.keep_special_tokens else {}),
        }


class _Refused(Exception):
    """The server refuses this request for good."""


class _Passing(Exception):
    """A fault that may pass. wait_s: how long the server asks to be left alone."""

    def __init__(self, text: str, wait_s: float | None = None) -> None:
        super().__init__(text)
        self.wait_s = wait_s


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        return max(0.0, min(float(headers.get("Retry-After", "")), _LONGEST_WAIT_S))
    except ValueError:
        return None


def _error_text(status: int, body: str) -> str:
    try:
        loaded = json.loads(body)
        error = loaded.get("error", loaded)
        text = str(error.get("message", error)) if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError):
        text = body
    return f"HTTP {status}: {' '.join(text.split())[:500]}"


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("not a text")
    # Half a surrogate pair, as a cut token can leave it, is no text that UTF-8 can carry.
    return value and value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read_completion(order: Order, body: str) -> Draw:
    """Read a completion, of a chat or of token ids.

    Raises ValueError if it is cut off or not of the known form.
    """
    loaded = json.loads(body)
    try:
        choice = loaded["choices"][0]
        usage = loaded.get("usage") or {}
        message = choice["message"] if order.tokens is None else {"content": choice["text"]}
        return Draw(
            order.prompt_id,
            order.replicate,
            order.seed,
            raw=_text(message.get("content")),
            reasoning=_text(message.get("reasoning") or message.get("reasoning_content")),
            finish_reason=choice.get("finish_reason"),
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
        )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError("the reply is no completion") from error


async def _request(
    session: aiohttp.ClientSession, server: Server, sampling: Sampling, order: Order
) -> Draw:
    body: dict[str, Any] = {"model": server.served_name, "seed": order.seed, **sampling.to_json()}
    if order.tokens is not None:
        path = "completions"
        body["prompt"] = order.tokens
    else:
        path = "chat/completions"
        body["messages"] = order.messages
        if server.template_args:
            body["chat_template_kwargs"] = dict(server.template_args)
    try:
        async with session.post(server.url(path), json=body) as response:
            text = await response.text()
            if response.status == 200:
                return read_completion(order, text)
            told = _error_text(response.status, text.replace(server.key or "\0", "[key]"))
            if response.status >= 500 or response.status in _RETRYABLE:
                raise _Passing(told, _retry_after(response.headers))
            if response.status in _ABOUT_THE_REQUEST:
                raise _Refused(told)
            raise ServerRefuses(f"{server.base_url} refuses every request: {told}")
    except ServerRefuses:
        raise
    except aiohttp.ClientConnectorError as error:
        if server.is_engine:
            raise ServerGone("the engine is gone") from error
        raise _Passing("no connection to the server") from error
    except TimeoutError as error:
        raise _Passing("no reply before the deadline (request_timeout_s)") from error
    except (aiohttp.ClientError, ValueError) as error:
        raise _Passing(f"a broken reply ({type(error).__name__}: {error})") from error


async def request_draw(
    session: aiohttp.ClientSession, server: Server, sampling: Sampling, order: Order
) -> Draw | str:
    """Make one draw, with bounded retries.

    Passing faults (5xx, 408, 429, no or broken reply) are retried with exponential backoff and
    jitter, or after the wait that the server asks for. Returns the draw; a draw with `error` if
    the server refuses this request for good; or the last fault in words if retrying did not help.
    Raises ServerGone if the engine died, ServerRefuses if no request can succeed there.
    """
    fault = ""
    for attempt in range(ATTEMPTS):
        try:
            return await _request(session, server, sampling, order)
        except _Refused as refused:
            return Draw(order.prompt_id, order.replicate, order.seed, error=str(refused))
        except _Passing as passing:
            fault = str(passing)
            backoff = min(_FIRST_WAIT_S * 2**attempt, _LONGEST_WAIT_S)
            jitter = backoff * random.uniform(0.5, 1.5)  # noqa: S311
            if attempt + 1 < ATTEMPTS:
                await asyncio.sleep(jitter if passing.wait_s is None else passing.wait_s + jitter)
    return fault


class Progress:
    """Tell how far a cell is: draws done of all, tokens/s, time left."""

    def __init__(self, title: str, done: int, total: int, every_s: float = 5) -> None:
        self.title, self.done, self.total, self.every_s = title, done, total, every_s
        self._begun = self._told = time.monotonic()
        self._made = self._tokens = 0

    def count(self, draw: Draw) -> None:
        self.done += 1
        self._made += 1
        self._tokens += draw.completion_tokens or 0
        if time.monotonic() - self._told >= self.every_s or self.done == self.total:
            self.tell()

    def tell(self) -> None:
        self._told = time.monotonic()
        seconds = max(self._told - self._begun, 1e-9)
        log.info(
            "%s: %d/%d draws, %.0f tokens/s, %s left",
            self.title,
            self.done,
            self.total,
            self._tokens / seconds,
            self._time_left(seconds),
        )

    def _time_left(self, seconds: float) -> str:
        if self._made < _ENOUGH_TO_FORETELL and self.done < self.total:
            return "?:??"
        left = (self.total - self.done) * seconds / max(self._made, 1)
        return "{}:{:02d}".format(*divmod(round(left), 60))


async def make_draws(
    server: Server,
    sampling: Sampling,
    orders: Iterable[Order],
    keep: Callable[[Draw], None],
    run_lives: Callable[[], bool],
    max_in_flight: int,
    timeout_s: float,
) -> list[str]:
    """Make draws, `max_in_flight` at a time; `keep` gets each as it ends.

    run_lives: asked every second; once it says no, everything stops.
    Returns the faults of the draws that could not be made. Raises ServerGone if the engine died,
    RunGone if the run did, ServerRefuses if no request can succeed there.
    """
    queue = iter(list(orders))
    faults: list[str] = []

    async def work(session: aiohttp.ClientSession) -> None:
        for order in queue:
            outcome = await request_draw(session, server, sampling, order)
            if isinstance(outcome, Draw):
                keep(outcome)
            else:
                faults.append(outcome)
                if len(faults) >= max_in_flight:
                    return

    async def watch() -> None:
        while run_lives():
            await asyncio.sleep(1)
        raise RunGone("the run that this job belongs to is gone; its draws are in the journal")

    async with server.session(max_in_flight, timeout_s) as session:
        workers = [asyncio.create_task(work(session)) for _ in range(max_in_flight)]
        watcher = asyncio.create_task(watch())
        try:
            running = {watcher, *workers}
            while running > {watcher}:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in (*workers, watcher):
                task.cancel()
            await asyncio.gather(*workers, watcher, return_exceptions=True)
    return faults


@contextmanager
def _engine_answers() -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ServerGone(f"the engine does not answer ({type(error).__name__})") from error


async def render_prompt_tokens(
    server: Server, messages: list[Messages], timeout_s: float
) -> list[list[int]]:
    """Ask the engine for the token ids of rendered prompts, in order. Raises ServerGone.

    Raises ValueError if the chat template refuses a prompt.
    """
    gate = asyncio.Semaphore(32)

    async def one(session: aiohttp.ClientSession, turn: Messages) -> list[int]:
        body: dict[str, Any] = {
            "model": server.served_name,
            "messages": turn,
            "add_generation_prompt": True,
        }
        if server.template_args:
            body["chat_template_kwargs"] = dict(server.template_args)
        if server.template is not None:
            body["chat_template"] = server.template
        async with gate, session.post(server.root_url("tokenize"), json=body) as response:
            if response.status != 200:
                text = _error_text(response.status, await response.text())
                raise ValueError(f"the chat template cannot render the prompts: {text}")
            tokens: list[int] = (await response.json())["tokens"]
            return tokens

    with _engine_answers():
        async with server.session(32, timeout_s) as session:
            return await asyncio.gather(*(one(session, turn) for turn in messages))


async def detokenize(server: Server, tokens: list[int], timeout_s: float) -> str:
    """Ask the engine for the text of token ids, special tokens included. Raises ServerGone."""
    body = {"model": server.served_name, "tokens": tokens}
    with _engine_answers():
        async with (
            server.session(1, timeout_s) as session,
            session.post(server.root_url("detokenize"), json=body) as response,
        ):
            response.raise_for_status()
            return str((await response.json())["prompt"])
