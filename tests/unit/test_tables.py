"""Tables: the contract holds on writing and reading, and a file is whole or not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from llm_variability import __version__
from llm_variability.report.csv_tables import CSV_TABLES
from llm_variability.tables import (
    COUNTS,
    EMBEDDINGS,
    STIMULI,
    TABLES,
    Design,
    Factor,
    TableError,
    describe_tables,
    read_design,
    read_metadata,
    read_table,
    write_table,
)

DESIGN = Design("format", (Factor("age", ("young", "old"), "young"),), True, ("story",))
METADATA = {"study": "s", "design": DESIGN.to_json()}


def prompts(**changes: Any) -> pl.DataFrame:
    columns: dict[str, Any] = {
        "prompt_id": ["p1", "p2"],
        "system": [None, "You are"],
        "prompt": ["a", "b"],
        "replicates": [3, 3],
        "greedy_replicates": [1, 1],
        "format": ["story", "story"],
        "age": ["young", "old"],
    }
    columns |= changes
    return pl.DataFrame({name: values for name, values in columns.items() if values is not None})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "stimuli.parquet"


def test_a_table_is_read_as_it_was_written(path: Path) -> None:
    write_table(prompts(), path, STIMULI, METADATA)
    assert read_table(path, STIMULI).select(prompts().columns).rows() == prompts().rows()


def test_columns_may_come_in_any_order(path: Path) -> None:
    write_table(prompts().select(sorted(prompts().columns)), path, STIMULI, METADATA)
    assert read_table(path, STIMULI)["prompt"].to_list() == ["a", "b"]


def test_an_empty_table_is_a_table(path: Path) -> None:
    write_table(prompts().clear(), path, STIMULI, METADATA)
    assert len(read_table(path, STIMULI)) == 0


def test_a_column_that_may_be_missing_is_kept_where_it_is(path: Path) -> None:
    write_table(prompts(), path, STIMULI, METADATA)
    assert "history" not in read_table(path, STIMULI).columns
    write_table(prompts(history=[None, "[]"]), path, STIMULI, METADATA)
    assert read_table(path, STIMULI)["history"].to_list() == [None, "[]"]
    with pytest.raises(TableError, match="history is Int64, not String"):
        disguise(
            path,
            prompts(history=[1, 2]).with_columns(
                pl.col("replicates", "greedy_replicates").cast(pl.Int32)
            ),
        )
        read_table(path, STIMULI)


def test_metadata_come_back_with_kind_and_version(path: Path) -> None:
    made_by = {**METADATA, "sessions": [{"host": "höst", "n": 1.5, "none": None}]}
    write_table(prompts(), path, STIMULI, made_by)
    read = read_metadata(path)
    assert read.pop("made_with")["polars"] == pl.__version__
    assert read == {"table": "stimuli", "version": __version__, **made_by}


def test_the_design_comes_back(path: Path) -> None:
    write_table(prompts(), path, STIMULI, METADATA)
    assert read_design(path) == DESIGN


VIOLATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "missing column": ({"prompt": None}, r"missing columns: \['prompt'\]"),
    "missing factor": ({"age": None}, r"missing columns: \['age'\]"),
    "unknown column": ({"mood": ["x", "y"]}, r"unknown columns: \['mood'\]"),
    "null": ({"prompt": ["a", None]}, "prompt has empty values"),
    "null in a factor": ({"age": ["young", None]}, "age has empty values"),
    "text for a number": ({"replicates": ["many", "few"]}, "many"),
    "fraction for a whole number": ({"replicates": [1.5, 2.0]}, "replicates .* no whole numbers"),
    "number beyond 32 bits": ({"replicates": [2**40, 1]}, str(2**40)),
    "number for a factor": ({"age": [8, 80]}, "age is Int64, not String"),
}


@pytest.mark.parametrize("case", VIOLATIONS)
def test_a_table_that_breaks_its_contract_is_not_written(case: str, path: Path) -> None:
    changes, told = VIOLATIONS[case]
    with pytest.raises(TableError, match=told):
        write_table(prompts(**changes), path, STIMULI, METADATA)
    assert not path.exists()


def test_a_table_with_factors_needs_a_design(path: Path) -> None:
    with pytest.raises(TableError, match="needs a design"):
        write_table(prompts(), path, STIMULI, {"study": "s"})


def disguise(path: Path, frame: pl.DataFrame) -> None:
    """Write other columns under the metadata of a stimuli table."""
    write_table(prompts(), path, STIMULI, METADATA)
    kept = pl.read_parquet_metadata(path)["llm_variability"]
    frame.write_parquet(path, metadata={"llm_variability": kept})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"prompt": None}, "missing columns"),
        ({"mood": ["x", "y"]}, "unknown columns"),
        ({"prompt": ["a", None]}, "prompt has empty values"),
        ({"replicates": ["1", "2"]}, "replicates is String, not Int32"),
    ],
)
def test_a_file_that_breaks_its_contract_is_not_read(
    changes: dict[str, Any], told: str, path: Path
) -> None:
    counts = pl.col("replicates", "greedy_replicates")
    frame = prompts(**changes)
    typed = frame.with_columns(counts.cast(pl.Int32)) if "replicates" not in changes else frame
    disguise(path, typed)
    with pytest.raises(TableError, match=told):
        read_table(path, STIMULI)


def test_a_table_of_another_kind_is_not_read(path: Path) -> None:
    write_table(prompts(), path, STIMULI, METADATA)
    with pytest.raises(TableError, match="is a stimuli table, not counts"):
        read_table(path, COUNTS)


def test_a_parquet_file_of_another_program_is_refused(path: Path) -> None:
    path.parent.mkdir()
    prompts().write_parquet(path)
    with pytest.raises(TableError, match="is no table of this project"):
        read_table(path, STIMULI)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"prompt,system\n"])
def test_a_file_that_is_no_parquet_is_refused(content: bytes, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(TableError, match="is no table of this project"):
        read_table(path, STIMULI)


def test_a_file_that_is_not_there_is_refused(path: Path) -> None:
    with pytest.raises(TableError, match="is no table of this project"):
        read_table(path, STIMULI)


def test_a_file_cut_off_at_its_end_is_refused(path: Path) -> None:
    write_table(prompts(), path, STIMULI, METADATA)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TableError):
        read_table(path, STIMULI)


def test_a_file_damaged_in_its_data_is_refused(path: Path) -> None:
    vectors = np.random.default_rng(1).random((50, 384), dtype=np.float32)
    frame = pl.DataFrame(
        {
            "text_hash": [f"{n:032x}" for n in range(50)],
            "embedding": vectors.tolist(),
            "over_long": [False] * 50,
        }
    )
    write_table(frame, path, EMBEDDINGS, {})
    content = bytearray(path.read_bytes())
    content[4:204] = bytes(200)
    path.write_bytes(content)
    with pytest.raises(TableError, match="is damaged"):
        read_table(path, EMBEDDINGS)


def test_a_folder_with_brackets_in_its_name_can_hold_tables(tmp_path: Path) -> None:
    path = tmp_path / "run [1]*" / "s.parquet"
    write_table(prompts(), path, STIMULI, METADATA)
    assert len(read_table(path, STIMULI)) == 2


def fail_half_way(self: pl.DataFrame, file: str, **options: Any) -> None:
    Path(file).write_bytes(b"PAR1 half of a tab")
    raise OSError(28, "No space left on device")


@pytest.fixture
def failed_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table written once, and a second time on a disk that is full."""
    write_table(prompts(), path, STIMULI, METADATA)
    monkeypatch.setattr(pl.DataFrame, "write_parquet", fail_half_way)
    with pytest.raises(OSError, match="No space left"):
        write_table(prompts(prompt=["new", "newer"]), path, STIMULI, METADATA)
    return path


def test_a_failed_write_leaves_the_old_table(failed_write: Path) -> None:
    assert read_table(failed_write, STIMULI)["prompt"].to_list() == ["a", "b"]


def test_a_failed_write_leaves_no_other_file(failed_write: Path) -> None:
    assert list(failed_write.parent.iterdir()) == [failed_write]


def test_a_write_leaves_no_temporary_file(path: Path) -> None:
    write_table(prompts(), path, STIMULI, METADATA)
    assert list(path.parent.iterdir()) == [path]


def test_the_documented_columns_are_those_of_the_contracts() -> None:
    documented = Path(__file__).parents[2] / "docs/columns.md"
    assert documented.read_text(encoding="utf-8") == describe_tables(CSV_TABLES.values())


def test_every_table_says_what_a_row_is_and_what_each_column_holds() -> None:
    for table in (*TABLES.values(), *CSV_TABLES.values()):
        assert table.row, table.name
        for name, column in {**table.columns, **table.optional}.items():
            assert column.meaning.strip(), (table.name, name)
            assert "|" not in column.meaning, "would end a cell of the Markdown table"


def test_a_table_has_one_name() -> None:
    assert all(name == table.name for name, table in (TABLES | CSV_TABLES).items())
