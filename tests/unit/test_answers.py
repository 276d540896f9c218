"""What is measured of an answer, and the seed of each draw."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.draws.answers import Answer, classify_answer, split_reasoning
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


# ------------------------------------------------------------------------------------ reasoning

THINK = {
    "closed": ("<think>\nhm\n</think>\n\nA story.", "hm", "\n\nA story."),
    "closed, opened by the prompt": ("hm\n</think>\n\nA story.", "hm", "\n\nA story."),
    "cut in thought": ("<think>hm, a", "hm, a", None),
    "nothing after the thought": ("<think>hm</think>\n", "hm", None),
    "an empty thought": ("<think>\n\n</think>\n\nA story.", None, "\n\nA story."),
    "an empty thought and nothing else": ("<think></think>", None, ""),
    "two thoughts": ("<think>a</think>x<think>b</think>y", "a\n\nb", "xy"),
    "a second thought cut": ("<think>a</think>x<think>b", "a\n\nb", "x"),
    "none": ("A story.", None, "A story."),
    "nothing at all": ("", None, ""),
}


@pytest.mark.parametrize("case", THINK)
def test_thoughts_are_told_from_the_answer(case: str) -> None:
    raw, reasoning, final = THINK[case]
    assert split_reasoning(raw, "think") == Answer(reasoning, final)


def test_a_thought_that_the_prompt_opened_and_nothing_closed_is_no_answer() -> None:
    assert split_reasoning("hm, a story", "think", opened=True) == Answer("hm, a story", None)


# The format's special tokens, as the harmony format's published description has them.
HARMONY = {
    "analysis, then final": (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"
        "A story.<|return|>",
        "hm",
        "A story.",
    ),
    "cut in the answer": (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>A st",
        "hm",
        "A st",
    ),
    "cut in analysis": ("<|channel|>analysis<|message|>hm, a", "hm, a", None),
    "cut in a header": (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>fin",
        "hm",
        None,
    ),
    "final at once": ("<|channel|>final<|message|>A story.<|return|>", None, "A story."),
    "a preamble in commentary": (
        "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant<|channel|>final"
        "<|message|>A story.",
        "Let me see.",
        "A story.",
    ),
    "a call of a tool": (
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>",
        "{}",
        None,
    ),
    "a final that is addressed to a tool": (
        "<|channel|>final to=functions.f<|message|>{}<|call|>",
        "{}",
        None,
    ),
    "an answer that talks of final": (
        "<|channel|>analysis<|message|>the final word<|end|><|start|>assistant<|channel|>final"
        "<|message|>My assistant: final.",
        "the final word",
        "My assistant: final.",
    ),
    "marks taken out": ("analysishm, hmassistantfinalA story.", "hm, hm", "A story."),
    "marks taken out, cut in analysis": ("analysisWe need", "We need", None),
    "marks taken out, with a preamble": (
        "analysisaassistantcommentarybassistantfinalc",
        "a\n\nb",
        "c",
    ),
    "already told apart by the server": ("A story.", None, "A story."),
    "an end mark alone": ("A story.<|return|>", None, "A story."),
}


@pytest.mark.parametrize("case", HARMONY)
def test_the_channels_of_the_harmony_format_are_told_apart(case: str) -> None:
    raw, reasoning, final = HARMONY[case]
    assert split_reasoning(raw, "harmony") == Answer(reasoning, final)


def test_what_the_server_told_apart_stays_so() -> None:
    told = split_reasoning("analysis of a story", "harmony", reasoning="hm")
    assert told == Answer("hm", "analysis of a story")


@pytest.mark.parametrize("form", ["none", "think", "harmony"])
def test_no_content_is_no_answer(form: str) -> None:
    assert split_reasoning(None, form, reasoning="hm") == Answer("hm", None)


@given(st.text())
def test_without_a_form_everything_is_the_answer(raw: str) -> None:
    assert split_reasoning(raw, "none") == Answer(None, raw)


PLAIN = st.text().filter(lambda text: "think>" not in text and "<|" not in text)


@given(PLAIN, PLAIN.filter(str.strip))
def test_an_answer_comes_back_whole_from_both_formats(thought: str, final: str) -> None:
    think = split_reasoning(f"<think>{thought}</think>{final}", "think")
    raw = (
        f"<|channel|>analysis<|message|>{thought}<|end|><|start|>assistant"
        f"<|channel|>final<|message|>{final}<|return|>"
    )
    assert think == split_reasoning(raw, "harmony") == Answer(thought.strip() or None, final)
