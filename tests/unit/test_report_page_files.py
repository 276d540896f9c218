"""The digest by which the page is rendered again: any file of the report's package changes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from llm_variability.report.page_files import PACKAGE, digest_page_files


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PACKAGE, tmp_path / "report"))


@pytest.mark.parametrize(
    "name",
    ["templates/page.css", "templates/page.html", "scripts/explorer.js", "code/section.py"],
)
def test_a_changed_file_changes_the_digest(package, name):
    with (package / name).open("a") as file:
        file.write(" ")
    assert digest_page_files(package) != digest_page_files()


def test_a_file_of_another_name_changes_the_digest(package):
    (package / "wording.py").rename(package / "words.py")
    assert digest_page_files(package) != digest_page_files()


def test_what_python_caches_does_not_change_the_digest(package):
    cache = package / "__pycache__"
    cache.mkdir(exist_ok=True)
    (cache / "page.cpython-311.pyc").write_bytes(b"cached")
    assert digest_page_files(package) == digest_page_files()
