"""What typed settings are made of: sections, numbers, grid values, names, allowed values."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError


class ConfigError(ValueError):
    """A mistake of the configuration, told in one line a problem."""


def optional(default: Any, description: str, allowed: str) -> Any:
    """Declare a key that may be left out. allowed: what a message says its values may be."""
    return Field(default, description=description, json_schema_extra={"allowed": allowed})


def required(description: str, allowed: str) -> Any:
    """Declare a key that must be given."""
    return Field(description=description, json_schema_extra={"allowed": allowed})


# --------------------------------------------------------------------------- grid values


def canonical_number(value: Any) -> str:
    """Write a grid value the one way it appears in paths and tables: `0`, `0.5`, `1.0`.

    Raises ValueError for anything but a finite number (or the text of one) with at most four
    decimals, so that two spellings of one value cannot become two cells.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("not a number")
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation as error:
        raise ValueError("not a number") from error
    if not number.is_finite() or abs(number) > 1_000_000 or number != round(number, 4):
        raise ValueError("not a finite number with at most four decimals")
    if number == 0:
        return "0"
    text = f"{number.normalize():f}"
    return text if "." in text else f"{text}.0"


def grid_axis(values: Any, low: float, high: float, low_is_allowed: bool) -> list[str]:
    """Read an axis of the grid: canonical numbers, ascending, each once.

    Raises PydanticCustomError for anything else, or for a number outside low to high.
    """
    if not isinstance(values, (list, tuple)) or not values:
        raise PydanticCustomError("grid", "must be a list with at least one number")
    spelled: dict[str, Any] = {}
    for value in values:
        try:
            text = canonical_number(value)
        except ValueError as error:
            raise PydanticCustomError("grid", f"{value!r} is {error}") from error
        if float(text) > high:
            raise PydanticCustomError("grid", f"{value} is above {high}")
        if float(text) < low or (float(text) == low and not low_is_allowed):
            relation = "below" if low_is_allowed else "not above"
            raise PydanticCustomError("grid", f"{value} is {relation} {low:g}")
        if text in spelled:
            raise PydanticCustomError("grid", f"{spelled[text]} and {value} are the same value")
        spelled[text] = value
    return sorted(spelled, key=float)


def _temperatures(values: Any) -> list[str]:
    return grid_axis(values, 0.0, 2.0, low_is_allowed=True)


def _top_ps(values: Any) -> list[str]:
    return grid_axis(values, 0.0, 1.0, low_is_allowed=False)


def _rates(values: Any) -> list[str]:
    return grid_axis(values, 0.0, 1.0, low_is_allowed=True)


_AXIS = WithJsonSchema({"type": "array", "items": {"type": ["number", "string"]}})

Temperatures = Annotated[list[str], BeforeValidator(_temperatures), _AXIS]
TopPs = Annotated[list[str], BeforeValidator(_top_ps), _AXIS]
Rates = Annotated[list[str], BeforeValidator(_rates), _AXIS]
"""Axes of the grid, in ascending order, as canonical text."""


# ------------------------------------------------------------------------------- sections

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
NAME_RULE = "letters, digits, '.', '_' and '-', beginning with a letter or digit"


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("grid", f"{str(value).lower()} is not a number")
    return value


NO_BOOL = BeforeValidator(_no_truth_value)
Whole = Annotated[int, NO_BOOL]
Real = Annotated[float, NO_BOOL, Field(allow_inf_nan=False)]
"""Numbers of the configuration; `true` is none, though Python takes it for 1."""


def iso_date(value: Any) -> str:
    """Read a date, as text or as YAML reads one; gives it as in 2025-01-31."""
    try:  # YAML reads 2025-01-01 as a date, and JSON as text
        return date.fromisoformat(str(value)).isoformat()
    except ValueError as error:
        raise PydanticCustomError("grid", f"{value!s} is no date") from error


def each_once(values: list[str]) -> list[str]:
    """Refuse a list that gives a value twice."""
    if len(set(values)) < len(values):
        raise PydanticCustomError("grid", "one is given twice")
    return values


def usable_folder(value: str) -> str:
    """Refuse a path that is blank or holds braces."""
    if not value.strip("/ ") or "{" in value or "}" in value:
        raise PydanticCustomError("grid", f"{value!r} is not a path")
    return value


class Section(BaseModel):
    """A mapping of the configuration; a key it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid")

    def to_json(self, fields: Collection[str] | None = None) -> str:
        """Write the section, or some of its fields, as one line of JSON."""
        return self.model_dump_json(include=set(fields) if fields is not None else None)
