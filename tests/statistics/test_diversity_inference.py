"""Contrasts of any measure: by hand, with means whose standard errors are known, by simulation."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest
from scipy import stats

from llm_variability.fits.measure_level import Measured, MeasuredSetting, fit_measure
from llm_variability.fits.text_variance import jackknife_deviations, jackknife_variance
from llm_variability.tables import FITS, Design, Factor

BLOCKS = ("story", "essay", "poem")
LABELS = Design(
    "format",
    (Factor("race", ("White", "Asian"), "White"), Factor("gender", ("man", "woman"), "man")),
    blocks=BLOCKS,
)
NAMES = Design(
    "format",
    (Factor("group", ("White", "Black"), "White"),),
    greedy_is_anchor=False,
    blocks=BLOCKS,
    unit="name",
)
KEYS = [(b, *g) for b in BLOCKS for g in product(("White", "Asian"), ("man", "woman"))]
SETTING = ("0.5", "0.9")


def measure_mean(values: np.ndarray) -> Measured:
    """The mean as a measure: its jackknife variance is the textbook one, s^2 / n, exactly."""
    n = len(values)
    return Measured(float(values.mean()), (values.sum() - values) / (n - 1))


def draw(keys: list, seed: int = 1, n: int = 7) -> dict[tuple, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {key: rng.gamma(2, size=n) + i for i, key in enumerate(keys)}


def setting_of(values: dict, units: dict | None = None) -> MeasuredSetting:
    measured = {key: measure_mean(each) for key, each in values.items()}
    return MeasuredSetting({key: len(each) for key, each in values.items()}, measured, units)


def fit(setting: MeasuredSetting, design: Design, at: tuple = SETTING) -> pl.DataFrame:
    return fit_measure(
        {at: setting}, design, study="s", model="m", analysis="diversity", measure="self-BLEU"
    )


def row_of(fits: pl.DataFrame, scope: str, coding: str, term: str) -> dict:
    return fits.filter(
        pl.col("scope") == scope, pl.col("coding") == coding, pl.col("term") == term
    ).row(0, named=True)


CONTRASTS = {
    ("treatment", "Intercept"): {("White", "man"): 1},
    ("treatment", "race[Asian]"): {("Asian", "man"): 1, ("White", "man"): -1},
    ("marginal", "race[Asian]"): {
        ("Asian", "man"): 0.5,
        ("Asian", "woman"): 0.5,
        ("White", "man"): -0.5,
        ("White", "woman"): -0.5,
    },
    ("interaction", "race[Asian]:gender[woman]"): {
        ("Asian", "woman"): 1,
        ("Asian", "man"): -1,
        ("White", "woman"): -1,
        ("White", "man"): 1,
    },
}


@pytest.mark.parametrize("contrast", CONTRASTS, ids=" ".join)
def test_fixed_formats_add_up_the_variances_of_means(contrast: tuple) -> None:
    values, weights = draw(KEYS), CONTRASTS[contrast]
    parts = [
        (weight**2 / 9 * values[block, *group].var(ddof=1) / 7, 6)
        for group, weight in weights.items()
        for block in BLOCKS
    ]
    error = math.sqrt(sum(part for part, _ in parts))
    estimate = sum(
        weight * values[block, *group].mean() / 3
        for group, weight in weights.items()
        for block in BLOCKS
    )
    df = error**4 / sum(part**2 / n for part, n in parts)
    row = row_of(fit(setting_of(values), LABELS), "formats fixed", *contrast)
    assert row["estimate"] == pytest.approx(estimate, abs=1e-12)
    assert row["std_error"] == pytest.approx(error, rel=1e-9)
    assert row["df"] == pytest.approx(df, rel=1e-9)
    assert row["p_value"] == pytest.approx(2 * stats.t.sf(abs(estimate / error), df), rel=1e-6)
    assert row["ci_high"] - estimate == pytest.approx(stats.t.ppf(0.975, df) * error, rel=1e-9)
    assert (row["outcome_mean"], row["outcome_sd"]) == (0, 1)


@pytest.mark.parametrize("contrast", CONTRASTS, ids=" ".join)
def test_random_formats_test_the_contrast_of_each_format(contrast: tuple) -> None:
    """A paired t-test over the formats."""
    values, weights = draw(KEYS), CONTRASTS[contrast]
    by_block = [
        sum(weight * values[block, *group].mean() for group, weight in weights.items())
        for block in BLOCKS
    ]
    expected = stats.ttest_1samp(by_block, 0)
    row = row_of(fit(setting_of(values), LABELS), "formats random", *contrast)
    assert row["statistic"] == pytest.approx(expected.statistic, rel=1e-9)
    assert row["p_value"] == pytest.approx(expected.pvalue, rel=1e-9)


def test_names_are_deleted_from_all_formats_at_once() -> None:
    """A mean over formats of means over the same names: its variance is that of names' means."""
    rng = np.random.default_rng(3)
    keys = list(product(BLOCKS, ("White", "Black")))
    typical = {group: rng.normal(size=6) for group in ("White", "Black")}
    values = {key: typical[key[1]] + 0.5 * rng.normal(size=6) for key in keys}
    units = {key: [f"{key[1]} {i}" for i in range(6)] for key in keys}
    by_name = {g: np.mean([values[b, g] for b in BLOCKS], axis=0) for g in ("White", "Black")}
    expected = stats.ttest_ind(by_name["Black"], by_name["White"], equal_var=False)
    row = row_of(
        fit(setting_of(values, units), NAMES), "formats fixed", "treatment", "group[Black]"
    )
    assert row["statistic"] == pytest.approx(expected.statistic, rel=1e-9)
    assert row["df"] == pytest.approx(expected.df, rel=1e-9)


def test_the_order_of_the_names_in_a_format_does_not_matter() -> None:
    keys = list(product(BLOCKS, ("White", "Black")))
    values = draw(keys, n=6)
    units = {key: [f"{key[1]} {i}" for i in range(6)] for key in keys}
    turned = {key: np.roll(each, i) for i, (key, each) in enumerate(values.items())}
    names = {key: list(np.roll(units[key], i)) for i, key in enumerate(keys)}
    first, second = (
        fit(setting_of(v, u), NAMES)["std_error"] for v, u in ((values, units), (turned, names))
    )
    assert first.to_list() == pytest.approx(second.to_list(), rel=1e-12)


def test_a_name_that_a_format_lacks_moves_only_the_others() -> None:
    """With one name in each format that no other has, nothing is shared."""
    keys = list(product(BLOCKS, ("White", "Black")))
    values = draw(keys, n=5)
    apart = {key: [f"{key} {i}" for i in range(5)] for key in keys}
    row = row_of(
        fit(setting_of(values, apart), NAMES), "formats fixed", "treatment", "group[Black]"
    )
    variance = sum(each.var(ddof=1) / 5 / 9 for each in values.values())
    assert row["std_error"] == pytest.approx(math.sqrt(variance), rel=1e-9)


def test_a_name_with_two_texts_in_a_format_is_a_reason() -> None:
    keys = list(product(BLOCKS, ("White", "Black")))
    units = {key: ["x", "x", "y", "z"] for key in keys}
    fits = fit(setting_of(draw(keys, n=4), units), NAMES)
    assert fits["reason"].unique().to_list() == [
        "name with several texts where one is compared: story / White / x"
    ]


def test_the_jackknife_is_that_of_the_mean_cosine() -> None:
    """The same deletions as level `text` makes, whose excess is not taken off here."""
    rng = np.random.default_rng(4)
    values, variance = {}, 0.0
    for key in KEYS:
        rows = rng.normal(size=(6, 3)) + 1
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        sums = (rows @ rows.T).sum(axis=1) - 1
        mean = sums.sum() / 30
        values[key] = Measured(mean, mean + jackknife_deviations(sums))
        if key[1:] == ("White", "man"):
            variance += float(jackknife_variance(sums)) / 9
    setting = MeasuredSetting(dict.fromkeys(KEYS, 6), values)
    row = row_of(fit(setting, LABELS), "formats fixed", "treatment", "Intercept")
    assert row["std_error"] == pytest.approx(math.sqrt(variance), rel=1e-9)


def test_rows_are_those_of_a_fits_table_and_told_apart_by_their_keys() -> None:
    fits = fit(setting_of(draw(KEYS)), LABELS)
    assert fits.schema == {name: column.dtype for name, column in FITS.columns.items()}
    assert set(fits["analysis"]) == {"diversity"}
    assert set(fits["level"]) == {"text"}
    assert dict(zip(fits["scope"], fits["backend"], strict=True)) == {
        "formats fixed": "jackknife",
        "formats random": "format-clustered",
    }
    assert set(fits["n_observations"]) == {7 * 12}
    assert not fits.select("scope", "coding", "term").is_duplicated().any()


def test_simultaneous_intervals_are_wider_than_single_ones() -> None:
    fits = fit(setting_of(draw(KEYS)), LABELS).filter(pl.col("simultaneous_low").is_not_null())
    assert (fits["simultaneous_low"] <= fits["ci_low"] + 1e-9).all()
    assert (fits["simultaneous_high"] >= fits["ci_high"] - 1e-9).all()
    assert "Intercept" not in fits["term"].to_list()


def small(values: dict) -> dict:
    return values | {("essay", "Asian", "woman"): np.array([1.0, 2, 3])}


def lacking(values: dict) -> dict:
    return {key: each for key, each in values.items() if key != ("essay", "Asian", "woman")}


def only_men(values: dict) -> dict:
    return {key: each for key, each in values.items() if key[2] == "man"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (small, "fewer than four texts in essay / Asian / woman (3)"),
        (lacking, "fewer than four texts in essay / Asian / woman (0)"),
        (only_men, "no text was measured for gender woman"),
        (lambda values: {}, "no text was measured"),
    ],
)
def test_what_lacks_texts_is_a_row_with_the_reason_a_scope(change: object, reason: str) -> None:
    fits = fit(setting_of(change(draw(KEYS))), LABELS)  # type: ignore[operator]
    assert fits["reason"].to_list() == [reason, reason]
    assert fits["estimate"].is_null().all()
    assert not fits["converged"].any()


def test_greedy_anchors_have_the_reason_of_the_other_levels() -> None:
    fits = fit(setting_of(draw(KEYS)), LABELS, ("0", None))
    assert all(reason.startswith("greedy anchor") for reason in fits["reason"])


def test_greedy_decoding_that_is_no_anchor_is_estimated() -> None:
    design = replace(LABELS, greedy_is_anchor=False)
    assert fit(setting_of(draw(KEYS)), design, ("0", None))["converged"].all()


def test_one_format_is_no_sample_of_formats() -> None:
    design = replace(LABELS, blocks=("story",))
    fits = fit(setting_of({k: v for k, v in draw(KEYS).items() if k[0] == "story"}), design)
    assert fits.filter(pl.col("scope") == "formats fixed")["converged"].all()
    assert fits.filter(pl.col("scope") == "formats random")["reason"].to_list() == [
        "only one format: a sample of them needs at least two"
    ]


def test_a_measure_that_is_the_same_in_all_groups_has_no_variance() -> None:
    fits = fit(setting_of(dict.fromkeys(KEYS, np.ones(7))), LABELS)
    assert [reason.split(":")[0] for reason in fits["reason"]] == ["no variance", "no variance"]


def test_a_contrast_of_two_constant_groups_has_no_variance_and_the_others_have() -> None:
    values = draw(KEYS)
    for block, gender in product(BLOCKS, ("man", "woman")):
        values[block, "White", gender] = np.ones(7)
    fits = fit(setting_of(values), LABELS)
    gender = row_of(fits, "formats fixed", "treatment", "gender[woman]")
    assert (gender["converged"], gender["estimate"]) == (False, None)
    assert gender["reason"].startswith("no variance")
    assert row_of(fits, "formats fixed", "treatment", "race[Asian]")["converged"]


def test_a_measure_without_a_value_says_where() -> None:
    setting = setting_of(draw(KEYS))
    broken = dict(setting.measured)
    broken["poem", "Asian", "man"] = Measured(0.5, np.array([0.5] * 6 + [np.nan]))
    fits = fit(replace(setting, measured=broken), LABELS)
    assert (
        fits["reason"].to_list()
        == ["no value: the texts of poem / Asian / man are too short for it"] * 2
    )


REASON = "no standard error"


@pytest.mark.parametrize(("design", "random"), [(LABELS, None), (NAMES, REASON)])
def test_without_a_jackknife_nothing_that_needs_one_is_tested(
    design: Design, random: str | None
) -> None:
    """Formats random needs one only where formats share their names."""
    keys = KEYS if design is LABELS else list(product(BLOCKS, ("White", "Black")))
    units = {key: [f"{key[1]} {i}" for i in range(7)] for key in keys}
    setting = setting_of(draw(keys), units)
    fits = fit(replace(setting, no_jackknife=REASON), design)
    reasons = {scope: set(part["reason"]) for (scope,), part in fits.group_by("scope")}
    assert reasons == {"formats fixed": {REASON}, "formats random": {random}}
    whole = fit(setting, design).filter(pl.col("scope") == "formats random")
    if random is None:
        assert fits.filter(pl.col("scope") == "formats random").equals(whole)


def test_skewed_texts_without_a_difference_are_rejected_at_the_level() -> None:
    """800 null studies of a ratio of means; 5% has a Monte Carlo standard error of 0.8 points."""
    rng = np.random.default_rng(8)
    design = Design("format", (Factor("g", ("A", "B"), "A"),), blocks=BLOCKS)
    keys = list(product(BLOCKS, ("A", "B")))
    rejected = {"formats fixed": 0, "formats random": 0}
    for _ in range(800):
        measured = {}
        for key in keys:
            x, y = rng.gamma(2, size=(2, 30)) + 1
            measured[key] = Measured(float(x.sum() / y.sum()), (x.sum() - x) / (y.sum() - y))
        fits = fit(MeasuredSetting(dict.fromkeys(keys, 30), measured), design)
        for scope in rejected:
            rejected[scope] += row_of(fits, scope, "treatment", "g[B]")["p_value"] < 0.05
    assert all(0.025 <= count / 800 <= 0.075 for count in rejected.values()), rejected
