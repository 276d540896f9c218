"""What the page says of a study over all its models: tables as rows of text for the template."""

from __future__ import annotations

from typing import Any

import polars as pl

from llm_variability.report import statements
from llm_variability.report.comparisons import Setting
from llm_variability.report.contrasts import Contrast
from llm_variability.report.findings import interval
from llm_variability.report.length import MEASURES
from llm_variability.report.level_tests import (
    MARGINAL,
    PUBLISHED,
    LevelTest,
    find_test,
    list_tests,
)
from llm_variability.report.marks import is_starred, small_mark
from llm_variability.report.wording import p_number, percent, show_text, signed
from llm_variability.tables import Design

Context = dict[str, Any]

NOTHING = "–"
"""What stands where there is no number."""


def _share(value: float | None) -> str:
    return NOTHING if value is None else percent(value)


def _number(value: float | None, decimals: int = 2) -> str:
    return NOTHING if value is None else signed(value, decimals)


def _starred(row: dict[str, Any]) -> str:
    if row["estimate"] is None:
        return NOTHING
    return f"{signed(row['estimate'])}{'*' * (row['stars'] or 0)}{small_mark(row)}"


def starred_estimates(default: pl.DataFrame) -> dict[tuple[str, str, str, str], str]:
    """Write the estimates in the published coding by (encoder, key of the test, model, term)."""
    return {
        (row["encoder"], find_test(row["level"], row["scope"]).key, row["model"], row["term"]): (
            _starred(row)
        )
        for row in default.filter(pl.col("coding") == PUBLISHED).iter_rows(named=True)
    }


def describe_estimate(row: dict[str, Any] | None, decimals: int = 2) -> Context | None:
    """Write one estimate: the number, its intervals, p and adjusted p, as far as there are any.

    None if there is no estimate.
    """
    if row is None or row["estimate"] is None:
        return None
    adjusted = {"Holm": row["p_holm"], "BH": row["p_bh"]}
    return {
        "estimate": f"{signed(row['estimate'], decimals)}{small_mark(row)}",
        "interval": interval(row, "ci", decimals),
        "simultaneous": interval(row, "simultaneous", decimals),
        "p": "" if row["p_value"] is None else p_number(row["p_value"]),
        "adjusted": [f"{name} {p_number(p)}" for name, p in adjusted.items() if p is not None],
        "significant": is_starred(row),
    }


def find_setting(default: pl.DataFrame) -> Setting | None:
    """Read which setting stands for the default from the table of its estimates."""
    rows = default.select("temperature", "top_p").head(1).rows()
    return rows[0] if rows else None


def _default_rows(
    default: pl.DataFrame, contrasts: list[Contrast], models: list[str], tests: list[LevelTest]
) -> list[Context]:
    """A row a contrast and model, with the estimate of each test."""
    found = {
        (find_test(row["level"], row["scope"]), row["model"], row["term"]): row
        for row in default.drop_nulls("term").iter_rows(named=True)
    }
    return [
        {
            "model": model,
            "contrast": contrast.label,
            "minor": contrast.is_interaction,
            "cells": [describe_estimate(found.get((test, model, contrast.term))) for test in tests],
        }
        for contrast in contrasts
        for model in models
    ]


def arrange_default(
    default: pl.DataFrame, contrasts: list[Contrast], models: list[str]
) -> Context | None:
    """Lay out the estimates at the default setting: by contrast, model and test, and by encoder.

    default: rows of the default estimates of one study. `marginal` has contrasts averaged over the
    other factors and interactions, where the study has several factors. Returns None if there is
    no setting.
    """
    setting = find_setting(default)
    if setting is None:
        return None
    main = [each for each in contrasts if not each.is_interaction]
    encoders = default["encoder"].unique(maintain_order=True).to_list()
    tests = list_tests(default)
    first = default.filter(pl.col("encoder") == encoders[0])
    crossed = any(each.is_interaction for each in contrasts)
    marginal = first.filter(pl.col("coding").is_in(MARGINAL)) if crossed else first.clear()
    marginal_tests = list_tests(marginal)
    starred = starred_estimates(default)
    by_encoder = [
        {
            "model": model,
            "contrast": contrast.label,
            "cells": [
                starred.get((encoder, test.key, model, contrast.term), NOTHING)
                for test in tests
                for encoder in encoders
            ],
        }
        for contrast in main
        for model in models
    ]
    return {
        "sentence": statements.describe_setting(setting),
        "encoders": encoders,
        "tests": tests,
        "contrasts": main,
        "rows": _default_rows(first.filter(pl.col("coding") == PUBLISHED), main, models, tests),
        "marginal_tests": marginal_tests,
        "marginal": _default_rows(marginal, contrasts, models, marginal_tests)
        if marginal_tests
        else [],
        "by_encoder": by_encoder if len(encoders) > 1 else [],
    }


def arrange_encoder_agreement(agreement: pl.DataFrame) -> list[Context]:
    """Write the rows of the encoder agreement of one study."""
    return [
        {
            "test": find_test(row["level"], row["scope"]).label,
            "encoder": row["encoder"],
            "cells": f"{row['cells']:,}",
            "sign": _share(row["sign_agreement"]),
            "significant": f"{row['significant_cells']:,}",
            "sign_significant": _share(row["sign_agreement_significant"]),
            "r": _number(row["pearson_r"], 3),
        }
        for row in agreement.iter_rows(named=True)
    ]


def arrange_level_agreement(agreement: pl.DataFrame) -> list[Context]:
    """Write the rows of the level agreement of one study."""
    return [
        {
            "encoder": row["encoder"],
            "test": find_test(row["level"], row["scope"]).label,
            "contrast": row["contrast"] or "all contrasts",
            "all": row["contrast"] is None,
            "cells": f"{row['cells']:,}",
            "sign": _share(row["sign_agreement"]),
            "r": _number(row["pearson_r"]),
            "significant": f"{row['pairwise_significant']:,}",
            "retained": f"{row['retained']:,}",
            "share": _share(row["retained_share"]),
        }
        for row in agreement.iter_rows(named=True)
    ]


def arrange_lengths(lengths: pl.DataFrame) -> Context:
    """Write a row a model: length over all draws, then mean words, cut and empty by temperature."""
    temperatures = sorted(lengths["temperature"].drop_nulls().unique(), key=float)
    found = {(row["model"], row["temperature"]): row for row in lengths.iter_rows(named=True)}

    def texts(model: str, temperature: str | None) -> list[str]:
        row = found.get((model, temperature))
        if row is None:
            return [NOTHING] * len(MEASURES)
        return [
            _number(row["mean_words"], 1),
            _share(row["truncated_share"]),
            _share(row["empty_share"]),
        ]

    return {
        "temperatures": temperatures,
        "rows": [
            {
                "model": model,
                "texts": f"{found[model, None]['texts']:,}",
                "overall": texts(model, None),
                "by_temperature": [texts(model, each) for each in temperatures],
            }
            for model in lengths["model"].unique(maintain_order=True)
        ],
    }


def arrange_selection(selection: pl.DataFrame) -> Context | None:
    """Write which names a study takes; None if it takes none."""
    if not selection.height:
        return None
    references = selection["reference"].drop_nulls()
    return {
        "matched": selection["match"][0] == "frequency",
        "list": selection["list"][0],
        "reference": references[0] if references.len() else None,
        "any_flagged": bool(selection["flagged"].sum()),
        "counted": selection["fewest"].null_count() == 0,
        "rows": [
            {
                "group": row["group"],
                "names": f"{row['names']:,}",
                **{
                    key: NOTHING if row[key] is None else f"{row[key]:,.0f}"
                    for key in ("fewest", "median", "most")
                },
                "overlap": _number(row["overlap"]),
                "flagged": f"{row['flagged']:,}",
            }
            for row in selection.iter_rows(named=True)
        ],
    }


def list_members(stimuli: pl.DataFrame, design: Design) -> list[Context]:
    """List the units (names) of each group; nothing for a study without units."""
    if design.unit is None:
        return []
    groups = [factor.name for factor in design.factors]
    members = stimuli.group_by(groups, maintain_order=True).agg(
        pl.col(design.unit).unique(maintain_order=True)
    )
    return [
        {"group": ", ".join(levels), "names": ", ".join(map(show_text, names))}
        for *levels, names in members.iter_rows()
    ]


def compare_name_studies(
    tables: dict[str, pl.DataFrame], designs: dict[str, Design]
) -> Context | None:
    """Set the default estimates of studies of names side by side, under the first encoder.

    Only studies that say which names they took, and with the groups of the first of them. None
    if there are fewer than two.
    """
    selection = tables["name_selection"]
    named = selection["study"].unique(maintain_order=True).to_list()
    studies = [
        study
        for study in named
        if study in designs and designs[study].factors == designs[named[0]].factors
    ]
    if len(studies) < 2:
        return None
    default = tables["default_estimates"].filter(pl.col("study").is_in(studies))
    if not default.height:
        return None
    encoder = default["encoder"][0]
    default = default.filter(pl.col("encoder") == encoder)
    texts = {
        study: starred_estimates(default.filter(pl.col("study") == study)) for study in studies
    }
    tests = list_tests(default)
    models = default["model"].unique(maintain_order=True).to_list()
    contrasts = (
        default.filter(~pl.col("interaction"), pl.col("coding") == PUBLISHED)
        .select("term", "contrast")
        .unique(maintain_order=True)
        .rows()
    )
    ways = {"none": "most frequent names", "frequency": "matched by frequency"}
    return {
        "encoder": encoder,
        "tests": tests,
        "studies": [
            {
                "name": study,
                "way": ways.get(str(rows["match"][0]), str(rows["match"][0])),
                "setting": statements.describe_setting(
                    find_setting(default.filter(pl.col("study") == study))
                ),
                "overlaps": ", ".join(
                    f"{group} {_number(overlap)}"
                    for group, overlap in rows.drop_nulls("overlap")
                    .select("group", "overlap")
                    .iter_rows()
                ),
            }
            for study in studies
            for rows in [selection.filter(pl.col("study") == study)]
        ],
        "rows": [
            {
                "contrast": contrast,
                "model": model,
                "cells": [
                    texts[study].get((encoder, test.key, model, term), NOTHING)
                    for test in tests
                    for study in studies
                ],
            }
            for term, contrast in contrasts
            for model in models
        ],
    }


def pivot_by_temperature(
    means: pl.DataFrame, heads: dict[str, str], value: str, caption: str, decimals: int = 2
) -> Context | None:
    """Write means by temperature as a table for the template, a column a temperature.

    means: a row a combination of the columns in `heads` and temperature. heads: headings by column.
    Returns None where there is nothing.
    """
    if not means.height:
        return None
    temperatures = sorted(means["temperature"].unique(), key=float)
    found: dict[tuple[str, ...], dict[str, float | None]] = {}
    for row in means.iter_rows(named=True):
        key = tuple(str(row[name]) for name in heads)
        found.setdefault(key, {})[row["temperature"]] = row[value]
    return {
        "caption": caption,
        "labels": [*heads.values(), *(f"Temperature {text}" for text in temperatures)],
        "kinds": ["head"] * len(heads) + ["number"] * len(temperatures),
        "rows": [
            [{"text": text, "small": (), "flag": False} for text in key]
            + [
                {"text": _number(values.get(text), decimals), "small": (), "flag": False}
                for text in temperatures
            ]
            for key, values in found.items()
        ],
    }
