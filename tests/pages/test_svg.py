"""The elements of pictures, as a browser reads them."""

from __future__ import annotations

from xml.etree import ElementTree

from minigrad.pages.svg import box, line, picture, text


def test_a_picture_holds_its_elements_and_a_description() -> None:
    elements = [
        text("a &lt; b", 1, "2.5", text_anchor="end"),
        line("M0 0H9", fill="none"),
        box(0, 0, 3, 4, fill="none"),
    ]
    root = ElementTree.fromstring(picture('what "a < b" means', 30, 40, elements))
    assert root.attrib["aria-label"] == 'what "a < b" means'
    assert root.attrib["viewBox"] == "0 0 30 40"
    assert [(each.tag, each.text) for each in root] == [("text", "a < b"), ("path", None), ("rect", None)]
    assert root[0].attrib == {"x": "1", "y": "2.5", "text-anchor": "end"}
    assert root[1].attrib == {"d": "M0 0H9", "stroke": "currentColor", "fill": "none"}
    assert root[2].attrib == {"x": "0", "y": "0", "width": "3", "height": "4", "fill": "none"}
