"""Languages and trees: which nodes count, and in which order they come."""

from __future__ import annotations

import sys
import types

import pytest
import tree_sitter

from llm_variability.code import languages
from llm_variability.code.languages import LANGUAGES, find_language, load_grammar
from llm_variability.code.trees import (
    Tree,
    parse_code,
    read_named_nodes,
    read_published,
    tree_from_parents,
)
from llm_variability.config import ConfigError


def read(code: str) -> Tree:
    return read_named_nodes(parse_code(code, "python"))


def published(code: str) -> Tree:
    return read_published(parse_code(code, "python"))


def test_nodes_come_in_postorder_with_their_leftmost_leaves() -> None:
    # a(b(c, d), e): postorder c d b e a.
    tree = tree_from_parents("abcde", [-1, 0, 1, 1, 0])
    assert tree.labels == ("c", "d", "b", "e", "a")
    assert tree.leftmost.tolist() == [0, 1, 0, 3, 0]


def test_named_nodes_are_counted_with_their_types() -> None:
    tree = read("x = a + 1\n")
    assert tree.labels == (
        "identifier",
        "identifier",
        "integer",
        "binary_operator",
        "assignment",
        "expression_statement",
        "module",
    )
    assert tree.leftmost.tolist() == [0, 1, 2, 1, 0, 0, 0]
    assert tree.size == 7


def test_names_constants_and_operators_do_not_count() -> None:
    assert read("x = a + 1\n").key == read("total = price - 27\n").key
    assert read("x = a + 1\n").key != read("x = a and 1\n").key


def test_an_empty_program_is_one_node() -> None:
    assert read("").labels == ("module",)
    assert published("").labels == ("module",)


@pytest.mark.parametrize("code", ["x = 1", "def f(a, *b, c=1):\n    return [d for d in b if d]\n"])
def test_the_named_nodes_are_those_of_the_grammars_own_description(code: str) -> None:
    parsed = parse_code(code, "python")
    types_of_description = [
        word.strip("()") for word in str(parsed.root_node).split() if not word.endswith(":")
    ]
    assert sorted(read_named_nodes(parsed).labels) == sorted(types_of_description)


def test_mistakes_become_nodes() -> None:
    assert "ERROR" in read("x = = 1").labels


def test_a_deeply_nested_program_is_read() -> None:
    depth = 3_000
    assert len(read("x = " + "(" * depth + "1" + ")" * depth)) == depth + 5


def test_published_labels_are_the_last_fields_names() -> None:
    # module(expression_statement(assignment[left, right](identifier, integer)))
    expected = ("identifier", "integer", "right:", "expression_statement", "module")
    assert published("x = 1\n").labels == published("x += 1\n").labels == expected


def test_published_sizes_count_closing_parentheses_in_quotes_too() -> None:
    # (MISSING ")") is printed with two of them, and the first closes the node.
    assert str(parse_code("def f(:\n  x", "python").root_node).count(")") == 9
    assert published("def f(:\n  x").size == 9


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES.keys())
def test_every_installed_grammar_reads_its_language(language: languages.Language) -> None:
    pytest.importorskip(language.module)
    programs = {
        "python": "def f(x):  # c\n    return x\n",
        "javascript": "function f(x) { return x; } // c\n",
        "java": "class A { int f(int x) { return x; } } // c\n",
        "cpp": "int f(int x) { return x; } // c\n",
        "go": "package a\nfunc f(x int) int { return x } // c\n",
        "rust": "fn f(x: i32) -> i32 { x } // c\n",
    }
    parsed = parse_code(programs[language.name], language.name)
    assert not parsed.root_node.has_error
    assert language.comments & set(read_named_nodes(parsed).labels)


def test_a_grammar_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_go", None)
    load_grammar.cache_clear()
    with pytest.raises(ConfigError, match="language go: .* not installed; install tree-sitter-go"):
        parse_code("package a", "go")


def test_a_grammar_that_does_not_fit_the_core_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> tree_sitter.Language:
        raise ValueError("Incompatible Language version 99. Must be between 13 and 15")

    grammar = types.SimpleNamespace(language=lambda: object())
    monkeypatch.setitem(sys.modules, "tree_sitter_go", grammar)
    monkeypatch.setattr(languages.tree_sitter, "Language", refuse)
    load_grammar.cache_clear()
    with pytest.raises(ConfigError, match="tree-sitter-go does not fit tree-sitter .*version 99"):
        load_grammar("go")


def test_fences_of_a_language_belong_to_no_other() -> None:
    tags = [tag for language in LANGUAGES.values() for tag in language.tags]
    assert len(tags) == len(set(tags))
    assert all(find_language(name).name == name for name in LANGUAGES)
