"""How numbers and foreign text are written on the page."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

SHOWN_CHARACTERS = 1200
"""A longer model text is cut on the page; the Parquet file has it whole."""

_DIRECTION_MARKS = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_CONTROLS = [code for code in [*range(0x20), *range(0x7F, 0xA0)] if chr(code) not in "\n\t"]
_NAMED = {code: f"⟨U+{code:04X}⟩" for code in [*_CONTROLS, *_DIRECTION_MARKS]}


def name_invisible(text: str) -> str:
    """Name the invisible characters of a text.

    Null bytes, other controls and marks that turn the direction of writing become `⟨U+202E⟩` and
    the like, so that no text changes how its surroundings are laid out. Escaping for HTML is the
    template's.
    """
    return text.replace("\r\n", "\n").translate(_NAMED)


def show_text(text: str, most: int = SHOWN_CHARACTERS, length: int | None = None) -> str:
    """Make a model's text fit to be read: invisible characters named, a very long one cut.

    most: characters that are shown. length: of the whole text, if this is its beginning only.
    """
    length = len(text) if length is None else length
    shown = name_invisible(text[:most])
    if length > len(text[:most]):
        shown += f" … [{length:,} characters, the first {len(text[:most]):,} shown]"
    return shown


def signed(value: float, decimals: int = 2) -> str:
    """Write a number with a true minus sign; one that rounds to zero has no sign."""
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")


def percent(share: float) -> str:
    """Write a share: `0%`, `<0.1%`, `4.2%`, `5%`, `>99.9%`; never rounded to none or all."""
    if math.isclose(share * 100, round(share * 100), rel_tol=1e-12):
        return f"{share:.0%}"
    if share < 0.001:
        return "<0.1%"
    if share > 0.999:
        return ">99.9%"
    return f"{share:.1%}"


def p_text(p_value: float, bound: float = 0.05) -> str:
    """Write a p-value: `p < .001`, `p = .043`; with the decimals that keep it on its side of the
    bound (`p = .0499`, never `.050` with an asterisk)."""
    if p_value < 0.001:
        return "p < .001"
    for decimals in range(3, 10):
        text = f"{p_value:.{decimals}f}"
        if (float(text) < bound) == (p_value < bound):
            break
    return f"p = {text.removeprefix('0')}"


def p_number(p_value: float, bound: float = 0.05) -> str:
    """Write a p-value where `p` stands before it already: `< .001`, `.043`."""
    return p_text(p_value, bound).removeprefix("p ").removeprefix("= ")


def quantity(count: int, noun: str, plural: str | None = None) -> str:
    """Write a count with its noun: `1 draw`, `5,200 draws`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listing(names: Sequence[str]) -> str:
    """Join names: `a`, `a and b`, `a, b and c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def anchor(*parts: str) -> str:
    """Make an element's id from names."""
    return "-".join(re.sub(r"[^A-Za-z0-9_.-]+", "-", part) for part in parts)
