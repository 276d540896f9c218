"""Mixed models of tasks' lines: time beside statsmodels, and how often intervals cover the truth.

    python benchmarks/task_slopes.py time [--tasks 206] [--pairs 25] [--repeats 10]
    python benchmarks/task_slopes.py coverage [--studies 500] [--tasks 6 20 80] [--seed 1]

`time`: one model, method, measure and setting of the published size, 11 rates of 25 pairs a task.
statsmodels gets the single pairs. Prints milliseconds of CPU time (the median of the repeats, one
run of statsmodels; set OMP_NUM_THREADS=1), how many times as long as the profile, and the largest
differences from it.

`coverage`: studies whose truth is known, by number of tasks: five draws a prompt compared with five
of the reference, so that pairs share draws; lines of tasks that differ. How many of 100 intervals
of the slope cover the true one, by level and random effects.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit
from statsmodels.regression.mixed_linear_model import MixedLM

from llm_variability.curves.random_slopes import RANDOM, fit_slopes
from llm_variability.fits.random_intercept import (
    GroupedOutcome,
    UnfittableError,
    collapse_to_means,
)

RATES = np.linspace(0, 1, 11)
LINE = (0.8, -0.5)
SPREADS = {
    "slopes 0": (0.12, 0.0),
    "slopes 0.05": (0.12, 0.05),
    "slopes 0.2": (0.12, 0.2),
}
DRAWS = 5


def simulate_study(
    rng: np.random.Generator, n_tasks: int, spread: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw (tasks x rates, pairs) similarities, and the task and realised rate of each row.

    A pair's noise is that of its two draws (SD 0.07 each) and its own (0.05); the reference's
    draws are the same at every rate of a task. Realised rates fall short of nominal ones by up to
    a half, in some tasks.
    """
    lines = np.array(LINE) + rng.normal(size=(n_tasks, 2)) * np.array(spread)
    realised = RATES * rng.uniform(0.5, 1, size=(n_tasks, 1))
    mean = lines[:, :1] + lines[:, 1:] * realised
    reference = 0.07 * rng.normal(size=(n_tasks, 1, DRAWS, 1))
    drawn = 0.07 * rng.normal(size=(n_tasks, len(RATES), 1, DRAWS))
    own = 0.05 * rng.normal(size=(n_tasks, len(RATES), DRAWS, DRAWS))
    pairs = mean[..., None, None] + reference + drawn + own
    task = np.repeat(np.arange(n_tasks), len(RATES))
    return pairs.reshape(len(task), -1), task, realised.ravel()


def group_rows(pairs: np.ndarray, task: np.ndarray, rate: np.ndarray) -> GroupedOutcome:
    mean = pairs.mean(axis=1)
    return GroupedOutcome(
        block=task,
        coding=np.column_stack([np.ones_like(rate), rate]),
        count=np.full(len(task), pairs.shape[1]),
        mean=mean,
        within_ss=((pairs - mean[:, None]) ** 2).sum(axis=1),
    )


def median_time(fit: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        result = fit()
        seconds.append(time.process_time() - begin)
    return float(np.median(seconds)), result


def fit_pairs(outcome: GroupedOutcome, pairs: np.ndarray, random: str, method: str | None) -> Any:
    coding = np.repeat(outcome.coding, pairs.shape[1], axis=0)
    task = np.repeat(outcome.block, pairs.shape[1])
    varying = coding if len(RANDOM[random]) > 1 else coding[:, :1]
    options = {"method": method, "ftol": 1e-14, "maxiter": 2000} if method else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MixedLM(pairs.ravel(), coding, task, exog_re=varying).fit(reml=True, **options)


def compare_times(n_tasks: int, n_pairs: int, repeats: int) -> None:
    rng = np.random.default_rng(1)
    pairs, task, rate = simulate_study(rng, n_tasks, SPREADS["slopes 0.2"])
    pairs = pairs[:, :n_pairs]
    outcome = group_rows(pairs, task, rate)
    print(f"{pairs.size:,} pairs, {n_tasks} tasks, {len(task)} rows")
    print(
        f"Python {platform.python_version()}, numpy {version('numpy')},"
        f" statsmodels {version('statsmodels')}\n"
    )
    print("| random | fit | ms | x profile | estimates | deviance | says converged |")
    print("|---|---|---|---|---|---|---|")
    for random in RANDOM:
        reference_time, reference = median_time(lambda r=random: fit_slopes(outcome, r), repeats)
        print(
            f"| {random} | profile | {1e3 * reference_time:.0f} | 1 | | | {reference.converged} |"
        )
        for name, method in (("statsmodels, its default", None), ("statsmodels, powell", "powell")):
            seconds, fit = median_time(
                lambda r=random, m=method: fit_pairs(outcome, pairs, r, m), 1
            )
            estimates = np.abs(fit.fe_params - reference.estimate).max()
            print(
                f"| {random} | {name} | {1e3 * seconds:,.0f} | {seconds / reference_time:,.0f} |"
                f" {estimates:.1e} | {-2 * fit.llf - reference.deviance:+.1e} | {fit.converged} |"
            )
    print("\nestimates: largest difference; deviance: above (+) that of the profile")


def covers(outcome: GroupedOutcome, random: str, level: str) -> bool | None:
    """Whether the interval of the slope covers it; None if nothing could be fitted."""
    try:
        fit = fit_slopes(outcome if level == "pair" else collapse_to_means(outcome), random)
    except UnfittableError:
        return None
    if not fit.converged:
        return None
    quantile = ndtri(0.975) if level == "pair" else stdtrit(fit.df[1], 0.975)
    return bool(abs(fit.estimate[1] - LINE[1]) <= quantile * fit.std_error[1])


def measure_coverage(studies: int, sizes: Sequence[int], seed: int) -> None:
    columns = [(level, random) for level in ("pair", "task") for random in RANDOM]
    print(f"{studies} studies of each kind, seed {seed}; percent covered (fits that failed)\n")
    print("| tasks | true SD | " + " | ".join(f"{a}, {b}" for a, b in columns) + " |")
    print("|---|---|" + "---|" * len(columns))
    for n_tasks in sizes:
        for name, spread in SPREADS.items():
            rng = np.random.default_rng([seed, n_tasks])
            found: dict[tuple[str, str], list[bool | None]] = {each: [] for each in columns}
            for _ in range(studies):
                outcome = group_rows(*simulate_study(rng, n_tasks, spread))
                for level, random in columns:
                    found[level, random].append(covers(outcome, random, level))
            cells = []
            for each in columns:
                fitted = [covered for covered in found[each] if covered is not None]
                cells.append(f"{100 * np.mean(fitted):.1f} ({studies - len(fitted)})")
            print(f"| {n_tasks} | {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    timing = commands.add_parser("time", help="beside statsmodels, at the published size")
    timing.add_argument("--tasks", type=int, default=206, help="tasks")
    timing.add_argument("--pairs", type=int, default=25, help="pairs a prompt, at most 25")
    timing.add_argument("--repeats", type=int, default=10, help="runs of the profile")
    coverage = commands.add_parser("coverage", help="of intervals, in studies of known truth")
    coverage.add_argument("--studies", type=int, default=500, help="studies of each kind")
    coverage.add_argument("--tasks", type=int, nargs="+", default=[6, 20, 80], help="tasks")
    coverage.add_argument("--seed", type=int, default=1, help="seed of the studies")
    arguments = parser.parse_args()
    if arguments.command == "time":
        compare_times(arguments.tasks, arguments.pairs, arguments.repeats)
    else:
        measure_coverage(arguments.studies, arguments.tasks, arguments.seed)


if __name__ == "__main__":
    main()
