"""python -m llm_variability.code extract|features|tsed|cosine|prompt-tsed|prompt-cosine ...

Programs, what they are made of, and how alike pairs of them are.
"""

from __future__ import annotations

import argparse
import json
import logging
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from llm_variability.code.averages import average_pairs
from llm_variability.code.compiling import keep_compiled
from llm_variability.code.features import tabulate_features
from llm_variability.code.languages import find_language
from llm_variability.code.pairs import choose_floor_tasks, list_pairs, tabulate_pairs
from llm_variability.code.programs import choose_trees, count_programs, read_programs
from llm_variability.code.prompt_pairs import (
    count_left_out,
    list_prompt_pairs,
    tabulate_prompt_pairs,
)
from llm_variability.config_code import ORIGINAL, Extraction
from llm_variability.logs import stage_log, stage_parser
from llm_variability.tables import DRAWS, EMBEDDINGS, Design, read_metadata, read_table, write_table
from llm_variability.tables_code import (
    AUGMENTATIONS,
    AVERAGES,
    EXTRACTIONS,
    PAIRS,
    PROGRAM_STATUSES,
    PROGRAMS,
)
from llm_variability.tables_personas import FEATURES, PROGRAM_PAIRS, REPLY_KINDS

log = logging.getLogger(__name__)

_HANDED_ON = ("study", "model", "design", "extraction", "grammars")


def _grammar_versions(languages: pl.Series) -> dict[str, str]:
    packages = [find_language(language).package for language in languages.unique().sort()]
    return {package: version(package) for package in ("tree-sitter", *packages)}


def _add_setting(rows: pl.DataFrame, cell: dict[str, Any]) -> pl.DataFrame:
    """Give rows of a cell the columns of its setting; cell: its metadata."""
    return rows.with_columns(
        pl.lit(cell["temperature"]).alias("temperature"),
        pl.lit(cell["top_p"], dtype=pl.String).alias("top_p"),
    )


def extract(arguments: argparse.Namespace) -> None:
    how = Extraction.model_validate(json.loads(arguments.extraction))
    design = Design.from_json(read_metadata(arguments.draws[0])["design"])
    cells = []
    for path in arguments.draws:
        cell = read_metadata(path)
        programs = read_programs(read_table(path, DRAWS), how, design.columns)
        counts = dict(programs["status"].value_counts().rows())
        told = ", ".join(f"{counts.get(status, 0)} {status}" for status in PROGRAM_STATUSES)
        log.info("%s: %s", path, told)
        cells.append(_add_setting(programs, cell))
    table = pl.concat(cells)
    first = read_metadata(arguments.draws[0])
    metadata = {
        **{key: first[key] for key in ("study", "model", "design")},
        "extraction": how.model_dump(),
        "grammars": _grammar_versions(table["language"]),
    }
    write_table(table, arguments.output, PROGRAMS, metadata)
    counted = count_programs(table, design.columns, arguments.max_nodes)
    metadata["max_nodes"] = arguments.max_nodes
    write_table(counted, arguments.counts, EXTRACTIONS, metadata)


def features(arguments: argparse.Namespace) -> None:
    made_by = read_metadata(arguments.programs)
    cells = [_add_setting(read_table(path, DRAWS), read_metadata(path)) for path in arguments.draws]
    programs = read_table(arguments.programs, PROGRAMS)
    columns = Design.from_json(made_by["design"]).columns
    table = tabulate_features(programs, pl.concat(cells), columns)
    counts = dict(table["reply"].value_counts().rows())
    log.info("replies: %s", ", ".join(f"{counts.get(kind, 0)} {kind}" for kind in REPLY_KINDS))
    metadata = {key: made_by[key] for key in _HANDED_ON}
    write_table(table, arguments.output, FEATURES, metadata)


class _Compared:
    """A model's programs, and the tables that are written of their pairs."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self.programs = read_table(arguments.programs, PROGRAMS)
        made_by = read_metadata(arguments.programs)
        self._design = Design.from_json(made_by["design"])
        self._metadata: dict[str, Any] = {key: made_by[key] for key in _HANDED_ON}
        self._pairs: list[pl.DataFrame] = []


class _ComparedAugmentations(_Compared):
    """Programs of changed prompts beside those of the unaltered ones."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__(arguments)
        self._accounts = read_table(arguments.augmentations, AUGMENTATIONS)
        self._metadata |= {"floor_tasks": arguments.floor_tasks, "seed": arguments.seed}
        originals = self._accounts.filter(pl.col("augmentation") == ORIGINAL)
        self._floor = choose_floor_tasks(originals, arguments.seed, arguments.floor_tasks)
        self._averages: list[pl.DataFrame] = []

    def list_pairs(self, compared: pl.Series, both_ways: bool) -> pl.DataFrame:
        return list_pairs(self.programs, compared, self._floor, both_ways)

    def add(
        self, measure: str, compared: pl.Series, pairs: pl.DataFrame, similarity: np.ndarray
    ) -> None:
        scored = pairs, similarity, measure, self._design
        self._pairs.append(tabulate_pairs(self.programs, *scored))
        self._averages.append(average_pairs(self.programs, self._accounts, compared, *scored))
        log.info("%s: %d pairs of %d programs", measure, len(pairs), int(compared.sum()))

    def write(self, **metadata: Any) -> None:
        told = self._metadata | metadata
        write_table(pl.concat(self._pairs), self._arguments.pairs, PAIRS, told)
        write_table(pl.concat(self._averages), self._arguments.averages, AVERAGES, told)


class _ComparedPrompts(_Compared):
    """Programs of a task beside each other, whatever their prompts."""

    def list_pairs(self, compared: pl.Series, both_ways: bool) -> pl.DataFrame:
        return list_prompt_pairs(self.programs, compared, both_ways)

    def add(
        self, measure: str, compared: pl.Series, pairs: pl.DataFrame, similarity: np.ndarray
    ) -> None:
        table = tabulate_prompt_pairs(self.programs, pairs, similarity, measure)
        self._pairs.append(table)
        self._metadata["too_large"] = count_left_out(self.programs, compared)
        log.info("%s: %d pairs of %d programs", measure, len(table), int(compared.sum()))

    def write(self, **metadata: Any) -> None:
        told = self._metadata | metadata
        write_table(pl.concat(self._pairs), self._arguments.pairs, PROGRAM_PAIRS, told)


def tsed(arguments: argparse.Namespace) -> None:
    keep_compiled(arguments.compiled)
    # Numba, which this imports, reads the variable then.
    from llm_variability.code.tree_scores import is_symmetric, read_variants, score_trees

    variants = read_variants(arguments.variants, arguments.costs)
    model = arguments.compared(arguments)
    programs, limit = model.programs, arguments.max_nodes
    compared = choose_trees(programs, limit)
    for variant in variants:
        pairs = model.list_pairs(compared, both_ways=not is_symmetric(variant))
        scores = score_trees(programs, pairs, variant, limit, arguments.threads)
        model.add(variant.name, compared, pairs, scores)
    told = {each.name: vars(each.costs) for each in variants}
    model.write(costs=told, max_nodes=limit)


def cosine(arguments: argparse.Namespace) -> None:
    from llm_variability.code.cosine_scores import score_cosines

    model = arguments.compared(arguments)
    compared = model.programs["status"] == "ok"
    pairs = model.list_pairs(compared, both_ways=False)
    scores = score_cosines(model.programs, pairs, read_table(arguments.embeddings, EMBEDDINGS))
    model.add(arguments.encoder, compared, pairs, scores)
    manifest = read_metadata(arguments.embeddings)["encoder_manifest"]
    model.write(encoder=arguments.encoder, encoder_manifest=manifest)


def _take_pairs(step: argparse.ArgumentParser, compared: type[_Compared]) -> None:
    step.set_defaults(compared=compared)
    step.add_argument("--programs", required=True, type=Path)
    step.add_argument("--pairs", required=True, type=Path, help="table to write")
    if compared is _ComparedAugmentations:
        step.add_argument("--augmentations", required=True, type=Path)
        step.add_argument("--floor-tasks", required=True, type=int, help="unrelated of a task")
        step.add_argument("--seed", required=True, type=int, help="of the study")
        step.add_argument("--averages", required=True, type=Path, help="table to write")


def _take_trees(step: argparse.ArgumentParser) -> None:
    step.set_defaults(run=tsed)
    step.add_argument("--variants", required=True, nargs="+")
    step.add_argument("--costs", required=True, help="of edits, for tsed: JSON, or null")
    step.add_argument("--max-nodes", required=True, type=int, help="largest tree to be compared")
    step.add_argument("--threads", required=True, type=int)
    step.add_argument("--compiled", required=True, type=Path, help="folder, if need be")


def _take_vectors(step: argparse.ArgumentParser) -> None:
    step.set_defaults(run=cosine)
    step.add_argument("--embeddings", required=True, type=Path)
    step.add_argument("--encoder", required=True, help="name of the encoder")


def main() -> None:
    parser = stage_parser(__doc__ or "")
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("extract")
    step.set_defaults(run=extract)
    step.add_argument("--draws", required=True, type=Path, nargs="+")
    step.add_argument("--extraction", required=True, help="how it is done, JSON")
    step.add_argument("--max-nodes", required=True, type=int, help="largest tree to be compared")
    step.add_argument("--output", required=True, type=Path)
    step.add_argument("--counts", required=True, type=Path, help="table to write")
    step = steps.add_parser("features")
    step.set_defaults(run=features)
    step.add_argument("--draws", required=True, type=Path, nargs="+")
    step.add_argument("--programs", required=True, type=Path, help="what was extracted of them")
    step.add_argument("--output", required=True, type=Path)
    for prefix, compared in (("", _ComparedAugmentations), ("prompt-", _ComparedPrompts)):
        step = steps.add_parser(f"{prefix}tsed")
        _take_pairs(step, compared)
        _take_trees(step)
        step = steps.add_parser(f"{prefix}cosine")
        _take_pairs(step, compared)
        _take_vectors(step)
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        arguments.run(arguments)


if __name__ == "__main__":
    main()
