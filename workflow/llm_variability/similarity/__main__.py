"""python -m llm_variability.similarity embed|cosine ...: vectors; cosine sums of each text."""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.config import Encoder
from llm_variability.logs import stage_log, stage_parser
from llm_variability.similarity.cosine import summarise_similarity
from llm_variability.similarity.embedding import (
    SentenceEncoder,
    encode_missing,
    hash_text,
    measured_texts,
    select_vectors,
    stack_vectors,
    store_folder,
)
from llm_variability.tables import (
    DRAWS,
    EMBEDDINGS,
    SIMILARITY,
    Design,
    read_metadata,
    read_table,
    write_table,
)
from llm_variability.tables_code import PROGRAMS

log = logging.getLogger(__name__)


def _made_by(sources: list[Path], encoder: str, manifest: dict[str, Any]) -> dict[str, Any]:
    first = read_metadata(sources[0])
    return {
        "study": first["study"],
        "model": first["model"],
        "encoder": encoder,
        "encoder_manifest": manifest,
    }


def _read_texts(draws: list[Path]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for path in draws:
        measured = measured_texts(read_table(path, DRAWS), include_truncated=True)
        texts |= zip(measured["text_hash"], measured["text"], strict=True)
    return texts


def _read_codes(programs: Path) -> dict[str, str]:
    """Read the programs that are compared: those that parse."""
    codes = read_table(programs, PROGRAMS).filter(pl.col("status") == "ok")["code"]
    return {hash_text(code): code for code in codes.unique(maintain_order=True)}


def embed(arguments: argparse.Namespace) -> None:
    settings = Encoder.model_validate(json.loads(arguments.settings))
    manifest = json.loads(arguments.manifest.read_text(encoding="utf-8"))
    if arguments.draws:
        texts, sources = _read_texts(arguments.draws), arguments.draws
    else:
        texts, sources = _read_codes(arguments.programs), [arguments.programs]
    store = store_folder(arguments.output, manifest, settings)
    metadata = _made_by(sources, arguments.encoder, manifest)
    encode_missing(texts, store, SentenceEncoder(manifest["path"], settings), metadata)
    vectors = select_vectors(store, texts)
    cut = vectors["over_long"].sum()
    log.info("%d of %d texts are longer than the encoder's limit", cut, len(vectors))
    write_table(vectors, arguments.output, EMBEDDINGS, metadata)


def cosine(arguments: argparse.Namespace) -> None:
    table = read_table(arguments.embeddings, EMBEDDINGS)
    made_by = read_metadata(arguments.embeddings)
    rows_of = {text_hash: row for row, text_hash in enumerate(table["text_hash"])}
    vectors, over_long = stack_vectors(table), table.select("text_hash", "over_long")
    summaries = []
    design: dict[str, Any] = {}
    for path in arguments.draws:
        cell = read_metadata(path)
        design = cell["design"]
        measured = measured_texts(
            read_table(path, DRAWS), include_truncated=not arguments.exclude_truncated
        )
        measured = measured.join(over_long, on="text_hash", how="left", maintain_order="left")
        compared = Design.from_json(design)
        carried = ["over_long"] if compared.unit is None else [compared.unit, "over_long"]
        summary = summarise_similarity(measured, vectors, rows_of, compared.group, carried)
        summaries.append(
            summary.with_columns(
                pl.lit(cell["temperature"]).alias("temperature"),
                pl.lit(cell["top_p"], dtype=pl.String).alias("top_p"),
            )
        )
    metadata = {
        **_made_by(arguments.draws, made_by["encoder"], made_by["encoder_manifest"]),
        "include_truncated": not arguments.exclude_truncated,
        "design": design,
    }
    write_table(pl.concat(summaries), arguments.output, SIMILARITY, metadata)


def main() -> None:
    parser = stage_parser(__doc__ or "")
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("embed")
    step.set_defaults(run=embed)
    step.add_argument("--encoder", required=True, help="name of the encoder")
    step.add_argument("--settings", required=True, help="its configuration, JSON")
    step.add_argument("--manifest", required=True, type=Path)
    texts = step.add_mutually_exclusive_group(required=True)
    texts.add_argument("--draws", type=Path, nargs="+", help="tables with the texts")
    texts.add_argument("--programs", type=Path, help="table with programs in their place")
    step.add_argument("--output", required=True, type=Path)
    step = steps.add_parser("cosine")
    step.set_defaults(run=cosine)
    step.add_argument("--embeddings", required=True, type=Path)
    step.add_argument("--draws", required=True, type=Path, nargs="+")
    step.add_argument("--exclude-truncated", action="store_true")
    step.add_argument("--output", required=True, type=Path)
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        arguments.run(arguments)


if __name__ == "__main__":
    main()
