"""Command line of the report: `python -m llm_variability.report COMMAND --help`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from llm_variability.logs import log, stage_log, stage_parser
from llm_variability.tables import FITS, SIMILARITY, read_design, read_metadata, read_table

LEVELS = ("pairwise", "cell")


def _parser() -> argparse.ArgumentParser:
    parser = stage_parser("Make the report's tables, figures and page.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    heatmap = commands.add_parser("heatmap", help="beta heatmap of one model, encoder and level")
    heatmap.add_argument("--fits", type=Path, required=True, metavar="FILE")
    heatmap.add_argument("--level", required=True, choices=LEVELS)
    heatmap.add_argument(
        "--stem", type=Path, required=True, help="path of the figure without its suffix"
    )

    cosine = commands.add_parser("cosine", help="raw mean cosine by group and temperature")
    cosine.add_argument("--similarity", type=Path, required=True, metavar="FILE")
    cosine.add_argument(
        "--stem", type=Path, required=True, help="path of the figure without its suffix"
    )

    models = commands.add_parser(
        "models", help="figures of all models of one study and encoder, by level"
    )
    for name in ("fits", "similarity"):
        models.add_argument(f"--{name}", type=Path, nargs="+", required=True, metavar="FILE")
    models.add_argument(
        "--stem", type=Path, required=True, help="path of the figures up to the level"
    )

    lengths = commands.add_parser("lengths", help="length of the answers of all models of a study")
    lengths.add_argument("--counts", type=Path, nargs="+", required=True, metavar="FILE")
    lengths.add_argument(
        "--stem", type=Path, required=True, help="path of the figure without its suffix"
    )

    tables = commands.add_parser("tables", help="every table of the page as CSV")
    for name in ("fits", "similarity", "counts", "stimuli"):
        tables.add_argument(f"--{name}", type=Path, nargs="+", required=True, metavar="FILE")
    tables.add_argument("--outdir", type=Path, required=True, metavar="FOLDER")

    page = commands.add_parser("page", help="the self-contained HTML page")
    for name in ("tables", "figures", "study-figures", "manifests", "draws", "stimuli"):
        page.add_argument(f"--{name}", type=Path, nargs="+", required=True, metavar="FILE")
    page.add_argument("--config", type=Path, required=True, metavar="FILE")
    page.add_argument("--output", type=Path, required=True, metavar="FILE")
    return parser


def _make_heatmap(arguments: argparse.Namespace) -> None:
    from llm_variability.report.figures import save_figure
    from llm_variability.report.heatmap import draw_heatmap

    metadata, level = read_metadata(arguments.fits), arguments.level
    fits = read_table(arguments.fits, FITS).filter(pl.col("level") == level)
    measure = str(fits["measure"][0] if fits.height else arguments.fits.stem)
    model = str(metadata["model"])
    figure = draw_heatmap(fits, read_design(arguments.fits), model, level, measure)
    save_figure(figure, arguments.stem, f"Homogeneity bias, {model}, {level} level, {measure}")


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
    from llm_variability.report.signals import draw_signals
    from llm_variability.report.summaries import collect_means, encoder_of
    from llm_variability.report.trend import draw_trend

    design, encoder = read_design(arguments.fits[0]), encoder_of(arguments.similarity[0])
    models = [str(read_metadata(path)["model"]) for path in arguments.fits]
    fits = pl.concat(read_table(path, FITS) for path in arguments.fits)
    signals, trend = tabulate_signals(fits, design), average_by_temperature(fits, design)
    stem: Path = arguments.stem
    for level in LEVELS:
        of_level = pl.col("level") == level
        drawn = {
            "signals": draw_signals(signals.filter(of_level), models, level, encoder),
            "trend": draw_trend(trend.filter(of_level), models, level, encoder),
        }
        for kind, figure in drawn.items():
            path = stem.with_name(f"{stem.name}-{level}-{kind}")
            save_figure(
                figure, path, f"Homogeneity bias by model, {kind}, {level} level, {encoder}"
            )
    means = average_over_groups(collect_means(arguments.similarity), design)
    figure = draw_models_mean_cosine(means, design, encoder)
    path = stem.with_name(f"{stem.name}-cosine")
    save_figure(figure, path, f"Mean pairwise cosine by model, {encoder}")


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
        arguments.fits, arguments.similarity, arguments.counts, arguments.stimuli
    )
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
    )
    write_page(inputs, arguments.output)
    log.info("%s: %.1f MB", arguments.output, arguments.output.stat().st_size / 1e6)


_COMMANDS = {
    "heatmap": _make_heatmap,
    "cosine": _make_cosine,
    "models": _make_models,
    "lengths": _make_lengths,
    "tables": _make_tables,
    "page": _make_page,
}


def main(argv: Sequence[str] | None = None) -> None:
    arguments = _parser().parse_args(argv)
    with stage_log(arguments.log):
        _COMMANDS[arguments.command](arguments)


if __name__ == "__main__":
    main()
