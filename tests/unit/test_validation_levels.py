"""What holds in all published texts: the levels, in a few lines and as a table."""

from __future__ import annotations

import argparse
from itertools import combinations, product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import ttest_1samp

from llm_variability.config import ConfigError
from llm_variability.validation import __main__ as command
from llm_variability.validation.lee2024 import COLUMNS, label_design
from llm_variability.validation.levels import (
    LEVEL_COLUMNS,
    choose_surviving,
    describe_levels,
    fit_levels,
    list_effects,
    shorten_term,
    tabulate_levels,
)
from llm_variability.validation.sampling import number_texts

FORMATS = ("biography of", "essay about", "poem about", "story about")
RACES = ("White", "African", "Asian", "Hispanic")
GENDERS = ("man", "woman")
PER_CELL = 5


def make_texts() -> tuple[pl.DataFrame, np.ndarray, dict[str, int]]:
    """Numbered texts of every cell, and vectors that draw women's texts together."""
    rows = [
        (*cell, f"{' '.join(cell)} {i}")
        for cell in product(FORMATS, RACES, GENDERS)
        for i in range(PER_CELL)
    ]
    numbered = number_texts(
        pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.String), orient="row")
    )
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(len(numbered), 8))
    vectors[:, 0] += 2 + 2 * (numbered["gender"] == "woman").to_numpy()
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rows_of = {text_hash: row for row, text_hash in enumerate(numbered["text_hash"])}
    return numbered, vectors.astype(np.float32), rows_of


@pytest.fixture(scope="module")
def levels() -> pl.DataFrame:
    numbered, vectors, rows_of = make_texts()
    return fit_levels(numbered, vectors, rows_of, label_design(numbered), encoder="toy")


def test_all_levels_scopes_and_codings_have_rows(levels: pl.DataFrame) -> None:
    assert levels.columns == LEVEL_COLUMNS
    counts = levels.group_by("level", "scope", "coding").len()
    assert {row[:3]: row[3] for row in counts.iter_rows()} == {
        ("pairwise", None, "treatment"): 8,
        ("cell", None, "treatment"): 8,
        **{
            ("text", scope, coding): n
            for scope in ("formats fixed", "formats random")
            for coding, n in (("treatment", 8), ("marginal", 4), ("interaction", 3))
        },
    }


def test_formats_random_is_a_t_test_of_the_formats_differences(levels: pl.DataFrame) -> None:
    numbered, vectors, rows_of = make_texts()
    means = {}
    for key, part in numbered.partition_by(["format", "race", "gender"], as_dict=True).items():
        unit = vectors[[rows_of[each] for each in part["text_hash"]]].astype(float)
        means[key] = np.mean([a @ b for a, b in combinations(unit, 2)])
    differences = [
        np.mean([means[form, race, "woman"] - means[form, race, "man"] for race in RACES])
        for form in FORMATS
    ]
    row = levels.row(
        by_predicate=(pl.col("scope") == "formats random")
        & (pl.col("coding") == "marginal")
        & (pl.col("term") == "gender[woman]"),
        named=True,
    )
    test = ttest_1samp(differences, 0)
    assert row["p_value"] == pytest.approx(test.pvalue, rel=1e-4)
    assert row["estimate"] * row["outcome_sd"] == pytest.approx(np.mean(differences), abs=1e-6)


def test_a_model_without_a_fit_ends_in_one_line() -> None:
    numbered, vectors, rows_of = make_texts()
    same = np.tile(vectors[:1], (len(vectors), 1))
    with pytest.raises(ConfigError, match="validation: level pairwise: no variance"):
        fit_levels(numbered, same, rows_of, label_design(numbered), encoder="toy")


@pytest.mark.parametrize(
    ("term", "short"),
    [
        ("race[African]", "African"),
        ("race[Asian]:gender[woman]", "Asian x woman"),
        ("Intercept", "Intercept"),
    ],
)
def test_a_term_is_shortened_to_its_levels(term: str, short: str) -> None:
    assert shorten_term(term) == short


def test_interactions_are_listed_once(levels: pl.DataFrame) -> None:
    assert list_effects(levels, "treatment") == [
        *(f"race[{r}]" for r in RACES[1:]),
        "gender[woman]",
    ]
    assert all(":" in term for term in list_effects(levels, "interaction"))


def make_levels() -> pl.DataFrame:
    """African holds under both scopes, Asian in these formats only, and not with the others."""
    rows = [
        ("text", "formats fixed", "marginal", "race[African]", 0.0004, 0.1, 0.9),
        ("text", "formats fixed", "marginal", "race[Asian]", 0.04, -0.1, 0.9),
        ("text", "formats random", "marginal", "race[African]", 0.02, 0.01, 0.9),
        ("text", "formats random", "marginal", "race[Asian]", 0.3, -0.4, 0.9),
    ]
    columns = [*LEVEL_COLUMNS[:4], "p_value", "simultaneous_low", "simultaneous_high"]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(n_blocks=pl.lit(13))


def test_what_survives_is_told_by_scope_with_a_star_if_at_once() -> None:
    levels = make_levels()
    assert choose_surviving(levels, "formats fixed", "marginal") == ["African*", "Asian"]
    assert choose_surviving(levels, "formats random", "marginal") == ["African*"]
    told = " ".join(describe_levels(levels).split())
    assert "holds in these formats: African*, Asian; in such formats: African*." in told
    assert "In these formats: the 13 that there are" in told
    none = describe_levels(levels.with_columns(p_value=pl.lit(0.5)))
    assert "in these formats: none; in such formats: none" in " ".join(none.split())


def test_lines_fit_the_screen(levels: pl.DataFrame) -> None:
    assert max(len(line) for line in describe_levels(levels).splitlines()) <= 100


def test_p_values_of_several_encoders_stand_in_brackets_where_they_differ() -> None:
    other = make_levels().with_columns(p_value=pl.Series([0.0001, 0.04, 0.123, 0.3]))
    text = tabulate_levels({"a": make_levels(), "b": other})
    assert text.splitlines() == [
        "| contrast | pairwise | cell | formats fixed | formats random |",
        "|---|---|---|---|---|",
        "| African, averaged over the other factor |  |  | < .001 | .020 (.12) |",
        "| Asian, averaged over the other factor |  |  | .040 | .30 |",
    ]


def test_the_command_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "levels.csv")
        make_levels().write_csv(paths[-1])
    command.print_levels(argparse.Namespace(files=paths))
    assert capsys.readouterr().out == tabulate_levels({"a": make_levels(), "b": make_levels()})
