"""What a model is asked: to reword each task, for each degree of diversity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from llm_variability.augmentation.paraphrase import INSTRUCTIONS, ask_for_paraphrase
from llm_variability.config import ConfigError
from llm_variability.stimuli.identity import prompt_id
from llm_variability.stimuli.tasks import Task, read_task_set
from llm_variability.table_contract import Design
from llm_variability.tables import STIMULI

DESIGN = Design(block="task", factors=(), carried=("set", "language", "degree"))


class TaskOfSet(NamedTuple):
    """A task and the set it is of."""

    set: str
    task: Task


def read_tasks(folder: Path, wanted: Mapping[str, Sequence[str] | None]) -> dict[str, TaskOfSet]:
    """Read the tasks to be reworded, by `set/id`, in the order asked for.

    wanted: the ids taken of each set; None takes all.
    Raises ConfigError, one line a problem, if there is no such set or task, a file is wrong, or two
    sets share a text, which could not be told apart by the prompt.
    """
    tasks: dict[str, TaskOfSet] = {}
    first: dict[str, str] = {}
    for name, ids in wanted.items():
        for task in read_task_set(folder, name, ids):
            key = f"{name}/{task.id}"
            if (other := first.setdefault(task.text, key)) != key:
                raise ConfigError(
                    f"tasks: {other} and {key} have the same text. Allowed: one of them"
                )
            tasks[key] = TaskOfSet(name, task)
    return tasks


def tabulate_requests(tasks: Mapping[str, TaskOfSet], variants: int) -> pl.DataFrame:
    """Make the stimuli table of the requests, a row a task and degree.

    variants: paraphrases asked for by each, at temperature 0 too. The text is asked about as it
    is, without the words that the study puts around it.
    """
    types = {name: column.dtype for name, column in STIMULI.columns.items()}
    rows = [
        {
            "task": key,
            "set": name,
            "language": task.language,
            "degree": degree,
            "prompt_id": prompt_id(None, prompt),
            "prompt": prompt,
            "replicates": variants,
            "greedy_replicates": variants,
        }
        for key, (name, task) in tasks.items()
        for degree in INSTRUCTIONS
        for prompt in [ask_for_paraphrase(task.text, degree)]
    ]
    return pl.DataFrame(rows, schema={**dict.fromkeys(DESIGN.columns, pl.String), **types})
