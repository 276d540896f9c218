"""What an endpoint has cost, over all cells, jobs and runs of a results folder, and what it may.

A model's ledger is an append-only file of JSON lines:

    {"reserve": ID, "prompt": 300, "completion": 2048, "money": "0.01", "until": ..., ...}
    {"settle": ID, "prompt": 41, "completion": 97, "money": "0.0004"}
    {"settle": ID, "why": "no reply before the deadline (request_timeout_s)"}

A request's worst case is reserved, on disk, before it is sent; what the reply says it used takes
its place. Where nobody knows what a request cost (no reply, a broken one, a job that died), the
reservation stays as spent: the endpoint may well have done, and billed, all that was asked. So the
sum of the file is never below what was spent, as long as an endpoint keeps to the answer's bound.

Jobs share the file under a lock on `NAME.lock` beside it, which the kernel drops with its holder.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import psutil

from llm_variability.config import Budget
from llm_variability.devices.processes import ProcessId

log = logging.getLogger(__name__)

_PATIENCE_S = 60.0
_GRACE_S = 30.0
_COMPACT_ABOVE_BYTES = 4 * 2**20
_TOKENS_OF_A_TEMPLATE = 256
_TOKENS_OF_A_TURN = 16
_PRICED_TOKENS = 1_000_000


class Usage(NamedTuple):
    """Tokens of a request: of its prompt and of its answer."""

    prompt: int
    completion: int

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion


NOTHING = Usage(0, 0)


class BudgetSpent(ValueError):
    """The next request could pass the budget.

    key: `tokens` or `money`, the one to raise. need: the request's worst case.
    """

    def __init__(self, key: str, need: Usage, text: str) -> None:
        super().__init__(text)
        self.key, self.need = key, need


def bound_usage(messages: Sequence[Mapping[str, str]], max_new_tokens: int) -> Usage:
    """Bound the tokens of a request from above, without its tokenizer.

    A token of a byte-level vocabulary stands for at least one byte, so a text has at most as many
    tokens as UTF-8 bytes; 16 tokens a turn and 256 more are for what the chat template adds.
    """
    text = sum(len(turn["role"].encode()) + len(turn["content"].encode()) for turn in messages)
    frames = _TOKENS_OF_A_TURN * len(messages) + _TOKENS_OF_A_TEMPLATE
    return Usage(text + frames, max_new_tokens)


def price_usage(usage: Usage, budget: Budget | None) -> Decimal | None:
    """Price a usage, exactly; None without prices."""
    if budget is None or budget.prompt_price is None or budget.completion_price is None:
        return None
    prices = Decimal(str(budget.prompt_price)), Decimal(str(budget.completion_price))
    return (prices[0] * usage.prompt + prices[1] * usage.completion) / _PRICED_TOKENS


class Reservation(NamedTuple):
    """What is set aside for a request in flight.

    base: its bound before what the endpoint was seen to use beyond such bounds. until: when, in
    seconds of the epoch, it can be in flight no longer.
    """

    name: str
    usage: Usage
    base: Usage
    money: Decimal | None
    until: float
    host: str
    process: ProcessId

    @property
    def is_live(self) -> bool:
        """Whether its job may still settle it."""
        if time.time() > self.until:
            return False
        return self.host != platform.node() or self.process.alive


@dataclass
class Spending:
    """What requests came to. unknown: how many kept their reservation.

    money: of the requests that had prices; unpriced: the tokens of those that had none.
    """

    usage: Usage = NOTHING
    money: Decimal = Decimal(0)
    unpriced: Usage = NOTHING
    requests: int = 0
    unknown: int = 0

    def add(self, usage: Usage, money: Decimal | None, unknown: bool) -> None:
        """Count one more request."""
        self._shift(usage, money, unknown, 1)

    def take_back(self, usage: Usage, money: Decimal | None, unknown: bool) -> None:
        """Undo `add`."""
        self._shift(usage, money, unknown, -1)

    def _shift(self, usage: Usage, money: Decimal | None, unknown: bool, sign: int) -> None:
        signed = Usage(sign * usage.prompt, sign * usage.completion)
        self.usage = _sum(self.usage, signed)
        if money is None:
            self.unpriced = _sum(self.unpriced, signed)
        else:
            self.money += sign * money
        self.requests += sign
        self.unknown += sign * unknown

    def total_money(self, budget: Budget | None) -> Decimal:
        """Give the money, that of requests made without prices by those of today."""
        return self.money + (price_usage(self.unpriced, budget) or 0)


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(one.prompt + other.prompt, one.completion + other.completion)


def _money(record: Mapping[str, Any]) -> Decimal | None:
    return None if record.get("money") is None else Decimal(record["money"])


@dataclass
class Account:
    """What the lines of a ledger come to: everything, with what is open at its worst.

    excess: most tokens used beyond a request's bound.
    """

    sums: Spending = field(default_factory=Spending)
    open: dict[str, Reservation] = field(default_factory=dict)
    excess: Usage = NOTHING

    def apply(self, record: Mapping[str, Any]) -> None:
        if "reserve" in record:
            self._open(record)
        elif "settle" in record:
            self._settle(record)
        else:
            self._carry(record["total"])

    def _open(self, record: Mapping[str, Any]) -> None:
        usage = Usage(record["prompt"], record["completion"])
        held = Reservation(
            record["reserve"],
            usage,
            Usage(*record.get("base", usage)),
            _money(record),
            record["until"],
            record["host"],
            ProcessId(*record["process"]),
        )
        self.open[held.name] = held
        self.sums.add(held.usage, held.money, unknown=True)

    def _settle(self, record: Mapping[str, Any]) -> None:
        held = self.open.pop(record["settle"], None)
        if "why" in record:
            return
        usage = Usage(record["prompt"], record["completion"])
        self.sums.add(usage, _money(record), unknown=False)
        if held is not None:
            self.sums.take_back(held.usage, held.money, unknown=True)
            self.excess = Usage(
                max(self.excess.prompt, usage.prompt - held.base.prompt),
                max(self.excess.completion, usage.completion - held.base.completion),
            )

    def _carry(self, total: Mapping[str, Any]) -> None:
        self.sums = Spending(
            Usage(*total["usage"]),
            Decimal(total["money"]),
            Usage(*total["unpriced"]),
            total["requests"],
            total["unknown"],
        )
        self.excess = Usage(*total["excess"])

    def without_live(self) -> Spending:
        """Sum all but the requests that are still in flight."""
        sums = replace(self.sums)
        for held in self.open.values():
            if held.is_live:
                sums.take_back(held.usage, held.money, unknown=True)
        return sums

    def compact(self) -> Iterator[dict[str, Any]]:
        """Write the account in the fewest records: a sum, and what is in flight."""
        sums = self.without_live()
        yield {
            "total": {
                "usage": sums.usage,
                "money": str(sums.money),
                "unpriced": sums.unpriced,
                "requests": sums.requests,
                "unknown": sums.unknown,
                "excess": self.excess,
            }
        }
        for held in self.open.values():
            if held.is_live:
                yield _reserve_record(held)


def _reserve_record(held: Reservation) -> dict[str, Any]:
    return {
        "reserve": held.name,
        "prompt": held.usage.prompt,
        "completion": held.usage.completion,
        **({"base": held.base} if held.base != held.usage else {}),
        **({"money": str(held.money)} if held.money is not None else {}),
        "until": round(held.until, 1),
        "host": held.host,
        "process": [held.process.pid, held.process.created],
    }


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"


class Ledger:
    """A model's ledger, shared with other threads, jobs and runs. Use as a context manager.

    budget: None only records. Raises ValueError for a damaged file, OSError if the lock cannot be
    had within a minute.
    """

    def __init__(self, path: Path, budget: Budget | None) -> None:
        self.path, self.budget = path, budget
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = path.with_suffix(".lock").open("ab")
        self._threads = threading.Lock()
        self._host = platform.node()
        self._process = ProcessId.of(psutil.Process())
        self._account, self._read_to, self._inode = Account(), 0, -1
        try:
            with self._locked():
                if self._read_to > _COMPACT_ABOVE_BYTES:
                    self._compact()
        except BaseException:
            self._lock.close()
            raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._threads:
            deadline = time.monotonic() + _PATIENCE_S
            while True:
                try:
                    fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise OSError(f"{self.path}: another job keeps it locked") from None
                    time.sleep(0.002)
            try:
                self._catch_up()
                yield
            finally:
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _catch_up(self) -> None:
        """Read what others wrote; cut off a last line that a crash left unfinished."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._account, self._read_to, self._inode = Account(), 0, -1
            return
        if status.st_ino != self._inode or status.st_size < self._read_to:
            self._account, self._read_to, self._inode = Account(), 0, status.st_ino
        if status.st_size == self._read_to:
            return
        with self.path.open("rb") as file:
            file.seek(self._read_to)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        for line in whole.splitlines():
            try:
                self._account.apply(json.loads(line))
            except (ValueError, TypeError, KeyError, ArithmeticError) as error:
                raise ValueError(
                    f"{self.path}: the line {line[:60]!r} is damaged; mend it, or move the file"
                    " away and lower the budget by what was spent"
                ) from error
        self._read_to += len(whole)
        if len(whole) < len(content):
            os.truncate(self.path, self._read_to)

    def _append(self, record: Mapping[str, Any], durable: bool) -> None:
        line = _line(record)
        with self.path.open("ab") as file:
            file.write(line)
            file.flush()
            if durable:
                os.fsync(file.fileno())
            self._inode = os.fstat(file.fileno()).st_ino
        self._account.apply(record)
        self._read_to += len(line)

    def _compact(self) -> None:
        """Replace the requests that have ended by their sum."""
        records = list(self._account.compact())
        written = self.path.with_suffix(".tmp")
        with written.open("wb") as file:
            file.writelines(map(_line, records))
            file.flush()
            os.fsync(file.fileno())
        written.rename(self.path)
        self._inode = -1
        self._catch_up()

    def _passed(self, sums: Spending, need: Usage) -> str | None:
        """Name the bound that these sums and one more request would pass, or None."""
        budget = self.budget
        if budget is None:
            return None
        if budget.tokens is not None and sums.usage.tokens + need.tokens > budget.tokens:
            return "tokens"
        if budget.money is not None:
            after = sums.total_money(budget) + (price_usage(need, budget) or 0)
            if after > Decimal(str(budget.money)):
                return "money"
        return None

    def reserve(self, bound: Usage, timeout_s: float) -> Reservation | None:
        """Set a request's worst case aside, on disk.

        bound: see `bound_usage`. timeout_s: after which the request is in flight no longer.
        Returns None while requests in flight hold what it needs: ask again. Raises BudgetSpent if
        what is spent leaves no room for it.
        """
        with self._locked():
            account = self._account
            need = _sum(bound, account.excess)
            if self._passed(account.sums, need):
                spent = account.without_live()
                if key := self._passed(spent, need):
                    raise BudgetSpent(key, need, self._tell_spent(key, spent, need))
                return None
            held = Reservation(
                uuid.uuid4().hex[:16],
                need,
                bound,
                price_usage(need, self.budget),
                time.time() + timeout_s + _GRACE_S,
                self._host,
                self._process,
            )
            self._append(_reserve_record(held), durable=self.budget is not None)
            return held

    def settle(self, held: Reservation, usage: Usage | None, why: str) -> None:
        """Replace a reservation by what was used, or keep it as spent.

        usage: None if nobody knows; `why` then says why.
        """
        record: dict[str, Any] = {"settle": held.name}
        if usage is None:
            record["why"] = why
        else:
            record |= {"prompt": usage.prompt, "completion": usage.completion}
            money = price_usage(usage, self.budget)
            if money is not None:
                record["money"] = str(money)
        with self._locked():
            before = self._account.excess
            self._append(record, durable=False)
        if usage is not None and self._account.excess != before:
            log.warning(
                "%s: a request took %d + %d tokens (prompt + answer) where at most %d + %d were"
                " reckoned with; the next are reckoned higher",
                self.path.stem,
                *usage,
                *held.base,
            )

    def spending(self) -> Spending:
        """Sum everything, with what is in flight, and what nobody knows, at its worst."""
        with self._locked():
            return replace(self._account.sums)

    def tell(self) -> str:
        """Say in words what was spent so far."""
        sums, budget = self.spending(), self.budget
        told = f"{sums.usage.tokens:,}"
        if budget is not None and budget.tokens is not None:
            told += f" of {budget.tokens:,}"
        told += " tokens"
        if budget is not None and price_usage(NOTHING, budget) is not None:
            told += f" and {sums.total_money(budget):,.4f}"
            told += f" of {budget.money:,.4f}" if budget.money is not None else ""
            told += " in money"
        return f"{told} spent in {sums.requests:,} requests{_unknown(sums)}"

    def retell(self, error: BudgetSpent) -> BudgetSpent:
        """Say again that the budget is spent, with what has been settled since."""
        with self._locked():
            spent = self._account.without_live()
        return BudgetSpent(error.key, error.need, self._tell_spent(error.key, spent, error.need))

    def _tell_spent(self, key: str, spent: Spending, need: Usage) -> str:
        assert self.budget is not None
        if key == "tokens":
            amounts = f"{spent.usage.tokens:,} of {self.budget.tokens:,} tokens"
            more = f"{need.tokens:,}"
        else:
            amounts = f"{spent.total_money(self.budget):,.4f} of {self.budget.money:,.4f} in money"
            more = f"{price_usage(need, self.budget):,.4f}"
        return (
            f"{amounts} are spent{_unknown(spent)}, and the next request may take {more}:"
            " raise it to go on"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.close()


def _unknown(sums: Spending) -> str:
    if not sums.unknown:
        return ""
    return f" (with the worst case of {sums.unknown:,} whose cost is not known)"
