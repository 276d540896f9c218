"""What the numbers say: counts of significant settings, alarms, and sentences about both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from llm_variability.config import GREEDY, cell_name
from llm_variability.report.comparisons import tabulate_signals
from llm_variability.report.contrasts import Contrast, is_anchor
from llm_variability.report.wording import listing, percent, quantity, signed
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

CAUTION = (
    "At the pairwise level every text stands in many pairs, and the p-values treat these pairs as"
    " independent: they are too small, and the counts of significant settings are upper bounds."
    " Direction and size of the estimate, with the interval of the cell level, are the evidence;"
    " that level, one mean a group and format, does not suffer from it, but with few formats has"
    " little power. No p-value here is corrected for the number of contrasts and settings."
)
NAMES_CAUTION = (
    " Neither level knows that in a study of names the same names stand in every format: there,"
    " read the p-values of both levels as lower bounds."
)


@dataclass(frozen=True)
class Signal:
    """Over the settings of one model, encoder, level and contrast: how many are significant."""

    settings: int
    positive: int
    negative: int
    mean_estimate: float

    @property
    def significant(self) -> int:
        return self.positive + self.negative


def read_signals(signals: pl.DataFrame) -> dict[tuple[str, str, str, str], Signal]:
    """Read the signals table of one study, by (encoder, model, level, term)."""
    return {
        (row["encoder"], row["model"], row["level"], row["term"]): Signal(
            row["settings"],
            row["positive"],
            row["negative"],
            row["mean_estimate"],
        )
        for row in signals.iter_rows(named=True)
    }


def count_signals(fits: pl.DataFrame, design: Design) -> dict[tuple[str, str, str, str], Signal]:
    """Count the significant settings by (encoder, model, level, term)."""
    return read_signals(tabulate_signals(fits, design))


def describe_direction(signal: Signal) -> str:
    """Say in brackets which way the significant settings go; nothing if there are none."""
    if not signal.significant:
        return ""
    if signal.positive and signal.negative:
        return f" ({signal.positive:,} more homogeneous, {signal.negative:,} less)"
    word = "more" if signal.positive else "less"
    return f" ({'' if signal.significant == 1 else 'all '}{word} homogeneous)"


def describe_signal(signal: Signal) -> str:
    """Say in how many settings a contrast is significant, in which direction, and the mean."""
    return (
        f"significant in {signal.significant:,} of {quantity(signal.settings, 'setting')}"
        f"{describe_direction(signal)}, mean β {signed(signal.mean_estimate)}"
    )


def add_signals(signals: Sequence[Signal]) -> Signal:
    """Add up several models' signals; every setting counts the same in the mean."""
    settings = sum(each.settings for each in signals)
    return Signal(
        settings,
        sum(each.positive for each in signals),
        sum(each.negative for each in signals),
        sum(each.mean_estimate * each.settings for each in signals) / settings,
    )


def describe_contrast(contrast: Contrast, signals: Mapping[str, Sequence[Signal]]) -> str:
    """Say what became of a contrast over all models: a sentence, level by level.

    signals: by level, one of each model that has one.
    """
    parts = []
    for level, of_models in signals.items():
        total = add_signals(of_models)
        unit = "settings" if len(of_models) == 1 else "model settings"
        parts.append(
            f"at the {level} level in {total.significant:,} of {total.settings:,} {unit}"
            f"{describe_direction(total)}, mean β {signed(total.mean_estimate)}"
        )
    return f"{contrast.label}: significant (p < .05) {'; '.join(parts)}."


def describe_heatmap(
    contrasts: list[Contrast], signals: dict[str, Signal], model: str, level: str, encoder: str
) -> str:
    """Say what a heatmap shows, for those who do not see it. signals: by term."""
    found = [
        f"{contrast.label} {describe_signal(signals[contrast.term])}"
        for contrast in contrasts
        if contrast.term in signals and not contrast.is_interaction
    ]
    head = f"Heatmap of β by temperature and top-p, {model}, {level} level, {encoder}"
    return f"{head}. {'; '.join(found)}." if found else f"{head}: no fit could be made."


def describe_cosine(means: pl.DataFrame, design: Design, model: str, encoder: str) -> str:
    """Say how the mean cosine goes with temperature, and which group is highest at the top."""
    sampled = means.drop_nulls("mean_cosine").filter(pl.col("temperature") != GREEDY)
    head = f"Mean pairwise cosine by group and temperature, {model}, {encoder}"
    if not sampled.height:
        return f"{head}: no group has two texts to compare at a temperature above 0."
    overall = (
        sampled.group_by(pl.col("temperature").cast(pl.Float64))
        .agg(pl.col("mean_cosine").mean())
        .sort("temperature")
    )
    low, high = overall.row(0), overall.row(-1)
    course = (
        f"over all groups {signed(low[1])} at temperature {low[0]:g}"
        if low[0] == high[0]
        else f"over all groups {signed(low[1])} at temperature {low[0]:g}"
        f" and {signed(high[1])} at {high[0]:g}"
    )
    first = design.factors[0].name
    ends = (
        sampled.filter(pl.col("temperature").cast(pl.Float64) == high[0])
        .group_by(first, maintain_order=True)
        .agg(pl.col("mean_cosine").mean())
        .sort("mean_cosine")
    )
    spread = (
        f"; there, {ends[first][-1]} is highest ({signed(ends['mean_cosine'][-1])})"
        f" and {ends[first][0]} lowest ({signed(ends['mean_cosine'][0])})"
        if ends.height > 1
        else ""
    )
    return f"{head}: {course}{spread}."


def describe_draws(cells: pl.DataFrame) -> str:
    """Say how many draws were made, and how many cannot be measured or were cut."""
    draws = int(cells["draws"].sum())
    prompts = max(cells["prompts"].to_list(), default=0)
    models = cells["model"].unique(maintain_order=True).to_list()
    settings = cells.select("temperature", "top_p").unique().height
    words = {
        "empty": "empty",
        "truncated": "cut at the token limit",
        "no_answer": "without a final answer",
        "error": "refused by the server",
    }
    parts = []
    for status, word in words.items():
        count = int(cells[status].sum())
        if count or status in ("empty", "truncated"):
            share = f" ({percent(count / draws)})" if draws and count else ""
            parts.append(f"{count:,}{share} {'was' if count == 1 else 'were'} {word}")
    return (
        f"{quantity(len(models), 'model')} ({listing(models)}) answered"
        f" {quantity(prompts, 'prompt')} at"
        f" {quantity(settings, 'decoding setting')}: {quantity(draws, 'draw')} in all."
        f" Of these, {listing(parts)}."
    )


def describe_determinism(row: dict[str, int | str]) -> str:
    """Say whether greedy decoding was deterministic: the noise floor."""
    model, repeated = row["model"], int(row["repeated_prompts"])
    if not repeated:
        return (
            f"{model}: at temperature 0 no prompt has two texts, so nothing tells whether"
            " greedy decoding is deterministic here."
        )
    varying = int(row["varying_prompts"])
    return (
        f"{model}: {varying:,} of {quantity(repeated, 'prompt')} drawn more than once gave more"
        f" than one text at temperature 0"
        + (
            ": greedy decoding is not deterministic here, and this is the noise floor."
            if varying
            else "; greedy decoding was deterministic here."
        )
    )


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


def summarise_alarms(cells: pl.DataFrame) -> Iterator[str]:
    """Say the same in a line a kind where more than three models have it."""
    found = _places_of_alarms(cells)
    kinds = Counter(name for _, name in found)
    yield from describe_alarms(
        cells, [name for name, models in kinds.items() if models <= _MODELS_LISTED]
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
            f"{ALARM_WORDS[name]} above {percent(THRESHOLDS[name])} in {len(places):,} settings of"
            f" {models:,} models; most with {worst[0]} in {worst[1]} ({percent(worst[2])})."
        )


def describe_alarms(
    cells: pl.DataFrame, kinds: Collection[str] = tuple(THRESHOLDS)
) -> Iterator[str]:
    """Say, a line a model and kind, in which settings a share is above its threshold."""
    for (model, name), places in _places_of_alarms(cells).items():
        if name not in kinds:
            continue
        worst = max(places, key=lambda place: place[1])
        yield (
            f"{model}: {ALARM_WORDS[name]} above {percent(THRESHOLDS[name])} in"
            f" {quantity(len(places), 'setting')}; most in {worst[0]} ({percent(worst[1])})."
        )


def list_failures(fits: pl.DataFrame, design: Design) -> list[dict[str, str | int]]:
    """List the fits that could not be made or relied on, those alike in one row.

    Settings in which nothing is fitted by design are no failures.
    """
    failed = (
        fits.filter(~is_anchor(design), pl.col("term").is_null() | ~pl.col("converged"))
        .with_columns(pl.col("reason").fill_null("the fit did not converge"))
        .unique(
            ["model", "measure", "level", "temperature", "top_p", "reason"], maintain_order=True
        )
    )
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for model, measure, level, reason, temperature, top_p in failed.select(
        "model", "measure", "level", "reason", "temperature", "top_p"
    ).iter_rows():
        cells = grouped.setdefault((model, measure, level, reason), [])
        cells.append(cell_name(temperature, top_p))
    return [
        {
            "model": model,
            "measure": measure,
            "level": level,
            "reason": reason,
            "settings": len(cells),
            "cells": ", ".join(cells),
        }
        for (model, measure, level, reason), cells in grouped.items()
    ]
