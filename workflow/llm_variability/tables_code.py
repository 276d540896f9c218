"""The column contracts of the tables that only studies of code have."""

from __future__ import annotations

import polars as pl

from llm_variability.table_contract import SETTING, STATUSES, Column, Table

PROGRAM_STATUSES = ("ok", "invalid", "truncated", "no_code")
"""What a reply holds: a program that parses; code that does not; code that was cut off; none."""

COMPARISONS = ("augmented", "ceiling", "floor")
"""What a draw is compared with: the draws of its task's unaltered prompt; these with each other;
the draws of the unaltered prompts of other tasks of its set."""

_ACCOUNT = {
    "realised": Column(
        pl.Float64, "share of the eligible units that was changed; null: a paraphrase", True
    ),
    "bleu": Column(pl.Float64, "sacreBLEU of a paraphrase to the original, 0 to 1", True),
}

AUGMENTATIONS = Table(
    "augmentations",
    {
        "prompt_id": Column(pl.String, "the prompt it became"),
        "text": Column(pl.String, "the augmented text, prefix and postfix left out"),
        "unit": Column(pl.String, "character or word: what a rate is a share of", nullable=True),
        "eligible": Column(pl.Int32, "units that the rate is a share of", nullable=True),
        "replaceable": Column(pl.Int32, "units that can be changed at all", nullable=True),
        "asked": Column(pl.Int32, "units that the rate asks for", nullable=True),
        "edited": Column(pl.Int32, "units that were changed", nullable=True),
        **_ACCOUNT,
        "edits": Column(pl.String, "JSON list of [offset, before, after]; null: not told", True),
        "repeated": Column(
            pl.Boolean, "another variant of the same augmentation is the same text, so not drawn"
        ),
    },
    takes_factors=True,
    row="a changed text",
)

PARAPHRASES = Table(
    "paraphrases",
    {
        "task": Column(pl.String, "the task whose text was reworded, as in open/ant-bridge"),
        "degree": Column(pl.String, "degree of diversity asked for: low, medium or high"),
        "temperature": Column(pl.String, "temperature it was drawn at, canonical text"),
        "variant": Column(pl.Int32, "number of the draw, from 0"),
        "seed": Column(pl.Int64, "seed of the draw"),
        "status": Column(pl.String, f"of the draw: one of {', '.join(STATUSES)}"),
        "text": Column(pl.String, "the paraphrase; null: none came", nullable=True),
        "bleu": Column(pl.Float64, "sacreBLEU against the original, 0 to 1", nullable=True),
        "band": Column(pl.String, "low, medium or high diversity, by its BLEU", nullable=True),
        "similarity": Column(
            pl.Float64, "cosine to the original, by the primary encoder", nullable=True
        ),
        "bertscore": Column(pl.Float64, "BERTScore F1 to the original", nullable=True),
        "flags": Column(pl.String, "what may be wrong with it, parted by spaces; may be empty"),
        "used": Column(pl.Boolean, "prompts are made of it"),
    },
    row="a draw of a paraphrase",
)

PROGRAMS = Table(
    "programs",
    {
        **SETTING,
        "prompt_id": Column(pl.String, "the prompt drawn from"),
        "replicate": Column(pl.Int32, "number of the draw"),
        "draw_status": Column(pl.String, f"of the draw: one of {', '.join(STATUSES)}"),
        "status": Column(pl.String, f"one of {', '.join(PROGRAM_STATUSES)}"),
        "code": Column(pl.String, "the program; null for no_code", nullable=True),
        "source": Column(pl.String, "where it stood: fence, unclosed_fence, bare, none"),
        "fences": Column(pl.Int32, "fenced blocks that could be a program"),
        "tag": Column(pl.String, "language that the fence names; may be empty"),
        "nodes": Column(pl.Int32, "named nodes of its tree; null unless ok", nullable=True),
    },
    takes_factors=True,
    row="a draw",
)

EXTRACTIONS = Table(
    "extractions",
    {
        **SETTING,
        "prompt_id": Column(pl.String, "the prompt drawn from"),
        "draws": Column(pl.Int32, "draws made"),
        **{status: Column(pl.Int32, f"replies of status {status}") for status in PROGRAM_STATUSES},
        "unclosed": Column(pl.Int32, "programs of a fence that never closed"),
        "too_large": Column(pl.Int32, "programs whose tree has more than max_nodes nodes"),
        "distinct_programs": Column(pl.Int32, "different programs among those of status ok"),
        "lines": Column(pl.Int64, "lines of the programs of status ok"),
    },
    takes_factors=True,
    row="a prompt at a setting",
)

PAIRS = Table(
    "pairs",
    {
        **SETTING,
        "measure": Column(pl.String, "tsed, tsed-published or the encoder's name"),
        "comparison": Column(pl.String, f"one of {', '.join(COMPARISONS)}"),
        "prompt_id": Column(pl.String, "the prompt drawn from"),
        "replicate": Column(pl.Int32, "number of the draw"),
        "reference_task": Column(pl.String, "the task of the draw it is compared with"),
        "reference_replicate": Column(pl.Int32, "the number of that draw"),
        "similarity": Column(pl.Float64, "of the two programs"),
    },
    takes_factors=True,
    row="a pair of programs",
)

AVERAGES = Table(
    "averages",
    {
        **SETTING,
        "measure": Column(pl.String, "tsed, tsed-published or the encoder's name"),
        "comparison": Column(pl.String, f"one of {', '.join(COMPARISONS)}"),
        "prompt_id": Column(pl.String, "the prompt whose draws are compared"),
        **_ACCOUNT,
        "draws": Column(pl.Int32, "draws of the prompt"),
        "programs": Column(pl.Int32, "of these, programs that can be compared"),
        "n_pairs": Column(pl.Int64, "pairs compared"),
        "mean": Column(pl.Float64, "mean similarity; null: no pair", nullable=True),
        "within_ss": Column(
            pl.Float64, "sum of squares of the similarities about their mean", nullable=True
        ),
    },
    takes_factors=True,
    row="a prompt at a setting, by measure and comparison",
)

_CURVE_OF = {
    "study": Column(pl.String, "study"),
    "model": Column(pl.String, "language model"),
    "measure": Column(pl.String, "tsed, tsed-published or the encoder's name"),
    **SETTING,
    "set": Column(pl.String, "set of tasks; null: all sets", nullable=True),
}

_INTERVAL = {
    "ci_low": Column(pl.Float64, "lower end of the 95% interval, tasks resampled", nullable=True),
    "ci_high": Column(pl.Float64, "its upper end", nullable=True),
}

CURVES = Table(
    "curves",
    {
        **_CURVE_OF,
        "comparison": Column(pl.String, f"one of {', '.join(COMPARISONS)}"),
        "method": Column(pl.String, "how prompts were changed; null: ceiling, floor", True),
        "rate": Column(pl.String, "nominal rate, or band of paraphrases", nullable=True),
        "realised": Column(pl.Float64, "mean realised rate over tasks", nullable=True),
        "n_tasks": Column(pl.Int32, "tasks with a pair"),
        "n_tasks_asked": Column(pl.Int32, "tasks with a prompt there"),
        "n_pairs": Column(pl.Int64, "pairs of programs"),
        "estimate": Column(pl.Float64, "mean over tasks of their mean similarity", nullable=True),
        **_INTERVAL,
        "rescaled": Column(
            pl.Float64, "(estimate - floor) / (ceiling - floor), of the same tasks", nullable=True
        ),
        "rescaled_low": Column(pl.Float64, "lower end of its 95% interval", nullable=True),
        "rescaled_high": Column(pl.Float64, "its upper end", nullable=True),
        "reason": Column(pl.String, "why a number is missing, if one is", nullable=True),
    },
    row="a point of a curve: a method and rate at a setting, or the ceiling or floor",
)

SUMMARIES = ("auc", "half_life", "slope")
"""One number a curve: the mean height of the rescaled curve over the rates it reaches; the rate at
which it has fallen to a half; its slope over the first third."""

CURVE_SUMMARIES = Table(
    "curve_summaries",
    {
        **_CURVE_OF,
        "method": Column(pl.String, "how prompts were changed"),
        "summary": Column(pl.String, f"one of {', '.join(SUMMARIES)}"),
        "estimate": Column(pl.Float64, "of the rescaled curve", nullable=True),
        "std_error": Column(pl.Float64, "bootstrap standard error, tasks resampled", True),
        **_INTERVAL,
        "n_tasks": Column(pl.Int32, "tasks with a pair"),
        "reason": Column(pl.String, "why there is no number, if there is none", nullable=True),
    },
    row="a number that sums up one curve",
)

_TESTED = {
    "estimate": Column(pl.Float64, "difference, or coefficient", nullable=True),
    "std_error": Column(pl.Float64, "its standard error", nullable=True),
    **_INTERVAL,
    "p_value": Column(pl.Float64, "two-sided", nullable=True),
    "p_holm": Column(pl.Float64, "p_value adjusted by Holm over its family", nullable=True),
    "p_bh": Column(pl.Float64, "p_value adjusted by Benjamini-Hochberg", nullable=True),
    "family_size": Column(pl.Int64, "p values in the family", nullable=True),
}

CURVE_CONTRASTS = Table(
    "curve_contrasts",
    {
        "study": Column(pl.String, "study"),
        "measure": Column(pl.String, "tsed, tsed-published or the encoder's name"),
        **SETTING,
        "summary": Column(pl.String, f"one of {', '.join(SUMMARIES)}, ceiling or floor"),
        "kind": Column(pl.String, "what differs: model, method or set"),
        "model": Column(pl.String, "held fixed; null where it is what differs", nullable=True),
        "method": Column(pl.String, "held fixed; null where it is what differs", nullable=True),
        "set": Column(
            pl.String, "held fixed; null where it is what differs, or for all sets", nullable=True
        ),
        "first": Column(pl.String, "the estimate is the value of this one"),
        "second": Column(pl.String, "less the value of this one"),
        **_TESTED,
        "n_tasks": Column(pl.Int32, "tasks the difference comes from"),
        "reason": Column(pl.String, "why there is no number, if there is none", nullable=True),
    },
    row="a difference of two models, methods or sets",
)

CURVE_FITS = Table(
    "curve_fits",
    {
        **_CURVE_OF,
        "method": Column(pl.String, "how prompts were changed"),
        "level": Column(pl.String, "pair or task: what one observation is"),
        "random": Column(pl.String, "random effects of tasks: intercept, or intercept + slope"),
        "term": Column(pl.String, "fixed effect: intercept or rate", nullable=True),
        **_TESTED,
        "df": Column(pl.Float64, "degrees of freedom; null: normal approximation", nullable=True),
        "var_intercept": Column(pl.Float64, "variance of the tasks' intercepts", nullable=True),
        "var_slope": Column(pl.Float64, "variance of the tasks' slopes", nullable=True),
        "correlation": Column(pl.Float64, "of the tasks' intercepts and slopes", nullable=True),
        "var_residual": Column(pl.Float64, "residual variance", nullable=True),
        "n_observations": Column(pl.Int64, "observations in the fit"),
        "n_tasks": Column(pl.Int32, "tasks in the fit"),
        "backend": Column(pl.String, "profile or statsmodels"),
        "converged": Column(pl.Boolean, "whether the fit can be relied on"),
        "reason": Column(pl.String, "why there is no estimate, if there is none", nullable=True),
    },
    row="a term of a mixed model of one curve",
)

CODE_TABLES = (
    AUGMENTATIONS,
    PARAPHRASES,
    PROGRAMS,
    EXTRACTIONS,
    PAIRS,
    AVERAGES,
    CURVES,
    CURVE_SUMMARIES,
    CURVE_CONTRASTS,
    CURVE_FITS,
)
