"""Is code from different personas less alike than code from the same? Contrasts of mean similarity.

The unit is the prompt: draws of one prompt count as one, by their mean, and so do the pairs of
programs of two prompts. A contrast is the mean similarity of pairs of prompts of the same level
less that of pairs of prompts of different levels, first within each task, then averaged over tasks
with equal weights. What is held fixed makes it a contrast of its factor and of nothing else:

    persona   any two prompts of a task
    role      two prompts of a task and of one gender
    gender    two prompts of a task and of one role

so that "same" is the same persona for each of them, and "different" differs in the factor alone.

Kinds of contrasts:

    overall   all levels: mean over the pairs of one level, whichever, less that of different levels
    task      the same in one task
    level     one level: its own pairs, less those of it with any other level
    pair      two levels: the mean of their two withins, less the pairs of one with the other

For a similarity that is an inner product (cosine), a pair is half the squared distance of the
two levels' means, without bias (Gretton et al. 2012, Journal of Machine Learning Research 13,
lemma 6), and with as many prompts in each level overall is the mean of all pairs. A level is not a
distance alone: it falls below 0 where that level's programs differ more among themselves than
others do.

p values: under the null hypothesis the prompts of a task (and of what is held fixed) can change
levels among themselves; only those of the levels compared do. All labellings are tried if there are
no more than the permutations asked for, else random ones. Two-sided: |difference| against its
permuted values.

Intervals: each prompt is left out in turn, with all its pairs; the prompts of a persona and task
are a stratum. Where a persona has two prompts, one of them has no pair of its own, and overall
contrasts take tasks as strata: what differs between personas then counts as uncertainty too, and
the interval is too wide.
Source: Anderson 2001, Austral Ecology 26 (permutation within strata, distances);
Arvesen 1969, Annals of Mathematical Statistics 40 (jackknife of U-statistics).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import stdtrit

from llm_variability.curves.resampling import CONFIDENCE, jackknife
from llm_variability.fits.random_intercept import Floats
from llm_variability.separation.permutations import (
    Labels,
    PermutationTest,
    count_labellings,
    draw_labellings,
    drawn_test,
    exact_test,
    list_labellings,
)
from llm_variability.separation.prompt_pairs import Names, Reduced, TaskPrompts, reduce_pairs
from llm_variability.streams import begin_stream
from llm_variability.tables_personas import SEPARATION

HELD = {"persona": None, "role": "gender", "gender": "role"}
"""What two prompts that are compared must share besides the task, by factor."""

ONE_SAMPLED = (
    "one prompt a persona and task: how personas differ cannot be told from how prompts do"
)

NO_PROGRAMS = "no two programs to compare"

NOT_REPEATED = "no number of one prompt: none has two programs"

_ADJUSTED = ("p_holm", "p_bh", "family_size")
_SCHEMA = {
    name: column.dtype for name, column in SEPARATION.columns.items() if name not in _ADJUSTED
}


class Contrast(NamedTuple):
    """What is compared: all levels of a factor, one (`first`) or two; in all tasks, or in one."""

    factor: str
    task: str | None = None
    first: str | None = None
    second: str | None = None

    @property
    def kind(self) -> str:
        if self.first is None:
            return "overall" if self.task is None else "task"
        return "level" if self.second is None else "pair"


@dataclass(frozen=True)
class Compared:
    """The prompts of one task that a contrast compares.

    kind: of the contrast. similarity: (n, n), 0 where `compared` is not 1. compared: (n, n) 1 for
    two prompts that differ and share what is held fixed, else 0. labels: (n,) numbers of levels; of
    kind `level` 0 for it and 1 for all others. cells: (n,) who may change labels with whom.
    personas: (n,) numbers of personas.
    """

    task: str
    kind: str
    similarity: Floats
    compared: Floats
    labels: Labels
    cells: Labels
    personas: Labels

    @property
    def alike(self) -> bool:
        """Whether levels with as many prompts in a cell can change names without effect."""
        return self.kind in ("overall", "task") or (
            self.kind == "pair" and len(np.unique(self.cells)) == 1
        )

    @property
    def n_labellings(self) -> int:
        return count_labellings(self.labels, self.cells, self.alike)


class Sums(NamedTuple):
    """Sums over pairs of prompts: within: (..., levels) of each level; total: (...) of all."""

    within: Floats
    total: Floats


def list_contrasts(prompts: pl.DataFrame) -> list[Contrast]:
    """List a study's contrasts, factor by factor: overall, tasks, levels, pairs of levels.

    Role and gender are factors of their own where there is more than one gender.
    prompts: of `list_prompts`.
    """
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    crossed = prompts["gender"].n_unique() > 1
    contrasts = []
    for factor in HELD if crossed else ("persona",):
        levels = prompts[factor].unique(maintain_order=True).to_list()
        contrasts += [
            Contrast(factor),
            *(Contrast(factor, task=task) for task in tasks),
            *(Contrast(factor, first=level) for level in levels),
            *(Contrast(factor, first=a, second=b) for a, b in combinations(levels, 2)),
        ]
    return contrasts


def compare_prompts(task: str, prompts: TaskPrompts, contrast: Contrast) -> Compared:
    """Take what a contrast compares out of a task's prompts."""
    held = HELD[contrast.factor]
    if contrast.second is not None:
        pair = [str(contrast.first), contrast.second]
        prompts = prompts.choose(np.isin(prompts.columns[contrast.factor], pair))
    names = prompts.columns[contrast.factor]
    if contrast.kind == "level":
        labels = (names != contrast.first).astype(np.int64)
    else:
        labels = _number(names)
    cells = np.zeros_like(labels) if held is None else _number(prompts.columns[held])
    compared = (cells[:, None] == cells) & ~np.eye(len(names), dtype=bool)
    return Compared(
        task,
        contrast.kind,
        np.where(compared, prompts.similarity, 0),
        compared.astype(float),
        labels,
        cells,
        _number(prompts.columns["persona"]),
    )


def _number(names: Names) -> Labels:
    numbers: Labels = np.unique(names, return_inverse=True)[1].astype(np.int64)
    return numbers


def sum_pairs(values: Floats, labels: Labels, levels: int) -> Sums:
    """Sum a symmetric matrix over its unordered pairs, under many labellings.

    values: (n, n), 0 on the diagonal. labels: (labellings, n), 0 to levels - 1.
    """
    within = np.empty((len(labels), levels))
    for level in range(levels):
        members = (labels == level).astype(float)
        within[:, level] = np.einsum("pi,pi->p", members @ values, members) / 2
    return Sums(within, np.full(len(labels), values.sum() / 2))


def find_means(kind: str, sums: Sums, counts: Sums) -> tuple[Floats, Floats]:
    """Give mean similarities within and between levels, not numbers where there is no pair.

    sums, counts: of similarities, and of pairs; (...,) leading axes. Returns (...), (...).
    """
    apart_sum = sums.total - sums.within.sum(axis=-1)
    apart = counts.total - counts.within.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        if kind in ("overall", "task"):
            within = sums.within.sum(axis=-1) / counts.within.sum(axis=-1)
        elif kind == "pair":
            within = (sums.within / counts.within).mean(axis=-1)
        else:
            within = sums.within[..., 0] / counts.within[..., 0]
        return within, np.where(apart > 0, apart_sum / apart, np.nan)


def measure(part: Compared, labels: Labels) -> tuple[Floats, Floats]:
    """Give a task's means within and between levels, under many labellings.

    labels: (labellings, n), each as frequent in each cell as in `part.labels`.
    """
    levels = int(part.labels.max(initial=0)) + 1
    counts = sum_pairs(part.compared, part.labels[None], levels)
    return find_means(part.kind, sum_pairs(part.similarity, labels, levels), counts)


def weigh_personas(part: Compared) -> tuple[Floats, Floats, Floats]:
    """Write the difference as a weighted sum of the mean similarities of pairs of personas.

    Returns weights, sums and counts of pairs of prompts, each (personas, personas) and symmetric;
    the difference is the sum over unordered pairs of personas, each with itself among them, of
    weight * sum / count. A weight is 0 where there is no pair.
    """
    member = np.eye(int(part.personas.max()) + 1)[part.personas]
    sums, counts = (_halve(member.T @ each @ member) for each in (part.similarity, part.compared))
    label = np.array([part.labels[part.personas == g][0] for g in range(len(sums))])
    same = label[:, None] == label
    unordered = np.triu(np.ones_like(same))
    weights = -counts / max(float(counts[unordered & ~same].sum()), 1)
    of_label = [same & (label == one) for one in range(int(label.max()) + 1)]
    pairs = np.array([counts[unordered & each].sum() for each in of_label])
    shares = {"pair": np.full(len(pairs), 1 / len(pairs)), "level": np.eye(len(pairs))[0]}
    share = shares.get(part.kind, pairs / max(float(pairs.sum()), 1))
    for each, n, own in zip(of_label, pairs, share, strict=True):
        weights[each] = own * counts[each] / max(float(n), 1)
    return weights, sums, counts


def leave_out_each(part: Compared) -> Floats:
    """Give the difference without each of the prompts, the weights of pairs of personas unchanged.

    Returns (n,), not a number where a persona has no pair left that counts.
    """
    weights, sums, counts = weigh_personas(part)
    member = np.eye(len(sums))[part.personas]
    own = part.personas
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = sums / counts
        left = (sums[own] - part.similarity @ member) / (counts[own] - part.compared @ member)
        moved = np.where(weights[own] != 0, weights[own] * (left - whole[own]), 0).sum(axis=1)
    within, between = measure(part, part.labels[None])
    without: Floats = (within - between)[0] + moved
    return without


def find_excess(part: Compared) -> tuple[float, float]:
    """Estimate what the jackknife counts too much, and the least that the variance can be.

    A pair's similarity is a mean, what each of its two prompts adds, and a rest p of the pair
    alone. With n and m prompts, the rest adds p / (n m) to the variance of a mean between two
    personas and twice that to its jackknife; 2 p / (n (n - 1)) to that within one, and
    4 p / (n (n - 2)) to its jackknife. p is the residual mean square of the pairs of two personas
    with two effects of prompts taken off, or of one with one; that of all pairs of the task where
    one persona has three prompts, which leave no residual.

    Returns the excess and the part of the variance that is due to the rest, of the difference.
    Source: Efron and Stein 1981, Annals of Statistics 9, section 5.
    """
    weights, _, counts = weigh_personas(part)
    members = [np.flatnonzero(part.personas == g) for g in range(len(weights))]
    factors, squares, degrees = [], [], []
    for g, first in enumerate(members):
        for h, second in enumerate(members[: g + 1]):
            if weights[g, h] == 0 or counts[g, h] == 0:
                continue
            n, m = len(first), len(second)
            block = part.similarity[np.ix_(first, second)]
            rest, own_df = _sum_rest(block, g == h)
            own = (2 / (n * (n - 1)), 2 / ((n - 1) * (n - 2))) if g == h else (2 * [1 / (n * m)])
            factors.append(weights[g, h] ** 2 * np.array(own))
            squares.append(rest)
            degrees.append(own_df)
    df = np.array(degrees)
    pooled = sum(squares) / max(df.sum(), 1)
    p = np.where(df > 0, np.array(squares) / np.maximum(df, 1), pooled)
    least, excess = np.array(factors).T @ p
    return float(excess), float(least)


def _sum_rest(block: Floats, own: bool) -> tuple[float, int]:
    """Sum the squares that effects of prompts leave of pairs of two personas, or of one's own."""
    n, m = block.shape
    if not own:
        rest = block - block.mean(axis=0) - block.mean(axis=1, keepdims=True) + block.mean()
        return float((rest**2).sum()), (n - 1) * (m - 1)
    if n < 4:
        return 0.0, 0
    pairs = block[np.triu_indices(n, 1)]
    rows = block.sum(axis=1)
    of_prompts = ((rows - rows.mean()) ** 2).sum() / (n - 2)
    return float(((pairs - pairs.mean()) ** 2).sum() - of_prompts), n * (n - 3) // 2


def leave_out_any(part: Compared) -> Floats:
    """Give the difference without each of the prompts, every pair that is left weighing the same.

    For contrasts of all levels. Returns (n,), not a number where no pair is left.
    """
    levels = int(part.labels.max()) + 1
    member = np.eye(levels)[part.labels]

    def without(values: Floats) -> Sums:
        whole = sum_pairs(values, part.labels[None], levels)
        own = (values @ member * member).sum(axis=1)
        return Sums(whole.within - own[:, None] * member, whole.total - values.sum(axis=1))

    within, between = find_means(part.kind, without(part.similarity), without(part.compared))
    return within - between


def find_interval(parts: Sequence[Compared], differences: Floats) -> Mapping[str, Any]:
    """Give the standard error, degrees of freedom and 95% interval of the mean over tasks.

    The jackknife over prompts, those of a persona and task as a stratum (or all of a task, where a
    persona of a contrast of all levels has only two), degrees of freedom by Satterthwaite, a
    stratum's prompts less one each. Of strata of personas, what it counts too much is taken off
    (`find_excess`), which is much of it where personas hardly differ, but no more than leaves what
    single pairs make by themselves, which can also be more than the jackknife found; a level is no
    such contrast, and what skewed prompts do to it is more. Gives a `reason` in place of numbers
    where there can be no interval.

    differences: (tasks,) of `parts`.
    Source: Wolter 2007, Introduction to Variance Estimation, section 4.5.
    """
    strata = np.concatenate([[f"{part.task} {one}" for one in part.personas] for part in parts])
    without = [leave_out_each(part) for part in parts]
    several = np.unique(strata, return_counts=True)[1].min() > 1
    by_persona = several and np.isfinite(np.concatenate(without)).all()
    if not by_persona:
        if parts[0].kind not in ("overall", "task"):
            return {"reason": "no interval: it needs three prompts of each persona and task"}
        strata = np.concatenate([[part.task] * len(part.labels) for part in parts])
        without = [leave_out_any(part) for part in parts]
        if not np.isfinite(np.concatenate(without)).all():
            return {"reason": "no interval: without one of the prompts there is no difference"}
    estimate = float(differences.mean())
    moved = [each - own for each, own in zip(without, differences, strict=True)]
    test = jackknife(estimate, estimate + np.concatenate(moved) / len(parts), strata)
    if test is None:
        return {"reason": "no interval: no prompt makes a difference"}
    error = test.std_error
    if by_persona and parts[0].kind != "level":
        excess, least = np.sum([find_excess(part) for part in parts], axis=0) / len(parts) ** 2
        error = float(np.sqrt(max(error**2 - excess, least)))
    margin = error * float(stdtrit(test.df, (1 + CONFIDENCE) / 2))
    return {
        "std_error": error,
        "df": test.df,
        "ci_low": estimate - margin,
        "ci_high": estimate + margin,
    }


def _halve(sums: Floats) -> Floats:
    """Halve the diagonal, where each unordered pair stands twice."""
    halved: Floats = sums - np.diag(np.diag(sums)) / 2
    return halved


def permute_contrast(
    parts: Sequence[Compared], observed: float, permutations: int, key: tuple[str | int | None, ...]
) -> PermutationTest:
    """Test a contrast by handing its levels out anew among the prompts of each task.

    observed: mean difference over the tasks. key: what the random numbers depend on, besides the
    task.
    """
    if prod(part.n_labellings for part in parts) <= permutations:
        values = np.zeros(1)
        for part in parts:
            listed = list_labellings(part.labels, part.cells, part.alike)
            within, between = measure(part, listed)
            values = np.add.outer(values, within - between).ravel()
        return exact_test(abs(observed), np.abs(values / len(parts)))
    values = np.zeros(permutations)
    for part in parts:
        rng = begin_stream(*key, part.task)
        drawn = draw_labellings(part.labels, part.cells, permutations, rng)
        within, between = measure(part, drawn)
        values += within - between
    return drawn_test(abs(observed), np.abs(values / len(parts)))


@dataclass(frozen=True)
class Comparisons:
    """The contrasts of one model, setting and measure.

    tasks: the study's. prompts: of each task that has programs. key: what the random numbers of
    the tests depend on, the study's seed among it.
    """

    tasks: Sequence[str]
    prompts: Mapping[str, TaskPrompts]
    permutations: int
    key: tuple[str | int | None, ...]

    def compare(self, contrast: Contrast, variant: str) -> dict[str, Any]:
        """Make a contrast: a mapping a row of a SEPARATION table."""
        tasks = self.tasks if contrast.task is None else [contrast.task]
        found = {task: self._choose(task, variant) for task in tasks if task in self.prompts}
        parts = [compare_prompts(task, each, contrast) for task, each in found.items()]
        means = [measure(part, part.labels[None]) for part in parts]
        within = np.array([float(each[0][0]) for each in means])
        between = np.array([float(each[1][0]) for each in means])
        tested = variant == "iterations"
        usable = np.isfinite(between) & (np.isfinite(within) | (not tested))
        used = [part for part, good in zip(parts, usable, strict=True) if good]
        row, unrepeated = self._describe(contrast, variant, found, used)
        if not used:
            reasons = [_explain_none(contrast, variant, bool(found)), *unrepeated]
            return row | {"reason": "; ".join(reasons)}
        left_out = [task for task in tasks if task not in {part.task for part in used}]
        reasons = [f"left out: {', '.join(left_out)}"] if left_out else []
        reasons += unrepeated
        row["between"] = float(between[usable].mean())
        if not tested:
            return row | {"reason": "; ".join([ONE_SAMPLED, *reasons])}
        differences = (within - between)[usable]
        estimate = float(differences.mean())
        interval = dict(find_interval(used, differences))
        reasons += [interval.pop("reason")] if "reason" in interval else []
        key = (*self.key, contrast.factor, contrast.first, contrast.second)
        test = permute_contrast(used, estimate, self.permutations, key)
        return {
            **row,
            "within": float(within[usable].mean()),
            "difference": estimate,
            **interval,
            **test._asdict(),
            "reason": "; ".join(reasons) or None,
        }

    def _choose(self, task: str, variant: str) -> TaskPrompts:
        prompts = self.prompts[task]
        return prompts if variant == "iterations" else prompts.choose(_is_sampled(prompts))

    def _describe(
        self,
        contrast: Contrast,
        variant: str,
        found: Mapping[str, TaskPrompts],
        used: Sequence[Compared],
    ) -> tuple[dict[str, Any], list[str]]:
        """Count what is compared, and average over each prompt's own draws.

        Returns columns, and why there is no number of the draws of one prompt, in all tasks or in
        some.
        """
        chosen = {part.task: found[part.task] for part in used} or found
        own: dict[str, float] = {}
        n_prompts = n_programs = n_pairs = 0
        for task, each in chosen.items():
            names = each.columns[contrast.factor]
            levels = [level for level in (contrast.first, contrast.second) if level is not None]
            focal = np.isin(names, levels) if levels else np.ones(len(names), dtype=bool)
            member = np.ones_like(focal) if contrast.kind == "level" else focal
            repeated = np.diag(each.similarity)[focal]
            repeated = repeated[np.isfinite(repeated)]
            if len(repeated):
                own[task] = float(repeated.mean())
            n_prompts += int(member.sum())
            n_programs += int(each.n_programs[member].sum())
            n_pairs += _count_pairs(each, contrast, focal)
        once = [task for task in chosen if task not in own]
        where = f" in {', '.join(once)}" if own else ""
        return {
            **contrast._asdict(),
            "variant": variant,
            "same_prompt": float(np.mean(list(own.values()))) if own else None,
            "n_prompts": n_prompts,
            "n_programs": n_programs,
            "n_pairs": n_pairs,
        }, [f"{NOT_REPEATED}{where}"] if once else []


def _is_sampled(prompts: TaskPrompts) -> NDArray[np.bool_]:
    sampled: NDArray[np.bool_] = prompts.columns["sampled"] == "yes"
    return sampled


def _count_pairs(prompts: TaskPrompts, contrast: Contrast, focal: NDArray[np.bool_]) -> int:
    """Count the pairs of programs that any of a contrast's three means is over."""
    held = HELD[contrast.factor]
    together = np.ones((len(focal), len(focal)), dtype=bool)
    if held is not None:
        together = prompts.columns[held][:, None] == prompts.columns[held]
    if contrast.kind == "level":
        concerned = focal[:, None] | focal
        np.fill_diagonal(concerned, focal)
    else:
        concerned = focal[:, None] & focal
    return int(np.triu(prompts.n_pairs * (together & concerned)).sum())


def _explain_none(contrast: Contrast, variant: str, found: bool) -> str:
    if not found:
        return NO_PROGRAMS
    if variant == "sampled":
        return "no task has programs of sampled prompts of two levels"
    needs = {
        "overall": "two prompts of one level and one of another",
        "task": "two prompts of one level and one of another",
        "level": "two prompts of the level and one of another",
        "pair": "two prompts of each level",
    }
    return f"no task has programs of {needs[contrast.kind]}"


def tabulate_separation(
    pairs: pl.DataFrame,
    prompts: pl.DataFrame,
    settings: Sequence[tuple[str, str | None]],
    measures: Sequence[str],
    *,
    study: str,
    model: str,
    seed: int,
    permutations: int,
) -> pl.DataFrame:
    """Make every contrast of one model; rows of a SEPARATION table, p values not adjusted.

    The random numbers of a test depend on the seed, study, model, setting, measure and contrast
    alone, so that a further model or setting changes no p value.

    pairs: a PROGRAM_PAIRS table. prompts: of `list_prompts`. settings: temperature and top-p of
    each; one without a pair has rows with a reason. measures: likewise.
    Raises ValueError as `reduce_pairs` does.
    """
    reduced: Reduced = reduce_pairs(pairs, prompts)
    contrasts = list_contrasts(prompts)
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    rows = []
    for temperature, top_p in settings:
        for name in measures:
            comparisons = Comparisons(
                tasks,
                reduced.get((temperature, top_p, name), {}),
                permutations,
                (seed, "separation", study, model, temperature, top_p, name),
            )
            head = {"temperature": temperature, "top_p": top_p, "measure": name}
            for variant in ("iterations", "sampled"):
                for contrast in contrasts:
                    rows.append(head | comparisons.compare(contrast, variant))
    frame = pl.DataFrame(rows, schema_overrides=_SCHEMA, infer_schema_length=None)
    lacking = [
        pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in _SCHEMA.items()
        if name not in frame.columns
    ]
    frame = frame.with_columns(*lacking).with_columns(study=pl.lit(study), model=pl.lit(model))
    return frame.select(*_SCHEMA)
