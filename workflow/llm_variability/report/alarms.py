"""What deserves a warning: shares of draws above a threshold, few texts, fits that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

import polars as pl

from llm_variability.config import GREEDY, cell_name
from llm_variability.report.contrasts import is_anchor
from llm_variability.report.level_tests import find_test
from llm_variability.report.wording import percent, quantity
from llm_variability.tables import Design

THRESHOLDS = {
    "empty": 0.05,
    "truncated": 0.20,
    "no_answer": 0.05,
    "error": 0.0,
    "identical": 0.20,
}
"""Shares above which the page raises an alarm: of a cell's draws, and for `identical` of its
prompts with two texts or more, at temperatures above 0."""

MAX_VARYING = 0.0
"""Share of the prompts drawn more than once at temperature 0 that may give more than one text."""

MAX_OVER_LONG = 0.0
"""Share of texts longer than their encoder takes above which the page raises an alarm."""

MAX_FAILED = 0
"""Fits that failed above which the page raises an alarm."""

MAX_IGNORED = 0
"""Arguments that a chat template ignores above which the page raises an alarm."""

MIN_PROGRAMS = 0.5
"""Share of a cell's replies that are programs below which the page of a study of code raises an
alarm: what is compared there is a choice of the replies."""

MIN_TEXTS = 4
"""Texts of a group in one block below which nothing is tested at the text level."""

FEW_TEXTS = 20
"""Texts of a group in one block below which the page warns that intervals are wide."""


def find_alarms(cell: dict[str, int | str | None]) -> dict[str, float]:
    """Find the shares of one cell that are above their threshold."""
    draws = int(cell["draws"] or 0)
    shares = {
        status: int(cell[status] or 0) / draws
        for status in ("empty", "truncated", "no_answer", "error")
        if draws
    }
    if cell["temperature"] != GREEDY and cell["repeated_prompts"]:
        shares["identical"] = int(cell["identical_prompts"] or 0) / int(cell["repeated_prompts"])
    return {name: share for name, share in shares.items() if share > THRESHOLDS[name]}


_MODELS_LISTED = 3

ALARM_WORDS = {
    "empty": "empty draws",
    "truncated": "draws cut at the token limit",
    "no_answer": "draws without a final answer",
    "error": "draws refused by the server",
    "identical": "prompts whose draws are all the same text",
}


def _places_of_alarms(cells: pl.DataFrame) -> dict[tuple[str, str], list[tuple[str, float]]]:
    """Gather the cells and shares above their threshold by model and kind."""
    found: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for cell in cells.iter_rows(named=True):
        for name, share in find_alarms(cell).items():
            found.setdefault((cell["model"], name), []).append((cell["cell"], share))
    return found


def summarise_alarms(cells: pl.DataFrame, place: str = "setting") -> Iterator[str]:
    """Say the same in a line a kind where more than three models have it."""
    found = _places_of_alarms(cells)
    kinds = Counter(name for _, name in found)
    yield from describe_alarms(
        cells, [name for name, models in kinds.items() if models <= _MODELS_LISTED], place
    )
    for name, models in kinds.items():
        if models <= _MODELS_LISTED:
            continue
        places = [
            (model, cell, share)
            for (model, kind), of_model in found.items()
            if kind == name
            for cell, share in of_model
        ]
        worst = max(places, key=lambda place: place[2])
        yield (
            f"{ALARM_WORDS[name]} above {percent(THRESHOLDS[name])} in {len(places):,} {place}s of"
            f" {models:,} models; most with {worst[0]} in {worst[1]} ({percent(worst[2])})."
        )


def describe_alarms(
    cells: pl.DataFrame, kinds: Collection[str] = tuple(THRESHOLDS), place: str = "setting"
) -> Iterator[str]:
    """Say, a line a model and kind, in which settings a share is above its threshold.

    place: what a row of cells is called.
    """
    for (model, name), places in _places_of_alarms(cells).items():
        if name not in kinds:
            continue
        worst = max(places, key=lambda place: place[1])
        yield (
            f"{model}: {ALARM_WORDS[name]} above {percent(THRESHOLDS[name])} in"
            f" {quantity(len(places), place)}; most in {worst[0]} ({percent(worst[1])})."
        )


def describe_few_texts(means: pl.DataFrame, design: Design) -> Iterator[str]:
    """Say, a line a model, in how many settings a group has few texts in some block.

    means: the mean cosine table of one study. Encoders measure the same texts, so the first one's
    rows are taken.
    """
    factors = [factor.name for factor in design.factors]
    sampled = means.filter(~is_anchor(design), pl.col("encoder") == means["encoder"].first())
    few = sampled.filter(pl.col("fewest_texts") < FEW_TEXTS)
    for (model,), part in few.partition_by("model", maintain_order=True, as_dict=True).items():
        of_model = sampled.filter(pl.col("model") == model)
        settings, all_settings = (
            each.select("temperature", "top_p").n_unique() for each in (part, of_model)
        )
        worst = part.sort("fewest_texts", maintain_order=True).row(0, named=True)
        group = ", ".join(worst[name] for name in factors)
        yield (
            f"{model}: a group has fewer than {FEW_TEXTS} texts a {design.block} in {settings:,} of"
            f" {quantity(all_settings, 'setting')} (fewest {worst['fewest_texts']}: {group} in"
            f" {cell_name(worst['temperature'], worst['top_p'])}); intervals are wide there."
        )


def describe_uncalibrated(
    means: pl.DataFrame, design: Design, calibrated: int | None
) -> Iterator[str]:
    """Say if groups have fewer texts than in any simulation of the tests' level.

    means: the mean cosine table of one study. calibrated: texts of a group in one block in the
    smallest simulated studies of such a design; None where nothing is known. A group with fewer
    than four texts is not tested, so it is left out.
    """
    sampled = means.filter(~is_anchor(design), pl.col("fewest_texts") >= MIN_TEXTS)
    fewest = sampled["fewest_texts"].min()
    if calibrated is not None and isinstance(fewest, int) and fewest < calibrated:
        unit = design.unit or "text"
        yield (
            f"a group has as few as {quantity(fewest, unit)} a {design.block}; the tests"
            f" are calibrated from {quantity(calibrated, unit)} a group and {design.block}, so how"
            " often they are wrong below that is not known."
        )


def list_failures(fits: pl.DataFrame, design: Design) -> list[dict[str, str | int]]:
    """List the estimates that could not be made or relied on, those alike in one row.

    fits: rows of an ADJUSTED table of one study, all analyses. Settings in which nothing is fitted
    by design are no failures.
    """
    kinds = ["analysis", "model", "measure", "level", "scope", "reason"]
    failed = (
        fits.filter(~is_anchor(design), pl.col("term").is_null() | ~pl.col("converged"))
        .with_columns(pl.col("reason").fill_null("the fit did not converge"))
        .unique([*kinds, "temperature", "top_p"], maintain_order=True)
    )
    grouped: dict[tuple[str, ...], list[str]] = {}
    for *kind, temperature, top_p in failed.select(*kinds, "temperature", "top_p").iter_rows():
        grouped.setdefault(tuple(kind), []).append(cell_name(temperature, top_p))
    return [
        {
            "analysis": analysis,
            "model": model,
            "measure": measure,
            "test": find_test(level, scope).label,
            "reason": reason,
            "settings": len(cells),
            "cells": ", ".join(cells),
        }
        for (analysis, model, measure, level, scope, reason), cells in grouped.items()
    ]
