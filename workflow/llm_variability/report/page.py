"""The page: one HTML file that needs nothing but itself."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import polars as pl
import yaml

from llm_variability.report import sections
from llm_variability.report.alarms import FEW_TEXTS, THRESHOLDS
from llm_variability.report.contrasts import ASTERISKS, FAMILIES, WITHIN_FAMILY
from llm_variability.report.level_tests import LEVEL_TESTS
from llm_variability.report.marks import SMALL_NOTE, mark_estimates
from llm_variability.report.methods import arrange_calibration
from llm_variability.report.model_section import EXAMPLES_SHOWN
from llm_variability.report.pictures import (
    Context,
    locate_figures,
    locate_study_figures,
    relative,
)
from llm_variability.report.provenance import (
    describe_machine,
    find_commit,
    flatten,
    package_versions,
    read_manifest,
    without_credentials,
)
from llm_variability.report.study_section import build_study
from llm_variability.report.summaries import read_tables
from llm_variability.report.wording import percent, quantity, show_text, signed
from llm_variability.tables import STATUSES, read_metadata


@dataclass(frozen=True)
class Inputs:
    """Files that a page is made from."""

    tables: Sequence[Path]
    figures: Sequence[Path]
    study_figures: Sequence[Path]
    manifests: Sequence[Path]
    draws: Sequence[Path]
    stimuli: Sequence[Path]
    config: Path
    calibration: Path | None = None


_ESTIMATES = ("fits", "default_estimates", "sensitivity", "diversity_estimates")
"""Tables of the page whose estimates are marked."""

_SHOWN_ELSEWHERE = {"design", "table", "manifest", "identity", "study", "model"}


def _engine_rows(paths: Sequence[Path]) -> list[Context]:
    rows = []
    for path in paths:
        metadata = read_metadata(path)
        named = {key: value for key, value in metadata.items() if key not in _SHOWN_ELSEWHERE}
        shown = {key: show_text(value) for key, value in flatten(named).items()}
        rows.append(
            {"title": f"{metadata['study']}, {metadata['model']}, {path.stem}", "values": shown}
        )
    return rows


def _list_stimuli(paths: Iterable[Path]) -> dict[str, str]:
    """Give the SHA-256 of the files that each study's prompts were made from, by its name."""
    files = {}
    for path in paths:
        metadata = read_metadata(path)
        for name, checksum in metadata.get("files", {}).items():
            files[f"{metadata['study']}: {show_text(name)}"] = checksum
    return files


def _largest_family(fits: pl.DataFrame) -> str:
    sizes = fits.filter(pl.col("analysis") == "main")["family_size"].drop_nulls()
    return f"{max(sizes.to_list()):,}" if sizes.len() else ""


def _read_choices(config: str) -> tuple[str, str]:
    """Give `fits.family` and `report.asterisks` of a configuration, their defaults if unnamed."""
    settings = yaml.safe_load(config) or {}
    return (
        (settings.get("fits") or {}).get("family", "study"),
        (settings.get("report") or {}).get("asterisks", "unadjusted"),
    )


def _made_at() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = (
        datetime.datetime.fromtimestamp(int(epoch), datetime.UTC)
        if epoch
        else datetime.datetime.now(datetime.UTC)
    )
    return f"{now:%Y-%m-%d %H:%M} UTC"


def build_page(inputs: Inputs, output: Path) -> Context:
    """Gather everything the template says.

    Raises ValueError if a study of the tables has no stimuli table.
    """
    config_text = inputs.config.read_text(encoding="utf-8")
    family, asterisks = _read_choices(config_text)
    tables = read_tables(inputs.tables)
    for name in _ESTIMATES:
        tables[name] = mark_estimates(tables[name], asterisks)
    calibration = arrange_calibration(inputs.calibration)
    calibrated = {
        kind: None if calibration is None else calibration[f"fewest_{kind}"]
        for kind in ("texts", "names")
    }
    figures = locate_figures(inputs.figures)
    study_figures = locate_study_figures(inputs.study_figures)
    stimuli = {str(read_metadata(path)["study"]): path for path in inputs.stimuli}
    studies = list(dict.fromkeys([*tables["draw_counts"]["study"], *tables["fits"]["study"]]))
    if lacking := [study for study in studies if study not in stimuli]:
        raise ValueError(f"no stimuli table was given for the study {lacking[0]}; see --stimuli")
    draws: dict[str, dict[str, Path]] = {}
    for path in inputs.draws:
        metadata = read_metadata(path)
        draws.setdefault(str(metadata["study"]), {})[str(metadata["model"])] = path
    built = [
        build_study(
            study,
            tables,
            figures,
            study_figures,
            stimuli[study],
            draws.get(study, {}),
            calibrated,
            WITHIN_FAMILY[family],
            output,
        )
        for study in studies
    ]
    manifests = [
        {"kind": path.parent.name.removesuffix("s"), "values": read_manifest(path)}
        for path in inputs.manifests
    ]
    return {
        "studies": built,
        "name_studies": sections.compare_name_studies(
            tables, {section["name"]: section["design"] for section in built}
        ),
        "alarms": [
            (section["name"], text)
            for section in built
            for text in [*section["alarms_in_short"], *section["further_alarms"]]
        ],
        "failed_fits": sum(row["settings"] for section in built for row in section["failures"]),
        "level_tests": LEVEL_TESTS,
        "family": FAMILIES[family],
        "within": WITHIN_FAMILY[family],
        "family_size": _largest_family(tables["fits"]),
        "asterisks": ASTERISKS[asterisks][1],
        "small_note": SMALL_NOTE,
        "one_model": len({model for section in built for model in section["model_names"]}) == 1,
        "calibration": calibration,
        "thresholds": {name: percent(share) for name, share in THRESHOLDS.items()},
        "few_texts": FEW_TEXTS,
        "statuses": STATUSES,
        "examples_shown": EXAMPLES_SHOWN,
        "manifests": manifests,
        "engines": _engine_rows(inputs.draws),
        "stimuli_files": _list_stimuli(inputs.stimuli),
        "packages": package_versions(),
        "machine": describe_machine(),
        "commit": find_commit(),
        "made_at": _made_at(),
        "config": without_credentials(config_text),
        "csv_files": [
            {
                "name": path.name,
                "href": relative(path, output),
                "rows": quantity(tables[path.stem].height, "row"),
            }
            for path in inputs.tables
        ],
    }


def render_page(context: Context) -> str:
    """Fill the template in; every value is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("llm_variability.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["signed"] = signed
    return environment.get_template("page.html").render(context)


def write_page(inputs: Inputs, output: Path) -> None:
    """Write the page whole or not at all."""
    output.parent.mkdir(parents=True, exist_ok=True)
    text = render_page(build_page(inputs, output))
    temporary = output.parent / f".{output.name}.tmp"
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, output)
