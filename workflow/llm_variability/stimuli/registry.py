"""The kinds of study: how each reads its stimuli file and renders its prompts.

A new kind of study is one more entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from llm_variability.config import Study
from llm_variability.stimuli.code import (
    DESIGN,
    Sources,
    list_task_files,
    read_tasks,
    render_code_prompts,
)
from llm_variability.stimuli.labels import read_label_stimuli, render_label_prompts
from llm_variability.stimuli.names import (
    check_name_stimuli,
    find_name_list,
    read_name_stimuli,
    render_name_prompts,
)
from llm_variability.stimuli.personas import DESIGN as PERSONA_DESIGN
from llm_variability.stimuli.personas import (
    list_persona_files,
    render_persona_prompts,
)
from llm_variability.tables import Design


class Stimuli(NamedTuple):
    """The prompts of a study, a row each, its design, and facts about how they were chosen.

    accounts: an AUGMENTATIONS table, of a study of code.
    """

    prompts: pl.DataFrame
    design: Design
    facts: dict[str, Any]
    accounts: pl.DataFrame | None = None


class Kind(NamedTuple):
    """A kind of study: `render` makes its prompts, `check` only reads its files.

    `lists` names the files that the stimuli file names in turn, or that the folder holds.
    """

    render: Callable[[Path, Study, Sources | None], Stimuli]
    check: Callable[[Path, Study], object]
    lists: Callable[[Path, Study], list[Path]]


def _labels(path: Path, study: Study, sources: Sources | None) -> Stimuli:
    return Stimuli(*render_label_prompts(read_label_stimuli(path, study.formats), study), {})


def _names(path: Path, study: Study, sources: Sources | None) -> Stimuli:
    return Stimuli(*render_name_prompts(read_name_stimuli(path, study.formats), study))


def _code(path: Path, study: Study, sources: Sources | None) -> Stimuli:
    rendered = render_code_prompts(path, study, sources)
    return Stimuli(rendered.prompts, DESIGN, rendered.facts, rendered.accounts)


def _personas(path: Path, study: Study, sources: Sources | None) -> Stimuli:
    rewritings = None if sources is None else sources.rewritings
    prompts, facts = render_persona_prompts(path, study, rewritings)
    return Stimuli(prompts, PERSONA_DESIGN, facts)


KINDS = {
    "labels": Kind(
        _labels, lambda path, study: read_label_stimuli(path, study.formats), lambda path, study: []
    ),
    "names": Kind(
        _names,
        check_name_stimuli,
        lambda path, study: [find_name_list(path)],
    ),
    "code": Kind(_code, read_tasks, list_task_files),
    "personas": Kind(_personas, read_tasks, list_persona_files),
}


def render_prompts(path: Path, study: Study, sources: Sources | None = None) -> Stimuli:
    """Read a study's stimuli file, or its folder of tasks, and render its prompts.

    sources: what a study of code or of personas needs besides. Without, its prompts are an outline:
    as many as will be asked for at most, paraphrases left out, each with the words of the task.
    Raises ConfigError, one line a problem, if a file is wrong.
    """
    return KINDS[study.kind].render(path, study, sources)


def check_stimuli(path: Path, study: Study) -> None:
    """Raise ConfigError, one line a problem, if a study's stimuli file is wrong."""
    KINDS[study.kind].check(path, study)


def list_named_files(path: Path, study: Study) -> list[Path]:
    """List the files that a study's stimuli file names in turn, or those of its sets of tasks.

    Raises ConfigError, one line a problem, if the stimuli file is wrong.
    """
    return KINDS[study.kind].lists(path, study)
