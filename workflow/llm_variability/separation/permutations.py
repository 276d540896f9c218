"""Labels that change places among prompts: all labellings where they are few, else random ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, groupby, product
from math import comb, factorial, prod, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llm_variability.fits.random_intercept import Floats

Labels = NDArray[np.int64]

TIE = 1e-9
"""Relative difference that rounding alone makes between values of two labellings."""


class PermutationTest(NamedTuple):
    """A p value and its Monte Carlo standard error, which is 0 where every labelling was tried."""

    p_value: float
    mc_error: float


def count_labellings(labels: Labels, cells: Labels, alike: bool = False) -> int:
    """Count the different ways to hand a cell's labels out among its members, cell by cell.

    labels, cells: (n,). alike: labels that are as frequent in a cell can change names without
        effect, so that such labellings count once.
    """
    return prod(_count_cell(labels[cells == cell], alike) for cell in np.unique(cells))


def list_labellings(labels: Labels, cells: Labels, alike: bool = False) -> Labels:
    """List what `count_labellings` counts: (labellings, n), the given one or its like too."""
    of_cell = [np.flatnonzero(cells == cell) for cell in np.unique(cells)]
    ways = [list(_list_cell(labels[members], alike)) for members in of_cell]
    listed = np.empty((prod(map(len, ways)), len(labels)), dtype=np.int64)
    for row, chosen in zip(listed, product(*ways), strict=True):
        for members, handed_out in zip(of_cell, chosen, strict=True):
            row[members] = handed_out
    return listed


def draw_labellings(
    labels: Labels, cells: Labels, permutations: int, rng: np.random.Generator
) -> Labels:
    """Permute labels within cells at random: (permutations, n)."""
    drawn = np.empty((permutations, len(labels)), dtype=np.int64)
    for cell in np.unique(cells):
        members = np.flatnonzero(cells == cell)
        drawn[:, members] = rng.permuted(np.tile(labels[members], (permutations, 1)), axis=1)
    return drawn


def exact_test(observed: float, values: Floats) -> PermutationTest:
    """Give the exact p value: the share of all labellings whose value is as large.

    values: (labellings,) the observed one among them.
    """
    return PermutationTest(float(_as_large(observed, values).mean()), 0.0)


def drawn_test(observed: float, values: Floats) -> PermutationTest:
    """Give the p value from random labellings: (1 + those as large) / (1 + all).

    It is never 0 and the test never rejects too often by having few of them; its error is that of
    a proportion, sqrt(p (1 - p) / P).
    Source: Phipson and Smyth 2010, Statistical Applications in Genetics and Molecular Biology 9.
    """
    number = len(values)
    p = (1 + int(_as_large(observed, values).sum())) / (1 + number)
    return PermutationTest(p, sqrt(p * (1 - p) / number))


def _as_large(observed: float, values: Floats) -> NDArray[np.bool_]:
    large: NDArray[np.bool_] = values >= observed - TIE * max(1.0, abs(observed))
    return large


def _count_cell(labels: Labels, alike: bool) -> int:
    sizes = Counter(labels.tolist()).values()
    left, ways = len(labels), 1
    for size in sizes:
        ways *= comb(left, size)
        left -= size
    if alike:
        ways //= prod(factorial(times) for times in Counter(sizes).values())
    return ways


def _list_cell(labels: Labels, alike: bool) -> Iterator[Labels]:
    """List the labellings of one cell, labels handed out in the order of their frequency."""
    sizes = sorted((size, label) for label, size in Counter(labels.tolist()).items())
    same = [[label for _, label in group] for _, group in groupby(sizes, key=lambda each: each[0])]
    follows = {b: a for group in same for a, b in zip(group, group[1:], strict=False)}
    current = np.empty_like(labels)

    def hand_out(number: int, free: tuple[int, ...], first: dict[int, int]) -> Iterator[Labels]:
        if number == len(sizes):
            yield current.copy()
            return
        size, label = sizes[number]
        for places in combinations(free, size):
            if alike and label in follows and places[0] < first[follows[label]]:
                continue
            current[list(places)] = label
            left = tuple(place for place in free if place not in places)
            yield from hand_out(number + 1, left, first | {label: places[0]})

    return hand_out(0, tuple(range(len(labels))), {})
