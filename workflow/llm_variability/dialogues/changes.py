"""What a dialogue changes: programs after it against those without it, of the same prompt.

Under the hypothesis that the dialogue changes nothing, a program after a dialogue is to one without
as two without are to each other, so their mean similarities are the same. Prompts are the units,
tasks are fixed and have equal weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from llm_variability.curves.resampling import jackknife
from llm_variability.table_contract import SETTING
from llm_variability.tables_personas import DIALOGUE_CHANGES

Score = Callable[[pl.DataFrame, pl.DataFrame], np.ndarray]
"""Gives the similarity of pairs (reference, draw) of programs, both rows of the first table."""

NO_PAIR = "no prompt has two programs without a dialogue and one after it"
ONE_PROMPT = "no interval: it needs two prompts of each task"
NO_SPREAD = "no interval: no prompt makes a difference"

_OF_PROMPT = ("prompt_id", "task", "persona")


def join_arms(direct: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """Put the programs of both arms into one table, told apart by `after`.

    direct: a programs table of the study's draws. after: one of the dialogues' last replies, its
    prompts named as the study does. Raises ValueError for a dialogue about another prompt.
    """
    if after.join(direct, on=[*SETTING, "prompt_id"], how="anti", nulls_equal=True).height:
        raise ValueError(
            "programs: a dialogue began with a prompt that has no draw without one; programs and"
            " dialogues are not of one run"
        )
    return pl.concat(
        [
            direct.with_columns(after=pl.lit(False)),
            after.select(direct.columns).with_columns(after=pl.lit(True)),
        ]
    )


def list_dialogue_pairs(
    programs: pl.DataFrame, compared: pl.Series, both_ways: bool = False
) -> pl.DataFrame:
    """List the pairs of programs of one prompt and setting: two without a dialogue, or one of each.

    programs: as `join_arms` gives them. compared: (n,), whether each can be compared. both_ways:
    list each pair in both directions, for a similarity that tells them apart.
    Returns columns reference and draw, rows of programs, and `after`: the draw, or with both_ways
    either of the two, is of a dialogue.
    """
    rows = programs.select(*SETTING, "prompt_id", "after").with_row_index("draw").filter(compared)
    direct = rows.filter(~pl.col("after")).select(*SETTING, "prompt_id", reference="draw")
    columns = ("reference", "draw", "after")
    pairs = (
        direct.join(rows, on=[*SETTING, "prompt_id"], nulls_equal=True)
        .filter(pl.col("after") | (pl.col("reference") < pl.col("draw")))
        .select(columns)
        .sort("reference", "draw")
    )
    if not both_ways:
        return pairs
    turned = pairs.select("after", reference="draw", draw="reference")
    return pl.concat([pairs, turned.select(columns)])


def average_prompts(
    programs: pl.DataFrame, pairs: pl.DataFrame, similarity: np.ndarray
) -> pl.DataFrame:
    """Average the pairs of each prompt.

    similarity: (m,), of pairs as `list_dialogue_pairs` gives them. Returns setting, prompt_id,
    task, persona, `same_prompt` (two programs without a dialogue) and `with_dialogue` (one of
    each), a row for each prompt that has both, in the order of the programs.
    """
    of_pairs = programs.select(*SETTING, *_OF_PROMPT)[pairs["reference"]]
    scored = of_pairs.with_columns(pairs["after"], pl.Series("similarity", similarity))
    value = pl.col("similarity")
    return (
        scored.group_by(*SETTING, *_OF_PROMPT, maintain_order=True)
        .agg(
            same_prompt=value.filter(~pl.col("after")).mean(),
            with_dialogue=value.filter(pl.col("after")).mean(),
        )
        .drop_nulls(["same_prompt", "with_dialogue"])
    )


def estimate_change(prompts: pl.DataFrame) -> dict[str, Any]:
    """Estimate how much less alike programs of a prompt are where one came after a dialogue.

    prompts: as `average_prompts` gives them, of one setting. Both means are those over tasks of
    the mean over prompts. The interval is that of the jackknife over prompts, with the tasks as
    strata and Satterthwaite's degrees of freedom, a task's prompts less one each; where it cannot
    be had, `reason` says why.
    Source: Wolter 2007, Introduction to Variance Estimation, section 4.5.
    """
    if prompts.is_empty():
        return {"n_prompts": 0, "reason": NO_PAIR}
    of_task = prompts.group_by("task", maintain_order=True).agg(
        pl.col("same_prompt", "with_dialogue").mean(), n=pl.len()
    )
    same, after = of_task["same_prompt"].to_numpy(), of_task["with_dialogue"].to_numpy()
    change = float(np.mean(same - after))
    found = {
        "same_prompt": float(same.mean()),
        "with_dialogue": float(after.mean()),
        "change": change,
        "n_prompts": len(prompts),
    }
    counts = dict(of_task.select("task", "n").iter_rows())
    if min(counts.values()) < 2:
        return {**found, "reason": ONE_PROMPT}
    means = dict(zip(of_task["task"], same - after, strict=True))
    tasks = prompts["task"].to_numpy().astype(str)
    own = (prompts["same_prompt"] - prompts["with_dialogue"]).to_numpy()
    n = np.array([counts[task] for task in tasks])
    moved = (np.array([means[task] for task in tasks]) - own) / (n - 1) / len(means)
    test = jackknife(change, change + moved, tasks)
    if test is None:
        return {**found, "reason": NO_SPREAD}
    return {
        **found,
        "std_error": test.std_error,
        "df": test.df,
        "ci_low": change - test.margin,
        "ci_high": change + test.margin,
    }


def count_dialogues(ended: pl.DataFrame, programs: pl.DataFrame) -> dict[str, Any]:
    """Count dialogues; ended: rows of a dialogues table. programs: of their last replies."""
    return {
        "dialogues": len(ended),
        "asked": int((ended["exchanges"] > 0).sum()),
        "exchanges": ended["exchanges"].mean(),
        "programs": int((programs["status"] == "ok").sum()),
    }


def tabulate_changes(
    ended: pl.DataFrame,
    programs: pl.DataFrame,
    compared: pl.Series,
    measures: Mapping[str, tuple[Score, bool]],
    *,
    study: str,
    model: str,
) -> pl.DataFrame:
    """Make a model's rows of a dialogue_changes table: by setting and measure all, then by persona.

    ended: a dialogues table. programs: as `join_arms` gives them. compared: (n,), whether each can
    be compared. measures: by name how pairs are scored, and whether that is the same both ways.
    """
    settings = ended.select(*SETTING).unique(maintain_order=True)
    personas = [None, *ended["persona"].unique(maintain_order=True)]
    averages = {}
    for measure, (score, symmetric) in measures.items():
        pairs = list_dialogue_pairs(programs, compared, both_ways=not symmetric)
        averages[measure] = average_prompts(programs, pairs, score(programs, pairs))
    rows = [
        {
            "study": study,
            "model": model,
            "temperature": temperature,
            "top_p": top_p,
            "measure": measure,
            "persona": persona,
            **count_dialogues(*tables[:2]),
            **estimate_change(tables[2]),
        }
        for temperature, top_p in settings.rows()
        for measure, averaged in averages.items()
        for persona, tables in _take(
            personas, temperature, top_p, ended, programs.filter("after"), averaged
        )
    ]
    schema = {name: column.dtype for name, column in DIALOGUE_CHANGES.columns.items()}
    return pl.DataFrame(rows, schema=schema)


def _take(
    personas: list[str | None], temperature: str, top_p: str | None, *tables: pl.DataFrame
) -> Iterator[tuple[str | None, list[pl.DataFrame]]]:
    """Take each persona's rows of a setting out of tables; None takes those of all."""
    of_setting = [
        table.filter(
            pl.col("temperature") == temperature,
            pl.col("top_p").eq_missing(pl.lit(top_p, pl.String)),
        )
        for table in tables
    ]
    for persona in personas:
        if persona is None:
            yield None, of_setting
        else:
            yield persona, [table.filter(persona=persona) for table in of_setting]
