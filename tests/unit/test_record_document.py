"""The page of all files: it is what the kinds of files say, and every table has a place on it."""

from __future__ import annotations

import re
from pathlib import Path

from llm_variability.record.document import describe_files
from llm_variability.report.csv_tables import CSV_TABLES
from llm_variability.tables import TABLES

HOME = Path(__file__).parents[2]


def test_the_page_of_files_is_the_generated_text() -> None:
    assert (HOME / "docs/files.md").read_text(encoding="utf-8") == describe_files()


def test_every_table_is_in_a_file() -> None:
    linked = re.findall(r"\[(\w+)\]\(columns\.md#(\w+csv)?", describe_files())
    in_csv = {name for name, csv in linked if csv}
    in_parquet = {name for name, csv in linked if not csv}
    assert in_csv == set(CSV_TABLES)
    assert in_parquet == set(TABLES)
