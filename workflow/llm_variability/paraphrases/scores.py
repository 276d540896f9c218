"""Answers to the requests: read, scored, sorted into bands, and which of them are used."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from llm_variability.augmentation.paraphrase import (
    INSTRUCTIONS,
    Paraphrase,
    fold_words,
    read_answer,
    score_paraphrase,
)
from llm_variability.similarity.embedding import SentenceEncoder
from llm_variability.tables_code import PARAPHRASES

log = logging.getLogger(__name__)

NEVER_USED = ("empty", "identical", "repeated", "shared")
"""Flags of what is no paraphrase, or no further one."""

Measure = Callable[[Sequence[str], Sequence[str]], Sequence[float | None]]
"""Gives the similarity of each paraphrase to its original."""


def tell_over_long(texts: Collection[str], encoder: SentenceEncoder) -> None:
    """Say in the log how many texts are longer than what the encoder looks at, if any are."""
    over = int(np.sum(encoder.count_tokens(list(texts)) > (encoder.longest or np.inf)))
    if over:
        told = "%d of %d texts are longer than the %d tokens that %s looks at"
        log.warning(told, over, len(texts), encoder.longest, encoder.folder)


def measure_cosines(
    paraphrases: Sequence[str], originals: Sequence[str], encoder: SentenceEncoder
) -> list[float]:
    """Measure each paraphrase's cosine to its original; each text is encoded once."""
    texts = list(dict.fromkeys([*paraphrases, *originals]))
    vectors = encoder.encode(texts)
    row_of = {text: row for row, text in enumerate(texts)}
    return [
        float(np.clip(vectors[row_of[text]] @ vectors[row_of[original]], -1, 1))
        for text, original in zip(paraphrases, originals, strict=True)
    ]


def gather_answers(draws: Mapping[str, pl.DataFrame], originals: Mapping[str, str]) -> pl.DataFrame:
    """Put the draws of all temperatures together, in the order that decides what repeats what.

    draws: by temperature (canonical text). originals: the texts by task.
    Returns task, degree, temperature, variant, seed, status and answer (null: none came), by task
    in the order of the originals, temperature, degree from low to high, and number.
    """
    ranks = {name: rank for rank, name in enumerate(originals)}
    degrees = {name: rank for rank, name in enumerate(INSTRUCTIONS)}
    frames = [
        table.select(
            "task",
            "degree",
            pl.lit(temperature).alias("temperature"),
            pl.col("replicate").alias("variant"),
            "seed",
            "status",
            pl.col("text").alias("answer"),
        )
        for temperature, table in draws.items()
    ]
    return pl.concat(frames).sort(
        pl.col("task").replace_strict(ranks, return_dtype=pl.Int32),
        pl.col("temperature").cast(pl.Float64),
        pl.col("degree").replace_strict(degrees, return_dtype=pl.Int32),
        "variant",
    )


def flag_repeats(
    tasks: Sequence[str], paraphrases: Sequence[Paraphrase], leave_out: Collection[str]
) -> list[tuple[Paraphrase, bool]]:
    """Flag those that repeat one that is used, or that came for several tasks; say which are used.

    tasks: of each paraphrase. leave_out: flags with which none is used, beside NEVER_USED.
    """
    barred = {*NEVER_USED, *leave_out}
    tasks_of: dict[str, set[str]] = {}
    for task, each in zip(tasks, paraphrases, strict=True):
        tasks_of.setdefault(fold_words(each.text), set()).add(task)
    taken: set[tuple[str, str]] = set()
    found = []
    for task, each in zip(tasks, paraphrases, strict=True):
        words = task, fold_words(each.text)
        if words in taken:
            each = replace(each, flags=(*each.flags, "repeated"))
        if each.text and len(tasks_of[words[1]]) > 1:
            each = replace(each, flags=(*each.flags, "shared"))
        used = not barred.intersection(each.flags)
        if used:
            taken.add(words)
        found.append((each, used))
    return found


def score_answers(
    answers: pl.DataFrame,
    originals: Mapping[str, str],
    measure_similarity: Measure,
    measure_bertscore: Measure | None = None,
    least_similarity: float | None = None,
    leave_out: Collection[str] = (),
) -> pl.DataFrame:
    """Score the answers that `gather_answers` gives, a row each, by the contract PARAPHRASES."""
    tasks = answers["task"].to_list()
    replies = [answer or "" for answer in answers["answer"]]
    cut = (answers["status"] == "truncated").to_list()
    texts = [read_answer(reply)[0] for reply in replies]
    rows = [row for row, text in enumerate(texts) if text]
    pairs = [texts[row] for row in rows], [originals[tasks[row]] for row in rows]
    similarity = dict(zip(rows, measure_similarity(*pairs), strict=True))
    bertscore: dict[int, float | None] = {}
    if measure_bertscore is not None:
        bertscore = dict(zip(rows, measure_bertscore(*pairs), strict=True))
    scored = [
        score_paraphrase(reply, originals[task], similarity.get(row), least_similarity, cut[row])
        for row, (task, reply) in enumerate(zip(tasks, replies, strict=True))
    ]
    columns = [
        {
            "text": each.text or None,
            "bleu": each.bleu if each.text else None,
            "band": each.band,
            "similarity": each.similarity,
            "bertscore": bertscore.get(row),
            "flags": " ".join(each.flags) if each.text else "empty",
            "used": used,
        }
        for row, (each, used) in enumerate(flag_repeats(tasks, scored, leave_out))
    ]
    types = {name: column.dtype for name, column in PARAPHRASES.columns.items()}
    made = pl.DataFrame(
        columns, schema={name: types[name] for name in types if name not in answers.columns}
    )
    return pl.concat([answers.drop("answer"), made], how="horizontal").select(list(types))
