"""Measures of diversity against other implementations, by hand, and without each text."""

import gzip
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from skbio.diversity.alpha import simpson
from vendi_score import vendi

from llm_variability.diversity.differentiation import differentiate
from llm_variability.diversity.lexical import (
    measure_compression,
    measure_differentiation,
    measure_words,
)
from llm_variability.diversity.vendi import explain_no_jackknife, measure_vendi
from llm_variability.diversity.words import count_ngrams, name_category, split_words
from llm_variability.fits.measure_level import Measured

words = st.sampled_from("abcdef")
texts_of_words = st.lists(st.lists(words, max_size=9), min_size=3, max_size=7)
"""Few words, so that n-grams repeat and counts tie; empty and very short texts among them."""


def without_each(items: list, measure: Callable[[list], float]) -> list[float]:
    return [measure(items[:i] + items[i + 1 :]) for i in range(len(items))]


def agrees(found: Measured, items: list, measure: Callable[[list], float], error: float) -> bool:
    expected = [measure(items), *without_each(items, measure)]
    return np.allclose([found.value, *found.deleted], expected, rtol=0, atol=error, equal_nan=True)


# ------------------------------------------------------------------------------- texts to words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A thirty-word story.", ["a", "thirty", "word", "story"]),
        ("Don't stop — she said “no”", ["don't", "stop", "she", "said", "no"]),
        ("the dogs' 3 bones", ["the", "dogs", "3", "bones"]),
        ("Stra\u00dfe STRASSE", ["strasse", "strasse"]),
        ("cafe\u0301", ["caf\u00e9"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("?! \U0001f600", []),
        ("", []),
    ],
)
def test_words_are_runs_of_letters_marks_and_digits(text: str, expected: list[str]) -> None:
    assert split_words(text) == expected


def test_a_curly_apostrophe_is_a_straight_one() -> None:
    assert split_words("don\u2019t") == split_words("don't")


@given(st.text())
def test_splitting_the_words_again_changes_nothing(text: str) -> None:
    once = split_words(text)
    assert split_words(" ".join(once)) == once


@pytest.mark.parametrize("text", ["Email", "email.", ' "email"\n', "EMAIL!!"])
def test_case_white_space_and_closing_punctuation_make_no_category(text: str) -> None:
    assert name_category(text) == "email"


def test_symbols_and_words_do_make_one() -> None:
    assert (
        len({name_category(text) for text in ("\U0001f600", "\U0001f622", "e-mail", "email")}) == 4
    )


@given(texts_of_words)
def test_ngrams_are_those_of_slices(texts: list[list[str]]) -> None:
    for order, table in enumerate(count_ngrams(texts, 4), start=1):
        slices = [[tuple(t[i : i + order]) for i in range(len(t) - order + 1)] for t in texts]
        assert table.totals.tolist() == [len(each) for each in slices]
        held = sorted(
            (text, each.count(gram)) for text, each in enumerate(slices) for gram in set(each)
        )
        assert sorted(zip(table.text.tolist(), table.count.tolist(), strict=True)) == held
        holders = sorted(sum(gram in each for each in slices) for gram in set().union(*slices))
        assert sorted(np.bincount(table.ngram).tolist()) == holders


# ------------------------------------------------------------------------------------ measures


def distinct(texts: list[list[str]], order: int) -> float:
    grams = [tuple(t[i : i + order]) for t in texts for i in range(len(t) - order + 1)]
    return len(set(grams)) / len(grams) if grams else np.nan


@pytest.mark.parametrize("order", [1, 2, 3])
@given(texts=texts_of_words)
def test_distinct_is_the_share_of_different_slices(order: int, texts: list[list[str]]) -> None:
    found = measure_words(texts)[f"distinct-{order}"]
    assert agrees(found, texts, lambda kept: distinct(kept, order), 1e-12)


def self_bleu(texts: list[list[str]]) -> float:
    smooth = SmoothingFunction().method1
    return float(
        np.mean(
            [
                sentence_bleu(texts[:i] + texts[i + 1 :], texts[i], smoothing_function=smooth)
                for i in range(len(texts))
            ]
        )
    )


@settings(deadline=None, max_examples=50)
@given(texts_of_words)
def test_self_bleu_is_that_of_nltk(texts: list[list[str]]) -> None:
    assert agrees(measure_words(texts)["self-BLEU"], texts, self_bleu, 1e-12)


def test_self_bleu_is_that_of_nltk_for_texts_of_forty_words() -> None:
    rng = np.random.default_rng(5)
    share = 1 / np.arange(1, 201)
    texts = [
        [str(word) for word in rng.choice(200, size=rng.integers(20, 60), p=share / share.sum())]
        for _ in range(12)
    ]
    assert agrees(measure_words(texts)["self-BLEU"], texts, self_bleu, 1e-12)


def test_texts_that_are_all_the_same_have_a_self_bleu_of_one() -> None:
    found = measure_words([["a", "b", "c", "d", "e"]] * 4)["self-BLEU"]
    assert [found.value, *found.deleted] == pytest.approx([1.0] * 5, abs=1e-12)


def test_compression_is_that_of_gzip_and_high_for_repetition() -> None:
    texts = [
        "Once upon a time there was a cook.",
        "A cook there was, once.",
        "Grüße aus Köln!",
        "x",
    ]

    def ratio(kept: list[str]) -> float:
        data = "\n".join(kept).encode()
        return len(data) / len(gzip.compress(data, 9))

    assert agrees(measure_compression(texts), texts, ratio, 1e-12)
    assert (
        measure_compression(["the same sentence"] * 9).value > 3 * measure_compression(texts).value
    )


@given(st.lists(st.sampled_from("abcd"), min_size=3, max_size=12))
def test_differentiation_is_the_share_of_pairs_that_differ(categories: list[str]) -> None:
    def share(kept: list[str]) -> float:
        return float(np.mean([a != b for a, b in combinations(kept, 2)]))

    assert agrees(measure_differentiation(categories), categories, share, 1e-12)


def test_differentiation_is_simpsons_index_of_skbio() -> None:
    found = measure_differentiation(list("aaaabbc")).value
    assert found == pytest.approx(simpson([4, 2, 1], finite=True), abs=1e-12)
    assert found == pytest.approx(1 - (4 * 3 + 2 * 1) / (7 * 6), abs=1e-12)


def unit_rows(n: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(n, 6)) + 0.5
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@settings(deadline=None)
@given(st.integers(3, 9), st.integers(0, 2**32 - 1))
def test_the_vendi_score_is_that_of_its_authors(n: int, seed: int) -> None:
    rows = unit_rows(n, seed)

    def score(kept: list[int]) -> float:
        return float(vendi.score_K(rows[kept] @ rows[kept].T))

    assert agrees(measure_vendi(rows), list(range(n)), score, 1e-9)


def test_the_vendi_score_s_jackknife_needs_twenty_texts() -> None:
    assert explain_no_jackknife(20) is None
    reason = "Vendi score: its jackknife needs 20 texts a group; there are 19"
    assert explain_no_jackknife(19) == reason


def test_the_jackknife_of_few_texts_is_far_too_small_and_of_twenty_nearly_right() -> None:
    """The mean jackknife over the variance of 800 groups' scores, which is known to 5%.

    Vectors of 64 numbers around one direction, some of them nearer than others.
    """
    random = np.random.default_rng(1)
    axis = random.normal(size=64)
    ratio = {}
    for n in (5, 20):
        away = 2 * (1 - random.beta(2, 2, (800, n, 1)))
        scores = [measure_vendi(group) for group in axis + away * random.normal(size=(800, n, 64))]
        jackknife = np.mean([(n - 1) * each.deleted.var() for each in scores])
        ratio[n] = jackknife / np.var([each.value for each in scores])
    assert ratio[5] < 0.7
    assert 0.75 < ratio[20] < 1.05


def test_the_vendi_score_counts_what_is_at_right_angles() -> None:
    three = np.repeat(np.eye(3), 4, axis=0)
    assert measure_vendi(three).value == pytest.approx(3, abs=1e-9)
    assert measure_vendi(np.ones((5, 3))).value == pytest.approx(1, abs=1e-9)


# ---------------------------------------------------------- completions, a name deleted at once


def test_differentiation_deletes_a_name_with_all_its_completions() -> None:
    """Three names; pairs that differ counted by hand, and without each name."""
    categories, units = list("aab" + "bc" + "aac"), list("xxx" + "yy" + "zzz")
    found = differentiate(categories, units)

    def share(kept: list[str]) -> float:
        return float(np.mean([a != b for a, b in combinations(kept, 2)]))

    deleted = np.array(
        [share([c for c, u in zip(categories, units, strict=True) if u != name]) for name in "xyz"]
    )
    error = np.sqrt(2 / 3 * ((deleted - deleted.mean()) ** 2).sum())
    assert found.value == pytest.approx(20 / 28)  # 4 a, 2 b, 2 c: 6 + 1 + 1 of 28 pairs are alike
    assert found.as_published == pytest.approx(1 - (16 + 4 + 4) / 64)
    assert found.std_error == pytest.approx(error)
    assert found.value - found.ci_low == pytest.approx(min(4.302653 * error, 20 / 28), rel=1e-6)


def test_single_completions_are_deleted_as_texts_of_a_group_are() -> None:
    categories = list("aaabbcdd")
    found = differentiate(categories, [str(i) for i in range(8)])
    measured = measure_differentiation(categories)
    variance = 7 / 8 * ((measured.deleted - measured.deleted.mean()) ** 2).sum()
    assert found.value == pytest.approx(measured.value)
    assert found.std_error == pytest.approx(np.sqrt(variance))


@pytest.mark.parametrize(
    ("categories", "units", "reason"),
    [
        (["a"], ["x"], "fewer than two texts"),
        (list("abab"), list("xxyy"), "fewer than three units"),
        (list("aaaa"), list("wxyz"), "no variance"),
    ],
)
def test_what_has_no_interval_says_why(categories: list, units: list, reason: str) -> None:
    found = differentiate(categories, units)
    assert reason in found.reason
    assert (found.std_error, found.ci_low, found.ci_high) == (None, None, None)
