"""In which order the jobs of dialogues are drawn, so that models change as seldom as can be."""

from __future__ import annotations

from collections.abc import Sequence

from llm_variability.devices import DRAWS_FIRST


def rank_draws(phase: int, model: str, models: Sequence[str], there: str) -> int:
    """Give the priority of a model's draws in a phase of the dialogues, as `devices` has them.

    Phase 0 is turn 0, which comes with each model's other draws. Phase 2n - 1 are the answers to
    the n-th questions, of the one model that takes the personas; phase 2n is turn n of all models,
    that of this model (`there`) first. A phase comes before all of the next, so each needs every
    model no more than once.

    models: in the order in which they draw. Two priorities are 1 apart at least; what is less
    orders a model's cells.
    """
    rank = models.index(model)
    if phase == 0:
        return DRAWS_FIRST - rank
    after_there = 0 if model == there else rank + 1
    return DRAWS_FIRST - phase * (len(models) + 1) - after_there
