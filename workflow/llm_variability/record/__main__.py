"""Command line: python -m llm_variability.record."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from llm_variability.config import load_settings
from llm_variability.logs import stage_log, stage_parser
from llm_variability.record.crate import CRATE, build_crate, write_crate
from llm_variability.record.readme import describe_results
from llm_variability.record.source import SNAPSHOT, copy_sources, find_resources, list_program
from llm_variability.tables import read_metadata

log = logging.getLogger(__name__)

README = "README.md"
HOME = Path(__file__).resolve().parents[3]
"""The workflow's folder."""


def record_run(results: Path, home: Path) -> None:
    """Write a finished run's snapshot of the workflow, README and crate into its results folder."""
    settings = load_settings([results / "config.yaml"])
    stimuli = {path.stem: read_metadata(path) for path in (results / "stimuli").glob("*.parquet")}
    program = list_program(home)
    places = copy_sources([*program, *find_resources(settings, stimuli, home)], results / SNAPSHOT)
    temporary = results / f".{README}.tmp"
    temporary.write_text(describe_results(results, [README, CRATE]), encoding="utf-8")
    os.replace(temporary, results / README)
    crate = build_crate(results, settings, places)
    write_crate(crate, results / CRATE)
    log.info("%s: %d entities", CRATE, len(crate["@graph"]))


def main(argv: Sequence[str] | None = None) -> None:
    parser = stage_parser("Describe a finished run: README.md, ro-crate-metadata.json, workflow/.")
    parser.add_argument("--results", type=Path, required=True, metavar="FOLDER")
    arguments = parser.parse_args(argv)
    with stage_log(arguments.log):
        record_run(arguments.results, HOME)


if __name__ == "__main__":
    main()
