"""Make pairs.csv, a small study: 4 formats x 4 races x 2 genders x 8 texts, and their cosines.

    python tests/statistics/reference/make_pairs.py > tests/statistics/reference/pairs.csv

`uneven` says whether a pair is left where groups have 6, 7 or 8 texts.
"""

from __future__ import annotations

import csv
import sys
from itertools import combinations, product

import numpy as np

FORMATS = ("biography", "essay", "poem", "story")
RACES = ("White", "African", "Asian", "Hispanic")
GENDERS = ("man", "woman")
TEXTS = 8


def main() -> None:
    rng = np.random.default_rng(20151)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["format", "race", "gender", "first", "second", "cosine", "uneven"])
    of_format = dict(zip(FORMATS, (0.0, 0.5, -0.4, 0.9), strict=True))
    of_race = dict(zip(RACES, (0.0, 0.35, 0.3, 0.1), strict=True))
    for number, (form, race, gender) in enumerate(product(FORMATS, RACES, GENDERS)):
        centre = 2.5 + of_format[form] + of_race[race] + rng.normal(0, 0.15)
        texts = rng.normal(size=(TEXTS, 8))
        texts[:, 0] += centre + rng.gamma(2, 0.4, TEXTS) * -1
        texts /= np.linalg.norm(texts, axis=1, keepdims=True)
        left = TEXTS - number % 3
        for i, j in combinations(range(TEXTS), 2):
            cosine = f"{float(texts[i] @ texts[j]):.9f}"
            writer.writerow([form, race, gender, i + 1, j + 1, cosine, int(j < left)])


if __name__ == "__main__":
    main()
