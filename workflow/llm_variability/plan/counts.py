"""Prompts, draws, tokens, hours and disk of a configuration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from llm_variability.config import (
    GREEDY,
    ConfigError,
    Encoder,
    Settings,
    Study,
    find_resource,
    parse_cell,
)
from llm_variability.fetch.weights import find_in_package
from llm_variability.fits.coding import list_groups
from llm_variability.fits.fit_table import VARIANTS
from llm_variability.stimuli.registry import render_prompts
from llm_variability.tables import Design

TOKENS_PER_WORD = 1.3
TEMPLATE_TOKENS = 15
"""Tokens of a prompt: those of a word, parted by white space, and those of the chat template.
Assumed; right to 4% for both default studies under SmolLM2's tokenizer (docs/planning.md)."""

CPU_TOKENS_PER_SECOND = 195.0
"""SmolLM2-135M under vLLM on two cores of a Xeon, the default run of docs/performance.md."""

DRAW_BYTES = 3.3
JOURNAL_BYTES = 7.1
VECTOR_BYTES = 3.8
SIMILARITY_BYTES = 15
FIT_BYTES = 75
FILE_BYTES = 8_000
"""Bytes of zstd Parquet: a token of a draw, in its table and in its journal; a dimension of a
vector, in each of its two copies; a row of a similarity table, and of a fits table; what a table
takes however short it is. Measured by `benchmarks/planning.py` (docs/planning.md)."""

UNKNOWN_DIMENSION = 768
"""Taken for an encoder that is not on this machine."""


@dataclass(frozen=True)
class StudyCounts:
    """What one study makes.

    design: how its prompts are compared. n_formats, n_texts: formats, and texts of each format x
    group in one setting (for names: names). prompts: of one setting. draws: of one model.
    n_models, n_encoders, n_settings: as configured. fitted_settings: those that are fitted, which
    leaves out greedy decoding where it only repeats one answer. answer_tokens: at most, of all
    models, reasoning included. prompt_tokens: of all models, estimated.
    """

    name: str
    design: Design
    n_formats: int
    n_texts: int
    prompts: int
    draws: int
    n_models: int
    n_encoders: int
    n_settings: int
    fitted_settings: int
    answer_tokens: int
    prompt_tokens: int

    @property
    def cells(self) -> int:
        """Draws tables, one a model and setting."""
        return self.n_models * self.n_settings

    @property
    def all_draws(self) -> int:
        return self.draws * self.n_models

    @property
    def fits(self) -> int:
        """Model x encoder x setting x level and scope; one format leaves level text, fixed."""
        variants = len(VARIANTS) if self.n_formats > 1 else 1
        return self.n_models * self.n_encoders * self.fitted_settings * variants

    @property
    def fit_rows(self) -> int:
        """Rows of all fits tables: the published coding at each level and scope, and at level
        text the marginal contrasts and the interactions too."""
        groups = len(list_groups(self.design.factors))
        of_setting = 6 * groups - 2 if self.n_formats > 1 else 2 * groups - 1
        return self.n_models * self.n_encoders * self.fitted_settings * of_setting

    def tests(self, family: str) -> int:
        """Count the p values of a family, of one level, scope, encoder and reading.

        family: as `fits.family` of the configuration. The published coding and the marginal
        contrasts with the interactions have one test less than there are groups each.
        """
        contrasts = len(list_groups(self.design.factors)) - 1
        settings = 1 if family == "setting" else self.fitted_settings
        return contrasts * settings * (self.n_models if family == "study" else 1)


@dataclass(frozen=True)
class CodeCounts:
    """What one study of code or of personas makes.

    Prompts that a model writes (paraphrases; each attempt at a persona's) cost tokens that are not
    counted, as nobody knows how many can be used, nor is a dialogue.

    Fields are those of `StudyCounts`.
    """

    name: str
    prompts: int
    draws: int
    n_models: int
    n_settings: int
    cells: int
    answer_tokens: int
    prompt_tokens: int

    @property
    def all_draws(self) -> int:
        return self.draws * self.n_models


@dataclass(frozen=True)
class Disk:
    """Bytes of draws with their journals, vectors, similarity and fits tables."""

    draws: int
    vectors: int
    similarity: int
    fits: int

    @property
    def total(self) -> int:
        return self.draws + self.vectors + self.similarity + self.fits


def count_studies(settings: Settings, home: Path) -> list[StudyCounts]:
    """Count every study of labels or names of a checked configuration.

    home: the workflow's folder.
    """
    return [
        count_study(name, settings.studies[name], settings, home)
        for name in settings.studies_of("labels", "names")
    ]


def count_code_studies(settings: Settings, home: Path) -> list[CodeCounts]:
    """Count every study of code or of personas of a checked configuration.

    home: the workflow's folder.
    """
    counts = []
    for name in settings.studies_of("code", "personas"):
        study = settings.studies[name]
        prompts = render_prompts(find_resource(study.stimuli, home), study).prompts
        cells = settings.grid_of(name).cells()
        draws, answers, asked = _count_tokens(prompts, study, settings, cells)
        counts.append(
            CodeCounts(
                name=name,
                prompts=len(prompts),
                draws=draws,
                n_models=len(settings.models),
                n_settings=len(cells),
                cells=len(settings.cells(name)) * len(settings.models),
                answer_tokens=answers,
                prompt_tokens=asked,
            )
        )
    return counts


def _count_tokens(
    prompts: pl.DataFrame, study: Study, settings: Settings, cells: list[str]
) -> tuple[int, int, int]:
    """Count draws of a model, and answer tokens (at most) and prompt tokens (about) of all."""
    n_greedy = sum(parse_cell(cell)[0] == GREEDY for cell in cells)
    rows = prompts.with_columns(
        draws=pl.col("replicates").cast(pl.Int64) * (len(cells) - n_greedy)
        + pl.col("greedy_replicates").cast(pl.Int64) * n_greedy,
        words=pl.concat_str("system", "prompt", separator=" ", ignore_nulls=True).str.count_matches(
            r"\S+"
        ),
    )
    draws = int(rows["draws"].sum())
    asked = float((rows["draws"] * (rows["words"] * TOKENS_PER_WORD + TEMPLATE_TOKENS)).sum())
    answers = [study.max_new_tokens + model.reasoning_tokens for model in settings.models.values()]
    return draws, draws * sum(answers), round(asked * len(settings.models))


def count_study(name: str, study: Study, settings: Settings, home: Path) -> StudyCounts:
    """Count what one study makes, from its rendered prompts."""
    stimuli = render_prompts(find_resource(study.stimuli, home), study)
    prompts, design = stimuli.prompts, stimuli.design
    cells = settings.grid.cells()
    sampled = [cell for cell in cells if parse_cell(cell)[0] != GREEDY]
    draws, answers, asked = _count_tokens(prompts, study, settings, cells)
    texts = prompts.group_by(design.group).agg(pl.col("replicates").sum())["replicates"].min()
    return StudyCounts(
        name=name,
        design=design,
        n_formats=prompts[design.block].n_unique(),
        n_texts=int(str(texts)),
        prompts=len(prompts),
        draws=draws,
        n_models=len(settings.models),
        n_encoders=len(settings.encoders),
        n_settings=len(cells),
        fitted_settings=len(sampled) if design.greedy_is_anchor else len(cells),
        answer_tokens=answers,
        prompt_tokens=asked,
    )


def find_dimension(name: str, encoder: Encoder, results: Path) -> int | None:
    """Read how long an encoder's vectors are, if it is on this machine; else None.

    results: folder in which an earlier run may have said where it fetched the encoder to.
    """
    try:
        if encoder.package is not None:
            folder = find_in_package("encoder", encoder.package)
        elif encoder.path is not None:
            folder = Path(encoder.path)
        else:
            manifest = json.loads((results / "encoders" / f"{name}.json").read_text("utf-8"))
            if manifest.get("revision") != encoder.revision:
                return None
            folder = Path(manifest["path"])
        pooling = json.loads((folder / "1_Pooling" / "config.json").read_text("utf-8"))
        return int(pooling["word_embedding_dimension"])
    except (ConfigError, OSError, ValueError, KeyError, TypeError):
        return None


def estimate_disk(
    studies: list[StudyCounts], dimensions: list[int], code: Sequence[CodeCounts] = ()
) -> Disk:
    """Estimate what a run leaves on disk, answers being as long as they may be.

    dimensions: of each encoder's vectors. Every text is taken to be another, so that each has a
    vector; there are two copies of it, a study's own and the one that all studies share. code:
    studies of code, whose tables of pairs are not counted.
    """
    draws = similarity = fits = 0.0
    for study in studies:
        tables = study.n_models * study.n_encoders * FILE_BYTES
        draws += study.answer_tokens * (DRAW_BYTES + JOURNAL_BYTES) + study.cells * FILE_BYTES
        similarity += study.all_draws * study.n_encoders * SIMILARITY_BYTES + tables
        fits += study.fit_rows * FIT_BYTES + tables
    for each in code:
        draws += each.answer_tokens * (DRAW_BYTES + JOURNAL_BYTES) + each.cells * FILE_BYTES
    texts = sum(study.all_draws for study in studies) + sum(each.all_draws for each in code)
    vectors = texts * sum(dimensions) * VECTOR_BYTES * 2
    return Disk(round(draws), round(vectors), round(similarity), round(fits))
