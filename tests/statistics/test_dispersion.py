"""Permutation tests of equal dispersion against enumeration, scikit-bio and simulated studies."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skbio import DistanceMatrix
from skbio.stats.distance import permdisp

from llm_variability.fits.coding import list_groups
from llm_variability.fits.contrasts import list_contrasts
from llm_variability.fits.random_intercept import UnfittableError
from llm_variability.sensitivity.dispersion import (
    DispersionTests,
    Members,
    compare_dispersions,
    disperse,
    draw_labels,
    list_main_effects,
    permutation_p_value,
    permute_independently,
    permute_units,
    scale_residuals,
    spread_of_groups,
)
from llm_variability.sensitivity.texts import GroupTexts
from llm_variability.tables import Factor

TWO = (Factor("race", ("White", "Asian"), "White"),)
CROSSED = (
    Factor("race", ("African", "Asian", "White"), "White"),
    Factor("gender", ("man", "woman"), "man"),
)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def draw_group(
    rng: np.random.Generator, n: int, axis: np.ndarray, typical: float = 0.8
) -> np.ndarray:
    """Unit vectors around an axis, some texts far less typical than others (skewness -1.4)."""
    skewed = (2 - rng.standard_exponential((2, n)).sum(axis=0)) / np.sqrt(2)
    cosine = np.clip(typical + 0.43 * (1 - typical) * skewed, -1, 1)
    noise = rng.normal(size=(n, len(axis)))
    noise = unit(noise - np.outer(noise @ axis, axis))
    return cosine[:, None] * axis + np.sqrt(1 - cosine**2)[:, None] * noise


def texts(vectors: np.ndarray, units: tuple[str, ...] | None = None) -> GroupTexts:
    return GroupTexts(vectors, np.full(len(vectors), 30.0), units)


def compare(
    blocks: list[list[GroupTexts]],
    factors: tuple[Factor, ...] = TWO,
    permutations: int = 999,
    seed: int = 1,
) -> dict[tuple[str | None, str], dict]:
    names = list_groups(factors)
    means = np.array(
        [[mean_cosine(group.vectors) for group in block] for block in blocks], dtype=float
    )
    tests = DispersionTests(blocks, names, permutations, (seed, "study"))
    rows = compare_dispersions(tests, means, factors, (0.5, 0.1))
    return {(row["coding"], row["term"]): dict(row) for row in rows}


def mean_cosine(vectors: np.ndarray) -> float:
    return float(np.mean([a @ b for a, b in combinations(vectors, 2)]))


def about_centroid(rows: np.ndarray) -> float:
    return float(((rows - rows.mean(axis=0)) ** 2).sum() / (len(rows) - 1))


# ------------------------------------------------------------------------------ the dispersions


def test_dispersion_of_unit_vectors_is_one_less_their_mean_cosine() -> None:
    vectors = unit(np.random.default_rng(1).normal(size=(7, 5)))
    labels = np.zeros((1, 7), dtype=np.int16)
    assert disperse(vectors, labels, 1)[0, 0] == pytest.approx(1 - mean_cosine(vectors), abs=1e-7)


@pytest.mark.parametrize("dimensions", [3, 12, 40])
def test_dispersions_are_those_about_the_new_centroids_for_every_labelling(dimensions: int) -> None:
    rng = np.random.default_rng(dimensions)
    groups = [unit(1 + rng.normal(size=(n, dimensions))) for n in (4, 3, 3)]
    residuals = np.concatenate([scale_residuals(group) for group in groups])
    labels = np.array([each for each in product(range(3), repeat=10) if len(set(each)) == 3])
    labels = labels[rng.choice(len(labels), 2000, replace=False)]
    found = disperse(residuals, labels.astype(np.int16), 3)
    for row, of_group in zip(labels, found, strict=True):
        for group in range(3):
            members = residuals[row == group]
            if len(members) < 2:
                assert np.isnan(of_group[group])
            else:
                assert of_group[group] == pytest.approx(about_centroid(members), abs=1e-6)


def test_groups_of_any_size_have_the_same_expected_dispersion() -> None:
    """Over all labellings, the mean of each group's dispersion is that of all residuals."""
    rng = np.random.default_rng(2)
    residuals = np.concatenate([scale_residuals(unit(rng.normal(size=(n, 4)))) for n in (3, 5)])
    chosen = list(combinations(range(8), 3))
    labels = np.ones((len(chosen), 8), dtype=np.int16)
    for row, members in zip(labels, chosen, strict=True):
        row[list(members)] = 0
    means = disperse(residuals, labels, 2).mean(axis=0)
    np.testing.assert_allclose(means, about_centroid(residuals), atol=1e-7)


def test_residuals_have_the_length_of_deviations_from_the_true_centre() -> None:
    rng = np.random.default_rng(3)
    squares = [(scale_residuals(rng.normal(size=(4, 6))) ** 2).sum(axis=1) for _ in range(4000)]
    assert np.mean(squares) == pytest.approx(6, abs=0.1)  # a chi-square with 6 degrees of freedom


@given(st.lists(st.integers(2, 9), min_size=2, max_size=5), st.integers(0, 2**32))
def test_permuted_labels_keep_every_groups_size(sizes: list[int], seed: int) -> None:
    labels = np.repeat(np.arange(len(sizes), dtype=np.int16), sizes)
    drawn = draw_labels(labels, 20, np.random.default_rng(seed))
    for row in drawn:
        assert np.bincount(row, minlength=len(sizes)).tolist() == sizes


# --------------------------------------------------------------------------------- the p values


def test_p_value_counts_the_observed_one_and_is_never_zero() -> None:
    """By hand: 3 of 9 as large gives 4 / 10; none of 9 gives 1 / 10."""
    p, error = permutation_p_value(2.0, np.array([3.0, 2.0, 5.0, 0, 0, 1, 1, 1, 1]))
    assert p == pytest.approx(0.4)
    assert error == pytest.approx(np.sqrt(0.4 * 0.6 / 9))
    assert permutation_p_value(9.0, np.arange(9.0))[0] == pytest.approx(0.1)


def test_random_permutations_approach_the_enumerated_p_values() -> None:
    """Two blocks of 4 + 4 texts: 70 x 70 labellings, each dispersion computed by itself."""
    rng = np.random.default_rng(1)
    blocks = [
        [
            unit(np.eye(5)[0] + 0.5 * rng.normal(size=(4, 5))),
            unit(np.eye(5)[1] + 0.9 * rng.normal(size=(4, 5))),
        ]
        for _ in range(2)
    ]
    of_block = []
    for block in blocks:
        residuals = np.concatenate(
            [(v - v.mean(axis=0)) * np.sqrt(4 / 3) for v in block]  # scaled by sqrt(n / (n - 1))
        )
        differences = []
        for chosen in combinations(range(8), 4):
            member = np.isin(np.arange(8), chosen)
            differences.append(
                about_centroid(residuals[member]) - about_centroid(residuals[~member])
            )
        of_block.append(np.array(differences))
    every = (of_block[0][:, None] + of_block[1]).ravel() / 2
    estimate = np.mean([mean_cosine(second) - mean_cosine(first) for first, second in blocks])
    exact = float((np.abs(every) >= abs(estimate)).mean())
    assert 0.02 < exact < 0.4

    number = 20_000
    rows = compare([[texts(v) for v in block] for block in blocks], permutations=number)
    row = rows["treatment", "race[Asian]"]
    assert row["estimate"] * row["outcome_sd"] == pytest.approx(estimate)
    assert row["mc_error"] == pytest.approx(np.sqrt(exact * (1 - exact) / number), rel=0.1)
    assert abs(row["p_value"] - exact) < 4 * row["mc_error"]
    # Of two groups of a size, |difference| and the spread around their mean order alike.
    assert abs(rows[None, "all groups"]["p_value"] - exact) < 4 * row["mc_error"]


def test_spread_of_groups_is_the_root_of_the_weighted_mean_square() -> None:
    """By hand: mean (1 x 10 + 4 x 20) / 30 = 3; (10 x 4 + 20 x 1) / 30 = 2."""
    assert spread_of_groups(np.array([1.0, 4.0]), np.array([10.0, 20.0])) == pytest.approx(
        np.sqrt(2)
    )


def scikit_bio(vectors: np.ndarray, labels: np.ndarray, permutations: int = 999) -> float:
    distances = np.sqrt(np.maximum(((vectors[:, None] - vectors) ** 2).sum(axis=-1), 0))
    matrix = DistanceMatrix((distances + distances.T) / 2)
    names = [str(label) for label in labels]
    result = permdisp(
        matrix, names, test="centroid", permutations=permutations, dimensions=len(vectors) - 1,
        seed=1, warn_neg_eigval=False,
    )  # fmt: skip
    return float(result["p-value"])


@pytest.mark.parametrize(
    ("seed", "narrower", "clear"), [(1, 0.8, True), (2, 1, False), (3, 1, False)]
)
def test_scikit_bio_agrees_on_groups_that_lie_at_the_same_place(
    seed: int, narrower: float, clear: bool
) -> None:
    """Its statistic is the F of distances, ours the difference of squared ones, and it permutes
    labels, not residuals. Where locations are equal and distances vary little, these are one test.
    """
    rng = np.random.default_rng(seed)
    vectors = [
        unit(np.eye(600)[0] + spread * 0.03 * rng.normal(size=(25, 600)))
        for spread in (1, narrower)
    ]
    centred = np.concatenate([v - v.mean(axis=0) for v in vectors])
    theirs = scikit_bio(centred, np.repeat([0, 1], 25))
    ours = compare([[texts(v) for v in vectors]])["treatment", "race[Asian]"]
    assert ours["p_value"] == pytest.approx(
        theirs, abs=4 * np.sqrt(2) * max(ours["mc_error"], 1e-3)
    )
    assert (ours["p_value"] < 0.01) is clear


# ------------------------------------------------------------------------------ which are tested


@pytest.mark.parametrize("factors", [TWO, CROSSED])
def test_strata_give_the_contrasts_that_the_fits_estimate(factors: tuple[Factor, ...]) -> None:
    wanted = {
        (each.coding, each.term): each.weights
        for each in list_contrasts(factors)
        if each.coding != "interaction" and ":" not in each.term and each.term != "Intercept"
    }
    found = {}
    for coding, term, strata in list_main_effects(factors):
        weights = np.zeros(len(list_groups(factors)))
        for reference, level in strata:
            weights[reference] -= 1 / len(strata)
            weights[level] += 1 / len(strata)
        found[coding, term] = weights
    assert found.keys() == wanted.keys()
    for key, weights in wanted.items():
        np.testing.assert_allclose(found[key], weights, atol=1e-12)


def test_only_groups_that_are_compared_change_texts() -> None:
    """Women's texts have no part in the published race contrast, which is one among men."""
    rng = np.random.default_rng(5)
    axis = np.eye(8)[0]
    blocks = [[texts(draw_group(rng, 6, axis)) for _ in list_groups(CROSSED)] for _ in range(2)]
    before = compare(blocks, CROSSED)
    for block in blocks:
        for number, (_, gender) in enumerate(list_groups(CROSSED)):
            if gender == "woman":
                block[number] = texts(draw_group(rng, 6, axis, 0.3))
    after = compare(blocks, CROSSED)
    same = ("treatment", "race[Asian]")
    assert after[same] == before[same]
    for changed in [("marginal", "race[Asian]"), ("treatment", "gender[woman]")]:
        assert after[changed]["p_value"] != before[changed]["p_value"]


def test_interactions_are_left_out() -> None:
    rng = np.random.default_rng(5)
    rows = compare([[texts(draw_group(rng, 5, np.eye(8)[0])) for _ in range(6)]], CROSSED, 99)
    assert [term for _, term in rows] == [
        "all groups",
        *["race[African]", "race[Asian]", "gender[woman]"] * 2,
    ]


def test_texts_that_are_all_the_same_have_no_dispersion_to_test() -> None:
    rng = np.random.default_rng(6)
    same = np.repeat(unit(rng.normal(size=(1, 8))), 5, axis=0)
    groups = list_groups(CROSSED)
    block = [
        texts(same if gender == "man" else draw_group(rng, 5, np.eye(8)[0])) for _, gender in groups
    ]
    rows = compare([block, block], CROSSED, 99)
    assert rows["treatment", "race[Asian]"]["reason"].startswith("no variance")
    assert "p_value" not in rows["treatment", "race[Asian]"]
    assert rows["marginal", "race[Asian]"]["p_value"] > 0


# --------------------------------------------------------------------------------- invariances


@given(st.integers(0, 2**32))
def test_turning_all_vectors_changes_no_p_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = [draw_group(rng, 6, np.eye(5)[0], typical) for typical in (0.8, 0.7)]
    turn, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    before = compare([[texts(v) for v in vectors]], permutations=199)
    after = compare([[texts(v @ turn) for v in vectors]], permutations=199)
    for key, row in before.items():
        assert after[key]["p_value"] == pytest.approx(row["p_value"], abs=0.011)
        assert after[key]["estimate"] == pytest.approx(row["estimate"], abs=1e-9)


def test_moving_a_group_elsewhere_changes_no_permuted_dispersion() -> None:
    """All residuals turn with their group; what is compared is the same to rounding."""
    rng = np.random.default_rng(7)
    first, second = (draw_group(rng, 8, np.eye(6)[0]) for _ in range(2))
    residuals = [scale_residuals(v) for v in (first, second)]
    shifted = [scale_residuals(first), scale_residuals(second + 3)]
    labels = draw_labels(np.repeat(np.arange(2, dtype=np.int16), 8), 50, rng)
    np.testing.assert_allclose(
        disperse(np.concatenate(residuals), labels, 2),
        disperse(np.concatenate(shifted), labels, 2),
        atol=1e-7,
    )


def test_same_seed_gives_the_same_p_values_and_another_seed_others() -> None:
    rng = np.random.default_rng(8)
    blocks = [[texts(draw_group(rng, 8, np.eye(6)[0])) for _ in range(2)] for _ in range(2)]
    first, again, other = (compare(blocks, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


# ------------------------------------------------------------------------- level and power

STUDIES = 400


def reject(
    rng: np.random.Generator,
    sizes: tuple[int, int],
    typical: tuple[float, float] = (0.8, 0.8),
    raw: bool = False,
) -> float:
    """Share of studies of three blocks that reject at 5%; the groups lie at different places."""
    rejected = 0
    for _ in range(STUDIES):
        axes = unit(rng.normal(size=(2, 128)))
        blocks, estimate = [], 0.0
        for _ in range(3):
            drawn = [
                draw_group(rng, n, axis, t) for n, axis, t in zip(sizes, axes, typical, strict=True)
            ]
            estimate += (about_centroid(drawn[0]) - about_centroid(drawn[1])) / 3
            rows = drawn if raw else [scale_residuals(v) for v in drawn]
            blocks.append(
                Members(
                    np.concatenate(rows),
                    np.repeat(np.arange(2, dtype=np.int16), sizes),
                    np.arange(sum(sizes)),
                )
            )
        permuted = permute_independently(blocks, 2, 99, rng)
        p, _ = permutation_p_value(abs(estimate), np.abs(permuted[:, 0] - permuted[:, 1]))
        rejected += p <= 0.05
    return rejected / STUDIES


@pytest.mark.parametrize("sizes", [(8, 8), (30, 30), (10, 25)])
def test_groups_at_different_places_are_not_called_dispersed(sizes: tuple[int, int]) -> None:
    """400 studies: 5% +- 3.3 points, three standard errors; fewer with few texts."""
    rate = reject(np.random.default_rng(sum(sizes)), sizes)
    assert rate < 0.083
    if min(sizes) == 30:
        assert rate > 0.017


def test_permuting_raw_vectors_would_call_them_dispersed() -> None:
    assert reject(np.random.default_rng(60), (30, 30), raw=True) > 0.15


def test_groups_of_unequal_dispersion_are_found() -> None:
    assert reject(np.random.default_rng(61), (30, 30), typical=(0.8, 0.72)) > 0.8


def test_names_are_exchanged_with_all_their_texts() -> None:
    """A name that is untypical in one format is in all: exchanging single texts would reject."""
    rng = np.random.default_rng(9)
    rejected = {"names": 0, "texts": 0}
    for _ in range(200):
        axis = unit(rng.normal(size=(1, 64)))[0]
        base = [draw_group(rng, 12, axis) for _ in range(2)]
        blocks = [[unit(v + 0.02 * rng.normal(size=v.shape)) for v in base] for _ in range(6)]
        estimate = np.mean([about_centroid(a) - about_centroid(b) for a, b in blocks])
        members = [
            Members(
                np.concatenate([scale_residuals(v) for v in block]),
                np.repeat(np.arange(2, dtype=np.int16), 12),
                np.arange(24),
            )
            for block in blocks
        ]
        for kind, permute in (("names", permute_units), ("texts", permute_independently)):
            permuted = permute(members, 2, 99, rng)
            p, _ = permutation_p_value(abs(estimate), np.abs(permuted[:, 0] - permuted[:, 1]))
            rejected[kind] += p <= 0.05
    assert rejected["names"] / 200 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    assert rejected["texts"] / 200 > 0.3


def test_names_that_a_format_lacks_take_no_part_in_it() -> None:
    """Against dispersions of each labelling by hand: the permuted values are among them."""
    rng = np.random.default_rng(10)
    names = [["a", "b", "c", "d"], ["e", "f", "g", "h"]]
    lacking = {1: {"b"}, 2: {"h"}}
    vectors = {
        (block, name): unit(rng.normal(size=(1, 6)))[0]
        for block in range(3)
        for of_group in names
        for name in of_group
        if name not in lacking.get(block, set())
    }
    blocks = []
    scaled: dict[tuple[int, str], np.ndarray] = {}
    for block in range(3):
        row = []
        for of_group in names:
            present = [name for name in of_group if (block, name) in vectors]
            stacked = np.array([vectors[block, name] for name in present])
            row.append(texts(stacked, tuple(present)))
            for name, residual in zip(present, scale_residuals(stacked), strict=True):
                scaled[block, name] = residual
        blocks.append(row)
    every = []
    for chosen in combinations("abcdefgh", 4):
        by_block = []
        for block in range(3):
            present = [name for name in "abcdefgh" if (block, name) in scaled]
            sides = [
                [scaled[block, name] for name in present if (name in chosen) is inside]
                for inside in (True, False)
            ]
            by_block.append([about_centroid(np.array(side)) for side in sides])
        every.append(np.mean(by_block, axis=0))
    tests = DispersionTests(blocks, list_groups(TWO), 500, (1,))
    permuted = tests.permute((0, 1))
    gaps = np.abs(permuted[:, None] - np.array(every)).max(axis=2)
    assert gaps.min(axis=1).max() < 1e-6
    assert len(set(gaps.argmin(axis=1))) > 60  # of 70


def test_too_many_names_without_texts_are_a_reason() -> None:
    """Of 40 names a group two have a text in the second format: of the labellings of these four,
    a good third leave each group two. Where a format has a single text a group none does."""
    rng = np.random.default_rng(11)
    full, few = [], []
    for group in ("a", "b"):
        every = tuple(f"{group}{i}" for i in range(40))
        full.append(texts(unit(rng.normal(size=(40, 5))), every))
        few.append(texts(unit(rng.normal(size=(1, 5))).repeat(2, axis=0), every[:2]))
    tests = DispersionTests([full, few], list_groups(TWO), 50, (1,))
    assert np.isfinite(tests.permute((0, 1))).all()

    lonely = Members(np.ones((2, 3)), np.array([0, 1], dtype=np.int16), np.array([0, 1]))
    with pytest.raises(UnfittableError, match="too many units lack a text"):
        permute_units([lonely], 2, 10, rng)
