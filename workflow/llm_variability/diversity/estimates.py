"""The measures of every setting to a table of values by group, and to a table of estimates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl

from llm_variability.diversity.groups import Groups
from llm_variability.diversity.lexical import (
    measure_compression,
    measure_differentiation,
    measure_words,
)
from llm_variability.diversity.vendi import explain_no_jackknife, measure_vendi
from llm_variability.diversity.words import name_category, split_words
from llm_variability.fits.coding import list_groups
from llm_variability.fits.fit_table import Setting, setting_order
from llm_variability.fits.measure_level import Key, Measured, MeasuredSetting, fit_measure
from llm_variability.tables import DIVERSITY, FITS, Design

ANALYSIS = "diversity"

LEXICAL = (
    "distinct-1",
    "distinct-2",
    "distinct-3",
    "self-BLEU",
    "compression ratio",
    "probability of differentiation",
)
"""The measures that need no encoder, by the names they have in tables."""

Measures = Mapping[str, MeasuredSetting]
"""A measure's name to its values at one setting."""


def name_vendi(encoder: str) -> str:
    """Name the Vendi score under an encoder."""
    return f"Vendi score, {encoder}"


def measure_lexical(groups: Groups) -> Measures:
    """Measure the texts of one setting by all of `LEXICAL`. groups: frames with `text`."""
    measured: dict[str, dict[Key, Measured]] = {measure: {} for measure in LEXICAL}
    for key, frame in groups.texts.items():
        texts = frame["text"].to_list()
        of_group = measure_words([split_words(text) for text in texts]) | {
            "compression ratio": measure_compression(texts),
            "probability of differentiation": measure_differentiation(
                [name_category(text) for text in texts]
            ),
        }
        for measure in LEXICAL:
            measured[measure][key] = of_group[measure]
    return {measure: groups.collect(of_groups) for measure, of_groups in measured.items()}


def vendi_of(encoder: str, vectors: np.ndarray) -> Callable[[Groups], Measures]:
    """Give what measures the texts of one setting by the Vendi score.

    A setting with too few texts a group for the score's jackknife says so.

    vectors: (m, d), a row a distinct text. The groups' frames have `row`, the text's row in them.
    """

    def measure(groups: Groups) -> Measures:
        score = groups.measure(lambda frame: measure_vendi(vectors[frame["row"].to_numpy()]))
        n_texts = min((frame.height for frame in groups.texts.values()), default=0)
        return {name_vendi(encoder): replace(score, no_jackknife=explain_no_jackknife(n_texts))}

    return measure


def fit_measures(
    settings: Mapping[Setting, Measures],
    design: Design,
    *,
    study: str,
    model: str,
    measures: Iterable[str],
) -> pl.DataFrame:
    """Estimate all contrasts of all measures at all settings: a FITS table, measure by measure.

    A setting that lacks a measure has a row that says that no text was measured.
    """
    nothing = MeasuredSetting({}, {})
    ordered = sorted(settings, key=setting_order)
    tables = [
        fit_measure(
            {setting: settings[setting].get(measure, nothing) for setting in ordered},
            design,
            study=study,
            model=model,
            analysis=ANALYSIS,
            measure=measure,
        )
        for measure in measures
    ]
    schema = {name: column.dtype for name, column in FITS.columns.items()}
    return pl.concat([pl.DataFrame(schema=schema), *tables])


def tabulate_values(settings: Mapping[Setting, Measures], design: Design) -> pl.DataFrame:
    """List the value of every measure in every block x group of every setting: a DIVERSITY table.

    A block x group of fewer than two texts has no value, and its own number of texts.
    """
    columns: dict[str, list[object]] = defaultdict(list)
    for setting in sorted(settings, key=setting_order):
        for measure, of_groups in settings[setting].items():
            blocks = design.blocks or tuple(sorted({key[0] for key in of_groups.n_texts}))
            for block, group in product(blocks, list_groups(design.factors)):
                key = (block, *group)
                found = of_groups.measured.get(key)
                value = None if found is None or np.isnan(found.value) else found.value
                n_texts = of_groups.n_texts.get(key, 0) if found is None else len(found.deleted)
                row = dict(zip(design.group, key, strict=True)) | {
                    "temperature": setting[0],
                    "top_p": setting[1],
                    "measure": measure,
                    "value": value,
                    "n_texts": n_texts,
                }
                for name, cell in row.items():
                    columns[name].append(cell)
    types = {name: column.dtype for name, column in DIVERSITY.columns.items()}
    return pl.DataFrame(columns, schema={**dict.fromkeys(design.group, pl.String), **types})
