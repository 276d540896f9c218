"""Streams of random numbers that have names."""

from __future__ import annotations

import hashlib
import json

import numpy as np


def begin_stream(*key: str | int | None) -> np.random.Generator:
    """Begin a stream of random numbers that depends on what it is for, and on nothing else."""
    digest = hashlib.blake2b(json.dumps(key).encode(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))
