"""What a model is asked: to reword each task, for each degree of diversity."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from llm_variability.augmentation.paraphrase import INSTRUCTIONS, ask_for_paraphrase
from llm_variability.stimuli.identity import prompt_id
from llm_variability.stimuli.tasks import TaskOfSet
from llm_variability.table_contract import Design
from llm_variability.tables import STIMULI

DESIGN = Design(block="task", factors=(), carried=("set", "language", "degree"))


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
