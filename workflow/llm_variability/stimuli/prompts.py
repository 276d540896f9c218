"""What the kinds of study share: templates, formats, articles."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

from llm_variability.config import ConfigError, Study
from llm_variability.stimuli.identity import prompt_id

if TYPE_CHECKING:
    import inflect

ARTICLE = "a"
"""Placeholder of a template that becomes "a" or "an", as the next word wants it."""

BLOCK = "format"


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
"""Words of a prompt by id; no two ids have the same words."""


class Section(BaseModel):
    """A mapping of a stimuli file; a key it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid")


def read_placeholders(template: str) -> set[str]:
    """List a template's placeholders, `{a}` left out.

    Raises PydanticCustomError if its braces hold anything but a name, or no word follows `{a}`.
    """
    try:
        fields = [field for field in string.Formatter().parse(template) if field[1] is not None]
        used = {str(name) for _, name, _, _ in fields}
    except ValueError as error:
        raise PydanticCustomError("source", f"template: {error}") from error
    if "" in used or any(spec or conversion for _, _, spec, conversion in fields):
        raise PydanticCustomError(
            "source", "template: braces hold a name and nothing else, as in {format}"
        )
    if re.search(r"\{a\}(?!\s+\S)", template):
        raise PydanticCustomError("source", "template: a word must follow {a}")
    return used - {ARTICLE}


def keep_formats(formats: dict[str, str], wanted: list[str] | None, path: Path) -> dict[str, str]:
    """Keep the wanted formats in the order asked for; all if none is asked for.

    path: the stimuli file, named in the message.
    Raises ConfigError for a format that is unknown or given twice, or if none is wanted.
    """
    if wanted is None:
        return formats
    if not wanted:
        raise ConfigError(f"formats: none is given. Allowed: at least one of {', '.join(formats)}")
    unknown = [name for name in wanted if name not in formats]
    if unknown:
        allowed = ", ".join(formats)
        raise ConfigError(f"formats: {unknown[0]!r} is not in {path}. Allowed: {allowed}")
    if len(set(wanted)) < len(wanted):
        raise ConfigError("formats: a format is given twice; each once is allowed")
    return {name: formats[name] for name in wanted}


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


def prompt_row(system: str | None, prompt: str, study: Study) -> dict[str, object]:
    """Make a prompt's columns of the stimuli table, the study's own left out."""
    greedy = study.draws if study.greedy_draws is None else study.greedy_draws
    return {
        "prompt_id": prompt_id(system, prompt),
        "system": system,
        "prompt": prompt,
        "replicates": study.draws,
        "greedy_replicates": greedy,
    }
