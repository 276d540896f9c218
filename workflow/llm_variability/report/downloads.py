"""Links from the page to the tables behind each study, and to what describes them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from llm_variability.report.pictures import Context, relative

TABLES_OF_A_STUDY = {
    "adjusted": "every estimate, with adjusted p-values",
    "fits": "main analysis",
    "sensitivity": "other analyses",
    "diversity": "diversity",
    "curves": "similarity of code by rate",
    "separation": "within and between personas",
    "similarity": "cosines of texts",
    "averages": "similarity of programs",
    "pairs": "pairs of programs",
    "programs": "programs",
    "features": "features of programs",
    "wording": "wording of prompts",
    "examples": "examples",
    "counts": "what became of the draws",
    "stimuli": "prompts",
    "augmentations": "changed texts",
    "paraphrases": "paraphrases",
    "personas": "attempts at prompts",
}
"""Folders of a results folder that hold a study's tables, and what these are."""

DESCRIPTIONS = {
    "README.md": "every file and column",
    "ro-crate-metadata.json": "the run for machines, a Workflow Run RO-Crate",
}
"""Files that are written after the page, beside it."""


def list_parquet(study: str, output: Path) -> list[Context]:
    """List the Parquet tables of a study that lie beside the page, by what they are.

    Tables of a study are `FOLDER/STUDY.parquet` or anything below `FOLDER/STUDY`, but for rounds of
    requests. Draws are linked by their folder, one a model, since there may be thousands.
    """
    results = output.parent
    kinds = []
    for folder, what in TABLES_OF_A_STUDY.items():
        whole = results / folder / f"{study}.parquet"
        parts = [] if whole.is_file() else sorted((results / folder / study).rglob("*.parquet"))
        paths = [whole] if whole.is_file() else parts
        if paths:
            kinds.append({"what": what, "files": _link(paths, output)})
    models = sorted(path for path in (results / "draws" / study).glob("*") if path.is_dir())
    if models:
        kinds.append({"what": "draws, a folder a model", "files": _link(models, output)})
    return kinds


def _link(paths: Iterable[Path], output: Path) -> list[Context]:
    return [
        {"href": quote(place), "name": place}
        for place in (relative(path, output) for path in paths)
    ]
