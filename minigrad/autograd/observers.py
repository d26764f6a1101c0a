"""The hook through which a profiler or a check observes every operation, forward and backward.

An observer surrounds each operation with a context manager, which yields a function. The result is passed through that
function as soon as it is computed, to be measured or checked. Without observers, the cost is the test of an empty list.
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
    """The attributes of a node of the graph that an observer may read."""

    name: str
    backward: Backward | None

    @property
    def parents(self) -> Sequence[RecordedOperation | None]:
        """The operations and leaves that computed the arguments; None for an argument without a gradient."""


class Observer(Protocol):
    """An object that observes the operations of every thread."""

    def forward(
        self, name: str, arrays: Sequence[Array], options: dict[str, Any]
    ) -> AbstractContextManager[Callable[[Result], Result]]:
        """Surround the forward function of operation `name`, called with `arrays` and `options`."""

    def backward(self, node: RecordedOperation, dy: Array) -> AbstractContextManager[Callable[[Gradients], Gradients]]:
        """Surround the backward function of `node`, called with `dy`, and the accumulation of its gradients."""

    def update(self, name: str) -> AbstractContextManager[object]:
        """Surround an update of parameters by optimizer `name`."""


active: list[Observer] = []
"""The observers in use."""


@contextmanager
def watch(observer: Observer) -> Iterator[None]:
    """Let an observer observe all operations inside the block."""
    active.append(observer)
    try:
        yield
    finally:
        active.remove(observer)


@contextmanager
def forward(name: str, arrays: Sequence[Array], options: dict[str, Any]) -> Iterator[Callable[[Result], Result]]:
    """Surround a forward function with every active observer."""
    with ExitStack() as stack:
        steps = [stack.enter_context(observer.forward(name, arrays, options)) for observer in active]
        yield lambda result: functools.reduce(lambda value, step: step(value), steps, result)


@contextmanager
def backward(node: RecordedOperation, dy: Array) -> Iterator[Callable[[Gradients], Gradients]]:
    """Surround a backward function with every active observer."""
    with ExitStack() as stack:
        steps = [stack.enter_context(observer.backward(node, dy)) for observer in active]
        yield lambda gradients: functools.reduce(lambda value, step: step(value), steps, gradients)


@contextmanager
def update(name: str) -> Iterator[None]:
    """Surround an update of parameters with every active observer."""
    with ExitStack() as stack:
        for observer in active:
            stack.enter_context(observer.update(name))
        yield
