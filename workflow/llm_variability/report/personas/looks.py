"""What figures of personas share: the look of a persona, headings, matrices, points with intervals.

Sizes are in inches, so that text has room whatever the number of personas and models.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.markers import CARETLEFT, CARETRIGHT
from matplotlib.patches import Rectangle
from matplotlib.textpath import text_to_path

from llm_variability.report.contrasts import ASTERISKS, SIGNIFICANCE
from llm_variability.report.figures import INK, MUTED, RULE, draw_headings
from llm_variability.report.heatmap import choose_text_colour
from llm_variability.report.lines import COLOURS, MARKERS
from llm_variability.report.personas.names import name_personas
from llm_variability.report.wording import quantity, show_text

Array = npt.NDArray[np.float64]

LONGEST_NAME = 32
"""Characters of a name in a figure; a longer one is cut."""

FONT = 8.5
_MARGIN = 0.15
_SUBTITLE_LINE = 0.165
_HEADINGS = 0.52
_ROOM = 0.16
_FEW_COLUMNS = 6
_LINE, _UPRIGHT, _NARROWEST_PANEL = 14, 0.5, 1.9
ROW_HEIGHT, GAP = 0.3, 0.3
_PANEL_TITLE = 0.24
_WIDEST_PANEL = 5.0


class PersonaLook(NamedTuple):
    """How a persona looks in every figure of a study: colour by role, marker by gender."""

    label: str
    colour: str
    marker: str


Looks = Mapping[str, PersonaLook]
"""Looks by persona, in the study's order."""


def choose_looks(
    table: pl.DataFrame, labels: Mapping[str, str] | None = None
) -> dict[str, PersonaLook]:
    """Give each persona its look.

    table: with persona, role and gender. labels: of personas, if they have any. More roles than
    colours take them again with other markers; no two personas of up to twelve pairs of these look
    the same.
    """
    names = name_personas(table, labels)
    personas = table.select("persona", "role", "gender").unique(maintain_order=True)
    roles = personas["role"].unique(maintain_order=True).to_list()
    genders = personas["gender"].unique(maintain_order=True).to_list()
    colours = [*COLOURS[1:], COLOURS[0]]
    markers = [MARKERS[1], MARKERS[0], *MARKERS[2:]]
    looks = {}
    for persona, role, gender in personas.iter_rows():
        turn, place = divmod(roles.index(role), len(colours))
        marker = markers[(turn * len(genders) + genders.index(gender)) % len(markers)]
        looks[persona] = PersonaLook(names[persona], colours[place], marker)
    return looks


def look_of(looks: Looks, persona: str) -> PersonaLook:
    """Give a persona's look, a grey one to a persona that is not in the list."""
    return looks.get(persona, PersonaLook(persona, MUTED, "o"))


def cut_name(name: str, longest: int = LONGEST_NAME) -> str:
    """Make foreign text fit a figure: invisible characters named, line ends taken away, cut."""
    shown = " ".join(show_text(name).split())
    return shown if len(shown) <= longest else f"{shown[: longest - 1].rstrip()}…"


def wrap_name(name: str, width: int, longest: int = LONGEST_NAME) -> str:
    """Break a name into lines; a word longer than a line is broken too."""
    return "\n".join(textwrap.wrap(cut_name(name, longest), width)) or "–"


@lru_cache(maxsize=4096)
def measure_text(text: str, size: float = FONT, bold: bool = False) -> tuple[float, float]:
    """Give the width and height of a text in inches, at a size in points."""
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    lines = text.split("\n")
    width = max(
        text_to_path.get_text_width_height_descent(each, font, False)[0] if each else 0.0
        for each in lines
    )
    return width / 72, len(lines) * size * 1.2 / 72


def fit_text(text: str, width: float, size: float, *, bold: bool = False) -> tuple[str, float]:
    """Make a text no wider than `width` inches: smaller by up to a third, and then cut.

    Returns it with its size in points.
    """
    needed = measure_text(text, size, bold)[0]
    fitted = max(size * 2 / 3, min(size, size * width / max(needed, 1e-9)))
    shown = text
    while len(shown) > 2 and measure_text(shown, fitted, bold)[0] > width + 1e-9:
        shown = f"{shown.removesuffix('…')[:-1].rstrip()}…"
    return shown, fitted


class Headings(NamedTuple):
    """A title and what is shown, broken to a width; they take `height` inches."""

    title: str
    told: str
    height: float

    def draw(self, figure: Figure) -> None:
        draw_headings(figure, self.title, self.told)


def set_headings(title: str, told: Sequence[str], width: float) -> Headings:
    """Break headings to the width of the figure.

    told: paragraphs of the subtitle, a line or more each.
    """
    characters = max(30, int((width - 2 * _MARGIN) / (FONT * 0.6 / 72)))
    lines = [line for part in told for line in _fill(part, width - 2 * _MARGIN, characters)]
    return Headings(title, "\n".join(lines), _HEADINGS + _SUBTITLE_LINE * len(lines) + _ROOM)


def _fill(text: str, width: float, characters: int) -> list[str]:
    """Break a text into lines no wider than `width` inches."""
    for length in range(int(characters * 1.4), 20, -2):
        lines = textwrap.wrap(text, length)
        if all(measure_text(line)[0] <= width for line in lines):
            return lines
    return textwrap.wrap(text, 20)


def draw_nothing(title: str, told: Sequence[str]) -> Figure:
    """Draw a figure that says what is missing."""
    width = 6.4
    headings = set_headings(title, told, width)
    figure = Figure(figsize=(width, max(1.2, headings.height)))
    headings.draw(figure)
    return figure


def add_panel(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes by their place from the upper left corner of the figure."""
    full, tall = figure.get_size_inches()
    return figure.add_axes((left / full, 1 - (top + height) / tall, width / full, height / tall))


def is_starred(row: Mapping[str, Any], stars: str) -> bool:
    """Tell whether a row's p value is below 5%. stars: one of `ASTERISKS`."""
    p_value = row[ASTERISKS[stars][0]]
    return p_value is not None and p_value < SIGNIFICANCE


def choose_tests(means: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Choose one row of each feature, in the order of the rows: one with its p value, if any has.

    A feature has one p value, of all personas that it compares; the rows of others have none.
    means: rows of a PERSONA_MEANS table. columns: that name a feature.
    """
    tested_first = means.sort(pl.col("p_value").is_null(), maintain_order=True)
    return (
        means.select(columns)
        .unique(maintain_order=True)
        .join(
            tested_first.unique(columns, keep="first", maintain_order=True),
            on=columns,
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
    )


def describe_stars(tested: pl.DataFrame, stars: str) -> str:
    """Say whose p values asterisks stand for, and how many tests their families have.

    tested: rows with p values, a row a test; their families may be of unlike size, and have tests
    that are not among the rows.
    """
    column, name = ASTERISKS[stars]
    sizes = tested.drop_nulls(column)["family_size"].drop_nulls().unique().sort().to_list()
    number = quantity(sizes[-1], "test") if sizes else "no test"
    if len(sizes) > 1:
        number = f"{sizes[0]:,} to {number}"
    return f"* p < .05 ({name}, {number})"


# ------------------------------------------------------------------------------- matrices


class Columns(NamedTuple):
    """Names under the columns of a matrix, and the room that they take."""

    names: list[str]
    rotation: int
    width: float
    height: float


def set_columns(names: Sequence[str], *, upright: bool = False) -> Columns:
    """Choose how columns are named: in lines if there are few and there is room, else upright."""
    if len(names) <= _FEW_COLUMNS and not upright:
        wrapped = [wrap_name(name, _LINE) for name in names]
        sizes = [measure_text(name) for name in wrapped]
        widest = max((width for width, _ in sizes), default=0.0) + 0.14
        tallest = max((height for _, height in sizes), default=0.0)
        return Columns(wrapped, 0, max(widest, _least(names)), tallest + 0.12)
    cut = [cut_name(name) for name in names]
    longest = max((measure_text(name)[0] for name in cut), default=0.0)
    return Columns(cut, 90, max(_UPRIGHT, _least(names)), longest + 0.12)


def _least(names: Sequence[str]) -> float:
    """Give the width of a column that leaves room for a title above few of them."""
    return _NARROWEST_PANEL / max(len(names), 1)


def find_room(names: Sequence[str], size: float = FONT) -> float:
    """Give the room in inches that names to the left of a panel take."""
    return _MARGIN + max((measure_text(name, size)[0] for name in names), default=0.0) + 0.1


def draw_matrix(
    axes: Axes,
    values: Array,
    texts: Sequence[Sequence[str]],
    scale: ScalarMappable,
    rows: Sequence[str],
    columns: Columns | None,
) -> None:
    """Draw a matrix of coloured cells with their texts; one without a number is hatched.

    values: (rows, columns), not a number where there is none. columns: None leaves their names out.
    """
    for row, column in np.ndindex(values.shape):
        value = values[row, column]
        there = bool(np.isfinite(value))
        colour = tuple(float(part) for part in scale.to_rgba(np.array([value]))[0])
        axes.add_patch(
            Rectangle(
                (column, row),
                1,
                1,
                facecolor=colour if there else "#eceef2",
                edgecolor="white" if there else "#b5bbc7",
                hatch=None if there else "////",
                linewidth=1.2 if there else 0,
            )
        )
        axes.text(
            column + 0.5,
            row + 0.5,
            texts[row][column] if there else "–",
            ha="center",
            va="center",
            fontsize=8,
            color=choose_text_colour(colour) if there else INK,
        )
    axes.set_xlim(0, max(values.shape[1], 1))
    axes.set_ylim(max(values.shape[0], 1), 0)
    axes.set_yticks(np.arange(values.shape[0]) + 0.5, rows, fontsize=FONT)
    named = columns.names if columns else [""] * values.shape[1]
    axes.set_xticks(np.arange(values.shape[1]) + 0.5, named, fontsize=FONT)
    axes.tick_params(length=0, labelrotation=0)
    if columns:
        axes.tick_params(axis="x", labelrotation=columns.rotation)
    for spine in axes.spines.values():
        spine.set_visible(False)


class MatrixPanel(NamedTuple):
    """A matrix with its title and texts. starred: rows with an asterisk beside them."""

    title: str
    values: Array
    texts: Sequence[Sequence[str]]
    starred: Sequence[int] = ()


class Grid(NamedTuple):
    """Matrices with the same rows and columns, `beside` of them in a line, sizes in inches."""

    rows: Sequence[str]
    columns: Columns
    beside: int

    @property
    def panel(self) -> tuple[float, float]:
        """Width and height of a matrix."""
        return self.columns.width * len(self.columns.names), ROW_HEIGHT * len(self.rows)

    def measure(self, panels: int) -> tuple[float, float]:
        """Width and height of all matrices, names of rows left out."""
        wide, tall = self.panel
        lines = math.ceil(panels / self.beside)
        across = min(self.beside, panels)
        return (
            across * (wide + GAP) - GAP,
            lines * (_PANEL_TITLE + tall + 0.14) + self.columns.height,
        )

    def draw(
        self,
        figure: Figure,
        panels: Sequence[MatrixPanel],
        scale: ScalarMappable,
        left: float,
        top: float,
    ) -> Axes:
        """Draw at least one matrix. Columns have names below the last matrix of each column.

        Returns the last panel of the first line.
        """
        wide, tall = self.panel
        corner = None
        for at, (name, values, texts, starred) in enumerate(panels):
            line, place = divmod(at, self.beside)
            axes = add_panel(
                figure,
                left + place * (wide + GAP),
                top + line * (_PANEL_TITLE + tall + 0.14) + _PANEL_TITLE,
                wide,
                tall,
            )
            is_last = at + self.beside >= len(panels)
            named = self.rows if place == 0 else [""] * len(self.rows)
            draw_matrix(axes, values, texts, scale, named, self.columns if is_last else None)
            title, size = fit_text(cut_name(name, 64), wide + 0.18, 9.5, bold=True)
            axes.set_title(
                title,
                fontsize=size,
                fontweight="bold",
                loc="left",
                pad=4,
            )
            for row in starred:
                axes.text(
                    values.shape[1] + 0.06,
                    row + 0.62,
                    "*",
                    va="center",
                    fontsize=11,
                    fontweight="bold",
                )
            corner = axes if line == 0 else corner
        assert corner is not None
        return corner


def tell_hatched(panels: Sequence[Array]) -> list[str]:
    """Say what hatched cells are, if there are any."""
    return [] if all(np.isfinite(each).all() for each in panels) else ["hatched: no number"]


def set_scale(values: Array, colours: str, *, low: float | None = None) -> ScalarMappable:
    """Make a colour scale over the numbers that are there, never of no width."""
    there = values[np.isfinite(values)]
    bottom = float(there.min()) if there.size and low is None else (low or 0.0)
    top = float(there.max()) if there.size else bottom + 1.0
    room = max(0.0, 0.05 - (top - bottom)) / 2
    limits = Normalize(bottom - (room if low is None else 0.0), top + room)
    return ScalarMappable(limits, matplotlib.colormaps[colours])


def draw_scale(figure: Figure, scale: ScalarMappable, panel: Axes, label: str) -> None:
    """Draw the colour scale to the right of a panel, as tall as 2 inches at most."""
    full, tall = figure.get_size_inches()
    box = panel.get_position()
    height = min(box.height, 2.0 / tall)
    axes = figure.add_axes((box.x1 + 0.2 / full, box.y1 - height, 0.13 / full, height))
    bar = figure.colorbar(scale, cax=axes)
    bar.ax.tick_params(length=2, labelsize=8)
    bar.ax.locator_params(nbins=4)
    bar.outline.set_visible(False)
    bar.set_label(label, fontsize=8, color=MUTED)


SCALE_ROOM = 0.95
"""Inches that a colour scale takes to the right of a panel."""


# ------------------------------------------------------------------- points with intervals


class Point(NamedTuple):
    """A number with its interval; a value of None has none to show."""

    value: float | None
    low: float | None
    high: float | None
    colour: str
    marker: str
    starred: bool = False


class Row(NamedTuple):
    """A line of a chart of points. group: rows of one stand below its name."""

    group: str
    name: str


class Panel(NamedTuple):
    """A panel of a chart of points: of each row the points that stand in it.

    reference: a value that is marked by a line. share: of something, from 0 to 1, written in
    percent. from_zero: the axis begins at 0. positive: the quantity is never below it.
    starred: groups whose rows differ from each other.
    """

    title: str
    label: str
    points: Sequence[Sequence[Point]]
    reference: float | None = None
    share: bool = False
    from_zero: bool = False
    positive: bool = False
    starred: Sequence[str] = ()


def place_rows(rows: Sequence[Row]) -> tuple[list[float], list[tuple[float, str]], float]:
    """Place rows below each other, a name above each group that has one.

    Returns the rows' places, the groups' places with their names, and the number of lines.
    """
    at, places, groups, last = 0.0, [], [], None
    for row in rows:
        if row.group != last:
            at += 0.25 if last is not None else 0.0
            if row.group:
                groups.append((at + 0.5, row.group))
                at += 1
            last = row.group
        places.append(at + 0.5)
        at += 1
    return places, groups, at


def draw_points(axes: Axes, place: float, points: Sequence[Point]) -> None:
    """Draw the points of a row, those with an interval upon it.

    The axes' limits are set before; an interval that leaves them ends in an arrow.
    """
    left, right = axes.get_xlim()
    for point in points:
        if point.value is None:
            continue
        end = point.value
        if point.low is not None and point.high is not None:
            end = max(min(point.high, right), end)
            axes.hlines(
                place, max(point.low, left), end, color=point.colour, linewidth=1.5, zorder=2
            )
            for edge, arrow, leaves in (
                (left, CARETLEFT, point.low < left),
                (right, CARETRIGHT, point.high > right),
            ):
                if leaves:
                    axes.plot(
                        [edge], [place], marker=arrow, markersize=5, color=point.colour, zorder=2
                    )
        axes.plot(
            [point.value],
            [place],
            linestyle="none",
            marker=point.marker,
            markersize=6,
            color=point.colour,
            markeredgecolor="white",
            markeredgewidth=0.5,
            zorder=3,
        )
        if point.starred:
            axes.annotate(
                "*",
                (end, place),
                xytext=(5, -2.5),
                textcoords="offset points",
                va="center",
                fontsize=11,
                fontweight="bold",
                annotation_clip=False,
            )


def tidy_axes(axes: Axes) -> None:
    """Take away what is not needed of a chart whose values run along x."""
    axes.grid(axis="x", color=RULE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=2)
    axes.tick_params(axis="y", length=0)


def bound_points(panel: Panel) -> list[list[Point]]:
    """End intervals where the quantity ends: at 0 if it cannot be below, a share at 1."""

    def bound(end: float | None) -> float | None:
        if end is None:
            return None
        end = max(end, 0.0) if panel.from_zero or panel.positive or panel.share else end
        return min(end, 1.0) if panel.share else end

    return [
        [point._replace(low=bound(point.low), high=bound(point.high)) for point in points]
        for points in panel.points
    ]


def find_limits(panel: Panel) -> tuple[float, float] | None:
    """Choose the ends of the x axis: all numbers, the reference, and what intervals need.

    An interval may leave the axis where it is much longer than the numbers lie apart, as one of two
    prompts is: it gets as much room on each side as they take, or half of the largest number.
    None without a number.
    """
    points = [point for row in bound_points(panel) for point in row]
    values = [point.value for point in points if point.value is not None]
    if not values:
        return None
    values += [panel.reference] if panel.reference is not None else []
    values += [0.0] if panel.from_zero else []
    low, high = min(values), max(values)
    apart = max(high - low, 0.5 * max(abs(low), abs(high))) or 0.5
    lows = [point.low for point in points if point.low is not None]
    highs = [point.high for point in points if point.high is not None]
    left = min(low, max(min(lows, default=low), low - apart))
    right = max(high, min(max(highs, default=high), high + apart))
    room = (right - left) * 0.08 or 0.1
    return left - room * (0.35 if panel.from_zero else 1), right + room


def tell_arrows(panels: Sequence[Panel]) -> list[str]:
    """Say what arrows are, if an interval leaves its panel."""
    for panel in panels:
        left, right = find_limits(panel) or (-math.inf, math.inf)
        for point in (point for row in bound_points(panel) for point in row):
            if point.value is None or point.low is None or point.high is None:
                continue
            if point.low < left or point.high > right:
                return ["arrow: the interval goes on"]
    return []


def limit_axes(axes: Axes, panel: Panel) -> None:
    """Set the x axis to the numbers, or leave it without ticks if there are none."""
    limits = find_limits(panel)
    axes.set_xlim(*(limits or (0, 1)))
    if limits is None:
        axes.set_xticks([])


def draw_chart(
    rows: Sequence[Row],
    panels: Sequence[Panel],
    title: str,
    told: Sequence[str],
    *,
    panel_width: float = 2.1,
    below: float = 0.0,
    least_width: float = 5.8,
    legend: Sequence[tuple[str, str, str]] = (),
) -> tuple[Figure, float]:
    """Draw panels of points side by side, one row of each a line.

    below: inches left free below the chart. legend: label, colour and marker.
    Returns the figure and where the chart ends, in inches from the top.
    """
    told = [*told, *tell_arrows(panels)]
    names = [cut_name(row.name) for row in rows]
    places, groups, lines = place_rows(rows)
    left = max(find_room(names), 0.9)
    width = max(left + len(panels) * panel_width + (len(panels) - 1) * 0.3 + 0.3, least_width)
    panel_width = min(_WIDEST_PANEL, (width - left - 0.3 * len(panels)) / len(panels))
    grouped = {
        name: fit_text(cut_name(name, 64), left - _MARGIN + 0.75 * panel_width, FONT, bold=True)
        for _, name in groups
    }
    headings = set_headings(title, told, width)
    legend_lines = _break_legend([label for label, *_ in legend], width)
    top = headings.height + 0.22 + 0.2 * len(legend_lines)
    chart = max(lines, 1.0) * ROW_HEIGHT
    figure = Figure(figsize=(width, top + chart + 0.6 + below))
    headings.draw(figure)
    _draw_legend(figure, legend, legend_lines, headings.height - 0.12)
    for at, panel in enumerate(panels):
        axes = add_panel(figure, left + at * (panel_width + 0.3), top, panel_width, chart)
        tidy_axes(axes)
        axes.set_ylim(max(lines, 1.0), 0)
        limit_axes(axes, panel)
        if panel.reference is not None:
            axes.axvline(panel.reference, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        for place, points in zip(places, bound_points(panel), strict=True):
            draw_points(axes, place, points)
            if not any(point.value is not None for point in points):
                axes.text(
                    0.02,
                    place,
                    "no number",
                    transform=axes.get_yaxis_transform(),
                    va="center",
                    fontsize=7.5,
                    color=MUTED,
                )
        axes.set_yticks(places, names if at == 0 else [""] * len(names), fontsize=FONT)
        for place, name in groups:
            if name in panel.starred:
                over = measure_text(*grouped[name], True)[0] - (left - _MARGIN)
                axes.text(
                    max(0.06, (over + 0.08) / panel_width) if at == 0 else 0.06,
                    place + 0.1,
                    "*",
                    transform=axes.get_yaxis_transform(),
                    va="center",
                    fontsize=11,
                    fontweight="bold",
                )
        if at == 0:
            for place, name in groups:
                shown, size = grouped[name]
                axes.text(
                    -(left - _MARGIN) / panel_width,
                    place,
                    shown,
                    transform=axes.get_yaxis_transform(),
                    va="center",
                    fontweight="bold",
                    fontsize=size,
                )
        axes.set_title(panel.title, fontsize=9.5, fontweight="bold", loc="left", pad=4)
        axes.set_xlabel(panel.label, fontsize=FONT)
        axes.locator_params(axis="x", nbins=4)
        if panel.share:
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.tick_params(axis="x", labelsize=8)
    return figure, top + chart + 0.6


def _break_legend(labels: Sequence[str], width: float) -> list[list[int]]:
    """Break a legend's entries into lines."""
    lines: list[list[int]] = []
    end = width
    for at, label in enumerate(labels):
        needed = measure_text(label)[0] + 0.45
        if end + needed > width - _MARGIN:
            lines.append([])
            end = _MARGIN
        lines[-1].append(at)
        end += needed
    return lines


def _draw_legend(
    figure: Figure,
    legend: Sequence[tuple[str, str, str]],
    lines: Sequence[Sequence[int]],
    top: float,
) -> None:
    """Draw a legend below the headings, its entries one after the other."""
    full, tall = figure.get_size_inches()
    for number, line in enumerate(lines):
        left, y = _MARGIN + 0.08, 1 - (top + 0.2 * number + 0.1) / tall
        for at in line:
            label, colour, marker = legend[at]
            figure.add_artist(
                Line2D(
                    [left / full],
                    [y],
                    linestyle="none",
                    marker=marker,
                    markersize=6,
                    color=colour,
                    markeredgecolor="white",
                    markeredgewidth=0.5,
                )
            )
            figure.text((left + 0.12) / full, y, label, va="center", fontsize=FONT)
            left += measure_text(label)[0] + 0.45


def draw_persona_legend(figure: Figure, looks: Looks, top: float) -> None:
    """Draw the legend of personas, its top at `top` inches from that of the figure."""
    lines = _break_legend([cut_name(look.label) for look in looks.values()], _width(figure))
    entries = [(cut_name(look.label), look.colour, look.marker) for look in looks.values()]
    _draw_legend(figure, entries, lines, top)


def measure_persona_legend(looks: Looks, width: float) -> float:
    """Give the inches that the legend of personas takes in a figure of a width."""
    return 0.2 * len(_break_legend([cut_name(look.label) for look in looks.values()], width)) + 0.05


def _width(figure: Figure) -> float:
    return float(figure.get_size_inches()[0])
