"""Scripts and data inside the page."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json

import pytest

from llm_variability.report.scripts import Script, allow_scripts, as_json

HOSTILE = "</script><script>alert(1)</script><!-- & \u2028\u2029 \u202e"


class Elements(html.parser.HTMLParser):
    """Gathers the elements of a document, and the text of the first script."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_data_cannot_end_the_element_they_stand_in():
    parser = Elements()
    parser.feed(f"<script type='application/json'>{as_json({'text': HOSTILE})}</script>")
    assert parser.names == ["script"]
    assert json.loads(parser.text) == {"text": HOSTILE}


def test_data_that_json_does_not_have_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        as_json([float("nan")])


def test_a_script_is_allowed_by_the_hash_of_its_text():
    text = "document.title = 'é';"
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in allow_scripts([Script("title", text)])


def test_no_script_is_allowed_where_there_is_none():
    assert "script-src 'none';" in allow_scripts([])


@pytest.mark.parametrize("text", ["'</SCRIPT>'", "'<!--'"])
def test_a_script_that_would_end_itself_is_refused(text):
    with pytest.raises(ValueError, match="ends it"):
        Script("broken", text)


def test_scripts_may_not_turn_text_into_code():
    assert "eval" not in allow_scripts([Script("title", "1")])
