"""The rates as a table: made from a run, read from the workflow's resources, and what it says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import polars as pl

from llm_variability.calibration import VERSION
from llm_variability.calibration.candidates import PACKAGE, TEXT_FIXED, TEXT_RANDOM
from llm_variability.calibration.rates import SIMULTANEOUS, Rate, wilson_interval
from llm_variability.calibration.studies import (
    MARGINAL_GENDER,
    PUBLISHED_FORMATS,
    find_contrast,
)
from llm_variability.config import ConfigError
from llm_variability.fits.text_inference import FORMATS_FIXED, FORMATS_RANDOM

RESOURCE = Path("resources/calibration/calibration.csv")
"""The table that ships with the workflow, within its folder."""

SCHEMA: dict[str, Any] = {
    "design": pl.String,
    "formats": pl.Int64,
    "texts": pl.Int64,
    "scope": pl.String,
    "study": pl.String,
    "contrast": pl.String,
    "slope": pl.Float64,
    "effect": pl.Float64,
    "test": pl.String,
    "studies": pl.Int64,
    "rejected": pl.Float64,
    "rejected_low": pl.Float64,
    "rejected_high": pl.Float64,
    "covered": pl.Float64,
    "covered_low": pl.Float64,
    "covered_high": pl.Float64,
    "seed": pl.Int64,
    "version": pl.Int64,
}
"""Columns of calibration.csv. `slope` and `effect` are in cosines; `_low` and `_high` are the 95%
Monte Carlo interval of the rate; `version` is that of the code that made the row."""

KIND = ["design", "formats", "texts", "scope", "study", "contrast"]
"""Columns that name a kind of study."""

LEVEL_BAND = (0.04, 0.06)
COVERAGE_BAND = (0.94, 0.96)
SHOWN_STUDIES = {"null": "null, slopes 0.04", "effect": "0.04, slopes 0.04"}
SHOWN_DESIGNS = ("4 x 2 groups", "names")

OWN_TEST = {FORMATS_FIXED: TEXT_FIXED, FORMATS_RANDOM: TEXT_RANDOM}
"""The test that is made for each scope."""


# ---------------------------------------------------------------------------------- the table


def tabulate_rates(rates: Iterable[Rate], seed: int) -> pl.DataFrame:
    """Lay rates out as a table with the columns of `SCHEMA`, a row a kind of study and test."""
    rows = []
    for each in rates:
        study, contrast = each.study, find_contrast(each.study)
        rejected = wilson_interval(each.rejected, each.studies)
        covered = wilson_interval(each.covered, each.studies)
        rows.append(
            (study.design, study.formats, study.texts, study.scope, study.title)
            + (f"{contrast.coding} {contrast.term}", study.slope, study.effect)
            + (each.test, each.studies, each.rejected, *rejected, each.covered, *covered)
            + (seed, VERSION)
        )
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def find_calibration(home: Path | None = None) -> Path:
    """Find the table that ships with the workflow.

    home: the folder of the workflow, as the Snakefile knows it; else the one that this package
        lies in.
    Raises ConfigError if it is not there.
    """
    own = Path(__file__).parents[3]
    for folder in (own,) if home is None else (home, own):
        if (folder / RESOURCE).is_file():
            return folder / RESOURCE
    raise ConfigError(f"{RESOURCE}: is not there; it comes with a copy of the whole workflow")


def load_calibration(path: Path | None = None) -> pl.DataFrame:
    """Read a table of rates: the one given, else the one that ships with the workflow.

    Returns the columns of `SCHEMA`. Raises ConfigError if it is not there or has other columns.
    """
    path = find_calibration() if path is None else path
    try:
        table = pl.read_csv(path.read_bytes(), schema=SCHEMA)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"{path}: is no table of rates: {error}".splitlines()[0]) from error
    if table.columns != list(SCHEMA):
        raise ConfigError(f"{path}: its columns are not those of a table of rates")
    return table


# ------------------------------------------------------------------------------- what is shown


def select_shown(table: pl.DataFrame) -> pl.DataFrame:
    """Choose what a reader needs: the tests of the package, in studies like the published one.

    There are 13 formats, which have slopes with an SD of 0.04 cosines, as those of the published
    GPT-3.5 texts do, and the contrast is the published coding's first.
    Returns a row each (design, texts, scope, test): `false_positives` and `covered`, shares of the
    null studies and of the studies with a difference of 0.04 cosines, and `power`, the share of
    the latter that reject; each with `_low` and `_high`; `keeps_level`, whether the Monte Carlo
    interval of `false_positives` allows for 6% or less; `own`, whether the test is made for the
    scope.
    """
    keys = ["design", "texts", "scope", "test"]
    shown = table.filter(
        pl.col("formats") == PUBLISHED_FORMATS,
        pl.col("contrast").str.starts_with("treatment"),
        pl.col("design").is_in(SHOWN_DESIGNS),
        pl.col("test").is_in(PACKAGE),
    )
    null = shown.filter(pl.col("study") == SHOWN_STUDIES["null"]).select(
        *keys,
        false_positives="rejected",
        false_positives_low="rejected_low",
        false_positives_high="rejected_high",
    )
    effect = shown.filter(pl.col("study") == SHOWN_STUDIES["effect"]).select(
        *keys,
        "covered",
        "covered_low",
        "covered_high",
        power="rejected",
        power_low="rejected_low",
        power_high="rejected_high",
    )
    return null.join(effect, on=keys, maintain_order="left", validate="1:1").with_columns(
        keeps_level=pl.col("false_positives_low") <= LEVEL_BAND[1],
        own=pl.col("test") == pl.col("scope").replace_strict(OWN_TEST),
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _range(shares: pl.Series) -> str:
    low, high = _percent(float(shares.min())), _percent(float(shares.max()))  # type: ignore[arg-type]
    return low if low == high else f"{low} to {high}"


def state_findings(table: pl.DataFrame) -> list[str]:
    """Say in plain sentences what the table shows, every figure taken from it.

    At first of studies with 13 formats, then a sentence for each other number of formats.
    """
    is_published = pl.col("formats") == PUBLISHED_FORMATS
    others = table.filter(~is_published).partition_by("formats", maintain_order=True)
    return _state_published(table.filter(is_published)) + [_state_size(part) for part in others]


def _state_size(table: pl.DataFrame) -> str:
    """Say which shares of null studies the tests reject, of studies with one number of formats."""
    null = table.filter(pl.col("effect") == 0)
    sizes = sorted(null["texts"].unique())
    texts = " to ".join(str(size) for size in dict.fromkeys((sizes[0], sizes[-1])))
    found = []
    for test in (*OWN_TEST.values(), "pairwise", "cell"):
        scope = [scope for scope, own in OWN_TEST.items() if own == test]
        rates = null.filter(pl.col("test") == test, pl.col("scope").is_in(scope or list(OWN_TEST)))
        if rates.height:
            whose = " of those of its scope" if scope else ""
            found.append(f"{test} rejects {_range(rates['rejected'])}%{whose}")
    return (
        f"{table['formats'][0]} formats of {texts} texts in place of {PUBLISHED_FORMATS}, null"
        f" studies: {'; '.join(found)}."
    )


def _state_published(table: pl.DataFrame) -> list[str]:
    own = table.filter(pl.col("test") == pl.col("scope").replace_strict(OWN_TEST))
    null = own.filter(pl.col("effect") == 0)
    lines = []
    for scope, test in OWN_TEST.items():
        of_scope = null.filter(pl.col("scope") == scope)
        if of_scope.height:
            lines.append(
                f"{test}: in the {of_scope.height} kinds of null studies of its scope it rejects"
                f" {_range(of_scope['rejected'])}%; over all kinds of its scope its 95% intervals"
                f" cover {_range(own.filter(pl.col('scope') == scope)['covered'])}%."
            )
    every_null = table.filter(pl.col("effect") == 0)
    for test in ("pairwise", "cell"):
        found = every_null.filter(pl.col("test") == test)
        if found.height:
            names = found.filter(pl.col("design") == "names")
            more = f" (names: {_range(names['rejected'])}%)" if names.height else ""
            lines.append(f"{test}: rejects {_range(found['rejected'])}% of null studies{more}.")
    other = every_null.filter(pl.col("test") == TEXT_FIXED, pl.col("scope") == FORMATS_RANDOM)
    if other.height:
        lines.append(
            f"{TEXT_FIXED}: where the formats are a sample and nothing differs among all formats,"
            f" it rejects {_range(other['rejected'])}%: it is no test of that."
        )
    joint = table.filter(pl.col("test") == SIMULTANEOUS, pl.col("design") != "2 groups")
    if joint.height:
        counts = sorted(joint["studies"].unique())
        number = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        lines.append(
            f"simultaneous intervals: in {joint.height} kinds of null studies ({number} each) they"
            f" cover all contrasts of the published coding at once in"
            f" {_range(joint['covered'])}%."
        )
    return lines


# ------------------------------------------------------------------------------------ Markdown


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _cell(row: Mapping[str, Any]) -> str:
    rates = f"{_percent(row['rejected'])} / {_percent(row['covered'])}"
    return f"**{rates}**" if row["test"] == OWN_TEST[row["scope"]] else rates


def format_rates(table: pl.DataFrame, tests: Sequence[str]) -> str:
    """Write as Markdown what rejects and what covers, in percent, a row a kind of study.

    tests: those wanted, a column each. Kinds of study without them are left out. In bold the test
    that is made for the scope. A first number is the false-positive rate in a null study, else the
    power.
    """
    rows = []
    wanted = table.filter(pl.col("test").is_in(list(tests)))
    for kind, part in wanted.partition_by(KIND, as_dict=True, maintain_order=True).items():
        design, formats, texts, scope, study, contrast = kind
        cells = {row["test"]: _cell(row) for row in part.iter_rows(named=True)}
        if contrast.startswith(MARGINAL_GENDER[0]):
            study = f"{study}, {contrast}"
        rows.append([design, str(formats), str(texts), scope.removeprefix("formats "), study])
        rows[-1] += [cells.get(test, "") for test in tests]
    return _markdown(["design", "formats", "texts", "scope", "truth", *tests], rows)


def format_shown(table: pl.DataFrame, texts: int = 50) -> str:
    """Write `select_shown` as Markdown, for studies of one number of texts; in percent."""
    rows = [
        [
            row["design"],
            row["scope"],
            f"**{row['test']}**" if row["own"] else row["test"],
            _percent(row["false_positives"]),
            _percent(row["covered"]),
            _percent(row["power"]) if row["keeps_level"] else f"({_percent(row['power'])})",
        ]
        for row in select_shown(table).filter(pl.col("texts") == texts).iter_rows(named=True)
    ]
    header = ["design", "question", "test", "false positives", "coverage", "power"]
    return _markdown(header, rows)


def format_small(table: pl.DataFrame) -> str:
    """Write `format_rates` of the package's tests in studies with other than 13 formats."""
    return format_rates(table.filter(pl.col("formats") != PUBLISHED_FORMATS), PACKAGE)


def others_than_package(table: pl.DataFrame, names: bool) -> list[str]:
    """List the tests that the package's were chosen from, of names studies or of the others."""
    part = table.filter((pl.col("design") == "names") == names)
    known = {*PACKAGE, SIMULTANEOUS}
    return [test for test in part["test"].unique(maintain_order=True) if test not in known]


def format_list(lines: Iterable[str]) -> str:
    """Write lines as a list, broken at 100 columns."""
    return "\n".join(fill(line, 100, initial_indent="- ", subsequent_indent="  ") for line in lines)


def summarise(table: pl.DataFrame) -> str:
    """Write what a table shows as one screen of text."""
    kinds = table.select(KIND).n_unique()
    most = int(table["studies"].max())  # type: ignore[arg-type]
    about = f"{kinds} kinds of studies, {most:,} of each, seed {table['seed'][0]}; in percent."
    lines = ["Calibration: the tests where the truth is known", "", about, ""]
    lines.append(format_list(state_findings(table)))
    lines += [
        "",
        "13 formats with slopes, 50 texts; power in brackets: too many null studies are rejected",
        "",
    ]
    return "\n".join([*lines, format_shown(table), ""])
