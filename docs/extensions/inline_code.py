"""Code in a sentence or a heading: a word of it is divided between two lines only if it is too long for a telephone.

A browser would break a line after any hyphen: `--top-k` would end a line as `--`. A long word is divided where a reader
would divide it: between the parts of a path, of a name with dots or underscores, or of a name with capitals inside.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

LONGEST = 36
"""The characters of a word that may not be divided."""

LONGEST_IN_HEADING = 20
"""The same in a heading, whose letters are larger."""

_JOINTS = re.compile(r"(?<=[/(,=])(?=\w)|(?<=[a-z0-9])(?=_[a-z])|(?<=[a-z])(?=[A-Z])|(?=\.(?!py$|jsonl?$)\w)")


def divided(code: str, longest: int) -> list[str]:
    """Return the pieces of some code between which a line may end, besides at its spaces.

    >>> divided("train.py --data python-docs", LONGEST)
    ['train.py --data python-docs']
    >>> divided("minigrad/data/installed_packages.py", LONGEST_IN_HEADING)
    ['minigrad/', 'data/', 'installed', '_packages.py']
    """
    pieces = [""]
    for word in re.split(r"(\s+)", code):
        first, *rest = _JOINTS.split(word) if len(word) > longest else [word]
        pieces = [*pieces[:-1], pieces[-1] + first, *rest]
    return pieces


class LongWords(SphinxPostTransform):
    """Put places to break the line into long words, and the class `long` on what is too long even so (course.css)."""

    default_priority = 700

    def run(self, **options: Any) -> None:
        """Change the document that is about to be written."""
        for code in list(self.document.findall(nodes.literal)):
            in_heading = isinstance(code.parent, nodes.title)
            pieces = divided(code.astext(), LONGEST_IN_HEADING if in_heading else LONGEST)
            if any(len(word) > LONGEST for piece in pieces for word in piece.split()):
                code["classes"].append("long")
            if len(pieces) > 1:
                code.clear()
                for number, piece in enumerate(pieces):
                    code += [nodes.raw("", "<wbr>", format="html")] * bool(number) + [nodes.Text(piece)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the transform."""
    app.add_post_transform(LongWords)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
