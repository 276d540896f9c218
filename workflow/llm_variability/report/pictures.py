"""Figures of the page: which file each is, and its bytes inside the page."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from llm_variability.report.figures import render_svg
from llm_variability.report.level_tests import MARGINAL_VIEWS, PUBLISHED_VIEWS
from llm_variability.report.svg import compact_svg

Context = dict[str, Any]
ModelFigures = dict[tuple[str, str, str, str], Path]
StudyFigures = dict[tuple[str, str], Path]

KINDS = tuple(view.key for view in (*MARGINAL_VIEWS, *PUBLISHED_VIEWS)) + ("cosine",)
"""Kinds of a model's figures, longer names first where one ends like another."""


def locate_figures(paths: Iterable[Path]) -> ModelFigures:
    """Find each figure by (study, model, encoder, kind) from STUDY/MODEL/ENCODER-KIND.svg.

    Raises ValueError for another path, or a kind that is none of `KINDS`.
    """
    figures = {}
    for path in paths:
        kind = next((each for each in KINDS if path.stem.endswith(f"-{each}")), None)
        if kind is None or len(path.parts) < 3 or path.suffix != ".svg":
            raise ValueError(
                f"{path}: a figure of the page is STUDY/MODEL/ENCODER-KIND.svg, kinds are"
                f" {', '.join(KINDS)}"
            )
        encoder = path.stem.removesuffix(f"-{kind}")
        figures[(path.parts[-3], path.parts[-2], encoder, kind)] = path
    return figures


def locate_study_figures(paths: Iterable[Path]) -> StudyFigures:
    """Find each figure over all models by (study, its name without suffix) from STUDY/NAME.svg."""
    return {(path.parts[-2], path.stem): path for path in paths}


def relative(path: Path, output: Path) -> str:
    """Give the link from the page to a file."""
    return Path(os.path.relpath(path, output.parent)).as_posix()


def embed(path: Path | None, alt: str, output: Path, *, inside: bool = True) -> Context | None:
    """Give a figure as `_picture` does, its words, and links to its files; None without one.

    inside: whether the page holds the figure; else it has the links alone.
    """
    if path is None:
        return None
    svg = path.read_text(encoding="utf-8") if inside else None
    twins = [path.with_suffix(suffix) for suffix in (".svg", ".pdf", ".png")]
    return {
        **(_picture(svg) if svg else {"uri": None}),
        "alt": alt,
        "downloads": [
            {"name": twin.suffix[1:].upper(), "href": relative(twin, output)}
            for twin in twins
            if twin.exists()
        ],
    }


def embed_drawing(figure: Figure, title: str, alt: str) -> Context:
    """Give a figure that is no file of its own, in the form of `embed`."""
    return {**_picture(render_svg(figure, title)), "alt": alt, "downloads": []}


def _picture(svg: str) -> Context:
    """Give a figure as a data URI with its size in CSS pixels, of which a point has 4/3.

    With its size a browser keeps the figure's place, and need not load it before it comes in sight.
    Raises ValueError if the figure does not say its size in points, as Matplotlib's do.
    """
    size = re.search(r'<svg [^>]*\bwidth="([\d.]+)pt" height="([\d.]+)pt"', svg)
    if size is None:
        raise ValueError("an SVG figure does not say its width and height in pt")
    drawn = base64.b64encode(compact_svg(svg).encode("utf-8")).decode("ascii")
    width, height = (round(float(each) * 4 / 3) for each in size.groups())
    return {"uri": f"data:image/svg+xml;base64,{drawn}", "width": width, "height": height}


def name_documents(names: Iterable[str]) -> list[str]:
    """Name documents of the workflow's source: a page that is passed on could not link them."""
    return [f"docs/{name}" for name in names]
