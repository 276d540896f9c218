"""Which files of the other stages are there, of those that a run makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from llm_variability.config import Settings, Study


@dataclass(frozen=True)
class Stage:
    """Files that a stage makes, with the wildcards of the rules.

    takes: whether a study has it.
    """

    name: str
    takes: Callable[[Study], bool]
    files: tuple[str, ...]


def _of_kinds(*kinds: str) -> Callable[[Study], bool]:
    return lambda study: study.kind in kinds


def _has_dialogue(study: Study) -> bool:
    return study.dialogue is not None


_ALL = _of_kinds("labels", "names", "code", "personas")
_GROUPS = _of_kinds("labels", "names")
_PROGRAMS = _of_kinds("code", "personas")
_OF_ALL = "{study}/{model}/{encoder}.parquet"

STAGES = (
    Stage("weights", _ALL, ("models/{model}.json", "encoders/{encoder}.json")),
    Stage("prompts", _ALL, ("stimuli/{study}.parquet",)),
    Stage("counts", _ALL, ("counts/{study}/{model}.parquet",)),
    Stage(
        "programs",
        _PROGRAMS,
        ("programs/{study}/{model}.parquet", "extractions/{study}/{model}.parquet"),
    ),
    Stage("embeddings", _ALL, (f"embeddings/{_OF_ALL}",)),
    Stage("similarity", _GROUPS, (f"similarity/{_OF_ALL}",)),
    Stage(
        "pairs",
        _PROGRAMS,
        ("pairs/{study}/{model}/tsed.parquet", "pairs/{study}/{model}/cosine/{encoder}.parquet"),
    ),
    Stage("features", _of_kinds("personas"), ("features/{study}/{model}.parquet",)),
    Stage("wording", _of_kinds("personas"), ("wording/{study}/style.parquet",)),
    Stage(
        "dialogues",
        _has_dialogue,
        ("dialogues/{study}/{model}/dialogues.parquet", "dialogues/{study}/changes.parquet"),
    ),
    Stage("sensitivity", _GROUPS, (f"sensitivity/{_OF_ALL}",)),
    Stage(
        "diversity",
        _GROUPS,
        (
            "diversity/{study}/{model}/lexical/fits.parquet",
            "diversity/{study}/{model}/vendi/{encoder}/fits.parquet",
        ),
    ),
    Stage("fits", _GROUPS, (f"fits/{_OF_ALL}", "adjusted/{study}.parquet")),
    Stage("curves", _of_kinds("code"), ("curves/{study}/curves.parquet",)),
    Stage("separation", _of_kinds("personas"), ("separation/{study}/similarity.parquet",)),
    Stage("examples", _ALL, ("examples/{study}/{model}.parquet",)),
    Stage("report", _ALL, ("report.html",)),
    Stage("record", _ALL, ("ro-crate-metadata.json",)),
)
"""The stages in the order of the pipeline; one file stands for those that a job makes together."""


@dataclass(frozen=True)
class StageFiles:
    """How many files of a stage are there. newest: seconds of the epoch; None if there is none."""

    name: str
    there: int
    expected: int
    newest: float | None

    @property
    def is_complete(self) -> bool:
        return self.there == self.expected


def list_files(stage: Stage, settings: Settings) -> list[str]:
    """List a stage's files, by their place in the results folder."""
    studies = [name for name, study in settings.studies.items() if stage.takes(study)]
    return list(dict.fromkeys(_expand(stage, settings, studies)))


def _expand(stage: Stage, settings: Settings, studies: list[str]) -> Iterator[str]:
    for file in stage.files:
        for study, model, encoder in product(studies, settings.models, settings.encoders):
            yield file.format(study=study, model=model, encoder=encoder)


def count_files(settings: Settings, results: Path) -> list[StageFiles]:
    """Count the files of every stage that the studies have."""
    counted = []
    for stage in STAGES:
        files = list_files(stage, settings)
        times = []
        for file in files:
            try:
                times.append((results / file).stat().st_mtime)
            except OSError:
                continue
        if files:
            counted.append(StageFiles(stage.name, len(times), len(files), max(times, default=None)))
    return counted
