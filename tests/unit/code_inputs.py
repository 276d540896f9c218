"""A study of code made up for the tests of the report: every table of it, as earlier stages write.

A rescaled curve is exp(-k x), so that its half-life is ln 2 / k and its slope at zero is -k. Texts
are as hostile as a model's may be.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from llm_variability.tables import COUNTS, DRAWS, STIMULI, Design, Table, write_table
from llm_variability.tables_code import (
    AUGMENTATIONS,
    CURVE_CONTRASTS,
    CURVE_FITS,
    CURVE_SUMMARIES,
    CURVES,
    EXTRACTIONS,
    PARAPHRASES,
    PROGRAMS,
)

DESIGN = Design(
    "task",
    (),
    carried=("set", "language", "augmentation", "method", "rate", "variant"),
)
TASKS = {"humaneval": 12, "fresh": 4, "open": 3}
RATES = ("0", "0.2", "0.4", "0.6", "0.8", "1.0")
DECAY = {"keyboard": 4.0, "synonym": 1.0, "nlpaug-keyboard": 3.0}
"""k of each method."""
LIMIT = {"keyboard": 1.0, "synonym": 0.43, "nlpaug-keyboard": 0.4}
"""The highest rate that each method realises."""
EXACT = ("keyboard", "synonym")
BAND_HEIGHTS = {"low": 0.8, "medium": None, "high": 0.5}
"""Rescaled similarity in each band; nobody wrote a paraphrase of the medium one."""
CEILING, FLOOR = 0.9, 0.3
MEASURES = ("tsed", "encoder-a")
SETTINGS: tuple[tuple[str, str | None], ...] = (
    ("0", None),
    ("0.5", "0.8"),
    ("0.5", "1.0"),
    ("1.0", "0.8"),
    ("1.0", "1.0"),
)
DRAWS_EACH = 5
HOSTILE_PROGRAM = "# </code></pre><script>alert(1)</script>\nprint('\u202e{{ 7 * 7 }}')\x00\n"


def realise(method: str, rate: str) -> float:
    return min(float(rate), LIMIT[method])


def list_augmentations(paraphrased: bool = True) -> Iterator[tuple[str, str, str]]:
    """Name, method and rate of every augmentation that has prompts."""
    yield ("original", "original", "0")
    for method, rate in itertools.product(DECAY, RATES):
        if rate != "0" or method not in EXACT:
            yield (f"{method}-{rate}", method, rate)
    if paraphrased:
        for band, height in BAND_HEIGHTS.items():
            if height is not None:
                yield (f"paraphrase-{band}", "paraphrase", band)


def list_prompts(paraphrased: bool = True) -> pl.DataFrame:
    """The study's own columns and prompt ids of every prompt."""
    rows = []
    for name, number in TASKS.items():
        for task in range(number):
            for augmentation, method, rate in list_augmentations(paraphrased):
                key = f"{name}/task-{task}"
                rows.append(
                    {
                        "task": key,
                        "set": name,
                        "language": "python",
                        "augmentation": augmentation,
                        "method": method,
                        "rate": rate,
                        "variant": "0",
                        "prompt_id": f"{key}:{augmentation}",
                    }
                )
    return pl.DataFrame(rows)


def _over_settings(prompts: pl.DataFrame) -> pl.DataFrame:
    settings = pl.DataFrame(
        SETTINGS, schema={"temperature": pl.String, "top_p": pl.String}, orient="row"
    )
    return settings.join(prompts, how="cross")


def _steps(model: str) -> float:
    """How much faster a model's curves fall than `DECAY` says."""
    return 1.5 if model.endswith("b") else 1.0


def _ceiling(setting: tuple[str, str | None]) -> float:
    return CEILING - 0.1 * float(setting[0])


def _curve_rows(study: str, model: str, paraphrased: bool) -> Iterator[dict[str, Any]]:
    for measure, setting, name in itertools.product(MEASURES, SETTINGS, (None, *TASKS)):
        tasks = sum(TASKS.values()) if name is None else TASKS[name]
        ceiling = _ceiling(setting)
        of = {
            "study": study,
            "model": model,
            "measure": measure,
            "temperature": setting[0],
            "top_p": setting[1],
            "set": name,
            "n_tasks": tasks,
            "n_tasks_asked": tasks,
            "n_pairs": 25 * tasks,
        }
        swapped = name == "open" and setting == ("1.0", "1.0") and measure == "tsed"
        for comparison, height, rescaled in (
            ("ceiling", FLOOR - 0.05 if swapped else ceiling, 1.0),
            ("floor", FLOOR, 0.0),
        ):
            yield of | {
                "comparison": comparison,
                "estimate": height,
                "ci_low": height - 0.02,
                "ci_high": height + 0.02,
                "rescaled": None if swapped else rescaled,
            }
        points = [
            (method, rate, realise(method, rate), math.exp(-DECAY[method] * _steps(model) * at))
            for method, rate in itertools.product(DECAY, RATES)
            for at in [realise(method, rate)]
        ]
        if paraphrased:
            points += [("paraphrase", band, None, height) for band, height in BAND_HEIGHTS.items()]
        for method, rate, at, height in points:
            row = of | {"comparison": "augmented", "method": method, "rate": rate, "realised": at}
            if height is None:
                yield row | {"n_tasks": 0, "n_tasks_asked": 0, "n_pairs": 0, "reason": "no prompt"}
                continue
            estimate = FLOOR + (ceiling - FLOOR) * height
            has_interval = tasks > 3
            yield row | {
                "estimate": estimate,
                "ci_low": estimate - 0.03 if has_interval else None,
                "ci_high": estimate + 0.03 if has_interval else None,
                "rescaled": None if swapped else height,
                "rescaled_low": height - 0.05 if has_interval and not swapped else None,
                "rescaled_high": height + 0.05 if has_interval and not swapped else None,
                "reason": None if has_interval else "fewer than 4 tasks: no interval",
            }


def _summary_rows(study: str, model: str) -> Iterator[dict[str, Any]]:
    for measure, setting, name in itertools.product(MEASURES, SETTINGS, (None, *TASKS)):
        for method, decay in DECAY.items():
            k, end = decay * _steps(model), LIMIT[method]
            half = math.log(2) / k
            values = {"auc": (1 - math.exp(-k * end)) / (k * end), "half_life": half, "slope": -k}
            for summary, value in values.items():
                missing = summary == "half_life" and half > end
                reason = f"not reached below {end:g}" if missing else None
                yield {
                    "study": study,
                    "model": model,
                    "measure": measure,
                    "temperature": setting[0],
                    "top_p": setting[1],
                    "set": name,
                    "method": method,
                    "summary": summary,
                    "estimate": None if missing else value,
                    "std_error": None if missing else 0.05,
                    "ci_low": None if missing else value - 0.1,
                    "ci_high": None if missing else value + 0.1,
                    "n_tasks": sum(TASKS.values()) if name is None else TASKS[name],
                    "reason": reason,
                }


def _contrast(study: str, kind: str, first: str, second: str, **given: Any) -> dict[str, Any]:
    return {
        "study": study,
        "measure": "tsed",
        "temperature": "0",
        "top_p": None,
        "summary": "auc",
        "kind": kind,
        "first": first,
        "second": second,
        "n_tasks": 19,
        "family_size": 8,
    } | given


def _contrast_rows(study: str, models: Sequence[str]) -> Iterator[dict[str, Any]]:
    numbers = {"std_error": 0.05, "ci_low": -0.22, "ci_high": -0.02}
    for model, measure in itertools.product(models, MEASURES):
        yield _contrast(
            study,
            "set",
            "open",
            "humaneval",
            measure=measure,
            model=model,
            method="keyboard",
            estimate=-0.12,
            p_value=0.012,
            p_holm=0.034,
            p_bh=0.02,
            **numbers,
        )
        yield _contrast(
            study, "set", "open", "humaneval", measure=measure, model=model, method="synonym",
            reason="no interval: fewer than 4 tasks", family_size=None,
        )  # fmt: skip
        yield _contrast(
            study, "method", "keyboard", "synonym", measure=measure, model=model, estimate=-0.4,
            p_value=1e-5, p_holm=8e-5, p_bh=4e-5, **numbers,
        )  # fmt: skip
    for first, second in itertools.combinations(models, 2):
        yield _contrast(
            study, "model", first, second, method="keyboard", estimate=0.01, p_value=0.7,
            p_holm=1.0, p_bh=0.8, **numbers,
        )  # fmt: skip


def _fit_rows(study: str, model: str) -> Iterator[dict[str, Any]]:
    for measure, method, level, random in itertools.product(
        MEASURES, DECAY, ("pair", "task"), ("intercept", "intercept + slope")
    ):
        for term, estimate in (("intercept", 0.8), ("rate", -0.1 * DECAY[method])):
            yield {
                "study": study,
                "model": model,
                "measure": measure,
                "temperature": "0",
                "method": method,
                "level": level,
                "random": random,
                "term": term,
                "estimate": estimate,
                "std_error": 0.02,
                "ci_low": estimate - 0.04,
                "ci_high": estimate + 0.04,
                "p_value": 0.0004,
                "p_holm": 0.002,
                "p_bh": 0.001,
                "family_size": 6,
                "df": 18.0 if level == "task" else None,
                "var_intercept": 0.01,
                "var_residual": 0.02,
                "n_observations": 400,
                "n_tasks": 19,
                "backend": "profile",
                "converged": not (level == "pair" and random != "intercept"),
            }


def _frame(rows: Iterator[dict[str, Any]], table: Table) -> pl.DataFrame:
    empty = dict.fromkeys(table.columns)
    schema = {name: column.dtype for name, column in table.columns.items()}
    return pl.DataFrame([empty | row for row in rows], schema=schema)


def _augmentations(prompts: pl.DataFrame) -> pl.DataFrame:
    rows = []
    for row in prompts.iter_rows(named=True):
        is_rated = row["method"] in DECAY
        realised = realise(row["method"], row["rate"]) if is_rated else None
        account: dict[str, Any] = dict.fromkeys(
            ("unit", "eligible", "replaceable", "asked", "edited", "realised", "bleu", "edits")
        )
        if realised is not None:
            replaceable = 100 if row["method"] == "keyboard" else 43
            account |= {
                "unit": "word" if row["method"] == "synonym" else "character",
                "eligible": 100,
                "replaceable": replaceable,
                "asked": round(100 * float(row["rate"])),
                "edited": round(100 * realised),
                "realised": realised,
                "edits": "[]",
            }
        elif row["method"] == "paraphrase":
            account["bleu"] = 0.6 if row["rate"] == "low" else 0.1
        rows.append(row | account | {"text": "Write <b>a program</b>.", "repeated": False})
    frame = pl.DataFrame(rows, infer_schema_length=None)
    repeated = (pl.col("task") == "open/task-0") & (pl.col("augmentation") == "synonym-1.0")
    return frame.with_columns(repeated.alias("repeated"))


def _paraphrases() -> pl.DataFrame:
    rows = []
    for name, number in TASKS.items():
        for task, degree, variant in itertools.product(
            range(number), ("low", "medium", "high"), range(2)
        ):
            band = "low" if degree == "low" else "high"
            text: str | None = f"Please <i>write</i> a program {variant}."
            flags, used = "", True
            if degree == "medium" and variant == 1:
                text, flags, used = None, "empty", False
            elif degree == "high" and variant == 1:
                flags, used = "lost code", False
            rows.append(
                {
                    "task": f"{name}/task-{task}",
                    "degree": degree,
                    "temperature": "0.5",
                    "variant": variant,
                    "seed": 12 + variant,
                    "status": "empty" if text is None else "ok",
                    "text": text,
                    "bleu": None if text is None else 0.6 + task / 100 if band == "low" else 0.1,
                    "band": None if text is None else band,
                    "similarity": None if text is None else 0.95 - task / 200,
                    "bertscore": None,
                    "flags": flags,
                    "used": used,
                }
            )
    schema = {name: column.dtype for name, column in PARAPHRASES.columns.items()}
    return pl.DataFrame(rows, schema=schema)


def _fails(model: str) -> pl.Expr:
    """The cell in which four of five replies hold no program, of the second model."""
    return (
        pl.lit(model.endswith("b"))
        & (pl.col("temperature") == "1.0")
        & (pl.col("top_p") == "1.0")
        & (pl.col("augmentation") == "keyboard-1.0")
    )


def _extractions(prompts: pl.DataFrame, model: str) -> pl.DataFrame:
    failing = pl.when(_fails(model))
    return _over_settings(prompts).with_columns(
        draws=pl.lit(DRAWS_EACH),
        ok=failing.then(1).otherwise(4),
        invalid=pl.lit(0),
        truncated=failing.then(0).otherwise(1),
        no_code=failing.then(4).otherwise(0),
        unclosed=pl.lit(0),
        too_large=pl.when(pl.col("task") == "humaneval/task-0").then(1).otherwise(0),
        distinct_programs=pl.lit(1),
        lines=pl.lit(40),
    )


def _counts(prompts: pl.DataFrame) -> pl.DataFrame:
    greedy = pl.col("temperature") == "0"
    return _over_settings(prompts).with_columns(
        draws=pl.lit(DRAWS_EACH),
        ok=pl.lit(4),
        empty=pl.lit(0),
        truncated=pl.lit(1),
        no_answer=pl.lit(0),
        error=pl.lit(0),
        distinct_texts=pl.when(greedy).then(1).otherwise(DRAWS_EACH),
        words=pl.lit(500),
        completion_tokens=pl.lit(1_000),
    )


def _programs(prompts: pl.DataFrame) -> pl.DataFrame:
    none = pl.col("augmentation") == "keyboard-1.0"
    return _over_settings(prompts).with_columns(
        replicate=pl.lit(0),
        draw_status=pl.lit("ok"),
        status=pl.when(none).then(pl.lit("no_code")).otherwise(pl.lit("ok")),
        code=pl.when(none).then(pl.lit(None, pl.String)).otherwise(pl.lit(HOSTILE_PROGRAM)),
        source=pl.when(none).then(pl.lit("none")).otherwise(pl.lit("fence")),
        fences=pl.lit(1),
        tag=pl.lit("python"),
        nodes=pl.when(none).then(None).otherwise(12),
    )


def _draws(prompts: pl.DataFrame) -> pl.DataFrame:
    original = prompts.filter(augmentation="original")
    return original.with_columns(
        replicate=pl.lit(0),
        seed=pl.lit(1),
        text=pl.lit(HOSTILE_PROGRAM),
        raw=pl.lit(HOSTILE_PROGRAM),
        reasoning=pl.lit(None, pl.String),
        status=pl.lit("ok"),
        finish_reason=pl.lit("stop"),
        prompt_tokens=pl.lit(20),
        completion_tokens=pl.lit(40),
        error=pl.lit(None, pl.String),
    )


def write_code_results(
    folder: Path,
    study: str = "code",
    models: Sequence[str] = ("model-a", "model-b"),
    paraphrased: bool = True,
) -> None:
    """Write the results of a study of code as the stages before the report would."""
    prompts = list_prompts(paraphrased)
    made = {"study": study, "design": DESIGN.to_json()}
    stimuli = prompts.with_columns(
        system=pl.lit(None, pl.String),
        prompt=pl.lit("Write <b>a program</b>: ") + pl.col("task"),
        replicates=pl.lit(DRAWS_EACH),
        greedy_replicates=pl.lit(DRAWS_EACH),
    )
    files = {"files": {f"{name}.jsonl": "0123abcd" for name in TASKS}}
    write_table(stimuli, folder / f"stimuli/{study}.parquet", STIMULI, made | files)
    write_table(
        _augmentations(prompts), folder / f"augmentations/{study}.parquet", AUGMENTATIONS, made
    )
    if paraphrased:
        path = folder / f"paraphrases/{study}.parquet"
        write_table(_paraphrases(), path, PARAPHRASES, {"study": study})
    for model in models:
        meta = made | {"model": model}
        for kind, frame, table in (
            ("extractions", _extractions(prompts, model), EXTRACTIONS),
            ("counts", _counts(prompts), COUNTS),
            ("programs", _programs(prompts), PROGRAMS),
        ):
            write_table(frame, folder / f"{kind}/{study}/{model}.parquet", table, meta)
        write_table(
            _draws(prompts),
            folder / f"draws/{study}/{model}/T0/original.parquet",
            DRAWS,
            meta | {"engine": "vllm 0.32.0", "temperature": "0", "top_p": None},
        )
        manifest = folder / f"models/{model}.json"
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(json.dumps({"name": model, "source": "hub", "licence": "Apache-2.0"}))
    frames = {
        "curves": (CURVES, [_curve_rows(study, model, paraphrased) for model in models]),
        "summaries": (CURVE_SUMMARIES, [_summary_rows(study, model) for model in models]),
        "contrasts": (CURVE_CONTRASTS, [_contrast_rows(study, models)]),
        "fits": (CURVE_FITS, [_fit_rows(study, model) for model in models]),
    }
    for name, (table, parts) in frames.items():
        path = folder / f"curves/{study}/{name}.parquet"
        write_table(_frame(itertools.chain(*parts), table), path, table, {"study": study})
    (folder / "config.yaml").write_text("seed: 1\n")


def _of(folder: Path, pattern: str) -> list[str]:
    return [str(path) for path in sorted(folder.glob(pattern))]


def make_code_report(folder: Path, suffixes: Sequence[str] = (".svg",)) -> list[str]:
    """Run the commands for studies of code; returns the arguments that `page` takes for them."""
    from llm_variability.report import figures as drawing
    from llm_variability.report.__main__ import main

    all_suffixes, drawing.SUFFIXES = drawing.SUFFIXES, tuple(suffixes)
    studies = sorted(path.name for path in (folder / "curves").iterdir())
    for study in studies:
        inputs = ["--curves", str(folder / f"curves/{study}/curves.parquet")]
        inputs += ["--summaries", str(folder / f"curves/{study}/summaries.parquet")]
        outdir = ["--outdir", str(folder / f"figures/{study}")]
        paraphrases = _of(folder, f"paraphrases/{study}.parquet")
        main(["code-figures", *inputs[:2], "--paraphrases", *paraphrases, *outdir])
        main(["code-heatmaps", *inputs, *outdir])
    tables = folder / "tables"
    main(
        ["code-tables"]
        + [
            argument
            for name in ("curves", "summaries", "contrasts", "fits")
            for argument in (f"--{name}", *_of(folder, f"curves/*/{name}.parquet"))
        ]
        + ["--extractions", *_of_studies(folder, "extractions", studies), "--paraphrases"]
        + [*_of(folder, "paraphrases/*"), "--augmentations", *_of(folder, "augmentations/*")]
        + ["--counts", *_of_studies(folder, "counts", studies)]
        + ["--outdir", str(tables)]
    )
    drawing.SUFFIXES = all_suffixes
    return (
        ["--code-tables", *_of(folder, "tables/code_*.csv")]
        + ["--code-figures", *_of(folder, "figures/*/code-*.svg")]
        + [*_of(folder, "figures/*/*/code-*.svg"), "--programs", *_of(folder, "programs/*/*")]
    )


def _of_studies(folder: Path, kind: str, studies: Sequence[str]) -> list[str]:
    """Tables of a kind of the studies of code: a folder may hold other studies too."""
    return [path for study in studies for path in _of(folder, f"{kind}/{study}/*")]


def make_code_page(folder: Path, arguments: Sequence[str]) -> Path:
    """Make the page of a folder with studies of code alone.

    arguments: as `make_code_report` gives them. Returns the page.
    """
    from llm_variability.report.__main__ import main

    main(["tables", "--outdir", str(folder / "tables")])
    main(
        ["page", *arguments]
        + ["--tables", *(path for path in _of(folder, "tables/*.csv") if "/code_" not in path)]
        + ["--manifests", *_of(folder, "models/*.json"), "--stimuli", *_of(folder, "stimuli/*")]
        + ["--draws", *_of(folder, "draws/*/*/*/*"), "--config", str(folder / "config.yaml")]
        + ["--examples", *_of(folder, "examples/*/*"), "--output", str(folder / "report.html")]
    )
    return folder / "report.html"
