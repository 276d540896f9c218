"""What an OpenAI-compatible server replies: a draw, or a fault and what to do about it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from llm_variability.draws.budget import NOTHING, Usage
from llm_variability.draws.journal import Draw
from llm_variability.draws.orders import Order

_BUSY = {429, 503, 529}
_RETRYABLE = {408, 409, 425, 429}
_ABOUT_THE_REQUEST = {400, 413, 422}
_NOBODY_KNOWS = {408, 502, 504, 520, 522, 524}
_NO_WAIT_HELPS = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
_FIELD_CODES = {
    "unsupported_parameter",
    "unsupported_value",
    "unknown_parameter",
    "model_not_found",
}
_UNKNOWN_FIELD = ("extra_forbidden", "Unrecognized request argument")
_LONGEST_TOLD = 500
_SHORTEST_SECRET = 12
_MOST_TOKENS = 2**31 - 1

FILTERED = "the endpoint's content filter stopped the answer (finish_reason content_filter)"


class ServerRefuses(ValueError):
    """The server refuses every request alike: a wrong key, an unknown model, a wrong URL."""


class Fault(Exception):
    """A request that brought back no answer. usage: what it cost; None if nobody knows."""

    def __init__(self, text: str, usage: Usage | None = None) -> None:
        super().__init__(text)
        self.usage = usage


class Refused(Fault):
    """The server refuses this request for good."""


class Passing(Fault):
    """A fault that may pass.

    wait_s: how long the server asks to be left alone. is_busy: it has too much to do, which takes
    longer to pass than a broken reply.
    """

    def __init__(
        self,
        text: str,
        usage: Usage | None = None,
        wait_s: float | None = None,
        is_busy: bool = False,
    ) -> None:
        super().__init__(text, usage)
        self.wait_s, self.is_busy = wait_s, is_busy


class RefusedAlways(Fault):
    """The server would refuse every request like this one."""


class Reply(NamedTuple):
    """An answer. usage: what it cost, None if the reply does not say.

    model and system: what the server says answered (`model`, `system_fingerprint`).
    """

    draw: Draw
    usage: Usage | None
    model: str | None = None
    system: str | None = None


def read_wait(headers: Mapping[str, str]) -> float | None:
    """Read how many seconds a server asks to be left alone, from Retry-After.

    The header holds seconds, or a date, which counts from the server's own Date, so that clocks
    need not agree. None if there is none, or one that makes no sense.
    Source: RFC 9110, sections 10.2.3 and 5.6.7.
    """
    asked = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", asked):
        return float(asked)
    until = _date(asked)
    if until is None:
        return None
    now = _date(headers.get("Date", "")) or datetime.now(UTC)
    return max(0.0, (until - now).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        read = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def hide(text: str, secret: str | None) -> str:
    """Put [key] in place of a secret."""
    return text.replace(secret, "[key]") if secret else text


def _load(content: bytes | str) -> Any:
    """Read JSON; raises ValueError if it is none."""
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _in_line(text: str) -> str:
    if text.lstrip().startswith("<"):  # a page of a gateway
        title = re.search(r"<title[^>]*>(.*?)</title", text, re.DOTALL | re.IGNORECASE)
        text = title[1] if title else re.sub(r"<[^>]*>", " ", text)
    return " ".join(text.split())


def _message(error: Any) -> str:
    return str(error.get("message", error)) if isinstance(error, Mapping) else str(error)


def error_text(status: int, content: bytes, secret: str | None = None) -> str:
    """Tell an error reply in one line, without the secret."""
    try:
        loaded = _load(content)
        text = _message(loaded.get("error") or loaded)
    except (ValueError, AttributeError):
        text = content.decode("utf-8", "replace")
    return f"HTTP {status}: {_in_line(hide(text, secret))[:_LONGEST_TOLD]}"


def _find_error(loaded: Any) -> Any:
    """Find the error in a reply, at its top or in its choice; None without."""
    if not isinstance(loaded, Mapping):
        return None
    choices = loaded.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return loaded.get("error") or (first.get("error") if isinstance(first, Mapping) else None)


def _named(error: Any, key: str) -> str | None:
    value = error.get(key) if isinstance(error, Mapping) else None
    return value if isinstance(value, str) else None


def _fault(
    status: int,
    told: str,
    error: Any,
    headers: Mapping[str, str],
    fields: frozenset[str],
    usage: Usage | None,
    secret: str | None,
) -> Fault:
    if _NO_WAIT_HELPS & {_named(error, "code"), _named(error, "type")}:
        return RefusedAlways(told, usage)
    if status >= 500 or status in _RETRYABLE:
        return Passing(told, usage, read_wait(headers), status in _BUSY)
    if status in _ABOUT_THE_REQUEST:
        if _is_about_fields(told, error, fields):
            return RefusedAlways(f"{told} (see omit_fields and max_tokens_field)", usage)
        return Refused(told, usage)
    where = f" (it points to {hide(headers['Location'], secret)})" if "Location" in headers else ""
    return RefusedAlways(told + where, usage)


def _is_about_fields(told: str, error: Any, fields: frozenset[str]) -> bool:
    """Tell whether a request was refused for a field that every request has, not for its prompt."""
    if any(mark in told for mark in _UNKNOWN_FIELD):
        return True
    param = _named(error, "param")
    return _named(error, "code") in _FIELD_CODES and (param is None or param in fields)


def _count(value: Any) -> int | None:
    is_count = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_count or value != value or not 0 <= value <= _MOST_TOKENS:
        return None
    return int(value)


def read_usage(loaded: Any) -> Usage | None:
    """Read what a reply says it used; None if it does not say.

    Tokens of reasoning that an endpoint counts in the total alone are taken for the answer's.
    """
    usage = loaded.get("usage") if isinstance(loaded, Mapping) else None
    if not isinstance(usage, Mapping):
        return None
    prompt, answer = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if prompt is None or answer is None:
        return None
    total = _count(usage.get("total_tokens")) or 0
    return Usage(prompt, max(answer, total - prompt))


def _text(value: Any, secret: str | None = None) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("not a text")
    # Half a surrogate pair, as a cut token can leave it, is no text that UTF-8 can carry.
    clean = value and value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    # A short key is a placeholder such as EMPTY, and a word that an answer may well have.
    is_secret = secret is not None and len(secret) >= _SHORTEST_SECRET
    return hide(clean, secret) if clean and is_secret else clean


def read_completion(order: Order, content: bytes | str, secret: str | None = None) -> Draw:
    """Read a completion, of a chat or of token ids.

    An answer that a content filter stopped is a draw with an error: its end is not the model's.
    What a model says in `refusal` in place of content is its answer. Raises ValueError if the
    completion is cut off or not of the known form.
    """
    return _read_completion(order, _load(content), secret)


def _read_completion(order: Order, loaded: Any, secret: str | None) -> Draw:
    try:
        choice = loaded["choices"][0]
        usage = loaded["usage"] if isinstance(loaded.get("usage"), Mapping) else {}
        message = choice["message"] if order.tokens is None else {"content": choice["text"]}
        said = message.get("content")
        finish = _text(choice.get("finish_reason"), secret)
        return Draw(
            order.prompt_id,
            order.replicate,
            order.seed,
            raw=_text(message.get("refusal") if said is None else said, secret),
            reasoning=_text(message.get("reasoning") or message.get("reasoning_content"), secret),
            finish_reason=finish,
            prompt_tokens=_count(usage.get("prompt_tokens")),
            completion_tokens=_count(usage.get("completion_tokens")),
            error=FILTERED if finish == "content_filter" else None,
        )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError("the reply is no completion") from error


def _short_text(loaded: Any, key: str, secret: str | None) -> str | None:
    value = loaded.get(key)
    return hide(value, secret)[:200] if isinstance(value, str) else None


def read_reply(
    order: Order,
    status: int,
    headers: Mapping[str, str],
    content: bytes,
    secret: str | None = None,
    fields: frozenset[str] = frozenset(),
) -> Reply:
    """Read a reply to a request. secret: the key, hidden wherever the server sends it back.

    fields: of the request. Raises Passing, Refused or RefusedAlways for all that is no answer,
    also where it comes with status 200.
    """
    try:
        loaded = _load(content)
    except ValueError:
        loaded = None
    error = _find_error(loaded)
    if 200 <= status < 300 and error is None:
        return _read_answer(order, loaded, headers, secret)
    told, usage = error_text(status, content, secret), read_usage(loaded)
    if 200 <= status < 300:
        code = error.get("code") if isinstance(error, Mapping) else None
        told = f"HTTP {status} with an error: {_in_line(hide(_message(error), secret))}"
        told = told[:_LONGEST_TOLD]
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
    elif status not in _NOBODY_KNOWS:
        usage = usage or NOTHING
    raise _fault(status, told, error, headers, fields, usage, secret)


def _read_answer(
    order: Order,
    loaded: Any,
    headers: Mapping[str, str],
    secret: str | None,
) -> Reply:
    usage = read_usage(loaded)
    if loaded is None:
        kind = headers.get("Content-Type", "of no type").split(";")[0]
        raise Passing(hide(f"a broken reply: no JSON, or cut off ({kind})", secret))
    try:
        draw = _read_completion(order, loaded, secret)
    except ValueError as error:
        raise Passing(f"a broken reply: {error}", usage) from None
    if draw.finish_reason == "error":
        raise Passing("the endpoint failed in the middle of the answer", usage)
    model, system = (_short_text(loaded, key, secret) for key in ("model", "system_fingerprint"))
    return Reply(draw, usage, model, system)
