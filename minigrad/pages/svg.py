"""The elements of SVG pictures, in the colours of the page around them."""

from __future__ import annotations

from collections.abc import Iterable

from minigrad.pages.page import escape


def picture(description: str, width: int, height: int, elements: Iterable[str]) -> str:
    """Return an SVG picture; readers who hear the page get the description."""
    return (
        f'<svg role="img" aria-label="{escape(description)}" viewBox="0 0 {width} {height}" font-size="14" '
        f'fill="currentColor">{"".join(elements)}</svg>'
    )


def text(words: str, x: float | str, y: float | str, **attributes: str) -> str:
    """Return a line of text; `words` may hold markup, as `escape` returns it."""
    return f'<text x="{x}" y="{y}"{_written(attributes)}>{words}</text>'


def line(path: str, **attributes: str) -> str:
    """Return a line in the colour of the text.

    >>> line("M0 0H9", stroke_opacity=".6")
    '<path d="M0 0H9" stroke="currentColor" stroke-opacity=".6"/>'
    """
    return f'<path d="{path}" stroke="currentColor"{_written(attributes)}/>'


def box(x: float | str, y: float | str, width: float | str, height: float | str, **attributes: str) -> str:
    """Return a rectangle with its upper left corner at (x, y)."""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}"{_written(attributes)}/>'


def _written(attributes: dict[str, str]) -> str:
    """Return attributes as markup: `text_anchor` is text-anchor."""
    return "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
