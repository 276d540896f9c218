"""From a similarity table to a fits table, and every reason for there being no fit."""

import subprocess
import sys
import warnings
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.formula.api as smf

from llm_variability.fits import VERSION
from llm_variability.fits.fit_table import GREEDY_REASON, fit_settings
from llm_variability.fits.group_statistics import summarise_groups
from llm_variability.tables import (
    FITS,
    SIMILARITY,
    Design,
    Factor,
    read_metadata,
    read_table,
    write_table,
)

BLOCKS = ("story", "essay", "poem")
DESIGN = Design(
    block="format",
    factors=(
        Factor("race", ("White", "Asian"), "White"),
        Factor("gender", ("man", "woman"), "man"),
    ),
    blocks=BLOCKS,
)
GROUPS = [(b, *g) for b in BLOCKS for g in product(("White", "Asian"), ("man", "woman"))]
ROWS = 4 + 4 + 2 * (4 + 2 + 1)
"""Of a setting: the terms of the mixed models, and two scopes of published, marginal, crossed."""
LABELS = {"study": "labels", "model": "tiny", "measure": "mini"}


def draw_vectors(seed: int, sizes: dict[tuple[str, ...], int] | None = None) -> dict:
    """Unit vectors for each block x group; blocks and groups differ in their direction."""
    rng = np.random.default_rng(seed)
    axis = {name: rng.normal(size=8) for key in GROUPS for name in (key[0], key[1:])}
    vectors = {}
    for key in GROUPS:
        n = (sizes or {}).get(key, 6)
        drawn = 1.2 * axis[key[0]] + 0.5 * axis[key[1:]] + rng.normal(size=(n, 8))
        vectors[key] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return vectors


def similarity_rows(vectors: dict, temperature: str = "0.5", top_p: str | None = "0.9") -> list:
    rows = []
    for key, unit in vectors.items():
        cosines = unit @ unit.T
        for i in range(len(unit)):
            others = np.delete(cosines[i], i)
            rows.append(
                {
                    **dict(zip(DESIGN.columns, key, strict=True)),
                    "temperature": temperature,
                    "top_p": top_p,
                    "prompt_id": "-".join(key),
                    "replicate": i,
                    "n_mates": len(others),
                    "cosine_sum": float(others.sum()),
                    "cosine_sum_squares": float((others**2).sum()),
                    "over_long": False,
                }
            )
    return rows


def similarity_table(rows: list) -> pl.DataFrame:
    types = {name: column.dtype for name, column in SIMILARITY.columns.items()}
    return pl.DataFrame(rows, schema={**dict.fromkeys(DESIGN.columns, pl.String), **types})


def pair_rows(vectors: dict) -> pd.DataFrame:
    return pd.DataFrame(
        [
            (*key, first @ second)
            for key, unit in vectors.items()
            for first, second in combinations(unit, 2)
        ],
        columns=[*DESIGN.columns, "cosine"],
    )


def fit_formula(frame: pd.DataFrame):
    frame = frame.assign(z=(frame["cosine"] - frame["cosine"].mean()) / frame["cosine"].std())
    formula = 'z ~ C(race, Treatment("White")) * C(gender, Treatment("man"))'
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = smf.mixedlm(formula, frame, groups=frame["format"]).fit(
            reml=True, method="powell", ftol=1e-14, maxiter=1000
        )
    assert fit.converged
    return fit


UNEVEN = {("story", "Asian", "man"): 3, ("poem", "White", "woman"): 9, ("essay", "Asian", "man"): 2}


def test_group_statistics_are_those_of_the_explicit_pairs() -> None:
    vectors = draw_vectors(1, UNEVEN)
    groups = summarise_groups(similarity_table(similarity_rows(vectors)), DESIGN)
    expected = pair_rows(vectors).groupby(DESIGN.columns, sort=False)["cosine"]
    assert groups["n_texts"].to_list() == [len(vectors[key]) for key in GROUPS]
    for row in groups.iter_rows(named=True):
        pairs = expected.get_group(tuple(row[name] for name in DESIGN.columns))
        assert row["n_pairs"] == len(pairs)
        assert row["mean_cosine"] == pytest.approx(pairs.mean(), rel=1e-12)
        assert row["within_ss"] == pytest.approx(((pairs - pairs.mean()) ** 2).sum(), rel=1e-9)


@pytest.mark.parametrize("backend", ["profile", "statsmodels"])
@pytest.mark.parametrize("level", ["pairwise", "cell"])
def test_estimates_are_those_of_the_published_formula_in_statsmodels(
    backend: str, level: str
) -> None:
    vectors = draw_vectors(4, UNEVEN)
    pairs = pair_rows(vectors)
    observed = pairs
    if level == "cell":
        observed = pairs.groupby(DESIGN.columns, as_index=False)["cosine"].mean()
    reference = fit_formula(observed)

    fits = fit_settings(
        similarity_table(similarity_rows(vectors)), DESIGN, backend=backend, **LABELS
    ).filter(pl.col("level") == level)

    assert fits["term"].to_list() == [
        "Intercept",
        "race[Asian]",
        "gender[woman]",
        "race[Asian]:gender[woman]",
    ]
    n = len(reference.fe_params)
    np.testing.assert_allclose(fits["estimate"], reference.fe_params, atol=1e-6)
    np.testing.assert_allclose(fits["std_error"], reference.bse_fe, rtol=1e-4)
    if level == "pairwise":
        interval = reference.conf_int()
        np.testing.assert_allclose(fits["ci_low"], interval[0][:n], atol=1e-4)
        np.testing.assert_allclose(fits["ci_high"], interval[1][:n], atol=1e-4)
        np.testing.assert_allclose(fits["p_value"], reference.pvalues[:n], rtol=1e-2, atol=1e-12)
    np.testing.assert_allclose(fits["var_block"], reference.cov_re.iloc[0, 0], rtol=1e-4)
    np.testing.assert_allclose(fits["var_residual"], reference.scale, rtol=1e-4)
    np.testing.assert_allclose(fits["outcome_mean"], observed["cosine"].mean(), rtol=1e-12)
    np.testing.assert_allclose(fits["outcome_sd"], observed["cosine"].std(), rtol=1e-9)
    assert set(fits["n_observations"]) == {len(observed)}
    assert set(fits["n_blocks"]) == {3}
    assert set(fits["df"]) == {None if level == "pairwise" else (3 - 1) * (4 - 1)}
    assert fits["reason"].null_count() == len(fits)
    assert fits["converged"].all()


def test_cell_contrasts_have_the_exact_t_tests_of_a_blocked_analysis_of_variance() -> None:
    """Complete blocks: with a variance of blocks above zero, both analyses are the same."""
    vectors = draw_vectors(4, UNEVEN)
    means = pair_rows(vectors).groupby(DESIGN.columns, as_index=False)["cosine"].mean()
    means["z"] = (means["cosine"] - means["cosine"].mean()) / means["cosine"].std()
    blocked = smf.ols(
        "z ~ C(format) + C(race, Treatment('White')) * C(gender, Treatment('man'))", means
    ).fit()
    fits = fit_settings(similarity_table(similarity_rows(vectors)), DESIGN, **LABELS)
    cell = fits.filter((pl.col("level") == "cell") & (pl.col("term") != "Intercept"))
    effects = [name for name in blocked.params.index if "race" in name or "gender" in name]
    assert cell["var_block"][0] > 0
    interval = blocked.conf_int().loc[effects]
    np.testing.assert_allclose(cell["estimate"], blocked.params[effects], atol=1e-9)
    np.testing.assert_allclose(cell["p_value"], blocked.pvalues[effects], rtol=1e-5)
    np.testing.assert_allclose(cell["ci_low"], interval[0], atol=1e-5)
    np.testing.assert_allclose(cell["ci_high"], interval[1], atol=1e-5)
    assert set(cell["df"]) == {blocked.df_resid}


def test_cell_estimates_times_the_sd_are_differences_of_raw_group_means() -> None:
    """Complete blocks: the effects are differences of means, whatever the variances."""
    vectors = draw_vectors(3)
    fits = fit_settings(similarity_table(similarity_rows(vectors)), DESIGN, **LABELS)
    cell = fits.filter(pl.col("level") == "cell")
    raw = dict(zip(cell["term"], cell["estimate"] * cell["outcome_sd"], strict=True))
    means = pair_rows(vectors).groupby(["race", "gender"])["cosine"].mean()
    base = means["White", "man"]
    assert raw["Intercept"] + cell["outcome_mean"][0] == pytest.approx(base)
    assert raw["race[Asian]"] == pytest.approx(means["Asian", "man"] - base)
    assert raw["gender[woman]"] == pytest.approx(means["White", "woman"] - base)


def test_constant_added_to_all_cosines_changes_the_outcome_mean_only() -> None:
    vectors = draw_vectors(4, UNEVEN)
    table = similarity_table(similarity_rows(vectors))
    moved = table.with_columns(
        cosine_sum=pl.col("cosine_sum") + 0.25 * pl.col("n_mates"),
        cosine_sum_squares=pl.col("cosine_sum_squares")
        + 0.5 * pl.col("cosine_sum")
        + 0.0625 * pl.col("n_mates"),
    )
    before, after = (fit_settings(each, DESIGN, **LABELS) for each in (table, moved))
    np.testing.assert_allclose(after["outcome_mean"], before["outcome_mean"] + 0.25, rtol=1e-9)
    for column in ("estimate", "std_error", "var_residual", "outcome_sd"):
        np.testing.assert_allclose(after[column], before[column], atol=1e-9)


def test_settings_do_not_touch_each_other_and_come_in_ascending_order() -> None:
    rows = {
        ("1.0", "0.9"): similarity_rows(draw_vectors(5), "1.0", "0.9"),
        ("0.5", "0.9"): similarity_rows(draw_vectors(6), "0.5", "0.9"),
        ("0.5", "0.2"): similarity_rows(draw_vectors(7), "0.5", "0.2"),
    }
    together = fit_settings(similarity_table(sum(rows.values(), [])), DESIGN, **LABELS)
    alone = [
        fit_settings(similarity_table(rows[setting]), DESIGN, **LABELS)
        for setting in [("0.5", "0.2"), ("0.5", "0.9"), ("1.0", "0.9")]
    ]
    assert together.equals(pl.concat(alone))


def test_greedy_setting_is_an_anchor_and_not_fitted() -> None:
    rows = similarity_rows(draw_vectors(8), "0", None)
    fits = fit_settings(similarity_table(rows), DESIGN, **LABELS)
    assert fits["level"].to_list() == ["pairwise", "cell", "text", "text"]
    assert fits["reason"].to_list() == [GREEDY_REASON] * 4
    assert fits["top_p"].to_list() == [None] * 4
    assert fits["n_observations"].to_list() == [12 * 15, 12, 12 * 6, 12 * 6]


def test_greedy_setting_is_fitted_where_the_design_says_so() -> None:
    design = Design(DESIGN.block, DESIGN.factors, greedy_is_anchor=False, blocks=BLOCKS)
    rows = similarity_rows(draw_vectors(8), "0", None)
    fits = fit_settings(similarity_table(rows), design, **LABELS)
    assert fits["converged"].all()
    assert fits.height == ROWS


def without(vectors: dict, *names: str) -> dict:
    return {key: unit for key, unit in vectors.items() if not set(names) & set(key)}


def equal_vectors(vectors: dict) -> dict:
    first = next(iter(vectors.values()))[0]
    rng = np.random.default_rng(1)
    return {
        key: np.repeat(first[None], 5, axis=0) * (1 + 1e-8 * rng.normal(size=(5, 1)))
        for key in vectors
    }


UNFITTABLE = {
    "a group with one text": (
        draw_vectors(9, {("essay", "Asian", "man"): 1}),
        r"fewer than (two|four) texts in essay / Asian / man \(1\)$",
    ),
    "a group without texts": (
        draw_vectors(9, {("essay", "Asian", "man"): 0, ("poem", "White", "man"): 1}),
        r"essay / Asian / man \(0\), poem / White / man \(1\)$",
    ),
    "a format without texts": (
        without(draw_vectors(9), "essay"),
        r"essay / White / man \(0\), .* and 1 more$",
    ),
    "a level without texts": (
        without(draw_vectors(9), "woman"),
        "no text was measured for gender woman$",
    ),
    "equal texts": (equal_vectors(draw_vectors(9)), "no variance: all cosines are equal$"),
    "a cosine that is no number": (
        draw_vectors(9) | {GROUPS[3]: np.full((4, 8), np.nan)},
        "a cosine is not finite$",
    ),
}


@pytest.mark.parametrize("backend", ["profile", "statsmodels"])
@pytest.mark.parametrize(("vectors", "reason"), UNFITTABLE.values(), ids=UNFITTABLE)
def test_fit_that_cannot_be_made_is_a_row_that_says_why(
    vectors: dict, reason: str, backend: str
) -> None:
    table = similarity_table(similarity_rows(vectors))
    fits = fit_settings(table, DESIGN, backend=backend, **LABELS)
    assert fits["level"].to_list() == ["pairwise", "cell", "text", "text"]
    assert fits["converged"].to_list() == [False] * 4
    for column in ("term", "estimate", "std_error", "p_value", "ci_low", "ci_high", "var_block"):
        assert fits[column].null_count() == 4
    assert fits["reason"].str.contains(reason).all(), fits["reason"].to_list()


def test_level_text_counts_every_group_that_it_cannot_use() -> None:
    sizes = {("essay", "Asian", "man"): 1, ("poem", "White", "man"): 3}
    table = similarity_table(similarity_rows(draw_vectors(9, sizes)))
    fits = fit_settings(table, DESIGN, **LABELS)
    told = dict(fits.select("level", "reason").iter_rows())
    assert told["cell"] == "fewer than two texts in essay / Asian / man (1)"
    assert told["text"] == (
        "fewer than four texts in essay / Asian / man (1), poem / White / man (3)"
    )


def test_single_format_is_a_row_that_says_why() -> None:
    design = Design(DESIGN.block, DESIGN.factors, blocks=("story",))
    table = similarity_table(similarity_rows(without(draw_vectors(9), "essay", "poem")))
    fits = fit_settings(table, design, **LABELS)
    failed = fits.filter(~pl.col("converged"))
    assert failed.select("level", "scope", "reason").rows() == [
        ("pairwise", None, "only one format: its random intercept needs at least two"),
        ("cell", None, "only one format: its random intercept needs at least two"),
        ("text", "formats random", "only one format: a sample of them needs at least two"),
    ]
    assert fits.filter(pl.col("scope") == "formats fixed")["converged"].to_list() == [True] * 7


def test_pairs_of_equal_texts_within_formats_leave_the_pairwise_fit_without_residual() -> None:
    """Every pair of a format has the same cosine: no spread inside, however the formats differ."""
    rows = []
    for key in GROUPS:
        cosine = 0.3 + 0.2 * BLOCKS.index(key[0])
        for row in similarity_rows({key: draw_vectors(9)[key]}):
            rows.append(row | {"cosine_sum": 5 * cosine, "cosine_sum_squares": 5 * cosine**2})
    fits = fit_settings(similarity_table(rows), DESIGN, **LABELS)
    mixed = "no variance within blocks beyond the fixed effects"
    texts = "no variance: in every group all texts are equally typical"
    assert fits.filter(pl.col("level") != "text")["reason"].to_list() == [mixed] * 2
    fixed = fits.filter(pl.col("scope") == "formats fixed")
    assert fixed["reason"].to_list() == [texts]


def test_fit_that_does_not_converge_is_a_row_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("llm_variability.fits.profile._SLOPE_TOLERANCE", -1.0)
    fits = fit_settings(similarity_table(similarity_rows(draw_vectors(9))), DESIGN, **LABELS)
    mixed = fits.filter(pl.col("level") != "text")
    assert mixed["reason"].str.starts_with("no convergence").all()
    assert mixed["estimate"].null_count() == mixed.height == 2


def test_unfittable_setting_leaves_the_others_alone() -> None:
    broken = similarity_rows(without(draw_vectors(9), "woman"), "0.5", "0.2")
    whole = similarity_rows(draw_vectors(9), "0.5", "0.9")
    fits = fit_settings(similarity_table(broken + whole), DESIGN, **LABELS)
    assert fits.filter(pl.col("top_p") == "0.2").height == 4
    assert fits.filter(pl.col("top_p") == "0.9", pl.col("converged")).height == ROWS


def test_setting_without_any_text_still_has_its_rows() -> None:
    table = similarity_table(similarity_rows(draw_vectors(9)))
    fits = fit_settings(table, DESIGN, settings=[("0", None), ("2.0", "0.9")], **LABELS)
    assert (
        fits.filter(pl.col("temperature") == "2.0")["reason"].to_list()
        == ["no text was measured"] * 4
    )
    assert fits.filter(pl.col("temperature") == "0")["reason"].to_list() == [GREEDY_REASON] * 4


def test_level_outside_the_design_is_refused() -> None:
    table = similarity_table(similarity_rows(draw_vectors(9)))
    table = table.with_columns(race=pl.col("race").replace("Asian", "Martian"))
    with pytest.raises(ValueError, match="race: 'Martian' is no level of the design"):
        fit_settings(table, DESIGN, **LABELS)


def test_similarity_table_that_contradicts_itself_is_refused() -> None:
    table = similarity_table(similarity_rows(draw_vectors(9))[1:])
    with pytest.raises(ValueError, match="5 texts, but n_mates from 5 to 5"):
        fit_settings(table, DESIGN, **LABELS)


def test_unknown_backend_is_refused() -> None:
    table = similarity_table(similarity_rows(draw_vectors(9)))
    with pytest.raises(ValueError, match="'lme4' is none of profile, statsmodels"):
        fit_settings(table, DESIGN, backend="lme4", **LABELS)


def run_stage(tmp_path: Path, *options: str) -> subprocess.CompletedProcess:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "llm_variability.fits", "--log", str(tmp_path / "log.txt")]
    command += ["fit", "--study", "labels", "--model", "tiny", "--measure", "mini"]
    command += ["--similarity", str(tmp_path / "in.parquet")]
    command += ["--output", str(tmp_path / "out.parquet"), *options]
    return subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": str(root / "workflow")}
    )


@pytest.mark.parametrize("backend", ["profile", "statsmodels"])
def test_command_writes_a_fits_table_that_says_what_made_it(tmp_path: Path, backend: str) -> None:
    rows = similarity_rows(draw_vectors(9)) + similarity_rows(draw_vectors(9), "0", None)
    metadata = {"design": DESIGN.to_json(), "encoder_revision": "abc"}
    write_table(similarity_table(rows), tmp_path / "in.parquet", SIMILARITY, metadata)

    done = run_stage(tmp_path, "--backend", backend, "--cells", "T0", "T0.5-P0.9", "T2.0-P0.9")

    assert done.returncode == 0, done.stderr
    fits = read_table(tmp_path / "out.parquet", FITS)
    assert fits.height == ROWS + 4 + 4
    made_by = read_metadata(tmp_path / "out.parquet")
    assert made_by["table"] == "fits"
    assert made_by["fits_version"] == VERSION
    assert made_by["backend"] == backend
    assert made_by["encoder_revision"] == "abc"
    assert Design.from_json(made_by["design"]) == DESIGN
    assert (
        "temperature 2.0, top-p 0.9, main, cell: no estimate: no text was measured" in done.stderr
    )
    assert (tmp_path / "log.txt").read_text() in done.stderr


def test_command_ends_in_one_line_where_the_table_is_another(tmp_path: Path) -> None:
    fits = fit_settings(similarity_table([]), DESIGN, **LABELS)
    write_table(fits, tmp_path / "in.parquet", FITS, {"design": DESIGN.to_json()})
    done = run_stage(tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "is a fits table, not similarity" in done.stderr
    assert not (tmp_path / "out.parquet").exists()
