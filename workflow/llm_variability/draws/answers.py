"""From what a server sent to what is measured."""

from __future__ import annotations


def classify_answer(
    raw: str | None, finish_reason: str | None, error: str | None
) -> tuple[str | None, str]:
    """Tell the measured text and the status of a draw.

    raw: content as sent, None if there was none (a reasoning model that spent its tokens before
    the final answer). Returns (text, status), text stripped of surrounding white space and None
    unless the status is ok or truncated; the statuses are those of `tables.STATUSES`.
    """
    if error is not None:
        return None, "error"
    if raw is None:
        return None, "no_answer"
    text = raw.strip()
    if not text:
        return None, "empty"
    return text, "truncated" if finish_reason == "length" else "ok"
