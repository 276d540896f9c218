"""Topics of prompts by latent Dirichlet allocation on the lemmas of their content words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from llm_variability.fits.random_intercept import Floats
from llm_variability.linguistics.parsing import Sentence
from llm_variability.linguistics.prompts import Prompt
from llm_variability.streams import begin_stream
from llm_variability.tables_personas import TOPIC_WEIGHTS, TOPICS

CONTENT = ("ADJ", "NOUN", "PROPN", "VERB")
"""Parts of speech of content words."""

WORDS_OF_TOPIC = 10
"""The likeliest words of a topic that are told."""

STARTS = 5
"""Random starts of which the one with the highest bound is taken: topics depend on the start."""

ITERATIONS = 100
"""Passes over all prompts from each start, at most."""


@dataclass(frozen=True)
class Topics:
    """Topics, the heaviest first.

    vocabulary: (words,) lemmas in alphabetical order. words: (topics, words) probability of each
    lemma in each topic. weights: (prompts, topics) share of each topic in each prompt; not a
    number for prompts without a content word.
    """

    vocabulary: tuple[str, ...]
    words: Floats
    weights: Floats


def list_content(sentences: Sequence[Sentence]) -> list[str]:
    """List the lemmas of adjectives, nouns, names and verbs of at least two letters."""
    return [
        token.lemma
        for sentence in sentences
        for token in sentence.tokens
        if token.pos in CONTENT and token.is_word and sum(map(str.isalpha, token.lemma)) >= 2
    ]


def fit_topics(texts: Sequence[Sequence[str]], topics: int, seed: int) -> Topics:
    """Fit topics by variational Bayes over all texts at once.

    Priors of both kinds are 1 / topics. Topics are ordered by the sum of their weights over the
    texts. The same texts, seed and libraries give the same numbers, bit for bit.

    texts: the content words of each. topics: as many, but no more than there are texts with a
    content word or different words; 0 topics where there are none.
    Sources: Blei, Ng and Jordan 2003, Journal of Machine Learning Research 3; Hoffman, Blei and
    Bach 2010, NeurIPS 23 (whose batch form scikit-learn has).
    """
    vocabulary = tuple(sorted({word for text in texts for word in text}))
    column = {word: i for i, word in enumerate(vocabulary)}
    counts = np.zeros((len(texts), len(vocabulary)))
    for row, text in enumerate(texts):
        np.add.at(counts[row], [column[word] for word in text], 1)
    worded = counts.sum(axis=1) > 0
    number = min(topics, int(worded.sum()), len(vocabulary))
    weights = np.full((len(texts), number), np.nan)
    if not number:
        return Topics(vocabulary, np.zeros((0, len(vocabulary))), weights)
    words, weights[worded] = _fit_best(counts[worded], number, seed)
    # Rounded, so that topics of equal weight keep the order of the fit.
    order = np.argsort(-weights[worded].sum(axis=0).round(9), kind="stable")
    return Topics(vocabulary, words[order], weights[:, order])


def _fit_best(counts: Floats, number: int, seed: int) -> tuple[Floats, Floats]:
    """Fit from each start: (topics, words) and (texts, topics) probabilities of the best."""
    from sklearn.decomposition import LatentDirichletAllocation  # slow to import

    starts = begin_stream(seed, "linguistics", "topics").integers(2**31, size=STARTS)
    fits = [
        LatentDirichletAllocation(
            number, learning_method="batch", max_iter=ITERATIONS, random_state=int(start), n_jobs=1
        ).fit(counts)
        for start in starts
    ]
    best = fits[int(np.argmax([fit.score(counts) for fit in fits]))]
    words = best.components_ / best.components_.sum(axis=1, keepdims=True)
    weights = best.transform(counts)
    return words, weights / weights.sum(axis=1, keepdims=True)


def tabulate_topics(topics: Topics) -> pl.DataFrame:
    """List the likeliest words of each topic: a TOPICS table."""
    rows = []
    for topic, words in enumerate(topics.words, start=1):
        likeliest = np.argsort(-words, kind="stable")[:WORDS_OF_TOPIC]
        rows += [
            {
                "topic": topic,
                "rank": rank,
                "word": topics.vocabulary[word],
                "weight": float(words[word]),
            }
            for rank, word in enumerate(likeliest, start=1)
        ]
    return pl.DataFrame(rows, schema={name: each.dtype for name, each in TOPICS.columns.items()})


def tabulate_weights(prompts: Sequence[Prompt], topics: Topics) -> pl.DataFrame:
    """List the topics' shares in each prompt with a content word: a TOPIC_WEIGHTS table."""
    rows = [
        {**prompt.named, "topic": topic, "weight": float(weight)}
        for prompt, weights in zip(prompts, topics.weights, strict=True)
        for topic, weight in enumerate(weights, start=1)
        if np.isfinite(weight)
    ]
    schema = {name: each.dtype for name, each in TOPIC_WEIGHTS.columns.items()}
    return pl.DataFrame(rows, schema=schema)
