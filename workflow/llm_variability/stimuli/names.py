"""Prompts that tell a group by a name common in it, as in "a story about Garcia".

Source: section 2.5 of the homogeneity paper. What stands in the paper (template, formats) is
data: resources/names.yaml. The names are a list beside it; any other list works.

A list is a CSV file. `name` and `group` it must have. `bearers` (people of the group with the
name) or else `count` (all people with it) ranks a group's names; without both, the order of the
file does. `count` is also what `match: frequency` matches, since it is how often a text model meets
the name. A name with any text in `flag` is left out.
"""

from __future__ import annotations

import bisect
import csv
import math
import statistics
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import BeforeValidator, model_validator
from pydantic_core import PydanticCustomError

from llm_variability.config import ConfigError, NameSelection, Study, read_yaml, shown, validate
from llm_variability.stimuli.prompts import (
    ARTICLE,
    BLOCK,
    Phrases,
    Section,
    keep_formats,
    prompt_row,
    read_placeholders,
    render_prompt,
)
from llm_variability.tables import Design, Factor

NAME = "name"
GROUP = "group"

LONGEST_NAME = 100

CALIPER = 1.25
"""Two names are of similar frequency if one is at most this many times as frequent as the other.

It binds at the edges of what the groups have in common, and in short lists: where names are plenty,
the best match is much closer.
"""

_SAME = 1e-9
"""Slack of the caliper in log count, so that rounding decides nothing."""


# ----------------------------------------------------------------------------------- the list


@dataclass(frozen=True)
class ListedName:
    """A line of a list of names. `count` and `bearers` are None if the list has no such column."""

    name: str
    group: str
    count: float | None = None
    bearers: float | None = None
    flagged: bool = False

    @property
    def frequency(self) -> float | None:
        """What ranks the name in its group: bearers, or else count."""
        return self.count if self.bearers is None else self.bearers


@dataclass(frozen=True)
class NameList:
    """A list of names, in the order of its file. `path` is how messages call it."""

    path: str
    names: tuple[ListedName, ...]

    @property
    def groups(self) -> list[str]:
        """The groups, in the order in which they first occur."""
        return list(dict.fromkeys(each.group for each in self.names))

    def ranked(self, group: str) -> list[ListedName]:
        """List the names of a group that are not flagged, the most frequent first.

        By bearers, else by count, and by name where those are equal; else as in the file.
        """
        names = [each for each in self.names if each.group == group and not each.flagged]
        if any(each.frequency is None for each in names):
            return names
        return sorted(names, key=lambda each: (-(each.frequency or 0), each.name))


def _refused_character(text: str) -> str | None:
    """Find a character that has no place in a name: control, line break, direction override."""
    joiners = ("\N{ZERO WIDTH JOINER}", "\N{ZERO WIDTH NON-JOINER}")
    for character in text:
        kind = unicodedata.category(character)
        if kind in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp") and character not in joiners:
            return character
    return None


def _read_text(row: Mapping[str, str], column: str) -> str:
    if (wrong := _refused_character(row[column])) is not None:
        raise ConfigError(f"{column}: the character U+{ord(wrong):04X} is not allowed")
    text = unicodedata.normalize("NFC", " ".join(row[column].split()))
    if not text:
        raise ConfigError(f"{column} is empty")
    if len(text) > LONGEST_NAME:
        raise ConfigError(f"{column}: {text[:20]}... is longer than {LONGEST_NAME} characters")
    return text


def _read_number(row: Mapping[str, str], column: str) -> float | None:
    if column not in row:
        return None
    try:
        number = float(row[column])
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise ConfigError(f"{column}: {row[column][:20]!r} is not a number of at least 0")
    return number


def _parse_name(row: Mapping[str, str]) -> ListedName:
    return ListedName(
        _read_text(row, NAME),
        _read_text(row, GROUP),
        _read_number(row, "count"),
        _read_number(row, "bearers"),
        bool(row.get("flag", "").strip()),
    )


def _parse_lines(reader: Any) -> Iterator[ListedName]:
    header = [column.strip() for column in next(reader, [])]
    if not header:
        raise ConfigError("is empty; a header with name and group is needed")
    for column in (NAME, GROUP):
        if column not in header:
            found = ", ".join(header)[:100]
            found = "".join(each if each.isprintable() else "?" for each in found)
            raise ConfigError(f"the column {column!r} is missing. Found: {found}")
    if len(set(header)) < len(header):
        twice = next(column for column in header if header.count(column) > 1)
        raise ConfigError(f"the column {twice!r} is given twice")
    seen: dict[str, ListedName] = {}
    for values in reader:
        where = f"line {reader.line_num}"
        if not values:
            continue
        if len(values) != len(header):
            raise ConfigError(f"{where}: {len(values)} values, but {len(header)} columns")
        try:
            listed = _parse_name(dict(zip(header, values, strict=True)))
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
        other = seen.setdefault(listed.name.casefold(), listed)
        if other is not listed:
            both = f"in {other.group} and in {listed.group}"
            told = "twice" if other.group == listed.group else both
            raise ConfigError(f"{where}: {listed.name} is given {told}; each name once is allowed")
        yield listed


def read_name_list(path: Path) -> NameList:
    """Read a list of names; its format is told at the head of this module.

    Spaces around and repeated within a name are dropped. Names that differ in case only are one.
    Raises ConfigError, in one line that begins with the path, if the file cannot be read, lacks a
    column, holds no name, a name twice (in one group or two), an empty or overlong name, a
    character that is none of a name's, or a count that is negative or no number.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            try:
                names = tuple(_parse_lines(reader))
            except csv.Error as error:
                raise ConfigError(f"line {reader.line_num}: {error}") from error
        if not names:
            raise ConfigError("holds no name")
    except OSError as error:
        raise ConfigError(f"{shown(path)}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown(path)}: cannot be read: it is not UTF-8 text") from error
    except ConfigError as error:
        raise ConfigError(f"{shown(path)}: {error}") from error
    return NameList(shown(path), names)


# ------------------------------------------------------------------------------- the stimuli file


class _NameFile(Section):
    system: str | None = None
    template: str
    formats: Phrases
    names: str
    reference: Annotated[str, BeforeValidator(str)]

    @model_validator(mode="after")
    def _template_fits(self) -> _NameFile:
        if not self.formats:
            raise PydanticCustomError("source", "formats: at least one is needed")
        if wrong := read_placeholders(self.template) ^ {BLOCK, NAME}:
            missing = wrong & {BLOCK, NAME}
            told = "is missing" if missing else "is no placeholder"
            raise PydanticCustomError(
                "source",
                f"template: {{{min(missing or wrong)}}} {told}."
                f" Allowed: {{{BLOCK}}}, {{{NAME}}} and {{{ARTICLE}}}",
            )
        return self


@dataclass(frozen=True)
class NameStimuli:
    """A stimuli file of a names study, with the list that it names.

    `list_name` is the list's path as the file gives it.
    """

    system: str | None
    template: str
    formats: dict[str, str]
    reference: str
    list_name: str
    listed: NameList


def find_name_list(path: Path) -> Path:
    """Find the list that a stimuli file names: its path is from the file's folder.

    Raises ConfigError, one line a problem, if the stimuli file cannot be read or is wrong.
    """
    values = read_yaml(path)
    return path.parent / validate(_NameFile, values, [(str(path), values)]).names


def read_name_stimuli(path: Path, formats: list[str] | None = None) -> NameStimuli:
    """Read a stimuli file and its list; keep the wanted formats, in the order asked for.

    Raises ConfigError, one line a problem, if either file cannot be read or is wrong.
    """
    values = read_yaml(path)
    file = validate(_NameFile, values, [(str(path), values)])
    listed = read_name_list(path.parent / file.names)
    if file.reference not in listed.groups:
        allowed = ", ".join(listed.groups)
        raise ConfigError(
            f"{path}: reference: {file.reference!r} is no group of {listed.path}."
            f" Allowed: {allowed}"
        )
    kept = keep_formats(file.formats, formats, path)
    return NameStimuli(file.system, file.template, kept, file.reference, file.names, listed)


# ------------------------------------------------------------------------------------ selection


@dataclass(frozen=True)
class Selected:
    """The names taken, by group, as many in each.

    With `match: frequency` the i-th names of the groups belong together; `target` is the group
    whose names the others' were matched to, and `passed_over` those of its names that were skipped
    since some other group has none as frequent.
    """

    names: Mapping[str, tuple[ListedName, ...]]
    target: str | None = None
    passed_over: tuple[str, ...] = ()


def can_match(targets: Sequence[float], candidates: Sequence[float]) -> bool:
    """Tell whether each target can have a candidate of its own within the caliper.

    targets, candidates: logarithms of counts; the candidates in ascending order. Each target,
    the smallest first, takes the smallest candidate left that will do; as all calipers are as wide,
    that finds an assignment whenever there is one.
    """
    width = math.log(CALIPER)
    free = 0
    for target in sorted(targets):
        free = bisect.bisect_left(candidates, target - width - _SAME, lo=free)
        if free == len(candidates) or candidates[free] > target + width + _SAME:
            return False
        free += 1
    return True


def match_counts(targets: Sequence[float], candidates: Sequence[float]) -> list[int]:
    """Assign each target a candidate of its own, all within the caliper, at least total distance.

    targets, candidates: logarithms of counts, in any order. Distance is the absolute difference.
    Returns the candidate's index for each target.
    Raises ValueError if there is no such assignment (see `can_match`).
    """
    from scipy.optimize import linear_sum_assignment  # here, since few studies need it

    if len(targets) > len(candidates):
        raise ValueError(f"{len(targets)} targets, but {len(candidates)} candidates")
    distances = np.abs(np.subtract.outer(np.asarray(targets), np.asarray(candidates)))
    distances[distances > math.log(CALIPER) + 2 * _SAME] = np.inf
    _, columns = linear_sum_assignment(distances)
    return [int(column) for column in columns]


def _log_count(listed: ListedName) -> float:
    return math.log(listed.count or math.nan)


def _choose_targets(
    ranked: Mapping[str, list[ListedName]], per_group: int
) -> tuple[str, list[ListedName], list[str]]:
    """Choose the target group, its names that can be matched, and those passed over."""
    medians = {
        group: statistics.median(_log_count(each) for each in names[:per_group])
        for group, names in ranked.items()
    }
    target = min(ranked, key=lambda group: (medians[group], group))
    pools = [
        sorted(_log_count(each) for each in names)
        for group, names in ranked.items()
        if group != target
    ]
    taken: list[ListedName] = []
    passed_over: list[str] = []
    for name in ranked[target]:
        if len(taken) == per_group:
            break
        counts = [_log_count(each) for each in (*taken, name)]
        if all(can_match(counts, pool) for pool in pools):
            taken.append(name)
        else:
            passed_over.append(name.name)
    return target, taken, passed_over


def _assign(targets: Sequence[ListedName], names: Sequence[ListedName]) -> tuple[ListedName, ...]:
    pool = sorted(names, key=_log_count)
    counts = [[_log_count(each) for each in side] for side in (targets, pool)]
    return tuple(pool[index] for index in match_counts(*counts))


def _require_counts(ranked: Mapping[str, list[ListedName]], path: str) -> None:
    for each in (each for names in ranked.values() for each in names):
        if each.count is None:
            raise ConfigError(f"names.match: frequency needs a column 'count', which {path} lacks")
        if each.count == 0:
            raise ConfigError(
                f"names.match: frequency needs counts above 0; {each.name} has 0 in {path}"
            )


def _possible_per_group(ranked: Mapping[str, list[ListedName]], most: int) -> int:
    """Find how many names a group can be matched, `most` at most.

    With fewer names wanted another group may be the target, so what is found is tried.
    """
    possible = len(_choose_targets(ranked, most)[1])
    while possible and len(_choose_targets(ranked, possible)[1]) < possible:
        possible -= 1
    return possible


def _match_frequency(ranked: Mapping[str, list[ListedName]], per_group: int, path: str) -> Selected:
    _require_counts(ranked, path)
    target, taken, passed_over = _choose_targets(ranked, per_group)
    if len(taken) < per_group:
        possible = _possible_per_group(ranked, per_group)
        fewer = f"names.per_group up to {possible}, " if possible > 1 else ""
        raise ConfigError(
            f"names.per_group: {per_group} names a group are wanted, but of {path} only {possible}"
            f" can be matched in count within a factor of {CALIPER}. Allowed: {fewer}"
            "names.match none, other names.groups"
        )
    names = {
        group: tuple(taken) if group == target else _assign(taken, names)
        for group, names in ranked.items()
    }
    return Selected(names, target, tuple(passed_over))


def _wanted_groups(listed: NameList, wanted: list[str] | None) -> list[str]:
    groups = listed.groups if wanted is None else wanted
    for group in groups:
        if group not in listed.groups:
            allowed = ", ".join(listed.groups)
            raise ConfigError(
                f"names.groups: {group!r} is not in {listed.path}. Allowed: {allowed}"
            )
        if groups.count(group) > 1:
            raise ConfigError(f"names.groups: {group} is given twice; each once is allowed")
    if len(groups) < 2:
        where = listed.path if wanted is None else "names.groups"
        raise ConfigError(f"{where}: {len(groups)} group(s) to compare; at least two are needed")
    return groups


def select_names(listed: NameList, selection: NameSelection) -> Selected:
    """Take `per_group` names of each group that are not flagged.

    match none: each group's most frequent ones (see `NameList.ranked`).

    match frequency: names of similar count in all groups. The group whose most frequent names have
    the lowest median count is the target: its names are gone through, the most frequent first, and
    one is taken if every other group has a name within the caliper for it and for all taken before;
    the others are passed over. Then each other group's names are assigned to the targets one to
    one, at the least total absolute difference in log count. The order of the list's lines decides
    nothing, but for the order of groups that the selection does not name.

    Raises ConfigError, in one line, for a group that is unknown or given twice, fewer than two
    groups, fewer names in a group than wanted, and, with match frequency, a list without counts or
    with too few names of similar count; it says how many there are.
    """
    ranked = {group: listed.ranked(group) for group in _wanted_groups(listed, selection.groups)}
    for group, names in ranked.items():
        if len(names) < max(selection.per_group, 2):
            flagged = sum(each.group == group and each.flagged for each in listed.names)
            less = f" ({flagged} flagged ones left out)" if flagged else ""
            raise ConfigError(
                f"names.per_group: {selection.per_group} names a group are wanted, but"
                f" {listed.path} has {len(names)} of {group}{less}"
            )
    if selection.match == "frequency":
        return _match_frequency(ranked, selection.per_group, listed.path)
    return Selected({group: tuple(names[: selection.per_group]) for group, names in ranked.items()})


# ---------------------------------------------------------------------------------- description


def count_overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """Tell how alike two groups' counts are: 1 if distributed alike, 0 if they share no range.

    It is 1 less the Kolmogorov-Smirnov distance of the two samples: the largest difference between
    the shares of either that lie at or below some count. Taking logarithms changes nothing. Six
    decimals.
    """
    points = np.concatenate([one, other])
    shares = [
        np.searchsorted(np.sort(sample), points, side="right") / len(sample)
        for sample in (one, other)
    ]
    return round(1.0 - float(np.abs(shares[0] - shares[1]).max()), 6)


def _plain(number: float) -> int | float:
    return int(number) if number == int(number) else number


def _describe_group(group: str, names: int, counts: Sequence[float]) -> dict[str, Any]:
    numbers = {
        "fewest": min(counts, default=None),
        "median": statistics.median(counts) if counts else None,
        "most": max(counts, default=None),
    }
    plain = {key: None if each is None else _plain(each) for key, each in numbers.items()}
    return {"group": group, "names": names, **plain}


def describe_selection(stimuli: NameStimuli, study: Study, selected: Selected) -> dict[str, Any]:
    """Describe the names taken, in plain JSON values.

    match, list: as configured. target, passed_over, caliper: see `Selected` and `CALIPER`; null,
    none and null unless match is frequency. groups: for each its number of names and their fewest,
    median and most `count`, null if the list has no counts. overlap: for each group but the
    reference, `count_overlap` of its counts with the reference's; none without counts. flagged:
    how many of each group's names in the list are left out for their flag.
    """
    counts = {
        group: [each.count for each in names if each.count is not None]
        for group, names in selected.names.items()
    }
    reference = counts[stimuli.reference]
    flagged = [each.group for each in stimuli.listed.names if each.flagged]
    return {
        "match": study.name_selection.match,
        "list": stimuli.list_name,
        "target": selected.target,
        "passed_over": list(selected.passed_over),
        "caliper": None if selected.target is None else CALIPER,
        "groups": [
            _describe_group(group, len(names), counts[group])
            for group, names in selected.names.items()
        ],
        "overlap": [
            {
                "group": group,
                "reference": stimuli.reference,
                "overlap": count_overlap(each, reference),
            }
            for group, each in counts.items()
            if group != stimuli.reference and each and reference
        ],
        "flagged": {group: flagged.count(group) for group in selected.names},
    }


# -------------------------------------------------------------------------------------- prompts


def _select(stimuli: NameStimuli, study: Study) -> Selected:
    selected = select_names(stimuli.listed, study.name_selection)
    if stimuli.reference not in selected.names:
        groups = ", ".join(selected.names)
        raise ConfigError(
            f"names.groups: the reference {stimuli.reference} is not among them ({groups}); add it"
        )
    return selected


def _require_distinct_prompts(stimuli: NameStimuli, selected: Selected) -> None:
    seen: set[str] = set()
    for format_words in stimuli.formats.values():
        for each in (each for names in selected.names.values() for each in names):
            words = {BLOCK: format_words, NAME: each.name, ARTICLE: "a"}
            prompt = " ".join(stimuli.template.format(**words).split())
            if prompt in seen:
                raise ConfigError(f"two names get the same prompt: {prompt!r}")
            seen.add(prompt)


def check_name_stimuli(path: Path, study: Study) -> None:
    """Raise ConfigError, one line a problem, if a study's prompts could not be rendered."""
    stimuli = read_name_stimuli(path, study.formats)
    _require_distinct_prompts(stimuli, _select(stimuli, study))


def _rows(stimuli: NameStimuli, study: Study, selected: Selected) -> Iterator[dict[str, object]]:
    import inflect  # here, since it takes over a second that only rendering needs

    articles = inflect.engine()
    for block, words in stimuli.formats.items():
        for group, names in selected.names.items():
            for each in names:
                phrases = {BLOCK: words, NAME: each.name}
                prompt = render_prompt(stimuli.template, phrases, articles)
                yield {
                    BLOCK: block,
                    GROUP: group,
                    NAME: each.name,
                    **prompt_row(stimuli.system, prompt, study),
                }


def render_name_prompts(
    stimuli: NameStimuli, study: Study
) -> tuple[pl.DataFrame, Design, dict[str, Any]]:
    """Render every format x name of a names study.

    Returns the stimuli table (a row a prompt), the design (formats as blocks; the texts of a
    group's different names are compared with each other, at temperature 0 too) and facts: under
    `selection`, what `describe_selection` tells.
    Raises ConfigError, in one line, if the names wanted cannot be had.
    """
    selected = _select(stimuli, study)
    _require_distinct_prompts(stimuli, selected)
    table = pl.DataFrame(
        list(_rows(stimuli, study, selected)),
        schema_overrides={"system": pl.String},
        infer_schema_length=None,
    )
    factor = Factor(GROUP, tuple(selected.names), stimuli.reference)
    design = Design(BLOCK, (factor,), False, tuple(stimuli.formats), unit=NAME)
    return table, design, {"selection": describe_selection(stimuli, study, selected)}
