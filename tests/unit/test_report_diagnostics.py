"""Every check of the page's diagnostics, on either side of its threshold, in made-up studies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import polars as pl
import pytest

from llm_variability.config_personas import Separation
from llm_variability.report.code.checks import check_code
from llm_variability.report.code.schemas import CODE_REPORT_TABLES
from llm_variability.report.diagnostics import (
    Check,
    Rule,
    arrange_diagnostics,
    judge,
    list_alarms,
    tabulate_checks,
)
from llm_variability.report.group_checks import check_groups
from llm_variability.report.personas.checks import check_personas
from llm_variability.report.personas.schemas import PERSONA_REPORT_TABLES
from llm_variability.report.schemas import DIAGNOSTICS, REPORT_TABLES
from llm_variability.report.summaries import write_tables
from llm_variability.table_contract import Table
from llm_variability.tables import Design, Factor

Tables = dict[str, pl.DataFrame]
DESIGN = Design("format", (Factor("race", ("White", "Black"), "White"),))
ALL_TABLES = {**REPORT_TABLES, **CODE_REPORT_TABLES, **PERSONA_REPORT_TABLES}


def fill(table: Table, *rows: Mapping[str, object]) -> pl.DataFrame:
    """A frame of a table; what a row leaves out is 0, no text or false."""
    zero = {pl.String: "", pl.Float64: 0.0, pl.Int64: 0, pl.Int32: 0, pl.Boolean: False}
    types = {name: column.dtype for name, column in table.columns.items()}
    types |= {name: pl.String for row in rows for name in row if name not in types}
    blank = {name: zero.get(kind) for name, kind in types.items()}
    return pl.DataFrame([blank | {**row} for row in rows], schema=types)


def cell(temperature: str, identical: int, **counts: object) -> dict[str, object]:
    """A cell of a hundred draws, of ten prompts drawn ten times each."""
    top_p = None if temperature == "0" else "1.0"
    name = "T0" if temperature == "0" else f"T{temperature}-P1.0"
    place = {"study": "s", "model": "m", "temperature": temperature, "top_p": top_p, "cell": name}
    told = {"prompts": 10, "draws": 100, "ok": 100, "repeated_prompts": 10}
    return place | told | {"identical_prompts": identical} | counts


def draw_tables(name: str) -> Tables:
    """Draws at every threshold: 20% of sampled prompts are duplicates, 5% of draws empty."""
    at_limit = {"empty": 5, "truncated": 20, "no_answer": 5}
    return {name: fill(ALL_TABLES[name], cell("0", 10), cell("1.0", 2, **at_limit))}


def group_tables() -> Tables:
    place = {"study": "s", "model": "m", "temperature": "1.0", "top_p": "1.0"}
    fit = place | {"measure": "e", "level": "text", "scope": "fixed", "term": "race[Black]"}
    return draw_tables("draw_counts") | {
        "determinism": fill(
            REPORT_TABLES["determinism"], {"model": "m", "prompts": 10, "repeated_prompts": 10}
        ),
        "over_long": fill(REPORT_TABLES["over_long"], {"model": "m", "encoder": "e", "texts": 50}),
        "mean_cosine": fill(
            REPORT_TABLES["mean_cosine"],
            *(
                place | {"encoder": "e", "fewest_texts": texts, "race": race}
                for race, texts in (("White", 30), ("Black", 20))
            ),
        ),
        "fits": fill(
            REPORT_TABLES["fits"],
            *(
                fit | {"analysis": analysis, "converged": True}
                for analysis in ("main", "permutation")
            ),
        ),
    }


def check_group_study(tables: Tables, calibrated: int = 20, ignored: int = 0) -> list[Check]:
    return check_groups("s", tables, DESIGN, "study-s", calibrated, {"m": ignored})


def code_tables() -> Tables:
    place = {"study": "s", "model": "m", "temperature": "1.0", "top_p": "1.0"}
    curve = place | {"measure": "tsed", "n_tasks": 5, "n_tasks_asked": 10}
    method = {"comparison": "augmented", "method": "keyboard", "rate": "0.1"}
    lines = {"method": None, "rate": None}
    changed = {"study": "s", "set": "a", "method": "keyboard", "texts": 10}
    return draw_tables("code_draws") | {
        "code_extractions": fill(
            CODE_REPORT_TABLES["code_extractions"],
            place | {"cell": "T1.0-P1.0/original", "draws": 10, "ok": 5, "ok_share": 0.5},
        ),
        "code_curves": fill(
            CODE_REPORT_TABLES["code_curves"],
            *(curve | method | {"set": name, "estimate": 0.5} for name in (None, "a")),
            curve | lines | {"set": None, "comparison": "ceiling", "estimate": 0.5},
            curve | lines | {"set": None, "comparison": "floor", "estimate": 0.25},
        ),
        "code_augmentations": fill(
            CODE_REPORT_TABLES["code_augmentations"],
            changed | {"rate": "0.2", "nominal": 0.25, "mean_realised": 0.125},
            changed | {"rate": "0", "nominal": 0.0, "method": "synonym-published"},
        ),
        "code_paraphrases": fill(
            CODE_REPORT_TABLES["code_paraphrases"],
            *({"set": "a", "band": band, "used": 1} for band in ("low", "medium", "high")),
        ),
        "code_fits": fill(
            CODE_REPORT_TABLES["code_fits"],
            place | {"method": "keyboard", "level": "task", "estimate": 0.1, "converged": True},
        ),
    }


def check_code_study(tables: Tables) -> list[Check]:
    return check_code("s", tables, "study-s", shows_fits=True)


def persona_tables() -> Tables:
    place = {"study": "s", "model": "m", "temperature": "1.0", "top_p": "1.0"}
    number = {"mean": 0.5, "std_error": 0.1, "difference": 0.1, "accuracy": 0.5, "change": 0.1}
    tested = place | number | {"family_size": 1, "variant": "iterations", "factor": "persona"}
    return draw_tables("persona_draws") | {
        "persona_prompts": fill(
            PERSONA_REPORT_TABLES["persona_prompts"],
            *(
                {"study": "s", "task": task, "persona": who}
                | {"asked": 5, "attempts": 10, "used": 5, "flag_refusal": refused}
                for task in ("t", "u")
                for who, refused in (("a", 0), ("b", 1))
            ),
        ),
        "persona_separation": fill(
            PERSONA_REPORT_TABLES["persona_separation"],
            tested | {"measure": "tsed", "task": None, "first": None, "second": None},
        ),
        "persona_means": fill(
            PERSONA_REPORT_TABLES["persona_means"], tested | {"feature": "functions"}
        ),
        "persona_leakage": fill(
            PERSONA_REPORT_TABLES["persona_leakage"],
            tested | {"features": "tokens", "folds": "task", "family_size": 4},
        ),
        "persona_entities": fill(
            PERSONA_REPORT_TABLES["persona_entities"], {"jaccard": 0.5, "p_value": 0.5}
        ),
        "persona_replies": fill(
            PERSONA_REPORT_TABLES["persona_replies"],
            place | {"persona": "a", "cell": "T1.0-P1.0", "program_share": 0.5},
        ),
        "persona_dialogues": fill(
            PERSONA_REPORT_TABLES["persona_dialogues"],
            place | number | {"persona": None, "measure": "tsed", "n_prompts": 5},
        ),
    }


def features_of(prompts: int, tasks: int = 2) -> dict[str, pl.DataFrame]:
    """Features of a model whose personas `a` and `b` have a program for so many prompts a task."""
    rows = [
        {"temperature": "1.0", "top_p": "1.0", "task": f"t{task}", "persona": who}
        | {"reply": "program", "prompt_id": f"{task}{who}{number}"}
        for task in range(tasks)
        for who in ("a", "b")
        for number in range(prompts)
    ]
    return {"m": pl.DataFrame(rows)}


def check_persona_study(
    tables: Tables, features: dict[str, pl.DataFrame] | None = None, permutations: int = 999
) -> list[Check]:
    made = Separation(permutations=permutations, classifier_permutations=99)
    return check_personas("s", tables, {}, made, features or features_of(5), "study-s")


def raised(checks: list[Check]) -> set[str]:
    return {each.rule.key for each in checks if each.verdict == "alarm"}


def change(table: str, column: str, value: object, row: int = 0) -> Callable[[Tables], Tables]:
    """Give one row of a table another value in a column."""

    def apply(tables: Tables) -> Tables:
        frame = tables[table]
        values = frame[column].to_list()
        values[row] = value
        changed = pl.Series(column, values, frame.schema[column])
        return tables | {table: frame.with_columns(changed)}

    return apply


DRAW_CHANGES = {
    "determinism": ("identical_prompts", 9, 0),
    "identical": ("identical_prompts", 3, 1),
    "empty": ("empty", 6, 1),
    "truncated": ("truncated", 21, 1),
    "no_answer": ("no_answer", 6, 1),
    "error": ("error", 1, 1),
}


@pytest.mark.parametrize(
    ("table", "made", "check"),
    [
        ("draw_counts", group_tables, check_group_study),
        ("code_draws", code_tables, check_code_study),
        ("persona_draws", persona_tables, check_persona_study),
    ],
)
def test_a_study_at_every_threshold_raises_no_alarm_and_leaves_no_check_out(table, made, check):
    checks = check(made())
    assert raised(checks) == set()
    assert {each.verdict for each in checks} == {"ok"}


@pytest.mark.parametrize("key", DRAW_CHANGES)
@pytest.mark.parametrize(
    ("table", "made", "check"),
    [
        ("draw_counts", group_tables, check_group_study),
        ("code_draws", code_tables, check_code_study),
        ("persona_draws", persona_tables, check_persona_study),
    ],
)
def test_one_draw_or_prompt_more_raises_the_alarm_of_its_check_alone(table, made, check, key):
    column, value, row = DRAW_CHANGES[key]
    assert raised(check(change(table, column, value, row)(made()))) == {key}


@pytest.mark.parametrize(
    ("key", "changed"),
    [
        ("over_long", change("over_long", "over_long", 1)),
        ("few_texts", change("mean_cosine", "fewest_texts", 19)),
        ("failed_fits", change("fits", "converged", False, 0)),
        ("failed_further_fits", change("fits", "term", None, 1)),
    ],
)
def test_a_group_study_beyond_one_threshold_raises_that_alarm_alone(key, changed):
    assert raised(check_group_study(changed(group_tables()), calibrated=19)) == {key}


def test_fewer_texts_than_in_the_simulations_is_an_alarm():
    assert raised(check_group_study(group_tables(), calibrated=21)) == {"uncalibrated"}


def test_an_argument_that_the_chat_template_ignores_is_an_alarm():
    assert raised(check_group_study(group_tables(), ignored=1)) == {"ignored_arguments"}


@pytest.mark.parametrize(
    ("key", "changed"),
    [
        ("programs", change("code_extractions", "ok_share", 0.49)),
        ("few_tasks", change("code_curves", "n_tasks_asked", 9, 1)),
        ("lost_tasks", change("code_curves", "n_tasks", 4, 0)),
        ("ceiling_and_floor", change("code_curves", "estimate", 0.5, 3)),
        ("realised_rate", change("code_augmentations", "mean_realised", 0.12)),
        ("changed_at_rate_0", change("code_augmentations", "mean_realised", 0.01, 1)),
        ("paraphrases", change("code_paraphrases", "used", 0, 2)),
        ("failed_fits", change("code_fits", "estimate", None)),
    ],
)
def test_a_code_study_beyond_one_threshold_raises_that_alarm_alone(key, changed):
    assert raised(check_code_study(changed(code_tables()))) == {key}


@pytest.mark.parametrize(
    ("key", "changed"),
    [
        ("missing_prompts", change("persona_prompts", "missing", 1)),
        ("unusable_attempts", change("persona_prompts", "attempts", 11)),
        ("refused_attempts", change("persona_prompts", "flag_refusal", 1, 0)),
        ("repeated_prompts", change("persona_prompts", "used_repeated", 1)),
        ("shared_prompts", change("persona_prompts", "used_shared", 1)),
        ("holm", change("persona_leakage", "family_size", 5)),
        ("programs", change("persona_replies", "program_share", 0.49)),
        ("few_dialogues", change("persona_dialogues", "n_prompts", 4)),
        ("folds", change("persona_leakage", "folds", "iteration")),
        ("missing_numbers", change("persona_entities", "p_value", None)),
    ],
)
def test_a_persona_study_beyond_one_threshold_raises_that_alarm_alone(key, changed):
    assert raised(check_persona_study(changed(persona_tables()))) == {key}


def test_four_prompts_of_a_persona_are_few():
    tables = change("persona_prompts", "used", 4)(persona_tables())
    checks = {each.rule.key: each for each in check_persona_study(tables)}
    assert checks["few_prompts"].verdict == "alarm"
    assert (checks["few_prompts"].worst, checks["few_prompts"].count) == (
        4.0,
        "1 of 4 tasks × personas",
    )


def test_one_task_is_too_few():
    tables = persona_tables()
    alone = tables["persona_prompts"].filter(task="t")
    assert "few_tasks" in raised(check_persona_study(tables | {"persona_prompts": alone}))


def test_few_ways_to_deal_programs_are_told_with_the_model():
    # Two personas with three prompts each for one task: C(6, 3) / 2 = 10 ways that can differ.
    checks = check_persona_study(persona_tables(), features_of(3, tasks=1))
    assert raised(checks) == {"program_dealings", "holm"}
    by_key = {each.rule.key: each for each in checks}
    found = by_key["program_dealings"]
    assert (found.worst, found.model, found.setting) == (10.0, "m", "T1.0-P1.0")
    # The smallest p is 1 / 10, and of the family of 4 guesses by Holm 4 / 10.
    assert by_key["holm"].worst == pytest.approx(0.4)


def test_a_check_that_could_not_be_made_says_why_and_is_not_ok():
    tables = group_tables()
    tables["draw_counts"] = tables["draw_counts"].filter(pl.col("temperature") != "0")
    (first, *_) = check_group_study(tables)
    assert (first.verdict, first.reason) == ("not applicable", "temperature 0 is not in the grid")
    (row, *_) = arrange_diagnostics([first])["studies"][0]["rows"]
    assert row["verdict"] == "– not applicable: temperature 0 is not in the grid"
    assert not row["is_alarm"]


def test_a_rule_without_a_limit_is_not_applied():
    values = pl.DataFrame({"value": [1.0]})
    rule = Rule("k", "name", "counted", None)
    check = judge(rule, "s", "t", values, "no limit")
    assert (check.verdict, check.measured, check.reason) == ("not applicable", 0, "no limit")


@pytest.mark.parametrize(
    ("side", "beyond", "worst"),
    [("above", 1, 3.0), ("at least", 2, 3.0), ("below", 1, 1.0), ("at most", 2, 1.0)],
)
def test_each_side_of_a_limit_has_its_own_count_and_worst_value(side, beyond, worst):
    values = pl.DataFrame({"value": [2.0, 3.0, 1.0, None], "setting": ["b", "c", "a", "d"]})
    check = judge(Rule("k", "n", "c", 2.0, side=side, form="whole"), "s", "t", values, "")
    assert (check.measured, check.beyond, check.worst) == (3, beyond, worst)
    assert check.setting == {1.0: "a", 3.0: "c"}[worst]


def test_places_that_share_the_worst_value_are_counted_and_the_first_is_named():
    rule = Rule("k", "n", "c", 0.5)
    values = pl.DataFrame({"value": [0.1, 0.2, 0.2], "model": ["x", "y", "z"]})
    assert judge(rule, "s", "t", values, "").place == "y and 1 more"
    assert judge(rule, "s", "t", values[1:], "").place == "everywhere"
    assert judge(rule, "s", "t", values[:2], "").place == "y"


def test_the_summary_has_a_line_a_check_that_links_to_each_study():
    rule = Rule("empty", "empty draws", "share", 0.05)
    values = pl.DataFrame({"value": [0.1, 0.0]})
    checks = [judge(rule, study, "t", values, "") for study in ("one", "two words")]
    checks.append(judge(replace(rule, key="other"), "one", "t", values.clear(), "why"))
    (line,) = list_alarms(checks)
    assert line["name"] == "empty draws"
    assert [each["href"] for each in line["studies"]] == [
        "#diagnostics-one-empty",
        "#diagnostics-two-words-empty",
    ]
    assert line["studies"][0]["told"] == "above 5% in 1 of 2 settings"


def test_the_table_keeps_its_contract_and_the_thresholds(tmp_path):
    checks = [*check_group_study(group_tables()), *check_code_study(code_tables())]
    table = tabulate_checks(checks)
    assert dict(table.schema) == {name: each.dtype for name, each in DIAGNOSTICS.columns.items()}
    required = [name for name, each in DIAGNOSTICS.columns.items() if not each.nullable]
    assert not any(table[name].null_count() for name in required)
    write_tables({"diagnostics": table}, tmp_path)
    back = pl.read_csv(tmp_path / "diagnostics.csv")
    assert back.filter(check="truncated")["threshold"].to_list() == [0.2, 0.2]
    assert back["study"].len() == len(checks)


def test_places_of_several_models_are_called_so_and_a_value_that_is_no_number_is_left_out():
    rule = Rule("k", "a check", "what", 0.5)
    rows = {"model": ["a", "b", "b"], "setting": ["T0", "T0", "T1"]}
    two = judge(rule, "s", "t", pl.DataFrame(rows | {"value": [0.4, 0.6, float("nan")]}), "why")
    assert (two.count, two.worst) == ("1 of 2 models × settings", 0.6)
    one = judge(rule, "s", "t", pl.DataFrame(rows | {"value": [None, 0.6, 0.5]}), "why")
    assert one.count == "1 of 2 settings"
