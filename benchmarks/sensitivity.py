"""What the sensitivity analyses cost at the published size, and how often their tests reject.

    python benchmarks/sensitivity.py [--settings 20] [--texts 50] [--dimensions 384]
    python benchmarks/sensitivity.py --studies 2000
    python benchmarks/sensitivity.py --lee2024 TEXTS EMBEDDINGS
    python benchmarks/sensitivity.py --run RESULTS STUDY MODEL ENCODER

The first draws texts of random words and unit vectors for 13 formats x 4 races x 2 genders, writes
the tables of a run to a temporary folder and times the stage's command on them. The second draws
studies whose truth is known and prints the percentage in which each test rejects at 5%. The third
takes the published GPT-3.5 texts (`texts.parquet` and `embeddings.parquet` of `validate_lee2024`)
as one setting, and prints main effects as they are, at equal length, and by permutation; which of
these texts were cut is not known. The fourth prints the same of a run.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import ttest_1samp

from llm_variability.config import cell_name
from llm_variability.fits.fit_table import fit_settings
from llm_variability.sensitivity.analyses import analyse_settings
from llm_variability.sensitivity.dispersion import (
    DispersionTests,
    permutation_p_value,
    permute_independently,
)
from llm_variability.sensitivity.length import (
    collect_pairs,
    infer_formats_fixed,
    infer_formats_random,
)
from llm_variability.sensitivity.texts import Encoded, GroupTexts, summarise_texts
from llm_variability.similarity.cosine import summarise_similarity
from llm_variability.similarity.embedding import hash_text, stack_vectors
from llm_variability.tables import (
    DRAWS,
    EMBEDDINGS,
    FITS,
    SIMILARITY,
    Design,
    Factor,
    read_table,
    write_table,
)
from llm_variability.validation.lee2024 import TEXTS, label_design
from llm_variability.validation.sampling import number_texts

FORMATS = tuple(f"format {number}" for number in range(13))
DESIGN = Design(
    "format",
    (
        Factor("race", ("White", "African", "Asian", "Hispanic"), "White"),
        Factor("gender", ("man", "woman"), "man"),
    ),
    blocks=FORMATS,
)


def draw_setting(
    number: int, texts: int, dimensions: int, rng: np.random.Generator
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Draw one setting's DRAWS table, and an EMBEDDINGS table of its texts."""
    rows, vectors = [], []
    groups = [(race, gender) for race in DESIGN.factors[0].levels for gender in ("man", "woman")]
    for block in FORMATS:
        centre = rng.normal(size=dimensions)
        for race, gender in groups:
            own = centre + 0.3 * rng.normal(size=dimensions)
            drawn = own + 0.9 * rng.normal(size=(texts, dimensions))
            vectors.append(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
            for replicate in range(texts):
                words = rng.integers(20, 50)
                rows.append(
                    {
                        "format": block,
                        "race": race,
                        "gender": gender,
                        "prompt_id": f"{block}/{race}/{gender}",
                        "replicate": replicate,
                        "seed": 1,
                        "text": f"{number} {len(rows)} " + "word " * int(words),
                        "status": "truncated" if rng.random() < 0.1 else "ok",
                    }
                )
    types = {name: column.dtype for name, column in DRAWS.columns.items()}
    draws = pl.DataFrame(rows, schema={**dict.fromkeys(DESIGN.columns, pl.String), **types})
    hashes = [hash_text(text) for text in draws["text"]]
    embeddings = pl.DataFrame(
        [
            pl.Series("text_hash", hashes),
            pl.Series("embedding", np.concatenate(vectors).astype(np.float32)).cast(
                pl.List(pl.Float32)
            ),
            pl.Series("over_long", [False] * len(hashes)),
        ]
    )
    return draws, embeddings


def write_run(folder: Path, settings: int, texts: int, dimensions: int) -> list[str]:
    """Write the tables of a run; returns the arguments that name them."""
    rng = np.random.default_rng(1)
    paths, vectors, similarities = [], [], []
    for number in range(settings):
        top_p = str(round(0.05 * (number + 1), 2))
        draws, embeddings = draw_setting(number, texts, dimensions, rng)
        metadata = {"design": DESIGN.to_json(), "temperature": "0.5", "top_p": top_p}
        paths.append(folder / f"{cell_name('0.5', top_p)}.parquet")
        write_table(draws, paths[-1], DRAWS, metadata)
        vectors.append(embeddings)
        hashed = draws.with_columns(embeddings["text_hash"], over_long=pl.lit(False))
        rows_of = {text_hash: row for row, text_hash in enumerate(embeddings["text_hash"])}
        similarities.append(
            summarise_similarity(
                hashed, stack_vectors(embeddings), rows_of, DESIGN.group, ["over_long"]
            ).with_columns(temperature=pl.lit("0.5"), top_p=pl.lit(top_p))
        )
    write_table(pl.concat(vectors), folder / "embeddings.parquet", EMBEDDINGS, {})
    metadata = {"design": DESIGN.to_json(), "include_truncated": True}
    write_table(pl.concat(similarities), folder / "similarity.parquet", SIMILARITY, metadata)
    return [
        *("--draws", *map(str, paths)),
        *("--embeddings", str(folder / "embeddings.parquet")),
        *("--similarity", str(folder / "similarity.parquet")),
    ]


def time_stage(settings: int, texts: int, dimensions: int, permutations: int) -> None:
    """Time the command on tables of this size, and print one line."""
    with tempfile.TemporaryDirectory() as name:
        inputs = write_run(Path(name), settings, texts, dimensions)
        command = [sys.executable, "-m", "llm_variability.sensitivity"]
        command += ["--study", "labels", "--model", "random", "--measure", "random", *inputs]
        command += ["--permutations", str(permutations), "--seed", "1"]
        command += ["--output", f"{name}/out.parquet"]
        package = Path(__file__).resolve().parents[1] / "workflow"
        begin = time.perf_counter()
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(package)})
        seconds = time.perf_counter() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    print(
        f"{settings} settings x {len(FORMATS)} formats x 8 groups x {texts} texts, {dimensions}"
        f" dimensions, {permutations} permutations: {seconds:.0f} s, {cpu:.0f} s of CPU,"
        f" {cpu / settings:.2f} s a setting, {used.ru_maxrss / 1024:,.0f} MiB at most"
    )


def draw_texts(rng: np.random.Generator, axis: np.ndarray, typical: np.ndarray) -> np.ndarray:
    """Draw unit vectors that have these cosines to an axis."""
    noise = rng.normal(size=(len(typical), len(axis)))
    noise -= np.outer(noise @ axis, axis)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    cosine = np.clip(typical, -1, 1)[:, None]
    return cosine * axis + np.sqrt(1 - cosine**2) * noise


def draw_axis(rng: np.random.Generator, dimensions: int = 64) -> np.ndarray:
    axis = rng.normal(size=dimensions)
    return axis / np.linalg.norm(axis)


def draw_skewed(rng: np.random.Generator, size: int) -> np.ndarray:
    """Draw with mean 0, SD 1 and skewness -1.4, as published texts are typical of their group."""
    return (2 - rng.standard_exponential((2, size)).sum(axis=0)) / np.sqrt(2)


def draw_dispersions(
    rng: np.random.Generator, texts: int, gap: float, kept: float
) -> list[list[GroupTexts]]:
    """Draw five formats of two groups that lie at different places.

    gap: what the second group's typicality lacks. kept: share of the variance of a name's
    typicality, and of its direction, that is the same in all formats; 0 for texts without names.
    """
    axes = [draw_axis(rng) for _ in range(2)]
    names = [draw_skewed(rng, texts) for _ in range(2)]
    own = [rng.normal(size=(texts, 64)) for _ in range(2)]
    blocks = []
    for _ in range(5):
        block = []
        for group in range(2):
            centre = 0.8 - group * gap
            skewed = np.sqrt(kept) * names[group] + np.sqrt(1 - kept) * draw_skewed(rng, texts)
            noise = np.sqrt(kept) * own[group] + np.sqrt(1 - kept) * rng.normal(size=(texts, 64))
            noise -= np.outer(noise @ axes[group], axes[group])
            noise /= np.linalg.norm(noise, axis=1, keepdims=True)
            cosine = np.clip(centre + 0.43 * (1 - centre) * skewed, -1, 1)[:, None]
            vectors = cosine * axes[group] + np.sqrt(1 - cosine**2) * noise
            units = tuple(f"{group} {i}" for i in range(texts)) if kept else None
            block.append(GroupTexts(vectors, np.full(texts, 30.0), units))
        blocks.append(block)
    return blocks


def draw_lengths(rng: np.random.Generator, texts: int, gap: float) -> list[list[GroupTexts]]:
    """Draw five formats of two groups, the second of texts that are 10 words longer.

    Typicality rises by 0.004 a word. gap: what the second group's has besides.
    """
    blocks = []
    for _ in range(5):
        axis = draw_axis(rng)
        block = []
        for group in range(2):
            words = rng.normal(35 + 10 * group, 8, size=texts).round()
            typical = 0.62 + 0.004 * (words - 40) + gap * group + 0.06 * rng.normal(size=texts)
            block.append(GroupTexts(draw_texts(rng, axis, typical), words, None))
        blocks.append(block)
    return blocks


def rate_permutation(
    rng: np.random.Generator, studies: int, texts: int, gap: float, kept: float = 0
) -> dict[str, float]:
    """Percentage of studies that reject: residuals permuted as they are meant to be, and not."""
    rejected = dict.fromkeys(("residuals", "raw vectors", "single texts"), 0)
    for number in range(studies):
        blocks = draw_dispersions(rng, texts, gap, kept)
        dispersion = [[((v.vectors - v.vectors.mean(0)) ** 2).sum() for v in b] for b in blocks]
        observed = abs(float(np.subtract(*np.mean(dispersion, axis=0))) / (texts - 1))
        tests = DispersionTests(blocks, [("a",), ("b",)], 199, (number,))
        permuted = {"residuals": tests.permute((0, 1))}
        members = tests.collect((0, 1))
        permuted["single texts"] = permute_independently(members, 2, 199, rng)
        raw = [
            replace(each, residuals=np.concatenate([texts.vectors for texts in block]))
            for each, block in zip(members, blocks, strict=True)
        ]
        permuted["raw vectors"] = permute_independently(raw, 2, 199, rng)
        for kind, found in permuted.items():
            p, _ = permutation_p_value(observed, np.abs(found[:, 0] - found[:, 1]))
            rejected[kind] += p <= 0.05
    return {kind: 100 * count / studies for kind, count in rejected.items()}


def rate_length(rng: np.random.Generator, studies: int, texts: int, gap: float) -> dict[str, float]:
    """Percentage of studies in which the groups differ at equal length, and as they are."""
    weights = np.array([[-1.0, 1.0]])
    rejected = dict.fromkeys(("formats fixed", "formats random", "as they are"), 0)
    for _ in range(studies):
        pairs = collect_pairs(draw_lengths(rng, texts, gap))
        rejected["formats fixed"] += infer_formats_fixed(pairs, weights).p_value[0] < 0.05
        rejected["formats random"] += infer_formats_random(pairs, weights).p_value[0] < 0.05
        difference = pairs.mean[:, 1, 0] - pairs.mean[:, 0, 0]
        rejected["as they are"] += ttest_1samp(difference, 0).pvalue < 0.05
    return {kind: 100 * count / studies for kind, count in rejected.items()}


def simulate(studies: int) -> None:
    """Print how often each test rejects at 5% in studies whose truth is known."""
    print(f"{studies} studies a row, five formats of two groups\n")
    print("| truth | texts | residuals | single texts | raw vectors |\n|---|---|---|---|---|")
    for title, gap, kept in (
        ("equal", 0.0, 0.0),
        ("unequal", 0.03, 0.0),
        ("equal, names", 0.0, 0.5),
        ("unequal, names", 0.03, 0.5),
    ):
        for texts in (10, 30, 50):
            rng = np.random.default_rng(texts)
            found = rate_permutation(rng, studies, texts, gap, kept)
            numbers = [
                f"{found[kind]:.1f}" for kind in ("residuals", "single texts", "raw vectors")
            ]
            print("| " + " | ".join([title, str(texts), *numbers]) + " |")
    print(
        "\n| truth | texts | as they are | formats fixed | formats random |\n|---|---|---|---|---|"
    )
    for title, gap in (("equal at equal length", 0.0), ("unequal at equal length", 0.02)):
        for texts in (10, 30, 50):
            rng = np.random.default_rng(texts)
            found = rate_length(rng, studies, texts, gap)
            numbers = [
                f"{found[k]:.1f}" for k in ("as they are", "formats fixed", "formats random")
            ]
            print("| " + " | ".join([title, str(texts), *numbers]) + " |")


def compare_published(texts: Path, embeddings: Path, permutations: int) -> None:
    """Print main effects of the published texts: as they are, at equal length, by permutation."""
    published = number_texts(read_table(texts, TEXTS))
    table = read_table(embeddings, EMBEDDINGS)
    design = label_design(published)
    frame = published.select(
        *design.columns,
        pl.lit("1.0").alias("temperature"),
        pl.lit("1.0").alias("top_p"),
        "prompt_id",
        "replicate",
        pl.lit("ok").alias("status"),
        "text_hash",
        pl.col("text").str.count_matches(r"\S+").cast(pl.Int64).alias("words"),
        pl.lit(False).alias("over_long"),
    )
    rows_of = {text_hash: row for row, text_hash in enumerate(table["text_hash"])}
    encoded = Encoded(frame, stack_vectors(table), rows_of)
    similarity = summarise_texts(frame, encoded, design)
    names = {"study": "lee2024", "model": "GPT-3.5", "measure": embeddings.parent.name}
    main = fit_settings(similarity, design, **names, levels=["text"])
    begin = time.perf_counter()
    found = analyse_settings(
        encoded, similarity, design, **names, seed=1, permutations=permutations
    )
    seconds = time.perf_counter() - begin
    print(f"{len(frame):,} texts, {names['measure']}: {seconds:.1f} s")
    lengths = frame.group_by("race", "gender").agg(pl.col("words").mean()).sort("race", "gender")
    print("mean words:", ", ".join(f"{r} {g} {w:.1f}" for r, g, w in lengths.iter_rows()))
    print_beside(main, found)


def print_beside(main: pl.DataFrame, found: pl.DataFrame) -> None:
    """Print main effects and slopes: the main fit's, at equal length, and by permutation."""
    key = ["temperature", "top_p", "scope", "coding", "term"]
    joined = found.filter(pl.col("analysis") == "length", "converged")
    for suffix, table in (
        ("_main", main),
        ("_permuted", found.filter(pl.col("analysis") == "permutation")),
    ):
        joined = joined.join(
            table, on=key, how="left", suffix=suffix, nulls_equal=True, maintain_order="left"
        )
    shown = (pl.col("coding") != "interaction").fill_null(value=True) & ~pl.col(
        "term"
    ).str.contains(":")
    print("\n| setting | scope | coding | term | main | p | equal length | p | permutation p |")
    print("|---|---|---|---|---|---|---|---|---|")
    numbers = ("estimate_main", "p_value_main", "estimate", "p_value", "p_value_permuted")
    for row in joined.filter(shown).iter_rows(named=True):
        cell = cell_name(row["temperature"], row["top_p"])
        parts = [cell, row["scope"], row["coding"] or "", row["term"]]
        parts += ["" if row[name] is None else f"{row[name]:.4f}" for name in numbers]
        print("| " + " | ".join(parts) + " |")
    print()
    for row in found.filter(pl.col("term") == "all groups").iter_rows(named=True):
        cell = cell_name(row["temperature"], row["top_p"])
        print(f"{cell}: all groups {row['estimate']:.4f} SD, p {row['p_value']:.4f}")


def print_run(results: Path, study: str, model: str, encoder: str) -> None:
    """Print what a run found: its FITS table beside its sensitivity table."""
    own = f"{study}/{model}/{encoder}.parquet"
    fits = read_table(results / "fits" / own, FITS).filter(pl.col("level") == "text")
    print_beside(fits, read_table(results / "sensitivity" / own, FITS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", type=int, default=20, help="settings of the grid")
    parser.add_argument("--texts", type=int, default=50, help="texts in each format x group")
    parser.add_argument("--dimensions", type=int, default=384, help="of the encoder's vectors")
    parser.add_argument("--permutations", type=int, default=999, help="of each test")
    parser.add_argument("--studies", type=int, help="studies a row to simulate, in place of these")
    parser.add_argument(
        "--run",
        nargs=4,
        metavar=("RESULTS", "STUDY", "MODEL", "ENCODER"),
        help="print what a run found, in place of these",
    )
    parser.add_argument(
        "--lee2024",
        nargs=2,
        type=Path,
        metavar=("TEXTS", "EMBEDDINGS"),
        help="tables of the published texts and of their vectors, in place of random ones",
    )
    arguments = parser.parse_args()
    if arguments.studies:
        simulate(arguments.studies)
    elif arguments.run:
        results, study, model, encoder = arguments.run
        print_run(Path(results), study, model, encoder)
    elif arguments.lee2024:
        compare_published(*arguments.lee2024, arguments.permutations)
    else:
        time_stage(
            arguments.settings, arguments.texts, arguments.dimensions, arguments.permutations
        )


if __name__ == "__main__":
    main()
