"""WordNet's files, read as they are: senses of a word, and the words that share them.

Needs `index.sense`, the four data files and the four exception lists (formats: wndb(5WN),
senseidx(5WN), morphy(7WN)). Nothing is imported for it, and nothing is loaded but the index.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

PARTS = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
"""Parts of speech in WordNet's own order, and what their files are called."""

_SENSE_TYPES = {"n": b"1", "v": b"2", "a": b"35", "r": b"4"}

_ENDINGS = {
    "n": (
        ("s", ""),
        ("ses", "s"),
        ("ves", "f"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "v": (
        ("s", ""),
        ("ies", "y"),
        ("es", "e"),
        ("es", ""),
        ("ed", "e"),
        ("ed", ""),
        ("ing", "e"),
        ("ing", ""),
    ),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}
"""Endings that may be taken off, and what takes their place; morphy(7WN), and "ves" of nouns."""

FILES = (
    "index.sense",
    *(f"data.{name}" for name in PARTS.values()),
    *(f"{name}.exc" for name in PARTS.values()),
)


class Sense(NamedTuple):
    """A meaning of a word: where it stands in the data file, its rank, how often it was tagged."""

    offset: int
    number: int
    tagged: int


class WordNet:
    """A folder with WordNet's files, open for look-ups."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError if a file cannot be read."""
        self.folder = folder
        self._index = sorted((folder / "index.sense").read_bytes().splitlines())
        self._data = {part: (folder / f"data.{name}").open("rb") for part, name in PARTS.items()}
        self.synonyms = lru_cache(maxsize=None)(self._synonyms)

    def __enter__(self) -> WordNet:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._data.values():
            file.close()

    @cached_property
    def _exceptions(self) -> dict[str, dict[str, list[str]]]:
        return {
            part: {
                words[0]: words[1:]
                for line in (self.folder / f"{name}.exc").read_text("utf-8").splitlines()
                if (words := line.split())
            }
            for part, name in PARTS.items()
        }

    def senses(self, lemma: str, part: str) -> list[Sense]:
        """List the senses of a base form as one part of speech, by rank.

        lemma: in small letters, with `_` for a space. part: n, v, a or r.
        """
        start = f"{lemma}%".encode()
        first = bisect.bisect_left(self._index, start)
        end = bisect.bisect_left(self._index, f"{lemma}&".encode(), lo=first)  # & comes after %
        found = []
        for line in self._index[first:end]:
            key, offset, number, tagged = line.split()
            if key[len(start) : len(start) + 1] in _SENSE_TYPES[part]:
                found.append(Sense(int(offset), int(number), int(tagged)))
        return sorted(found, key=lambda sense: sense.number)

    def list_senses(self) -> Iterator[tuple[str, int, int, list[str]]]:
        """List every sense there is: its key, rank, how often it was tagged, the words sharing it.

        In the order of their keys, which is the same wherever synsets stand in the data files.
        """
        parts = {kind: part for part, kinds in _SENSE_TYPES.items() for kind in kinds}
        for line in self._index:
            key, offset, number, tagged = line.split()
            part = parts[key.rpartition(b"%")[2][0]]
            yield key.decode(), int(number), int(tagged), self._words_at(part, int(offset))

    def base_forms(self, word: str, part: str) -> list[str]:
        """List the base forms that a word in small letters may have; itself first if it is one."""
        forms = self._exceptions[part].get(word) or [
            word.removesuffix(old) + new for old, new in _ENDINGS[part] if word.endswith(old)
        ]
        return [form for form in dict.fromkeys([word, *forms]) if self.senses(form, part)]

    def _words_at(self, part: str, offset: int) -> list[str]:
        file = self._data[part]
        file.seek(offset)
        fields = file.readline().split(b" ")
        if fields[0] != b"%08d" % offset:
            raise ValueError(f"{self.folder}: index.sense and data.{PARTS[part]} do not fit")
        words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        return [word.decode().partition("(")[0] for word in words]

    def _synonyms(self, word: str) -> dict[str, tuple[int, tuple[str, ...]]]:
        """Give, by part of speech, how often the word was tagged so and its senses' words.

        word: in any case. The words are as WordNet spells them, with `_` for a space, each once,
        the word itself among them; parts of speech that the word cannot be are left out.
        """
        found = {}
        for part in PARTS:
            senses = [
                sense
                for form in self.base_forms(word.lower(), part)
                for sense in self.senses(form, part)
            ]
            if senses:
                words = (each for sense in senses for each in self._words_at(part, sense.offset))
                found[part] = (sum(sense.tagged for sense in senses), tuple(dict.fromkeys(words)))
        return found
