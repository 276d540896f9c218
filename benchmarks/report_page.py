"""Measure the report's page of a large study: `python benchmarks/report_page.py`.

Both published studies over the published grid, with made-up estimates. The figures of one model and
encoder are drawn and stand for those of all others, since only their size counts here.
"""

from __future__ import annotations

import argparse
import re
import runpy
import shutil
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from llm_variability.report import figures as drawing
from llm_variability.report.__main__ import main as report

INPUTS = Path(__file__).parents[1] / "tests/unit/report_inputs.py"
TEXT = " ".join(["thirty"] * 30)
"""What every example answers: as many words as the published prompts ask for."""


def copy_figures(folder: Path, name: str, others: list[Path], other_names: list[str]) -> None:
    """Copy a folder's figures whose names begin with `name` to folders and names of others."""
    for drawn in sorted(folder.glob(f"{name}-*.svg")):
        for place in others:
            place.mkdir(parents=True, exist_ok=True)
            for other in other_names:
                copy = place / drawn.name.replace(name, other, 1)
                if copy != drawn:
                    shutil.copy(drawn, copy)


def draw_figures(results: Path, study: str, models: list[str], encoders: list[str]) -> float:
    """Draw one model's and encoder's figures and copy them; returns the seconds of the heatmaps."""
    figures = results / "figures" / study
    name = f"{study}/{models[0]}/{encoders[0]}"
    began = time.perf_counter()
    report(
        ["heatmap", "--fits", str(results / f"fits/{name}.parquet"), "--model", models[0]]
        + ["--encoder", encoders[0], "--stem", str(results / "figures" / name)]
    )
    seconds = time.perf_counter() - began
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
    return seconds


def write_page(results: Path) -> float:
    """Write tables and page of all results; returns the seconds of the page."""

    def files(**patterns: str) -> list[str]:
        return [
            text
            for option, pattern in patterns.items()
            for text in (f"--{option.replace('_', '-')}", *map(str, sorted(results.glob(pattern))))
        ]

    inputs = {"adjusted": "adjusted/*", "similarity": "similarity/*/*/*", "counts": "counts/*/*"}
    inputs |= {"stimuli": "stimuli/*", "diversity": "diversity/*/*/*"}
    report(["tables", *files(**inputs), "--outdir", str(results / "tables")])
    began = time.perf_counter()
    parts = {"tables": "tables/*", "figures": "figures/*/*/*", "study_figures": "figures/*/*.svg"}
    parts |= {"manifests": "*s/*.json", "draws": "draws/*/*/*", "stimuli": "stimuli/*"}
    parts |= {"examples": "examples/*/*", "config": "config.yaml"}
    report(["page", *files(**parts), "--output", str(results / "report.html")])
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=7)
    parser.add_argument("--encoders", type=int, default=3)
    arguments = parser.parse_args()
    drawing.SUFFIXES = (".svg",)
    made_up = SimpleNamespace(**runpy.run_path(str(INPUTS)))
    models = [f"some-model-{number}-instruct" for number in range(arguments.models)]
    encoders = [f"some-sentence-encoder-{number}" for number in range(arguments.encoders)]
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        seconds = []
        for study, design in (("labels", made_up.DESIGN), ("names", made_up.NAMES_DESIGN)):
            made_up.write_results(results, study, models, encoders, design=design, texts=[TEXT])
            seconds.append(draw_figures(results, study, models, encoders))
        page_seconds = write_page(results)
        text = (results / "report.html").read_text(encoding="utf-8")
    images = sum(map(len, re.findall(r'src="data:image/svg[^"]*', text)))
    print(
        f"{len(models)} models, {len(encoders)} encoders, 2 studies: page {len(text) / 1e6:.1f} MB,"
        f" {images / 1e6:.1f} MB of it {text.count('<img')} figures, written in"
        f" {page_seconds:.0f} s; heatmaps (SVG) of a model and encoder: labels {seconds[0]:.1f} s,"
        f" names {seconds[1]:.1f} s"
    )


if __name__ == "__main__":
    main()
