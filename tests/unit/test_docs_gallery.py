"""The gallery: every picture is there and says what it shows, in numbers of the run's tables."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest

HOME = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def gallery() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gallery", HOME / "docs/scripts/gallery.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["gallery"] = module
    spec.loader.exec_module(module)
    return module


def test_every_picture_is_in_the_page_with_what_it_shows(gallery: ModuleType) -> None:
    text = (HOME / "docs/gallery.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^!\[([^\]]+)\]\(([^)]+)\)$", text, re.MULTILINE))
    paths = {f"gallery/{picture.name}.svg" for picture in gallery.PICTURES}
    assert paths <= set(shown.values())
    assert {path.name for path in (HOME / "docs/gallery").iterdir()} == {
        Path(path).name for path in paths
    }
    findings = [alt for alt, path in shown.items() if path in paths]
    assert all(re.search(r"\. .*\d", alt) for alt in findings)


def test_a_picture_is_small() -> None:
    assert all(path.stat().st_size < 100_000 for path in (HOME / "docs/gallery").iterdir())


def test_settings_are_counted_as_the_table_has_them(gallery: ModuleType) -> None:
    row: dict[str, Any] = {"study": "labels", "level": "text", "scope": "formats fixed"}
    row |= {"coding": "marginal", "interaction": False, "contrast": "old (vs. young)"}
    row |= {"settings": 4, "significant": 3, "mean_estimate": 0.254}
    others = [{**row, "coding": "treatment"}, {**row, "level": "cell"}, {**row, "study": "names"}]
    told = gallery.describe_labels(lambda _: pl.DataFrame([*others, row]))
    assert (
        told == "Settings with p < .05, in these formats: old (vs. young) in 3 of 4 (mean β 0.25)."
    )


def test_a_curve_is_told_at_its_highest_realised_rate(gallery: ModuleType) -> None:
    columns = ("measure", "set", "temperature", "comparison", "method", "realised", "estimate")
    rows = [
        ("tsed", None, 0.0, "ceiling", None, None, 0.9),
        ("tsed", None, 0.0, "floor", None, None, 0.2),
        ("tsed", None, 0.0, "augmented", "keyboard", 0.3, 0.4),
        ("tsed", None, 0.0, "augmented", "keyboard", 0.1, 0.7),
        ("tsed", None, 1.0, "augmented", "keyboard", 0.9, 0.1),
    ]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    told = gallery.describe_curves(lambda _: table)
    assert told == "Ceiling 0.90, floor 0.20; at the highest rate keyboard 0.40 at rate 0.30."


def test_a_run_that_is_not_finished_ends_in_one_line(
    gallery: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["gallery.py", str(tmp_path)])
    with pytest.raises(SystemExit, match="is not there: finish a run") as ended:
        gallery.main()
    assert "\n" not in str(ended.value)
