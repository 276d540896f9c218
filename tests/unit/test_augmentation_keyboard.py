"""Typing errors: nlpaug's neighbours, the exact count, everything else untouched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_variability.augmentation import keyboard
from llm_variability.augmentation.keyboard import augment_keyboard, read_neighbours
from llm_variability.config import ConfigError

RATES = st.integers(0, 100).map(lambda percent: percent / 100)
SEEDS = st.integers(0, 2**64 - 1)


def test_neighbours_are_those_of_nlpaug_but_for_what_is_no_neighbour() -> None:
    import nlpaug
    from nlpaug.model.char import Keyboard

    table = os.path.join(os.path.dirname(nlpaug.__file__), "res/char/keyboard/en.json")
    theirs = Keyboard(model_path=table).model
    wanted = {
        key: {each for each in listed if len(each) == 1 and each.lower() != key.lower()}
        for key, listed in theirs.items()
    }
    assert {key: set(listed) for key, listed in read_neighbours().items()} == wanted
    dropped = {
        (key, each)
        for key, listed in theirs.items()
        for each in listed
        if each not in read_neighbours()[key]
    }
    assert dropped == {
        ("a", "A"), ("A", "a"), ("u", " t"), ("u", " T"), ("U", " t"), ("U", " T")
    }  # fmt: skip


@settings(deadline=None)
@given(text=st.text(max_size=80), rate=RATES, seed=SEEDS)
def test_exactly_the_asked_characters_become_neighbours(text: str, rate: float, seed: int) -> None:
    neighbours = read_neighbours()
    result = augment_keyboard(text, rate, seed)
    eligible = [character for character in text if character in neighbours]
    assert (result.eligible, result.replaceable) == (len(eligible), len(eligible))
    assert len(result.text) == len(text)
    changed = [(old, new) for old, new in zip(text, result.text, strict=True) if old != new]
    assert len(changed) == result.edited == result.asked
    assert all(new in neighbours[old] for old, new in changed)
    if eligible:
        assert abs(result.realised - rate) <= 0.5 / len(eligible) + 1e-12


@settings(deadline=None)
@given(text=st.text(max_size=80), seed=SEEDS)
def test_rate_0_is_byte_identical_and_rate_1_changes_all_that_can_be(text: str, seed: int) -> None:
    assert augment_keyboard(text, 0, seed).text == text
    whole = augment_keyboard(text, 1, seed)
    assert whole.edited == whole.eligible
    for old, new in zip(text, whole.text, strict=True):
        assert (old != new) == (old in read_neighbours())


def test_white_space_punctuation_and_other_letters_stay() -> None:
    text = "def f(x):\n\treturn  x + 0.5  # é — ß\r\n"
    result = augment_keyboard(text, 1.0, 3)
    kept = [(i, c) for i, c in enumerate(text) if c not in read_neighbours()]
    assert all(result.text[i] == c for i, c in kept)
    assert {c for _, c in kept} == set("():\n\t +0.\r é—ß")


def test_a_result_is_the_same_every_time_and_another_with_another_seed() -> None:
    text = "Write a function that adds two numbers."
    assert augment_keyboard(text, 0.5, 1) == augment_keyboard(text, 0.5, 1)
    assert augment_keyboard(text, 0.5, 1).text != augment_keyboard(text, 0.5, 2).text


def test_a_missing_nlpaug_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyboard, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="keyboard: package 'nlpaug'.* is not installed"):
        keyboard.read_neighbours.__wrapped__()


def test_the_keyboard_needs_no_import_of_nlpaug() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from llm_variability.augmentation.keyboard import augment_keyboard;"
        " augment_keyboard('abc', 1, 1); sys.exit('nlpaug' in sys.modules)"
    )
    home = Path(__file__).parents[2] / "workflow"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(home)})
    assert done.returncode == 0
