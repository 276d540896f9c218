"""What the page says of the sensitivity analyses: beside the main estimates, and counted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import polars as pl

from llm_variability.config import cell_name
from llm_variability.report.comparisons import Setting, at_setting, is_significant
from llm_variability.report.contrasts import Contrast
from llm_variability.report.level_tests import (
    PUBLISHED,
    TEXT_TESTS,
    LevelTest,
    View,
    describe_coding,
    lead_coding,
    list_text_views,
    of_test,
)
from llm_variability.report.pictures import Context
from llm_variability.report.robustness import SENSITIVITY
from llm_variability.report.sections import describe_estimate
from llm_variability.report.wording import p_number, quantity, signed
from llm_variability.tables import Design

NAMES = {
    "length": "at equal length",
    "untruncated": "uncut texts only",
    "permutation": "permutation test",
}
SLOPES = {
    "length[mean]": "slope of the pair's mean length, per word",
    "length[difference]": "slope of the pair's difference in length, per word",
}


def arrange_robustness(
    sensitivity: pl.DataFrame,
    default: pl.DataFrame,
    design: Design,
    setting: Setting | None,
    contrasts: list[Contrast],
    models: list[str],
    within: str = "",
) -> Context | None:
    """Lay the sensitivity analyses out: at the default setting, and as counts over all settings.

    sensitivity, default: rows of these tables of one study and encoder. within: as in
    `findings.Signal`. Returns None if there are no such analyses.
    """
    coding = lead_coding(design)
    analyses = [each for each in SENSITIVITY if each in set(sensitivity["analysis"])]
    if not analyses or setting is None:
        return None
    at_default = sensitivity.filter(at_setting(setting))
    return {
        "analyses": [{"key": each, "name": NAMES[each]} for each in analyses],
        "sentences": [
            text
            for analysis in analyses
            for rows in [sensitivity.filter(pl.col("analysis") == analysis)]
            if (text := describe_change(rows, coding, within))
        ],
        "tables": [
            table
            for view in list_text_views(design)
            if (table := _table(view, at_default, default, contrasts, models, analyses))
        ],
        "coding": describe_coding(coding),
        "counts": count_changes(sensitivity, coding),
        "further": _further(at_default),
    }


def _by_place(rows: pl.DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["model"], row["term"]): row for row in rows.iter_rows(named=True)}


def _table(
    view: View,
    at_default: pl.DataFrame,
    default: pl.DataFrame,
    contrasts: list[Contrast],
    models: list[str],
    analyses: list[str],
) -> Context | None:
    """Estimates of one view at the default setting: a row a contrast and model."""
    rows = at_default.filter(view.rows())
    if not rows.height:
        return None
    main = _by_place(default.filter(view.rows()))
    found = {each: _by_place(rows.filter(pl.col("analysis") == each)) for each in analyses}
    shown = [each for each in contrasts if view.is_marginal or not each.is_interaction]
    return {
        "view": view,
        "analyses": [{"key": each, "name": NAMES[each]} for each in analyses if found[each]],
        "rows": [
            {
                "contrast": contrast.label,
                "minor": contrast.is_interaction,
                "model": model,
                "main": describe_estimate(main.get((model, contrast.term))),
                "cells": [
                    _cell(each, found[each].get((model, contrast.term)))
                    for each in analyses
                    if found[each]
                ],
            }
            for contrast in shown
            for model in models
        ],
    }


def _cell(analysis: str, row: dict[str, Any] | None) -> Context | None:
    described = describe_estimate(row)
    if described is None or row is None:
        return None
    return described | {"p_only": analysis == "permutation", "error": _error(row)}


def _error(row: dict[str, Any]) -> str:
    return "" if row["mc_error"] is None else f"± {signed(row['mc_error'], 3)}"


def _compared(sensitivity: pl.DataFrame) -> pl.DataFrame:
    return sensitivity.filter(
        pl.col("estimate").is_not_null(),
        pl.col("main_estimate").is_not_null(),
        pl.col("p_value").is_not_null(),
        ~pl.col("interaction").fill_null(value=False),
    )


def _counts(rows: pl.DataFrame) -> dict[str, int]:
    """Count over estimates: all, those of one sign, and those significant there, here, in both."""
    here, there = is_significant(), is_significant("main_p_value")
    holm, main_holm = is_significant("p_holm"), is_significant("main_p_holm")
    same = pl.col("estimate").sign() == pl.col("main_estimate").sign()
    counted = rows.select(
        pl.len().alias("estimates"),
        same.sum().alias("same_sign"),
        there.sum().alias("main"),
        here.sum().alias("here"),
        (here & there).sum().alias("both"),
        main_holm.sum().alias("main_holm"),
        holm.sum().alias("here_holm"),
        (holm & main_holm).sum().alias("both_holm"),
    )
    return {name: int(count) for name, count in counted.row(0, named=True).items()}


def count_changes(sensitivity: pl.DataFrame, coding: str = PUBLISHED) -> list[Context]:
    """Count what is significant in the main analysis, in the other, and in both, over all settings.

    sensitivity: rows of one study and encoder. Main contrasts in one coding, over all models; a row
    an analysis, test and contrast, the sum over contrasts first.
    """
    rows = []
    compared = _compared(sensitivity.filter(pl.col("coding") == coding))
    for analysis in SENSITIVITY:
        for test in TEXT_TESTS:
            part = compared.filter(pl.col("analysis") == analysis, of_test(test))
            if not part.height:
                continue
            parts = [("all contrasts", part)]
            if part["contrast"].n_unique() > 1:
                parts += [
                    (str(contrast), of_contrast)
                    for (contrast,), of_contrast in part.partition_by(
                        "contrast", maintain_order=True, as_dict=True
                    ).items()
                ]
            rows += [
                {
                    "analysis": NAMES[analysis],
                    "claim": test.claim,
                    "contrast": contrast,
                    "all": contrast == "all contrasts",
                    **_counts(of_contrast),
                }
                for contrast, of_contrast in parts
            ]
    return rows


def describe_change(
    sensitivity: pl.DataFrame, coding: str = PUBLISHED, within: str = ""
) -> str | None:
    """Say what one analysis changes in sign or significance, over all models and settings.

    sensitivity: rows of one study, encoder and analysis. coding: of the main contrasts. within: as
    in `findings.Signal`. None if nothing can be compared.
    """
    compared = _compared(sensitivity.filter(pl.col("coding") == coding))
    parts = []
    for test in TEXT_TESTS:
        part = compared.filter(of_test(test))
        if part.height:
            parts.append(_describe_test(test, _counts(part), within))
    name = NAMES[str(sensitivity["analysis"][0])]
    head = f"{name[0].upper()}{name[1:]}"
    if parts:
        return f"{head}: {'; '.join(parts)}."
    reasons = sensitivity.drop_nulls("reason").unique(
        ["model", "temperature", "top_p"], keep="first", maintain_order=True
    )
    if not reasons.height:
        return None
    first = reasons.row(0, named=True)
    several = reasons["model"].n_unique() > 1
    where = f"{first['model']}, " if several else ""
    where += cell_name(first["temperature"], first["top_p"])
    return (
        f"{head}: no estimate in any setting{_span_reasons(reasons['reason'])}. In {where}:"
        f" {first['reason']}."
    )


_SMALL_GROUPS = re.compile(r"^(fewer than \w+ texts) in .*?\(\d+\)(?: and (\d+) more)?(?:;|$)")
_UNCUT = re.compile(r"([\d,]+) of ([\d,]+) texts were not cut")


def _span_reasons(reasons: Iterable[str]) -> str:
    """Give the range over settings of what reasons count: groups that are too small, uncut texts.

    Nothing where the reasons are of several kinds.
    """
    few, uncut = [], []
    for reason in reasons:
        small, whole = _SMALL_GROUPS.match(reason), _UNCUT.search(reason)
        if small is None:
            return ""
        named = len(re.findall(r"\(\d+\)", reason.split(";")[0]))
        few.append((small[1], named + int(small[2] or 0)))
        if whole is not None:
            uncut.append((int(whole[1].replace(",", "")), whole[2]))
    if len({kind for kind, _ in few}) > 1:
        return ""
    told = f": {few[0][0]} in {_span([count for _, count in few])} format × groups"
    if len(uncut) == len(few) and len({texts for _, texts in uncut}) == 1:
        told += f", {_span([count for count, _ in uncut])} of {uncut[0][1]} texts not cut"
    return told


def _span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _describe_test(test: LevelTest, counts: dict[str, int], within: str) -> str:
    kept = f"{counts['both']:,} of {quantity(counts['main'], 'significant estimate')} stay so"
    if not counts["main"]:
        kept = "no estimate was significant"
    elif counts["main_holm"]:
        kept += f" (after Holm{within} {counts['both_holm']:,} of {counts['main_holm']:,})"
    new = counts["here"] - counts["both"]
    estimates, flipped = counts["estimates"], counts["estimates"] - counts["same_sign"]
    signs = f"{flipped or 'none'} of {estimates:,} change{'' if flipped > 1 else 's'} sign"
    others = (
        f"{new:,} other{'s become' if new > 1 else ' becomes'} so" if new else "none becomes so"
    )
    return f"{test.claim} {kept}, {others}, and {signs}"


def _further(at_default: pl.DataFrame) -> list[Context]:
    """What an analysis says besides contrasts: the test of all groups at once, slopes of length."""
    rows = at_default.filter(pl.col("term").is_not_null(), pl.col("coding").is_null())
    found = []
    for row in rows.iter_rows(named=True):
        if row["p_value"] is None and row["estimate"] is None:
            continue
        described = describe_estimate(row, 3) or {}
        found.append(
            {
                "analysis": NAMES[row["analysis"]],
                "scope": row["scope"],
                "model": row["model"],
                "name": SLOPES.get(row["term"], row["term"]),
                "estimate": described.get("estimate", ""),
                "interval": described.get("interval", ""),
                "p": "" if row["p_value"] is None else p_number(row["p_value"]),
                "error": _error(row),
            }
        )
    return found
