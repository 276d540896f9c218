"""The map of entities: near ones stand in like sentences, coloured by who uses them most.

Source: prompt-variability-code-generation, figure 5b.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from llm_variability.report.figures import MUTED, RULE, figure_style
from llm_variability.report.personas.looks import (
    Looks,
    PersonaLook,
    add_panel,
    cut_name,
    draw_nothing,
    draw_persona_legend,
    look_of,
    measure_persona_legend,
    measure_text,
    set_headings,
)
from llm_variability.report.personas.network import Box, box_around
from llm_variability.report.personas.statements import SEVERAL_PERSONAS
from llm_variability.report.wording import quantity
from llm_variability.tables_personas import SEVERAL

LABELLED = 40
"""Entities that are named, those of most sentences, as far as there is room."""

_OF_SEVERAL = PersonaLook(SEVERAL_PERSONAS, "#8a93a3", "o")

_WIDTH, _HEIGHT, _EDGE = 6.9, 4.9, 0.35
_TEXT = 7.5
_MANY = 20  # sentences of a point of full size, so that none of few is large
_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))
_GAPS = (0.04, 0.12, 0.22)


def add_several(looks: Looks, entity_map: pl.DataFrame) -> Looks:
    """Give the entities that no one persona has most of a grey look, if there are any."""
    if SEVERAL in looks or not (entity_map["persona"] == SEVERAL).any():
        return looks
    return {**looks, SEVERAL: _OF_SEVERAL}


def scale_places(entity_map: pl.DataFrame, width: float, height: float) -> pl.DataFrame:
    """Move the map into a frame of a width and height, both directions by the same factor.

    Returns the rows with `across` and `up`, from the lower left corner.
    """
    x, y = entity_map["x"], entity_map["y"]
    (left, right), (bottom, top) = (
        (float(each.min()), float(each.max()))  # type: ignore[arg-type]
        for each in (x, y)
    )
    inner = (width - 2 * _EDGE, height - 2 * _EDGE)
    spans = (right - left, top - bottom)
    factors = [room / span for room, span in zip(inner, spans, strict=True) if span > 1e-12]
    factor = min(factors, default=0.0)
    return entity_map.with_columns(
        across=width / 2 + (x - (left + right) / 2) * factor,
        up=height / 2 + (y - (bottom + top) / 2) * factor,
    )


def find_radius(sentences: int, most: int) -> float:
    """Give a point's radius in inches; the area grows with its sentences."""
    return 0.03 + 0.08 * math.sqrt(sentences / max(most, _MANY))


def place_labels(
    points: Sequence[tuple[float, float, float]],
    texts: Mapping[int, str],
    frame: Box,
    size: float = _TEXT,
) -> dict[int, tuple[float, float]]:
    """Choose where labels stand, in the order of `texts`: near their points, over no other label.

    Of the free places the one that covers fewest points is taken, of those the nearest; a label
    without a free place is left out.

    points: x, y and radius in inches. texts: of some of them, by their number. Returns middles.
    """
    chosen: dict[int, tuple[float, float]] = {}
    taken: list[Box] = []
    for number, text in texts.items():
        x, y, radius = points[number]
        width, height = measure_text(text, size)
        best, fewest = None, math.inf
        for gap in _GAPS:
            for across, up in _DIRECTIONS:
                place = (
                    x + across * (radius * (0.75 if up else 1) + gap + width / 2),
                    y + up * (radius * (0.75 if across else 1) + gap + height / 2),
                )
                box = box_around(*place, width + 0.03, height * 0.9)
                inside = (
                    frame.left <= box.left
                    and box.right <= frame.right
                    and frame.bottom <= box.bottom
                    and box.top <= frame.top
                )
                if not inside or any(box.overlaps(each) for each in taken):
                    continue
                covered = sum(
                    box.overlaps(box_around(to_x, to_y, 1.4 * r, 1.4 * r)) * (1 + 10 * r)
                    for to_x, to_y, r in points
                )
                if covered < fewest:
                    best, fewest = (place, box), covered
        if best is not None:
            chosen[number] = best[0]
            taken.append(best[1])
    return chosen


def _draw_points(axes: Axes, rows: Sequence[Mapping[str, Any]], looks: Looks, most: int) -> None:
    """Draw the points, smaller ones over larger ones. rows: those of most sentences first."""
    by_marker: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_marker.setdefault(look_of(looks, row["persona"]).marker, []).append(row)
    for marker, group in by_marker.items():
        axes.scatter(
            [row["across"] for row in group],
            [row["up"] for row in group],
            s=[(2 * find_radius(row["sentences"], most) * 72) ** 2 for row in group],
            color=[look_of(looks, row["persona"]).colour for row in group],
            marker=marker,
            alpha=0.8,
            edgecolors="white",
            linewidths=0.4,
            zorder=2,
        )


def _draw_labels(
    axes: Axes,
    points: Sequence[tuple[float, float, float]],
    texts: Mapping[int, str],
    places: Mapping[int, tuple[float, float]],
) -> None:
    """Write the labels; one that stands off its point is joined to it by a line."""
    for number, place in places.items():
        x, y, radius = points[number]
        width, height = measure_text(texts[number], _TEXT)
        near_x = min(max(x, place[0] - width / 2), place[0] + width / 2)
        near_y = min(max(y, place[1] - height * 0.4), place[1] + height * 0.4)
        if math.hypot(near_x - x, near_y - y) > radius + 0.09:
            axes.plot([x, near_x], [y, near_y], color=MUTED, linewidth=0.5, zorder=1)
        axes.text(*place, texts[number], ha="center", va="center", fontsize=_TEXT, zorder=4)


def draw_map(entity_map: pl.DataFrame, looks: Looks, study: str) -> Figure:
    """Draw the map of entities: coloured by persona, a point's area by its sentences.

    entity_map: an ENTITY_MAP table. The most frequent entities are named as far as there is room.
    """
    title = "Map of what personas speak of"
    with figure_style():
        if not entity_map.height:
            return draw_nothing(title, [f"{study} · No prompt has an entity."])
        looks = add_several(looks, entity_map)
        placed = scale_places(entity_map, _WIDTH - 0.3, _HEIGHT).sort(
            ["sentences", "entity"], descending=[True, False]
        )
        rows = list(placed.iter_rows(named=True))
        most = rows[0]["sentences"]
        points = [(row["across"], row["up"], find_radius(row["sentences"], most)) for row in rows]
        texts = {at: cut_name(row["entity"], 24) for at, row in enumerate(rows[:LABELLED])}
        frame = Box(0.03, 0.03, _WIDTH - 0.33, _HEIGHT - 0.03)
        places = place_labels(points, texts, frame)
        told = [
            f"{study} · {quantity(len(rows), 'entity', 'entities')}, {len(places)} of the most"
            " frequent named; near each other: in like sentences",
            "colour: the persona with most of its sentences, by share · area: sentences with it",
        ]
        headings = set_headings(title, told, _WIDTH)
        legend = measure_persona_legend(looks, _WIDTH)
        top = headings.height + legend
        figure = Figure(figsize=(_WIDTH, top + _HEIGHT + 0.15))
        headings.draw(figure)
        draw_persona_legend(figure, looks, headings.height - 0.12)
        axes = add_panel(figure, 0.15, top, _WIDTH - 0.3, _HEIGHT)
        axes.set_xlim(0, _WIDTH - 0.3)
        axes.set_ylim(0, _HEIGHT)
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_edgecolor(RULE)
        _draw_points(axes, rows, looks, most)
        _draw_labels(axes, points, texts, places)
    return figure
