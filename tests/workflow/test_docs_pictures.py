"""The pictures of the workflow show the rules and stages that there are, and how data flows."""

from __future__ import annotations

import html
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

HOME = Path(__file__).parents[2]
REMEDY = "draw it again: make docs-pictures"


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", HOME / "docs/scripts/pictures.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def graph(pictures: ModuleType) -> tuple[set[str], set[tuple[str, str]]]:
    """Rules and arrows, as Snakemake has them today."""
    return pictures.read_graph(pictures.ask_snakemake())


def drawn(name: str) -> tuple[set[str], set[tuple[str, ...]]]:
    """Read nodes and arrows of a picture, from the titles that graphviz gives them."""
    text = (HOME / "docs" / name).read_text(encoding="utf-8")
    groups = re.findall(r'class="(node|edge)">\s*<title>([^<]*)</title>', text)
    titles = [(kind, html.unescape(title)) for kind, title in groups]
    arrows = {tuple(title.split("->")) for kind, title in titles if kind == "edge"}
    return {title for kind, title in titles if kind == "node"}, arrows


def closure(edges: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """All pairs with a way from the first to the second."""
    found = set(edges)
    while more := {(a, d) for a, b in found for c, d in found if b == c} - found:
        found |= more
    return found


def test_every_rule_and_arrow_is_drawn(graph: tuple[set[str], set[tuple[str, str]]]) -> None:
    rules, arrows = graph
    assert len(rules) > 40
    assert drawn("rulegraph.svg") == (rules, arrows), REMEDY


def test_stages_are_drawn_with_every_way_between_them(
    pictures: ModuleType, graph: tuple[set[str], set[tuple[str, str]]]
) -> None:
    stages = pictures.find_stages()
    ways = {(stages[a], stages[b]) for a, b in graph[1] if stages[a] != stages[b]}
    nodes, arrows = drawn("stages.svg")
    assert nodes == set(pictures.SHOWN) == {stages[rule] for rule in graph[0]}, REMEDY
    assert closure(arrows) == closure(ways), REMEDY


def test_data_flows_one_way() -> None:
    assert not {(a, b) for a, b in closure(drawn("stages.svg")[1]) if a == b}


def test_an_arrow_that_a_longer_way_says_too_is_left_out(pictures: ModuleType) -> None:
    assert pictures.reduce({("a", "b"), ("b", "c"), ("a", "c")}) == {("a", "b"), ("b", "c")}


def test_a_circle_is_an_error(pictures: ModuleType) -> None:
    with pytest.raises(ValueError, match="circle"):
        pictures.reduce({("a", "b"), ("b", "a")})
