"""The README of a results folder: every file that is there, and every column of the tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from llm_variability import __version__
from llm_variability.record.files import SECTIONS, Found, list_paths, sort_files
from llm_variability.table_contract import Design, Table, tabulate_columns
from llm_variability.tables import read_metadata

_NULLS = (
    "In CSV a missing value is an empty field, a truth value `true` or `false`. In both, a row that"
    " has no number says why in its column `reason`, where there is one."
)


def _escape(text: str) -> str:
    """Write a text of the study's own so that Markdown takes it as it stands."""
    return "".join(f"\\{each}" if each in "\\`*_{}[]<>()#+!|~" else each for each in text)


def _describe_study(path: Path) -> str:
    """Say in a line of what kind a study is, and which columns of its own its tables have."""
    metadata = read_metadata(path)
    design = Design.from_json(metadata["design"])
    parts = [f"`{design.block}`"]
    for factor in design.factors:
        levels = ", ".join(_escape(level) for level in factor.levels)
        parts.append(f"`{factor.name}` ({levels}; reference: {_escape(factor.reference)})")
    named = {design.block, *(factor.name for factor in design.factors)}
    parts += [f"`{name}`" for name in design.columns if name not in named]
    name, kind = _escape(str(metadata["study"])), _escape(str(metadata.get("kind", "?")))
    return f"- **{name}**, a study of kind {kind}. Columns of its own: {', '.join(parts)}."


def _tables_of(found: Found, results: Path) -> list[Table]:
    """Give the contracts that files of a kind keep, of those that they may."""
    if len(found.kind.tables) < 2:
        return list(found.kind.tables)
    names = {read_metadata(results / place)["table"] for place in found.places}
    return [table for table in found.kind.tables if table.name in names]


def _title(table: Table, found: Found) -> str:
    """Name a table's columns; the CSV file of all rows of a Parquet table has others."""
    return f"Columns of {table.name}{'.csv' if found.kind.pattern.endswith('.csv') else ''}"


def _anchor(title: str) -> str:
    """Give the name that Markdown's heading is linked by."""
    return title.lower().replace(" ", "-").replace(".", "")


def _name_place(found: Found) -> str:
    """Name a kind of file: by its pattern, or as a link where its one place has no wildcard."""
    pattern = found.kind.pattern
    return f"`{pattern}`" if "{" in pattern else f"[`{pattern}`]({pattern})"


def describe_results(results: Path, coming: Iterable[str] = ()) -> str:
    """Write the README of a results folder as Markdown.

    coming: paths of files that are about to be written there. Files that somebody else put there
    are listed without a description.
    """
    found, unknown = sort_files(sorted({*list_paths(results), *coming}))
    by_kind = {each.kind.pattern: each for each in found}
    lines = [
        "# Files of this run",
        "",
        f"Made by llm-variability {__version__}. `{{study}}`, `{{model}}` and the like stand for"
        " names of the configuration, `{cell}` for a decoding setting, as in `T1.0-P0.8` (with the"
        " augmentation behind it in studies of code). Everything on the page can be had from here.",
    ]
    studies = by_kind.get("stimuli/{study}.parquet")
    if studies is not None:
        lines += ["", *(_describe_study(results / place) for place in studies.places)]
    tables: dict[str, Table] = {}
    for section in SECTIONS:
        here = [by_kind[kind.pattern] for kind in section.kinds if kind.pattern in by_kind]
        if not here:
            continue
        lines += ["", f"## {section.title}", "", "| file | what | number | columns |"]
        lines += ["|---|---|---|---|"]
        for each in here:
            titled = {_title(table, each): table for table in _tables_of(each, results)}
            tables |= titled
            number = str(len(each.places)) if "{" in each.kind.pattern else ""
            columns = ", ".join(
                f"[{table.name}](#{_anchor(title)})" for title, table in titled.items()
            )
            lines.append(f"| {_name_place(each)} | {each.kind.what} | {number} | {columns} |")
    if unknown:
        lines += ["", "## Not made by the workflow", ""]
        lines += [f"- {_escape(path)}" for path in unknown]
    lines += ["", "## Columns", "", f"Types are those of polars. {_NULLS}"]
    for title, table in tables.items():
        lines += ["", f"### {title}", "", *tabulate_columns(table)]
        if table.takes_factors:
            lines += ["", "Besides, as text, the study's own columns, named above."]
    lines += [
        "",
        "## Reading a table",
        "",
        "```python",
        "import polars as pl",
        "",
        'pl.read_csv("tables/fits.csv")',
        "```",
        "",
        "Each Parquet file carries what made it, as JSON:",
        '`pl.read_parquet_metadata(path)["llm_variability"]`.',
    ]
    return "\n".join(lines) + "\n"
