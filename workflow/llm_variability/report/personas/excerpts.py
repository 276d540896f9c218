"""What is particular to each persona, with excerpts: the rows of section IV-C of the code paper.

Every choice is a rule over numbers; nobody reads the texts. A feature is particular to a persona if
its mean is `FAR` standard errors or more from the median of the other personas' means: their mean
would let one persona that is far from all make each of the others look far from the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import polars as pl

from llm_variability.linguistics.words import CATEGORIES, read_words
from llm_variability.report.comparisons import Setting, at_setting
from llm_variability.report.personas.statements import name_feature, show_value
from llm_variability.report.wording import percent, show_text
from llm_variability.tables_personas import FEATURE_COLUMNS

FAR = 2.0
"""Standard errors from the others' mean from which a feature is told."""

FEATURES_TOLD = 3
ENTITIES_TOLD = 5
EXCERPTS_SHOWN = 2
EXCERPT_CHARACTERS = 200
"""A longer excerpt is cut."""

EXCERPT_LINES = 4
"""Lines of a program that are shown at most."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")

LINE_SIGNS = {
    "functions": r"^\s*(?:async )?def \w",
    "classes": r"^\s*class \w",
    "imports": r"^\s*(?:import|from) \w",
    "loops": r"\b(?:for|while)\b",
    "branches": r"\b(?:if|elif|case)\b",
    "comments": r"#|\"\"\"|'''",
    "prints": r"\bprint\(",
    "inputs": r"\binput\(",
    "tests": r"\bassert|\bdef test|\bunittest|\bpytest|>>> ",
    "web_framework": r"(?i)\b(?:flask|django|fastapi|streamlit|bottle|tornado|dash)\b|@app\.",
    "database": r"(?i)\bsqlite3|\bsqlalchemy|\bcreate table\b|\binsert into\b|\bselect\b.*\bfrom\b"
    r"|\bpsycopg|\bpymongo|\bmysql",
    "error_handling": r"^\s*(?:try:|except\b|raise\b)",
    "type_hints": r"\bdef .*(?:->|\w: ?\w)",
    "main_guard": r"__main__",
    "password_field": r"(?i)passw|passcode|passphrase|pwd|secret",
}
"""How a line looks that shows a feature; of a feature without a sign, the first lines are shown."""

_MODALS = r"\b(?:can|could|may|might|must|shall|should|will|would)\b|'ll\b|'d\b"


@dataclass(frozen=True)
class Excerpt:
    """A piece of a prompt, program or reply, fit to be read, and where it stands."""

    text: str
    where: str
    is_code: bool = False


@dataclass(frozen=True)
class Outstanding:
    """A feature of a persona and how far it is from the others, in standard errors."""

    feature: str
    mean: float
    others: float
    distance: float

    def describe(self) -> str:
        value, others = (show_value(self.feature, each) for each in (self.mean, self.others))
        return f"{name_feature(self.feature)} {value} (others {others})"


def find_outstanding(
    means: pl.DataFrame, persona: str, features: Sequence[str] | None = None
) -> list[Outstanding]:
    """Find the features in which a persona is furthest from the others, the furthest first.

    The distance is the persona's mean less the median of the others', over the standard error that
    a difference from the others' mean has if all personas' variances are their mean. Features
    of which the persona itself has no standard error, as it has one prompt only, and those nearer
    than `FAR`, are left out.

    means: rows of `persona_means` of one model and setting, or of the prompts. features: those that
    may be told, by default all.
    """
    found = []
    rows = means.drop_nulls("mean")
    for (feature,), part in rows.partition_by("feature", maintain_order=True, as_dict=True).items():
        own = part.filter(persona=persona).drop_nulls("std_error")["mean"]
        others = part.filter(pl.col("persona") != persona)["mean"]
        variance = (part["std_error"].drop_nulls() ** 2).mean()
        if not own.len() or not others.len() or not variance or not isinstance(variance, float):
            continue
        if features is not None and feature not in features:
            continue
        mean, rest = float(own[0]), float(others.median())  # type: ignore[arg-type]
        distance = (mean - rest) / sqrt(variance * (1 + 1 / others.len()))
        if abs(distance) >= FAR:
            found.append(Outstanding(str(feature), mean, rest, distance))
    return sorted(found, key=lambda each: -abs(each.distance))[:FEATURES_TOLD]


@dataclass(frozen=True)
class Distinctive:
    """An entity, the share of a persona's prompts that have it and the others' mean share."""

    entity: str
    share: float
    others: float

    def describe(self) -> str:
        return f"{show_text(self.entity)} ({percent(self.share)}; others {percent(self.others)})"


def find_distinctive(
    entities: pl.DataFrame, prompts: Mapping[str, int], persona: str
) -> list[Distinctive]:
    """Find the entities that a persona has more often than the others, the most so first.

    entities: an ENTITIES table. prompts: of each persona. Entities are ordered by the share of the
    persona's prompts that have them less the mean of the other personas' shares; then by the
    persona's sentences with them.
    """
    own = entities.filter(pl.col("persona") == persona)
    sentences = dict(own.select("entity", "sentences").iter_rows())
    shares = {
        (entity, who): count / prompts[who]
        for entity, who, count in entities.select("entity", "persona", "prompts").iter_rows()
        if prompts.get(who)
    }
    others = [who for who, count in prompts.items() if who != persona and count]
    found = []
    for (entity, who), share in shares.items():
        if who != persona or not others:
            continue
        rest = sum(shares.get((entity, each), 0.0) for each in others) / len(others)
        if share > rest:
            found.append(Distinctive(entity, share, rest))
    found.sort(key=lambda each: (each.others - each.share, -sentences[each.entity], each.entity))
    return found[:ENTITIES_TOLD]


def cut(text: str, characters: int = EXCERPT_CHARACTERS) -> str:
    """Make a text fit to be read, and cut it at a number of characters."""
    shown = show_text(text[:characters].strip())
    return f"{shown} …" if len(text) > characters else shown


def part_sentences(text: str) -> list[str]:
    """Part a text at line ends and behind full stops, question and exclamation marks."""
    return [part for each in _SENTENCE_END.split(text) if (part := each.strip())]


def _choose_sentence(text: str, sign: re.Pattern[str] | None) -> tuple[str, int]:
    """Choose the sentence with most matches of a sign, the first of as many; and their number."""
    sentences = part_sentences(text) or [""]
    if sign is None:
        return sentences[0], 0
    counts = [len(set(map(str.lower, sign.findall(each)))) for each in sentences]
    best = max(range(len(sentences)), key=lambda at: counts[at])
    return sentences[best], counts[best]


def _match_words(words: Sequence[str]) -> re.Pattern[str] | None:
    """Match any of some words, their plurals and the like among them."""
    alternatives = [r"\W+".join(map(re.escape, each.split())) for each in words if each.split()]
    if not alternatives:
        return None
    return re.compile(rf"\b(?:{'|'.join(alternatives)})\w{{0,3}}\b", re.IGNORECASE)


def excerpt_entities(texts: pl.DataFrame, entities: Sequence[Distinctive]) -> list[Excerpt]:
    """Take, of the prompts of a persona, the sentences with most of its distinctive entities.

    texts: task, iteration and text of the prompts. One sentence a prompt, the best first.
    """
    sign = _match_words([each.entity for each in entities])
    if sign is None:
        return []
    found = [
        (*_choose_sentence(row["text"], sign), _place(row)) for row in texts.iter_rows(named=True)
    ]
    ranked = sorted(found, key=lambda each: -each[1])
    return [Excerpt(cut(text), where) for text, count, where in ranked[:EXCERPTS_SHOWN] if count]


def _place(row: Mapping[str, Any]) -> str:
    return f"{row['task']}, iteration {row['iteration']}"


def find_sentence_sign(feature: str, more: bool) -> re.Pattern[str] | None:
    """Give what a sentence shows a feature of wording by; None where nothing shows it.

    more: whether there is more of the feature than elsewhere. What there is less of shows in no
    sentence, but in a difference of two categories the other one does.
    """
    first, _, second = feature.partition("_less_")
    name = first if more else second
    if name == "questions":
        return re.compile(r"\?")
    if name == "modals":
        return re.compile(_MODALS, re.IGNORECASE)
    if name in CATEGORIES:
        index = read_words().categories[name]
        return _match_words([" ".join(each.words) for listed in index.values() for each in listed])
    return None


def excerpt_style(
    texts: pl.DataFrame, style: pl.DataFrame, found: Sequence[Outstanding]
) -> list[Excerpt]:
    """Take a sentence each of the prompts that are furthest in one of a persona's features.

    It is the first feature that a sentence can show, or else the first.

    texts: task, iteration (text) and text of the persona's prompts. style: its rows of a STYLE
    table.
    """
    if not found:
        return []
    signs = [find_sentence_sign(each.feature, each.distance > 0) for each in found]
    place = next((at for at, sign in enumerate(signs) if sign is not None), 0)
    more, sign = found[place].distance > 0, signs[place]
    ranked = (
        style.filter(feature=found[place].feature)
        .drop_nulls("value")
        .sort("value", descending=more, maintain_order=True)
        .join(texts, on=["task", "iteration"], how="inner", maintain_order="left")
    )
    return [
        Excerpt(cut(_choose_sentence(row["text"], sign)[0]), _place(row))
        for row in ranked.head(EXCERPTS_SHOWN).iter_rows(named=True)
    ]


def excerpt_lines(code: str, feature: str, more: bool) -> str:
    """Take the lines of a program that show a feature, or its first lines where none does."""
    lines = [line for line in code.splitlines() if line.strip()]
    sign = LINE_SIGNS.get(feature) if more else None
    lines = [line[:EXCERPT_CHARACTERS] for line in lines]
    kept = [line for line in lines if sign is not None and re.search(sign, line)] or lines
    shown = "\n".join(kept[:EXCERPT_LINES])
    return cut(shown)


def choose_shown(found: Sequence[Outstanding]) -> Outstanding:
    """Choose the first feature of code that lines can show, or else the first."""
    seen = (each for each in found if each.distance > 0 and each.feature in LINE_SIGNS)
    return next(seen, found[0])


def excerpt_programs(
    features: pl.DataFrame,
    programs: pl.DataFrame,
    found: Outstanding,
    setting: Setting,
    model: str,
) -> Iterator[Excerpt]:
    """Take lines of the programs of a persona that are furthest in a feature, one a prompt.

    features: the persona's rows of a FEATURES table of one model. programs: its PROGRAMS table.
    """
    more = found.distance > 0
    if found.feature not in features.columns:
        return
    ranked = (
        features.filter(at_setting(setting), pl.col("reply") == "program")
        .drop_nulls(found.feature)
        .sort(found.feature, descending=more, maintain_order=True)
        .unique("prompt_id", keep="first", maintain_order=True)
        .join(
            programs.filter(at_setting(setting)).select("prompt_id", "replicate", "code"),
            on=["prompt_id", "replicate"],
            how="inner",
            maintain_order="left",
        )
        .drop_nulls("code")
    )
    for row in ranked.head(EXCERPTS_SHOWN).iter_rows(named=True):
        text = excerpt_lines(row["code"], found.feature, more)
        yield Excerpt(text, f"{model}, {_place(row)}", is_code=True)


def excerpt_replies(features: pl.DataFrame, draws: pl.DataFrame, model: str) -> Iterator[Excerpt]:
    """Take the beginnings of replies without code, one a prompt, in the order of the rows.

    features: rows of a FEATURES table of one setting. draws: the DRAWS table of that setting.
    model: whose they are.
    """
    none = features.filter(pl.col("reply") == "none").join(
        draws.select("prompt_id", "replicate", "text"),
        on=["prompt_id", "replicate"],
        how="inner",
        maintain_order="left",
    )
    rows = none.drop_nulls("text").unique("prompt_id", keep="first", maintain_order=True)
    for row in rows.head(EXCERPTS_SHOWN).iter_rows(named=True):
        yield Excerpt(cut(row["text"]), f"{model}, {_place(row)}")


CODE_TOLD = tuple(name for name in FEATURE_COLUMNS if name not in ("reply_words", "nodes"))
"""Features of code that may be told of a persona."""
