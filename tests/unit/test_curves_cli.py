"""The command of stage curves: what it reads, what it writes, what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from llm_variability.curves import VERSION
from llm_variability.curves.__main__ import main
from llm_variability.tables import Design, read_metadata, read_table, write_table
from llm_variability.tables_code import (
    AVERAGES,
    CURVE_CONTRASTS,
    CURVE_FITS,
    CURVE_SUMMARIES,
    CURVES,
)

DESIGN = Design(
    block="task",
    factors=(),
    carried=("set", "language", "augmentation", "method", "rate", "variant"),
)
TABLES = {
    "curves": CURVES,
    "summaries": CURVE_SUMMARIES,
    "contrasts": CURVE_CONTRASTS,
    "fits": CURVE_FITS,
}
SETS = {"old": 5, "new": 4}


def write_averages(
    path: Path, model: str, measure: str, study: str = "code", seed: int = 1
) -> Path:
    """Write averages of two sets, two settings and a method at three rates."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for temperature, top_p in (("0", None), ("1.0", "0.9")):
        for name, size in SETS.items():
            for i in range(size):
                head = {
                    "temperature": temperature,
                    "top_p": top_p,
                    "measure": measure,
                    "task": f"{name}/{i}",
                    "set": name,
                    "language": "python",
                    "variant": "0",
                    "bleu": None,
                    "draws": 5,
                    "programs": 5,
                    "n_pairs": 25,
                    "within_ss": 0.1,
                }
                for comparison, rate, mean in (
                    ("ceiling", "0", rng.uniform(0.8, 1)),
                    ("floor", "0", rng.uniform(0.1, 0.3)),
                    ("augmented", "0.1", rng.uniform(0.6, 0.8)),
                    ("augmented", "0.5", rng.uniform(0.3, 0.5)),
                    ("augmented", "1.0", rng.uniform(0.1, 0.3)),
                ):
                    method = "keyboard" if comparison == "augmented" else "original"
                    cell = f"{method}-{rate}" if comparison == "augmented" else method
                    rows.append(
                        {
                            **head,
                            "comparison": comparison,
                            "method": method,
                            "rate": rate,
                            "augmentation": cell,
                            "prompt_id": f"{name}-{i}-{cell}",
                            "realised": float(rate),
                            "mean": mean,
                        }
                    )
    frame = pl.DataFrame(rows, infer_schema_length=None)
    metadata = {"study": study, "model": model, "design": DESIGN.to_json()}
    write_table(frame, path, AVERAGES, metadata)
    return path


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, averages: list[Path], *more: str) -> None:
    outputs = [part for name in TABLES for part in (f"--{name}", str(folder / f"{name}.parquet"))]
    command = [
        "curves",
        *("--study", "code"),
        *("--averages", *map(str, averages)),
        *("--seed", "1"),
        *("--resamples", "200"),
        *outputs,
        *more,
    ]
    monkeypatch.setattr(sys, "argv", command)
    main()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame]:
    """Run the stage on two models and two measures; give its tables."""
    folder = tmp_path_factory.mktemp("curves")
    averages = [
        write_averages(folder / f"{model}-{measure}.parquet", model, measure, seed=seed)
        for seed, (model, measure) in enumerate(
            [("m", "tsed"), ("n", "tsed"), ("m", "minilm"), ("n", "minilm")]
        )
    ]
    with pytest.MonkeyPatch.context() as monkeypatch:
        run(monkeypatch, folder, averages, "--sets", "old", "new")
    for name in TABLES:
        metadata = read_metadata(folder / f"{name}.parquet")
        assert (metadata["study"], metadata["curves_version"]) == ("code", VERSION)
    return {name: read_table(folder / f"{name}.parquet", each) for name, each in TABLES.items()}


def test_every_model_measure_setting_and_set_has_a_curve_and_its_summaries(
    written: dict[str, pl.DataFrame],
) -> None:
    # 2 models x 2 measures x 2 settings x 3 (two sets and all) x 6 points (two lines, four rates).
    assert written["curves"].height == 2 * 2 * 2 * 3 * 6
    assert written["summaries"].height == 2 * 2 * 2 * 3 * 3
    assert written["curves"]["rescaled"].null_count() == 0
    assert written["summaries"]["ci_low"].null_count() == 0


def test_differences_of_sets_are_the_newer_less_the_older(
    written: dict[str, pl.DataFrame],
) -> None:
    sets = written["contrasts"].filter(kind="set")
    assert sets.select("first", "second").unique().rows() == [("new", "old")]
    # 2 models x 2 measures x 2 settings x (3 summaries and two lines).
    assert sets.height == 2 * 2 * 2 * 5


def test_a_difference_is_that_of_the_summaries(written: dict[str, pl.DataFrame]) -> None:
    where = {"measure": "tsed", "temperature": "0", "summary": "half_life"}
    of_model = {
        row["model"]: row["estimate"]
        for row in written["summaries"]
        .filter(pl.col("set").is_null(), **where)
        .iter_rows(named=True)
    }
    row = written["contrasts"].filter(pl.col("set").is_null(), kind="model", **where)
    assert row.select("first", "second").rows() == [("m", "n")]
    assert row["estimate"].item() == pytest.approx(of_model["m"] - of_model["n"])


def test_slopes_of_mixed_models_are_adjusted_over_models_and_intercepts_are_not(
    written: dict[str, pl.DataFrame],
) -> None:
    fits = written["fits"].filter(measure="tsed", level="task", random="intercept")
    slopes = fits.filter(pl.col("p_value").is_not_null(), term="rate")
    assert slopes.height == 2 * 2 * 3
    assert slopes["family_size"].unique().to_list() == [12]
    assert (slopes["p_holm"] >= slopes["p_value"]).all()
    assert fits.filter(term="intercept")["p_holm"].null_count() == 12


def test_averages_of_another_study_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    averages = write_averages(tmp_path / "averages.parquet", "m", "tsed", study="other")
    with pytest.raises(SystemExit):
        run(monkeypatch, tmp_path, [averages])
    assert f"{averages}: is of study other; allowed: code" in caplog.text
    assert not (tmp_path / "curves.parquet").exists()


def test_the_same_averages_twice_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    averages = write_averages(tmp_path / "averages.parquet", "m", "tsed")
    with pytest.raises(SystemExit):
        run(monkeypatch, tmp_path, [averages, averages])
    assert "there twice; allowed: once" in caplog.text
