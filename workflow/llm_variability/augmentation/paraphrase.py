"""Paraphrases: what a model is asked, how its answer is read, scored and sorted into bands.

Source: section III-C and figures 1 and 3 of the code paper. Here is what needs no model; the stage
`paraphrases` writes the requests and scores what the draws stage got. Low BLEU means much other
wording.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

BANDS = {"low": (0.5, 1.0), "medium": (0.2, 0.5), "high": (0.0, 0.2)}
"""Degree of diversity, and the BLEU (0 to 1) from which and below which it is meant; 1 is low."""

INSTRUCTIONS = {
    "low": (
        "Change a few words only. Keep the order of the sentences and most of the wording, so that"
        " somebody who compares the two has to look closely."
    ),
    "medium": (
        "Use other words and other sentence structures where you can. The order of the points may"
        " stay as it is."
    ),
    "high": (
        "Say it in entirely different words, as somebody would who has understood the request and"
        " tells it to a colleague from memory. Share as few phrases with the original as you can,"
        " and put the points in another order where that does no harm."
    ),
}
"""What is asked for each degree of diversity. The band is decided by the BLEU that comes of it."""

_REQUEST = (
    "Reword the request between <request> and </request>. Do not fulfil it: no code, no answer.\n"
    "{degree}\n"
    "The meaning must stay exactly the same: keep every requirement, number, name and example, and"
    " add none.\n"
    "Write the reworded request, and nothing else, between <reworded> and </reworded>.\n\n"
    "<request>\n{text}\n</request>"
)

_ANSWER = re.compile(r"<reworded>((?:(?!<reworded>).)*?)(?:</reworded>|\Z)", re.DOTALL)
_NAME = re.compile(r"`[^`\n]+`|\b[A-Za-z]\w*[_\d]\w*\b|\b[a-z]+[A-Z]\w*\b|(?<![\w.])\d+(?:\.\d+)?")
_CODE = re.compile(r"^```|^\s*(?:def|class|import|from|return|for|while) .*:?$", re.MULTILINE)

LENGTH_RATIO = 2.0
"""A paraphrase more than this many times as long or as short as the original is flagged."""

FLAGS = {
    "empty": "nothing came",
    "untagged": "the answer has no <reworded>; all of it was taken",
    "unclosed": "<reworded> is not closed, or the answer was cut before it",
    "identical": "it is the original, white space and case aside",
    "lost": "a number or a name in code letters of the original is missing",
    "added": "it has a number or a name in code letters that the original has not",
    "code": "it has lines of code that the original has not: the request may have been fulfilled",
    "length": f"it is more than {LENGTH_RATIO:g} times as long or as short as the original",
    "dissimilar": "its semantic similarity is below the least that is wanted",
    "repeated": "one of the same task that is used has the same words, white space and case aside",
    "shared": "the same words came for another task too, so they are no paraphrase of either",
}
"""What may be wrong with a paraphrase. A flagged one is kept and counted, never dropped unseen."""


@dataclass(frozen=True)
class Paraphrase:
    """A scored paraphrase.

    bleu: sacreBLEU against the original, 0 to 1. band: by its BLEU, whatever was asked for; None
    if there is no text. similarity: semantic similarity to the original, None if not measured.
    flags: keys of FLAGS, in their order.
    """

    text: str
    bleu: float
    band: str | None
    similarity: float | None
    flags: tuple[str, ...]


def ask_for_paraphrase(text: str, degree: str) -> str:
    """Write the request that the model gets. Raises KeyError for a degree that is none."""
    return _REQUEST.format(degree=INSTRUCTIONS[degree], text=text)


def read_answer(answer: str, cut: bool = False) -> tuple[str, tuple[str, ...]]:
    """Take the paraphrase out of a model's answer, reasoning already left out.

    Of several pairs of tags, as when an answer begins by repeating the request, the one with the
    longest text is taken.
    cut: the answer ended at the most tokens that were allowed, not by itself.
    Returns the text, without white space around it, and flags: `untagged` or `unclosed`, both for
    an answer without tags that was cut.
    """
    found = max(_ANSWER.finditer(answer), key=lambda each: len(each[1].strip()), default=None)
    if found is None:
        return answer.strip(), ("untagged", "unclosed") if cut else ("untagged",)
    return found[1].strip(), () if found[0].endswith("</reworded>") else ("unclosed",)


def measure_bleu(paraphrase: str, original: str) -> float:
    """Measure sacreBLEU of a paraphrase against the original, 0 to 1.

    Sentence level, with sacreBLEU's defaults: 13a tokens, up to 4-grams, exponential smoothing,
    effective order.
    """
    from sacrebleu.metrics import BLEU

    score = BLEU(effective_order=True).sentence_score(paraphrase, [original]).score
    return min(max(score / 100, 0.0), 1.0)


def fold_words(text: str) -> str:
    """Write a text in small letters with single blanks, so that its words can be compared."""
    return " ".join(text.casefold().split())


def find_band(bleu: float) -> str:
    """Name the band of a BLEU: low from 0.5, medium from 0.2, high below.

    Raises ValueError for one outside 0 to 1.
    """
    if not 0 <= bleu <= 1:
        raise ValueError(f"BLEU {bleu} is not between 0 and 1")
    return next(name for name, (low, _) in BANDS.items() if bleu >= low)


def _names(text: str) -> set[str]:
    return {each.strip("`") for each in _NAME.findall(text)}


def _lacks(text: str, names: set[str]) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(each)}(?!\w)", text) is None for each in names)


def _find_flags(
    text: str, original: str, similarity: float | None, least: float | None
) -> set[str]:
    if not text:
        return {"empty"}
    ratio = len(text) / len(original) if original else 1.0
    told = {
        "identical": fold_words(text) == fold_words(original),
        "lost": _lacks(text, _names(original)),
        "added": _lacks(original, _names(text)),
        "code": len(_CODE.findall(text)) > len(_CODE.findall(original)),
        "length": not 1 / LENGTH_RATIO <= ratio <= LENGTH_RATIO,
        "dissimilar": similarity is not None and least is not None and similarity < least,
    }
    return {flag for flag, holds in told.items() if holds}


def score_paraphrase(
    answer: str,
    original: str,
    similarity: float | None = None,
    least_similarity: float | None = None,
    cut: bool = False,
) -> Paraphrase:
    """Read, score and flag a model's answer; `repeated` and `shared` take knowing the others.

    similarity: of the text that `read_answer` gives and the original, from an encoder's cosine or
    BERTScore. least_similarity: below it the paraphrase is flagged; None flags none.
    cut: see `read_answer`.
    """
    text, flags = read_answer(answer, cut)
    told = {*flags, *_find_flags(text, original, similarity, least_similarity)}
    bleu = measure_bleu(text, original) if text else 0.0
    return Paraphrase(
        text=text,
        bleu=bleu,
        band=find_band(bleu) if text else None,
        similarity=similarity,
        flags=tuple(flag for flag in FLAGS if flag in told),
    )
