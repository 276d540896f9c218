"""The commands of stage code on files: what they write, in which direction, what they leave out."""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from code_stage import DESIGN, MADE_BY, account, accounts, write_cell
from llm_variability.code import __main__ as command
from llm_variability.code.compiling import keep_compiled
from llm_variability.code.tree_scores import find_variant, is_symmetric
from llm_variability.config import ConfigError, Encoder
from llm_variability.config_code import EditCosts
from llm_variability.similarity import __main__ as similarity_command
from llm_variability.similarity.embedding import hash_text
from llm_variability.tables import EMBEDDINGS, read_metadata, read_table, write_table
from llm_variability.tables_code import AUGMENTATIONS, AVERAGES, EXTRACTIONS, PAIRS, PROGRAMS

# Golden pair of the published code: 7/15 from the first to the second, 0.4 the other way round.
FIRST = "def f(x):\n    y = x + 1\n    return y\n"
SECOND = "def g(a, b):\n    for i in range(a):\n        print(i * b)\n"
SMALL = "x = 1\n"
NO = "I cannot help with that."


def fenced(code: str) -> str:
    return f"```python\n{code}```\n"


CELLS: dict[str, list[tuple[str, str, int, str | None]]] = {
    "original": [
        ("open/a", "a", 0, fenced(FIRST)),
        ("open/a", "a", 1, fenced(SECOND)),
        ("open/b", "b", 0, fenced(SMALL)),
        ("open/b", "b", 1, NO),
    ],
    "keyboard-0.1": [
        ("open/a", "a1", 0, fenced(FIRST)),
        ("open/a", "a1", 1, None),
        ("open/b", "b", 0, fenced(SMALL)),
        ("open/b", "b", 1, NO),
    ],
    "paraphrase-low": [],
}
REFUSED = {
    name: [(task, prompt, replicate, NO) for task, prompt, replicate, _ in rows]
    for name, rows in CELLS.items()
}


class Desk:
    """A results folder, and the commands on it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._patch = monkeypatch
        table = accounts(
            [
                account("open/a", "original", "a"),
                account("open/b", "original", "b"),
                account("open/a", "keyboard-0.1", "a1", realised=0.1),
                account("open/b", "keyboard-0.1", "b"),
            ]
        )
        write_table(table, folder / "augmentations.parquet", AUGMENTATIONS, MADE_BY)

    def run(self, step: str, **options: Any) -> None:
        arguments = [step]
        for name, value in options.items():
            values = value if isinstance(value, (list, tuple)) else [value]
            arguments += [f"--{name.replace('_', '-')}", *map(str, values)]
        self._patch.setattr(sys, "argv", ["code", *arguments])
        command.main()

    def extract(
        self, cells: dict[str, list[Any]] = CELLS, max_nodes: int = 5000
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        draws = [
            write_cell(self.folder / f"draws/T0/{name}.parquet", rows, name)
            for name, rows in cells.items()
        ]
        output, counts = self.folder / "programs.parquet", self.folder / "extractions.parquet"
        self.run(
            "extract",
            draws=draws,
            extraction="{}",
            max_nodes=max_nodes,
            output=output,
            counts=counts,
        )
        return read_table(output, PROGRAMS), read_table(counts, EXTRACTIONS)

    def compare(self, step: str, **options: Any) -> tuple[pl.DataFrame, pl.DataFrame]:
        kept = {name: self.folder / f"{step}-{name}.parquet" for name in ("pairs", "averages")}
        self.run(
            step,
            programs=self.folder / "programs.parquet",
            augmentations=self.folder / "augmentations.parquet",
            floor_tasks=20,
            seed=1,
            **kept,
            **options,
        )
        return read_table(kept["pairs"], PAIRS), read_table(kept["averages"], AVERAGES)

    def tsed(
        self, *variants: str, costs: dict[str, float] | None = None, max_nodes: int = 5000
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        return self.compare(
            "tsed",
            variants=variants or ("tsed", "tsed-published"),
            costs=json.dumps(costs),
            max_nodes=max_nodes,
            threads=1,
            compiled=self.folder / "compiled",
        )

    def cosine(self, vectors: dict[str, float]) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Compare by vectors in the plane; vectors: the angle of each program's, in radians."""
        table = pl.DataFrame(
            [
                {
                    "text_hash": hash_text(code),
                    "embedding": [math.cos(angle), math.sin(angle)],
                    "over_long": code == SECOND,
                }
                for code, angle in vectors.items()
            ],
            schema={name: column.dtype for name, column in EMBEDDINGS.columns.items()},
        )
        path = self.folder / "vectors.parquet"
        write_table(table, path, EMBEDDINGS, {"encoder_manifest": {"identity": "plane"}})
        return self.compare("cosine", embeddings=path, encoder="plane")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def scored(pairs: pl.DataFrame, measure: str, comparison: str) -> list[tuple[Any, ...]]:
    names = ("prompt_id", "replicate", "reference_task", "reference_replicate", "similarity")
    rows = pairs.filter(measure=measure, comparison=comparison).select(names).rows()
    return [(*row[:-1], round(row[-1], 6)) for row in rows]


def test_programs_of_all_cells_are_written_with_what_became_of_each_draw(desk: Desk) -> None:
    programs, counts = desk.extract()
    told = programs.select("augmentation", "prompt_id", "replicate", "draw_status", "status")
    assert told.rows() == [
        ("original", "a", 0, "ok", "ok"),
        ("original", "a", 1, "ok", "ok"),
        ("original", "b", 0, "ok", "ok"),
        ("original", "b", 1, "ok", "no_code"),
        ("keyboard-0.1", "a1", 0, "ok", "ok"),
        ("keyboard-0.1", "a1", 1, "empty", "no_code"),
        ("keyboard-0.1", "b", 0, "ok", "ok"),
        ("keyboard-0.1", "b", 1, "ok", "no_code"),
    ]
    assert counts.select("prompt_id", "draws", "ok", "no_code").rows() == [
        ("a", 2, 2, 0),
        ("b", 2, 1, 1),
        ("a1", 2, 1, 1),
        ("b", 2, 1, 1),
    ]
    made_by = read_metadata(desk.folder / "programs.parquet")
    assert (made_by["study"], made_by["model"]) == ("tiny", "m")
    assert made_by["design"] == DESIGN.to_json()
    assert set(made_by["grammars"]) == {"tree-sitter", "tree-sitter-python"}


def test_the_reference_is_edited_into_the_program_compared_with_it(desk: Desk) -> None:
    desk.extract()
    pairs, _ = desk.tsed()
    published = "tsed-published"
    # Draw 0 of a is FIRST: with SECOND as its reference 0.4, as the published code has it.
    assert scored(pairs, published, "ceiling") == [
        ("a", 0, "open/a", 1, 0.4),
        ("a", 1, "open/a", 0, round(7 / 15, 6)),
    ]
    assert scored(pairs, published, "augmented") == [
        ("a1", 0, "open/a", 0, 1.0),
        ("a1", 0, "open/a", 1, 0.4),
    ]


def test_a_symmetric_ceiling_is_listed_once_and_scores_the_same_both_ways(desk: Desk) -> None:
    desk.extract()
    pairs, _ = desk.tsed()
    ((_, replicate, _, reference, ceiling),) = scored(pairs, "tsed", "ceiling")
    assert (replicate, reference) == (1, 0)
    augmented = scored(pairs, "tsed", "augmented")
    assert augmented == [("a1", 0, "open/a", 0, 1.0), ("a1", 0, "open/a", 1, ceiling)]


def test_a_floor_has_the_other_tasks_draws_as_references(desk: Desk) -> None:
    desk.extract()
    pairs, _ = desk.tsed("tsed")
    floor = scored(pairs, "tsed", "floor")
    assert [row[:4] for row in floor] == [
        ("a", 0, "open/b", 0),
        ("a", 1, "open/b", 0),
        ("b", 0, "open/a", 0),
        ("b", 0, "open/a", 1),
    ]
    # Both ways round are alike, pair by pair.
    assert floor[0][4] == floor[2][4] and floor[1][4] == floor[3][4]
    assert 0 <= max(row[4] for row in floor) < 1


def test_an_unchanged_prompt_is_not_compared_with_its_own_draw(desk: Desk) -> None:
    desk.extract()
    pairs, averages = desk.tsed("tsed")
    # b has one program, which stands under keyboard-0.1 too: nothing is left to compare.
    assert "b" not in pairs.filter(comparison="augmented")["prompt_id"]
    row = averages.filter(comparison="augmented", prompt_id="b").row(0, named=True)
    assert (row["draws"], row["programs"], row["n_pairs"], row["mean"]) == (2, 1, 0, None)


def test_costs_of_the_configuration_are_those_of_tsed_alone(desk: Desk) -> None:
    desk.extract()
    pairs, _ = desk.tsed(costs={"delete": 1.0, "insert": 0.8, "rename": 1.0})
    # On this pair the published labels come to the same as the nodes' own types.
    assert scored(pairs, "tsed", "ceiling") == scored(pairs, "tsed-published", "ceiling")
    told = read_metadata(desk.folder / "tsed-averages.parquet")["costs"]
    assert told == {
        "tsed": {"delete": 1.0, "insert": 0.8, "rename": 1.0},
        "tsed-published": {"delete": 1.0, "insert": 0.8, "rename": 1.0},
    }
    free = EditCosts(delete=2.0, insert=2.0, rename=1.0)
    assert find_variant("tsed-published", free).costs.insert == 0.8
    assert is_symmetric(find_variant("tsed", free))
    assert not is_symmetric(find_variant("tsed-published", None))


def test_averages_are_those_of_the_pairs(desk: Desk) -> None:
    desk.extract()
    pairs, averages = desk.tsed()
    key = ["measure", "comparison", "augmentation", "prompt_id"]
    grouped = pairs.group_by(key).agg(
        n=pl.len(), value=pl.col("similarity").mean(), sd=pl.col("similarity").std(ddof=0)
    )
    both = averages.join(grouped, on=key, how="full", coalesce=True)
    assert len(both) == len(averages) == 2 * 6
    assert both["n_pairs"].to_list() == both["n"].fill_null(0).to_list()
    have = both.filter(pl.col("n_pairs") > 0)
    assert np.allclose(have["mean"], have["value"])
    assert np.allclose(have["within_ss"], have["sd"] ** 2 * have["n"])
    assert read_metadata(desk.folder / "tsed-averages.parquet")["study"] == "tiny"


def test_programs_with_larger_trees_are_left_out_of_the_tree_similarities_and_counted(
    desk: Desk,
) -> None:
    programs, counts = desk.extract(max_nodes=10)
    assert sorted(programs["nodes"].drop_nulls().unique().to_list())[0] == 5
    assert counts.select("prompt_id", "ok", "too_large").rows() == [
        ("a", 2, 2),
        ("b", 1, 0),
        ("a1", 1, 1),
        ("b", 1, 0),
    ]
    pairs, averages = desk.tsed(max_nodes=10)
    assert len(pairs) == 0
    assert dict(averages.select("prompt_id", "programs").unique().rows()) == {
        "a": 0,
        "a1": 0,
        "b": 1,
    }


def test_where_no_reply_holds_a_program_every_average_is_there_and_empty(desk: Desk) -> None:
    _, counts = desk.extract(REFUSED)
    assert counts["no_code"].to_list() == [2] * 4
    pairs, averages = desk.tsed()
    assert len(pairs) == 0
    assert len(averages) == 2 * 6
    assert averages["n_pairs"].sum() == 0
    assert averages["mean"].null_count() == len(averages)
    pairs, averages = desk.cosine({})
    assert (len(pairs), len(averages)) == (0, 6)


def test_the_same_files_give_the_same_tables(desk: Desk) -> None:
    desk.extract()
    first, second = desk.tsed(), desk.tsed()
    assert first[0].equals(second[0]) and first[1].equals(second[1])


def test_the_cosines_are_those_of_the_programs_vectors(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.extract()
    with caplog.at_level(logging.INFO):
        pairs, averages = desk.cosine({SMALL: 0.0, SECOND: math.pi / 2, FIRST: math.pi / 3})
    assert scored(pairs, "plane", "ceiling") == [
        ("a", 1, "open/a", 0, round(math.cos(math.pi / 6), 6))
    ]
    assert scored(pairs, "plane", "augmented") == [
        ("a1", 0, "open/a", 0, 1.0),
        ("a1", 0, "open/a", 1, round(math.cos(math.pi / 6), 6)),
    ]
    assert [row[4] for row in scored(pairs, "plane", "floor")] == [0.5, 0.0, 0.5, 0.0]
    row = averages.filter(comparison="floor", prompt_id="b").row(0, named=True)
    assert row["mean"] == pytest.approx(0.25)
    # Each of the programs compared is one; that of b stands once in the floor.
    assert "1 of 4 programs are longer than the encoder's limit" in caplog.text
    made_by = read_metadata(desk.folder / "cosine-averages.parquet")
    assert made_by["encoder_manifest"] == {"identity": "plane"}


def test_a_program_without_a_vector_ends_the_job_in_one_line(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.extract()
    with pytest.raises(SystemExit) as stopped:
        desk.cosine({SMALL: 0.0, FIRST: 1.0})
    assert stopped.value.code == 1
    (told,) = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert told.startswith("embeddings: 1 of 4 programs have no vector")


def test_a_variant_that_is_not_known_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="^similarity.variants: 'bleu'. Allowed: tsed, tsed-pub"):
        find_variant("bleu", None)


# ----------------------------------------------------------------------------------- the vectors


class PlaneEncoder:
    """An encoder of two dimensions that looks at two words."""

    longest = 2

    def __init__(self, asked: list[str]) -> None:
        self._asked = asked

    def claim_device(self) -> nullcontext[None]:
        return nullcontext()

    def count_tokens(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([len(text.split()) for text in texts])

    def encode(self, texts: Sequence[str], tokens: np.ndarray) -> np.ndarray:
        self._asked += texts
        return np.tile(np.array([[0.6, 0.8]], dtype=np.float32), (len(texts), 1))


def embed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> tuple[pl.DataFrame, list[str]]:
    asked: list[str] = []
    monkeypatch.setattr(similarity_command, "SentenceEncoder", lambda *_: PlaneEncoder(asked))
    (desk.folder / "plane.json").write_text(json.dumps({"identity": "plane", "path": "/"}))
    output = desk.folder / "embeddings/tiny/m/plane.parquet"
    options = {
        "encoder": "plane",
        "settings": Encoder(package="plane").to_json(),
        "manifest": desk.folder / "plane.json",
        "programs": desk.folder / "programs.parquet",
        "output": output,
    }
    flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    monkeypatch.setattr(sys, "argv", ["similarity", "embed", *flags])
    similarity_command.main()
    assert read_metadata(output)["model"] == "m"
    return read_table(output, EMBEDDINGS), asked


def test_each_distinct_program_that_parses_is_embedded_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk.extract()
    with caplog.at_level(logging.INFO):
        vectors, asked = embed(desk, monkeypatch)
    assert sorted(asked) == sorted([FIRST, SECOND, SMALL])
    assert set(vectors["text_hash"]) == {hash_text(code) for code in (FIRST, SECOND, SMALL)}
    assert "3 of 3 texts are longer than the encoder's limit" in caplog.text


def test_where_there_is_no_program_no_vector_is_made(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.extract(REFUSED)
    vectors, asked = embed(desk, monkeypatch)
    assert (len(vectors), asked) == (0, [])


# --------------------------------------------------------------------------------- compiled code


@pytest.mark.parametrize(
    ("writable", "given", "kept"),
    [
        (True, None, None),
        (False, None, "here"),
        (False, "/elsewhere", "/elsewhere"),
    ],
)
def test_compiled_code_is_kept_where_it_can_be_written(
    writable: bool,
    given: str | None,
    kept: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: writable)
    monkeypatch.setattr(os, "environ", {} if given is None else {"NUMBA_CACHE_DIR": given})
    keep_compiled(tmp_path)
    wanted = str(tmp_path) if kept == "here" else kept
    assert os.environ.get("NUMBA_CACHE_DIR") == wanted
