"""The page of a study of code in a real browser; its programs and prompts are hostile."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
from chromium import BROWSER_TEST, run_chromium

from page_elements import without_scripts

pytestmark = BROWSER_TEST

unit = Path(__file__).parents[1] / "unit"
inputs = SimpleNamespace(**runpy.run_path(str(unit / "code_inputs.py")))
others = SimpleNamespace(**runpy.run_path(str(unit / "report_inputs.py")))


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    inputs.write_code_results(folder)
    place = ("code", ["model-a"], inputs.SETTINGS, ["original"], inputs.DESIGN)
    others.write_examples(folder, *place, texts=[inputs.HOSTILE_PROGRAM])
    path = inputs.make_code_page(folder, inputs.make_code_report(folder))
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("<details", "<details open"), encoding="utf-8")
    return path


def test_a_program_stays_text_and_runs_nothing(page, tmp_path):
    dom = run_chromium(tmp_path / "profile", "--dump-dom", page.as_uri())
    assert "Study code" in dom
    assert not re.search(r"<script\b", without_scripts(dom))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in dom
    assert len(re.findall(r"<h1\b", dom)) == 1


def test_the_page_does_not_scroll_sideways_at_phone_width(page, tmp_path):
    measure = tmp_path / "measure.html"
    measure.write_text(
        f"<iframe id=f src='{page.as_uri()}' style='width:390px;height:800px;border:0'></iframe>"
        "<script>f.onload=()=>document.title="
        "f.contentDocument.documentElement.scrollWidth<=390?'fits':'scrolls'</script>"
    )
    dom = run_chromium(
        tmp_path / "profile", "--allow-file-access-from-files", "--dump-dom", measure.as_uri()
    )
    assert "<title>fits</title>" in dom
