"""What is taken away from a text, what the parser is asked, and what it recognises."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_variability.config import ConfigError
from llm_variability.linguistics import parsing
from llm_variability.linguistics.entities import find_entities
from llm_variability.linguistics.parsing import (
    LONGEST_RUN,
    LONGEST_SENTENCE,
    LONGEST_TEXT,
    Parsed,
    clean_text,
    load_parser,
    parse_texts,
)
from llm_variability.linguistics.style import is_imperative, is_question, measure_style
from llm_variability.linguistics.words import Words, read_words

if TYPE_CHECKING:
    from spacy.language import Language

COMMANDS, QUESTIONS, STATEMENTS = "commands", "questions", "statements"

RULES = {
    COMMANDS: """
        Write a Python function that takes two numbers as inputs and returns their sum.
        Handle division by zero gracefully.
        Use pandas to read the CSV file.
        Please create a database for an online bike shop.
        Don't use external libraries.
        Then print the total of each month.
        Store orders in PostgreSQL and expose a REST API.
        Document every public function.
        Let me know if you need details.
        Show the answer when the user presses the equals button.
        Support addition, subtraction, multiplication and division.
    """,
    QUESTIONS: """
        Could you please help me make a program that mimics a basic calculator?
        Is it possible to have the computer write up a set of financial reports?
        How would I start this
        Do I need to install anything
        Who can see the prices
        Whose prices are used
        Maybe it could also show the sum at the bottom?
    """,
    STATEMENTS: """
        I need a script that reads data from two files.
        I'm not sure whether it is possible, but maybe there is a screen with buttons.
        What I need is a simple calculator.
        When the user clicks a button, the number appears.
        I was wondering whether you could help me with that.
        Inputs: two numbers and an operator.
        To keep it simple, no graphics are needed.
        Users enter numbers and operators.
    """,
}
"""Sentences with which the rules were made: all must be told right."""

UNSEEN = {
    COMMANDS: """
        Create a Calculator class with methods for the four basic operations.
        Design a relational schema for products, customers and orders.
        Add comments so that I can follow the code.
        Follow PEP 8 and use type hints.
        Raise an exception when the divisor is zero.
        Compute the mean and the standard deviation of each column.
        Please explain what each part does.
        Do not hard-code any file names.
        Load the transactions from a CSV file with pandas.
        Group the sales by month and sum them.
        Format all amounts with two decimals.
        Deploy the service to a cloud provider with Docker.
        Build a command line tool that generates monthly accounting reports.
        Generate a balance sheet and an income statement.
        Separate the data layer from the business logic.
        Assume that the input file has a header.
        Avoid global variables.
        Propagate the uncertainties through every operation.
        Partition the orders table by date.
        Cache frequent queries.
        Implement logging, monitoring and alerting.
        Test each function with pytest.
        Name the columns in plain English.
        Also write a short README.
        Expose the operations through a REST interface.
        Write a script that turns a spreadsheet of expenses into a report.
        Make it possible to undo the last step.
        Round all results to four significant digits.
        Set up a database for a bike shop that sells over the internet.
        Model customers, bikes, orders and payments as tables.
        Index the columns that are searched most.
        Encrypt passwords before they are stored.
        Sort the bikes by price.
        Check that the user has typed a number.
        Give the window a title.
        Read the spectra from a FITS file and fit a Gaussian.
        Tell me how to start it.
        Wrap the logic in a class named Ledger.
        Expect malformed rows and skip them.
        Commit after every step.
        Ask the user for two numbers.
        Print a friendly message if the input is wrong.
        Have the program wait for a key.
        Break the problem into small functions.
        Run the job every night.
        Save the chart as a PNG file.
        Never store card numbers.
        Aggregate the transactions per account.
        Search by brand, size or colour.
        Process large files in chunks.
    """,
    QUESTIONS: """
        Can the computer keep a list of all our bicycles?
        Could it add up the marks at the end of each row
        Is there some kind of page where I could type in the numbers?
        Would you be able to write something that does my sums?
        Which library would you use?
        Will it also work on an old laptop
        What do I have to press to get the answer?
        Are the reports printed automatically
        How many bikes can it hold?
        Why does the total not match
        Could the answer stay on the screen until I clear it?
        Might there be a simpler way?
        Does it need the internet
        What would the first page look like?
        Should I send you my list of bikes?
        Where do I type the numbers
        Can it be printed on one sheet of paper?
        Am I asking for too much?
        Have you got an idea how this could be done?
    """,
    STATEMENTS: """
        I would like a little program that adds and subtracts numbers.
        We need a database that stores bikes, customers and orders.
        The system shall support at least ten thousand concurrent users.
        Reports are generated at the end of each quarter.
        All functions should have docstrings.
        It would be wonderful if the numbers were big enough to read.
        Whatever you suggest is fine with me.
        How it looks does not matter to me.
        The calculator should work with arrays as well as with scalars.
        Out of scope: the graphical interface.
        Perhaps the computer could show a picture of each bike.
        Data are stored as FITS files in one folder.
        This is for my own research and runs once.
        Each customer has a name, an address and a password.
        If a customer buys two bikes, the second one is cheaper.
        I wonder if a computer could do my accounts.
        The tool reads a ledger and writes three statements.
        There should be a big green button for equals.
        Tests cover every branch.
        I have a folder with two hundred files.
        Authentication is handled by another team.
        You can use any library that you like.
        My pupils would use it in class.
        A bike has a brand, a size and a price.
        Latency must stay below one hundred milliseconds.
        If it is not too much trouble, a short note on how to start it would help.
        The goal is a calculator with a history of results.
        Where possible, standard libraries are preferred.
        Numbers are entered with the keyboard.
        Input: a list of floats with units.
    """,
}
"""Sentences written after the rules. A rule was then widened for two of them (Compute, Group), and
for one more, which is therefore in RULES (Whose)."""

LEAST_RIGHT = {COMMANDS: 43, QUESTIONS: 19, STATEMENTS: 30}


@pytest.fixture(scope="module")
def parser() -> Language:
    return load_parser()


@pytest.fixture(scope="module")
def words() -> Words:
    return read_words()


def parse(text: str, parser: Language, words: Words) -> Parsed:
    return parse_texts([text], parser, words.lemmas)[0]


def lines(block: str) -> list[str]:
    return [line.strip() for line in block.strip().splitlines()]


def tell(text: str, parser: Language, words: Words) -> str:
    (sentence,) = parse(text, parser, words).sentences
    if is_question(sentence):
        return QUESTIONS
    return COMMANDS if is_imperative(sentence, words.openings) else STATEMENTS


@pytest.mark.parametrize("kind", RULES)
def test_sentences_are_told_as_the_rules_say(kind: str, parser: Language, words: Words) -> None:
    wrong = {
        text: told for text in lines(RULES[kind]) if (told := tell(text, parser, words)) != kind
    }
    assert not wrong


@pytest.mark.parametrize("kind", UNSEEN)
def test_most_sentences_are_told_right_that_no_rule_was_made_with(
    kind: str, parser: Language, words: Words
) -> None:
    right = sum(tell(text, parser, words) == kind for text in lines(UNSEEN[kind]))
    assert right >= LEAST_RIGHT[kind]


def test_counts_of_a_small_text_are_those_made_by_hand(parser: Language, words: Words) -> None:
    text = (
        "I think you could press a button. Maybe the user can see the data on the screen?\n\n"
        "- Please return the output as a list.\n- Run it in the cloud."
    )
    measured = measure_style(parse(text, parser, words).sentences, words)
    n = 7 + 10 + 7 + 5
    assert measured["words"] == n
    assert measured["sentences"] == 4
    assert measured["words_per_sentence"] == pytest.approx(n / 4)
    assert measured["questions"] == 1 / 4
    assert measured["imperatives"] == 2 / 4
    assert measured["imperatives_less_questions"] == 1 / 4
    by_hand = {
        "modals": 2,  # could, can
        "hedges": 2,  # I think, maybe
        "first_person": 1,  # I
        "politeness": 1,  # please
        "inputs_outputs": 2,  # return, output
        "user_interaction": 5,  # press, button, user, see, screen
        "technical": 0,
        "deployment": 1,  # cloud
        "data_and_language": 1,  # data
    }
    assert {name: measured[name] for name in by_hand} == {
        name: pytest.approx(100 * count / n) for name, count in by_hand.items()
    }
    difference = measured["inputs_outputs_less_user_interaction"]
    assert difference == pytest.approx(100 * (2 - 5) / n)


def test_entities_of_a_sentence_are_those_found_by_hand(parser: Language, words: Words) -> None:
    parsed = parse(
        "She opens the user's old laptop with two large files for our shops.", parser, words
    )
    found = find_entities(parsed.sentences[0])
    assert found.entities == {"user old laptop", "large file", "shop"}
    assert found.pairs == {
        ("large file", "shop"),
        ("large file", "user old laptop"),
        ("shop", "user old laptop"),
    }


def test_lemmas_that_the_parser_gets_wrong_are_mended(parser: Language, words: Words) -> None:
    sentence = parse("The data are read by pandas.", parser, words).sentences[0]
    assert [token.lemma for token in sentence.tokens if token.pos in ("NOUN", "PROPN")] == [
        "data",
        "pandas",
    ]


def test_participles_before_a_noun_keep_their_form(parser: Language, words: Words) -> None:
    sentence = parse("We distributed a distributed system.", parser, words).sentences[0]
    assert [each.lemma for each in sentence.tokens[1:4]] == ["distribute", "a", "distributed"]
    assert find_entities(sentence).entities == {"distributed system"}


def test_the_same_texts_give_the_same_sentences(parser: Language, words: Words) -> None:
    texts = [text for block in UNSEEN.values() for text in lines(block)]
    first = parse_texts(texts, parser, words.lemmas)
    assert parse_texts(texts, load_parser(), words.lemmas) == first


def test_a_text_is_parsed_alike_by_itself_and_among_others(parser: Language, words: Words) -> None:
    texts = lines(UNSEEN[STATEMENTS])
    assert [parse(text, parser, words) for text in texts] == parse_texts(
        texts, parser, words.lemmas
    )


def test_lists_headings_and_paragraphs_are_pieces_and_other_line_breaks_are_spaces() -> None:
    text = (
        "# Calculator\nIt adds\nnumbers.\n\n1. **Bold** `word`\n- last_name\n* two\n---\n| a | b |"
    )
    assert clean_text(text).pieces == (
        "Calculator",
        "It adds numbers.",
        "Bold word",
        "last_name",
        "two",
        "a | b |",
    )


@pytest.mark.parametrize(
    "text",
    [
        "Before.\n```python\nx = 1\n```\nAfter.",
        "Before.\n~~~\nx\n~~~\nAfter.",
        "Before.\nAfter.\n```\nx",
    ],
)
def test_fenced_code_is_no_prose_whether_closed_or_not(text: str) -> None:
    cleaned = clean_text(text)
    assert " ".join(cleaned.pieces) == "Before. After."
    assert cleaned.code_blocks == (1 if "`" in text or "~" in text else 0)


def test_code_in_a_line_is_prose() -> None:
    assert clean_text("Call `add(1, 2)` twice.") == parsing.Cleaned(("Call add(1, 2) twice.",))


def test_what_is_too_long_is_cut_and_counted() -> None:
    cleaned = clean_text("word " * LONGEST_TEXT)
    assert cleaned.cut == 4 * LONGEST_TEXT
    assert sum(map(len, cleaned.pieces)) < LONGEST_TEXT
    assert clean_text("a" * (LONGEST_RUN + 1) + " b").runs == 1
    assert clean_text("a" * LONGEST_RUN + " b").runs == 0


def test_null_bytes_and_other_control_characters_are_spaces() -> None:
    assert clean_text("one\0two\x1b[31m\u200bthree").pieces == ("one two [31m three",)


HOSTILE = {
    "open parentheses": "(" * 100_000,
    "one word": "a" * 100_000,
    "no full stop": "the big file and " * 6_000,
    "null bytes": "a\0b " * 25_000,
    "fences": "```\n" * 25_000,
    "unlike fences": "".join("`" * (3 + i % 90) + "\n" for i in range(2_000)),
    "addresses": "https://example.org/?a=b&c=d-e_f:g@h " * 2_700,
    "line breaks": "\n" * 100_000,
    "emoji": "\U0001f44d\U0001f3fd " * 30_000,
    "combining marks": "e\u0301\u0302 " * 25_000,
    "entries of a list": "- a\n" * 25_000,
    "right to left": "\u202e\u0634\u0645\u0633 " * 20_000,
    "underscores": "_" * 50 + "a_" * 25 + " " + "_a" * 20_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_neither_break_nor_hang(name: str, parser: Language, words: Words) -> None:
    text = HOSTILE[name]
    start = time.monotonic()
    parsed = parse(text, parser, words)
    assert time.monotonic() - start < 60
    assert parsed.cleaned.cut == len(text) - LONGEST_TEXT
    assert all(len(sentence.tokens) <= LONGEST_SENTENCE for sentence in parsed.sentences)
    for sentence in parsed.sentences:
        find_entities(sentence)
    measure_style(parsed.sentences, words)


def test_sentences_that_are_too_long_are_parted_and_counted(parser: Language, words: Words) -> None:
    parsed = parse("red blue " * 200, parser, words)
    assert parsed.parted >= 1
    assert sum(sentence.words for sentence in parsed.sentences) == 400


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_cleaned_to_pieces_without_line_breaks(text: str) -> None:
    for piece in clean_text(text).pieces:
        assert piece == " ".join(piece.split())
        assert any(map(str.isalnum, piece))


def test_an_empty_text_has_no_sentence(parser: Language, words: Words) -> None:
    for text in ("", " \n ", "***", "```\ncode\n```"):
        assert parse(text, parser, words).sentences == ()


def test_a_missing_parser_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "PACKAGE", "en_core_web_none")
    with pytest.raises(ConfigError, match="^en_core_web_none: this package is not installed") as e:
        load_parser()
    assert "\n" not in str(e.value)


def test_only_parsing_imports_spacy() -> None:
    code = (
        "import sys; import llm_variability.linguistics.__main__;"
        " sys.exit('spacy' in sys.modules or 'sklearn' in sys.modules)"
    )
    root = parsing.__file__.rsplit("/llm_variability/", 1)[0]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
