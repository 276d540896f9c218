"""Many tests: p values adjusted over a family, by Holm and by Benjamini and Hochberg."""

from __future__ import annotations

import polars as pl

from llm_variability.fits.coding import INTERCEPT
from llm_variability.tables import ADJUSTED

FAMILIES = {
    "study": (),
    "model": ("model",),
    "setting": ("model", "temperature", "top_p"),
}
"""Columns that a family has one value of, besides `_APART`."""

_APART = ["study", "analysis", "measure", "level", "scope"]
"""Columns whose values never share a family: other ways to test the same hypotheses."""

_READING = "reading"


def adjust_p_values(fits: pl.DataFrame, family: str = "study") -> pl.DataFrame:
    """Adjust the p values of each family for their number.

    A family is the tests of all contrasts, in all settings of all models of a study (`study`), of
    each model (`model`) or of one setting (`setting`), made at one level and scope on one measure
    in one analysis: another encoder, level or analysis asks the same questions again and is a
    family of its own. The published coding is one reading, marginal contrasts and interactions
    together are another. Intercepts ask nothing and are in no family; they and rows without a p
    value keep nulls, and `family_size` counts the p values only.

    fits: rows of FITS tables. Returns them in their order, as an ADJUSTED table: `p_holm` bounds
    the probability of any false rejection whatever the dependence of the tests, `p_bh` the
    expected share of false ones among the rejections if they are independent or positively
    dependent.
    Raises ValueError unless the family is one of `FAMILIES`.
    Source: Holm 1979, Scandinavian Journal of Statistics 6; Benjamini and Hochberg 1995, Journal
    of the Royal Statistical Society B 57.
    """
    if family not in FAMILIES:
        raise ValueError(f"family: {family!r} is none of {', '.join(FAMILIES)}")
    marginal = pl.col("coding").is_in(["marginal", "interaction"])
    rows = fits.with_columns(
        pl.when(marginal).then(pl.lit("marginal")).otherwise(pl.col("coding")).alias(_READING)
    )
    asked = pl.col("term").ne_missing(pl.lit(INTERCEPT))
    adjusted = adjust_within(rows, asked, [*_APART, _READING, *FAMILIES[family]])
    return adjusted.select(*ADJUSTED.columns)


def adjust_within(rows: pl.DataFrame, asked: pl.Expr, family: list[str]) -> pl.DataFrame:
    """Adjust the p values of rows within families.

    rows: with a column `p_value`. asked: which of them ask something. family: columns that a family
    has one value of. Returns the rows in their order with `p_holm`, `p_bh` and `family_size`, null
    where there is no p value or nothing is asked.
    """
    numbered = rows.with_row_index("row")
    tested = numbered.filter(pl.col("p_value").is_not_null() & asked)
    parts = [_adjust_family(part) for part in tested.partition_by(family, maintain_order=True)]
    adjusted = pl.concat([_adjust_family(tested.clear()), *parts])
    return numbered.join(adjusted, on="row", how="left", maintain_order="left").drop("row")


_NEW_COLUMNS = {name: ADJUSTED.columns[name].dtype for name in ("p_holm", "p_bh", "family_size")}


def _adjust_family(tested: pl.DataFrame) -> pl.DataFrame:
    """Adjust the p values of one family.

    tested: columns `row` and `p_value`, no p value null. Returns a row each: `row`, `p_holm`,
    `p_bh`, `family_size`; none for none.
    """
    if not tested.height:
        return pl.DataFrame(schema={"row": pl.UInt32, **_NEW_COLUMNS})
    from statsmodels.stats.multitest import multipletests  # slow to import; fitting needs none

    p = tested["p_value"].to_numpy()
    return pl.DataFrame(
        {
            "row": tested["row"],
            "p_holm": multipletests(p, method="holm")[1],
            "p_bh": multipletests(p, method="fdr_bh")[1],
            "family_size": len(p),
        },
        schema={"row": pl.UInt32, **_NEW_COLUMNS},
    )
