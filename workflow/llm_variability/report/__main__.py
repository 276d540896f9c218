"""Command line of the report: `python -m llm_variability.report COMMAND --help`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.logs import log, stage_log, stage_parser
from llm_variability.report.contrasts import ASTERISKS
from llm_variability.tables import (
    ADJUSTED,
    FITS,
    SIMILARITY,
    read_design,
    read_metadata,
    read_table,
)
from llm_variability.tables_code import CURVE_SUMMARIES, CURVES, PARAPHRASES

CODE_INPUTS = (
    "curves",
    "summaries",
    "contrasts",
    "fits",
    "extractions",
    "counts",
    "augmentations",
    "paraphrases",
)
"""Stages' tables that the tables of studies of code are made of."""

PERSONA_INPUTS = (
    "rewritings",
    "separation",
    "means",
    "leakage",
    "confusions",
    "features",
    "shared",
    "topics",
    "counts",
    "extractions",
    "dialogue_changes",
)
"""The same of studies of personas."""


def _add_code_commands(commands: Any) -> None:
    """Add the commands for studies of code."""
    drawn = commands.add_parser("code-figures", help="figures of all models of a study of code")
    heatmaps = commands.add_parser(
        "code-heatmaps", help="heatmaps of each model of a study of code over the settings"
    )
    for command in (drawn, heatmaps):
        command.add_argument("--curves", type=Path, required=True, metavar="FILE")
    heatmaps.add_argument("--summaries", type=Path, required=True, metavar="FILE")
    drawn.add_argument("--paraphrases", type=Path, nargs="*", default=[], metavar="FILE")
    drawn.add_argument(
        "--outdir", type=Path, required=True, metavar="FOLDER", help="the study's folder of figures"
    )
    heatmaps.add_argument(
        "--outdir",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="the same; a model's figures go to a folder of its name in it",
    )
    tables = commands.add_parser("code-tables", help="tables of all studies of code as CSV")
    for name in CODE_INPUTS:
        tables.add_argument(f"--{name}", type=Path, nargs="*", default=[], metavar="FILE")
    tables.add_argument("--outdir", type=Path, required=True, metavar="FOLDER")


def _add_persona_figures(commands: Any) -> None:
    """Add the command for the figures of a study of personas."""
    drawn = commands.add_parser("persona-figures", help="figures of a study of personas")
    for name in (
        "separation",
        "means",
        "leakage",
        "confusions",
        "shared",
        "map",
        "entities",
        "topics",
        "topic-weights",
    ):
        drawn.add_argument(f"--{name}", type=Path, required=True, metavar="FILE")
    drawn.add_argument("--features", type=Path, nargs="*", default=[], metavar="FILE")
    drawn.add_argument(
        "--rewritings", type=Path, metavar="FILE", help="says what personas are called"
    )
    drawn.add_argument(
        "--dialogue-changes", type=Path, metavar="FILE", help="draws the figure of dialogues too"
    )
    drawn.add_argument(
        "--measures",
        nargs="+",
        metavar="NAME",
        help="measures that have figures, the primary one first (default: those of the rows)",
    )
    drawn.add_argument(
        "--stars", choices=ASTERISKS, default="unadjusted", help="p values of the asterisks"
    )
    drawn.add_argument(
        "--outdir", type=Path, required=True, metavar="FOLDER", help="the study's folder of figures"
    )


def _add_persona_tables(commands: Any) -> None:
    """Add the command for the tables of studies of personas."""
    tables = commands.add_parser("persona-tables", help="tables of all studies of personas as CSV")
    for name in PERSONA_INPUTS:
        option = f"--{name.replace('_', '-')}"
        tables.add_argument(option, type=Path, nargs="*", default=[], metavar="FILE")
    tables.add_argument("--outdir", type=Path, required=True, metavar="FOLDER")


def _parser() -> argparse.ArgumentParser:
    parser = stage_parser("Make the report's tables, figures and page.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    heatmap = commands.add_parser("heatmap", help="beta heatmaps of one model and encoder")
    heatmap.add_argument(
        "--fits",
        type=Path,
        required=True,
        metavar="FILE",
        help="the model's fits, or adjusted ones",
    )
    heatmap.add_argument("--model", required=True, help="the language model's name")
    heatmap.add_argument("--encoder", required=True, help="the encoder's name")
    heatmap.add_argument(
        "--stars",
        choices=ASTERISKS,
        default="unadjusted",
        help="p values of the asterisks; adjusted ones need an adjusted table",
    )
    heatmap.add_argument(
        "--stem", type=Path, required=True, help="path of the figures up to the test"
    )

    cosine = commands.add_parser("cosine", help="raw mean cosine by group and temperature")
    cosine.add_argument("--similarity", type=Path, required=True, metavar="FILE")
    cosine.add_argument(
        "--stem", type=Path, required=True, help="path of the figure without its suffix"
    )

    models = commands.add_parser(
        "models", help="figures of all models of one study and encoder, by test"
    )
    models.add_argument("--adjusted", type=Path, required=True, metavar="FILE")
    models.add_argument("--similarity", type=Path, nargs="+", required=True, metavar="FILE")
    models.add_argument(
        "--stem", type=Path, required=True, help="path of the figures up to the test"
    )

    lengths = commands.add_parser("lengths", help="length of the answers of all models of a study")
    lengths.add_argument("--counts", type=Path, nargs="+", required=True, metavar="FILE")
    lengths.add_argument(
        "--stem", type=Path, required=True, help="path of the figure without its suffix"
    )

    tables = commands.add_parser("tables", help="every table of the page as CSV")
    for name in ("adjusted", "similarity", "counts", "stimuli", "diversity"):
        tables.add_argument(f"--{name}", type=Path, nargs="*", default=[], metavar="FILE")
    tables.add_argument("--outdir", type=Path, required=True, metavar="FOLDER")

    _add_code_commands(commands)
    _add_persona_figures(commands)
    _add_persona_tables(commands)
    page = commands.add_parser("page", help="the self-contained HTML page")
    for name in ("tables", "manifests", "draws", "stimuli"):
        page.add_argument(f"--{name}", type=Path, nargs="+", required=True, metavar="FILE")
    for name in (
        "figures",
        "study-figures",
        "code-tables",
        "code-figures",
        "programs",
        "persona-tables",
        "persona-figures",
        "rewritings",
        "features",
        "style",
        "entities",
        "entity-maps",
        "throughput",
        "examples",
        "stages",
    ):
        page.add_argument(f"--{name}", type=Path, nargs="*", default=[], metavar="FILE")
    page.add_argument(
        "--calibration",
        type=Path,
        metavar="FILE",
        help="table of how well the tests keep their level",
    )
    page.add_argument(
        "--diagnostics",
        type=Path,
        metavar="FILE",
        help="where the table of what is checked is written (a CSV file)",
    )
    page.add_argument("--config", type=Path, required=True, metavar="FILE")
    page.add_argument("--output", type=Path, required=True, metavar="FILE")
    return parser


def _make_heatmaps(arguments: argparse.Namespace) -> None:
    from llm_variability.report.figures import save_figure
    from llm_variability.report.heatmap import draw_heatmap
    from llm_variability.report.level_tests import list_views

    path, model, encoder = arguments.fits, arguments.model, arguments.encoder
    is_adjusted = read_metadata(path)["table"] == ADJUSTED.name
    if arguments.stars != "unadjusted" and not is_adjusted:
        raise ValueError(
            f"{path}: asterisks by --stars {arguments.stars} need an adjusted table, this is a"
            f" {read_metadata(path)['table']} table"
        )
    fits = read_table(path, ADJUSTED if is_adjusted else FITS).filter(
        pl.col("analysis") == "main", pl.col("model") == model, pl.col("measure") == encoder
    )
    design, stem = read_design(path), arguments.stem
    for view in list_views(design):
        figure = draw_heatmap(
            fits.filter(view.rows()), design, model, view, encoder, arguments.stars
        )
        title = f"Homogeneity bias, {model}, {view.label}, {encoder}"
        save_figure(figure, stem.with_name(f"{stem.name}-{view.key}"), title)


def _make_cosine(arguments: argparse.Namespace) -> None:
    from llm_variability.report.cosine import draw_mean_cosine
    from llm_variability.report.figures import save_figure
    from llm_variability.report.summaries import encoder_of, mean_cosine_by_group

    path: Path = arguments.similarity
    design, encoder = read_design(path), encoder_of(path)
    model = str(read_metadata(path)["model"])
    means = mean_cosine_by_group(read_table(path, SIMILARITY), design)
    figure = draw_mean_cosine(means, design, model, encoder)
    save_figure(figure, arguments.stem, f"Mean pairwise cosine, {model}, {encoder}")


def _make_models(arguments: argparse.Namespace) -> None:
    from llm_variability.report.comparisons import average_by_temperature, tabulate_signals
    from llm_variability.report.cosine import average_over_groups, draw_models_mean_cosine
    from llm_variability.report.figures import save_figure
    from llm_variability.report.level_tests import list_estimate_views, list_views
    from llm_variability.report.signals import draw_signals
    from llm_variability.report.summaries import collect_means, encoder_of
    from llm_variability.report.trend import draw_trend

    design, encoder = read_design(arguments.adjusted), encoder_of(arguments.similarity[0])
    models = [str(read_metadata(path)["model"]) for path in arguments.similarity]
    fits = read_table(arguments.adjusted, ADJUSTED).filter(
        pl.col("analysis") == "main", pl.col("measure") == encoder
    )
    signals, trend = tabulate_signals(fits, design), average_by_temperature(fits, design)
    drawn = {
        f"{view.key}-signals": draw_signals(
            signals.filter(view.rows()), models, view.explain(design, view.test.label), encoder
        )
        for view in list_views(design)
    }
    drawn |= {
        f"{view.level_key}-trend": draw_trend(
            trend.filter(view.rows()),
            models,
            view,
            encoder,
            view.explain(design, f"{view.test.level} level"),
        )
        for view in list_estimate_views(design)
    }
    means = average_over_groups(collect_means(arguments.similarity), design)
    drawn["cosine"] = draw_models_mean_cosine(means, design, encoder)
    stem: Path = arguments.stem
    for kind, figure in drawn.items():
        title = f"Homogeneity bias by model, {kind}, {encoder}"
        save_figure(figure, stem.with_name(f"{stem.name}-{kind}"), title)


def _make_lengths(arguments: argparse.Namespace) -> None:
    from llm_variability.report.figures import save_figure
    from llm_variability.report.length import draw_lengths, measure_lengths
    from llm_variability.report.summaries import collect_counts

    cells = collect_counts(arguments.counts)
    study = str(read_metadata(arguments.counts[0])["study"])
    figure = draw_lengths(measure_lengths(cells), study)
    save_figure(figure, arguments.stem, f"Length of answers, {study}")


def _make_tables(arguments: argparse.Namespace) -> None:
    from llm_variability.report.summaries import collect_tables, write_tables

    tables = collect_tables(
        arguments.adjusted,
        arguments.similarity,
        arguments.counts,
        arguments.stimuli,
        arguments.diversity,
    )
    write_tables(tables, arguments.outdir)
    log.info("%s", ", ".join(f"{name}: {table.height} rows" for name, table in tables.items()))


def _make_code_figures(arguments: argparse.Namespace) -> None:
    from llm_variability.report.code.figures import choose_setting, draw_code_figure
    from llm_variability.report.code.names import CODE_PREFIX, list_code_figures
    from llm_variability.report.figures import save_figure

    curves, study = _read_curves(arguments.curves)
    if (setting := choose_setting(curves)) is None:
        raise ValueError(f"{arguments.curves}: has no row, so there is nothing to draw")
    models, measures = (
        curves[name].unique(maintain_order=True).to_list() for name in ("model", "measure")
    )
    reworded = [read_table(path, PARAPHRASES) for path in arguments.paraphrases]
    paraphrases = pl.concat(reworded) if reworded else None
    for each in list_code_figures(measures, bool(reworded)):
        figure = draw_code_figure(each, curves, paraphrases, models, setting, study)
        title = f"Sensitivity of code, {study}, {each.label}, {each.measure}".removesuffix(", ")
        save_figure(figure, arguments.outdir / f"{CODE_PREFIX}{each.ending}", title)


def _make_code_heatmaps(arguments: argparse.Namespace) -> None:
    from llm_variability.report.code.heatmap import draw_code_heatmap, find_limits
    from llm_variability.report.code.names import CODE_PREFIX, list_code_heatmaps
    from llm_variability.report.figures import save_figure

    curves, study = _read_curves(arguments.curves)
    summaries = read_table(arguments.summaries, CURVE_SUMMARIES)
    for each in list_code_heatmaps(curves["measure"].unique(maintain_order=True).to_list()):
        limits = find_limits(curves, summaries, each.measure, each.kind)
        for model in curves["model"].unique(maintain_order=True):
            figure = draw_code_heatmap(curves, summaries, model, each.measure, each.kind, limits)
            title = f"Sensitivity of code, {study}, {model}, {each.label}, {each.measure}"
            save_figure(figure, arguments.outdir / model / f"{CODE_PREFIX}{each.ending}", title)


def _read_curves(path: Path) -> tuple[pl.DataFrame, str]:
    return read_table(path, CURVES), str(read_metadata(path)["study"])


def _make_code_tables(arguments: argparse.Namespace) -> None:
    from llm_variability.report.code.tables import collect_code_tables
    from llm_variability.report.summaries import write_tables

    tables = collect_code_tables(**{name: getattr(arguments, name) for name in CODE_INPUTS})
    write_tables(tables, arguments.outdir)
    log.info("%s", ", ".join(f"{name}: {table.height} rows" for name, table in tables.items()))


def _make_persona_figures(arguments: argparse.Namespace) -> None:
    from llm_variability.report.figures import save_figure
    from llm_variability.report.personas.figures import draw_persona_figure, read_persona_tables
    from llm_variability.report.personas.names import (
        PERSONA_PREFIX,
        choose_persona_setting,
        list_persona_figures,
    )

    tables = read_persona_tables(
        separation=arguments.separation,
        means=arguments.means,
        leakage=arguments.leakage,
        confusions=arguments.confusions,
        shared=arguments.shared,
        entity_map=arguments.map,
        entities=arguments.entities,
        topics=arguments.topics,
        topic_weights=arguments.topic_weights,
        features=arguments.features,
        dialogue_changes=arguments.dialogue_changes,
        rewritings=arguments.rewritings,
    )
    setting = choose_persona_setting(tables.separation)
    measures = arguments.measures or tables.measures
    for each in list_persona_figures(measures, tables.dialogue_changes is not None):
        figure = draw_persona_figure(each, tables, setting, arguments.stars)
        title = f"Personas, {tables.study}, {each.label}, {each.measure}".removesuffix(", ")
        save_figure(figure, arguments.outdir / f"{PERSONA_PREFIX}{each.ending}", title)


def _make_persona_tables(arguments: argparse.Namespace) -> None:
    from llm_variability.report.personas.tables import collect_persona_tables
    from llm_variability.report.summaries import write_tables

    tables = collect_persona_tables(**{name: getattr(arguments, name) for name in PERSONA_INPUTS})
    write_tables(tables, arguments.outdir)
    log.info("%s", ", ".join(f"{name}: {table.height} rows" for name, table in tables.items()))


def _make_page(arguments: argparse.Namespace) -> None:
    from llm_variability.report.page import Inputs, write_page

    inputs = Inputs(
        tables=arguments.tables,
        figures=arguments.figures,
        study_figures=arguments.study_figures,
        manifests=arguments.manifests,
        draws=arguments.draws,
        stimuli=arguments.stimuli,
        config=arguments.config,
        calibration=arguments.calibration,
        code_tables=arguments.code_tables,
        code_figures=arguments.code_figures,
        programs=arguments.programs,
        persona_tables=arguments.persona_tables,
        persona_figures=arguments.persona_figures,
        rewritings=arguments.rewritings,
        features=arguments.features,
        style=arguments.style,
        entities=arguments.entities,
        entity_maps=arguments.entity_maps,
        throughput=arguments.throughput,
        examples=arguments.examples,
        stages=arguments.stages,
    )
    write_page(inputs, arguments.output, arguments.diagnostics)
    log.info("%s: %.1f MB", arguments.output, arguments.output.stat().st_size / 1e6)


_COMMANDS = {
    "heatmap": _make_heatmaps,
    "cosine": _make_cosine,
    "models": _make_models,
    "lengths": _make_lengths,
    "tables": _make_tables,
    "code-figures": _make_code_figures,
    "code-heatmaps": _make_code_heatmaps,
    "code-tables": _make_code_tables,
    "persona-figures": _make_persona_figures,
    "persona-tables": _make_persona_tables,
    "page": _make_page,
}


def main(argv: Sequence[str] | None = None) -> None:
    arguments = _parser().parse_args(argv)
    with stage_log(arguments.log):
        _COMMANDS[arguments.command](arguments)


if __name__ == "__main__":
    main()
