"""Tables, alarms and sentences of studies of code, against counts by hand and closed forms."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from llm_variability.report.alarms import MIN_PROGRAMS
from llm_variability.report.code import alarms, statements
from llm_variability.report.code.rows import pool_cells, tabulate_summaries
from llm_variability.report.code.schemas import CODE_SCHEMAS
from llm_variability.report.code.tables import (
    collect_code_tables,
    count_paraphrases,
    count_programs,
    summarise_augmentations,
)
from llm_variability.report.comparisons import at_setting
from llm_variability.report.summaries import read_tables, write_tables

inputs = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("code_inputs.py"))))
TASKS = sum(inputs.TASKS.values())
GREEDY = ("0", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    inputs.write_code_results(folder)
    return folder


@pytest.fixture(scope="module")
def tables(folder) -> dict[str, pl.DataFrame]:
    def of(pattern: str) -> list[Path]:
        return sorted(folder.glob(pattern))

    return collect_code_tables(
        **{
            name: of(f"curves/*/{name}.parquet")
            for name in ("curves", "summaries", "contrasts", "fits")
        },
        extractions=of("extractions/*/*"),
        counts=of("counts/*/*"),
        augmentations=of("augmentations/*"),
        paraphrases=of("paraphrases/*"),
    )


def at_greedy(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(at_setting(GREEDY), pl.col("measure") == "tsed")


def test_replies_are_added_up_over_the_prompts_of_a_cell():
    cell = {"temperature": "0", "top_p": None, "augmentation": "keyboard-0.1"}
    cell |= {"method": "keyboard", "rate": "0.1", "unclosed": 1, "too_large": 0}
    cell |= {"distinct_programs": 2, "lines": 10, "truncated": 0}
    counted = count_programs(
        pl.DataFrame(
            [
                cell | {"draws": 5, "ok": 3, "invalid": 1, "no_code": 1},
                cell | {"draws": 3, "ok": 1, "invalid": 0, "no_code": 2},
            ],
            schema_overrides={"top_p": pl.String},
        )
    )
    assert counted.height == 1
    row = counted.row(0, named=True)
    assert (row["cell"], row["prompts"], row["draws"], row["ok"]) == ("T0/keyboard-0.1", 2, 8, 4)
    assert (row["ok_share"], row["invalid_share"], row["no_code_share"]) == (0.5, 0.125, 0.375)
    assert (row["unclosed"], row["distinct_programs"], row["lines"]) == (2, 4, 20)


def test_a_cell_without_a_draw_has_no_shares():
    cell = {"temperature": "0", "top_p": None, "augmentation": "original", "method": "original"}
    counts = dict.fromkeys(("draws", "ok", "invalid", "truncated", "no_code", "unclosed"), 0)
    counts |= dict.fromkeys(("too_large", "distinct_programs", "lines"), 0)
    counted = count_programs(
        pl.DataFrame([cell | {"rate": "0"} | counts], schema_overrides={"top_p": pl.String})
    )
    assert counted["ok_share"].to_list() == [None]
    assert list(alarms.describe_failing_cells(counted.with_columns(model=pl.lit("m")))) == []


def test_augmentations_give_realised_rates_and_what_can_be_changed():
    row = {"set": "open", "augmentation": "synonym-0.5", "method": "synonym", "rate": "0.5"}
    row |= {"bleu": None, "asked": 10}
    summary = summarise_augmentations(
        pl.DataFrame(
            [
                row
                | {"realised": 0.3, "eligible": 20, "replaceable": 6, "edited": 6}
                | {"repeated": False},
                row
                | {"realised": 0.5, "eligible": 20, "replaceable": 14, "edited": 10}
                | {"repeated": True},
            ],
            schema_overrides={"bleu": pl.Float64},
        )
    ).row(0, named=True)
    assert summary["texts"] == 2 and summary["nominal"] == 0.5
    assert summary["mean_realised"] == pytest.approx(0.4)
    assert (summary["min_realised"], summary["max_realised"]) == (0.3, 0.5)
    assert summary["replaceable_share"] == 0.5
    assert (summary["edited"], summary["repeated"], summary["mean_bleu"]) == (16, 1, None)


def test_paraphrases_have_no_nominal_rate(tables):
    reworded = tables["code_augmentations"].filter(method="paraphrase")
    assert reworded.height == 2 * len(inputs.TASKS)  # the medium band is empty
    assert reworded["nominal"].null_count() == reworded.height
    assert set(reworded["mean_bleu"].round(6)) == {0.6, 0.1}


def test_paraphrases_are_counted_by_degree_band_and_flags(folder):
    counted = count_paraphrases(pl.read_parquet(folder / "paraphrases/code.parquet"))
    of_open = counted.filter(set="open").select("degree", "band", "flags", "paraphrases", "used")
    assert of_open.rows() == [
        ("low", "low", "none", 6, 6),
        ("medium", "high", "none", 3, 3),
        ("medium", None, "empty", 3, 0),
        ("high", "high", "none", 3, 3),
        ("high", "high", "lost code", 3, 0),
    ]
    assert counted["paraphrases"].sum() == 6 * TASKS


def test_tables_come_back_from_csv_as_they_were(tables, tmp_path):
    write_tables(tables, tmp_path)
    back = read_tables(sorted(tmp_path.glob("*.csv")), CODE_SCHEMAS)
    assert back.keys() == tables.keys() == CODE_SCHEMAS.keys()
    for name, table in tables.items():
        assert_frame_equal(back[name], table)


def test_every_cell_has_its_draws_and_its_replies(tables):
    cells = len(inputs.SETTINGS) * len(list(inputs.list_augmentations()))
    for name in ("code_draws", "code_extractions"):
        assert tables[name].height == 2 * cells
        assert tables[name].select("model", "cell").n_unique() == 2 * cells
    drawn = tables["code_draws"].filter(cell="T0.5-P0.8/synonym-0.4", model="model-a")
    assert drawn["draws"].to_list() == [TASKS * inputs.DRAWS_EACH]
    assert drawn["ok"].to_list() == [4 * TASKS] and drawn["truncated"].to_list() == [TASKS]


def test_pooled_cells_keep_the_totals(tables):
    extractions = tables["code_extractions"]
    for pooled in (pool_cells(extractions), pool_cells(extractions, by_augmentation=True)):
        assert pooled["draws"].sum() == extractions["draws"].sum()
        assert (pooled["ok_share"] - pooled["ok"] / pooled["draws"]).abs().max() == 0
    assert pool_cells(extractions)["cell"].unique().len() == len(inputs.SETTINGS)


def test_a_study_without_paraphrases_has_an_empty_table(tmp_path):
    inputs.write_code_results(tmp_path, models=["model-a"], paraphrased=False)
    made = collect_code_tables(
        [tmp_path / "curves/code/curves.parquet"], [], [], [], [], [], [], paraphrases=[]
    )
    assert made["code_paraphrases"].height == 0
    assert made["code_curves"].height > 0
    assert list(alarms.describe_empty_bands(made["code_paraphrases"])) == []


def test_a_cell_whose_extraction_fails_raises_an_alarm(tables):
    (told,) = alarms.describe_failing_cells(tables["code_extractions"])
    assert told.startswith(
        f"model-b: fewer than {MIN_PROGRAMS:.0%} of the replies are programs in 1"
    )
    assert "T1.0-P1.0/keyboard-1.0 (20%; most others: no code)" in told


def test_half_of_the_replies_is_enough(tables):
    half = tables["code_extractions"].head(1).with_columns(ok_share=pl.lit(0.5))
    assert list(alarms.describe_failing_cells(half)) == []
    assert list(alarms.describe_failing_cells(half.with_columns(ok_share=pl.lit(0.499))))


def test_sets_of_few_tasks_are_named_and_larger_ones_are_not(tables):
    (told,) = alarms.describe_few_tasks(tables["code_curves"])
    assert "fresh (4) and open (3)" in told and "humaneval" not in told


def test_points_that_lost_most_of_their_tasks_are_told(tables):
    curves = tables["code_curves"].with_columns(
        n_tasks=pl.when(model="model-b", rate="1.0", method="keyboard", top_p="0.8")
        .then(2)
        .otherwise("n_tasks")
    )
    told = list(alarms.describe_few_tasks(curves))[1:]
    assert len(told) == 1
    assert told[0].startswith("model-b: in 2 points") and "2 of 19 (keyboard 1.0 at T" in told[0]


def test_a_ceiling_that_is_not_above_the_floor_raises_an_alarm(tables):
    (told,) = alarms.describe_lines_that_cross(tables["code_curves"])
    assert told.startswith("tsed: the ceiling is not above the floor in 2 places of model-a and")
    assert "open of model-a at T1.0-P1.0 (0.250 and 0.300)" in told
    apart = tables["code_curves"].filter(pl.col("set").is_null())
    assert list(alarms.describe_lines_that_cross(apart)) == []


def test_rates_that_are_not_realised_raise_an_alarm(tables):
    told = list(alarms.describe_unrealised(tables["code_augmentations"]))
    # synonym realises 0.43 of 1.0 and of 0.8, of which only the first is less than half.
    assert [each.split(":")[0] for each in told] == ["synonym", "nlpaug-keyboard"]
    assert "at 1.0 (at 1.0 it is 0.430)" in told[0]


def test_a_published_method_that_changes_prompts_at_rate_0_is_told(tables):
    changed = tables["code_augmentations"].filter(method="nlpaug-keyboard", rate="0")
    changed = changed.with_columns(mean_realised=pl.lit(0.366))
    (told,) = alarms.describe_unrealised(changed)
    assert told.startswith("nlpaug-keyboard: changes prompts at rate 0 too") and "0.366" in told


def test_an_empty_band_is_told_for_the_sets_that_lack_it(tables):
    counted = tables["code_paraphrases"]
    (told,) = alarms.describe_empty_bands(counted)
    assert told == "no paraphrase of medium diversity could be used in any set."
    without = counted.filter(~((pl.col("set") == "open") & (pl.col("band") == "low")))
    assert "no paraphrase of low diversity could be used in open." in list(
        alarms.describe_empty_bands(without)
    )


def test_what_falls_fastest_comes_first_with_its_half_life(tables):
    told = statements.describe_fastest(at_greedy(tables["code_summaries"]), ["model-a", "model-b"])
    assert told[0] == "Code changes fastest with rate under keyboard with 2 of 2 models."
    half = math.log(2) / inputs.DECAY["keyboard"]
    assert f"gone at a rate of {half:.2f} [" in told[1]
    assert told[1].index("keyboard (") < told[1].index("nlpaug-keyboard (")
    assert told[1].index("nlpaug-keyboard (") < told[1].index("synonym (")
    assert "synonym (slope −1.00 [−1.10, −0.90]; half of the way to the floor is not" in told[1]


def test_methods_are_ordered_by_their_slopes_and_not_by_their_rows(tables):
    backwards = at_greedy(tables["code_summaries"]).reverse()
    (_, told, _) = statements.describe_fastest(backwards, ["model-a", "model-b"])
    assert told.index("keyboard (slope −4.00") < told.index("synonym (")


def test_slopes_without_intervals_are_put_in_no_order(tables):
    summaries = at_greedy(tables["code_summaries"]).reverse()
    bare = summaries.with_columns(pl.lit(None, pl.Float64).alias("ci_low"))
    told = statements.describe_fastest(bare, ["model-a"])
    assert len(told) == 1
    assert "with too few tasks for intervals, so in no order" in told[0]
    assert told[0].index("synonym (") < told[0].index("; keyboard (")


def test_a_half_life_whose_upper_end_is_not_reached_says_so():
    row = {"summary": "half_life", "ci_low": 0.25, "ci_high": None}
    assert statements.show_interval(row) == "[0.25, not reached]"
    assert statements.show_interval(row | {"ci_low": None}) == ""
    assert statements.show_interval(row | {"summary": "auc"}) == ""


def test_bands_say_what_is_left_and_which_is_empty(tables):
    (told,) = statements.describe_bands(at_greedy(tables["code_curves"]), ["model-a"])
    assert told.endswith("low 0.80 [0.75, 0.85], medium no paraphrase, high 0.50 [0.45, 0.55].")


def test_the_contamination_contrast_has_interval_p_and_adjusted_p(tables):
    (told,) = statements.describe_contamination(at_greedy(tables["code_contrasts"]))
    assert told.startswith("Mean height of the curve of open less that of humaneval: ")
    assert "model-a, keyboard: −0.12 [−0.22, −0.02], p .012, after Holm .034" in told
    assert "model-a, synonym: no interval: fewer than 4 tasks" in told


def test_many_contamination_contrasts_are_counted(tables):
    rows = at_greedy(tables["code_contrasts"]).filter(kind="set", method="keyboard")
    many = pl.concat([rows.with_columns(model=pl.lit(f"m{at}")) for at in range(3)])
    many = many.with_columns(
        estimate=pl.Series([-0.1, 0.2, -0.3, -0.1, -0.1, None]),
        p_holm=pl.Series([0.2, 0.01, 0.01, 0.2, 0.2, None], dtype=pl.Float64),
    )
    (told,) = statements.describe_contamination(many)
    assert "lower in 4 of 5 models × methods, p < .05 in 5, after Holm in 2." in told
    assert "Largest: m1, keyboard: −0.30" in told


def test_replies_are_told_in_shares_that_add_up(tables):
    draws = tables["code_extractions"]["draws"].sum()
    told = statements.describe_extraction(tables["code_extractions"])
    # One cell of model-b: four of five replies without code, where elsewhere one is cut off.
    assert told.startswith(f"Of {draws:,} replies ") and f"{4 * TASKS / draws:.1%} no code" in told
    assert "Fewest with model-b" in told
    even = tables["code_extractions"].filter(temperature="0")
    assert "Fewest" not in statements.describe_extraction(even)


def test_what_is_left_out_is_counted(tables):
    told = "\n".join(statements.describe_left_out(tables))
    augmentations = len(list(inputs.list_augmentations()))
    # The first task's programs are too large, one a prompt, setting and model.
    assert f"{2 * 5 * augmentations:,} programs whose trees are too large" in told
    assert f"{4 * TASKS:,} replies without code" in told
    assert "1 augmented text that another variant" in told
    assert f"{2 * TASKS} paraphrases that no prompt was made of" in told
    assert "does not parse" not in told


def test_one_set_alone_stands_once_in_the_tables(tables):
    greedy = at_greedy(tables["code_summaries"])
    several = tabulate_summaries(greedy, "tsed", one_model=False)
    sets = [row[several.labels.index("Set")].text for row in several.rows]
    assert {"all sets", *inputs.TASKS} == set(sets)
    first = next(iter(inputs.TASKS))
    one = greedy.filter(pl.col("set").is_null() | (pl.col("set") == first))
    alone = tabulate_summaries(one, "tsed", one_model=False)
    assert {row[alone.labels.index("Set")].text for row in alone.rows} == {first}
    assert len(alone.rows) == sets.count(first)
