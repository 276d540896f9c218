"""Tables, sentences, alarms and excerpts of studies of personas, against counts by hand."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from llm_variability.config_personas import Separation
from llm_variability.report.comparisons import at_setting
from llm_variability.report.personas import alarms, excerpts, portraits, statements
from llm_variability.report.personas.names import name_personas
from llm_variability.report.personas.rows import (
    tabulate_confusions,
    tabulate_contrasts,
    tabulate_leakage,
    tabulate_means,
    tabulate_overall,
    tabulate_replies,
    tabulate_topics,
    title_contrasts,
)
from llm_variability.report.personas.schemas import CAME_KINDS, PERSONA_SCHEMAS
from llm_variability.report.personas.tables import (
    collect_persona_tables,
    count_replies,
    count_rewritings,
    list_askers,
)
from llm_variability.report.summaries import read_tables, write_tables
from llm_variability.tables_personas import (
    ENTITIES,
    FEATURE_COLUMNS,
    FEATURES,
    REPLY_KINDS,
    REWRITINGS,
    SEVERAL,
)

inputs = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("persona_inputs.py"))))
AT_ONE = ("1.0", "1.0")
PROMPTS = 2 * 4 * 3 - 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    inputs.write_persona_results(folder)
    return folder


@pytest.fixture(scope="module")
def tables(folder) -> dict[str, pl.DataFrame]:
    given = inputs.list_table_inputs(folder)
    return collect_persona_tables(
        **{name.replace("-", "_"): [Path(each) for each in paths] for name, paths in given.items()}
    )


@pytest.fixture(scope="module")
def names(tables) -> dict[str, str]:
    return name_personas(tables["persona_prompts"])


def rewriting(**given) -> dict:
    row = {"task": "t", "persona": "teacher-male", "role": "teacher", "gender": "male"}
    row |= {"set": "s", "language": "python", "iteration": 0, "attempt": 0, "seed": 1}
    return row | {"status": "ok", "text": "x", "flags": "", "used": False, "sampled": False} | given


def test_tables_come_back_from_csv_as_they_were(tables, tmp_path):
    write_tables(tables, tmp_path)
    back = read_tables(sorted(tmp_path.glob("*.csv")), PERSONA_SCHEMAS)
    assert back.keys() == tables.keys() == PERSONA_SCHEMAS.keys()
    for name, table in tables.items():
        assert table.height, name
        assert_frame_equal(back[name], table)


def test_attempts_are_counted_by_task_persona_and_flag():
    rows = [
        rewriting(flags="meta cut"),
        rewriting(attempt=1, flags="repeated", used=True, sampled=True),
        rewriting(iteration=1, flags="shared refusal"),
    ]
    counted = count_rewritings(inputs.make_frame(REWRITINGS, rows), {"iterations": 3})
    (row,) = counted.to_dicts()
    assert (row["asked"], row["attempts"], row["used"], row["missing"]) == (3, 3, 1, 2)
    assert (row["flag_meta"], row["flag_cut"], row["flag_refusal"], row["flag_answer"]) == (
        1,
        1,
        1,
        0,
    )
    assert (row["used_repeated"], row["used_shared"], row["flag_shared"]) == (1, 0, 1)
    assert row["sampled"] == 1


def test_a_persona_that_gave_no_row_is_counted_as_missing_all():
    frame = inputs.make_frame(REWRITINGS, [rewriting(used=True)])
    made_by = {"iterations": 2, "personas": {"teacher-male": {}, "clerk-male": {}}, "tasks": {}}
    counted = count_rewritings(frame, made_by).select("persona", "attempts", "missing")
    assert counted.rows() == [("teacher-male", 1, 1), ("clerk-male", 0, 2)]
    assert list_askers(frame.clear(), {}).height == 0


def test_every_attempt_of_the_study_is_in_one_row(folder, tables):
    rewritings = pl.read_parquet(folder / "rewritings/personas.parquet")
    prompts = tables["persona_prompts"]
    assert prompts["attempts"].sum() == rewritings.height
    assert prompts["used"].sum() == PROMPTS and prompts["missing"].sum() == 1
    assert prompts.height == 2 * 4


def test_replies_are_counted_by_kind_with_prompts_that_have_no_program():
    row = {"temperature": "0", "persona": "p", "reply_words": 1, "tags": ""}
    rows = [
        row | {"prompt_id": "a", "replicate": 0, "reply": "program", "reply_lines": 8, "lines": 6},
        row | {"prompt_id": "a", "replicate": 1, "reply": "none", "reply_lines": 0},
        row | {"prompt_id": "b", "replicate": 0, "reply": "other_code", "reply_lines": 4},
        row | {"prompt_id": "b", "replicate": 1, "reply": "none", "reply_lines": 0},
    ]
    (told,) = count_replies(inputs.make_frame(FEATURES, rows, "persona")).to_dicts()
    assert (told["replies"], told["failed"], told["failed_share"]) == (4, 0, 0.0)
    assert (told["prompts"], told["prompts_without_program"], told["draws"]) == (2, 1, 4)
    assert (told["program"], told["other_code"], told["none"], told["invalid"]) == (1, 1, 2, 0)
    assert (told["none_share"], told["mean_reply_lines"], told["mean_lines"]) == (0.5, 3.0, 6.0)


def test_draws_without_a_reply_count_in_no_share_of_replies():
    row = {"temperature": "0", "persona": "p", "reply_words": 0, "tags": "", "prompt_id": "a"}
    failed = row | {"reply": "failed", "reply_lines": 0}
    rows = [
        row | {"replicate": 0, "reply": "program", "reply_lines": 8, "lines": 6},
        row | {"replicate": 1, "reply": "none", "reply_lines": 0},
        *({**failed, "replicate": 2 + at} for at in range(6)),
        *({**failed, "persona": "q", "replicate": at} for at in range(2)),
    ]
    counted = count_replies(inputs.make_frame(FEATURES, rows, "persona"))
    came, lost = counted.to_dicts()
    assert (came["draws"], came["replies"], came["failed"], came["failed_share"]) == (8, 2, 6, 0.75)
    assert (came["none_share"], came["program_share"], came["mean_reply_lines"]) == (0.5, 0.5, 4.0)
    assert (lost["draws"], lost["replies"], lost["failed_share"]) == (2, 0, 1.0)
    assert lost["none_share"] is None and lost["mean_reply_lines"] is None


def without_replies(replies: pl.DataFrame, persona: str) -> pl.DataFrame:
    """Let all draws of a persona fail."""
    is_lost = pl.col("persona") == persona
    kinds = [kind for kind in REPLY_KINDS if kind != "failed"]
    return replies.with_columns(
        *(pl.when(is_lost).then(0).otherwise(each).alias(each) for each in (*kinds, "replies")),
        *(pl.when(~is_lost).then(f"{each}_share").alias(f"{each}_share") for each in kinds),
        failed=pl.when(is_lost).then("draws").otherwise(0),
        failed_share=is_lost.cast(pl.Float64),
    )


def test_what_failed_is_told_beside_the_replies_and_raises_no_alarm_of_programs(tables, names):
    replies = without_replies(tables["persona_replies"], inputs.TEACHER)
    told = statements.describe_replies(replies)
    # The teacher has 5 prompts of 23, of 2 draws each by 2 models at 2 settings.
    assert told == (
        "Of 144 replies 100% are programs that parse. 40 draws of 184 brought no reply and count"
        " nowhere."
    )
    assert "Every reply holds code" in statements.describe_without_code(replies, AT_ONE, names)
    assert list(alarms.describe_failing_replies(replies, names)) == []
    left = statements.describe_left_out(tables | {"persona_replies": replies}, {})
    assert left[0].startswith("40 draws without a reply (refused by the server,")
    row = tabulate_replies(replies, names, one_model=False).rows[2]
    # Replies, five kinds, failed.
    assert [cell.text for cell in row[3:10]] == ["0", *["0"] * 5, "10"]
    lost = replies.filter(persona=inputs.TEACHER)
    assert statements.describe_replies(lost) == (
        "No reply came. 40 draws of 40 brought no reply and count nowhere."
    )


def test_replies_and_programs_of_a_persona_stand_in_one_row(tables):
    replies = tables["persona_replies"]
    assert replies.height == 2 * 2 * 4
    assert replies["draws"].sum() == 2 * 2 * 2 * PROMPTS
    # The teacher has two prompts for the bike shop; a second draw of each is words alone.
    assert replies.filter(persona=inputs.TEACHER)["none"].to_list() == [2] * 4
    assert replies["none"].sum() == 8
    assert replies.filter(persona="astrophysicist-male")["too_large"].to_list() == [1] * 4


def test_the_attempts_are_told_with_their_faults(tables):
    told = statements.describe_attempts(tables["persona_prompts"], "persona-model")
    # Four first attempts talked of the message; two for the missing prompt; one each that came.
    assert told == (
        "persona-model took each of 4 personas and put 2 tasks into that persona's words: 23 of 24"
        " prompts in 29 attempts. Faults of attempts, which may have several: talking of the"
        " rewriting 4, answering the task 1, refusing 1 and cut off 1."
    )
    clean = tables["persona_prompts"].with_columns(pl.selectors.starts_with("flag_") * 0)
    assert statements.describe_attempts(clean, None).endswith("Nothing was wrong with any of them.")


def test_replies_are_told_in_shares_that_add_up(tables):
    told = statements.describe_replies(tables["persona_replies"])
    assert told == "Of 184 replies 95.7% are programs that parse and 4.3% hold no code."
    assert statements.describe_replies(tables["persona_replies"].clear()) == "No draw was made."


def test_who_gets_no_code_is_told(tables, names):
    told = statements.describe_without_code(tables["persona_replies"], AT_ONE, names)
    # 2 of the teacher's 5 prompts x 2 draws of each model at a setting.
    shares = "english teacher 20%, junior engineer 0%, principal engineer 0% and astrophysicist 0%"
    assert told == (
        f"No code at all, of the replies to each persona: model-a: {shares}; model-b: {shares}."
    )
    none = tables["persona_replies"].with_columns(none=pl.lit(0, pl.Int64))
    assert "Every reply holds code" in statements.describe_without_code(none, AT_ONE, names)
    assert statements.describe_without_code(none.clear(), AT_ONE, names) == "There is no reply."


def test_no_code_is_told_of_the_setting_alone_and_of_each_model_apart(tables, names):
    here = (pl.col("temperature") == "1.0") & (pl.col("model") == "model-a")
    replies = tables["persona_replies"].with_columns(
        none=pl.when(here).then(0).otherwise("none"),
        none_share=pl.when(here).then(0.0).otherwise("none_share"),
    )
    told = statements.describe_without_code(replies, AT_ONE, names)
    assert "model-a: of nobody's; model-b: english teacher 20%," in told
    elsewhere = replies.with_columns(none=pl.when(temperature="0").then("none").otherwise(0))
    told = statements.describe_without_code(elsewhere, AT_ONE, names)
    assert told == "Every reply holds code, of whatever language."


def test_of_many_personas_those_with_most_and_fewest_are_told():
    shares = [0.25, 0.5, 0.0, 0.0, 0.1]
    replies = pl.DataFrame(
        {
            "model": ["m"] * 5,
            "temperature": ["1.0"] * 5,
            "top_p": ["1.0"] * 5,
            "persona": list("abcde"),
            "replies": [20] * 5,
            "none": [int(20 * share) for share in shares],
            "none_share": shares,
        }
    )
    told = statements.describe_without_code(replies, AT_ONE, {})
    assert told.endswith(": m: most b 50%, fewest 2 personas 0%, of 5 personas.")
    told = statements.describe_without_code(replies.filter(pl.col("persona") != "c"), AT_ONE, {})
    assert told.endswith(": m: b 50%, a 25%, e 10% and d 0%.")


def test_the_separation_is_counted_and_then_told_by_model(tables):
    told = statements.describe_separation(tables["persona_separation"], "tsed", AT_ONE)
    assert told[0] == (
        "Code for different personas is less alike than code for the same in 4 of 4 models ×"
        " settings (tsed); p < .05 in 2, after Holm in 2, prompts changing personas within tasks."
    )
    assert told[1] == (
        "model-a: two prompts of the same persona 0.60, of different ones 0.50; one prompt 0.70;"
        " difference 0.10 [0.05, 0.15], p = .001, after Holm .004."
    )
    assert told[2].startswith("model-b: ") and "p = .200, after Holm .800" in told[2]


def test_a_separation_the_other_way_round_is_not_told_as_less_alike(tables):
    reverse = tables["persona_separation"].with_columns(difference=-pl.col("difference"))
    (told, *_) = statements.describe_separation(reverse, "tsed", AT_ONE)
    assert "in 0 of 4" in told and "p < .05 in 0, after Holm in 0" in told
    assert told.endswith("more alike with p < .05 in 2.")


def test_a_separation_without_number_gives_its_reason(tables):
    none = tables["persona_separation"].with_columns(
        pl.lit(None, pl.Float64).alias("difference"),
        pl.lit(None, pl.Float64).alias("p_value"),
        reason=pl.lit("no two programs to compare"),
    )
    told = statements.describe_separation(none, "tsed", AT_ONE)
    assert told == [f"{model}: no two programs to compare." for model in ("model-a", "model-b")]


def test_roles_and_genders_have_sentences_of_their_own(tables):
    rows = tables["persona_separation"].with_columns(
        factor=pl.when(pl.col("model") == "model-a").then(pl.lit("gender")).otherwise("factor")
    )
    (first, second) = statements.describe_separation(rows, "tsed", AT_ONE, "gender")
    assert first.startswith("Code for different genders is less alike")
    assert second.startswith("model-a: two prompts of the same gender 0.60")


def test_the_pair_with_the_largest_difference_is_furthest(tables, names):
    told = statements.describe_furthest(tables["persona_separation"], "tsed", AT_ONE, names)
    assert told[0] == "Furthest apart: english teacher and astrophysicist with 2 of 2 models."
    # The last of six pairs has 0.02 x 6, p of 0.6 / 36.
    assert "furthest apart english teacher and astrophysicist (difference 0.12" in told[1]
    assert "p = .017" in told[1]
    assert told[1].endswith("nearest junior engineer and principal engineer (0.02).")
    assert statements.describe_furthest(tables["persona_separation"], "no", AT_ONE, names) == []


def test_nobody_is_furthest_apart_where_no_difference_is_above_0(tables, names):
    alike = tables["persona_separation"].with_columns(difference=-pl.col("difference"))
    told = statements.describe_furthest(alike, "tsed", AT_ONE, names)
    assert len(told) == 2
    assert told[0] == (
        "model-a: no two personas' code is less alike than that of each by itself (largest"
        " difference −0.02, junior engineer and principal engineer)."
    )


def test_the_matrix_is_told_by_its_diagonal_where_no_two_personas_have_a_number(tables, names):
    separation = tables["persona_separation"]
    told = statements.describe_matrix(separation, "tsed", AT_ONE, names)
    assert "model-a: most alike" in told
    first = next(iter(names))
    own = (pl.col("first") == first) & pl.col("second").is_null()
    bare = separation.with_columns(
        between=pl.lit(None, pl.Float64), within=pl.when(own).then(pl.lit(0.8))
    )
    told = statements.describe_matrix(bare, "tsed", AT_ONE, names)
    assert f"model-a: no number of two personas, of one by itself {names[first]} 0.80" in told
    none = bare.with_columns(within=pl.lit(None, pl.Float64))
    assert statements.describe_matrix(none, "tsed", AT_ONE, names).endswith(" No number.")


def test_tree_similarities_come_before_encoders():
    measures = ["all-MiniLM-L6-v2", "tsed-published", "tsed", "all-MiniLM-L6-v2"]
    ordered = statements.order_measures(measures)
    assert ordered == ["tsed", "tsed-published", "all-MiniLM-L6-v2"]
    assert statements.order_measures([]) == []


def test_features_that_differ_are_told_with_the_personas_at_their_ends(tables, names):
    (first, second) = statements.describe_code_features(tables["persona_means"], AT_ONE, names)
    assert first.startswith("model-a: of ") and second.startswith("model-b: of ")
    # Of 5 kinds of replies and 17 columns, all but type_hints have a test.
    assert f"of {len(CAME_KINDS) + len(FEATURE_COLUMNS) - 1} features of code that vary" in first
    assert " 2 differ between personas with p < .05, 2 after Holm: " in first
    # A spread of 10 standard errors before one of 6, at the same p.
    told = "calls of input (most english teacher 12.0, least junior engineer 2.00; p = .001"
    assert told in first and first.index("calls of input") < first.index("classes (most")
    assert "least english teacher 0.00" in first


def test_features_none_of_which_differs_are_told_so(tables, names):
    even = tables["persona_means"].with_columns(p_value=pl.lit(0.3))
    (first, _) = statements.describe_code_features(even, AT_ONE, names)
    assert first.startswith("model-a: none of ") and first.endswith("with p < .05.")
    told = statements.describe_features(even.clear(), names, "code")
    assert told == "No feature of code could be tested."


def test_the_amount_of_code_is_told_as_a_ratio(tables):
    told = statements.describe_amount(tables["persona_means"], AT_ONE)
    assert told.endswith(
        "model-b 60.0 and model-a 20.0; model-b writes 3.0 times as much as model-a."
    )
    one = tables["persona_means"].filter(model="model-a")
    assert "times" not in statements.describe_amount(one, AT_ONE)
    assert "is not known" in statements.describe_amount(one.clear(), AT_ONE)


def test_guesses_are_told_with_chance_and_permutations(tables, names):
    told = statements.describe_leakage(tables["persona_leakage"], AT_ONE, names)
    # model-b's accuracy is above the permuted mean too, but with p = .3.
    assert told[0].endswith(
        "at random with p < .05 in 4 of 8 models × settings × views, after Holm in 4."
    )
    assert told[1] == (
        "model-a: who asked is guessed from a program, each task held out in turn, with a balanced"
        " accuracy of 50% by features of its syntax (p = .005, after Holm .040; permuted 37.5% at"
        " most in 95% of cases) and 50% by its words (p = .005, after Holm .040; permuted 37.5% at"
        " most in 95% of cases); by chance, among 4 personas, it is 25%."
    )
    none = tables["persona_leakage"].with_columns(
        pl.lit(None, pl.Float64).alias("accuracy"), reason=pl.lit("too few programs")
    )
    told = statements.describe_leakage(none, AT_ONE, names)
    assert told == [
        f"{model}: who asked was not guessed by features of its syntax or its words: too few"
        " programs."
        for model in ("model-a", "model-b")
    ]


def test_views_that_nothing_was_guessed_by_are_told_in_a_sentence_of_their_own(tables, names):
    is_syntax = pl.col("features") == "syntax"
    leakage = tables["persona_leakage"].with_columns(
        accuracy=pl.when(~is_syntax).then("accuracy"),
        chance=pl.when(~is_syntax).then("chance"),
        reason=pl.when(is_syntax).then(pl.lit(f"left out: {inputs.TEACHER}, {inputs.TEACHER}-x")),
    )
    told = statements.describe_leakage(leakage, AT_ONE, names)[1]
    assert "with a balanced accuracy of 50% by its words (p = .005" in told
    assert told.endswith(
        "by chance, among 4 personas, it is 25%. Who asked was not guessed by features of its"
        f" syntax: left out: english teacher, {inputs.TEACHER}-x."
    )
    table = tabulate_leakage(leakage, names, False, "holm")
    assert f"left out: english teacher, {inputs.TEACHER}-x" in str(table.rows)


def test_personas_that_share_most_entities_are_told(tables, names):
    told = statements.describe_shared(tables["persona_entities"], names)
    assert told.startswith(
        "Most entities in common: english teacher and astrophysicist (12 of 40, 30%); fewest junior"
        " engineer and principal engineer (2 of 40, 5%)."
    )
    # p = .01 to .06, six tests.
    assert told.endswith("in 4 of 6 pairs of personas, after Holm in 0.")
    assert "No two personas" in statements.describe_shared(tables["persona_entities"].clear(), {})


def test_the_published_variant_is_parted_into_what_it_mixes(tables):
    (first, _) = statements.describe_published(tables["persona_separation"], "tsed", AT_ONE)
    # 0.7 - 0.5 is 0.1 between prompts of one persona and 0.1 between personas.
    assert "a gap of 0.20; with every iteration 0.10 lies between prompts of the same" in first
    assert first.endswith("persona already, and 0.10 between personas.")


def test_the_published_variant_says_what_it_lacks(tables):
    lacking = tables["persona_separation"].with_columns(same_prompt=pl.lit(None, pl.Float64))
    (first, _) = statements.describe_published(lacking, "tsed", AT_ONE)
    assert first == (
        "model-a: programs for different personas are alike by 0.50; no prompt has two programs, so"
        " how much of that is between draws of one prompt is not known."
    )
    none = lacking.with_columns(between=pl.lit(None, pl.Float64))
    (first, _) = statements.describe_published(none, "tsed", AT_ONE)
    assert first == "model-a: no two programs for different personas."


def test_dialogues_are_told_with_their_change(tables):
    (first, _) = statements.describe_dialogues(tables["persona_dialogues"], "tsed", AT_ONE, {})
    assert first == (
        "model-a: asked back in 23 of 46 dialogues, 0.50 exchanges each on average; programs at"
        " the end of dialogues, with or without an exchange, are alike to those drawn without a"
        " dialogue by 0.40, those among themselves by 0.70, over 23 prompts with both: change 0.30"
        " [0.20, 0.40]."
    )


def test_a_change_of_few_prompts_raises_an_alarm(tables):
    dialogues = tables["persona_dialogues"]
    assert list(alarms.describe_few_dialogues(dialogues)) == []
    few = dialogues.with_columns(
        n_prompts=pl.when(pl.col("model") == "model-b").then(1).otherwise(5)
    )
    (told,) = alarms.describe_few_dialogues(few)
    assert "over fewer than 5 prompts in 2 of 4 numbers of all personas" in told
    assert "(fewest 1: model-b, temperature 0, tsed)" in told
    none = few.with_columns(change=pl.lit(None, pl.Float64))
    assert list(alarms.describe_few_dialogues(none)) == []


def test_what_is_left_out_is_counted(tables):
    told = statements.describe_left_out(tables, {"prompts_cut": 1, "long_sentences_parted": 0})
    assert told == [
        "1 prompt that no attempt could be used for",
        "6 attempts that no prompt was made of, by their flags",
        "8 replies without code, not compared",
        "4 programs whose tree is too large, left out of the tree similarities",
        "1 prompt too long to be parsed whole",
    ]


def test_numbers_that_are_missing_are_counted_by_their_reason(tables):
    told = statements.count_missing(tables, {})
    # One feature of two models, two settings, four personas; the sampled variant is meant to lack.
    assert told == [("means of features", "no task in which every persona has", 16)]


@given(st.floats(-1, 1), st.sampled_from(["tests", "topic-1", "lines", "questions"]))
def test_a_value_is_written_with_its_sign_and_a_share_in_percent(value, feature):
    told = statements.show_value(feature, value)
    assert told.startswith("−") <= (value < 0)
    assert told.endswith("%") == (feature != "lines")
    number = float(told.strip("−<>%")) / (100 if feature != "lines" else 1)
    assert math.isclose(number, abs(value), abs_tol=0.0101)


def test_missing_prompts_raise_an_alarm_that_names_the_persona(tables, names):
    (told,) = alarms.describe_missing_prompts(tables["persona_prompts"], names)
    assert told == "fewer prompts than asked for of english teacher for brief/bike-shop (2 of 3)."
    none = tables["persona_prompts"].with_columns(
        pl.lit(0, pl.Int64).alias("used"), pl.col("asked").alias("missing")
    )
    (told,) = alarms.describe_missing_prompts(none, names)
    assert told.startswith("no usable prompt of junior engineer for brief/calculator,")
    assert "and 2 more: nothing is known" in told  # six of eight are named
    whole = tables["persona_prompts"].filter(missing=0)
    assert list(alarms.describe_missing_prompts(whole, names)) == []


def unusable(attempts: int, used: int, refused: int) -> pl.DataFrame:
    row = {"task": "t", "persona": "p", "attempts": attempts, "used": used, "missing": 0}
    return pl.DataFrame([row | {"flag_refusal": refused}])


def test_more_than_half_of_the_attempts_unusable_raises_an_alarm():
    assert list(alarms.describe_unusable(unusable(10, 5, 0), {}, "m")) == []
    (told,) = alarms.describe_unusable(unusable(11, 5, 0), {}, "m")
    assert told.startswith("m: more than 50% of the attempts at prompts could not be used (6 of 11")
    assert list(alarms.describe_unusable(unusable(0, 0, 0), {}, "m")) == []


def test_a_model_that_refuses_raises_an_alarm():
    assert list(alarms.describe_unusable(unusable(20, 19, 1), {}, None)) == []
    (told,) = alarms.describe_unusable(unusable(20, 18, 2), {}, None)
    assert "refuses to take a persona or speaks as a model in 2 of 20 attempts (10%" in told


def test_prompts_in_the_same_words_raise_an_alarm(tables):
    (told,) = alarms.describe_same_words(tables["persona_prompts"])
    assert told.startswith("3 prompts in the same words as an earlier one of the same persona")
    shared = tables["persona_prompts"].with_columns(
        used_repeated=pl.lit(0), used_shared=pl.lit(0) + (pl.col("task") == inputs.TASKS[0])
    )
    (told,) = alarms.describe_same_words(shared)
    assert told.startswith("4 prompts in the same words as one of another persona")


@pytest.mark.parametrize(
    ("used", "ways"),
    [
        # Two personas of two prompts: 4! / (2! 2!) / 2! labellings, names not told apart.
        ([2, 2], 3),
        ([5, 5], 126),
        # Four of two: 8! / 2!^4 / 4!.
        ([2, 2, 2, 2], 105),
        # Of two sizes: 5! / (3! 2!).
        ([3, 2], 10),
    ],
)
def test_the_ways_to_deal_prompts_are_those_of_the_closed_form(used, ways):
    prompts = pl.DataFrame({"task": ["t"] * len(used), "used": used})
    assert alarms.count_dealings(prompts) == ways
    twice = pl.concat([prompts, prompts.with_columns(task=pl.lit("u"))])
    assert alarms.count_dealings(twice) == ways**2


def few(used: int, tasks: int) -> pl.DataFrame:
    rows = [
        {"task": f"t{task}", "persona": persona, "used": used}
        for task in range(tasks)
        for persona in ("p", "q")
    ]
    return pl.DataFrame(rows)


def test_few_prompts_raise_an_alarm_with_the_smallest_possible_p():
    (told, one_task) = alarms.describe_few_prompts(few(2, 1), {}, 999)
    assert "fewer than 5 prompts of a persona for a task in 2 of 2 tasks × personas" in told
    assert told.endswith(
        "in 3 ways only: the smallest possible p of all personas together is .333."
    )
    assert one_task.startswith("one task:")
    (told,) = alarms.describe_few_prompts(few(4, 3), {}, 999)
    assert "smallest possible p" not in told  # 35 ** 3 ways
    assert list(alarms.describe_few_prompts(few(5, 2), {}, 999)) == []
    # 10 ** 2 ways are more than the 99 that are drawn.
    (told,) = alarms.describe_few_prompts(few(3, 2), {}, 99)
    assert told.endswith(
        "in 100 ways only, of which 99 are drawn: the smallest possible p of all personas together"
        " is .010."
    )


def with_programs(*used: int, asked: int = 3) -> pl.DataFrame:
    """Features of one setting and task: of each persona `asked` prompts, `used` with a program."""
    return pl.DataFrame(
        [
            {
                "temperature": "1.0",
                "top_p": "1.0",
                "task": "t",
                "persona": persona,
                "prompt_id": f"{persona}{prompt}",
                "reply": "program" if prompt < count and replicate else "none",
            }
            for persona, count in zip("pqr", used, strict=False)
            for prompt in range(asked)
            for replicate in range(3)
        ]
    )


def test_prompts_without_a_program_cannot_be_dealt_in_tests_of_code():
    asked = few(3, 1)  # 6! / (3! 3!) / 2 = 10 ways
    features = {"m": with_programs(3, 3), "n": with_programs(2, 2)}
    (told,) = alarms.describe_few_programs(features, asked, 999)
    # 4! / (2! 2!) / 2 ways
    assert told == (
        "of the code: few prompts have a program in 1 of 2 models × settings; fewest ways: n,"
        " temperature 1.0, top-p 1.0, where 4 prompts with a program can be dealt to personas in 3"
        " ways only: the smallest possible p of all personas together is .333."
    )
    (told,) = alarms.describe_few_programs({"m": with_programs(3, 0)}, asked, 999)
    assert told.endswith("in one way only: no test can tell anything.")
    assert list(alarms.describe_few_programs({"m": with_programs(3, 3)}, asked, 999)) == []
    # 4! / (2! 1! 1!) / 2 ways
    three = pl.DataFrame([{"task": "t", "persona": each, "used": 3} for each in "pqr"])
    (told,) = alarms.describe_few_programs({"m": with_programs(2, 1, 1)}, three, 999)
    assert told.endswith(
        "in 6 ways only: the smallest possible p of all personas together is .167."
    )


def test_too_few_permutations_for_the_family_raise_an_alarm(tables):
    enough = Separation(permutations=999, classifier_permutations=199)
    assert list(alarms.describe_unreachable(tables, enough)) == []
    # Pairs of personas are a family of 24 here, features of programs of 27; guesses of 8. The
    # families of 16, of tasks and of levels, are small enough.
    few = Separation(permutations=399, classifier_permutations=99)
    contrasts, features, guesses = alarms.describe_unreachable(tables, few)
    assert contrasts.startswith(
        "no p after Holm can be below .05, whatever the data, in pairs of personas, "
    )
    assert contrasts.count("(24 tests, at least .060)") == len(inputs.MEASURES)
    assert "16 tests" not in contrasts and "the smallest p of 399 permutations" in contrasts
    assert "features of programs (27 tests, at least .06" in features
    assert features.endswith("is .003. separation.permutations: 540 are enough.")
    assert "8 tests, at least .080" in guesses
    assert guesses.endswith("is .010. separation.classifier_permutations: 160 are enough.")


def test_fewer_than_half_of_the_replies_programs_raises_an_alarm(tables, names):
    replies = tables["persona_replies"]
    assert list(alarms.describe_failing_replies(replies, names)) == []
    half = replies.with_columns(program_share=pl.lit(0.5))
    assert list(alarms.describe_failing_replies(half, names)) == []
    is_worst = (pl.col("persona") == inputs.TEACHER) & (pl.col("temperature") == "0")
    failing = replies.with_columns(
        program_share=pl.when(is_worst & (pl.col("model") == "model-b")).then(0.4).otherwise(0.9)
    )
    (told,) = alarms.describe_failing_replies(failing, names)
    assert told.startswith("model-b: fewer than 50% of the replies are programs in 1 of 8 settings")
    assert "fewest for english teacher in T0 (40%; most others: no code)" in told


def test_a_classifier_that_knows_the_task_raises_an_alarm(tables):
    leakage = tables["persona_leakage"]
    assert list(alarms.describe_folds(leakage)) == []
    (told,) = alarms.describe_folds(leakage.with_columns(folds=pl.lit("iteration")))
    assert "iterations held out and not tasks" in told


def test_all_alarms_of_the_study_are_gathered(tables, names):
    given = (tables, names, "persona-model", Separation(), {})
    told = "\n".join(alarms.describe_persona_alarms(*given))
    assert len(told.splitlines()) == 3
    assert "fewer prompts than asked for" in told and "same words" in told and "rough" in told


def test_entities_are_distinctive_by_the_share_of_prompts():
    rows = [
        {"entity": "page", "persona": "a", "sentences": 9, "prompts": 4},
        {"entity": "page", "persona": "b", "sentences": 9, "prompts": 3},
        {"entity": "mark", "persona": "a", "sentences": 2, "prompts": 2},
        {"entity": "term", "persona": "a", "sentences": 3, "prompts": 2},
        {"entity": "code", "persona": "a", "sentences": 1, "prompts": 1},
        {"entity": "code", "persona": "b", "sentences": 4, "prompts": 4},
    ]
    counts = {"a": 4, "b": 5, "c": 5}
    found = excerpts.find_distinctive(inputs.make_frame(ENTITIES, rows), counts, "a")
    # page 1 - 0.3; term and mark 0.5 - 0, term in more sentences; code 0.25 against 0.4.
    assert [each.entity for each in found] == ["page", "term", "mark"]
    assert found[0].others == pytest.approx(0.3)
    assert found[0].describe() == "page (100%; others 30%)"


def test_features_far_from_the_median_of_the_others_are_outstanding(tables):
    at_one = tables["persona_means"].filter(at_setting(AT_ONE), model="model-a")
    found = excerpts.find_outstanding(at_one, inputs.TEACHER)
    assert [each.feature for each in found] == ["inputs", "classes"]
    assert found[0].distance == pytest.approx(10 / math.sqrt(4 / 3))
    assert found[0].describe() == "calls of input 12.0 (others 2.00)"
    # The teacher is far from all; that does not make the others far from each other.
    assert excerpts.find_outstanding(at_one, "principal-engineer-male") == []
    # Of one prompt there is no standard error, whatever those of the others are.
    is_teacher = pl.col("persona") == inputs.TEACHER
    of_one = at_one.with_columns(std_error=pl.when(~is_teacher).then("std_error"))
    assert excerpts.find_outstanding(of_one, inputs.TEACHER) == []
    why = "not known: too few prompts for standard errors"
    assert portraits.explain_none(of_one, inputs.TEACHER) == why
    others = portraits.explain_none(of_one, "principal-engineer-male")
    assert others == "nothing far from the others"


def test_the_sentence_with_most_entities_is_taken_of_each_prompt():
    texts = pl.DataFrame(
        {
            "task": ["t", "t", "u"],
            "iteration": ["0", "1", "0"],
            "text": [
                "Hello there. I press buttons on a page! Thanks.",
                "Nothing of it.",
                "One button.",
            ],
        }
    )
    words = [excerpts.Distinctive("page", 1, 0), excerpts.Distinctive("button", 1, 0)]
    found = excerpts.excerpt_entities(texts, words)
    assert [(each.text, each.where) for each in found] == [
        ("I press buttons on a page!", "t, iteration 0"),
        ("One button.", "u, iteration 0"),
    ]
    assert excerpts.excerpt_entities(texts, []) == []


def test_a_question_is_taken_where_questions_are_what_differs():
    texts = pl.DataFrame(
        {"task": ["t"], "iteration": ["0"], "text": ["I am new.\nCan you help? Thanks."]}
    )
    style = pl.DataFrame(
        {"task": ["t"], "iteration": ["0"], "feature": ["questions"], "value": [0.3]}
    )
    more = excerpts.Outstanding("questions", 0.3, 0.0, 5.0)
    (found,) = excerpts.excerpt_style(texts, style, [more])
    assert found.text == "Can you help?"
    fewer = excerpts.Outstanding("questions", 0.0, 0.3, -5.0)
    (found,) = excerpts.excerpt_style(texts, style, [fewer])
    assert found.text == "I am new."


def test_words_of_a_category_are_found_in_a_sentence():
    sign = excerpts.find_sentence_sign("user_interaction", more=True)
    assert sign is not None and sign.search("I see buttons")
    less = excerpts.find_sentence_sign("inputs_outputs_less_user_interaction", more=False)
    assert less is not None and less.pattern == sign.pattern
    assert excerpts.find_sentence_sign("words", more=True) is None
    assert excerpts.find_sentence_sign("hedges", more=False) is None


CODE = """import flask

class Till:
    def add(self, a: int) -> int:
        return a
till = Till()
"""
FIRST_FOUR = "import flask\nclass Till:\n    def add(self, a: int) -> int:\n        return a"


@pytest.mark.parametrize(
    ("feature", "more", "lines"),
    [
        ("classes", True, "class Till:"),
        ("web_framework", True, "import flask"),
        ("type_hints", True, "def add(self, a: int) -> int:"),
        ("inputs", True, FIRST_FOUR),
        ("classes", False, FIRST_FOUR),
    ],
)
def test_the_lines_that_show_a_feature_are_taken(feature, more, lines):
    assert excerpts.excerpt_lines(CODE, feature, more) == lines


@given(st.text(max_size=600), st.integers(1, 250))
def test_an_excerpt_has_no_invisible_character_and_a_bounded_length(text, characters):
    shown = excerpts.cut(text, characters)
    assert not set(shown) & {"\x00", "\u202e", "\u2067", "\x7f"}
    assert len(shown) <= 8 * characters + 2


def test_topics_have_a_row_each_with_words_and_weights(tables, names):
    grid = tabulate_topics(tables["persona_topics"], tables["persona_means"], names, "holm")
    assert [row[0].text for row in grid.rows] == ["topic 1", "topic 2"]
    assert [row[1].text for row in grid.rows] == [
        "class, test, input, return, error",
        "page, button, see, mark",
    ]
    assert [cell.text for cell in grid.rows[1][2:6]] == ["20%", "20%", "80%", "20%"]


def test_a_feature_without_a_mean_has_dashes_and_its_reason(tables, names):
    at_one = tables["persona_means"].filter(at_setting(AT_ONE), model="model-a")
    grid = tabulate_means(at_one, names, "unadjusted", "code", ["type_hints"])
    (row,) = grid.rows
    assert [cell.text for cell in row] == [
        "type hints",
        *["–"] * 5,
        "no task in which every persona has",
    ]


def test_the_p_of_a_feature_stands_there_though_the_first_persona_has_no_value(tables, names):
    at_one = tables["persona_means"].filter(at_setting(AT_ONE), model="model-a")
    is_first = pl.col("persona") == "junior-engineer-male"
    lacking = at_one.with_columns(
        pl.when(~is_first).then(each).alias(each)
        for each in ("mean", "ci_low", "ci_high", "p_value", "p_holm", "p_bh", "family_size")
    )
    (row,) = tabulate_means(lacking, names, "unadjusted", "code", ["inputs"]).rows
    whole = tabulate_means(at_one, names, "unadjusted", "code", ["inputs"]).rows[0]
    assert row[1].text == "–" and row[5] == whole[5] and ".001" in row[5].text


@pytest.mark.parametrize(
    ("feature", "shown"),
    [
        ("tests", "[0%, 100%]"),
        ("reply_none", "[0%, 100%]"),
        ("questions", "[0%, 100%]"),
        ("topic-1", "[0%, 100%]"),
        ("imperatives_less_questions", "[−4.6%, >99.9%]"),
        ("lines", "[−0.05, 1.02]"),
    ],
)
def test_the_interval_of_a_share_ends_where_shares_do(feature, shown):
    assert statements.show_bounds(feature, -0.046, 1.021) == shown
    assert statements.show_bounds(feature, None, 0.5) == ""


def test_the_map_counts_entities_of_no_one_persona_apart(names):
    entity_map = pl.DataFrame({"persona": [SEVERAL, inputs.TEACHER, SEVERAL]})
    told = statements.describe_map(entity_map, names)
    assert told.endswith(
        "has most of their sentences: english teacher 1; several personas alike 2."
    )
    assert statements.describe_map(entity_map[:1], names).endswith(": several personas alike 1.")
    assert "several" not in statements.describe_map(entity_map[1:2], names)


def test_contrasts_are_called_after_the_factors_that_are_there(tables):
    here = tables["persona_separation"].filter(at_setting(AT_ONE), measure="tsed", model="model-a")
    assert title_contrasts(here, "pair") == "Two personas at a time"
    assert title_contrasts(here, "level") == "Each persona against all others"
    others = [here.with_columns(factor=pl.lit(factor)) for factor in ("gender", "role")]
    whole = pl.concat([here, *others])
    assert title_contrasts(whole, "pair") == "Two personas, roles or genders at a time"
    assert title_contrasts(whole, "level") == "Each persona, role or gender against all others"


def test_guesses_stand_in_the_row_of_who_asked(tables, names):
    part = tables["persona_confusions"].filter(
        at_setting(AT_ONE), model="model-a", features="syntax"
    )
    grid = tabulate_confusions(part, names)
    assert [cell.text for cell in grid.rows[0]] == [
        "junior engineer",
        "6 (50%)",
        *["2 (16.7%)"] * 3,
    ]


def test_contrasts_of_several_factors_name_theirs(tables, names):
    here = tables["persona_separation"].filter(at_setting(AT_ONE), measure="tsed", model="model-a")
    gender = here.filter(statements.of_contrast()).with_columns(factor=pl.lit("gender"))
    both = tabulate_overall(pl.concat([here, gender]), "tsed", one_model=True, stars="holm")
    assert both.labels[:2] == ("Setting", "Factor")
    assert [row[1].text for row in both.rows] == ["persona", "gender"]
    one = tabulate_overall(here, "tsed", one_model=True, stars="holm")
    assert "Factor" not in one.labels and len(one.rows) == 1


def test_pairs_levels_and_tasks_stand_in_tables_of_their_own(tables, names):
    here = tables["persona_separation"].filter(at_setting(AT_ONE), measure="tsed", model="model-a")
    sizes = {
        kind: len(tabulate_contrasts(here, kind, names, one_model=True, stars="bh").rows)
        for kind in ("pair", "level", "task")
    }
    # Of four personas and two tasks; overall and the sampled variant are in none of them.
    assert sizes == {"pair": 6, "level": 4, "task": 2}
    assert here.height == 6 + 4 + 2 + 2
