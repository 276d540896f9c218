"""The column contract of every Parquet table, checked when it is written and when it is read.

Every table is zstd Parquet, written to a temporary name and renamed, so that a file under its
own name is whole. Its metadata say what made it; `design` among them (how prompts are grouped
and compared) is handed on from stage to stage, so that no stage needs to know a study's name.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability import __version__
from llm_variability.software import loaded_versions
from llm_variability.table_contract import (
    SETTING,
    STATUSES,
    Column,
    Design,
    Factor,
    Table,
    TableError,
    tabulate_columns,
)
from llm_variability.tables_code import CODE_TABLES
from llm_variability.tables_personas import PERSONA_TABLES

__all__ = ["Factor"]

METADATA_KEY = "llm_variability"

ANALYSES = ("main", "length", "untruncated", "permutation", "diversity")
"""What was estimated: the contrasts of mean cosines; the same at equal length of texts; the same
on texts that were not cut; a test of equal dispersion; contrasts of measures without an encoder
and of the Vendi score."""


STIMULI = Table(
    "stimuli",
    {
        "prompt_id": Column(
            pl.String,
            "hash of system prompt and prompt (of a persona's: and who asks, which time; in a"
            " dialogue: and what was said before)",
        ),
        "system": Column(pl.String, "system prompt; null for none", nullable=True),
        "prompt": Column(pl.String, "user turn"),
        "replicates": Column(pl.Int32, "draws asked for in each cell"),
        "greedy_replicates": Column(pl.Int32, "draws asked for at temperature 0"),
    },
    takes_factors=True,
    optional={
        "history": Column(
            pl.String,
            "JSON list of the turns before the prompt, each with role (user or assistant) and"
            " content; null for none",
            nullable=True,
        ),
    },
    row="a prompt",
)

DRAWS = Table(
    "draws",
    {
        "prompt_id": Column(pl.String, "the prompt drawn from"),
        "replicate": Column(pl.Int32, "number of the draw, from 0"),
        "seed": Column(pl.Int64, "seed sent with the request: hash of study seed, prompt, number"),
        "text": Column(pl.String, "what is measured; null unless ok or truncated", nullable=True),
        "raw": Column(pl.String, "what the server sent as content", nullable=True),
        "reasoning": Column(pl.String, "what led to the answer, not measured", nullable=True),
        "status": Column(pl.String, f"one of {', '.join(STATUSES)}"),
        "finish_reason": Column(pl.String, "why the server stopped", nullable=True),
        "prompt_tokens": Column(pl.Int32, "tokens of the rendered prompt", nullable=True),
        "completion_tokens": Column(pl.Int32, "tokens generated", nullable=True),
        "error": Column(pl.String, "the server's refusal, for status error", nullable=True),
    },
    takes_factors=True,
    row="a draw",
)

COUNTS = Table(
    "counts",
    {
        **SETTING,
        "prompt_id": Column(pl.String, "the prompt drawn from"),
        "draws": Column(pl.Int32, "draws made"),
        **{status: Column(pl.Int32, f"draws of status {status}") for status in STATUSES},
        "distinct_texts": Column(pl.Int32, "different texts among those measured"),
        "words": Column(pl.Int64, "words, parted by white space, of the measured texts"),
        "completion_tokens": Column(pl.Int64, "tokens generated"),
    },
    takes_factors=True,
    row="a prompt at a setting",
)

_MADE_BY = {
    "host": Column(pl.String, "machine whose job asked"),
    "engine": Column(pl.String, "engine and its version, or the endpoint's URL", nullable=True),
    "devices": Column(pl.String, "devices of the engine; null for an endpoint", nullable=True),
    "tensor_parallel": Column(pl.Int32, "devices that the model is split over"),
}

SESSIONS = Table(
    "sessions",
    {
        **SETTING,
        "began": Column(pl.Datetime("ms", "UTC"), "when a job began to draw"),
        "ended": Column(
            pl.Datetime("ms", "UTC"), "when it was through; null if broken off", nullable=True
        ),
        **_MADE_BY,
        "draws": Column(pl.Int64, "draws made", nullable=True),
        "completion_tokens": Column(pl.Int64, "tokens generated", nullable=True),
    },
    row="a job that drew a setting",
)

THROUGHPUT = Table(
    "throughput",
    {
        "study": Column(pl.String, "study"),
        **_MADE_BY,
        "sessions": Column(pl.Int64, "jobs that drew"),
        "broken_off": Column(pl.Int64, "of these, jobs that did not come to their end"),
        "draws": Column(pl.Int64, "draws made"),
        "completion_tokens": Column(pl.Int64, "tokens generated"),
        "seconds": Column(pl.Float64, "time in which at least one job that ended drew"),
        "tokens_per_s": Column(
            pl.Float64, "tokens of the jobs that ended, by that time", nullable=True
        ),
    },
    row="the draws of a study by one machine, engine and set of devices",
)

EMBEDDINGS = Table(
    "embeddings",
    {
        "text_hash": Column(pl.String, "blake2b-128 of the UTF-8 text, hexadecimal"),
        "embedding": Column(pl.List(pl.Float32), "unit vector"),
        "over_long": Column(pl.Boolean, "longer than the encoder's limit: its end was not seen"),
    },
    row="a distinct text",
)

SIMILARITY = Table(
    "similarity",
    {
        **SETTING,
        "prompt_id": Column(pl.String, "the prompt drawn from"),
        "replicate": Column(pl.Int32, "number of the draw"),
        "n_mates": Column(pl.Int32, "other texts of the same block x group"),
        "cosine_sum": Column(pl.Float64, "sum of its cosines to them"),
        "cosine_sum_squares": Column(pl.Float64, "sum of the squares of its cosines to them"),
        "over_long": Column(pl.Boolean, "longer than the encoder's limit: its end was not seen"),
    },
    takes_factors=True,
    row="a text",
)

FITS = Table(
    "fits",
    {
        "study": Column(pl.String, "study"),
        "model": Column(pl.String, "language model"),
        "analysis": Column(pl.String, f"one of {', '.join(ANALYSES)}"),
        "measure": Column(
            pl.String, "encoder whose cosine is the outcome, or the measure of diversity"
        ),
        **SETTING,
        "level": Column(pl.String, "pairwise, cell or text: what one observation is"),
        "scope": Column(
            pl.String,
            "formats fixed or formats random, at level text; null: a random intercept of formats",
            nullable=True,
        ),
        "coding": Column(
            pl.String,
            "treatment (other factors at their reference, as published), marginal (averaged over"
            " them) or interaction; null for what is no contrast of group means",
            nullable=True,
        ),
        "term": Column(pl.String, "fixed effect, as in race[Asian]:gender[woman]", nullable=True),
        "estimate": Column(
            pl.Float64,
            "in standard deviations of the outcome (a slope: of that by word)",
            nullable=True,
        ),
        "std_error": Column(pl.Float64, "standard error of the estimate", nullable=True),
        "df": Column(pl.Float64, "degrees of freedom; null: normal approximation", nullable=True),
        "statistic": Column(pl.Float64, "estimate / std_error", nullable=True),
        "p_value": Column(pl.Float64, "two-sided", nullable=True),
        "mc_error": Column(
            pl.Float64, "Monte Carlo standard error of a p value by permutation", nullable=True
        ),
        "ci_low": Column(pl.Float64, "lower end of the 95% interval", nullable=True),
        "ci_high": Column(pl.Float64, "upper end of the 95% interval", nullable=True),
        "simultaneous_low": Column(
            pl.Float64, "lower end of the 95% intervals of all terms of a coding", nullable=True
        ),
        "simultaneous_high": Column(pl.Float64, "their upper end", nullable=True),
        "var_block": Column(pl.Float64, "variance of the random intercept", nullable=True),
        "var_residual": Column(pl.Float64, "residual variance", nullable=True),
        "n_observations": Column(pl.Int64, "observations in the fit"),
        "n_blocks": Column(pl.Int32, "levels of the random intercept"),
        "outcome_mean": Column(pl.Float64, "mean taken off in z-scoring", nullable=True),
        "outcome_sd": Column(pl.Float64, "SD divided by in z-scoring", nullable=True),
        "backend": Column(
            pl.String,
            "profile or statsmodels; at level text, jackknife, format-clustered or permutation",
        ),
        "converged": Column(pl.Boolean, "whether the fit can be relied on"),
        "reason": Column(pl.String, "why there is no estimate, if there is none", nullable=True),
    },
    row="an estimate: a term at a setting, level and scope",
)

ADJUSTED = Table(
    "adjusted",
    {
        **FITS.columns,
        "p_holm": Column(
            pl.Float64, "p_value adjusted by Holm over its family (family-wise error)", True
        ),
        "p_bh": Column(
            pl.Float64, "p_value adjusted by Benjamini-Hochberg (false discovery rate)", True
        ),
        "family_size": Column(pl.Int64, "p values in the family", nullable=True),
    },
    row="an estimate: a term at a setting, level and scope",
)

DIVERSITY = Table(
    "diversity",
    {
        **SETTING,
        "measure": Column(pl.String, "the measure of diversity, as in self-BLEU"),
        "value": Column(pl.Float64, "of the group's texts, in the measure's unit", nullable=True),
        "n_texts": Column(pl.Int32, "texts it is computed from, the same number in every group"),
    },
    takes_factors=True,
    row="a measure of a block and group at a setting",
)

EXAMPLES = Table(
    "examples",
    {
        "study": Column(pl.String, "study"),
        "model": Column(pl.String, "language model"),
        **SETTING,
        "group": Column(pl.String, "levels, as in Asian, woman; the augmentation; the persona"),
        "block": Column(pl.String, "format or task"),
        "role": Column(
            pl.String,
            "why it is here: medoid, farthest, first (nothing there can be compared), first STATUS"
            " or first program STATUS (of a prompt's draws of that status)",
        ),
        "measure": Column(pl.String, "what similarity is measured by"),
        "similarity": Column(
            pl.Float64, "mean to what it is compared with; null unless medoid or farthest", True
        ),
        "mates": Column(pl.Int64, "draws it is compared with; 0 unless medoid or farthest"),
        "prompt_id": Column(pl.String, "the prompt drawn from"),
        "replicate": Column(pl.Int32, "number of the draw"),
        "seed": Column(pl.Int64, "seed sent with the request"),
        "status": Column(pl.String, f"one of {', '.join(STATUSES)}"),
        "program": Column(pl.String, "what the reply holds, where a program is wanted", True),
        "finish_reason": Column(pl.String, "why the server stopped", nullable=True),
        "system": Column(pl.String, "system prompt; null for none", nullable=True),
        "prompt": Column(pl.String, "user turn, at most 4,000 characters of it"),
        "prompt_characters": Column(pl.Int64, "characters of the whole user turn"),
        "text": Column(
            pl.String,
            "what is measured, or else what the server sent: at most 4,000 characters of it",
        ),
        "characters": Column(pl.Int64, "characters of the whole text"),
        "words": Column(pl.Int64, "words of the whole text, parted by white space"),
        "error": Column(pl.String, "the server's refusal, for status error", nullable=True),
        "file": Column(pl.String, "draws table with the whole text, within the results folder"),
    },
    row="a draw that was chosen to be shown",
)

STUDY_TABLES = (
    STIMULI,
    DRAWS,
    COUNTS,
    SESSIONS,
    THROUGHPUT,
    EMBEDDINGS,
    SIMILARITY,
    FITS,
    ADJUSTED,
    DIVERSITY,
    EXAMPLES,
)

TABLES = {table.name: table for table in (*STUDY_TABLES, *CODE_TABLES, *PERSONA_TABLES)}


def _check(frame: pl.DataFrame, table: Table, design: Design | None, where: str) -> None:
    expected = dict(table.columns)
    expected |= {name: table.optional[name] for name in table.optional if name in frame.columns}
    if table.takes_factors:
        if design is None:
            raise TableError(f"{where}: a {table.name} table needs a design in its metadata")
        expected |= {name: Column(pl.String, "factor") for name in design.columns}
    missing = expected.keys() - set(frame.columns)
    surplus = set(frame.columns) - expected.keys()
    if missing or surplus:
        raise TableError(
            f"{where}: not a {table.name} table; missing columns: {sorted(missing) or 'none'},"
            f" unknown columns: {sorted(surplus) or 'none'}"
        )
    for name, column in expected.items():
        if frame.schema[name] != column.dtype:
            raise TableError(f"{where}: {name} is {frame.schema[name]}, not {column.dtype}")
        if not column.nullable and frame[name].null_count():
            raise TableError(f"{where}: {name} has empty values")


def _cast(frame: pl.DataFrame, types: Mapping[str, Any], where: str) -> pl.DataFrame:
    try:
        cast = frame.cast(types)  # type: ignore[arg-type]
    except pl.exceptions.PolarsError as error:
        raise TableError(f"{where}: {' '.join(str(error).split())[:300]}") from error
    for name, dtype in types.items():
        if (
            dtype.is_integer()
            and frame.schema[name].is_float()
            and (cast[name] != frame[name]).any()
        ):
            raise TableError(f"{where}: {name} has values that are no whole numbers")
    return cast


def write_table(frame: pl.DataFrame, path: Path, table: Table, metadata: Mapping[str, Any]) -> None:
    """Write a table whole or not at all.

    frame: its columns in any order; they are cast to the contract's types and put in its order.
    metadata: what made it, plain JSON values; `design` if the table takes factors.
    Raises TableError if the frame does not keep the contract.
    """
    design = Design.from_json(metadata["design"]) if metadata.get("design") else None
    factors = design.columns if design is not None and table.takes_factors else []
    known = {**table.columns, **table.optional}
    types = {name: column.dtype for name, column in known.items() if name in frame.columns}
    frame = _cast(frame, types, str(path))
    _check(frame, table, design, str(path))
    frame = frame.select([*factors, *(name for name in known if name in frame.columns)])
    recorded = {"table": table.name, "version": __version__, **metadata}
    # Metadata that are handed on from stage to stage hold those of the stage before.
    recorded["made_with"] = loaded_versions()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    os.close(handle)
    try:
        frame.write_parquet(
            temporary,
            compression="zstd",
            metadata={METADATA_KEY: json.dumps(recorded, sort_keys=True)},
        )
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_metadata(path: Path) -> dict[str, Any]:
    """Read what made a table. Raises TableError if the file is none of this project's tables."""
    try:
        text = pl.read_parquet_metadata(path)[METADATA_KEY]
    except (OSError, KeyError, pl.exceptions.PolarsError) as error:
        raise TableError(f"{path}: is no table of this project") from error
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def read_design(path: Path) -> Design:
    """Read the design that a table was made under."""
    return Design.from_json(read_metadata(path)["design"])


def read_table(path: Path, table: Table) -> pl.DataFrame:
    """Read a table. Raises TableError if it is not whole or does not keep the contract."""
    metadata = read_metadata(path)
    if metadata["table"] != table.name:
        raise TableError(f"{path}: is a {metadata['table']} table, not {table.name}")
    design = Design.from_json(metadata["design"]) if metadata.get("design") else None
    try:
        frame = pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise TableError(f"{path}: is damaged") from error
    _check(frame, table, design, str(path))
    return frame


def describe_tables(csv_tables: Iterable[Table] = ()) -> str:
    """Write every table's columns as Markdown (the text of docs/columns.md).

    csv_tables: the contracts of the CSV files, described after the Parquet tables.
    """
    lines = [
        "# Columns of every table",
        "",
        "Generated from the column contracts in `workflow/llm_variability` by `make config`.",
        "",
        "## Parquet tables",
        "",
        "A table marked with",
        '"factors" begins with the study\'s own columns: the block (the format), each factor and,',
        "where texts are compared across it, the unit (the name). In studies of code these are,",
        "all text: `task` (`set/id`), `set`, `language`, `augmentation` (`original`,",
        "`keyboard-0.1`, `paraphrase-low`), `method`, `rate` (nominal, or the band) and `variant`;",
        "in studies of personas `task`, `set`, `language`, `persona` (role and gender), `role`,",
        "`gender`, `iteration` (from 0) and `sampled` (yes or no).",
        "The metadata of each file (key `llm_variability`, JSON) say what made it.",
    ]
    for table in TABLES.values():
        lines += ["", f"### {table.name}{' (factors)' if table.takes_factors else ''}", ""]
        lines += tabulate_columns(table)
    csv_tables = list(csv_tables)
    if csv_tables:
        lines += ["", "## CSV tables", ""]
        lines += [
            "In `tables/`, behind the page. A missing value is an empty field, a truth value",
            '`true` or `false`. A table marked with "factors" has the study\'s factors as columns',
            "too.",
        ]
    for table in csv_tables:
        lines += ["", f"### {table.name}.csv{' (factors)' if table.takes_factors else ''}", ""]
        lines += tabulate_columns(table)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    # What the report writes is known to a later stage, which imports this module.
    from llm_variability.report.csv_tables import CSV_TABLES

    print(describe_tables(CSV_TABLES.values()), end="")
