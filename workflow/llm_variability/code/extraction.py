"""From a model's reply to the program in it, and whether it is one.

A reply is prose, code, or both. Code stands in a fence as a rule: with or without a language's
name, indented in a list, several in a reply, unclosed where the reply was cut off. Some replies are
code alone, with or without a sentence around it. Some hold none: a refusal is not a program, and
must not be compared as one.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import tree_sitter

from llm_variability.code.languages import LANGUAGES, Language, find_language
from llm_variability.code.trees import parse_code
from llm_variability.tables_code import PROGRAM_STATUSES

STATUSES = PROGRAM_STATUSES
"""Of a draw: a program that parses; code that does not; code whose end is missing as the reply was
cut off; no code at all. Only `ok` is compared."""

SOURCES = ("fence", "unclosed_fence", "bare", "none")
"""Where code stood: in a fence, in one that never closed, in the reply as it is, nowhere."""

Choice = Literal["longest", "first", "last", "joined"]
"""Which of several fences is taken; `joined` puts all together, in order."""

_THOUGHT = re.compile(r"<(think|thinking|reasoning|thought)>.*?(?:</\1>|\Z)", re.DOTALL | re.I)
_THOUGHT_END = re.compile(r"\A.*</(?:think|thinking|reasoning|thought)>", re.DOTALL | re.I)

_FENCE = re.compile(r"^(?P<indent>[ \t]*(?:>[ \t]?)*)(?P<mark>`{3,}|~{3,})(?P<info>.*)$")
_ONE_LINE = re.compile(r"^[ \t]*(`{3,})(?P<inside>[^`]+)\1[ \t]*$")
_TAG = re.compile(r"^[ \t]*\{?[ \t]*\.?(?P<tag>[A-Za-z][\w+#-]*)?")

NOT_PROGRAMS = frozenset(
    re.findall(
        r"\S+",
        "bash sh shell zsh console terminal cmd powershell ps1 bat text txt plaintext plain output"
        " out json yaml yml toml ini xml csv markdown md diff log mermaid dockerfile makefile",
    )
)
"""What fences are marked with that hold no program of the languages here."""


@dataclass(frozen=True)
class Extraction:
    """What a reply holds.

    status: one of `STATUSES`. code: the program, empty for `no_code`. source: one of `SOURCES`.
    fences: how many fences could be a program of the language. tag: the language that the fence
    names, lower case; empty for none.
    """

    status: str
    code: str
    source: str
    fences: int = 0
    tag: str = ""


@dataclass(frozen=True)
class Fence:
    """A fence: the language that it names (lower case, may be empty), its text, its end found."""

    tag: str
    text: str
    closed: bool


def drop_reasoning(reply: str) -> str:
    """Take out what a model thought aloud between tags; unclosed, it runs to the end.

    A closing tag alone ends a block that the prompt had opened.
    """
    return _THOUGHT_END.sub("", _THOUGHT.sub("", reply))


def find_fences(reply: str) -> list[Fence]:
    """Find the fenced blocks of a reply, in order.

    Backticks or tildes, three or more, at any indentation, which is taken off their lines, and in
    quotes (`>`). A fence closes with as many of the same, indented by three more at most, so that
    one in a docstring does not close it; where it does not, at the next line that ends with them.
    Else it is not closed, and runs to the next fence of a known language or to the end. A fence
    inside another (of Markdown) is found so, too.
    """
    return part_fences(reply)[0]


def part_fences(reply: str) -> tuple[list[Fence], list[str]]:
    """Part a reply into its fenced blocks, as `find_fences` tells them, and the lines outside."""
    lines = reply.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    fences: list[Fence] = []
    outside: list[str] = []
    at = 0
    while at < len(lines):
        opening, one_line = _FENCE.match(lines[at]), _ONE_LINE.match(lines[at])
        at += 1
        if one_line:
            tag, rest = _split_info(one_line["inside"])
            fences.append(Fence(tag, rest.strip(), closed=True))
        elif opening and not (opening["mark"][0] == "`" and "`" in opening["info"]):
            fence, at = _read_fence(lines, at, opening)
            fences.append(fence)
        else:
            outside.append(lines[at - 1])
    return fences, outside


def _read_fence(lines: Sequence[str], begin: int, opening: re.Match[str]) -> tuple[Fence, int]:
    """Read a fence whose text begins at a line; returns it and the line to go on from."""
    mark, indent = opening["mark"], opening["indent"]
    tag, rest = _split_info(opening["info"])
    head = [rest] if rest.strip() else []
    closing = re.compile(rf"^[ \t>]{{0,{len(indent) + 3}}}{mark[0]}{{{len(mark)},}}[ \t]*$")
    for end in range(begin, len(lines)):
        if closing.match(lines[end]) or _opens_anew(lines[end], len(indent) + 3):
            closed = bool(closing.match(lines[end]))
            body = head + _outdent(lines[begin:end], indent)
            return Fence(tag, "\n".join(body), closed), end + closed
    for end in range(begin, len(lines)):
        line = lines[end].rstrip()
        if line.endswith(mark) and line.strip(f"{mark[0]} \t"):
            body = head + _outdent([*lines[begin:end], line.rstrip(mark[0])], indent)
            return Fence(tag, "\n".join(body), closed=True), end + 1
    body = head + _outdent(lines[begin:], indent)
    return Fence(tag, "\n".join(body), closed=False), len(lines)


def _opens_anew(line: str, most: int) -> bool:
    """Say whether a line opens a fence of a known language, which no end of a fence looks like."""
    found = _FENCE.match(line)
    if not found or len(found["indent"]) > most:
        return False
    tag = _TAG.match(found["info"])
    named = ((tag and tag["tag"]) or "").lower()
    return any(named in each.tags for each in LANGUAGES.values())


def _split_info(info: str) -> tuple[str, str]:
    """Part what stands after a fence's mark into a language and code that begins on that line.

    Only a known language can have code after it: `python title=...` is a language with attributes.
    """
    found = _TAG.match(info)
    if info.lstrip().startswith("{") and info.rstrip().endswith("}"):
        info = ""
    tag = ((found and found["tag"]) or "").lower()
    known = tag in NOT_PROGRAMS or any(tag in each.tags for each in LANGUAGES.values())
    rest = info[found.end() :].strip() if found else info.strip()
    if not known:
        return (tag, "") if re.fullmatch(r"[ \t]*[\w+#-]*[ \t]*", info) else ("", info)
    attributes = re.match(r"[:,{]|[\w-]+=[\"']|$", rest)
    return (tag, "") if attributes else (tag, rest)


def _outdent(lines: Sequence[str], indent: str) -> list[str]:
    """Take an indentation, or what there is of it, off lines."""
    if ">" in indent:
        depth = indent.count(">")
        return [re.sub(rf"^(?:[ \t]*>){{0,{depth}}} ?", "", line) for line in lines]
    shared = len(indent)
    return [line[min(shared, len(line) - len(line.lstrip(" \t"))) :] for line in lines]


def extract_code(
    reply: str,
    language: str,
    *,
    cut_off: bool = False,
    choice: Choice = "longest",
    strip_comments: bool = False,
    strip_docstrings: bool = False,
) -> Extraction:
    """Find the program in a reply, and say whether it is one.

    cut_off: whether the model was stopped at its token limit. A fence that had closed before is
    whole all the same; code without an end that is known is `truncated`. choice: which of several
    fences is taken. Fences of another kind (shell, output, JSON) are never a program; those of
    another language only where none is of this one or of none.

    A reply without a fence is code where it parses as such and does more than name things, or where
    the longest run of whole lines does. strip_comments, strip_docstrings: as in `strip_remarks`,
    where the code parses.
    Raises ConfigError for a language that is not known or whose grammar is not installed.
    """
    spoken = find_language(language)
    answer = drop_reasoning(reply)
    fences = _choose_fences(find_fences(answer), spoken)
    if fences:
        code, tag, closed = _take(fences, choice)
        source = "fence" if closed else "unclosed_fence"
    else:
        tag, closed = "", False
        code = "" if find_fences(answer) else _find_bare_code(answer, spoken, cut_off)
        source = "bare" if code else "none"
    code = _tidy(_drop_prompts(code))
    if not code or not _holds_code(code, spoken):
        return Extraction("no_code", "", "none", len(fences), tag)
    valid = parses(code, language)
    status = "ok" if valid else "invalid"
    if cut_off and not closed:
        status = "truncated"
    if valid and (strip_comments or strip_docstrings):
        code = strip_remarks(code, language, strip_comments, strip_docstrings)
    return Extraction(status, code, source, len(fences), tag)


def _choose_fences(fences: Sequence[Fence], language: Language) -> list[Fence]:
    """Keep the fences that can be programs of a language: those named so, or else unnamed ones."""
    filled = [fence for fence in fences if fence.text.strip() and fence.tag not in NOT_PROGRAMS]
    for wanted in (
        [fence for fence in filled if fence.tag in language.tags],
        [fence for fence in filled if not fence.tag],
    ):
        if wanted:
            return wanted
    return filled


def _take(fences: Sequence[Fence], choice: Choice) -> tuple[str, str, bool]:
    """Take a program from fences: its text, the language named and whether its end was found."""
    if choice == "joined":
        text = "\n\n".join(_tidy(fence.text) for fence in fences)
        return text, fences[0].tag, all(fence.closed for fence in fences)
    taken = {
        "first": fences[0],
        "last": fences[-1],
        "longest": max(fences, key=lambda fence: len(fence.text.strip())),
    }[choice]
    return taken.text, taken.tag, taken.closed


def _tidy(code: str) -> str:
    """Take off blank lines around code and, where it begins indented, what all lines share."""
    kept = code.strip("\n")
    if kept[:1].isspace():
        kept = textwrap.dedent(kept).strip("\n")
    return f"{kept.rstrip()}\n" if kept.strip() else ""


_PROMPT = re.compile(r"[ \t]*(?:>>>|\.\.\.)(?: |$)")
_CLEARLY_CODE = re.compile(
    r"[ \t]+\S|(?:async[ \t]+)?def[ \t]+\w+[ \t]*\(|class[ \t]+\w+[ \t]*[:(]|@\w"
    r"|(?:import|from|for|while|with|if|return)\b.*|\w+[ \t]*=[^=]"
)


def _drop_prompts(code: str) -> str:
    """Take the prompts of an interactive session off its lines, and its output out.

    A line without a prompt is output, unless it is indented or begins as code does: then it is a
    program whose lines do not all have prompts, and all of them stay.
    """
    if not code.lstrip().startswith(">>> "):
        return code
    lines = code.split("\n")
    if any(_CLEARLY_CODE.match(line) for line in lines if not _PROMPT.match(line)):
        return "\n".join(_PROMPT.sub("", line, count=1) for line in lines)
    return "\n".join(_PROMPT.sub("", line, count=1) for line in lines if _PROMPT.match(line))


def parses(code: str, language: str) -> bool:
    """Say whether a program is free of mistakes in its grammar.

    That is: no ERROR and no MISSING node, and for Python, that `ast.parse` takes it too.
    """
    if parse_code(code, language).root_node.has_error:
        return False
    return language != "python" or _python_takes(code)


def _python_takes(code: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


_NAMES_AND_VALUES = frozenset(
    re.findall(
        r"\S+",
        "module program source_file translation_unit expression_statement identifier string"
        " string_start string_content string_end integer float number attribute tuple true false"
        " none ERROR escape_sequence unary_operator binary_operator comparison_operator"
        " boolean_operator not_operator subscript list type field_expression type_identifier",
    )
)
"""Types of nodes that a word or two of prose can have, read as code."""


def _does_something(parsed: tree_sitter.Tree) -> bool:
    """Say whether a tree has a node that prose read as code hardly has: a call, a definition."""
    return any(
        node.is_named and node.type not in _NAMES_AND_VALUES for node in _walk(parsed.root_node)
    )


def _holds_code(code: str, language: Language) -> bool:
    """Say whether there is anything but comments."""
    root = parse_code(code, language.name).root_node
    return any(child.type not in language.comments for child in root.children)


def _walk(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(reversed(each.children))


_CLEAR = re.compile(
    r"(?:async\s+)?def\s+\w+\s*\(|class\s+\w+\s*[:({]|import\s+[\w.]+\s*;?$|from\s+[\w.]+\s+import\b"
    r"|(?:async\s+)?function\s+\w+\s*\(|(?:const|let|var)\s+\w+\s*=|public\s+(?:static|class)\b"
    r"|#include\b|package\s+[\w.]+;?\s*$|func\s+\w+\s*\(|(?:pub\s+)?fn\s+\w+\s*[(<]"
    r"|use\s+\w+::|@\w+\s*(?:\(|$)|\w+\s*=\s*[\w\"'(\[{]"
)
_PATIENCE = 10
"""How many lines that are not indented may follow before what does not parse so far is given up."""

_SENTENCE = re.compile(r"[A-Za-z][\w',-]*(?:\s+[\w',()-]+){3,}\s*[.!?:]?\s*$")
_SIGNS = re.compile(r"[=(){}\[\];]|:\s*$|\bimport\b")


def _find_bare_code(reply: str, language: Language, cut_off: bool) -> str:
    """Find code that stands in no fence.

    It is the longest run of whole lines that parses, does something, and leaves no line outside
    that clearly begins code. A run begins where a line can begin code and the one before cannot; it
    ends before a line that is not indented. Where there is none, or the reply was cut off, it is
    all from the first line that clearly begins code.
    """
    whole = re.fullmatch(r"\s*`([^`\n]+)`\s*", reply)
    if whole:
        return whole[1]
    lines = reply.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    clear = [number for number, line in enumerate(lines) if _CLEAR.match(line)]
    everything = "\n".join(lines[clear[0] :]) if clear else ""
    if cut_off:
        return everything
    begin, end = _longest_run(lines, language)
    if all(begin <= number < end for number in clear):
        return "\n".join(lines[begin:end])
    return everything


def _longest_run(lines: Sequence[str], language: Language) -> tuple[int, int]:
    """Find the longest run of lines that is a program: its first line, and the first after it."""
    begins = []
    inside = False
    for number, line in enumerate(lines):
        if line.strip() and not line[0].isspace():
            can_begin = bool(language.opening.match(line)) and not _is_sentence(line)
            if can_begin and not inside:
                begins.append(number)
            inside = can_begin
    ends = [
        number
        for number in range(1, len(lines) + 1)
        if number == len(lines) or (lines[number].strip() and not lines[number][0].isspace())
    ]
    best = (0, 0)
    for number, begin in enumerate(begins):
        if begin < best[1]:
            continue
        after = [end for end in ends if end > begin]
        # Most often all that follows is code, but for a sentence or two.
        tail = reversed(after[-_PATIENCE:]) if number < 3 else iter(())
        whole = (end for end in tail if _is_program(lines[begin:end], language))
        found = next(whole, None) or _grow(lines, begin, after, language)
        if found - begin > best[1] - best[0]:
            best = (begin, found)
    return best


def _grow(lines: Sequence[str], begin: int, ends: Sequence[int], language: Language) -> int:
    """Find the last of the ends up to which lines are a program; `begin` where they never are."""
    last, tries = begin, 0
    for end in ends:
        tries += 1
        if _is_program(lines[begin:end], language):
            last, tries = end, 0
        elif tries == _PATIENCE:
            break
    return last


def _is_program(lines: Sequence[str], language: Language) -> bool:
    code = "\n".join(lines) + "\n"
    return parses(code, language.name) and _does_something(parse_code(code, language.name))


def _is_sentence(line: str) -> bool:
    """Say whether a line that could begin code is rather prose, as 'for this task we would'."""
    return bool(_SENTENCE.match(line)) and not _SIGNS.search(line)


def strip_remarks(code: str, language: str, comments: bool = True, docstrings: bool = True) -> str:
    """Take comments and, in Python, docstrings out of a program.

    A line that held nothing else goes with them; a body of which nothing is left becomes `pass`.
    """
    spoken = find_language(language)
    encoded = code.encode("utf-8", "replace")
    cuts: list[tuple[int, int, bytes]] = []
    for node in _walk(parse_code(code, language).root_node):
        if comments and node.type in spoken.comments:
            cuts.append((node.start_byte, node.end_byte, b""))
        elif docstrings and language == "python":
            cuts.extend(_cut_docstring(node, spoken))
    for begin, end, instead in sorted(cuts, reverse=True):
        begin, end = (begin, end) if instead else _widen(encoded, begin, end)
        encoded = encoded[:begin] + instead + encoded[end:]
    return encoded.decode("utf-8", "replace")


def _cut_docstring(node: tree_sitter.Node, language: Language) -> list[tuple[int, int, bytes]]:
    """Say what to cut for a docstring, if the node is a module or the body of what has one."""
    parent = node.parent
    owned = parent is not None and parent.type in ("function_definition", "class_definition")
    if node.type != "module" and not (node.type == "block" and owned):
        return []
    statements = [child for child in node.named_children if child.type not in language.comments]
    if not statements or statements[0].type != "expression_statement":
        return []
    inside = statements[0].named_children
    if len(inside) != 1 or inside[0].type not in ("string", "concatenated_string"):
        return []
    alone = len(statements) == 1 and node.type == "block"
    return [(statements[0].start_byte, statements[0].end_byte, b"pass" if alone else b"")]


def _widen(encoded: bytes, begin: int, end: int) -> tuple[int, int]:
    """Widen a cut to the space before it, and to its whole lines if they hold nothing else."""
    line = encoded.rfind(b"\n", 0, begin) + 1
    stop = encoded.find(b"\n", end)
    stop = len(encoded) if stop < 0 else stop
    after = encoded[end:stop].strip()
    if not encoded[line:begin].strip() and not after:
        return line, min(stop + 1, len(encoded))
    if not after:
        return len(encoded[:begin].rstrip(b" \t")), end
    return begin, end
