"""The text level of a fits table against texts and names deleted by hand."""

from itertools import combinations, product

import numpy as np
import polars as pl
import pytest

from llm_variability.fits.fit_table import fit_settings
from llm_variability.tables import SIMILARITY, Design, Factor

BLOCKS = ("story", "essay", "poem")
RACES, GENDERS = ("White", "Asian"), ("man", "woman")
LABELS = Design(
    "format",
    (Factor("race", RACES, "White"), Factor("gender", GENDERS, "man")),
    blocks=BLOCKS,
)
NAMES = Design(
    "format",
    (Factor("group", ("White", "Black", "Asian"), "White"),),
    greedy_is_anchor=False,
    blocks=BLOCKS,
    unit="name",
)
LABEL_KEYS = [(b, *g) for b in BLOCKS for g in product(RACES, GENDERS)]
NAME_KEYS = list(product(BLOCKS, NAMES.factors[0].levels))


def draw_vectors(seed: int, keys: list, sizes: dict | None = None) -> dict:
    """Unit vectors of each block x group: shared directions, texts of unequal typicality."""
    rng = np.random.default_rng(seed)
    axis = {name: rng.normal(size=8) for key in keys for name in (key[0], key[1:])}
    vectors = {}
    for key in keys:
        n = (sizes or {}).get(key, 6)
        drawn = 1.2 * axis[key[0]] + 0.5 * axis[key[1:]]
        drawn = drawn + rng.gamma(2, 0.4, size=(n, 1)) * rng.normal(size=(n, 8))
        vectors[key] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return vectors


def similarity_table(vectors: dict, design: Design, names: dict | None = None) -> pl.DataFrame:
    """A row a text. names: each block x group's names, for a study of names."""
    rows = []
    for key, unit in vectors.items():
        cosines = unit @ unit.T
        for i in range(len(unit)):
            others = np.delete(cosines[i], i)
            own = {} if names is None else {"name": names[key][i]}
            rows.append(
                dict(zip(design.group, key, strict=True))
                | own
                | {
                    "temperature": "0.5",
                    "top_p": "0.9",
                    "prompt_id": "-".join(key),
                    "replicate": i,
                    "n_mates": len(others),
                    "cosine_sum": float(others.sum()),
                    "cosine_sum_squares": float((others**2).sum()),
                    "over_long": False,
                }
            )
    types = {name: column.dtype for name, column in SIMILARITY.columns.items()}
    return pl.DataFrame(rows, schema={**dict.fromkeys(design.columns, pl.String), **types})


def fit(table: pl.DataFrame, design: Design) -> pl.DataFrame:
    return fit_settings(table, design, study="s", model="m", measure="e")


def at_level(fits: pl.DataFrame, scope: str, coding: str) -> dict[str, dict]:
    rows = fits.filter(pl.col("scope") == scope, pl.col("coding") == coding)
    return {row["term"]: row for row in rows.iter_rows(named=True)}


def mean_cosine(vectors: np.ndarray) -> float:
    return float(np.mean([a @ b for a, b in combinations(vectors, 2)]))


def average(vectors: dict, group: tuple) -> float:
    return float(np.mean([mean_cosine(vectors[block, *group]) for block in BLOCKS]))


UNEVEN = {("story", "Asian", "man"): 5, ("poem", "White", "woman"): 9, ("essay", "Asian", "man"): 4}

CONTRASTS = {
    ("treatment", "race[Asian]"): {("Asian", "man"): 1, ("White", "man"): -1},
    ("treatment", "gender[woman]"): {("White", "woman"): 1, ("White", "man"): -1},
    ("treatment", "race[Asian]:gender[woman]"): {
        ("Asian", "woman"): 1,
        ("Asian", "man"): -1,
        ("White", "woman"): -1,
        ("White", "man"): 1,
    },
    ("marginal", "race[Asian]"): {
        ("Asian", "man"): 0.5,
        ("Asian", "woman"): 0.5,
        ("White", "man"): -0.5,
        ("White", "woman"): -0.5,
    },
    ("interaction", "race[Asian]:gender[woman]"): {
        ("Asian", "woman"): 1,
        ("Asian", "man"): -1,
        ("White", "woman"): -1,
        ("White", "man"): 1,
    },
}


def deletion_variance(vectors: np.ndarray) -> float:
    """The jackknife of the mean cosine by deletion, with nothing taken off."""
    n = len(vectors)
    deleted = np.array([mean_cosine(np.delete(vectors, i, axis=0)) for i in range(n)])
    return float((n - 1) / n * ((deleted - deleted.mean()) ** 2).sum())


def unbiased_variance(vectors: np.ndarray) -> float:
    """From products of disjoint pairs; or that of independent pairs, if it is more."""
    pairs = {
        pair: vectors[pair[0]] @ vectors[pair[1]] for pair in combinations(range(len(vectors)), 2)
    }
    values = np.array(list(pairs.values()))
    disjoint = [a * b for (d, a), (e, b) in product(pairs.items(), repeat=2) if not set(d) & set(e)]
    return float(max(values.mean() ** 2 - np.mean(disjoint), values.var(ddof=1) / len(values)))


@pytest.mark.parametrize("contrast", CONTRASTS, ids=" ".join)
def test_fixed_formats_add_up_the_unbiased_variances_of_the_groups(contrast: tuple) -> None:
    vectors = draw_vectors(1, LABEL_KEYS, UNEVEN)
    weights = CONTRASTS[contrast]
    estimate = sum(weight * average(vectors, group) for group, weight in weights.items())
    variance = sum(
        weight**2 * unbiased_variance(vectors[block, *group]) / len(BLOCKS) ** 2
        for group, weight in weights.items()
        for block in BLOCKS
    )
    row = at_level(fit(similarity_table(vectors, LABELS), LABELS), "formats fixed", contrast[0])[
        contrast[1]
    ]
    assert row["estimate"] * row["outcome_sd"] == pytest.approx(estimate, abs=1e-12)
    assert row["std_error"] * row["outcome_sd"] == pytest.approx(np.sqrt(variance), rel=1e-7)


@pytest.mark.parametrize("missing", [False, True])
def test_names_are_deleted_from_all_formats_at_once(missing: bool) -> None:
    """Eight names a group in three formats; where some are missing a format goes on without."""
    sizes = {("essay", "Black"): 6, ("poem", "White"): 7} if missing else {}
    vectors = draw_vectors(2, NAME_KEYS, dict.fromkeys(NAME_KEYS, 8) | sizes)
    rng = np.random.default_rng(3)
    names = {
        key: [f"{key[1]} {i}" for i in rng.permutation(8)[: len(vectors[key])]] for key in NAME_KEYS
    }

    def mean_without(name: str, key: tuple) -> float:
        return mean_cosine(vectors[key][[each != name for each in names[key]]])

    variance = 0.0
    for group in ("White", "Black"):
        keys = [(block, group) for block in BLOCKS]
        deleted = np.array([[mean_without(f"{group} {i}", key) for key in keys] for i in range(8)])
        shift = deleted - [mean_cosine(vectors[key]) for key in keys]
        factor = np.sqrt(
            [unbiased_variance(vectors[key]) / deletion_variance(vectors[key]) for key in keys]
        )
        variance += 7 / 8 * ((shift @ factor / len(BLOCKS)) ** 2).sum()

    fits = fit(similarity_table(vectors, NAMES, names), NAMES)
    row = at_level(fits, "formats fixed", "treatment")["group[Black]"]
    expected = average(vectors, ("Black",)) - average(vectors, ("White",))
    assert row["estimate"] * row["outcome_sd"] == pytest.approx(expected, abs=1e-12)
    assert row["std_error"] * row["outcome_sd"] == pytest.approx(np.sqrt(variance), rel=1e-7)
    assert 7 <= row["df"] <= 14


def test_names_that_keep_their_typicality_widen_the_interval_for_a_sample_of_formats() -> None:
    base = draw_vectors(4, [("story", group) for group in NAMES.factors[0].levels])
    rng = np.random.default_rng(5)
    vectors, names = {}, {}
    for block, group in NAME_KEYS:
        near = base["story", group] + 0.05 * rng.normal(size=(6, 8))
        vectors[block, group] = near / np.linalg.norm(near, axis=1, keepdims=True)
        names[block, group] = [f"{group} {i}" for i in range(6)]
    together = fit(similarity_table(vectors, NAMES, names), NAMES)
    apart = Design(NAMES.block, NAMES.factors, greedy_is_anchor=False, blocks=BLOCKS)
    texts = fit(similarity_table(vectors, NAMES, names).drop("name"), apart)
    for scope in ("formats fixed", "formats random"):
        joint, alone = (at_level(each, scope, "treatment") for each in (together, texts))
        for term in ("group[Black]", "group[Asian]"):
            assert joint[term]["estimate"] == pytest.approx(alone[term]["estimate"])
            assert joint[term]["std_error"] > 1.3 * alone[term]["std_error"]


def test_published_contrasts_have_the_pairwise_estimates_where_sizes_are_equal() -> None:
    fits = fit(similarity_table(draw_vectors(6, LABEL_KEYS), LABELS), LABELS)
    pairwise = fits.filter(pl.col("level") == "pairwise")
    for scope in ("formats fixed", "formats random"):
        rows = at_level(fits, scope, "treatment")
        assert list(rows) == pairwise["term"].to_list()
        estimates = [row["estimate"] for row in rows.values()]
        np.testing.assert_allclose(estimates, pairwise["estimate"], atol=1e-9)


def test_hundreds_of_texts_have_the_jackknife_of_their_numbers() -> None:
    """At 700 texts the correction is far below a percent, and products of counts are large."""
    vectors = draw_vectors(11, LABEL_KEYS, dict.fromkeys(LABEL_KEYS, 700))
    variance = 0.0
    for key in LABEL_KEYS:
        if key[1:] in (("Asian", "man"), ("White", "man")):
            mates = ((vectors[key] @ vectors[key].T).sum(axis=1) - 1) / 699
            variance += 4 * mates.var(ddof=1) / 700 / 9
    rows = at_level(fit(similarity_table(vectors, LABELS), LABELS), "formats fixed", "treatment")
    found = rows["race[Asian]"]["std_error"] * rows["race[Asian]"]["outcome_sd"]
    assert found == pytest.approx(np.sqrt(variance), rel=0.005)


def test_rows_name_their_scope_coding_and_estimator() -> None:
    fits = fit(similarity_table(draw_vectors(6, LABEL_KEYS), LABELS), LABELS)
    text = fits.filter(pl.col("level") == "text")
    terms = [("treatment", 4), ("marginal", 2), ("interaction", 1)]
    assert text.select("scope", "coding", "backend").rows() == [
        (scope, coding, estimator)
        for scope, estimator in (
            ("formats fixed", "jackknife"),
            ("formats random", "format-clustered"),
        )
        for coding, count in terms
        for _ in range(count)
    ]
    assert set(text["n_observations"]) == {12 * 6}
    mixed = fits.filter(pl.col("level") != "text")
    assert mixed["scope"].null_count() == mixed["simultaneous_low"].null_count() == 8
    assert set(mixed["coding"]) == {"treatment"}


def test_simultaneous_intervals_hold_the_contrasts_own_and_leave_the_intercept_out() -> None:
    fits = fit(similarity_table(draw_vectors(6, LABEL_KEYS), LABELS), LABELS)
    text = fits.filter(pl.col("level") == "text")
    intercept = text.filter(pl.col("term") == "Intercept")
    assert intercept["simultaneous_low"].null_count() == intercept.height == 2
    for row in text.filter(pl.col("term") != "Intercept").iter_rows(named=True):
        own, joint = (
            row["ci_high"] - row["ci_low"],
            (row["simultaneous_high"] - row["simultaneous_low"]),
        )
        assert joint == pytest.approx(own) if row["coding"] == "interaction" else joint > own
        assert row["simultaneous_high"] + row["simultaneous_low"] == pytest.approx(
            2 * row["estimate"]
        )


def test_simultaneous_interval_of_a_single_effect_is_its_own() -> None:
    """Two groups: the intercept, which nobody tests, does not widen it."""
    design = Design("format", (Factor("race", RACES, "White"),), blocks=BLOCKS)
    vectors = draw_vectors(6, list(product(BLOCKS, RACES)))
    text = fit(similarity_table(vectors, design), design).filter(
        pl.col("level") == "text", pl.col("term") == "race[Asian]"
    )
    assert text.height == 4
    for end in ("low", "high"):
        np.testing.assert_allclose(text[f"simultaneous_{end}"], text[f"ci_{end}"], rtol=1e-12)


def test_order_of_the_rows_does_not_matter() -> None:
    table = similarity_table(draw_vectors(7, LABEL_KEYS, UNEVEN), LABELS)
    before, after = fit(table, LABELS), fit(table.sample(fraction=1, shuffle=True, seed=1), LABELS)
    for column in ("estimate", "std_error", "df", "simultaneous_high"):
        np.testing.assert_allclose(
            after[column].to_numpy(), before[column].to_numpy(), rtol=1e-7, atol=1e-9
        )


def test_other_reference_turns_marginal_contrasts_round() -> None:
    table = similarity_table(draw_vectors(7, LABEL_KEYS, UNEVEN), LABELS)
    turned = Design(
        "format",
        (Factor("race", RACES, "Asian"), Factor("gender", GENDERS, "woman")),
        blocks=BLOCKS,
    )
    for scope in ("formats fixed", "formats random"):
        before = at_level(fit(table, LABELS), scope, "marginal")
        after = at_level(fit(table, turned), scope, "marginal")
        for ours, theirs in (("race[Asian]", "race[White]"), ("gender[woman]", "gender[man]")):
            for column, sign in (("estimate", -1), ("std_error", 1), ("df", 1), ("p_value", 1)):
                assert after[theirs][column] == pytest.approx(sign * before[ours][column])


def test_cosines_in_another_unit_give_the_same_estimates() -> None:
    table = similarity_table(draw_vectors(8, LABEL_KEYS, UNEVEN), LABELS)
    scaled = table.with_columns(
        cosine_sum=0.1 * pl.col("cosine_sum"),
        cosine_sum_squares=0.01 * pl.col("cosine_sum_squares"),
    )
    before, after = fit(table, LABELS), fit(scaled, LABELS)
    for column in ("estimate", "std_error", "p_value", "simultaneous_low"):
        np.testing.assert_allclose(
            after[column].to_numpy(), before[column].to_numpy(), rtol=1e-6, atol=1e-9
        )


def test_group_of_three_texts_is_a_reason_at_the_text_level_alone() -> None:
    vectors = draw_vectors(9, LABEL_KEYS, {("essay", "Asian", "man"): 3})
    fits = fit(similarity_table(vectors, LABELS), LABELS)
    assert fits.filter(pl.col("level") != "text")["converged"].all()
    text = fits.filter(pl.col("level") == "text")
    assert text["scope"].to_list() == ["formats fixed", "formats random"]
    assert text["reason"].to_list() == ["fewer than four texts in essay / Asian / man (3)"] * 2
    assert text["term"].null_count() == text["coding"].null_count() == 2


def test_contrast_of_groups_without_variance_is_a_row_that_says_why() -> None:
    """Men's texts are all the same, in every format: nothing is uncertain about men."""
    vectors = draw_vectors(9, LABEL_KEYS)
    for key in LABEL_KEYS:
        if key[2] == "man":
            vectors[key] = np.repeat(vectors[key][:1], 6, axis=0)
    fits = fit(similarity_table(vectors, LABELS), LABELS)
    rows = at_level(fits, "formats fixed", "treatment")
    assert rows["race[Asian]"]["reason"].startswith("no variance: the texts of the groups compared")
    assert not rows["race[Asian]"]["converged"]
    assert rows["race[Asian]"]["estimate"] is None
    for term in ("gender[woman]", "race[Asian]:gender[woman]"):
        assert rows[term]["converged"]
        assert rows[term]["std_error"] > 0
        assert rows[term]["simultaneous_low"] < rows[term]["ci_low"]


def test_name_with_two_texts_in_a_format_is_a_reason() -> None:
    vectors = draw_vectors(10, NAME_KEYS)
    names = {key: [f"{key[1]} {i}" for i in range(6)] for key in NAME_KEYS}
    names["poem", "Black"][5] = "Black 4"
    fits = fit(similarity_table(vectors, NAMES, names), NAMES)
    reasons = fits.filter(pl.col("level") == "text")["reason"].to_list()
    expected = "name with several texts where one is compared: poem / Black / Black 4"
    assert reasons == [expected] * 2


def test_levels_that_are_not_wanted_have_no_rows() -> None:
    table = similarity_table(draw_vectors(6, LABEL_KEYS), LABELS)
    whole = fit(table, LABELS)
    part = fit_settings(
        table, LABELS, study="s", model="m", measure="e", levels=("pairwise", "text")
    )
    assert part.equals(whole.filter(pl.col("level") != "cell"))
    with pytest.raises(ValueError, match="'cells' is none of pairwise, cell, text"):
        fit_settings(table, LABELS, study="s", model="m", measure="e", levels=("cells",))
