"""python -m llm_variability.calibration simulate|draw|document: tests where the truth is known."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from llm_variability.calibration.document import document_table
from llm_variability.calibration.figure import TITLE, draw_calibration
from llm_variability.calibration.rates import Rate, run_studies
from llm_variability.calibration.studies import list_studies
from llm_variability.calibration.table import load_calibration, summarise, tabulate_rates
from llm_variability.config import ConfigError
from llm_variability.logs import log, stage_log, stage_parser
from llm_variability.report.figures import render_svg, save_figure
from llm_variability.report.svg import compact_svg


def simulate(arguments: argparse.Namespace) -> None:
    """Simulate every kind of study and write the table."""
    kinds = [study for study in list_studies() if arguments.only in study.name]
    if not kinds:
        raise ConfigError(f"--only: no kind of study has {arguments.only!r} in its name")
    begin = time.perf_counter()
    rates: list[Rate] = []
    for found in run_studies(kinds, arguments.studies, arguments.seed, arguments.threads):
        rates += found
        log.info(
            "%d of %d: %s", len({each.study for each in rates}), len(kinds), found[0].study.name
        )
    path: Path = arguments.output
    path.parent.mkdir(parents=True, exist_ok=True)
    tabulate_rates(rates, arguments.seed).write_csv(path)
    seconds = time.perf_counter() - begin
    log.info(
        "%d studies of each: %.0f s in %d threads", arguments.studies, seconds, arguments.threads
    )


def draw(arguments: argparse.Namespace) -> None:
    """Draw a table and say in a few lines what it shows."""
    table = load_calibration(arguments.table)
    folder: Path = arguments.outdir
    save_figure(draw_calibration(table), folder / "calibration", TITLE)
    (folder / "summary.txt").write_text(summarise(table), encoding="utf-8")


def document(arguments: argparse.Namespace) -> None:
    """Write a table's Markdown into files that have places for it, and its figure."""
    table = load_calibration(arguments.table)
    document_table(table, arguments.files)
    if arguments.figure is not None:
        drawn = render_svg(draw_calibration(table), TITLE)
        arguments.figure.write_text(compact_svg(drawn) + "\n", encoding="utf-8")


def main() -> None:
    parser = stage_parser(__doc__ or "")
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("simulate")
    step.set_defaults(run=simulate)
    step.add_argument("--studies", type=int, default=20_000, help="simulated studies of a kind")
    step.add_argument("--seed", type=int, default=4)
    step.add_argument("--threads", type=int, default=1)
    step.add_argument("--only", default="", help="kinds whose name has this in it")
    step.add_argument("--output", required=True, type=Path, help="the table to write, CSV")
    step = steps.add_parser("draw")
    step.set_defaults(run=draw)
    step.add_argument("--table", required=True, type=Path)
    step.add_argument("--outdir", required=True, type=Path)
    step = steps.add_parser("document")
    step.set_defaults(run=document)
    step.add_argument("--table", type=Path, help="calibration.csv (default: the committed one)")
    step.add_argument("--figure", type=Path, help="where the figure goes, a small SVG")
    step.add_argument("files", type=Path, nargs="+", help="with places for parts of the table")
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        arguments.run(arguments)


if __name__ == "__main__":
    main()
