"""Which models are most sensitive, in made-up tables whose order is known."""

from __future__ import annotations

import polars as pl

from llm_variability.report import rankings
from llm_variability.report.level_tests import TEXT_FIXED

TEXT = {
    "encoder": "e",
    "measure": "e",
    "level": "text",
    "scope": TEXT_FIXED.scope,
    "coding": "marginal",
}


def signals(*rows: tuple[str, int, int, bool]) -> pl.DataFrame:
    """Rows of model, tests that Holm leaves, settings, and whether it is an interaction."""
    names = ("model", "significant_holm", "settings", "interaction")
    return pl.DataFrame([TEXT | dict(zip(names, row, strict=True)) for row in rows])


def test_models_are_ordered_by_the_share_that_holm_leaves_over_main_contrasts():
    found = signals(("a", 1, 4, False), ("a", 0, 4, False), ("b", 3, 4, False), ("b", 2, 4, False))
    told = rankings.rank_by_signals(found, "e", "marginal", " within each model")
    assert told is not None
    assert told.endswith("after Holm within each model: b (5 of 8, 62.5%) and a (1 of 8, 12.5%).")
    with_interaction = pl.concat([found, signals(("a", 4, 4, True))])
    assert rankings.rank_by_signals(with_interaction, "e", "marginal", " within each model") == told


def test_one_model_is_in_no_order():
    assert rankings.rank_by_signals(signals(("a", 1, 4, False)), "e", "marginal", "") is None
    heights = pl.DataFrame([height("a", "keyboard", 0.2)])
    assert rankings.rank_by_height(heights) is None


def fit(
    model: str, term: str, estimate: float, temperature: str, converged: bool = True
) -> dict[str, object]:
    place = {"model": model, "term": term, "temperature": temperature, "top_p": "1.0"}
    return TEXT | place | {"estimate": estimate, "converged": converged}


def test_models_are_ordered_by_the_mean_range_of_beta_over_settings():
    rows = [fit("a", "x", 0.1, "0.5"), fit("a", "x", 0.3, "1.0"), fit("a", "x", 9.0, "2.0")]
    rows += [fit("a", "y", -0.2, "0.5"), fit("a", "y", 0.2, "1.0")]
    rows += [fit("b", "x", -0.5, "0.5"), fit("b", "x", 0.5, "1.0")]
    rows += [fit("b", "y", 0.0, "0.5"), fit("b", "y", 0.6, "1.0")]
    rows += [fit("b", "x", 9.0, "2.0", converged=False), fit("b", "x:y", 9.0, "0.5")]
    rows += [fit("c", "x", 9.0, "0.5")]
    told = rankings.rank_by_range(pl.DataFrame(rows), "e", "marginal", ["x", "y"])
    assert told is not None
    # a: (0.2 + 0.4) / 2; b: (1 + 0.6) / 2. At 2.0 b's fit did not converge, so a's does not
    # count; c has one setting, so no range.
    assert told.endswith("averaged over contrasts: b (0.80) and a (0.30).")


def height(model: str, method: str, estimate: float | None) -> dict[str, object]:
    place = {"set": None, "summary": "auc"}
    return place | {"model": model, "method": method, "estimate": estimate}


def test_the_model_whose_curves_lie_lowest_is_most_sensitive_over_methods_that_all_have():
    rows = [height("a", "keyboard", 0.8), height("b", "keyboard", 0.5), height("b", "synonym", 1.0)]
    told = rankings.rank_by_height(pl.DataFrame([*rows, height("a", "synonym", None)]))
    assert told is not None
    assert told.endswith("curve under keyboard: b (0.50) and a (0.80).")


def test_differences_between_methods_are_counted_over_settings_and_after_holm():
    row = {"measure": "tsed", "summary": "auc", "set": None, "kind": "method"}
    found = [
        row | {"p_value": p_value, "p_holm": holm}
        for p_value, holm in ((0.01, 0.04), (0.04, 0.2), (0.05, 0.3), (None, None))
    ]
    assert rankings.count_differences(pl.DataFrame(found), "tsed") == [
        "Two methods differ in the mean height of the curve, tasks drawn anew, with p < .05 in 2 of"
        " 3 pairs of methods × models × settings, after Holm in 1."
    ]
    one = rankings.count_differences(pl.DataFrame(found[:1]), "tsed")
    assert one[0].endswith("1 of 1 pair of methods × model × setting, after Holm in 1.")


def test_models_are_ordered_by_how_far_personas_are_apart_over_settings():
    rows = [
        {"measure": "tsed", "model": model, "difference": difference}
        | {"temperature": temperature, "top_p": "1.0"}
        for model, temperature, difference in (
            ("a", "0.5", 0.1),
            ("a", "1.0", 0.3),
            ("b", "0.5", -0.1),
            ("b", "1.0", None),
        )
    ]
    told = rankings.rank_by_separation(pl.DataFrame(rows), "tsed")
    assert told is not None
    assert told.endswith("averaged over the settings that all have (tsed): a (0.10) and b (−0.10).")


def test_models_with_the_same_number_are_in_no_order():
    assert rankings.tell_order([("a", "0"), ("b", "0")]) == "all 2 alike (0)"


def test_of_many_models_both_ends_are_told():
    told = rankings.tell_order([(f"m{number}", str(number)) for number in range(6)])
    assert told == "m0 (0), m1 (1), m2 (2); least, of 6 models, m5 (5)"
