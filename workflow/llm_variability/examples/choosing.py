"""Which draws are shown, by how alike they are to those they are compared with."""

from __future__ import annotations

import polars as pl

from llm_variability.table_contract import SETTING, Design

CELL = [*SETTING, "group"]
"""Columns that tell a setting and group."""

DRAW = [*CELL, "prompt_id", "replicate"]
"""Columns that tell a draw; augmentations may share a prompt, so the group is among them."""

CONDITIONS = ("augmentation", "persona")
"""Columns that tell the groups of studies without factors."""

EQUAL_DECIMALS = 9
"""Similarities are equal if they are so at this many decimals: sums differ in their last bits."""


def name_groups(frame: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Add `group` (the levels, as in `Asian, woman`; the augmentation; the persona) and `block`.

    Raises ValueError for a study that has neither factors nor one of `CONDITIONS`.
    """
    columns = [factor.name for factor in design.factors]
    columns = columns or [name for name in CONDITIONS if name in design.carried]
    if not columns:
        raise ValueError(
            f"a study needs factors or one of {', '.join(CONDITIONS)} to choose examples by"
        )
    return frame.with_columns(
        pl.concat_str(columns, separator=", ").alias("group"), pl.col(design.block).alias("block")
    )


def order_prompts(stimuli: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Give each group's prompts their place in the stimuli.

    Returns group, block, prompt_id, order (of the prompt), group_order (of its group's first
    prompt), system, prompt.
    """
    named = name_groups(stimuli.with_row_index("order"), design).with_columns(
        pl.col("order").min().over("group").alias("group_order")
    )
    return named.select(
        "group", "block", "prompt_id", "order", "group_order", "system", "prompt"
    ).unique(["group", "prompt_id"], keep="first", maintain_order=True)


def score_texts(similarity: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Give each text's number of mates and the sum of its cosines to them.

    similarity: a SIMILARITY table. Returns the columns `DRAW`, block, mates, total.
    """
    return name_groups(similarity, design).select(
        *DRAW,
        "block",
        pl.col("n_mates").cast(pl.Int64).alias("mates"),
        pl.col("cosine_sum").alias("total"),
    )


def score_programs(pairs: pl.DataFrame, measure: str, design: Design) -> pl.DataFrame:
    """Sum each program's similarities to the programs of its task's unaltered prompt.

    pairs: a PAIRS table. A pair of the ceiling stands in it once and counts for both its programs.
    Returns the columns of `score_texts`.
    """
    kept = pairs.filter(pl.col("measure") == measure, pl.col("comparison") != "floor")
    turned = kept.filter(pl.col("comparison") == "ceiling").with_columns(
        pl.col("reference_replicate").alias("replicate")
    )
    return _sum_up(name_groups(pl.concat([kept, turned]), design))


def score_persona_programs(
    pairs: pl.DataFrame, measure: str, prompts: pl.DataFrame
) -> pl.DataFrame:
    """Sum each program's similarities to the other programs of its persona and task.

    pairs: a PROGRAM_PAIRS table, each pair once. prompts: of `order_prompts`.
    Returns the columns of `score_texts`.
    """
    persona_of = prompts.select("prompt_id", "group", "block")
    kept = pairs.filter(pl.col("measure") == measure)
    ends = [
        kept.select(
            *SETTING,
            pl.col(f"{one}_prompt").alias("prompt_id"),
            pl.col(f"{one}_replicate").alias("replicate"),
            pl.col(f"{other}_prompt").alias("other"),
            "similarity",
        )
        for one, other in (("first", "second"), ("second", "first"))
    ]
    both = (
        pl.concat(ends)
        .join(persona_of, on="prompt_id")
        .join(persona_of.rename({"prompt_id": "other"}), on="other", suffix="_of_other")
    )
    same = (pl.col("group") == pl.col("group_of_other")) & (
        pl.col("block") == pl.col("block_of_other")
    )
    return _sum_up(both.filter(same))


def _sum_up(pairs: pl.DataFrame) -> pl.DataFrame:
    return pairs.group_by(*DRAW, "block", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("mates"), pl.col("similarity").sum().alias("total")
    )


def choose_by_similarity(scored: pl.DataFrame, prompts: pl.DataFrame) -> pl.DataFrame:
    """Choose the medoid and the farthest draw of each setting and group.

    scored: of `score_texts` and the like. prompts: of `order_prompts`, which settles ties. A group
    of which no draw has a mate has no row. Returns `DRAW`, role, mates, similarity (the mean).
    Raises ValueError for a draw whose prompt is none of the stimuli.
    """
    texts = (
        scored.filter(pl.col("mates") > 0)
        .join(prompts.select("group", "prompt_id", "order"), on=["group", "prompt_id"], how="left")
        .with_columns((pl.col("total") / pl.col("mates")).alias("similarity"))
        .with_columns(pl.col("similarity").round(EQUAL_DECIMALS).alias("compared"))
    )
    if unknown := texts.filter(pl.col("order").is_null()).height:
        raise ValueError(f"{unknown} draws are compared whose prompts are none of the stimuli")
    blocks = (
        texts.group_by(*CELL, "block")
        .agg(
            (pl.col("total").sum() / pl.col("mates").sum()).round(EQUAL_DECIMALS).alias("mean"),
            pl.col("order").min(),
        )
        .sort("mean", "order")
        .group_by(CELL, maintain_order=True)
        .agg(pl.col("block").get((pl.len() - 1) // 2))
    )
    inside = texts.join(blocks, on=[*CELL, "block"], how="semi", nulls_equal=True)
    ends = [
        inside.sort("compared", "order", "replicate", descending=[role == "medoid", False, False])
        .unique(CELL, keep="first", maintain_order=True)
        .with_columns(pl.lit(role).alias("role"))
        for role in ("medoid", "farthest")
    ]
    # Where all are equally alike, the first draw is at both ends.
    chosen = pl.concat(ends).unique(DRAW, keep="first", maintain_order=True)
    return chosen.select(*DRAW, "role", "mates", "similarity")
