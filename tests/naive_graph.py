"""A gradient engine so plain that it can be checked by eye: what the real one is compared with.

Every value remembers its parents and, for each, what turns its own gradient into the parent's. Everything is float64
and kept for ever; the walk is a recursive depth-first search. In-place changes are counted per piece of memory, and a
value notes the count of whatever its gradient needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
Rule = Callable[[Array], Array]


class Memory:
    """A piece of memory that several values may share."""

    def __init__(self) -> None:
        self.changes = 0


class Value:
    """An array and how it came about."""

    def __init__(
        self,
        array: ArrayLike,
        parents: Iterable[tuple[Value, Rule]] = (),
        needs: Iterable[Value] = (),
        memory: Memory | None = None,
        learns: bool = False,
        recording: bool = True,
        needs_itself: bool = False,
    ) -> None:
        self.array = np.asarray(array)
        self.memory = memory or Memory()
        self.parents = [(parent, rule) for parent, rule in parents if recording and parent.learns]
        self.learns = learns or bool(self.parents)
        self.gradient: Array | None = None
        self.used = False  # by an earlier backward
        needed = [value.memory for value in needs] + [self.memory] * needs_itself
        self.needs = [(memory, memory.changes) for memory in needed]

    @property
    def is_leaf(self) -> bool:
        return not self.parents

    def ancestors(self) -> list[Value]:
        """Return every value that the gradient passes, this one first, users before what they use."""
        found: dict[int, Value] = {}

        def visit(value: Value) -> None:
            if id(value) not in found:
                for parent, _ in value.parents:
                    visit(parent)
                found[id(value)] = value

        visit(self)
        return list(reversed(found.values()))

    def can_go_back(self) -> bool:
        """Whether nothing on the way was used before, or changed after it was saved."""
        steps = [value for value in self.ancestors() if not value.is_leaf]
        return not any(value.used or any(memory.changes != count for memory, count in value.needs) for value in steps)

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
    """Undo broadcasting: add over axes that were added or stretched."""
    while gradient.ndim > len(shape):
        gradient = gradient.sum(axis=0)
    for axis, size in enumerate(shape):
        if size == 1:
            gradient = gradient.sum(axis=axis, keepdims=True)
    return gradient
