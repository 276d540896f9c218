"""The simulation study: its closed forms, its truth, its rates, and the table that ships."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from llm_variability.calibration import VERSION
from llm_variability.calibration import __main__ as command
from llm_variability.calibration.candidates import PACKAGE, infer_mixed
from llm_variability.calibration.document import fill_places
from llm_variability.calibration.figure import draw_calibration
from llm_variability.calibration.rates import (
    SIMULTANEOUS,
    run_studies,
    run_study,
    wilson_interval,
)
from llm_variability.calibration.studies import (
    DESIGNS,
    Study,
    draw_sample,
    draw_truth,
    list_studies,
)
from llm_variability.calibration.table import (
    OWN_TEST,
    RESOURCE,
    SCHEMA,
    find_calibration,
    load_calibration,
    select_shown,
    state_findings,
    summarise,
    tabulate_rates,
)
from llm_variability.config import ConfigError
from llm_variability.fits.coding import code_full_factorial
from llm_variability.fits.profile import fit_profile
from llm_variability.fits.random_intercept import GroupedOutcome, collapse_to_means

HOME = Path(__file__).resolve().parents[2]
DOCUMENTS = ("docs/inference.md", "resources/calibration/README.md")


@pytest.mark.parametrize("level", ["pairwise", "cell"])
def test_closed_form_of_the_mixed_model_is_the_fit(level: str) -> None:
    study = Study("", "4 x 2 groups", 6, "formats random", slope=0.04)
    sample = draw_sample(study, 4, np.random.default_rng(1))
    _, coding = code_full_factorial(DESIGNS[study.design])
    closed = infer_mixed(sample, np.linalg.inv(coding)[1:], level)
    for i in range(4):
        outcome = GroupedOutcome(
            block=np.repeat(np.arange(13), 8),
            coding=np.tile(coding, (13, 1)),
            count=np.full(13 * 8, 15),
            mean=sample.means[i].ravel(),
            within_ss=sample.within_ss[i].ravel(),
        )
        fit = fit_profile(outcome if level == "pairwise" else collapse_to_means(outcome))
        np.testing.assert_allclose(closed.estimate[i], fit.estimate[1:], atol=1e-9)
        np.testing.assert_allclose(closed.std_error[i], fit.std_error[1:], rtol=1e-6)


@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_mean_cosines_are_those_of_the_stated_truth(shared: float) -> None:
    study = Study("", "2 groups", 10, "formats random", slope=0.04, shared=shared)
    sample = draw_sample(study, 2_000, np.random.default_rng(2))
    error = sample.means - sample.truth
    assert abs(error.mean()) < 4 * error.mean(axis=(1, 2)).std() / np.sqrt(2_000)


@pytest.mark.parametrize(
    ("scope", "test"),
    [("formats fixed", "text, formats fixed"), ("formats random", "text, formats random")],
)
def test_recommended_test_keeps_its_level_where_pairs_do_not(scope: str, test: str) -> None:
    """2,000 studies: 3 standard errors of a rate of 5% are 1.5 points."""
    study = Study("null", "2 groups", 30, scope, slope=0.04)
    found = {each.test: each for each in run_study(study, 2_000, 3)}
    assert found[test].rejected == pytest.approx(0.05, abs=0.015)
    assert found[test].covered == pytest.approx(0.95, abs=0.015)
    assert found["pairwise"].rejected > 0.5


def test_names_of_all_formats_need_their_covariance() -> None:
    study = Study("null", "names", 30, "formats fixed", slope=0.04, shared=0.5)
    found = {each.test: each for each in run_study(study, 1_000, 4)}
    assert found["text, formats fixed"].rejected == pytest.approx(0.05, abs=0.021)
    assert found["fixed, names as if new"].rejected > 0.3


def test_fixed_formats_have_more_power_than_cell_means_where_formats_interact() -> None:
    study = Study("", "2 groups", 50, "formats fixed", slope=0.02, effect=0.02)
    found = {each.test: each for each in run_study(study, 1_000, 5)}
    assert found["text, formats fixed"].rejected > 1.5 * found["cell"].rejected
    with pytest.raises(ValueError, match="a mean cosine is outside"):
        draw_truth(replace(study, slope=0.2), 100, np.random.default_rng(6))


# ----------------------------------------------------------------------------- the run of a kind


def test_a_kind_s_rates_depend_neither_on_threads_nor_on_other_kinds() -> None:
    kinds = [each for each in list_studies() if each.name.startswith("2 groups / 10")]
    alone = [run_study(each, 50, 1) for each in kinds]
    assert list(run_studies(kinds[::-1], 50, 1, threads=3)) == alone[::-1]


def test_kinds_are_named_apart() -> None:
    names = [each.name for each in list_studies()]
    assert len(set(names)) == len(names) == 7 * 6 + 2 + 4 * 3 + 6


def test_fewer_studies_than_a_batch_are_refused() -> None:
    with pytest.raises(ValueError, match="studies: 24 is too few; at least 25"):
        run_study(list_studies()[0], 24, 1)


def test_the_default_s_sizes_are_those_of_its_configuration() -> None:
    """4 formats, 6 texts of a label group, 4 names of a group: config/config.yaml."""
    small = {(each.design, each.texts) for each in list_studies() if each.formats == 4}
    assert small == {("4 x 2 groups", 6), ("names", 4)}
    study = next(each for each in list_studies() if each.formats == 4)
    assert draw_sample(study, 2, np.random.default_rng(1)).cosine_sum.shape == (2, 4, 8, 6)
    assert study.name.endswith(" / 4 formats")


@given(st.integers(1, 30_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_of_a_rate_is_wilson_s(counted: tuple[int, int]) -> None:
    count, n = counted
    theirs = proportion_confint(count, n, method="wilson")
    assert wilson_interval(count / n, n) == pytest.approx(theirs, abs=1e-12)


# ----------------------------------------------------------------------------------- the command


def run_command(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> None:
    monkeypatch.setattr("sys.argv", ["calibration", *map(str, words)])
    command.main()


def test_the_command_simulates_draws_and_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, page = tmp_path / "new/t.csv", tmp_path / "page.md"
    page.write_text("before\n<!-- calibration: names -->\nold\n<!-- end -->\nafter\n")
    only = ["--studies", "25", "--only", "names / 10"]
    run_command(monkeypatch, "simulate", *only, "--threads", "2", "--output", table)
    run_command(monkeypatch, "draw", "--table", table, "--outdir", tmp_path / "out")
    run_command(monkeypatch, "document", "--table", table, "--figure", tmp_path / "f.svg", page)
    assert load_calibration(table)["studies"].unique().to_list() == [25]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *(f"calibration.{suffix}" for suffix in ("svg", "png", "pdf")),
        "summary.txt",
    }
    told = page.read_text()
    assert told.startswith("before\n") and told.endswith("<!-- end -->\nafter\n")
    assert "| names | 13 | 10 | fixed | null, slopes 0.04 |" in told and "old" not in told
    assert "Which test keeps its level" in (tmp_path / "f.svg").read_text()


def test_a_word_that_no_kind_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        run_command(monkeypatch, "simulate", "--only", "nothing", "--output", tmp_path / "t.csv")
    assert "--only: no kind of study has 'nothing' in its name" in caplog.text


# --------------------------------------------------------------------- the table that ships


@pytest.fixture(scope="module")
def shipped() -> pl.DataFrame:
    return load_calibration(HOME / RESOURCE)


def test_the_table_is_found_beside_the_package_and_in_a_home() -> None:
    assert find_calibration() == find_calibration(HOME) == HOME / RESOURCE
    assert find_calibration(HOME / "nowhere") == HOME / RESOURCE


def test_a_table_that_is_none_ends_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no.csv: cannot be read: No such file") as raised:
        load_calibration(tmp_path / "no.csv")
    assert "\n" not in str(raised.value)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError, match=r"t.csv: is no table of rates") as raised:
        load_calibration(tmp_path / "t.csv")
    assert "\n" not in str(raised.value)


def test_the_shipped_table_has_every_kind_of_20000_studies_of_this_version(
    shipped: pl.DataFrame,
) -> None:
    header = (HOME / RESOURCE).read_text(encoding="utf-8").splitlines()[0]
    assert header == ",".join(SCHEMA)
    rated = shipped.filter(pl.col("test") != SIMULTANEOUS)
    assert rated["studies"].unique().to_list() == [20_000]
    assert shipped["version"].unique().to_list() == [VERSION]
    assert shipped["seed"].unique().to_list() == [4]
    kinds = [
        (each.design, each.formats, each.texts, each.scope, each.title) for each in list_studies()
    ]
    found = rated.filter(pl.col("test") == "pairwise")
    assert found.select("design", "formats", "texts", "scope", "study").rows() == kinds


@pytest.mark.parametrize(
    "name",
    [
        "2 groups / 10 / formats random / null, slopes 0.04 / treatment 1",
        "names / 10 / formats fixed / null, slopes 0.04 / treatment 1",
        "4 x 2 groups / 6 / formats fixed / null, slopes 0.04 / marginal 3 / 4 formats",
        "names / 4 / formats random / null, slopes 0.04 / treatment 1 / 4 formats",
    ],
)
def test_the_shipped_table_is_what_the_code_makes(name: str, shipped: pl.DataFrame) -> None:
    study = next(each for each in list_studies() if each.name == name)
    made = tabulate_rates(run_study(study, 20_000, 4), 4)
    keys = ["design", "formats", "texts", "scope", "study", "contrast"]
    kept = shipped.join(made.select(keys).unique(), on=keys, how="semi", maintain_order="left")
    assert kept.drop(pl.selectors.float()).equals(made.drop(pl.selectors.float()))
    for column in made.select(pl.selectors.float()).columns:
        np.testing.assert_allclose(kept[column], made[column], atol=1e-12)


def test_a_table_is_the_same_once_written_and_read(tmp_path: Path) -> None:
    made = tabulate_rates(run_study(list_studies()[0], 75, 1), 1)
    made.write_csv(tmp_path / "t.csv")
    assert load_calibration(tmp_path / "t.csv").equals(made)


def test_the_test_of_a_scope_keeps_its_level_and_its_coverage(shipped: pl.DataFrame) -> None:
    own = shipped.filter(pl.col("test") == pl.col("scope").replace_strict(OWN_TEST))
    assert own.height == len(list_studies())
    of_published_size = pl.col("formats") == 13
    null = own.filter(pl.col("effect") == 0, of_published_size)["rejected"]
    assert null.min() >= 0.04 and null.max() <= 0.06
    covered = own.filter(of_published_size)["covered"]
    assert covered.min() >= 0.94 and covered.max() <= 0.96


def test_at_the_default_size_the_test_of_a_scope_errs_on_the_careful_side(
    shipped: pl.DataFrame,
) -> None:
    small = shipped.filter(pl.col("formats") == 4)
    own = small.filter(pl.col("test") == pl.col("scope").replace_strict(OWN_TEST))["rejected"]
    assert own.len() == 6 and own.min() >= 0.035 and own.max() <= 0.0531
    assert small.filter(pl.col("test") == "pairwise")["rejected"].min() > 0.25


# ------------------------------------------------------------------- what is made of the table


def test_what_is_shown_joins_null_and_effect(shipped: pl.DataFrame) -> None:
    shown = select_shown(shipped)
    assert shown.height == 2 * 3 * 2 * len(PACKAGE)
    row = shown.row(
        by_predicate=(pl.col("design") == "names")
        & (pl.col("texts") == 50)
        & (pl.col("scope") == "formats random")
        & (pl.col("test") == "cell"),
        named=True,
    )
    kind = shipped.filter(
        pl.col("design") == "names",
        pl.col("texts") == 50,
        pl.col("scope") == "formats random",
        pl.col("test") == "cell",
    )
    rates = dict(kind.select("effect", "rejected").iter_rows())
    assert (row["false_positives"], row["power"]) == (rates[0.0], rates[0.04])
    assert not row["own"] and not row["keeps_level"]


def test_findings_take_their_figures_from_the_table(shipped: pl.DataFrame) -> None:
    changed = shipped.with_columns(
        rejected=pl.when(pl.col("test") == "pairwise").then(0.123).otherwise("rejected")
    )
    assert "- pairwise: rejects 12.3% of null studies (names: 12.3%)." in summarise(changed)
    assert "12.3" not in "".join(state_findings(shipped))
    last = state_findings(changed)[-1]
    assert last.startswith("4 formats of 4 to 6 texts in place of 13, null studies: ")
    assert "pairwise rejects 12.3%;" in last


def test_the_figure_has_a_dot_a_rate_and_hollow_ones_where_the_level_is_not_kept(
    shipped: pl.DataFrame,
) -> None:
    shown = select_shown(shipped)
    figure = draw_calibration(shipped)
    dots = [
        line
        for axes in figure.axes
        for line in axes.lines
        if line.get_marker() not in ("None", "", None)
    ]
    assert len(dots) == 3 * shown.height
    hollow = [line for line in dots if line.get_markerfacecolor() == "white"]
    assert len(hollow) == 3 * (~shown["keeps_level"]).sum() > 0
    power = sorted(
        line.get_ydata()[0]
        for axes in figure.axes[-4:]
        for line in axes.lines
        if line.get_marker() not in ("None", "", None)
    )
    assert power == sorted(shown["power"])


def test_a_table_without_shown_studies_has_no_figure(shipped: pl.DataFrame) -> None:
    with pytest.raises(ConfigError, match="nothing to draw"):
        draw_calibration(shipped.filter(pl.col("design") == "2 groups"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_tables_in_the_documentation_are_those_of_the_shipped_table(
    name: str, shipped: pl.DataFrame
) -> None:
    text = (HOME / name).read_text(encoding="utf-8")
    assert "<!-- calibration: " in text
    assert fill_places(text, shipped, name) == text


def test_an_unknown_part_is_named(shipped: pl.DataFrame) -> None:
    with pytest.raises(ConfigError, match="d.md: calibration: nothing is no part. Allowed: shown,"):
        fill_places("<!-- calibration: nothing -->\n<!-- end -->", shipped, "d.md")
