"""Make the SVG that Matplotlib writes smaller, without changing what it looks like."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"

_NO_TURN = re.compile(r"\s*rotate\(-?0 [^)]*\)\s*")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_LONG_NUMBER = re.compile(r"\d+\.\d{3,}")
_PLACES = ("d", "x", "y", "transform")
_METADATA, _GROUP, _PATH = f"{{{SVG}}}metadata", f"{{{SVG}}}g", f"{{{SVG}}}path"
_LINES = re.compile(r"M \S+ \S+(?: L \S+ \S+)+(?: z)?")


def _referenced(root: ElementTree.Element) -> set[str]:
    found = set()
    for element in root.iter():
        for name, value in element.attrib.items():
            found.update(_REFERENCE.findall(value))
            if name in (f"{{{XLINK}}}href", "href"):
                found.add(value.removeprefix("#"))
    return found


def _round(places: str) -> str:
    """Write coordinates to a hundredth of a point, on one line."""
    rounded = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.2f}", places)
    return " ".join(rounded.split())


def _shorten_lines(path: str) -> str:
    """Write the lines of a path that run along an axis as H and V; other paths are kept."""
    if not _LINES.fullmatch(path):
        return path
    words = path.split()
    (_, x, y), rest = words[:3], words[3:]
    parts = [f"M{x} {y}"]
    closed = rest[-1] == "z"
    for to_x, to_y in zip(rest[1::3], rest[2::3], strict=False):
        if to_y == y:
            parts.append(f"H{to_x}")
        elif to_x == x:
            parts.append(f"V{to_y}")
        else:
            parts.append(f"L{to_x} {to_y}")
        x, y = to_x, to_y
    return "".join([*parts, "z"] if closed else parts)


def _part_fill(element: ElementTree.Element) -> None:
    """Make the fill of a path an attribute, so that paths that differ in it share the rest."""
    properties = [each.strip() for each in element.attrib.get("style", "").split(";")]
    fills = [each for each in properties if each.startswith("fill: #")]
    if element.tag == _PATH and len(fills) == 1 and len(properties) > 1:
        element.attrib["fill"] = fills[0].removeprefix("fill: ")
        element.attrib["style"] = "; ".join(each for each in properties if each != fills[0])


def _tidy(element: ElementTree.Element, kept_ids: set[str]) -> None:
    children = list(element)
    for child in children:
        _tidy(child, kept_ids)
    element[:] = [
        kept
        for child in children
        if child.tag != _METADATA
        for kept in (child if child.tag == _GROUP and not child.attrib else [child])
    ]
    attributes = element.attrib
    if attributes.get("id") not in kept_ids:
        attributes.pop("id", None)
    if "transform" in attributes and _NO_TURN.fullmatch(attributes["transform"]):
        del attributes["transform"]
    for name in _PLACES:
        if name in attributes:
            attributes[name] = _round(attributes[name])
    if "d" in attributes:
        attributes["d"] = _shorten_lines(attributes["d"])
    _part_fill(element)
    if element.text and not element.text.strip():
        element.text = None
    element.tail = None


def _share_styles(root: ElementTree.Element) -> None:
    """Turn each style that stands on several elements into a class."""
    styles = Counter(
        element.attrib["style"] for element in root.iter() if "style" in element.attrib
    )
    shared = [style for style, count in styles.items() if count > 1]
    names = {style: f"s{at}" for at, style in enumerate(shared)}
    for element in root.iter():
        style = element.attrib.get("style")
        if style in names:
            element.attrib["class"] = names[style]
            del element.attrib["style"]
    sheet = ElementTree.Element(f"{{{SVG}}}style")
    sheet.text = "".join(f".{name}{{{style}}}" for style, name in names.items())
    root.insert(0, sheet)


def compact_svg(text: str) -> str:
    """Write an SVG with shared styles as classes, and without white space, metadata and bare ids.

    Lines along an axis are written shorter.

    text: as Matplotlib writes it, with text as text. Raises ValueError if it is no XML.
    """
    try:
        root = ElementTree.fromstring(text)  # noqa: S314
    except ElementTree.ParseError as error:
        raise ValueError(f"an SVG figure is damaged: {error}") from error
    _tidy(root, _referenced(root))
    _share_styles(root)
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    return ElementTree.tostring(root, encoding="unicode")
