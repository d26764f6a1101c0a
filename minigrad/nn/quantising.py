"""Quantising a model: its layers keep their matrices in a smaller format."""

from __future__ import annotations

import numpy as np

from minigrad.errors import InputError
from minigrad.kernels.decoding.lines import CODES
from minigrad.nn.layers import Conv1D, Embedding, Linear
from minigrad.nn.module import Module
from minigrad.nn.quantised import QuantisedParameter
from minigrad.options import nearest
from minigrad.system import hardware


def check_format(name: str) -> None:
    """Raise InputError for a format that does not exist, naming the closest."""
    if name not in CODES:
        guess = nearest(name, CODES)
        hint = f"; did you mean {guess}?" if guess else ""
        raise InputError(f"weights can be stored as {', '.join(CODES)}, not as {name}{hint}")


def quantise(model: Module, format: str) -> None:
    """Keep the matrices of all linear layers and embeddings in a format: float16, bfloat16, int8 or int4.

    What else a model has, such as the weights of norms, is float32. The model cannot be trained afterwards.
    The matrices of a skeleton are rounded when they are set. Raises InputError for a format that does not exist, for a
    model that computes in float64 or is quantised, and for weights that the format cannot hold.

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
    model.freeze()
    is_skeleton = not any(any(parameter.data.strides) for parameter in model.parameters())
    shared: dict[int, QuantisedParameter] = {}
    for _, module in model.named_modules():
        if isinstance(module, Linear | Conv1D | Embedding):
            weight = module.weight
            if id(weight) not in shared:
                shared[id(weight)] = QuantisedParameter(weight, format, transposed=isinstance(module, Conv1D))
            module.weight = shared[id(weight)]
    if not is_skeleton:  # the others leave the array that they shared with the matrices, so that it is freed
        rest = [parameter for parameter in model.parameters() if parameter.packed is None]
        values = [parameter.data.copy() for parameter in rest]
        model.initialise(draw=False)
        for parameter, value in zip(rest, values, strict=True):
            parameter.data = value
        hardware.give_back_memory()


def format_of(model: Module) -> str | None:
    """Return the format of the matrices of a model, or None if they are floats of its dtype."""
    found = (parameter.packed for parameter in model.parameters() if parameter.packed is not None)
    packed = next(found, None)
    return None if packed is None else packed.format
