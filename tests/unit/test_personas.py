"""Personas: their file, what a model is asked, what comes back, the prompts made of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.config import ConfigError, Settings, Study, validate
from llm_variability.config_personas import FLAGS_LEFT_OUT, Personas
from llm_variability.personas.flags import FLAGS, find_flags, fold_words, read_message
from llm_variability.personas.requests import (
    DESIGN,
    ask_for_rewriting,
    round_seed,
    tabulate_requests,
)
from llm_variability.personas.rewritings import list_missing, read_rounds, sample_prompts
from llm_variability.stimuli.persona_file import Persona, read_personas
from llm_variability.stimuli.personas import DESIGN as PROMPTS_DESIGN
from llm_variability.stimuli.personas import render_persona_prompts
from llm_variability.stimuli.tasks import read_task_sets
from llm_variability.tables import DRAWS, STIMULI, read_metadata, read_table, write_table
from llm_variability.tables_personas import REWRITINGS

HOME = Path(__file__).parents[2]
FILE = HOME / "resources/personas.yaml"
TASKS = HOME / "resources/tasks"
SETS: dict[str, list[str] | None] = {"brief": None}
TASK = "Write code to make a calculator."


def personas(**changes: Any) -> list[Persona]:
    return read_personas(FILE, Personas(model="any", **changes))


# -------------------------------------------------------------------------------- the file


def test_the_four_roles_of_the_paper_are_there_and_of_one_gender_unless_asked_for() -> None:
    found = personas()
    assert [each.name for each in found] == [
        "junior-engineer-male",
        "principal-engineer-male",
        "english-teacher-male",
        "astrophysicist-male",
    ]
    both = personas(genders=["female", "nonbinary"])
    assert len(both) == 8
    assert len({each.first_name for each in both}) == 8


@pytest.mark.parametrize("role", range(4))
def test_nothing_but_name_and_noun_differs_between_genders(role: int) -> None:
    genders = ["male", "female", "nonbinary"]
    told = [personas(genders=[gender])[role] for gender in genders]
    bare = {
        each.describe().replace(f"You are {each.first_name}, a {each.noun}.", "") for each in told
    }
    assert len(bare) == 1
    words = f" {bare.pop().lower()} ".replace(".", " ").replace(",", " ").split()
    assert not {"he", "she", "his", "her", "him", "hers", "man", "woman"} & set(words)


def changed_file(tmp_path: Path, change: Any) -> Path:
    values = yaml.safe_load(FILE.read_text())
    change(values)
    path = tmp_path / "personas.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def remove_background(values: dict[str, Any]) -> None:
    del values["roles"]["english-teacher"]["background"]


def blank_speech(values: dict[str, Any]) -> None:
    values["roles"]["english-teacher"]["speech"] = "  "


def keep_one_role(values: dict[str, Any]) -> None:
    values["roles"] = {"astrophysicist": values["roles"]["astrophysicist"]}


def forget_a_name(values: dict[str, Any]) -> None:
    del values["roles"]["astrophysicist"]["names"]["male"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (remove_background, "roles.english-teacher.background: is missing. Allowed: text"),
        (blank_speech, "roles.english-teacher.speech: is blank. Allowed: text"),
        (keep_one_role, "1 persona, which there is none to compare with. Allowed: at least two"),
        (
            forget_a_name,
            "roles.astrophysicist.names: has no name for 'male'. Allowed: one",
        ),
        (lambda values: values["roles"]["astrophysicist"].update(age=40), "age: unknown key."),
    ],
)
def test_a_mistake_in_the_file_is_told_in_one_line(tmp_path: Path, change: Any, told: str) -> None:
    path = changed_file(tmp_path, change)
    with pytest.raises(ConfigError) as error:
        read_personas(path, Personas(model="any"))
    assert len(str(error.value).splitlines()) == 1
    assert str(error.value).startswith(f"{path}: ")
    assert told in str(error.value)


def test_two_personas_that_would_have_one_name_are_refused(tmp_path: Path) -> None:
    def collide(values: dict[str, Any]) -> None:
        role = values["roles"]["astrophysicist"] | {"names": {"binary": "A", "non-binary": "B"}}
        values["genders"] = {"binary": "man", "non-binary": "person"}
        values["roles"] = {"eng": role, "eng-non": role}

    path = changed_file(tmp_path, collide)
    with pytest.raises(
        ConfigError, match="are both called eng-non-binary. Allowed: names of roles"
    ):
        read_personas(path, Personas(model="any", genders=["binary", "non-binary"]))


def test_a_role_or_gender_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="roles: 'chef' is not there. Allowed: junior-engineer, "):
        personas(roles=["chef", "astrophysicist"])
    with pytest.raises(ConfigError, match="genders: 'none' is not there. Allowed: male, female, "):
        personas(genders=["none"])


# ------------------------------------------------------------------------------ the settings


def study(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "personas",
        "stimuli": str(TASKS),
        "tasks": SETS,
        "personas": {"model": "one"},
        **changes,
    }


def settings(**changes: Any) -> dict[str, Any]:
    return {
        "models": {"one": {"package": "a", "max_model_len": 600}},
        "encoders": {"e": {"package": "b"}},
        "grid": {"temperature": [0], "top_p": [1.0]},
        "studies": {"personas": study(**changes)},
    }


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"personas": None},
            "personas: is missing. Allowed: a mapping with at least the key",
        ),
        ({"personas": {"model": "two"}}, "personas.model: 'two' is no model. Allowed: one"),
        (
            {"personas": {"model": "one", "max_new_tokens": 600}},
            "personas.max_new_tokens: with the reasoning, 600 tokens do not fit",
        ),
        (
            {"dialogue": {"max_new_tokens": 600}},
            "dialogue.max_new_tokens: with the reasoning, 600 tokens do not fit",
        ),
        ({"personas": {"model": "one", "iterations": 1}}, "iterations: 1 is not allowed. Allowed:"),
        (
            {"personas": {"model": "one", "temperature": 0}},
            "temperature: 0 is not above 0.",
        ),
        (
            {"personas": {"model": "one", "genders": []}},
            "genders: [] is not allowed. Allowed:",
        ),
        ({"personas": {"model": "one", "roles": ["a", "a"]}}, "roles: one is given twice. Allowed"),
        ({"kind": "code"}, "the key personas needs kind: personas; this study is of kind code"),
        ({"tasks": None}, "tasks: is missing. Allowed: a mapping from names of sets to lists"),
    ],
)
def test_a_mistake_in_the_settings_is_told_in_one_line(changes: Any, told: str) -> None:
    values = settings(**changes)
    with pytest.raises(ConfigError) as error:
        validate(Settings, values, [("my.yaml", values)])
    assert len(str(error.value).splitlines()) == 1
    assert told in str(error.value)


# ----------------------------------------------------------------------------- what is asked


def test_the_request_tells_the_persona_and_the_task_as_they_are() -> None:
    for persona in personas():
        request = ask_for_rewriting(persona, TASK)
        assert request.startswith(f"You are {persona.first_name}, a man. ")
        for part in ("background", "education", "skills", "speech"):
            assert getattr(persona.told, part) in request
        assert request.count(TASK) == 1


def test_the_first_round_asks_for_every_iteration_and_a_later_one_for_what_is_lacking() -> None:
    tasks, who = read_task_sets(TASKS, SETS), personas()
    missing = list_missing(tasks, who, 5)
    table = tabulate_requests(tasks, who, missing)
    assert table.height == 3 * 4
    assert table["prompt_id"].n_unique() == 12
    assert set(table["replicates"]) == {5}
    missing = {key: [] for key in missing} | {("brief/accounting", who[2].name): [1, 4]}
    (row,) = tabulate_requests(tasks, who, missing).iter_rows(named=True)
    assert (row["task"], row["persona"]) == ("brief/accounting", "english-teacher-male")
    assert (row["replicates"], row["greedy_replicates"]) == (2, 2)


def test_each_round_has_a_seed_of_its_own_and_the_first_that_of_the_study() -> None:
    seeds = [round_seed(7, number) for number in range(20)]
    assert seeds[0] == 7
    assert len(set(seeds)) == 20
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seeds != [round_seed(8, number) for number in range(20)]


# ------------------------------------------------------------------------------ what came back

TEACHER = personas()[2]


def faults(text: str) -> tuple[str, ...]:
    """What is wrong with a message, whether or not it names the task's words."""
    flags = find_flags(text, TASK, TEACHER, cut=False)
    return tuple(flag for flag in flags if flag != "adrift")


FINE = [
    "Hello, I was wondering whether a computer could be made to work like a pocket calculator?"
    " I would press a number, then plus, then another number, and see the sum on the screen.",
    "I need a Python class Calculator with add, subtract, multiply and divide. Division by zero"
    " should raise an exception. Inputs are floats, the output is a float. Please add unit tests.",
    "Requirements: 1. A calculator service behind a REST interface. 2. Deployed in containers."
    " 3. Horizontal scaling. Out of scope: a user interface.",
    "Please write a script with NumPy which evaluates expressions for arrays of fluxes in Jansky.",
    "To be honest I am not sure what I want, but my pupils should be able to add up their marks.",
    "To create a quiz mark calculator I would like you to use what you know. I can't provide the"
    " exact layout yet. My teacher friends can use it too.",
    "Select an operation from a menu, then print the message to stderr. No language model needed.",
    "Show the prompt for each number that the user types, and the message in the window.",
    "Could you make me something that adds numbers? I can't do it myself. Of course it should be"
    " easy to use, and the message it shows should be friendly.",
]


@pytest.mark.parametrize("text", FINE)
def test_a_message_as_a_persona_would_write_it_has_no_flag(text: str) -> None:
    assert faults(text) == ()


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("", ("empty",)),
        ("I want this:\n```python\nprint(1)\n```", ("answer",)),
        ("I want\ndef add(a, b):\n    return a + b", ("answer",)),
        (
            "To make a calculator in Python, you can follow this: install it.",
            ("answer",),
        ),
        ("In order to create a calculator you will need a function.", ("answer",)),
        ("Here is a simple program for the calculator that was asked for.", ("answer",)),
        ("Sure! I want a program that adds numbers.", ("meta",)),
        ("Rewritten request: I want a program that adds numbers.", ("meta",)),
        ("I want a calculator. This is paraphrased from the task.", ("meta",)),
        ("I'm thrilled to be your assistant! I want a calculator.", ("meta",)),
        ("I would love to help you create a calculator.", ("meta",)),
        ("I am a computer program that assists others.", ("refusal",)),
        ("I want this: \nSELECT name FROM bikes", ("answer",)),
        ("I'm a teacher who wants a calculator.", ("persona",)),
        ("I am a rather old teacher and want a calculator.", ("persona",)),
        ("I run the drama club and mark a hundred essays with a calculator.", ("persona",)),
        ("My name is Stephen and I want a calculator.", ("persona",)),
        ("As an English teacher I want a calculator.", ("persona",)),
        ("The persona would like a calculator.", ("persona",)),
        ("I'm sorry, I want to stay out of this.", ("refusal",)),
        ("As an AI, I have no need of calculators.", ("refusal",)),
        ("I cannot help with that.", ("refusal",)),
        ("write  code to make a Calculator", ("identical",)),
        ("Sure, I'm Stephen. I'm sorry!", ("meta", "persona", "refusal")),
    ],
)
def test_what_is_no_such_message_is_flagged(text: str, flags: tuple[str, ...]) -> None:
    assert faults(text) == flags


@pytest.mark.parametrize(
    ("text", "task", "is_adrift"),
    [
        ("I want a program that computes factorials.", TASK, True),
        ("Could I have a little Calculator?", TASK, False),
        ("Something that calculates for me.", TASK, False),
        ("Keep track of what we sell.", "Write code for a database for an online bike shop.", True),
        (
            "A place for our bikes' sizes.",
            "Write code for a database for an online bike shop.",
            False,
        ),
        ("Anything.", "Write code and make the program.", False),
    ],
)
def test_a_message_without_a_word_of_the_task_is_adrift(
    text: str, task: str, is_adrift: bool
) -> None:
    assert ("adrift" in find_flags(text, task, TEACHER, cut=False)) == is_adrift


@given(st.text(max_size=300), st.booleans())
def test_any_text_gets_flags_that_are_known_and_in_order(text: str, cut: bool) -> None:
    flags = find_flags(read_message(text), TASK, TEACHER, cut)
    assert [flag for flag in FLAGS if flag in flags] == list(flags)
    assert ("cut" in flags) == (cut and flags != ("empty",))


def test_a_long_hostile_text_takes_no_time() -> None:
    for text in ("To make " * 20_000, "here is a " * 20_000, '"' * 100_000, "\0\n" * 50_000):
        find_flags(read_message(text), TASK, TEACHER, cut=False)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ('  "Add numbers."\n', "Add numbers."),
        ("'Add numbers.'", "Add numbers."),
        ('"Add" and "sum" is what I want', '"Add" and "sum" is what I want'),
        ('"One" or "two"', '"One" or "two"'),
        ("\N{LEFT DOUBLE QUOTATION MARK}Add.\N{RIGHT DOUBLE QUOTATION MARK}", "Add."),
        ('"', '"'),
    ],
)
def test_one_pair_of_quotes_around_a_message_goes(answer: str, text: str) -> None:
    assert read_message(answer) == text


def test_words_are_compared_without_case_blanks_and_full_stop() -> None:
    assert fold_words(" Add  the\nNumbers. ") == fold_words("add the numbers")


# ----------------------------------------------------------------------------------- rounds


def told(flags: str) -> str:
    """Flags of a text of these tests, all of which are adrift unless they are empty."""
    return flags.replace("adrift", "").strip().replace("  ", " ")


def draws_of(persona: str, texts: list[str | None], task: str = "calculator") -> pl.DataFrame:
    by_name = {each.name: each for each in personas()}
    rows = [
        {
            "task": f"brief/{task}",
            "set": "brief",
            "language": "python",
            "persona": persona,
            "role": by_name[persona].role,
            "gender": "male",
            "prompt_id": f"{task}-{persona}",
            "replicate": number,
            "seed": number,
            "text": text,
            "raw": text,
            "status": "empty" if text is None else "ok",
            "finish_reason": "stop",
        }
        for number, text in enumerate(texts)
    ]
    types = {name: column.dtype for name, column in DRAWS.columns.items()}
    return pl.DataFrame(rows, schema={**dict.fromkeys(DESIGN.columns, pl.String), **types})


TEACHES, STUDIES = "english-teacher-male", "astrophysicist-male"


def read_teacher(*rounds: list[str | None], iterations: int = 3) -> tuple[pl.DataFrame, list[int]]:
    tasks = read_task_sets(TASKS, {"brief": ["calculator"]})
    tables = [draws_of(TEACHES, texts) for texts in rounds]
    table, missing = read_rounds(tables, tasks, personas(), iterations, FLAGS_LEFT_OUT)
    return table, missing["brief/calculator", TEACHES]


def test_the_nth_answer_of_a_round_is_for_the_nth_iteration_that_is_lacking() -> None:
    table, missing = read_teacher(["Sure! No.", "Add numbers.", None], ["As an AI, no.", "Sum up."])
    rows = table.select("iteration", "attempt", "flags", "used").rows()
    assert [(*row[:2], told(row[2]), row[3]) for row in rows] == [
        (0, 0, "meta", False),
        (0, 1, "refusal", False),
        (1, 0, "", True),
        (2, 0, "empty", False),
        (2, 1, "", True),
    ]
    assert missing == [0]


def test_an_answer_beyond_what_is_lacking_is_not_read() -> None:
    table, missing = read_teacher(["Add.", "Sum.", "Plus."], ["More.", "Still more."])
    assert table.height == 3
    assert missing == []


def test_the_same_words_again_are_told_and_used_all_the_same() -> None:
    tasks = read_task_sets(TASKS, {"brief": ["calculator"]})
    both = pl.concat([draws_of(TEACHES, ["Add.", "add"]), draws_of(STUDIES, ["ADD.", "Fluxes."])])
    table, _ = read_rounds([both], tasks, personas(), 2, FLAGS_LEFT_OUT)
    rows = table.sort("persona", descending=True).select("persona", "iteration", "flags").rows()
    # Read by number of the draw: both first ones, then both second ones.
    assert [(*row[:2], told(row[2])) for row in rows] == [
        (TEACHES, 0, ""),
        (TEACHES, 1, "repeated shared"),
        (STUDIES, 0, "shared"),
        (STUDIES, 1, ""),
    ]
    assert table["used"].all()


def test_flags_that_the_settings_allow_are_told_and_used() -> None:
    tasks = read_task_sets(TASKS, {"brief": ["calculator"]})
    table, missing = read_rounds(
        [draws_of(TEACHES, ["Sure! Add.", None])], tasks, personas(), 2, ["answer"]
    )
    assert [told(flags) for flags in table["flags"]] == ["meta", "empty"]
    assert table["used"].to_list() == [True, False]
    assert missing["brief/calculator", TEACHES] == [1]


def rewritten(texts: int = 5) -> pl.DataFrame:
    tasks = read_task_sets(TASKS, SETS)
    drawn = [
        draws_of(persona.name, [f"{persona.name} {number}" for number in range(texts)], task)
        for task in ("calculator", "bike-shop", "accounting")
        for persona in personas()
    ]
    table, _ = read_rounds([pl.concat(drawn)], tasks, personas(), texts, ["answer"])
    return table


def test_one_prompt_of_each_persona_and_task_is_sampled_and_the_seed_says_which() -> None:
    table = sample_prompts(rewritten(), 1)
    counts = table.group_by("task", "persona").agg(pl.col("sampled").sum())
    assert counts.height == 12
    assert set(counts["sampled"]) == {1}
    assert table.equals(sample_prompts(rewritten(), 1))
    chosen = {seed: tuple(sample_prompts(rewritten(), seed)["sampled"]) for seed in range(5)}
    assert len(set(chosen.values())) == 5


def test_every_iteration_is_as_likely_to_be_sampled() -> None:
    counts = [0] * 5
    for seed in range(100):
        for iteration in sample_prompts(rewritten(), seed).filter("sampled")["iteration"]:
            counts[iteration] += 1
    expected = 100 * 12 / 5
    # chi square of 4 degrees of freedom is above 18.5 once in a thousand
    assert sum((count - expected) ** 2 / expected for count in counts) < 18.5


# ------------------------------------------------------------------------------- the prompts


def test_every_used_rewriting_becomes_a_prompt_with_the_frame_around_it() -> None:
    asked = Study.model_validate(study(frame={"postfix": "In Python."}, draws=4, greedy_draws=1))
    table, facts = render_persona_prompts(TASKS, asked, sample_prompts(rewritten(), 1))
    assert table.height == 60
    assert table["prompt_id"].n_unique() == 60
    assert table["prompt"].str.ends_with("\n\nIn Python.").all()
    assert set(table["replicates"]) == {4}
    assert set(table["greedy_replicates"]) == {1}
    assert table.filter(sampled="yes").height == 12
    assert facts["sets"]["brief"]["tasks"] == 3


def test_the_same_words_of_two_personas_are_two_prompts() -> None:
    tasks = read_task_sets(TASKS, {"brief": ["calculator"]})
    both = pl.concat([draws_of(TEACHES, ["Add."]), draws_of(STUDIES, ["Add."])])
    found, _ = read_rounds([both], tasks, personas(), 2, [])
    table, _ = render_persona_prompts(TASKS, Study.model_validate(study()), found)
    assert table["prompt"].n_unique() == 1
    assert table["prompt_id"].n_unique() == 2


def test_an_outline_has_every_prompt_that_will_be_asked_for() -> None:
    asked = Study.model_validate(study(personas={"model": "one", "iterations": 3}))
    table, _ = render_persona_prompts(TASKS, asked, None)
    assert table.height == 3 * 4 * 3


# ------------------------------------------------------------------------------ the commands


def run(*arguments: object) -> None:
    command = [sys.executable, "-m", "llm_variability.personas", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HOME / "workflow")
    assert done.returncode == 0, done.stderr


def test_the_commands_ask_read_and_ask_again(tmp_path: Path) -> None:
    wanted = Personas(model="one", iterations=2).model_dump_json()
    common = ["--study", "s", "--tasks-folder", TASKS, "--tasks", '{"brief": ["calculator"]}']
    common += ["--personas", FILE, "--settings", wanted]
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    run("request", *common, "--output", first)
    assert read_table(first, STIMULI)["replicates"].to_list() == [2, 2, 2, 2]
    answers = {each.name: ["Add.", "Sum."] for each in personas()}
    answers[TEACHES] = ["Sure! Add.", "As an AI."]
    drawn = pl.concat([draws_of(name, list(texts)) for name, texts in answers.items()])
    facts = {"model": "one", "identity": {"seed": 1}, "design": DESIGN.to_json()}
    write_table(drawn, tmp_path / "draws.parquet", DRAWS, facts)
    run("request", *common, "--draws", tmp_path / "draws.parquet", "--output", second)
    asked = read_table(second, STIMULI)
    assert asked.select("persona", "replicates").rows() == [(TEACHES, 2)]
    output = tmp_path / "rewritings.parquet"
    run("read", *common, "--draws", tmp_path / "draws.parquet", "--seed", 1, "--output", output)
    table, metadata = read_table(output, REWRITINGS), read_metadata(output)
    assert table["used"].sum() == 6
    assert metadata["missing"] == {f"brief/calculator, {TEACHES}": [0, 1]}
    assert metadata["model"] == "one"
    assert set(metadata["personas"]) == set(answers)
    assert json.dumps(metadata).count("You are Stephen") == 1
    assert PROMPTS_DESIGN.columns[0] == "task"
