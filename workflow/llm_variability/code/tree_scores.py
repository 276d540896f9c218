"""TSED of the listed pairs of a model's programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from llm_variability.code.edit_distance import Costs
from llm_variability.code.tsed import VARIANTS, Variant, compare_codes
from llm_variability.config import ConfigError
from llm_variability.config_code import EditCosts


def find_variant(name: str, costs: EditCosts | None) -> Variant:
    """Look a variant up; costs: those that `tsed` has in place of its own.

    The published variant keeps its costs, which are a part of what it reproduces.
    Raises ConfigError for a name that is not known.
    """
    if name not in VARIANTS:
        raise ConfigError(f"similarity.variants: {name!r}. Allowed: {', '.join(VARIANTS)}")
    variant = VARIANTS[name]
    if costs is None or name != "tsed":
        return variant
    return replace(variant, costs=Costs(**costs.model_dump()))


def is_symmetric(variant: Variant) -> bool:
    """Tell whether a pair scores the same both ways round: insertions undo deletions."""
    return variant.costs.delete == variant.costs.insert


def score_trees(
    programs: pl.DataFrame, pairs: pl.DataFrame, variant: Variant, max_nodes: int, threads: int
) -> np.ndarray:
    """Score pairs of programs; a pair of distinct programs is worked on once.

    programs: a programs table. pairs: as `pairs.list_pairs` gives them, of programs of one
    language each. Returns (m,), in [0, 1], the reference edited into the program it is compared
    with.
    Raises ConfigError for a program with a larger tree than max_nodes.
    """
    scores = np.zeros(len(pairs))
    drawn = pairs.select("reference", "draw").to_numpy().astype(np.int64)
    languages = programs["language"].gather(pairs["draw"])
    for language in languages.unique(maintain_order=True):
        chosen = np.flatnonzero((languages == language).to_numpy())
        rows, places = np.unique(drawn[chosen], return_inverse=True)
        scores[chosen] = compare_codes(
            programs["code"].gather(rows).to_list(),
            places.reshape(-1, 2),
            language,
            variant.name,
            costs=variant.costs,
            max_nodes=max_nodes,
            threads=threads,
        )
    return scores
