"""python -m llm_variability.diversity lexical|vendi|differentiation ...: how varied texts are."""

from __future__ import annotations

import argparse
import csv
import sys
import unicodedata
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.config import parse_cell
from llm_variability.diversity import VERSION
from llm_variability.diversity.differentiation import (
    COLUMNS,
    read_completions,
    tabulate_differentiation,
)
from llm_variability.diversity.estimates import (
    LEXICAL,
    Measures,
    fit_measures,
    measure_lexical,
    name_vendi,
    tabulate_values,
    vendi_of,
)
from llm_variability.diversity.groups import Groups, cut_groups
from llm_variability.fits.fit_table import Setting
from llm_variability.logs import log, stage_log, stage_parser
from llm_variability.similarity.embedding import measured_texts, stack_vectors
from llm_variability.tables import (
    DIVERSITY,
    DRAWS,
    EMBEDDINGS,
    FITS,
    Design,
    TableError,
    read_metadata,
    read_table,
    write_table,
)


def lexical(arguments: argparse.Namespace) -> None:
    libraries = {"zlib": zlib.ZLIB_RUNTIME_VERSION, "unicode": unicodedata.unidata_version}
    _write(arguments, lambda draws: draws, measure_lexical, LEXICAL, libraries)


def vendi(arguments: argparse.Namespace) -> None:
    table = read_table(arguments.embeddings, EMBEDDINGS)
    rows = table.select("text_hash").with_row_index("row")

    def find_vectors(draws: pl.DataFrame) -> pl.DataFrame:
        found = draws.join(rows, on="text_hash", how="left", maintain_order="left")
        if lacking := found["row"].null_count():
            raise TableError(f"{arguments.embeddings}: has no vector of {lacking} texts")
        return found

    measure = vendi_of(arguments.measure, stack_vectors(table))
    encoder = read_metadata(arguments.embeddings)["encoder_manifest"]
    made_by = {"encoder": arguments.measure, "encoder_manifest": encoder}
    _write(arguments, find_vectors, measure, [name_vendi(arguments.measure)], made_by)


def _write(
    arguments: argparse.Namespace,
    prepare: Callable[[pl.DataFrame], pl.DataFrame],
    measure: Callable[[Groups], Measures],
    measures: Sequence[str],
    made_by: dict[str, Any],
) -> None:
    """Measure every cell, estimate, tell what has no estimate, write both tables."""
    settings: dict[Setting, Measures] = {parse_cell(cell): {} for cell in arguments.cells}
    for path in arguments.draws:
        cell = read_metadata(path)
        design = Design.from_json(cell["design"])
        texts = measured_texts(read_table(path, DRAWS), not arguments.exclude_truncated)
        groups = cut_groups(prepare(texts), design)
        settings[cell["temperature"], cell["top_p"]] = measure(groups)
    fits = fit_measures(
        settings, design, study=arguments.study, model=arguments.model, measures=measures
    )
    _tell_reasons(fits)
    metadata = {
        "study": arguments.study,
        "model": arguments.model,
        "include_truncated": not arguments.exclude_truncated,
        "diversity_version": VERSION,
        **made_by,
    }
    # Values are by group: the unit that tells a group's texts apart is no column of theirs.
    by_group = replace(design, unit=None).to_json()
    values = tabulate_values(settings, design)
    write_table(values, arguments.values, DIVERSITY, {**metadata, "design": by_group})
    write_table(fits, arguments.output, FITS, {**metadata, "design": design.to_json()})


def _tell_reasons(fits: pl.DataFrame) -> None:
    missing = fits.filter(~pl.col("converged")).group_by(
        "measure", "scope", "reason", maintain_order=True
    )
    for row in missing.len().iter_rows(named=True):
        log.warning(
            "%s, %s: no estimate in %d rows: %s",
            *(row[name] for name in ("measure", "scope", "len", "reason")),
        )
    done = fits.filter("converged").select("measure", "temperature", "top_p", "scope").n_unique()
    log.info("%d settings x measures x scopes estimated", done)


def differentiation(arguments: argparse.Namespace) -> None:
    columns = list(dict.fromkeys(part for each in arguments.groups for part in each.split(":")))
    rows = []
    for path in arguments.files:
        completions = read_completions(
            path,
            text=arguments.text,
            groups=columns,
            unit=arguments.unit,
            most_words=arguments.most_words,
            refusals=arguments.refusals,
        )
        rows += tabulate_differentiation(path.stem, completions, arguments.groups)
    if arguments.output is None:
        _write_rows(rows, sys.stdout)
    else:
        with arguments.output.open("w", encoding="utf-8", newline="") as file:
            _write_rows(rows, file)


def _write_rows(rows: list[dict[str, object]], file: Any) -> None:
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _add_measured(step: argparse.ArgumentParser) -> None:
    step.add_argument("--study", required=True, help="the study's name")
    step.add_argument("--model", required=True, help="the language model's name")
    step.add_argument("--draws", required=True, type=Path, nargs="+", help="draws, a file a cell")
    step.add_argument(
        "--cells",
        nargs="*",
        default=[],
        metavar="CELL",
        help="cells that must have rows, as in T0.5-P0.8, even if there are no draws of them",
    )
    step.add_argument(
        "--exclude-truncated", action="store_true", help="leave out texts that were cut"
    )
    step.add_argument("--values", required=True, type=Path, help="the table of values to write")
    step.add_argument("--output", required=True, type=Path, help="the table of estimates to write")


def main() -> None:
    parser = stage_parser(__doc__ or "")
    steps = parser.add_subparsers(required=True, metavar="STEP")
    step = steps.add_parser("lexical", help="measures that need no encoder")
    step.set_defaults(run=lexical)
    _add_measured(step)
    step = steps.add_parser("vendi", help="the Vendi score under one encoder")
    step.set_defaults(run=vendi)
    step.add_argument("--measure", required=True, metavar="ENCODER", help="the encoder's name")
    step.add_argument("--embeddings", required=True, type=Path, help="the texts' vectors")
    _add_measured(step)
    step = steps.add_parser(
        "differentiation", help="probability of differentiation of completions in CSV files"
    )
    step.set_defaults(run=differentiation)
    step.add_argument("files", nargs="+", type=Path, metavar="FILE", help="completions of one cue")
    step.add_argument(
        "--groups",
        nargs="+",
        default=["race", "gender"],
        metavar="COLUMN",
        help="columns that make the groups, each by itself; crossed as in race:gender",
    )
    step.add_argument("--text", default="text", help="column with the completion")
    step.add_argument(
        "--unit", help="column with what is drawn anew, as in name (default: each line)"
    )
    step.add_argument("--most-words", type=int, help="leave out completions of more words")
    step.add_argument(
        "--refusals", nargs="*", default=[], metavar="TEXT", help="leave out completions with TEXT"
    )
    step.add_argument("--output", type=Path, help="the CSV file to write (default: print it)")
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        arguments.run(arguments)


if __name__ == "__main__":
    main()
