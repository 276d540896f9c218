"""Prompts that name a group by its label, as in "a story about an African American man".

Source: section 2.1 of the homogeneity paper. What stands in the paper (template, formats, races,
genders) is data: resources/labels.yaml. Other groups are another file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import polars as pl
from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from llm_variability.config import ConfigError, Study, read_yaml, validate
from llm_variability.stimuli.prompts import (
    ARTICLE,
    BLOCK,
    Phrases,
    Section,
    keep_formats,
    prompt_row,
    read_placeholders,
    render_prompt,
)
from llm_variability.tables import STUDY_TABLES, Design, Factor

RESERVED = {BLOCK, ARTICLE, "encoder", "row", "mean_cosine", "texts", "pairs"}.union(
    *(table.columns for table in STUDY_TABLES)
)
"""Names that columns of the workflow have, and a factor cannot."""


class LabelFactor(Section):
    """A factor: its levels, each with its words in the prompt, and the reference level."""

    reference: Annotated[str, BeforeValidator(str)]
    levels: Phrases

    @model_validator(mode="after")
    def _reference_is_a_level(self) -> LabelFactor:
        if len(self.levels) < 2:
            raise PydanticCustomError("source", "levels: at least two are needed")
        if self.reference not in self.levels:
            levels = ", ".join(self.levels)
            raise PydanticCustomError(
                "source", f"reference: {self.reference!r} is no level. Allowed: {levels}"
            )
        return self


class LabelStimuli(Section):
    """A stimuli file of a label study."""

    system: str | None = None
    template: str
    formats: Phrases
    factors: dict[str, LabelFactor] = Field(min_length=1)

    @model_validator(mode="after")
    def _template_fits(self) -> LabelStimuli:
        used = read_placeholders(self.template)
        reserved = RESERVED & self.factors.keys()
        if reserved:
            raise PydanticCustomError(
                "source", f"factors: {min(reserved)} is a name of the workflow; take another"
            )
        if not self.formats:
            raise PydanticCustomError("source", "formats: at least one is needed")
        needed = {BLOCK, *self.factors}
        if used != needed:
            wrong = ", ".join(sorted(used ^ needed))
            raise PydanticCustomError(
                "source",
                f"template: {{{wrong}}} must stand both in the template and among the factors."
                f" Allowed: {{format}}, {{{ARTICLE}}} and each factor",
            )
        return self


def _group_phrases(stimuli: LabelStimuli) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """List each block x group: its levels by name, and its words by placeholder."""
    factors = stimuli.factors
    for block, phrase in stimuli.formats.items():
        for levels in itertools.product(*(factor.levels for factor in factors.values())):
            group = dict(zip(factors, levels, strict=True))
            words = {name: factors[name].levels[level] for name, level in group.items()}
            yield {BLOCK: block, **group}, {BLOCK: phrase, **words}


def _require_distinct_prompts(stimuli: LabelStimuli) -> None:
    seen: set[str] = set()
    for _, words in _group_phrases(stimuli):
        prompt = " ".join(stimuli.template.format(**words, **{ARTICLE: "a"}).split())
        if prompt in seen:
            raise ConfigError(f"two groups get the same prompt: {prompt!r}")
        seen.add(prompt)


def read_label_stimuli(path: Path, formats: list[str] | None = None) -> LabelStimuli:
    """Read a stimuli file and keep the wanted formats, in the order asked for.

    Raises ConfigError, one line a problem, if the file cannot be read or is wrong.
    """
    values = read_yaml(path)
    stimuli = validate(LabelStimuli, values, [(str(path), values)])
    _require_distinct_prompts(stimuli)
    kept = keep_formats(stimuli.formats, formats, path)
    return stimuli.model_copy(update={"formats": kept})


def _rows(stimuli: LabelStimuli, study: Study) -> Iterator[dict[str, object]]:
    import inflect  # here, since it takes over a second that only rendering needs

    articles = inflect.engine()
    for group, words in _group_phrases(stimuli):
        prompt = render_prompt(stimuli.template, words, articles)
        yield {**group, **prompt_row(stimuli.system, prompt, study)}


def render_label_prompts(stimuli: LabelStimuli, study: Study) -> tuple[pl.DataFrame, Design]:
    """Render every format x group of a label study.

    Returns the stimuli table (a row a prompt) and the design: formats as blocks, the factors
    crossed, all draws of one prompt compared with each other.
    """
    table = pl.DataFrame(
        list(_rows(stimuli, study)),
        schema_overrides={"system": pl.String},
        infer_schema_length=None,
    )
    factors = tuple(
        Factor(name, tuple(factor.levels), factor.reference)
        for name, factor in stimuli.factors.items()
    )
    return table, Design(BLOCK, factors, True, tuple(stimuli.formats))
