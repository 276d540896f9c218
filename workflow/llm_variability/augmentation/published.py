"""The published study's augmentations as they were, so that its curves can be replicated.

The calls are those of the study's code: nlpaug 1.1.11 with both of a typing error's probabilities
set to the rate, and with the rate as a synonym's. What is wrong with them is kept:

- a text is split at every character that is no letter, digit or underscore, and joined by blanks,
  so white space, indentation and punctuation change at every rate;
- typing errors: the probabilities multiply, words of fewer than four characters are never chosen,
  and counts are rounded up;
- synonyms: a rate of 0 is taken for unset, and 30% of the words are replaced.

Only the random stream is ours: nlpaug draws from Python's global one, which is seeded for the call
and put back. The realised rate is measured, on the result.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llm_variability.augmentation.edits import Augmented, count_asked
from llm_variability.augmentation.keyboard import read_neighbours
from llm_variability.config import ConfigError

Tagger = Callable[[Sequence[str]], list[tuple[str, str]]]
"""Gives each word its part of speech in the Penn Treebank's letters."""


@contextmanager
def _global_stream(seed: int) -> Iterator[None]:
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)


def published_keyboard(text: str, rate: float, seed: int) -> Augmented:
    """Make typing errors by the published call.

    The account is by character: the same are eligible as for `keyboard`. nlpaug changes white
    space but neither adds nor drops other characters, so result and original are compared one by
    one with white space left out.
    Raises ValueError for a rate outside 0 to 1.
    """
    neighbours = read_neighbours()
    before = "".join(text.split())
    eligible = sum(character in neighbours for character in before)
    asked = count_asked(rate, eligible)
    if before:
        from nlpaug.augmenter.char import KeyboardAug

        augmenter = KeyboardAug(
            aug_char_p=rate,
            aug_word_p=rate,
            aug_char_min=0,
            aug_char_max=None,
            aug_word_max=len(text),
        )
        with _global_stream(seed):
            text = augmenter.augment(text, n=1)[0]
    after = "".join(text.split())
    edited = sum(old != new for old, new in zip(before, after, strict=True))
    return Augmented(text, rate, "character", eligible, eligible, asked, edited, None)


def _need_nltk_data(folder: Path | None) -> Any:
    """Give nltk, with WordNet in reach; nlpaug would try to download what it misses."""
    try:
        import nltk
    except ModuleNotFoundError:
        raise ConfigError("nlpaug-synonym: package 'nltk' is not installed") from None
    if folder is not None and str(folder.resolve()) not in nltk.data.path:
        nltk.data.path.insert(0, str(folder.resolve()))
    for resource in ("corpora/wordnet", "corpora/wordnet.zip"):
        try:
            nltk.data.find(resource)
            return nltk
        except LookupError:
            continue
    raise ConfigError("nlpaug-synonym: WordNet is not in NLTK's data path")


def _need_tagger(nltk: Any) -> Tagger:
    try:
        nltk.data.find("taggers/averaged_perceptron_tagger_eng")
    except LookupError:
        raise ConfigError(
            "nlpaug-synonym: NLTK's averaged_perceptron_tagger_eng is not in its data path;"
            " nltk.download('averaged_perceptron_tagger_eng') fetches it"
        ) from None
    tag: Tagger = nltk.pos_tag
    return tag


def check_published_synonyms() -> None:
    """Raise ConfigError if NLTK or its tagger is not on this machine."""
    try:
        import nltk
    except ModuleNotFoundError:
        raise ConfigError("nlpaug-synonym: package 'nltk' is not installed") from None
    _need_tagger(nltk)


def published_synonyms(
    text: str,
    rate: float,
    seed: int,
    nltk_data: Path | None = None,
    tagger: Tagger | None = None,
) -> Augmented:
    """Replace words by synonyms by the published call.

    nltk_data: folder that `fetch_wordnet` laid out; None for NLTK's own data path.
    tagger: what tells parts of speech; None for NLTK's, as published.
    The account is by nlpaug's own words (its pieces of the text, punctuation left out) and its own
    list of what it replaced.
    Raises ValueError for a rate outside 0 to 1, and ConfigError if nltk, WordNet or the tagger is
    missing.
    """
    nltk = _need_nltk_data(nltk_data)
    tagger = tagger or _need_tagger(nltk)
    from nlpaug.augmenter.word import SynonymAug

    augmenter = SynonymAug(aug_p=rate, aug_min=0, aug_max=len(text))
    augmenter.include_detail = True
    augmenter.model.pos_tag = tagger
    pieces = augmenter.tokenizer(text)
    words = sum(piece not in string.punctuation for piece in pieces)
    asked = count_asked(rate, words)
    changes: list[Any] = []
    if pieces:
        with _global_stream(seed):
            text, changes = augmenter.augment(text, n=1)[0]
    return Augmented(text, rate, "word", words, words, asked, len(changes), None)
