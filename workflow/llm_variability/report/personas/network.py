"""The network of personas: who says the same things, and who uses the same pairs in a sentence.

Source: prompt-variability-code-generation, figure 5a.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from llm_variability.report.figures import INK, MUTED, figure_style
from llm_variability.report.personas.looks import (
    FONT,
    Looks,
    add_panel,
    describe_stars,
    draw_nothing,
    is_starred,
    measure_text,
    set_headings,
    wrap_name,
)
from llm_variability.report.wording import quantity

_KINDS = {"entities": "Entities", "cooccurrences": "Pairs in a sentence"}
_NOUNS = {"entities": ("entity", "entities"), "cooccurrences": ("pair", "pairs")}
_WIDEST_LINE, _WIDEST_OF_MANY = 9.0, 4.0
_NUMBERS_OF_MANY = 12
_MIDDLE = 0.25
_LINE_COLOUR = "#b9c0cc"
_PLACES = (0.5, 0.44, 0.56, 0.38, 0.62, 0.32, 0.68, 0.26, 0.74)
_FEW = 4


class Box(NamedTuple):
    """A rectangle in inches."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )

    def holds(self, x: float, y: float) -> bool:
        return self.left <= x <= self.right and self.bottom <= y <= self.top


def box_around(x: float, y: float, width: float, height: float) -> Box:
    """Give the box of a text or node by its middle."""
    return Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


Place = tuple[float, float]


def place_on_circle(count: int, middle: Place, radius: float) -> list[Place]:
    """Place personas on a circle, clockwise; four in the corners of a square."""
    start = math.pi / 2 + (math.pi / 4 if count in (2, 4) else 0.0)
    if count == 2:
        start = math.pi
    return [
        (
            middle[0] + radius * math.cos(start - 2 * math.pi * at / count),
            middle[1] + radius * math.sin(start - 2 * math.pi * at / count),
        )
        for at in range(count)
    ]


def count_of(shared: pl.DataFrame, persona: str) -> int:
    """Count what a persona has, from any pair that it stands in; 0 if it stands in none.

    shared: rows of a SHARED_ENTITIES table, of one kind.
    """
    for row in shared.iter_rows(named=True):
        for side in ("first", "second"):
            if row[side] == persona:
                return int(row["shared"] + row[f"{side}_only"])
    return 0


def _place_number(
    ends: tuple[Place, Place],
    size: tuple[float, float],
    taken: Sequence[Box],
    others: Sequence[tuple[Place, Place]],
) -> Place | None:
    """Find where on its line a number lies over no name, and over as few other lines as can be."""
    best, fewest = None, math.inf
    for share in _PLACES:
        x, y = (a + share * (b - a) for a, b in zip(*ends, strict=True))
        box = box_around(x, y, *size)
        if any(box.overlaps(each) for each in taken):
            continue
        wide = box_around(x, y, size[0] + 0.16, size[1] + 0.16)
        crossed = sum(
            wide.holds(*(a + step / 40 * (b - a) for a, b in zip(*other, strict=True)))
            for other in others
            for step in range(41)
        )
        if crossed < fewest:
            best, fewest = (x, y), crossed
    return best


def _write_number(row: Mapping[str, Any], stars: str) -> str:
    jaccard = "" if row["jaccard"] is None else f" ({row['jaccard']:.2f})"
    return f"{row['shared']}{jaccard}{'*' if is_starred(row, stars) else ''}"


def _draw_nodes(
    axes: Axes, looks: Looks, counts: Mapping[str, int], places: Sequence[Place], kind: str
) -> list[Box]:
    """Draw the personas with their names. Returns the boxes that nothing else may cover."""
    largest = max([*counts.values(), 1])
    middle = sum(axes.get_ylim()) / 2
    many = len(looks) > _FEW
    taken = []
    for (persona, look), (x, y) in zip(looks.items(), places, strict=True):
        radius = (0.07 + 0.15 * math.sqrt(counts[persona] / largest)) * (0.75 if many else 1)
        axes.scatter(
            [x],
            [y],
            s=(2 * radius * 72) ** 2,
            color=look.colour,
            marker=look.marker,
            edgecolors="white",
            linewidths=1,
            zorder=3,
        )
        noun = quantity(counts[persona], *_NOUNS[kind])
        text = f"{wrap_name(look.label, 20 if many else 16)}\n{noun}"
        width, height = measure_text(text)
        side = _side_of(x, sum(axes.get_xlim()) / 2) if many else 0
        up = y > middle - 1e-9
        if side:
            at_x, at_y = x + side * (radius + 0.06 + width / 2), y
        else:
            at_x, at_y = x, y + (1 if up else -1) * (radius + 0.06 + height / 2)
        axes.text(
            at_x, at_y, text, ha="center", va="center", fontsize=FONT, linespacing=1.2, zorder=5
        )
        taken += [
            box_around(x, y, 2 * radius, 2 * radius),
            box_around(at_x, at_y, width, height),
        ]
    return taken


def _side_of(x: float, middle: float) -> int:
    """Tell on which side of the circle a persona's name stands: 0 above or below."""
    return 0 if abs(x - middle) < _MIDDLE else 1 if x > middle else -1


def _draw_lines(
    axes: Axes,
    rows: Sequence[Mapping[str, Any]],
    places: Mapping[str, Place],
    taken: list[Box],
    stars: str,
) -> int:
    """Draw the lines and as many of their numbers as have room, the widest first.

    Of many personas the numbers of the widest lines only. Returns how many are left out.
    """
    most = max([row["shared"] for row in rows], default=0) or 1
    many = len(places) > _FEW
    ends = [(places[row["first"]], places[row["second"]]) for row in rows]
    lacking = written = 0
    for at in sorted(range(len(rows)), key=lambda each: -rows[each]["shared"]):
        row, ((x, y), (to_x, to_y)) = rows[at], ends[at]
        if not row["shared"]:
            axes.plot([x, to_x], [y, to_y], color=MUTED, linewidth=0.6, linestyle=":", zorder=1)
        else:
            widest = _WIDEST_OF_MANY if many else _WIDEST_LINE
            width = max(0.4, widest * row["shared"] / most)
            axes.plot(
                [x, to_x],
                [y, to_y],
                color=_LINE_COLOUR,
                linewidth=width,
                solid_capstyle="round",
                zorder=1,
            )
        told = _write_number(row, stars)
        size = measure_text(told, 8)
        others = [line for other, line in enumerate(ends) if other != at]
        place = _place_number(ends[at], (size[0] + 0.1, size[1] + 0.02), taken, others)
        if place is None or (many and written == _NUMBERS_OF_MANY):
            lacking += 1
            continue
        written += 1
        taken.append(box_around(*place, size[0] + 0.1, size[1] + 0.02))
        axes.text(
            *place,
            told,
            ha="center",
            va="center",
            fontsize=8,
            color=INK,
            zorder=4,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.6},
        )
    return lacking


def draw_network(
    shared: pl.DataFrame, entities: pl.DataFrame, looks: Looks, study: str, stars: str
) -> Figure:
    """Draw who shares how much with whom: personas on a circle, a line's width by what is shared.

    shared: a SHARED_ENTITIES table. entities: an ENTITIES table, which says how many each persona
    has. stars: one of `ASTERISKS`. On a line: how many are shared, and their share of all that any
    of both has (Jaccard). A number without room is left out, which the note says.
    """
    title = "What personas have in common"
    many = len(looks) > _FEW
    told = [
        f"{study} · on a line: how many two personas share (share of all that either has, Jaccard)",
        f"{describe_stars(shared, stars)}: fewer in common than if prompts changed personas at"
        " random",
    ]
    with figure_style():
        if not looks or not shared.height:
            return draw_nothing(title, [f"{study} · No two personas have a prompt to compare."])
        panel, side = (6.4, 1.65) if many else (3.5, 0.62 if len(looks) > 2 else 0.75)
        width = panel + 0.3 if many else 2 * panel + 0.3
        headings = set_headings(title, told, width)
        radius = panel / 2 - side
        height = 2 * radius + 2 * 0.75 if len(looks) > 2 else 1.9
        if len(looks) == 4:
            radius *= math.sqrt(2)
        down = height + 0.3
        figure = Figure(figsize=(width, headings.height + 0.2 + down * (2 if many else 1)))
        headings.draw(figure)
        lacking = 0
        for at, kind in enumerate(_KINDS):
            across = 0.0 if many else at * panel
            top = headings.height + 0.2 + (at * down if many else 0.0)
            axes = add_panel(figure, 0.15 + across, top, panel, height)
            axes.set_xlim(0, panel)
            axes.set_ylim(0, height)
            axes.set_axis_off()
            axes.set_title(_KINDS[kind], fontsize=10, fontweight="bold", loc="left", pad=2)
            rows = shared.filter(pl.col("of") == kind)
            counts = {persona: count_of(rows, persona) for persona in looks}
            if kind == "entities":
                own = entities.group_by("persona").agg(pl.col("entity").n_unique().alias("n"))
                counts |= {name: n for name, n in own.iter_rows() if name in looks}
            places = place_on_circle(len(looks), (panel / 2, height / 2), radius)
            taken = _draw_nodes(axes, looks, counts, places, kind)
            there = [
                row
                for row in rows.iter_rows(named=True)
                if row["first"] in looks and row["second"] in looks
            ]
            where = dict(zip(looks, places, strict=True))
            lacking += _draw_lines(axes, there, where, taken, stars)
        if lacking:
            figure.text(
                0.15 / width,
                0.1 / figure.get_figheight(),
                f"{quantity(lacking, 'number')} left out, for want of room",
                fontsize=7.5,
                color=MUTED,
            )
    return figure
