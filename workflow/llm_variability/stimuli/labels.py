"""Prompts that name a group by its label, as in "a story about an African American man".

Source: section 2.1 of the homogeneity paper. What stands in the paper (template, formats, races,
genders) is data: resources/labels.yaml. Other groups are another file.
"""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import polars as pl
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from llm_variability.config import ConfigError, Study, read_yaml, validate
from llm_variability.stimuli.identity import prompt_id
from llm_variability.tables import TABLES, Design, Factor

if TYPE_CHECKING:
    import inflect

ARTICLE = "a"
"""Placeholder of a template that becomes "a" or "an", as the next word wants it."""

BLOCK = "format"

RESERVED = {BLOCK, ARTICLE, "encoder", "row", "mean_cosine", "texts", "pairs"}.union(
    *(table.columns for table in TABLES.values())
)
"""Names that columns of the workflow have, and a factor cannot."""


def _texts(value: object) -> object:
    if isinstance(value, Mapping):
        if any(isinstance(part, bool) for entry in value.items() for part in entry):
            raise PydanticCustomError(
                "source", "YAML reads yes, no, on, off, true and false as truth values: quote them"
            )
        return {str(key): "" if text is None else str(text) for key, text in value.items()}
    return value


def _distinct(phrases: dict[str, str]) -> dict[str, str]:
    first: dict[str, str] = {}
    for name, text in phrases.items():
        if (other := first.setdefault(" ".join(text.split()), name)) != name:
            raise PydanticCustomError(
                "source", f"{other} and {name} have the same words, so they cannot be told apart"
            )
    return phrases


Phrases = Annotated[dict[str, str], BeforeValidator(_texts), AfterValidator(_distinct)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LabelFactor(_Section):
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


class LabelStimuli(_Section):
    """A stimuli file of a label study."""

    system: str | None = None
    template: str
    formats: Phrases
    factors: dict[str, LabelFactor] = Field(min_length=1)

    @model_validator(mode="after")
    def _template_fits(self) -> LabelStimuli:
        try:
            fields = [
                field for field in string.Formatter().parse(self.template) if field[1] is not None
            ]
            used = {str(name) for _, name, _, _ in fields}
        except ValueError as error:
            raise PydanticCustomError("source", f"template: {error}") from error
        if "" in used or any(spec or conversion for _, _, spec, conversion in fields):
            raise PydanticCustomError(
                "source", "template: braces hold a name and nothing else, as in {format}"
            )
        if re.search(r"\{a\}(?!\s+\S)", self.template):
            raise PydanticCustomError("source", "template: a word must follow {a}")
        reserved = RESERVED & self.factors.keys()
        if reserved:
            raise PydanticCustomError(
                "source", f"factors: {min(reserved)} is a name of the workflow; take another"
            )
        if not self.formats:
            raise PydanticCustomError("source", "formats: at least one is needed")
        needed = {BLOCK, *self.factors}
        if used - {ARTICLE} != needed:
            wrong = ", ".join(sorted((used - {ARTICLE}) ^ needed))
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
    if formats is None:
        return stimuli
    unknown = [name for name in formats if name not in stimuli.formats]
    if unknown:
        allowed = ", ".join(stimuli.formats)
        raise ConfigError(f"formats: {unknown[0]!r} is not in {path}. Allowed: {allowed}")
    if len(set(formats)) < len(formats):
        raise ConfigError("formats: a format is given twice; each once is allowed")
    kept = {name: stimuli.formats[name] for name in formats}
    return stimuli.model_copy(update={"formats": kept})


def indefinite_article(word: str, articles: inflect.engine) -> str:
    """Give "a" or "an" as the word is spoken: "an 8-year-old", "an 11-year-old", "a 100-dollar"."""
    bare = word.lstrip("\"'([{\N{LEFT DOUBLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}*_")
    if number := re.match(r"\d+(?:,\d{3})*", bare):
        digits = number[0].replace(",", "")
        spoken_first = digits[: (len(digits) - 1) % 3 + 1]
        return "an" if spoken_first in ("11", "18") or spoken_first.startswith("8") else "a"
    return str(articles.a(bare)).split()[0] if bare else "a"


def render_prompt(template: str, phrases: Mapping[str, str], articles: inflect.engine) -> str:
    """Fill a template; `{a}` becomes the indefinite article of the word that follows."""
    mark = "\N{NULL}"
    words = " ".join(template.format(**phrases, **{ARTICLE: mark}).split())
    return re.sub(
        f"{mark} ([^ ]+)",
        lambda found: f"{indefinite_article(found[1], articles)} {found[1]}",
        words,
    )


def _rows(stimuli: LabelStimuli, study: Study) -> Iterator[dict[str, object]]:
    import inflect  # here, since it takes over a second that only rendering needs

    articles = inflect.engine()
    greedy = study.draws if study.greedy_draws is None else study.greedy_draws
    for group, words in _group_phrases(stimuli):
        prompt = render_prompt(stimuli.template, words, articles)
        yield {
            **group,
            "prompt_id": prompt_id(stimuli.system, prompt),
            "system": stimuli.system,
            "prompt": prompt,
            "replicates": study.draws,
            "greedy_replicates": greedy,
        }


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
