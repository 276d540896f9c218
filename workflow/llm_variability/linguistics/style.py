"""Features of a prompt's wording, from its parsed sentences and lists of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from llm_variability.linguistics.parsing import Sentence, Token
from llm_variability.linguistics.prompts import Prompt
from llm_variability.linguistics.words import CATEGORIES, Words, count_entries
from llm_variability.tables_personas import STYLE

WINDOW = 25
"""Words of a window in which different words are counted."""

FEATURES: Mapping[str, tuple[str, str]] = {
    "words": ("words", "tokens with a letter or digit; clipped endings ('m, n't) are none"),
    "sentences": ("sentences", "with a word; entries of lists and headings are sentences"),
    "words_per_sentence": ("words", "words / sentences"),
    "distinct_words": (
        "share",
        f"different lemmas / words, mean over all windows of {WINDOW} words; none of fewer words",
    ),
    "questions": ("share of sentences", "a question mark, or interrogative syntax"),
    "imperatives": ("share of sentences", "the root is a bare verb without a subject"),
    "imperatives_less_questions": ("share of sentences", "imperatives - questions"),
    "modals": ("per 100 words", "modal verbs (tag MD), clipped ones too"),
    "hedges": ("per 100 words", "maybe, perhaps, kind of, I think, not sure, if possible, ..."),
    "first_person": ("per 100 words", "I, me, my, we, us, our, ..."),
    "politeness": ("per 100 words", "please, thank, could you, would like, ..."),
    "inputs_outputs": ("per 100 words", "input, output, argument, return, format, record, ..."),
    "user_interaction": ("per 100 words", "user, click, press, see, type, screen, button, ..."),
    "inputs_outputs_less_user_interaction": (
        "per 100 words",
        "inputs_outputs - user_interaction",
    ),
    "technical": ("per 100 words", "class, function, API, exception, unit test, database, ..."),
    "deployment": ("per 100 words", "deploy, cloud, scale, container, security, production, ..."),
    "data_and_language": ("per 100 words", "Python, NumPy, CSV, data, spreadsheet, unit, ..."),
}
"""Unit and rule of each feature. What is per 100 words counts entries of `words.yaml`."""

_BARE = ("VB", "VBP")
_FINITE = ("VBP", "VBZ", "VBD", "MD")
_SUBJECTS = ("nsubj", "nsubjpass", "csubj", "csubjpass", "expl")
_CLAUSES = ("acl", "advcl", "ccomp", "csubj", "csubjpass", "relcl")
_SKIPPED = ("INTJ", "CCONJ", "ADV", "PUNCT", "SPACE", "SYM")
"""Parts of speech that may stand before what opens a sentence: please, and, then, maybe."""


@dataclass(frozen=True)
class _Clause:
    """The main clause of a sentence: its root, its subjects and the auxiliaries of the root."""

    root: int
    subjects: tuple[int, ...]
    auxiliaries: tuple[int, ...]


def _find_clause(tokens: Sequence[Token]) -> _Clause | None:
    roots = [i for i, token in enumerate(tokens) if token.head == i and token.pos != "PUNCT"]
    if not roots:
        return None
    root = roots[0]
    below = [i for i, token in enumerate(tokens) if token.head == root and i != root]
    return _Clause(
        root,
        tuple(i for i in below if tokens[i].dep in _SUBJECTS),
        tuple(i for i in below if tokens[i].dep in ("aux", "auxpass")),
    )


def _find_opening(tokens: Sequence[Token]) -> int | None:
    """Find the first word that is no interjection, conjunction or adverb other than how or why."""
    for i, token in enumerate(tokens):
        if token.is_word and (token.pos not in _SKIPPED or token.tag.startswith("W")):
            return i
    return None


def is_question(sentence: Sentence) -> bool:
    """Tell whether a sentence asks: by its mark, or by its syntax where the mark is missing.

    The syntax is interrogative where an auxiliary of the root, or the root itself if it is a form
    of be, opens the sentence and the subject follows it; or where a wh-word of the main clause
    opens it, with such an auxiliary, or as the subject or a part of it. A wh-word of another clause
    asks nothing (What I need is ..., When I click, ...).
    """
    tokens = sentence.tokens
    if any(token.form == "?" for token in tokens):
        return True
    clause, opening = _find_clause(tokens), _find_opening(tokens)
    if clause is None or opening is None:
        return False
    if tokens[opening].tag.startswith("W"):
        if _lies_in_clause(tokens, opening):
            return False
        asked_for = {opening, tokens[opening].head}
        is_subject = opening == clause.root or not asked_for.isdisjoint(clause.subjects)
        return is_subject or _is_inverted(tokens, clause, opening)
    opens = opening in clause.auxiliaries or opening == clause.root
    return opens and _is_inverted(tokens, clause, opening)


def _lies_in_clause(tokens: Sequence[Token], place: int) -> bool:
    while tokens[place].head != place:
        if tokens[place].dep in _CLAUSES:
            return True
        place = tokens[place].head
    return False


def _is_inverted(tokens: Sequence[Token], clause: _Clause, after: int) -> bool:
    """Tell whether a subject follows an auxiliary, or be as the root, at or behind a place."""
    be = [clause.root] if tokens[clause.root].pos == "AUX" else []
    verbs = [i for i in (*clause.auxiliaries, *be) if i >= after]
    return any(subject > verb for subject in clause.subjects for verb in verbs)


def is_imperative(sentence: Sentence, openings: frozenset[str]) -> bool:
    """Tell whether a sentence commands: its root is a bare verb without a subject.

    A modal verb or "to" before the root makes it none, do and don't may stand there. Where the
    tagger takes the verb for a noun, as it often does of one that opens a sentence, the sentence
    is a command nonetheless if a determiner follows (Document every function), or if the word is
    one of `openings` and no preposition follows; not if there is a finite verb with a subject.
    """
    tokens = sentence.tokens
    clause, opening = _find_clause(tokens), _find_opening(tokens)
    if clause is None or opening is None or is_question(sentence):
        return False
    root = tokens[clause.root]
    if root.tag in _BARE and root.pos in ("VERB", "AUX") and not clause.subjects:
        return all(tokens[i].tag not in ("MD", "TO") for i in clause.auxiliaries)
    return _is_command_tagged_noun(tokens, opening, openings)


def _is_command_tagged_noun(
    tokens: Sequence[Token], opening: int, openings: frozenset[str]
) -> bool:
    first, following = tokens[opening], tokens[opening + 1 : opening + 2]
    # A finite verb's subject is its own or, as in "may be shown", that of the verb it helps.
    has_subject = {token.head for token in tokens if token.dep in _SUBJECTS}
    finite = any(
        token.tag in _FINITE and (i in has_subject or token.head in has_subject)
        for i, token in enumerate(tokens)
        if not _lies_in_clause(tokens, i)
    )
    if finite or not following or first.pos not in ("NOUN", "PROPN", "ADJ", "VERB"):
        return False
    if following[0].tag in ("DT", "PDT", "PRP$"):
        return first.tag in ("NN", "NNP")
    return first.form in openings and following[0].pos not in ("ADP", "PUNCT")


def measure_style(sentences: Sequence[Sentence], words: Words) -> dict[str, float | None]:
    """Measure the features of a prompt, in the order and the units of `FEATURES`.

    None where there is nothing to measure: shares without a sentence, rates without a word.
    """
    tokens = [token for sentence in sentences for token in sentence.tokens]
    n_words, n_sentences = sum(sentence.words for sentence in sentences), len(sentences)

    def rate(count: int) -> float | None:
        return 100 * count / n_words if n_words else None

    def share(count: int) -> float | None:
        return count / n_sentences if n_sentences else None

    rates = {
        name: rate(sum(count_entries(each.tokens, words.categories[name]) for each in sentences))
        for name in CATEGORIES
    }
    questions = share(sum(map(is_question, sentences)))
    imperatives = share(sum(is_imperative(each, words.openings) for each in sentences))
    measured = {
        **rates,
        "words": float(n_words),
        "sentences": float(n_sentences),
        "words_per_sentence": share(n_words),
        "distinct_words": measure_distinct([token.lemma for token in tokens if token.is_word]),
        "questions": questions,
        "imperatives": imperatives,
        "imperatives_less_questions": _subtract(imperatives, questions),
        "modals": rate(sum(token.tag == "MD" for token in tokens)),
        "inputs_outputs_less_user_interaction": _subtract(
            rates["inputs_outputs"], rates["user_interaction"]
        ),
    }
    return {name: measured[name] for name in FEATURES}


def _subtract(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second


def measure_distinct(lemmas: Sequence[str]) -> float | None:
    """Mean share of different lemmas in all windows of `WINDOW` words; None of fewer words.

    Unlike different words / words of the whole it does not fall with length.
    Source: Covington and McFall 2010, Journal of Quantitative Linguistics 17 (MATTR), on lemmas.
    """
    if len(lemmas) < WINDOW:
        return None
    windows = (lemmas[i : i + WINDOW] for i in range(len(lemmas) - WINDOW + 1))
    return float(np.mean([len(set(window)) / WINDOW for window in windows]))


def tabulate_style(prompts: Sequence[Prompt], words: Words) -> pl.DataFrame:
    """Measure every prompt: a STYLE table, a row a prompt and feature."""
    rows = [
        {**prompt.named, "iteration": prompt.iteration, "feature": name, "value": value}
        for prompt in prompts
        for name, value in measure_style(prompt.sentences, words).items()
    ]
    return pl.DataFrame(rows, schema={name: each.dtype for name, each in STYLE.columns.items()})
