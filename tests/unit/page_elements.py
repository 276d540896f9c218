"""Reads a page for tests."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser


def without_scripts(html: str) -> str:
    """The page without the scripts that its policy allows, and without the data of its charts.

    A script that the policy does not name stays.
    """
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy

    def drop(found: re.Match[str]) -> str:
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        return "" if f"sha256-{digest}" in policy[1] else found[0]

    data = r'<script type="application/json"[^>]*>[^<]*</script>'
    return re.sub(r"<script>(.*?)</script>", drop, re.sub(data, "", html), flags=re.DOTALL)


class Elements(HTMLParser):
    """Every element with its attributes, and all text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def named(self, *tags):
        return [attributes for tag, attributes in self.found if tag in tags]
