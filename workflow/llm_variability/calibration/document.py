"""The table in Markdown, written into the documentation between two marks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl

from llm_variability.calibration.candidates import PACKAGE
from llm_variability.calibration.table import (
    format_list,
    format_rates,
    format_shown,
    format_small,
    others_than_package,
    state_findings,
)
from llm_variability.config import ConfigError

PARTS: Mapping[str, Callable[[pl.DataFrame], str]] = {
    "shown": format_shown,
    "small": format_small,
    "findings": lambda table: format_list(state_findings(table)),
    "package": lambda table: format_rates(table, PACKAGE),
    "others": lambda table: format_rates(table, others_than_package(table, names=False)),
    "names": lambda table: format_rates(table, others_than_package(table, names=True)),
}
"""What can stand between `<!-- calibration: PART -->` and `<!-- end -->`."""

_PLACE = re.compile(r"(<!-- calibration: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill_places(text: str, table: pl.DataFrame, where: str) -> str:
    """Write the parts of a table anew where a text has places for them.

    where: name of the text, for messages. Raises ConfigError for a part that there is none of.
    """

    def write(found: re.Match[str]) -> str:
        if found[2] not in PARTS:
            raise ConfigError(
                f"{where}: calibration: {found[2]} is no part. Allowed: {', '.join(PARTS)}"
            )
        return f"{found[1]}\n{PARTS[found[2]](table)}\n\n{found[3]}"

    return _PLACE.sub(write, text)


def document_table(table: pl.DataFrame, paths: list[Path]) -> None:
    """Write the parts of a table anew in files that have places for them."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        path.write_text(fill_places(text, table, str(path)), encoding="utf-8")
