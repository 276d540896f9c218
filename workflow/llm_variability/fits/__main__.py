"""python -m llm_variability.fits: a SIMILARITY table in, a FITS table out."""

from __future__ import annotations

import argparse
from pathlib import Path

import polars as pl

from llm_variability.config import parse_cell
from llm_variability.fits import VERSION
from llm_variability.fits.fit_table import BACKENDS, fit_settings
from llm_variability.logs import log, stage_log, stage_parser
from llm_variability.tables import (
    FITS,
    SIMILARITY,
    Design,
    read_metadata,
    read_table,
    write_table,
)


def make_fits(arguments: argparse.Namespace) -> None:
    """Read, fit, log what has no fit, write."""
    similarity = read_table(arguments.similarity, SIMILARITY)
    metadata = read_metadata(arguments.similarity)
    fits = fit_settings(
        similarity,
        Design.from_json(metadata["design"]),
        study=arguments.study,
        model=arguments.model,
        measure=arguments.measure,
        backend=arguments.backend,
        settings=[parse_cell(cell) for cell in arguments.cells],
    )
    for row in fits.filter(~pl.col("converged")).iter_rows(named=True):
        setting = f"temperature {row['temperature']}, top-p {row['top_p'] or 'none'}"
        parts = [row[name] for name in ("level", "scope", "coding", "term") if row[name]]
        log.warning("%s, %s: no fit: %s", setting, ", ".join(parts), row["reason"])
    done = fits.filter("converged").select("temperature", "top_p", "level", "scope").n_unique()
    log.info("%s, %s: %d fits by %s", arguments.model, arguments.measure, done, arguments.backend)
    own = {
        "study": arguments.study,
        "model": arguments.model,
        "measure": arguments.measure,
        "backend": arguments.backend,
        "fits_version": VERSION,
    }
    inherited = {key: value for key, value in metadata.items() if key not in ("table", "version")}
    write_table(fits, arguments.output, FITS, {**inherited, **own})


def main() -> None:
    parser = stage_parser("Fit all settings of one model, at every level.")
    parser.add_argument("--study", required=True, help="the study's name")
    parser.add_argument("--model", required=True, help="the language model's name")
    parser.add_argument("--measure", required=True, help="the encoder's name")
    parser.add_argument(
        "--similarity", required=True, type=Path, help="similarity table of all settings"
    )
    parser.add_argument("--backend", choices=BACKENDS, default="profile", help="who fits")
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
        make_fits(arguments)


if __name__ == "__main__":
    main()
