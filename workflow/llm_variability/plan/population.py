"""How texts, pairs and formats vary: estimated from a pilot run, or taken from published texts.

A cosine of texts i and j of one format x group is taken as

    cosine = mean + typicality of i + typicality of j + what is left of the pair,

so that z, the variance of typicality, and p, that of the rest, say how uncertain the mean over all
pairs of n texts is: its variance is 4 z / n + 2 p / (n (n - 1)) (`fits.text_variance`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl

from llm_variability.config import GREEDY, ConfigError
from llm_variability.fits.coding import INTERCEPT, list_groups
from llm_variability.fits.contrasts import Contrast, list_contrasts
from llm_variability.fits.fit_table import MIN_SD
from llm_variability.fits.group_statistics import SETTING, summarise_groups
from llm_variability.fits.random_intercept import Floats, UnfittableError
from llm_variability.fits.text_inference import GroupVariance
from llm_variability.fits.text_level import measure_groups, require_deletable
from llm_variability.tables import SIMILARITY, Design, Factor, read_design, read_table

MIN_FORMATS = 8
"""Formats of a pilot without which its slopes are too uncertain to plan by."""

MIN_NAMES = 10
"""Names a group of a pilot without which what they share over formats is too uncertain."""

SKEWNESS = -(2**0.5)
"""Of typicality: a gamma variable of shape 2, turned round (kurtosis 6), as in published texts."""


@dataclass(frozen=True)
class Population:
    """What studies of one model, encoder and setting are drawn from; cosines and their squares.

    source: where it is from, in words. mean_cosine: mean of the groups' means. format_sd: SD of
    the formats' means. cosine_sd: SD of all cosines inside groups, the unit of the fits table.
    typicality, residual: the variances z and p. slope: SD, over formats, of the difference of two
    groups. slopes: the same by coding and factor, where they are known. shared: what part of a
    name's typicality (its variance) is the same in all formats; shared_known: whether the source
    tells that, or it is assumed.
    """

    source: str
    mean_cosine: float
    format_sd: float
    cosine_sd: float
    typicality: float
    residual: float
    slope: float
    shared: float
    slopes: Mapping[tuple[str, str], float] = field(default_factory=dict)
    shared_known: bool = False

    def slope_of(self, coding: str, factor: str) -> float:
        return self.slopes.get((coding, factor), self.slope)


PUBLISHED = Population(
    source="published GPT-3.5 texts (Lee et al. 2024; 13 formats, all-mpnet-base-v2)",
    mean_cosine=0.734,
    format_sd=0.107,
    cosine_sd=0.152,
    typicality=0.00299,
    residual=0.00432,
    slope=0.057,
    shared=0.5,
)
"""Measured by `benchmarks/planning.py published` (docs/planning.md), but for two: the slope is that
of a difference of two groups whose slopes have an SD of 0.04 each, as in benchmarks/calibration.py;
and how much names share over formats these texts cannot tell: half is assumed, as there.
"""


def list_effects(factors: Sequence[Factor]) -> list[tuple[str, Contrast]]:
    """Give one contrast of each kind: a factor's difference, as published, and averaged.

    All levels of a factor have the same power where groups differ alike, so one stands for all.
    With one factor both codings are the same, and `treatment` is given.
    Returns (factor, contrast) pairs in the factors' order.
    """
    contrasts = list_contrasts(factors)
    effects = []
    for factor in factors:
        for coding in ("treatment", "marginal")[: len(factors)]:
            first = next(
                each
                for each in contrasts
                if each.coding == coding and _factor_of(each) == factor.name
            )
            effects.append((factor.name, first))
    return effects


def _factor_of(contrast: Contrast) -> str | None:
    """Name the factor of a main effect; None for the intercept and interactions."""
    if contrast.term == INTERCEPT or contrast.coding == "interaction" or ":" in contrast.term:
        return None
    return contrast.term.split("[")[0]


def read_pilot(
    path: Path, temperature: str | None = None, top_p: str | None = None
) -> tuple[Population, Design]:
    """Estimate the population of one setting of a pilot's SIMILARITY table.

    temperature, top_p: canonical text; None takes the setting of the highest temperature, and of
    these the one of the highest top-p, among those that were asked for.
    Raises ConfigError, one line, for a setting that the table lacks or that is too small, and
    TableError for a file that is no similarity table.
    """
    similarity, design = read_table(path, SIMILARITY), read_design(path)
    found = {
        (str(key[0]), None if key[1] is None else str(key[1])): rows
        for key, rows in similarity.partition_by(SETTING, as_dict=True).items()
        if not (key[0] == GREEDY and design.greedy_is_anchor)
    }
    chosen = [
        key for key in found if temperature in (None, key[0]) and (top_p is None or top_p == key[1])
    ]
    if not chosen:
        wanted = f"temperature {temperature or 'any'}, top-p {top_p or 'any'}"
        there = "; ".join(f"{key[0]}, {key[1] or 'none'}" for key in sorted(found, key=_order))
        raise ConfigError(
            f"{path}: no texts of {wanted}. Allowed (temperature, top-p): {there or 'none'}"
        )
    setting = max(chosen, key=_order)
    source = f"{path}, temperature {setting[0]}, top-p {setting[1] or 'none'}"
    try:
        return estimate_population(found[setting], design, source), design
    except UnfittableError as error:
        raise ConfigError(f"{source}: no pilot: {error}") from None


def _order(setting: tuple[str, str | None]) -> tuple[float, float]:
    return float(setting[0]), float(setting[1] or 0)


def estimate_population(similarity: pl.DataFrame, design: Design, source: str) -> Population:
    """Estimate how texts, pairs and formats vary from one setting of a pilot.

    z and p come from an analysis of variance of the pairs' cosines by their texts, averaged over
    formats and groups with equal weights; the variance of slopes is what the contrasts' variance
    over formats has beyond that of their texts, averaged over a factor's levels. A variance
    estimated below 0 is 0. What the pilot is too small for (`MIN_FORMATS`, `MIN_NAMES`) is taken
    from the published texts: `slopes` is empty, `shared_known` false.

    similarity: one setting. Raises UnfittableError for fewer than four texts in a format x group,
    a name with several texts in one, or cosines that are all the same.
    """
    blocks = design.blocks or tuple(sorted(similarity[design.block].unique()))
    keys = [(block, *group) for block in blocks for group in list_groups(design.factors)]
    grid = pl.DataFrame(keys, schema=dict.fromkeys(design.group, pl.String), orient="row")
    centred = pl.col("cosine_sum") - pl.col("cosine_sum").mean().over(design.group)
    squares = (
        similarity.with_columns(centred.alias("centred"))
        .group_by(design.group)
        .agg(between=pl.col("centred").pow(2).sum())
    )
    statistics = grid.join(
        summarise_groups(similarity, design).join(squares, on=design.group),
        on=design.group,
        how="left",
        maintain_order="left",
    )
    n = statistics["n_texts"].fill_null(0).to_numpy().astype(float)
    require_deletable(n.astype(int), keys)
    within_ss, means, pairs = (
        statistics[name].to_numpy() for name in ("within_ss", "mean_cosine", "n_pairs")
    )
    typicality, residual = split_variance(statistics["between"].to_numpy(), within_ss, n)
    shape = (len(blocks), -1)
    groups = measure_groups(similarity, within_ss.reshape(shape), design, blocks)
    grand = float(pairs @ means / pairs.sum())
    total = within_ss.sum() + pairs @ (means - grand) ** 2
    cosine_sd = float(np.sqrt(total / (pairs.sum() - 1)))
    if cosine_sd < MIN_SD:
        raise UnfittableError("no variance: all cosines are equal")
    by_block = means.reshape(shape).mean(axis=1)
    population = replace(
        PUBLISHED,
        source=source,
        mean_cosine=float(means.mean()),
        format_sd=float(by_block.std(ddof=1)) if len(blocks) > 1 else 0.0,
        cosine_sd=cosine_sd,
        typicality=typicality,
        residual=residual,
    )
    if len(blocks) >= MIN_FORMATS:
        slopes = _estimate_slopes(means.reshape(shape), groups, design)
        population = replace(population, slopes=slopes)
    if design.unit is not None and n.min() >= MIN_NAMES and len(blocks) > 1 and typicality > 0:
        part = float(groups.shared.mean() / (4 * typicality * (1 / n).mean()))
        population = replace(population, shared=min(part, 1.0), shared_known=True)
    return population


def split_variance(between: Floats, within_ss: Floats, n: Floats) -> tuple[float, float]:
    """Split the cosines' variance into that of typicality, z, and that of the rest, p.

    between: (cells) A, the sum over texts of (sum of its cosines, less their mean)^2. within_ss:
    (cells) the pairs' sum of squared deviations. n: (cells) texts, 4 or more. Texts explain
    A / (n - 2) of it on n - 1 degrees of freedom, and the rest has n (n - 3) / 2.
    """
    residual = (within_ss - between / (n - 2)) / (n * (n - 3) / 2)
    typicality = (between / ((n - 1) * (n - 2)) - residual) / (n - 2)
    return max(float(typicality.mean()), 0.0), max(float(residual.mean()), 0.0)


def _estimate_slopes(
    means: Floats, groups: GroupVariance, design: Design
) -> dict[tuple[str, str], float]:
    """Estimate the SD over formats of each kind of difference, the texts' share taken off."""
    variances: dict[tuple[str, str], list[float]] = {}
    for contrast in list_contrasts(design.factors):
        factor = _factor_of(contrast)
        if factor is None:
            continue
        spread = (means @ contrast.weights).var(ddof=1)
        of_texts = len(means) * (contrast.weights**2 @ (groups.variance - groups.shared))
        variances.setdefault((contrast.coding, factor), []).append(float(spread - of_texts))
    return {
        kind: float(np.sqrt(max(sum(each) / len(each), 0.0))) for kind, each in variances.items()
    }
