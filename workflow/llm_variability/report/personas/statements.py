"""Sentences about a study of personas, each from the numbers of its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from llm_variability.report.comparisons import Setting, at_setting
from llm_variability.report.contrasts import SIGNIFICANCE
from llm_variability.report.personas.matrices import CODE_FEATURES, is_share, read_between
from llm_variability.report.personas.names import name_in_text
from llm_variability.report.personas.schemas import CAME_KINDS, name_flag
from llm_variability.report.wording import listing, p_number, p_text, percent, quantity, signed
from llm_variability.tables_personas import FAILED, FEATURE_COLUMNS, SEVERAL

Names = Mapping[str, str]
"""What each persona is called, by its name in tables."""

REPLY_WORDS = {
    "program": "programs that parse",
    "invalid": "code that does not parse",
    "truncated": "code that was cut off",
    "other_code": "code of other languages only",
    "none": "no code",
}
"""What replies hold that came."""

FLAG_WORDS = {
    "empty": "empty",
    "answer": "answering the task",
    "meta": "talking of the rewriting",
    "persona": "speaking of the persona",
    "refusal": "refusing",
    "cut": "cut off",
    "identical": "the task itself",
    "adrift": "without a word of the task",
}
"""What may be wrong with attempts."""

FEATURE_WORDS = {
    "words": "words",
    "sentences": "sentences",
    "words_per_sentence": "words a sentence",
    "distinct_words": "different words among 25 in a row",
    "questions": "questions, share of sentences",
    "imperatives": "imperatives, share of sentences",
    "imperatives_less_questions": "imperatives less questions",
    "modals": "modal verbs, per 100 words",
    "hedges": "hedges, per 100 words",
    "first_person": "I and we, per 100 words",
    "politeness": "polite words, per 100 words",
    "inputs_outputs": "words of inputs and outputs, per 100",
    "user_interaction": "words of user interaction, per 100",
    "inputs_outputs_less_user_interaction": "inputs and outputs less user interaction",
    "technical": "technical words, per 100",
    "deployment": "words of deployment, per 100",
    "data_and_language": "words of data and languages, per 100",
    **CODE_FEATURES,
    **{f"reply_{kind}": f"replies with {words}" for kind, words in REPLY_WORDS.items()},
    "reply_program": "replies that are programs",
}
"""What features are called, where their own names would not do."""

_SHARES = ("distinct_words", "questions", "imperatives")
"""Features of wording that are shares."""

_DIFFERENCES = ("imperatives_less_questions",)
"""Features of wording that are differences of shares, which may be negative."""

SEVERAL_PERSONAS = "several personas"

PRIMARY = "tsed"
"""The measure that is shown first, and how its variants' names begin."""

ITERATIONS, SAMPLED = "iterations", "sampled"
_MODELS_TOLD = 6
_FEATURES_TOLD = 3
_PERSONAS_TOLD = 4


def name_feature(feature: str) -> str:
    """Say what a feature is called: `topic 2`, `functions`."""
    return FEATURE_WORDS.get(feature, feature.replace("-", " ").replace("_", " "))


def show_value(feature: str, value: float | None) -> str:
    """Write a mean of a feature, a share in percent; a dash for none.

    A share of a topic is one too; a difference of shares may be negative.
    """
    if value is None:
        return "–"
    if _is_bounded(feature) or feature in _DIFFERENCES:
        sign = "\N{MINUS SIGN}" if round(value, 6) < 0 else ""
        return sign + percent(round(abs(value), 6))
    return signed(value, 1 if abs(value) >= 10 else 2)


def _is_bounded(feature: str) -> bool:
    """Tell whether a mean of a feature is a share, between 0 and 1."""
    return feature in _SHARES or feature.startswith("topic-") or is_share(feature)


def show_bounds(feature: str, low: float | None, high: float | None) -> str:
    """Write the interval of a mean of a feature, that of a share within 0% and 100%.

    Nothing if it has none.
    """
    if low is None or high is None:
        return ""
    ends = [min(max(end, 0.0), 1.0) if _is_bounded(feature) else end for end in (low, high)]
    return f"[{', '.join(show_value(feature, end) for end in ends)}]"


def name_level(level: str, names: Names) -> str:
    """Say what a level of a factor is called: a persona, a role or a gender."""
    if level == SEVERAL and level not in names:
        return SEVERAL_PERSONAS
    return names.get(level, level.replace("-", " "))


def show_interval(row: Mapping[str, Any], decimals: int = 2) -> str:
    """Write the 95% interval of a row; nothing if it has none."""
    if row["ci_low"] is None or row["ci_high"] is None:
        return ""
    return f"[{signed(row['ci_low'], decimals)}, {signed(row['ci_high'], decimals)}]"


def show_p(row: Mapping[str, Any]) -> str:
    """Write a p-value and, behind it, that after Holm."""
    if row["p_value"] is None:
        return "no test"
    told = p_text(row["p_value"])
    return told if row["p_holm"] is None else f"{told}, after Holm {p_number(row['p_holm'])}"


def _count_significant(rows: pl.DataFrame, column: str) -> int:
    return int((rows[column] < SIGNIFICANCE).sum())


def of_contrast(
    factor: str = "persona", kind: str = "overall", variant: str = ITERATIONS
) -> pl.Expr:
    """Tell the rows of `persona_separation` of a kind: overall, task, level or pair."""
    task, first, second = (pl.col(name).is_not_null() for name in ("task", "first", "second"))
    kinds = {
        "overall": ~task & ~first,
        "task": task & ~first,
        "level": ~task & first & ~second,
        "pair": ~task & first & second,
    }
    return kinds[kind] & (pl.col("factor") == factor) & (pl.col("variant") == variant)


def order_measures(measures: Iterable[str]) -> list[str]:
    """Put the tree similarities first, the primary one before its variants, then the encoders."""
    return sorted(dict.fromkeys(measures), key=lambda each: (not each.startswith(PRIMARY), each))


def describe_attempts(prompts: pl.DataFrame, model: str | None) -> str:
    """Say how many prompts were asked for and made, and what was wrong with attempts.

    prompts: rows of `persona_prompts` of one study.
    """
    asked, attempts, used = (int(prompts[name].sum()) for name in ("asked", "attempts", "used"))
    who = "A model" if model is None else model
    made = (
        f"{who} took each of {quantity(prompts['persona'].n_unique(), 'persona')} and put"
        f" {quantity(prompts['task'].n_unique(), 'task')} into that persona's words:"
        f" {used:,} of {quantity(asked, 'prompt')} in {quantity(attempts, 'attempt')}."
    )
    wrong = [
        (int(prompts[name_flag(flag)].sum()), words)
        for flag, words in FLAG_WORDS.items()
        if prompts[name_flag(flag)].sum()
    ]
    if not wrong:
        return f"{made} Nothing was wrong with any of them."
    wrong.sort(key=lambda each: -each[0])
    told = listing([f"{words} {count:,}" for count, words in wrong])
    return f"{made} Faults of attempts, which may have several: {told}."


def describe_replies(replies: pl.DataFrame) -> str:
    """Say what the replies hold, and how many draws brought none.

    replies: rows of `persona_replies` of one study.
    """
    draws, came, failed = (int(replies[name].sum()) for name in ("draws", "replies", FAILED))
    if not draws:
        return "No draw was made."
    lost = (
        f" {quantity(failed, 'draw')} of {draws:,} brought no reply and"
        f" {'counts' if failed == 1 else 'count'} nowhere."
        if failed
        else ""
    )
    if not came:
        return f"No reply came.{lost}"
    shares = {kind: int(replies[kind].sum()) / came for kind in CAME_KINDS}
    told = [
        f"{percent(shares[kind])} {'hold ' if kind != 'program' else 'are '}{words}"
        for kind, words in REPLY_WORDS.items()
        if shares[kind] or kind == "program"
    ]
    return f"Of {quantity(came, 'reply', 'replies')} {listing(told)}.{lost}"


def describe_without_code(replies: pl.DataFrame, setting: Setting, names: Names) -> str:
    """Say, model by model, who gets replies without any code at a setting.

    Shares are of the replies that came. Of few personas all are told, of more those with the most
    and with the fewest.
    replies: rows of `persona_replies` of one study.
    """
    here = replies.filter(at_setting(setting), pl.col("replies") > 0)
    if not here.height:
        return "There is no reply."
    if not here["none"].sum():
        return "Every reply holds code, of whatever language."
    parts = here.partition_by("model", maintain_order=True)
    told = [f"{part['model'][0]}: {_tell_without(part, names)}" for part in parts[:_MODELS_TOLD]]
    rest = "; ".join(told)
    if len(parts) > _MODELS_TOLD:
        rest += f"; {quantity(len(parts) - _MODELS_TOLD, 'more model')} in the table"
    return f"No code at all, of the replies to each persona: {rest}."


def _tell_without(replies: pl.DataFrame, names: Names) -> str:
    """Tell the shares of replies without code of one model, at one setting."""
    if not replies["none"].sum():
        return "of nobody's"
    order = replies.sort("none_share", descending=True, maintain_order=True)
    rows = order.select("persona", "none_share").rows()
    if len(rows) <= _PERSONAS_TOLD:
        return listing([f"{name_level(who, names)} {percent(share)}" for who, share in rows])
    ends = []
    for word, (who, share) in (("most", rows[0]), ("fewest", rows[-1])):
        alike = sum(other == share for _, other in rows)
        whose = name_level(who, names) if alike == 1 else f"{alike} personas"
        ends.append(f"{word} {whose} {percent(share)}")
    return f"{', '.join(ends)}, of {len(rows)} personas"


def describe_separation(
    separation: pl.DataFrame, measure: str, setting: Setting, factor: str = "persona"
) -> list[str]:
    """Say whether code is less alike across a factor: over all models and settings, then by model.

    separation: rows of `persona_separation` of one study; of the overall contrasts, no persona's.
    """
    rows = separation.filter(of_contrast(factor), pl.col("measure") == measure)
    tested = rows.filter(pl.col("p_value").is_not_null())
    sentences = []
    if tested.height:
        apart = tested.filter(pl.col("difference") > 0)
        alike = tested.filter(pl.col("difference") < 0)
        places = quantity(tested.height, "model × setting", "models × settings")
        sentence = (
            f"Code for different {factor}s is less alike than code for the same in"
            f" {apart.height:,} of {places}"
            f" ({measure}); p < .05 in {_count_significant(apart, 'p_value'):,}, after Holm in"
            f" {_count_significant(apart, 'p_holm'):,}, prompts changing {factor}s within tasks"
        )
        if other := _count_significant(alike, "p_value"):
            sentence += f"; more alike with p < .05 in {other:,}"
        sentences.append(f"{sentence}.")
    for row in rows.filter(at_setting(setting)).head(_MODELS_TOLD).iter_rows(named=True):
        if row["difference"] is None:
            sentences.append(f"{row['model']}: {row['reason'] or 'no number'}.")
            continue
        interval = show_interval(row)
        own = "" if row["same_prompt"] is None else f"; one prompt {signed(row['same_prompt'])}"
        sentences.append(
            f"{row['model']}: two prompts of the same {factor} {signed(row['within'])}, of"
            f" different ones {signed(row['between'])}{own}; difference"
            f" {signed(row['difference'])}{' ' if interval else ''}{interval}, {show_p(row)}."
        )
    return sentences


def describe_furthest(
    separation: pl.DataFrame, measure: str, setting: Setting, names: Names
) -> list[str]:
    """Say, a sentence a model, whose code is furthest apart and whose nearest.

    separation: rows of `persona_separation` of one study.
    """
    rows = separation.filter(
        of_contrast(kind="pair"), at_setting(setting), pl.col("measure") == measure
    ).drop_nulls("difference")
    parts = rows.partition_by("model", maintain_order=True)
    furthest = [part.sort("difference", maintain_order=True).row(-1, named=True) for part in parts]
    sentences = []
    pairs = [_name_pair(row, names) for row in furthest if row["difference"] > 0]
    if len(furthest) > 1 and pairs:
        counts = {pair: pairs.count(pair) for pair in dict.fromkeys(pairs)}
        told = listing([f"{pair} with {count:,}" for pair, count in counts.items()])
        sentences.append(f"Furthest apart: {told} of {quantity(len(furthest), 'model')}.")
    for part, row in list(zip(parts, furthest, strict=True))[:_MODELS_TOLD]:
        if row["difference"] <= 0:
            sentences.append(
                f"{row['model']}: no two personas' code is less alike than that of each by itself"
                f" (largest difference {signed(row['difference'])}, {_name_pair(row, names)})."
            )
            continue
        told = (
            f"{row['model']}: furthest apart {_name_pair(row, names)} (difference"
            f" {signed(row['difference'])} {show_interval(row)}".rstrip()
            + f", {show_p(row)}, pairs of personas together a family)"
        )
        if part.height > 1:
            near = part.sort("difference", maintain_order=True).row(0, named=True)
            told += f"; nearest {_name_pair(near, names)} ({signed(near['difference'])})"
        sentences.append(f"{told}.")
    return sentences


def _name_pair(row: Mapping[str, Any], names: Names) -> str:
    return f"{name_level(row['first'], names)} and {name_level(row['second'], names)}"


def describe_matrix(separation: pl.DataFrame, measure: str, setting: Setting, names: Names) -> str:
    """Say which two personas' code is most and least alike, for those who do not see the matrix.

    Where there is no number of two personas, those of single ones are told.
    """
    rows = separation.filter(
        at_setting(setting), pl.col("measure") == measure, pl.col("variant") == ITERATIONS
    )
    parts = []
    for part in rows.partition_by("model", maintain_order=True)[:_MODELS_TOLD]:
        between = sorted(read_between(part, list(names)).items(), key=lambda each: each[1])
        if told := [
            f"{word} {name_level(one, names)} and {name_level(other, names)} {signed(value)}"
            for word, ((one, other), value) in zip(
                ("most alike", "least"), dict.fromkeys([*between[-1:], *between[:1]]), strict=False
            )
        ]:
            parts.append(f"{part['model'][0]}: {', '.join(told)}")
            continue
        within = part.filter(of_contrast(kind="level")).drop_nulls("within")
        told = [
            f"{name_level(who, names)} {signed(value)}"
            for who, value in within.select("first", "within").iter_rows()
        ]
        if told:
            none = "no number of two personas, of one by itself"
            parts.append(f"{part['model'][0]}: {none} {listing(told)}")
    head = f"Mean similarity of programs by persona, {measure}; on the diagonal of different"
    return f"{head} prompts of one persona. {'; '.join(parts) or 'No number'}."


@dataclass(frozen=True)
class Compared:
    """A feature of all personas: its lowest and highest mean and the p-value of them together.

    spread: highest less lowest, in mean standard errors; 0 without any.
    """

    feature: str
    low: Mapping[str, Any]
    high: Mapping[str, Any]
    spread: float

    @property
    def p_value(self) -> float | None:
        value: float | None = self.low["p_value"]
        return value


def compare_features(means: pl.DataFrame) -> list[Compared]:
    """Order features by how much they differ: by p, those with the same by their spread.

    means: rows of `persona_means` of one model and setting, or of the prompts. Features without a
    test are left out.
    """
    found = []
    rows = means.drop_nulls(["mean", "p_value"])
    for (feature,), part in rows.partition_by("feature", maintain_order=True, as_dict=True).items():
        order = part.sort("mean", maintain_order=True)
        low, high = order.row(0, named=True), order.row(-1, named=True)
        error = part["std_error"].mean()
        spread = (high["mean"] - low["mean"]) / error if isinstance(error, float) and error else 0.0
        found.append(Compared(str(feature), low, high, spread))
    return sorted(found, key=lambda each: (each.p_value or 0.0, -each.spread))


def describe_features(means: pl.DataFrame, names: Names, what: str) -> str:
    """Say how many features differ between personas, and those that differ most.

    means: rows of `persona_means` of one model and setting, or of the prompts. what: of what they
    are.
    """
    compared = [each for each in compare_features(means) if not each.feature.startswith("topic-")]
    if not compared:
        return f"No feature of {what} could be tested."
    differing = [each for each in compared if (each.p_value or 0.0) < SIGNIFICANCE]
    if not differing:
        return f"None of {_count_varying(compared, what)} differs between personas with p < .05."
    told = [
        f"{name_feature(each.feature)} (most {name_level(each.high['persona'], names)}"
        f" {show_value(each.feature, each.high['mean'])}, least"
        f" {name_level(each.low['persona'], names)}"
        f" {show_value(each.feature, each.low['mean'])}; {show_p(each.low)})"
        for each in differing[:_FEATURES_TOLD]
    ]
    holm = sum((each.low["p_holm"] or 0.0) < SIGNIFICANCE for each in differing)
    return (
        f"Of {_count_varying(compared, what)} {len(differing):,}"
        f" {'differs' if len(differing) == 1 else 'differ'} between personas with p < .05, {holm:,}"
        f" after Holm: {listing(told)}{' first' if len(differing) > _FEATURES_TOLD else ''}."
    )


def _count_varying(compared: Sequence[Compared], what: str) -> str:
    number = quantity(len(compared), "feature")
    return f"{number} of {what} that {'varies' if len(compared) == 1 else 'vary'}"


def list_model_means(means: pl.DataFrame, setting: Setting) -> list[tuple[str, pl.DataFrame]]:
    """Give each model's rows of `persona_means` at a setting."""
    rows = means.filter(pl.col("model").is_not_null(), at_setting(setting))
    parts = rows.partition_by("model", maintain_order=True, as_dict=True)
    return [(str(model), part) for (model,), part in parts.items()]


def describe_code_features(means: pl.DataFrame, setting: Setting, names: Names) -> list[str]:
    """Say, a sentence a model, which features of code differ most between personas."""
    return [
        f"{model}: {told[0].lower()}{told[1:]}"
        for model, part in list_model_means(means, setting)[:_MODELS_TOLD]
        for told in [describe_features(part, names, "code")]
    ]


def describe_amount(means: pl.DataFrame, setting: Setting) -> str:
    """Say how much code models write, the mean over personas of the lines of code in a reply.

    means: rows of `persona_means` of one study.
    """
    amounts = [
        (model, float(lines.mean()))  # type: ignore[arg-type]
        for model, part in list_model_means(means, setting)
        if (lines := part.filter(feature="reply_lines")["mean"].drop_nulls()).len()
    ]
    if not amounts:
        return "How much code replies hold is not known."
    amounts.sort(key=lambda each: -each[1])
    told = listing([f"{model} {signed(lines, 1)}" for model, lines in amounts])
    head = f"Lines of code in a reply, mean over personas: {told}"
    (most, highest), (least, lowest) = amounts[0], amounts[-1]
    if len(amounts) == 1 or not lowest:
        return f"{head}."
    return f"{head}; {most} writes {signed(highest / lowest, 1)} times as much as {least}."


_SEEN = {"syntax": "features of its syntax", "tokens": "its words"}


def describe_leakage(leakage: pl.DataFrame, setting: Setting, names: Names) -> list[str]:
    """Say how often the persona can be guessed from a program: over all, then by model.

    leakage: rows of `persona_leakage` of one study.
    """
    tested = leakage.drop_nulls(["accuracy", "p_value"])
    sentences = []
    if tested.height > 1:
        sentences.append(
            "Who asked can be guessed from the code better than from prompts dealt to personas at"
            f" random with p < .05 in {_count_significant(tested, 'p_value'):,} of"
            f" {quantity(tested.height, 'model × setting × view', 'models × settings × views')},"
            f" after Holm in {_count_significant(tested, 'p_holm'):,}."
        )
    here = leakage.filter(at_setting(setting))
    for part in here.partition_by("model", maintain_order=True)[:_MODELS_TOLD]:
        sentences.append(_describe_guesses(part, names))
    return sentences


def _describe_guesses(rows: pl.DataFrame, names: Names) -> str:
    """Say how often the persona is guessed from one model's programs, by each view of them.

    Views that nothing was guessed by are told apart, with the reason.
    """
    model, told = rows["model"][0], []
    reasons: dict[str, list[str]] = {}
    guessed = rows.drop_nulls("accuracy")
    for row in rows.filter(pl.col("accuracy").is_null()).iter_rows(named=True):
        seen = _SEEN.get(row["features"], row["features"])
        reason = name_in_text(row["reason"] or "no number", names)
        reasons.setdefault(reason, []).append(seen)
    failed = [
        f"Who asked was not guessed by {' or '.join(seen)}: {why}." for why, seen in reasons.items()
    ]
    if not guessed.height:
        return f"{model}: {failed[0][0].lower()}{' '.join(failed)[1:]}"
    for row in guessed.iter_rows(named=True):
        seen = _SEEN.get(row["features"], row["features"])
        high = row["permuted_high"]
        most = (
            "" if high is None else f"; permuted {percent(round(high, 4))} at most in 95% of cases"
        )
        told.append(f"{percent(round(row['accuracy'], 4))} by {seen} ({show_p(row)}{most})")
    first = guessed.row(0, named=True)
    sentence = (
        f"{model}: who asked is guessed from a program, each {first['folds']} held out in turn,"
        f" with a balanced accuracy of {listing(told)}"
    )
    if first["chance"] is not None:
        sentence += (
            f"; by chance, among {quantity(first['n_personas'], 'persona')}, it is"
            f" {percent(round(first['chance'], 4))}"
        )
    return " ".join([f"{sentence}.", *failed])


def describe_shared(entities: pl.DataFrame, names: Names) -> str:
    """Say which two personas speak of the same things, and whose prompts differ more than chance.

    entities: rows of `persona_entities` of one study.
    """
    rows = entities.filter(pl.col("of") == "entities").drop_nulls("jaccard")
    if not rows.height:
        return "No two personas have entities that could be compared."
    order = rows.sort("jaccard", maintain_order=True)
    most, least = order.row(-1, named=True), order.row(0, named=True)
    told = f"Most entities in common: {_name_pair(most, names)} ({_overlap(most)})"
    if rows.height > 1:
        told += f"; fewest {_name_pair(least, names)} ({_overlap(least)})"
    tested = rows.drop_nulls("p_value")
    if not tested.height:
        return f"{told}. No pair could be tested."
    return (
        f"{told}. Fewer in common than prompts dealt to the two at random, p < .05, in"
        f" {_count_significant(tested, 'p_value'):,} of {quantity(tested.height, 'pair')} of"
        f" personas, after Holm in {_count_significant(tested, 'p_holm'):,}."
    )


def _overlap(row: Mapping[str, Any]) -> str:
    total = row["shared"] + row["first_only"] + row["second_only"]
    return f"{row['shared']:,} of {total:,}, {percent(round(row['jaccard'], 4))}"


def describe_map(entity_map: pl.DataFrame, names: Names) -> str:
    """Say how many entities are most of all each persona's, and how many are no one persona's.

    entity_map: an ENTITY_MAP table.
    """
    if not entity_map.height:
        return "Map of entities: none was found."
    counts = dict(entity_map["persona"].value_counts(sort=True).rows())
    several = counts.pop(SEVERAL, 0)
    told = listing([f"{name_level(who, names)} {count:,}" for who, count in counts.items()])
    if several:
        alike = f"{SEVERAL_PERSONAS} alike {several:,}"
        told = f"{told}; {alike}" if told else alike
    return (
        f"Map of {quantity(entity_map.height, 'entity', 'entities')}; near ones stand in like"
        f" sentences. By the persona that has most of their sentences: {told}."
    )


def list_topic_words(topics: pl.DataFrame, words: int = 4) -> dict[int, str]:
    """Name each topic by its first words. topics: rows of `persona_topics` of one study."""
    ranked = topics.filter(pl.col("rank") <= words).sort("topic", "rank")
    named = ranked.group_by("topic", maintain_order=True).agg("word")
    return {int(topic): ", ".join(listed) for topic, listed in named.rows()}


def describe_topics(topics: pl.DataFrame, means: pl.DataFrame, names: Names) -> str:
    """Say which topic is heaviest in each persona's prompts.

    topics, means: rows of `persona_topics` and `persona_means` of one study.
    """
    words = list_topic_words(topics)
    rows = means.filter(
        pl.col("model").is_null(), pl.col("feature").str.starts_with("topic-")
    ).drop_nulls("mean")
    if not rows.height:
        return "Topics of the prompts: none was found."
    told = []
    for part in rows.partition_by("persona", maintain_order=True):
        row = part.sort("mean", maintain_order=True).row(-1, named=True)
        number = int(row["feature"].removeprefix("topic-"))
        told.append(
            f"{name_level(row['persona'], names)} topic {number} ({words.get(number, '')})"
            f" {percent(round(row['mean'], 4))}"
        )
    return f"Heaviest topic of each persona's prompts: {'; '.join(told)}."


def describe_published(separation: pl.DataFrame, measure: str, setting: Setting) -> list[str]:
    """Say what the published design, one sampled prompt a persona, would have shown.

    separation: rows of `persona_separation` of one study.
    """
    here = separation.filter(at_setting(setting), pl.col("measure") == measure)
    full = {row["model"]: row for row in here.filter(of_contrast()).iter_rows(named=True)}
    sentences = []
    for row in here.filter(of_contrast(variant=SAMPLED)).head(_MODELS_TOLD).iter_rows(named=True):
        if row["between"] is None:
            sentences.append(f"{row['model']}: no two programs for different personas.")
            continue
        if row["same_prompt"] is None:
            sentences.append(
                f"{row['model']}: programs for different personas are alike by"
                f" {signed(row['between'])}; no prompt has two programs, so how much of that is"
                " between draws of one prompt is not known."
            )
            continue
        gap = row["same_prompt"] - row["between"]
        told = (
            f"{row['model']}: draws of one prompt are alike by {signed(row['same_prompt'])},"
            f" programs for different personas by {signed(row['between'])}, a gap of {signed(gap)}"
        )
        whole = full.get(row["model"])
        if whole and None not in (whole["same_prompt"], whole["within"], whole["between"]):
            prompts = whole["same_prompt"] - whole["within"]
            told += (
                f"; with every iteration {signed(prompts)} lies between prompts of the same"
                f" persona already, and {signed(whole['within'] - whole['between'])} between"
                " personas"
            )
        sentences.append(f"{told}.")
    return sentences


def describe_dialogues(
    changes: pl.DataFrame, measure: str, setting: Setting, names: Names
) -> list[str]:
    """Say, a sentence a model, how often it asked back and how much dialogues changed the code.

    The change is of all dialogues that ended with a program, whether anything was asked or not.

    changes: rows of `persona_dialogues` of one study.
    """
    rows = changes.filter(
        pl.col("persona").is_null(), at_setting(setting), pl.col("measure") == measure
    )
    sentences = []
    for row in rows.head(_MODELS_TOLD).iter_rows(named=True):
        told = (
            f"{row['model']}: asked back in {row['asked']:,} of"
            f" {quantity(row['dialogues'], 'dialogue')}"
        )
        if row["exchanges"] is not None:
            told += f", {signed(row['exchanges'])} exchanges each on average"
        if row["change"] is None:
            told += f"; change of the code: {name_in_text(row['reason'] or 'no number', names)}"
        else:
            interval = show_interval(row)
            told += (
                "; programs at the end of dialogues, with or without an exchange, are alike to"
                f" those drawn without a dialogue by {signed(row['with_dialogue'])}, those among"
                f" themselves by {signed(row['same_prompt'])}, over"
                f" {quantity(row['n_prompts'], 'prompt')} with both: change"
                f" {signed(row['change'])}{' ' if interval else ''}{interval}"
            )
        sentences.append(f"{told}.")
    return sentences


_LEFT_REPLIES = {
    "none": ("reply without code", "replies without code"),
    "other_code": (
        "reply with code of other languages only",
        "replies with code of other languages only",
    ),
    "invalid": ("reply whose code does not parse", "replies whose code does not parse"),
    "truncated": ("reply whose code was cut off", "replies whose code was cut off"),
}

_LEFT_WORDING = {
    "prompts_cut": ("prompt", "too long to be parsed whole"),
    "code_blocks_left_out": ("block", "of code inside prompts, left out of their wording"),
    "long_runs_left_out": ("run", "of characters inside prompts, left out of their wording"),
    "long_sentences_parted": ("sentence", "too long to be parsed whole, parted"),
    "prompts_without_words": ("prompt", "without a word to analyse"),
    "prompts_without_topics": ("prompt", "without a word for topics"),
}


def describe_left_out(tables: Mapping[str, pl.DataFrame], wording: Mapping[str, Any]) -> list[str]:
    """Say what was left out and how often, over all settings and models; what is 0 is left away.

    tables: of `schemas.PERSONA_SCHEMAS`, the rows of one study. wording: what the analysis
    of the prompts says that it left out.
    """
    prompts, replies = tables["persona_prompts"], tables["persona_replies"]
    told = []
    if failed := int(replies[FAILED].sum()):
        told.append(
            f"{quantity(failed, 'draw')} without a reply (refused by the server, no answer, or"
            " empty), in no share, mean or test of replies"
        )
    if missing := int(prompts["missing"].sum()):
        told.append(f"{quantity(missing, 'prompt')} that no attempt could be used for")
    if unused := int((prompts["attempts"] - prompts["used"]).sum()):
        told.append(f"{quantity(unused, 'attempt')} that no prompt was made of, by their flags")
    for kind, (one, many) in _LEFT_REPLIES.items():
        if count := int(replies[kind].sum()):
            told.append(f"{quantity(count, one, many)}, not compared")
    if without := int(replies["prompts_without_program"].sum()):
        what = quantity(without, "prompt × model × setting", "prompts × models × settings")
        told.append(f"{what} without any program")
    if large := int(replies["too_large"].sum()):
        told.append(
            f"{quantity(large, 'program')} whose tree is too large, left out of the tree"
            " similarities"
        )
    for key, (noun, words) in _LEFT_WORDING.items():
        if wording.get(key):
            told.append(f"{quantity(int(wording[key]), noun)} {words}")
    return told


def count_missing(tables: Mapping[str, pl.DataFrame], names: Names) -> list[tuple[str, str, int]]:
    """Count, by table and reason, the numbers that could not be had.

    tables: of `schemas.PERSONA_SCHEMAS`, the rows of one study. The published variant has
    no inference by design and is left out. Returns what lacks, why, how many.
    """
    iterations = pl.col("variant") == ITERATIONS
    places = (
        ("similarities of programs", "persona_separation", ("difference", "std_error"), iterations),
        ("means of features", "persona_means", ("mean", "std_error"), pl.lit(True)),
        ("guessing who asked", "persona_leakage", ("accuracy",), pl.lit(True)),
        ("shared entities", "persona_entities", ("jaccard", "p_value"), pl.lit(True)),
        ("dialogues", "persona_dialogues", ("change", "std_error"), pl.lit(True)),
    )
    found = []
    for what, name, numbers, kept in places:
        lacks = pl.any_horizontal(pl.col(number).is_null() for number in numbers)
        rows = (
            tables[name]
            .filter(kept, lacks)
            .with_columns(pl.col("reason").fill_null("no reason given"))
        )
        counted = rows.group_by("reason", maintain_order=True).len()
        found += [(what, name_in_text(reason, names), count) for reason, count in counted.rows()]
    return found


def list_features(means: pl.DataFrame) -> Sequence[str]:
    """List the features of code of a study: those of replies and programs, in their order."""
    there = set(means.filter(pl.col("model").is_not_null())["feature"])
    known = [*(f"reply_{kind}" for kind in CAME_KINDS), *FEATURE_COLUMNS]
    return [name for name in known if name in there]
