"""The figures of a study of code by name, which rules and page share; nothing here draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CODE_PREFIX = "code-"
"""Begins the name of every figure's file."""


@dataclass(frozen=True)
class CodeFigure:
    """A figure of a study of code: its file's name after the prefix, what it shows, its caption."""

    ending: str
    kind: str
    measure: str
    caption: str
    label: str


_OF_CURVES = {
    "curves": ("code_curves", "by method"),
    "curves-rescaled": ("code_curves", "by method, rescaled"),
    "sets": ("code_sets", "by set"),
    "sets-rescaled": ("code_sets", "by set, rescaled"),
}
BANDS_KIND, PARAPHRASES_KIND = "bands", "paraphrases"
HEATMAP_KINDS = {
    "auc": "mean height of the curve",
    "half_life": "half-life",
    "ceiling": "ceiling and floor",
}


def list_code_figures(measures: Sequence[str], paraphrased: bool) -> list[CodeFigure]:
    """List the figures over all models of a study, whose files are STUDY/code-ENDING.svg.

    measures: all of the study, the primary one first. paraphrased: whether prompts were reworded.
    """
    figures = [
        CodeFigure(f"{measure}-{kind}", kind, measure, caption, label)
        for measure in measures
        for kind, (caption, label) in _OF_CURVES.items()
    ]
    if not paraphrased:
        return figures
    return [
        CodeFigure(PARAPHRASES_KIND, PARAPHRASES_KIND, "", "code_paraphrases", "paraphrases"),
        *figures,
        *(
            CodeFigure(f"{each}-{BANDS_KIND}", BANDS_KIND, each, "code_bands", "by paraphrase")
            for each in measures
        ),
    ]


def list_code_heatmaps(measures: Sequence[str]) -> list[CodeFigure]:
    """List the heatmaps of one model, whose files are STUDY/MODEL/code-ENDING.svg."""
    return [
        CodeFigure(f"{measure}-{kind}", kind, measure, "code_heatmap", label)
        for measure in measures
        for kind, label in HEATMAP_KINDS.items()
    ]


def name_measure(measure: str) -> str:
    """Name a measure of programs: TSED, TSED as published, or the encoder."""
    return {"tsed": "TSED", "tsed-published": "TSED, as published"}.get(measure, measure)
