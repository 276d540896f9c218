"""What differs between personas: features of their prompts and of the code that they get.

The unit is the prompt: its value is the mean over its draws. A persona's mean is over its prompts
of each task, then over tasks with equal weights, so that tasks in which more prompts have a value
do not count more; the tasks are those in which every persona has one. A persona that has none in
any task (it never got a program) has no mean, and the others are compared without it.

Its standard error has prompts as units and tasks as strata: the root of the sum over tasks of
s^2 / n, over the number of tasks; degrees of freedom by Satterthwaite 1946, n - 1 a task.

One p value a feature, for all personas together: prompts change personas within their task at
random (in all ways, if these are no more than the permutations asked for), and the statistic is
the sum of squares of the personas' means about their mean. It is the sum of squares between
personas of the means in the table: what makes a persona larger in one task and smaller in another
does not add to it.
Source: Anderson and ter Braak 2003, Journal of Statistical Computation and Simulation 73
(permutation within strata).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import stdtrit

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
from llm_variability.streams import begin_stream
from llm_variability.table_contract import SETTING
from llm_variability.tables_personas import FAILED, FEATURE_COLUMNS, PERSONA_MEANS, REPLY_KINDS

CONFIDENCE = 0.95

NO_VARIANCE = "no variance: the prompts of a task all have the same value"

_ADJUSTED = ("p_holm", "p_bh", "family_size")
_SCHEMA = {
    name: column.dtype for name, column in PERSONA_MEANS.columns.items() if name not in _ADJUSTED
}


@dataclass(frozen=True)
class Stratum:
    """The prompts of one task that have a value.

    values: (n, features). personas: (n,) numbers of personas, each of which is there.
    """

    task: str
    values: Floats
    personas: Labels

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of prompts of each persona."""
        return np.bincount(self.personas)

    @property
    def cells(self) -> Labels:
        return np.zeros_like(self.personas)


def average_features(features: pl.DataFrame) -> pl.DataFrame:
    """Average each feature over the replies to a prompt, truth values as shares.

    The share of each kind of reply is a feature too (`reply_none`, ...). Draws that failed are no
    replies, so a prompt of which all failed has no value.
    features: a FEATURES table. Returns a row a prompt and setting: SETTING, `prompt_id`, features.
    """
    kinds = [
        (pl.col("reply") == kind).cast(pl.Float64).alias(f"reply_{kind}")
        for kind in REPLY_KINDS
        if kind != FAILED
    ]
    own = [pl.col(name).cast(pl.Float64) for name in FEATURE_COLUMNS]
    return features.group_by(*SETTING, "prompt_id", maintain_order=True).agg(
        each.filter(pl.col("reply") != FAILED).mean() for each in (*kinds, *own)
    )


def spread_wording(style: pl.DataFrame, topic_weights: pl.DataFrame) -> pl.DataFrame:
    """Lay features of prompts out in columns, topics as `topic-1` and so on.

    style, topic_weights: STYLE and TOPIC_WEIGHTS tables. Returns a row a prompt: `prompt_id`,
    features.
    """
    topics = topic_weights.select(
        "prompt_id",
        feature=pl.format("topic-{}", pl.col("topic")),
        value=pl.col("weight"),
    )
    long = pl.concat([style.select("prompt_id", "feature", "value"), topics])
    names = long["feature"].unique(maintain_order=True)
    return long.pivot(on="feature", on_columns=names, index="prompt_id", values="value")


def measure_spread(strata: Sequence[Stratum], labels: Sequence[Labels]) -> Floats:
    """Give the sum of squares of the personas' means about their mean, under many labellings.

    labels: (labellings, n) of each stratum, personas as frequent as in it.
    Returns (labellings, features).
    """
    personas = len(strata[0].sizes)
    means = []
    for persona in range(personas):
        of_task = [
            (drawn == persona).astype(float) @ stratum.values / stratum.sizes[persona]
            for stratum, drawn in zip(strata, labels, strict=True)
        ]
        means.append(np.mean(of_task, axis=0))
    spread: Floats = np.var(means, axis=0) * personas
    return spread


def permute_features(
    strata: Sequence[Stratum], permutations: int, key: tuple[str | int | None, ...]
) -> list[PermutationTest]:
    """Test each feature by handing personas out anew among the prompts of each task.

    key: what the random numbers depend on, besides the task.
    """
    standard = _standardise(strata)
    observed = measure_spread(standard, [stratum.personas[None] for stratum in strata])[0]
    alike = len(strata) == 1  # of several, personas would have to change names in all at once
    ways = prod(count_labellings(each.personas, each.cells, alike) for each in strata)
    if ways <= permutations:
        listed = [list_labellings(each.personas, each.cells, alike) for each in strata]
        grid = np.indices([len(each) for each in listed]).reshape(len(listed), -1)
        labels = [each[rows] for each, rows in zip(listed, grid, strict=True)]
    else:
        labels = [
            draw_labellings(
                stratum.personas, stratum.cells, permutations, begin_stream(*key, stratum.task)
            )
            for stratum in strata
        ]
    values = measure_spread(standard, labels)
    test = exact_test if ways <= permutations else drawn_test
    return [test(float(observed[i]), values[:, i]) for i in range(len(observed))]


def _standardise(strata: Sequence[Stratum]) -> list[Stratum]:
    """Take the tasks' means off and divide by the spread that is left, so that rounding is alike.

    Neither changes a p value. A feature without spread stays as it is.
    """
    centred = [stratum.values - stratum.values.mean(axis=0) for stratum in strata]
    spread = np.sqrt(np.mean(np.concatenate(centred) ** 2, axis=0))
    spread[spread == 0] = 1
    return [
        Stratum(stratum.task, values / spread, stratum.personas)
        for stratum, values in zip(strata, centred, strict=True)
    ]


@dataclass(frozen=True)
class Estimates:
    """Means of personas with their errors, each (personas, features), NaN where there is none."""

    mean: Floats
    std_error: Floats
    df: Floats


def estimate_means(strata: Sequence[Stratum]) -> Estimates:
    """Average each persona's prompts of each task, then over tasks."""
    personas = len(strata[0].sizes)
    means, variances, df = [], [], []
    for stratum in strata:
        of_persona = [stratum.values[stratum.personas == p] for p in range(personas)]
        n = stratum.sizes[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            squares = [((each - each.mean(axis=0)) ** 2).sum(axis=0) for each in of_persona]
            variances.append(np.array(squares) / (n - 1) / n / len(strata) ** 2)
        means.append([each.mean(axis=0) for each in of_persona])
        df.append(np.broadcast_to(n - 1, variances[-1].shape))
    total = np.sum(variances, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        pooled = total**2 / np.sum(np.square(variances) / np.array(df), axis=0)
    return Estimates(np.mean(means, axis=0), np.sqrt(total), pooled)


def tabulate_means(
    values: pl.DataFrame,
    prompts: pl.DataFrame,
    permutations: int,
    key: tuple[str | int | None, ...],
) -> list[dict[str, Any]]:
    """Describe every feature of one model and setting, or of prompts: a row a feature and persona.

    values: a row a prompt: `prompt_id`, features. prompts: of `prompt_pairs.list_prompts`.
    key: what the random numbers depend on. Returns mappings of columns of PERSONA_MEANS, without
    those that tell the model and setting.
    Raises ValueError for a value of an unknown prompt.
    """
    stray = values.join(prompts, on="prompt_id", how="anti")
    if stray.height:
        raise ValueError(
            f"features: prompt {stray['prompt_id'][0]} is none of the study's; features and stimuli"
            " are not of one run"
        )
    personas = prompts["persona"].unique(maintain_order=True).to_list()
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    names = [name for name in values.columns if name != "prompt_id"]
    table = prompts.select("prompt_id", "task", "persona").join(
        values, on="prompt_id", how="left", maintain_order="left"
    )
    matrix = table.select(names).cast(pl.Float64).fill_null(np.nan).to_numpy()
    numbers = np.array([personas.index(name) for name in table["persona"]], dtype=np.int64)
    task = table["task"].to_numpy().astype(str)
    rows: dict[str, list[dict[str, Any]]] = {}
    for has_value, columns in _group_columns(np.isfinite(matrix)):
        compared = np.unique(numbers[has_value])
        strata = []
        for name in tasks:
            there = has_value & (task == name)
            if len(np.unique(numbers[there])) == len(compared) > 0:
                among = np.searchsorted(compared, numbers[there])
                strata.append(Stratum(name, matrix[np.ix_(there, columns)], among))
        left_out = [name for name in tasks if name not in {each.task for each in strata}]
        chosen = [names[column] for column in columns]
        there_are = [personas[number] for number in compared]
        described = _describe(strata, there_are, chosen, left_out, permutations, key)
        rows |= {name: _fill_up(name, described[name], personas, there_are) for name in chosen}
    return [row for name in names for row in rows[name]]


def _fill_up(
    feature: str, rows: Sequence[dict[str, Any]], personas: Sequence[str], there: Sequence[str]
) -> list[dict[str, Any]]:
    """Put in a row for each persona that was not described, in the order of the personas."""
    described = dict(zip(there, rows, strict=True))
    reason = "the persona has no prompt with a value"
    return [
        described.get(
            persona, {"feature": feature, "persona": persona, "n_prompts": 0, "reason": reason}
        )
        for persona in personas
    ]


def _group_columns(there: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.bool_], list[int]]]:
    """Group the columns that have values in the same rows."""
    groups: dict[bytes, list[int]] = {}
    for column in range(there.shape[1]):
        groups.setdefault(there[:, column].tobytes(), []).append(column)
    for columns in groups.values():
        yield there[:, columns[0]], columns


def _describe(
    strata: Sequence[Stratum],
    personas: Sequence[str],
    names: Sequence[str],
    left_out: Sequence[str],
    permutations: int,
    key: tuple[str | int | None, ...],
) -> dict[str, list[dict[str, Any]]]:
    """Describe features that the same prompts have: rows by feature."""
    if not strata:
        reason = "no task in which every persona has a prompt with a value"
        return {
            name: [
                {"feature": name, "persona": persona, "n_prompts": 0, "reason": reason}
                for persona in personas
            ]
            for name in names
        }
    reasons = [f"left out, as a persona has no value there: {', '.join(left_out)}"]
    reasons = reasons if left_out else []
    found = estimate_means(strata)
    n_prompts = np.sum([stratum.sizes for stratum in strata], axis=0)
    constant = np.all([np.ptp(stratum.values, axis=0) == 0 for stratum in strata], axis=0)
    tests = permute_features(strata, permutations, key) if len(personas) > 1 else None
    described: dict[str, list[dict[str, Any]]] = {}
    for i, name in enumerate(names):
        rows = []
        for p, persona in enumerate(personas):
            row: dict[str, Any] = {
                "feature": name,
                "persona": persona,
                "mean": float(found.mean[p, i]),
                "n_prompts": int(n_prompts[p]),
            }
            own = list(reasons)
            if constant[i]:
                own.append(NO_VARIANCE)
            else:
                if tests is not None:
                    row["p_value"] = tests[i].p_value
                error, df = float(found.std_error[p, i]), float(found.df[p, i])
                if error > 0 and np.isfinite(df):
                    margin = float(stdtrit(df, (1 + CONFIDENCE) / 2)) * error
                    row |= {
                        "std_error": error,
                        "df": df,
                        "ci_low": row["mean"] - margin,
                        "ci_high": row["mean"] + margin,
                    }
                else:
                    own.append(_explain_error(error))
            rows.append(row | {"reason": "; ".join(own) or None})
        described[name] = rows
    return described


def _explain_error(error: float) -> str:
    if np.isnan(error):
        return "no interval: it needs two prompts with a value in each task"
    return "no interval: the persona's prompts of a task all have the same value"


def tabulate_programs(
    features: pl.DataFrame,
    prompts: pl.DataFrame,
    *,
    study: str,
    model: str,
    seed: int,
    permutations: int,
) -> pl.DataFrame:
    """Describe the programs of one model; rows of a PERSONA_MEANS table, p values not adjusted.

    The random numbers depend on the seed, study, model and setting alone.
    features: a FEATURES table. prompts: of `prompt_pairs.list_prompts`.
    """
    rows = []
    averaged = average_features(features)
    for (temperature, top_p), part in averaged.group_by(*SETTING, maintain_order=True):
        head = {"model": model, "temperature": temperature, "top_p": top_p}
        key = (seed, "means", study, model, str(temperature), None if top_p is None else str(top_p))
        described = tabulate_means(part.drop(*SETTING), prompts, permutations, key)
        rows += [head | row for row in described]
    return _frame(rows, study)


def tabulate_wording(
    style: pl.DataFrame,
    topic_weights: pl.DataFrame,
    prompts: pl.DataFrame,
    *,
    study: str,
    seed: int,
    permutations: int,
) -> pl.DataFrame:
    """Describe the prompts; rows of a PERSONA_MEANS table without a model."""
    wording = spread_wording(style, topic_weights)
    rows = tabulate_means(wording, prompts, permutations, (seed, "means", study))
    return _frame(rows, study)


def _frame(rows: list[dict[str, Any]], study: str) -> pl.DataFrame:
    schema = {name: dtype for name, dtype in _SCHEMA.items() if name != "study"}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.with_columns(study=pl.lit(study)).select(*_SCHEMA)
