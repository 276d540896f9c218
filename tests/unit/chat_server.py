"""A chat server on loopback or a Unix socket whose replies a test orders one by one.

It renders prompts too, as vLLM's /tokenize does: by the request's own chat template or its own, a
token being the code of a character.

It runs in a thread of the test's own process, so that the test sees every request.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from jinja2 import TemplateError
from transformers.utils.chat_template_utils import _compile_jinja_template

PLAIN = "^{% for turn in messages %}<{{ turn.role }}> {{ turn.content }}\n{% endfor %}<assistant>"

Reply = Callable[[dict[str, Any], int], Awaitable[web.StreamResponse] | web.StreamResponse]


def completion(
    text: Any,
    finish_reason: Any = "stop",
    usage: Any = {"prompt_tokens": 5, "completion_tokens": 7},  # noqa: B006
    facts: dict[str, Any] = {},  # noqa: B006
    **message: Any,
) -> web.Response:
    """A whole chat completion. facts: what stands beside its choices."""
    return web.json_response(
        {
            "choices": [
                {
                    "message": {"content": text, **message},
                    "text": text,
                    "finish_reason": finish_reason,
                },
            ],
            "usage": usage,
            **facts,
        }
    )


def refusal(status: int, text: str = "no", **headers: str) -> web.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.json_response({"error": {"message": text}}, status=status, headers=named)


def page(status: int = 200) -> web.Response:
    """A gateway's page in place of JSON."""
    text = "<!doctype html><html><head><title>Bad\n gateway</title></head><body>x</body></html>"
    return web.Response(status=status, text=text, content_type="text/html")


async def dribble(request: web.Request, pause_s: float = 0.02) -> web.StreamResponse:
    """A reply whose bytes come one by one for ever."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(pause_s)


@contextmanager
def silence() -> Iterator[str]:
    """Give the URL of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


def answer_by_seed(body: dict[str, Any], attempt: int) -> web.Response:
    return completion(f"answer to {body['seed']}")


@dataclass
class ChatServer:
    """What was asked, and what is replied: `reply(body, number of the attempt from 0)`.

    dribbles: how many attempts at each draw get a reply that never ends.
    """

    reply: Reply = answer_by_seed
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    dribbles: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    url: str = ""
    template: str = PLAIN
    renderings: list[dict[str, Any]] = field(default_factory=list)

    def attempts(self, seed: int) -> int:
        return sum(body.get("seed") == seed for body in self.bodies)

    def earlier(self, wanted: dict[str, Any]) -> int:
        """Count the requests before this one that were for the same draw."""
        if "seed" in wanted:
            return self.attempts(wanted["seed"])
        return sum(body["messages"] == wanted["messages"] for body in self.bodies)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        attempt = self.earlier(body)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        if self.dribbles > attempt:
            return await dribble(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            reply = self.reply(body, attempt)
            return reply if isinstance(reply, web.StreamResponse) else await reply
        finally:
            self.in_flight -= 1

    async def tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.renderings.append(body)
        template = _compile_jinja_template(body.get("chat_template") or self.template)
        try:
            text = template.render(
                messages=body["messages"],
                add_generation_prompt=body["add_generation_prompt"],
                **body.get("chat_template_kwargs", {}),
            )
        except TemplateError as error:
            return refusal(400, str(error))
        return web.json_response({"tokens": [ord(letter) for letter in text]})

    async def detokenize(self, request: web.Request) -> web.Response:
        tokens = (await request.json())["tokens"]
        return web.json_response({"prompt": "".join(map(chr, tokens))})


@contextmanager
def running(server: ChatServer, socket: Path | None = None) -> Iterator[ChatServer]:
    """Run a chat server for the body."""
    loop = asyncio.new_event_loop()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_post("/v1/completions", server.complete)
    app.router.add_post("/tokenize", server.tokenize)
    app.router.add_post("/detokenize", server.detokenize)
    runner = web.AppRunner(app, shutdown_timeout=0.1)

    async def start() -> None:
        await runner.setup()
        site = (
            web.TCPSite(runner, "127.0.0.1", 0)
            if socket is None
            else web.UnixSite(runner, str(socket))
        )
        await site.start()

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(start(), loop).result(10)
        where = "127.0.0.1" if socket is not None else f"127.0.0.1:{runner.addresses[0][1]}"
        server.url = f"http://{where}/v1"
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
