"""BERTScore: how alike two texts are, by their tokens' embeddings in context.

Source: Zhang et al. 2020 (arXiv:1904.09675), section 3: cosines of contextual embeddings, greedy
matching, F1. Without weights by inverse document frequency, and not rescaled by a baseline; from
the last layer of the encoder's transformer, special tokens left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

EmbedTokens = Callable[[Sequence[str]], list[np.ndarray]]
"""Gives each text's tokens as (tokens, d) rows of unit length."""


def match_tokens(candidate: np.ndarray, reference: np.ndarray) -> float | None:
    """Give the F1 of two texts, -1 to 1; None if one has no token.

    candidate: (m, d), reference: (n, d), rows of unit length. Precision is the mean over the
    candidate's tokens of the largest cosine to one of the reference, recall the same the other way
    round (equations of section 3), F1 their harmonic mean; where their sum is not above 0, 0.
    """
    if not len(candidate) or not len(reference):
        return None
    cosines = candidate @ reference.T
    precision, recall = float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean())
    total = precision + recall
    return min(2 * precision * recall / total, 1.0) if total > 0 else 0.0


def measure_bertscore(
    candidates: Sequence[str], references: Sequence[str], embed: EmbedTokens
) -> list[float | None]:
    """Measure each candidate against its reference.

    Candidates of one reference are embedded together with it, so that each text is embedded once
    and the tokens of all never have to be held at once.
    """
    scores: list[float | None] = [None] * len(candidates)
    rows_of: dict[str, list[int]] = {}
    for row, reference in enumerate(references):
        rows_of.setdefault(reference, []).append(row)
    for reference, rows in rows_of.items():
        texts = list(dict.fromkeys(candidates[row] for row in rows))
        target, *embedded = embed([reference, *texts])
        found = {
            text: match_tokens(tokens, target) for text, tokens in zip(texts, embedded, strict=True)
        }
        for row in rows:
            scores[row] = found[candidates[row]]
    return scores
