"""The charts of studies of code: every row of the tables, with its numbers and its labels."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import code_inputs as inputs
from llm_variability.report.charts.curves import (
    ALL_SETS,
    EACH,
    KIND_NAMES,
    NO_RATE,
    SUMMARY_NAMES,
    UNALTERED,
    CodeStudy,
    chart_code,
    chart_curves,
)
from llm_variability.report.charts.explorer import Chart
from llm_variability.report.code.schemas import CODE_SCHEMAS
from llm_variability.report.summaries import read_tables

MODELS = ("model-a", "model-b")
STUDY = CodeStudy("code", "study-code", MODELS, ("0", None), "unadjusted")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    inputs.write_code_results(folder, models=MODELS)
    inputs.make_code_report(folder)
    return folder


@pytest.fixture(scope="module")
def tables(folder) -> dict[str, pl.DataFrame]:
    return read_tables(sorted((folder / "tables").glob("code_*.csv")), CODE_SCHEMAS)


@pytest.fixture(scope="module")
def charts(tables) -> dict[str, Chart]:
    return chart_code(tables, STUDY)


def decode(chart: Chart) -> pl.DataFrame:
    """The chart's rows as a reader sees them, from what the script reads."""
    data = chart.to_json()
    keys = [each["key"] for each in data["dimensions"]]
    order = list(itertools.product(*(each["values"] for each in data["dimensions"])))
    rows = pl.DataFrame([dict(zip(keys, order[place], strict=True)) for place in data["places"]])
    columns = {}
    for number in data["numbers"]:
        for key in (number["key"], number.get("upto")):
            if key:
                columns[key] = pl.Series(key, data["columns"][key], dtype=pl.Float64)
    for key in data["words"]:
        words = data["columns"][key]
        columns[key] = pl.Series(
            key, [words["values"][code] if code >= 0 else None for code in words["codes"]],
            dtype=pl.String,
        )  # fmt: skip
    return rows.with_columns(*columns.values())


def name_setting(row: dict[str, Any]) -> str:
    if row["top_p"] is None:
        return f"temperature {row['temperature']}"
    return f"temperature {row['temperature']}, top-p {row['top_p']}"


NAMES = {"tsed": "TSED", "encoder-a": "encoder-a"}


def written(value: float | None, decimals: int = 3) -> str:
    return "none" if value is None else f"{value:.{decimals}f}".replace("-0.000", "0.000")


def told(row: dict[str, Any], *keys: str) -> tuple[str, ...]:
    return tuple(written(row[key]) for key in keys)


POINT = ("estimate", "ci_low", "ci_high", "rescaled", "rescaled_low", "rescaled_high", "n_tasks",
         "n_tasks_asked", "n_pairs")  # fmt: skip


def test_every_point_ceiling_and_floor_is_in_the_chart_of_curves_once(charts, tables):
    curves = tables["code_curves"].filter(pl.col("method").ne_missing("paraphrase"))
    expected = sorted(
        (
            NAMES[row["measure"]],
            row["set"] or "all sets",
            name_setting(row),
            row["model"],
            row["method"] or row["comparison"],
            row["rate"] or "none",
            *told(row, *POINT, "realised"),
        )
        for row in curves.iter_rows(named=True)
    )
    keys = ("measure", "set", "setting", "model", "method", "rate")
    shown = decode(charts["curves"])
    found = sorted(
        (*(row[key] for key in keys), *told(row, *POINT, "realised"))
        for row in shown.iter_rows(named=True)
    )
    assert found == expected
    assert (ALL_SETS, NO_RATE) == ("all sets", "none")


def test_every_band_of_paraphrases_is_in_its_chart_once(charts, tables):
    bands = tables["code_curves"].filter(
        (pl.col("method") == "paraphrase") | pl.col("method").is_null()
    )
    expected = sorted(
        (
            NAMES[row["measure"]],
            row["set"] or "all sets",
            name_setting(row),
            row["rate"] or row["comparison"],
            row["model"],
            *told(row, *POINT),
        )
        for row in bands.iter_rows(named=True)
    )
    keys = ("measure", "set", "setting", "rate", "model")
    shown = decode(charts["bands"])
    assert expected == sorted(
        (*(row[key] for key in keys), *told(row, *POINT)) for row in shown.iter_rows(named=True)
    )


def test_every_summary_is_in_the_heatmap_once_and_so_are_ceiling_and_floor(charts, tables):
    lines = tables["code_curves"].filter(pl.col("method").is_null())
    expected = sorted(
        (
            NAMES[row["measure"]],
            SUMMARY_NAMES[row.get("summary") or row["comparison"]],
            row["set"] or "all sets",
            row["model"],
            row["method"] or UNALTERED,
            row["temperature"],
            row["top_p"] or "any",
            *told(row, "estimate", "ci_low", "ci_high", "n_tasks"),
        )
        for table in (tables["code_summaries"], lines)
        for row in table.iter_rows(named=True)
    )
    keys = ("measure", "summary", "set", "model", "method", "temperature", "top_p")
    shown = decode(charts["decoding"])
    assert expected == sorted(
        (*(row[key] for key in keys), *told(row, "estimate", "ci_low", "ci_high", "n_tasks"))
        for row in shown.iter_rows(named=True)
    )


def test_every_contrast_is_in_its_heatmap_once_with_its_p_values(charts, tables):
    held = {"set": "all sets", "model": EACH, "method": UNALTERED}
    expected = []
    for row in tables["code_contrasts"].iter_rows(named=True):
        fixed = {key: row[key] or missing for key, missing in held.items()}
        fixed[row["kind"]] = EACH
        expected.append(
            (
                NAMES[row["measure"]],
                KIND_NAMES[row["kind"]],
                SUMMARY_NAMES[row["summary"]],
                *fixed.values(),
                f"{row['first']} – {row['second']}",
                row["temperature"],
                row["top_p"] or "any",
                *told(row, "estimate", "ci_low", "ci_high"),
                *(written(row[key], 5) for key in ("p_value", "p_holm", "p_bh")),
                "*" if row["p_value"] is not None and row["p_value"] < 0.05 else None,
            )
        )
    keys = ("measure", "kind", "summary", "set", "model", "method", "contrast", "temperature",
            "top_p")  # fmt: skip
    found = [
        (
            *(row[key] for key in keys),
            *told(row, "estimate", "ci_low", "ci_high"),
            *(written(row[key], 5) for key in ("p_value", "p_holm", "p_bh")),
            row["flag"],
        )
        for row in decode(charts["contrasts"]).iter_rows(named=True)
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_a_missing_number_says_why(charts, tables):
    reasons = set(tables["code_summaries"]["reason"].drop_nulls())
    shown = decode(charts["decoding"])
    lacking = shown.filter(pl.col("estimate").is_null())
    assert lacking.height
    assert set(lacking["reason"]) <= reasons


def test_asterisks_follow_the_adjusted_p_values_if_they_are_chosen(tables):
    contrasts = tables["code_contrasts"].with_columns(p_holm=pl.lit(0.9))
    adjusted = CodeStudy("code", "study-code", MODELS, ("0", None), "holm")
    charts = chart_code(tables | {"code_contrasts": contrasts}, adjusted)
    assert decode(charts["contrasts"])["flag"].null_count() == contrasts.height


def test_the_setting_of_the_figures_is_shown_first_and_has_files_alone(charts):
    (setting,) = [each for each in charts["curves"].dimensions if each.key == "setting"]
    assert setting.values[0] == "temperature 0"
    assert setting.files == ["", None, None, None, None]


def test_the_files_that_charts_name_are_there(charts, folder):
    for kind in ("curves", "decoding"):
        chart = charts[kind]
        choices = itertools.product(
            *(
                [(each.key, name) for name in (each.files or each.values) if name is not None]
                for each in chart.dimensions
                if f"{{{each.key}}}" in str(chart.twins)
            )
        )
        readings = [each.file for each in chart.readings] or [""]
        for choice, reading in itertools.product(choices, readings):
            path = str(chart.twins).replace("{reading}", reading)
            for key, name in choice:
                path = path.replace(f"{{{key}}}", name)
            assert (folder / f"{path}.svg").is_file(), path


def test_over_one_setting_there_is_no_chart_of_decoding(tables):
    greedy = {
        name: table.filter(pl.col("temperature") == "0")
        for name, table in tables.items()
        if "temperature" in table.columns
    }
    assert set(chart_code(greedy, STUDY)) == {"curves", "bands"}


def test_without_a_changed_prompt_there_is_no_chart_of_curves(tables):
    assert chart_curves(tables["code_curves"].filter(pl.col("method").is_null()), STUDY) is None


def test_without_a_rescaled_row_there_is_one_way_to_read_the_curves(tables):
    curves = tables["code_curves"].with_columns(rescaled=pl.lit(None, pl.Float64))
    chart = chart_curves(curves, STUDY)
    assert chart is not None
    assert [each.label for each in chart.readings] == ["as measured"]
