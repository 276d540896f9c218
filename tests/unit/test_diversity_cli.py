"""The commands of stage diversity: which texts they measure, what they write, what they refuse."""

from __future__ import annotations

import csv
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from llm_variability.diversity.__main__ import main
from llm_variability.diversity.groups import cut_groups
from llm_variability.diversity.lexical import measure_words
from llm_variability.diversity.words import split_words
from llm_variability.similarity.embedding import hash_text
from llm_variability.tables import (
    DIVERSITY,
    DRAWS,
    EMBEDDINGS,
    FITS,
    Design,
    Factor,
    read_metadata,
    read_table,
    write_table,
)

LABELS = Design(
    "format",
    (Factor("race", ("White", "Asian"), "White"), Factor("gender", ("man", "woman"), "man")),
    blocks=("story", "poem"),
)
NAMES = Design(
    "format",
    (Factor("group", ("White", "Black"), "White"),),
    greedy_is_anchor=False,
    blocks=("story", "poem"),
    unit="name",
)
LEXICAL = [
    "distinct-1",
    "distinct-2",
    "distinct-3",
    "self-BLEU",
    "compression ratio",
    "probability of differentiation",
]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["diversity", *map(str, arguments)])
    main()


def write_texts(seed: int, n: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(list("abcdefghij"), size=rng.integers(6, 14))) for _ in range(n)]


def write_draws(
    path: Path,
    cell: tuple[str, str | None],
    design: Design = LABELS,
    n: int = 5,
    more: dict[tuple[str, ...], int] | None = None,
    statuses: dict[int, str] | None = None,
) -> pl.DataFrame:
    """Write a cell's draws. more: groups with another number; statuses: of replicates."""
    rows: list[dict[str, Any]] = []
    keys = list(product(design.blocks, *(factor.levels for factor in design.factors)))
    for k, key in enumerate(keys):
        size = (more or {}).get(key, n)
        for i, text in enumerate(write_texts(100 * k + len(cell[0]), size)):
            own = {} if design.unit is None else {design.unit: f"{key[-1]} {size - i}"}
            rows.append(
                dict(zip(design.group, key, strict=True))
                | own
                | {
                    "prompt_id": "-".join(key),
                    "replicate": i if design.unit is None else 0,
                    "seed": i,
                    "text": text,
                    "raw": text,
                    "status": (statuses or {}).get(i, "ok"),
                }
            )
    types = {name: column.dtype for name, column in DRAWS.columns.items()}
    empty = dict.fromkeys(DRAWS.columns)
    frame = pl.DataFrame(
        [{**empty, **row} for row in rows],
        schema={**dict.fromkeys(design.columns, pl.String), **types},
    )
    metadata = {
        "study": "s",
        "model": "m",
        "temperature": cell[0],
        "top_p": cell[1],
        "design": design.to_json(),
    }
    write_table(frame, path, DRAWS, metadata)
    return frame


@pytest.fixture
def lexical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `lexical` on the draws of one cell; returns the tables of values and of estimates."""

    def command(*options: str, **draws: Any) -> tuple[pl.DataFrame, pl.DataFrame]:
        write_draws(tmp_path / "cell.parquet", draws.pop("cell", ("0.5", "0.8")), **draws)
        paths = tmp_path / "values.parquet", tmp_path / "fits.parquet"
        run(
            monkeypatch,
            *("lexical", "--study", "s", "--model", "m", "--draws", tmp_path / "cell.parquet"),
            *("--values", paths[0], "--output", paths[1]),
            *options,
        )
        return read_table(paths[0], DIVERSITY), read_table(paths[1], FITS)

    return command


def test_every_measure_has_a_value_in_every_group_and_estimates_in_both_scopes(
    lexical: Any,
) -> None:
    values, fits = lexical()
    assert values.height == 6 * 8
    assert values["measure"].unique(maintain_order=True).to_list() == LEXICAL
    assert set(values["n_texts"]) == {5}
    assert fits["measure"].unique(maintain_order=True).to_list() == LEXICAL
    assert fits.filter("converged")["scope"].n_unique() == 2
    keys = ["measure", "temperature", "top_p", "level", "scope", "coding", "term"]
    assert not fits.select(keys).is_duplicated().any()


def test_every_group_is_cut_to_the_smallest_by_replicate(lexical: Any, tmp_path: Path) -> None:
    smallest = ("poem", "White", "man")
    values, fits = lexical(more={smallest: 4, ("story", "Asian", "man"): 9})
    assert set(values["n_texts"]) == {4}
    assert set(fits["n_observations"]) == {4 * 8}
    draws = read_table(tmp_path / "cell.parquet", DRAWS)
    first = draws.filter(pl.col("prompt_id") == "story-Asian-man").sort("replicate")["text"][:4]
    expected = measure_words([split_words(text) for text in first])
    found = values.filter(
        pl.col("format") == "story", pl.col("race") == "Asian", pl.col("gender") == "man"
    )
    for measure in ("distinct-2", "self-BLEU"):
        value = found.filter(pl.col("measure") == measure)["value"].item()
        assert value == pytest.approx(expected[measure].value, abs=1e-12)


def test_a_group_without_texts_has_no_value_and_the_others_do(lexical: Any) -> None:
    values, fits = lexical(more={("poem", "White", "man"): 0, ("poem", "White", "woman"): 1})
    lone = values.filter(pl.col("value").is_null())
    assert lone.select("format", "race", "gender", "n_texts").unique().sort("n_texts").rows() == [
        ("poem", "White", "man", 0),
        ("poem", "White", "woman", 1),
    ]
    assert set(values.filter(pl.col("value").is_not_null())["n_texts"]) == {5}
    assert fits["reason"].unique().to_list() == [
        "fewer than four texts in poem / White / man (0), poem / White / woman (1)"
    ]


@pytest.mark.parametrize(("options", "n"), [((), 5), (("--exclude-truncated",), 4)])
def test_cut_texts_are_measured_or_not_and_refused_ones_never(
    lexical: Any, options: tuple[str, ...], n: int
) -> None:
    values, _ = lexical(*options, n=6, statuses={1: "truncated", 2: "error"})
    assert set(values["n_texts"]) == {n}


def test_a_cell_that_is_asked_for_has_rows_without_any_draws(lexical: Any) -> None:
    values, fits = lexical("--cells", "T0.5-P0.8", "T1.0-P0.8")
    assert set(values["temperature"]) == {"0.5"}
    missing = fits.filter(pl.col("temperature") == "1.0")
    assert missing["reason"].to_list() == ["no text was measured"] * 12
    assert fits.filter(pl.col("temperature") == "0.5")["converged"].any()


def test_the_first_names_are_taken_and_values_have_no_name(lexical: Any, tmp_path: Path) -> None:
    values, fits = lexical(
        cell=("0", None), design=NAMES, more={("poem", "Black"): 4, ("story", "White"): 9}
    )
    assert "name" not in values.columns
    assert set(values["n_texts"]) == {4}
    assert fits.filter(pl.col("measure") == "self-BLEU")["converged"].all()
    assert read_metadata(tmp_path / "fits.parquet")["design"]["unit"] == "name"
    draws = read_table(tmp_path / "cell.parquet", DRAWS)
    taken = cut_groups(draws, NAMES).texts["story", "White"]["name"].to_list()
    assert taken == ["White 1", "White 2", "White 3", "White 4"]


def test_what_was_made_says_by_what(lexical: Any, tmp_path: Path) -> None:
    lexical("--exclude-truncated")
    for name in ("values.parquet", "fits.parquet"):
        metadata = read_metadata(tmp_path / name)
        assert metadata["include_truncated"] is False
        assert {"study", "model", "diversity_version", "zlib"} <= metadata.keys()


# --------------------------------------------------------------------------------------- vendi


def write_vectors(path: Path, texts: list[str]) -> None:
    rows = np.random.default_rng(2).normal(size=(len(texts), 4)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    frame = pl.DataFrame(
        {
            "text_hash": [hash_text(text) for text in texts],
            "embedding": rows.tolist(),
            "over_long": [False] * len(texts),
        }
    )
    write_table(frame, path, EMBEDDINGS, {"encoder": "e", "encoder_manifest": {"identity": "i"}})


def vendi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drop: int = 0) -> None:
    draws = write_draws(tmp_path / "cell.parquet", ("0.5", "0.8"))
    write_vectors(tmp_path / "e.parquet", draws["text"].unique().sort().to_list()[drop:])
    run(
        monkeypatch,
        *("vendi", "--measure", "e", "--embeddings", tmp_path / "e.parquet"),
        *("--study", "s", "--model", "m", "--draws", tmp_path / "cell.parquet"),
        *("--values", tmp_path / "values.parquet", "--output", tmp_path / "fits.parquet"),
    )


def test_the_vendi_score_is_named_by_its_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendi(tmp_path, monkeypatch)
    values = read_table(tmp_path / "values.parquet", DIVERSITY)
    fits = read_table(tmp_path / "fits.parquet", FITS)
    assert set(values["measure"]) == set(fits["measure"]) == {"Vendi score, e"}
    assert values["value"].is_between(1, 4).all()  # four numbers a vector
    reasons = dict(fits.select("scope", "reason").unique().iter_rows())
    n_texts = values["n_texts"][0]
    assert reasons == {
        "formats fixed": (
            f"Vendi score: its jackknife needs 20 texts a group; there are {n_texts}"
        ),
        "formats random": None,
    }


def test_a_text_without_a_vector_ends_the_command_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        vendi(tmp_path, monkeypatch, drop=2)
    assert "e.parquet: has no vector of 2 texts" in caplog.text


# ----------------------------------------------------------------------------- differentiation

COMPLETIONS = [
    ("Ann", "asian", "F", "Email."),
    ("Ann", "asian", "F", "email"),
    ("Bea", "asian", "F", "phone"),
    ("Bea", "asian", "F", "I am sorry, but no"),
    ("Cem", "asian", "M", "phone"),
    ("Dan", "white", "M", "a letter, in\nink"),
    ("Eve", "white", "F", "radio"),
    ("Fay", "white", "F", "radio"),
]


def write_completions(path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([("name", "race", "gender", "text"), *COMPLETIONS])


def differentiate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *options: str
) -> dict[tuple[str, str], dict[str, str]]:
    write_completions(tmp_path / "cue.csv")
    output = tmp_path / "out.csv"
    run(monkeypatch, "differentiation", tmp_path / "cue.csv", "--output", output, *options)
    with output.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["cue"] for row in rows} == {"cue"}
    return {(row["group_by"], row["group"]): row for row in rows}


def test_completions_are_told_apart_by_their_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = differentiate(tmp_path, monkeypatch, "--unit", "name", "--refusals", "sorry")
    asian = rows["race", "asian"]  # email, email, phone, phone: 4 of 6 pairs differ
    assert (asian["n_texts"], asian["n_units"], asian["n_categories"]) == ("4", "3", "2")
    assert asian["left_out"] == "1"
    assert float(asian["differentiation"]) == pytest.approx(4 / 6)
    assert float(asian["as_published"]) == pytest.approx(1 / 2)
    assert float(rows["race", "white"]["differentiation"]) == pytest.approx(2 / 3)
    assert set(rows) == {
        (g, v)
        for g, v in [*product(["race"], ["asian", "white"]), ("gender", "F"), ("gender", "M")]
    }


def test_groups_can_be_crossed_and_long_completions_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = differentiate(tmp_path, monkeypatch, "--groups", "race:gender", "--most-words", "3")
    assert [group for _, group in rows] == ["asian:F", "asian:M", "white:F", "white:M"]
    assert rows["race:gender", "asian:F"]["left_out"] == "1"
    assert rows["race:gender", "white:M"]["left_out"] == "1"
    assert rows["race:gender", "white:M"]["reason"] == "fewer than two texts"


HEADER = b"name,race,gender,text\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "bad.csv: No such file or directory"),
        (b"", "bad.csv: no column text, race, gender; there are none, the file is empty"),
        (
            b"name,race,text\nAnn,asian,phone\n",
            "bad.csv: no column gender; there are name, race, text",
        ),
        (HEADER, "bad.csv: no completions below the first line"),
        (HEADER + b"Ann,asian,F\n", "bad.csv: line 2: the first line has 4 cells, this one fewer"),
        (
            HEADER + b"Ann,asian,F,a,b\n",
            "bad.csv: line 2: the first line has 4 cells, this one more",
        ),
        (HEADER + b"Ann, ,F,phone\n", "bad.csv: line 2: race is empty"),
        (HEADER + b"Ann,asian,F,\xff\n", "bad.csv: is not UTF-8 at byte 34"),
        (HEADER + b'Ann,asian,F,"phone\n', "bad.csv: line 2: is no CSV: unexpected end of data"),
    ],
)
def test_a_bad_file_is_told_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    content: bytes | None,
    message: str,
) -> None:
    if content is not None:
        (tmp_path / "bad.csv").write_bytes(content)
    with pytest.raises(SystemExit):
        run(monkeypatch, "differentiation", tmp_path / "bad.csv")
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert message in told[0]
    assert "\n" not in told[0]
