"""How long the code stage takes on a made-up study of the published size.

    python benchmarks/code_study.py [--tasks 206] [--draws 5] [--settings 1] [--threads 1]

Tasks are functions of the standard library of 50 to 150 named nodes; there are as many as fit, and
then they are taken again. A draw is its task's function with some of its statements taken out, said
twice or taken from other functions, more of them at a higher rate, so that nearly every draw is a
tree of its own. Three methods at ten rates make 30 augmentations beside the original. What is timed
are the commands that the rules run, on files, each in a process of its own: `extract`, `tsed` (both
variants), and `cosine` on vectors of 384 numbers drawn at random. For each: wall time, CPU time and
the most memory; then what a `tsed` job costs before it compares anything, from a study of two
tasks, and the time of listing pairs and of averaging, which `tsed` does for each variant.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from llm_variability.code.averages import average_pairs
from llm_variability.code.pairs import choose_floor_tasks, list_pairs
from llm_variability.code.trees import parse_code, read_named_nodes
from llm_variability.similarity.embedding import hash_text
from llm_variability.table_contract import Design
from llm_variability.tables import DRAWS, EMBEDDINGS, read_table, write_table
from llm_variability.tables_code import AUGMENTATIONS, PROGRAMS

LIBRARY = Path(os.__file__).parent
DESIGN = Design(
    "task", (), carried=("set", "language", "augmentation", "method", "rate", "variant")
)
SETS = {"humaneval": 164, "fresh": 20, "open": 22}
METHODS = ("keyboard", "synonym", "nlpaug-keyboard")
RATES = [f"{tenth / 10}" for tenth in range(1, 11)]
FLOOR_TASKS = 20


def collect_functions() -> list[ast.FunctionDef]:
    """Collect the functions of the standard library that have 50 to 150 named nodes."""
    found = []
    for path in sorted(LIBRARY.glob("*.py")):
        source = path.read_text(encoding="utf-8", errors="replace")
        try:
            module = ast.parse(source)
        except SyntaxError:
            continue
        for node in module.body:
            if isinstance(node, ast.FunctionDef):
                nodes = len(read_named_nodes(parse_code(ast.unparse(node), "python")))
                if 50 <= nodes <= 150:
                    found.append(node)
    return found


def vary(
    function: ast.FunctionDef, rate: float, pool: list[ast.stmt], chance: random.Random
) -> str:
    """Write a function with some statements taken out, doubled or taken from others."""
    varied = copy.deepcopy(function)
    for node in ast.walk(varied):
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if not isinstance(body, list) or not body:
                continue
            kept: list[ast.stmt] = []
            for statement in body:
                drawn = chance.random() / (0.1 + 0.6 * rate)
                if drawn > 1:
                    kept.append(statement)
                elif drawn > 0.6:
                    kept += [statement, statement]
                elif drawn > 0.3:
                    kept += [statement, chance.choice(pool)]
            setattr(node, name, kept or [ast.Pass()])
    return ast.unparse(varied)


def list_prompts(tasks: int) -> Iterator[dict[str, str]]:
    names = [(group, f"{group}/{number}") for group, n in SETS.items() for number in range(n)]
    augmentations = [("original", "original", "0")] + [
        (f"{method}-{rate}", method, rate) for method in METHODS for rate in RATES
    ]
    for augmentation, method, rate in augmentations:
        for group, task in names[:tasks]:
            yield {
                "task": task,
                "set": group,
                "language": "python",
                "augmentation": augmentation,
                "method": method,
                "rate": rate,
                "variant": "0",
                "prompt_id": hash_text(f"{task} {augmentation}"),
            }


def make_study(folder: Path, tasks: int, draws: int, settings: int) -> list[Path]:
    """Write the augmentations and the draws of a study; returns the draws' files."""
    chance = random.Random(1)
    functions = collect_functions()
    pool = [node for function in functions[::5] for node in function.body]
    prompts = pl.DataFrame(list(list_prompts(tasks)))
    account = {name: column.dtype for name, column in AUGMENTATIONS.columns.items()}
    accounts = prompts.with_columns(
        pl.lit("").alias("text"),
        pl.col("rate").cast(pl.Float64).alias("realised"),
        pl.lit(False).alias("repeated"),
    ).with_columns(
        *(
            pl.lit(None, dtype=dtype).alias(name)
            for name, dtype in account.items()
            if name not in ("prompt_id", "text", "realised", "repeated")
        )
    )
    metadata = {"study": "code", "model": "made-up", "design": DESIGN.to_json()}
    write_table(accounts, folder / "augmentations.parquet", AUGMENTATIONS, metadata)
    number = {task: i for i, task in enumerate(prompts["task"].unique(maintain_order=True))}
    files = []
    for setting in range(settings):
        temperature, top_p = ("0", None) if setting == 0 else (f"{setting / 10}", "1.0")
        for (augmentation,), cell in prompts.group_by("augmentation", maintain_order=True):
            path = folder / "draws" / str(setting) / f"{augmentation}.parquet"
            rows = []
            for prompt in cell.iter_rows(named=True):
                function = functions[number[prompt["task"]] % len(functions)]
                for replicate in range(draws):
                    code = vary(function, float(prompt["rate"]), pool, chance)
                    text = f"Here is the function:\n\n```python\n{code}\n```\n\nIt does that."
                    row = {**prompt, "replicate": replicate, "seed": 1, "text": text, "raw": text}
                    rows.append({**row, "status": "ok", "finish_reason": "stop"})
            frame = pl.DataFrame(rows).with_columns(
                pl.lit(None, dtype=DRAWS.columns[name].dtype).alias(name)
                for name in ("reasoning", "prompt_tokens", "completion_tokens", "error")
            )
            told = {**metadata, "temperature": temperature, "top_p": top_p}
            write_table(frame, path, DRAWS, told)
            files.append(path)
    return files


def make_vectors(folder: Path) -> None:
    codes = read_table(folder / "programs.parquet", PROGRAMS)["code"].drop_nulls().unique()
    vectors = np.random.default_rng(1).normal(size=(len(codes), 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    frame = pl.DataFrame(
        [
            pl.Series("text_hash", [hash_text(code) for code in codes]),
            pl.Series("embedding", vectors).cast(pl.List(pl.Float32)),
            pl.Series("over_long", np.zeros(len(codes), dtype=bool)),
        ]
    )
    metadata = {"encoder_manifest": {"identity": "random"}}
    write_table(frame, folder / "vectors.parquet", EMBEDDINGS, metadata)


def run_step(step: str, *arguments: object) -> None:
    """Run a command of the stage and print what it took."""
    command = [sys.executable, "-m", "llm_variability.code", step, *map(str, arguments)]
    begun = time.perf_counter()
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as job:
        _, status, used = os.wait4(job.pid, 0)
        job.returncode = os.waitstatus_to_exitcode(status)
    if job.returncode:
        raise SystemExit(f"{step} failed")
    wall, cpu, peak = time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss
    print(f"{step:8} {wall:7.1f} s  {cpu:7.1f} CPU s  at most {peak / 1024:6,.0f} MiB", flush=True)


def run_stage(folder: Path, files: list[Path], threads: int) -> None:
    kept = {name: folder / f"{name}.parquet" for name in ("programs", "augmentations", "vectors")}
    run_step(
        "extract",
        *("--draws", *files, "--extraction", "{}", "--max-nodes", 5000),
        *("--output", kept["programs"], "--counts", folder / "extractions.parquet"),
    )
    shared = (
        *("--programs", kept["programs"], "--augmentations", kept["augmentations"]),
        *("--floor-tasks", FLOOR_TASKS, "--seed", 1),
        *("--pairs", folder / "pairs.parquet", "--averages", folder / "averages.parquet"),
    )
    make_vectors(folder)
    run_step("cosine", *shared, "--embeddings", kept["vectors"], "--encoder", "random")
    variants = ("--variants", "tsed", "tsed-published", "--costs", json.dumps(None))
    more = ("--max-nodes", 5000, "--threads", threads, "--compiled", folder / "compiled")
    run_step("tsed", *shared, *variants, *more)


def time_lists(folder: Path) -> None:
    programs = read_table(folder / "programs.parquet", PROGRAMS)
    accounts = read_table(folder / "augmentations.parquet", AUGMENTATIONS)
    compared = programs["status"] == "ok"
    nodes = programs["nodes"].filter(compared)
    print(f"{len(programs):,} draws, {int(compared.sum()):,} programs of {nodes.mean():.0f} nodes")
    begun = time.perf_counter()
    originals = accounts.filter(pl.col("augmentation") == "original")
    floor = choose_floor_tasks(originals, 1, FLOOR_TASKS)
    pairs = list_pairs(programs, compared, floor, both_ways=True)
    print(f"listing  {time.perf_counter() - begun:7.1f} s  {len(pairs):,} pairs")
    begun = time.perf_counter()
    average_pairs(programs, accounts, compared, pairs, np.ones(len(pairs)), "tsed", DESIGN)
    print(f"averages {time.perf_counter() - begun:7.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=sum(SETS.values()))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--settings", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        print("two tasks:")
        small = Path(made) / "small"
        run_stage(small, make_study(small, 2, arguments.draws, 1), arguments.threads)
        print(f"{arguments.tasks} tasks, {arguments.settings} settings:")
        large = Path(made) / "large"
        files = make_study(large, arguments.tasks, arguments.draws, arguments.settings)
        run_stage(large, files, arguments.threads)
        time_lists(large)


if __name__ == "__main__":
    main()
