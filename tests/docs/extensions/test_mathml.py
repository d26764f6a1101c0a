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


def test_the_name_of_a_function_stands_apart() -> None:
    from docs.extensions.mathml import mathml

    space = '<mspace width="0.17em"/>'
    assert f"<mi>ln</mi>{space}<mi>p</mi>" in mathml(r"-\ln p")
    assert f"</msub>{space}<mi>ln</mi>{space}<msub>" in mathml(r"p_i \ln p_i")
    assert space not in mathml(r"\sin(x) + \log_2(x)")


def test_a_formula_goes_on_in_the_next_line_between_its_pieces_only() -> None:
    from docs.extensions.mathml import pieces_of

    assert pieces_of("a = {b}, \\qquad\\qquad\nc = d") == ["a = {b},", "c = d"]
    assert pieces_of("\\text{a \\qquad b}") == ["\\text{a \\qquad b}"]


def test_an_unknown_command_is_an_error() -> None:
    from sphinx.errors import ExtensionError

    from docs.extensions.mathml import mathml

    with pytest.raises(ExtensionError, match=r"x \\nonsense"):
        mathml(r"x \nonsense")


def test_a_line_breaks_neither_after_a_bracket_nor_before_a_comma() -> None:
    from docutils import nodes

    from docs.extensions.mathml import with_marks

    paragraph = nodes.paragraph()
    paragraph += [nodes.Text("Let (in "), nodes.emphasis("", "C"), nodes.Text(" that is ("), nodes.math("", "x")]
    paragraph += [nodes.Text("), and "), nodes.math("", "y"), nodes.math("", "z"), nodes.Text(".")]
    with_marks(paragraph)
    groups = [child.astext() for child in paragraph.findall(nodes.inline)]
    assert groups == ["(x),", "y", "z."]
    assert paragraph.astext() == "Let (in C that is (x), and yz."
