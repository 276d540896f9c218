"""Pairs of programs of a task's prompts, whoever asked.

Every two programs of a task at a setting make a pair, those of one prompt among them: how alike
they are says how alike they would be had the same person asked again. Programs are told by their
row in the programs table.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from llm_variability.config import cell_name
from llm_variability.table_contract import SETTING

_SHARED = (*SETTING, "task", "language")
"""What two programs must share to be compared."""


def list_prompt_pairs(
    programs: pl.DataFrame, compared: pl.Series, both_ways: bool = False
) -> pl.DataFrame:
    """List every unordered pair of programs of one task, language and setting.

    programs: a programs table. compared: (n,), whether each of its programs can be compared.
    both_ways: list each pair in both directions, for a similarity that tells them apart.

    Returns columns reference and draw, both rows of programs: the earlier one is the reference, and
    pairs are in order; with both_ways the same pairs follow the other way round.
    """
    kept = programs.select(_SHARED).with_row_index("row").filter(compared)
    groups = kept.group_by(_SHARED, maintain_order=True).agg("row")["row"]
    pairs = [np.zeros((0, 2), dtype=np.uint32)]
    for group in groups:
        rows = group.to_numpy()
        pairs.append(rows[np.stack(np.triu_indices(len(rows), 1), axis=1)])
    listed = np.concatenate(pairs)
    if both_ways:
        listed = np.concatenate([listed, listed[:, ::-1]])
    return pl.DataFrame({"reference": listed[:, 0], "draw": listed[:, 1]})


def tabulate_prompt_pairs(
    programs: pl.DataFrame, pairs: pl.DataFrame, similarity: np.ndarray, measure: str
) -> pl.DataFrame:
    """Make a program_pairs table of scored pairs.

    pairs: as `list_prompt_pairs` gives them. similarity: (m,), in their order. A pair that is
    listed both ways gets the mean of the two and one row.
    """
    earlier, later = pl.min_horizontal("reference", "draw"), pl.max_horizontal("reference", "draw")
    scored = (
        pairs.with_columns(pl.Series("similarity", similarity, dtype=pl.Float64))
        .group_by(earlier.alias("first"), later.alias("second"), maintain_order=True)
        .agg(pl.col("similarity").mean())
    )
    first = programs.select(*SETTING, "task", first_prompt="prompt_id", first_replicate="replicate")
    second = programs.select(second_prompt="prompt_id", second_replicate="replicate")
    return pl.concat(
        [first[scored["first"]], second[scored["second"]], scored.select("similarity")],
        how="horizontal",
    ).with_columns(measure=pl.lit(measure))


def count_left_out(programs: pl.DataFrame, compared: pl.Series) -> dict[str, int]:
    """Count, by setting, the programs that parse and are not compared all the same."""
    left_out = (programs["status"] == "ok") & ~compared
    counted = (
        programs.select(*SETTING, left_out.alias("left_out"))
        .group_by(*SETTING, maintain_order=True)
        .agg(pl.col("left_out").sum())
    )
    return {cell_name(temperature, top_p): n for temperature, top_p, n in counted.rows()}
