"""python -m llm_variability.paraphrases request|score ...: what a model is asked; its answers."""

from __future__ import annotations

import argparse
import json
import logging
from functools import cache, partial
from pathlib import Path
from typing import Any

from llm_variability.config import Encoder
from llm_variability.config_code import BANDS, Paraphrasing
from llm_variability.logs import stage_log, stage_parser
from llm_variability.paraphrases.bertscore import measure_bertscore
from llm_variability.paraphrases.requests import DESIGN, tabulate_requests
from llm_variability.paraphrases.scores import (
    gather_answers,
    measure_cosines,
    score_answers,
    tell_over_long,
)
from llm_variability.similarity.embedding import SentenceEncoder
from llm_variability.stimuli.tasks import read_task_sets
from llm_variability.tables import (
    DRAWS,
    STIMULI,
    TableError,
    read_metadata,
    read_table,
    write_table,
)
from llm_variability.tables_code import PARAPHRASES

log = logging.getLogger(__name__)


def request(arguments: argparse.Namespace) -> None:
    settings = Paraphrasing.model_validate(json.loads(arguments.paraphrase))
    tasks = read_task_sets(arguments.tasks_folder, json.loads(arguments.tasks))
    metadata = {
        "study": arguments.study,
        "design": DESIGN.to_json(),
        "originals": {key: each.task.text for key, each in tasks.items()},
    }
    write_table(tabulate_requests(tasks, settings.variants), arguments.output, STIMULI, metadata)


@cache
def _read_encoder(settings: str, manifest: Path) -> tuple[SentenceEncoder, dict[str, Any]]:
    described = json.loads(manifest.read_text(encoding="utf-8"))
    encoder = Encoder.model_validate(json.loads(settings))
    return SentenceEncoder(described["path"], encoder), described


def _read_draws(paths: list[Path]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Read draws and what made them, by temperature."""
    tables, made_by = {}, {}
    for path in paths:
        facts = read_metadata(path)
        temperature = facts["temperature"]
        if temperature in tables:
            raise TableError(f"{path}: there are draws of temperature {temperature} already")
        tables[temperature], made_by[temperature] = read_table(path, DRAWS), facts
    return tables, made_by


def score(arguments: argparse.Namespace) -> None:
    settings = Paraphrasing.model_validate(json.loads(arguments.paraphrase))
    asked = read_metadata(arguments.requests)
    order = read_table(arguments.requests, STIMULI)["task"].unique(maintain_order=True)
    originals = {task: str(asked["originals"][task]) for task in order}
    draws, made_by = _read_draws(arguments.draws)
    encoder, manifest = _read_encoder(arguments.encoder_settings, arguments.manifest)
    encoders, bertscore, bertscore_manifest = [encoder], None, None
    if arguments.bertscore_manifest is not None:
        other, bertscore_manifest = _read_encoder(
            arguments.bertscore_settings, arguments.bertscore_manifest
        )
        encoders.append(other)
        bertscore = partial(measure_bertscore, embed=other.embed_tokens)
    # One lease is enough for both, and a second one would wait for the first.
    with max(encoders, key=lambda each: each.device == "cuda").claim_device():
        table = score_answers(
            gather_answers(draws, originals),
            originals,
            partial(measure_cosines, encoder=encoder),
            bertscore,
            settings.least_similarity,
            settings.leave_out,
        )
        for each in dict.fromkeys(encoders):
            tell_over_long({*originals.values(), *table["text"].drop_nulls()}, each)
    used = table.filter("used")
    log.info(
        "%d answers, %d of them used: %s",
        len(table),
        len(used),
        ", ".join(f"{used.filter(band=band).height} {band}" for band in BANDS),
    )
    metadata = {
        "study": asked["study"],
        "model": next(iter(made_by.values()))["model"],
        "drawn": {temperature: facts["identity"] for temperature, facts in made_by.items()},
        "encoder_manifest": manifest,
        "bertscore_manifest": bertscore_manifest,
        "settings": settings.model_dump(mode="json"),
    }
    write_table(table, arguments.output, PARAPHRASES, metadata)


def main() -> None:
    parser = stage_parser(__doc__ or "")
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("request")
    step.set_defaults(run=request)
    step.add_argument("--study", required=True)
    step.add_argument("--tasks-folder", required=True, type=Path, help="folder of sets of tasks")
    step.add_argument("--tasks", required=True, help="ids by set, or null for all, JSON")
    step.add_argument("--paraphrase", required=True, help="the study's paraphrases, JSON")
    step.add_argument("--output", required=True, type=Path)
    step = steps.add_parser("score")
    step.set_defaults(run=score)
    step.add_argument("--requests", required=True, type=Path)
    step.add_argument("--draws", required=True, type=Path, nargs="+", help="one a temperature")
    step.add_argument("--paraphrase", required=True, help="the study's paraphrases, JSON")
    step.add_argument("--encoder-settings", required=True, help="of the primary encoder, JSON")
    step.add_argument("--manifest", required=True, type=Path, help="of the primary encoder")
    step.add_argument("--bertscore-settings", help="the same of an encoder for BERTScore")
    step.add_argument("--bertscore-manifest", type=Path)
    step.add_argument("--output", required=True, type=Path)
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        arguments.run(arguments)


if __name__ == "__main__":
    main()
