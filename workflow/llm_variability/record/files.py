"""What the files of a results folder are: patterns of their paths, and the contracts they keep."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from llm_variability.report.csv_tables import CSV_TABLES
from llm_variability.table_contract import Table
from llm_variability.tables import TABLES

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class FileKind:
    """Files of one kind.

    pattern: their path in the results folder, with `{names}` in braces; one that ends in `/` is a
    folder that is described as a whole. what: what they hold. tables: the contracts
    of which they keep one.
    """

    pattern: str
    what: str
    tables: tuple[Table, ...] = ()

    @property
    def is_folder(self) -> bool:
        return self.pattern.endswith("/")

    @cached_property
    def _shape(self) -> re.Pattern[str]:
        parts = _PLACEHOLDER.split(self.pattern)
        names = {"cell": r".+", "suffix": r"(?:svg|png|pdf)"}
        text = "".join(
            names.get(part, r"[^/]+") if at % 2 else re.escape(part)
            for at, part in enumerate(parts)
        )
        return re.compile(text)

    def place_of(self, path: str) -> str | None:
        """Give the path, or that of the folder it is in, if it is of this kind."""
        if not self.is_folder:
            return path if self._shape.fullmatch(path) else None
        found = self._shape.match(path)
        return found[0] if found else None


@dataclass(frozen=True)
class Section:
    """Kinds of files that belong together."""

    title: str
    kinds: tuple[FileKind, ...]


def _tables(*entries: tuple[str, str, str]) -> tuple[FileKind, ...]:
    return tuple(FileKind(pattern, what, (TABLES[table],)) for pattern, what, table in entries)


_TEXT_FIGURES = "figures/{study}/{model}/{encoder}"

SECTIONS = (
    Section(
        "Read first",
        (
            FileKind("report.html", "the report: one page, needs nothing else"),
            FileKind("README.md", "this description"),
            FileKind("ro-crate-metadata.json", "the same for machines, a Workflow Run RO-Crate"),
            FileKind("config.yaml", "the configuration as run, with every default"),
        ),
    ),
    Section(
        "Tables of the page",
        tuple(
            FileKind(f"tables/{name}.csv", f"a row: {table.row}", (table,))
            for name, table in CSV_TABLES.items()
        ),
    ),
    Section(
        "Figures",
        (
            FileKind(
                "figures/{study}/{model}/code-{figure}.{suffix}",
                "sensitivity of code over temperature and top-p",
            ),
            FileKind("figures/{study}/code-{figure}.{suffix}", "curves and paraphrases of code"),
            FileKind(
                "figures/{study}/persona-{figure}.{suffix}",
                "prompts and programs of personas: network, map, topics, style, similarity,"
                " features, leakage",
            ),
            FileKind(f"{_TEXT_FIGURES}-cosine.{{suffix}}", "mean cosine by group and temperature"),
            FileKind(
                f"{_TEXT_FIGURES}-{{test}}.{{suffix}}",
                "heatmap of a test's estimates over temperature and top-p",
            ),
            FileKind(
                "figures/{study}/output_length.{suffix}", "words, cut and empty answers by model"
            ),
            FileKind("figures/{study}/{encoder}-cosine.{suffix}", "mean cosine of all models"),
            FileKind(
                "figures/{study}/{encoder}-{test}-signals.{suffix}",
                "significant settings by contrast and model",
            ),
            FileKind(
                "figures/{study}/{encoder}-{level}-trend.{suffix}",
                "estimates by temperature, a line a model",
            ),
        ),
    ),
    Section(
        "Estimates",
        _tables(
            ("adjusted/{study}.parquet", "every estimate, with adjusted p values", "adjusted"),
            ("fits/{study}/{model}/{encoder}.parquet", "the main analysis", "fits"),
            (
                "sensitivity/{study}/{model}/{encoder}.parquet",
                "the same at equal length, on uncut texts, and by permutation",
                "fits",
            ),
            (
                "diversity/{study}/{model}/lexical/fits.parquet",
                "contrasts of measures without an encoder",
                "fits",
            ),
            (
                "diversity/{study}/{model}/vendi/{encoder}/fits.parquet",
                "contrasts of the Vendi score",
                "fits",
            ),
            ("curves/{study}/curves.parquet", "similarity of code by rate", "curves"),
            ("curves/{study}/summaries.parquet", "one number a curve", "curve_summaries"),
            ("curves/{study}/contrasts.parquet", "differences of curves", "curve_contrasts"),
            ("curves/{study}/fits.parquet", "mixed models of curves", "curve_fits"),
            (
                "separation/{study}/similarity.parquet",
                "similarity within and between personas",
                "separation",
            ),
            ("separation/{study}/means.parquet", "features by persona", "persona_means"),
            ("separation/{study}/leakage.parquet", "how well code tells who asked", "leakage"),
            ("separation/{study}/confusions.parquet", "who was guessed", "confusions"),
            (
                "dialogues/{study}/changes.parquet",
                "what a dialogue changes in the code",
                "dialogue_changes",
            ),
        ),
    ),
    Section(
        "Similarity, programs and wording",
        _tables(
            (
                "similarity/{study}/{model}/{encoder}.parquet",
                "cosines of each text to its mates",
                "similarity",
            ),
            (
                "diversity/{study}/{model}/lexical/values.parquet",
                "measures without an encoder, by block and group",
                "diversity",
            ),
            (
                "diversity/{study}/{model}/vendi/{encoder}/values.parquet",
                "the Vendi score, by block and group",
                "diversity",
            ),
        )
        + (FileKind("embeddings/vectors/", "every text's vector, kept for all studies and models"),)
        + _tables(
            (
                "embeddings/{study}/{model}/{encoder}.parquet",
                "a unit vector for each distinct text or program",
                "embeddings",
            ),
            ("programs/{study}/{model}.parquet", "the program in each reply", "programs"),
            ("extractions/{study}/{model}.parquet", "what replies hold, counted", "extractions"),
            (
                "averages/{study}/{model}/{cell}.parquet",
                "mean similarity of each prompt's programs to the references",
                "averages",
            ),
            ("features/{study}/{model}.parquet", "what replies and programs have", "features"),
            ("wording/{study}/style.parquet", "style of the prompts", "style"),
            ("wording/{study}/entities.parquet", "what the prompts speak of", "entities"),
            (
                "wording/{study}/cooccurrences.parquet",
                "entities of one sentence",
                "cooccurrences",
            ),
            ("wording/{study}/map.parquet", "entities on a map", "entity_map"),
            (
                "wording/{study}/shared.parquet",
                "how much personas have in common",
                "shared_entities",
            ),
            ("wording/{study}/topics.parquet", "words of the topics", "topics"),
            (
                "wording/{study}/topic_weights.parquet",
                "topics of the prompts",
                "topic_weights",
            ),
        )
        + (
            FileKind(
                "pairs/{study}/{model}/{cell}.parquet",
                "similarity of pairs of programs",
                (TABLES["pairs"], TABLES["program_pairs"]),
            ),
        ),
    ),
    Section(
        "Draws and prompts",
        (
            FileKind(
                "draws/{study}/{model}/journals/",
                "the journals: every finished draw, written at once. Keep them: all else can be"
                " made again without drawing",
            ),
            *_tables(
                ("draws/{study}/{model}/{cell}.parquet", "the draws of a cell", "draws"),
                (
                    "examples/{study}/{model}.parquet",
                    "draws to be shown on the page, chosen by a rule",
                    "examples",
                ),
                ("counts/{study}/{model}.parquet", "what became of the draws", "counts"),
                (
                    "sessions/{study}/{model}.parquet",
                    "when and where settings were drawn",
                    "sessions",
                ),
                ("throughput/{model}.parquet", "who drew how fast", "throughput"),
                ("stimuli/{study}.parquet", "the prompts", "stimuli"),
                ("augmentations/{study}.parquet", "changed texts, edit by edit", "augmentations"),
                ("paraphrases/{study}.parquet", "scored paraphrases", "paraphrases"),
            ),
            FileKind("paraphrases/{study}/", "requests for paraphrases and the draws behind them"),
            *_tables(
                ("personas/{study}.parquet", "every attempt at a prompt", "rewritings"),
            ),
            FileKind(
                "personas/{study}/round-{n}/", "requests for prompts and their draws, by round"
            ),
            *_tables(
                (
                    "dialogues/{study}/{model}/dialogues.parquet",
                    "what came of the dialogues",
                    "dialogues",
                ),
                (
                    "dialogues/{study}/{model}/programs.parquet",
                    "the programs that dialogues ended with",
                    "programs",
                ),
            ),
            FileKind("dialogues/{study}/", "the turns of dialogues"),
            FileKind(
                "spending/{model}.jsonl",
                "what an endpoint has cost. Keep it: budgets count by it",
            ),
            FileKind("spending/{model}.lock", "held by the job that writes the file beside it"),
        ),
    ),
    Section(
        "What went in, and how it ran",
        (
            FileKind("models/{model}.json", "where a model came from, with revision or checksum"),
            FileKind("models/{model}/", "its weights, where they were made into a folder"),
            FileKind(
                "encoders/{encoder}.json", "where an encoder came from, with revision or checksum"
            ),
            FileKind("encoders/{encoder}/", "its weights, where they were made into a folder"),
            FileKind("wordnet.json", "where WordNet came from, with its checksum"),
            FileKind("wordnet/", "its files"),
            FileKind("workflow/", "the workflow that made all this, and the files of prompts"),
            FileKind("validation/", "published texts measured again, where that was asked for"),
            FileKind("calibration/", "how often tests are wrong, where that was asked for"),
            FileKind("compiled/", "the compiled edit distance, kept for the next job"),
            FileKind("benchmarks/", "time and memory of each job, as Snakemake measured them"),
            FileKind("logs/", "a log of each job, and of the engines in `logs/engines/`"),
        ),
    ),
)
"""Every kind of file, in the order in which a reader wants them; the first that fits counts."""

KINDS = tuple(kind for section in SECTIONS for kind in section.kinds)


@dataclass(frozen=True)
class Found:
    """Files of a kind that are there. places: their paths, or those of their folders, sorted."""

    kind: FileKind
    places: tuple[str, ...]


def list_paths(results: Path) -> list[str]:
    """List the files of a results folder, sorted; hidden ones are left out."""
    found = []
    for path in results.rglob("*"):
        place = path.relative_to(results)
        if not any(part.startswith(".") for part in place.parts) and path.is_file():
            found.append(place.as_posix())
    return sorted(found)


def sort_files(paths: Iterable[str]) -> tuple[list[Found], list[str]]:
    """Tell of each file of which kind it is.

    Returns the kinds that are there, in the order of `KINDS`, and the files of no kind.
    """
    places: dict[str, set[str]] = {}
    unknown = []
    for path in paths:
        for kind in KINDS:
            place = kind.place_of(path)
            if place is not None:
                places.setdefault(kind.pattern, set()).add(place)
                break
        else:
            unknown.append(path)
    found = [
        Found(kind, tuple(sorted(places[kind.pattern]))) for kind in KINDS if kind.pattern in places
    ]
    return found, unknown
