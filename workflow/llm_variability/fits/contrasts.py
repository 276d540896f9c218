"""Contrasts of the groups' means: the published coding, and contrasts averaged over factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product

import numpy as np

from llm_variability.fits.coding import INTERCEPT
from llm_variability.fits.random_intercept import Floats
from llm_variability.tables import Factor

CODINGS = ("treatment", "marginal", "interaction")
"""How a term is to be read: with the other factors at their reference levels, as published;
averaged over the other factors' levels; a difference of differences, likewise averaged."""


@dataclass(frozen=True)
class Contrast:
    """A linear combination of the groups' means.

    coding: one of `CODINGS`. term: as in `coding.code_full_factorial`. weights: (groups,), the
    groups as `coding.list_groups` gives them; they sum to 0, or to 1 for the intercept.
    """

    coding: str
    term: str
    weights: Floats


def list_contrasts(factors: Sequence[Factor]) -> list[Contrast]:
    """List every contrast of a full factorial design, coding by coding.

    `treatment` gives the coefficients of `code_full_factorial`, the intercept among them: a main
    effect is a difference where every other factor is at its reference. `marginal` gives the main
    effects as differences averaged over the levels of the other factors, each level weighing the
    same, and `interaction` the differences of such differences. With one factor `marginal` equals
    `treatment` and there is no `interaction`; with two, `interaction` equals the interactions of
    `treatment`.

    Raises ValueError if a reference is none of its factor's levels.
    """
    for factor in factors:
        if factor.reference not in factor.levels:
            raise ValueError(f"{factor.name}: the reference {factor.reference!r} is no level of it")
    at_reference = [_at(factor, factor.reference) for factor in factors]
    averaged = [np.full(len(factor.levels), 1 / len(factor.levels)) for factor in factors]
    treatment = [
        Contrast("treatment", term, weights)
        for _, term, weights in _cross_differences(factors, at_reference)
    ]
    marginal = [
        Contrast("marginal" if order == 1 else "interaction", term, weights)
        for order, term, weights in _cross_differences(factors, averaged)
        if order > 0
    ]
    return treatment + marginal


def _at(factor: Factor, level: str) -> Floats:
    return np.array([float(each == level) for each in factor.levels])


def _cross_differences(
    factors: Sequence[Factor], elsewhere: Sequence[Floats]
) -> list[tuple[int, str, Floats]]:
    """Difference the levels of each subset of factors; the other factors weigh as `elsewhere`.

    Returns (order of interaction, term, weights), in the order of `code_full_factorial`.
    """
    crossed = []
    for order in range(len(factors) + 1):
        for chosen in combinations(range(len(factors)), order):
            others = [
                [level for level in factors[i].levels if level != factors[i].reference]
                for i in chosen
            ]
            for levels in product(*others):
                parts = list(elsewhere)
                for i, level in zip(chosen, levels, strict=True):
                    parts[i] = _at(factors[i], level) - _at(factors[i], factors[i].reference)
                names = (
                    f"{factors[i].name}[{level}]" for i, level in zip(chosen, levels, strict=True)
                )
                crossed.append((order, ":".join(names) or INTERCEPT, reduce(np.kron, parts)))
    return crossed
