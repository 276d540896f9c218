"""From what a server sent to what is measured: the final answer, without its reasoning."""

from __future__ import annotations

import re
from typing import NamedTuple

_OPEN, _CLOSE = "<think>", "</think>"

# A message of the harmony format: its channel, perhaps a recipient, its text up to the next mark.
_MESSAGE = re.compile(
    r"<\|channel\|>(?P<channel>\w*)(?P<header>[^<]*(?:<\|constrain\|>[^<]*)?)"
    r"<\|message\|>(?P<text>.*?)(?=<\|(?:start|end|return|call|channel)\|>|\Z)",
    re.DOTALL,
)
_HARMONY_MARKS = ("<|channel|>", "<|message|>")
_ENDS = re.compile(r"<\|(?:end|return|call)\|>\s*\Z")
# The same with the marks taken out, as a server that skips special tokens leaves it.
_BARE_FIRST = ("analysis", "commentary")
_BARE_CHANNEL = re.compile(r"(?:\A|assistant)(analysis|commentary|final)")


class Answer(NamedTuple):
    """A draw's reasoning and its final answer, each None if there is none."""

    reasoning: str | None
    final: str | None


def _joined(parts: list[str]) -> str | None:
    kept = [part.strip() for part in parts if part.strip()]
    return "\n\n".join(kept) or None


def _answer(thought: list[str], final: str | None, ended_in_thought: bool) -> Answer:
    reasoning = _joined(thought)
    nothing = final is None or not final.strip()
    return Answer(reasoning, None if nothing and (ended_in_thought or reasoning) else final)


def _split_think(raw: str, opened: bool) -> Answer:
    thought: list[str] = []
    final: list[str] = []
    inside, mark, rest = opened or opens_reasoning(raw), "begin", raw
    while mark:
        text, mark, rest = rest.partition(_CLOSE if inside else _OPEN)
        (thought if inside else final).append(text)
        inside = inside != bool(mark)
    return _answer(thought, "".join(final), ended_in_thought=inside)


def _split_channels(messages: list[tuple[str, str]]) -> Answer:
    final = [text for channel, text in messages if channel == "final"]
    others = [text for channel, text in messages if channel != "final"]
    return _answer(others, "".join(final) if final else None, ended_in_thought=not final)


def _split_harmony(raw: str) -> Answer:
    if any(mark in raw for mark in _HARMONY_MARKS):
        first = raw.find("<|channel|>")
        before = "" if first < 0 else raw[:first].removesuffix("<|start|>assistant")
        found = [("before", before)]
        for message in _MESSAGE.finditer(raw):
            addressed = " to=" in message["header"]
            found.append(("call" if addressed else message["channel"], message["text"]))
        return _split_channels(found)
    if raw.startswith(_BARE_FIRST):
        parts = _BARE_CHANNEL.split(raw)[1:]
        return _split_channels(list(zip(parts[::2], parts[1::2], strict=True)))
    return Answer(None, _ENDS.sub("", raw))


def split_reasoning(
    raw: str | None, form: str, reasoning: str | None = None, opened: bool = False
) -> Answer:
    """Tell a draw's reasoning from its final answer.

    raw: content as sent. form: `none` (all of it is the answer), `think` (blocks between <think>
    and </think>, the last perhaps cut off before it closes), or `harmony` (GPT-OSS: what stands in
    the channel `final`, told by the format's special tokens, or by the bare channel names where a
    server took those out). reasoning: what the server sent as such; then the content is already
    free of it, but for marks. opened: the prompt itself ends with an open <think>.
    Returns the reasoning and the final answer; the latter is None if the draw ended before one.
    """
    if raw is None or form == "none":
        return Answer(reasoning, raw)
    if form == "think":
        found = _split_think(raw, opened and reasoning is None)
    elif reasoning is None or any(mark in raw for mark in _HARMONY_MARKS):
        found = _split_harmony(raw)
    else:
        found = Answer(None, raw)
    return Answer(_joined([part for part in (reasoning, found.reasoning) if part]), found.final)


def opens_reasoning(raw: str | None) -> bool:
    """Tell whether an answer closes a <think> that it did not open, so that its prompt did."""
    return raw is not None and _CLOSE in raw and _OPEN not in raw.split(_CLOSE, 1)[0]


def shows_reasoning(raw: str | None) -> bool:
    """Tell whether an answer holds marks of reasoning."""
    return raw is not None and any(mark in raw for mark in (_CLOSE, *_HARMONY_MARKS))


def classify_answer(
    final: str | None, finish_reason: str | None, error: str | None
) -> tuple[str | None, str]:
    """Tell the measured text and the status of a draw.

    final: the final answer, None if there was none (a reasoning model that spent its tokens before
    it). Returns (text, status), text stripped of surrounding white space and None unless the
    status is ok or truncated; the statuses are those of `tables.STATUSES`.
    """
    if error is not None:
        return None, "error"
    if final is None:
        return None, "no_answer"
    text = final.strip()
    if not text:
        return None, "empty"
    return text, "truncated" if finish_reason == "length" else "ok"
