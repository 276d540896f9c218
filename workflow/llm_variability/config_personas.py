"""Typed settings of studies of personas: who asks, in which words, in how many turns."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from llm_variability.config_fields import (
    Name,
    Section,
    Whole,
    each_once,
    grid_axis,
    optional,
    required,
)

Flag = Literal["answer", "meta", "persona", "refusal", "cut", "identical", "adrift"]
"""What may be wrong with a rewritten task that is not empty."""

FLAGS_LEFT_OUT = ("answer", "meta", "persona", "refusal", "cut", "identical")


def _temperature_above_zero(value: Any) -> str:
    return grid_axis([value], 0.0, 2.0, low_is_allowed=False)[0]


SampledTemperature = Annotated[
    str,
    BeforeValidator(_temperature_above_zero),
    WithJsonSchema({"type": ["number", "string"]}),
]
"""A temperature at which two draws of one prompt may differ, as canonical text."""


class Personas(Section):
    """Who asks: personas, the model that takes their parts, and how often."""

    file: str = optional(
        "resources/personas.yaml", "File with the personas.", "an existing YAML file"
    )
    roles: Annotated[list[str], Field(min_length=1), AfterValidator(each_once)] | None = optional(
        None,
        "Roles taken (default: all of the file); they are compared.",
        "a list of roles of the file, each once",
    )
    genders: Annotated[list[str], Field(min_length=1), AfterValidator(each_once)] = optional(
        ["male"],
        "Genders that every role is asked in. More than one makes a second factor.",
        "a list of genders of the file, each once",
    )
    model: Name = required(
        "Model that takes each persona and rewrites the tasks, one of `models`.",
        "a name among the models",
    )
    iterations: Whole = Field(
        default=5,
        ge=2,
        description="Prompts of each persona for each task. Two are the fewest that tell persons"
        " from chance.",
        json_schema_extra={"allowed": "a whole number of at least 2"},
    )
    attempts: Whole = Field(
        default=3,
        ge=1,
        le=20,
        description="Tries at each of them; the first that can be used is taken.",
        json_schema_extra={"allowed": "a whole number from 1 to 20"},
    )
    temperature: SampledTemperature = optional(
        "1.0",
        "Temperature at which tasks are rewritten, at top-p 1.",
        "a number above 0, at most 2",
    )
    max_new_tokens: Whole = Field(
        default=512,
        ge=1,
        description="Longest rewritten task in tokens.",
        json_schema_extra={"allowed": "a whole number of at least 1"},
    )
    leave_out: Annotated[list[Flag], AfterValidator(each_once)] = optional(
        list(FLAGS_LEFT_OUT),
        "Flags with which a rewritten task is not used, but counted and tried again: it answers,"
        " talks of rewriting or of the persona, refuses, was cut, or is the task itself. An empty"
        " one never is used. One adrift, without a word of the task, is used unless you say so.",
        "a list of answer, meta, persona, refusal, cut, identical, adrift, each once",
    )


class Dialogue(Section):
    """Questions that the model may ask before it writes code, and the persona's answers."""

    exchanges: Whole = Field(
        default=1,
        ge=1,
        le=5,
        description="Questions that are answered at most.",
        json_schema_extra={"allowed": "a whole number from 1 to 5"},
    )
    max_new_tokens: Whole = Field(
        default=256,
        ge=1,
        description="Longest answer of the persona in tokens.",
        json_schema_extra={"allowed": "a whole number of at least 1"},
    )


class Separation(Section):
    """How far apart personas are, in their words and in the code that they get."""

    permutations: Whole = Field(
        default=999,
        ge=99,
        description="Random permutations of the prompts' personas in tests of similarities, of"
        " features and of wording (default: 999).",
        json_schema_extra={"allowed": "a whole number of at least 99"},
    )
    classifier_permutations: Whole = Field(
        default=199,
        ge=19,
        description="The same for the classifier that guesses who asked, which is trained anew each"
        " time (default: 199).",
        json_schema_extra={"allowed": "a whole number of at least 19"},
    )
    topics: Whole = Field(
        default=5,
        ge=2,
        description="Topics of the prompts.",
        json_schema_extra={"allowed": "a whole number of at least 2"},
    )
