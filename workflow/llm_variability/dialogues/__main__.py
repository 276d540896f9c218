"""python -m llm_variability.dialogues invite|ask|continue|tabulate|compare ...: turn by turn."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.code.compiling import keep_compiled
from llm_variability.code.programs import choose_trees, read_programs
from llm_variability.config import cell_name
from llm_variability.config_code import Extraction
from llm_variability.dialogues.changes import join_arms, tabulate_changes
from llm_variability.dialogues.endings import end_dialogues
from llm_variability.dialogues.turns import (
    ask_personas,
    continue_dialogues,
    design_of_turn,
    invite_questions,
    read_turn,
)
from llm_variability.logs import stage_log, stage_parser
from llm_variability.tables import (
    DRAWS,
    STIMULI,
    Design,
    TableError,
    read_design,
    read_metadata,
    read_table,
    write_table,
)
from llm_variability.tables_code import PROGRAMS
from llm_variability.tables_personas import DIALOGUE_CHANGES, DIALOGUES

log = logging.getLogger(__name__)


def invite(arguments: argparse.Namespace) -> None:
    study = read_metadata(arguments.stimuli)
    design = design_of_turn(Design.from_json(study["design"]), 0)
    table = invite_questions(read_table(arguments.stimuli, STIMULI))
    metadata = {**study, "design": design.to_json(), "turn": 0}
    write_table(table, arguments.output, STIMULI, _own(metadata))


def _own(metadata: dict[str, Any]) -> dict[str, Any]:
    """Leave out what every table says of itself."""
    return {key: value for key, value in metadata.items() if key not in ("table", "version")}


def _read_turn(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Read the turn before the exchange: its prompts and the replies."""
    return read_turn(read_table(arguments.prompts, STIMULI), read_table(arguments.draws, DRAWS))


def ask(arguments: argparse.Namespace) -> None:
    stimuli, exchange = read_table(arguments.stimuli, STIMULI), arguments.exchange
    told = read_metadata(arguments.rewritings)
    design = read_design(arguments.stimuli)
    table = ask_personas(
        _read_turn(arguments),
        dict(stimuli.select("prompt_id", "prompt").iter_rows()),
        told["tasks"],
        {name: persona["description"] for name, persona in told["personas"].items()},
        design,
        exchange,
    )
    log.info("%s: %d questions", arguments.draws, len(table))
    metadata = {
        "study": told["study"],
        "design": design_of_turn(design, exchange).to_json(),
        "exchange": exchange,
        "asked_by": read_metadata(arguments.draws)["model"],
    }
    write_table(table, arguments.output, STIMULI, metadata)


def go_on(arguments: argparse.Namespace) -> None:
    design, exchange = read_design(arguments.stimuli), arguments.exchange
    answers = read_metadata(arguments.answers)
    last = exchange == arguments.exchanges
    found = continue_dialogues(
        _read_turn(arguments), read_table(arguments.answers, DRAWS), design, exchange, last
    )
    flagged = "".join(f", {count} {flag}" for flag, count in found.flagged.items() if count)
    told = "%s: %d questions, %d answered%s"
    log.info(told, arguments.answers, found.questions, found.used, flagged)
    metadata = {
        "study": answers["study"],
        "design": design_of_turn(design, exchange).to_json(),
        "turn": exchange,
        "cell": cell_name(answers["temperature"], answers["top_p"]),
        "answered_by": answers["model"],
        "answers": {"questions": found.questions, "used": found.used, **found.flagged},
    }
    write_table(found.prompts, arguments.output, STIMULI, metadata)


def _end_setting(
    temperature: str, top_p: str | None, paths: list[Path], columns: list[str], exchanges: int
) -> pl.DataFrame:
    """Say how a model's dialogues at one setting ended; paths: the draws of all turns."""
    ended = end_dialogues([read_table(path, DRAWS) for path in paths], columns, exchanges)
    counts = dict(ended["ended"].value_counts().rows())
    told = ", ".join(f"{counts[ending]} {ending}" for ending in sorted(counts))
    log.info("%s: %d dialogues: %s", cell_name(temperature, top_p), len(ended), told)
    return ended.with_columns(temperature=pl.lit(temperature), top_p=pl.lit(top_p, dtype=pl.String))


def tabulate(arguments: argparse.Namespace) -> None:
    design = read_design(arguments.stimuli)
    how = Extraction.model_validate_json(arguments.extraction)
    facts = {path: read_metadata(path) for path in arguments.draws}
    cells: dict[tuple[str, str | None], list[Path]] = {}
    for path, fact in facts.items():
        cells.setdefault((fact["temperature"], fact["top_p"]), []).append(path)
    models = {fact["model"] for fact in facts.values()}
    if len(models) > 1:
        raise TableError(f"--draws: are of {', '.join(sorted(models))}; allowed: one model")
    ended = pl.concat(
        _end_setting(*cell, paths, design.columns, arguments.exchanges)
        for cell, paths in cells.items()
    )
    answers: dict[str, list[Any]] = {}
    for path in arguments.continued:
        told = read_metadata(path)
        answers.setdefault(told["cell"], []).append({"exchange": told["turn"], **told["answers"]})
    metadata = {
        "study": next(iter(facts.values()))["study"],
        "model": models.pop(),
        "design": design.to_json(),
        "exchanges": arguments.exchanges,
        "answers": answers,
        "extraction": how.model_dump(),
    }
    programs = read_programs(ended, how, [*design.columns, "temperature", "top_p"])
    write_table(
        ended.select(*design.columns, *DIALOGUES.columns), arguments.output, DIALOGUES, metadata
    )
    write_table(programs, arguments.programs, PROGRAMS, metadata)


def _by_model(paths: Sequence[Path]) -> dict[str, Path]:
    """Sort tables by their model. Raises TableError where a model is there twice."""
    found: dict[str, Path] = {}
    for path in paths:
        model = read_metadata(path)["model"]
        if model in found:
            raise TableError(f"{path}: model {model} is there twice; allowed: once")
        found[model] = path
    return found


def _read_arms(dialogues: Path, direct: Path | None, after: Path | None) -> pl.DataFrame:
    """Read a model's programs without and after dialogues.

    Raises TableError where either is missing, or they were extracted in two ways.
    """
    made_by = read_metadata(dialogues)
    if direct is None or after is None:
        option = "--after" if after is None else "--programs"
        raise TableError(f"{option}: has no table of model {made_by['model']}; allowed: all models")
    if made_by["extraction"] != read_metadata(direct)["extraction"]:
        raise TableError(f"{dialogues}: programs were extracted otherwise than in {direct}")
    return join_arms(read_table(direct, PROGRAMS), read_table(after, PROGRAMS))


def compare(arguments: argparse.Namespace) -> None:
    keep_compiled(arguments.compiled)
    # Numba, which this imports, reads the variable then.
    from llm_variability.code.tree_scores import is_symmetric, read_variants, score_trees

    limit = arguments.max_nodes
    variants = read_variants(arguments.variants, arguments.costs)
    measures = {
        variant.name: (
            partial(score_trees, variant=variant, max_nodes=limit, threads=arguments.threads),
            is_symmetric(variant),
        )
        for variant in variants
    }
    direct, after = _by_model(arguments.programs), _by_model(arguments.after)
    tables, too_large = [], {}
    for model, path in _by_model(arguments.dialogues).items():
        made_by = read_metadata(path)
        programs = _read_arms(path, direct.get(model), after.get(model))
        compared = choose_trees(programs, limit)
        too_large[model] = int(((programs["status"] == "ok") & ~compared).sum())
        ended = read_table(path, DIALOGUES)
        table = tabulate_changes(
            ended, programs, compared, measures, study=made_by["study"], model=model
        )
        log.info("%s: %d dialogues, %d programs compared", model, len(ended), int(compared.sum()))
        tables.append(table)
    metadata = {
        "study": made_by["study"],
        "exchanges": made_by["exchanges"],
        "costs": {variant.name: vars(variant.costs) for variant in variants},
        "max_nodes": limit,
        "too_large": too_large,
    }
    write_table(pl.concat(tables), arguments.output, DIALOGUE_CHANGES, metadata)


def _take_turn(step: argparse.ArgumentParser) -> None:
    step.add_argument("--exchange", required=True, type=int, help="number of the exchange, from 1")
    step.add_argument("--stimuli", required=True, type=Path, help="of the study")
    step.add_argument("--prompts", required=True, type=Path, help="of the turn before")
    step.add_argument("--draws", required=True, type=Path, help="of the turn before, of one cell")


def main() -> None:
    parser = stage_parser(__doc__ or "")
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("invite")
    step.set_defaults(run=invite)
    step.add_argument("--stimuli", required=True, type=Path, help="of the study")
    step.add_argument("--output", required=True, type=Path)
    step = steps.add_parser("ask")
    step.set_defaults(run=ask)
    _take_turn(step)
    step.add_argument("--rewritings", required=True, type=Path, help="with tasks and personas")
    step.add_argument("--output", required=True, type=Path)
    step = steps.add_parser("continue")
    step.set_defaults(run=go_on)
    _take_turn(step)
    step.add_argument("--answers", required=True, type=Path, help="draws of what was asked")
    step.add_argument("--exchanges", required=True, type=int, help="answered at most")
    step.add_argument("--output", required=True, type=Path)
    step = steps.add_parser("tabulate")
    step.set_defaults(run=tabulate)
    step.add_argument("--stimuli", required=True, type=Path, help="of the study")
    step.add_argument("--draws", required=True, type=Path, nargs="+", help="all turns and cells")
    step.add_argument("--continued", required=True, type=Path, nargs="+", help="their prompts")
    step.add_argument("--exchanges", required=True, type=int, help="answered at most")
    step.add_argument("--extraction", required=True, help="how it is done, JSON")
    step.add_argument("--output", required=True, type=Path, help="dialogues to write")
    step.add_argument("--programs", required=True, type=Path, help="programs to write")
    step = steps.add_parser("compare")
    step.set_defaults(run=compare)
    step.add_argument("--dialogues", required=True, type=Path, nargs="+", help="one a model")
    step.add_argument("--after", required=True, type=Path, nargs="+", help="their programs")
    step.add_argument("--programs", required=True, type=Path, nargs="+", help="without a dialogue")
    step.add_argument("--variants", required=True, nargs="+")
    step.add_argument("--costs", required=True, help="of edits, for tsed: JSON, or null")
    step.add_argument("--max-nodes", required=True, type=int, help="largest tree to be compared")
    step.add_argument("--threads", required=True, type=int)
    step.add_argument("--compiled", required=True, type=Path, help="folder, if need be")
    step.add_argument("--output", required=True, type=Path)
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        arguments.run(arguments)


if __name__ == "__main__":
    main()
