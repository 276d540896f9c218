"""The seed of each draw."""

from __future__ import annotations

import hashlib


def draw_seed(study_seed: int, prompt_id: str, replicate: int) -> int:
    """Derive a draw's seed, 0 <= seed < 2^63, from the study's seed, the prompt and its number.

    It depends on nothing else: draws added later leave the seeds of earlier ones alone, and the
    same draw at two temperatures starts from the same random stream.
    """
    key = f"{study_seed}/{prompt_id}/{replicate}".encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") >> 1
