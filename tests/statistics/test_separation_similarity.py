"""Contrasts within and between personas against loops, enumeration, scipy and scikit-bio."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from skbio import DistanceMatrix
from skbio.stats.distance import permanova

from llm_variability.fits.text_variance import correct_jackknife, jackknife_variance
from llm_variability.separation.families import adjust_separation
from llm_variability.separation.prompt_pairs import TaskPrompts, list_prompts, reduce_pairs
from llm_variability.separation.similarity import (
    NO_PROGRAMS,
    NOT_REPEATED,
    ONE_SAMPLED,
    Comparisons,
    Contrast,
    compare_prompts,
    find_excess,
    leave_out_any,
    leave_out_each,
    list_contrasts,
    measure,
    tabulate_separation,
)

SETTING = ("1.0", "0.8")
CONTRASTS = (
    Contrast("persona"),
    Contrast("persona", first="a-m"),
    Contrast("persona", first="a-m", second="b-m"),
    Contrast("role"),
    Contrast("role", first="a"),
    Contrast("role", first="a", second="b"),
    Contrast("gender"),
    Contrast("gender", first="m", second="f"),
)


def make_prompts(
    personas: dict[str, int], tasks: int = 1, sampled: int = 0
) -> list[dict[str, object]]:
    """List the prompts of each persona (role-gender) in each task."""
    return [
        {
            "prompt_id": f"t{task}-{persona}-{i}",
            "task": f"t{task}",
            "persona": persona,
            "role": persona.split("-")[0],
            "gender": persona.split("-")[1],
            "iteration": str(i),
            "sampled": "yes" if i == sampled else "no",
        }
        for task in range(tasks)
        for persona, number in personas.items()
        for i in range(number)
    ]


def make_task(similarity: np.ndarray, personas: dict[str, int]) -> TaskPrompts:
    prompts = pl.DataFrame(make_prompts(personas))
    n = len(similarity)
    columns = {name: prompts[name].to_numpy().astype(str) for name in prompts.columns}
    return TaskPrompts(
        similarity, np.full((n, n), 4) - 3 * np.eye(n, dtype=int), np.full(n, 2), columns
    )


def draw_similarity(rng: np.random.Generator, n: int) -> np.ndarray:
    values = rng.uniform(size=(n, n))
    return (values + values.T) / 2


def loop_difference(task: TaskPrompts, contrast: Contrast) -> tuple[float, float]:
    """Give within and between by the definition: a loop over all pairs of prompts."""
    held = {"persona": None, "role": "gender", "gender": "role"}[contrast.factor]
    levels = task.columns[contrast.factor]
    within: dict[str, list[float]] = {}
    between = []
    for i, j in combinations(range(len(levels)), 2):
        if held is not None and task.columns[held][i] != task.columns[held][j]:
            continue
        pair = {levels[i], levels[j]}
        if contrast.second is not None and not pair <= {contrast.first, contrast.second}:
            continue
        if len(pair) == 1:
            within.setdefault(levels[i], []).append(task.similarity[i, j])
        elif contrast.first is None or contrast.first in pair:
            between.append(task.similarity[i, j])
    if contrast.kind == "pair":
        chosen = float(np.mean([np.mean(within[level]) for level in contrast[2:]]))
    elif contrast.kind == "level":
        chosen = float(np.mean(within[str(contrast.first)]))
    else:
        chosen = float(np.mean([value for values in within.values() for value in values]))
    return chosen, float(np.mean(between))


def compare(
    tasks: dict[str, TaskPrompts],
    contrast: Contrast,
    permutations: int = 999,
    variant: str = "iterations",
) -> dict[str, object]:
    return Comparisons(list(tasks), tasks, permutations, (1, "test")).compare(contrast, variant)


@pytest.mark.parametrize("contrast", CONTRASTS, ids=lambda each: f"{each.factor}-{each.kind}")
@given(st.integers(0, 2**32 - 1))
def test_means_are_those_of_a_loop_over_pairs_of_prompts(contrast: Contrast, seed: int) -> None:
    rng = np.random.default_rng(seed)
    personas = {name: int(rng.integers(2, 5)) for name in ("a-m", "b-m", "c-m", "a-f", "b-f")}
    task = make_task(draw_similarity(rng, sum(personas.values())), personas)
    row = compare({"t0": task}, contrast, permutations=19)
    within, between = loop_difference(task, contrast)
    assert row["within"] == pytest.approx(within)
    assert row["between"] == pytest.approx(between)
    assert row["difference"] == pytest.approx(within - between)


@pytest.mark.parametrize("contrast", CONTRASTS[:3], ids=lambda each: each.kind)
def test_p_is_the_share_of_all_permutations_with_as_large_a_difference(
    contrast: Contrast,
) -> None:
    personas = {"a-m": 2, "b-m": 3, "c-m": 2}
    task = make_task(draw_similarity(np.random.default_rng(4), 7), personas)
    row = compare({"t0": task}, contrast, permutations=5000)
    observed = abs(np.subtract(*loop_difference(task, contrast)))
    levels = task.columns["persona"]
    free = [i for i in range(7) if contrast.second is None or levels[i] in contrast[2:]]
    larger = []
    for order in permutations(free):
        changed = levels.copy()
        changed[free] = levels[list(order)]
        moved = TaskPrompts(
            task.similarity, task.n_pairs, task.n_programs, {**task.columns, "persona": changed}
        )
        larger.append(abs(np.subtract(*loop_difference(moved, contrast))) >= observed - 1e-12)
    assert row["p_value"] == pytest.approx(np.mean(larger))
    assert row["mc_error"] == 0


def test_a_pair_of_levels_has_the_p_value_of_scipy() -> None:
    task = make_task(draw_similarity(np.random.default_rng(5), 8), {"a-m": 4, "b-m": 4})

    def statistic(first: np.ndarray, second: np.ndarray) -> float:
        a, b = first.astype(int), second.astype(int)
        inside = [task.similarity[np.ix_(each, each)][np.triu_indices(4, 1)] for each in (a, b)]
        apart = task.similarity[np.ix_(a, b)].mean()
        return abs(float(np.mean([each.mean() for each in inside]) - apart))

    indices = np.arange(4.0), np.arange(4.0, 8)
    oracle = stats.permutation_test(indices, statistic, alternative="greater", n_resamples=np.inf)
    row = compare({"t0": task}, Contrast("persona", first="a-m", second="b-m"))
    assert abs(float(str(row["difference"]))) == pytest.approx(statistic(*indices))
    assert row["p_value"] == pytest.approx(oracle.pvalue)


def test_labellings_are_ordered_as_by_permanova() -> None:
    """With as many prompts in each level the sum of squares within falls as `within` rises."""
    rng = np.random.default_rng(6)
    points = rng.normal(size=(12, 3))
    squares = ((points[:, None] - points) ** 2).sum(axis=-1)
    personas = {"a-m": 4, "b-m": 4, "c-m": 4}
    task = make_task(-squares, personas)
    distances = DistanceMatrix(np.sqrt(squares))
    ours, theirs = [], []
    for _ in range(30):
        levels = rng.permutation(task.columns["persona"])
        moved = TaskPrompts(
            task.similarity, task.n_pairs, task.n_programs, {**task.columns, "persona": levels}
        )
        part = compare_prompts("t0", moved, Contrast("persona"))
        ours.append(np.subtract(*loop_difference(moved, Contrast("persona"))))
        theirs.append(permanova(distances, levels.tolist(), permutations=0)["test statistic"])
        assert part.kind == "overall"
    assert stats.spearmanr(ours, theirs).statistic == pytest.approx(1)


def test_the_p_value_of_a_balanced_study_is_that_of_permanova() -> None:
    rng = np.random.default_rng(17)
    centres = 0.4 * rng.normal(size=(4, 3))
    points = np.repeat(centres, 5, axis=0) + rng.normal(size=(20, 3))
    squares = ((points[:, None] - points) ** 2).sum(axis=-1)
    personas = {f"{role}-m": 5 for role in "abcd"}
    task = make_task(-squares, personas)
    row = compare({"t0": task}, Contrast("persona"), permutations=4999)
    oracle = permanova(
        DistanceMatrix(np.sqrt(squares)),
        task.columns["persona"].tolist(),
        permutations=4999,
        seed=1,
    )
    # Ours is two-sided, but differences below 0 are far smaller than this one.
    assert 0.001 < oracle["p-value"] < 0.2
    assert row["p_value"] == pytest.approx(oracle["p-value"], abs=5 * row["mc_error"] * 1.5)


def test_a_pair_of_levels_is_half_the_squared_distance_of_their_means_without_bias() -> None:
    """Of inner products; by the identity |a - b|^2 less what the scatter of prompts adds."""
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(4, 6)), 1 + rng.normal(size=(5, 6))
    points = np.vstack([a, b])
    task = make_task(points @ points.T, {"a-m": 4, "b-m": 5})
    row = compare({"t0": task}, Contrast("persona", first="a-m", second="b-m"), permutations=19)
    scatter = a.var(axis=0, ddof=1).sum() / 4 + b.var(axis=0, ddof=1).sum() / 5
    squared = ((a.mean(axis=0) - b.mean(axis=0)) ** 2).sum()
    assert row["difference"] == pytest.approx((squared - scatter) / 2)


def test_overall_is_the_mean_of_all_pairs_of_levels_where_all_have_as_many_prompts() -> None:
    task = make_task(draw_similarity(np.random.default_rng(9), 12), {"a-m": 4, "b-m": 4, "c-m": 4})
    pairs = [
        compare({"t0": task}, Contrast("persona", first=a, second=b), permutations=19)
        for a, b in combinations(("a-m", "b-m", "c-m"), 2)
    ]
    overall = compare({"t0": task}, Contrast("persona"), permutations=19)
    mean = np.mean([float(str(row["difference"])) for row in pairs])
    assert overall["difference"] == pytest.approx(mean)


def block_difference(task: TaskPrompts, weights: dict[tuple[str, str], float]) -> float:
    """Sum up weight times the mean similarity of each pair of personas, by loops."""
    personas = task.columns["persona"]
    total = 0.0
    for (a, b), weight in weights.items():
        values = [
            task.similarity[i, j]
            for i, j in combinations(range(len(personas)), 2)
            if sorted((personas[i], personas[j])) == sorted((a, b))
        ]
        total += weight * np.mean(values)
    return total


WEIGHTS = {
    # Personas of 3, 4 and 3 prompts have 3, 6 and 3 pairs, and 12, 9 and 12 with each other.
    "overall": {
        ("a-m", "a-m"): 3 / 12,
        ("b-m", "b-m"): 6 / 12,
        ("c-m", "c-m"): 3 / 12,
        ("a-m", "b-m"): -12 / 33,
        ("a-m", "c-m"): -9 / 33,
        ("b-m", "c-m"): -12 / 33,
    },
    "level": {("a-m", "a-m"): 1.0, ("a-m", "b-m"): -12 / 21, ("a-m", "c-m"): -9 / 21},
    "pair": {("a-m", "a-m"): 0.5, ("b-m", "b-m"): 0.5, ("a-m", "b-m"): -1.0},
}


@pytest.mark.parametrize("contrast", CONTRASTS[:3], ids=lambda each: each.kind)
def test_a_prompt_left_out_leaves_the_weights_of_personas_as_they_are(contrast: Contrast) -> None:
    task = make_task(draw_similarity(np.random.default_rng(10), 10), {"a-m": 3, "b-m": 4, "c-m": 3})
    weights = WEIGHTS[contrast.kind]
    used = np.isin(task.columns["persona"], [name for pair in weights for name in pair])
    expected = []
    for i in np.flatnonzero(used):
        kept = np.arange(10) != i
        expected.append(block_difference(task.choose(kept), weights))
    assert leave_out_each(compare_prompts("t0", task, contrast)) == pytest.approx(expected)


def jackknife_by_loops(tasks: dict[str, TaskPrompts], kind: str) -> tuple[float, float]:
    """Give the variance and its degrees of freedom, prompts of a persona and task as strata."""
    strata = []
    for task in tasks.values():
        personas = task.columns["persona"]
        for persona in np.unique([name for pair in WEIGHTS[kind] for name in pair]):
            without = []
            for i in np.flatnonzero(personas == persona):
                kept = np.arange(len(personas)) != i
                without.append(block_difference(task.choose(kept), WEIGHTS[kind]) / len(tasks))
            n = len(without)
            strata.append(((n - 1) * np.var(without), n - 1))
    variance = sum(part for part, _ in strata)
    return variance, variance**2 / sum(part**2 / df for part, df in strata)


def test_a_level_has_the_standard_error_of_an_explicit_jackknife() -> None:
    rng = np.random.default_rng(11)
    personas = {"a-m": 3, "b-m": 4, "c-m": 3}
    tasks = {f"t{i}": make_task(draw_similarity(rng, 10), personas) for i in range(2)}
    row = compare(tasks, Contrast("persona", first="a-m"), permutations=19)
    variance, df = jackknife_by_loops(tasks, "level")
    assert row["std_error"] == pytest.approx(np.sqrt(variance))
    assert row["df"] == pytest.approx(df)
    half = stats.t.ppf(0.975, df) * np.sqrt(variance)
    assert row["ci_high"] == pytest.approx(row["difference"] + half)


def test_other_contrasts_have_it_less_what_it_counts_too_much() -> None:
    rng = np.random.default_rng(11)
    personas = {"a-m": 3, "b-m": 4, "c-m": 3}
    tasks = {f"t{i}": make_task(draw_similarity(rng, 10), personas) for i in range(2)}
    contrast = Contrast("persona", first="a-m", second="b-m")
    row = compare(tasks, contrast, permutations=19)
    variance, df = jackknife_by_loops(tasks, "pair")
    found = [find_excess(compare_prompts(name, task, contrast)) for name, task in tasks.items()]
    excess, least = np.sum(found, axis=0) / 4
    assert row["std_error"] == pytest.approx(np.sqrt(max(variance - excess, least)))
    assert row["df"] == pytest.approx(df)


def fit_rest(block: np.ndarray, own: bool) -> tuple[float, int]:
    """Fit a mean and effects of prompts by least squares; give the residual's squares and df."""
    n, m = block.shape
    pairs = (
        list(combinations(range(n), 2)) if own else [(i, n + j) for i in range(n) for j in range(m)]
    )
    design = np.zeros((len(pairs), 1 + n + (0 if own else m)))
    design[:, 0] = 1
    for row, (i, j) in enumerate(pairs):
        design[row, [1 + i, 1 + j]] = 1
    values = block[np.triu_indices(n, 1)] if own else block.ravel()
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(((values - fitted) ** 2).sum()), len(pairs) - np.linalg.matrix_rank(design)


def test_what_the_jackknife_counts_too_much_is_what_effects_of_prompts_leave() -> None:
    task = make_task(draw_similarity(np.random.default_rng(16), 9), {"a-m": 4, "b-m": 5})
    part = compare_prompts("t0", task, Contrast("persona", first="a-m", second="b-m"))
    a, b = np.arange(4), np.arange(4, 9)
    p = {}
    for name, (one, other) in {"a": (a, a), "b": (b, b), "ab": (a, b)}.items():
        squares, df = fit_rest(task.similarity[np.ix_(one, other)], len(name) == 1)
        p[name] = squares / df
    excess, least = find_excess(part)
    assert excess == pytest.approx(p["a"] / 4 * 2 / 6 + p["b"] / 4 * 2 / 12 + p["ab"] / 20)
    assert least == pytest.approx(p["a"] / 4 * 2 / 12 + p["b"] / 4 * 2 / 20 + p["ab"] / 20)


def test_the_mean_within_a_persona_is_corrected_as_that_of_texts() -> None:
    """Another derivation of the same: from the sums of texts and the pairs' squares."""
    n = 6
    values = draw_similarity(np.random.default_rng(17), n)
    np.fill_diagonal(values, 0)
    pairs = values[np.triu_indices(n, 1)]
    within_ss = ((pairs - pairs.mean()) ** 2).sum()
    jackknife = jackknife_variance(values.sum(axis=1))
    squares, df = fit_rest(values, True)
    ours = jackknife - squares / df * 2 / ((n - 1) * (n - 2))
    assert ours == pytest.approx(correct_jackknife(jackknife, np.array(within_ss), n))


def test_the_corrected_variance_is_right_in_the_mean() -> None:
    """Prompts of variance 1 as seen by each persona, and a rest of variance 1 a pair."""
    rng = np.random.default_rng(18)
    contrast = Contrast("persona", first="a-m", second="b-m")
    n = 4
    found, estimates = [], []
    for _ in range(1500):
        rest = np.triu(rng.normal(size=(2 * n, 2 * n)), 1)
        own, other = rng.normal(size=(2, 2 * n))
        same = np.arange(2 * n)[:, None] // n == np.arange(2 * n) // n
        values = np.where(same, own[:, None] + own, other[:, None] + other) + rest + rest.T
        part = compare_prompts("t0", make_task(values, {"a-m": n, "b-m": n}), contrast)
        within, between = measure(part, part.labels[None])
        estimates.append(float((within - between)[0]))
        without = leave_out_each(part)
        jackknife = sum((n - 1) * np.var(each) for each in (without[:n], without[n:]))
        found.append(jackknife - find_excess(part)[0])
    # Each prompt: 2 / n of its own, half weighted, less 1 / n of the other; pairs as they are.
    expected = 2 * n * (1 / n) ** 2 * 2 + 2 * 0.25 / 6 + 1 / 16
    assert np.var(estimates) == pytest.approx(expected, rel=0.15)
    assert np.mean(found) == pytest.approx(expected, rel=0.05)


def test_two_prompts_a_persona_have_an_interval_with_tasks_as_strata() -> None:
    task = make_task(
        draw_similarity(np.random.default_rng(12), 6), dict.fromkeys(("a-m", "b-m", "c-m"), 2)
    )
    row = compare({"t0": task}, Contrast("persona"), permutations=19)
    without = [
        np.subtract(*loop_difference(task.choose(np.arange(6) != i), Contrast("persona")))
        for i in range(6)
    ]
    assert leave_out_any(compare_prompts("t0", task, Contrast("persona"))) == pytest.approx(without)
    assert row["std_error"] == pytest.approx(np.sqrt(5 / 6 * 6 * np.var(without)))
    assert row["df"] == pytest.approx(5)
    pair = compare({"t0": task}, Contrast("persona", first="a-m", second="b-m"))
    assert pair["p_value"] is not None
    assert "std_error" not in pair
    assert "three prompts" in str(pair["reason"])


def test_a_pair_of_levels_is_tested_without_looking_at_the_others() -> None:
    rng = np.random.default_rng(13)
    values = draw_similarity(rng, 9)
    personas = {"a-m": 3, "b-m": 3, "c-m": 3}
    contrast = Contrast("persona", first="a-m", second="b-m")
    before = compare({"t0": make_task(values, personas)}, contrast)
    values = values.copy()
    values[6:] *= 0.1
    values[:, 6:] = values[6:].T
    assert compare({"t0": make_task(values, personas)}, contrast) == before


def test_role_is_compared_within_a_gender_and_gender_within_a_role() -> None:
    """Similarity falls by gender; role finds what it finds in the noise alone."""
    personas = dict.fromkeys(("a-m", "b-m", "a-f", "b-f"), 3)
    rng = np.random.default_rng(14)
    noise = make_task(0.01 * draw_similarity(rng, 12), personas)
    gender = noise.columns["gender"]
    same = gender[:, None] == gender
    task = make_task(np.where(same, 0.8, 0.4) + noise.similarity, personas)
    found = {factor: compare({"t0": task}, Contrast(factor)) for factor in ("role", "gender")}
    of_noise = compare({"t0": noise}, Contrast("role"))
    assert found["role"]["difference"] == pytest.approx(of_noise["difference"])
    assert found["role"]["p_value"] == of_noise["p_value"]
    assert found["gender"]["difference"] == pytest.approx(0.4, abs=0.01)
    # Three of six change gender in ten ways, roles apart.
    assert found["gender"]["p_value"] == pytest.approx(1 / 100)


def test_no_prompt_changes_what_is_held_fixed() -> None:
    """With one prompt of each role and gender left to exchange, roles have 2 x 2 labellings."""
    personas = {"a-m": 2, "b-m": 1, "a-f": 2, "b-f": 1}
    task = make_task(draw_similarity(np.random.default_rng(15), 6), personas)
    part = compare_prompts("t0", task, Contrast("role"))
    assert part.n_labellings == 3 * 3


def draw_study(
    rng: np.random.Generator, effect: float, tasks: int = 2, iterations: int = 4
) -> dict[str, TaskPrompts]:
    personas = {f"{role}-m": iterations for role in "abcd"}
    study = {}
    for i in range(tasks):
        centres = effect * rng.normal(size=(4, 5))
        points = np.repeat(centres, iterations, axis=0)
        points = points + rng.normal(size=points.shape) * rng.gamma(2, 0.5, (len(points), 1))
        squares = ((points[:, None] - points) ** 2).sum(axis=-1)
        study[f"t{i}"] = make_task(np.exp(-squares / 10), personas)
    return study


def test_where_nothing_differs_one_study_in_twenty_is_significant() -> None:
    p = [
        float(
            str(
                compare(draw_study(np.random.default_rng(i), 0), Contrast("persona"), 199)[
                    "p_value"
                ]
            )
        )
        for i in range(300)
    ]
    # Five in a hundred of 300, by a binomial: 4 to 28 in all but one case of 10,000.
    assert 4 <= sum(each <= 0.05 for each in p) <= 28


def test_a_planted_difference_is_found() -> None:
    row = compare(draw_study(np.random.default_rng(1), 1.5), Contrast("persona"))
    assert row["p_value"] == pytest.approx(1 / 1000)
    assert float(str(row["ci_low"])) > 0


def list_pairs(
    prompts: list[dict[str, object]],
    replicates: dict[str, int] | int = 2,
    seed: int = 1,
    setting: tuple[str, str | None] = SETTING,
    name: str = "tsed",
) -> pl.DataFrame:
    """List all pairs of programs of a task, with similarities drawn at random."""
    rng = np.random.default_rng(seed)
    rows = []
    for task in dict.fromkeys(str(prompt["task"]) for prompt in prompts):
        programs = [
            (str(prompt["prompt_id"]), i)
            for prompt in prompts
            if prompt["task"] == task
            for i in range(
                replicates
                if isinstance(replicates, int)
                else replicates.get(str(prompt["prompt_id"]), 2)
            )
        ]
        rows += [
            (*setting, name, task, *first, *second, rng.uniform())
            for first, second in combinations(programs, 2)
        ]
    names = "temperature top_p measure task first_prompt first_replicate second_prompt"
    return pl.DataFrame(
        rows, schema=[*names.split(), "second_replicate", "similarity"], orient="row"
    ).with_columns(pl.col("top_p").cast(pl.String))


def test_pairs_of_programs_are_averaged_by_prompt() -> None:
    prompts = make_prompts({"a-m": 2})
    pairs = list_pairs(prompts)
    task = reduce_pairs(pairs, pl.DataFrame(prompts))[(*SETTING, "tsed")]["t0"]
    first, second = "t0-a-m-0", "t0-a-m-1"
    apart = pairs.filter(first_prompt=first, second_prompt=second)["similarity"]
    own = pairs.filter(first_prompt=second, second_prompt=second)["similarity"]
    assert task.similarity[0, 1] == task.similarity[1, 0] == pytest.approx(apart.mean())
    assert task.similarity[1, 1] == pytest.approx(own.item())
    assert task.n_pairs.tolist() == [[1, 4], [4, 1]]
    assert task.n_programs.tolist() == [2, 2]


def test_the_order_in_which_a_pair_is_written_changes_nothing() -> None:
    prompts = make_prompts({"a-m": 3, "b-m": 3})
    pairs = list_pairs(prompts)
    turned = pairs.rename(
        {
            "first_prompt": "second_prompt",
            "second_prompt": "first_prompt",
            "first_replicate": "second_replicate",
            "second_replicate": "first_replicate",
        }
    ).select(pairs.columns)
    frame = pl.DataFrame(prompts)
    before, after = (
        reduce_pairs(each, frame)[(*SETTING, "tsed")]["t0"] for each in (pairs, turned)
    )
    assert before.similarity == pytest.approx(after.similarity)
    assert (before.n_pairs == after.n_pairs).all()


def tabulate(
    pairs: pl.DataFrame,
    prompts: list[dict[str, object]],
    settings: list[tuple[str, str | None]] | None = None,
    model: str = "m",
) -> pl.DataFrame:
    return tabulate_separation(
        pairs,
        list_prompts(pl.DataFrame(prompts)),
        settings or [SETTING],
        ["tsed"],
        study="s",
        model=model,
        seed=1,
        permutations=99,
    )


def test_every_contrast_has_a_row_in_both_variants() -> None:
    prompts = make_prompts(dict.fromkeys(("a-m", "b-m", "c-m"), 3), tasks=2)
    found = tabulate(list_pairs(prompts), prompts)
    # One overall, two tasks, three levels, three pairs; one gender is no factor.
    assert found.group_by("variant").len().sort("variant").rows() == [
        ("iterations", 9),
        ("sampled", 9),
    ]
    assert found["factor"].unique().to_list() == ["persona"]
    crossed = make_prompts(dict.fromkeys(("a-m", "b-m", "a-f", "b-f"), 2))
    # Persona 1 + 1 + 4 + 6; role and gender 1 + 1 + 2 + 1 each.
    assert len(list_contrasts(pl.DataFrame(crossed))) == 12 + 5 + 5


def test_counts_are_of_what_is_compared() -> None:
    prompts = make_prompts({"a-m": 3, "b-m": 2, "c-m": 2})
    found = tabulate(list_pairs(prompts), prompts).filter(variant="iterations")
    counts = {
        (row["first"], row["second"]): (row["n_prompts"], row["n_programs"], row["n_pairs"])
        for row in found.filter(pl.col("task").is_null()).iter_rows(named=True)
    }
    assert counts[None, None] == (7, 14, 14 * 13 // 2)
    # Within a: 3 prompts of 2 programs, 15 pairs; with the 8 others 6 x 8.
    assert counts["a-m", None] == (7, 14, 15 + 48)
    assert counts["b-m", "c-m"] == (4, 8, 8 * 7 // 2)


def test_the_sampled_variant_has_no_within_and_says_why() -> None:
    prompts = make_prompts(dict.fromkeys(("a-m", "b-m"), 3), sampled=1)
    pairs = list_pairs(prompts)
    row = tabulate(pairs, prompts).filter(variant="sampled").row(0, named=True)
    chosen = pairs.filter(first_prompt="t0-a-m-1", second_prompt="t0-b-m-1")["similarity"]
    assert row["between"] == pytest.approx(chosen.mean())
    assert row["same_prompt"] is not None
    empty = ("within", "difference", "std_error", "p_value", "mc_error")
    assert all(row[name] is None for name in empty)
    assert row["reason"] == ONE_SAMPLED
    assert (row["n_prompts"], row["n_programs"], row["n_pairs"]) == (2, 4, 6)


def test_missing_programs_leave_a_reason_and_no_gap() -> None:
    """Task t1: persona b has one prompt with a program, persona c none."""
    prompts = make_prompts(dict.fromkeys(("a-m", "b-m", "c-m"), 3), tasks=2)
    none = {
        str(prompt["prompt_id"]): 0
        for prompt in prompts
        if prompt["task"] == "t1"
        and (prompt["persona"] == "c-m" or prompt["prompt_id"] in ("t1-b-m-1", "t1-b-m-2"))
    }
    found = tabulate(list_pairs(prompts, none), prompts).filter(
        pl.col("task").is_null(), variant="iterations"
    )
    rows = {(row["first"], row["second"]): row for row in found.iter_rows(named=True)}
    assert rows["a-m", "b-m"]["reason"] == "left out: t1"
    assert rows["b-m", "c-m"]["n_prompts"] == 6
    assert rows["a-m", None]["n_prompts"] == 9 + 4
    assert rows[None, None]["difference"] is not None
    # Without b's only prompt nothing is left between personas of t1.
    assert "no interval" in rows[None, None]["reason"]
    assert found["p_value"].null_count() == 0


def test_one_draw_a_prompt_has_no_pairs_of_its_own() -> None:
    prompts = make_prompts(dict.fromkeys(("a-m", "b-m"), 3))
    found = tabulate(list_pairs(prompts, 1), prompts)
    row = found.row(0, named=True)
    assert row["same_prompt"] is None
    assert row["difference"] is not None
    assert found["reason"].str.contains(f"{NOT_REPEATED}(;|$)").all()


def test_tasks_where_no_prompt_was_drawn_twice_are_left_out_of_one_prompt_and_named() -> None:
    """Task t1: one draw a prompt, as with a greedy setting that lost its other draws."""
    prompts = make_prompts(dict.fromkeys(("a-m", "b-m"), 3), tasks=2, sampled=1)
    once = {str(each["prompt_id"]): 1 for each in prompts if each["task"] == "t1"}
    pairs = list_pairs(prompts, once)
    of_prompts = (
        pairs.filter(pl.col("first_prompt") == pl.col("second_prompt"))
        .group_by("first_prompt")
        .agg(pl.col("similarity").mean())
    )
    assert of_prompts.height == 6
    found = tabulate(pairs, prompts)
    overall, t0, t1, level = found.filter(variant="iterations").rows(named=True)[:4]
    assert overall["same_prompt"] == pytest.approx(of_prompts["similarity"].mean())
    assert t0["same_prompt"] == pytest.approx(overall["same_prompt"])
    assert overall["reason"] == f"{NOT_REPEATED} in t1"
    assert t0["reason"] is None
    assert (t1["same_prompt"], t1["reason"]) == (None, NOT_REPEATED)
    of_a = of_prompts.filter(pl.col("first_prompt").str.contains("a-m"))
    assert (level["first"], level["task"]) == ("a-m", None)
    assert level["same_prompt"] == pytest.approx(of_a["similarity"].mean())
    sampled = found.filter(variant="sampled").row(0, named=True)
    assert sampled["same_prompt"] == pytest.approx(
        of_prompts.filter(pl.col("first_prompt").is_in(["t0-a-m-1", "t0-b-m-1"]))[
            "similarity"
        ].mean()
    )
    assert sampled["reason"] == f"{ONE_SAMPLED}; {NOT_REPEATED} in t1"


def test_a_setting_without_programs_has_rows_with_a_reason() -> None:
    prompts = make_prompts(dict.fromkeys(("a-m", "b-m"), 3))
    found = tabulate(list_pairs(prompts), prompts, [SETTING, ("0", None)])
    empty = found.filter(temperature="0")
    assert empty["reason"].unique().to_list() == [NO_PROGRAMS]
    assert empty["n_pairs"].sum() == 0


def test_a_further_setting_or_model_changes_no_p_value_but_adjusted_ones() -> None:
    prompts = make_prompts(dict.fromkeys(("a-m", "b-m", "c-m"), 5))
    pairs = list_pairs(prompts)
    alone = tabulate(pairs, prompts)
    more = tabulate(
        pl.concat([list_pairs(prompts, seed=2, setting=("0", None)), pairs]),
        prompts,
        [("0", None), SETTING],
    )
    assert more.filter(temperature="1.0").equals(alone)
    other = tabulate(pairs, prompts, model="n")
    assert other["difference"].equals(alone["difference"])
    assert not other["p_value"].equals(alone["p_value"])
    adjusted = adjust_separation(pl.concat([alone, other]))
    sizes = adjusted.filter(variant="iterations").select("first", "second", "task", "family_size")
    # Of two models: one contrast overall, one task, three levels, three pairs each.
    assert sizes.filter(pl.all_horizontal(pl.col("first", "task").is_null()))[
        "family_size"
    ].to_list() == [2, 2]
    assert sizes.filter(pl.col("second").is_not_null())["family_size"].unique().item() == 6
    assert adjusted.filter(variant="sampled")["family_size"].null_count() == 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first_prompt": pl.lit("strange")}, "prompt strange of t0 is none of the study's"),
        ({"task": pl.lit("t9")}, "prompt t0-a-m-0 of t9 is none of the study's"),
    ],
)
def test_pairs_of_another_run_are_refused(change: dict[str, pl.Expr], message: str) -> None:
    prompts = make_prompts({"a-m": 2})
    pairs = list_pairs(prompts).head(1).with_columns(**change)
    with pytest.raises(ValueError, match=message):
        reduce_pairs(pairs, pl.DataFrame(prompts))


def test_prompts_that_are_not_compared_are_refused() -> None:
    prompts = make_prompts({"a-m": 3})
    pairs = list_pairs(prompts).filter(
        (pl.col("first_prompt") != "t0-a-m-0") | (pl.col("second_prompt") != "t0-a-m-2")
    )
    with pytest.raises(ValueError, match="prompts t0-a-m-0 and t0-a-m-2, but no pair of both"):
        reduce_pairs(pairs, pl.DataFrame(prompts))


def test_stimuli_without_personas_are_refused() -> None:
    with pytest.raises(ValueError, match="stimuli: have no persona"):
        list_prompts(pl.DataFrame(make_prompts({"a-m": 2})).drop("persona"))
    with pytest.raises(ValueError, match="prompt t0-a-m-0 is there twice"):
        list_prompts(pl.DataFrame(make_prompts({"a-m": 1}) * 2))
