"""Typing errors: a character becomes one of its neighbours on a QWERTY keyboard.

The neighbours are those of `nlpaug` (res/char/keyboard/en.json, MIT), which the paper used, read
from the installed package. Source: section III-C of the code paper.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from llm_variability.augmentation.edits import Augmented, Unit, edit_units
from llm_variability.config import ConfigError

_TABLE = "res/char/keyboard/en.json"


@cache
def read_neighbours() -> dict[str, str]:
    """List the neighbours of each character that has some, in either case.

    As in nlpaug, a letter's neighbours come in both cases, whatever its own. Two of its entries
    are left out, since they are no neighbours: the letter itself in the other case (A for a), and
    a space followed by t for u, which would add a character.
    Raises ConfigError if nlpaug is not installed.
    """
    spec = find_spec("nlpaug")  # not imported: that takes seconds, and only a file is wanted
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("keyboard: package 'nlpaug', whose keyboard is used, is not installed")
    path = Path(spec.submodule_search_locations[0]) / _TABLE
    table = json.loads(path.read_text(encoding="utf-8"))
    neighbours = {}
    for key, listed in table.items():
        cased = {case for each in listed if len(each) == 1 for case in (each, each.upper())}
        for character in {key, key.upper()}:
            neighbours[character] = "".join(sorted(cased - {key, key.upper()}))
    return neighbours


def augment_keyboard(text: str, rate: float, seed: int) -> Augmented:
    """Replace round(rate x eligible) characters, each by a neighbour.

    Eligible are the characters that have neighbours: letters a to z of either case, 1 to 9 and
    !@#$%. White space, other punctuation and other letters are neither counted nor changed. The
    text keeps its length.
    Raises ValueError for a rate outside 0 to 1.
    """
    neighbours = read_neighbours()
    units = [
        Unit(start, character, neighbours[character])
        for start, character in enumerate(text)
        if character in neighbours
    ]
    return edit_units(text, "character", units, len(units), rate, seed)
