"""Time the default run from nothing: wall time by stage, tokens/s, peak memory, engine loads.

    python benchmarks/default_run.py [--configfile FILE] [--cores N]

Runs the workflow in a new temporary folder and prints one table in Markdown.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import psutil

HOME = Path(__file__).parents[1]
STAGES = {
    "fetch": "models and encoders (the model is converted)",
    "stimuli": "prompts",
    "personas": "prompts of personas, which come first: the engine's load included",
    "draws": "draws",
    "counts": "counts",
    "programs": "programs taken from replies",
    "embeddings": "embeddings",
    "features": "features of programs",
    "pairs": "similarity of programs",
    "curves": "curves",
    "wording": "wording of prompts",
    "separation": "within and between personas",
    "similarity": "cosines of texts",
    "fits": "fits",
    "sensitivity": "sensitivity",
    "diversity": "diversity",
    "adjusted": "adjusted p values",
    "report": "figures, tables, page",
}


def members(temporary: Path) -> Iterator[psutil.Process]:
    """List the processes of the run, engine included: those with its temporary folder."""
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR") == str(temporary):
                yield process
        except psutil.Error:
            continue


def memory_in_use(temporary: Path) -> int:
    """Sum the proportional set sizes of the run's processes, in bytes."""
    total = 0
    for process in members(temporary):
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def run_workflow(folder: Path, arguments: argparse.Namespace) -> tuple[float, int]:
    """Run it all; gives seconds and the peak of memory in use, in bytes."""
    temporary = folder / "tmp"
    temporary.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [
        *(sys.executable, "-m", "snakemake"),
        *("--snakefile", str(HOME / "Snakefile")),
        *("--workflow-profile", str(HOME / "profiles/default")),
        *("--directory", str(folder)),
        *("--cores", str(arguments.cores)),
    ]
    if arguments.configfile:
        command += ["--configfile", str(arguments.configfile.resolve())]
    begun, peak = time.monotonic(), 0
    with (folder / "output.txt").open("w") as output:
        run = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env={**os.environ, "PATH": path, "TMPDIR": str(temporary)},
        )
        while run.poll() is None:
            peak = max(peak, memory_in_use(temporary))
            time.sleep(5)
    if run.returncode:
        sys.exit((folder / "output.txt").read_text()[-3000:])
    return time.monotonic() - begun, peak


def stage_span(folder: Path) -> tuple[int, float, float]:
    """Give a stage's number of jobs, the wall time from its first to its last, and job seconds."""
    spans = []
    for path in folder.rglob("*.tsv"):
        with path.open() as file:
            seconds = float(next(csv.DictReader(file, delimiter="\t"))["s"])
        end = path.stat().st_mtime
        spans.append((end - seconds, end))
    wall = max(end for _, end in spans) - min(start for start, _ in spans)
    return len(spans), wall, sum(end - start for start, end in spans)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the default run from nothing.")
    parser.add_argument("--configfile", type=Path)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="run-") as name:
        folder = Path(name)
        wall, peak = run_workflow(folder, arguments)
        results = folder / "results"
        tables = [pl.read_parquet(path) for path in results.glob("draws/*/*/**/*.parquet")]
        tokens = sum(int(table["completion_tokens"].sum()) for table in tables)
        draws = sum(len(table) for table in tables)
        logs = [path.read_text(errors="replace") for path in results.glob("logs/engines/*.log")]
        print("| stage | jobs | wall time, s | job time, s |\n|---|---:|---:|---:|")
        for stage, title in STAGES.items():
            jobs, span, busy = stage_span(results / "benchmarks" / stage)
            print(f"| {title} | {jobs} | {span:.0f} | {busy:.0f} |")
            if stage == "draws":
                drawing = span
        print(f"| **whole run** | | **{wall:.0f}** | |\n")
        print(
            f"{draws} draws, {tokens} tokens, {tokens / drawing:.0f} tokens/s of the draws' time;"
        )
        print(f"{sum(text.count('load begins') for text in logs)} engine load(s);")
        print(f"peak memory {peak / 2**30:.1f} GiB; {arguments.cores} cores,")
        print(f"Python {platform.python_version()}, {platform.platform()}")


if __name__ == "__main__":
    main()
