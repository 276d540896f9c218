"""The sensitivity stage: its rows, its reasons, and what it says of tables that do not fit."""

import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from llm_variability.fits.fit_table import GREEDY_REASON, fit_settings
from llm_variability.sensitivity import VERSION
from llm_variability.sensitivity.analyses import analyse_settings
from llm_variability.sensitivity.texts import Encoded, measure_draws, summarise_texts
from llm_variability.similarity.embedding import hash_text
from llm_variability.tables import (
    DRAWS,
    EMBEDDINGS,
    FITS,
    SIMILARITY,
    Design,
    Factor,
    read_metadata,
    read_table,
    write_table,
)

BLOCKS = ("story", "essay", "poem")
LABELS = Design(
    "format",
    (Factor("race", ("White", "Asian"), "White"), Factor("gender", ("man", "woman"), "man")),
    blocks=BLOCKS,
)
NAMES = Design(
    "format",
    (Factor("group", ("White", "Black"), "White"),),
    greedy_is_anchor=False,
    blocks=BLOCKS,
    unit="name",
)
KEY = [
    "study",
    "model",
    "analysis",
    "measure",
    "temperature",
    "top_p",
    "level",
    "scope",
    "coding",
    "term",
]
SETTING = ("0.5", "0.9")
ROWS = 2 * (4 + 2 + 1 + 2) + 2 * (4 + 2 + 1) + (1 + 2 + 2)
"""Of a setting of LABELS: length, untruncated, permutation."""


def draws_table(design: Design, seed: int = 1, per_group: int = 7) -> pl.DataFrame:
    """Texts of 20 to 60 words; none is cut."""
    rng = np.random.default_rng(seed)
    rows = []
    for key in product(design.blocks, *(factor.levels for factor in design.factors)):
        for i in range(per_group):
            own = {} if design.unit is None else {design.unit: f"{key[1]} {i}"}
            words = ["word"] * int(rng.integers(20, 60))
            rows.append(
                dict(zip(design.group, key, strict=True))
                | own
                | {
                    "prompt_id": "/".join([*key, *own.values()]),
                    "replicate": 0 if own else i,
                    "seed": 1,
                    "text": " ".join([str(seed), *key, str(i), *words]),
                    "status": "ok",
                }
            )
    types = {name: column.dtype for name, column in DRAWS.columns.items()}
    return pl.DataFrame(rows, schema={**dict.fromkeys(design.columns, pl.String), **types})


def cut(draws: pl.DataFrame, where: pl.Expr) -> pl.DataFrame:
    return draws.with_columns(
        status=pl.when(where).then(pl.lit("truncated")).otherwise(pl.col("status"))
    )


def embeddings_table(*draws: pl.DataFrame) -> pl.DataFrame:
    """A vector for each text, from the text alone."""
    hashes = sorted({hash_text(text) for table in draws for text in table["text"].drop_nulls()})
    vectors = np.array([np.random.default_rng(int(h[:12], 16)).normal(1, 1, 6) for h in hashes])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return pl.DataFrame(
        [
            pl.Series("text_hash", hashes),
            pl.Series("embedding", vectors.astype(np.float32)).cast(pl.List(pl.Float32)),
            pl.Series("over_long", [False] * len(hashes)),
        ]
    )


def encode(
    cells: dict[tuple[str, str | None], pl.DataFrame],
    design: Design = LABELS,
    include_truncated: bool = True,
) -> Encoded:
    table = embeddings_table(*cells.values())
    over_long = table.select("text_hash", "over_long")
    parts = [
        measure_draws(draws, setting, over_long, include_truncated, design)
        for setting, draws in cells.items()
    ]
    rows_of = {text_hash: row for row, text_hash in enumerate(table["text_hash"])}
    return Encoded(pl.concat(parts), np.array(table["embedding"].to_list()), rows_of)


def analyse(
    encoded: Encoded, design: Design = LABELS, seed: int = 1, **options: object
) -> pl.DataFrame:
    return analyse_settings(
        encoded,
        summarise_texts(encoded.texts, encoded, design),
        design,
        study="s",
        model="m",
        measure="e",
        seed=seed,
        permutations=199,
        **options,
    )


def of_analysis(estimates: pl.DataFrame, analysis: str) -> pl.DataFrame:
    return estimates.filter(pl.col("analysis") == analysis)


def test_every_analysis_has_its_rows_and_each_row_its_own_key() -> None:
    found = analyse(encode({SETTING: draws_table(LABELS)}))
    assert found.height == ROWS
    assert found["converged"].all()
    assert not found.select(KEY).is_duplicated().any()
    assert found.group_by("analysis", "scope", "backend", maintain_order=True).len().rows() == [
        ("length", "formats fixed", "jackknife", 9),
        ("length", "formats random", "format-clustered", 9),
        ("untruncated", "formats fixed", "jackknife", 7),
        ("untruncated", "formats random", "format-clustered", 7),
        ("permutation", "formats fixed", "permutation", 5),
    ]
    assert set(found["level"]) == {"text"}
    assert set(found["n_observations"]) == {12 * 7}
    assert set(found["n_blocks"]) == {3}


def test_permuted_contrasts_have_the_main_estimate_and_no_standard_error() -> None:
    encoded = encode({SETTING: draws_table(LABELS)})
    found = of_analysis(analyse(encoded), "permutation")
    main = fit_settings(
        summarise_texts(encoded.texts, encoded, LABELS),
        LABELS,
        study="s",
        model="m",
        measure="e",
        levels=["text"],
    ).filter(pl.col("scope") == "formats fixed")
    joined = found.join(main, on=["coding", "term"], suffix="_main")
    assert joined.height == 4
    for name in ("estimate", "outcome_mean", "outcome_sd"):
        np.testing.assert_allclose(joined[name], joined[f"{name}_main"], rtol=1e-9)
    assert found["std_error"].null_count() == found["df"].null_count() == found.height
    assert found["mc_error"].null_count() == 0
    omnibus = found.filter(pl.col("term") == "all groups")
    assert omnibus["coding"].to_list() == [None]
    assert omnibus["estimate"][0] > 0


def test_where_nothing_was_cut_uncut_texts_have_the_main_estimates() -> None:
    encoded = encode({SETTING: draws_table(LABELS)})
    main = fit_settings(
        summarise_texts(encoded.texts, encoded, LABELS),
        LABELS,
        study="s",
        model="m",
        measure="e",
        levels=["text"],
    )
    uncut = of_analysis(analyse(encoded), "untruncated")
    assert uncut.drop("analysis").equals(main.drop("analysis"))


def test_cut_texts_are_left_out_of_one_analysis_only() -> None:
    draws = draws_table(LABELS)
    doomed = pl.col("replicate") >= 5
    found = analyse(encode({SETTING: cut(draws, doomed)}))
    fewer = of_analysis(analyse(encode({SETTING: draws.filter(~doomed)})), "untruncated")
    assert of_analysis(found, "untruncated").equals(fewer)
    assert set(fewer["n_observations"]) == {12 * 5}
    whole = analyse(encode({SETTING: draws}))
    for analysis in ("length", "permutation"):
        assert of_analysis(found, analysis).equals(of_analysis(whole, analysis))


def test_too_few_uncut_texts_are_a_reason_with_their_number() -> None:
    doomed = (pl.col("format") == "poem") & (pl.col("race") == "Asian") & (pl.col("replicate") > 2)
    found = analyse(encode({SETTING: cut(draws_table(LABELS), doomed)}))
    rows = of_analysis(found, "untruncated")
    assert rows["scope"].to_list() == ["formats fixed", "formats random"]
    assert (
        rows["reason"].to_list()
        == [
            "fewer than four texts in poem / Asian / man (3), poem / Asian / woman (3);"
            " 76 of 84 texts were not cut"
        ]
        * 2
    )
    assert of_analysis(found, "length")["converged"].all()


def test_setting_in_which_all_texts_were_cut_keeps_its_rows() -> None:
    found = analyse(encode({SETTING: cut(draws_table(LABELS), pl.lit(True))}))
    reasons = of_analysis(found, "untruncated")["reason"].to_list()
    assert reasons == ["no text was measured; 0 of 84 texts were not cut"] * 2


def test_greedy_anchor_missing_texts_and_a_single_format_have_reasons() -> None:
    whole = draws_table(LABELS)
    men = draws_table(LABELS, seed=2).filter(pl.col("gender") == "man")
    cells = {("0", None): whole, ("1.0", "0.9"): men}
    found = analyse(encode(cells), settings=[("0", None), ("2.0", "0.9")])
    reasons = found.group_by("temperature", maintain_order=True).agg(
        pl.col("reason").unique(), pl.len()
    )
    assert sorted(reasons.rows()) == [
        ("0", [GREEDY_REASON], 5),
        ("1.0", ["no text was measured for gender woman"], 5),
        ("2.0", ["no text was measured"], 5),
    ]

    single = Design("format", LABELS.factors, blocks=("story",))
    story = whole.filter(pl.col("format") == "story")
    found = analyse(encode({SETTING: story}, single), single)
    failed = found.filter(~pl.col("converged"))
    assert failed.select("analysis", "scope").rows() == [
        ("length", "formats random"),
        ("untruncated", "formats random"),
    ]
    assert set(failed["reason"]) == {"only one format: a sample of them needs at least two"}


def test_group_of_three_texts_is_a_reason_everywhere() -> None:
    few = draws_table(LABELS).filter(
        (pl.col("format") != "essay") | (pl.col("race") != "Asian") | (pl.col("replicate") < 3)
    )
    found = analyse(encode({SETTING: few}))
    assert found.height == 5
    assert found["reason"].str.starts_with("fewer than four texts in essay / Asian / man (3)").all()


def test_texts_of_one_length_have_no_adjustment_and_every_other_row() -> None:
    even = draws_table(LABELS).with_columns(
        text=pl.format("{} {} {} {}", "format", "race", "gender", "replicate")
    )
    found = analyse(encode({SETTING: even}))
    lengths = of_analysis(found, "length")
    assert (
        lengths["reason"].to_list()
        == ["no variance: within the groups all texts are of the same length"] * 2
    )
    assert found.filter("converged").height == ROWS - 18


def test_other_settings_and_the_order_of_texts_change_no_p_value() -> None:
    draws, more = draws_table(LABELS), draws_table(LABELS, seed=2)
    alone = analyse(encode({SETTING: draws}))
    turned = encode({SETTING: draws.reverse()})
    key = ["coding", "term", "p_value", "mc_error"]
    permuted = of_analysis(analyse(turned), "permutation")
    assert permuted.select(key).equals(of_analysis(alone, "permutation").select(key))
    beside = analyse(encode({("0.2", "0.9"): more, SETTING: draws, ("1.0", "0.3"): more}))
    assert beside.filter(pl.col("temperature") == "0.5").equals(alone)
    two = beside.filter(pl.col("analysis") == "permutation", pl.col("coding").is_not_null())
    p = two.partition_by("temperature")
    assert p[0].drop("temperature", "top_p")["estimate"].equals(p[2]["estimate"])
    assert not p[0]["p_value"].equals(p[2]["p_value"])  # a stream of its own for each setting


def test_seed_of_the_study_decides_the_random_numbers() -> None:
    encoded = encode({SETTING: draws_table(LABELS)})
    first, again, other = (
        of_analysis(analyse(encoded, seed=seed), "permutation") for seed in (1, 1, 2)
    )
    assert first.equals(again)
    assert not first["p_value"].equals(other["p_value"])


def test_names_are_units_in_every_analysis() -> None:
    encoded = encode({("0", None): draws_table(NAMES)}, NAMES)
    found = analyse(encoded, NAMES)
    assert found["converged"].all()
    assert found.height == 2 * (3 + 2) + 2 * 3 + 3
    apart = Design(NAMES.block, NAMES.factors, greedy_is_anchor=False, blocks=BLOCKS)
    texts = analyse(Encoded(encoded.texts.drop("name"), encoded.vectors, encoded.rows_of), apart)
    fixed = pl.col("scope") == "formats fixed"
    for analysis in ("length", "untruncated"):
        ours, theirs = (of_analysis(each, analysis).filter(fixed) for each in (found, texts))
        np.testing.assert_allclose(ours["estimate"], theirs["estimate"])
        assert not np.allclose(ours["std_error"], theirs["std_error"])
    ours, theirs = (of_analysis(each, "permutation") for each in (found, texts))
    assert ours["estimate"].equals(theirs["estimate"])
    assert not ours["p_value"].equals(theirs["p_value"])
    # One factor: both codings are the same test, and have the same p value.
    assert ours.filter(pl.col("term") == "group[Black]")["p_value"].n_unique() == 1


def test_name_with_two_texts_in_a_format_is_a_reason() -> None:
    draws = draws_table(NAMES).with_columns(name=pl.col("name").replace("White 1", "White 0"))
    found = analyse(encode({SETTING: draws}, NAMES), NAMES)
    assert (
        found["reason"].to_list()
        == ["name with several texts where one is compared: story / White / White 0"] * 5
    )


def test_texts_that_are_not_those_of_the_similarity_table_are_refused() -> None:
    encoded = encode({SETTING: draws_table(LABELS)})
    names = {"study": "s", "model": "m", "measure": "e", "seed": 1, "permutations": 99}
    whole = summarise_texts(encoded.texts, encoded, LABELS)
    fewer = Encoded(encoded.texts[2:], encoded.vectors, encoded.rows_of)
    with pytest.raises(ValueError, match="draws: lack 2 of the similarity table's texts"):
        analyse_settings(fewer, whole, LABELS, **names)
    with pytest.raises(ValueError, match="similarity: lacks 1 of the draws' texts.*T0.5-P0.9"):
        analyse_settings(encoded, whole[1:], LABELS, **names)
    blank = encoded.texts.with_columns(over_long=pl.lit(None, dtype=pl.Boolean))
    with pytest.raises(ValueError, match="embeddings: lack 84 of the draws' texts"):
        analyse_settings(Encoded(blank, encoded.vectors, encoded.rows_of), whole, LABELS, **names)


# --------------------------------------------------------------------------------- the command


def write_inputs(folder: Path, draws: pl.DataFrame, include_truncated: bool = True) -> list[str]:
    cell = {"design": LABELS.to_json(), "temperature": "0.5", "top_p": "0.9"}
    write_table(draws, folder / "T0.5-P0.9.parquet", DRAWS, cell)
    write_table(embeddings_table(draws), folder / "vectors.parquet", EMBEDDINGS, {})
    encoded = encode({SETTING: draws}, include_truncated=include_truncated)
    metadata = {
        "design": LABELS.to_json(),
        "include_truncated": include_truncated,
        "encoder": "mini",
    }
    similarity = summarise_texts(encoded.texts, encoded, LABELS)
    write_table(similarity, folder / "similarity.parquet", SIMILARITY, metadata)
    return [
        *("--study", "labels", "--model", "tiny", "--measure", "mini"),
        *("--draws", str(folder / "T0.5-P0.9.parquet")),
        *("--embeddings", str(folder / "vectors.parquet")),
        *("--similarity", str(folder / "similarity.parquet")),
        *("--permutations", "99", "--seed", "7", "--cells", "T0", "T0.5-P0.9"),
        *("--log", str(folder / "log.txt"), "--output", str(folder / "out.parquet")),
    ]


def run_stage(arguments: list[str]) -> subprocess.CompletedProcess:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "llm_variability.sensitivity", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": str(root / "workflow")}
    )


def test_command_writes_a_fits_table_that_says_what_made_it(tmp_path: Path) -> None:
    draws = cut(draws_table(LABELS), pl.col("replicate") == 0)
    done = run_stage(write_inputs(tmp_path, draws))
    assert done.returncode == 0, done.stderr
    found = read_table(tmp_path / "out.parquet", FITS)
    assert found.height == ROWS + 5
    made_by = read_metadata(tmp_path / "out.parquet")
    assert made_by["sensitivity_version"] == VERSION
    assert (made_by["seed"], made_by["permutations"]) == (7, 99)
    assert made_by["encoder"] == "mini"
    assert "top-p none, permutation, text, formats fixed: no estimate: greedy anchor" in done.stderr
    assert (tmp_path / "log.txt").read_text() in done.stderr
    assert set(of_analysis(found, "length").drop_nulls("term")["n_observations"]) == {84}
    assert set(of_analysis(found, "untruncated").drop_nulls("term")["n_observations"]) == {72}


def test_study_without_truncated_texts_uses_the_same_texts_throughout(tmp_path: Path) -> None:
    draws = cut(draws_table(LABELS), pl.col("replicate") == 0)
    done = run_stage(write_inputs(tmp_path, draws, include_truncated=False))
    assert done.returncode == 0, done.stderr
    found = read_table(tmp_path / "out.parquet", FITS).drop_nulls("term")
    assert set(found["n_observations"]) == {72}


def test_command_ends_in_one_line_where_the_draws_are_others(tmp_path: Path) -> None:
    arguments = write_inputs(tmp_path, draws_table(LABELS))
    write_table(
        draws_table(LABELS)[:-1],
        tmp_path / "T0.5-P0.9.parquet",
        DRAWS,
        {"design": LABELS.to_json(), "temperature": "0.5", "top_p": "0.9"},
    )
    done = run_stage(arguments)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert (
        "draws: lack 1 of the similarity table's texts, the first of cell T0.5-P0.9" in done.stderr
    )
    assert not (tmp_path / "out.parquet").exists()
