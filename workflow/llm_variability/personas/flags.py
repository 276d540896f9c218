"""What may be wrong with a task that a model has put into a persona's words."""

from __future__ import annotations

import re

from llm_variability.stimuli.persona_file import Persona

FLAGS = {
    "empty": "nothing came",
    "answer": "it answers the task: it holds code, or tells the steps to take",
    "meta": "it talks about writing the message, or speaks as an assistant does",
    "persona": "it speaks about the persona: name, label, what it is, a word of the file, or six"
    " words in a row of the description",
    "refusal": "it declines, or says that a model is writing",
    "cut": "it ended at the most tokens that were allowed",
    "identical": "it is the task as it stands, white space, case and full stops aside",
    "adrift": "it has none of the task's own words, so it may ask for something else",
    "repeated": "the same persona had the same words for this task before; used all the same",
    "shared": "another persona had the same words for this task before; used all the same",
}
"""What may be wrong, in the order in which it is told. A flagged text is kept and counted."""


def _any_of(*patterns: str, lines: bool = False) -> re.Pattern[str]:
    flags = re.IGNORECASE | (re.MULTILINE if lines else 0)
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), flags)


_OPENING = r"\A\W*"
"""Where a text begins, whatever marks stand before its first word."""

_CODE = _any_of(
    r"^\s*(?:```|~~~)",
    r"^\s*(?:import [\w.]+(?: as \w+)?|from [\w.]+ import .+)\s*$",
    r"^\s*(?:async )?def \w+\(.*:\s*$",
    r"^\s*class \w+(?:\(.*\))?:\s*$",
    r"^\s*(?:public|private|static) \w+ .*[{;]\s*$",
    r"^\s*(?:const|let|var) \w+ ?=",
    r"^\s*(?:function \w+\(|print\(|\w+ = (?:input|int|float)\()",
    r"^\s*(?:#include\b|<!DOCTYPE|<html)",
    r"^\s*(?-i:CREATE TABLE\b|SELECT .+ FROM\b|INSERT INTO\b)",
    lines=True,
)
_STEPS = _any_of(
    _OPENING + r"(?:in order )?to (?:make|create|build|write|develop|design|implement|generate)\b"
    r"(?:(?!\b(?:I|me|my|us|our)\b)[^.?!\n]){0,120}"
    r"\b(?:you|we)(?:'ll)? (?:can|could|will|may|need|should|must|have)\b",
    _OPENING + r"(?:first|step 1)\b[^.\n]{0,40}\b(?:open|install|import|create a new|define)\b",
    r"\bfollow(?:ing)? (?:these|the) steps\b",
    r"\bhere(?:'s| is| are) (?:the|a|an|some|how)\b[^.\n]{0,60}"
    r"\b(?:code|program|script|implementation|example|solution|steps?)\b",
)
_META = _any_of(
    _OPENING + r"(?:sure|certainly|absolutely|of course|okay|ok)\s*[,!.:]",
    _OPENING + r"(?:rewritten|message|prompt|request|subject|title)\s*:",
    _OPENING + r"(?:this|the) (?:message|prompt|request) (?:is|was)\b",
    r"\b(?:rewritten|rewrote|rephras\w+|reword(?:ed|ing)|paraphras\w+)\b",
    r"\b(?:original|above) (?:message|prompt|request)\b",
    r"\bin (?:my|his|her|their) own words\b",
    r"\bhere(?:'s| is) (?:the|a|an|my|your) (?:message|prompt|request|version)\b",
    r"\b(?:here|happy|glad|ready|pleased|thrilled|excited|delighted|love) to (?:help|assist) you\b",
    r"\b(?:here|ready|equipped|designed) to (?:help|assist)\b",
    r"\bhow (?:can|may) I (?:help|assist)\b",
    r"\bI(?:'m| am)[^.\n]{0,30} your (?:\w+ )?assistant\b",
)
_REFUSAL = _any_of(
    r"\bI(?:'m| am) (?:sorry|unable|not able)\b",
    r"\bI (?:can(?:no|')t|cannot|won't|will not)"
    r" (?:help|assist|do that|fulfil|comply|rewrite|take on)\b",
    r"\bas an? (?:AI|artificial|language model)\b",
    r"\bI(?:'m| am) an? (?:AI|artificial|language model|computer program)\b",
)
_COMMON = frozenset(
    ("write", "code", "make", "create", "build", "generate", "program", "for", "the", "and", "with")
)
"""Words of a task that say nothing of what is wanted."""

_QUOTES = {'"': '"', "'": "'", "\N{LEFT DOUBLE QUOTATION MARK}": "\N{RIGHT DOUBLE QUOTATION MARK}"}


def read_message(answer: str) -> str:
    """Take the message out of a model's answer: white space and one pair of quotes around it go."""
    text = answer.strip()
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text.count(text[0]) <= 2:
        text = text[1:-1].strip()
    return text


def fold_words(text: str) -> str:
    """Write a text in small letters with single blanks and no full stop at its end."""
    return " ".join(text.casefold().split()).rstrip(".!")


def _speaks_of(persona: Persona, text: str) -> bool:
    told = [persona.first_name, persona.told.label, "persona", *persona.told.words]
    noun = re.escape(persona.told.label.split()[-1])
    return (
        any(re.search(rf"(?<!\w){re.escape(each)}(?!\w)", text, re.IGNORECASE) for each in told)
        or re.search(rf"\bI(?:'m| am) an? (?:[\w-]+ ){{0,4}}{noun}(?!\w)", text, re.IGNORECASE)
        is not None
        or not _runs_of_words(persona.describe()).isdisjoint(_runs_of_words(text))
    )


def _runs_of_words(text: str, length: int = 6) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold())
    return set(zip(*(words[start:] for start in range(length)), strict=False))


def _drifts(text: str, task: str) -> bool:
    words = set(re.findall(r"[a-z]{3,}", task.casefold())) - _COMMON
    return bool(words) and not any(word[:5] in text.casefold() for word in words)


def find_flags(text: str, task: str, persona: Persona, cut: bool) -> tuple[str, ...]:
    """Find what may be wrong with a message; `repeated` and `shared` take knowing the others.

    text: as `read_message` gives it. task: the task that was to be put into other words. cut: the
    answer ended at the most tokens that were allowed. Returns keys of FLAGS, in their order.
    """
    if not text:
        return ("empty",)
    told = {
        "answer": bool(_CODE.search(text) or _STEPS.search(text)),
        "meta": bool(_META.search(text)),
        "persona": _speaks_of(persona, text),
        "refusal": bool(_REFUSAL.search(text)),
        "cut": cut,
        "identical": fold_words(text) == fold_words(task),
        "adrift": _drifts(text, task),
    }
    return tuple(flag for flag, holds in told.items() if holds)
