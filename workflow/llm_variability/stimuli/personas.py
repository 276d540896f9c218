"""Prompts that ask for a program as different people would.

Source: section IV of the code paper. What the people write comes from a table: a model was asked to
take each persona (`personas`). Here that becomes the study's prompts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.config import Study
from llm_variability.config_code import Frame
from llm_variability.config_personas import Personas
from llm_variability.stimuli.code import describe_sets, list_task_files, read_tasks
from llm_variability.stimuli.identity import prompt_id
from llm_variability.stimuli.persona_file import Persona, locate_personas, read_personas
from llm_variability.stimuli.prompts import prompt_row
from llm_variability.stimuli.tasks import TaskOfSet
from llm_variability.table_contract import Design
from llm_variability.tables import STIMULI

WHO_ASKS = ("task", "set", "language", "persona", "role", "gender")
"""Columns that tell who asks for what."""

DESIGN = Design(block="task", factors=(), carried=(*WHO_ASKS[1:], "iteration", "sampled"))
"""Programs of one task are compared, of one persona and of different ones."""


def settings_of(study: Study) -> Personas:
    """Give the persona settings that a study of personas has."""
    assert study.personas is not None  # config.Study makes sure of it
    return study.personas


def name_askers(tasks: dict[str, TaskOfSet], personas: list[Persona]) -> Iterator[dict[str, str]]:
    """Give the columns of WHO_ASKS for every task and persona, task by task."""
    for key, (name, task) in tasks.items():
        for persona in personas:
            told = (key, name, task.language, persona.name, persona.role, persona.gender)
            yield dict(zip(WHO_ASKS, told, strict=True))


def read_study_personas(study: Study) -> list[Persona]:
    """Read the personas of a study. Raises ConfigError as `read_personas` does."""
    how = settings_of(study)
    return read_personas(locate_personas(how), how)


def list_persona_files(folder: Path, study: Study) -> list[Path]:
    """List the files of a study: those of its sets of tasks, and the one with the personas."""
    return [*list_task_files(folder, study), locate_personas(settings_of(study))]


def _outline(folder: Path, study: Study) -> Iterator[dict[str, str]]:
    tasks, how = read_tasks(folder, study), settings_of(study)
    for asker in name_askers(tasks, read_study_personas(study)):
        for iteration in range(how.iterations):
            text = tasks[asker["task"]].task.text
            yield {**asker, "iteration": str(iteration), "sampled": "no", "text": text}


def _used(rewritings: pl.DataFrame) -> Iterator[dict[str, str]]:
    columns = [*WHO_ASKS, "iteration", "sampled", "text"]
    for row in rewritings.filter("used").select(columns).iter_rows(named=True):
        sampled = "yes" if row["sampled"] else "no"
        yield {**row, "iteration": str(row["iteration"]), "sampled": sampled}


def render_persona_prompts(
    folder: Path, study: Study, rewritings: pl.DataFrame | None
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Render every prompt of a study of personas: one each rewriting that is used.

    folder: with the sets of tasks. rewritings: a REWRITINGS table; None makes an outline for
    counting, with the words of the task in place of those of the personas.
    Two personas may have found the same words, or one of them twice; these are prompts of their
    own, with draws of their own, so that they count as much as any other. Returns the stimuli
    table and facts about what it was made from.
    Raises ConfigError, one line a problem, if a task or a persona is missing.
    """
    rows = _outline(folder, study) if rewritings is None else _used(rewritings)
    frame = study.frame or Frame()
    prompts = []
    for row in rows:
        text = row.pop("text")
        whole = frame.wrap(text)
        asked = "/".join(row[name] for name in ("task", "persona", "iteration"))
        named = {**row, **prompt_row(None, whole, study), "prompt_id": prompt_id(asked, whole)}
        prompts.append(named)
    types = {name: column.dtype for name, column in STIMULI.columns.items()}
    table = pl.DataFrame(prompts, schema={**dict.fromkeys(DESIGN.columns, pl.String), **types})
    return table, {"sets": describe_sets(read_tasks(folder, study))}
