"""A study made up for the tests of the report: every table of it, as the earlier stages write it.

Numbers are drawn with a fixed seed; texts are as hostile as a model's may be.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from llm_variability.config import cell_name
from llm_variability.tables import (
    COUNTS,
    DRAWS,
    FITS,
    SIMILARITY,
    STIMULI,
    Design,
    Factor,
    write_table,
)

RACES = ("African", "Asian", "Hispanic", "White")
GENDERS = ("man", "woman")
FORMATS = ("story", "biography", "funny-story")
DESIGN = Design(
    "format",
    (Factor("race", RACES, "White"), Factor("gender", GENDERS, "man")),
    greedy_is_anchor=True,
    blocks=FORMATS,
)
HOSTILE = (
    "<script>document.title = 'taken over'; alert(1)</script>",
    "</style></textarea></table></details><h1 id='injected'>Injected</h1>",
    "\u202eright to left\u202c and \u200fmarks\u2067 left open",
    "x" * 100_000,
    "a null byte \x00 and a bell \x07",
    '"><img src=http://example.invalid/pixel.png onerror=alert(2)>',
    "{{ 7 * 7 }} {% raw %}",
    "",
)
FULL_GRID = (("0", "0.5", "1.0", "1.5", "2.0"), ("0.2", "0.4", "0.6", "0.8", "1.0"))
SMALL_GRID = (("0", "0.5", "1.0"), ("0.8",))


def list_settings(grid: tuple[Sequence[str], Sequence[str]]) -> list[tuple[str, str | None]]:
    temperatures, top_ps = grid
    return [
        (temperature, top_p)
        for temperature in temperatures
        for top_p in ([None] if temperature == "0" else top_ps)
    ]


def list_prompts() -> pl.DataFrame:
    rows = [
        {
            "format": block,
            "race": race,
            "gender": gender,
            "prompt_id": f"{block}/{race}/{gender}",
            "system": "You are a chatbot",
            "prompt": f"Write a thirty-word {block} about a(n) {race} American {gender}.",
            "replicates": 5,
            "greedy_replicates": 2,
        }
        for block in FORMATS
        for race in RACES
        for gender in GENDERS
    ]
    return pl.DataFrame(rows)


def list_terms() -> list[str]:
    races = [f"race[{race}]" for race in RACES if race != "White"]
    return [
        "Intercept",
        *races,
        "gender[woman]",
        *(f"{race}:gender[woman]" for race in races),
    ]


def fit_row(
    study: str, model: str, measure: str, level: str, setting: tuple[str, str | None], **given: Any
) -> dict[str, Any]:
    """A row of the fits table; a fit that could not be made unless values are given."""
    row: dict[str, Any] = dict.fromkeys(FITS.columns)
    row |= {
        "study": study,
        "model": model,
        "measure": measure,
        "temperature": setting[0],
        "top_p": setting[1],
        "level": level,
        "n_observations": 240 if level == "pairwise" else 24,
        "n_blocks": 3,
        "backend": "profile",
        "converged": False,
    }
    return row | given


def _fits(study: str, model: str, measure: str, grid: Any, shift: float) -> pl.DataFrame:
    random = np.random.default_rng(len(model))
    rows = []
    for setting in list_settings(grid):
        for level in ("pairwise", "cell"):
            if setting[0] == "0":
                rows.append(
                    fit_row(
                        study,
                        model,
                        measure,
                        level,
                        setting,
                        reason="temperature 0 is the anchor: nothing is fitted",
                    )
                )
                continue
            if setting == ("0.5", "0.2"):
                rows.append(
                    fit_row(
                        study,
                        model,
                        measure,
                        level,
                        setting,
                        reason="no variance: every pairwise cosine is 1",
                    )
                )
                continue
            error = 0.05 if level == "pairwise" else 0.2
            for place, term in enumerate(list_terms()):
                beta = float(shift * (1 if place < 5 else -0.3) + random.normal(0, 0.15))
                p_value = float(np.clip(2 * np.exp(-((abs(beta) / error) ** 2)), 0, 1))
                rows.append(
                    fit_row(
                        study,
                        model,
                        measure,
                        level,
                        setting,
                        term=term,
                        estimate=beta,
                        std_error=error,
                        statistic=beta / error,
                        p_value=p_value,
                        ci_low=beta - 1.96 * error,
                        ci_high=beta + 1.96 * error,
                        var_block=0.1,
                        var_residual=0.9,
                        outcome_mean=0.4,
                        outcome_sd=0.1,
                        converged=setting != ("2.0", "1.0") or level == "pairwise",
                    )
                )
    return pl.DataFrame(rows, schema={name: column.dtype for name, column in FITS.columns.items()})


def _similarity(grid: Any, shift: float) -> pl.DataFrame:
    prompts = list_prompts().select("format", "race", "gender", "prompt_id")
    frames = []
    for temperature, top_p in list_settings(grid):
        replicates = 2 if temperature == "0" else 5
        level = 1.0 if temperature == "0" else 0.85 - 0.2 * float(temperature)
        level -= 0.0 if top_p is None else 0.1 * float(top_p)
        bonus = {"African": 0.0, "Asian": 0.5, "Hispanic": 1.0, "White": -0.4}
        mean = pl.lit(level) + (
            pl.col("race").replace_strict(bonus, return_dtype=pl.Float64) * shift * 0.15
            if temperature != "0"
            else pl.lit(0.0)
        )
        frames.append(
            prompts.join(pl.DataFrame({"replicate": range(replicates)}), how="cross").with_columns(
                temperature=pl.lit(temperature),
                top_p=pl.lit(top_p, pl.String),
                n_mates=pl.lit(replicates - 1),
                cosine_sum=mean * (replicates - 1),
                cosine_sum_squares=mean**2 * (replicates - 1),
            )
        )
    return pl.concat(frames)


def _counts(grid: Any, empty: int, truncated: int) -> pl.DataFrame:
    prompts = list_prompts().select("format", "race", "gender", "prompt_id")
    frames = []
    for temperature, top_p in list_settings(grid):
        draws = 2 if temperature == "0" else 5
        bad = {"empty": empty, "truncated": truncated} if temperature == "2.0" else {}
        counts = {
            "ok": draws - sum(bad.values()),
            "empty": 0,
            "truncated": 0,
            "no_answer": 0,
            "error": 0,
        } | bad
        frames.append(
            prompts.with_columns(
                temperature=pl.lit(temperature),
                top_p=pl.lit(top_p, pl.String),
                draws=pl.lit(draws),
                completion_tokens=pl.lit(draws * 40),
                distinct_texts=pl.lit(1 if temperature == "0" else draws - bad.get("empty", 0)),
                **{status: pl.lit(count) for status, count in counts.items()},
            )
        )
    return pl.concat(frames)


def _draws() -> pl.DataFrame:
    prompts = list_prompts().select("format", "race", "gender", "prompt_id")
    frame = prompts.join(pl.DataFrame({"replicate": range(5)}), how="cross").with_row_index("row")
    texts = [HOSTILE[row // 5 % len(HOSTILE)] for row in range(frame.height)]
    return frame.drop("row").with_columns(
        pl.Series("text", texts),
        pl.Series("raw", texts),
        seed=pl.int_range(pl.len()) * 12_345_678_901,
        reasoning=pl.lit(None, pl.String),
        finish_reason=pl.lit("stop"),
        status=pl.when(pl.Series(texts) == "").then(pl.lit("empty")).otherwise(pl.lit("ok")),
        prompt_tokens=pl.lit(20),
        completion_tokens=pl.lit(40),
        error=pl.lit(None, pl.String),
    )


def write_results(
    folder: Path,
    study: str = "labels",
    models: Sequence[str] = ("SmolLM2-135M-Instruct", "Qwen3-8B"),
    encoders: Sequence[str] = ("all-mpnet-base-v2", "all-MiniLM-L6-v2"),
    grid: tuple[Sequence[str], Sequence[str]] = FULL_GRID,
) -> None:
    """Write the results of a study as the stages before the report would."""
    made_by = {"study": study, "design": DESIGN.to_json()}
    write_table(list_prompts(), folder / f"stimuli/{study}.parquet", STIMULI, made_by)
    for rank, model in enumerate(models):
        shift = 0.3 if rank % 2 == 0 else -0.4
        meta = {**made_by, "model": model}
        write_table(
            _counts(grid, empty=1, truncated=2),
            folder / f"counts/{study}/{model}.parquet",
            COUNTS,
            meta,
        )
        temperature, top_p = list_settings(grid)[-1]
        write_table(
            _draws(),
            folder / f"draws/{study}/{model}/{cell_name(temperature, top_p)}.parquet",
            DRAWS,
            {
                **meta,
                "engine": "vllm 0.32.0",
                "seed": 1,
                "sampling": {"max_tokens": 80},
                "temperature": temperature,
                "top_p": top_p,
                "chat_template_hash": "1234abcd",
            },
        )
        for encoder in encoders:
            name = f"{study}/{model}/{encoder}.parquet"
            write_table(
                _fits(study, model, encoder, grid, shift), folder / "fits" / name, FITS, meta
            )
            write_table(
                _similarity(grid, shift),
                folder / "similarity" / name,
                SIMILARITY,
                {**meta, "encoder": encoder},
            )
        _write_manifest(folder / f"models/{model}.json", model)
    for encoder in encoders:
        _write_manifest(folder / f"encoders/{encoder}.json", encoder)
    (folder / "config.yaml").write_text(
        "seed: 1\nmodels:\n  far: {endpoint: 'https://user:secret@example.invalid/v1'}\n"
    )


def _write_manifest(path: Path, name: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    manifest = {
        "name": name,
        "source": "hub",
        "origin": f"https://hub.invalid/{name}",
        "revision": "0123456789abcdef" * 2 + "01234567",
        "licence": "Apache-2.0",
    }
    path.write_text(json.dumps(manifest))


def make_report(folder: Path) -> Path:
    """Run the report's commands over the results of a folder; returns the page."""
    from llm_variability.report.__main__ import main

    def of(pattern: str) -> list[str]:
        return [str(path) for path in sorted(folder.glob(pattern))]

    figures = []
    for path in (folder / "fits").glob("*/*/*.parquet"):
        stem = folder / "figures" / path.relative_to(folder / "fits").with_suffix("")
        for level in ("pairwise", "cell"):
            main(["heatmap", "--fits", str(path), "--level", level, "--stem", f"{stem}-{level}"])
            figures.append(f"{stem}-{level}.svg")
        similarity = folder / "similarity" / path.relative_to(folder / "fits")
        main(["cosine", "--similarity", str(similarity), "--stem", f"{stem}-cosine"])
        figures.append(f"{stem}-cosine.svg")
    main(
        [
            "tables",
            "--fits",
            *of("fits/*/*/*"),
            "--similarity",
            *of("similarity/*/*/*"),
            "--counts",
            *of("counts/*/*"),
            "--outdir",
            str(folder / "tables"),
        ]
    )
    main(
        [
            "page",
            "--tables",
            *of("tables/*.csv"),
            "--figures",
            *figures,
            "--manifests",
            *of("models/*.json"),
            *of("encoders/*.json"),
            "--draws",
            *of("draws/*/*/*"),
            "--stimuli",
            *of("stimuli/*"),
            "--config",
            str(folder / "config.yaml"),
            "--output",
            str(folder / "report.html"),
        ]
    )
    return folder / "report.html"
