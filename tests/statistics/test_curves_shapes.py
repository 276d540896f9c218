"""Area, half-life and slope of curves, against numpy, closed forms and published curves."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.curves.shapes import half_life, initial_slope, mean_height
from llm_variability.curves.traces import summarise

HEIGHT = st.floats(-0.2, 1.2)


def make_curve(rates: list[float], heights: list[float]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([[0.0, *rates]]), np.array([[1.0, *heights]])


@given(st.lists(st.tuples(st.floats(0.01, 0.3), HEIGHT), min_size=1, max_size=8), st.floats(0.1, 1))
def test_the_area_is_numpys_trapezoid_over_the_curve_cut_at_its_end(
    steps: list[tuple[float, float]], share: float
) -> None:
    rates, heights = make_curve(
        list(np.cumsum([step for step, _ in steps])), [height for _, height in steps]
    )
    end = share * rates[0, -1]
    grid = np.union1d(rates[0][rates[0] < end], [end])
    theirs = np.trapezoid(np.interp(grid, rates[0], heights[0]), grid) / end
    assert mean_height(rates, heights, np.array([end]))[0] == pytest.approx(theirs)


def test_the_area_of_a_dense_exponential_is_its_integral() -> None:
    grid = np.linspace(0, 1, 2001)[1:]
    rates, heights = make_curve(list(grid), list(np.exp(-3 * grid)))
    area = mean_height(rates, heights, rates[:, -1])[0]
    assert area == pytest.approx((1 - np.exp(-3)) / 3, rel=1e-5)


def test_the_half_life_of_a_straight_line_is_half_way() -> None:
    assert half_life(*make_curve([1.0], [0.0]))[0] == pytest.approx(0.5)


def test_the_half_life_of_a_dense_exponential_is_log_2_over_its_decay() -> None:
    grid = np.linspace(0, 1, 2001)[1:]
    found = half_life(*make_curve(list(grid), list(np.exp(-3 * grid))))[0]
    assert found == pytest.approx(np.log(2) / 3, rel=1e-5)


def test_the_half_life_is_the_first_of_several_crossings() -> None:
    # From 0.8 at 0.2 to 0.4 at 0.4: a half at 0.35; it is above a half again later.
    found = half_life(*make_curve([0.2, 0.4, 0.6, 0.8], [0.8, 0.4, 0.7, 0.1]))[0]
    assert found == pytest.approx(0.35)


def test_a_curve_at_exactly_a_half_has_reached_it() -> None:
    assert half_life(*make_curve([0.3, 0.6], [0.5, 0.9]))[0] == pytest.approx(0.3)


def test_a_curve_that_stays_above_a_half_has_an_infinite_half_life() -> None:
    assert np.isinf(half_life(*make_curve([0.3, 1.0], [0.8, 0.51]))[0])


@given(st.lists(HEIGHT, min_size=3, max_size=3))
def test_the_slope_is_numpys_least_squares_through_the_fixed_point(first: list[float]) -> None:
    rates, heights = make_curve([0.1, 0.2, 0.3, 0.9], [*first, 0.0])
    used = np.array([False, True, True, True, False])
    theirs = np.linalg.lstsq(rates[0, 1:4, None], heights[0, 1:4] - 1, rcond=None)[0][0]
    assert initial_slope(rates, heights, used)[0] == pytest.approx(theirs, abs=1e-12)


def test_curves_are_taken_each_by_itself() -> None:
    rates, heights = (
        np.vstack(each)
        for each in zip(make_curve([0.5], [0.2]), make_curve([0.8], [0.9]), strict=True)
    )
    used = np.array([False, True])
    found = summarise((rates, heights), used)
    assert found["auc"] == pytest.approx([0.6, 0.95])
    assert found["half_life"] == pytest.approx([0.3125, np.inf])
    assert found["slope"] == pytest.approx([-1.6, -0.125])


# ----------------------------------------------------------------------- the published curves

TABLES = os.environ.get("CODE_SENSITIVITY_TABLES")

needs_tables = pytest.mark.skipif(
    TABLES is None, reason="CODE_SENSITIVITY_TABLES names no folder of published means"
)

FLOOR = 0.25
"""About where published curves of unreadable prompts end: the published study has no floor."""


def read_published(name: str, *keys: str) -> dict[tuple[str, ...], dict[str, float]]:
    """Summarise each published mean curve, and give its mean at rate 0.6."""
    table = pl.read_csv(Path(str(TABLES)) / name).filter(pl.col("method") != "paraphraser")
    found = {}
    for key, part in table.sort("rate").group_by(*keys):
        rates, means = part["rate"].to_numpy(), part["mean"].to_numpy()
        heights = (means - FLOOR) / (means[0] - FLOOR)
        used = (rates > 0) & (rates < 0.34)
        numbers = summarise((rates[None], heights[None]), used)
        found[tuple(map(str, key))] = {name: float(each[0]) for name, each in numbers.items()} | {
            "at 0.6": float(np.interp(0.6, rates, means)),
            "least": float(means.min()),
        }
    return found


@needs_tables
def test_published_typing_errors_make_code_change_faster_than_synonyms() -> None:
    curves = read_published("published_tsed_by_method_model_rate.csv", "method", "model")
    for model in ("claude", "gemini", "llama", "openai"):
        typed, reworded = curves["keyboard", model], curves["synonym", model]
        assert typed["auc"] < reworded["auc"]
        assert typed["half_life"] < reworded["half_life"]
        assert typed["half_life"] < 0.6
        assert typed["at 0.6"] == pytest.approx(0.3, abs=0.1)


@needs_tables
def test_published_gemini_is_the_one_that_synonyms_never_bring_below_0_6() -> None:
    curves = read_published("published_tsed_by_method_model_rate.csv", "method", "model")
    least = {
        model: each["least"] for (method, model), each in curves.items() if method == "synonym"
    }
    assert [model for model, value in least.items() if value > 0.6] == ["gemini"]
    assert np.isinf(curves["synonym", "gemini"]["half_life"])


@needs_tables
def test_published_code_for_older_tasks_changes_more_slowly() -> None:
    curves = read_published(
        "published_tsed_by_method_dataset_model_rate.csv", "method", "dataset", "model"
    )
    for model in ("claude", "gemini", "llama", "openai"):
        old, new, ours = (
            curves["keyboard", f"{name}.json", model]["auc"]
            for name in ("oldleetcode", "newleetcode", "ourdataset")
        )
        assert old > new > ours
