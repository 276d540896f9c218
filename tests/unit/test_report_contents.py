"""The page's table of contents."""

from __future__ import annotations

from llm_variability.report.contents import Heading, list_contents


def test_headings_of_two_levels_are_listed_with_their_ids():
    markup = "<h2 id='a'>First</h2><h3 id='a-1'>One <em>of</em> it</h3><h2 id='b'>Second</h2>"
    assert list_contents(markup) == [
        Heading("a", "First", [Heading("a-1", "One of it")]),
        Heading("b", "Second"),
    ]


def test_a_heading_without_an_id_or_of_another_level_is_left_out():
    assert list_contents("<h2>None</h2><h4 id='deep'>Deep</h4><h1 id='top'>Top</h1>") == []


def test_what_a_text_spells_out_is_no_heading():
    assert list_contents("<h2 id='a'>A</h2><p>&lt;h2 id='b'&gt;B&lt;/h2&gt;</p>") == [
        Heading("a", "A")
    ]


def test_escaped_characters_of_a_title_are_read():
    assert list_contents("<h2 id='a'>R&amp;D &lt;b&gt;</h2>")[0].title == "R&D <b>"
