"""Contrasts at equal length against least squares on single pairs, refitted without each text."""

from itertools import combinations, product

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtr, stdtrit

from llm_variability.fits.coding import list_groups
from llm_variability.fits.contrasts import list_contrasts
from llm_variability.fits.random_intercept import UnfittableError
from llm_variability.fits.text_inference import combine_independent
from llm_variability.fits.text_inference import infer_formats_fixed as infer_unadjusted
from llm_variability.fits.text_variance import correct_jackknife, jackknife_variance
from llm_variability.sensitivity.length import (
    adjust_contrasts,
    collect_pairs,
    delete_blocks,
    delete_units,
    estimate,
    infer_formats_fixed,
    infer_formats_random,
)
from llm_variability.sensitivity.texts import GroupTexts
from llm_variability.tables import Factor

FACTORS = (
    Factor("race", ("White", "Asian"), "White"),
    Factor("gender", ("man", "woman"), "man"),
)
GROUPS = len(list_groups(FACTORS))
WEIGHTS = np.array([each.weights for each in list_contrasts(FACTORS)])
TERMS = [(each.coding, each.term) for each in list_contrasts(FACTORS)]
ONE = (Factor("group", ("White", "Black"), "White"),)
ONE_WEIGHTS = np.array([each.weights for each in list_contrasts(ONE)])


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def draw_blocks(seed: int, sizes: list[list[int]], names: bool = False) -> list[list[GroupTexts]]:
    """Texts whose cosines rise with length; groups and formats differ in length and direction."""
    rng = np.random.default_rng(seed)
    blocks = []
    for number, row in enumerate(sizes):
        centre = rng.normal(size=6)
        block = []
        for group, n in enumerate(row):
            words = rng.integers(10, 60, size=n) + 8 * group + 5 * number
            noise = rng.normal(size=(n, 6)) * (30 / words[:, None])
            units = tuple(f"{group} {i}" for i in rng.permutation(max(max(sizes)))[:n])
            vectors = unit(centre + 0.4 * np.eye(6)[group] + noise)
            block.append(GroupTexts(vectors, words.astype(float), units if names else None))
        blocks.append(block)
    return blocks


SIZES = [[5, 6, 5, 7], [6, 5, 8, 5], [5, 5, 6, 6]]
NAME_SIZES = [[6, 6], [6, 5], [4, 6]]


def list_pairs(blocks: list[list[GroupTexts]]) -> list[tuple[int, int, float, float, float]]:
    """(block, group, cosine, mean length, difference of lengths), a row a pair."""
    rows = []
    for b, block in enumerate(blocks):
        for g, texts in enumerate(block):
            for i, j in combinations(range(len(texts.words)), 2):
                first, second = texts.words[i], texts.words[j]
                rows.append(
                    (
                        b,
                        g,
                        float(texts.vectors[i] @ texts.vectors[j]),
                        (first + second) / 2,
                        abs(first - second),
                    )
                )
    return rows


def refit(
    blocks: list[list[GroupTexts]], weights: np.ndarray, overall: np.ndarray | None = None
) -> np.ndarray:
    """Least squares on single pairs with a dummy a block x group; contrasts, then the slopes."""
    pairs = list_pairs(blocks)
    cells = sorted({row[:2] for row in pairs})
    outcome = np.array([row[2] for row in pairs])
    covariates = np.array([row[3:] for row in pairs])
    centre = covariates.mean(axis=0) if overall is None else overall
    dummies = np.array([[row[:2] == cell for cell in cells] for row in pairs], dtype=float)
    fit = sm.OLS(outcome, np.hstack([dummies, covariates - centre])).fit()
    adjusted = fit.params[:-2].reshape(-1, weights.shape[1]).mean(axis=0)
    return np.concatenate([weights @ adjusted, fit.params[-2:]])


def without(blocks: list[list[GroupTexts]], doomed: set[tuple[int, int, int]]) -> list:
    """The texts that are left when those at (block, group, number) are gone."""
    kept = []
    for b, block in enumerate(blocks):
        row = []
        for g, texts in enumerate(block):
            keep = [i for i in range(len(texts.words)) if (b, g, i) not in doomed]
            units = None if texts.units is None else tuple(texts.units[i] for i in keep)
            row.append(GroupTexts(texts.vectors[keep], texts.words[keep], units))
        kept.append(row)
    return kept


def overall(blocks: list[list[GroupTexts]]) -> np.ndarray:
    return np.array([row[3:] for row in list_pairs(blocks)]).mean(axis=0)


def list_deletions(blocks: list[list[GroupTexts]]) -> list[set[tuple[int, int, int]]]:
    """What goes with each unit: its texts in all blocks, or a single text."""
    together: dict[object, set[tuple[int, int, int]]] = {}
    for b, block in enumerate(blocks):
        for g, texts in enumerate(block):
            for i in range(len(texts.words)):
                key = (b, g, i) if texts.units is None else (g, texts.units[i])
                together.setdefault(key, set()).add((b, g, i))
    return list(together.values())


# ---------------------------------------------------------------------------- the estimates


def test_slopes_and_contrasts_are_those_of_least_squares_on_single_pairs() -> None:
    blocks = draw_blocks(1, SIZES)
    np.testing.assert_allclose(
        estimate(collect_pairs(blocks), WEIGHTS), refit(blocks, WEIGHTS), rtol=1e-8, atol=1e-12
    )


@pytest.mark.parametrize(
    ("sizes", "weights", "names"),
    [(SIZES, WEIGHTS, False), (NAME_SIZES, ONE_WEIGHTS, True)],
    ids=["texts", "names"],
)
def test_deleting_is_refitting_without_the_texts(
    sizes: list[list[int]], weights: np.ndarray, names: bool
) -> None:
    blocks = draw_blocks(2, sizes, names)
    pairs = collect_pairs(blocks)
    deleted = delete_units(pairs, pairs.unit, weights)
    found = np.hstack([deleted.own + deleted.through_slopes, deleted.slopes])
    whole, centre = refit(blocks, weights), overall(blocks)
    changes = [
        refit(without(blocks, doomed), weights, centre) - whole for doomed in list_deletions(blocks)
    ]
    assert len(found) == len(changes)
    np.testing.assert_allclose(found, changes, rtol=1e-6, atol=1e-10)


def test_leaving_a_format_out_is_refitting_without_it() -> None:
    blocks = draw_blocks(3, SIZES)
    expected = [
        refit(blocks[:b] + blocks[b + 1 :], WEIGHTS, overall(blocks)) for b in range(len(blocks))
    ]
    np.testing.assert_allclose(
        delete_blocks(collect_pairs(blocks), WEIGHTS), expected, rtol=1e-8, atol=1e-12
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.1, 10), st.floats(-5, 50))
def test_unit_and_origin_of_length_change_slopes_alone(
    seed: int, scale: float, shift: float
) -> None:
    blocks = draw_blocks(seed, [[5, 6, 5, 6], [6, 5, 5, 5]])
    moved = [
        [GroupTexts(each.vectors, scale * each.words + shift, None) for each in block]
        for block in blocks
    ]
    for infer in (infer_formats_fixed, infer_formats_random):
        before = infer(collect_pairs(blocks), WEIGHTS)
        after = infer(collect_pairs(moved), WEIGHTS)
        factor = np.concatenate([np.ones(len(WEIGHTS)), [scale, scale]])
        np.testing.assert_allclose(after.estimate * factor, before.estimate, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(after.std_error * factor, before.std_error, rtol=1e-5)
        np.testing.assert_allclose(after.df, before.df, rtol=1e-4)


# ------------------------------------------------------------------------ the standard errors


def residual_factor(blocks: list[list[GroupTexts]], slopes: np.ndarray) -> dict:
    """Root of the unbiased variance over the jackknife's, from residual pairs listed singly."""
    factor = {}
    for b, block in enumerate(blocks):
        for g, texts in enumerate(block):
            n = len(texts.words)
            residual = {
                (i, j): texts.vectors[i] @ texts.vectors[j]
                - slopes[0] * (texts.words[i] + texts.words[j]) / 2
                - slopes[1] * abs(texts.words[i] - texts.words[j])
                for i, j in combinations(range(n), 2)
            }
            values = np.array(list(residual.values()))
            disjoint = [
                x * y
                for (d, x), (e, y) in product(residual.items(), repeat=2)
                if not set(d) & set(e)
            ]
            unbiased = max(values.mean() ** 2 - np.mean(disjoint), values.var(ddof=1) / len(values))
            left = [
                np.mean([value for pair, value in residual.items() if i not in pair])
                for i in range(n)
            ]
            jackknife = (n - 1) / n * ((left - np.mean(left)) ** 2).sum()
            factor[b, g] = np.sqrt(unbiased / jackknife)
    return factor


@pytest.mark.parametrize(
    ("sizes", "weights", "names"),
    [(SIZES, WEIGHTS, False), (NAME_SIZES, ONE_WEIGHTS, True)],
    ids=["texts", "names"],
)
def test_fixed_formats_have_the_jackknife_of_their_units(
    sizes: list[list[int]], weights: np.ndarray, names: bool
) -> None:
    """By deletion: what a text does to its own mean is scaled to the unbiased variance."""
    blocks = draw_blocks(4, sizes, names)
    whole, centre = refit(blocks, weights), overall(blocks)
    factor = residual_factor(blocks, whole[-2:])

    def own_change(cell: tuple[int, int], doomed: set) -> float:
        """What deletion does to the mean residual of a block x group at unchanged slopes."""
        pairs = {}
        for name, kept in (("all", blocks), ("left", without(blocks, doomed))):
            rows = [row for row in list_pairs(kept) if row[:2] == cell]
            pairs[name] = np.mean([row[2] - whole[-2:] @ row[3:] for row in rows])
        return float(pairs["left"] - pairs["all"])

    changes: dict[object, list[np.ndarray]] = {}
    for doomed in list_deletions(blocks):
        change = refit(without(blocks, doomed), weights, centre) - whole
        for cell in {each[:2] for each in doomed}:
            excess = (factor[cell] - 1) * own_change(cell, doomed) / len(blocks)
            change[: len(weights)] += weights[:, cell[1]] * excess
        b, g, _ = min(doomed)
        changes.setdefault(g if names else (b, g), []).append(change)
    variance, squares = np.zeros(len(whole)), np.zeros(len(whole))
    for stratum in changes.values():
        n, rows = len(stratum), np.array(stratum)
        part = (n - 1) / n * ((rows - rows.mean(axis=0)) ** 2).sum(axis=0)
        variance += part
        squares += part**2 / (n - 1)
    inference = infer_formats_fixed(collect_pairs(blocks), weights)
    np.testing.assert_allclose(inference.estimate, whole, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(inference.std_error, np.sqrt(variance), rtol=1e-6)
    np.testing.assert_allclose(inference.df, variance**2 / squares, rtol=1e-5)


def test_random_formats_have_the_jackknife_of_the_formats() -> None:
    blocks = draw_blocks(5, SIZES)
    deleted = np.array(
        [refit(blocks[:b] + blocks[b + 1 :], WEIGHTS, overall(blocks)) for b in range(3)]
    )
    variance = 2 / 3 * ((deleted - deleted.mean(axis=0)) ** 2).sum(axis=0)
    inference = infer_formats_random(collect_pairs(blocks), WEIGHTS)
    np.testing.assert_allclose(inference.std_error, np.sqrt(variance), rtol=1e-7)
    assert set(inference.df) == {2.0}


def test_names_in_all_formats_add_what_they_do_to_all_alike() -> None:
    """Names keep vector and length from format to format: their covariance is added."""
    block = draw_blocks(6, [[9, 9]], names=True)[0]
    rng = np.random.default_rng(1)
    blocks = [
        [
            GroupTexts(unit(each.vectors + 0.02 * rng.normal(size=(9, 6))), each.words, each.units)
            for each in block
        ]
        for _ in range(4)
    ]
    apart = [[GroupTexts(each.vectors, each.words, None) for each in row] for row in blocks]
    together = infer_formats_random(collect_pairs(blocks), ONE_WEIGHTS)
    alone = infer_formats_random(collect_pairs(apart), ONE_WEIGHTS)
    np.testing.assert_allclose(together.estimate, alone.estimate)
    effect = 1
    assert together.std_error[effect] > 3 * alone.std_error[effect]
    fixed = infer_formats_fixed(collect_pairs(blocks), ONE_WEIGHTS)
    assert together.std_error[effect] == pytest.approx(fixed.std_error[effect], rel=0.1)


def test_lengths_that_say_nothing_leave_the_standard_errors_of_the_main_fit() -> None:
    """50 texts, lengths drawn at random: slopes are near 0, and contrasts as uncertain as ever."""
    rng = np.random.default_rng(7)
    shape = (13, GROUPS)
    blocks = []
    for _ in range(shape[0]):
        centre = rng.normal(size=16)
        block = []
        for _ in range(GROUPS):
            vectors = unit(centre + rng.gamma(2, 0.3, size=(50, 1)) * rng.normal(size=(50, 16)))
            block.append(GroupTexts(vectors, rng.integers(20, 60, 50).astype(float), None))
        blocks.append(block)
    sums = np.array([[(t.vectors @ t.vectors.T).sum(axis=1) - 1 for t in b] for b in blocks])
    means = sums.sum(axis=-1) / 50 / 49
    upper = np.triu_indices(50, 1)
    within = np.array(
        [[((t.vectors @ t.vectors.T)[upper]).var() * len(upper[0]) for t in b] for b in blocks]
    )
    n = np.full(shape, 50)
    variance = correct_jackknife(jackknife_variance(sums), within, n)
    main = infer_unadjusted(means, combine_independent(variance, n), WEIGHTS)
    ours = infer_formats_fixed(collect_pairs(blocks), WEIGHTS)
    np.testing.assert_allclose(ours.std_error[:-2], main.std_error, rtol=0.03)
    np.testing.assert_allclose(ours.df[:-2], main.df, rtol=0.1)
    assert (np.abs(ours.estimate[:-2] - main.estimate) < main.std_error).all()


# ---------------------------------------------------------------------- level and coverage


def draw_study(rng: np.random.Generator, formats: int, texts: int) -> list[list[GroupTexts]]:
    """Two groups, the second's texts 10 words longer; cosines depend on length alone.

    A text's cosine to its format's direction is 0.62 + 0.004 (words - 40), with an SD of 0.06.
    """
    blocks = []
    for _ in range(formats):
        axis = unit(rng.normal(size=(1, 24)))[0]
        block = []
        for longer in (0, 10):
            words = rng.normal(35 + longer, 8, size=texts).round()
            typical = 0.62 + 0.004 * (words - 40) + 0.06 * rng.normal(size=texts)
            noise = rng.normal(size=(texts, 24))
            noise = unit(noise - np.outer(noise @ axis, axis))
            vectors = typical[:, None] * axis + np.sqrt(1 - typical**2)[:, None] * noise
            block.append(GroupTexts(vectors, words, None))
        blocks.append(block)
    return blocks


def test_groups_that_differ_in_length_alone_do_not_differ_at_equal_length() -> None:
    """400 studies at 5%: 1.7 to 8.3% may reject (three standard errors); unadjusted nearly all."""
    rng = np.random.default_rng(8)
    rejected = {"fixed": 0, "random": 0, "unadjusted": 0}
    for _ in range(400):
        pairs = collect_pairs(draw_study(rng, 5, 20))
        for name, infer in (("fixed", infer_formats_fixed), ("random", infer_formats_random)):
            rejected[name] += infer(pairs, ONE_WEIGHTS).p_value[1] < 0.05
        difference = pairs.mean[:, 1, 0] - pairs.mean[:, 0, 0]
        t = difference.mean() / (difference.std(ddof=1) / np.sqrt(5))
        rejected["unadjusted"] += 2 * stdtr(4, -abs(t)) < 0.05
    assert 0.017 < rejected["fixed"] / 400 < 0.083
    assert 0.017 < rejected["random"] / 400 < 0.083
    assert rejected["unadjusted"] / 400 > 0.6


def test_intervals_of_the_slope_cover_it() -> None:
    """Expected cosine of two texts: the product of theirs, so the slope is 2 x 0.004 x 0.63."""
    rng = np.random.default_rng(9)
    truth = 2 * 0.004 * np.mean([0.62 + 0.004 * (35 + longer - 40) for longer in (0, 10)])
    covered = 0
    for _ in range(300):
        inference = infer_formats_fixed(collect_pairs(draw_study(rng, 5, 20)), ONE_WEIGHTS)
        margin = stdtrit(inference.df[-2], 0.975) * inference.std_error[-2]
        covered += abs(inference.estimate[-2] - truth) < margin
    assert 0.90 < covered / 300 < 0.99


# -------------------------------------------------------------------------------- the rows


def test_rows_have_every_contrast_and_the_two_slopes() -> None:
    blocks = draw_blocks(10, SIZES)
    pairs = collect_pairs(blocks)
    for scope, infer in (
        ("formats fixed", infer_formats_fixed),
        ("formats random", infer_formats_random),
    ):
        rows = adjust_contrasts(pairs, FACTORS, scope, (0.5, 0.2))
        keys = [(row["coding"], row["term"]) for row in rows]
        assert keys == [*TERMS, (None, "length[mean]"), (None, "length[difference]")]
        inference = infer(pairs, WEIGHTS)
        for i, row in enumerate(rows):
            shift = 0.5 if row["term"] == "Intercept" else 0
            assert row["estimate"] == pytest.approx((inference.estimate[i] - shift) / 0.2)
            assert row["std_error"] == pytest.approx(inference.std_error[i] / 0.2)
            assert row["df"] == pytest.approx(inference.df[i])
            assert row["ci_high"] > row["estimate"] > row["ci_low"]
            no_family = row["coding"] is None or row["term"] == "Intercept"
            assert (row["simultaneous_low"] is None) is no_family


@pytest.mark.parametrize("scope", ["formats fixed", "formats random"])
def test_texts_of_one_length_have_no_slopes(scope: str) -> None:
    blocks = [
        [
            GroupTexts(each.vectors, np.full(len(each.words), 30.0 + group), None)
            for group, each in enumerate(block)
        ]
        for block in draw_blocks(11, SIZES)
    ]
    with pytest.raises(UnfittableError, match="within the groups all texts are of the same length"):
        adjust_contrasts(collect_pairs(blocks), FACTORS, scope, (0.5, 0.2))


def test_slopes_that_hang_on_a_single_text_are_a_reason() -> None:
    blocks = draw_blocks(11, SIZES)
    lengths = [np.full(len(each.words), 30.0) for block in blocks for each in block]
    lengths[0][0] = 50
    of_group = iter(lengths)
    blocks = [[GroupTexts(each.vectors, next(of_group), None) for each in b] for b in blocks]
    with pytest.raises(UnfittableError, match="singular|same length"):
        adjust_contrasts(collect_pairs(blocks), FACTORS, "formats fixed", (0.5, 0.2))
