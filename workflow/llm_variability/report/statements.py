"""Sentences about what is compared across models, encoders and levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from llm_variability.config import GREEDY, cell_name
from llm_variability.report.comparisons import Setting, is_published_default
from llm_variability.report.findings import Signal, add_signals, describe_direction
from llm_variability.report.level_tests import View, list_tests, of_test
from llm_variability.report.wording import listing, percent, quantity, signed


def _each(frame: pl.DataFrame, column: str) -> Iterator[tuple[str, pl.DataFrame]]:
    for (name,), part in frame.partition_by(column, maintain_order=True, as_dict=True).items():
        yield str(name), part


def describe_signals(
    signals: pl.DataFrame, view: View, encoder: str, label: str, within: str = ""
) -> str:
    """Say in how many settings of all models each main contrast is significant.

    signals: rows of the signals table of one encoder and view. label: names the view. within: as in
    `findings.Signal`.
    """
    head = f"Settings with p < .05 by contrast and model, {label}, {encoder}"
    parts = []
    for contrast, part in _each(signals.filter(~pl.col("interaction")), "contrast"):
        columns = part.select(
            "settings",
            "positive",
            "negative",
            pl.col("significant_holm").alias("holm"),
            "mean_estimate",
        )
        total = add_signals([Signal(**row, within=within) for row in columns.iter_rows(named=True)])
        unit = "settings" if part.height == 1 else "model settings"
        parts.append(
            f"{contrast} significant in {total.significant:,} of {total.settings:,}"
            f" {unit}{describe_direction(total)}"
        )
    told = f"{head}. {'; '.join(parts)}." if parts else f"{head}: no fit could be made."
    return f"{told} {view.test.caution}"


def describe_trend(averages: pl.DataFrame, label: str, encoder: str) -> str:
    """Say in how many models each contrast keeps its direction at every temperature.

    averages: rows of the temperature estimates of one encoder and view. label: names the view.
    """
    head = f"Mean β over top-p by temperature, {label}, {encoder}"
    parts = []
    for contrast, part in _each(averages, "contrast"):
        temperatures = part["temperature"].unique(maintain_order=True).to_list()
        alone = len(temperatures) == 1
        when = f"at temperature {temperatures[0]}" if alone else "at every temperature"
        signs = part.group_by("model").agg(
            (pl.col("mean_estimate") > 0).all().alias("positive"),
            (pl.col("mean_estimate") < 0).all().alias("negative"),
        )
        positive, negative = int(signs["positive"].sum()), int(signs["negative"].sum())
        if signs.height > 1:
            parts.append(
                f"{contrast} positive {when} in {positive:,} of {signs.height:,} models, negative"
                f" {'there' if alone else 'at every one'} in {negative:,}"
            )
        elif positive or negative:
            parts.append(f"{contrast} {'positive' if positive else 'negative'} {when}")
        else:
            parts.append(
                f"{contrast} 0 {when}"
                if alone
                else f"{contrast} positive at some temperatures only"
            )
    return f"{head}. {'; '.join(parts)}." if parts else f"{head}: no fit could be made."


def describe_models_cosine(averages: pl.DataFrame, encoder: str) -> str:
    """Say how each model's mean cosine goes from the lowest to the highest sampled temperature.

    averages: rows of the temperature cosines of one encoder.
    """
    head = f"Mean pairwise cosine by group and temperature, a panel a model, {encoder}"
    sampled = averages.filter(pl.col("temperature") != GREEDY).with_columns(
        pl.col("temperature").cast(pl.Float64)
    )
    if not sampled.height:
        return f"{head}."
    temperatures = sampled["temperature"].unique().sort().to_list()
    low, high = temperatures[0], temperatures[-1]
    at = {
        temperature: dict(
            sampled.filter(pl.col("temperature") == temperature)
            .group_by("model", maintain_order=True)
            .agg(pl.col("mean_cosine").mean())
            .iter_rows()
        )
        for temperature in (low, high)
    }
    courses = [
        f"{model} {signed(value)} to {signed(at[high][model])}"
        if low != high
        else f"{model} {signed(value)}"
        for model, value in at[low].items()
        if model in at[high]
    ]
    course = f"from temperature {low:g} to {high:g}" if low != high else f"at temperature {low:g}"
    return f"{head}. Over all groups, {course}: {', '.join(courses)}."


def describe_lengths(lengths: pl.DataFrame) -> str:
    """Say how long the answers are, and which model is cut or empty most often.

    lengths: rows of the output lengths of one study.
    """
    overall = lengths.filter(pl.col("temperature").is_null())
    measured = overall.drop_nulls("mean_words").sort("mean_words")
    if not measured.height:
        return "No answer has a text to measure."
    shortest, longest = measured.row(0, named=True), measured.row(-1, named=True)
    head = f"{shortest['model']} writes {shortest['mean_words']:.1f} words a text"
    if measured.height > 1:
        head += f", {longest['model']} {longest['mean_words']:.1f}; the others are between them"
        if measured.height == 2:
            head = head.removesuffix("; the others are between them")
    parts = []
    for column, word in (("truncated_share", "cut at the token limit"), ("empty_share", "empty")):
        most = overall.drop_nulls(column).sort(column, maintain_order=True).row(-1, named=True)
        share = percent(most[column])
        if not most[column]:
            parts.append(f"none is {word}")
        elif overall.height == 1:
            parts.append(f"{share} are {word}")
        else:
            parts.append(f"at most {share} are {word} ({most['model']})")
    return f"{head}. Of the draws, {listing(parts)}."


def describe_encoders(agreement: pl.DataFrame) -> str | None:
    """Say how the further encoders agree with the first one; None if there is nothing to compare.

    agreement: rows of the encoder agreement of one study; those of the first test of the page are
    told.
    """
    compared = agreement.filter(pl.col("cells") > 0)
    if not compared.height:
        return None
    test = list_tests(compared)[0]
    rows = compared.filter(of_test(test))
    shares = listing(
        [
            f"{row['encoder']} in {percent(row['sign_agreement'])} of"
            f" {quantity(row['cells'], 'estimate')}"
            for row in rows.iter_rows(named=True)
        ]
    )
    return (
        f"Encoders: at the {test.level} level the sign is that of {rows['primary'][0]} with"
        f" {shares}."
    )


def describe_levels(agreement: pl.DataFrame) -> str | None:
    """Say what is left of the estimates significant on pairs; None if there are none.

    agreement: rows of the level agreement of one study and encoder.
    """
    rows = agreement.filter(pl.col("contrast").is_null(), pl.col("pairwise_significant") > 0)
    if not rows.height:
        return None
    parts = []
    for test in list_tests(rows):
        row = rows.filter(of_test(test)).row(0, named=True)
        parts.append(f"{row['retained']:,} ({percent(row['retained_share'])}) {test.claim}")
    pairs = quantity(rows["pairwise_significant"][0], "estimate")
    return f"Levels: of {pairs} significant on pairs (too many) there remain {listing(parts)}."


def describe_setting(setting: Setting | None) -> str:
    """Say which setting stands for the default, and why if it is another one."""
    if setting is None:
        return "Nothing is fitted in any setting of the grid."
    temperature, top_p = setting
    place = "temperature 0" if top_p is None else f"temperature {temperature} and top-p {top_p}"
    if is_published_default(setting):
        return f"The default setting is {place}."
    return (
        f"The grid has no temperature 1 with top-p 1, so {place} ({cell_name(*setting)}) stands for"
        " the default: the temperature nearest to 1, and then the highest top-p."
    )


def describe_over_long(counts: pl.DataFrame) -> Iterator[str]:
    """Say, a line a model and encoder, how many texts the encoder cuts; nothing if none."""
    for row in counts.filter(pl.col("over_long") > 0).iter_rows(named=True):
        share = percent(row["over_long"] / row["texts"])
        yield (
            f"{row['model']}: {row['over_long']:,} of {quantity(row['texts'], 'text')} ({share})"
            f" {'is' if row['over_long'] == 1 else 'are'} longer than {row['encoder']} takes,"
            " so only the beginning is measured."
        )


def list_ignored_arguments(sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the arguments of a chat template that changed nothing. sessions: as below."""
    return sorted(
        {name for session in sessions for name in session.get("ignored_template_args", ())}
    )


def describe_ignored_arguments(model: str, sessions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say which arguments of a model's chat template changed nothing; nothing if none.

    sessions: of a draws table's metadata, what was recorded when its drawing began.
    """
    if ignored := list_ignored_arguments(sessions):
        yield (
            f"{model}: its chat template ignores {listing(ignored)}: the rendered prompt is"
            " the same without."
        )
