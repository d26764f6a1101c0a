"""Module: a thing with parameters. Parameters are plain attributes; their names are the paths to them.

A model is first a skeleton: inside ``with shapes_only():`` its parameters have shapes but no memory, so a model of any
size can be counted. `Module.initialise` then lays all parameters out in one flat array, and all gradients in another,
so that one kernel call updates or clips everything.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError, ShapeError
from minigrad.random import generator
from minigrad.typing import Array


@dataclass(frozen=True)
class Init:
    """How a parameter starts: normal draws around `mean` with standard deviation `std` (0: all equal)."""

    mean: float = 0.0
    std: float = 0.0

    def fill(self, array: Array, rng: np.random.Generator) -> None:
        """Write starting values into `array`."""
        array[...] = self.mean if self.std == 0 else rng.normal(self.mean, self.std, array.shape)


_skeleton = False
_drawn = 0


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """Make parameters without memory inside the block: they can be counted and named, and initialised later."""
    global _skeleton
    before, _skeleton = _skeleton, True
    try:
        yield
    finally:
        _skeleton = before


class Parameter(Tensor):
    """A tensor that learns: a leaf of the graph, with a rule for its starting values.

    Made alone it is float32 and drawn at once, the n-th parameter of a process always alike. Inside `shapes_only` it
    takes no memory, and gets its values, a function of seed and place, when its model is initialised.
    """

    __slots__ = ("init",)

    def __init__(self, shape: tuple[int, ...], init: Init) -> None:
        global _drawn
        if _skeleton:
            array = np.broadcast_to(np.float32(0), shape)
        else:
            array = np.empty(shape, np.float32)
            init.fill(array, generator(0, "parameter", index=_drawn))
            _drawn += 1
        super().__init__(array, requires_grad=True)
        self.init = init

    def place(self, data: Array, gradient: Array) -> None:
        """Let the parameter live in these arrays from now on."""
        super().__init__(data, requires_grad=True)
        self.grad = gradient


class Module:
    """A part of a model: holds parameters and other modules as plain attributes, or as lists or tuples of modules.

    Calling a module calls its `forward`.
    """

    training = True

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call `forward`."""
        return self.forward(*arguments, **options)

    def forward(self, *arguments: Any, **options: Any) -> Any:
        """Compute the output; every module says how."""
        raise TypeError(f"{type(self).__name__} has no forward of its own")

    def _children(self) -> Iterator[tuple[str, Parameter | Module]]:
        for name, value in vars(self).items():
            if isinstance(value, Parameter | Module):
                yield name, value
            elif isinstance(value, list | tuple):
                for number, item in enumerate(value):
                    if isinstance(item, Parameter | Module):
                        yield f"{name}.{number}", item

    def named_modules(self, prefix: str = "") -> list[tuple[str, Module]]:
        """Return this module and every module inside it with the path to each, outermost first."""
        found: list[tuple[str, Module]] = [(prefix, self)]
        for name, child in self._children():
            if isinstance(child, Module):
                found += child.named_modules(f"{prefix}.{name}" if prefix else name)
        return found

    def named_parameters(self) -> list[tuple[str, Parameter]]:
        """Return every parameter with the path to it; one that is shared is listed once, where it stands first."""
        found: dict[int, tuple[str, Parameter]] = {}
        for path, module in self.named_modules():
            for name, child in module._children():
                if isinstance(child, Parameter):
                    found.setdefault(id(child), (f"{path}.{name}" if path else name, child))
        return list(found.values())

    def parameters(self) -> list[Parameter]:
        """Return every parameter once."""
        return [parameter for _, parameter in self.named_parameters()]

    def num_parameters(self) -> int:
        """Return how many numbers the module learns; a shared (tied) matrix counts once."""
        return sum(math.prod(parameter.shape) for parameter in self.parameters())

    def initialise(self, seed: int = 0, dtype: DTypeLike = "float32", draw: bool = True) -> None:
        """Lay out parameters and gradients in one flat array each, and draw the starting values.

        The values of a parameter are a function of `seed` and its place in the list. Matrices come first and vectors
        last, so that the optimizer finds each kind as one piece. `draw=False` leaves zeros, for weights to be loaded.
        """
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise InputError(f"a model's numbers are float32 or float64, not {np.dtype(dtype)}")
        parameters = self.parameters()
        data, gradients = (np.zeros(self.num_parameters(), dtype) for _ in range(2))
        position = 0
        for parameter in sorted(parameters, key=lambda parameter: parameter.ndim < 2):
            shape = parameter.shape
            stop = position + math.prod(shape)
            parameter.place(data[position:stop].reshape(shape), gradients[position:stop].reshape(shape))
            position = stop
        if draw:
            for index, parameter in enumerate(parameters):
                parameter.init.fill(parameter.data, generator(seed, "initial weights", index=index))

    def state_dict(self) -> dict[str, Array]:
        """Return every parameter's array by name; the arrays are the live ones, not copies."""
        return {name: parameter.data for name, parameter in self.named_parameters()}

    def load_state_dict(self, weights: Mapping[str, Array]) -> None:
        """Copy arrays into the parameters of the same names.

        Raises ShapeError if a name is missing, unknown, or has another shape; then nothing has been changed.
        """
        parameters = dict(self.named_parameters())
        missing, unknown = parameters.keys() - weights.keys(), weights.keys() - parameters.keys()
        if missing or unknown:
            raise ShapeError(f"weights do not fit the model: missing {sorted(missing)}, unknown {sorted(unknown)}")
        for name, parameter in parameters.items():
            if weights[name].shape != parameter.shape:
                raise ShapeError(f"{name} has shape {weights[name].shape}, but the model needs {parameter.shape}")
        for name, parameter in parameters.items():
            parameter.data = weights[name]

    def train(self, training: bool = True) -> Module:
        """Switch this module and all inside it to training (dropout on)."""
        for _, module in self.named_modules():
            module.training = training
        return self

    def eval(self) -> Module:
        """Switch this module and all inside it to evaluation (dropout off)."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Set every gradient to zero."""
        for parameter in self.parameters():
            parameter.zero_grad()
