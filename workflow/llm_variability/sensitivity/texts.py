"""From draws, vectors and cosine sums to the texts of each setting and group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl

from llm_variability.config import cell_name
from llm_variability.fits.coding import list_groups
from llm_variability.fits.group_statistics import SETTING
from llm_variability.fits.random_intercept import Floats
from llm_variability.fits.text_level import require_single_texts
from llm_variability.similarity.cosine import summarise_similarity
from llm_variability.similarity.embedding import measured_texts
from llm_variability.tables import SIMILARITY, Design

_DRAW = [*SETTING, "prompt_id", "replicate"]


@dataclass(frozen=True)
class GroupTexts:
    """The texts of one block x group.

    vectors: (n, d) of unit length. words: (n,) words of each text, parted by white space.
    units: (n,) the unit that each is a text of, where a design names one.
    """

    vectors: Floats
    words: Floats
    units: tuple[str, ...] | None


@dataclass(frozen=True)
class Encoded:
    """The measured texts of one model, all its settings, and their vectors.

    texts: the design's columns, `temperature`, `top_p`, `prompt_id`, `replicate`, `status`,
        `text_hash`, `words` and `over_long`, a row a text. vectors: (m, d), a row a distinct text.
    rows_of: from text hash to row.
    """

    texts: pl.DataFrame
    vectors: np.ndarray
    rows_of: dict[str, int]

    def of_setting(self, setting: tuple[str, str | None]) -> pl.DataFrame:
        return self.texts.filter(
            pl.col("temperature") == setting[0], pl.col("top_p").eq_missing(pl.lit(setting[1]))
        )


def measure_draws(
    draws: pl.DataFrame,
    setting: tuple[str, str | None],
    over_long: pl.DataFrame,
    include_truncated: bool,
    design: Design,
) -> pl.DataFrame:
    """Give the texts of one cell that its similarity was measured on, as `Encoded.texts`.

    draws: a DRAWS table. over_long: `text_hash` and `over_long` of an EMBEDDINGS table.
    """
    measured = measured_texts(draws, include_truncated)
    measured = measured.join(over_long, on="text_hash", how="left", maintain_order="left")
    return measured.select(
        *design.columns,
        pl.lit(setting[0]).alias("temperature"),
        pl.lit(setting[1], dtype=pl.String).alias("top_p"),
        "prompt_id",
        "replicate",
        "status",
        "text_hash",
        pl.col("text").str.count_matches(r"\S+").cast(pl.Int64).alias("words"),
        "over_long",
    )


def require_same_texts(texts: pl.DataFrame, similarity: pl.DataFrame) -> None:
    """Raise ValueError unless all texts have vectors, and are those of a SIMILARITY table."""
    lacking = texts.filter(pl.col("over_long").is_null())
    if lacking.height:
        raise ValueError(
            f"embeddings: lack {lacking.height} of the draws' texts, the first of cell"
            f" {cell_name(*lacking.select(SETTING).row(0))}; make the embeddings again"
        )
    for lacks, one, other in (
        ("similarity: lacks {} of the draws' texts", texts, similarity),
        ("draws: lack {} of the similarity table's texts", similarity, texts),
    ):
        surplus = one.join(other, on=_DRAW, how="anti", nulls_equal=True)
        if surplus.height:
            raise ValueError(
                f"{lacks.format(surplus.height)}, the first of cell"
                f" {cell_name(*surplus.select(SETTING).row(0))}; make the similarity table again"
            )


def part_groups(
    texts: pl.DataFrame, encoded: Encoded, design: Design, blocks: Iterable[str]
) -> list[list[GroupTexts]]:
    """Part the texts of one setting into blocks, and these into groups as `list_groups` gives them.

    Texts come in the order of their prompts and numbers, whatever the table's order is.

    texts: rows of `Encoded.texts`, complete: every block x group has some. Vectors are brought to
        unit length in double precision, as cosines are summed.
    Raises UnfittableError if a unit has several texts in one block x group.
    """
    if design.unit is not None:
        require_single_texts(texts, design.group, design.unit)
    found = texts.sort("prompt_id", "replicate").partition_by(design.group, as_dict=True)
    groups = list_groups(design.factors)
    parted = [
        _read_group(found[block, *group], encoded, design.unit)
        for block, group in product(blocks, groups)
    ]
    return [parted[start : start + len(groups)] for start in range(0, len(parted), len(groups))]


def _read_group(texts: pl.DataFrame, encoded: Encoded, unit: str | None) -> GroupTexts:
    rows = [encoded.rows_of[text_hash] for text_hash in texts["text_hash"]]
    vectors = encoded.vectors[rows].astype(np.float64)
    return GroupTexts(
        vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
        texts["words"].to_numpy().astype(float),
        None if unit is None else tuple(texts[unit]),
    )


def summarise_texts(texts: pl.DataFrame, encoded: Encoded, design: Design) -> pl.DataFrame:
    """Measure chosen texts anew: a SIMILARITY table in which they are each other's only mates.

    texts: rows of `Encoded.texts`, any number of settings.
    """
    carried = ["over_long"] if design.unit is None else [design.unit, "over_long"]
    columns = [*design.columns, *SIMILARITY.columns]
    types = {name: column.dtype for name, column in SIMILARITY.columns.items()}
    empty = pl.DataFrame(schema={**dict.fromkeys(design.columns, pl.String), **types})
    parts = [empty]
    for setting, of_setting in texts.partition_by(SETTING, as_dict=True).items():
        summary = summarise_similarity(
            of_setting, encoded.vectors, encoded.rows_of, design.group, carried
        )
        parts.append(
            summary.with_columns(
                temperature=pl.lit(setting[0]), top_p=pl.lit(setting[1], dtype=pl.String)
            )
            .select(columns)
            .cast(types)  # type: ignore[arg-type]
        )
    return pl.concat(parts)
