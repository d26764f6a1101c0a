"""Draw a computation as a graph: every operation with its value and its gradient, as a small SVG picture.

The inputs stand at the top and the result at the bottom. The forward pass computes the values from top to bottom, the
backward pass the gradients from bottom to top. The picture has the text colour of the page around it.
"""

from __future__ import annotations

import contextlib
import html
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd.gradients import Backward
from minigrad.autograd.observers import Gradients, Observer, RecordedOperation, Result, watch
from minigrad.autograd.tensor import Tensor
from minigrad.errors import GraphError
from minigrad.typing import Array

_WIDTH, _HEIGHT = 176, 50  # of a box
_ACROSS, _DOWN = 20, 30  # between boxes
_MARGIN = 4
_INPUT_COLOUR = "#3b82c4"


@dataclass(eq=False)
class Box:
    """One value of a computation: what computed it, and its gradient (None for a constant, which has none)."""

    title: str
    value: Array
    gradient: Array | None = None
    inputs: list[Box] = field(default_factory=list)
    row: int = 0


def draw_graph(function: Callable[..., Tensor], **inputs: ArrayLike) -> str:
    """Return an SVG drawing of ``function(**inputs)``, a Tensor of one element, with all values and gradients.

    Each of `inputs` becomes a tensor that requires a gradient (integers as float32), and is drawn under its name. What
    else the function uses is constant. Raises GraphError if the result depends on none of the inputs.

    >>> svg = draw_graph(lambda w, x: (w * x).tanh(), w=0.5, x=2.0)
    >>> svg.startswith("<svg"), "multiply" in svg, "0.7616" in svg
    (True, True, True)
    """
    leaves = {name: _leaf(value) for name, value in inputs.items()}
    recording = Recording()
    with watch(recording):
        result = function(**leaves)
        root = result.node
        if root is None or root.is_leaf:
            raise GraphError(f"the result depends on none of the inputs {', '.join(leaves)} through an operation")
        result.backward()
    return _svg(recording.boxes(root, leaves))


def _leaf(value: ArrayLike) -> Tensor:
    array = np.asarray(value)
    return Tensor(value, requires_grad=True, dtype=np.float32 if array.dtype.kind in "iub" else None)


class Recording(Observer):
    """The observer that notes every result on the way forward, and every gradient on the way back."""

    def __init__(self) -> None:
        self._results: dict[Backward, tuple[Sequence[Array], Array]] = {}  # arguments and result
        self._visited: dict[RecordedOperation, tuple[Backward, Sequence[RecordedOperation | None], Array]] = {}

    @contextlib.contextmanager
    def forward(
        self, name: str, arrays: Sequence[Array], options: dict[str, Any]
    ) -> Iterator[Callable[[Result], Result]]:
        """Note the arguments and the result of a forward function."""

        def note(result: Result) -> Result:
            self._results[result[1]] = (arrays, np.asarray(result[0]))
            return result

        yield note

    @contextlib.contextmanager
    def backward(self, node: RecordedOperation, dy: Array) -> Iterator[Callable[[Gradients], Gradients]]:
        """Note the gradient of a result, and the parents of its node, which is cut after this."""
        if node.backward is not None:
            self._visited[node] = node.backward, node.parents, dy
        yield lambda gradients: gradients

    def boxes(self, root: RecordedOperation, leaves: dict[str, Tensor]) -> list[Box]:
        """Return a box for every value that the root was computed from, each after its inputs, and the root's last."""
        known: dict[RecordedOperation | None, Box] = {}
        known |= {each.node: Box(name, each.data, each.grad) for name, each in leaves.items()}
        found: list[Box] = []

        def visit(node: RecordedOperation | None, constant: Array) -> Box:
            if node is not None and node in known:
                box = known[node]
            elif node is None or node not in self._visited:
                box = Box("constant", constant)
            else:
                backward, parents, gradient = self._visited[node]
                arguments, value = self._results[backward]
                inputs = [visit(*each) for each in zip(parents, arguments, strict=True)]
                box = known[node] = Box(node.name, value, gradient, inputs)
            if box not in found:
                found.append(box)
            return box

        visit(root, np.empty(0))
        return found


def _svg(boxes: Sequence[Box]) -> str:
    """Return the picture: a row of boxes for each step of the longest way from an input to the result."""
    for box in boxes:
        box.row = max((each.row + 1 for each in box.inputs), default=0)
    for box in boxes:  # an input stands just above the first operation that uses it
        if not box.inputs:
            box.row = min(other.row for other in boxes if box in other.inputs) - 1
    rows = [[box for box in boxes if box.row == row] for row in range(boxes[-1].row + 1)]
    width = max(len(row) for row in rows) * (_WIDTH + _ACROSS) - _ACROSS + 2 * _MARGIN
    height = len(rows) * (_HEIGHT + _DOWN) - _DOWN + 2 * _MARGIN
    corners: dict[Box, tuple[float, float]] = {}
    for number, row in enumerate(rows):
        left = (width - len(row) * (_WIDTH + _ACROSS) + _ACROSS) / 2
        for place, box in enumerate(row):
            corners[box] = left + place * (_WIDTH + _ACROSS), _MARGIN + number * (_HEIGHT + _DOWN)
    lines = "".join(_line(corners[each], corners[box]) for box in boxes for each in box.inputs)
    body = lines + "".join(_drawn(box, *corners[box]) for box in boxes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="a computation graph" font-size="15" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" fill="currentColor">{body}</svg>'
    )


def _line(above: tuple[float, float], below: tuple[float, float]) -> str:
    """Return a curve from the lower edge of one box to the upper edge of another, with a dot at its end."""
    x, y, to_x, to_y = above[0] + _WIDTH / 2, above[1] + _HEIGHT, below[0] + _WIDTH / 2, below[1]
    middle = (y + to_y) / 2
    path = f"M{x:g} {y:g}C{x:g} {middle:g} {to_x:g} {middle:g} {to_x:g} {to_y:g}"
    dot = f'<circle cx="{to_x:g}" cy="{to_y:g}" r="3"/>'
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".6"/>{dot}'


def _drawn(box: Box, x: float, y: float) -> str:
    """Return a box with its title and value, and below them its gradient."""
    colour = "currentColor" if box.inputs else _INPUT_COLOUR
    frame = f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{colour}" fill-opacity=".08" '
    lines = [(f'font-weight="600">{html.escape(box.title)}', _number(box.value), 20)]
    if box.gradient is not None:
        lines.append(('fill-opacity=".75">gradient', _number(box.gradient), 40))
    return f'{frame}stroke="{colour}"/>' + "".join(
        f'<text x="{x + 10:g}" y="{y + down:g}" {label}</text>'
        f'<text x="{x + _WIDTH - 10:g}" y="{y + down:g}" text-anchor="end">{number}</text>'
        for label, number, down in lines
    )


def _number(array: Array) -> str:
    """Return an array of up to three elements as numbers, and of a larger one the shape."""
    if array.size > 3:
        return f"shape {array.shape}"
    numbers = ", ".join(f"{value + 0.0:.4g}" for value in array.ravel().tolist())  # + 0.0: no "-0"
    return f"[{numbers}]" if array.ndim else numbers
