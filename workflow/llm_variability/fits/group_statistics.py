"""From a row a text to a row a group: how many pairs, their mean and their sum of squares."""

from __future__ import annotations

import polars as pl

from llm_variability.tables import Design

SETTING = ["temperature", "top_p"]


def summarise_groups(similarity: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Count, average and spread of the pairwise cosines inside every group of every setting.

    Each pair stands in the rows of its two texts, so that over a group of n texts the sums of
    `n_mates`, `cosine_sum` and `cosine_sum_squares` are twice those over its n (n - 1) / 2 pairs.
    The sum of squared deviations is taken text by text, around the group's mean, which loses
    fewer digits than the difference of two totals.

    similarity: a SIMILARITY table, any number of settings.
    Returns a row each (temperature, top_p, block, factors...) that has texts: `n_texts`,
    `n_pairs`, `mean_cosine` (null without pairs) and `within_ss`, 0 or more.
    Raises ValueError if a level is none of the design's, or a text's mates are not all the other
    texts of its group.
    """
    _require_known_levels(similarity, design)
    group = [*SETTING, *design.group]
    totals = similarity.group_by(group, maintain_order=True).agg(
        n_texts=pl.len().cast(pl.Int64),
        mates_low=pl.col("n_mates").min(),
        mates_high=pl.col("n_mates").max(),
        cosine_total=pl.col("cosine_sum").sum(),
    )
    mates = pl.col("n_texts") - 1
    uneven = totals.filter((pl.col("mates_low") != mates) | (pl.col("mates_high") != mates))
    if uneven.height:
        first = uneven.row(0, named=True)
        where = ", ".join(f"{name} {first[name]}" for name in group)
        raise ValueError(
            f"{where}: {first['n_texts']} texts, but n_mates from {first['mates_low']} to"
            f" {first['mates_high']}; make the similarity table again"
        )
    n_pairs = pl.col("n_texts") * mates // 2
    totals = totals.with_columns(
        n_pairs=n_pairs,
        mean_cosine=pl.when(n_pairs > 0).then(pl.col("cosine_total") / 2 / n_pairs),
    )
    spread = (
        pl.col("cosine_sum_squares")
        - 2 * pl.col("mean_cosine") * pl.col("cosine_sum")
        + pl.col("n_mates") * pl.col("mean_cosine") ** 2
    )
    squares = (
        similarity.join(totals, on=group, nulls_equal=True)
        .group_by(group)
        .agg(within_ss=(spread.sum() / 2).clip(lower_bound=0))
    )
    columns = [*group, "n_texts", "n_pairs", "mean_cosine", "within_ss"]
    return totals.join(squares, on=group, nulls_equal=True, maintain_order="left").select(columns)


def _require_known_levels(similarity: pl.DataFrame, design: Design) -> None:
    known = {factor.name: set(factor.levels) for factor in design.factors}
    if design.blocks:
        known[design.block] = set(design.blocks)
    for name, levels in known.items():
        strange = sorted(set(similarity[name].unique()) - levels)
        if strange:
            raise ValueError(f"{name}: {strange[0]!r} is no level of the design")
