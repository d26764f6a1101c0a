"""A web page in one file, which opens offline: it refers to no other file and follows the reader's light or dark."""

from __future__ import annotations

import html
from typing import Any

from minigrad.system.terminal import printable


def page(title: str, body: str, style: str = "", head: str = "") -> str:
    """Return a whole page, given the markup of its body, its additional style rules, and more markup of its head."""
    return _PAGE.format(title=escape(title), style=_STYLE + style, body=body, head=head)


def escape(value: Any) -> str:
    """Return a value as text for markup and quoted attributes; control characters become U+FFFD.

    >>> escape("1 < 2")
    '1 &lt; 2'
    """
    return html.escape(printable(str(value)))


def scrolling(label: str, table: str) -> str:
    """Return a table that scrolls separately, with the keyboard too, where it is wider than the page."""
    return f'<div class=wide role=region tabindex=0 aria-label="{escape(label)}">{table}</div>'


_STYLE = """
:root { color-scheme: light dark; --paper: #fdfdfc; --ink: #22252a; --soft: #6b7078; --line: #d9dbdf;
  --link: #246eb6; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #17191c; --ink: #e4e6e9; --soft: #9aa0a8; --line: #363a40; --link: #6aabea; }
}
body { max-width: 64rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; font: 1rem/1.5 system-ui, sans-serif;
  background: var(--paper); color: var(--ink); }
h1, h1 + p { margin: 0; overflow-wrap: anywhere; } h1 + p { color: var(--soft); } h2 { margin: 2.5rem 0 .75rem; }
dl { display: flex; flex-wrap: wrap; gap: .75rem 2.5rem; } dt, figcaption, th { color: var(--soft); }
dt, figcaption { font-size: .875rem; } dd { margin: 0; font-size: 1.2rem; }
figure { margin: 0 0 1rem; } svg { display: block; width: 100%; height: auto; stroke-linejoin: round; }
pre { margin: .25rem 0; padding: .75rem; border: 1px solid var(--line); border-radius: .4rem;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: .875rem; }
table { border-collapse: collapse; } .wide { overflow-x: auto; }
th { text-align: left; font-weight: normal; white-space: nowrap; }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{head}<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
