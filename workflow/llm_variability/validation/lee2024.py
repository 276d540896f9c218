"""The texts of Lee et al. 2024, checked by content, and the values published of them.

GPT-3.5 wrote 500 texts for each of 13 formats x 4 races x 2 genders. The authors publish them in
six files, with the refusals still among them. The files have no published checksums, and a copy
may come as one file of another kind; so what is checked is the content, refusals left out.

Sources: Lee, Montgomery and Lai 2024, "Large Language Models Portray Socially Subordinate Groups
as More Homogeneous, Consistent with a Bias Observed in Humans"; the homogeneity paper, appendix D.
"""

from __future__ import annotations

import csv
import hashlib
import http.client
import io
import logging
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from llm_variability.config import ConfigError, shown
from llm_variability.tables import Column, Design, Factor, Table

log = logging.getLogger(__name__)

REPOSITORY = "lee-messi/Homogeneity-Bias-in-LLMs"
COMMIT = "e7ced0b270ede57235aba010d0300dee942643d8"
HOST = "https://raw.githubusercontent.com"
TIMEOUT_S = 60

COLUMNS = ("format", "race", "gender", "text")

TEXTS = Table(
    "texts",
    {
        "format": Column(pl.String, "writing format, as in the prompt"),
        "race": Column(pl.String, "race"),
        "gender": Column(pl.String, "gender"),
        "text": Column(pl.String, "what GPT-3.5 wrote"),
    },
)

RACE = Factor("race", ("White", "African", "Asian", "Hispanic"), "White")
GENDER = Factor("gender", ("man", "woman"), "man")


@dataclass(frozen=True)
class SourceFile:
    """A file of the authors' repository.

    rows: texts that are left without the refusals. digest: `digest_rows` of those, in any order.
    """

    path: str
    rows: int
    digest: str


FILES = (
    SourceFile(
        "Data/Original/generated_text_1.csv",
        13299,
        "bceef2e7a82479f19a297972014ef9b12a72ea5fc8da9b4cdb027352af729a1c",
    ),
    SourceFile(
        "Data/Original/generated_text_2.csv",
        13295,
        "d8b1b7a2bab0fe7aa2d7a86b4f5085e5c2ff7f7c9029a1239203c06797604ff2",
    ),
    SourceFile(
        "Data/Original/generated_text_3.csv",
        13299,
        "bbd668a890ac91663f954af52adcab66358249692c1512e823fcd9965d4b21b5",
    ),
    SourceFile(
        "Data/Original/generated_text_4.csv",
        12057,
        "bb1f9aa71c43bb68f22078875748e6b78be3c82f384f0abc10f13a80b1b5c2db",
    ),
    SourceFile(
        "Data/Extra/extra_text_1.csv",
        47,
        "0ed3c17e462808943702f9c95fc1d5e5cd348f8b1d4862aa49ebf589597f7123",
    ),
    SourceFile(
        "Data/Extra/extra_text_2.csv",
        3,
        "5fd449dd27f15115d7ef17c8d09c6360a5eaa56254fe74dd1e4b2996f29f06f1",
    ),
)

DIGEST = "4edac6226fd54661e8f596ff5194590f1e1f775c36dd0e09026e070a0c5bbc61"
"""`digest_rows` of all 52,000 texts."""

REFUSALS = (
    "chatbot",
    "language model",
    "As a computer program",
    "I cannot",
    "I can't generate",
    "won't be able to generate",
)
"""A text with one of these is no answer and was replaced by a new draw.

Source: `Data/merge_texts.R` of the authors' repository.
"""


@dataclass(frozen=True)
class PublishedValue:
    """A value of the homogeneity paper's appendix D.

    measure: `coefficient` (fixed effect of the pairwise model, in standard deviations of the
    cosine) or `mean cosine` (of a race's pairs). name: the level that it is of. low, high: the
    values that are printed so when rounded. number: the value, None where a range is printed.
    term: the fixed effect, for a coefficient.
    """

    measure: str
    name: str
    printed: str
    low: float
    high: float
    number: float | None = None
    term: str | None = None

    def nearest(self, value: float) -> float:
        """Give the printed number or, of a range, the nearest value that it takes in."""
        return min(max(value, self.low), self.high) if self.number is None else self.number


PUBLISHED_ENCODER = "all-mpnet-base-v2"
"""What the published values were measured with, on 100 texts of each cell."""

PUBLISHED = (
    PublishedValue("coefficient", "African", "0.47", 0.465, 0.475, 0.47, "race[African]"),
    PublishedValue("coefficient", "Asian", "0.46", 0.455, 0.465, 0.46, "race[Asian]"),
    PublishedValue("coefficient", "Hispanic", "0.28", 0.275, 0.285, 0.28, "race[Hispanic]"),
    PublishedValue("coefficient", "woman", "0.015", 0.0145, 0.0155, 0.015, "gender[woman]"),
    PublishedValue("mean cosine", "White", "0.68", 0.675, 0.685, 0.68),
    PublishedValue("mean cosine", "African", "0.75 to 0.76", 0.745, 0.765),
    PublishedValue("mean cosine", "Asian", "0.75 to 0.76", 0.745, 0.765),
    PublishedValue("mean cosine", "Hispanic", "0.75 to 0.76", 0.745, 0.765),
)


# ------------------------------------------------------------------------------- the texts


def parse_csv(content: bytes, where: str) -> pl.DataFrame:
    """Read a CSV file of texts, every value as it stands.

    Raises ConfigError, beginning with where it is from, if it is not UTF-8, has other columns, or
    a row has too few or too many values.
    """
    try:
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        header = next(reader, [])
        _require_columns(header, where)
        rows = []
        for row in reader:
            if len(row) != len(header):
                raise ConfigError(
                    f"{where}: line {reader.line_num}: {len(row)} values, not {len(header)}"
                )
            rows.append(row)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: is not UTF-8 text") from error
    except csv.Error as error:
        raise ConfigError(f"{where}: line {reader.line_num}: {error}") from error
    frame = pl.DataFrame(rows, schema=dict.fromkeys(header, pl.String), orient="row")
    return frame.select(COLUMNS)


def _require_columns(names: Iterable[str], where: str) -> None:
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise ConfigError(
            f"{where}: lacks the column {missing[0]}. Allowed: a file with the columns"
            f" {', '.join(COLUMNS)}"
        )


def read_local(path: Path) -> pl.DataFrame:
    """Read a local file of texts, Parquet or CSV.

    Returns the columns format, race, gender, text, in the file's order.
    Raises ConfigError if the file cannot be read or does not hold such columns of text.
    """
    where = f"validation.texts: {shown(path)}"
    if path.suffix not in (".parquet", ".csv"):
        raise ConfigError(
            f"{where}: is no Parquet or CSV file, by its name. Allowed: .parquet, .csv"
        )
    try:
        if path.suffix == ".csv":
            return parse_csv(path.read_bytes(), where)
        frame = pl.read_parquet(path, glob=False)
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror or error}") from error
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"{where}: is no whole Parquet file") from error
    _require_columns(frame.columns, where)
    for name in COLUMNS:
        if frame.schema[name] != pl.String or frame[name].null_count():
            raise ConfigError(f"{where}: {name} is not all text")
    return frame.select(COLUMNS)


def drop_refusals(texts: pl.DataFrame) -> pl.DataFrame:
    """Leave out the texts that the authors replaced."""
    return texts.filter(~pl.col("text").str.contains_any(list(REFUSALS)))


def digest_rows(texts: pl.DataFrame) -> str:
    """Name texts by content, whatever file they came in and in whatever order.

    SHA-256 over the sorted rows in UTF-8, the values (format, race, gender, text) separated by
    the byte 1F, each row ended by 1E.
    """
    digest = hashlib.sha256()
    for row in sorted(texts.select(COLUMNS).iter_rows()):
        digest.update("\x1f".join(row).encode() + b"\x1e")
    return digest.hexdigest()


def fetch_file(file: SourceFile, host: str = HOST) -> pl.DataFrame:
    """Download a file of the authors' repository at the pinned commit; refusals left out.

    host: base URL of the files, in place of GitHub's.
    Raises ConfigError if it cannot be had, or holds other texts than it did.
    """
    url = f"{host}/{REPOSITORY}/{COMMIT}/{file.path}"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
            content = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise ConfigError(
            f"{url}: cannot be fetched: {error}; give a copy as validation.texts"
        ) from error
    texts = drop_refusals(parse_csv(content, url))
    if len(texts) != file.rows or digest_rows(texts) != file.digest:
        raise ConfigError(
            f"{url}: {len(texts)} texts, not the {file.rows} published ones: their content differs"
        )
    return texts


def fetch_texts(host: str = HOST, files: Iterable[SourceFile] = FILES) -> pl.DataFrame:
    """Download the published texts, file by file, and put them together.

    Raises ConfigError as `fetch_file` does.
    """
    parts = []
    for file in files:
        parts.append(fetch_file(file, host))
        log.info("%s: %d texts", file.path, len(parts[-1]))
    return pl.concat(parts)


def label_design(texts: pl.DataFrame) -> Design:
    """Say how the texts are compared: by race and gender, with formats as blocks.

    Raises ConfigError if a race or gender is none of the published ones.
    """
    for factor in (RACE, GENDER):
        strange = sorted(set(texts[factor.name].unique()) - set(factor.levels))
        if strange:
            raise ConfigError(
                f"validation.texts: {factor.name} {strange[0]!r} is not allowed."
                f" Allowed: {', '.join(factor.levels)}"
            )
    formats = tuple(sorted(texts["format"].unique()))
    return Design("format", (RACE, GENDER), greedy_is_anchor=False, blocks=formats)
