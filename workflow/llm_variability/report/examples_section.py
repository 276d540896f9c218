"""What the page says of a study's examples: a table of a few, and all of them to leaf through."""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from llm_variability.config import cell_name
from llm_variability.report.comparisons import Setting, at_setting
from llm_variability.report.personas.names import choose_persona_setting
from llm_variability.report.pictures import Context, relative
from llm_variability.report.wording import quantity, show_text, signed
from llm_variability.tables import EXAMPLES, Design, read_design, read_table

PAGE_BYTES = 3_000_000
"""What the examples of all studies together may take of the page."""

GROUPS_SHOWN = 12
"""Groups that the table of examples has at most."""

TABLE_CHARACTERS = 600
"""A longer prompt or answer is cut in that table."""

CHARACTERS = (4000, 2000, 1000, 500, 250)
"""Where longer texts are cut, the first of these that keeps the page small."""

ENDS = ("medoid", "farthest")
"""Roles of draws that were chosen by how alike they are."""

_ROLES = {
    "medoid": "Medoid: most alike",
    "farthest": "Farthest: least alike",
    "first": "First draw: nothing to compare",
}


@dataclass(frozen=True)
class _Kind:
    """What a group is called, what it is compared with, whether answers are programs."""

    group: str
    mates: str
    has_programs: bool


_GROUP = _Kind("group", "the other texts of the same {block} and group", False)
_CONDITIONS = {
    "augmentation": _Kind("augmentation", "the programs of its {block}'s unaltered prompt", True),
    "persona": _Kind("persona", "the persona's other programs for the same {block}", True),
}


def _find_kind(design: Design) -> _Kind:
    return next((_CONDITIONS[name] for name in design.carried if name in _CONDITIONS), _GROUP)


def _describe_rule(design: Design, kind: _Kind, measure: str) -> str:
    block, group = design.block, kind.group
    return (
        f"Of each setting and {group}, two draws of one {block}: that whose mean similarity is the"
        f" median of the {group}'s {block}s (of an even number, the lower of the two in the"
        f" middle). The medoid is on average most like {kind.mates.format(block=block)}, the"
        f" farthest least, measured with {measure}. Of equals the first in order; where all are"
        " equally alike, that one alone; where nothing can be compared, the first draw. Besides,"
        " of each model, draws of every status that is not ok, the first of each of up to three"
        " prompts. The rule does not look at the text."
    )


def _name_role(role: str) -> str:
    if role in _ROLES:
        return _ROLES[role]
    status = role.removeprefix("first ")
    if status.startswith("program "):
        return f"Reply holds: {_name_program(status.removeprefix('program '))}"
    return f"Status: {_name_status(status)}"


def _name_status(status: str) -> str:
    return status.replace("_", " ")


def _name_program(status: str) -> str:
    return {"ok": "a program", "invalid": "code that does not parse", "truncated": "cut code"}.get(
        status, _name_status(status)
    )


def _name_setting(setting: Setting) -> str:
    temperature, top_p = setting
    return f"T {temperature}, greedy" if top_p is None else f"T {temperature}, top-p {top_p}"


def _tell_similarity(row: Mapping[str, Any], kind: _Kind) -> str:
    if row["similarity"] is None:
        return "–"
    others = quantity(row["mates"], "program" if kind.has_programs else "text")
    return f"{signed(row['similarity'], 3)} to {others}"


def _show(row: Mapping[str, Any], name: str, most: int) -> str:
    """Write a text of an example, at most so long; what the server refused where there is none."""
    if name == "text" and not row["text"]:
        return show_text(row["error"] or "(no text)", most)
    length = row["characters" if name == "text" else "prompt_characters"]
    return show_text(row[name], most, length)


def _arrange_end(row: Mapping[str, Any] | None, kind: _Kind) -> Context | None:
    """Write an example for the table."""
    if row is None:
        return None
    told = [
        _tell_similarity(row, kind) if row["role"] in ENDS else _name_role(row["role"]),
        _name_status(row["status"]),
        _name_program(row["program"]) if row["program"] else "",
        quantity(row["words"], "word"),
        f"draw {row['replicate']}",
        f"seed {row['seed']}",
    ]
    return {
        "block": show_text(row["block"]),
        "prompt": _show(row, "prompt", TABLE_CHARACTERS),
        "text": _show(row, "text", TABLE_CHARACTERS),
        "told": ", ".join(text for text in told if text),
    }


def _arrange_table(examples: pl.DataFrame, kind: _Kind, setting: Setting) -> Context:
    """Lay out the ends of each group of the first model at a setting."""
    model = examples["model"][0]
    here = examples.filter(at_setting(setting), pl.col("model") == model)
    found = {(row["group"], row["role"]): row for row in here.iter_rows(named=True)}
    groups = here["group"].unique(maintain_order=True).to_list()
    return {
        "model": model,
        "cell": cell_name(*setting),
        "groups": len(groups),
        "rows": [
            {
                "group": show_text(group),
                "medoid": _arrange_end(
                    found.get((group, "medoid")) or found.get((group, "first")), kind
                ),
                "farthest": _arrange_end(found.get((group, "farthest")), kind),
            }
            for group in groups[:GROUPS_SHOWN]
        ],
    }


@dataclass(frozen=True)
class _Share:
    """Which part of the examples the page has: every so many settings and groups; letters."""

    settings: int
    groups: int
    characters: int


def _list_shares(settings: int, groups: int) -> Iterator[_Share]:
    """List what the page may have, most first: fewer settings, then shorter texts, fewer groups."""
    for step in range(1, settings + 1):
        yield _Share(step, 1, CHARACTERS[0])
    for characters in CHARACTERS[1:]:
        yield _Share(settings, 1, characters)
    for step in range(2, groups + 1):
        yield _Share(settings, step, CHARACTERS[-1])


def _take(examples: pl.DataFrame, share: _Share, default: Setting) -> pl.DataFrame:
    """Keep a share of the settings, the default among them, and groups; failing draws all."""
    settings = examples.select("temperature", "top_p").unique(maintain_order=True)
    kept = [default, *settings.gather_every(share.settings).rows()]
    groups = examples["group"].unique(maintain_order=True).gather_every(share.groups)
    is_kept = pl.any_horizontal(at_setting(setting) for setting in kept)
    is_failing = ~pl.col("role").is_in([*ENDS, "first"])
    return examples.filter(is_failing | (is_kept & pl.col("group").is_in(groups.to_list())))


class _Numbers:
    """Numbers things in the order in which they are met."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def of(self, thing: Any) -> int:
        return self._numbers.setdefault(thing, len(self._numbers))

    def find(self, thing: Any) -> int | None:
        return self._numbers.get(thing)

    @property
    def things(self) -> list[Any]:
        return list(self._numbers)


def _list_fields(design: Design, kind: _Kind) -> list[str]:
    """List what is told of an example in the browser, besides prompt and text."""
    programs = ["Reply holds"] if kind.has_programs else []
    block = design.block.capitalize()
    return [block, "Mean similarity", "Status", *programs, "Length", "Draw", "Seed", "File"]


def _fill_fields(row: Mapping[str, Any], kind: _Kind) -> list[str]:
    """Write what `_list_fields` names."""
    why = f" ({show_text(row['finish_reason'])})" if row["finish_reason"] else ""
    length = f"{quantity(row['words'], 'word')}, {quantity(row['characters'], 'character')}"
    return [
        show_text(row["block"]),
        _tell_similarity(row, kind),
        f"{_name_status(row['status'])}{why}",
        *([_name_program(row["program"] or "–")] if kind.has_programs else []),
        length,
        str(row["replicate"]),
        str(row["seed"]),
        show_text(row["file"]),
    ]


def _pack(
    examples: pl.DataFrame, design: Design, kind: _Kind, default: Setting, characters: int
) -> Context:
    """Gather what the browser of examples shows, each name, prompt and value once.

    A row: numbers of its model, setting, group, role and prompt, its text, numbers of its fields'
    values.
    """
    models, settings, groups, roles, prompts, values = (_Numbers() for _ in range(6))
    rows = []
    for row in examples.iter_rows(named=True):
        prompt = (show_text(row["system"] or "", characters), _show(row, "prompt", characters))
        rows.append(
            [
                models.of(row["model"]),
                settings.of(_name_setting((row["temperature"], row["top_p"]))),
                groups.of(show_text(row["group"])),
                roles.of(_name_role(row["role"])),
                prompts.of(prompt),
                _show(row, "text", characters),
                *map(values.of, _fill_fields(row, kind)),
            ]
        )
    return {
        "group": kind.group,
        "models": models.things,
        "settings": settings.things,
        "groups": groups.things,
        "roles": roles.things,
        "ends": [
            number
            for role in (*ENDS, "first")
            if (number := roles.find(_name_role(role))) is not None
        ],
        "prompts": prompts.things,
        "fields": _list_fields(design, kind),
        "values": values.things,
        "start": settings.of(_name_setting(default)),
        "programs": kind.has_programs,
        "rows": rows,
    }


def _count_bytes(packed: Context) -> int:
    return len(json.dumps(packed, ensure_ascii=False).encode())


def _fit(
    examples: pl.DataFrame, design: Design, kind: _Kind, default: Setting, most: int
) -> tuple[Context, _Share]:
    """Pack as much as fits into so many bytes; the least that there is if nothing does."""

    def pack(share: _Share) -> Context:
        return _pack(_take(examples, share, default), design, kind, default, share.characters)

    settings = examples.select("temperature", "top_p").n_unique()
    shares = list(_list_shares(settings, examples["group"].n_unique()))
    # Each is smaller than the one before it, so that few need to be packed to find the first.
    first = bisect.bisect_left(shares, True, key=lambda share: _count_bytes(pack(share)) <= most)
    share = shares[min(first, len(shares) - 1)]
    return pack(share), share


def _describe_share(packed: Context, share: _Share, examples: pl.DataFrame) -> str:
    """Say what the page leaves out; nothing if it has all."""
    if len(packed["rows"]) == examples.height and share.characters == CHARACTERS[0]:
        return ""
    told = [
        f"{len(packed['rows']):,} of {examples.height:,} examples",
        f"one setting in {share.settings:,}, and the default one" if share.settings > 1 else "",
        f"one {packed['group']} in {share.groups:,}" if share.groups > 1 else "",
        f"the first {share.characters:,} characters of a text"
        if share.characters < CHARACTERS[0]
        else "",
    ]
    return (
        f"To stay small, this page has {'; '.join(text for text in told if text)}. The tables have"
        " all."
    )


def arrange_examples(paths: Sequence[Path], most: int, output: Path) -> Context | None:
    """Gather what the page says of a study's examples; None if there are none.

    paths: an EXAMPLES table of each model. most: bytes that the browser's data may take.
    """
    tables = [read_table(path, EXAMPLES) for path in paths]
    examples = pl.concat(tables)
    if not examples.height:
        return None
    design = read_design(paths[0])
    kind = _find_kind(design)
    setting = choose_persona_setting(examples)
    assert setting is not None
    packed, share = _fit(examples, design, kind, setting, most)
    return {
        "rule": _describe_rule(design, kind, examples["measure"][0]),
        "group": kind.group,
        "has_programs": kind.has_programs,
        "table": _arrange_table(examples, kind, setting),
        "data": packed,
        "left_out": _describe_share(packed, share, examples),
        "files": [
            {
                "name": path.stem,
                "href": quote(relative(path, output)),
                "rows": quantity(each.height, "row"),
            }
            for path, each in zip(paths, tables, strict=True)
        ],
    }


def arrange_all_examples(
    paths: Mapping[str, Mapping[str, Path]], output: Path
) -> dict[str, Context]:
    """Gather the examples of all studies. paths: EXAMPLES tables by study and model."""
    most = PAGE_BYTES // max(len(paths), 1)
    arranged = {
        study: arrange_examples(list(of_models.values()), most, output)
        for study, of_models in paths.items()
    }
    return {study: context for study, context in arranged.items() if context is not None}
