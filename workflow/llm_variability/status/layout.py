"""Plain text for a terminal: safe characters, columns that fit, short numbers and times."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Sequence

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_CUT = "…"
_LEAST_NAME = 10


def make_printable(text: str) -> str:
    """Write text that others made so that a terminal shows it and does not obey it.

    Control characters, escape sequences, marks that turn the direction of writing and what is no
    character become escapes such as `\\x1b`; a line break or tab becomes a space.
    """
    shown = []
    for character in text:
        if character in "\n\r\t":
            shown.append(" ")
        elif unicodedata.category(character) in _HIDDEN:
            shown.append(character.encode("unicode_escape").decode("ascii"))
        else:
            shown.append(character)
    return "".join(shown)


def measure_width(text: str) -> int:
    """Count the columns that a text takes: two for a wide character, none for one that combines."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )


def fit(text: str, width: int) -> str:
    """Cut a text to a width in columns; what is cut off is told by an ellipsis at its end."""
    if measure_width(text) <= width:
        return text
    kept, taken = [], 1
    for character in text:
        taken += measure_width(character)
        if taken > width:
            break
        kept.append(character)
    return ("".join(kept) + _CUT)[: max(width, 0)]


def fit_middle(text: str, width: int) -> str:
    """Cut a name to a width in its middle, since names of models differ at both ends."""
    if len(text) <= width or width < 5:
        return fit(text, width)
    tail = (width - 1) // 2
    return text[: width - 1 - tail] + _CUT + text[-tail:]


def lay_out(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Align rows: the first column to the left and cut where that is needed, others to the right.

    Columns stand two spaces apart, or one where the width would not do.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(measure_width, column)) for column in columns]
    gap = "  " if sum(widths) + 2 * (len(widths) - 1) <= width else " "
    room = width - sum(widths[1:]) - len(gap) * (len(widths) - 1)
    names = min(widths[0], max(room, _LEAST_NAME))
    lines = []
    for first, *others in rows:
        name = fit_middle(first, names)
        cells = [
            " " * (wide - measure_width(cell)) + cell
            for cell, wide in zip(others, widths[1:], strict=True)
        ]
        lines.append(gap.join([name + " " * (names - measure_width(name)), *cells]).rstrip())
    return lines


def tell_percent(done: int, wanted: int) -> str:
    """Write a share in whole percent, never rounded to none or all of it."""
    if wanted == 0 or done >= wanted:
        return "100%"
    return f"{min(max(round(100 * done / wanted), int(done > 0)), 99)}%"


def tell_count(number: float) -> str:
    """Write a number in four digits at most: 950, 12.3k, 4.5M."""
    for unit, size in (("", 1), ("k", 1e3), ("M", 1e6), ("G", 1e9)):
        scaled = number / size
        if scaled < 999.5 or unit == "G":
            digits = 0 if unit == "" or scaled >= 99.95 else 1
            return f"{scaled:.{digits}f}{unit}"
    raise AssertionError  # the last unit takes any number


def tell_duration(seconds: float) -> str:
    """Write a length of time in its two largest units: 45s, 3m20s, 2h05m, 3d04h."""
    whole = max(0, round(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 60:
        return f"{whole}s"
    if hours == 0:
        return f"{minutes}m{whole % 60:02d}s"
    if days == 0:
        return f"{hours}h{minutes % 60:02d}m"
    return f"{days}d{hours % 24:02d}h"


def tell_time(moment: float, now: float) -> str:
    """Write a time of day, with the date where it is not today's. Seconds of the epoch."""
    then, today = time.localtime(moment), time.localtime(now)
    is_today = then[:3] == today[:3]
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M", then)


def tell_ago(moment: float, now: float) -> str:
    return f"{tell_duration(now - moment)} ago"
