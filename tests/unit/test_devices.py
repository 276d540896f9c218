"""Which devices there are, which of them one gets, and in what order models draw."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_variability.config import ConfigError, Model
from llm_variability.devices.inventory import (
    CPU,
    describe_devices,
    list_devices,
    require_devices,
    show_devices,
)
from llm_variability.devices.placing import (
    Choice,
    Earlier,
    Occupant,
    choose_devices,
    rank_models,
)
from llm_variability.draws.engine import count_devices

UUIDS = ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "MIG-8932f937-d72c-4106-c12f-20bd9faed9f6")

# ------------------------------------------------------------------------------ what there is


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, CPU),
        ({"CUDA_VISIBLE_DEVICES": ""}, CPU),
        ({"CUDA_VISIBLE_DEVICES": " "}, CPU),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, CPU),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, CPU),
        ({"CUDA_VISIBLE_DEVICES": "3"}, ("3",)),
        ({"CUDA_VISIBLE_DEVICES": "2, 0"}, ("2", "0")),
        ({"CUDA_VISIBLE_DEVICES": "2,-1,0"}, ("2",)),
        ({"CUDA_VISIBLE_DEVICES": ",".join(UUIDS)}, UUIDS),
        ({"LLM_VARIABILITY_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0,1"}, ("1",)),
        ({"LLM_VARIABILITY_DEVICES": "left,right"}, ("left", "right")),
    ],
)
def test_devices_are_those_that_the_environment_names(
    environment: dict[str, str], expected: tuple[str, ...], tmp_path: Path
) -> None:
    assert list_devices(environment=environment, device_files=tmp_path) == expected


def test_without_a_word_from_the_environment_they_are_the_gpus_that_exist(tmp_path: Path) -> None:
    # A container that was given the third GPU has its file alone, and CUDA calls that GPU 0.
    for name in ("nvidia2", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia-caps"):
        (tmp_path / name).touch()
    assert list_devices(environment={}, device_files=tmp_path) == ("0", "1")


def test_what_uses_no_gpu_has_the_cpu_unless_told_that_it_is_several(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    visible = {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert list_devices(True, visible, tmp_path) == CPU
    assert list_devices(True, {**visible, "LLM_VARIABILITY_DEVICES": "a,b"}, tmp_path) == ("a", "b")


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("LLM_VARIABILITY_DEVICES", "", "names no devices; give ids with commas between"),
        ("LLM_VARIABILITY_DEVICES", "0,,1", "names no devices; give ids with commas between"),
        ("LLM_VARIABILITY_DEVICES", "0 1", "names no devices; give ids with commas between"),
        ("LLM_VARIABILITY_DEVICES", "-1", "names no devices; give ids with commas between"),
        ("LLM_VARIABILITY_DEVICES", "0,1,0", "names device 0 twice"),
        ("CUDA_VISIBLE_DEVICES", "1,1", "names device 1 twice"),
        ("CUDA_VISIBLE_DEVICES", "1;2", "names no devices; give ids with commas between"),
    ],
)
def test_a_variable_that_makes_no_sense_is_refused_in_one_line(
    name: str, text: str, fault: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        list_devices(environment={name: text})
    assert str(raised.value).startswith(f"{name}: {text!r} {fault}")
    assert "\n" not in str(raised.value)


def test_an_engine_is_shown_its_devices_alone() -> None:
    assert show_devices(["2", "0"]) == {
        "CUDA_VISIBLE_DEVICES": "2,0",
        "LLM_VARIABILITY_DEVICE": "2,0",
    }


def test_an_engine_on_a_cpu_is_not_told_that_it_has_a_gpu() -> None:
    assert show_devices(CPU) == {"LLM_VARIABILITY_DEVICE": "cpu"}
    assert show_devices(["1"], on_cpu=True) == {"LLM_VARIABILITY_DEVICE": "1"}


def test_devices_are_described() -> None:
    assert [describe_devices(each) for each in (CPU, ["0"], ["0", "1"])] == [
        "the CPU",
        "device 0",
        "devices 0, 1",
    ]


def test_a_model_of_several_parts_takes_the_one_cpu() -> None:
    assert require_devices("m", 4, CPU) == 1
    assert require_devices("m", 2, ["0", "1"]) == 2


def test_a_model_with_too_few_devices_is_refused_with_how_many_there_are() -> None:
    with pytest.raises(ConfigError) as raised:
        require_devices("m", 2, ["3"])
    assert str(raised.value) == (
        "models.m.tensor_parallel: its engine takes 2 devices, and there is 1 device (3);"
        " at most 1 is allowed"
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 1),
        ({"tensor_parallel": 4}, 4),
        ({"tensor_parallel": 2, "engine_args": {"pipeline_parallel_size": 2}}, 4),
        ({"engine_args": {"data-parallel-size": 3, "seed": 7}}, 3),
        ({"tensor_parallel": 1, "engine_args": {"tensor_parallel_size": 2}}, 2),
    ],
)
def test_every_way_to_share_a_model_counts(settings: dict[str, object], expected: int) -> None:
    assert count_devices(Model.model_validate({"path": "/weights", **settings})) == expected


# ------------------------------------------------------------------------------ who gets which


def engine(name: str, devices: str, used: float | None = None) -> Occupant:
    """An engine: in use, or unused since `used`."""
    return Occupant(name, tuple(devices), used is not None, used or 0.0)


def test_free_devices_come_in_their_order_and_nothing_is_ended_for_them() -> None:
    occupants = [engine("a", "1", used=5)]
    assert choose_devices(2, "0123", occupants) == Choice(("0", "2"), ())


def test_what_was_unused_longest_goes_first() -> None:
    occupants = [engine("a", "0", used=9), engine("b", "1", used=5), engine("c", "2", used=7)]
    assert choose_devices(1, "012", occupants) == Choice(("1",), ("b",))
    assert choose_devices(2, "012", occupants) == Choice(("1", "2"), ("b", "c"))


def test_as_few_as_will_do_are_ended() -> None:
    occupants = [engine("old", "0", used=1), engine("wide", "12", used=5)]
    assert choose_devices(2, "012", occupants) == Choice(("1", "2"), ("wide",))


def test_a_free_device_counts_towards_what_is_needed() -> None:
    occupants = [engine("a", "0", used=1), engine("b", "1", used=2)]
    assert choose_devices(2, "012", occupants) == Choice(("2", "0"), ("a",))


def test_what_is_in_use_stays() -> None:
    assert choose_devices(1, "01", [engine("a", "0"), engine("b", "1")]) is None
    assert choose_devices(2, "01", [engine("a", "0"), engine("b", "1", used=1)]) is None


def test_only_what_is_on_usable_devices_is_ended() -> None:
    occupants = [engine("a", "0", used=1), engine("b", "1", used=2)]
    assert choose_devices(1, "1", occupants) == Choice(("1",), ("b",))


def test_devices_that_an_earlier_one_of_the_run_may_use_are_left_to_it() -> None:
    earlier = [Earlier(("0", "1"), same_run=True)]
    assert choose_devices(1, "01", [engine("a", "0")], earlier) is None
    assert choose_devices(1, "01", [engine("a", "0", used=1)], earlier) is None
    assert choose_devices(1, "012", [engine("a", "0")], earlier) == Choice(("2",), ())


def test_free_devices_are_left_to_an_earlier_one_of_another_run_but_own_engines_are_not() -> None:
    earlier = [Earlier(("0", "1"), same_run=False)]
    occupants = [engine("own", "0", used=1)]
    assert choose_devices(1, "01", occupants, earlier) == Choice(("0",), ("own",))
    assert choose_devices(2, "01", occupants, earlier) is None


@st.composite
def situations(draw: st.DrawFn) -> tuple[int, str, list[Occupant], list[Earlier]]:
    devices = "01234"[: draw(st.integers(1, 5))]
    owners = draw(st.lists(st.integers(0, 3), min_size=len(devices), max_size=len(devices)))
    occupants = [
        Occupant(
            name=str(owner),
            devices=tuple(d for d, o in zip(devices, owners, strict=True) if o == owner),
            evictable=draw(st.booleans()),
            used=draw(st.floats(0, 100)),
        )
        for owner in sorted(set(owners) - {0})
    ]
    parts = st.lists(st.sampled_from(devices), unique=True, min_size=1)
    earlier = [
        Earlier(tuple(each), draw(st.booleans())) for each in draw(st.lists(parts, max_size=2))
    ]
    usable = "".join(draw(parts))
    return draw(st.integers(1, len(devices))), usable, occupants, earlier


@given(situations())
def test_no_choice_takes_what_is_in_use_or_ends_more_than_it_must(
    situation: tuple[int, str, list[Occupant], list[Earlier]],
) -> None:
    count, usable, occupants, earlier = situation

    def reachable(ended: tuple[Occupant, ...]) -> set[str]:
        """Devices that may be taken once these are ended, by the rules as they are told."""
        found = set()
        for device in usable:
            holders = [each for each in occupants if device in each.devices]
            waited_for = [each.same_run for each in earlier if device in each.devices]
            if not holders and not waited_for:
                found.add(device)
            if holders and holders[0] in ended and not any(waited_for):
                found.add(device)
        return found

    evictable = [each for each in occupants if each.evictable]
    enough = [
        ended
        for number in range(len(evictable) + 1)
        for ended in combinations(evictable, number)
        if len(reachable(ended)) >= count
    ]
    choice = choose_devices(count, usable, occupants, earlier)
    assert (choice is None) == (not enough)
    if choice is not None:
        ended = tuple(each for each in evictable if each.name in choice.evicted)
        assert len(set(choice.devices)) == len(choice.devices) == count
        assert set(choice.devices) <= reachable(ended)
        assert len(choice.evicted) == min(len(each) for each in enough)


# ------------------------------------------------------------------------------ in what order


def test_on_one_device_each_model_has_a_rank_of_its_own() -> None:
    assert rank_models({"a": 1, "b": 2, "c": 1}, 1) == {"a": 0, "b": 1, "c": 2}


def test_models_that_fit_side_by_side_share_a_rank() -> None:
    assert rank_models(dict.fromkeys("abcde", 1), 2) == {"a": 0, "b": 0, "c": 1, "d": 1, "e": 2}
    assert rank_models({"a": 1, "b": 2, "c": 1, "d": 1}, 2) == {"a": 0, "b": 1, "c": 2, "d": 2}
    assert rank_models({"a": 2, "b": 1, "c": 1, "d": 4}, 4) == {"a": 0, "b": 0, "c": 0, "d": 1}


def test_a_model_that_takes_more_than_there_is_has_it_all() -> None:
    assert rank_models({"a": 1, "b": 8, "c": 1}, 2) == {"a": 0, "b": 1, "c": 2}


def test_a_model_that_runs_elsewhere_takes_no_rank_of_its_own() -> None:
    assert rank_models({"a": 1, "far": 0, "b": 1}, 1) == {"a": 0, "far": 0, "b": 1}
    assert rank_models({"far": 0, "farther": 0, "a": 1}, 1) == {"far": 0, "farther": 0, "a": 0}


@given(st.lists(st.integers(0, 6), max_size=12), st.integers(1, 5))
def test_ranks_rise_one_by_one_and_hold_no_more_than_the_devices(
    widths: list[int], devices: int
) -> None:
    named = {f"m{number}": width for number, width in enumerate(widths)}
    ranks = rank_models(named, devices)
    assert list(ranks) == list(named)
    order = list(ranks.values())
    assert all(after - before in (0, 1) for before, after in zip(order, order[1:], strict=False))
    for rank in set(order):
        together = [min(named[m], devices) for m, r in ranks.items() if r == rank]
        assert sum(together) <= devices
