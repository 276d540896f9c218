"""What a dialogue changes: which programs are compared, the estimate and its interval."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from llm_variability.dialogues.changes import (
    NO_PAIR,
    NO_SPREAD,
    ONE_PROMPT,
    average_prompts,
    estimate_change,
    join_arms,
    list_dialogue_pairs,
    tabulate_changes,
)
from llm_variability.stimuli.personas import DESIGN
from llm_variability.tables_code import PROGRAMS
from llm_variability.tables_personas import DIALOGUE_CHANGES, DIALOGUES


def programs(*rows: tuple[str, str], **changes: Any) -> pl.DataFrame:
    """Make a programs table of (prompt, code); prompt is task, persona and number, as in t/p/0."""
    filled, counts = [], dict[str, int]()
    for prompt, code in rows:
        task, persona, iteration = prompt.split("/")
        counts[prompt] = counts.get(prompt, -1) + 1
        named = (task, "brief", "python", persona, persona, "male", iteration, "no")
        filled.append(
            {
                **dict(zip(DESIGN.columns, named, strict=True)),
                "temperature": "1.0",
                "top_p": "0.9",
                "prompt_id": prompt,
                "replicate": counts[prompt],
                "draw_status": "ok",
                "status": "ok" if code else "no_code",
                "code": code or None,
                "source": "fence",
                "fences": 1,
                "tag": "",
                "nodes": 3 if code else None,
                **changes,
            }
        )
    types = {name: column.dtype for name, column in PROGRAMS.columns.items()}
    return pl.DataFrame(filled, schema={**dict.fromkeys(DESIGN.columns, pl.String), **types})


def pair_codes(joined: pl.DataFrame, both_ways: bool = False) -> list[tuple[str, str, bool]]:
    pairs = list_dialogue_pairs(joined, joined["status"] == "ok", both_ways)
    codes = joined["code"].to_list()
    return [(codes[first], codes[second], after) for first, second, after in pairs.rows()]


# ------------------------------------------------------------------------------ which are compared


def test_programs_of_a_prompt_are_compared_without_a_dialogue_and_across() -> None:
    joined = join_arms(
        programs(("t/p/0", "a"), ("t/p/0", "b"), ("t/p/0", ""), ("t/p/1", "c")),
        programs(("t/p/0", "x"), ("t/p/0", "y"), ("t/p/1", "z")),
    )
    assert pair_codes(joined) == [
        ("a", "b", False),
        ("a", "x", True),
        ("a", "y", True),
        ("b", "x", True),
        ("b", "y", True),
        ("c", "z", True),
    ]


def test_a_measure_that_is_not_symmetric_gets_each_pair_both_ways() -> None:
    joined = join_arms(programs(("t/p/0", "a"), ("t/p/0", "b")), programs(("t/p/0", "x")))
    one_way = pair_codes(joined)
    turned = [(second, first, after) for first, second, after in one_way]
    assert pair_codes(joined, both_ways=True) == one_way + turned


def test_programs_of_two_settings_are_not_compared() -> None:
    greedy = {"temperature": "0", "top_p": None}
    direct = pl.concat(
        [programs(("t/p/0", "a"), ("t/p/0", "b")), programs(("t/p/0", "A"), **greedy)]
    )
    after = pl.concat([programs(("t/p/0", "x")), programs(("t/p/0", "X"), **greedy)])
    assert pair_codes(join_arms(direct, after)) == [
        ("a", "b", False),
        ("a", "x", True),
        ("b", "x", True),
        ("A", "X", True),
    ]


def test_a_dialogue_about_another_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="^programs: .* not of one run$"):
        join_arms(programs(("t/p/0", "a")), programs(("t/p/1", "x")))


def test_pairs_are_averaged_by_prompt_and_kind() -> None:
    joined = join_arms(
        programs(("t/p/0", "a"), ("t/p/0", "b"), ("t/p/1", "c"), ("t/p/2", "d"), ("t/p/2", "e")),
        programs(("t/p/0", "x"), ("t/p/1", "z")),
    )
    pairs = list_dialogue_pairs(joined, joined["status"] == "ok")
    assert pairs["after"].to_list() == [False, True, True, True, False]
    averaged = average_prompts(joined, pairs, np.array([0.9, 0.2, 0.4, 0.7, 0.8]))
    # t/p/1 has no pair without a dialogue, t/p/2 none with one.
    (row,) = averaged.select("prompt_id", "same_prompt", "with_dialogue").rows()
    assert row == ("t/p/0", 0.9, pytest.approx(0.3))


# ------------------------------------------------------------------------------ the estimate


def averages(**differences: list[float]) -> pl.DataFrame:
    """Make prompts of each task with these differences, around 0.5."""
    rows = [
        (task, f"{task}/{number}", 0.5 + each, 0.5)
        for task, values in differences.items()
        for number, each in enumerate(values)
    ]
    return pl.DataFrame(
        rows, schema=["task", "prompt_id", "same_prompt", "with_dialogue"], orient="row"
    )


def test_of_one_task_the_interval_is_that_of_the_t_test() -> None:
    values = [0.1, 0.3, -0.2, 0.25, 0.05]
    found = estimate_change(averages(t=values))
    test = stats.ttest_1samp(values, 0)
    low, high = test.confidence_interval()
    assert found["change"] == pytest.approx(np.mean(values))
    assert found["std_error"] == pytest.approx(stats.sem(values))
    assert (found["df"], found["ci_low"], found["ci_high"]) == pytest.approx((4, low, high))
    assert found["same_prompt"] == pytest.approx(0.6)
    assert found["n_prompts"] == 5


def test_of_two_tasks_the_interval_is_that_of_welch() -> None:
    # (mean a + mean b) / 2 is half the difference of a and -b.
    a, b = [0.1, 0.3, -0.2, 0.25, 0.05], [0.4, 0.5, 0.9]
    found = estimate_change(averages(t=a, u=b))
    test = stats.ttest_ind(a, [-each for each in b], equal_var=False)
    low, high = test.confidence_interval()
    assert found["change"] == pytest.approx((np.mean(a) + np.mean(b)) / 2)
    assert (found["df"], found["ci_low"], found["ci_high"]) == pytest.approx(
        (test.df, low / 2, high / 2)
    )


def test_tasks_weigh_the_same_however_many_prompts_they_have() -> None:
    found = estimate_change(averages(t=[0.0] * 9 + [0.1], u=[1.0, 0.99]))
    assert found["change"] == pytest.approx((0.01 + 0.995) / 2)
    assert found["same_prompt"] - found["with_dialogue"] == pytest.approx(found["change"])


@pytest.mark.parametrize(
    ("prompts", "reason"),
    [
        (averages(t=[0.1, 0.2], u=[0.3]), ONE_PROMPT),
        (averages(t=[0.1]), ONE_PROMPT),
        (averages(t=[0.0, 0.0]), NO_SPREAD),
        (averages(t=[0.1]).clear(), NO_PAIR),
    ],
)
def test_what_has_no_interval_says_why(prompts: pl.DataFrame, reason: str) -> None:
    found = estimate_change(prompts)
    assert found["reason"] == reason
    assert "std_error" not in found
    assert ("change" in found) == (reason != NO_PAIR)


def test_where_the_dialogue_changes_nothing_the_interval_holds_zero() -> None:
    # Programs are points; those of a prompt lie around the prompt's own, in both arms alike.
    rng = np.random.default_rng(5)
    held, trials, n, draws = 0, 600, 6, 4
    first, second = np.triu_indices(draws, 1)
    for _ in range(trials):
        same, across = [], []
        for _ in range(2 * n):
            points = rng.normal(size=(2, draws)) + rng.normal()
            alike = np.exp(-np.abs(points[0][:, None] - points.reshape(-1)))
            same.append(alike[:, :draws][first, second].mean())
            across.append(alike[:, draws:].mean())
        table = pl.DataFrame(
            {
                "task": ["t"] * n + ["u"] * n,
                "same_prompt": same,
                "with_dialogue": across,
            }
        )
        found = estimate_change(table)
        held += found["ci_low"] <= 0 <= found["ci_high"]
    margin = 3 * math.sqrt(0.05 * 0.95 / trials)
    assert abs(held / trials - 0.95) < margin


# ------------------------------------------------------------------------------ the table


def ended(*rows: tuple[str, int, str]) -> pl.DataFrame:
    """Make a dialogues table of (prompt, exchanges, how it ended)."""
    made = programs(*((prompt, "") for prompt, _, _ in rows)).with_columns(
        pl.Series("exchanges", [each for _, each, _ in rows], dtype=pl.Int32),
        pl.Series("questions", [each for _, each, _ in rows], dtype=pl.Int32),
        pl.Series("ended", [each for _, _, each in rows]),
        pl.lit(None, dtype=pl.String).alias("text"),
    )
    return made.select(*DESIGN.columns, *DIALOGUES.columns)


def equal(table: pl.DataFrame, pairs: pl.DataFrame) -> np.ndarray:
    codes = table["code"]
    return (codes[pairs["reference"]] == codes[pairs["draw"]]).cast(pl.Float64).to_numpy()


def test_changes_are_told_of_all_and_of_each_persona() -> None:
    names = ["t/p/0", "t/p/1", "t/q/0", "t/q/1"]
    direct = programs(*((name, code) for name in names for code in "aab"))
    after = programs(("t/p/0", "a"), ("t/p/1", "a"), ("t/q/0", "x"), ("t/q/1", ""))
    dialogues = ended(
        ("t/p/0", 0, "code"), ("t/p/1", 0, "code"), ("t/q/0", 2, "code"), ("t/q/1", 1, "asking")
    )
    joined = join_arms(direct, after)
    table = tabulate_changes(
        dialogues,
        joined,
        joined["status"] == "ok",
        {"equal": (equal, True), "both": (equal, False)},
        study="s",
        model="m",
    )
    assert table.columns == list(DIALOGUE_CHANGES.columns)
    counts = ["measure", "persona", "dialogues", "asked", "exchanges", "programs", "n_prompts"]
    assert table.filter(measure="equal").select(counts).rows() == [
        ("equal", None, 4, 2, 0.75, 3, 3),
        ("equal", "p", 2, 0, 0.0, 2, 2),
        ("equal", "q", 2, 2, 1.5, 1, 1),
    ]
    # Of aab one pair in three is equal; an `a` after a dialogue is equal to two in three.
    means = table.filter(measure="equal").select("same_prompt", "with_dialogue", "change").rows()
    assert means[0] == pytest.approx((1 / 3, 4 / 9, -1 / 9))
    assert means[1] == pytest.approx((1 / 3, 2 / 3, -1 / 3))
    assert means[2] == pytest.approx((1 / 3, 0, 1 / 3))
    assert table.filter(measure="equal")["reason"].to_list() == [None, NO_SPREAD, ONE_PROMPT]
    other = table.filter(measure="both").drop("measure")
    assert other.equals(table.filter(measure="equal").drop("measure"))


def test_a_model_without_a_program_has_its_rows_all_the_same() -> None:
    direct, after = programs(("t/p/0", ""), ("t/p/0", "")), programs(("t/p/0", ""))
    joined = join_arms(direct, after)
    table = tabulate_changes(
        ended(("t/p/0", 0, "words")),
        joined,
        joined["status"] == "ok",
        {"equal": (equal, True)},
        study="s",
        model="m",
    )
    assert table["reason"].to_list() == [NO_PAIR, NO_PAIR]
    assert table["programs"].to_list() == [0, 0]
    assert table["change"].null_count() == 2
