"""The charts of studies of personas: similarity, contrasts, features and guesses by persona."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair
import polars as pl

from llm_variability.report.charts.drawing import (
    DIVERGING,
    GREY,
    SHOWN,
    specify_panels,
    specify_squares,
    title_legend,
)
from llm_variability.report.charts.explorer import TESTS, Chart, Dimension, Number
from llm_variability.report.code.figures import describe_setting
from llm_variability.report.code.names import name_measure
from llm_variability.report.comparisons import Setting
from llm_variability.report.marks import star_rows
from llm_variability.report.personas.names import (
    FEATURES,
    LEAKAGE,
    SEPARATION,
    SIMILARITY,
    STYLE,
    name_in_text,
)
from llm_variability.report.personas.statements import (
    ITERATIONS,
    list_features,
    name_feature,
    name_level,
    order_measures,
    show_value,
)
from llm_variability.tables_personas import COMPARED_FACTORS

ALL, OTHERS = "all together", "all others"
"""Stand for the levels compared if none is named, and for the others if one is."""

VARIANT_NAMES = {ITERATIONS: "every prompt", "sampled": "one sampled prompt, as published"}
"""Which prompts of each persona and task are compared."""

ONE, TWO = "within one", "between two"
RIGHT, WRONG = "guessed right", "taken for another"

_HIGH = 28
"""Of a square, in pixels."""

_INTERVAL = Number("ci_low", "95% interval", "plain", upto="ci_high")


@dataclass(frozen=True)
class PersonaStudy:
    """What all charts of a study share.

    name: of the study. anchor: of its section. levels: what personas, roles and genders are called,
    in their order. setting: shown first, that of the figures. stars: one of `ASTERISKS`.
    """

    name: str
    anchor: str
    levels: Mapping[str, str]
    setting: Setting
    stars: str

    def anchor_of(self, kind: str) -> str:
        return f"{self.anchor}-chart-{kind}"

    def twins_of(self, kind: str, pattern: str = "") -> str:
        """Give the path of a figure from the page. pattern: what follows the kind in its name."""
        return f"figures/{self.name}/persona-{kind}{pattern}{{setting}}"

    def list_levels(self, columns: Iterable[pl.Series]) -> list[str]:
        """List the levels in columns by their names in tables, in the study's order."""
        there = {level for column in columns for level in column.drop_nulls()}
        return [
            *(level for level in self.levels if level in there),
            *sorted(there - set(self.levels)),
        ]

    def name_levels(self, levels: Sequence[str]) -> dict[str, str]:
        """Name levels; two that would be called alike keep their names in tables."""
        named = {level: name_level(level, self.levels) for level in levels}
        called = list(named.values())
        return {level: name if called.count(name) == 1 else level for level, name in named.items()}

    def tell_reason(self) -> pl.Expr:
        """Give the reasons why numbers are missing, with personas by their names for the reader."""
        return pl.col("reason").map_elements(
            lambda text: name_in_text(text, self.levels), return_dtype=pl.String
        )

    def order_settings(self, rows: pl.DataFrame) -> list[tuple[str | None, str | None]]:
        """List the settings, the one of the figures first."""
        found = rows.select("temperature", "top_p").unique().rows()
        ordered = sorted(found, key=lambda each: (float(each[0] or 0), float(each[1] or 1)))
        return sorted(ordered, key=lambda each: each != self.setting)


def chart_personas(tables: Mapping[str, pl.DataFrame], study: PersonaStudy) -> dict[str, Chart]:
    """Make the charts of a study, by what they show; those of nothing are left out.

    tables: rows of the study in `persona_separation`, `persona_means`, `persona_leakage` and
    `persona_confusions`. Each row stands in one chart, but those of two personas, or of one and all
    others, which are contrasts and cells of the matrix.
    """
    means = tables["persona_means"]
    charts = {
        SEPARATION: chart_contrasts(tables["persona_separation"], study),
        SIMILARITY: chart_similarity(tables["persona_separation"], study),
        FEATURES: chart_features(means.filter(pl.col("model").is_not_null()), study),
        STYLE: chart_features(means.filter(pl.col("model").is_null()), study),
        LEAKAGE: chart_leakage(tables["persona_leakage"], study),
        "confusions": chart_confusions(tables["persona_confusions"], study),
    }
    return {kind: chart for kind, chart in charts.items() if chart is not None}


# ----------------------------------------------------------------------------------- parts


def _name_setting(setting: tuple[str | None, str | None]) -> str:
    temperature, top_p = setting
    return "no setting" if temperature is None else describe_setting((temperature, top_p))


def _name_settings(rows: pl.DataFrame) -> pl.DataFrame:
    told = [_name_setting(each) for each in rows.select("temperature", "top_p").iter_rows()]
    return rows.with_columns(pl.Series("setting", told, dtype=pl.String))


def _models(rows: pl.DataFrame) -> Dimension:
    return Dimension("model", "Model", rows["model"].unique(maintain_order=True).to_list())


def _settings(rows: pl.DataFrame, study: PersonaStudy) -> Dimension:
    """Give the settings. Figures are of one of them, and not named after it."""
    settings = study.order_settings(rows)
    return Dimension(
        "setting",
        "Setting",
        [_name_setting(each) for each in settings],
        ["" if each == study.setting else None for each in settings],
    )


def _factors(rows: pl.DataFrame) -> Dimension:
    """Give the factors. The figure of similarities is of personas."""
    listed = [each for each in COMPARED_FACTORS if each in set(rows["factor"])]
    files = ["" if each == "persona" else None for each in listed]
    return Dimension("factor", "Compared", listed, files)


def _measures(rows: pl.DataFrame) -> Dimension:
    listed = order_measures(rows["measure"])
    return Dimension("measure", "Measure", [name_measure(each) for each in listed], listed)


def _variants(rows: pl.DataFrame) -> Dimension:
    there = set(rows["variant"])
    listed = [each for each in VARIANT_NAMES if each in there]
    return Dimension(
        "variant",
        "Prompts",
        [VARIANT_NAMES[each] for each in listed],
        ["" if each == ITERATIONS else None for each in listed],
    )


def _axis(key: str, title: str | None, channel: type, **axis: Any) -> Any:
    return channel(
        f"{key}:O",
        sort=altair.EncodingSortField(f"{key}_order", op="min"),
        title=title,
        axis=altair.Axis(titleFontWeight="bold", **axis),
    )


def _choose_width(columns: Sequence[str]) -> int:
    """Give the width of a cell in pixels, less where there are many columns."""
    return 56 if len(columns) <= 5 else 44


def _fit_panel(columns: Sequence[str]) -> int:
    return max(150, _choose_width(columns) * len(columns) + 8)


_SEQUENTIAL = altair.Scale(
    scheme="cividis",
    domainMin=altair.ExprRef("least"),
    domainMax=altair.ExprRef("limit"),
    nice=False,
    zero=False,
)
_UPRIGHT = {"labelAngle": -45, "orient": "bottom"}


# ------------------------------------------------------------------------------ similarity


def _fill_pairs(rows: pl.DataFrame) -> pl.DataFrame:
    """Give each cell its similarity: within the level, or between both.

    Two levels that are compared need two prompts of each. Of two levels in all, one of which has
    too few, the comparison of the other with all others has what lies between them.
    """
    keys = ["model", "temperature", "top_p", "measure", "variant", "factor"]
    of_one = pl.col("second").is_null()
    between_all = pl.col("between").filter(of_one).drop_nulls().first().over(keys)
    only_two = pl.col("first").filter(of_one).n_unique().over(keys) == 2
    return rows.with_columns(
        pl.when(of_one)
        .then(pl.col("within"))
        .when(pl.col("between").is_null() & only_two)
        .then(between_all)
        .otherwise(pl.col("between"))
        .alias("similarity")
    )


def chart_similarity(separation: pl.DataFrame, study: PersonaStudy) -> Chart | None:
    """Make the matrix of similarities within (diagonal) and between personas, roles or genders.

    separation: rows of `persona_separation`; those of one level and of two are shown, each once.
    """
    shown = separation.filter(pl.col("first").is_not_null())
    if not shown.height:
        return None
    levels = study.list_levels([shown["first"], shown["second"]])
    names = study.name_levels(levels)
    at = {level: number for number, level in enumerate(levels)}
    ends = [
        sorted([first, second or first], key=at.__getitem__)
        for first, second in shown.select("first", "second").iter_rows()
    ]
    rows = _name_settings(_fill_pairs(shown)).with_columns(
        pl.Series("column", [names[one] for one, _ in ends]),
        pl.Series("row", [names[other] for _, other in ends]),
        pl.col("variant").replace_strict(VARIANT_NAMES),
        pl.col("measure").map_elements(name_measure, return_dtype=pl.String),
        pl.when(pl.col("second").is_null()).then(pl.lit(ONE)).otherwise(pl.lit(TWO)).alias("kind"),
        star_rows(study.stars, pl.col("second").is_not_null()).alias("flag"),
        study.tell_reason(),
    )
    called = [names[level] for level in levels]
    return Chart(
        anchor=study.anchor_of(SIMILARITY),
        title=f"Similarity of code within and between personas, {study.name}",
        dimensions=[
            _models(shown),
            _settings(shown, study),
            _measures(shown),
            _variants(shown),
            _factors(shown),
            Dimension("row", "and", called),
            Dimension("column", "Of", called),
        ],
        panels=["model", "setting"],
        across=["row", "column"],
        compared=["measure"],
        numbers=[
            Number("similarity", "similarity", "plain"),
            Number("same_prompt", "one prompt", "plain"),
            Number("within", "within", "plain"),
            Number("between", "between", "plain"),
            Number("difference", "within − between", "plain"),
            _INTERVAL,
            *TESTS,
            Number("n_prompts", "prompts", "count"),
            Number("n_programs", "programs", "count"),
            Number("n_pairs", "pairs", "count"),
        ],
        words=["flag", "reason", "kind"],
        rows=rows,
        specification=_specify_similarity(_choose_width(called)),
        scaled="similarity",
        finding={"measure": "similarity", "label": "similarity", "by": "kind"},
        twins=study.twins_of(SIMILARITY, "-{measure}{variant}{factor}"),
        panel_width=_fit_panel(called),
        missing="no number",
    )


def _specify_similarity(wide: int) -> dict[str, Any]:
    return specify_squares(
        (_axis("column", None, altair.X, **_UPRIGHT), _axis("row", None, altair.Y)),
        "similarity",
        "!isValid(datum.similarity) ? '–' : format(datum.similarity, '.2f') + datum.flag",
        _SEQUENTIAL,
        title_legend(["mean", "similarity"]),
        (wide, _HIGH),
    )


# ------------------------------------------------------------------------------- contrasts


def _name_contrast(
    task: str | None, first: str | None, second: str | None, names: Mapping[str, str]
) -> str:
    if first is None:
        return ALL if task is None else task
    return f"{names[first]} – {OTHERS if second is None else names[second]}"


def chart_contrasts(separation: pl.DataFrame, study: PersonaStudy) -> Chart | None:
    """Make the chart of differences within less between, with intervals: all rows, each once.

    separation: rows of `persona_separation`.
    """
    if not separation.height:
        return None
    levels = study.list_levels([separation["first"], separation["second"]])
    names = study.name_levels(levels)
    tasks = separation["task"].drop_nulls().unique(maintain_order=True).to_list()
    ends = [f" – {names[level]}" for level in levels]
    contrasts = [
        _name_contrast(task, first, second, names)
        for task, first, second in separation.select("task", "first", "second").iter_rows()
    ]
    rows = _name_settings(separation).with_columns(
        pl.Series("contrast", contrasts, dtype=pl.String),
        pl.col("variant").replace_strict(VARIANT_NAMES),
        pl.col("measure").map_elements(name_measure, return_dtype=pl.String),
        star_rows(study.stars).alias("flag"),
        study.tell_reason(),
    )
    there = set(contrasts)
    listed = [
        ALL,
        *tasks,
        *(f"{names[level]} – {OTHERS}" for level in levels),
        *(f"{names[level]}{end}" for level in levels for end in ends),
    ]
    return Chart(
        anchor=study.anchor_of(SEPARATION),
        title=f"Similarity within less between personas, {study.name}",
        dimensions=[
            _models(separation),
            _settings(separation, study),
            _measures(separation),
            _variants(separation),
            _factors(separation),
            Dimension("contrast", "Contrast", [each for each in listed if each in there]),
        ],
        panels=["model", "setting"],
        across=["contrast"],
        compared=["measure"],
        numbers=[
            Number("difference", "within − between", "plain"),
            _INTERVAL,
            *TESTS,
            Number("same_prompt", "one prompt", "plain"),
            Number("within", "within", "plain"),
            Number("between", "between", "plain"),
            Number("n_prompts", "prompts", "count"),
            Number("n_programs", "programs", "count"),
            Number("n_pairs", "pairs", "count"),
        ],
        words=["flag", "reason"],
        rows=rows,
        specification=_specify_contrasts(),
        scaled="difference",
        finding={
            "measure": "difference",
            "label": "within less between",
            "starred": "flag",
            "adjusted": "p_holm",
            "up": "more alike within",
            "down": "more alike between",
            "unit": "contrast",
        },
        twins=study.twins_of(SEPARATION, "-{measure}{variant}"),
        panel_width=320,
        missing="no number",
    )


_TWO_LINES = "split(replace(datum.label, ' – ', ' –\\n'), '\\n')"


def _specify_contrasts() -> dict[str, Any]:
    base = altair.Chart(SHOWN).encode(
        y=_axis("contrast", None, altair.Y, labelExpr=_TWO_LINES, grid=True)
    )
    zero = (
        altair.Chart(SHOWN)
        .mark_rule(color=GREY, strokeDash=[4, 3], aria=False)
        .encode(x=altair.datum(0))
    )
    spans = base.mark_rule(strokeWidth=2, color=GREY, aria=False).encode(
        x=altair.X("ci_low:Q", title="within − between"), x2="ci_high:Q"
    )
    points = base.mark_point(
        shape="square", filled=True, size=110, stroke="#1d2433", strokeWidth=1, opacity=1
    ).encode(
        x="difference:Q",
        color=altair.Color("difference:Q", scale=DIVERGING, legend=None),
        description="say:N",
    )
    stars = base.mark_text(align="left", dx=9, dy=-5, fontSize=15, color="currentColor", aria=False)
    marks = stars.encode(x="difference:Q", text="flag:N")
    return specify_panels(_with_missing(zero + spans + points + marks, base, "difference"))


def _with_missing(layers: altair.LayerChart, base: altair.Chart, value: str) -> altair.LayerChart:
    """Add a cross at the left edge for rows without a number, which can be read all the same.

    Rows with one are left out since they have no `lacking`.
    """
    crosses = base.mark_point(shape="cross", size=60, filled=True, color=GREY).encode(
        x=altair.value(7),
        opacity=altair.Opacity(
            "lacking:Q", scale=altair.Scale(domain=[0, 1], range=[0, 1]), legend=None
        ),
        description="say:N",
    )
    return (
        (layers + crosses)
        .transform_calculate(lacking=f"isValid(datum.{value}) ? null : 1")
        .properties(width=300, height=altair.Step(34))
    )


# -------------------------------------------------------------------------------- features


def _standardise(rows: pl.DataFrame) -> pl.DataFrame:
    """Set each mean apart from those of its feature and setting, in their standard deviations.

    Over all models and personas, with their number as divisor, as in the static figure; 0 where all
    are the same.
    """
    keys = ["temperature", "top_p", "feature"]
    away = pl.col("mean") - pl.col("mean").mean().over(keys)
    spread = pl.col("mean").std(ddof=0).over(keys)
    flat = spread <= 1e-12 * pl.max_horizontal(pl.col("mean").mean().over(keys).abs(), pl.lit(1.0))
    return rows.with_columns(
        pl.when(flat & pl.col("mean").is_not_null())
        .then(pl.lit(0.0))
        .otherwise(away / spread)
        .alias("standardised")
    )


def chart_features(means: pl.DataFrame, study: PersonaStudy) -> Chart | None:
    """Make the heatmap of means of features by persona.

    means: rows of `persona_means`, all of programs, or all of prompts, which have no model.
    """
    if not means.drop_nulls("mean").height:
        return None
    of_programs = means["model"].drop_nulls().len() > 0
    known = list_features(means) if of_programs else []
    there = means["feature"].unique(maintain_order=True).to_list()
    features = [*known, *(each for each in there if each not in known)]
    titles = {each: name_feature(each) for each in features}
    personas = study.list_levels([means["persona"]])
    names = study.name_levels(personas)
    written = [
        show_value(feature, mean) for feature, mean in means.select("feature", "mean").iter_rows()
    ]
    rows = _standardise(means).with_columns(
        pl.col("feature").replace_strict(titles),
        pl.col("persona").replace_strict(names),
        pl.Series("mark", written, dtype=pl.String),
        star_rows(study.stars).alias("flag"),
        study.tell_reason(),
    )
    over: list[Dimension] = []
    if of_programs:
        rows = _name_settings(rows)
        over = [_models(means), _settings(means, study)]
    else:
        rows = rows.with_columns(pl.lit("The prompts").alias("of"))
        over = [Dimension("of", "Of", ["The prompts"])]
    kind = FEATURES if of_programs else STYLE
    what = "code" if of_programs else "prompts"
    return Chart(
        anchor=study.anchor_of(kind),
        title=f"Features of {what} by persona, {study.name}",
        dimensions=[
            *over,
            Dimension("feature", "Feature", list(titles.values())),
            Dimension("persona", "Persona", list(names.values())),
        ],
        panels=[each.key for each in over],
        across=["feature", "persona"],
        compared=["persona"],
        numbers=[
            Number("mean", "mean"),
            Number("ci_low", "95% interval", upto="ci_high"),
            Number("standardised", "from the mean, in SD"),
            *TESTS,
            Number("n_prompts", "prompts", "count"),
        ],
        words=["flag", "reason", "mark"],
        rows=rows,
        specification=_specify_features(_choose_width(list(names.values()))),
        scaled="standardised",
        finding={
            "measure": "mean",
            "label": "mean",
            "per": "feature",
            "starred": "flag",
            "adjusted": "p_holm",
            "up": "differ between personas",
            "unit": "feature",
        },
        twins=study.twins_of(kind) if of_programs else f"figures/{study.name}/persona-{kind}",
        panel_width=_fit_panel(list(names.values())),
        missing="no number",
    )


def _specify_features(wide: int) -> dict[str, Any]:
    return specify_squares(
        (_axis("persona", None, altair.X, **_UPRIGHT), _axis("feature", None, altair.Y)),
        "standardised",
        "datum.mark + datum.flag",
        DIVERGING,
        title_legend(["standard", "deviations"]),
        (wide, _HIGH),
    )


# --------------------------------------------------------------------------------- guesses


def chart_leakage(leakage: pl.DataFrame, study: PersonaStudy) -> Chart | None:
    """Make the chart of how often the persona is guessed, beside chance and permuted personas.

    leakage: rows of `persona_leakage`.
    """
    if not leakage.height:
        return None
    rows = _name_settings(leakage).with_columns(
        star_rows(study.stars).alias("flag"), study.tell_reason()
    )
    views = rows["features"].unique(maintain_order=True).to_list()
    return Chart(
        anchor=study.anchor_of(LEAKAGE),
        title=f"Guessing who asked from the code, {study.name}",
        dimensions=[
            _models(rows),
            _settings(rows, study),
            Dimension("folds", "Held out", rows["folds"].unique(maintain_order=True).to_list()),
            Dimension("features", "Seen", views),
        ],
        panels=["model", "setting"],
        across=["features"],
        compared=["features"],
        numbers=[
            Number("accuracy", "balanced accuracy", "percent"),
            Number("chance", "chance", "percent"),
            Number("permuted", "permuted, mean", "percent"),
            Number("permuted_high", "permuted, 95th percentile", "percent"),
            *TESTS,
            Number("n_personas", "personas", "count"),
            Number("n_prompts", "prompts", "count"),
            Number("n_programs", "programs", "count"),
        ],
        words=["flag", "reason"],
        rows=rows,
        specification=_specify_leakage(),
        finding={
            "measure": "accuracy",
            "label": "balanced accuracy",
            "starred": "flag",
            "adjusted": "p_holm",
            "up": "above chance",
            "down": "below chance",
            "unit": "view",
        },
        twins=study.twins_of(LEAKAGE),
        panel_width=320,
        missing="no number",
    )


def _specify_leakage() -> dict[str, Any]:
    base = altair.Chart(SHOWN).encode(y=_axis("features", None, altair.Y, grid=False))
    percents = altair.X(
        "permuted:Q",
        title="balanced accuracy",
        scale=altair.Scale(domain=[0, 1]),
        axis=altair.Axis(format=".0%", tickCount=5),
    )
    bands = base.mark_bar(height=14, color=GREY, opacity=0.45, aria=False).encode(
        x=percents, x2="permuted_high:Q"
    )
    chance = base.mark_tick(
        thickness=2, size=26, color="currentColor", strokeDash=[3, 2], aria=False
    ).encode(x="chance:Q")
    points = base.mark_point(
        filled=True, size=120, color="#0072B2", stroke="white", strokeWidth=1, opacity=1
    ).encode(x="accuracy:Q", description="say:N")
    stars = base.mark_text(align="left", dx=9, dy=-5, fontSize=15, color="currentColor", aria=False)
    marks = stars.encode(x="accuracy:Q", text="flag:N")
    return specify_panels(_with_missing(bands + chance + points + marks, base, "accuracy"))


def chart_confusions(confusions: pl.DataFrame, study: PersonaStudy) -> Chart | None:
    """Make the matrix of who asked and who was guessed, in programs and shares of who asked.

    confusions: rows of `persona_confusions`.
    """
    if not confusions.height:
        return None
    names = study.name_levels(study.list_levels([confusions["persona"], confusions["guessed"]]))
    keys = ["model", "temperature", "top_p", "features", "persona"]
    asked = pl.col("programs").sum().over(keys)
    rows = _name_settings(confusions).with_columns(
        asked.alias("asked"),
        pl.when(asked > 0).then(pl.col("programs") / asked).otherwise(None).alias("share"),
        pl.when(pl.col("persona") == pl.col("guessed"))
        .then(pl.lit(RIGHT))
        .otherwise(pl.lit(WRONG))
        .alias("kind"),
        pl.col("persona").replace_strict(names),
        pl.col("guessed").replace_strict(names),
    )
    called = list(names.values())
    views = rows["features"].unique(maintain_order=True).to_list()
    return Chart(
        anchor=study.anchor_of("confusions"),
        title=f"Who was guessed from the code, {study.name}",
        dimensions=[
            _models(rows),
            _settings(rows, study),
            Dimension("features", "Seen", views),
            Dimension("persona", "Asked by", called),
            Dimension("guessed", "Guessed", called),
        ],
        panels=["features", "model", "setting"],
        across=["persona", "guessed"],
        compared=["features", "guessed"],
        numbers=[
            Number("share", "share", "percent"),
            Number("programs", "programs", "count"),
            Number("asked", "of", "count"),
        ],
        words=["kind"],
        rows=rows,
        specification=_specify_confusions(_choose_width(called)),
        scaled="share",
        finding={"measure": "share", "label": "", "by": "kind"},
        panel_width=_fit_panel(called),
        missing="no program",
    )


def _specify_confusions(wide: int) -> dict[str, Any]:
    return specify_squares(
        (_axis("guessed", "guessed", altair.X, **_UPRIGHT), _axis("persona", "asked by", altair.Y)),
        "share",
        "isValid(datum.share) ? datum.programs : '–'",
        altair.Scale(scheme="cividis", domain=[0, 1]),
        title_legend(["share of", "who asked"]),
        (wide, _HIGH),
    )
