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


STATEMENTS = [
    "total = total + {n}",
    "if total > {n}:\n        total = -total",
    "for step in range({n}):\n        total += step",
    "print(total, {n})",
    "values = [total, {n}]",
    "while total < {n}:\n        total += 1",
]


def make_program(model: str, seed: int, prompt: str, temperature: float) -> str:
    """Make up a program: a statement for each word of the task, so like tasks have like programs.

    The model `second` does not look at every third word, so it is the less sensitive one.
    One reply in eleven is a refusal, at a temperature above 0.
    """
    source = random.Random(f"{seed}/{prompt}/{temperature}")
    if temperature > 0 and source.random() < 1 / 11:
        return "I am sorry, I cannot help with that."
    words = [word for word in prompt.lower().split() if word.isalpha() and len(word) > 2][:20]
    if model == "second":
        words = ["same" if number % 3 == 0 else word for number, word in enumerate(words)]
    body = []
    for word in words:
        kind = sum(map(ord, word))
        if temperature > 0 and source.random() < temperature / 4:
            kind += source.randrange(6)
        body.append("    " + STATEMENTS[kind % 6].format(n=kind % 10))
    lines = "\n".join(["def solve(total):", *body, "    return total"])
    return f"Here it is:\n\n```python\n{lines}\n```\n"


def reword(seed: int, prompt: str) -> str:
    """Make up a paraphrase of the request: some words are swapped for others."""
    text = prompt.split("<request>\n", 1)[1].split("\n</request>", 1)[0]
    source = random.Random(seed)
    share = source.choice((0.05, 0.3, 0.9))
    words = [
        source.choice(WORDS) if word.isalpha() and source.random() < share else word
        for word in text.split(" ")
    ]
    return f"<reworded>{' '.join(words)}</reworded>"


REWRITING = "Put this request into your own words"


def take_persona(seed: int, prompt: str) -> str:
    """Make up a persona's message, mostly of the same words; one in five is no message."""
    source = random.Random(seed)
    if source.random() < 0.2:
        return "Sure! Here is the message that you asked for."
    told, _, rest = prompt.partition("You want somebody to write a program for you. In short: ")
    words = [word for word in told.split("\n")[2].lower().split() if word.isalpha()]
    wish = rest.split("\n")[0].rstrip(".").removeprefix("Write ")
    told_now = sorted(words)[:9] + source.choices(words, k=3)  # not in the description's order
    return f"I need {wish}. It should be about {' '.join(told_now)}."


INVITATION = "you may first ask me"
LAST_CALL = "write the code now"
ANSWERING = "The assistant asks you:"


def talk(model: str, seed: int, prompt: str, temperature: float) -> str:
    """Ask back now and then where that was offered, else write a program."""
    if random.Random(seed).random() < 0.5:
        return "Before I begin: how many numbers are there? And is zero allowed?"
    return make_program(model, seed, prompt, temperature)


def answer(model: str, seed: int, prompt: str, temperature: float) -> str:
    if "<request>" in prompt:
        return reword(seed, prompt)
    if REWRITING in prompt:
        return take_persona(seed, prompt)
    if ANSWERING in prompt:
        return f"There are {seed % 90} of them, and {make_text(seed, prompt, temperature)}."
    if INVITATION in prompt:
        return talk(model, seed, prompt, temperature)
    if "Python" in prompt or LAST_CALL in prompt:
        return make_program(model, seed, prompt, temperature)
    return make_text(seed, prompt, temperature)


async def complete(request: web.Request) -> web.Response:
    folder: Path = request.app["folder"]
    body = await request.json()
    faults = json.loads((folder / "faults.json").read_text())
    await asyncio.sleep(faults.get("delay_s", 0))
    mode = faults.get("mode", "ok")
    if mode == "500":
        return web.json_response({"error": {"message": "made-up failure"}}, status=500)
    prompt = body["messages"][-1]["content"]
    text: str | None = answer(body["model"], body["seed"], prompt, body["temperature"])
    finish = "stop"
    if mode == "refuse":
        text = "I'm sorry, I cannot help with that."
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
