"""The page of studies of personas, alone and beside others, as HTML."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import polars as pl
import pytest

from llm_variability.report.__main__ import main
from llm_variability.report.downloads import DESCRIPTIONS
from llm_variability.report.personas.names import list_persona_figures
from llm_variability.report.personas.schemas import PERSONA_SCHEMAS
from llm_variability.report.personas.section import locate_persona_figures
from llm_variability.report.schemas import SCHEMAS
from page_elements import Elements, without_scripts

HERE = Path(__file__).parent
inputs = SimpleNamespace(**runpy.run_path(str(HERE / "persona_inputs.py")))
code = SimpleNamespace(**runpy.run_path(str(HERE / "code_inputs.py")))
others = SimpleNamespace(**runpy.run_path(str(HERE / "report_inputs.py")))
of = inputs.of


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    inputs.write_persona_results(folder)
    inputs.make_persona_page(folder, inputs.make_persona_report(folder))
    return folder


@pytest.fixture(scope="module")
def html(results) -> str:
    return without_scripts((results / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(html) -> Elements:
    return Elements(html)


def make_bare_page(folder: Path, **given) -> str:
    """Make a page without figures; given: as `write_persona_results` takes it."""
    inputs.write_persona_results(folder, **given)
    inputs.make_persona_page(folder, inputs.make_persona_report(folder, suffixes=()))
    return without_scripts((folder / "report.html").read_text(encoding="utf-8"))


def test_the_command_draws_the_figures_that_the_page_looks_for(results):
    figures = locate_persona_figures([Path(path) for path in of(results, "figures/*/*.svg")])
    listed = {each.ending for each in list_persona_figures(inputs.MEASURES, dialogue=True)}
    assert {study for study, _ in figures} == {"personas"}
    assert {ending for _, ending in figures} == listed


def test_a_figure_of_another_name_is_refused(tmp_path):
    with pytest.raises(ValueError, match="a figure of a study of personas is STUDY/persona-NAME"):
        locate_persona_figures([tmp_path / "personas/code-map.svg"])


def test_the_page_needs_nothing_but_itself(page):
    assert not page.named("script", "iframe", "object", "embed")
    for attributes in page.named("img"):
        assert attributes["src"].startswith("data:image/svg+xml;base64,")
    for attributes in page.named("a"):
        assert not attributes["href"].startswith(("http", "//", "javascript"))


def test_every_kind_of_figure_is_there_once_with_words(page):
    images = page.named("img")
    kinds = {each.kind for each in list_persona_figures(inputs.MEASURES, dialogue=True)}
    assert len(images) == len(kinds)
    texts = [attributes["alt"] for attributes in images]
    assert len(set(texts)) == len(texts) and all(len(text) > 40 for text in texts)
    assert all(re.search(r"\d", text) for text in texts)


def test_the_figures_of_other_measures_are_linked(page, results):
    assert page.text.count("Under other measures, as files: encoder-a, ") == 2
    links = [attributes["href"] for attributes in page.named("a")]
    assert "figures/personas/persona-similarity-encoder-a.svg" in links
    files = [link for link in links if not link.startswith("#")]
    # Documents beside the package are linked too.
    there = [results / unquote(file) for file in files if file not in DESCRIPTIONS]
    assert all(path.resolve().exists() for path in there)
    assert {f"tables/{name}.csv" for name in (*SCHEMAS, *PERSONA_SCHEMAS)} <= set(files)


def test_ids_are_there_once_and_links_reach_them(page):
    ids = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {attributes["href"][1:] for attributes in page.named("a") if "#" in attributes["href"]}
    assert links - {""} <= set(ids)


def test_every_header_cell_has_a_scope(page):
    assert all(attributes.get("scope") for attributes in page.named("th"))


def test_every_table_has_a_caption_and_rows_as_wide_as_its_head(html):
    tables = re.findall(r"<table.*?</table>", html, re.DOTALL)
    assert len(tables) > 20
    for table in tables:
        assert "<caption>" in table
        head, body = table.split("<tbody>")
        columns = head.count("<th ")
        rows = re.findall(r"<tr.*?</tr>", body, re.DOTALL)
        for row in rows:
            assert len(re.findall(r"<t[hd][ >]", row)) == columns


def test_texts_of_models_and_files_are_escaped(html, page):
    assert "<script" not in html and "<b>Bold" not in html and "<img src=http" not in html
    assert "&lt;script&gt;alert(1)" in html and "&lt;script&gt;alert(3)" in html
    assert "\x00" not in html and "\u202e" not in html
    assert "\u27e8U+202E\u27e9{{ 7 * 7 }}" in page.text
    assert len(page.named("h1")) == 1


def test_personas_are_described_where_the_page_is_folded(html):
    folded = re.findall(r"<details>\n<summary>([^<]+)</summary>\n<p class=\"told\">([^<]+)", html)
    assert [name for name, _ in folded] == [
        "Junior engineer",
        "Principal engineer",
        "English teacher",
        "Astrophysicist",
    ]
    assert folded[2][1] == "You are a english-teacher. &lt;b&gt;Bold&lt;/b&gt;"
    assert "<li>brief/calculator: Write code for brief/calculator.</li>" in html


def test_the_summary_says_what_was_found_before_the_alarms(page):
    section = page.text.rindex("Study personas: who asks")
    summary = page.text[page.text.index("Skip to the results") : section]
    assert "by persona and decoding setting" in summary
    assert "Code for different personas is less alike than code for the same in 4 of 4" in summary
    assert "model-b writes 3.0 times as much as model-a" in summary
    assert "model-a: English teacher 20%" in summary
    assert summary.index("Furthest apart") < summary.index("Alarms")
    assert "Few prompts: personas, below 5 in 8 of 8 tasks × personas." in summary
    assert page.text.count("fewer prompts than asked for of English teacher") == 1
    assert "Nothing was run." not in summary and "Which p-value." not in page.text


def test_the_table_of_personas_shows_what_is_particular_to_each(html):
    table = re.search(r'<table class="portraits">.*?</table>', html, re.DOTALL)
    assert table is not None
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table[0], re.DOTALL)
    assert [name for name, _ in rows] == [inputs.LABELS[name] for name in inputs.ROLES]
    emphasis, tone, shape, without = re.findall(r"<td>(.*?)</td>", rows[2][1], re.DOTALL)
    assert emphasis.startswith("<div>page (100%; others 5.6%)</div><div>button (80%; others 0%)")
    assert "<div>questions, share of sentences 60% (others 5%)</div>" in tone
    assert "make a page⟨U+0000⟩ with buttons?</blockquote>" in tone
    assert "<div>model-a: calls of input 12.0 (others 2.00); classes 0.00 (others 6.00)" in shape
    assert "answer = input(&#39;number&#39;)</blockquote>" in shape
    assert "<div>8 of 40 replies</div>" in without and "Send me the reports" in without
    for cell in (emphasis, tone, shape, without):
        assert cell.count("<blockquote") == 2
    assert "<div>nothing far from the others</div>" in rows[1][1]
    assert "<div>0 of 48 replies</div>" in rows[0][1]


def test_the_published_variant_stands_beside_the_full_one(page):
    told = page.text[page.text.index("As published: one sampled prompt a persona") :]
    assert told.index("cannot be told from what is between prompts") < told.index("a gap of 0.20")
    assert "one sampled, as published" in told and "every iteration" in told


def test_what_is_left_out_and_missing_is_told(page):
    told = page.text[page.text.index("Left out and missing") :]
    assert "1 prompt that no attempt could be used for" in told
    assert "8 replies without code, not compared" in told
    assert "no task in which every persona has" in told


def test_what_analysed_the_prompts_is_told(page):
    assert "What the prompts were analysed with" in page.text and "3.8.18" in page.text


def test_a_study_without_dialogue_says_nothing_of_it(tmp_path):
    html = make_bare_page(tmp_path, models=["model-a"], dialogue=False, folds="iteration")
    assert "If the model may ask back" not in html
    assert "with iterations held out and not tasks" in html
    assert "<img" not in html
    # Of one model no table has a column of models.
    assert '<th scope="col">Model</th>' not in html


def test_a_study_whose_personas_wrote_nothing_has_a_page(tmp_path):
    page = Elements(make_bare_page(tmp_path, prompted=False, dialogue=False))
    assert "0 of 24 prompts in 29 attempts" in page.text
    assert "no usable prompt of junior engineer for brief/calculator" in page.text
    assert "more than 50% of the attempts at prompts could not be used (29 of 29" in page.text
    assert "4 personas ask for 2 programs" in page.text and "Shown is no setting;" in page.text
    assert "None" not in page.text
    assert "No draw was made." in page.text


def test_a_page_may_lack_the_files_behind_the_table_of_personas(results, tmp_path):
    main(
        ["page", "--persona-tables", *of(results, "tables/persona_*.csv")]
        + ["--tables", *(path for path in of(results, "tables/*.csv") if "/persona_" not in path)]
        + ["--manifests", *of(results, "models/*"), "--stimuli", *of(results, "stimuli/*")]
        + ["--rewritings", *of(results, "rewritings/*"), "--draws", *of(results, "draws/*/*/*")]
        + ["--config", str(results / "config.yaml"), "--output", str(tmp_path / "r.html")]
    )
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "nothing that others have less" in html and "<blockquote" not in html


def test_what_is_not_known_of_a_persona_is_not_called_like_the_others(results, tmp_path):
    for path in of(results, "tables/*.csv"):
        (tmp_path / Path(path).name).write_text(Path(path).read_text())
    means = pl.read_csv(tmp_path / "persona_means.csv", infer_schema=False)
    is_asked = pl.col("persona") == "junior-engineer-male"
    is_kept = pl.col("feature").str.starts_with("reply_") & pl.col("model").is_not_null()
    means = means.with_columns(mean=pl.when(is_asked & ~is_kept).then(None).otherwise("mean"))
    means.write_csv(tmp_path / "persona_means.csv")
    main(
        ["page", "--persona-tables", *of(tmp_path, "persona_*.csv"), "--tables"]
        + [path for path in of(tmp_path, "*.csv") if "/persona_" not in path]
        + ["--manifests", *of(results, "models/*"), "--stimuli", *of(results, "stimuli/*")]
        + ["--rewritings", *of(results, "rewritings/*"), "--draws", *of(results, "draws/*/*/*")]
        + ["--config", str(results / "config.yaml"), "--output", str(tmp_path / "r.html")]
    )
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    # Of the wording, and of the programs of two models.
    assert html.count("not known: no means to compare") == 3


@pytest.mark.parametrize("lacking", ["stimuli", "rewritings"])
def test_missing_stimuli_or_rewritings_are_named(results, tmp_path, caplog, lacking):
    others.write_results(
        tmp_path, models=["m"], encoders=["e"], grid=others.SMALL_GRID, further=False
    )
    stimuli = tmp_path if lacking == "stimuli" else results
    arguments = ["page", "--persona-tables", *of(results, "tables/persona_*.csv"), "--tables"]
    arguments += [path for path in of(results, "tables/*.csv") if "/persona_" not in path]
    arguments += ["--manifests", *of(results, "models/*"), "--draws", *of(results, "draws/*/*/*")]
    arguments += ["--stimuli", *of(stimuli, "stimuli/*"), "--config", str(results / "config.yaml")]
    with pytest.raises(SystemExit):
        main([*arguments, "--output", str(tmp_path / "r.html")])
    told = {"stimuli": "no stimuli table was given", "rewritings": "no rewritings were given"}
    assert f"{told[lacking]} for the study personas; see --{lacking}" in caplog.text


def test_all_kinds_of_study_stand_on_one_page(results, tmp_path):
    others.write_results(
        tmp_path, models=["m"], encoders=["e"], grid=others.SMALL_GRID, further=False
    )
    code.write_code_results(tmp_path, models=["model-a"])
    main(
        ["tables", "--adjusted", *of(tmp_path, "adjusted/*"), "--similarity"]
        + [*of(tmp_path, "similarity/*/*/*"), "--counts", *of(tmp_path, "counts/labels/*")]
        + ["--stimuli", *of(tmp_path, "stimuli/labels*"), "--outdir", str(tmp_path / "tables")]
    )
    group_tables = of(tmp_path, "tables/*.csv")
    given = [
        argument
        for name in ("curves", "summaries", "contrasts", "fits")
        for argument in (f"--{name}", *of(tmp_path, f"curves/*/{name}.parquet"))
    ]
    given += ["--extractions", *of(tmp_path, "extractions/code/*")]
    given += ["--counts", *of(tmp_path, "counts/code/*")]
    given += ["--augmentations", *of(tmp_path, "augmentations/*")]
    main(["code-tables", *given, "--outdir", str(tmp_path / "tables")])
    main(
        ["page", "--tables", *group_tables]
        + ["--manifests", *of(tmp_path, "models/*"), *of(results, "models/*")]
        + ["--draws", *of(tmp_path, "draws/labels/*/*"), *of(results, "draws/*/*/*")]
        + ["--stimuli", *of(tmp_path, "stimuli/*"), *of(results, "stimuli/*")]
        + ["--code-tables", *of(tmp_path, "tables/code_*.csv")]
        + ["--programs", *of(tmp_path, "programs/*/*"), *of(results, "programs/*/*")]
        + ["--persona-tables", *of(results, "tables/persona_*.csv")]
        + ["--rewritings", *of(results, "rewritings/*"), "--features", *of(results, "features/*/*")]
        + ["--config", str(tmp_path / "config.yaml"), "--output", str(tmp_path / "report.html")]
    )
    page = Elements((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "by group, prompt, persona and decoding setting" in page.text
    order = ["Study labels", "Study code: sensitivity of code", "Study personas: who asks"]
    places = [page.text.index(head, 3_000) for head in order]
    assert places == sorted(places)
    assert "Studies of groups" in page.text and "Studies of personas" in page.text
    ids = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_a_page_without_studies_says_so(tmp_path):
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    main(["tables", "--outdir", str(tmp_path / "tables")])
    inputs.write_persona_results(tmp_path / "other", models=["model-a"])
    main(
        ["page", "--tables", *of(tmp_path, "tables/*.csv")]
        + ["--manifests", *of(tmp_path, "other/models/*"), "--draws"]
        + [*of(tmp_path, "other/draws/*/*/*"), "--stimuli", *of(tmp_path, "other/stimuli/*")]
        + ["--config", str(tmp_path / "config.yaml"), "--output", str(tmp_path / "r.html")]
    )
    assert "Nothing was run." in (tmp_path / "r.html").read_text(encoding="utf-8")
