"""Synonyms: WordNet read right, words found, the exact count, everything else untouched."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_variability.augmentation.lexicon import PARTS, WordNet
from llm_variability.augmentation.synonym import (
    FUNCTION_WORDS,
    WORD,
    augment_synonyms,
    list_synonyms,
    match_case,
    synonym_augmenter,
)
from tiny_wordnet import get_real_wordnet, write_wordnet

RATES = st.integers(0, 100).map(lambda percent: percent / 100)
SEEDS = st.integers(0, 2**64 - 1)

SYNSETS = [
    ("n", [("list", 64), ("listing", 2)]),
    ("n", [("list", 1), ("tilt", 0), ("inclination", 5)]),
    ("v", [("list", 23), ("name", 9)]),
    ("v", [("return", 50), ("give_back", 1), ("Restitute", 0)]),
    ("n", [("return", 3), ("homecoming", 1)]),
    ("v", [("be", 9), ("exist", 1)]),
    ("v", [("lead", 30), ("take", 3)]),
    ("n", [("lead", 2), ("Pb", 0), ("atomic_number_82", 0)]),
    ("a", [("able(p)", 4), ("capable", 2)]),
    ("n", [("indium", 0), ("in", 0)]),
    ("n", [("axis", 3)]),
    ("v", [("axe", 1), ("chop", 1)]),
    ("n", [("x", 0), ("ten", 0)]),
    ("r", [("quickly", 5), ("speedily", 1)]),
]


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WordNet]:
    folder = tmp_path_factory.mktemp("wordnet")
    write_wordnet(folder, SYNSETS, {"v": "led lead\n", "n": "axes ax axis\n"})
    with WordNet(folder) as opened:
        yield opened


def test_senses_come_by_rank_and_part_of_speech(wordnet: WordNet) -> None:
    assert wordnet.synonyms("list") == {
        "n": (65, ("list", "listing", "tilt", "inclination")),
        "v": (23, ("list", "name")),
    }


def test_case_and_marks_of_an_adjective_do_not_matter(wordnet: WordNet) -> None:
    assert wordnet.synonyms("Able") == {"a": (4, ("able", "capable"))}


@pytest.mark.parametrize(
    ("word", "part", "forms"),
    [
        ("lists", "n", ["list"]),
        ("listing", "v", ["list"]),
        ("listing", "n", ["listing"]),
        ("returned", "v", ["return"]),
        ("led", "v", ["lead"]),
        ("axes", "n", ["axis"]),
        ("axes", "v", ["axe"]),
        ("lister", "n", []),
        ("list", "r", []),
    ],
)
def test_base_forms(wordnet: WordNet, word: str, part: str, forms: list[str]) -> None:
    assert wordnet.base_forms(word, part) == forms


@pytest.mark.parametrize(
    ("word", "choices"),
    [
        ("list", ["listing", "tilt", "inclination"]),  # a noun 65 times, a verb 23
        ("Returns", ["Give back"]),  # a verb; not its base form, nor the name Restitute
        ("RETURN", ["GIVE BACK"]),
        ("lead", ["take"]),
        ("quickly", ["speedily"]),
        ("axis", []),
        ("in", []),
        ("be", []),
        ("x", []),
        ("unheard", []),
    ],
)
def test_what_may_stand_for_a_word(wordnet: WordNet, word: str, choices: list[str]) -> None:
    assert list_synonyms(word, wordnet) == choices


def test_a_part_of_speech_without_synonyms_gives_way_to_the_next(tmp_path: Path) -> None:
    folder = write_wordnet(tmp_path, [("n", [("run", 9)]), ("v", [("run", 2), ("operate", 1)])])
    with WordNet(folder) as small:
        assert list_synonyms("run", small) == ["operate"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't list row_2, x1 or f(n).", ["Don't", "list", "or", "f", "n"]),
        ("'quoted' well-known", ["quoted", "well", "known"]),
        ("naïve  Ünder\nline", ["naïve", "Ünder", "line"]),
        ("__init__ 3rd has_close_elements", []),
        ("it’s the dogs' list", ["it’s", "the", "dogs", "list"]),
    ],
)
def test_what_a_word_is(text: str, words: list[str]) -> None:
    assert [word[0] for word in WORD.finditer(text)] == words


@pytest.mark.parametrize(
    ("word", "model", "written"),
    [("give back", "Return", "Give back"), ("tilt", "LIST", "TILT"), ("tilt", "lIst", "tilt")],
)
def test_a_synonym_is_written_like_the_word(word: str, model: str, written: str) -> None:
    assert match_case(word, model) == written


TEXTS = st.lists(
    st.sampled_from(
        [
            "list",
            "Lists",
            "returned",
            "the",
            "in",
            "row_2",
            "able",
            "\n\n",
            "  ",
            "-",
            "`lead`",
            "é",
        ]
    ),
    max_size=30,
).map(" ".join)


@settings(deadline=None)
@given(text=TEXTS, rate=RATES, seed=SEEDS)
def test_exactly_the_asked_words_change_or_all_that_can(
    wordnet: WordNet, text: str, rate: float, seed: int
) -> None:
    result = augment_synonyms(text, rate, seed, wordnet)
    words = [word[0] for word in WORD.finditer(text)]
    replaceable = [word for word in words if word not in ("the", "in", "é")]
    assert (result.unit, result.eligible, result.replaceable) == (
        "word",
        len(words),
        len(replaceable),
    )
    assert result.edited == min(result.asked, len(replaceable))
    assert result.edits is not None
    rest, end = [], 0
    for edit in result.edits:
        assert edit.after in list_synonyms(edit.before, wordnet)
        assert edit.after.lower() != edit.before.lower()
        rest.append(text[end : edit.start])
        end = edit.start + len(edit.before)
    rest.append(text[end:])
    position = 0
    for piece, edit in zip(rest, [*result.edits, None], strict=True):
        assert result.text.startswith(piece, position)
        position += len(piece) + (len(edit.after) if edit else 0)
    assert position == len(result.text)


def test_the_realised_rate_stops_where_no_word_is_left(wordnet: WordNet) -> None:
    result = augment_synonyms("list the able in", 1.0, 5, wordnet)
    assert (result.asked, result.edited, result.realised) == (4, 2, 0.5)


def test_the_augmenter_is_a_function_of_text_rate_and_seed(wordnet: WordNet) -> None:
    assert synonym_augmenter(wordnet)("list it", 1.0, 3) == augment_synonyms(
        "list it", 1.0, 3, wordnet
    )


def test_function_words_are_small_letters_and_no_content_words() -> None:
    assert all(word.islower() for word in FUNCTION_WORDS)
    assert {"a", "in", "as", "not", "he"} <= FUNCTION_WORDS
    assert not {"list", "number", "first", "return", "write"} & FUNCTION_WORDS


# ------------------------------------------------------------------------ with the real WordNet


@pytest.fixture
def real_wordnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return get_real_wordnet(tmp_path_factory.getbasetemp())


def test_synonyms_are_those_of_nlpaug(real_wordnet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nlpaug's own source, over words and inflected forms drawn at random: the same lists."""
    import nltk
    from nlpaug.model.word_dict import WordNet as Published

    monkeypatch.setattr(nltk.data, "path", [str(real_wordnet), *nltk.data.path])
    published = Published("eng")
    files = real_wordnet / "corpora/wordnet"
    lemmas = {line.split("%")[0] for line in (files / "index.sense").read_text().splitlines()}
    drawn = random.Random(5).sample(sorted(lemmas), 400)
    words = [word + ending for word in drawn for ending in ("", "s", "ed", "ing", "er", "men")]
    with WordNet(files) as ours:
        found = 0
        for word in words:
            theirs = {
                part: tuple(dict.fromkeys(listed))
                for part in PARTS
                if (listed := published.predict(word, pos=part))
            }
            assert {part: each[1] for part, each in ours.synonyms(word).items()} == theirs
            found += bool(theirs)
    assert found > 400


def test_parts_of_speech_are_those_that_readers_expect(real_wordnet: Path) -> None:
    with WordNet(real_wordnet / "corpora/wordnet") as opened:
        for word, part in {"write": "v", "number": "n", "sorted": "v", "quickly": "r"}.items():
            by_use = opened.synonyms(word)
            assert max(by_use, key=lambda each: by_use[each][0]) == part, word
