"""Completions in CSV files to the probability of differentiation by group.

The format is that of Lee and Lai 2024: a file a situation cue, a line a completion, with columns
for what was completed, for the groups and, in most of their studies, for the name that was asked
about. No file of theirs is part of this package.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import stdtrit

from llm_variability.config import ConfigError
from llm_variability.diversity.words import name_category, split_words
from llm_variability.fits.random_intercept import Floats
from llm_variability.fits.text_inference import CONFIDENCE

COLUMNS = (
    "cue",
    "group_by",
    "group",
    "n_texts",
    "n_units",
    "n_categories",
    "left_out",
    "differentiation",
    "std_error",
    "ci_low",
    "ci_high",
    "as_published",
    "reason",
)
"""Of the table that `tabulate_differentiation` writes."""


@dataclass(frozen=True)
class Completion:
    """A line of a file: what was completed, its groups by column, and whose it is."""

    category: str
    groups: Mapping[str, str]
    unit: str
    left_out: bool


@dataclass(frozen=True)
class Differentiation:
    """The probability of differentiation of one group, and how uncertain it is.

    value: that two different completions are not the same. as_published: 1 - sum p^2, that two
    drawn with replacement are not. std_error, ci_low, ci_high: of `value`, None with a `reason`.
    """

    n_texts: int
    n_units: int
    n_categories: int
    value: float | None
    as_published: float | None
    std_error: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    reason: str = ""


def differentiate(categories: Sequence[str], units: Sequence[str]) -> Differentiation:
    """Estimate a group's probability of differentiation, deleting one unit at a time.

    The interval is the jackknife's, by t with a degree of freedom fewer than there are units, cut
    to lie between 0 and 1. Lee and Lai draw names anew (bootstrap) and give percentiles.

    categories, units: of each completion. A unit (a name) is deleted with all its completions.
    """
    sizes = Counter(categories)
    n, names = len(categories), sorted(set(units))
    if n < 2:
        return Differentiation(n, len(names), len(sizes), None, None, reason="fewer than two texts")
    row = {name: i for i, name in enumerate(names)}
    column = {category: i for i, category in enumerate(sizes)}
    counts = np.zeros((len(names), len(sizes)))
    for category, unit in zip(categories, units, strict=True):
        counts[row[unit], column[category]] += 1
    total = counts.sum(axis=0)
    value = float(_differ(total))
    published = float(1 - ((total / n) ** 2).sum())
    deleted = _differ(total - counts)
    known = Differentiation(n, len(names), len(sizes), value, published)
    reason = _find_fault(names, deleted)
    if reason:
        return Differentiation(**{**vars(known), "reason": reason})
    m = len(names)
    error = math.sqrt((m - 1) / m * float(((deleted - deleted.mean()) ** 2).sum()))
    margin = float(stdtrit(m - 1, (1 + CONFIDENCE) / 2)) * error
    interval = {"ci_low": max(value - margin, 0.0), "ci_high": min(value + margin, 1.0)}
    return Differentiation(**{**vars(known), "std_error": error, **interval})


def _differ(counts: Floats) -> Floats:
    """Probability that two different completions differ; NaN where there are not two.

    counts: (..., categories).
    """
    n = counts.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        probability: Floats = 1 - (counts * (counts - 1)).sum(axis=-1) / (n * (n - 1))
    return probability


def _find_fault(units: Sequence[str], deleted: Floats) -> str:
    if len(units) < 3:
        return "fewer than three units to delete"
    if not np.isfinite(deleted).all():
        return "without one unit fewer than two texts are left"
    if np.ptp(deleted) < 1e-12:
        return "no variance: it stays the same whichever unit is left out"
    return ""


def read_completions(
    path: Path,
    *,
    text: str,
    groups: Sequence[str],
    unit: str | None,
    most_words: int | None = None,
    refusals: Sequence[str] = (),
) -> list[Completion]:
    """Read one cue's completions.

    text, groups, unit: columns; without a unit each line is one. most_words: completions of more
    words are left out, as are those in which one of the `refusals` occurs, and empty ones.
    Raises ConfigError, one line that says what is wrong where, for a file that cannot be used.
    """
    wanted = [text, *groups, *([] if unit is None else [unit])]
    completions = []
    for number, line in _read_lines(path, wanted):
        for column in wanted[1:]:
            if not line[column].strip():
                raise ConfigError(f"{path}: line {number}: {column} is empty")
        category = name_category(line[text])
        too_long = most_words is not None and len(split_words(line[text])) > most_words
        refused = any(name_category(refusal) in category for refusal in refusals)
        completions.append(
            Completion(
                category,
                {column: line[column].strip() for column in groups},
                str(number) if unit is None else line[unit].strip(),
                not category or too_long or refused,
            )
        )
    if not completions:
        raise ConfigError(f"{path}: no completions below the first line")
    return completions


def _read_lines(path: Path, wanted: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    """Read the lines below the first, each with the number of the line that it ends on."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 at byte {error.start}") from error
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    lines = []
    try:
        names = list(reader.fieldnames or [])
        if missing := [column for column in wanted if column not in names]:
            raise ConfigError(
                f"{path}: no column {', '.join(missing)}; there are"
                f" {', '.join(names) or 'none, the file is empty'}"
            )
        for line in reader:
            if None in line or None in line.values():
                raise ConfigError(
                    f"{path}: line {reader.line_num}: the first line has {len(names)} cells,"
                    f" this one {'more' if None in line else 'fewer'}"
                )
            lines.append((reader.line_num, line))
    except csv.Error as error:
        raise ConfigError(f"{path}: line {reader.reader.line_num}: is no CSV: {error}") from error
    return lines


def tabulate_differentiation(
    cue: str, completions: Sequence[Completion], groupings: Sequence[str]
) -> list[dict[str, object]]:
    """Give a row a group of every grouping, with the columns of `COLUMNS`.

    groupings: a column, or several crossed, as in race:gender. Groups are in alphabetical order.
    """
    rows: list[dict[str, object]] = []
    for grouping in groupings:
        parts = grouping.split(":")
        named = [(":".join(each.groups[part] for part in parts), each) for each in completions]
        for group in sorted({name for name, _ in named}):
            members = [each for name, each in named if name == group]
            kept = [each for each in members if not each.left_out]
            found = differentiate([each.category for each in kept], [each.unit for each in kept])
            rows.append(
                {
                    "cue": cue,
                    "group_by": grouping,
                    "group": group,
                    "n_texts": found.n_texts,
                    "n_units": found.n_units,
                    "n_categories": found.n_categories,
                    "left_out": len(members) - len(kept),
                    "differentiation": found.value,
                    "std_error": found.std_error,
                    "ci_low": found.ci_low,
                    "ci_high": found.ci_high,
                    "as_published": found.as_published,
                    "reason": found.reason,
                }
            )
    return rows
