"""This project's encoding beside plain sentence-transformers, on the same texts in one run.

    python benchmarks/encoders.py --texts FILE --encoder NAME=FOLDER
        [--sample N] [--plain-sample N] [--precision float32|bfloat16] [--slices N]

FILE is a Parquet file with a column `text`; its other text columns name the groups whose texts
are compared. Plain is `SentenceTransformer.encode` with its defaults, in the order of the file,
every text of it, in float32. Ours is `encode_missing` into an empty store. The two take turns,
slice by slice, so that a busy machine hits both alike; each is loaded and warm before the clock
starts. With --plain-sample, plain encodes that many texts drawn at random, and rates are compared.
Prints one table.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import polars as pl
import torch
from sentence_transformers import SentenceTransformer

from llm_variability.config import Encoder
from llm_variability.similarity.embedding import (
    SentenceEncoder,
    encode_missing,
    hash_text,
    select_vectors,
    stack_vectors,
)


@dataclass
class Clock:
    """Texts, and the seconds that they took by the wall and on all cores."""

    texts: int = 0
    wall: float = 0.0
    cores: float = 0.0
    _begun: tuple[float, float] = field(default=(0.0, 0.0), repr=False)

    def __enter__(self) -> Clock:
        self._begun = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._begun[0]
        self.cores += time.process_time() - self._begun[1]

    def row(self, name: str) -> str:
        rate, core_rate = self.texts / self.wall, self.texts / self.cores
        return (
            f"| {name} | {self.texts:,} | {self.wall:.1f} | {rate:.1f} |"
            f" {self.cores:.1f} | {core_rate:.1f} |"
        )


def encode_both(
    texts: list[str], plain_rows: np.ndarray, folder: str, settings: Encoder, slices: int
) -> tuple[Clock, Clock, np.ndarray, pl.DataFrame]:
    """Encode all texts with ours, and those of plain_rows with plain, in turns.

    Returns both clocks, plain's vectors (a row a plain_row) and our table (a row a text).
    """
    plain = SentenceTransformer(folder, device="cpu", local_files_only=True)
    ours = SentenceEncoder(folder, settings)
    plain.encode(texts[:32], show_progress_bar=False)
    ours.encode(texts[:32])
    hashes = [hash_text(text) for text in texts]
    plain_clock, our_clock = Clock(), Clock()
    vectors = []
    with tempfile.TemporaryDirectory() as holder:
        store = Path(holder)
        ours_at = np.array_split(np.arange(len(texts)), slices)
        for part, our_rows in zip(np.array_split(plain_rows, slices), ours_at, strict=True):
            with plain_clock:
                found = plain.encode([texts[row] for row in part], show_progress_bar=False)
            vectors.append(found / np.linalg.norm(found, axis=1, keepdims=True))
            with our_clock:
                wanted = {hashes[row]: texts[row] for row in our_rows}
                encode_missing(wanted, store, ours, {})
            plain_clock.texts += len(part)
            our_clock.texts += len(our_rows)
            print(f"{our_clock.texts:,} texts", flush=True)
        table = select_vectors(store, hashes)
    return plain_clock, our_clock, np.concatenate(vectors), table


def compare_cosines(
    plain: np.ndarray, ours: np.ndarray, groups: list[list[int]]
) -> tuple[int, float, list[float]]:
    """Count pairs inside groups; give the largest difference of a cosine and each group's mean."""
    pairs, largest, means = 0, 0.0, []
    for rows in groups:
        upper = np.triu_indices(len(rows), 1)
        one, other = (each[rows].astype(np.float64) for each in (plain, ours))
        difference = ((other @ other.T) - (one @ one.T))[upper]
        if difference.size:
            pairs += difference.size
            largest = max(largest, float(np.abs(difference).max()))
            means.append(float(difference.mean()))
    return pairs, largest, means


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--encoder", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--sample", type=int, help="texts drawn at random, of the file's")
    parser.add_argument("--plain-sample", type=int, help="texts drawn from these, for plain alone")
    parser.add_argument("--precision", default="float32", help="of ours")
    parser.add_argument("--slices", type=int, default=13, help="turns that the two take")
    arguments = parser.parse_args()
    name, _, folder = arguments.encoder.partition("=")
    table = pl.read_parquet(arguments.texts)
    rng = np.random.default_rng(1)
    if arguments.sample:
        table = table[np.sort(rng.choice(len(table), arguments.sample, replace=False))]
    texts = table["text"].to_list()
    plain_rows = np.arange(len(texts))
    if arguments.plain_sample:
        plain_rows = np.sort(rng.choice(len(texts), arguments.plain_sample, replace=False))
    settings = Encoder.model_validate(
        {"path": folder, "device": "cpu", "precision": arguments.precision}
    )
    plain, ours, plain_vectors, made = encode_both(
        texts, plain_rows, folder, settings, arguments.slices
    )
    factors = [each for each in table.columns if each != "text" and table[each].dtype == pl.String]
    compared = table[plain_rows].with_row_index("row")
    members = compared.group_by(factors or pl.lit(0), maintain_order=True).agg("row")
    groups = members["row"].to_list()
    pairs, largest, means = compare_cosines(plain_vectors, stack_vectors(made)[plain_rows], groups)
    distinct = len(set(texts))
    print(f"\n{name}, ours in {arguments.precision}; {torch.get_num_threads()} cores")
    print(
        f"Python {platform.python_version()}, torch {version('torch')},"
        f" sentence-transformers {version('sentence-transformers')}\n"
    )
    print("| | texts | seconds | texts/s | core seconds | texts/core second |")
    print("|---|---|---|---|---|---|")
    print(plain.row("plain"))
    print(ours.row("ours"))
    by_wall = ours.texts / ours.wall / (plain.texts / plain.wall)
    by_cores = ours.texts / ours.cores / (plain.texts / plain.cores)
    print(f"\nratio {by_wall:.2f} by the wall, {by_cores:.2f} by core seconds")
    print(f"{distinct:,} distinct texts, {len(texts) - distinct:,} repeated ones")
    print(f"{int(made['over_long'].sum()):,} texts longer than the encoder's limit")
    print(f"largest |difference| of a cosine, {pairs:,} pairs in groups: {largest:.1e}")
    print(f"largest |difference| of a group's mean: {max(map(abs, means), default=0.0):.1e}")
    print(f"mean difference of the groups' means: {np.mean(means) if means else 0.0:+.1e}")


if __name__ == "__main__":
    main()
