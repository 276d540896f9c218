"""Chat templates: the messages a prompt becomes, and a date that stays as the days go by."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path

Messages = tuple[Mapping[str, str], ...]

_TODAY = "strftime_now"
_FORMAT = re.compile(_TODAY + r"\(\s*(?P<quote>['\"])(?P<format>.*?)(?P=quote)\s*\)")


def read_history(history: str | None) -> Messages:
    """Read the turns that stand before a prompt; none for None.

    history: a JSON list of mappings with `role` and `content`: a user turn, then an assistant turn,
    and so on in pairs.
    Raises ValueError for anything else, which no chat template would take.
    """
    if history is None:
        return ()
    allowed = "allowed: a JSON list of user and assistant turns in pairs, each role and content"
    try:
        turns = json.loads(history)
        told = tuple({"role": turn["role"], "content": turn["content"]} for turn in turns)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"history: {history[:60]!r}; {allowed}") from error
    roles = [turn["role"] for turn in told]
    texts = all(isinstance(turn["content"], str) for turn in told)
    if roles != ["user", "assistant"] * (len(roles) // 2) or not texts:
        raise ValueError(f"history: {history[:60]!r}; {allowed}")
    return told


def make_messages(system: str | None, prompt: str, policy: str, history: Messages = ()) -> Messages:
    """Make the turns of a prompt.

    policy: what becomes of the system prompt: `keep` it, `merge` it into the first user turn before
    its text and an empty line, or `omit` it. history: the turns between the system prompt and the
    prompt.
    """
    first, *others = (*history, {"role": "user", "content": prompt})
    if system is None or policy == "omit":
        return (first, *others)
    if policy == "merge":
        return ({**first, "content": f"{system}\n\n{first['content']}"}, *others)
    return ({"role": "system", "content": system}, first, *others)


def read_chat_template(folder: Path) -> str | None:
    """Read the chat template of a model's folder; None if it has none."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    settings = folder / "tokenizer_config.json"
    if not settings.is_file():
        return None
    template = json.loads(settings.read_text(encoding="utf-8")).get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    return template


def fix_date(template: str, day: str) -> str | None:
    """Give a chat template a fixed date in place of today's; None if it inserts none.

    day: as in 2025-01-01. Templates get today's date from `strftime_now(format)`, which
    transformers hands them; a macro of that name before the template takes its place, with the day
    written in each of the formats the template asks for (and as year-month-day in any other).
    """
    if _TODAY not in template:
        return None
    fixed = date.fromisoformat(day)
    formats = dict.fromkeys(match["format"] for match in _FORMAT.finditer(template))
    branches = "".join(
        f"{{%- if form == {json.dumps(form)} -%}}{fixed.strftime(form)}{{%- endif -%}}"
        for form in formats
    )
    other = f"{{%- if form not in {json.dumps(list(formats))} -%}}{day}{{%- endif -%}}"
    return f"{{%- macro {_TODAY}(form) -%}}{branches}{other}{{%- endmacro +%}}{template}"
