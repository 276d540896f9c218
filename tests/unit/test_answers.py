"""What is measured of an answer, and the seed of each draw."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.draws.answers import classify_answer
from llm_variability.draws.seeds import draw_seed
from llm_variability.tables import STATUSES

ANSWERS = {
    "whole answer": (("A story.", "stop", None), ("A story.", "ok")),
    "answer in white space": (("\n\n A story.\t", "stop", None), ("A story.", "ok")),
    "answer with lines": (("A\n\nB", "stop", None), ("A\n\nB", "ok")),
    "cut answer": (("A sto", "length", None), ("A sto", "truncated")),
    "nothing": (("", "stop", None), (None, "empty")),
    "only white space": ((" \n\t\u00a0", "stop", None), (None, "empty")),
    "cut before any text": (("\n", "length", None), (None, "empty")),
    "no content": ((None, "stop", None), (None, "no_answer")),
    "no content, cut": ((None, "length", None), (None, "no_answer")),
    "refused": ((None, None, "HTTP 400: too long"), (None, "error")),
    "no finish reason": (("A story.", None, None), ("A story.", "ok")),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_has_its_text_and_status(case: str) -> None:
    (raw, finish_reason, error), expected = ANSWERS[case]
    assert classify_answer(raw, finish_reason, error) == expected


def test_every_status_occurs_among_the_cases() -> None:
    assert {status for _, (_, status) in ANSWERS.values()} == set(STATUSES)


@given(
    st.none() | st.text(),
    st.none() | st.sampled_from(["stop", "length"]),
    st.none() | st.text(min_size=1),
)
def test_an_answer_is_measured_if_and_only_if_it_has_text(
    raw: str | None, finish_reason: str | None, error: str | None
) -> None:
    text, status = classify_answer(raw, finish_reason, error)
    assert (status in ("ok", "truncated")) == bool(text)


@given(st.integers(0, 2**63 - 1), st.text(max_size=20), st.integers(0, 10**6))
def test_a_seed_is_a_number_that_a_signed_64_bit_column_holds(
    study: int, prompt: str, replicate: int
) -> None:
    assert 0 <= draw_seed(study, prompt, replicate) < 2**63


def test_a_hundred_thousand_draws_have_as_many_seeds() -> None:
    seeds = {draw_seed(1, f"{p:016x}", r) for p in range(100) for r in range(1000)}
    assert len(seeds) == 100_000


def test_prompts_have_unrelated_seeds_at_the_same_replicate() -> None:
    # A common shift or common low bits would let two prompts share random streams.
    differences = {draw_seed(1, "a", r) - draw_seed(1, "b", r) for r in range(1000)}
    assert len(differences) == 1000


def test_a_seed_is_the_upper_63_bits_of_a_hash_of_study_prompt_and_number() -> None:
    digest = hashlib.blake2b(b"7/0123456789abcdef/3", digest_size=8).digest()
    assert draw_seed(7, "0123456789abcdef", 3) == int.from_bytes(digest, "big") // 2


@pytest.mark.parametrize("other", [(2, "a", 0), (1, "b", 0), (1, "a", 1)])
def test_another_study_seed_prompt_or_number_gives_another_seed(
    other: tuple[int, str, int],
) -> None:
    assert draw_seed(*other) != draw_seed(1, "a", 0)
