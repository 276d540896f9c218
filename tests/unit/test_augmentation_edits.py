"""Edits by offset, the count that a rate asks for, random streams, the frame around a prompt."""

from __future__ import annotations

import itertools
from collections import Counter
from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_variability.augmentation.edits import (
    Edit,
    Unit,
    apply_edits,
    count_asked,
    edit_units,
    stream_seed,
)
from llm_variability.config_code import Frame

RATES = st.integers(0, 100).map(lambda percent: percent / 100)
SEEDS = st.integers(0, 2**64 - 1)
DIGITS = "0123456789"


def each_digit(text: str) -> list[Unit]:
    """Every digit may become either of the two that follow it."""
    return [
        Unit(i, c, [DIGITS[(int(c) + 1) % 10], DIGITS[(int(c) + 2) % 10]])
        for i, c in enumerate(text)
        if c in DIGITS
    ]


@settings(deadline=None)
@given(rate=RATES, eligible=st.integers(0, 5000))
def test_the_count_is_the_exact_product_rounded_half_to_even(rate: float, eligible: int) -> None:
    product = Decimal(str(rate)) * eligible
    assert count_asked(rate, eligible) == int(product.quantize(Decimal(1), ROUND_HALF_EVEN))


@pytest.mark.parametrize(
    ("rate", "eligible", "asked"),
    [(0.7, 45, 32), (0.07, 150, 10), (0.1, 25, 2), (0.3, 25, 8), (0.5, 3, 2)],
)
def test_counts_worked_out_by_hand(rate: float, eligible: int, asked: int) -> None:
    assert count_asked(rate, eligible) == asked


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_outside_0_to_1_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate: .* is not between 0 and 1"):
        count_asked(rate, 10)


def test_edits_are_made_at_their_offsets() -> None:
    edits = [Edit(0, "one", "1"), Edit(8, "three", "thirty-three")]
    assert apply_edits("one two three.", edits) == "1 two thirty-three."


@pytest.mark.parametrize(
    "edits", [[Edit(1, "one", "1")], [Edit(0, "one t", "x"), Edit(4, "two", "y")]]
)
def test_an_edit_that_does_not_fit_is_refused(edits: list[Edit]) -> None:
    with pytest.raises(ValueError, match="is not what stands there"):
        apply_edits("one two three.", edits)


@settings(deadline=None)
@given(text=st.text(alphabet=DIGITS + " \n\té~", max_size=60), rate=RATES, seed=SEEDS)
def test_the_account_is_exact_and_the_rest_stays_as_it_is(
    text: str, rate: float, seed: int
) -> None:
    units = each_digit(text)
    result = edit_units(text, "character", units, len(units), rate, seed)
    assert result.edited == result.asked == count_asked(rate, len(units))
    assert result.edits is not None
    assert len(result.edits) == result.edited
    assert len({edit.start for edit in result.edits}) == result.edited
    changed = {i for i, (old, new) in enumerate(zip(text, result.text, strict=True)) if old != new}
    assert changed == {edit.start for edit in result.edits}
    back = [Edit(edit.start, edit.after, edit.before) for edit in result.edits]
    assert apply_edits(result.text, back).encode() == text.encode()


@settings(deadline=None)
@given(text=st.text(max_size=60), seed=SEEDS)
def test_rate_0_is_byte_identical(text: str, seed: int) -> None:
    result = edit_units(text, "character", each_digit(text), 60, 0.0, seed)
    assert result.text == text
    assert result.edits == ()
    assert result.realised == 0


@settings(deadline=None)
@given(text=st.text(alphabet=DIGITS + " ", max_size=60), low=RATES, high=RATES, seed=SEEDS)
def test_with_one_seed_the_edits_of_a_lower_rate_are_among_those_of_a_higher_one(
    text: str, low: float, high: float, seed: int
) -> None:
    units = each_digit(text)
    few, many = (
        edit_units(text, "character", units, len(units), rate, seed).edits or ()
        for rate in sorted((low, high))
    )
    assert set(few) <= set(many)


def test_fewer_replaceable_units_than_asked_show_in_the_realised_rate() -> None:
    result = edit_units("1 two three 4", "word", each_digit("1 two three 4"), 4, 0.75, 7)
    assert (result.asked, result.replaceable, result.edited) == (3, 2, 2)
    assert result.realised == 0.5
    assert result.nominal == 0.75


def test_a_text_without_eligible_units_has_realised_rate_0() -> None:
    assert edit_units("...", "character", [], 0, 1.0, 7).realised == 0.0


def test_every_unit_and_every_replacement_is_equally_likely() -> None:
    units = each_digit("0123456789")
    counts: Counter[tuple[int, str]] = Counter()
    for seed in range(4000):
        result = edit_units("0123456789", "character", units, 10, 0.3, seed)
        counts.update((edit.start, edit.after) for edit in result.edits or ())
    # 4000 x 3 edits over 20 outcomes: 600 each, SD 22.6 (binomial, 4000 draws of 0.15).
    assert len(counts) == 20
    assert max(abs(count - 600) for count in counts.values()) < 4.5 * 22.6


def test_each_part_of_the_name_gives_another_stream() -> None:
    names = itertools.product((1, 2), ("a", "b"), ("keyboard", "synonym"), (0.1, 0.2), (0, 1))
    seeds = [stream_seed(*name) for name in names]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_spellings_of_a_rate_share_a_stream_and_nested_rates_too() -> None:
    assert stream_seed(1, "p", "m", 0.1, 0) == stream_seed(1, "p", "m", "0.10", 0)
    nested = {stream_seed(1, "p", "m", rate, 0, nested=True) for rate in (0.1, 0.2, 1)}
    assert len(nested) == 1
    assert nested != {stream_seed(1, "p", "m", rate, 1, nested=True) for rate in (0.1, 0.2, 1)}


@settings(deadline=None)
@given(prefix=st.text(), text=st.text(min_size=1), postfix=st.text())
def test_a_frame_leaves_the_text_as_it_is(prefix: str, text: str, postfix: str) -> None:
    whole = Frame(prefix=prefix, postfix=postfix).wrap(text)
    assert text in whole
    assert whole.startswith(prefix)
    assert whole.endswith(postfix)
    assert Frame().wrap(text) == text
