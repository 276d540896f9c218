"""Lists of words: what the shipped file holds, what is refused, what counts where."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.config import ConfigError
from llm_variability.linguistics.parsing import Token
from llm_variability.linguistics.words import (
    CATEGORIES,
    WORDS,
    Entry,
    count_entries,
    index_entries,
    read_words,
)


def token(form: str, lemma: str | None = None, pos: str = "X") -> Token:
    return Token(form, lemma or form, "X", pos, "dep", 0)


def tokens(text: str) -> list[Token]:
    return [token(word) for word in text.split()]


def index(*entries: str) -> dict[str, list[Entry]]:
    return index_entries([Entry(tuple(entry.split())) for entry in entries])


def write(path: Path, **changes: object) -> Path:
    content = yaml.safe_load(WORDS.read_text(encoding="utf-8"))
    for key, value in changes.items():
        if value is None:
            del content[key]
        else:
            content[key] = value
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def test_the_shipped_lists_can_be_read_and_are_told_by_their_checksum() -> None:
    words = read_words()
    assert set(words.categories) == set(CATEGORIES)
    assert words.checksum == hashlib.sha256(WORDS.read_bytes()).hexdigest()


def test_inputs_and_interactions_share_no_entry_since_their_difference_is_taken() -> None:
    categories = yaml.safe_load(WORDS.read_text(encoding="utf-8"))["categories"]
    first, second = (
        {entry.partition("/")[0] for entry in categories[name]}
        for name in ("inputs_outputs", "user_interaction")
    )
    assert not first & second


def test_the_longest_entry_counts_once() -> None:
    found = index("could you", "could you please", "please")
    assert count_entries(tokens("could you please stop"), found) == 1
    assert count_entries(tokens("please could you stop please"), found) == 3


def test_an_entry_does_not_reach_beyond_the_sentence() -> None:
    assert count_entries(tokens("i am not"), index("not sure")) == 0


def test_lemmas_and_forms_both_match() -> None:
    sentence = [token("presses", "press"), token("pressed", "press"), token("us", "we")]
    assert count_entries(sentence, index("press", "us")) == 3


def test_a_part_of_speech_narrows_an_entry() -> None:
    found = index_entries([Entry(("type",), "VERB")])
    assert count_entries([token("type", pos="NOUN"), token("types", "type", "VERB")], found) == 1


@given(st.lists(st.sampled_from("abc"), max_size=12))
def test_single_entries_count_as_often_as_their_words_stand(words: list[str]) -> None:
    found = count_entries([token(word) for word in words], index("a", "b"))
    assert found == words.count("a") + words.count("b")


@given(st.lists(st.sampled_from("ab"), max_size=16))
def test_entries_of_two_words_count_as_often_as_a_text_search_finds_them(words: list[str]) -> None:
    found = count_entries([token(word) for word in words], index("a b"))
    assert found == "".join(words).count("ab")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"openings": None}, "the keys must be categories, lemmas and openings"),
        ({"openings": []}, "openings: must be a list of at least one word"),
        ({"openings": ["use", "use"]}, "openings: use is given twice"),
        ({"openings": [True]}, "openings: True is not a text; quote it"),
        ({"lemmas": ["data"]}, r"lemmas: \['data'\] is not a mapping"),
        ({"lemmas": {"data": 3}}, "lemmas.data: 3 is not a text"),
        ({"categories": {"hedges": ["maybe"]}}, "categories: must be hedges, first_person"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    path = write(tmp_path / "words.yaml", **changes)
    with pytest.raises(ConfigError, match=message) as refusal:
        read_words(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("entry", "message"),
    [("Python", "has capitals"), ("type/VB", "after the slash is one of ADJ, ADV")],
)
def test_an_entry_that_could_never_match_is_refused(
    tmp_path: Path, entry: str, message: str
) -> None:
    lists = {name: ["word"] for name in CATEGORIES} | {"technical": [entry]}
    with pytest.raises(ConfigError, match=f"technical: '{entry}'.*{message}"):
        read_words(write(tmp_path / "words.yaml", categories=lists))
