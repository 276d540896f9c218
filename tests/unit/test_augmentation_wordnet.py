"""WordNet: found, fetched, laid out for NLTK, named by content; what is wrong is told."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_variability.augmentation import wordnet as module
from llm_variability.augmentation.lexicon import FILES, WordNet
from llm_variability.augmentation.wordnet import (
    KNOWN,
    fetch_wordnet,
    find_wordnet,
    hash_wordnet,
    lay_out,
    write_lexnames,
)
from llm_variability.config import ConfigError
from tiny_wordnet import get_real_wordnet, write_wordnet

SYNSETS = [("n", [("list", 64), ("listing", 2)])]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return write_wordnet(tmp_path / "files", SYNSETS)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without WordNet in the usual places."""
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(
        module, "_nltk_folders", lambda: iter([tmp_path / "data", tmp_path / "other"])
    )
    monkeypatch.setattr(module, "_DEBIAN_FOLDER", tmp_path / "debian")
    return tmp_path


@pytest.mark.parametrize("below", ["", "dict", "corpora/wordnet"])
def test_a_folder_is_found_in_each_of_the_usual_shapes(tmp_path: Path, below: str) -> None:
    made = write_wordnet(tmp_path / below, SYNSETS)
    assert find_wordnet(tmp_path) == made


def test_the_data_folder_of_nltk_comes_before_debian(nowhere: Path) -> None:
    debian = write_wordnet(nowhere / "debian", SYNSETS)
    assert find_wordnet() == debian
    nltk = write_wordnet(nowhere / "other/corpora/wordnet", SYNSETS)
    assert find_wordnet() == nltk


def test_what_is_missing_is_named(files: Path) -> None:
    (files / "verb.exc").unlink()
    with pytest.raises(ConfigError, match=r"holds no WordNet \(there is no verb.exc\)$"):
        find_wordnet(files)


def test_nowhere_is_one_line_with_what_is_allowed(nowhere: Path) -> None:
    with pytest.raises(ConfigError, match=r"^wordnet: found nowhere.*Allowed: debian, nltk.*$"):
        find_wordnet()


def test_the_checksum_depends_on_names_and_contents_and_on_nothing_else(files: Path) -> None:
    digest = hashlib.sha256()
    for name in sorted(FILES):
        content = hashlib.sha256((files / name).read_bytes()).digest()
        digest.update(name.encode() + b"\0" + content)
    assert hash_wordnet(files) == digest.hexdigest()
    (files / "README").write_text("more")
    assert hash_wordnet(files) == digest.hexdigest()
    (files / "verb.exc").write_text("led lead\n")
    assert hash_wordnet(files) != digest.hexdigest()


def test_a_folder_is_laid_out_for_nltk_with_a_manifest(files: Path, tmp_path: Path) -> None:
    manifest = fetch_wordnet(str(files), tmp_path / "data", hash_wordnet(files))
    assert manifest["path"] == str(tmp_path / "data")
    assert manifest["checksum"] == hash_wordnet(tmp_path / "data/corpora/wordnet")
    assert manifest["version"] is None
    assert (tmp_path / "data/corpora/wordnet/lexnames").read_text() == write_lexnames()


def test_another_content_is_refused_and_nothing_is_left(files: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"its SHA-256 is [0-9a-f]{64}, wanted: 00$"):
        fetch_wordnet(str(files), tmp_path / "data", "00")
    assert not (tmp_path / "data").exists()


def test_laying_out_again_replaces_what_was_there(files: Path, tmp_path: Path) -> None:
    lay_out(files, tmp_path / "data")
    (files / "verb.exc").write_text("led lead\n")
    laid = lay_out(files, tmp_path / "data")
    assert (laid / "verb.exc").read_text() == "led lead\n"
    assert [path.name for path in laid.parent.iterdir()] == ["wordnet"]


def test_lexnames_are_45_numbered_rows() -> None:
    rows = [line.split("\t") for line in write_lexnames().splitlines()]
    assert [int(number) for number, _, _ in rows] == list(range(45))
    named = {name: (number, category) for number, name, category in rows}
    # From lexnames(5WN).
    assert named["noun.Tops"] == ("03", "1")
    assert named["noun.time"] == ("28", "1")
    assert named["verb.weather"] == ("43", "2")
    assert named["adj.ppl"] == ("44", "3")
    assert named["adv.all"] == ("02", "4")


def test_a_machine_without_apt_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"debian: there is no apt-get on this machine"):
        fetch_wordnet("debian", tmp_path / "data")


def test_what_apt_says_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "apt-get").write_text("#!/bin/sh\necho 'E: no such package' >&2\nexit 100\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ConfigError, match=r"debian: apt-get: E: no such package"):
        fetch_wordnet("debian", tmp_path / "data")


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object, **settings: object) -> None:
            super().__init__(*arguments, directory=str(folder), **settings)  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.filterwarnings("ignore:Security Violation")
def test_nltk_downloads_from_its_index(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a local server that has an index of NLTK's form and one zipped corpus."""
    import nltk.downloader
    import nltk.pathsec

    shelf = tmp_path / "shelf"
    shelf.mkdir()
    packed = shelf / "wordnet.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in files.iterdir():
            archive.write(file, f"wordnet/{file.name}")
    content = packed.read_bytes()
    unpacked = sum(file.stat().st_size for file in files.iterdir())
    with serving(shelf) as url:
        (shelf / "index.xml").write_text(
            "<nltk_data><packages><package id='wordnet' name='WordNet' subdir='corpora' unzip='1'"
            f" size='{len(content)}' unzipped_size='{unpacked}'"
            f" checksum='{hashlib.md5(content).hexdigest()}'"
            f" sha256_checksum='{hashlib.sha256(content).hexdigest()}'"
            f" url='{url}/wordnet.zip'/></packages><collections/></nltk_data>"
        )
        monkeypatch.setattr(nltk.downloader.Downloader, "DEFAULT_URL", f"{url}/index.xml")
        monkeypatch.setattr(nltk.pathsec, "ENFORCE", False)  # it refuses this machine's addresses
        manifest = fetch_wordnet("nltk", tmp_path / "data")
    assert manifest["checksum"] == hash_wordnet(files)


def test_a_dead_index_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk.downloader

    monkeypatch.setattr(nltk.downloader.Downloader, "DEFAULT_URL", "http://127.0.0.1:9/index.xml")
    with pytest.raises(ConfigError, match=r"^wordnet: nltk: cannot be fetched"):
        fetch_wordnet("nltk", tmp_path / "data")


def test_the_command_writes_the_manifest(files: Path, tmp_path: Path) -> None:
    import sys

    home = Path(__file__).parents[2] / "workflow"
    command = [sys.executable, "-m", "llm_variability.augmentation", "wordnet"]
    where = ["--folder", str(tmp_path / "data"), "--output", str(tmp_path / "wordnet.json")]
    environment = {"PYTHONPATH": str(home), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [*command, "--source", str(files), *where], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "wordnet.json").read_text())["checksum"] == hash_wordnet(files)
    wrong = subprocess.run(
        [*command, "--source", str(tmp_path), *where],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert wrong.returncode == 1
    assert "Traceback" not in wrong.stderr
    assert "holds no WordNet" in wrong.stderr


# ------------------------------------------------------------------------ with the real WordNet


@pytest.fixture
def real_wordnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return get_real_wordnet(tmp_path_factory.getbasetemp())


@pytest.mark.filterwarnings("ignore:The multilingual functions")
def test_nltk_reads_what_was_laid_out(real_wordnet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    monkeypatch.setattr(nltk.data, "path", [str(real_wordnet), *nltk.data.path])
    reader = WordNetCorpusReader(nltk.data.find("corpora/wordnet"), None)
    assert reader.synset("dog.n.01").lexname() == "noun.animal"
    assert reader.synset("rain.v.01").lexname() == "verb.weather"
    assert reader.synset("quickly.r.01").lexname() == "adv.all"


def test_the_real_one_has_as_many_synsets_as_its_authors_say(real_wordnet: Path) -> None:
    # wnstats(7WN): nouns, verbs, adjectives, adverbs.
    counts = {"noun": 82115, "verb": 13767, "adj": 18156, "adv": 3621}
    for name, count in counts.items():
        lines = (real_wordnet / f"corpora/wordnet/data.{name}").read_bytes().splitlines()
        assert sum(not line.startswith(b"  ") for line in lines) == count


def test_the_real_one_is_known_by_its_checksum(real_wordnet: Path) -> None:
    folder = real_wordnet / "corpora/wordnet"
    # Debian's own build of the data; another distribution's may be none of KNOWN.
    version = KNOWN.get(hash_wordnet(folder))
    assert version in (None, "WordNet 3.0, Debian 1:3.0-37")
    with WordNet(folder) as opened:
        assert opened.senses("list", "n")[0].tagged == 64
