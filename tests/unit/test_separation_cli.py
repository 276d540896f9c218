"""The command of stage separation: what it reads, what it writes, what it refuses."""

from __future__ import annotations

import sys
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from llm_variability.separation import VERSION
from llm_variability.separation.__main__ import main
from llm_variability.table_contract import Table
from llm_variability.tables import STIMULI, Design, read_metadata, read_table, write_table
from llm_variability.tables_code import PROGRAMS
from llm_variability.tables_personas import (
    CONFUSIONS,
    FEATURE_COLUMNS,
    FEATURES,
    LEAKAGE,
    PERSONA_MEANS,
    PROGRAM_PAIRS,
    SEPARATION,
    STYLE,
    TOPIC_WEIGHTS,
)

DESIGN = Design(
    block="task",
    factors=(),
    carried=("set", "language", "persona", "role", "gender", "iteration", "sampled"),
)
OUTPUTS = {
    "similarity": SEPARATION,
    "means": PERSONA_MEANS,
    "leakage": LEAKAGE,
    "confusions": CONFUSIONS,
}
MEASURES = ("tsed", "minilm")
ENDS = ("first", "second")
SETTINGS = (("0", None, 1), ("1.0", "0.8", 2))
"""Temperature, top-p and draws a prompt."""

PERSONAS = ("junior", "teacher", "nurse")
PROMPTS = [
    {
        "task": f"brief/{task}",
        "set": "brief",
        "language": "python",
        "persona": f"{role}-male",
        "role": role,
        "gender": "male",
        "iteration": str(i),
        "sampled": "yes" if i == 0 else "no",
        "prompt_id": f"{task}-{role}-{i}",
    }
    for task, role, i in product(("calculator", "shop"), PERSONAS, range(3))
]
DRAWS = [
    (temperature, top_p, prompt, replicate)
    for temperature, top_p, draws in SETTINGS
    for prompt in PROMPTS
    for replicate in range(draws)
]


def write(folder: Path, name: str, table: Table, rows: list[dict[str, Any]], **more: str) -> Path:
    path = folder / f"{name}.parquet"
    types = {column: each.dtype for column, each in table.columns.items()}
    frame = pl.DataFrame(rows, schema_overrides=types, infer_schema_length=None)
    write_table(frame, path, table, {"study": "who", "design": DESIGN.to_json(), **more})
    return path


def write_prompts(folder: Path) -> dict[str, Path]:
    """Write stimuli, and the tables of their wording."""
    who = ("task", "persona", "role", "gender", "prompt_id")
    heads = [{name: prompt[name] for name in who} for prompt in PROMPTS]
    rng = np.random.default_rng(1)
    return {
        "stimuli": write(
            folder,
            "stimuli",
            STIMULI,
            [
                prompt
                | {"system": None, "prompt": "write", "replicates": 2, "greedy_replicates": 1}
                for prompt in PROMPTS
            ],
        ),
        "style": write(
            folder,
            "style",
            STYLE,
            [
                head | {"iteration": "0", "feature": "words", "value": float(rng.poisson(30))}
                for head in heads
            ],
        ),
        "topic-weights": write(
            folder,
            "topics",
            TOPIC_WEIGHTS,
            [
                head | {"topic": topic, "weight": float(rng.uniform())}
                for head in heads
                for topic in (1, 2)
            ],
        ),
    }


def write_model(folder: Path, model: str, study: str = "who") -> dict[str, list[Path]]:
    """Write what there is of a model: pairs on two measures, features and programs."""
    rng = np.random.default_rng(len(model))
    folder = folder / model
    named = {"model": model, "study": study}
    pairs = {
        name: [
            {
                "temperature": temperature,
                "top_p": top_p,
                "measure": name,
                "task": task,
                "first_prompt": first[0],
                "first_replicate": first[1],
                "second_prompt": second[0],
                "second_replicate": second[1],
                "similarity": rng.uniform(),
            }
            for temperature, top_p, _ in SETTINGS
            for task in ("brief/calculator", "brief/shop")
            for first, second in combinations(
                [
                    (prompt["prompt_id"], replicate)
                    for own, _, prompt, replicate in DRAWS
                    if own == temperature and prompt["task"] == task
                ],
                2,
            )
        ]
        for name in MEASURES
    }
    draws = [
        prompt | {"temperature": temperature, "top_p": top_p, "replicate": replicate}
        for temperature, top_p, prompt, replicate in DRAWS
    ]
    features = [
        draw
        | {"reply": "program", "tags": "python"}
        | {
            name: bool(rng.integers(2))
            if FEATURES.columns[name].dtype == pl.Boolean
            else int(rng.poisson(9))
            for name in FEATURE_COLUMNS
        }
        for draw in draws
    ]
    program = {
        "draw_status": "ok",
        "status": "ok",
        "source": "fence",
        "fences": 1,
        "tag": "python",
        "nodes": 9,
    }
    programs = [draw | program | {"code": f"{draw['role']} = {i}"} for i, draw in enumerate(draws)]
    return {
        "pairs": [
            write(folder, name, PROGRAM_PAIRS, each, **named) for name, each in pairs.items()
        ],
        "features": [write(folder, "features", FEATURES, features, **named)],
        "programs": [write(folder, "programs", PROGRAMS, programs, **named)],
    }


def run(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    prompts: dict[str, Path],
    *models: dict[str, list[Path]],
) -> None:
    inputs = [
        part
        for name in ("pairs", "features", "programs")
        for part in (f"--{name}", *(str(path) for model in models for path in model[name]))
    ]
    command = [
        "separation",
        *("--study", "who", "--seed", "1"),
        *("--permutations", "49", "--classifier-permutations", "19"),
        *(part for name, path in prompts.items() for part in (f"--{name}", str(path))),
        *inputs,
        *("--measures", *MEASURES),
        *(part for name in OUTPUTS for part in (f"--{name}", str(folder / f"{name}.parquet"))),
    ]
    monkeypatch.setattr(sys, "argv", command)
    main()


def read_outputs(folder: Path) -> dict[str, pl.DataFrame]:
    return {name: read_table(folder / f"{name}.parquet", each) for name, each in OUTPUTS.items()}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, pl.DataFrame]]:
    """Run the stage on one model, and on two; give their tables."""
    found = {}
    for models in (("m",), ("m", "other")):
        folder = tmp_path_factory.mktemp("separation")
        with pytest.MonkeyPatch.context() as monkeypatch:
            inputs = [write_model(folder, model) for model in models]
            run(monkeypatch, folder, write_prompts(folder), *inputs)
        for name in OUTPUTS:
            metadata = read_metadata(folder / f"{name}.parquet")
            assert (metadata["study"], metadata["separation_version"]) == ("who", VERSION)
        found["+".join(models)] = read_outputs(folder)
    return found


def test_every_model_setting_measure_and_contrast_has_a_row(
    written: dict[str, dict[str, pl.DataFrame]],
) -> None:
    tables = written["m+other"]
    # 2 models x 2 settings x 2 measures x 2 variants x (overall, 2 tasks, 3 levels, 3 pairs).
    assert tables["similarity"].height == 2 * 2 * 2 * 2 * 9
    tested = tables["similarity"].filter(variant="iterations")
    assert tested["p_value"].null_count() == tested["ci_low"].null_count() == 0
    assert tested.filter(temperature="0")["same_prompt"].null_count() == tested.height // 2
    assert tested.filter(temperature="1.0")["same_prompt"].null_count() == 0
    assert tables["leakage"].height == 2 * 2 * 2
    assert tables["confusions"].height == 2 * 2 * 2 * 9


def test_means_are_of_programs_by_model_and_of_prompts_once(
    written: dict[str, dict[str, pl.DataFrame]],
) -> None:
    means = written["m+other"]["means"]
    wording = means.filter(pl.col("model").is_null())
    assert wording["feature"].unique(maintain_order=True).to_list() == [
        "words",
        "topic-1",
        "topic-2",
    ]
    n_features = len(FEATURE_COLUMNS) + 5  # and five kinds of replies
    assert means.height - wording.height == 2 * 2 * n_features * 3
    programs = means.filter(feature="reply_program")
    assert programs["mean"].unique().to_list() == [1.0]


def test_a_further_model_changes_adjusted_p_values_only(
    written: dict[str, dict[str, pl.DataFrame]],
) -> None:
    for name in OUTPUTS:
        alone, both = written["m"][name], written["m+other"][name]
        own = both.filter(pl.col("model").is_null() | (pl.col("model") == "m"))
        free = [column for column in alone.columns if column not in ("p_holm", "p_bh")]
        free = [column for column in free if column != "family_size"]
        assert own.select(free).equals(alone.select(free)), name
    sizes = written["m+other"]["leakage"]["family_size"]
    assert sizes.to_list() == [4] * 8  # two models and two settings, by each set of features


def strip_programs(model: dict[str, list[Path]], prompts: str = "", reply: str = "none") -> None:
    """Leave no program of some prompts in a model's tables, as if it had only talked.

    prompts: what is in their ids. reply: kind of reply in place of a program.
    """
    of_program = [name for name in FEATURE_COLUMNS if not name.startswith("reply_")]
    here = pl.col("prompt_id").str.contains(prompts, literal=True)
    apart = [~pl.col(f"{end}_prompt").str.contains(prompts, literal=True) for end in ENDS]
    nothing = {
        "features": {"reply": pl.lit(reply), **dict.fromkeys(of_program, pl.lit(None))},
        "programs": {"code": pl.lit(None)},
    }
    for name, table in (("pairs", PROGRAM_PAIRS), ("features", FEATURES), ("programs", PROGRAMS)):
        for path in model[name]:
            frame, metadata = read_table(path, table), read_metadata(path)
            if table is PROGRAM_PAIRS:
                frame = frame.filter(*apart)
            else:
                frame = frame.with_columns(
                    pl.when(here).then(value).otherwise(pl.col(column)).alias(column)
                    for column, value in nothing[name].items()
                )
            write_table(frame, path, table, metadata)


def test_a_model_that_wrote_no_program_has_rows_with_reasons(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model, silent = write_model(tmp_path, "m"), write_model(tmp_path, "silent")
    strip_programs(silent)
    run(monkeypatch, tmp_path, write_prompts(tmp_path), model, silent)
    tables = {name: each.filter(model="silent") for name, each in read_outputs(tmp_path).items()}
    assert tables["similarity"].height == 2 * 2 * 2 * 9
    assert tables["similarity"]["difference"].null_count() == tables["similarity"].height
    assert tables["leakage"]["accuracy"].null_count() == 4
    for name in ("similarity", "leakage"):
        assert tables[name]["reason"].null_count() == 0
    lines = tables["means"].filter(feature="lines")
    assert lines["mean"].null_count() == lines.height == 2 * 3
    assert tables["means"].filter(feature="reply_none")["mean"].to_list() == [1.0] * 6


def test_where_no_model_wrote_a_program_every_measure_and_contrast_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    models = [write_model(tmp_path, name) for name in ("m", "other")]
    for model, reply in zip(models, ("none", "failed"), strict=True):
        strip_programs(model, reply=reply)
    run(monkeypatch, tmp_path, write_prompts(tmp_path), *models)
    tables = read_outputs(tmp_path)
    similarity = tables["similarity"]
    assert similarity["measure"].unique(maintain_order=True).to_list() == list(MEASURES)
    assert similarity.height == 2 * 2 * 2 * 2 * 9
    assert similarity["reason"].unique().to_list() == ["no two programs to compare"]
    assert tables["leakage"]["accuracy"].null_count() == tables["leakage"].height == 8
    assert tables["confusions"].height == 0
    words = tables["means"].filter(feature="reply_words")
    assert words.filter(model="other")["mean"].null_count() == 6
    assert words.filter(model="m")["mean"].null_count() == 0


@pytest.mark.parametrize("without", PERSONAS)
def test_a_persona_without_a_program_is_not_compared_and_the_others_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, without: str
) -> None:
    model = write_model(tmp_path, "m")
    strip_programs(model, f"-{without}-")
    run(monkeypatch, tmp_path, write_prompts(tmp_path), model)
    tables = read_outputs(tmp_path)
    of_programs = tables["means"].filter(pl.col("feature").is_in(["lines", "branches"]))
    alone = of_programs.filter(persona=f"{without}-male")
    others = of_programs.filter(pl.col("persona") != f"{without}-male")
    for name in ("mean", "p_value", "p_holm", "p_bh", "family_size"):
        assert alone[name].null_count() == alone.height == 4
        assert others[name].null_count() == 0
    assert (others["p_holm"] >= others["p_value"]).all()
    # One p value a feature of those that vary, reply_none and reply_program among them.
    sizes = tables["means"].filter(temperature="0", model="m").drop_nulls("p_value")
    assert sizes["family_size"].unique().to_list() == [sizes["feature"].n_unique()]
    assert tables["leakage"]["n_personas"].to_list() == [2] * 4
    assert tables["leakage"]["chance"].to_list() == [0.5] * 4


def test_a_family_too_large_for_the_permutations_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        run(monkeypatch, tmp_path, write_prompts(tmp_path), write_model(tmp_path, "m"))
    told = "separation: 6 tests of levels of personas, tsed: with 49 permutations p_holm is never"
    assert told in caplog.text
    assert "120 permutations are enough" in caplog.text


def test_bad_input_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prompts = write_prompts(tmp_path)
    model, other = write_model(tmp_path, "m"), write_model(tmp_path, "other", study="what")
    twice = model | {"pairs": [*model["pairs"], model["pairs"][0]]}
    for inputs, message in (
        ([model, other], "is of study what; allowed: who"),
        ([twice], "--pairs: pairs of model m and measure tsed are there twice; allowed: once"),
        ([model, model | {"pairs": []}], "features of model m are there twice; allowed: once"),
    ):
        caplog.clear()
        with pytest.raises(SystemExit):
            run(monkeypatch, tmp_path, prompts, *inputs)
        assert message in caplog.text
    assert not (tmp_path / "similarity.parquet").exists()


def test_pairs_of_a_measure_that_was_not_asked_for_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = write_model(tmp_path, "m")
    monkeypatch.setattr(sys.modules[__name__], "MEASURES", ("tsed",))
    with pytest.raises(SystemExit):
        run(monkeypatch, tmp_path, write_prompts(tmp_path), model)
    assert "--pairs: of model m are of measure minilm; allowed: tsed" in caplog.text


def test_a_model_that_lacks_a_table_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model, other = write_model(tmp_path, "m"), write_model(tmp_path, "other")
    with pytest.raises(SystemExit):
        run(monkeypatch, tmp_path, write_prompts(tmp_path), model, other | {"programs": []})
    assert "--programs: has no table of model other; allowed: all models" in caplog.text
