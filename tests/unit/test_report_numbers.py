"""The report's tables and the sentences made of them."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from llm_variability.report import alarms, findings
from llm_variability.report.contrasts import list_contrasts, name_contrast, place_contrast
from llm_variability.report.level_tests import CELL, PAIRWISE, TEXT_FIXED, TEXT_RANDOM
from llm_variability.report.provenance import without_own_folders
from llm_variability.report.schemas import SCHEMAS
from llm_variability.report.summaries import (
    collect_tables,
    count_draws,
    mean_cosine_by_group,
    measure_determinism,
    read_tables,
    write_tables,
)
from llm_variability.report.wording import anchor, listing, p_text, percent, show_text, signed
from llm_variability.tables import Design, Factor

inputs = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("report_inputs.py"))))

TWO_GROUPS = Design("format", (Factor("race", ("Asian", "White"), "White"),), blocks=("a", "b"))


def similarity_rows(*rows: tuple[str, str | None, str, str, int, float]) -> pl.DataFrame:
    names = ["temperature", "top_p", "format", "race", "n_mates", "cosine_sum"]
    return pl.DataFrame(
        list(rows),
        schema=dict.fromkeys(names[:4], pl.String)
        | {"n_mates": pl.Int32}
        | {"cosine_sum": pl.Float64},
        orient="row",
    )


def counts_row(prompt: str, temperature: str = "1.0", **given: int) -> dict[str, object]:
    zero = dict.fromkeys(["ok", "empty", "truncated", "no_answer", "error"], 0)
    row = {
        "prompt_id": prompt,
        "temperature": temperature,
        "distinct_texts": 1,
        "top_p": None if temperature == "0" else "1.0",
        "completion_tokens": 10,
        "words": 30,
        **zero,
        **given,
    }
    return row | {"draws": sum(int(row[status]) for status in zero)}


def fits_frame(*rows: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=inputs.SCHEMA)


def fitted(term: str, estimate: float, p_value: float, top_p: str = "1.0", **given: object):
    return inputs.fit_row(
        "labels",
        "m",
        "e",
        given.pop("level", "pairwise"),
        ("1.0", top_p),
        **{"term": term, "estimate": estimate, "p_value": p_value, "converged": True} | given,
    )


# ------------------------------------------------------------------------------ mean cosine


def test_the_mean_cosine_of_a_group_weighs_every_pair_once():
    # Block a: three texts with pair cosines .2, .4, .6; block b: two texts with cosine .8.
    # The four pairs have the mean (.2 + .4 + .6 + .8) / 4 = .5.
    table = similarity_rows(
        ("1.0", "1.0", "a", "Asian", 2, 0.2 + 0.4),
        ("1.0", "1.0", "a", "Asian", 2, 0.2 + 0.6),
        ("1.0", "1.0", "a", "Asian", 2, 0.4 + 0.6),
        ("1.0", "1.0", "b", "Asian", 1, 0.8),
        ("1.0", "1.0", "b", "Asian", 1, 0.8),
    )
    means = mean_cosine_by_group(table, TWO_GROUPS)
    assert means.height == 1
    assert means["mean_cosine"][0] == pytest.approx(0.5)
    assert means.select("texts", "pairs").row(0) == (5, 4)


def test_a_group_without_a_pair_has_no_mean_rather_than_zero():
    means = mean_cosine_by_group(similarity_rows(("1.0", "1.0", "a", "White", 0, 0.0)), TWO_GROUPS)
    assert means["mean_cosine"].to_list() == [None]
    assert means["texts"].to_list() == [1]


def test_settings_come_in_ascending_numbers_and_groups_in_the_designs_order():
    table = similarity_rows(
        ("10.0", "1.0", "a", "White", 1, 0.1),
        ("2.0", "1.0", "a", "White", 1, 0.1),
        ("2.0", "1.0", "a", "Asian", 1, 0.1),
        ("0", None, "a", "White", 1, 1.0),
    )
    rows = mean_cosine_by_group(table, TWO_GROUPS).select("temperature", "race").rows()
    assert rows == [("0", "White"), ("2.0", "Asian"), ("2.0", "White"), ("10.0", "White")]


# ------------------------------------------------------------------------------ draw counts


def test_draws_of_a_cell_add_up_over_prompts():
    counts = pl.DataFrame(
        [
            counts_row("a", ok=6, empty=1, truncated=3, distinct_texts=5),
            counts_row("b", ok=10, distinct_texts=1),
        ]
    )
    cell = count_draws(counts).row(0, named=True)
    assert (cell["cell"], cell["prompts"], cell["draws"]) == ("T1.0-P1.0", 2, 20)
    assert cell["empty_share"] == pytest.approx(1 / 20)
    assert cell["truncated_share"] == pytest.approx(3 / 20)
    assert (cell["distinct_texts"], cell["completion_tokens"], cell["words"]) == (6, 20, 60)


def test_a_prompt_with_one_text_only_cannot_have_identical_draws():
    counts = pl.DataFrame(
        [counts_row("once", ok=1, empty=4), counts_row("same", ok=1, truncated=1)]
    )
    cell = count_draws(counts).row(0, named=True)
    assert (cell["repeated_prompts"], cell["identical_prompts"]) == (1, 1)


def test_determinism_counts_the_prompts_that_gave_several_texts_at_temperature_0():
    counts = pl.DataFrame(
        [
            counts_row("a", "0", ok=3, distinct_texts=2),
            counts_row("b", "0", ok=3, distinct_texts=1),
            counts_row("c", "0", ok=1, empty=2, distinct_texts=1),
            counts_row("a", "1.0", ok=3, distinct_texts=3),
        ]
    )
    cells = count_draws(counts).with_columns(study=pl.lit("s"), model=pl.lit("m"))
    row = measure_determinism(cells).row(0, named=True)
    assert (row["prompts"], row["repeated_prompts"], row["varying_prompts"]) == (3, 2, 1)
    assert "1 of 2 prompts" in findings.describe_determinism(row)
    assert "noise floor" in findings.describe_determinism(row)


def test_one_greedy_draw_a_prompt_is_said_to_test_nothing():
    row = {"model": "m", "repeated_prompts": 0, "varying_prompts": 0}
    assert "nothing tells whether" in findings.describe_determinism(row)


# ------------------------------------------------------------------------------- CSV files


def test_tables_survive_the_way_through_csv(tmp_path):
    encoders = ["null", "true"]
    for study, design, match in (
        ("labels", inputs.DESIGN, None),
        ("names", inputs.NAMES_DESIGN, "none"),
    ):
        inputs.write_results(
            tmp_path, study, ["1.0"], encoders, inputs.SMALL_GRID, design=design, match=match
        )
    tables = collect_tables(
        sorted(tmp_path.glob("adjusted/*")),
        sorted(tmp_path.glob("similarity/*/*/*")),
        sorted(tmp_path.glob("counts/*/*")),
        sorted(tmp_path.glob("stimuli/*")),
        sorted(tmp_path.glob("diversity/*/*/*")),
    )
    write_tables(tables, tmp_path / "tables")
    back = read_tables(sorted((tmp_path / "tables").glob("*.csv")))
    assert tables.keys() == back.keys() == SCHEMAS.keys()
    for name, table in tables.items():
        assert table.height, name
        assert back[name].equals(table), name


def test_a_study_with_other_factors_stands_in_the_same_table(tmp_path):
    inputs.write_results(tmp_path, study="one", models=["m"], encoders=["e"])
    inputs.write_results(
        tmp_path, study="two", models=["n"], encoders=["e"], design=inputs.NAMES_DESIGN
    )
    tables = collect_tables(
        sorted(tmp_path.glob("adjusted/*")),
        sorted(tmp_path.glob("similarity/*/*/*")),
        sorted(tmp_path.glob("counts/*/*")),
        diversity=sorted(tmp_path.glob("diversity/*/*/*")),
    )
    for name in tables.keys() - {"encoder_agreement", "name_selection"}:
        assert tables[name]["study"].unique().sort().to_list() == ["one", "two"], name
    assert tables["encoder_agreement"].height == tables["name_selection"].height == 0


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"fits\.csv is missing"):
        read_tables([tmp_path / "mean_cosine.csv"])


def test_a_foreign_csv_file_is_refused_with_its_path(tmp_path):
    (tmp_path / "fits.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"fits\.csv: is no fits table"):
        read_tables([tmp_path / "fits.csv"])


# ------------------------------------------------------------------------------- contrasts


@pytest.mark.parametrize(
    ("term", "label"),
    [
        ("race[African]", "African (vs. White)"),
        ("gender[woman]", "woman (vs. man)"),
        ("race[Asian]:gender[woman]", "Asian × woman"),
        ("rate", "rate"),
        ("shape[round]", "shape[round]"),
    ],
)
def test_a_term_is_named_for_people(term, label):
    assert name_contrast(term, inputs.DESIGN).label == label


def test_main_effects_come_first_and_the_intercept_not_at_all():
    terms = ["Intercept", "race[Asian]:gender[woman]", "race[Asian]", None, "race[Asian]"]
    contrasts = list_contrasts(terms, inputs.DESIGN)
    assert [each.label for each in contrasts] == ["Asian (vs. White)", "Asian × woman"]


# -------------------------------------------------------------------------------- findings


def test_significant_settings_are_counted_by_direction_and_after_holm():
    fits = fits_frame(
        fitted("race[Asian]", 0.4, 0.01, "0.2", p_holm=0.04),
        fitted("race[Asian]", 0.3, 0.049, "0.4", p_holm=0.09),
        fitted("race[Asian]", -0.2, 0.001, "0.6", p_holm=0.004),
        fitted("race[Asian]", 0.1, 0.05, "0.8", p_holm=0.09),
    )
    key = ("e", "m", "pairwise", "treatment", "race[Asian]")
    signal = findings.count_signals(fits, inputs.DESIGN)[key]
    assert (signal.settings, signal.positive, signal.negative, signal.holm) == (4, 2, 1, 2)
    assert signal.mean_estimate == pytest.approx(0.15)
    assert findings.describe_signal(signal) == (
        "significant in 3 of 4 settings (2 more homogeneous, 1 less; 2 after Holm), mean β 0.15"
    )


def test_scopes_and_codings_of_one_term_are_counted_apart():
    fits = fits_frame(
        fitted("race[Asian]", 0.4, 0.01, level="text"),
        fitted("race[Asian]", 0.4, 0.2, level="text", scope="formats random"),
        fitted("race[Asian]", -0.3, 0.02, level="text", coding="marginal"),
    )
    signals = findings.count_signals(fits, inputs.DESIGN)
    assert {key[2:4]: (each.positive, each.negative) for key, each in signals.items()} == {
        ("text-fixed", "treatment"): (1, 0),
        ("text-random", "treatment"): (0, 0),
        ("text-fixed", "marginal"): (0, 1),
    }


def test_every_setting_of_every_model_counts_the_same_in_the_summary():
    signals = [findings.Signal(3, 1, 0, 0, 0.1), findings.Signal(1, 1, 0, 0, 0.5)]
    total = findings.add_signals(signals)
    # (3 x .1 + 1 x .5) / 4 = .2
    assert (total.settings, total.positive) == (4, 2)
    assert total.mean_estimate == pytest.approx(0.2)


def test_the_summary_leads_with_the_text_level_and_leaves_pairs_out():
    contrast = name_contrast("race[Asian]", inputs.DESIGN)
    signals = {
        TEXT_FIXED: [findings.Signal(3, 1, 0, 1, 0.1), findings.Signal(1, 1, 0, 0, 0.5)],
        TEXT_RANDOM: [findings.Signal(3, 0, 0, 0, 0.1), findings.Signal(1, 0, 0, 0, 0.5)],
        CELL: [findings.Signal(3, 1, 0, 0, 0.2)],
        PAIRWISE: [findings.Signal(3, 3, 0, 3, 0.1)],
    }
    assert findings.describe_contrast(contrast, signals) == (
        "Asian (vs. White): significant (p < .05) in these formats in 2 of 4 model settings"
        " (all more homogeneous; 1 after Holm); in such formats in 0 of 4 model settings;"
        " on cell means in 1 of 3 settings (more homogeneous; none after Holm)."
    )


def test_interactions_are_told_where_they_are_significant_in_these_formats():
    one = {
        TEXT_FIXED: [findings.Signal(3, 0, 2, 1, -0.4)],
        PAIRWISE: [findings.Signal(3, 3, 0, 3, 0.1)],
    }
    other = {TEXT_FIXED: [findings.Signal(3, 0, 0, 0, 0.1)]}
    assert findings.describe_interactions([("Asian × woman", one), ("African × woman", other)]) == (
        "Differences of differences, p < .05 in these formats: Asian × woman in 2 of 3 settings"
        " (all less homogeneous; 1 after Holm)."
    )
    assert findings.describe_interactions([("African × woman", other)]) == (
        "Differences of differences, p < .05 in these formats: none in any setting."
    )
    assert findings.describe_interactions([]) == ""


def test_the_published_coding_is_one_line_with_what_holm_leaves_and_without_pairs():
    signals = {
        TEXT_FIXED: [findings.Signal(3, 2, 0, 1, 0.1, " within each setting")],
        TEXT_RANDOM: [findings.Signal(3, 0, 0, 0, 0.1)],
        PAIRWISE: [findings.Signal(3, 3, 0, 3, 0.1)],
    }
    assert findings.describe_published([("Asian (vs. White), among man", signals)]) == (
        "Published coding, for comparison with the paper (settings with p < .05):"
        " Asian (vs. White), among man: 2 of 3 in these formats (1 after Holm within each setting),"
        " 0 of 3 in such formats."
    )


@pytest.mark.parametrize(
    ("term", "marginal", "place"),
    [
        ("race[Asian]", True, "averaged over gender"),
        ("race[Asian]", False, "among man"),
        ("gender[woman]", False, "among White"),
        ("race[Asian]:gender[woman]", True, ""),
    ],
)
def test_a_contrast_says_where_it_is_taken(term, marginal, place):
    assert place_contrast(term, inputs.DESIGN, marginal=marginal) == place
    assert place_contrast("group[Black]", inputs.NAMES_DESIGN, marginal=marginal) == ""


def test_fewer_texts_than_were_simulated_are_an_alarm():
    means = means_of(("m", "a", "0", 2), ("m", "a", "0.5", 3), ("m", "a", "1.0", 5))
    assert list(alarms.describe_uncalibrated(means, inputs.DESIGN, 10)) == [
        "a group has as few as 5 texts a format; the tests are calibrated from 10 texts a group and"
        " format, so how often they are wrong below that is not known."
    ]
    assert list(alarms.describe_uncalibrated(means, inputs.DESIGN, 5)) == []
    assert list(alarms.describe_uncalibrated(means, inputs.DESIGN, None)) == []


def default_row(model: str, estimate: float | None, half: float, scope: str) -> dict[str, object]:
    bounds = (None, None) if estimate is None else (estimate - half, estimate + half)
    row = {"model": model, "level": "text", "scope": scope, "estimate": estimate}
    return row | {"ci_low": bounds[0], "ci_high": bounds[1]}


def test_the_summary_gives_the_outermost_estimates_with_the_intervals_of_both_scopes():
    contrast = name_contrast("race[Asian]", inputs.DESIGN)
    rows = [
        default_row(model, estimate, half, scope)
        for model, estimate in (("b", 0.5), ("a", -0.2), ("c", 0.1), ("d", None))
        for scope, half in (("formats fixed", 0.1), ("formats random", 0.3))
    ]
    assert findings.describe_contrast(contrast, {}, rows).endswith(
        "At the default setting β runs from −0.20, 95% interval [−0.30, −0.10] in these formats and"
        " [−0.50, 0.10] in such formats (a), to 0.50, 95% interval [0.40, 0.60] in these formats"
        " and [0.20, 0.80] in such formats (b)."
    )
    assert findings.describe_contrast(contrast, {}, rows[:1]).endswith(
        "At the default setting β is 0.50, 95% interval [0.40, 0.60] in these formats."
    )


def test_a_fit_that_did_not_converge_is_no_evidence_and_is_listed():
    fits = fits_frame(
        fitted("race[Asian]", 9.0, 0.001, "0.2", converged=False),
        fitted("gender[woman]", 9.0, 0.001, "0.2", converged=False),
    )
    assert findings.count_signals(fits, inputs.DESIGN) == {}
    (failure,) = alarms.list_failures(fits, inputs.DESIGN)
    assert (failure["settings"], failure["cells"]) == (1, "T1.0-P0.2")


def test_fits_that_fail_for_one_reason_stand_in_one_row_a_test_and_analysis():
    rows = [
        inputs.fit_row(
            "labels", "m", "e", "text", ("1.0", top_p), reason="no variance", analysis=analysis
        )
        for top_p in ("0.2", "0.4")
        for analysis in ("main", "length")
    ]
    main, length = alarms.list_failures(fits_frame(*rows), inputs.DESIGN)
    assert (main["settings"], main["cells"]) == (2, "T1.0-P0.2, T1.0-P0.4")
    assert (main["analysis"], length["analysis"]) == ("main", "length")
    assert main["test"] == "text level, formats fixed"


def test_the_greedy_anchor_is_no_failure():
    row = inputs.fit_row("labels", "m", "e", "cell", ("0", None), reason="greedy anchor")
    assert alarms.list_failures(fits_frame(row), inputs.DESIGN) == []


def test_a_share_at_its_threshold_raises_no_alarm_and_one_above_does():
    cell = {
        "temperature": "1.0",
        "draws": 100,
        "ok": 75,
        "empty": 5,
        "truncated": 20,
        "no_answer": 0,
        "error": 0,
        "repeated_prompts": 0,
        "identical_prompts": 0,
    }
    assert alarms.find_alarms(cell) == {}
    assert alarms.find_alarms(cell | {"empty": 6, "ok": 74}) == {"empty": 0.06}
    assert alarms.find_alarms(cell | {"error": 1, "ok": 74}) == {"error": 0.01}


def means_of(*rows: tuple[str, str, str, int]) -> pl.DataFrame:
    """Rows of the mean cosine table: model, encoder, temperature, fewest texts."""
    return pl.DataFrame(
        [
            {
                "model": model,
                "encoder": encoder,
                "temperature": temperature,
                "top_p": None if temperature == "0" else "1.0",
                "race": "Asian",
                "gender": "man",
                "fewest_texts": fewest,
            }
            for model, encoder, temperature, fewest in rows
        ],
        schema_overrides={"top_p": pl.String},
    )


def test_few_texts_in_a_group_are_an_alarm_but_not_at_the_anchor_nor_once_an_encoder():
    means = means_of(
        ("m", "a", "0", 2),
        ("m", "a", "0.5", 19),
        ("m", "a", "1.0", 7),
        ("m", "a", "1.5", 20),
        ("m", "b", "1.0", 7),
        ("enough", "a", "1.0", 20),
    )
    assert list(alarms.describe_few_texts(means, inputs.DESIGN)) == [
        "m: a group has fewer than 20 texts a format in 2 of 3 settings (fewest 7: Asian, man in"
        " T1.0-P1.0); intervals are wide there."
    ]


def test_the_fewest_texts_are_those_of_one_block_and_none_where_a_block_lacks_the_group():
    in_both = [("1.0", "1.0", "a", "Asian", 1, 0.1)] * 2 + [
        ("1.0", "1.0", "b", "Asian", 2, 0.1)
    ] * 3
    in_one = [("0.5", "1.0", "a", "Asian", 1, 0.1)] * 2
    means = mean_cosine_by_group(similarity_rows(*in_both, *in_one), TWO_GROUPS)
    assert means.select("temperature", "texts", "fewest_texts").rows() == [
        ("0.5", 2, 0),
        ("1.0", 5, 2),
    ]


def alarming_cells(models: int) -> pl.DataFrame:
    """A cell of each model with an empty draw in ten and, in the last one, two refused."""
    cell = {"cell": "T1.0-P1.0", "temperature": "1.0", "truncated": 0, "no_answer": 0, "error": 0}
    cell |= {"draws": 100, "empty": 10, "repeated_prompts": 0, "identical_prompts": 0}
    rows = [cell | {"model": f"m{number}", "empty": 10 + number} for number in range(models)]
    rows[-1]["error"] = 2
    return pl.DataFrame(rows)


def test_an_alarm_of_many_models_is_one_line_of_the_summary():
    assert list(alarms.summarise_alarms(alarming_cells(5))) == [
        "m4: draws refused by the server above 0% in 1 setting; most in T1.0-P1.0 (2%).",
        "empty draws above 5% in 5 settings of 5 models; most with m4 in T1.0-P1.0 (14%).",
    ]
    assert len(list(alarms.describe_alarms(alarming_cells(5)))) == 6


def test_an_alarm_of_few_models_stands_in_the_summary_as_it_is():
    cells = alarming_cells(3)
    assert list(alarms.summarise_alarms(cells)) == list(alarms.describe_alarms(cells))


def test_identical_draws_alarm_above_temperature_0_only():
    cell = {
        "temperature": "0",
        "draws": 10,
        "ok": 10,
        "empty": 0,
        "truncated": 0,
        "no_answer": 0,
        "error": 0,
        "repeated_prompts": 5,
        "identical_prompts": 5,
    }
    assert alarms.find_alarms(cell) == {}
    assert alarms.find_alarms(cell | {"temperature": "0.5"}) == {"identical": 1.0}


def test_a_cell_without_draws_raises_no_alarm_and_does_not_divide_by_zero():
    cell = {
        "temperature": "1.0",
        "draws": 0,
        "ok": 0,
        "empty": 0,
        "truncated": 0,
        "no_answer": 0,
        "error": 0,
        "repeated_prompts": 0,
        "identical_prompts": 0,
    }
    assert alarms.find_alarms(cell) == {}


# --------------------------------------------------------------------------------- wording


@pytest.mark.parametrize(
    ("p_value", "text"),
    [
        (0.0004, "p < .001"),
        (0.0432, "p = .043"),
        (0.04996, "p = .04996"),
        (0.05, "p = .050"),
        (0.8, "p = .800"),
        (1.0, "p = 1.000"),
    ],
)
def test_a_p_value_is_written_on_its_side_of_the_bound(p_value, text):
    assert p_text(p_value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0%"),
        (1, "100%"),
        (0.05, "5%"),
        (0.14, "14%"),
        (1e-13, "<0.1%"),
        (0.0004, "<0.1%"),
        (0.9996, ">99.9%"),
        (0.0423, "4.2%"),
    ],
)
def test_a_share_is_never_rounded_to_none_or_all(share, text):
    assert percent(share) == text


def test_a_number_has_a_true_minus_and_zero_has_no_sign():
    assert signed(-0.314) == "−0.31"
    assert signed(-0.001) == "0.00"


def test_names_are_joined_as_people_do():
    assert listing(["a", "b", "c"]) == "a, b and c"
    assert listing(["a"]) == "a"
    assert listing([]) == ""


def test_an_anchor_has_no_character_that_a_link_cannot_hold():
    assert anchor("study", 'a b"<c>') == "study-a-b-c-"


def test_invisible_characters_of_a_text_are_named():
    assert show_text("a\x00b\u202ec\r\nd\te") == "a⟨U+0000⟩b⟨U+202E⟩c\nd\te"


def test_a_very_long_text_is_cut_and_says_so():
    shown = show_text("x" * 100_000)
    assert len(shown) < 1_400
    assert shown.endswith("[100,000 characters, the first 1,200 shown]")


def test_the_makers_own_folders_are_not_told(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "study").mkdir()
    monkeypatch.chdir(tmp_path / "study")
    text = f"{tmp_path}/study/results/models and {tmp_path}/models"
    assert without_own_folders(text) == "results/models and ~/models"
