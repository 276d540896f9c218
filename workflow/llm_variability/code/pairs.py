"""Which programs of a model are compared with which.

A draw is compared with the draws of its task's unaltered prompt, at the same setting; these draws
with each other, which bounds similarity from above; and with those of other tasks, which bounds it
from below. Programs are told by their row in the programs table; a pair is two row numbers.
"""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl

from llm_variability.config_code import ORIGINAL
from llm_variability.table_contract import SETTING, Design
from llm_variability.tables_code import COMPARISONS

COMPARISON = pl.Enum(COMPARISONS)


def choose_floor_tasks(tasks: pl.DataFrame, seed: int, n: int) -> pl.DataFrame:
    """Choose the unrelated tasks that each task is compared with.

    tasks: columns task, set and language. n: others a task, of its set and language; all of them
    where there are fewer. The others of a task are put in an order that a hash of seed, task and
    other gives, and the first n taken: a task that is added to another set changes nothing, one
    of the same set takes one place at the most. Returns columns task and reference_task.
    """
    named = tasks.select("task", "set", "language").unique(maintain_order=True)
    others = named.join(named, on=["set", "language"], suffix="_other").filter(
        pl.col("task") != pl.col("task_other")
    )
    order = [
        hashlib.blake2b(f"{seed}/floor/{task}/{other}".encode(), digest_size=16).hexdigest()
        for task, other in others.select("task", "task_other").rows()
    ]
    return (
        others.with_columns(pl.Series("order", order, dtype=pl.String))
        .sort("task", "order")
        .group_by("task", maintain_order=True)
        .head(n)
        .select("task", reference_task="task_other")
    )


def list_pairs(
    programs: pl.DataFrame, compared: pl.Series, floor: pl.DataFrame, both_ways: bool
) -> pl.DataFrame:
    """List the pairs of every setting.

    programs: a programs table. compared: (n,), whether each of its programs can be compared.
    floor: as `choose_floor_tasks` gives it. both_ways: list a pair of draws of one prompt in both
    directions, for a similarity that tells them apart; else the later draw has the earlier one as
    its reference.

    A prompt that an augmentation left as it was has the draws of the unaltered prompt. Such a draw
    is not compared with itself: pairs of one prompt and one replicate are left out.

    Returns columns comparison, draw and reference, the latter two rows of programs; sorted.
    """
    rows = (
        programs.select(*SETTING, "task", "augmentation", "prompt_id", "replicate")
        .with_row_index("draw")
        .filter(compared)
    )
    unaltered = pl.col("augmentation") == ORIGINAL
    originals = rows.filter(unaltered).drop("augmentation")
    references = originals.rename(
        {name: f"reference_{name}" for name in ("prompt_id", "replicate")} | {"draw": "reference"}
    )
    same_task = [*SETTING, "task"]
    distinct = (pl.col("prompt_id") != pl.col("reference_prompt_id")) | (
        pl.col("replicate") != pl.col("reference_replicate")
    )
    other, own = pl.col("reference_replicate"), pl.col("replicate")
    listed = {
        "augmented": rows.filter(~unaltered)
        .join(references, on=same_task, nulls_equal=True)
        .filter(distinct),
        "ceiling": originals.join(references, on=same_task, nulls_equal=True).filter(
            other != own if both_ways else other < own
        ),
        "floor": originals.join(floor, on="task").join(
            references.rename({"task": "reference_task"}),
            on=[*SETTING, "reference_task"],
            nulls_equal=True,
        ),
    }
    return pl.concat(
        pairs.select(pl.lit(name, dtype=COMPARISON).alias("comparison"), "draw", "reference").sort(
            "draw", "reference"
        )
        for name, pairs in listed.items()
    )


def tabulate_pairs(
    programs: pl.DataFrame,
    pairs: pl.DataFrame,
    similarity: np.ndarray,
    measure: str,
    design: Design,
) -> pl.DataFrame:
    """Make a pairs table of scored pairs; similarity: (m,), in the order of pairs."""
    draws = programs.select(*design.columns, *SETTING, "prompt_id", "replicate")
    references = programs.select(reference_task="task", reference_replicate="replicate")
    return pl.concat(
        [
            draws[pairs["draw"]],
            references[pairs["reference"]],
            pairs.select(pl.col("comparison").cast(pl.String)),
            pl.DataFrame({"similarity": similarity}),
        ],
        how="horizontal",
    ).with_columns(measure=pl.lit(measure))
