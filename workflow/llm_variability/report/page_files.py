"""What the page is made by: the files of this package, as one digest.

A change of style, of words or of a script changes the digest, and Snakemake renders the page again
by itself. Modules that draw figures are among the files: which of them the page imports is not
worth keeping a list of, since rendering takes seconds. Figures and tables go by `VERSION` alone.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

PACKAGE = Path(__file__).parent

SUFFIXES = (".py", ".html", ".css", ".js")
"""Of modules, templates, styles and scripts."""


def digest_page_files(folder: Path = PACKAGE) -> str:
    """Give the first 16 hex digits of a SHA-256 over the names and bytes of all files."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES:
            name = path.relative_to(folder).as_posix()
            whole.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\0".encode())
    return whole.hexdigest()[:16]
