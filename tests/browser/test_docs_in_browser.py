"""The documentation's site in a real browser: search, phone width, dark colours, no other site."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from chromium import BROWSER_TEST, CHROMIUM, FLAGS, serious_violations
from playwright.sync_api import Page, Request, sync_playwright

pytestmark = BROWSER_TEST

HOME = Path(__file__).parents[2]
PAGES = ("index", "quickstart", "configuration", "results", "which-inference", "gallery")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the site is served on this machine; its search needs a server."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=HOME,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        check=True,
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@contextmanager
def browsing(address: str, width: int = 1280, scheme: str = "light") -> Iterator[Page]:
    """Look at pages, which must neither complain nor ask another site for anything."""
    faults: list[str] = []

    def note(request: Request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            faults.append(request.url)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS[1:])
        page = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        page.on("request", note)
        yield page
        browser.close()
    assert not faults


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_needs_scrolling_sideways(address: str, width: int) -> None:
    with browsing(address, width) as page:
        for name in PAGES:
            page.goto(f"{address}/{name}.html")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name


def test_a_word_is_found_by_the_search(address: str) -> None:
    with browsing(address) as page:
        page.goto(f"{address}/index.html")
        page.locator("input[name=query]").click()
        page.keyboard.type("tensor_parallel")
        found = page.locator(".md-search-result__link")
        found.first.wait_for(state="attached")
        assert any("configuration.html" in each.get_attribute("href") for each in found.all())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(address: str, scheme: str) -> None:
    with browsing(address, scheme=scheme) as page:
        for name in PAGES:
            page.goto(f"{address}/{name}.html")
            assert not serious_violations(page), name
