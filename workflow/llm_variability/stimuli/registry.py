"""The kinds of study: how each reads its stimuli file and renders its prompts.

A new kind of study is one more entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import polars as pl

from llm_variability.config import Study
from llm_variability.stimuli.labels import read_label_stimuli, render_label_prompts
from llm_variability.tables import Design


def _labels(path: Path, study: Study) -> tuple[pl.DataFrame, Design]:
    return render_label_prompts(read_label_stimuli(path, study.formats), study)


def _check_labels(path: Path, study: Study) -> None:
    read_label_stimuli(path, study.formats)


class Kind(NamedTuple):
    """A kind of study: `render` makes its prompts and design, `check` only reads its file."""

    render: Callable[[Path, Study], tuple[pl.DataFrame, Design]]
    check: Callable[[Path, Study], None]


KINDS = {"labels": Kind(_labels, _check_labels)}


def render_prompts(path: Path, study: Study) -> tuple[pl.DataFrame, Design]:
    """Read a study's stimuli file and render its prompts.

    Raises ConfigError, one line a problem, if the file is wrong.
    """
    return KINDS[study.kind].render(path, study)


def check_stimuli(path: Path, study: Study) -> None:
    """Raise ConfigError, one line a problem, if a study's stimuli file is wrong."""
    KINDS[study.kind].check(path, study)
