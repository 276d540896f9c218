"""The page of all keys: it is what the settings say, and every key is on it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from llm_variability.config import schema_json
from llm_variability.config_document import describe_settings, name_type

HOME = Path(__file__).parents[2]


def test_the_page_of_keys_is_the_generated_text() -> None:
    assert (HOME / "docs/configuration.md").read_text(encoding="utf-8") == describe_settings()


def test_every_key_of_the_json_schema_is_a_row() -> None:
    """The schema is pydantic's own, so it knows every key whatever the page leaves out."""
    schema = json.loads(schema_json())
    keys = [
        sorted(section["properties"])
        for section in (schema, *schema["$defs"].values())
        if "properties" in section
    ]
    parts = re.split(r"^## ", describe_settings(), flags=re.MULTILINE)[1:]
    rows = [sorted(re.findall(r"^\| `(\w+)` ", part, re.MULTILINE)) for part in parts]
    assert {tuple(each) for each in rows} == {tuple(each) for each in keys}


def test_every_link_to_a_section_has_its_heading() -> None:
    text = describe_settings()
    headings = {
        re.sub(r"[^\w-]", "", each.lower()) for each in re.findall(r"^## (.*)$", text, re.M)
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) == headings - {"toplevel"}


def test_every_row_has_five_cells() -> None:
    rows = [line for line in describe_settings().splitlines() if line.startswith("| `")]
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {7}


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (int | None, "whole number"),
        (list[str], "list of text"),
        (dict[str, int], "mapping"),
        (str | int | bool, "text or whole number or true or false"),
    ],
)
def test_a_type_has_a_plain_name(annotation: Any, name: str) -> None:
    assert name_type(annotation) == name


def test_a_type_without_a_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no name"):
        name_type(complex)
