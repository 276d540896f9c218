"""What the charts of the page are made of."""

from __future__ import annotations

import itertools
import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.report.charts.explorer import Chart, Dimension, Number, round_as_written
from llm_variability.report.charts.library import library_versions, load_library
from llm_variability.report.wording import p_number, signed

MODELS, RATES = ("a", "b", "c"), ("0", "0.5")


def make_chart(rows: pl.DataFrame, **changes) -> Chart:
    parts = {
        "anchor": "chart",
        "title": "A chart",
        "dimensions": [Dimension("model", "Model", MODELS), Dimension("rate", "Rate", RATES)],
        "panels": ["model"],
        "across": ["rate"],
        "compared": [],
        "numbers": [Number("estimate", "β"), Number("low", "interval", upto="high")],
        "words": ["flag"],
        "rows": rows,
        "specification": {},
    }
    return Chart(**(parts | changes))


ROWS = pl.DataFrame(
    [
        {"model": model, "rate": rate, "estimate": at, "low": at - 1, "high": at + 1, "flag": flag}
        for at, (model, rate, flag) in enumerate(
            [("c", "0", "*"), ("a", "0.5", None), ("b", "0", "*")]
        )
    ],
    schema_overrides={"estimate": pl.Float64, "low": pl.Float64, "high": pl.Float64},
)


def test_a_rows_place_tells_its_values():
    data = make_chart(ROWS).to_json()
    order = list(itertools.product(MODELS, RATES))
    assert [order[place] for place in data["places"]] == ROWS.select("model", "rate").rows()


def test_numbers_and_words_stand_in_the_rows_order():
    columns = make_chart(ROWS).to_json()["columns"]
    assert columns["estimate"] == [0, 1, 2]
    assert (columns["low"], columns["high"]) == ([-1, 0, 1], [1, 2, 3])
    words = columns["flag"]
    assert [words["values"][code] if code >= 0 else None for code in words["codes"]] == [
        "*",
        None,
        "*",
    ]


def test_a_missing_number_stays_missing():
    rows = ROWS.with_columns(estimate=pl.lit(None, pl.Float64))
    assert make_chart(rows).to_json()["columns"]["estimate"] == [None] * 3


def test_a_value_that_no_dimension_names_is_refused():
    with pytest.raises(ValueError, match="no dimension names"):
        make_chart(ROWS.with_columns(model=pl.lit("d"))).to_json()


def test_two_rows_at_the_same_values_are_refused():
    with pytest.raises(ValueError, match="two rows"):
        make_chart(pl.concat([ROWS, ROWS])).to_json()


def test_a_format_that_the_script_does_not_know_is_refused():
    with pytest.raises(ValueError, match="none of"):
        Number("estimate", "β", "roman")


@given(st.floats(-100, 100))
def test_a_number_is_written_as_if_it_had_not_been_rounded_before(value):
    assert signed(round_as_written(value, "signed")) == signed(value)


@given(st.floats(1e-12, 1, exclude_min=True))
def test_a_p_value_keeps_its_side_and_is_written_as_if_it_had_not_been_rounded(value):
    kept = round_as_written(value, "p")
    assert (kept < 0.05) == (value < 0.05)
    assert p_number(kept) == p_number(value)


def test_the_library_is_one_script_of_a_megabyte_at_most():
    text = load_library().text
    assert "window.vegaEmbed" in text
    assert len(text) < 1_000_000
    assert set(library_versions()) == {"vega", "vega-lite", "vega-embed"}


def test_a_chart_is_json_without_surprises():
    json.loads(json.dumps(make_chart(ROWS).to_json(), allow_nan=False))
