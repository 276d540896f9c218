"""The published texts: fetched, checked by content, sampled, and set beside published values."""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_variability.config import ConfigError
from llm_variability.similarity.embedding import hash_text
from llm_variability.tables import EMBEDDINGS, read_metadata, read_table, write_table
from llm_variability.validation import __main__ as command
from llm_variability.validation.comparison import (
    collect_values,
    compare_published,
    describe_smallest,
    place_value,
    summarise,
)
from llm_variability.validation.figure import draw_comparison
from llm_variability.validation.lee2024 import (
    COLUMNS,
    COMMIT,
    FILES,
    PUBLISHED,
    REFUSALS,
    REPOSITORY,
    TEXTS,
    PublishedValue,
    SourceFile,
    digest_rows,
    drop_refusals,
    fetch_file,
    fetch_texts,
    label_design,
    parse_csv,
    read_local,
)
from llm_variability.validation.sampling import (
    choose_numbers,
    measure_samples,
    number_texts,
    sample_texts,
    smallest_cell,
)

WORKFLOW = Path(__file__).parents[2] / "workflow"
FORMATS = ("story about", "biography of")
RACES = ("African", "Asian", "Hispanic", "White")
GENDERS = ("man", "woman")
TRICKY = 'She said, "No,\nnot here" – and left.'


def make_rows(per_cell: int = 6) -> list[tuple[str, str, str, str]]:
    return [
        (*cell, f"{' '.join(cell)} number {i}")
        for cell in product(FORMATS, RACES, GENDERS)
        for i in range(per_cell)
    ]


def frame(rows: list[tuple[str, str, str, str]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.String), orient="row")


def as_csv(rows: list[tuple[str, str, str, str]], header: tuple[str, ...] = COLUMNS) -> bytes:
    target = io.StringIO(newline="")
    writer = csv.writer(target, lineterminator="\n")
    writer.writerows([header, *rows])
    return target.getvalue().encode()


# ------------------------------------------------------------------------------------- content


def test_a_digest_is_that_of_the_sorted_rows_as_the_docstring_says_it() -> None:
    content = b"a\x1fAsian\x1fman\x1fx\x1ea\x1fWhite\x1fman\x1f\xc3\xa9\x1e"
    rows = [("a", "White", "man", "é"), ("a", "Asian", "man", "x")]
    assert digest_rows(frame(rows)) == hashlib.sha256(content).hexdigest()


@given(st.permutations(make_rows(2)))
@settings(max_examples=20, deadline=None)
def test_a_digest_does_not_depend_on_the_order_of_rows(
    rows: list[tuple[str, str, str, str]],
) -> None:
    assert digest_rows(frame(rows)) == digest_rows(frame(make_rows(2)))


def test_a_digest_depends_on_which_value_a_text_stands_in() -> None:
    assert digest_rows(frame([("a", "b", "c", "d")])) != digest_rows(frame([("ab", "", "c", "d")]))


def test_the_files_hold_the_52000_texts_of_the_paper() -> None:
    assert sum(file.rows for file in FILES) == 52_000


@given(
    st.lists(
        st.tuples(*[st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"))] * 4)
    )
)
@settings(max_examples=50, deadline=None)
def test_a_csv_file_is_read_as_it_was_written(rows: list[tuple[str, str, str, str]]) -> None:
    assert parse_csv(as_csv(rows), "x").rows() == rows


def test_quotes_commas_and_line_breaks_of_a_text_are_kept(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(as_csv([("story about", "Asian", "woman", TRICKY)]))
    assert read_local(tmp_path / "t.csv")["text"].to_list() == [TRICKY]


def test_columns_may_come_in_another_order() -> None:
    content = b"text,gender,race,format\nt,man,Asian,f\n"
    assert parse_csv(content, "x").rows() == [("f", "Asian", "man", "t")]


def test_refusals_are_left_out_and_nothing_else() -> None:
    rows = [("f", "Asian", "man", f"He said: {words}.") for words in REFUSALS]
    kept = [("f", "Asian", "man", "I could not sleep."), ("f", "Asian", "man", "Models speak.")]
    assert drop_refusals(frame([*rows, *kept])).rows() == kept


# ---------------------------------------------------------------------------------- local files


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_local_file_is_read_whatever_its_kind(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    if suffix == ".csv":
        path.write_bytes(as_csv(make_rows()))
    else:
        frame(make_rows()).write_parquet(path)
    assert read_local(path).rows() == make_rows()


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("t.txt", b"", "is no Parquet or CSV file, by its name. Allowed: .parquet, .csv"),
        ("t.csv", b"format,race,text\n", "lacks the column gender. Allowed: a file with"),
        ("t.csv", b"format,race,gender,text\na,b\n", "line 2: 2 values, not 4"),
        ("t.csv", b"format,race,gender,text\n\xff,b,c,d\n", "is not UTF-8 text"),
        ("t.csv", b'format,race,gender,text\n"a,b,c,d\n', "line 2: unexpected end of data"),
        ("t.csv", b"", "lacks the column format"),
        ("t.parquet", b"PAR1", "is no whole Parquet file"),
    ],
)
def test_a_local_file_that_is_none_ends_in_one_line(
    name: str, content: bytes, problem: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError) as raised:
        read_local(tmp_path / name)
    told = str(raised.value)
    assert told.startswith(f"validation.texts: {tmp_path / name}: ")
    assert problem in told and "\n" not in told


def test_a_local_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in ("none.csv", "none.parquet"):
        with pytest.raises(ConfigError, match=f"{name}: cannot be read: No such file"):
            read_local(tmp_path / name)


def test_a_column_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    frame(make_rows()).with_columns(text=pl.lit(None, dtype=pl.String)).write_parquet(path)
    with pytest.raises(ConfigError, match="text is not all text"):
        read_local(path)


def test_a_race_that_was_not_published_is_refused() -> None:
    with pytest.raises(ConfigError, match="race 'Martian' is not allowed. Allowed: White, African"):
        label_design(frame([*make_rows(), ("story about", "Martian", "man", "t")]))


# ------------------------------------------------------------------------------------- fetching


@contextmanager
def serving(files: dict[str, bytes], cut: str | None = None) -> Iterator[tuple[str, list[str]]]:
    """Serve a repository's raw files on loopback; gives the base URL and the paths asked for.

    cut: path whose connection breaks before the end.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            path = self.path.removeprefix(f"/{REPOSITORY}/{COMMIT}/")
            if path not in files:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(files[path])))
            self.end_headers()
            self.wfile.write(files[path][: -10 if path == cut else None])

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


REFUSED = ("horror story about", "African", "man", "As an AI language model, I would rather not.")
PARTS = {"Data/a.csv": make_rows()[:50], "Data/b.csv": make_rows()[50:]}
CONTENTS = {path: as_csv([rows[0], REFUSED, *rows[1:]]) for path, rows in PARTS.items()}
SOURCES = [
    SourceFile(path, len(rows), digest_rows(frame(rows))) for path, rows in sorted(PARTS.items())
]


def test_the_files_of_the_repository_are_fetched_at_the_commit_and_put_together() -> None:
    with serving(CONTENTS) as (host, asked):
        texts = fetch_texts(host, SOURCES)
    assert texts.rows() == make_rows()
    assert asked == [f"/{REPOSITORY}/{COMMIT}/{path}" for path in sorted(PARTS)]


def test_every_file_of_the_real_list_is_asked_for_at_the_commit() -> None:
    with serving({}) as (host, asked):
        for file in FILES:
            with pytest.raises(ConfigError, match="HTTP Error 404"):
                fetch_file(file, host)
    assert [path.rsplit("/", 1)[1] for path in asked] == [
        *(f"generated_text_{i}.csv" for i in (1, 2, 3, 4)),
        *(f"extra_text_{i}.csv" for i in (1, 2)),
    ]
    assert {path.split("/")[3] for path in asked} == {COMMIT}


@pytest.mark.parametrize("change", ["a word", "a row less", "a row twice"])
def test_a_file_with_other_texts_than_it_had_is_refused(change: str) -> None:
    rows = PARTS["Data/a.csv"]
    changed = {
        "a word": [(*rows[0][:3], "other"), *rows[1:]],
        "a row less": rows[1:],
        "a row twice": [*rows[1:], rows[1]],
    }[change]
    with (
        serving({**CONTENTS, "Data/a.csv": as_csv(changed)}) as (host, _),
        pytest.raises(ConfigError, match="a.csv: .* texts, not the 50 published ones"),
    ):
        fetch_texts(host, SOURCES)


def test_a_file_that_is_not_there_says_what_to_do() -> None:
    with (
        serving({}) as (host, _),
        pytest.raises(ConfigError, match="404.*; give a copy as validation.texts"),
    ):
        fetch_texts(host, SOURCES)


def test_a_download_that_breaks_off_is_not_taken_for_whole() -> None:
    with (
        serving(CONTENTS, cut="Data/b.csv") as (host, _),
        pytest.raises(ConfigError, match="b.csv: cannot be fetched"),
    ):
        fetch_texts(host, SOURCES)


def test_no_connection_ends_the_command_in_one_line(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    environment = {**os.environ, "PYTHONPATH": str(WORKFLOW), "https_proxy": nowhere}
    done = subprocess.run(
        [sys.executable, "-m", "llm_variability.validation", "fetch", "--texts"]
        + ["--output", str(tmp_path / "t.parquet")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "cannot be fetched" in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "t.parquet").exists()


def test_a_local_copy_of_other_texts_is_taken_and_said_to_be_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "t.csv").write_bytes(as_csv(make_rows()[::-1]))
    output = tmp_path / "t.parquet"
    command.fetch(argparse.Namespace(texts=tmp_path / "t.csv", output=output))
    assert "96 texts, not the published ones" in caplog.text
    assert read_metadata(output)["published"] is False
    assert read_table(output, TEXTS).rows() == sorted(make_rows())


# ------------------------------------------------------------------------------------- sampling


@given(st.integers(2, 200), st.data(), st.integers(0, 2**40))
@settings(deadline=None)
def test_a_sample_is_distinct_ascending_and_of_the_size_asked(
    size: int, data: st.DataObject, seed: int
) -> None:
    per_cell = data.draw(st.integers(2, size))
    chosen = choose_numbers(size, per_cell, seed, "a cell")
    assert len(set(chosen)) == per_cell and (np.diff(chosen) > 0).all()
    assert chosen[0] >= 0 and chosen[-1] < size


def test_samples_of_seeds_and_of_cells_differ_and_repeat() -> None:
    def chosen(seed: int, cell: str) -> tuple[int, ...]:
        return tuple(choose_numbers(500, 100, seed, cell))

    samples = [chosen(seed, cell) for seed in (1, 2, 3) for cell in ("a", "b")]
    assert len(set(samples)) == 6
    assert chosen(1, "a") == samples[0]


def test_every_text_is_as_likely_as_any_other() -> None:
    counts = np.zeros(20)
    for seed in range(4000):
        counts[choose_numbers(20, 5, seed, "a cell")] += 1
    # A quarter of 4000, with a standard deviation of 27 each.
    assert abs(counts - 1000).max() < 5 * 27.4


@given(st.permutations(make_rows()))
@settings(max_examples=10, deadline=None)
def test_a_sample_does_not_depend_on_the_order_of_the_file(
    rows: list[tuple[str, str, str, str]],
) -> None:
    shuffled = sample_texts(number_texts(frame(rows)), 3, seed=5)
    assert shuffled.equals(sample_texts(number_texts(frame(make_rows())), 3, seed=5))


def test_a_cell_s_sample_does_not_depend_on_the_other_cells() -> None:
    alone = [row for row in make_rows() if row[:3] == (FORMATS[0], "Asian", "man")]
    whole = sample_texts(number_texts(frame(make_rows())), 3, seed=5)
    same_cell = whole.filter(pl.col("prompt_id") == f"{FORMATS[0]}/Asian/man")
    assert same_cell.equals(sample_texts(number_texts(frame(alone)), 3, seed=5))


def test_a_sample_has_as_many_of_every_cell() -> None:
    sample = sample_texts(number_texts(frame(make_rows())), 4, seed=1)
    assert sample.group_by(COLUMNS[:3]).len()["len"].to_list() == [4] * 16


def test_a_cell_without_texts_is_named() -> None:
    rows = [row for row in make_rows() if row[:3] != (FORMATS[1], "Asian", "woman")]
    texts = frame(rows)
    with pytest.raises(ConfigError, match="no text of biography of / Asian / woman"):
        smallest_cell(number_texts(texts), label_design(texts))


# ------------------------------------------------------------------------------------ measuring


def make_vectors(texts: pl.DataFrame) -> tuple[np.ndarray, dict[str, int]]:
    """Unit vectors that depend on the text, and for some on the race, so that races differ."""
    rows_of = {text_hash: row for row, text_hash in enumerate(texts["text_hash"])}
    pull = {"African": 1.5, "Asian": 1.0, "Hispanic": 0.5, "White": 0.0}
    drawn = []
    for row in texts.iter_rows(named=True):
        rng = np.random.default_rng(int(row["text_hash"][:12], 16))
        vector = rng.normal(size=8)
        vector[0] += 1 + pull[row["race"]] + (0.8 if row["gender"] == "woman" else 0)
        drawn.append(vector / np.linalg.norm(vector))
    return np.array(drawn, dtype=np.float32), rows_of


def measure(per_cell: int, seeds: list[int]) -> tuple[pl.DataFrame, pl.DataFrame]:
    texts = number_texts(frame(make_rows()))
    vectors, rows_of = make_vectors(texts)
    return measure_samples(
        texts,
        vectors,
        rows_of,
        label_design(texts),
        per_cell=per_cell,
        seeds=seeds,
        encoder="toy",
    )


def cell_cosines(texts: pl.DataFrame) -> dict[tuple[str, str], np.ndarray]:
    """Every pairwise cosine inside the cells, by (race, gender), pair by pair."""
    vectors, rows_of = make_vectors(number_texts(frame(make_rows())))
    cosines: dict[tuple[str, str], list[float]] = {}
    for (_, race, gender), part in texts.partition_by(COLUMNS[:3], as_dict=True).items():
        unit = [vectors[rows_of[each]].astype(float) for each in part["text_hash"]]
        for i in range(len(unit)):
            for j in range(i):
                cosines.setdefault((race, gender), []).append(float(unit[i] @ unit[j]))
    return {key: np.array(values) for key, values in cosines.items()}


@pytest.mark.parametrize(("name", "per_cell", "seed"), [("7", 4, 7), ("all", 6, None)])
def test_values_are_those_of_the_single_pairs(name: str, per_cell: int, seed: int | None) -> None:
    texts = number_texts(frame(make_rows()))
    chosen = texts if seed is None else sample_texts(texts, per_cell, seed)
    cosines = cell_cosines(chosen)
    everything = np.concatenate(list(cosines.values()))
    estimates, means = measure(4, [7])
    for value in PUBLISHED:
        found = collect_values(estimates, means, value)[name]
        if value.measure == "mean cosine":
            expected = np.concatenate([cosines[value.name, g] for g in GENDERS]).mean()
        else:
            # In a balanced design an effect of treatment coding is a difference of plain means.
            key = ("White", "woman") if value.name == "woman" else (value.name, "man")
            gap = cosines[key].mean() - cosines["White", "man"].mean()
            expected = gap / everything.std(ddof=1)
        assert found == pytest.approx(expected, abs=1e-6)


def test_there_is_a_row_a_seed_level_and_term() -> None:
    estimates, means = measure(4, [7, 8])
    keys = estimates.select("seed", "level", "term").unique()
    assert len(keys) == len(estimates) == 3 * 2 * 8
    assert means["n_pairs"].to_list() == [4 * 6] * 4 * 2 + [4 * 15] * 4


def test_more_texts_a_cell_than_there_are_is_refused() -> None:
    with pytest.raises(ConfigError, match="per_cell: 7 is more .* from 2 to 6$"):
        measure(7, [1])


# ------------------------------------------------------------------------------------ comparing


def test_a_published_value_is_placed_by_hand() -> None:
    value = PublishedValue("coefficient", "x", "0.4", 0.35, 0.45, 0.4, "x")
    # Mean 2, deviations -1, 0, 1: standard deviation 1.
    placed = place_value(value, [1.0, 2.0, 3.0])
    assert placed == {
        "mean": 2.0,
        "sd": 1.0,
        "min": 1.0,
        "max": 3.0,
        "z": pytest.approx(-1.6),
        "position": "below",
    }


@pytest.mark.parametrize(
    ("measured", "position"),
    [
        ([0.1, 0.34], "above"),
        ([0.1, 0.36], "inside"),  # 0.35 to 0.36 is printed as 0.4
        ([0.44, 0.9], "inside"),
        ([0.46, 0.9], "below"),
        ([0.36, 0.37], "inside"),
        ([0.1, 0.9], "inside"),
    ],
)
def test_rounding_is_allowed_for(measured: list[float], position: str) -> None:
    value = PublishedValue("coefficient", "x", "0.4", 0.35, 0.45, 0.4, "x")
    assert place_value(value, measured)["position"] == position


@pytest.mark.parametrize(
    ("measured", "z"),
    [([0.6, 0.7, 0.8], 0.5), ([0.7, 0.8, 0.9], 0.0), ([0.9, 1.0, 1.1], -1.0)],
)
def test_of_a_printed_range_the_nearest_value_counts(measured: list[float], z: float) -> None:
    value = PublishedValue("mean cosine", "x", "0.8 to 0.9", 0.75, 0.9)
    # Means 0.7, 0.8 and 1.0 with a standard deviation of 0.1: to 0.75, nowhere, to 0.9.
    assert place_value(value, measured)["z"] == pytest.approx(z)


def test_one_seed_has_no_spread() -> None:
    value = PublishedValue("coefficient", "x", "0.4", 0.35, 0.45, 0.4, "x")
    placed = place_value(value, [0.4])
    assert (placed["sd"], placed["z"]) == (None, None)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=9))
@settings(deadline=None)
def test_the_spread_is_that_of_numpy(measured: list[float]) -> None:
    placed = place_value(PUBLISHED[0], measured)
    assert placed["mean"] == pytest.approx(np.mean(measured), abs=1e-12)
    assert placed["sd"] == pytest.approx(np.std(measured, ddof=1), abs=1e-12)


def test_the_published_values_are_those_of_the_paper_s_appendix() -> None:
    printed = {(value.measure, value.name): value.printed for value in PUBLISHED}
    minority = dict.fromkeys(("African", "Asian", "Hispanic"), "0.75 to 0.76")
    assert printed == {
        **{("mean cosine", name): text for name, text in {"White": "0.68", **minority}.items()},
        ("coefficient", "African"): "0.47",
        ("coefficient", "Asian"): "0.46",
        ("coefficient", "Hispanic"): "0.28",
        ("coefficient", "woman"): "0.015",
    }


def test_what_is_printed_lies_in_the_middle_of_what_is_printed_so() -> None:
    for value in PUBLISHED:
        ends = [float(text) for text in value.printed.split(" to ")]
        assert (value.low + value.high) / 2 == pytest.approx(sum(ends) / len(ends))
        assert value.number in ([None] if len(ends) > 1 else ends)
        decimals = len(value.printed.split(" ")[0].split(".")[1])
        assert value.low == pytest.approx(min(ends) - 0.5 / 10**decimals)


def test_the_comparison_leaves_all_texts_out_of_the_spread() -> None:
    estimates, means = measure(3, [1, 2, 3])
    compared = compare_published(estimates, means)
    assert len(compared) == len(PUBLISHED)
    assert compared["n_seeds"].to_list() == [3] * len(PUBLISHED)
    row = compared.row(0, named=True)
    values = collect_values(estimates, means, PUBLISHED[0])
    assert row["all_texts"] == values["all"]
    assert row["max"] == max(values[seed] for seed in "123")


def with_woman_sd(sd: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    estimates, means = measure(3, [1, 2, 3])
    compared = compare_published(estimates, means)
    woman = (pl.col("quantity") == "woman") & (pl.col("measure") == "coefficient")
    changed = compared.with_columns(sd=pl.when(woman).then(sd).otherwise("sd"))
    return changed, estimates


@pytest.mark.parametrize(("sd", "verdict"), [(0.01, "cannot be told"), (0.005, "can be told")])
def test_the_summary_says_whether_the_effect_of_woman_can_be_told_from_0(
    sd: float, verdict: str
) -> None:
    # 0.015 / 0.01 = 1.5 and 0.015 / 0.005 = 3 standard deviations.
    told = describe_smallest(*with_woman_sd(sd))
    assert f"woman 0.015 is {0.015 / sd:.1f} such SDs" in told[1]
    assert f"{verdict} from 0" in told[1]


def test_the_summary_fits_one_screen() -> None:
    estimates, means = measure(3, [1, 2, 3])
    summary = summarise(compare_published(estimates, means), estimates, {"texts": "some"})
    lines = summary.splitlines()
    assert len(lines) <= 30 and max(len(line) for line in lines) <= 100
    assert "texts:    some" in lines


def test_the_figure_shows_every_value_of_every_seed() -> None:
    estimates, means = measure(3, [1, 2, 3])
    figure = draw_comparison(estimates, means, encoder="toy", per_cell=3)
    shown: list[float] = []
    for axes in figure.axes:
        for line in axes.lines:
            if line.get_marker() == "o":
                shown += np.asarray(line.get_xdata(), dtype=float).tolist()
                low, high = axes.get_xlim()
                assert all(low <= each <= high for each in shown[-3:])
    expected = [
        found
        for value in PUBLISHED
        for seed, found in collect_values(estimates, means, value).items()
        if seed != "all"
    ]
    assert sorted(shown) == pytest.approx(sorted(expected))


# ---------------------------------------------------------------------------------- the command


def test_the_command_writes_every_file_and_prints_the_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = number_texts(frame(make_rows()))
    vectors, rows_of = make_vectors(texts)
    source = {"origin": "a file", "digest": "0" * 64, "published": False}
    write_table(texts.select(COLUMNS), tmp_path / "texts.parquet", TEXTS, source)
    series = pl.Series("embedding", vectors).cast(pl.List(pl.Float32))
    hashes = pl.Series("text_hash", list(rows_of))
    table = pl.DataFrame([hashes, series]).with_columns(over_long=pl.lit(False))
    manifest = {
        "encoder": "toy",
        "encoder_manifest": {"origin": "nowhere"},
        "precision": "bfloat16",
    }
    write_table(table, tmp_path / "embeddings.parquet", EMBEDDINGS, manifest)
    command.compare(
        argparse.Namespace(
            texts=tmp_path / "texts.parquet",
            embeddings=tmp_path / "embeddings.parquet",
            per_cell=3,
            seeds=[1, 2, 3],
            backend="profile",
            outdir=tmp_path / "out",
        )
    )
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "estimates.csv",
        "mean_cosine.csv",
        "comparison.csv",
        "levels.csv",
        "comparison.svg",
        "comparison.png",
        "comparison.pdf",
        "summary.txt",
    }
    summary = (tmp_path / "out/summary.txt").read_text(encoding="utf-8")
    assert summary in capsys.readouterr().out
    assert "NOT the published texts" in summary
    assert "3 texts a cell, seeds 1 to 3" in summary
    assert "toy from nowhere, bfloat16" in summary


def test_texts_are_embedded_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_texts: list[str] = []

    def encode(texts: dict[str, str], store: Path, *_: object) -> int:
        given_texts.extend(texts.values())
        rows = [(text_hash, [1.0, 0.0], False) for text_hash in texts]
        made = pl.DataFrame(rows, schema=["text_hash", "embedding", "over_long"], orient="row")
        write_table(made, store / "x.parquet", EMBEDDINGS, {})
        return len(texts)

    monkeypatch.setattr(command, "encode_missing", encode)
    rows = [*make_rows(), make_rows()[0]]
    write_table(frame(rows), tmp_path / "texts.parquet", TEXTS, {})
    manifest = {"identity": "i", "path": "p"}
    (tmp_path / "m.json").write_text(json.dumps(manifest))
    command.embed(
        argparse.Namespace(
            encoder="toy",
            settings=json.dumps({"path": "p"}),
            manifest=tmp_path / "m.json",
            texts=tmp_path / "texts.parquet",
            output=tmp_path / "embeddings.parquet",
        )
    )
    assert len(given_texts) == len(make_rows()) == len(set(given_texts))
    made = read_table(tmp_path / "embeddings.parquet", EMBEDDINGS)
    assert set(made["text_hash"]) == {hash_text(row[3]) for row in rows}
