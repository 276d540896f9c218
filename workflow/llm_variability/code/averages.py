"""Mean similarities of each prompt, and how the pairs scatter about them."""

from __future__ import annotations

import numpy as np
import polars as pl

from llm_variability.config import ConfigError
from llm_variability.config_code import ORIGINAL
from llm_variability.table_contract import SETTING, Design

_PROMPT = ("augmentation", "prompt_id")


def _list_averages(accounts: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    """List a row for each setting and prompt: one augmented, a ceiling and a floor for others."""
    unaltered = pl.col("augmentation") == ORIGINAL
    bounds = pl.DataFrame({"comparison": ["ceiling", "floor"]})
    changed = accounts.filter(~unaltered).with_columns(comparison=pl.lit("augmented"))
    prompts = pl.concat([accounts.filter(unaltered).join(bounds, how="cross"), changed])
    return settings.join(prompts, how="cross")


def _require_accounts(programs: pl.DataFrame, accounts: pl.DataFrame) -> None:
    unknown = programs.join(accounts, on=_PROMPT, how="anti")
    if len(unknown):
        task, augmentation = unknown.select("task", "augmentation").row(0)
        raise ConfigError(
            f"augmentations: have no row for a prompt of {task} at {augmentation} that was drawn"
            " from; draws and augmentations are not of one run"
        )


def average_pairs(
    programs: pl.DataFrame,
    accounts: pl.DataFrame,
    compared: pl.Series,
    pairs: pl.DataFrame,
    similarity: np.ndarray,
    measure: str,
    design: Design,
) -> pl.DataFrame:
    """Average the similarities of each prompt's pairs (an averages table).

    programs: a programs table. accounts: an augmentations table; each of its prompts has a row at
    every setting, also where no pair could be made. compared, pairs: as in `pairs.list_pairs`.
    similarity: (m,), in the order of pairs.
    Raises ConfigError for programs of a prompt without an account.
    """
    drawn = accounts.filter(~pl.col("repeated")).select(
        *design.columns, "prompt_id", "realised", "bleu"
    )
    _require_accounts(programs, drawn)
    key = [*SETTING, *_PROMPT]
    counted = (
        programs.select(key)
        .with_columns(compared.alias("compared"))
        .group_by(key, maintain_order=True)
        .agg(pl.len().alias("draws"), pl.col("compared").sum().alias("programs"))
        .with_row_index("prompt")
    )
    prompts = programs.join(counted, on=key, how="left", nulls_equal=True, maintain_order="left")[
        "prompt"
    ]
    values = pl.col("similarity")
    averaged = (
        pairs.select("comparison")
        .with_columns(prompts[pairs["draw"]].alias("prompt"), pl.Series("similarity", similarity))
        .group_by("comparison", "prompt")
        .agg(
            pl.len().alias("n_pairs"),
            values.mean().alias("mean"),
            ((values - values.mean()) ** 2).sum().alias("within_ss"),
        )
        .with_columns(pl.col("comparison").cast(pl.String))
    )
    settings = programs.select(*SETTING).unique(maintain_order=True)
    return (
        _list_averages(drawn, settings)
        .join(counted, on=key, how="left", nulls_equal=True, maintain_order="left")
        .join(averaged, on=["comparison", "prompt"], how="left", maintain_order="left")
        .with_columns(pl.col("draws", "programs", "n_pairs").fill_null(0), measure=pl.lit(measure))
        .drop("prompt")
    )
