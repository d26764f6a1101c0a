"""The basic layers: a matrix, an embedding, two norms, dropout, and layers one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minigrad import ops
from minigrad.autograd.gradients import Version
from minigrad.autograd.graph import is_recording
from minigrad.autograd.observers import composite
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.nn.module import Module, check_sizes
from minigrad.nn.parameter import Init, Parameter
from minigrad.ops.dropout import check_probability
from minigrad.ops.norm import check_eps
from minigrad.typing import Array


class Linear(Module):
    r"""A matrix applied to every row, $y = x W^T + b$; the weight is stored ``[out, in]``.

    Shapes: x (..., in) -> (..., out).  `std` is that of the initial weights; by default $1/\sqrt{in}$ (LeCun et al.
    1998, "Efficient BackProp", eq. 16). The bias begins at 0. Raises InputError, as all layers do, for unusable sizes.

    >>> from minigrad import Tensor
    >>> Linear(3, 2)(Tensor([[1.0, 2.0, 3.0]])).shape
    (1, 2)
    """

    inputs_first = False  # the weight is stored (out, in)

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True, std: float | None = None) -> None:
        check_sizes(self, least=0, inputs=inputs, outputs=outputs)
        self.weight = Parameter((outputs, inputs), Init(std=1 / math.sqrt(max(inputs, 1)) if std is None else std))
        self.bias = Parameter((outputs,), Init()) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Apply the matrix, and the bias if there is one."""
        return ops.linear(x, self.weight, self.bias)


class Conv1D(Module):
    """A matrix and a bias, $y = x W + b$, with the weight stored ``[in, out]`` and the name of GPT-2's published code.

    Shapes: x (..., in) -> (..., out).
    """

    inputs_first = True  # the weight is stored (in, out)
    _copy: tuple[tuple[Version, int], Array] | None = None  # the version of the matrix, and a copy of that

    def __init__(self, inputs: int, outputs: int, *, std: float = 0.02) -> None:
        check_sizes(self, least=0, inputs=inputs, outputs=outputs)
        self.weight = Parameter((inputs, outputs), Init(std=std))
        self.bias = Parameter((outputs,), Init())

    def lines(self) -> Array:
        """Return the matrix with one line for each output, (out, in): a cached copy, which is read faster."""
        version = self.weight.version, self.weight.version.count
        if self._copy is None or self._copy[0] != version:
            self._copy = version, np.ascontiguousarray(self.weight.data.T)
        return self._copy[1]

    @composite
    def forward(self, x: Tensor) -> Tensor:
        """Apply the matrix and the bias."""
        if is_recording():
            self._copy = None  # training is about to change the matrix, and needs the memory
        return ops.linear(x, self.weight, self.bias, inputs_first=self.inputs_first)


class Embedding(Module):
    """A table with one row per token, which may also be the head: ids (...) -> (..., width) (see `ops.embedding`)."""

    def __init__(self, vocab_size: int, width: int, *, std: float = 0.02) -> None:
        check_sizes(self, vocab_size=vocab_size, width=width)
        self.weight = Parameter((vocab_size, width), Init(std=std))

    def forward(self, ids: Tensor) -> Tensor:
        """Look up the rows."""
        return ops.embedding(self.weight, ids)

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits $x W^T$: x (rows, width) -> (rows, V)."""
        return ops.linear(x, self.weight)

    def factors(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x and W, whose product x W^T is the logits, for a loss that computes them in parts."""
        return x, self.weight

    def copied(self) -> int:
        """Return how many elements `factors` copies: none, unless it returns another matrix than the weight."""
        return 0


class Head(Embedding):
    """The matrix of the logits, $x W^T$, where it is not the embedding: a table with one row per token as well."""

    def __init__(self, width: int, vocab_size: int, *, std: float = 0.02) -> None:
        super().__init__(vocab_size, width, std=std)


class RMSNorm(Module):
    """Each row divided by its root mean square, times a learned weight per element (see `ops.rms_norm`).

    >>> from minigrad import Tensor
    >>> RMSNorm(2, eps=0.0)(Tensor([[5.0, -5.0]])).data.round(3).tolist()
    [[1.0, -1.0]]
    """

    def __init__(self, width: int, *, eps: float = 1e-5) -> None:
        check_sizes(self, width=width)
        check_eps(type(self).__name__, eps)
        self.weight = Parameter((width,), Init(mean=1.0))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each row."""
        return ops.rms_norm(x, self.weight, eps=self.eps)


class LayerNorm(Module):
    """Each row shifted to mean 0 and scaled to variance 1, times a weight plus a bias (see `ops.layer_norm`).

    >>> from minigrad import Tensor
    >>> LayerNorm(2, eps=0.0)(Tensor([[4.0, 6.0]])).data.round(3).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(self, width: int, *, eps: float = 1e-5) -> None:
        check_sizes(self, width=width)
        check_eps(type(self).__name__, eps)
        self.weight = Parameter((width,), Init(mean=1.0))
        self.bias = Parameter((width,), Init())
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each row."""
        return ops.layer_norm(x, self.weight, self.bias, eps=self.eps)


class Function(Module):
    """A plain function as a module, such as an activation function in a `Sequential`."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Call the function."""
        return self.function(x)

    def _title(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


class Sequential(Module):
    """Layers that are called one after the other: modules, or plain functions of a tensor.

    The parameters of layer i are named ``i.weight`` and so on. Raises InputError for an object that cannot be called.

    >>> from minigrad import Tensor, ops
    >>> model = Sequential(Linear(2, 8), ops.tanh, Linear(8, 1))
    >>> model(Tensor([[1.0, 2.0]])).shape
    (1, 1)
    >>> list(model.state_dict())
    ['0.weight', '0.bias', '2.weight', '2.bias']
    """

    def __init__(self, *layers: Module | Callable[[Tensor], Tensor]) -> None:
        for layer in layers:
            if not callable(layer):
                own, kind = type(self).__name__, type(layer).__name__
                raise InputError(
                    f"{own} takes modules and functions as arguments, not a {kind}; a list is given as {own}(*layers)"
                )
        self.layers = [layer if isinstance(layer, Module) else Function(layer) for layer in layers]

    def _children(self) -> Iterator[tuple[str, Parameter | Module]]:
        return ((name.removeprefix("layers."), child) for name, child in super()._children())

    def __getitem__(self, index: int) -> Module:
        return self.layers[index]

    def __len__(self) -> int:
        return len(self.layers)

    def forward(self, x: Tensor) -> Tensor:
        """Call every layer with the output of the one before."""
        for layer in self.layers:
            x = layer(x)
        return x


class Residual(Sequential):
    """Layers whose output is added to their input, $y = x + f(x)$ (He et al. 2015, arXiv 1512.03385)."""

    def forward(self, x: Tensor) -> Tensor:
        """Add the output of the layers to x."""
        return x + super().forward(x)


class Dropout(Module):
    """Elements set to 0 with a given probability in training, and unchanged at evaluation (see `ops.dropout`).

    The choice is a function of seed, step, the layer's index and the place in the batch. A training loop of your own
    calls ``nn.set_step(nn.dropouts(model), seed, step)`` before each step: without it, the same elements are dropped in
    every step, and in all layers of equal width.
    """

    def __init__(self, probability: float) -> None:
        check_probability(probability)
        self.probability = probability
        self.seed = self.step = self.index = self.first_row = 0

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements in training; return the input at evaluation."""
        draws = self.draws()
        return ops.dropout(x, probability=draws.pop("dropout"), **draws) if draws else x

    def draws(self) -> dict[str, Any]:
        """Return the options with which `ops.attention` drops probabilities; none at evaluation."""
        if not self.training or self.probability == 0:
            return {}
        stream = {"seed": self.seed, "step": self.step, "index": self.index, "first_row": self.first_row}
        return {"dropout": self.probability, **stream}


def dropouts(model: Module) -> list[Dropout]:
    """Return every dropout layer of a model, in order; they are numbered by `set_step`."""
    return [module for _, module in model.named_modules() if isinstance(module, Dropout)]


def set_step(layers: Sequence[Dropout], seed: int, step: int, first_row: int = 0) -> None:
    """Set what determines the masks of all dropout layers of a model (`dropouts`): seed, step, and the layer's index.

    If the model is given a part of the batch, `first_row` is the place of its first row in the whole batch: the part
    then has the masks that it has in the whole.
    """
    for index, layer in enumerate(layers):
        layer.seed, layer.step, layer.index, layer.first_row = seed, step, index, first_row
