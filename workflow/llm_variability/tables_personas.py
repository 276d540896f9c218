"""The column contracts of the tables that only studies of personas have."""

from __future__ import annotations

import polars as pl

from llm_variability.table_contract import SETTING, STATUSES, Column, Table

REPLY_KINDS = ("program", "invalid", "truncated", "other_code", "none", "failed")
"""What a reply holds: a program of the task's language that parses; code of that language that does
not; code of it that was cut off; code of other languages only; no code at all. The last: no reply
came (refused by the server, no answer, or empty), which says nothing of replies."""

FAILED = REPLY_KINDS[-1]
"""The kind of draws without a reply: they count in no share, mean or test of replies."""

COMPARED_FACTORS = ("persona", "role", "gender")
"""What may be the same or not of two prompts of a task: the persona as a whole; its role whatever
the gender; its gender whatever the role."""

PROMPT_VARIANTS = ("iterations", "sampled")
"""Which prompts: every iteration of each persona, or the one sampled for each persona and task."""

FEATURE_SETS = ("syntax", "tokens")
"""What the classifier sees of a program: features of its syntax tree, or its tokens."""

_PERSONA = {
    "task": Column(pl.String, "the task, as in brief/calculator"),
    "persona": Column(pl.String, "role and gender, as in english-teacher-male"),
    "role": Column(pl.String, "role, as in english-teacher"),
    "gender": Column(pl.String, "gender, as in male"),
}

_OF_MODEL = {
    "study": Column(pl.String, "study"),
    "model": Column(pl.String, "language model that wrote the code"),
    "temperature": Column(pl.String, "sampling temperature, canonical text", nullable=True),
    "top_p": SETTING["top_p"],
}

_TESTED = {
    "p_value": Column(pl.Float64, "by permutation of the prompts' personas", nullable=True),
    "p_holm": Column(pl.Float64, "p_value adjusted by Holm over its family", nullable=True),
    "p_bh": Column(pl.Float64, "p_value adjusted by Benjamini-Hochberg", nullable=True),
    "family_size": Column(pl.Int64, "p values in the family", nullable=True),
}

_INTERVAL = {
    "std_error": Column(pl.Float64, "standard error, prompts as the units", nullable=True),
    "df": Column(pl.Float64, "its degrees of freedom", nullable=True),
    "ci_low": Column(pl.Float64, "lower end of the 95% interval", nullable=True),
    "ci_high": Column(pl.Float64, "its upper end", nullable=True),
}

_REASON = {"reason": Column(pl.String, "why a number is missing, if one is", nullable=True)}

REWRITINGS = Table(
    "rewritings",
    {
        **_PERSONA,
        "set": Column(pl.String, "the task's set"),
        "language": Column(pl.String, "programming language that is wanted"),
        "iteration": Column(pl.Int32, "number of the prompt, from 0"),
        "attempt": Column(pl.Int32, "number of the try, from 0"),
        "seed": Column(pl.Int64, "seed of the draw"),
        "status": Column(pl.String, f"of the draw: one of {', '.join(STATUSES)}"),
        "text": Column(pl.String, "the rewritten task; null: none came", nullable=True),
        "flags": Column(pl.String, "what may be wrong with it, parted by spaces; may be empty"),
        "used": Column(pl.Boolean, "the prompt is made of it"),
        "sampled": Column(pl.Boolean, "it is the one sampled for its persona and task"),
    },
    row="an attempt at a prompt",
)

STYLE = Table(
    "style",
    {
        **_PERSONA,
        "prompt_id": Column(pl.String, "the prompt"),
        "iteration": Column(pl.String, "number of the prompt, from 0"),
        "feature": Column(pl.String, "feature of its wording"),
        "value": Column(pl.Float64, "in the feature's unit", nullable=True),
    },
    row="a feature of a prompt",
)

ENTITIES = Table(
    "entities",
    {
        "entity": Column(pl.String, "noun phrase or named entity, lemmas in small letters"),
        "persona": Column(pl.String, "persona whose prompts have it"),
        "sentences": Column(pl.Int32, "sentences of these prompts with it"),
        "prompts": Column(pl.Int32, "of these prompts with it"),
    },
    row="an entity and a persona",
)

COOCCURRENCES = Table(
    "cooccurrences",
    {
        "first": Column(pl.String, "an entity"),
        "second": Column(pl.String, "another one of the same sentence, later in the alphabet"),
        "persona": Column(pl.String, "persona whose prompts have both"),
        "sentences": Column(pl.Int32, "sentences with both"),
    },
    row="two entities of one sentence, by persona",
)

SEVERAL = "several"
"""Stands for personas of which none has the largest share alone."""

ENTITY_MAP = Table(
    "entity_map",
    {
        "entity": Column(pl.String, "an entity"),
        "x": Column(pl.Float64, "place on the map; near ones stand in like sentences"),
        "y": Column(pl.Float64, "place on the map"),
        "persona": Column(pl.String, "persona with most of its sentences, by share, or several"),
        "share": Column(pl.Float64, "its share, personas of unlike length made alike"),
        "sentences": Column(pl.Int32, "sentences with it, of all personas"),
    },
    row="an entity",
)

SHARED_ENTITIES = Table(
    "shared_entities",
    {
        "first": Column(pl.String, "a persona"),
        "second": Column(pl.String, "another persona"),
        "of": Column(pl.String, "entities, or cooccurrences (pairs of them in a sentence)"),
        "shared": Column(pl.Int32, "that both personas have"),
        "first_only": Column(pl.Int32, "that only the first has"),
        "second_only": Column(pl.Int32, "that only the second has"),
        "jaccard": Column(pl.Float64, "shared / all of both", nullable=True),
        "permuted": Column(
            pl.Float64, "mean Jaccard where prompts change personas at random", nullable=True
        ),
        **_TESTED,
        **_REASON,
    },
    row="two personas",
)

TOPICS = Table(
    "topics",
    {
        "topic": Column(pl.Int32, "number of the topic, from 1, the heaviest first"),
        "rank": Column(pl.Int32, "of the word in the topic, from 1"),
        "word": Column(pl.String, "lemma"),
        "weight": Column(pl.Float64, "probability of the word in the topic"),
    },
    row="a word of a topic",
)

TOPIC_WEIGHTS = Table(
    "topic_weights",
    {
        **_PERSONA,
        "prompt_id": Column(pl.String, "the prompt"),
        "topic": Column(pl.Int32, "number of the topic"),
        "weight": Column(pl.Float64, "share of the topic in the prompt"),
    },
    row="a topic in a prompt",
)

FEATURES = Table(
    "features",
    {
        **SETTING,
        "prompt_id": Column(pl.String, "the prompt drawn from"),
        "replicate": Column(pl.Int32, "number of the draw"),
        "reply": Column(pl.String, f"one of {', '.join(REPLY_KINDS)}"),
        "tags": Column(pl.String, "languages that its fences name, parted by spaces"),
        "reply_lines": Column(pl.Int32, "lines of code of any language in the reply"),
        "reply_words": Column(pl.Int32, "words of the reply outside of its code"),
        "lines": Column(pl.Int32, "lines of the program, blank ones left out", nullable=True),
        "nodes": Column(pl.Int32, "named nodes of its tree", nullable=True),
        "functions": Column(pl.Int32, "functions and methods it defines", nullable=True),
        "classes": Column(pl.Int32, "classes it defines", nullable=True),
        "imports": Column(pl.Int32, "modules it imports", nullable=True),
        "loops": Column(pl.Int32, "loops, comprehensions among them", nullable=True),
        "branches": Column(pl.Int32, "if, elif, match cases, conditional expressions", True),
        "comments": Column(pl.Int32, "comments and docstrings", nullable=True),
        "prints": Column(pl.Int32, "calls of print", nullable=True),
        "inputs": Column(pl.Int32, "calls of input", nullable=True),
        "tests": Column(pl.Boolean, "tests or assertions are in it", nullable=True),
        "web_framework": Column(pl.Boolean, "it imports a web framework", nullable=True),
        "database": Column(pl.Boolean, "it imports a database or writes SQL", nullable=True),
        "error_handling": Column(pl.Boolean, "it catches or raises an exception", nullable=True),
        "type_hints": Column(pl.Boolean, "a function has an annotation", nullable=True),
        "main_guard": Column(pl.Boolean, "it has if __name__ == '__main__'", nullable=True),
        "password_field": Column(
            pl.Boolean, "a name, key or column of it is a password or the like", nullable=True
        ),
    },
    takes_factors=True,
    row="a draw",
)

FEATURE_COLUMNS = tuple(
    name
    for name in FEATURES.columns
    if name not in (*SETTING, "prompt_id", "replicate", "reply", "tags")
)
"""Columns that are compared between personas; truth values as shares."""

PROGRAM_PAIRS = Table(
    "program_pairs",
    {
        **SETTING,
        "measure": Column(pl.String, "tsed, tsed-published or the encoder's name"),
        "task": Column(pl.String, "the task of both"),
        "first_prompt": Column(pl.String, "prompt of one program"),
        "first_replicate": Column(pl.Int32, "number of its draw"),
        "second_prompt": Column(pl.String, "prompt of the other; may be the same"),
        "second_replicate": Column(pl.Int32, "number of its draw"),
        "similarity": Column(pl.Float64, "of the two programs"),
    },
    row="a pair of programs of one task and setting",
)

SEPARATION = Table(
    "separation",
    {
        **_OF_MODEL,
        "measure": Column(pl.String, "tsed, tsed-published or the encoder's name"),
        "variant": Column(pl.String, f"prompts compared: one of {', '.join(PROMPT_VARIANTS)}"),
        "factor": Column(pl.String, f"what is the same or not: {', '.join(COMPARED_FACTORS)}"),
        "task": Column(pl.String, "the task; null: mean over all", nullable=True),
        "first": Column(pl.String, "a level of the factor; null: all levels", nullable=True),
        "second": Column(
            pl.String, "the level it is compared with; null: all others", nullable=True
        ),
        "same_prompt": Column(
            pl.Float64, "mean similarity of programs of one prompt", nullable=True
        ),
        "within": Column(
            pl.Float64, "of programs of different prompts of one level", nullable=True
        ),
        "between": Column(pl.Float64, "of programs of prompts of different levels", nullable=True),
        "difference": Column(pl.Float64, "within - between", nullable=True),
        **_INTERVAL,
        **_TESTED,
        "mc_error": Column(pl.Float64, "Monte Carlo standard error of p_value", nullable=True),
        "n_prompts": Column(pl.Int32, "prompts with a program"),
        "n_programs": Column(pl.Int32, "programs"),
        "n_pairs": Column(pl.Int64, "pairs of programs"),
        **_REASON,
    },
    row="a comparison within and between levels of a factor, over all tasks or of one",
)

PERSONA_MEANS = Table(
    "persona_means",
    {
        "study": Column(pl.String, "study"),
        "model": Column(pl.String, "language model; null: a feature of prompts", nullable=True),
        "temperature": _OF_MODEL["temperature"],
        "top_p": SETTING["top_p"],
        "feature": Column(pl.String, "feature of a prompt or of a program"),
        "persona": Column(pl.String, "persona"),
        "mean": Column(pl.Float64, "mean over tasks of the mean over prompts", nullable=True),
        **_INTERVAL,
        **{
            name: Column(column.dtype, f"{column.meaning}; of all personas together", True)
            for name, column in _TESTED.items()
        },
        "n_prompts": Column(pl.Int32, "prompts with a value"),
        **_REASON,
    },
    row="a feature and a persona",
)

LEAKAGE = Table(
    "leakage",
    {
        **_OF_MODEL,
        "features": Column(pl.String, f"what is seen: one of {', '.join(FEATURE_SETS)}"),
        "folds": Column(
            pl.String, "task or iteration: what is held out as a whole in cross-validation"
        ),
        "accuracy": Column(pl.Float64, "balanced accuracy of the guessed personas", nullable=True),
        "chance": Column(pl.Float64, "1 / personas; null: fewer than two", nullable=True),
        "permuted": Column(
            pl.Float64, "mean balanced accuracy where prompts change personas", nullable=True
        ),
        "permuted_high": Column(pl.Float64, "95th percentile of the same", nullable=True),
        **_TESTED,
        "mc_error": Column(pl.Float64, "Monte Carlo standard error of p_value", nullable=True),
        "n_personas": Column(pl.Int32, "personas guessed among"),
        "n_prompts": Column(pl.Int32, "prompts with a program"),
        "n_programs": Column(pl.Int32, "programs"),
        **_REASON,
    },
    row="a classifier: a view of the programs and a way to hold out",
)

CONFUSIONS = Table(
    "confusions",
    {
        **_OF_MODEL,
        "features": Column(pl.String, f"what is seen: one of {', '.join(FEATURE_SETS)}"),
        "persona": Column(pl.String, "who asked"),
        "guessed": Column(pl.String, "who was guessed"),
        "programs": Column(pl.Int32, "programs"),
    },
    row="a persona and a guess",
)

DIALOGUES = Table(
    "dialogues",
    {
        **SETTING,
        "prompt_id": Column(pl.String, "the prompt that opened the dialogue"),
        "replicate": Column(pl.Int32, "number of the dialogue"),
        "exchanges": Column(pl.Int32, "questions that were asked and answered"),
        "questions": Column(pl.Int32, "question marks in what was asked"),
        "ended": Column(pl.String, "code, words (neither code nor a question), asking, or failed"),
        "text": Column(pl.String, "the last reply; null: none came", nullable=True),
    },
    takes_factors=True,
    row="a dialogue",
)

DIALOGUE_CHANGES = Table(
    "dialogue_changes",
    {
        **_OF_MODEL,
        "measure": Column(pl.String, "tsed or tsed-published"),
        "persona": Column(pl.String, "persona; null: all", nullable=True),
        "dialogues": Column(pl.Int32, "dialogues"),
        "asked": Column(pl.Int32, "of these, with at least one exchange"),
        "exchanges": Column(pl.Float64, "mean number of exchanges", nullable=True),
        "programs": Column(pl.Int32, "dialogues that ended with a program"),
        "same_prompt": Column(
            pl.Float64, "mean similarity of programs of one prompt, without dialogue", nullable=True
        ),
        "with_dialogue": Column(
            pl.Float64,
            "mean similarity of a program after a dialogue to those without, of one prompt",
            nullable=True,
        ),
        "change": Column(pl.Float64, "same_prompt - with_dialogue", nullable=True),
        **_INTERVAL,
        "n_prompts": Column(pl.Int32, "prompts with both"),
        **_REASON,
    },
    row="a model, measure and persona",
)

PERSONA_TABLES = (
    REWRITINGS,
    STYLE,
    ENTITIES,
    COOCCURRENCES,
    ENTITY_MAP,
    SHARED_ENTITIES,
    TOPICS,
    TOPIC_WEIGHTS,
    FEATURES,
    PROGRAM_PAIRS,
    SEPARATION,
    PERSONA_MEANS,
    LEAKAGE,
    CONFUSIONS,
    DIALOGUES,
    DIALOGUE_CHANGES,
)
