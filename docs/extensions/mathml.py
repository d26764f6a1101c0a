"""Formulas as MathML, converted when the pages are built: browsers draw them without a script or font of ours."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError


def mathml(formula: str, display: str = "inline") -> str:
    """Return a formula of TeX as MathML; raises ExtensionError for a command that the converter does not know.

    The formula itself is kept as its text for readers that do not know MathML, and for who copies it.
    """
    converted = convert(formula, display=display)
    if "\\" in converted:
        raise ExtensionError(f"this formula has a command that cannot be converted to MathML: {formula}")
    return converted


def visit_math(self: Any, node: nodes.math) -> None:
    """Write a formula inside a line."""
    # A word joiner at both ends keeps the bracket before a formula, and the comma after it, on its line.
    self.body.append(f"&#8288;{mathml(node.astext())}&#8288;")
    raise nodes.SkipNode


def visit_math_block(self: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own, which scrolls where it is wider than the page."""
    self.body.append(f'<div class="formula" tabindex="0">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name that `html_math_renderer` in conf.py gives."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
