"""What the terms of a fit are called where people read them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from llm_variability.report.wording import listing
from llm_variability.tables import Design

SIGNIFICANCE = 0.05
"""p-values below it carry an asterisk."""

ASTERISKS = {
    "unadjusted": ("p_value", "unadjusted"),
    "holm": ("p_holm", "Holm"),
    "bh": ("p_bh", "Benjamini-Hochberg"),
}
"""Whose p-values asterisks stand for: the column and the name of the adjustment."""

WITHIN_FAMILY = {
    "study": "",
    "model": " within each model",
    "setting": " within each setting",
}
"""What follows a count of adjusted p-values over several families, by `fits.family`."""

FAMILIES = {
    "study": "in all models and settings",
    "model": "of one model, in all its settings",
    "setting": "of one model in one setting",
}
"""Which tests share a family, by `fits.family`."""

_INTERCEPTS = {"Intercept", "(Intercept)", "const"}
_CODED = re.compile(r"(?P<factor>[^\[\]:]+)\[(?P<level>[^\[\]]*)\](?::|$)")


STARRED, SMALL_ERROR = "starred", "small_error"
"""Columns that `marks.mark_estimates` adds."""


@dataclass(frozen=True)
class Contrast:
    """A fixed effect: its term in the fits table, and its name for people."""

    term: str
    label: str
    is_interaction: bool


def name_contrast(term: str, design: Design) -> Contrast:
    """Name a term: `race[Asian]` is `Asian (vs. White)`, an interaction `Asian × woman`.

    A term that is no coding of the design's factors keeps its own name.
    """
    references = {factor.name: factor.reference for factor in design.factors}
    parts = [(match["factor"], match["level"]) for match in _CODED.finditer(term)]
    covered = ":".join(f"{factor}[{level}]" for factor, level in parts) == term
    if not covered or any(factor not in references for factor, _ in parts):
        return Contrast(term, term, ":" in term)
    if len(parts) == 1:
        factor, level = parts[0]
        return Contrast(term, f"{level} (vs. {references[factor]})", is_interaction=False)
    return Contrast(term, " × ".join(level for _, level in parts), is_interaction=True)


def place_contrast(term: str, design: Design, *, marginal: bool) -> str:
    """Say where a main contrast is taken: `among man`, or `averaged over gender`.

    Empty for an interaction, and where there is no other factor.
    """
    own = {match["factor"] for match in _CODED.finditer(term)}
    others = [factor for factor in design.factors if factor.name not in own]
    if len(own) != 1 or not others:
        return ""
    if marginal:
        return f"averaged over {listing([factor.name for factor in others])}"
    return f"among {listing([factor.reference for factor in others])}"


def is_intercept(term: str) -> bool:
    """Tell the term that is no contrast."""
    return term in _INTERCEPTS


def list_contrasts(terms: Iterable[str | None], design: Design) -> list[Contrast]:
    """List the contrasts among terms: main effects first, each once, without the intercept."""
    distinct = dict.fromkeys(term for term in terms if term is not None and not is_intercept(term))
    contrasts = [name_contrast(term, design) for term in distinct]
    return sorted(contrasts, key=lambda contrast: contrast.is_interaction)


def is_anchor(design: Design) -> pl.Expr:
    """Tell the settings in which nothing is fitted by design: greedy decoding of some studies."""
    return (pl.col("temperature") == "0") & pl.lit(design.greedy_is_anchor)


def reference_note(design: Design) -> str:
    """Say which levels are the references, as in `White and man`."""
    return " and ".join(factor.reference for factor in design.factors)
