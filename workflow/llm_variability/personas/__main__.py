"""python -m llm_variability.personas request|read ...: ask for prompts, read what came."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.config_personas import Personas
from llm_variability.logs import stage_log, stage_parser
from llm_variability.personas.requests import DESIGN, tabulate_requests
from llm_variability.personas.rewritings import (
    Missing,
    read_rounds,
    sample_prompts,
    tell_rewritings,
)
from llm_variability.stimuli.persona_file import Persona, read_personas
from llm_variability.stimuli.tasks import TaskOfSet, read_task_sets
from llm_variability.tables import DRAWS, STIMULI, read_metadata, read_table, write_table
from llm_variability.tables_personas import REWRITINGS


class _Study:
    """A study's tasks and personas, and the answers that came so far."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.settings = Personas.model_validate(json.loads(arguments.settings))
        self.tasks: dict[str, TaskOfSet] = read_task_sets(
            arguments.tasks_folder, json.loads(arguments.tasks)
        )
        self.personas: list[Persona] = read_personas(arguments.personas, self.settings)
        self._draws: list[Path] = arguments.draws

    def read_rounds(self) -> tuple[pl.DataFrame, Missing]:
        return read_rounds(
            [read_table(path, DRAWS) for path in self._draws],
            self.tasks,
            self.personas,
            self.settings.iterations,
            self.settings.leave_out,
        )

    def describe(self) -> dict[str, Any]:
        """Tell what the answers were made from and by."""
        drawn = [read_metadata(path) for path in self._draws]
        return {
            "tasks": {key: each.task.text for key, each in self.tasks.items()},
            "personas": {
                persona.name: {"label": persona.told.label, "description": persona.describe()}
                for persona in self.personas
            },
            "iterations": self.settings.iterations,
            "leave_out": self.settings.leave_out,
            **({"model": drawn[0]["model"]} if drawn else {}),
            "drawn": [facts["identity"] for facts in drawn],
        }


def request(arguments: argparse.Namespace) -> None:
    study = _Study(arguments)
    _, missing = study.read_rounds()
    metadata = {"study": arguments.study, "design": DESIGN.to_json()}
    table = tabulate_requests(study.tasks, study.personas, missing)
    write_table(table, arguments.output, STIMULI, metadata)


def read(arguments: argparse.Namespace) -> None:
    study = _Study(arguments)
    table, missing = study.read_rounds()
    tell_rewritings(table, missing)
    metadata = {
        "study": arguments.study,
        **study.describe(),
        "missing": {
            f"{task}, {persona}": iterations
            for (task, persona), iterations in missing.items()
            if iterations
        },
        "seed": arguments.seed,
    }
    write_table(sample_prompts(table, arguments.seed), arguments.output, REWRITINGS, metadata)


def main() -> None:
    parser = stage_parser(__doc__ or "")
    steps = parser.add_subparsers(required=True)
    for name, run in (("request", request), ("read", read)):
        step = steps.add_parser(name)
        step.set_defaults(run=run)
        step.add_argument("--study", required=True)
        step.add_argument("--tasks-folder", required=True, type=Path, help="folder of sets")
        step.add_argument("--tasks", required=True, help="ids by set, or null for all, JSON")
        step.add_argument("--personas", required=True, type=Path, help="file with the personas")
        step.add_argument("--settings", required=True, help="the study's personas, JSON")
        step.add_argument(
            "--draws", type=Path, nargs="*", default=[], help="of the rounds so far, in order"
        )
        step.add_argument("--output", required=True, type=Path)
    step.add_argument("--seed", required=True, type=int, help="of the study")
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        arguments.run(arguments)


if __name__ == "__main__":
    main()
