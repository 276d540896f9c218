"""Means of features by persona against scipy, enumeration and hand counts."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from llm_variability.separation.families import adjust_means
from llm_variability.separation.means import (
    NO_VARIANCE,
    average_features,
    spread_wording,
    tabulate_means,
    tabulate_programs,
    tabulate_wording,
)
from llm_variability.tables_personas import FEATURES, REPLY_KINDS

KEY = (1, "test")


def make_prompts(personas: int = 3, tasks: int = 2, iterations: int = 3) -> pl.DataFrame:
    rows = [
        {
            "prompt_id": f"{task}-{persona}-{i}",
            "task": f"t{task}",
            "persona": f"p{persona}",
            "iteration": str(i),
        }
        for task in range(tasks)
        for persona in range(personas)
        for i in range(iterations)
    ]
    return pl.DataFrame(rows)


def draw_values(
    prompts: pl.DataFrame, seed: int = 1, **features: np.ndarray | list[float]
) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    own = features or {"length": rng.normal(size=prompts.height)}
    return prompts.select("prompt_id").with_columns(
        **{name: pl.Series(values) for name, values in own.items()}
    )


def tabulate(
    values: pl.DataFrame, prompts: pl.DataFrame, number: int = 999
) -> list[dict[str, Any]]:
    return tabulate_means(values, prompts, number, KEY)


def test_with_one_task_the_interval_is_that_of_t() -> None:
    prompts = make_prompts(tasks=1, iterations=5)
    values = draw_values(prompts)
    for row in tabulate(values, prompts):
        own = values.filter(prompts["persona"] == row["persona"])["length"].to_numpy()
        oracle = stats.ttest_1samp(own, 0)
        interval = oracle.confidence_interval()
        assert row["mean"] == pytest.approx(own.mean())
        assert row["std_error"] == pytest.approx(stats.sem(own))
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((interval.low, interval.high))
        assert (row["df"], row["n_prompts"]) == (4, 5)


def test_tasks_weigh_the_same_and_add_their_variances() -> None:
    """Persona p0 has 3 prompts in task t0 and 2 in t1; as the difference of Welch's test."""
    prompts = make_prompts(personas=2).filter(pl.col("prompt_id") != "1-0-2")
    values = draw_values(prompts)
    row = tabulate(values, prompts)[0]
    first = values["length"].to_numpy()[:3]
    second = values["length"].to_numpy()[6:8]
    welch = stats.ttest_ind(first, -second, equal_var=False)
    assert row["mean"] == pytest.approx((first.mean() + second.mean()) / 2)
    assert row["df"] == pytest.approx(welch.df)
    interval = welch.confidence_interval()
    assert row["ci_low"] == pytest.approx(interval.low / 2)
    assert row["ci_high"] == pytest.approx(interval.high / 2)


def test_with_one_task_p_is_that_of_an_exact_test_of_f() -> None:
    prompts = make_prompts(tasks=1)
    values = draw_values(prompts)
    groups = values["length"].to_numpy().reshape(3, 3)

    def statistic(*each: np.ndarray) -> float:
        return float(stats.f_oneway(*each).statistic)

    observed = statistic(*groups)
    flat = groups.ravel()
    larger = []
    for order in set(permutations([0, 0, 0, 1, 1, 1, 2, 2, 2])):
        label = np.array(order)
        larger.append(statistic(*(flat[label == k] for k in range(3))) >= observed - 1e-9)
    assert len(larger) == 1680
    for row in tabulate(values, prompts):
        assert row["p_value"] == pytest.approx(np.mean(larger))


def test_of_two_tasks_all_pairs_of_labellings_are_tried() -> None:
    prompts = make_prompts(personas=2, iterations=2)
    values = draw_values(prompts)
    of_task = values["length"].to_numpy().reshape(2, 4)
    labellings = [np.array(each) for each in set(permutations([0, 0, 1, 1]))]

    def spread(first: np.ndarray, second: np.ndarray) -> float:
        labels = (first, second)
        means = [np.mean([of_task[t][labels[t] == k].mean() for t in range(2)]) for k in range(2)]
        return float(np.var(means))

    observed = spread(*2 * [np.array([0, 0, 1, 1])])
    larger = [spread(*pair) >= observed - 1e-9 for pair in product(labellings, repeat=2)]
    assert tabulate(values, prompts)[0]["p_value"] == pytest.approx(np.mean(larger))


@given(st.floats(0.001, 1000), st.floats(-1000, 1000))
def test_a_feature_may_have_any_unit(scale: float, shift: float) -> None:
    prompts = make_prompts()
    values = draw_values(prompts)
    moved = values.with_columns(length=scale * pl.col("length") + shift)
    before, after = (tabulate(each, prompts, 99) for each in (values, moved))
    assert [row["p_value"] for row in after] == [row["p_value"] for row in before]
    assert after[0]["mean"] == pytest.approx(scale * before[0]["mean"] + shift, abs=1e-6)
    assert after[0]["std_error"] == pytest.approx(scale * before[0]["std_error"], rel=1e-6)


def test_where_nothing_differs_one_feature_in_twenty_is_significant() -> None:
    prompts = make_prompts(iterations=4)
    rng = np.random.default_rng(2)
    noise = {f"f{i}": rng.exponential(size=prompts.height) for i in range(400)}
    rows = tabulate(draw_values(prompts, **noise), prompts, 199)
    p = [row["p_value"] for row in rows if row["persona"] == "p0"]
    # By a binomial of 400 and 5%, 6 to 36 in all but one case of 10,000.
    assert 6 <= sum(each <= 0.05 for each in p) <= 36


def test_a_planted_difference_is_found_whatever_the_tasks_are_like() -> None:
    prompts = make_prompts(iterations=4)
    rng = np.random.default_rng(3)
    persona = prompts["persona"].str.slice(1).cast(pl.Float64).to_numpy()
    task = prompts["task"].str.slice(1).cast(pl.Float64).to_numpy()
    value = 2 * persona + 100 * task + rng.normal(size=prompts.height)
    row = tabulate(draw_values(prompts, length=value), prompts)[0]
    assert row["p_value"] == pytest.approx(1 / 1000)


def test_a_task_in_which_a_persona_has_no_value_is_left_out_for_all() -> None:
    prompts = make_prompts()
    values = draw_values(prompts).with_columns(
        length=pl.when(pl.col("prompt_id").str.starts_with("1-2")).then(None).otherwise("length")
    )
    rows = tabulate(values, prompts)
    kept = values.filter(prompts["task"] == "t0", prompts["persona"] == "p0")
    assert rows[0]["mean"] == pytest.approx(kept["length"].mean())
    assert [row["n_prompts"] for row in rows] == [3, 3, 3]
    assert "left out" in rows[0]["reason"] and rows[0]["reason"].endswith("t1")


def test_a_persona_without_any_value_has_no_mean_and_the_others_are_compared_without_it() -> None:
    prompts = make_prompts()
    values = draw_values(prompts)
    absent = pl.col("prompt_id").str.contains("-1-")
    lacking = values.with_columns(length=pl.when(absent).then(None).otherwise("length"))
    first, without, last = tabulate(lacking, prompts)
    assert "mean" not in without and "p_value" not in without
    assert without["reason"] == "the persona has no prompt with a value"
    alone = prompts.filter(~absent)
    assert [first, last] == tabulate(values.filter(~absent), alone)


def test_two_personas_with_values_in_different_tasks_are_not_compared() -> None:
    prompts = make_prompts(personas=2)
    there = pl.col("prompt_id").str.contains("0-0-|1-1-")
    values = draw_values(prompts).with_columns(length=pl.when(there).then("length"))
    for row in tabulate(values, prompts):
        assert "mean" not in row and "p_value" not in row
        assert "no task in which every persona" in row["reason"]


def test_one_prompt_a_task_has_a_mean_and_no_error() -> None:
    prompts = make_prompts(iterations=1)
    row = tabulate(draw_values(prompts), prompts)[0]
    assert row["mean"] is not None
    assert "std_error" not in row
    assert "two prompts" in row["reason"]


def test_a_feature_without_variance_asks_nothing() -> None:
    prompts = make_prompts()
    rows = tabulate(draw_values(prompts, tests=np.zeros(prompts.height)), prompts)
    assert rows[0]["mean"] == 0
    assert "p_value" not in rows[0] and "std_error" not in rows[0]
    assert rows[0]["reason"] == NO_VARIANCE


def make_features(
    prompts: pl.DataFrame, replies: dict[str, list[str]] | None = None, draws: int = 2
) -> pl.DataFrame:
    """Make a FEATURES table without the study's own columns, alike for all prompts."""
    rows = []
    for prompt in prompts["prompt_id"]:
        for i in range(draws):
            kind = (replies or {}).get(prompt, ["program"] * draws)[i]
            row: dict[str, Any] = dict.fromkeys(FEATURES.columns)
            if kind == "program":
                for name, column in FEATURES.columns.items():
                    row[name] = i == 0 if column.dtype == pl.Boolean else 10 + i
            row |= {
                "temperature": "0.8",
                "top_p": "1.0",
                "prompt_id": prompt,
                "replicate": i,
                "reply": kind,
                "tags": "",
                "reply_lines": 20,
                "reply_words": 30 + i,
            }
            rows.append(row)
    schema = {name: column.dtype for name, column in FEATURES.columns.items()}
    return pl.DataFrame(rows, schema=schema)


def test_draws_are_averaged_and_kinds_of_replies_are_shares() -> None:
    prompts = make_prompts(personas=1, tasks=1, iterations=2)
    features = make_features(prompts, {"0-0-1": ["none", "program"]})
    first, second = average_features(features).iter_rows(named=True)
    assert first["tests"] == 0.5
    assert first["lines"] == 10.5
    assert second["lines"] == 11
    assert second["reply_none"] == second["reply_program"] == 0.5
    assert second["reply_words"] == 30.5
    assert {f"reply_{kind}" for kind in REPLY_KINDS[:-1]} <= set(first)
    assert "reply_failed" not in first


def test_draws_that_failed_are_no_replies_without_code() -> None:
    prompts = make_prompts(personas=2, tasks=1, iterations=2)
    told = dict(
        zip(
            prompts["prompt_id"],
            (
                ["failed", "program", "none"],
                ["failed"] * 3,
                ["none"] * 3,
                ["program", "failed", "program"],
            ),
            strict=True,
        )
    )
    features = make_features(prompts, told, draws=3)
    averaged = average_features(features)
    assert averaged["reply_none"].to_list() == [0.5, None, 1.0, 0.0]
    assert averaged["reply_program"].to_list() == [0.5, None, 0.0, 1.0]
    assert averaged["reply_words"].to_list() == [31.5, None, 31.0, 31.0]
    means = tabulate_programs(features, prompts, study="s", model="m", seed=1, permutations=99)
    none = means.filter(feature="reply_none").sort("persona")
    assert none["mean"].to_list() == [0.5, 0.5]
    assert none["n_prompts"].to_list() == [1, 2]
    all_failed = features.with_columns(reply=pl.lit("failed"))
    nothing = tabulate_programs(all_failed, prompts, study="s", model="m", seed=1, permutations=99)
    assert nothing.height == means.height
    assert nothing["mean"].null_count() == nothing["reason"].count() == nothing.height


def test_features_of_wording_come_in_columns_topics_by_number() -> None:
    prompts = make_prompts(personas=1, tasks=1, iterations=2)
    style = prompts.select("prompt_id", feature=pl.lit("questions"), value=pl.Series([1.0, 2.0]))
    topics = pl.concat(
        prompts.select("prompt_id", topic=pl.lit(n), weight=pl.lit(n / 10)) for n in (1, 2)
    )
    wording = spread_wording(style, topics)
    assert wording.columns == ["prompt_id", "questions", "topic-1", "topic-2"]
    assert wording.row(1) == ("0-0-1", 2.0, 0.1, 0.2)


def test_a_feature_counts_once_in_its_family_and_prompts_are_one_of_their_own() -> None:
    prompts = make_prompts()
    rng = np.random.default_rng(5)
    features = make_features(prompts).with_columns(
        lines=pl.Series(rng.integers(5, 50, prompts.height * 2), dtype=pl.Int32),
        reply_words=pl.Series(rng.integers(5, 50, prompts.height * 2), dtype=pl.Int32),
    )
    other = features.with_columns(temperature=pl.lit("0"), top_p=pl.lit(None, dtype=pl.String))
    style = prompts.select(
        "prompt_id", feature=pl.lit("questions"), value=rng.normal(size=prompts.height)
    )
    topics = prompts.select("prompt_id", topic=pl.lit(1), weight=pl.lit(0.5))
    how = {"study": "s", "seed": 1, "permutations": 99}
    of_programs = tabulate_programs(pl.concat([features, other]), prompts, model="m", **how)
    of_prompts = tabulate_wording(style, topics, prompts, **how)
    means = adjust_means(pl.concat([of_programs, of_prompts]))
    tested = means.filter(pl.col("p_value").is_not_null())
    sizes = tested.group_by("model", "temperature", "feature").agg(
        pl.col("family_size").unique().item(), pl.len()
    )
    # Two features that vary, of three personas each; one of the prompts, its topic does not vary.
    assert sorted(sizes.rows(), key=str) == sorted(
        [
            ("m", "0", "lines", 2, 3),
            ("m", "0", "reply_words", 2, 3),
            ("m", "0.8", "lines", 2, 3),
            ("m", "0.8", "reply_words", 2, 3),
            (None, None, "questions", 1, 3),
        ],
        key=str,
    )
    assert means.height == of_programs.height + of_prompts.height
    assert (tested["p_holm"] >= tested["p_value"]).all()


def test_a_further_setting_changes_no_p_value() -> None:
    prompts = make_prompts()
    rng = np.random.default_rng(6)
    features = make_features(prompts).with_columns(
        lines=pl.Series(rng.integers(5, 50, prompts.height * 2), dtype=pl.Int32)
    )
    other = features.with_columns(temperature=pl.lit("0"))
    how: dict[str, Any] = {"study": "s", "seed": 1, "permutations": 99, "model": "m"}
    alone = tabulate_programs(features, prompts, **how)
    both = tabulate_programs(pl.concat([other, features]), prompts, **how)
    assert both.filter(temperature="0.8").equals(alone)


def test_features_of_another_run_are_refused() -> None:
    prompts = make_prompts()
    values = draw_values(prompts).with_columns(prompt_id=pl.lit("strange"))
    with pytest.raises(ValueError, match="prompt strange is none of the study's"):
        tabulate(values, prompts)
