"""What the numbers say: counts of significant settings, and sentences about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from llm_variability.config import GREEDY
from llm_variability.report.comparisons import tabulate_signals
from llm_variability.report.contrasts import Contrast
from llm_variability.report.level_tests import (
    PAIRWISE,
    TEXT_FIXED,
    TEXT_TESTS,
    LevelTest,
    View,
    find_test,
)
from llm_variability.report.wording import listing, percent, quantity, signed
from llm_variability.tables import Design


@dataclass(frozen=True)
class Signal:
    """Over the settings of one model, encoder, test and contrast: how many are significant.

    holm: those that still are after Holm's adjustment. within: what is said after their number
    where they are of several families (`contrasts.WITHIN_FAMILY`).
    """

    settings: int
    positive: int
    negative: int
    holm: int
    mean_estimate: float
    within: str = ""

    @property
    def significant(self) -> int:
        return self.positive + self.negative


SignalKey = tuple[str, str, str, str, str]
"""Encoder, model, key of the test, coding, term."""


def read_signals(signals: pl.DataFrame, within: str = "") -> dict[SignalKey, Signal]:
    """Read the signals table of one study. within: as in `Signal`."""
    return {
        (
            row["encoder"],
            row["model"],
            find_test(row["level"], row["scope"]).key,
            row["coding"],
            row["term"],
        ): Signal(
            row["settings"],
            row["positive"],
            row["negative"],
            row["significant_holm"],
            row["mean_estimate"],
            within,
        )
        for row in signals.iter_rows(named=True)
    }


def count_signals(fits: pl.DataFrame, design: Design) -> dict[SignalKey, Signal]:
    """Count the significant settings of rows of an ADJUSTED table of one study."""
    return read_signals(tabulate_signals(fits, design))


def describe_direction(signal: Signal) -> str:
    """Say in brackets which way the significant settings go, and how many Holm leaves.

    Nothing if there are none.
    """
    if not signal.significant:
        return ""
    if signal.positive and signal.negative:
        way = f"{signal.positive:,} more homogeneous, {signal.negative:,} less"
    else:
        word = "more" if signal.positive else "less"
        way = f"{'' if signal.significant == 1 else 'all '}{word} homogeneous"
    left = f"{signal.holm:,}" if signal.holm else "none"
    return f" ({way}; {left} after Holm{signal.within})"


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
        sum(each.holm for each in signals),
        sum(each.mean_estimate * each.settings for each in signals) / settings,
        signals[0].within,
    )


def describe_contrast(
    contrast: Contrast,
    signals: Mapping[LevelTest, Sequence[Signal]],
    default: Sequence[Mapping[str, Any]] = (),
    place: str = "",
) -> str:
    """Say what became of a contrast over all models: a sentence on tests, one on estimates.

    signals: one of each model that has one, by test; those of pairs are left out, since their
    p-values mean nothing. default: the contrast's rows of the default estimates. place: where the
    contrast is taken (`contrasts.place_contrast`).
    """
    parts: list[str] = []
    for test, of_models in signals.items():
        if test == PAIRWISE:
            continue
        total = add_signals(of_models)
        unit = "setting" if len(of_models) == 1 else "model setting"
        head = "" if parts else "significant (p < .05) "
        parts.append(
            f"{head}{test.claim} in {total.significant:,} of {quantity(total.settings, unit)}"
            f"{describe_direction(total)}"
        )
    told = [f"{'; '.join(parts)}."] if parts else []
    if at_default := _describe_default(default):
        told.append(at_default)
    return f"{name_place(contrast, place)}: {' '.join(told)}"


def name_place(contrast: Contrast, place: str) -> str:
    """Name a contrast and where it is taken: `Asian (vs. White), among man`."""
    return f"{contrast.label}, {place}" if place else contrast.label


def describe_published(
    contrasts: Sequence[tuple[str, Mapping[LevelTest, Sequence[Signal]]]],
) -> str:
    """Say in one line in how many settings each contrast of the published coding is significant.

    contrasts: the name of each with its signals, one of each model that has one, by test.
    """
    parts = []
    for name, signals in contrasts:
        counts = []
        for test, of_models in signals.items():
            if test == PAIRWISE:
                continue
            total = add_signals(of_models)
            left = f" ({total.holm:,} after Holm{total.within})" if total.holm else ""
            counts.append(f"{total.significant:,} of {total.settings:,} {test.claim}{left}")
        parts.append(f"{name}: {', '.join(counts)}")
    return (
        "Published coding, for comparison with the paper (settings with p < .05):"
        f" {'; '.join(parts)}."
    )


def describe_interactions(
    contrasts: Sequence[tuple[str, Mapping[LevelTest, Sequence[Signal]]]],
) -> str:
    """Say in one line which differences of differences are significant in these formats.

    contrasts: as in `describe_published`. Empty if there are none.
    """
    totals = [
        (name, add_signals(signals[TEXT_FIXED]))
        for name, signals in contrasts
        if signals.get(TEXT_FIXED)
    ]
    if not totals:
        return ""
    unit = "setting" if len(contrasts[0][1][TEXT_FIXED]) == 1 else "model setting"
    parts = [
        f"{name} in {total.significant:,} of {quantity(total.settings, unit)}"
        f"{describe_direction(total)}"
        for name, total in totals
        if total.significant
    ]
    told = "; ".join(parts) if parts else "none in any setting"
    return f"Differences of differences, p < .05 {TEXT_FIXED.claim}: {told}."


def _describe_default(default: Sequence[Mapping[str, Any]]) -> str:
    """Give the lowest and the highest model's estimate with its intervals under both scopes."""
    by_model: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in default:
        test = find_test(row["level"], row["scope"])
        if test in TEXT_TESTS and row["estimate"] is not None:
            by_model.setdefault(row["model"], {})[test.key] = row
    if not by_model:
        return ""
    ordered = sorted(by_model, key=lambda model: next(iter(by_model[model].values()))["estimate"])

    def tell(model: str) -> str:
        found = by_model[model]
        intervals = [
            f"{interval(found[test.key])} {test.claim}" for test in TEXT_TESTS if test.key in found
        ]
        estimate = next(iter(found.values()))["estimate"]
        return f"{signed(estimate)}, 95% interval {listing(intervals)}"

    if len(ordered) == 1:
        return f"At the default setting β is {tell(ordered[0])}."
    low, high = ordered[0], ordered[-1]
    return f"At the default setting β runs from {tell(low)} ({low}), to {tell(high)} ({high})."


def interval(row: Mapping[str, Any], kind: str = "ci", decimals: int = 2) -> str:
    """Write an interval, `[−0.10, 0.32]`; nothing if there is none. kind: ci or simultaneous."""
    low, high = row[f"{kind}_low"], row[f"{kind}_high"]
    if low is None or high is None:
        return ""
    return f"[{signed(low, decimals)}, {signed(high, decimals)}]"


def describe_heatmap(
    contrasts: list[Contrast], signals: dict[str, Signal], model: str, view: View, encoder: str
) -> str:
    """Say what a heatmap shows, for those who do not see it. signals: by term."""
    found = [
        f"{contrast.label} {describe_signal(signals[contrast.term])}"
        for contrast in contrasts
        if contrast.term in signals and not contrast.is_interaction
    ]
    head = f"Heatmap of β by temperature and top-p, {model}, {view.label}, {encoder}"
    if not found:
        return f"{head}: no fit could be made."
    return f"{head}. {'; '.join(found)}. {view.test.caution}"


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
