"""Programming languages as data: which grammar reads them and how their code is told from prose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType

import tree_sitter

from llm_variability.config import ConfigError


@dataclass(frozen=True)
class Language:
    """A language that replies may be written in.

    package: the wheel that holds its tree-sitter grammar, named as the package index does. ending:
    of a file, with the dot. tags: what opens a fence of it, lower case. comments: the types of the
    grammar's comment nodes. opening: a regular expression that a line which begins code matches.
    """

    name: str
    package: str
    ending: str
    tags: frozenset[str]
    comments: frozenset[str]
    opening: re.Pattern[str]

    @property
    def module(self) -> str:
        """The grammar's module."""
        return self.package.replace("-", "_")


def _language(
    name: str, ending: str, tags: str, comments: str, opening: str, package: str = ""
) -> Language:
    return Language(
        name,
        package or f"tree-sitter-{name}",
        ending,
        frozenset(tags.split()),
        frozenset(comments.split()),
        re.compile(opening),
    )


_LANGUAGES = (
    _language(
        "python",
        ".py",
        "python python3 python2 py py3 pycon ipython ipython3",
        "comment",
        r"(?:(?:async\s+)?(?:def|for|with)|class|import|from|while|if|try|return|raise|assert|del"
        r"|global|match)\b.*|@\w|#|[\"']{3}|[A-Za-z_][\w.\[\]'\", ]*(?:[-+*/%|&^@]|//|\*\*)?="
        r"|[A-Za-z_][\w.]*\(",
    ),
    _language(
        "javascript",
        ".js",
        "javascript js jsx mjs cjs node nodejs",
        "comment html_comment",
        r"(?:async|function|class|const|let|var|import|export|if|for|while|switch|try|return)\b"
        r"|//|/\*|[\"']use strict|[A-Za-z_$][\w.$]*\s*(?:=|\()",
    ),
    _language(
        "java",
        ".java",
        "java",
        "line_comment block_comment",
        r"(?:package|import|public|private|protected|static|abstract|final|class|interface|enum"
        r"|record|void|int|long|double|boolean|String)\b|@\w|//|/\*",
    ),
    _language(
        "cpp",
        ".cpp",
        "cpp c++ cc cxx hpp h++",
        "comment",
        r"#\s*\w|(?:using|namespace|template|class|struct|enum|union|typedef|static|const|constexpr"
        r"|inline|extern|auto|void|bool|char|int|long|unsigned|float|double|size_t)\b|std::|//|/\*",
    ),
    _language(
        "go",
        ".go",
        "go golang",
        "comment",
        r"(?:package|import|func|type|var|const)\b|//|/\*",
    ),
    _language(
        "rust",
        ".rs",
        "rust rs",
        "line_comment block_comment",
        r"(?:pub|use|mod|fn|struct|enum|impl|trait|type|const|static|let|unsafe|async|extern"
        r"|macro_rules!)(?:\b|(?<=!))|#!?\[|//|/\*",
    ),
)

LANGUAGES: Mapping[str, Language] = MappingProxyType({each.name: each for each in _LANGUAGES})
"""By name. Python's grammar comes with the project, the others when their package is installed."""


def find_language(name: str) -> Language:
    """Look a language up. Raises ConfigError for one that is not known."""
    if name not in LANGUAGES:
        raise ConfigError(f"language {name!r} is not known; languages are {', '.join(LANGUAGES)}")
    return LANGUAGES[name]


@lru_cache
def load_grammar(name: str) -> tree_sitter.Language:
    """Load a language's grammar, once.

    Raises ConfigError where its package is not installed, or does not fit the installed core: no
    other grammar stands in for it.
    """
    language = find_language(name)
    try:
        return tree_sitter.Language(import_module(language.module).language())
    except ImportError as error:
        raise ConfigError(
            f"language {name}: its grammar is not installed; install {language.package}"
        ) from error
    except ValueError as error:
        raise ConfigError(
            f"language {name}: {language.package} does not fit tree-sitter"
            f" {tree_sitter.LANGUAGE_VERSION} ({error})"
        ) from error
