"""What a model does with its turn: it writes code, asks, or only talks."""

from __future__ import annotations

import re
from functools import lru_cache

from llm_variability.code.extraction import drop_reasoning, extract_code, part_fences
from llm_variability.code.replies import read_reply

CODE, WORDS, ASKING, FAILED = "code", "words", "asking", "failed"
"""What a reply is: it holds code, of whatever language; neither code nor a question; a question and
no code; nothing came."""

_INLINE_CODE = re.compile(r"`[^`\n]*`")
_QUESTION = re.compile(r"[\uff1f\u061f]+|\?[?!]*+(?![^\W_]|[=&/%])")
"""Question marks, several in a row being one; not one in the middle of an address."""


def count_questions(text: str) -> int:
    """Count the question marks of a text's prose, as `_QUESTION` has them.

    What stands in fences or between backticks is no prose, nor is what a model thought aloud.
    """
    prose = "\n".join(part_fences(drop_reasoning(text))[1])
    return len(_QUESTION.findall(_INLINE_CODE.sub("", prose)))


@lru_cache(maxsize=4096)
def holds_code(text: str, language: str, cut_off: bool) -> bool:
    """Say whether a text holds code of any language, whole or not.

    language: the one that is wanted. cut_off: the text ended at the most tokens that were allowed.
    Raises ConfigError for a language that is not known or whose grammar is not installed.
    """
    found = extract_code(text, language, cut_off=cut_off)
    return read_reply(text, language, found.status, found.source, cut_off=cut_off).kind != "none"


def sort_reply(text: str | None, language: str, cut_off: bool) -> str:
    """Say what a reply is: `CODE`, `WORDS`, `ASKING` or `FAILED`.

    text: null where no reply came. A reply with code and a question is code. Raises ConfigError as
    `holds_code` does.
    """
    if text is None:
        return FAILED
    if holds_code(text, language, cut_off):
        return CODE
    return ASKING if count_questions(text) else WORDS
