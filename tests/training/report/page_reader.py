"""What a page holds, for the tests of pages."""

from __future__ import annotations

from html.parser import HTMLParser


class PageReader(HTMLParser):
    """Collects the page's text, its elements and all references to other files."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.elements: list[str] = []
        self.links: list[str] = []
        self.names: list[str] = []
        self.descriptions: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "srcset", "data", "action") or name.startswith("xmlns"):
                self.links.append(value or "")
            if name == "id":
                self.names.append(value or "")
            if name == "aria-label":
                self.descriptions.append(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data
