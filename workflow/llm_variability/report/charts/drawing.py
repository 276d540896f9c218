"""What the charts' specifications have in common: panels, squares, the page's colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair
import polars as pl

from llm_variability.report.charts.explorer import Dimension

SHOWN = altair.NamedData("shown")
"""The rows that the script hands over."""

GREY = "#8a93a3"
"""Of what has no number, on light and on dark."""

ANY_TOP_P = "any"
"""Stands for top-p at temperature 0, where it has no effect."""

DIVERGING = altair.Scale(
    scheme="redblue",
    reverse=True,
    domainMid=0,
    domainMin=altair.ExprRef("-limit"),
    domainMax=altair.ExprRef("limit"),
)
"""Red above zero and blue below, alike on both sides."""


def list_grid(rows: pl.DataFrame) -> list[Dimension]:
    """Give the dimensions temperature and top-p of rows, null being any top-p."""
    found = set(rows["top_p"].fill_null(ANY_TOP_P))
    top_ps = [*sorted(found - {ANY_TOP_P}, key=float), *sorted(found & {ANY_TOP_P})]
    temperatures = sorted(set(rows["temperature"]), key=float)
    return [
        Dimension("temperature", "temperature", temperatures, named=True),
        Dimension("top_p", "top-p", top_ps, named=True),
    ]


def specify_grid() -> tuple[altair.X, altair.Y]:
    """Give the axes of these dimensions: top-p across, temperature down."""
    across = altair.X(
        "top_p:O",
        sort=altair.EncodingSortField("top_p_order", op="min"),
        title="top-p",
        axis=altair.Axis(labelAngle=0),
    )
    down = altair.Y(
        "temperature:O",
        sort=altair.EncodingSortField("temperature_order", op="min"),
        title="temperature",
        axis=altair.Axis(
            titleAngle=0, titleAlign="right", titleAnchor="start", titleY=-8, titleX=-6
        ),
    )
    return across, down


def specify_squares(
    axes: tuple[altair.X, altair.Y],
    value: str,
    written: str,
    scale: altair.Scale,
    legend: altair.Legend,
    size: tuple[int, int],
    **text: Any,
) -> dict[str, Any]:
    """Give a heatmap in panels, grey where there is no number.

    value: column of the colours. written: expression of what stands in a square. size: of a square,
    in pixels. text: further properties of what is written.
    """
    base = altair.Chart(SHOWN).encode(x=axes[0], y=axes[1])
    squares = base.mark_rect(stroke="white", strokeWidth=1.5, invalid="show").encode(
        color=altair.condition(
            f"!isValid(datum.{value})",
            altair.value(GREY),
            altair.Color(f"{value}:Q", scale=scale, legend=legend),
        ),
        description="say:N",
    )
    dark = f"isValid(datum.{value}) && luminance(scale('color', datum.{value})) < 0.19"
    words = base.mark_text(fontSize=11, aria=False, invalid="show", **text).encode(
        text="mark:N",
        color=altair.condition(dark, altair.value("#ffffff"), altair.value("#1d2433")),
    )
    layers = (squares + words).transform_calculate(mark=written)
    return specify_panels(
        layers.properties(width=altair.Step(size[0]), height=altair.Step(size[1]))
    )


def title_legend(lines: Sequence[str], **legend: Any) -> altair.Legend:
    """Give the legend of a scale of colours, its title in lines."""
    return altair.Legend(title=list(lines), gradientLength=110, **legend)


def specify_panels(layers: altair.LayerChart) -> dict[str, Any]:
    """Give layers in panels, in the page's colours, which follow light and dark.

    The data come from the script, and the parameters `limit`, `least` and `most` where they are
    used.
    """
    ink = "currentColor"
    panels = layers.facet(
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
    configured = panels.configure(
        background="transparent",
        font="system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
        view=altair.ViewConfig(stroke=None),
        axis=altair.AxisConfig(
            labelColor=ink,
            titleColor=ink,
            domainColor=ink,
            tickColor=ink,
            gridColor=GREY,
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
