"""Validate an RO-Crate with no network: the one document that is asked for is handed in."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import requests
import urllib3
from requests_cache import CachedSession
from rocrate_validator import services
from rocrate_validator.models import Severity, ValidationSettings

CONTEXT = "https://w3id.org/ro/crate/1.1/context"
STORED = Path(__file__).with_name("reference") / "ro-crate-1.1-context.json"
PROFILES = ("workflow-run-crate-0.5", "process-run-crate-0.5", "workflow-ro-crate-1.0")


class _Stored(requests.adapters.HTTPAdapter):
    """Answers every request with the stored context."""

    def send(self, request: Any, *_: Any, **__: Any) -> requests.Response:
        raw = urllib3.HTTPResponse(
            body=io.BytesIO(STORED.read_bytes()),
            status=200,
            headers={"Content-Type": "application/ld+json"},
            preload_content=False,
        )
        return self.build_response(request, raw)


def fill_cache(path: Path) -> Path:
    """Put the context of RO-Crate 1.1 where the validator looks for it, and give that place."""
    with CachedSession(str(path), backend="sqlite", expire_after=-1) as session:
        session.mount("https://", _Stored())
        session.get(CONTEXT)
    return path


def list_issues(crate: Path, profile: str, cache: Path, severity: str = "REQUIRED") -> list[str]:
    """Say what is wrong with a crate, each in a line."""
    result = services.validate(
        ValidationSettings(
            rocrate_uri=str(crate),
            profile_identifier=profile,
            requirement_severity=Severity[severity],
            offline=True,
            cache_path=cache,
        )
    )
    return sorted({f"{issue.check.identifier}: {issue.message}" for issue in result.get_issues()})
