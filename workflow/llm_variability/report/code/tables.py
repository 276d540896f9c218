"""The tables of studies of code behind the page, made from the stages' tables and kept as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from llm_variability.config_code import PARAPHRASE
from llm_variability.report.code.schemas import CODE_SCHEMAS, COUNTED
from llm_variability.report.summaries import (
    count_draws,
    label_by_metadata,
    label_rows,
    name_cells,
    shape_rows,
)
from llm_variability.tables import COUNTS, read_table
from llm_variability.tables_code import (
    AUGMENTATIONS,
    CURVE_CONTRASTS,
    CURVE_FITS,
    CURVE_SUMMARIES,
    CURVES,
    EXTRACTIONS,
    PARAPHRASES,
    PROGRAM_STATUSES,
)

_ASKED_IN = ("augmentation", "method", "rate")
NO_FLAG = "none"
"""Stands for the flags of a paraphrase that has none."""


_CELL = ("temperature", "top_p", "augmentation")


def count_programs(extractions: pl.DataFrame) -> pl.DataFrame:
    """Add up what the replies of each cell hold, in the order of the rows.

    extractions: rows of an EXTRACTIONS table. Shares are of the draws; null where there is none.
    """
    draws = pl.col("draws").sum()
    sums = (*PROGRAM_STATUSES, *COUNTED)
    counted = extractions.group_by("temperature", "top_p", *_ASKED_IN, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("prompts"),
        draws.cast(pl.Int64),
        *(pl.col(name).cast(pl.Int64).sum() for name in sums),
        *(
            pl.when(draws > 0).then(pl.col(status).sum() / draws).alias(f"{status}_share")
            for status in PROGRAM_STATUSES
        ),
    )
    return name_cells(counted, *_CELL)


def count_code_draws(counts: pl.DataFrame) -> pl.DataFrame:
    """Add up the draws of each cell: those of `count_draws` for each augmentation.

    counts: rows of a COUNTS table of a study of code.
    """
    parts = counts.partition_by([*_ASKED_IN], maintain_order=True, as_dict=True)
    counted = [
        label_rows(count_draws(part), **dict(zip(_ASKED_IN, map(str, key), strict=True)))
        for key, part in parts.items()
    ]
    return name_cells(pl.concat(counted), *_CELL) if counted else pl.DataFrame()


def summarise_augmentations(augmentations: pl.DataFrame) -> pl.DataFrame:
    """Say how far prompts were changed: a row a set and augmentation, in the order of the rows.

    augmentations: rows of an AUGMENTATIONS table. `nominal` is null for paraphrases, whose rate is
    a band; `replaceable_share` is of the eligible units; `repeated` counts texts that another
    variant has too, which are not drawn.
    """
    eligible = pl.col("eligible").sum()
    return (
        augmentations.group_by("set", *_ASKED_IN, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("texts"),
            pl.col("realised").mean().alias("mean_realised"),
            pl.col("realised").min().alias("min_realised"),
            pl.col("realised").max().alias("max_realised"),
            pl.col("bleu").mean().alias("mean_bleu"),
            *(
                pl.when(pl.col(name).count() > 0)
                .then(pl.col(name).cast(pl.Int64).sum())
                .alias(name)
                for name in ("eligible", "replaceable", "asked", "edited")
            ),
            pl.when(eligible > 0)
            .then(pl.col("replaceable").sum() / eligible)
            .alias("replaceable_share"),
            pl.col("repeated").cast(pl.Int64).sum(),
        )
        .with_columns(
            pl.when(pl.col("method") != PARAPHRASE)
            .then(pl.col("rate").cast(pl.Float64, strict=False))
            .alias("nominal")
        )
    )


def count_paraphrases(paraphrases: pl.DataFrame) -> pl.DataFrame:
    """Count paraphrases by set, degree asked for, band and flags, and how many of them are used.

    paraphrases: rows of a PARAPHRASES table.
    """
    return (
        paraphrases.with_columns(
            pl.col("task").str.split("/").list.first().alias("set"),
            pl.when(pl.col("flags") == "")
            .then(pl.lit(NO_FLAG))
            .otherwise(pl.col("flags"))
            .alias("flags"),
        )
        .group_by("set", "degree", "band", "flags", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("paraphrases"),
            pl.col("used").cast(pl.Int64).sum(),
            pl.col("bleu").mean().alias("mean_bleu"),
            pl.col("similarity").mean().alias("mean_similarity"),
        )
    )


def collect_code_tables(
    curves: Sequence[Path],
    summaries: Sequence[Path],
    contrasts: Sequence[Path],
    fits: Sequence[Path],
    extractions: Sequence[Path],
    counts: Sequence[Path],
    augmentations: Sequence[Path],
    paraphrases: Sequence[Path] = (),
) -> dict[str, pl.DataFrame]:
    """Read the stages' tables of all studies of code, and make the page's tables of them.

    Rows keep the order of the files. Returns every table of `CODE_SCHEMAS`.
    """
    made = {
        "code_curves": [read_table(path, CURVES) for path in curves],
        "code_summaries": [read_table(path, CURVE_SUMMARIES) for path in summaries],
        "code_contrasts": [read_table(path, CURVE_CONTRASTS) for path in contrasts],
        "code_fits": [read_table(path, CURVE_FITS) for path in fits],
        "code_extractions": [
            label_by_metadata(path, count_programs(read_table(path, EXTRACTIONS)), "study", "model")
            for path in extractions
        ],
        "code_draws": [
            label_by_metadata(path, counted, "study", "model")
            for path in counts
            if (counted := count_code_draws(read_table(path, COUNTS))).height
        ],
        "code_augmentations": [
            label_by_metadata(
                path, summarise_augmentations(read_table(path, AUGMENTATIONS)), "study"
            )
            for path in augmentations
        ],
        "code_paraphrases": [
            label_by_metadata(path, count_paraphrases(read_table(path, PARAPHRASES)), "study")
            for path in paraphrases
        ],
    }
    return {name: shape_rows(frames, CODE_SCHEMAS[name]) for name, frames in made.items()}
