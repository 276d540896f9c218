"""What the constants of `llm_variability.plan` are measured by.

    python benchmarks/planning.py disk RESULTS [RESULTS ...]
    python benchmarks/planning.py tokens RESULTS [RESULTS ...]
    python benchmarks/planning.py published TEXTS EMBEDDINGS --output SIMILARITY
    python benchmarks/planning.py samples TEXTS EMBEDDINGS [--texts 50] [--seeds 1 2 3 4 5]

`disk` and `tokens` read the results of finished runs. `published` makes a similarity table of all
published texts, which `python -m llm_variability.plan CONFIG --pilot SIMILARITY` takes as a pilot,
and prints the population that the plan takes by default, and how unequal the contrasts' standard
errors over the formats are. `samples` draws samples of the published texts, as the validation
does, and sets their standard errors with formats fixed beside those of the plan's
model. TEXTS and EMBEDDINGS are what `snakemake validate_lee2024` leaves in
results/validation/lee2024: texts.parquet and ENCODER/embeddings.parquet.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from llm_variability.fits.coding import INTERCEPT, list_groups
from llm_variability.fits.contrasts import list_contrasts
from llm_variability.fits.group_statistics import summarise_groups
from llm_variability.fits.text_inference import (
    FORMATS_FIXED,
    FORMATS_RANDOM,
    Inference,
    infer_formats_fixed,
    infer_formats_random,
)
from llm_variability.fits.text_level import measure_groups
from llm_variability.plan.counts import TEMPLATE_TOKENS, TOKENS_PER_WORD
from llm_variability.plan.population import PUBLISHED, list_effects, read_pilot
from llm_variability.plan.power import Layout, simulate_tests
from llm_variability.similarity.cosine import summarise_similarity
from llm_variability.similarity.embedding import hash_text, stack_vectors
from llm_variability.tables import EMBEDDINGS, SIMILARITY, Design, read_table, write_table
from llm_variability.validation.lee2024 import TEXTS, label_design
from llm_variability.validation.sampling import number_texts, sample_texts, summarise_texts


def list_sizes(results: Path) -> Iterator[tuple[str, int, int]]:
    """Give (kind, bytes, what they are counted by) of every file that grows with a study."""
    for file in results.glob("draws/*/*/*.parquet"):
        yield "draws, by token", file.stat().st_size, _tokens(file)
        journals = file.parent.glob(f"journals/{file.stem}.{'[0-9a-f]' * 16}.jsonl")
        yield "journals, by token", sum(each.stat().st_size for each in journals), _tokens(file)
    for file in results.glob("embeddings/*/*/*.parquet"):
        vectors = pl.read_parquet(file)["embedding"]
        kind = "shared vectors" if file.parents[1].name == "vectors" else "vectors"
        yield f"{kind}, by dimension", file.stat().st_size, int(vectors.list.len().sum())
    for stage in ("similarity", "fits"):
        for file in results.glob(f"{stage}/*/*/*.parquet"):
            yield f"{stage}, by row", file.stat().st_size, len(pl.read_parquet(file))


def _tokens(draws: Path) -> int:
    return int(pl.read_parquet(draws)["completion_tokens"].sum())


def print_sizes(folders: list[Path]) -> None:
    """Print, a row a kind, bytes in all, and a line through the files: bytes each and a file."""
    sizes: dict[str, list[tuple[int, int]]] = {}
    for folder in folders:
        for kind, size, count in list_sizes(folder):
            sizes.setdefault(kind, []).append((size, count))
    print("| kind | files | bytes | bytes each, files and all | bytes each | bytes a file |")
    print("|---|---:|---:|---:|---:|---:|")
    for kind, pairs in sizes.items():
        total, count = np.array(pairs, dtype=float).T
        line = "| | |"
        if len(set(count)) > 1:
            each, file = np.polyfit(count, total, 1)
            line = f"| {each:.1f} | {file:,.0f} |"
        print(
            f"| {kind} | {len(pairs)} | {total.sum():,.0f} | {total.sum() / count.sum():.1f} {line}"
        )


def print_tokens(folders: list[Path]) -> None:
    """Print how many tokens the prompts had, and how many the plan takes them to have."""
    print("| study | tokens of a prompt | as estimated |\n|---|---:|---:|")
    for file in [file for folder in folders for file in sorted(folder.glob("stimuli/*.parquet"))]:
        prompts = pl.read_parquet(file)
        text = pl.concat_str("system", "prompt", separator=" ", ignore_nulls=True)
        words = prompts.select(text.str.count_matches(r"\S+")).to_series().to_numpy()
        draws = pl.read_parquet(file.parents[1] / "draws" / file.stem / "*" / "*.parquet")
        estimated = (words * TOKENS_PER_WORD + TEMPLATE_TOKENS).mean()
        print(f"| {file.stem} | {draws['prompt_tokens'].mean():.1f} | {estimated:.1f} |")


def measure_published(texts: Path, embeddings: Path, output: Path) -> None:
    """Write the similarity table of all published texts, and print what they are drawn from."""
    vectors = read_table(embeddings, EMBEDDINGS)
    rows = {text_hash: row for row, text_hash in enumerate(vectors["text_hash"])}
    found = read_table(texts, TEXTS)
    design = label_design(found)
    numbered = found.with_columns(
        pl.Series("text_hash", [hash_text(text) for text in found["text"]]),
        prompt_id=pl.concat_str(design.group, separator="/"),
        replicate=pl.int_range(pl.len(), dtype=pl.Int32).over(design.group),
        over_long=pl.lit(False),
    )
    table = summarise_similarity(
        numbered, stack_vectors(vectors), rows, design.group, ["over_long"]
    ).with_columns(temperature=pl.lit("1.0"), top_p=pl.lit("1.0"))
    metadata = {"study": "lee2024", "model": "GPT-3.5", "design": design.to_json()}
    write_table(table, output, SIMILARITY, metadata)
    population, _ = read_pilot(output)
    print(f"texts       {len(table):,}")
    print(f"mean cosine {population.mean_cosine:.4f}")
    print(f"SD          {population.cosine_sd:.4f}, of formats {population.format_sd:.4f}")
    print(f"typicality  {population.typicality:.6f} (variance)")
    print(f"residual    {population.residual:.6f} (variance)")
    for factor, contrast in list_effects(design.factors):
        slope = population.slopes[contrast.coding, factor]
        print(f"slope       {slope:.4f} (SD of a difference in {factor}, {contrast.coding})")
    print_spread(table, design)


def infer_contrasts(similarity: pl.DataFrame, design: Design, scope: str) -> Inference:
    """Infer every contrast of one complete setting, in cosines."""
    keys = [(block, *group) for block in design.blocks for group in list_groups(design.factors)]
    grid = pl.DataFrame(keys, schema=dict.fromkeys(design.group, pl.String), orient="row")
    statistics = grid.join(
        summarise_groups(similarity, design), on=design.group, how="left", maintain_order="left"
    )
    means, within_ss = (
        statistics[name].to_numpy().reshape(len(design.blocks), -1)
        for name in ("mean_cosine", "within_ss")
    )
    groups = measure_groups(similarity, within_ss, design, design.blocks)
    infer = infer_formats_fixed if scope == FORMATS_FIXED else infer_formats_random
    weights = np.array([each.weights for each in list_contrasts(design.factors)])
    return infer(means, groups, weights)


def print_spread(similarity: pl.DataFrame, design: Design) -> None:
    """Print the smallest and the largest standard error over formats, each for the same weights.

    If all contrasts interacted with formats alike, as the level `cell` takes them to, a standard
    error over the root of the contrast's sum of squared weights would be the same for all.
    """
    error = infer_contrasts(similarity, design, FORMATS_RANDOM).std_error
    found = {
        f"{each.coding} {each.term}": float(error[i] / np.sqrt((each.weights**2).sum()))
        for i, each in enumerate(list_contrasts(design.factors))
        if each.term != INTERCEPT
    }
    least, most = min(found, key=found.__getitem__), max(found, key=found.__getitem__)
    print("std. error  over formats, for the same weights:")
    print(f"            {found[least]:.4f} ({least}) to {found[most]:.4f} ({most}),")
    print(f"            {found[most] / found[least]:.1f}-fold")


def compare_samples(texts: Path, embeddings: Path, size: int, seeds: list[int]) -> None:
    """Print standard errors with formats fixed, in cosines: mean of the samples, and the plan's."""
    vectors = read_table(embeddings, EMBEDDINGS)
    rows = {text_hash: row for row, text_hash in enumerate(vectors["text_hash"])}
    found = read_table(texts, TEXTS)
    design, numbered, stacked = label_design(found), number_texts(found), stack_vectors(vectors)
    contrasts = list_contrasts(design.factors)
    errors = []
    for seed in seeds:
        similarity = summarise_texts(sample_texts(numbered, size, seed), stacked, rows, design)
        errors.append(infer_contrasts(similarity, design, FORMATS_FIXED).std_error)
    simulated = simulate_tests(Layout(design, len(design.blocks), PUBLISHED), size)
    print("| difference | mean of the samples | the plan's model |\n|---|---:|---:|")
    for factor, effect in list_effects(design.factors):
        kind = [
            i
            for i, each in enumerate(contrasts)
            if each.coding == effect.coding
            and each.term.startswith(f"{factor}[")
            and ":" not in each.term
        ]
        model = simulated[FORMATS_FIXED, effect.coding, factor].std_error.mean()
        mean = np.mean([error[kind] for error in errors])
        print(f"| {factor}, {effect.coding} | {mean:.4f} | {model:.4f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, dest="command")
    for name in ("disk", "tokens"):
        command = commands.add_parser(name)
        command.add_argument("results", nargs="+", type=Path, help="results of a finished run")
    published = commands.add_parser("published")
    published.add_argument("texts", type=Path)
    published.add_argument("embeddings", type=Path)
    published.add_argument("--output", type=Path, required=True, help="the similarity table")
    samples = commands.add_parser("samples")
    samples.add_argument("texts", type=Path)
    samples.add_argument("embeddings", type=Path)
    samples.add_argument("--texts", dest="size", type=int, default=50, help="of each cell")
    samples.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    arguments = parser.parse_args()
    if arguments.command == "published":
        measure_published(arguments.texts, arguments.embeddings, arguments.output)
    elif arguments.command == "samples":
        compare_samples(arguments.texts, arguments.embeddings, arguments.size, arguments.seeds)
    elif arguments.command == "disk":
        print_sizes(arguments.results)
    else:
        print_tokens(arguments.results)


if __name__ == "__main__":
    main()
