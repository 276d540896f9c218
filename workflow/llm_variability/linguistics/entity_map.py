"""The map of entities: near ones stand in like sentences, coloured by who uses them most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from llm_variability.fits.random_intercept import Floats
from llm_variability.linguistics.entities import find_entities
from llm_variability.linguistics.prompts import Prompt
from llm_variability.linguistics.topics import list_content
from llm_variability.tables_personas import ENTITY_MAP, SEVERAL

MOST_ENTITIES = 500
"""Entities on the map: those of most sentences, of as many the first in the alphabet."""

_ROUNDING = 1e-9


def draw_map(prompts: Sequence[Prompt]) -> pl.DataFrame:
    """Place entities on a map: an ENTITY_MAP table, in alphabetical order.

    The share of a persona is its sentences with the entity / all its sentences, divided by the sum
    of that over personas; where two or more have the largest one, SEVERAL stands for them.
    """
    by_entity: dict[str, Counter[str]] = {}
    contexts: dict[str, Counter[str]] = {}
    said = Counter(prompt.persona for prompt in prompts for _ in prompt.sentences)
    for prompt in prompts:
        for sentence in prompt.sentences:
            lemmas = set(list_content([sentence]))
            for entity in find_entities(sentence).entities:
                by_entity.setdefault(entity, Counter())[prompt.persona] += 1
                contexts.setdefault(entity, Counter()).update(lemmas - set(entity.split()))
    ranked = sorted(by_entity, key=lambda entity: (-by_entity[entity].total(), entity))
    kept = sorted(ranked[:MOST_ENTITIES])
    places = scale_profiles(weigh_contexts([contexts[entity] for entity in kept]))
    rows = []
    for entity, (x, y) in zip(kept, places, strict=True):
        rates = {who: by_entity[entity][who] / n for who, n in said.items()}
        largest = max(rates.values())
        most = [who for who, rate in rates.items() if rate > largest * (1 - _ROUNDING)]
        rows.append(
            {
                "entity": entity,
                "x": float(x),
                "y": float(y),
                "persona": most[0] if len(most) == 1 else SEVERAL,
                "share": largest / sum(rates.values()),
                "sentences": by_entity[entity].total(),
            }
        )
    return pl.DataFrame(
        rows, schema={name: each.dtype for name, each in ENTITY_MAP.columns.items()}
    )


def weigh_contexts(contexts: Sequence[Mapping[str, int]]) -> Floats:
    """Weigh words by how much oftener they stand with an entity than chance has it (PPMI).

    The weight is log2 of P(entity, word) / (P(entity) P(word)), 0 where that is negative or they
    never stand together.

    contexts: of each entity, in how many of its sentences each word stands.
    Returns (entities, words), words in alphabetical order.
    Source: Levy, Goldberg and Dagan 2015, Transactions of the ACL 3, section 2.
    """
    words = sorted({word for each in contexts for word in each})
    column = {word: i for i, word in enumerate(words)}
    counts = np.zeros((len(contexts), len(words)))
    for row, each in enumerate(contexts):
        for word, count in each.items():
            counts[row, column[word]] = count
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights: Floats = np.log2(counts * counts.sum() / expected)
    return np.where(counts > 0, np.maximum(weights, 0), 0)


def scale_profiles(profiles: Floats) -> Floats:
    """Place rows in the plane by classical scaling of the distances of their directions.

    The squared distance of two rows is 2 - 2 cosine, that is 2 at right angles; a row of nothing
    but zeros is at 1 from all others. Each axis is turned so that its farthest place, the first of
    several, is positive; axes of no extent are 0. Where two axes are of the same extent, any turn
    of the plane is as good, and which one comes depends on the linear algebra at hand.

    profiles: (n, d), n and d of any size, 0 among them. Returns (n, 2).
    Source: Torgerson 1952, Psychometrika 17; as principal coordinates, Gower 1966, Biometrika 53.
    """
    places = np.zeros((len(profiles), 2))
    if not len(profiles):
        return places
    lengths = np.linalg.norm(profiles, axis=1, keepdims=True)
    units = np.divide(profiles, lengths, out=np.zeros_like(profiles), where=lengths > 0)
    centred = units - units.mean(axis=0)
    extents, axes = np.linalg.eigh(centred @ centred.T)
    for axis in range(min(2, len(profiles))):
        extent, places_of = extents[-1 - axis], axes[:, -1 - axis]
        if extent > _ROUNDING:
            places[:, axis] = _turn(places_of * np.sqrt(extent))
    return places


def _turn(places: Floats) -> Floats:
    farthest = np.flatnonzero(np.abs(places) >= np.abs(places).max() - _ROUNDING)[0]
    return places if places[farthest] > 0 else -places
