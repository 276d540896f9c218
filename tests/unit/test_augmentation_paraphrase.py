"""Paraphrases: requests, answers, BLEU, bands and flags."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_variability.augmentation.paraphrase import (
    BANDS,
    FLAGS,
    INSTRUCTIONS,
    ask_for_paraphrase,
    find_band,
    measure_bleu,
    read_answer,
    score_paraphrase,
)

ORIGINAL = "Write a function `add_up(rows)` that returns the sum of 12 rows, or None."


def told(text: str) -> str:
    return f"<reworded>{text}</reworded>"


# ------------------------------------------------------------------------------------- requests


def test_there_is_an_instruction_for_each_band() -> None:
    assert list(INSTRUCTIONS) == list(BANDS)
    requests = {ask_for_paraphrase(ORIGINAL, degree) for degree in INSTRUCTIONS}
    assert len(requests) == 3


@settings(deadline=None)
@given(text=st.text(min_size=1, max_size=80), degree=st.sampled_from(list(INSTRUCTIONS)))
def test_the_text_stands_in_the_request_as_it_is(text: str, degree: str) -> None:
    assert f"<request>\n{text}\n</request>" in ask_for_paraphrase(text, degree)


# -------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("answer", "text", "flags"),
    [
        ("Sure!\n<reworded>\nAdd it up.\n</reworded>\nDone.", "Add it up.", ()),
        ("<reworded>Add it", "Add it", ("unclosed",)),
        ("  Add it up.\n", "Add it up.", ("untagged",)),
        ("<reworded></reworded>", "", ()),
    ],
)
def test_the_paraphrase_is_taken_out_of_the_answer(
    answer: str, text: str, flags: tuple[str, ...]
) -> None:
    assert read_answer(answer) == (text, flags)


@pytest.mark.parametrize(
    ("answer", "flags"),
    [
        ("Add it up and", ("untagged", "unclosed")),
        ("<reworded>Add it", ("unclosed",)),
        ("<reworded>Add it up.</reworded> I hope that", ()),
    ],
)
def test_an_answer_that_was_cut_is_not_closed_unless_the_paraphrase_is(
    answer: str, flags: tuple[str, ...]
) -> None:
    assert read_answer(answer, cut=True)[1] == flags


# ----------------------------------------------------------------------------------------- BLEU


def test_bleu_worked_out_by_hand() -> None:
    # Matches of 1 to 4 words: 5 of 6, 3 of 5, 2 of 4, 1 of 3; equal length, so no penalty.
    expected = (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    measured = measure_bleu("the cat sat on a mat", "the cat sat on the mat")
    assert measured == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcdefgh"), min_size=4, max_size=20), st.randoms())
def test_bleu_is_that_of_nltk(words: list[str], random: object) -> None:
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    changed = list(words)
    random.shuffle(changed)  # type: ignore[attr-defined]
    changed = changed[: max(4, len(words) - 2)]
    theirs = sentence_bleu([words], changed, smoothing_function=SmoothingFunction().method3)
    assert measure_bleu(" ".join(changed), " ".join(words)) == pytest.approx(theirs, abs=1e-9)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_bleu_is_between_0_and_1(text: str, original: str) -> None:
    assert 0 <= measure_bleu(text, original) <= 1


def test_bleu_of_the_original_is_1() -> None:
    assert measure_bleu(ORIGINAL, ORIGINAL) == 1


# ---------------------------------------------------------------------------------------- bands


@pytest.mark.parametrize(
    ("bleu", "band"),
    [
        (1.0, "low"),
        (0.5, "low"),
        (0.4999, "medium"),
        (0.2, "medium"),
        (0.1999, "high"),
        (0.0, "high"),
    ],
)
def test_bands_are_those_of_the_paper(bleu: float, band: str) -> None:
    assert find_band(bleu) == band


@pytest.mark.parametrize("bleu", [-0.01, 1.01, float("nan")])
def test_a_bleu_outside_0_to_1_is_refused(bleu: float) -> None:
    with pytest.raises(ValueError, match="BLEU"):
        find_band(bleu)


# ---------------------------------------------------------------------------------------- flags


@pytest.mark.parametrize(
    ("answer", "flags"),
    [
        (told("Define `add_up(rows)`: it gives the sum of 12 rows, else None."), ()),
        (told("Define add_up(rows), giving the sum of 12 rows, else None."), ()),
        (told("Define `add(rows)`: it gives the sum of 12 rows, else None."), ("lost", "added")),
        ("", ("empty", "untagged")),
        (told("  " + ORIGINAL.upper().lower()), ("identical",)),
        (told("Define `add_up(rows)`: the sum of 13 rows, else nothing."), ("lost", "added")),
        (told("`add_up(rows)` sums 12."), ("length",)),
        (
            told("Define `add_up(rows)`, of 12:\ndef total(rows):\n    return sum(rows) or None"),
            ("code",),
        ),
    ],
)
def test_what_may_be_wrong_is_flagged(answer: str, flags: tuple[str, ...]) -> None:
    assert score_paraphrase(answer, ORIGINAL).flags == flags


def test_low_similarity_is_flagged_only_where_a_least_is_given() -> None:
    answer = told("Define `add_up(rows)`: it gives the sum of 12 rows, else None.")
    assert score_paraphrase(answer, ORIGINAL, 0.3).flags == ()
    assert score_paraphrase(answer, ORIGINAL, 0.3, 0.8).flags == ("dissimilar",)
    assert score_paraphrase(answer, ORIGINAL, 0.9, 0.8).flags == ()
    assert score_paraphrase(answer, ORIGINAL, 0.9).similarity == 0.9


def test_an_empty_answer_has_no_band_and_bleu_0() -> None:
    scored = score_paraphrase(told(" "), ORIGINAL)
    assert (scored.text, scored.band, scored.bleu, scored.flags) == ("", None, 0.0, ("empty",))


def test_flags_come_in_one_order() -> None:
    flags = score_paraphrase("<reworded>def f(x):\n    return 99", ORIGINAL).flags
    assert list(flags) == [flag for flag in FLAGS if flag in flags]
    assert {"unclosed", "lost", "added", "code"} <= set(flags)


def test_an_answer_that_repeats_the_request_s_tags_is_read_to_the_paraphrase() -> None:
    echo = "The reworded request, between <reworded> and </reworded>:"
    text = "Create a list of three numbers."
    assert read_answer(f"{echo}\n<reworded>{text}</reworded>") == (text, ())
    assert read_answer(f"{echo}\n<reworded>{text}") == (text, ("unclosed",))
