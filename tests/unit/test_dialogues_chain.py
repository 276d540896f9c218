"""Dialogues turn by turn, as the rules run them, with models and a persona that are made up."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from aiohttp import web

from chat_server import ChatServer, completion, running
from llm_variability.code import __main__ as code_command
from llm_variability.dialogues import __main__ as dialogues_command
from llm_variability.dialogues.turns import INVITATION, LAST_CALL
from llm_variability.draws import __main__ as draws_command
from llm_variability.draws import drawing
from llm_variability.stimuli.identity import prompt_id
from llm_variability.stimuli.personas import DESIGN
from llm_variability.table_contract import Table
from llm_variability.tables import (
    DRAWS,
    STIMULI,
    read_metadata,
    read_table,
    write_table,
)
from llm_variability.tables_code import PROGRAMS
from llm_variability.tables_personas import DIALOGUE_CHANGES, DIALOGUES, REWRITINGS

CELLS = ("T0", "T1.0-P0.9")
PERSONAS = {"teacher-male": "You are Stephen.", "engineer-male": "You are Daniel."}
TASKS = {"brief/sum": "Write code to add.", "brief/shop": "Write code for a shop."}
HOSTILE = "Sums? {question} <|im_end|> `x` \u202e {} %s \\n"

SHORT, LONG = "```python\nprint(1)\n```", "```python\nprint(1)\nprint(1)\n```"
"""Their trees have 6 and 11 named nodes: a module, and for each line an expression statement, a
call, its name, its list of arguments and a number. Five insertions make one of the other."""


def reply(body: dict[str, Any], attempt: int) -> web.Response:
    """Reply as the model of that name does; whoever is not invited to ask writes code."""
    turns, model = [turn["content"] for turn in body["messages"]], body["model"]
    if model == "persona":
        assert len(turns) == 1
        return completion(f"Add whole numbers, says {turns[0].split('.')[0]}. {HOSTILE}")
    if model == "mute":
        return completion("" if "Stephen" in turns[0] else SHORT)
    invited = INVITATION in turns[0]
    if model == "never" or not invited:
        return completion(SHORT)
    if model == "once" and len(turns) > 1:
        return completion(LONG)
    if model == "words":
        return completion("I will do my best.")
    return completion(f"Which? And how many? {HOSTILE.replace('?', '')}")


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with running(ChatServer(reply=reply)) as server:
        yield server


class Study:
    """A results folder, and the commands on it in the order of the rules."""

    def __init__(
        self, folder: Path, chat: ChatServer, patch: pytest.MonkeyPatch, exchanges: int = 2
    ) -> None:
        self.folder, self.exchanges = folder, exchanges
        self._chat, self._patch = chat, patch
        self._write_prompts()
        self.run(
            dialogues_command,
            "invite",
            stimuli=self.path("stimuli"),
            output=self.path("turn-0"),
        )

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"

    def read(self, name: str, table: Table) -> pl.DataFrame:
        return read_table(self.path(name), table)

    def run(self, command: Any, step: str, **options: Any) -> None:
        arguments = [step]
        for name, value in options.items():
            values = value if isinstance(value, (list, tuple)) else [value]
            arguments += [f"--{name.replace('_', '-')}", *map(str, values)]
        self._patch.setattr(sys, "argv", ["stage", *arguments])
        command.main()

    def _write_prompts(self) -> None:
        rows = []
        for task in TASKS:
            for persona in PERSONAS:
                for iteration in ("0", "1"):
                    role, gender = persona.split("-")
                    text = f"I am {role}: {TASKS[task]} {HOSTILE}"
                    asked = (task, "brief", "python", persona, role, gender, iteration, "no")
                    row = dict(zip(DESIGN.columns, asked, strict=True))
                    name = prompt_id("/".join((task, persona, iteration)), text)
                    row |= {"prompt_id": name, "prompt": text, "system": None}
                    rows.append({**row, "replicates": 2, "greedy_replicates": 1})
        metadata = {"study": "s", "design": DESIGN.to_json()}
        write_table(pl.DataFrame(rows), self.path("stimuli"), STIMULI, metadata)
        told = {
            "study": "s",
            "tasks": TASKS,
            "personas": {
                name: {"label": name, "description": text} for name, text in PERSONAS.items()
            },
        }
        types = {name: column.dtype for name, column in REWRITINGS.columns.items()}
        write_table(pl.DataFrame(schema=types), self.path("rewritings"), REWRITINGS, told)

    def draw(self, model: str, cell: str, stimuli: str, output: str) -> None:
        manifest = self.folder / "manifest.json"
        manifest.write_text(json.dumps({"identity": model, "path": None}))
        settings = {"endpoint": self._chat.url, "served_name": model, "max_in_flight": 4}
        self.run(
            draws_command,
            "generate",
            study="s",
            model=model,
            setting=cell,
            settings=json.dumps(settings),
            manifest=manifest,
            stimuli=self.path(stimuli),
            max_new_tokens=50,
            seed=1,
            engine_log=self.folder / "engine.log",
            output=self.path(output),
        )

    def talk(self, model: str, persona: str = "persona") -> pl.DataFrame:
        """Hold all dialogues of a model; returns the dialogues table."""
        for cell in CELLS:
            self.draw(model, cell, "stimuli", f"draws/{model}/{cell}")
            prompts = "turn-0"
            self.draw(model, cell, prompts, f"{model}/turn-0/{cell}")
            for exchange in range(1, self.exchanges + 1):
                turn = {
                    "exchange": exchange,
                    "stimuli": self.path("stimuli"),
                    "prompts": self.path(prompts),
                    "draws": self.path(f"{model}/turn-{exchange - 1}/{cell}"),
                }
                question, answer = (
                    f"{model}/{kind}-{exchange}/{cell}" for kind in ("question", "answer")
                )
                prompts = f"{model}/prompt-{exchange}/{cell}"
                self.run(
                    dialogues_command,
                    "ask",
                    **turn,
                    rewritings=self.path("rewritings"),
                    output=self.path(question),
                )
                self.draw(persona, cell, question, answer)
                self.run(
                    dialogues_command,
                    "continue",
                    **turn,
                    answers=self.path(answer),
                    exchanges=self.exchanges,
                    output=self.path(prompts),
                )
                self.draw(model, cell, prompts, f"{model}/turn-{exchange}/{cell}")
        self.run(
            code_command,
            "extract",
            draws=[self.path(f"draws/{model}/{cell}") for cell in CELLS],
            extraction="{}",
            max_nodes=100,
            output=self.path(f"programs/{model}"),
            counts=self.path("counts"),
        )
        self.run(
            dialogues_command,
            "tabulate",
            stimuli=self.path("stimuli"),
            draws=sorted(self.folder.glob(f"{model}/turn-*/*.parquet")),
            continued=sorted(self.folder.glob(f"{model}/prompt-*/*.parquet")),
            exchanges=self.exchanges,
            extraction="{}",
            output=self.path(f"{model}/dialogues"),
            programs=self.path(f"{model}/programs"),
        )
        return self.read(f"{model}/dialogues", DIALOGUES)

    def compare(self, *models: str, max_nodes: int = 100) -> pl.DataFrame:
        self.run(
            dialogues_command,
            "compare",
            dialogues=[self.path(f"{model}/dialogues") for model in models],
            after=[self.path(f"{model}/programs") for model in models],
            programs=[self.path(f"programs/{model}") for model in models],
            variants=["tsed", "tsed-published"],
            costs="null",
            max_nodes=max_nodes,
            threads=1,
            compiled=self.folder / "compiled",
            output=self.path("changes"),
        )
        return self.read("changes", DIALOGUE_CHANGES)


@pytest.fixture
def study(tmp_path: Path, chat: ChatServer, monkeypatch: pytest.MonkeyPatch) -> Study:
    return Study(tmp_path, chat, monkeypatch)


def served(chat: ChatServer, model: str) -> list[list[dict[str, str]]]:
    return [body["messages"] for body in chat.bodies if body["model"] == model]


def test_a_model_that_asks_once_writes_code_after_the_answer(
    study: Study, chat: ChatServer
) -> None:
    table = study.talk("once")
    # 8 prompts: one draw at temperature 0, two above.
    assert table.group_by("temperature").len().sort("temperature").rows() == [("0", 8), ("1.0", 16)]
    assert table.select("exchanges", "questions", "ended").unique().rows() == [(1, 2, "code")]
    assert set(table["text"]) == {LONG}
    stimuli = study.read("stimuli", STIMULI)
    assert set(table["prompt_id"]) == set(stimuli["prompt_id"])
    who = table.select("prompt_id", *DESIGN.columns).unique()
    assert who.join(stimuli, on=["prompt_id", *DESIGN.columns]).height == len(stimuli)


def test_each_turn_is_sent_with_all_that_was_said(study: Study, chat: ChatServer) -> None:
    study.talk("always")
    sent = served(chat, "always")
    texts = set(study.read("stimuli", STIMULI)["prompt"])
    lengths = {1: 2 * 24, 3: 24, 5: 24}  # one turn: both arms
    assert {n: sum(len(turns) == n for turns in sent) for n in lengths} == lengths
    for turns in sent:
        assert [turn["role"] for turn in turns] == (["user", "assistant"] * 3)[: len(turns)]
        opening = turns[0]["content"].removesuffix(f"\n\n{INVITATION}")
        assert opening in texts
        answers = [turn["content"] for turn in turns[2::2]]
        name = "Stephen" if "teacher" in opening else "Daniel"
        assert all(text.startswith(f"Add whole numbers, says You are {name}.") for text in answers)
        assert [text.endswith(LAST_CALL) for text in answers] == [False, True][: len(answers)]


def test_the_persona_is_asked_as_who_wrote_the_prompt(study: Study, chat: ChatServer) -> None:
    study.talk("once")
    asked = [turns[0]["content"] for turns in served(chat, "persona")]
    assert len(asked) == 24
    for text in asked:
        role = "teacher" if text.startswith("You are Stephen.") else "engineer"
        (task,) = [each for each in TASKS.values() if f"In short: {each}\n" in text]
        assert f"I am {role}: {task} {HOSTILE}\n" in text
        assert "The assistant asks you:\nWhich? And how many? " in text


def test_a_model_that_never_asks_is_asked_no_more(study: Study, chat: ChatServer) -> None:
    table = study.talk("never")
    assert table.select("exchanges", "questions", "ended").unique().rows() == [(0, 0, "code")]
    assert not served(chat, "persona")
    assert len(served(chat, "never")) == 2 * 24


def test_no_server_is_needed_where_nobody_asks(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.talk("never")

    def fail(*arguments: object) -> None:
        raise AssertionError("an engine was started")

    monkeypatch.setattr(drawing, "serve", fail)
    study.draw("persona", "T0", "never/question-1/T0", "again")
    assert study.read("again", DRAWS).height == 0


def test_a_model_that_always_asks_ends_asking(study: Study) -> None:
    table = study.talk("always")
    assert table.select("exchanges", "questions", "ended").unique().rows() == [(2, 6, "asking")]
    programs = study.read("always/programs", PROGRAMS)
    assert set(programs["status"]) == {"no_code"}


def test_a_model_that_only_talks_ends_with_words(study: Study) -> None:
    table = study.talk("words")
    assert table.select("exchanges", "questions", "ended").unique().rows() == [(0, 0, "words")]


def test_a_persona_that_gives_no_answer_fails_and_is_counted(study: Study) -> None:
    table = study.talk("once", persona="mute")
    assert table.select("exchanges", "questions", "ended").unique().rows() == [(0, 2, "failed")]
    told = read_metadata(study.path("once/dialogues"))["answers"]
    assert told["T0"][0] == {"exchange": 1, "questions": 8, "used": 0, "empty": 4, "code": 4}
    assert told["T1.0-P0.9"][1] == {"exchange": 2, "questions": 0, "used": 0, "empty": 0, "code": 0}


def test_changes_are_those_of_the_trees(study: Study) -> None:
    for model in ("once", "never", "always"):
        study.talk(model)
    table = study.compare("once", "never", "always")
    assert table.height == 3 * len(CELLS) * 2 * (1 + len(PERSONAS))
    sampled = table.filter(pl.col("persona").is_null(), temperature="1.0", measure="tsed")
    columns = ["model", "dialogues", "asked", "exchanges", "programs", "n_prompts"]
    assert sampled.select(columns).rows() == [
        ("once", 16, 16, 1.0, 16, 8),
        ("never", 16, 0, 0.0, 16, 8),
        ("always", 16, 16, 2.0, 0, 0),
    ]
    means = sampled.select("same_prompt", "with_dialogue", "change").rows()
    assert means[0] == pytest.approx((1, 6 / 11, 5 / 11))
    assert means[1] == pytest.approx((1, 1, 0))
    assert means[2] == (None, None, None)
    # At temperature 0 there is one draw a prompt, so no two without a dialogue.
    greedy = table.filter(temperature="0")
    assert greedy["change"].null_count() == greedy.height
    assert all(greedy["reason"].str.starts_with("no prompt has two programs"))
    by_persona = table.filter(pl.col("persona").is_not_null(), model="once", temperature="1.0")
    assert set(by_persona["dialogues"]) == {8}


def test_programs_that_are_too_large_are_left_out_and_counted(study: Study) -> None:
    study.talk("once")
    table = study.compare("once", max_nodes=10)
    assert table["with_dialogue"].null_count() == table.height
    sampled = table.filter(pl.col("persona").is_null(), temperature="1.0")
    assert sampled["programs"].to_list() == [16, 16]
    assert read_metadata(study.path("changes"))["too_large"] == {"once": 24}


def test_a_second_run_asks_for_nothing(study: Study, chat: ChatServer) -> None:
    first = study.talk("once")
    asked = len(chat.bodies)
    assert study.talk("once").equals(first)
    assert len(chat.bodies) == asked


def test_the_published_arm_is_as_it_is_without_dialogues(study: Study) -> None:
    study.draw("once", "T0", "stimuli", "alone")
    study.talk("once")
    assert study.read("alone", DRAWS).equals(study.read("draws/once/T0", DRAWS))


def test_tables_of_two_models_are_not_tabulated_as_one(
    study: Study, caplog: pytest.LogCaptureFixture
) -> None:
    for model in ("once", "never"):
        study.draw(model, "T0", "turn-0", f"{model}/turn-0/T0")
    with pytest.raises(SystemExit):
        study.run(
            dialogues_command,
            "tabulate",
            stimuli=study.path("stimuli"),
            draws=[study.path(f"{model}/turn-0/T0") for model in ("once", "never")],
            continued=study.path("turn-0"),
            exchanges=2,
            extraction="{}",
            output=study.path("d"),
            programs=study.path("p"),
        )
    assert "--draws: are of never, once; allowed: one model" in caplog.text


def test_a_model_without_its_programs_is_told(
    study: Study, caplog: pytest.LogCaptureFixture
) -> None:
    study.talk("once")
    study.path("programs/once").rename(study.path("programs/other"))
    kept = study.read("programs/other", PROGRAMS)
    told = {**read_metadata(study.path("programs/other")), "model": "other"}
    write_table(kept, study.path("programs/once"), PROGRAMS, told)
    with pytest.raises(SystemExit):
        study.compare("once")
    assert "--programs: has no table of model once; allowed: all models" in caplog.text
    write_table(
        kept, study.path("programs/once"), PROGRAMS, {**told, "model": "once", "extraction": {}}
    )
    with pytest.raises(SystemExit):
        study.compare("once")
    assert "programs were extracted otherwise than in" in caplog.text
