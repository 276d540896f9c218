"""The samples beside the published values: a table, and one screen of text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from llm_variability.validation.lee2024 import PUBLISHED, PUBLISHED_ENCODER, PublishedValue
from llm_variability.validation.sampling import ALL_TEXTS

SOURCE = "homogeneity paper, appendix D"

TOLD_APART = 1.96
"""Standard deviations from 0 at which a value is told apart from it, at 5% two-sided."""

SCHEMA: dict[str, Any] = {
    "measure": pl.String,
    "quantity": pl.String,
    "published": pl.String,
    "published_low": pl.Float64,
    "published_high": pl.Float64,
    "mean": pl.Float64,
    "sd": pl.Float64,
    "min": pl.Float64,
    "max": pl.Float64,
    "z": pl.Float64,
    "position": pl.String,
    "all_texts": pl.Float64,
    "n_seeds": pl.Int64,
    "source": pl.String,
}
"""Columns of comparison.csv."""


def collect_values(
    estimates: pl.DataFrame, means: pl.DataFrame, value: PublishedValue
) -> dict[str, float]:
    """Give a published quantity as measured, by seed."""
    if value.term is not None:
        pairwise = estimates.filter(pl.col("level") == "pairwise", pl.col("term") == value.term)
        return dict(pairwise.select("seed", "estimate").iter_rows())
    race = means.filter(pl.col("race") == value.name)
    return dict(race.select("seed", "mean_cosine").iter_rows())


def place_value(value: PublishedValue, measured: Sequence[float]) -> dict[str, Any]:
    """Say where a published value lies among the samples' values.

    Returns mean, sd (n - 1; null for one sample), min, max; z: standard deviations from the mean
    to the printed number, or to the nearest value of a printed range (null without a spread);
    position: `inside` the samples' range if any value that is printed so lies in it, else
    `below` or `above` it.
    """
    n = len(measured)
    low, high = min(measured), max(measured)
    mean = math.fsum(measured) / n
    sd = math.sqrt(math.fsum((each - mean) ** 2 for each in measured) / (n - 1)) if n > 1 else None
    position = "below" if value.high < low else "above" if value.low > high else "inside"
    z = (value.nearest(mean) - mean) / sd if sd else None
    return {"mean": mean, "sd": sd, "min": low, "max": high, "z": z, "position": position}


def compare_published(estimates: pl.DataFrame, means: pl.DataFrame) -> pl.DataFrame:
    """Set every published value beside the samples and beside all texts.

    estimates, means: as `measure_samples` gives them.
    Returns a row a published value, with the columns of `SCHEMA`.
    """
    rows = []
    for value in PUBLISHED:
        measured = collect_values(estimates, means, value)
        whole = measured.pop(ALL_TEXTS)
        rows.append(
            {
                "measure": value.measure,
                "quantity": value.name,
                "published": value.printed,
                "published_low": value.low,
                "published_high": value.high,
                **place_value(value, list(measured.values())),
                "all_texts": whole,
                "n_seeds": len(measured),
                "source": SOURCE,
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA)


# ------------------------------------------------------------------------------ one screen


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _table_lines(comparison: pl.DataFrame) -> list[str]:
    lines = [
        f"{'':<12}{'published':>13}{'mean':>9}{'SD':>9}   {'range of seeds':<17}"
        f"{'all texts':>9}   published lies"
    ]
    for (measure,), part in comparison.partition_by(
        "measure", as_dict=True, maintain_order=True
    ).items():
        unit = " (SDs of the cosine, pairwise)" if measure == "coefficient" else " (raw)"
        lines.append(f"{measure}{unit}")
        for row in part.iter_rows(named=True):
            reach = f"{_number(row['min'])} to {_number(row['max'])}"
            away = "" if row["z"] is None else f", {row['z']:+.1f} SD"
            lines.append(
                f"  {row['quantity']:<10}{row['published']:>13}{_number(row['mean']):>9}"
                f"{_number(row['sd'], 4):>9}   {reach:<17}{_number(row['all_texts']):>9}"
                f"   {row['position']}{away}"
            )
    return lines


def describe_smallest(comparison: pl.DataFrame, estimates: pl.DataFrame) -> list[str]:
    """Say whether samples of this size can tell the published effect of `woman` from 0."""
    coefficients = comparison.filter(pl.col("measure") == "coefficient")
    spread = ", ".join(
        f"{row['quantity']} {_number(row['sd'], 4)}" for row in coefficients.iter_rows(named=True)
    )
    lines = [f"SD of a coefficient over samples: {spread}."]
    woman = coefficients.row(by_predicate=pl.col("quantity") == "woman", named=True)
    if woman["sd"]:
        away = float(woman["published"]) / woman["sd"]
        verdict = "cannot be told" if abs(away) < TOLD_APART else "can be told"
        lines.append(
            f"woman {woman['published']} is {away:.1f} such SDs: in one sample of this size it"
            f" {verdict} from 0."
        )
    effect = estimates.filter(pl.col("term") == "gender[woman]")
    sampled = effect.filter(pl.col("level") == "pairwise", pl.col("seed") != ALL_TEXTS)
    lines.append(
        f"The pairwise model gives woman a standard error of"
        f" {sampled['std_error'].to_numpy().mean():.4f}: pairs share texts."
    )
    cell = effect.filter(pl.col("seed") == ALL_TEXTS, pl.col("level") == "cell").row(0, named=True)
    lines.append(
        f"woman in all texts, in SDs of the cell means: {_number(cell['estimate'])},"
        f" 95% interval {_number(cell['ci_low'])} to {_number(cell['ci_high'])}."
    )
    return lines


def summarise(comparison: pl.DataFrame, estimates: pl.DataFrame, about: Mapping[str, str]) -> str:
    """Write the comparison as one screen of text.

    about: lines of what was measured and with what, as label and text.
    """
    n_seeds = comparison["n_seeds"][0]
    lines = ["Validation against the published GPT-3.5 texts of Lee et al. 2024", ""]
    lines += [f"{label + ':':<10}{text}" for label, text in about.items()]
    lines += ["", *_table_lines(comparison), "", *describe_smallest(comparison, estimates)]
    if n_seeds > 1:
        error = 100 / math.sqrt(2 * (n_seeds - 1))
        lines.append(f"An SD of {n_seeds} seeds is itself uncertain by about {error:.0f}%.")
    lines.append(f"Published: {SOURCE}, measured with {PUBLISHED_ENCODER}.")
    return "\n".join(lines) + "\n"
