"""Planning's power: against closed forms, against texts drawn one by one, and the calibration."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from llm_variability.calibration.table import load_calibration
from llm_variability.plan import simulation
from llm_variability.plan.population import (
    PUBLISHED,
    estimate_population,
    list_effects,
    split_variance,
)
from llm_variability.plan.power import (
    Layout,
    Replications,
    find_texts_needed,
    list_findings,
    simulate_tests,
)
from llm_variability.plan.simulation import draw_study
from llm_variability.similarity.cosine import sum_cosines
from llm_variability.tables import Design, Factor

RACE = Factor("race", ("White", "African", "Asian", "Hispanic"), "White")
GENDER = Factor("gender", ("man", "woman"), "man")
TWO = Design("format", (Factor("race", ("White", "African"), "White"),))
LABELS = Design("format", (RACE, GENDER))
NAMES = Design("format", (replace(RACE, name="group"),), greedy_is_anchor=False, unit="name")
FIXED, RANDOM = "formats fixed", "formats random"


def mean_variance(population, texts: int) -> float:
    """The variance of the mean cosine of a group in a format (`fits.text_variance`)."""
    pairs = texts * (texts - 1)
    return 4 * population.typicality / texts + 2 * population.residual / pairs


# ------------------------------------------------------------------------ the simulated statistics


def draw_cosines(size: int, n: int, population, rng) -> np.ndarray:
    """Draw (size, n, n) cosines text by text and pair by pair, 0 on the diagonal."""
    typical = 1 - rng.gamma(2, size=(size, n)) / 2
    typical *= np.sqrt(2 * population.typicality)
    noise = np.triu(rng.standard_normal((size, n, n)) * np.sqrt(population.residual), k=1)
    cosines = typical[:, :, None] + typical[:, None, :] + noise + np.swapaxes(noise, 1, 2)
    cosines[:, np.arange(n), np.arange(n)] = 0
    return cosines


@pytest.mark.parametrize("n", [4, 12])
def test_compressed_groups_are_distributed_as_groups_of_single_texts(n: int) -> None:
    """Means and estimated variances of 40,000 groups; the estimate by deleting each text."""
    rng = np.random.default_rng(1)
    cosines = draw_cosines(40_000, n, PUBLISHED, rng)
    pairs = n * (n - 1) / 2
    totals = cosines.sum(axis=(1, 2)) / 2
    sums = cosines.sum(axis=2)
    deleted = (totals[:, None] - sums) / (pairs - n + 1)
    jackknife = (n - 1) / n * ((deleted - deleted.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    within = (cosines**2).sum(axis=(1, 2)) / 2 - totals**2 / pairs
    unbiased = jackknife * (n - 2) / (n - 3) - 4 * within / (n * (n - 1) * (n - 2) * (n - 3))
    single = np.maximum(unbiased, 4 * within / (n * (n - 1) * (n - 2) * (n + 1)))

    means, groups = draw_study(PUBLISHED, (40_000, 1, 1), n, names=False, rng=rng)
    assert stats.ks_2samp(totals / pairs, means.ravel()).pvalue > 0.001
    assert stats.ks_2samp(single, groups.variance.ravel()).pvalue > 0.001
    signs = [
        np.corrcoef(mean, variance)[0, 1]
        for mean, variance in ((totals, single), (means.ravel(), groups.variance.ravel()))
    ]
    assert signs[0] == pytest.approx(signs[1], abs=0.02)
    assert signs[0] < -0.3  # an untypical text lowers the mean and widens the variance


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("texts", [10, 60, 400])
def test_estimated_variance_is_that_of_the_means(names: bool, texts: int) -> None:
    rng = np.random.default_rng(2)
    population = replace(PUBLISHED, shared=0.4)
    means, groups = draw_study(population, (4_000, 5, 2), texts, names=names, rng=rng)
    single = mean_variance(population, texts)
    assert means.var(axis=0).mean() == pytest.approx(single, rel=0.03)
    of_average = means.mean(axis=1).var(axis=0).mean()
    # Bringing covariances to corrected variances leaves few names with 3 to 5% too little.
    tolerance = 0.04 + (0.4 / texts if names else 0)
    assert groups.variance.mean() == pytest.approx(of_average, rel=tolerance)
    between = np.mean([np.cov(means[:, :, g].T)[~np.eye(5, dtype=bool)].mean() for g in (0, 1)])
    expected = 4 * population.typicality * 0.4 / texts if names else 0
    assert between == pytest.approx(expected, abs=0.06 * single)
    # What is shared is never taken to be below 0, which lifts its mean where there are few names.
    assert groups.shared.mean() == pytest.approx(expected, rel=0.1, abs=1e-12)


def test_two_formats_share_what_is_left_of_a_pair_as_far_as_both_of_its_names_stay() -> None:
    """The product of two names' own parts keeps the square of what each keeps."""
    population = replace(PUBLISHED, typicality=0.0, shared=0.5)
    rng = np.random.default_rng(3)
    means, _ = draw_study(population, (20_000, 2, 1), 6, names=True, rng=rng)
    assert np.corrcoef(means[:, :, 0].T)[0, 1] == pytest.approx(0.25, abs=0.03)


def test_more_texts_than_are_drawn_have_the_power_of_as_many(monkeypatch) -> None:
    for design in (TWO, NAMES):
        layout = Layout(design, 13, PUBLISHED)
        fast = simulate_tests(layout, 150, 2_000)
        monkeypatch.setattr(simulation, "MOST_DRAWN", 150)
        slow = simulate_tests(layout, 150, 2_000, seed=5)
        monkeypatch.undo()
        for kind, found in slow.items():
            assert fast[kind].smallest_difference() == pytest.approx(
                found.smallest_difference(), rel=0.04
            )


# ------------------------------------------------------------------------------ power, closed forms


@pytest.mark.parametrize("texts", [8, 50])
@pytest.mark.parametrize(("factor", "coding"), [("race", "treatment"), ("gender", "marginal")])
def test_power_in_fixed_formats_is_that_of_the_known_variance(texts, factor, coding) -> None:
    """13 formats have so many degrees of freedom that the normal approximation holds."""
    layout = Layout(LABELS, 13, PUBLISHED)
    found = simulate_tests(layout, texts, 8_000)[FIXED, coding, factor]
    weights = next(
        contrast.weights
        for name, contrast in list_effects(LABELS.factors)
        if (name, contrast.coding) == (factor, coding)
    )
    error = np.sqrt(weights @ weights * mean_variance(PUBLISHED, texts) / 13)
    assert found.error.std() == pytest.approx(error, rel=0.03)
    for difference in (0.5 * error, 2 * error, 3 * error):
        expected = stats.norm.sf(1.96 - difference / error) + stats.norm.sf(
            1.96 + difference / error
        )
        assert found.power(difference) == pytest.approx(expected, abs=0.02)
    assert found.smallest_difference() == pytest.approx(2.802 * error, rel=0.03)


@pytest.mark.parametrize(("formats", "texts"), [(13, 50), (5, 50), (13, 400)])
def test_power_in_random_formats_is_that_of_the_noncentral_t(formats: int, texts: int) -> None:
    layout = Layout(TWO, formats, PUBLISHED)
    found = simulate_tests(layout, texts, 8_000)[RANDOM, "treatment", "race"]
    variance = PUBLISHED.slope**2 + 2 * mean_variance(PUBLISHED, texts)
    error, df = np.sqrt(variance / formats), formats - 1
    for alpha in (0.05, 0.001):
        critical = stats.t.isf(alpha / 2, df)
        for difference in (0.04, 0.06, 0.1):
            t = stats.nct(df, difference / error)
            assert found.power(difference, alpha) == pytest.approx(t.sf(critical), abs=0.015)


def test_every_test_keeps_its_level() -> None:
    for design in (LABELS, NAMES):
        for found in simulate_tests(Layout(design, 13, PUBLISHED), 50, 4_000).values():
            assert found.power(0) == pytest.approx(0.05, abs=0.012)


# --------------------------------------------------------------------------------- the calibration

DIMENSIONS, SPREAD, MEAN, RANGE = 16, 0.43, 0.62, 0.15


def calibration_population(effect: float, slope: float, shared: float = 0.5):
    """Derive z and p of benchmarks/calibration.py: unit vectors around each group's direction.

    A text's cosine to the direction has mean c = sqrt(m) and SD s = 0.43 (1 - c), so that its
    typicality has SD c s; the rest of a pair is the product of two such deviations, and what two
    random directions in 16 dimensions have in common.
    """
    middle = np.linspace(-RANGE, RANGE, 2_001)
    z, p = [], []
    for mean in (MEAN, MEAN + effect):
        m = mean + middle
        s = SPREAD * (1 - np.sqrt(m))
        z.append((m * s**2).mean())
        p.append((s**4 + (1 - m - s**2) ** 2 / DIMENSIONS).mean())
    return replace(
        PUBLISHED,
        typicality=float(np.mean(z)),
        residual=float(np.mean(p)),
        slope=slope * np.sqrt(2),
        shared=shared,
    )


def calibrated_power(design, texts: int, scope: str, effect: float) -> float:
    """Take the power of the scope's own test, in percent, from the table that ships.

    Slopes have the size of the effect.
    """
    name = next(
        name
        for name, each in (("2 groups", TWO), ("names", NAMES), ("4 x 2 groups", LABELS))
        if each is design
    )
    row = load_calibration().row(
        by_predicate=(pl.col("design") == name)
        & (pl.col("formats") == 13)
        & (pl.col("texts") == texts)
        & (pl.col("scope") == scope)
        & (pl.col("effect") == effect)
        & (pl.col("slope") == effect)
        & (pl.col("test") == f"text, {scope}"),
        named=True,
    )
    return 100 * float(row["rejected"])


@pytest.mark.parametrize(
    ("design", "texts", "scope", "effect"),
    [
        (TWO, 10, FIXED, 0.02),
        (TWO, 30, FIXED, 0.02),
        (TWO, 50, FIXED, 0.02),
        (TWO, 10, FIXED, 0.04),
        (LABELS, 50, FIXED, 0.02),
        (LABELS, 10, RANDOM, 0.04),
        (LABELS, 30, RANDOM, 0.04),
        (LABELS, 50, RANDOM, 0.04),
        (NAMES, 30, FIXED, 0.04),
        (NAMES, 50, FIXED, 0.04),
        (NAMES, 30, RANDOM, 0.04),
        (NAMES, 50, RANDOM, 0.04),
    ],
)
def test_power_is_that_of_the_calibration(design, texts, scope, effect) -> None:
    """The rates that ship with the workflow are of vectors, which this does not draw."""
    published = calibrated_power(design, texts, scope, effect)
    layout = Layout(design, 13, calibration_population(effect, slope=effect))
    kind = (scope, "treatment", design.factors[0].name)
    found = simulate_tests(layout, texts, 8_000)[kind]
    assert 100 * found.power(effect) == pytest.approx(published, abs=2.5)


# -------------------------------------------------------------------------------------- the pilot


def draw_pilot(formats: int, texts: int, slope: float, seed: int, shared: float = 0.0):
    """Draw a similarity table from unit vectors, of names if they share typicality."""
    rng = np.random.default_rng(seed)
    design = NAMES if shared else LABELS
    levels = [factor.levels for factor in design.factors]
    groups = [(a,) if len(levels) == 1 else (a, b) for a in levels[0] for b in levels[-1]]
    groups = list(dict.fromkeys(groups))
    common = {group: 1 - rng.gamma(2, size=texts) / 2 for group in groups}
    frames = []
    for block in range(formats):
        for group in groups:
            mean = MEAN + slope * np.clip(rng.standard_normal(), -2.5, 2.5)
            own = 1 - rng.gamma(2, size=texts) / 2
            typical = np.sqrt(1 - shared) * own + np.sqrt(shared) * common[group]
            centre = np.sqrt(mean)
            cosine = np.clip(centre + SPREAD * (1 - centre) * np.sqrt(2) * typical, -1, 1)
            noise = rng.standard_normal((texts, DIMENSIONS))
            noise *= (np.sqrt(1 - cosine**2) / np.linalg.norm(noise, axis=1))[:, None]
            sums, squares = sum_cosines(np.column_stack([cosine, noise]))
            frames.append(
                pl.DataFrame(
                    {
                        "format": f"f{block:02}",
                        **dict(zip([f.name for f in design.factors], group, strict=True)),
                        "name": [f"{group[0]}{i}" for i in range(texts)],
                        "temperature": "1.0",
                        "top_p": "1.0",
                        "n_mates": texts - 1,
                        "cosine_sum": sums,
                        "cosine_sum_squares": squares,
                    }
                )
            )
    return pl.concat(frames), design


def test_pilot_tells_what_it_was_drawn_from() -> None:
    pilot, design = draw_pilot(150, 30, slope=0.04, seed=3)
    found = estimate_population(pilot, design, "pilot")
    s = SPREAD * (1 - np.sqrt(MEAN))
    assert found.mean_cosine == pytest.approx(MEAN, abs=0.01)
    assert found.typicality == pytest.approx(MEAN * s**2, rel=0.15)
    assert found.residual == pytest.approx(s**4 + (1 - MEAN - s**2) ** 2 / DIMENSIONS, rel=0.1)
    assert found.slope_of("treatment", "race") == pytest.approx(0.04 * np.sqrt(2), rel=0.15)
    assert found.slope_of("marginal", "gender") == pytest.approx(0.04 / np.sqrt(2), rel=0.15)
    assert not found.shared_known


def test_pilot_of_names_tells_what_they_share() -> None:
    pilot, design = draw_pilot(20, 40, slope=0.02, seed=4, shared=0.5)
    found = estimate_population(pilot, design, "pilot")
    assert found.shared_known
    assert found.shared == pytest.approx(0.5, abs=0.12)
    # Names add to all formats alike, so the differences' spread over formats is not theirs.
    assert found.slope_of("treatment", "group") == pytest.approx(0.02 * np.sqrt(2), rel=0.4)


def test_small_pilot_takes_slopes_from_the_published_texts() -> None:
    pilot, design = draw_pilot(4, 6, slope=0.0, seed=5)
    found = estimate_population(pilot, design, "pilot")
    assert found.slopes == {}
    assert found.slope == PUBLISHED.slope


@given(n=st.integers(4, 30), seed=st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_split_variance_is_a_two_way_analysis_of_variance(n: int, seed: int) -> None:
    """Least squares of the pairs on their texts' indicators gives the same mean squares."""
    cosines = draw_cosines(1, n, PUBLISHED, np.random.default_rng(seed))[0]
    first, second = np.triu_indices(n, k=1)
    pairs = cosines[first, second]
    rows = np.arange(len(pairs))
    indicators = np.zeros((len(pairs), n))
    indicators[rows, first] = indicators[rows, second] = 1
    left = pairs - indicators @ np.linalg.lstsq(indicators, pairs, rcond=None)[0]
    p = left @ left / (n * (n - 3) / 2)
    explained = ((pairs - pairs.mean()) ** 2).sum() - left @ left
    z = (explained / (n - 1) - p) / (n - 2)
    sums = cosines.sum(axis=1)
    between = np.array([((sums - sums.mean()) ** 2).sum()])
    within = np.array([((pairs - pairs.mean()) ** 2).sum()])
    found = split_variance(between, within, np.array([float(n)]))
    assert found == pytest.approx((max(z, 0), p), abs=1e-12)


# ------------------------------------------------------------------------- what the search promises


def some_tests(seed: int) -> Replications:
    rng = np.random.default_rng(seed)
    error = rng.standard_normal(400) * 0.02
    return Replications(error, 0.02 * np.sqrt(rng.chisquare(12, 400) / 12), np.full(400, 12.0))


@given(
    seed=st.integers(0, 1_000),
    small=st.floats(0, 0.2),
    more=st.floats(0, 0.2),
    alpha=st.floats(1e-6, 0.5),
)
def test_power_grows_with_the_difference_and_with_the_level(seed, small, more, alpha) -> None:
    tests = some_tests(seed)
    assert tests.power(small, alpha) <= tests.power(small, 1.5 * alpha)
    right_sign = [
        np.mean([tests._margin(alpha) < d + sign * tests.error for sign in (1, -1)])
        for d in (small, small + more)
    ]
    assert right_sign[0] <= right_sign[1]
    assert tests.power(small + more, alpha) >= right_sign[1]


@given(seed=st.integers(0, 1_000), power=st.floats(0.5, 0.95), alpha=st.floats(1e-4, 0.1))
def test_smallest_difference_has_the_power_asked_for(seed, power, alpha) -> None:
    tests = some_tests(seed)
    difference = tests.smallest_difference(alpha, power)
    assert tests.power(difference, alpha) == pytest.approx(power, abs=0.005)
    assert difference <= tests.smallest_difference(alpha / 2, power)


@given(texts=st.integers(4, 40), factor=st.floats(0.1, 5))
@settings(max_examples=15, deadline=None)
def test_smallest_difference_is_in_the_units_of_the_texts(texts: int, factor: float) -> None:
    scaled = replace(
        PUBLISHED,
        typicality=PUBLISHED.typicality * factor**2,
        residual=PUBLISHED.residual * factor**2,
        slope=PUBLISHED.slope * factor,
    )
    one, other = (simulate_tests(Layout(TWO, 6, each), texts, 250) for each in (PUBLISHED, scaled))
    for kind, found in one.items():
        assert other[kind].smallest_difference() == pytest.approx(
            factor * found.smallest_difference(), rel=1e-4
        )


def test_more_texts_find_smaller_differences() -> None:
    for design in (LABELS, NAMES):
        sizes = [
            {kind: each.smallest_difference() for kind, each in found.items()}
            for found in (
                simulate_tests(Layout(design, 13, PUBLISHED), n, 1_000) for n in (6, 15, 50, 200)
            )
        ]
        for fewer, more in zip(sizes, sizes[1:], strict=False):
            assert all(more[kind] < fewer[kind] for kind in fewer)


def test_texts_needed_are_those_of_the_known_variance() -> None:
    needed = find_texts_needed(Layout(TWO, 13, PUBLISHED), 0.02, {"alone": 0.05, "many": 0.05 / 50})
    for name, quantile in (("alone", 1.960), ("many", 3.291)):
        wanted = 13 / 2 * (0.02 / (quantile + 0.8416)) ** 2
        by_hand = next(n for n in range(4, 1_000) if mean_variance(PUBLISHED, n) <= wanted)
        found = needed[name, (FIXED, "treatment", "race")]
        assert found.texts == pytest.approx(by_hand, rel=0.05, abs=1)
        assert found.reached == pytest.approx(0.8, abs=0.03)
        assert not found.is_limited


def test_random_formats_can_be_too_few_for_any_number_of_texts() -> None:
    kind = (RANDOM, "treatment", "race")
    found = find_texts_needed(Layout(TWO, 13, PUBLISHED), 0.03, {"alone": 0.05})["alone", kind]
    t = stats.nct(12, 0.03 / (PUBLISHED.slope / np.sqrt(13)))
    assert found.texts is None and found.is_limited
    assert found.limit == pytest.approx(t.sf(2.179) + t.cdf(-2.179), abs=0.02)
    assert found.reached <= found.limit + 0.01


def test_difference_beyond_the_bound_needs_more_texts_but_has_no_limit() -> None:
    kind = (FIXED, "treatment", "race")
    found = find_texts_needed(Layout(TWO, 13, PUBLISHED), 0.002, {"alone": 0.05})["alone", kind]
    assert found.texts is None and not found.is_limited
    error = np.sqrt(2 * mean_variance(PUBLISHED, 1_000) / 13)
    assert found.reached == pytest.approx(stats.norm.sf(1.96 - 0.002 / error), abs=0.025)


def test_findings_are_in_both_units_and_under_both_scopes() -> None:
    found = list_findings(Layout(LABELS, 13, PUBLISHED), 20, tests=30)
    assert len(found) == 2 * 4 * 2
    assert {each.alpha for each in found} == {0.05, 0.05 / 30}
    for each in found:
        assert each.in_sd == pytest.approx(each.difference / 0.152)
    assert {each.scope for each in list_findings(Layout(LABELS, 1, PUBLISHED), 20, 1)} == {FIXED}
    assert list_findings(Layout(LABELS, 13, PUBLISHED), 3, 1) == []
    with pytest.raises(ValueError, match="3 texts: level text needs 4"):
        simulate_tests(Layout(LABELS, 13, PUBLISHED), 3)


def test_simulation_is_the_same_each_time() -> None:
    one, other = (simulate_tests(Layout(NAMES, 5, PUBLISHED), 9, 300) for _ in range(2))
    for kind, found in one.items():
        np.testing.assert_array_equal(found.error, other[kind].error)
