"""Tables of a study of personas as rows of text for the template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from llm_variability.personas.flags import FLAGS
from llm_variability.report.alarms import MIN_PROGRAMS
from llm_variability.report.code.rows import (
    NOTHING,
    Grid,
    GridColumn,
    Row,
    Text,
    model_column,
    number,
    show_count,
    show_name,
    show_number,
    show_p_value,
    show_setting,
    write_grid,
)
from llm_variability.report.contrasts import ASTERISKS
from llm_variability.report.personas.alarms import is_short
from llm_variability.report.personas.names import name_in_text
from llm_variability.report.personas.schemas import CAME_KINDS, name_flag
from llm_variability.report.personas.statements import (
    SAMPLED,
    Names,
    list_topic_words,
    name_feature,
    name_level,
    of_contrast,
    show_bounds,
    show_interval,
    show_value,
)
from llm_variability.report.wording import percent, show_text
from llm_variability.tables_personas import COMPARED_FACTORS, FAILED

ENTITIES_SHOWN = 40
"""Entities in the table behind the map, those of most sentences."""

CONTRAST_KINDS = ("pair", "level", "task")
"""Kinds of contrasts that have tables of their own, as they follow."""


def title_contrasts(separation: pl.DataFrame, kind: str) -> str:
    """Say what contrasts of a kind compare: personas, or roles and genders too.

    separation: rows of `persona_separation`.
    """
    there = [
        factor for factor in COMPARED_FACTORS if separation.filter(of_contrast(factor, kind)).height
    ]
    if kind == "task":
        return "Each task by itself"
    if kind == "pair":
        return f"Two {_either([f'{factor}s' for factor in there] or ['personas'])} at a time"
    return f"Each {_either(there or ['persona'])} against all others"


def _either(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _persona(names: Names, kind: str = "head") -> GridColumn:
    return ("Persona", kind, lambda row: name_level(row["persona"], names))


def _share(name: str) -> Callable[[Row], str]:
    return lambda row: NOTHING if row[name] is None else percent(round(row[name], 6))


def _with_interval(name: str, decimals: int = 3) -> Callable[[Row], Text]:
    def write(row: Row) -> Text:
        interval = show_interval(row, decimals)
        return Text(number(row[name], decimals), (interval,) if interval else ())

    return write


def _explain_p(stars: str) -> str:
    return (
        "p by permutation of the prompts' personas within tasks, and below it p adjusted by Holm"
        f" and by Benjamini-Hochberg over its family; * p < .05, {ASTERISKS[stars][1]}"
    )


def tabulate_attempts(prompts: pl.DataFrame, names: Names) -> Grid:
    """Write attempts and what was wrong with them. prompts: rows of `persona_prompts`."""

    def used(row: Row) -> Text:
        told = f"{row['used']:,} of {row['asked']:,}"
        short = is_short(row)
        return Text(f"⚠ {told}" if short else told, flag=short)

    return write_grid(
        "Prompts made, of those asked for, and the attempts at them by what was wrong. Repeated,"
        " shared: in the words of an earlier prompt of the same persona, of another persona; such"
        " prompts are used.",
        [
            _persona(names),
            ("Task", "name", show_name("task")),
            ("Prompts", "number", used),
            ("Attempts", "number", show_count("attempts")),
            *((flag.capitalize(), "number", show_count(name_flag(flag))) for flag in FLAGS),
        ],
        prompts,
    )


def tabulate_shared(entities: pl.DataFrame, names: Names, stars: str) -> Grid:
    """Write what each two personas share. entities: rows of `persona_entities`."""
    return write_grid(
        "Entities, and pairs of entities in one sentence, that two personas have in common; of all"
        " that either has (Jaccard), and the mean of that where prompts change personas at random."
        " p is small where the two share less than chance would have it;"
        f" {_explain_p(stars)}.",
        [
            ("First", "head", lambda row: name_level(row["first"], names)),
            ("Second", "head", lambda row: name_level(row["second"], names)),
            ("Of", "name", show_name("of")),
            ("Shared", "number", show_count("shared")),
            ("First only", "number", show_count("first_only")),
            ("Second only", "number", show_count("second_only")),
            ("Jaccard", "number", show_number("jaccard")),
            ("At random", "number", show_number("permuted")),
            ("p", "number", show_p_value(stars)),
            ("Note", "text", show_name("reason", "")),
        ],
        entities,
    )


def tabulate_map(entity_map: pl.DataFrame, names: Names) -> Grid:
    """Write the entities of most sentences. entity_map: an ENTITY_MAP table."""
    most = entity_map.sort("sentences", descending=True, maintain_order=True).head(ENTITIES_SHOWN)
    return write_grid(
        f"The entities of most sentences, {most.height} of {entity_map.height}, and whose they are"
        " most of all, personas of unlike length made alike.",
        [
            ("Entity", "head", lambda row: show_text(row["entity"])),
            ("Persona", "name", lambda row: name_level(row["persona"], names)),
            ("Its share", "number", _share("share")),
            ("Sentences", "number", show_count("sentences")),
        ],
        most,
    )


def tabulate_topics(topics: pl.DataFrame, means: pl.DataFrame, names: Names, stars: str) -> Grid:
    """Write the words of topics and their weight by persona.

    topics, means: rows of `persona_topics` and `persona_means` of one study.
    """
    words = list_topic_words(topics, 8)
    weights = means.filter(
        pl.col("model").is_null(), pl.col("feature").str.starts_with("topic-")
    ).with_columns(topic=pl.col("feature").str.strip_prefix("topic-").cast(pl.Int64))
    grid = tabulate_means(weights.sort("topic", maintain_order=True), names, stars, "topics")
    numbers = sorted(weights["topic"].unique())
    rows = [
        [row[0], Text(words.get(topic, NOTHING)), *row[1:]]
        for topic, row in zip(numbers, grid.rows, strict=True)
    ]
    labels, kinds = grid.labels, grid.kinds
    caption = grid.caption.replace("Means of topics", "Mean shares of topics in prompts", 1)
    return Grid(caption, (labels[0], "Words", *labels[1:]), (kinds[0], "text", *kinds[1:]), rows)


def tabulate_means(
    means: pl.DataFrame, names: Names, stars: str, what: str, features: Sequence[str] | None = None
) -> Grid:
    """Write a row a feature and a column a persona, with intervals and the p of all together.

    means: rows of `persona_means` of one model and setting, or of the prompts. features: those to
    write, by default all in the order of the rows.
    """
    found = {(row["feature"], row["persona"]): row for row in means.iter_rows(named=True)}
    listed = features or means["feature"].unique(maintain_order=True).to_list()
    rows = pl.DataFrame({"feature": listed}, schema={"feature": pl.String})
    personas = means["persona"].unique(maintain_order=True).to_list()
    p_value = show_p_value(stars)

    def mean(persona: str) -> Callable[[Row], Text]:
        def write(row: Row) -> Text:
            cell = found.get((row["feature"], persona))
            if cell is None or cell["mean"] is None:
                return Text(NOTHING)
            interval = show_bounds(row["feature"], cell["ci_low"], cell["ci_high"])
            return Text(show_value(row["feature"], cell["mean"]), (interval,) if interval else ())

        return write

    def tested(row: Row) -> Text | str:
        cells = [each for (feature, _), each in found.items() if feature == row["feature"]]
        with_p = [each for each in cells if each["p_value"] is not None]
        return p_value(with_p[0]) if with_p else NOTHING

    def note(row: Row) -> str:
        cells = [each for (feature, _), each in found.items() if feature == row["feature"]]
        return "; ".join(dict.fromkeys(each["reason"] for each in cells if each["reason"]))

    return write_grid(
        f"Means of {what} by persona with 95% intervals, prompts as units and tasks as strata; one"
        f" test of all personas together, {_explain_p(stars)}.",
        [
            ("Feature", "head", lambda row: name_feature(row["feature"])),
            *((name_level(each, names), "number", mean(each)) for each in personas),
            ("p", "number", tested),
            ("Note", "text", note),
        ],
        rows,
    )


def tabulate_overall(separation: pl.DataFrame, measure: str, one_model: bool, stars: str) -> Grid:
    """Write the contrasts of all levels of each factor. separation: of one measure."""
    factors = separation["factor"].n_unique() > 1
    overall = pl.any_horizontal(of_contrast(name) for name in COMPARED_FACTORS)
    return write_grid(
        f"Mean similarity ({measure}) of programs of one prompt, of different prompts of the same"
        " persona, and of different personas; same less different with its 95% interval, prompts"
        f" as units; {_explain_p(stars)}.",
        [
            model_column(one_model),
            ("Setting", "head", show_setting),
            ("Factor", "name", show_name("factor")) if factors else None,
            *_numbers(stars),
        ],
        separation.filter(overall),
    )


def _numbers(stars: str) -> list[GridColumn]:
    return [
        ("One prompt", "number", show_number("same_prompt")),
        ("Same", "number", show_number("within")),
        ("Different", "number", show_number("between")),
        ("Difference", "number", _with_interval("difference")),
        ("p", "number", show_p_value(stars)),
        ("Prompts", "number", show_count("n_prompts")),
        ("Programs", "number", show_count("n_programs")),
        ("Pairs", "number", show_count("n_pairs")),
        ("Note", "text", show_name("reason", "")),
    ]


def tabulate_contrasts(
    separation: pl.DataFrame, kind: str, names: Names, one_model: bool, stars: str
) -> Grid:
    """Write contrasts of one kind: task, level or pair.

    separation: rows of `persona_separation` of one measure and setting. names: of personas, and of
    roles.
    """
    here = pl.any_horizontal(of_contrast(factor, kind) for factor in COMPARED_FACTORS)
    factors = separation.filter(here)["factor"].n_unique() > 1

    def level(name: str) -> Callable[[Row], str]:
        return lambda row: NOTHING if row[name] is None else name_level(row[name], names)

    return write_grid(
        f"{title_contrasts(separation, kind)}: similarity within and between, and the difference"
        f" with its 95% interval, prompts as units; {_explain_p(stars)}.",
        [
            model_column(one_model),
            ("Factor", "name", show_name("factor")) if factors else None,
            ("Task", "head", show_name("task")) if kind == "task" else None,
            ("First", "head", level("first")) if kind != "task" else None,
            ("Second", "head", level("second")) if kind == "pair" else None,
            *_numbers(stars),
        ],
        separation.filter(here),
    )


def tabulate_published(separation: pl.DataFrame, one_model: bool, names: Mapping[str, str]) -> Grid:
    """Write the sampled variant beside the full one.

    separation: rows of one measure and setting. names: what each variant is called.
    """
    kept = of_contrast() | of_contrast(variant=SAMPLED)
    return write_grid(
        "Similarity of programs where every iteration is a prompt, and where one was sampled for"
        " each persona and task.",
        [
            model_column(one_model),
            ("Prompts", "head", lambda row: names.get(row["variant"], row["variant"])),
            ("One prompt", "number", show_number("same_prompt")),
            ("Same persona", "number", show_number("within")),
            ("Different personas", "number", show_number("between")),
            ("Prompts", "number", show_count("n_prompts")),
            ("Programs", "number", show_count("n_programs")),
            ("Note", "text", show_name("reason", "")),
        ],
        separation.filter(kept).sort("model", maintain_order=True),
    )


def tabulate_replies(replies: pl.DataFrame, names: Names, one_model: bool) -> Grid:
    """Write what replies hold. replies: rows of `persona_replies`."""

    def kind(name: str) -> Callable[[Row], Text]:
        def write(row: Row) -> Text:
            share = row[f"{name}_share"]
            told = f"{row[name]:,} ({percent(share)})" if row[name] else f"{row[name]:,}"
            flag = name == "program" and share is not None and share < MIN_PROGRAMS
            return Text(f"⚠ {told}" if flag else told, flag=flag)

        return write

    return write_grid(
        "What the replies hold: a program that parses; code that does not; code that was cut off;"
        " code of other languages only; no code. Shares are of the replies; draws that failed"
        " (refused by the server, no answer, or empty) are none. Lines, of code in a reply and of a"
        " program: means over all replies and over all programs. Figures and means of features"
        " weigh prompts alike, however many programs each has.",
        [
            model_column(one_model),
            ("Setting", "name", show_name("cell")),
            _persona(names),
            ("Replies", "number", show_count("replies")),
            *(
                ({"none": "no code"}.get(each, each.replace("_", " ")).capitalize(),)
                + ("number", kind(each))
                for each in CAME_KINDS
            ),
            ("Failed", "number", show_count(FAILED)),
            ("Lines a reply", "number", show_number("mean_reply_lines", 1)),
            ("Lines a program", "number", show_number("mean_lines", 1)),
            ("Prompts without program", "number", show_count("prompts_without_program")),
            ("Too large", "number", show_count("too_large")),
        ],
        replies,
    )


def tabulate_leakage(leakage: pl.DataFrame, names: Names, one_model: bool, stars: str) -> Grid:
    """Write how often the persona is guessed. leakage: rows of `persona_leakage`."""
    return write_grid(
        "Balanced accuracy of the guessed persona in cross-validation; by chance; where prompts"
        " change personas at random, mean and 95th percentile."
        f" {_explain_p(stars)}.",
        [
            model_column(one_model),
            ("Setting", "head", show_setting),
            ("Seen", "name", show_name("features")),
            ("Held out", "name", show_name("folds")),
            ("Accuracy", "number", _share("accuracy")),
            ("Chance", "number", _share("chance")),
            ("Permuted", "number", _share("permuted")),
            ("95th percentile", "number", _share("permuted_high")),
            ("p", "number", show_p_value(stars)),
            ("Prompts", "number", show_count("n_prompts")),
            ("Programs", "number", show_count("n_programs")),
            ("Note", "text", lambda row: name_in_text(show_text(row["reason"] or ""), names)),
        ],
        leakage,
    )


def tabulate_confusions(confusions: pl.DataFrame, names: Names) -> Grid:
    """Write who was guessed, a row a persona that asked.

    confusions: rows of `persona_confusions` of one model, setting and view.
    """
    personas = confusions["persona"].unique(maintain_order=True).to_list()
    found = {
        (asked, guessed): count
        for asked, guessed, count in confusions.select("persona", "guessed", "programs").iter_rows()
    }

    def guessed(who: str) -> Callable[[Row], str]:
        def write(row: Row) -> str:
            total = sum(count for (asked, _), count in found.items() if asked == row["persona"])
            count = found.get((row["persona"], who), 0)
            return f"{count:,} ({percent(count / total)})" if total else f"{count:,}"

        return write

    return write_grid(
        "Programs by who asked (rows) and who was guessed (columns), and their share of the row.",
        [
            ("Asked by", "head", lambda row: name_level(row["persona"], names)),
            *((f"Guessed: {name_level(who, names)}", "number", guessed(who)) for who in personas),
        ],
        pl.DataFrame({"persona": personas}, schema={"persona": pl.String}),
    )


def tabulate_dialogues(changes: pl.DataFrame, names: Names, one_model: bool) -> Grid:
    """Write dialogues by persona. changes: rows of `persona_dialogues` of one measure."""

    def persona(row: Row) -> str:
        return "all" if row["persona"] is None else name_level(row["persona"], names)

    return write_grid(
        "Dialogues, how many of them had a question, questions answered in each; programs at the"
        " end of dialogues, with or without a question, against those drawn without a dialogue, of"
        " the same prompt: similarity, and the change with its 95% interval, prompts with both as"
        " units.",
        [
            model_column(one_model),
            ("Setting", "name", show_setting),
            ("Persona", "head", persona),
            ("Dialogues", "number", show_count("dialogues")),
            ("Asked back", "number", show_count("asked")),
            ("Exchanges", "number", show_number("exchanges", 2)),
            ("Programs", "number", show_count("programs")),
            ("Without", "number", show_number("same_prompt")),
            ("With", "number", show_number("with_dialogue")),
            ("Change", "number", _with_interval("change")),
            ("Prompts", "number", show_count("n_prompts")),
            ("Note", "text", show_name("reason", "")),
        ],
        changes,
    )


def tabulate_missing(missing: Sequence[tuple[str, str, int]]) -> Grid:
    """Write which numbers could not be had. missing: of `statements.count_missing`."""
    schema = {"what": pl.String, "reason": pl.String, "count": pl.Int64}
    return write_grid(
        "Rows of the tables in which a number or its error is missing, over all models and"
        " settings.",
        [
            ("Of", "head", show_name("what")),
            ("Why", "text", show_name("reason")),
            ("Rows", "number", show_count("count")),
        ],
        pl.DataFrame(list(missing), schema=schema, orient="row"),
    )
