"""Make the gallery from a finished run of the default study: docs/gallery.md and docs/gallery/.

    python docs/scripts/gallery.py results
    python docs/scripts/gallery.py results --screenshot    docs/report.png besides, by Chromium

`make docs-gallery` does the second.

What each picture shows is told from the run's tables, so the words fit the numbers of that run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

HOME = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HOME / "workflow"))

from llm_variability.report.svg import compact_svg  # noqa: E402
from llm_variability.report.wording import listing, percent, signed  # noqa: E402

MODEL = "SmolLM2-135M-Instruct"
ENCODER = "all-MiniLM-L6-v2"
Tables = Callable[[str], pl.DataFrame]

HEAD = f"""# Gallery

Figures of the default run: {MODEL}, {ENCODER}, on two CPU cores.
**A model this small shows that the workflow works, and nothing else**; read no finding into them.
Every figure of a run is in `results/figures/` as SVG, PDF and PNG, and the page holds them with the
tables behind them ([reading the report](reading-the-report.md)).

![The first screen of the report: contents, a summary in sentences with the number of models and \
settings in which each contrast holds, and alarms](report.png)

![The chart of every estimate, with switches for contrasts and level; of the square in focus a \
table has estimate, interval, p, adjusted p and n at every level](estimates.png)

"""

FOOT = """## Make it again

```sh
make docs-gallery
```

after `make run`: it takes the figures of `results/`, and a picture of the page by Chromium.
"""


def describe_labels(tables: Tables) -> str:
    rows = tables("signals").filter(
        pl.col("study") == "labels",
        pl.col("level") == "text",
        pl.col("scope") == "formats fixed",
        pl.col("coding") == "marginal",
        ~pl.col("interaction"),
    )
    told = [
        f"{contrast} in {significant} of {settings} (mean β {signed(mean)})"
        for contrast, significant, settings, mean in rows.select(
            "contrast", "significant", "settings", "mean_estimate"
        ).iter_rows()
    ]
    return f"Settings with p < .05, in these formats: {listing(told)}."


def describe_cosines(tables: Tables) -> str:
    rows = (
        tables("mean_cosine")
        .filter(pl.col("study") == "labels", pl.col("temperature") > 0)
        .group_by("race")
        .agg(pl.col("mean_cosine").mean())
        .sort("mean_cosine")
    )
    (low, least), (high, most) = rows.row(0), rows.row(-1)
    return (
        f"At temperature 1 texts about {high} Americans are most alike, cosine {signed(most)}, and"
        f" those about {low} Americans least, {signed(least)}."
    )


def describe_names(tables: Tables) -> str:
    rows = tables("temperature_estimates").filter(
        pl.col("study") == "names", pl.col("level") == "text", pl.col("scope") == "formats fixed"
    )
    told = []
    for (contrast,), part in rows.group_by("contrast", maintain_order=True):
        ends = part.sort("temperature")["mean_estimate"].to_list()
        told.append(f"{contrast} {signed(ends[0])} to {signed(ends[-1])}")
    return f"β from the lowest temperature to the highest: {listing(told)}."


def _curves(tables: Tables) -> pl.DataFrame:
    rows = tables("code_curves").filter(pl.col("measure") == "tsed", pl.col("set").is_null())
    return rows.filter(pl.col("temperature") == pl.col("temperature").min())


def describe_curves(tables: Tables) -> str:
    rows = _curves(tables)
    lines = {
        name: rows.filter(pl.col("comparison") == name)["estimate"].mean()
        for name in ("ceiling", "floor")
    }
    last = (
        rows.filter(pl.col("comparison") == "augmented")
        .drop_nulls("realised")
        .sort("realised")
        .group_by("method", maintain_order=True)
        .last()
    )
    told = [
        f"{method} {signed(value)} at rate {rate:.2f}"
        for method, value, rate in last.select("method", "estimate", "realised").iter_rows()
    ]
    return (
        f"Ceiling {signed(lines['ceiling'])}, floor {signed(lines['floor'])}; at the highest rate"
        f" {listing(told)}."
    )


def name_persona(persona: str) -> str:
    """Write a persona's id, `junior-engineer-male`, in words: junior engineer."""
    return persona.rsplit("-", 1)[0].replace("-", " ")


def describe_similarity(tables: Tables) -> str:
    rows = tables("persona_separation").filter(
        pl.col("measure") == "tsed",
        pl.col("variant") == "iterations",
        pl.col("factor") == "persona",
        pl.col("task").is_null(),
        pl.col("first").is_null(),
    )
    row = rows.row(0, named=True)
    return (
        f"Programs from two prompts of one persona are alike by {signed(row['within'])}, from two"
        f" personas' prompts by {signed(row['between'])}: a difference of"
        f" {signed(row['difference'])}, p = {row['p_value']:.2f}."
    )


def describe_network(tables: Tables) -> str:
    rows = tables("persona_entities").filter(pl.col("of") == "entities").sort("jaccard")
    most = rows.row(-1, named=True)
    return (
        f"Most in common have {name_persona(most['first'])} and {name_persona(most['second'])}:"
        f" {most['shared']} of {most['shared'] + most['first_only'] + most['second_only']} entities"
        f" of their prompts, {percent(most['jaccard'])}."
    )


def describe_leakage(tables: Tables) -> str:
    rows = tables("persona_leakage").drop_nulls("accuracy")
    told = [
        f"by its {features} {percent(accuracy)}, by chance {percent(chance)}"
        for features, accuracy, chance in rows.select("features", "accuracy", "chance").iter_rows()
    ]
    return f"Who asked is guessed from a program, {'; '.join(told)}."


@dataclass(frozen=True)
class Picture:
    """A figure of the run, its heading, what it is in general, and what it shows in this run."""

    path: str
    heading: str
    what: str
    describe: Callable[[Tables], str]

    @property
    def name(self) -> str:
        study, *_, stem = self.path.split("/")
        return stem if stem.startswith(study.rstrip("s")) else f"{study}-{stem}"


PICTURES = (
    Picture(
        f"labels/{MODEL}/{ENCODER}-text-fixed-marginal",
        "Are texts about a group more alike?",
        "β by temperature and top-p, a panel a contrast, averaged over the other factor",
        describe_labels,
    ),
    Picture(
        f"labels/{MODEL}/{ENCODER}-cosine",
        "Raw cosines",
        "Mean pairwise cosine by group and temperature",
        describe_cosines,
    ),
    Picture(
        f"names/{ENCODER}-text-trend",
        "The same told by surnames",
        "β by temperature, averaged over top-p",
        describe_names,
    ),
    Picture(
        "code/code-tsed-curves",
        "How fast code changes as the prompt does",
        "Tree similarity to the unaltered prompt's programs over the realised rate of change",
        describe_curves,
    ),
    Picture(
        "personas/persona-similarity-tsed",
        "Programs of different people",
        "Mean tree similarity of programs by persona, on the diagonal of different prompts of one",
        describe_similarity,
    ),
    Picture(
        "personas/persona-network",
        "What they ask for",
        "Entities of the prompts of each persona and what they share",
        describe_network,
    ),
    Picture(
        "personas/persona-leakage",
        "Does code give away who asked?",
        "Accuracy of a classifier that guesses the persona from the program",
        describe_leakage,
    ),
)


def write_gallery(results: Path, page: Path) -> None:
    """Write the page and, in a folder of its name, its figures.

    Raises FileNotFoundError if the run lacks a figure or a table: it is no default run, or not
    finished.
    """
    folder = page.with_suffix("")
    folder.mkdir(exist_ok=True)

    def read(name: str) -> pl.DataFrame:
        return pl.read_csv(results / f"tables/{name}.csv", infer_schema_length=None)

    parts = [HEAD]
    for picture in PICTURES:
        svg = (results / f"figures/{picture.path}.svg").read_text(encoding="utf-8")
        (folder / f"{picture.name}.svg").write_text(compact_svg(svg), encoding="utf-8")
        shown = picture.describe(read)
        drawn = f"![{picture.what}. {shown}]({folder.name}/{picture.name}.svg)"
        parts.append(f"## {picture.heading}\n\n{drawn}\n\n{shown}\n\n")
    page.write_text("".join([*parts, FOOT]), encoding="utf-8")


def photograph(report: Path, folder: Path) -> None:
    """Write pictures of the report, 1440 pixels wide, in light colours.

    report.png: its first screen. estimates.png: its first chart, a square of it pointed at.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
        page.goto(report.absolute().as_uri())
        page.screenshot(path=str(folder / "report.png"))
        chart = page.locator("figure.chart").first
        chart.scroll_into_view_if_needed()
        page.locator("figure.chart[data-drawn]").first.wait_for()
        chart.locator("path[tabindex]").first.focus()
        chart.screenshot(path=str(folder / "estimates.png"))
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, help="folder of a finished run of the default study")
    parser.add_argument("--screenshot", action="store_true", help="take a picture of the page too")
    arguments = parser.parse_args()
    try:
        write_gallery(arguments.results, HOME / "docs/gallery.md")
    except FileNotFoundError as error:
        sys.exit(f"{error.filename} is not there: finish a run of the default study (`make run`)")
    if arguments.screenshot:
        photograph(arguments.results / "report.html", HOME / "docs")


if __name__ == "__main__":
    main()
