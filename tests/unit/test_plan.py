"""What a plan counts, what it prints, and what it says of bad input."""

import json
import re
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from llm_variability.config import ConfigError, load_settings
from llm_variability.fits.fit_table import fit_settings
from llm_variability.fits.multiplicity import adjust_p_values
from llm_variability.plan import __main__ as command
from llm_variability.plan.counts import (
    VECTOR_BYTES,
    CodeCounts,
    StudyCounts,
    count_code_studies,
    count_studies,
    estimate_disk,
    find_dimension,
)
from llm_variability.plan.population import PUBLISHED, list_effects, read_pilot
from llm_variability.preflight import describe_draws
from llm_variability.similarity.cosine import sum_cosines
from llm_variability.tables import (
    EMBEDDINGS,
    SIMILARITY,
    Design,
    Factor,
    TableError,
    write_table,
)

HOME = Path(__file__).resolve().parents[2]
DEFAULT, PUBLISHED_STUDY = HOME / "config/config.yaml", HOME / "config/homogeneity.yaml"

RACE = Factor("race", ("White", "African", "Asian"), "White")
GENDER = Factor("gender", ("man", "woman"), "man")
LABELS = Design("format", (RACE, GENDER), blocks=("story", "poem"))
NAMES = Design("format", (RACE,), False, ("story", "poem"), unit="name")


@pytest.fixture(scope="module")
def published() -> dict[str, StudyCounts]:
    return {each.name: each for each in count_studies(load_settings([PUBLISHED_STUDY]), HOME)}


@pytest.fixture(scope="module")
def small() -> dict[str, StudyCounts | CodeCounts]:
    settings = load_settings([DEFAULT])
    counts = [*count_studies(settings, HOME), *count_code_studies(settings, HOME)]
    return {each.name: each for each in counts}


# ----------------------------------------------------------------------------------------- counts


def test_published_study_has_its_published_size(published) -> None:
    labels, names = published["labels"], published["names"]
    assert (labels.all_draws, names.all_draws) == (764_400, 382_200)
    assert (labels.prompts, names.prompts) == (13 * 8, 13 * 4 * 50)
    assert (labels.n_texts, names.n_texts) == (50, 50)
    assert (labels.cells, names.cells) == (7 * 21, 7 * 21)
    # Greedy decoding repeats one answer a prompt, but gives every name a text.
    assert (labels.fitted_settings, names.fitted_settings) == (20, 21)


def test_draws_are_those_that_preflight_tells(small, published) -> None:
    for file, counts in ((DEFAULT, small), (PUBLISHED_STUDY, published)):
        for line in describe_draws(load_settings([file]), HOME):
            name, numbers = line.split(":", 1)
            told = [int(each.replace(",", "")) for each in re.findall(r"[\d,]*\d", numbers)]
            study = counts[name]
            assert told[:4] == [study.prompts, study.n_settings, study.draws, study.all_draws]


def test_greedy_draws_count_among_the_draws(small) -> None:
    """4 formats x 8 groups, 6 draws at 2 settings and 2 at temperature 0; 64 names once at 3.

    3 tasks as they are and at 2 rates of 2 methods, 3 draws at 3 settings.
    """
    assert small["labels"].draws == 4 * 8 * (6 * 2 + 2)
    assert small["names"].draws == 4 * 4 * 4 * 3
    assert small["code"].draws == 3 * (1 + 2 * 2) * 3 * 3
    assert small["code"].cells == 3 * (1 + 2 * 2)


def test_reasoning_counts_among_the_tokens(published) -> None:
    """Seven models may write 80 tokens, one of them 512 more."""
    assert published["labels"].answer_tokens == 109_200 * (7 * 80 + 512)


def test_prompt_tokens_are_about_those_of_the_default_run(small) -> None:
    """31.8 and 28.9 tokens a prompt under SmolLM2's tokenizer, in a run's draws."""
    assert small["labels"].prompt_tokens / 448 == pytest.approx(31.8, rel=0.05)
    assert small["names"].prompt_tokens / 192 == pytest.approx(28.9, rel=0.05)


def draw_similarity(design: Design, settings: list[tuple[str, str | None]], texts: int = 5):
    rng = np.random.default_rng(1)
    genders = GENDER.levels if len(design.factors) > 1 else ("",)
    frames = []
    for (temperature, top_p), block, race, gender in product(
        settings, design.blocks, RACE.levels, genders
    ):
        vectors = rng.standard_normal((texts, 6)) + 1
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        sums, squares = sum_cosines(vectors)
        columns = {
            "format": block,
            "race": race,
            "gender": gender,
            "name": [f"{race}{i}" for i in range(texts)],
            "temperature": temperature,
            "top_p": pl.Series([top_p] * texts, dtype=pl.String),
            "prompt_id": "x",
            "replicate": range(texts),
            "n_mates": texts - 1,
            "cosine_sum": sums,
            "cosine_sum_squares": squares,
            "over_long": False,
        }
        frames.append(pl.DataFrame(columns).drop({"gender", "name"} - set(design.columns)))
    return pl.concat(frames)


SETTINGS = [("0", None), ("0.5", "1.0"), ("1.0", "0.8"), ("1.0", "1.0")]


@pytest.mark.parametrize("design", [LABELS, NAMES], ids=["labels", "names"])
def test_tests_and_rows_are_as_many_as_the_fits_make(design: Design) -> None:
    similarity = draw_similarity(design, SETTINGS[:3])
    one = fit_settings(similarity, design, study="s", model="a", measure="e")
    fits = pl.concat([one, one.with_columns(model=pl.lit("b"))])
    fitted = fits.filter(pl.col("converged"))
    counts = StudyCounts("s", design, 2, 5, 1, 1, 2, 1, 3, 2 if design is LABELS else 3, 0, 0)
    assert counts.fit_rows == len(fitted)
    keys = ["model", "temperature", "top_p", "level", "scope"]
    assert counts.fits == fitted.select(keys).n_unique()
    for family in ("study", "model", "setting"):
        sizes = adjust_p_values(fitted, family).filter(pl.col("p_holm").is_not_null())
        assert sizes["family_size"].unique().to_list() == [counts.tests(family)]


def test_vectors_take_the_disk_space_that_is_estimated(tmp_path: Path, small) -> None:
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((775, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    frame = pl.DataFrame(
        {
            "text_hash": [f"{i:032x}" for i in range(len(vectors))],
            "embedding": vectors.tolist(),
            "over_long": False,
        },
        schema={name: column.dtype for name, column in EMBEDDINGS.columns.items()},
    )
    path = tmp_path / "embeddings.parquet"
    write_table(frame, path, EMBEDDINGS, {})
    disk = estimate_disk([small["labels"], small["names"]], [384], [small["code"]])
    assert disk.vectors == round(775 * 384 * VECTOR_BYTES * 2)
    assert disk.vectors == pytest.approx(2 * path.stat().st_size, rel=0.1)
    assert disk.total == disk.draws + disk.vectors + disk.similarity + disk.fits


def test_dimension_is_read_where_the_encoder_is_and_unknown_elsewhere(tmp_path: Path) -> None:
    own = load_settings([DEFAULT]).encoders["all-MiniLM-L6-v2"]
    assert find_dimension("all-MiniLM-L6-v2", own, tmp_path) == 384
    encoder = load_settings([PUBLISHED_STUDY]).encoders["all-MiniLM-L12-v2"]
    assert find_dimension("x", encoder, tmp_path) is None
    weights = tmp_path / "weights/1_Pooling"
    weights.mkdir(parents=True)
    (weights / "config.json").write_text('{"word_embedding_dimension": 12}')
    manifest = {"path": str(weights.parent), "revision": encoder.revision}
    (tmp_path / "encoders").mkdir()
    (tmp_path / "encoders/x.json").write_text(json.dumps(manifest))
    assert find_dimension("x", encoder, tmp_path) == 12
    other = encoder.model_copy(update={"revision": "0" * 40})
    assert find_dimension("x", other, tmp_path) is None


# ------------------------------------------------------------------------------------------ pilots


def write_pilot(path: Path, design: Design, frame: pl.DataFrame) -> Path:
    write_table(frame, path, SIMILARITY, {"design": design.to_json()})
    return path


def test_pilot_is_read_at_the_highest_setting_or_at_the_one_asked_for(tmp_path: Path) -> None:
    path = write_pilot(tmp_path / "a.parquet", LABELS, draw_similarity(LABELS, SETTINGS))
    assert read_pilot(path)[0].source.endswith("temperature 1.0, top-p 1.0")
    assert read_pilot(path, top_p="0.8")[0].source.endswith("temperature 1.0, top-p 0.8")
    assert read_pilot(path, temperature="0.5")[0].source.endswith("temperature 0.5, top-p 1.0")
    there = r"Allowed \(temperature, top-p\): 0.5, 1.0; 1.0, 0.8; 1.0, 1.0$"
    for wanted in ("0.7", "0"):
        with pytest.raises(ConfigError, match=there):
            read_pilot(path, temperature=wanted)


def test_pilot_that_is_too_small_or_no_pilot_is_one_line(tmp_path: Path) -> None:
    few = write_pilot(tmp_path / "a.parquet", LABELS, draw_similarity(LABELS, SETTINGS, texts=3))
    with pytest.raises(ConfigError, match=r"fewer than four texts in story / White / man \(3\)"):
        read_pilot(few)
    equal = draw_similarity(LABELS, SETTINGS).with_columns(
        cosine_sum=pl.lit(4.0), cosine_sum_squares=pl.lit(4.0)
    )
    with pytest.raises(ConfigError, match="no pilot: no variance: all cosines are equal"):
        read_pilot(write_pilot(tmp_path / "b.parquet", LABELS, equal))
    missing = draw_similarity(LABELS, SETTINGS).filter(pl.col("race") != "Asian")
    with pytest.raises(ConfigError, match=r"story / Asian / man \(0\)"):
        read_pilot(write_pilot(tmp_path / "c.parquet", LABELS, missing))
    with pytest.raises(TableError, match="is no table of this project"):
        read_pilot(HOME / "README.md")


def test_study_takes_the_pilot_of_its_kind() -> None:
    texts, names = replace(PUBLISHED, source="texts"), replace(PUBLISHED, source="names")
    pilots = [(texts, LABELS), (names, NAMES)]
    assert command.choose_population(LABELS, pilots) is texts
    assert command.choose_population(NAMES, pilots) is names
    assert command.choose_population(NAMES, pilots[:1]) is texts
    assert command.choose_population(NAMES, []) is PUBLISHED


def test_one_contrast_stands_for_each_factor_and_coding() -> None:
    found = [(factor, each.coding, each.term) for factor, each in list_effects(LABELS.factors)]
    assert found == [
        ("race", "treatment", "race[African]"),
        ("race", "marginal", "race[African]"),
        ("gender", "treatment", "gender[woman]"),
        ("gender", "marginal", "gender[woman]"),
    ]
    assert [each.coding for _, each in list_effects(NAMES.factors)] == ["treatment"]


# ------------------------------------------------------------------------------------- the command


def run(monkeypatch, capsys, *arguments: object) -> str:
    monkeypatch.setattr(sys, "argv", ["plan", *map(str, arguments)])
    command.main()
    return capsys.readouterr().out


def test_screen_tells_the_published_study(monkeypatch, capsys) -> None:
    text = run(monkeypatch, capsys, PUBLISHED_STUDY, "--tokens-per-second", "5,000")
    lines = text.splitlines()
    assert "config/homogeneity.yaml: 2 studies, 7 models, 3 encoders, 21 settings" in lines[0]
    assert [line.split()[-3:] for line in lines if line.startswith("draws, all models")] == [
        ["764,400", "382,200", "1,146,600"]
    ]
    hours = 163_800 * (7 * 80 + 512) / 5_000 / 3_600
    assert f"{hours:.0f} hours of drawing at 5,000 tokens/s (given)" in text
    assert "Holm: first of 980 tests" in text and "Holm: first of 441 tests" in text
    assert len(lines) < 45 and max(map(len, lines)) <= 105


def test_json_is_what_is_on_the_screen(monkeypatch, capsys) -> None:
    text = run(monkeypatch, capsys, DEFAULT)
    plan = json.loads(run(monkeypatch, capsys, DEFAULT, "--json"))
    tokens = (448 + 192) * 80 + 135 * 128 + 24 * 256
    assert plan["draws"] == 448 + 192 + 135 + 24
    assert plan["answer_tokens"] == tokens
    assert plan["hours"] == pytest.approx(tokens / 195 / 3_600)
    assert plan["code_studies"]["code"]["all_draws"] == 135
    assert plan["code_studies"]["personas"]["all_draws"] == 2 * 4 * 3
    assert "code: compares programs; no power is computed" in text
    assert "6 minutes of drawing at 195 tokens/s: SmolLM2-135M on two CPU cores" in text
    assert plan["vector_dimensions"] == {"all-MiniLM-L6-v2": 384}
    for study in plan["studies"].values():
        for each in study["power"]:
            assert f"{each['difference']:.4f} ({each['in_sd']:.2f})" in text
            assert each["needed"] is None


def test_difference_gets_the_texts_it_needs(monkeypatch, capsys) -> None:
    arguments = [DEFAULT, "--difference", "0.1", "--tests", "1"]
    plan = json.loads(run(monkeypatch, capsys, *arguments, "--json"))
    found = {
        (each["scope"], each["coding"], each["factor"]): each["needed"]
        for each in plan["studies"]["labels"]["power"]
    }
    assert len(found) == len(plan["studies"]["labels"]["power"])  # one test, so no second column
    text = run(monkeypatch, capsys, *arguments)
    assert "Holm" not in text
    row = next(
        line.split()
        for line in text.split("for a difference of 0.1")[1].splitlines()
        if line.strip().startswith("gender, marginal")
    )
    fixed = found["formats fixed", "marginal", "gender"]
    free = found["formats random", "marginal", "gender"]
    assert row[2] == str(fixed["texts"])
    assert free["texts"] is None and f"at most {free['limit']:.0%}" in " ".join(row)


def write_config(path: Path, *changes: tuple[str, str]) -> Path:
    text = DEFAULT.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def test_what_is_too_small_for_a_test_is_said(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(HOME)
    file = write_config(
        tmp_path / "one.yaml",
        ("[story, biography, social-media-profile, funny-story]", "[story]"),
        ("per_group: 4", "per_group: 3"),
    )
    text = run(monkeypatch, capsys, file)
    labels, names = text.split("\nnames:")
    assert "formats random: not with one format" in labels
    assert "no test of level text: it needs four names of each group in each format" in names
    assert "fewer than 10 texts" in labels


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nope.yaml"], "nope.yaml: cannot be read: No such file or directory"),
        ([DEFAULT, "--difference", "0"], "--difference: 0 is not allowed. Allowed: a difference"),
        ([DEFAULT, "--difference", "x"], "--difference: x is not allowed"),
        ([DEFAULT, "--tests", "1.5"], "--tests: 1.5 is not allowed. Allowed: a whole number"),
        ([DEFAULT, "--tokens-per-second", "-3"], "--tokens-per-second: -3 is not allowed"),
        ([DEFAULT, "--temperature", "1"], "--temperature and --top-p choose a pilot's setting"),
        ([DEFAULT, "--pilot", "nope"], "--pilot: nope is no file"),
        ([DEFAULT, "--pilot", DEFAULT], "is no table of this project"),
        ([DEFAULT, "--pilot", DEFAULT, "--top-p", "a"], "--top-p: 'a' is not a number"),
    ],
)
def test_bad_input_is_one_line(monkeypatch, capsys, arguments, told: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, capsys, *arguments)
    message = str(ended.value)
    assert told in message and "\n" not in message


def test_broken_configuration_is_told_as_by_preflight(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(HOME)
    file = write_config(tmp_path / "bad.yaml", ("temperature: [0, 1.0]", "temperature: [3]"))
    with pytest.raises(SystemExit, match=r"grid.temperature: 3 is above 2.0"):
        run(monkeypatch, capsys, file)
    gone = write_config(tmp_path / "gone.yaml", ("resources/labels.yaml", "resources/none.yaml"))
    with pytest.raises(SystemExit, match="studies.labels.stimuli: .*none.yaml"):
        run(monkeypatch, capsys, gone)
