"""What the page says of one study over all its models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from llm_variability.config import GREEDY
from llm_variability.report import alarms, findings, rankings, sections, statements
from llm_variability.report.charts.estimates import chart_estimates
from llm_variability.report.contrasts import (
    Contrast,
    is_anchor,
    list_contrasts,
    place_contrast,
    reference_note,
)
from llm_variability.report.diversity_section import arrange_diversity
from llm_variability.report.group_checks import check_groups
from llm_variability.report.level_tests import (
    INTERACTION,
    PUBLISHED,
    LevelTest,
    lead_coding,
    list_estimate_views,
    list_leading,
    list_tests,
    list_views,
)
from llm_variability.report.marks import count_small_errors
from llm_variability.report.model_section import Signals, build_model
from llm_variability.report.pictures import Context, ModelFigures, StudyFigures, embed
from llm_variability.report.robustness_section import arrange_robustness
from llm_variability.report.wording import anchor, percent, quantity, show_text
from llm_variability.tables import STATUSES, STIMULI, Design, read_metadata, read_table


def count_rows(cells: pl.DataFrame) -> list[Context]:
    """Write the draws of each cell, counts above their threshold marked. cells: draw counts."""
    rows = []
    for cell in cells.iter_rows(named=True):
        found = alarms.find_alarms(cell)
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
                        "alarm": status in found,
                    }
                    for status in STATUSES
                ],
                "distinct": f"{cell['distinct_texts']:,}",
                "identical": f"{cell['identical_prompts']:,} of {cell['repeated_prompts']:,}"
                if cell["repeated_prompts"]
                else "–",
                "identical_alarm": "identical" in found,
                "tokens": f"{cell['completion_tokens']:,}",
            }
        )
    return rows


def _signal_tables(
    fits: pl.DataFrame,
    contrasts: list[Contrast],
    tests: list[LevelTest],
    signals: Signals,
    design: Design,
) -> list[Context]:
    """For each encoder, a row a model, coding and contrast; the leading coding first."""
    tables: dict[str, list[Context]] = {}
    for measure, model in fits.select("measure", "model").unique(maintain_order=True).iter_rows():
        for coding in dict.fromkeys((lead_coding(design), PUBLISHED)):
            for contrast in contrasts:
                found = [
                    signals.get((measure, model, test.key, coding, contrast.term)) for test in tests
                ]
                if any(found):
                    row = {
                        "model": model,
                        "label": _name(contrast, design, coding),
                        "minor": contrast.is_interaction,
                        "lacking": "no fit" if coding == PUBLISHED else "–",
                        "signals": found,
                    }
                    tables.setdefault(measure, []).append(row)
    return [{"encoder": encoder, "rows": rows} for encoder, rows in tables.items()]


def _name(contrast: Contrast, design: Design, coding: str) -> str:
    place = place_contrast(contrast.term, design, marginal=coding != PUBLISHED)
    return findings.name_place(contrast, place)


def _headline(
    fits: pl.DataFrame,
    default: pl.DataFrame,
    contrasts: list[Contrast],
    tests: list[LevelTest],
    signals: Signals,
    design: Design,
) -> list[str]:
    """A sentence for each main contrast under the first encoder, in the leading coding.

    Where that is not the published one, a last line has the counts of the published one.
    """
    if not fits.height:
        return []
    encoder = fits["measure"][0]
    models = fits["model"].unique(maintain_order=True).to_list()

    def gather(
        coding: str, *, interactions: bool = False
    ) -> list[tuple[Contrast, dict[LevelTest, list[findings.Signal]]]]:
        found = []
        for contrast in contrasts:
            by_test = {
                test: [
                    signals[key]
                    for model in models
                    if (key := (encoder, model, test.key, coding, contrast.term)) in signals
                ]
                for test in tests
            }
            by_test = {test: of_models for test, of_models in by_test.items() if of_models}
            if by_test and contrast.is_interaction == interactions:
                found.append((contrast, by_test))
        return found

    coding = lead_coding(design)
    leading, published = gather(coding), gather(PUBLISHED)
    interactions = gather(INTERACTION, interactions=True)
    if not leading:
        coding, leading = PUBLISHED, published
    rows = default.filter(pl.col("encoder") == encoder, pl.col("coding") == coding)
    sentences = [
        findings.describe_contrast(
            contrast,
            by_test,
            rows.filter(pl.col("term") == contrast.term).rows(named=True),
            place_contrast(contrast.term, design, marginal=coding != PUBLISHED),
        )
        for contrast, by_test in leading
    ]
    told = findings.describe_interactions([(each.label, found) for each, found in interactions])
    sentences += [told] if told else []
    if coding != PUBLISHED and published:
        named = [(_name(contrast, design, PUBLISHED), found) for contrast, found in published]
        sentences.append(findings.describe_published(named))
    return sentences


def _rank_models(
    fits: pl.DataFrame,
    signals: pl.DataFrame,
    contrasts: list[Contrast],
    design: Design,
    within: str,
) -> list[str]:
    """Say which models are most sensitive, to the group and to the setting; of two or more."""
    if not fits.height:
        return []
    place = (fits["measure"][0], lead_coding(design))
    terms = [each.term for each in contrasts if not each.is_interaction]
    told = (
        rankings.rank_by_signals(signals, *place, within),
        rankings.rank_by_range(fits, *place, terms),
    )
    return [text for text in told if text]


def _agreements(tables: dict[str, pl.DataFrame]) -> list[str]:
    """A sentence on how encoders agree, and one on how levels do, as far as there are two."""
    levels = tables["level_agreement"]
    first = levels.filter(pl.col("encoder") == levels["encoder"].first())
    told = (
        statements.describe_encoders(tables["encoder_agreement"]),
        statements.describe_levels(first),
    )
    return [text for text in told if text]


def _overviews(
    study: str,
    encoders: list[str],
    tests: list[LevelTest],
    tables: dict[str, pl.DataFrame],
    figures: StudyFigures,
    design: Design,
    within: str,
    output: Path,
) -> list[Context]:
    """For each encoder, the figures over all models: counts, estimates and cosines."""

    def picture(name: str, caption: str, label: str = "", *, inside: bool = True) -> Context:
        figure = embed(figures.get((study, name)), caption, output, inside=inside)
        return {"figure": figure, "caption": caption, "label": label}

    leading = list_leading(design)
    found = []
    for encoder in encoders:
        signals, trends, cosines = (
            tables[name].filter(pl.col("encoder") == encoder)
            for name in ("signals", "temperature_estimates", "temperature_cosine")
        )
        found.append(
            {
                "encoder": encoder,
                "anchor": anchor("study", study, "all", encoder),
                "signals": [
                    picture(
                        f"{encoder}-{view.key}-signals",
                        statements.describe_signals(
                            signals.filter(view.rows()), view, encoder, label, within
                        ),
                        label,
                        inside=encoder == encoders[0] or view in leading,
                    )
                    for view in list_views(design)
                    if view.test in tests
                    for label in [view.explain(design, view.test.label)]
                ],
                "trends": [
                    picture(
                        f"{encoder}-{view.level_key}-trend",
                        statements.describe_trend(trends.filter(view.rows()), label, encoder),
                        label,
                        inside=encoder == encoders[0] or view in leading,
                    )
                    | {
                        "table": sections.pivot_by_temperature(
                            trends.filter(view.rows()),
                            {"model": "Model", "contrast": "Contrast"},
                            "mean_estimate",
                            f"Mean β over top-p, {label}, {encoder}",
                        )
                    }
                    for view in list_estimate_views(design)
                    if view.test in tests
                    for label in [view.explain(design, f"{view.test.level} level")]
                ],
                "cosine": picture(
                    f"{encoder}-cosine",
                    statements.describe_models_cosine(cosines, encoder),
                    inside=encoder == encoders[0],
                )
                | {
                    "table": sections.pivot_by_temperature(
                        cosines,
                        {"model": "Model", "factor": "Factor", "factor_level": "Level"},
                        "mean_cosine",
                        f"Mean cosine over top-p and the other factors, {encoder}",
                        decimals=3,
                    )
                },
            }
        )
    return found


def _lengths(study: str, lengths: pl.DataFrame, figures: StudyFigures, output: Path) -> Context:
    caption = statements.describe_lengths(lengths)
    return {
        "figure": embed(figures.get((study, "output_length")), caption, output),
        "caption": caption,
        "table": sections.arrange_lengths(lengths),
    }


def _further_alarms(
    tables: dict[str, pl.DataFrame],
    draws: dict[str, Path],
    design: Design,
    calibrated: int | None,
) -> list[str]:
    return [
        *alarms.describe_uncalibrated(tables["mean_cosine"], design, calibrated),
        *alarms.describe_few_texts(tables["mean_cosine"], design),
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
    ]


def build_study(
    study: str,
    tables: dict[str, pl.DataFrame],
    figures: ModelFigures,
    study_figures: StudyFigures,
    stimuli_path: Path,
    draws: dict[str, Path],
    calibrated: Mapping[str, int | None],
    within: str,
    output: Path,
) -> Context:
    """Gather what the page says of one study.

    tables: the page's tables, estimates marked. draws: a draws table of each model. calibrated: the
    fewest texts of a group that the tests are calibrated with, and the fewest names. within: as in
    `findings.Signal`.
    """
    design = Design.from_json(read_metadata(stimuli_path)["design"])
    stimuli = read_table(stimuli_path, STIMULI)
    tables = {name: table.filter(pl.col("study") == study) for name, table in tables.items()}
    failures = alarms.list_failures(tables["fits"], design)
    number_calibrated = calibrated["texts" if design.unit is None else "names"]
    checks = check_groups(
        study,
        tables,
        design,
        anchor("study", study),
        number_calibrated,
        {
            model: len(statements.list_ignored_arguments(read_metadata(path).get("sessions", ())))
            for model, path in draws.items()
        },
    )
    fits = tables["fits"].filter(pl.col("analysis") == "main")
    tables["fits"] = fits
    cells, default, lengths = (
        tables[name] for name in ("draw_counts", "default_estimates", "output_length")
    )
    tests = list_tests(fits)
    contrasts = list_contrasts(fits["term"], design)
    models = list(dict.fromkeys([*cells["model"], *fits["model"]]))
    encoders = list(dict.fromkeys([*fits["measure"], *tables["mean_cosine"]["encoder"]]))
    signals = findings.read_signals(tables["signals"], within)
    setting = sections.find_setting(default)
    primary = pl.col("encoder") == (encoders[0] if encoders else "")
    estimates = chart_estimates(
        fits, design, study, anchor("study", study, "estimates"), f"figures/{study}"
    )
    return {
        "charts": {"estimates": estimates} if estimates else {},
        "checks": checks,
        "name": study,
        "anchor": anchor("study", study),
        "draws_sentence": findings.describe_draws(cells) if cells.height else "No draws were made.",
        "headline": _headline(fits, default, contrasts, tests, signals, design),
        "agreements": [
            *_rank_models(fits, tables["signals"], contrasts, design, within),
            *_agreements(tables),
        ],
        "primary_encoder": fits["measure"][0] if fits.height else "",
        "design": design,
        "prompts": quantity(stimuli.height, "prompt"),
        "example_prompt": show_text(stimuli["prompt"][0]) if stimuli.height else "",
        "greedy_note": design.greedy_is_anchor and (cells["temperature"] == GREEDY).any(),
        "reference": reference_note(design),
        "factors": " × ".join(factor.name for factor in design.factors),
        "small_errors": count_small_errors(default),
        "has_interaction": any(contrast.is_interaction for contrast in contrasts),
        "tests": tests,
        "signals": _signal_tables(fits, contrasts, tests, signals, design),
        "overviews": _overviews(
            study, encoders, tests, tables, study_figures, design, within, output
        ),
        "default": sections.arrange_default(default, contrasts, models),
        "robustness": arrange_robustness(
            tables["sensitivity"].filter(primary, ~is_anchor(design)),
            default.filter(primary),
            design,
            setting,
            contrasts,
            models,
            within,
        ),
        "diversity": arrange_diversity(
            tables["diversity"],
            tables["diversity_estimates"],
            design,
            setting,
            contrasts,
            models,
            within,
        ),
        "encoder_agreement": sections.arrange_encoder_agreement(tables["encoder_agreement"]),
        "level_agreement": sections.arrange_level_agreement(tables["level_agreement"]),
        "selection": sections.arrange_selection(tables["name_selection"]),
        "members": sections.list_members(stimuli, design),
        "lengths": _lengths(study, lengths, study_figures, output),
        "draws_repeat": design.unit is None or bool(cells["repeated_prompts"].sum()),
        "models": [
            build_model(
                study,
                model,
                tables,
                signals,
                design,
                figures,
                output,
            )
            for model in models
        ],
        "model_names": models,
        "counts": count_rows(cells),
        "alarms": list(alarms.describe_alarms(cells)),
        "further_alarms": _further_alarms(tables, draws, design, number_calibrated),
        "determinism": [
            findings.describe_determinism(row)
            for row in tables["determinism"].iter_rows(named=True)
            if row["repeated_prompts"] or design.unit is None
        ],
        "failures": [each for each in failures if each["analysis"] == "main"],
        "other_failures": [each for each in failures if each["analysis"] != "main"],
    }
