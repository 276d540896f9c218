"""python -m llm_variability.examples: a model's draws and similarities in, EXAMPLES out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from llm_variability.examples import VERSION
from llm_variability.examples.choosing import (
    DRAW,
    choose_by_similarity,
    name_groups,
    order_prompts,
    score_persona_programs,
    score_programs,
    score_texts,
)
from llm_variability.examples.collecting import collect_examples
from llm_variability.logs import log, stage_log, stage_parser
from llm_variability.tables import (
    EXAMPLES,
    SIMILARITY,
    STIMULI,
    Design,
    TableError,
    read_design,
    read_metadata,
    read_table,
    write_table,
)
from llm_variability.tables_code import PAIRS, PROGRAMS
from llm_variability.tables_personas import PROGRAM_PAIRS


def _read_scores(path: Path, measure: str, prompts: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Read how alike each draw is to those it is compared with, from any table of similarities."""
    kind = read_metadata(path)["table"]
    if kind == SIMILARITY.name:
        return score_texts(read_table(path, SIMILARITY), design)
    if kind == PAIRS.name:
        return score_programs(read_table(path, PAIRS), measure, design)
    if kind == PROGRAM_PAIRS.name:
        return score_persona_programs(read_table(path, PROGRAM_PAIRS), measure, prompts)
    raise TableError(f"{path}: a {kind} table does not say how alike draws are")


def _read_programs(path: Path | None, design: Design) -> pl.DataFrame | None:
    """Read what each reply holds; None where no table is given."""
    if path is None:
        return None
    programs = name_groups(read_table(path, PROGRAMS), design)
    return programs.select(*DRAW, pl.col("status").alias("program"))


def choose(arguments: argparse.Namespace) -> None:
    """Read, choose, log how many of each role there are, write."""
    design, first = read_design(arguments.stimuli), read_metadata(arguments.draws[0])
    prompts = order_prompts(read_table(arguments.stimuli, STIMULI), design)
    scored = _read_scores(arguments.similarity, arguments.measure, prompts, design)
    examples = collect_examples(
        arguments.draws,
        choose_by_similarity(scored, prompts),
        prompts,
        _read_programs(arguments.programs, design),
        design,
    ).with_columns(
        study=pl.lit(first["study"]),
        model=pl.lit(first["model"]),
        measure=pl.lit(arguments.measure),
    )
    metadata = {
        "study": first["study"],
        "model": first["model"],
        "measure": arguments.measure,
        "design": design.to_json(),
        "examples_version": VERSION,
    }
    write_table(examples.select(*EXAMPLES.columns), arguments.output, EXAMPLES, metadata)
    roles = examples.group_by("role", maintain_order=True).len().rows()
    log.info("%s", ", ".join(f"{role}: {count}" for role, count in roles))


def _parser() -> argparse.ArgumentParser:
    parser = stage_parser(__doc__ or "")
    for name, meaning in (
        ("stimuli", "the study's prompts"),
        ("similarity", "the model's SIMILARITY, PAIRS or PROGRAM_PAIRS"),
        ("output", "the table of examples"),
    ):
        parser.add_argument(f"--{name}", type=Path, required=True, metavar="FILE", help=meaning)
    parser.add_argument("--measure", required=True, help="encoder, or measure of the pairs")
    parser.add_argument(
        "--draws", type=Path, nargs="+", required=True, metavar="FILE", help="of all settings"
    )
    parser.add_argument("--programs", type=Path, metavar="FILE", help="what the replies hold")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    arguments = _parser().parse_args(argv)
    with stage_log(arguments.log):
        choose(arguments)


if __name__ == "__main__":
    main()
