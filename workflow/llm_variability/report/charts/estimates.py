"""The chart of contrasts: every estimate of a study of groups over temperature x top-p."""

from __future__ import annotations

from typing import Any

import polars as pl

from llm_variability.report.charts.drawing import (
    ANY_TOP_P,
    DIVERGING,
    list_grid,
    specify_grid,
    specify_squares,
    title_legend,
)
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

CODINGS = {True: "averaged over other factors", False: "published coding"}
"""Names of both ways to take contrasts, by whether they are marginal."""

_SQUARE = (48, 30)


def _specify() -> dict[str, Any]:
    """Give the heatmap: temperature down, top-p across, a panel a contrast or a model."""
    return specify_squares(
        specify_grid(),
        "estimate",
        "!isValid(datum.estimate) ? '–'"
        " : replace(format(datum.estimate, '.2f'), '-', '\N{MINUS SIGN}') + datum.flag",
        DIVERGING,
        title_legend(["β; red: more", "homogeneous"], format="+.2f"),
        _SQUARE,
    )


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
        *list_grid(rows),
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
        panel_width=max(_SQUARE[0] * rows["top_p"].n_unique() + 8, 150),
    )
