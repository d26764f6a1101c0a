"""Formulas as MathML, converted when the pages are built: browsers draw them without a script or font of ours."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms.post_transforms import SphinxPostTransform


def mathml(formula: str, display: str = "inline") -> str:
    """Return a formula of TeX as MathML; raises ExtensionError for a command that the converter does not know."""
    converted = convert(formula, display=display)
    if "\\" in converted:
        raise ExtensionError(f"this formula has a command that cannot be converted to MathML: {formula}")
    return _with_spaces(converted)


# Not the base of an index: log with a base has both in one group, which a space would be a third part of.
_NAME = r"(?<!<msub>)(?<!<msup>)<mi>(?:cos|exp|ln|log|sin|tanh)</mi>"


def _with_spaces(converted: str) -> str:
    """Put a thin space between the name of a function and a letter or number beside it: ln p, not lnp."""
    after = re.sub(f"({_NAME})(?=<m(?:i|n|sub|sup|frac|sqrt)>)", r'\1<mspace width="0.17em"/>', converted)
    return re.sub(f"(?<=</mi>|</mn>|msub>|msup>)({_NAME})", r'<mspace width="0.17em"/>\1', after)


def visit_math(self: Any, node: nodes.math) -> None:
    """Write a formula inside a line."""
    self.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def pieces_of(formula: str) -> list[str]:
    r"""Return the parts of a formula between wide spaces, at which it may go on in the next line of a narrow page.

    >>> pieces_of(r"a = b, \qquad c = {d}")
    ['a = b,', 'c = {d}']
    """
    pieces = [piece.strip() for piece in re.split(r"(?:\\qquad\s*)+", formula)]
    return pieces if all(piece.count("{") == piece.count("}") for piece in pieces) else [formula]


def visit_math_block(self: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own; a piece of it scrolls where it is wider than the page."""
    pieces = "".join(mathml(piece, "block") for piece in pieces_of(node.astext()))
    self.body.append(f'<div class="formula" tabindex="0">{pieces}</div>')
    raise nodes.SkipNode


def with_marks(paragraph: nodes.Element) -> None:
    """Put each formula of a paragraph into a group with the bracket before it and the comma or full stop after it.

    A browser may break a line at both sides of a formula, and would begin the next line with the comma.
    """
    for formula in [child for child in paragraph.children if isinstance(child, nodes.math)]:
        place = paragraph.index(formula)
        before, after = ("", "")
        if place and isinstance(paragraph[place - 1], nodes.Text):
            before = paragraph[place - 1].astext()
        if place + 1 < len(paragraph) and isinstance(paragraph[place + 1], nodes.Text):
            after = paragraph[place + 1].astext()
        brackets = before[len(before.rstrip("([")) :]
        marks = after[: len(after) - len(after.lstrip("])’,.;:?!"))]
        group = nodes.inline(classes=["formula-with-marks"])
        group += [nodes.Text(brackets), formula.deepcopy(), nodes.Text(marks)]
        around = [nodes.Text(before[: len(before) - len(brackets)]), group, nodes.Text(after[len(marks) :])]
        paragraph[place - bool(before) : place + 1 + bool(after)] = around


class FormulasWithMarks(SphinxPostTransform):
    """Apply `with_marks` to whatever holds formulas."""

    default_priority = 700

    def run(self, **options: Any) -> None:
        """Change the document that is about to be written."""
        for parent in {id(formula.parent): formula.parent for formula in self.document.findall(nodes.math)}.values():
            with_marks(parent)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the transform, and the renderer under the name that `html_math_renderer` in conf.py gives."""
    app.add_post_transform(FormulasWithMarks)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
