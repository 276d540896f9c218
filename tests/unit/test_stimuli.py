"""Stimuli: the published prompts, other groups, articles, and files that are wrong."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import inflect
import pytest
import yaml

from llm_variability.config import ConfigError, Study
from llm_variability.stimuli.__main__ import main as stage_main
from llm_variability.stimuli.identity import prompt_id
from llm_variability.stimuli.prompts import indefinite_article, render_prompt
from llm_variability.stimuli.registry import check_stimuli, render_prompts
from llm_variability.tables import Design, Factor, read_metadata

LABELS = Path(__file__).parents[2] / "resources/labels.yaml"
ARTICLES = inflect.engine()

AGES: dict[str, Any] = {
    "system": None,
    "template": "Describe {a} {age} {faith} {format}.",
    "formats": {"person": "person", "patient": "patient in a hospital"},
    "factors": {
        "age": {"reference": "young", "levels": {"child": "8-year-old", "young": "20-year-old"}},
        "faith": {
            "reference": "none",
            "levels": {"muslim": "Muslim", "jew": "Jewish", "none": "unreligious"},
        },
    },
}


def study(path: Path | str = LABELS, **settings: Any) -> Study:
    return Study(stimuli=str(path), **settings)


def prompts_of(path: Path, **settings: Any) -> list[str]:
    return render_prompts(path, study(path, **settings))[0]["prompt"].to_list()


def save(folder: Path, values: dict[str, Any]) -> Path:
    path = folder / "groups.yaml"
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture
def ages(tmp_path: Path) -> Path:
    return save(tmp_path, AGES)


# ----------------------------------------------------------------------- the published study


def test_the_published_study_has_104_prompts() -> None:
    assert len(set(prompts_of(LABELS))) == 4 * 2 * 13 == 104


def test_the_published_example_is_among_the_prompts() -> None:
    # Section 2.1 of "How Robust Is Homogeneity Bias in LLMs?"
    assert "Write a thirty-word story about an African American man." in prompts_of(LABELS)


def test_the_published_system_prompt_goes_with_every_prompt() -> None:
    table = render_prompts(LABELS, study()).prompts
    assert set(table["system"]) == {"You are a chatbot"}


@pytest.mark.parametrize(
    "formats",
    [
        "story, character description, biography, introduction, social media profile, synopsis,"
        " narrative, self-introduction, tragic story, funny story, romantic story, horror story,"
        " dramatic story"
    ],
)
def test_the_thirteen_published_formats_are_all_there(formats: str) -> None:
    begins = {f"Write a thirty-word {name} " for name in formats.split(", ")}
    assert len(begins) == 13
    for begin in begins:
        assert sum(prompt.startswith(begin) for prompt in prompts_of(LABELS)) == 8


@pytest.mark.parametrize(
    "group",
    [
        "an African American man",
        "an Asian American woman",
        "a Hispanic American woman",
        "a White American man",
    ],
)
def test_each_group_is_named_with_the_right_article(group: str) -> None:
    assert sum(prompt.endswith(f" {group}.") for prompt in prompts_of(LABELS)) == 13


def test_the_reference_levels_are_the_published_ones() -> None:
    design = render_prompts(LABELS, study()).design
    assert [(factor.name, factor.reference) for factor in design.factors] == [
        ("race", "White"),
        ("gender", "man"),
    ]


def test_every_group_has_as_many_prompts_as_formats() -> None:
    table = render_prompts(LABELS, study()).prompts
    assert set(table.group_by("race", "gender").len()["len"]) == {13}


# ------------------------------------------------------------------------------ other groups


def test_other_groups_come_from_another_file(ages: Path) -> None:
    assert prompts_of(ages) == [
        f"Describe {article} {age} {faith} {words}."
        for words in ("person", "patient in a hospital")
        for article, age in (("an", "8-year-old"), ("a", "20-year-old"))
        for faith in ("Muslim", "Jewish", "unreligious")
    ]


def test_the_design_of_other_groups_follows_their_file(ages: Path) -> None:
    design = render_prompts(ages, study(ages)).design
    assert design == Design(
        "format",
        (
            Factor("age", ("child", "young"), "young"),
            Factor("faith", ("muslim", "jew", "none"), "none"),
        ),
        True,
        ("person", "patient"),
    )


def test_three_factors_are_crossed(tmp_path: Path) -> None:
    values = copy.deepcopy(AGES)
    values["template"] = "Describe {a} {age} {faith} {sex} {format}."
    values["factors"]["sex"] = {"reference": "m", "levels": {"f": "female", "m": "male"}}
    path = save(tmp_path, values)
    assert len(set(prompts_of(path))) == 2 * 2 * 3 * 2


def test_levels_that_look_like_numbers_are_texts(tmp_path: Path) -> None:
    values = copy.deepcopy(AGES)
    values["factors"]["age"] = {"reference": 20, "levels": {8: "8-year-old", 20: "20-year-old"}}
    table = render_prompts(save(tmp_path, values), study()).prompts
    assert set(table["age"]) == {"8", "20"}


def test_no_system_prompt_is_null(ages: Path) -> None:
    table = render_prompts(ages, study(ages)).prompts
    assert table["system"].null_count() == len(table)


def test_formats_are_those_asked_for_in_that_order() -> None:
    table, design, *_ = render_prompts(LABELS, study(formats=["synopsis", "story"]))
    assert table["format"].unique(maintain_order=True).to_list() == ["synopsis", "story"]
    assert design.blocks == ("synopsis", "story")


def test_every_prompt_asks_for_the_study_s_draws() -> None:
    table = render_prompts(LABELS, study(draws=7, greedy_draws=2)).prompts
    assert set(table.select("replicates", "greedy_replicates").rows()) == {(7, 2)}


def test_greedy_draws_are_as_many_as_draws_unless_told() -> None:
    table = render_prompts(LABELS, study(draws=7)).prompts
    assert set(table["greedy_replicates"]) == {7}


# --------------------------------------------------------------------------------- articles


@pytest.mark.parametrize(
    "phrase",
    # As an English speaker says them; numbers as they are read aloud.
    """an 8-year-old; an 80-year-old; an 11-year-old; an 18-year-old; a 1-year-old; a 10-year-old;
    a 100-year-old; a 110-year-old; a 17-year-old; an 11,000-dollar; an 18,500-dollar;
    a 1,100-dollar; an 800-dollar; an honest; a European; an hour-long; a university; an unemployed;
    a one-legged; a Ukrainian; an Uzbek; an Iraqi; an LGBT; a US; an X-ray""".replace(
        "\n", " "
    ).split(";"),
)
def test_the_article_is_the_spoken_one(phrase: str) -> None:
    article, word = phrase.split()
    assert indefinite_article(word, ARTICLES) == article


@pytest.mark.parametrize("mark", ['"', "(", "“", "'"])
def test_a_mark_before_the_word_does_not_change_its_article(mark: str) -> None:
    assert indefinite_article(f"{mark}honest", ARTICLES) == "an"


@pytest.mark.parametrize(
    ("template", "prompt"),
    [
        ('Write "{a} {x} man".', 'Write "an honest man".'),
        ("({a} {x} man) and {a} man", "(an honest man) and a man"),
        ("{a}  {x}\nman", "an honest man"),
    ],
)
def test_an_article_may_stand_beside_marks(template: str, prompt: str) -> None:
    assert render_prompt(template, {"x": "honest"}, ARTICLES) == prompt


def test_braces_in_a_phrase_are_text() -> None:
    assert render_prompt("{a} {x}", {"x": "man {a} {y}"}, ARTICLES) == "a man {a} {y}"


# ------------------------------------------------------------------------- the prompt's name


def test_a_prompt_is_named_by_blake2b_of_system_and_prompt() -> None:
    # b2sum -l 64 of "You are a chatbot" 0x01 "Hi"
    assert prompt_id("You are a chatbot", "Hi") == EXPECTED_ID


EXPECTED_ID = "f858eda6a838466b"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("s", "p"), ("t", "p")),
        (("s", "p"), ("s", "p.")),
        ((None, "p"), ("", "p")),
        (("a", "bc"), ("ab", "c")),
    ],
)
def test_a_prompt_of_another_wording_has_another_name(
    one: tuple[str | None, str], other: tuple[str | None, str]
) -> None:
    assert prompt_id(*one) != prompt_id(*other)


def test_the_order_of_formats_changes_no_name() -> None:
    some = render_prompts(LABELS, study(formats=["story", "biography"]))[0]
    turned = render_prompts(LABELS, study(formats=["biography", "story"]))[0]
    names = ["prompt", "prompt_id"]
    assert sorted(some.select(names).rows()) == sorted(turned.select(names).rows())


def test_another_system_prompt_changes_every_name(tmp_path: Path) -> None:
    values = yaml.safe_load(LABELS.read_text(encoding="utf-8"))
    here = render_prompts(save(tmp_path, values), study())[0]
    changed = render_prompts(save(tmp_path, {**values, "system": "You are a poet"}), study())[0]
    assert not set(here["prompt_id"]) & set(changed["prompt_id"])


# ------------------------------------------------------------------------------- wrong files


def changed(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(AGES), **changes}


def with_factors(**factors: Any) -> dict[str, Any]:
    return changed(factors={**copy.deepcopy(AGES["factors"]), **factors})


PAIR = {"reference": "a", "levels": {"a": "x", "b": "y"}}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": (changed(prompt="x"), "prompt: unknown key"),
    "factor not in the template": (with_factors(sex=PAIR), "template: {sex} must stand both"),
    "placeholder that is no factor": (
        changed(template="{a} {age} {faith} {sex} {format}"),
        "template: {sex} must stand both",
    ),
    "no format in the template": (
        changed(template="{a} {age} {faith} person"),
        "template: {format} must stand both",
    ),
    "open brace": (changed(template="{a} {age} {faith} {format"), "template: expected '}'"),
    "empty braces": (changed(template="{a} {age} {faith} {format} {}"), "template: braces hold"),
    "conversion": (changed(template="{a} {age!r} {faith} {format}"), "template: braces hold"),
    "number format": (changed(template="{a} {age:3d} {faith} {format}"), "template: braces hold"),
    "article at the end": (changed(template="{age} {faith} {format} {a}"), "template: a word must"),
    "article before a mark": (
        changed(template="{age} {faith} {format} {a}, so"),
        "template: a word must",
    ),
    "reference that is no level": (
        with_factors(age={"reference": "old", "levels": {"a": "x", "b": "y"}}),
        "factors.age: reference: 'old' is no level. Allowed: a, b",
    ),
    "one level": (
        with_factors(age={"reference": "a", "levels": {"a": "x"}}),
        "factors.age: levels: at least two are needed",
    ),
    "no formats": (changed(formats={}), "formats: at least one is needed"),
    "no factors": (changed(factors={}), "factors: "),
    "factor named like a column": (
        {
            **changed(template="{a} {status} {format}"),
            "factors": {"status": PAIR},
        },
        "factors: status is a name of the workflow",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_gives_one_line(case: str, tmp_path: Path) -> None:
    values, told = WRONG[case]
    path = save(tmp_path, values)
    with pytest.raises(ConfigError) as raised:
        check_stimuli(path, study(path))
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"{path}: {told}")


def test_an_unknown_format_is_told_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="'poem' is not in .* Allowed: story, character-desc"):
        check_stimuli(LABELS, study(formats=["story", "poem"]))


def test_a_format_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="given twice"):
        check_stimuli(LABELS, study(formats=["story", "story"]))


def test_two_levels_with_the_same_words_are_refused_before_anything_runs(tmp_path: Path) -> None:
    values = copy.deepcopy(AGES)
    values["factors"]["age"]["levels"]["young"] = " 8-year-old"
    path = save(tmp_path, values)
    with pytest.raises(ConfigError, match="child and young have the same words") as error:
        check_stimuli(path, study(path))
    assert "\n" not in str(error.value)
    assert f"{path}: factors.age.levels" in str(error.value)


def test_groups_that_differ_only_in_where_their_words_stand_are_refused(tmp_path: Path) -> None:
    values = with_factors(
        age={"reference": "young", "levels": {"young": "old", "old": "old man"}},
        faith={"reference": "none", "levels": {"none": "man man", "jew": "man"}},
    )
    path = save(tmp_path, values)
    with pytest.raises(ConfigError, match="two groups get the same prompt: .*old man man"):
        check_stimuli(path, study(path))


def test_levels_that_yaml_takes_for_truth_values_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path, AGES)
    path.write_text(path.read_text().replace("young: 20-year-old", "no: 20-year-old"))
    with pytest.raises(ConfigError, match="factors.age.levels: YAML reads yes, no") as error:
        check_stimuli(path, study(path))
    assert "\n" not in str(error.value)


def test_the_table_says_which_files_it_was_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(__file__).resolve().parents[2]
    table = tmp_path / "names.parquet"
    settings = json.dumps({"kind": "names", "stimuli": "resources/names.yaml"})
    stimuli = ["--stimuli", str(home / "resources/names.yaml"), "--output", str(table)]
    monkeypatch.setattr(sys, "argv", ["", "--study", "n", "--settings", settings, *stimuli])
    stage_main()
    listed = read_metadata(table)["files"]
    assert listed.keys() == {"names.yaml", "census2010.csv"}
    told = subprocess.run(
        ["sha256sum", "names.yaml", "surnames/census2010.csv"],
        cwd=home / "resources",
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(listed.values()) == set(told.stdout.split()[::2])
