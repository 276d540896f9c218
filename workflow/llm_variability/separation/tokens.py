"""A program's words: identifiers, keywords and the kinds of its literals, by a regular expression.

Comments and the text of strings are left out: they are prose, which may repeat the prompt. What
an identifier says stays, as it is code. Any language whose comments and strings look like those of
Python or of C is read; what is told apart is enough for counting words, not for parsing.
"""

from __future__ import annotations

import re

NUMBER = "<number>"
STRING = "<string>"

_STRINGS = (
    r"(?:\"\"\"(?:\\.|[^\\])*?(?:\"\"\"|\Z)|'''(?:\\.|[^\\])*?(?:'''|\Z)"
    r"|\"(?:\\.|[^\"\\\n])*(?:\"|$)|'(?:\\.|[^'\\\n])*(?:'|$))"
)
_HASH = r"\#[^\n]*"
_SLASHES = r"//[^\n]*|/\*.*?(?:\*/|\Z)|`(?:\\.|[^`\\])*(?:`|\Z)"
_WORDS = (
    r"(?P<number>(?<![\w.])(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*\.?[\d_]*(?:[eE][-+]?\d+)?)\w*)"
    r"|(?P<word>[^\W\d]\w*)"
)


def _compile(comments: str) -> re.Pattern[str]:
    # A prefix such as f or rb belongs to the string that it opens.
    return re.compile(
        rf"(?P<comment>{comments})|(?P<string>[a-zA-Z]{{0,2}}{_STRINGS})|{_WORDS}",
        re.DOTALL | re.MULTILINE,
    )


_PYTHON = _compile(_HASH)
_OTHERS = _compile(_SLASHES)


def list_tokens(code: str, language: str = "python") -> list[str]:
    """List a program's words in their order: identifiers and keywords, `<number>`, `<string>`.

    language: python has comments from `#` to the end of the line; others from `//`, and between
    `/*` and `*/`.
    """
    pattern = _PYTHON if language == "python" else _OTHERS
    kinds = {"number": NUMBER, "string": STRING}
    return [
        kinds.get(str(found.lastgroup), found.group())
        for found in pattern.finditer(code)
        if found.lastgroup != "comment"
    ]
