"""The turns of a dialogue: what the model is asked, what it asks back, what the persona answers.

A dialogue is named by the prompt that opened it, without the invitation (column `opening`), and by
its number among the draws of that prompt (`dialogue`). Both are text, as is the number of the turn
(`turn`). Each conversation is a prompt of its own from turn 1 on, drawn once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from llm_variability.dialogues.replies import ASKING, holds_code, sort_reply
from llm_variability.draws.templates import read_history
from llm_variability.personas.flags import read_message
from llm_variability.stimuli.identity import prompt_id
from llm_variability.table_contract import Design
from llm_variability.tables import STIMULI

INVITATION = (
    "If you need to know more before you write the program, you may first ask me, all of it in one"
    " message and without code. Otherwise write the code at once."
)
"""What stands behind the prompt of turn 0."""

LAST_CALL = "Please write the code now."
"""What stands behind the persona's answer in the last turn."""

_REQUEST = (
    "{description}\n\n"
    "You want somebody to write a program for you. In short: {task}\n\n"
    "You wrote this to an assistant that writes code:\n{said}\n\n"
    "The assistant asks you:\n{question}\n\n"
    "Answer in your own words, as you would type it, with the details that matter to you and"
    " nothing that somebody like you would not know. What you have no wish about, leave to the"
    " assistant. Write the answer alone: no code, nothing about yourself."
)

_OPENED = ("opening", "turn")
_NAMED = (*_OPENED, "dialogue")

FLAGS = ("empty", "code")
"""What ends a dialogue instead of a persona's answer: nothing came; it holds code."""


def design_of_turn(design: Design, turn: int) -> Design:
    """Give the design of a turn's prompts.

    design: the study's. In turn 0 the number of a dialogue is that of the draw; later it is carried
    as a column.
    """
    return replace(design, carried=(*design.carried, *(_NAMED if turn else _OPENED)))


def _schema(design: Design, turn: int) -> dict[str, Any]:
    columns = design_of_turn(design, turn).columns
    types = {name: each.dtype for name, each in {**STIMULI.columns, **STIMULI.optional}.items()}
    return {**dict.fromkeys(columns, pl.String), **types}


def invite_questions(stimuli: pl.DataFrame) -> pl.DataFrame:
    """Put the invitation behind each prompt of the study: the stimuli table of turn 0."""
    rows = stimuli.with_columns(
        pl.format("{}\n\n{}", "prompt", pl.lit(INVITATION)).alias("prompt"),
        pl.col("prompt_id").alias("opening"),
        pl.lit("0").alias("turn"),
    )
    named = [
        prompt_id(f"{opening}/dialogue", prompt)
        for opening, prompt in rows.select("opening", "prompt").iter_rows()
    ]
    return rows.with_columns(pl.Series("prompt_id", named, dtype=pl.String))


def name_dialogues(draws: pl.DataFrame) -> pl.DataFrame:
    """Give draws of a turn the number of their dialogue; from turn 1 on they have it already."""
    if "dialogue" in draws.columns:
        return draws
    return draws.with_columns(dialogue=pl.col("replicate").cast(pl.String))


def read_turn(prompts: pl.DataFrame, draws: pl.DataFrame) -> list[dict[str, Any]]:
    """Read a turn: a mapping a dialogue, in the order of the draws.

    prompts: its stimuli table. draws: of one cell. Each has the columns of the draws, `prompt`,
    `history` (JSON or None), `dialogue`, `cut_off` and `kind` (`replies.sort_reply`).
    Raises ValueError for a draw of a prompt that is not there, and ConfigError as `sort_reply`
    does.
    """
    if "history" not in prompts.columns:
        prompts = prompts.with_columns(history=pl.lit(None, dtype=pl.String))
    said = prompts.select("prompt_id", "prompt", "history")
    if draws.join(said, on="prompt_id", how="anti").height:
        raise ValueError("draws: have a prompt that the turn has not; they are not of one run")
    joined = name_dialogues(draws).join(said, on="prompt_id", maintain_order="left")
    rows = joined.with_columns(
        cut_off=(pl.col("finish_reason") == "length").fill_null(False)
    ).iter_rows(named=True)
    return [
        {**row, "kind": sort_reply(row["text"], row["language"], row["cut_off"])} for row in rows
    ]


def _recall(opening: str, history: str | None, prompt: str) -> str:
    """Tell the persona what was said before the question.

    opening: their own message, without the invitation. history, prompt: of the turn.
    """
    turns = read_history(history)
    asked = [turn["content"] for turn in turns[1::2]]
    answered = [*(turn["content"] for turn in turns[2::2]), prompt][: len(asked)]
    exchanges = (
        f"The assistant asked you:\n{question}\n\nYou answered:\n{answer}"
        for question, answer in zip(asked, answered, strict=True)
    )
    return "\n\n".join([opening, *exchanges])


def ask_personas(
    turn: Sequence[Mapping[str, Any]],
    openings: Mapping[str, str],
    tasks: Mapping[str, str],
    personas: Mapping[str, str],
    design: Design,
    exchange: int,
) -> pl.DataFrame:
    """Write what the personas are asked after a turn: a stimuli table, a row a question.

    turn: as `read_turn` gives it. openings: the personas' messages, by prompt of the study. tasks,
    personas: their texts and descriptions, by name. design: the study's. exchange: from 1.
    Raises ValueError for a prompt, task or persona that is not there.
    """
    rows = []
    for row in turn:
        if row["kind"] != ASKING:
            continue
        opening = row["opening"]
        for name, there in ((opening, openings), (row["task"], tasks), (row["persona"], personas)):
            if name not in there:
                raise ValueError(f"draws: {name} is none of the study's; they are not of one run")
        prompt = _REQUEST.format(
            description=personas[row["persona"]],
            task=tasks[row["task"]],
            said=_recall(openings[opening], row["history"], row["prompt"]),
            question=row["text"],
        )
        named = f"{opening}/{row['dialogue']}/question/{exchange}"
        rows.append(_write_row(row, prompt_id(named, prompt), prompt, exchange))
    return pl.DataFrame(rows, schema=_schema(design, exchange)).drop("history")


def _write_row(row: Mapping[str, Any], name: str, prompt: str, turn: int) -> dict[str, Any]:
    """Write the row of a prompt of a dialogue; row: of the turn before, with the design's columns.

    Columns that no stimuli table has are left out by its schema.
    """
    written = {
        "prompt_id": name,
        "prompt": prompt,
        "system": None,
        "replicates": 1,
        "greedy_replicates": 1,
        "turn": str(turn),
        "history": None,
    }
    return {**row, **written}


def read_answer(text: str | None, language: str, cut_off: bool) -> tuple[str, str | None]:
    """Read what a persona answered: the answer, and one of `FLAGS` if it cannot be used.

    An answer with code would be the work of the model that takes the persona.
    """
    answer = read_message(text or "")
    if not answer:
        return "", "empty"
    return answer, "code" if holds_code(answer, language, cut_off) else None


class Continued(NamedTuple):
    """What became of the questions of an exchange.

    prompts: the stimuli table of the next turn. questions, used: how many were asked, how many
    answered. flagged: how many answers were not used, by flag.
    """

    prompts: pl.DataFrame
    questions: int
    used: int
    flagged: dict[str, int]


def continue_dialogues(
    turn: Sequence[Mapping[str, Any]],
    answers: pl.DataFrame,
    design: Design,
    exchange: int,
    last: bool,
) -> Continued:
    """Make the next turn's prompts: the persona's answers, with all that was said before them.

    turn: as `read_turn` gives it. answers: the draws of what `ask_personas` asked. exchange: from
    1. last: no question is answered any more, so that the model is told to write the code. A
    dialogue whose answer cannot be used goes no further.
    Raises ValueError if an answer is of another dialogue, or one is missing.
    """
    asking = {(row["opening"], row["dialogue"]): row for row in turn if row["kind"] == ASKING}
    said = {(row["opening"], row["dialogue"]): row for row in answers.iter_rows(named=True)}
    if said.keys() != asking.keys():
        raise ValueError(
            f"answers: {len(said)} answers to {len(asking)} questions; they are not of one run"
        )
    flags: Counter[str] = Counter()
    rows = []
    for dialogue, row in asking.items():
        drawn = said[dialogue]
        answer, flag = read_answer(
            drawn["text"], row["language"], drawn["finish_reason"] == "length"
        )
        if flag:
            flags[flag] += 1
            continue
        history = json.dumps(
            [
                *read_history(row["history"]),
                {"role": "user", "content": row["prompt"]},
                {"role": "assistant", "content": row["text"]},
            ],
            ensure_ascii=False,
        )
        prompt = f"{answer}\n\n{LAST_CALL}" if last else answer
        name = prompt_id("/".join((*dialogue, history)), prompt)
        rows.append({**_write_row(row, name, prompt, exchange), "history": history})
    return Continued(
        pl.DataFrame(rows, schema=_schema(design, exchange)),
        len(asking),
        len(rows),
        {flag: flags[flag] for flag in FLAGS},
    )
