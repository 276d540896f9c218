"""Sentences on which models are most sensitive, each with the rule that orders them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from llm_variability.report.contrasts import SIGNIFICANCE
from llm_variability.report.level_tests import TEXT_FIXED, of_test
from llm_variability.report.wording import listing, percent, quantity, signed

MODELS_TOLD = 4
"""Models that are told one by one; of more, all but the last of these and the least sensitive."""

Ordered = Sequence[tuple[str, str]]
"""Models, the most sensitive first, each with its number as it is written."""


def tell_order(ordered: Ordered) -> str:
    """List models with their numbers: `a (0.3), b (0.2) and c (0.1)`; of many, both ends.

    Where all have the same number there is no order, and that is said.
    """
    numbers = {number for _, number in ordered}
    if len(numbers) == 1 and len(ordered) > 1:
        return f"all {len(ordered):,} alike ({numbers.pop()})"
    told = [f"{model} ({number})" for model, number in ordered]
    if len(told) <= MODELS_TOLD:
        return listing(told)
    return f"{', '.join(told[: MODELS_TOLD - 1])}; least, of {len(told):,} models, {told[-1]}"


def _sort(values: Mapping[str, float], *, lowest_first: bool = False) -> list[tuple[str, float]]:
    return sorted(values.items(), key=lambda each: each[1], reverse=not lowest_first)


def _keep_common(rows: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Keep rows whose values of the keys every model has."""
    return rows.filter(pl.col("model").n_unique().over(keys) == rows["model"].n_unique())


def rank_by_signals(signals: pl.DataFrame, encoder: str, coding: str, within: str) -> str | None:
    """Order models by how often a contrast is significant in these formats after Holm.

    signals: of one study. within: as in `findings.Signal`. None with fewer than two models.
    """
    counts = (
        signals.filter(
            of_test(TEXT_FIXED),
            pl.col("encoder") == encoder,
            pl.col("coding") == coding,
            ~pl.col("interaction").fill_null(value=False),
            pl.col("settings") > 0,
        )
        .group_by("model", maintain_order=True)
        .agg(pl.col("significant_holm").sum(), pl.col("settings").sum())
    )
    if counts.height < 2:
        return None
    found = {model: (holm, tests) for model, holm, tests in counts.iter_rows()}
    order = _sort({model: holm / tests for model, (holm, tests) in found.items()})
    told = tell_order(
        [
            (model, f"{found[model][0]:,} of {found[model][1]:,}, {percent(share)}")
            for model, share in order
        ]
    )
    return (
        "Models, most sensitive to the group first, by the share of contrasts × settings that are"
        f" significant {TEXT_FIXED.claim} after Holm{within}: {told}."
    )


def rank_by_range(
    fits: pl.DataFrame, encoder: str, coding: str, terms: Sequence[str]
) -> str | None:
    """Order models by how far β moves over settings, averaged over contrasts.

    Models with estimates in two settings or more are ordered, over the settings in which all of
    them have one of the contrast: a range grows with the number of settings. fits: of the main
    analysis of one study. terms: main contrasts. None with fewer than two such models.
    """
    estimates = fits.filter(
        of_test(TEXT_FIXED),
        pl.col("measure") == encoder,
        pl.col("coding") == coding,
        pl.col("term").is_in(list(terms)),
        pl.col("converged"),
    ).drop_nulls("estimate")
    several = pl.struct("temperature", "top_p").n_unique().over("model") > 1
    ranges = (
        _keep_common(estimates.filter(several), "term", "temperature", "top_p")
        .group_by("model", "term", maintain_order=True)
        .agg(
            (pl.col("estimate").max() - pl.col("estimate").min()).alias("range"),
            pl.len().alias("settings"),
        )
        .filter(pl.col("settings") > 1)
        .group_by("model", maintain_order=True)
        .agg(pl.col("range").mean())
    )
    if ranges.height < 2:
        return None
    order = _sort(dict(ranges.iter_rows()))
    told = tell_order([(model, signed(value)) for model, value in order])
    return (
        "Models, most sensitive to the setting first, by the range of β over the settings that all"
        f" have, averaged over contrasts: {told}."
    )


def rank_by_height(summaries: pl.DataFrame) -> str | None:
    """Order models by the mean height of their rescaled curves, the lowest first.

    summaries: rows of `code_summaries` of one measure and setting. Averaged over the methods that
    every model has a height under. None with fewer than two models, or no such method.
    """
    rows = summaries.filter(pl.col("set").is_null(), pl.col("summary") == "auc")
    rows = rows.drop_nulls("estimate")
    models = rows["model"].n_unique()
    if models < 2:
        return None
    common = _keep_common(rows, "method")
    if not common.height:
        return None
    heights = common.group_by("model", maintain_order=True).agg(pl.col("estimate").mean())
    order = _sort(dict(heights.iter_rows()), lowest_first=True)
    methods = common["method"].unique(maintain_order=True).to_list()
    return (
        "Models, most sensitive to changes of the prompt first, by the mean height of the rescaled"
        f" curve under {listing(methods)}:"
        f" {tell_order([(model, signed(value)) for model, value in order])}."
    )


def count_differences(contrasts: pl.DataFrame, measure: str) -> list[str]:
    """Say in how many places two methods, or two models, differ in the height of their curves.

    contrasts: rows of `code_contrasts` of one study, all settings. Nothing of a kind without tests.
    """
    rows = contrasts.filter(
        pl.col("measure") == measure, pl.col("summary") == "auc", pl.col("set").is_null()
    ).drop_nulls("p_value")
    told = []
    for kind, places in (
        ("method", ("pair of methods × model × setting", "pairs of methods × models × settings")),
        ("model", ("pair of models × method × setting", "pairs of models × methods × settings")),
    ):
        part = rows.filter(pl.col("kind") == kind)
        if part.height:
            plain, holm = (int((part[name] < SIGNIFICANCE).sum()) for name in ("p_value", "p_holm"))
            told.append(
                f"Two {kind}s differ in the mean height of the curve, tasks drawn anew, with"
                f" p < .05 in {plain:,} of {quantity(part.height, *places)}, after Holm in"
                f" {holm:,}."
            )
    return told


def rank_by_separation(separation: pl.DataFrame, measure: str) -> str | None:
    """Order models by how much less alike code for different personas is, over all settings.

    separation: rows of `persona_separation` of one study, overall contrasts of personas. None with
    fewer than two models.
    """
    differences = separation.filter(pl.col("measure") == measure).drop_nulls("difference")
    gaps = (
        _keep_common(differences, "temperature", "top_p")
        .group_by("model", maintain_order=True)
        .agg(pl.col("difference").mean())
    )
    if gaps.height < 2:
        return None
    order = _sort(dict(gaps.iter_rows()))
    return (
        "Models, most sensitive to who asks first, by similarity within personas less that between"
        f" them, averaged over the settings that all have ({measure}):"
        f" {tell_order([(model, signed(value)) for model, value in order])}."
    )
