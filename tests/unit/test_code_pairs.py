"""Which programs are compared: by hand on a study of two tasks, two draws and one rate."""

from __future__ import annotations

import math
from itertools import product
from statistics import fmean

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from code_stage import DESIGN, account, accounts, program, programs
from llm_variability.code.averages import average_pairs
from llm_variability.code.pairs import choose_floor_tasks, list_pairs, tabulate_pairs
from llm_variability.config import ConfigError
from llm_variability.tables_code import AVERAGES, PAIRS

Row = tuple[str, str, int, str, int]

# Prompt a1 is task a with typing errors; b with typing errors came out as b itself.
TINY = programs(
    program(task, augmentation, prompt, replicate)
    for augmentation, task, prompt in (
        ("original", "open/a", "a"),
        ("original", "open/b", "b"),
        ("keyboard-0.1", "open/a", "a1"),
        ("keyboard-0.1", "open/b", "b"),
    )
    for replicate in (0, 1)
)
ACCOUNTS = accounts(
    [
        account("open/a", "original", "a"),
        account("open/b", "original", "b"),
        account("open/a", "keyboard-0.1", "a1", realised=0.1),
        account("open/b", "keyboard-0.1", "b", realised=0.0),
    ]
)
FLOOR = choose_floor_tasks(ACCOUNTS, seed=1, n=20)


def everything(table: pl.DataFrame) -> pl.Series:
    return pl.Series("compared", [True] * len(table), dtype=pl.Boolean)


def listed(
    table: pl.DataFrame,
    compared: pl.Series | None = None,
    floor: pl.DataFrame = FLOOR,
    both_ways: bool = False,
) -> dict[str, list[Row]]:
    """List pairs as (prompt, draw's replicate; reference task, its replicate), by comparison."""
    pairs = list_pairs(table, everything(table) if compared is None else compared, floor, both_ways)
    rows = tabulate_pairs(table, pairs, np.zeros(len(pairs)), "tsed", DESIGN)
    names = ("augmentation", "prompt_id", "replicate", "reference_task", "reference_replicate")
    return {
        comparison: rows.filter(comparison=comparison).select(names).rows()
        for comparison in ("augmented", "ceiling", "floor")
    }


def test_the_pairs_of_the_tiny_study_are_those_made_by_hand() -> None:
    pairs = listed(TINY)
    assert pairs["augmented"] == [
        ("keyboard-0.1", "a1", 0, "open/a", 0),
        ("keyboard-0.1", "a1", 0, "open/a", 1),
        ("keyboard-0.1", "a1", 1, "open/a", 0),
        ("keyboard-0.1", "a1", 1, "open/a", 1),
        # The prompt of b is unchanged, so its draws are b's own: each is not compared with itself.
        ("keyboard-0.1", "b", 0, "open/b", 1),
        ("keyboard-0.1", "b", 1, "open/b", 0),
    ]
    assert pairs["ceiling"] == [
        ("original", "a", 1, "open/a", 0),
        ("original", "b", 1, "open/b", 0),
    ]
    assert pairs["floor"] == [
        *(("original", "a", i, "open/b", j) for i, j in product((0, 1), repeat=2)),
        *(("original", "b", i, "open/a", j) for i, j in product((0, 1), repeat=2)),
    ]


def test_a_similarity_with_a_direction_has_the_ceiling_both_ways_and_no_self_pair() -> None:
    one, both = listed(TINY), listed(TINY, both_ways=True)
    assert both["ceiling"] == [
        ("original", "a", 0, "open/a", 1),
        ("original", "a", 1, "open/a", 0),
        ("original", "b", 0, "open/b", 1),
        ("original", "b", 1, "open/b", 0),
    ]
    assert (both["augmented"], both["floor"]) == (one["augmented"], one["floor"])


def test_only_programs_that_can_be_compared_are() -> None:
    # Without the first draw of a, it has no ceiling and half of what refers to it.
    compared = pl.Series([False] + [True] * (len(TINY) - 1))
    pairs = listed(TINY, compared)
    assert pairs["ceiling"] == [("original", "b", 1, "open/b", 0)]
    assert pairs["augmented"][:2] == [
        ("keyboard-0.1", "a1", 0, "open/a", 1),
        ("keyboard-0.1", "a1", 1, "open/a", 1),
    ]
    assert len(pairs["floor"]) == 4


def test_settings_are_not_compared_with_each_other() -> None:
    at = [(None, "0"), ("1.0", "1.0"), ("0.9", "1.0")]
    table = pl.concat(
        TINY.with_columns(
            pl.lit(top_p, dtype=pl.String).alias("top_p"), temperature=pl.lit(temperature)
        )
        for top_p, temperature in at
    )
    pairs = list_pairs(table, everything(table), FLOOR, both_ways=False)
    one = list_pairs(TINY, everything(TINY), FLOOR, both_ways=False)
    # Nulls of top_p are one setting, as any other value.
    assert len(pairs) == len(at) * len(one)
    drawn = pairs.select("draw", "reference").to_numpy() // len(TINY)
    assert (drawn[:, 0] == drawn[:, 1]).all()


def test_where_nothing_can_be_compared_there_is_no_pair() -> None:
    none = pl.Series([False] * len(TINY))
    pairs = list_pairs(TINY, none, FLOOR, both_ways=True)
    assert len(pairs) == 0
    assert len(tabulate_pairs(TINY, pairs, np.zeros(0), "tsed", DESIGN)) == 0


def test_rows_carry_the_columns_of_the_draw_that_is_compared() -> None:
    pairs = list_pairs(TINY, everything(TINY), FLOOR, both_ways=False)
    table = tabulate_pairs(TINY, pairs, np.arange(len(pairs)) / 100, "tsed", DESIGN)
    assert set(table.columns) == {*DESIGN.columns, *PAIRS.columns}
    row = table.row(4, named=True)
    assert (row["task"], row["method"], row["rate"], row["measure"]) == (
        "open/b",
        "keyboard",
        "0.1",
        "tsed",
    )
    assert row["similarity"] == 0.04


# ------------------------------------------------------------------------------------- the floor


def named(*tasks: str, language: str = "python") -> pl.DataFrame:
    return accounts(account(task, "original", task, language=language) for task in tasks)


def test_a_task_is_compared_with_others_of_its_set_alone() -> None:
    chosen = choose_floor_tasks(named("open/a", "open/b", "fresh/a", "fresh/b", "solo/a"), 1, 5)
    assert sorted(chosen.rows()) == [
        ("fresh/a", "fresh/b"),
        ("fresh/b", "fresh/a"),
        ("open/a", "open/b"),
        ("open/b", "open/a"),
    ]


def test_a_task_is_not_compared_with_one_of_another_language() -> None:
    tasks = pl.concat([named("open/a", "open/b"), named("open/c", language="go")])
    assert sorted(choose_floor_tasks(tasks, 1, 5).rows()) == [
        ("open/a", "open/b"),
        ("open/b", "open/a"),
    ]


TASKS = [f"open/{number}" for number in range(12)]


@given(st.integers(0, 2**63), st.integers(1, 15))
@settings(max_examples=20)
def test_each_task_has_as_many_distinct_others_as_asked_for(seed: int, n: int) -> None:
    chosen = choose_floor_tasks(named(*TASKS), seed, n)
    assert chosen.n_unique() == len(chosen) == len(TASKS) * min(n, len(TASKS) - 1)
    assert (chosen["task"] != chosen["reference_task"]).all()


def test_a_task_of_another_set_changes_no_choice() -> None:
    before = choose_floor_tasks(named(*TASKS), 1, 4)
    after = choose_floor_tasks(named("fresh/x", *TASKS, "fresh/y"), 1, 4)
    assert after.filter(pl.col("task").str.starts_with("open/")).equals(before)


def test_a_task_of_the_same_set_takes_one_place_at_the_most() -> None:
    before = choose_floor_tasks(named(*TASKS), 1, 4)
    after = choose_floor_tasks(named(*TASKS, "open/new"), 1, 4)
    for task in TASKS:
        had, has = (
            set(chosen.filter(task=task)["reference_task"].to_list()) for chosen in (before, after)
        )
        assert has - had <= {"open/new"}


def test_the_choice_is_the_seeds_and_not_that_of_the_order_of_tasks() -> None:
    one = choose_floor_tasks(named(*TASKS), 1, 4)
    other_way = choose_floor_tasks(named(*reversed(TASKS)), 1, 4)
    assert set(one.rows()) == set(other_way.rows())
    assert set(one.rows()) != set(choose_floor_tasks(named(*TASKS), 2, 4).rows())


# ---------------------------------------------------------------------------------- the averages


def average(
    table: pl.DataFrame, compared: pl.Series, similarity: np.ndarray | None = None
) -> pl.DataFrame:
    pairs = list_pairs(table, compared, FLOOR, both_ways=False)
    scores = np.random.default_rng(3).random(len(pairs)) if similarity is None else similarity
    return average_pairs(table, ACCOUNTS, compared, pairs, scores, "tsed", DESIGN)


@given(st.lists(st.booleans(), min_size=len(TINY), max_size=len(TINY)), st.integers(0, 99))
@settings(max_examples=40)
def test_averages_are_those_of_the_pairs_of_each_prompt(kept: list[bool], seed: int) -> None:
    compared = pl.Series(kept)
    pairs = list_pairs(TINY, compared, FLOOR, both_ways=False)
    scores = np.random.default_rng(seed).random(len(pairs))
    rows = tabulate_pairs(TINY, pairs, scores, "tsed", DESIGN)
    averages = average_pairs(TINY, ACCOUNTS, compared, pairs, scores, "tsed", DESIGN)
    assert averages["n_pairs"].sum() == len(pairs)
    for row in averages.iter_rows(named=True):
        own = rows.filter(
            comparison=row["comparison"],
            prompt_id=row["prompt_id"],
            augmentation=row["augmentation"],
        )["similarity"].to_list()
        assert row["n_pairs"] == len(own)
        if own:
            assert math.isclose(row["mean"], fmean(own))
            scatter = sum((value - fmean(own)) ** 2 for value in own)
            assert math.isclose(row["within_ss"], scatter, abs_tol=1e-12)
        else:
            assert row["mean"] is None and row["within_ss"] is None


def test_every_prompt_has_a_row_at_every_setting_also_without_a_pair() -> None:
    table = pl.concat([TINY, TINY.with_columns(temperature=pl.lit("1.0"), top_p=pl.lit("0.5"))])
    # At the second setting no reply holds a program.
    compared = pl.Series([True] * len(TINY) + [False] * len(TINY))
    averages = average(table, compared)
    assert set(averages.columns) == {*DESIGN.columns, *AVERAGES.columns}
    for temperature, programs_each in (("0", 2), ("1.0", 0)):
        at = averages.filter(temperature=temperature)
        assert sorted(at.select("comparison", "augmentation", "prompt_id").rows()) == [
            ("augmented", "keyboard-0.1", "a1"),
            ("augmented", "keyboard-0.1", "b"),
            ("ceiling", "original", "a"),
            ("ceiling", "original", "b"),
            ("floor", "original", "a"),
            ("floor", "original", "b"),
        ]
        assert at["draws"].unique().to_list() == [2]
        assert at["programs"].unique().to_list() == [programs_each]
    without = averages.filter(temperature="1.0")
    assert without["n_pairs"].to_list() == [0] * 6
    assert without["mean"].null_count() == without["within_ss"].null_count() == 6


def test_a_cell_without_draws_has_rows_with_none() -> None:
    table = TINY.filter(pl.col("augmentation") == "original")
    averages = average(table, everything(table)).filter(comparison="augmented")
    assert averages.select("draws", "programs", "n_pairs", "mean").rows() == [(0, 0, 0, None)] * 2


def test_the_same_prompt_under_two_augmentations_has_two_rows_of_its_own() -> None:
    averages = average(
        TINY, everything(TINY), np.array([0.5] * 4 + [0.2, 0.4] + [0.9, 0.8] + [0.1] * 8)
    )
    of_b = {row["comparison"]: row for row in averages.filter(prompt_id="b").iter_rows(named=True)}
    assert of_b["augmented"]["mean"] == pytest.approx(0.3)
    assert of_b["augmented"]["within_ss"] == pytest.approx(0.02)
    assert of_b["ceiling"]["mean"] == 0.8
    assert of_b["floor"]["n_pairs"] == 4


def test_a_prompts_realised_rate_and_bleu_are_those_of_its_account() -> None:
    averages = average(TINY, everything(TINY))
    told = averages.filter(comparison="augmented").select("prompt_id", "realised").rows()
    assert sorted(told) == [("a1", 0.1), ("b", 0.0)]


def test_a_repeated_variant_has_no_row_of_its_own() -> None:
    again = account("open/a", "keyboard-0.1", "a1", repeated=True) | {"variant": "1"}
    pairs = list_pairs(TINY, everything(TINY), FLOOR, both_ways=False)
    averages = average_pairs(
        TINY,
        pl.concat([ACCOUNTS, accounts([again])]),
        everything(TINY),
        pairs,
        np.zeros(len(pairs)),
        "tsed",
        DESIGN,
    )
    assert len(averages) == 6


def test_programs_of_a_prompt_without_an_account_are_refused_in_one_line() -> None:
    pairs = list_pairs(TINY, everything(TINY), FLOOR, both_ways=False)
    with pytest.raises(ConfigError, match="^augmentations: .* open/a at keyboard-0.1 .*$"):
        average_pairs(
            TINY,
            ACCOUNTS.filter(pl.col("prompt_id") != "a1"),
            everything(TINY),
            pairs,
            np.zeros(len(pairs)),
            "tsed",
            DESIGN,
        )
