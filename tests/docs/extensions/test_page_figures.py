"""Figures of the pages are described, labelled, and have the colours of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = [pytest.mark.docs, pytest.mark.filterwarnings("default")]
SENTENCE = 'A line from "0" to 1, drawn for a test.'


@pytest.fixture
def figure() -> Iterator[Any]:
    from matplotlib.figure import Figure

    figure = Figure()
    figure.set_label(SENTENCE)
    figure.subplots().plot([0, 1])
    return figure


def test_a_figure_is_described_and_has_the_colours_of_the_page(figure: Any) -> None:
    from docs.extensions.page_figures import svg_of

    figure.axes[0].set(xlabel="step", ylabel="loss (nats)")
    svg = svg_of(figure)
    assert svg.startswith('<svg role="img" aria-label="A line from &quot;0&quot; to 1, drawn for a test."')
    assert "currentColor" in svg
    assert "#000000" not in svg


def test_the_numbers_of_a_figure_are_short_and_those_of_its_texts_whole(figure: Any) -> None:
    from matplotlib import rc_context

    from docs.extensions.page_figures import svg_of

    figure.axes[0].set(xlabel="3.14159  and more", ylabel="loss (nats)")
    with rc_context({"svg.fonttype": "none"}):
        svg = svg_of(figure)
    assert not re.findall(r"<[^>]*\d\.\d{3}[^>]*>", svg)
    assert ">3.14159  and more<" in svg
    assert "\n  " not in svg


def test_an_axis_without_a_label_is_an_error(figure: Any) -> None:
    from docs.extensions.page_figures import svg_of

    figure.axes[0].set(xlabel="step")
    with pytest.raises(ValueError, match="label both axes"):
        svg_of(figure)


def test_a_figure_without_a_description_is_an_error(figure: Any) -> None:
    from docs.extensions.page_figures import svg_of

    figure.set_label("")
    with pytest.raises(ValueError, match="describe the figure"):
        svg_of(figure)
