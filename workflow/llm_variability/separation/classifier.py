"""The persona guessed from the code: one number for how much code gives away who asked.

What is seen: `syntax`, the features of the program's tree (counts as log(1 + count), truth values
as 0 and 1), each scaled by its standard deviation in the training programs; or `tokens`, TF-IDF of
the program's words (`tokens.list_tokens`), 1 + log of their number times the logarithm of how rare
they are among the training programs, rows of unit length, words of a single prompt left out.

Cross-validation: each task is held out in turn as a whole, so that what is learned has to hold in
another task; features are centred in each task, on the mean of its programs whoever asked, since
programs of another task are longer or shorter as a whole. With one task, all prompts of an
iteration are held out. Draws of a prompt are never both learned from and guessed.

The classifier is linear discriminant analysis with a ridge on the scatter within personas, every
persona as probable: of the personas k with mean m_k it guesses the one with the largest

    x' S^-1 m_k - m_k' S^-1 m_k / 2,     S = W + r I.

As S = A - M' N M, where A = X'X + r I does not depend on who asked, M has the personas' means and N
their numbers of programs, the inverse of Woodbury leaves matrices of the size of the number of
personas for each labelling: hundreds of permutations cost little more than one, with as many
features as one likes. Regression on indicators, which is as fast, cannot guess a class that lies
between two others.
Source: Hastie, Buja and Tibshirani 1995, Annals of Statistics 23 (penalised discriminant
analysis); Hastie, Tibshirani and Friedman 2009, sections 4.2 (masking) and 4.3.

Baseline: prompts, with all their programs, change personas among those that are held out with them
(of their task, or iteration), and all is done anew. So each permutation has as many prompts of a
persona in each fold, and chance is not moved by folds that lack what the training has too much.
Source: Ojala and Garriga 2010, Journal of Machine Learning Research 11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfTransformer

from llm_variability.fits.random_intercept import Floats
from llm_variability.separation.permutations import (
    Labels,
    count_labellings,
    draw_labellings,
    drawn_test,
    exact_test,
    list_labellings,
)
from llm_variability.separation.tokens import list_tokens
from llm_variability.streams import begin_stream
from llm_variability.table_contract import SETTING
from llm_variability.tables_personas import (
    CONFUSIONS,
    FEATURE_COLUMNS,
    FEATURE_SETS,
    FEATURES,
    LEAKAGE,
)

RIDGE = 0.3
"""The ridge, as a share of the mean scatter along a direction in which training programs differ."""

SYNTAX_COLUMNS = tuple(name for name in FEATURE_COLUMNS if not name.startswith("reply_"))
"""Features of the program; those of the reply around it are no code."""

PROGRAM = "program"
"""Kind of reply that is classified."""

_ALL_ALIKE = 1e-12
"""Mean square of a training program's features that rounding alone makes: all are the same."""

_CHUNK = 500
"""Labellings that are computed at once."""

_ADJUSTED = ("p_holm", "p_bh", "family_size")
_SCHEMA = {name: column.dtype for name, column in LEAKAGE.columns.items() if name not in _ADJUSTED}


@dataclass(frozen=True)
class Asked:
    """The programs of one model and setting, and who asked for them.

    folds: (programs,) number of what each is held out with. by: `task` or `iteration`. prompts:
    (programs,) number of the prompt. personas: (prompts,) number of who asked. names: of personas.
    """

    folds: Labels
    by: str
    prompts: Labels
    personas: Labels
    names: Sequence[str]

    @property
    def prompt_folds(self) -> Labels:
        """What each prompt is held out with: (prompts,)."""
        folds = np.zeros_like(self.personas)
        folds[self.prompts] = self.folds
        return folds


class Kernels(NamedTuple):
    """What a fold's guesses depend on besides who asked.

    test, train: (programs,) truth values. guess: (tested, trained) x' A^-1 X'. own: (trained,
    trained) X A^-1 X'.
    """

    test: NDArray[np.bool_]
    train: NDArray[np.bool_]
    guess: Floats
    own: Floats


View = Callable[[NDArray[np.bool_], Floats], tuple[Floats, int]]
"""From the training programs and the (programs, programs) weights of the means to take off, to the
inner products of all programs and the number of features."""


def average_with(asked: Asked, train: NDArray[np.bool_]) -> Floats:
    """Write the means to take off as weights: (programs, programs), rows adding up to 1.

    Each program's is the mean of its task or, where iterations are held out, of the training.
    """
    same = asked.folds[:, None] == asked.folds
    taken = same if asked.by == "task" else np.broadcast_to(train, same.shape)
    weights: Floats = taken / taken.sum(axis=1, keepdims=True)
    return weights


def view_syntax(features: pl.DataFrame) -> View:
    """See features of the syntax tree, those that every program has.

    features: rows of a FEATURES table, of programs; what is not read in the language of one is
    empty there. Raises ValueError where a program has no lines.
    """
    if features["lines"].null_count():
        raise ValueError("features: lines of a program are empty")
    columns = [
        features[name].cast(pl.Float64).to_numpy()
        if FEATURES.columns[name].dtype == pl.Boolean
        else np.log1p(features[name].cast(pl.Float64).to_numpy())
        for name in SYNTAX_COLUMNS
        if not features[name].null_count()
    ]
    matrix = np.column_stack(columns)

    def view(train: NDArray[np.bool_], means: Floats) -> tuple[Floats, int]:
        centred = matrix - means @ matrix
        deviation = np.sqrt((centred[train] ** 2).mean(axis=0))
        varies = deviation > 1e-12
        standard = centred[:, varies] / deviation[varies]
        return standard @ standard.T, int(varies.sum())

    return view


def view_tokens(code: Sequence[str], languages: Sequence[str], prompts: Labels) -> View:
    """See the words of programs; those of the programs of one prompt only are left out."""
    cache: dict[tuple[str, str], Counter[str]] = {}
    counted = []
    for text, language in zip(code, languages, strict=True):
        if (text, language) not in cache:
            cache[text, language] = Counter(list_tokens(text, language))
        counted.append(cache[text, language])
    used_by: dict[str, set[int]] = {}
    for words, prompt in zip(counted, prompts.tolist(), strict=True):
        for word in words:
            used_by.setdefault(word, set()).add(prompt)
    shared = sorted(word for word, users in used_by.items() if len(users) > 1)
    number = {word: i for i, word in enumerate(shared)}
    rows, columns, numbers = [], [], []
    for row, words in enumerate(counted):
        for word, times in words.items():
            if word in number:
                rows.append(row)
                columns.append(number[word])
                numbers.append(times)
    counts = csr_array(
        (np.array(numbers, dtype=float), (rows, columns)), shape=(len(counted), len(shared))
    )

    def view(train: NDArray[np.bool_], means: Floats) -> tuple[Floats, int]:
        if not shared:
            return np.zeros((len(counted), len(counted))), 0
        weigh = TfidfTransformer(sublinear_tf=True).fit(counts[np.flatnonzero(train)])
        weighed = weigh.transform(counts)
        products = (weighed @ weighed.T).toarray()
        centring = np.eye(len(means)) - means
        return centring @ products @ centring.T, len(shared)

    return view


def prepare_folds(asked: Asked, view: View) -> list[Kernels]:
    """Hold each fold out, and compute all that does not depend on who asked."""
    kernels = []
    for fold in np.unique(asked.folds):
        test = asked.folds == fold
        products, n_features = view(~test, average_with(asked, ~test))
        train = products[np.ix_(~test, ~test)]
        directions = max(min(n_features, len(train) - 1), 1)
        ridge = RIDGE * float(np.trace(train)) / directions
        if ridge < _ALL_ALIKE * len(train):
            products, train, ridge = np.zeros_like(products), np.zeros_like(train), 1.0
        both = np.vstack([train, products[np.ix_(test, ~test)]])
        solved = np.linalg.solve(train + ridge * np.eye(len(train)), both.T).T
        kernels.append(Kernels(test, ~test, solved[len(train) :], solved[: len(train)]))
    return kernels


def score_personas(kernels: Kernels, labels: Labels, personas: int) -> Floats:
    """Score each persona for each program that is held out, under many labellings.

    labels: (labellings, trained), every persona among those of each.
    Returns (labellings, tested, personas); the largest score is the guess.
    """
    member = labels[..., None] == np.arange(personas)
    sizes = member.sum(axis=1)
    mean = member / sizes[:, None, :]
    guess, own = kernels.guess @ mean, kernels.own @ mean
    between = np.swapaxes(mean, -1, -2) @ own
    inverse = np.linalg.inv(_diagonal(1 / sizes) - between) / sizes[:, None, :]
    length = np.einsum("pkj,pjk->pk", between, inverse)
    scores: Floats = guess @ inverse - length[:, None, :] / 2
    return scores


def guess_personas(asked: Asked, kernels: Sequence[Kernels], labels: Labels) -> Labels:
    """Guess who asked for each program, learned from the others, under many labellings.

    labels: (labellings, prompts). Returns (labellings, programs) numbers of personas.
    """
    of_program = labels[:, asked.prompts]
    guessed = np.empty_like(of_program)
    for each in kernels:
        scores = score_personas(each, of_program[:, each.train], len(asked.names))
        guessed[:, each.test] = scores.argmax(axis=-1)
    return guessed


def balance_accuracy(truth: Labels, guessed: Labels, personas: int) -> Floats:
    """Average over personas the share of their programs that is guessed.

    truth, guessed: (labellings, programs). Returns (labellings,).
    """
    right = truth == guessed
    shares = [
        (right & (truth == persona)).sum(axis=1) / (truth == persona).sum(axis=1)
        for persona in range(personas)
    ]
    accuracy: Floats = np.mean(shares, axis=0)
    return accuracy


class Guesses(NamedTuple):
    """How well personas are guessed: columns of a LEAKAGE table, and a row a persona who asked."""

    accuracy: float
    permuted: float
    permuted_high: float
    p_value: float
    mc_error: float
    confusion: NDArray[np.int64]


def guess(
    asked: Asked, view: View, permutations: int, key: tuple[str | int | None, ...]
) -> Guesses:
    """Guess who asked, and compare with what prompts that change personas give.

    p is the share of labellings that are guessed as well: all of them if there are no more than
    the permutations asked for, and else (1 + such) / (1 + permutations), random ones.
    key: what the random numbers depend on.
    """
    kernels = prepare_folds(asked, view)
    personas = len(asked.names)

    def rate(labels: Labels) -> Floats:
        guessed = guess_personas(asked, kernels, labels)
        return balance_accuracy(labels[:, asked.prompts], guessed, personas)

    cells = asked.prompt_folds
    few = count_labellings(asked.personas, cells) <= permutations
    if few:
        labels = list_labellings(asked.personas, cells)
    else:
        labels = draw_labellings(asked.personas, cells, permutations, begin_stream(*key))
    values = np.concatenate([rate(part) for part in _chunk(labels)])
    truth = asked.personas[asked.prompts]
    guessed = guess_personas(asked, kernels, asked.personas[None])[0]
    accuracy = float(balance_accuracy(truth[None], guessed[None], personas)[0])
    test = exact_test(accuracy, values) if few else drawn_test(accuracy, values)
    confusion = np.zeros((personas, personas), dtype=np.int64)
    np.add.at(confusion, (truth, guessed), 1)
    return Guesses(
        accuracy, float(values.mean()), float(np.quantile(values, 0.95)), *test, confusion
    )


def _diagonal(values: Floats) -> Floats:
    matrices: Floats = values[..., None] * np.eye(values.shape[-1])
    return matrices


def _chunk(labels: Labels) -> Iterator[Labels]:
    for start in range(0, len(labels), _CHUNK):
        yield labels[start : start + _CHUNK]


class Chosen(NamedTuple):
    """The programs to classify, or why there are none; and the personas that are left out."""

    programs: pl.DataFrame
    by: str
    names: list[str]
    left_out: list[str]


def choose_programs(programs: pl.DataFrame, names: Sequence[str], by: str) -> Chosen:
    """Leave out personas with programs in fewer than two folds: they cannot be held out.

    programs: with columns `persona` and `by`, which is task or iteration. names: all personas.
    """
    spread = dict(programs.group_by("persona").agg(pl.col(by).n_unique()).rows())
    kept = [name for name in names if spread.get(name, 0) > 1]
    left_out = [name for name in names if name not in kept]
    return Chosen(programs.filter(pl.col("persona").is_in(kept)), by, kept, left_out)


def describe_asked(chosen: Chosen) -> Asked:
    """Number prompts, personas and folds in the order of their names."""
    programs = chosen.programs
    ids, prompts = np.unique(programs["prompt_id"].to_numpy().astype(str), return_inverse=True)
    folds = np.unique(programs[chosen.by].to_numpy().astype(str), return_inverse=True)[1]
    personas = np.zeros(len(ids), dtype=np.int64)
    personas[prompts] = [chosen.names.index(name) for name in programs["persona"]]
    return Asked(
        folds.astype(np.int64), chosen.by, prompts.astype(np.int64), personas, chosen.names
    )


def join_programs(
    features: pl.DataFrame, programs: pl.DataFrame, prompts: pl.DataFrame
) -> pl.DataFrame:
    """Put features, code and what is asked together, of replies that hold a program.

    features, programs: FEATURES and PROGRAMS tables of a model. prompts: of
    `prompt_pairs.list_prompts`.
    Raises ValueError for a program of an unknown prompt, and one without its code.
    """
    draw = [*SETTING, "prompt_id", "replicate"]
    own = features.filter(pl.col("reply") == PROGRAM)
    stray = own.join(prompts, on="prompt_id", how="anti")
    if stray.height:
        raise ValueError(
            f"features: prompt {stray['prompt_id'][0]} is none of the study's; features and stimuli"
            " are not of one run"
        )
    told = prompts.select("prompt_id", "task", "persona", "iteration")
    joined = (
        own.select(*draw, "language", *SYNTAX_COLUMNS)
        .join(told, on="prompt_id", maintain_order="left")
        .join(
            programs.select(*draw, "code"),
            on=draw,
            how="left",
            nulls_equal=True,
            maintain_order="left",
            validate="1:1",
        )
    )
    lacking = joined.filter(pl.col("code").is_null())
    if lacking.height:
        raise ValueError(
            f"programs: draw {lacking['replicate'][0]} of prompt {lacking['prompt_id'][0]} has no"
            " code; features and programs are not of one run"
        )
    return joined


def tabulate_leakage(
    features: pl.DataFrame,
    programs: pl.DataFrame,
    prompts: pl.DataFrame,
    *,
    study: str,
    model: str,
    seed: int,
    permutations: int,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Guess who asked for the programs of one model, in each setting, from each set of features.

    The random numbers depend on the seed, study, model, setting and set of features alone.
    Returns rows of a LEAKAGE table, p values not adjusted, and of a CONFUSIONS table.
    Raises ValueError as `join_programs` and `view_syntax` do.
    """
    joined = join_programs(features, programs, prompts)
    personas = prompts["persona"].unique(maintain_order=True).to_list()
    settings = features.select(*SETTING).unique(maintain_order=True).rows()
    rows: list[dict[str, Any]] = []
    confusions: list[dict[str, Any]] = []
    for temperature, top_p in settings:
        here = joined.filter(
            pl.col("temperature") == temperature, pl.col("top_p").eq_missing(top_p)
        ).sort("prompt_id", "replicate")
        by = "task" if prompts["task"].n_unique() > 1 else "iteration"
        chosen = choose_programs(here, personas, by)
        head = {"study": study, "model": model, "temperature": temperature, "top_p": top_p}
        for seen in FEATURE_SETS:
            key = (seed, "leakage", study, model, temperature, top_p, seen)
            row, found = _describe(chosen, seen, permutations, key)
            rows.append(head | row)
            confusions += [head | {"features": seen} | each for each in found]
    schema = {name: column.dtype for name, column in CONFUSIONS.columns.items()}
    return (
        pl.DataFrame(rows, schema=_SCHEMA, orient="row"),
        pl.DataFrame(confusions, schema=schema, orient="row"),
    )


def _describe(
    chosen: Chosen, seen: str, permutations: int, key: tuple[str | int | None, ...]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Write a row of a LEAKAGE table and those of a CONFUSIONS table."""
    names, programs = chosen.names, chosen.programs
    reasons = []
    if chosen.left_out:
        left_out = ", ".join(chosen.left_out)
        reasons.append(f"left out, with programs in fewer than two {chosen.by}s: {left_out}")
    row: dict[str, Any] = {
        "features": seen,
        "folds": chosen.by,
        "chance": 1 / len(names) if len(names) > 1 else None,
        "n_personas": len(names),
        "n_prompts": programs["prompt_id"].n_unique(),
        "n_programs": programs.height,
    }
    if len(names) < 2:
        reasons.insert(0, f"programs in two {chosen.by}s of fewer than two personas")
        return row | {"reason": "; ".join(reasons)}, []
    asked = describe_asked(chosen)
    if seen == "syntax":
        view = view_syntax(programs)
    else:
        code, languages = programs["code"].to_list(), programs["language"].to_list()
        view = view_tokens(code, languages, asked.prompts)
    found = guess(asked, view, permutations, key)
    numbers = found._asdict()
    confusion = numbers.pop("confusion")
    told = [
        {"persona": names[i], "guessed": names[j], "programs": int(confusion[i, j])}
        for i in range(len(names))
        for j in range(len(names))
    ]
    return row | numbers | {"reason": "; ".join(reasons) or None}, told
