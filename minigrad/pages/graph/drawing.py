"""Draw a computation as a graph: every operation with its value and its gradient, as a small SVG picture.

The inputs stand at the top and the result at the bottom. The forward pass computes the values from top to bottom, the
backward pass the gradients from bottom to top. The picture has the text colour of the page around it.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from numpy.typing import ArrayLike

from minigrad.autograd.tensor import Tensor
from minigrad.pages.graph.history import Box, history
from minigrad.typing import Array

_WIDTH, _HEIGHT = 176, 50  # of a box; the width is more if a text needs more
_CHARACTER = 8  # the average width of a character
_ACROSS, _DOWN = 20, 30  # between boxes
_APART = 16  # between the curves that end at one box
_MARGIN = 4
_INPUT_COLOUR = "#3b82c4"


class BoxLine(NamedTuple):
    """A line of text in a box: a label at the left, a number at the right, and the attributes of both."""

    label: str
    number: str
    attributes: str = ""


def draw_graph(function: Callable[..., Tensor], **inputs: ArrayLike) -> str:
    """Return an SVG drawing of ``function(**inputs)``, a Tensor of one element, with all values and gradients.

    Each of `inputs` becomes a tensor that requires a gradient (integers as float32), and is drawn under its name. What
    else the function uses is constant. Raises GraphError if the result depends on none of the inputs.

    >>> svg = draw_graph(lambda w, x: (w * x).tanh(), w=0.5, x=2.0)
    >>> svg.startswith("<svg"), "multiply" in svg, "0.7616" in svg
    (True, True, True)
    """

    def lines(box: Box) -> tuple[BoxLine, list[BoxLine]]:
        gradient = [] if box.gradient is None else [BoxLine("gradient", shown(box.gradient))]
        return BoxLine(box.title, shown(box.value)), gradient

    return picture(history(function, inputs), lines, lambda box: "")


def picture(
    boxes: Sequence[Box], lines: Callable[[Box], tuple[BoxLine, Sequence[BoxLine]]], attributes: Callable[[Box], str]
) -> str:
    """Return boxes as an SVG picture: a row of them for each step of the longest way from an input to the result.

    `lines` gives the upper line of a box, and its lower line: none, one, or several in the same place, with one of them
    visible. `attributes` gives the attributes of a box's frame and of the curves that lead to it.
    """
    written = {box: lines(box) for box in boxes}
    texts = [line for upper, lower in written.values() for line in (upper, *lower)]
    wide = max(_WIDTH, 30 + _CHARACTER * max(len(line.label + line.number) for line in texts))
    row_of = _rows(boxes)
    middles, width = _middles(boxes, row_of, wide)
    height = (max(row_of.values()) + 1) * (_HEIGHT + _DOWN) - _DOWN + 2 * _MARGIN
    body = ""
    for box in boxes:
        apart = min(_APART, (wide - 2 * _APART) / max(len(box.inputs), 1))
        for place, each in enumerate(box.inputs):
            aside = apart * (place - (len(box.inputs) - 1) / 2)
            way = [middles[each, row] for row in range(row_of[each], row_of[box])]
            body += _curve([*way, middles[box, row_of[box]]], aside, attributes(box))
    for box, (upper, lower) in written.items():
        x, y = middles[box, row_of[box]]
        x -= wide / 2
        colour = "currentColor" if box.inputs else _INPUT_COLOUR
        body += (
            f'<rect x="{x:g}" y="{y:g}" width="{wide}" height="{_HEIGHT}" rx="6" fill="{colour}" fill-opacity=".08" '
            f'stroke="{colour}"{attributes(box)}/>'
        )
        body += _text(upper, ' font-weight="600"', x, y + 20, wide)
        body += "".join(_text(line, ' fill-opacity=".75"', x, y + 40, wide) for line in lower)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="a computation graph" font-size="15" '
        f'style="max-width:{1.1 * width:.0f}px" viewBox="0 0 {width:g} {height}" '
        f'font-family="system-ui, sans-serif" fill="currentColor">{body}</svg>'
    )


def _rows(boxes: Sequence[Box]) -> dict[Box, int]:
    """Return the row of each box: an operation below all its inputs, an input just above the first that uses it."""
    row_of: dict[Box, int] = {}
    for box in boxes:
        row_of[box] = max((row_of[each] + 1 for each in box.inputs), default=0)
    for box in boxes:
        if not box.inputs:
            row_of[box] = min(row_of[other] for other in boxes if box in other.inputs) - 1
    return row_of


def _middles(
    boxes: Sequence[Box], row_of: dict[Box, int], wide: int
) -> tuple[dict[tuple[Box, int], tuple[float, float]], float]:
    """Return the middle of the upper edge of each box, by box and row, and the width of the picture.

    In the rows between a box and the last that uses it, it has a place without width, where the curves pass.
    """
    rows = [[box for box in boxes if row_of[box] == number] for number in range(max(row_of.values()) + 1)]
    for box in boxes:
        last = max((row_of[other] for other in boxes if box in other.inputs), default=0)
        for row in rows[row_of[box] + 1 : last]:
            row.append(box)
    own = (sum(row_of[box] == number for box in row) for number, row in enumerate(rows))
    taken = [wide * count + _ACROSS * (len(row) - 1) for count, row in zip(own, rows, strict=True)]
    width = max(taken) + 2 * _MARGIN
    middles = {}
    for number, row in enumerate(rows):
        x = (width - taken[number]) / 2
        for box in row:
            half = wide / 2 if row_of[box] == number else 0
            middles[box, number] = x + half, float(_MARGIN + number * (_HEIGHT + _DOWN))
            x += 2 * half + _ACROSS
    return middles, width


def _curve(places: Sequence[tuple[float, float]], aside: float, attributes: str) -> str:
    """Return a curve from the lower edge of a box, past the rows between, to the upper edge of another; a dot ends it.

    `places` are the middles of the upper edges. The curve begins and ends `aside` from the middle, so that two
    arguments that are one value are two curves.
    """
    last = places[-1]
    path = f"M{places[0][0] + aside:g} {places[0][1] + _HEIGHT:g}"
    before = aside
    for (x, y), (to_x, to_y) in itertools.pairwise(places):
        middle, after = (y + _HEIGHT + to_y) / 2, aside if (to_x, to_y) == last else 0
        path += f"C{x + before:g} {middle:g} {to_x + after:g} {middle:g} {to_x + after:g} {to_y:g}"
        path += "" if (to_x, to_y) == last else f"V{to_y + _HEIGHT:g}"
        before = after
    dot = f'<circle cx="{last[0] + aside:g}" cy="{last[1]:g}" r="3"/>'
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".6"{attributes}/>{dot}'


def _text(line: BoxLine, weight: str, x: float, y: float, wide: int) -> str:
    """Return a line of a box, whose label is written with a weight."""
    return (
        f'<text x="{x + 10:g}" y="{y:g}"{weight}{line.attributes}>{html.escape(line.label)}</text>'
        f'<text x="{x + wide - 10:g}" y="{y:g}" text-anchor="end"{line.attributes}>{line.number}</text>'
    )


def shown(array: Array) -> str:
    """Return an array of up to three elements as numbers, and of a larger one the shape."""
    if array.size > 3:
        return f"shape {array.shape}"
    numbers = ", ".join(f"{value + 0.0:.4g}" for value in array.ravel().tolist())  # + 0.0: no "-0"
    return f"[{numbers}]" if array.ndim else numbers
