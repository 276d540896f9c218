"""Who is at work in a results folder, and what failed there, told by files alone."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from snakemake.logging import DefaultFormatter

from llm_variability.status.engines import read_engine
from llm_variability.status.failures import find_log, read_last_line, read_log
from llm_variability.status.runs import LOCKS, find_run, holds_lock

needs_list_of_locks = pytest.mark.skipif(not LOCKS.exists(), reason="the kernel lists no locks")

HOLD = (
    "import sys; from llm_variability.preflight import RunLock; RunLock(sys.argv[1]).take();"
    " print('held', flush=True); sys.stdin.read()"
)


def hold(results: Path) -> subprocess.Popen[str]:
    """Start a process that holds the results folder as a run does."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(results)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "workflow")},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_folder_that_no_run_took_has_none(tmp_path: Path) -> None:
    assert find_run(tmp_path) is None


@pytest.mark.parametrize("locks", [LOCKS, Path("/no/such/list")], ids=["list", "no list"])
def test_a_run_is_at_work_until_its_process_ends_however_that_is(
    tmp_path: Path, locks: Path
) -> None:
    process = hold(tmp_path)
    try:
        run = find_run(tmp_path, locks)
        assert run is not None
        assert (run.pid, run.host, run.state) == (process.pid, os.uname().nodename, "at work")
        assert abs(run.began - time.time()) < 60
    finally:
        process.kill()
        process.wait()
    run = find_run(tmp_path, locks)
    assert run is not None
    assert (run.pid, run.state) == (process.pid, "gone")


def test_looking_takes_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".run.lock").write_text(f"run 1 on {os.uname().nodename}")
    before = (tmp_path / ".run.lock").stat()

    def refuse(*arguments: object) -> None:
        raise AssertionError("a lock was tried")

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(fcntl, "lockf", refuse)
    run = find_run(tmp_path)
    assert run is not None
    assert run.state == "gone"
    assert (tmp_path / ".run.lock").stat().st_mtime_ns == before.st_mtime_ns


def test_of_another_machine_only_the_lock_file_is_known(tmp_path: Path) -> None:
    (tmp_path / ".run.lock").write_text("run 123 on some-other-node")
    run = find_run(tmp_path)
    assert run is not None
    assert (run.pid, run.host, run.state) == (123, "some-other-node", "elsewhere")


def test_a_lock_file_that_is_being_written_names_nobody(tmp_path: Path) -> None:
    (tmp_path / ".run.lock").write_text("")
    run = find_run(tmp_path)
    assert run is not None
    assert (run.pid, run.host, run.state) == (None, None, "gone")


def test_only_a_held_file_lock_on_that_very_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    status = path.stat()
    here = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    inode = status.st_ino
    assert holds_lock(f"1: FLOCK  ADVISORY  WRITE 5 {here}:{inode} 0 EOF", status, 99)
    assert holds_lock(f"1: FLOCK  ADVISORY  WRITE 99 ff:ff:{inode} 0 EOF", status, 99)
    for other in (
        "",
        f"1: -> FLOCK  ADVISORY  WRITE 99 {here}:{inode} 0 EOF",  # waits for it
        f"1: POSIX  ADVISORY  WRITE 99 {here}:{inode} 0 EOF",
        f"1: FLOCK  ADVISORY  WRITE 99 {here}:{inode + 1} 0 EOF",
        f"1: FLOCK  ADVISORY  WRITE 5 ff:ff:{inode} 0 EOF",
    ):
        assert not holds_lock(other, status, 99)


BEGIN = """\
Building DAG of jobs...
[Mon Nov 30 07:00:10 2026]
rule generate:
    input: results/stimuli/labels.parquet
    output: results/draws/labels/first/T0.parquet
    log: results/logs/draws/labels/first/T0.log
    jobid: 8
    benchmark: results/benchmarks/draws/labels/first/T0.tsv
    reason: Missing output files: results/draws/labels/first/T0.parquet
    wildcards: study=labels, model=first, setting=T0
    resources: tmpdir=/tmp
"""
ERROR = """\
RuleException:
CalledProcessError in file "/some/workflow/rules/draws.smk", line 41:
Command 'set -euo pipefail;  python -m llm_variability.draws' returned non-zero exit status 1.
[Mon Nov 30 07:01:10 2026]
Error in rule generate:
    message: None
    jobid: 8
    input: results/stimuli/labels.parquet
    output: results/draws/labels/first/T0.parquet
    log: results/logs/draws/labels/first/T0.log (check log file(s) for error details)
    shell:
        python -m llm_variability.draws
        (command exited with non-zero exit code)
"""
AGAIN = "Trying to restart job 8.\n"
FINISHED = (
    "[Mon Nov 30 07:02:10 2026]\nFinished jobid: 8 (Rule: generate)\n7 of 9 steps (78%) done\n"
)
END = "Complete log(s): /x/.snakemake/log/2026-11-30T070000.000001.snakemake.log\n"
SLURM_LOG = ".snakemake/slurm_logs/group_abc/17.log"


def describe_job(number: int, setting: str, message: str | None = None) -> dict[str, Any]:
    """What Snakemake hands to its formatter of a job that failed."""
    return {
        "msg": "Error in rule generate",
        "rule_name": "generate",
        "rule_msg": message,
        "jobid": number,
        "input": [],
        "output": [f"results/draws/labels/first/{setting}.parquet"],
        "log": [f"results/logs/draws/labels/first/{setting}.log"],
        "conda_env": None,
        "shellcmd": "python",
        "aux": {"external_jobid": "17"},
        "indent": False,
    }


def write_group_error() -> str:
    """Write the failure of a group of two jobs as Snakemake itself does."""
    formatter = DefaultFormatter()
    jobs = [describe_job(8, "T0"), describe_job(9, "T1.0-P1.0")]
    group = {"msg": "Error in group abc", "aux_logs": [SLURM_LOG], "job_error_info": jobs}
    members = [formatter.format_job_error({**job, "indent": True}) for job in jobs]
    return "\n".join([formatter.format_group_error(group), *members, ""])


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / ".snakemake/log").mkdir(parents=True)
    log = tmp_path / "results/logs/draws/labels/first/T0.log"
    log.parent.mkdir(parents=True)
    log.write_text("07:00:11 labels first T0: 3 of 9 draws\n07:01:09 it went wrong\n\n")
    return tmp_path


def write_log(work: Path, text: str, name: str = "2026-11-30T070000.000001") -> Path:
    path = work / f".snakemake/log/{name}.snakemake.log"
    path.write_text(text)
    return path


def test_a_failed_job_is_told_with_the_last_line_of_its_log(work: Path) -> None:
    log = read_log(write_log(work, BEGIN + ERROR + END))
    (failure,) = log.failures
    assert (failure.rule, failure.jobs) == ("generate", 1)
    assert failure.wildcards == "study=labels, model=first, setting=T0"
    assert failure.log == "results/logs/draws/labels/first/T0.log"
    assert failure.told == "07:01:09 it went wrong"
    assert (failure.message, failure.is_tried_again) == (None, False)
    assert (log.outcome, log.recovered, log.steps) == ("failed", 0, None)
    assert log.began == time.mktime((2026, 11, 30, 7, 0, 0, 0, 0, -1)) + 1e-6


def test_a_job_that_was_done_when_tried_again_has_not_failed(work: Path) -> None:
    log = read_log(write_log(work, BEGIN + ERROR + AGAIN + FINISHED))
    assert (log.failures, log.recovered) == ((), 1)
    assert (log.outcome, log.steps_done, log.steps) == ("under way", 7, 9)


def test_a_job_that_is_being_tried_again_is_told_so_until_it_fails_for_good(work: Path) -> None:
    first = read_log(write_log(work, BEGIN + ERROR + AGAIN + BEGIN))
    assert [failure.is_tried_again for failure in first.failures] == [True]
    second = read_log(write_log(work, BEGIN + ERROR + AGAIN + BEGIN + ERROR))
    assert [failure.is_tried_again for failure in second.failures] == [False]


def test_a_run_that_did_all_its_jobs_is_done(work: Path) -> None:
    log = read_log(write_log(work, BEGIN + FINISHED.replace("7 of 9", "9 of 9") + END))
    assert (log.outcome, log.failures) == ("done", ())


def test_a_job_of_a_cluster_that_failed_has_the_cluster_s_word(work: Path) -> None:
    message = "SLURM-job '17' failed, SLURM status is: 'TIMEOUT'."
    text = DefaultFormatter().format_job_error(describe_job(8, "T0", message))
    (failure,) = read_log(write_log(work, f"{BEGIN}{text}\n")).failures
    assert (failure.message, failure.told) == (message, "07:01:09 it went wrong")


def test_a_group_that_failed_is_one_failure(work: Path) -> None:
    cancelled = "slurmstepd: error: *** JOB 17 ON n1 CANCELLED AT 2026-12-01T00:31:16 ***"
    log = work / SLURM_LOG
    log.parent.mkdir(parents=True)
    log.write_text(f"Building DAG of jobs...\n{cancelled}\nShutting down\n")
    (failure,) = read_log(write_log(work, BEGIN + write_group_error())).failures
    assert (failure.rule, failure.jobs, failure.message) == ("generate", 2, cancelled)
    # Of its jobs' logs, the one written last says most.
    assert failure.log == "results/logs/draws/labels/first/T0.log"
    assert failure.told == "07:01:09 it went wrong"


def test_a_group_all_of_whose_jobs_were_done_later_has_not_failed(work: Path) -> None:
    ninth = "Finished jobid: 9 (Rule: generate)\n"
    assert len(read_log(write_log(work, BEGIN + write_group_error() + FINISHED)).failures) == 1
    assert read_log(write_log(work, BEGIN + write_group_error() + FINISHED + ninth)).failures == ()


def test_the_newest_log_that_names_the_results_is_found(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    write_log(work, BEGIN, "2026-11-30T060000.000001")
    wanted = write_log(work, BEGIN, "2026-11-30T070000.000001")
    write_log(work, BEGIN.replace(" results/", " results-b/"), "2026-11-30T080000.000001")
    write_log(work, "Nothing to be done.\n", "2026-11-30T090000.000001")
    assert find_log(work / "results", "results") == wanted
    assert find_log(work / "results", "results", work) == wanted
    assert find_log(work / "results", "results", elsewhere) is None
    # From within the working folder, with the results elsewhere.
    monkeypatch.chdir(work)
    assert find_log(Path("/far/away/results"), "results") == Path.cwd() / wanted


def test_the_last_line_of_a_long_log_is_read_without_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_text("x" * 100_000 + "\nthe end \n\n  \n")
    assert read_last_line(path) == "the end"
    assert read_last_line(tmp_path / "none") is None
    path.write_text("")
    assert read_last_line(path) is None


KEPT = b"""\
engine: 2026-11-30 18:43:11 first: load begins
INFO some words of the server
engine: 2026-11-30 18:47:34 first: stops, since no job used it for 60 s
engine: 2026-11-30 18:47:35 first: stopped
"""


def test_an_engine_is_up_until_its_keeper_says_that_it_stops() -> None:
    loaded = time.mktime((2026, 11, 30, 18, 43, 11, 0, 0, -1))
    up = read_engine("first", KEPT.split(b"INFO")[0])
    assert up is not None
    assert (up.loads, up.is_up, up.since, up.reason) == (1, True, loaded, None)
    down = read_engine("first", KEPT)
    assert down is not None
    assert (down.loads, down.is_up, down.since) == (1, False, loaded + 263)
    assert down.reason == "no job used it for 60 s"
    again = read_engine("first", KEPT + KEPT.split(b"INFO")[0])
    assert again is not None
    assert (again.loads, again.is_up) == (2, True)
    assert read_engine("other", KEPT) is None
