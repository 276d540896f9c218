"""What the page says of one study of personas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.config_personas import Separation
from llm_variability.report import rankings
from llm_variability.report.charts.matrices import PersonaStudy, chart_personas
from llm_variability.report.code.figures import describe_setting
from llm_variability.report.comparisons import Setting, at_setting
from llm_variability.report.personas import rows, statements
from llm_variability.report.personas.alarms import describe_persona_alarms
from llm_variability.report.personas.checks import check_personas
from llm_variability.report.personas.names import (
    AMOUNT,
    DIALOGUE,
    FEATURES,
    LEAKAGE,
    MAP,
    NETWORK,
    PERSONA_PREFIX,
    SEPARATION,
    SIMILARITY,
    STYLE,
    TOPICS,
    choose_persona_setting,
    list_persona_figures,
    name_personas,
    name_roles,
    read_labels,
)
from llm_variability.report.personas.portraits import (
    PORTRAIT_RULES,
    PersonaFiles,
    Portraits,
    read_optional,
)
from llm_variability.report.personas.statements import Names
from llm_variability.report.pictures import Context, embed, locate_study_figures
from llm_variability.report.provenance import flatten
from llm_variability.report.study_section import count_rows
from llm_variability.report.wording import anchor, listing, quantity, show_text
from llm_variability.tables import STIMULI, read_metadata, read_table
from llm_variability.tables_personas import ENTITY_MAP, REWRITINGS
from llm_variability.tables_personas import FEATURES as FEATURES_TABLE

PersonaFigures = dict[tuple[str, str], Path]

ROWS_SHOWN = 180
"""Rows that a table of all settings has at most; with more, the page shows one setting."""

DOCUMENTS = ("personas.md", "linguistics.md", "code-features.md", "separation.md")

VARIANTS = {"iterations": "every iteration", "sampled": "one sampled, as published"}

CONFOUNDED = (
    "The published study put one sampled prompt of each persona and task to each model. Any two"
    " personas then differ in their one prompt too, and two prompts of one persona already get"
    " different code: what is between personas cannot be told from what is between prompts. So no"
    " test of it is made here; the tests above take every iteration."
)

_NO_SETTING: Setting = ("", None)
"""Stands for the setting that is shown where nothing was drawn."""

_WORDING_FACTS = ("parser", "parser_version", "spacy", "scikit_learn", "words_sha256", "topics")


def locate_persona_figures(paths: Sequence[Path]) -> PersonaFigures:
    """Find each figure by (study, ending) from STUDY/persona-ENDING.svg.

    Raises ValueError for a path that is not so.
    """
    for path in paths:
        if not path.stem.startswith(PERSONA_PREFIX) or path.suffix != ".svg":
            raise ValueError(
                f"{path}: a figure of a study of personas is STUDY/{PERSONA_PREFIX}NAME.svg"
            )
    located = locate_study_figures(paths)
    return {
        (study, stem.removeprefix(PERSONA_PREFIX)): path for (study, stem), path in located.items()
    }


class _Pictures:
    """The figures of a study, each with its caption."""

    def __init__(self, study: str, measures: Sequence[str], figures: PersonaFigures, output: Path):
        self._study, self._figures, self._output = study, figures, output
        self._measures = measures
        self._listed = list_persona_figures(measures, dialogue=True)

    def show(self, kind: str, caption: str) -> Context:
        """Give the first figure of a kind, its caption and the files of the other measures."""
        of_kind = [each for each in self._listed if each.kind == kind]
        first = of_kind[0].ending if of_kind else ""
        path = self._figures.get((self._study, first))
        return {
            "figure": embed(path, caption, self._output),
            "caption": caption,
            "others": [
                {"name": f"{each.measure}, {each.label}", "downloads": found["downloads"]}
                for each in of_kind[1:]
                if (path := self._figures.get((self._study, each.ending)))
                if (found := embed(path, "", self._output, inside=False))
            ],
        }


def _describe_personas(made_by: Mapping[str, Any], names: Names) -> list[Context]:
    """Write who asks, each with the description that the model got."""
    told = made_by.get("personas", {})
    return [
        {
            "name": name,
            "label": show_text(str(told.get(persona, {}).get("label", name))),
            "description": show_text(str(told.get(persona, {}).get("description", ""))),
        }
        for persona, name in names.items()
    ]


def _describe_tasks(made_by: Mapping[str, Any], prompts: pl.DataFrame) -> list[Context]:
    """Write what was to be asked for, in the order of the rows of `persona_prompts`."""
    texts = made_by.get("tasks", {})
    return [
        {"name": task, "text": show_text(str(texts.get(task, "")))}
        for task in prompts["task"].unique(maintain_order=True)
    ]


def _describe_design(
    stimuli: pl.DataFrame, prompts: pl.DataFrame, names: Names, models: Sequence[str]
) -> str:
    tasks = prompts["task"].n_unique()
    draws = stimuli["replicates"].unique().sort().to_list()
    each = "" if not draws else f", {' or '.join(f'{count:,}' for count in draws)} draws each"
    return (
        f"{quantity(len(names), 'persona')} ask for {quantity(tasks, 'program')}:"
        f" {listing(list(names.values()))}. {quantity(stimuli.height, 'prompt')} went to"
        f" {listing(models) if models else 'no model'}{each}."
    )


def _at_setting_if_many(frame: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    return frame if frame.height <= ROWS_SHOWN else frame.filter(at_setting(setting))


def _arrange_confusions(confusions: pl.DataFrame, setting: Setting, names: Names) -> list[Context]:
    """Write a table of guesses a model and view."""
    here = confusions.filter(at_setting(setting))
    parts = here.partition_by("model", "features", maintain_order=True, as_dict=True)
    return [
        {"title": f"{model}, by {seen}", "table": rows.tabulate_confusions(part, names)}
        for (model, seen), part in parts.items()
    ]


class _Section:
    """A study's tables, and what is said of each part of it."""

    def __init__(
        self,
        study: str,
        tables: Mapping[str, pl.DataFrame],
        figures: PersonaFigures,
        files: PersonaFiles,
        labels: Mapping[str, str],
        stars: str,
        output: Path,
    ) -> None:
        self.tables = {
            name: table.filter(pl.col("study") == study) for name, table in tables.items()
        }
        self.files, self.stars = files, stars
        self.replies, self.means = self.tables["persona_replies"], self.tables["persona_means"]
        self.separation = self.tables["persona_separation"]
        self.leakage = self.tables["persona_leakage"]
        self.names = name_personas(self.tables["persona_prompts"], labels)
        self.levels = self.names | name_roles(self.tables["persona_prompts"], labels)
        self.models = self.replies["model"].unique(maintain_order=True).to_list()
        self.one_model = len(self.models) == 1
        self.measures = statements.order_measures(self.separation["measure"]) or [
            statements.PRIMARY
        ]
        self.measure = self.measures[0]
        drawn = choose_persona_setting(self.replies) or choose_persona_setting(self.separation)
        self.setting = drawn or _NO_SETTING
        self.of_measure = self.separation.filter(pl.col("measure") == self.measure)
        self._pictures = _Pictures(study, self.measures, figures, output)
        place = (self.separation, self.measure, self.setting)
        self.apart = statements.describe_separation(*place)
        self.crossed = [
            sentence
            for factor in ("role", "gender")
            for sentence in statements.describe_separation(*place, factor)
        ]
        self.furthest = statements.describe_furthest(*place, self.names)
        self.guessed = statements.describe_leakage(self.leakage, self.setting, self.names)
        self.features = statements.describe_code_features(self.means, self.setting, self.names)
        self.amount = statements.describe_amount(self.means, self.setting)
        self.without_code = statements.describe_without_code(self.replies, self.setting, self.names)
        self.shared = statements.describe_shared(self.tables["persona_entities"], self.names)
        self.style_means = self.means.filter(
            pl.col("model").is_null(), ~pl.col("feature").str.starts_with("topic-")
        )
        self.style = statements.describe_features(self.style_means, self.names, "wording")

    def _rank_models(self) -> str | None:
        overall = self.separation.filter(statements.of_contrast())
        return rankings.rank_by_separation(overall, self.measure)

    @property
    def headline(self) -> list[str]:
        """The findings that the page's summary tells."""
        return [
            *self.apart[:2],
            *([ranked] if (ranked := self._rank_models()) else []),
            *self.furthest[:1],
            *self.features[:1],
            *self.guessed[:2],
            self.amount,
            self.without_code,
        ]

    @property
    def findings(self) -> list[str]:
        """What the section begins with; figures' captions tell more of each."""
        return [
            *self.apart,
            *self.crossed,
            *self.furthest[:1],
            *self.features,
            self.style,
            self.shared,
            *self.guessed,
            self.amount,
            self.without_code,
        ]

    def arrange_wording(self) -> Context:
        """Gather the figures of the prompts and the tables behind them."""
        names, stars = self.names, self.stars
        entities, topics = self.tables["persona_entities"], self.tables["persona_topics"]
        entity_map = read_optional(self.files.entity_map, ENTITY_MAP)
        heaviest = statements.describe_topics(topics, self.means, names)
        return {
            "network": {
                **self._pictures.show(NETWORK, self.shared),
                "table": rows.tabulate_shared(entities, names, stars),
            },
            "map": {
                **self._pictures.show(MAP, statements.describe_map(entity_map, names)),
                "table": rows.tabulate_map(entity_map, names),
            },
            "topics": {
                **self._pictures.show(TOPICS, heaviest),
                "table": rows.tabulate_topics(topics, self.means, names, stars),
            },
            "style": {
                **self._pictures.show(STYLE, self.style),
                "table": rows.tabulate_means(self.style_means, names, stars, "features of wording"),
            },
        }

    def arrange_similarity(self) -> Context:
        """Gather the figures of similarities, and of the published variant."""
        here = self.of_measure.filter(at_setting(self.setting))
        place = (self.separation, self.measure, self.setting)
        overall = self.of_measure.filter(pl.col("task").is_null(), pl.col("first").is_null())
        return {
            "similarity": {
                **self._pictures.show(
                    SIMILARITY,
                    " ".join([statements.describe_matrix(*place, self.names), *self.furthest]),
                ),
                "tables": [
                    {
                        "title": rows.title_contrasts(here, kind),
                        "table": rows.tabulate_contrasts(
                            here, kind, self.levels, self.one_model, self.stars
                        ),
                    }
                    for kind in rows.CONTRAST_KINDS
                ],
            },
            "separation": {
                **self._pictures.show(SEPARATION, _join(self.apart, "Within and between personas")),
                "table": rows.tabulate_overall(
                    _at_setting_if_many(overall, self.setting),
                    self.measure,
                    self.one_model,
                    self.stars,
                ),
            },
            "published": {
                "explanation": CONFOUNDED,
                "sentences": statements.describe_published(*place),
                "table": rows.tabulate_published(here, self.one_model, VARIANTS),
            },
        }

    def arrange_programs(self) -> Context:
        """Gather the figures of features, amounts and guesses."""
        replies = _at_setting_if_many(self.replies, self.setting)
        guesses = _at_setting_if_many(self.leakage, self.setting)
        confusions = self.tables["persona_confusions"]
        return {
            "features": {
                **self._pictures.show(FEATURES, _join(self.features, "Features of code")),
                "tables": [
                    {
                        "title": f"Features of code, {model}",
                        "table": rows.tabulate_means(
                            part,
                            self.names,
                            self.stars,
                            "features of code",
                            statements.list_features(part),
                        ),
                    }
                    for model, part in statements.list_model_means(self.means, self.setting)
                ],
            },
            "amount": {
                **self._pictures.show(AMOUNT, f"{self.amount} {self.without_code}"),
                "table": rows.tabulate_replies(replies, self.names, self.one_model),
            },
            "leakage": {
                **self._pictures.show(LEAKAGE, _join(self.guessed, "Guessing who asked")),
                "table": rows.tabulate_leakage(guesses, self.names, self.one_model, self.stars),
                "confusions": _arrange_confusions(confusions, self.setting, self.names),
            },
        }

    def arrange_dialogues(self) -> Context | None:
        """Gather the figure of dialogues; None if models could not ask back."""
        dialogues = self.tables["persona_dialogues"]
        if not dialogues.height:
            return None
        measure = statements.order_measures(dialogues["measure"])[0]
        told = statements.describe_dialogues(dialogues, measure, self.setting, self.names)
        of_measure = dialogues.filter(pl.col("measure") == measure)
        return {
            **self._pictures.show(DIALOGUE, _join(told, "Dialogues")),
            "sentences": told,
            "table": rows.tabulate_dialogues(of_measure, self.names, self.one_model),
        }


def _join(sentences: Sequence[str], what: str) -> str:
    return " ".join(sentences) or f"{what}: no number."


def build_persona_study(
    study: str,
    tables: Mapping[str, pl.DataFrame],
    figures: PersonaFigures,
    files: PersonaFiles,
    separation: Separation,
    stars: str,
    output: Path,
) -> Context:
    """Gather what the page says of one study of personas.

    tables: of `schemas.PERSONA_SCHEMAS`, all studies. separation: settings of its tests. stars: one
    of `ASTERISKS`.
    """
    stimuli, made_by = read_table(files.stimuli, STIMULI), read_metadata(files.rewritings)
    section = _Section(study, tables, figures, files, read_labels(made_by), stars, output)
    names, setting, prompts = section.names, section.setting, section.tables["persona_prompts"]
    wording = {} if files.entities is None else read_metadata(files.entities)
    asked = str(made_by["model"]) if "model" in made_by else None
    charted = PersonaStudy(study, anchor("study", study), section.levels, setting, stars)
    features = {model: read_table(path, FEATURES_TABLE) for model, path in files.features.items()}
    portraits = Portraits(
        files,
        section.means,
        section.replies,
        read_table(files.rewritings, REWRITINGS),
        names,
        setting,
    )
    return {
        "charts": chart_personas(section.tables, charted),
        "name": study,
        "anchor": anchor("study", study),
        "model_names": section.models,
        "design": _describe_design(stimuli, prompts, names, section.models),
        "files": read_metadata(files.stimuli).get("files", {}),
        "personas": _describe_personas(made_by, names),
        "tasks": _describe_tasks(made_by, prompts),
        "attempts_sentence": statements.describe_attempts(prompts, asked),
        "attempts": rows.tabulate_attempts(prompts, names),
        "measures": section.measures,
        "setting": "no setting" if setting == _NO_SETTING else describe_setting(setting),
        "settings": section.replies.select("temperature", "top_p").n_unique(),
        "draws_sentence": statements.describe_replies(section.replies),
        "headline": section.headline,
        "findings": section.findings,
        "wording": section.arrange_wording(),
        **section.arrange_similarity(),
        **section.arrange_programs(),
        "dialogue": section.arrange_dialogues(),
        "portraits": portraits.arrange(),
        "portrait_rules": PORTRAIT_RULES,
        "alarms": describe_persona_alarms(
            section.tables,
            names,
            asked,
            separation,
            features,
        ),
        "checks": check_personas(
            study, section.tables, names, separation, features, anchor("study", study)
        ),
        "left_out": statements.describe_left_out(section.tables, wording),
        "missing": rows.tabulate_missing(statements.count_missing(section.tables, names)),
        "made_by": flatten({key: wording[key] for key in _WORDING_FACTS if key in wording}),
        "counts": count_rows(_at_setting_if_many(section.tables["persona_draws"], setting)),
    }
