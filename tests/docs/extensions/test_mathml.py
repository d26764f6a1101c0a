"""Formulas become MathML; a command that is not known is an error."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.docs, pytest.mark.filterwarnings("default")]


def test_a_formula() -> None:
    from docs.extensions.mathml import mathml

    assert mathml(r"\frac{a}{b}") == (
        '<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline">'
        "<mrow><mfrac><mrow><mi>a</mi></mrow><mrow><mi>b</mi></mrow></mfrac></mrow></math>"
    )
    assert 'display="block"' in mathml("x", "block")


def test_an_unknown_command_is_an_error() -> None:
    from sphinx.errors import ExtensionError

    from docs.extensions.mathml import mathml

    with pytest.raises(ExtensionError, match=r"x \\nonsense"):
        mathml(r"x \nonsense")
