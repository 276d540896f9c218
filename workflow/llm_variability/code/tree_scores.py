"""TSED of the listed pairs of a model's programs."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from llm_variability.code.edit_distance import Costs
from llm_variability.code.tsed import VARIANTS, Variant, compare_codes
from llm_variability.config import ConfigError, cell_name
from llm_variability.config_code import EditCosts
from llm_variability.table_contract import SETTING

log = logging.getLogger(__name__)


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


def read_variants(names: Sequence[str], costs: str) -> list[Variant]:
    """Look variants up as a command line names them; costs: JSON, null for their own.

    Raises ConfigError as `find_variant` does.
    """
    given = json.loads(costs)
    own = None if given is None else EditCosts.model_validate(given)
    return [find_variant(name, own) for name in names]


def is_symmetric(variant: Variant) -> bool:
    """Tell whether a pair scores the same both ways round: insertions undo deletions."""
    return variant.costs.delete == variant.costs.insert


def score_trees(
    programs: pl.DataFrame, pairs: pl.DataFrame, variant: Variant, max_nodes: int, threads: int
) -> np.ndarray:
    """Score pairs of programs, setting by setting, so that memory is that of one setting.

    programs: a programs table. pairs: as `pairs.list_pairs` gives them, of programs of one
    language and setting each. A pair of distinct programs is worked on once a setting. Returns
    (m,), in [0, 1], the reference edited into the program that is compared with it.
    Raises ConfigError for a program with a larger tree than max_nodes.
    """
    scores = np.zeros(len(pairs))
    drawn = pairs.select("reference", "draw").to_numpy().astype(np.int64)
    kind = ["language", *SETTING]
    kinds = programs.select(kind)[pairs["draw"]].with_row_index("pair")
    for (language, *setting), chosen in kinds.group_by(kind, maintain_order=True):
        among = chosen["pair"].to_numpy()
        rows, places = np.unique(drawn[among], return_inverse=True)
        log.info("%s, %s at %s: %d pairs", variant.name, language, cell_name(*setting), len(among))
        scores[among] = compare_codes(
            programs["code"].gather(rows).to_list(),
            places.reshape(-1, 2),
            str(language),
            variant.name,
            costs=variant.costs,
            max_nodes=max_nodes,
            threads=threads,
        )
    return scores
