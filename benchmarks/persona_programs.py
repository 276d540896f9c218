"""How long the programs of a made-up study of personas take.

    python benchmarks/persona_programs.py [--tasks 3] [--personas 4] [--iterations 5] [--draws 5]
                                          [--settings 1] [--lines 60] [--threads 1]

A program is made of functions of the standard library, those of its task, one after the other until
it has about as many lines as asked for; in each some statements are taken out, said twice or taken
from others (as in `code_study.py`), so that no two programs are the same. What is timed are the
commands that the rules run, on files, each in a process of its own: `extract`, `features`,
`prompt-cosine` on vectors of 384 numbers drawn at random, and `prompt-tsed` (both variants). For
each: wall time, CPU time and the most memory. Then, within this process, the time of each part of
`features` and of listing and tabulating pairs.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import tempfile
import time
from itertools import cycle, product
from pathlib import Path

import numpy as np
import polars as pl
from code_study import collect_functions, make_vectors, run_step, vary

from llm_variability.code.features import read_program
from llm_variability.code.prompt_pairs import list_prompt_pairs, tabulate_prompt_pairs
from llm_variability.code.replies import read_reply
from llm_variability.table_contract import Design
from llm_variability.tables import DRAWS, read_table, write_table
from llm_variability.tables_code import PROGRAMS
from llm_variability.tables_personas import PROGRAM_PAIRS

DESIGN = Design(
    "task", (), carried=("set", "language", "persona", "role", "gender", "iteration", "sampled")
)


def write_program(
    functions: list[ast.FunctionDef], lines: int, pool: list[ast.stmt], chance: random.Random
) -> str:
    """Write functions, each varied anew, until there are about as many lines as asked for."""
    written: list[str] = []
    so_far = 0
    for function in cycle(functions):
        varied = vary(function, 0.3, pool, chance)
        so_far += len(varied.splitlines())
        if written and so_far > lines:
            break
        written.append(varied)
    return "import os\nimport sys\n\n\n" + "\n\n\n".join(written)


def make_draws(folder: Path, arguments: argparse.Namespace) -> list[Path]:
    """Write the draws of a study, a file a setting; returns the files."""
    chance = random.Random(1)
    functions = collect_functions()
    pool = [node for function in functions[::5] for node in function.body]
    files = []
    for setting in range(arguments.settings):
        rows = []
        for task, persona, iteration, replicate in product(
            *map(range, (arguments.tasks, arguments.personas, arguments.iterations)),
            range(arguments.draws),
        ):
            code = write_program(functions[task * 5 : task * 5 + 5], arguments.lines, pool, chance)
            text = (
                f"Here it is:\n\n```bash\npip install x\n```\n\n```python\n{code}\n```\n\nIt runs."
            )
            rows.append(
                {
                    "task": f"brief/{task}",
                    "set": "brief",
                    "language": "python",
                    "persona": f"role-{persona}-male",
                    "role": f"role-{persona}",
                    "gender": "male",
                    "iteration": f"{iteration}",
                    "sampled": "yes" if iteration == 0 else "no",
                    "prompt_id": f"{task}-{persona}-{iteration}",
                    "replicate": replicate,
                    "seed": 1,
                    "text": text,
                    "raw": text,
                    "status": "ok",
                    "finish_reason": "stop",
                }
            )
        schema = dict.fromkeys(DESIGN.columns, pl.String) | {
            name: column.dtype for name, column in DRAWS.columns.items()
        }
        temperature, top_p = ("0", None) if setting == 0 else (f"{setting / 10}", "1.0")
        metadata = {"study": "personas", "model": "made-up", "design": DESIGN.to_json()}
        path = folder / "draws" / f"{setting}.parquet"
        told = {**metadata, "temperature": temperature, "top_p": top_p}
        write_table(pl.DataFrame(rows, schema=schema), path, DRAWS, told)
        files.append(path)
    return files


def run_stage(folder: Path, files: list[Path], threads: int) -> None:
    programs = folder / "programs.parquet"
    made = ("--output", programs, "--counts", folder / "extractions.parquet")
    run_step("extract", "--draws", *files, "--extraction", "{}", "--max-nodes", 5000, *made)
    output = ("--output", folder / "features.parquet")
    run_step("features", "--draws", *files, "--programs", programs, *output)
    make_vectors(folder)
    shared = ("--programs", programs, "--pairs", folder / "pairs.parquet")
    vectors = ("--embeddings", folder / "vectors.parquet", "--encoder", "random")
    run_step("prompt-cosine", *shared, *vectors)
    variants = ("--variants", "tsed", "tsed-published", "--costs", json.dumps(None))
    more = ("--max-nodes", 5000, "--threads", threads, "--compiled", folder / "compiled")
    run_step("prompt-tsed", *shared, *variants, *more)


def time_parts(folder: Path, files: list[Path]) -> None:
    programs = read_table(folder / "programs.parquet", PROGRAMS)
    compared = programs["status"] == "ok"
    nodes = programs["nodes"].filter(compared)
    lines = programs["code"].filter(compared).str.count_matches("\n")
    print(
        f"{len(programs):,} draws, {int(compared.sum()):,} programs of {lines.mean():.0f} lines and"
        f" {nodes.mean():.0f} nodes; {len(read_table(folder / 'pairs.parquet', PROGRAM_PAIRS)):,}"
        " pairs of both variants"
    )
    begun = time.perf_counter()
    for text in pl.concat([read_table(path, DRAWS) for path in files])["text"]:
        read_reply(text, "python", "ok", "fence")
    print(f"replies  {time.perf_counter() - begun:7.2f} s")
    begun = time.perf_counter()
    for code in programs["code"].filter(compared):
        read_program(code, "python")
    print(f"programs {time.perf_counter() - begun:7.2f} s")
    begun = time.perf_counter()
    pairs = list_prompt_pairs(programs, compared, both_ways=True)
    print(f"listing  {time.perf_counter() - begun:7.2f} s  {len(pairs):,} pairs, both ways")
    begun = time.perf_counter()
    tabulate_prompt_pairs(programs, pairs, np.ones(len(pairs)), "tsed-published")
    print(f"rows     {time.perf_counter() - begun:7.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument("--personas", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--settings", type=int, default=1)
    parser.add_argument("--lines", type=int, default=60)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        files = make_draws(folder, arguments)
        run_stage(folder, files, arguments.threads)
        time_parts(folder, files)


if __name__ == "__main__":
    main()
