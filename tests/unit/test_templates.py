"""The messages a prompt becomes, and the date a chat template inserts."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from transformers.utils.chat_template_utils import _compile_jinja_template

from llm_variability.draws.templates import (
    fix_date,
    make_messages,
    read_chat_template,
    read_history,
)

SYSTEM, USER = {"role": "system", "content": "S"}, {"role": "user", "content": "Q"}


def test_the_policy_decides_what_becomes_of_the_system_prompt() -> None:
    assert make_messages("S", "Q", "keep") == (SYSTEM, USER)
    assert make_messages("S", "Q", "merge") == ({"role": "user", "content": "S\n\nQ"},)
    assert make_messages("S", "Q", "omit") == (USER,)


@pytest.mark.parametrize("policy", ["keep", "merge", "omit"])
def test_without_a_system_prompt_there_is_one_turn(policy: str) -> None:
    assert make_messages(None, "Q", policy) == (USER,)


SAID = ({"role": "user", "content": "U"}, {"role": "assistant", "content": "A?"})


def test_what_was_said_stands_between_system_prompt_and_prompt() -> None:
    assert make_messages("S", "Q", "keep", SAID) == (SYSTEM, *SAID, USER)
    assert make_messages("S", "Q", "omit", SAID) == (*SAID, USER)
    assert make_messages(None, "Q", "keep", SAID) == (*SAID, USER)


def test_a_system_prompt_is_merged_into_the_first_user_turn() -> None:
    first = {"role": "user", "content": "S\n\nU"}
    assert make_messages("S", "Q", "merge", SAID) == (first, SAID[1], USER)


def test_a_history_is_read_as_it_was_written() -> None:
    assert read_history(json.dumps(SAID * 2)) == SAID * 2
    assert read_history(json.dumps([{**turn, "name": "x"} for turn in SAID])) == SAID
    assert read_history("[]") == read_history(None) == ()


@pytest.mark.parametrize(
    "history",
    [
        "",
        "hello",
        "null",
        "{}x",
        '"text"',
        '["text"]',
        "[1]",
        json.dumps(SAID[:1]),
        json.dumps(SAID[::-1]),
        json.dumps([SYSTEM, SAID[1]]),
        json.dumps([SAID[0], {"role": "assistant", "content": None}]),
        json.dumps([SAID[0], {"role": "assistant"}]),
        json.dumps([{"role": ["user"], "content": ""}, SAID[1]]),
    ],
)
def test_what_is_no_history_is_refused_in_one_line(history: str) -> None:
    with pytest.raises(ValueError, match="^history: .*; allowed: a JSON list") as told:
        read_history(history)
    assert "\n" not in str(told.value)


# How templates in the field ask for today's date.
DATED = {
    "as Llama does": (
        '{%- if strftime_now is defined %}{%- set day = strftime_now("%d %b %Y") %}'
        '{%- else %}{%- set day = "26 Jul 2024" %}{%- endif %}Today Date: {{ day }}',
        "Today Date: 29 Feb 2024",
    ),
    "as Granite does": (
        "Today's Date: {{ strftime_now('%B %d, %Y') }}.",
        "Today's Date: February 29, 2024.",
    ),
    "as GPT-OSS does, in a macro": (
        '{%- macro say() -%}Date: {{ strftime_now("%Y-%m-%d") }}{%- endmacro -%}{{ say() }}',
        "Date: 2024-02-29",
    ),
    "in two formats": ("{{ strftime_now('%A') }} {{strftime_now( \"%d/%m\" )}}", "Thursday 29/02"),
    "in a format made up on the way": (
        "{% set form = '%' ~ 'Y' %}{{ strftime_now(form) }}",
        "2024-02-29",
    ),
    "after white space": ("\n  {{ strftime_now('%Y') }}", "\n  2024"),
}


@pytest.mark.parametrize("case", DATED)
def test_a_template_inserts_the_fixed_date(case: str) -> None:
    template, expected = DATED[case]
    fixed = fix_date(template, "2024-02-29")
    assert fixed is not None
    assert _compile_jinja_template(fixed).render() == expected


@pytest.mark.parametrize("case", [case for case in DATED if "made up" not in case])
def test_only_the_day_differs_from_the_template_itself(case: str) -> None:
    template, _ = DATED[case]
    today = datetime.date.today()
    fixed = fix_date(template, today.isoformat())
    assert fixed is not None
    if today == datetime.date.today():
        plain = _compile_jinja_template(template).render()
        assert _compile_jinja_template(fixed).render() == plain


def test_a_template_without_a_date_is_left_alone() -> None:
    assert fix_date("{{ messages }}", "2024-02-29") is None


def test_a_template_is_read_from_its_own_file_first(tmp_path: Path) -> None:
    settings = tmp_path / "tokenizer_config.json"
    settings.write_text(json.dumps({"chat_template": "old"}))
    assert read_chat_template(tmp_path) == "old"
    (tmp_path / "chat_template.jinja").write_text("new")
    assert read_chat_template(tmp_path) == "new"


def test_of_named_templates_the_default_is_read(tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert read_chat_template(tmp_path) == "d"


def test_a_model_may_have_no_template(tmp_path: Path) -> None:
    assert read_chat_template(tmp_path) is None
