"""What names a prompt."""

from __future__ import annotations

import hashlib


def prompt_id(system: str | None, prompt: str) -> str:
    """Name a prompt by its content: 16 hexadecimal digits (blake2b-64 of system and prompt).

    A changed word gives another id, so no draw of the old wording is taken for one of the new.
    """
    text = "\0" if system is None else f"{system}\1"
    return hashlib.blake2b(f"{text}{prompt}".encode(), digest_size=8).hexdigest()
