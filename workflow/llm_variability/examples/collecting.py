"""The chosen draws with all that is told of them, taken from the draws tables one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

from llm_variability.examples.choosing import CELL, DRAW, name_groups
from llm_variability.table_contract import STATUSES, Design
from llm_variability.tables import DRAWS, read_metadata, read_table
from llm_variability.tables_code import PROGRAM_STATUSES

TEXT_CHARACTERS = 4000
"""A longer prompt or answer is cut in the table of examples; the draws table has it whole."""

FAILURES_KEPT = 3
"""Prompts of which a model's examples have the first draw of a status that is not ok."""

FIRST = "first"
"""The role of the first draw of a setting and group in which nothing can be compared."""


class _Failures:
    """Takes the first draws of each failing status, one a prompt."""

    def __init__(self) -> None:
        self._wanted = {
            **{f"first {status}": (pl.col("status") == status) for status in STATUSES[1:]},
            **{
                f"first program {status}": (pl.col("status") == "ok")
                & (pl.col("program") == status)
                for status in PROGRAM_STATUSES[1:]
            },
        }
        self._taken: dict[str, set[str]] = {role: set() for role in self._wanted}

    def take(self, draws: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Take what is still wanted of these draws, in their order."""
        for role, is_it in self._wanted.items():
            taken = self._taken[role]
            found = (
                draws.filter(is_it, ~pl.col("prompt_id").is_in(list(taken)))
                .unique("prompt_id", keep="first", maintain_order=True)
                .head(FAILURES_KEPT - len(taken))
            )
            taken.update(found["prompt_id"])
            yield found.with_columns(pl.lit(role).alias("role"))


def _locate(path: Path, study: str, model: str) -> str:
    """Name a draws table within the results folder."""
    within = path.parts[-2:] if path.parent.name != model else path.parts[-1:]
    return "/".join(("draws", study, model, *within))


def _read_draws(
    path: Path, design: Design, prompts: pl.DataFrame, programs: pl.DataFrame | None
) -> pl.DataFrame:
    """Read a draws table in the order of its prompts and draws, with what its replies hold."""
    cell = read_metadata(path)
    # The study's own columns may have any name, so only what is needed of them is kept.
    draws = name_groups(read_table(path, DRAWS), design).select(
        "group",
        "block",
        *DRAWS.columns,
        pl.lit(cell["temperature"], pl.String).alias("temperature"),
        pl.lit(cell["top_p"], pl.String).alias("top_p"),
        pl.lit(_locate(path, cell["study"], cell["model"])).alias("file"),
    )
    placed = draws.join(prompts.drop("block"), on=["group", "prompt_id"], how="left").sort(
        "order", "replicate", nulls_last=True
    )
    if unknown := placed["order"].null_count():
        raise ValueError(f"{path}: {unknown} draws are of prompts that are none of the stimuli")
    if programs is None:
        return placed.with_columns(pl.lit(None, pl.String).alias("program"))
    return placed.join(
        programs, on=DRAW, how="left", nulls_equal=True, maintain_order="left", validate="m:1"
    )


def collect_examples(
    paths: Iterable[Path],
    chosen: pl.DataFrame,
    prompts: pl.DataFrame,
    programs: pl.DataFrame | None,
    design: Design,
) -> pl.DataFrame:
    """Gather the chosen draws, those of settings and groups without one, and failing ones.

    paths: a model's draws tables, in the order of settings. chosen: of
    `choosing.choose_by_similarity`. programs: `choosing.DRAW` and `program` (what the reply holds);
    None where no programs are asked for. Returns rows of an EXAMPLES table without study, model and
    measure.
    Raises ValueError for a chosen draw that is in no table.
    """
    failures, parts, found = _Failures(), [], 0
    compared = chosen.select(CELL).unique()
    for path in paths:
        draws = _read_draws(path, design, prompts, programs)
        ends = draws.join(chosen, on=DRAW, nulls_equal=True, maintain_order="left")
        found += ends.height
        alone = draws.join(compared, on=CELL, how="anti", nulls_equal=True, maintain_order="left")
        alone = alone.unique(CELL, keep="first", maintain_order=True)
        of_groups = pl.concat(
            [ends, alone.with_columns(pl.lit(FIRST).alias("role"))], how="diagonal"
        )
        of_groups = of_groups.sort("group_order", "role", descending=[False, True])
        parts += [of_groups, *failures.take(draws)]
    if found != chosen.height:
        raise ValueError(f"{chosen.height - found} of the chosen draws are in no draws table")
    return _describe(pl.concat(parts, how="diagonal"))


def _describe(draws: pl.DataFrame) -> pl.DataFrame:
    """Cut long texts and say how long they are."""
    shown = pl.coalesce("text", "raw").fill_null("")
    return draws.with_columns(
        shown.str.slice(0, TEXT_CHARACTERS).alias("text"),
        shown.str.len_chars().alias("characters"),
        shown.str.count_matches(r"\S+").alias("words"),
        pl.col("prompt").str.slice(0, TEXT_CHARACTERS),
        pl.col("prompt").str.len_chars().alias("prompt_characters"),
        pl.col("mates").fill_null(0),
    )
