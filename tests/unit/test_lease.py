"""The lease: who shares an engine, who waits, and that no engine outlives its reason."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from lease_place import Place, alive, made_place, wait_for
from llm_variability.devices.lease import EngineFailed, lease_engine, ping
from llm_variability.devices.places import lease_folder
from llm_variability.devices.processes import ProcessId, find_owner


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with made_place(monkeypatch) as made:
        yield made


# --------------------------------------------------------------------------- sharing and waiting


def test_an_engine_is_loaded_once_for_jobs_that_follow_each_other(place: Place) -> None:
    assert place.use() == place.use()
    assert len(place.loads) == 1


def test_jobs_of_one_run_share_an_engine_at_the_same_time(place: Place) -> None:
    run = place.start_run()
    for name in ("a", "b"):
        place.start_job(run, name, "m")
    wait_for(lambda: {"a got", "b got"} <= set(place.jobs), "both jobs to hold the lease")
    assert len(place.loads) == 1


def test_another_model_waits_for_the_last_user_and_then_takes_over(place: Place) -> None:
    run = place.start_run()
    for name in ("a", "b"):
        place.start_job(run, name, "m")
    wait_for(lambda: {"a got", "b got"} <= set(place.jobs), "both jobs to hold the lease")
    place.start_job(run, "c", "other")
    log = place.folder / "c.log"
    told = "waiting for the last job that uses m"
    wait_for(lambda: log.exists() and told in log.read_text(), "the other job to say so")
    place.end_job("a")
    time.sleep(1)
    assert (len(place.loads), "c got" in place.jobs) == (1, False)
    place.end_job("b")
    wait_for(lambda: "c got" in place.jobs, "the other model's job")
    assert [alive(pid) for pid in place.loads] == [False, True]


def test_a_job_joins_the_engine_it_wants_past_one_that_waits_to_change_it(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "a", "m")
    wait_for(lambda: "a got" in place.jobs, "the engine's user")
    place.start_job(run, "b", "other")
    log = place.folder / "b.log"
    wait_for(lambda: log.exists() and "waiting for" in log.read_text(), "the other model's job")
    place.start_job(run, "c", "m")
    wait_for(lambda: "c got" in place.jobs, "the job that wants the engine that is there")
    assert (len(place.loads), "b got" in place.jobs) == (1, False)


def test_those_who_wait_to_change_the_engine_do_so_in_the_order_they_came(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "a", "m")
    wait_for(lambda: "a got" in place.jobs, "the engine's user")
    for name in ("b", "c", "d"):
        place.start_job(run, name, f"model of {name}")
        log = place.folder / f"{name}.log"
        wait_for(lambda log=log: log.exists() and "waiting" in log.read_text(), f"{name} to wait")
    for name, following in (("a", "b"), ("b", "c"), ("c", "d")):
        place.end_job(name)
        wait_for(lambda name=following: f"{name} got" in place.jobs, f"{following} to be next")
    assert [line for line in place.jobs if line.endswith("got")] == [
        "a got",
        "b got",
        "c got",
        "d got",
    ]


def test_an_encoder_waits_for_the_engines_users_and_ends_it(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "a", "m")
    wait_for(lambda: "a got" in place.jobs, "the engine's user")
    place.start_job(run, "encoder", "device")
    time.sleep(1)
    assert "encoder got" not in place.jobs
    place.end_job("a")
    wait_for(lambda: "encoder got" in place.jobs, "the encoder to have the device")
    assert [alive(pid) for pid in place.loads] == [False]


def test_no_engine_is_loaded_while_an_encoder_has_the_device(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "encoder", "device")
    wait_for(lambda: "encoder got" in place.jobs, "the encoder to have the device")
    place.start_job(run, "a", "m")
    time.sleep(1)
    assert place.loads == []
    place.end_job("encoder")
    wait_for(lambda: "a got" in place.jobs, "the engine's user")


def test_a_job_killed_while_it_holds_the_lease_holds_nobody_up(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "a", "m")
    wait_for(lambda: "a got" in place.jobs, "the job")
    place.kill_job(run, "a")
    place.start_job(run, "b", "other")
    wait_for(lambda: "b got" in place.jobs, "the other job")
    assert "a done" not in place.jobs


def test_the_engine_of_another_living_run_makes_a_run_wait_until_that_run_ends(
    place: Place,
) -> None:
    first, second = place.start_run(), place.start_run()
    place.start_job(first, "a", "m")
    wait_for(lambda: "a got" in place.jobs, "the first run's job")
    place.end_job("a")
    place.start_job(second, "b", "m")
    log = place.folder / "b.log"
    told = f"waiting for run {first.pid} in "
    wait_for(lambda: log.exists() and told in log.read_text(), "the second run to say so")
    time.sleep(1)
    assert "b got" not in place.jobs
    assert first.stdin is not None
    first.stdin.close()
    wait_for(lambda: "b got" in place.jobs, "the second run's job")
    assert len(place.loads) == 2


def test_another_model_ends_the_engine_before_it_loads(place: Place) -> None:
    first = place.use("m")
    place.use("other")
    assert (alive(first), len(place.loads)) == (False, 2)


# --------------------------------------------------------------------------- engines that end


def test_an_engine_ends_when_its_run_is_killed(place: Place) -> None:
    run = place.start_run()
    place.start_job(run, "a", "m")
    wait_for(lambda: "a got" in place.jobs, "the job")
    keeper = place.keeper()
    run.send_signal(signal.SIGKILL)
    run.wait()
    wait_for(lambda: not place.engine_processes, "the engine to end")
    wait_for(lambda: not alive(keeper), "its keeper to end")
    (place.folder / "a.go").touch()


def test_an_engine_that_nobody_uses_ends(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_VARIABILITY_IDLE_S", "0.5")
    place.use()
    wait_for(lambda: not place.engine_processes, "the engine to end")
    wait_for(lambda: "no job used it for 0.5 s" in (place.folder / "engine.log").read_text(), "why")


def test_an_engine_in_use_is_not_idle(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_VARIABILITY_IDLE_S", "0.5")
    with lease_engine(place.request()) as engine:
        time.sleep(2.5)
        assert ping(engine.socket)


def test_an_engine_ends_on_sigterm_to_its_keeper(place: Place) -> None:
    place.use()
    os.kill(place.keeper(), signal.SIGTERM)
    wait_for(lambda: not place.engine_processes, "the engine to end")


def test_a_stubborn_engine_ends_whole_with_children_that_left_it(place: Place) -> None:
    place.use("m", "--stubborn", "--children")
    assert len(place.engine_processes) == 4
    os.kill(place.keeper(), signal.SIGTERM)
    wait_for(lambda: not place.engine_processes, "every process of the engine to end", 25)


def test_an_engine_whose_server_was_killed_is_loaded_again(place: Place) -> None:
    os.kill(place.use(), signal.SIGKILL)
    assert alive(place.use())
    assert len(place.loads) == 2


def test_a_server_dies_with_its_keeper(place: Place) -> None:
    server = place.use()
    os.kill(place.keeper(), signal.SIGKILL)
    wait_for(lambda: not alive(server), "the server to die")


def test_nothing_is_left_of_an_engine_whose_keeper_was_killed(place: Place) -> None:
    place.use("m", "--children")
    assert len(place.engine_processes) == 4
    os.kill(place.keeper(), signal.SIGKILL)
    wait_for(lambda: not place.engine_processes, "every process of the engine to end")


def test_nothing_is_left_of_an_engine_whose_keeper_was_killed_once_another_is_loaded(
    place: Place,
) -> None:
    place.use("m", "--children")
    before, keeper = place.engine_processes, place.keeper()
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: not alive(keeper), "the keeper to die")
    place.use("m")
    assert [pid for pid in before if alive(pid)] == []


def test_children_of_a_killed_server_end_with_its_keeper(place: Place) -> None:
    server = place.use("m", "--children")
    os.kill(server, signal.SIGKILL)
    wait_for(lambda: not place.engine_processes, "the children to end")


# ----------------------------------------------------------------------- left-overs, not trusted


def leave_behind(state: dict[str, Any] | str) -> None:
    """Leave a socket that nobody serves and a state file."""
    folder = lease_folder() / "0"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "engine.sock"))
    text = state if isinstance(state, str) else json.dumps(state)
    (folder / "state.json").write_text(text)


def state_of(keeper: tuple[int, float], owner: ProcessId) -> dict[str, Any]:
    return {
        "keeper": {"pid": keeper[0], "created": keeper[1]},
        "owner": {"pid": owner.pid, "created": owner.created},
        "identity": "m",
        "model": "m",
        "folder": "/",
        "devices": ["cpu"],
        "ready": True,
    }


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_socket_and_state_of_a_dead_engine_are_not_trusted(place: Place) -> None:
    leave_behind(state_of((dead_pid(), 1.0), find_owner()))
    assert alive(place.use())


@pytest.mark.parametrize("text", ["", "{", "\0\0"])
def test_a_state_file_that_was_cut_off_is_not_trusted(text: str, place: Place) -> None:
    leave_behind(text)
    assert alive(place.use())


def test_a_process_that_got_a_dead_keeper_s_number_is_left_alone(place: Place) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        leave_behind(state_of((bystander.pid, 1.0), find_owner()))
        place.use()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_the_engine_of_a_dead_run_is_ended_and_makes_nobody_wait(place: Place) -> None:
    keeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    created = psutil.Process(keeper.pid).create_time()
    leave_behind(state_of((keeper.pid, created), ProcessId(dead_pid(), 1.0)))
    assert alive(place.use())
    assert not alive(keeper.pid)
    keeper.wait()


@pytest.mark.parametrize("mode", [0o777, 0o750])
def test_a_lease_folder_that_others_can_enter_is_refused(mode: int, place: Place) -> None:
    lease_folder().chmod(mode)
    with pytest.raises(EngineFailed, match="is not this user's alone"):
        lease_folder()


def test_a_link_in_place_of_the_lease_folder_is_refused(place: Place) -> None:
    folder = lease_folder()
    folder.rename(place.folder / "elsewhere")
    folder.symlink_to(place.folder / "elsewhere")
    with pytest.raises(EngineFailed, match="is not this user's alone"):
        lease_folder()


def test_each_scheduler_job_has_its_own_lease(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {lease_folder()}
    for job in ("7", "8"):
        monkeypatch.setenv("SLURM_JOB_ID", job)
        folders.add(lease_folder())
    assert len(folders) == 3


def test_a_long_temporary_folder_still_gives_a_path_that_fits_a_socket(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place.folder / ("long" * 30)))
    monkeypatch.setenv("SLURM_JOB_ID", "a-test-of-long-paths")  # a lease of its own
    folder = lease_folder()
    folder.rmdir()
    assert len(str(folder / "99/engine.sock")) <= 107


# -------------------------------------------------------------------- engines that do not come up


def test_an_engine_that_ends_at_once_gives_one_line_with_its_last_words(place: Place) -> None:
    with pytest.raises(EngineFailed) as raised:
        place.use("m", "--exit", "ValueError: no such quantization")
    text = str(raised.value)
    assert text.startswith("the engine of m did not start: ")
    assert "ValueError: no such quantization" in text
    assert "\n" not in text


def test_the_last_words_are_not_those_of_an_earlier_load(place: Place) -> None:
    (place.folder / "engine.log").write_text("RuntimeError: of last week\n")
    with pytest.raises(EngineFailed) as raised:
        place.use("m", "--exit", "killed")
    assert "last week" not in str(raised.value)


def test_an_engine_that_never_answers_ends_at_its_deadline_in_one_line(place: Place) -> None:
    begun = time.monotonic()
    with pytest.raises(EngineFailed) as raised:
        place.use("m", "--deaf", load_timeout_s=2)
    assert str(raised.value) == (
        "the engine of m did not load within 2 s (load_timeout_s);"
        f" its log is {place.folder / 'engine.log'}"
    )
    assert 2 <= time.monotonic() - begun < 15


def test_nothing_is_left_of_an_engine_that_did_not_come_up(place: Place) -> None:
    with pytest.raises(EngineFailed):
        place.use("m", "--deaf", load_timeout_s=2)
    assert len(place.loads) == 1
    assert place.engine_processes == []


def test_a_job_after_one_whose_engine_failed_gets_its_own(place: Place) -> None:
    with pytest.raises(EngineFailed):
        place.use("m", "--exit", "no")
    assert alive(place.use("m"))


# ---------------------------------------------------------------------------------- whose run


def test_a_job_belongs_to_the_outermost_snakemake(place: Place) -> None:
    code = (
        "from llm_variability.devices.processes import find_owner; import sys;"
        "open(sys.argv[1], 'w').write(str(find_owner().pid))"
    )
    inner = place.folder / "inner"
    inner.mkdir()
    (inner / "snakemake").write_text("import subprocess, sys; subprocess.run(sys.argv[1:])")
    run = place.start_run()
    told = place.folder / "owner"
    words = [sys.executable, str(inner / "snakemake"), sys.executable, "-c", code, str(told)]
    assert run.stdin is not None
    run.stdin.write("\t".join(words) + "\n")
    run.stdin.close()
    run.wait()
    assert told.read_text() == str(run.pid)


def test_a_process_is_told_from_a_later_one_of_the_same_number() -> None:
    here = psutil.Process()
    assert ProcessId(here.pid, here.create_time()).alive
    assert not ProcessId(here.pid, here.create_time() - 60).alive


def test_a_process_that_ended_and_was_not_waited_for_is_not_alive() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)
    name = ProcessId.of(psutil.Process(process.pid))
    assert process.stdin is not None
    process.stdin.close()
    wait_for(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE, "its end")
    assert not name.alive
    process.wait()
