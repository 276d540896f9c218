"""The page: one HTML file that needs nothing but itself."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import polars as pl
import yaml
from markupsafe import Markup

from llm_variability.config_personas import Separation
from llm_variability.report import sections
from llm_variability.report.alarms import MIN_PROGRAMS, THRESHOLDS
from llm_variability.report.charts.library import load_library
from llm_variability.report.code.schemas import CODE_SCHEMAS
from llm_variability.report.code.section import DOCUMENTS as CODE_DOCUMENTS
from llm_variability.report.code.section import build_code_study, locate_code_figures
from llm_variability.report.contents import list_contents
from llm_variability.report.contrasts import ASTERISKS, FAMILIES, WITHIN_FAMILY
from llm_variability.report.diagnostics import Check, arrange_diagnostics, tabulate_checks
from llm_variability.report.downloads import DESCRIPTIONS, list_parquet
from llm_variability.report.examples_section import arrange_all_examples
from llm_variability.report.level_tests import LEVEL_TESTS
from llm_variability.report.marks import SMALL_NOTE, mark_estimates
from llm_variability.report.methods import arrange_calibration
from llm_variability.report.personas.portraits import PersonaFiles
from llm_variability.report.personas.schemas import PERSONA_SCHEMAS
from llm_variability.report.personas.section import DOCUMENTS as PERSONA_DOCUMENTS
from llm_variability.report.personas.section import build_persona_study, locate_persona_figures
from llm_variability.report.pictures import (
    Context,
    locate_figures,
    locate_study_figures,
    name_documents,
    relative,
)
from llm_variability.report.provenance import (
    describe_machine,
    find_commit,
    flatten,
    list_makers,
    list_stages,
    read_manifest,
    without_credentials,
)
from llm_variability.report.scripts import allow_scripts, as_json, load_script
from llm_variability.report.study_section import build_study
from llm_variability.report.summaries import read_tables, write_tables
from llm_variability.report.wording import percent, quantity, show_text, signed
from llm_variability.software import package_versions
from llm_variability.tables import STATUSES, THROUGHPUT, read_metadata, read_table


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
    code_tables: Sequence[Path] = ()
    code_figures: Sequence[Path] = ()
    programs: Sequence[Path] = ()
    persona_tables: Sequence[Path] = ()
    persona_figures: Sequence[Path] = ()
    rewritings: Sequence[Path] = ()
    features: Sequence[Path] = ()
    style: Sequence[Path] = ()
    entities: Sequence[Path] = ()
    entity_maps: Sequence[Path] = ()
    throughput: Sequence[Path] = ()
    examples: Sequence[Path] = ()
    stages: Sequence[Path] = ()


SCRIPTS: tuple[str, ...] = ("explorer", "examples")
"""The page's scripts, in the order in which they run; files of the folder `scripts`."""

_ESTIMATES = ("fits", "default_estimates", "sensitivity", "diversity_estimates")
"""Tables of the page whose estimates are marked."""

_SHOWN_ELSEWHERE = {"design", "table", "manifest", "identity", "study", "model"}


def _engine_rows(paths: Sequence[Path]) -> list[Context]:
    rows = []
    for path in paths:
        metadata = read_metadata(path)
        named = {key: value for key, value in metadata.items() if key not in _SHOWN_ELSEWHERE}
        shown = {key: show_text(value) for key, value in flatten(named).items()}
        cell = (
            path.stem
            if path.parent.name == metadata["model"]
            else f"{path.parent.name}/{path.stem}"
        )
        rows.append({"title": f"{metadata['study']}, {metadata['model']}, {cell}", "values": shown})
    return rows


def _list_throughput(paths: Iterable[Path]) -> list[Context]:
    """Say where each model's draws were made, and how fast."""
    return [
        {
            **{key: "–" if value is None else show_text(str(value)) for key, value in row.items()},
            "model": read_metadata(path)["model"],
            "draws": f"{row['draws']:,}",
            "completion_tokens": f"{row['completion_tokens']:,}",
            "minutes": f"{row['seconds'] / 60:,.1f}",
            "tokens_per_s": "–" if row["tokens_per_s"] is None else f"{row['tokens_per_s']:,.0f}",
        }
        for path in paths
        for row in read_table(path, THROUGHPUT).iter_rows(named=True)
    ]


def _list_stimuli(paths: Iterable[Path]) -> dict[str, str]:
    """Give the SHA-256 of what each study's prompts were made from, by its name."""
    files = {}
    for path in paths:
        metadata = read_metadata(path)
        for name, checksum in metadata.get("files", {}).items():
            files[f"{metadata['study']}: {show_text(name)}"] = checksum
        for name, tasks in metadata.get("sets", {}).items():
            files[f"{metadata['study']}: tasks {show_text(name)}"] = tasks["sha256"]
        if wordnet := metadata.get("wordnet"):
            named = f"{wordnet['version']}, {wordnet['source']}"
            files[f"{metadata['study']}: {show_text(named)}"] = wordnet["checksum"]
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


def _read_seed(config: str) -> str:
    """Give `seed` of a configuration."""
    return str((yaml.safe_load(config) or {}).get("seed", "not named"))


def _by_study_and_model(paths: Iterable[Path]) -> dict[str, dict[str, Path]]:
    """Arrange tables by the study and the model that their metadata name."""
    arranged: dict[str, dict[str, Path]] = {}
    for path in paths:
        metadata = read_metadata(path)
        arranged.setdefault(str(metadata["study"]), {})[str(metadata["model"])] = path
    return arranged


def _build_code_studies(
    tables: dict[str, pl.DataFrame],
    inputs: Inputs,
    stimuli: Mapping[str, Path],
    stars: str,
    output: Path,
) -> list[Context]:
    """Gather the sections of the studies of code. tables: none, or all of `CODE_SCHEMAS`."""
    if not tables:
        return []
    figures = locate_code_figures(inputs.code_figures)
    studies = list(
        dict.fromkeys([*tables["code_extractions"]["study"], *tables["code_curves"]["study"]])
    )
    _need_stimuli(studies, stimuli)
    return [
        build_code_study(study, tables, figures, stimuli[study], stars, output) for study in studies
    ]


def _read_separation(config: str) -> Separation:
    """Give `separation` of a configuration, its defaults where unnamed."""
    settings = yaml.safe_load(config) or {}
    return Separation.model_validate(settings.get("separation") or {})


def _by_study(paths: Iterable[Path]) -> dict[str, Path]:
    """Arrange tables by the study that their metadata name."""
    return {str(read_metadata(path)["study"]): path for path in paths}


def _build_persona_studies(
    tables: dict[str, pl.DataFrame],
    inputs: Inputs,
    stimuli: Mapping[str, Path],
    separation: Separation,
    stars: str,
    output: Path,
) -> list[Context]:
    """Gather the sections of the studies of personas. tables: none, or all of `PERSONA_SCHEMAS`."""
    if not tables:
        return []
    studies = tables["persona_prompts"]["study"].unique(maintain_order=True).to_list()
    _need_stimuli(studies, stimuli)
    figures = locate_persona_figures(inputs.persona_figures)
    features, programs = map(_by_study_and_model, (inputs.features, inputs.programs))
    rewritings, style, entities, maps = map(
        _by_study, (inputs.rewritings, inputs.style, inputs.entities, inputs.entity_maps)
    )
    built = []
    for study in studies:
        if study not in rewritings:
            raise ValueError(f"no rewritings were given for the study {study}; see --rewritings")
        files = PersonaFiles(
            stimuli=stimuli[study],
            rewritings=rewritings[study],
            style=style.get(study),
            entities=entities.get(study),
            entity_map=maps.get(study),
            features=features.get(study, {}),
            programs=programs.get(study, {}),
            draws=[path for path in inputs.draws if read_metadata(path)["study"] == study],
        )
        built.append(build_persona_study(study, tables, figures, files, separation, stars, output))
    return built


def _need_stimuli(studies: Iterable[str], stimuli: Mapping[str, Path]) -> None:
    for study in studies:
        if study not in stimuli:
            raise ValueError(f"no stimuli table was given for the study {study}; see --stimuli")


def _name_variation(
    studies: Sequence[Context], code: Sequence[Context], personas: Sequence[Context]
) -> list[str]:
    """Name what answers vary by, besides the setting: of the kinds of study that are there."""
    kinds = {"group": studies, "prompt": code, "persona": personas}
    return [kind for kind, there in kinds.items() if there] or ["group"]


def _made_at() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = (
        datetime.datetime.fromtimestamp(int(epoch), datetime.UTC)
        if epoch
        else datetime.datetime.now(datetime.UTC)
    )
    return f"{now:%Y-%m-%d %H:%M} UTC"


def build_page(inputs: Inputs, output: Path, diagnostics: Path | None = None) -> Context:
    """Gather everything the template says.

    diagnostics: the file that the table of diagnostics is written to, which the page links to.
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
    _need_stimuli(studies, stimuli)
    draws = _by_study_and_model(inputs.draws)
    code_tables = read_tables(inputs.code_tables, CODE_SCHEMAS) if inputs.code_tables else {}
    code_studies = _build_code_studies(code_tables, inputs, stimuli, asterisks, output)
    persona_tables = (
        read_tables(inputs.persona_tables, PERSONA_SCHEMAS) if inputs.persona_tables else {}
    )
    persona_studies = _build_persona_studies(
        persona_tables, inputs, stimuli, _read_separation(config_text), asterisks, output
    )
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
    checks = [
        check
        for section in [*built, *code_studies, *persona_studies]
        for check in section["checks"]
    ]
    manifests = [
        {"kind": path.parent.name.removesuffix("s"), "values": read_manifest(path)}
        for path in inputs.manifests
    ]
    return {
        "studies": built,
        "code_studies": code_studies,
        "persona_studies": persona_studies,
        "persona_documents": name_documents(PERSONA_DOCUMENTS),
        "varied": _name_variation(built, code_studies, persona_studies),
        "documents": name_documents(CODE_DOCUMENTS),
        "name_studies": sections.compare_name_studies(
            tables, {section["name"]: section["design"] for section in built}
        ),
        "checks": checks,
        "diagnostics": arrange_diagnostics(checks),
        "diagnostics_file": None if diagnostics is None else relative(diagnostics, output),
        "level_tests": LEVEL_TESTS,
        "family": FAMILIES[family],
        "within": WITHIN_FAMILY[family],
        "family_size": _largest_family(tables["fits"]),
        "asterisks": ASTERISKS[asterisks][1],
        "small_note": SMALL_NOTE,
        "one_model": len(
            {
                model
                for section in [*built, *code_studies, *persona_studies]
                for model in section["model_names"]
            }
        )
        == 1,
        "calibration": calibration,
        "thresholds": {name: percent(share) for name, share in THRESHOLDS.items()},
        "min_programs": percent(MIN_PROGRAMS),
        "statuses": STATUSES,
        "examples": arrange_all_examples(_by_study_and_model(inputs.examples), output),
        "manifests": manifests,
        "engines": _engine_rows(inputs.draws),
        "throughput": _list_throughput(inputs.throughput),
        "stimuli_files": _list_stimuli(inputs.stimuli),
        "makers": list_makers(read_metadata(path) for path in inputs.draws),
        "stages": list_stages(
            read_metadata(path)
            for path in [*inputs.stimuli, *inputs.programs, *inputs.features, *inputs.stages]
        ),
        "seed": _read_seed(config_text),
        "parquet": [
            {"study": study, "kinds": kinds}
            for study in stimuli
            if (kinds := list_parquet(study, output))
        ],
        "descriptions": DESCRIPTIONS,
        "packages": package_versions(),
        "machine": describe_machine(),
        "commit": find_commit(),
        "made_at": _made_at(),
        "config": without_credentials(config_text),
        "csv_files": [
            {
                "name": path.name,
                "href": relative(path, output),
                "rows": quantity((tables | code_tables | persona_tables)[path.stem].height, "row"),
            }
            for path in [*inputs.tables, *inputs.code_tables, *inputs.persona_tables]
        ]
        + _list_diagnostics(diagnostics, checks, output),
    }


def _list_diagnostics(path: Path | None, checks: Sequence[Check], output: Path) -> list[Context]:
    """Link the table of diagnostics, if it is written."""
    if path is None:
        return []
    rows = quantity(len(checks), "row")
    return [{"name": path.name, "href": relative(path, output), "rows": rows}]


def list_charts(context: Context) -> list[Context]:
    """List what the script of the charts reads, of every chart of the page."""
    studies = [*context["studies"], *context["code_studies"], *context["persona_studies"]]
    return [chart.to_json() for study in studies for chart in study.get("charts", {}).values()]


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
    environment.filters["as_json"] = as_json
    charts = list_charts(context)
    scripts = [*([load_library()] if charts else []), *(load_script(name) for name in SCRIPTS)]
    main = environment.get_template("main.html").render(context)
    return environment.get_template("page.html").render(
        context,
        main=Markup(main),
        contents=list_contents(main),
        charts=charts,
        scripts=scripts,
        policy=allow_scripts(scripts),
    )


def write_page(inputs: Inputs, output: Path, diagnostics: Path | None = None) -> None:
    """Write the page whole or not at all.

    diagnostics: where the table of what its section of diagnostics shows is written.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    context = build_page(inputs, output, diagnostics)
    if diagnostics is not None:
        write_tables({diagnostics.stem: tabulate_checks(context["checks"])}, diagnostics.parent)
    text = render_page(context)
    temporary = output.parent / f".{output.name}.tmp"
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, output)
