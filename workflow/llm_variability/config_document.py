"""Every key of the configuration as Markdown: the text of docs/configuration.md.

python -m llm_variability.config_document > docs/configuration.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from llm_variability.config import Settings, allowed_text, is_mapping, submodel, yaml_scalar

_TYPES = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
}


def name_type(annotation: Any) -> str:
    """Name the type of a key's value: `text`, `list of whole number`, `mapping` like.

    Raises ValueError for a type that no key has had so far.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    if annotation in _TYPES:
        return _TYPES[annotation]
    if origin is Annotated:
        return name_type(arguments[0])
    if origin is Literal:
        return "text"
    if origin is list:
        return f"list of {name_type(arguments[0])}"
    if origin is dict:
        return "mapping"
    if origin in (Union, UnionType):
        kinds = [name_type(each) for each in arguments if each is not NoneType]
        return " or ".join(dict.fromkeys(kinds))
    raise ValueError(f"{annotation!r} has no name in the documentation of the configuration")


def _in_cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").strip()


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "its own defaults"
    return "none" if value is None else f"`{_in_cell(yaml_scalar(value))}`"


def _place(path: str, key: str, field: FieldInfo) -> str:
    """Write the path of a section's keys; the reader's own name in it is NAME."""
    return f"{path}{key}.NAME" if is_mapping(field.annotation) else f"{path}{key}"


def _sections(model: type[BaseModel], path: str) -> Iterator[tuple[str, str, type[BaseModel]]]:
    """Go through the sections: path, description and settings of each, an outer one first."""
    for key, field in model.model_fields.items():
        inner = submodel(field.annotation)
        if inner is None:
            continue
        place = _place(path, key, field)
        yield place, field.description or "", inner
        yield from _sections(inner, f"{place}.")


def _table(model: type[BaseModel], path: str) -> Iterator[str]:
    yield "| key | type | default | allowed | what it is |"
    yield "|---|---|---|---|---|"
    for key, field in model.model_fields.items():
        inner = submodel(field.annotation)
        told = _in_cell(field.description or "")
        if inner is not None:
            place = _place(path, key, field)
            told += f" Keys: [{place}](#{anchor(place)})."
        yield (
            f"| `{key}` | {name_type(field.annotation)} | {_default(field)}"
            f" | {_in_cell(allowed_text(field))} | {told} |"
        )


def anchor(heading: str) -> str:
    """Write the anchor that a forge, and the site, give a heading of a path of keys."""
    return re.sub(r"[^\w-]", "", heading.lower())


def describe_settings() -> str:
    """Write every key of the configuration as Markdown: type, default, allowed values, meaning."""
    lines = [
        "# Every configuration key",
        "",
        "Generated from the typed settings in `workflow/llm_variability/config*.py` by `make",
        "config`. `NAME` is a name of your choice. A key that is not here is refused, with the",
        "nearest one that is. How to write a configuration:",
        "[config/README.md](../config/README.md).",
        "",
        "## Top level",
        "",
        *_table(Settings, ""),
    ]
    for path, description, model in _sections(Settings, ""):
        lines += ["", f"## {path}", "", description, "", *_table(model, f"{path}.")]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(describe_settings())
