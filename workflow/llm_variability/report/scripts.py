"""Scripts and data inside the page: which may run, and how data cannot become one.

The page's Content-Security-Policy names the hash of every script that it holds; no other script
runs, and none may turn text into code. Data stand in elements that no browser runs.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

FOLDER = Path(__file__).parent / "scripts"

_ESCAPED = str.maketrans(
    {character: f"\\u{ord(character):04x}" for character in "<>&\N{LINE SEPARATOR}\u2029"}
)


@dataclass(frozen=True)
class Script:
    """A script of the page. text: as it stands between the tags."""

    name: str
    text: str

    def __post_init__(self) -> None:
        if "</script" in self.text.lower() or "<!--" in self.text:
            raise ValueError(f"script {self.name}: holds </script or <!--, which ends it in a page")

    @property
    def source(self) -> str:
        """The hash by which the page's policy allows it."""
        digest = hashlib.sha256(self.text.encode("utf-8")).digest()
        return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"

    @property
    def markup(self) -> Markup:
        """The text, not escaped: a browser does not read entities in a script."""
        return Markup(self.text)


def load_script(name: str) -> Script:
    """Read a script of this package, as in `explorer`."""
    return Script(name, (FOLDER / f"{name}.js").read_text(encoding="utf-8"))


def allow_scripts(scripts: Iterable[Script]) -> str:
    """Write the page's Content-Security-Policy: these scripts, styles and data URIs in the page."""
    sources = " ".join(script.source for script in scripts) or "'none'"
    return (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
        f" script-src {sources}; base-uri 'none'; form-action 'none'"
    )


def as_json(value: Any) -> Markup:
    """Write data for an element `<script type="application/json">`.

    No character is left that could end the element or begin another. Raises ValueError for NaN or
    infinity, which JSON does not have.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_ESCAPED))
