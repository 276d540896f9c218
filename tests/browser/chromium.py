"""Headless Chromium, driven by its command line, or by Playwright where a test acts on a page."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

BROWSER_TEST = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (Debian: apt install chromium)"),
]

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]


def run_chromium(profile: Path, *arguments: str) -> str:
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@dataclass
class Noticed:
    """What a page did besides showing itself: nothing of it is wanted."""

    messages: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def everything(self) -> list[str]:
        return [*self.messages, *self.dialogs, *self.requests]


CHARTS_DRAWN = """() => {
  const charts = [...document.querySelectorAll("figure.chart")]
    .filter((chart) => !chart.closest("details:not([open])"));
  return charts.every((chart) => chart.dataset.drawn);
}"""


@contextmanager
def open_page(
    path: Path,
    width: int = 1280,
    height: int = 900,
    scheme: str = "light",
    java_script: bool = True,
    wait_for: str = CHARTS_DRAWN,
) -> Iterator[tuple[Page, Noticed]]:
    """Open a page from disk and wait until its charts are drawn; notices all that it does."""
    noticed = Noticed()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS[1:])
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=java_script,
        )
        page = context.new_page()
        page.on("console", lambda message: noticed.messages.append(message.text))
        page.on("pageerror", lambda error: noticed.messages.append(str(error)))

        def refuse(dialog) -> None:
            noticed.dialogs.append(dialog.message)
            dialog.dismiss()

        page.on("dialog", refuse)

        def note(request) -> None:
            if request.url != path.as_uri() and not request.url.startswith(("data:", "blob:")):
                noticed.requests.append(request.url)

        page.on("request", note)
        page.goto(path.as_uri())
        if java_script:
            page.wait_for_function(wait_for)
        yield page, noticed
        browser.close()


def serious_violations(view: Page, within: str | None = None) -> list[tuple[str, str]]:
    """What axe-core finds on a page that is serious or critical: its rule and its elements.

    within: a selector of the part to look at; the whole page by default.
    """
    return [
        (each["id"], node["html"][:200])
        for each in Axe().run(view, context=within).response["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
