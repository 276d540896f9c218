"""What fits say of each other: counts of significant settings, agreement of encoders and levels.

Every function takes rows of an ADJUSTED table, of one study and of the analysis `main`, any number
of models and encoders, and counts only estimates that can be relied on (`usable_fits`). Agreement
and correlation are over the cells model x setting x contrast, main effects in the published coding
only.

Source: homogeneity-bias-robustness, section 3.3 and appendices F, H, I and J.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from llm_variability.report.contrasts import (
    SIGNIFICANCE,
    Contrast,
    is_anchor,
    list_contrasts,
)
from llm_variability.report.level_tests import (
    CELL,
    PAIRWISE,
    PUBLISHED,
    TEXT_TESTS,
    LevelTest,
    list_tests,
    of_test,
)
from llm_variability.tables import Design

Setting = tuple[str, str | None]

STARS = (0.001, 0.01, SIGNIFICANCE)
"""p-values below each of them get one star more."""

_CELL = ["model", "temperature", "top_p", "term"]
_ESTIMATES = ["estimate", "p_value"]
_SERIES = ["measure", "level", "scope", "model", "coding", "term"]
NUMBERS = [
    "estimate",
    "std_error",
    "p_value",
    "ci_low",
    "ci_high",
    "simultaneous_low",
    "simultaneous_high",
    "p_holm",
    "p_bh",
    "family_size",
]
"""What a table says of one estimate."""


def usable_fits(fits: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Keep the estimates that can be relied on, of settings in which something is fitted."""
    return fits.filter(~is_anchor(design), pl.col("converged"), pl.col("estimate").is_not_null())


def main_contrasts(fits: pl.DataFrame, design: Design) -> list[Contrast]:
    """List the contrasts that are no interactions, in the order of the fits."""
    return [each for each in list_contrasts(fits["term"], design) if not each.is_interaction]


def name_contrasts(frame: pl.DataFrame, contrasts: Iterable[Contrast]) -> pl.DataFrame:
    """Keep the rows of the contrasts, and say how people call each."""
    return frame.join(_names(contrasts), on="term", how="inner", maintain_order="left")


def _names(contrasts: Iterable[Contrast]) -> pl.DataFrame:
    return pl.DataFrame(
        [(each.term, each.label, each.is_interaction) for each in contrasts],
        schema={"term": pl.String, "contrast": pl.String, "interaction": pl.Boolean},
        orient="row",
    )


def is_significant(column: str = "p_value") -> pl.Expr:
    """Tell p-values below the bound; one that is missing is not."""
    return (pl.col(column) < SIGNIFICANCE).fill_null(value=False)


def _count(rows: pl.Expr, name: str) -> pl.Expr:
    return rows.sum().cast(pl.Int64).alias(name)


def tabulate_signals(fits: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Count the settings in which each contrast is significant, by direction.

    Returns encoder, level, scope, model, coding, term, contrast, interaction, settings (those with
    an estimate), significant, positive, negative, significant_holm and significant_bh (after
    adjustment), mean_estimate (over all settings), in the order of the fits. Source: table 1.
    """
    counted = (
        usable_fits(fits, design)
        .group_by(_SERIES, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("settings"),
            _count(is_significant(), "significant"),
            _count(is_significant() & (pl.col("estimate") > 0), "positive"),
            _count(is_significant() & (pl.col("estimate") < 0), "negative"),
            _count(is_significant("p_holm"), "significant_holm"),
            _count(is_significant("p_bh"), "significant_bh"),
            pl.col("estimate").mean().alias("mean_estimate"),
        )
        .rename({"measure": "encoder"})
    )
    return name_contrasts(counted, list_contrasts(fits["term"], design))


def average_by_temperature(fits: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Average each main contrast's estimates over top-p, by temperature.

    Returns encoder, level, scope, model, coding, term, temperature (text), settings,
    mean_estimate, contrast, temperatures ascending. Source: figure 11.
    """
    averaged = (
        usable_fits(fits, design)
        .group_by([*_SERIES, "temperature"], maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("settings"),
            pl.col("estimate").mean().alias("mean_estimate"),
        )
        .rename({"measure": "encoder"})
    )
    return name_contrasts(averaged, main_contrasts(fits, design)).drop("interaction")


def _paired(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Put the estimates of the cells that both have side by side; the right ones end in _other."""
    return left.select(*_CELL, *_ESTIMATES).join(
        right.select(*_CELL, *_ESTIMATES),
        on=_CELL,
        how="inner",
        suffix="_other",
        nulls_equal=True,
        maintain_order="left",
    )


def _agreement() -> list[pl.Expr]:
    same = pl.col("estimate").sign() == pl.col("estimate_other").sign()
    return [
        pl.len().cast(pl.Int64).alias("cells"),
        same.mean().alias("sign_agreement"),
        pl.corr("estimate", "estimate_other").fill_nan(None).alias("pearson_r"),
        is_significant().sum().cast(pl.Int64).alias("significant"),
        same.filter(is_significant()).mean().alias("sign_agreement_significant"),
        (is_significant() & is_significant("p_value_other")).sum().cast(pl.Int64).alias("both"),
    ]


def _published_mains(fits: pl.DataFrame, design: Design) -> pl.DataFrame:
    usable = usable_fits(fits, design).filter(pl.col("coding") == PUBLISHED)
    return name_contrasts(usable, main_contrasts(fits, design))


def compare_encoders(fits: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Compare each further encoder's estimates with the first one's, test by test.

    Returns level, scope, coding, primary, encoder, cells, sign_agreement, significant_cells (of
    the primary), sign_agreement_significant (over these), pearson_r; shares are null where there
    is no cell, and r where it is undefined. No row if there is one encoder. Source: table 2.
    """
    usable = _published_mains(fits, design)
    encoders = fits["measure"].unique(maintain_order=True).to_list()
    rows = []
    for test in list_tests(fits):
        of_level = usable.filter(of_test(test))
        primary = of_level.filter(pl.col("measure") == encoders[0])
        for encoder in encoders[1:]:
            paired = _paired(primary, of_level.filter(pl.col("measure") == encoder))
            rows.append(
                paired.select(_agreement()).select(
                    *_labels(test),
                    pl.lit(encoders[0]).alias("primary"),
                    pl.lit(encoder).alias("encoder"),
                    "cells",
                    "sign_agreement",
                    pl.col("significant").alias("significant_cells"),
                    "sign_agreement_significant",
                    "pearson_r",
                )
            )
    return pl.concat(rows) if rows else pl.DataFrame()


def _labels(test: LevelTest) -> list[pl.Expr]:
    return [
        pl.lit(test.level).alias("level"),
        pl.lit(test.scope, pl.String).alias("scope"),
        pl.lit(PUBLISHED).alias("coding"),
    ]


def compare_levels(fits: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Compare the estimates of every other test with those from pairs, over all and by contrast.

    Returns encoder, level, scope, coding, term and contrast (null: all of them), cells,
    sign_agreement, pearson_r, pairwise_significant, retained (of these, significant in this test
    too), retained_share. Source: table 4 and appendix J, for the cell level.
    """
    contrasts = main_contrasts(fits, design)
    usable = _published_mains(fits, design)
    found = set(list_tests(fits))
    rows = []
    for encoder in fits["measure"].unique(maintain_order=True):
        of_encoder = usable.filter(pl.col("measure") == encoder)
        pairs = of_encoder.filter(of_test(PAIRWISE))
        for test in [each for each in (*TEXT_TESTS, CELL) if each in found]:
            paired = _paired(pairs, of_encoder.filter(of_test(test)))
            for contrast in [None, *contrasts]:
                part = (
                    paired if contrast is None else paired.filter(pl.col("term") == contrast.term)
                )
                rows.append(
                    part.select(_agreement()).select(
                        pl.lit(encoder).alias("encoder"),
                        *_labels(test),
                        pl.lit(contrast and contrast.term, pl.String).alias("term"),
                        pl.lit(contrast and contrast.label, pl.String).alias("contrast"),
                        "cells",
                        "sign_agreement",
                        "pearson_r",
                        pl.col("significant").alias("pairwise_significant"),
                        pl.col("both").alias("retained"),
                        pl.when(pl.col("significant") > 0)
                        .then(pl.col("both") / pl.col("significant"))
                        .alias("retained_share"),
                    )
                )
    return pl.concat(rows) if rows else pl.DataFrame()


def default_setting(settings: Iterable[Setting], design: Design) -> Setting | None:
    """Choose the setting that stands for the default: temperature 1 and top-p 1, if it is there.

    Else the temperature nearest to 1 (of two equally near ones the lower), and then the highest
    top-p. None if nothing is fitted in any setting.
    """
    fitted = [
        (temperature, top_p)
        for temperature, top_p in settings
        if not (float(temperature) == 0 and design.greedy_is_anchor)
    ]
    return min(fitted, key=_distance_from_default, default=None)


def _distance_from_default(setting: Setting) -> tuple[float, float, float]:
    temperature, top_p = float(setting[0]), float(setting[1] or 1)
    return abs(temperature - 1), temperature, -top_p


def is_published_default(setting: Setting) -> bool:
    """Tell whether a setting is temperature 1 and top-p 1."""
    return float(setting[0]) == 1 and float(setting[1] or 0) == 1


def at_setting(setting: Setting) -> pl.Expr:
    """Tell the rows of a setting."""
    return (pl.col("temperature") == setting[0]) & pl.col("top_p").eq_missing(
        pl.lit(setting[1], pl.String)
    )


def tabulate_default(fits: pl.DataFrame, design: Design) -> pl.DataFrame:
    """Give every contrast's estimate at the default setting, by encoder, test and model.

    A model without a fit there has a row with the reason and no contrast; an estimate that cannot
    be relied on is left out likewise. Source: tables 3 and 5.
    """
    settings = fits.select("temperature", "top_p").unique(maintain_order=True).rows()
    setting = default_setting(settings, design)
    if setting is None:
        return pl.DataFrame()
    return list_estimates(fits.filter(at_setting(setting)), design)


def list_estimates(fits: pl.DataFrame, design: Design, *more: str) -> pl.DataFrame:
    """Name every row's contrast; leave numbers out that cannot be relied on, and say why.

    fits: rows of an ADJUSTED table of one study. Intercepts are left out; rows without a term are
    kept. more: further columns. Returns encoder (the measure), level, scope, model, coding, term,
    contrast, interaction, temperature, top_p, `NUMBERS`, stars, reason and the further columns.
    """
    usable = pl.col("converged") & pl.col("estimate").is_not_null()
    named = fits.join(
        _names(list_contrasts(fits["term"], design)), on="term", how="left", maintain_order="left"
    ).filter(pl.col("contrast").is_not_null() | pl.col("term").is_null())
    stars = sum((pl.col("p_value") < bound).cast(pl.Int64) for bound in STARS)
    return named.select(
        pl.col("measure").alias("encoder"),
        "level",
        "scope",
        "model",
        "coding",
        "term",
        "contrast",
        "interaction",
        "temperature",
        "top_p",
        *(pl.when(usable).then(pl.col(name)).alias(name) for name in NUMBERS),
        pl.when(usable).then(stars).alias("stars"),
        pl.when(~usable)
        .then(pl.col("reason").fill_null("the fit did not converge"))
        .alias("reason"),
        *more,
    )
