"""Profile REML beside statsmodels' MixedLM, on one setting of the published size.

    python benchmarks/fits.py [--texts 50] [--repeats 5]

Vectors of unit length are drawn for 13 formats x 4 races x 2 genders, with directions that the
formats and the groups share. statsmodels gets the single pairwise cosines, the profile the
groups' counts, means and sums of squares. Prints one table: seconds (the best of the repeats, in
one run), how many times as long as the profile, and the largest differences from it.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
from statsmodels.regression.mixed_linear_model import MixedLM

from llm_variability.fits.coding import code_full_factorial
from llm_variability.fits.mixedlm import fit_mixedlm
from llm_variability.fits.profile import fit_profile
from llm_variability.fits.random_intercept import GroupedOutcome, RandomInterceptFit
from llm_variability.tables import Factor

FORMATS = 13
FACTORS = (
    Factor("race", ("White", "African", "Asian", "Hispanic"), "White"),
    Factor("gender", ("man", "woman"), "man"),
)


def simulate_pairs(texts: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw z-scored pairwise cosines, their design rows and the numbers of their formats."""
    rng = np.random.default_rng(seed)
    _, coding = code_full_factorial(FACTORS)
    formats = rng.normal(size=(FORMATS, 64))
    groups = 0.3 * rng.normal(size=(len(coding), 64))
    upper = np.triu_indices(texts, k=1)
    cosines = []
    for centre in formats:
        for direction in groups:
            vectors = centre + direction + 0.9 * rng.normal(size=(texts, 64))
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            cosines.append((vectors @ vectors.T)[upper])
    pairs = np.concatenate(cosines)
    n_pairs = len(upper[0])
    rows = np.repeat(np.tile(coding, (FORMATS, 1)), n_pairs, axis=0)
    block = np.repeat(np.arange(FORMATS), n_pairs * len(coding))
    return (pairs - pairs.mean()) / pairs.std(ddof=1), rows, block


def group_pairs(z: np.ndarray, rows: np.ndarray, block: np.ndarray, texts: int) -> GroupedOutcome:
    """Count, average and spread of the pairs of each format x group; they lie in sequence."""
    n_pairs = texts * (texts - 1) // 2
    values = z.reshape(-1, n_pairs)
    return GroupedOutcome(
        block=block[::n_pairs],
        coding=rows[::n_pairs],
        count=np.full(len(values), n_pairs),
        mean=values.mean(axis=1),
        within_ss=((values - values.mean(axis=1, keepdims=True)) ** 2).sum(axis=1),
    )


def fit_pairs(
    z: np.ndarray, rows: np.ndarray, block: np.ndarray, method: str | None
) -> RandomInterceptFit:
    """Fit the single pairs with statsmodels; no method is statsmodels' default."""
    options = {"method": method, "ftol": 1e-14, "maxiter": 1000} if method else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = MixedLM(z, rows, block).fit(reml=True, **options)
        return RandomInterceptFit(
            np.asarray(fit.fe_params),
            np.asarray(fit.bse_fe),
            float(fit.cov_re[0, 0]),
            float(fit.scale),
            bool(fit.converged),
        )


def best_time(
    fit: Callable[[], RandomInterceptFit], repeats: int
) -> tuple[float, RandomInterceptFit]:
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = fit()
        seconds.append(time.perf_counter() - begin)
    return min(seconds), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=50, help="texts in each format x group")
    parser.add_argument("--repeats", type=int, default=5, help="runs, of which the best counts")
    arguments = parser.parse_args()
    z, rows, block = simulate_pairs(arguments.texts)
    outcome = group_pairs(z, rows, block, arguments.texts)
    reference_time, reference = best_time(lambda: fit_profile(outcome), 10 * arguments.repeats)
    fits: dict[str, Callable[[], RandomInterceptFit]] = {
        "statsmodels, its default": lambda: fit_pairs(z, rows, block, None),
        "statsmodels, lbfgs": lambda: fit_pairs(z, rows, block, "lbfgs"),
        "statsmodels, nm": lambda: fit_pairs(z, rows, block, "nm"),
        "statsmodels, powell": lambda: fit_pairs(z, rows, block, "powell"),
        "backend: statsmodels": lambda: fit_mixedlm(outcome),
    }
    print(f"{len(z):,} pairs, {FORMATS} formats, {len(outcome.count)} groups; best of several runs")
    print(
        f"Python {platform.python_version()}, numpy {version('numpy')},"
        f" statsmodels {version('statsmodels')}\n"
    )
    print("| fit | seconds | x profile | estimates | std. errors | var_block | says converged |")
    print("|---|---|---|---|---|---|---|")
    print(f"| profile | {reference_time:.4f} | 1 | | | {reference.var_block:.6f} | yes |")
    for name, fit in fits.items():
        seconds, result = best_time(fit, arguments.repeats)
        estimates = np.abs(result.estimate - reference.estimate).max()
        errors = np.abs(result.std_error / reference.std_error - 1).max()
        print(
            f"| {name} | {seconds:.2f} | {seconds / reference_time:,.0f} | {estimates:.1e} |"
            f" {errors:.1e} | {result.var_block:.6f} | {'yes' if result.converged else 'no'} |"
        )
    print("\nestimates: largest difference; std. errors: largest relative difference")


if __name__ == "__main__":
    main()
