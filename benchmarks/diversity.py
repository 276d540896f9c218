"""How long the measures of diversity take, and how well their tests keep their level.

    python benchmarks/diversity.py time [--published FILE] [--repeats 3]
    python benchmarks/diversity.py level --design labels|names [--studies 1000] [--texts 50]
    python benchmarks/diversity.py level --design labels|names --vendi [--studies 1000] [--texts 50]
    python benchmarks/diversity.py level --published FILE [--studies 400]
    python benchmarks/diversity.py estimates --published FILE [--texts 50]

`time` measures one setting of 13 formats x 8 groups x 50 texts of about 40 words. `level` draws
studies in which two groups have the same distribution of texts in every format, and prints for each
measure the percentage in which p is below .05, with formats fixed and with formats random, and what
the jackknife's variance of a difference is, on average, of the variance that the differences have.
Its texts are made of stock phrases and of words with Zipf's frequencies; texts differ in how often
they take the phrases, and names keep half of that from format to format. For the probability of
differentiation each text is one word. `--vendi` leaves out the texts, which take most of the time,
and draws vectors alone. `--published` takes texts of a Parquet file (format, race,
gender, text) in place of made ones: both groups from one format x race x gender, 50 texts each,
without replacement, in all formats of the file. `estimates` prints the contrasts of such a file.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

from llm_variability.diversity.estimates import (
    LEXICAL,
    fit_measures,
    measure_lexical,
    vendi_of,
)
from llm_variability.diversity.groups import Groups, cut_groups
from llm_variability.diversity.lexical import (
    measure_compression,
    measure_differentiation,
    measure_words,
)
from llm_variability.diversity.vendi import measure_vendi
from llm_variability.diversity.words import name_category, split_words
from llm_variability.fits.measure_level import Measured, MeasuredSetting, infer_measure
from llm_variability.fits.random_intercept import UnfittableError
from llm_variability.fits.text_inference import FORMATS_FIXED, SCOPES
from llm_variability.tables import Design, Factor

WORDS, PHRASES, SLOTS, DIMENSION = 3000, 40, 10, 64
PAIR = ("A", "B")
SEED = 11


def make_design(formats: list[str], unit: str | None = None) -> Design:
    return Design("format", (Factor("group", PAIR, "A"),), blocks=tuple(formats), unit=unit)


def _spell(random: np.random.Generator) -> str:
    """Make a word of one to four syllables."""
    syllables = int(random.integers(1, 5))
    return "".join("bcdfghlmnprstvw"[i] + "aeiou"[i % 5] for i in random.integers(0, 15, syllables))


class Language:
    """What texts of one format are made of: Zipf's words and a bank of stock phrases."""

    def __init__(self, random: np.random.Generator) -> None:
        share = 1 / np.arange(1, WORDS + 1)
        self._share = np.cumsum(share / share.sum())
        self._words = [_spell(random) for _ in range(WORDS)]
        self._phrases = [self._draw(random, int(n)) for n in random.integers(3, 7, PHRASES)]
        self._axis = random.normal(size=DIMENSION)

    def _draw(self, random: np.random.Generator, n: int) -> str:
        ranks = np.searchsorted(self._share, random.random(n))
        return " ".join(self._words[min(rank, WORDS - 1)] for rank in ranks)

    def write(self, random: np.random.Generator, habit: float) -> str:
        """Write a text of about 40 words. habit: how often it takes a phrase, 0 to 1."""
        slots = random.random(SLOTS) < habit
        which = random.integers(0, PHRASES, SLOTS)
        return " ".join(
            self._phrases[k] if taken else self._draw(random, int(random.integers(3, 6)))
            for k, taken in zip(which, slots, strict=True)
        )

    def complete(self, random: np.random.Generator, habit: float) -> str:
        """Complete by one word, of few if it is habit."""
        return f"c{random.integers(0, 3 if random.random() < habit else 30)}"

    def point(self, random: np.random.Generator, habits: np.ndarray) -> np.ndarray:
        """Vectors around the format's direction, the nearer the more habitual: (n, d)."""
        noise = random.normal(size=(len(habits), DIMENSION))
        return self._axis + 2 * (1 - habits[:, None]) * noise


def measure_texts(texts: list[str], completions: list[str]) -> dict[str, Measured]:
    return measure_words([split_words(text) for text in texts]) | {
        "compression ratio": measure_compression(texts),
        "probability of differentiation": measure_differentiation(
            [name_category(completion) for completion in completions]
        ),
    }


def draw_studies(
    studies: int, texts: int, formats: int, names: bool, vendi: bool
) -> Iterator[tuple[Design, dict[str, MeasuredSetting]]]:
    """Draw studies of two groups that do not differ, and measure them."""
    random = np.random.default_rng(SEED)
    languages = {f"format {i}": Language(random) for i in range(formats)}
    design = make_design(list(languages), "name" if names else None)
    for _ in range(studies):
        own = {group: random.beta(2, 2, texts) for group in PAIR}
        measured: dict[str, dict[tuple[str, ...], Measured]] = {}
        for name, language in languages.items():
            for group in PAIR:
                habits = random.beta(2, 2, texts)
                if names:
                    kept = random.random(texts) < 0.5
                    habits = np.where(kept, own[group], habits)
                found = {} if vendi else _measure_made(language, random, habits)
                found["Vendi score"] = measure_vendi(language.point(random, habits))
                for measure, value in found.items():
                    measured.setdefault(measure, {})[name, group] = value
        yield design, {each: _as_setting(groups, texts) for each, groups in measured.items()}


def _measure_made(
    language: Language, random: np.random.Generator, habits: np.ndarray
) -> dict[str, Measured]:
    return measure_texts(
        [language.write(random, habit) for habit in habits],
        [language.complete(random, habit) for habit in habits],
    )


def draw_published(
    file: Path, studies: int, texts: int
) -> Iterator[tuple[Design, dict[str, MeasuredSetting]]]:
    """Draw studies whose two groups are parts of one published group, in every format."""
    random = np.random.default_rng(SEED)
    cells = pl.read_parquet(file).partition_by("race", "gender", as_dict=True)
    banks = [
        {
            str(key[0]): bank["text"].to_list()
            for key, bank in cell.partition_by("format", as_dict=True).items()
        }
        for cell in cells.values()
    ]
    for i in range(studies):
        bank = banks[i % len(banks)]
        measured: dict[str, dict[tuple[str, ...], Measured]] = {}
        for name, written in bank.items():
            drawn = [written[j] for j in random.choice(len(written), 2 * texts, replace=False)]
            for group, part in zip(PAIR, (drawn[:texts], drawn[texts:]), strict=True):
                for measure, value in measure_texts(part, part).items():
                    measured.setdefault(measure, {})[name, group] = value
        settings = {each: _as_setting(groups, texts) for each, groups in measured.items()}
        yield make_design(list(bank)), settings


def _as_setting(groups: dict[tuple[str, ...], Measured], texts: int) -> MeasuredSetting:
    names = {key: [f"{key[1]} {i}" for i in range(texts)] for key in groups}
    return MeasuredSetting(dict.fromkeys(groups, texts), groups, names)


def print_levels(studies: Iterator[tuple[Design, dict[str, MeasuredSetting]]]) -> None:
    """Print for each measure how often its test rejects under both scopes."""
    tests: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
    unfit: dict[str, int] = {}
    for design, settings in studies:
        for measure, setting in settings.items():
            for scope in SCOPES:
                try:
                    rows = infer_measure(setting, design, design.blocks, scope)
                except UnfittableError:
                    unfit[measure] = unfit.get(measure, 0) + 1
                    continue
                row = next(each for each in rows if each["term"] == "group[B]")
                if "p_value" not in row:
                    unfit[measure] = unfit.get(measure, 0) + 1
                    continue
                tests.setdefault(measure, {}).setdefault(scope, []).append(
                    (row["p_value"], row["estimate"], row["std_error"])
                )
    print("| measure | formats fixed | formats random | variance, of the true | studies |")
    print("|---|---|---|---|---|")
    for measure, scopes in tests.items():
        reject = [
            100 * np.mean([test[0] < 0.05 for test in scopes.get(scope, ())] or [np.nan])
            for scope in SCOPES
        ]
        fixed = np.array(scopes[FORMATS_FIXED])
        ratio = (fixed[:, 2] ** 2).mean() / (fixed[:, 1] ** 2).mean()
        print(f"| {measure} | {reject[0]:.1f} | {reject[1]:.1f} | {ratio:.2f} | {len(fixed)} |")
    for measure, count in unfit.items():
        print(f"{measure}: {count} tests of {len(SCOPES)} a study without variance")


RACES, GENDERS = ("White", "African", "Asian", "Hispanic"), ("man", "woman")


def make_setting(published: Path | None, texts: int) -> tuple[pl.DataFrame, Design]:
    """Give one setting's texts, made or the first of each published group, and their design."""
    columns = ["format", "race", "gender", "text", "replicate"]
    if published is None:
        random = np.random.default_rng(SEED)
        formats = {f"format {i}": Language(random) for i in range(13)}
        rows = [
            (name, race, gender, language.write(random, random.beta(2, 2)), replicate)
            for name, language in formats.items()
            for race, gender, replicate in product(RACES, GENDERS, range(texts))
        ]
        draws = pl.DataFrame(rows, schema=columns, orient="row")
    else:
        found = pl.read_parquet(published)
        number = pl.int_range(pl.len()).over("format", "race", "gender")
        draws = found.with_columns(replicate=number).filter(pl.col("replicate") < texts)
    factors = (Factor("race", RACES, "White"), Factor("gender", GENDERS, "man"))
    design = Design("format", factors, blocks=tuple(sorted(draws["format"].unique())))
    return draws.with_columns(prompt_id=pl.lit("p")).with_row_index("row"), design


def print_estimates(published: Path, texts: int) -> None:
    """Print the contrasts of the published texts, averaged over the other factor."""
    draws, design = make_setting(published, texts)
    settings = {("1.0", "1.0"): measure_lexical(cut_groups(draws, design))}
    fits = fit_measures(settings, design, study="s", model="m", measures=LEXICAL)
    print("| measure | contrast | estimate | p, formats fixed | p, formats random |")
    print("|---|---|---|---|---|")
    marginal = fits.filter(pl.col("coding") == "marginal")
    for (measure, term), rows in marginal.group_by("measure", "term", maintain_order=True):
        p = dict(zip(rows["scope"], rows["p_value"], strict=True))
        shown = " | ".join(f"{p[scope]:.3f}" for scope in SCOPES)
        print(f"| {measure} | {term} | {rows['estimate'][0]:.3f} | {shown} |")


def time_setting(published: Path | None, repeats: int) -> None:
    """Print the CPU seconds that one setting takes on one core, the best of the repeats."""
    draws, design = make_setting(published, 50)
    vectors = np.random.default_rng(SEED).normal(size=(draws.height, 384)).astype(np.float32)
    groups = cut_groups(draws, design)
    words = draws["text"].str.split(" ").list.len().mean()
    print(f"{draws.height} texts of {words:.0f} words, {len(groups.texts)} groups; CPU seconds")
    setting = measure_lexical(groups)["self-BLEU"]
    steps: dict[str, Callable[[], object]] = {
        "all lexical measures": lambda: measure_lexical(groups),
        "of that, compression ratio": lambda: _measure(groups, measure_compression),
        "Vendi score, 384 numbers a vector": lambda: vendi_of("e", vectors)(groups),
        "all contrasts of a measure, both scopes": lambda: [
            infer_measure(setting, design, design.blocks, scope) for scope in SCOPES
        ],
    }
    for name, step in steps.items():
        best = math.inf
        for _ in range(repeats):
            begin = time.process_time()
            step()
            best = min(best, time.process_time() - begin)
        print(f"| {name} | {best:.2f} |")


def _measure(groups: Groups, measure: Callable[[list[str]], Measured]) -> list[Measured]:
    return [measure(frame["text"].to_list()) for frame in groups.texts.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(required=True, dest="step")
    step = steps.add_parser("time")
    step.add_argument("--repeats", type=int, default=3)
    step.add_argument("--published", type=Path)
    step = steps.add_parser("estimates")
    step.add_argument("--published", type=Path, required=True)
    step.add_argument("--texts", type=int, default=50)
    step = steps.add_parser("level")
    step.add_argument("--design", choices=("labels", "names"), default="labels")
    step.add_argument("--studies", type=int, default=1000)
    step.add_argument("--texts", type=int, default=50)
    step.add_argument("--formats", type=int, default=4)
    step.add_argument("--vendi", action="store_true", help="of the Vendi score alone")
    step.add_argument("--published", type=Path)
    arguments = parser.parse_args()
    if arguments.step == "time":
        time_setting(arguments.published, arguments.repeats)
    elif arguments.step == "estimates":
        print_estimates(arguments.published, arguments.texts)
    elif arguments.published is not None:
        print_levels(draw_published(arguments.published, arguments.studies, arguments.texts))
    else:
        size = arguments.studies, arguments.texts, arguments.formats
        print_levels(draw_studies(*size, arguments.design == "names", arguments.vendi))


if __name__ == "__main__":
    main()
