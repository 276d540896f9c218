"""How often each test rejects and each interval covers, in studies whose truth is known.

    python benchmarks/calibration.py [--studies 20000] [--seed 4] [--csv FILE] [--only WORD]
    python benchmarks/calibration.py --refits 20

Texts are unit vectors around their group's direction. A text's cosine to that direction, its
typicality, is skewed and varies from text to text, so that all pairs of an untypical text are low;
the mean cosine of a format x group in the population is the square of the mean typicality, known
without error. Formats have intercepts, and slopes (an interaction with the group). In a names study
a name keeps its typicality, in part, over the formats. Sizes are those measured on published
GPT-3.5 texts: typicality of skewness -1.4 and kurtosis 6, slopes with an SD of 0.04.

What is true differs by scope. Formats fixed: the mean difference in the formats of the study.
Formats random: the mean difference in the population of formats. A null study has none in its
scope; slopes are there all the same, centred over the formats where these are fixed.

Every test is computed from sufficient statistics for many studies at once; `--refits` compares the
closed forms of the mixed models with fits by the package and by statsmodels, one study at a time.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from llm_variability.fits.coding import code_full_factorial
from llm_variability.fits.contrasts import list_contrasts
from llm_variability.fits.mixedlm import fit_mixedlm
from llm_variability.fits.profile import fit_profile
from llm_variability.fits.random_intercept import GroupedOutcome, collapse_to_means
from llm_variability.fits.text_inference import (
    GroupVariance,
    Inference,
    combine_independent,
    combine_shared,
    infer_formats_fixed,
    infer_formats_random,
    simultaneous_quantile,
)
from llm_variability.fits.text_variance import (
    correct_covariance,
    correct_jackknife,
    dyadic_variance,
    jackknife_covariance,
    jackknife_deviations,
    jackknife_variance,
)
from llm_variability.tables import Factor

FORMATS = 13
DIMENSIONS = 16
MEAN_COSINE = 0.62
FORMAT_RANGE = 0.15
SPREAD = 0.43
"""SD of typicality, as a share of what the mean typicality lacks to 1."""

BATCH = 25
JOINT = 2_000
"""Studies whose simultaneous intervals are computed, which takes a simulation each."""

RACE = Factor("race", ("White", "African", "Asian", "Hispanic"), "White")
GENDER = Factor("gender", ("man", "woman"), "man")
DESIGNS = {
    "2 groups": (Factor("race", ("White", "African"), "White"),),
    "4 x 2 groups": (RACE, GENDER),
    "names": (replace(RACE, name="group"),),
}
FIXED, RANDOM = "formats fixed", "formats random"


@dataclass(frozen=True)
class Study:
    """A kind of study. slope: SD of the interaction, by group if several. effect: the difference
    of the first group after the reference, in cosines. scope: what the truth is about.
    shared: how much of a name's typicality (its variance) is the same in all formats."""

    title: str
    design: str
    texts: int
    scope: str
    slope: float = 0.0
    effect: float = 0.0
    uneven: bool = False
    shared: float = 0.0
    contrast: tuple[str, int] = ("treatment", 1)

    @property
    def is_null(self) -> bool:
        return self.effect == 0


def list_studies() -> list[Study]:
    studies = []
    for design in ("2 groups", "4 x 2 groups"):
        for texts in (10, 30, 50):
            base = Study("", design, texts, FIXED)
            studies += [
                replace(base, title="null, no slopes"),
                replace(base, title="null, slopes 0.04", slope=0.04),
                replace(base, title="null, slopes 0.04", slope=0.04, scope=RANDOM),
                replace(base, title="0.02, no slopes", effect=0.02),
                replace(base, title="0.02, slopes 0.02", slope=0.02, effect=0.02),
                replace(base, title="0.04, slopes 0.04", slope=0.04, effect=0.04),
                replace(base, title="0.04, slopes 0.04", slope=0.04, effect=0.04, scope=RANDOM),
            ]
    for contrast in (("treatment", 1), ("marginal", 3)):
        uneven = Study("null, uneven slopes", "4 x 2 groups", 50, RANDOM, 0.04, uneven=True)
        studies.append(replace(uneven, contrast=contrast))
    for texts in (30, 50):
        base = Study("", "names", texts, FIXED, slope=0.04, shared=0.5)
        studies += [
            replace(base, title="null, slopes 0.04"),
            replace(base, title="null, slopes 0.04", scope=RANDOM),
            replace(base, title="0.04, slopes 0.04", effect=0.04),
            replace(base, title="0.04, slopes 0.04", effect=0.04, scope=RANDOM),
        ]
    return studies


@dataclass(frozen=True)
class Sample:
    """Sufficient statistics of many studies.

    cosine_sum: (studies, formats, groups, texts). within_ss, truth: (studies, formats, groups)
    the pairs' sum of squares, and the population's mean cosines.
    """

    cosine_sum: np.ndarray
    within_ss: np.ndarray
    truth: np.ndarray

    @property
    def texts(self) -> int:
        return self.cosine_sum.shape[-1]

    @property
    def pairs(self) -> int:
        return self.texts * (self.texts - 1) // 2

    @property
    def means(self) -> np.ndarray:
        return self.cosine_sum.sum(axis=-1) / 2 / self.pairs


def draw_truth(study: Study, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw each format x group's mean cosine; intercepts are uniform, slopes normal up to 2 SD."""
    factors = DESIGNS[study.design]
    groups = int(np.prod([len(factor.levels) for factor in factors]))
    slopes = _cut_normal((size, FORMATS, groups), rng) * study.slope
    if study.uneven:
        own = np.array([0.02, 0.02, 0.06, 0.06, 0.02, 0.02, 0.02, 0.02])
        by_gender = 0.02 * _cut_normal((size, FORMATS, 2), rng)
        slopes = slopes / study.slope * own + np.tile(by_gender, 4)
    if study.scope == FIXED:
        slopes -= slopes.mean(axis=1, keepdims=True)
    effects = np.zeros(groups)
    effects[groups // len(factors[0].levels)] = study.effect
    intercepts = rng.uniform(-FORMAT_RANGE, FORMAT_RANGE, (size, FORMATS, 1))
    truth = MEAN_COSINE + intercepts + slopes + effects
    if truth.max() > 0.97 or truth.min() < 0.2:
        raise ValueError("a mean cosine is outside 0.2 to 0.97: lower the slopes")
    return truth


def _cut_normal(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    drawn = rng.standard_normal(shape)
    while (outside := np.abs(drawn) > 2).any():
        drawn[outside] = rng.standard_normal(int(outside.sum()))
    return drawn / 0.8796256610342398


def _draw_typicality(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw with mean 0 and SD 1: a gamma variable of shape 2, turned round."""
    drawn = rng.standard_exponential((2, *shape), dtype=np.float32).sum(axis=0)
    return (2 - drawn) / np.sqrt(np.float32(2))


def draw_sample(study: Study, size: int, rng: np.random.Generator) -> Sample:
    """Draw texts and compress each format x group to its texts' sums of cosines."""
    truth = draw_truth(study, size, rng)
    texts, groups = study.texts, truth.shape[-1]
    shape = (size, FORMATS, groups, texts)
    typical = _draw_typicality(shape, rng)
    noise = rng.standard_normal((*shape, DIMENSIONS), dtype=np.float32)
    if study.shared:
        own, common = np.sqrt(1 - study.shared), np.sqrt(study.shared)
        of_name = _draw_typicality((size, 1, groups, texts), rng)
        direction = rng.standard_normal((size, 1, groups, texts, DIMENSIONS), dtype=np.float32)
        typical = own * typical + common * of_name
        noise = np.float32(own) * noise + np.float32(common) * direction
    centre = np.sqrt(truth)[..., None].astype(np.float32)
    cosine = np.clip(centre + np.float32(SPREAD) * (1 - centre) * typical, -1, 1)
    length = np.sqrt(np.einsum("...d,...d->...", noise, noise))
    noise *= (np.sqrt(1 - cosine**2) / length)[..., None]
    vectors = np.concatenate([cosine[..., None], noise], axis=-1)
    total = vectors.sum(axis=-2, keepdims=True)
    cosine_sum = (vectors @ np.swapaxes(total, -1, -2))[..., 0].astype(np.float64) - 1
    moments = (np.swapaxes(vectors, -1, -2) @ vectors).astype(np.float64)
    squares = ((moments**2).sum(axis=(-2, -1)) - texts) / 2
    pairs = texts * (texts - 1) / 2
    within_ss = squares - (cosine_sum.sum(axis=-1) / 2) ** 2 / pairs
    return Sample(cosine_sum, within_ss, truth)


def infer_mixed(sample: Sample, weights: np.ndarray, level: str) -> Inference:
    """Fit z ~ groups + (1 | format) to complete, equal groups, where REML is in closed form.

    The residual variance is the mean square left by formats and groups, or by groups alone where
    formats vary less than it; degrees of freedom as in the package.
    """
    means = sample.means
    formats, groups = means.shape[-2:]
    count = sample.pairs if level == "pairwise" else 1
    within = sample.within_ss.sum(axis=(-2, -1)) if level == "pairwise" else 0.0
    of_format = means.mean(axis=-1, keepdims=True) - means.mean(axis=(-2, -1), keepdims=True)
    left = means - means.mean(axis=-2, keepdims=True) - of_format
    residual_ss = within + count * (left**2).sum(axis=(-2, -1))
    format_ss = count * groups * (of_format**2).sum(axis=(-2, -1))
    residual_df = formats * groups * count - groups - (formats - 1)
    inner = format_ss / (formats - 1) > residual_ss / residual_df
    variance = np.where(
        inner,
        residual_ss / residual_df,
        (residual_ss + format_ss) / (residual_df + formats - 1),
    )
    df = (formats - 1) * (groups - 1) if level == "cell" else np.inf
    covariance = variance[:, None, None] * (weights @ weights.T) / (count * formats)
    return Inference(
        means.mean(axis=-2) @ weights.T, covariance, np.full(len(weights), df, dtype=float)
    )


def infer_meta_analysis(
    means: np.ndarray, variance: np.ndarray, weights: np.ndarray, steps: int = 60
) -> Inference:
    """Random-effects meta-analysis of the format-wise contrasts, sampling variances as known.

    tau^2 by Paule and Mandel 1982; standard error and t of Hartung and Knapp 2001. means, variance:
    (studies, formats, groups); weights: (1, groups), one contrast.
    """
    difference = (means @ weights.T)[..., 0]
    known = (variance @ (weights**2).T)[..., 0]
    df = difference.shape[-1] - 1

    def weigh(tau2: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        weight = 1 / (known + tau2[:, None])
        centre = (weight * difference).sum(axis=1) / weight.sum(axis=1)
        return weight, centre, (weight * (difference - centre[:, None]) ** 2).sum(axis=1)

    low, high = np.zeros(len(difference)), np.ones(len(difference))
    none = weigh(low)[2] <= df
    for _ in range(steps):
        middle = (low + high) / 2
        above = weigh(middle)[2] > df
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    weight, centre, spread = weigh(np.where(none, 0, low))
    error2 = spread / (df * weight.sum(axis=1))
    return Inference(centre[:, None], error2[:, None, None], np.full(1, float(df)))


def infer_strata(means: np.ndarray, weights: np.ndarray, shape: tuple[int, ...]) -> Inference:
    """Analysis of variance with an error stratum for each factor and interaction.

    Contrasts of a stratum are taken to interact with formats alike, those of different strata
    need not; Satterthwaite's degrees of freedom. means: (studies, formats, groups).
    """
    formats, groups = means.shape[-2:]
    left = means - means.mean(axis=-2, keepdims=True)
    variance = np.zeros(len(means))
    squares = np.zeros(len(means))
    for stratum in range(1, 2 ** len(shape)):
        projection = np.ones((1, 1))
        for i, levels in enumerate(shape):
            average = np.full((levels, levels), 1 / levels)
            part = np.eye(levels) - average if stratum >> i & 1 else average
            projection = np.kron(projection, part)
        df = (formats - 1) * round(np.trace(projection))
        mean_square = ((left @ projection) ** 2).sum(axis=(-2, -1)) / df
        share = (weights @ projection @ weights.T).item() / formats * mean_square
        variance += share
        squares += share**2 / df
    estimate = means.mean(axis=-2) @ weights.T
    return Inference(estimate, variance[:, None, None], (variance**2 / squares)[:, None])


def measure_variance(sample: Sample) -> np.ndarray:
    n = np.array(sample.texts)
    return correct_jackknife(jackknife_variance(sample.cosine_sum), sample.within_ss, n)


def measure_groups(sample: Sample, study: Study) -> GroupVariance:
    if not study.shared:
        n = np.full(sample.means.shape, sample.texts)
        return combine_independent(measure_variance(sample), n)
    deviations = np.swapaxes(jackknife_deviations(sample.cosine_sum), 1, 2)
    covariance = correct_covariance(
        jackknife_covariance(deviations),
        np.swapaxes(jackknife_variance(sample.cosine_sum), 1, 2),
        np.swapaxes(measure_variance(sample), 1, 2),
    )
    return combine_shared(covariance, np.full(covariance.shape[:2], sample.texts))


def infer_all(study: Study, sample: Sample, weights: np.ndarray) -> Iterator[tuple[str, Inference]]:
    """Give every test of one contrast: those of the package, then what it was chosen from."""
    means, groups = sample.means, measure_groups(sample, study)
    n = np.full(means.shape, sample.texts)
    yield "pairwise", infer_mixed(sample, weights, "pairwise")
    yield "cell", infer_mixed(sample, weights, "cell")
    yield "text, formats fixed", infer_formats_fixed(means, groups, weights)
    yield "text, formats random", infer_formats_random(means, groups, weights)
    if study.shared:
        apart = combine_independent(measure_variance(sample), n)
        yield "fixed, names as if new", infer_formats_fixed(means, apart, weights)
        yield "random, names as if new", infer_formats_random(means, apart, weights)
        return
    jackknife = jackknife_variance(sample.cosine_sum)
    dyadic = np.maximum(dyadic_variance(sample.cosine_sum, sample.within_ss), 1e-12)
    for name, variance in (("jackknife as it is", jackknife), ("dyadic", dyadic)):
        groups = combine_independent(variance, n)
        yield f"fixed, {name}", infer_formats_fixed(means, groups, weights)
    yield "random, meta-analysis", infer_meta_analysis(means, jackknife, weights)
    shape = tuple(len(factor.levels) for factor in DESIGNS[study.design])
    yield "random, error strata", infer_strata(means, weights, shape)


def find_contrast(study: Study) -> np.ndarray:
    coding, position = study.contrast
    of_coding = [each for each in list_contrasts(DESIGNS[study.design]) if each.coding == coding]
    return of_coding[position].weights[None]


def find_truth(study: Study, sample: Sample, weights: np.ndarray) -> np.ndarray:
    """Give what the contrasts are in truth: (studies, terms) in their formats, or in all."""
    if study.scope == FIXED:
        return sample.truth.mean(axis=1) @ weights.T
    effects = np.zeros(sample.truth.shape[-1])
    effects[len(effects) // len(DESIGNS[study.design][0].levels)] = study.effect
    return np.broadcast_to(weights @ effects, (len(sample.truth), len(weights)))


def covers_jointly(study: Study, sample: Sample, most: int) -> list[bool]:
    """Say of each study whether the simultaneous intervals of the published coding all cover."""
    family = [each for each in list_contrasts(DESIGNS[study.design]) if each.coding == "treatment"]
    weights = np.array([each.weights for each in family[1:]])
    infer = infer_formats_fixed if study.scope == FIXED else infer_formats_random
    inference = infer(sample.means, measure_groups(sample, study), weights)
    truth = find_truth(study, sample, weights)
    covered = []
    for i in range(min(most, len(truth))):
        one = Inference(
            inference.estimate[i], inference.covariance[i], inference.df[i], inference.joint_df
        )
        distance = np.abs(one.estimate - truth[i]) / one.std_error
        covered.append(bool(distance.max() <= simultaneous_quantile(one)))
    return covered


@dataclass(frozen=True)
class Result:
    study: Study
    method: str
    studies: int
    rejected: float
    covered: float

    def half_width(self, rate: float) -> float:
        """Half of the rate's 95% Monte Carlo interval."""
        return 1.96 * float(np.sqrt(rate * (1 - rate) / self.studies))


def run_study(study: Study, studies: int, seed: int) -> list[Result]:
    rng = np.random.default_rng(seed)
    weights = find_contrast(study)
    rejected: dict[str, list[np.ndarray]] = {}
    covered: dict[str, list[np.ndarray]] = {}
    jointly: list[bool] = []
    for _ in range(studies // BATCH):
        sample = draw_sample(study, BATCH, rng)
        truth = find_truth(study, sample, weights)
        for method, inference in infer_all(study, sample, weights):
            rejected.setdefault(method, []).append(inference.p_value[:, 0] < 0.05)
            inside = np.abs(inference.estimate - truth) <= inference.margin
            covered.setdefault(method, []).append(inside[:, 0])
        if study.is_null and study.texts == 50 and study.contrast == ("treatment", 1):
            jointly += covers_jointly(study, sample, JOINT - len(jointly))
    results = [
        Result(
            study,
            method,
            studies,
            float(np.mean(np.concatenate(rejected[method]))),
            float(np.mean(np.concatenate(covered[method]))),
        )
        for method in rejected
    ]
    if jointly:
        rate = float(np.mean(jointly))
        results.append(Result(study, "simultaneous", len(jointly), 1 - rate, rate))
    return results


def print_results(results: list[Result]) -> None:
    study = results[0].study
    kind = "rejects" if study.is_null else "power"
    contrast = "" if study.contrast == ("treatment", 1) else f", {study.contrast[0]}"
    print(f"\n{study.design}, {study.texts} texts, {study.scope}: {study.title}{contrast}\n")
    print(f"| test | {kind} | +- | covers | +- |\n|---|---|---|---|---|")
    for each in results:
        print(
            f"| {each.method} | {each.rejected:.4f} | {each.half_width(each.rejected):.4f} |"
            f" {each.covered:.4f} | {each.half_width(each.covered):.4f} |",
            flush=True,
        )


PACKAGE = ("pairwise", "cell", "text, formats fixed", "text, formats random")


def print_summary(results: list[Result]) -> None:
    """Print what rejects and covers, in percent: the package's tests, then the others.

    In bold the test of the study's scope. A first number is the false-positive rate where the study
    is a null, else the power.
    """
    studies = list(dict.fromkeys(each.study for each in results))
    found = {(each.study, each.method): each for each in results}
    methods = list(dict.fromkeys(each.method for each in results))
    others = [each for each in methods if each not in PACKAGE and each != "simultaneous"]
    labels = {"names": [each for each in others if "names" in each]}
    plain = [each for each in others if each not in labels["names"]]
    for title, columns, wanted in (
        ("The tests of the package", PACKAGE, studies),
        ("What they were chosen from", plain, [s for s in studies if not s.shared]),
        ("Names, each text taken as new", labels["names"], [s for s in studies if s.shared]),
    ):
        if not wanted:
            continue
        print(f"\n{title}\n\n| design | texts | scope | truth | {' | '.join(columns)} |")
        print("|---" * (4 + len(columns)) + "|")
        for study in wanted:
            cells = []
            for method in columns:
                each = found[study, method]
                rates = f"{100 * each.rejected:.1f} / {100 * each.covered:.1f}"
                cells.append(f"**{rates}**" if method == f"text, {study.scope}" else rates)
            contrast = "" if study.contrast == ("treatment", 1) else f", {study.contrast[0]} gender"
            print(
                f"| {study.design} | {study.texts} | {study.scope.split()[1]} |"
                f" {study.title}{contrast} | {' | '.join(cells)} |"
            )
    for study in studies:
        if joint := found.get((study, "simultaneous")):
            print(
                f"\nsimultaneous intervals, {study.design}, {study.scope}, {study.title}:"
                f" {100 * joint.covered:.1f}% +- {100 * joint.half_width(joint.covered):.1f}"
                f" of {joint.studies} studies"
            )


def write_results(results: list[Result], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["design", "texts", "scope", "study", "contrast", "effect"]
            + ["test", "studies", "rejected", "covered"]
        )
        for each in results:
            study = each.study
            writer.writerow(
                [study.design, study.texts, study.scope, study.title, study.contrast[0]]
                + [study.effect, each.method, each.studies, each.rejected, each.covered]
            )


def compare_refits(refits: int, seed: int) -> None:
    """Print how far the closed forms are from fits of the same studies, and how long each takes."""
    study = Study("", "4 x 2 groups", 50, RANDOM, slope=0.04)
    factors = DESIGNS[study.design]
    _, coding = code_full_factorial(factors)
    weights = np.linalg.inv(coding)
    sample = draw_sample(study, refits, np.random.default_rng(seed))
    print("| level | fit | seconds a study | largest difference: estimate | std. error |")
    print("|---|---|---|---|---|")
    for level in ("pairwise", "cell"):
        begin = time.perf_counter()
        closed = infer_mixed(sample, weights, level)
        print(f"| {level} | closed form | {(time.perf_counter() - begin) / refits:.6f} | | |")
        for name, fitter in (("profile", fit_profile), ("statsmodels", fit_mixedlm)):
            begin, apart = time.perf_counter(), np.zeros((refits, 2))
            for i in range(refits):
                outcome = GroupedOutcome(
                    block=np.repeat(np.arange(FORMATS), len(coding)),
                    coding=np.tile(coding, (FORMATS, 1)),
                    count=np.full(FORMATS * len(coding), sample.pairs),
                    mean=sample.means[i].ravel(),
                    within_ss=sample.within_ss[i].ravel(),
                )
                fit = fitter(outcome if level == "pairwise" else collapse_to_means(outcome))
                error = closed.std_error[i][1:]
                apart[i] = (
                    np.abs(fit.estimate - closed.estimate[i])[1:].max(),
                    np.abs(fit.std_error[1:] / error - 1).max(),
                )
            seconds = (time.perf_counter() - begin) / refits
            estimate, error = apart.max(axis=0)
            print(f"| {level} | {name} | {seconds:.4f} | {estimate:.1e} | {error:.1e} (relative) |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=20_000, help="simulated studies of a kind")
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--csv", type=Path, help="write all results here too")
    parser.add_argument("--only", default="", help="kinds whose design or title has this in it")
    parser.add_argument("--refits", type=int, help="compare with this many fits, and end")
    arguments = parser.parse_args()
    if arguments.refits:
        compare_refits(arguments.refits, arguments.seed)
        return
    begin, results = time.perf_counter(), []
    for number, study in enumerate(list_studies()):
        if arguments.only not in f"{study.design} {study.title}":
            continue
        found = run_study(study, arguments.studies, 1000 * arguments.seed + number)
        print_results(found)
        results += found
    print_summary(results)
    if arguments.csv:
        write_results(results, arguments.csv)
    print(f"\n{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
