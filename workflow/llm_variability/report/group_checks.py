"""What is checked of a study of groups: its draws, its texts and its fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from llm_variability.report.alarms import (
    FEW_TEXTS,
    MAX_FAILED,
    MAX_IGNORED,
    MAX_OVER_LONG,
    MIN_TEXTS,
)
from llm_variability.report.contrasts import is_anchor
from llm_variability.report.diagnostics import (
    MODELS_SETTINGS,
    Check,
    Rule,
    check_draws,
    count_failed_tests,
    judge,
    name_settings,
)
from llm_variability.tables import Design

OVER_LONG = Rule(
    "over_long",
    "over-long texts",
    "share of the texts that are longer than the encoder takes, so that their end is not measured",
    MAX_OVER_LONG,
    "model × encoder",
    "models × encoders",
)
FEW = Rule(
    "few_texts",
    "few texts of a group",
    "texts of a group in the block that has fewest; with few, intervals are wide",
    FEW_TEXTS,
    "group × setting",
    "groups × settings",
    side="below",
    form="whole",
)
UNCALIBRATED = Rule(
    "uncalibrated",
    "fewer texts than the tests were tried with",
    "texts (of studies of names: names) of a tested group in the block that has fewest, against the"
    " fewest in the simulations of how often tests are wrong",
    None,
    "group × setting",
    "groups × settings",
    side="below",
    form="whole",
)
FAILED = Rule(
    "failed_fits",
    "fits that failed",
    "tests of the main analysis whose estimate could not be made or relied on",
    MAX_FAILED,
    *MODELS_SETTINGS,
    form="whole",
)
OTHERS_FAILED = replace(
    FAILED,
    key="failed_further_fits",
    name="fits of the other analyses that failed",
    counted="tests at equal length, on uncut texts, by permutation or of diversity whose estimate"
    " could not be made or relied on",
)
IGNORED = Rule(
    "ignored_arguments",
    "arguments that the chat template ignores",
    "arguments given for a model's chat template without which the rendered prompt is the same",
    MAX_IGNORED,
    "model",
    form="whole",
)


def count_failures(fits: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Count the tests of each model and setting that failed, settings without any among them.

    fits: rows of an ADJUSTED table of one study. A test is one of an analysis, measure, level and
    scope. Settings in which nothing is fitted by design are left out.
    """
    failed = pl.col("term").is_null() | ~pl.col("converged")
    test = ("analysis", "measure", "level", "scope")
    return count_failed_tests(fits.filter(~is_anchor(design)), test, failed)


def check_groups(
    study: str,
    tables: Mapping[str, pl.DataFrame],
    design: Design,
    base: str,
    calibrated: int | None,
    ignored: Mapping[str, int],
) -> list[Check]:
    """Check a study of groups.

    tables: the page's, the rows of this study, all analyses. base: id of the study's section.
    calibrated: as in `alarms.describe_uncalibrated`. ignored: arguments ignored by each model's
    chat template.
    """
    cells, means, fits = (tables[name] for name in ("draw_counts", "mean_cosine", "fits"))
    has_greedy = design.unit is None or bool(tables["determinism"]["repeated_prompts"].sum())
    greedy = f"{base}-greedy" if tables["determinism"].height and has_greedy else None
    group = pl.concat_str([factor.name for factor in design.factors], separator=", ")
    sampled = name_settings(
        means.filter(~is_anchor(design), pl.col("encoder") == means["encoder"].first())
    ).with_columns(where=group, value=pl.col("fewest_texts"))
    is_main = pl.col("analysis") == "main"
    main, others = (count_failures(fits.filter(each), design) for each in (is_main, ~is_main))
    return [
        *check_draws(study, cells, f"{base}-draws", greedy),
        judge(
            OVER_LONG,
            study,
            f"{base}-length",
            tables["over_long"]
            .filter(pl.col("texts") > 0)
            .with_columns(value=pl.col("over_long") / pl.col("texts"), where="encoder"),
            "no text was encoded",
        ),
        judge(FEW, study, "data-csv", sampled, "no text was compared"),
        judge(
            replace(UNCALIBRATED, limit=calibrated),
            study,
            "methods",
            sampled.filter(pl.col("value") >= MIN_TEXTS),
            "no table of simulations was given"
            if calibrated is None
            else f"no group has the {MIN_TEXTS} texts that a test needs",
        ),
        judge(
            FAILED,
            study,
            f"{base}-failures" if main["value"].sum() else base,
            main,
            "nothing was fitted",
        ),
        judge(
            OTHERS_FAILED,
            study,
            f"{base}-failures" if others["value"].sum() else base,
            others,
            "no other analysis was made",
        ),
        judge(
            IGNORED,
            study,
            "provenance",
            pl.DataFrame(
                {"model": [*ignored], "value": [*ignored.values()]},
                schema={"model": pl.String, "value": pl.Int64},
            ),
            "no table of draws was given",
        ),
    ]
