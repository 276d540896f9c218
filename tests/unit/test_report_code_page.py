"""The page of studies of code, alone and beside others, as HTML."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest

from llm_variability.report.__main__ import main
from llm_variability.report.code.names import list_code_figures, list_code_heatmaps
from llm_variability.report.code.schemas import CODE_SCHEMAS
from llm_variability.report.downloads import DESCRIPTIONS
from llm_variability.report.schemas import SCHEMAS
from page_elements import Elements, without_scripts

HERE = Path(__file__).parent
inputs = SimpleNamespace(**runpy.run_path(str(HERE / "code_inputs.py")))
others = SimpleNamespace(**runpy.run_path(str(HERE / "report_inputs.py")))


def of(folder: Path, pattern: str) -> list[str]:
    return [str(path) for path in sorted(folder.glob(pattern))]


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    inputs.write_code_results(folder)
    others.write_examples(
        folder,
        "code",
        ["model-a", "model-b"],
        inputs.SETTINGS,
        ["original", "keyboard-1.0"],
        inputs.DESIGN,
        texts=[inputs.HOSTILE_PROGRAM, ""],
    )
    inputs.make_code_page(folder, inputs.make_code_report(folder))
    return folder


@pytest.fixture(scope="module")
def html(results) -> str:
    return without_scripts((results / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(html) -> Elements:
    return Elements(html)


def test_the_commands_write_the_figures_that_the_rules_expect(results):
    listed = {
        f"code-{each.ending}.svg" for each in list_code_figures(inputs.MEASURES, paraphrased=True)
    }
    listed |= {
        f"{model}/code-{each.ending}.svg"
        for model in ("model-a", "model-b")
        for each in list_code_heatmaps(inputs.MEASURES)
    }
    folder = results / "figures/code"
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.svg")} == listed


def test_a_page_of_code_alone_needs_nothing_but_itself(page):
    assert not page.named("script", "iframe", "object", "embed")
    assert page.named("img")
    for attributes in page.named("img"):
        assert attributes["src"].startswith("data:image/svg+xml;base64,")
    for attributes in page.named("a"):
        assert not attributes["href"].startswith(("http", "//", "javascript"))


def test_links_lead_to_files_and_elements(page, results):
    links = [attributes["href"] for attributes in page.named("a")]
    files = [link for link in links if not link.startswith("#")]
    assert all((results / unquote(file)).exists() for file in files if file not in DESCRIPTIONS)
    assert {f"tables/{name}.csv" for name in (*SCHEMAS, *CODE_SCHEMAS)} <= set(files)
    assert "figures/code/model-b/code-encoder-a-half_life.svg" in files
    ids = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)


def test_the_page_holds_the_primary_measure_and_links_the_others(page):
    # By method and by set, raw and rescaled; paraphrases, bands; three heatmaps of two models.
    assert len(page.named("img")) == 2 + 2 + 2 + 3 * 2
    assert page.text.count("Under other measures, as files: encoder-a, ") == 5


def test_every_header_cell_has_a_scope(page):
    assert all(attributes.get("scope") for attributes in page.named("th"))


def test_programs_and_prompts_are_escaped(html, page):
    assert "<script" not in html and "<b>a program" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "\x00" not in html and "\u202e" not in html
    assert "{{ 7 * 7 }}" in page.text
    assert "(no text)" in page.text


def test_findings_come_first_and_alarms_are_raised_above(page):
    section = page.text.rindex("Study code: sensitivity of code")
    summary = page.text[page.text.index("Skip to the results") : section]
    assert "Code changes fastest with rate under keyboard with 2 of 2 models." in summary
    assert "Mean height of the curve of open less that of humaneval" in summary
    assert "Failed extraction of programs: code, below 50% in 1 of 190 models × cells." in summary
    assert "Bands without a paraphrase: code, below 1 in 3 of 9 sets × bands." in summary
    assert page.text.count("model-b: fewer than 50% of the replies are programs in 1 of 95") == 1
    assert summary.index("Code changes fastest") < summary.index("Alarms")


def test_a_page_of_code_alone_says_nothing_of_groups(page):
    assert "Which p-value." not in page.text and "Nothing was run." not in page.text
    assert "by prompt and decoding setting" in page.text
    assert "pairwise level" not in page.text.lower()
    assert "docs/code-sensitivity.md" in page.text and "docs/tsed.md" in page.text


def test_a_cell_whose_extraction_failed_is_marked(html):
    marked = re.findall(r'<td class="number flag">⚠ ([^<]+)</td>', html)
    assert marked == ["19 (20%)"]


def test_the_draws_of_the_original_prompts_say_how_they_were_made(page):
    assert "code, model-a, T0/original" in page.text


def test_missing_stimuli_are_named(results, tmp_path, caplog):
    arguments = ["page", "--code-tables", *of(results, "tables/code_*.csv"), "--tables"]
    arguments += [path for path in of(results, "tables/*.csv") if "/code_" not in path]
    arguments += ["--manifests", *of(results, "models/*"), "--draws", *of(results, "draws/*/*/*/*")]
    others.write_results(
        tmp_path, models=["m"], encoders=["e"], grid=others.SMALL_GRID, further=False
    )
    arguments += ["--stimuli", *of(tmp_path, "stimuli/*")]
    arguments += ["--config", str(results / "config.yaml"), "--output", str(tmp_path / "r.html")]
    with pytest.raises(SystemExit):
        main(arguments)
    assert "no stimuli table was given for the study code; see --stimuli" in caplog.text


def test_both_kinds_of_study_stand_on_one_page(results, tmp_path):
    others.write_results(
        tmp_path, models=["m"], encoders=["e"], grid=others.SMALL_GRID, further=False
    )
    main(
        ["tables", "--adjusted", *of(tmp_path, "adjusted/*"), "--similarity"]
        + [*of(tmp_path, "similarity/*/*/*"), "--counts", *of(tmp_path, "counts/*/*")]
        + ["--stimuli", *of(tmp_path, "stimuli/*"), "--outdir", str(tmp_path / "tables")]
    )
    main(
        ["page", "--tables", *of(tmp_path, "tables/*.csv")]
        + ["--manifests", *of(tmp_path, "models/*"), *of(results, "models/*")]
        + ["--draws", *of(tmp_path, "draws/*/*/*"), *of(results, "draws/*/*/*/*")]
        + ["--stimuli", *of(tmp_path, "stimuli/*"), *of(results, "stimuli/*")]
        + ["--code-tables", *of(results, "tables/code_*.csv")]
        + ["--programs", *of(results, "programs/*/*")]
        + ["--config", str(tmp_path / "config.yaml"), "--output", str(tmp_path / "report.html")]
    )
    page = Elements((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "by group, prompt and decoding setting" in page.text
    assert page.text.index("Study labels", 2_000) < page.text.index("Study code: sensitivity")
    assert "Which p-value." in page.text and "Studies of groups" in page.text
    ids = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(ids) == len(set(ids))
