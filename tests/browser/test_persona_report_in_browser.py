"""The page of a study of personas in a browser; its prompts, programs and replies are hostile."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
from chromium import BROWSER_TEST, run_chromium

from page_elements import without_scripts

pytestmark = BROWSER_TEST

unit = Path(__file__).parents[1] / "unit"
inputs = SimpleNamespace(**runpy.run_path(str(unit / "persona_inputs.py")))


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    inputs.write_persona_results(folder)
    path = inputs.make_persona_page(folder, inputs.make_persona_report(folder))
    text = path.read_text(encoding="utf-8")
    # Pictures are loaded at once, so that a test can look at all of them.
    text = text.replace("<details", "<details open").replace(' loading="lazy"', "")
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def dom(page, tmp_path_factory) -> str:
    profile = tmp_path_factory.mktemp("profile")
    return without_scripts(run_chromium(profile, "--dump-dom", page.as_uri()))


def test_texts_stay_texts_and_run_nothing(dom):
    assert "Study personas" in dom
    assert not re.search(r"<script\b", dom)
    for number in (1, 2, 3):
        assert f"&lt;script&gt;alert({number})&lt;/script&gt;" in dom
    assert len(re.findall(r"<h1\b", dom)) == 1


def test_a_hostile_text_stays_in_its_cell(dom):
    """The browser's parser closes nothing that the template did not close."""
    tables = re.findall(r"<table\b.*?</table>", dom, re.DOTALL)
    assert len(tables) == dom.count("<table") == dom.count("</table>")
    (portraits,) = (table for table in tables if 'class="portraits"' in table)
    rows = re.findall(r"<tr>.*?</tr>", portraits.split("<tbody>")[1], re.DOTALL)
    assert len(rows) == len(inputs.ROLES)
    assert all(row.count("<td>") == 4 for row in rows)


def test_every_figure_is_drawn(page, tmp_path):
    """Each picture's width, as the browser sees it, is above 0."""
    measure = tmp_path / "measure.html"
    measure.write_text(
        f"<iframe id=f src='{page.as_uri()}' style='width:1200px;height:800px'></iframe>"
        "<script>f.onload=()=>document.title=JSON.stringify("
        "[...f.contentDocument.images].map(each=>each.naturalWidth))</script>"
    )
    dom = run_chromium(
        tmp_path / "profile", "--allow-file-access-from-files", "--dump-dom", measure.as_uri()
    )
    found = re.search(r"<title>(.*?)</title>", dom)
    assert found is not None
    widths = json.loads(found[1])
    assert len(widths) == 10 and all(width > 100 for width in widths)


def test_nothing_is_asked_of_the_network_and_the_console_is_silent(page, tmp_path):
    log = tmp_path / "net.json"
    profile = tmp_path / "profile"
    run_chromium(
        profile,
        f"--log-net-log={log}",
        "--enable-logging",
        f"--log-file={tmp_path / 'chromium.log'}",
        "--dump-dom",
        page.as_uri(),
    )
    asked = set(re.findall(r'"url":"(https?://[^"]+)', log.read_text(encoding="utf-8")))
    assert not {url for url in asked if "example.invalid" in url}
    written = (tmp_path / "chromium.log").read_text(encoding="utf-8", errors="replace")
    assert not [line for line in written.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_does_not_scroll_sideways(page, tmp_path, width):
    measure = tmp_path / "measure.html"
    measure.write_text(
        f"<iframe id=f src='{page.as_uri()}' style='width:{width}px;height:800px;border:0'>"
        "</iframe><script>f.onload=()=>document.title="
        f"f.contentDocument.documentElement.scrollWidth<={width}?'fits':'scrolls'</script>"
    )
    dom = run_chromium(
        tmp_path / "profile", "--allow-file-access-from-files", "--dump-dom", measure.as_uri()
    )
    assert "<title>fits</title>" in dom
