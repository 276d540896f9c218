"""Paths for a shell command, in few letters: as bash's brace expansion writes them out again.

Linux allows 128 KiB for one argument, and Snakemake hands a job's whole command to `bash -c` as
one. The paths of a model's 2,400 cells, one after another, are longer than that; in braces they are
a twentieth of it. What bash expands them to is bounded by all arguments together, as a rule 2 MiB.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

Parts = tuple[str, ...]


def brace_paths(paths: Iterable[str]) -> str:
    """Write paths as words that bash expands to just these, in this order.

    Neighbours that differ in one part, as `a/b/d` and `a/c/d`, become `a/{b,c}/d`. Every part is
    quoted, so that nothing else in it means anything to the shell. Without a path there is no word.
    """
    return " ".join(_fold([tuple(map(_quote, str(path).split("/"))) for path in paths]))


def _quote(part: str) -> str:
    # shlex takes a comma for harmless, which it is not within braces.
    return f"'{part}'" if "," in part and shlex.quote(part) == part else part and shlex.quote(part)


def _fold(paths: Sequence[Parts]) -> list[str]:
    """Join neighbours of equal first parts, then neighbours of equal remaining parts."""
    by_first: list[tuple[str, list[Parts]]] = []
    for first, *rest in paths:
        if not by_first or by_first[-1][0] != first:
            by_first.append((first, []))
        by_first[-1][1].append(tuple(rest))
    by_rest: list[tuple[list[str], list[Parts]]] = []
    for first, rests in by_first:
        if not by_rest or by_rest[-1][1] != rests:
            by_rest.append(([], rests))
        by_rest[-1][0].append(first)
    return [_in_braces(firsts) + _write_rests(rests) for firsts, rests in by_rest]


def _write_rests(rests: list[Parts]) -> str:
    if () in rests:
        return _in_braces(["/".join(("", *rest)) for rest in rests])
    return "/" + _in_braces(_fold(rests))


def _in_braces(alternatives: list[str]) -> str:
    return alternatives[0] if len(alternatives) == 1 else "{" + ",".join(alternatives) + "}"
