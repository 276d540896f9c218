"""A study of personas made up for the tests of the report: every table of it, as earlier stages
write it.

Two tasks, four personas, three iterations; of the English teacher's prompts for the bike shop one
is missing. Numbers are chosen so that what the page says of them can be worked out by hand; texts
are as hostile as a model's may be.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.report.personas.matrices import is_share
from llm_variability.report.personas.schemas import CAME_KINDS
from llm_variability.stimuli.personas import DESIGN
from llm_variability.table_contract import Table
from llm_variability.tables import COUNTS, DRAWS, STIMULI, write_table
from llm_variability.tables_code import EXTRACTIONS, PROGRAMS
from llm_variability.tables_personas import (
    CONFUSIONS,
    DIALOGUE_CHANGES,
    ENTITIES,
    ENTITY_MAP,
    FEATURE_COLUMNS,
    FEATURES,
    LEAKAGE,
    PERSONA_MEANS,
    REWRITINGS,
    SEPARATION,
    SHARED_ENTITIES,
    STYLE,
    TOPIC_WEIGHTS,
    TOPICS,
)

ROLES = ("junior-engineer", "principal-engineer", "english-teacher", "astrophysicist")
LABELS = {
    "junior-engineer": "junior engineer",
    "principal-engineer": "principal engineer",
    "english-teacher": "English teacher",
    "astrophysicist": "astrophysicist",
}
TEACHER = "english-teacher-male"
TASKS = ("brief/calculator", "brief/bike-shop")
ITERATIONS = 3
DRAWS_EACH = 2
SETTINGS: tuple[tuple[str, str | None], ...] = (("0", None), ("1.0", "1.0"))
MEASURES = ("tsed", "encoder-a")
MISSING = ("brief/bike-shop", TEACHER, 2)
HOSTILE_PROMPT = (
    "Could you please </blockquote><script>alert(1)</script> make a page\x00 with buttons?"
    " \u202eright to left {{ 7 * 7 }}."
)
HOSTILE_PROGRAM = (
    "import flask\n# </div></code><script>alert(2)</script>\ndef run():\n"
    "    print('\u202e{{ 7 * 7 }}')\x00\n    password = '\"><img src=http://example.invalid/p.png>'\n"
)
HOSTILE_REPLY = "Send me the reports </td><script>alert(3)</script> and I will write them up."
LINES = {"model-a": 20.0, "model-b": 60.0}
"""Lines of code in a reply, mean over personas."""

WITHIN = {"model-a": 0.6, "model-b": 0.55}
BETWEEN = 0.5
SAME_PROMPT = 0.7


def list_personas(roles: Sequence[str] = ROLES) -> list[tuple[str, str, str]]:
    return [(f"{role}-male", role, "male") for role in roles]


def list_prompts() -> list[dict[str, str]]:
    """The study's own columns, prompt id and prompt of every prompt."""
    prompts = []
    for task, (persona, role, gender), iteration in itertools.product(
        TASKS, list_personas(), range(ITERATIONS)
    ):
        if (task, persona, iteration) == MISSING:
            continue
        words = f"Write a class with unit tests, version {iteration}. Return the result."
        prompts.append(
            {
                "task": task,
                "set": "brief",
                "language": "python",
                "persona": persona,
                "role": role,
                "gender": gender,
                "iteration": str(iteration),
                "sampled": "yes" if iteration == 1 else "no",
                "prompt_id": f"{task}/{persona}/{iteration}",
                "prompt": HOSTILE_PROMPT if persona == TEACHER else words,
            }
        )
    return prompts


def make_frame(table: Table, rows: Sequence[Mapping[str, Any]], *own: str) -> pl.DataFrame:
    """Make a table of rows; columns that they lack are null. own: the study's own columns."""
    schema = dict.fromkeys(own, pl.String)
    schema |= {name: column.dtype for name, column in table.columns.items()}
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)


def _rewritings() -> list[dict[str, Any]]:
    """Attempts: the first of each third iteration was meta-talk; two for the missing prompt."""
    rows: list[dict[str, Any]] = []
    for prompt in list_prompts():
        row = {**prompt, "iteration": int(prompt["iteration"]), "seed": 1, "status": "ok"}
        row |= {"attempt": 0, "used": True, "flags": "", "text": prompt["prompt"]}
        row["sampled"] = prompt["sampled"] == "yes"
        if row["iteration"] == 2 and row["task"] == TASKS[0]:
            rows.append(row | {"flags": "meta", "used": False, "text": "Here is the message"})
            row["attempt"] = 1
        if prompt["persona"] == TEACHER and row["iteration"] > 0:
            row["flags"] = "repeated"
        rows.append(row)
    task, persona, iteration = MISSING
    bare = {"task": task, "persona": persona, "role": "english-teacher", "gender": "male"}
    bare |= {"set": "brief", "language": "python", "iteration": iteration, "used": False}
    bare |= {"sampled": False}
    rows.append(bare | {"attempt": 0, "seed": 1, "status": "ok", "text": "def f(): pass"})
    rows[-1]["flags"] = "answer"
    rows.append(bare | {"attempt": 1, "seed": 2, "status": "truncated", "text": "I am sorry"})
    rows[-1]["flags"] = "refusal cut"
    return rows


def _adjusted(p_value: float, tests: int = 4) -> dict[str, Any]:
    return {
        "p_value": p_value,
        "p_holm": min(1.0, tests * p_value),
        "p_bh": min(1.0, 2 * p_value),
        "family_size": tests,
    }


def _interval(estimate: float, margin: float) -> dict[str, Any]:
    return {
        "std_error": margin / 2,
        "df": 18.0,
        "ci_low": estimate - margin,
        "ci_high": estimate + margin,
    }


def _separation(study: str, models: Sequence[str]) -> Iterator[dict[str, Any]]:
    """model-a separates personas with p .001, model-b with p .2 and at temperature 0 not at all.

    The n-th pair of personas, from 1, has a difference of 0.02 n.
    """
    personas = [name for name, _, _ in list_personas()]
    for model, setting, measure in itertools.product(models, SETTINGS, MEASURES):
        head: dict[str, Any] = {
            "study": study,
            "model": model,
            "temperature": setting[0],
            "top_p": setting[1],
            "measure": measure,
            "variant": "iterations",
            "factor": "persona",
            "same_prompt": SAME_PROMPT,
            "between": BETWEEN,
            "n_prompts": 23,
            "n_programs": 46,
            "n_pairs": 506,
        }
        within = WITHIN.get(model, 0.5)
        overall = {"within": within, "difference": within - BETWEEN}
        overall |= _interval(within - BETWEEN, 0.05)
        yield head | overall | _adjusted(0.001 if model == "model-a" else 0.2)
        for task in TASKS:
            yield head | overall | {"task": task} | _adjusted(0.01, 16)
        for persona in personas:
            yield head | overall | {"first": persona} | _adjusted(0.03, 16)
        for rank, (first, second) in enumerate(itertools.combinations(personas, 2), start=1):
            difference = 0.02 * rank
            contrast = {"first": first, "second": second, "within": BETWEEN + difference}
            contrast |= {"difference": difference} | _interval(difference, 0.04)
            yield head | contrast | _adjusted(0.6 / rank**2, 24)
        yield head | {
            "variant": "sampled",
            "within": None,
            "n_prompts": 8,
            "n_programs": 16,
            "n_pairs": 120,
            "reason": "one prompt a persona and task: how personas differ cannot be told from how"
            " prompts do",
        }


def _program_means(study: str, models: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The n-th persona, from 0, has 0.5 (n - 1.5) standard errors of 1 more than the mean; the
    teacher's code has 10 more lines of input and no class."""
    for model, setting in itertools.product(models, SETTINGS):
        for feature in (*(f"reply_{kind}" for kind in CAME_KINDS), *FEATURE_COLUMNS):
            for rank, (persona, _, _) in enumerate(list_personas()):
                mean, error = 5.0 + 0.5 * (rank - 1.5), 1.0
                p_value = 0.4
                if feature == "reply_lines":
                    mean = LINES.get(model, 10.0) + rank - 1.5
                elif feature == "inputs":
                    mean, p_value = (12.0 if persona == TEACHER else 2.0), 0.001
                elif feature == "classes":
                    mean, p_value = (0.0 if persona == TEACHER else 6.0), 0.001
                elif is_share(feature):
                    mean, error = 0.1 * (rank + 1), 0.05
                row = {"study": study, "model": model, "feature": feature, "persona": persona}
                row |= {"temperature": setting[0], "top_p": setting[1], "n_prompts": 6}
                if feature == "type_hints":
                    yield row | {"n_prompts": 0, "reason": "no task in which every persona has"}
                    continue
                yield row | {"mean": mean} | _interval(mean, 2 * error) | _adjusted(p_value, 27)


def _wording_means(study: str) -> Iterator[dict[str, Any]]:
    """The teacher asks questions in 60% of the sentences, the others in 5%."""
    for feature in ("words", "questions", "technical", "imperatives_less_questions"):
        for persona, _, _ in list_personas():
            is_teacher = persona == TEACHER
            mean, error = 40.0, 5.0
            if feature == "questions":
                mean, error = (0.6 if is_teacher else 0.05), 0.05
            elif feature == "technical":
                mean, error = (1.0 if is_teacher else 9.0), 2.0
            elif feature == "imperatives_less_questions":
                mean, error = (-0.55 if is_teacher else 0.5), 0.3
            row = {"study": study, "feature": feature, "persona": persona, "n_prompts": 6}
            p_value = {"questions": 0.001, "technical": 0.004}.get(feature, 0.3)
            yield row | {"mean": mean} | _interval(mean, 2 * error) | _adjusted(p_value, 6)
    for topic in (1, 2):
        for persona, _, _ in list_personas():
            mean = 0.8 if (persona == TEACHER) == (topic == 2) else 0.2
            row = {"study": study, "feature": f"topic-{topic}", "persona": persona}
            yield row | {"mean": mean, "n_prompts": 6} | _interval(mean, 0.1) | _adjusted(0.002, 6)


def _leakage(study: str, models: Sequence[str], folds: str) -> Iterator[dict[str, Any]]:
    for model, setting, seen in itertools.product(models, SETTINGS, ("syntax", "tokens")):
        row = {"study": study, "model": model, "features": seen, "folds": folds}
        row |= {"temperature": setting[0], "top_p": setting[1], "chance": 0.25, "n_personas": 4}
        row |= {"n_prompts": 23, "n_programs": 46, "permuted": 0.26, "permuted_high": 0.375}
        accuracy = 0.5 if model == "model-a" else 0.3
        yield row | {"accuracy": accuracy} | _adjusted(0.005 if model == "model-a" else 0.3, 8)


def _confusions(study: str, models: Sequence[str]) -> Iterator[dict[str, Any]]:
    personas = [name for name, _, _ in list_personas()]
    for model, setting, seen in itertools.product(models, SETTINGS, ("syntax", "tokens")):
        for asked, guessed in itertools.product(personas, personas):
            row = {"study": study, "model": model, "features": seen, "persona": asked}
            row |= {"temperature": setting[0], "top_p": setting[1], "guessed": guessed}
            yield row | {"programs": 6 if asked == guessed else 2}


def _shared() -> Iterator[dict[str, Any]]:
    """The n-th pair, from 1, shares 2 n of 40 entities."""
    personas = [name for name, _, _ in list_personas()]
    for of in ("entities", "cooccurrences"):
        for rank, (first, second) in enumerate(itertools.combinations(personas, 2), start=1):
            yield {
                "first": first,
                "second": second,
                "of": of,
                "shared": 2 * rank,
                "first_only": 20 - rank,
                "second_only": 20 - rank,
                "jaccard": rank / 20,
                "permuted": 0.35,
                **_adjusted(0.01 * rank, 6),
            }


WORDS = {
    "junior-engineer-male": ("class", "unit test", "edge case"),
    "principal-engineer-male": ("class", "cloud", "endpoint"),
    TEACHER: ("page", "button", "<script>"),
    "astrophysicist-male": ("array", "unit", "file"),
}


def _entities() -> Iterator[dict[str, Any]]:
    """Five prompts of the teacher have a page, four a button; of others one has a page."""
    for persona, words in WORDS.items():
        for rank, word in enumerate(words):
            yield {"entity": word, "persona": persona, "sentences": 9 - rank, "prompts": 5 - rank}
    yield {"entity": "page", "persona": "astrophysicist-male", "sentences": 1, "prompts": 1}


def _entity_map() -> Iterator[dict[str, Any]]:
    for place, (persona, words) in enumerate(WORDS.items()):
        for rank, word in enumerate(words):
            if not place or word != "class":
                yield {
                    "entity": word,
                    "x": float(place),
                    "y": float(rank),
                    "persona": persona,
                    "share": 0.9 - 0.1 * rank,
                    "sentences": 10 - rank - place,
                }


def _topics() -> Iterator[dict[str, Any]]:
    words = {1: ("class", "test", "input", "return", "error"), 2: ("page", "button", "see", "mark")}
    for topic, listed in words.items():
        for rank, word in enumerate(listed, start=1):
            yield {"topic": topic, "rank": rank, "word": word, "weight": 0.3 / rank}


def _over(prompts: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every prompt at every setting."""
    for setting, prompt in itertools.product(SETTINGS, prompts):
        yield {**prompt, "temperature": setting[0], "top_p": setting[1]}


def reply_of(row: Mapping[str, Any], replicate: int) -> str:
    """What a draw holds: words alone to the teacher's second draws for the bike shop."""
    talks = row["persona"] == TEACHER and row["task"] == TASKS[1] and replicate == 1
    return "none" if talks else "program"


def _features(prompts: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for row, replicate in itertools.product(_over(prompts), range(DRAWS_EACH)):
        kind = reply_of(row, replicate)
        told: dict[str, Any] = {"replicate": replicate, "reply": kind, "tags": "python"}
        told |= {"reply_lines": 0 if kind == "none" else 5, "reply_words": 12}
        if kind == "program":
            told |= {
                name: {pl.Boolean: False, pl.Int32: 1}[FEATURES.columns[name].dtype]
                for name in FEATURE_COLUMNS
                if name not in told
            }
            told |= {"lines": 5, "inputs": 3 if row["persona"] == TEACHER else 0}
        yield row | told


def _programs(prompts: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for row, replicate in itertools.product(_over(prompts), range(DRAWS_EACH)):
        has_code = reply_of(row, replicate) == "program"
        yield row | {
            "replicate": replicate,
            "draw_status": "ok",
            "status": "ok" if has_code else "no_code",
            "code": HOSTILE_PROGRAM + "answer = input('number')\n" if has_code else None,
            "source": "fence" if has_code else "none",
            "fences": 1,
            "tag": "python",
            "nodes": 12 if has_code else None,
        }


def _draws(prompts: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for row, replicate in itertools.product(prompts, range(DRAWS_EACH)):
        text = HOSTILE_PROGRAM if reply_of(row, replicate) == "program" else HOSTILE_REPLY
        yield {**row, "replicate": replicate, "seed": 1, "text": text, "raw": text, "status": "ok"}


def _extractions(prompts: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in _over(prompts):
        none = sum(reply_of(row, replicate) == "none" for replicate in range(DRAWS_EACH))
        large = row["prompt_id"] == f"{TASKS[0]}/astrophysicist-male/0"
        yield {
            **row,
            "draws": DRAWS_EACH,
            "ok": DRAWS_EACH - none,
            "invalid": 0,
            "truncated": 0,
            "no_code": none,
            "unclosed": 0,
            "too_large": int(large),
            "distinct_programs": 1,
            "lines": 10,
        }


def _counts(prompts: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in _over(prompts):
        numbers = dict.fromkeys(("empty", "truncated", "no_answer", "error"), 0)
        numbers |= {"draws": DRAWS_EACH, "ok": DRAWS_EACH, "words": 100, "completion_tokens": 200}
        yield {**row, **numbers, "distinct_texts": 1 if row["temperature"] == "0" else 2}


def _dialogues(study: str, models: Sequence[str]) -> Iterator[dict[str, Any]]:
    for model, setting in itertools.product(models, SETTINGS):
        for persona in (None, *(name for name, _, _ in list_personas())):
            dialogues = 46 if persona is None else 12
            row = {"study": study, "model": model, "measure": "tsed", "persona": persona}
            row |= {"temperature": setting[0], "top_p": setting[1], "dialogues": dialogues}
            row |= {"asked": dialogues // 2, "exchanges": 0.5, "programs": dialogues}
            row |= {"same_prompt": 0.7, "with_dialogue": 0.4, "change": 0.3, "n_prompts": 23}
            yield row | _interval(0.3, 0.1)


def _wording_rows(prompts: Sequence[Mapping[str, str]]) -> tuple[list[Any], list[Any]]:
    """Rows of a STYLE and of a TOPIC_WEIGHTS table."""
    style, topics = [], []
    for row in prompts:
        is_teacher = row["persona"] == TEACHER
        for feature, value in (
            ("words", 40.0),
            ("questions", 0.6 if is_teacher else 0.05),
            ("technical", 1.0 if is_teacher else 9.0),
            ("imperatives_less_questions", -0.55 if is_teacher else 0.5),
        ):
            style.append({**row, "feature": feature, "value": value})
        for topic in (1, 2):
            weight = 0.8 if is_teacher == (topic == 2) else 0.2
            topics.append({**row, "topic": topic, "weight": weight})
    return style, topics


def write_persona_results(
    folder: Path,
    study: str = "personas",
    models: Sequence[str] = ("model-a", "model-b"),
    dialogue: bool = True,
    folds: str = "task",
    prompted: bool = True,
) -> None:
    """Write the results of a study of personas as the stages before the report would.

    prompted: whether the personas wrote anything; if not, there is no prompt and all that follows
    from one is without rows.
    """
    prompts = list_prompts() if prompted else []
    own = tuple(DESIGN.columns)
    made = {"study": study, "design": DESIGN.to_json()}
    write_table(
        make_frame(
            STIMULI,
            [row | {"replicates": DRAWS_EACH, "greedy_replicates": DRAWS_EACH} for row in prompts],
            *own,
        ),
        folder / f"stimuli/{study}.parquet",
        STIMULI,
        made | {"files": {"personas.yaml": "0123abcd"}},
    )
    who = {
        name: {"label": LABELS[role], "description": f"You are a {role}. <b>Bold</b>"}
        for name, role, _ in list_personas()
    }
    asked = {"tasks": {task: f"Write code for {task}." for task in TASKS}, "personas": who}
    asked |= {"iterations": ITERATIONS, "model": "persona-model", "study": study}
    attempts = [row | {"used": prompted, "sampled": False} for row in _rewritings()]
    rewritings = _rewritings() if prompted else [row for row in attempts if row["text"]]
    write_table(
        make_frame(REWRITINGS, rewritings),
        folder / f"rewritings/{study}.parquet",
        REWRITINGS,
        asked,
    )
    style, topic_weights = _wording_rows(prompts)
    facts = {"study": study, "spacy": "3.8.18", "parser": "a parser", "prompts_cut": 1}
    for name, table, rows in (
        ("style", STYLE, style),
        ("topic_weights", TOPIC_WEIGHTS, topic_weights),
        ("entities", ENTITIES, _entities()),
        ("map", ENTITY_MAP, _entity_map()),
        ("shared", SHARED_ENTITIES, _shared()),
        ("topics", TOPICS, _topics()),
    ):
        kept = list(rows) if prompted else []
        write_table(
            make_frame(table, kept), folder / f"wording/{study}/{name}.parquet", table, facts
        )
    for model in models:
        meta = made | {"model": model}
        for name, table, rows in (
            ("features", FEATURES, _features(prompts)),
            ("programs", PROGRAMS, _programs(prompts)),
            ("extractions", EXTRACTIONS, _extractions(prompts)),
            ("counts", COUNTS, _counts(prompts)),
        ):
            path = folder / f"{name}/{study}/{model}.parquet"
            write_table(make_frame(table, list(rows), *own), path, table, meta)
        temperature, top_p = SETTINGS[-1]
        write_table(
            make_frame(DRAWS, list(_draws(prompts)), *own),
            folder / f"draws/{study}/{model}/T1.0-P1.0.parquet",
            DRAWS,
            meta | {"engine": "vllm 0.32.0", "temperature": temperature, "top_p": top_p},
        )
        manifest = folder / f"models/{model}.json"
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(json.dumps({"name": model, "source": "hub", "licence": "Apache-2.0"}))
    means = [*_wording_means(study), *_program_means(study, models)]
    for name, table, rows in (
        ("similarity", SEPARATION, _separation(study, models)),
        ("means", PERSONA_MEANS, means),
        ("leakage", LEAKAGE, _leakage(study, models, folds)),
        ("confusions", CONFUSIONS, _confusions(study, models)),
    ):
        kept = list(rows) if prompted else []
        path = folder / f"separation/{study}/{name}.parquet"
        write_table(make_frame(table, kept), path, table, {"study": study})
    if dialogue:
        changes = make_frame(DIALOGUE_CHANGES, list(_dialogues(study, models)))
        path = folder / f"dialogues/{study}/changes.parquet"
        write_table(changes, path, DIALOGUE_CHANGES, {"study": study})
    (folder / "config.yaml").write_text("seed: 1\n")


def of(folder: Path, pattern: str) -> list[str]:
    return [str(path) for path in sorted(folder.glob(pattern))]


def list_table_inputs(folder: Path) -> dict[str, list[str]]:
    """The files that the tables of studies of personas are made of, by option."""
    return {
        "rewritings": of(folder, "rewritings/*"),
        "separation": of(folder, "separation/*/similarity.parquet"),
        "means": of(folder, "separation/*/means.parquet"),
        "leakage": of(folder, "separation/*/leakage.parquet"),
        "confusions": of(folder, "separation/*/confusions.parquet"),
        "features": of(folder, "features/*/*"),
        "shared": of(folder, "wording/*/shared.parquet"),
        "topics": of(folder, "wording/*/topics.parquet"),
        "counts": [path for path in of(folder, "counts/*/*") if "/personas" in path],
        "extractions": [path for path in of(folder, "extractions/*/*") if "/personas" in path],
        "dialogue-changes": of(folder, "dialogues/*/changes.parquet"),
    }


def make_persona_report(folder: Path, suffixes: Sequence[str] = (".svg",)) -> list[str]:
    """Run the commands for studies of personas; returns the arguments that `page` takes for them.

    suffixes: the kinds of figure files; with none, no figure is drawn.
    """
    from llm_variability.report import figures as drawing
    from llm_variability.report.__main__ import main

    all_suffixes, drawing.SUFFIXES = drawing.SUFFIXES, tuple(suffixes)
    if suffixes:
        for study in sorted(path.name for path in (folder / "separation").iterdir()):
            own, wording = folder / f"separation/{study}", folder / f"wording/{study}"
            main(
                ["persona-figures", "--separation", str(own / "similarity.parquet")]
                + [f"--means={own / 'means.parquet'}", f"--leakage={own / 'leakage.parquet'}"]
                + [f"--confusions={own / 'confusions.parquet'}"]
                + ["--features", *of(folder, f"features/{study}/*")]
                + [f"--rewritings={folder / 'rewritings' / study}.parquet"]
                + [f"--shared={wording / 'shared.parquet'}", f"--map={wording / 'map.parquet'}"]
                + [f"--entities={wording / 'entities.parquet'}"]
                + [f"--topics={wording / 'topics.parquet'}"]
                + [f"--topic-weights={wording / 'topic_weights.parquet'}"]
                + [
                    f"--dialogue-changes={path}"
                    for path in of(folder, f"dialogues/{study}/changes.parquet")
                ]
                + ["--stars=unadjusted", f"--outdir={folder / 'figures' / study}"]
            )
    drawing.SUFFIXES = all_suffixes
    tables = folder / "tables"
    given = [
        argument
        for name, paths in list_table_inputs(folder).items()
        for argument in (f"--{name}", *paths)
    ]
    main(["persona-tables", *given, "--outdir", str(tables)])
    return (
        ["--persona-tables", *of(folder, "tables/persona_*.csv")]
        + ["--persona-figures", *of(folder, "figures/*/persona-*.svg")]
        + ["--rewritings", *of(folder, "rewritings/*"), "--features", *of(folder, "features/*/*")]
        + ["--style", *of(folder, "wording/*/style.parquet")]
        + ["--entities", *of(folder, "wording/*/entities.parquet")]
        + ["--entity-maps", *of(folder, "wording/*/map.parquet")]
    )


def make_persona_page(folder: Path, arguments: Sequence[str]) -> Path:
    """Make the page of a folder with studies of personas alone.

    arguments: as `make_persona_report` gives them. Returns the page.
    """
    from llm_variability.report.__main__ import main

    main(["tables", "--outdir", str(folder / "tables")])
    tables = [path for path in of(folder, "tables/*.csv") if "/persona_" not in path]
    main(
        ["page", *arguments, "--tables", *tables, "--programs", *of(folder, "programs/*/*")]
        + ["--manifests", *of(folder, "models/*.json"), "--stimuli", *of(folder, "stimuli/*")]
        + ["--draws", *of(folder, "draws/*/*/*"), "--config", str(folder / "config.yaml")]
        + ["--examples", *of(folder, "examples/*/*"), "--output", str(folder / "report.html")]
    )
    return folder / "report.html"
