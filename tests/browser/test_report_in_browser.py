"""The report's page in a real browser: headless Chromium, driven by its command line."""

from __future__ import annotations

import html
import re
import runpy
import struct
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import matplotlib.image
import numpy as np
import pytest
from chromium import BROWSER_TEST, run_chromium

from llm_variability.report.svg import compact_svg
from page_elements import without_scripts

pytestmark = BROWSER_TEST

unit = Path(__file__).parents[1] / "unit"
inputs = SimpleNamespace(**runpy.run_path(str(unit / "report_inputs.py")))


@pytest.fixture(scope="module")
def listener() -> Iterator[tuple[str, list[str]]]:
    """A server on this machine that notes every request; hostile texts point at it."""
    requests: list[str] = []

    class Note(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Note)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", requests
    server.shutdown()


@pytest.fixture(scope="module")
def page(tmp_path_factory, listener) -> Path:
    """The page of a study whose every text is hostile, its details open."""
    address, _ = listener
    folder = tmp_path_factory.mktemp("results")
    inputs.write_results(
        folder, models=["tiny-model"], encoders=["encoder"], grid=inputs.SMALL_GRID
    )
    path = inputs.make_report(folder)
    text = path.read_text(encoding="utf-8").replace("http://example.invalid", address)
    path.write_text(text.replace("<details", "<details open"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def dom(page, tmp_path_factory) -> str:
    profile = tmp_path_factory.mktemp("profile")
    return without_scripts(run_chromium(profile, "--dump-dom", page.as_uri()))


def test_the_listener_would_notice_a_request(listener, tmp_path):
    address, requests = listener
    probe = tmp_path / "probe.html"
    probe.write_text(f"<img src='{address}/probe.png'>")
    run_chromium(tmp_path / "profile", "--dump-dom", probe.as_uri())
    assert "/probe.png" in requests


def test_no_request_leaves_the_page(dom, listener):
    _, requests = listener
    assert not [path for path in requests if path != "/probe.png"]
    resources = re.findall(r"<(?:img|script|link|iframe|source|object)\b[^>]*>", dom)
    assert resources
    assert not [
        tag for tag in resources if re.search(r"""(?:src|href)=["']?\s*(?:https?:)?//""", tag)
    ]


def test_a_script_in_a_models_text_did_not_run(dom):
    assert "<title>How much answers vary: report</title>" in dom
    assert "taken over" not in re.search(r"<head>.*</head>", dom, re.DOTALL)[0]
    assert not re.search(r"<script\b", dom)


def test_markup_in_a_models_text_made_no_element(dom):
    assert not re.search(r"<h1[^>]*injected", dom)
    assert len(re.findall(r"<h1\b", dom)) == 1


def test_a_models_text_stays_inside_its_cell(dom):
    body = dom[dom.index("<body") :]
    cells = re.findall(r'<div class="text" dir="auto">(.*?)</div>', body, re.DOTALL)
    texts = [html.unescape(cell) for cell in cells]
    # Two of each group.
    assert len(texts) == 16
    assert texts[0] == inputs.HOSTILE[0]
    assert texts[1] == inputs.HOSTILE[1]
    assert not any("<" in cell for cell in cells)


def test_a_smaller_svg_looks_the_same(page, tmp_path):
    figure = sorted((page.parent / "figures").glob("*/*/*-pairwise.svg"))[0]
    smaller = tmp_path / "smaller.svg"
    smaller.write_text(compact_svg(figure.read_text(encoding="utf-8")), encoding="utf-8")
    seen = []
    for path in (figure, smaller):
        picture = tmp_path / f"{path.stem}.png"
        run_chromium(
            tmp_path / "profile",
            "--window-size=800,760",
            f"--screenshot={picture}",
            path.resolve().as_uri(),
        )
        seen.append(matplotlib.image.imread(picture)[..., :3])
    # Coordinates are rounded to a hundredth of a point, which moves the edges of letters.
    assert np.abs(seen[0] - seen[1]).max() < 0.3
    assert np.abs(seen[0] - seen[1]).mean() < 0.001
    assert seen[0].std() > 0.05


def test_every_section_has_its_heading(dom):
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", dom)
    assert headings == [
        "Summary",
        "Study labels",
        "Diagnostics",
        "Methods",
        "Data",
        "Provenance",
    ]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_painted_in_the_scheme_asked_for(page, tmp_path, width, scheme):
    picture = tmp_path / "page.png"
    run_chromium(
        tmp_path / "profile",
        f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
        f"--window-size={width},900",
        f"--screenshot={picture}",
        page.as_uri(),
    )
    assert struct.unpack(">II", picture.read_bytes()[16:24]) == (width, 900)
    corner = matplotlib.image.imread(picture)[2, 2, :3].mean()
    assert (corner > 0.9) if scheme == "light" else (corner < 0.2)


def test_the_page_does_not_scroll_sideways_at_phone_width(page, tmp_path):
    # Scripts are forbidden inside the page, so a frame around it measures it.
    measure = tmp_path / "measure.html"
    measure.write_text(
        f"<iframe id=f src='{page.as_uri()}' style='width:390px;height:800px;border:0'></iframe>"
        "<pre id=o></pre><script>f.onload=()=>{let e=f.contentDocument.documentElement;"
        "o.textContent='widths '+e.scrollWidth+' '+e.clientWidth}</script>"
    )
    dom = run_chromium(
        tmp_path / "profile", "--allow-file-access-from-files", "--dump-dom", measure.as_uri()
    )
    widths = re.search(r"widths (\d+) (\d+)", dom)
    assert widths is not None, dom
    assert int(widths[1]) <= int(widths[2])


def test_a_switch_works_without_a_script_and_from_the_keyboard(page, tmp_path):
    # Scripts are forbidden inside the page; a frame around it does what a click would, and asks
    # which panes are seen and whether the radio buttons can be reached by the keyboard.
    ask = tmp_path / "ask.html"
    ask.write_text(
        f"<iframe id=f src='{page.as_uri()}' style='width:1000px;height:800px;border:0'></iframe>"
        "<pre id=o></pre><script>f.onload=()=>{"
        "const d=f.contentDocument,s=d.querySelector('.switch');"
        "const seen=()=>[...s.querySelectorAll('.pane')].map(p=>p.offsetHeight>0?1:0).join('');"
        "const radios=[...s.querySelectorAll('input')],told=[seen()];"
        "radios[3].click();told.push(seen());radios[1].focus();"
        "told.push(d.activeElement===radios[1]&&radios[1].tabIndex===0);"
        "told.push(s.querySelectorAll('input:checked').length);"
        "o.textContent='told '+told.join(' ')}</script>"
    )
    dom = run_chromium(
        tmp_path / "profile", "--allow-file-access-from-files", "--dump-dom", ask.as_uri()
    )
    told = re.search(r"told (\S+) (\S+) (\S+) (\d+)", dom)
    assert told is not None, dom
    assert told.groups() == ("100000", "000100", "true", "1")
