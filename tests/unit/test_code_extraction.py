"""From reply to code: every shape of reply, and what counts as a program."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.code.extraction import (
    STATUSES,
    Extraction,
    extract_code,
    find_fences,
    parses,
    strip_remarks,
)
from llm_variability.config import ConfigError

CODE = "def f(x):\n    return x + 1\n"
MORE = "print(f(1))\n"
FENCE = "```"


def fenced(code: str, tag: str = "python", mark: str = FENCE) -> str:
    return f"{mark}{tag}\n{code}{mark}\n"


WHOLE = {
    "a fence with the language": fenced(CODE),
    "a fence without a language": fenced(CODE, ""),
    "a fence in capitals": fenced(CODE, "Python"),
    "a fence with a version": fenced(CODE, "python3"),
    "a fence with a short name": fenced(CODE, "py"),
    "a space before the language": fenced(CODE, " python"),
    "attributes after the language": fenced(CODE, 'python title="f.py"'),
    "a file name after the language": fenced(CODE, "python:f.py"),
    "attributes in braces": fenced(CODE, " {.python .numberLines}"),
    "a language nobody knows": fenced(CODE, "pseudocode"),
    "tildes": fenced(CODE, mark="~~~"),
    "four backticks": fenced(CODE, mark="````"),
    "prose around": f"Sure! Here it is:\n\n{fenced(CODE)}\nIt adds one to `x`.",
    "code that begins beside the language": f"{FENCE}python def f(x):\n    return x + 1\n{FENCE}",
    "code that begins beside the fence": f"{FENCE}def f(x):\n    return x + 1\n{FENCE}",
    "a fence that closes at the end of a line": f"{FENCE}python\n{CODE.rstrip()}{FENCE}\nDone.",
    "a fence in a list": "1. So:\n\n   ```py\n   def f(x):\n       return x + 1\n   ```\n2. Run.",
    "a fence in a quote": "> ```py\n> def f(x):\n>     return x + 1\n> ```\n",
    "code that is indented in its fence": fenced("    def f(x):\n        return x + 1\n"),
    "line ends of Windows": fenced(CODE).replace("\n", "\r\n"),
    "a fence in Markdown in a fence": f"{FENCE}markdown\n# Title\n{fenced(CODE)}{FENCE}",
    "an install command before": fenced("pip install numpy\n", "bash") + fenced(CODE),
    "output after": fenced(CODE) + fenced("a much longer text of output, many words\n", "text"),
    "an interactive session": fenced(">>> def f(x):\n...     return x + 1\n...\n", "pycon"),
    "a reasoning block": f"<think>Maybe\n{fenced('x = 1; y = 2; print(x)')}</think>{fenced(CODE)}",
    "reasoning that the prompt had opened": f"Maybe {FENCE}x{FENCE}?</think>\n{fenced(CODE)}",
}


@pytest.mark.parametrize("reply", WHOLE.values(), ids=WHOLE.keys())
def test_a_program_in_a_fence_is_found(reply: str) -> None:
    found = extract_code(reply, "python")
    assert (found.status, found.code, found.source) == ("ok", CODE, "fence")


BARE = {
    "alone": CODE,
    "prose before": f"Sure, this adds one:\n\n{CODE}",
    "prose after": f"{CODE}\nThis function adds one to what it is given.",
    "prose after, on the next line": f"{CODE}This function adds one.",
    "prose around": f"Here is a function:\n\n{CODE}\nLet me know if you need more!",
}


@pytest.mark.parametrize("reply", BARE.values(), ids=BARE.keys())
def test_a_program_without_a_fence_is_found(reply: str) -> None:
    assert extract_code(reply, "python") == Extraction("ok", CODE, "bare")


NOTHING = {
    "an empty reply": "",
    "white space": " \n\n",
    "a refusal": "I'm sorry, I can't help with that.",
    "a word that is a name in Python": "Sorry",
    "a word that is a value in Python": "None",
    "words that are an expression in Python": "not possible",
    "prose that begins with keywords": "for this task we would need more\nwhile you wait, relax",
    "prose with signs": "for this task (see above) we would need more: please tell",
    "an empty fence": fenced(""),
    "a fence with a comment alone": fenced("# your code here\n"),
    "an install command alone": fenced("pip install numpy\n", "bash"),
    "JSON alone": fenced('{"a": 1}\n', "json"),
    "reasoning that never ends": f"<think>I could write\n{fenced(CODE)}",
}


@pytest.mark.parametrize("reply", NOTHING.values(), ids=NOTHING.keys())
def test_a_reply_without_code_has_none(reply: str) -> None:
    found = extract_code(reply, "python")
    assert (found.status, found.code, found.source) == ("no_code", "", "none")


BROKEN = {
    "a bracket that never closes": fenced("x = (1\n"),
    "a refusal in a fence": fenced("I cannot do that, sorry.\n", ""),
    "Python 2, which the grammar takes and Python does not": fenced("print 'x'\n"),
    "a return outside a function is for the compiler, a wrong indent is not": fenced(
        "def f():\n    x = 1\n  y = 2\n"
    ),
    "another language": fenced("let x = 1;\n", "javascript"),
    "a null byte": fenced("x = 1\0\n"),
    "bare code with a mistake": "import os\ndef f(:\n    return os\n",
    "bare code with a mistake in its middle": f"import os\n\n{CODE}\nx = (1\n\n{CODE}",
}


@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN.keys())
def test_code_that_does_not_parse_is_invalid(reply: str) -> None:
    assert extract_code(reply, "python").status == "invalid"


def test_of_bare_code_with_a_mistake_no_part_is_passed_off_as_the_whole() -> None:
    reply = f"import os\n\n{CODE}\nx = (1\n\n{CODE}"
    assert extract_code(reply, "python").code == reply


def test_an_unclosed_fence_is_kept_and_flagged() -> None:
    found = extract_code(f"Here:\n{FENCE}python\n{CODE}", "python")
    assert found == Extraction("ok", CODE, "unclosed_fence", 1, "python")


def test_an_unclosed_fence_of_a_reply_that_was_cut_off_is_truncated_though_it_parses() -> None:
    found = extract_code(f"Here:\n{FENCE}python\n{CODE}", "python", cut_off=True)
    assert (found.status, found.code) == ("truncated", CODE)


def test_a_fence_that_closed_before_the_reply_was_cut_off_is_whole() -> None:
    assert extract_code(f"{fenced(CODE)}This fun", "python", cut_off=True).status == "ok"


def test_bare_code_of_a_reply_that_was_cut_off_is_truncated() -> None:
    found = extract_code(f"Here it is:\n\n{CODE}\n\ndef g(", "python", cut_off=True)
    assert (found.status, found.source) == ("truncated", "bare")
    assert found.code == f"{CODE}\n\ndef g(\n"


def test_a_refusal_that_was_cut_off_is_no_code() -> None:
    assert extract_code("I cannot do", "python", cut_off=True).status == "no_code"


@pytest.mark.parametrize(
    ("choice", "code"),
    [("longest", CODE), ("first", CODE), ("last", MORE), ("joined", f"{CODE}\n\n{MORE}")],
)
def test_of_several_fences_the_chosen_one_is_taken(choice: str, code: str) -> None:
    reply = f"{fenced(CODE)}Use it so:\n{fenced(MORE)}"
    found = extract_code(reply, "python", choice=choice)  # type: ignore[arg-type]
    assert (found.status, found.code, found.fences) == ("ok", code, 2)


def test_a_fence_of_the_language_goes_before_a_longer_one_of_none() -> None:
    reply = fenced("x = 1\ny = 2\nz = 3\nprint(x, y, z)\n", "") + fenced(CODE)
    assert extract_code(reply, "python").code == CODE


def test_a_fence_in_a_docstring_does_not_close_the_code() -> None:
    code = (
        f'def f():\n    """Do.\n\n    {FENCE}python\n    f()\n    {FENCE}\n    """\n    return 1\n'
    )
    assert extract_code(fenced(code), "python").code == code


def test_a_fence_that_another_follows_ends_there() -> None:
    reply = f"{FENCE}python\n{CODE}\n{fenced(MORE)}"
    assert [fence.closed for fence in find_fences(reply)] == [False, True]
    assert extract_code(reply, "python").code == CODE


def test_code_comes_out_as_it_went_in() -> None:
    code = 'TEXT = """\n  two\n\n\ttab  \n"""\nprint(TEXT)  # ünïcode → 🙂\n'
    assert extract_code(fenced(code), "python").code == code


@pytest.mark.parametrize(
    ("language", "valid", "invalid"),
    [
        ("javascript", "const f = (x) => x + 1;\n", "const f = (x => ;\n"),
        ("java", "class A { int f(int x) { return x + 1; } }\n", "class A { int f( }\n"),
        ("cpp", "int f(int x) { return x + 1; }\n", "int f(int x) { return x + ; }\n"),
        ("go", "package a\n\nfunc f(x int) int { return x + 1 }\n", "package a\nfunc f(x int {\n"),
        ("rust", "fn f(x: i32) -> i32 { x + 1 }\n", "fn f(x: i32) -> { x + 1 \n"),
    ],
)
def test_other_languages_are_read_with_their_own_grammar(
    language: str, valid: str, invalid: str
) -> None:
    pytest.importorskip(f"tree_sitter_{language}")
    assert extract_code(fenced(valid, language), language) == Extraction(
        "ok", valid, "fence", 1, language
    )
    assert extract_code(f"This is it:\n\n{valid}", language).code == valid
    assert extract_code(fenced(invalid, language), language).status == "invalid"


def test_an_unknown_language_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="'cobol' is not known; languages are python, javascript"):
        extract_code(fenced(CODE), "cobol")


REMARKS = '''"""What it is."""
# A comment.
import os  # Why.


class A:
    """A class."""

    def f(self):
        """Only this."""

    def g(self):
        """More."""
        # A comment.
        return "# no comment", """no docstring"""
'''


def test_comments_and_docstrings_are_taken_out_and_nothing_else() -> None:
    bare = strip_remarks(REMARKS, "python")
    assert "omment." not in bare and "Why" not in bare and "More" not in bare
    assert '"# no comment", """no docstring"""' in bare
    expected = ast.parse(REMARKS)
    expected.body = expected.body[1:]
    kind = expected.body[1]
    assert isinstance(kind, ast.ClassDef)
    first, second = kind.body[1], kind.body[2]
    assert isinstance(first, ast.FunctionDef) and isinstance(second, ast.FunctionDef)
    kind.body, first.body, second.body = kind.body[1:], [ast.Pass()], second.body[1:]
    assert ast.dump(ast.parse(bare)) == ast.dump(expected)


def test_comments_alone_can_be_taken_out() -> None:
    bare = strip_remarks(REMARKS, "python", docstrings=False)
    assert ast.dump(ast.parse(bare)) == ast.dump(ast.parse(REMARKS))
    assert "# A comment." not in bare and '"""More."""' in bare


def test_docstrings_alone_can_be_taken_out() -> None:
    bare = strip_remarks(REMARKS, "python", comments=False)
    assert "# A comment." in bare and '"""More."""' not in bare


def test_extraction_strips_what_it_is_asked_to() -> None:
    found = extract_code(fenced(REMARKS), "python", strip_comments=True, strip_docstrings=True)
    assert found.code == strip_remarks(REMARKS, "python")


@given(st.text(max_size=200), st.booleans())
def test_any_reply_has_a_status(reply: str, cut_off: bool) -> None:
    found = extract_code(reply, "python", cut_off=cut_off)
    assert found.status in STATUSES
    assert (found.code == "") == (found.status == "no_code")
    if found.status == "ok":
        assert parses(found.code, "python")


@given(
    st.lists(st.sampled_from(["```", "```py", "x = 1", "def f():", "    pass", "Prose.", "~~~"]))
)
def test_any_order_of_fences_and_lines_has_a_status(lines: list[str]) -> None:
    assert extract_code("\n".join(lines), "python").status in STATUSES


def test_a_program_with_a_prompt_on_its_first_line_alone_stays_whole() -> None:
    whole = "import math\ndef area(r):\n    return math.pi * r * r\n"
    assert extract_code(fenced(f">>> {whole}"), "python").code == whole
    pair = extract_code(fenced(">>> x = [3, 1]\ny = sorted(x)\n"), "python")
    assert (pair.status, pair.code) == ("ok", "x = [3, 1]\ny = sorted(x)\n")


def test_the_output_of_a_session_is_no_part_of_its_program() -> None:
    session = ">>> f('a')\n3\n>>> g()\n[1, 2]\n"
    assert extract_code(fenced(session), "python").code == "f('a')\ng()\n"
