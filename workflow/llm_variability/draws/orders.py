"""What is asked of a server: a draw to be made."""

from __future__ import annotations

from dataclasses import dataclass

from llm_variability.draws.templates import Messages


@dataclass(frozen=True)
class Order:
    """A draw to be made: its name, its seed and its messages.

    tokens: the token ids that the messages render to, where we render them (on our own engine);
    then these are what is asked for, so that what was checked is what is drawn from.
    """

    prompt_id: str
    replicate: int
    seed: int
    messages: Messages
    tokens: tuple[int, ...] | None = None
