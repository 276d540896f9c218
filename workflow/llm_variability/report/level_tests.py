"""The tests that the report tells of: a level with its scope, and how its terms are to be read.

Why these and how well they keep their level: docs/inference.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from llm_variability.tables import Design

FORMATS_FIXED, FORMATS_RANDOM = "formats fixed", "formats random"
"""As the fits have them; the rules read this module, so it imports no more than they need."""

PUBLISHED = "treatment"
"""The coding of whatever is compared with the paper."""


@dataclass(frozen=True)
class LevelTest:
    """One way to test a contrast.

    key: in the names of files. label: for people. claim: what a finding of it is about.
    note: what figures say of it, with room for the block's name. caution: a sentence on how far to
    trust its p-values. method: two sentences on how it is computed. unit: of its estimates.
    """

    key: str
    level: str
    scope: str | None
    label: str
    claim: str
    note: str
    caution: str
    method: str
    unit: str = "SD of cosine"


TEXT_FIXED = LevelTest(
    "text-fixed",
    "text",
    FORMATS_FIXED,
    "text level, formats fixed",
    "in these formats",
    "texts drawn anew",
    "It holds for the formats of this study, and says nothing of others.",
    "Each group's mean cosine is averaged over the formats; standard errors come from deleting one"
    " text (one name, in a study of names) at a time. t has Satterthwaite's degrees of freedom.",
)
TEXT_RANDOM = LevelTest(
    "text-random",
    "text",
    FORMATS_RANDOM,
    "text level, formats random",
    "in such formats",
    "{block}s drawn anew",
    "It holds for formats like these, if they may pass for a sample; few formats give wide"
    " intervals.",
    "The same estimate; its standard error is the spread of the contrast over the formats, divided"
    " by the root of their number. t has one degree of freedom fewer than there are formats (other"
    " ones for names, since what names do to all formats alike is added).",
)
CELL = LevelTest(
    "cell",
    "cell",
    None,
    "cell level",
    "on cell means",
    "one observation a group × {block} mean",
    "As published; it takes all contrasts to differ between formats by the same amount, and does"
    " not know that the same names stand in every format.",
    "A mixed model of the mean cosine of each group and format, with a random intercept of formats"
    " (appendix J of the paper). Its β is in standard deviations of these means, so it is larger"
    " than the others.",
    unit="SD of cell means",
)
PAIRWISE = LevelTest(
    "pairwise",
    "pairwise",
    None,
    "pairwise level",
    "on pairs",
    "as if pairs were independent: p far too small",
    "A text stands in many pairs, so these p-values are far too small: compare them with published"
    " tables, and never report them.",
    "The published mixed model: every pair of texts is one observation, with a random intercept of"
    " formats. Pairs are taken for independent, which they are not: estimates stand, p-values do"
    " not.",
)
LEVEL_TESTS = (TEXT_FIXED, TEXT_RANDOM, CELL, PAIRWISE)
"""In the order of the page: those whose p-values can be relied on come first."""

TEXT_TESTS = (TEXT_FIXED, TEXT_RANDOM)


@dataclass(frozen=True)
class View:
    """What one figure shows: a test, in the published coding or in that of marginal contrasts."""

    test: LevelTest
    codings: tuple[str, ...] = (PUBLISHED,)

    @property
    def is_marginal(self) -> bool:
        return PUBLISHED not in self.codings

    @property
    def key(self) -> str:
        return f"{self.test.key}-marginal" if self.is_marginal else self.test.key

    @property
    def label(self) -> str:
        return f"{self.test.label}, marginal" if self.is_marginal else self.test.label

    @property
    def level_key(self) -> str:
        """In the names of files of estimates, which both scopes of a level have in common."""
        return f"{self.test.level}-marginal" if self.is_marginal else self.test.level

    @property
    def level_label(self) -> str:
        return f"{self.test.level} level{', marginal' if self.is_marginal else ''}"

    def explain(self, design: Design, label: str) -> str:
        """Say after a label, where the design has several factors, how its contrasts are read."""
        if len(design.factors) < 2:
            return label
        if self.is_marginal:
            others = "factor" if len(design.factors) == 2 else "factors"
            return f"{label}, averaged over the other {others}"
        references = " / ".join(factor.reference for factor in design.factors)
        return f"{label}, published coding: among {references}"

    def rows(self) -> pl.Expr:
        """Tell its rows in a table with level, scope and coding, those without a fit too."""
        return of_test(self.test) & in_codings(self.codings)


INTERACTION = "interaction"
MARGINAL = ("marginal", INTERACTION)
PUBLISHED_VIEWS = tuple(View(test) for test in LEVEL_TESTS)
MARGINAL_VIEWS = tuple(View(test, MARGINAL) for test in TEXT_TESTS)


def list_views(design: Design) -> tuple[View, ...]:
    """List the figures of a design, marginal contrasts first.

    With one factor, marginal contrasts are the published ones.
    """
    return (MARGINAL_VIEWS if len(design.factors) > 1 else ()) + PUBLISHED_VIEWS


def list_leading(design: Design) -> tuple[View, ...]:
    """List those whose pictures the page holds, of models under the first encoder only.

    The others are files, and in the page's chart of every estimate: with all pictures, a page of
    many models would be too large for a browser.
    """
    return list_views(design)[: len(TEXT_TESTS)]


def lead_coding(design: Design) -> str:
    """Give the coding in which main contrasts are told first: averages over the other factors."""
    return MARGINAL[0] if len(design.factors) > 1 else PUBLISHED


def describe_coding(coding: str) -> str:
    """Say how main contrasts in a coding are read."""
    return "in the published coding" if coding == PUBLISHED else "averaged over the other factors"


PUBLISHED_ESTIMATES = tuple(View(test) for test in (TEXT_FIXED, CELL, PAIRWISE))
"""One of each level: the scopes of the text level have the same estimates."""
MARGINAL_ESTIMATES = (View(TEXT_FIXED, MARGINAL),)


def list_estimate_views(design: Design) -> tuple[View, ...]:
    """List the figures of estimates by temperature, marginal contrasts first."""
    return (MARGINAL_ESTIMATES if len(design.factors) > 1 else ()) + PUBLISHED_ESTIMATES


def list_text_views(design: Design) -> list[View]:
    """List the views of the text level."""
    return [view for view in list_views(design) if view.test in TEXT_TESTS]


def of_test(test: LevelTest) -> pl.Expr:
    """Tell the rows of a test in a table with level and scope."""
    return (pl.col("level") == test.level) & pl.col("scope").eq_missing(
        pl.lit(test.scope, pl.String)
    )


def in_codings(codings: Iterable[str]) -> pl.Expr:
    """Tell the rows of some codings; a fit that could not be made has none, and is among them."""
    return pl.col("coding").is_in(list(codings)) | pl.col("term").is_null()


def find_test(level: str, scope: str | None) -> LevelTest:
    """Give the test of a level and scope. Raises ValueError if there is none."""
    for test in LEVEL_TESTS:
        if (test.level, test.scope) == (level, scope):
            return test
    raise ValueError(f"level {level}, scope {scope}: no test of the report")


def list_tests(frame: pl.DataFrame) -> list[LevelTest]:
    """List the tests that a table with level and scope has rows of, in the page's order."""
    found = set(frame.select("level", "scope").unique().rows())
    return [test for test in LEVEL_TESTS if (test.level, test.scope) in found]


def name_model_figures(views: Iterable[View], estimates: Iterable[View]) -> dict[str, str]:
    """Name each figure over all models: its output's name in the rule, and its file's ending.

    views: those with a figure of counts. estimates: those with one of estimates by temperature.
    """
    endings = [
        *(f"{view.key}-signals" for view in views),
        *(f"{view.level_key}-trend" for view in estimates),
    ]
    return {**{ending.replace("-", "_"): ending for ending in endings}, "cosine": "cosine"}
