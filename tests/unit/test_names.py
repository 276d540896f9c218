"""Names studies: the published prompts, lists of any names, matching by frequency, wrong files."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from llm_variability.config import ConfigError, NameSelection, Study
from llm_variability.stimuli.identity import prompt_id
from llm_variability.stimuli.names import (
    CALIPER,
    ListedName,
    NameList,
    can_match,
    check_name_stimuli,
    count_overlap,
    find_name_list,
    match_counts,
    read_name_list,
    read_name_stimuli,
    render_name_prompts,
    select_names,
)
from llm_variability.tables import STIMULI, Design, Factor, read_table, write_table

NAMES = Path(__file__).parents[2] / "resources/names.yaml"
FEW = "name,group,count\nAnna,w,30\nBerta,w,20\nCarl,m,29\nDirk,m,21\n"


def study(**settings: Any) -> Study:
    return Study(kind="names", stimuli="names.yaml", **settings)


def taking(per_group: int = 2, formats: list[str] | None = None, **selection: Any) -> Study:
    return study(names=NameSelection(per_group=per_group, **selection), formats=formats)


def save(folder: Path, listed: str = FEW, **changes: Any) -> Path:
    """Write a list and a stimuli file that names it; give the stimuli file's path."""
    (folder / "lists").mkdir(exist_ok=True)
    (folder / "lists/few.csv").write_text(listed, encoding="utf-8", newline="")
    values: dict[str, Any] = {
        "template": "Write {format} {name}.",
        "names": "lists/few.csv",
        "formats": {"poem": "a poem on", "story": "a story about"},
        "reference": "m",
    }
    path = folder / "few.yaml"
    path.write_text(yaml.safe_dump({**values, **changes}), encoding="utf-8")
    return path


def render(path: Path, settings: Study) -> tuple[list[str], Design, dict[str, Any]]:
    stimuli = read_name_stimuli(path, settings.formats)
    table, design, facts = render_name_prompts(stimuli, settings)
    return table["prompt"].to_list(), design, facts["selection"]


def name_list(**groups: dict[str, float]) -> NameList:
    names = [
        ListedName(name, group, count)
        for group, counts in groups.items()
        for name, count in counts.items()
    ]
    return NameList("list.csv", tuple(names))


def taken(listed: NameList, **selection: Any) -> dict[str, list[str]]:
    selected = select_names(listed, NameSelection(**selection))
    return {group: [each.name for each in names] for group, names in selected.names.items()}


# ----------------------------------------------------------------------- the published study


@pytest.fixture(scope="module")
def published() -> Any:
    return render_name_prompts(read_name_stimuli(NAMES), study(draws=1))


def test_the_published_study_has_2600_prompts(published: Any) -> None:
    table, _, _ = published
    assert table["prompt"].n_unique() == table["prompt_id"].n_unique() == 4 * 50 * 13 == 2600


def test_the_published_example_is_among_the_prompts(published: Any) -> None:
    # Section 2.5 of "How Robust Is Homogeneity Bias in LLMs?"
    (row,) = published[0].filter(prompt="Write a thirty-word story about Garcia.").to_dicts()
    assert row == {
        "format": "story",
        "group": "Hispanic",
        "name": "Garcia",
        "prompt_id": prompt_id("You are a chatbot", row["prompt"]),
        "system": "You are a chatbot",
        "prompt": row["prompt"],
        "replicates": 1,
        "greedy_replicates": 1,
    }


def test_the_formats_are_those_of_the_label_study() -> None:
    labels = yaml.safe_load(NAMES.with_name("labels.yaml").read_text(encoding="utf-8"))
    assert read_name_stimuli(NAMES).formats == labels["formats"]


def test_texts_are_compared_across_names_at_temperature_0_too(published: Any) -> None:
    groups = ("Black", "Hispanic", "Asian", "White")
    formats = tuple(read_name_stimuli(NAMES).formats)
    factor = Factor("group", groups, "White")
    assert published[1] == Design("format", (factor,), False, formats, unit="name")


def test_every_group_has_fifty_names_in_every_format(published: Any) -> None:
    assert set(published[0].group_by("format", "group").len()["len"]) == {50}


def test_the_names_are_each_group_s_most_frequent(published: Any) -> None:
    names = published[0].filter(format="story", group="Hispanic")["name"].to_list()
    assert names[:5] == ["Garcia", "Rodriguez", "Hernandez", "Martinez", "Lopez"]


def test_the_prompts_are_a_stimuli_table(published: Any, tmp_path: Path) -> None:
    table, design, facts = published
    path = tmp_path / "names.parquet"
    write_table(table, path, STIMULI, {"design": design.to_json(), **facts})
    assert read_table(path, STIMULI).height == 2600


def test_matched_names_of_the_published_list_are_within_a_few_percent() -> None:
    listed = read_name_stimuli(NAMES).listed
    selected = select_names(listed, NameSelection(match="frequency"))
    assert selected.target == "Black"
    for names in selected.names.values():
        assert len(names) == 50
        for one, other in zip(names, selected.names["Black"], strict=True):
            assert one.count and other.count and 0.97 < one.count / other.count < 1.03


def test_matching_takes_the_confound_of_frequency_away() -> None:
    overlaps = {}
    for match in ("none", "frequency"):
        _, _, selection = render(NAMES, study(draws=1, names=NameSelection(match=match)))
        overlaps[match] = {each["group"]: each["overlap"] for each in selection["overlap"]}
    assert overlaps["none"]["Black"] == 0
    assert min(overlaps["frequency"].values()) > 0.9


# --------------------------------------------------------------------------------- any names


def test_other_names_come_from_another_list(tmp_path: Path) -> None:
    prompts, design, _ = render(save(tmp_path), taking())
    assert prompts == [
        f"Write {words} {name}."
        for words in ("a poem on", "a story about")
        for name in ("Anna", "Berta", "Carl", "Dirk")
    ]
    assert design.factors == (Factor("group", ("w", "m"), "m"),)


def test_the_list_s_path_is_from_the_stimuli_file(tmp_path: Path) -> None:
    path = save(tmp_path)
    assert find_name_list(path).resolve() == (tmp_path / "lists/few.csv").resolve()
    absolute = str(tmp_path / "lists/few.csv")
    assert find_name_list(save(tmp_path, names=absolute)) == Path(absolute)


def test_names_without_numbers_are_ranked_as_in_the_file(tmp_path: Path) -> None:
    listed = "group,name\nm,Zoe\nw,Yan\nm,Ada\nw,Xu\nm,Bo\nw,Abe\n"
    prompts, _, selection = render(save(tmp_path, listed), taking(formats=["poem"]))
    assert prompts[:4] == [f"Write a poem on {name}." for name in ("Zoe", "Ada", "Yan", "Xu")]
    assert selection["groups"][0] == {
        **{"group": "m", "names": 2},
        **{"fewest": None, "median": None, "most": None},
    }
    assert selection["overlap"] == []


def test_bearers_rank_before_count(tmp_path: Path) -> None:
    listed = "name,group,count,bearers\na,m,90,1\nb,m,10,9\nc,m,50,5\nd,w,1,1\ne,w,2,2\n"
    path = save(tmp_path, listed)
    assert taken(read_name_list(find_name_list(path)), per_group=2)["m"] == ["b", "c"]


def test_flagged_names_are_left_out_and_counted(tmp_path: Path) -> None:
    listed = "name,group,count,flag\na,m,9,word\nb,m,8,\nc,m,7, \nd,w,5,\ne,w,4,\nf,w,3,place\n"
    prompts, _, selection = render(save(tmp_path, listed), taking(formats=["poem"]))
    assert prompts[:4] == [f"Write a poem on {name}." for name in "bcde"]
    assert selection["flagged"] == {"m": 1, "w": 1}


def test_groups_are_those_asked_for_in_that_order(tmp_path: Path) -> None:
    listed = FEW + "Eva,x,5\nFay,x,4\n"
    prompts, design, _ = render(save(tmp_path, listed), taking(groups=["x", "m"]))
    assert design.factors == (Factor("group", ("x", "m"), "m"),)
    assert prompts[:4] == [f"Write a poem on {name}." for name in ("Eva", "Fay", "Carl", "Dirk")]


def test_an_article_fits_the_name(tmp_path: Path) -> None:
    path = save(tmp_path, template="{format} {a} {name}", formats={"as": "as"})
    assert render(path, taking())[0] == ["as an Anna", "as a Berta", "as a Carl", "as a Dirk"]


def test_braces_in_a_name_are_text(tmp_path: Path) -> None:
    path = save(tmp_path, "name,group\n{a} {name},m\n{0},m\nx,w\ny,w\n", formats={"on": "on"})
    assert render(path, taking())[0][:2] == ["Write on {a} {name}.", "Write on {0}."]


def test_names_of_any_script_are_kept(tmp_path: Path) -> None:
    listed = "\ufeffname,group\r\n Núñez ,m\r\n王 小明,m\r\nعلی\u200cرضا,w\r\nD'Arcy-O’Neil,w\r\n"
    names = read_name_list(find_name_list(save(tmp_path, listed))).names
    assert [each.name for each in names] == ["Núñez", "王 小明", "علی\u200cرضا", "D'Arcy-O’Neil"]


def test_no_system_prompt_is_null(tmp_path: Path) -> None:
    table, _, _ = render_name_prompts(read_name_stimuli(save(tmp_path)), taking())
    assert table["system"].null_count() == table.height == 8


def test_each_name_is_drawn_once(tmp_path: Path) -> None:
    stimuli = read_name_stimuli(save(tmp_path))
    settings = study(names=NameSelection(per_group=2))
    table, _, _ = render_name_prompts(stimuli, settings)
    assert set(table.select("replicates", "greedy_replicates").rows()) == {(1, 1)}


def test_the_facts_describe_the_names_taken(tmp_path: Path) -> None:
    listed = FEW + "Ede,w,10\nEva,m,1\n"
    _, _, selection = render(save(tmp_path, listed), taking(3))
    assert selection == {
        "match": "none",
        "list": "lists/few.csv",
        "target": None,
        "passed_over": [],
        "caliper": None,
        "groups": [
            {"group": "w", "names": 3, "fewest": 10, "median": 20, "most": 30},
            {"group": "m", "names": 3, "fewest": 1, "median": 21, "most": 29},
        ],
        # w: 10, 20, 30; m: 1, 21, 29. Largest difference of shares: at 1, 1/3 against none.
        "overlap": [{"group": "w", "reference": "m", "overlap": round(2 / 3, 6)}],
        "flagged": {"w": 0, "m": 0},
    }
    assert json.loads(json.dumps(selection)) == selection


def test_a_check_makes_nothing_and_passes_the_published_files() -> None:
    check_name_stimuli(NAMES, study(names=NameSelection(match="frequency")))


# ----------------------------------------------------------------------------------- matching


def test_names_are_matched_one_to_one_at_the_least_total_distance() -> None:
    # By hand: 100 and 110 can have 105 or 118. 100-105 and 110-118 is the only way, since 118 is
    # nearer to 110 and 105 cannot be had twice; a greedy 110-105 would leave 100 with 118.
    listed = name_list(
        rare={"r2": 110, "r1": 100}, common={"c0": 900, "c1": 105, "c2": 118, "c3": 300}
    )
    assert taken(listed, per_group=2, match="frequency") == {
        "rare": ["r2", "r1"],
        "common": ["c2", "c1"],
    }


def test_a_target_without_counterpart_is_passed_over_for_the_next() -> None:
    listed = name_list(
        rare={"r1": 5000, "r2": 100, "r3": 60, "r4": 40},
        common={"c1": 10_000, "c2": 9_000, "c3": 98, "c4": 41, "c5": 39},
    )
    selected = select_names(listed, NameSelection(per_group=2, match="frequency"))
    assert selected.target == "rare"
    assert selected.passed_over == ("r1", "r3")
    assert [each.name for each in selected.names["rare"]] == ["r2", "r4"]
    assert [each.name for each in selected.names["common"]] == ["c3", "c4"]


def test_a_counterpart_may_be_a_quarter_more_frequent_and_no_more() -> None:
    rare = {"a": 400, "b": 100}
    within = name_list(rare=rare, common={"c": 500, "d": 125})
    assert taken(within, per_group=2, match="frequency")["common"] == ["c", "d"]
    beyond = name_list(rare=rare, common={"c": 500, "d": 126})
    with pytest.raises(ConfigError, match="only 1 can be matched"):
        taken(beyond, per_group=2, match="frequency")


def test_a_name_that_two_targets_want_goes_to_one() -> None:
    listed = name_list(rare={"a": 100, "b": 100, "c": 99}, common={"d": 101, "e": 102, "f": 900})
    with pytest.raises(ConfigError) as raised:
        taken(listed, per_group=3, match="frequency")
    assert str(raised.value) == (
        "names.per_group: 3 names a group are wanted, but of list.csv only 2 can be matched in"
        " count within a factor of 1.25. Allowed: names.per_group up to 2, names.match none, other"
        " names.groups"
    )
    assert taken(listed, per_group=2, match="frequency")["common"] == ["d", "e"]


def test_a_long_tail_of_rare_names_makes_no_target() -> None:
    tail = {f"t{number}": 1 for number in range(9)}
    listed = name_list(long={"a": 100, "b": 90, "c": 55, "d": 44, **tail}, short={"e": 50, "f": 45})
    selected = select_names(listed, NameSelection(per_group=2, match="frequency"))
    assert selected.target == "short"
    assert [each.name for each in selected.names["long"]] == ["c", "d"]


def test_every_other_group_must_have_a_counterpart() -> None:
    listed = name_list(
        rare={"a": 30, "b": 20, "c": 10},
        one={"d": 31, "e": 21, "f": 11, "g": 900},
        two={"h": 32, "i": 12, "j": 9, "k": 900, "l": 800, "m": 700},
    )
    selected = select_names(listed, NameSelection(per_group=2, match="frequency"))
    names = {
        group: [each.name for each in each_names] for group, each_names in selected.names.items()
    }
    assert names == {"rare": ["a", "c"], "one": ["d", "f"], "two": ["h", "j"]}
    assert selected.passed_over == ("b",)


def test_a_refusal_allows_only_what_was_tried() -> None:
    # Of four names a group c's are the rarest, and two of them (13, 10) can be matched. But of two
    # names b's are the rarest, of which only one can be: both 15s want the 12 of a.
    listed = name_list(
        a={"a1": 25, "a2": 20, "a3": 12, "a4": 8},
        b={"b1": 15, "b2": 15, "b3": 12, "b4": 11, "b5": 1},
        c={"c1": 30, "c2": 13, "c3": 12, "c4": 12, "c5": 10},
    )
    with pytest.raises(ConfigError, match="only 1 can be matched.*Allowed: names.match none"):
        taken(listed, per_group=4, match="frequency")


counts = st.lists(st.integers(1, 40), min_size=1, max_size=4)
pools = st.lists(st.integers(1, 40), min_size=1, max_size=6)


def similar(one: int, other: int) -> bool:
    assert CALIPER == 5 / 4
    return 4 * max(one, other) <= 5 * min(one, other)


def assignments(targets: list[int], candidates: list[int]) -> list[tuple[int, ...]]:
    return [
        chosen
        for chosen in itertools.permutations(range(len(candidates)), len(targets))
        if all(
            similar(target, candidates[index])
            for target, index in zip(targets, chosen, strict=True)
        )
    ]


@given(counts, pools)
@settings(max_examples=300, deadline=None)
def test_matching_is_as_good_as_trying_everything(
    targets: list[int], candidates: list[int]
) -> None:
    logs, pool = [math.log(each) for each in targets], [math.log(each) for each in candidates]
    possible = assignments(targets, candidates)
    assert can_match(logs, sorted(pool)) == bool(possible)
    if not possible:
        with pytest.raises(ValueError):
            match_counts(logs, pool)
        return

    def distance(chosen: tuple[int, ...]) -> float:
        return sum(abs(log - pool[index]) for log, index in zip(logs, chosen, strict=True))

    chosen = tuple(match_counts(logs, pool))
    assert chosen in possible
    assert math.isclose(distance(chosen), min(map(distance, possible)), abs_tol=1e-9)


lists = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.integers(1, 60), min_size=2, max_size=9), min_size=2
)


def listed_of(groups: dict[str, list[int]]) -> list[ListedName]:
    return [
        ListedName(f"{group}{number}", group, float(count))
        for group, numbers in groups.items()
        for number, count in enumerate(numbers)
    ]


def outcome(names: list[ListedName], selection: NameSelection) -> object:
    try:
        selected = select_names(NameList("list.csv", tuple(names)), selection)
    except ConfigError as error:
        return str(error)
    return dict(selected.names), selected.target, selected.passed_over


@given(lists, st.sampled_from(["none", "frequency"]), st.integers(2, 4), st.data())
@settings(max_examples=200, deadline=None)
def test_the_order_of_the_list_decides_nothing(
    groups: dict[str, list[int]], match: Any, per_group: int, data: st.DataObject
) -> None:
    names = listed_of(groups)
    shuffled = data.draw(st.permutations(names))
    selection = NameSelection(per_group=per_group, groups=sorted(groups), match=match)
    assert outcome(names, selection) == outcome(shuffled, selection)
    turned = selection.model_copy(update={"groups": sorted(groups, reverse=True)})
    found = outcome(names, turned)
    assert isinstance(found, str) or found == outcome(names, selection)


@given(lists, st.integers(2, 4))
@settings(max_examples=200, deadline=None)
def test_matched_names_are_distinct_and_similar(
    groups: dict[str, list[int]], per_group: int
) -> None:
    selection = NameSelection(per_group=per_group, match="frequency")
    found = outcome(listed_of(groups), selection)
    if isinstance(found, str):
        return
    selected, target, _ = found  # type: ignore[misc]
    for group, names in selected.items():
        assert len(set(names)) == per_group
        assert {each.group for each in names} == {group}
        for one, other in zip(names, selected[target], strict=True):
            assert similar(int(one.count), int(other.count))


@given(lists)
@settings(max_examples=200, deadline=None)
def test_as_many_names_as_a_refusal_allows_can_be_had(groups: dict[str, list[int]]) -> None:
    most = min(len(numbers) for numbers in groups.values())
    found = outcome(listed_of(groups), NameSelection(per_group=most, match="frequency"))
    if not isinstance(found, str) or "up to" not in found:
        return
    possible = int(found.split("up to ")[1].split(",")[0])
    again = outcome(listed_of(groups), NameSelection(per_group=possible, match="frequency"))
    assert 2 <= possible < most and not isinstance(again, str)


@given(lists)
@settings(max_examples=100, deadline=None)
def test_unmatched_names_are_the_most_frequent(groups: dict[str, list[int]]) -> None:
    selected = select_names(NameList("x", tuple(listed_of(groups))), NameSelection(per_group=2))
    for group, names in selected.names.items():
        found = Counter(each.count for each in names)
        assert found == Counter(map(float, sorted(groups[group])[-2:]))


samples = st.lists(st.integers(1, 30), min_size=3, max_size=30)


@given(samples, samples)
@settings(max_examples=100, deadline=None)
def test_overlap_is_1_less_scipy_s_kolmogorov_smirnov_distance(
    one: list[int], other: list[int]
) -> None:
    logs = ([math.log(each) for each in sample] for sample in (one, other))
    distance = ks_2samp(*logs, method="asymp")
    assert count_overlap(one, other) == pytest.approx(1 - distance.statistic, abs=1e-6)


# --------------------------------------------------------------------------------- wrong lists

WRONG_LISTS = {
    "no group column": ("name,race\nAnna,w\n", "the column 'group' is missing. Found: name, race"),
    "no name column": ("surname,group\nAnna,w\n", "the column 'name' is missing. Found: surname"),
    "a line break in the header": (
        '"na\nme\x1b",x\n1,2\n',
        "the column 'name' is missing. Found: na?m",
    ),
    "semicolons": ("name;group\nAnna;w\n", "the column 'name' is missing. Found: name;group"),
    "column twice": ("name,group,name\nAnna,w,x\n", "the column 'name' is given twice"),
    "nothing": ("", "is empty; a header with name and group is needed"),
    "a header only": ("name,group\n", "holds no name"),
    "a value too few": ("name,group\nAnna,w\nBerta\n", "line 3: 1 values, but 2 columns"),
    "a value too many": ("name,group\nAnna,w,1\n", "line 2: 3 values, but 2 columns"),
    "an open quote": ('name,group\n"Anna,w\n', "line 2: unexpected end of data"),
    "a name twice": (f"{FEW}anna,w,3\n", "line 6: anna is given twice; each name once is allowed"),
    "a name in two groups": (
        f"{FEW}ANNA,m,3\n",
        "line 6: ANNA is given in w and in m; each name once is allowed",
    ),
    "a name in two ways of writing one letter": (
        "name,group\nZo\u00eb,w\nZoe\u0308,w\n",
        "line 3: Zo\u00eb is given twice",
    ),
    "a name twice but for spaces": (
        "name,group\nDe La Cruz,w\n De  La Cruz,w\n",
        "line 3: De La Cruz is given twice",
    ),
    "an empty name": ("name,group\nAnna,w\n ,w\n", "line 3: name is empty"),
    "an empty group": ("name,group\nAnna,\n", "line 2: group is empty"),
    "a line break": ('name,group\n"An\nna",w\n', "line 3: name: the character U+000A is not"),
    "a tab": ("name,group\nAn\tna,w\n", "line 2: name: the character U+0009 is not allowed"),
    "a null": ("name,group\nAn\0na,w\n", "line 2: name: the character U+0000 is not allowed"),
    "an escape": ("name,group\nAn\x1b[2Jna,w\n", "line 2: name: the character U+001B is not"),
    "a line separator": ("name,group\nAn\u2028na,w\n", "line 2: name: the character U+2028 is"),
    "a direction override": ("name,group\nAn\u202ena,w\n", "line 2: name: the character U+202E"),
    "a control in a group": ("name,group\nAnna,w\x07\n", "line 2: group: the character U+0007 is"),
    "a long name": (f"name,group\n{'x' * 101},w\n", "line 2: name: xxxxxxxxxxxxxxxxxxxx... is lon"),
    "a negative count": ("name,group,count\nAnna,w,-1\n", "line 2: count: '-1' is not a number of"),
    "a count in words": ("name,group,count\nAnna,w,many\n", "line 2: count: 'many' is not a numb"),
    "a count left out": ("name,group,count\nAnna,w,\n", "line 2: count: '' is not a number of at"),
    "a count without end": ("name,group,count\nAnna,w,inf\n", "line 2: count: 'inf' is not a num"),
    "a count that is none": ("name,group,count\nAnna,w,nan\n", "line 2: count: 'nan' is not a num"),
    "negative bearers": ("name,group,bearers\nAnna,w,-2\n", "line 2: bearers: '-2' is not a numb"),
}


@pytest.mark.parametrize("case", WRONG_LISTS)
def test_a_wrong_list_gives_one_line(case: str, tmp_path: Path) -> None:
    listed, told = WRONG_LISTS[case]
    path = save(tmp_path, listed)
    with pytest.raises(ConfigError) as raised:
        check_name_stimuli(path, taking())
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"{tmp_path / 'lists/few.csv'}: {told}")


def test_a_list_that_is_not_there_gives_one_line(tmp_path: Path) -> None:
    path = save(tmp_path, names="lists/none.csv")
    with pytest.raises(ConfigError, match=r"lists/none.csv: cannot be read: No such file"):
        check_name_stimuli(path, taking())


def test_a_list_that_is_a_folder_gives_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lists: cannot be read: Is a directory"):
        check_name_stimuli(save(tmp_path, names="lists"), taking())


def test_a_list_that_is_not_utf_8_gives_one_line(tmp_path: Path) -> None:
    path = save(tmp_path)
    (tmp_path / "lists/few.csv").write_bytes("name,group\nNúñez,w\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="few.csv: cannot be read: it is not UTF-8 text$"):
        check_name_stimuli(path, taking())


@given(st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(b"name,group\n".__add__)))
@settings(max_examples=300, deadline=None)
def test_no_list_gives_anything_but_names_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("list") / "list.csv"
    path.write_bytes(content)
    try:
        assert all(each.name and each.group for each in read_name_list(path).names)
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1


# ---------------------------------------------------------------------- wrong files and choices

WRONG_FILES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"prompt": "x"}, "prompt: unknown key"),
    "no name": ({"template": "{format}"}, "template: {name} is missing. Allowed: {format}, {name}"),
    "no format": ({"template": "{name}"}, "template: {format} is missing. Allowed: {format}, {na"),
    "a factor": (
        {"template": "{format} {name} {race}"},
        "template: {race} is no placeholder. Allowed: {format}, {name} and {a}",
    ),
    "open brace": ({"template": "{format} {name"}, "template: expected '}'"),
    "attribute": ({"template": "{format} {name.x}"}, "template: "),
    "conversion": ({"template": "{format} {name!r}"}, "template: braces hold a name"),
    "no formats": ({"formats": {}}, "formats: at least one is needed"),
    "formats alike": ({"formats": {"a": "x", "b": "x "}}, "formats: a and b have the same words"),
    "no list": ({"names": None}, "names: null is not allowed"),
    "reference that is no group": (
        {"reference": "x"},
        "reference: 'x' is no group of {list}. Allowed: w, m",
    ),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_a_wrong_file_gives_one_line(case: str, tmp_path: Path) -> None:
    changes, told = WRONG_FILES[case]
    path = save(tmp_path, **changes)
    with pytest.raises(ConfigError) as raised:
        check_name_stimuli(path, taking())
    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"{path}: {told.replace('{list}', str(tmp_path / 'lists/few.csv'))}")


MORE = f"{FEW}Eva,x,5\nFay,x,0\nGus,y,1\n"
WRONG_CHOICES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown group": (
        {"groups": ["m", "W"]},
        "names.groups: 'W' is not in {list}. Allowed: w, m, x, y",
    ),
    "group twice": ({"groups": ["m", "w", "m"]}, "names.groups: m is given twice; each once"),
    "one group": ({"groups": ["m"]}, "names.groups: 1 group(s) to compare; at least two"),
    "no group": ({"groups": []}, "names.groups: 0 group(s) to compare; at least two"),
    "no reference": (
        {"groups": ["w", "x"]},
        "names.groups: the reference m is not among them (w, x); add it",
    ),
    "too few names": (
        {"groups": ["m", "w"], "per_group": 3},
        "names.per_group: 3 names a group are wanted, but {list} has 2 of m",
    ),
    "one name in a group": (
        {"groups": ["m", "y"]},
        "names.per_group: 2 names a group are wanted, but {list} has 1 of y",
    ),
    "a count of zero": (
        {"groups": ["m", "x"], "match": "frequency"},
        "names.match: frequency needs counts above 0; Fay has 0 in {list}",
    ),
    "nothing similar": (
        {"groups": ["m", "x", "w"], "match": "frequency"},
        "names.match: frequency needs counts above 0",
    ),
}


@pytest.mark.parametrize("case", WRONG_CHOICES)
def test_a_wrong_choice_gives_one_line(case: str, tmp_path: Path) -> None:
    selection, told = WRONG_CHOICES[case]
    path = save(tmp_path, MORE)
    with pytest.raises(ConfigError) as raised:
        check_name_stimuli(path, taking(**selection))
    (line,) = str(raised.value).splitlines()
    assert line.startswith(told.replace("{list}", str(tmp_path / "lists/few.csv")))


def test_too_few_names_are_told_with_those_flagged(tmp_path: Path) -> None:
    path = save(tmp_path, "name,group,flag\na,m,\nb,m,word\nc,m,word\nd,w,\ne,w,\n")
    with pytest.raises(ConfigError, match=r"has 1 of m \(2 flagged ones left out\)$"):
        check_name_stimuli(path, taking())


def test_a_list_of_one_group_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, "name,group\na,m\nb,m\n")
    with pytest.raises(ConfigError, match=r"few.csv: 1 group\(s\) to compare; at least two"):
        check_name_stimuli(path, taking())


def test_matching_needs_counts(tmp_path: Path) -> None:
    path = save(tmp_path, "name,group,bearers\na,m,1\nb,m,2\nc,w,1\nd,w,2\n")
    with pytest.raises(ConfigError, match="frequency needs a column 'count', which .*few.csv lack"):
        check_name_stimuli(path, taking(match="frequency"))


def test_names_that_give_the_same_prompt_are_refused(tmp_path: Path) -> None:
    path = save(
        tmp_path,
        "name,group\nDe Leon,m\nb,m\nLeon,w\nd,w\n",
        formats={"a": "story of", "b": "story of De"},
    )
    with pytest.raises(ConfigError, match="two names get the same prompt: 'Write story of De Leon"):
        check_name_stimuli(path, taking())


def test_an_unknown_format_is_told_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="^formats: 'song' is not in .* Allowed: poem, story"):
        check_name_stimuli(save(tmp_path), taking(formats=["song"]))
