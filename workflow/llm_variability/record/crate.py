"""The run as a Workflow Run RO-Crate: what was run, with what, when, and what came of it.

Profiles: Workflow Run Crate 0.5 (with Process Run Crate 0.5 and Workflow RO-Crate 1.0) on RO-Crate
1.1. The run is one action of the workflow, each model's draws one of the engine; steps between are
not described (that would be a Provenance Run Crate).
Source: https://w3id.org/ro/wfrun/workflow/0.5
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rocrate.model.contextentity import ContextEntity
from rocrate.model.entity import Entity
from rocrate.rocrate import ROCrate

from llm_variability import __version__
from llm_variability.config import Settings
from llm_variability.record.drawings import Drawing, list_drawings
from llm_variability.record.files import Found, list_paths, sort_files
from llm_variability.record.source import MAIN, SNAPSHOT, checksum
from llm_variability.report.provenance import find_commit, without_credentials
from llm_variability.software import package_versions

CRATE = "ro-crate-metadata.json"

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
_BIOSCHEMAS = "https://bioschemas.org/profiles"
_LICENCE = (
    "The workflow's own files are under the MIT licence. Which licence the results have is for"
    " those to say who made them and who made the models."
)
_FORMATS = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".smk": "text/plain",
    ".py": "text/x-python",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".yaml": "application/yaml",
    "": "text/plain",
}
_INPUTS = ("config.yaml", "models/", "encoders/", "wordnet")
"""Files of a run that it takes in: these, and those of the snapshot's resources."""

_PACKAGE = re.compile(r"[A-Za-z0-9._-]+ \S+")


def _moment(time: datetime.datetime) -> str:
    return time.astimezone(datetime.UTC).replace(microsecond=0).isoformat()


def list_parameters(settings: Settings) -> dict[str, Any]:
    """Give the main keys of a configuration, dotted, with values of one kind each.

    Lists become texts with commas between. Every other key is in config.yaml.
    """
    dumped = settings.model_dump(mode="json")
    studies = {
        f"studies.{name}.{key}": study[key]
        for name, study in dumped["studies"].items()
        for key in ("kind", "formats", "draws", "greedy_draws", "max_new_tokens")
    }
    values = {
        "seed": dumped["seed"],
        "environment": dumped["environment"],
        "models": list(dumped["models"]),
        "encoders": list(dumped["encoders"]),
        **{f"grid.{key}": value for key, value in dumped["grid"].items()},
        **studies,
        **{f"fits.{key}": value for key, value in dumped["fits"].items()},
        **{f"report.{key}": value for key, value in dumped["report"].items()},
    }
    return {
        key: ", ".join(map(str, value)) if isinstance(value, list) else value
        for key, value in values.items()
        if value is not None and not isinstance(value, dict)
    }


def _identify(kind: str, name: str) -> str:
    """Give the id of what is no file."""
    return f"#{kind}/{quote(name)}"


def _type_of(value: Any) -> str:
    """Name schema.org's type of a value."""
    kinds = {bool: "Boolean", int: "Integer", float: "Float"}
    return kinds.get(type(value), "Text")


class RunCrate:
    """A crate in the making."""

    def __init__(self, results: Path, settings: Settings) -> None:
        self.results = results
        self.settings = settings
        self.crate = ROCrate(version="1.1")
        self.crate.metadata.extra_terms["sha256"] = "http://schema.org/sha256"
        self.by_place: dict[str, Entity] = {}

    def add(self, identifier: str, **properties: Any) -> Entity:
        """Add what is no file."""
        return self.crate.add(ContextEntity(self.crate, identifier, properties=properties))

    def add_file(self, place: str, what: str, *, is_main: bool = False) -> Entity:
        """Add a file of the results folder, with its size and checksum."""
        path = self.results / place
        properties = {
            "name": place,
            "description": what,
            "contentSize": str(path.stat().st_size),
            "sha256": checksum(path),
            "encodingFormat": _FORMATS.get(path.suffix, "application/octet-stream"),
        }
        if is_main:
            entity = self.crate.add_workflow(
                dest_path=place,
                main=True,
                lang="snakemake",
                lang_version=importlib.metadata.version("snakemake"),
                properties=properties,
            )
        else:
            entity = self.crate.add_file(dest_path=place, properties=properties)
        self.by_place[place] = entity
        return entity

    def add_folder(self, place: str, what: str) -> Entity:
        """Add a folder that is described as a whole."""
        entity = self.crate.add_dataset(
            dest_path=place, properties={"name": place, "description": what}
        )
        self.by_place[place] = entity
        return entity

    def add_parameter(self, key: str, value: Any) -> tuple[Entity, Entity]:
        """Add a key of the configuration and the value that it had."""
        parameter = self.add(
            _identify("parameter", key),
            **{
                "@type": "FormalParameter",
                "name": key,
                "additionalType": _type_of(value),
                "conformsTo": {"@id": f"{_BIOSCHEMAS}/FormalParameter/1.0-RELEASE"},
            },
        )
        given = self.add(
            _identify("value", key), **{"@type": "PropertyValue", "name": key, "value": value}
        )
        _join(parameter, given)
        return parameter, given

    def add_port(self, name: str, entity: Entity, kind: str) -> Entity:
        """Add a parameter that stands for files: what the workflow takes in or gives."""
        port = self.add(
            _identify("parameter", name),
            **{
                "@type": "FormalParameter",
                "name": name,
                "additionalType": kind,
                "conformsTo": {"@id": f"{_BIOSCHEMAS}/FormalParameter/1.0-RELEASE"},
            },
        )
        _join(port, entity)
        return port


def _join(parameter: Entity, example: Entity) -> None:
    parameter["workExample"] = example
    example["exampleOfWork"] = parameter


def _add_packages(run: RunCrate, drawings: Iterable[Drawing]) -> dict[str, Entity]:
    """Add packages, and the engines of the draws; give them by name and version."""
    engines = [each.engine for each in drawings if _PACKAGE.fullmatch(each.engine)]
    here = [f"{name} {version}" for name, version in package_versions().items()]
    own = f"llm-variability {__version__}"
    packages = {}
    for text in sorted({*here, *engines} - {own}):
        name, version = text.split(" ", 1)
        packages[text] = run.add(
            f"https://pypi.org/project/{name}/{version.split('+')[0]}/",
            **{
                "@type": "SoftwareApplication",
                "name": name,
                "softwareVersion": version,
                "url": f"https://pypi.org/project/{name}/",
            },
        )
    return packages


def _add_drawings(
    run: RunCrate, drawings: Iterable[Drawing], packages: dict[str, Entity]
) -> list[Entity]:
    """Add an action for the draws of each model."""
    actions = []
    for number, each in enumerate(drawings, start=1):
        engine = packages.get(each.engine)
        if engine is None:
            url = without_credentials(each.engine).split("?")[0]
            engine = run.add(
                _identify("endpoint", url),
                **{"@type": "SoftwareApplication", "name": f"the endpoint {url}", "url": url},
            )
        files = [run.by_place[place] for place in each.tables if place in run.by_place]
        action = run.add(
            f"#draws/{number}",
            **{
                "@type": "CreateAction",
                "name": f"Draws from {each.model}",
                "description": f"On {each.hardware}.",
                "startTime": _moment(each.began),
            },
        )
        action["instrument"] = engine
        if each.ended is not None:
            action["endTime"] = _moment(each.ended)
        if (manifest := run.by_place.get(f"models/{each.model}.json")) is not None:
            action["object"] = manifest
        if files:
            action["result"] = files if len(files) > 1 else files[0]
        actions.append(action)
    return actions


def _add_found(run: RunCrate, found: Iterable[Found]) -> None:
    for each in found:
        for place in each.places:
            if each.kind.pattern in (CRATE, f"{SNAPSHOT}/"):
                continue
            add = run.add_folder if each.kind.is_folder else run.add_file
            add(place, each.kind.what)


def _add_snapshot(run: RunCrate, places: Sequence[str]) -> list[Entity]:
    """Add the workflow: its folder, its rules, and the files that prompts were made from."""
    run.add_folder(f"{SNAPSHOT}/", "the workflow as it was")
    taken = []
    for place in places:
        if place == MAIN or place.startswith("resources/") or place.endswith(".smk"):
            what = "a file that prompts were made from" if "resources/" in place else "rules"
            entity = run.add_file(f"{SNAPSHOT}/{place}", what, is_main=place == MAIN)
            if place.startswith("resources/"):
                taken.append(entity)
    return taken


def _describe_workflow(run: RunCrate, packages: Iterable[Entity]) -> None:
    workflow = run.crate.mainEntity
    commit = find_commit()
    workflow["name"] = "llm-variability"
    workflow["version"] = __version__
    workflow["license"] = {"@id": "https://spdx.org/licenses/MIT"}
    workflow["conformsTo"] = {"@id": f"{_BIOSCHEMAS}/ComputationalWorkflow/1.0-RELEASE"}
    workflow["softwareRequirements"] = list(packages)
    workflow["description"] = "How much outputs of language models vary" + (
        f"; git commit {commit}." if commit else "; not from a git checkout."
    )


def build_crate(results: Path, settings: Settings, snapshot: Sequence[str]) -> dict[str, Any]:
    """Describe a finished run as JSON-LD.

    results: its folder, with the page, the README and the snapshot. snapshot: places of its files.
    Every file of a kind that `files` knows is listed with size and SHA-256, but for those in
    folders that are described as a whole (weights, journals, logs and the like). The run began with
    its first draw and ended when the page was written. The same folder gives the same text.
    """
    run = RunCrate(results, settings)
    paths = list_paths(results)
    found, _ = sort_files(paths)
    _add_found(run, found)
    resources = _add_snapshot(run, snapshot)
    drawings = list_drawings(results, (path for path in paths if path.endswith(".parquet")))
    packages = _add_packages(run, drawings)
    _describe_workflow(run, packages.values())
    page = results / "report.html"
    ended = datetime.datetime.fromtimestamp(page.stat().st_mtime, datetime.UTC)
    took = {place: entity for place, entity in run.by_place.items() if place.startswith(_INPUTS)}
    gave = {
        place: entity
        for place, entity in run.by_place.items()
        if place not in took and not place.startswith(f"{SNAPSHOT}/")
    }
    workflow = run.crate.mainEntity
    parameters = [run.add_parameter(key, value) for key, value in list_parameters(settings).items()]
    inputs = [
        run.add_port("configuration", run.by_place["config.yaml"], "File"),
        *(
            run.add_port(entity.id.removeprefix(f"{SNAPSHOT}/"), entity, "File")
            for entity in resources
        ),
    ]
    workflow["input"] = [*inputs, *(parameter for parameter, _ in parameters)]
    workflow["output"] = run.add_port("report", run.by_place["report.html"], "File")
    action = run.add(
        "#run",
        **{
            "@type": "CreateAction",
            "name": f"Run of llm-variability {__version__}",
            "description": f"Studies: {', '.join(settings.studies)}. Models:"
            f" {', '.join(settings.models)}. From the first draw to the page.",
            "endTime": _moment(ended),
            "actionStatus": "http://schema.org/CompletedActionStatus",
        },
    )
    if drawings:
        action["startTime"] = _moment(min(each.began for each in drawings))
    action["instrument"] = workflow
    action["object"] = [*took.values(), *resources, *(value for _, value in parameters)]
    action["result"] = [*gave.values()]
    draws = _add_drawings(run, drawings, packages)
    _describe_root(run, [action, *draws], ended)
    return _arrange(run.crate.metadata.generate())


def _describe_root(run: RunCrate, actions: list[Entity], ended: datetime.datetime) -> None:
    crate, root = run.crate, run.crate.root_dataset
    profiles = [
        run.add(
            identifier,
            **{"@type": "CreativeWork", "name": name, "version": identifier.rsplit("/", 1)[1]},
        )
        for identifier, name in PROFILES.items()
    ]
    root["conformsTo"] = profiles
    root["mentions"] = actions
    crate.name = f"How much answers vary: studies {', '.join(run.settings.studies)}"
    crate.description = (
        f"Results of llm-variability {__version__}, with the workflow, the configuration and the"
        " files that prompts were made from. README.md describes every file and column."
    )
    root["license"] = run.add(
        "#licence",
        **{"@type": "CreativeWork", "name": "Licences of parts", "description": _LICENCE},
    )
    crate.datePublished = ended.replace(microsecond=0)
    if (readme := run.by_place.get("README.md")) is not None:
        readme["about"] = root


def _arrange(crate: dict[str, Any]) -> dict[str, Any]:
    """Put the descriptor and the root first, the rest in the order of their ids."""
    rank = {CRATE: 0, "./": 1}
    crate["@graph"].sort(key=lambda each: (rank.get(each["@id"], 2), each["@id"]))
    return crate


def write_crate(crate: Mapping[str, Any], path: Path) -> None:
    """Write a crate's metadata whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    text = json.dumps(crate, indent=1, ensure_ascii=False)
    temporary.write_text(f"{text}\n", encoding="utf-8")
    os.replace(temporary, path)
