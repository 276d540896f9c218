"""Every kind of file of a run as Markdown: the text of docs/files.md.

python -m llm_variability.record.document > docs/files.md
"""

from __future__ import annotations

import re
import sys

from llm_variability.record.files import SECTIONS, FileKind


def _link_columns(kind: FileKind) -> str:
    """Link the columns of the tables that files of a kind hold, in docs/columns.md."""
    ending = ".csv" if kind.pattern.endswith(".csv") else ""
    links = []
    for table in kind.tables:
        heading = f"{table.name}{ending}{' (factors)' if table.takes_factors else ''}"
        slug = re.sub(r"[^\w -]", "", heading).replace(" ", "-").lower()
        links.append(f"[{table.name}](columns.md#{slug})")
    return ", ".join(links)


def describe_files() -> str:
    """Write every kind of file as Markdown: its path, what it holds, its columns."""
    lines = [
        "# Every file of a run",
        "",
        "Generated from `workflow/llm_variability/record/files.py` by `make config`. Paths are in",
        "the results folder; `{study}`, `{model}` and the like stand for names of the",
        "configuration, `{cell}` for a decoding setting, as in `T1.0-P0.8` (with the augmentation",
        "behind it in studies of code). A run writes this list, for the files that it has, into",
        "`README.md` of its results. How to read them: [results.md](results.md).",
    ]
    for section in SECTIONS:
        lines += ["", f"## {section.title}", "", "| file | what | columns |", "|---|---|---|"]
        lines += [
            f"| `{kind.pattern}` | {kind.what} | {_link_columns(kind)} |" for kind in section.kinds
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(describe_files())
