"""Unit vectors of the distinct texts, each encoded once per encoder.

Vectors are kept in a store that all studies and models of a results folder share: a folder for
each encoder, a Parquet file a chunk of work. Only texts that no chunk holds are encoded. A killed
job loses one chunk at most. Jobs that run at once need no lock: chunks never change and have names
of their own, so the worst is a text that two jobs encode.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from llm_variability.config import ConfigError, Encoder
from llm_variability.devices.inventory import show_devices
from llm_variability.devices.lease import lease_device
from llm_variability.manifests import require_folder
from llm_variability.similarity import EMBED_VERSION
from llm_variability.tables import EMBEDDINGS, TableError, read_table, write_table

log = logging.getLogger(__name__)

Result = TypeVar("Result")

CHUNK = 4096
"""Texts between two writes to the store."""

BATCH_TOKENS = {"cpu": 1024, "cuda": 16384}
"""Tokens of a batch where the configuration names no number. A core of a CPU does best on what
its cache holds."""


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
    """Name the store of an embeddings table; tables of one encoder, two folders up, share it.

    The name is a fingerprint of what decides a vector: the weights, the precision and this code.
    """
    parts = {
        "weights": manifest["identity"],
        "precision": settings.precision,
        "version": EMBED_VERSION,
    }
    key = hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=8).hexdigest()
    return (table.parent / "../../vectors").resolve() / key


def read_chunks(store: Path, hashes: Iterable[str]) -> Iterator[pl.DataFrame]:
    """Read the wanted vectors that a store holds, a part a chunk, each text once.

    Of chunks without a wanted text only the hashes are read, so a job does not pay for the vectors
    of others. A chunk that is not whole is told and counts as lost.
    """
    wanted = set(hashes)
    for path in sorted(store.glob("*.parquet")):
        if not wanted:
            return
        try:
            held = wanted.intersection(_read_hashes(path))
            if not held:
                continue
            chunk = read_table(path, EMBEDDINGS).filter(pl.col("text_hash").is_in(list(held)))
        except TableError as error:
            log.warning("%s; its texts are encoded again", error)
            continue
        wanted -= held
        yield chunk


def _read_hashes(chunk: Path) -> pl.Series:
    try:
        return pl.read_parquet(chunk, columns=["text_hash"], glob=False)["text_hash"]
    except (OSError, pl.exceptions.PolarsError) as error:
        raise TableError(f"{chunk}: is damaged") from error


def batch_by_length(tokens: np.ndarray, budget: int) -> list[np.ndarray]:
    """Part texts into batches of like length, the longest first, so that little is padding.

    tokens: (n,), each text's tokens. budget: most tokens of a batch, padding included; a text
    longer than that is a batch of its own. Returns each batch's row numbers.
    """
    order = np.argsort(-tokens, kind="stable")
    batches: list[np.ndarray] = []
    start = 0
    while start < len(order):
        size = max(1, budget // max(1, int(tokens[order[start]])))
        batches.append(order[start : start + size])
        start += size
    return batches


class SentenceEncoder:
    """A sentence-transformers encoder, loaded when first used."""

    def __init__(self, folder: str, settings: Encoder) -> None:
        self._folder, self._settings = folder, settings

    @property
    def folder(self) -> str:
        """The folder with its weights."""
        return self._folder

    @cached_property
    def device(self) -> str:
        """The kind of device it runs on: as configured, or a GPU where torch sees one."""
        if self._settings.device != "auto":
            return self._settings.device
        # Told by the driver's management library, so that CUDA has not yet looked at its devices
        # when one of them is leased.
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    @property
    def longest(self) -> int | None:
        """Most tokens of a text that it looks at; None for no such limit."""
        limit = self._model.max_seq_length
        return int(limit) if limit is not None and np.isfinite(limit) else None

    @contextmanager
    def claim_device(self) -> Iterator[None]:
        """Hold a device for the body: a GPU is leased, and is the one that this process sees.

        Comes before the encoder's first use, once a process: CUDA looks at its devices only once.
        """
        if self.device != "cuda":
            yield
            return
        with lease_device() as device:
            os.environ.update(show_devices([device]))
            yield

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        """Count each text's tokens, those that the encoder adds and those it cuts off included.

        An encoder without a limit need not have a tokenizer that counts: characters stand in.
        """
        if self.longest is None or not texts:
            return np.array([len(text) for text in texts], dtype=np.int64)
        whole = [f"{self._prompt or ''}{text}" for text in texts]
        rows = self._model.tokenizer(whole, truncation=False, verbose=False)["input_ids"]
        return np.array([len(row) for row in rows], dtype=np.int64)

    def encode(self, texts: Sequence[str], tokens: np.ndarray | None = None) -> np.ndarray:
        """Encode texts to (n, d) float32 rows of unit length.

        tokens: what `count_tokens` says of them, if that is known. On a CPU each core takes
        batches of its own, which wastes less than all cores in step on one. Raises ConfigError for
        an encoder that cannot be loaded or gives a vector that is not finite, or is zero.
        """
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        lengths = self.count_tokens(texts) if tokens is None else tokens
        lengths = lengths if self.longest is None else np.minimum(lengths, self.longest)
        batches = batch_by_length(lengths, self._settings.batch_tokens or BATCH_TOKENS[self.device])
        vectors = np.concatenate(self._spread(self._forward, texts, batches, self._prompt))
        rows = np.empty_like(vectors)
        rows[np.concatenate(batches)] = vectors
        return self._to_unit_length(rows, texts)

    def embed_tokens(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Embed each text's tokens in their context: (tokens, d) float32 rows of unit length.

        From the last layer of the encoder's transformer, before pooling. Left out: tokens that
        begin, end or part texts, and what the encoder cuts off. No prompt is put before a text.
        Raises ConfigError for an encoder that cannot be loaded or embeds no tokens.
        """
        lengths = np.minimum(self.count_tokens(texts), self.longest or np.inf).astype(np.int64)
        batches = batch_by_length(lengths, self._settings.batch_tokens or BATCH_TOKENS[self.device])
        found: list[np.ndarray] = [np.zeros((0, 0), dtype=np.float32)] * len(texts)
        for batch, part in zip(
            batches, self._spread(self._forward_tokens, texts, batches, None), strict=True
        ):
            for row, vectors in zip(batch, part, strict=True):
                found[row] = vectors
        return found

    def _spread(
        self,
        forward: Callable[[dict[str, Any]], Result],
        texts: Sequence[str],
        batches: Sequence[np.ndarray],
        prompt: str | None,
    ) -> list[Result]:
        """Tokenize each batch and hand it to `forward`; on a CPU each core takes batches."""
        import torch

        cores = torch.get_num_threads()
        workers = ThreadPoolExecutor(
            cores if self.device == "cpu" else 1, initializer=torch.set_num_threads, initargs=(1,)
        )
        try:
            # Tokenizers are not for two threads at once, so this thread alone uses it.
            parts = [
                workers.submit(
                    forward, self._model.preprocess([texts[row] for row in batch], prompt=prompt)
                )
                for batch in batches
            ]
            return [part.result() for part in parts]
        finally:
            workers.shutdown(cancel_futures=True)
            torch.set_num_threads(cores)

    def _place(self, features: dict[str, Any]) -> dict[str, Any]:
        import torch

        return {
            name: value.to(self.device) if isinstance(value, torch.Tensor) else value
            for name, value in features.items()
        }

    def _forward(self, features: dict[str, Any]) -> np.ndarray:
        import torch

        with torch.inference_mode():
            embedded = self._model(self._place(features))
            vectors = embedded["sentence_embedding"][:, : self._model.truncate_dim]
            return np.asarray(vectors.float().cpu().numpy())

    def _forward_tokens(self, features: dict[str, Any]) -> list[np.ndarray]:
        import torch

        tokenizer = self._model.tokenizer
        special = [
            getattr(tokenizer, f"{name}_token_id", None) for name in ("cls", "sep", "bos", "eos")
        ]
        with torch.inference_mode():
            embedded = self._model[0](self._place(features)).get("token_embeddings")
            if embedded is None:
                raise ConfigError(f"{self._folder}: the encoder embeds no tokens, only whole texts")
            units = torch.nn.functional.normalize(embedded.float(), dim=-1).cpu().numpy()
        tokens = features["input_ids"].cpu().numpy()
        kept = features["attention_mask"].cpu().numpy().astype(bool)
        kept &= ~np.isin(tokens, [each for each in special if each is not None])
        return [rows[keep] for rows, keep in zip(units, kept, strict=True)]

    def _to_unit_length(self, vectors: np.ndarray, texts: Sequence[str]) -> np.ndarray:
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        usable = (np.isfinite(lengths) & (lengths > 0))[:, 0]
        if not usable.all():
            first = texts[int(np.argmin(usable))]
            raise ConfigError(
                f"{self._folder}: the encoder's vectors of {np.sum(~usable)} of {len(texts)} texts"
                f" cannot be brought to unit length; the first is of {first[:60]!r}"
            )
        return np.asarray(vectors / lengths, dtype=np.float32)

    @property
    def _prompt(self) -> str | None:
        """What the encoder's own configuration puts before every text."""
        name = self._model.default_prompt_name
        return None if name is None else self._model.prompts.get(name)

    @cached_property
    def _model(self) -> Any:
        require_folder(Path(self._folder), "encoder", "fetch_encoder")
        if not (Path(self._folder) / "modules.json").is_file():
            raise ConfigError(
                f"{self._folder} holds no modules.json, so it is not a sentence-transformers"
                " encoder"
            )
        import torch
        from sentence_transformers import SentenceTransformer

        precision = getattr(torch, self._settings.precision)
        try:
            model = SentenceTransformer(
                self._folder,
                device=self.device,
                local_files_only=True,
                trust_remote_code=self._settings.trust_remote_code,
                model_kwargs={"dtype": precision},
            )
        except Exception as error:  # whatever a broken file makes the libraries raise
            told = str(error).strip().splitlines() or [type(error).__name__]
            raise ConfigError(f"{self._folder}: the encoder cannot be loaded: {told[0]}") from error
        for module in list(model)[1:]:
            module.to(precision)
        return model.eval()


def encode_missing(
    texts: Mapping[str, str], store: Path, encoder: SentenceEncoder, metadata: Mapping[str, Any]
) -> int:
    """Encode the texts that a store lacks, shortest first so that batches are even.

    texts: from hash to text. Returns how many were encoded.
    """
    known = {name for chunk in read_chunks(store, texts) for name in chunk["text_hash"]}
    wanted = sorted((h for h in texts if h not in known), key=lambda h: (len(texts[h]), h))
    log.info("%d distinct texts, %d of them to encode", len(texts), len(wanted))
    with encoder.claim_device() if wanted else nullcontext():
        begun = time.monotonic()
        for start in range(0, len(wanted), CHUNK):
            chunk = wanted[start : start + CHUNK]
            frame = _encode_chunk({name: texts[name] for name in chunk}, encoder)
            write_table(frame, store / f"{uuid.uuid4().hex}.parquet", EMBEDDINGS, metadata)
            done = start + len(chunk)
            rate = done / (time.monotonic() - begun)
            left = divmod(round((len(wanted) - done) / rate), 60)
            log.info("%d/%d texts, %.0f texts/s, %d:%02d left", done, len(wanted), rate, *left)
    return len(wanted)


def _encode_chunk(texts: Mapping[str, str], encoder: SentenceEncoder) -> pl.DataFrame:
    tokens = encoder.count_tokens(list(texts.values()))
    vectors = encoder.encode(list(texts.values()), tokens)
    limit = np.inf if encoder.longest is None else encoder.longest
    return pl.DataFrame(
        [
            pl.Series("text_hash", list(texts)),
            pl.Series("embedding", vectors).cast(pl.List(pl.Float32)),
            pl.Series("over_long", tokens > limit),
        ]
    )


def select_vectors(store: Path, hashes: Iterable[str]) -> pl.DataFrame:
    """Take the vectors of the wanted texts from a store, in the order of the hashes."""
    wanted = pl.DataFrame({"text_hash": list(hashes)}, schema={"text_hash": pl.String})
    empty = pl.DataFrame(schema={name: c.dtype for name, c in EMBEDDINGS.columns.items()})
    found = pl.concat([empty, *read_chunks(store, wanted["text_hash"])])
    return wanted.join(found, on="text_hash", how="left", maintain_order="left")


def stack_vectors(embeddings: pl.DataFrame) -> np.ndarray:
    """Stack an embeddings table's vectors to (n, d), in the order of its rows."""
    flat = embeddings["embedding"].explode(empty_as_null=False).to_numpy()
    return flat.reshape(len(embeddings), -1) if len(embeddings) else flat.reshape(0, 0)
