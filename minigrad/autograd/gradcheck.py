"""Check gradients against central differences.

The central difference $(f(x + h) - f(x - h)) / 2h$ has an error of about $h^2$, and one of about $10^{-16} / h$ from
rounding; in float64 with $h = 10^{-6}$ both are small. In a small input each element is changed on its own. A large
input is changed along a single random direction d, and the difference must equal $\\nabla f \\cdot d$. That takes two
evaluations for any size.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from minigrad.autograd.graph import no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.random import generator
from minigrad.typing import Array


class GradientError(AssertionError):
    """A gradient differs from the central difference; the message says where and by how much."""


def check(
    function: Callable[..., Tensor],
    *arrays: Array,
    step: float = 1e-6,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    seed: int = 0,
    small: int = 64,
) -> None:
    """Compare the gradients of `function` with respect to its float64 arguments with central differences.

    `function` takes one Tensor per array and returns a Tensor of any shape. If it has several elements, the slopes are
    those of their sum with fixed random weights, so that each of them counts. An array of at most `small` elements is
    checked one element at a time. Arrays of integers are not checked.
    Raises GradientError naming the operation, argument and index, with both values; TypeError for float32 arrays, and
    if no array is float64, because nothing would be checked.

    >>> check(lambda x: x.exp() / x, np.array([0.5, 2.0]))
    """
    for array in arrays:
        if array.dtype.kind == "f" and array.dtype != np.float64:
            raise TypeError(
                f"gradcheck needs float64 arrays, not {array.dtype}: rounding would exceed the errors to be found"
            )
    if not any(array.dtype == np.float64 for array in arrays):
        kinds = ", ".join(str(array.dtype) for array in arrays)
        raise TypeError(f"gradcheck needs a float64 array, and there is only {kinds or 'no array'}: nothing is checked")
    with no_grad():
        shape = function(*map(Tensor, arrays)).shape
    is_single = math.prod(shape) == 1
    weights = np.ones(shape) if is_single else generator(seed, "gradcheck weights").uniform(0.5, 1.5, shape)
    name, gradients = _analytic(function, arrays, weights)

    def result(position: int, array: Array) -> Array:
        changed = [*arrays[:position], array, *arrays[position + 1 :]]
        with no_grad():
            return function(*map(Tensor, changed)).data

    for position, (array, gradient) in enumerate(zip(arrays, gradients, strict=True)):
        if gradient is None:
            continue
        for label, direction in _directions(array, seed + position, small):
            plus, minus = result(position, array + step * direction), result(position, array - step * direction)
            # Subtracted before they are summed: the rounding of a large sum would hide a small difference.
            expected = float(np.vdot(weights, plus - minus)) / (2 * step)
            got = float(np.vdot(gradient, direction))
            if not abs(got - expected) <= atol + rtol * max(abs(got), abs(expected)):
                of_sum = " (of the sum of all outputs, each times a random weight)" if weights.size > 1 else ""
                raise GradientError(
                    f"gradient of {name}, argument {position} of shape {array.shape}, {label}: got {got:.10g}, "
                    f"expected {expected:.10g}{of_sum}"
                )


def _analytic(
    function: Callable[..., Tensor], arrays: tuple[Array, ...], weights: Array
) -> tuple[str, list[Array | None]]:
    tensors = [Tensor(array.copy(), requires_grad=array.dtype.kind == "f") for array in arrays]
    result = function(*tensors)
    name = result.node.name if result.node is not None else getattr(function, "__name__", "function")
    if result.requires_grad:
        result.backward(weights)
    zeros = (np.zeros_like(a) if a.dtype.kind == "f" else None for a in arrays)
    return name, [zero if t.grad is None else t.grad for t, zero in zip(tensors, zeros, strict=True)]


def _directions(array: Array, seed: int, small: int) -> list[tuple[str, Array]]:
    """Return the directions to change an input along: one per element of a small input, or a single random one."""
    if array.size > small:
        direction = generator(seed, "gradcheck direction").standard_normal(array.shape)
        return [("along a random direction", direction / np.linalg.norm(direction))]
    units = np.eye(array.size).reshape(array.size, *array.shape)
    return [(f"at index {index}", unit) for index, unit in zip(np.ndindex(array.shape), units, strict=True)]
