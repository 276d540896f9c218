"""TSED, the tree similarity of edit distance, in this project's form and in the published one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import tree_sitter

from llm_variability.code.edit_distance import MAX_NODES, ComparedTrees, Costs
from llm_variability.code.trees import Tree, parse_code, read_named_nodes, read_published


@dataclass(frozen=True)
class Variant:
    """A way to compute TSED: how trees are read from code, and what edits cost."""

    name: str
    read: Callable[[tree_sitter.Tree], Tree]
    costs: Costs

    def read_code(self, code: str, language: str) -> Tree:
        """Read code as this variant does. Raises ConfigError for a language that cannot be had."""
        return self.read(parse_code(code, language))


_VARIANTS = (
    Variant("tsed", read_named_nodes, Costs(1.0, 1.0, 1.0)),
    Variant("tsed-published", read_published, Costs(1.0, 0.8, 1.0)),
)

VARIANTS: Mapping[str, Variant] = MappingProxyType({each.name: each for each in _VARIANTS})
"""`tsed`: nodes are labelled with their own types, and the two ways round are alike.
`tsed-published`: labels, costs and direction of the published code, to reproduce its numbers."""


def scale_distances(distances: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Turn edit distances into similarities: max(0, 1 - d / max(n1, n2)).

    distances: (m,). sizes: (m, 2), from 1. Returns (m,), in [0, 1].
    Source: Song et al. 2024, equation 3.
    """
    return np.maximum(0.0, 1.0 - distances / np.max(sizes, axis=1))


def compare_trees(
    trees: Sequence[Tree],
    pairs: np.ndarray,
    costs: Costs,
    *,
    max_nodes: int = MAX_NODES,
    threads: int | None = None,
) -> np.ndarray:
    """Give the similarity of pairs of trees.

    pairs: (m, 2), positions in trees; the first, the reference, is edited into the second. A
    distinct tree is made ready once and a pair of distinct trees worked on once. threads: as for
    `ComparedTrees.distances`. Returns (m,), in [0, 1]; 1 for equal trees.
    Raises ConfigError for a tree of more than max_nodes nodes.
    """
    chosen = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    if not len(chosen):
        return np.zeros(0)
    distances = ComparedTrees(trees, max_nodes).distances(chosen, costs, threads)
    return scale_distances(distances, np.array([tree.size for tree in trees])[chosen])


def compare_codes(
    codes: Sequence[str],
    pairs: np.ndarray,
    language: str,
    variant: str = "tsed",
    *,
    costs: Costs | None = None,
    max_nodes: int = MAX_NODES,
    threads: int | None = None,
) -> np.ndarray:
    """Give the TSED of pairs of programs, each distinct program parsed once.

    pairs: (m, 2), positions in codes, the reference first. variant: one of `VARIANTS`. costs: those
    of the variant where not given. Returns (m,), in [0, 1].

    Two empty programs score 1, as two equal ones do: which draws are code at all is for
    `extraction` to say, and only those are to be compared.
    Raises ConfigError for a language that cannot be had and for a tree of more than max_nodes.
    """
    chosen = VARIANTS[variant]
    distinct = {code: chosen.read_code(code, language) for code in dict.fromkeys(codes)}
    trees = [distinct[code] for code in codes]
    return compare_trees(trees, pairs, costs or chosen.costs, max_nodes=max_nodes, threads=threads)
