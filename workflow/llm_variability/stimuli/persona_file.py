"""Personas: who asks, read from a YAML file.

Source: section IV-A of the code paper: background, education, skills and habits of speech, so that
what differs is what somebody knows of programming.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field, StringConstraints

from llm_variability.config import (
    NAME_PATTERN,
    ConfigError,
    find_resource,
    read_yaml,
    shown,
    validate,
)
from llm_variability.config_personas import Personas
from llm_variability.stimuli.prompts import Section
from llm_variability.stimuli.tasks import Text

Identifier = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


def _one_line(value: str) -> str:
    return " ".join(value.split())


Prose = Annotated[Text, AfterValidator(_one_line)]


def _described(description: str, allowed: str = "text") -> str:
    told: str = Field(description=description, json_schema_extra={"allowed": allowed})
    return told


class Role(Section):
    """A role: what somebody has done and learnt, can do, and how they talk."""

    label: Prose = _described("What the role is called.")
    names: dict[Identifier, Prose] = Field(
        description="First name, by gender.",
        json_schema_extra={"allowed": "a mapping from genders to names"},
    )
    background: Prose = _described("What they do and did.")
    education: Prose = _described("What they learnt.")
    skills: Prose = _described("What they can do.")
    speech: Prose = _described("How they talk.")
    words: list[Prose] = Field(
        default=[],
        description="Words beside label and name by which a message would speak of the persona.",
        json_schema_extra={"allowed": "a list of texts"},
    )


class _File(Section):
    genders: dict[Identifier, Prose] = Field(
        description="Genders, and the noun of each.",
        json_schema_extra={"allowed": "a mapping from genders to nouns"},
    )
    roles: dict[Identifier, Role] = Field(
        description="Roles.", json_schema_extra={"allowed": "a mapping from names to roles"}
    )


class Persona(NamedTuple):
    """Somebody who asks: a role in a gender.

    gender: its id; noun: the word for somebody of it. first_name: of this role in this gender.
    """

    role: str
    gender: str
    first_name: str
    noun: str
    told: Role

    @property
    def name(self) -> str:
        """What names the persona in tables, as in english-teacher-male."""
        return f"{self.role}-{self.gender}"

    def describe(self) -> str:
        """Tell the persona who they are, in the second person."""
        told = self.told
        return (
            f"You are {self.first_name}, a {self.noun}. {told.background}\n{told.education}\n"
            f"{told.skills}\n{told.speech}"
        )


def locate_personas(wanted: Personas) -> Path:
    """Find the file with the personas: here, or among those that ship with the workflow."""
    return find_resource(wanted.file, Path(__file__).parents[3])


def read_personas(path: Path, wanted: Personas) -> list[Persona]:
    """Read the personas that a study takes, role by role, in the order asked for.

    Raises ConfigError, one line a problem that begins with the file: a role without a description
    or a name, a role or gender that is not in the file, fewer than two personas.
    """
    values = read_yaml(path)
    file = validate(_File, values, [(shown(path), values)])
    roles = list(file.roles) if wanted.roles is None else wanted.roles
    problems = [
        f"{shown(path)}: {key}: {name!r} is not there. Allowed: {', '.join(there)}"
        for key, names, there in (
            ("roles", roles, file.roles),
            ("genders", wanted.genders, file.genders),
        )
        for name in names
        if name not in there
    ]
    problems += [
        f"{shown(path)}: roles.{role}.names: has no name for {gender!r}. Allowed: one for each of"
        f" {', '.join(wanted.genders)}"
        for role in roles
        for gender in wanted.genders
        if role in file.roles and gender in file.genders
        if gender not in file.roles[role].names
    ]
    if problems:
        raise ConfigError("\n".join(problems))
    personas = [
        Persona(
            role, gender, file.roles[role].names[gender], file.genders[gender], file.roles[role]
        )
        for role in roles
        for gender in wanted.genders
    ]
    by_name: dict[str, Persona] = {}
    for persona in personas:
        other = by_name.setdefault(persona.name, persona)
        if other is not persona:
            raise ConfigError(
                f"{shown(path)}: roles: {persona.role!r} in {persona.gender!r} and {other.role!r}"
                f" in {other.gender!r} are both called {persona.name}. Allowed: names of roles and"
                " genders that tell personas apart when put together"
            )
    if len(personas) < 2:
        raise ConfigError(
            f"{shown(path)}: {len(personas)} persona, which there is none to compare with. Allowed:"
            " at least two, roles times genders"
        )
    return personas
