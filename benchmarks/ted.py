"""The tree edit distance beside zss, apted and edist, on one thread and in one run.

    python benchmarks/ted.py [--sizes 50 100 200 500 1000 2000] [--pairs 45] [--budget 60]
    python benchmarks/ted.py --cores
    python benchmarks/ted.py --memory 5000

Trees are programs of the standard library (whole modules, classes and functions, whichever have the
nodes that a size asks for), and random trees: each node's parent is drawn from all nodes before it
(bushy) or from the last three (deep). Costs are 1, 1, 1, the only ones that edist's compiled form
knows. All packages get the same pairs, in the form that each takes, made beforehand; ours is timed
from labels and leftmost leaves to distances. A package that needs more than the budget for a size
gets fewer pairs, and none of larger sizes once a pair takes a tenth of that. Times are CPU seconds
of the thread, the best of the repeats; every distance is compared with ours.

`--cores` gives the time of all pairs of some programs by number of threads: if the CPU seconds stay
the same, the wall time falls with the cores that the machine has to spare. `--memory` gives
the most memory that a pair of trees of that many nodes takes (Linux only): of programs, and of
random trees without two subtrees that are the same.

apted and edist are not dependencies: install them to run this (edist is under the GPL).
"""

from __future__ import annotations

import argparse
import ast
import os
import platform
import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

from llm_variability.code.edit_distance import (
    ComparedTrees,
    edit_distance,
    edit_distances,
    pair_bytes,
)
from llm_variability.code.trees import Tree, parse_code, read_named_nodes, tree_from_parents

SIZES = (50, 100, 200, 500, 1_000, 2_000)
SHAPES = ("programs", "bushy", "deep")
SHORTEST = 0.05
"""Seconds for which all pairs are timed again and again, at the least."""

LIBRARY = Path(os.__file__).parent
Pair = tuple[int, int]


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)


def to_preorder(tree: Tree) -> tuple[list[str], list[list[int]]]:
    """Give a tree as edist takes it: labels in preorder, and each node's children."""
    labels: list[str] = []
    children: list[list[int]] = []
    waiting = [(to_node(tree), -1)]
    while waiting:
        node, parent = waiting.pop()
        if parent >= 0:
            children[parent].append(len(labels))
        waiting += [(child, len(labels)) for child in reversed(node.children)]
        labels.append(node.name)
        children.append([])
    return labels, children


def to_node(tree: Tree) -> Node:
    waiting: list[tuple[int, Node]] = []
    for number, label in enumerate(tree.labels):
        found = []
        while waiting and waiting[-1][0] >= tree.leftmost[number]:
            found.append(waiting.pop()[1])
        waiting.append((number, Node(label, found[::-1])))
    return waiting[0][1]


@cache
def read_library() -> list[Tree]:
    """Read every module, class and function of the standard library's top folder as a program."""
    trees: dict[object, Tree] = {}
    for path in sorted(LIBRARY.glob("*.py")):
        source = path.read_text(encoding="utf-8", errors="replace")
        lines = source.splitlines()
        parts = [source] + [
            textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        ]
        for part in parts:
            tree = read_named_nodes(parse_code(part, "python"))
            trees[tree.key] = tree
    return list(trees.values())


def draw_trees(shape: str, nodes: int, count: int, seed: int = 1) -> list[Tree]:
    """Draw distinct trees of a shape with as many nodes, or within a twentieth of that."""
    chance = random.Random(f"{shape} {nodes} {seed}")
    if shape == "programs":
        near = [tree for tree in read_library() if abs(len(tree) - nodes) <= nodes / 20]
        return chance.sample(near, min(count, len(near)))
    return [random_tree(chance, nodes, shape) for _ in range(count)]


def random_tree(chance: random.Random, nodes: int, shape: str, labels: int = 40) -> Tree:
    children: list[list[int]] = [[] for _ in range(nodes)]
    for node in range(1, nodes):
        children[chance.randrange(0 if shape == "bushy" else max(0, node - 3), node)].append(node)
    order: list[str] = []
    parents: list[int] = []
    waiting = [(0, -1)]
    while waiting:
        node, parent = waiting.pop()
        waiting += [(child, len(order)) for child in reversed(children[node])]
        order.append(str(chance.randrange(labels)))
        parents.append(parent)
    return tree_from_parents(order, parents)


def by_zss() -> tuple[Callable[[Tree], object], Callable[[object, object], float]]:
    import zss

    def measure(first: object, second: object) -> float:
        return float(
            zss.simple_distance(
                first,
                second,
                get_children=lambda node: node.children,
                get_label=lambda node: node.name,
                label_dist=lambda one, other: int(one != other),
            )
        )

    return to_node, measure


def by_apted() -> tuple[Callable[[Tree], object], Callable[[object, object], float]]:
    from apted import APTED

    return to_node, lambda first, second: float(APTED(first, second).compute_edit_distance())


def by_edist() -> tuple[Callable[[Tree], object], Callable[[object, object], float]]:
    from edist import ted

    return to_preorder, lambda first, second: float(ted.standard_ted(*first, *second))  # type: ignore[misc]


PACKAGES = {"zss": by_zss, "apted": by_apted, "edist": by_edist}


def time_ours(
    trees: Sequence[Tree], pairs: Sequence[Pair], repeats: int
) -> tuple[float, np.ndarray]:
    chosen = np.array(pairs)
    used, place = np.unique(chosen, return_inverse=True)
    needed = [trees[number] for number in used]
    best, found, spent = float("inf"), np.zeros(0), 0.0
    while spent < SHORTEST or repeats > 0:
        begin = time.thread_time()
        found = edit_distances(needed, place.reshape(-1, 2), threads=1)
        last = time.thread_time() - begin
        best, spent, repeats = min(best, last), spent + last, repeats - 1
    return best, found


def time_package(
    name: str, trees: Sequence[Tree], pairs: Sequence[Pair], budget: float, repeats: int
) -> tuple[float, list[float]]:
    """Time a package on as many of the pairs as the budget has room for, one at the least."""
    convert, measure = PACKAGES[name]()
    forms = {number: convert(trees[number]) for number in {each for pair in pairs for each in pair}}
    spent, total = 0.0, 0.0
    found: list[float] = []
    for first, second in pairs:
        best, times = float("inf"), 0
        while (
            not times
            or best * times < SHORTEST / len(pairs)
            or (times < repeats and spent < budget / 4)
        ):
            begin = time.thread_time()
            distance = measure(forms[first], forms[second])
            last = time.thread_time() - begin
            best, spent, times = min(best, last), spent + last, times + 1
        total += best
        found.append(distance)
        if spent + best > budget:
            break
    return total, found


def compare_packages(arguments: argparse.Namespace) -> None:
    print("| trees | nodes | package | pairs | s a pair | ours, s a pair | times ours |")
    print("|---|---:|---|---:|---:|---:|---:|")
    growth: dict[str, list[tuple[int, float]]] = {}
    for shape in arguments.shapes:
        slow: set[str] = set()
        for size in arguments.sizes:
            count = int((1 + (1 + 8 * arguments.pairs) ** 0.5) / 2)
            trees = draw_trees(shape, size, count)
            pairs = [(i, j) for j in range(len(trees)) for i in range(j)][: arguments.pairs]
            if not pairs:
                continue
            for name in PACKAGES:
                if name in slow:
                    continue
                total, found = time_package(name, trees, pairs, arguments.budget, arguments.repeats)
                done = pairs[: len(found)]
                ours, distances = time_ours(trees, done, arguments.repeats)
                wrong = int(np.sum(distances != np.array(found)))
                ratio = f"{total / ours:,.1f}" + (f" ({wrong} DIFFER)" if wrong else "")
                a_pair, our_pair = total / len(found), ours / len(found)
                print(
                    f"| {shape} | {size} | {name} | {len(found)} | {a_pair:.3g} | {our_pair:.3g}"
                    f" | {ratio} |",
                    flush=True,
                )
                if a_pair > arguments.budget / 10:
                    slow.add(name)
            a_pair, _ = time_ours(trees, pairs[:1], 1)
            some = pairs[: max(1, int(arguments.budget / 4 / a_pair))]
            ours, _ = time_ours(trees, some, 1)
            growth.setdefault(shape, []).append((size, ours / len(some)))
    print("\nHow our time grows: t is about n to the power of")
    for shape, points in growth.items():
        sizes, seconds = np.log(np.array(points)).T
        late = slice(-3, None)
        power = np.polyfit(sizes[late], seconds[late], 1)[0] if len(points) > 2 else float("nan")
        print(f"  {shape}: {power:.2f}, over the last three sizes")


def compare_cores() -> None:
    trees = [tree for size in (400, 600, 800) for tree in draw_trees("programs", size, 16)]
    pairs = np.array([(i, j) for j in range(len(trees)) for i in range(j)])
    compared = ComparedTrees(trees)
    compared.distances(pairs[:2], threads=1)
    print(f"{len(pairs)} pairs of programs of 400 to 800 nodes")
    print("| threads | wall s | CPU s | cores had |\n|---:|---:|---:|---:|")
    for threads in range(1, len(os.sched_getaffinity(0)) + 1):
        measured = []
        for _ in range(3):
            begin, used = time.perf_counter(), time.process_time()
            compared.distances(pairs, threads=threads)
            measured.append((time.perf_counter() - begin, time.process_time() - used))
        wall, cpu = min(measured)
        print(f"| {threads} | {wall:.2f} | {cpu:.2f} | {cpu / wall:.2f} |")


def forget_peak() -> None:
    """Let the kernel measure this process's peak anew, from what it holds now."""
    Path("/proc/self/clear_refs").write_text("5")


def read_mebibytes(kind: str) -> float:
    """Read a line of the kernel's account of this process: VmHWM, the peak, or VmRSS, now."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith(kind)) / 1024


def measure_memory(nodes: int, shape: str) -> None:
    """Print the memory and time of one pair, over what this process holds before."""
    if shape == "programs":
        joined = "".join(
            path.read_text(encoding="utf-8", errors="replace")
            for path in [LIBRARY / "argparse.py", LIBRARY / "tarfile.py"]
        )
        lines = joined.splitlines()
        first, second = (cut_to(nodes, part) for part in (lines, lines[len(lines) // 2 :]))
    else:
        chance = random.Random(1)
        first, second = (random_tree(chance, nodes, shape, labels=10**6) for _ in range(2))
    edit_distance(tree_from_parents("ab", [-1, 0]), tree_from_parents("ba", [-1, 0]))
    forget_peak()
    before, begin = read_mebibytes("VmRSS"), time.thread_time()
    distance = edit_distances([first, second], np.array([[0, 1]]), max_nodes=nodes * 2, threads=1)
    seconds, mebibytes = time.thread_time() - begin, read_mebibytes("VmHWM") - before
    bound = pair_bytes(len(first), len(second)) / 2**20
    print(
        f"| {shape} | {len(first)}, {len(second)} | {distance[0]:.0f} | {seconds:.2f}"
        f" | {mebibytes:.0f} | {bound:.0f} |"
    )


def cut_to(nodes: int, lines: Sequence[str]) -> Tree:
    """Parse as many lines as make about so many nodes."""
    step, taken = 16, 0
    tree = read_named_nodes(parse_code("", "python"))
    while len(tree) < nodes and taken < len(lines):
        taken += step
        tree = read_named_nodes(parse_code("\n".join(lines[:taken]), "python"))
    return tree


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--pairs", type=int, default=45)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--budget", type=float, default=60, help="seconds a package and size")
    parser.add_argument("--cores", action="store_true", help="time by number of threads")
    parser.add_argument("--memory", type=int, metavar="NODES", help="memory and time of one pair")
    parser.add_argument("--shape", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.shape:
        measure_memory(arguments.memory, arguments.shape)
    elif arguments.memory:
        print("| trees | nodes | distance | s | MiB | bound, MiB |\n|---|---|---:|---:|---:|---:|")
        for shape in ("programs", "bushy"):
            command = [sys.executable, __file__, "--memory", str(arguments.memory)]
            subprocess.run([*command, "--shape", shape], check=True)
    else:
        peers = ", ".join(f"{name} {version(name)}" for name in ("numba", *PACKAGES))
        print(f"Python {platform.python_version()}, {peers}\n")
        if arguments.cores:
            compare_cores()
        else:
            compare_packages(arguments)


if __name__ == "__main__":
    main()
