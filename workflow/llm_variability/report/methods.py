"""What the page says of its methods: how often the tests are wrong where the truth is known."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from llm_variability.report.level_tests import LEVEL_TESTS
from llm_variability.report.pictures import Context, embed_drawing
from llm_variability.report.wording import percent


def arrange_calibration(path: Path | None) -> Context | None:
    """Write the rates of the tests in simulated studies; None without a table of them."""
    if path is None:
        return None
    from llm_variability.calibration.figure import TITLE, draw_calibration
    from llm_variability.calibration.table import load_calibration, select_shown, state_findings

    table = load_calibration(path)
    keys = {
        f"{test.level}, {test.scope}" if test.scope else test.level: test for test in LEVEL_TESTS
    }
    shown = select_shown(table)
    rows = [
        {
            "design": row["design"],
            "texts": row["texts"],
            "scope": row["scope"],
            "test": keys[row["test"]].label,
            "own": row["own"],
            "false_positives": percent(row["false_positives"]),
            "covered": percent(row["covered"]),
            "power": percent(row["power"]),
            "keeps_level": row["keeps_level"],
        }
        for row in shown.iter_rows(named=True)
        if row["texts"] == shown["texts"].max()
    ]
    simulated = table.filter(pl.col("test").is_in(list(keys)))
    of_names = simulated["design"].str.starts_with("names")
    studies = max(simulated["studies"].to_list(), default=0)
    findings = state_findings(table)
    return {
        "rows": rows,
        "studies": f"{studies:,}",
        "fewest_texts": simulated.filter(~of_names)["texts"].min(),
        "fewest_names": simulated.filter(of_names)["texts"].min(),
        "findings": findings,
        "figure": embed_drawing(draw_calibration(table), TITLE, f"{TITLE}. {' '.join(findings)}"),
    }
