"""Figures of personas that are matrices: topics, similarity of programs, features of programs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib
import numpy as np
import polars as pl
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from llm_variability.report.code.figures import describe_setting
from llm_variability.report.comparisons import Setting, at_setting
from llm_variability.report.figures import figure_style
from llm_variability.report.personas.looks import (
    GAP,
    SCALE_ROOM,
    Array,
    Columns,
    Grid,
    Looks,
    MatrixPanel,
    add_panel,
    choose_tests,
    cut_name,
    describe_stars,
    draw_matrix,
    draw_nothing,
    draw_scale,
    find_room,
    is_starred,
    set_columns,
    set_headings,
    set_scale,
    tell_hatched,
)
from llm_variability.report.wording import percent, signed
from llm_variability.tables_personas import FEATURE_COLUMNS, FEATURES

SEQUENTIAL, DIVERGING = "cividis", "RdBu_r"

TOPIC_WORDS = 4
"""Words that name a topic, the likeliest first."""

CODE_FEATURES = {
    "reply_lines": "lines of code in the reply",
    "reply_words": "words outside of code",
    "lines": "lines of the program",
    "nodes": "nodes of its tree",
    "functions": "functions and methods",
    "classes": "classes",
    "imports": "modules imported",
    "loops": "loops",
    "branches": "branches",
    "comments": "comments",
    "prints": "calls of print",
    "inputs": "calls of input",
    "tests": "tests",
    "web_framework": "web framework",
    "database": "database or SQL",
    "error_handling": "error handling",
    "type_hints": "type hints",
    "main_guard": "main guard",
    "password_field": "password field",
}
"""What the compared features of programs are called."""

_WIDEST, _WIDEST_FEATURES = 7.2, 9.5
_LEAST_LIMIT = 2.0  # two means are always one deviation from theirs


def is_share(feature: str) -> bool:
    """Tell whether a feature's mean is a share: truth values, and kinds of replies."""
    if feature.startswith("reply_") and feature not in FEATURES.columns:
        return True
    return feature in FEATURES.columns and FEATURES.columns[feature].dtype == pl.Boolean


def write_mean(feature: str, mean: float) -> str:
    """Write a mean of a feature of programs: a share in percent, a count with what it needs."""
    if is_share(feature):
        return percent(mean)
    return f"{mean:,.0f}" if abs(mean) >= 100 else signed(mean, 1)


def write_share(share: float) -> str:
    """Write a share in whole percent, never rounded to none or all; nothing for no number."""
    if math.isnan(share):
        return ""
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def _fill(
    rows: Sequence[str], columns: Sequence[str], cells: dict[tuple[str, str], float]
) -> Array:
    return np.array(
        [[cells.get((row, column), math.nan) for column in columns] for row in rows], dtype=float
    ).reshape(len(rows), len(columns))


# ---------------------------------------------------------------------------------- topics


def name_topics(topics: pl.DataFrame) -> dict[int, str]:
    """Name each topic by its likeliest words. topics: a TOPICS table."""
    names: dict[int, list[str]] = {}
    for topic, word in topics.sort("topic", "rank").select("topic", "word").iter_rows():
        names.setdefault(topic, []).append(cut_name(word, 16))
    return {topic: " ".join(words[:TOPIC_WORDS]) for topic, words in names.items()}


def average_topics(topic_weights: pl.DataFrame) -> dict[tuple[int, str], float]:
    """Average each topic's share over the prompts of a persona and task, then over tasks.

    topic_weights: a TOPIC_WEIGHTS table. Returns means by topic and persona.
    """
    means = (
        topic_weights.group_by("topic", "persona", "task")
        .agg(pl.col("weight").mean())
        .group_by("topic", "persona")
        .agg(pl.col("weight").mean())
    )
    return {(topic, persona): mean for topic, persona, mean in means.iter_rows()}


def draw_topics(
    topics: pl.DataFrame,
    topic_weights: pl.DataFrame,
    means: pl.DataFrame,
    looks: Looks,
    study: str,
    stars: str,
) -> Figure:
    """Draw the topics' shares in the prompts of each persona.

    means: a PERSONA_MEANS table, whose features `topic-1` and so on have the p values of the
    asterisks. stars: one of `ASTERISKS`.
    """
    title = "Topics of the prompts, by persona"
    names = name_topics(topics)
    cells = average_topics(topic_weights)
    order = [topic for topic in names if any(topic == each for each, _ in cells)]
    tested = means.filter(pl.col("model").is_null(), pl.col("feature").str.starts_with("topic-"))
    tests = choose_tests(tested, ["feature"])
    starred = {row["feature"] for row in tests.iter_rows(named=True) if is_starred(row, stars)}
    with figure_style():
        if not order or not looks:
            return draw_nothing(title, [f"{study} · No topics: too few prompts or words."])
        columns = set_columns([look.label for look in looks.values()])
        values = _fill(
            [str(topic) for topic in order],
            list(looks),
            {(str(topic), persona): mean for (topic, persona), mean in cells.items()},
        )
        rows = [f"{names[topic]}{' *' if f'topic-{topic}' in starred else ''}" for topic in order]
        told = [
            f"{study} · mean share of a prompt, over tasks · a topic is named by its"
            f" {TOPIC_WORDS} likeliest words",
            f"{describe_stars(tests, stars)}: differs between personas",
        ]
        return _draw_one(title, told, values, rows, columns, "share of a topic")


def _draw_one(
    title: str,
    told: Sequence[str],
    values: Array,
    rows: Sequence[str],
    columns: Columns,
    label: str,
) -> Figure:
    """Draw one matrix of shares with its scale."""
    left = find_room(rows)
    wide = columns.width * values.shape[1]
    width = max(left + wide + SCALE_ROOM, 5.8)
    headings = set_headings(title, told, width)
    tall = 0.36 * len(rows)
    figure = Figure(figsize=(width, headings.height + max(tall, 1.1) + columns.height + 0.1))
    headings.draw(figure)
    axes = add_panel(figure, left, headings.height, wide, tall)
    scale = set_scale(values, SEQUENTIAL, low=0.0)
    texts = [[write_share(each) for each in row] for row in values]
    draw_matrix(axes, values, texts, scale, rows, columns)
    draw_scale(figure, scale, axes, label)
    return figure


# ------------------------------------------------------------------------------ similarity


def read_between(separation: pl.DataFrame, personas: Sequence[str]) -> dict[tuple[str, str], float]:
    """Give the mean similarity of the programs of each two personas that has one.

    Two personas that are compared need two prompts of each. Where there are only two in all, one
    of which has too few, the comparison of the other with all others has what lies between them.

    separation: rows of one model, setting, measure and variant. personas: of the study.
    """
    rows = separation.filter(
        pl.col("factor") == "persona",
        pl.col("task").is_null(),
        pl.col("first").is_in(personas),
        pl.col("between").is_not_null(),
    ).select("first", "second", "between")
    found = {
        (first, second): between
        for first, second, between in rows.iter_rows()
        if second is not None and second in personas
    }
    if len(personas) == 2 and not found:
        of_one = rows.filter(pl.col("second").is_null())["between"]
        found = {(personas[0], personas[1]): float(of_one[0])} if of_one.len() else {}
    return found


def arrange_similarity(
    separation: pl.DataFrame, personas: Sequence[str], stars: str
) -> tuple[Array, set[tuple[int, int]]]:
    """Lay one model's mean similarities out, personas by personas, both ways round.

    separation: rows of one model, setting, measure and variant. On the diagonal programs of
    different prompts of a persona, else of the prompts of two personas.
    Returns the matrix, not a number where there is none, and the cells with an asterisk.
    """
    matrix = np.full((len(personas), len(personas)), math.nan)
    starred = set()
    at = {persona: number for number, persona in enumerate(personas)}
    rows = separation.filter(
        pl.col("factor") == "persona", pl.col("task").is_null(), pl.col("first").is_in(personas)
    )
    for row in rows.iter_rows(named=True):
        first, second = at[row["first"]], at.get(row["second"])
        if row["second"] is None:
            matrix[first, first] = math.nan if row["within"] is None else row["within"]
        elif second is not None and is_starred(row, stars):
            starred |= {(first, second), (second, first)}
    for (one, other), between in read_between(separation, personas).items():
        matrix[at[one], at[other]] = matrix[at[other], at[one]] = between
    return matrix, starred


def draw_similarity(
    separation: pl.DataFrame,
    measure: str,
    models: Sequence[str],
    setting: Setting | None,
    looks: Looks,
    study: str,
    stars: str,
) -> Figure:
    """Draw how alike code is within and between personas: a matrix a model, one scale for all.

    separation: a SEPARATION table. Asterisks: two personas whose own programs are more (or less)
    alike than theirs with each other. stars: one of `ASTERISKS`.
    """
    title = "Similarity of code within and between personas"
    shown = _choose_rows(separation, measure, setting)
    pairs = shown.filter(
        pl.col("factor") == "persona", pl.col("task").is_null(), pl.col("second").is_not_null()
    )
    panels = [
        (model, *arrange_similarity(shown.filter(pl.col("model") == model), list(looks), stars))
        for model in models
    ]
    numbers = np.array([each for _, matrix, _ in panels for each in matrix.ravel()])
    with figure_style():
        if setting is None or not np.isfinite(numbers).any():
            return draw_nothing(title, [f"{study} · {measure} · No two programs to compare."])
        told = [
            f"{study} · {measure} · {describe_setting(setting)} · diagonal: different prompts of"
            " one persona",
            f"{describe_stars(pairs, stars)}: within the two personas other than between them",
            *tell_hatched([matrix for _, matrix, _ in panels]),
        ]
        scale = set_scale(numbers, SEQUENTIAL)
        columns = set_columns([look.label for look in looks.values()])
        rows = [cut_name(look.label) for look in looks.values()]
        marked: list[MatrixPanel] = []
        for model, matrix, starred in panels:
            texts = [
                [
                    "" if math.isnan(value) else signed(value) + ("*" * ((i, j) in starred))
                    for j, value in enumerate(line)
                ]
                for i, line in enumerate(matrix)
            ]
            marked.append(MatrixPanel(model, matrix, texts))
        return _draw_panels(title, told, marked, rows, columns, scale, "mean similarity")


def _choose_rows(separation: pl.DataFrame, measure: str, setting: Setting | None) -> pl.DataFrame:
    """Choose the rows of a measure and setting, of all prompts of each persona."""
    if setting is None:
        return separation.clear()
    return separation.filter(
        pl.col("measure") == measure, pl.col("variant") == "iterations", at_setting(setting)
    )


def _draw_panels(
    title: str,
    told: Sequence[str],
    panels: Sequence[MatrixPanel],
    rows: Sequence[str],
    columns: Columns,
    scale: ScalarMappable,
    label: str,
    *,
    widest: float = _WIDEST,
) -> Figure:
    """Draw matrices with the same rows and columns, as many side by side as there is room for."""
    left = find_room(rows)
    wide = columns.width * len(columns.names)
    fitting = int((widest - left - SCALE_ROOM + GAP) / (wide + GAP))
    grid = Grid(rows, columns, max(1, min(len(panels), fitting)))
    across, down = grid.measure(len(panels))
    width = max(left + across + SCALE_ROOM, 5.8)
    headings = set_headings(title, told, width)
    figure = Figure(figsize=(width, headings.height + down))
    headings.draw(figure)
    corner = grid.draw(figure, panels, scale, left, headings.height - 0.05)
    draw_scale(figure, scale, corner, label)
    return figure


# -------------------------------------------------------------------------------- features


def standardise(matrices: Sequence[Array]) -> list[Array]:
    """Set each row of the matrices apart by its spread: less its mean, over its deviation.

    Mean and standard deviation (the number of cells as divisor) are over all matrices, so that
    models differ as well as personas. A row whose numbers are all the same is 0.
    """
    if not matrices:
        return []
    whole = np.concatenate(matrices, axis=1)
    there = np.isfinite(whole)
    count = np.maximum(there.sum(axis=1, keepdims=True), 1)
    mean = np.where(there, whole, 0).sum(axis=1, keepdims=True) / count
    spread = np.sqrt(np.where(there, (whole - mean) ** 2, 0).sum(axis=1, keepdims=True) / count)
    flat = spread <= 1e-12 * np.maximum(np.abs(mean), 1)
    spread[flat] = 1
    return [np.where(flat & np.isfinite(each), 0.0, (each - mean) / spread) for each in matrices]


def draw_features(
    means: pl.DataFrame,
    models: Sequence[str],
    setting: Setting | None,
    looks: Looks,
    study: str,
    stars: str,
) -> Figure:
    """Draw what programs are made of by persona: a matrix a model, with the means in it.

    means: a PERSONA_MEANS table. Colours: less the feature's mean over all personas and models, in
    its standard deviations over them. Asterisks: the feature differs between personas.
    """
    title = "Features of the code, by persona"
    names = [name for name in FEATURE_COLUMNS if name in CODE_FEATURES]
    shown = _of_programs(means, setting).filter(pl.col("feature").is_in(names))
    tests = choose_tests(shown, ["model", "feature"])
    starred = {
        (row["model"], row["feature"])
        for row in tests.iter_rows(named=True)
        if is_starred(row, stars)
    }
    matrices = []
    for model in models:
        of_model = shown.filter(pl.col("model") == model).drop_nulls("mean")
        cells = {
            (feature, persona): mean
            for feature, persona, mean in of_model.select("feature", "persona", "mean").iter_rows()
        }
        matrices.append(_fill(names, list(looks), cells))
    with figure_style():
        if setting is None or not any(np.isfinite(each).any() for each in matrices):
            return draw_nothing(title, [f"{study} · No program has features to compare."])
        told = [
            f"{study} · {describe_setting(setting)} · number: mean over tasks of the prompts' mean",
            "colour: less the mean of all personas and models, in standard deviations of means",
            f"{describe_stars(tests, stars)}: differs between the personas of the model",
            *tell_hatched(matrices),
        ]
        standard = standardise(matrices)
        numbers = np.concatenate([np.ravel(each) for each in standard])
        limit = max(_LEAST_LIMIT, float(np.nanmax(np.abs(numbers))))
        scale = ScalarMappable(Normalize(-limit, limit), matplotlib.colormaps[DIVERGING])
        columns = set_columns([look.label for look in looks.values()], upright=True)
        panels = [
            MatrixPanel(
                model,
                colours,
                [
                    ["" if math.isnan(mean) else write_mean(name, mean) for mean in line]
                    for name, line in zip(names, raw, strict=True)
                ],
                [row for row, name in enumerate(names) if (model, name) in starred],
            )
            for model, raw, colours in zip(models, matrices, standard, strict=True)
        ]
        rows = [CODE_FEATURES[name] for name in names]
        return _draw_panels(
            title,
            told,
            panels,
            rows,
            columns,
            scale,
            "standard deviations",
            widest=_WIDEST_FEATURES,
        )


def _of_programs(means: pl.DataFrame, setting: Setting | None) -> pl.DataFrame:
    """Choose the rows of programs at a setting."""
    if setting is None:
        return means.clear()
    return means.filter(pl.col("model").is_not_null(), at_setting(setting))
