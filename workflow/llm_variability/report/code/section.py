"""What the page says of one study of code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from llm_variability.config_code import ORIGINAL, PARAPHRASE
from llm_variability.report import rankings
from llm_variability.report.alarms import MIN_PROGRAMS
from llm_variability.report.charts.curves import CodeStudy, chart_code
from llm_variability.report.code import rows, statements
from llm_variability.report.code.alarms import describe_code_alarms
from llm_variability.report.code.checks import check_code
from llm_variability.report.code.figures import (
    choose_setting,
    describe_choice,
    describe_setting,
    list_methods,
    list_sets,
    of_set,
)
from llm_variability.report.code.heatmap import arrange_panels
from llm_variability.report.code.names import (
    CODE_PREFIX,
    HEATMAP_KINDS,
    list_code_figures,
    list_code_heatmaps,
)
from llm_variability.report.comparisons import at_setting
from llm_variability.report.pictures import Context, embed
from llm_variability.report.study_section import count_rows
from llm_variability.report.wording import anchor, listing, quantity, show_text
from llm_variability.tables import STIMULI, read_metadata, read_table

CodeFigures = dict[tuple[str, str | None, str], Path]

ROWS_SHOWN = 180
"""Cells that a table of all cells has at most; with more, the page shows sums over them."""

DOCUMENTS = ("code-sensitivity.md", "augmentation.md", "tsed.md")


def locate_code_figures(paths: Sequence[Path]) -> CodeFigures:
    """Find each figure by (study, model, ending) from STUDY/code-ENDING.svg, the model being None.

    A heatmap is STUDY/MODEL/code-ENDING.svg. Raises ValueError for a path that is not so.
    """
    figures: CodeFigures = {}
    for path in paths:
        ending = path.stem.removeprefix(CODE_PREFIX)
        if ending == path.stem or path.suffix != ".svg" or len(path.parts) < 3:
            raise ValueError(
                f"{path}: a figure of a study of code is STUDY/code-NAME.svg, or"
                f" STUDY/MODEL/code-NAME.svg if it is one of {', '.join(HEATMAP_KINDS)}"
            )
        if ending.endswith(tuple(f"-{kind}" for kind in HEATMAP_KINDS)):
            figures[(path.parts[-3], path.parts[-2], ending)] = path
        else:
            figures[(path.parts[-2], None, ending)] = path
    return figures


def _arrange_pictures(
    kind: str,
    study: str,
    measures: Sequence[str],
    curves: pl.DataFrame,
    setting: str,
    figures: CodeFigures,
    output: Path,
) -> Context:
    """Gather a figure of the primary measure, raw and rescaled, and links to the others' files.

    curves: rows of one setting. kind: curves or sets.
    """
    primary = curves.filter(pl.col("measure") == measures[0])
    panes = []
    for rescaled in (False, True):
        ending = f"{measures[0]}-{kind}{'-rescaled' if rescaled else ''}"
        caption = statements.describe_curves(
            primary, measures[0], setting, rescaled, by_set=kind == "sets"
        )
        path = figures.get((study, None, ending))
        panes.append(
            {
                "label": "rescaled from floor to ceiling" if rescaled else "as measured",
                "caption": caption,
                "figure": embed(path, caption, output),
            }
        )
    return {
        "anchor": anchor("study", study, kind),
        "panes": panes,
        "others": _link_others(study, None, measures, (kind, f"{kind}-rescaled"), figures, output),
    }


def _link_others(
    study: str,
    model: str | None,
    measures: Sequence[str],
    kinds: Sequence[str],
    figures: CodeFigures,
    output: Path,
) -> list[Context]:
    """Link the files of the measures after the first, whose figures the page does not hold."""
    listed = (
        list_code_figures(measures[1:], paraphrased=True)
        if model is None
        else list_code_heatmaps(measures[1:])
    )
    return [
        {"name": f"{each.measure}, {each.label}", "downloads": found["downloads"]}
        for each in listed
        if each.kind in kinds
        if (path := figures.get((study, model, each.ending)))
        if (found := embed(path, "", output, inside=False))
    ]


def _arrange_bands(
    paraphrases: pl.DataFrame,
    study: str,
    measures: Sequence[str],
    curves: pl.DataFrame,
    setting: str,
    figures: CodeFigures,
    output: Path,
) -> Context | None:
    """Gather figures 1 and 3 and the counts of paraphrases; None if prompts were not reworded."""
    if not paraphrases.height and not (curves["method"] == PARAPHRASE).any():
        return None
    caption = statements.describe_paraphrases(paraphrases)
    primary = curves.filter(pl.col("measure") == measures[0])
    bands = statements.describe_band_figure(primary, measures[0], setting)
    return {
        "scores": {
            "figure": embed(figures.get((study, None, "paraphrases")), caption, output),
            "caption": caption,
        },
        "bands": {
            "figure": embed(figures.get((study, None, f"{measures[0]}-bands")), bands, output),
            "caption": bands,
        },
        "others": _link_others(study, None, measures, ("bands",), figures, output),
        "table": rows.tabulate_paraphrases(paraphrases),
    }


def _arrange_heatmaps(
    study: str,
    tables: Mapping[str, pl.DataFrame],
    models: Sequence[str],
    measures: Sequence[str],
    figures: CodeFigures,
    output: Path,
) -> list[Context]:
    """Gather each model's heatmaps; nothing if there is one setting only."""
    curves, summaries = tables["code_curves"], tables["code_summaries"]
    if curves.select("temperature", "top_p").n_unique() < 2:
        return []
    gathered = []
    for model in models:
        panes = []
        for kind, label in HEATMAP_KINDS.items():
            place = (model, measures[0], kind)
            caption = statements.describe_code_heatmap(curves, summaries, *place)
            path = figures.get((study, model, f"{measures[0]}-{kind}"))
            panes.append(
                {
                    "label": label,
                    "caption": caption,
                    "figure": embed(path, caption, output),
                    "table": rows.tabulate_heatmap(
                        arrange_panels(curves, summaries, *place), f"{label}, {measures[0]}"
                    ),
                }
            )
        gathered.append(
            {
                "model": model,
                "anchor": anchor("study", study, model),
                "panes": panes,
                "others": _link_others(study, model, measures, [*HEATMAP_KINDS], figures, output),
            }
        )
    return gathered


def _arrange_contrasts(contrasts: pl.DataFrame, measure: str, stars: str) -> list[Context]:
    words = {
        "set": "Differences between sets",
        "model": "Differences between models",
        "method": "Differences between methods",
    }
    return [
        {
            "kind": kind,
            "title": title,
            "table": rows.tabulate_contrasts(contrasts, measure, kind, stars),
        }
        for kind, title in words.items()
        if (contrasts["kind"] == kind).any()
    ]


def _describe_design(stimuli: pl.DataFrame, methods: Sequence[str]) -> str:
    tasks = stimuli.group_by("set", maintain_order=True).agg(pl.col("task").n_unique())
    sets = listing([f"{name} ({count:,})" for name, count in tasks.iter_rows()])
    changed = [
        method
        for method in stimuli["method"].unique(maintain_order=True)
        if method != ORIGINAL and method in (*methods, PARAPHRASE)
    ]
    how = f", as it is and changed by {listing(changed)}" if changed else ", as it is"
    return (
        f"{quantity(int(tasks['task'].sum()), 'programming task')} in"
        f" {quantity(tasks.height, 'set')}: {sets}. Each was asked{how};"
        f" {quantity(stimuli.height, 'prompt')} in all."
    )


def _arrange_extractions(extractions: pl.DataFrame, one_model: bool) -> list[Context]:
    """Write what the replies of all cells hold; of many cells, by setting and by augmentation."""
    shown = {"cell": extractions}
    if extractions.height > ROWS_SHOWN:
        shown = {
            "setting": rows.pool_cells(extractions),
            "augmentation": rows.pool_cells(extractions, by_augmentation=True),
        }
    told = [
        {
            "title": f"What the replies hold, by {place}",
            "table": rows.tabulate_extractions(each, place, one_model),
        }
        for place, each in shown.items()
    ]
    failing = extractions.filter(pl.col("ok_share") < MIN_PROGRAMS).head(ROWS_SHOWN)
    if failing.height and "cell" not in shown:
        table = rows.tabulate_extractions(failing, "cell", one_model)
        told.append({"title": "Cells in which most replies are no programs", "table": table})
    return told


def build_code_study(
    study: str,
    tables: Mapping[str, pl.DataFrame],
    figures: CodeFigures,
    stimuli_path: Path,
    stars: str,
    output: Path,
) -> Context:
    """Gather what the page says of one study of code.

    tables: of `tables.CODE_SCHEMAS`, all studies.
    stars: one of `ASTERISKS`.
    """
    tables = {name: table.filter(pl.col("study") == study) for name, table in tables.items()}
    all_curves, extractions = tables["code_curves"], tables["code_extractions"]
    stimuli = read_table(stimuli_path, STIMULI)
    models = extractions["model"].unique(maintain_order=True).to_list()
    measures = all_curves["measure"].unique(maintain_order=True).to_list() or ["tsed"]
    setting = choose_setting(all_curves) or choose_setting(extractions) or ("0", None)
    shown = describe_choice(setting)
    curves, summaries, contrasts, fits = (
        tables[f"code_{name}"].filter(at_setting(setting))
        for name in ("curves", "summaries", "contrasts", "fits")
    )
    of_primary = pl.col("measure") == measures[0]
    primary, summaries = curves.filter(of_primary), summaries.filter(of_primary)
    contrasts, fits = contrasts.filter(of_primary), fits.filter(of_primary)
    fastest = statements.describe_fastest(summaries, models)
    contamination = statements.describe_contamination(contrasts)
    lines = statements.describe_lines(primary)
    one_model = len(models) == 1
    fitted = rows.tabulate_fits(fits.filter(of_set(None)), measures[0], stars, one_model)
    place = (study, measures, curves, describe_setting(setting), figures, output)
    charted = CodeStudy(study, anchor("study", study), models, setting, stars)
    return {
        "charts": chart_code(tables, charted),
        "name": study,
        "anchor": anchor("study", study),
        "model_names": models,
        "design": _describe_design(stimuli, list_methods(all_curves)),
        "files": read_metadata(stimuli_path).get("files", {}),
        "example_prompt": show_text(stimuli["prompt"][0]) if stimuli.height else "",
        "measures": measures,
        "setting": shown,
        "settings": all_curves.select("temperature", "top_p").n_unique(),
        "draws_sentence": statements.describe_extraction(extractions),
        "headline": [
            *fastest[:1],
            *rankings.count_differences(tables["code_contrasts"], measures[0]),
            *([ranked] if (ranked := rankings.rank_by_height(summaries)) else []),
            *contamination,
            lines,
        ],
        "findings": [
            *fastest,
            *statements.describe_bands(primary, models),
            *contamination,
            lines,
        ],
        "curves": _arrange_pictures("curves", *place),
        "sets": _arrange_pictures("sets", *place) if len(list_sets(all_curves)) > 1 else None,
        "points": rows.tabulate_points(primary, measures[0], one_model),
        "paraphrases": _arrange_bands(tables["code_paraphrases"], *place),
        "summaries": rows.tabulate_summaries(summaries, measures[0], one_model),
        "contrasts": _arrange_contrasts(contrasts, measures[0], stars),
        "heatmaps": _arrange_heatmaps(study, tables, models, measures, figures, output),
        "fits": fitted,
        "extractions": _arrange_extractions(extractions, one_model),
        "augmentations": rows.tabulate_augmentations(
            tables["code_augmentations"].filter(pl.col("method") != ORIGINAL)
        ),
        "left_out": statements.describe_left_out(tables),
        "alarms": describe_code_alarms(tables),
        "checks": check_code(study, tables, anchor("study", study), shows_fits=bool(fitted.rows)),
        "counts": count_rows(
            draws
            if (draws := tables["code_draws"]).height <= ROWS_SHOWN
            else rows.pool_cells(draws)
        ),
    }
