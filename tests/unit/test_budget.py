"""The ledger: never above the budget, whoever spends, and nothing forgotten however a job ends."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_variability.config import Budget
from llm_variability.draws import budget as budget_module
from llm_variability.draws.budget import (
    BudgetSpent,
    Ledger,
    Reservation,
    Usage,
    bound_usage,
    price_usage,
)

MONEY = {"money": 1.0, "prompt_price": 2.5, "completion_price": 10.0}


def tokens(limit: int) -> Budget:
    return Budget(tokens=limit)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spending" / "m.jsonl"


def reserve(ledger: Ledger, prompt: int, completion: int, timeout_s: float = 60) -> Reservation:
    held = ledger.reserve(Usage(prompt, completion), timeout_s)
    assert held is not None
    return held


def total_of(path: Path) -> int:
    """Sum the tokens of a ledger's lines, by another way than the ledger's own."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    amounts = {r["reserve"]: r["prompt"] + r["completion"] for r in records if "reserve" in r}
    for record in records:
        if "settle" in record and "prompt" in record:
            amounts[record["settle"]] = record["prompt"] + record["completion"]
    return sum(amounts.values())


# --------------------------------------------------------------------------- bounds and prices


def test_a_price_is_exact() -> None:
    # 123 tokens at 2.5 and 4,567 at 10 by a million: .0003075 + .04567.
    assert price_usage(Usage(123, 4567), Budget(**MONEY)) == Decimal("0.0459775")


def test_ten_tenths_of_a_budget_are_the_budget(path: Path) -> None:
    # In floats ten times .1 is below 1, and three times .1 above .3.
    prices = Budget(money=0.3, prompt_price=0.1, completion_price=0.1)
    with Ledger(path, prices) as ledger:
        for _ in range(3):
            reserve(ledger, 0, 1_000_000)
        assert ledger.spending().money == Decimal("0.3")


@given(st.lists(st.text(max_size=40), min_size=1, max_size=3))
def test_a_bound_has_a_token_for_each_byte_and_room_for_the_template(texts: list[str]) -> None:
    turns = [{"role": "user", "content": text} for text in texts]
    bound = bound_usage(turns, 100)
    assert bound.prompt >= sum(len(text.encode()) for text in texts) + 256
    assert bound.completion == 100


# -------------------------------------------------------------------------------------- limits


def test_what_just_fits_is_let_through(path: Path) -> None:
    with Ledger(path, tokens(100)) as ledger:
        reserve(ledger, 40, 60)


@pytest.mark.parametrize(
    ("limit", "key"),
    [(tokens(99), "tokens"), (Budget(**{**MONEY, "money": 0.0006}), "money")],
)
def test_what_does_not_fit_is_told_with_the_key_to_raise(
    limit: Budget, key: str, path: Path
) -> None:
    with Ledger(path, limit) as ledger, pytest.raises(BudgetSpent) as raised:
        ledger.reserve(Usage(40, 60), 60)
    assert raised.value.key == key


def test_the_tighter_of_two_bounds_counts(path: Path) -> None:
    both = Budget(tokens=1000, **{**MONEY, "money": 0.0006})
    with Ledger(path, both) as ledger, pytest.raises(BudgetSpent) as raised:
        ledger.reserve(Usage(40, 60), 60)
    assert raised.value.key == "money"


def test_the_line_says_what_is_spent_of_what_and_what_is_asked(path: Path) -> None:
    with Ledger(path, tokens(2500)) as ledger:
        ledger.settle(reserve(ledger, 500, 1000), Usage(234, 1000), "")
        ledger.settle(reserve(ledger, 100, 100), None, "no reply")
        with pytest.raises(BudgetSpent) as raised:
            ledger.reserve(Usage(100, 1000), 60)
    assert str(raised.value) == (
        "1,434 of 2,500 tokens are spent (with the worst case of 1 whose cost is not known), and"
        " the next request may take 1,100: raise it to go on"
    )


def test_what_was_not_used_is_free_again(path: Path) -> None:
    with Ledger(path, tokens(100)) as ledger:
        for _ in range(5):
            ledger.settle(reserve(ledger, 40, 40), Usage(1, 2), "")
        assert ledger.spending().usage == Usage(5, 10)


def test_a_request_whose_cost_nobody_knows_stays_spent(path: Path) -> None:
    with Ledger(path, tokens(100)) as ledger:
        ledger.settle(reserve(ledger, 40, 20), None, "no reply")
        with pytest.raises(BudgetSpent):
            ledger.reserve(Usage(40, 20), 60)
    assert json.loads(path.read_text().splitlines()[-1])["why"] == "no reply"


def test_what_others_have_in_flight_is_waited_for(path: Path) -> None:
    with Ledger(path, tokens(100)) as one, Ledger(path, tokens(100)) as other:
        held = reserve(one, 40, 20)
        assert other.reserve(Usage(40, 20), 60) is None
        one.settle(held, Usage(4, 2), "")
        assert other.reserve(Usage(40, 20), 60) is not None


def test_what_can_never_fit_is_not_waited_for(path: Path) -> None:
    with Ledger(path, tokens(100)) as ledger:
        reserve(ledger, 40, 20)
        with pytest.raises(BudgetSpent):
            ledger.reserve(Usage(101, 0), 60)


def test_a_request_past_its_deadline_is_waited_for_no_longer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(path, tokens(100)) as ledger:
        reserve(ledger, 40, 20, timeout_s=5)
        later = time.time() + 100
        monkeypatch.setattr(budget_module.time, "time", lambda: later)
        with pytest.raises(BudgetSpent, match="60 of 100 tokens"):
            ledger.reserve(Usage(40, 20), 60)


def test_without_a_budget_spending_is_recorded_and_counts_for_one_set_later(path: Path) -> None:
    with Ledger(path, None) as ledger:
        ledger.settle(reserve(ledger, 10**6, 10**6), Usage(200_000, 50_000), "")
    with Ledger(path, Budget(**MONEY)) as ledger:  # .2 x 2.5 + .05 x 10
        assert ledger.spending().total_money(ledger.budget) == 1
        with pytest.raises(BudgetSpent, match=r"1\.0000 of 1\.0000 in money"):
            ledger.reserve(Usage(1, 1), 60)


def test_a_changed_price_leaves_what_was_paid(path: Path) -> None:
    with Ledger(path, Budget(**MONEY)) as ledger:
        ledger.settle(reserve(ledger, 1000, 1000), Usage(1000, 1000), "")
    with Ledger(path, Budget(money=1, prompt_price=0, completion_price=0)) as ledger:
        assert ledger.spending().total_money(ledger.budget) == Decimal("0.0125")


def test_an_answer_beyond_its_bound_is_booked_told_and_reckoned_with(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Ledger(path, tokens(939)) as ledger:
        ledger.settle(reserve(ledger, 100, 50), Usage(120, 350), "")
        assert "took 120 + 350 tokens (prompt + answer) where at most 100 + 50" in caplog.text
        with pytest.raises(BudgetSpent, match="470 of 939 tokens .* may take 470"):
            ledger.reserve(Usage(100, 50), 60)
        assert reserve(ledger, 99, 50).usage == Usage(119, 350)


# -------------------------------------------------------------------------------- crashes, files


def test_another_run_goes_on_with_what_was_spent(path: Path) -> None:
    with Ledger(path, tokens(100)) as ledger:
        ledger.settle(reserve(ledger, 40, 60), Usage(40, 20), "")
    with Ledger(path, tokens(100)) as ledger:
        assert ledger.spending().usage.tokens == 60


def test_a_line_that_a_crash_cut_off_is_dropped(path: Path) -> None:
    with Ledger(path, tokens(100)) as ledger:
        held = reserve(ledger, 40, 20)
        with path.open("ab") as file:
            file.write(b'{"settle": "')
        ledger.settle(held, Usage(1, 1), "")
    assert total_of(path) == 2


def test_a_damaged_line_stops_and_is_told(path: Path) -> None:
    with Ledger(path, tokens(100)) as ledger:
        reserve(ledger, 40, 20)
    path.write_text("garbage\n" + path.read_text())
    with pytest.raises(ValueError, match=r"m\.jsonl: the line b'garbage' is damaged; mend it"):
        Ledger(path, tokens(100))


def spend_and_die(path: Path) -> None:
    ledger = Ledger(path, tokens(1000))
    ledger.settle(reserve(ledger, 100, 100), Usage(10, 20), "")
    reserve(ledger, 100, 150)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_job_that_is_killed_in_flight_leaves_its_worst_case_spent(path: Path) -> None:
    job = multiprocessing.get_context("fork").Process(target=spend_and_die, args=(path,))
    job.start()
    job.join(60)
    assert job.exitcode == -signal.SIGKILL
    with Ledger(path, tokens(1000)) as ledger:
        assert ledger.spending().usage.tokens == 30 + 250
        with pytest.raises(BudgetSpent, match="280 of 1,000 tokens"):  # and not waited for
            ledger.reserve(Usage(700, 100), 60)


def test_a_long_ledger_is_made_short_and_keeps_its_sums(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger(path, Budget(**MONEY)) as ledger:
        for _ in range(50):
            ledger.settle(reserve(ledger, 100, 100), Usage(10, 20), "")
        ledger.settle(reserve(ledger, 100, 100), None, "no reply")
        open_one = reserve(ledger, 300, 100)
        before = ledger.spending()
        monkeypatch.setattr(budget_module, "_COMPACT_ABOVE_BYTES", 0)
        with Ledger(path, Budget(**MONEY)) as other:
            assert other.spending() == before
            assert len(path.read_text().splitlines()) == 2
        ledger.settle(open_one, Usage(1, 1), "")  # by a job that had the longer file open
        assert ledger.spending().usage == Usage(50 * 10 + 100 + 1, 50 * 20 + 100 + 1)


def test_a_write_that_fails_is_no_reservation(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with Ledger(path, tokens(100)) as ledger:
        monkeypatch.setattr(budget_module.os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            ledger.reserve(Usage(10, 10), 60)


# ------------------------------------------------------------------------------------ properties

STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),  # which of three jobs
        st.integers(0, 60),  # bound of the prompt
        st.integers(0, 60),  # bound of the answer
        st.floats(0, 1),  # share of it that is used
        st.sampled_from(["reserve", "settle", "settle", "lose"]),
    ),
    max_size=40,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=st.integers(1, 400), steps=STEPS)
def test_no_order_of_events_passes_the_budget(
    limit: int, steps: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "m.jsonl"
    jobs = [Ledger(path, tokens(limit)) for _ in range(3)]
    spent, in_flight = 0, []
    for number, prompt, completion, share, event in steps:
        job = jobs[number]
        if event == "reserve":
            worst = spent + sum(held.usage.tokens for _, held in in_flight)
            try:
                held = job.reserve(Usage(prompt, completion), 60)
            except BudgetSpent:
                assert spent + prompt + completion > limit
                continue
            # Let through if and only if everything at its worst leaves room for it.
            assert (held is not None) == (worst + prompt + completion <= limit)
            if held is not None:
                in_flight.append((job, held))
        elif in_flight:
            owner, held = in_flight.pop(0)
            used = Usage(int(share * held.usage.prompt), int(share * held.usage.completion))
            owner.settle(held, used if event == "settle" else None, "lost")
            spent += used.tokens if event == "settle" else held.usage.tokens
        open_ones = sum(held.usage.tokens for _, held in in_flight)
        assert jobs[0].spending().usage.tokens == spent + open_ones <= limit
        if path.exists():
            assert total_of(path) == spent + open_ones
    for job in jobs:
        job.__exit__(None, None, None)


def spend_at_random(path: Path, limit: int, seed: int, tell: Callable[[int], None]) -> None:
    """Spend until the budget ends; `tell` gets what each request really took, when it took it."""
    source = random.Random(seed)
    with Ledger(path, tokens(limit)) as ledger:
        while True:
            bound = Usage(source.randint(1, 50), source.randint(1, 200))
            try:
                held = ledger.reserve(bound, 60)
            except BudgetSpent:
                return
            if held is None:
                time.sleep(0.002)
                continue
            used = Usage(source.randint(0, bound.prompt), source.randint(0, bound.completion))
            tell(used.tokens)
            if source.random() < 0.1:
                ledger.settle(held, None, "lost")
            else:
                ledger.settle(held, used, "")


@pytest.mark.parametrize("limit", [100, 5000])
def test_threads_never_pass_the_budget_together(limit: int, path: Path) -> None:
    billed: list[int] = []
    with ThreadPoolExecutor(8) as pool:
        for work in [
            pool.submit(spend_at_random, path, limit, seed, billed.append) for seed in range(8)
        ]:
            work.result(120)
    assert sum(billed) <= total_of(path) <= limit
    assert total_of(path) > limit - 250  # and they use what there is


def spend_in_process(path: Path, limit: int, seed: int, billed: Any) -> None:
    def tell(used: int) -> None:
        with billed.get_lock():
            billed.value += used

    spend_at_random(path, limit, seed, tell)


def test_processes_never_pass_the_budget_together_though_some_are_killed(path: Path) -> None:
    fork, limit = multiprocessing.get_context("fork"), 40_000
    billed = fork.Value("q", 0)
    jobs = [
        fork.Process(target=spend_in_process, args=(path, limit, seed, billed)) for seed in range(4)
    ]
    for job in jobs:
        job.start()
    deadline = time.monotonic() + 60
    # Early, since on a busy machine they may be done before the signal comes.
    while billed.value < limit / 100 and time.monotonic() < deadline:
        time.sleep(0.001)
    with billed.get_lock():  # not while it tells, which would leave the counter locked
        os.kill(jobs[0].pid or 0, signal.SIGKILL)
    for job in jobs:
        job.join(120)
    assert [job.exitcode for job in jobs] == [-signal.SIGKILL, 0, 0, 0]
    assert limit / 10 < billed.value <= total_of(path) <= limit


def test_one_ledger_may_be_used_by_many_threads(path: Path) -> None:
    with Ledger(path, None) as ledger:

        def spend() -> None:
            for _ in range(25):
                ledger.settle(reserve(ledger, 5, 5), Usage(1, 2), "")

        threads = [threading.Thread(target=spend) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert ledger.spending().usage == Usage(100, 200)
