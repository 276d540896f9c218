"""Leafing through examples in a real browser, where models answered what they should not."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chromium import BROWSER_TEST, open_page, serious_violations

from llm_variability.report.wording import show_text

pytestmark = BROWSER_TEST

unit = Path(__file__).parents[1] / "unit"
inputs = SimpleNamespace(**runpy.run_path(str(unit / "report_inputs.py")))
personas = SimpleNamespace(**runpy.run_path(str(unit / "persona_inputs.py")))

HOSTILE = (
    *(text for text in inputs.HOSTILE if text),
    "</script><script>document.title = 'taken over'</script><!-- <script>",
    "\u05e9\u05dc\u05d5\u05dd \u202e\u2066 left open, and a tab\tand \x1b[31m",
    "e" + "\u0301" * 3_000,
)
"""What is worst to answer; each a group of its own."""

GROUPS = [f"group {number}" for number in range(len(HOSTILE))]
PLATES = len(GROUPS) + 1
"""Groups of a setting, and one draw there that failed."""
SETTINGS = [("0", None), ("0.5", "0.8"), ("1.0", "1.0")]
WIDTHS = (390, 800, 1280)
NAME = "study-personas-examples"
BROWSER = f"[data-examples='{NAME}-data']"
OTHER = "[data-examples='study-others-examples-data']"
READY = "() => [...document.querySelectorAll('[data-examples]')].every((each) => !each.hidden)"
TABLE = f"#{NAME} ~ details:has(table.ends)"


def make_page(folder: Path, texts: tuple[str, ...]) -> Path:
    """A page of two studies, whose examples answer these texts in turn, each group one."""
    answers = [text for text in texts for _ in range(2)]
    # At temperature 0 a group has one example, and each other setting begins anew.
    turn = [*texts, *answers, *answers]
    for study in ("personas", "others"):
        personas.write_persona_results(folder, study=study)
        for model in ("model-a", "model-b"):
            inputs.write_examples(folder, study, [model], SETTINGS, GROUPS, inputs.DESIGN, turn)
    page: Path = personas.make_persona_page(folder, personas.make_persona_report(folder, ()))
    return page


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Path:
    return make_page(tmp_path_factory.mktemp("hostile"), HOSTILE)


@pytest.fixture(scope="module")
def benign(tmp_path_factory) -> Path:
    """The same page with answers that mean no harm."""
    plain = tuple("A plain answer of a few words." for _ in HOSTILE)
    return make_page(tmp_path_factory.mktemp("benign"), plain)


def counted(view: Any, browser: str = BROWSER) -> str:
    text: str = view.locator(f"{browser} .counted").inner_text()
    return text


def answers(view: Any) -> list[str | None]:
    texts: list[str | None] = view.locator(f"{BROWSER} pre.text").all_text_contents()
    return texts


def turn(view: Any, name: str = "Next") -> None:
    view.locator(BROWSER).get_by_role("button", name=name).click()


def test_every_hostile_answer_is_shown_as_text_and_does_nothing(hostile):
    with open_page(hostile, wait_for=READY) as (view, noticed):
        for number, text in enumerate(HOSTILE):
            told = f"{number + 1} of {PLATES}: {GROUPS[number]}; model-a; T 1.0, top-p 1.0"
            assert counted(view) == told
            assert answers(view) == [show_text(text[:4000], 4000, len(text))] * 2
            assert view.locator(f"{BROWSER} pre.text > *").count() == 0
            turn(view)
        assert noticed.everything() == []
        assert view.title() == "How much answers vary: report"
        assert view.locator("h1").count() == 1
        assert view.locator("img[src*='example.invalid']").count() == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_a_hostile_answer_changes_nothing_but_its_own_frame(hostile, benign, width):
    """What is not an example's frame stands where it stands beside answers that mean no harm."""
    outside = """(selector) => {
      const root = document.documentElement;
      const place = (each) => {
        const { left, width } = each.getBoundingClientRect();
        return [each.tagName, left, width];
      };
      const browser = document.querySelector(selector);
      return [
        root.scrollWidth,
        [...document.querySelectorAll("h1, h2, h3, section, .choices, .examples")].map(place),
        [...browser.querySelectorAll(".shown, .example, .example > *")].map(place),
        browser.querySelector(".choices").getBoundingClientRect().height,
      ];
    }"""
    seen = []
    for path in (hostile, benign):
        with open_page(path, width=width, wait_for=READY) as (view, noticed):
            plates = []
            for _ in GROUPS:
                plates.append(view.evaluate(outside, BROWSER))
                turn(view)
            seen.append(plates)
            assert noticed.everything() == []
    assert seen[0] == seen[1]
    assert {plate[0] for plate in seen[0]} == {width}


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_of_examples_keeps_the_page_as_wide_as_it_is(hostile, width):
    with open_page(hostile, width=width, wait_for=READY) as (view, noticed):
        view.locator(f"{TABLE} > summary").first.click()
        texts = view.locator(f"{TABLE} .text").all_text_contents()
        assert texts[: 2 * len(HOSTILE)] == [
            show_text(text[:600], 600, len(text)) for text in HOSTILE for _ in range(2)
        ]
        assert view.evaluate("document.documentElement.scrollWidth") == width
        assert noticed.everything() == []


def test_no_answer_is_taller_than_its_frame(hostile):
    """Marks piled on a letter end at the frame's edge, as do 100 KB on one line."""
    with open_page(hostile, wait_for=READY) as (view, _):
        for _ in GROUPS:
            for frame in view.locator(f"{BROWSER} pre.text").all():
                assert frame.evaluate("each => each.clientHeight") <= 20 * 16
                assert frame.evaluate("each => getComputedStyle(each).overflowY") == "auto"
                assert frame.evaluate("each => each.scrollWidth <= each.clientWidth")
            turn(view)


def test_previous_of_the_first_is_the_last(hostile):
    with open_page(hostile, wait_for=READY) as (view, _):
        turn(view, "Previous")
        assert counted(view).startswith(f"{PLATES} of {PLATES}: {GROUPS[-1]};")


@pytest.mark.parametrize(
    ("choices", "told", "examples"),
    [
        ({"group": "group 2"}, "1 of 1: group 2; model-a; T 1.0, top-p 1.0", 2),
        ({"group": "group 2", "role": "Farthest: least alike"}, "1 of 1: group 2; model-a;", 1),
        ({"setting": "T 0, greedy"}, f"1 of {PLATES}: group 0; model-a; T 0, greedy", 1),
        ({"model": "model-b", "group": "group 1"}, "1 of 1: group 1; model-b;", 2),
        ({"group": "group 1", "setting": "all settings"}, "1 of 3: group 1; model-a; T 0,", 1),
        ({"model": "all models", "group": "group 3"}, "1 of 2: group 3; model-a;", 2),
    ],
)
def test_choices_narrow_what_is_shown(hostile, choices, told, examples):
    with open_page(hostile, wait_for=READY) as (view, noticed):
        for name, label in choices.items():
            view.select_option(f"#{NAME}-{name}", label=label)
        assert counted(view).startswith(told)
        assert view.locator(f"{BROWSER} .example").count() == examples
        assert noticed.everything() == []


def test_draws_that_failed_are_found_where_nothing_was_chosen(hostile):
    """They are few and rarely at the setting that one looks at, so other choices are let go."""
    with open_page(hostile, wait_for=READY) as (view, _):
        view.select_option(f"#{NAME}-role", label="Status: empty")
        assert counted(view) == "1 of 1: group 0; model-a; T 0, greedy"
        assert answers(view) == ["(no text)"]
        chosen = view.locator(f"#{NAME}-setting option:checked").inner_text()
        assert chosen == "all settings"


def test_what_matches_nothing_is_told(hostile):
    with open_page(hostile, wait_for=READY) as (view, _):
        view.select_option(f"#{NAME}-role", label="Status: error")
        view.select_option(f"#{NAME}-group", label="group 0")
        assert counted(view) == "No example matches."
        assert view.locator(f"{BROWSER} .example").count() == 0
        turn(view)
        assert counted(view) == "No example matches."


def test_an_example_tells_its_prompt_seed_status_and_file(hostile):
    with open_page(hostile, wait_for=READY) as (view, _):
        example = view.locator(f"{BROWSER} .example").first
        assert example.locator("pre.asked").all_text_contents() == [
            "You are a chatbot",
            "Write about group 0.",
        ]
        told = dict(
            zip(
                example.locator("dt").all_text_contents(),
                example.locator("dd").all_text_contents(),
                strict=True,
            )
        )
        assert told["Status"] == "ok (stop)"
        assert told["Mean similarity"] == "0.500 to 4 texts"
        assert told["File"] == "draws/personas/model-a/T1.0-P1.0.parquet"
        # More digits than a number of a script holds.
        assert int(told["Seed"]) - int(told["Draw"]) == 12_345_678_901_234_567


def test_the_keyboard_alone_is_enough(hostile):
    with open_page(hostile, wait_for=READY) as (view, _):
        view.focus(f"#{NAME}-model")
        for _ in range(2):
            view.keyboard.press("Tab")
        view.keyboard.press("ArrowDown")
        assert counted(view).startswith("1 of 1: group 0;")
        view.keyboard.press("ArrowUp")
        for _ in range(3):
            view.keyboard.press("Tab")
        view.keyboard.press("Enter")
        assert counted(view).startswith(f"2 of {PLATES}: group 1;")
        # An answer can be reached, so that a long one can be scrolled.
        for _ in range(3):
            view.keyboard.press("Tab")
        assert view.evaluate("document.activeElement.getAttribute('aria-label')") == "Answer"


def test_studies_are_leafed_through_one_by_one(hostile):
    with open_page(hostile, wait_for=READY) as (view, _):
        turn(view)
        assert counted(view).startswith("2 of ")
        assert counted(view, OTHER).startswith("1 of ")


def test_what_there_is_one_of_is_no_choice(tmp_path):
    personas.write_persona_results(tmp_path)
    place = ("personas", ["model-a"], SETTINGS, GROUPS, inputs.DESIGN)
    inputs.write_examples(tmp_path, *place, ["A plain answer."])
    page = personas.make_persona_page(tmp_path, personas.make_persona_report(tmp_path, ()))
    with open_page(page, wait_for=READY) as (view, _):
        assert view.locator(f"#{NAME}-model").is_hidden()
        assert view.locator(f"#{NAME}-setting").is_visible()
        assert counted(view).startswith(f"1 of {PLATES}: group 0; model-a;")


def test_where_one_is_is_read_out(hostile):
    with open_page(hostile, wait_for=READY) as (view, _):
        line = view.locator(f"{BROWSER} .counted")
        assert line.get_attribute("aria-live") == "polite"
        for name, label in (("model", "Model"), ("setting", "Setting"), ("role", "Chosen as")):
            found = view.locator(BROWSER).get_by_label(label, exact=True)
            assert found.get_attribute("id") == f"{NAME}-{name}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(hostile, scheme):
    with open_page(hostile, scheme=scheme, wait_for=READY) as (view, _):
        view.locator(f"{TABLE} > summary").first.click()
        for part in (BROWSER, f"{TABLE}[open]"):
            assert serious_violations(view, part) == []


def test_without_scripts_the_table_can_be_read(hostile):
    with open_page(hostile, java_script=False) as (view, _):
        assert view.locator(BROWSER).is_hidden()
        view.locator(f"{TABLE} > summary").first.click()
        text = view.locator(f"{TABLE} .text").first
        assert text.is_visible()
        assert text.inner_text() == HOSTILE[0]
