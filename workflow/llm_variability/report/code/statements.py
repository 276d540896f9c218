"""Sentences about a study of code, each from the numbers of its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from llm_variability.config_code import BANDS, PARAPHRASE
from llm_variability.report.code.figures import ALL_SETS, list_methods, list_sets, of_set
from llm_variability.report.code.heatmap import NOT_REACHED, arrange_panels
from llm_variability.report.wording import listing, p_number, percent, quantity, signed

SHORT_WORDS = {"auc": "mean height", "half_life": "half-life", "slope": "first slope"}
"""Names of summaries where there is little room."""

SUMMARY_WORDS = {
    "auc": "mean height of the rescaled curve",
    "half_life": "half-life",
    "slope": "slope over the first third",
    "ceiling": "ceiling and floor",
}
_MODELS_TOLD = 6
_CONTRASTS_TOLD = 4


def show_interval(row: Mapping[str, Any], decimals: int = 2) -> str:
    """Write the 95% interval of a row; an end of a half-life that no rate reaches says so."""
    low, high = row["ci_low"], row["ci_high"]
    if low is None:
        return ""
    if high is None:
        return f"[{signed(low, decimals)}, {NOT_REACHED}]" if row["summary"] == "half_life" else ""
    return f"[{signed(low, decimals)}, {signed(high, decimals)}]"


def _with_interval(row: Mapping[str, Any], interval: str) -> str:
    return f"{signed(row['estimate'])} {interval}".rstrip()


def show_half_life(row: Mapping[str, Any]) -> str:
    """Write when half of the way from ceiling to floor is gone, or why that is not known."""
    if row["estimate"] is not None:
        return f"half of the way to the floor is gone at a rate of {_with_interval(row, '')}" + (
            f" {interval}" if (interval := show_interval(row)) else ""
        )
    reason = row["reason"] or "no half-life"
    if reason.startswith(NOT_REACHED):
        return f"half of the way to the floor is {reason.split(';')[0]}"
    return reason


Methods = list[tuple[str, dict[str, dict[str, Any]]]]
"""Methods, each with its summaries by name."""


def _have_intervals(methods: Methods) -> bool:
    return all(each["slope"]["ci_low"] is not None for _, each in methods)


def _order_by_slope(methods: Methods) -> Methods:
    if not _have_intervals(methods):
        return methods
    return sorted(methods, key=lambda item: float(item[1]["slope"]["estimate"]))


def describe_fastest(summaries: pl.DataFrame, models: Sequence[str]) -> list[str]:
    """Say, a sentence a model, under which method code changes fastest.

    summaries: rows of `code_summaries` of one measure and setting. Methods are ordered by their
    slope over the first third, the steepest first, if the slopes have intervals.
    """
    rows = summaries.filter(of_set(None))
    found: dict[str, Methods] = {}
    for model in models:
        of_model: dict[str, dict[str, dict[str, Any]]] = {}
        for row in rows.filter(pl.col("model") == model).iter_rows(named=True):
            of_model.setdefault(row["method"], {})[row["summary"]] = row
        usable = [
            (method, each)
            for method, each in of_model.items()
            if "slope" in each and each["slope"]["estimate"] is not None
        ]
        if usable:
            found[model] = _order_by_slope(usable)
    sentences = []
    steepest = [
        methods[0][0] for methods in found.values() if len(methods) > 1 and _have_intervals(methods)
    ]
    if len(steepest) > 1:
        counts = {method: steepest.count(method) for method in dict.fromkeys(steepest)}
        told = listing([f"{method} with {count:,}" for method, count in counts.items()])
        sentences.append(
            f"Code changes fastest with rate under {told} of {quantity(len(steepest), 'model')}."
        )
    for model, methods in list(found.items())[:_MODELS_TOLD]:
        parts = []
        for method, each in methods:
            slope = each["slope"]
            told = f"{method} (slope {_with_interval(slope, show_interval(slope))}"
            if "half_life" in each:
                told += f"; {show_half_life(each['half_life'])}"
            parts.append(f"{told})")
        order = ", from the steepest over the first third" if len(parts) > 1 else ""
        if not _have_intervals(methods):
            order = ", with too few tasks for intervals, so in no order"
        sentences.append(f"{model}, curves rescaled{order}: {'; '.join(parts)}.")
    return sentences


def describe_bands(curves: pl.DataFrame, models: Sequence[str]) -> list[str]:
    """Say, a sentence a model, how much of the similarity is left in each band of paraphrases.

    curves: rows of `code_curves` of one measure and setting.
    """
    rows = curves.filter(of_set(None), pl.col("method") == PARAPHRASE)
    sentences = []
    for model in models[:_MODELS_TOLD]:
        of_model = {row["rate"]: row for row in rows.filter(model=model).iter_rows(named=True)}
        if not of_model:
            continue
        parts = []
        for band in BANDS:
            row = of_model.get(band)
            if row is None or not row["n_tasks_asked"]:
                parts.append(f"{band} no paraphrase")
            elif row["rescaled"] is None:
                parts.append(f"{band} no number")
            else:
                low, high = row["rescaled_low"], row["rescaled_high"]
                ends = "" if None in (low, high) else f" [{signed(low)}, {signed(high)}]"
                parts.append(f"{band} {signed(row['rescaled'])}{ends}")
        sentences.append(
            f"{model}, rescaled similarity under paraphrases by their diversity:"
            f" {', '.join(parts)}."
        )
    return sentences


def _tell_contrast(row: Mapping[str, Any]) -> str:
    where = ", ".join(each for each in (row["model"], row["method"]) if each)
    if row["estimate"] is None:
        return f"{where}: {row['reason'] or 'no number'}"
    told = f"{where}: {_with_interval(row, show_interval(row))}"
    if row["p_value"] is None:
        return f"{told} (no test: {row['reason']})" if row["reason"] else told
    adjusted = "" if row["p_holm"] is None else f", after Holm {p_number(row['p_holm'])}"
    return f"{told}, p {p_number(row['p_value'])}{adjusted}"


def describe_contamination(contrasts: pl.DataFrame) -> list[str]:
    """Say, a sentence a pair of sets, how far code of one is more sensitive than of the other.

    contrasts: rows of `code_contrasts` of one measure and setting. Told is the difference in mean
    height of the rescaled curve; with many models and methods it is counted.
    """
    rows = contrasts.filter(pl.col("kind") == "set", pl.col("summary") == "auc")
    sentences = []
    for (first, second), part in rows.partition_by(
        ["first", "second"], maintain_order=True, as_dict=True
    ).items():
        head = f"Mean height of the curve of {first} less that of {second}"
        if part.height <= _CONTRASTS_TOLD:
            told = "; ".join(_tell_contrast(row) for row in part.iter_rows(named=True))
            sentences.append(f"{head}: {told}.")
            continue
        usable = part.drop_nulls("estimate")
        lower = usable.filter(pl.col("estimate") < 0).height
        ps = [int((usable[name] < 0.05).sum()) for name in ("p_value", "p_holm")]
        sentences.append(
            f"{head}: lower in {lower:,} of {usable.height:,} models × methods, p < .05 in"
            f" {ps[0]:,}, after Holm in {ps[1]:,}."
            + (
                f" Largest: {_tell_contrast(_largest(usable))}."
                if usable.height
                else " No number could be had."
            )
        )
    return sentences


def _largest(rows: pl.DataFrame) -> dict[str, Any]:
    return rows.sort(pl.col("estimate").abs(), descending=True, maintain_order=True).row(
        0, named=True
    )


def _span(values: Sequence[float]) -> str:
    """Write the lowest and the highest of some numbers, once if they are written alike."""
    low, high = signed(min(values)), signed(max(values))
    return low if low == high else f"{low} to {high}"


def describe_lines(curves: pl.DataFrame) -> str:
    """Say how high ceiling and floor are. curves: rows of one measure and setting."""
    rows = curves.filter(of_set(None)).drop_nulls("estimate")
    parts = []
    for name, words in (
        ("ceiling", "two draws of the unaltered prompt"),
        ("floor", "programs for unrelated tasks"),
    ):
        found = rows.filter(pl.col("comparison") == name)
        values = found["estimate"].to_list()
        if not values:
            parts.append(f"{words} could not be compared")
        else:
            parts.append(f"{words} are alike by {_span(values)}")
    return f"Of 1 at most, {parts[0]} (the ceiling), {parts[1]} (the floor)."


def describe_extraction(extractions: pl.DataFrame) -> str:
    """Say how many replies hold a program. extractions: rows of `code_extractions`."""
    draws = int(extractions["draws"].sum())
    if not draws:
        return "No draw was made."
    shares = {
        name: int(extractions[name].sum()) / draws
        for name in ("ok", "invalid", "truncated", "no_code")
    }
    by_model = extractions.group_by("model", maintain_order=True).agg(
        (pl.col("ok").sum() / pl.col("draws").sum()).alias("share")
    )
    worst = by_model.sort("share", maintain_order=True).row(0, named=True)
    least = ""
    if percent(worst["share"]) != percent(shares["ok"]):
        least = f" Fewest with {worst['model']} ({percent(worst['share'])})."
    return (
        f"Of {quantity(draws, 'reply', 'replies')} {percent(shares['ok'])} are programs that"
        f" parse; {percent(shares['invalid'])} hold code that does not parse,"
        f" {percent(shares['truncated'])} code that was cut off, {percent(shares['no_code'])} no"
        f" code.{least}"
    )


def describe_curves(
    curves: pl.DataFrame, measure: str, setting: str, rescaled: bool, by_set: bool
) -> str:
    """Say how far each curve falls, for those who do not see it.

    curves: rows of one measure and setting; told is the lowest and highest model at the highest
    realised rate.
    """
    column = "rescaled" if rescaled else "estimate"
    kind = "Rescaled similarity" if rescaled else "Similarity"
    head = f"{kind} of code by realised rate, {measure}, {setting}"
    sets: list[str | None] = [*list_sets(curves)] if by_set else [None]
    parts = []
    for name in sets:
        for method in list_methods(curves):
            rows = curves.filter(of_set(name), pl.col("method") == method)
            rows = rows.drop_nulls([column, "realised"])
            if not rows.height:
                continue
            last = rows.sort("realised", maintain_order=True).group_by("model").last()
            span = _span(last[column].to_list())
            rate = signed(max(last["realised"].to_list()))
            where = "" if name is None else f"{name}, "
            parts.append(f"{where}{method} {span} at {rate}")
    return f"{head}. At its highest rate: {'; '.join(parts)}." if parts else f"{head}: no number."


def describe_band_figure(curves: pl.DataFrame, measure: str, setting: str) -> str:
    """Say which bands of paraphrases there are. curves: rows of one measure and setting."""
    rows = curves.filter(of_set(None), pl.col("method") == PARAPHRASE)
    asked = rows.group_by("rate").agg(pl.col("n_tasks_asked").max())
    tasks: dict[str, int] = dict(asked.iter_rows())
    parts = [
        f"{band}: {quantity(tasks[band], 'task')}" if tasks.get(band) else f"{band}: no paraphrase"
        for band in BANDS
    ]
    return (
        f"Similarity of code by diversity of the paraphrase, {measure}, {setting}, {ALL_SETS}."
        f" {'; '.join(parts)}."
    )


def describe_paraphrases(paraphrases: pl.DataFrame) -> str:
    """Say how many paraphrases are used, and in which bands. paraphrases: of
    `code_paraphrases`."""
    total, used = (int(paraphrases[name].sum()) for name in ("paraphrases", "used"))
    by_band = paraphrases.group_by("band").agg(pl.col("paraphrases", "used").sum())
    found = {band: (count, taken) for band, count, taken in by_band.iter_rows()}
    parts = [
        f"{band} {found[band][1]:,} of {found[band][0]:,}" if band in found else f"{band} none"
        for band in BANDS
    ]
    return (
        f"{quantity(total, 'paraphrase')}, {used:,} of them used. Used, by diversity:"
        f" {', '.join(parts)}."
    )


def describe_code_heatmap(
    curves: pl.DataFrame, summaries: pl.DataFrame, model: str, measure: str, kind: str
) -> str:
    """Say the range over settings of what a heatmap shows.

    curves, summaries: rows of one study, all settings.
    """
    parts = []
    for title, cells in arrange_panels(curves, summaries, model, measure, kind):
        values = [cell.value for cell in cells.values() if cell.value is not None]
        not_reached = sum(cell.is_not_reached for cell in cells.values())
        told = _span(values) if values else "no number"
        if not_reached:
            lack = f"not reached in {not_reached:,} of {quantity(len(cells), 'setting')}"
            told = f"{told}, {lack}" if values else lack
        parts.append(f"{title} {told}")
    words = SUMMARY_WORDS[kind]
    return (
        f"{words[0].upper()}{words[1:]} by temperature and top-p, {model}, {measure}."
        f" {'; '.join(parts)}."
    )


def describe_left_out(tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """Say what was left out and how often, over all settings and models; what is 0 is left away.

    tables: of `tables.CODE_SCHEMAS`, the rows of one study.
    """
    extractions, curves = tables["code_extractions"], tables["code_curves"]
    counts = {name: int(extractions[name].sum()) for name in extractions.columns if name in _LEFT}
    told = [
        f"{counts[name]:,} {words[0] if counts[name] == 1 else words[1]}"
        for name, words in _LEFT.items()
        if counts[name]
    ]
    if repeated := int(tables["code_augmentations"]["repeated"].sum()):
        told.append(
            f"{quantity(repeated, 'augmented text')} that another variant of the same augmentation"
            f" has too, not drawn a second time"
        )
    paraphrases = tables["code_paraphrases"]
    if unused := int((paraphrases["paraphrases"] - paraphrases["used"]).sum()):
        told.append(f"{quantity(unused, 'paraphrase')} that no prompt was made of, by their flags")
    measure = next(iter(curves["measure"]), "")
    begins = (pl.col("comparison") == "augmented") & (pl.col("realised") == 0)
    lacking = curves.filter(
        pl.col("measure") == measure,
        pl.col("set").is_null(),
        pl.col("n_tasks") < pl.col("n_tasks_asked"),
        ~begins.fill_null(value=False),
    )
    if lacking.height:
        most = int((lacking["n_tasks_asked"] - lacking["n_tasks"]).max())  # type: ignore[arg-type]
        told.append(
            f"tasks without a pair of programs in {quantity(lacking.height, 'point')} of the"
            f" curves of {measure} (up to {quantity(most, 'task')} in one)"
        )
    return told


_LEFT = {
    "no_code": ("reply without code, not compared", "replies without code, not compared"),
    "invalid": (
        "reply whose code does not parse, not compared",
        "replies whose code does not parse, not compared",
    ),
    "truncated": (
        "reply whose code was cut off, not compared",
        "replies whose code was cut off, not compared",
    ),
    "too_large": (
        "program whose tree is too large, left out of the tree similarities",
        "programs whose trees are too large, left out of the tree similarities",
    ),
}
