"""The hook through which a profiler, a check or a trace observes every operation and every module.

An observer surrounds each operation, forward and backward, and each call of a module, with a context manager, which
yields a function. The result is passed through that function as soon as it is computed, to be measured, checked or
kept. An observer may also give the result of an operation or of a `composite` itself, so that nothing is computed.
Without observers, the cost is the test of an empty list.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from minigrad.autograd.gradients import Backward, Gradient
from minigrad.typing import Array

Result = tuple[Array, Backward]
Gradients = Sequence[Gradient | None]
_Value = TypeVar("_Value")
_Parameters = ParamSpec("_Parameters")


class RecordedOperation(Protocol):
    """The attributes of a node of the graph that an observer may read."""

    name: str
    backward: Backward | None

    @property
    def parents(self) -> Sequence[RecordedOperation | None]:
        """The operations and leaves that computed the arguments; None for an argument without a gradient."""


def _unchanged(value: _Value) -> _Value:
    return value


class Observer:
    """The base class of observers of operations and modules in every thread; it changes and keeps nothing."""

    def forward(
        self, name: str, arrays: Sequence[Array], options: dict[str, Any]
    ) -> AbstractContextManager[Callable[[Result], Result]]:
        """Surround the forward function of operation `name`, called with `arrays` and `options`."""
        return nullcontext(_unchanged)

    def replace(self, function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        """Return the result of an operation or a composite in its place; None lets it be computed."""
        return None

    def backward(self, node: RecordedOperation, dy: Array) -> AbstractContextManager[Callable[[Gradients], Gradients]]:
        """Surround the backward function of `node`, called with `dy`, and the accumulation of its gradients."""
        return nullcontext(_unchanged)

    def update(self, name: str) -> AbstractContextManager[object]:
        """Surround an update of parameters by optimizer `name`."""
        return nullcontext()

    def module(self, module: object, arguments: Sequence[Any]) -> AbstractContextManager[Callable[[Any], Any]]:
        """Surround the call of a module with these positional arguments."""
        return nullcontext(_unchanged)


active: list[Observer] = []
"""The observers in use. Functions that call all of them go through a copy: if another thread removed one meanwhile, the
next one in the list would be passed over."""


@contextmanager
def watch(observer: Observer) -> Iterator[None]:
    """Let an observer observe all operations inside the block."""
    active.append(observer)
    try:
        yield
    finally:
        active.remove(observer)


def replaced(function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
    """Return the result that an active observer gives in the place of an operation or a composite, or None."""
    results = (observer.replace(function, arguments, options) for observer in tuple(active))
    return next((result for result in results if result is not None), None)


def composite(function: Callable[_Parameters, _Value]) -> Callable[_Parameters, _Value]:
    """Let an observer replace a function of tensors as a whole, as it may replace an operation.

    For what a trace must see as one thing: a store into a cache, or a rotation by the angles of all positions.
    """

    @functools.wraps(function)
    def call(*arguments: _Parameters.args, **options: _Parameters.kwargs) -> _Value:
        if active and (result := replaced(call, arguments, options)) is not None:
            return cast(_Value, result)
        return function(*arguments, **options)

    return call


@contextmanager
def surround(
    enter: Callable[[Observer], AbstractContextManager[Callable[[_Value], _Value]]],
) -> Iterator[Callable[[_Value], _Value]]:
    """Enter a context manager of every active observer; yield what passes a result through all their functions."""
    with ExitStack() as stack:
        steps = [stack.enter_context(enter(observer)) for observer in tuple(active)]
        yield lambda result: functools.reduce(lambda value, step: step(value), steps, result)
