"""Code in a sentence: a word of it is not divided between two lines, unless it is too long for a line of a telephone.

A browser would break a line after any hyphen: `--top-k` would end a line as `--`.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

LONGEST = 36
"""The characters of a word that may not be divided."""


def has_long_word(code: str) -> bool:
    """Whether a word of some code is so long that it may be divided.

    >>> has_long_word("train.py --data python-docs"), has_long_word("minigrad.kernels.decoding.machine.run_program")
    (False, True)
    """
    return any(len(word) > LONGEST for word in code.split())


class LongWords(SphinxPostTransform):
    """Give code with a long word the class `long`, for docs/static/course.css."""

    default_priority = 700

    def run(self, **options: Any) -> None:
        """Change the document that is about to be written."""
        for code in self.document.findall(nodes.literal):
            if has_long_word(code.astext()):
                code["classes"].append("long")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the transform."""
    app.add_post_transform(LongWords)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
