"""The published calls: faults kept, nothing else changed, the realised rate measured."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest

from llm_variability.augmentation.keyboard import read_neighbours
from llm_variability.augmentation.published import published_keyboard, published_synonyms
from llm_variability.config import ConfigError
from tiny_wordnet import get_real_wordnet

TEXT = (
    "Write a function `count(rows)` that reads all the rows of a table:\n"
    "    every row has several numbers, and the largest number of each row counts.\n"
    "Return the total, rounded to two digits. An empty table gives nothing back."
)


def tag_by_length(words: Sequence[str]) -> list[tuple[str, str]]:
    """A tagger that never says DT for a word of four letters or more."""
    return [(word, "NN" if len(word) > 3 else "DT") for word in words]


# ------------------------------------------------------------------------------------- keyboard


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 1.0])
def test_probabilities_of_typing_errors_multiply(rate: float) -> None:
    """By hand: of n words the long ones are chosen, ceil(rate n) of them at most; in each,
    ceil(rate x its characters), though no more than can be typed wrong."""
    neighbours = read_neighbours()
    words = re.findall(r"\w+|[^\w\s]", TEXT)
    long = [word for word in words if len(word) >= 4]
    chosen = min(len(long), math.ceil(rate * len(words)))
    in_each = [
        min(math.ceil(rate * len(word)), sum(c in neighbours for c in word)) for word in long
    ]
    eligible = sum(c in neighbours for c in TEXT)
    expected = chosen * fmean(in_each) / eligible
    measured = fmean(published_keyboard(TEXT, rate, seed).realised for seed in range(60))
    assert measured == pytest.approx(expected, rel=0.06)


def test_rate_0_has_no_typing_errors_and_is_not_the_text() -> None:
    result = published_keyboard(TEXT, 0, 1)
    assert (result.edited, result.realised, result.edits) == (0, 0.0, None)
    assert result.text != TEXT
    assert "".join(result.text.split()) == "".join(TEXT.split())
    assert "\n" not in result.text


def test_published_typing_errors_stay_near_their_nominal_rate_nowhere() -> None:
    results = [published_keyboard(TEXT, 1.0, seed) for seed in range(5)]
    assert all(result.asked == result.eligible for result in results)
    assert all(result.realised < 0.9 for result in results)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_a_text_without_words_stays(text: str) -> None:
    result = published_keyboard(text, 0.5, 1)
    assert (result.text, result.eligible, result.edited) == (text, 0, 0)


def test_the_seed_decides_and_the_global_stream_goes_on_as_if_nothing_was() -> None:
    random.seed(11)
    wanted = random.random()
    random.seed(11)
    first = published_keyboard(TEXT, 0.5, 3)
    assert random.random() == wanted
    assert published_keyboard(TEXT, 0.5, 3) == first
    assert published_keyboard(TEXT, 0.5, 4) != first


def test_a_rate_outside_0_to_1_is_refused() -> None:
    with pytest.raises(ValueError, match="rate: 1.5"):
        published_keyboard(TEXT, 1.5, 1)


# ------------------------------------------------------------------------------------- synonyms


@pytest.fixture
def real_wordnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("nltk")
    return get_real_wordnet(tmp_path_factory.getbasetemp())


def test_rate_0_replaces_three_words_in_ten(real_wordnet: Path) -> None:
    results = [published_synonyms(TEXT, rate, 5, real_wordnet, tag_by_length) for rate in (0, 0.3)]
    assert results[0].text == results[1].text
    assert results[0].edited == results[1].edited > 0
    assert (results[0].nominal, results[0].asked) == (0, 0)
    assert results[0].realised > 0.2


def test_the_account_is_by_words_and_what_was_replaced(real_wordnet: Path) -> None:
    result = published_synonyms(TEXT, 1.0, 5, real_wordnet, tag_by_length)
    words = re.findall(r"\w+", TEXT)
    assert (result.unit, result.eligible, result.edits) == ("word", len(words), None)
    gone = [word for word in words if len(word) <= 3]
    assert all(re.search(rf"\b{word}\b", result.text) for word in gone)
    assert 0 < result.edited <= len(words) - len(gone)


def test_a_missing_tagger_is_told_and_nothing_is_downloaded(
    real_wordnet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(nltk, "download", lambda *_, **__: pytest.fail("downloads"))
    with pytest.raises(ConfigError, match="averaged_perceptron_tagger_eng is not in its data"):
        published_synonyms(TEXT, 0.1, 5, real_wordnet)


def test_a_missing_wordnet_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    with pytest.raises(ConfigError, match="WordNet is not in NLTK's data path"):
        published_synonyms(TEXT, 0.1, 5, tmp_path, tag_by_length)
