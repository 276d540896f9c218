"""Every command in the documentation is run, in a copy of the repository, or by a test named here.

A page's blocks are followed in their order: `sh` commands are run, and a block with a title is
written where its title says (one for a configuration is merged into it). What cannot be run here
stands in `RUN_ELSEWHERE`, with the test that does; what takes long is planned by a dry run.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from llm_variability.config import Settings, load_settings

HOME = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(HOME).as_posix()
    for pattern in ("*.md", "docs/*.md", "config/*.md", "profiles/*.md", "resources/*/*.md")
    for path in HOME.glob(pattern)
)

RUN_ELSEWHERE = {
    r"\. \.venv(-gpu)?/bin/activate": "unit/test_environments.py::test_a_fresh_venv_is_usable",
    r"snakemake --report .*": (
        "workflow/test_reruns.py::test_snakemakes_own_report_holds_every_figure_and_table_of_the_page"
    ),
    r"snakemake .*--sdm conda": (
        "unit/test_environments.py::test_conda_files_have_the_pins_of_the_lock"
    ),
    r"python -m http.server .*": (
        "browser/test_docs_in_browser.py::test_a_word_is_found_by_the_search"
    ),
    r"sbatch .*": (
        "slurm/test_study.py::test_a_study_runs_inside_one_allocation_without_the_plugin"
    ),
    r"python -m llm_variability.diversity differentiation .*": (
        "unit/test_diversity_cli.py::test_groups_can_be_crossed_and_long_completions_left_out"
    ),
    r"cp results/calibration/\S+ .*|python -m llm_variability.calibration document .*": (
        "statistics/test_calibration.py::test_the_command_simulates_draws_and_documents"
    ),
    r"python resources/surnames/derive_surnames.py": (
        "unit/test_surnames.py::test_the_file_is_what_the_script_derives"
    ),
}
"""Commands, and the test that runs them, or what stands for them, here."""

DRY_RUN = r"snakemake (?!.*(-n\b|--report)).*"
"""Runs of studies take minutes, a GPU or a network: these are planned. `workflow/test_engine.py`
and the others of that folder run small studies whole, `workflow/test_offline.py` what fetches."""

ONLY_HELP = r"(python benchmarks/\w+\.py)\b.*"
"""Benchmarks take minutes to hours, or files that are not here: that they start is tested."""

MAKE = r"make .*"
"""Installs and runs: make says what it would do. CI does it: it runs `make test`."""

PLACEHOLDERS = {"MODEL": "SmolLM2-135M-Instruct"}

_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    title: str | None
    text: str

    def commands(self) -> Iterator[str]:
        """Give the commands, without comments, each by itself."""
        for line in self.text.replace("\\\n", " ").splitlines():
            told = " ".join(re.sub(r"(^|\s)# .*", "", line).split())
            yield from (command for command in told.split(" && ") if command)


def blocks(page: str) -> list[Block]:
    text = (HOME / page).read_text(encoding="utf-8")
    return [Block(each[1], each[2], each[3]) for each in _BLOCK.finditer(text)]


def load(path: str) -> ModuleType:
    """Load what makes the results of the unit tests; their folder is not on the path here."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, HOME / path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Copy:
    """A copy of the repository, with a configuration of one's own and some results."""

    folder: Path
    done: set[tuple[str, str]]
    exports: list[str] = field(default_factory=list)

    def write(self, block: Block) -> None:
        """Write a block with a title; one for a configuration is merged into what is there."""
        path = self.folder / str(block.title)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = block.text
        if path.parent.name == "config":
            merged = merge(yaml.safe_load(path.read_text()), yaml.safe_load(text))
            text = yaml.safe_dump(merged, sort_keys=False)
        path.write_text(text, encoding="utf-8")

    def run(self, command: str) -> None:
        for name, value in PLACEHOLDERS.items():
            command = re.sub(rf"\b{name}\b", value, command)
        if re.fullmatch(MAKE, command):
            command = command.replace("make ", "make -n ", 1)
        elif found := re.fullmatch(ONLY_HELP, command):
            command = f"{found[1]} --help"
        elif re.fullmatch(DRY_RUN, command):
            command = f"{command} -n -q rules"
        if command.startswith("export "):
            self.exports.append(command)
        command = "; ".join(dict.fromkeys([*self.exports, command]))
        state = (command, (self.folder / "config/mine.yaml").read_text(encoding="utf-8"))
        if state in self.done:
            return
        told = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert told.returncode == 0, f"{command}\n{told.stdout[-3000:]}"
        self.done.add(state)

    def environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        source = str(self.folder / "workflow")
        return {**os.environ, "PATH": path, "PYTHONPATH": source, "TMPDIR": str(self.folder)}


def merge(base: dict, update: dict) -> dict:  # type: ignore[type-arg]
    merged = dict(base)
    for key, value in update.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files of the repository."""
    folder = tmp_path_factory.mktemp("repository")
    names = ("workflow", "config", "docs", "profiles", "resources", "envs", "benchmarks")
    for name in names:
        shutil.copytree(
            HOME / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
    for name in ("Snakefile", "Makefile", "pyproject.toml", "mkdocs.yml", *HOME.glob("*.md")):
        shutil.copy(HOME / name, folder)
    return folder


@pytest.fixture(scope="module")
def done() -> set[tuple[str, str]]:
    """Commands that were run, each with the configuration it found."""
    return set()


@pytest.fixture
def copy(repository: Path, done: set[tuple[str, str]]) -> Iterator[Copy]:
    shutil.copy(repository / "config/config.yaml", repository / "config/mine.yaml")
    yield Copy(repository, done)
    for name in ("mine", "results", "profiles/mine"):
        shutil.rmtree(repository / name, ignore_errors=True)


def runs_elsewhere(command: str) -> bool:
    return any(re.fullmatch(pattern, command) for pattern in RUN_ELSEWHERE)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(each.language == "sh" for each in blocks(page))]
)
def test_commands_of_a_page_run_in_their_order(page: str, copy: Copy) -> None:
    made = load("tests/unit/status_inputs.py").MadeResults(copy.folder / "results")
    made.configure(load("tests/unit/status_inputs.py").labels_config())
    for block in blocks(page):
        if block.title:
            copy.write(block)
        elif block.language == "sh":
            for command in block.commands():
                if not runs_elsewhere(command):
                    copy.run(command)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(each.language == "python" for each in blocks(page))]
)
def test_python_of_a_page_runs_on_results(page: str, copy: Copy) -> None:
    load("tests/unit/report_inputs.py").write_results(
        copy.folder / "results",
        models=["SmolLM2-135M-Instruct"],
        encoders=["all-MiniLM-L6-v2"],
        grid=(("0", "1.0"), ("1.0",)),
        further=False,
    )
    for block in blocks(page):
        if block.language == "python":
            script = copy.folder / "results/block.py"
            script.write_text(block.text, encoding="utf-8")
            copy.run("python results/block.py")


@pytest.mark.parametrize("page", PAGES)
def test_configuration_shown_on_a_page_is_allowed(page: str, tmp_path: Path) -> None:
    """Parts of a configuration, each laid over the default one."""
    further = {"hub": "allenai/OLMo-2-1124-7B-Instruct", "revision": "0" * 40}
    models = {"SmolLM2-135M-Instruct": {"max_model_len": 4096}, "OLMo-2-7B": further}
    with_room = tmp_path / "room.yaml"
    with_room.write_text(yaml.safe_dump({"models": models}), encoding="utf-8")
    part = tmp_path / "part.yaml"
    for block in blocks(page):
        values = yaml.safe_load(block.text) if block.language == "yaml" else None
        if isinstance(values, dict) and set(values) <= set(Settings.model_fields):
            part.write_text(block.text, encoding="utf-8")
            load_settings([HOME / "config/config.yaml", with_room, part])


@pytest.mark.parametrize("test", sorted(set(RUN_ELSEWHERE.values())))
def test_what_runs_a_command_elsewhere_is_a_test(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (HOME / "tests" / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("pattern", sorted(RUN_ELSEWHERE))
def test_no_command_is_excused_that_no_page_has(pattern: str) -> None:
    shown = {command for page in PAGES for block in blocks(page) for command in block.commands()}
    assert any(re.fullmatch(pattern, command) for command in shown)


def inline_commands() -> list[str]:
    """Commands in running text, as in `python benchmarks/fits.py --repeats 3`."""
    text = "\n".join((HOME / page).read_text(encoding="utf-8") for page in PAGES)
    text = " ".join(re.sub(r"```.*?```", "", text, flags=re.DOTALL).split())
    return sorted(set(re.findall(r"`((?:python -m |python \S+\.py|pytest |make )[^`]+)`", text)))


@pytest.mark.parametrize("command", inline_commands())
def test_a_command_in_running_text_names_what_there_is(command: str) -> None:
    """Scripts, modules, tests and targets that are there, with the options that they have."""
    program, first, *rest = command.split()
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (HOME / "Makefile").read_text(), re.MULTILINE)
        assert first in targets
        return
    if first == "-m":
        first, *rest = rest
        if not first.startswith("llm_variability.") or "<" in first:
            return
        module = HOME / "workflow" / first.replace(".", "/")
        sources = [*module.glob("__main__.py"), *module.glob("*.py"), module.with_suffix(".py")]
    else:
        sources = [HOME / first]
    text = "".join(path.read_text(encoding="utf-8") for path in sources if path.is_file())
    assert text, f"{first} is not there"
    if program == "python":
        given = [each.split("=")[0] for each in rest if each.startswith("--") and each != "--help"]
        assert not [each for each in given if f'"{each}"' not in text]
