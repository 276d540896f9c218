"""How long the answers are, and how many are cut or empty, by model and temperature.

Models differ in how they keep to a wished length, and cosine depends on length.
Source: homogeneity-bias-robustness, limitations (the seventh).
"""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from llm_variability.report.figures import draw_headings, figure_style
from llm_variability.report.lines import Line, Panel, draw_panels

MEASURES = {
    "mean_words": "mean words a text",
    "truncated_share": "cut at the token limit",
    "empty_share": "empty",
}
"""What is shown by temperature: column and name."""

_COUNTED = ["draws", "texts", "words", "truncated", "empty"]


def measure_lengths(cells: pl.DataFrame) -> pl.DataFrame:
    """Add up words, cut and empty draws by model and temperature, and over all temperatures.

    cells: rows of the draw counts of one study. Texts are the draws that left something to
    measure, cut ones among them; the shares are of all draws. Null where there is nothing to
    divide by.
    Returns model, temperature (null: all of them), draws, texts, words, mean_words, truncated,
    truncated_share, empty, empty_share: models in their order, the sum over temperatures first.
    """
    sums = [pl.col(name).sum() for name in _COUNTED]
    cells = cells.with_columns((pl.col("ok") + pl.col("truncated")).alias("texts"))
    overall = cells.group_by("model", maintain_order=True).agg(
        pl.lit(None, pl.String).alias("temperature"), *sums
    )
    by_temperature = cells.group_by("model", "temperature", maintain_order=True).agg(*sums)
    rank = {name: at for at, name in enumerate(overall["model"])}
    return (
        pl.concat([overall, by_temperature])
        .sort(
            pl.col("model").replace_strict(rank, return_dtype=pl.Int64),
            pl.col("temperature").cast(pl.Float64),
            nulls_last=False,
        )
        .select(
            "model",
            "temperature",
            "draws",
            "texts",
            "words",
            _share("words", "texts").alias("mean_words"),
            "truncated",
            _share("truncated", "draws").alias("truncated_share"),
            "empty",
            _share("empty", "draws").alias("empty_share"),
        )
    )


def _share(part: str, whole: str) -> pl.Expr:
    return pl.when(pl.col(whole) > 0).then(pl.col(part) / pl.col(whole))


def _line(lengths: pl.DataFrame, model: str, measure: str) -> Line:
    points = (
        lengths.filter(pl.col("model") == model)
        .drop_nulls(["temperature", measure])
        .with_columns(pl.col("temperature").cast(pl.Float64))
        .sort("temperature")
    )
    return Line(points["temperature"].to_list(), points[measure].to_list())


def draw_lengths(lengths: pl.DataFrame, study: str) -> Figure:
    """Draw mean words, cut and empty shares against temperature, a line a model.

    lengths: as `measure_lengths` gives them.
    """
    models = lengths["model"].unique(maintain_order=True).to_list()
    title = f"Length of answers, {study}"
    with figure_style():
        panels: list[Panel] = []
        for measure, name in MEASURES.items():
            lines = {model: _line(lengths, model, measure) for model in models}
            panels.append((name, {model: line for model, line in lines.items() if line.values}))
        if not any(lines for _, lines in panels):
            figure = Figure(figsize=(6.4, 1.6))
            draw_headings(figure, title, "No draw was made.")
            return figure
        figure = draw_panels(
            panels,
            models,
            legend="model",
            y_labels=["words", "share of draws", "share of draws"],
            columns=3,
            share_y=False,
        )
        for axes, (_, shown) in zip(figure.axes, panels, strict=False):
            most = max((max(line.values) for line in shown.values()), default=0.0)
            axes.set_ylim(-0.04 * (most or 0.01), 1.08 * (most or 0.01))
        for axes in figure.axes[1:3]:
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        greedy = " · hollow: greedy decoding" if (lengths["temperature"] == "0").any() else ""
        draw_headings(figure, title, f"Over all prompts and top-p, by temperature{greedy}")
    return figure
