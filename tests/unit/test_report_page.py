"""The page of the report, as HTML; tests/browser opens it in a real browser."""

from __future__ import annotations

import base64
import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import polars as pl
import pytest

from llm_variability.calibration.table import SCHEMA, SHOWN_STUDIES
from llm_variability.report.downloads import DESCRIPTIONS
from llm_variability.report.level_tests import LEVEL_TESTS
from llm_variability.report.methods import arrange_calibration
from llm_variability.report.pictures import locate_figures
from llm_variability.report.provenance import (
    find_commit,
    flatten,
    list_makers,
    list_stages,
    read_manifest,
    without_credentials,
)
from llm_variability.report.schemas import SCHEMAS
from llm_variability.software import package_versions
from page_elements import Elements, without_scripts

inputs = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("report_inputs.py"))))


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    inputs.write_results(
        folder,
        models=["tiny-model"],
        encoders=["encoder-a", "encoder-b"],
        grid=(("0", "0.5", "2.0"), ("0.2", "1.0")),
        over_long=4,
    )
    inputs.make_report(folder, (".png", ".svg", ".pdf"))
    return folder


@pytest.fixture(scope="module")
def whole(results) -> str:
    return (results / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def html(whole) -> str:
    return without_scripts(whole)


@pytest.fixture(scope="module")
def page(html) -> Elements:
    return Elements(html)


def test_the_page_needs_nothing_but_itself(page):
    assert not page.named("script", "iframe", "object", "embed")
    for attributes in page.named("img"):
        assert attributes["src"].startswith("data:image/svg+xml;base64,")
    for attributes in page.named("link"):
        assert attributes["href"] == "data:,"
    for attributes in page.named("a"):
        assert not attributes["href"].startswith(("http", "//", "javascript"))


def test_the_page_says_which_files_prompts_were_made_from(html):
    assert "labels: prompts &lt;b&gt;.yaml</dt><dd>0123abcd</dd>" in re.sub(r">\s+<", "><", html)


def test_links_to_tables_and_figures_lead_to_files(page, results):
    links = [attributes["href"] for attributes in page.named("a")]
    files = [link for link in links if not link.startswith("#")]
    assert {f"tables/{name}.csv" for name in SCHEMAS} <= set(files)
    assert "figures/labels/encoder-a-text-fixed-signals.pdf" in files
    assert "figures/labels/tiny-model/encoder-b-pairwise.svg" in files
    assert all((results / unquote(file)).exists() for file in files if file not in DESCRIPTIONS)


def test_links_inside_the_page_lead_to_one_element_each(page):
    ids = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    for attributes in page.named("a"):
        if attributes["href"].startswith("#"):
            assert attributes["href"][1:] in ids


def test_the_page_leads_to_parquet_tables_and_to_what_describes_them(page):
    links = [attributes["href"] for attributes in page.named("a")]
    assert {"README.md", "ro-crate-metadata.json"} <= set(links)
    assert "fits/labels/tiny-model/encoder-a.parquet" in links
    assert {"adjusted/labels.parquet", "stimuli/labels.parquet", "draws/labels/tiny-model"} <= set(
        links
    )


def test_the_page_says_what_the_draws_were_made_on_and_with():
    session = {
        "began": "2026-01-01T00:00:00+0000",
        "engine": "vllm 0.33.0",
        "devices": "0,1",
        "processor": "Made-up CPU",
        "accelerators": ["NVIDIA H200"],
        "packages": {"torch": "2.14.0", "transformers": "5.0"},
    }
    far = {"began": session["began"], "engine": "https://me:pw@far.invalid/v1", "devices": None}
    draws = [{"model": "m", "sessions": [session, session]}, {"model": "f", "sessions": [far]}]
    near, away = list_makers(draws)
    assert near == {
        "model": "m",
        "engine": "vllm 0.33.0",
        "hardware": "devices 0,1; NVIDIA H200; Made-up CPU",
        "packages": "torch 2.14.0, transformers 5.0",
    }
    assert (away["engine"], away["packages"]) == ("https://***@far.invalid/v1", "")


def test_stages_that_had_other_packages_are_told_apart():
    old, new = ({"table": "fits", "made_with": {"python": "3.11.9", "scipy": v}} for v in "12")
    rows = list_stages([new, old, new, {"table": "fits"}])
    assert [row["packages"] for row in rows] == ["scipy 1", "scipy 2"]


def test_the_page_tells_the_seed_and_the_state_of_the_checkout(page):
    assert "Seed of the run: 1." in page.text
    commit = find_commit()
    if commit is not None:
        assert commit in page.text
        assert "uncommitted changes" in page.text


def test_every_figure_has_words_that_state_the_finding(page):
    alts = [attributes["alt"] for attributes in page.named("img")]
    # Of the model, under the first encoder: two heatmaps of marginal contrasts, and a cosine. Over
    # all models: counts of six tests and estimates of four, of which under the second encoder the
    # marginal ones; and the lengths. With one model its cosine stands in its own section.
    heatmaps, counts, trends = 2, 6 + 2, 4 + 1
    assert len(alts) == heatmaps + 1 + counts + trends + 1
    assert sum("significant in" in alt for alt in alts) == heatmaps + counts
    assert sum("is highest" in alt for alt in alts) == 1
    told = ("at every temperature", "some temperatures")
    assert sum(any(words in alt for words in told) for alt in alts) == trends
    assert sum("words a text" in alt for alt in alts) == 1


def test_a_switch_shows_the_text_level_with_formats_fixed_and_needs_no_script(page):
    radios = page.named("input")
    assert {each["type"] for each in radios} == {"radio"}
    groups = {each["name"] for each in radios}
    assert {"study-labels-tiny-model-encoder-a", "study-labels-all-encoder-a-signals"} <= groups
    for name in groups:
        checked = [each for each in radios if each["name"] == name and "checked" in each]
        assert [each["id"] for each in checked] == [f"{name}-1"]
    labels = {each["for"] for each in page.named("label")}
    assert labels - {each["id"] for each in page.named("select")} == {each["id"] for each in radios}
    assert "Shown first: the text level with formats fixed" in page.text
    order = [
        page.text.index(label)
        for label in (
            "Text level, formats fixed, averaged over the other factor",
            "Text level, formats fixed, published coding: among White / man",
            "Pairwise level, published coding: among White / man",
        )
    ]
    assert order == sorted(order)


def test_what_the_page_does_not_hold_is_a_file_and_said_to_be(page):
    # Heatmaps of four tests in the published coding, and of all six under the second encoder; of
    # that also a cosine, counts of four tests and estimates of three levels.
    assert page.text.count("Not in this page, to keep it small; the file:") == 4 + 6 + 1 + 4 + 3


def test_a_picture_waits_until_it_is_in_sight_and_its_place_is_kept(page):
    for attributes in page.named("img"):
        assert attributes["loading"] == "lazy"
        svg = base64.b64decode(attributes["src"].split(",", 1)[1]).decode()
        _, _, width, height = map(float, re.search(r'viewBox="([^"]*)"', svg)[1].split())
        # A user unit is a point, 1/72 of an inch; a CSS pixel is 1/96.
        assert int(attributes["width"]) == pytest.approx(width * 96 / 72, abs=0.5)
        assert int(attributes["height"]) == pytest.approx(height * 96 / 72, abs=0.5)


def test_a_figure_of_estimates_by_temperature_has_its_means_in_a_table(html, results):
    table = pl.read_csv(results / "tables/temperature_estimates.csv", infer_schema=False)
    rows = table.filter(pl.col("encoder") == "encoder-a", pl.col("level") == "cell")
    shown = cells_of(html, "Mean β over top-p, cell level")
    temperatures = sorted(rows["temperature"].unique(), key=float)
    for contrast in rows["contrast"].unique():
        of_contrast = rows.filter(pl.col("contrast") == contrast)
        means = dict(of_contrast.select("temperature", "mean_estimate").iter_rows())
        expected = [
            f"{float(means[text]):.2f}".replace("-", "\N{MINUS SIGN}") for text in temperatures
        ]
        assert ["tiny-model", contrast, *expected] in shown


def test_every_header_cell_has_a_scope(page):
    assert page.named("th")
    assert all(attributes.get("scope") for attributes in page.named("th"))


def test_texts_of_a_model_are_escaped(html, page):
    assert "<script" not in html
    assert "id='injected'" not in html and "injected" not in [a.get("id") for _, a in page.found]
    assert "&lt;script&gt;document.title" in html
    assert "\x00" not in html and "\u202e" not in html
    assert "{{ 7 * 7 }}" in page.text
    assert len(html) < 2_000_000


def test_the_page_says_what_was_run_and_found(page):
    # 24 prompts: 2 greedy draws and 4 x 5 sampled ones each; at temperature 2.0 (two cells) one of
    # five is empty and two are truncated.
    assert "1 model (tiny-model) answered 24 prompts at 5 decoding settings: 528 draws" in page.text
    assert "48 (9.1%) were empty and 96 (18.2%) were cut at the token limit" in page.text
    assert "Asian (vs. White), averaged over gender: significant (p < .05) in these formats in" in (
        page.text
    )


def test_the_published_coding_follows_in_one_line_that_names_its_references(page):
    summary = page.text[page.text.index("Summary", 500) : page.text.index("Which p-value.")]
    (line,) = [text for text in summary.split("\n") if "Published coding" in text]
    assert "Hispanic (vs. White), among man: " in line
    assert "woman (vs. man), among White: " in line
    assert "in such formats, " in line and "on pairs" not in line
    assert summary.index("averaged over race") < summary.index("Published coding")


def test_the_page_warns_of_pairwise_p_values_and_of_treatment_coding(page):
    assert "a p-value on pairs is far too small and is never to be reported" in page.text
    assert "a difference among the reference level of the other factors" in page.text


def cells_of(html: str, caption: str) -> list[list[str]]:
    """The texts of the table's body rows, a list a row."""
    table = html[html.index(caption) :]
    body = table[table.index("<tbody>") : table.index("</tbody>")]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL)
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]
    return [[" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in row] for row in cells]


def test_the_default_table_has_intervals_and_adjusted_p_but_none_of_pairs(html, results):
    rows = cells_of(html, "encoder-a, published coding: among the reference of the other factor")
    default = pl.read_csv(results / "tables/default_estimates.csv").filter(
        pl.col("encoder") == "encoder-a",
        pl.col("coding") == "treatment",
        pl.col("term") == "race[Asian]",
    )
    fixed = default.filter(pl.col("scope") == "formats fixed").row(0, named=True)
    (asian,) = [row for row in rows if row[0] == "Asian (vs. White)"]
    estimate, low, high = (
        f"{fixed[name]:.2f}".replace("-", "−") for name in ("estimate", "ci_low", "ci_high")
    )
    assert asian[1] == f"{estimate} [{low}, {high}]"
    assert f"Holm {fixed['p_holm']:.3f}".replace("0.", ".") in asian[2] or "Holm < .001" in asian[2]
    # Contrast, and no model since there is one; two columns a test but one for pairs.
    assert [len(row) for row in rows] == [1 + 2 * 3 + 1] * 4
    assert "[" not in asian[-1]


def test_marginal_contrasts_and_interactions_have_simultaneous_intervals_under_both_scopes(html):
    rows = cells_of(html, "β with its own 95% interval and, after")
    assert [row[0] for row in rows] == [
        "African (vs. White)",
        "Asian (vs. White)",
        "Hispanic (vs. White)",
        "woman (vs. man)",
        "African × woman",
        "Asian × woman",
        "Hispanic × woman",
    ]
    for row in rows:
        assert len(row) == 1 + 2 * 2
        assert "all: [" in row[1] and "all: [" in row[3]


def test_sensitivity_analyses_stand_beside_the_main_one(page, html):
    assert "At equal length: in these formats" in page.text
    # Untruncated rows are the main ones: nothing changes.
    told = page.text[page.text.index("Uncut texts only: ") :].split("\n")[0]
    assert told.count("none becomes so, and none of 12 changes sign") == 2
    rows = cells_of(html, "β at the default setting in these formats: own 95% interval")
    # Contrast; main, length and untruncated with two columns each; permutation's p.
    assert [len(row) for row in rows] == [1 + 2 * 3 + 1] * 4
    assert all("± 0.004" in row[-1] for row in rows)
    assert "all groups" in page.text


def test_measures_without_an_encoder_have_a_section(page, html):
    assert "Diversity: by words" in page.text
    assert "Main contrasts averaged over the other factors: estimates with p < .05." in page.text
    assert "groups are compared at equal numbers" in page.text
    rows = cells_of(html, "in each measure's own unit, in these formats")
    # The first table has marginal contrasts and interactions.
    assert [len(row) for row in rows] == [1 + 2] * 7
    values = cells_of(html, "Averaged over formats.")
    # White: 0.6 + 0.1 of distinct-1 and 0.6 - 0.1 of self-BLEU.
    assert ["White", "man", "0.700", "0.500"] in values


def page_of(folder: Path, config: str, **given: object) -> Elements:
    """The page of a small study under another configuration."""
    inputs.write_results(folder, models=["m"], encoders=["e"], grid=inputs.SMALL_GRID, **given)
    (folder / "config.yaml").write_text(config)
    return Elements(inputs.make_report(folder).read_text())


def test_families_and_asterisks_are_those_of_the_configuration(tmp_path, page):
    text = page_of(tmp_path, "fits: {family: setting}\nreport: {asterisks: holm}\n").text
    assert text.count("level and scope of one model in one setting") == 2
    assert "Holm holds within each setting only" in text
    assert "Asterisks of heatmaps and tables: p < .05, Holm." in text
    assert "* p < .05, unadjusted" not in text
    assert page.text.count("level and scope in all models and settings") == 2
    assert "within each setting" not in page.text
    assert "Asterisks of heatmaps and tables: p < .05, unadjusted." in page.text


def test_without_other_analyses_their_sections_are_not_there(tmp_path):
    inputs.write_results(
        tmp_path, models=["m"], encoders=["e"], grid=inputs.SMALL_GRID, further=False
    )
    text = Elements(inputs.make_report(tmp_path).read_text()).text
    assert "Robustness" not in text
    assert "Diversity: by words" not in text


def test_the_methods_tell_each_test_and_its_caution(page):
    methods = page.text[page.text.rindex("Methods") :]
    for test in LEVEL_TESTS:
        assert test.method in methods
        assert test.caution in methods


def test_alarms_are_words_and_not_only_colour(page):
    assert "empty draws above 5% in 2 settings; most in T2.0-P0.2 (20%)" in page.text
    assert "⚠ 24 (20%)" in page.text


def test_texts_that_an_encoder_cuts_are_an_alarm(page):
    told = "tiny-model: 4 of 528 texts (0.8%) are longer than encoder-b takes"
    assert page.text.count(told) == 1
    assert "Over-long texts: labels, above 0% in 2 of 2 models × encoders" in page.text


def test_fits_that_could_not_be_made_are_listed_with_their_reason(page):
    assert "no variance: every pairwise cosine is 1" in page.text
    assert "nothing is fitted" not in page.text.split("could not be made or relied on")[-1]


def test_few_texts_are_an_alarm(page):
    told = "tiny-model: a group has fewer than 20 texts a format in 4 of 4 settings (fewest 5:"
    assert page.text.count(told) == 1


def test_greedy_determinism_is_told(page):
    assert "0 of 24 prompts drawn more than once gave more than one text" in page.text


def test_the_page_says_what_made_it_without_secrets(page):
    assert "vllm 0.32.0" in page.text
    assert "sampling.max_tokens" in page.text
    assert "polars" in page.text
    assert "user:secret" not in page.text
    assert "https://***@example.invalid/v1" in page.text


def test_the_default_setting_that_the_grid_lacks_is_told(page):
    assert (
        "The grid has no temperature 1 with top-p 1, so temperature 0.5 and top-p 1.0" in page.text
    )


def test_encoders_and_levels_are_compared(page):
    # 3 settings are fitted at the pairwise level, since at T0.5-P0.2 there is no variance; 4 main
    # contrasts. At the cell level the fits of T2.0-P1.0 did not converge.
    assert "encoder-b in" in page.text and "of 12 estimates" in page.text
    assert "Do the levels agree?" in page.text
    assert "all contrasts" in page.text
    assert "estimates significant on pairs (too many) there remain" in page.text


def test_one_encoder_or_model_is_said_to_allow_no_comparison(tmp_path):
    inputs.write_results(tmp_path, models=["m"], encoders=["e"], grid=inputs.SMALL_GRID)
    text = Elements(inputs.make_report(tmp_path).read_text()).text
    assert "Only one encoder was used, so nothing tells how far the estimates depend on it." in text
    assert "One model was run; its mean cosine by group and temperature stands in" in text


def calibration_file(folder: Path) -> Path:
    """A table of rates of every test: nulls rejected in 5, 20, 70 and 2% of the studies."""
    shared = {"design": "4 x 2 groups", "texts": 50, "scope": "formats fixed", "studies": 20_000}
    shared |= {"formats": 13}
    shared |= {"contrast": "treatment race[Asian]", "slope": 0.04, "seed": 4, "version": 1}
    rates = {"text, formats fixed": 0.05, "cell": 0.002, "pairwise": 0.7}
    rates |= {"text, formats random": 0.003}
    rows = [
        shared
        | {"study": study, "effect": effect, "test": test}
        | {
            "rejected": rejected,
            "rejected_low": rejected - 0.001,
            "rejected_high": rejected + 0.001,
        }
        | {"covered": 0.95, "covered_low": 0.949, "covered_high": 0.951}
        for test, rate in rates.items()
        for study, effect, rejected in (
            (SHOWN_STUDIES["null"], 0.0, rate),
            (SHOWN_STUDIES["effect"], 0.04, 0.9),
        )
    ]
    path = folder / "calibration.csv"
    pl.DataFrame(rows, schema=SCHEMA).write_csv(path)
    return path


def test_the_methods_show_how_often_the_tests_are_wrong_if_a_table_says_so(tmp_path):
    shown = arrange_calibration(calibration_file(tmp_path))
    rates = {row["test"]: (row["false_positives"], row["power"]) for row in shown["rows"]}
    assert rates["text level, formats fixed"] == ("5%", "90%")
    assert rates["pairwise level"] == ("70%", "90%")
    assert [row["test"] for row in shown["rows"] if not row["keeps_level"]] == ["pairwise level"]
    assert [row["test"] for row in shown["rows"] if row["own"]] == ["text level, formats fixed"]
    assert (shown["fewest_texts"], shown["fewest_names"]) == (50, None)
    assert shown["figure"]["uri"].startswith("data:image/svg+xml;base64,")
    assert "text, formats fixed" in shown["figure"]["alt"]
    assert arrange_calibration(None) is None


@pytest.fixture(scope="module")
def names_page(tmp_path_factory) -> Elements:
    folder = tmp_path_factory.mktemp("names")
    for study, match in (("names", "none"), ("names-matched", "frequency")):
        inputs.write_results(
            folder,
            study,
            ["model-a", "model-b"],
            ["e"],
            (("0", "1.0"), ("0.2", "1.0")),
            design=inputs.NAMES_DESIGN,
            match=match,
        )
    return Elements(inputs.make_report(folder).read_text())


def test_a_study_of_names_raises_no_alarm_of_repeats_that_it_cannot_have(names_page):
    assert "no prompt has two texts in a setting" in names_page.text
    assert "names, above 20%" not in names_page.text
    assert "prompts whose draws are all the same text" not in names_page.text
    assert "Is greedy decoding deterministic?" not in names_page.text
    assert "No prompt was drawn more than once in a setting" in names_page.text
    assert "0 of 0" not in names_page.text


def test_a_study_of_names_says_across_what_its_texts_are_compared(names_page):
    assert "made of format × group × name." in names_page.text
    assert "inside one format × group, across its names, by the cosine" in names_page.text
    assert "nothing is tested there" not in names_page.text


def test_the_names_of_a_study_are_shown_with_how_frequent_they_are(names_page):
    assert "Each group's most frequent names were chosen from resources/surnames.csv" in (
        names_page.text
    )
    assert "Names were chosen to be about equally frequent in every group" in names_page.text
    for number in ("3,963", "1,801,000", "0.08", "0.94"):
        assert number in names_page.text


def test_studies_of_names_stand_side_by_side(names_page):
    assert names_page.text.count("Names chosen in several ways") == 2
    assert "overlap of frequencies with the reference: Black 0.94, Hispanic 0.94" in (
        names_page.text
    )
    assert "names: most frequent names" in names_page.text


def test_one_study_of_names_has_nothing_beside_it(html):
    assert "Names chosen in several ways" not in html


def test_each_study_has_its_section(tmp_path):
    for study in ("labels", "ages"):
        inputs.write_results(
            tmp_path, study=study, models=["m"], encoders=["e"], grid=inputs.SMALL_GRID
        )
    page = Elements(inputs.make_report(tmp_path).read_text())
    ids = {attributes.get("id") for _, attributes in page.found}
    assert {"study-labels", "study-ages", "study-labels-draws", "study-ages-draws"} <= ids


def test_a_figure_is_known_by_its_path():
    path = Path("results/figures/labels/my-model/all-mpnet-base-v2-cell.svg")
    assert locate_figures([path]) == {("labels", "my-model", "all-mpnet-base-v2", "cell"): path}
    marginal = path.with_name("my-text-text-fixed-marginal.svg")
    (place,) = locate_figures([marginal])
    assert place == ("labels", "my-model", "my-text", "text-fixed-marginal")
    with pytest.raises(ValueError, match=r"STUDY/MODEL/ENCODER-KIND\.svg"):
        locate_figures([Path("figure.svg")])


def test_where_the_draws_were_made_is_told_and_escaped(html):
    section = html[html.index("Where the draws were made") :]
    row = section[section.index("&lt;b&gt;node-7&lt;/b&gt;") :]
    cells = [cell.split("<")[0] for cell in row.split('<td class="number">')[1:7]]
    assert cells == ["3", "1", "12,345", "678,901", "2.0", "5,432"]
    assert "<b>node-7" not in html


def test_a_manifest_that_is_no_json_object_is_named(tmp_path):
    path = tmp_path / "m.json"
    for content in ("not json", json.dumps([1])):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"m\.json: is no JSON"):
            read_manifest(path)


def test_inner_values_of_a_manifest_have_dotted_names():
    value = {"a": {"b": 1, "c": {}}, "d": [], "e": [{"f": "x"}, {"f": "y"}], "g": False}
    assert flatten(value) == {"a.b": "1", "e 1.f": "x", "e 2.f": "y", "g": "false"}


def test_credentials_in_a_url_are_blotted_out():
    assert without_credentials("at http://me:pw@host/v1 now") == "at http://***@host/v1 now"
    assert without_credentials("https://host/a@b") == "https://host/a@b"


def test_versions_of_what_makes_numbers_are_known():
    assert {"llm-variability", "polars", "numpy", "matplotlib"} <= package_versions().keys()


def test_the_commit_is_forty_hexadecimal_digits_where_there_is_one():
    commit = find_commit()
    assert commit is None or len(commit.split(",")[0]) == 40
