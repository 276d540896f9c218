"""A plan on one screen, and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from llm_variability.plan.counts import UNKNOWN_DIMENSION, CodeCounts, Disk, StudyCounts
from llm_variability.plan.population import PUBLISHED, Population, list_effects
from llm_variability.plan.power import ALPHA, MOST_TEXTS, POWER, Finding

FEW_TEXTS = 10
"""Fewest texts that docs/inference.md has simulations of at every size; below there is one size."""


@dataclass(frozen=True)
class StudyPlan:
    """One study: what it makes, what its texts are taken to be drawn from, what it can find."""

    counts: StudyCounts
    population: Population
    findings: Sequence[Finding]

    @property
    def unit(self) -> str:
        """Name what is counted in each group and format."""
        return "texts" if self.counts.design.unit is None else "names"


@dataclass(frozen=True)
class Plan:
    """All of a configuration.

    file: its name. tokens_per_second: of the device that draws; measured: whether that is the
    user's own. dimensions: of the encoders' vectors, None where not known. family: over which
    tests are counted, in words. difference: in cosines, if texts were to be searched for one.
    code: studies of code, for which no power is computed.
    """

    file: str
    studies: Sequence[StudyPlan]
    models: Sequence[str]
    dimensions: dict[str, int | None]
    disk: Disk
    tokens_per_second: float
    measured: bool
    family: str
    difference: float | None
    code: Sequence[CodeCounts] = ()

    @property
    def every_count(self) -> list[StudyCounts | CodeCounts]:
        """Counts of all studies."""
        return [*(study.counts for study in self.studies), *self.code]

    @property
    def answer_tokens(self) -> int:
        return sum(each.answer_tokens for each in self.every_count)

    @property
    def hours(self) -> float:
        return self.answer_tokens / self.tokens_per_second / 3600


def to_json(plan: Plan) -> dict[str, Any]:
    """Give a plan as plain JSON values: what is on the screen, not rounded."""
    studies = {}
    for study in plan.studies:
        counts, population = asdict(study.counts), asdict(study.population)
        counts.pop("design")
        population["slopes"] = [
            {"coding": coding, "factor": factor, "sd": slope}
            for (coding, factor), slope in study.population.slopes.items()
        ]
        studies[study.counts.name] = {
            **counts,
            "cells": study.counts.cells,
            "all_draws": study.counts.all_draws,
            "fits": study.counts.fits,
            "population": population,
            "power": [asdict(each) for each in study.findings],
        }
    return {
        "file": plan.file,
        "models": list(plan.models),
        "vector_dimensions": plan.dimensions,
        "studies": studies,
        "code_studies": {
            each.name: {**asdict(each), "all_draws": each.all_draws} for each in plan.code
        },
        "draws": sum(each.all_draws for each in plan.every_count),
        "answer_tokens": plan.answer_tokens,
        "tokens_per_second": plan.tokens_per_second,
        "hours": plan.hours,
        "disk_bytes": {**asdict(plan.disk), "total": plan.disk.total},
        "alpha": ALPHA,
        "power": POWER,
        "family": plan.family,
        "difference": plan.difference,
    }


def to_text(plan: Plan) -> str:
    """Write a plan for a screen of 100 columns."""
    lines = [*_head(plan), "", *_costs(plan)]
    if plan.studies:
        lines += ["", *_powers(plan)]
    for each in plan.code:
        lines += [
            "",
            f"{each.name}: compares programs; no power is computed, and prompts that a model"
            " writes are not counted",
        ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _head(plan: Plan) -> Iterator[str]:
    first = plan.every_count[0]
    numbers = [
        (len(plan.every_count), "study", "studies"),
        (len(plan.models), "model", "models"),
        (len(plan.dimensions), "encoder", "encoders"),
        (first.n_settings, "setting", "settings"),
    ]
    yield f"{plan.file}: " + ", ".join(
        f"{number} {one if number == 1 else many}" for number, one, many in numbers
    )


def _costs(plan: Plan) -> Iterator[str]:
    counts = plan.every_count
    rows = [
        ("prompts", "prompts", True),
        ("formats", "n_formats", False),
        ("texts of a group in a format", "n_texts", False),
        ("settings that are fitted", "fitted_settings", False),
        ("draws a model", "draws", True),
        ("draws, all models", "all_draws", True),
        ("answer tokens, at most", "answer_tokens", True),
        ("prompt tokens, about", "prompt_tokens", True),
        ("files of draws (cells)", "cells", True),
        ("fits of mean cosines", "fits", True),
    ]
    width = max(14, *(len(each.name) + 2 for each in counts))
    heads = [each.name for each in counts] + (["in all"] if len(counts) > 1 else [])
    yield "COST".ljust(30) + "".join(head.rjust(width) for head in heads)
    for title, name, adds in rows:
        numbers = [getattr(each, name, None) for each in counts]
        shown = ["-" if number is None else f"{number:,}" for number in numbers]
        if adds and len(counts) > 1:
            shown.append(f"{sum(number or 0 for number in numbers):,}")
        yield title.ljust(30) + "".join(each.rjust(width) for each in shown)
    yield f"{_hours(plan.hours)} of drawing at {plan.tokens_per_second:,.6g} tokens/s" + (
        " (given)"
        if plan.measured
        else ": SmolLM2-135M on two CPU cores. For yours, --tokens-per-second"
    )
    disk = plan.disk
    yield (
        f"{_bytes(disk.total)} of disk for tables: draws {_bytes(disk.draws)},"
        f" vectors {_bytes(disk.vectors)}, similarity {_bytes(disk.similarity)},"
        f" fits {_bytes(disk.fits)}"
    )
    if unknown := [name for name, dimension in plan.dimensions.items() if dimension is None]:
        yield f"  vectors taken to have {UNKNOWN_DIMENSION} dimensions, the encoder not being here:"
        yield f"  {', '.join(unknown)}"


def _powers(plan: Plan) -> Iterator[str]:
    yield f"POWER  the smallest difference of mean cosines that {POWER:.0%} of studies find, tested"
    yield f"       two-sided at {ALPHA:.0%} in one setting; in brackets in SDs, as in the fits"
    told: set[str] = set()
    for study in plan.studies:
        yield ""
        yield from _power(study, plan, study.population.source in told)
        told.add(study.population.source)


def _power(study: StudyPlan, plan: Plan, is_told: bool) -> Iterator[str]:
    counts, unit = study.counts, study.unit
    formats = _number(counts.n_formats, "format")
    yield f"{counts.name}: {formats}, {counts.n_texts} {unit} of each group in each"
    yield from (f"  {line}" for line in _describe(study, is_told))
    if not study.findings:
        yield f"  no test of level text: it needs four {unit} of each group in each format"
        return
    if counts.n_texts < FEW_TEXTS:
        yield f"  fewer than {FEW_TEXTS} {unit}: that such tests keep their level is known for"
        yield "    4 formats of 6 texts or 4 names alone (docs/inference.md)"
    sizes = sorted({each.tests for each in study.findings})
    if sizes != [1]:
        yield f"  Holm: first of {sizes[-1]:,} tests ({plan.family})"
    yield from _tabulate(study, sizes, _difference)
    if counts.n_formats == 1:
        yield "  formats random: not with one format"
    if plan.difference is not None:
        yield f"  {unit} of each group in each format, for a difference of {plan.difference:g}"
        yield from _tabulate(study, sizes, _needed)
        if any(each.needed and each.needed.is_limited for each in study.findings):
            yield f"    at most: with {formats} no number of {unit} finds it in more studies"


def _tabulate(
    study: StudyPlan, sizes: Sequence[int], write: Callable[[Finding], str]
) -> Iterator[str]:
    """Lay findings out, a row a contrast, a column a scope and number of tests."""
    factors = study.counts.design.factors
    scopes = list(dict.fromkeys(each.scope for each in study.findings))
    found = {(each.scope, each.coding, each.factor, each.tests): each for each in study.findings}
    columns = [(scope, size) for scope in scopes for size in sizes]
    table = [["", *(f"{scope}{', Holm' if size > 1 else ''}" for scope, size in columns)]]
    for factor, contrast in list_effects(factors):
        title = f"{factor}, {contrast.coding}" if len(factors) > 1 else factor
        kinds = [(scope, contrast.coding, factor, size) for scope, size in columns]
        table.append([title, *(write(found[kind]) for kind in kinds)])
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    for row in table:
        yield "    " + "  ".join(each.ljust(width) for each, width in zip(row, widths, strict=True))


def _difference(finding: Finding) -> str:
    if finding.difference >= 1:
        return "none below 1"
    return f"{finding.difference:.4f} ({finding.in_sd:.2f})"


def _needed(finding: Finding) -> str:
    needed = finding.needed
    if needed is None:
        return ""
    if needed.texts is not None:
        return f"{needed.texts:,}"
    if needed.is_limited:
        return f"at most {needed.limit:.0%}" if needed.limit >= 0.01 else "at most 1%"
    return f"{needed.reached:.0%} with {MOST_TEXTS:,}"


def _describe(study: StudyPlan, is_told: bool) -> Iterator[str]:
    """Say what the power rests on, and what of it is assumed."""
    population, counts = study.population, study.counts
    if is_told:
        yield f"from the same {'texts' if population == PUBLISHED else 'pilot'}"
    else:
        yield f"from {population.source}"
        yield (
            f"  mean cosine {population.mean_cosine:.3f}; SDs: cosines {population.cosine_sd:.3f},"
            f" texts' typicality {np.sqrt(population.typicality):.3f},"
            f" rest of a pair {np.sqrt(population.residual):.3f},"
            f" formats {population.format_sd:.3f}"
        )
    kinds = [(each.coding, factor) for factor, each in list_effects(counts.design.factors)]
    if all(kind in population.slopes for kind in kinds):
        slopes = ", ".join(
            f"{factor} {population.slopes[coding, factor]:.3f} ({coding})"
            for coding, factor in kinds
        )
        yield f"  SD of a difference over formats: {slopes}"
    else:
        why = "" if population == PUBLISHED else ", as in published texts; the pilot cannot tell"
        assumed = "" if population == PUBLISHED else "assumed: "
        yield f"  {assumed}SD of a difference over formats: {population.slope:.3f}{why}"
    if counts.design.unit is not None:
        assumed = "" if population.shared_known else "assumed: "
        kept = f"{population.shared:.0%} of their typicality"
        yield f"  {assumed}names keep {kept} (its variance) from format to format"


def _number(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def _hours(hours: float) -> str:
    return f"{hours * 60:,.0f} minutes" if hours < 2 else f"{hours:,.0f} hours"


def _bytes(number: float) -> str:
    for unit in ("kB", "MB", "GB"):
        number /= 1000
        if number < 999.5:
            return f"{number:,.3g} {unit}"
    return f"{number / 1000:,.3g} TB"
