"""A trace: what passed through the layers and operations of a model while it read one text.

No part of a model is written to be looked at. An observer (`minigrad.autograd.observers`) stands beside it: it sees
each layer's input and output, and the arrays of each operation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from minigrad.autograd.graph import no_grad
from minigrad.autograd.observers import Observer, Result, watch
from minigrad.nn.checkpointing import CheckpointedLayer
from minigrad.nn.module import Module, in_evaluation
from minigrad.typing import Array


class Operation(NamedTuple):
    """One call of an operation: the module that called it, its arguments and its result."""

    module: Module | None
    layer: int  # the number of the layer that the module belongs to; -1 outside the layers
    name: str
    arrays: Sequence[Array]
    options: dict[str, Any]
    result: Array


class Trace(Observer):
    """The residual stream between the layers of a model, and its operations of some `names`.

    `stream` holds the input of the first layer, then the output of each; `after` the modules that come after the last
    layer: the last norm.  Shapes: each of `stream` (rows, width).
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self.names = names
        self.operations: list[Operation] = []
        self.stream: list[Array] = []
        self.after: list[Module] = []
        self._called: list[Module] = []  # the modules inside which we are, outermost first
        self._depth = 0  # the number of modules around a layer

    @property
    def layer(self) -> int:
        """The number of the layer inside which we are, or -1."""
        inside = any(isinstance(module, CheckpointedLayer) for module in self._called)
        return len(self.stream) - 1 if inside else -1

    @contextlib.contextmanager
    def module(self, module: Any, arguments: Sequence[Any]) -> Iterator[Callable[[Any], Any]]:
        """Keep what enters and leaves a layer, and note which modules follow."""
        is_layer = isinstance(module, CheckpointedLayer) and self.layer < 0
        if is_layer:
            self._depth = len(self._called)
            self.after.clear()
            if not self.stream:
                self.stream.append(arguments[0].data)
        elif self.stream and len(self._called) == self._depth:
            self.after.append(module)
        self._called.append(module)

        def keep(output: Any) -> Any:
            if is_layer:
                self.stream.append(output.data)
            return output

        try:
            yield keep
        finally:
            self._called.pop()

    @contextlib.contextmanager
    def forward(
        self, name: str, arrays: Sequence[Array], options: dict[str, Any]
    ) -> Iterator[Callable[[Result], Result]]:
        """Keep an operation that has one of the names."""

        def keep(result: Result) -> Result:
            if name in self.names:
                caller = self._called[-1] if self._called else None
                self.operations.append(Operation(caller, self.layer, name, arrays, options, np.asarray(result[0])))
            return result

        yield keep


def trace(model: Module, tokens: Sequence[int], names: Collection[str] = ()) -> Trace:
    """Let a model read one text, without dropout and without a graph, and return what passed through it.

    >>> import models
    >>> found = trace(models.build("vidya-v2", "nano"), [5, 6, 7], names=["attention"])
    >>> [operation.layer for operation in found.operations]
    [0, 1, 2, 3, 4, 5]
    """
    found = Trace(names)
    with in_evaluation(model), no_grad(), watch(found):
        model([list(tokens)], last=0)
    return found
