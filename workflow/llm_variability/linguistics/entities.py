"""Entities of prompts: by persona, in pairs of one sentence, shared by two personas.

The idea is the view of speakers in El-Assady et al.: speakers are joined by the entities that both
use, and entities by standing in one sentence. Their entities are named ones of ten kinds; here they
are noun phrases and named entities, since prompts name few.

Sources: El-Assady, Sevastjanova, Gipp, Keim and Collins 2017, Computer Graphics Forum 36 (NEREx:
two entities are related if they stand near each other in a sentence); El-Assady et al. 2019, ACL
System Demonstrations (lingvis.io), which figure 5 of the code paper was made with.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from llm_variability.fits.multiplicity import adjust_within
from llm_variability.fits.random_intercept import Floats
from llm_variability.linguistics.parsing import Sentence, Token
from llm_variability.linguistics.prompts import Prompt
from llm_variability.streams import begin_stream
from llm_variability.tables_personas import COOCCURRENCES, ENTITIES, SHARED_ENTITIES

Pair = tuple[str, str]

LONGEST_ENTITY = 5
"""Words of an entity; of a longer phrase the last ones count, the head among them."""

NUMERIC = ("CARDINAL", "DATE", "MONEY", "ORDINAL", "PERCENT", "QUANTITY", "TIME")
"""Labels of named entities that are numbers and times and not counted."""

SHARED = ("entities", "cooccurrences")
"""What is shared by two personas or not."""

COLUMNS_AT_ONCE = 4096
"""Entities or pairs whose permuted counts are held in memory at once."""

_NOUNS = ("NOUN", "PROPN")
_MODIFIERS = ("ADJ", "NOUN", "PROPN", "VERB")


@dataclass(frozen=True)
class Mentioned:
    """What stands in a sentence: its entities, and the pairs of them that do not overlap.

    pairs: each in alphabetical order.
    """

    entities: frozenset[str]
    pairs: frozenset[Pair]


def find_entities(sentence: Sentence) -> Mentioned:
    """Find the entities of a sentence.

    A noun phrase is its head with the adjectives, nouns, names and participles before it, as
    lemmas; determiners, pronouns, numbers and what ends in possessive 's go. Of a phrase whose head
    is a pronoun nothing is left. A named entity counts besides the phrase that it is part of ("a
    Python function": python, python function), but the two are no pair.
    """
    spans = [*sentence.phrases]
    spans += [(start, end) for start, end, label in sentence.names if label not in NUMERIC]
    mentions = {
        (start, end): name
        for start, end in spans
        if (name := name_entity(sentence.tokens[start:end]))
    }
    pairs = {
        (min(one, other), max(one, other))
        for (place, one), (elsewhere, other) in combinations(mentions.items(), 2)
        if one != other and (place[1] <= elsewhere[0] or elsewhere[1] <= place[0])
    }
    return Mentioned(frozenset(mentions.values()), frozenset(pairs))


def name_entity(tokens: Sequence[Token]) -> str:
    """Name what a phrase speaks of: the lemmas of its last words; empty for a phrase of no noun."""
    kept = [token for token in tokens if token.pos in _MODIFIERS and token.is_word]
    while kept and kept[-1].pos not in _NOUNS:
        kept.pop()
    return " ".join(token.lemma for token in kept[-LONGEST_ENTITY:])


@dataclass(frozen=True)
class Speech:
    """What a prompt speaks of: whose it is, and what stands in each of its sentences."""

    task: str
    persona: str
    mentioned: tuple[Mentioned, ...]

    def collect(self, of: str) -> set[str] | set[Pair]:
        """Collect the entities, or the pairs, of the whole prompt."""
        if of == "entities":
            return {entity for each in self.mentioned for entity in each.entities}
        return {pair for each in self.mentioned for pair in each.pairs}


def read_speech(prompts: Sequence[Prompt]) -> list[Speech]:
    """Find the entities of all sentences of all prompts."""
    return [
        Speech(prompt.task, prompt.persona, tuple(map(find_entities, prompt.sentences)))
        for prompt in prompts
    ]


def list_personas(speech: Sequence[Speech]) -> list[str]:
    """List the personas in the order in which they first ask."""
    return list(dict.fromkeys(each.persona for each in speech))


def count_entities(speech: Sequence[Speech]) -> pl.DataFrame:
    """Count entities by persona: an ENTITIES table, in alphabetical order."""
    sentences = Counter(
        (entity, each.persona)
        for each in speech
        for mentioned in each.mentioned
        for entity in mentioned.entities
    )
    prompts = Counter((name, each.persona) for each in speech for name in each.collect("entities"))
    rows = [(*key, count, prompts[key]) for key, count in sorted(sentences.items())]
    schema = {name: each.dtype for name, each in ENTITIES.columns.items()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def count_cooccurrences(speech: Sequence[Speech]) -> pl.DataFrame:
    """Count pairs of entities in one sentence by persona: a COOCCURRENCES table."""
    sentences = Counter(
        (*pair, each.persona)
        for each in speech
        for mentioned in each.mentioned
        for pair in mentioned.pairs
    )
    rows = [(*key, count) for key, count in sorted(sentences.items())]
    schema = {name: each.dtype for name, each in COOCCURRENCES.columns.items()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def compare_sets(speech: Sequence[Speech], permutations: int, seed: int) -> pl.DataFrame:
    """Compare each two personas' entities, and pairs of them: a SHARED_ENTITIES table.

    A persona's set is what at least one of its prompts has. Null hypothesis: in each task, the
    prompts of the two personas are exchangeable. Their personas are permuted within the task, with
    as many prompts each as there were; the union of the two sets stays the same. One-sided:

        p = (1 + number of permuted Jaccard indices that are as small) / (1 + permutations)

    is small where the two personas' sets are less alike than those of prompts that were dealt to
    two persons at random. Holm and Benjamini-Hochberg over all pairs of personas, entities and
    cooccurrences each by themselves.

    Source of p: Phipson and Smyth 2010, Statistical Applications in Genetics and Molecular
    Biology 9.
    """
    rows = [
        compare_pair(speech, (first, second), of, permutations, seed)
        for of in SHARED
        for first, second in combinations(list_personas(speech), 2)
    ]
    dtypes = {name: each.dtype for name, each in SHARED_ENTITIES.columns.items()}
    adjusted = ("p_holm", "p_bh", "family_size")
    tested = pl.DataFrame(rows, schema={k: v for k, v in dtypes.items() if k not in adjusted})
    return adjust_within(tested, pl.lit(True), ["of"]).select(*dtypes)


def compare_pair(
    speech: Sequence[Speech], pair: Pair, of: str, permutations: int, seed: int
) -> dict[str, object]:
    """Compare two personas: a row of a SHARED_ENTITIES table without adjusted p values."""
    asked = [each for each in speech if each.persona in pair]
    sets = [each.collect(of) for each in asked]
    is_first = np.array([each.persona == pair[0] for each in asked])
    ours = set().union(*(each for each, first in zip(sets, is_first, strict=True) if first))
    theirs = set().union(*(each for each, first in zip(sets, is_first, strict=True) if not first))
    together = len(ours | theirs)
    row: dict[str, object] = {
        "first": pair[0],
        "second": pair[1],
        "of": of,
        "shared": len(ours & theirs),
        "first_only": len(ours - theirs),
        "second_only": len(theirs - ours),
        "jaccard": len(ours & theirs) / together if together else None,
        "permuted": None,
        "p_value": None,
        "reason": None,
    }
    tasks = [each.task for each in asked]
    if not together:
        return row | {"reason": f"neither persona has {of}"}
    if count_dealings(tasks, is_first) <= 2:
        return row | {"reason": "no two prompts of a task can change personas to any effect"}
    rng = begin_stream(seed, "linguistics", "shared", *pair)
    labels = permute_within(tasks, is_first, permutations, rng)
    permuted = count_shared(tabulate_sets(sets), labels)
    p = (1 + int((permuted <= len(ours & theirs)).sum())) / (1 + permutations)
    return row | {"permuted": float(permuted.mean()) / together, "p_value": p}


def count_dealings(tasks: Sequence[str], is_first: NDArray[np.bool_]) -> int:
    """Count the ways to deal each task's prompts to two personas, as many to each as there were."""
    sizes = Counter(tasks)
    firsts = Counter(task for task, first in zip(tasks, is_first, strict=True) if first)
    return math.prod(math.comb(size, firsts[task]) for task, size in sizes.items())


def permute_within(
    tasks: Sequence[str],
    labels: NDArray[np.bool_],
    permutations: int,
    rng: np.random.Generator,
) -> NDArray[np.bool_]:
    """Permute labels at random among the prompts of each task: (permutations, prompts)."""
    permuted = np.tile(labels, (permutations, 1))
    of_task = np.array(tasks)
    for task in dict.fromkeys(tasks):
        places = np.flatnonzero(of_task == task)
        permuted[:, places] = rng.permuted(permuted[:, places], axis=1)
    return permuted


def tabulate_sets(sets: Sequence[Iterable[object]]) -> Floats:
    """Tabulate which set has which member of at least two sets: (sets, members), 0 or 1.

    A member of one set alone is never shared, whoever has it.
    """
    held = Counter(member for each in sets for member in set(each))
    column = {member: i for i, member in enumerate(m for m, count in held.items() if count > 1)}
    table = np.zeros((len(sets), len(column)), dtype=np.float32)
    for row, each in enumerate(sets):
        table[row, [column[member] for member in set(each) if member in column]] = 1
    return table


def count_shared(table: Floats, labels: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count, under each labelling, members of a set of either label.

    table: (sets, members), as `tabulate_sets` makes it. labels: (labellings, sets).
    Returns (labellings,).
    """
    chosen = labels.astype(np.float32)
    shared = np.zeros(len(labels), dtype=np.int64)
    for start in range(0, table.shape[1], COLUMNS_AT_ONCE):
        part = table[:, start : start + COLUMNS_AT_ONCE]
        holders = chosen @ part
        shared += ((holders > 0.5) & (holders < part.sum(axis=0) - 0.5)).sum(axis=1)
    return shared
