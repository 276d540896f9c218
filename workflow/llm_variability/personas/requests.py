"""What a model is asked: to take a persona and to write a task down in that persona's words.

Source: section IV-A of the code paper. The instruction is worded for this project.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import polars as pl

from llm_variability.stimuli.identity import prompt_id
from llm_variability.stimuli.persona_file import Persona
from llm_variability.stimuli.personas import WHO_ASKS, name_askers
from llm_variability.stimuli.tasks import TaskOfSet
from llm_variability.table_contract import Design
from llm_variability.tables import STIMULI

DESIGN = Design(block="task", factors=(), carried=WHO_ASKS[1:])

_REQUEST = (
    "{description}\n\n"
    "You want somebody to write a program for you. In short: {task}\n\n"
    "Put this request into your own words, as you would type it to an assistant that writes code,"
    " with the details that matter to you and nothing that somebody like you would not know. Write"
    " the request alone: no code, no answer, nothing about yourself."
)


def ask_for_rewriting(persona: Persona, task: str) -> str:
    """Write the request that the model gets."""
    return _REQUEST.format(description=persona.describe(), task=task)


def round_seed(seed: int, number: int) -> int:
    """Give the seed of a round: the study's own in the first, another one in each that follows.

    Draws are named by prompt, number and seed, and each round asks the same prompts again.
    """
    if number == 0:
        return seed
    digest = hashlib.blake2b(f"{seed}/personas/round/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 2**63


def tabulate_requests(
    tasks: Mapping[str, TaskOfSet],
    personas: Sequence[Persona],
    missing: Mapping[tuple[str, str], Sequence[int]],
) -> pl.DataFrame:
    """Make the stimuli table of the requests of a round.

    missing: the iterations that each (task, persona's name) still lacks; where none is, there is no
    row. A row asks for as many draws as are lacking.
    """
    by_name = {persona.name: persona for persona in personas}
    rows = []
    for asker in name_askers(dict(tasks), list(personas)):
        lacking = len(missing[asker["task"], asker["persona"]])
        if lacking:
            prompt = ask_for_rewriting(by_name[asker["persona"]], tasks[asker["task"]].task.text)
            row = {
                "prompt_id": prompt_id(f"{asker['task']}/{asker['persona']}", prompt),
                "prompt": prompt,
                "replicates": lacking,
                "greedy_replicates": lacking,
            }
            rows.append({**asker, **row})
    types = {name: column.dtype for name, column in STIMULI.columns.items()}
    return pl.DataFrame(rows, schema={**dict.fromkeys(DESIGN.columns, pl.String), **types})
