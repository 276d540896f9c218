"""python -m llm_variability.separation: how far apart personas are, in the code that they get."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.logs import log, stage_log, stage_parser
from llm_variability.separation import VERSION
from llm_variability.separation.classifier import tabulate_leakage
from llm_variability.separation.families import (
    LEVEL,
    adjust_leakage,
    adjust_means,
    adjust_separation,
    find_unreachable,
)
from llm_variability.separation.means import tabulate_programs, tabulate_wording
from llm_variability.separation.prompt_pairs import list_prompts
from llm_variability.separation.similarity import tabulate_separation
from llm_variability.table_contract import SETTING, Table
from llm_variability.tables import STIMULI, read_metadata, read_table, write_table
from llm_variability.tables_code import PROGRAMS
from llm_variability.tables_personas import (
    CONFUSIONS,
    FEATURES,
    LEAKAGE,
    PERSONA_MEANS,
    PROGRAM_PAIRS,
    SEPARATION,
    STYLE,
    TOPIC_WEIGHTS,
)


def read_models(
    paths: Sequence[Path], table: Table, study: str, several: bool = False
) -> dict[str, pl.DataFrame]:
    """Read a table of each model.

    several: a model may have more than one file (measures of its pairs).
    Raises ValueError for a table of another study, and where a model is there twice.
    """
    parts: dict[str, list[pl.DataFrame]] = {}
    for path in paths:
        metadata = read_metadata(path)
        if metadata["study"] != study:
            raise ValueError(f"{path}: is of study {metadata['study']}; allowed: {study}")
        found = parts.setdefault(metadata["model"], [])
        found.append(read_table(path, table))
        if len(found) > 1 and not several:
            raise ValueError(
                f"{path}: {table.name} of model {metadata['model']} are there twice; allowed: once"
            )
    return {model: pl.concat(found) for model, found in parts.items()}


def _require_models(tables: dict[str, dict[str, pl.DataFrame]]) -> list[str]:
    """Give the models in their order; raise ValueError unless every kind of table has each."""
    models = list(dict.fromkeys(model for found in tables.values() for model in found))
    for name, found in tables.items():
        for model in models:
            if model not in found:
                raise ValueError(f"--{name}: has no table of model {model}; allowed: all models")
    return models


def _require_pairs_once(pairs: dict[str, pl.DataFrame]) -> None:
    key = [name for name in PROGRAM_PAIRS.columns if name != "similarity"]
    for model, found in pairs.items():
        twice = found.filter(pl.struct(key).is_duplicated())
        if twice.height:
            raise ValueError(
                f"--pairs: pairs of model {model} and measure {twice['measure'][0]} are there"
                " twice; allowed: once"
            )


def _require_measures(pairs: dict[str, pl.DataFrame], measures: Sequence[str]) -> None:
    for model, found in pairs.items():
        stray = found.filter(~pl.col("measure").is_in(measures))
        if stray.height:
            raise ValueError(
                f"--pairs: of model {model} are of measure {stray['measure'][0]}; allowed:"
                f" {', '.join(measures)}"
            )


def separate(arguments: argparse.Namespace) -> None:
    """Read, compute model by model, log what has no number, write."""
    study, seed = arguments.study, arguments.seed
    prompts = list_prompts(read_table(arguments.stimuli, STIMULI))
    pairs = read_models(arguments.pairs, PROGRAM_PAIRS, study, several=True)
    features = read_models(arguments.features, FEATURES, study)
    programs = read_models(arguments.programs, PROGRAMS, study)
    _require_pairs_once(pairs)
    models = _require_models({"features": features, "programs": programs, "pairs": pairs})
    _require_measures(pairs, arguments.measures)
    of_prompts = tabulate_wording(
        read_table(arguments.style, STYLE),
        read_table(arguments.topic_weights, TOPIC_WEIGHTS),
        prompts,
        study=study,
        seed=seed,
        permutations=arguments.permutations,
    )
    separations, means, leakages, confusions = [], [of_prompts], [], []
    for model in models:
        named: dict[str, Any] = {"study": study, "model": model, "seed": seed}
        settings = features[model].select(*SETTING).unique(maintain_order=True).rows()
        drawn = named | {"permutations": arguments.permutations}
        separations.append(
            tabulate_separation(pairs[model], prompts, settings, arguments.measures, **drawn)
        )
        means.append(tabulate_programs(features[model], prompts, **drawn))
        leakage, confusion = tabulate_leakage(
            features[model],
            programs[model],
            prompts,
            **named,
            permutations=arguments.classifier_permutations,
        )
        leakages.append(leakage)
        confusions.append(confusion)
        log.info("%s: compared", model)
    own = {"study": study, "separation_version": VERSION, "seed": seed}
    drawn = own | {"permutations": arguments.permutations}
    guessed = own | {"permutations": arguments.classifier_permutations}
    for table, frame, path, metadata, number in (
        (
            SEPARATION,
            adjust_separation(pl.concat(separations)),
            arguments.similarity,
            drawn,
            "p_value",
        ),
        (PERSONA_MEANS, adjust_means(pl.concat(means)), arguments.means, drawn, "mean"),
        (LEAKAGE, adjust_leakage(pl.concat(leakages)), arguments.leakage, guessed, "accuracy"),
        (CONFUSIONS, pl.concat(confusions), arguments.confusions, guessed, "programs"),
    ):
        missing = frame[number].null_count()
        log.info("%s: %d rows, %d without %s", table.name, frame.height, missing, number)
        if "family_size" in frame.columns:
            permutations = int(metadata["permutations"])
            for each in find_unreachable(table, frame, permutations):
                log.info(
                    "%s: %d tests of %s: with %d permutations p_holm is never below %g;"
                    " %d permutations are enough",
                    *(table.name, each.tests, each.family, permutations, LEVEL, each.needed),
                )
        write_table(frame, path, table, metadata)


def main() -> None:
    parser = stage_parser("How far apart personas are, in the code that they get.")
    parser.add_argument("--study", required=True, help="the study's name")
    for name, what in (
        ("pairs", "tables of pairs of programs, of all models and measures"),
        ("features", "tables of features of programs, of all models"),
        ("programs", "tables of programs, of all models"),
    ):
        parser.add_argument(
            f"--{name}", required=True, type=Path, nargs="+", metavar="FILE", help=what
        )
    parser.add_argument(
        "--measures", required=True, nargs="+", metavar="NAME", help="measures of the pairs"
    )
    for name, what in (
        ("stimuli", "table of prompts"),
        ("style", "table of features of prompts"),
        ("topic-weights", "table of the prompts' topics"),
    ):
        parser.add_argument(f"--{name}", required=True, type=Path, metavar="FILE", help=what)
    parser.add_argument("--permutations", type=int, default=999, help="permutations of personas")
    parser.add_argument(
        "--classifier-permutations", type=int, default=199, help="the same for the classifier"
    )
    parser.add_argument("--seed", required=True, type=int, help="the study's seed")
    for name, what in (
        ("similarity", "contrasts of similarities"),
        ("means", "means of features"),
        ("leakage", "accuracies of the classifier"),
        ("confusions", "guesses of the classifier"),
    ):
        parser.add_argument(f"--{name}", required=True, type=Path, help=f"the {what} to write")
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        separate(arguments)


if __name__ == "__main__":
    main()
