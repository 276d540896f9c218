"""Topics: shapes, the same numbers again, planted topics, what is left out."""

from __future__ import annotations

import numpy as np
import pytest

from llm_variability.linguistics.parsing import Sentence, Token
from llm_variability.linguistics.prompts import Prompt
from llm_variability.linguistics.topics import (
    WORDS_OF_TOPIC,
    fit_topics,
    list_content,
    tabulate_topics,
    tabulate_weights,
)

SUMS = ["add", "number", "divide", "sum", "digit", "equal", "multiply", "minus"]
SHOP = ["bike", "order", "price", "customer", "stock", "brand", "cart", "wheel"]


def plant(n: int = 12, length: int = 30) -> list[list[str]]:
    """Write n texts of either vocabulary, a third more of the first."""
    rng = np.random.default_rng(4)
    longer = [list(rng.choice(SUMS, length)) for _ in range(n + n // 3)]
    return [*longer, *(list(rng.choice(SHOP, length)) for _ in range(n))]


def test_planted_topics_are_told_apart_and_the_heavier_is_first() -> None:
    topics = fit_topics(plant(), 2, 1)
    words = tabulate_topics(topics)
    likeliest = [
        set(words.filter(topic=topic)["word"].head(len(SUMS)).to_list()) for topic in (1, 2)
    ]
    assert likeliest == [set(SUMS), set(SHOP)]
    assert (topics.weights[:16, 0] > 0.95).all()
    assert (topics.weights[16:, 1] > 0.95).all()


def test_topics_are_probabilities_and_ordered_by_weight() -> None:
    topics = fit_topics(plant(), 5, 1)
    assert topics.words.shape == (5, len(SUMS + SHOP))
    assert topics.words.sum(axis=1) == pytest.approx(np.ones(5))
    assert topics.weights.sum(axis=1) == pytest.approx(np.ones(28))
    assert (np.diff(topics.weights.sum(axis=0)) <= 1e-9).all()


def test_a_seed_gives_the_same_numbers_bit_for_bit() -> None:
    first, again = fit_topics(plant(), 4, 7), fit_topics(plant(), 4, 7)
    assert first.words.tobytes() == again.words.tobytes()
    assert first.weights.tobytes() == again.weights.tobytes()
    assert fit_topics(plant(), 4, 8).words.tobytes() != first.words.tobytes()


def test_there_are_no_more_topics_than_texts_or_words() -> None:
    assert fit_topics([["a"], ["b"], []], 5, 1).weights.shape == (3, 2)
    assert fit_topics([["a"], ["a"], ["a"]], 5, 1).weights.shape == (3, 1)


def test_texts_without_content_have_no_weights() -> None:
    topics = fit_topics([["a", "b"], [], ["b"]], 2, 1)
    assert np.isnan(topics.weights[1]).all()
    prompts = [Prompt("t", "p-male", "p", "male", str(i), "0", ()) for i in range(3)]
    table = tabulate_weights(prompts, topics)
    assert table["prompt_id"].to_list() == ["0", "0", "2", "2"]
    assert table["topic"].to_list() == [1, 2, 1, 2]


def test_without_any_word_there_is_no_topic() -> None:
    for texts in ([], [[]], [[], []]):
        topics = fit_topics(texts, 3, 1)
        assert topics.weights.shape == (len(texts), 0)
        assert tabulate_topics(topics).height == 0


def test_a_topic_is_told_by_its_ten_likeliest_words() -> None:
    table = tabulate_topics(fit_topics(plant(), 2, 1))
    for _, words in table.group_by("topic", maintain_order=True):
        assert words["rank"].to_list() == list(range(1, WORDS_OF_TOPIC + 1))
        assert words["weight"].is_sorted(descending=True)


def test_content_words_are_adjectives_nouns_names_and_verbs() -> None:
    given = [
        ("it", "PRON"),
        ("is", "AUX"),
        ("quickly", "ADV"),
        ("big", "ADJ"),
        ("python", "PROPN"),
        ("reads", "VERB"),
        ("x", "NOUN"),
        ("42", "NOUN"),
        ("'s", "VERB"),
        ("files", "NOUN"),
    ]
    tokens = tuple(Token(form, form.rstrip("s"), "X", pos, "dep", 0) for form, pos in given)
    assert list_content([Sentence(tokens)]) == ["big", "python", "read", "file"]
