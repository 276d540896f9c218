"""Treatment coding of a full factorial design."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np

from llm_variability.fits.random_intercept import Floats
from llm_variability.tables import Factor

INTERCEPT = "Intercept"


def list_groups(factors: Sequence[Factor]) -> list[tuple[str, ...]]:
    """Cross the factors' levels, in the design's order; the last factor varies fastest."""
    return list(product(*(factor.levels for factor in factors)))


def code_full_factorial(factors: Sequence[Factor]) -> tuple[list[str], Floats]:
    """Code main effects and all interactions against the reference levels.

    A main effect's coefficient is so the difference from the reference level where every other
    factor is at its own reference: with `race * gender` the effect of race among men.

    factors: at least one; each one's reference is among its levels.
    Returns the terms (`Intercept`, `race[Asian]`, ..., `race[Asian]:gender[woman]`: by order of
    interaction, then factors and levels as in the design) and their (groups, terms) columns, the
    groups as `list_groups` gives them. The matrix is square and of full rank.
    Raises ValueError if a reference is none of its factor's levels.
    """
    for factor in factors:
        if factor.reference not in factor.levels:
            raise ValueError(f"{factor.name}: the reference {factor.reference!r} is no level of it")
    groups = list_groups(factors)
    terms: list[str] = []
    columns: list[list[float]] = []
    for order in range(len(factors) + 1):
        for chosen in combinations(range(len(factors)), order):
            contrasts = [
                [level for level in factors[i].levels if level != factors[i].reference]
                for i in chosen
            ]
            for levels in product(*contrasts):
                names = (
                    f"{factors[i].name}[{level}]" for i, level in zip(chosen, levels, strict=True)
                )
                terms.append(":".join(names) or INTERCEPT)
                columns.append(
                    [
                        float(
                            all(group[i] == level for i, level in zip(chosen, levels, strict=True))
                        )
                        for group in groups
                    ]
                )
    return terms, np.array(columns).T
