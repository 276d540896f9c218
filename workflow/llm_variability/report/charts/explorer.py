"""What a chart of the page is made of, in the form that `scripts/explorer.js` reads.

A row stands at one value of every dimension. A reader chooses values by switches; one dimension
is laid out in panels. Of the row under the pointer or the focus, the page tells the numbers, and
beside them those of the rows that differ in the compared dimensions only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from llm_variability.report.contrasts import SIGNIFICANCE

DECIMALS = {"signed": 2, "plain": 3, "percent": 3, "count": 0}
"""Decimals with which the page writes a number of each format; a percent is kept as a share."""

FORMATS = (*DECIMALS, "p")
"""How a number is written; `explorer.js` does it."""


@dataclass(frozen=True)
class Dimension:
    """A column that rows are told apart by.

    key: its name in the specification. label: of its switch. values: in the order of the switch.
    files: what stands for each value in the names of files, if the chart has twins; None if there
    are no files of it. named: whether a value is told with the label before it, as in
    `temperature 0.5`.
    """

    key: str
    label: str
    values: Sequence[str]
    files: Sequence[str | None] = ()
    named: bool = False

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "key": self.key,
            "label": self.label,
            "values": list(self.values),
        }
        if self.files:
            found["files"] = list(self.files)
        return found | ({"named": True} if self.named else {})


@dataclass(frozen=True)
class Number:
    """A number of a row: its column, its heading, how it is written.

    upto: the column of the upper end, if it is the lower end of an interval.
    """

    key: str
    label: str
    format: str = "signed"
    upto: str | None = None

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ValueError(f"number {self.key}: format {self.format} is none of {FORMATS}")


TESTS = (
    Number("p_value", "p", "p"),
    Number("p_holm", "p, Holm", "p"),
    Number("p_bh", "p, Benjamini-Hochberg", "p"),
)
"""A p-value and both adjusted ones."""


@dataclass(frozen=True)
class Reading:
    """A way to read the rows of a chart, chosen by a switch: which of their columns is drawn.

    label: in the switch. told: what the drawn value is called in the finding. shown: for each name
    in the specification the column of numbers it stands for, or a number that is the same
    everywhere. file: what stands for it in the names of files, if the chart has twins.
    """

    label: str
    told: str
    shown: Mapping[str, str | float]
    file: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "told": self.told,
            "shown": dict(self.shown),
            "file": self.file,
        }


@dataclass(frozen=True)
class Chart:
    """One chart. Words are for people; a model's text is never among them.

    anchor: id of its element, also the prefix of ids in it. title: heading of the chart.
    dimensions: all of them. panels: keys of dimensions that can be laid out in panels, the first at
    first. across: keys of dimensions that the picture itself lays out (axes, colours).
    compared: keys of dimensions over which all rows are told.
    numbers: columns of numbers. rows: a column a dimension, with its values, and the numbers; null
    where there is none. words: further columns of short texts.
    A column `flag` of words is set behind the first number; `reason` says why numbers are missing.
    specification: Vega-Lite's, which names its data `shown`; `limit`, `least` and `most` are
    parameters of it if `scaled` names the column whose largest size, least and greatest value they
    are to be. `panel` and `series` are what a row's panel is called, and its value of the first
    dimension of `across` that is not in panels; each has its `_order`.
    readings: the ways to read the rows, the first at first; `scaled` and the finding's `measure`
    may name what is in their `shown`. shared: values of a dimension, such as a line of reference,
    that have no panel of their own: their rows are drawn in every panel, and have no series.
    finding: how the sentence under the picture is made: `measure` and its `label`, the dimension
    `along` which it is told or the column of words `by` which, or the columns `starred` (of words)
    and `adjusted` (p-values), with what to call marks `up` and `down`, and a `unit` of the rows
    counted; or of the dimension `per` whose marked values are listed.
    twins: pattern of the paths of the same as files, with `{model}` and the like, `{reading}`, and
    no suffix.
    """

    anchor: str
    title: str
    dimensions: Sequence[Dimension]
    panels: Sequence[str]
    across: Sequence[str]
    compared: Sequence[str]
    numbers: Sequence[Number]
    rows: pl.DataFrame
    specification: Mapping[str, Any]
    scaled: str | None = None
    words: Sequence[str] = ()
    finding: Mapping[str, Any] = field(default_factory=dict)
    twins: str | None = None
    suffixes: Sequence[str] = ("svg", "pdf", "png")
    panel_width: int = 200
    missing: str = "no fit"
    readings: Sequence[Reading] = ()
    shared: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Give everything the script needs, rows by column.

        Raises ValueError if a row has a value that its dimension does not name, or if two rows
        stand at the same values.
        """
        return {
            "anchor": self.anchor,
            "title": self.title,
            "dimensions": [each.to_json() for each in self.dimensions],
            "panels": list(self.panels),
            "across": list(self.across),
            "compared": list(self.compared),
            "numbers": [
                {
                    "key": each.key,
                    "label": each.label,
                    "format": each.format,
                    **({"upto": each.upto} if each.upto else {}),
                }
                for each in self.numbers
            ],
            "places": self._places(),
            "columns": {
                **{
                    key: _shorten(self.rows[key], each.format)
                    for each in self.numbers
                    for key in (each.key, each.upto)
                    if key
                },
                **{key: _code(self.rows[key]) for key in self.words},
            },
            "words": list(self.words),
            "spec": self.specification,
            "scaled": self.scaled,
            "finding": dict(self.finding),
            "twins": self.twins,
            "suffixes": list(self.suffixes),
            "panelWidth": self.panel_width,
            "missing": self.missing,
            "readings": [each.to_json() for each in self.readings],
            "shared": {key: list(values) for key, values in self.shared.items()},
        }

    def _places(self) -> list[int]:
        """Give each row's place: its values' indices as the digits of one number."""
        place = pl.lit(0, pl.Int64)
        for dimension in self.dimensions:
            values = {value: index for index, value in enumerate(dimension.values)}
            index = pl.col(dimension.key).replace_strict(
                values, default=None, return_dtype=pl.Int64
            )
            place = place * len(dimension.values) + index
        places = self.rows.select(place.alias("place"))["place"]
        if places.null_count():
            raise ValueError(f"chart {self.anchor}: a row has a value that no dimension names")
        if places.n_unique() != places.len():
            raise ValueError(f"chart {self.anchor}: two rows stand at the same values")
        return places.to_list()


def round_as_written(value: float, form: str) -> float:
    """Round a number so that the script writes it as the page's tables do.

    The script rounds once more to the same decimals, which changes nothing. p-values keep the
    decimals that leave them on their side of .05; those below .001 keep one digit.
    """
    if form != "p":
        return round(value, DECIMALS[form])
    if value < 0.001:
        return float(f"{value:.0e}")
    return next(
        short
        for decimals in range(3, 18)
        if ((short := round(value, decimals)) < SIGNIFICANCE) == (value < SIGNIFICANCE)
    )


def _shorten(column: pl.Series, form: str) -> list[float | int | None]:
    values = [None if value is None else round_as_written(value, form) for value in column]
    return [int(value) if value is not None and value == int(value) else value for value in values]


def _code(column: pl.Series) -> dict[str, Any]:
    """Write a column of few distinct texts as indices into a list of them."""
    values = column.drop_nulls().unique(maintain_order=True).to_list()
    index = {value: at for at, value in enumerate(values)}
    return {"values": values, "codes": [index.get(value, -1) for value in column]}
