"""What is checked before any job starts, beyond the form of the configuration."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import polars as pl

from llm_variability.config import (
    GREEDY,
    ConfigError,
    Encoder,
    Model,
    NameSelection,
    Settings,
    Study,
    cell_name,
    find_resource,
    load_settings,
    shown,
)
from llm_variability.config_code import BANDS, Augmentation
from llm_variability.devices.inventory import list_devices
from llm_variability.fetch.weights import Kind, check_folder, find_in_package
from llm_variability.fits.text_variance import MIN_TEXTS
from llm_variability.linguistics.parsing import PACKAGE as PARSER
from llm_variability.report.wording import quantity
from llm_variability.stimuli.code import needs_wordnet, read_tasks
from llm_variability.stimuli.persona_file import locate_personas, read_personas
from llm_variability.stimuli.registry import check_stimuli, render_prompts

_OWN = ("formats: ", "tasks: ", *(f"names.{field}: " for field in NameSelection.model_fields))
"""How a message begins that is about a key of the study, not about its stimuli file."""


def _weights_problem(kind: Kind, settings: Model | Encoder) -> str | None:
    try:
        if settings.path is not None:
            check_folder(kind, Path(settings.path))
        if settings.package is not None:
            find_in_package(kind, settings.package)
    except ConfigError as error:
        return f"{'path' if settings.path is not None else 'package'}: {error}"
    key = getattr(settings, "api_key_env", None)
    if key is not None and not os.environ.get(key):
        return f"api_key_env: the environment variable {key} is not set"
    return None


def _grammar_problems(study: Study, folder: Path) -> Iterator[str]:
    """Which grammars a study's tasks lack here. Raises ConfigError if they cannot be read."""
    from llm_variability.code.languages import load_grammar

    for language in sorted({task.language for _, task in read_tasks(folder, study).values()}):
        try:
            load_grammar(language)
        except ConfigError as error:
            yield f"tasks: {error}"


def _kind_problems(settings: Settings, study: Study, folder: Path) -> Iterator[str]:
    """What a study lacks here beside its stimuli. Raises ConfigError if tasks cannot be read."""
    if study.kind in ("code", "personas"):
        yield from _grammar_problems(study, folder)
    if study.kind == "code":
        yield from _code_problems(settings, study)
    if study.kind == "personas":
        yield from _persona_problems(study)


def _code_problems(settings: Settings, study: Study) -> Iterator[str]:
    """What a study of code lacks here, beside its tasks' grammars."""
    from llm_variability.augmentation.published import check_published_synonyms
    from llm_variability.augmentation.wordnet import check_source

    methods = (study.augmentation or Augmentation()).methods
    try:
        if "nlpaug-synonym" in methods:
            check_published_synonyms()
        if needs_wordnet(study):
            check_source(settings.wordnet.source)
    except ConfigError as error:
        yield f"augmentation.methods: {error}"


def _persona_problems(study: Study) -> Iterator[str]:
    """What a study of personas lacks here, beside its tasks' grammars."""
    assert study.personas is not None  # config.Study makes sure of it
    try:
        read_personas(locate_personas(study.personas), study.personas)
    except ConfigError as error:
        yield from (f"personas.file: {line}" for line in str(error).splitlines())
    for package in ("spacy", PARSER):
        if find_spec(package) is None:
            yield f"kind: personas needs the package {package}, which is not installed"


def _problems(settings: Settings, home: Path) -> Iterator[str]:
    for name, model in settings.models.items():
        if problem := _weights_problem("model", model):
            yield f"models.{name}.{problem}"
    for name, encoder in settings.encoders.items():
        if problem := _weights_problem("encoder", encoder):
            yield f"encoders.{name}.{problem}"
    for name, study in settings.studies.items():
        path = find_resource(study.stimuli, home)
        try:
            check_stimuli(path, study)
            for problem in _kind_problems(settings, study, path):
                yield f"studies.{name}.{problem}"
        except ConfigError as error:
            told = str(error)
            yield f"studies.{name}.{told if told.startswith(_OWN) else f'stimuli: {told}'}"
    texts = settings.validation.texts
    if texts is not None and not Path(texts).is_file():
        yield f"validation.texts: {texts} is no file"


def check_settings(settings: Settings, file: Path, home: Path) -> None:
    """Check that every file, folder and package the configuration names is there and usable.

    file: the configuration, named in the message. home: the workflow's folder.
    Raises ConfigError with one line a problem.
    """
    list_devices()  # raises ConfigError if a variable of the environment names none
    problems = [f"{shown(file)}: {problem}" for problem in _problems(settings, home)]
    if problems:
        raise ConfigError("\n".join(problems))


def _describe_made_prompts(study: Study, prompts: pl.DataFrame) -> str:
    """Say how many prompts a model is asked for before a study's draws. prompts: the outline."""
    if (how := study.personas) is not None:
        askers = prompts.select("task", "persona").unique().height
        asked = askers * how.iterations
        line = (
            f" (fewer where no prompt can be used); before that {asked:,} prompts by {how.model},"
            f" each tried up to {quantity(how.attempts, 'time')}"
        )
        if study.dialogue is not None:
            line += (
                "; as many dialogues again, with up to"
                f" {quantity(study.dialogue.exchanges, 'exchange')} each"
            )
        return line
    line = " (fewer where variants come out alike)"
    if (reworded := study.paraphrase) is not None:
        asked = prompts["task"].n_unique() * len(BANDS) * len(reworded.temperatures)
        line += (
            f"; before that {asked * reworded.variants:,} paraphrases by {reworded.model}, each of"
            " which makes a prompt more if it can be used"
        )
    return line


def describe_draws(settings: Settings, home: Path) -> Iterator[str]:
    """Say, a line a study, how many draws it makes, and what will keep it from being fitted.

    settings: checked ones. home: the workflow's folder.
    """
    for name, study in settings.studies.items():
        cells = settings.grid_of(name).cells()
        stimuli = render_prompts(find_resource(study.stimuli, home), study)
        prompts, design = stimuli.prompts, stimuli.design
        greedy, sampled = prompts["greedy_replicates"].sum(), prompts["replicates"].sum()
        draws = sum(greedy if cell == cell_name(GREEDY, None) else sampled for cell in cells)
        line = (
            f"{name}: {len(prompts):,} prompts at {quantity(len(cells), 'setting')}:"
            f" {draws:,} draws a model, {draws * len(settings.models):,} in all"
        )
        if study.kind in ("code", "personas"):
            line += _describe_made_prompts(study, prompts)
            yield line
            continue
        texts = prompts.group_by(design.group).agg(pl.col("replicates").sum())["replicates"]
        if min(texts) < MIN_TEXTS:
            line += (
                f"; with {min(texts)} texts a group and {design.block} there is no level text: it"
                f" takes {MIN_TEXTS}"
            )
        if prompts[design.block].n_unique() < 2:
            line += (
                f"; with one {design.block} there is level text, formats fixed, and no mixed model"
            )
        yield line


def hold_results(results: str) -> None:
    """Take the results folder for this run, or end in one line if another run has it."""
    try:
        RunLock(results).take()
    except ConfigError as error:
        sys.exit(str(error))


def main() -> None:
    """Check configuration files given on the command line."""
    files = [Path(name) for name in sys.argv[1:]]
    if not files:
        sys.exit("usage: python -m llm_variability.preflight FILE...")
    try:
        settings = load_settings(files)
        check_settings(settings, files[-1], Path(__file__).parents[2])
    except ConfigError as error:
        sys.exit(str(error))
    print(
        f"{shown(files[-1])}: nothing wrong. Models: {', '.join(settings.models)};"
        f" encoders: {', '.join(settings.encoders)}; studies: {', '.join(settings.studies)};"
        f" settings: {', '.join(settings.grid.cells())}"
    )
    for line in describe_draws(settings, Path(__file__).parents[2]):
        print(line)


def share_package(folder: Path) -> None:
    """Let every job import the package of this checkout, also where it is not installed."""
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = [str(folder), *(other for other in others if other not in ("", str(folder)))]
    os.environ["PYTHONPATH"] = os.pathsep.join(kept)


class RunLock:
    """The right to run in a results folder, for one run at a time.

    Held through a file lock, which the kernel drops however the run ends: after a crash nothing
    has to be unlocked, unlike with Snakemake's own lock (which the default profile switches off).
    """

    _held: ClassVar[list[int]] = []

    def __init__(self, results: str) -> None:
        self.path = Path(results) / ".run.lock"

    def take(self) -> None:
        """Take the lock until this process ends. Raises ConfigError if another run has it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.read(handle, 100).decode(errors="replace").strip()
            os.close(handle)
            raise ConfigError(f"{self.path.parent}: {other} is working here; wait for it") from None
        os.ftruncate(handle, 0)
        os.write(handle, f"run {os.getpid()} on {os.uname().nodename}".encode())
        self._held.append(handle)


if __name__ == "__main__":
    main()
