"""What a large study costs, by dry run: `python benchmarks/scale.py [--tokens-per-second N]`.

Two configurations: the published homogeneity study (config/homogeneity.yaml), and one of 50 models
x 100 settings x 4 studies (labels, names, code and personas, put together from the shipped files).
Nothing is fetched or drawn. Seconds and memory are those of `snakemake -n` into an empty results
folder; jobs, files and commands those that it prints; draws, tokens and bytes those of
`python -m llm_variability.plan`, answers as long as they may be. Hours are tokens over an assumed
speed, that of one engine on one GPU.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from llm_variability.config import load_settings
from llm_variability.plan.counts import (
    UNKNOWN_DIMENSION,
    CodeCounts,
    StudyCounts,
    count_code_studies,
    count_studies,
    estimate_disk,
    find_dimension,
)

HOME = Path(__file__).parents[1]
ARGUMENT_LIMIT = 128 * 1024
"""Bytes of one argument of a program (MAX_ARG_STRLEN of Linux); a job's command is one."""

N_MODELS = 50
N_TEMPERATURES = 20
TOP_P = [0.2, 0.4, 0.6, 0.8, 1.0]


def read_config(name: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((HOME / "config" / name).read_text("utf-8"))
    return config


def build_large(n_models: int = N_MODELS) -> dict[str, Any]:
    """Put the published studies together, each over made-up models and 100 settings."""
    models = {
        f"model-{number:02d}": {"hub": f"org/model-{number:02d}", "revision": "0" * 40}
        for number in range(n_models)
    }
    homogeneity = read_config("homogeneity.yaml")
    studies = {
        name: {key: value for key, value in study.items() if key != "grid"}
        for config in (
            homogeneity,
            read_config("code-sensitivity.yaml"),
            read_config("personas.yaml"),
        )
        for name, study in config["studies"].items()
    }
    for study in studies.values():
        for helper in ("paraphrase", "personas"):
            if helper in study:
                study[helper] = {**study[helper], "model": next(iter(models))}
    temperatures = [round(0.1 * step, 1) for step in range(1, N_TEMPERATURES + 1)]
    return {
        "environment": "gpu",
        "seed": 1,
        "models": models,
        "encoders": homogeneity["encoders"],
        "grid": {"temperature": temperatures, "top_p": TOP_P},
        "studies": studies,
    }


@dataclass(frozen=True)
class DryRun:
    """What a dry run took and printed; files: outputs, logs and benchmarks."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    jobs: Counter[str]
    files: int
    longest_command: tuple[int, str]


def read_jobs(lines: Iterator[str]) -> tuple[Counter[str], int, tuple[int, str]]:
    """Read jobs by rule, how many files they write, and the longest command and its rule."""
    jobs: Counter[str] = Counter()
    files, longest = 0, (0, "")
    rule = ""
    command: list[str] | None = None
    for line in lines:
        if found := re.match(r" *(?:local)?rule (\w+):$", line):
            rule = found[1]
            jobs[rule] += 1
        elif found := re.match(r" +(output|log|benchmark): (.*)", line):
            files += found[2].count(", ") + 1
        elif line.startswith("Shell command:"):
            command = [line.removeprefix("Shell command:")]
        elif command is not None and not line.strip():
            longest = max(longest, (len("".join(command).encode()), rule))
            command = None
        elif command is not None:
            command.append(line)
    return jobs, files, longest


def dry_run(file: Path, folder: Path, profile: Path) -> DryRun:
    """Time `snakemake -n` in an empty folder, then let it print the commands."""
    command = [sys.executable, "-m", "snakemake", "-n", "--snakefile", str(HOME / "Snakefile")]
    command += ["--directory", str(folder), "--configfile", str(file)]
    command += ["--workflow-profile", str(profile.resolve())]
    printed = folder / "printed.txt"
    with printed.open("w") as stream:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(printed.read_text()[-3000:])
    with printed.open("w") as stream:
        subprocess.run([*command, "-p"], stdout=stream, stderr=subprocess.STDOUT, check=True)
    with printed.open() as stream:
        jobs, files, longest = read_jobs(stream)
    cpu = used.ru_utime + used.ru_stime
    return DryRun(seconds, cpu, used.ru_maxrss * 1024, jobs, files, longest)


def measure(
    file: Path, folder: Path, speed: float, profile: Path
) -> tuple[dict[str, str], Counter[str]]:
    """Give a configuration's rows of the table, and its jobs by rule."""
    settings = load_settings([file])
    groups, code = count_studies(settings, HOME), count_code_studies(settings, HOME)
    studies: list[StudyCounts | CodeCounts] = [*groups, *code]
    dimensions = [
        find_dimension(name, encoder, Path(settings.results)) or UNKNOWN_DIMENSION
        for name, encoder in settings.encoders.items()
    ]
    disk = estimate_disk(groups, dimensions, code)
    tokens = sum(each.answer_tokens for each in studies)
    asked = sum(each.prompt_tokens for each in studies)
    draws = sum(each.all_draws for each in studies)
    journals = sum(each.n_models * each.n_settings for each in studies)
    ran = dry_run(file, folder, profile)
    length, rule = ran.longest_command
    return {
        "models, studies": f"{len(settings.models)}, {len(settings.studies)}",
        "settings": str(len(settings.grid.cells())),
        "jobs": f"{ran.jobs.total():,}",
        "`snakemake -n`: seconds of CPU": f"{ran.cpu_seconds:.1f}",
        "`snakemake -n`: seconds": f"{ran.seconds:.1f}",
        "`snakemake -n`: peak MiB": f"{ran.peak_bytes / 2**20:,.0f}",
        "longest command, bytes": f"{length:,} ({rule})",
        "of what Linux allows": f"{length / ARGUMENT_LIMIT:.1%}",
        "files (outputs, logs, benchmarks)": f"{ran.files:,}",
        "journals": f"{journals:,}",
        "draws": f"{draws:,}",
        "answer tokens, at most": f"{tokens / 1e9:,.2f} billion",
        "prompt tokens, about": f"{asked / 1e9:,.2f} billion",
        "draws with their journals, GB": f"{disk.draws / 1e9:,.1f}",
        "vectors, GB": f"{disk.vectors / 1e9:,.1f}",
        "similarity and fits, GB": f"{(disk.similarity + disk.fits) / 1e9:,.1f}",
        f"GPU hours, if a GPU makes {speed:,.0f} tokens/s": f"{tokens / speed / 3600:,.0f}",
    }, ran.jobs


def print_table(columns: dict[str, dict[str, str]]) -> None:
    """Print a Markdown table; columns by their titles, each by the titles of its rows."""
    print(f"| | {' | '.join(columns)} |")
    print(f"|---|{'---:|' * len(columns)}")
    rows = dict.fromkeys(row for column in columns.values() for row in column)
    for row in rows:
        print(f"| {row} | {' | '.join(column.get(row, '') for column in columns.values())} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tokens-per-second", type=float, default=3000, help="assumed of an engine on one GPU"
    )
    parser.add_argument(
        "--models", type=int, default=N_MODELS, help="models of the large configuration"
    )
    parser.add_argument("--workflow-profile", type=Path, default=HOME / "profiles/default")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="only write the large configuration to FILE"
    )
    arguments = parser.parse_args()
    if arguments.write:
        arguments.write.write_text(
            yaml.safe_dump(build_large(arguments.models), sort_keys=False), "utf-8"
        )
        return
    figures: dict[str, dict[str, str]] = {}
    jobs: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        large = Path(temporary) / "large.yaml"
        large.write_text(yaml.safe_dump(build_large(arguments.models), sort_keys=False), "utf-8")
        for title, file in (
            ("published homogeneity study", HOME / "config/homogeneity.yaml"),
            (f"{arguments.models} models x 100 settings x 4 studies", large),
        ):
            folder = Path(temporary) / file.stem
            folder.mkdir()
            figures[title], counted = measure(
                file, folder, arguments.tokens_per_second, arguments.workflow_profile
            )
            jobs[title] = {f"`{rule}`": f"{count:,}" for rule, count in counted.most_common()}
    print_table(figures)
    print()
    print_table(jobs)


if __name__ == "__main__":
    main()
