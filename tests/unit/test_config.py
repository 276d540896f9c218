"""The configuration: generated files, one-line problems, grid values and cells."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.config import (
    DEFAULT,
    ConfigError,
    Grid,
    Settings,
    canonical_number,
    cell_name,
    default_yaml,
    load_settings,
    parse_cell,
    schema_json,
)
from llm_variability.preflight import RunLock, check_settings, describe_draws, find_resource

HOME = Path(__file__).parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"

Change = Callable[[dict[str, Any]], None]


def default_with(change: Change) -> dict[str, Any]:
    values = copy.deepcopy(DEFAULT)
    change(values)
    return values


def put(dotted: str, value: Any) -> Change:
    def change(values: dict[str, Any]) -> None:
        *sections, last = dotted.split("/")
        for section in sections:
            values = values[section]
        values[last] = value

    return change


def write(path: Path, values: Any) -> Path:
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return path


def problems(*files: Path, overrides: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load_settings(list(files), overrides)
    return str(raised.value).splitlines()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ------------------------------------------------------------------------- generated files


def test_the_default_file_is_the_generated_text() -> None:
    assert (HOME / "config/config.yaml").read_text(encoding="utf-8") == default_yaml()


def test_the_schema_file_is_the_generated_text() -> None:
    file = HOME / "workflow/schemas/config.schema.json"
    assert file.read_text(encoding="utf-8") == schema_json()


def test_the_default_file_holds_the_default_values() -> None:
    assert yaml.safe_load(default_yaml()) == DEFAULT


def test_the_default_file_is_a_valid_configuration() -> None:
    settings = load_settings([HOME / "config/config.yaml"])
    assert settings.grid.cells() == ["T0", "T1.0-P0.8", "T1.0-P1.0"]


def test_the_default_file_is_valid_by_the_json_schema() -> None:
    values = yaml.safe_load((HOME / "config/config.yaml").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(json.loads(schema_json())).validate(values)


@pytest.mark.parametrize(
    "change", [put("sead", 1), put("studies/labels/draws", 0), put("fits/backend", "lme4")]
)
def test_the_json_schema_refuses_what_the_program_refuses(change: Change) -> None:
    values = default_with(change)
    validator = jsonschema.Draft202012Validator(json.loads(schema_json()))
    assert not validator.is_valid(values)


def test_every_key_of_the_default_file_is_explained() -> None:
    lines = default_yaml().splitlines()
    keys = [
        number
        for number, line in enumerate(lines)
        if ":" in line and not line.lstrip().startswith("#") and line.strip()
    ]
    names = {"SmolLM2-135M-Instruct", "all-MiniLM-L6-v2", "labels", "names", "code"}
    bare = [
        lines[number]
        for number in keys
        if not lines[number - 1].lstrip().startswith("#")
        and lines[number].strip().split(":")[0] not in names
    ]
    assert bare == []


# ----------------------------------------------------------------------- one-line problems

WRONG: dict[str, tuple[Change, str, list[str]]] = {
    "unknown key": (put("seeds", 2), "seeds", ["unknown key", "did you mean 'seed'?"]),
    "unknown key of a section": (
        put("grid/temprature", [1]),
        "grid.temprature",
        ["unknown key", "did you mean 'temperature'?"],
    ),
    "unknown key of an entry": (
        put("models/SmolLM2-135M-Instruct/max_model_length", 9),
        "models.SmolLM2-135M-Instruct.max_model_length",
        ["unknown key", "did you mean 'max_model_len'?"],
    ),
    "temperature above 2": (
        put("grid/temperature", [0, 2.5]),
        "grid.temperature",
        ["2.5 is above 2.0", "numbers from 0 to 2"],
    ),
    "negative temperature": (
        put("grid/temperature", [-0.1]),
        "grid.temperature",
        ["-0.1 is below 0", "numbers from 0 to 2"],
    ),
    "top-p 0": (put("grid/top_p", [0]), "grid.top_p", ["0 is not above 0", "numbers above 0"]),
    "top-p above 1": (put("grid/top_p", [1.01]), "grid.top_p", ["1.01 is above 1", "at most 1"]),
    "one value spelled twice": (
        put("grid/temperature", [1, 1.0]),
        "grid.temperature",
        ["1 and 1.0 are the same value", "each once"],
    ),
    "one value as number and text": (
        put("grid/top_p", [0.5, "0.50"]),
        "grid.top_p",
        ["0.5 and 0.50 are the same value"],
    ),
    "truth value in the grid": (
        put("grid/temperature", [True]),
        "grid.temperature",
        ["True is not a number"],
    ),
    "truth value as a seed": (put("seed", True), "seed", ["true is not a number", "2^63 - 1"]),
    "truth value as a count": (
        put("studies/labels/draws", True),
        "studies.labels.draws",
        ["true is not a number", "at least 1"],
    ),
    "huge number": (put("grid/temperature", [1e30]), "grid.temperature", ["1e+30", "from 0 to 2"]),
    "not a number": (put("grid/temperature", [float("nan")]), "grid.temperature", ["nan"]),
    "too many decimals": (
        put("grid/top_p", [0.12345]),
        "grid.top_p",
        ["0.12345", "at most four decimals"],
    ),
    "axis that is no list": (put("grid/top_p", 0.5), "grid.top_p", ["list"]),
    "empty axis": (put("grid/top_p", []), "grid.top_p", ["at least one number"]),
    "missing section": (
        lambda values: values.pop("grid"),
        "grid",
        ["is missing", "temperature and top_p"],
    ),
    "hub without revision": (
        put("models/SmolLM2-135M-Instruct", {"hub": "owner/name"}),
        "models.SmolLM2-135M-Instruct",
        ["revision: None", "40 hexadecimal digits"],
    ),
    "short revision": (
        put("models/SmolLM2-135M-Instruct", {"hub": "owner/name", "revision": "0123abc"}),
        "models.SmolLM2-135M-Instruct",
        ["revision: '0123abc'", "40 hexadecimal digits"],
    ),
    "revision without hub": (
        put("models/SmolLM2-135M-Instruct", {"package": "p", "revision": COMMIT}),
        "models.SmolLM2-135M-Instruct",
        ["revision is allowed with hub only"],
    ),
    "two sources": (
        put("encoders/all-MiniLM-L6-v2", {"package": "p", "path": "q"}),
        "encoders.all-MiniLM-L6-v2",
        ["exactly one of hub, path, package", "given: path, package"],
    ),
    "no source": (
        put("models/SmolLM2-135M-Instruct", {}),
        "models.SmolLM2-135M-Instruct",
        ["exactly one of hub, path, package, endpoint", "given: none"],
    ),
    "endpoint that is no URL": (
        put("models/SmolLM2-135M-Instruct", {"endpoint": "localhost:8000/v1"}),
        "models.SmolLM2-135M-Instruct",
        ["'localhost:8000/v1' is not a URL"],
    ),
    "endpoint with its last part": (
        put(
            "models/SmolLM2-135M-Instruct",
            {"endpoint": "http://localhost:8000/v1/chat/completions/"},
        ),
        "models.SmolLM2-135M-Instruct",
        ["endpoint: give the base URL", "before /chat/completions"],
    ),
    "answers longer than the context": (
        put("models/SmolLM2-135M-Instruct/max_model_len", 80),
        "studies.labels.max_new_tokens",
        ["80 tokens do not fit models.SmolLM2-135M-Instruct.max_model_len = 80"],
    ),
    "served name without endpoint": (
        put("models/SmolLM2-135M-Instruct", {"package": "p", "served_name": "n"}),
        "models.SmolLM2-135M-Instruct",
        ["served_name is allowed with endpoint only"],
    ),
    "key without endpoint": (
        put("models/SmolLM2-135M-Instruct", {"package": "p", "api_key_env": "KEY"}),
        "models.SmolLM2-135M-Instruct",
        ["api_key_env is allowed with endpoint only"],
    ),
    "name with a blank": (put("models/a b", {"package": "p"}), "models.a b", ["'a b' is no name"]),
    "names that differ in case only": (
        put("models/smollm2-135m-instruct", {"package": "p"}),
        "models",
        ["SmolLM2-135M-Instruct and smollm2-135m-instruct differ in case only"],
    ),
    "no models": (put("models", {}), "models", ["at least one entry is needed"]),
    "models as a list": (put("models", ["a"]), "models", ['["a"] is not allowed', "a mapping"]),
    "dtype that is none": (
        put("models/SmolLM2-135M-Instruct/dtype", "int3"),
        "models.SmolLM2-135M-Instruct.dtype",
        ['"int3" is not allowed', "float16"],
    ),
    "engine argument that is a list": (
        put("models/SmolLM2-135M-Instruct/engine_args", {"seed": [1]}),
        "models.SmolLM2-135M-Instruct.engine_args.seed",
        ["[1] is not allowed"],
    ),
    "endless deadline": (
        put("models/SmolLM2-135M-Instruct/load_timeout_s", float("inf")),
        "models.SmolLM2-135M-Instruct.load_timeout_s",
        ["Infinity", "a number above 0"],
    ),
    "empty results folder": (put("results", ""), "results", ["'' is not a path"]),
    "results folder with a wildcard": (put("results", "r/{x}"), "results", ["'r/{x}' is not"]),
    "policy that is none": (
        put("models/SmolLM2-135M-Instruct/system_prompt", "drop"),
        "models.SmolLM2-135M-Instruct.system_prompt",
        ['"drop" is not allowed', "keep, merge, omit"],
    ),
    "template argument that is a list": (
        put("models/SmolLM2-135M-Instruct/chat_template_args", {"tools": [1]}),
        "models.SmolLM2-135M-Instruct.chat_template_args.tools",
        ["[1] is not allowed"],
    ),
    "form of reasoning that is none": (
        put("models/SmolLM2-135M-Instruct/reasoning", "yes"),
        "models.SmolLM2-135M-Instruct.reasoning",
        ['"yes" is not allowed', "none, think, harmony"],
    ),
    "fewer than no tokens for reasoning": (
        put("models/SmolLM2-135M-Instruct/reasoning_tokens", -1),
        "models.SmolLM2-135M-Instruct.reasoning_tokens",
        ["-1 is not allowed", "at least 0"],
    ),
    "date that is none": (
        put("models/SmolLM2-135M-Instruct/template_date", "2024-02-30"),
        "models.SmolLM2-135M-Instruct.template_date",
        ["2024-02-30 is no date", "2025-01-01"],
    ),
    "one name a group": (
        put("studies/names/names/per_group", 1),
        "studies.names.names.per_group",
        ["1 is not allowed", "at least 2"],
    ),
    "names matched by nothing known": (
        put("studies/names/names/match", "length"),
        "studies.names.names.match",
        ['"length" is not allowed', "none, frequency"],
    ),
    "names for labels": (
        put("studies/labels/names", {"per_group": 5}),
        "studies.labels",
        ["the key names needs kind: names; this study is of kind labels"],
    ),
    "two draws a name": (
        put("studies/names/draws", 2),
        "studies.names",
        ["draws: a study of names", "Allowed: 1"],
    ),
    "two greedy draws a name": (
        put("studies/names/greedy_draws", 2),
        "studies.names",
        ["draws: a study of names", "Allowed: 1"],
    ),
    "tokens for reasoning that nobody reads": (
        put("models/SmolLM2-135M-Instruct/reasoning_tokens", 9),
        "models.SmolLM2-135M-Instruct",
        ["reasoning_tokens is allowed with reasoning think or harmony only"],
    ),
    "validation with an unknown encoder": (
        put("validation", {"encoder": "mpnet"}),
        "",
        ["validation.encoder: 'mpnet' is no encoder. Allowed: all-MiniLM-L6-v2"],
    ),
    "validation with a seed twice": (
        put("validation", {"seeds": [1, 1]}),
        "validation.seeds",
        ["each once"],
    ),
    "validation with too few texts": (
        put("validation", {"per_cell": 1}),
        "validation.per_cell",
        ["1 is not allowed", "from 2 to 500"],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_gives_one_line_with_file_key_and_reason(case: str, here: Path) -> None:
    change, key, told = WRONG[case]
    lines = problems(write(here / "my.yaml", default_with(change)))
    assert len(lines) == 1
    assert lines[0].startswith(f"my.yaml: {key}: " if key else "my.yaml: ")
    for text in told:
        assert text in lines[0]


def test_two_mistakes_give_two_lines(here: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        values["grid"]["top_p"] = [0]
        values["seed"] = -1

    assert len(problems(write(here / "my.yaml", default_with(change)))) == 2


def test_a_name_with_a_slash_is_refused(here: Path) -> None:
    values = default_with(lambda v: v["models"].update({"a/b": {"package": "p"}}))
    (line,) = problems(write(here / "my.yaml", values))
    assert line.startswith("my.yaml: models.a/b: 'a/b' is no name. Allowed: letters")


BROKEN = {
    "duplicate key": ("seed: 1\nresults: r\nseed: 2\n", "line 3: the key 'seed' is given twice"),
    "duplicate nested key": ("grid:\n  top_p: [1]\n  top_p: [0.5]\n", "line 3: the key 'top_p'"),
    "list": ("- a\n- b\n", "must be a mapping"),
    "nothing": ("", "must be a mapping"),
    "no YAML": ("a: [1\n", "line 2: "),
    "braces as a key": ("results: {{folder}}\n", "line 1: a key must be a text"),
    "date that is none": ("results: 2001-99-99\n", "month must be in 1..12"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_is_no_configuration_gives_one_line(case: str, here: Path) -> None:
    text, told = BROKEN[case]
    (here / "my.yaml").write_text(text)
    (line,) = problems(here / "my.yaml")
    assert line.startswith(f"my.yaml: {told}")


def test_a_file_that_is_not_there_gives_one_line(here: Path) -> None:
    assert problems(here / "my.yaml") == ["my.yaml: cannot be read: No such file or directory"]


def test_a_folder_in_place_of_a_file_gives_one_line(here: Path) -> None:
    assert problems(here.parent) == [f"{here.parent}: cannot be read: Is a directory"]


def test_text_that_is_not_utf8_gives_one_line(here: Path) -> None:
    (here / "my.yaml").write_bytes("results: größe\n".encode("latin-1"))
    assert problems(here / "my.yaml") == ["my.yaml: cannot be read: it is not UTF-8 text"]


def test_the_file_that_holds_the_wrong_value_is_blamed(here: Path) -> None:
    first = write(here / "first.yaml", default_with(put("seed", -1)))
    second = write(here / "second.yaml", {"fits": {"backend": "profile"}})
    (line,) = problems(first, second)
    assert line.startswith("first.yaml: seed: -1 ")


def test_the_later_of_two_files_with_a_key_is_blamed(here: Path) -> None:
    first = write(here / "first.yaml", DEFAULT)
    second = write(here / "second.yaml", {"seed": -2})
    (line,) = problems(first, second)
    assert line.startswith("second.yaml: seed: -2 ")


def test_the_command_line_is_blamed_for_its_own_value(here: Path) -> None:
    (line,) = problems(write(here / "my.yaml", DEFAULT), overrides={"seed": -3})
    assert line.startswith("--config: seed: -3 ")


def test_the_command_line_wins_over_the_files(here: Path) -> None:
    assert load_settings([write(here / "my.yaml", DEFAULT)], {"seed": 77}).seed == 77


def test_a_merge_key_shares_settings_between_entries(here: Path) -> None:
    text = default_yaml().replace(
        "studies:\n  labels:",
        "studies:\n  again:\n    stimuli: s.yaml\n    <<: &common {draws: 9}\n  labels:",
    )
    (here / "my.yaml").write_text(text)
    assert load_settings([here / "my.yaml"]).studies["again"].draws == 9


@pytest.mark.parametrize(
    "model",
    [
        {"endpoint": "https://user:hunter2-secret@host/v1"},
        {"endpoint": "https://host/v1", "api_key_env": "hunter2-secret"},
    ],
)
def test_a_secret_in_the_wrong_place_is_refused_and_not_shown(
    model: dict[str, Any], here: Path
) -> None:
    (line,) = problems(write(here / "my.yaml", default_with(put("models", {"m": model}))))
    assert "hunter2-secret" not in line


# ------------------------------------------------------------------- grid values and cells

decimals = st.decimals(min_value=-100, max_value=100, places=4, allow_nan=False)


@given(decimals)
def test_a_canonical_number_is_its_own_canonical_form(number: Decimal) -> None:
    text = canonical_number(str(number))
    assert canonical_number(text) == text


@given(decimals)
def test_a_canonical_number_has_the_value_of_the_number(number: Decimal) -> None:
    assert Decimal(canonical_number(str(number))) == number


@given(decimals, st.integers(0, 4), st.sampled_from(["", " ", "+"]))
def test_spellings_of_one_number_have_one_canonical_form(
    number: Decimal, zeros: int, before: str
) -> None:
    spelled = f"{before if number > 0 else ''}{number:f}{'0' * zeros}"
    assert canonical_number(spelled) == canonical_number(str(number))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0, "0"), ("-0.0", "0"), (1, "1.0"), (1.50, "1.5"), ("1e-1", "0.1"), (10, "10.0")],
)
def test_numbers_are_written_as_in_paths(value: Any, text: str) -> None:
    assert canonical_number(value) == text


@pytest.mark.parametrize("value", [True, None, "a", "", float("inf"), "nan", 0.00001, [1], "1e40"])
def test_what_is_no_grid_value_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="number"):
        canonical_number(value)


def test_temperature_zero_is_one_cell_whatever_the_top_p() -> None:
    grid = Grid(temperature=[0, 1], top_p=[0.2, 0.4, 1])  # type: ignore[list-item]
    assert grid.cells() == ["T0", "T1.0-P0.2", "T1.0-P0.4", "T1.0-P1.0"]


def test_cells_are_in_ascending_order_of_value() -> None:
    grid = Grid(temperature=[2, 0.5, 1.5], top_p=[1])  # type: ignore[list-item]
    assert grid.cells() == ["T0.5-P1.0", "T1.5-P1.0", "T2.0-P1.0"]


@given(st.decimals(min_value=0, max_value=2, places=3), st.decimals("0.001", 1, places=3))
def test_a_cell_can_be_read_back_from_its_name(temperature: Decimal, top_p: Decimal) -> None:
    heat, nucleus = canonical_number(str(temperature)), canonical_number(str(top_p))
    expected = ("0", None) if temperature == 0 else (heat, nucleus)
    assert parse_cell(cell_name(heat, nucleus)) == expected


@pytest.mark.parametrize(
    "name", ["", "T1.0", "T0-P1.0", "P1.0", "T1.0-P", "T1.0-P1.0 ", "T1.0-P1.0/x"]
)
def test_a_name_of_no_cell_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="names no cell"):
        parse_cell(name)


# ------------------------------------------------------------- what is there before the run


@pytest.fixture
def usable(here: Path) -> dict[str, Any]:
    """A configuration whose files are all there."""
    (here / "model").mkdir()
    (here / "model/config.json").write_text("{}")
    (here / "encoder").mkdir()
    (here / "encoder/modules.json").write_text("[]")
    (here / "resources/surnames").mkdir(parents=True)
    (here / "resources/tasks").mkdir()
    for name in ("labels.yaml", "names.yaml", "surnames/census2010.csv"):
        (here / "resources" / name).write_bytes((HOME / "resources" / name).read_bytes())
    listed = (here / "resources/names.yaml").read_text()
    elsewhere = listed.replace("surnames/", "resources/surnames/")
    (here / "names.yaml").write_text(elsewhere.replace("reference: White", "reference: Martian"))
    gone = listed.replace("surnames/census2010.csv", "gone.csv")
    (here / "names-elsewhere.yaml").write_text(gone)
    values = copy.deepcopy(DEFAULT)
    values["models"] = {"m": {"path": "model"}}
    values["encoders"] = {"e": {"path": "encoder"}}
    (here / "resources/tasks/brief.jsonl").write_bytes(
        (HOME / "resources/tasks/brief.jsonl").read_bytes()
    )
    values["studies"]["personas"]["personas"]["model"] = "m"
    return values


def preflight_problems(values: dict[str, Any], here: Path) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        check_settings(Settings.model_validate(values), here / "my.yaml", here)
    return str(raised.value).splitlines()


def test_the_draws_of_a_configuration_are_counted(usable: dict[str, Any], here: Path) -> None:
    labels = {"stimuli": "resources/labels.yaml", "draws": 50}
    names = {"kind": "names", "stimuli": "resources/names.yaml", "formats": ["story"]}
    grid = {
        "temperature": [0, 0.5, 1.0, 1.5, 2.0],
        "top_p": [0.2, 0.4, 0.6, 0.8, 1.0],
    }
    settings = Settings.model_validate(
        {**usable, "grid": grid, "studies": {"labels": labels, "names": names}}
    )
    # 5,200 texts a setting (section 2.1 of the paper), 21 settings; 200 names in one format.
    assert list(describe_draws(settings, here)) == [
        "labels: 104 prompts at 21 settings: 109,200 draws a model, 109,200 in all",
        "names: 200 prompts at 21 settings: 4,200 draws a model, 4,200 in all;"
        " with one format there is level text, formats fixed, and no mixed model",
    ]


def test_preflight_says_which_study_has_too_few_texts_for_level_text(
    usable: dict[str, Any], here: Path
) -> None:
    names = {"kind": "names", "stimuli": "resources/names.yaml", "names": {"per_group": 2}}
    labels = {"stimuli": "resources/labels.yaml", "draws": 3}
    study = {**usable, "studies": {"labels": labels, "names": names}}
    lines = list(describe_draws(Settings.model_validate(study), here))
    assert [line.partition("; with ")[2].partition(" texts")[0] for line in lines] == ["3", "2"]
    assert all(line.endswith("there is no level text: it takes 4") for line in lines)


def test_no_format_at_all_is_refused(usable: dict[str, Any], here: Path) -> None:
    labels = {"stimuli": "resources/labels.yaml", "formats": []}
    settings = Settings.model_validate({**usable, "studies": {"labels": labels}})
    with pytest.raises(ConfigError, match="studies.labels.formats: none is given. Allowed: at"):
        check_settings(settings, here / "my.yaml", here)


def test_a_usable_configuration_passes(usable: dict[str, Any], here: Path) -> None:
    check_settings(Settings.model_validate(usable), here / "my.yaml", here)


ABSENT = {
    "model path": ({"models": {"m": {"path": "gone"}}}, "models.m.path: gone is no folder"),
    "file as a model path": (
        {"models": {"m": {"path": "model/config.json"}}},
        "models.m.path: model/config.json is no folder",
    ),
    "folder that is no model": (
        {"models": {"m": {"path": "encoder"}}},
        "models.m.path: encoder holds no config.json, so it is not a model",
    ),
    "folder that is no encoder": (
        {"encoders": {"e": {"path": "model"}}},
        "encoders.e.path: model holds no modules.json, so it is not a sentence-transformers",
    ),
    "package": (
        {"models": {"m": {"package": "no-such-package-here"}}},
        "models.m.package: package 'no-such-package-here' is not installed",
    ),
    "package without a name": (
        {"models": {"m": {"package": ""}}},
        "models.m.package: package '' is not installed",
    ),
    "package without weights": (
        {"models": {"m": {"package": "pytest"}}},
        "models.m.package: package 'pytest' must ship weights of one model; found: none",
    ),
    "key": (
        {"models": {"m": {"endpoint": "http://h/v1", "api_key_env": "LLMV_UNSET"}}},
        "models.m.api_key_env: the environment variable LLMV_UNSET is not set",
    ),
    "stimuli": (
        {"studies": {"s": {"stimuli": "gone.yaml"}}},
        "studies.s.stimuli: gone.yaml: cannot be read: No such file",
    ),
    "format": (
        {"studies": {"s": {"stimuli": "resources/labels.yaml", "formats": ["story", "poem"]}}},
        "studies.s.formats: 'poem' is not in resources/labels.yaml. Allowed: story,",
    ),
    "list of names": (
        {"studies": {"s": {"kind": "names", "stimuli": "names-elsewhere.yaml"}}},
        "studies.s.stimuli: gone.csv: cannot be read: No such file",
    ),
    "group of names": (
        {
            "studies": {
                "s": {
                    "kind": "names",
                    "stimuli": "resources/names.yaml",
                    "names": {"groups": ["White", "Martian"]},
                }
            }
        },
        "studies.s.names.groups: 'Martian' is not in ",
    ),
    "reference of names": (
        {"studies": {"s": {"kind": "names", "stimuli": "names.yaml"}}},
        "studies.s.stimuli: names.yaml: reference: 'Martian' is no group of ",
    ),
    "texts to validate with": (
        {"validation": {"texts": "gone.parquet"}},
        "validation.texts: gone.parquet is no file",
    ),
}


@pytest.mark.parametrize("case", ABSENT)
def test_what_is_not_there_is_told_in_one_line(
    case: str, usable: dict[str, Any], here: Path
) -> None:
    change, told = ABSENT[case]
    (line,) = preflight_problems({**usable, **change}, here)
    assert line.startswith(f"my.yaml: {told}")


def test_a_wrong_stimuli_file_is_told_in_one_line(usable: dict[str, Any], here: Path) -> None:
    (here / "wrong.yaml").write_text("template: x\nformats: {a: b}\nfactors: {}\nformat: 1\n")
    lines = preflight_problems({**usable, "studies": {"s": {"stimuli": "wrong.yaml"}}}, here)
    assert any("format: unknown key; did you mean 'formats'?" in line for line in lines)


def test_a_key_that_is_set_is_enough_and_its_value_is_in_no_message(
    usable: dict[str, Any], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMV_SET", "hunter2-secret")
    usable["models"] = {
        "m": {"endpoint": "http://h/v1", "api_key_env": "LLMV_SET"},
        "n": {"path": "gone"},
    }
    assert preflight_problems(usable, here) == ["my.yaml: models.n.path: gone is no folder"]


def test_a_file_here_comes_before_one_that_ships_with_the_workflow(here: Path) -> None:
    (here / "home").mkdir()
    for folder in (here, here / "home"):
        (folder / "labels.yaml").write_text("")
    assert find_resource("labels.yaml", here / "home") == Path("labels.yaml")


def test_a_file_that_ships_with_the_workflow_is_found_from_elsewhere(here: Path) -> None:
    assert find_resource("resources/labels.yaml", HOME) == HOME / "resources/labels.yaml"


# ------------------------------------------------------------------------- one run at a time

HOLDER = (
    "import sys, time; from llm_variability.preflight import RunLock;"
    "RunLock(sys.argv[1]).take(); print('held', flush=True); time.sleep(60)"
)


@pytest.fixture
def holder(here: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(here / "results")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HOME / "workflow")},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process  # type: ignore[misc]
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_run_in_a_results_folder_is_refused_by_name(
    holder: subprocess.Popen[str], here: Path
) -> None:
    with pytest.raises(ConfigError, match=f"run {holder.pid} on .* is working here"):
        RunLock(str(here / "results")).take()


def test_the_lock_of_a_killed_run_is_free_at_once(
    holder: subprocess.Popen[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    monkeypatch.setattr(RunLock, "_held", held)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    RunLock(str(here / "results")).take()
    assert len(held) == 1
    os.close(held[0])
