"""How dialogues ended: after how many exchanges, with what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from llm_variability.dialogues.replies import ASKING, FAILED, count_questions, sort_reply
from llm_variability.dialogues.turns import name_dialogues

_READ = ("opening", "dialogue", "turn", "text", "finish_reason", "status")


def end_dialogues(
    turns: Sequence[pl.DataFrame], columns: Sequence[str], exchanges: int
) -> pl.DataFrame:
    """Say how each dialogue of a model and setting ended.

    turns: the draws tables of all turns, in any order. columns: of the study's design. exchanges:
    questions that are answered at most. Returns a dialogues table less the setting's columns, with
    `status` and `finish_reason` of the last reply, in the order of the draws of turn 0.

    A dialogue in which the last reply is a question and another could have been answered is one
    that the persona gave no answer in: it failed.
    Raises ValueError for a turn without the one before it, and ConfigError as `sort_reply` does.
    """
    drawn = pl.concat(name_dialogues(each).select(*columns, *_READ) for each in turns)
    ended = {
        key: _end(key, rows.sort(pl.col("turn").cast(pl.Int32)), exchanges)
        for key, rows in drawn.group_by("opening", "dialogue", maintain_order=True)
    }
    order = drawn.filter(turn="0").select("opening", "dialogue").rows()
    schema = {
        **dict.fromkeys((*columns, "prompt_id"), pl.String),
        "replicate": pl.Int32,
        "exchanges": pl.Int32,
        "questions": pl.Int32,
        **dict.fromkeys(("ended", "text", "status", "finish_reason"), pl.String),
    }
    return pl.DataFrame([ended[key] for key in order], schema=schema)


def _end(key: tuple[Any, ...], rows: pl.DataFrame, exchanges: int) -> dict[str, Any]:
    opening, dialogue = key
    if rows["turn"].to_list() != [str(turn) for turn in range(len(rows))]:
        raise ValueError(
            f"draws: dialogue {dialogue} of prompt {opening} has turns"
            f" {', '.join(rows['turn'])}; allowed: all from 0, each once"
        )
    replies = list(rows.iter_rows(named=True))
    questions, kind = 0, FAILED
    for reply in replies:
        cut_off = reply["finish_reason"] == "length"
        kind = sort_reply(reply["text"], reply["language"], cut_off)
        questions += count_questions(reply["text"]) if kind == ASKING else 0
    answered = len(replies) - 1
    return {
        **replies[-1],
        "prompt_id": opening,
        "replicate": int(dialogue),
        "exchanges": answered,
        "questions": questions,
        "ended": FAILED if kind == ASKING and answered < exchanges else kind,
    }
