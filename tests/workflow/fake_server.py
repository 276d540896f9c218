"""An OpenAI-compatible server whose answers are made up and whose faults are ordered.

    python fake_server.py FOLDER

writes its port to FOLDER/port, each request it answered to FOLDER/requests.jsonl, and reads
FOLDER/faults.json before each answer: {"delay_s": 0.2, "fail_seeds_below": 0, "mode": "..."}.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path

from aiohttp import web

WORDS = [
    word
    for line in (
        "river harvest lantern copper violin garden thunder bakery compass orchard meadow",
        "painter sailor winter engine market bridge letter window candle mountain teacher",
    )
    for word in line.split()
]


def make_text(seed: int, prompt: str, temperature: float) -> str:
    """Make up an answer; at temperature 0 it depends on the prompt alone."""
    source = random.Random(prompt if temperature == 0 else f"{seed}/{prompt}/{temperature}")
    return " ".join(source.choices(WORDS, k=source.randint(8, 14)))


async def complete(request: web.Request) -> web.Response:
    folder: Path = request.app["folder"]
    body = await request.json()
    faults = json.loads((folder / "faults.json").read_text())
    await asyncio.sleep(faults.get("delay_s", 0))
    mode = faults.get("mode", "ok")
    if mode == "500":
        return web.json_response({"error": {"message": "made-up failure"}}, status=500)
    prompt = body["messages"][-1]["content"]
    text: str | None = make_text(body["seed"], prompt, body["temperature"])
    finish = "stop"
    if mode == "mixed":
        kind = body["seed"] % 7
        text, finish = (
            [("", "stop"), (None, "stop"), (text, "length")][kind]
            if kind < 3
            else (
                text,
                finish,
            )
        )
    with (folder / "requests.jsonl").open("a") as file:
        file.write(json.dumps({"model": body["model"], "seed": body["seed"], "body": body}) + "\n")
    message = {"role": "assistant", "content": text}
    return web.json_response(
        {
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 20, "completion_tokens": len((text or "").split())},
        }
    )


async def serve(folder: Path) -> None:
    app = web.Application()
    app["folder"] = folder
    app.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    (folder / "port.tmp").write_text(str(port))
    (folder / "port.tmp").rename(folder / "port")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
