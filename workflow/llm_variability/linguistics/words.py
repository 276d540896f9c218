"""Lists of words by category, and the matching of their entries.

The lists are `words.yaml` beside this module. An entry is one lemma or form or several of them,
parted by spaces, in small letters; `type/VERB` is only the verb.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from llm_variability.config import ConfigError, read_yaml, shown

if TYPE_CHECKING:
    from llm_variability.linguistics.parsing import Token

WORDS = Path(__file__).with_name("words.yaml")

CATEGORIES = (
    "hedges",
    "first_person",
    "politeness",
    "inputs_outputs",
    "user_interaction",
    "technical",
    "deployment",
    "data_and_language",
)
"""Keys of `categories` in the file: each is counted in every prompt."""

PARTS_OF_SPEECH = ("ADJ", "ADV", "NOUN", "PROPN", "VERB")
"""What may follow the slash of an entry: universal parts of speech."""


@dataclass(frozen=True)
class Entry:
    """One or more words in a row; `pos` is the part of speech that a single one must have."""

    words: tuple[str, ...]
    pos: str | None = None


@dataclass(frozen=True)
class Words:
    """The lists.

    categories: entries by their first word, the longest first, for each of `CATEGORIES`.
    lemmas: lemma by form, where the parser's would be wrong. openings: words that open a command.
    checksum: SHA-256 of the file, hexadecimal.
    """

    categories: Mapping[str, Mapping[str, Sequence[Entry]]]
    lemmas: Mapping[str, str]
    openings: frozenset[str]
    checksum: str


def read_words(path: Path = WORDS) -> Words:
    """Read the lists.

    Raises ConfigError, one line that says what is wrong where, for a file that cannot be used.
    """
    loaded = read_yaml(path)
    if set(loaded) != {"categories", "lemmas", "openings"}:
        raise ConfigError(f"{shown(path)}: the keys must be categories, lemmas and openings")
    categories, lemmas = loaded["categories"], loaded["lemmas"]
    for key, value in {"categories": categories, "lemmas": lemmas}.items():
        if not isinstance(value, dict):
            raise ConfigError(f"{shown(path)}: {key}: {value!r} is not a mapping")
    if set(categories) != set(CATEGORIES):
        raise ConfigError(f"{shown(path)}: categories: must be {', '.join(CATEGORIES)}")
    for form, lemma in lemmas.items():
        _check_text(path, f"lemmas.{form}", form)
        _check_text(path, f"lemmas.{form}", lemma)
    return Words(
        {
            name: index_entries(
                [_read_entry(path, name, text) for text in _read_list(path, name, listed)]
            )
            for name, listed in categories.items()
        },
        lemmas,
        frozenset(_read_list(path, "openings", loaded["openings"])),
        hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def _read_list(path: Path, key: str, listed: object) -> list[str]:
    if not isinstance(listed, list) or not listed:
        raise ConfigError(f"{shown(path)}: {key}: must be a list of at least one word")
    texts = [_check_text(path, key, text) for text in listed]
    if twice := sorted({text for text in texts if texts.count(text) > 1}):
        raise ConfigError(f"{shown(path)}: {key}: {twice[0]} is given twice")
    return texts


def _check_text(path: Path, key: str, text: object) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{shown(path)}: {key}: {text!r} is not a text; quote it")
    return text


def _read_entry(path: Path, key: str, text: str) -> Entry:
    restricted = re.fullmatch(r"(\S+)/([A-Z]+)", text)
    words, pos = restricted.groups() if restricted else (text, None)
    if words != words.lower():
        raise ConfigError(f"{shown(path)}: {key}: {text!r} has capitals; write it in small letters")
    if pos is not None and pos not in PARTS_OF_SPEECH:
        allowed = ", ".join(PARTS_OF_SPEECH)
        raise ConfigError(f"{shown(path)}: {key}: {text!r}: after the slash is one of {allowed}")
    return Entry(tuple(words.split()), pos)


def index_entries(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Index entries by their first word, the longest first."""
    index: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: -len(entry.words)):
        index.setdefault(entry.words[0], []).append(entry)
    return index


def count_entries(tokens: Sequence[Token], index: Mapping[str, Sequence[Entry]]) -> int:
    """Count where entries stand in a sentence.

    A token is a word of an entry if its lemma or its form in small letters is. From left to right
    the longest entry counts, once, and what it covers is not looked at again.
    """
    found = place = 0
    while place < len(tokens):
        first = tokens[place]
        entries = [*index.get(first.lemma, ()), *index.get(first.form, ())]
        lengths = [len(entry.words) for entry in entries if _stands(entry, tokens, place)]
        found += bool(lengths)
        place += max(lengths, default=1)
    return found


def _stands(entry: Entry, tokens: Sequence[Token], place: int) -> bool:
    covered = tokens[place : place + len(entry.words)]
    return (
        len(covered) == len(entry.words)
        and entry.pos in (None, covered[0].pos)
        and all(
            word in (token.lemma, token.form)
            for word, token in zip(entry.words, covered, strict=True)
        )
    )
