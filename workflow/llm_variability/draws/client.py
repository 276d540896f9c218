"""Ask an OpenAI-compatible server for draws, many at a time, each with its own seed."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from llm_variability.draws.budget import (
    NOTHING,
    BudgetSpent,
    Ledger,
    Reservation,
    Usage,
    bound_usage,
)
from llm_variability.draws.journal import Draw
from llm_variability.draws.orders import Order
from llm_variability.draws.replies import (
    Fault,
    Passing,
    Refused,
    RefusedAlways,
    Reply,
    ServerRefuses,
    error_text,
    hide,
    read_reply,
)
from llm_variability.draws.templates import Messages

log = logging.getLogger(__name__)

ATTEMPTS = 6
ATTEMPTS_WHEN_BUSY = 10
"""How often a request is sent at most; that of a server that says it is busy, over minutes."""

_ENOUGH_TO_FORETELL = 20
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 60.0
_LONGEST_ASKED_WAIT_S = 600.0
_LONGEST_CONNECT_S = 30.0
_LONGEST_REPLY_BYTES = 64 * 2**20
_WAIT_FOR_ROOM_S = 0.1


class ServerGone(OSError):
    """The server does not answer any more."""


class RunGone(OSError):
    """The run this job belongs to has ended."""


@dataclass(frozen=True)
class Server:
    """Where requests go. socket: a Unix socket, or None for the network.

    served_name: the model's name there. key: bearer token, or None. is_engine: it is ours, so a
    refused connection means that it died and no waiting will bring it back. devices: ids of those
    our engine runs on. template_args and template: what the chat template is given, and what to use
    in its place, if anything.
    omit_fields: of a request, that it does not take. max_tokens_field: its name for the bound of
    an answer.
    """

    base_url: str
    served_name: str
    socket: Path | None = None
    key: str | None = field(default=None, repr=False)
    is_engine: bool = False
    devices: tuple[str, ...] = ()
    template_args: Mapping[str, Any] = field(default_factory=dict)
    template: str | None = None
    omit_fields: tuple[str, ...] = ()
    max_tokens_field: str = "max_tokens"

    def session(self, connections: int, timeout_s: float) -> aiohttp.ClientSession:
        connector: aiohttp.BaseConnector
        if self.socket is not None:
            connector = aiohttp.UnixConnector(path=str(self.socket), limit=connections)
        else:
            connector = aiohttp.TCPConnector(limit=connections)
        return aiohttp.ClientSession(
            connector=connector,
            headers={"Authorization": f"Bearer {self.key}"} if self.key else {},
            timeout=aiohttp.ClientTimeout(
                total=timeout_s, sock_connect=min(timeout_s, _LONGEST_CONNECT_S)
            ),
            # Not trust_env: that reads passwords from ~/.netrc too, in place of the key.
            proxy=self._proxy(),
        )

    def _proxy(self) -> str | None:
        """Find the proxy that the environment names for the server."""
        parts = urlsplit(self.base_url)
        if self.socket is not None or proxy_bypass(parts.netloc):
            return None
        return getproxies().get(parts.scheme)

    def hide(self, text: str) -> str:
        """Put [key] in place of the key."""
        return hide(text, self.key)

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


class Pace:
    """How fast a server may be asked, by what it said last to any of a cell's requests.

    closed: why it is to be asked no more by this job, once there is a reason.
    """

    def __init__(self) -> None:
        self.closed: str | None = None
        self._open_from = 0.0

    def hold(self, wait_s: float, told: str) -> None:
        """Ask nothing for some seconds; nothing more at all if they are too many."""
        if wait_s > _LONGEST_ASKED_WAIT_S:
            self.closed = f"{told}; the server asks to be left alone for {wait_s:,.0f} s"
        else:
            self._open_from = max(self._open_from, time.monotonic() + wait_s)

    async def wait(self) -> None:
        """Wait until the server may be asked, and a little longer, so that not all ask at once."""
        while (left := self._open_from - time.monotonic()) > 0:
            await asyncio.sleep(left + random.uniform(0, 2 * _FIRST_WAIT_S))  # noqa: S311


@dataclass
class Purse:
    """What requests are paid from, if anything: a ledger, asked by one request after another."""

    ledger: Ledger | None
    timeout_s: float
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def reserve(self, order: Order, sampling: Sampling) -> Reservation | None:
        """Set a request's worst case aside, waiting for room while others are in flight.

        Raises BudgetSpent.
        """
        if self.ledger is None:
            return None
        bound = bound_usage(order.messages, sampling.max_new_tokens)
        async with self._turn:
            while (held := self.ledger.reserve(bound, self.timeout_s)) is None:
                await asyncio.sleep(_WAIT_FOR_ROOM_S)
            return held

    def settle(self, held: Reservation | None, usage: Usage | None, why: str) -> None:
        if self.ledger is not None and held is not None:
            self.ledger.settle(held, usage, why)


def request_body(server: Server, sampling: Sampling, order: Order) -> dict[str, Any]:
    """Write the body of a request, with the fields that the server takes, by their names there."""
    body: dict[str, Any] = {"model": server.served_name, "seed": order.seed, **sampling.to_json()}
    body[server.max_tokens_field] = body.pop("max_tokens")
    for name in server.omit_fields:
        body.pop(name, None)
    if order.tokens is not None:
        body["prompt"] = order.tokens
    else:
        body["messages"] = order.messages
        if server.template_args:
            body["chat_template_kwargs"] = dict(server.template_args)
    return body


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_chunked(2**16):
        content += chunk
        if len(content) > _LONGEST_REPLY_BYTES:
            raise ValueError(f"longer than {_LONGEST_REPLY_BYTES:,} bytes")
    return bytes(content)


async def _request(
    session: aiohttp.ClientSession, server: Server, sampling: Sampling, order: Order
) -> Reply:
    path = "chat/completions" if order.tokens is None else "completions"
    body = request_body(server, sampling, order)
    try:
        async with session.post(server.url(path), json=body, allow_redirects=False) as response:
            content = await _read_bounded(response)
            status, headers = response.status, response.headers
    except aiohttp.ClientConnectorError as error:
        if server.is_engine:
            raise ServerGone("the engine is gone") from error
        why = f" ({server.hide(str(error))})" if isinstance(error, aiohttp.ClientSSLError) else ""
        raise Passing(f"no connection to {server.base_url}{why}", NOTHING) from error
    except aiohttp.ConnectionTimeoutError as error:
        raise Passing(f"no connection to {server.base_url} in time", NOTHING) from error
    except TimeoutError as error:
        raise Passing("no reply before the deadline (request_timeout_s)") from error
    except (aiohttp.ClientError, ValueError) as error:
        told = server.hide(f"a broken reply ({type(error).__name__}: {error})")
        raise Passing(told) from None
    try:
        return read_reply(order, status, headers, content, server.key, frozenset(body))
    except RefusedAlways as fault:
        told = f"{server.base_url} refuses every request: {fault}"
        raise RefusedAlways(told, fault.usage) from None


async def _paid_request(
    session: aiohttp.ClientSession, server: Server, sampling: Sampling, order: Order, purse: Purse
) -> Reply:
    held = await purse.reserve(order, sampling)
    try:
        reply = await _request(session, server, sampling, order)
    except Fault as fault:
        purse.settle(held, fault.usage, str(fault))
        raise
    except BaseException:
        purse.settle(held, None, "broken off before a reply")
        raise
    purse.settle(held, reply.usage, "the reply names no usage")
    return reply


async def request_draw(
    session: aiohttp.ClientSession,
    server: Server,
    sampling: Sampling,
    order: Order,
    purse: Purse,
    pace: Pace,
) -> Reply | Draw | str:
    """Make one draw, with bounded retries.

    Passing faults (5xx, 408, 429, an error in place of an answer, no or a broken reply) are
    retried with exponential backoff and jitter, at the earliest when the server asks for; more
    often where it says that it is busy. Returns the reply; a draw with `error` if the server
    refuses this request for good; or the last fault in words if retrying did not help.
    Raises ServerGone if the engine died, ServerRefuses if no request can succeed there,
    BudgetSpent if the next try could pass the budget.
    """
    attempt = 0
    while True:
        await pace.wait()
        if pace.closed:
            return pace.closed
        try:
            return await _paid_request(session, server, sampling, order, purse)
        except RefusedAlways as refused:
            raise ServerRefuses(str(refused)) from None
        except Refused as refused:
            return Draw(order.prompt_id, order.replicate, order.seed, error=str(refused))
        except Passing as passing:
            attempt += 1
            if passing.wait_s is not None:
                pace.hold(passing.wait_s, str(passing))
            if attempt >= (ATTEMPTS_WHEN_BUSY if passing.is_busy else ATTEMPTS):
                return str(passing)
            backoff = min(_FIRST_WAIT_S * 2 ** (attempt - 1), _LONGEST_WAIT_S)
            await asyncio.sleep(backoff * random.uniform(0.5, 1.5))  # noqa: S311


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
    ledger: Ledger | None = None,
    answered: Callable[[str | None, str | None], None] = lambda model, system: None,
) -> list[str]:
    """Make draws, `max_in_flight` at a time; `keep` gets each as it ends.

    run_lives: asked every second; once it says no, everything stops. ledger: what requests are
    paid from. answered: told with each answer which model the server says it is of, and its system
    fingerprint.
    Returns the faults of the draws that could not be made. Raises ServerGone if the engine died,
    RunGone if the run did, ServerRefuses if no request can succeed there, BudgetSpent if the next
    request could pass the budget, once those in flight are kept.
    """
    queue = iter(list(orders))
    faults: list[str] = []
    spent: list[BudgetSpent] = []
    purse, pace = Purse(ledger, timeout_s), Pace()

    async def work(session: aiohttp.ClientSession) -> None:
        while not spent and not pace.closed and (order := next(queue, None)) is not None:
            try:
                outcome = await request_draw(session, server, sampling, order, purse, pace)
            except BudgetSpent as error:
                spent.append(error)
                return
            if isinstance(outcome, Reply):
                keep(outcome.draw)
                answered(outcome.model, outcome.system)
            elif isinstance(outcome, Draw):
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
    if spent and ledger is not None:
        raise ledger.retell(spent[0])
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
                text = error_text(response.status, await response.read())
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
