"""The documentation: its site is whole, asks nothing of the network, and its links lead somewhere.

Links to other sites are not followed: a test must not depend on a network.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from llm_variability import __version__

HOME = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "config/*.md", "profiles/*.md", "resources/*/*.md")
    for path in HOME.glob(pattern)
)
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}


def build(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a copy of the repository, as `make docs` does."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


class Tags(HTMLParser):
    """Collects what a page loads and links, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if (tag, name) in LOADED:
                self.loaded.append(value or "")
            if (tag, name) == ("a", "href"):
                self.links.append(value or "")
            if name == "id":
                self.anchors.add(value or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documentation") / "site"
    told = build(HOME, folder)
    assert told.returncode == 0, told.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Tags]:
    """Every page of the site, by its path."""
    return {
        path.relative_to(site).as_posix(): Tags(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
    }


def test_readme_is_the_first_page_and_the_changelog_is_there(pages: dict[str, Tags]) -> None:
    assert {"index.html", "CHANGELOG.html", "config/index.html"} <= set(pages)


def test_no_page_loads_anything_from_the_network(site: Path, pages: dict[str, Tags]) -> None:
    loaded = {url for page in pages.values() for url in page.loaded}
    assert loaded and not {url for url in loaded if urlsplit(url).netloc}
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert styles and not re.findall(r"url\([\"']?(?:https?:)?//|@import", styles)


def test_every_link_inside_the_site_leads_to_a_file_and_an_anchor(
    site: Path, pages: dict[str, Tags]
) -> None:
    broken = []
    for name, page in pages.items():
        if name == "404.html":  # its links begin at the server's root
            continue
        for url in [*page.links, *page.loaded]:
            parts = urlsplit(url)
            if parts.netloc or parts.scheme:
                continue
            folder = posixpath.dirname(name)
            target = posixpath.normpath(posixpath.join(folder, unquote(parts.path)))
            target = name if not parts.path else target
            target = f"{target}/index.html" if (site / target).is_dir() else target
            anchors = pages[target].anchors if target in pages else {parts.fragment}
            if not (site / target).is_file() or parts.fragment not in anchors | {""}:
                broken.append(f"{name}: {url}")
    assert not broken


def relative_links(text: str) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        if not re.match(r"\w+:|#", target):
            yield target.split("#")[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOME)))
def test_every_link_leads_to_a_file_of_the_repository(page: Path) -> None:
    targets = set(relative_links(page.read_text(encoding="utf-8")))
    assert not {target for target in targets if not (page.parent / target).exists()}


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("[a page](nowhere.md)", "nowhere.md"),
        ("[an anchor](inference.md#nowhere)", "#nowhere"),
        ("[a file](../config/nowhere.yaml)", "nowhere.yaml"),
    ],
)
def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path, link: str, told: str) -> None:
    copy = tmp_path / "copy"
    for name in ("docs", "config", "profiles", "resources"):
        shutil.copytree(HOME / name, copy / name)
    for name in ("mkdocs.yml", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE"):
        shutil.copy(HOME / name, copy / name)
    page = copy / "docs/method.md"
    page.write_text(f"{page.read_text(encoding='utf-8')}\n{link}\n", encoding="utf-8")
    done = build(copy, tmp_path / "site")
    assert done.returncode != 0
    assert told in done.stderr


def test_sections_that_a_page_names_are_those_of_the_report() -> None:
    text = (HOME / "docs/reading-the-report.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| [^|]*\? \|", text, re.MULTILINE)
    templates = HOME.glob("workflow/llm_variability/report/templates/*.html")
    headings = set(
        re.findall(r"<h[2-4][^>]*>([^<]*)</h", "".join(path.read_text() for path in templates))
    )
    assert len(rows) > 10
    assert set(rows) <= headings


def test_what_is_to_be_cited_is_this_version() -> None:
    cited = yaml.safe_load((HOME / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(cited["version"]) == __version__
