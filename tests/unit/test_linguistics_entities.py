"""Entities by persona: counts by hand, sets, permutations by enumeration, the map."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_variability.linguistics import entities, entity_map
from llm_variability.linguistics.entities import (
    LONGEST_ENTITY,
    Mentioned,
    Speech,
    compare_pair,
    compare_sets,
    count_cooccurrences,
    count_dealings,
    count_entities,
    count_shared,
    find_entities,
    name_entity,
    permute_within,
    read_speech,
    tabulate_sets,
)
from llm_variability.linguistics.entity_map import draw_map, scale_profiles, weigh_contexts
from llm_variability.linguistics.parsing import Sentence, Token
from llm_variability.linguistics.prompts import Prompt


def tag(text: str) -> tuple[Token, ...]:
    """Make tokens of word/POS, the lemma a form without a final s."""
    words = (word.rpartition("/") for word in text.split())
    return tuple(Token(form, form.rstrip("s"), "X", pos, "dep", 0) for form, _, pos in words)


def say(*phrases: str, names: Sequence[tuple[int, int, str]] = ()) -> Sentence:
    """Make a sentence of noun phrases with a verb between each two."""
    tokens: list[Token] = []
    places = []
    for phrase in phrases:
        tagged = tag(phrase)
        places.append((len(tokens), len(tokens) + len(tagged)))
        tokens += [*tagged, Token("sees", "see", "VBZ", "VERB", "ROOT", 0)]
    return Sentence(tuple(tokens), tuple(places), tuple(names))


def ask(persona: str, *sentences: Sentence, task: str = "brief/calculator", n: int = 0) -> Prompt:
    role, _, gender = persona.rpartition("-")
    return Prompt(task, persona, role, gender, f"{task} {persona} {n}", str(n), sentences)


def mention(persona: str, entities: str, task: str = "t") -> Speech:
    """Make a prompt of one sentence with these entities, and all pairs of them."""
    names = sorted(entities)
    return Speech(task, persona, (Mentioned(frozenset(names), frozenset(combinations(names, 2))),))


def test_an_entity_is_the_head_with_its_modifiers_as_lemmas() -> None:
    assert name_entity(tag("the/DET two/NUM large/ADJ files/NOUN")) == "large file"
    assert name_entity(tag("the/DET user/NOUN 's/PART input/NOUN")) == "user input"
    assert name_entity(tag("very/ADV well/ADV known/VERB library/NOUN")) == "known library"


def test_a_phrase_without_a_noun_names_nothing() -> None:
    assert name_entity(tag("it/PRON")) == ""
    assert name_entity(tag("the/DET biggest/ADJ")) == ""


def test_of_a_long_phrase_the_last_words_count() -> None:
    long = name_entity(tag(" ".join(f"word{i}x/NOUN" for i in range(9))))
    assert long.split() == [f"word{i}x" for i in range(9 - LONGEST_ENTITY, 9)]


def test_a_name_within_a_phrase_is_an_entity_but_no_pair_with_it() -> None:
    sentence = say(
        "a/DET python/PROPN function/NOUN", "two/NUM numbers/NOUN", names=[(1, 2, "PRODUCT")]
    )
    found = find_entities(sentence)
    assert found.entities == {"python", "python function", "number"}
    assert found.pairs == {("number", "python"), ("number", "python function")}


def test_numbers_and_times_are_no_entities() -> None:
    assert not find_entities(Sentence(tag("six/NOUN"), (), ((0, 1, "CARDINAL"),))).entities
    assert not find_entities(Sentence(tag("may/PROPN"), (), ((0, 1, "DATE"),))).entities


def test_an_entity_that_stands_twice_in_a_sentence_is_no_pair_with_itself() -> None:
    found = find_entities(say("files/NOUN", "a/DET file/NOUN"))
    assert found == Mentioned(frozenset({"file"}), frozenset())


def test_counts_by_persona_are_those_made_by_hand() -> None:
    speech = read_speech(
        [
            ask("a-male", say("file/NOUN", "user/NOUN"), say("file/NOUN"), n=0),
            ask("a-male", say("user/NOUN", "file/NOUN"), n=1),
            ask("b-male", say("file/NOUN", "file/NOUN")),
        ]
    )
    assert count_entities(speech).rows() == [
        ("file", "a-male", 3, 2),
        ("file", "b-male", 1, 1),
        ("user", "a-male", 2, 2),
    ]
    assert count_cooccurrences(speech).rows() == [("file", "user", "a-male", 2)]


def test_shared_entities_are_those_of_the_sets() -> None:
    speech = [mention("a", "xy"), mention("a", "z"), mention("b", "yz"), mention("b", "w")]
    table = compare_sets(speech, 99, 1)
    entities = table.row(0, named=True)
    assert [entities[k] for k in ("first", "second", "of")] == ["a", "b", "entities"]
    assert [entities[k] for k in ("shared", "first_only", "second_only")] == [2, 1, 1]
    assert entities["jaccard"] == 2 / 4
    pairs = table.row(1, named=True)
    assert [pairs[k] for k in ("shared", "first_only", "second_only")] == [0, 1, 1]
    assert pairs["jaccard"] == 0


def enumerate_jaccards(speech: Sequence[Speech]) -> list[float]:
    """Every way to deal each task's prompts to persona a, as many as it has; the rest are b's."""
    tasks: dict[str, list[int]] = {}
    for i, each in enumerate(speech):
        tasks.setdefault(each.task, []).append(i)
    dealt = [
        list(combinations(places, sum(speech[i].persona == "a" for i in places)))
        for places in tasks.values()
    ]
    found = []
    for deal in product(*dealt):
        chosen = {i for places in deal for i in places}
        first, second = set(), set()
        for i, each in enumerate(speech):
            (first if i in chosen else second).update(each.collect("entities"))
        found.append(len(first & second) / len(first | second))
    return found


TINY = [
    mention("a", "pqr", "t"),
    mention("a", "pqs", "t"),
    mention("a", "pq", "u"),
    mention("a", "pv", "u"),
    mention("b", "xyz", "t"),
    mention("b", "xyw", "t"),
    mention("b", "xq", "u"),
    mention("b", "xyv", "u"),
]


def test_the_p_value_is_that_of_all_dealings_but_for_monte_carlo_error() -> None:
    permutations = 9999
    row = compare_sets(TINY, permutations, 3).row(0, named=True)
    everything = np.array(enumerate_jaccards(TINY))
    exact = np.mean(everything <= row["jaccard"] + 1e-12)
    assert len(everything) == count_dealings([s.task for s in TINY], np.arange(8) < 4) == 36
    assert 0 < exact < 0.2
    error = np.sqrt(exact * (1 - exact) / permutations)
    assert row["p_value"] == pytest.approx(exact, abs=4 * error + 1 / permutations)
    mean_error = everything.std() / np.sqrt(permutations)
    assert row["permuted"] == pytest.approx(everything.mean(), abs=4 * mean_error)
    assert row["jaccard"] < row["permuted"]


def test_sets_more_alike_than_chance_have_a_large_p_value() -> None:
    speech = [mention(who, entities) for who in "ab" for entities in ("kl", "mn", "op")]
    row = compare_sets(speech, 999, 1).row(0, named=True)
    assert row["jaccard"] == 1
    assert row["p_value"] == 1
    assert row["permuted"] < 1


def test_the_test_rejects_no_oftener_than_it_says_where_personas_are_the_same() -> None:
    rng = np.random.default_rng(7)
    p_values = []
    for study in range(200):
        speech = [
            mention(who, "".join(rng.choice(list("abcdefghijklmnop"), 4, replace=False)), task)
            for task in "tu"
            for who in "ab"
            for _ in range(4)
        ]
        p_values.append(compare_pair(speech, ("a", "b"), "entities", 199, study)["p_value"])
    for level in (0.05, 0.1, 0.2):
        rejected = np.mean(np.array(p_values) <= level)
        assert rejected <= level + 3 * np.sqrt(level * (1 - level) / len(p_values))


def test_only_the_two_personas_compared_change_prompts() -> None:
    alone = compare_sets(TINY, 199, 1).row(0)[:9]
    other = [mention("c", "abcdef", task) for task in "tu"]
    among_three = compare_sets([*TINY, *other], 199, 1)
    assert among_three.row(0)[:9] == alone
    assert among_three["family_size"].to_list() == [3, 3, 3, 3, 3, 3]


def test_holm_is_over_the_pairs_of_personas_of_one_kind() -> None:
    speech = [*TINY, *(mention("c", "pqx", task) for task in "tttuuu")]
    table = compare_sets(speech, 99, 1)
    for of in ("entities", "cooccurrences"):
        family = table.filter(pl.col("of") == of).sort("p_value")
        p = family["p_value"].to_list()
        expected, largest = [], 0.0
        for rank, value in enumerate(p):
            largest = max(largest, min(1.0, value * (len(p) - rank)))
            expected.append(largest)
        assert family["p_holm"].to_list() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("speech", "reason"),
    [
        ([mention("a", "x"), mention("b", "x")], "no two prompts of a task can change personas"),
        (
            [mention(who, "x", task) for who, task in ("at", "at", "bu", "bu")],
            "no two prompts of a task can change personas",
        ),
        ([mention(who, "") for who in "aabb"], "neither persona has entities"),
    ],
)
def test_where_there_is_no_test_there_is_a_reason(speech: list[Speech], reason: str) -> None:
    row = compare_sets(speech, 99, 1).row(0, named=True)
    assert row["reason"].startswith(reason)
    assert [row[k] for k in ("p_value", "p_holm", "p_bh", "family_size")] == [None] * 4


def test_one_persona_or_none_is_compared_with_nobody() -> None:
    assert compare_sets([mention("a", "xy")], 99, 1).height == 0
    assert compare_sets([], 99, 1).height == 0
    assert count_entities([]).height == count_cooccurrences([]).height == draw_map([]).height == 0


def test_permutations_keep_each_tasks_numbers() -> None:
    tasks = list("ttuuutv")
    labels = np.array([True, False, True, True, False, False, True])
    permuted = permute_within(tasks, labels, 500, np.random.default_rng(1))
    for task in "tuv":
        places = [i for i, each in enumerate(tasks) if each == task]
        assert set(permuted[:, places].sum(axis=1)) == {labels[places].sum()}
    assert len({tuple(row) for row in permuted}) == count_dealings(tasks, labels) == 9


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sets(st.integers(0, 12)), min_size=1, max_size=7),
    st.integers(0, 2**32 - 1),
)
def test_shared_members_are_counted_as_sets_count_them(sets: list[set[int]], seed: int) -> None:
    labels = np.random.default_rng(seed).random((5, len(sets))) < 0.5
    found = count_shared(tabulate_sets(sets), labels)
    for count, label in zip(found, labels, strict=True):
        ours: set[int] = set().union(*(s for s, mine in zip(sets, label, strict=True) if mine))
        theirs: set[int] = set().union(
            *(s for s, mine in zip(sets, label, strict=True) if not mine)
        )
        assert count == len(ours & theirs)


def test_many_members_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    table = tabulate_sets([set(rng.integers(0, 40, 15)) for _ in range(6)])
    labels = rng.random((20, 6)) < 0.5
    whole = count_shared(table, labels)
    monkeypatch.setattr(entities, "COLUMNS_AT_ONCE", 7)
    assert (count_shared(table, labels) == whole).all()


def test_associations_are_those_of_the_formula() -> None:
    weights = weigh_contexts([{"p": 2, "q": 1}, {"q": 1, "r": 4}])
    expected = [
        [np.log2(2 * 8 / (3 * 2)), np.log2(1 * 8 / (3 * 2)), 0],
        [0, 0, np.log2(4 * 8 / (5 * 4))],  # 1 * 8 / (5 * 2) is less than 1
    ]
    assert weights == pytest.approx(np.array(expected))


def test_places_keep_the_distances_of_three_directions() -> None:
    profiles = np.array([[1.0, 0, 0], [1, 1, 0], [0, 0, 2]])
    places = scale_profiles(profiles)
    for i, j in combinations(range(3), 2):
        cosine = (
            profiles[i] @ profiles[j] / np.linalg.norm(profiles[i]) / np.linalg.norm(profiles[j])
        )
        assert np.sum((places[i] - places[j]) ** 2) == pytest.approx(2 - 2 * cosine)


def test_places_agree_with_another_implementation() -> None:
    skbio = pytest.importorskip("skbio")
    rng = np.random.default_rng(5)
    profiles = np.maximum(rng.normal(size=(12, 20)), 0)
    units = profiles / np.linalg.norm(profiles, axis=1, keepdims=True)
    distances = np.sqrt(np.maximum(2 - 2 * units @ units.T, 0))
    np.fill_diagonal(distances, 0)
    expected = skbio.stats.ordination.pcoa(
        skbio.DistanceMatrix(distances), dimensions=2
    ).samples.to_numpy()
    places = scale_profiles(profiles)
    for axis in range(2):
        sign = np.sign(places[:, axis] @ expected[:, axis])
        assert places[:, axis] == pytest.approx(sign * expected[:, axis], abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_places_are_finite_and_centred_for_any_number(n: int, d: int, seed: int) -> None:
    profiles = np.random.default_rng(seed).integers(0, 3, size=(n, d)).astype(float)
    places = scale_profiles(profiles)
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()
    assert places.sum(axis=0) == pytest.approx([0, 0], abs=1e-9)
    for axis in range(2):
        if n and np.abs(places[:, axis]).max() > 1e-6:
            extent = np.abs(places[:, axis]).max()
            assert places[np.abs(places[:, axis]) > extent - 1e-9, axis][0] > 0


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_map_of_few_entities_has_places(number: int) -> None:
    sentences = [say(f"thing{i}x/NOUN", "it/PRON") for i in range(number)]
    table = draw_map([ask("a-male", *sentences)])
    assert table["entity"].to_list() == [f"thing{i}x" for i in range(number)]
    assert np.isfinite(table.select("x", "y").to_numpy()).all()
    assert draw_map([ask("a-male", *sentences)]).equals(table)


def test_entities_of_like_sentences_lie_nearer() -> None:
    numbers = [say(f"{one}/NOUN", "sum/NOUN", "digit/NOUN") for one in ("plu", "minu")]
    shop = [say(f"{one}/NOUN", "price/NOUN", "bike/NOUN") for one in ("cart", "order")]
    table = draw_map([ask("a-male", *numbers, *shop)])
    place = {name: np.array([x, y]) for name, x, y in table.select("entity", "x", "y").rows()}
    near = np.linalg.norm(place["plu"] - place["minu"])
    far = np.linalg.norm(place["plu"] - place["cart"])
    assert near < far / 2


def test_shares_make_personas_of_unlike_length_alike() -> None:
    long = ask("a-male", say("file/NOUN"), say("file/NOUN"), *[say("user/NOUN")] * 6)
    short = ask("b-male", say("file/NOUN"), say("screen/NOUN"))
    table = draw_map([long, short]).rows_by_key("entity", named=True, unique=True)
    # a: 2 of 8 sentences, b: 1 of 2.
    assert table["file"]["persona"] == "b-male"
    assert table["file"]["share"] == pytest.approx(0.5 / 0.75)
    assert table["file"]["sentences"] == 3
    assert (table["user"]["persona"], table["user"]["share"]) == ("a-male", 1)


def test_of_too_many_entities_those_of_most_sentences_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entity_map, "MOST_ENTITIES", 2)
    prompt = ask("a-male", say("z/NOUN"), say("z/NOUN"), say("a/NOUN"), say("b/NOUN"))
    assert draw_map([prompt])["entity"].to_list() == ["a", "z"]
