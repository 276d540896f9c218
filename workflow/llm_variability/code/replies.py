"""What a reply holds: a program, code of another language, or words alone; and how much of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from llm_variability.code.extraction import (
    NOT_PROGRAMS,
    Fence,
    drop_reasoning,
    extract_code,
    part_fences,
)
from llm_variability.code.languages import find_language
from llm_variability.tables_personas import FAILED


@dataclass(frozen=True)
class Reply:
    """What is in a reply.

    kind: one of `tables_personas.REPLY_KINDS`. tags: the languages that its fences name, in order,
    each once. lines: of its code, blank ones left out. words: outside of its code, parted by white
    space.
    """

    kind: str
    tags: tuple[str, ...] = ()
    lines: int = 0
    words: int = 0


_SPACE = r"\s{1,20}"
_NAME = r"[\w.\"`\[\]]{1,80}"
SQL_STATEMENT = re.compile(
    "|".join(
        part.replace("_", _SPACE).replace("@", _NAME)
        for part in (
            r"CREATE_(?:(?:OR|REPLACE|TEMP|TEMPORARY|UNIQUE|VIRTUAL)_){0,3}"
            r"(?:TABLE|DATABASE|SCHEMA|INDEX|VIEW|TRIGGER)\b",
            r"(?:DROP|ALTER)_(?:TABLE|DATABASE|SCHEMA|INDEX|VIEW)\b",
            r"(?:INSERT|REPLACE)_(?:OR_[A-Z]{1,10}_)?INTO\b",
            r"SELECT\b[^;]{1,2000}?\bFROM\b",
            r"UPDATE_@_SET\b",
            r"DELETE_FROM\b",
            r"PRAGMA_\w",
            r"WITH_@_AS\s{0,20}\(",
            r"(?i:create_table_(?:if_not_exists_)?@\s{0,20}\()",
            r"(?i:insert_into_@\s{0,20}(?:\(|values\b|select\b))",
            r"(?i:select_\*_from_@)",
            r"(?i:update_@_set_@\s{0,20}=)",
            r"(?i:delete_from_@_where\b)",
        )
    )
)
"""How a statement of SQL begins: key words in capitals or, in small letters, with more of it, as
menus select and delete too."""

_SIGNS = tuple(
    (re.compile(sign), frozenset(languages.split()))
    for sign, languages in (
        (SQL_STATEMENT.pattern, ""),
        (
            r"(?i:<!doctype\b|<\?php\b|</?(?:html|head|body|div|form|script|style|table|ul|ol|p|span"
            r"|h[1-6]|input|button|section|header|footer|nav|main|label|meta|link|title|svg)\b)",
            "",
        ),
        (r"(?:body|html|[.#][A-Za-z][\w-]{0,40})[ \t]{0,9}\{", ""),
        (r"\$\w{1,40}[ \t]{0,9}=", ""),
        (r"using[ \t]+[A-Z][\w.]{0,80};|namespace[ \t]+[A-Z][\w.]{0,80}", "cpp"),
        (r"(?:async[ \t]+)?function\b[ \t*]{0,9}\w{0,80}[ \t]{0,9}\(", "javascript"),
        (r"(?:import|export)\b[^;\n]{0,200}\bfrom[ \t]+[\"']|import[ \t]+[\"']", "javascript go"),
        (r"(?:const|let|var)[ \t]+[\w{\[$]", "javascript go rust cpp java"),
        (r"(?:console\.log|document\.\w+|module\.exports)\b", "javascript"),
        (r"(?:public|private|protected)[ \t]+\w", "java cpp"),
        (r"import[ \t]+(?:static[ \t]+)?[\w.*]{1,120};", "java"),
        (r"class[ \t]+\w{1,80}[^:\n]{0,120}\{", "javascript java cpp"),
        (r"#[ \t]*include[ \t]*[<\"]|(?:int|void)[ \t]+main[ \t]*\(", "cpp"),
        (r"package[ \t]+[\w.]{1,80};?[ \t]*(?:\n|\Z)", "go java"),
        (r"func[ \t]+[\w(]", "go"),
        (r"(?:pub[ \t]+)?fn[ \t]+\w|use[ \t]+\w{1,80}::", "rust"),
    )
)
"""How a line of code begins in languages other than Python, and which of those known here have it.
It is what tells code in a fence that names no language."""

_REMARK = re.compile(r"\s*(?://|/?\*|--|#(?![ \t]*include[ \t]*[<\"]|!?\[)|\Z)")
_LINE = re.compile(r"^.*$", re.MULTILINE)


def _is_foreign(text: str, at: int, language: str) -> bool:
    """Say whether the line at an offset begins as code does in other languages alone."""
    return any(sign.match(text, at) and language not in of for sign, of in _SIGNS)


def opens_otherwise(code: str, language: str) -> bool:
    """Say whether code begins as that of another language does, its first remarks left out."""
    for line in _LINE.finditer(code):
        if not _REMARK.match(line[0]):
            return _is_foreign(code, line.end() - len(line[0].lstrip()), language)
    return False


def _find_other_code(lines: Sequence[str], language: str) -> tuple[int, int]:
    """Find bare code of another language: the lines it begins at and ends before, (0, 0) for none.

    It runs from the first line that begins and ends as code does to the last that ends so.
    """
    text = "\n".join(lines)
    begins = (
        number
        for number, line in enumerate(_LINE.finditer(text))
        if line[0].rstrip().endswith(tuple("{(;>,")) and _is_foreign(text, line.start(), language)
    )
    begin = next(begins, None)
    if begin is None:
        return 0, 0
    ends = [number for number, line in enumerate(lines) if line.rstrip().endswith(tuple("{};>"))]
    return begin, max([begin, *ends]) + 1


def _part_by_language(
    fences: Sequence[Fence], language: str, valid: bool
) -> tuple[list[Fence], list[Fence]]:
    """Choose the fences with code: of a language, and of others.

    One that names none is code where no other names the language: of another if it begins so;
    else of the language, unless the program does not parse and another language is named.
    """
    tags = find_language(language).tags
    filled = [fence for fence in fences if fence.text.strip() and fence.tag not in NOT_PROGRAMS]
    own = [fence for fence in filled if fence.tag in tags]
    other = [fence for fence in filled if fence.tag and fence.tag not in tags]
    if own:
        return own, other
    unnamed = [fence for fence in filled if not fence.tag]
    foreign = [fence for fence in unnamed if opens_otherwise(fence.text, language)]
    other += foreign
    if valid or not other:
        own = [fence for fence in unnamed if fence not in foreign]
    return own, other


def count_lines(code: str) -> int:
    """Count the lines of code that are not blank."""
    return sum(bool(line.strip()) for line in code.split("\n"))


def count_words(text: str) -> int:
    """Count the words of a text, parted by white space."""
    return len(text.split())


def read_reply(
    reply: str | None, language: str, status: str, source: str, *, cut_off: bool = False
) -> Reply:
    """Say what a reply holds.

    status, source: what `extract_code` found in it, whatever it was asked to strip. cut_off: as
    there. None, for a draw without a text, is one that failed: no reply came. What a model thought
    aloud between tags is left out. Code is what stands in fences that are not for shell commands,
    output or data, or else the program without a fence.
    Raises ConfigError for a language that is not known or whose grammar is not installed.
    """
    if reply is None:
        return Reply(FAILED)
    answer = drop_reasoning(reply)
    fences, outside = part_fences(answer)
    tags = tuple(dict.fromkeys(fence.tag for fence in fences if fence.tag))
    if not fences:
        return _read_without_fences(reply, answer, language, status, source, cut_off)
    own, other = _part_by_language(fences, language, status == "ok")
    kind = "program" if status == "ok" else status
    if status == "no_code" or (status != "ok" and not own):
        kind = "other_code" if other else "none"
    lines = sum(count_lines(fence.text) for fence in (*own, *other))
    return Reply(kind, tags, lines, count_words("\n".join(outside)))


def _read_without_fences(
    reply: str, answer: str, language: str, status: str, source: str, cut_off: bool
) -> Reply:
    kind, code = "none", ""
    if source == "bare":
        # What the program's table holds may have lost its comments.
        code = extract_code(reply, language, cut_off=cut_off).code
        kind = "program" if status == "ok" else status
        if status != "ok" and opens_otherwise(code, language):
            kind = "other_code"
    if kind in ("none", "other_code"):
        lines = answer.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        begin, end = _find_other_code(lines, language)
        code = "\n".join(lines[begin:end]) or code
        kind = "other_code" if end else kind
    return Reply(kind, (), count_lines(code), max(0, count_words(answer) - count_words(code)))
