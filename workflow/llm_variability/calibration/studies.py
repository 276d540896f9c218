"""Studies whose truth is known, drawn as the sufficient statistics of many at once.

Texts are unit vectors around their group's direction. A text's cosine to that direction, its
typicality, is skewed and varies from text to text, so that all pairs of an untypical text are low;
the mean cosine of a format x group in the population is the square of the mean typicality, known
without error. Formats have intercepts, and slopes (an interaction with the group). In a names study
a name keeps its typicality, in part, over the formats. Sizes are those measured on published
GPT-3.5 texts: typicality of skewness -1.4 and kurtosis 6, slopes with an SD of 0.04.

What is true differs by scope. Formats fixed: the mean difference in the formats of the study.
Formats random: the mean difference in the population of formats. A null study has none in its
scope; slopes are there all the same, centred over the formats where these are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llm_variability.fits.contrasts import Contrast, list_contrasts
from llm_variability.fits.random_intercept import Floats
from llm_variability.fits.text_inference import FORMATS_FIXED, FORMATS_RANDOM, SCOPES
from llm_variability.tables import Factor

PUBLISHED_FORMATS, DEFAULT_FORMATS = 13, 4
"""Formats of the published study, and of the default configuration."""

DIMENSIONS = 16
MEAN_COSINE = 0.62
FORMAT_RANGE = 0.15
SPREAD = 0.43
"""SD of typicality, as a share of what the mean typicality lacks to 1."""

RACE = Factor("race", ("White", "African", "Asian", "Hispanic"), "White")
GENDER = Factor("gender", ("man", "woman"), "man")
TEXTS = (10, 30, 50)
DESIGNS = {
    "2 groups": (Factor("race", ("White", "African"), "White"),),
    "4 x 2 groups": (RACE, GENDER),
    "names": (replace(RACE, name="group"),),
}

PUBLISHED, MARGINAL_GENDER = ("treatment", 1), ("marginal", 3)
"""Contrasts that are tested: African less White (among men, where there are men), and gender."""


@dataclass(frozen=True)
class Study:
    """A kind of study.

    scope: what the truth is about. slope: SD of the interaction of formats and groups, in cosines.
    effect: the difference of the first group after the reference, in cosines; 0 in a null study.
    uneven: groups interact by different amounts, and the groups of a gender share part of it.
    shared: how much of a name's typicality (its variance) is the same in all formats.
    contrast: the one that is tested, its coding and its number within the coding.
    formats: how many there are.
    """

    title: str
    design: str
    texts: int
    scope: str
    slope: float = 0.0
    effect: float = 0.0
    uneven: bool = False
    shared: float = 0.0
    contrast: tuple[str, int] = PUBLISHED
    formats: int = PUBLISHED_FORMATS

    @property
    def is_null(self) -> bool:
        return self.effect == 0

    @property
    def name(self) -> str:
        """Say which kind it is, as in `2 groups / 10 / formats fixed / null / treatment 1`.

        The number of formats is in it where it is not the published one.
        """
        coding, number = self.contrast
        parts = [self.design, str(self.texts), self.scope, self.title, f"{coding} {number}"]
        if self.formats != PUBLISHED_FORMATS:
            parts.append(f"{self.formats} formats")
        return " / ".join(parts)


def list_studies() -> list[Study]:
    """List the kinds: designs, numbers of texts, scopes, with and without slopes and effect.

    At the end those of the sizes of the default configuration.
    """
    studies = []
    for design in ("2 groups", "4 x 2 groups"):
        for texts in TEXTS:
            fixed = Study("", design, texts, FORMATS_FIXED)
            studies += [
                replace(fixed, title="null, no slopes"),
                replace(fixed, title="null, slopes 0.04", slope=0.04),
                replace(fixed, title="null, slopes 0.04", slope=0.04, scope=FORMATS_RANDOM),
                replace(fixed, title="0.02, no slopes", effect=0.02),
                replace(fixed, title="0.02, slopes 0.02", slope=0.02, effect=0.02),
            ]
            fixed = replace(fixed, title="0.04, slopes 0.04", slope=0.04, effect=0.04)
            studies += [fixed, replace(fixed, scope=FORMATS_RANDOM)]
    for contrast in (PUBLISHED, MARGINAL_GENDER):
        uneven = Study("null, uneven slopes", "4 x 2 groups", 50, FORMATS_RANDOM, 0.04, uneven=True)
        studies.append(replace(uneven, contrast=contrast))
    for texts in TEXTS:
        fixed = Study("", "names", texts, FORMATS_FIXED, slope=0.04, shared=0.5)
        for title, effect in (("null, slopes 0.04", 0.0), ("0.04, slopes 0.04", 0.04)):
            fixed = replace(fixed, title=title, effect=effect)
            studies += [fixed, replace(fixed, scope=FORMATS_RANDOM)]
    return studies + _list_small_studies()


def _list_small_studies() -> list[Study]:
    """List null studies of the sizes of the default configuration, with slopes."""
    null = Study("null, slopes 0.04", "4 x 2 groups", 6, "", 0.04, formats=DEFAULT_FORMATS)
    names = replace(null, design="names", texts=4, shared=0.5)
    kinds = (null, replace(null, contrast=MARGINAL_GENDER), names)
    return [replace(kind, scope=scope) for kind in kinds for scope in SCOPES]


@dataclass(frozen=True)
class Sample:
    """Sufficient statistics of many studies.

    cosine_sum: (studies, formats, groups, texts). within_ss, truth: (studies, formats, groups)
    the pairs' sum of squares, and the population's mean cosines.
    """

    cosine_sum: Floats
    within_ss: Floats
    truth: Floats

    @property
    def texts(self) -> int:
        return self.cosine_sum.shape[-1]

    @property
    def pairs(self) -> int:
        return self.texts * (self.texts - 1) // 2

    @property
    def means(self) -> Floats:
        return self.cosine_sum.sum(axis=-1) / 2 / self.pairs


def draw_truth(study: Study, size: int, rng: np.random.Generator) -> Floats:
    """Draw each format x group's mean cosine; intercepts are uniform, slopes normal up to 2 SD."""
    factors = DESIGNS[study.design]
    groups = int(np.prod([len(factor.levels) for factor in factors]))
    slopes = _cut_normal((size, study.formats, groups), rng) * study.slope
    if study.uneven:
        own = np.array([0.02, 0.02, 0.06, 0.06, 0.02, 0.02, 0.02, 0.02])
        by_gender = 0.02 * _cut_normal((size, study.formats, 2), rng)
        slopes = slopes / study.slope * own + np.tile(by_gender, 4)
    if study.scope == FORMATS_FIXED:
        slopes -= slopes.mean(axis=1, keepdims=True)
    effects = np.zeros(groups)
    effects[groups // len(factors[0].levels)] = study.effect
    intercepts = rng.uniform(-FORMAT_RANGE, FORMAT_RANGE, (size, study.formats, 1))
    truth = MEAN_COSINE + intercepts + slopes + effects
    if truth.max() > 0.97 or truth.min() < 0.2:
        raise ValueError("a mean cosine is outside 0.2 to 0.97: lower the slopes")
    return truth


def _cut_normal(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    drawn = rng.standard_normal(shape)
    while (outside := np.abs(drawn) > 2).any():
        drawn[outside] = rng.standard_normal(int(outside.sum()))
    return drawn / 0.8796256610342398


def _draw_typicality(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Draw with mean 0 and SD 1: a gamma variable of shape 2, turned round."""
    drawn = rng.standard_exponential((2, *shape), dtype=np.float32).sum(axis=0)
    return (2 - drawn) / np.sqrt(np.float32(2))


def draw_sample(study: Study, size: int, rng: np.random.Generator) -> Sample:
    """Draw texts and compress each format x group to its texts' sums of cosines."""
    truth = draw_truth(study, size, rng)
    texts, groups = study.texts, truth.shape[-1]
    shape = (size, study.formats, groups, texts)
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


def find_contrast(study: Study) -> Contrast:
    """Give the contrast that is tested."""
    coding, number = study.contrast
    return [each for each in list_contrasts(DESIGNS[study.design]) if each.coding == coding][number]


def find_truth(study: Study, sample: Sample, weights: Floats) -> Floats:
    """Give what the contrasts are in truth: (studies, terms) in their formats, or in all."""
    if study.scope == FORMATS_FIXED:
        truth: Floats = sample.truth.mean(axis=1) @ weights.T
        return truth
    effects = np.zeros(sample.truth.shape[-1])
    effects[len(effects) // len(DESIGNS[study.design][0].levels)] = study.effect
    return np.broadcast_to(weights @ effects, (len(sample.truth), len(weights)))
