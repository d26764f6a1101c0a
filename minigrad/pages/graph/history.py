"""The history of a computation: every value in the order of computation, and every gradient in the order of arrival.

An observer notes what each operation was given, what it returned, and what its backward function passed on. The graph
itself cannot tell afterwards: the backward pass frees it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd.gradients import Backward, Deferred
from minigrad.autograd.graph import sum_to_shape
from minigrad.autograd.observers import Gradients, Observer, RecordedOperation, Result, watch
from minigrad.autograd.tensor import Tensor
from minigrad.errors import GraphError
from minigrad.typing import Array


@dataclass(eq=False)
class Box:
    """One value of a computation: what computed it, and its gradient (None for a constant, which has none)."""

    title: str
    value: Array
    gradient: Array | None = None
    inputs: list[Box] = field(default_factory=list)
    number: int = 0  # the operations count from 1 in the order of computing; an input or a constant is 0
    visit: int = 0  # they count from 1 in the order in which the backward pass visits them
    arrivals: list[Arrival] = field(default_factory=list)  # the parts of the gradient, oldest first


class Arrival(NamedTuple):
    """A part of a gradient: the operation that passed it on, and the sum of all parts up to this one."""

    sender: Box
    part: Array
    total: Array


def history(function: Callable[..., Tensor], inputs: dict[str, ArrayLike]) -> list[Box]:
    """Return a box for each value of ``function(**inputs)``, each after those it is computed from, the result last.

    Each of `inputs` becomes a tensor that requires a gradient (integers as float32). What else the function uses is
    constant. Raises GraphError if the result depends on none of the inputs.
    """
    kinds = {name: np.asarray(value).dtype.kind for name, value in inputs.items()}
    leaves = {
        name: Tensor(value, requires_grad=True, dtype=np.float32 if kinds[name] in "iub" else None)
        for name, value in inputs.items()
    }
    recording = _Recording()
    with watch(recording):
        result = function(**leaves)
        root = result.node
        if root is None or root.is_leaf:
            raise GraphError(f"the result depends on none of the inputs {', '.join(leaves)} through an operation")
        result.backward()
    return recording.boxes(root, leaves)


class _Visit(NamedTuple):
    """What the backward pass met at a node, which is cut after this, and what it passed on."""

    backward: Backward
    parents: Sequence[RecordedOperation | None]
    gradient: Array
    passed_on: list[Array | None]


class _Recording(Observer):
    """The observer that notes every result on the way forward, and every gradient on the way back."""

    def __init__(self) -> None:
        self._results: dict[Backward, tuple[Sequence[Array], Array]] = {}  # arguments and result
        self._visits: dict[RecordedOperation, _Visit] = {}

    @contextlib.contextmanager
    def forward(
        self, name: str, arrays: Sequence[Array], options: dict[str, Any]
    ) -> Iterator[Callable[[Result], Result]]:
        def note(result: Result) -> Result:
            self._results[result[1]] = (arrays, np.asarray(result[0]))
            return result

        yield note

    @contextlib.contextmanager
    def backward(self, node: RecordedOperation, dy: Array) -> Iterator[Callable[[Gradients], Gradients]]:
        backward, parents = node.backward, node.parents

        def note(gradients: Gradients) -> Gradients:
            passed_on = [each.array() if isinstance(each, Deferred) else each for each in gradients]
            if backward is not None:
                self._visits[node] = _Visit(backward, parents, dy, passed_on)
            return gradients

        yield note

    def boxes(self, root: RecordedOperation, leaves: dict[str, Tensor]) -> list[Box]:
        """Return a box for every value that the root was computed from, each after its inputs, and the root's last."""
        known: dict[RecordedOperation | None, Box] = {}
        known |= {each.node: Box(name, each.data, each.grad) for name, each in leaves.items()}
        found: list[Box] = []

        def box_of(node: RecordedOperation | None, constant: Array) -> Box:
            if node is not None and node in known:
                box = known[node]
            elif node is None or node not in self._visits:
                box = Box("constant", constant)
            else:
                visit = self._visits[node]
                arguments, value = self._results[visit.backward]
                # An argument that was left out, as the bias of a `linear`, has a parent (None), but no array.
                inputs = [box_of(*each) for each in zip(visit.parents, arguments, strict=False)]
                box = known[node] = Box(node.name, value, visit.gradient, inputs)
            if box not in found:
                found.append(box)
            return box

        box_of(root, np.empty(0))
        self._number({node: box for node, box in known.items() if node is not None})
        return found

    def _number(self, known: dict[RecordedOperation, Box]) -> None:
        """Number the boxes of operations in both directions, and note in each box the gradients that arrived there."""
        computed = list(self._results)
        visited = [node for node in self._visits if node in known]
        for number, node in enumerate(sorted(visited, key=lambda node: computed.index(self._visits[node].backward)), 1):
            known[node].number = number
        for place, node in enumerate(visited, 1):
            sender = known[node]
            sender.visit = place
            for box, gradient in zip(sender.inputs, self._visits[node].passed_on, strict=False):
                if gradient is not None and box.gradient is not None:
                    part = sum_to_shape(gradient, box.value.shape)
                    total = box.arrivals[-1].total + part if box.arrivals else part
                    box.arrivals.append(Arrival(sender, part, total))
