"""Measures of a group's texts that need no encoder, each with its delete-one values.

Every function takes the texts of one group and gives the measure of all of them, and of the group
without each text in turn, exactly. All depend on how many texts there are, and most on how long
they are.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from llm_variability.diversity.words import Integers, Ngrams, count_ngrams
from llm_variability.fits.measure_level import Measured
from llm_variability.fits.random_intercept import Floats

DISTINCT_ORDERS = (1, 2, 3)
BLEU_ORDER = 4

EPSILON = 0.1
"""Matches that stand in for none, so that one order without a match does not make a score 0."""

GZIP = 16 + zlib.MAX_WBITS


def measure_words(texts: Sequence[Sequence[str]]) -> dict[str, Measured]:
    """Measure `distinct-1`, `-2` and `-3` and `self-BLEU`, which share their tables of n-grams.

    texts: the words of each, two texts or more.
    """
    tables = count_ngrams(texts, BLEU_ORDER)
    distinct = {f"distinct-{n}": measure_distinct(tables[n - 1]) for n in DISTINCT_ORDERS}
    return distinct | {"self-BLEU": measure_self_bleu(tables)}


def measure_distinct(ngrams: Ngrams) -> Measured:
    """Share of a group's n-grams that are distinct: from 0 (one n-gram throughout) to 1.

    NaN where no n-gram is left. Li et al. divide by the words rather than by the n-grams; the two
    differ by n - 1 words a text.
    Source: Li et al. 2016, NAACL, section 5 (distinct-1 and distinct-2).
    """
    holders = np.bincount(ngrams.ngram)
    own = np.bincount(ngrams.text[holders[ngrams.ngram] == 1], minlength=len(ngrams.totals))
    total = ngrams.totals.sum()
    with np.errstate(invalid="ignore"):
        left: Floats = (len(holders) - own) / (total - ngrams.totals)
        value = float(np.float64(len(holders)) / total)
    return Measured(value, left)


def measure_self_bleu(tables: Sequence[Ngrams]) -> Measured:
    """Mean BLEU-4 of each text with all others of its group as references: 0 to 1, 1 is uniform.

    BLEU is the brevity penalty (the reference of the closest length, the shorter of two as close)
    times the geometric mean of the four clipped precisions; an order without any match counts
    `EPSILON` matches (method 1 of Chen and Cherry 2014), and a text that shares no word, or has
    none, scores 0. Deleting a text takes it away as a hypothesis and as a reference.

    tables: the n-grams of orders 1 to 4 of two texts or more.
    Sources: Zhu et al. 2018, SIGIR, section 3; Papineni et al. 2002, ACL, section 2.3.
    """
    lengths = tables[0].totals
    n = len(lengths)
    logs = np.zeros((n, n + 1))
    shared = np.ones((n, n + 1), dtype=bool)
    for order, table in enumerate(tables):
        matches = _count_matches(table)
        precision = np.where(matches > 0, matches, EPSILON) / np.maximum(table.totals, 1)[:, None]
        logs += np.log(precision) / len(tables)
        if order == 0:
            shared = matches > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        penalty = np.exp(np.minimum(0, 1 - _closest_lengths(lengths) / lengths[:, None]))
        scores = np.where(shared, penalty * np.exp(logs), 0)
    left = scores[:, :n]
    np.fill_diagonal(left, 0)
    with np.errstate(invalid="ignore"):
        deleted: Floats = left.sum(axis=0) / (n - 1) if n > 2 else np.full(n, np.nan)
    return Measured(float(scores[:, n].mean()), deleted)


def _count_matches(table: Ngrams) -> Integers:
    """Count each text's n-grams that its references have, at most as often as one of them does.

    Of each n-gram only the three texts that hold it most often matter: the most that others have
    is the first of them that is not the text, and, without that one, the next.

    Returns (n, n + 1): row i for text i, column k without the reference k, the last with all.
    """
    n = len(table.totals)
    order = np.lexsort((-table.count, table.ngram))
    ngram, text, count = table.ngram[order], table.text[order], table.count[order]
    starts = np.searchsorted(ngram, np.arange(ngram[-1] + 2 if len(ngram) else 1))
    first, held = starts[:-1][ngram], np.diff(starts)[ngram]
    # A sentinel at the end is what a place holds that an n-gram lacks.
    text_at, count_at = np.append(text, -1), np.append(count, 0)
    places = [np.where(held > place, first + place, -1) for place in range(3)]
    is_first, is_second = (text_at[place] == text for place in places[:2])
    most = np.where(is_first, places[1], places[0])
    next_most = np.where(is_first | is_second, places[2], places[1])
    matched = np.minimum(count, count_at[most])
    lost = matched - np.minimum(count, count_at[next_most])
    by_text = np.bincount(text, matched, minlength=n)
    losing = lost > 0
    cell = text[losing] * n + text_at[most][losing]
    losses = np.bincount(cell, lost[losing], minlength=n * n).reshape(n, n)
    return np.column_stack([by_text[:, None] - losses, by_text]).round().astype(np.int64)


def _closest_lengths(lengths: Integers) -> Integers:
    """Find the length of each text's reference that is closest to its own.

    Returns (n, n + 1), as `_count_matches`; a text without any reference has its own length.
    """
    n = len(lengths)
    distance = np.abs(lengths[:, None] - lengths)
    # The closest first, the shorter of two as close: one number orders both.
    rank = distance * (lengths.max() + 1) + lengths
    np.fill_diagonal(rank, np.iinfo(np.int64).max)
    nearest = np.argsort(rank, axis=1, kind="stable")[:, :2]
    closest = np.repeat(lengths[nearest[:, :1]], n + 1, axis=1)
    rows = np.arange(n)
    closest[rows, nearest[:, 0]] = lengths[nearest[:, 1]]
    return closest


def measure_compression(texts: Sequence[str]) -> Measured:
    """Bytes of a group's texts over their bytes when compressed: higher is more repetitive.

    The texts are joined by line feeds, in their order, as UTF-8, and compressed by gzip at level 9
    (18 bytes of it are its own). gzip sees 32 KiB back: repeats farther apart than that, in
    groups of more than about 130 texts of 40 words, do not count.
    Source: Shaib et al. 2024, "Standardizing the measurement of text diversity", section 2.
    """
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    deleted = [_compress(encoded[:i] + encoded[i + 1 :]) for i in range(len(encoded))]
    return Measured(_compress(encoded), np.array(deleted))


def _compress(texts: Sequence[bytes]) -> float:
    joined = b"\n".join(texts)
    return len(joined) / len(zlib.compress(joined, 9, GZIP))


def measure_differentiation(categories: Sequence[str]) -> Measured:
    """Probability that two different texts of the group are not the same: 0 to 1.

    With c texts in a category, 1 - sum c (c - 1) / (n (n - 1)): what Linville, Fischer and Salovey
    define, 1 - sum p^2, lets a text be drawn twice and is (n - 1) / n of it, so that it grows with
    n where nothing else does. Groups of the same size are ordered alike by both.

    categories: what tells each text, two texts or more.
    Sources: Linville, Fischer and Salovey 1989, JPSP 57, pp. 165-188; Lee and Lai 2024, section 2;
    the correction is Simpson's (1949, Nature 163).
    """
    n = len(categories)
    sizes = Counter(categories)
    size = np.array([sizes[category] for category in categories], dtype=float)
    alike = (size - 1).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        deleted: Floats = 1 - (alike - 2 * (size - 1)) / np.float64((n - 1) * (n - 2))
    return Measured(float(1 - alike / (n * (n - 1))), deleted)
