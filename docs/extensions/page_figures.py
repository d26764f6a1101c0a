"""The Matplotlib backend of the pages: `plt.show()` puts every open figure into the page, as SVG in the page's colours.

The cells of a page are plain Matplotlib and run anywhere. A figure is named by what it shows, as in
``plt.figure("The loss falls from 4.9 to 2.1 nats in 300 steps")``: elsewhere that is the title of a window, here the
description that a screen reader reads. A figure without one, or with an axis that does not say what it measures, is an
error. Black becomes the colour of the text around the figure, so it is legible on light and dark pages.
"""

from __future__ import annotations

import html
import io
import re

from IPython.display import HTML, display
from matplotlib import pyplot as plt
from matplotlib.backends.backend_svg import FigureCanvasSVG as FigureCanvas
from matplotlib.figure import Figure

__all__ = ["FigureCanvas", "show", "svg_of"]


def show(*, block: bool | None = None) -> None:
    """Put all open figures into the page, in the order in which they were made, and close them."""
    for number in plt.get_fignums():
        figure = plt.figure(number)
        display(HTML(f'<div class="figure">{svg_of(figure)}</div>'))
        plt.close(figure)


def svg_of(figure: Figure) -> str:
    """Return a figure as SVG for the inside of a page; raises ValueError if it or an axis is not described."""
    description = figure.get_label()
    if len(description) < 20:
        raise ValueError('describe the figure in a sentence: plt.subplots(num="The loss falls from 4.9 to 2.1 ...")')
    for axes in figure.axes:
        if axes.axison and not (axes.get_xlabel() and axes.get_ylabel()):
            raise ValueError(f"label both axes of {description!r} with what they measure and its unit")
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, bbox_inches="tight")
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace("#000000", "currentColor")
    # A style inside the picture would hold for the whole page.
    svg = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<[^>]+>", _shortened, re.sub(r">\s+<", "><", svg))
    return re.sub("<svg ", f'<svg role="img" aria-label="{html.escape(description)}" ', svg, count=1)


def _shortened(tag: re.Match[str]) -> str:
    """Return a tag with one space where it has more, and its numbers with two decimals: a page is small then."""
    return re.sub(r"(\d\.\d\d)\d+", r"\1", re.sub(r"\s+", " ", tag.group()))
