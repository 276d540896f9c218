"""Find weights by where the configuration says they come from, and name them by content."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from llm_variability.config import ConfigError, Encoder, Model

log = logging.getLogger(__name__)

Kind = Literal["model", "encoder"]

WEIGHT_FIELDS = (
    "hub",
    "revision",
    "path",
    "package",
    "trust_remote_code",
    "endpoint",
    "served_name",
)
"""What of a model's or encoder's settings decides its weights."""

_NOT_NEEDED = [
    "original/*",
    "consolidated*.safetensors",
    "metal/*",
    "onnx/*",
    "openvino/*",
    "*.gguf",
    "*.h5",
    "*.msgpack",
    "*.ot",
    "*.onnx",
]


def hash_files(folder: Path, files: list[Path]) -> str:
    """Name files by content: SHA-256 over the sorted relative paths and contents."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def visible_files(folder: Path) -> list[Path]:
    """List the files of a folder of weights, hidden ones and caches left out."""
    return [
        file
        for file in folder.rglob("*")
        if file.is_file()
        and not any(part.startswith((".", "__")) for part in file.relative_to(folder).parts)
    ]


def check_folder(kind: Kind, folder: Path) -> None:
    """Raise ConfigError unless a folder holds a model (or a sentence-transformers encoder)."""
    needed = "config.json" if kind == "model" else "modules.json"
    what = "a model" if kind == "model" else "a sentence-transformers encoder"
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder")
    if not (folder / needed).is_file():
        raise ConfigError(f"{folder} holds no {needed}, so it is not {what}")


def find_in_package(kind: Kind, package: str) -> Path:
    """Find the weights that an installed package ships: a folder, or a model's GGUF file.

    Raises ConfigError if the package is not installed, ships none, or more than one.
    """
    try:
        files = metadata.distribution(package).files or []
    except (metadata.PackageNotFoundError, ValueError):
        raise ConfigError(f"package {package!r} is not installed") from None
    located = [Path(str(file.locate())) for file in files]
    marker = "config.json" if kind == "model" else "modules.json"
    found = {file.parent for file in located if file.name == marker}
    if kind == "model":
        found = {folder for folder in found if any(folder.glob("*.safetensors"))}
        found |= {file for file in located if file.suffix == ".gguf"}
    if len(found) != 1:
        names = ", ".join(str(path) for path in sorted(found)) or "none"
        raise ConfigError(f"package {package!r} must ship weights of one {kind}; found: {names}")
    return found.pop()


def convert_gguf(file: Path, folder: Path) -> None:
    """Write a GGUF file as a folder that vLLM loads (bfloat16 safetensors and tokenizer).

    vLLM no longer reads GGUF itself; transformers dequantises it once. The folder appears whole
    or not at all.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as holder:
        temporary = Path(holder) / "weights"
        model = AutoModelForCausalLM.from_pretrained(
            file.parent,
            gguf_file=file.name,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
        )
        model.save_pretrained(temporary)
        AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(temporary)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)


def _package_licence(package: str) -> str | None:
    about = metadata.metadata(package).json
    licence = about.get("license_expression") or about.get("license")
    return f"{licence} (of the package)" if licence else None


def fetch_hub(repository: str, revision: str) -> tuple[Path, str | None]:
    """Download a hub repository at a commit into the shared cache; give its folder and licence.

    Files already in the cache are not fetched again, so this works offline the second time.
    Raises ConfigError if a file can neither be fetched nor found there.
    """
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(repository, revision=revision, ignore_patterns=_NOT_NEEDED))
    except (OSError, ValueError) as error:
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigError(f"{repository} at {revision} cannot be fetched: {told[0]}") from error
    card = folder / "README.md"
    licence = None
    if card.is_file():
        from huggingface_hub import ModelCard

        licence = ModelCard.load(card, ignore_metadata_errors=True).data.get("license")
    return folder, licence


def list_code_repositories(folder: Path) -> list[str]:
    """Name the other repositories whose code a checkpoint runs under `trust_remote_code`.

    Transformers reads them from the `auto_map` of a checkpoint's JSON files, where they stand as
    `owner/name--file.Class`; code without a repository lies beside the weights.
    """
    named = set()
    for file in sorted(folder.glob("*.json")):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            continue
        classes = content.get("auto_map") if isinstance(content, dict) else None
        for each in classes.values() if isinstance(classes, dict) else ():
            # A tokenizer has two classes, slow and fast; one may be null.
            for place in each if isinstance(each, list) else [each]:
                if place and "--" in place:
                    named.add(place.partition("--")[0])
    return sorted(named)


def fetch_code(repository: str) -> str:
    """Download the Python files of a repository into the shared cache; give their commit.

    The checkpoint names no commit, so it is the newest one now; later runs take what is in the
    cache. Raises ConfigError if they can neither be fetched nor found there.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repository, allow_patterns=["*.py"])).name
    except (OSError, ValueError) as error:
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise ConfigError(f"code of {repository} cannot be fetched: {told[0]}") from error


def fetch_weights(
    kind: Kind, name: str, settings: Model | Encoder, converted: Path
) -> dict[str, Any]:
    """Bring one model or encoder to this machine and describe it.

    converted: folder to write to where the weights must be converted first.
    Returns the manifest: name, kind, source, origin (in words), path, identity (what a cached
    result depends on: revision or checksum), checksum or revision, licence, chat template hash; and
    of trusted code from other repositories the commits (code).
    Raises ConfigError if the weights are not where the configuration says, or not of that kind.
    """
    source = settings.sources()[0]
    manifest: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "source": source,
        "revision": None,
        "checksum": None,
        "licence": None,
        "path": None,
    }
    if isinstance(settings, Model) and settings.endpoint is not None:
        served = settings.served_name or name
        manifest |= {
            "origin": f"{served} at {settings.endpoint}",
            "identity": hashlib.sha256(f"{settings.endpoint}\0{served}".encode()).hexdigest(),
        }
        return manifest
    if settings.hub is not None:
        folder, licence = fetch_hub(settings.hub, str(settings.revision))
        manifest |= {"origin": settings.hub, "revision": settings.revision, "licence": licence}
        identity = f"{settings.hub}@{settings.revision}"
    elif settings.path is not None:
        folder = Path(settings.path).resolve()
        check_folder(kind, folder)
        identity = hash_files(folder, visible_files(folder))
        manifest |= {"origin": str(folder), "checksum": identity}
    else:
        package = str(settings.package)
        found = find_in_package(kind, package)
        files = [found] if found.is_file() else visible_files(found)
        identity = hash_files(found.parent if found.is_file() else found, files)
        manifest |= {
            "origin": f"{package} {metadata.version(package)}",
            "checksum": identity,
            "licence": _package_licence(package),
        }
        folder = found
        if found.is_file():
            log.info("converting %s to %s, once", found.name, converted)
            convert_gguf(found, converted)
            folder = converted.resolve()
    check_folder(kind, folder)
    if settings.trust_remote_code and (repositories := list_code_repositories(folder)):
        manifest["code"] = {each: fetch_code(each) for each in repositories}
    template = folder / "chat_template.jinja"
    manifest |= {
        "path": str(folder),
        "identity": identity,
        "chat_template_sha256": (
            hashlib.sha256(template.read_bytes()).hexdigest() if template.is_file() else None
        ),
    }
    return manifest


def write_manifest(manifest: dict[str, Any], path: Path) -> None:
    """Write a manifest as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
