"""Synonyms: a word becomes another of one of its meanings in WordNet.

Source: section III-C of the code paper, which took nlpaug's synonyms of all meanings of a word as
the part of speech that a tagger finds. No tagger is needed here: a word is taken for the part of
speech it has most often in the texts that WordNet's authors tagged.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from llm_variability.augmentation.edits import Augmented, Unit, edit_units
from llm_variability.augmentation.lexicon import PARTS, WordNet

WORD = re.compile(r"(?<!\w)(?<!\w['’])[^\W\d_]+(?:['’][^\W\d_]+)*(?![\w'’]*[\d_])")
"""A word: letters, with apostrophes inside. Not a part of a name such as `row_2`."""

_CLOSED_CLASSES = """
    a an the this that these those each every either neither both all any some no none such same
    other another much many more most few fewer less least several own enough
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his
    himself she her hers herself it its itself they them their theirs themselves one ones
    who whom whose which what whatever whichever where when why how
    am is are was were be been being do does did doing done have has had having can could may might
    must shall should will would ought need
    and or but nor if then else than so as because while until unless although though whether
    in on at by to of off for from with without within into onto out over under above below
    between among through during before after up down about against per via upon across along
    around near toward towards since
    not never only just too very also even still yet again once here there now ever
"""

FUNCTION_WORDS = frozenset(_CLOSED_CLASSES.split())
"""Words that hold a sentence together. WordNet knows many as something else: `in` is indium."""

_PLAIN = re.compile(r"[a-z]+(?:[ '-][a-z]+)*")


def match_case(word: str, model: str) -> str:
    """Write a word in small letters the way the model is written: Xx, XX, or as it is."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


def list_synonyms(word: str, wordnet: WordNet) -> list[str]:
    """List what may stand for a word, in its case; empty if nothing may.

    Words of all its meanings as the part of speech it most often is, or the next most often where
    that has none. Left out: the word itself and its base forms, names, abbreviations, and anything
    but letters. Function words and single letters have none.
    """
    small = word.lower()
    if len(word) < 2 or small in FUNCTION_WORDS:
        return []
    itself = {small, *(form for part in PARTS for form in wordnet.base_forms(small, part))}
    by_use = sorted(wordnet.synonyms(small).values(), key=lambda found: -found[0])
    for _, listed in by_use:
        words = (each.replace("_", " ") for each in listed)
        if plain := [each for each in words if _PLAIN.fullmatch(each) and each not in itself]:
            return [match_case(each, word) for each in plain]
    return []


def augment_synonyms(text: str, rate: float, seed: int, wordnet: WordNet) -> Augmented:
    """Replace round(rate x words) words by synonyms, or as many as have one.

    Eligible is every word; replaceable are those for which `list_synonyms` finds something, about
    half of a usual text, and the realised rate cannot pass their share. A synonym is put in as
    WordNet has it: not inflected, and possibly two words.
    Raises ValueError for a rate outside 0 to 1.
    """
    words = list(WORD.finditer(text))
    units = [
        Unit(word.start(), word[0], choices)
        for word in words
        if (choices := list_synonyms(word[0], wordnet))
    ]
    return edit_units(text, "word", units, len(words), rate, seed)


def synonym_augmenter(wordnet: WordNet) -> Callable[[str, float, int], Augmented]:
    """Give `augment_synonyms` with one WordNet, as a function of text, rate and seed."""
    return lambda text, rate, seed: augment_synonyms(text, rate, seed, wordnet)
