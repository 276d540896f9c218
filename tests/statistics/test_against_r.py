"""The fits against R: lme4, lmerTest, emmeans, clubSandwich, mvtnorm and brute force.

Values and versions are in `reference/`, with the script that made them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from llm_variability.fits.coding import code_full_factorial, list_groups
from llm_variability.fits.contrasts import list_contrasts
from llm_variability.fits.fit_table import fit_settings
from llm_variability.fits.group_statistics import summarise_groups
from llm_variability.fits.profile import RemlProfile
from llm_variability.fits.random_intercept import (
    GroupedOutcome,
    collapse_to_means,
    standardise,
)
from llm_variability.fits.text_inference import (
    Inference,
    combine_independent,
    infer_formats_fixed,
    infer_formats_random,
    simultaneous_quantile,
)
from llm_variability.fits.text_variance import correct_jackknife, jackknife_variance
from llm_variability.tables import Design, Factor

REFERENCE = Path(__file__).parent / "reference"
RACE = Factor("race", ("White", "African", "Asian", "Hispanic"), "White")
GENDER = Factor("gender", ("man", "woman"), "man")
DESIGN = Design("format", (RACE, GENDER), blocks=("biography", "essay", "poem", "story"))
CELL = ["format", "race", "gender"]
SHAPE = (4, 8)


def read_pairs(study: str) -> pl.DataFrame:
    pairs = pl.read_csv(REFERENCE / "pairs.csv")
    return pairs if study == "even" else pairs.filter(pl.col("uneven") == 1)


def read_reference(name: str) -> pl.DataFrame:
    return pl.read_csv(REFERENCE / f"{name}.csv", infer_schema_length=None)


def similarity_of(pairs: pl.DataFrame) -> pl.DataFrame:
    """A row a text, from the pairs that it stands in."""
    ends = pl.concat(
        [pairs.select(*CELL, "cosine", text=end) for end in ("first", "second")]
    ).with_columns(pl.col("text").cast(pl.Int32))
    return (
        ends.group_by(*CELL, "text", maintain_order=True)
        .agg(
            n_mates=pl.len().cast(pl.Int32),
            cosine_sum=pl.col("cosine").sum(),
            cosine_sum_squares=pl.col("cosine").pow(2).sum(),
        )
        .rename({"text": "replicate"})
        .with_columns(
            temperature=pl.lit("1.0"),
            top_p=pl.lit("1.0"),
            prompt_id=pl.concat_str(CELL, separator="/"),
            over_long=pl.lit(False),
        )
    )


def fit(study: str, backend: str = "profile") -> pl.DataFrame:
    fits = fit_settings(
        similarity_of(read_pairs(study)),
        DESIGN,
        study=study,
        model="m",
        measure="e",
        backend=backend,
    )
    assert fits["converged"].all()
    return fits


@pytest.fixture(scope="module")
def even() -> pl.DataFrame:
    return fit("even")


def beside_r(fits: pl.DataFrame, study: str, level: str) -> pl.DataFrame:
    """The rows of a level of ours, with those of R as `*_r`."""
    theirs = read_reference("mixed_models").filter(
        pl.col("study") == study, pl.col("level") == level
    )
    ours = fits.filter(pl.col("level") == level)
    assert ours["term"].to_list() == theirs["term"].to_list()
    return pl.concat([ours, theirs.rename(lambda name: f"{name}_r")], how="horizontal")


# ------------------------------------------------------------------- mixed models: lme4, lmerTest


@pytest.mark.parametrize("level", ["pairwise", "cell"])
@pytest.mark.parametrize(("backend", "tolerance"), [("profile", 1e-6), ("statsmodels", 1e-4)])
def test_a_balanced_mixed_model_is_that_of_lme4(level: str, backend: str, tolerance: float) -> None:
    both = beside_r(fit("even", backend), "even", level)
    for name in ("estimate", "outcome_mean", "outcome_sd"):
        np.testing.assert_allclose(both[name], both[f"{name}_r"], atol=1e-7)
    for name in ("std_error", "var_block", "var_residual"):
        np.testing.assert_allclose(both[name], both[f"{name}_r"], rtol=tolerance)


def test_p_values_of_pairs_are_normal_and_those_of_cells_have_the_df_of_lmertest(
    even: pl.DataFrame,
) -> None:
    pairwise, cell = (beside_r(even, "even", level) for level in ("pairwise", "cell"))
    np.testing.assert_allclose(pairwise["p_value"], pairwise["p_normal_r"], rtol=1e-5)
    effects = cell.filter(pl.col("term") != "Intercept")
    np.testing.assert_allclose(effects["df"], effects["df_r"], rtol=1e-6)
    np.testing.assert_allclose(effects["p_value"], effects["p_t_r"], rtol=1e-5)


@pytest.mark.parametrize("level", ["pairwise", "cell"])
@pytest.mark.parametrize("study", ["even", "uneven"])
def test_the_restricted_likelihood_is_that_of_lme4(study: str, level: str) -> None:
    """lme4 leaves the uncertainty of the variances out of the standard errors; so does `root`."""
    groups = summarise_groups(similarity_of(read_pairs(study)), DESIGN)
    order = {
        key: i
        for i, key in enumerate((b, *g) for b in DESIGN.blocks for g in list_groups(DESIGN.factors))
    }
    at = np.argsort([order[key] for key in groups.select(CELL).iter_rows()])
    _, coding = code_full_factorial(DESIGN.factors)
    outcome = GroupedOutcome(
        block=np.repeat(np.arange(4), 8),
        coding=np.tile(coding, (4, 1)),
        count=groups["n_pairs"].to_numpy()[at],
        mean=groups["mean_cosine"].to_numpy()[at],
        within_ss=groups["within_ss"].to_numpy()[at],
    )
    if level == "cell":
        outcome = collapse_to_means(outcome)
    profile = RemlProfile(standardise(outcome)[0])
    ratio = profile.minimise()
    point = profile.at(ratio)
    theirs = read_reference("mixed_models").filter(
        pl.col("study") == study, pl.col("level") == level
    )
    # What the profile leaves out: (n - terms) (1 + log 2 pi).
    deviance = float(point.deviance) + profile.degrees * (1 + np.log(2 * np.pi))
    assert -deviance / 2 == pytest.approx(theirs["loglik"][0], abs=1e-6)
    errors = np.sqrt(point.var_residual * (point.root**2).sum(axis=-1))
    np.testing.assert_allclose(point.estimate, theirs["estimate"], atol=1e-6)
    np.testing.assert_allclose(errors, theirs["std_error"], rtol=1e-5)
    assert ratio * float(point.var_residual) == pytest.approx(theirs["var_block"][0], rel=1e-5)
    assert float(point.var_residual) == pytest.approx(theirs["var_residual"][0], rel=1e-6)


def test_an_unbalanced_fit_adds_to_lme4_only_what_the_variances_are_uncertain_by() -> None:
    both = beside_r(fit("uneven"), "uneven", "pairwise")
    np.testing.assert_allclose(both["estimate"], both["estimate_r"], atol=1e-6)
    ratio = (both["std_error"] / both["std_error_r"]).to_numpy()
    assert (ratio > 1 - 1e-6).all() and (ratio < 1.001).all()


# ------------------------------------------------------------------------- contrasts: emmeans


def contrast_weights() -> tuple[list[tuple[str, str]], np.ndarray]:
    """Codings and terms but the intercept, in the order of contrasts.csv, and their weights."""
    theirs = read_reference("contrasts")
    keys = list(theirs.select("coding", "term").iter_rows())
    ours = {(each.coding, each.term): each.weights for each in list_contrasts(DESIGN.factors)}
    assert set(keys) == {key for key in ours if key[1] != "Intercept"}
    return keys, np.array([ours[key] for key in keys])


def group_means() -> np.ndarray:
    """(formats, groups) mean cosines, groups as the design crosses them."""
    cells = read_reference("cells")
    values = dict(zip(cells.select(CELL).iter_rows(), cells["mean"], strict=True))
    return np.array(
        [
            [values[(block, *group)] for group in list_groups(DESIGN.factors)]
            for block in DESIGN.blocks
        ]
    )


def test_contrasts_are_those_of_emmeans() -> None:
    _, weights = contrast_weights()
    estimates = group_means().mean(axis=0) @ weights.T
    np.testing.assert_allclose(estimates, read_reference("contrasts")["estimate"], atol=1e-9)


def test_standard_errors_and_intervals_of_the_cell_model_are_those_of_emmeans(
    even: pl.DataFrame,
) -> None:
    keys, weights = contrast_weights()
    theirs = read_reference("contrasts")
    variance = even.filter(pl.col("level") == "cell").select(
        pl.col("var_residual") * pl.col("outcome_sd") ** 2
    )[0, 0]
    covariance = variance * weights @ weights.T / 4
    inference = Inference(theirs["estimate"].to_numpy(), covariance, np.full(len(keys), 21.0))
    np.testing.assert_allclose(inference.std_error, theirs["std_error"], rtol=1e-6)
    np.testing.assert_allclose(inference.df, theirs["df"], rtol=1e-6)
    np.testing.assert_allclose(inference.p_value, theirs["p_value"], rtol=1e-5)
    np.testing.assert_allclose(inference.estimate - inference.margin, theirs["low"], atol=1e-6)


@pytest.mark.parametrize("coding", ["treatment", "marginal", "interaction"])
def test_simultaneous_intervals_are_the_mvt_of_emmeans(coding: str) -> None:
    keys, weights = contrast_weights()
    members = [i for i, key in enumerate(keys) if key[0] == coding]
    theirs = read_reference("contrasts")[members]
    chosen = weights[members]
    quantile = simultaneous_quantile(
        Inference(np.zeros(len(members)), chosen @ chosen.T, np.full(len(members), 21.0))
    )
    assert quantile == pytest.approx(theirs["quantile"][0], rel=0.01)
    # emmeans integrates to 1e-3 only, which moves its intervals by up to 1%.
    half = (theirs["emmeans_high"] - theirs["emmeans_low"]) / 2
    np.testing.assert_allclose(quantile * theirs["std_error"], half, rtol=0.015)


def correlation_of(name: str) -> np.ndarray:
    if name == "treatment":
        keys, weights = contrast_weights()
        chosen = weights[[i for i, key in enumerate(keys) if key[0] == "treatment"]]
        error = np.sqrt((chosen**2).sum(axis=1))
        return chosen @ chosen.T / np.outer(error, error)
    size, rho = {"independent": (5, 0.0), "half": (3, 0.5), "high": (6, 0.9)}[name]
    return np.full((size, size), rho) + np.eye(size) * (1 - rho)


@pytest.mark.parametrize("row", read_reference("quantiles").to_dicts(), ids=str)
def test_simultaneous_quantile_is_that_of_mvtnorm(row: dict) -> None:
    correlation = correlation_of(row["name"])
    df = np.full(len(correlation), row["df"] or np.inf, dtype=float)
    ours = simultaneous_quantile(Inference(np.zeros(len(correlation)), correlation, df))
    assert ours == pytest.approx(row["quantile"], rel=0.01)


# ------------------------------------------------------- level text: clubSandwich, brute force


@pytest.mark.parametrize("kind", ["cr1", "cr2"])
def test_formats_random_is_the_cluster_robust_test_of_clubsandwich(kind: str) -> None:
    keys, weights = contrast_weights()
    theirs = read_reference("contrasts")
    means = group_means()
    none = combine_independent(np.ones(SHAPE), np.full(SHAPE, 8))
    inference = infer_formats_random(means, none, weights)
    np.testing.assert_allclose(inference.std_error, theirs[f"{kind}_error"], rtol=1e-9)
    np.testing.assert_allclose(inference.p_value, theirs[f"{kind}_p"], rtol=1e-9)
    np.testing.assert_allclose(inference.df, theirs["cr2_df"], rtol=1e-9)


def test_variances_of_means_are_those_of_deletion_and_of_pairs_without_a_common_text() -> None:
    similarity = similarity_of(read_pairs("even"))
    groups = summarise_groups(similarity, DESIGN)
    sums = np.array(
        [
            similarity.filter(
                *(pl.col(name) == value for name, value in zip(CELL, key, strict=True))
            )["cosine_sum"].to_numpy()
            for key in groups.select(CELL).iter_rows()
        ]
    )
    cells = groups.select(CELL).join(read_reference("cells"), on=CELL, maintain_order="left")
    jackknife = jackknife_variance(sums)
    np.testing.assert_allclose(jackknife, cells["jackknife"], rtol=1e-7)
    corrected = correct_jackknife(jackknife, groups["within_ss"].to_numpy(), np.array(8))
    taken = cells.select(pl.max_horizontal("unbiased", "least")).to_series()
    np.testing.assert_allclose(corrected, taken, rtol=1e-6)
    assert 0 < (cells["unbiased"] < cells["least"]).sum() < cells.height / 2


def test_formats_fixed_has_the_standard_errors_and_df_of_brute_force() -> None:
    keys, weights = contrast_weights()
    theirs = read_reference("contrasts")
    cells = read_reference("cells")
    taken = cells.select(pl.max_horizontal("unbiased", "least")).to_series()
    values = dict(zip(cells.select(CELL).iter_rows(), taken, strict=True))
    variance = np.array(
        [
            [values[(block, *group)] for group in list_groups(DESIGN.factors)]
            for block in DESIGN.blocks
        ]
    )
    groups = combine_independent(variance, np.full(SHAPE, 8))
    inference = infer_formats_fixed(group_means(), groups, weights)
    np.testing.assert_allclose(inference.std_error, theirs["fixed_error"], rtol=1e-9)
    np.testing.assert_allclose(inference.df, theirs["fixed_df"], rtol=1e-9)


@pytest.mark.parametrize(
    ("scope", "error"), [("formats fixed", "fixed_error"), ("formats random", "cr1_error")]
)
def test_the_fits_table_holds_these_numbers(even: pl.DataFrame, scope: str, error: str) -> None:
    theirs = read_reference("contrasts")
    ours = even.filter(pl.col("scope") == scope, pl.col("term") != "Intercept")
    both = theirs.join(ours, on=["coding", "term"], suffix="_ours", validate="1:1")
    assert both.height == theirs.height == ours.height
    np.testing.assert_allclose(
        both["estimate_ours"] * both["outcome_sd"], both["estimate"], atol=1e-8
    )
    np.testing.assert_allclose(both["std_error_ours"] * both["outcome_sd"], both[error], rtol=1e-6)
