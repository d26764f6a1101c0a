"""Parameter: a tensor that training changes, with a rule for its initial values.

Inside ``with shapes_only():`` parameters have shapes but no memory, so a model of any size can be built as a skeleton
and its parameters counted.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.options import checked_number
from minigrad.random import generator
from minigrad.typing import Array


@dataclass(frozen=True)
class Init:
    """The initial values of a parameter: normal draws around `mean` with standard deviation `std` (0: all equal)."""

    mean: float = 0.0
    std: float = 0.0

    def __post_init__(self) -> None:
        checked_number("the mean of initial values", self.mean)
        checked_number("the standard deviation of initial values", self.std, at_least=0)

    def fill(self, array: Array, rng: np.random.Generator) -> None:
        """Overwrite `array` with initial values drawn from `rng`."""
        array[...] = self.mean if self.std == 0 else rng.normal(self.mean, self.std, array.shape)


class Given(NamedTuple):
    """The initial values of a parameter that was made from an array: the values of that array."""

    values: Array

    def fill(self, array: Array, rng: np.random.Generator) -> None:
        """Write the values into `array`."""
        array[...] = self.values


class _Mode(threading.local):
    skeleton = False


_mode = _Mode()
_drawn = 0


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """Make parameters without memory inside the block; `Module.initialise` gives them memory later."""
    before, _mode.skeleton = _mode.skeleton, True
    try:
        yield
    finally:
        _mode.skeleton = before


class Parameter(Tensor):
    """A tensor that training changes: a leaf of the graph, with a rule for its initial values.

    ``Parameter(values)`` begins with a copy of an array or a list of numbers; ``Parameter(shape, Init(...))`` with
    draws, which depend only on how many parameters the process has drawn before. Both are float32, until
    `Module.initialise` is given another dtype. Inside `shapes_only` a parameter takes no memory, and
    `Module.initialise` sets its values. Raises InputError for values that are not numbers.

    >>> Parameter([0.5, 2.0])
    Parameter([0.5 2. ], dtype=float32, requires_grad=True)
    """

    __slots__ = ("init",)

    is_placed = True
    """Whether `Module.initialise` places the values in a model's flat array, or leaves them in memory of their own."""

    def __init__(self, values: ArrayLike | Tensor | tuple[int, ...], init: Init | None = None) -> None:
        global _drawn
        rule: Init | Given
        if init is None:
            given = Tensor(values).data
            rule, shape = Given(given.astype(np.float32)), given.shape
        else:
            rule, shape = init, _checked_shape(values)
        if _mode.skeleton:
            array = np.broadcast_to(np.float32(0), shape)
        else:
            array = np.empty(shape, np.float32)
            rule.fill(array, generator(0, "parameter", index=_drawn))
            _drawn += init is not None
        super().__init__(array, requires_grad=True)
        self.init = rule

    @property
    def is_leaf(self) -> bool:
        """A parameter is a leaf even while it is frozen."""
        return True

    @property
    def has_memory(self) -> bool:
        """Whether it has memory for its values; in a skeleton (`shapes_only`) all elements are one read-only number."""
        return any(self.data.strides) or self.data.flags.writeable

    def stored(self) -> dict[str, Array]:
        """Return the arrays that a file holds of the parameter, by what follows its name there."""
        return {"": self.data}

    def bind(self, data: Array, gradient: Array | None = None) -> None:
        """Use `data` as the memory of this parameter from now on, and `gradient` as the memory of its gradient.

        A parameter that is frozen stays so. The values in `gradient` do not count: the first gradient overwrites them,
        and reading `grad` writes zeros.
        """
        super().__init__(data, requires_grad=self.requires_grad)
        if self.node is not None:
            self.grad = gradient
            self.discard_grad()


def _checked_shape(shape: object) -> tuple[int, ...]:
    if not isinstance(shape, tuple) or not all(isinstance(size, int | np.integer) for size in shape):
        raise InputError(
            f"with an Init, a Parameter takes its shape, such as (2, 3), not {type(shape).__name__}; a parameter with "
            "given values is Parameter(values)"
        )
    if any(size < 0 for size in shape):
        raise InputError(f"the sizes of a Parameter are at least 0, not {shape}")
    return shape
