"""The classifier against scikit-learn, its permutations against doing all anew, and its words."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict
from sklearn.preprocessing import StandardScaler

from llm_variability.separation.classifier import (
    RIDGE,
    SYNTAX_COLUMNS,
    Asked,
    View,
    average_with,
    balance_accuracy,
    guess,
    guess_personas,
    prepare_folds,
    score_personas,
    tabulate_leakage,
    view_syntax,
    view_tokens,
)
from llm_variability.separation.families import adjust_leakage
from llm_variability.separation.tokens import list_tokens
from llm_variability.tables_code import PROGRAMS
from llm_variability.tables_personas import FEATURES

KEY = (1, "test")


def make_asked(
    personas: int = 4, iterations: int = 3, draws: int = 2, tasks: int = 1, by: str = "iteration"
) -> Asked:
    """A prompt a task, persona and iteration, in this order, with some draws each."""
    cells = [
        (task if by == "task" else i, persona)
        for task in range(tasks)
        for persona in range(personas)
        for i in range(iterations)
    ]
    folds, own = np.array(cells).T
    prompts = np.repeat(np.arange(len(cells)), draws)
    return Asked(folds[prompts], by, prompts, own, [f"p{i}" for i in range(personas)])


def view_as_is(matrix: np.ndarray) -> View:
    def view(train: np.ndarray, means: np.ndarray) -> tuple[np.ndarray, int]:
        centred = matrix - means @ matrix
        return centred @ centred.T, matrix.shape[1]

    return view


class RidgedCovariance(BaseEstimator):  # type: ignore[misc]
    """The covariance within a group with a ridge, as scikit-learn takes it."""

    def __init__(self, ridge: float = 0) -> None:
        self.ridge = ridge

    def fit(self, values: np.ndarray) -> RidgedCovariance:
        centred = values - values.mean(axis=0)
        covariance = centred.T @ centred / len(values)
        self.covariance_ = covariance + self.ridge * np.eye(values.shape[1])
        return self


class RidgedDiscriminant(LinearDiscriminantAnalysis):  # type: ignore[misc]
    """scikit-learn's, with the ridge that the training programs ask for."""

    def fit(self, values: np.ndarray, labels: np.ndarray) -> RidgedDiscriminant:
        scatter = ((values - values.mean(axis=0)) ** 2).sum()
        directions = min(values.shape[1], len(values) - 1)
        self.covariance_estimator = RidgedCovariance(RIDGE * scatter / directions / len(values))
        return super().fit(values, labels)  # type: ignore[no-any-return]


@pytest.mark.parametrize("features", [3, 60])
def test_guesses_are_those_of_scikit_learn(features: int) -> None:
    asked = make_asked()
    truth = asked.personas[asked.prompts]
    matrix = np.random.default_rng(1).normal(size=(24, features)) + 0.5 * truth[:, None]
    oracle = cross_val_predict(
        RidgedDiscriminant(solver="lsqr", priors=np.full(4, 1 / 4)),
        matrix,
        truth,
        groups=asked.folds,
        cv=LeaveOneGroupOut(),
    )
    kernels = prepare_folds(asked, view_as_is(matrix))
    assert guess_personas(asked, kernels, asked.personas[None])[0].tolist() == oracle.tolist()


def test_scores_are_those_of_the_definition_with_as_many_programs_as_may_be() -> None:
    """x' S^-1 m - m' S^-1 m / 2, with personas of 3, 5 and 9 programs, less what all have."""
    rng = np.random.default_rng(2)
    asked = Asked(
        np.array([0] * 17 + [1] * 4),
        "iteration",
        np.arange(21),
        np.array([0] * 3 + [1] * 5 + [2] * 9 + [0, 1, 2, 2]),
        ["a", "b", "c"],
    )
    matrix = rng.normal(size=(21, 6))
    kernels = prepare_folds(asked, view_as_is(matrix))[1]
    scores = score_personas(kernels, asked.personas[None, :17], 3)[0]
    train = matrix[:17] - matrix[:17].mean(axis=0)
    test = matrix[17:] - matrix[:17].mean(axis=0)
    means = np.array([train[asked.personas[:17] == k].mean(axis=0) for k in range(3)])
    residuals = train - means[asked.personas[:17]]
    ridge = RIDGE * (train**2).sum() / 6
    inverse = np.linalg.inv(residuals.T @ residuals + ridge * np.eye(6))
    expected = test @ inverse @ means.T - np.diag(means @ inverse @ means.T) / 2
    assert scores == pytest.approx(expected)


def test_many_labellings_at_once_are_each_as_if_they_were_the_truth() -> None:
    asked = make_asked(tasks=3, by="task")
    matrix = np.random.default_rng(3).normal(size=(len(asked.prompts), 5))
    kernels = prepare_folds(asked, view_as_is(matrix))
    rng = np.random.default_rng(4)
    labels = np.array([rng.permutation(asked.personas) for _ in range(5)])
    together = guess_personas(asked, kernels, labels)
    for row, alone in zip(labels, together, strict=True):
        anew = Asked(asked.folds, asked.by, asked.prompts, row, asked.names)
        again = prepare_folds(anew, view_as_is(matrix))
        assert guess_personas(anew, again, row[None])[0].tolist() == alone.tolist()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30))
def test_balanced_accuracy_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    truth, guessed = np.array([*pairs, (0, 0), (1, 0), (2, 0)]).T
    ours = balance_accuracy(truth[None], guessed[None], 3)[0]
    assert ours == pytest.approx(balanced_accuracy_score(truth, guessed))


def test_a_persona_between_two_others_is_found_where_regression_misses_it() -> None:
    asked = make_asked(personas=3, iterations=10)
    truth = asked.personas[asked.prompts]
    matrix = 4.0 * truth[:, None] + np.random.default_rng(5).normal(size=(60, 2))
    kernels = prepare_folds(asked, view_as_is(matrix))
    ours = guess_personas(asked, kernels, asked.personas[None])[0]
    theirs = cross_val_predict(
        RidgeClassifier(), matrix, truth, groups=asked.folds, cv=LeaveOneGroupOut()
    )
    assert (ours[truth == 1] == 1).mean() > 0.9
    assert (theirs[truth == 1] == 1).mean() < 0.6


def test_what_only_a_prompt_has_tells_nothing_of_its_persona() -> None:
    """Draws of a prompt are all but the same; if some were learned from, all would be guessed."""
    asked = make_asked(iterations=4, draws=4, tasks=3, by="task")
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        own = rng.normal(size=(len(asked.personas), 8))[asked.prompts]
        matrix = own + 0.01 * rng.normal(size=own.shape)
        found.append(guess(asked, view_as_is(matrix), 99, (seed,)))
    accuracy = [each.accuracy for each in found]
    assert np.mean(accuracy) == pytest.approx(0.25, abs=4 * np.std(accuracy) / np.sqrt(60))
    assert np.mean([each.permuted for each in found]) == pytest.approx(0.25, abs=0.005)
    # By a binomial of 60 and 5%, at most 9 in all but one case of 1,000.
    assert sum(each.p_value <= 0.05 for each in found) <= 9


def test_a_planted_difference_holds_in_a_task_that_was_not_seen() -> None:
    asked = make_asked(iterations=4, tasks=3, by="task")
    rng = np.random.default_rng(6)
    centres = 2 * rng.normal(size=(4, 8))
    tasks = 50 * rng.normal(size=(3, 8))
    truth = asked.personas[asked.prompts]
    matrix = centres[truth] + tasks[asked.folds] + rng.normal(size=(len(truth), 8))
    found = guess(asked, view_as_is(matrix), 99, KEY)
    assert found.accuracy > 0.9
    assert found.p_value == pytest.approx(1 / 100)
    assert found.permuted_high < 0.5
    assert found.confusion.sum() == len(truth)
    shares = np.diag(found.confusion) / found.confusion.sum(axis=1)
    assert found.accuracy == pytest.approx(shares.mean())


def test_few_labellings_are_all_tried() -> None:
    """Two personas of one prompt in each of two folds: 2 x 2 labellings, two by two alike."""
    asked = make_asked(personas=2, iterations=2)
    matrix = np.array([[0.0], [0.1], [0.2], [0.1], [5.0], [5.1], [5.2], [5.1]])
    found = guess(asked, view_as_is(matrix), 99, KEY)
    assert (found.accuracy, found.p_value, found.mc_error) == (1.0, 0.5, 0.0)


def make_features(rows: int, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            name: pl.Series(rng.integers(0, 2, rows), dtype=pl.Boolean)
            if FEATURES.columns[name].dtype == pl.Boolean
            else pl.Series(rng.poisson(8, rows), dtype=pl.Int32)
            for name in SYNTAX_COLUMNS
        }
    )


def test_syntax_is_scaled_as_by_scikit_learn_on_the_training_programs() -> None:
    asked = make_asked()
    features = make_features(24).with_columns(classes=pl.lit(3, dtype=pl.Int32))
    train = asked.folds != 1
    raw = np.column_stack(
        [
            features[name].cast(pl.Float64)
            if FEATURES.columns[name].dtype == pl.Boolean
            else np.log1p(features[name])
            for name in SYNTAX_COLUMNS
        ]
    )
    scaled = StandardScaler().fit(raw[train]).transform(raw)
    products, n_features = view_syntax(features)(train, average_with(asked, train))
    assert products == pytest.approx(scaled @ scaled.T)
    assert n_features == len(SYNTAX_COLUMNS) - 1  # classes do not vary


def test_a_feature_that_some_language_lacks_is_not_seen() -> None:
    asked = make_asked()
    train = asked.folds != 1
    means = average_with(asked, train)
    features = make_features(24).with_columns(classes=pl.lit(3, dtype=pl.Int32))
    lacking = features.with_columns(
        classes=pl.when(pl.int_range(24) > 0).then(pl.int_range(24).cast(pl.Int32))
    )
    seen, lacked = (view_syntax(each)(train, means) for each in (features, lacking))
    assert lacked[0] == pytest.approx(seen[0])  # classes do not vary, or are not there
    assert lacked[1] == seen[1]


def test_tasks_are_centred_each_on_its_own_programs() -> None:
    asked = make_asked(tasks=3, by="task")
    matrix = np.random.default_rng(7).normal(size=(len(asked.folds), 2))
    centred = matrix - average_with(asked, asked.folds != 0) @ matrix
    for fold in range(3):
        assert centred[asked.folds == fold].mean(axis=0) == pytest.approx(0)


def test_words_weigh_as_by_scikit_learn() -> None:
    code = ["a = b + 1", "a = c(b)", "print(b)", "a = b = 2 + b", "c('x')", "only = 'y'"]
    prompts = np.arange(6)
    train = np.array([True] * 4 + [False] * 2)
    asked = Asked((~train).astype(int), "iteration", prompts, prompts % 2, ["p", "q"])
    means = average_with(asked, train)
    products, n_words = view_tokens(code, ["python"] * 6, prompts)(train, means)
    shared = ["<number>", "<string>", "a", "b", "c"]  # `print` and `only` are of one prompt
    oracle = TfidfVectorizer(analyzer=list_tokens, sublinear_tf=True, vocabulary=shared)
    oracle.fit([code[i] for i in range(4)])
    weighed = oracle.transform(code).toarray()
    centred = weighed - means @ weighed
    assert products == pytest.approx(centred @ centred.T)
    assert n_words == 5


def test_comments_and_what_strings_say_are_no_words() -> None:
    code = '''"""Doc of a calculator's 'parts' # all"""
import os  # comment, it's one
name = f"hi {os.name}" + 'a\\'b' + r"\\"
value = 3.5e-2 + 0xFF + a.b2 + 1_000j
'''
    words = "<string> import os name <string> <string> <string> value <number> <number> a b2"
    assert list_tokens(code) == [*words.split(), "<number>"]
    c_like = 'let a = "x // y"; // c\n/* "q" */ const s = b;'
    assert list_tokens(c_like, "javascript") == ["let", "a", "<string>", "const", "s", "b"]
    assert list_tokens('x = "never closed\ny = 1') == ["x", "<string>", "y", "<number>"]


@given(st.text(alphabet="ab1_ #\n=+.'\"(", max_size=40))
def test_any_text_is_read_and_white_space_at_its_ends_changes_nothing(code: str) -> None:
    assert list_tokens(code) == list_tokens(f"\n{code}")


def make_study(
    personas: int = 3,
    tasks: int = 2,
    iterations: int = 3,
    draws: int = 2,
    none: tuple[str, ...] = (),
    planted: bool = True,
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Make features, programs and prompts; personas have names and lengths of their own."""
    rng = np.random.default_rng(1)
    prompts, features, programs = [], [], []
    for task in range(tasks):
        for persona in range(personas):
            for i in range(iterations):
                prompt = f"{task}-{persona}-{i}"
                prompts.append((prompt, f"t{task}", f"p{persona}", str(i)))
                for draw in range(draws):
                    kind = "none" if prompt in none else "program"
                    head = {
                        "temperature": "0.8",
                        "top_p": None if task < 0 else "1.0",
                        "prompt_id": prompt,
                        "replicate": draw,
                        "language": "python",
                    }
                    code = f"style_{persona} = noise_{rng.integers(3)}" if planted else "x = 1"
                    programs.append(head | {"code": code if kind == "program" else None})
                    values: dict[str, Any] = dict.fromkeys(SYNTAX_COLUMNS)
                    if kind == "program":
                        for name in SYNTAX_COLUMNS:
                            boolean = FEATURES.columns[name].dtype == pl.Boolean
                            values[name] = bool(rng.integers(2)) if boolean else int(rng.poisson(9))
                        values["lines"] = 10 * (persona + 1) * (task + 1) + int(rng.integers(3))
                    features.append(head | {"reply": kind} | values)
    types = {name: FEATURES.columns[name].dtype for name in SYNTAX_COLUMNS}
    return (
        pl.DataFrame(features, schema_overrides=types, infer_schema_length=None),
        pl.DataFrame(programs, schema_overrides={"code": PROGRAMS.columns["code"].dtype}),
        pl.DataFrame(prompts, schema=["prompt_id", "task", "persona", "iteration"], orient="row"),
    )


def tabulate(
    study: tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame], model: str = "m"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    return tabulate_leakage(*study, study="s", model=model, seed=1, permutations=99)


def test_both_sets_of_features_have_a_row_and_confusions_add_up() -> None:
    leakage, confusions = tabulate(make_study())
    assert leakage["features"].to_list() == ["syntax", "tokens"]
    assert leakage["folds"].to_list() == ["task", "task"]
    assert leakage["n_programs"].to_list() == [36, 36]
    assert leakage["n_prompts"].to_list() == [18, 18]
    assert leakage["chance"].to_list() == [1 / 3, 1 / 3]
    for row in leakage.iter_rows(named=True):
        own = confusions.filter(features=row["features"])
        assert own.height == 9 and own["programs"].sum() == 36
        right = own.filter(pl.col("persona") == pl.col("guessed"))["programs"].sum()
        assert row["accuracy"] == pytest.approx(right / 36)
    assert leakage["accuracy"].to_list()[1] == 1
    assert leakage["p_value"].to_list()[1] == pytest.approx(1 / 100)


def test_with_one_task_iterations_are_held_out() -> None:
    leakage, _ = tabulate(make_study(tasks=1))
    assert leakage["folds"].to_list() == ["iteration", "iteration"]
    assert leakage["accuracy"].null_count() == 0


def test_a_persona_with_programs_in_one_task_is_left_out_and_named() -> None:
    none = tuple(f"1-2-{i}" for i in range(3))
    leakage, confusions = tabulate(make_study(none=none))
    assert leakage["n_personas"].to_list() == [2, 2]
    assert leakage["chance"].to_list() == [0.5, 0.5]
    assert leakage["reason"][0].endswith("fewer than two tasks: p2")
    assert "p2" not in confusions["persona"].to_list()


def test_fewer_than_two_personas_leave_a_reason() -> None:
    none = tuple(f"1-{persona}-{i}" for persona in (1, 2) for i in range(3))
    leakage, confusions = tabulate(make_study(none=none))
    assert leakage["accuracy"].null_count() == leakage["p_value"].null_count() == 2
    assert leakage["n_personas"].to_list() == [1, 1]
    assert leakage["chance"].null_count() == 2
    assert leakage["reason"][0].startswith("programs in two tasks of fewer than two personas")
    assert confusions.height == 0


def test_no_program_at_all_leaves_a_reason() -> None:
    none = tuple(f"{t}-{p}-{i}" for t in range(2) for p in range(3) for i in range(3))
    leakage, _ = tabulate(make_study(none=none))
    assert leakage["n_programs"].to_list() == leakage["n_personas"].to_list() == [0, 0]
    assert leakage["accuracy"].null_count() == leakage["chance"].null_count() == 2


def test_programs_that_are_all_the_same_say_nothing() -> None:
    leakage, _ = tabulate(make_study(planted=False))
    tokens = leakage.filter(features="tokens").row(0, named=True)
    assert tokens["accuracy"] == pytest.approx(1 / 3)
    assert tokens["p_value"] == 1


def test_another_model_has_other_random_numbers_and_joins_the_family() -> None:
    study = make_study()
    first, second = tabulate(study)[0], tabulate(study, "n")[0]
    assert tabulate(study)[0].equals(first)
    assert second["accuracy"].equals(first["accuracy"])
    assert not second["permuted"].equals(first["permuted"])
    assert adjust_leakage(pl.concat([first, second]))["family_size"].to_list() == [2] * 4


def test_tables_of_two_runs_are_refused() -> None:
    features, programs, prompts = make_study()
    with pytest.raises(ValueError, match="has no code; features and programs"):
        tabulate((features, programs.tail(-1), prompts))
    with pytest.raises(ValueError, match="prompt 0-0-0 is none of the study's"):
        tabulate((features, programs, prompts.tail(-1)))
    empty = features.with_columns(lines=pl.lit(None, dtype=pl.Int32))
    with pytest.raises(ValueError, match="features: lines of a program are empty"):
        tabulate((empty, programs, prompts))
