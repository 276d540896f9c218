"""Which draws are shown as examples: against a brute-force choice over made-up similarities."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from llm_variability.examples.__main__ import main
from llm_variability.examples.choosing import (
    choose_by_similarity,
    order_prompts,
    score_persona_programs,
    score_programs,
    score_texts,
)
from llm_variability.examples.collecting import FAILURES_KEPT, TEXT_CHARACTERS
from llm_variability.tables import (
    DRAWS,
    EXAMPLES,
    SIMILARITY,
    STIMULI,
    Design,
    Factor,
    read_table,
    write_table,
)
from llm_variability.tables_code import PAIRS, PROGRAMS
from llm_variability.tables_personas import PROGRAM_PAIRS

FORMATS = ("story", "biography", "joke", "poem")
RACES = ("Asian", "White")
GENDERS = ("man", "woman")
DESIGN = Design(
    "format",
    (Factor("race", RACES, "White"), Factor("gender", GENDERS, "man")),
    blocks=FORMATS,
)
SETTINGS = (("0", None), ("1.0", "0.8"), ("1.0", "1.0"))
DRAWS_EACH = 6


def make_prompts() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "format": block,
            "race": race,
            "gender": gender,
            "prompt_id": f"{block}/{race}/{gender}",
            "system": "You are a chatbot",
            "prompt": f"Write a {block} about a(n) {race} {gender}.",
            "replicates": DRAWS_EACH,
            "greedy_replicates": DRAWS_EACH,
        }
        for block, race, gender in itertools.product(FORMATS, RACES, GENDERS)
    )


def make_vectors(seed: int = 1) -> dict[tuple[Any, ...], np.ndarray]:
    """Unit vectors of the texts of each setting and prompt; all the same at temperature 0."""
    random = np.random.default_rng(seed)
    vectors = {}
    for setting, prompt in itertools.product(SETTINGS, make_prompts()["prompt_id"]):
        rows = random.normal(size=(DRAWS_EACH, 8)) + random.normal(size=8)
        if setting[0] == "0":
            rows = np.repeat(rows[:1], DRAWS_EACH, axis=0)
        vectors[*setting, prompt] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return vectors


def tabulate_similarity(vectors: dict[tuple[Any, ...], np.ndarray]) -> pl.DataFrame:
    """A SIMILARITY table, its cosines added up one by one."""
    rows = []
    for (temperature, top_p, prompt), texts in vectors.items():
        block, race, gender = prompt.split("/")
        for number, text in enumerate(texts):
            cosines = [float(text @ other) for at, other in enumerate(texts) if at != number]
            rows.append(
                {
                    "format": block,
                    "race": race,
                    "gender": gender,
                    "temperature": temperature,
                    "top_p": top_p,
                    "prompt_id": prompt,
                    "replicate": number,
                    "n_mates": len(cosines),
                    "cosine_sum": sum(cosines),
                    "cosine_sum_squares": sum(cosine**2 for cosine in cosines),
                    "over_long": False,
                }
            )
    types = {name: column.dtype for name, column in SIMILARITY.columns.items()}
    return pl.DataFrame(rows, schema_overrides=types)


def choose_by_force(
    vectors: dict[tuple[Any, ...], np.ndarray],
) -> dict[tuple[Any, ...], tuple[tuple[str, int], ...]]:
    """The medoid and the farthest text of each setting and group, from whole cosine matrices."""
    chosen = {}
    for setting, race, gender in itertools.product(SETTINGS, RACES, GENDERS):
        means = {}
        for block in FORMATS:
            texts = vectors[*setting, f"{block}/{race}/{gender}"]
            cosines = texts @ texts.T
            means[block] = (cosines.sum(axis=1) - 1) / (len(texts) - 1)
        ranked = sorted(FORMATS, key=lambda block: means[block].mean())
        middle = ranked[(len(ranked) - 1) // 2]
        ends = (int(means[middle].argmax()), int(means[middle].argmin()))
        prompt = f"{middle}/{race}/{gender}"
        chosen[*setting, f"{race}, {gender}"] = tuple((prompt, end) for end in ends)
    return chosen


def choose(similarity: pl.DataFrame, prompts: pl.DataFrame | None = None) -> pl.DataFrame:
    stimuli = make_prompts() if prompts is None else prompts
    return choose_by_similarity(score_texts(similarity, DESIGN), order_prompts(stimuli, DESIGN))


def read_choice(chosen: pl.DataFrame) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """(setting, group, role) -> (prompt, replicate)."""
    return {
        (row["temperature"], row["top_p"], row["group"], row["role"]): (
            row["prompt_id"],
            row["replicate"],
        )
        for row in chosen.iter_rows(named=True)
    }


@pytest.mark.parametrize("seed", range(5))
def test_sampled_settings_have_the_medoid_and_the_farthest_text_of_whole_matrices(
    seed: int,
) -> None:
    vectors = make_vectors(seed)
    found = read_choice(choose(tabulate_similarity(vectors)))
    for (*setting, group), (medoid, farthest) in choose_by_force(vectors).items():
        if setting[0] != "0":
            assert found[*setting, group, "medoid"] == medoid
            assert found[*setting, group, "farthest"] == farthest


def test_the_mean_cosine_of_a_chosen_text_is_told() -> None:
    vectors = make_vectors()
    for row in choose(tabulate_similarity(vectors)).iter_rows(named=True):
        texts = vectors[row["temperature"], row["top_p"], row["prompt_id"]]
        others = np.delete(texts, row["replicate"], axis=0)
        assert row["similarity"] == pytest.approx(float((others @ texts[row["replicate"]]).mean()))
        assert row["mates"] == len(others)


def test_where_all_texts_are_equally_alike_the_first_draw_is_shown_alone() -> None:
    found = choose(tabulate_similarity(make_vectors())).filter(pl.col("temperature") == "0")
    assert found["role"].to_list() == ["medoid"] * len(RACES) * len(GENDERS)
    assert found["replicate"].unique().to_list() == [0]


def set_sums(similarity: pl.DataFrame, sums: list[float]) -> pl.DataFrame:
    """Give the texts of every prompt these cosine sums."""
    number = pl.col("replicate").replace_strict(dict(enumerate(sums)), return_dtype=pl.Float64)
    return similarity.with_columns(number.alias("cosine_sum"))


def test_of_equals_the_first_draw_is_taken() -> None:
    """Sums that differ in their last bits are equal."""
    sums = [2.0, 3.0, 3.0 + 1e-13, 1.0, 1.0 - 1e-13, 2.0]
    found = choose(set_sums(tabulate_similarity(make_vectors()), sums))
    chosen = found.group_by("role").agg(pl.col("replicate").unique())
    assert dict(chosen.rows()) == {"medoid": [1], "farthest": [3]}


def test_of_equal_blocks_the_first_of_the_prompts_is_taken() -> None:
    found = choose(set_sums(tabulate_similarity(make_vectors()), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    # Four equal blocks, the second of which is the lower one in the middle.
    assert {prompt.split("/")[0] for prompt in found["prompt_id"]} == {FORMATS[1]}
    turned = make_prompts().reverse()
    found = choose(
        set_sums(tabulate_similarity(make_vectors()), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), turned
    )
    assert {prompt.split("/")[0] for prompt in found["prompt_id"]} == {FORMATS[::-1][1]}


def test_of_an_even_number_of_blocks_the_lower_one_in_the_middle_is_taken() -> None:
    heights = {"story": 4.0, "biography": 1.0, "joke": 3.0, "poem": 2.0}
    similarity = tabulate_similarity(make_vectors()).with_columns(
        cosine_sum=pl.col("format").replace_strict(heights, return_dtype=pl.Float64)
        + pl.col("replicate") / 100
    )
    assert {prompt.split("/")[0] for prompt in choose(similarity)["prompt_id"]} == {"poem"}


def test_a_text_without_mates_is_not_compared() -> None:
    alone = tabulate_similarity(make_vectors()).with_columns(
        n_mates=pl.lit(0, pl.Int32), cosine_sum=pl.lit(0.0)
    )
    assert choose(alone).height == 0


def test_a_text_of_an_unknown_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="whose prompts are none of the stimuli"):
        choose(tabulate_similarity(make_vectors()), make_prompts().head(3))


CODE = Design("task", (), carried=("augmentation", "method", "rate"))


def make_code_prompts() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "task": task,
            "augmentation": augmentation,
            "method": augmentation.split("-")[0],
            "rate": "0",
            # An augmentation that changes nothing has the prompt of the unaltered text.
            "prompt_id": f"{task}:same"
            if augmentation == "keyboard-0"
            else f"{task}:{augmentation}",
            "system": None,
            "prompt": f"Write {task}.",
            "replicates": 3,
            "greedy_replicates": 3,
        }
        for augmentation, task in itertools.product(
            ("original", "keyboard-0", "keyboard-0.1"), ("a", "b", "c")
        )
    ).with_columns(pl.col("system").cast(pl.String))


def tabulate_pairs(prompts: pl.DataFrame, seed: int = 4) -> pl.DataFrame:
    """Every pair of three draws; those of the unaltered prompts with each other, each once."""
    random = np.random.default_rng(seed)
    rows = []
    for prompt, measure in itertools.product(
        prompts.iter_rows(named=True), ("tsed", "tsed-published")
    ):
        for one, other in itertools.product(range(3), range(3)):
            is_ceiling = prompt["augmentation"] == "original"
            if is_ceiling and one >= other:
                continue
            rows.append(
                {name: prompt[name] for name in ("task", "augmentation", "method", "rate")}
                | {
                    "temperature": "0.5",
                    "top_p": "1.0",
                    "measure": measure,
                    "comparison": "ceiling" if is_ceiling else "augmented",
                    "prompt_id": prompt["prompt_id"],
                    "replicate": one,
                    "reference_task": prompt["task"],
                    "reference_replicate": other,
                    "similarity": float(random.uniform()),
                }
            )
            if is_ceiling:
                rows.append(rows[-1] | {"comparison": "floor", "similarity": 0.99})
    return pl.DataFrame(
        rows, schema_overrides={"replicate": pl.Int32, "reference_replicate": pl.Int32}
    )


def test_programs_are_chosen_by_their_pairs_with_the_references() -> None:
    prompts = make_code_prompts()
    pairs = tabulate_pairs(prompts)
    chosen = choose_by_similarity(score_programs(pairs, "tsed", CODE), order_prompts(prompts, CODE))
    found = read_choice(chosen)
    rows = pairs.filter(pl.col("measure") == "tsed", pl.col("comparison") != "floor").rows(
        named=True
    )
    for augmentation in ("original", "keyboard-0", "keyboard-0.1"):
        means: dict[str, dict[int, list[float]]] = {}
        for row in rows:
            if row["augmentation"] == augmentation:
                of_task = means.setdefault(row["task"], {})
                ends = [row["replicate"]]
                if augmentation == "original":
                    ends.append(row["reference_replicate"])
                for end in ends:
                    of_task.setdefault(end, []).append(row["similarity"])
        heights = {
            task: np.mean(list(itertools.chain(*of_task.values())))
            for task, of_task in means.items()
        }
        middle = sorted(heights, key=heights.__getitem__)[1]
        averages = {number: np.mean(values) for number, values in means[middle].items()}
        place = ("0.5", "1.0", augmentation)
        prompt = prompts.filter(task=middle, augmentation=augmentation)["prompt_id"].item()
        assert found[*place, "medoid"] == (prompt, max(averages, key=averages.__getitem__))
        assert found[*place, "farthest"] == (prompt, min(averages, key=averages.__getitem__))


PERSONAS = Design("task", (), carried=("persona", "role", "iteration"))


def test_programs_of_a_persona_are_compared_with_its_own_of_the_same_task() -> None:
    prompts = pl.DataFrame(
        {
            "task": "t",
            "persona": persona,
            "role": persona,
            "iteration": str(iteration),
            "prompt_id": f"{persona}{iteration}",
            "system": None,
            "prompt": "Write it.",
        }
        for persona, iteration in itertools.product("xy", range(3))
    )
    # Programs of other personas would turn the choice round.
    own = {("x0", "x1"): 0.9, ("x0", "x2"): 0.5, ("x1", "x2"): 0.1}
    pairs = pl.DataFrame(
        {
            "temperature": "0.4",
            "top_p": "1.0",
            "measure": "tsed",
            "task": "t",
            "first_prompt": first,
            "first_replicate": 0,
            "second_prompt": second,
            "second_replicate": 0,
            "similarity": own.get((first, second), 0.99 if first == "x2" else 0.0),
        }
        for first, second in itertools.combinations(prompts["prompt_id"], 2)
    )
    ordered = order_prompts(prompts, PERSONAS)
    chosen = choose_by_similarity(score_persona_programs(pairs, "tsed", ordered), ordered)
    found = chosen.filter(group="x").select("role", "prompt_id", "similarity", "mates").rows()
    assert found == [
        ("medoid", "x0", pytest.approx(0.7), 2),
        ("farthest", "x2", pytest.approx(0.3), 2),
    ]


STATUSES = {0: "empty", 1: "truncated", 2: "error"}


def write_draws(folder: Path, text: str = "An answer.", dead: str = "") -> list[str]:
    """Draws of every setting; the first three prompts have failing ones. dead: all of a group.

    Returns the paths.
    """
    meta = {"study": "labels", "model": "tiny", "design": DESIGN.to_json()}
    paths = []
    for setting in SETTINGS:
        rows = []
        for place, prompt in enumerate(make_prompts().iter_rows(named=True)):
            group = f"{prompt['race']}, {prompt['gender']}"
            for number in range(DRAWS_EACH):
                status = STATUSES.get(number, "ok") if place < 5 else "ok"
                status = "no_answer" if group == dead else status
                has_text = status in ("ok", "truncated")
                rows.append(
                    {name: prompt[name] for name in (*DESIGN.columns, "prompt_id")}
                    | {
                        "replicate": number,
                        "seed": 1000 * place + number,
                        "text": text if has_text else None,
                        "raw": text if has_text else "",
                        "reasoning": None,
                        "status": status,
                        "finish_reason": "stop",
                        "prompt_tokens": 9,
                        "completion_tokens": 9,
                        "error": "refused" if status == "error" else None,
                    }
                )
        name = "T0" if setting[0] == "0" else f"T{setting[0]}-P{setting[1]}"
        path = folder / f"draws/labels/tiny/{name}.parquet"
        # Their order in the file is not that of the prompts.
        frame = pl.DataFrame(rows, infer_schema_length=None).reverse()
        write_table(frame, path, DRAWS, meta | {"temperature": setting[0], "top_p": setting[1]})
        paths.append(str(path))
    return paths


def make_examples(folder: Path, **given: Any) -> pl.DataFrame:
    meta = {"study": "labels", "model": "tiny", "design": DESIGN.to_json()}
    paths = write_draws(folder, **given)
    write_table(make_prompts(), folder / "stimuli.parquet", STIMULI, meta)
    similarity = tabulate_similarity(make_vectors())
    if dead := given.get("dead"):
        named = pl.concat_str("race", "gender", separator=", ")
        similarity = similarity.filter(named != dead)
    write_table(similarity, folder / "similarity.parquet", SIMILARITY, meta)
    output = folder / "examples.parquet"
    main(
        ["--stimuli", str(folder / "stimuli.parquet"), "--draws", *paths, "--measure", "minilm"]
        + ["--similarity", str(folder / "similarity.parquet"), "--output", str(output)]
    )
    return read_table(output, EXAMPLES)


def test_every_setting_and_group_has_an_example(tmp_path: Path) -> None:
    examples = make_examples(tmp_path, dead="White, man")
    places = examples.filter(~pl.col("role").str.starts_with("first "))
    counted = places.group_by("temperature", "top_p", "group").agg(pl.col("role").sort())
    assert counted.height == len(SETTINGS) * 4
    for temperature, _, group, roles in counted.rows():
        if group == "White, man":
            assert roles == ["first"]
        else:
            assert roles == (["medoid"] if temperature == "0" else ["farthest", "medoid"])


def test_a_group_in_which_nothing_can_be_compared_has_its_first_draw(tmp_path: Path) -> None:
    examples = make_examples(tmp_path, dead="White, man").filter(pl.col("role") == "first")
    told = examples.select("prompt_id", "replicate", "status", "text", "similarity", "mates")
    assert told.rows() == [("story/White/man", 0, "no_answer", "", None, 0)] * len(SETTINGS)


def test_failing_draws_are_the_first_of_their_status_of_a_few_prompts(tmp_path: Path) -> None:
    examples = make_examples(tmp_path)
    prompts = make_prompts()["prompt_id"].to_list()[:FAILURES_KEPT]
    for replicate, status in STATUSES.items():
        failing = examples.filter(pl.col("role") == f"first {status}")
        assert failing["prompt_id"].to_list() == prompts
        assert failing["replicate"].unique().to_list() == [replicate]
        assert failing["status"].unique().to_list() == [status]
        assert failing["temperature"].unique().to_list() == ["0"]
    assert examples.filter(pl.col("role") == "first error")["error"].unique().to_list() == [
        "refused"
    ]


def test_the_choice_does_not_look_at_the_texts(tmp_path: Path) -> None:
    texts = ("An answer.", "<script>alert(1)</script>\x00\u202e")
    chosen = [
        make_examples(tmp_path / str(number), text=text).drop("text", "characters", "words")
        for number, text in enumerate(texts)
    ]
    assert chosen[0].equals(chosen[1])


def test_a_long_text_is_cut_and_its_whole_length_told(tmp_path: Path) -> None:
    row = make_examples(tmp_path, text="word " * 20_000).filter(status="ok").row(0, named=True)
    assert len(row["text"]) == TEXT_CHARACTERS
    assert (row["characters"], row["words"]) == (100_000, 20_000)
    assert row["file"] == "draws/labels/tiny/T0.parquet"


def test_groups_stand_in_the_order_of_the_prompts_the_medoid_first(tmp_path: Path) -> None:
    examples = make_examples(tmp_path).filter(
        pl.col("top_p") == "0.8", pl.col("role").is_in(["medoid", "farthest"])
    )
    groups = [f"{race}, {gender}" for race in RACES for gender in GENDERS]
    assert examples.select("group", "role").rows() == [
        (group, role) for group in groups for role in ("medoid", "farthest")
    ]


def test_a_chosen_draw_that_no_table_has_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_examples(tmp_path)
    with pytest.raises(SystemExit):
        main(
            ["--stimuli", str(tmp_path / "stimuli.parquet"), "--measure", "minilm", "--draws"]
            + [str(tmp_path / "draws/labels/tiny/T0.parquet")]
            + ["--similarity", str(tmp_path / "similarity.parquet")]
            + ["--output", str(tmp_path / "other.parquet")]
        )
    assert "of the chosen draws are in no draws table" in caplog.text
    assert not (tmp_path / "other.parquet").exists()


def test_a_table_that_does_not_say_how_alike_draws_are_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_examples(tmp_path)
    stimuli = str(tmp_path / "stimuli.parquet")
    with pytest.raises(SystemExit):
        main(
            ["--stimuli", stimuli, "--similarity", stimuli, "--measure", "minilm", "--draws"]
            + [str(tmp_path / "draws/labels/tiny/T0.parquet"), "--output", str(tmp_path / "x")]
        )
    assert "a stimuli table does not say how alike draws are" in caplog.text


def write_code_study(folder: Path) -> list[str]:
    """A study of code with one setting; one draw of each augmentation holds no program.

    Returns the arguments of the command.
    """
    meta = {"study": "code", "model": "tiny", "design": CODE.to_json()}
    prompts = make_code_prompts()
    pairs = tabulate_pairs(prompts).filter(
        (pl.col("replicate") != 2) & (pl.col("reference_replicate") != 2)
    )
    drawn = prompts.select(*CODE.columns, "prompt_id").join(
        pl.DataFrame({"replicate": range(3)}), how="cross"
    )
    programs = drawn.with_columns(
        temperature=pl.lit("0.5"),
        top_p=pl.lit("1.0"),
        draw_status=pl.lit("ok"),
        status=pl.when(pl.col("replicate") == 2).then(pl.lit("no_code")).otherwise(pl.lit("ok")),
        code=pl.lit("pass"),
        source=pl.lit("bare"),
        fences=pl.lit(0),
        tag=pl.lit(""),
        nodes=pl.lit(9),
    )
    write_table(prompts, folder / "stimuli.parquet", STIMULI, meta)
    write_table(pairs, folder / "pairs.parquet", PAIRS, meta)
    write_table(programs, folder / "programs.parquet", PROGRAMS, meta)
    paths = []
    for (augmentation,), part in drawn.group_by("augmentation", maintain_order=True):
        path = folder / f"draws/code/tiny/T0.5-P1.0/{augmentation}.parquet"
        draws = part.with_columns(
            seed=pl.lit(1),
            text=pl.lit("Sorry, no."),
            raw=pl.lit("Sorry, no."),
            reasoning=pl.lit(None),
            status=pl.lit("ok"),
            finish_reason=pl.lit("stop"),
            prompt_tokens=pl.lit(1),
            completion_tokens=pl.lit(1),
            error=pl.lit(None),
        )
        write_table(draws, path, DRAWS, meta | {"temperature": "0.5", "top_p": "1.0"})
        paths.append(str(path))
    return [
        *["--stimuli", str(folder / "stimuli.parquet"), "--measure", "tsed", "--draws", *paths],
        *["--similarity", str(folder / "pairs.parquet")],
        *["--programs", str(folder / "programs.parquet")],
        *["--output", str(folder / "examples.parquet")],
    ]


def test_replies_without_a_program_are_among_the_examples_of_a_study_of_code(
    tmp_path: Path,
) -> None:
    main(write_code_study(tmp_path))
    examples = read_table(tmp_path / "examples.parquet", EXAMPLES)
    failing = examples.filter(pl.col("role") == "first program no_code")
    assert failing.select("prompt_id", "replicate", "program").rows() == [
        (f"{task}:original", 2, "no_code") for task in "abc"
    ]
    files = examples.filter(group="keyboard-0")["file"].unique().to_list()
    assert files == ["draws/code/tiny/T0.5-P1.0/keyboard-0.parquet"]


def test_programs_of_another_measure_are_not_looked_at(tmp_path: Path) -> None:
    arguments = write_code_study(tmp_path)
    main(arguments)
    first = read_table(tmp_path / "examples.parquet", EXAMPLES)
    arguments[arguments.index("tsed")] = "tsed-published"
    main(arguments)
    second = read_table(tmp_path / "examples.parquet", EXAMPLES)
    assert first["similarity"].drop_nulls().to_list() != second["similarity"].drop_nulls().to_list()


def test_pairs_of_personas_can_be_read_from_their_table(tmp_path: Path) -> None:
    meta = {"study": "personas", "model": "tiny", "design": PERSONAS.to_json()}
    prompts = pl.DataFrame(
        {
            "task": "t",
            "persona": persona,
            "role": "a role is no reason to be here",
            "iteration": "0",
            "prompt_id": persona,
            "system": None,
            "prompt": "Write it.",
            "replicates": 2,
            "greedy_replicates": 2,
        }
        for persona in "xy"
    ).with_columns(pl.col("system").cast(pl.String))
    pairs = pl.DataFrame(
        {
            "temperature": "0.4",
            "top_p": "1.0",
            "measure": "tsed",
            "task": "t",
            "first_prompt": "x",
            "first_replicate": [0],
            "second_prompt": "x",
            "second_replicate": [1],
            "similarity": [0.5],
        }
    )
    draws = (
        prompts.select(*PERSONAS.columns, "prompt_id")
        .join(pl.DataFrame({"replicate": range(2)}), how="cross")
        .with_columns(
            seed=pl.lit(1),
            status=pl.lit("ok"),
            text=pl.lit("pass"),
            raw=pl.lit("pass"),
            **dict.fromkeys(("reasoning", "finish_reason", "error"), pl.lit(None, pl.String)),
            **dict.fromkeys(("prompt_tokens", "completion_tokens"), pl.lit(None, pl.Int32)),
        )
    )
    path = tmp_path / "draws/personas/tiny/T0.4-P1.0.parquet"
    write_table(prompts, tmp_path / "stimuli.parquet", STIMULI, meta)
    write_table(pairs, tmp_path / "pairs.parquet", PROGRAM_PAIRS, meta)
    write_table(draws, path, DRAWS, meta | {"temperature": "0.4", "top_p": "1.0"})
    main(
        ["--stimuli", str(tmp_path / "stimuli.parquet"), "--measure", "tsed"]
        + ["--similarity", str(tmp_path / "pairs.parquet"), "--draws", str(path)]
        + ["--output", str(tmp_path / "examples.parquet")]
    )
    examples = read_table(tmp_path / "examples.parquet", EXAMPLES)
    assert examples.select("group", "role", "similarity").rows() == [
        ("x", "medoid", 0.5),
        ("y", "first", None),
    ]


def test_a_study_without_a_prompt_has_a_table_without_a_row(tmp_path: Path) -> None:
    make_examples(tmp_path)
    meta = {"study": "labels", "model": "tiny", "design": DESIGN.to_json()}
    paths = [tmp_path / "draws/labels/tiny/T0.parquet", tmp_path / "stimuli.parquet"]
    paths += [tmp_path / "similarity.parquet"]
    for path, table in zip(paths, (DRAWS, STIMULI, SIMILARITY), strict=True):
        setting = {"temperature": "0", "top_p": None} if table is DRAWS else {}
        write_table(read_table(path, table).clear(), path, table, meta | setting)
    draws, stimuli, similarity = map(str, paths)
    output = tmp_path / "examples.parquet"
    main(
        ["--stimuli", stimuli, "--similarity", similarity, "--measure", "minilm"]
        + ["--draws", draws, "--output", str(output)]
    )
    assert read_table(output, EXAMPLES).height == 0


def test_a_prompt_that_two_groups_share_is_an_example_of_each(tmp_path: Path) -> None:
    """As a surname that is frequent in two groups."""
    prompts = make_prompts().with_columns(prompt_id=pl.col("format"))
    similarity = tabulate_similarity(make_vectors()).with_columns(prompt_id=pl.col("format"))
    found = choose(similarity, prompts).filter(pl.col("top_p") == "1.0")
    expected = choose(tabulate_similarity(make_vectors())).filter(pl.col("top_p") == "1.0")
    assert found.select("group", "role", "replicate").equals(
        expected.select("group", "role", "replicate")
    )
