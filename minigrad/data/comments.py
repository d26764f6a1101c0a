"""Comments of Python source files as training text: one document for each module.

They are prose about programs, like the docstrings, and every installation has them. They are only trained on, and a
module whose docstrings are held out gives none: its comments would speak of what these are about.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from minigrad.data.docstrings import hash_of, kept, modules, paragraphs, python_files, without_repeats, words_of
from minigrad.data.installed_packages import PACKAGES, package_folder, version
from minigrad.data.standard_library import library_folder

SHORTEST_COMMENT = 60  # characters: shorter ones are remarks on the line below them, which is not there


def comments_of(source: str) -> list[str]:
    """Return the comments that fill whole lines of a source text; lines below each other are one comment.

    What looks like such a line within a string is taken for one too, which is the case of one in seventy.

    >>> comments_of("# one\\n# and more\\nx = 1  # not this\\n\\n    # two\\n")
    ['one\\nand more', 'two']
    """
    blocks: list[str] = re.findall(r"(?:^[ \t]*#.*\n?)+", source, re.MULTILINE)
    return [re.sub(r"^[ \t]*#+ ?", "", block, flags=re.MULTILINE).strip() for block in blocks]


def documentation(before: Iterable[str], held_out: Iterable[str]) -> list[str]:
    """Return the comments of the standard library and of the packages that minigrad needs, by modules, without tests.

    About 1.3 MB. Of a module that one of the documents `held_out` begins with there are none. A paragraph that occurred
    anywhere before is dropped, also one of the documents `before`. The result is kept in the cache folder.
    """
    before, held_out = tuple(before), tuple(held_out)

    def texts() -> Iterator[str]:
        headings = [text.partition("\n")[0] + "." for text in held_out]
        found = (
            [[module, *_long(comments_of(source))]]
            for module, source in _modules()
            if not any(heading.startswith(f"{module}.") for heading in headings)
        )
        return without_repeats(found, words_of(before))

    places = [str(library_folder()), *(f"{package_folder(each)} {version(each)}" for each in PACKAGES)]
    made_by = [sys.version, *places, Path(__file__).read_text(encoding="utf-8"), hash_of(before), hash_of(held_out)]
    return kept(hash_of(made_by), texts)


def _modules() -> Iterator[tuple[str, str]]:
    library = library_folder()
    yield from modules(library, python_files(library))
    for package in PACKAGES:
        if (folder := package_folder(package)) is not None:
            yield from modules(folder.parent, [Path(package) / file for file in python_files(folder)])


def _long(comments: Iterable[str]) -> Iterator[str]:
    """Yield the paragraphs of the comments that are long enough."""
    for comment in comments:
        if len(comment) >= SHORTEST_COMMENT:
            yield from paragraphs(comment)
