"""What the page says of examples: the table, the data to leaf through, and what is left out."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from llm_variability.report.examples_section import (
    GROUPS_SHOWN,
    TABLE_CHARACTERS,
    _count_bytes,
    _find_kind,
    _list_shares,
    _pack,
    _take,
    arrange_all_examples,
    arrange_examples,
)
from llm_variability.report.pictures import Context
from llm_variability.report.wording import show_text
from llm_variability.tables import EXAMPLES, Design, read_table
from page_elements import Elements, without_scripts

HERE = Path(__file__).parent
inputs = SimpleNamespace(**runpy.run_path(str(HERE / "report_inputs.py")))
personas = SimpleNamespace(**runpy.run_path(str(HERE / "persona_inputs.py")))

SETTINGS = [("0", None), ("0.5", "0.8"), ("0.5", "1.0"), ("1.0", "0.8"), ("1.0", "1.0")]
DEFAULT = ("1.0", "1.0")
GROUPS = [f"group-{number}" for number in range(4)]
ROOMY = 10_000_000


def arrange(
    folder: Path,
    most: int = ROOMY,
    groups: list[str] = GROUPS,
    design: Design = inputs.DESIGN,
    texts: tuple[str, ...] = ("An answer.", "Another one."),
) -> Context:
    inputs.write_examples(folder, "labels", ["one", "two"], SETTINGS, groups, design, texts)
    paths = sorted((folder / "examples/labels").iterdir())
    arranged = arrange_examples(paths, most, folder / "report.html")
    assert arranged is not None
    return arranged


def read_examples(folder: Path) -> pl.DataFrame:
    return pl.concat(
        read_table(path, EXAMPLES) for path in sorted((folder / "examples/labels").iterdir())
    )


def test_the_table_has_both_ends_of_each_group_at_the_default_setting(tmp_path):
    table = arrange(tmp_path)["table"]
    assert (table["model"], table["cell"]) == ("one", "T1.0-P1.0")
    assert [row["group"] for row in table["rows"]] == GROUPS
    written = read_examples(tmp_path).filter(
        model="one", temperature=DEFAULT[0], top_p=DEFAULT[1], role="farthest"
    )
    for row, seed in zip(table["rows"], written["seed"], strict=True):
        assert row["farthest"]["told"].endswith(f"seed {seed}")
        assert row["farthest"]["told"].startswith("0.500 to 4 texts, ok, 2 words")


def test_the_table_has_a_bounded_number_of_groups(tmp_path):
    table = arrange(tmp_path, groups=[f"g{number}" for number in range(30)])["table"]
    assert len(table["rows"]) == GROUPS_SHOWN
    assert table["groups"] == 30


def test_a_long_text_is_cut_in_the_table_and_its_whole_length_told(tmp_path):
    arranged = arrange(tmp_path, texts=("y" * 100_000,))
    shown = arranged["table"]["rows"][0]["medoid"]["text"]
    told = f" … [100,000 characters, the first {TABLE_CHARACTERS:,} shown]"
    assert shown == "y" * TABLE_CHARACTERS + told
    assert arranged["data"]["rows"][0][5].endswith("[100,000 characters, the first 4,000 shown]")


def test_the_data_have_every_example_and_what_is_told_of_it(tmp_path):
    data = arrange(tmp_path)["data"]
    examples = read_examples(tmp_path)
    assert len(data["rows"]) == examples.height
    for row, example in zip(data["rows"], examples.iter_rows(named=True), strict=True):
        values = [data["values"][number] for number in row[6:]]
        told = dict(zip(data["fields"], values, strict=True))
        assert data["models"][row[0]] == example["model"]
        assert data["groups"][row[2]] == example["group"]
        assert data["prompts"][row[4]] == (example["system"], example["prompt"])
        assert told["Seed"] == str(example["seed"])
        assert told["File"] == example["file"]
        assert told["Status"].startswith(example["status"])


def test_the_refusal_of_a_server_stands_where_there_is_no_text(tmp_path):
    data = arrange(tmp_path)["data"]
    refused = data["roles"].index("Status: error")
    (text, *_), *_ = [row[5:] for row in data["rows"] if row[3] == refused]
    assert text == inputs.HOSTILE[0]


def test_where_nothing_came_that_is_said(tmp_path):
    data = arrange(tmp_path)["data"]
    empty = data["roles"].index("Status: empty")
    assert {row[5] for row in data["rows"] if row[3] == empty} == {"(no text)"}


def test_invisible_characters_are_named_in_the_data(tmp_path):
    written = json.dumps(arrange(tmp_path, texts=inputs.HOSTILE)["data"], ensure_ascii=False)
    assert "⟨U+202E⟩right to left⟨U+202C⟩" in written
    assert "a null byte ⟨U+0000⟩ and a bell ⟨U+0007⟩" in written
    assert not re.search(r"[\x00-\x1f\u202a-\u202e\u2066-\u2069]", written)


def test_nothing_is_said_to_be_left_out_where_all_fits(tmp_path):
    assert arrange(tmp_path)["left_out"] == ""


@pytest.mark.parametrize("most", [30_000, 12_000, 9_000, 5_000, 3_000])
def test_as_much_as_fits_is_kept(tmp_path, most):
    """The first share of the list that fits, each of them tried."""
    arranged = arrange(tmp_path, most, texts=("word " * 200,))
    examples, kind = read_examples(tmp_path), _find_kind(inputs.DESIGN)
    packed = [
        _pack(_take(examples, share, DEFAULT), inputs.DESIGN, kind, DEFAULT, share.characters)
        for share in _list_shares(len(SETTINGS), len(GROUPS))
    ]
    fitting = [each for each in packed if _count_bytes(each) <= most]
    assert arranged["data"] == (fitting[0] if fitting else packed[-1])
    told = f"To stay small, this page has {len(arranged['data']['rows'])} of {examples.height}"
    assert arranged["left_out"].startswith(told)


def test_the_default_setting_and_failing_draws_are_always_kept(tmp_path):
    data = arrange(tmp_path, most=1)["data"]
    assert data["settings"][data["start"]] == "T 1.0, top-p 1.0"
    kept = {(data["settings"][row[1]], data["roles"][row[3]]) for row in data["rows"]}
    assert ("T 1.0, top-p 1.0", "Medoid: most alike") in kept
    assert {"Status: empty", "Status: error"} <= {role for _, role in kept}
    assert not any(setting.startswith("T 0.5") for setting, _ in kept)


def test_studies_share_what_the_page_has_room_for(tmp_path):
    design, text = inputs.DESIGN, ("z" * 4_000,)
    for study in ("labels", "names"):
        inputs.write_examples(
            tmp_path, study, ["one"], SETTINGS, [f"g{n}" for n in range(100)], design, text
        )
    paths = {
        study: {"one": tmp_path / f"examples/{study}/one.parquet"} for study in ("labels", "names")
    }
    alone = arrange_all_examples({"labels": paths["labels"]}, tmp_path / "report.html")
    both = arrange_all_examples(paths, tmp_path / "report.html")
    sizes = [_count_bytes(both[study]["data"]) for study in both]
    assert all(size <= 1_500_000 for size in sizes)
    assert 1_500_000 < _count_bytes(alone["labels"]["data"]) <= 3_000_000


def test_a_study_of_code_speaks_of_programs(tmp_path):
    design = Design("task", (), carried=("augmentation",))
    arranged = arrange(tmp_path, design=design, groups=["original", "keyboard-0.1"])
    assert "Of each setting and augmentation, two draws of one task" in arranged["rule"]
    assert "the programs of its task's unaltered prompt" in arranged["rule"]
    assert arranged["data"]["fields"][:4] == ["Task", "Mean similarity", "Status", "Reply holds"]
    assert arranged["table"]["rows"][0]["medoid"]["told"].startswith("0.500 to 4 programs, ok")


def test_a_table_without_a_draw_has_no_section(tmp_path):
    arrange(tmp_path)
    path = tmp_path / "examples/labels/one.parquet"
    read_table(path, EXAMPLES).clear().write_parquet(path, metadata=pl.read_parquet_metadata(path))
    assert arrange_examples([path], ROOMY, tmp_path / "report.html") is None


def make_page(folder: Path) -> str:
    """A page of a study of personas, without figures."""
    personas.write_persona_results(folder)
    personas.make_persona_page(folder, personas.make_persona_report(folder, suffixes=()))
    return (folder / "report.html").read_text(encoding="utf-8")


def test_the_page_holds_the_examples_of_a_study_as_text_and_as_data(tmp_path):
    inputs.write_examples(
        tmp_path, "personas", ["model-a"], SETTINGS, GROUPS, personas.DESIGN, inputs.HOSTILE
    )
    html = make_page(tmp_path)
    page = Elements(without_scripts(html))
    assert "study-personas-examples" in {each.get("id") for _, each in page.found}
    assert inputs.HOSTILE[1] in page.text and "</style></textarea>" not in html
    pattern = r'<script type="application/json" id="study-personas-examples-data">([^<]*)</script>'
    (written,) = re.findall(pattern, html)
    texts = {row[5] for row in json.loads(written)["rows"]}
    assert {show_text(text, 4000) for text in inputs.HOSTILE[:3]} <= texts
    files = [each["href"] for each in page.named("a")]
    assert "examples/personas/model-a.parquet" in files
    # Without a script the table is there and the browser is not.
    (browser,) = [each for each in page.named("div") if "data-examples" in each]
    assert "hidden" in browser


def test_a_page_without_examples_has_no_such_section(tmp_path):
    html = make_page(tmp_path)
    assert "study-personas-examples" not in html
