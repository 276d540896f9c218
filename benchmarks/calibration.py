"""How often each test rejects and each interval covers, in studies whose truth is known.

    python benchmarks/calibration.py [--studies 20000] [--seed 4] [--csv FILE] [--only WORD]
    python benchmarks/calibration.py --refits 20

The simulation is `llm_variability.calibration`, which `snakemake calibration` runs in full. Every
test is computed from sufficient statistics for many studies at once; `--refits` compares the
closed forms of the mixed models with fits by the package and by statsmodels, one study at a time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

try:
    import llm_variability  # noqa: F401
except ModuleNotFoundError:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from llm_variability.calibration.candidates import infer_mixed
from llm_variability.calibration.document import PARTS
from llm_variability.calibration.rates import run_studies
from llm_variability.calibration.studies import (
    DESIGNS,
    Study,
    draw_sample,
    list_studies,
)
from llm_variability.calibration.table import KIND, tabulate_rates
from llm_variability.fits.coding import code_full_factorial
from llm_variability.fits.mixedlm import fit_mixedlm
from llm_variability.fits.profile import fit_profile
from llm_variability.fits.random_intercept import GroupedOutcome, collapse_to_means
from llm_variability.fits.text_inference import FORMATS_RANDOM


def compare_refits(refits: int, seed: int) -> None:
    """Print how far the closed forms are from fits of the same studies, and how long each takes."""
    study = Study("", "4 x 2 groups", 50, FORMATS_RANDOM, slope=0.04)
    _, coding = code_full_factorial(DESIGNS[study.design])
    weights = np.linalg.inv(coding)
    sample = draw_sample(study, refits, np.random.default_rng(seed))
    print("| level | fit | CPU seconds a fit | largest difference: estimate | its std. error |")
    print("|---|---|---:|---:|---:|")
    for level in ("pairwise", "cell"):
        begin = time.process_time()
        closed = infer_mixed(sample, weights, level)
        seconds = (time.process_time() - begin) / refits
        print(f"| {level} | closed form, all at once | {seconds:.6f} | | |")
        for name, fitter in (("profile", fit_profile), ("statsmodels", fit_mixedlm)):
            taken, apart = 0.0, np.zeros((refits, 2))
            for i in range(refits):
                outcome = GroupedOutcome(
                    block=np.repeat(np.arange(study.formats), len(coding)),
                    coding=np.tile(coding, (study.formats, 1)),
                    count=np.full(study.formats * len(coding), sample.pairs),
                    mean=sample.means[i].ravel(),
                    within_ss=sample.within_ss[i].ravel(),
                )
                begin = time.process_time()
                fit = fitter(outcome if level == "pairwise" else collapse_to_means(outcome))
                taken += time.process_time() - begin
                error = closed.std_error[i][1:]
                apart[i] = (
                    np.abs(fit.estimate - closed.estimate[i])[1:].max(),
                    np.abs(fit.std_error[1:] / error - 1).max(),
                )
            estimate, error = apart.max(axis=0)
            print(f"| {level} | {name} | {taken / refits:.4f} | {estimate:.1e} | {error:.1e} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=20_000, help="simulated studies of a kind")
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--csv", type=Path, help="write all results here too")
    parser.add_argument("--only", default="", help="kinds whose name has this in it")
    parser.add_argument("--refits", type=int, help="compare with this many fits, and end")
    arguments = parser.parse_args()
    if arguments.refits:
        compare_refits(arguments.refits, arguments.seed)
        return
    begin = time.perf_counter()
    kinds = [study for study in list_studies() if arguments.only in study.name]
    found = run_studies(kinds, arguments.studies, arguments.seed, os.cpu_count() or 1)
    table = tabulate_rates([rate for rates in found for rate in rates], arguments.seed)
    for part in ("package", "others", "names", "findings"):
        print(f"{PARTS[part](table)}\n")
    if arguments.csv:
        table.write_csv(arguments.csv)
    print(f"{table.select(KIND).n_unique()} kinds, {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
