"""The methods by name, and a study's augmented texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_variability.augmentation.registry import METHODS, augment_texts, find_method
from llm_variability.config import ConfigError
from tiny_wordnet import write_wordnet

TEXTS = {"a": "Write a list of 3 numbers.", "b": "List them,\n  two by two."}


def test_every_text_rate_and_variant_is_there_once() -> None:
    rows = list(augment_texts(TEXTS, "keyboard", [0, 0.5, "1.0"], 3, 1))
    assert [(row.name, row.rate, row.variant) for row in rows] == [
        (name, rate, variant)
        for name in TEXTS
        for rate, variants in (("0", 1), ("0.5", 3), ("1.0", 3))
        for variant in range(variants)
    ]
    assert all(row.result.text == TEXTS[row.name] for row in rows if row.rate == "0")
    changed = [row.result.text for row in rows if row.rate != "0"]
    assert len(set(changed)) == len(changed)


def test_more_rates_variants_and_texts_change_none_that_were_there() -> None:
    few = set(augment_texts({"b": TEXTS["b"]}, "keyboard", [0.5], 1, 1))
    assert few < set(augment_texts(TEXTS, "keyboard", [0.2, 0.5], 2, 1))
    assert not few & set(augment_texts(TEXTS, "keyboard", [0.5], 1, 2))


@pytest.mark.parametrize("nested", [True, False])
def test_edits_are_nested_only_where_asked(nested: bool) -> None:
    rows = list(augment_texts(TEXTS, "keyboard", [0.2, 0.6, 1], 2, 1, nested=nested))
    by_key = {(row.name, row.variant, row.rate): set(row.result.edits or ()) for row in rows}
    pairs = [
        by_key[name, variant, low] <= by_key[name, variant, high]
        for name in TEXTS
        for variant in (0, 1)
        for low, high in (("0.2", "0.6"), ("0.6", "1.0"))
    ]
    assert all(pairs) if nested else not any(pairs)


def test_synonyms_come_from_the_folder_that_is_given(tmp_path: Path) -> None:
    write_wordnet(tmp_path, [("n", [("list", 3), ("roll", 1)])])
    rows = list(augment_texts(TEXTS, "synonym", [1], 1, 1, wordnet=tmp_path))
    assert [row.result.text for row in rows] == [
        "Write a roll of 3 numbers.",
        "Roll them,\n  two by two.",
    ]
    with pytest.raises(ConfigError, match="holds no WordNet"):
        list(augment_texts(TEXTS, "synonym", [1], 1, 1, wordnet=tmp_path / "elsewhere"))


def test_the_published_call_has_every_variant_at_rate_0_and_is_never_exact() -> None:
    rows = list(augment_texts({"b": TEXTS["b"]}, "nlpaug-keyboard", [0], 2, 1))
    assert [row.variant for row in rows] == [0, 1]
    assert all(row.result.text != TEXTS["b"] and row.result.edits is None for row in rows)
    assert [name for name, method in METHODS.items() if method.exact] == ["keyboard", "synonym"]


def test_an_unknown_method_is_told() -> None:
    with pytest.raises(
        ConfigError, match=r"'keybord' is no method\. Allowed: keyboard, synonym, nlpaug-"
    ):
        find_method("keybord")


def test_a_rate_outside_0_to_1_is_refused() -> None:
    with pytest.raises(ValueError, match="rate: 1.1 is not between 0 and 1"):
        list(augment_texts(TEXTS, "keyboard", [1.1], 1, 1))
