"""Pairs of programs, reduced to pairs of prompts: all that a comparison of personas needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from llm_variability.fits.random_intercept import Floats
from llm_variability.table_contract import SETTING

Names = NDArray[np.str_]

PROMPT_COLUMNS = ("task", "persona", "role", "gender", "iteration", "sampled")
"""What a stimuli table says of a prompt of a study of personas."""


@dataclass(frozen=True)
class TaskPrompts:
    """The prompts of one task that have a program, at one setting on one measure.

    similarity: (n, n) mean over the pairs of programs of two prompts; on the diagonal over the
        pairs of one prompt's own draws, NaN where it has one program only.
    n_pairs: (n, n) these pairs. n_programs: (n,). columns: (n,) of each of `PROMPT_COLUMNS`.
    """

    similarity: Floats
    n_pairs: NDArray[np.int64]
    n_programs: NDArray[np.int64]
    columns: Mapping[str, Names]

    def choose(self, chosen: NDArray[np.bool_]) -> TaskPrompts:
        """Keep the chosen prompts."""
        return TaskPrompts(
            self.similarity[np.ix_(chosen, chosen)],
            self.n_pairs[np.ix_(chosen, chosen)],
            self.n_programs[chosen],
            {name: column[chosen] for name, column in self.columns.items()},
        )


Reduced = dict[tuple[str, str | None, str], dict[str, TaskPrompts]]
"""By temperature, top-p and measure: each task's prompts."""


def list_prompts(stimuli: pl.DataFrame) -> pl.DataFrame:
    """List a study's prompts, a row each: `prompt_id` and `PROMPT_COLUMNS`.

    Raises ValueError for stimuli that are not of a study of personas, and a prompt there twice.
    """
    lacking = [name for name in PROMPT_COLUMNS if name not in stimuli.columns]
    if lacking:
        raise ValueError(f"stimuli: have no {', '.join(lacking)}; not of a study of personas")
    prompts = stimuli.select("prompt_id", *PROMPT_COLUMNS)
    twice = prompts.filter(pl.col("prompt_id").is_duplicated())
    if twice.height:
        raise ValueError(f"stimuli: prompt {twice['prompt_id'][0]} is there twice; allowed: once")
    return prompts


def reduce_pairs(pairs: pl.DataFrame, prompts: pl.DataFrame) -> Reduced:
    """Reduce a model's pairs of programs to mean similarities of prompts.

    pairs: a PROGRAM_PAIRS table, each pair of programs once. prompts: of `list_prompts`; their
    order is that of the arrays.
    Raises ValueError for a pair of an unknown prompt or of two tasks, and where two prompts that
    have programs are not compared.
    """
    _require_known(pairs, prompts)
    key = [*SETTING, "measure", "task"]
    ends = pl.concat(
        [
            pairs.select(
                *key, prompt_id=f"{end}_prompt", replicate=pl.col(f"{end}_replicate")
            ).unique()
            for end in ("first", "second")
        ]
    ).unique()
    programs = ends.group_by(*key, "prompt_id").agg(n=pl.len())
    sums = pairs.group_by(*key, "first_prompt", "second_prompt").agg(
        total=pl.col("similarity").sum(), n=pl.len()
    )
    of_task = {
        str(task): part for (task,), part in prompts.partition_by("task", as_dict=True).items()
    }
    cells = sums.partition_by(key, as_dict=True)
    reduced: Reduced = {}
    for (temperature, top_p, measure, task), counted in programs.partition_by(
        key, as_dict=True
    ).items():
        present = of_task[str(task)].join(
            counted.select("prompt_id", "n"), on="prompt_id", maintain_order="left"
        )
        setting = (str(temperature), None if top_p is None else str(top_p), str(measure))
        cell = cells[(temperature, top_p, measure, task)]
        reduced.setdefault(setting, {})[str(task)] = _fill(present, cell)
    order = prompts["task"].unique(maintain_order=True)
    return {
        setting: {task: found[task] for task in order if task in found}
        for setting, found in reduced.items()
    }


def _fill(present: pl.DataFrame, sums: pl.DataFrame) -> TaskPrompts:
    ids = present["prompt_id"].to_list()
    number = {prompt: i for i, prompt in enumerate(ids)}
    total = np.zeros((len(ids), len(ids)))
    n_pairs = np.zeros((len(ids), len(ids)), dtype=np.int64)
    for first, second, similarity, n in sums.select(
        "first_prompt", "second_prompt", "total", "n"
    ).iter_rows():
        i, j = number[first], number[second]
        total[i, j] += similarity
        n_pairs[i, j] += n
    own = np.diag(np.diag(n_pairs))
    n_pairs = n_pairs + n_pairs.T - own
    total = total + total.T - np.diag(np.diag(total))
    apart = np.argwhere((n_pairs == 0) & ~np.eye(len(ids), dtype=bool))
    if len(apart):
        i, j = apart[0]
        raise ValueError(
            f"pairs: have programs of prompts {ids[i]} and {ids[j]}, but no pair of both"
        )
    with np.errstate(invalid="ignore"):
        similarity = total / n_pairs
    columns = {name: present[name].to_numpy().astype(str) for name in PROMPT_COLUMNS}
    return TaskPrompts(similarity, n_pairs, present["n"].to_numpy(), columns)


def _require_known(pairs: pl.DataFrame, prompts: pl.DataFrame) -> None:
    known = prompts.select("prompt_id", "task")
    for end in ("first", "second"):
        stray = pairs.join(
            known, left_on=[f"{end}_prompt", "task"], right_on=["prompt_id", "task"], how="anti"
        )
        if stray.height:
            raise ValueError(
                f"pairs: prompt {stray[f'{end}_prompt'][0]} of {stray['task'][0]} is none of the"
                " study's; pairs and stimuli are not of one run"
            )
