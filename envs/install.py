"""Installs the project and every pin of a lock into a virtual environment.

    python3 envs/install.py --environment cpu|gpu --venv .venv [--dev] [--find-python]

torch goes first, with its dependencies: which build there is depends on the registry, and each
build has its own. Everything else comes from the lock without dependencies, because the metadata
of some packages contradicts what works (see the .overrides files). Then every file that pip wrote
is looked for, and only then a stamp is written. A run that finds its stamp does nothing; a run
that does not, keeps what is whole and installs the rest.

The variable TORCH_INDEX, if set, is the index from which torch and its dependencies are installed.

It uses the standard library only, and up to `main` nothing that a Python 3.6 cannot parse, so that
an old Python gets its one line.
"""

import argparse
import contextlib
import csv
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ENVS = Path(__file__).resolve().parent
PROJECT = ENVS.parent
SUPPORTED = ((3, 11), (3, 12))
PIN = re.compile(r"^([a-z0-9][a-z0-9-]*)==([^\s;\\]+)", re.M)


def refusal(version, platform):
    """One line that says why Python `version` on `platform` cannot be used, or None if it can."""
    if not platform.startswith("linux"):
        return "llm-variability needs Linux; this is " + platform
    if tuple(version[:2]) not in SUPPORTED:
        return (
            "llm-variability needs Python 3.11 or 3.12; this is {}.{}. "
            "Name another one: make PYTHON=python3.11".format(*version[:2])
        )
    return None


def find_supported_python():
    """Path of a Python on PATH that is supported and starts, or None."""
    for major, minor in SUPPORTED:
        path = shutil.which("python{}.{}".format(major, minor))  # noqa: UP032
        if path and subprocess.call([path, "-c", ""], stderr=subprocess.DEVNULL) == 0:
            return path
    return None


def read_pins(lock: Path) -> "dict[str, str]":
    """Name -> version of every pin in a lock."""
    return dict(PIN.findall(lock.read_text()))


def read_torch_pin(environment: str) -> str:
    """The version of torch that the .in file of an environment names."""
    return read_pins(ENVS / (environment + ".in"))["torch"]


def normalise(name: str) -> str:
    """A distribution's name as locks spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_usable(venv: Path) -> bool:
    """Whether the venv has a supported Python, starts pip, and lies where it was made."""
    python, pip = venv / "bin/python", venv / "bin/pip"
    try:
        first_line = pip.read_text().splitlines()[0]
        command = [str(python), "-c", "import pip, sys; print(*sys.version_info[:2])"]
        version = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, IndexError, subprocess.CalledProcessError):
        return False
    return str(venv) in first_line and tuple(map(int, version.split())) in SUPPORTED


def find_site_packages(venv: Path) -> Path:
    """The one folder of a venv that holds its distributions."""
    return next(venv.glob("lib/python3.*/site-packages"))


def find_installed(site_packages: Path) -> "dict[str, tuple[str, Path]]":
    """Name -> (version, .dist-info folder) of what is there, whole or not."""
    installed = {}
    for folder in site_packages.glob("*.dist-info"):
        name, _, version = folder.name[: -len(".dist-info")].partition("-")
        installed[normalise(name)] = (version, folder)
    return installed


def find_damage(dist_info: Path) -> "str | None":
    """What is missing of an installed distribution, or None if every file is there.

    pip writes RECORD, which names all files including INSTALLER, after everything else; one that
    does not name INSTALLER is the wheel's own, so pip was interrupted.
    """
    record = dist_info / "RECORD"
    if not record.is_file():
        return "RECORD"
    with record.open(newline="", encoding="utf-8") as lines:
        paths = [row[0] for row in csv.reader(lines) if row]
    if dist_info.name + "/INSTALLER" not in paths:
        return "INSTALLER"
    for path in paths:
        if not path.endswith(".pyc") and not os.path.lexists(dist_info.parent / path):
            return path
    return None


def find_faults(site_packages: Path, pins: "dict[str, str]") -> "dict[str, str]":
    """Name -> what is wrong, for every pin that is absent, of another version, or incomplete.

    A local version (2.13.0+cpu) satisfies the pin without it.
    """
    installed = find_installed(site_packages)
    faults = {}
    for name, wanted in pins.items():
        if name not in installed:
            faults[name] = "is not installed"
            continue
        version, dist_info = installed[name]
        damage = find_damage(dist_info)
        if wanted not in (version, version.partition("+")[0]):
            faults[name] = f"is {version}, not {wanted}"
        elif damage:
            faults[name] = f"lacks {damage}"
    return faults


def forget_damaged(site_packages: Path) -> "list[str]":
    """Removes the .dist-info folders of incomplete distributions, so that pip installs them again.

    Also removes what pip set aside while it replaced a distribution and was interrupted.
    """
    for leftover in site_packages.glob("~*"):
        shutil.rmtree(leftover, ignore_errors=True)
    forgotten = []
    for name, (_, dist_info) in find_installed(site_packages).items():
        if find_damage(dist_info):
            shutil.rmtree(dist_info)
            forgotten.append(name)
    return sorted(forgotten)


def compute_fingerprint(venv: Path, locks: "list[Path]", torch: str) -> str:
    """Hash of everything that decides what an install into `venv` contains."""
    digest = hashlib.sha256(f"{venv}\n{torch}\n".encode())
    for path in [*locks, PROJECT / "pyproject.toml"]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def run(what: str, command: "list[str]", lock: "int | None") -> None:
    """Runs one step; its output is shown, whole, only if it fails.

    The step inherits the file lock: if this process is killed, the next one waits until pip ends.
    """
    print(f"  {what} ...", end="", flush=True)
    begun = time.monotonic()
    keep = [] if lock is None else [lock]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pass_fds=keep
    )
    print(f" {time.monotonic() - begun:.0f} s", flush=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\nThis step of the install failed: {what}. The reason is above.")


@contextlib.contextmanager
def hold_lock() -> "Iterator[int | None]":
    """Keeps two installs in this folder apart; the second one waits.

    Gives the lock's file descriptor, or None on a file system without locks.
    """
    folder = os.open(ENVS, os.O_RDONLY)
    try:
        lock = folder
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another install is running in this folder; waiting for it.", flush=True)
            fcntl.flock(folder, fcntl.LOCK_EX)
        except OSError:
            lock = None
        yield lock
    finally:
        os.close(folder)


def complete(environment: str, venv: Path, locks: "list[Path]", lock: "int | None") -> None:
    """Brings `venv`, in whatever state it is, to the one that the locks describe, and checks it."""
    if not is_usable(venv):
        run("virtual environment", [sys.executable, "-m", "venv", "--clear", str(venv)], lock)
        (venv / ".gitignore").write_text("*\n")
    site_packages = find_site_packages(venv)
    forgotten = forget_damaged(site_packages)
    if forgotten:
        print(f"  incomplete, so installed again: {', '.join(forgotten)}")

    pip = [str(venv / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check"]
    pins = {"torch": read_torch_pin(environment)}
    if find_faults(site_packages, pins):
        index = os.environ.get("TORCH_INDEX")
        source = ["--index-url", index] if index else []
        run(f"torch {pins['torch']}", [*pip, f"torch=={pins['torch']}", *source], lock)
    for path in locks:
        pins.update(read_pins(path))
        what = f"{len(read_pins(path))} packages of {path.relative_to(PROJECT)}"
        # Without --use-pep517, an old pip installs what has no wheel in a way it cannot check.
        run(what, [*pip, "--no-deps", "--use-pep517", "--requirement", str(path)], lock)
    itself = ["--no-deps", "--no-build-isolation", "--editable", str(PROJECT)]
    run("llm-variability", [*pip, *itself], lock)

    faults = find_faults(site_packages, pins)
    if faults:
        listed = "\n".join(f"{name} {fault}" for name, fault in sorted(faults.items()))
        sys.exit(f"The install is not complete; run it again.\n{listed}")


def install(environment: str, venv: Path, dev: bool) -> None:
    """Completes `venv` and stamps it; does nothing where the stamp already matches."""
    torch = read_torch_pin(environment)
    locks = [ENVS / f"{environment}.lock"]
    stamps = {venv / f"installed-{environment}": compute_fingerprint(venv, locks, torch)}
    if dev:
        locks.append(ENVS / "dev.lock")
        stamps[venv / f"installed-{environment}-dev"] = compute_fingerprint(venv, locks, torch)

    def is_done() -> bool:
        return all(stamp.is_file() and stamp.read_text() == hash for stamp, hash in stamps.items())

    if is_done():
        return
    with hold_lock() as lock:
        if is_done():
            return
        begun = time.monotonic()
        print(f"Installing into {venv} (done once; a few minutes):", flush=True)
        for stamp in venv.glob("installed-*"):
            stamp.unlink()
        complete(environment, venv, locks, lock)
        for stamp, fingerprint in stamps.items():
            stamp.write_text(fingerprint)
        print(f"Installed and checked in {time.monotonic() - begun:.0f} s.", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Installs a locked environment of the project.")
    parser.add_argument("--environment", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--venv", type=Path, default=PROJECT / ".venv")
    parser.add_argument("--dev", action="store_true", help="also what tests and checks need")
    parser.add_argument(
        "--find-python",
        action="store_true",
        help="if this Python is not supported, use a supported one that is on PATH",
    )
    arguments = parser.parse_args()

    reason = refusal(sys.version_info, sys.platform)
    if reason:
        other = find_supported_python() if arguments.find_python else None
        if other is None:
            sys.exit(reason)
        os.execv(other, [other] + sys.argv)  # noqa: RUF005
    install(arguments.environment, Path(os.path.abspath(arguments.venv)), arguments.dev)


if __name__ == "__main__":
    main()
