"""Figures of personas that are points with intervals: style, separation, amount of code, guesses
of who asked, dialogue."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from llm_variability.linguistics.style import FEATURES as STYLE_FEATURES
from llm_variability.report.code.figures import describe_setting
from llm_variability.report.comparisons import Setting, at_setting
from llm_variability.report.figures import INK, MUTED, figure_style
from llm_variability.report.personas.looks import (
    FONT,
    GAP,
    Array,
    Grid,
    Looks,
    MatrixPanel,
    Panel,
    Point,
    Row,
    add_panel,
    bound_points,
    choose_tests,
    cut_name,
    describe_stars,
    draw_chart,
    draw_nothing,
    draw_points,
    find_room,
    fit_text,
    is_starred,
    limit_axes,
    set_columns,
    set_headings,
    tell_arrows,
    tidy_axes,
)
from llm_variability.report.personas.names import name_in_text
from llm_variability.tables_personas import COMPARED_FACTORS, FEATURE_SETS

_CONTRASTS = {
    "same_prompt": ("one prompt, drawn again", "#8a93a3", "D"),
    "within": ("one {factor}, another prompt", "#0072B2", "o"),
    "between": ("another {factor}", "#D55E00", "^"),
}
_DIFFERENCE = "#1d2433"
LONGEST_REASON = 100
"""Characters of a reason why a number is missing that a figure has room for."""

_ALL = "all personas"
_PANEL_WIDTH, _GAP, _WIDEST = 1.65, 0.25, 8.0
_STYLE_NAMES = {
    "imperatives_less_questions": "imperatives − questions",
    "inputs_outputs": "inputs and outputs",
    "inputs_outputs_less_user_interaction": "in-/outputs − interaction",
}


def _point(row: Mapping[str, Any], column: str, colour: str, marker: str, star: bool) -> Point:
    return Point(row[column], row["ci_low"], row["ci_high"], colour, marker, star)


# ----------------------------------------------------------------------------------- style


def name_style(feature: str) -> str:
    """Name a feature of wording for the reader."""
    return _STYLE_NAMES.get(feature, feature.replace("_", " "))


def draw_style(means: pl.DataFrame, looks: Looks, study: str, stars: str) -> Figure:
    """Draw features of the prompts' wording: a panel a feature, a point a persona.

    means: a PERSONA_MEANS table; only its rows of prompts that are no topics are drawn.
    """
    title = "Style of the prompts, by persona"
    shown = means.filter(pl.col("model").is_null(), ~pl.col("feature").str.starts_with("topic-"))
    tests = choose_tests(shown, ["feature"])
    panels = [
        _arrange_feature(test, shown.filter(pl.col("feature") == test["feature"]), looks, stars)
        for test in tests.iter_rows(named=True)
    ]
    with figure_style():
        if not panels or not looks:
            return draw_nothing(title, [f"{study} · No prompt has features of wording."])
        told = [
            f"{study} · mean over tasks of the mean over prompts, with its 95% interval, prompts as"
            " the units",
            f"{describe_stars(tests, stars)}: differs between personas",
            *tell_arrows(panels),
        ]
        names = [cut_name(look.label) for look in looks.values()]
        columns = min(3, len(panels))
        left = find_room(names)
        width = max(left + columns * (_PANEL_WIDTH + _GAP), 5.8)
        headings = set_headings(title, told, width)
        chart = 0.19 * len(looks) + 0.1
        each = chart + 0.7
        lines = math.ceil(len(panels) / columns)
        figure = Figure(figsize=(width, headings.height + lines * each + 0.05))
        headings.draw(figure)
        for at, panel in enumerate(panels):
            line, place = divmod(at, columns)
            across = left + place * (_PANEL_WIDTH + _GAP)
            top = headings.height + line * each + 0.32
            axes = add_panel(figure, across, top, _PANEL_WIDTH, chart)
            _draw_feature(axes, panel)
            axes.set_yticks(range(len(looks)), names if place == 0 else [""] * len(names))
            axes.tick_params(axis="y", labelsize=FONT)
    return figure


def _arrange_feature(
    test: Mapping[str, Any], rows: pl.DataFrame, looks: Looks, stars: str
) -> Panel:
    """Lay out one feature of wording. test: a row with its p values. rows: of its personas."""
    feature = test["feature"]
    by_persona = {row["persona"]: row for row in rows.iter_rows(named=True)}
    unit = STYLE_FEATURES.get(feature, ("", ""))[0]
    can_be_negative = "_less_" in feature
    return Panel(
        f"{cut_name(name_style(feature), 40)}{' *' if is_starred(test, stars) else ''}",
        unit,
        [
            [_point(by_persona[name], "mean", look.colour, look.marker, star=False)]
            if name in by_persona
            else []
            for name, look in looks.items()
        ],
        share=unit.startswith("share") and not can_be_negative,
        positive=not can_be_negative,
    )


def _draw_feature(axes: Axes, panel: Panel) -> None:
    """Draw one feature of wording, a row a persona."""
    points = bound_points(panel)
    tidy_axes(axes)
    limit_axes(axes, panel)
    axes.set_ylim(len(points) - 0.4, -0.6)
    for place, each in enumerate(points):
        draw_points(axes, place, each)
    if not any(point.value is not None for each in points for point in each):
        axes.text(0.5, 0.5, "no number", ha="center", va="center", transform=axes.transAxes)
    told, size = fit_text(panel.title, _PANEL_WIDTH + _GAP - 0.1, FONT, bold=True)
    axes.set_title(told, fontsize=size, fontweight="bold", loc="left", pad=3)
    axes.set_xlabel(panel.label, fontsize=7.5, color=MUTED, labelpad=1)
    axes.locator_params(axis="x", nbins=4)
    axes.tick_params(axis="x", labelsize=7.5)


# ------------------------------------------------------------------------------ separation


def draw_separation(
    separation: pl.DataFrame,
    measure: str,
    models: Sequence[str],
    setting: Setting | None,
    study: str,
    stars: str,
) -> Figure:
    """Draw how alike programs are of one prompt, of one persona and of two, and the difference.

    separation: a SEPARATION table. Role and gender have rows of their own where both differ.
    """
    title = "Is code from different personas less alike?"
    shown = separation.clear()
    if setting is not None:
        shown = separation.filter(
            pl.col("measure") == measure,
            pl.col("variant") == "iterations",
            at_setting(setting),
            *(pl.col(name).is_null() for name in ("task", "first", "second")),
        )
    factors = [name for name in COMPARED_FACTORS if shown.filter(pl.col("factor") == name).height]
    rows, means, differences = [], [], []
    for factor in factors:
        for model in models:
            found = shown.filter(pl.col("factor") == factor, pl.col("model") == model)
            row = found.row(0, named=True) if found.height else None
            rows.append(Row(f"by {factor}" if len(factors) > 1 else "", model))
            means.append(
                [
                    Point(row[name], None, None, colour, marker)
                    for name, (_, colour, marker) in _CONTRASTS.items()
                ]
                if row
                else []
            )
            differences.append(
                [_point(row, "difference", _DIFFERENCE, "s", is_starred(row, stars))] if row else []
            )
    with figure_style():
        if setting is None or not any(
            point.value is not None for points in means for point in points
        ):
            return draw_nothing(title, [f"{study} · {measure} · No two programs to compare."])
        told = [
            f"{study} · {measure} · {describe_setting(setting)} · mean over tasks and pairs of"
            " prompts",
            f"difference: 95% interval, prompts as the units · {describe_stars(shown, stars)},"
            " prompts changing personas at random",
        ]
        named = "persona" if len(factors) == 1 else "level"
        legend = [
            (label.format(factor=named), colour, marker)
            for label, colour, marker in _CONTRASTS.values()
        ]
        panels = [
            Panel("Similarity", "mean similarity", means),
            Panel("Within − between", "difference", differences, reference=0.0),
        ]
        return draw_chart(rows, panels, title, told, panel_width=2.4, legend=legend)[0]


# ---------------------------------------------------------------------------------- amount


def draw_amount(
    means: pl.DataFrame,
    models: Sequence[str],
    setting: Setting | None,
    looks: Looks,
    study: str,
    stars: str,
) -> Figure:
    """Draw how much code replies hold, and how many hold none: a row a model and persona.

    means: a PERSONA_MEANS table. An asterisk above a model's personas tells of all of them.
    """
    title = "Amount of code, by model and persona"
    shown = means.clear()
    if setting is not None:
        shown = means.filter(
            at_setting(setting), pl.col("feature").is_in(["reply_lines", "reply_none"])
        )
    tests = choose_tests(shown, ["model", "feature"])
    starred = {
        (row["model"], row["feature"])
        for row in tests.iter_rows(named=True)
        if is_starred(row, stars)
    }
    cells = {
        (row["model"], row["feature"], row["persona"]): row for row in shown.iter_rows(named=True)
    }
    rows = []
    points: dict[str, list[list[Point]]] = {"reply_lines": [], "reply_none": []}
    for model in models:
        for persona, look in looks.items():
            rows.append(Row(model, look.label))
            for feature, of_feature in points.items():
                row = cells.get((model, feature, persona))
                of_feature.append(
                    [_point(row, "mean", look.colour, look.marker, star=False)] if row else []
                )
    with figure_style():
        if setting is None or not any(
            each.value is not None for part in points["reply_lines"] for each in part
        ):
            return draw_nothing(title, [f"{study} · No model gave a reply."])
        told = [
            f"{study} · {describe_setting(setting)} · mean over tasks of the mean over prompts,"
            " with its 95% interval, prompts as the units",
            f"{describe_stars(tests, stars)}: differs between the personas of the model",
        ]
        panels = [
            Panel(
                "Lines of code",
                "in a reply",
                points["reply_lines"],
                from_zero=True,
                starred=[model for model in models if (model, "reply_lines") in starred],
            ),
            Panel(
                "No code at all",
                "share of replies",
                points["reply_none"],
                share=True,
                from_zero=True,
                starred=[model for model in models if (model, "reply_none") in starred],
            ),
        ]
        return draw_chart(rows, panels, title, told)[0]


# --------------------------------------------------------------------------------- leakage


def draw_leakage(
    leakage: pl.DataFrame,
    confusions: pl.DataFrame,
    models: Sequence[str],
    setting: Setting | None,
    looks: Looks,
    study: str,
    stars: str,
) -> Figure:
    """Draw how often a classifier guesses the persona from the code, and whom it takes for whom.

    leakage: a LEAKAGE table. confusions: a CONFUSIONS table. Grey: from the mean of permuted
    personas to their 95th percentile.
    """
    title = "Guessing who asked from the code"
    shown, guessed = leakage.clear(), confusions.clear()
    if setting is not None:
        shown = leakage.filter(at_setting(setting))
        guessed = confusions.filter(at_setting(setting))
    sets = [name for name in FEATURE_SETS if shown.filter(pl.col("features") == name).height]
    rows, points, permuted = [], [], []
    for model in models:
        for name in sets:
            found = shown.filter(pl.col("model") == model, pl.col("features") == name)
            rows.append(Row(model, name))
            row = found.row(0, named=True) if found.height else None
            points.append(
                [Point(row["accuracy"], None, None, "#0072B2", "o", is_starred(row, stars))]
                if row
                else []
            )
            permuted.append((row["permuted"], row["permuted_high"]) if row else (None, None))
    with figure_style():
        if setting is None or not any(each.value is not None for part in points for each in part):
            reasons = shown["reason"].drop_nulls().unique(maintain_order=True).to_list()
            called = {name: look.label for name, look in looks.items()}
            why = [shorten_reason(name_in_text(each, called)) for each in reasons[:3]]
            told = [f"{study} · No persona could be guessed.", *dict.fromkeys(why)]
            return draw_nothing(title, told)
        chance = shown["chance"].max()
        folds = " or ".join(shown["folds"].unique().sort().to_list())
        told = [
            f"{study} · {describe_setting(setting)} · each {folds} held out in turn as a whole",
            "dashed: chance · grey: where personas are permuted, mean to 95th percentile",
            describe_stars(shown, stars),
        ]
        columns = set_columns([look.label for look in looks.values()], upright=True)
        names = [cut_name(look.label) for look in looks.values()]
        left = find_room(names)
        wide = columns.width * len(looks)
        beside = len(sets) if left + len(sets) * (wide + GAP) <= _WIDEST else 1
        grid = Grid(names, columns, max(1, beside))
        panels = arrange_confusions(guessed, models, sets, list(looks))
        across, down = grid.measure(len(panels)) if panels else (0.0, 0.0)
        panel = Panel(
            "Accuracy",
            "balanced accuracy",
            points,
            reference=chance if isinstance(chance, float) else None,
            share=True,
            from_zero=True,
        )
        figure, top = draw_chart(
            rows,
            [panel],
            title,
            told,
            panel_width=4.0,
            below=down + 0.4 if panels else 0.0,
            least_width=max(left + across + 0.2, 5.8),
        )
        _draw_permuted(figure.axes[0], permuted)
        if panels:
            scale = ScalarMappable(Normalize(0, 1), matplotlib.colormaps["cividis"])
            _tell_confusions(figure, top + 0.1)
            grid.draw(figure, panels, scale, left, top + 0.4)
    return figure


def shorten_reason(reason: str) -> str:
    """Shorten the reason why a number is missing to its first part; the rest is in the table."""
    if len(reason) <= LONGEST_REASON:
        return cut_name(reason, LONGEST_REASON)
    first = re.split("[;:]", reason)[0]
    return f"{cut_name(first, LONGEST_REASON)} (all of it: see the table)"


def _tell_confusions(figure: Figure, top: float) -> None:
    full, tall = figure.get_size_inches()
    figure.text(
        0.15 / full,
        1 - top / tall,
        "Who asked (rows) and who was guessed (columns): programs; colour: share of the row",
        fontsize=FONT,
        color=MUTED,
        va="top",
    )


def _draw_permuted(axes: Axes, permuted: Sequence[tuple[float | None, float | None]]) -> None:
    """Draw where accuracies lie if prompts change personas, below each row's point."""
    places = axes.get_yticks()
    ends = [each for _, each in permuted if each is not None]
    low, high = axes.get_xlim()
    axes.set_xlim(low, max([high, *(end + 0.03 for end in ends)]))
    for place, (mean, end) in zip(places, permuted, strict=True):
        if mean is None or end is None:
            continue
        axes.add_patch(
            Rectangle(
                (mean, place - 0.3), end - mean, 0.6, facecolor="#c9ced8", linewidth=0, zorder=1
            )
        )
        axes.vlines(mean, place - 0.3, place + 0.3, color=INK, linewidth=1, zorder=1)


def arrange_confusion(
    confusions: pl.DataFrame, personas: Sequence[str]
) -> tuple[Array, list[list[str]]]:
    """Lay guesses out: shares of the programs of who asked, and their numbers.

    confusions: rows of one model, setting and feature set. A persona without a program has none.
    """
    counts = np.zeros((len(personas), len(personas)))
    at = {persona: number for number, persona in enumerate(personas)}
    for asked, guessed, programs in confusions.select("persona", "guessed", "programs").iter_rows():
        if asked in at and guessed in at:
            counts[at[asked], at[guessed]] += programs
    whole = counts.sum(axis=1, keepdims=True)
    shares = np.where(whole > 0, counts / np.maximum(whole, 1), math.nan)
    return shares, [[f"{count:.0f}" for count in line] for line in counts]


def arrange_confusions(
    confusions: pl.DataFrame, models: Sequence[str], sets: Sequence[str], personas: Sequence[str]
) -> list[MatrixPanel]:
    """Lay the guesses of all models that have any out, a matrix a feature set.

    confusions: rows of one setting.
    """
    return [
        MatrixPanel(
            f"{name} · {model}",
            *arrange_confusion(
                confusions.filter(pl.col("model") == model, pl.col("features") == name), personas
            ),
        )
        for model in models
        if confusions.filter(pl.col("model") == model).height
        for name in sets
    ]


# -------------------------------------------------------------------------------- dialogue


def draw_dialogue(
    changes: pl.DataFrame,
    measures: Sequence[str],
    models: Sequence[str],
    setting: Setting | None,
    looks: Looks,
    study: str,
) -> Figure:
    """Draw how many questions were asked, and how far programs changed with them.

    changes: a DIALOGUE_CHANGES table. measures: those whose change has a panel.
    """
    title = "Dialogue: questions asked, and change in code"
    shown = changes.clear() if setting is None else changes.filter(at_setting(setting))
    there = [name for name in measures if shown.filter(pl.col("measure") == name).height]
    rows = []
    exchanges: list[list[Point]] = []
    changed: dict[str, list[list[Point]]] = {name: [] for name in there}
    for model in models:
        of_model = shown.filter(pl.col("model") == model)
        for persona in (*looks, None):
            look = looks[persona] if persona is not None else None
            colour, marker = (look.colour, look.marker) if look else (INK, "s")
            rows.append(Row(model, look.label if look else _ALL))
            of_persona = of_model.filter(pl.col("persona").eq_missing(pl.lit(persona, pl.String)))
            found = {row["measure"]: row for row in of_persona.iter_rows(named=True)}
            any_row = next(iter(found.values()), None)
            exchanges.append(
                [Point(any_row["exchanges"], None, None, colour, marker)] if any_row else []
            )
            for name in there:
                row = found.get(name)
                changed[name].append(
                    [_point(row, "change", colour, marker, star=False)] if row else []
                )
    with figure_style():
        if setting is None or not there:
            return draw_nothing(title, [f"{study} · No dialogue was held."])
        told = [
            f"{study} · {describe_setting(setting)} · change: similarity of programs of one"
            " prompt, less theirs to one at the end of a dialogue, with or without an exchange",
            "lines: 95% intervals, prompts as the units",
        ]
        panels = [
            Panel("Exchanges", "mean number", exchanges, from_zero=True),
            *(
                Panel(cut_name(name, 22), "change", points, reference=0.0)
                for name, points in changed.items()
            ),
        ]
        return draw_chart(rows, panels, title, told, panel_width=1.8)[0]
