"""What a table's contract is made of: columns, factors, the design of a study."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

STATUSES = ("ok", "empty", "truncated", "no_answer", "error")
"""What became of a draw: measured text; nothing came; cut at max_new_tokens; tokens were spent
but no final answer is among them; the server refused the request for good."""


class TableError(ValueError):
    """A table that does not keep its contract."""


@dataclass(frozen=True)
class Column:
    """A column: its polars type, what it holds, and whether it may be null."""

    dtype: Any
    meaning: str
    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """The contract of one kind of table.

    `takes_factors`: the study's own columns (text, named in the design) stand in it too.
    `optional`: columns that a table of this kind may have beside its others.
    `row`: what one row is.
    """

    name: str
    columns: Mapping[str, Column]
    takes_factors: bool = False
    optional: Mapping[str, Column] = field(default_factory=dict)
    row: str = ""


def tabulate_columns(table: Table) -> list[str]:
    """Write what a row of a table is, and its columns as the lines of a Markdown table."""
    lines = [f"A row: {table.row}.", "", "| column | type | meaning |", "|---|---|---|"]
    for name, column in {**table.columns, **table.optional}.items():
        null = ", may be null" if column.nullable else ""
        lacking = ", may be missing" if name in table.optional else ""
        lines.append(f"| `{name}` | {column.dtype}{null}{lacking} | {column.meaning} |")
    return lines


@dataclass(frozen=True)
class Factor:
    """A factor of the design: its levels in order, and the one the others are compared with."""

    name: str
    levels: tuple[str, ...]
    reference: str


@dataclass(frozen=True)
class Design:
    """How prompts are grouped and compared.

    `block` is the column with the random intercept (the writing format); `factors` are crossed
    and make the groups: texts are compared inside one block x group. `greedy_is_anchor` says that
    a prompt's draws at temperature 0 are repeats of one answer, so nothing is fitted there.
    `unit` is the column that tells a group's members apart where they are not draws of one prompt
    (the surname): it is carried along, and texts are compared across it. `carried` are further
    columns of the study's own (the augmentation of a programming task).
    """

    block: str
    factors: tuple[Factor, ...]
    greedy_is_anchor: bool = True
    blocks: tuple[str, ...] = field(default=())
    unit: str | None = None
    carried: tuple[str, ...] = ()

    @property
    def group(self) -> list[str]:
        """The columns that texts must share to be compared: the block and the factors."""
        return [self.block, *(factor.name for factor in self.factors)]

    @property
    def columns(self) -> list[str]:
        """Every column of the study's own: the group's, the unit's if there is one, the carried."""
        unit = [] if self.unit is None else [self.unit]
        return [*self.group, *unit, *self.carried]

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Design:
        factors = tuple(
            Factor(each["name"], tuple(each["levels"]), each["reference"])
            for each in value["factors"]
        )
        return cls(
            value["block"],
            factors,
            value["greedy_is_anchor"],
            tuple(value["blocks"]),
            value.get("unit"),
            tuple(value.get("carried", ())),
        )


SETTING = {
    "temperature": Column(pl.String, "sampling temperature, canonical text"),
    "top_p": Column(pl.String, "top-p, canonical text; null for greedy decoding", nullable=True),
}
"""Columns that tell a setting."""
