"""Quantising a model: modules with matrices in a smaller format take the places of its layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.formats.huggingface import QUANTISATION
from minigrad.kernels.decoding.lines import CODES
from minigrad.nn.layers import Conv1D, Embedding, Linear
from minigrad.nn.module import Module
from minigrad.nn.parameter import Parameter
from minigrad.nn.replacing import Wrapper, replace
from minigrad.options import unknown
from minigrad.quantised.parameter import QuantisedParameter, quantised_embedding, quantised_linear, refuse_training
from minigrad.system import hardware

LAYERS = Linear | Conv1D | Embedding
"""The layers whose matrices are rounded."""

METHOD, VERSION = "minigrad", 1
"""How config.json names the program that quantised a model, and the version of its formats."""


class _Quantised(Module):
    """A module with a matrix in a smaller format."""

    weight: QuantisedParameter

    def config_entries(self) -> dict[str, Any]:
        """Return the name of the format."""
        return {QUANTISATION: {"quant_method": METHOD, "format": self.weight.packed.format, "version": VERSION}}


class QuantisedLinear(_Quantised):
    """A replacement of a `Linear` or a `Conv1D`: $y = x W^T + b$ with a rounded W.

    Shapes: x (..., in) -> (..., out).
    """

    def __init__(self, weight: QuantisedParameter, bias: Parameter | None = None) -> None:
        self.weight, self.bias = weight, bias

    @property
    def inputs_first(self) -> bool:
        """Whether the layer that it replaces stores its weight (in, out)."""
        return self.weight.transposed

    def forward(self, x: Tensor) -> Tensor:
        """Apply the matrix, and the bias if there is one."""
        return quantised_linear(x, self.bias, matrix=self.weight.packed)


class QuantisedEmbedding(_Quantised, Embedding):
    """A replacement of an `Embedding`, as a table of rows and as the head.

    Shapes: ids (...) -> (..., width).
    """

    weight: QuantisedParameter

    def __init__(self, weight: QuantisedParameter) -> None:
        self.weight = weight

    def forward(self, ids: Tensor) -> Tensor:
        """Look up the rows."""
        return quantised_embedding(ids, matrix=self.weight.packed)

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits $x W^T$: x (rows, width) -> (rows, V)."""
        return quantised_linear(x, matrix=self.weight.packed)

    def factors(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x and W of the logits; without adapters, backward() of a loss of these raises GraphError."""
        return refuse_training(x, self.weight.packed.format), Tensor(self.weight.data)


def check_format(name: str) -> None:
    """Raise InputError for a format that does not exist, naming the closest."""
    if name not in CODES:
        raise unknown("format of weights", name, CODES)


def is_skeleton(model: Module) -> bool:
    """Return whether none of the parameters that `initialise` places has memory, as inside `shapes_only`."""
    placed = [parameter for parameter in model.parameters() if parameter.is_placed]
    return bool(placed) and not any(parameter.has_memory for parameter in placed)


def quantise(model: Module, format: str) -> None:
    """Keep the matrices of all linear layers and embeddings in a format: float16, bfloat16, int8 or int4.

    Everything else, such as the weights of norms, stays float32. The model cannot be trained afterwards.
    The matrices of a skeleton are rounded when they are set. Raises InputError for a format that does not exist, for a
    model that computes in float64, is quantised or has adapters, and for weights that the format cannot hold.

    >>> import models
    >>> model = models.build("vidya-v2", size="nano")
    >>> quantise(model, "int8")
    >>> format_of(model), model.head().packed.elements.dtype
    ('int8', dtype('uint8'))
    """
    check_format(format)
    if (found := format_of(model)) is not None:
        raise InputError(f"the model is stored as {found}: its weights cannot be rounded again to {format}")
    if any(parameter.dtype != np.float32 for parameter in model.parameters()):
        raise InputError(f"a model that computes in float64 cannot be stored as {format}; load it as float32")
    wrapped = {name for name, module in model.named_modules() if isinstance(module, Wrapper)}
    if lost := [name for name, module in model.named_modules() if name in wrapped and isinstance(module, LAYERS)]:
        raise InputError(
            f"something was added to {lost[0]}, such as adapters, and would be lost: round the model first, or merge "
            "the adapters before (adapters.merge)"
        )
    if isinstance(model, LAYERS):
        raise InputError(f"quantise takes a model with layers inside it, not a single {type(model).__name__}")
    skeleton = is_skeleton(model)
    shared, quantised = dict[int, QuantisedParameter](), dict[str, Module]()
    for name, module in model.named_modules():
        if isinstance(module, LAYERS):
            if (number := id(module.weight)) not in shared:
                is_conv = isinstance(module, Conv1D)
                shared[number] = QuantisedParameter(module.weight, format, is_conv, f"{name}.weight")
            weight = shared[number]
            if isinstance(module, Embedding):
                quantised[name] = QuantisedEmbedding(weight)
            else:
                quantised[name] = QuantisedLinear(weight, module.bias)
    model.freeze()  # after the rounding, which may refuse a matrix
    replace(model, quantised)
    if not skeleton:  # the others leave the array that they shared with the matrices, so that it is freed
        rest = [parameter for parameter in model.parameters() if parameter.is_placed]
        values = [parameter.data.copy() for parameter in rest]
        model.initialise(draw=False)
        for parameter, value in zip(rest, values, strict=True):
            parameter.data = value
        hardware.give_back_memory()


def format_of(model: Module) -> str | None:
    """Return the format of the matrices of a model, or None if they are floats of its dtype."""
    formats = (each.packed.format for each in model.parameters() if isinstance(each, QuantisedParameter))
    return next(formats, None)
