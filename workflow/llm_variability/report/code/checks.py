"""What is checked of a study of code: its draws, programs, tasks, curves and prompts."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from llm_variability.report.alarms import MAX_FAILED, MIN_PROGRAMS
from llm_variability.report.code.alarms import (
    FEW_TASKS,
    LEAST_REALISED,
    LEAST_TASKS,
    MAX_CHANGED,
    MAX_CROSSED,
    MIN_PARAPHRASES,
    count_used,
    join_lines,
    list_points,
    list_unasked_changes,
    pool_realised,
)
from llm_variability.report.diagnostics import (
    MODELS_SETTINGS,
    Check,
    Rule,
    check_draws,
    count_failed_tests,
    judge,
    name_settings,
)

PROGRAMS = Rule(
    "programs",
    "failed extraction of programs",
    "share of the replies that are programs; the others are not compared",
    MIN_PROGRAMS,
    "cell",
    side="below",
)
TASKS = Rule(
    "few_tasks",
    "few tasks",
    "tasks that a set's curves come from; with few, intervals are rough",
    FEW_TASKS,
    "set of tasks",
    "sets of tasks",
    side="below",
    form="whole",
)
LOST = Rule(
    "lost_tasks",
    "tasks without a pair of programs",
    "share of a curve's tasks that have a pair of programs to compare",
    LEAST_TASKS,
    "point of a curve",
    "points of curves",
    side="below",
)
LINES = Rule(
    "ceiling_and_floor",
    "ceiling not above the floor",
    "similarity of the unaltered prompt's programs less that of programs for unrelated tasks",
    MAX_CROSSED,
    "ceiling",
    side="at most",
    form="number",
)
REALISED = Rule(
    "realised_rate",
    "realised against nominal rates",
    "rate of changes made to the prompts, as a share of the nominal one",
    LEAST_REALISED,
    "method × rate",
    "methods × rates",
    side="below",
)
UNASKED = Rule(
    "changed_at_rate_0",
    "changes at a nominal rate of 0",
    "share of a prompt's units that a method changes at rate 0",
    MAX_CHANGED,
    "set × method",
    "sets × methods",
)
PARAPHRASES = Rule(
    "paraphrases",
    "bands without a paraphrase",
    "paraphrases of a set of tasks and a band of diversity that could be used",
    MIN_PARAPHRASES,
    "set × band",
    "sets × bands",
    side="below",
    form="whole",
)
FAILED = Rule(
    "failed_fits",
    "fits that failed",
    "mixed models of the curves whose estimates could not be made or relied on",
    MAX_FAILED,
    *MODELS_SETTINGS,
    form="whole",
)


def count_failed_fits(fits: pl.DataFrame) -> pl.DataFrame:
    """Count the mixed models of each model and setting that failed, settings without any too.

    fits: rows of `code_fits` of one study.
    """
    failed = pl.col("estimate").is_null() | ~pl.col("converged")
    return count_failed_tests(fits, ("measure", "set", "method", "level", "random"), failed)


def check_code(
    study: str, tables: Mapping[str, pl.DataFrame], base: str, *, shows_fits: bool
) -> list[Check]:
    """Check a study of code.

    tables: of `tables.CODE_SCHEMAS`, the rows of one study. base: id of the study's section.
    shows_fits: whether that has the table of mixed models.
    """
    curves, augmentations = tables["code_curves"], tables["code_augmentations"]
    points = list_points(curves)
    all_sets = pl.col("set").fill_null("all sets together")
    asked = points.group_by(all_sets.alias("where"), maintain_order=True).agg(
        pl.col("n_tasks_asked").min().alias("value")
    )
    point = pl.concat_str(
        pl.coalesce("method", "comparison"), pl.col("rate"), separator=" ", ignore_nulls=True
    )
    lost = name_settings(points.filter(pl.col("set").is_null())).with_columns(
        value=pl.col("n_tasks") / pl.col("n_tasks_asked"), where=point
    )
    lines = name_settings(join_lines(curves)).with_columns(
        value=pl.col("ceiling") - pl.col("floor"),
        where=pl.concat_str("measure", all_sets, separator=", "),
    )
    realised = pool_realised(augmentations).with_columns(
        value=pl.col("realised") / pl.col("nominal"),
        where=pl.concat_str("method", "rate", separator=" "),
    )
    unasked = list_unasked_changes(augmentations).with_columns(
        value=pl.col("mean_realised"), where=pl.concat_str("set", "method", separator=", ")
    )
    paraphrases = count_used(tables["code_paraphrases"]).with_columns(
        value=pl.col("used"), where=pl.concat_str("set", "band", separator=", ")
    )
    return [
        *check_draws(study, tables["code_draws"], f"{base}-draws", place="cell"),
        judge(
            PROGRAMS,
            study,
            f"{base}-replies",
            tables["code_extractions"].with_columns(value=pl.col("ok_share"), setting="cell"),
            "no draw was made",
        ),
        judge(TASKS, study, f"{base}-summaries", asked, "no curve could be drawn"),
        judge(LOST, study, f"{base}-curves-by-method", lost, "no curve is of all sets"),
        judge(LINES, study, f"{base}-curves-by-method", lines, "no ceiling and floor could be had"),
        judge(
            REALISED,
            study,
            f"{base}-prompts",
            realised,
            "no method changes prompts at a rate above 0",
        ),
        judge(
            UNASKED,
            study,
            f"{base}-prompts",
            unasked,
            "no method that may change prompts at rate 0 is in the study",
        ),
        judge(
            PARAPHRASES,
            study,
            f"{base}-paraphrases" if paraphrases.height else f"{base}-prompts",
            paraphrases,
            "prompts are not paraphrased",
        ),
        judge(
            FAILED,
            study,
            f"{base}-fits" if shows_fits else base,
            count_failed_fits(tables["code_fits"]),
            "no mixed model was fitted",
        ),
    ]
