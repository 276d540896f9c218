"""The charts of studies of code: similarity over the realised rate, sensitivity over decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair
import polars as pl

from llm_variability.config_code import BANDS, PARAPHRASE
from llm_variability.report.charts.drawing import (
    ANY_TOP_P,
    GREY,
    SHOWN,
    list_grid,
    specify_grid,
    specify_panels,
    specify_squares,
    title_legend,
)
from llm_variability.report.charts.explorer import TESTS, Chart, Dimension, Number, Reading
from llm_variability.report.code.figures import ALL_SETS, describe_setting
from llm_variability.report.code.heatmap import NOT_REACHED
from llm_variability.report.code.names import CODE_PREFIX, name_measure
from llm_variability.report.comparisons import Setting
from llm_variability.report.marks import star_rows

CEILING, FLOOR = "ceiling", "floor"
NO_RATE = "none"
"""Stands for the nominal rate where a curve begins, and for that of ceiling and floor."""

SUMMARY_NAMES = {
    "auc": "mean height of the curve",
    "half_life": "half-life",
    "slope": "slope over the first third",
    CEILING: "ceiling",
    FLOOR: "floor",
}
UNALTERED = "unaltered prompt"
"""Stands for the method of ceiling and floor, which come from the unaltered prompt."""

KIND_NAMES = {"set": "sets", "model": "models", "method": "methods"}
EACH = "each"
"""Stands for the model, method or set of a difference between two of them."""

_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", GREY]
"""Okabe and Ito's without black and yellow, which are lost on a dark or a light page."""
_SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down", "triangle-right"]
_OF_SERIES = "scale('color', datum.value)"
_RESCALED = ("rescaled", "rescaled_low", "rescaled_high")


@dataclass(frozen=True)
class CodeStudy:
    """What all charts of a study share.

    name: of the study. anchor: of its section. models: all, in their order. setting: shown first,
    that of the figures. stars: one of `ASTERISKS`.
    """

    name: str
    anchor: str
    models: Sequence[str]
    setting: Setting
    stars: str

    def anchor_of(self, kind: str) -> str:
        return f"{self.anchor}-chart-{kind}"


def chart_code(tables: Mapping[str, pl.DataFrame], study: CodeStudy) -> dict[str, Chart]:
    """Make all charts that the tables of one study have rows for, by kind.

    tables: `code_curves`, `code_summaries` and `code_contrasts`. Charts over temperature and top-p
    are made where there is more than one setting.
    """
    curves, summaries, contrasts = (
        tables[f"code_{name}"] for name in ("curves", "summaries", "contrasts")
    )
    made = {"curves": chart_curves(curves, study), "bands": chart_bands(curves, study)}
    if curves.select("temperature", "top_p").n_unique() > 1:
        made |= {
            "decoding": chart_decoding(curves, summaries, study),
            "contrasts": chart_differences(contrasts, study),
        }
    return {kind: chart for kind, chart in made.items() if chart is not None}


# ------------------------------------------------------------------------------ dimensions


def _measures(rows: pl.DataFrame) -> Dimension:
    listed = rows["measure"].unique(maintain_order=True).to_list()
    return Dimension("measure", "Measure", [name_measure(each) for each in listed], listed)


def _sets(rows: pl.DataFrame, one: str | None, all_together: str | None) -> Dimension:
    """Give the sets of tasks, all together first. one, all_together: what files call each."""
    there = rows["set"].unique(maintain_order=True).to_list()
    named = [each for each in there if each is not None]
    listed = [*([ALL_SETS] if None in there else []), *named]
    return Dimension(
        "set", "Tasks", listed, [all_together if each == ALL_SETS else one for each in listed]
    )


def _settings(rows: pl.DataFrame, study: CodeStudy) -> Dimension:
    """Give the settings, that of the figures first; there are no files of the others."""
    found = rows.select("temperature", "top_p").unique().rows()
    ordered = sorted(
        found,
        key=lambda each: (each != study.setting, float(each[0]), float(each[1] or 0)),
    )
    return Dimension(
        "setting",
        "Decoding",
        [describe_setting(each) for each in ordered],
        ["" if each == study.setting else None for each in ordered],
    )


def _name_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Call measure, set and setting what the switches call them."""
    settings = [describe_setting(each) for each in rows.select("temperature", "top_p").iter_rows()]
    return rows.with_columns(
        pl.col("measure").map_elements(name_measure, return_dtype=pl.String),
        pl.col("set").fill_null(ALL_SETS),
        pl.Series("setting", settings, dtype=pl.String),
    )


def _models(rows: pl.DataFrame, study: CodeStudy) -> Dimension:
    there = set(rows["model"])
    return Dimension("model", "Model", [each for each in study.models if each in there])


# ---------------------------------------------------------------------------------- curves

_POINT_NUMBERS = (
    Number("estimate", "similarity", "plain"),
    Number("ci_low", "95% interval", "plain", upto="ci_high"),
    Number("rescaled", "rescaled", "plain"),
    Number("rescaled_low", "95% interval, rescaled", "plain", upto="rescaled_high"),
)
_POINT_COUNTS = (
    Number("n_tasks", "tasks", "count"),
    Number("n_tasks_asked", "tasks asked", "count"),
    Number("n_pairs", "pairs", "count"),
)


def _readings(curves: pl.DataFrame) -> list[Reading]:
    """Give both scales; the rescaled one only where a row can be rescaled."""
    found = [
        Reading(
            "as measured",
            "similarity",
            {"value": "estimate", "low": "ci_low", "high": "ci_high"},
        )
    ]
    if curves["rescaled"].count():
        found.append(
            Reading(
                "rescaled from floor, 0, to ceiling, 1",
                "rescaled similarity",
                dict(zip(("value", "low", "high"), _RESCALED, strict=True)),
                "-rescaled",
            )
        )
    return found


def _order_rates(curves: pl.DataFrame) -> list[str]:
    return [NO_RATE, *sorted(curves["rate"].drop_nulls().unique(), key=float)]


def chart_curves(curves: pl.DataFrame, study: CodeStudy) -> Chart | None:
    """Make the chart of curves: all rows of methods with a rate, of the ceiling and the floor.

    curves: rows of `code_curves` of the study. None if no prompt was changed by a rate.
    """
    curves = curves.filter(pl.col("method").ne_missing(PARAPHRASE))
    methods = curves["method"].drop_nulls().unique(maintain_order=True).to_list()
    if not methods:
        return None
    rows = _name_rows(curves).with_columns(
        pl.col("method").fill_null(pl.col("comparison")), pl.col("rate").fill_null(NO_RATE)
    )
    references = [each for each in (CEILING, FLOOR) if each in set(rows["method"])]
    last = max(rows["realised"].drop_nulls(), default=1.0) or 1.0
    return Chart(
        anchor=study.anchor_of("curves"),
        title=f"Similarity of code by realised rate, {study.name}",
        dimensions=[
            _measures(curves),
            _sets(curves, "sets", "curves"),
            _settings(curves, study),
            _models(rows, study),
            Dimension("method", "Method", [*methods, *references]),
            Dimension("rate", "nominal rate", _order_rates(curves), named=True),
        ],
        panels=["method", "model"],
        across=["model", "method", "rate"],
        compared=["measure"],
        numbers=[*_POINT_NUMBERS, Number("realised", "realised rate", "plain"), *_POINT_COUNTS],
        words=["comparison", "reason"],
        rows=rows,
        specification=_specify_lines(
            altair.X(
                "x:Q",
                title="realised rate",
                scale=altair.Scale(nice=False, domain=[0, 1.03 * last]),
                axis=altair.Axis(tickCount=5, labelFlush=False),
            ),
            "isValid(datum.realised) ? datum.realised : toNumber(datum.rate)",
            connected=True,
        ),
        scaled="value",
        finding={"measure": "value", "along": "rate"},
        twins=f"figures/{study.name}/{CODE_PREFIX}{{measure}}-{{set}}{{setting}}{{reading}}",
        panel_width=270,
        missing="no number",
        readings=_readings(curves),
        shared={"method": references},
    )


def chart_bands(curves: pl.DataFrame, study: CodeStudy) -> Chart | None:
    """Make the chart of paraphrases: all rows of their bands, the ceiling and the floor.

    curves: rows of `code_curves` of the study. None if no prompt was reworded.
    """
    is_band = pl.col("method") == PARAPHRASE
    if not curves.filter(is_band).height:
        return None
    curves = curves.filter(is_band | pl.col("method").is_null())
    rows = _name_rows(curves).with_columns(pl.col("rate").fill_null(pl.col("comparison")))
    references = [each for each in (CEILING, FLOOR) if each in set(rows["rate"])]
    bands = [each for each in BANDS if each in set(rows["rate"])]
    return Chart(
        anchor=study.anchor_of("bands"),
        title=f"Similarity of code by diversity of the paraphrase, {study.name}",
        dimensions=[
            _measures(curves),
            _sets(curves, None, ""),
            _settings(curves, study),
            Dimension("rate", "diversity", [*bands, *references], named=True),
            _models(rows, study),
        ],
        panels=["set", "setting"],
        across=["model", "rate"],
        compared=["measure"],
        numbers=[*_POINT_NUMBERS, *_POINT_COUNTS],
        words=["comparison", "reason"],
        rows=rows,
        specification=_specify_lines(
            altair.X(
                "x:O",
                title="diversity of the paraphrase",
                scale=altair.Scale(domain=list(BANDS)),
                axis=altair.Axis(labelAngle=0),
            ),
            "datum.rate",
            connected=False,
        ),
        scaled="value",
        finding={"measure": "value", "along": "rate"},
        panel_width=270,
        missing="no number",
        readings=_readings(curves),
        shared={"rate": references},
    )


def _specify_lines(x: altair.X, place: str, *, connected: bool) -> dict[str, Any]:
    """Give points with their intervals, a colour and a shape a series, and lines of reference.

    place: expression of a row's x. connected: whether a series' points are.
    """
    room = "0.06 * (most - least) + 0.005"
    y = altair.Y(
        "value:Q",
        title=None,
        scale=altair.Scale(
            zero=False,
            nice=False,
            # A whole domain, since parts of one are sought in data, of which there may be none.
            domain=[altair.ExprRef(f"least - ({room})"), altair.ExprRef(f"most + ({room})")],
        ),
        axis=altair.Axis(tickCount=5),
    )
    order = altair.EncodingSortField("series_order", op="min")
    colour = altair.Color("series:N", sort=order, scale=altair.Scale(range=_COLOURS), legend=None)
    # One legend of both: those of two scales are not merged if their layers have other filters.
    legend = altair.Legend(title=None, symbolFillColor=altair.ExprRef(_OF_SERIES), symbolSize=90)
    shape = altair.Shape("series:N", sort=order, scale=altair.Scale(range=_SHAPES), legend=legend)
    there = altair.Chart(SHOWN).transform_filter(
        "datum.comparison == 'augmented' && isValid(datum.value)"
    )
    aside = {} if connected else {"xOffset": altair.XOffset("series:N", sort=order)}
    intervals = (
        there.transform_filter("isValid(datum.low) && isValid(datum.high)")
        .mark_rule(aria=False, clip=True, strokeWidth=1.5, opacity=0.55)
        .encode(x=x, y=altair.Y("low:Q", title=None), y2="high:Q", color=colour, **aside)
    )
    points = there.mark_point(filled=True, size=75, opacity=1, strokeWidth=1).encode(
        x=x, y=y, color=colour, shape=shape, description="say:N", **aside
    )
    lines, ends = _specify_references(y, colour)
    layers = [*lines, intervals]
    if connected:
        layers.append(
            there.mark_line(aria=False, strokeWidth=1.6).encode(x=x, y=y, color=colour, order="x:Q")
        )
    lacking = (
        altair.Chart(SHOWN)
        .transform_filter("datum.comparison == 'augmented' && !isValid(datum.value)")
        .mark_point(shape="cross", filled=True, size=60, color=GREY)
        .encode(x=x, y=altair.value("height"), description="say:N")
    )
    found = specify_panels(
        altair.LayerChart(layer=[*layers, points, lacking, *ends])
        .transform_calculate(x=place)
        .properties(width=270, height=210)
    )
    found["config"]["legend"] |= {
        "orient": "top",
        "columns": 3,
        "labelLimit": 0,
        "labelFontSize": 12,
    }
    return found


def _specify_references(
    y: altair.Y, colour: altair.Color
) -> tuple[list[altair.Chart], list[altair.Chart]]:
    """Give ceilings, dotted, and floors, dash-dotted, and marks for their numbers at the right."""
    lines, ends = [], []
    looks = {CEILING: ([2, 3], "triangle-up"), FLOOR: ([7, 3, 2, 3], "triangle-down")}
    for name, (dash, shape) in looks.items():
        for series, ink in (("isValid", colour), ("!isValid", altair.value(GREY))):
            rows = altair.Chart(SHOWN).transform_filter(
                f"datum.comparison == '{name}' && isValid(datum.value) && {series}(datum.series)"
            )
            lines.append(
                rows.mark_rule(aria=False, strokeDash=dash, strokeWidth=1.3).encode(y=y, color=ink)
            )
            ends.append(
                rows.mark_point(shape=shape, filled=True, size=60, opacity=1).encode(
                    x=altair.value("width"), y=y, color=ink, description="say:N"
                )
            )
    return lines, ends


# -------------------------------------------------------------------------------- decoding


_SQUARE = (52, 30)


def _specify_decoding(scale: altair.Scale, title: Sequence[str]) -> dict[str, Any]:
    """Give the heatmap of estimates: temperature down, top-p across."""
    # As in the static heatmap: a half-life beyond the rates that were tried says that code holds.
    lacking = f"indexof(datum.reason, '{NOT_REACHED}') == 0 ? 'not\\nreached' : '–'"
    written = "replace(format(datum.estimate, '.2f'), '-', '\N{MINUS SIGN}')"
    return specify_squares(
        specify_grid(),
        "estimate",
        f"(!isValid(datum.estimate)) ? {lacking} : {written} + datum.flag",
        scale,
        title_legend(title, format=".2f"),
        _SQUARE,
        lineBreak="\n",
        lineHeight=11,
        dy=altair.ExprRef("indexof(datum.mark, '\\n') < 0 ? 0 : -5.5"),
    )


def _square_width(rows: pl.DataFrame) -> int:
    return max(_SQUARE[0] * rows["top_p"].n_unique() + 8, 170)


def chart_decoding(curves: pl.DataFrame, summaries: pl.DataFrame, study: CodeStudy) -> Chart | None:
    """Make the heatmap of every summary, ceiling and floor over temperature x top-p.

    curves, summaries: rows of `code_curves` and `code_summaries` of the study.
    """
    if not summaries.height:
        return None
    methods = summaries["method"].unique(maintain_order=True).to_list()
    lines = curves.filter(pl.col("comparison").is_in([CEILING, FLOOR]), pl.col("method").is_null())
    references = lines.with_columns(
        pl.col("comparison").alias("summary"), pl.lit(UNALTERED).alias("method")
    )
    both = pl.concat(
        [summaries, references.select(set(references.columns) & set(summaries.columns))],
        how="diagonal",
    )
    rows = _name_rows(both).with_columns(
        pl.col("summary").replace_strict(SUMMARY_NAMES),
        pl.col("top_p").fill_null(ANY_TOP_P),
        pl.lit(None, pl.String).alias("flag"),
    )
    there = set(both["summary"])
    shown = {key: name for key, name in SUMMARY_NAMES.items() if key in there}
    files = {"auc": "auc", "half_life": "half_life", CEILING: CEILING, FLOOR: CEILING}
    return Chart(
        anchor=study.anchor_of("decoding"),
        title=f"Sensitivity of code by temperature and top-p, {study.name}",
        dimensions=[
            _measures(both),
            Dimension("summary", "Value", list(shown.values()), [files.get(key) for key in shown]),
            _sets(both, None, ""),
            _models(both, study),
            Dimension("method", "Method", [*methods, *([UNALTERED] if lines.height else [])]),
            *list_grid(both),
        ],
        panels=["method", "model"],
        across=["temperature", "top_p"],
        compared=["measure"],
        numbers=[
            Number("estimate", "value", "plain"),
            Number("ci_low", "95% interval", "plain", upto="ci_high"),
            Number("std_error", "standard error", "plain"),
            Number("n_tasks", "tasks", "count"),
        ],
        words=["flag", "reason"],
        rows=rows,
        specification=_specify_decoding(
            altair.Scale(
                scheme="cividis",
                domain=[altair.ExprRef("least"), altair.ExprRef("most")],
            ),
            ["value"],
        ),
        scaled="estimate",
        finding={"measure": "estimate", "label": "value"},
        twins=f"figures/{study.name}/{{model}}/{CODE_PREFIX}{{measure}}-{{summary}}{{set}}",
        panel_width=_square_width(rows),
        missing="no number",
    )


def chart_differences(contrasts: pl.DataFrame, study: CodeStudy) -> Chart | None:
    """Make the heatmap of every difference of sets, models and methods over temperature x top-p.

    contrasts: rows of `code_contrasts` of the study. None without one.
    """
    if not contrasts.height:
        return None
    # A contrast of sets has no set; in other kinds none stands for all sets together.
    is_of_sets = pl.col("kind") == "set"
    named = contrasts.with_columns(
        pl.format("{} – {}", "first", "second").alias("contrast"),
        pl.when(is_of_sets).then(pl.lit(EACH)).otherwise(pl.col("set")).alias("set"),
        pl.col("model").fill_null(EACH),
        pl.col("method").fill_null(
            pl.when(pl.col("kind") == "method").then(pl.lit(EACH)).otherwise(pl.lit(UNALTERED))
        ),
    )
    rows = _name_rows(named).with_columns(
        pl.col("summary").replace_strict(SUMMARY_NAMES),
        pl.col("kind").replace_strict(KIND_NAMES),
        pl.col("top_p").fill_null(ANY_TOP_P),
        star_rows(study.stars).alias("flag"),
    )

    def listed(column: str, last: Sequence[str] = ()) -> list[str]:
        found = rows[column].unique(maintain_order=True).to_list()
        return [*(each for each in found if each not in last), *(e for e in last if e in found)]

    return Chart(
        anchor=study.anchor_of("contrasts"),
        title=f"Differences in sensitivity by temperature and top-p, {study.name}",
        dimensions=[
            _measures(named),
            Dimension(
                "kind",
                "Between",
                [name for name in KIND_NAMES.values() if name in set(rows["kind"])],
            ),
            Dimension(
                "summary",
                "Value",
                [name for name in SUMMARY_NAMES.values() if name in set(rows["summary"])],
            ),
            Dimension("set", "Tasks", sorted(listed("set", [EACH]), key=lambda e: e != ALL_SETS)),
            Dimension("model", "Model", listed("model", [EACH])),
            Dimension("method", "Method", listed("method", [UNALTERED, EACH])),
            Dimension("contrast", "Difference", listed("contrast")),
            *list_grid(named),
        ],
        panels=["contrast", "method", "model"],
        across=["temperature", "top_p"],
        compared=["measure"],
        numbers=[
            Number("estimate", "difference", "plain"),
            Number("ci_low", "95% interval", "plain", upto="ci_high"),
            *TESTS,
            Number("n_tasks", "tasks", "count"),
        ],
        words=["flag", "reason"],
        rows=rows,
        specification=_specify_decoding(
            altair.Scale(
                scheme="redblue",
                reverse=True,
                domain=[altair.ExprRef("-limit"), altair.ExprRef("limit")],
            ),
            ["difference;", "red: more"],
        ),
        scaled="estimate",
        finding={
            "measure": "estimate",
            "label": "difference",
            "starred": "flag",
            "adjusted": "p_holm",
            "up": "more",
            "down": "less",
            "unit": "setting",
        },
        panel_width=_square_width(rows),
        missing="no number",
    )
