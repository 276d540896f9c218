"""Every block x group of a setting, cut to the same number of texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from llm_variability.fits.measure_level import Key, Measured, MeasuredSetting
from llm_variability.tables import Design

MIN_GROUP = 2
"""Texts without which a group has no diversity."""


@dataclass(frozen=True)
class Groups:
    """The texts of one setting.

    n_texts: of each block x group that has any, before the cut. texts: a frame for each block x
    group of two texts or more, all of the same height, in the order in which texts are taken.
    unit: the column with the texts' units, if the design names one.
    """

    n_texts: Mapping[Key, int]
    texts: Mapping[Key, pl.DataFrame]
    unit: str | None = None

    def measure(self, function: Callable[[pl.DataFrame], Measured]) -> MeasuredSetting:
        """Apply a measure to each block x group."""
        return self.collect({key: function(frame) for key, frame in self.texts.items()})

    def collect(self, measured: Mapping[Key, Measured]) -> MeasuredSetting:
        """Put a measure of each block x group beside the counts and the units of its texts."""
        if self.unit is None:
            return MeasuredSetting(self.n_texts, measured)
        units = {key: frame[self.unit].to_list() for key, frame in self.texts.items()}
        return MeasuredSetting(self.n_texts, measured, units)


def cut_groups(draws: pl.DataFrame, design: Design) -> Groups:
    """Take the same number of texts from each block x group, since every measure depends on it.

    That number is the smallest that any block x group with two texts or more has. Taken are the
    first by replicate; where the design names a unit, the first by the unit, in the order of its
    text.

    draws: the measured draws of one cell.
    """
    order = ["replicate", "prompt_id"] if design.unit is None else [design.unit, "replicate"]
    found = draws.sort(order).partition_by(design.group, as_dict=True, maintain_order=True)
    whole = {tuple(map(str, key)): frame for key, frame in sorted(found.items())}
    sizes = {key: frame.height for key, frame in whole.items()}
    common = min((size for size in sizes.values() if size >= MIN_GROUP), default=0)
    kept = {key: frame.head(common) for key, frame in whole.items() if sizes[key] >= MIN_GROUP}
    return Groups(sizes, kept, design.unit)
