"""The smallest difference that a study finds, and how many texts a difference needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from scipy.special import stdtrit

from llm_variability.fits.contrasts import Contrast
from llm_variability.fits.random_intercept import Floats
from llm_variability.fits.text_inference import (
    FORMATS_FIXED,
    FORMATS_RANDOM,
    SCOPES,
    infer_formats_fixed,
    infer_formats_random,
)
from llm_variability.fits.text_variance import MIN_TEXTS
from llm_variability.plan.population import Population, list_effects
from llm_variability.plan.simulation import draw_study
from llm_variability.tables import Design

ALPHA = 0.05
POWER = 0.8

STUDIES = 2_000
"""Simulated studies. Each counts with a difference either way, so that a power of 80% is known to
1.8 points at worst (95%), by the studies alone."""

BATCH = 250
SEED = 8023

MOST_TEXTS = 1_000
"""Texts a format x group up to which `texts_needed` searches."""

Kind = tuple[str, str, str]
"""Scope, coding, factor."""


@dataclass(frozen=True)
class Replications:
    """One contrast in many simulated studies, without its true difference, which adds to `error`.

    error, std_error: (studies,) in cosines; df: (studies,) of t.
    """

    error: Floats
    std_error: Floats
    df: Floats

    def power(self, difference: float, alpha: float = ALPHA) -> float:
        """Give the share of studies that reject at level alpha if this difference is true."""
        least = self._margin(alpha)
        rejected = [np.abs(difference + sign * self.error) > least for sign in (1, -1)]
        return float(np.mean(rejected))

    def smallest_difference(self, alpha: float = ALPHA, power: float = POWER) -> float:
        """Give the difference that this share of studies finds, and with the right sign.

        A study finds a difference above its margin less its error, so the answer is a quantile;
        the same studies serve every difference.
        """
        least = self._margin(alpha)
        return float(np.quantile(np.concatenate([least - self.error, least + self.error]), power))

    def _margin(self, alpha: float) -> Floats:
        margin: Floats = stdtrit(self.df, 1 - alpha / 2) * self.std_error
        return margin


@dataclass(frozen=True)
class Layout:
    """A study to be made: its design, how many formats it has, what its texts are drawn from."""

    design: Design
    formats: int
    population: Population

    def scopes(self) -> tuple[str, ...]:
        return SCOPES if self.formats > 1 else (FORMATS_FIXED,)


def simulate_tests(
    layout: Layout, texts: int, studies: int = STUDIES, seed: int = SEED
) -> dict[Kind, Replications]:
    """Test one contrast of each kind under each scope in many studies in which nothing is true.

    texts: of each format x group, four or more. Formats fixed: slopes do not matter, since they
    are part of what is true. Formats random: the contrast differs from format to format by a
    normal variable with the population's slope SD.
    Raises ValueError for fewer than four texts.
    """
    if texts < MIN_TEXTS:
        raise ValueError(f"{texts} texts: level text needs {MIN_TEXTS} in a format and group")
    effects = list_effects(layout.design.factors)
    used = np.flatnonzero(np.any([each.weights != 0 for _, each in effects], axis=0))
    rng = np.random.default_rng(seed)
    parts: dict[Kind, list[Replications]] = {}
    for size in _split(studies):
        means, groups = draw_study(
            layout.population,
            (size, layout.formats, len(used)),
            texts,
            names=layout.design.unit is not None,
            rng=rng,
        )
        for factor, contrast in effects:
            weights = contrast.weights[used][None]
            fixed = infer_formats_fixed(means, groups, weights)
            found = {FORMATS_FIXED: fixed}
            if layout.formats > 1:
                slopes = _draw_slopes(layout, factor, contrast, size, rng)
                moved = means + slopes[..., None] * weights[0] / (weights @ weights.T).item()
                found[FORMATS_RANDOM] = infer_formats_random(moved, groups, weights)
            for scope, inference in found.items():
                parts.setdefault((scope, contrast.coding, factor), []).append(
                    Replications(
                        inference.estimate[:, 0], inference.std_error[:, 0], inference.df[:, 0]
                    )
                )
    return {kind: _join(each) for kind, each in parts.items()}


def _split(studies: int) -> list[int]:
    whole, rest = divmod(studies, BATCH)
    return [BATCH] * whole + [rest] * bool(rest)


def _draw_slopes(
    layout: Layout, factor: str, contrast: Contrast, size: int, rng: np.random.Generator
) -> Floats:
    slope = layout.population.slope_of(contrast.coding, factor)
    drawn: Floats = slope * rng.standard_normal((size, layout.formats))
    return drawn


def _join(parts: list[Replications]) -> Replications:
    return Replications(
        np.concatenate([each.error for each in parts]),
        np.concatenate([each.std_error for each in parts]),
        np.concatenate([each.df for each in parts]),
    )


@dataclass(frozen=True)
class TextsNeeded:
    """How many texts a format x group a difference needs.

    texts: None if `MOST_TEXTS` are too few. reached: power with that many, or with `MOST_TEXTS`.
    limit: power if texts were without number: what the formats alone allow.
    """

    texts: int | None
    reached: float
    limit: float

    @property
    def is_limited(self) -> bool:
        """Whether no number of texts is enough."""
        return self.texts is None and self.limit < POWER


def find_texts_needed(
    layout: Layout, difference: float, alphas: Mapping[str, float], power: float = POWER
) -> dict[tuple[str, Kind], TextsNeeded]:
    """Find the fewest texts with which a difference is found with this power.

    alphas: levels by name. The number is right to a few percent, as the power is.
    Returns what is needed for each level, scope and kind of contrast.
    """

    @cache
    def simulate(texts: int) -> dict[Kind, Replications]:
        return simulate_tests(layout, texts)

    def power_of(kind: Kind, alpha: float, texts: int) -> float:
        return simulate(texts)[kind].power(difference, alpha)

    endless = replace(layout, population=replace(layout.population, typicality=0, residual=0))
    limits = simulate_tests(endless, MOST_TEXTS)
    needed = {}
    for name, alpha in alphas.items():
        for kind, at_limit in limits.items():
            texts = _search(partial(power_of, kind, alpha), power)
            reached = power_of(kind, alpha, texts or MOST_TEXTS)
            needed[name, kind] = TextsNeeded(texts, reached, at_limit.power(difference, alpha))
    return needed


def _search(power_of: Callable[[int], float], power: float) -> int | None:
    """Find the fewest texts, from 4 to `MOST_TEXTS`, by halving the interval on a log scale."""
    if power_of(MOST_TEXTS) < power:
        return None
    low, high = MIN_TEXTS - 1, MOST_TEXTS
    while high - low > max(1, high // 50):
        middle = min(max(round(np.sqrt(low * high)), low + 1), high - 1)
        if power_of(middle) >= power:
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True)
class Finding:
    """What a study can find with one kind of contrast under one scope.

    tests: of how many the first step of Holm's procedure corrects; 1 for a test alone. alpha: the
    level that leaves. difference: the smallest found, in cosines; in_sd: the same in SDs of the
    cosine, the unit of the fits table. needed: for the difference asked for, if one was.
    """

    scope: str
    coding: str
    factor: str
    tests: int
    alpha: float
    difference: float
    in_sd: float
    needed: TextsNeeded | None


def list_findings(
    layout: Layout, texts: int, tests: int, difference: float | None = None
) -> list[Finding]:
    """Say what a study finds at its planned size, alone and as the first of many tests.

    texts: of each format x group; with fewer than four there is no test, and nothing is listed.
    difference: in cosines, for which the texts needed are searched; None for no search.
    """
    if texts < MIN_TEXTS:
        return []
    counts = sorted({1, tests})
    simulated = simulate_tests(layout, texts)
    needed = {}
    if difference is not None:
        alphas = {str(count): ALPHA / count for count in counts}
        needed = find_texts_needed(layout, difference, alphas)
    findings = []
    for scope in layout.scopes():
        for factor, contrast in list_effects(layout.design.factors):
            kind = (scope, contrast.coding, factor)
            for count in counts:
                found = simulated[kind].smallest_difference(ALPHA / count)
                findings.append(
                    Finding(
                        *kind,
                        tests=count,
                        alpha=ALPHA / count,
                        difference=found,
                        in_sd=found / layout.population.cosine_sd,
                        needed=needed.get((str(count), kind)),
                    )
                )
    return findings
