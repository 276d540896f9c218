"""Curves of a study of code: means over tasks, rescaling, intervals, summaries, differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy import stats

from llm_variability.curves.families import adjust_contrasts
from llm_variability.curves.points import build_panels, order_sets
from llm_variability.curves.resampling import (
    draw_weights,
    expanded_tail,
    find_interval,
    jackknife,
)
from llm_variability.curves.tabulation import CurveTables, tabulate_curves
from llm_variability.tables_code import CURVE_CONTRASTS, CURVE_SUMMARIES, CURVES


def average(
    task: str,
    mean: float | None,
    comparison: str = "augmented",
    method: str = "keyboard",
    rate: str = "0.5",
    *,
    model: str = "m",
    variant: str = "0",
    n_pairs: int = 25,
    realised: float | None = None,
    measure: str = "tsed",
) -> dict[str, Any]:
    """Give a row of averages; ceiling and floor are of the unaltered prompt."""
    unaltered = comparison != "augmented"
    method, rate = ("original", "0") if unaltered else (method, rate)
    told = None if method == "paraphrase" else float(rate) if realised is None else realised
    return {
        "model": model,
        "measure": measure,
        "temperature": "0",
        "top_p": None,
        "set": task.partition("/")[0],
        "task": task,
        "augmentation": "original" if unaltered else f"{method}-{rate}",
        "method": method,
        "rate": rate,
        "variant": variant,
        "comparison": comparison,
        "prompt_id": f"{task}-{method}-{rate}-{variant}",
        "realised": told,
        "n_pairs": 0 if mean is None else n_pairs,
        "mean": mean,
    }


def make_frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(
        rows,
        schema={
            name: (
                pl.Int64
                if name == "n_pairs"
                else pl.Float64
                if name in ("realised", "mean")
                else pl.String
            )
            for name in rows[0]
        },
    )


def list_task(
    task: str,
    ceiling: float | None,
    floor: float | None,
    curve: dict[str, float | None],
    **given: Any,
) -> list[dict[str, Any]]:
    """Give a task's rows: its lines and a method's curve by nominal rate."""
    lines = {key: value for key, value in given.items() if key in ("model", "measure")}
    return [
        average(task, ceiling, "ceiling", **lines),
        average(task, floor, "floor", **lines),
        *(average(task, mean, rate=rate, **given) for rate, mean in curve.items()),
    ]


def draw_study(
    seed: int,
    sizes: dict[str, int],
    models: Sequence[str] = ("m",),
    methods: Sequence[str] = ("keyboard",),
) -> pl.DataFrame:
    """Draw a study in which similarity falls with the rate."""
    rows = []
    for model in models:
        for name, size in sizes.items():
            # A stream for each, so that a model or set that is added leaves the others' data alone.
            rng = np.random.default_rng([seed, *model.encode(), 0, *name.encode()])
            for i in range(size):
                ceiling, floor = rng.uniform(0.7, 1), rng.uniform(0.1, 0.3)
                task = f"{name}/{i:02}"
                rows += [
                    average(task, ceiling, "ceiling", model=model),
                    average(task, floor, "floor", model=model),
                ]
                for method in methods:
                    decay = rng.uniform(1, 5)
                    for rate in ("0.1", "0.2", "0.4", "0.7", "1.0"):
                        height = floor + (ceiling - floor) * np.exp(-decay * float(rate))
                        mean = height + rng.normal(scale=0.05)
                        rows.append(average(task, mean, method=method, rate=rate, model=model))
    return make_frame(rows)


def tabulate(averages: pl.DataFrame, resamples: int = 400, **given: Any) -> CurveTables:
    return tabulate_curves(averages, study="s", seed=1, resamples=resamples, **given)


def find(table: pl.DataFrame, **values: Any) -> dict[str, Any]:
    """Give the only row with these values."""
    found = table.filter(
        *(pl.col(name).eq_missing(pl.lit(value)) for name, value in values.items())
    )
    assert found.height == 1, f"{found.height} rows of {values}"
    return found.row(0, named=True)


# ------------------------------------------------------------------------------------ points


def test_variants_of_a_task_have_equal_weight_whatever_their_number_of_pairs() -> None:
    rows = list_task("a/1", 0.9, 0.1, {})
    rows += [average("a/1", 0.5, n_pairs=25), average("a/1", 0.9, variant="1", n_pairs=1)]
    row = find(tabulate(make_frame(rows)).curves, set=None, comparison="augmented", rate="0.5")
    assert row["estimate"] == pytest.approx(0.7)
    assert row["n_pairs"] == 26


def test_the_realised_rate_is_that_of_the_variants_that_were_compared() -> None:
    rows = list_task("a/1", 0.9, 0.1, {})
    rows += [average("a/1", 0.5, realised=0.4), average("a/1", None, variant="1", realised=0.6)]
    row = find(tabulate(make_frame(rows)).curves, set=None, comparison="augmented", rate="0.5")
    assert row["realised"] == pytest.approx(0.4)


def test_tasks_without_a_pair_are_counted_as_asked_alone() -> None:
    rows = list_task("a/1", 0.9, 0.1, {"0.5": 0.6}) + list_task("a/2", 0.9, 0.1, {"0.5": None})
    row = find(tabulate(make_frame(rows)).curves, set="a", comparison="augmented", rate="0.5")
    assert (row["n_tasks"], row["n_tasks_asked"], row["estimate"]) == (1, 2, pytest.approx(0.6))


def test_a_prompt_that_is_there_twice_is_refused() -> None:
    rows = list_task("a/1", 0.9, 0.1, {"0.5": 0.6})
    with pytest.raises(ValueError, match="keyboard-0.5, task a/1 .* twice"):
        list(build_panels(make_frame([*rows, rows[-1]])))


def test_all_bands_of_paraphrases_are_told_also_the_empty_ones() -> None:
    rows = list_task("a/1", 0.9, 0.1, {"low": 0.8, "high": 0.5}, method="paraphrase")
    tables = tabulate(make_frame(rows))
    bands = tables.curves.filter(pl.col("set").is_null(), pl.col("method") == "paraphrase")
    assert bands["rate"].to_list() == ["low", "medium", "high"]
    assert bands["n_tasks_asked"].to_list() == [1, 0, 1]
    assert bands["realised"].null_count() == 3
    assert bands["reason"][1] == "no pair of programs"
    assert tables.summaries.height == 0


def test_a_curve_begins_with_the_ceiling() -> None:
    curves = tabulate(draw_study(1, {"a": 6})).curves
    ceiling = find(curves, set="a", comparison="ceiling")
    start = find(curves, set="a", comparison="augmented", rate="0")
    assert (start["realised"], start["rescaled"]) == (0, 1)
    for name in ("estimate", "ci_low", "ci_high", "n_tasks", "n_pairs"):
        assert start[name] == ceiling[name]


def test_a_method_that_changes_texts_at_rate_0_keeps_that_point_beside_its_beginning() -> None:
    rows = list_task("a/1", 0.9, 0.1, {"0.1": 0.6}, method="nlpaug-synonym", realised=0.13)
    rows.append(average("a/1", 0.4, method="nlpaug-synonym", rate="0", realised=0.37))
    tables = tabulate(make_frame(rows))
    curve = tables.curves.filter(set="a", method="nlpaug-synonym")
    assert curve["rate"].to_list() == [None, "0", "0.1"]
    assert curve["realised"].to_list() == [0, 0.37, 0.13]
    # (0, 1), (0.13, 0.625), (0.37, 0.375): in the order of realised rates.
    area = np.trapezoid([1, 0.625, 0.375], [0, 0.13, 0.37]) / 0.37
    assert find(tables.summaries, set="a", summary="auc")["estimate"] == pytest.approx(area)


def test_sets_are_in_the_order_asked_for_then_by_name() -> None:
    assert order_sets(["b", "c", "a", "d"], ["d", "x", "b"]) == ["d", "b", "a", "c"]


# --------------------------------------------------------------------------------- rescaling


def test_ceiling_and_floor_are_those_of_the_tasks_that_have_a_pair_at_the_point() -> None:
    rows = list_task("a/1", 0.9, 0.1, {"0.1": 0.5, "0.5": 0.5})
    rows += list_task("a/2", 0.7, 0.3, {"0.1": 0.4, "0.5": None})
    rows += list_task("a/3", 0.8, 0.2, {"0.1": 0.6, "0.5": 0.3})
    curves = tabulate(make_frame(rows)).curves
    three = find(curves, set="a", comparison="augmented", rate="0.1")
    two = find(curves, set="a", comparison="augmented", rate="0.5")
    assert three["rescaled"] == pytest.approx((0.5 - 0.2) / (0.8 - 0.2))
    assert two["rescaled"] == pytest.approx((0.4 - 0.15) / (0.85 - 0.15))


def test_the_rescaled_ceiling_is_1_and_the_floor_0_with_nothing_uncertain() -> None:
    curves = tabulate(draw_study(2, {"a": 9, "b": 5})).curves
    columns = ["rescaled", "rescaled_low", "rescaled_high"]
    for comparison, value in (("ceiling", 1), ("floor", 0)):
        lines = curves.filter(comparison=comparison)
        assert lines.height == 3
        assert lines.select(columns).unique().rows() == [(value,) * 3]


@hypothesis_settings(max_examples=15, deadline=None)
@given(scale=st.floats(0.05, 20), shift=st.floats(-5, 5))
def test_rescaled_values_and_summaries_do_not_depend_on_the_unit_of_similarity(
    scale: float, shift: float
) -> None:
    study = draw_study(3, {"a": 6, "b": 5}, models=("m", "n"))
    plain = tabulate(study, 100)
    changed = tabulate(study.with_columns(pl.col("mean") * scale + shift), 100)
    rescaled = ["rescaled", "rescaled_low", "rescaled_high"]
    assert_frame_equal(plain.curves.select(rescaled), changed.curves.select(rescaled), rel_tol=1e-6)
    assert_frame_equal(plain.summaries, changed.summaries, rel_tol=1e-6)
    alike = pl.col("summary").is_in(["auc", "half_life", "slope"])
    columns = ["estimate", "std_error", "p_value", "reason"]
    assert_frame_equal(
        plain.contrasts.filter(alike).select(columns),
        changed.contrasts.filter(alike).select(columns),
        rel_tol=1e-5,
    )


@pytest.mark.parametrize(
    ("ceilings", "reason"),
    [
        ([0.2, 0.1, 0.3, 0.2], r"the ceiling \(0.200\) is not above the floor \(0.300\)"),
        ([0.9, 0.1, 0.2, 0.2], r"above the floor \(0.300\) by less than 2 standard errors"),
    ],
)
def test_nothing_is_rescaled_where_the_ceiling_is_not_clearly_above_the_floor(
    ceilings: list[float], reason: str
) -> None:
    rows = [
        row
        for i, ceiling in enumerate(ceilings)
        for row in list_task(f"a/{i}", ceiling, 0.3, {"0.5": 0.3})
    ]
    tables = tabulate(make_frame(rows))
    point = find(tables.curves, set="a", comparison="augmented", rate="0.5")
    assert point["estimate"] == pytest.approx(0.3)
    assert point["rescaled"] is None
    assert tables.summaries["estimate"].null_count() == tables.summaries.height
    for told in (point["reason"], tables.summaries["reason"][0]):
        assert pl.Series([told]).str.contains(reason).item()


def test_one_task_of_several_is_not_enough_to_rescale_a_point() -> None:
    rows = [
        row
        for i in range(6)
        for row in list_task(f"a/{i}", 0.8, 0.3, {"0.2": 0.6, "0.5": 0.5 if i == 0 else None})
    ]
    tables = tabulate(make_frame(rows))
    assert find(tables.curves, set="a", comparison="augmented", rate="0.2")["rescaled"] is not None
    point = find(tables.curves, set="a", comparison="augmented", rate="0.5")
    assert point["estimate"] == pytest.approx(0.5)
    assert point["rescaled"] is None
    assert "one task of 6 has a pair here, a ceiling and a floor" in point["reason"]


def test_a_set_of_one_task_has_no_floor_and_says_so() -> None:
    tables = tabulate(make_frame(list_task("a/1", 0.9, None, {"0.5": 0.6})))
    point = find(tables.curves, set="a", comparison="augmented", rate="0.5")
    assert point["rescaled"] is None
    assert "no task has a pair here, a ceiling and a floor" in point["reason"]
    floor = find(tables.curves, set="a", comparison="floor")
    assert (floor["estimate"], floor["n_tasks"], floor["n_tasks_asked"]) == (None, 0, 1)


# --------------------------------------------------------------------------------- intervals


def test_the_interval_of_a_mean_is_scipys_percentile_interval_at_the_expanded_level() -> None:
    study = draw_study(4, {"a": 12})
    values = study.filter(comparison="augmented", rate="0.4")["mean"].to_numpy()
    row = find(tabulate(study, 20_000).curves, set="a", comparison="augmented", rate="0.4")
    theirs = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=20_000,
        confidence_level=1 - 2 * expanded_tail(12, 1),
        method="percentile",
        rng=np.random.default_rng(5),
    ).confidence_interval
    width = theirs.high - theirs.low
    assert row["ci_low"] == pytest.approx(theirs.low, abs=0.03 * width)
    assert row["ci_high"] == pytest.approx(theirs.high, abs=0.03 * width)


def test_the_rescaled_interval_is_scipys_for_the_ratio_of_paired_means() -> None:
    study = draw_study(5, {"a": 15})
    low = study.filter(comparison="floor")["mean"].to_numpy()
    high = study.filter(comparison="ceiling")["mean"].to_numpy()
    values = study.filter(comparison="augmented", rate="0.2")["mean"].to_numpy()

    def ratio(y: Any, c: Any, f: Any, axis: int = -1) -> Any:
        return (y.mean(axis) - f.mean(axis)) / (c.mean(axis) - f.mean(axis))

    theirs = stats.bootstrap(
        (values, high, low),
        ratio,
        paired=True,
        n_resamples=20_000,
        confidence_level=1 - 2 * expanded_tail(15, 1),
        method="percentile",
        rng=np.random.default_rng(6),
    ).confidence_interval
    row = find(tabulate(study, 20_000).curves, set="a", comparison="augmented", rate="0.2")
    width = theirs.high - theirs.low
    assert row["rescaled"] == pytest.approx(ratio(values, high, low))
    assert row["rescaled_low"] == pytest.approx(theirs.low, abs=0.03 * width)
    assert row["rescaled_high"] == pytest.approx(theirs.high, abs=0.03 * width)


@pytest.mark.parametrize(("n_tasks", "n_sets"), [(4, 1), (20, 1), (206, 3)])
def test_expanded_percentiles_of_normal_samples_are_the_interval_of_t(
    n_tasks: int, n_sets: int
) -> None:
    df = n_tasks - n_sets
    spread = np.sqrt(df / n_tasks)  # of bootstrap means, in standard errors
    end = -stats.norm.ppf(expanded_tail(n_tasks, n_sets)) * spread
    assert end == pytest.approx(stats.t.ppf(0.975, df))


def test_sets_are_drawn_within_themselves_and_independently_of_other_sets() -> None:
    sets = np.array(["a"] * 5 + ["b"] * 7)
    together = draw_weights(sets, 1, 50)
    assert (together[:, :5].sum(axis=1) == 5).all()
    assert (together[:, 5:].sum(axis=1) == 7).all()
    assert (together[:, 5:] == draw_weights(sets[5:], 1, 50)).all()
    assert (together != draw_weights(sets, 2, 50)).any()


def test_pooled_sets_have_the_variance_of_a_stratified_mean() -> None:
    rng = np.random.default_rng(7)
    values, sets = {}, []
    for name, centre, size in (("a", 0.2, 30), ("b", 0.8, 20)):
        for i in range(size):
            values[f"{name}/{i:02}"] = centre + rng.normal(scale=0.05)
            sets.append(name)
    rows = [r for task, y in values.items() for r in list_task(task, 0.95, 0.05, {"0.5": y})]
    row = find(
        tabulate(make_frame(rows), 20_000).curves, set=None, comparison="augmented", rate="0.5"
    )
    y = np.array(list(values.values()))
    within = [y[np.array(sets) == name].var(ddof=1) * n for name, n in (("a", 30), ("b", 20))]
    half = stats.t.ppf(0.975, 48) * np.sqrt(sum(within)) / 50
    assert (row["ci_high"] - row["ci_low"]) / 2 == pytest.approx(half, rel=0.05)


def test_three_tasks_have_an_estimate_and_no_interval() -> None:
    row = find(tabulate(draw_study(8, {"a": 3})).curves, set="a", comparison="ceiling")
    assert row["estimate"] is not None
    assert (row["ci_low"], row["ci_high"]) == (None, None)
    assert row["reason"] == "3 tasks with a pair: an interval needs 4"


def test_a_set_of_one_task_keeps_all_sets_together_from_having_an_interval() -> None:
    rows = draw_study(9, {"a": 6, "b": 1}).to_dicts()
    row = find(tabulate(make_frame(rows)).curves, set=None, comparison="ceiling")
    assert row["ci_low"] is None
    assert row["reason"] == "one task with a pair in set b: an interval needs 2 in each set"


def test_what_is_infinite_in_many_samples_has_no_upper_end() -> None:
    samples = np.concatenate([np.linspace(0.2, 0.6, 900), np.full(100, np.inf)])
    interval = find_interval(samples, np.array(["a"] * 30))
    assert interval.low == pytest.approx(0.21, abs=0.01)
    assert interval.high is None
    assert interval.reason == "no upper end: not reached in 10.0% of the bootstrap samples"


def test_what_is_undefined_in_many_samples_has_no_interval() -> None:
    samples = np.concatenate([np.linspace(0.2, 0.6, 970), np.full(30, np.nan)])
    interval = find_interval(samples, np.array(["a"] * 30))
    assert interval == (None, None, "undefined in 3.0% of the bootstrap samples")


# ------------------------------------------------------------------------------- differences


def test_the_jackknife_of_a_mean_is_the_t_test() -> None:
    values = np.random.default_rng(10).normal(0.3, 1, 12)
    without = (values.sum() - values) / 11
    test = jackknife(values.mean(), without, np.array(["a"] * 12))
    theirs = stats.ttest_1samp(values, 0)
    assert test is not None
    assert test.p_value == pytest.approx(theirs.pvalue)
    assert (test.df, test.std_error) == pytest.approx((11, stats.sem(values)))


def test_the_ceilings_of_two_models_are_compared_by_the_paired_t_test() -> None:
    study = draw_study(11, {"a": 9}, models=("m", "n"))
    row = find(tabulate(study).contrasts, kind="model", summary="ceiling", set=None)
    first, second = (
        study.filter(model=model, comparison="ceiling")["mean"].to_numpy() for model in ("m", "n")
    )
    theirs = stats.ttest_rel(first, second)
    interval = theirs.confidence_interval()
    assert (row["first"], row["second"]) == ("m", "n")
    assert row["estimate"] == pytest.approx(first.mean() - second.mean())
    assert row["p_value"] == pytest.approx(theirs.pvalue)
    assert (row["ci_low"], row["ci_high"]) == pytest.approx((interval.low, interval.high))


def test_the_floors_of_two_sets_are_compared_by_welchs_t_test_newer_less_older() -> None:
    study = draw_study(12, {"a": 9, "b": 6})
    row = find(tabulate(study, sets=["b", "a"]).contrasts, kind="set", summary="floor")
    newer, older = (
        study.filter(comparison="floor", set=name)["mean"].to_numpy() for name in ("a", "b")
    )
    theirs = stats.ttest_ind(newer, older, equal_var=False)
    assert (row["first"], row["second"], row["n_tasks"]) == ("a", "b", 15)
    assert row["estimate"] == pytest.approx(newer.mean() - older.mean())
    assert row["p_value"] == pytest.approx(theirs.pvalue)


def test_a_difference_of_areas_has_the_error_of_the_delta_method() -> None:
    study = draw_study(13, {"a": 160}, models=("m", "n"))
    tables = tabulate(study)
    row = find(tables.contrasts, kind="model", summary="auc", set=None)
    rates = np.array([0, 0.1, 0.2, 0.4, 0.7, 1.0])
    influence = 0
    for model, sign in (("m", 1), ("n", -1)):
        part = study.filter(model=model).sort("task", "comparison", "rate")
        c, f = (part.filter(comparison=line)["mean"].to_numpy() for line in ("ceiling", "floor"))
        y = part.filter(comparison="augmented")["mean"].to_numpy().reshape(160, 5)
        curve = np.column_stack([c, y])
        area = np.trapezoid(curve, rates, axis=1) - f
        range_ = c - f
        ratio = area.mean() / range_.mean()
        influence = influence + sign * (area - ratio * range_) / range_.mean()
    error = np.std(influence, ddof=1) / np.sqrt(160)
    assert row["std_error"] == pytest.approx(error, rel=0.02)


def test_methods_are_compared_over_the_rates_that_both_reach() -> None:
    rows = []
    for i in range(5):
        shift = 0.01 * i
        rows += list_task(f"a/{i}", 1 - shift, 0, {"0.4": 0.6 - shift, "1.0": 0.1})
        rows.append(average(f"a/{i}", 0.8 - shift, method="synonym", rate="1.0", realised=0.4))
    tables = tabulate(make_frame(rows))
    keyboard = find(tables.summaries, set=None, method="keyboard", summary="auc")
    top, at_04, at_1 = 0.98, 0.58, 0.1
    whole = np.trapezoid([1, at_04 / top, at_1 / top], [0, 0.4, 1])
    assert keyboard["estimate"] == pytest.approx(whole)
    row = find(tables.contrasts, kind="method", summary="auc", set=None)
    assert row["estimate"] == pytest.approx((1 + at_04 / top) / 2 - (1 + 0.78 / top) / 2)


def test_a_half_life_that_is_not_reached_has_no_number_and_no_difference() -> None:
    study = draw_study(14, {"a": 8}, models=("m", "n"))
    flat = pl.when(model="n", comparison="augmented").then(pl.col("mean") + 0.6)
    tables = tabulate(study.with_columns(flat.otherwise("mean").alias("mean")))
    row = find(tables.summaries, set=None, model="n", summary="half_life")
    assert (row["estimate"], row["std_error"], row["ci_high"]) == (None, None, None)
    assert row["reason"].startswith("not reached below 1")
    contrast = find(tables.contrasts, kind="model", summary="half_life", set=None)
    assert (contrast["estimate"], contrast["p_value"]) == (None, None)
    assert contrast["reason"] == "n: not reached below 1"


def test_a_difference_of_half_lives_has_the_bootstraps_error_for_paired_tasks() -> None:
    study = draw_study(21, {"a": 40}, models=("m", "n"))
    row = find(tabulate(study, 4000).contrasts, kind="model", summary="half_life", set=None)
    rates = np.array([0, 0.1, 0.2, 0.4, 0.7, 1.0])
    curves = []
    for model in ("m", "n"):
        part = study.filter(model=model).sort("task", "comparison", "rate")
        c, f = (part.filter(comparison=line)["mean"].to_numpy() for line in ("ceiling", "floor"))
        y = part.filter(comparison="augmented")["mean"].to_numpy().reshape(40, 5)
        curves.append((np.column_stack([c, y]), c, f))

    def cross(tasks: np.ndarray) -> float:
        found = []
        for y, c, f in curves:
            height = (y[tasks] - f[tasks, None]).mean(axis=0) / (c - f)[tasks].mean()
            last = int((height <= 0.5).argmax())
            found.append(np.interp(0.5, height[[last, last - 1]], rates[[last, last - 1]]))
        return float(found[0] - found[1])

    rng = np.random.default_rng(22)
    samples = [cross(rng.integers(40, size=40)) for _ in range(4000)]
    error = np.std(samples, ddof=1) * np.sqrt(40 / 39)
    assert row["estimate"] == pytest.approx(cross(np.arange(40)))
    assert row["std_error"] == pytest.approx(error, rel=0.06)
    assert row["p_value"] == pytest.approx(
        2 * stats.t.sf(abs(row["estimate"]) / row["std_error"], 39)
    )


def test_half_lives_are_not_tested_where_one_has_no_upper_end() -> None:
    # Of n, the mean ends at 0.45, and samples with more tasks of 0.7 than of 0.2 end above a half.
    rows = [
        row
        for i in range(8)
        for model, end in (("m", 0.1 + 0.01 * i), ("n", 0.2 if i % 2 else 0.7))
        for row in list_task(f"a/{i}", 1.0, 0.0, {"1.0": end}, model=model)
    ]
    tables = tabulate(make_frame(rows))
    row = find(tables.summaries, set=None, model="n", summary="half_life")
    assert row["estimate"] == pytest.approx(0.5 / 0.55)
    assert (row["std_error"], row["ci_high"]) == (None, None)
    contrast = find(tables.contrasts, kind="model", summary="half_life", set=None)
    assert contrast["estimate"] is not None
    assert contrast["p_value"] is None
    assert contrast["reason"] == "n: no upper end of its half-life"


def test_tests_over_20_tasks_reject_5_percent_of_true_hypotheses() -> None:
    """Within 3.5 standard errors of 5% in 300 studies; half-lives may reject less."""
    rejected: dict[str, list[bool]] = {}
    for number in range(300):
        study = draw_study(1000 + number, {"a": 20}, models=("m", "n"))
        contrasts = tabulate(study, 200).contrasts
        for row in contrasts.iter_rows(named=True):
            rejected.setdefault(row["summary"], []).append(row["p_value"] < 0.05)
    bound = 3.5 * np.sqrt(0.05 * 0.95 / 300)
    for summary, each in rejected.items():
        assert np.mean(each) < 0.05 + bound
        assert np.mean(each) > (0 if summary == "half_life" else 0.05 - bound)


def test_equal_models_have_a_difference_of_0_and_no_test() -> None:
    study = draw_study(15, {"a": 6})
    twin = study.with_columns(pl.lit("n").alias("model"))
    contrasts = tabulate(pl.concat([study, twin])).contrasts
    assert contrasts["estimate"].drop_nulls().abs().max() < 1e-12
    assert contrasts["p_value"].null_count() == contrasts.height
    assert "no variance: no task makes a difference" in contrasts["reason"].to_list()


def test_p_values_are_adjusted_over_all_tests_of_a_kind_and_summary() -> None:
    tables = tabulate(draw_study(16, {"a": 6, "b": 5}, models=("m", "n", "o")))
    contrasts = adjust_contrasts(tables.contrasts)
    family = contrasts.filter(kind="model", summary="auc")
    assert family.height == 9  # three pairs, two sets and all together
    assert family["family_size"].unique().to_list() == [9]
    p = family["p_value"].to_numpy()
    assert family["p_bh"].to_numpy() == pytest.approx(stats.false_discovery_control(p))
    order = np.argsort(p)
    holm = np.minimum(np.maximum.accumulate(p[order] * np.arange(9, 0, -1)), 1)
    assert family["p_holm"].to_numpy()[order] == pytest.approx(holm)


def test_a_study_of_one_set_asks_nothing_twice() -> None:
    tables = tabulate(draw_study(17, {"a": 6}, models=("m", "n")))
    assert set(tables.summaries["set"]) == {None, "a"}
    assert set(tables.contrasts["set"]) == {None}


def test_a_model_that_is_added_changes_nothing_of_the_others_but_adjusted_p_values() -> None:
    three = draw_study(
        18, {"a": 6, "b": 5}, models=("m", "n", "o"), methods=("keyboard", "synonym")
    )
    two = three.filter(pl.col("model") != "o")
    before, after = tabulate(two), tabulate(three)
    for old, new in ((before.curves, after.curves), (before.summaries, after.summaries)):
        assert_frame_equal(old, new.filter(pl.col("model") != "o"), check_exact=True)
    involved = pl.any_horizontal(pl.col("model", "first", "second").eq_missing(pl.lit("o")))
    assert_frame_equal(
        before.contrasts,
        after.contrasts.filter(~involved),
        check_exact=True,
    )


def test_a_set_that_is_added_leaves_the_other_sets_intervals_alone() -> None:
    both = draw_study(19, {"a": 6, "b": 5})
    alone = tabulate(both.filter(set="a")).summaries.filter(set="a")
    assert_frame_equal(alone, tabulate(both).summaries.filter(set="a"), check_exact=True)


def test_the_tables_keep_their_contracts_columns() -> None:
    tables = tabulate(draw_study(20, {"a": 5, "b": 4}, models=("m", "n")))
    for frame, table in zip(tables, (CURVES, CURVE_SUMMARIES, CURVE_CONTRASTS), strict=True):
        assert dict(frame.schema) == {name: each.dtype for name, each in table.columns.items()}
