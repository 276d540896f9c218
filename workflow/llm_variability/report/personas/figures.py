"""The figures of a study of personas: each of `list_persona_figures` from the study's tables.

Source: prompt-variability-code-generation, section IV and figure 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from llm_variability.report.comparisons import Setting
from llm_variability.report.personas import names
from llm_variability.report.personas.charts import (
    draw_amount,
    draw_dialogue,
    draw_leakage,
    draw_separation,
    draw_style,
)
from llm_variability.report.personas.looks import Looks, choose_looks
from llm_variability.report.personas.map import draw_map
from llm_variability.report.personas.matrices import draw_features, draw_similarity, draw_topics
from llm_variability.report.personas.network import draw_network
from llm_variability.table_contract import Table
from llm_variability.tables import read_metadata, read_table
from llm_variability.tables_personas import (
    CONFUSIONS,
    DIALOGUE_CHANGES,
    ENTITIES,
    ENTITY_MAP,
    FEATURES,
    LEAKAGE,
    PERSONA_MEANS,
    SEPARATION,
    SHARED_ENTITIES,
    TOPIC_WEIGHTS,
    TOPICS,
)


@dataclass(frozen=True)
class PersonaTables:
    """The tables of one study that its figures are made of, and its name.

    personas: persona, role and gender, in the study's order. dialogue_changes: None if no model
    could ask back. labels: of personas, if they are known.
    """

    study: str
    personas: pl.DataFrame
    separation: pl.DataFrame
    means: pl.DataFrame
    leakage: pl.DataFrame
    confusions: pl.DataFrame
    shared: pl.DataFrame
    entity_map: pl.DataFrame
    entities: pl.DataFrame
    topics: pl.DataFrame
    topic_weights: pl.DataFrame
    dialogue_changes: pl.DataFrame | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def looks(self) -> Looks:
        """How each persona looks, in all figures."""
        return choose_looks(self.personas, self.labels)

    @property
    def models(self) -> list[str]:
        """The models that wrote code, in the order of the rows."""
        return self.separation["model"].unique(maintain_order=True).to_list()

    @property
    def measures(self) -> list[str]:
        """The measures of programs, in the order of the rows."""
        return self.separation["measure"].unique(maintain_order=True).to_list()


def list_personas(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """List a study's personas with role and gender, in the order in which they come.

    tables: with persona, role and gender.
    """
    parts = [
        table.select("persona", "role", "gender").unique(maintain_order=True) for table in tables
    ]
    return pl.concat(parts).unique(maintain_order=True)


def read_persona_tables(
    *,
    separation: Path,
    means: Path,
    leakage: Path,
    confusions: Path,
    shared: Path,
    entity_map: Path,
    entities: Path,
    topics: Path,
    topic_weights: Path,
    features: Sequence[Path] = (),
    dialogue_changes: Path | None = None,
    rewritings: Path | None = None,
) -> PersonaTables:
    """Read the tables of one study.

    features: of programs, which say who its personas are. rewritings: what its personas are called
    in figures; without it they are called by their roles.

    Raises ValueError for a table of another study.
    """
    study = str(read_metadata(separation)["study"])

    def check(path: Path) -> dict[str, Any]:
        made_by = read_metadata(path)
        if made_by["study"] != study:
            raise ValueError(f"{path}: is of study {made_by['study']}; allowed: {study}")
        return made_by

    def read(path: Path, table: Table) -> pl.DataFrame:
        check(path)
        return read_table(path, table)

    weights = read(topic_weights, TOPIC_WEIGHTS)
    return PersonaTables(
        study=study,
        personas=list_personas([weights, *(read(path, FEATURES) for path in features)]),
        separation=read(separation, SEPARATION),
        means=read(means, PERSONA_MEANS),
        leakage=read(leakage, LEAKAGE),
        confusions=read(confusions, CONFUSIONS),
        shared=read(shared, SHARED_ENTITIES),
        entity_map=read(entity_map, ENTITY_MAP),
        entities=read(entities, ENTITIES),
        topics=read(topics, TOPICS),
        topic_weights=weights,
        dialogue_changes=None
        if dialogue_changes is None
        else read(dialogue_changes, DIALOGUE_CHANGES),
        labels={} if rewritings is None else names.read_labels(check(rewritings)),
    )


def draw_persona_figure(
    figure: names.PersonaFigure, tables: PersonaTables, setting: Setting | None, stars: str
) -> Figure:
    """Draw one of `list_persona_figures`.

    setting: as `choose_persona_setting` gives it; without one figures of programs say that there
    is none. stars: one of `ASTERISKS`.
    """
    study, looks, models = tables.study, tables.looks, tables.models
    changes = tables.dialogue_changes
    if changes is None:
        changes = pl.DataFrame(
            schema={name: column.dtype for name, column in DIALOGUE_CHANGES.columns.items()}
        )
    draw: dict[str, Callable[[], Figure]] = {
        names.NETWORK: lambda: draw_network(tables.shared, tables.entities, looks, study, stars),
        names.MAP: lambda: draw_map(tables.entity_map, looks, study),
        names.TOPICS: lambda: draw_topics(
            tables.topics, tables.topic_weights, tables.means, looks, study, stars
        ),
        names.STYLE: lambda: draw_style(tables.means, looks, study, stars),
        names.SIMILARITY: lambda: draw_similarity(
            tables.separation, figure.measure, models, setting, looks, study, stars
        ),
        names.SEPARATION: lambda: draw_separation(
            tables.separation, figure.measure, models, setting, study, stars
        ),
        names.FEATURES: lambda: draw_features(tables.means, models, setting, looks, study, stars),
        names.AMOUNT: lambda: draw_amount(tables.means, models, setting, looks, study, stars),
        names.LEAKAGE: lambda: draw_leakage(
            tables.leakage, tables.confusions, models, setting, looks, study, stars
        ),
        names.DIALOGUE: lambda: draw_dialogue(
            changes, tables.measures, models, setting, looks, study
        ),
    }
    return draw[figure.kind]()
