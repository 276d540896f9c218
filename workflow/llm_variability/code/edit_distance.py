"""The exact tree edit distance of ordered, labelled trees.

The distance of two trees is the least cost of deletions, insertions and renamings that make the
second of the first. It is computed as Zhang and Shasha do, node by node over the forests that their
key roots span, in this form:

- What is maximised is what an edit saves over deleting one tree and inserting the other: a pair of
  nodes of one label saves a deletion and an insertion, of two labels a renaming less. The recursion
  is then free of the costs of deletions and insertions, whatever they are, and serves both
  directions at once. Costs are whole numbers, scaled, so nothing is rounded.
- The forests are those of leftmost or of rightmost paths, for each pair whichever makes less work.
- A subtree that occurs again in a tree, node for node, is not worked on again: the table of
  subtrees has a row and a column for each distinct one.
- Of the rows of a forest only those are kept that a later row looks back to: two for each key root
  that is open, not one for each node.
- A row runs through the forests of many key roots at once, in vectors (`row_scan`).

Source: Zhang and Shasha 1989, SIAM J. Comput. 18(6), sections 3 and 4. The recursion is theirs; the
form, the sharing of subtrees and the storage are this project's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from numba import njit

from llm_variability.code.row_scan import WIDTH, scan_forest, scan_tree
from llm_variability.code.trees import Tree
from llm_variability.config import ConfigError

MAX_NODES = 5_000
"""Most nodes of a tree, unless the caller says otherwise. See `pair_bytes`."""

_LARGEST_SCORE = 2**31 - 1
_WORK_OF_A_TASK = 500_000
"""Vectors of cells that are handed to a thread at once, at the least: a few milliseconds."""


@dataclass(frozen=True)
class Costs:
    """What an edit costs: to delete a node, to insert one, to give one another label.

    Raises ConfigError for a cost that is not finite or below 0, or deletions and insertions that
    are both free.
    """

    delete: float = 1.0
    insert: float = 1.0
    rename: float = 1.0

    def __post_init__(self) -> None:
        for name in ("delete", "insert", "rename"):
            cost = getattr(self, name)
            if not (math.isfinite(cost) and cost >= 0):
                raise ConfigError(f"costs.{name}: {cost} is not a cost; costs are numbers from 0")
        if self.delete + self.insert == 0:
            raise ConfigError("costs.delete, costs.insert: both are 0; one has to be above 0")

    @cache  # noqa: B019 - a handful of costs, each a few numbers
    def scaled(self) -> tuple[int, int, int, int]:
        """Give delete, insert, rename as the smallest whole numbers, and what they are divided by.

        The decimals are taken as they are written: 0.8 is 4/5.
        """
        exact = [Fraction(str(float(cost))) for cost in (self.delete, self.insert, self.rename)]
        scale = math.lcm(*(cost.denominator for cost in exact))
        delete, insert, rename = (int(cost * scale) for cost in exact)
        return delete, insert, rename, scale


_BLOCK = 4096
"""Columns that are worked on together, about: as many as leave the rows in a core's own cache."""


def pair_bytes(first: int, second: int) -> int:
    """Bound the memory that a pair of trees of so many nodes takes, in bytes, for each thread.

    It is what two trees take whose subtrees all differ and whose paths nest as deep as can be. Real
    programs take about a tenth of it.
    """
    return max(
        4 * rows * (columns + 1) + 4 * (rows + 10) * (max(_BLOCK, columns + 1) + WIDTH)
        for rows, columns in ((first, second), (second, first))
    )


# A plan is what is worked out once for a tree and a side: a header, then these, all int32. Nodes
# are numbered in postorder, for the right side in that of the mirror image.
#   labels, leftmost (n each): as in `Tree`
#   subtree (n): the number of the distinct subtree that a node is the root of
#   kept (n): for a leaf that begins a path, where the row before it is kept
#   fresh (n): whether it is the first node of its distinct subtree that is worked on
#   roots (k), heights (k): the key roots that are worked on, one for each distinct subtree, and how
#     deep key roots nest in theirs; the lowest come first
_NODES, _SUBTREES, _ROWS, _HEADER = 0, 1, 2, 3

# What columns hold: the score that their forest begins from; the column before the leftmost leaf of
# their node; their node's distinct subtree; their node's label if it is on its key root's path, or
# -1. Then the columns where a distinct subtree is worked on for the first time.
_BEGIN, _BEHIND, _KIND, _LABEL, _NEW = 0, 1, 2, 3, 4
# What stages hold, a stage the forests of one height: their first column, and their first new one.
_FIRST, _FIRST_NEW = 0, 1


@njit(nogil=True, cache=True)
def _intern(table: np.ndarray, keys: np.ndarray, used: int, first: int, second: int) -> int:
    """Number a pair of numbers: the number it has, or the next (`used`)."""
    mask = len(table) - 1
    place = ((first * 0x9E3779B1) ^ (second * 0x85EBCA77) ^ (first >> 7)) & mask
    while table[place] >= 0:
        known = table[place]
        if keys[known, 0] == first and keys[known, 1] == second:
            return known
        place = (place + 1) & mask
    table[place] = used
    keys[used, 0] = first
    keys[used, 1] = second
    return used


@njit(nogil=True, cache=True)
def _find_parents(leftmost: np.ndarray) -> np.ndarray:
    """Find each node's parent in postorder; the root, which comes last, has itself."""
    nodes = len(leftmost)
    parents = np.empty(nodes, np.int32)
    waiting = np.empty(nodes, np.int32)
    count = 0
    for node in range(nodes):
        while count and waiting[count - 1] >= leftmost[node]:
            count -= 1
            parents[waiting[count]] = node
        waiting[count] = node
        count += 1
    parents[nodes - 1] = nodes - 1
    return parents


@njit(nogil=True, cache=True)
def _number_subtrees(labels: np.ndarray, leftmost: np.ndarray) -> tuple[np.ndarray, int]:
    """Number the distinct subtrees: two nodes get one number if theirs are the same.

    A node's label and its children's numbers, folded into one number pair by pair, tell it.
    """
    nodes = len(labels)
    size = 16
    while size < 4 * nodes:
        size *= 2
    table = np.full(size, -1, np.int32)
    keys = np.empty((2 * nodes, 2), np.int64)
    used = 0
    folded = np.empty(nodes, np.int32)
    for node in range(nodes):
        number = _intern(table, keys, used, labels[node], -1)
        used = max(used, number + 1)
        child = node - 1
        while child >= leftmost[node]:
            number = _intern(table, keys, used, number, folded[child])
            used = max(used, number + 1)
            child = leftmost[child] - 1
        folded[node] = number
    dense = np.full(used, -1, np.int32)
    subtree = np.empty(nodes, np.int32)
    count = 0
    for node in range(nodes):
        if dense[folded[node]] < 0:
            dense[folded[node]] = count
            count += 1
        subtree[node] = dense[folded[node]]
    return subtree, count


@njit(nogil=True, cache=True)
def _mirror(leftmost: np.ndarray, parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the nodes as the postorder of the mirror image does.

    Returns each node's new number, and the mirror image's leftmost leaves.
    """
    nodes = len(leftmost)
    numbers = np.empty(nodes, np.int32)
    mirrored = np.empty(nodes, np.int32)
    depth = np.zeros(nodes, np.int32)
    for node in range(nodes - 1, -1, -1):
        if node < nodes - 1:
            depth[node] = depth[parents[node]] + 1
        size = node - leftmost[node] + 1
        preorder = leftmost[node] + depth[node]
        numbers[node] = nodes - 1 - preorder
        mirrored[numbers[node]] = numbers[node] - size + 1
    return numbers, mirrored


@njit(nogil=True, cache=True)
def _lay_out(
    labels: np.ndarray, leftmost: np.ndarray, subtree: np.ndarray, subtrees: int
) -> tuple[np.ndarray, int, int]:
    """Make one side's plan.

    Returns it, and how many cells and how many key roots are worked on.
    """
    nodes = len(labels)
    parents = _find_parents(leftmost)
    root_of = np.empty(nodes, np.int32)  # for a leaf that begins a path, the path's key root
    for node in range(nodes):
        root_of[leftmost[node]] = node

    # Siblings take turns at two rows: a key root's last row looks back while the next one's is
    # being written.
    kept = np.zeros(nodes, np.int32)
    turn = np.zeros(nodes, np.int32)
    rows = 1
    for node in range(nodes - 2, -1, -1):
        parent = parents[node]
        if leftmost[node] != leftmost[parent]:
            outer = kept[leftmost[root_of[leftmost[parent]]]] // 2
            kept[leftmost[node]] = 2 * (outer + 1) + turn[parent]
            rows = max(rows, kept[leftmost[node]] + 1)
            turn[parent] = 1 - turn[parent]

    # A key root is worked on after those inside it, which are lower; of those of one height none is
    # inside another, so a row can run through all of theirs at once.
    height = np.zeros(nodes, np.int32)
    of_height = np.zeros(nodes + 1, np.int32)
    for node in range(nodes):
        if root_of[leftmost[node]] == node:
            of_height[height[node] + 1] += 1
            if node < nodes - 1:
                outer = root_of[leftmost[parents[node]]]
                height[outer] = max(height[outer], height[node] + 1)
    place = np.cumsum(of_height)
    ordered = np.empty(place[nodes], np.int32)
    for node in range(nodes):
        if root_of[leftmost[node]] == node:
            ordered[place[height[node]]] = node
            place[height[node]] += 1

    seen = np.zeros(subtrees, np.bool_)
    fresh = np.zeros(nodes, np.int32)
    roots = np.empty(len(ordered), np.int32)
    count = 0
    cells = 0
    for root in ordered:
        if seen[subtree[root]]:
            continue
        roots[count] = root
        count += 1
        cells += root - leftmost[root] + 1
        node = leftmost[root]
        while True:
            if not seen[subtree[node]]:
                seen[subtree[node]] = True
                fresh[node] = 1
            if node == root:
                break
            node = parents[node]

    plan = np.empty(_HEADER + 5 * nodes + 2 * count, np.int32)
    plan[_NODES] = nodes
    plan[_SUBTREES] = subtrees
    plan[_ROWS] = rows
    end = _HEADER
    roots = roots[:count]
    for part in (labels, leftmost, subtree, kept, fresh, roots, height[roots]):
        plan[end : end + len(part)] = part
        end += len(part)
    return plan, cells, count


@njit(nogil=True, cache=True)
def _plan_tree(
    labels: np.ndarray, leftmost: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make the plans of a tree's left and right side.

    Returns them, and (2, 3) what they take: cells, key roots and distinct subtrees.
    """
    parents = _find_parents(leftmost)
    subtree, subtrees = _number_subtrees(labels, leftmost)
    work = np.full((2, 3), subtrees, np.int64)
    left, work[0, 0], work[0, 1] = _lay_out(labels, leftmost, subtree, subtrees)
    numbers, mirrored = _mirror(leftmost, parents)
    mirrored_labels = np.empty_like(labels)
    mirrored_subtree = np.empty_like(subtree)
    for node in range(len(labels)):
        mirrored_labels[numbers[node]] = labels[node]
        mirrored_subtree[numbers[node]] = subtree[node]
    right, work[1, 0], work[1, 1] = _lay_out(mirrored_labels, mirrored, mirrored_subtree, subtrees)
    return left, right, work


@njit(nogil=True, cache=True)
def _parts(
    plan: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Part a plan: labels, leftmost, subtree, kept, fresh, roots, heights."""
    nodes = np.int64(plan[_NODES])
    a, b, c = _HEADER, _HEADER + nodes, _HEADER + 2 * nodes
    d, e, f = _HEADER + 3 * nodes, _HEADER + 4 * nodes, _HEADER + 5 * nodes
    g = f + (len(plan) - f) // 2
    return plan[a:b], plan[b:c], plan[c:d], plan[d:e], plan[e:f], plan[f:g], plan[g:]


@njit(nogil=True, cache=True)
def _place_forests(
    plan: np.ndarray, done: int, same: int, columns: np.ndarray, stages: np.ndarray
) -> tuple[int, int, int]:
    """Place the forests of key roots, from the `done`-th on, side by side in the columns.

    Before each stands a column for no node at all. A row can run through several of them in one go,
    since each begins from a score (_BEGIN) that no score to its left can pass.

    Fills columns and stages, which are laid out as said above. Returns how many key roots are done
    then, how many columns are filled, and how many stages.
    """
    labels, leftmost, subtree, _, fresh, roots, heights = _parts(plan)
    no_node = plan[_SUBTREES]
    room = columns.shape[1] - WIDTH
    count, new, begin, placed = 0, 0, 0, 0
    while done < len(roots):
        root = roots[done]
        left = leftmost[root]
        if count and count + root - left + 2 > room:
            break
        if not count or heights[done] != heights[done - 1]:
            stages[_FIRST, placed] = count
            stages[_FIRST_NEW, placed] = new
            placed += 1
        columns[_BEGIN, count] = begin
        columns[_BEHIND, count] = count
        columns[_KIND, count] = no_node
        columns[_LABEL, count] = -1
        shift = count - left
        for node in range(left, root + 1):
            count += 1
            columns[_BEGIN, count] = begin
            columns[_BEHIND, count] = shift + leftmost[node]
            columns[_KIND, count] = subtree[node]
            columns[_LABEL, count] = labels[node] if leftmost[node] == left else -1
            if leftmost[node] == left and fresh[node]:
                columns[_NEW, new] = count
                new += 1
        count += 1
        begin += same * (root - left + 1)
        done += 1
    stages[_FIRST, placed] = count
    stages[_FIRST_NEW, placed] = new
    return done, count, placed


@njit(nogil=True, cache=True)
def _score_pair(one: np.ndarray, other: np.ndarray, same: int, renamed: int) -> int:
    """Find the most that an edit saves; one's nodes are rows, other's are columns.

    one, other: plans of one side. same, renamed: what a pair of nodes saves, of one label and of
    two.
    """
    labels, leftmost, subtree, kept, fresh, roots, _ = _parts(one)
    _, column_leftmost, column_subtree, _, _, column_roots, _ = _parts(other)
    needed = 0
    for root in column_roots:
        needed += root - column_leftmost[root] + 2
    width = min(needed, max(_BLOCK, len(column_leftmost) + 1)) + WIDTH
    columns = np.zeros((5, width), np.int32)
    stages = np.empty((2, width), np.int32)
    begins, behind, kinds = columns[_BEGIN], columns[_BEHIND], columns[_KIND]
    new, column_labels = columns[_NEW], columns[_LABEL]
    first, first_new = stages[_FIRST], stages[_FIRST_NEW]

    # tree: a row for each distinct subtree of one, a column for each of other and one for no node.
    # forest: the rows that are kept, and two that take turns where none is.
    kinds_of_tree = np.int64(other[_SUBTREES]) + 1
    tree = np.empty(one[_SUBTREES] * kinds_of_tree, np.int32)
    for last in range(kinds_of_tree - 1, len(tree), kinds_of_tree):
        tree[last] = 0
    spare = np.int64(one[_ROWS]) * width
    forest = np.empty(spare + 2 * width, np.int32)

    saved = (np.int64(same), np.int64(renamed))
    done = 0
    while done < len(column_roots):
        done, count, placed = _place_forests(other, done, same, columns, stages)
        for root in roots:
            begin = leftmost[root]
            above = np.int64(kept[begin]) * width
            forest[above : above + count] = begins[:count]
            for node in range(begin, root + 1):
                if node < root and leftmost[node + 1] == node + 1:
                    here = np.int64(kept[node + 1]) * width
                else:
                    here = spare + width if above == spare else spare
                gain = np.int64(subtree[node]) * kinds_of_tree
                rest = np.int64(kept[leftmost[node]]) * width
                if leftmost[node] == begin and fresh[node]:
                    # In the columns of paths both forests are trees: their scores are found here,
                    # and the next stage needs them.
                    for stage in range(placed):
                        start = np.int64(first[stage])
                        scan_tree(
                            forest,
                            above,
                            here,
                            rest,
                            tree,
                            gain,
                            kinds,
                            start,
                            first[stage + 1] - start,
                            column_labels,
                            np.int64(labels[node]),
                            saved,
                        )
                        for each in range(first_new[stage], first_new[stage + 1]):
                            column = np.int64(new[each])
                            tree[gain + kinds[column]] = forest[here + column] - begins[column]
                else:
                    scan_forest(
                        forest, above, here, rest, tree, gain, behind, kinds, 0, np.int64(count)
                    )
                above = here
    return tree[subtree[len(subtree) - 1] * kinds_of_tree + column_subtree[len(column_subtree) - 1]]


@njit(nogil=True, cache=True)
def _score_pairs(
    plans: np.ndarray, starts: np.ndarray, pairs: np.ndarray, same: int, renamed: int
) -> np.ndarray:
    """Score pairs of plans, one after the other. plans: all, end to end; starts: where each is."""
    scores = np.empty(len(pairs), np.int64)
    for pair in range(len(pairs)):
        one, other = pairs[pair, 0], pairs[pair, 1]
        scores[pair] = _score_pair(
            plans[starts[one] : starts[one + 1]],
            plans[starts[other] : starts[other + 1]],
            same,
            renamed,
        )
    return scores


def _vectors(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Count the vectors of `WIDTH` cells that pairs take, about; (m, 3) as `_plan_tree` gives."""
    whole = rows[:, 0] * ((columns[:, 0] + columns[:, 1]) // WIDTH + 1)
    return whole + rows[:, 2] * (columns[:, 2] // 4 + 10)


class ComparedTrees:
    """Trees made ready to be compared, each distinct one once."""

    def __init__(self, trees: Sequence[Tree], max_nodes: int = MAX_NODES) -> None:
        """Make trees ready.

        Raises ConfigError for a tree of more than `max_nodes` nodes.
        """
        numbers: dict[tuple[tuple[str, ...], bytes], int] = {}
        vocabulary: dict[str, int] = {}
        plans: list[np.ndarray] = []
        work: list[np.ndarray] = []
        for tree in trees:
            if len(tree) > max_nodes:
                gibibytes = pair_bytes(len(tree), len(tree)) / 2**30
                raise ConfigError(
                    f"similarity.max_nodes: a program's tree has {len(tree)} nodes, more than"
                    f" {max_nodes}; to compare it, allow {len(tree)} (a pair of such trees may take"
                    f" {gibibytes:.1f} GiB a thread)"
                )
            if tree.key in numbers:
                continue
            numbers[tree.key] = len(numbers)
            codes = [vocabulary.setdefault(label, len(vocabulary)) for label in tree.labels]
            left, right, costs = _plan_tree(np.array(codes, dtype=np.int32), tree.leftmost)
            plans += [left, right]
            work.append(costs)
        self._tree_of = np.array([numbers[tree.key] for tree in trees], dtype=np.int64)
        self._nodes = np.array([len(tree) for tree in trees], dtype=np.int64)
        self._distinct_nodes = np.array([len(labels) for labels, _ in numbers], dtype=np.int64)
        self._plans = np.concatenate(plans) if plans else np.zeros(0, dtype=np.int32)
        self._starts = np.cumsum([0, *(len(plan) for plan in plans)])
        self._work = np.stack(work) if work else np.zeros((0, 2, 3), dtype=np.int64)

    @property
    def distinct(self) -> int:
        """How many trees differ."""
        return len(self._work)

    def distances(
        self, pairs: np.ndarray, costs: Costs | None = None, threads: int | None = None
    ) -> np.ndarray:
        """Give the edit distances of pairs of trees.

        pairs: (m, 2), positions in the trees given; the first is edited into the second. costs:
        1, 1, 1 where not given. threads: how many pairs are worked on at once; all the cores that
        this process may use where not given. Returns (m,) float64, from 0; equal to the last digit
        for any number of threads. Pairs of the same two distinct trees are worked on once.
        Raises ConfigError for costs with too many digits for trees of this size.
        """
        pairs = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        delete, insert, rename, scale = (costs or Costs()).scaled()
        same, renamed = delete + insert, max(0, delete + insert - rename)
        unit = math.gcd(same, renamed)
        if len(pairs) and same // unit * (int(self._nodes[pairs].max()) + _BLOCK) > _LARGEST_SCORE:
            raise ConfigError("costs: have too many digits for trees of this size; round them")
        trees, nodes = self._tree_of[pairs], self._nodes[pairs]
        lower, upper = trees.min(axis=1), trees.max(axis=1)  # a score is the same both ways round
        keys, place = np.unique(lower * self.distinct + upper, return_inverse=True)
        todo = np.stack(np.divmod(keys, max(1, self.distinct)), axis=1)
        scores = self._scores(todo, same // unit, renamed // unit, threads)[place]
        least = delete * nodes[:, 0] + insert * nodes[:, 1] - unit * scores
        return np.asarray(least / scale, dtype=np.float64)

    def _scores(
        self, pairs: np.ndarray, same: int, renamed: int, threads: int | None
    ) -> np.ndarray:
        """Score pairs of distinct trees, the longest first, over the threads."""
        plans, work = self._arrange(pairs)
        scores = same * self._distinct_nodes[pairs[:, 0]]
        differ = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
        order = differ[np.argsort(-work[differ], kind="stable")]
        workers = threads or len(os.sched_getaffinity(0))
        if workers == 1:
            scores[order] = _score_pairs(self._plans, self._starts, plans[order], same, renamed)
            return scores
        task = max(_WORK_OF_A_TASK, int(work[order].sum()) // (8 * workers))
        ends = np.cumsum(work[order]) // task
        tasks = np.split(order, np.flatnonzero(np.diff(ends)) + 1)

        def run(rows: np.ndarray) -> None:
            scores[rows] = _score_pairs(self._plans, self._starts, plans[rows], same, renamed)

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(run, tasks))
        return scores

    def _arrange(self, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Choose each pair's side, and which of the two makes the rows.

        Returns (m, 2) plans, rows before columns, and (m,) the work in vectors.
        """
        options = [
            _vectors(self._work[pairs[:, rows], side], self._work[pairs[:, 1 - rows], side])
            for side in (0, 1)
            for rows in (0, 1)
        ]
        work = np.stack(options, axis=1)
        best = np.argmin(work, axis=1)
        side, swapped = best // 2, best % 2 == 1
        rows = np.where(swapped, pairs[:, 1], pairs[:, 0])
        columns = np.where(swapped, pairs[:, 0], pairs[:, 1])
        plans = np.stack([2 * rows + side, 2 * columns + side], axis=1)
        return plans, work.min(axis=1)


def edit_distances(
    trees: Sequence[Tree],
    pairs: np.ndarray,
    costs: Costs | None = None,
    *,
    max_nodes: int = MAX_NODES,
    threads: int | None = None,
) -> np.ndarray:
    """Give the edit distances of pairs of trees; see `ComparedTrees.distances`."""
    return ComparedTrees(trees, max_nodes).distances(pairs, costs, threads)


def edit_distance(first: Tree, second: Tree, costs: Costs | None = None) -> float:
    """Give the least cost of making the second tree of the first, whatever their sizes."""
    compared = ComparedTrees([first, second], max_nodes=max(len(first), len(second)))
    return float(compared.distances(np.array([[0, 1]]), costs, threads=1)[0])
