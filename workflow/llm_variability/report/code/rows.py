"""Tables of a study of code as rows of text for the template."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from llm_variability.config import cell_name
from llm_variability.report.code.alarms import is_failing
from llm_variability.report.code.figures import ALL_SETS
from llm_variability.report.code.heatmap import NOT_REACHED
from llm_variability.report.code.statements import SHORT_WORDS, show_interval
from llm_variability.report.contrasts import ASTERISKS, SIGNIFICANCE
from llm_variability.report.wording import p_number, percent, signed
from llm_variability.tables_code import PROGRAM_STATUSES

NOTHING = "–"
DECIMALS = 3

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Text:
    """What stands in a table's cell: a text, smaller lines below it, and whether it is marked."""

    text: str
    small: tuple[str, ...] = ()
    flag: bool = False


@dataclass(frozen=True)
class Grid:
    """A table of the page. kinds: of each column, `head`, `name`, `text` or `number`."""

    caption: str
    labels: tuple[str, ...]
    kinds: tuple[str, ...]
    rows: list[list[Text]] = field(default_factory=list)


GridColumn = tuple[str, str, Callable[[Row], Text | str]]
"""A label, a kind, and what stands there for a row."""


def write_grid(caption: str, columns: Iterable[GridColumn | None], rows: pl.DataFrame) -> Grid:
    """Write a frame's rows; a column that is None is left away."""
    kept = [column for column in columns if column is not None]
    return Grid(
        caption,
        tuple(label for label, _, _ in kept),
        tuple(kind for _, kind, _ in kept),
        [
            [told if isinstance(told := write(row), Text) else Text(told) for _, _, write in kept]
            for row in rows.iter_rows(named=True)
        ],
    )


def number(value: float | None, decimals: int = DECIMALS) -> str:
    """Write a number, or a dash for none."""
    return NOTHING if value is None or math.isnan(value) else signed(value, decimals)


def show_count(name: str) -> Callable[[Row], str]:
    return lambda row: NOTHING if row[name] is None else f"{row[name]:,}"


def show_name(name: str, missing: str = NOTHING) -> Callable[[Row], str]:
    return lambda row: missing if row[name] is None else str(row[name])


def show_number(name: str, decimals: int = DECIMALS) -> Callable[[Row], str]:
    return lambda row: number(row[name], decimals)


def show_setting(row: Row) -> str:
    return cell_name(row["temperature"], row["top_p"])


def model_column(one_model: bool) -> GridColumn | None:
    return None if one_model else ("Model", "name", show_name("model"))


def _set_column(row: Row) -> str:
    return str(row["set"] or ALL_SETS)


def _each_set_once(rows: pl.DataFrame) -> pl.DataFrame:
    """Leave out the rows of all sets together where there is one set, whose rows are the same."""
    only_one = rows["set"].drop_nulls().n_unique() == 1
    return rows.filter(pl.col("set").is_not_null()) if only_one else rows


def tabulate_points(curves: pl.DataFrame, measure: str, one_model: bool) -> Grid:
    """Write the points of curves. curves: rows of `code_curves` of one measure and setting."""

    def what(row: Row) -> str:
        return row["comparison"] if row["method"] is None else row["method"]

    def estimate(row: Row) -> Text:
        interval = "" if row["ci_low"] is None else show_ends(row, "ci_low", "ci_high")
        return Text(number(row["estimate"]), (interval,) if interval else ())

    def rescaled(row: Row) -> Text:
        has_ends = None not in (row["rescaled_low"], row["rescaled_high"])
        interval = show_ends(row, "rescaled_low", "rescaled_high") if has_ends else ""
        return Text(number(row["rescaled"]), (interval,) if interval else ())

    return write_grid(
        f"Similarity ({measure}) with 95% intervals, tasks resampled. Tasks: those with a pair of"
        " programs, of those with a prompt.",
        [
            model_column(one_model),
            ("Set", "name", _set_column),
            ("Method", "head", what),
            ("Rate", "number", show_name("rate")),
            ("Realised", "number", show_number("realised")),
            ("Similarity", "number", estimate),
            ("Rescaled", "number", rescaled),
            ("Tasks", "number", lambda row: f"{row['n_tasks']:,} of {row['n_tasks_asked']:,}"),
            ("Pairs", "number", show_count("n_pairs")),
            ("Note", "text", show_name("reason", "")),
        ],
        _each_set_once(curves),
    )


def show_ends(row: Row, low: str, high: str) -> str:
    if row[high] is None:
        return ""
    return f"[{signed(row[low], DECIMALS)}, {signed(row[high], DECIMALS)}]"


def tabulate_summaries(summaries: pl.DataFrame, measure: str, one_model: bool) -> Grid:
    """Write one line a curve: height, half-life, slope.

    summaries: rows of `code_summaries` of one measure and setting.
    """
    keys = ["model", "set", "method"]
    found: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in _each_set_once(summaries).iter_rows(named=True):
        found.setdefault(tuple(row[key] for key in keys), {})[row["summary"]] = row
    lines = pl.DataFrame(
        [dict(zip(keys, place, strict=True)) for place in found],
        schema=dict.fromkeys(keys, pl.String),
    )

    def summary(name: str) -> Callable[[Row], Text]:
        def write(line: Row) -> Text:
            row = found[tuple(line[key] for key in keys)].get(name)
            return Text(NOTHING) if row is None else _summary(row)

        return write

    def tasks(line: Row) -> str:
        return (
            f"{max(row['n_tasks'] for row in found[tuple(line[key] for key in keys)].values()):,}"
        )

    def note(line: Row) -> str:
        rows = found[tuple(line[key] for key in keys)].values()
        return "; ".join(dict.fromkeys(row["reason"] for row in rows if row["reason"]))

    return write_grid(
        f"One number a curve ({measure}, rescaled) with 95% intervals, tasks resampled. Mean"
        " height: over the rates that the curve reaches, so compare methods by their differences"
        " below, which are over the rates that both reach.",
        [
            model_column(one_model),
            ("Set", "name", _set_column),
            ("Method", "head", show_name("method")),
            ("Mean height", "number", summary("auc")),
            ("Half-life", "number", summary("half_life")),
            ("Slope, first third", "number", summary("slope")),
            ("Tasks", "number", tasks),
            ("Note", "text", note),
        ],
        lines,
    )


def _summary(row: Row) -> Text:
    if row["estimate"] is None:
        reason = (row["reason"] or "no number").split(";")[0]
        return Text(reason) if reason.startswith(NOT_REACHED) else Text(NOTHING, (reason,))
    interval = show_interval(row, DECIMALS)
    return Text(number(row["estimate"]), (interval,) if interval else ())


def show_p_value(stars: str) -> Callable[[Row], Text]:
    column, _ = ASTERISKS[stars]

    def write(row: Row) -> Text:
        if row["p_value"] is None:
            return Text(NOTHING)
        starred = row[column] is not None and row[column] < SIGNIFICANCE
        adjusted = (("Holm", row["p_holm"]), ("BH", row["p_bh"]))
        return Text(
            f"{p_number(row['p_value'])}{'*' if starred else ''}",
            tuple(f"{name} {p_number(p)}" for name, p in adjusted if p is not None),
        )

    return write


def _estimate(row: Row) -> Text:
    has_ends = None not in (row["ci_low"], row["ci_high"])
    interval = show_ends(row, "ci_low", "ci_high") if has_ends else ""
    return Text(number(row["estimate"]), (interval,) if interval else ())


def tabulate_contrasts(contrasts: pl.DataFrame, measure: str, kind: str, stars: str) -> Grid:
    """Write differences. contrasts: rows of `code_contrasts` of one measure and setting.

    kind: what differs. stars: one of `ASTERISKS`.
    """
    return write_grid(
        f"First less second ({measure}): 95% interval; p, and below it p adjusted by Holm and by"
        f" Benjamini-Hochberg over its family; * p < .05, {ASTERISKS[stars][1]}.",
        [
            ("First", "head", show_name("first")),
            ("Second", "head", show_name("second")),
            ("Of", "name", lambda row: SHORT_WORDS.get(str(row["summary"]), str(row["summary"]))),
            None if kind == "model" else ("Model", "name", show_name("model", "")),
            None if kind == "method" else ("Method", "name", show_name("method", "")),
            None if kind == "set" else ("Set", "name", _set_column),
            ("Difference", "number", _estimate),
            ("p", "number", show_p_value(stars)),
            ("Tests in family", "number", show_count("family_size")),
            ("Tasks", "number", show_count("n_tasks")),
            ("Note", "text", show_name("reason", "")),
        ],
        contrasts.filter(pl.col("kind") == kind),
    )


def tabulate_fits(fits: pl.DataFrame, measure: str, stars: str, one_model: bool) -> Grid:
    """Write the mixed models' coefficients. fits: rows of `code_fits` of one measure, setting."""

    def estimate(row: Row) -> Text:
        told = _estimate(row)
        return told if row["converged"] else Text(f"{told.text}†", told.small)

    return write_grid(
        f"Similarity ({measure}) on the realised rate, tasks as random effects: 95% interval; p,"
        f" and below it p adjusted; * p < .05, {ASTERISKS[stars][1]}. †: the fit did not converge."
        " Pairs share draws, which level pair does not know: its p-values are too small.",
        [
            model_column(one_model),
            ("Set", "name", _set_column),
            ("Method", "head", show_name("method")),
            ("Level", "name", show_name("level")),
            ("Tasks' random", "name", show_name("random")),
            ("Term", "name", show_name("term")),
            ("Estimate", "number", estimate),
            ("p", "number", show_p_value(stars)),
            ("df", "number", lambda row: number(row["df"], 1)),
            ("Var. intercept", "number", show_number("var_intercept", 4)),
            ("Var. slope", "number", show_number("var_slope", 4)),
            ("Var. residual", "number", show_number("var_residual", 4)),
            ("Observations", "number", show_count("n_observations")),
            ("Note", "text", show_name("reason", "")),
        ],
        fits,
    )


def tabulate_extractions(extractions: pl.DataFrame, place: str, one_model: bool) -> Grid:
    """Write what replies hold. extractions: rows of `code_extractions`, or of `pool_cells`.

    place: what a row is: cell, setting or augmentation.
    """

    def status(name: str) -> Callable[[Row], Text]:
        def write(row: Row) -> Text:
            share = row[f"{name}_share"]
            shown = share is not None and (row[name] if name != "ok" else row["draws"])
            told = f"{row[name]:,} ({percent(share)})" if shown else f"{row[name]:,}"
            flag = name == "ok" and is_failing(row)
            return Text(f"⚠ {told}" if flag else told, flag=flag)

        return write

    return write_grid(
        f"What the replies hold, by {place}: a program that parses; code that does not; code that"
        " was cut off; no code. Unclosed: programs of a fence that never closed.",
        [
            model_column(one_model),
            (place.capitalize(), "head", show_name("cell")),
            ("Replies", "number", show_count("draws")),
            *(
                (
                    {"ok": "Program"}.get(name, name.replace("_", " ").capitalize()),
                    "number",
                    status(name),
                )
                for name in PROGRAM_STATUSES
            ),
            ("Unclosed", "number", show_count("unclosed")),
            ("Too large", "number", show_count("too_large")),
            ("Distinct programs", "number", show_count("distinct_programs")),
        ],
        extractions,
    )


def pool_cells(cells: pl.DataFrame, *, by_augmentation: bool = False) -> pl.DataFrame:
    """Add up the cells of each model and setting, or augmentation, which `cell` then names.

    cells: rows of `code_extractions` or `code_draws` of one study.
    """
    counts = [name for name, dtype in cells.schema.items() if dtype == pl.Int64]
    kept = ["augmentation"] if by_augmentation else ["temperature", "top_p"]
    pooled = cells.group_by("model", *kept, maintain_order=True).agg(pl.col(counts).sum())
    names = [row[0] if by_augmentation else cell_name(*row) for row in pooled.select(kept).rows()]
    draws = pl.col("draws")
    return pooled.with_columns(
        pl.Series("cell", names, dtype=pl.String),
        *(
            pl.when(draws > 0).then(pl.col(name) / draws).alias(f"{name}_share")
            for name in PROGRAM_STATUSES
            if name in counts
        ),
    )


def tabulate_augmentations(augmentations: pl.DataFrame) -> Grid:
    """Write how far prompts were changed. augmentations: rows of `code_augmentations`."""

    def span(row: Row) -> Text:
        if row["mean_realised"] is None:
            return Text(NOTHING)
        least, most = (number(row[f"{end}_realised"]) for end in ("min", "max"))
        return Text(number(row["mean_realised"]), (f"{least} to {most}",))

    def share(row: Row) -> str:
        return NOTHING if row["replaceable_share"] is None else percent(row["replaceable_share"])

    return write_grid(
        "Realised rate: mean, lowest and highest over texts. Can be changed: share of the units"
        " that a rate is a share of. Repeated: the same text as another variant, not drawn.",
        [
            ("Set", "name", show_name("set")),
            ("Method", "head", show_name("method")),
            ("Rate", "number", show_name("rate")),
            ("Texts", "number", show_count("texts")),
            ("Realised", "number", span),
            ("Can be changed", "number", share),
            ("Asked", "number", show_count("asked")),
            ("Edits", "number", show_count("edited")),
            ("BLEU", "number", show_number("mean_bleu")),
            ("Repeated", "number", show_count("repeated")),
        ],
        augmentations,
    )


def tabulate_paraphrases(paraphrases: pl.DataFrame) -> Grid:
    """Write counts of paraphrases. paraphrases: rows of `code_paraphrases`."""
    return write_grid(
        "Paraphrases by the diversity asked for and the band that their BLEU puts them in.",
        [
            ("Set", "name", show_name("set")),
            ("Asked for", "head", show_name("degree")),
            ("Band", "name", show_name("band", "no text")),
            ("Flags", "text", show_name("flags")),
            ("Paraphrases", "number", show_count("paraphrases")),
            ("Used", "number", show_count("used")),
            ("BLEU", "number", show_number("mean_bleu")),
            ("Similarity", "number", show_number("mean_similarity")),
        ],
        paraphrases,
    )


def tabulate_heatmap(
    panels: list[tuple[str, dict[tuple[str, str | None], Any]]], caption: str
) -> Grid:
    """Write the numbers of a heatmap: a row a setting, a column a panel."""
    settings = list(dict.fromkeys(setting for _, cells in panels for setting in cells))
    return Grid(
        caption,
        ("Setting", *(title for title, _ in panels)),
        ("head", *("number" for _ in panels)),
        [
            [
                Text(cell_name(*setting)),
                *(
                    Text(cells[setting].text if setting in cells else NOTHING)
                    for _, cells in panels
                ),
            ]
            for setting in settings
        ],
    )
