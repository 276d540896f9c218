"""A snapshot of the workflow beside its results, with the files that prompts were made from."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_variability.config import ConfigError, Settings, find_resource
from llm_variability.stimuli.registry import list_named_files

SNAPSHOT = "workflow"
"""The folder of a results folder that holds the snapshot."""

MAIN = "Snakefile"

_KEPT = (".py", ".smk", ".rst", ".html", ".css", ".js", ".yaml", ".json", ".csv", ".txt")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Source:
    """A file of the workflow. place: in the snapshot."""

    path: Path
    place: str


def checksum(path: Path) -> str:
    """Give the SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _list_program(home: Path) -> Iterator[Path]:
    yield home / MAIN
    for name in ("LICENSE", "pyproject.toml"):
        if (home / name).is_file():
            yield home / name
    for folder in ("workflow", "envs"):
        for path in sorted((home / folder).rglob("*")):
            hidden = any(
                part.startswith((".", "__pycache__")) or part.endswith(".egg-info")
                for part in path.relative_to(home).parts
            )
            if path.is_file() and not hidden and (folder == "envs" or path.suffix in _KEPT):
                yield path


def list_program(home: Path) -> list[Source]:
    """List the files that the workflow consists of, its environments among them."""
    return [Source(path, path.relative_to(home).as_posix()) for path in _list_program(home)]


def find_resources(
    settings: Settings, stimuli: Mapping[str, Mapping[str, Any]], home: Path
) -> list[Source]:
    """Find the files that prompts were made from, as they were then.

    stimuli: the metadata of each study's prompts, with the SHA-256 of their files. A file that is
    no longer there, or is another by now, is left out. So is what comes with an installed package.
    """
    found = {}
    for name, study in settings.studies.items():
        checksums = stimuli.get(name, {}).get("files", {})
        main = find_resource(study.stimuli, home)
        try:
            paths = [main, *list_named_files(main, study)]
        except ConfigError:
            continue
        for path in paths:
            if path.is_file() and checksums.get(path.name) == checksum(path):
                inside = path.resolve().is_relative_to(home.resolve())
                place = (
                    path.resolve().relative_to(home.resolve()).as_posix()
                    if inside
                    else f"resources/{name}/{path.name}"
                )
                found[place] = Source(path, place)
    return list(found.values())


def copy_sources(sources: Iterable[Source], folder: Path) -> list[str]:
    """Copy files into a snapshot, in the place of an older one; give their places, sorted."""
    shutil.rmtree(folder, ignore_errors=True)
    places = []
    for source in sources:
        target = folder / source.place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.path, target)
        places.append(source.place)
    return sorted(places)
