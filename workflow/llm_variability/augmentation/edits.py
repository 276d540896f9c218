"""What every augmentation shares: edits by offset, the count a rate asks for, random streams.

A method lists the units of a text that it can change and what each may become; `edit_units` picks
among them. Units and replacements are drawn per unit and not per rate, so with one seed the edits
at a lower rate are among those at a higher one; with a seed for each rate they are independent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from llm_variability.config import canonical_number


class Edit(NamedTuple):
    """A change: `before` stood at offset `start` (in characters) of the original text."""

    start: int
    before: str
    after: str


class Unit(NamedTuple):
    """A piece of a text that can be changed, and what it may become (each differs from it)."""

    start: int
    text: str
    choices: Sequence[str]


@dataclass(frozen=True)
class Augmented:
    """An augmented text and the account of it.

    unit: what is counted, `character` or `word`.
    eligible: units that the rate is a share of. replaceable: those that can be changed at all.
    asked: units that the rate asks for. edited: units that were changed.
    edits: every change in the order of the text; None where the method does not tell, and then
    the rest of the text need not be what it was.
    """

    text: str
    nominal: float
    unit: str
    eligible: int
    replaceable: int
    asked: int
    edited: int
    edits: tuple[Edit, ...] | None

    @property
    def realised(self) -> float:
        """Share of the eligible units that were changed, 0 to 1; 0 if none is eligible."""
        return self.edited / self.eligible if self.eligible else 0.0


def count_asked(rate: float, eligible: int) -> int:
    """Count the units a rate asks for: rate x eligible, rounded (halves to the even number).

    The product is exact, so 0.7 of 45 is 31.5, not 31.499999999999996. It grows with the rate.
    Raises ValueError for a rate outside 0 to 1.
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"rate: {rate} is not between 0 and 1")
    return round(Fraction(str(rate)) * eligible)


def stream_seed(
    seed: int, prompt: str, method: str, rate: float | str, variant: int, nested: bool = False
) -> int:
    """Derive the seed of one augmented prompt: 64 bits (blake2b of what names it).

    prompt: what names the prompt, such as its task's id. nested: leave the rate out, so that all
    rates share a stream and the edits at a lower one are among those at a higher one.
    Raises ValueError if the rate is no number.
    """
    key = json.dumps([seed, prompt, method, None if nested else canonical_number(rate), variant])
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Make the edits, which are in the order of the text and do not overlap.

    Raises ValueError for an edit whose `before` is not what stands there.
    """
    parts, end = [], 0
    for edit in edits:
        if edit.start < end or not text.startswith(edit.before, edit.start):
            raise ValueError(f"edit at {edit.start}: {edit.before!r} is not what stands there")
        parts += [text[end : edit.start], edit.after]
        end = edit.start + len(edit.before)
    return "".join([*parts, text[end:]])


def edit_units(
    text: str, unit: str, units: Sequence[Unit], eligible: int, rate: float, seed: int
) -> Augmented:
    """Change as many units, drawn at random, as the rate asks for, or all there are.

    units: the replaceable ones, in the order of the text. eligible: at least as many.
    Each unit gets a rank and a replacement from the seed, whatever the rate; those of the lowest
    ranks are changed.
    Raises ValueError for a rate outside 0 to 1.
    """
    asked = count_asked(rate, eligible)
    draws = np.random.default_rng(seed).random((len(units), 2))
    chosen = np.sort(np.argsort(draws[:, 0], kind="stable")[:asked])
    edits = tuple(
        Edit(each.start, each.text, each.choices[int(draws[index, 1] * len(each.choices))])
        for index in chosen
        for each in [units[index]]
    )
    return Augmented(
        text=apply_edits(text, edits),
        nominal=rate,
        unit=unit,
        eligible=eligible,
        replaceable=len(units),
        asked=asked,
        edited=len(edits),
        edits=edits,
    )
