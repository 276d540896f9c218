"""Which draws a configuration asks for, and in which files they lie.

A batch is what one job draws: a step of a study by one model at one setting. Steps are `draws`
and those whose answers become prompts: `paraphrases`, `rewritings 1`, `turn 0`, `answers 1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.config import Settings, cell_name, parse_cell
from llm_variability.draws.cells import Cell
from llm_variability.draws.journal import fingerprint, journal_path
from llm_variability.personas.requests import round_seed

DRAWS = "draws"


@dataclass(frozen=True)
class Batch:
    """What one job draws.

    prompts: its stimuli table. tables: what is written when all is drawn; in a study of code one
    an augmentation. folder: beside whose tables the journals lie. augmentations: of a study of
    code, else empty.
    """

    step: str
    study: str
    model: str
    setting: str
    prompts: Path
    tables: tuple[Path, ...]
    folder: Path
    max_new_tokens: int
    seed: int
    augmentations: tuple[str, ...] = ()

    @property
    def row(self) -> tuple[str, str, str]:
        """What it is shown with: step, study and model."""
        return self.step, self.study, self.model


def list_batches(settings: Settings, results: Path) -> list[Batch]:
    """List the batches of all studies in the order in which they can be drawn."""
    batches: list[Batch] = []
    for study in settings.studies:
        batches += _list_paraphrases(settings, study, results)
        batches += _list_rewritings(settings, study, results)
        batches += _list_draws(settings, study, results)
        batches += _list_dialogues(settings, study, results)
    return batches


def _list_draws(settings: Settings, study: str, results: Path) -> Iterator[Batch]:
    how = settings.studies[study]
    augmentations = tuple(how.augmentations)
    for model in settings.models:
        folder = results / "draws" / study / model
        for setting in settings.grid_of(study).cells():
            yield Batch(
                DRAWS,
                study,
                model,
                setting,
                results / "stimuli" / f"{study}.parquet",
                tuple(
                    folder / setting / f"{augmentation}.parquet" for augmentation in augmentations
                )
                or (folder / f"{setting}.parquet",),
                folder,
                how.max_new_tokens,
                settings.seed,
                augmentations,
            )


def _one_table(
    step: str, study: str, model: str, setting: str, prompts: Path, folder: Path, how: Any
) -> Batch:
    """Make a batch of one table. how: (longest answer in tokens, seed)."""
    table = folder / f"{setting}.parquet"
    return Batch(step, study, model, setting, prompts, (table,), folder, *how)


def _list_paraphrases(settings: Settings, study: str, results: Path) -> Iterator[Batch]:
    how = settings.studies[study].paraphrase
    if how is None:
        return
    folder = results / "paraphrases" / study
    for temperature in how.temperatures:
        yield _one_table(
            "paraphrases",
            study,
            how.model,
            cell_name(temperature, "1.0"),
            folder / "requests.parquet",
            folder / how.model,
            (how.max_new_tokens, settings.seed),
        )


def _list_rewritings(settings: Settings, study: str, results: Path) -> Iterator[Batch]:
    how = settings.studies[study].personas
    if how is None:
        return
    for number in range(how.attempts):
        folder = results / "personas" / study / f"round-{number}"
        yield _one_table(
            f"rewritings {number + 1}",
            study,
            how.model,
            cell_name(how.temperature, "1.0"),
            folder / "requests.parquet",
            folder / how.model,
            (how.max_new_tokens, round_seed(settings.seed, number)),
        )


def _list_dialogues(settings: Settings, study: str, results: Path) -> Iterator[Batch]:
    how, personas = settings.studies[study].dialogue, settings.studies[study].personas
    if how is None or personas is None:
        return
    home = results / "dialogues" / study
    cells = settings.grid_of(study).cells()
    written = (settings.studies[study].max_new_tokens, settings.seed)
    said = (how.max_new_tokens, settings.seed)
    for turn in range(how.exchanges + 1):
        for asker in settings.models:
            for cell in cells:
                asked, folder = home / asker, home / asker / f"turn-{turn}"
                if turn:
                    questions = asked / f"question-{turn}" / f"{cell}.parquet"
                    answers = asked / f"answer-{turn}" / personas.model
                    yield _one_table(
                        f"answers {turn}", study, personas.model, cell, questions, answers, said
                    )
                prompts = asked / f"prompt-{turn}" / f"{cell}.parquet"
                yield _one_table(
                    f"turn {turn}",
                    study,
                    asker,
                    cell,
                    prompts if turn else home / "turn-0.parquet",
                    folder,
                    written,
                )


class Identities:
    """What decides the draws of each batch, as their journals and tables are marked with it.

    settings: of the run. manifests: of the models' weights, by model; one without, or whose
    weights cannot be read here, has no identity.
    """

    def __init__(self, settings: Settings, manifests: Mapping[str, Mapping[str, Any]]) -> None:
        self._settings = settings
        self._manifests = manifests
        self._of_models: dict[str, tuple[Cell, dict[str, Any]] | None] = {}

    def of(self, batch: Batch) -> dict[str, Any] | None:
        """Give a batch's identity, as `draws.cells.Cell.identity`; None if it is not known."""
        if batch.model not in self._of_models:
            self._of_models[batch.model] = self._read(batch)
        known = self._of_models[batch.model]
        if known is None:
            return None
        # The template is read once a model: only sampling and seed differ between its batches.
        cell, identity = known
        sampling = _set(cell, batch).sampling.to_json()
        return {**identity, "seed": batch.seed, **sampling}

    def _read(self, batch: Batch) -> tuple[Cell, dict[str, Any]] | None:
        manifest = self._manifests.get(batch.model)
        if manifest is None:
            return None
        folder = manifest.get("path")
        if folder is not None and not Path(folder).is_dir():
            return None
        model = self._settings.models[batch.model]
        cell = Cell("", batch.model, model, manifest, pl.DataFrame(), "0", None, 1, 0)
        cell = _set(cell, batch)
        try:
            return cell, cell.identity()
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _set(cell: Cell, batch: Batch) -> Cell:
    """Give a cell the sampling of a batch."""
    temperature, top_p = parse_cell(batch.setting)
    return replace(cell, temperature=temperature, top_p=top_p, max_new_tokens=batch.max_new_tokens)


def find_journal(batch: Batch, identity: Mapping[str, Any] | None) -> Path | None:
    """Find a batch's journal; None if it has none yet.

    identity: as `Identities.of` gives it. Journals of other configurations lie beside it; without
    an identity the one written last is taken.
    """
    if identity is not None:
        path = journal_path(batch.folder, batch.setting, identity)
        return path if path.exists() else None
    found = []
    # A setting's name may begin another's (T0, T0.5-P0.8), so the fingerprint's digits are told.
    pattern = f"{batch.setting}.{16 * '[0-9a-f]'}.jsonl"
    for path in (batch.folder / "journals").glob(pattern):
        try:
            found.append((path.stat().st_mtime, path))
        except OSError:
            continue
    return max(found)[1] if found else None


def same_identity(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two identities name the same draws."""
    return fingerprint(one) == fingerprint(other)
