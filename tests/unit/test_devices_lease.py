"""The lease of several devices: who runs beside whom, who waits, and who makes room."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator

import pytest

from lease_place import Place, alive, made_place, wait_for
from llm_variability.config import ConfigError, Encoder
from llm_variability.devices.lease import lease_device, lease_engine
from llm_variability.similarity.embedding import SentenceEncoder


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A place with two devices."""
    with made_place(monkeypatch) as made:
        monkeypatch.setenv("LLM_VARIABILITY_DEVICES", "0,1")
        yield made


def loaded(place: Place) -> list[str]:
    """Devices of the engines that live, in the order of their loads."""
    lines = [line.split() for line in place.lines("events") if line.startswith("load")]
    return [devices for _, pid, devices in lines if alive(int(pid))]


def end_run(run: subprocess.Popen[str]) -> None:
    assert run.stdin is not None
    run.stdin.close()
    run.wait()


# --------------------------------------------------------------------------------- side by side


def test_two_models_run_side_by_side_each_on_its_own_device(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "a", "m")
    place.start_job(run, "b", "other")
    place.wait_got("a", "b")
    assert sorted(place.devices("a") + place.devices("b")) == ["0", "1"]
    assert sorted(loaded(place)) == ["0", "1"]


def test_jobs_of_one_model_share_its_engine_where_a_device_is_free(place: Place) -> None:
    run = place.start_run()
    for name in ("a", "b", "c"):
        place.start_job(run, name, "m")
    place.wait_got("a", "b", "c")
    assert loaded(place) == place.devices("a") == place.devices("b") == place.devices("c")


def test_a_model_that_loads_holds_no_other_up(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "slow", "m", 1, "--deaf")
    wait_for(lambda: place.loads, "the load to begin")
    place.start_job(run, "b", "other")
    place.wait_got("b")
    place.start_job(run, "c", "other")
    place.wait_got("c")
    assert "slow got" not in place.jobs
    assert len(loaded(place)) == 2


def test_a_job_waits_for_the_one_that_loads_its_model(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "a", "m", 1, "--deaf")
    wait_for(lambda: place.loads, "the load to begin")
    place.start_job(run, "b", "m")
    place.wait_told("b", "waiting for the job that loads m")
    assert len(place.loads) == 1


def test_an_encoder_has_a_device_beside_an_engine(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "a", "m")
    place.wait_got("a")
    place.start_job(run, "encoder", "device")
    place.wait_got("encoder")
    assert sorted(place.devices("a") + place.devices("encoder")) == ["0", "1"]
    assert loaded(place) == place.devices("a")


def test_two_encoders_run_side_by_side_and_a_third_waits(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "e1", "device")
    place.start_job(run, "e2", "device")
    place.wait_got("e1", "e2")
    place.start_job(run, "e3", "device")
    place.wait_told("e3", "waiting for the encoder")
    place.end_job("e2")
    place.wait_got("e3")
    assert place.devices("e3") == place.devices("e2") != place.devices("e1")


def test_an_encoder_on_a_gpu_sees_the_device_it_leased_and_no_other(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_VARIABILITY_DEVICE", "")  # so that it is put back
    place.use("m")
    with SentenceEncoder("/nowhere", Encoder(path="/nowhere", device="cuda")).claim_device():
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
        assert loaded(place) == ["0"]


def test_an_encoder_on_the_cpu_leases_nothing(place: Place) -> None:
    with SentenceEncoder("/nowhere", Encoder(path="/nowhere", device="cpu")).claim_device():
        assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
        assert not list(place.lease.iterdir())


# --------------------------------------------------------------------------------- making room


def test_an_unused_engine_stays_while_another_device_is_free(place: Place) -> None:
    first = place.use("m")
    second = place.use("other")
    with lease_engine(place.request("m")):
        assert place.loads == [first, second]
    assert alive(first)
    assert alive(second)


def test_the_engine_that_was_unused_longest_makes_room(place: Place) -> None:
    first, second = place.use("m"), place.use("other")
    place.use("m")
    third = place.use("third")
    assert [alive(pid) for pid in (first, second, third)] == [True, False, True]


def test_an_encoder_takes_the_device_of_the_engine_that_was_unused_longest(place: Place) -> None:
    first, second = place.use("m"), place.use("other")
    with lease_device() as device:
        assert device == "0"
        assert [alive(pid) for pid in (first, second)] == [False, True]


def test_an_encoder_ends_no_engine_while_a_device_is_free(place: Place) -> None:
    first = place.use("m")
    with lease_device() as device:
        assert device == "1"
        assert alive(first)


def test_a_wide_model_takes_both_devices_and_waits_for_both(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "a", "m")
    place.start_job(run, "b", "other")
    place.wait_got("a", "b")
    place.start_job(run, "wide", "large", 2)
    place.wait_told("wide", "waiting for the last job that uses ")
    place.end_job("a")
    time.sleep(1)
    assert "wide got" not in place.jobs
    place.end_job("b")
    place.wait_got("wide")
    assert place.devices("wide") == ["0", "1"]
    assert loaded(place) == ["0,1"]


def test_a_wide_model_that_waits_is_not_passed_by_those_who_came_later(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "a", "m")
    place.wait_got("a")
    place.start_job(run, "wide", "large", 2)
    place.wait_told("wide", "waiting for the last job that uses m")
    place.start_job(run, "late", "other")
    place.wait_told("late", "waiting for the last job that uses m")
    place.start_job(run, "joins", "m")
    place.wait_got("joins")
    place.end_job("a")
    place.end_job("joins")
    place.wait_got("wide")
    assert "late got" not in place.jobs
    place.end_job("wide")
    place.wait_got("late")


def test_one_who_died_in_the_queue_holds_nobody_up(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "a", "m")
    place.wait_got("a")
    place.start_job(run, "wide", "large", 2)
    place.wait_told("wide", "waiting for the last job that uses m")
    place.kill_job(run, "wide")
    place.start_job(run, "late", "other")
    place.wait_got("late")
    assert place.devices("late") != place.devices("a")


def test_a_wide_model_takes_devices_that_are_no_neighbours(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_VARIABILITY_DEVICES", "0,1,2,3")
    run = place.start_run()
    for name in ("a", "b", "c", "d"):
        place.start_job(run, name, f"model of {name}")
        place.wait_got(name)
    place.end_job("b")
    place.end_job("d")
    place.start_job(run, "wide", "large", 2)
    place.wait_got("wide")
    assert place.devices("wide") == ["1", "3"]


def test_a_model_that_wants_more_devices_than_there_are_is_refused_in_one_line(
    place: Place,
) -> None:
    with (
        pytest.raises(ConfigError) as raised,
        lease_engine(place.request("large", device_count=4)),
    ):
        pass
    assert str(raised.value) == (
        "models.large.tensor_parallel: its engine takes 4 devices, and there are 2 devices (0, 1);"
        " at most 2 is allowed"
    )
    assert place.loads == []


# ------------------------------------------------------------------------------------ other runs


def test_another_run_goes_on_beside_the_first_where_a_device_is_free(place: Place) -> None:
    first, second = place.start_run(), place.start_run()
    place.start_job(first, "a", "m")
    place.wait_got("a")
    place.end_job("a")
    place.start_job(second, "b", "m")
    place.wait_got("b")
    assert place.devices("b") != place.devices("a")
    assert len(place.loads) == len(loaded(place)) == 2


def test_another_run_makes_room_with_its_own_engines_and_never_with_the_first_s(
    place: Place,
) -> None:
    first, second = place.start_run(), place.start_run()
    place.start_job(first, "a", "m")
    place.wait_got("a")
    place.end_job("a")
    for name in ("b", "c"):
        place.start_job(second, name, f"model of {name}")
        place.wait_got(name)
        place.end_job(name)
    assert place.devices("b") == place.devices("c") != place.devices("a")
    assert [alive(pid) for pid in place.loads] == [True, False, True]


def test_a_run_that_wants_all_devices_waits_for_another_run_and_says_so(place: Place) -> None:
    first, second = place.start_run(), place.start_run()
    place.start_job(first, "a", "m")
    place.wait_got("a")
    place.end_job("a")
    place.start_job(second, "wide", "large", 2)
    (device,) = place.devices("a")
    told = f", whose engine of m is on device {device}"
    place.wait_told("wide", told)
    place.wait_told("wide", f"waiting for run {first.pid} in ")
    end_run(first)
    place.wait_got("wide")


def test_a_run_is_not_held_up_by_another_that_waits_for_its_engine(place: Place) -> None:
    first, second = place.start_run(), place.start_run()
    for name in ("a", "b"):
        place.start_job(first, name, f"model of {name}")
        place.wait_got(name)
    place.start_job(second, "waits", "m")
    place.wait_told("waits", f"waiting for run {first.pid} in ")
    place.end_job("a")
    place.start_job(first, "c", "third")
    place.wait_got("c")
    assert place.devices("c") == place.devices("a")
    assert "waits got" not in place.jobs


def test_a_device_that_another_run_waited_for_is_not_taken_by_one_that_came_later(
    place: Place,
) -> None:
    first, second = place.start_run(), place.start_run()
    for name in ("e1", "e2"):
        place.start_job(first, name, "device")
    place.wait_got("e1", "e2")
    place.start_job(second, "b", "m")
    place.wait_told("b", "whose encoder is on device ")
    place.start_job(first, "e3", "device")
    place.wait_told("e3", "waiting for the encoder")
    place.end_job("e1")
    place.wait_got("b")
    assert "e3 got" not in place.jobs


# ------------------------------------------------------------------------------------- crashes


def test_an_encoder_that_is_killed_frees_its_device(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "encoder", "device")
    place.wait_got("encoder")
    place.kill_job(run, "encoder")
    place.start_job(run, "wide", "large", 2)
    place.wait_got("wide")


def test_a_job_that_is_killed_while_it_loads_frees_its_devices(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "a", "m", 2, "--deaf", "--children")
    wait_for(lambda: place.loads, "the load to begin")
    place.kill_job(run, "a")
    place.start_job(run, "b", "other")
    place.start_job(run, "c", "m")
    place.wait_got("b", "c")
    assert sorted(loaded(place)) == ["0", "1"]
    assert len(place.engine_processes) == 2


def test_an_engine_that_does_not_come_up_frees_its_devices(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "a", "m", 2, "--exit", "no")
    place.start_job(run, "b", "other", 2)
    place.wait_got("b")
    assert loaded(place) == ["0,1"]


def test_places_are_used_again(place: Place) -> None:
    for number in range(5):
        place.use(f"model {number}")
    folders = [each.name for each in place.lease.iterdir() if each.is_dir()]
    assert len([name for name in folders if name != "queue"]) <= 3


# ------------------------------------------------------------------------------- all at once


@pytest.mark.parametrize("seed", [1, 2])
def test_no_device_is_ever_given_twice(
    seed: int, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 jobs of two runs, of which 3 are killed; whoever is not alone on a device says so."""
    monkeypatch.setenv("LLM_VARIABILITY_DEVICES", "0,1,2")
    # Two runs may each keep an engine that nobody uses and wait for the other's.
    monkeypatch.setenv("LLM_VARIABILITY_IDLE_S", "1")
    rng = random.Random(seed)
    widths = {"m1": 1, "m2": 1, "m3": 2, "m4": 3, "device": 1}
    runs = [place.start_run(), place.start_run()]
    of_run = {f"job{number}": rng.choice(runs) for number in range(20)}
    to_kill = rng.sample(list(of_run), 3)
    for name, run in of_run.items():
        model = rng.choice(list(widths))
        place.start_job(run, name, model, widths[model])
    for run in runs:
        assert run.stdin is not None
        run.stdin.close()

    def all_ended() -> bool:
        jobs = set(place.jobs)
        for name, run in list(of_run.items()):
            if f"{name} done" in jobs:
                del of_run[name]
            elif f"{name} got" in jobs and rng.random() < 0.2:
                if name in to_kill:
                    place.kill_job(run, name)
                    del of_run[name]
                else:
                    (place.folder / f"{name}.go").touch()
        return not of_run

    wait_for(all_ended, "all jobs to end", 120)
    assert [line for line in place.lines("events") if line.startswith("clash")] == []
    got = [line.split()[2] for line in place.lines("jobs") if " got " in line]
    assert len(got) == 20
    assert {len(devices.split(",")) for devices in got} == {1, 2, 3}
