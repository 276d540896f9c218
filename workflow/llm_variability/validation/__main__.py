"""python -m llm_variability.validation fetch|embed|compare|levels: published texts and values."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import polars as pl

from llm_variability.config import Encoder
from llm_variability.fits.fit_table import BACKENDS
from llm_variability.logs import log, stage_log, stage_parser
from llm_variability.report.figures import save_figure
from llm_variability.similarity.embedding import (
    SentenceEncoder,
    encode_missing,
    hash_text,
    select_vectors,
    stack_vectors,
    store_folder,
)
from llm_variability.tables import EMBEDDINGS, read_metadata, read_table, write_table
from llm_variability.validation.comparison import compare_published, summarise
from llm_variability.validation.figure import draw_comparison
from llm_variability.validation.lee2024 import (
    COLUMNS,
    COMMIT,
    DIGEST,
    REPOSITORY,
    TEXTS,
    digest_rows,
    fetch_texts,
    label_design,
    read_local,
)
from llm_variability.validation.levels import describe_levels, fit_levels, tabulate_levels
from llm_variability.validation.sampling import measure_samples, number_texts


def fetch(arguments: argparse.Namespace) -> None:
    """Bring the texts here, from a local file or from the authors' repository."""
    if arguments.texts is not None:
        texts, origin = read_local(arguments.texts), str(arguments.texts)
    else:
        texts, origin = fetch_texts(), f"github.com/{REPOSITORY} at {COMMIT}"
    label_design(texts)
    digest = digest_rows(texts)
    if digest == DIGEST:
        log.info("%s: the %d published texts, by content", origin, len(texts))
    else:
        log.warning("%s: %d texts, not the published ones", origin, len(texts))
    metadata = {"origin": origin, "digest": digest, "published": digest == DIGEST}
    write_table(texts.sort(COLUMNS), arguments.output, TEXTS, metadata)


def embed(arguments: argparse.Namespace) -> None:
    """Give every distinct text its vector, once an encoder."""
    settings = Encoder.model_validate(json.loads(arguments.settings))
    manifest = json.loads(arguments.manifest.read_text(encoding="utf-8"))
    texts = {hash_text(text): text for text in read_table(arguments.texts, TEXTS)["text"]}
    store = store_folder(arguments.output, manifest, settings)
    metadata = {
        "encoder": arguments.encoder,
        "encoder_manifest": manifest,
        "precision": settings.precision,
    }
    encode_missing(texts, store, SentenceEncoder(manifest["path"], settings), metadata)
    write_table(select_vectors(store, texts), arguments.output, EMBEDDINGS, metadata)


def _describe(arguments: argparse.Namespace, n_texts: int) -> dict[str, str]:
    source, vectors = read_metadata(arguments.texts), read_metadata(arguments.embeddings)
    kind = "the published ones" if source["published"] else "NOT the published texts"
    origin = vectors["encoder_manifest"]["origin"]
    first, last = min(arguments.seeds), max(arguments.seeds)
    whole = sorted(arguments.seeds) == list(range(first, last + 1))
    seeds = f"{first} to {last}" if whole else " ".join(map(str, arguments.seeds))
    return {
        "texts": f"{n_texts:,} from {source['origin']}",
        "content": f"{kind} (SHA-256 {source['digest'][:16]}...)",
        "encoder": f"{vectors['encoder']} from {origin}, {vectors['precision']}",
        "samples": f"{arguments.per_cell} texts a cell, seeds {seeds}",
    }


def compare(arguments: argparse.Namespace) -> None:
    """Measure samples and all texts, set them beside the published values, print a summary."""
    texts = number_texts(read_table(arguments.texts, TEXTS))
    table = read_table(arguments.embeddings, EMBEDDINGS)
    encoder = read_metadata(arguments.embeddings)["encoder"]
    vectors, design = stack_vectors(table), label_design(texts)
    rows_of = {text_hash: row for row, text_hash in enumerate(table["text_hash"])}
    estimates, means = measure_samples(
        texts,
        vectors,
        rows_of,
        design,
        per_cell=arguments.per_cell,
        seeds=arguments.seeds,
        encoder=encoder,
        backend=arguments.backend,
    )
    levels = fit_levels(texts, vectors, rows_of, design, encoder=encoder, backend=arguments.backend)
    comparison = compare_published(estimates, means)
    folder: Path = arguments.outdir
    folder.mkdir(parents=True, exist_ok=True)
    estimates.write_csv(folder / "estimates.csv")
    means.write_csv(folder / "mean_cosine.csv")
    comparison.write_csv(folder / "comparison.csv")
    levels.write_csv(folder / "levels.csv")
    figure = draw_comparison(estimates, means, encoder=encoder, per_cell=arguments.per_cell)
    save_figure(figure, folder / "comparison", "GPT-3.5 texts of Lee et al. 2024")
    described = summarise(comparison, estimates, _describe(arguments, len(texts)))
    summary = f"{described}\n{describe_levels(levels)}"
    (folder / "summary.txt").write_text(summary, encoding="utf-8")
    print(summary)


def print_levels(arguments: argparse.Namespace) -> None:
    """Print the p-values of one or several encoders as Markdown."""
    found = {path.parent.name: pl.read_csv(path) for path in arguments.files}
    print(tabulate_levels(found), end="")


def main() -> None:
    parser = stage_parser(__doc__ or "")
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("fetch")
    step.set_defaults(run=fetch)
    step.add_argument(
        "--texts", type=Path, nargs="?", help="local file, in place of the authors' repository"
    )
    step.add_argument("--output", required=True, type=Path)
    step = steps.add_parser("embed")
    step.set_defaults(run=embed)
    step.add_argument("--encoder", required=True, help="name of the encoder")
    step.add_argument("--settings", required=True, help="its configuration, JSON")
    step.add_argument("--manifest", required=True, type=Path)
    step.add_argument("--texts", required=True, type=Path)
    step.add_argument("--output", required=True, type=Path)
    step = steps.add_parser("compare")
    step.set_defaults(run=compare)
    step.add_argument("--texts", required=True, type=Path)
    step.add_argument("--embeddings", required=True, type=Path)
    step.add_argument("--per-cell", required=True, type=int, help="texts sampled from each cell")
    step.add_argument("--seeds", required=True, type=int, nargs="+")
    step.add_argument("--backend", choices=BACKENDS, default="profile", help="who fits")
    step.add_argument("--outdir", required=True, type=Path)
    step = steps.add_parser("levels")
    step.set_defaults(run=print_levels)
    step.add_argument("files", type=Path, nargs="+", help="levels.csv of each encoder")
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        arguments.run(arguments)


if __name__ == "__main__":
    main()
