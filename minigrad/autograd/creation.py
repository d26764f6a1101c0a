"""New tensors: zeros, ones, a range, and normal draws. They are float32, where NumPy's are float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from minigrad.autograd.tensor import Tensor
from minigrad.random import generator

Shape = int | tuple[int, ...]


def zeros(shape: Shape, *, requires_grad: bool = False, dtype: DTypeLike = "float32") -> Tensor:
    """Return a tensor of zeros.

    >>> zeros((2, 3)).shape
    (2, 3)
    """
    return Tensor(np.zeros(shape, dtype), requires_grad)


def ones(shape: Shape, *, requires_grad: bool = False, dtype: DTypeLike = "float32") -> Tensor:
    """Return a tensor of ones.

    >>> ones(2).tolist()
    [1.0, 1.0]
    """
    return Tensor(np.ones(shape, dtype), requires_grad)


def arange(*limits: float, requires_grad: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """Return the numbers from a start (0 if left out) up to, but without, a stop, in steps of 1 or of a third number.

    Whole numbers give int64, others float32, unless a `dtype` is given.

    >>> arange(1, 7, 2).tolist()
    [1, 3, 5]
    """
    numbers = np.arange(*limits)
    return Tensor(numbers.astype(dtype or (np.float32 if numbers.dtype.kind == "f" else np.int64)), requires_grad)


def randn(shape: Shape, *, seed: int, requires_grad: bool = False, dtype: DTypeLike = "float32") -> Tensor:
    """Return normal draws around 0 with standard deviation 1; they are a function of `seed` and `shape`.

    >>> bool((randn(3, seed=1) == randn(3, seed=1)).data.all())
    True
    """
    return Tensor(generator(seed, "randn").standard_normal(shape).astype(dtype), requires_grad)
