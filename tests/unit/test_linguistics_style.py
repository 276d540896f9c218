"""Features of wording that need no parser: windows of words, clauses, the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.linguistics.parsing import Sentence, Token
from llm_variability.linguistics.prompts import Prompt
from llm_variability.linguistics.style import (
    FEATURES,
    WINDOW,
    is_imperative,
    is_question,
    measure_distinct,
    measure_style,
    tabulate_style,
)
from llm_variability.linguistics.words import read_words

WORDS = read_words()


def build(text: str) -> Sentence:
    """Make a sentence of form/TAG/POS/dep/head."""
    parts = (word.split("/") for word in text.split())
    tokens = (Token(form, form, tag, pos, dep, int(head)) for form, tag, pos, dep, head in parts)
    return Sentence(tuple(tokens))


def test_different_words_are_counted_in_windows_of_one_length() -> None:
    lemmas = ["a"] * (WINDOW - 1) + ["b", "c"]
    # The first window holds a and b, the second a, b and c.
    assert measure_distinct(lemmas) == pytest.approx((2 / WINDOW + 3 / WINDOW) / 2)
    assert measure_distinct(lemmas[: WINDOW - 1]) is None


@given(st.integers(1, 5))
def test_a_text_said_again_has_as_many_different_words(times: int) -> None:
    lemmas = [str(i) for i in range(WINDOW)]
    assert measure_distinct(lemmas * times) == 1


def test_clipped_endings_and_marks_are_no_words() -> None:
    sentence = build(
        "i/PRP/PRON/nsubj/1 'm/VBP/AUX/ROOT/1 o'brien/NNP/PROPN/attr/1 -/:/PUNCT/punct/1"
        " n't/RB/PART/neg/1 42/CD/NUM/nummod/1"
    )
    assert sentence.words == 3


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("sort/VB/VERB/ROOT/0 it/PRP/PRON/dobj/0", True),
        ("do/VBP/AUX/aux/2 not/RB/PART/neg/2 sort/VB/VERB/ROOT/2 it/PRP/PRON/dobj/2", True),
        ("they/PRP/PRON/nsubj/1 sort/VBP/VERB/ROOT/1 it/PRP/PRON/dobj/1", False),
        ("to/TO/PART/aux/1 sort/VB/VERB/ROOT/1 it/PRP/PRON/dobj/1", False),
        ("can/MD/AUX/aux/1 sort/VB/VERB/ROOT/1 it/PRP/PRON/dobj/1", False),
        ("sorted/VBN/VERB/ROOT/0 lists/NNS/NOUN/dobj/0", False),
        ("sort/VB/VERB/ROOT/0 it/PRP/PRON/dobj/0 ?/./PUNCT/punct/0", False),
        # The verb taken for a noun: a determiner or a known opening tells, a preposition does not.
        ("plan/NN/NOUN/ROOT/0 the/DT/DET/det/2 route/NN/NOUN/appos/0", True),
        ("plan/NN/NOUN/compound/1 routes/NNS/NOUN/ROOT/1", False),
        ("store/NN/NOUN/compound/1 routes/NNS/NOUN/ROOT/1", True),
        ("store/NN/NOUN/ROOT/0 of/IN/ADP/prep/0 routes/NNS/NOUN/pobj/1", False),
        ("store/NN/NOUN/compound/1 staff/NN/NOUN/nsubj/2 leave/VBP/VERB/ROOT/2", False),
    ],
)
def test_a_command_is_a_bare_verb_without_a_subject(text: str, commands: bool) -> None:
    assert is_imperative(build(text), WORDS.openings) == commands


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("is/VBZ/AUX/ROOT/0 it/PRP/PRON/nsubj/0 red/JJ/ADJ/acomp/0", True),
        ("it/PRP/PRON/nsubj/1 is/VBZ/AUX/ROOT/1 red/JJ/ADJ/acomp/1", False),
        ("please/UH/INTJ/intj/3 could/MD/AUX/aux/3 you/PRP/PRON/nsubj/3 go/VB/VERB/ROOT/3", True),
        ("who/WP/PRON/nsubj/1 knows/VBZ/VERB/ROOT/1", True),
        (
            "what/WP/PRON/dobj/2 i/PRP/PRON/nsubj/2 need/VBP/VERB/csubj/3 is/VBZ/AUX/ROOT/3"
            " rest/NN/NOUN/attr/3",
            False,
        ),
        ("?/./PUNCT/ROOT/0 word/NN/NOUN/dep/0", True),
    ],
)
def test_a_question_has_its_mark_or_its_word_order(text: str, asks: bool) -> None:
    assert is_question(build(text)) == asks


def test_a_prompt_without_a_word_has_counts_of_none_and_no_rates() -> None:
    measured = measure_style([], WORDS)
    assert list(measured) == list(FEATURES)
    assert {name for name, value in measured.items() if value is not None} == {
        "words",
        "sentences",
    }
    assert measured["words"] == measured["sentences"] == 0


def test_every_feature_of_a_prompt_has_a_row() -> None:
    sentence = build("sort/VB/VERB/ROOT/0 files/NNS/NOUN/dobj/0")
    prompt = Prompt("brief/calculator", "a-male", "a", "male", "id", "3", [sentence])
    table = tabulate_style([prompt], WORDS)
    assert table["feature"].to_list() == list(FEATURES)
    assert table.select(
        "task", "persona", "role", "gender", "prompt_id", "iteration"
    ).unique().rows() == [("brief/calculator", "a-male", "a", "male", "id", "3")]
    assert table.filter(feature="imperatives")["value"].to_list() == [1]


def test_the_documentation_names_every_feature() -> None:
    text = (Path(__file__).parents[2] / "docs/linguistics.md").read_text(encoding="utf-8")
    assert set(FEATURES) <= set(re.findall(r"`(\w+)`", text))
