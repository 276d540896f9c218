"""What endpoints have cost, read from their ledgers without taking the ledgers' lock."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from llm_variability.config import Budget, Settings
from llm_variability.draws.budget import Account


@dataclass(frozen=True)
class Spent:
    """What a model's endpoint has cost, with what is in flight at its worst.

    money: None without prices. tokens_allowed, money_allowed: the budget's; None without one.
    unknown: requests whose worst case is counted, as nobody knows (yet) what they cost.
    """

    model: str
    requests: int
    tokens: int
    money: float | None
    tokens_allowed: int | None
    money_allowed: float | None
    unknown: int


def read_spent(model: str, ledger: bytes, budget: Budget | None) -> Spent:
    """Sum a ledger's whole lines. Raises ValueError for one that is damaged."""
    account = Account()
    for line in ledger[: ledger.rfind(b"\n") + 1].splitlines():
        try:
            account.apply(json.loads(line))
        except (TypeError, KeyError, ArithmeticError) as error:
            raise ValueError(f"{model}: the ledger is damaged") from error
    sums = account.sums
    money = sums.total_money(budget)
    return Spent(
        model,
        sums.requests,
        sums.usage.tokens,
        float(money) if money else None,
        None if budget is None else budget.tokens,
        None if budget is None else budget.money,
        sums.unknown,
    )


def read_spending(settings: Settings, results: Path) -> list[Spent]:
    """Read what every endpoint with a ledger has cost; a damaged ledger is left out."""
    spent = []
    for name, model in settings.models.items():
        try:
            ledger = (results / "spending" / f"{name}.jsonl").read_bytes()
            spent.append(read_spent(name, ledger, model.budget))
        except (OSError, ValueError):
            continue
    return spent
