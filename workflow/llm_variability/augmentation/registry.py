"""The methods by name, and the augmented texts of a study, one after another.

A new method is one more entry here. Paraphrases are not among them: they need a model, have no rate
and are asked for and scored by `paraphrase`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from llm_variability.augmentation.edits import Augmented, stream_seed
from llm_variability.augmentation.keyboard import augment_keyboard
from llm_variability.augmentation.lexicon import WordNet
from llm_variability.augmentation.published import published_keyboard, published_synonyms
from llm_variability.augmentation.synonym import augment_synonyms
from llm_variability.augmentation.wordnet import find_wordnet
from llm_variability.config import ConfigError, canonical_number

Augmenter = Callable[[str, float, int], Augmented]
"""Takes a text, a rate from 0 to 1 and a seed."""


class Method(NamedTuple):
    """A method. `make` takes an NLTK data folder, or None for WordNet where it usually is.

    exact: its account lists every edit, and rate 0 is the text itself.
    """

    make: Callable[[Path | None], Augmenter]
    needs_wordnet: bool
    exact: bool


METHODS = {
    "keyboard": Method(lambda _: augment_keyboard, False, True),
    "synonym": Method(
        lambda folder: partial(augment_synonyms, wordnet=WordNet(find_wordnet(folder))), True, True
    ),
    "nlpaug-keyboard": Method(lambda _: published_keyboard, False, False),
    "nlpaug-synonym": Method(
        lambda folder: partial(published_synonyms, nltk_data=folder), True, False
    ),
}


class AugmentedPrompt(NamedTuple):
    """An augmented text: which text, by which method, at which nominal rate, the how manieth."""

    name: str
    method: str
    rate: str
    variant: int
    result: Augmented


def find_method(name: str) -> Method:
    """Find a method by its name. Raises ConfigError if there is none."""
    if name not in METHODS:
        raise ConfigError(f"augmentation: {name!r} is no method. Allowed: {', '.join(METHODS)}")
    return METHODS[name]


def augment_texts(
    texts: Mapping[str, str],
    method: str,
    rates: Sequence[str | float],
    variants: int,
    seed: int,
    nested: bool = False,
    wordnet: Path | None = None,
) -> Iterator[AugmentedPrompt]:
    """Augment every text at every rate, several times.

    texts: by what names them. rates: from 0 to 1. variants: at each rate; at rate 0 an exact method
    gives one, which is the text. nested: the edits at a lower rate are among those at a higher one
    (exact methods). wordnet: NLTK data folder, for the methods that need one.
    Raises ConfigError for an unknown method or a missing WordNet, ValueError for a rate outside
    0 to 1. Adding texts, rates or variants changes none that were there.
    """
    found = find_method(method)
    augment = found.make(wordnet)
    for name, text in texts.items():
        for rate in (canonical_number(rate) for rate in rates):
            for variant in range(1 if found.exact and float(rate) == 0 else variants):
                stream = stream_seed(seed, name, method, rate, variant, nested)
                result = augment(text, float(rate), stream)
                yield AugmentedPrompt(name, method, rate, variant, result)
