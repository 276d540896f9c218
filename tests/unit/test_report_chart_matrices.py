"""The charts of personas: every row of the tables, with the numbers of the row."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import polars as pl
import pytest

import persona_inputs as inputs
from llm_variability.report.charts.explorer import Chart
from llm_variability.report.charts.matrices import (
    ALL,
    OTHERS,
    PersonaStudy,
    chart_confusions,
    chart_contrasts,
    chart_features,
    chart_leakage,
    chart_personas,
    chart_similarity,
)
from llm_variability.report.personas.schemas import PERSONA_SCHEMAS

NAMES = {f"{role}-male": label for role, label in inputs.LABELS.items()}
STUDY = PersonaStudy("personas", "study-personas", NAMES, ("1.0", "1.0"), "unadjusted")
TABLES = ("persona_separation", "persona_means", "persona_leakage", "persona_confusions")
EVERY = "every prompt"
SHOWN = "temperature 1.0, top-p 1.0"


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, pl.DataFrame]:
    """The CSV files that lie beside the page."""
    folder = tmp_path_factory.mktemp("results")
    inputs.write_persona_results(folder)
    inputs.make_persona_report(folder, suffixes=())
    return {
        name: pl.read_csv(folder / f"tables/{name}.csv", schema=PERSONA_SCHEMAS[name])
        for name in TABLES
    }


def read_chart(chart: Chart | None) -> pl.DataFrame:
    """The chart's rows as a reader sees them, from what the script reads."""
    assert chart is not None
    data = chart.to_json()
    keys = [each["key"] for each in data["dimensions"]]
    order = list(itertools.product(*(each["values"] for each in data["dimensions"])))
    rows = [dict(zip(keys, order[place], strict=True)) for place in data["places"]]
    frame = pl.DataFrame(rows)
    for key, column in data["columns"].items():
        values = column
        if key in data["words"]:
            values = [column["values"][code] if code >= 0 else None for code in column["codes"]]
        frame = frame.with_columns(pl.Series(key, values, strict=False))
    return frame


def rounded(column: pl.Series, decimals: int = 3) -> list[float]:
    return sorted(round(value, decimals) for value in column.drop_nulls())


def only(rows: pl.DataFrame, **where: str) -> dict:
    (row,) = rows.filter(*(pl.col(key) == value for key, value in where.items())).rows(named=True)
    return row


def test_every_contrast_is_in_the_chart_once(tables):
    table, shown = (
        tables["persona_separation"],
        read_chart(chart_contrasts(tables[TABLES[0]], STUDY)),
    )
    assert shown.height == table.height
    for name in ("difference", "ci_low", "ci_high", "within", "between", "same_prompt"):
        assert rounded(shown[name]) == rounded(table[name])
    assert shown["n_pairs"].sum() == table["n_pairs"].sum()


def test_a_contrast_has_the_numbers_of_its_row(tables):
    shown = read_chart(chart_contrasts(tables["persona_separation"], STUDY))
    place = {"model": "model-b", "measure": "encoder-a", "setting": SHOWN, "variant": EVERY}
    # The third of the six pairs has a difference of 0.06 +- 0.04 and p 0.6 / 9.
    row = only(shown, contrast="junior engineer – astrophysicist", **place)
    assert (row["difference"], row["ci_low"], row["ci_high"]) == (0.06, 0.02, 0.1)
    assert (row["p_value"], row["flag"]) == (0.067, None)
    assert only(shown, contrast=ALL, **place)["difference"] == 0.05
    assert only(shown, contrast="brief/bike-shop", **place)["p_value"] == 0.01
    assert only(shown, contrast=f"astrophysicist – {OTHERS}", **place)["p_value"] == 0.03


def test_a_contrast_that_is_not_tested_says_why(tables):
    shown = read_chart(chart_contrasts(tables["persona_separation"], STUDY))
    sampled = shown.filter(pl.col("variant") != EVERY)
    assert sampled.height == 2 * len(inputs.SETTINGS) * len(inputs.MEASURES)
    assert sampled["difference"].null_count() == sampled.height
    assert all(text.startswith("one prompt a persona") for text in sampled["reason"])


def test_asterisks_are_by_the_adjustment_that_was_asked_for(tables):
    starred = {
        stars: read_chart(
            chart_contrasts(tables["persona_separation"], replace(STUDY, stars=stars))
        )["flag"].count()
        for stars in ("unadjusted", "holm")
    }
    table = tables["persona_separation"]
    assert starred["unadjusted"] == (table["p_value"] < 0.05).sum()
    assert starred["holm"] == (table["p_holm"] < 0.05).sum()
    assert starred["unadjusted"] > starred["holm"] > 0


def test_the_matrix_has_each_persona_and_each_two_once_below_the_diagonal(tables):
    table = tables["persona_separation"].filter(pl.col("first").is_not_null())
    shown = read_chart(chart_similarity(table, STUDY))
    assert shown.height == table.height
    order = list(NAMES.values())
    assert all(
        order.index(row) >= order.index(column)
        for row, column in shown.select("row", "column").iter_rows()
    )


def test_a_cell_is_what_lies_within_one_or_between_two(tables):
    shown = read_chart(chart_similarity(tables["persona_separation"], STUDY))
    one = pl.col("row") == pl.col("column")
    assert set(shown.filter(one, model="model-a")["similarity"]) == {inputs.WITHIN["model-a"]}
    assert set(shown.filter(~one)["similarity"]) == {inputs.BETWEEN}
    # Asterisks tell of two personas: of p 0.6 / n^2 the fourth to the sixth.
    assert shown.filter(one)["flag"].count() == 0
    cells = len(inputs.SETTINGS) * len(inputs.MEASURES) * 2
    assert shown.filter(~one)["flag"].count() == 3 * cells


def test_what_lies_between_two_personas_is_found_though_one_has_too_few_prompts(tables):
    two = list(NAMES)[:2]
    rows = tables["persona_separation"].filter(
        pl.col("first").is_in(two), pl.col("second").is_null() | (pl.col("second") == two[1])
    )
    without = rows.with_columns(
        pl.when(pl.col("second").is_null())
        .then(pl.col("between") + 0.1)
        .otherwise(None)
        .alias("between")
    )
    shown = read_chart(chart_similarity(without, STUDY))
    pairs = shown.filter(pl.col("row") != pl.col("column"))
    assert set(pairs["similarity"]) == {0.6}
    assert pairs["between"].null_count() == pairs.height


def test_every_mean_of_a_feature_is_in_one_of_two_charts(tables):
    means = tables["persona_means"]
    of_prompts = pl.col("model").is_null()
    for rows in (means.filter(of_prompts), means.filter(~of_prompts)):
        shown = read_chart(chart_features(rows, STUDY))
        assert shown.height == rows.height
        for name in ("mean", "ci_low", "ci_high"):
            assert rounded(shown[name], 2) == rounded(rows[name], 2)


def test_a_mean_is_set_apart_by_the_spread_of_its_feature(tables):
    """Four means at -0.75, -0.25, 0.25 and 0.75 from theirs have a deviation of sqrt(0.3125)."""
    means = tables["persona_means"].filter(pl.col("model").is_not_null())
    shown = read_chart(chart_features(means, STUDY))
    rows = shown.filter(feature="loops", model="model-a", setting=SHOWN)
    expected = [step / math.sqrt(0.3125) for step in (-0.75, -0.25, 0.25, 0.75)]
    assert rows["standardised"].to_list() == pytest.approx(expected, abs=0.005)


def test_a_feature_without_numbers_stays_in_the_chart_and_says_why(tables):
    means = tables["persona_means"].filter(pl.col("model").is_not_null())
    rows = read_chart(chart_features(means, STUDY)).filter(feature="type hints")
    assert rows.height == 2 * len(inputs.SETTINGS) * len(NAMES)
    assert set(rows["mark"]) == {"–"} and rows["standardised"].null_count() == rows.height
    assert set(rows["reason"]) == {"no task in which every persona has"}


def test_a_share_is_written_in_percent_in_its_cell(tables):
    prompts = tables["persona_means"].filter(pl.col("model").is_null())
    row = only(
        read_chart(chart_features(prompts, STUDY)),
        feature="questions, share of sentences",
        persona="English teacher",
    )
    assert (row["mean"], row["mark"], row["flag"]) == (0.6, "60%", "*")


def test_every_classifier_is_in_the_chart_once(tables):
    table, shown = tables["persona_leakage"], read_chart(chart_leakage(tables[TABLES[2]], STUDY))
    assert shown.height == table.height
    row = only(shown, model="model-a", features="tokens", setting=SHOWN)
    assert (row["accuracy"], row["chance"], row["permuted_high"]) == (0.5, 0.25, 0.375)
    assert (row["p_value"], row["flag"]) == (0.005, "*")


def test_a_reason_calls_personas_as_the_reader_does(tables):
    reason = "left out, with programs in fewer than two iterations: english-teacher-male"
    rows = tables["persona_leakage"].with_columns(reason=pl.lit(reason))
    told = set(read_chart(chart_leakage(rows, STUDY))["reason"])
    assert told == {reason.replace("english-teacher-male", "English teacher")}


def test_guesses_are_shares_of_those_who_asked(tables):
    table = tables["persona_confusions"]
    shown = read_chart(chart_confusions(table, STUDY))
    assert shown["programs"].sum() == table["programs"].sum()
    # Six right and two for each of three others are 12.
    assert set(shown.filter(pl.col("persona") == pl.col("guessed"))["share"]) == {0.5}
    sums = shown.group_by("model", "setting", "features", "persona").agg(pl.col("share").sum())
    assert sums["share"].to_list() == pytest.approx([1.0] * sums.height, abs=0.002)


def test_the_setting_of_the_figures_is_first_and_only_it_has_files(tables):
    for chart in chart_personas(tables, STUDY).values():
        data = chart.to_json()
        settings = [each for each in data["dimensions"] if each["key"] == "setting"]
        for each in settings:
            assert each["values"] == [SHOWN, "temperature 0"]
            assert each["files"] == ["", None]


def test_two_personas_that_would_be_called_alike_keep_their_own_names(tables):
    alike = replace(STUDY, levels=NAMES | {"astrophysicist-male": "English teacher"})
    shown = read_chart(chart_similarity(tables["persona_separation"], alike))
    assert {inputs.TEACHER, "astrophysicist-male"} < set(shown["row"])


def test_tables_without_rows_make_no_chart(tables):
    assert chart_personas({name: table.clear() for name, table in tables.items()}, STUDY) == {}
