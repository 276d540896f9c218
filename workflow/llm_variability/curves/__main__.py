"""python -m llm_variability.curves: a study's AVERAGES tables in, its tables of curves out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.curves import VERSION
from llm_variability.curves.families import adjust_contrasts, adjust_slopes
from llm_variability.curves.tabulation import tabulate_curves
from llm_variability.curves.task_slopes import fit_curves
from llm_variability.logs import log, stage_log, stage_parser
from llm_variability.tables import read_metadata, read_table, write_table
from llm_variability.tables_code import (
    AVERAGES,
    CURVE_CONTRASTS,
    CURVE_FITS,
    CURVE_SUMMARIES,
    CURVES,
)


def read_averages(paths: Sequence[Path], study: str) -> pl.DataFrame:
    """Read the averages of all models, with the model each is of in a column.

    Raises ValueError for a table of another study.
    """
    parts = []
    for path in paths:
        metadata = read_metadata(path)
        if metadata["study"] != study:
            raise ValueError(f"{path}: is of study {metadata['study']}; allowed: {study}")
        model = pl.lit(metadata["model"]).alias("model")
        parts.append(read_table(path, AVERAGES).with_columns(model))
    return pl.concat(parts)


def fit_models(averages: pl.DataFrame, study: str, backend: str) -> pl.DataFrame:
    """Fit each model's mixed models, and adjust their p values over all of them."""
    parts = [
        fit_curves(part.drop("model"), study=study, model=str(model), backend=backend)
        for (model,), part in averages.group_by("model", maintain_order=True)
    ]
    return adjust_slopes(pl.concat(parts))


def make_curves(arguments: argparse.Namespace) -> None:
    """Read, compute, log what has no number, write."""
    averages = read_averages(arguments.averages, arguments.study)
    tables = tabulate_curves(
        averages,
        study=arguments.study,
        seed=arguments.seed,
        resamples=arguments.resamples,
        sets=arguments.sets,
    )
    contrasts = adjust_contrasts(tables.contrasts)
    fits = fit_models(averages, arguments.study, arguments.backend)
    own: dict[str, Any] = {"study": arguments.study, "curves_version": VERSION}
    drawn = {**own, "seed": arguments.seed, "resamples": arguments.resamples}
    fitted = {**own, "backend": arguments.backend}
    for table, frame, path, metadata in (
        (CURVES, tables.curves, arguments.curves, drawn),
        (CURVE_SUMMARIES, tables.summaries, arguments.summaries, drawn),
        (CURVE_CONTRASTS, contrasts, arguments.contrasts, own),
        (CURVE_FITS, fits, arguments.fits, fitted),
    ):
        missing = frame.filter(pl.col("estimate").is_null()).height
        log.info("%s: %d rows, %d without a number", table.name, frame.height, missing)
        write_table(frame, path, table, metadata)


def main() -> None:
    parser = stage_parser("Curves of a study of code, their summaries and differences.")
    parser.add_argument("--study", required=True, help="the study's name")
    parser.add_argument(
        "--averages",
        required=True,
        type=Path,
        nargs="+",
        metavar="FILE",
        help="averages tables of all models and measures",
    )
    parser.add_argument(
        "--sets",
        nargs="*",
        default=[],
        metavar="SET",
        help="sets of tasks from the oldest to the newest: their differences are newer less older",
    )
    parser.add_argument("--seed", required=True, type=int, help="the study's seed")
    parser.add_argument("--resamples", type=int, default=2000, help="bootstrap samples of tasks")
    parser.add_argument(
        "--backend", choices=("profile", "statsmodels"), default="profile", help="who fits"
    )
    for name, what in (
        ("curves", "points of the curves"),
        ("summaries", "one-number summaries"),
        ("contrasts", "differences"),
        ("fits", "mixed models"),
    ):
        parser.add_argument(f"--{name}", required=True, type=Path, help=f"the {what} to write")
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        make_curves(arguments)


if __name__ == "__main__":
    main()
