"""The tree edit distance: against zss and apted, on random trees and real programs, and in theory.

zss implements the same recursion, apted another algorithm for the same distance; neither shares
code with the package.
"""

from __future__ import annotations

import ast
import os
import random
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import zss
from apted import APTED, PerEditOperationConfig
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_variability.code import edit_distance as edit_distance_module
from llm_variability.code.edit_distance import (
    ComparedTrees,
    Costs,
    edit_distance,
    edit_distances,
    pair_bytes,
)
from llm_variability.code.trees import Tree, parse_code, read_named_nodes, tree_from_parents
from llm_variability.config import ConfigError

LIBRARY = Path(os.__file__).parent


@dataclass
class Node:
    """What zss and apted take: apted reads name and children, zss what it is told to read."""

    name: str
    children: list[Node] = field(default_factory=list)


def as_nodes(tree: Tree) -> Node:
    waiting: list[tuple[int, Node]] = []
    for number, label in enumerate(tree.labels):
        children = []
        while waiting and waiting[-1][0] >= tree.leftmost[number]:
            children.append(waiting.pop()[1])
        waiting.append((number, Node(label, children[::-1])))
    return waiting[0][1]


def distance_by_zss(first: Tree, second: Tree, costs: Costs) -> float:
    return float(
        zss.distance(
            as_nodes(first),
            as_nodes(second),
            get_children=lambda node: node.children,
            insert_cost=lambda node: costs.insert,
            remove_cost=lambda node: costs.delete,
            update_cost=lambda one, other: 0 if one.name == other.name else costs.rename,
        )
    )


def distance_by_apted(first: Tree, second: Tree, costs: Costs) -> float:
    config = PerEditOperationConfig(costs.delete, costs.insert, costs.rename)
    return float(APTED(as_nodes(first), as_nodes(second), config).compute_edit_distance())


def random_tree(chance: random.Random, nodes: int, labels: int, shape: str) -> Tree:
    """Draw a tree: bushy (parents drawn from all nodes), deep (from the last three) or comb."""
    children: list[list[int]] = [[] for _ in range(nodes)]
    for node in range(1, nodes):
        lowest = {"bushy": 0, "deep": node - 3, "comb": node - 2 + node % 2}[shape]
        parent = chance.randrange(max(0, lowest), node) if shape != "comb" else max(0, lowest)
        children[parent].insert(chance.randrange(len(children[parent]) + 1), node)
    order: list[str] = []
    parents: list[int] = []
    waiting = [(0, -1)]
    while waiting:
        node, parent = waiting.pop()
        waiting += [(child, len(order)) for child in reversed(children[node])]
        order.append(str(chance.randrange(labels)))
        parents.append(parent)
    return tree_from_parents(order, parents)


@st.composite
def trees(draw: st.DrawFn, most: int = 14, labels: int = 3) -> Tree:
    nodes = draw(st.integers(1, most))
    # In preorder a node's parent is its predecessor or one of that one's ancestors.
    parents = [-1]
    for _ in range(1, nodes):
        line = [len(parents) - 1]
        while parents[line[-1]] >= 0:
            line.append(parents[line[-1]])
        parents.append(draw(st.sampled_from(line)))
    drawn = draw(st.lists(st.sampled_from("abcdef"[:labels]), min_size=nodes, max_size=nodes))
    return tree_from_parents(drawn, parents)


def read_module(name: str) -> Tree:
    return read_named_nodes(parse_code((LIBRARY / name).read_text(encoding="utf-8"), "python"))


def mirror_image(tree: Tree) -> Tree:
    labels: list[str] = []
    parents: list[int] = []
    waiting = [(as_nodes(tree), -1)]
    while waiting:
        node, parent = waiting.pop()
        waiting += [(child, len(labels)) for child in node.children]
        labels.append(node.name)
        parents.append(parent)
    return tree_from_parents(labels, parents)


COSTS = (Costs(), Costs(1.0, 0.8, 1.0), Costs(0.3, 0.5, 0.7), Costs(1, 1, 5), Costs(2, 0.25, 0))


@pytest.mark.parametrize("shape", ["bushy", "deep", "comb"])
@pytest.mark.parametrize("labels", [2, 8])
def test_thousands_of_random_trees_are_as_far_apart_as_zss_says(shape: str, labels: int) -> None:
    chance = random.Random(f"zss {shape} {labels}")
    for round_ in range(100):
        drawn = [random_tree(chance, chance.randint(1, 25), labels, shape) for _ in range(6)]
        pairs = [(i, j) for i in range(6) for j in range(6) if i != j]
        costs = COSTS[round_ % len(COSTS)]
        found = edit_distances(drawn, np.array(pairs), costs, threads=1)
        for (i, j), distance in zip(pairs[::6], found[::6], strict=True):
            assert distance == pytest.approx(distance_by_zss(drawn[i], drawn[j], costs), abs=1e-9)


@pytest.mark.parametrize("shape", ["bushy", "deep", "comb"])
def test_thousands_of_random_trees_are_as_far_apart_as_apted_says(shape: str) -> None:
    chance = random.Random(f"apted {shape}")
    for _ in range(700):
        first, second = (random_tree(chance, chance.randint(1, 25), 4, shape) for _ in range(2))
        expected = distance_by_apted(first, second, Costs())
        assert edit_distance(first, second) == expected


def test_larger_random_trees_are_as_far_apart_as_zss_says() -> None:
    chance = random.Random("larger")
    for shape in ("bushy", "deep"):
        first, second = random_tree(chance, 90, 5, shape), random_tree(chance, 70, 5, shape)
        assert edit_distance(first, second) == distance_by_zss(first, second, Costs())


def test_forests_that_fill_several_blocks_of_columns_are_put_together() -> None:
    chance = random.Random("blocks")
    for _ in range(2):
        large, small = random_tree(chance, 400, 4, "deep"), random_tree(chance, 7, 4, "deep")
        ends = {int(left): number for number, left in enumerate(large.leftmost)}
        forests = sum(number - left + 2 for left, number in ends.items())
        assert forests > edit_distance_module._BLOCK
        assert edit_distance(large, small) == distance_by_zss(large, small, Costs())


def read_functions(name: str, most: int = 120) -> list[Tree]:
    """Read the functions of a module of the standard library, each as a program."""
    source = (LIBRARY / name).read_text(encoding="utf-8")
    functions = [
        textwrap.dedent("\n".join(source.splitlines()[node.lineno - 1 : node.end_lineno]))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    ]
    read = [read_named_nodes(parse_code(function, "python")) for function in functions]
    return [tree for tree in read if 20 < len(tree) <= most]


@pytest.mark.parametrize("name", ["textwrap.py", "heapq.py", "shlex.py"])
@pytest.mark.parametrize("costs", [Costs(), Costs(1.0, 0.8, 1.0)])
def test_real_functions_are_as_far_apart_as_apted_says(name: str, costs: Costs) -> None:
    functions = read_functions(name)
    pairs = [(i, (i + 1) % len(functions)) for i in range(len(functions))][:12]
    assert len(pairs) >= 8
    found = edit_distances(functions, np.array(pairs), costs)
    for (i, j), distance in zip(pairs, found, strict=True):
        expected = distance_by_apted(functions[i], functions[j], costs)
        assert distance == pytest.approx(expected, abs=1e-6)


def test_real_functions_are_as_far_apart_as_zss_says() -> None:
    functions = read_functions("bisect.py")
    for other in functions[1:3]:
        assert edit_distance(functions[0], other) == distance_by_zss(functions[0], other, Costs())


def test_real_modules_are_as_far_apart_as_apted_says() -> None:
    one, other = read_module("this.py"), read_module("bisect.py")
    assert edit_distance(one, other) == distance_by_apted(one, other, Costs())


def test_the_example_of_zhang_and_shasha_is_two_edits() -> None:
    # Their figure 4: f(d(a, c(b)), e) and f(c(d(a, b)), e).
    first = tree_from_parents("fdacbe", [-1, 0, 1, 1, 3, 0])
    second = tree_from_parents("fcdabe", [-1, 0, 1, 2, 2, 0])
    assert edit_distance(first, second) == 2


def test_one_node_more_costs_an_insertion_one_way_and_a_deletion_the_other() -> None:
    first, second = tree_from_parents("ab", [-1, 0]), tree_from_parents("abc", [-1, 0, 0])
    costs = Costs(delete=1.0, insert=0.8, rename=1.0)
    assert edit_distance(first, second, costs) == 0.8
    assert edit_distance(second, first, costs) == 1.0


def test_a_rename_never_costs_more_than_a_deletion_and_an_insertion() -> None:
    first, second = tree_from_parents("a", [-1]), tree_from_parents("b", [-1])
    assert edit_distance(first, second, Costs(0.5, 0.25, 9)) == 0.75


@settings(max_examples=200)
@given(trees(), st.sampled_from(COSTS))
def test_a_tree_is_at_no_distance_from_itself(tree: Tree, costs: Costs) -> None:
    again = Tree(tuple(tree.labels), tree.leftmost.copy(), tree.size)
    assert edit_distance(tree, again, costs) == 0


@settings(max_examples=200)
@given(trees(), trees())
def test_the_distance_is_symmetric_where_costs_are(first: Tree, second: Tree) -> None:
    assert edit_distance(first, second) == edit_distance(second, first)


@settings(max_examples=200)
@given(trees(), trees(), st.sampled_from(COSTS))
def test_swapping_trees_and_costs_changes_nothing(first: Tree, second: Tree, costs: Costs) -> None:
    swapped = Costs(costs.insert, costs.delete, costs.rename)
    assert edit_distance(first, second, costs) == edit_distance(second, first, swapped)


@settings(max_examples=200)
@given(trees(10), trees(10), trees(10), st.sampled_from(COSTS))
def test_a_detour_is_never_shorter(first: Tree, second: Tree, third: Tree, costs: Costs) -> None:
    found = edit_distances([first, second, third], np.array([[0, 2], [0, 1], [1, 2]]), costs)
    assert found[0] <= found[1] + found[2] + 1e-9


@settings(max_examples=200)
@given(trees(), trees())
def test_unit_costs_lie_between_the_difference_and_the_larger_of_the_sizes(
    first: Tree, second: Tree
) -> None:
    distance = edit_distance(first, second)
    assert abs(len(first) - len(second)) <= distance <= len(first) + len(second) - 1
    assert distance == round(distance)
    assert (distance == 0) == (first.key == second.key)


@settings(max_examples=200)
@given(trees(), trees(), st.sampled_from(COSTS))
def test_mirror_images_are_as_far_apart(first: Tree, second: Tree, costs: Costs) -> None:
    mirrored = edit_distance(mirror_image(first), mirror_image(second), costs)
    assert edit_distance(first, second, costs) == mirrored


def test_the_number_of_threads_changes_nothing() -> None:
    chance = random.Random("threads")
    drawn = [random_tree(chance, 150, 4, "deep") for _ in range(8)]
    pairs = np.array([(i, j) for i in range(8) for j in range(8)])
    compared = ComparedTrees(drawn)
    alone = compared.distances(pairs, threads=1)
    assert np.array_equal(alone, compared.distances(pairs, threads=3))


def test_a_tree_that_comes_again_is_made_ready_once() -> None:
    chance = random.Random("again")
    first, second = random_tree(chance, 9, 3, "bushy"), random_tree(chance, 9, 3, "bushy")
    compared = ComparedTrees([first, second, first, first])
    found = compared.distances(np.array([[0, 1], [2, 1], [0, 3], [1, 3]]))
    assert compared.distinct == 2
    assert found[0] == found[1] == found[3] > 0
    assert found[2] == 0


def test_no_pairs_have_no_distances() -> None:
    assert edit_distances([], np.zeros((0, 2))).shape == (0,)


def test_a_tree_above_the_limit_is_refused_in_one_line() -> None:
    tree = tree_from_parents("a" * 11, [-1, *range(10)])
    with pytest.raises(ConfigError, match=r"similarity\.max_nodes: .*11 nodes, more than 10") as no:
        edit_distances([tree], np.array([[0, 0]]), max_nodes=10)
    assert "\n" not in str(no.value)


def test_a_pair_of_5000_nodes_is_bounded_by_a_quarter_of_a_gibibyte() -> None:
    assert pair_bytes(5_000, 5_000) < 2**28


@pytest.mark.parametrize("cost", [-0.1, float("nan"), float("inf")])
def test_a_cost_that_is_none_is_refused(cost: float) -> None:
    with pytest.raises(ConfigError, match=r"costs\.insert: .* costs are numbers from 0"):
        Costs(insert=cost)


def test_free_deletions_and_insertions_are_refused() -> None:
    with pytest.raises(ConfigError, match="one has to be above 0"):
        Costs(0, 0, 1)


def test_costs_with_more_digits_than_fit_are_refused() -> None:
    first, second = tree_from_parents("a", [-1]), tree_from_parents("b", [-1])
    with pytest.raises(ConfigError, match="too many digits"):
        edit_distance(first, second, Costs(1.00000001, 1, 1))


@pytest.mark.parametrize(
    ("labels", "parents"),
    [("", []), ("ab", [-1]), ("ab", [0, 0]), ("abc", [-1, 0, 5]), ("abcd", [-1, 0, 0, 1])],
)
def test_parents_that_are_no_preorder_are_refused(labels: str, parents: Sequence[int]) -> None:
    with pytest.raises(ValueError):
        tree_from_parents(labels, parents)
