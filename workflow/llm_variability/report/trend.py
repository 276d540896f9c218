"""Estimates by temperature, averaged over top-p: a line a model, a panel a contrast.

Source: homogeneity-bias-robustness, figure 11.
"""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure

from llm_variability.report.figures import draw_headings, figure_style
from llm_variability.report.level_tests import View
from llm_variability.report.lines import Line, draw_panels

_PANELS_A_ROW = 3


def _lines(part: pl.DataFrame) -> dict[str, Line]:
    lines = {}
    for (model,), points in part.partition_by("model", maintain_order=True, as_dict=True).items():
        temperatures = [float(text) for text in points["temperature"]]
        lines[str(model)] = Line(temperatures, points["mean_estimate"].to_list())
    return lines


def draw_trend(
    averages: pl.DataFrame, models: list[str], view: View, encoder: str, label: str
) -> Figure:
    """Draw the mean estimate of each main contrast against temperature.

    averages: as `average_by_temperature` gives them, of one encoder and view (both scopes of the
    text level have the same estimates). models: all of the study, so that a model has the same look
    in each of its figures. label: names the view.
    """
    title = "Mean β by temperature"
    with figure_style():
        panels = [
            (str(contrast), _lines(part))
            for (contrast,), part in averages.partition_by(
                "contrast", maintain_order=True, as_dict=True
            ).items()
        ]
        if not panels:
            figure = Figure(figsize=(6.4, 1.6))
            draw_headings(figure, title, f"No fit could be made.\n{label} · {encoder}")
            return figure
        columns = 2 if len(panels) in (2, 4) else _PANELS_A_ROW
        figure = draw_panels(
            panels,
            models,
            legend="model",
            y_labels=[f"mean β ({view.test.unit})"],
            columns=columns,
            zero_line=True,
        )
        greedy = " · hollow: greedy decoding" if (averages["temperature"] == "0").any() else ""
        draw_headings(
            figure,
            title,
            f"Averaged over top-p · {label}\n"
            f"{encoder}{greedy} · above 0: more homogeneous than the reference; below: less",
        )
    return figure
