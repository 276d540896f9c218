"""What holds in all texts at once, at every level of inference and under both scopes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import wrap

import numpy as np
import polars as pl

from llm_variability.config import ConfigError
from llm_variability.fits.coding import INTERCEPT
from llm_variability.fits.fit_table import VARIANTS, fit_settings
from llm_variability.fits.text_inference import FORMATS_FIXED, FORMATS_RANDOM
from llm_variability.fits.text_level import LEVEL
from llm_variability.tables import Design
from llm_variability.validation.sampling import summarise_texts

LEVEL_COLUMNS = [
    "level",
    "scope",
    "coding",
    "term",
    "estimate",
    "std_error",
    "statistic",
    "df",
    "p_value",
    "ci_low",
    "ci_high",
    "simultaneous_low",
    "simultaneous_high",
    "n_observations",
    "n_blocks",
    "outcome_mean",
    "outcome_sd",
    "backend",
]
"""Columns that levels.csv has of the fits table."""

ALPHA = 0.05
CODINGS = {
    "treatment": "as published",
    "marginal": "averaged over the other factor",
    "interaction": "interaction",
}
SCOPES = {FORMATS_FIXED: "in these formats", FORMATS_RANDOM: "in such formats"}

_WIDTH = 100


def fit_levels(
    numbered: pl.DataFrame,
    vectors: np.ndarray,
    rows_of: dict[str, int],
    design: Design,
    *,
    encoder: str,
    backend: str = "profile",
) -> pl.DataFrame:
    """Estimate every contrast of all texts at every level: `LEVEL_COLUMNS`, a row an estimate.

    numbered: as `sampling.number_texts` gives them. vectors, rows_of: as in
    `sampling.measure_texts`.
    Raises ConfigError if a model has no fit.
    """
    fits = fit_settings(
        summarise_texts(numbered, vectors, rows_of, design),
        design,
        study="lee2024",
        model="GPT-3.5",
        measure=encoder,
        backend=backend,
    )
    failed = fits.filter(~pl.col("converged"))
    if failed.height:
        raise ConfigError(f"validation: level {failed['level'][0]}: {failed['reason'][0]}")
    return fits.select(LEVEL_COLUMNS)


def shorten_term(term: str) -> str:
    """Leave the names of the factors out: `race[Asian]:gender[woman]` is `Asian x woman`."""
    return " x ".join(re.findall(r"\[([^]]*)\]", term)) or term


def list_effects(levels: pl.DataFrame, coding: str) -> list[str]:
    """List the terms of a coding; of `treatment` the main effects, the others being interactions.

    With two factors the interactions of `treatment` are those of `interaction`.
    """
    terms = levels.filter(pl.col("coding") == coding)["term"].unique(maintain_order=True)
    return [
        term for term in terms if term != INTERCEPT and (coding != "treatment" or ":" not in term)
    ]


def choose_surviving(levels: pl.DataFrame, scope: str, coding: str) -> list[str]:
    """List what is told from 0 at level `text`, at 5%.

    A star stands behind what the simultaneous interval tells from 0 too.
    """
    found = []
    effects = list_effects(levels, coding)
    of_scope = levels.filter(
        pl.col("level") == LEVEL,
        pl.col("scope") == scope,
        pl.col("coding") == coding,
        pl.col("term").is_in(effects),
    )
    for row in of_scope.iter_rows(named=True):
        if row["p_value"] < ALPHA:
            at_once = row["simultaneous_low"] > 0 or row["simultaneous_high"] < 0
            found.append(shorten_term(row["term"]) + ("*" if at_once else ""))
    return found


def describe_levels(levels: pl.DataFrame) -> str:
    """Say in a few lines what survives inference from the texts and from the formats."""
    lines = ["What holds in all texts, level text, at 5% (a star: with its whole row at once too)"]
    for coding, words in CODINGS.items():
        if list_effects(levels, coding):
            parts = [
                f"{place}: {', '.join(choose_surviving(levels, scope, coding)) or 'none'}"
                for scope, place in SCOPES.items()
            ]
            lines += wrap(
                f"{words}, holds {'; '.join(parts)}.",
                _WIDTH,
                initial_indent="  ",
                subsequent_indent="    ",
            )
    blocks = int(levels["n_blocks"].max())  # type: ignore[arg-type]
    lines += wrap(
        f"In these formats: the {blocks} that there are, other texts. In such formats: other"
        " formats as well. The pairwise model's p-values, which take pairs for independent, are in"
        " levels.csv for comparison only.",
        _WIDTH,
    )
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------ Markdown


def _p(value: float | None) -> str:
    if value is None:
        return ""
    if value < 0.001:
        return "< .001"
    digits = 3 if value < 0.0995 else 2
    return f"{value:.{digits}f}".removeprefix("0")


def _p_values(levels: pl.DataFrame, coding: str, term: str) -> list[str]:
    values = []
    for level, scope in VARIANTS:
        # With two factors the published interactions are those of `interaction`.
        same = coding == "interaction" and level != LEVEL
        row = levels.filter(
            pl.col("level") == level,
            pl.col("scope").eq_missing(pl.lit(scope, dtype=pl.String)),
            pl.col("coding") == ("treatment" if same else coding),
            pl.col("term") == term,
        )
        values.append(_p(row["p_value"][0] if row.height else None))
    return values


def tabulate_levels(encoders: Mapping[str, pl.DataFrame]) -> str:
    """Write the p-values as Markdown: a row a contrast, a column a level and scope.

    encoders: levels by encoder, the first one's p-values outside the brackets; another's stand in
    brackets where they are written differently.
    """
    first, *others = encoders.values()
    header = ["contrast", *(scope or level for level, scope in VARIANTS)]
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    for coding, words in CODINGS.items():
        for term in list_effects(first, coding):
            columns: list[Sequence[str]] = [
                _p_values(each, coding, term) for each in [first, *others]
            ]
            cells = [
                f"{own} ({', '.join(more)})" if any(other != own for other in more) else own
                for own, *more in zip(*columns, strict=True)
            ]
            lines.append(f"| {shorten_term(term)}, {words} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
