"""python -m llm_variability.linguistics ...: REWRITINGS and STIMULI in, tables of wording out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.linguistics import VERSION
from llm_variability.linguistics.entities import (
    compare_sets,
    count_cooccurrences,
    count_entities,
    read_speech,
)
from llm_variability.linguistics.entity_map import draw_map
from llm_variability.linguistics.parsing import PACKAGE, Parsed, load_parser, parse_texts
from llm_variability.linguistics.prompts import Prompt, match_prompts
from llm_variability.linguistics.style import tabulate_style
from llm_variability.linguistics.topics import (
    fit_topics,
    list_content,
    tabulate_topics,
    tabulate_weights,
)
from llm_variability.linguistics.words import Words, read_words
from llm_variability.logs import log, stage_log, stage_parser
from llm_variability.tables import STIMULI, TableError, read_metadata, read_table, write_table
from llm_variability.tables_personas import (
    COOCCURRENCES,
    ENTITIES,
    ENTITY_MAP,
    REWRITINGS,
    SHARED_ENTITIES,
    STYLE,
    TOPIC_WEIGHTS,
    TOPICS,
)


def analyse(arguments: argparse.Namespace) -> None:
    """Read, parse, analyse, tell what was left out or is missing, write."""
    words = read_words()
    prompts, left_out = _parse_prompts(_read_matched(arguments), words)
    speech = read_speech(prompts)
    shared = compare_sets(speech, arguments.permutations, arguments.seed)
    content = [list_content(prompt.sentences) for prompt in prompts]
    topics = fit_topics(content, arguments.topics, arguments.seed)
    found = len(topics.words)
    if found < arguments.topics:
        log.warning("%d topics, not %d: there are too few prompts", found, arguments.topics)
    _tell_reasons(shared)
    metadata = {
        "study": read_metadata(arguments.stimuli).get("study"),
        "linguistics_version": VERSION,
        "seed": arguments.seed,
        "permutations": arguments.permutations,
        "topics_asked": arguments.topics,
        "topics": found,
        "prompts": len(prompts),
        "prompts_without_topics": sum(not each for each in content),
        "words_sha256": words.checksum,
        "spacy": version("spacy"),
        "parser": PACKAGE,
        "parser_version": version(PACKAGE),
        "scikit_learn": version("scikit-learn"),
        **left_out,
    }
    for frame, path, table in (
        (tabulate_style(prompts, words), arguments.style, STYLE),
        (count_entities(speech), arguments.entities, ENTITIES),
        (count_cooccurrences(speech), arguments.cooccurrences, COOCCURRENCES),
        (draw_map(prompts), arguments.map, ENTITY_MAP),
        (shared, arguments.shared, SHARED_ENTITIES),
        (tabulate_topics(topics), arguments.topics_table, TOPICS),
        (tabulate_weights(prompts, topics), arguments.topic_weights, TOPIC_WEIGHTS),
    ):
        write_table(frame, path, table, metadata)
        log.info("%s: %d rows", table.name, frame.height)


def _read_matched(arguments: argparse.Namespace) -> pl.DataFrame:
    rewritings = read_table(arguments.rewritings, REWRITINGS)
    stimuli = read_table(arguments.stimuli, STIMULI)
    try:
        return match_prompts(rewritings, stimuli)
    except TableError as error:
        raise TableError(f"{arguments.rewritings}, {arguments.stimuli}: {error}") from error


def _parse_prompts(matched: pl.DataFrame, words: Words) -> tuple[list[Prompt], dict[str, int]]:
    """Parse the rewritings; count what was left out of them."""
    if not matched.height:
        log.warning("no rewriting is used: all tables are empty")
    parsed = parse_texts(matched["text"].to_list(), load_parser(), words.lemmas)
    left_out = _count_left_out(parsed)
    for name, count in left_out.items():
        if count:
            log.warning("%s: %d", name.replace("_", " "), count)
    rows = matched.drop("text").iter_rows(named=True)
    prompts = [
        Prompt(**row, sentences=each.sentences) for row, each in zip(rows, parsed, strict=True)
    ]
    return prompts, left_out


def _count_left_out(parsed: Sequence[Parsed]) -> dict[str, int]:
    return {
        "prompts_cut": sum(each.cleaned.cut > 0 for each in parsed),
        "characters_cut": sum(each.cleaned.cut for each in parsed),
        "code_blocks_left_out": sum(each.cleaned.code_blocks for each in parsed),
        "long_runs_left_out": sum(each.cleaned.runs for each in parsed),
        "long_sentences_parted": sum(each.parted for each in parsed),
        "prompts_without_words": sum(not each.sentences for each in parsed),
    }


def _tell_reasons(shared: pl.DataFrame) -> None:
    missing = shared.filter(pl.col("reason").is_not_null())
    for row in missing.group_by("of", "reason", maintain_order=True).len().iter_rows():
        log.warning("%s: no test of %d pairs of personas: %s", row[0], row[2], row[1])


def main() -> None:
    parser = stage_parser("Wording of the prompts of one study of personas.")
    files: dict[str, Any] = {
        "--rewritings": "rewritten tasks; those that are used are analysed",
        "--stimuli": "the study's prompts, which they became",
        "--style": "features by prompt to write",
        "--entities": "entities by persona to write",
        "--cooccurrences": "pairs of entities in one sentence to write",
        "--map": "map of entities to write",
        "--shared": "what each two personas share, to write",
        "--topics-table": "words of topics to write",
        "--topic-weights": "topics by prompt to write",
    }
    for option, meaning in files.items():
        parser.add_argument(option, required=True, type=Path, metavar="FILE", help=meaning)
    parser.add_argument("--topics", required=True, type=int, help="topics of the prompts, at most")
    parser.add_argument("--permutations", required=True, type=int, help="random permutations")
    parser.add_argument("--seed", required=True, type=int, help="the study's seed")
    arguments = parser.parse_args()
    with stage_log(arguments.log):
        analyse(arguments)


if __name__ == "__main__":
    main()
