"""Samples of the texts, measured and fitted by the functions that measure a study."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import polars as pl

from llm_variability.config import ConfigError
from llm_variability.fits.coding import list_groups
from llm_variability.fits.fit_table import fit_settings
from llm_variability.fits.group_statistics import summarise_groups
from llm_variability.similarity.cosine import summarise_similarity
from llm_variability.similarity.embedding import hash_text
from llm_variability.tables import Design

CELL = ["format", "race", "gender"]

ALL_TEXTS = "all"
"""Stands for the seed where no sample was taken."""

PUBLISHED_LEVELS = ("pairwise", "cell")

ESTIMATE_COLUMNS = [
    "level",
    "term",
    "estimate",
    "std_error",
    "statistic",
    "df",
    "p_value",
    "ci_low",
    "ci_high",
    "n_observations",
    "outcome_mean",
    "outcome_sd",
    "backend",
]
"""Columns that estimates.csv has of the fits table."""


def number_texts(texts: pl.DataFrame) -> pl.DataFrame:
    """Give each text its cell (`prompt_id`), its number in it (`replicate`) and its hash.

    The numbers follow the sorted texts, so they do not depend on the order of the file.
    """
    hashes = [hash_text(text) for text in texts["text"]]
    return (
        texts.with_columns(pl.Series("text_hash", hashes, dtype=pl.String))
        .sort([*CELL, "text"])
        .with_columns(
            prompt_id=pl.concat_str(CELL, separator="/"),
            replicate=pl.int_range(pl.len(), dtype=pl.Int32).over(CELL),
        )
    )


def smallest_cell(numbered: pl.DataFrame, design: Design) -> int:
    """Count the texts of the smallest cell that the design asks for.

    Raises ConfigError for a cell without texts.
    """
    counts = {key: len(part) for key, part in numbered.partition_by(CELL, as_dict=True).items()}
    for block in design.blocks:
        for group in list_groups(design.factors):
            if (block, *group) not in counts:
                raise ConfigError(f"validation.texts: no text of {' / '.join((block, *group))}")
    return min(counts.values())


def choose_numbers(size: int, per_cell: int, seed: int, cell: str) -> np.ndarray:
    """Choose per_cell of the numbers 0 to size - 1 without replacement, ascending.

    The generator is seeded by (seed, cell), so that a cell's sample does not depend on the others.
    """
    key = hashlib.blake2b(cell.encode(), digest_size=8).digest()
    generator = np.random.default_rng([seed, int.from_bytes(key)])
    return np.sort(generator.choice(size, per_cell, replace=False))


def sample_texts(numbered: pl.DataFrame, per_cell: int, seed: int) -> pl.DataFrame:
    """Sample per_cell texts of every cell without replacement. Every cell must have as many."""
    chosen = []
    for (cell,), part in numbered.partition_by(
        "prompt_id", as_dict=True, maintain_order=True
    ).items():
        chosen.append(part[choose_numbers(len(part), per_cell, seed, cell)])
    return pl.concat(chosen)


def summarise_texts(
    texts: pl.DataFrame, vectors: np.ndarray, rows_of: dict[str, int], design: Design
) -> pl.DataFrame:
    """Compare numbered texts as those of one setting: a SIMILARITY table.

    vectors: (m, d), a row a distinct text; rows_of: from text hash to row.
    """
    # The authors sent neither temperature nor top-p, so the service's defaults hold: 1 and 1.
    return summarise_similarity(texts, vectors, rows_of, design.group).with_columns(
        temperature=pl.lit("1.0"), top_p=pl.lit("1.0")
    )


def measure_texts(
    texts: pl.DataFrame,
    vectors: np.ndarray,
    rows_of: dict[str, int],
    design: Design,
    *,
    encoder: str,
    backend: str = "profile",
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Measure numbered texts as the texts of one setting of a study are measured.

    vectors: (m, d), a row a distinct text; rows_of: from text hash to row.
    Returns the estimates (level, term, estimate, ...) and the mean cosine of each race's pairs
    (race, mean_cosine, n_pairs).
    Raises ConfigError if a model has no fit.
    """
    similarity = summarise_texts(texts, vectors, rows_of, design)
    fits = fit_settings(
        similarity,
        design,
        study="lee2024",
        model="GPT-3.5",
        measure=encoder,
        backend=backend,
        levels=PUBLISHED_LEVELS,
    )
    failed = fits.filter(~pl.col("converged"))
    if failed.height:
        raise ConfigError(f"validation: level {failed['level'][0]}: {failed['reason'][0]}")
    means = (
        summarise_groups(similarity, design)
        .group_by("race", maintain_order=True)
        .agg(
            mean_cosine=(pl.col("mean_cosine") * pl.col("n_pairs")).sum() / pl.col("n_pairs").sum(),
            n_pairs=pl.col("n_pairs").sum(),
        )
    )
    return fits.select(ESTIMATE_COLUMNS), means


def measure_samples(
    numbered: pl.DataFrame,
    vectors: np.ndarray,
    rows_of: dict[str, int],
    design: Design,
    *,
    per_cell: int,
    seeds: Iterable[int],
    encoder: str,
    backend: str = "profile",
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Measure one sample a seed, and all texts.

    Returns estimates and mean cosines as `measure_texts` does, with a column `seed` in front: the
    seed as text, or `all`.
    Raises ConfigError if a cell has fewer texts than per_cell, or a model has no fit.
    """
    smallest = smallest_cell(numbered, design)
    if per_cell > smallest:
        raise ConfigError(
            f"validation.per_cell: {per_cell} is more than the texts of the smallest cell."
            f" Allowed: a whole number from 2 to {smallest}"
        )
    samples = [(str(seed), sample_texts(numbered, per_cell, seed)) for seed in seeds]
    estimates: list[pl.DataFrame] = []
    means: list[pl.DataFrame] = []
    for name, texts in [*samples, (ALL_TEXTS, numbered)]:
        measured = measure_texts(texts, vectors, rows_of, design, encoder=encoder, backend=backend)
        for table, rows in zip((estimates, means), measured, strict=True):
            table.append(rows.select(pl.lit(name).alias("seed"), pl.all()))
    return pl.concat(estimates), pl.concat(means)
