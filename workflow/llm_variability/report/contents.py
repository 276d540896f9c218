"""The page's table of contents, from its headings."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Heading:
    """A heading with an id, and those of the next level below it."""

    anchor: str
    title: str
    parts: list[Heading] = field(default_factory=list)


class _Headings(HTMLParser):
    """Gathers the headings of levels 2 and 3 that have an id."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Heading] = []
        self._open: Heading | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        anchor = dict(attrs).get("id")
        if tag not in ("h2", "h3") or not anchor:
            return
        self._open = Heading(anchor, "")
        (self.found if tag == "h2" or not self.found else self.found[-1].parts).append(self._open)

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open.title += data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("h2", "h3"):
            self._open = None


def list_contents(markup: str) -> list[Heading]:
    """List the headings of level 2 of a rendered page, with those of level 3 as their parts."""
    parser = _Headings()
    parser.feed(markup)
    return parser.found
