"""Put into the site what its pages link outside docs/: README files as pages, others as they are.

A hook of mkdocs.yml. On the forge a page links the repository's files by `../config/README.md`,
and README.md links pages by `docs/method.md`. Here the repository's root and docs/ become one
folder, so that both kinds of links hold in the site as well. README.md is the site's first page.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

HOME = Path(__file__).resolve().parents[2]
DOCS = "docs/"

_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)([^)\s#]+)")


def links(markdown: str) -> Iterator[re.Match[str]]:
    """Find the relative links of a page, without what follows a #; those in code are none."""
    code = [match.span() for match in _FENCE.finditer(markdown)]
    for match in _LINK.finditer(markdown):
        if not any(start <= match.start() < end for start, end in code):
            yield match


def place(path: str) -> str:
    """Give the place of a repository's file in the site."""
    return path.removeprefix(DOCS)


def resolve(target: str, path: str) -> str:
    """Give the repository's file that a link of one of its files means; a folder's README.md."""
    found = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return f"{found}/README.md" if (HOME / found / "README.md").is_file() else found


def is_outside_docs(path: str) -> bool:
    """Tell whether a path is that of a file of the repository which is not in docs/."""
    return not path.startswith((DOCS, "..")) and (HOME / path).is_file()


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    waiting = ["README.md", "CHANGELOG.md", "config/README.md", "profiles/README.md"]
    waiting += [DOCS + file.src_uri for file in files if file.is_documentation_page()]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        if not path.startswith(DOCS):
            files.append(File.generated(config, place(path), abs_src_path=str(HOME / path)))
        if PurePosixPath(path).suffix == ".md":
            text = (HOME / path).read_text(encoding="utf-8")
            found = {resolve(match[1], path) for match in links(text)}
            new = {each for each in found - seen if is_outside_docs(each)}
            seen |= new
            waiting.extend(sorted(new))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    path = page.file.src_uri
    if (HOME / DOCS / path).is_file():
        path = DOCS + path
    here = posixpath.dirname(place(path))
    parts, end = [], 0
    for match in links(markdown):
        target = place(resolve(match[1], path))
        if files.get_file_from_path(target) is not None:
            parts += [markdown[end : match.start()], os.path.relpath(target, here or ".")]
            end = match.end()
    return "".join([*parts, markdown[end:]])


def on_post_page(output: str, **_: Any) -> str:
    # The theme's search is a dialog without a name, which a screen reader could not tell.
    return output.replace(' role="dialog">', ' role="dialog" aria-label="Search">', 1)
