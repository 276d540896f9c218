"""What the page says of one model of a study: heatmaps, cosines, tables behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.config import cell_name
from llm_variability.report import findings
from llm_variability.report.contrasts import SIGNIFICANCE, Contrast, is_anchor, list_contrasts
from llm_variability.report.level_tests import (
    PAIRWISE,
    View,
    list_leading,
    list_tests,
    list_views,
)
from llm_variability.report.marks import is_starred, small_mark
from llm_variability.report.pictures import Context, ModelFigures, embed
from llm_variability.report.wording import anchor, p_number, p_text, signed
from llm_variability.tables import Design

Signals = dict[findings.SignalKey, findings.Signal]


def _estimate_text(row: dict[str, Any]) -> str:
    if not row["converged"]:
        return f"{signed(row['estimate'])}†"
    return f"{signed(row['estimate'])}{small_mark(row)}{'*' if is_starred(row) else ''}"


def _interval_text(row: dict[str, Any], view: View) -> str:
    if row["ci_low"] is None or row["p_value"] is None:
        return ""
    told = f"{findings.interval(row)} {p_text(row['p_value'], SIGNIFICANCE)}"
    if view.test == PAIRWISE or row["p_holm"] is None:
        return told
    return f"{told}, Holm {p_number(row['p_holm'], SIGNIFICANCE)}"


def _fits_table(fits: pl.DataFrame, contrasts: list[Contrast], view: View) -> Context:
    rows: dict[tuple[str, str | None], Context] = {}
    for row in fits.iter_rows(named=True):
        setting = rows.setdefault(
            (row["temperature"], row["top_p"]),
            {
                "temperature": row["temperature"],
                "top_p": row["top_p"] or "any",
                "n": f"{row['n_observations']:,}",
                "cells": {},
                "reason": row["reason"],
            },
        )
        if row["estimate"] is not None:
            setting["cells"][row["term"]] = (_estimate_text(row), _interval_text(row, view))
    return {"contrasts": contrasts, "rows": list(rows.values())}


def _mean_table(means: pl.DataFrame, design: Design) -> Context:
    """Groups by row, settings by column, as the mean cosine table has them."""
    factors = [factor.name for factor in design.factors]
    settings: dict[str, None] = {}
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for row in means.iter_rows(named=True):
        cell = cell_name(row["temperature"], row["top_p"])
        settings[cell] = None
        mean = row["mean_cosine"]
        group = rows.setdefault(tuple(row[name] for name in factors), {})
        group[cell] = "–" if mean is None else signed(mean, 3)
    return {"factors": factors, "settings": list(settings), "rows": rows}


def _arrange_view(
    view: View,
    fits: pl.DataFrame,
    signals: Signals,
    place: tuple[str, str, str],
    design: Design,
    figures: ModelFigures,
    output: Path,
    inside: bool,
) -> Context:
    """Gather one heatmap, its words and the table behind it.

    place: study, model, encoder. inside: whether the page holds figure and table.
    """
    _, model, encoder = place
    shown = fits.filter(view.rows(), ~is_anchor(design))
    contrasts = list_contrasts(shown["term"], design)
    of_terms = {
        term: signal
        for (measure, name, key, coding, term), signal in signals.items()
        if (measure, name, key) == (encoder, model, view.test.key) and coding in view.codings
    }
    caption = findings.describe_heatmap(contrasts, of_terms, model, view, encoder)
    return {
        "view": view,
        "label": view.explain(design, view.test.label),
        "figure": embed(figures.get((*place, view.key)), caption, output, inside=inside),
        "caption": caption,
        "table": _fits_table(shown, contrasts, view) if inside else None,
    }


def build_model(
    study: str,
    model: str,
    tables: dict[str, pl.DataFrame],
    signals: Signals,
    design: Design,
    figures: ModelFigures,
    output: Path,
) -> Context:
    """Gather what the page says of one model.

    tables: the page's tables of the study, `fits` with the rows of the main analysis only.
    """
    fits = tables["fits"].filter(pl.col("model") == model)
    means = tables["mean_cosine"].filter(pl.col("model") == model)
    sections = []
    encoders = list(dict.fromkeys([*fits["measure"], *means["encoder"]]))
    for encoder in encoders:
        of_encoder = fits.filter(pl.col("measure") == encoder)
        found = list_tests(of_encoder)
        views = [view for view in list_views(design) if view.test in found]
        cosines = means.filter(pl.col("encoder") == encoder)
        caption = findings.describe_cosine(cosines, design, model, encoder)
        place = (study, model, encoder)
        sections.append(
            {
                "name": encoder,
                "anchor": anchor("study", study, model, encoder),
                "charted": bool(fits["estimate"].is_not_null().any()),
                "heatmaps": [
                    _arrange_view(
                        view,
                        of_encoder,
                        signals,
                        place,
                        design,
                        figures,
                        output,
                        inside=encoder == encoders[0] and view in list_leading(design),
                    )
                    for view in views
                ],
                "cosine": {
                    "figure": embed(
                        figures.get((*place, "cosine")),
                        caption,
                        output,
                        inside=encoder == encoders[0],
                    ),
                    "caption": caption,
                    "table": _mean_table(cosines, design),
                },
            }
        )
    return {
        "name": model,
        "anchor": anchor("study", study, model),
        "encoders": sections,
    }
