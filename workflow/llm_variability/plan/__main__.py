"""python -m llm_variability.plan CONFIG...: what a study costs and what it can find."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

from llm_variability.config import ConfigError, Settings, canonical_number, load_settings, shown
from llm_variability.plan.counts import (
    CPU_TOKENS_PER_SECOND,
    UNKNOWN_DIMENSION,
    StudyCounts,
    count_code_studies,
    count_studies,
    estimate_disk,
    find_dimension,
)
from llm_variability.plan.population import PUBLISHED, Population, read_pilot
from llm_variability.plan.power import Layout, list_findings
from llm_variability.plan.screen import Plan, StudyPlan, to_json, to_text
from llm_variability.preflight import check_settings
from llm_variability.tables import Design, TableError

HOME = Path(__file__).parents[3]

FAMILIES = {
    "study": "contrasts of all models and settings",
    "model": "contrasts of all settings of a model",
    "setting": "contrasts of a setting",
}


def _positive(option: str, text: str | None, most: float, allowed: str) -> float | None:
    """Read a number of the command line. Raises ConfigError unless 0 < number < most."""
    if text is None:
        return None
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        number = math.nan
    if not 0 < number < most:
        raise ConfigError(f"{option}: {text} is not allowed. Allowed: {allowed}")
    return number


def _grid_value(option: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return canonical_number(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {text!r} is {error}") from None


def _read_pilots(arguments: argparse.Namespace) -> list[tuple[Population, Design]]:
    temperature = _grid_value("--temperature", arguments.temperature)
    top_p = _grid_value("--top-p", arguments.top_p)
    if not arguments.pilot and (temperature or top_p):
        raise ConfigError("--temperature and --top-p choose a pilot's setting: add --pilot FILE")
    for path in arguments.pilot:
        if not path.is_file():
            raise ConfigError(f"--pilot: {path} is no file")
    return [read_pilot(path, temperature, top_p) for path in arguments.pilot]


def choose_population(design: Design, pilots: list[tuple[Population, Design]]) -> Population:
    """Take the first pilot that compares what the study compares: texts, or names.

    If there is none, the first pilot; without pilots the published texts.
    """
    for population, of_pilot in pilots:
        if (of_pilot.unit is None) == (design.unit is None):
            return population
    return pilots[0][0] if pilots else PUBLISHED


def make_plan(settings: Settings, file: str, arguments: argparse.Namespace) -> Plan:
    """Count, simulate, and put together what is printed.

    Raises ConfigError, one line, for an option that is not allowed, TableError for a pilot that is
    no similarity table.
    """
    speed = _positive(
        "--tokens-per-second", arguments.tokens_per_second, 1e9, "a number of tokens above 0"
    )
    difference = _positive(
        "--difference", arguments.difference, 1, "a difference of cosines above 0, below 1"
    )
    tests = _positive("--tests", arguments.tests, 1e9, "a whole number of tests of at least 1")
    if tests is not None and tests != int(tests):
        raise ConfigError(f"--tests: {arguments.tests} is not allowed. Allowed: a whole number")
    pilots = _read_pilots(arguments)
    counts, code = count_studies(settings, HOME), count_code_studies(settings, HOME)
    dimensions = {
        name: find_dimension(name, encoder, Path(settings.results))
        for name, encoder in settings.encoders.items()
    }
    family = settings.fits.family

    def plan_study(study: StudyCounts) -> StudyPlan:
        layout = Layout(study.design, study.n_formats, choose_population(study.design, pilots))
        many = study.tests(family) if tests is None else int(tests)
        findings = list_findings(layout, study.n_texts, many, difference)
        return StudyPlan(study, layout.population, findings)

    return Plan(
        file=file,
        studies=[plan_study(study) for study in counts],
        models=list(settings.models),
        dimensions=dimensions,
        disk=estimate_disk(
            counts, [each or UNKNOWN_DIMENSION for each in dimensions.values()], code
        ),
        tokens_per_second=speed or CPU_TOKENS_PER_SECOND,
        measured=speed is not None,
        family=f"fits.family {family}, {FAMILIES[family]}" if tests is None else "--tests",
        difference=difference,
        code=code,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m llm_variability.plan",
        description="Say what a configuration costs and which differences it can find.",
    )
    parser.add_argument(
        "config", nargs="+", type=Path, help="configuration files, the later winning"
    )
    parser.add_argument("--tokens-per-second", help="what your device generates, for the hours")
    parser.add_argument(
        "--pilot",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="similarity table of a pilot run, results/similarity/STUDY/MODEL/ENCODER.parquet;"
        " may be given for labels and for names (default: published GPT-3.5 texts)",
    )
    parser.add_argument("--temperature", help="the pilot's setting (default: the highest)")
    parser.add_argument("--top-p", help="the pilot's setting (default: the highest)")
    parser.add_argument("--difference", help="find how many texts this difference of cosines needs")
    parser.add_argument("--tests", help="tests to correct for (default: those of fits.family)")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    arguments = parser.parse_args()
    try:
        settings = load_settings(arguments.config)
        check_settings(settings, arguments.config[-1], HOME)
        plan = make_plan(settings, shown(arguments.config[-1]), arguments)
    except (ConfigError, TableError) as error:
        sys.exit(str(error))
    if arguments.json:
        print(json.dumps(to_json(plan), indent=2))
    else:
        print(to_text(plan), end="")


if __name__ == "__main__":
    main()
