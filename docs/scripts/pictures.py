"""Draw the workflow from Snakemake's own rule graph: docs/stages.svg and docs/rulegraph.svg.

    python docs/scripts/pictures.py        (or `make docs-pictures`)

Needs `dot`, of Debian's package graphviz. A stage is a file of workflow/rules. The picture of
stages leaves out an arrow where a longer way says the same; that of rules has them all. A test
holds the nodes and arrows of both to what Snakemake says today.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]

Edges = set[tuple[str, str]]

EVERYTHING = {
    "code": {"paraphrase": {"model": "SmolLM2-135M-Instruct", "max_new_tokens": 128}},
    "personas": {"dialogue": {"exchanges": 1}},
}
"""What the default studies lack to take every stage."""

SHOWN = {
    "fetch": ("weights, encoders", "all"),
    "stimuli": ("prompts", "all"),
    "draws": ("answers, a journal a setting", "all"),
    "similarity": ("vectors, cosines", "groups"),
    "fits": ("estimates, p-values", "groups"),
    "sensitivity": ("length, cuts, permutations", "groups"),
    "diversity": ("words, Vendi score", "groups"),
    "augmentation": ("changed prompts", "code"),
    "code": ("programs, TSED, features", "programs"),
    "curves": ("similarity over the rate", "code"),
    "personas": ("prompts of personas", "personas"),
    "dialogues": ("a second turn", "personas"),
    "linguistics": ("wording of prompts", "personas"),
    "separation": ("within and between", "personas"),
    "examples": ("draws to be shown", "all"),
    "report": ("figures, tables, page", "all"),
    "record": ("README, RO-Crate", "all"),
}
"""What a stage makes, and the studies that take it."""

COLOURS = {
    "all": "#e8eaf6",
    "groups": "#e3f2e6",
    "code": "#fdf3d0",
    "programs": "#fbe0c8",
    "personas": "#fbe4ec",
}
FONT = 'fontname="Helvetica,Arial,sans-serif"'
JOINED = {"report_personas": "report", "config": "report"}
"""Files of rules that are no stage of their own."""


def ask_snakemake() -> str:
    """Let Snakemake write the rule graph of all kinds of study, in dot's language."""
    settings = [f"studies={json.dumps(EVERYTHING)}", "results=nowhere"]
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--rulegraph",
        "--forceall",
        "--config",
        *settings,
    ]
    told = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
    if told.returncode:
        sys.exit(told.stderr)
    return told.stdout


def read_graph(dot: str) -> tuple[set[str], Edges]:
    """Read rules, and (what makes, what takes) between them; the target `all` is left out."""
    names = dict(re.findall(r'^\s*(\d+)\[label = "(\w+)"', dot, re.MULTILINE))
    edges = {(names[first], names[second]) for first, second in re.findall(r"(\d+) -> (\d+)", dot)}
    return set(names.values()) - {"all"}, {edge for edge in edges if "all" not in edge}


def find_stages() -> dict[str, str]:
    """Find each rule's stage, the file that it stands in."""
    stages = {"generate": "draws", "generate_code": "draws"}  # rules that a loop names
    for file in (HOME / "workflow/rules").glob("*.smk"):
        text = file.read_text(encoding="utf-8")
        for rule, used in re.findall(
            r"^(?:rule (\w+)|use rule \w+ as (\w+) with):", text, re.MULTILINE
        ):
            stages[rule or used] = JOINED.get(file.stem, file.stem)
    return stages


def condense(edges: Edges, stages: Mapping[str, str]) -> Edges:
    """Turn arrows between rules into those between different stages."""
    pairs = {(stages[first], stages[second]) for first, second in edges}
    return {(first, second) for first, second in pairs if first != second}


def reduce(edges: Edges) -> Edges:
    """Leave out every arrow that a longer way says too.

    Raises ValueError if the arrows make a circle: data would not flow one way.
    """
    following: dict[str, set[str]] = {}
    for first, second in edges:
        following.setdefault(first, set()).add(second)

    def reach(start: Iterable[str], way: tuple[str, ...]) -> set[str]:
        found = set()
        for node in start:
            if node in way:
                raise ValueError(f"stages go round in a circle: {' -> '.join((*way, node))}")
            found |= {node} | reach(following.get(node, ()), (*way, node))
        return found

    reach(following, ())
    return {
        (first, second)
        for first, second in edges
        if second not in reach(following[first] - {second}, (first,))
    }


def draw_stages(edges: Edges) -> str:
    """Write the picture of stages in dot's language."""
    nodes = [
        f'{stage} [label=<<b>{stage}</b><br/><font point-size="10">{what}</font>>,'
        f' fillcolor="{COLOURS[studies]}"];'
        for stage, (what, studies) in SHOWN.items()
    ]
    legend = "".join(
        f'<td bgcolor="{colour}">{name}</td>'
        for name, colour in zip(
            ("every study", "labels, names", "code", "code, personas", "personas"),
            COLOURS.values(),
            strict=True,
        )
    )
    return "\n".join(
        [
            'digraph stages { rankdir=LR; bgcolor="white"; pad=0.2; nodesep=0.2; ranksep=0.45;',
            f'node [shape=box, style="rounded,filled", color="#5c6370", {FONT}, fontsize=13];',
            f'edge [color="#5c6370", arrowsize=0.7]; {FONT}; fontsize=10; labelloc=b;',
            f'label=<<table border="0" cellborder="0" cellspacing="6"><tr>{legend}</tr></table>>;',
            *nodes,
            *(f"{first} -> {second};" for first, second in sorted(edges)),
            "}",
        ]
    )


def draw_rules(rules: set[str], edges: Edges, stages: Mapping[str, str]) -> str:
    """Write the picture of rules, a box a stage, in dot's language."""
    boxes = []
    for stage, (_, studies) in SHOWN.items():
        inside = "; ".join(sorted(rule for rule in rules if stages[rule] == stage))
        boxes.append(
            f'subgraph cluster_{stage} {{ label=<<b>{stage}</b>>; style="rounded,filled";'
            f' color="#5c6370"; fillcolor="{COLOURS[studies]}"; {inside}; }}'
        )
    return "\n".join(
        [
            'digraph rules { rankdir=LR; bgcolor="white"; pad=0.2; nodesep=0.12; ranksep=0.6;',
            f"{FONT}; fontsize=13;",
            f'node [shape=box, style="rounded,filled", fillcolor="white", {FONT}, fontsize=11,'
            " height=0.3];",
            'edge [color="#8a91a0", arrowsize=0.6];',
            *boxes,
            *(f"{first} -> {second};" for first, second in sorted(edges)),
            "}",
        ]
    )


def render(dot: str, output: Path) -> None:
    """Let graphviz draw."""
    svg = subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, text=True, check=True)
    output.write_text(svg.stdout, encoding="utf-8")


def main() -> None:
    rules, edges = read_graph(ask_snakemake())
    stages = find_stages()
    render(draw_stages(reduce(condense(edges, stages))), HOME / "docs/stages.svg")
    render(draw_rules(rules, edges, stages), HOME / "docs/rulegraph.svg")


if __name__ == "__main__":
    main()
