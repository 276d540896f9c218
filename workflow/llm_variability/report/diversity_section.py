"""What the page says of measures of diversity: values by group, contrasts, counts over settings."""

from __future__ import annotations

import polars as pl

from llm_variability.report.comparisons import Setting, at_setting, is_significant
from llm_variability.report.contrasts import Contrast, place_contrast
from llm_variability.report.findings import name_place
from llm_variability.report.level_tests import (
    PUBLISHED,
    TEXT_FIXED,
    TEXT_TESTS,
    View,
    describe_coding,
    lead_coding,
    list_text_views,
    of_test,
)
from llm_variability.report.pictures import Context
from llm_variability.report.sections import NOTHING, describe_estimate
from llm_variability.report.wording import listing, signed
from llm_variability.tables import Design

DECIMALS = 3


def arrange_diversity(
    values: pl.DataFrame,
    estimates: pl.DataFrame,
    design: Design,
    setting: Setting | None,
    contrasts: list[Contrast],
    models: list[str],
    within: str = "",
) -> Context | None:
    """Lay values by group, contrasts and counts out. Returns None if nothing was measured.

    values, estimates: rows of the tables `diversity` and `diversity_estimates` of one study.
    within: as in `findings.Signal`.
    """
    coding = lead_coding(design)
    if not values.height and not estimates.height:
        return None
    measures = list(dict.fromkeys([*estimates["measure"], *values["measure"]]))
    at_default = [
        table.filter(at_setting(setting)) if setting is not None else table.clear()
        for table in (values, estimates)
    ]
    return {
        "measures": measures,
        "values": _value_rows(at_default[0], measures, design, models),
        "factors": [factor.name for factor in design.factors],
        "tables": [
            table
            for view in list_text_views(design)
            if (table := _table(view, at_default[1], measures, contrasts, models))
        ],
        "sentences": [
            describe_measures(
                estimates,
                contrast,
                coding,
                place_contrast(contrast.term, design, marginal=coding != PUBLISHED),
                within,
            )
            for contrast in contrasts
            if not contrast.is_interaction and estimates.height
        ],
        "coding": describe_coding(coding),
        "counts": _counts(estimates, coding),
    }


def _value_rows(
    values: pl.DataFrame, measures: list[str], design: Design, models: list[str]
) -> list[Context]:
    factors = [factor.name for factor in design.factors]
    found: dict[tuple[str, ...], dict[str, float | None]] = {}
    for row in values.iter_rows(named=True):
        place = (row["model"], *(row[name] for name in factors))
        found.setdefault(place, {})[row["measure"]] = row["value"]
    ranks = [{level: at for at, level in enumerate(factor.levels)} for factor in design.factors]

    def order(place: tuple[str, ...]) -> tuple[int, ...]:
        return (models.index(place[0]), *(map(dict.__getitem__, ranks, place[1:])))

    return [
        {
            "model": place[0],
            "group": place[1:],
            "cells": [
                NOTHING if (value := found[place].get(each)) is None else signed(value, DECIMALS)
                for each in measures
            ],
        }
        for place in sorted((each for each in found if each[0] in models), key=order)
    ]


def _table(
    view: View,
    estimates: pl.DataFrame,
    measures: list[str],
    contrasts: list[Contrast],
    models: list[str],
) -> Context | None:
    found = {
        (row["measure"], row["model"], row["term"]): row
        for row in estimates.filter(view.rows(), pl.col("term").is_not_null()).iter_rows(named=True)
    }
    if not found:
        return None
    return {
        "view": view,
        "rows": [
            {
                "contrast": contrast.label,
                "minor": contrast.is_interaction,
                "model": model,
                "cells": [
                    describe_estimate(found.get((each, model, contrast.term)), DECIMALS)
                    for each in measures
                ],
            }
            for contrast in contrasts
            if view.is_marginal or not contrast.is_interaction
            for model in models
        ],
    }


def _counted(estimates: pl.DataFrame, coding: str) -> pl.DataFrame:
    """Count settings by measure, test and main contrast in one coding, models pooled."""
    usable = estimates.filter(
        pl.col("coding") == coding,
        pl.col("estimate").is_not_null(),
        ~pl.col("interaction").fill_null(value=False),
    )
    higher, lower = pl.col("estimate") > 0, pl.col("estimate") < 0
    return usable.group_by("measure", "level", "scope", "contrast", maintain_order=True).agg(
        pl.len().alias("settings"),
        (is_significant() & higher).sum().alias("higher"),
        (is_significant() & lower).sum().alias("lower"),
        is_significant("p_holm").sum().alias("holm"),
    )


def _counts(estimates: pl.DataFrame, coding: str) -> list[Context]:
    counted = _counted(estimates, coding)
    return [
        {"claim": test.claim, **row}
        for test in TEXT_TESTS
        for row in counted.filter(of_test(test)).iter_rows(named=True)
    ]


def describe_measures(
    estimates: pl.DataFrame,
    contrast: Contrast,
    coding: str = PUBLISHED,
    place: str = "",
    within: str = "",
) -> str:
    """Say in which measures a contrast differs in some setting, in these formats.

    estimates: rows of the table `diversity_estimates` of one study. place: where the contrast is
    taken. within: as in `findings.Signal`.
    """
    counted = _counted(estimates, coding).filter(
        of_test(TEXT_FIXED), pl.col("contrast") == contrast.label
    )
    parts = []
    for row in counted.iter_rows(named=True):
        ways = [f"{way} in {row[way]:,}" for way in ("higher", "lower") if row[way]]
        if ways:
            left = f"{row['holm']:,}" if row["holm"] else "none"
            parts.append(
                f"{row['measure']} {listing(ways)} of {row['settings']:,} settings ({left} after"
                f" Holm{within})"
            )
    told = "; ".join(parts) if parts else "no measure differs (p < .05) in any setting"
    return f"{name_place(contrast, place)}, in these formats: {told}."
