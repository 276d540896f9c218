"""Lines over tasks against lme4, lmerTest, statsmodels, dense algebra, closed forms, simulation."""

import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.regression.mixed_linear_model import MixedLM

from llm_variability.curves import random_slopes
from llm_variability.curves.random_slopes import (
    RANDOM,
    find_maximum,
    fit_slopes,
    fit_slopes_statsmodels,
    is_maximum,
)
from llm_variability.curves.slope_profile import SlopeProfile
from llm_variability.curves.task_slopes import average_tasks, fit_curves, select_observations
from llm_variability.fits.profile import fit_profile
from llm_variability.fits.random_intercept import (
    GroupedOutcome,
    UnfittableError,
    collapse_to_means,
)
from llm_variability.tables import Design, read_table, write_table
from llm_variability.tables_code import AVERAGES, CURVE_FITS

REFERENCE = Path(__file__).parent / "reference"
DESIGN = Design(
    "task", (), carried=("set", "language", "augmentation", "method", "rate", "variant")
)
BOTH = "intercept + slope"


def row(task, nominal, values, **changes):
    """An AVERAGES row of the pairs `values`; nominal rate 0 is the ceiling."""
    values = np.asarray(values, dtype=float)
    ceiling = nominal == "0"
    return {
        "temperature": "0",
        "top_p": None,
        "measure": "tsed",
        "comparison": "ceiling" if ceiling else "augmented",
        "task": task,
        "set": task.split("/")[0],
        "language": "python",
        "augmentation": "original" if ceiling else f"keyboard-{nominal}",
        "method": "original" if ceiling else "keyboard",
        "rate": nominal,
        "variant": "0",
        "prompt_id": f"{task} {'original' if ceiling else nominal}",
        "realised": float(nominal),
        "bleu": None,
        "draws": 5,
        "programs": 5,
        "n_pairs": len(values),
        "mean": values.mean() if len(values) else None,
        "within_ss": ((values - values.mean()) ** 2).sum() if len(values) else None,
    } | changes


def make_averages(rows):
    types = {name: column.dtype for name, column in AVERAGES.columns.items()}
    types |= dict.fromkeys(DESIGN.columns, pl.String)
    return pl.DataFrame(rows, schema=types)


def read_pairs(study):
    return pl.read_csv(REFERENCE / "tasks.csv").filter(pl.col("study") == study)


def averages_of(pairs):
    return make_averages(
        [
            row(f"open/{task}", "0" if rate == 0 else str(rate), part["similarity"].to_numpy())
            for (task, rate), part in pairs.group_by("task", "realised", maintain_order=True)
        ]
    )


def simulate(rng, n_tasks, rates, sizes, root=((0.1, 0.0), (-0.05, 0.2)), noise=0.1):
    """Single observations of lines that differ by task: similarity, design matrix, task."""
    effects = rng.normal(size=(n_tasks, 2)) @ np.array(root).T + np.array([0.8, -0.6])
    rows = [
        (j, x, effects[j] @ (1, x) + noise * rng.normal())
        for j in range(n_tasks)
        for x in rates(j)
        for _ in range(sizes(j))
    ]
    task, rate, y = (np.array(column) for column in zip(*rows, strict=True))
    return y, np.column_stack([np.ones_like(rate), rate]), task


def group(y, coding, task):
    cells = sorted(set(zip(task, coding[:, 1], strict=True)))
    values = [y[(task == j) & (coding[:, 1] == x)] for j, x in cells]
    return GroupedOutcome(
        block=np.array([j for j, _ in cells]),
        coding=np.array([(1.0, x) for _, x in cells]),
        count=np.array([len(v) for v in values]),
        mean=np.array([v.mean() for v in values]),
        within_ss=np.array([((v - v.mean()) ** 2).sum() for v in values]),
    )


def simulate_uneven(seed, n_tasks=10):
    rng = np.random.default_rng(seed)
    own = rng.uniform(0, 0.8, size=(n_tasks, 5))
    many = rng.integers(1, 6, n_tasks)
    return simulate(rng, n_tasks, lambda j: own[j, : 3 + j % 3], lambda j: many[j])


# -------------------------------------------------------------------------- lme4 and lmerTest


@pytest.mark.parametrize("random", RANDOM)
@pytest.mark.parametrize("level", ["pair", "task"])
@pytest.mark.parametrize("study", ["even", "uneven", "singular"])
def test_a_line_is_that_of_lme4_with_the_df_of_lmertest(study, level, random) -> None:
    this = (pl.col("level") == level) & (pl.col("random") == random)
    ours = fit_curves(averages_of(read_pairs(study)), study="s", model="m").filter(
        this, pl.col("set").is_null()
    )
    theirs = pl.read_csv(REFERENCE / "task_models.csv").filter(this, pl.col("study") == study)

    assert ours["term"].to_list() == theirs["term"].to_list()
    assert ours["converged"].all()
    assert ours["n_observations"].to_list() == theirs["n"].to_list()
    np.testing.assert_allclose(ours["estimate"], theirs["estimate"], atol=1e-7)
    np.testing.assert_allclose(ours["std_error"], theirs["std_error"], rtol=1e-6)
    for name in ("var_intercept", "var_residual"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-6)
    if random == BOTH:
        np.testing.assert_allclose(ours["var_slope"], theirs["var_slope"], rtol=1e-6)
        np.testing.assert_allclose(ours["correlation"], theirs["correlation"], rtol=1e-6)
    else:
        assert ours["var_slope"].null_count() == ours["correlation"].null_count() == 2
    if level == "task":
        np.testing.assert_allclose(ours["df"], theirs["df"], rtol=1e-6)
        np.testing.assert_allclose(ours["p_value"], theirs["p_t"], rtol=1e-5)
    else:
        assert ours["df"].null_count() == 2
        np.testing.assert_allclose(ours["p_value"], theirs["p_normal"], rtol=1e-4)


@pytest.mark.parametrize("random", RANDOM)
@pytest.mark.parametrize("study", ["even", "uneven", "singular"])
def test_the_restricted_likelihood_is_that_of_lme4(study, random) -> None:
    pairs = read_pairs(study)
    rate = pairs["realised"].to_numpy()
    coding = np.column_stack([np.ones_like(rate), rate])
    fit = fit_slopes(
        group(pairs["similarity"].to_numpy(), coding, pairs["task"].to_numpy()), random
    )
    theirs = pl.read_csv(REFERENCE / "task_models.csv").filter(
        pl.col("study") == study, pl.col("random") == random, pl.col("level") == "pair"
    )
    assert fit.deviance == pytest.approx(theirs["deviance"][0], abs=1e-8)


# -------------------------------------------------------------------------------- statsmodels


@pytest.mark.parametrize("random", RANDOM)
@pytest.mark.parametrize("seed", [0, 3, 7])
def test_a_line_is_that_of_statsmodels_on_the_single_pairs(seed, random) -> None:
    y, coding, task = simulate_uneven(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = MixedLM(y, coding, task, exog_re=coding[:, : len(RANDOM[random]) // 2 + 1]).fit(
            reml=True, method="powell", ftol=1e-14, maxiter=2000
        )

    fit = fit_slopes(group(y, coding, task), random)

    assert fit.converged and theirs.converged
    assert fit.deviance == pytest.approx(-2 * theirs.llf, abs=1e-6)
    np.testing.assert_allclose(fit.estimate, theirs.fe_params, atol=1e-5)
    assert fit.var_residual == pytest.approx(theirs.scale, rel=1e-4)
    assert fit.var_intercept == pytest.approx(theirs.cov_re[0, 0], rel=1e-3)
    if random == BOTH:
        assert fit.var_slope == pytest.approx(theirs.cov_re[1, 1], rel=1e-3)
    # statsmodels adds to the standard errors what the variances are uncertain by.
    assert (theirs.bse_fe > fit.std_error * (1 - 1e-4)).all()


@pytest.mark.parametrize("seed", [2, 5, 11])
def test_a_singular_line_is_that_of_statsmodels_but_for_what_powell_oversteps(seed) -> None:
    outcome = group(*simulate_uneven(seed))
    ours, theirs = fit_slopes(outcome, BOTH), fit_slopes_statsmodels(outcome, BOTH)
    assert ours.converged and abs(ours.correlation) == pytest.approx(1)
    assert ours.deviance == pytest.approx(theirs.deviance, abs=1e-4)
    np.testing.assert_allclose(ours.estimate, theirs.estimate, atol=1e-3)
    assert ours.var_slope == pytest.approx(theirs.var_slope, rel=0.01)


@pytest.mark.parametrize("random", RANDOM)
def test_the_backend_statsmodels_agrees_with_the_profile(random) -> None:
    outcome = group(*simulate_uneven(4))
    ours, theirs = fit_slopes(outcome, random), fit_slopes_statsmodels(outcome, random)
    assert theirs.converged
    np.testing.assert_allclose(ours.estimate, theirs.estimate, atol=1e-5)
    np.testing.assert_allclose(ours.std_error, theirs.std_error, rtol=0.06)
    np.testing.assert_allclose(ours.df, theirs.df, rtol=1e-3)
    assert ours.var_intercept == pytest.approx(theirs.var_intercept, rel=1e-3)
    assert ours.deviance == pytest.approx(theirs.deviance, abs=1e-6)


def test_statsmodels_is_not_asked_for_more_than_it_can_do(monkeypatch) -> None:
    monkeypatch.setattr(random_slopes, "MAX_EXPANDED", 50)
    with pytest.raises(UnfittableError, match="statsmodels is asked for 50 at most"):
        fit_slopes_statsmodels(group(*simulate_uneven(4)), BOTH)


# ------------------------------------------------------------------ dense algebra, closed forms


def dense_fit(y, coding, task, relative):
    """-2 restricted log-likelihood and standard errors from the whole covariance matrix."""
    covariance = np.eye(len(y))
    for j in np.unique(task):
        own = np.flatnonzero(task == j)
        covariance[np.ix_(own, own)] += coding[own] @ relative @ coding[own].T
    inverse = np.linalg.inv(covariance)
    information = coding.T @ inverse @ coding
    residual = y - coding @ np.linalg.solve(information, coding.T @ inverse @ y)
    degrees = len(y) - 2
    variance = residual @ inverse @ residual / degrees
    logs = np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(information)[1]
    errors = np.sqrt(variance * np.diag(np.linalg.inv(information)))
    return logs + degrees * (np.log(2 * np.pi * variance) + 1), errors


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    spread=st.tuples(st.floats(0, 30), st.floats(-1, 1), st.floats(0, 30)),
)
def test_the_profile_is_the_likelihood_of_the_whole_covariance_matrix(seed, spread) -> None:
    y, coding, task = simulate_uneven(seed, n_tasks=5)
    relative = (
        np.diag(spread[::2]) @ np.array([[1, spread[1]], [spread[1], 1]]) @ np.diag(spread[::2])
    )
    profile = SlopeProfile(group(y, coding, task))
    point = profile.at(profile.place(relative))
    deviance, errors = dense_fit(y, coding, task, relative)
    assert profile.complete_deviance(point) == pytest.approx(deviance, rel=1e-6, abs=1e-6)
    covariance = point.var_residual * profile.back @ point.covariance @ profile.back.T
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), errors, rtol=1e-6)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n_tasks=st.integers(4, 9), spread=st.sampled_from([0, 0.1, 1]))
def test_no_covariance_has_a_higher_likelihood_than_the_one_found(seed, n_tasks, spread) -> None:
    rng = np.random.default_rng(seed)
    root = spread * np.tril(rng.normal(size=(2, 2)))
    y, coding, task = simulate(rng, n_tasks, lambda j: rng.uniform(0, 1, 4), lambda j: 2, root)
    profile = SlopeProfile(group(y, coding, task))
    theta = find_maximum(profile, BOTH)
    assert is_maximum(profile, theta, BOTH)
    others = np.concatenate(
        [
            theta + 0.1 * rng.normal(size=(300, 3)),
            theta * np.exp(rng.normal(size=(300, 3))),
            10 ** rng.uniform(-2, 3, size=(300, 3)) * rng.choice([-1, 1], size=(300, 3)),
        ]
    )
    assert profile.at(others).deviance.min() >= profile.at(theta).deviance - 1e-7


def test_first_and_second_derivatives_are_those_of_differences() -> None:
    profile = SlopeProfile(group(*simulate_uneven(6)))
    theta, step = np.array([1.3, -0.7, 0.9]), 1e-5

    def slope(each):
        return profile.gradient(profile.at(each))

    def profiled(each):
        hessian = profile.curvature(profile.at(each)).hessian
        return hessian[:3, :3] - np.outer(hessian[:3, 3], hessian[:3, 3]) / hessian[3, 3]

    moves = step * np.eye(3)
    first = [
        (profile.at(theta + m).deviance - profile.at(theta - m).deviance) / (2 * step)
        for m in moves
    ]
    second = [(slope(theta + m) - slope(theta - m)) / (2 * step) for m in moves]
    np.testing.assert_allclose(slope(theta), first, rtol=1e-6)
    np.testing.assert_allclose(profiled(theta), second, rtol=1e-6)
    covariance = [
        (profile.at(theta + m).covariance - profile.at(theta - m).covariance) / (2 * step)
        for m in moves
    ]
    found = profile.curvature(profile.at(theta)).covariance_slope
    np.testing.assert_allclose(found[:3], covariance, rtol=1e-5, atol=1e-9)


def test_a_balanced_study_is_the_two_stage_analysis_of_its_tasks_lines() -> None:
    """Every task's line by least squares: their mean, their covariance, the variance about them."""
    rng = np.random.default_rng(7)
    rates = np.array([0, 0.1, 0.3, 0.6])
    y, coding, task = simulate(rng, 15, lambda j: rates, lambda j: 3)
    design = coding[task == 0]
    lines = np.array([np.linalg.lstsq(design, y[task == j])[0] for j in range(15)])
    left = np.array([y[task == j] - design @ lines[j] for j in range(15)])
    residual = (left**2).sum() / (15 * (len(design) - 2))
    between = np.cov(lines.T)
    spread = between - residual * np.linalg.inv(design.T @ design)
    assert np.linalg.eigvalsh(spread)[0] > 0

    fit = fit_slopes(group(y, coding, task), BOTH)

    np.testing.assert_allclose(fit.estimate, lines.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(fit.std_error, np.sqrt(np.diag(between) / 15), rtol=1e-7)
    np.testing.assert_allclose(fit.df, [14, 14], rtol=1e-6)
    assert fit.var_residual == pytest.approx(residual, rel=1e-7)
    assert fit.var_intercept == pytest.approx(spread[0, 0], rel=1e-6)
    assert fit.var_slope == pytest.approx(spread[1, 1], rel=1e-6)
    assert fit.correlation == pytest.approx(
        spread[0, 1] / np.sqrt(spread[0, 0] * spread[1, 1]), rel=1e-6
    )


@pytest.mark.parametrize("level", ["pair", "task"])
@pytest.mark.parametrize("seed", range(5))
def test_random_intercepts_alone_are_the_other_profile_of_the_project(seed, level) -> None:
    outcome = group(*simulate_uneven(seed))
    outcome = outcome if level == "pair" else collapse_to_means(outcome)
    ours, theirs = fit_slopes(outcome, "intercept"), fit_profile(outcome)
    np.testing.assert_allclose(ours.estimate, theirs.estimate, atol=1e-9)
    assert ours.var_intercept == pytest.approx(theirs.var_block, rel=1e-7, abs=1e-12)
    assert ours.var_residual == pytest.approx(theirs.var_residual, rel=1e-8)


# ---------------------------------------------------------------------------------- boundaries


def same_lines(n_tasks=8):
    """Tasks that are alike to the digit: every one has the same observations."""
    rng = np.random.default_rng(8)
    rates = np.array([0, 0.2, 0.5, 0.9])
    y = 0.8 - 0.5 * rates + 0.1 * rng.normal(size=4)
    coding = np.column_stack([np.ones(4), rates])
    return np.tile(y, n_tasks), np.tile(coding, (n_tasks, 1)), np.repeat(np.arange(n_tasks), 4)


@pytest.mark.parametrize("random", RANDOM)
def test_tasks_that_are_alike_have_no_variance_and_the_line_of_least_squares(random) -> None:
    y, coding, task = same_lines()
    line = stats.linregress(coding[:, 1], y)

    fit = fit_slopes(group(y, coding, task), random)

    assert fit.converged
    assert fit.var_intercept == 0 and fit.var_slope in (0, None) and fit.correlation is None
    np.testing.assert_allclose(fit.estimate, [line.intercept, line.slope], rtol=1e-10)
    np.testing.assert_allclose(fit.std_error, [line.intercept_stderr, line.stderr], rtol=1e-10)
    np.testing.assert_allclose(fit.df, [30, 30])


def test_slopes_alike_and_intercepts_not_give_a_correlation_of_one_or_no_slope_variance() -> None:
    y, coding, task = same_lines()
    y = y + np.linspace(-0.2, 0.2, 8)[task]
    fit = fit_slopes(group(y, coding, task), BOTH)
    assert fit.converged
    assert fit.var_intercept > 0
    assert fit.var_slope < 1e-3 * fit.var_intercept
    assert fit.correlation is None or abs(fit.correlation) == pytest.approx(1)


@pytest.mark.parametrize("inside", [1e-1, 1e-2, 1e-3, 3e-3])
def test_a_maximum_just_inside_the_boundary_is_not_moved_onto_it(inside) -> None:
    """Tasks' lines and residuals made so that the relative factor found has to be the one chosen.

    In a balanced study with standardised rates the optimum is known: the lines' covariance less
    what a line errs by (test of the two-stage analysis).
    """
    rng = np.random.default_rng(13)
    rates = stats.zscore([0, 1, 2, 3, 4])
    design = np.column_stack([np.ones(5), rates])
    factor = np.array([[2, 0], [0.4, inside]]) / np.sqrt(5)
    lines = rng.normal(size=(8, 2))
    lines -= lines.mean(axis=0)
    lines = lines @ np.linalg.inv(np.linalg.cholesky(np.cov(lines.T))).T
    lines = lines @ np.linalg.cholesky(factor @ factor.T + np.eye(2) / 5).T
    left = rng.normal(size=(8, 5))
    left -= left @ design @ design.T / 5
    left *= np.sqrt(8 * 3 / (left**2).sum())
    y = (lines @ design.T + left).ravel()
    profile = SlopeProfile(group(y, np.tile(design, (8, 1)), np.repeat(np.arange(8), 5)))

    theta = find_maximum(profile, BOTH)

    assert is_maximum(profile, theta, BOTH)
    np.testing.assert_allclose(theta, [2, 0.4, inside], rtol=1e-5, atol=2e-6)


def test_a_saddle_is_no_maximum() -> None:
    """At theta 0 the derivative by theta is 0 whatever the data say; the condition sees it."""
    profile = SlopeProfile(group(*simulate_uneven(9)))
    assert np.abs(profile.gradient(profile.at(np.zeros(3)))).max() == 0
    assert not is_maximum(profile, np.zeros(3), BOTH)
    assert not is_maximum(profile, find_maximum(profile, BOTH) * 1.001, BOTH)
    without_slopes = find_maximum(profile, "intercept")
    assert is_maximum(profile, without_slopes, "intercept")
    assert not is_maximum(profile, without_slopes, BOTH)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_variances_of_any_size_are_found(scale) -> None:
    """Noise from a ten-thousandth to ten thousand times as large, the tasks' lines the same."""
    rng = np.random.default_rng(10)
    y, coding, task = simulate(rng, 12, lambda j: np.linspace(0, 1, 6), lambda j: 4, noise=0)
    noise = scale * 1e-2 * rng.normal(size=len(y))
    outcome = group(y + noise, coding, task)
    profile = SlopeProfile(outcome)
    assert is_maximum(profile, find_maximum(profile, BOTH), BOTH)
    assert fit_slopes(outcome, BOTH).var_residual == pytest.approx(noise.var(), rel=0.2)


# --------------------------------------------------------------------------------- invariances


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1000),
    shift=st.floats(-5, 5),
    factor=st.floats(0.01, 100),
    stretch=st.floats(0.1, 10),
)
def test_units_of_similarity_and_rate_do_not_matter(seed, shift, factor, stretch) -> None:
    y, coding, task = simulate_uneven(seed)
    one = fit_slopes(group(y, coding, task), BOTH)
    two = fit_slopes(group(shift + factor * y, coding * (1, stretch), task), BOTH)
    units = np.array([factor, factor / stretch])
    np.testing.assert_allclose(
        two.estimate, one.estimate * units + (shift, 0), rtol=1e-6, atol=1e-6 * factor
    )
    np.testing.assert_allclose(two.std_error, one.std_error * units, rtol=1e-5)
    np.testing.assert_allclose(two.df, one.df, rtol=1e-3)
    assert two.var_residual == pytest.approx(one.var_residual * factor**2, rel=1e-5)


def test_the_order_of_rows_does_not_matter() -> None:
    averages = averages_of(read_pairs("uneven"))
    mixed = averages.sample(fraction=1, shuffle=True, seed=3)
    numbers = ["estimate", "std_error", "p_value", "var_slope"]
    one, two = (fit_curves(each, study="s", model="m") for each in (averages, mixed))
    np.testing.assert_allclose(
        one.select(numbers).to_numpy(), two.select(numbers).to_numpy(), rtol=1e-5
    )


# --------------------------------------------------------------------------------- simulation


@pytest.mark.parametrize("random", RANDOM)
def test_intervals_of_tasks_cover_the_truth_as_often_as_they_say(random) -> None:
    """Of 200 studies 95% is 190 give or take 9 (three standard errors), 12 tasks each."""
    rng = np.random.default_rng(11)
    root = ((0.15, 0), (-0.1, 0.25)) if random == BOTH else ((0.15, 0), (0, 0))
    covered = 0
    for _ in range(200):
        y, coding, task = simulate(rng, 12, lambda j: rng.uniform(0, 0.9, 5), lambda j: 1, root)
        fit = fit_slopes(group(y, coding, task), random)
        margin = fit.std_error[1] * stats.t.ppf(0.975, fit.df[1])
        covered += abs(fit.estimate[1] + 0.6) <= margin
    assert 181 <= covered <= 199


# ------------------------------------------------------------------------------- rows of fits


def small_study(tasks=("open/a", "open/b", "fresh/c", "open/d", "fresh/e", "fresh/f")):
    rng = np.random.default_rng(12)
    return [
        row(task, rate, 0.8 - 0.5 * float(rate) + 0.05 * i + 0.05 * rng.normal(size=4))
        for i, task in enumerate(tasks)
        for rate in ("0", "0.2", "0.4", "0.6")
    ]


def test_the_fits_are_a_table_of_their_contract(tmp_path) -> None:
    fits = fit_curves(make_averages(small_study()), study="s", model="m")
    path = tmp_path / "fits.parquet"
    write_table(fits, path, CURVE_FITS, {"study": "s"})
    assert read_table(path, CURVE_FITS).equals(fits)
    assert fits["set"].unique(maintain_order=True).to_list() == ["fresh", "open", None]
    assert fits.height == 3 * 2 * 2 * 2
    for name in ("p_holm", "p_bh", "family_size", "reason"):
        assert fits[name].null_count() == fits.height
    inside = (fits["ci_low"] < fits["estimate"]) & (fits["estimate"] < fits["ci_high"])
    assert inside.all()


def test_a_set_is_fitted_as_if_the_others_were_not_there() -> None:
    rows = small_study()
    alone = [each for each in rows if each["set"] == "open"]
    both, one = (fit_curves(make_averages(each), study="s", model="m") for each in (rows, alone))
    assert both.filter(pl.col("set") == "open").equals(one.filter(pl.col("set") == "open"))
    everything = one.filter(pl.col("set").is_null()).drop("set")
    assert everything.equals(one.filter(pl.col("set") == "open").drop("set"))


def test_measures_and_settings_are_fitted_apart() -> None:
    rows = small_study()
    other = [each | {"measure": "m2", "mean": 1 - each["mean"]} for each in rows]
    hot = [each | {"temperature": "1.0", "top_p": "0.9"} for each in rows]
    fits = fit_curves(make_averages([*hot, *rows, *other]), study="s", model="m")
    keys = fits.select("measure", "temperature", "top_p").unique(maintain_order=True).rows()
    assert keys == [("tsed", "0", None), ("tsed", "1.0", "0.9"), ("m2", "0", None)]
    drop = fits.filter(pl.col("term") == "rate")
    tsed, cosine = (
        drop.filter(pl.col("measure") == name, pl.col("temperature") == "0")["estimate"]
        for name in ("tsed", "m2")
    )
    np.testing.assert_allclose(tsed, -cosine, rtol=1e-6)


def test_paraphrases_have_no_line() -> None:
    worded = row("open/a", "0.3", [0.5, 0.6], method="paraphrase", rate="low", realised=None)
    fits = fit_curves(make_averages([*small_study(), worded]), study="s", model="m")
    assert fits["method"].unique().to_list() == ["keyboard"]


def test_a_prompt_that_stayed_as_it_was_is_the_ceiling_and_counts_once() -> None:
    rows = small_study()
    same = row("open/a", "0.1", [0.9, 0.8], realised=0.0, prompt_id="open/a original")
    without = select_observations(make_averages(rows), "keyboard")
    assert select_observations(make_averages([*rows, same]), "keyboard").equals(without)
    assert without.filter(pl.col("task") == "open/a")["realised"].to_list() == [0, 0.2, 0.4, 0.6]


def test_a_method_that_changes_text_at_rate_0_keeps_both_that_and_the_ceiling() -> None:
    published = row(
        "open/a", "0.0", [0.7, 0.5], realised=0.05, method="keyboard", rate="0", prompt_id="x"
    )
    kept = select_observations(
        make_averages([row("open/a", "0", [0.9, 0.8]), published]), "keyboard"
    )
    assert kept["realised"].to_list() == [0, 0.05]
    assert average_tasks(kept)["mean"].to_list() == pytest.approx([0.85, 0.6])


def test_variants_of_a_task_are_one_observation_and_weigh_alike() -> None:
    rows = [
        row("open/a", "0", [0.9, 0.7]),
        row("open/a", "0.2", [0.6], realised=0.1),
        row("open/a", "0.2", [0.2, 0.2, 0.2], realised=0.3, variant="1", prompt_id="x"),
    ]
    means = average_tasks(select_observations(make_averages(rows), "keyboard"))
    assert means["mean"].to_list() == pytest.approx([0.8, 0.4])
    assert means["realised"].to_list() == pytest.approx([0, 0.2])
    assert means["n_pairs"].to_list() == [1, 1]


def alike(rows):
    return [each | {"mean": 1.0, "within_ss": 0.0} for each in rows]


def exact_lines(rows):
    return [each | {"mean": 1 - each["realised"] / 2, "within_ss": 0.0} for each in rows]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (small_study(("open/a", "open/b")), "2 tasks with pairs: fewer than 3"),
        ([each for each in small_study() if each["rate"] == "0.2"], "one rate alone"),
        (
            [each for each in small_study() if each["rate"] == "0.2" or each["task"] == "open/a"],
            "1 tasks with pairs at two rates or more: fewer than 3",
        ),
        (alike(small_study()), "no variance: all similarities are equal"),
        (exact_lines(small_study()), "no variance within tasks beyond what the rate explains"),
        (
            [each | {"mean": None, "within_ss": None, "n_pairs": 0} for each in small_study()],
            "no pairs",
        ),
    ],
)
def test_what_cannot_be_fitted_has_a_reason_and_no_numbers(rows, reason) -> None:
    fits = fit_curves(make_averages(rows), study="s", model="m").filter(pl.col("set").is_null())
    assert fits.height == 4
    assert all(reason in each for each in fits["reason"])
    assert not fits["converged"].any()
    for name in ("term", "estimate", "std_error", "p_value", "df", "var_intercept"):
        assert fits[name].null_count() == 4


def test_two_means_a_task_leave_nothing_to_tell_slopes_from_noise() -> None:
    rows = [each for each in small_study() if each["rate"] in ("0", "0.6")]
    fits = fit_curves(make_averages(rows), study="s", model="m").filter(pl.col("set").is_null())
    failed = fits.filter(~pl.col("converged"))
    assert failed.select("level", "random").rows() == [("task", BOTH)]
    assert failed["reason"][0] == "12 observations of 6 tasks leave no residual"


def test_a_search_that_fails_is_a_row_with_a_reason(monkeypatch) -> None:
    monkeypatch.setattr(random_slopes, "is_maximum", lambda *_: False)
    fits = fit_curves(make_averages(small_study()), study="s", model="m")
    assert not fits["converged"].any() and fits["estimate"].null_count() == fits.height
    assert set(fits["reason"]) == {"the fit did not converge: no maximum was reached"}


def test_an_unknown_backend_or_a_missing_rate_is_an_error() -> None:
    averages = make_averages(small_study())
    with pytest.raises(ValueError, match="backend: 'lme4' is none of profile, statsmodels"):
        fit_curves(averages, study="s", model="m", backend="lme4")
    lost = make_averages([*small_study(), row("open/a", "0.9", [0.5], realised=None)])
    with pytest.raises(ValueError, match="method keyboard has rows without a realised rate"):
        fit_curves(lost, study="s", model="m")
