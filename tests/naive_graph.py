"""A gradient engine that is simple enough to verify by reading: the reference for the real one.

Every value holds its parents and, for each, the rule that computes the parent's gradient from its own. All values are
float64 and are never freed; the backward pass is a recursive depth-first search. In-place changes are counted per block
of memory, and a value records the counts of the arrays that its gradient needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
Rule = Callable[[Array], Array]


class Memory:
    """A block of memory that several values may share."""

    def __init__(self) -> None:
        self.changes = 0


class Value:
    """An array and the values it was computed from."""

    def __init__(
        self,
        array: ArrayLike,
        parents: Iterable[tuple[Value, Rule]] = (),
        needs: Iterable[Value] = (),
        memory: Memory | None = None,
        requires_grad: bool = False,
        recording: bool = True,
        needs_itself: bool = False,
    ) -> None:
        self.array = np.asarray(array)
        self.memory = memory or Memory()
        self.parents = [(parent, rule) for parent, rule in parents if recording and parent.requires_grad]
        self.requires_grad = requires_grad or bool(self.parents)
        self.gradient: Array | None = None
        self.used = False  # by an earlier backward
        needed = [value.memory for value in needs] + [self.memory] * needs_itself
        self.needs = [(memory, memory.changes) for memory in needed]

    @property
    def is_leaf(self) -> bool:
        return not self.parents

    def ancestors(self) -> list[Value]:
        """Return every value that receives a gradient, this one first, each before its parents."""
        found: dict[int, Value] = {}

        def visit(value: Value) -> None:
            if id(value) not in found:
                for parent, _ in value.parents:
                    visit(parent)
                found[id(value)] = value

        visit(self)
        return list(reversed(found.values()))

    def can_run_backward(self) -> bool:
        """Whether no computed ancestor was used by an earlier backward, and no array that it needs was changed."""
        computed = [value for value in self.ancestors() if not value.is_leaf]
        return not any(
            value.used or any(memory.changes != count for memory, count in value.needs) for value in computed
        )

    def backward(self, gradient: Array) -> None:
        gradients = {id(self): gradient}
        for value in self.ancestors():
            dy = gradients[id(value)]
            if value.is_leaf:
                value.gradient = dy if value.gradient is None else value.gradient + dy
            value.used = not value.is_leaf
            for parent, rule in value.parents:
                dx = sum_to_shape(rule(dy), parent.array.shape)
                gradients[id(parent)] = gradients.get(id(parent), 0) + dx


def sum_to_shape(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over the axes along which its argument was broadcast."""
    while gradient.ndim > len(shape):
        gradient = gradient.sum(axis=0)
    for axis, size in enumerate(shape):
        if size == 1:
            gradient = gradient.sum(axis=axis, keepdims=True)
    return gradient
