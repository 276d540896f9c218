"""The chart of estimates: every estimate of the tables, and every fit that could not be made."""

from __future__ import annotations

import itertools

import polars as pl
import pytest

import report_inputs as inputs
from llm_variability.report.charts.estimates import chart_estimates
from llm_variability.report.marks import mark_estimates
from llm_variability.report.wording import signed
from llm_variability.tables import ADJUSTED, Design, read_design, read_table


@pytest.fixture(scope="module")
def adjusted(tmp_path_factory) -> tuple[pl.DataFrame, Design]:
    folder = tmp_path_factory.mktemp("results")
    inputs.write_results(
        folder,
        models=["tiny-model", "other-model"],
        encoders=["encoder-a"],
        grid=(("0", "0.5", "2.0"), ("0.2", "1.0")),
    )
    path = folder / "adjusted/labels.parquet"
    rows = read_table(path, ADJUSTED).filter(pl.col("analysis") == "main")
    return mark_estimates(rows), read_design(path)


@pytest.fixture(scope="module")
def shown(adjusted) -> pl.DataFrame:
    """The chart's rows as a reader sees them, from what the script reads."""
    chart = chart_estimates(*adjusted, "labels", "labels-estimates", "figures/labels")
    assert chart is not None
    data = chart.to_json()
    keys = [each["key"] for each in data["dimensions"]]
    order = list(itertools.product(*(each["values"] for each in data["dimensions"])))
    rows = [dict(zip(keys, order[place], strict=True)) for place in data["places"]]
    numbers = {key: data["columns"][key] for key in ("estimate", "ci_low", "p_holm")}
    return pl.DataFrame(rows).with_columns(
        *(pl.Series(key, values, dtype=pl.Float64) for key, values in numbers.items())
    )


def contrasts(adjusted: pl.DataFrame) -> pl.DataFrame:
    return adjusted.filter(
        pl.col("term").is_not_null(), pl.col("term") != "Intercept", pl.col("temperature") != "0"
    )


def test_every_estimate_is_in_the_chart_once(adjusted, shown):
    there = shown.filter(pl.col("estimate").is_not_null())
    expected = contrasts(adjusted[0])["estimate"].drop_nulls()
    assert sorted(map(signed, there["estimate"])) == sorted(map(signed, expected))


def test_a_fit_that_could_not_be_made_is_there_for_every_contrast_of_its_level(adjusted, shown):
    frame, _ = adjusted
    failed = frame.filter(pl.col("term").is_null(), pl.col("temperature") != "0")
    assert failed.height
    by_level = (
        contrasts(frame)
        .select("level", "scope", "coding", "term")
        .unique()
        .group_by("level", "scope")
        .len()
    )
    expected = failed.join(by_level, on=["level", "scope"], nulls_equal=True)["len"].sum()
    assert shown["estimate"].null_count() == expected


def test_a_square_has_the_numbers_of_its_row(adjusted, shown):
    frame, _ = adjusted
    row = frame.filter(
        pl.col("model") == "other-model",
        pl.col("temperature") == "2.0",
        pl.col("top_p") == "1.0",
        pl.col("scope") == "formats random",
        pl.col("coding") == "marginal",
        pl.col("term") == "race[Asian]",
    ).row(0, named=True)
    (found,) = shown.filter(
        pl.col("model") == "other-model",
        pl.col("temperature") == "2.0",
        pl.col("top_p") == "1.0",
        pl.col("level") == "text level, formats random",
        pl.col("coding") == "averaged over other factors",
        pl.col("contrast") == "Asian (vs. White)",
    ).rows(named=True)
    assert (signed(found["estimate"]), signed(found["ci_low"])) == (
        signed(row["estimate"]),
        signed(row["ci_low"]),
    )


def test_nothing_stands_where_nothing_is_fitted_by_design(shown):
    assert "0" not in set(shown["temperature"])


def test_without_a_single_fit_there_is_no_chart(adjusted):
    frame, design = adjusted
    failed = frame.filter(pl.col("term").is_null())
    assert chart_estimates(failed, design, "labels", "anchor", "figures") is None
