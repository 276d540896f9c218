"""python -m llm_variability.sensitivity: draws, EMBEDDINGS and SIMILARITY in, a FITS table out."""

from __future__ import annotations

import argparse
from pathlib import Path

import polars as pl

from llm_variability.config import parse_cell
from llm_variability.fits.fit_table import describe_failures
from llm_variability.logs import log, stage_log, stage_parser
from llm_variability.sensitivity import VERSION
from llm_variability.sensitivity.analyses import analyse_settings
from llm_variability.sensitivity.texts import Encoded, measure_draws
from llm_variability.similarity.embedding import stack_vectors
from llm_variability.tables import (
    DRAWS,
    EMBEDDINGS,
    FITS,
    SIMILARITY,
    Design,
    read_metadata,
    read_table,
    write_table,
)


def read_texts(
    draws: list[Path], embeddings: Path, include_truncated: bool, design: Design
) -> Encoded:
    """Read the texts of all cells, and their vectors."""
    table = read_table(embeddings, EMBEDDINGS)
    over_long = table.select("text_hash", "over_long")
    parts = []
    for path in draws:
        cell = read_metadata(path)
        setting = (cell["temperature"], cell["top_p"])
        parts.append(
            measure_draws(read_table(path, DRAWS), setting, over_long, include_truncated, design)
        )
    rows_of = {text_hash: row for row, text_hash in enumerate(table["text_hash"])}
    return Encoded(pl.concat(parts), stack_vectors(table), rows_of)


def analyse(arguments: argparse.Namespace) -> None:
    """Read, analyse, log what has no estimate, write."""
    similarity = read_table(arguments.similarity, SIMILARITY)
    metadata = read_metadata(arguments.similarity)
    design = Design.from_json(metadata["design"])
    encoded = read_texts(
        arguments.draws, arguments.embeddings, metadata["include_truncated"], design
    )
    estimates = analyse_settings(
        encoded,
        similarity,
        design,
        study=arguments.study,
        model=arguments.model,
        measure=arguments.measure,
        seed=arguments.seed,
        permutations=arguments.permutations,
        settings=[parse_cell(cell) for cell in arguments.cells],
    )
    for line in describe_failures(estimates):
        log.warning("%s", line)
    done = estimates.filter("converged")
    log.info("%s, %s: %d estimates", arguments.model, arguments.measure, done.height)
    own = {
        "study": arguments.study,
        "model": arguments.model,
        "measure": arguments.measure,
        "seed": arguments.seed,
        "permutations": arguments.permutations,
        "sensitivity_version": VERSION,
    }
    inherited = {key: value for key, value in metadata.items() if key not in ("table", "version")}
    write_table(estimates, arguments.output, FITS, {**inherited, **own})


def main() -> None:
    parser = stage_parser("Sensitivity analyses of all settings of one model.")
    parser.add_argument("--study", required=True, help="the study's name")
    parser.add_argument("--model", required=True, help="the language model's name")
    parser.add_argument("--measure", required=True, help="the encoder's name")
    parser.add_argument(
        "--draws", required=True, type=Path, nargs="+", help="draws table of each cell"
    )
    parser.add_argument("--embeddings", required=True, type=Path, help="vectors of their texts")
    parser.add_argument(
        "--similarity", required=True, type=Path, help="similarity table of all settings"
    )
    parser.add_argument("--permutations", required=True, type=int, help="random permutations")
    parser.add_argument("--seed", required=True, type=int, help="the study's seed")
    parser.add_argument(
        "--cells",
        nargs="*",
        default=[],
        metavar="CELL",
        help="cells that must have rows, as in T0.5-P0.8, even if no text of them was measured",
    )
    parser.add_argument("--output", required=True, type=Path, help="the fits table to write")
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        analyse(arguments)


if __name__ == "__main__":
    main()
