"""Diagnostics: every check of every study, with its threshold, the worst value and a verdict."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from llm_variability.config import GREEDY
from llm_variability.report.alarms import MAX_VARYING, THRESHOLDS
from llm_variability.report.pictures import Context
from llm_variability.report.schemas import DIAGNOSTICS
from llm_variability.report.wording import anchor, p_number, percent, quantity, signed

Side = Literal["above", "below", "at least", "at most"]
"""On which side of its limit a value raises an alarm."""

Form = Literal["share", "whole", "number", "p"]
"""How values of a check are written."""

OK, ALARM, NOT_APPLICABLE = "ok", "alarm", "not applicable"

_IS_BEYOND: dict[Side, Callable[[pl.Expr, float], pl.Expr]] = {
    "above": operator.gt,
    "below": operator.lt,
    "at least": operator.ge,
    "at most": operator.le,
}
_SIGNS = {OK: "✓ OK", ALARM: "⚠ ALARM", NOT_APPLICABLE: "– not applicable"}
MODELS_SETTINGS = ("model × setting", "models × settings")
"""What a place is called, one and many."""

_MODEL, _SETTING, _WHERE = "model", "setting", "where"


@dataclass(frozen=True)
class Rule:
    """What is checked of a study, place by place.

    key: as in anchors and in the CSV file. counted: what a value is, in plain words. limit: of a
    value; None where it is not known. place, places: what a value is of, one and many.
    """

    key: str
    name: str
    counted: str
    limit: float | None
    place: str = "setting"
    places: str | None = None
    side: Side = "above"
    form: Form = "share"

    def write(self, value: float) -> str:
        """Write a value of this check: `45.3%`, `6`, `0.25`, `.125`."""
        written = {
            "share": lambda: percent(value),
            "whole": lambda: f"{value:,.0f}",
            "number": lambda: signed(value),
            "p": lambda: p_number(value),
        }
        return written[self.form]()

    def of_models(self) -> Rule:
        """Give the same rule with the models told in what a place is called."""
        if "model" in self.place:
            return self
        places = self.places or f"{self.place}s"
        return replace(self, place=f"model × {self.place}", places=f"models × {places}")

    @property
    def threshold(self) -> str:
        """Say when an alarm is raised: `above 20%`."""
        return "–" if self.limit is None else f"{self.side} {self.write(self.limit)}"


@dataclass(frozen=True)
class Check:
    """What a rule found in a study.

    target: id of the element that the numbers stand in. measured: places that have a value; 0 where
    the check could not be made, and `reason` says why. beyond: of these, beyond the limit. worst:
    the value nearest to an alarm or furthest in it, with the first of the `tied` places that have
    it.
    """

    study: str
    rule: Rule
    target: str
    measured: int
    beyond: int
    worst: float | None
    tied: int
    model: str | None
    setting: str | None
    where: str | None
    reason: str | None

    @property
    def verdict(self) -> str:
        if not self.measured:
            return NOT_APPLICABLE
        return ALARM if self.beyond else OK

    @property
    def anchor(self) -> str:
        return anchor("diagnostics", self.study, self.rule.key)

    @property
    def count(self) -> str:
        """Say how many places are beyond the limit: `3 of 8 settings`."""
        return f"{self.beyond:,} of {quantity(self.measured, self.rule.place, self.rule.places)}"

    @property
    def place(self) -> str:
        """Say where the worst value was found: `model-a, T1.0-P0.8`; nothing if it is of all."""
        first = ", ".join(each for each in (self.model, self.setting, self.where) if each)
        if self.tied < 2:
            return first
        return "everywhere" if self.tied == self.measured else f"{first} and {self.tied - 1:,} more"


def name_settings(frame: pl.DataFrame) -> pl.DataFrame:
    """Add `setting`: what `config.cell_name` calls each row's temperature and top_p."""
    top_p = pl.when(pl.col("top_p").is_null()).then(pl.lit("")).otherwise("-P" + pl.col("top_p"))
    return frame.with_columns(pl.concat_str(pl.lit("T"), "temperature", top_p).alias(_SETTING))


def judge(rule: Rule, study: str, target: str, values: pl.DataFrame, reason: str) -> Check:
    """Apply a rule to a study.

    values: a row a place, with `value`, and as far as they tell places apart `model`, `setting` and
    `where`; rows without a value are left out. reason: why the check cannot be made if there is no
    value. A rule without a limit cannot be applied.
    """
    measured = values.with_columns(pl.col("value").cast(pl.Float64).fill_nan(None))
    measured = measured.drop_nulls("value")
    limit = rule.limit
    if not measured.height or limit is None:
        return Check(study, rule, target, 0, 0, None, 0, None, None, None, reason)
    if _MODEL in measured.columns and measured[_MODEL].n_unique() > 1:
        rule = rule.of_models()
    lowest_is_worst = rule.side in ("below", "at most")
    worst = measured.sort("value", descending=not lowest_is_worst, maintain_order=True).row(
        0, named=True
    )
    return Check(
        study=study,
        rule=rule,
        target=target,
        measured=measured.height,
        beyond=measured.filter(_IS_BEYOND[rule.side](pl.col("value"), limit)).height,
        worst=worst["value"],
        tied=measured.filter(value=worst["value"]).height,
        model=worst.get(_MODEL),
        setting=worst.get(_SETTING),
        where=worst.get(_WHERE),
        reason=None,
    )


def count_failed_tests(fits: pl.DataFrame, test: Sequence[str], failed: pl.Expr) -> pl.DataFrame:
    """Count the tests of each model and setting that failed, settings without any among them.

    fits: rows of estimates. test: columns that tell the tests of a model and setting apart. failed:
    whether an estimate could not be made or relied on; a test fails with any of its estimates.
    """
    place = ["model", "temperature", "top_p"]
    tests = fits.group_by(*place, *test, maintain_order=True).agg(failed.any().alias("failed"))
    counted = tests.group_by(place, maintain_order=True).agg(pl.col("failed").sum().alias("value"))
    return name_settings(counted)


_STATUS_CHECKS = {
    "empty": ("empty draws", "share of the draws that hold no text"),
    "truncated": ("draws cut at the token limit", "share of the draws that were cut"),
    "no_answer": (
        "draws without a final answer",
        "share of the draws that hold reasoning and no answer",
    ),
    "error": ("draws refused by the server", "share of the draws that the server refused"),
}


def check_draws(
    study: str, cells: pl.DataFrame, target: str, greedy: str | None = None, place: str = "setting"
) -> list[Check]:
    """Check determinism, duplicates and statuses of a study's draws.

    cells: a row a cell, as in `draw_counts`. target, greedy: ids of the elements with the table of
    draws and with what is told of greedy decoding. place: what a cell is called.
    """
    cells = cells.with_columns(pl.col("cell").alias(_SETTING))
    is_greedy = pl.col("temperature") == GREEDY
    at_zero, sampled = cells.filter(is_greedy), cells.filter(~is_greedy)
    repeated = pl.col("repeated_prompts") > 0
    identical = pl.col("identical_prompts") / pl.col("repeated_prompts")
    determinism = Rule(
        "determinism",
        "determinism at temperature 0",
        "share of the prompts drawn more than once at temperature 0 that gave more than one text",
        MAX_VARYING,
        place,
    )
    duplicates = Rule(
        "identical",
        "duplicates above temperature 0",
        "share of the prompts drawn more than once whose draws are all the same text",
        THRESHOLDS["identical"],
        place,
    )
    return [
        judge(
            determinism,
            study,
            greedy or target,
            at_zero.filter(repeated).with_columns(value=1 - identical),
            "no prompt has two texts at temperature 0"
            if at_zero.height
            else "temperature 0 is not in the grid",
        ),
        judge(
            duplicates,
            study,
            target,
            sampled.filter(repeated).with_columns(value=identical),
            "no prompt has two texts in a setting"
            if sampled.height
            else "no temperature above 0 is in the grid",
        ),
        *(
            judge(
                Rule(status, name, counted, THRESHOLDS[status], place),
                study,
                target,
                cells.filter(pl.col("draws") > 0).with_columns(
                    value=pl.col(status) / pl.col("draws")
                ),
                "no draw was made",
            )
            for status, (name, counted) in _STATUS_CHECKS.items()
        ),
    ]


def tabulate_checks(checks: Iterable[Check]) -> pl.DataFrame:
    """Make the table `diagnostics.csv` of checks, a row each."""
    rows = [
        {
            "study": each.study,
            "check": each.rule.key,
            "counted": each.rule.counted,
            "side": each.rule.side,
            "threshold": each.rule.limit,
            "worst": each.worst,
            "tied": each.tied,
            "model": each.model,
            "setting": each.setting,
            "where": each.where,
            "place": each.rule.place,
            "places": each.measured,
            "beyond": each.beyond,
            "verdict": each.verdict,
            "reason": each.reason,
        }
        for each in checks
    ]
    return pl.DataFrame(
        rows, schema={name: each.dtype for name, each in DIAGNOSTICS.columns.items()}
    )


def list_alarms(checks: Sequence[Check]) -> list[Context]:
    """Gather the alarms, a line a check: where it is raised, by study."""
    raised: dict[str, list[Check]] = {}
    for each in checks:
        if each.verdict == ALARM:
            raised.setdefault(each.rule.key, []).append(each)
    return [
        {
            "name": of_check[0].rule.name,
            "studies": [
                {
                    "name": each.study,
                    "href": f"#{each.anchor}",
                    "told": f"{each.rule.threshold} in {each.count}"
                    if each.measured > 1
                    else f"{each.rule.write(each.worst or 0)}, {each.rule.threshold}",
                }
                for each in of_check
            ],
        }
        for of_check in raised.values()
    ]


def _write_verdict(check: Check) -> str:
    sign = _SIGNS[check.verdict]
    return f"{sign}: {check.reason}" if check.verdict == NOT_APPLICABLE else sign


def arrange_diagnostics(checks: Sequence[Check]) -> Context:
    """Gather the section: the checks by study, how many fail, and the alarms for the summary."""
    by_study: dict[str, list[Check]] = {}
    for each in checks:
        by_study.setdefault(each.study, []).append(each)
    verdicts = [each.verdict for each in checks]
    return {
        "made": verdicts.count(OK) + verdicts.count(ALARM),
        "alarms": verdicts.count(ALARM),
        "not_made": quantity(verdicts.count(NOT_APPLICABLE), "check"),
        "raised": list_alarms(checks),
        "studies": [
            {
                "name": study,
                "anchor": anchor("diagnostics", study),
                "rows": [
                    {
                        "anchor": each.anchor,
                        "name": each.rule.name,
                        "href": f"#{each.target}",
                        "verdict": _write_verdict(each),
                        "is_alarm": each.verdict == ALARM,
                        "count": each.count if each.measured else "–",
                        "worst": "–" if each.worst is None else each.rule.write(each.worst),
                        "place": each.place,
                        "threshold": each.rule.threshold,
                        "counted": each.rule.counted,
                    }
                    for each in of_study
                ],
            }
            for study, of_study in by_study.items()
        ],
    }
