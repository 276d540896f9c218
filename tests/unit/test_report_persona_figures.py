"""Figures of studies of personas: what is drawn where, read back from the axes."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text

from llm_variability.linguistics.style import FEATURES as STYLE_FEATURES
from llm_variability.report.__main__ import main
from llm_variability.report.contrasts import ASTERISKS
from llm_variability.report.figures import figure_style, render_svg
from llm_variability.report.personas.charts import arrange_confusion, shorten_reason
from llm_variability.report.personas.figures import (
    PersonaTables,
    draw_persona_figure,
    list_personas,
)
from llm_variability.report.personas.looks import (
    Panel,
    Point,
    Row,
    bound_points,
    choose_looks,
    choose_tests,
    cut_name,
    describe_stars,
    draw_chart,
    find_limits,
    fit_text,
    is_starred,
    measure_text,
    tell_arrows,
)
from llm_variability.report.personas.map import place_labels, scale_places
from llm_variability.report.personas.matrices import (
    CODE_FEATURES,
    arrange_similarity,
    average_topics,
    name_topics,
    standardise,
    write_mean,
    write_share,
)
from llm_variability.report.personas.names import (
    choose_persona_setting,
    list_persona_figures,
    name_personas,
    read_labels,
)
from llm_variability.report.personas.network import Box, box_around, draw_network
from llm_variability.report.personas.schemas import CAME_KINDS
from llm_variability.table_contract import Table
from llm_variability.tables import write_table
from llm_variability.tables_personas import (
    CONFUSIONS,
    DIALOGUE_CHANGES,
    ENTITIES,
    ENTITY_MAP,
    FEATURE_COLUMNS,
    LEAKAGE,
    PERSONA_MEANS,
    SEPARATION,
    SEVERAL,
    SHARED_ENTITIES,
    TOPIC_WEIGHTS,
    TOPICS,
)

ROLES = ("junior-engineer", "principal-engineer", "english-teacher", "astrophysicist")
MODELS = ("model-a", "model-b")
MEASURES = ("tsed", "encoder-a")
WORDS = [
    *("calculator", "user", "button", "screen", "number", "function", "class", "input", "output"),
    *("test", "operation", "error", "value", "result", "division", "memory", "history", "server"),
    *("cloud", "container", "endpoint", "request", "log", "unit", "array", "file", "spectrum"),
    *("wavelength", "flux", "uncertainty", "spreadsheet", "student", "mark", "report", "essay"),
    *("help", "program", "computer", "library", "service", "database", "table", "customer"),
]


def frame(table: Table, rows: list[dict]) -> pl.DataFrame:
    """Make a table of rows; columns that they lack are null."""
    schema = {name: column.dtype for name, column in table.columns.items()}
    return pl.DataFrame(
        [{name: row.get(name) for name in schema} for row in rows],
        schema=schema,
    )


def p_values_of(rng: np.random.Generator) -> dict:
    p_value = float(rng.uniform(0, 0.2))
    return {
        "p_value": p_value,
        "p_holm": min(1.0, 4 * p_value),
        "p_bh": min(1.0, 2 * p_value),
        "family_size": 6,
    }


def interval(estimate: float, error: float) -> dict:
    return {
        "std_error": error,
        "df": 12.0,
        "ci_low": estimate - 2.2 * error,
        "ci_high": estimate + 2.2 * error,
    }


def make_personas(roles=ROLES, genders=("male",)) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {"persona": f"{role}-{gender}", "role": role, "gender": gender}
            for role in roles
            for gender in genders
        ],
        schema=["persona", "role", "gender"],
        orient="row",
    )


def make_shared(personas: list[str], rng: np.random.Generator) -> pl.DataFrame:
    rows = []
    for of, size in (("entities", 60), ("cooccurrences", 20)):
        own = {name: int(rng.integers(size // 2, size)) for name in personas}
        for at, first in enumerate(personas):
            for second in personas[at + 1 :]:
                shared = int(rng.integers(0, min(own[first], own[second])))
                rest = {"first_only": own[first] - shared, "second_only": own[second] - shared}
                jaccard = shared / (shared + sum(rest.values()))
                rows.append(
                    {"first": first, "second": second, "of": of, "shared": shared}
                    | rest
                    | {"jaccard": jaccard, "permuted": 0.4}
                    | p_values_of(rng)
                )
    return frame(SHARED_ENTITIES, rows)


def make_entities(shared: pl.DataFrame, personas: list[str]) -> pl.DataFrame:
    rows = []
    for persona in personas:
        of = shared.filter(pl.col("of") == "entities")
        own = [
            row["shared"] + row["first_only" if row["first"] == persona else "second_only"]
            for row in of.iter_rows(named=True)
            if persona in (row["first"], row["second"])
        ]
        rows += [
            {"entity": f"thing {at}", "persona": persona, "sentences": 2, "prompts": 1}
            for at in range(own[0] if own else 3)
        ]
    return frame(ENTITIES, rows)


def make_map(personas: list[str], rng: np.random.Generator, count: int = 160) -> pl.DataFrame:
    rows = []
    for at in range(count):
        persona = int(rng.integers(len(personas)))
        angle = 2 * np.pi * persona / len(personas)
        names = rng.choice(WORDS, size=int(rng.integers(1, 3)), replace=False)
        rows.append(
            {
                "entity": f"{' '.join(names)} {at}" if at % 3 else " ".join(names),
                "x": float(np.cos(angle) + rng.normal(0, 0.6)),
                "y": float(np.sin(angle) + rng.normal(0, 0.6)),
                "persona": personas[persona],
                "share": float(rng.uniform(0.4, 1)),
                "sentences": int(1 + rng.pareto(1.3)),
            }
        )
    return frame(ENTITY_MAP, rows)


def make_topics(rng: np.random.Generator, count: int = 5) -> pl.DataFrame:
    rows = []
    for topic in range(1, count + 1):
        for rank, word in enumerate(rng.choice(WORDS, size=8, replace=False), start=1):
            rows.append({"topic": topic, "rank": rank, "word": str(word), "weight": 0.2 / rank})
    return frame(TOPICS, rows)


def make_weights(
    personas: pl.DataFrame, tasks: list[str], rng: np.random.Generator, topics: int = 5
) -> pl.DataFrame:
    rows = []
    for at, who in enumerate(personas.iter_rows(named=True)):
        for task in tasks:
            for iteration in range(3):
                lean = np.ones(topics)
                lean[at % topics] = 4
                for topic, weight in enumerate(rng.dirichlet(lean), start=1):
                    rows.append(
                        who
                        | {
                            "task": task,
                            "prompt_id": f"{task}-{who['persona']}-{iteration}",
                            "topic": topic,
                            "weight": float(weight),
                        }
                    )
    return frame(TOPIC_WEIGHTS, rows)


def make_means(
    personas: list[str], models: list[str], rng: np.random.Generator, topics: int = 5
) -> pl.DataFrame:
    rows = []

    def add(head: dict, feature: str, level: float, spread: float, share: bool) -> None:
        test = p_values_of(rng)
        for persona in personas:
            mean = level * float(np.exp(rng.normal(0, spread)))
            mean = min(mean, 1.0) if share else mean
            error = mean * 0.12
            named = {"feature": feature, "persona": persona, "mean": mean, "n_prompts": 15}
            rows.append(head | named | interval(mean, error) | test)

    levels = {"words": 90.0, "sentences": 6.0, "words_per_sentence": 15.0, "technical": 4.0}
    for feature in STYLE_FEATURES:
        share = STYLE_FEATURES[feature][0].startswith("share")
        add({"study": "personas"}, feature, levels.get(feature, 0.4), 0.4, share)
    for topic in range(1, topics + 1):
        add({"study": "personas"}, f"topic-{topic}", 0.2, 0.4, share=True)
    for number, model in enumerate(models):
        head = {"study": "personas", "model": model, "temperature": "1.0", "top_p": "1.0"}
        for kind in CAME_KINDS:
            add(head, f"reply_{kind}", 0.1, 0.5, share=True)
        for feature in FEATURE_COLUMNS:
            level = {"lines": 60.0, "reply_lines": 70.0, "nodes": 800.0, "reply_words": 200.0}
            share = feature in FEATURE_COLUMNS[FEATURE_COLUMNS.index("tests") :]
            size = 0.3 if share else level.get(feature, 4.0) * (1 + 2 * number)
            add(head, feature, size, 0.4, share)
    return frame(PERSONA_MEANS, rows)


def make_separation(
    personas: list[str],
    models: list[str],
    measures: list[str],
    rng: np.random.Generator,
    factors: tuple[str, ...] = ("persona",),
) -> pl.DataFrame:
    rows = []
    for model in models:
        for measure in measures:
            head = {
                "study": "personas",
                "model": model,
                "temperature": "1.0",
                "top_p": "1.0",
                "measure": measure,
                "variant": "iterations",
                "n_prompts": 20,
                "n_programs": 60,
                "n_pairs": 1770,
            }

            def add(factor: str, first: str | None, second: str | None, head=head) -> None:
                between = float(rng.uniform(0.3, 0.6))
                difference = float(rng.normal(0.05, 0.03))
                rows.append(
                    head
                    | {"factor": factor, "first": first, "second": second, "mc_error": 0.004}
                    | {"same_prompt": 0.72, "within": between + difference, "between": between}
                    | {"difference": difference}
                    | interval(difference, 0.02)
                    | p_values_of(rng)
                )

            for factor in factors:
                add(factor, None, None)
            for at, first in enumerate(personas):
                add("persona", first, None)
                for second in personas[at + 1 :]:
                    add("persona", first, second)
            rows.append(rows[-1] | {"variant": "sampled", "within": None, "difference": None})
    return frame(SEPARATION, rows)


def make_leakage(
    personas: list[str], models: list[str], rng: np.random.Generator
) -> tuple[pl.DataFrame, pl.DataFrame]:
    found, guesses = [], []
    for model in models:
        for features in ("syntax", "tokens"):
            head = {
                "study": "personas",
                "model": model,
                "temperature": "1.0",
                "top_p": "1.0",
                "features": features,
            }
            counts = rng.multinomial(45, np.ones(len(personas)) / len(personas), len(personas))
            counts += 30 * np.eye(len(personas), dtype=int)
            accuracy = float(np.mean(np.diag(counts) / counts.sum(axis=1)))
            chance = 1 / len(personas)
            found.append(
                head
                | {"folds": "task", "accuracy": accuracy, "chance": chance, "permuted": chance}
                | {"permuted_high": chance + 0.09, "mc_error": 0.003, "n_prompts": 60}
                | {"n_personas": len(personas), "n_programs": int(counts.sum())}
                | p_values_of(rng)
            )
            guesses += [
                head | {"persona": asked, "guessed": guessed, "programs": int(counts[i, j])}
                for i, asked in enumerate(personas)
                for j, guessed in enumerate(personas)
            ]
    return frame(LEAKAGE, found), frame(CONFUSIONS, guesses)


def make_changes(
    personas: list[str], models: list[str], measures: list[str], rng: np.random.Generator
) -> pl.DataFrame:
    rows = []
    for model in models:
        for measure in measures:
            for persona in (*personas, None):
                change = float(rng.normal(0.05, 0.05))
                rows.append(
                    {
                        "study": "personas",
                        "model": model,
                        "temperature": "1.0",
                        "top_p": "1.0",
                        "measure": measure,
                        "persona": persona,
                        "dialogues": 15,
                        "asked": 6,
                        "exchanges": float(rng.uniform(0, 1)),
                        "programs": 13,
                        "same_prompt": 0.7,
                        "with_dialogue": 0.7 - change,
                        "change": change,
                        "n_prompts": 12,
                    }
                    | interval(change, 0.03)
                )
    return frame(DIALOGUE_CHANGES, rows)


def make_tables(
    roles=ROLES, genders=("male",), models=MODELS, measures=MEASURES, tasks=3, topics=5
) -> PersonaTables:
    """Make a study's tables with a seed."""
    rng = np.random.default_rng(20)
    personas = make_personas(roles, genders)
    names = personas["persona"].to_list()
    factors = ("persona", "role", "gender") if len(genders) > 1 else ("persona",)
    shared = make_shared(names, rng)
    weights = make_weights(personas, [f"open/task-{at}" for at in range(tasks)], rng, topics)
    leakage, confusions = make_leakage(names, list(models), rng)
    return PersonaTables(
        study="personas",
        personas=list_personas([weights]),
        separation=make_separation(names, list(models), list(measures), rng, factors),
        means=make_means(names, list(models), rng, topics),
        leakage=leakage,
        confusions=confusions,
        shared=shared,
        entity_map=make_map(names, rng),
        entities=make_entities(shared, names),
        topics=make_topics(rng, topics),
        topic_weights=weights,
        dialogue_changes=make_changes(names, list(models), list(measures), rng),
    )


@pytest.fixture(scope="module")
def tables() -> PersonaTables:
    return make_tables()


def draw(kind: str, tables: PersonaTables, measure: str = "", stars: str = "unadjusted"):
    wanted = next(
        each
        for each in list_persona_figures(["tsed", "encoder-a"], dialogue=True)
        if (each.kind, each.measure) == (kind, measure)
    )
    setting = choose_persona_setting(tables.separation)
    return draw_persona_figure(wanted, tables, setting, stars)


def draw_all(tables: PersonaTables) -> dict:
    setting = choose_persona_setting(tables.separation)
    return {
        each.ending: draw_persona_figure(each, tables, setting, "bh")
        for each in list_persona_figures(["tsed"], dialogue=True)
    }


def list_texts(figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def list_legend(figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def list_drawn(figure) -> list[tuple[str, object]]:
    """The texts that are drawn, with their boxes in pixels; ticks outside of their axes are not."""
    with figure_style():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
    texts = [*figure.texts]
    for axes in figure.axes:
        texts += axes.texts
        if not axes.axison:
            texts += [axes._left_title]
            continue
        texts += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in axis.get_major_ticks():
                if min(limits) <= tick.get_loc() <= max(limits):
                    texts += [tick.label1, tick.label2]
    return [
        (text.get_text(), text.get_window_extent(renderer))
        for text in texts
        if text.get_visible() and text.get_text().strip()
    ]


def find_collisions(figure) -> list:
    """Texts over each other, or over the figure's edge, by more than a pixel and a half."""
    drawn = list_drawn(figure)
    width, height = figure.get_size_inches() * figure.dpi
    found = [
        text
        for text, box in drawn
        if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]
    for (first, one), (second, other) in combinations(drawn, 2):
        across = min(one.x1, other.x1) - max(one.x0, other.x0)
        up = min(one.y1, other.y1) - max(one.y0, other.y0)
        if across > 1.5 and up > 1.5:
            found.append((first, second))
    return found


# ----------------------------------------------------------------------------------- names


def test_figures_are_listed_by_measure_and_dialogues_only_where_there_are_some():
    plain = list_persona_figures(["tsed", "encoder-a"], dialogue=False)
    assert [each.ending for each in plain] == [
        "network",
        "map",
        "topics",
        "style",
        "similarity-tsed",
        "separation-tsed",
        "similarity-encoder-a",
        "separation-encoder-a",
        "features",
        "amount",
        "leakage",
    ]
    more = list_persona_figures(["tsed", "encoder-a"], dialogue=True)
    assert [each.ending for each in more if each not in plain] == ["dialogue"]


def test_every_figure_has_a_caption():
    captions = Path(__file__).parents[2] / "workflow/report"
    for each in list_persona_figures(["tsed"], dialogue=True):
        assert (captions / f"{each.caption}.rst").read_text(encoding="utf-8").strip()


def test_a_persona_is_called_by_its_label_as_it_is():
    labels = {"english-teacher-male": "English teacher", "junior-engineer-male": "  "}
    names = name_personas(make_personas(), labels)
    assert names["english-teacher-male"] == "English teacher"
    assert names["junior-engineer-male"] == "junior engineer"
    both = name_personas(
        make_personas(ROLES[:1], ("male", "female")),
        dict.fromkeys(
            ("junior-engineer-male", "junior-engineer-female"), "junior AI engineer\u202e"
        ),
    )
    assert both["junior-engineer-female"] == "junior AI engineer⟨U+202E⟩ (female)"


def test_labels_that_are_not_told_apart_are_left_aside():
    labels = {f"{role}-male": "engineer" for role in ROLES[:2]}
    assert name_personas(make_personas(), labels) == name_personas(make_personas())


def test_labels_are_those_of_the_rewritings():
    made_by = {"personas": {"a": {"label": "A b", "description": "x"}, "c": {}}}
    assert read_labels(made_by) == {"a": "A b"}
    assert read_labels({}) == {}


def test_entities_of_no_one_persona_are_grey_and_named(tables):
    plain = draw("map", tables)
    entity_map = tables.entity_map.with_columns(persona=pl.lit(SEVERAL))
    figure = draw("map", replace(tables, entity_map=entity_map))
    colours = {
        to_hex(colour) for points in figure.axes[0].collections for colour in points.get_facecolor()
    }
    assert colours == {"#8a93a3"}
    assert "several personas" in list_legend(figure)
    assert "several personas" not in list_legend(plain)


def test_figures_call_personas_by_their_labels(tables):
    labels = {persona: f"The {at}th" for at, persona in enumerate(tables.personas["persona"])}
    told = list_legend(draw("map", replace(tables, labels=labels)))
    assert {"The 0th", "The 1th"} <= set(told)


def test_a_persona_is_its_role_and_has_its_gender_only_where_genders_differ():
    assert name_personas(make_personas()) == {
        "junior-engineer-male": "junior engineer",
        "principal-engineer-male": "principal engineer",
        "english-teacher-male": "english teacher",
        "astrophysicist-male": "astrophysicist",
    }
    both = name_personas(make_personas(ROLES[:1], ("male", "female")))
    assert both["junior-engineer-female"] == "junior engineer (female)"


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ([("0", None), ("1.0", "0.8"), ("1.0", "1.0"), ("0.4", "1.0")], ("1.0", "1.0")),
        ([("0", None), ("1.4", "1.0"), ("0.6", "1.0")], ("0.6", "1.0")),
        ([("0", None), ("2.0", "0.8")], ("2.0", "0.8")),
        ([("0", None), (None, None)], ("0", None)),
        ([(None, None)], None),
        ([], None),
    ],
)
def test_the_sampled_setting_nearest_to_the_default_is_shown(settings, chosen):
    rows = pl.DataFrame(
        settings, schema={"temperature": pl.String, "top_p": pl.String}, orient="row"
    )
    assert choose_persona_setting(rows) == chosen


# ----------------------------------------------------------------------------------- looks


def test_a_colour_is_a_role_and_a_marker_a_gender():
    looks = choose_looks(make_personas(ROLES, ("male", "female", "nonbinary")))
    assert len({(look.colour, look.marker) for look in looks.values()}) == 12
    assert len({looks[f"{role}-male"].colour for role in ROLES}) == 4
    for role in ROLES:
        assert len({looks[f"{role}-{gender}"].colour for gender in ("male", "female")}) == 1


def test_twelve_roles_look_different():
    looks = choose_looks(make_personas([f"role-{at}" for at in range(12)]))
    assert len({(look.colour, look.marker) for look in looks.values()}) == 12


def test_a_persona_keeps_its_colour_in_all_figures(tables):
    colours = {look.colour for look in tables.looks.values()}
    network = draw("network", tables).axes[0]
    assert {to_hex(points.get_facecolor()[0]).upper() for points in network.collections} == colours
    amount = draw("amount", tables).axes[0]
    shown = [to_hex(line.get_color()).upper() for line in amount.lines]
    assert [each for each in shown if each in colours] == [
        look.colour for look in tables.looks.values()
    ] * len(MODELS)
    style = draw("style", tables).axes[0]
    assert {to_hex(line.get_color()).upper() for line in style.lines} == colours


def test_a_name_is_cut_and_its_invisible_characters_are_named():
    assert cut_name("a\nb\tc") == "a b c"
    assert cut_name("x" * 40, 10) == "x" * 9 + "…"
    assert cut_name("\u202eabc\x00") == "⟨U+202E⟩abc⟨U+0000⟩"


def test_a_text_is_made_smaller_before_it_is_cut():
    text = "a title of some length"
    wide = measure_text(text, 9.0)[0]
    assert fit_text(text, wide * 1.1, 9.0) == (text, 9.0)
    shown, size = fit_text(text, wide * 0.8, 9.0)
    assert shown == text and size == pytest.approx(7.2)
    shown, size = fit_text(text, wide * 0.5, 9.0)
    assert shown.endswith("…") and size == pytest.approx(6.0)
    assert measure_text(shown, size)[0] <= wide * 0.5 + 1e-9


@pytest.mark.parametrize(("stars", "marked"), [("unadjusted", True), ("holm", False), ("bh", True)])
def test_asterisks_stand_for_the_p_values_asked_for(stars, marked):
    row = {"p_value": 0.01, "p_holm": 0.06, "p_bh": 0.03, "family_size": 6}
    assert is_starred(row, stars) is marked
    assert is_starred(row | {"p_value": None, "p_holm": None, "p_bh": None}, stars) is False
    told = describe_stars(pl.DataFrame([row, row]), stars)
    assert (
        told
        == {
            "unadjusted": "* p < .05 (unadjusted, 6 tests)",
            "holm": "* p < .05 (Holm, 6 tests)",
            "bh": "* p < .05 (Benjamini-Hochberg, 6 tests)",
        }[stars]
    )
    larger = row | {"family_size": 9}
    assert "6 to 9 tests)" in describe_stars(pl.DataFrame([row, larger]), stars)
    none = pl.DataFrame([row]).with_columns(pl.lit(None).alias(ASTERISKS[stars][0]))
    assert describe_stars(none, stars).endswith(", no test)")


def test_a_feature_has_its_p_value_though_the_first_persona_has_none():
    means = pl.DataFrame(
        {
            "model": ["m", "m", "m", "m"],
            "feature": ["lines", "classes", "lines", "classes"],
            "persona": ["a", "a", "b", "b"],
            "p_value": [None, 0.3, 0.01, None],
        }
    )
    tests = choose_tests(means, ["model", "feature"])
    assert tests.select("feature", "p_value").rows() == [("lines", 0.01), ("classes", 0.3)]


@pytest.mark.parametrize("kind", ["topics", "style", "features", "amount"])
def test_asterisks_are_the_same_though_the_first_persona_has_no_value(tables, kind):
    first = pl.col("persona") == next(iter(tables.looks))
    tested = tables.means.with_columns(
        **{name: pl.lit(0.001) for name in ("p_value", "p_holm", "p_bh")},
        family_size=pl.lit(5, pl.Int32),
    )
    lacking = tested.with_columns(
        pl.when(~first).then(pl.col(name)).alias(name)
        for name in ("p_value", "p_holm", "p_bh", "family_size")
    )
    whole, less = (
        draw(kind, replace(tables, means=each)).findobj(Text) for each in (tested, lacking)
    )
    shown = [text.get_text() for text in whole]
    assert any(text.endswith("*") for text in shown)
    assert [text.get_text() for text in less] == shown


def point(value, low=None, high=None) -> Point:
    return Point(value, low, high, "#000000", "o")


numbers = st.floats(-1e3, 1e3).map(lambda each: round(each, 3))


@given(st.lists(st.tuples(numbers, st.floats(0, 1e4), st.floats(0, 1e4)), min_size=1, max_size=6))
def test_every_number_is_inside_its_axis_whatever_the_intervals(drawn):
    points = [[point(value, value - below, value + above)] for value, below, above in drawn]
    low, high = find_limits(Panel("", "", points))
    assert all(low < value < high for value, _, _ in drawn)
    assert not tell_arrows([Panel("", "", [[point(value)] for value, _, _ in drawn])])


def test_an_interval_as_long_as_the_numbers_lie_apart_is_shown_whole():
    panel = Panel("", "", [[point(1.0, 0.6, 1.4)], [point(2.0, 1.1, 2.9)]])
    low, high = find_limits(panel)
    assert low < 0.6 and high > 2.9
    assert tell_arrows([panel]) == []


def test_an_interval_of_two_prompts_leaves_the_axis_with_an_arrow():
    panel = Panel("", "", [[point(10.0, -200.0, 220.0)], [point(12.0, 11.5, 12.5)]], positive=True)
    low, high = find_limits(panel)
    assert 0 < low < 10 and 12.5 < high < 25
    assert tell_arrows([panel]) == ["arrow: the interval goes on"]
    figure, _ = draw_chart([Row("", "a"), Row("", "b")], [panel], "title", ["told"])
    (axes,) = figure.axes
    arrows = [line.get_xdata()[0] for line in axes.lines if line.get_marker() in (4, 5)]
    assert arrows == pytest.approx([low, high])
    assert any("arrow: the interval goes on" in text.get_text() for text in figure.texts)


def test_an_interval_ends_where_the_quantity_does():
    panel = Panel("", "", [[point(0.4, -0.3, 1.2)]], share=True, from_zero=True)
    ((bounded,),) = bound_points(panel)
    assert (bounded.value, bounded.low, bounded.high) == (0.4, 0.0, 1.0)


# --------------------------------------------------------------------------------- network


def share(first: str, second: str, of: str, shared: int, rest: tuple[int, int], p=0.5) -> dict:
    return {
        "first": f"{first}-male",
        "second": f"{second}-male",
        "of": of,
        "shared": shared,
        "first_only": rest[0],
        "second_only": rest[1],
        "jaccard": shared / (shared + sum(rest)) if shared + sum(rest) else None,
        "p_value": p,
        "p_holm": p,
        "p_bh": p,
        "family_size": 3,
    }


def test_the_width_of_a_line_is_what_two_personas_share():
    rows = [
        share("a", "b", "entities", 12, (8, 4), p=0.01),
        share("a", "c", "entities", 4, (16, 2)),
        share("b", "c", "entities", 0, (16, 6)),
    ]
    looks = choose_looks(make_personas(("a", "b", "c")))
    figure = draw_network(frame(SHARED_ENTITIES, rows), frame(ENTITIES, []), looks, "s", "bh")
    entities, pairs = figure.axes
    widths = [line.get_linewidth() for line in entities.lines if line.get_linestyle() == "-"]
    assert widths[0] / widths[1] == pytest.approx(12 / 4)
    assert [line.get_linestyle() for line in entities.lines].count(":") == 1
    assert [text.get_text() for text in entities.texts][-3:] == [
        "12 (0.50)*",
        "4 (0.18)",
        "0 (0.00)",
    ]
    names = [text.get_text() for text in entities.texts][:3]
    assert names == ["a\n20 entities", "b\n16 entities", "c\n6 entities"]
    assert [text.get_text() for text in pairs.texts] == ["a\n0 pairs", "b\n0 pairs", "c\n0 pairs"]


def test_a_circle_is_larger_the_more_entities_a_persona_has():
    shared = frame(SHARED_ENTITIES, [share("a", "b", "entities", 1, (1, 1))])
    own = [("a", 3), ("b", 9)]
    entities = frame(
        ENTITIES,
        [
            {"entity": f"e{at}", "persona": f"{who}-male", "sentences": 1, "prompts": 1}
            for who, count in own
            for at in range(count)
        ],
    )
    figure = draw_network(shared, entities, choose_looks(make_personas(("a", "b"))), "s", "bh")
    sizes = [points.get_sizes()[0] for points in figure.axes[0].collections]
    assert sizes[0] < sizes[1]
    assert [text.get_text() for text in figure.axes[0].texts][:2] == [
        "a\n3 entities",
        "b\n9 entities",
    ]


def test_numbers_that_are_left_out_are_counted():
    tables = make_tables(genders=("male", "female", "nonbinary"))
    figure = draw("network", tables)
    written = [text for text in list_texts(figure) if "(0." in text]
    pairs = tables.shared.height
    assert len(written) <= 24
    assert f"{pairs - len(written)} numbers left out" in figure.texts[-1].get_text()


# ------------------------------------------------------------------------------------- map


places = st.lists(
    st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=2, max_size=12, unique=True
)


@given(places)
def test_the_map_keeps_distances_alike_and_stays_in_its_frame(drawn):
    rows = [
        {"entity": str(at), "x": x, "y": y, "persona": "a", "share": 1.0, "sentences": 1}
        for at, (x, y) in enumerate(drawn)
    ]
    placed = scale_places(frame(ENTITY_MAP, rows), 6.0, 4.0)
    moved = placed.select("across", "up").to_numpy()
    assert (moved >= 0).all() and (moved <= [6, 4]).all()
    before, after = (
        np.linalg.norm(each[:, None] - each, axis=2) for each in (np.array(drawn), moved)
    )
    assume(before.max() > 1e-6)
    assert after == pytest.approx(before * after.max() / before.max(), abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0.5, 5.5), st.floats(0.5, 3.5)), min_size=1, max_size=30))
def test_labels_never_lie_over_each_other(drawn):
    points = [(x, y, 0.05) for x, y in drawn]
    texts = {at: f"entity number {at}" for at in range(len(points))}
    found = place_labels(points, texts, Box(0, 0, 6, 4))
    boxes = []
    for at, (x, y) in found.items():
        width, height = measure_text(texts[at], 7.5)
        boxes.append(box_around(x, y, width, height * 0.9))
        assert boxes[-1].left >= 0 and boxes[-1].right <= 6
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_the_most_frequent_entities_are_named_and_points_have_the_colour_of_their_persona(tables):
    figure = draw("map", tables)
    (axes,) = figure.axes
    (points,) = axes.collections
    ranked = tables.entity_map.sort(["sentences", "entity"], descending=[True, False])
    assert len(points.get_offsets()) == ranked.height
    assert [to_hex(colour).upper() for colour in points.get_facecolor()] == [
        tables.looks[persona].colour for persona in ranked["persona"]
    ]
    named = [text.get_text() for text in axes.texts]
    assert named[0] == cut_name(ranked["entity"][0], 24)
    assert set(named) <= {cut_name(each, 24) for each in ranked["entity"][:40]}
    assert len(named) > 30
    assert (np.diff(points.get_sizes()) <= 0).all()


def test_one_entity_is_in_the_middle_and_many_in_one_place_are_drawn(tables):
    one = tables.entity_map.head(1)
    (axes,) = draw("map", replace(tables, entity_map=one)).axes
    x, y = axes.collections[0].get_offsets()[0]
    assert (x, y) == pytest.approx((np.mean(axes.get_xlim()), np.mean(axes.get_ylim())))
    same = tables.entity_map.with_columns(x=pl.lit(3.0), y=pl.lit(4.0))
    figure = draw("map", replace(tables, entity_map=same))
    assert find_collisions(figure) == []


# ---------------------------------------------------------------------------------- topics


def test_topics_are_averaged_over_prompts_and_then_over_tasks():
    def weight(task: str, number: int, value: float) -> dict:
        return {
            "task": task,
            "persona": "a-male",
            "role": "a",
            "gender": "male",
            "prompt_id": f"{task}{number}",
            "topic": 1,
            "weight": value,
        }

    weights = frame(
        TOPIC_WEIGHTS,
        [weight("x", 0, 0.2), weight("x", 1, 0.4), weight("x", 2, 0.6), weight("y", 0, 1.0)],
    )
    assert average_topics(weights) == {(1, "a-male"): pytest.approx((0.4 + 1.0) / 2)}


def test_a_topic_is_named_by_its_four_likeliest_words(tables):
    words = tables.topics.filter(pl.col("topic") == 2).sort("rank")["word"].to_list()
    assert name_topics(tables.topics)[2] == " ".join(words[:4])
    figure = draw("topics", tables)
    rows = [label.get_text().removesuffix(" *") for label in figure.axes[0].get_yticklabels()]
    assert rows == list(name_topics(tables.topics).values())


def test_a_topic_that_differs_has_an_asterisk(tables):
    tests = tables.means.filter(pl.col("feature").str.starts_with("topic-"))
    marked = {
        feature
        for feature, p in tests.select("feature", "p_value").unique().iter_rows()
        if p < 0.05
    }
    rows = [label.get_text() for label in draw("topics", tables).axes[0].get_yticklabels()]
    assert {f"topic-{at}" for at, row in enumerate(rows, start=1) if row.endswith(" *")} == marked


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.0, "0%"), (0.004, "<1%"), (0.006, "1%"), (0.436, "44%"), (0.996, ">99%"), (1.0, "100%")],
)
def test_a_share_is_never_rounded_to_none_or_all(value, told):
    assert write_share(value) == told


# ----------------------------------------------------------------------------------- style


def test_style_has_a_panel_a_feature_and_no_topics(tables):
    figure = draw("style", tables)
    titles = [axes.get_title(loc="left").removesuffix(" *") for axes in figure.axes]
    assert len(titles) == len(STYLE_FEATURES)
    assert titles[:3] == ["words", "sentences", "words per sentence"]
    rows = tables.means.filter(pl.col("feature") == "words")
    shown = [
        line.get_xdata()[0] for line in figure.axes[0].lines if line.get_marker() not in (4, 5)
    ]
    assert shown == pytest.approx(rows["mean"].to_list())
    assert figure.axes[0].get_xlabel() == "words"


# ------------------------------------------------------------------------------ similarity


def test_similarity_is_within_on_the_diagonal_and_between_elsewhere(tables):
    rows = tables.separation.filter(
        pl.col("model") == "model-a", pl.col("measure") == "tsed", pl.col("variant") == "iterations"
    )
    names = list(tables.looks)
    matrix, starred = arrange_similarity(rows, names, "unadjusted")
    assert matrix == pytest.approx(matrix.T)
    own = rows.filter(pl.col("first") == names[1], pl.col("second").is_null())
    assert matrix[1, 1] == own["within"][0]
    pair = rows.filter(pl.col("first") == names[0], pl.col("second") == names[3])
    assert matrix[0, 3] == matrix[3, 0] == pair["between"][0]
    assert ((0, 3) in starred) == (pair["p_value"][0] < 0.05)
    figure = draw("similarity", tables, "tsed")
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert len(texts) == 16
    expected = f"{pair['between'][0]:.2f}" + ("*" if pair["p_value"][0] < 0.05 else "")
    assert texts[3] == texts[12] == expected


def test_of_two_personas_what_lies_between_is_shown_though_one_has_too_few_prompts():
    head = {"factor": "persona", "task": None, "p_value": None, "p_holm": None, "p_bh": None}
    rows = [
        head | {"first": "a", "second": None, "within": 0.8, "between": 0.3},
        head | {"first": "b", "second": None, "within": None, "between": None},
        head | {"first": "a", "second": "b", "within": None, "between": None},
    ]
    separation = pl.DataFrame(rows, infer_schema_length=None)
    matrix, starred = arrange_similarity(separation, ["a", "b"], "unadjusted")
    assert matrix[0].tolist() == [0.8, 0.3] and matrix[1, 0] == 0.3 and math.isnan(matrix[1, 1])
    assert starred == set()
    # Between one of three and both others is not between any two.
    matrix, _ = arrange_similarity(separation, ["a", "b", "c"], "unadjusted")
    assert [math.isnan(value) for value in matrix[0]] == [False, True, True]


def test_two_personas_without_programs_are_hatched(tables):
    name = list(tables.looks)[2]
    concerned = (pl.col("first") == name) | (pl.col("second") == name)
    lacking = tables.separation.with_columns(
        pl.when(concerned.fill_null(value=False)).then(None).otherwise(pl.col(column)).alias(column)
        for column in ("within", "between")
    )
    figure = draw("similarity", replace(tables, separation=lacking), "tsed")
    assert [text.get_text() for text in figure.axes[0].texts].count("–") == 7
    assert any("hatched: no number" in text.get_text() for text in figure.texts)


def test_all_models_have_one_scale_of_similarity(tables):
    figure = draw("similarity", tables, "tsed")
    shown = tables.separation.filter(
        pl.col("measure") == "tsed",
        pl.col("variant") == "iterations",
        pl.col("first").is_not_null(),
    )
    values = [
        *shown.filter(pl.col("second").is_null())["within"],
        *shown.filter(pl.col("second").is_not_null())["between"],
    ]
    scale = figure.axes[-1]
    assert scale.get_ylim() == pytest.approx((min(values), max(values)))
    titles = [axes.get_title(loc="left") for axes in figure.axes[:-1]]
    assert titles == list(MODELS)


# ------------------------------------------------------------------------------ separation


def test_separation_shows_three_means_and_the_difference_with_its_interval(tables):
    figure = draw("separation", tables, "tsed")
    similarity, difference = figure.axes
    row = tables.separation.filter(
        pl.col("model") == "model-a",
        pl.col("measure") == "tsed",
        pl.col("variant") == "iterations",
        pl.col("first").is_null(),
    ).row(0, named=True)
    shown = [line.get_xdata()[0] for line in similarity.lines[:3]]
    assert shown == pytest.approx([row["same_prompt"], row["within"], row["between"]])
    values = [line.get_xdata()[0] for line in difference.lines if line.get_marker() == "s"]
    assert values[0] == pytest.approx(row["difference"])
    (first, _) = difference.collections
    ((start, end),) = first.get_segments()
    assert (start[0], end[0]) == pytest.approx((row["ci_low"], row["ci_high"]))
    assert [text.get_text() for text in difference.texts] == ["*"] * sum(
        tables.separation.filter(
            pl.col("measure") == "tsed",
            pl.col("variant") == "iterations",
            pl.col("first").is_null(),
        )["p_value"]
        < 0.05
    )


def test_role_and_gender_have_rows_where_both_differ():
    tables = make_tables(genders=("male", "female"), models=("model-a",))
    texts = list_texts(draw("separation", tables, "tsed"))
    assert [text for text in texts if text.startswith("by ")] == [
        "by persona",
        "by role",
        "by gender",
    ]


# -------------------------------------------------------------------------------- features


def test_features_are_standardised_over_all_personas_and_models():
    first, second = np.array([[1.0, 2.0], [5.0, 5.0]]), np.array([[3.0, np.nan], [5.0, 5.0]])
    standard = standardise([first, second])
    spread = np.std([1, 2, 3])
    assert standard[0][0] == pytest.approx(np.array([-1, 0]) / spread)
    assert standard[1][0][0] == pytest.approx(1 / spread)
    assert np.isnan(standard[1][0][1])
    assert (standard[0][1] == 0).all()


@pytest.mark.parametrize(
    ("feature", "mean", "told"),
    [
        ("lines", 12.34, "12.3"),
        ("lines", 1234.5, "1,234"),
        ("tests", 0.25, "25%"),
        ("password_field", 0.123, "12.3%"),
        ("reply_none", 0.5, "50%"),
        ("reply_lines", 0.5, "0.5"),
    ],
)
def test_truth_values_are_written_as_shares(feature, mean, told):
    assert write_mean(feature, mean) == told


def test_every_compared_feature_of_programs_has_a_row_with_its_means(tables):
    assert set(CODE_FEATURES) == set(FEATURE_COLUMNS)
    figure = draw("features", tables)
    first = figure.axes[0]
    assert [label.get_text() for label in first.get_yticklabels()] == [
        CODE_FEATURES[name] for name in FEATURE_COLUMNS
    ]
    means = tables.means.filter(pl.col("model") == "model-a", pl.col("feature") == "reply_lines")
    texts = [text.get_text() for text in first.texts]
    assert texts[:4] == [write_mean("reply_lines", mean) for mean in means["mean"]]
    tests = tables.means.filter(
        pl.col("model") == "model-a", pl.col("feature").is_in(list(CODE_FEATURES))
    ).unique("feature")
    assert texts.count("*") == int((tests["p_value"] < 0.05).sum())


# ---------------------------------------------------------------------------------- amount


def test_amount_has_a_row_a_model_and_persona(tables):
    lines, none = draw("amount", tables).axes
    rows = tables.means.filter(pl.col("feature") == "reply_lines")
    shown = [line.get_xdata()[0] for line in lines.lines if line.get_marker() not in (4, 5)]
    assert shown == pytest.approx(rows["mean"].to_list())
    assert len(none.lines) >= len(MODELS) * len(ROLES)
    assert [text.get_text() for text in lines.texts if text.get_text() in MODELS] == list(MODELS)
    assert none.get_xlim()[0] > -0.05


# --------------------------------------------------------------------------------- leakage


def test_guesses_are_shares_of_the_programs_of_who_asked():
    def guess(asked: str, guessed: str, programs: int) -> dict:
        return {"persona": asked, "guessed": guessed, "programs": programs}

    rows = frame(CONFUSIONS, [guess("a", "a", 3), guess("a", "b", 1), guess("b", "a", 2)])
    shares, texts = arrange_confusion(rows, ["a", "b", "c"])
    assert shares[0] == pytest.approx([0.75, 0.25, 0])
    assert shares[1] == pytest.approx([1, 0, 0])
    assert np.isnan(shares[2]).all()
    assert texts[0] == ["3", "1", "0"]


def test_accuracy_stands_against_chance_and_against_permuted_personas(tables):
    figure = draw("leakage", tables)
    axes = figure.axes[0]
    shown = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert shown == pytest.approx(tables.leakage["accuracy"].to_list())
    (chance,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert chance.get_xdata()[0] == pytest.approx(1 / 4)
    boxes = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches]
    assert np.array(boxes) == pytest.approx(
        tables.leakage.select("permuted", "permuted_high").to_numpy()
    )
    assert len(figure.axes) == 1 + len(MODELS) * 2


# -------------------------------------------------------------------------------- dialogue


def test_a_long_reason_is_told_by_its_first_part_and_with_names(tables):
    assert shorten_reason("too few programs: none") == "too few programs: none"
    left_out = ", ".join(["junior engineer"] * 20)
    reason = f"programs in two tasks of fewer than two personas; left out: {left_out}"
    short = "programs in two tasks of fewer than two personas (all of it: see the table)"
    assert shorten_reason(reason) == short
    name, look = next(iter(tables.looks.items()))
    lacking = tables.leakage.with_columns(
        accuracy=pl.lit(None, pl.Float64), reason=pl.lit(f"left out: {name}")
    )
    told = [text.get_text() for text in draw("leakage", replace(tables, leakage=lacking)).texts]
    assert any(f"left out: {look.label}" in text for text in told)
    assert not any(name in text for text in told)


def test_dialogues_have_a_panel_of_exchanges_and_one_of_changes_by_measure(tables):
    figure = draw("dialogue", tables)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Exchanges", *MEASURES]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [*(look.label for look in tables.looks.values()), "all personas"] * 2
    rows = tables.dialogue_changes.filter(pl.col("measure") == "tsed")
    shown = [
        line.get_xdata()[0] for line in figure.axes[1].lines if line.get_marker() in ("o", "s")
    ]
    assert shown == pytest.approx(rows["change"].to_list())


# ----------------------------------------------------------------------- what can go wrong


CASES = {
    "four personas": {},
    "two personas": {
        "roles": ROLES[:2],
        "models": ("model-a",),
        "measures": ("tsed",),
        "tasks": 1,
        "topics": 2,
    },
    "three genders": {
        "genders": ("male", "female", "nonbinary"),
        "models": ("claude-3-haiku", "a-model-with-a-very-long-name-indeed-7b-instruct"),
    },
    "hostile names": {
        "roles": ("a" * 90, "$x_1$-of-<b>", "_role_", "english-teacher"),
        "models": ("$m$", "model_{a}&<script>", "m" * 120),
    },
}


@pytest.mark.parametrize("case", CASES)
def test_no_text_lies_over_another_or_over_the_edge(case):
    for ending, figure in draw_all(make_tables(**CASES[case])).items():
        assert (ending, find_collisions(figure)) == (ending, [])


def empty(tables: PersonaTables) -> PersonaTables:
    return replace(
        tables,
        **{
            name: getattr(tables, name).clear()
            for name in (
                "personas",
                "separation",
                "means",
                "leakage",
                "confusions",
                "shared",
                "entity_map",
                "entities",
                "topics",
                "topic_weights",
                "dialogue_changes",
            )
        },
    )


def test_figures_of_tables_without_rows_say_what_is_missing(tables):
    for ending, figure in draw_all(empty(tables)).items():
        told = " ".join(text.get_text() for text in figure.texts)
        assert " No " in told, ending
        assert figure.axes == []


def test_figures_of_numbers_that_are_all_missing_say_so(tables):
    def without(table: pl.DataFrame, *kept: str) -> pl.DataFrame:
        return table.with_columns(
            pl.lit(None, pl.Float64).alias(name)
            for name, dtype in table.schema.items()
            if dtype == pl.Float64 and name not in kept
        )

    lacking = replace(
        tables,
        separation=without(tables.separation),
        means=without(tables.means),
        leakage=without(tables.leakage, "chance"),
        shared=without(tables.shared),
        dialogue_changes=without(tables.dialogue_changes),
    )
    for ending, figure in draw_all(lacking).items():
        drawn = " ".join([*list_texts(figure), *(text.get_text() for text in figure.texts)])
        if ending not in ("network", "map", "topics"):
            assert "no number" in drawn or " No " in drawn, ending
        assert find_collisions(figure) == []


def test_foreign_text_is_text_in_the_svg():
    tables = make_tables(**CASES["hostile names"])
    hostile = tables.entity_map.with_columns(
        entity=pl.when(pl.int_range(pl.len()) % 2 == 0)
        .then(pl.lit("\x00<script>$x_1$&\u202e"))
        .otherwise(pl.col("entity"))
    )
    for ending, figure in draw_all(replace(tables, entity_map=hostile)).items():
        text = render_svg(figure, ending)
        root = ElementTree.fromstring(text)
        assert not [each for each in root.iter() if each.tag.endswith("script")]
        if ending == "map":
            shown = [each.text or "" for each in root.iter() if each.tag.endswith("}text")]
            assert any("⟨U+0000⟩" in each and "<script>" in each for each in shown)


def test_a_figure_is_the_same_bytes_at_every_run():
    small = CASES["two personas"]
    for first, second in zip(
        draw_all(make_tables(**small)).values(),
        draw_all(make_tables(**small)).values(),
        strict=True,
    ):
        assert render_svg(first, "t") == render_svg(second, "t")


# ------------------------------------------------------------------------------ command line


def write_all(tables: PersonaTables, folder: Path, study: str = "personas") -> list[str]:
    """Write a study's tables, and give the arguments of the command that draws them."""
    contracts = {
        "separation": SEPARATION,
        "means": PERSONA_MEANS,
        "leakage": LEAKAGE,
        "confusions": CONFUSIONS,
        "shared": SHARED_ENTITIES,
        "entity_map": ENTITY_MAP,
        "entities": ENTITIES,
        "topics": TOPICS,
        "topic_weights": TOPIC_WEIGHTS,
        "dialogue_changes": DIALOGUE_CHANGES,
    }
    arguments = ["persona-figures", "--outdir", str(folder / "figures" / study)]
    for name, table in contracts.items():
        path = folder / f"{name}.parquet"
        write_table(getattr(tables, name), path, table, {"study": study})
        option = {"entity_map": "map"}.get(name, name).replace("_", "-")
        arguments += [f"--{option}", str(path)]
    return arguments


def test_the_command_writes_each_figure_in_three_formats(tmp_path):
    tables = make_tables(**CASES["two personas"])
    main([*write_all(tables, tmp_path), "--stars", "holm"])
    found = {path.name for path in (tmp_path / "figures/personas").iterdir()}
    assert found == {
        f"persona-{each.ending}{suffix}"
        for each in list_persona_figures(["tsed"], dialogue=True)
        for suffix in (".svg", ".png", ".pdf")
    }
    similarity = (tmp_path / "figures/personas/persona-similarity-tsed.svg").read_text()
    assert "(Holm, 6 tests)" in similarity


def test_measures_that_are_asked_for_have_figures_without_a_row(tmp_path):
    tables = empty(make_tables(**CASES["two personas"]))
    arguments = write_all(tables, tmp_path)
    at = arguments.index("--dialogue-changes")
    main([*arguments[:at], *arguments[at + 2 :], "--measures", "encoder-b"])
    found = {path.name for path in (tmp_path / "figures/personas").glob("*.svg")}
    assert "persona-similarity-encoder-b.svg" in found
    assert "persona-dialogue.svg" not in found


def test_a_table_of_another_study_is_refused(tmp_path, caplog):
    tables = make_tables(**CASES["two personas"])
    arguments = write_all(tables, tmp_path)
    write_table(tables.topics, tmp_path / "topics.parquet", TOPICS, {"study": "other"})
    with pytest.raises(SystemExit):
        main(arguments)
    assert "topics.parquet: is of study other; allowed: personas" in caplog.text
