"""The page: one HTML file that needs nothing but itself."""

from __future__ import annotations

import base64
import datetime
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import polars as pl

from llm_variability.config import GREEDY, cell_name
from llm_variability.report import findings, sections, statements
from llm_variability.report.contrasts import (
    SIGNIFICANCE,
    Contrast,
    is_anchor,
    list_contrasts,
    reference_note,
)
from llm_variability.report.provenance import (
    describe_machine,
    find_commit,
    flatten,
    package_versions,
    read_manifest,
    without_credentials,
)
from llm_variability.report.summaries import read_tables
from llm_variability.report.svg import compact_svg
from llm_variability.report.wording import (
    anchor,
    p_text,
    percent,
    quantity,
    show_text,
    signed,
)
from llm_variability.tables import DRAWS, STATUSES, STIMULI, Design, read_metadata, read_table

EXAMPLES_SHOWN = 16
"""Groups that the examples show at most."""


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


Context = dict[str, Any]
Signals = dict[tuple[str, str, str, str], findings.Signal]

_SHOWN_ELSEWHERE = {"design", "table", "manifest", "identity", "study", "model"}


# ------------------------------------------------------------------------------- figures


def locate_figures(paths: Iterable[Path]) -> dict[tuple[str, str, str, str], Path]:
    """Find each figure by (study, model, encoder, kind) from STUDY/MODEL/ENCODER-KIND.svg.

    Raises ValueError for another path.
    """
    figures = {}
    for path in paths:
        encoder, dash, kind = path.stem.rpartition("-")
        if not dash or len(path.parts) < 3 or path.suffix != ".svg":
            raise ValueError(f"{path}: a figure of the page is STUDY/MODEL/ENCODER-KIND.svg")
        figures[(path.parts[-3], path.parts[-2], encoder, kind)] = path
    return figures


def locate_study_figures(paths: Iterable[Path]) -> dict[tuple[str, str], Path]:
    """Find each figure over all models by (study, its name without suffix) from STUDY/NAME.svg."""
    return {(path.parts[-2], path.stem): path for path in paths}


def _figure(path: Path | None, alt: str, output: Path) -> Context | None:
    if path is None:
        return None
    drawn = compact_svg(path.read_text(encoding="utf-8"))
    data = base64.b64encode(drawn.encode("utf-8")).decode("ascii")
    twins = [path.with_suffix(suffix) for suffix in (".svg", ".pdf", ".png")]
    return {
        "uri": f"data:image/svg+xml;base64,{data}",
        "alt": alt,
        "downloads": [
            {"name": twin.suffix[1:].upper(), "href": _relative(twin, output)}
            for twin in twins
            if twin.exists()
        ],
    }


def _relative(path: Path, output: Path) -> str:
    return Path(os.path.relpath(path, output.parent)).as_posix()


# -------------------------------------------------------------------------------- tables


def _estimate_text(row: dict[str, Any]) -> str:
    if not row["converged"]:
        return f"{signed(row['estimate'])}†"
    star = "*" if row["p_value"] is not None and row["p_value"] < SIGNIFICANCE else ""
    return f"{signed(row['estimate'])}{star}"


def _interval_text(row: dict[str, Any]) -> str:
    if row["ci_low"] is None or row["p_value"] is None:
        return ""
    low, high = signed(row["ci_low"]), signed(row["ci_high"])
    return f"[{low}, {high}] {p_text(row['p_value'], SIGNIFICANCE)}"


def _fits_table(fits: pl.DataFrame, contrasts: list[Contrast]) -> Context:
    rows: dict[tuple[str, str | None], Context] = {}
    for row in fits.iter_rows(named=True):
        setting = rows.setdefault(
            (row["temperature"], row["top_p"]),
            {
                "temperature": row["temperature"],
                "top_p": row["top_p"] or "any",
                "n": f"{row['n_observations']:,}",
                "cells": {},
                "reason": row["reason"],
            },
        )
        if row["estimate"] is not None:
            setting["cells"][row["term"]] = (_estimate_text(row), _interval_text(row))
    return {"contrasts": contrasts, "rows": list(rows.values())}


def _mean_table(means: pl.DataFrame, design: Design) -> Context:
    """Groups by row, settings by column, as the mean cosine table has them."""
    factors = [factor.name for factor in design.factors]
    settings: dict[str, None] = {}
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for row in means.iter_rows(named=True):
        cell = cell_name(row["temperature"], row["top_p"])
        settings[cell] = None
        mean = row["mean_cosine"]
        group = rows.setdefault(tuple(row[name] for name in factors), {})
        group[cell] = "–" if mean is None else signed(mean, 3)
    return {"factors": factors, "settings": list(settings), "rows": rows}


def _count_rows(cells: pl.DataFrame) -> list[Context]:
    rows = []
    for cell in cells.iter_rows(named=True):
        alarms = findings.find_alarms(cell)
        draws = cell["draws"]
        rows.append(
            {
                "model": cell["model"],
                "cell": cell["cell"],
                "draws": f"{draws:,}",
                "statuses": [
                    {
                        "count": f"{cell[status]:,}",
                        "share": percent(cell[status] / draws)
                        if status != "ok" and cell[status]
                        else "",
                        "alarm": status in alarms,
                    }
                    for status in STATUSES
                ],
                "distinct": f"{cell['distinct_texts']:,}",
                "identical": f"{cell['identical_prompts']:,} of {cell['repeated_prompts']:,}"
                if cell["repeated_prompts"]
                else "–",
                "identical_alarm": "identical" in alarms,
                "tokens": f"{cell['completion_tokens']:,}",
            }
        )
    return rows


def _signal_tables(
    fits: pl.DataFrame, contrasts: list[Contrast], levels: list[str], signals: Signals
) -> list[Context]:
    """For each encoder, a row a model and contrast."""
    tables: dict[str, list[Context]] = {}
    for measure, model in fits.select("measure", "model").unique(maintain_order=True).iter_rows():
        for contrast in contrasts:
            of_levels = [signals.get((measure, model, level, contrast.term)) for level in levels]
            if any(of_levels):
                row = {"model": model, "contrast": contrast, "signals": of_levels}
                tables.setdefault(measure, []).append(row)
    return [{"encoder": encoder, "rows": rows} for encoder, rows in tables.items()]


# ------------------------------------------------------------------------------ examples


def choose_examples(draws: pl.DataFrame, stimuli: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Choose, for each group, the first draw of its first prompt in the stimuli table.

    The rule does not look at the text. Returns rows of the draws with `system` and `prompt`.
    """
    factors = [factor.name for factor in design.factors]
    order = stimuli.with_row_index("order").select("prompt_id", "system", "prompt", "order")
    return (
        draws.join(order, on="prompt_id", how="inner")
        .sort("order", "replicate")
        .unique(factors, keep="first", maintain_order=True)
        .drop("order")
    )


def _examples(path: Path, stimuli: pl.DataFrame, design: Design) -> Context:
    chosen = choose_examples(read_table(path, DRAWS), stimuli, design)
    return {
        "cell": path.stem,
        "groups": chosen.height,
        "rows": [
            {
                "group": ", ".join(row[factor.name] for factor in design.factors),
                "prompt": show_text(row["prompt"]),
                "status": row["status"],
                "seed": row["seed"],
                "replicate": row["replicate"],
                "text": show_text(row["text"] or row["raw"] or ""),
                "error": show_text(row["error"] or ""),
            }
            for row in chosen.head(EXAMPLES_SHOWN).iter_rows(named=True)
        ],
    }


# ------------------------------------------------------------------------------- sections


def _headline(
    fits: pl.DataFrame, contrasts: list[Contrast], levels: list[str], signals: Signals
) -> list[str]:
    """A sentence for each main contrast under the first encoder."""
    if not fits.height:
        return []
    encoder = fits["measure"][0]
    models = fits["model"].unique(maintain_order=True).to_list()
    sentences = []
    for contrast in contrasts:
        by_level = {
            level: [
                signals[key]
                for model in models
                if (key := (encoder, model, level, contrast.term)) in signals
            ]
            for level in levels
        }
        by_level = {level: found for level, found in by_level.items() if found}
        if by_level and not contrast.is_interaction:
            sentences.append(findings.describe_contrast(contrast, by_level))
    return sentences


def _agreements(tables: dict[str, pl.DataFrame]) -> list[str]:
    """A sentence on how encoders agree, and one on how levels do, as far as there are two."""
    encoders = statements.describe_encoders(tables["encoder_agreement"], "pairwise")
    levels = tables["level_agreement"]
    first = levels.filter(pl.col("encoder") == levels["encoder"].first())
    return [text for text in (encoders, statements.describe_levels(first)) if text]


def _overviews(
    study: str,
    encoders: list[str],
    levels: list[str],
    tables: dict[str, pl.DataFrame],
    figures: dict[tuple[str, str], Path],
    output: Path,
) -> list[Context]:
    """For each encoder, the figures over all models: counts, estimates and cosines."""

    def picture(name: str, caption: str) -> Context:
        return {"figure": _figure(figures.get((study, name)), caption, output), "caption": caption}

    found = []
    for encoder in encoders:
        of_encoder = {
            name: tables[name].filter(pl.col("encoder") == encoder)
            for name in ("signals", "temperature_estimates", "temperature_cosine")
        }
        signals, trends = [], []
        for level in levels:
            counted = of_encoder["signals"].filter(pl.col("level") == level)
            averaged = of_encoder["temperature_estimates"].filter(pl.col("level") == level)
            signals.append(
                picture(
                    f"{encoder}-{level}-signals",
                    statements.describe_signals(counted, level, encoder),
                )
            )
            trends.append(
                picture(
                    f"{encoder}-{level}-trend", statements.describe_trend(averaged, level, encoder)
                )
            )
        cosines = statements.describe_models_cosine(of_encoder["temperature_cosine"], encoder)
        found.append(
            {
                "encoder": encoder,
                "signals": signals,
                "trends": trends,
                "cosine": picture(f"{encoder}-cosine", cosines),
            }
        )
    return found


def _model_section(
    study: str,
    model: str,
    study_tables: dict[str, pl.DataFrame],
    signals: Signals,
    design: Design,
    figures: dict[tuple[str, str, str, str], Path],
    examples: Context | None,
    output: Path,
) -> Context:
    fits = study_tables["fits"].filter(pl.col("model") == model)
    means = study_tables["mean_cosine"].filter(pl.col("model") == model)
    encoders = list(dict.fromkeys([*fits["measure"], *means["encoder"]]))
    sections = []
    for encoder in encoders:
        heatmaps = []
        of_encoder = fits.filter(pl.col("measure") == encoder)
        for level in of_encoder["level"].unique(maintain_order=True):
            shown = of_encoder.filter(pl.col("level") == level, ~is_anchor(design))
            contrasts = list_contrasts(shown["term"], design)
            of_terms = {
                contrast.term: signals[key]
                for contrast in contrasts
                if (key := (encoder, model, level, contrast.term)) in signals
            }
            alt = findings.describe_heatmap(contrasts, of_terms, model, level, encoder)
            heatmaps.append(
                {
                    "level": level,
                    "figure": _figure(figures.get((study, model, encoder, level)), alt, output),
                    "caption": alt,
                    "table": _fits_table(shown, contrasts),
                }
            )
        of_encoder = means.filter(pl.col("encoder") == encoder)
        alt = findings.describe_cosine(of_encoder, design, model, encoder)
        sections.append(
            {
                "name": encoder,
                "heatmaps": heatmaps,
                "cosine": {
                    "figure": _figure(figures.get((study, model, encoder, "cosine")), alt, output),
                    "caption": alt,
                    "table": _mean_table(of_encoder, design),
                },
            }
        )
    return {
        "name": model,
        "anchor": anchor("study", study, model),
        "encoders": sections,
        "examples": examples,
    }


def _length_figure(
    study: str, lengths: pl.DataFrame, figures: dict[tuple[str, str], Path], output: Path
) -> Context:
    caption = statements.describe_lengths(lengths)
    return {
        "figure": _figure(figures.get((study, "output_length")), caption, output),
        "caption": caption,
    }


def build_study(
    study: str,
    tables: dict[str, pl.DataFrame],
    figures: dict[tuple[str, str, str, str], Path],
    study_figures: dict[tuple[str, str], Path],
    stimuli_path: Path,
    draws: dict[str, Path],
    output: Path,
) -> Context:
    """Gather what the page says of one study."""
    design = Design.from_json(read_metadata(stimuli_path)["design"])
    stimuli = read_table(stimuli_path, STIMULI)
    tables = {name: table.filter(pl.col("study") == study) for name, table in tables.items()}
    fits, cells = tables["fits"], tables["draw_counts"]
    levels = fits["level"].unique(maintain_order=True).to_list()
    contrasts = list_contrasts(fits["term"], design)
    models = list(dict.fromkeys([*cells["model"], *fits["model"]]))
    encoders = list(dict.fromkeys([*fits["measure"], *tables["mean_cosine"]["encoder"]]))
    signals = findings.read_signals(tables["signals"])
    lengths = tables["output_length"]
    repeated = design.unit is None or bool(cells["repeated_prompts"].sum())
    greedy_only_anchor = design.greedy_is_anchor and (cells["temperature"] == GREEDY).any()
    return {
        "name": study,
        "anchor": anchor("study", study),
        "draws_sentence": findings.describe_draws(cells) if cells.height else "No draws were made.",
        "headline": _headline(fits, contrasts, levels, signals),
        "agreements": _agreements(tables),
        "primary_encoder": fits["measure"][0] if fits.height else "",
        "design": design,
        "prompts": quantity(stimuli.height, "prompt"),
        "example_prompt": show_text(stimuli["prompt"][0]) if stimuli.height else "",
        "greedy_note": greedy_only_anchor,
        "reference": reference_note(design),
        "factors": " × ".join(factor.name for factor in design.factors),
        "has_interaction": any(contrast.is_interaction for contrast in contrasts),
        "levels": levels,
        "signals": _signal_tables(fits, contrasts, levels, signals),
        "overviews": _overviews(study, encoders, levels, tables, study_figures, output),
        "default": sections.arrange_default(tables["default_estimates"], contrasts, models),
        "encoder_agreement": sections.arrange_encoder_agreement(tables["encoder_agreement"]),
        "level_agreement": sections.arrange_level_agreement(tables["level_agreement"]),
        "selection": sections.arrange_selection(tables["name_selection"]),
        "members": sections.list_members(stimuli, design),
        "lengths": {
            **_length_figure(study, lengths, study_figures, output),
            "table": sections.arrange_lengths(lengths),
        },
        "draws_repeat": repeated,
        "models": [
            _model_section(
                study,
                model,
                tables,
                signals,
                design,
                figures,
                _examples(draws[model], stimuli, design) if model in draws else None,
                output,
            )
            for model in models
        ],
        "counts": _count_rows(cells),
        "alarms": list(findings.describe_alarms(cells)),
        "alarms_in_short": list(findings.summarise_alarms(cells)),
        "further_alarms": [
            *statements.describe_over_long(tables["over_long"]),
            *(
                text
                for model, path in draws.items()
                for text in statements.describe_ignored_arguments(
                    model, read_metadata(path).get("sessions", ())
                )
            ),
            *(
                findings.describe_determinism(row)
                for row in tables["determinism"].iter_rows(named=True)
                if row["varying_prompts"]
            ),
        ],
        "determinism": [
            findings.describe_determinism(row)
            for row in tables["determinism"].iter_rows(named=True)
            if row["repeated_prompts"] or design.unit is None
        ],
        "failures": findings.list_failures(fits, design),
    }


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
    tables = read_tables(inputs.tables)
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
            study, tables, figures, study_figures, stimuli[study], draws.get(study, {}), output
        )
        for study in studies
    ]
    manifests = [
        {"kind": path.parent.name.removesuffix("s"), "values": read_manifest(path)}
        for path in inputs.manifests
    ]
    config_text = inputs.config.read_text(encoding="utf-8")
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
        "caution": findings.CAUTION
        + (findings.NAMES_CAUTION if any(each["design"].unit for each in built) else ""),
        "thresholds": {name: percent(share) for name, share in findings.THRESHOLDS.items()},
        "statuses": STATUSES,
        "examples_shown": EXAMPLES_SHOWN,
        "manifests": manifests,
        "engines": _engine_rows(inputs.draws),
        "packages": package_versions(),
        "machine": describe_machine(),
        "commit": find_commit(),
        "made_at": _made_at(),
        "config": without_credentials(config_text),
        "csv_files": [
            {
                "name": path.name,
                "href": _relative(path, output),
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
