"""Module: an object with parameters. Parameters are attributes; the name of a parameter is the path to it.

Inside ``with shapes_only():`` a model is built as a skeleton, whose parameters have shapes but no memory, so the
parameters of a model of any size can be counted. `Module.initialise` then places all parameters in one flat array, and
all gradients in another, so that one kernel call updates or clips everything.
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
    """The initial values of a parameter: normal draws around `mean` with standard deviation `std` (0: all equal)."""

    mean: float = 0.0
    std: float = 0.0

    def fill(self, array: Array, rng: np.random.Generator) -> None:
        """Write initial values into `array`."""
        array[...] = self.mean if self.std == 0 else rng.normal(self.mean, self.std, array.shape)


_skeleton = False
_drawn = 0


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """Make parameters without memory inside the block; `Module.initialise` gives them memory later."""
    global _skeleton
    before, _skeleton = _skeleton, True
    try:
        yield
    finally:
        _skeleton = before


class Parameter(Tensor):
    """A tensor that training changes: a leaf of the graph, with a rule for its initial values.

    It is float32, and its initial values are drawn at once; they depend only on how many parameters the process has
    drawn before. Inside `shapes_only` it takes no memory, and `Module.initialise` draws its values.
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

    def bind(self, data: Array, gradient: Array) -> None:
        """Use `data` as the memory of this parameter from now on, and `gradient` as that of its gradient."""
        super().__init__(data, requires_grad=True)
        self.grad = gradient


class Module:
    """A part of a model, with parameters and other modules as attributes, or in lists or tuples that are attributes.

    Calling a module calls its `forward`.

    >>> from minigrad import nn
    >>> class TwoLayers(nn.Module):
    ...     def __init__(self):
    ...         self.layers = [nn.Linear(8, 4), nn.Linear(4, 2)]
    >>> [(name, parameter.shape) for name, parameter in TwoLayers().named_parameters()]
    [('layers.0.weight', (4, 8)), ('layers.1.weight', (2, 4))]
    """

    training = True

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call `forward`."""
        return self.forward(*arguments, **options)

    def forward(self, *arguments: Any, **options: Any) -> Any:
        """Compute the output; each module implements this."""
        raise TypeError(f"{type(self).__name__} has no forward of its own")

    def _children(self) -> Iterator[tuple[str, Parameter | Module]]:
        for name, value in vars(self).items():
            if isinstance(value, Parameter | Module):
                yield name, value
            elif isinstance(value, list | tuple):
                for index, item in enumerate(value):
                    if isinstance(item, Parameter | Module):
                        yield f"{name}.{index}", item

    def named_modules(self, prefix: str = "") -> list[tuple[str, Module]]:
        """Return this module and every module inside it, each with its path, outermost first."""
        found: list[tuple[str, Module]] = [(prefix, self)]
        for name, child in self._children():
            if isinstance(child, Module):
                found += child.named_modules(f"{prefix}.{name}" if prefix else name)
        return found

    def named_parameters(self) -> list[tuple[str, Parameter]]:
        """Return every parameter with its path; a shared parameter is listed once, under its first path."""
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
        """Return the number of elements of all parameters; a shared (tied) matrix counts once."""
        return sum(math.prod(parameter.shape) for parameter in self.parameters())

    def initialise(self, seed: int = 0, dtype: DTypeLike = "float32", draw: bool = True) -> None:
        """Place parameters and gradients in one flat array each, and draw the initial values.

        The values of a parameter are a function of `seed` and its index in `parameters()`. Matrices come first and
        vectors last, so that each kind is contiguous for the optimizer. `draw=False` leaves zeros, for weights that
        will be loaded. Raises InputError for a dtype other than float32 and float64.
        """
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise InputError(f"a model's parameters are float32 or float64, not {np.dtype(dtype)}")
        parameters = self.parameters()
        data, gradients = (np.zeros(self.num_parameters(), dtype) for _ in range(2))
        position = 0
        for parameter in sorted(parameters, key=lambda parameter: parameter.ndim < 2):
            shape = parameter.shape
            stop = position + math.prod(shape)
            parameter.bind(data[position:stop].reshape(shape), gradients[position:stop].reshape(shape))
            position = stop
        if draw:
            for index, parameter in enumerate(parameters):
                parameter.init.fill(parameter.data, generator(seed, "initial weights", index=index))

    def state_dict(self) -> dict[str, Array]:
        """Return every parameter's array by name; the arrays are not copies."""
        return {name: parameter.data for name, parameter in self.named_parameters()}

    def load_state_dict(self, weights: Mapping[str, Array]) -> None:
        """Copy arrays into the parameters of the same names.

        Raises ShapeError if a name is missing or unknown or has another shape; then no parameter is changed.
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
        """Switch this module and all modules inside it to training (dropout on)."""
        for _, module in self.named_modules():
            module.training = training
        return self

    def eval(self) -> Module:
        """Switch this module and all modules inside it to evaluation (dropout off)."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Set every gradient to zero."""
        for parameter in self.parameters():
            parameter.zero_grad()
