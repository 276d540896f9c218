"""Every setting of a model under every sensitivity analysis, or the reason where it has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from typing import Any

import polars as pl

from llm_variability.fits.coding import list_groups
from llm_variability.fits.fit_table import (
    GREEDY_REASON,
    Groups,
    Setting,
    complete_rows,
    fit_settings,
    measure_outcome,
    part_settings,
    tabulate_rows,
)
from llm_variability.fits.group_statistics import SETTING
from llm_variability.fits.text_inference import FORMATS_FIXED, SCOPES
from llm_variability.fits.text_level import ESTIMATORS, LEVEL
from llm_variability.sensitivity.dispersion import DispersionTests, compare_dispersions
from llm_variability.sensitivity.length import PairSums, adjust_contrasts, collect_pairs
from llm_variability.sensitivity.texts import (
    Encoded,
    GroupTexts,
    part_groups,
    require_same_texts,
    summarise_texts,
)
from llm_variability.tables import FITS, Design

LENGTH, UNTRUNCATED, PERMUTATION = "length", "untruncated", "permutation"

VARIANTS = (
    *((LENGTH, scope, ESTIMATORS[scope]) for scope in SCOPES),
    (PERMUTATION, FORMATS_FIXED, "permutation"),
)
"""Analysis, scope and backend of what is estimated from the texts that the main fits have."""


class _SettingTexts:
    """One setting's texts, parted and their pairs summed when first asked for."""

    def __init__(self, encoded: Encoded, setting: Setting, design: Design, groups: Groups) -> None:
        self._encoded, self._setting = encoded, setting
        self.design, self.groups = design, groups

    @cached_property
    def blocks(self) -> list[list[GroupTexts]]:
        texts = self._encoded.of_setting(self._setting)
        return part_groups(texts, self._encoded, self.design, self.groups.blocks)

    @cached_property
    def pairs(self) -> PairSums:
        return collect_pairs(self.blocks)


def analyse_settings(
    encoded: Encoded,
    similarity: pl.DataFrame,
    design: Design,
    *,
    study: str,
    model: str,
    measure: str,
    seed: int,
    permutations: int,
    settings: Iterable[Setting] = (),
) -> pl.DataFrame:
    """Estimate a model's contrasts at equal length and on uncut texts; test equal dispersion.

    length: `length.adjust_contrasts`, both scopes. untruncated: the main fit's level `text` on
    texts that were not cut, measured among themselves. permutation:
    `dispersion.compare_dispersions`, formats fixed. Greedy anchors, missing groups, fewer than
    four texts in a group and a single format have one row a scope with the main fit's reason.

    similarity: a SIMILARITY table of the same texts. seed: the study's; each test has random
    numbers of its own from it, so that other settings change no p value.
    settings: those that must have rows, even if there is no text of them.
    Returns a FITS table, analysis by analysis, each by ascending temperature and top-p.
    Raises ValueError if texts are not those of the similarity table, or lack vectors.
    """
    require_same_texts(encoded.texts, similarity)
    wanted = list(settings)
    rows: dict[str, list[dict[str, Any]]] = {LENGTH: [], PERMUTATION: []}
    for setting, _, groups in part_settings(similarity, design, wanted):
        texts = _SettingTexts(encoded, setting, design, groups)
        tests_key = (seed, study, model, measure, *setting)
        for analysis, scope, backend in VARIANTS:
            head = {
                "study": study,
                "model": model,
                "analysis": analysis,
                "measure": measure,
                "temperature": setting[0],
                "top_p": setting[1],
                "level": LEVEL,
                "scope": scope,
                "n_observations": groups.n_observations(LEVEL),
                "n_blocks": groups.n_blocks(),
                "backend": backend,
            }
            analyse = partial(_analyse, analysis, scope, texts, permutations, tests_key)
            rows[analysis] += complete_rows(head, design, analyse)
    uncut = fit_uncut(encoded, design, study=study, model=model, measure=measure, settings=wanted)
    return pl.concat([tabulate_rows(rows[LENGTH]), uncut, tabulate_rows(rows[PERMUTATION])])


def _analyse(
    analysis: str,
    scope: str,
    texts: _SettingTexts,
    permutations: int,
    key: tuple[str | int | None, ...],
) -> list[Mapping[str, Any]]:
    """Make one analysis of one setting; key: what its random numbers follow from."""
    factors = texts.design.factors
    means, _, outcome = measure_outcome(texts.groups, texts.design, scope)
    if analysis == LENGTH:
        return adjust_contrasts(texts.pairs, factors, scope, outcome)
    tests = DispersionTests(texts.blocks, list_groups(factors), permutations, key)
    return compare_dispersions(tests, means, factors, outcome)


def fit_uncut(
    encoded: Encoded,
    design: Design,
    *,
    study: str,
    model: str,
    measure: str,
    settings: Iterable[Setting] = (),
) -> pl.DataFrame:
    """Fit level `text` to the texts of status ok, in the SDs of their own pairwise cosines.

    A reason says how many texts were left, if not all were. Returns a FITS table.
    """
    kept = encoded.texts.filter(pl.col("status") == "ok")
    fits = fit_settings(
        summarise_texts(kept, encoded, design),
        design,
        study=study,
        model=model,
        measure=measure,
        settings=[*settings, *encoded.texts.select(SETTING).unique().iter_rows()],
        levels=[LEVEL],
    )
    counts = encoded.texts.group_by(SETTING).agg(
        measured=pl.len(), uncut=(pl.col("status") == "ok").sum()
    )
    told = pl.format("{}; {} of {} texts were not cut", "reason", "uncut", "measured")
    cut = (pl.col("uncut") < pl.col("measured")) & (pl.col("reason") != GREEDY_REASON)
    return (
        fits.join(counts, on=SETTING, how="left", nulls_equal=True, maintain_order="left")
        .with_columns(
            analysis=pl.lit(UNTRUNCATED),
            reason=pl.when(cut).then(told).otherwise("reason"),
        )
        .select(*FITS.columns)
    )
