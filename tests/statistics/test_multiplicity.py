"""Adjusted p values: against scipy, Holm's procedure step by step, and the families' borders."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from llm_variability.fits.__main__ import main
from llm_variability.fits.multiplicity import FAMILIES, adjust_p_values
from llm_variability.tables import (
    ADJUSTED,
    FITS,
    Design,
    Factor,
    read_metadata,
    read_table,
    write_table,
)


def make_fits(p_values: list[float | None], **columns: list[object] | object) -> pl.DataFrame:
    """Rows of one family unless a column says otherwise."""
    size = len(p_values)
    values: dict[str, object] = {
        **dict.fromkeys(FITS.columns),
        "study": "labels",
        "model": "a",
        "analysis": "main",
        "measure": "encoder",
        "temperature": "1",
        "top_p": "1",
        "level": "text",
        "scope": "formats fixed",
        "coding": "treatment",
        "term": [f"race[{i}]" for i in range(size)],
        "n_observations": 1,
        "n_blocks": 1,
        "backend": "jackknife",
        "converged": True,
        "p_value": p_values,
        **columns,
    }
    lists = {
        key: value if isinstance(value, list) else [value] * size for key, value in values.items()
    }
    return pl.DataFrame(lists, schema={name: column.dtype for name, column in FITS.columns.items()})


def step_down(p_values: list[float]) -> list[float]:
    """Holm's procedure as it is told: the smallest alpha at which each hypothesis is rejected."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    needed = 0.0
    for rank, at in enumerate(order):
        needed = max(needed, (len(p_values) - rank) * p_values[at])
        adjusted[at] = min(needed, 1.0)
    return adjusted.tolist()


P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(P_VALUES)
@settings(deadline=None)
def test_adjusted_values_equal_independent_ones(p_values: list[float]) -> None:
    adjusted = adjust_p_values(make_fits(list(p_values)))
    # The smallest numbers that there are have no digits left to round.
    close = {"rtol": 1e-12, "atol": 1e-300}
    np.testing.assert_allclose(adjusted["p_holm"], step_down(p_values), **close)
    np.testing.assert_allclose(adjusted["p_bh"], false_discovery_control(p_values), **close)
    assert adjusted["family_size"].to_list() == [len(p_values)] * len(p_values)


def test_published_example() -> None:
    """The fifteen p values of Benjamini and Hochberg 1995, section 4.

    They reject four hypotheses at a false discovery rate of 5%, and by Bonferroni's bound three.
    """
    p_values = [
        *[0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344],
        *[0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000],
    ]
    adjusted = adjust_p_values(make_fits(list(p_values)))
    assert (adjusted["p_bh"] < 0.05).sum() == 4
    assert (adjusted["p_holm"] < 0.05).sum() == 3


@pytest.mark.parametrize(
    ("family", "sizes"),
    [("study", [4, 4, 4, 4]), ("model", [3, 3, 3, 1]), ("setting", [2, 2, 1, 1])],
)
def test_family_that_is_named(family: str, sizes: list[int]) -> None:
    fits = make_fits(
        [0.01, 0.02, 0.03, 0.04], model=["a", "a", "a", "b"], top_p=["1", "1", None, "1"]
    )
    assert adjust_p_values(fits, family)["family_size"].to_list() == sizes


@pytest.mark.parametrize(
    ("column", "other"),
    [
        ("study", "names"),
        ("analysis", "length"),
        ("measure", "other"),
        ("level", "cell"),
        ("scope", "formats random"),
        ("coding", "marginal"),
    ],
)
def test_other_ways_to_test_are_families_of_their_own(column: str, other: str) -> None:
    fits = make_fits([0.01, 0.04], **{column: [make_fits([0.5])[column][0], other]})
    adjusted = adjust_p_values(fits)
    assert adjusted["family_size"].to_list() == [1, 1]
    assert adjusted["p_holm"].to_list() == [0.01, 0.04]


def test_marginal_contrasts_and_interactions_share_a_family() -> None:
    fits = make_fits([0.01, 0.04], coding=["marginal", "interaction"])
    assert adjust_p_values(fits)["p_holm"].to_list() == [0.02, 0.04]


def test_intercepts_and_failed_fits_count_in_no_family() -> None:
    fits = make_fits([0.0, 0.04, None], term=["Intercept", "race[x]", None])
    adjusted = adjust_p_values(fits)
    assert adjusted["family_size"].to_list() == [None, 1, None]
    assert adjusted["p_holm"].to_list() == [None, 0.04, None]


def test_rows_keep_their_order_and_columns() -> None:
    fits = make_fits([0.04, 0.01, 0.03], model=["b", "a", "b"])
    adjusted = adjust_p_values(fits, "model")
    assert adjusted.columns == list(ADJUSTED.columns)
    assert adjusted.select(*FITS.columns).equals(fits)


def test_nothing_to_adjust() -> None:
    assert adjust_p_values(make_fits([])).schema == {
        name: column.dtype for name, column in ADJUSTED.columns.items()
    }
    assert adjust_p_values(make_fits([None])).height == 1


def test_unknown_family() -> None:
    with pytest.raises(ValueError, match="family: 'grid' is none of study, model, setting"):
        adjust_p_values(make_fits([0.5]), "grid")
    assert set(FAMILIES) == {"study", "model", "setting"}


def write_fits(path: Path, study: str, model: str, p_values: list[float | None]) -> None:
    design = Design("format", (Factor("race", ("x", "y"), "x"),))
    fits = make_fits(p_values, study=study, model=model)
    write_table(fits, path, FITS, {"study": study, "design": design.to_json()})


def adjust(monkeypatch: pytest.MonkeyPatch, *paths: Path) -> None:
    files = [str(path) for path in paths[:-1]]
    command = ["", "adjust", "--family", "study", "--fits", *files, "--output", str(paths[-1])]
    monkeypatch.setattr(sys, "argv", command)
    main()


def test_command_adjusts_over_all_models_of_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for model, p in (("a", 0.01), ("b", 0.04)):
        write_fits(tmp_path / f"{model}.parquet", "labels", model, [p])
    output = tmp_path / "adjusted.parquet"
    adjust(monkeypatch, tmp_path / "a.parquet", tmp_path / "b.parquet", output)
    assert read_table(output, ADJUSTED)["p_holm"].to_list() == [0.02, 0.04]
    assert read_metadata(output)["family"] == "study"


def test_command_refuses_fits_of_several_studies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for study in ("labels", "names"):
        write_fits(tmp_path / f"{study}.parquet", study, "a", [0.01])
    paths = [tmp_path / f"{name}.parquet" for name in ("labels", "names", "adjusted")]
    with pytest.raises(SystemExit):
        adjust(monkeypatch, *paths)
    assert "fits of several studies: labels, names" in caplog.text
    assert not paths[-1].exists()
