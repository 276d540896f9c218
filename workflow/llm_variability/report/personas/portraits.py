"""The table of the personas: what each asks for, in what tone, and what code it gets.

Source: section IV-C of the code paper, which tells it in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.report.comparisons import Setting, at_setting
from llm_variability.report.personas import excerpts, statements
from llm_variability.report.personas.statements import Names
from llm_variability.report.pictures import Context
from llm_variability.report.wording import quantity
from llm_variability.table_contract import Table
from llm_variability.tables import DRAWS, read_metadata, read_table
from llm_variability.tables_code import PROGRAMS
from llm_variability.tables_personas import ENTITIES, FAILED, FEATURES, STYLE

OF_PROGRAMS = tuple(name for name in excerpts.CODE_TOLD if name != "reply_lines")
"""Features that only programs have."""

PORTRAIT_RULES = (
    "Every cell follows a rule; nobody chose a text. Emphasis: the entities that most more of the"
    " persona's prompts have than of the others' do on average (of as many, those in more of its"
    " sentences, and then by the alphabet), and the sentences with most of"
    f" them. Tone and code: the features whose mean is {excerpts.FAR:g} standard errors or more"
    " from the median of the other personas' means, the furthest first (none of a persona with too"
    " few prompts for a standard error of its own); sentences of the prompts,"
    " and lines of the programs, that are furthest in the first of them that can be seen in a"
    " text. Where none can, a text is shown from its beginning. Replies without code are over all"
    f" models and settings, as they begin. At most {excerpts.EXCERPTS_SHOWN} excerpts of different"
    " prompts, cut at"
    f" {excerpts.EXCERPT_CHARACTERS} characters and {excerpts.EXCERPT_LINES} lines of code."
)


@dataclass(frozen=True)
class PersonaFiles:
    """Files of one study that its section reads besides the tables of the page.

    features, programs: of each model. draws: of each model, at one setting or several.
    """

    stimuli: Path
    rewritings: Path
    style: Path | None = None
    entities: Path | None = None
    entity_map: Path | None = None
    features: Mapping[str, Path] = field(default_factory=dict)
    programs: Mapping[str, Path] = field(default_factory=dict)
    draws: Sequence[Path] = ()


def read_optional(path: Path | None, table: Table) -> pl.DataFrame:
    """Read a table; one without a row if there is no file."""
    if path is None:
        return pl.DataFrame(schema={name: each.dtype for name, each in table.columns.items()})
    return read_table(path, table)


@dataclass(frozen=True)
class Portraits:
    """What the table of the personas is made from.

    means: rows of `persona_means` of one study. replies: of `persona_replies`.
    """

    files: PersonaFiles
    means: pl.DataFrame
    replies: pl.DataFrame
    rewritings: pl.DataFrame
    names: Names
    setting: Setting

    def arrange(self) -> list[Context]:
        """Write a row a persona: what it asks for and how, what it gets."""
        entities = read_optional(self.files.entities, ENTITIES)
        style = read_optional(self.files.style, STYLE)
        features = {
            model: read_table(path, FEATURES) for model, path in self.files.features.items()
        }
        programs = {
            model: read_table(path, PROGRAMS) for model, path in self.files.programs.items()
        }
        draws = [(read_metadata(path), read_table(path, DRAWS)) for path in self.files.draws]
        used = self.rewritings.filter("used").with_columns(pl.col("iteration").cast(pl.String))
        counts = dict(used["persona"].value_counts().rows())
        arranged = []
        for persona, name in self.names.items():
            texts = used.filter(pl.col("persona") == persona).select("task", "iteration", "text")
            own_style = style.filter(pl.col("persona") == persona).drop("persona", "role", "gender")
            arranged.append(
                {
                    "persona": name,
                    "cells": [
                        self._show_emphasis(entities, counts, persona, texts),
                        self._show_tone(own_style, persona, texts),
                        self._show_code(features, programs, persona),
                        self._show_without_code(features, draws, persona),
                    ],
                }
            )
        return arranged

    def _show_emphasis(
        self,
        entities: pl.DataFrame,
        counts: Mapping[str, int],
        persona: str,
        texts: pl.DataFrame,
    ) -> Context:
        found = excerpts.find_distinctive(entities, counts, persona)
        told = [each.describe() for each in found] or ["nothing that others have less"]
        return {"told": told, "excerpts": excerpts.excerpt_entities(texts, found)}

    def _show_tone(self, style: pl.DataFrame, persona: str, texts: pl.DataFrame) -> Context:
        means = self.means.filter(
            pl.col("model").is_null(), ~pl.col("feature").str.starts_with("topic-")
        )
        found = excerpts.find_outstanding(means, persona)
        told = [each.describe() for each in found] or [explain_none(means, persona)]
        return {"told": told, "excerpts": excerpts.excerpt_style(texts, style, found)}

    def _show_code(
        self,
        features: Mapping[str, pl.DataFrame],
        programs: Mapping[str, pl.DataFrame],
        persona: str,
    ) -> Context:
        told, shown = [], []
        parts = statements.list_model_means(self.means, self.setting)
        for model, part in parts:
            found = excerpts.find_outstanding(part, persona, excerpts.CODE_TOLD)
            of_programs = part.filter(pl.col("feature").is_in(OF_PROGRAMS))
            words = "; ".join(each.describe() for each in found)
            words = words or explain_none(of_programs, persona)
            told.append(words if len(parts) == 1 else f"{model}: {words}")
            if found and model in features and model in programs:
                own = features[model].filter(pl.col("persona") == persona)
                feature = excerpts.choose_shown(found)
                place = (feature, self.setting, model)
                shown.append(list(excerpts.excerpt_programs(own, programs[model], *place)))
        # One of each model before a second one of the first.
        turns = [each for turn in range(excerpts.EXCERPTS_SHOWN) for each in _take(shown, turn)]
        return {"told": told or ["no program"], "excerpts": turns[: excerpts.EXCERPTS_SHOWN]}

    def _show_without_code(
        self,
        features: Mapping[str, pl.DataFrame],
        draws: Sequence[tuple[Mapping[str, Any], pl.DataFrame]],
        persona: str,
    ) -> Context:
        here = self.replies.filter(pl.col("persona") == persona)
        total, none, failed = (int(here[name].sum()) for name in ("replies", "none", FAILED))
        told = [f"{none:,} of {quantity(total, 'reply', 'replies')}" if total else "no reply"]
        if failed:
            told.append(f"{quantity(failed, 'draw')} more without a reply")
        shown: list[excerpts.Excerpt] = []
        for made_by, drawn in draws:
            model = str(made_by["model"])
            if model in features:
                setting = (str(made_by["temperature"]), made_by.get("top_p"))
                own = features[model].filter(at_setting(setting), pl.col("persona") == persona)
                shown += excerpts.excerpt_replies(own, drawn, model)
        return {"told": told, "excerpts": shown[: excerpts.EXCERPTS_SHOWN]}


def explain_none(means: pl.DataFrame, persona: str) -> str:
    """Say why nothing is told of a persona: nothing is far from the others, or nothing is known.

    means: rows of `persona_means` of one model and setting, or of the prompts.
    """
    own = means.filter(pl.col("persona") == persona).drop_nulls("mean")
    if not own.height:
        return "not known: no means to compare"
    if not own["std_error"].count():
        return "not known: too few prompts for standard errors"
    return "nothing far from the others"


def _take(shown: Sequence[Sequence[excerpts.Excerpt]], turn: int) -> Iterator[excerpts.Excerpt]:
    yield from (each[turn] for each in shown if len(each) > turn)
