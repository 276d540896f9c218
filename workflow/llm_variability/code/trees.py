"""From a program to an ordered tree with labels, the form that the edit distance takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from sys import intern

import numpy as np
import tree_sitter

from llm_variability.code.languages import load_grammar


@dataclass(frozen=True, eq=False)
class Tree:
    """An ordered tree, its nodes in postorder (left to right, children before parents).

    labels: (n,), n >= 1. leftmost: (n,) int32, the number of each node's leftmost leaf. size: the
    number of nodes that similarities divide by, which the published code counts otherwise than the
    nodes it compares.
    """

    labels: tuple[str, ...]
    leftmost: np.ndarray
    size: int

    @cached_property
    def key(self) -> tuple[tuple[str, ...], bytes]:
        """What two trees share that are node for node the same."""
        return self.labels, self.leftmost.tobytes()

    def __len__(self) -> int:
        return len(self.labels)


def tree_from_parents(
    labels: Sequence[str], parents: Sequence[int], size: int | None = None
) -> Tree:
    """Build a tree from nodes in preorder (parents before children, left to right).

    parents: (n,), the number of each node's parent; the root comes first and has -1. size: as in
    `Tree`; n where it is not given.
    Raises ValueError where the order is not a preorder of one tree.
    """
    if len(labels) != len(parents) or not len(labels) or parents[0] != -1:
        raise ValueError("a tree needs a label and a parent for each node, the root first")
    postorder: list[str] = []
    leftmost: list[int] = []
    open_nodes: list[tuple[int, int]] = []  # (node, how many nodes were closed when it opened)

    def close() -> None:
        node, first = open_nodes.pop()
        postorder.append(intern(labels[node]))  # else each node would hold a text of its own
        leftmost.append(first)

    for node, parent in enumerate(parents):
        while open_nodes and open_nodes[-1][0] != parent:
            close()
        if node and not open_nodes:
            raise ValueError(f"node {node} does not follow its parent {parent} in preorder")
        open_nodes.append((node, len(postorder)))
    while open_nodes:
        close()
    order = np.array(leftmost, dtype=np.int32)
    return Tree(tuple(postorder), order, len(postorder) if size is None else size)


def parse_code(code: str, language: str) -> tree_sitter.Tree:
    """Parse code as it is; mistakes in it become ERROR and MISSING nodes, never an exception.

    Raises ConfigError for a language that is not known or whose grammar is not installed.
    """
    parser = tree_sitter.Parser(load_grammar(language))
    return parser.parse(code.encode("utf-8", "replace"))


def read_named_nodes(parsed: tree_sitter.Tree) -> Tree:
    """Read the named nodes, each labelled with its own type.

    Names, constants and operators' signs are no nodes' types, so they do not count: `x + 1` and
    `y - 2` are the same tree.
    """
    labels: list[str] = []
    parents: list[int] = []
    ancestors = [-1]
    cursor = parsed.walk()
    entering = True
    while True:
        node = cursor.node
        assert node is not None
        if entering and node.is_named:
            labels.append(node.type)
            parents.append(ancestors[-1])
        if entering and cursor.goto_first_child():
            ancestors.append(len(labels) - 1 if node.is_named else ancestors[-1])
            continue
        entering = cursor.goto_next_sibling()
        if not entering:
            if not cursor.goto_parent():
                return tree_from_parents(labels, parents)
            ancestors.pop()


def read_published(parsed: tree_sitter.Tree) -> Tree:
    """Read a tree as the published TSED does: from the words of its S-expression.

    Each word is made the label of the node that is open, so a node ends up labelled with the last
    of its children's field names (`right:`), or with its type where no child has one. The size is
    the number of closing parentheses. A missing sign, printed in quotes, can be a parenthesis: it
    opens or closes a node too, as it does there.

    Source: Song et al. 2024 (TSED), the published implementation.
    """
    text = str(parsed.root_node)
    labels: list[str] = []
    parents: list[int] = []
    ancestors = [-1]
    for word in text.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            parents.append(ancestors[-1])
            ancestors.append(len(labels))
            labels.append("")
        elif word != ")":
            labels[ancestors[-1]] = word
        elif len(ancestors) > 2:
            ancestors.pop()
    root = ancestors[-1]
    shifted = [-1, *(parent - root for parent in parents[root + 1 :])]
    return tree_from_parents(labels[root:], shifted, size=text.count(")"))
