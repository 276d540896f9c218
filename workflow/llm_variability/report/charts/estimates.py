"""The chart of contrasts: every estimate of a study of groups over temperature x top-p."""

from __future__ import annotations

from typing import Any

import altair
import polars as pl

from llm_variability.report.charts.explorer import Chart, Dimension, Number
from llm_variability.report.contrasts import STARRED, is_anchor, list_contrasts
from llm_variability.report.level_tests import (
    LEVEL_TESTS,
    MARGINAL,
    PAIRWISE,
    PUBLISHED,
    LevelTest,
    in_codings,
    lead_coding,
    list_views,
    of_test,
)
from llm_variability.tables import Design

ANY_TOP_P = "any"
"""Stands for top-p at temperature 0, where it has no effect."""

CODINGS = {True: "averaged over other factors", False: "published coding"}
"""Names of both ways to take contrasts, by whether they are marginal."""

_CELL = {"width": 48, "height": 30}


def _specify() -> dict[str, Any]:
    """Give the heatmap: temperature down, top-p across, a panel a contrast or a model."""
    empty = "!isValid(datum.estimate)"
    base = altair.Chart(altair.NamedData("shown")).encode(
        x=altair.X(
            "top_p:O",
            sort=altair.EncodingSortField("top_p_order", op="min"),
            title="top-p",
            axis=altair.Axis(labelAngle=0),
        ),
        y=altair.Y(
            "temperature:O",
            sort=altair.EncodingSortField("temperature_order", op="min"),
            title="temperature",
            axis=altair.Axis(
                titleAngle=0, titleAlign="right", titleAnchor="start", titleY=-8, titleX=-6
            ),
        ),
    )
    squares = base.mark_rect(stroke="white", strokeWidth=1.5, invalid="show").encode(
        color=altair.condition(
            empty,
            altair.value("#8a93a3"),
            altair.Color(
                "estimate:Q",
                scale=altair.Scale(
                    scheme="redblue",
                    reverse=True,
                    domainMid=0,
                    domainMin=altair.ExprRef("-limit"),
                    domainMax=altair.ExprRef("limit"),
                ),
                legend=altair.Legend(
                    title=["β; red: more", "homogeneous"], format="+.2f", gradientLength=110
                ),
            ),
        ),
        description="say:N",
    )
    dark = "isValid(datum.estimate) && luminance(scale('color', datum.estimate)) < 0.19"
    numbers = base.mark_text(fontSize=11, aria=False, invalid="show").encode(
        text="mark:N",
        color=altair.condition(dark, altair.value("#ffffff"), altair.value("#1d2433")),
    )
    layers = (squares + numbers).transform_calculate(
        mark=f"({empty}) ? '–' : replace(format(datum.estimate, '.2f'), '-', '−') + datum.flag"
    )
    chart = layers.properties(
        width=altair.Step(_CELL["width"]), height=altair.Step(_CELL["height"])
    ).facet(
        facet=altair.Facet(
            "panel:N",
            sort=altair.EncodingSortField("panel_order", op="min"),
            title=None,
            header=altair.Header(
                labelExpr="split(datum.label, '\\n')", labelAnchor="start", labelFontWeight="bold"
            ),
        ),
        columns=1,
    )
    return specification(chart)


def specification(chart: altair.TopLevelMixin) -> dict[str, Any]:
    """Give a chart's specification in the page's colours, which follow light and dark.

    Its data come from the script, and `limit` too where it is used.
    """
    ink = "currentColor"
    configured = chart.configure(
        background="transparent",
        font="system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
        view=altair.ViewConfig(stroke=None),
        axis=altair.AxisConfig(
            labelColor=ink,
            titleColor=ink,
            domainColor=ink,
            tickColor=ink,
            gridColor="#8a93a3",
            gridOpacity=0.3,
            titleFontWeight="normal",
            labelFontSize=12,
            titleFontSize=12,
        ),
        axisY=altair.AxisConfig(labelLimit=240),
        header=altair.HeaderConfig(labelColor=ink, labelFontSize=13),
        legend=altair.LegendConfig(labelColor=ink, titleColor=ink, titleFontWeight="normal"),
    )
    found: dict[str, Any] = configured.to_dict()
    found.pop("datasets", None)
    return found


_FLAG = (
    pl.when(~pl.col("converged"))
    .then(pl.lit("†"))
    .when(pl.col(STARRED))
    .then(pl.lit("*"))
    .otherwise(None)
)


def _name_level(test: LevelTest) -> str:
    return f"{test.label} (p far too small)" if test == PAIRWISE else test.label


def _name_rows(fits: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Add what the chart calls things: encoder, level, coding, contrast, top_p and flag.

    A fit that could not be made has no term; it becomes a row, without an estimate, of every
    contrast that the same level has elsewhere.
    """
    labels = {each.term: each.label for each in list_contrasts(fits["term"], design)}
    level = pl.lit(None, pl.String)
    for test in LEVEL_TESTS:
        level = pl.when(of_test(test)).then(pl.lit(_name_level(test))).otherwise(level)
    named = fits.with_columns(
        pl.col("top_p").fill_null(ANY_TOP_P),
        pl.col("measure").alias("encoder"),
        level.alias("level"),
        _FLAG.alias("flag"),
        pl.when(pl.col("coding").is_in(MARGINAL))
        .then(pl.lit(CODINGS[True]))
        .otherwise(pl.lit(CODINGS[False]))
        .alias("coding"),
        pl.col("term").replace_strict(labels, default=None).alias("contrast"),
    )
    fitted = named.filter(pl.col("contrast").is_not_null())
    known = fitted.select("level", "coding", "contrast").unique(maintain_order=True)
    lacking = (
        named.filter(pl.col("term").is_null())
        .drop("coding", "contrast")
        .join(known, on="level", how="inner")
    )
    return pl.concat([fitted, lacking.select(fitted.columns)])


def chart_estimates(
    fits: pl.DataFrame, design: Design, study: str, anchor: str, folder: str
) -> Chart | None:
    """Make the chart of a study of groups; None if not a single fit could be made.

    fits: the study's rows of the page's table `fits` of the main analysis, marked. folder: of the
    study's figures, from the page.
    """
    # With one factor, marginal contrasts are the published ones.
    shown = [coding for view in list_views(design) for coding in view.codings]
    rows = _name_rows(fits.filter(~is_anchor(design), in_codings(shown)), design)
    if not rows.height:
        return None
    leading = CODINGS[lead_coding(design) != PUBLISHED]
    codings = list(dict.fromkeys([leading, CODINGS[False]]))
    tests = [test for test in LEVEL_TESTS if _name_level(test) in set(rows["level"])]
    top_ps = sorted(set(rows["top_p"]) - {ANY_TOP_P}, key=float)
    if ANY_TOP_P in set(rows["top_p"]):
        top_ps.append(ANY_TOP_P)
    contrasts = list_contrasts(fits["term"], design)
    dimensions = [
        Dimension("model", "Model", rows["model"].unique(maintain_order=True).to_list()),
        Dimension("encoder", "Encoder", rows["encoder"].unique(maintain_order=True).to_list()),
        Dimension(
            "coding",
            "Contrasts",
            codings,
            ["-marginal" if each == CODINGS[True] else "" for each in codings],
        ),
        Dimension(
            "level", "Level", [_name_level(each) for each in tests], [each.key for each in tests]
        ),
        Dimension("contrast", "Contrast", list(dict.fromkeys(each.label for each in contrasts))),
        Dimension(
            "temperature", "temperature", sorted(set(rows["temperature"]), key=float), named=True
        ),
        Dimension("top_p", "top-p", top_ps, named=True),
    ]
    return Chart(
        anchor=anchor,
        title=f"Estimates of {study} by temperature and top-p",
        dimensions=dimensions,
        panels=["contrast", "model"],
        across=["temperature", "top_p"],
        compared=["coding", "level"],
        numbers=[
            Number("estimate", "β"),
            Number("ci_low", "95% interval", upto="ci_high"),
            Number("p_value", "p", "p"),
            Number("p_holm", "p, Holm", "p"),
            Number("p_bh", "p, BH", "p"),
            Number("n_observations", "n", "count"),
        ],
        words=["flag", "reason"],
        rows=rows,
        specification=_specify(),
        scaled="estimate",
        finding={
            "measure": "estimate",
            "label": "β",
            "starred": "flag",
            "adjusted": "p_holm",
            "up": "more alike",
            "down": "less alike",
            "unit": "setting",
        },
        twins=f"{folder}/{{model}}/{{encoder}}-{{level}}{{coding}}",
        panel_width=max(_CELL["width"] * len(top_ps) + 8, 150),
    )
