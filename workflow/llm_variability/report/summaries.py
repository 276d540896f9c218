"""The tables behind the page, made from the stages' tables and kept as CSV."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.config import GREEDY, cell_name
from llm_variability.report import comparisons
from llm_variability.report.cosine import average_over_groups
from llm_variability.report.length import measure_lengths
from llm_variability.report.robustness import average_diversity, list_diversity, set_beside_main
from llm_variability.report.schemas import SCHEMAS
from llm_variability.tables import (
    ADJUSTED,
    COUNTS,
    DIVERSITY,
    SIMILARITY,
    STATUSES,
    Design,
    read_metadata,
    read_table,
)

_IN_GRID_ORDER = [
    pl.col("temperature").cast(pl.Float64),
    pl.col("top_p").cast(pl.Float64),
]


def _in_grid_order(frame: pl.DataFrame, *then: str) -> pl.DataFrame:
    return frame.sort([*_IN_GRID_ORDER, *then], nulls_last=False, maintain_order=True)


def mean_cosine_by_group(similarity: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Mean cosine over the pairs of each group in each setting, blocks pooled.

    similarity: a row a text. A group is a combination of the factors' levels; texts are compared
    inside one block x group only, so that the mean of a group is sum(cosine_sum) / sum(n_mates),
    every pair standing twice in both. It is null where there is no pair.
    Returns temperature, top_p, the factors, mean_cosine, texts, pairs, fewest_texts (in the block
    that has fewest).
    """
    factors = [factor.name for factor in design.factors]
    ranks = [
        pl.col(factor.name)
        .replace_strict({level: at for at, level in enumerate(factor.levels)}, default=None)
        .alias(f"rank {factor.name}")
        for factor in design.factors
    ]
    mates = pl.col("n_mates").cast(pl.Int64).sum()
    in_block = pl.col(design.block).value_counts().struct.field("count")
    every_block = pl.col(design.block).n_unique() >= len(design.blocks)
    means = (
        similarity.group_by(["temperature", "top_p", *factors], maintain_order=True)
        .agg(
            pl.when(mates > 0).then(pl.col("cosine_sum").sum() / mates).alias("mean_cosine"),
            pl.len().cast(pl.Int64).alias("texts"),
            (mates // 2).alias("pairs"),
            pl.when(every_block)
            .then(in_block.min())
            .otherwise(0)
            .cast(pl.Int64)
            .alias("fewest_texts"),
        )
        .with_columns(ranks)
    )
    return _in_grid_order(means, *(f"rank {name}" for name in factors)).select(
        "temperature", "top_p", *factors, "mean_cosine", "texts", "pairs", "fewest_texts"
    )


def count_draws(counts: pl.DataFrame) -> pl.DataFrame:
    """Add the counts of a cell's prompts up: a row a setting, in the grid's order.

    `repeated_prompts` have two texts or more (truncated ones among them); `identical_prompts` are
    those of them whose texts are all the same. `distinct_texts` is a sum over prompts.
    """
    repeated = pl.col("ok") + pl.col("truncated") > 1
    draws = pl.col("draws").sum()
    cells = counts.group_by(["temperature", "top_p"], maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("prompts"),
        draws.cast(pl.Int64).alias("draws"),
        *(pl.col(status).cast(pl.Int64).sum() for status in STATUSES),
        pl.col("distinct_texts").cast(pl.Int64).sum(),
        pl.col("words").sum(),
        pl.col("completion_tokens").sum(),
        pl.when(draws > 0).then(pl.col("empty").sum() / draws).alias("empty_share"),
        pl.when(draws > 0).then(pl.col("truncated").sum() / draws).alias("truncated_share"),
        repeated.sum().cast(pl.Int64).alias("repeated_prompts"),
        (repeated & (pl.col("distinct_texts") == 1))
        .sum()
        .cast(pl.Int64)
        .alias("identical_prompts"),
    )
    names = [
        cell_name(temperature, top_p)
        for temperature, top_p in cells.select("temperature", "top_p").iter_rows()
    ]
    return _in_grid_order(cells.with_columns(pl.Series("cell", names, dtype=pl.String)))


def measure_determinism(cells: pl.DataFrame) -> pl.DataFrame:
    """Count, at temperature 0, the prompts that gave more than one text.

    cells: rows of the draw counts. Returns no row for a model without greedy decoding.
    """
    return cells.filter(pl.col("temperature") == GREEDY).select(
        "study",
        "model",
        "prompts",
        "repeated_prompts",
        (pl.col("repeated_prompts") - pl.col("identical_prompts")).alias("varying_prompts"),
        "draws",
    )


def label_rows(frame: pl.DataFrame, **labels: str) -> pl.DataFrame:
    """Give every row the same texts in further columns."""
    return frame.with_columns(pl.lit(value, pl.String).alias(key) for key, value in labels.items())


def label_by_metadata(path: Path, frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Give rows what the metadata of their file say: their study, and their model."""
    metadata = read_metadata(path)
    return label_rows(frame, **{name: str(metadata[name]) for name in names})


def shape_rows(frames: Iterable[pl.DataFrame], schema: Mapping[str, Any]) -> pl.DataFrame:
    """Join frames of the same columns in the order and types of a CSV file."""
    parts = [each.select(pl.col(key).cast(kind) for key, kind in schema.items()) for each in frames]
    return pl.concat([pl.DataFrame(schema=schema), *parts])


def name_cells(cells: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Add each row's cell; columns: that it is named by, in the order of `cell_name`."""
    names = [cell_name(*row) for row in cells.select(columns).rows()]
    return cells.with_columns(pl.Series("cell", names, dtype=pl.String))


def _joined(frames: Iterable[pl.DataFrame], name: str) -> pl.DataFrame:
    schema = SCHEMAS[name]
    parts = [pl.DataFrame(schema=schema), *frames]
    joined = pl.concat(parts, how="diagonal_relaxed")
    factors = [column for column in joined.columns if column not in schema]
    if not factors:
        return joined.select([*schema])
    leading = [
        column
        for column in ("study", "model", "encoder", "temperature", "top_p")
        if column in schema
    ]
    return joined.select([*leading, *factors, *(key for key in schema if key not in leading)])


def encoder_of(path: Path) -> str:
    """Name the encoder of a similarity table: what its metadata say, else its file's name."""
    return str(read_metadata(path).get("encoder", path.stem))


def list_selection(selection: Mapping[str, Any]) -> pl.DataFrame:
    """Tabulate which names a study of names takes: a row a group.

    selection: as the stimuli table's metadata hold it. Returns match, list, group, names, fewest,
    median and most bearers of a name (null where the list does not count them), how many names
    were left out since they are flagged, the reference group, and how far the group's frequencies
    overlap with the reference's (1: the same distribution; null for the reference itself).
    """
    overlaps = {each["group"]: each for each in selection.get("overlap", [])}
    flagged = selection.get("flagged", {})
    rows = []
    for group in selection["groups"]:
        overlap = overlaps.get(group["group"], {})
        rows.append(
            {
                "match": selection.get("match"),
                "list": selection.get("list"),
                **{key: group.get(key) for key in ("group", "names", "fewest", "median", "most")},
                "flagged": flagged.get(group["group"], 0),
                "reference": overlap.get("reference"),
                "overlap": overlap.get("overlap"),
            }
        )
    schema = {key: SCHEMAS["name_selection"][key] for key in rows[0]} if rows else None
    return pl.DataFrame(rows, schema=schema, strict=False)


def collect_means(paths: Iterable[Path]) -> pl.DataFrame:
    """Read similarity tables and give the mean cosine table of them all, in their order."""
    means = []
    for path in paths:
        metadata = read_metadata(path)
        design = Design.from_json(metadata["design"])
        means.append(
            label_rows(
                mean_cosine_by_group(read_table(path, SIMILARITY), design),
                study=metadata["study"],
                model=metadata["model"],
                encoder=encoder_of(path),
            )
        )
    return _joined(means, "mean_cosine")


def collect_counts(paths: Iterable[Path]) -> pl.DataFrame:
    """Read counts tables and give the draw counts of them all, in their order."""
    cells = []
    for path in paths:
        metadata = read_metadata(path)
        counted = count_draws(read_table(path, COUNTS))
        cells.append(label_rows(counted, study=metadata["study"], model=metadata["model"]))
    return _joined(cells, "draw_counts")


def count_over_long(path: Path) -> pl.DataFrame:
    """Count one model's texts that its encoder cuts, since they are longer than it can take."""
    metadata = read_metadata(path)
    counted = read_table(path, SIMILARITY).select(
        pl.len().cast(pl.Int64).alias("texts"), pl.col("over_long").sum().cast(pl.Int64)
    )
    return label_rows(
        counted, study=metadata["study"], model=metadata["model"], encoder=encoder_of(path)
    )


def _of_studies(
    frame: pl.DataFrame,
    designs: Mapping[str, Design],
    summarise: Callable[[pl.DataFrame, Design], pl.DataFrame],
) -> list[pl.DataFrame]:
    summaries = {
        str(study): summarise(part, designs[str(study)])
        for (study,), part in frame.partition_by("study", maintain_order=True, as_dict=True).items()
    }
    return [label_rows(each, study=study) for study, each in summaries.items() if each.height]


def _average_each_encoder(means: pl.DataFrame, design: Design) -> pl.DataFrame:
    return pl.concat(
        label_rows(average_over_groups(part, design), encoder=str(encoder))
        for (encoder,), part in means.partition_by(
            "encoder", maintain_order=True, as_dict=True
        ).items()
    )


def collect_diversity(paths: Iterable[Path]) -> pl.DataFrame:
    """Read tables of diversity and average each group's values over its blocks, in their order."""
    averages = []
    for path in paths:
        metadata = read_metadata(path)
        averaged = average_diversity(
            read_table(path, DIVERSITY), Design.from_json(metadata["design"])
        )
        averages.append(label_rows(averaged, study=metadata["study"], model=metadata["model"]))
    return _joined(averages, "diversity")


def collect_tables(
    adjusted: Sequence[Path],
    similarity: Sequence[Path],
    counts: Sequence[Path],
    stimuli: Sequence[Path] = (),
    diversity: Sequence[Path] = (),
) -> dict[str, pl.DataFrame]:
    """Read the stages' tables of all studies and models, and make the page's tables of them.

    Rows keep the order of the files. Returns every table of `SCHEMAS`.
    """
    metadata = [read_metadata(path) for path in [*adjusted, *similarity]]
    designs = {str(each["study"]): Design.from_json(each["design"]) for each in metadata}
    all_fits = _joined((read_table(path, ADJUSTED) for path in adjusted), "fits")
    main = all_fits.filter(pl.col("analysis") == "main")
    means, cells = collect_means(similarity), collect_counts(counts)
    selections = [(each["study"], each.get("selection")) for each in map(read_metadata, stimuli)]
    made = {
        "signals": _of_studies(main, designs, comparisons.tabulate_signals),
        "default_estimates": _of_studies(main, designs, comparisons.tabulate_default),
        "temperature_estimates": _of_studies(main, designs, comparisons.average_by_temperature),
        "temperature_cosine": _of_studies(means, designs, _average_each_encoder),
        "encoder_agreement": _of_studies(main, designs, comparisons.compare_encoders),
        "level_agreement": _of_studies(main, designs, comparisons.compare_levels),
        "sensitivity": _of_studies(all_fits, designs, set_beside_main),
        "diversity_estimates": _of_studies(all_fits, designs, list_diversity),
        "output_length": [
            label_rows(measure_lengths(part), study=str(study))
            for (study,), part in cells.partition_by(
                "study", maintain_order=True, as_dict=True
            ).items()
        ],
        "over_long": [count_over_long(path) for path in similarity],
        "name_selection": [
            label_rows(list_selection(selection), study=study)
            for study, selection in selections
            if selection
        ],
    }
    return {
        "fits": all_fits,
        "mean_cosine": means,
        "draw_counts": cells,
        "determinism": _joined([measure_determinism(cells)], "determinism"),
        "diversity": collect_diversity(diversity),
        **{name: _joined(parts, name) for name, parts in made.items()},
    }


def write_tables(tables: dict[str, pl.DataFrame], folder: Path) -> None:
    """Write each table to FOLDER/NAME.csv, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        temporary = folder / f".{name}.csv.tmp"
        table.write_csv(temporary)
        os.replace(temporary, folder / f"{name}.csv")


def read_tables(
    paths: Sequence[Path], schemas: Mapping[str, Mapping[str, Any]] = SCHEMAS
) -> dict[str, pl.DataFrame]:
    """Read back the files that `write_tables` wrote.

    schemas: the columns of each table. Raises ValueError if one of the tables is missing or a file
    is none of them.
    """
    by_name = {path.stem: path for path in paths}
    tables = {}
    for name, schema in schemas.items():
        if name not in by_name:
            raise ValueError(f"the table {name}.csv is missing; given: {', '.join(by_name)}")
        table = pl.read_csv(by_name[name], infer_schema=False)
        if missing := schema.keys() - set(table.columns):
            raise ValueError(
                f"{by_name[name]}: is no {name} table; missing columns: {sorted(missing)}"
            )
        tables[name] = table.with_columns(
            (pl.col(key) == "true") if dtype == pl.Boolean else pl.col(key).cast(dtype)
            for key, dtype in schema.items()
        )
    return tables
