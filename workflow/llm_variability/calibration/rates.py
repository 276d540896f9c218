"""How often the tests reject and the intervals cover, kind by kind of study."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from llm_variability.calibration.candidates import infer_all, measure_groups
from llm_variability.calibration.studies import (
    DESIGNS,
    PUBLISHED,
    Sample,
    Study,
    draw_sample,
    find_contrast,
    find_truth,
)
from llm_variability.fits.contrasts import list_contrasts
from llm_variability.fits.text_inference import (
    FORMATS_FIXED,
    Inference,
    infer_formats_fixed,
    infer_formats_random,
    simultaneous_quantile,
)

ALPHA = 0.05
SIMULTANEOUS = "simultaneous"
"""Stands for the test in the rate of studies in which all contrasts at once are covered."""

BATCH = 25
"""Studies drawn at once; more do not fit into a processor's cache."""

JOINT = 2_000
"""Studies whose simultaneous intervals are computed, which takes a simulation each."""


@dataclass(frozen=True)
class Rate:
    """How often a test rejected the null and its 95% interval covered the truth.

    studies: how many were simulated. rejected, covered: shares of them, 0 to 1.
    """

    study: Study
    test: str
    studies: int
    rejected: float
    covered: float


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Give the 95% interval of a share of n that was counted. Source: Wilson 1927, JASA 22."""
    z = 1.959963984540054
    centre = share + z**2 / (2 * n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    scale = 1 + z**2 / n
    return float(max(centre - half, 0) / scale), float(min((centre + half) / scale, 1))


def seed_study(study: Study, seed: int) -> np.random.Generator:
    """Make a kind's random generator, which does not depend on what other kinds there are."""
    key = hashlib.blake2b(study.name.encode(), digest_size=8).digest()
    return np.random.default_rng([seed, int.from_bytes(key)])


def covers_jointly(study: Study, sample: Sample, most: int) -> list[bool]:
    """Say of each study whether the simultaneous intervals of the published coding all cover."""
    family = [each for each in list_contrasts(DESIGNS[study.design]) if each.coding == "treatment"]
    weights = np.array([each.weights for each in family[1:]])
    infer = infer_formats_fixed if study.scope == FORMATS_FIXED else infer_formats_random
    inference = infer(sample.means, measure_groups(study, sample), weights)
    truth = find_truth(study, sample, weights)
    covered = []
    for i in range(min(most, len(truth))):
        one = Inference(
            inference.estimate[i], inference.covariance[i], inference.df[i], inference.joint_df
        )
        distance = np.abs(one.estimate - truth[i]) / one.std_error
        covered.append(bool(distance.max() <= simultaneous_quantile(one)))
    return covered


def run_study(study: Study, studies: int, seed: int) -> list[Rate]:
    """Simulate one kind of study and count.

    studies: how many; rounded down to whole batches of 25. Simultaneous intervals are counted for
    null studies of the published contrast with 50 texts, in 2,000 of them at most.
    Raises ValueError for fewer than one batch.
    """
    batches = studies // BATCH
    if batches < 1:
        raise ValueError(f"studies: {studies} is too few; at least {BATCH}")
    rng = seed_study(study, seed)
    weights = find_contrast(study).weights[None]
    rejected: dict[str, int] = {}
    covered: dict[str, int] = {}
    jointly: list[bool] = []
    for _ in range(batches):
        sample = draw_sample(study, BATCH, rng)
        truth = find_truth(study, sample, weights)
        for test, inference in infer_all(study, sample, weights):
            inside = np.abs(inference.estimate - truth) <= inference.margin
            rejected[test] = rejected.get(test, 0) + int((inference.p_value < ALPHA).sum())
            covered[test] = covered.get(test, 0) + int(inside.sum())
        if study.is_null and study.texts == 50 and study.contrast == PUBLISHED:
            jointly += covers_jointly(study, sample, JOINT - len(jointly))
    total = batches * BATCH
    rates = [
        Rate(study, test, total, rejected[test] / total, covered[test] / total) for test in rejected
    ]
    if jointly:
        share = sum(jointly) / len(jointly)
        rates.append(Rate(study, SIMULTANEOUS, len(jointly), 1 - share, share))
    return rates


def run_studies(
    kinds: Iterable[Study], studies: int, seed: int, threads: int = 1
) -> Iterator[list[Rate]]:
    """Simulate kinds of studies, several at a time; the rates do not depend on how many.

    Gives each kind's rates, in the order of the kinds, as soon as they are there.
    """
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(partial(run_study, studies=studies, seed=seed), kinds)
