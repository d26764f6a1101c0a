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

    @property
    def is_leaf(self) -> bool:
        """A parameter is a leaf even while it is frozen."""
        return True

    def bind(self, data: Array, gradient: Array | None = None) -> None:
        """Use `data` as the memory of this parameter from now on, and `gradient` as that of its gradient.

        A parameter that is frozen stays so. The values in `gradient` count only after it is read, as `grad`.
        """
        super().__init__(data, requires_grad=self.requires_grad)
        if self.node is not None:
            self.grad, self.node.has_gradient = gradient, False


class Module:
    """A part of a model, with parameters and other modules as attributes, or in lists, tuples or dictionaries.

    These may be nested; the path to a parameter names each attribute, index and key. Calling a module calls its
    `forward`. What would silently not be trained, a set of modules or a plain tensor that requires a gradient, is
    refused with an InputError as soon as the parameters are listed.

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
            yield from _found_in(name, value, type(self).__name__)

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

    def freeze(self, frozen: bool = True) -> Module:
        """Stop, or with ``frozen=False`` resume, training the parameters of this module and all modules inside it.

        A frozen parameter requires no gradient, so none is computed, and optimizers and clipping skip it; it is saved
        and loaded as before. `initialise` allocates no gradients for parameters that are frozen by then.

        >>> from minigrad import nn
        >>> layer = nn.Linear(2, 3).freeze()
        >>> layer.weight.requires_grad
        False
        """
        for parameter in self.parameters():
            parameter.requires_grad = not frozen
        return self

    def num_parameters(self) -> int:
        """Return the number of elements of all parameters; a shared (tied) matrix counts once."""
        return sum(math.prod(parameter.shape) for parameter in self.parameters())

    def initialise(self, seed: int = 0, dtype: DTypeLike = "float32", draw: bool = True) -> None:
        """Place parameters and gradients in one flat array each, and draw the initial values.

        The values of a parameter are a function of `seed` and its index in `parameters()`. Matrices come first and
        vectors after them, so that each kind is contiguous for the optimizer; frozen parameters come last, and have no
        gradient. `draw=False` leaves zeros, for weights that will be loaded. Raises InputError for a dtype other than
        float32 and float64.
        """
        if np.dtype(dtype) not in (np.float32, np.float64):
            raise InputError(f"a model's parameters are float32 or float64, not {np.dtype(dtype)}")
        parameters = self.parameters()
        trained = sum(math.prod(parameter.shape) for parameter in parameters if parameter.requires_grad)
        data, gradients = np.zeros(self.num_parameters(), dtype), np.zeros(trained, dtype)
        position = 0
        for parameter in sorted(parameters, key=lambda parameter: (not parameter.requires_grad, parameter.ndim < 2)):
            shape = parameter.shape
            stop = position + math.prod(shape)
            gradient = gradients[position:stop].reshape(shape) if parameter.requires_grad else None
            parameter.bind(data[position:stop].reshape(shape), gradient)
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


def _found_in(path: str, value: Any, owner: str) -> Iterator[tuple[str, Parameter | Module]]:
    """Yield the parameters and modules in the value of an attribute, each with its path."""
    if isinstance(value, Parameter | Module):
        yield path, value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _found_in(f"{path}.{index}", item, owner)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _found_in(f"{path}.{key}", item, owner)
    elif isinstance(value, Tensor) and value.is_leaf:
        raise InputError(
            f"{owner}.{path} is a Tensor that requires a gradient, but not a Parameter, so it would not be trained; "
            "make it with nn.Parameter(shape, nn.Init(...)), or leave requires_grad off"
        )
    elif isinstance(value, set | frozenset) and any(isinstance(item, Parameter | Module) for item in value):
        raise InputError(
            f"{owner}.{path} is a set, whose elements have no names, so the modules in it would not be trained; use a "
            "list or a dictionary"
        )
