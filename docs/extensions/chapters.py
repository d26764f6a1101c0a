"""What a page has only on a code host, where nothing runs, and what it has only when it is built.

On a code host a chapter is plain Markdown: a banner says where its results are, a link is below each piece of source
that the built page shows, and a picture below a figure. There all three are left out, and the header is added that
makes a page with cells run. A guide whose links and lists the build makes has a banner, too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what reads chapters without building pages, as a test of their pictures does, needs no Sphinx
    from sphinx.application import Sphinx

BANNER = """\
> You are reading the source of a page. The built page also shows the results of the code, and has interactive figures;
> [the first page](../index.md) says how to build it.

"""
BANNER_OF_A_GUIDE = """\
> You are reading the source of a page. The built page has its links and lists; [the first page](index.md) says how to
> build it.

"""
HEADER = "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n"
PICTURE = re.compile(r"^!\[([^\]]+)\]\((\.\./pictures/[\w/]+\.svg)\)\n\n?", flags=re.MULTILINE)
"""A picture of a figure: what it shows, and its file."""
SHOWN = re.compile(r"^```{annotate} (\S+)\n(?:.*\n)*?```\n(?P<link>\nSource: \[(.+)\]\((.+)\)\n)?", flags=re.MULTILINE)
"""A piece of source that a page shows: its name, and the link below it with the file that it is in."""


def as_page(text: str) -> str:
    """Return the text of a page as it is built from that of its file; one without cells is the same.

    >>> print(as_page("# A\\n\\n" + BANNER + "```{code-cell} python\\n1\\n```"))
    ---
    file_format: mystnb
    kernelspec:
      name: python3
    ---
    # A
    <BLANKLINE>
    ```{code-cell} python
    1
    ```
    """
    text = text.replace(BANNER_OF_A_GUIDE, "", 1)
    if "```{code-cell}" not in text:
        return text
    text = PICTURE.sub("", text.replace(BANNER, "", 1))
    return HEADER + SHOWN.sub(lambda found: found[0].removesuffix(found["link"] or ""), text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Change each page when it is read."""

    def change(app: Sphinx, name: str, source: list[str]) -> None:
        source[0] = as_page(source[0])

    app.connect("source-read", change)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
