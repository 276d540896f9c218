"""What deserves a warning in a study of code: extraction that fails, curves that say little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from llm_variability.config import cell_name
from llm_variability.config_code import BANDS, EXACT, ORIGINAL, PARAPHRASE
from llm_variability.report import alarms
from llm_variability.report.alarms import MIN_PROGRAMS
from llm_variability.report.wording import listing, percent, quantity, signed

FEW_TASKS = 10
"""Tasks below which the page warns that intervals from resampled tasks are rough."""

LEAST_TASKS = 0.5
"""Share of a curve's tasks that have a pair of programs below which the page warns."""

LEAST_REALISED = 0.5
"""Realised rate as a share of the nominal one below which the page warns."""

MAX_CHANGED = 0.0
"""Realised rate at a nominal rate of 0 above which the page warns."""

MAX_CROSSED = 0.0
"""Ceiling less floor at and below which nothing can be rescaled."""

MIN_PARAPHRASES = 1
"""Usable paraphrases of a set and band below which the page warns."""


def is_failing(row: Mapping[str, object]) -> bool:
    """Tell whether fewer than `MIN_PROGRAMS` of a cell's replies are programs. row: of
    `code_extractions`."""
    share = row["ok_share"]
    return isinstance(share, float) and share < MIN_PROGRAMS


def describe_failing_cells(extractions: pl.DataFrame) -> Iterator[str]:
    """Say, a line a model, in which cells most replies are no programs.

    extractions: rows of `code_extractions` of one study.
    """
    failing = extractions.filter(pl.col("ok_share") < MIN_PROGRAMS)
    for (model,), part in failing.partition_by("model", maintain_order=True, as_dict=True).items():
        cells = extractions.filter(pl.col("model") == model).height
        worst = part.sort("ok_share", maintain_order=True).row(0, named=True)
        why = max(("no_code", "invalid", "truncated"), key=lambda status: worst[status])
        yield (
            f"{model}: fewer than {percent(MIN_PROGRAMS)} of the replies are programs in"
            f" {part.height:,} of {quantity(cells, 'cell')}; fewest in {worst['cell']}"
            f" ({percent(worst['ok_share'])}; most others: {why.replace('_', ' ')}). Similarities"
            " there are of a choice of the replies."
        )


def _primary(curves: pl.DataFrame) -> pl.DataFrame:
    return curves.filter(pl.col("measure") == curves["measure"].first())


def list_points(curves: pl.DataFrame) -> pl.DataFrame:
    """List the points of the first measure's curves, bands of paraphrases left out."""
    return _primary(curves).filter(
        (pl.col("method") != PARAPHRASE).fill_null(value=True), pl.col("n_tasks_asked") > 0
    )


def describe_few_tasks(curves: pl.DataFrame) -> Iterator[str]:
    """Say which sets' curves come from few tasks, and where many tasks have no pair.

    curves: rows of one study; the first measure's are told. Bands of paraphrases are not: a task
    need not have one in every band.
    """
    rows = list_points(curves)
    few = rows.filter(pl.col("n_tasks_asked") < FEW_TASKS)
    if few.height:
        fewest = few.group_by("set", maintain_order=True).agg(pl.col("n_tasks_asked").max())
        named = [f"{name or 'all sets together'} ({tasks})" for name, tasks in fewest.rows()]
        yield (
            f"fewer than {FEW_TASKS} tasks: {listing(named)}; intervals from resampled tasks are"
            " rough there, and below 4 tasks there is none."
        )
    lost = rows.filter(
        pl.col("set").is_null(), pl.col("n_tasks") < LEAST_TASKS * pl.col("n_tasks_asked")
    )
    for (model,), part in lost.partition_by("model", maintain_order=True, as_dict=True).items():
        worst = part.sort("n_tasks", maintain_order=True).row(0, named=True)
        where = cell_name(worst["temperature"], worst["top_p"])
        what = worst["comparison"] if worst["method"] is None else worst["method"]
        yield (
            f"{model}: in {quantity(part.height, 'point')} of its curves fewer than half of the"
            f" tasks have a pair of programs; fewest {worst['n_tasks']} of"
            f" {worst['n_tasks_asked']} ({what}{' ' + worst['rate'] if worst['rate'] else ''} at"
            f" {where})."
        )


def join_lines(curves: pl.DataFrame) -> pl.DataFrame:
    """Set the ceiling beside the floor, a row a model, measure, setting and set that has both."""
    keys = ["model", "measure", "temperature", "top_p", "set"]
    ceiling, floor = (
        curves.filter(pl.col("comparison") == name).select(*keys, pl.col("estimate").alias(name))
        for name in ("ceiling", "floor")
    )
    joined = ceiling.join(floor, on=keys, how="inner", nulls_equal=True, maintain_order="left")
    return joined.drop_nulls(["ceiling", "floor"])


def describe_lines_that_cross(curves: pl.DataFrame) -> Iterator[str]:
    """Say, a line a measure, where the ceiling is not above the floor.

    curves: rows of one study.
    """
    crossed = join_lines(curves).filter(pl.col("ceiling") - pl.col("floor") <= MAX_CROSSED)
    for (measure,), part in crossed.partition_by(
        "measure", maintain_order=True, as_dict=True
    ).items():
        row = part.row(0, named=True)
        yield (
            f"{measure}: the ceiling is not above the floor in {quantity(part.height, 'place')} of"
            f" {listing(part['model'].unique(maintain_order=True).to_list())}, as in"
            f" {row['set'] or 'all sets'} of {row['model']} at"
            f" {cell_name(row['temperature'], row['top_p'])} ({signed(row['ceiling'], 3)} and"
            f" {signed(row['floor'], 3)}), so nothing can be rescaled there."
        )


def pool_realised(augmentations: pl.DataFrame) -> pl.DataFrame:
    """Average the realised rate of each method and nominal rate above 0 over all sets' texts."""
    realised = (pl.col("mean_realised") * pl.col("texts")).sum() / pl.col("texts").sum()
    return (
        augmentations.filter(pl.col("nominal") > 0, pl.col("mean_realised").is_not_null())
        .group_by("method", "rate", "nominal", maintain_order=True)
        .agg(realised.alias("realised"))
    )


def list_unasked_changes(augmentations: pl.DataFrame) -> pl.DataFrame:
    """List what methods that may change prompts at a nominal rate of 0 did there."""
    return augmentations.filter(pl.col("nominal") == 0, ~pl.col("method").is_in([ORIGINAL, *EXACT]))


def describe_unrealised(augmentations: pl.DataFrame) -> Iterator[str]:
    """Say, a line a method, at which nominal rates far less was changed than asked for.

    augmentations: rows of `code_augmentations` of one study.
    """
    pooled = pool_realised(augmentations)
    short = pooled.filter(pl.col("realised") < LEAST_REALISED * pl.col("nominal"))
    for (method,), part in short.partition_by("method", maintain_order=True, as_dict=True).items():
        row = part.sort(pl.col("realised") / pl.col("nominal"), maintain_order=True).row(
            0, named=True
        )
        yield (
            f"{method}: less than half of the nominal rate is realised at"
            f" {listing(part['rate'].to_list())} (at {row['rate']} it is"
            f" {signed(row['realised'], 3)}); read its curve by the realised rate, as drawn."
        )
    changed = list_unasked_changes(augmentations)
    for (method,), part in changed.partition_by(
        "method", maintain_order=True, as_dict=True
    ).items():
        most = part["mean_realised"].max()
        if isinstance(most, float) and most > MAX_CHANGED:
            yield (
                f"{method}: changes prompts at rate 0 too, as published (up to {signed(most, 3)}"
                " of their units)."
            )


def count_used(paraphrases: pl.DataFrame) -> pl.DataFrame:
    """Count the paraphrases used of each set and band, those of none as 0."""
    sets = paraphrases.select("set").unique(maintain_order=True)
    used = paraphrases.group_by("set", "band").agg(pl.col("used").sum())
    bands = pl.DataFrame({"band": BANDS}, schema={"band": pl.String})
    return (
        sets.join(bands, how="cross", maintain_order="left_right")
        .join(used, on=["set", "band"], how="left", maintain_order="left")
        .with_columns(pl.col("used").fill_null(0))
    )


def describe_empty_bands(paraphrases: pl.DataFrame) -> Iterator[str]:
    """Say which bands have no paraphrase that could be used, in all sets or in some.

    paraphrases: rows of `code_paraphrases` of one study.
    """
    if not paraphrases.height:
        return
    used = count_used(paraphrases)
    sets = used["set"].unique(maintain_order=True).to_list()
    short = used.filter(pl.col("used") < MIN_PARAPHRASES)
    for band in BANDS:
        lacking = short.filter(pl.col("band") == band)["set"].to_list()
        if lacking:
            where = "any set" if len(lacking) == len(sets) else listing(lacking)
            yield f"no paraphrase of {band} diversity could be used in {where}."


def describe_code_alarms(tables: Mapping[str, pl.DataFrame]) -> list[str]:
    """Gather a study's alarms, those of its draws first.

    tables: of `tables.CODE_SCHEMAS`, the rows of one study.
    """
    return [
        *alarms.summarise_alarms(tables["code_draws"], "cell"),
        *describe_failing_cells(tables["code_extractions"]),
        *describe_few_tasks(tables["code_curves"]),
        *describe_lines_that_cross(tables["code_curves"]),
        *describe_unrealised(tables["code_augmentations"]),
        *describe_empty_bands(tables["code_paraphrases"]),
    ]
