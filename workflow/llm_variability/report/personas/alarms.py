"""What deserves a warning in a study of personas: prompts that could not be made, few prompts,
replies without programs, a classifier that knows the task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
import polars as pl

from llm_variability.config_personas import Separation
from llm_variability.report import alarms
from llm_variability.report.alarms import MIN_PROGRAMS
from llm_variability.report.code.figures import describe_setting
from llm_variability.report.comparisons import at_setting
from llm_variability.report.personas.schemas import name_flag
from llm_variability.report.personas.statements import REPLY_WORDS, Names, name_level
from llm_variability.report.wording import listing, p_number, percent, quantity
from llm_variability.separation.families import find_unreachable
from llm_variability.separation.permutations import count_labellings
from llm_variability.tables_personas import LEAKAGE, PERSONA_MEANS, SEPARATION

MAX_UNUSABLE = 0.5
"""Share of attempts at prompts that cannot be used above which the page raises an alarm."""

MAX_REFUSED = 0.05
"""Share of attempts that refuse above which the page raises an alarm."""

FEW_PROMPTS = 5
"""Prompts of a persona for a task below which the page warns that inference is rough: the
published number of iterations."""

MAX_MISSING = 0
"""Missing prompts, and numbers, above which the page raises an alarm."""

MAX_SAME_WORDS = 0
"""Prompts in the words of another above which the page raises an alarm."""

MIN_TASKS = 2
"""Tasks below which nothing says that a finding holds for another."""

PERMUTED_TABLES = (
    ("permutations", SEPARATION, "persona_separation"),
    ("permutations", PERSONA_MEANS, "persona_means"),
    ("classifier_permutations", LEAKAGE, "persona_leakage"),
)
"""Key of `separation` that says how many permutations are made, table of the stage, and of the
report, that holds the p-values."""

PLACES_TOLD = 6
"""Tasks of personas that an alarm names; the table has all."""

MANY_LABELLINGS = 1_000
"""Ways to deal prompts to personas from which the smallest p is no matter of their number."""


def is_short(row: Mapping[str, Any]) -> bool:
    """Tell whether prompts are missing. row: of `persona_prompts`."""
    missing: int = row["missing"]
    return missing > MAX_MISSING


def describe_missing_prompts(prompts: pl.DataFrame, names: Names) -> Iterator[str]:
    """Say whose prompts could not all be made, those with none first.

    prompts: rows of `persona_prompts` of one study.
    """
    short = prompts.filter(pl.col("missing") > MAX_MISSING)
    for none in (True, False):
        rows = short.filter((pl.col("used") == 0) == none)
        if not rows.height:
            continue
        told = [
            f"{name_level(row['persona'], names)} for {row['task']}"
            + ("" if none else f" ({row['used']:,} of {row['asked']:,})")
            for row in rows.iter_rows(named=True)
        ]
        if len(told) > PLACES_TOLD:
            told = [*told[:PLACES_TOLD], f"{len(told) - PLACES_TOLD:,} more"]
        if none:
            yield f"no usable prompt of {listing(told)}: nothing is known of them there."
        else:
            yield f"fewer prompts than asked for of {listing(told)}."


def describe_unusable(prompts: pl.DataFrame, names: Names, model: str | None) -> Iterator[str]:
    """Say if most attempts at prompts could not be used, or too many refused.

    prompts: rows of `persona_prompts` of one study. model: that took the personas' parts.
    """
    who = "the model that takes the personas" if model is None else model
    attempts = int(prompts["attempts"].sum())
    if not attempts:
        return
    unused = attempts - int(prompts["used"].sum())
    if unused / attempts > MAX_UNUSABLE:
        by_persona = prompts.group_by("persona", maintain_order=True).agg(
            (1 - pl.col("used").sum() / pl.col("attempts").sum()).alias("share")
        )
        worst = by_persona.sort("share", descending=True, maintain_order=True).row(0, named=True)
        yield (
            f"{who}: more than {percent(MAX_UNUSABLE)} of the attempts at prompts could not be"
            f" used ({unused:,} of {attempts:,}; most of {name_level(worst['persona'], names)},"
            f" {percent(worst['share'])}). Prompts, if any, are a choice of what it wrote."
        )
    refused = int(prompts[name_flag("refusal")].sum())
    if refused / attempts > MAX_REFUSED:
        yield (
            f"{who}: refuses to take a persona or speaks as a model in {refused:,} of"
            f" {quantity(attempts, 'attempt')} ({percent(refused / attempts)}, above"
            f" {percent(MAX_REFUSED)})."
        )


def describe_same_words(prompts: pl.DataFrame) -> Iterator[str]:
    """Say if prompts have the words of another. prompts: rows of `persona_prompts`."""
    repeated, shared = (int(prompts[f"used_{flag}"].sum()) for flag in ("repeated", "shared"))
    if repeated > MAX_SAME_WORDS:
        yield (
            f"{quantity(repeated, 'prompt')} in the same words as an earlier one of the same"
            " persona and task: the persona's prompts vary less than their number says."
        )
    if shared > MAX_SAME_WORDS:
        yield (
            f"{quantity(shared, 'prompt')} in the same words as one of another persona: nothing"
            " can tell the two apart there."
        )


def count_dealings(prompts: pl.DataFrame) -> int:
    """Count the ways to deal each task's prompts to the personas that can differ in the test.

    prompts: a row a task and persona, with the prompts `used`.
    """
    counts = []
    for part in prompts.filter(pl.col("used") > 0).partition_by("task", maintain_order=True):
        labels = np.repeat(np.arange(part.height), part["used"].to_numpy()).astype(np.int64)
        counts.append(count_labellings(labels, np.zeros_like(labels), alike=True))
    return prod(counts)


def describe_few_prompts(prompts: pl.DataFrame, names: Names, permutations: int) -> Iterator[str]:
    """Say where inference is rough: few prompts of a persona for a task, or one task.

    The smallest p told is of tests of the prompts; of tests of code it is `describe_few_programs`
    that tells it.

    prompts: rows of `persona_prompts` of one study. permutations: random ones, that are made where
    there are more ways to deal prompts to personas.
    """
    there = prompts.filter(pl.col("used") > 0)
    few = there.filter(pl.col("used") < FEW_PROMPTS)
    if few.height:
        worst = few.sort("used", maintain_order=True).row(0, named=True)
        told = (
            f"fewer than {FEW_PROMPTS} prompts of a persona for a task in {few.height:,} of"
            f" {there.height:,} tasks × personas (fewest {worst['used']}:"
            f" {name_level(worst['persona'], names)}, {worst['task']}); intervals are rough there"
        )
        ways = count_dealings(prompts)
        if ways < MANY_LABELLINGS:
            told += f", and {_tell_dealings('prompts', ways, permutations)}"
        yield f"{told}."
    if prompts["task"].n_unique() < MIN_TASKS:
        yield "one task: nothing here says that it would be so with another."


def _tell_dealings(what: str, ways: int, permutations: int) -> str:
    """Say how few ways there are to deal prompts to personas, and how small p can be by them."""
    if ways < 2:
        return f"{what} can be dealt to personas in one way only: no test can tell anything"
    tried = "" if ways <= permutations else f", of which {permutations:,} are drawn"
    smallest = 1 / ways if ways <= permutations else 1 / (1 + permutations)
    return (
        f"{what} can be dealt to personas in {quantity(ways, 'way')} only{tried}: the smallest"
        f" possible p of all personas together is {p_number(smallest)}"
    )


def count_with_program(features: pl.DataFrame) -> pl.DataFrame:
    """Count the prompts that have a program.

    features: a FEATURES table with the study's own columns. Returns, by temperature, top_p, task
    and persona, the prompts with at least one (`used`).
    """
    return (
        features.filter(pl.col("reply") == "program")
        .group_by("temperature", "top_p", "task", "persona", maintain_order=True)
        .agg(used=pl.col("prompt_id").n_unique())
    )


def list_dealings(
    features: Mapping[str, pl.DataFrame],
) -> list[tuple[int, int, str, tuple[str, str | None]]]:
    """Give, of each model and setting, the ways to deal the prompts that have a program.

    features: FEATURES tables with the study's own columns, by model. Returns the ways
    (`count_dealings`), the prompts with a program, the model and the setting.
    """
    dealings = []
    for model, table in features.items():
        for setting in table.select("temperature", "top_p").unique(maintain_order=True).rows():
            there = count_with_program(table.filter(at_setting(setting)))
            dealings.append((count_dealings(there), int(there["used"].sum()), model, setting))
    return dealings


def describe_few_programs(
    features: Mapping[str, pl.DataFrame], prompts: pl.DataFrame, permutations: int
) -> Iterator[str]:
    """Say where so few prompts have a program that no test of code can have a small p.

    Where every prompt has one, `describe_few_prompts` has told it.

    features: FEATURES tables with the study's own columns, by model. prompts: rows of
    `persona_prompts` of one study. permutations: as in `describe_few_prompts`.
    """
    of_prompts = count_dealings(prompts)
    dealings = list_dealings(features)
    found = [each for each in dealings if each[0] < min(MANY_LABELLINGS, of_prompts)]
    if found:
        ways, count, model, setting = min(found, key=lambda each: each[0])
        yield (
            f"of the code: few prompts have a program in {len(found):,} of"
            f" {quantity(len(dealings), 'model × setting', 'models × settings')}; fewest ways:"
            f" {model}, {describe_setting(setting)}, where"
            f" {_tell_dealings(quantity(count, 'prompt') + ' with a program', ways, permutations)}."
        )


def describe_few_dialogues(dialogues: pl.DataFrame) -> Iterator[str]:
    """Say where the change of code with dialogues comes from few prompts.

    dialogues: rows of `persona_dialogues` of one study.
    """
    rows = dialogues.filter(pl.col("persona").is_null(), pl.col("change").is_not_null())
    few = rows.filter(pl.col("n_prompts") < FEW_PROMPTS)
    if few.height:
        worst = few.sort("n_prompts", maintain_order=True).row(0, named=True)
        yield (
            f"dialogues: the change of the code is over fewer than {FEW_PROMPTS} prompts in"
            f" {few.height:,} of {quantity(rows.height, 'number')} of all personas (fewest"
            f" {worst['n_prompts']}: {worst['model']},"
            f" {describe_setting((worst['temperature'], worst['top_p']))}, {worst['measure']});"
            " nothing can be said of others by it."
        )


def describe_failing_replies(replies: pl.DataFrame, names: Names) -> Iterator[str]:
    """Say, a line a model, where most replies are no programs. replies: of `persona_replies`."""
    failing = replies.filter(pl.col("program_share") < MIN_PROGRAMS)
    for (model,), part in failing.partition_by("model", maintain_order=True, as_dict=True).items():
        places = replies.filter(pl.col("model") == model).height
        worst = part.sort("program_share", maintain_order=True).row(0, named=True)
        others = [kind for kind in REPLY_WORDS if kind != "program"]
        why = max(others, key=lambda kind: worst[kind])
        yield (
            f"{model}: fewer than {percent(MIN_PROGRAMS)} of the replies are programs in"
            f" {part.height:,} of {places:,} settings × personas; fewest for"
            f" {name_level(worst['persona'], names)} in {worst['cell']}"
            f" ({percent(worst['program_share'])}; most others: {REPLY_WORDS[why]}). What is said"
            " of programs there is of a choice of the replies."
        )


def describe_unreachable(
    tables: Mapping[str, pl.DataFrame], separation: Separation
) -> Iterator[str]:
    """Say where too few permutations are made for any p after Holm to be below 5%.

    tables: of `schemas.PERSONA_SCHEMAS`, the rows of one study. separation: its settings.
    """
    for setting, table, name in PERMUTED_TABLES:
        made: int = getattr(separation, setting)
        found = find_unreachable(table, tables[name], made)
        if not found:
            continue
        told = [
            f"{each.family} ({quantity(each.tests, 'test')}, at least {p_number(each.adjusted)})"
            for each in found[:PLACES_TOLD]
        ]
        if len(found) > PLACES_TOLD:
            told = [*told, f"{len(found) - PLACES_TOLD:,} more"]
        yield (
            f"no p after Holm can be below .05, whatever the data, in {listing(told)}: the smallest"
            f" p of {quantity(made, 'permutation')} is {p_number(found[0].smallest)}."
            f" separation.{setting}: {max(each.needed for each in found):,} are enough."
        )


def describe_folds(leakage: pl.DataFrame) -> Iterator[str]:
    """Say if the classifier was trained on the task that it guesses at. leakage: its rows."""
    if leakage.filter(pl.col("folds") == "iteration").height:
        yield (
            "who asked is guessed with iterations held out and not tasks, as there is one task: the"
            " classifier may know this task's programs and nothing that holds for others."
        )


def describe_persona_alarms(
    tables: Mapping[str, pl.DataFrame],
    names: Names,
    model: str | None,
    separation: Separation,
    features: Mapping[str, pl.DataFrame],
) -> list[str]:
    """Gather a study's alarms, those of its prompts first.

    tables: of `schemas.PERSONA_SCHEMAS`, the rows of one study. model: that took the
    personas' parts. separation: how many permutations were made. features: FEATURES tables with
    the study's own columns, by model.
    """
    prompts = tables["persona_prompts"]
    return [
        *describe_missing_prompts(prompts, names),
        *describe_unusable(prompts, names, model),
        *describe_same_words(prompts),
        *describe_few_prompts(prompts, names, separation.permutations),
        *describe_few_programs(features, prompts, separation.permutations),
        *describe_unreachable(tables, separation),
        *alarms.summarise_alarms(tables["persona_draws"], "setting"),
        *describe_failing_replies(tables["persona_replies"], names),
        *describe_few_dialogues(tables["persona_dialogues"]),
        *describe_folds(tables["persona_leakage"]),
    ]
