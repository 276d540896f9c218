"""Large studies by dry run: which jobs there are, and how long their commands get."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from types import ModuleType

import pytest
import yaml

from llm_variability.config import load_settings
from running import HOME, Workspace


@pytest.fixture(scope="module")
def scale() -> ModuleType:
    """The benchmark, which builds the large configuration and reads dry runs."""
    spec = importlib.util.spec_from_file_location("scale", HOME / "benchmarks/scale.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module


def plan(workspace: Workspace, scale: ModuleType) -> tuple[Counter[str], tuple[int, str]]:
    """Jobs by rule, and the longest command with its rule."""
    told = workspace.attempt("--dry-run", "-p")
    assert told.returncode == 0, told.stdout[-3000:]
    jobs, _, longest = scale.read_jobs(iter(told.stdout.splitlines(keepends=True)))
    return jobs, longest


def test_the_published_homogeneity_study_has_these_jobs(
    workspace: Workspace, scale: ModuleType
) -> None:
    workspace.configure(scale.read_config("homogeneity.yaml"))
    jobs, _ = plan(workspace, scale)
    models, encoders, studies, settings = 7, 3, 2, 21
    measured = models * encoders * studies
    assert jobs == {
        "generate": models * settings * studies,
        **dict.fromkeys(("count_draws", "lexical_diversity", "examples"), models * studies),
        **dict.fromkeys(("embed", "cosine", "vendi_score", "fit", "mean_cosine"), measured),
        "analyse_sensitivity": measured,
        # Of the two studies, labels have two factors and names one.
        **dict.fromkeys(("heatmap", "heatmap_one_factor"), models * encoders),
        **dict.fromkeys(("model_figures", "model_figures_one_factor"), encoders),
        **dict.fromkeys(("stimuli", "output_length", "adjust"), studies),
        **dict.fromkeys(("fetch_model", "throughput"), models),
        "fetch_encoder": encoders,
        **dict.fromkeys(("configuration", "tables", "report", "record", "all"), 1),
    }


def test_no_command_comes_near_the_limit_of_one_argument(
    workspace: Workspace, scale: ModuleType
) -> None:
    config = scale.build_large()
    config["models"] = dict(list(config["models"].items())[:2])
    workspace.configure(config)
    cells = load_settings([workspace.folder / "config.yaml"]).cells("code")
    paths = " ".join(f"results/draws/code/model-00/{cell}.parquet" for cell in cells)
    assert len(paths) > scale.ARGUMENT_LIMIT
    jobs, (length, rule) = plan(workspace, scale)
    assert jobs["generate_code"] == 2 * 100
    assert length < 100 * 1024, rule


def test_the_large_configuration_can_be_read(scale: ModuleType) -> None:
    read = yaml.safe_load(yaml.safe_dump(scale.build_large()))
    grid = read["grid"]
    assert len(read["models"]) == 50
    assert len(grid["temperature"]) * len(grid["top_p"]) == 100
    assert set(read["studies"]) == {"labels", "names", "code", "personas"}
