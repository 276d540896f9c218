"""Texts to words, to n-grams and to categories, by one rule for all measures."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

CURLY_APOSTROPHE = "\u2019"


def split_words(text: str) -> list[str]:
    """Split a text into words: runs of letters, marks and digits, casefolded.

    An apostrophe between two of these belongs to the word, straight or curly; everything else
    parts words, hyphens too. The text is composed first (NFC). Scripts that put no space between
    words give one word a run.
    """
    composed = unicodedata.normalize("NFC", text).casefold()
    return _word_pattern().findall(composed.replace(CURLY_APOSTROPHE, "'"))


def name_category(text: str) -> str:
    """Bring a text to what tells it from other texts, for measures that only ask if two differ.

    Case is folded, each run of white space and punctuation (Unicode's category P) is one space,
    and there is none at the ends. Symbols and emoji stay.
    Source: Lee and Lai 2024 lower the case and replace punctuation likewise.
    """
    composed = unicodedata.normalize("NFC", text).casefold()
    return " ".join(composed.translate(_punctuation()).split())


@dataclass(frozen=True)
class Ngrams:
    """Which n-grams of one order stand in which texts.

    ngram, text, count: (entries,) number of the n-gram, number of the text and how often it stands
    there, by ascending n-gram. totals: (n,) n-grams of each text, repeated ones included.
    """

    ngram: Integers
    text: Integers
    count: Integers
    totals: Integers


def count_ngrams(texts: Sequence[Sequence[str]], highest: int) -> list[Ngrams]:
    """Count the n-grams of every text, for the orders from 1 to `highest`.

    texts: the words of each. An n-gram lies in one text. Returns a table an order.
    """
    vocabulary: dict[str, int] = {}
    words = [vocabulary.setdefault(word, len(vocabulary)) for text in texts for word in text]
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    word = np.array(words, dtype=np.int64)
    owner = np.repeat(np.arange(len(texts)), lengths)
    gram = word
    tables = [_tabulate(gram, owner, len(texts))]
    for order in range(2, highest + 1):
        last = word[order - 1 :]
        whole = owner[order - 1 :] == owner[: len(last)]
        # Each n-gram is known by the (n-1)-gram that begins it and its last word.
        key = gram[: len(last)] * len(vocabulary) + last
        gram = np.unique(key, return_inverse=True)[1]
        tables.append(_tabulate(gram[whole], owner[: len(last)][whole], len(texts)))
    return tables


def _tabulate(gram: Integers, owner: Integers, n_texts: int) -> Ngrams:
    entry, count = np.unique(gram * n_texts + owner, return_counts=True)
    numbers = np.unique(entry // n_texts, return_inverse=True)[1]
    return Ngrams(numbers, entry % n_texts, count, np.bincount(owner, minlength=n_texts))


@cache
def _word_pattern() -> re.Pattern[str]:
    """A letter or digit and what follows it; `\\w` alone leaves out the marks of many scripts."""
    part = rf"(?:[^\W_]|[{_characters('M')}])"
    return re.compile(rf"[^\W_]{part}*(?:'{part}+)*")


@cache
def _punctuation() -> dict[int, str]:
    return {ord(character): " " for character in _characters("P")}


def _characters(category: str) -> str:
    """All characters of a Unicode category; no mark needs escaping in a set of a pattern."""
    everything = map(chr, range(sys.maxunicode + 1))
    return "".join(c for c in everything if unicodedata.category(c)[0] == category)
