"""python -m llm_variability.draws generate|count|summarise ...: draw, and say what came of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from llm_variability.config import Model, parse_cell
from llm_variability.config_code import PARAPHRASE
from llm_variability.draws.cells import Cell, tabulate_draws
from llm_variability.draws.counts import count_draws
from llm_variability.draws.drawing import draw_cell, require_weights
from llm_variability.draws.journal import Journal, journal_path, read_journal
from llm_variability.draws.sessions import summarise_sessions, tabulate_sessions
from llm_variability.logs import stage_log, stage_parser
from llm_variability.tables import (
    COUNTS,
    DRAWS,
    SESSIONS,
    STIMULI,
    THROUGHPUT,
    Design,
    read_metadata,
    read_table,
    write_table,
)


def take_prompts(prompts: pl.DataFrame, augmentations: Sequence[str]) -> pl.DataFrame:
    """Keep the prompts of a study of code that are of these augmentations; without any, keep all.

    Raises ValueError if one has no prompt, unless it is a band of paraphrases, which may be empty.
    """
    if not augmentations:
        return prompts
    known = set(prompts["augmentation"])
    for augmentation in augmentations:
        if augmentation not in known and not augmentation.startswith(f"{PARAPHRASE}-"):
            raise ValueError(
                f"the stimuli have no prompt of {augmentation}, so they are of another"
                " configuration; run snakemake with --forcerun code_stimuli"
            )
    return prompts.filter(pl.col("augmentation").is_in(list(augmentations)))


def part_cell(cell: Cell, augmentations: Sequence[str]) -> list[Cell]:
    """Part a setting of a study of code into its augmentations; without any, there is one part."""
    if not augmentations:
        return [cell]
    return [replace(cell, prompts=cell.prompts.filter(augmentation=name)) for name in augmentations]


def generate(arguments: argparse.Namespace) -> None:
    stimuli = read_metadata(arguments.stimuli)
    temperature, top_p = parse_cell(arguments.setting)
    manifest = json.loads(arguments.manifest.read_text(encoding="utf-8"))
    require_weights(arguments.model, manifest)
    cell = Cell(
        study=arguments.study,
        model_name=arguments.model,
        model=Model.model_validate(json.loads(arguments.settings)),
        manifest=manifest,
        prompts=take_prompts(read_table(arguments.stimuli, STIMULI), arguments.augmentations),
        temperature=temperature,
        top_p=top_p,
        max_new_tokens=arguments.max_new_tokens,
        seed=arguments.seed,
    )
    identity = cell.identity()
    # Files of augmentations lie in a folder of their setting.
    folder = arguments.output[0].parents[1 if arguments.augmentations else 0]
    with Journal(journal_path(folder, arguments.setting, identity)) as journal:
        draw_cell(cell, journal, arguments.engine_log, ledger=arguments.ledger)
        content = read_journal(journal.path)
        columns = Design.from_json(stimuli["design"]).columns
        metadata = {
            "study": arguments.study,
            "model": arguments.model,
            "temperature": temperature,
            "top_p": top_p,
            "seed": arguments.seed,
            "sampling": cell.sampling.to_json(),
            "identity": identity,
            "manifest": dict(cell.manifest),
            "sessions": content.sessions,
            "design": stimuli["design"],
        }
        parts = part_cell(cell, arguments.augmentations)
        for part, output in zip(parts, arguments.output, strict=True):
            write_table(tabulate_draws(part, content, columns), output, DRAWS, metadata)


def count(arguments: argparse.Namespace) -> None:
    counted, sessions, metadata = [], {}, {}
    for path in arguments.draws:
        metadata = read_metadata(path)
        setting = metadata["temperature"], metadata["top_p"]
        columns = Design.from_json(metadata["design"]).columns
        counted.append(count_draws(read_table(path, DRAWS), *setting, columns))
        # All augmentations of a setting come from the same sessions.
        sessions[setting] = tabulate_sessions(*setting, metadata["sessions"])
    kept = {key: metadata[key] for key in ("study", "model", "design")}
    write_table(pl.concat(counted), arguments.output, COUNTS, kept)
    write_table(pl.concat(sessions.values()), arguments.sessions, SESSIONS, kept)


def summarise(arguments: argparse.Namespace) -> None:
    summaries, model = [], None
    for path in arguments.sessions:
        metadata = read_metadata(path)
        model = metadata["model"]
        summary = summarise_sessions(read_table(path, SESSIONS))
        summaries.append(summary.insert_column(0, pl.lit(metadata["study"]).alias("study")))
    write_table(pl.concat(summaries), arguments.output, THROUGHPUT, {"model": model})


def main() -> None:
    parser = stage_parser(__doc__ or "")
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("generate")
    step.set_defaults(run=generate)
    step.add_argument("--study", required=True)
    step.add_argument("--model", required=True, help="name of the model")
    step.add_argument("--setting", required=True, help="T0 or T{temperature}-P{top_p}")
    step.add_argument(
        "--augmentations", nargs="*", default=(), help="of a study of code: one an output"
    )
    step.add_argument("--settings", required=True, help="the model's configuration, JSON")
    step.add_argument("--manifest", required=True, type=Path)
    step.add_argument("--stimuli", required=True, type=Path)
    step.add_argument("--max-new-tokens", required=True, type=int)
    step.add_argument("--seed", required=True, type=int, help="seed of the study")
    step.add_argument("--engine-log", required=True, type=Path)
    step.add_argument("--ledger", type=Path, help="what the model's endpoint has cost")
    step.add_argument("--output", required=True, type=Path, nargs="+")
    step = steps.add_parser("count")
    step.set_defaults(run=count)
    step.add_argument("--draws", required=True, type=Path, nargs="+")
    step.add_argument("--output", required=True, type=Path)
    step.add_argument("--sessions", required=True, type=Path, help="file that says who drew")
    step = steps.add_parser("summarise")
    step.set_defaults(run=summarise)
    step.add_argument("--sessions", required=True, type=Path, nargs="+", help="a study each")
    step.add_argument("--output", required=True, type=Path)
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        arguments.run(arguments)


if __name__ == "__main__":
    main()
