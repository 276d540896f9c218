"""A Slurm cluster of two nodes on this machine, for the time of the tests.

slurmctld, one slurmd a node and munged, without systemd and cgroups. Its configuration lies in
/etc/slurm, since the steps of a job do not inherit SLURM_CONF; a machine that has a configuration
of another origin is left alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scancel", "scontrol")
FOLDER = Path("/etc/slurm")
MARK = "# of llm-variability's tests; may be deleted\n"
NODES = ("n1", "n2")

CONFIGURATION = """\
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
AuthType=auth/munge
AuthInfo=cred_expire=20
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
GresTypes=gpu
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=5
MinJobAge=3600
SlurmdTimeout=30
PartitionName=cpu Nodes=ALL Default=YES State=UP
PartitionName=gpu Nodes=ALL State=UP
"""
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=16"
    " RealMemory={memory} Gres=gpu:1"
)
DUMMY_GPU = "NodeName=n1,n2 Name=gpu File=/dev/null\n"


def find_obstacle() -> str | None:
    """Say why no cluster can be started here, or None."""
    if missing := [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]:
        return f"not installed: {', '.join(missing)} (tests/slurm/install.sh installs them)"
    if os.getuid() != 0:
        return "Slurm's daemons need root"
    configuration = FOLDER / "slurm.conf"
    if configuration.exists() and not configuration.read_text().startswith(MARK):
        return f"this machine has a Slurm of its own ({configuration})"
    if is_running("slurmctld"):
        return "slurmctld runs here already, by other tests or left over; end it"
    return None


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def is_running(program: str) -> bool:
    """Tell whether a program runs on this machine."""
    return subprocess.run(["pgrep", "-x", program], stdout=subprocess.DEVNULL).returncode == 0


def call(*command: str) -> str:
    """Run a command of Slurm and give what it says."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": _path()}
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def _end(pid: int, patience_s: float = 20) -> None:
    """End a daemon, and wait until it is gone; by force, if it takes too long."""
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)


@dataclass
class Cluster:
    """The running cluster."""

    folder: Path
    _munge: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        FOLDER.mkdir(exist_ok=True)
        (self.folder / "state").mkdir()
        host = socket.gethostname()
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
        nodes = [
            NODE.format(name=name, host=host, port=16818 + number, memory=memory)
            for number, name in enumerate(NODES)
        ]
        text = MARK + CONFIGURATION.format(host=host, folder=self.folder) + "\n".join(nodes) + "\n"
        (FOLDER / "slurm.conf").write_text(text)
        (FOLDER / "gres.conf").write_text(MARK + DUMMY_GPU)
        if not is_running("munged"):
            self._start_munge()
        call("slurmctld", "-c")
        for name in NODES:
            (self.folder / f"spool-{name}").mkdir()
            call("slurmd", "-N", name)
        self._wait_for_nodes()

    def _start_munge(self) -> None:
        for name in ("/run/munge", "/var/log/munge", "/var/lib/munge"):
            Path(name).mkdir(parents=True, exist_ok=True)
            shutil.chown(name, "munge", "munge")
        call("runuser", "-u", "munge", "--", shutil.which("munged", path=_path()) or "munged")

    def _wait_for_nodes(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if all(self.state(name) == "idle" for name in NODES):
                return
            time.sleep(0.3)
        raise AssertionError(f"the nodes do not come up: {call('sinfo', '-N', '-l')}")

    def state(self, node: str) -> str:
        """Give a node's state, in small letters, with no mark behind it."""
        return call("sinfo", "-h", "-n", node, "-p", "cpu", "-o", "%T").strip().rstrip("*~#!%$@+-^")

    def restore_nodes(self) -> None:
        """Bring every node back into service."""
        for node in NODES:
            if self.state(node) not in ("idle", "mixed", "allocated"):
                call("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def jobs(self) -> list[dict[str, str]]:
        """List all jobs: id, state, node and comment, which names the rule or the group."""
        keys = ("id", "state", "node", "comment")
        told = call("squeue", "-h", "-t", "all", "-S", "i", "-o", "%i|%T|%N|%k")
        return [dict(zip(keys, line.split("|"), strict=True)) for line in told.splitlines()]

    def running(self, comment: str) -> list[dict[str, str]]:
        """List the jobs that run and whose comment holds a text."""
        return [
            job for job in self.jobs() if job["state"] == "RUNNING" and comment in job["comment"]
        ]

    def stop(self) -> None:
        for job in self.jobs():
            if job["state"] in ("RUNNING", "PENDING", "COMPLETING"):
                call("scancel", job["id"])
        for name in ("slurmd-n1", "slurmd-n2", "slurmctld"):
            with suppress(OSError, ValueError):
                _end(int((self.folder / f"{name}.pid").read_text()))
        for name in ("slurm.conf", "gres.conf"):
            (FOLDER / name).unlink(missing_ok=True)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Have a cluster for the body."""
    # Not pytest's own folder, whose path may be too long for the daemons' sockets.
    folder = Path(tempfile.mkdtemp(prefix="llmv-slurm-", dir="/tmp"))
    made = Cluster(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)
