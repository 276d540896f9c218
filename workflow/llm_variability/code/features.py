"""What programs are made of: functions and imports, tests and web frameworks, passwords.

What counts as what stands in docs/code-features.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import polars as pl
import tree_sitter

from llm_variability.code.languages import find_language
from llm_variability.code.replies import SQL_STATEMENT, count_lines, read_reply
from llm_variability.code.trees import parse_code
from llm_variability.config import ConfigError
from llm_variability.table_contract import SETTING
from llm_variability.tables_personas import FEATURE_COLUMNS, FEATURES

_OF_REPLY = ("reply", "tags", "reply_lines", "reply_words")
"""Columns that every draw has."""

_OF_PROGRAM = tuple(name for name in FEATURE_COLUMNS if name not in (*_OF_REPLY, "nodes"))
"""Columns that are read from a program that parses."""

_TYPES = {
    "python": {
        "functions": "function_definition",
        "classes": "class_definition",
        "loops": "for_statement while_statement list_comprehension set_comprehension"
        " dictionary_comprehension generator_expression",
        "branches": "if_statement elif_clause case_clause conditional_expression",
        "error_handling": "except_clause raise_statement",
    },
    "javascript": {
        "functions": "function_declaration function_expression arrow_function method_definition"
        " generator_function_declaration generator_function",
        "classes": "class_declaration class",
        "imports": "import_statement",
        "loops": "for_statement for_in_statement while_statement do_statement",
        "branches": "if_statement switch_case switch_default ternary_expression",
        "error_handling": "catch_clause throw_statement",
    },
    "java": {
        "functions": "method_declaration constructor_declaration compact_constructor_declaration",
        "classes": "class_declaration interface_declaration enum_declaration record_declaration",
        "imports": "import_declaration",
        "loops": "for_statement enhanced_for_statement while_statement do_statement",
        "branches": "if_statement switch_label ternary_expression",
        "error_handling": "catch_clause throw_statement",
    },
    "cpp": {
        "functions": "function_definition",
        "classes": "field_declaration_list",
        "imports": "preproc_include",
        "loops": "for_statement for_range_loop while_statement do_statement",
        "branches": "if_statement case_statement conditional_expression",
        "error_handling": "catch_clause throw_statement",
    },
    "go": {
        "functions": "function_declaration method_declaration",
        "classes": "struct_type",
        "imports": "import_spec",
        "loops": "for_statement",
        "branches": "if_statement expression_case type_case communication_case default_case",
    },
    "rust": {
        "functions": "function_item",
        "classes": "struct_item enum_item",
        "imports": "use_declaration extern_crate_declaration",
        "loops": "for_expression while_expression loop_expression",
        "branches": "if_expression match_arm",
    },
}

NODE_TYPES: Mapping[str, Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        language: {feature: frozenset(types.split()) for feature, types in features.items()}
        for language, features in _TYPES.items()
    }
)
"""By language and feature, the types of nodes that are counted. What a language leaves out it does
not have (exceptions), or is read otherwise (modules that Python imports)."""


def _list_packages(names: str) -> frozenset[str]:
    return frozenset(names.split())


_TESTING = _list_packages("unittest pytest doctest nose hypothesis")

_WEB = _list_packages(
    "flask flask_restful flask_login quart django rest_framework fastapi starlette litestar sanic"
    " falcon bottle cherrypy tornado pyramid aiohttp.web hug web2py py4web robyn streamlit dash"
    " gradio nicegui reflex pywebio shiny fasthtml"
)

_DATABASES = _list_packages(
    "sqlite3 aiosqlite apsw sqlalchemy sqlmodel flask_sqlalchemy alembic peewee pony tortoise"
    " dataset records databases django.db psycopg psycopg2 asyncpg pg8000 mysql MySQLdb pymysql"
    " aiomysql mariadb pyodbc pypyodbc pymssql cx_Oracle oracledb pymongo flask_pymongo motor"
    " mongoengine beanie redis aioredis cassandra neo4j py2neo duckdb tinydb dbm ZODB lmdb"
    " firebase_admin google.cloud.firestore couchdb clickhouse_driver influxdb"
)

_EXAMPLE = re.compile(r"^[ \t]*>>> ", re.MULTILINE)
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET = re.compile(
    r"passw(?:or)?d|passcode|passphrase|pwd"
    r"|(?:^|_)secret(?:_(?:key|hash|token|salt|digest))?$"
)
_COLUMN = re.compile(
    r"^[ \t(\"`\[]{0,9}(\w{1,60})[\"`\]]?[ \t]{1,20}(?:(?:N?(?:VAR)?CHAR|VARCHAR2|CHARACTER"
    r"|TEXT|STRING|(?:VAR)?BINARY|BLOB|BYTEA)\b|(?i:n?(?:var)?char[ ]?\())",
    re.MULTILINE,
)
_SQL_LINE = re.compile(rf"^[ \t(]{{0,40}}(?:{SQL_STATEMENT.pattern})", re.MULTILINE)
_SQL_VALUES = re.compile(r"--[^\n]*|'[^'\n]*'")
_HTML_INPUT = re.compile(r"<input\b[^>]{0,300}", re.IGNORECASE)


def is_password(name: str) -> bool:
    """Say whether a name is that of a password or the like: `userPassword`, `pwd`, `secret_key`.

    Capitals and hyphens part words. `secret` is one alone, at the end, or before key, hash, token,
    salt or digest: `secret_number` and the module `secrets` are not.
    """
    return bool(_SECRET.search(_CAPITAL.sub("_", name).replace("-", "_").lower()))


def writes_sql(text: str) -> bool:
    """Say whether a line of a text begins a statement of SQL."""
    return bool(_SQL_LINE.search(text))


def _names_password(text: str) -> bool:
    """Say whether a string of a program is, or defines, a key, column or field of that name."""
    names = [text.strip()] if re.fullmatch(r"\s*[\w-]{1,60}\s*", text) else []
    names += _COLUMN.findall(text)
    if writes_sql(text):
        names += re.findall(r"\w+", _SQL_VALUES.sub(" ", text))
    names += (word for tag in _HTML_INPUT.findall(text) for word in re.findall(r"[\w-]+", tag))
    return any(map(is_password, names))


@dataclass
class _Seen:
    """What a walk through a Python program has seen."""

    types: Counter[str] = field(default_factory=Counter)
    modules: set[str] = field(default_factory=set)
    imported: set[str] = field(default_factory=set)
    called: Counter[str] = field(default_factory=Counter)
    names: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)
    docstrings: list[str] = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    annotated: bool = False
    guarded: bool = False


def _text(node: tree_sitter.Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode("utf-8", "replace")


def _unwrap(node: tree_sitter.Node | None) -> tree_sitter.Node | None:
    """Take the parentheses off an expression."""
    while node is not None and node.type == "parenthesized_expression":
        inside = [child for child in node.named_children if child.type != "comment"]
        node = inside[0] if len(inside) == 1 else None
    return node


def _pieces(string: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """Give the parts of a string, or of several that follow each other: contents, expressions."""
    for child in string.named_children:
        if child.type == "string":
            yield from _pieces(child)
        else:
            yield child


def _content(string: tree_sitter.Node) -> str:
    """Give what stands in a string as it is written, expressions as {}."""
    return "".join(
        {"string_content": _text(piece), "interpolation": "{}"}.get(piece.type, "")
        for piece in _pieces(string)
    )


def _lone_string(statement: tree_sitter.Node) -> tree_sitter.Node | None:
    """Give the string that a statement is made of, if it is one."""
    if statement.type != "expression_statement" or len(statement.named_children) != 1:
        return None
    alone = _unwrap(statement.named_children[0])
    return alone if alone is not None and alone.type in ("string", "concatenated_string") else None


def _is_docstring(statement: tree_sitter.Node, string: tree_sitter.Node) -> bool:
    """Say whether a string that stands alone documents what it stands in."""
    body = statement.parent
    if body is None or body.type not in ("module", "block"):
        return False
    owner = body.parent
    owned = owner is not None and owner.type in ("function_definition", "class_definition")
    first = next((child for child in body.named_children if child.type != "comment"), None)
    parts = string.named_children if string.type == "concatenated_string" else [string]
    marks = "".join(_text(part.children[0]) for part in parts if part.type == "string").lower()
    plain = "f" not in marks and "b" not in marks
    return first == statement and plain and (owned or body.type == "module")


def _read_import(node: tree_sitter.Node, seen: _Seen) -> None:
    def name(child: tree_sitter.Node) -> str:
        aliased = child.type == "aliased_import"
        return _text(child.child_by_field_name("name") if aliased else child)

    names = [name(child) for child in node.children_by_field_name("name")]
    if node.type == "import_statement":
        seen.modules.update(names)
        seen.imported.update(names)
    else:
        future = node.type == "future_import_statement"
        module = "__future__" if future else _text(node.child_by_field_name("module_name"))
        seen.modules.add(module)
        seen.imported |= {module, *(f"{module}.{each}" for each in names)}


def _guards_main(node: tree_sitter.Node) -> bool:
    condition = _unwrap(node.child_by_field_name("condition"))
    if condition is None or condition.type != "comparison_operator":
        return False
    sides = {
        _content(side) if side.type == "string" else _text(side)
        for side in condition.named_children
    }
    signs = [each.type for each in condition.children if not each.is_named]
    return sides == {"__name__", "__main__"} and signs == ["=="]


def _walk_python(root: tree_sitter.Node) -> _Seen:
    seen = _Seen()
    remarks = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        seen.types[node.type] += 1
        alone = _lone_string(node)
        if alone is not None:
            # A remark, whether or not it documents anything.
            remarks.add(alone.id)
            if _is_docstring(node, alone):
                seen.docstrings.append(_content(alone))
        if node.type in ("string", "concatenated_string"):
            if node.id not in remarks:
                seen.strings.append(_content(node))
            waiting.extend(_pieces(node))
            continue
        if node.type in ("import_statement", "import_from_statement", "future_import_statement"):
            _read_import(node, seen)
            continue
        if node.type == "identifier":
            seen.names.add(_text(node))
        elif node.type == "call":
            function = node.child_by_field_name("function")
            if function is not None and function.type == "identifier":
                seen.called[_text(function)] += 1
        elif node.type == "function_definition":
            seen.defined.add(_text(node.child_by_field_name("name")))
            seen.annotated |= node.child_by_field_name("return_type") is not None
        elif node.type in ("typed_parameter", "typed_default_parameter"):
            seen.annotated = True
        elif node.type == "if_statement":
            seen.guarded |= _guards_main(node)
        waiting.extend(reversed(node.named_children))
    return seen


def _is_among(imported: set[str], packages: frozenset[str]) -> bool:
    """Say whether a package or a part of it is imported; names: as in `aiohttp.web.run_app`."""
    return any(
        ".".join(parts[:length]) in packages
        for parts in (name.split(".") for name in imported)
        for length in range(1, len(parts) + 1)
    )


def _is_test(name: str) -> bool:
    return name == "test" or name.startswith("test_")


def _read_python(seen: _Seen) -> dict[str, Any]:
    return {
        "imports": len(seen.modules),
        "comments": seen.types["comment"] + len(seen.docstrings),
        "prints": seen.called["print"],
        "inputs": seen.called["input"],
        "tests": seen.types["assert_statement"] > 0
        or _is_among(seen.imported, _TESTING)
        or any(map(_is_test, seen.defined))
        or any(map(_EXAMPLE.search, seen.docstrings)),
        "web_framework": _is_among(seen.imported, _WEB),
        "database": _is_among(seen.imported, _DATABASES) or any(map(writes_sql, seen.strings)),
        "type_hints": seen.annotated,
        "main_guard": seen.guarded,
        "password_field": any(map(is_password, seen.names))
        or any(map(_names_password, seen.strings)),
    }


def _count_types(root: tree_sitter.Node) -> Counter[str]:
    """Count the named nodes of a tree by their types."""
    counts: Counter[str] = Counter()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        counts[node.type] += 1
        waiting.extend(node.named_children)
    return counts


def read_program(code: str, language: str) -> dict[str, Any]:
    """Read a program's features from its syntax tree.

    code: a program that parses. Returns a value for each column from `lines` on but `nodes`: counts
    as int, the others as bool. None where it has no meaning or is not read in the language, which
    is that of all languages but Python for `prints`, `inputs` and, but for `error_handling`, what
    is true or not.
    Raises ConfigError for a language that is not known or whose grammar is not installed.
    """
    root = parse_code(code, language).root_node
    read: dict[str, Any] = dict.fromkeys(_OF_PROGRAM)
    if language == "python":
        seen = _walk_python(root)
        types = seen.types
        read |= _read_python(seen)
    else:
        types = _count_types(root)
        read["comments"] = sum(types[each] for each in find_language(language).comments)
    read["lines"] = count_lines(code)
    for feature, counted in NODE_TYPES[language].items():
        read[feature] = sum(types[each] for each in counted)
    if read["error_handling"] is not None:
        read["error_handling"] = read["error_handling"] > 0
    return read


def _join_texts(programs: pl.DataFrame, draws: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Put each draw's text beside its program."""
    cut_off = (pl.col("finish_reason") == "length").fill_null(False)
    texts = draws.select(*key, "text", cut_off=cut_off)
    wanted = len(programs)
    joined = programs.join(texts, on=key, how="inner", nulls_equal=True, maintain_order="left")
    if len(joined) != wanted or len(texts) != wanted:
        raise ConfigError(
            f"draws: {len(texts)} draws and {wanted} programs, of which {len(joined)} are the same;"
            " draws and programs are not of one run"
        )
    return joined


def tabulate_features(
    programs: pl.DataFrame, draws: pl.DataFrame, columns: Sequence[str]
) -> pl.DataFrame:
    """Make a features table: of each draw, what its reply holds and its program is made of.

    programs: a programs table. draws: the draws tables that it was read from, with the setting's
    columns. columns: those of the design. Each distinct reply and each distinct program is read
    once. What is read from a program is null unless its status is ok. Returns rows in the order of
    programs.
    Raises ConfigError where draws and programs are not the same ones, and for a language that is
    not known or whose grammar is not installed.
    """
    key = [*columns, *SETTING, "prompt_id", "replicate"]
    joined = _join_texts(programs, draws, key)
    replies = joined.select("text", "language", "status", "source", "cut_off").rows()
    read = {reply: read_reply(*reply[:4], cut_off=reply[4]) for reply in dict.fromkeys(replies)}
    codes = joined.select(pl.when(pl.col("status") == "ok").then("code"), "language").rows()
    nothing = dict.fromkeys(_OF_PROGRAM)
    known = {
        (code, language): nothing if code is None else read_program(code, language)
        for code, language in dict.fromkeys(codes)
    }
    found = [
        {
            "reply": read[reply].kind,
            "tags": " ".join(read[reply].tags),
            "reply_lines": read[reply].lines,
            "reply_words": read[reply].words,
            **known[code],
        }
        for reply, code in zip(replies, codes, strict=True)
    ]
    schema = {name: FEATURES.columns[name].dtype for name in (*_OF_REPLY, *_OF_PROGRAM)}
    values = pl.DataFrame(found, schema=schema)
    return pl.concat([joined.select(*key, "nodes"), values], how="horizontal")
