"""Unit vectors of the distinct texts, each encoded once per encoder.

Vectors are kept in a store beside the table, a Parquet file a batch of work, so that texts added
later (another temperature, more draws) are all that is encoded then, and a killed job loses one
chunk at most. The store's name holds the fingerprint of the encoder.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from llm_variability.config import Encoder
from llm_variability.devices.lease import lease_device
from llm_variability.tables import EMBEDDINGS, TableError, read_table, write_table

log = logging.getLogger(__name__)

CHUNK = 4096
"""Texts between two writes to the store."""


def hash_text(text: str) -> str:
    """Name a text by content: 32 hexadecimal digits (blake2b-128 of its UTF-8 form)."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def measured_texts(draws: pl.DataFrame, include_truncated: bool) -> pl.DataFrame:
    """Keep the draws that are measured and give each the hash of its text."""
    statuses = ["ok", "truncated"] if include_truncated else ["ok"]
    kept = draws.filter(pl.col("status").is_in(statuses))
    hashes = pl.Series("text_hash", [hash_text(text) for text in kept["text"]], dtype=pl.String)
    return kept.with_columns(hashes)


def store_folder(table: Path, manifest: Mapping[str, Any], settings: Encoder) -> Path:
    """Name the store of an embeddings table: it depends on the weights and the batch size."""
    parts = {"weights": manifest["identity"], "batch_size": settings.batch_size}
    key = hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=8).hexdigest()
    return table.parent / "vectors" / f"{table.stem}.{key}"


def read_store(folder: Path) -> pl.DataFrame:
    """Read every vector of a store; a chunk that is not whole counts as lost."""
    chunks = []
    for path in sorted(folder.glob("*.parquet")):
        try:
            chunks.append(read_table(path, EMBEDDINGS))
        except TableError as error:
            log.warning("%s; its texts are encoded again", error)
    empty = pl.DataFrame(schema={name: c.dtype for name, c in EMBEDDINGS.columns.items()})
    return pl.concat([empty, *chunks]).unique("text_hash", keep="first", maintain_order=True)


class SentenceEncoder:
    """A sentence-transformers encoder, loaded when first used."""

    def __init__(self, folder: str, settings: Encoder) -> None:
        self._folder, self._settings = folder, settings
        self._model: Any = None

    @cached_property
    def device(self) -> str:
        """The device it runs on: as configured, or a GPU where torch sees one."""
        if self._settings.device != "auto":
            return self._settings.device
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    def claim_device(self) -> AbstractContextManager[None]:
        """Hold the device for the body: a GPU is leased, which ends the engine that is on it."""
        return lease_device() if self.device == "cuda" else nullcontext()

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts to (n, d) float32 rows of unit length; ValueError if one cannot be."""
        if self._model is None:
            self._model = self._load()
        vectors = self._model.encode(
            list(texts),
            batch_size=self._settings.batch_size,
            normalize_embeddings=True,
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        vectors = np.asarray(vectors, dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1)
        if not np.allclose(lengths, 1, atol=1e-3):
            raise ValueError("the encoder gave a vector that cannot be brought to unit length")
        return vectors

    def _load(self) -> Any:
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(
            self._folder,
            device=self.device,
            local_files_only=True,
            trust_remote_code=self._settings.trust_remote_code,
        )


def encode_missing(
    texts: Mapping[str, str], store: Path, encoder: SentenceEncoder, metadata: Mapping[str, Any]
) -> int:
    """Encode the texts that a store lacks, shortest first so that batches are even.

    texts: from hash to text. Returns how many were encoded.
    """
    known = set(read_store(store)["text_hash"])
    wanted = sorted((h for h in texts if h not in known), key=lambda h: (len(texts[h]), h))
    log.info("%d distinct texts, %d of them to encode", len(texts), len(wanted))
    with encoder.claim_device() if wanted else nullcontext():
        begun = time.monotonic()
        for start in range(0, len(wanted), CHUNK):
            chunk = wanted[start : start + CHUNK]
            vectors = pl.Series("embedding", encoder.encode([texts[name] for name in chunk]))
            frame = pl.DataFrame([pl.Series("text_hash", chunk), vectors.cast(pl.List(pl.Float32))])
            write_table(frame, store / f"{uuid.uuid4().hex}.parquet", EMBEDDINGS, metadata)
            done = start + len(chunk)
            rate = done / (time.monotonic() - begun)
            left = divmod(round((len(wanted) - done) / rate), 60)
            log.info("%d/%d texts, %.0f texts/s, %d:%02d left", done, len(wanted), rate, *left)
    return len(wanted)


def select_vectors(store: Path, hashes: Iterable[str]) -> pl.DataFrame:
    """Take the vectors of the wanted texts from a store, in the order of the hashes."""
    wanted = pl.DataFrame({"text_hash": list(hashes)}, schema={"text_hash": pl.String})
    return wanted.join(read_store(store), on="text_hash", how="left", maintain_order="left")


def stack_vectors(embeddings: pl.DataFrame) -> np.ndarray:
    """Stack an embeddings table's vectors to (n, d), in the order of its rows."""
    flat = embeddings["embedding"].explode(empty_as_null=False).to_numpy()
    return flat.reshape(len(embeddings), -1) if len(embeddings) else flat.reshape(0, 0)
