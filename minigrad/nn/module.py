"""Module: an object with parameters. Parameters are attributes; the name of a parameter is the path to it.

`Module.initialise` places all parameters of a model in one flat array, and all gradients in another, so that one kernel
call updates or clips everything.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from minigrad.autograd import observers
from minigrad.autograd.operators import unwrap
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError, ShapeError
from minigrad.formats.safetensors import save_tensors
from minigrad.formats.weights import check_arrays, read_weights
from minigrad.nn.parameter import Parameter
from minigrad.options import checked_number
from minigrad.random import generator
from minigrad.typing import Array, PathLike


def check_sizes(layer: Module, *, least: int = 1, **sizes: int) -> None:
    """Raise InputError, naming the layer, unless these sizes are whole numbers of at least `least`."""
    for name, size in sizes.items():
        checked_number(f"{name} of {type(layer).__name__}", size, int, at_least=least)


_lock = threading.Lock()
_evaluated: Counter[int] = Counter()
"""By the id of a module that will be in training mode again: the blocks of `in_evaluation` that it is in."""


@contextlib.contextmanager
def in_evaluation(module: Module) -> Iterator[None]:
    """Switch a module to evaluation (dropout off) inside the block; every module in it gets its own mode back.

    Threads may be in such blocks at the same time: the mode comes back after the last one.
    """
    with _lock:
        trained = [each for _, each in module.named_modules() if each.training or id(each) in _evaluated]
        for each in trained:
            each.training = False
            _evaluated[id(each)] += 1
    try:
        yield
    finally:
        with _lock:
            for each in trained:
                _evaluated[id(each)] -= 1
                if not _evaluated[id(each)]:
                    del _evaluated[id(each)]
                    each.training = True


class Module:
    """A part of a model, with parameters and other modules as attributes, or in lists, tuples or dictionaries.

    These may be nested; the path to a parameter names each attribute, index and key. Calling a module calls its
    `forward`. What would silently not be trained, a set of modules or a plain tensor that requires a gradient, is
    refused with an InputError as soon as the parameters are listed.

    >>> from minigrad import nn
    >>> class TwoLayers(nn.Module):
    ...     def __init__(self):
    ...         self.layers = [nn.Linear(8, 4, bias=False), nn.Linear(4, 2)]
    >>> [(name, parameter.shape) for name, parameter in TwoLayers().named_parameters()]
    [('layers.0.weight', (4, 8)), ('layers.1.weight', (2, 4)), ('layers.1.bias', (2,))]
    """

    training = True
    adds_loss = False  # whether `forward` adds to the loss of a training pass (see `minigrad.nn.loss_pass`)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call `forward`, surrounded by the observers in use."""
        if not observers.active:
            return self.forward(*arguments, **options)
        with observers.surround(lambda observer: observer.module(self, arguments)) as observed:
            return observed(self.forward(*arguments, **options))

    def forward(self, *arguments: Any, **options: Any) -> Any:
        """Compute the output; each module implements this."""
        raise TypeError(f"{type(self).__name__} has no forward of its own")

    def idle(self) -> list[Parameter]:
        """Return the parameters of this module that take no part in the computation of one token."""
        return []

    def figures(self) -> dict[str, float | list[float]]:
        """Return numbers, or lists of numbers, of the last training pass, which the training log shows, by name."""
        return {}

    def config_entries(self) -> dict[str, Any]:
        """Return entries of this module in config.json; raises InputError if the module cannot be saved."""
        return {}

    def _children(self) -> Iterator[tuple[str, Parameter | Module]]:
        """Yield the parameters and modules in the attributes, each with its path from here."""
        for name, value in vars(self).items():
            yield from _found_in(name, value, type(self).__name__)

    def __repr__(self) -> str:
        """Return the modules as a tree, with the shapes of their parameters and how many these are."""
        return "\n".join(_tree(self))

    def _title(self) -> str:
        """Return the name of this module in the tree."""
        return type(self).__name__

    def named_modules(self, prefix: str = "") -> list[tuple[str, Module]]:
        """Return this module and every module inside it, each with its path, outermost first."""
        found: list[tuple[str, Module]] = [(prefix, self)]
        for name, child in self._children():
            if isinstance(child, Module):
                found += child.named_modules(".".join(filter(None, (prefix, name))))
        return found

    def named_parameters(self) -> list[tuple[str, Parameter]]:
        """Return every parameter with its path; a shared parameter is listed once, under its first path.

        Raises InputError if two have the same path, as under the keys 1 and "1": one of them would not be saved.
        """
        found: dict[int, tuple[str, Parameter]] = {}
        for path, module in self.named_modules():
            for name, child in module._children():
                if isinstance(child, Parameter):
                    found.setdefault(id(child), (f"{path}.{name}" if path else name, child))
        named = dict(found.values())
        if len(named) < len(found):
            twice = next(name for name, parameter in found.values() if named[name] is not parameter)
            raise InputError(f"two parameters have the path {twice}: give a key or an attribute another name")
        return list(found.values())

    def parameters(self) -> list[Parameter]:
        """Return every parameter once."""
        return [parameter for _, parameter in self.named_parameters()]

    def freeze(self, frozen: bool = True) -> Module:
        """Stop, or with ``frozen=False`` resume, training the parameters of this module and all modules inside it.

        A frozen parameter requires no gradient, so none is computed, and optimizers and clipping skip it; it is saved
        and loaded as before. `initialise` allocates no gradients for parameters that are frozen by then.
        """
        for parameter in self.parameters():
            parameter.requires_grad = not frozen
        return self

    def num_parameters(self) -> int:
        """Return the number of elements of all parameters; a shared (tied) matrix counts once."""
        return sum(parameter.size for parameter in self.parameters())

    def all_idle(self) -> list[Parameter]:
        """Return the parameters that take no part in the computation of a token, of all modules (see `idle`)."""
        return [parameter for _, module in self.named_modules() for parameter in module.idle()]

    def num_active(self) -> int:
        """Return the number of elements of the parameters that take part in the computation of one token."""
        return self.num_parameters() - sum(parameter.size for parameter in self.all_idle())

    def num_trained(self) -> int:
        """Return the number of elements of the parameters that are trained, which are not frozen."""
        return sum(parameter.size for parameter in self.parameters() if parameter.requires_grad)

    def initialise(self, seed: int = 0, dtype: DTypeLike = "float32", draw: bool = True) -> None:
        """Place parameters and gradients in one flat array each, and draw the initial values.

        The values of a parameter are a function of `seed` and its index among the parameters that are placed here
        (see `Parameter.is_placed`). Matrices come first, then vectors, each kind contiguous for the optimizer; frozen
        parameters come last, without gradients. `draw=False` leaves zeros, for weights that will be loaded. Raises
        InputError unless the seed is a whole number of at least 0 and the dtype float32 or float64.
        """
        seed = checked_number("seed", seed, int, at_least=0)
        try:
            name = np.dtype(dtype).name
        except TypeError:  # one that NumPy does not have, such as bfloat16
            name = str(dtype)
        if name not in ("float32", "float64"):
            raise InputError(f"a model's parameters are float32 or float64, not {name}")
        parameters = [parameter for parameter in self.parameters() if parameter.is_placed]
        data = np.zeros(sum(parameter.size for parameter in parameters), dtype)
        gradients = np.zeros(sum(parameter.size for parameter in parameters if parameter.requires_grad), dtype)
        position = 0
        for parameter in sorted(parameters, key=lambda parameter: (not parameter.requires_grad, parameter.ndim < 2)):
            shape = parameter.shape
            stop = position + parameter.size
            gradient = gradients[position:stop].reshape(shape) if parameter.requires_grad else None
            parameter.bind(data[position:stop].reshape(shape), gradient)
            position = stop
        if draw:
            for index, parameter in enumerate(parameters):
                parameter.init.fill(parameter.data, generator(seed, "initial weights", index=index))

    def state_dict(self) -> dict[str, Array]:
        """Return every parameter's array by name; the arrays are not copies."""
        return {name: parameter.data for name, parameter in self.named_parameters()}

    def load_state_dict(self, weights: Mapping[str, ArrayLike | Tensor]) -> None:
        """Copy arrays into the parameters of the same names.

        Raises ShapeError if a name is missing or unknown or has another shape, InputError for an array without numbers
        or a module without memory, as a skeleton is; then no parameter is changed.
        """
        parameters = dict(self.named_parameters())
        missing, unknown = parameters.keys() - weights.keys(), weights.keys() - parameters.keys()
        if missing or unknown:
            raise ShapeError(f"weights do not fit the model: missing {sorted(missing)}, unknown {sorted(unknown)}")
        arrays = {name: np.asarray(unwrap(weights[name])) for name in parameters}
        for name, parameter in parameters.items():
            if arrays[name].shape != parameter.shape:
                raise ShapeError(f"{name} has shape {arrays[name].shape}, but the model needs {parameter.shape}")
            if arrays[name].dtype.kind not in "fiub":
                raise InputError(f"{name} is an array of dtype {arrays[name].dtype}, which holds no numbers")
            if not parameter.data.flags.writeable:
                raise InputError(f"{name} is a placeholder without memory: call initialise() on its model first")
        for name, parameter in parameters.items():
            parameter.data = arrays[name]

    def save_weights(self, path: PathLike) -> None:
        """Write or replace a safetensors file of every parameter, by name; raises RunError if it cannot be written."""
        save_tensors(path, self.state_dict())

    def load_weights(self, path: PathLike) -> None:
        """Read every parameter from a safetensors file, or from a folder with model.safetensors.

        Raises InputError if it is missing or damaged, or does not fit this module; then no parameter is changed.
        """
        weights = read_weights(Path(path))
        check_arrays(weights, {name: parameter.shape for name, parameter in self.named_parameters()})
        self.load_state_dict(weights)

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


def entries_of(model: Module) -> dict[str, Any]:
    """Return the entries of all modules in config.json; raises InputError if one cannot be saved."""
    return {key: entry for _, module in model.named_modules() for key, entry in module.config_entries().items()}


def arrays_of(model: Module) -> dict[str, Array]:
    """Return the arrays of a model by name, as files hold them."""
    stored = ((name, parameter.stored()) for name, parameter in model.named_parameters())
    return {name + suffix: array for name, arrays in stored for suffix, array in arrays.items()}


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
            "make it an nn.Parameter(values), or leave requires_grad off"
        )
    elif isinstance(value, set | frozenset) and any(isinstance(item, Parameter | Module) for item in value):
        raise InputError(
            f"{owner}.{path} is a set, whose elements have no names, so the modules in it would not be trained; use a "
            "list or a dictionary"
        )


def _tree(module: Module) -> list[str]:
    """Return the lines of the tree of a module; equal modules that are numbered one after the other share theirs.

    >>> from minigrad import nn, ops
    >>> nn.Sequential(nn.Linear(2, 8), ops.tanh, nn.Linear(8, 8).freeze(), nn.Linear(8, 8), nn.Linear(8, 8))
    Sequential, 240 parameters
      0: Linear, 24 parameters: weight (8, 2), bias (8,)
      1: tanh
      2: Linear, 72 parameters, frozen: weight (8, 8), bias (8,)
      3 to 4: each Linear, 72 parameters: weight (8, 8), bias (8,)
    """
    count = module.num_parameters()
    frozen = ", frozen" if count and not any(each.requires_grad for each in module.parameters()) else ""
    shapes = ", ".join(f"{name} {child.shape}" for name, child in module._children() if isinstance(child, Parameter))
    title = module._title() + (f", {count:,} parameters" if count else "")
    inside = [(name, _tree(child)) for name, child in module._children() if isinstance(child, Module)]
    lines = [title + frozen + (f": {shapes}" if shapes else "")]
    for _, group in itertools.groupby(enumerate(inside), _series):
        (first, (head, *rest)), *others = (part for _, part in group)
        name = f"{first} to {others[-1][0]}: each " if others else f"{first}: " if first else "around "
        lines += [f"  {name}{head}", *(f"  {line}" for line in rest)]
    return lines


def _series(numbered: tuple[int, tuple[str, list[str]]]) -> tuple[str, int, list[str]]:
    """Return what equal modules have in common if each has the name of the one before, with the next number."""
    place, (name, tree) = numbered
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0) - place, tree
