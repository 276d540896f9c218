"""Curves of a study of code: how often their tests reject where nothing differs, and their speed.

    python benchmarks/curves.py size [--studies 2000] [--tasks 8 20 160]
    python benchmarks/curves.py speed [--resamples 2000]

`size` draws studies of two models of N tasks, and of a set of N tasks and one of 20, whose curves
have the same population: each task has a ceiling, a floor and a rate of decay of its own (skewed),
and every mean the noise of five draws. Steep curves end at the floor, flat ones at 0.3 of the way
to the ceiling. It prints, for each summary and N, the percentage of studies in which the difference
has p < 0.05 under the test in use and under those it was chosen from: t with the standard error of
the jackknife or of the bootstrap, and the expanded percentile interval. Then the
percentage of 95% intervals of one curve's summary, expanded and plain percentile, that hold the
truth.

`speed` times tables of the published size: 5 models, 3 measures, 206 tasks, 31 prompts a task.
"""

from __future__ import annotations

import argparse
import platform
import time

import numpy as np
import polars as pl

from llm_variability.curves.contrasts import (
    Curves,
    find_lines,
    jackknife_difference,
    tabulate_contrasts,
)
from llm_variability.curves.points import CEILING, FLOOR, Panel, Point
from llm_variability.curves.resampling import bootstrap_test, draw_weights, expanded_tail
from llm_variability.curves.tabulation import tabulate_curves
from llm_variability.curves.traces import Trace, Tracer, summarise
from llm_variability.tables_code import SUMMARIES

RATES = np.arange(1, 11) / 10
RESAMPLES = 1000
SETS = {"humaneval": 164, "fresh": 20, "open": 22}


def draw_similarities(
    rng: np.random.Generator, n_tasks: int, share: np.ndarray, plateau: float = 0
) -> np.ndarray:
    """Draw (tasks, 12) mean similarities: ceiling, floor, and a curve at `RATES`.

    share: (tasks,) standard normal, what a task's difficulty has in common between models.
    plateau: rescaled height that the curve ends at.
    """
    own = 0.7 * share + np.sqrt(1 - 0.49) * rng.standard_normal(n_tasks)
    ceiling = 1 - 0.25 * rng.beta(1.2, 2.5, n_tasks)
    floor = 0.15 + 0.2 * rng.beta(2, 3, n_tasks)
    decay = 2.2 * np.exp(0.7 * own)
    heights = plateau + (1 - plateau) * np.exp(-decay[:, None] * RATES)
    curve = floor[:, None] + (ceiling - floor)[:, None] * heights
    noise = rng.normal(scale=0.08, size=curve.shape)
    return np.hstack([ceiling[:, None], floor[:, None], np.clip(curve + noise, 0, 1)])


def make_panel(similarity: np.ndarray, name: str, task_set: str) -> Panel:
    """Put drawn similarities into a panel, with the ceiling as the curve's beginning."""
    n_tasks = len(similarity)
    values = np.hstack([similarity[:, :2], similarity[:, :1], similarity[:, 2:]])
    points = (
        CEILING,
        FLOOR,
        Point("ceiling", "keyboard", "0"),
        *(Point("augmented", "keyboard", f"{rate:.1f}") for rate in RATES),
    )
    realised = np.tile(np.concatenate([[np.nan, np.nan, 0], RATES]), (n_tasks, 1))
    return Panel(
        model=name,
        measure="tsed",
        temperature="0",
        top_p=None,
        points=points,
        tasks=np.array([f"{task_set}/{i:03}" for i in range(n_tasks)]),
        sets=np.array([task_set] * n_tasks),
        similarity=values,
        realised=realised,
        asked=np.ones(values.shape, dtype=bool),
        n_pairs=np.full(values.shape, 25),
    )


def find_truth(plateau: float) -> dict[str, float]:
    """Give the summaries of the population, from half a million tasks."""
    rng = np.random.default_rng(0)
    n_tasks = 500_000
    means = draw_similarities(rng, n_tasks, rng.standard_normal(n_tasks), plateau).mean(axis=0)
    heights = np.concatenate([[1], (means[2:] - means[1]) / (means[0] - means[1])])[None]
    rates = np.concatenate([[0], RATES])[None]
    used = (rates[0] > 0) & (rates[0] < 0.34)
    return {name: float(value[0]) for name, value in summarise((rates, heights), used).items()}


def trace_panel(panel: Panel, seed: int) -> tuple[Trace, dict[str, np.ndarray]]:
    """Give a panel's curve, and its summaries in bootstrap samples."""
    tracer = Tracer(panel, "keyboard")
    weights = draw_weights(panel.sets, seed, RESAMPLES)
    samples = summarise(tracer.draw(weights), tracer.used)
    return tracer.trace(samples["half_life"]), samples


def test_pair(
    panels: tuple[Panel, Panel],
    traced: tuple[tuple[Trace, dict[str, np.ndarray]], ...],
    kind: str,
) -> dict[tuple[str, str], float | None]:
    """Give the p value of every summary's difference under every test; None for no test."""
    names = ("same", "same") if kind == "model" else ("a", "b")
    curves = [
        Curves(
            panel.model if kind == "model" else "one",
            name,
            {"keyboard": trace},
            find_lines(panel),
        )
        for panel, name, (trace, _) in zip(panels, names, traced, strict=True)
    ]
    p: dict[tuple[str, str], float | None] = {
        (row["summary"], "in use"): row.get("p_value") for row in tabulate_contrasts(curves)
    }
    (first, ours), (second, theirs) = traced
    sets = first.sets if kind == "model" else np.concatenate([first.sets, second.sets])
    tail = expanded_tail(len(sets), len(np.unique(sets)))
    for name in SUMMARIES:
        with np.errstate(invalid="ignore"):
            drawn = ours[name] - theirs[name]
            estimate = (
                summarise(first.whole, first.used)[name]
                - summarise(second.whole, second.used)[name]
            )
        paired = [(drawn, sets)]
        apart = [(ours[name], first.sets), (theirs[name], second.sets)]
        test = jackknife_difference(name, first, second)
        p[name, "jackknife t"] = None if test is None else test.p_value
        finite = np.isfinite(drawn).all() and np.isfinite(estimate).all()
        parts = paired if kind == "model" else apart
        test = bootstrap_test(float(estimate[0]), parts) if finite else None
        p[name, "bootstrap t"] = None if test is None else test.p_value
        low, high = np.quantile(drawn, [tail, 1 - tail]) if finite else (0.0, 0.0)
        p[name, "percentile"] = float(low <= 0 <= high) if finite else None
    return p


def cover_truth(
    samples: dict[str, np.ndarray], n_tasks: int, truth: dict[str, float]
) -> dict[tuple[str, str], float]:
    """Tell whether the intervals of one curve's summaries hold the truth, 1 or 0."""
    held = {}
    for name in SUMMARIES:
        values = np.sort(samples[name])
        for tail, method in ((expanded_tail(n_tasks, 1), "expanded"), (0.025, "plain")):
            k = max(int(tail * (RESAMPLES + 1)) - 1, 0)
            held[name, method] = float(values[k] <= truth[name] <= values[-1 - k])
    return held


def measure_size(studies: int, sizes: list[int]) -> None:
    """Print rejections of true null hypotheses, and coverage."""
    for shape, plateau in (("steep", 0.0), ("flat", 0.3)):
        truth = find_truth(plateau)
        print(f"{shape}: {', '.join(f'{name} {value:.3f}' for name, value in truth.items())}")
        for n_tasks in sizes:
            rejected, held = simulate_studies(studies, n_tasks, plateau, truth)
            for (kind, summary, test), each in rejected.items():
                known = [value for value in each if value is not None]
                head = f"{shape:5} {n_tasks:4} {kind:5} {summary:9} {test:12}"
                share = f"{np.mean(known):6.1%}" if known else "  none"
                print(f"{head} rejects {share}, no test in {1 - len(known) / studies:.1%}")
            for (summary, method), covered in held.items():
                print(f"{shape:5} {n_tasks:4} {summary:9} {method:8} covers {covered:.1%}")


def simulate_studies(
    studies: int, n_tasks: int, plateau: float, truth: dict[str, float]
) -> tuple[dict[tuple[str, str, str], list[bool | None]], dict[tuple[str, str], float]]:
    """Give what is rejected by kind, summary and test, None for no test; and shares covered."""
    rejected: dict[tuple[str, str, str], list[bool | None]] = {}
    held: dict[tuple[str, str], list[float]] = {}
    for number in range(studies):
        rng = np.random.default_rng([number, n_tasks])
        share, other_share = rng.standard_normal(n_tasks), rng.standard_normal(20)
        first, second, other = (
            make_panel(draw_similarities(rng, len(each), each, plateau), name, task_set)
            for each, name, task_set in (
                (share, "first", "a"),
                (share, "second", "a"),
                (other_share, "first", "b"),
            )
        )
        traced = [trace_panel(panel, number) for panel in (first, second, other)]
        for kind, panels, pair in (
            ("model", (first, second), (traced[0], traced[1])),
            ("set", (first, other), (traced[0], traced[2])),
        ):
            for (summary, test), p in test_pair(panels, pair, kind).items():
                significant = None if p is None else p < 0.05
                rejected.setdefault((kind, summary, test), []).append(significant)
        for key, value in cover_truth(traced[0][1], n_tasks, truth).items():
            held.setdefault(key, []).append(value)
    return rejected, {key: float(np.mean(values)) for key, values in held.items()}


def make_averages(models: int, measures: int, methods: int = 3) -> pl.DataFrame:
    """Draw averages of the published size: 206 tasks, unaltered and at 10 rates a method."""
    rows = []
    for model in range(models):
        for measure in range(measures):
            for name, n_tasks in SETS.items():
                rng = np.random.default_rng([model, measure, n_tasks])
                share = rng.standard_normal(n_tasks)
                for method in range(methods):
                    drawn = draw_similarities(rng, n_tasks, share)
                    rows += _list_rows(drawn, f"m{model}", f"s{measure}", name, method)
    return pl.DataFrame(rows, orient="row", schema=_SCHEMA)


_SCHEMA = {
    "model": pl.String,
    "measure": pl.String,
    "temperature": pl.String,
    "top_p": pl.String,
    "set": pl.String,
    "task": pl.String,
    "comparison": pl.String,
    "augmentation": pl.String,
    "method": pl.String,
    "rate": pl.String,
    "prompt_id": pl.String,
    "realised": pl.Float64,
    "n_pairs": pl.Int64,
    "mean": pl.Float64,
}


def _list_rows(
    drawn: np.ndarray, model: str, measure: str, name: str, number: int
) -> list[tuple[object, ...]]:
    method = ("keyboard", "synonym", "typing")[number]
    rows: list[tuple[object, ...]] = []
    for i, values in enumerate(drawn):
        head = (model, measure, "0", None, name, f"{name}/{i:03}")
        if number == 0:
            for line, value in (("ceiling", values[0]), ("floor", values[1])):
                rows.append((*head, line, "original", "original", "0", f"{i}", 0.0, 20, value))
        for rate, value in zip(RATES, values[2:], strict=True):
            cell = f"{method}-{rate:.1f}"
            own = ("augmented", cell, method, f"{rate:.1f}", f"{i}-{cell}", rate, 25, value)
            rows.append((*head, *own))
    return rows


def measure_speed(resamples: int) -> None:
    """Time a study of five models and three measures."""
    averages = make_averages(5, 3)
    for models in (1, 5):
        names = [f"m{number}" for number in range(models)]
        part = averages.filter(pl.col("model").is_in(names))
        start, cpu = time.perf_counter(), time.process_time()
        tables = tabulate_curves(part, study="speed", seed=1, resamples=resamples)
        print(
            f"{models} models, {part.height} prompts, {resamples} resamples:"
            f" {time.perf_counter() - start:.1f} s ({time.process_time() - cpu:.1f} CPU s);"
            f" {', '.join(f'{len(t)} rows' for t in tables)}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("size", "speed"))
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--tasks", type=int, nargs="+", default=[8, 20, 160])
    parser.add_argument("--resamples", type=int, default=2000)
    arguments = parser.parse_args()
    print(platform.processor() or platform.machine(), "numpy", np.__version__)
    if arguments.what == "size":
        measure_size(arguments.studies, arguments.tasks)
    else:
        measure_speed(arguments.resamples)


if __name__ == "__main__":
    main()
