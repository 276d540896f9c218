"""Measure the report's page at the size of the published studies.

    python benchmarks/page.py [--browser] [--all] [--folder FOLDER]

Seven models, three encoders, the published grid, labels and names of 13 formats, with made-up
numbers; `--all` adds the studies of code and of personas at their published sizes, which the
published configurations put on pages of their own. The figures of one model and encoder are drawn
and stand for those of the others, since only their size counts here. What is timed are the commands
that the rules run, each in a process of its own. `--browser` opens the page in Chromium: first as
it is, then with everything scrolled past. `--folder` keeps results and figures, and takes those
that are there, so that only tables and page are made again.

Prints tables in Markdown.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import multiprocessing
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from llm_variability.report import figures as drawing
from llm_variability.report.__main__ import main as report

HOME = Path(__file__).parents[1]
sys.path.insert(0, str(HOME / "tests/unit"))
code_inputs, persona_inputs, report_inputs = map(
    importlib.import_module, ("code_inputs", "persona_inputs", "report_inputs")
)

MODELS = ("Llama-3.1-8B", "Qwen3-8B", "OLMo-2-7B", "Falcon3-10B")
MODELS += ("Mistral-NeMo-12B", "Granite-3.3-8B", "GPT-OSS-20B")
ENCODERS = ("all-mpnet-base-v2", "all-MiniLM-L12-v2", "all-distilroberta-v1")
CODERS = ("GPT-4o-mini", "Claude-3-Haiku", "Gemini-2.0-Flash", "Llama-3.3-70B", "Qwen3-8B")
CODE_MEASURES = ("tsed", "tsed-published", "all-mpnet-base-v2")
WORDS = """she he they worked studied walked river mountain teacher nurse doctor engineer music
kindness family quiet street market garden school history courage always never often with and but
the a of in after before through small old new bright long evening morning city"""


def write_answer(rank: int) -> str:
    """Write an answer of about thirty words."""
    chosen = random.Random(rank)
    words = [chosen.choice(WORDS.split()) for _ in range(chosen.randint(22, 44))]
    return f"{' '.join(words).capitalize()}."


def write_program(rank: int) -> str:
    """Write a program of about forty lines."""
    lines = random.Random(rank).randint(25, 60)
    body = "\n".join(f"    value_{line} = compute(value_{line - 1})" for line in range(1, lines))
    return f"def solve(value_0):\n{body}\n    return value_{lines - 1}\n"


def write_group_results(results: Path, models: Sequence[str], encoders: Sequence[str]) -> None:
    """Write the results of both published studies of groups, with the published formats."""
    stimuli = yaml.safe_load((HOME / "resources/labels.yaml").read_text(encoding="utf-8"))
    formats = tuple(stimuli["formats"])
    report_inputs.DRAWS_EACH = 50
    report_inputs.NAMES_A_GROUP = 50
    texts = tuple(map(write_answer, range(997)))
    for study, design in (
        ("labels", report_inputs.DESIGN),
        ("names", report_inputs.NAMES_DESIGN),
    ):
        design = dataclasses.replace(design, blocks=formats)
        report_inputs.write_results(results, study, models, encoders, design=design, texts=texts)


def write_other_results(results: Path) -> None:
    """Write the results of the published studies of code and of personas."""
    code_inputs.TASKS = {"humaneval": 164, "fresh": 20, "open": 22}
    code_inputs.RATES = tuple(f"{tenth / 10:.1f}" if tenth else "0" for tenth in range(11))
    code_inputs.SETTINGS = (("0", None),)
    code_inputs.MEASURES = CODE_MEASURES
    code_inputs.write_code_results(results, "code", CODERS)
    augmentations = [name for name, _, _ in code_inputs.list_augmentations()]
    programs = list(map(write_program, range(499)))
    report_inputs.write_examples(
        results, "code", CODERS, code_inputs.SETTINGS, augmentations, code_inputs.DESIGN, programs
    )
    persona_inputs.TASKS = (*persona_inputs.TASKS, "brief/reports")
    persona_inputs.ITERATIONS = 5
    persona_inputs.MEASURES = CODE_MEASURES
    persona_inputs.write_persona_results(results, "personas", CODERS[:3])
    personas = [name for name, _, _ in persona_inputs.list_personas()]
    settings = [("1.0", "1.0")]
    report_inputs.write_examples(
        results, "personas", CODERS[:3], settings, personas, persona_inputs.DESIGN, programs
    )


def copy_figures(folder: Path, name: str, others: list[Path], other_names: Iterable[str]) -> None:
    """Copy a folder's figures whose names begin with `name` to folders and names of others."""
    for drawn in sorted(folder.glob(f"{name}-*.svg")):
        for place in others:
            place.mkdir(parents=True, exist_ok=True)
            for other in other_names:
                copy = place / drawn.name.replace(name, other, 1)
                if copy != drawn:
                    shutil.copy(drawn, copy)


def draw_figures(results: Path, study: str, models: Sequence[str], encoders: Sequence[str]) -> None:
    """Draw the figures of one model and encoder, and copy them for the others."""
    figures = results / "figures" / study
    name = f"{study}/{models[0]}/{encoders[0]}"
    report(
        ["heatmap", "--fits", str(results / f"fits/{name}.parquet"), "--model", models[0]]
        + ["--encoder", encoders[0], "--stem", str(results / "figures" / name)]
    )
    similarity = [
        str(results / f"similarity/{study}/{each}/{encoders[0]}.parquet") for each in models
    ]
    report(
        ["cosine", "--similarity", similarity[0], "--stem", f"{results / 'figures' / name}-cosine"]
    )
    copy_figures(figures / models[0], encoders[0], [figures / each for each in models], encoders)
    report(
        ["models", "--adjusted", str(results / f"adjusted/{study}.parquet")]
        + ["--similarity", *similarity, "--stem", str(figures / encoders[0])]
    )
    copy_figures(figures, encoders[0], [figures], encoders)
    counts = [str(results / f"counts/{study}/{each}.parquet") for each in models]
    report(["lengths", "--counts", *counts, "--stem", str(figures / "output_length")])


def report_on_others(results: Path) -> list[str]:
    """Draw and tabulate the studies of code and of personas; returns what `page` takes for them."""
    suffixes = (".svg",)
    given = code_inputs.make_code_report(results, suffixes)
    given += persona_inputs.make_persona_report(results, suffixes)
    # At one setting a study of code has no heatmaps.
    heatmaps = [str(path) for path in (results / "figures/code").glob("*/code-*.svg")]
    for path in heatmaps:
        Path(path).unlink()
    return [each for each in given if each not in heatmaps]


def make_up(results: Path, everything: bool) -> list[str]:
    """Write results and figures that are not there; returns what `page` takes for other studies."""
    drawing.SUFFIXES = (".svg",)
    if not (results / "adjusted").is_dir():
        write_group_results(results, MODELS, ENCODERS)
        for study in ("labels", "names"):
            draw_figures(results, study, MODELS, ENCODERS)
    if not everything:
        return []
    if not (results / "curves").is_dir():
        write_other_results(results)
    return report_on_others(results)


def run(command: list[str]) -> tuple[float, float, float]:
    """Run a command of the report; returns its seconds, its CPU seconds and its MiB of memory."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "llm_variability.report", *command])
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command[0]} failed")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


PARTS = (
    ("pictures", r'src="data:image/[^"]*"'),
    ("data of the charts", r'<script type="application/json" data-chart.*?</script>'),
    ("other data", r'<script type="application/json".*?</script>'),
    ("scripts", r"<script.*?</script>"),
    ("styles", r"<style>.*?</style>"),
    ("tables", r"<table.*?</table>"),
)


def weigh(text: str) -> dict[str, tuple[int, int]]:
    """Give, of each part of a page, its number and bytes. Every byte is in one part."""
    found = {}
    for name, pattern in PARTS:
        sizes = [len(each.encode()) for each in re.findall(pattern, text, re.DOTALL)]
        text = re.sub(pattern, "", text, flags=re.DOTALL)
        if name == "scripts" and sizes:
            found["chart library"] = (1, max(sizes))
            sizes.remove(max(sizes))
        found[name] = (len(sizes), sum(sizes))
    return {**found, "the rest": (1, len(text.encode()))}


def open_page(page: Path) -> dict[str, Any]:
    """Open the page in Chromium; returns what it takes there.

    CPU seconds are of the page's main thread, and so hardly depend on what else the machine does.
    """
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        session = tab.context.new_cdp_session(tab)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})

        def count() -> dict[str, float]:
            told = session.send("Performance.getMetrics")["metrics"]
            return {each["name"]: each["value"] for each in told}

        tab.goto(page.as_uri(), wait_until="load")
        tab.wait_for_timeout(2000)
        paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"
        event = "performance.getEntriesByType('navigation')[0].loadEventEnd / 1000"
        found = {"s to the first paint": tab.evaluate(paint)}
        found["s to the load event"] = tab.evaluate(event)
        opened = count()
        found["CPU s of the page's thread until it is quiet"] = opened["TaskDuration"]
        for name in ("Script", "Layout", "RecalcStyle"):
            found[f"of which {name}"] = opened[f"{name}Duration"]
        found["elements"] = tab.evaluate("document.querySelectorAll('*').length")
        found["MiB of JS heap"] = opened["JSHeapUsedSize"] / 2**20
        drawn = "all.filter(each => each.dataset.drawn).length"
        open_charts = (
            "const all = [...document.querySelectorAll('figure.chart')]"
            ".filter(each => !each.closest('details:not([open])'))"
        )
        of_all = f"(() => {{ {open_charts}; return [{drawn}, all.length]; }})()"
        found["charts drawn by then"] = "{} of {}".format(*tab.evaluate(of_all))
        for index in range(tab.evaluate(of_all)[1]):
            scroll = f"(() => {{ {open_charts}; all[{index}].scrollIntoView(); }})()"
            tab.evaluate(scroll)
            tab.wait_for_timeout(100)
        for _ in range(600):
            there, wanted = tab.evaluate(of_all)
            if there == wanted:
                break
            tab.wait_for_timeout(100)
        else:
            sys.exit(f"{wanted - there} charts were not drawn within a minute")
        every = count()
        found["CPU s until every chart is drawn"] = every["TaskDuration"]
        found["MiB of JS heap then"] = every["JSHeapUsedSize"] / 2**20
        browser.close()
    return found


def name_processor() -> str:
    """Give the processor's name, where the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    told = cpuinfo.read_text() if cpuinfo.exists() else ""
    named = re.search(r"model name\s*: (.*)", told)
    return named[1] if named else platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="studies of code and of personas too")
    parser.add_argument("--browser", action="store_true", help="open the page in Chromium")
    parser.add_argument("--folder", type=Path, help="keep the results here, or take those there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        results = (arguments.folder or Path(temporary)).resolve()
        if (results / "curves").is_dir() and not arguments.all:
            parser.error(f"{results} has the studies of code and of personas: needs --all")
        # In a process of its own, since a command's peak memory is no less than its parent's.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            others = pool.submit(make_up, results, arguments.all).result()
        took = {"tables": run(report_inputs.list_table_arguments(results))}
        took["page"] = run(report_inputs.list_page_arguments(results, others))
        page = results / "report.html"
        text = page.read_text(encoding="utf-8")
        opened = open_page(page) if arguments.browser else {}
    print(f"{name_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print("| part of the page | number | MB |\n|---|---:|---:|")
    for part, (number, size) in weigh(text).items():
        print(f"| {part} | {number} | {size / 1e6:.2f} |")
    print(f"| **whole page** | | **{len(text.encode()) / 1e6:.2f}** |\n")
    print("| command | s | CPU s | peak memory, MiB |\n|---|---:|---:|---:|")
    for name, (seconds, busy, memory) in took.items():
        print(f"| `{name}` | {seconds:.1f} | {busy:.1f} | {memory:.0f} |")
    if opened:
        print("\n| in Chromium | |\n|---|---:|")
        for what, value in opened.items():
            print(f"| {what} | {f'{value:.2f}' if isinstance(value, float) else value} |")
    elements = Counter(re.findall(r"<(\w+)", re.sub(r"<script.*?</script>", "", text, flags=re.S)))
    print("\nMost frequent tags:", ", ".join(f"{n} {t}" for t, n in elements.most_common(6)))


if __name__ == "__main__":
    main()
