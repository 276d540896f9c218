"""Count what became of the draws: nothing is dropped without standing here."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from llm_variability.tables import STATUSES


def count_draws(
    draws: pl.DataFrame, temperature: str, top_p: str | None, factors: Sequence[str]
) -> pl.DataFrame:
    """Count one cell's draws by prompt and status (a counts table)."""
    return (
        draws.group_by("prompt_id", *factors, maintain_order=True)
        .agg(
            pl.len().alias("draws"),
            *((pl.col("status") == status).sum().alias(status) for status in STATUSES),
            pl.col("text").drop_nulls().n_unique().alias("distinct_texts"),
            pl.col("text").str.count_matches(r"\S+").cast(pl.Int64).sum().alias("words"),
            pl.col("completion_tokens").cast(pl.Int64).sum(),
        )
        .with_columns(
            pl.lit(temperature).alias("temperature"),
            pl.lit(top_p, dtype=pl.String).alias("top_p"),
        )
    )
