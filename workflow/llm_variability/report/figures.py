"""What the figures share: one look, and files that are the same bytes at every run."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

matplotlib.use("Agg")
logging.getLogger("fontTools").setLevel(logging.WARNING)  # it tells of every glyph it embeds

INK = "#1d2433"
MUTED = "#5b6475"
RULE = "#c9ced8"

_LOOK: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica"],
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "hatch.color": "#b5bbc7",
    "hatch.linewidth": 0.7,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "text.parse_math": False,  # a name with two dollar signs is a name
    "svg.fonttype": "none",  # text stays text: small, searchable, editable
    "svg.hashsalt": "llm-variability",
    "pdf.fonttype": 42,  # TrueType, which journals ask for
}

SUFFIXES = (".png", ".svg", ".pdf")


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw inside it to get the project's look."""
    with matplotlib.rc_context(_LOOK):
        yield


def draw_headings(figure: Figure, title: str, subtitle: str) -> None:
    """Write the title and, below it, one or two lines of what is shown; they take 0.9 inches."""
    width, height = figure.get_size_inches()
    left = 0.15 / width
    figure.text(left, 1 - 0.12 / height, title, fontsize=13, fontweight="bold", va="top")
    figure.text(
        left, 1 - 0.42 / height, subtitle, fontsize=8.5, color=MUTED, va="top", linespacing=1.35
    )


def _write(figure: Figure, file: Path | BytesIO, suffix: str, title: str) -> None:
    """Write a figure in one format, free of dates."""
    metadata: dict[str, dict[str, str | None]] = {
        ".png": {"Title": title, "Software": None},
        ".svg": {"Title": title, "Date": None, "Creator": None},
        ".pdf": {"Title": title, "CreationDate": None, "Creator": None, "Producer": None},
    }
    with figure_style():
        figure.savefig(file, format=suffix[1:], dpi=200, metadata=metadata[suffix])


def render_svg(figure: Figure, title: str) -> str:
    """Give the text that `save_figure` would write as STEM.svg."""
    drawn = BytesIO()
    _write(figure, drawn, ".svg", title)
    return drawn.getvalue().decode("utf-8")


def save_figure(figure: Figure, stem: Path, title: str) -> list[Path]:
    """Write STEM.png, STEM.svg and STEM.pdf, each whole or not at all, free of dates."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix in SUFFIXES:
        path = stem.parent / f"{stem.name}{suffix}"
        temporary = path.parent / f".{path.name}.tmp"
        _write(figure, temporary, suffix, title)
        os.replace(temporary, path)
        paths.append(path)
    return paths
