"""The one hook through which a profiler or a check watches every operation, forward and backward.

An observer surrounds the work of an operation with a context manager, which yields a function. The result is passed
through that function as soon as it is computed, to be measured or checked. Without observers an operation only looks
at an empty list.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol

from minigrad.autograd.gradients import Backward, Gradient
from minigrad.typing import Array

Result = tuple[Array, Backward]
Gradients = Sequence[Gradient | None]


class RecordedOperation(Protocol):
    """What an observer may ask of a node of the graph."""

    name: str
    backward: Backward | None


class Observer(Protocol):
    """Watches the operations of every thread."""

    def forward(
        self, name: str, arrays: Sequence[Array], options: dict[str, Any]
    ) -> AbstractContextManager[Callable[[Result], Result]]:
        """Surround the forward function of operation `name`, called with `arrays` and `options`."""

    def backward(self, node: RecordedOperation, dy: Array) -> AbstractContextManager[Callable[[Gradients], Gradients]]:
        """Surround the backward function of `node`, called with `dy`, and the storing of its gradients."""

    def update(self, name: str) -> AbstractContextManager[object]:
        """Surround an update of parameters by optimizer `name`."""


active: list[Observer] = []
"""The observers that watch now."""


@contextmanager
def watch(observer: Observer) -> Iterator[None]:
    """Let an observer watch all operations inside the block."""
    active.append(observer)
    try:
        yield
    finally:
        active.remove(observer)


@contextmanager
def forward(name: str, arrays: Sequence[Array], options: dict[str, Any]) -> Iterator[Callable[[Result], Result]]:
    """Surround a forward function with every active observer."""
    with ExitStack() as stack:
        passes = [stack.enter_context(observer.forward(name, arrays, options)) for observer in active]
        yield lambda result: functools.reduce(lambda value, see: see(value), passes, result)


@contextmanager
def backward(node: RecordedOperation, dy: Array) -> Iterator[Callable[[Gradients], Gradients]]:
    """Surround a backward function with every active observer."""
    with ExitStack() as stack:
        passes = [stack.enter_context(observer.backward(node, dy)) for observer in active]
        yield lambda gradients: functools.reduce(lambda value, see: see(value), passes, gradients)


@contextmanager
def update(name: str) -> Iterator[None]:
    """Surround an update of parameters with every active observer."""
    with ExitStack() as stack:
        for observer in active:
            stack.enter_context(observer.update(name))
        yield
