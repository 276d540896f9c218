"""Counts of significant settings, and how encoders and levels agree."""

from __future__ import annotations

import csv
import itertools
import math
import os
import runpy
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.fits.text_inference import SCOPES
from llm_variability.report import statements
from llm_variability.report.comparisons import (
    average_by_temperature,
    compare_encoders,
    compare_levels,
    default_setting,
    tabulate_default,
    tabulate_signals,
)
from llm_variability.report.level_tests import (
    CELL,
    LEVEL_TESTS,
    PAIRWISE,
    TEXT_FIXED,
    TEXT_TESTS,
    find_test,
    list_tests,
)
from llm_variability.report.marks import count_small_errors, mark_estimates
from llm_variability.report.robustness import average_diversity, set_beside_main
from llm_variability.report.robustness_section import count_changes, describe_change
from llm_variability.report.sections import arrange_default, starred_estimates
from llm_variability.report.summaries import list_selection
from llm_variability.tables import Design, Factor

inputs = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("report_inputs.py"))))

PUBLISHED = os.environ.get("HOMOGENEITY_TABLES", "")
needs_published = pytest.mark.skipif(
    not PUBLISHED,
    reason="HOMOGENEITY_TABLES names no folder with the paper's tables 1 to 5 as CSV",
)

LABELS = Design(
    "format",
    (
        Factor("race", ("African", "Asian", "Hispanic", "White"), "White"),
        Factor("gender", ("man", "woman"), "man"),
    ),
)
NAMES = inputs.NAMES_DESIGN
P_OF_STARS = (0.4, 0.03, 0.005, 0.0005)


def published(name: str) -> list[dict[str, str]]:
    with (Path(PUBLISHED) / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def frame_of(rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=inputs.SCHEMA)


def fitted(
    term: str,
    estimate: float,
    p_value: float,
    model: str = "m",
    encoder: str = "e",
    level: str = "pairwise",
    setting: tuple[str, str | None] = ("1.0", "1.0"),
    **given: Any,
) -> dict[str, Any]:
    return inputs.fit_row(
        "labels",
        model,
        encoder,
        level,
        setting,
        **{"term": term, "estimate": estimate, "p_value": p_value, "converged": True} | given,
    )


def random_fits(design: Design, seed: int, models: int = 3) -> list[dict[str, Any]]:
    """Estimates of several models, encoders and levels; one in eight cannot be relied on."""
    random = np.random.default_rng(seed)
    terms = [term for term in inputs.list_terms(design) if term != "Intercept"]
    settings = inputs.list_settings((("0", "0.5", "1.0"), ("0.2", "1.0")))
    rows = []
    for model, setting, term in itertools.product(range(models), settings, terms):
        base = random.normal()
        for encoder, level in itertools.product(
            ("first", "second", "third"), ("pairwise", "cell", "text")
        ):
            rows.append(
                fitted(
                    term,
                    float(base + random.normal(0, 0.8)),
                    float(random.choice([0.001, 0.04, 0.05, 0.3])),
                    f"m{model}",
                    encoder,
                    level,
                    setting,
                    converged=bool(random.random() > 0.125),
                )
            )
    return rows


def by_cell(rows: Iterable[dict[str, Any]], encoder: str, level: str, anchor: bool) -> dict:
    """The estimates and p values of main effects that can be relied on, by cell."""
    return {
        (row["model"], row["temperature"], row["top_p"], row["term"]): (
            row["estimate"],
            row["p_value"],
        )
        for row in rows
        if (row["measure"], row["level"]) == (encoder, level)
        and row["converged"]
        and ":" not in row["term"]
        and not (anchor and row["temperature"] == "0")
    }


def agree(pairs: list[tuple[float, float]]) -> float:
    return sum(math.copysign(1, a) == math.copysign(1, b) for a, b in pairs) / len(pairs)


# ------------------------------------------------------------------- counts of significant settings


def test_settings_are_counted_by_direction_and_interactions_stand_apart():
    fits = frame_of(
        [
            fitted("race[Asian]", 0.4, 0.01, setting=("0.5", "0.2")),
            fitted("race[Asian]", -0.2, 0.049, setting=("0.5", "0.4")),
            fitted("race[Asian]", -0.2, 0.05, setting=("0.5", "0.6")),
            fitted("race[Asian]", 9.0, 0.001, setting=("0", None)),
            fitted("race[Asian]", 9.0, 0.001, setting=("1.0", "1.0"), converged=False),
            fitted("race[Asian]:gender[woman]", 0.4, 0.01),
        ]
    )
    main, interaction = tabulate_signals(fits, LABELS).to_dicts()
    counts = [main[key] for key in ("settings", "significant", "positive", "negative")]
    assert counts == [3, 2, 1, 1]
    assert main["mean_estimate"] == pytest.approx((0.4 - 0.2 - 0.2) / 3)
    assert (main["interaction"], interaction["interaction"]) == (False, True)
    assert interaction["contrast"] == "Asian × woman"


def test_the_greedy_cell_of_a_study_of_names_is_one_setting_more():
    rows = [
        fitted("group[Black]", -0.3, 0.001, setting=setting)
        for setting in inputs.list_settings(inputs.FULL_GRID)
    ]
    (row,) = tabulate_signals(frame_of(rows), NAMES).to_dicts()
    assert (row["settings"], row["negative"]) == (21, 21)


@needs_published
def test_the_papers_first_table_comes_back_from_fits_with_its_counts():
    terms = {"African American": "race[African]", "Asian American": "race[Asian]"}
    terms |= {"Hispanic American": "race[Hispanic]", "Woman": "gender[woman]"}
    settings = [each for each in inputs.list_settings(inputs.FULL_GRID) if each[0] != "0"]
    rows, expected = [], {}
    for row in published("table1_signal_counts"):
        positive, negative = int(row["positive"]), int(row["negative"])
        rest = int(row["settings"]) - positive - negative
        outcomes = [(0.2, 0.001)] * positive + [(-0.2, 0.001)] * negative + [(0.2, 0.5)] * rest
        expected[terms[row["contrast"]], row["model"]] = (
            int(row["significant"]),
            positive,
            negative,
            int(row["settings"]),
        )
        for setting, (estimate, p_value) in zip(settings, outcomes, strict=True):
            rows.append(
                fitted(terms[row["contrast"]], estimate, p_value, row["model"], setting=setting)
            )
    found = {
        (row["term"], row["model"]): tuple(
            row[key] for key in ("significant", "positive", "negative", "settings")
        )
        for row in tabulate_signals(frame_of(rows), LABELS).iter_rows(named=True)
    }
    assert len(found) == 28
    assert found == expected


# ------------------------------------------------------------------------------- encoders, levels


@pytest.mark.parametrize("design", [LABELS, NAMES], ids=["labels", "names"])
@pytest.mark.parametrize("seed", [1, 2])
def test_agreement_of_encoders_is_what_counting_by_hand_gives(design, seed):
    rows = random_fits(design, seed)
    table = compare_encoders(frame_of(rows), design)
    assert table.select("level", "encoder").rows() == [
        (level, encoder)
        for level in ("text", "cell", "pairwise")
        for encoder in ("second", "third")
    ]
    for row in table.iter_rows(named=True):
        first = by_cell(rows, "first", row["level"], design.greedy_is_anchor)
        other = by_cell(rows, row["encoder"], row["level"], design.greedy_is_anchor)
        both = [(first[cell], other[cell]) for cell in first if cell in other]
        significant = [(a[0], b[0]) for a, b in both if a[1] < 0.05]
        assert row["primary"] == "first"
        assert row["cells"] == len(both)
        assert row["sign_agreement"] == pytest.approx(agree([(a[0], b[0]) for a, b in both]))
        assert row["significant_cells"] == len(significant)
        assert row["sign_agreement_significant"] == pytest.approx(agree(significant))
        estimates = np.array([(a[0], b[0]) for a, b in both]).T
        assert row["pearson_r"] == pytest.approx(np.corrcoef(estimates)[0, 1])


@pytest.mark.parametrize("design", [LABELS, NAMES], ids=["labels", "names"])
def test_agreement_of_levels_is_what_counting_by_hand_gives(design):
    rows = random_fits(design, seed=3)
    table = compare_levels(frame_of(rows), design)
    mains = [term for term in inputs.list_terms(design)[1:] if ":" not in term]
    assert table["term"].to_list() == [None, *mains] * 2 * 3
    assert table["level"].unique().sort().to_list() == ["cell", "text"]
    for row in table.iter_rows(named=True):
        pairs = by_cell(rows, row["encoder"], "pairwise", design.greedy_is_anchor)
        means = by_cell(rows, row["encoder"], row["level"], design.greedy_is_anchor)
        both = [
            (pairs[cell], means[cell])
            for cell in pairs
            if cell in means and row["term"] in (None, cell[-1])
        ]
        significant = [(a, b) for a, b in both if a[1] < 0.05]
        retained = [b for _, b in significant if b[1] < 0.05]
        assert row["cells"] == len(both)
        assert row["sign_agreement"] == pytest.approx(agree([(a[0], b[0]) for a, b in both]))
        assert row["pairwise_significant"] == len(significant)
        assert row["retained"] == len(retained)
        assert row["retained_share"] == pytest.approx(len(retained) / len(significant))
        estimates = np.array([(a[0], b[0]) for a, b in both]).T
        assert row["pearson_r"] == pytest.approx(np.corrcoef(estimates)[0, 1])


def test_the_greedy_cell_of_names_is_paired_though_it_has_no_top_p():
    greedy = ("0", None)
    fits = frame_of(
        [
            fitted("group[Asian]", 0.2, 0.01, encoder="a", setting=greedy),
            fitted("group[Asian]", 0.1, 0.01, encoder="b", setting=greedy),
        ]
    )
    (row,) = compare_encoders(fits, NAMES).to_dicts()
    assert (row["cells"], row["sign_agreement"], row["pearson_r"]) == (1, 1.0, None)


def test_one_encoder_has_nothing_to_be_compared_with():
    fits = frame_of([fitted("race[Asian]", 0.2, 0.01)])
    assert compare_encoders(fits, LABELS).height == 0
    empty = pl.DataFrame(schema={"level": pl.String, "scope": pl.String, "cells": pl.Int64})
    assert statements.describe_encoders(empty) is None


def test_without_a_significant_estimate_the_share_retained_is_unknown():
    rows = [fitted("race[Asian]", 0.2, 0.6, level=level) for level in ("pairwise", "cell")]
    row = compare_levels(frame_of(rows), LABELS).row(0, named=True)
    assert (row["pairwise_significant"], row["retained_share"]) == (0, None)
    assert statements.describe_levels(compare_levels(frame_of(rows), LABELS)) is None


@needs_published
def test_the_papers_default_betas_keep_their_sign_but_for_the_one_it_names():
    # Table 3: with all-distilroberta-v1 one sign of 21 differs, GPT-OSS's Hispanic effect.
    rows = [
        fitted(f"group[{row['contrast']}]", float(row["beta"]), 0.001, row["model"], row["encoder"])
        for row in published("table3_default_betas_by_encoder")
    ]
    table = compare_encoders(frame_of(rows), NAMES)
    shares = dict(table.select("encoder", "sign_agreement").iter_rows())
    assert table["cells"].to_list() == [21, 21]
    assert shares["all-MiniLM-L12-v2"] == 1.0
    assert shares["all-distilroberta-v1"] == pytest.approx(20 / 21)


def published_cell_betas(paradigm: str) -> list[dict[str, Any]]:
    factors = {"Woman": "gender[woman]"}
    return [
        fitted(
            factors.get(row["contrast"], f"race[{row['contrast']}]")
            if paradigm == "labels"
            else f"group[{row['contrast']}]",
            float(row["beta"]),
            P_OF_STARS[int(row["stars"])],
            row["model"],
            level="cell",
        )
        for row in published("table5_cell_level_betas")
        if row["paradigm"] == paradigm
    ]


@needs_published
def test_the_papers_cell_level_betas_give_the_counts_that_it_tells_in_words():
    # Appendix J: Hispanic (label) significant in six of seven models, positive in five and
    # reversed in Qwen; Black names less homogeneous in six of seven; Qwen's four all significant.
    labels = tabulate_signals(frame_of(published_cell_betas("labels")), LABELS)
    hispanic = labels.filter(pl.col("term") == "race[Hispanic]")
    assert hispanic.select(pl.col("positive").sum(), pl.col("negative").sum()).row(0) == (5, 1)
    assert labels.filter(pl.col("model") == "Qwen")["negative"].to_list() == [1, 1, 1, 1]
    names = tabulate_signals(frame_of(published_cell_betas("names")), NAMES)
    assert names.filter(pl.col("term") == "group[Black]")["negative"].sum() == 6


@needs_published
def test_the_papers_stars_come_back_at_the_default_setting():
    rows = published_cell_betas("labels")
    table = tabulate_default(frame_of(rows), LABELS)
    starred = starred_estimates(table)
    labels = [each.label for each in main_contrasts_of(rows)]
    assert labels[0] == "African (vs. White)"
    terms = [each.term for each in main_contrasts_of(rows)]
    found = {
        model: [starred["e", "cell", model, term] for term in terms]
        for model in ("Mistral", "Qwen")
    }
    assert found["Mistral"] == ["0.20*", "0.57***", "0.96***", "0.28**"]
    assert found["Qwen"] == ["−1.64***", "−0.81***", "−0.65**", "−1.17***"]


def main_contrasts_of(rows: list[dict[str, Any]]):
    from llm_variability.report.comparisons import main_contrasts

    return main_contrasts(frame_of(rows), LABELS)


@needs_published
def test_the_papers_default_estimates_have_one_sign_at_both_levels_for_its_headline_contrasts():
    # Tables 3 and 5 share Hispanic and Asian (labels) and Black (names): 21 betas, all alike.
    pairs = [
        fitted(f"group[{row['contrast']}]", float(row["beta"]), 0.001, row["model"])
        for row in published("table3_default_betas_by_encoder")
        if row["encoder"] == "all-mpnet-base-v2"
    ]
    terms = {(row["model"], row["term"]) for row in pairs}
    means = [
        fitted(
            f"group[{row['contrast']}]",
            float(row["beta"]),
            P_OF_STARS[int(row["stars"])],
            row["model"],
            level="cell",
        )
        for row in published("table5_cell_level_betas")
        if (row["paradigm"] == "names") == (row["contrast"] == "Black")
    ]
    means = [row for row in means if (row["model"], row["term"]) in terms]
    overall = compare_levels(frame_of([*pairs, *means]), NAMES).row(0, named=True)
    assert (overall["cells"], overall["sign_agreement"]) == (21, 1.0)
    # Without a star in table 5: Asian of Granite and GPT-OSS, Hispanic of GPT-OSS, Black of
    # Mistral; all 21 are significant on pairs.
    assert (overall["pairwise_significant"], overall["retained"]) == (21, 17)


# ------------------------------------------------------------------------------- by temperature


def test_estimates_are_averaged_over_top_p_and_temperatures_ascend():
    rows = [
        fitted("race[Asian]", 0.1, 0.5, setting=("0.5", "0.2")),
        fitted("race[Asian]", 0.5, 0.5, setting=("0.5", "1.0")),
        fitted("race[Asian]", 0.9, 0.5, setting=("1.0", "1.0")),
        fitted("race[Asian]:gender[woman]", 0.9, 0.5, setting=("1.0", "1.0")),
    ]
    table = average_by_temperature(frame_of(rows), LABELS)
    assert table.select("contrast", "temperature", "settings").rows() == [
        ("Asian (vs. White)", "0.5", 2),
        ("Asian (vs. White)", "1.0", 1),
    ]
    assert table["mean_estimate"].to_list() == pytest.approx([0.3, 0.9])


def test_the_caption_of_estimates_by_temperature_counts_models_that_keep_their_direction():
    betas = {"up": (0.1, 0.2), "down": (-0.1, -0.2), "both": (-0.1, 0.2)}
    rows = [
        fitted("race[Asian]", beta, 0.5, model, setting=(temperature, "1.0"))
        for model, two in betas.items()
        for temperature, beta in zip(("0.5", "1.0"), two, strict=True)
    ]
    text = statements.describe_trend(average_by_temperature(frame_of(rows), LABELS), "cell", "e")
    assert "positive at every temperature in 1 of 3 models, negative at every one in 1" in text


def test_one_temperature_is_not_called_every_temperature():
    rows = [
        fitted("race[Asian]", beta, 0.5, model)
        for model, beta in (("up", 0.1), ("down", -0.1), ("high", 0.4))
    ]
    text = statements.describe_trend(average_by_temperature(frame_of(rows), LABELS), "text", "e")
    assert text.endswith("positive at temperature 1.0 in 2 of 3 models, negative there in 1.")
    alone = statements.describe_trend(average_by_temperature(frame_of(rows[1:2]), LABELS), "x", "e")
    assert alone.endswith("Asian (vs. White) negative at temperature 1.0.")


# --------------------------------------------------------------------------------- default setting

grids = st.tuples(
    st.lists(st.sampled_from(["0", "0.5", "0.7", "1.0", "1.3", "2.0"]), min_size=1, unique=True),
    st.lists(st.sampled_from(["0.2", "0.8", "0.95", "1.0"]), min_size=1, unique=True),
)


@given(grids, st.sampled_from([LABELS, NAMES]))
def test_the_default_setting_is_of_the_grid_and_none_is_nearer(grid, design):
    settings = inputs.list_settings(grid)
    fitted_ones = [each for each in settings if not (each[0] == "0" and design.greedy_is_anchor)]
    chosen = default_setting(settings, design)
    if not fitted_ones:
        assert chosen is None
        return
    assert chosen in fitted_ones
    nearest = min(abs(float(temperature) - 1) for temperature, _ in fitted_ones)
    assert abs(float(chosen[0]) - 1) == nearest
    same = [float(top_p or 1) for temperature, top_p in fitted_ones if temperature == chosen[0]]
    assert float(chosen[1] or 1) == max(same)
    if ("1.0", "1.0") in settings:
        assert chosen == ("1.0", "1.0")


def test_of_two_temperatures_as_near_to_1_the_lower_stands_for_it_and_the_page_says_so():
    settings = [("1.5", "1.0"), ("0.5", "0.9"), ("0.5", "0.2")]
    chosen = default_setting(settings, LABELS)
    assert chosen == ("0.5", "0.9")
    told = statements.describe_setting(chosen)
    assert "no temperature 1 with top-p 1" in told
    assert "temperature 0.5 and top-p 0.9 (T0.5-P0.9) stands for the default" in told
    assert statements.describe_setting(("1.0", "1.0")) == (
        "The default setting is temperature 1.0 and top-p 1.0."
    )


@pytest.mark.parametrize(
    ("p_value", "stars"),
    [(0.0009, 3), (0.001, 2), (0.0099, 2), (0.01, 1), (0.0499, 1), (0.05, 0)],
)
def test_a_p_value_has_a_star_for_each_bound_that_it_is_below(p_value, stars):
    table = tabulate_default(frame_of([fitted("race[Asian]", 0.1, p_value)]), LABELS)
    assert table["stars"].to_list() == [stars]


def test_a_fit_that_is_missing_at_the_default_setting_is_told_with_its_reason():
    rows = [
        fitted("race[Asian]", 0.2, 0.01, "good"),
        fitted("race[Asian]", 9.9, 0.01, "loose", converged=False),
        inputs.fit_row("labels", "bad", "e", "pairwise", ("1.0", "1.0"), reason="no variance"),
        fitted("race[Asian]", 0.7, 0.01, "bad", setting=("0.5", "1.0")),
    ]
    table = tabulate_default(frame_of(rows), LABELS)
    assert table.select("model", "estimate", "reason").rows() == [
        ("good", 0.2, None),
        ("loose", None, "the fit did not converge"),
        ("bad", None, "no variance"),
    ]
    shown = arrange_default(table, list(main_contrasts_of(rows)), ["good", "loose", "bad"])
    assert shown is not None
    (contrast,) = shown["contrasts"]
    assert (contrast.label, shown["tests"]) == ("Asian (vs. White)", [PAIRWISE])
    cells = [row["cells"][0] for row in shown["rows"]]
    assert (cells[0]["estimate"], cells[1:]) == ("0.20", [None, None])


# -------------------------------------------------------------------------- scopes and codings


def test_every_level_and_scope_of_the_fits_is_a_test_of_the_report():
    assert {test.scope for test in TEXT_TESTS} == set(SCOPES)
    assert {(test.level, test.scope) for test in LEVEL_TESTS} == set(inputs.TESTS)
    for test in LEVEL_TESTS:
        assert find_test(test.level, test.scope) is test
    with pytest.raises(ValueError, match="level text, scope None: no test of the report"):
        find_test("text", None)


def test_tests_are_listed_as_the_page_shows_them_text_first():
    rows = [fitted("race[Asian]", 0.1, 0.5, level=level) for level in ("pairwise", "cell", "text")]
    assert list_tests(frame_of(rows)) == [TEXT_FIXED, CELL, PAIRWISE]


def test_agreement_takes_the_published_coding_alone():
    rows = [
        fitted("race[Asian]", sign * beta, 0.01, encoder=encoder, level="text", coding=coding)
        for coding, beta in (("treatment", 0.2), ("marginal", 0.3))
        for encoder, sign in (("a", 1), ("b", 1 if coding == "treatment" else -1))
    ]
    (row,) = compare_encoders(frame_of(rows), LABELS).to_dicts()
    assert (row["cells"], row["sign_agreement"], row["coding"]) == (1, 1.0, "treatment")


def test_the_default_table_keeps_scopes_and_codings_apart():
    rows = [
        fitted("race[Asian]", 0.2, p_value, level="text", scope=scope, coding=coding)
        for p_value, (scope, coding) in enumerate(
            itertools.product(SCOPES, ("treatment", "marginal"))
        )
    ]
    table = tabulate_default(frame_of(rows), LABELS)
    assert table.select("scope", "coding", "p_value").rows() == [
        ("formats fixed", "treatment", 0.0),
        ("formats fixed", "marginal", 1.0),
        ("formats random", "treatment", 2.0),
        ("formats random", "marginal", 3.0),
    ]


# ------------------------------------------------------------------------------- other analyses


def beside(*pairs: tuple[float, float, float, float], **given: Any) -> pl.DataFrame:
    """Estimates at equal length beside main ones, a setting each: estimate and p of both."""
    rows = []
    for place, (main, main_p, other, other_p) in enumerate(pairs):
        setting = ("1.0", f"0.{place + 1}")
        common: dict[str, Any] = {"level": "text", "setting": setting, **given}
        rows.append(fitted("race[Asian]", main, main_p, p_holm=4 * main_p, **common))
        rows.append(
            fitted("race[Asian]", other, other_p, p_holm=4 * other_p, analysis="length", **common)
        )
    return set_beside_main(frame_of(rows), LABELS)


def test_an_analysis_stands_beside_the_main_estimate_of_the_same_setting():
    table = beside((0.4, 0.01, 0.3, 0.02), (0.1, 0.5, -0.1, 0.6))
    assert table.select("estimate", "main_estimate", "p_value", "main_p_value").rows() == [
        (0.3, 0.4, 0.02, 0.01),
        (-0.1, 0.1, 0.6, 0.5),
    ]


def test_changes_of_sign_and_significance_are_counted_and_told():
    # Kept (after Holm too); lost; new; sign changed, never significant.
    table = beside(
        (0.4, 0.001, 0.3, 0.002),
        (0.2, 0.03, 0.1, 0.2),
        (0.1, 0.2, 0.3, 0.03),
        (0.1, 0.5, -0.1, 0.6),
    )
    (row,) = count_changes(table)
    counts = ("estimates", "same_sign", "main", "here", "both", "main_holm", "both_holm")
    assert tuple(row[name] for name in counts) == (4, 3, 2, 2, 1, 1, 1)
    assert describe_change(table) == (
        "At equal length: in these formats 1 of 2 significant estimates stay so (after Holm 1 of"
        " 1), 1 other becomes so, and 1 of 4 changes sign."
    )


def test_an_analysis_without_any_estimate_is_told_with_its_reason():
    row = inputs.fit_row(
        "labels", "m", "e", "text", ("1.0", "1.0"), analysis="untruncated", reason="too few texts"
    )
    table = set_beside_main(frame_of([row]), LABELS)
    assert describe_change(table) == (
        "Uncut texts only: no estimate in any setting. In T1.0-P1.0: too few texts."
    )


def test_reasons_that_count_are_told_as_a_range_over_settings():
    reasons = {
        "0.8": "fewer than four texts in a / x (0), a / y (3), b / x (1) and 14 more;"
        " 99 of 192 texts were not cut",
        "1.0": "fewer than four texts in a / x (2), a / y (3); 109 of 192 texts were not cut",
    }
    rows = [
        inputs.fit_row(
            "labels", "m", "e", "text", ("1.0", top_p), analysis="untruncated", reason=reason
        )
        for top_p, reason in reasons.items()
    ]
    assert describe_change(set_beside_main(frame_of(rows), LABELS)) == (
        "Uncut texts only: no estimate in any setting: fewer than four texts in 2 to 17 format ×"
        " groups, 99 to 109 of 192 texts not cut. In T1.0-P0.8: " + reasons["0.8"] + "."
    )


# ------------------------------------------------------------------------------------------ marks


def test_a_standard_error_of_formats_below_that_of_the_same_contrasts_texts_is_marked():
    def pair(term: str, of_texts: float, of_formats: float | None) -> list[dict[str, Any]]:
        return [
            fitted(term, 0.4, 0.01, level="text", scope=scope, std_error=error, p_holm=0.2)
            for scope, error in zip(SCOPES, (of_texts, of_formats), strict=True)
        ]

    table = frame_of(
        [*pair("race[Asian]", 0.2, 0.1), *pair("gender[woman]", 0.1, 0.2)]
        + pair("race[African]", 0.1, None)
    )
    marked = mark_estimates(table)
    assert marked["small_error"].to_list() == [False, True, False, False, False, False]
    assert count_small_errors(marked) == (1, 2)
    assert marked["starred"].all() and not mark_estimates(table, "holm")["starred"].any()


def test_stars_are_of_the_p_values_asked_for():
    table = tabulate_default(
        frame_of([fitted("race[Asian]", 0.4, 0.0005, level="text", p_holm=0.03)]), LABELS
    )
    assert starred_estimates(mark_estimates(table)).popitem()[1] == "0.40***"
    assert starred_estimates(mark_estimates(table, "holm")).popitem()[1] == "0.40*"


def test_values_of_diversity_are_averaged_over_blocks_with_equal_weights():
    values = pl.DataFrame(
        {
            "format": ["a", "b", "c"],
            "race": ["Asian"] * 3,
            "gender": ["man"] * 3,
            "temperature": ["1.0"] * 3,
            "top_p": ["1.0"] * 3,
            "measure": ["distinct-1"] * 3,
            "value": [0.2, 0.6, None],
            "n_texts": [50, 4, 1],
        }
    )
    (row,) = average_diversity(values, LABELS).to_dicts()
    assert (row["value"], row["blocks"], row["texts"]) == (pytest.approx(0.4), 2, 1)


# ------------------------------------------------------------------------------------------ names


def test_the_names_of_a_study_are_listed_by_group_with_their_overlap():
    table = list_selection(inputs.list_selection("none"))
    black, white = table.row(0, named=True), table.row(3, named=True)
    assert (black["group"], black["fewest"], black["reference"], black["overlap"]) == (
        "Black",
        3_963,
        "White",
        0.08,
    )
    assert (white["reference"], white["overlap"], white["flagged"]) == (None, None, 0)
    assert table["flagged"].to_list() == [0, 0, 2, 0]


def test_a_list_of_names_without_counts_has_no_bearers():
    selection = inputs.list_selection("none")
    for group in selection["groups"]:
        group |= {"fewest": None, "median": None, "most": None}
    table = list_selection(selection | {"overlap": []})
    assert table["fewest"].null_count() == table["overlap"].null_count() == 4
