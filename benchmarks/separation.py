"""Comparisons of personas: how often they reject where nothing differs, coverage, guesses, speed.

    python benchmarks/separation.py size [--studies 2000] [--permutations 199]
    python benchmarks/separation.py guess [--studies 50]
    python benchmarks/separation.py speed [--permutations 999]

`size` draws studies of 4 personas, 1 or 3 tasks and 2, 3 or 5 prompts of each, 3 programs a prompt.
A program is a point in 8 dimensions: that of its persona, plus what its prompt adds (some prompts
much more than others), plus its own; the similarity of two programs is exp(-d^2 / 16). Personas are
normal with a standard deviation of 0, 0.5 or 1, prompts of 1. It prints the percentage of studies
that are significant at 5% by permutation of prompts, by the jackknife's t, and, where nothing
differs, by permutation of programs as if each were of a prompt of its own; and the percentage of
95% intervals that hold the truth. For features the same, on exponential values; for the classifier
the mean accuracy too.

`guess` compares the classifier in use with multinomial logistic regression and with regression on
indicators of scikit-learn: mean balanced accuracy over studies of 15 features of a program or 600
words, whose personas differ at random or along one line.

`speed` times a model at the published size: 41 settings, 3 measures, 60 prompts, 5 draws.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from llm_variability.separation.classifier import (
    SYNTAX_COLUMNS,
    Asked,
    average_with,
    balance_accuracy,
    guess,
    guess_personas,
    prepare_folds,
    tabulate_leakage,
)
from llm_variability.separation.means import tabulate_means, tabulate_programs
from llm_variability.separation.prompt_pairs import TaskPrompts
from llm_variability.separation.similarity import Comparisons, Contrast, tabulate_separation
from llm_variability.tables_personas import FEATURE_COLUMNS, FEATURES

PERSONAS = ("a", "b", "c", "d")
CONTRASTS = {
    "overall": Contrast("persona"),
    "level": Contrast("persona", first="a"),
    "pair": Contrast("persona", first="a", second="b"),
}
DIRECTIONS = 8
DRAWS = 3
DESIGNS = ((1, 2), (1, 3), (1, 5), (3, 2), (3, 3), (3, 5))


def draw_programs(
    rng: np.random.Generator, centres: np.ndarray, iterations: int, draws: int
) -> np.ndarray:
    """Draw (personas x iterations, draws, directions) programs; some prompts lie far off."""
    n = len(centres) * iterations
    own = rng.normal(size=(n, DIRECTIONS)) * rng.gamma(2, 0.41, size=(n, 1))
    prompts = np.repeat(centres, iterations, axis=0) + own
    return prompts[:, None] + 0.7 * rng.normal(size=(n, draws, DIRECTIONS))


def compare_programs(programs: np.ndarray) -> np.ndarray:
    """Give the similarity of all programs: (n, n)."""
    flat = programs.reshape(-1, DIRECTIONS)
    squares = (flat**2).sum(axis=1)
    return np.exp(-(squares[:, None] + squares - 2 * flat @ flat.T) / 16)


def make_task(similarity: np.ndarray, draws: int) -> TaskPrompts:
    """Reduce the similarity of programs, `draws` a prompt, to that of prompts."""
    n = len(similarity) // draws
    blocks = similarity.reshape(n, draws, n, draws)
    means = blocks.mean(axis=(1, 3))
    if draws > 1:
        own = np.einsum("iaib->i", blocks) - np.einsum("iaia->i", blocks)
        np.fill_diagonal(means, own / (draws * (draws - 1)))
    n_pairs = np.full((n, n), draws**2)
    np.fill_diagonal(n_pairs, draws * (draws - 1) // 2)
    personas = np.repeat(PERSONAS, n // len(PERSONAS))
    columns = {
        "persona": personas,
        "role": personas,
        "gender": np.repeat("male", n),
        "sampled": np.repeat("no", n),
    }
    return TaskPrompts(means, n_pairs, np.full(n, draws), columns)


def find_truth(rng: np.random.Generator, centres: list[np.ndarray]) -> dict[str, float]:
    """Give each contrast in the population, from 200 prompts a persona and task."""
    tasks = {
        f"t{i}": make_task(compare_programs(draw_programs(rng, each, 200, 1)), 1)
        for i, each in enumerate(centres)
    }
    comparisons = Comparisons(list(tasks), tasks, 1, ("truth",))
    return {
        name: comparisons.compare(contrast, "iterations")["difference"]
        for name, contrast in CONTRASTS.items()
    }


def measure_size(studies: int, permutations: int) -> None:
    """Print rejections and coverage of contrasts, of means and of the classifier."""
    for effect in (0.0, 0.5, 1.0):
        for n_tasks, iterations in DESIGNS:
            for line in simulate_contrasts(studies, permutations, effect, n_tasks, iterations):
                print(line, flush=True)
    for n_tasks, iterations in DESIGNS:
        print(simulate_means(studies, permutations, n_tasks, iterations), flush=True)
        print(simulate_leakage(studies, permutations, n_tasks, iterations), flush=True)


def simulate_contrasts(
    studies: int, permutations: int, effect: float, n_tasks: int, iterations: int
) -> Iterator[str]:
    """Draw studies of 10 sets of personas each; a line a contrast."""
    rejected: dict[tuple[str, str], list[bool]] = {}
    held: dict[str, list[bool]] = {}
    for family in range(10):
        rng = np.random.default_rng([family, int(10 * effect), n_tasks, iterations])
        centres = [effect * rng.normal(size=(len(PERSONAS), DIRECTIONS)) for _ in range(n_tasks)]
        truth = find_truth(rng, centres) if effect else dict.fromkeys(CONTRASTS, 0.0)
        for number in range(studies // 10):
            similar = {
                f"t{i}": compare_programs(draw_programs(rng, each, iterations, DRAWS))
                for i, each in enumerate(centres)
            }
            by_prompt = {name: make_task(each, DRAWS) for name, each in similar.items()}
            ways = {"prompts": by_prompt}
            if not effect:
                ways["programs"] = {name: make_task(each, 1) for name, each in similar.items()}
            for way, tasks in ways.items():
                compared = Comparisons(list(tasks), tasks, permutations, (family, number))
                for name, contrast in CONTRASTS.items():
                    row = compared.compare(contrast, "iterations")
                    rejected.setdefault((name, way), []).append(row["p_value"] <= 0.05)
                    if way == "prompts" and row.get("ci_low") is not None:
                        low, high = row["ci_low"], row["ci_high"]
                        rejected.setdefault((name, "t"), []).append(not low <= 0 <= high)
                        held.setdefault(name, []).append(low <= truth[name] <= high)
    for name in CONTRASTS:
        shares = ", ".join(
            f"{way} {np.mean(rejected[name, way]):.1%}"
            for way in ("prompts", "t", "programs")
            if (name, way) in rejected
        )
        covered = f"{np.mean(held[name]):.1%}" if name in held else "no interval"
        yield (
            f"apart {effect} tasks {n_tasks} prompts {iterations} {name:7}"
            f" rejects: {shares}; covers: {covered}"
        )


def _list_prompts(n_tasks: int, iterations: int) -> pl.DataFrame:
    rows = [
        (f"{task}-{persona}-{i}", f"t{task}", persona, persona, "male", str(i), "no")
        for task in range(n_tasks)
        for persona in PERSONAS
        for i in range(iterations)
    ]
    names = ["prompt_id", "task", "persona", "role", "gender", "iteration", "sampled"]
    return pl.DataFrame(rows, schema=names, orient="row")


def simulate_means(studies: int, permutations: int, n_tasks: int, iterations: int) -> str:
    """Take studies of one feature as features of one study: they share labels, not values."""
    prompts = _list_prompts(n_tasks, iterations)
    rejected, held = [], []
    for number in range(studies // 20):
        rng = np.random.default_rng([number, n_tasks, iterations])
        values = prompts.select("prompt_id").with_columns(
            **{f"f{i}": pl.Series(rng.exponential(size=prompts.height)) for i in range(20)}
        )
        rows = tabulate_means(values, prompts, permutations, (number,))
        rejected += [row["p_value"] <= 0.05 for row in rows if row["persona"] == "a"]
        held += [row["ci_low"] <= 1 <= row["ci_high"] for row in rows]
    return (
        f"means tasks {n_tasks} prompts {iterations} rejects {np.mean(rejected):.1%};"
        f" covers: {np.mean(held):.1%}"
    )


def make_asked(n_tasks: int, iterations: int, draws: int) -> Asked:
    """A prompt a task, persona and iteration, in this order."""
    cells = [
        (task if n_tasks > 1 else i, persona)
        for task in range(n_tasks)
        for persona in range(len(PERSONAS))
        for i in range(iterations)
    ]
    folds, personas = np.array(cells).T
    prompts = np.repeat(np.arange(len(cells)), draws)
    return Asked(
        folds[prompts], "task" if n_tasks > 1 else "iteration", prompts, personas, PERSONAS
    )


def view_scaled(matrix: np.ndarray):
    """See columns, scaled as features of the syntax tree are."""

    def view(train: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, int]:
        centred = matrix - means @ matrix
        standard = centred / np.sqrt((centred[train] ** 2).mean(axis=0))
        return standard @ standard.T, matrix.shape[1]

    return view


def simulate_leakage(studies: int, permutations: int, n_tasks: int, iterations: int) -> str:
    """Guess personas of programs that have nothing of them, but much of their prompts."""
    asked = make_asked(n_tasks, iterations, DRAWS)
    rejected, accuracy, permuted = [], [], []
    for number in range(studies):
        rng = np.random.default_rng([number, n_tasks, iterations])
        own = rng.normal(size=(len(asked.personas), 15))[asked.prompts]
        matrix = own + 0.5 * rng.normal(size=own.shape)
        found = guess(asked, view_scaled(matrix), permutations, (number,))
        rejected.append(found.p_value <= 0.05)
        accuracy.append(found.accuracy)
        permuted.append(found.permuted)
    return (
        f"guess tasks {n_tasks} prompts {iterations} rejects {np.mean(rejected):.1%};"
        f" accuracy {np.mean(accuracy):.3f}, permuted {np.mean(permuted):.3f}"
    )


def draw_features(
    rng: np.random.Generator, asked: Asked, apart: float, features: int, line: bool
) -> np.ndarray:
    """Draw programs whose features are correlated and differ between tasks, prompts, personas."""
    personas = len(PERSONAS)
    places = np.arange(personas)[:, None] - 1.5 if line else rng.normal(size=(personas, features))
    centres = apart * places * (rng.normal(size=features) if line else 1)
    folds = int(asked.folds.max()) + 1
    there = centres + 0.5 * apart * rng.normal(size=(folds, personas, features))
    tasks = 1.5 * rng.normal(size=(folds, features)) if asked.by == "task" else np.zeros((folds, 1))
    truth = asked.personas[asked.prompts]
    n = len(asked.personas)
    correlated = np.sqrt(0.5) * (rng.normal(size=(n, features)) + rng.normal(size=(n, 1)))
    noise = 0.7 * rng.normal(size=(len(truth), features))
    where = asked.folds if asked.by == "task" else np.zeros_like(asked.folds)
    return tasks[where] + there[where, truth] + correlated[asked.prompts] + noise


def predict(matrix: np.ndarray, asked: Asked, model: object) -> np.ndarray:
    """Guess with a model of scikit-learn, features centred and scaled as ours."""
    truth = asked.personas[asked.prompts]
    guessed = np.empty_like(truth)
    for fold in np.unique(asked.folds):
        test = asked.folds == fold
        centred = matrix - average_with(asked, ~test) @ matrix
        scaled = centred / np.sqrt((centred[~test] ** 2).mean(axis=0))
        guessed[test] = model.fit(scaled[~test], truth[~test]).predict(scaled[test])  # type: ignore[attr-defined]
    return guessed


def measure_guesses(studies: int) -> None:
    """Print balanced accuracies of classifiers."""
    warnings.filterwarnings("ignore")  # few iterations are enough for a comparison
    for n_tasks, iterations, draws in ((3, 5, 5), (1, 5, 5), (1, 2, 3)):
        asked = make_asked(n_tasks, iterations, draws)
        truth = asked.personas[asked.prompts]
        for features, apart in ((15, 0.3), (15, 0.7), (600, 0.1), (600, 0.2)):
            for line in (False, True):
                accuracy: dict[str, list[float]] = {}
                for number in range(studies):
                    rng = np.random.default_rng([number, n_tasks, iterations])
                    matrix = draw_features(rng, asked, apart, features, line)
                    kernels = prepare_folds(asked, view_scaled(matrix))
                    guesses = {"in use": guess_personas(asked, kernels, asked.personas[None])[0]}
                    models = {
                        f"logistic C={c}": LogisticRegression(C=c, max_iter=200)
                        for c in ((0.01,) if features > 100 else (0.01, 0.1, 1))
                    }
                    for name, model in {**models, "indicators": RidgeClassifier(100)}.items():
                        guesses[name] = predict(matrix, asked, model)
                    for name, guessed in guesses.items():
                        right = balance_accuracy(truth[None], guessed[None], len(PERSONAS))
                        accuracy.setdefault(name, []).append(float(right[0]))
                told = ", ".join(f"{name} {np.mean(each):.3f}" for name, each in accuracy.items())
                print(
                    f"tasks {n_tasks} prompts {iterations} features {features} apart {apart}"
                    f" {'line' if line else 'random'}: {told}",
                    flush=True,
                )


def _make_code(rng: np.random.Generator) -> str:
    lines = [
        f"    total_{rng.integers(40)} = compute_{rng.integers(60)}(value_{rng.integers(80)}, 'x')"
        for _ in range(60)
    ]
    return "def main():\n" + "\n".join(lines)


def measure_speed(permutations: int) -> None:
    """Time one model of the published size."""
    rng = np.random.default_rng(1)
    prompts = _list_prompts(3, 5)
    settings = [(f"{i}", "1.0") for i in range(41)]
    draws = pl.DataFrame({"replicate": range(5)}, schema={"replicate": pl.Int32})
    drawn = (
        pl.DataFrame(settings, schema=["temperature", "top_p"], orient="row")
        .join(prompts.select("prompt_id", language=pl.lit("python")), how="cross")
        .join(draws, how="cross")
    )
    features = drawn.with_columns(
        reply=pl.lit("program"),
        **{
            name: pl.Series(rng.poisson(9, drawn.height))
            if FEATURES.columns[name].dtype != pl.Boolean or name not in SYNTAX_COLUMNS
            else pl.Series(rng.uniform(size=drawn.height) < 0.5)
            for name in FEATURE_COLUMNS
        },
    )
    pairs = []
    for task in ("t0", "t1", "t2"):
        ends = [(name, i) for name in prompts.filter(task=task)["prompt_id"] for i in range(5)]
        listed = [(task, *first, *second) for first, second in combinations(ends, 2)]
        names = ["task", "first_prompt", "first_replicate", "second_prompt", "second_replicate"]
        pairs.append(pl.DataFrame(listed, schema=names, orient="row"))
    measures = pl.DataFrame({"measure": ["tsed", "minilm", "coder"]})
    compared = (
        pl.DataFrame(settings, schema=["temperature", "top_p"], orient="row")
        .join(measures, how="cross")
        .join(pl.concat(pairs), how="cross")
    )
    compared = compared.with_columns(similarity=pl.Series(rng.uniform(size=compared.height)))
    how = {"study": "speed", "model": "m", "seed": 1}
    start = time.process_time()
    found = tabulate_separation(
        compared, prompts, settings, measures["measure"].to_list(), permutations=permutations, **how
    )
    print(
        f"similarity: {compared.height} pairs, {found.height} contrasts, {permutations}"
        f" permutations: {time.process_time() - start:.1f} CPU s"
    )
    start = time.process_time()
    means = tabulate_programs(features, prompts, permutations=permutations, **how)
    print(
        f"means: {features.height} programs, {means.height} rows, {permutations} permutations:"
        f" {time.process_time() - start:.1f} CPU s"
    )
    programs = drawn.with_columns(code=pl.Series([_make_code(rng) for _ in range(drawn.height)]))
    start = time.process_time()
    leakage, _ = tabulate_leakage(features, programs, prompts, permutations=199, **how)
    print(
        f"classifier: {leakage.height} rows of 300 programs and 3 folds, 199 permutations:"
        f" {time.process_time() - start:.1f} CPU s"
    )
    asked = make_asked(3, 5, 5)
    view = view_scaled(rng.normal(size=(300, len(SYNTAX_COLUMNS))))
    start = time.process_time()
    guess(asked, view, 199, (1,))
    print(f"of these one by features of the syntax tree: {time.process_time() - start:.2f} CPU s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("size", "guess", "speed"))
    parser.add_argument("--studies", type=int)
    parser.add_argument("--permutations", type=int)
    arguments = parser.parse_args()
    print(platform.processor() or platform.machine(), "numpy", np.__version__)
    if arguments.what == "size":
        measure_size(arguments.studies or 2000, arguments.permutations or 199)
    elif arguments.what == "guess":
        measure_guesses(arguments.studies or 50)
    else:
        measure_speed(arguments.permutations or 999)


if __name__ == "__main__":
    main()
