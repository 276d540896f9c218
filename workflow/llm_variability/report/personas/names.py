"""The figures of a study of personas by name, which rules and page share; nothing here draws."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from llm_variability.report.wording import show_text

PERSONA_PREFIX = "persona-"
"""Begins the name of every figure's file."""

NETWORK, MAP, TOPICS, STYLE = "network", "map", "topics", "style"
SIMILARITY, SEPARATION = "similarity", "separation"
FEATURES, AMOUNT, LEAKAGE, DIALOGUE = "features", "amount", "leakage", "dialogue"
"""Kinds of figures. Those of a measure are named after it too."""


class PersonaFigure(NamedTuple):
    """A figure of a study of personas: its file's name after the prefix, what it shows.

    measure: of programs, or empty. caption: of the report, a file's name without suffix.
    """

    ending: str
    kind: str
    label: str
    measure: str
    caption: str


_OF_PROMPTS = {
    NETWORK: "shared entities",
    MAP: "map of entities",
    TOPICS: "topics",
    STYLE: "style",
}
_OF_MEASURES = {
    SIMILARITY: "similarity by persona",
    SEPARATION: "within and between personas",
}
_OF_PROGRAMS = {
    FEATURES: "features of code",
    AMOUNT: "amount of code",
    LEAKAGE: "guessing who asked",
}


def _of_no_measure(kinds: dict[str, str]) -> list[PersonaFigure]:
    return [
        PersonaFigure(kind, kind, label, "", f"persona_{kind}") for kind, label in kinds.items()
    ]


def list_persona_figures(measures: Sequence[str], dialogue: bool) -> list[PersonaFigure]:
    """List the figures of a study, whose files are STUDY/persona-ENDING.svg.

    measures: of programs, the primary one first. dialogue: whether models could ask back.
    """
    return [
        *_of_no_measure(_OF_PROMPTS),
        *(
            PersonaFigure(f"{kind}-{measure}", kind, label, measure, f"persona_{kind}")
            for measure in measures
            for kind, label in _OF_MEASURES.items()
        ),
        *_of_no_measure(_OF_PROGRAMS | ({DIALOGUE: "dialogue"} if dialogue else {})),
    ]


def name_roles(table: pl.DataFrame, labels: Mapping[str, str] | None = None) -> dict[str, str]:
    """Name each role for the reader: by its label, else by its own name in words.

    Labels are left aside where two roles would be called alike.

    table: with persona and role. labels: of personas. Returns names by role, in the order of the
    rows; `english-teacher` is `English teacher`, or without a label `english teacher`.
    """
    plain: dict[str, str] = {}
    labelled: dict[str, str] = {}
    for persona, role in table.select("persona", "role").unique(maintain_order=True).iter_rows():
        plain[role] = role.replace("-", " ")
        label = show_text((labels or {}).get(persona, "")).strip()
        labelled[role] = label or labelled.get(role, plain[role])
    return labelled if len(set(labelled.values())) == len(labelled) else plain


def name_personas(table: pl.DataFrame, labels: Mapping[str, str] | None = None) -> dict[str, str]:
    """Name each persona for the reader: its role, and its gender where there is more than one.

    table: with persona, role and gender. labels: of personas, as the file of personas has them.
    Returns names by persona, in the order of the rows; `english-teacher-male` is `English teacher`,
    or `English teacher (male)`.
    """
    roles = name_roles(table, labels)
    personas = table.select("persona", "role", "gender").unique(maintain_order=True)
    one_gender = personas["gender"].n_unique() < 2
    return {
        persona: roles[role] + ("" if one_gender else f" ({gender})")
        for persona, role, gender in personas.iter_rows()
    }


def name_in_text(text: str, names: Mapping[str, str]) -> str:
    """Put the names of personas in place of what tables call them. names: by persona."""
    if not names:
        return text
    listed = "|".join(re.escape(each) for each in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w-])(?:{listed})(?![\w-])", lambda found: names[found[0]], text)


def read_labels(made_by: Mapping[str, Any]) -> dict[str, str]:
    """Give the label of each persona that has one. made_by: metadata of a REWRITINGS table."""
    told = made_by.get("personas", {})
    return {persona: str(each["label"]) for persona, each in told.items() if each.get("label")}


def choose_persona_setting(rows: pl.DataFrame) -> tuple[str, str | None] | None:
    """Choose the setting that is shown first: temperature 1 and top-p 1, if it was drawn.

    Else the sampled one nearest to it: the temperature nearest to 1 (of two equally near ones the
    lower), and of it the highest top-p. Greedy decoding only if nothing was sampled: its draws of
    one prompt are nearly the same, so they say little of how much code varies anyway. The published
    study asked products that sample.

    rows: with temperature and top_p; those without a temperature are not looked at. None if no row
    has one.
    """
    settings = rows.select("temperature", "top_p").drop_nulls("temperature").unique().rows()
    return min(settings, key=_distance_from_default, default=None)


def _distance_from_default(setting: tuple[str, str | None]) -> tuple[bool, float, float, float]:
    temperature, top_p = float(setting[0]), float(setting[1] or 1)
    return temperature == 0, round(abs(temperature - 1), 9), temperature, -top_p
