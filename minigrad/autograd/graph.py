"""The recorded computation, and the backward pass over it.

The forward pass of an operation records a `Node`: the nodes of its inputs, and a function that computes the gradients
of its inputs from the gradient of its output. `run_backward` visits the nodes from the loss back to the leaves.

A node holds parent *nodes*, never tensors. An array therefore stays alive only if a backward function refers to it;
all others are freed during the forward pass.
"""

from __future__ import annotations

import contextlib
import heapq
import inspect
import itertools
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from minigrad.autograd import observers
from minigrad.autograd.gradients import Backward, Deferred, Gradient, SavedVersions
from minigrad.errors import GraphError, ShapeError
from minigrad.typing import Array

Function = TypeVar("Function", bound=Callable[..., Any])

_creation = itertools.count()


class Node:
    """One operation of the recorded computation: its parents and its backward function.

    A leaf (a tensor that requires a gradient and was not computed) has no backward function; its gradients accumulate
    in `gradient`. If `stale`, the stored gradient is an old one and counts as zero: the next gradient overwrites it.
    `saved` lists the versions of the arrays that the backward function saved, as they were at that time.
    """

    __slots__ = (
        "backward", "dtype", "gradient", "is_leaf", "name", "order", "parents", "saved", "shape", "stale",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        parents: tuple[Node | None, ...] = (),
        backward: Backward | None = None,
        saved: SavedVersions = (),
    ) -> None:
        self.name, self.shape, self.dtype = name, shape, dtype
        self.parents, self.backward, self.saved = parents, backward, saved
        self.is_leaf = backward is None  # and stays so: a node that was cut has lost its function, and is not a leaf
        self.gradient: Array | None = None
        self.stale = False
        self.order = next(_creation)

    def cut(self) -> None:
        """Drop the parents and every array that the backward function saved."""
        self.parents, self.backward, self.saved = (), None, ()

    def accumulate(self, gradient: Gradient) -> None:
        """Add to a leaf's gradient, in place, so that a view of a model's flat buffer stays a view."""
        add = self.gradient is not None and not self.stale
        if self.gradient is None:
            self.gradient, self.stale = np.empty(self.shape, self.dtype), True  # until it is written: that may fail
        if isinstance(gradient, Deferred):
            gradient.write(self.gradient, add)
        elif add:
            self.gradient += gradient
        else:
            self.gradient[...] = gradient
        self.stale = False


def refusing(name: str, like: Array, message: str) -> Node:
    """Return the node of a tensor over an array like this one, at which backward() raises GraphError with a message."""

    def backward(dy: Array) -> None:
        raise GraphError(message)

    return Node(name, like.shape, like.dtype, (), backward)


class _Recording(threading.local):
    enabled = True


_recording = _Recording()


def is_recording() -> bool:
    """Return whether operations are being recorded in this thread."""
    return _recording.enabled


@contextlib.contextmanager
def recording(enabled: bool) -> Iterator[None]:
    """Switch recording on or off in this thread, inside the block."""
    before = _recording.enabled
    _recording.enabled = enabled
    try:
        yield
    finally:
        _recording.enabled = before


class _NoGrad:
    """What `no_grad` returns: a context manager, and a decorator of functions."""

    def __enter__(self) -> None:
        self._block = recording(False)
        self._block.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._block.__exit__(*error)

    def __call__(self, function: Function) -> Function:
        if inspect.isgeneratorfunction(function):
            raise GraphError(
                f"@no_grad() would end before the generator {getattr(function, '__name__', function)} computes its "
                "first value; write `with no_grad():` inside it"
            )
        return recording(False)(function)


def no_grad() -> _NoGrad:
    """Run a block (or, as ``@no_grad()``, a function) without recording: no gradients and no saved arrays.

    Raises GraphError if it decorates a generator function.
    """
    return _NoGrad()


class _Arrived:
    """The gradients that arrived so far at nodes that are still to be visited."""

    def __init__(self) -> None:
        self._gradients: dict[Node, Array] = {}
        self._own: set[Node] = set()  # nodes whose gradient was computed here, so may be changed in place
        self._heap: list[tuple[int, Node]] = []

    def add(self, node: Node, gradient: Gradient) -> None:
        """Add one of the gradients that sum up to that of a node."""
        if node not in self._gradients:
            heapq.heappush(self._heap, (-node.order, node))
            if isinstance(gradient, Deferred):
                gradient = gradient.array()
                self._own.add(node)
            self._gradients[node] = gradient
        elif node not in self._own:  # what arrived may be an array that is used elsewhere, so the sum needs a new one
            array = gradient.array() if isinstance(gradient, Deferred) else gradient
            self._gradients[node] = np.asarray(self._gradients[node] + array)  # the sum of two 0-d arrays is a number
            self._own.add(node)
        elif isinstance(gradient, Deferred):
            gradient.write(self._gradients[node], True)
        else:
            self._gradients[node] += gradient

    def newest_first(self) -> Iterator[tuple[Node, Array]]:
        """Yield and remove the node that was created last, with its gradient, until there is none."""
        while self._heap:
            node = heapq.heappop(self._heap)[1]
            yield node, self._gradients.pop(node)


def run_backward(root: Node, gradient: Array) -> None:
    """Propagate `gradient`, the derivative of the loss with respect to the root's output, back to every leaf.

    A node is visited once, after all nodes that used its output, because only then is its gradient complete. Nodes are
    numbered in the order of their creation, so it suffices to visit the highest number first. A heap gives that order
    without recursion, so the depth of the graph is not limited. Each node is cut when it is visited, which frees the
    arrays it saved.
    """
    if root.is_leaf:
        root.accumulate(gradient)
        return
    arrived = _Arrived()
    arrived.add(root, gradient)
    for node, dy in arrived.newest_first():
        parents = node.parents  # read before the node is cut
        if not observers.active:
            _route(node, parents, _call_backward(node, dy), arrived)
            continue
        with observers.surround(operator.methodcaller("backward", node, dy)) as observed:
            _route(node, parents, observed(_call_backward(node, dy)), arrived)


def _call_backward(node: Node, dy: Array) -> Sequence[Gradient | None]:
    """Run a node's backward function and cut the node."""
    if node.backward is None:
        raise GraphError(
            f"backward() reached {node.name}, whose part of the graph was already used and freed by an earlier "
            "backward(). Run the forward pass again, or add the losses and call backward() once."
        )
    for version, count in node.saved:
        if version.count != count:
            raise GraphError(
                f"{node.name} saved an array for its gradient that was changed in place since "
                f"({version.count - count} change(s)). Change a copy instead, or after backward()."
            )
    backward, expected = node.backward, len(node.parents)
    node.cut()
    returned = backward(dy)
    gradients = returned if isinstance(returned, (tuple, list)) else (returned,)
    if len(gradients) != expected:
        raise GraphError(f"the backward of {node.name} returned {len(gradients)} gradients for {expected} arguments")
    return gradients


def _route(
    node: Node, parents: tuple[Node | None, ...], gradients: Sequence[Gradient | None], arrived: _Arrived
) -> None:
    """Accumulate the gradients of leaves, and pass those of the other parents on."""
    for position, (parent, dx) in enumerate(zip(parents, gradients, strict=True)):
        if parent is None or dx is None:
            continue
        if dx.shape != parent.shape or dx.dtype != parent.dtype:
            dx = _fit(dx, parent, node, position)
        if parent.is_leaf:
            parent.accumulate(dx)
        else:
            arrived.add(parent, dx)


def _fit(gradient: Gradient, parent: Node, node: Node, position: int) -> Gradient:
    """Sum a gradient over the axes along which its argument was broadcast; refuse any other difference."""
    extra = len(gradient.shape) - len(parent.shape)
    sizes = gradient.shape[max(extra, 0) :]
    fits = extra >= 0 and all(size in (1, got) for size, got in zip(parent.shape, sizes, strict=True))
    wrong = "dtype" if gradient.dtype != parent.dtype else "" if fits else "shape"
    if wrong:
        raise ShapeError(
            f"the backward of {node.name} returned a gradient of {wrong} {getattr(gradient, wrong)} for argument "
            f"{position}, whose {wrong} is {getattr(parent, wrong)}"
        )
    return sum_to_shape(gradient.array() if isinstance(gradient, Deferred) else gradient, parent.shape)


def sum_to_shape(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over the axes along which an array of `shape` was broadcast.

    Broadcasting copies an element to many places, so by the chain rule its gradient is the sum over those places.
    """
    extra = gradient.ndim - len(shape)
    sizes = gradient.shape[extra:]
    repeated = (extra + axis for axis, size in enumerate(shape) if size == 1 and sizes[axis] != 1)
    total: Array = gradient.sum(axis=(*range(extra), *repeated), keepdims=True)
    return total.reshape(shape)
