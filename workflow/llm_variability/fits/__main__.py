"""python -m llm_variability.fits fit|adjust: a SIMILARITY table in, a FITS table out."""

from __future__ import annotations

import argparse
from pathlib import Path

import polars as pl

from llm_variability.config import parse_cell
from llm_variability.fits import ADJUST_VERSION, VERSION
from llm_variability.fits.fit_table import BACKENDS, describe_failures, fit_settings
from llm_variability.fits.multiplicity import FAMILIES, adjust_p_values
from llm_variability.logs import log, stage_log, stage_parser
from llm_variability.tables import (
    ADJUSTED,
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
    for line in describe_failures(fits):
        log.warning("%s", line)
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


def adjust_fits(arguments: argparse.Namespace) -> None:
    """Put the fits of a study together, adjust their p values, write."""
    tables = [read_table(path, FITS) for path in arguments.fits]
    metadata = [read_metadata(path) for path in arguments.fits]
    studies = sorted({str(each["study"]) for each in metadata})
    if len(studies) > 1:
        raise ValueError(f"fits of several studies: {', '.join(studies)}")
    adjusted = adjust_p_values(pl.concat(tables), arguments.family)
    sizes = adjusted["family_size"].drop_nulls()
    log.info("%s: %d p values, families of up to %d", studies[0], sizes.len(), sizes.max() or 0)
    own = {
        "study": studies[0],
        "design": metadata[0]["design"],
        "family": arguments.family,
        "adjustment_version": ADJUST_VERSION,
    }
    write_table(adjusted, arguments.output, ADJUSTED, own)


def _add_fit(step: argparse.ArgumentParser) -> None:
    step.set_defaults(run=make_fits)
    step.add_argument("--study", required=True, help="the study's name")
    step.add_argument("--model", required=True, help="the language model's name")
    step.add_argument("--measure", required=True, help="the encoder's name")
    step.add_argument(
        "--similarity", required=True, type=Path, help="similarity table of all settings"
    )
    step.add_argument("--backend", choices=BACKENDS, default="profile", help="who fits")
    step.add_argument(
        "--cells",
        nargs="*",
        default=[],
        metavar="CELL",
        help="cells that must have rows, as in T0.5-P0.8, even if no text of them was measured",
    )
    step.add_argument("--output", required=True, type=Path, help="the fits table to write")


def _add_adjust(step: argparse.ArgumentParser) -> None:
    step.set_defaults(run=adjust_fits)
    step.add_argument(
        "--fits", required=True, type=Path, nargs="+", metavar="FILE", help="tables of one study"
    )
    step.add_argument("--family", choices=FAMILIES, default="study", help="adjusted together")
    step.add_argument("--output", required=True, type=Path, help="the adjusted table to write")


def main() -> None:
    parser = stage_parser("Fit all settings of one model; adjust the p values of a study.")
    steps = parser.add_subparsers(required=True, metavar="STEP")
    _add_fit(steps.add_parser("fit", help="fit all settings of one model, at every level"))
    _add_adjust(steps.add_parser("adjust", help="adjust p values for the number of tests"))
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        arguments.run(arguments)


if __name__ == "__main__":
    main()
