"""What is checked of a study of personas: its prompts, draws, programs and tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from llm_variability.config import cell_name
from llm_variability.config_personas import Separation
from llm_variability.report.alarms import MIN_PROGRAMS
from llm_variability.report.contrasts import SIGNIFICANCE
from llm_variability.report.diagnostics import (
    MODELS_SETTINGS,
    Check,
    Rule,
    check_draws,
    judge,
    name_settings,
)
from llm_variability.report.personas.alarms import (
    FEW_PROMPTS,
    MANY_LABELLINGS,
    MAX_MISSING,
    MAX_REFUSED,
    MAX_SAME_WORDS,
    MAX_UNUSABLE,
    MIN_TASKS,
    PERMUTED_TABLES,
    count_dealings,
    list_dealings,
)
from llm_variability.report.personas.schemas import name_flag
from llm_variability.report.personas.statements import Names, count_missing, name_level
from llm_variability.separation.families import PROMPT_FEATURES, list_families

MOST_DEALINGS = 10**9
"""Ways to deal prompts above which their number is not told."""

_TASKS_PERSONAS = ("task × persona", "tasks × personas")

MISSING = Rule(
    "missing_prompts",
    "prompts that could not be made",
    "prompts of a persona for a task that no attempt could be used for",
    MAX_MISSING,
    *_TASKS_PERSONAS,
    form="whole",
)
UNUSABLE = Rule(
    "unusable_attempts",
    "unusable attempts at prompts",
    "share of all attempts at prompts that could not be used",
    MAX_UNUSABLE,
    "study",
    "studies",
)
REFUSED = Rule(
    "refused_attempts",
    "refused attempts at prompts",
    "share of all attempts in which the model refuses the persona or speaks as a model",
    MAX_REFUSED,
    "study",
    "studies",
)
REPEATED = Rule(
    "repeated_prompts",
    "prompts in the words of an earlier one",
    "prompts of a persona for a task in the words of an earlier one of the same",
    MAX_SAME_WORDS,
    *_TASKS_PERSONAS,
    form="whole",
)
SHARED = replace(
    REPEATED,
    key="shared_prompts",
    name="prompts in the words of another persona",
    counted="prompts of a persona for a task in the words of another persona's",
)
FEW = Rule(
    "few_prompts",
    "few prompts",
    "prompts of a persona for a task; with few, intervals are rough",
    FEW_PROMPTS,
    *_TASKS_PERSONAS,
    side="below",
    form="whole",
)
TASKS = Rule(
    "few_tasks",
    "few tasks",
    "tasks; with one, nothing says that a finding holds for another",
    MIN_TASKS,
    "study",
    "studies",
    side="below",
    form="whole",
)
DEALINGS = Rule(
    "prompt_dealings",
    "few ways to deal prompts to personas",
    f"ways to deal prompts to personas, counted up to {MOST_DEALINGS:,}; with few, no p is small",
    MANY_LABELLINGS,
    "study",
    "studies",
    side="below",
    form="whole",
)
CODE_DEALINGS = replace(
    DEALINGS,
    key="program_dealings",
    name="few ways to deal prompts with a program",
    counted="the same, of the prompts that have a program",
    place=MODELS_SETTINGS[0],
    places=MODELS_SETTINGS[1],
)
HOLM = Rule(
    "holm",
    "significance after Holm out of reach",
    "smallest p after Holm that a family's number of tests, permutations and ways to deal"
    " prompts allow",
    SIGNIFICANCE,
    "family of tests",
    "families of tests",
    side="at least",
    form="p",
)
PROGRAMS = Rule(
    "programs",
    "failed extraction of programs",
    "share of the replies to a persona that are programs; the others are not compared",
    MIN_PROGRAMS,
    "cell × persona",
    "cells × personas",
    side="below",
)
DIALOGUES = Rule(
    "few_dialogues",
    "few prompts behind dialogues",
    "prompts with programs both with and without a dialogue",
    FEW_PROMPTS,
    "number",
    side="below",
    form="whole",
)
FOLDS = Rule(
    "folds",
    "guesses at tasks that were learned from",
    "guesses of who asked for which the same task's programs were learned from, as iterations and"
    " not tasks were held out",
    0,
    "model × setting × view",
    "models × settings × views",
    form="whole",
)
LACKING = Rule(
    "missing_numbers",
    "numbers that could not be had",
    "similarities, means, guesses, entities and dialogues without a number, by reason",
    MAX_MISSING,
    "kind of number",
    "kinds of numbers",
    form="whole",
)


def _share_of_attempts(prompts: pl.DataFrame, count: int, by: pl.DataFrame) -> pl.DataFrame:
    """Give the share of all attempts, and where it is largest: a row, or none without attempts.

    by: a row a persona, with the share of its own as `value`.
    """
    attempts = int(prompts["attempts"].sum())
    worst = by.drop_nulls("value").sort("value", descending=True, maintain_order=True)
    return pl.DataFrame(
        {
            "value": [count / attempts] if attempts else [],
            "where": [f"most of {worst['persona'][0]}" if count else None] if attempts else [],
        },
        schema={"value": pl.Float64, "where": pl.String},
    )


def _check_attempts(study: str, prompts: pl.DataFrame, names: Names, target: str) -> list[Check]:
    """Check how many attempts at prompts could not be used, and how many refuse."""
    named = prompts.with_columns(
        pl.col("persona").map_elements(lambda each: name_level(each, names), pl.String)
    )
    counts = {
        UNUSABLE: pl.col("attempts") - pl.col("used"),
        REFUSED: pl.col(name_flag("refusal")),
    }
    reason = "no attempt was made"
    checks = []
    for rule, count in counts.items():
        by_persona = named.group_by("persona", maintain_order=True).agg(
            (count.sum() / pl.col("attempts").sum()).alias("value")
        )
        total = int(named.select(count.sum()).item())
        values = _share_of_attempts(prompts, total, by_persona)
        checks.append(judge(rule, study, target, values, reason))
    return checks


def _bound_families(
    tables: Mapping[str, pl.DataFrame], separation: Separation, prompts: int, programs: int
) -> pl.DataFrame:
    """Give a bound that no p after Holm of each family of tests can be below.

    No p is below 1 / (1 + permutations), nor below 1 / the ways in which prompts can be dealt to
    personas: `prompts` in all, `programs` of those with a program (the most of any setting; pairs
    of personas have fewer).
    """
    of_prompts = pl.col("family") == PROMPT_FEATURES
    parts = [
        list_families(table, tables[name]).select(
            (
                pl.col("family_size")
                / pl.min_horizontal(
                    pl.lit(1 + getattr(separation, setting)),
                    pl.when(of_prompts).then(prompts).otherwise(programs),
                )
            )
            .clip(upper_bound=1.0)
            .alias("value"),
            pl.col("family").alias("where"),
        )
        for setting, table, name in PERMUTED_TABLES
    ]
    return pl.concat(parts)


def _one(value: int) -> pl.DataFrame:
    return pl.DataFrame({"value": [value]})


def check_personas(
    study: str,
    tables: Mapping[str, pl.DataFrame],
    names: Names,
    separation: Separation,
    features: Mapping[str, pl.DataFrame],
    base: str,
) -> list[Check]:
    """Check a study of personas.

    tables: of `schemas.PERSONA_SCHEMAS`, the rows of one study. separation: how many permutations
    were made. features: FEATURES tables with the study's own columns, by model. base: id of the
    study's section.
    """
    prompts, dialogues = tables["persona_prompts"], tables["persona_dialogues"]
    target, no_prompt = f"{base}-prompts", "no prompt was asked for"
    who = pl.col("persona").map_elements(lambda each: name_level(each, names), pl.String)
    by_task = prompts.with_columns(where=pl.concat_str(who, "task", separator=", "))
    there = by_task.filter(pl.col("used") > 0)
    dealings = pl.DataFrame(
        [
            {
                "value": min(ways, MOST_DEALINGS),
                "model": model,
                "setting": cell_name(*setting),
                "where": f"{count:,} such prompts",
            }
            for ways, count, model, setting in list_dealings(features)
        ],
        schema={"value": pl.Int64, "model": pl.String, "setting": pl.String, "where": pl.String},
    )
    changes = name_settings(
        dialogues.filter(pl.col("persona").is_null(), pl.col("change").is_not_null())
    ).with_columns(value=pl.col("n_prompts"), where="measure")
    guesses = name_settings(tables["persona_leakage"].drop_nulls("accuracy")).with_columns(
        value=(pl.col("folds") == "iteration").cast(pl.Int64), where="features"
    )
    missing = pl.DataFrame(
        [
            {"value": count, "where": f"{what}: {why}"}
            for what, why, count in count_missing(tables, names)
        ]
        or [{"value": 0, "where": None}],
        schema={"value": pl.Int64, "where": pl.String},
    )
    return [
        judge(MISSING, study, target, by_task.with_columns(value="missing"), no_prompt),
        *_check_attempts(study, prompts, names, target),
        judge(REPEATED, study, target, by_task.with_columns(value="used_repeated"), no_prompt),
        judge(SHARED, study, target, by_task.with_columns(value="used_shared"), no_prompt),
        judge(FEW, study, target, there.with_columns(value="used"), "no prompt could be made"),
        judge(TASKS, study, target, _one(prompts["task"].n_unique()), no_prompt),
        judge(
            DEALINGS,
            study,
            target,
            _one(min(count_dealings(prompts), MOST_DEALINGS)),
            no_prompt,
        ),
        judge(CODE_DEALINGS, study, f"{base}-code", dealings, "no reply was given"),
        judge(
            HOLM,
            study,
            f"{base}-code",
            _bound_families(
                tables,
                separation,
                min(count_dealings(prompts), MOST_DEALINGS),
                dealings["value"].max() or MOST_DEALINGS,  # type: ignore[arg-type]
            ),
            "no test has a p-value",
        ),
        *check_draws(study, tables["persona_draws"], f"{base}-draws"),
        judge(
            PROGRAMS,
            study,
            f"{base}-code",
            tables["persona_replies"].with_columns(
                value="program_share", setting="cell", where=who
            ),
            "no reply came",
        ),
        judge(
            DIALOGUES,
            study,
            f"{base}-dialogue" if dialogues.height else base,
            changes,
            "dialogues changed no code that could be compared"
            if dialogues.height
            else "models could not ask back",
        ),
        judge(FOLDS, study, f"{base}-leakage", guesses, "nothing could be guessed"),
        judge(LACKING, study, f"{base}-left-out", missing, ""),
    ]
