"""The normal distribution function, in vector registers.

The exact GELU multiplies $x$ by $\\Phi(x)$, the probability that a normal draw is below $x$. The C library's error
function, which gives it, computes one element at a time. For float32 a formula with one exponential is enough:

$$\\Phi(-x) \\approx \\phi(x) \\sum_{k=1}^{5} b_k t^k, \\quad t = \\frac{1}{1 + p x}, \\quad x \\ge 0$$

with the normal density $\\phi$ (Abramowitz and Stegun 1964, 26.2.17). The absolute error is below 3e-7, rounding
included. float64, which is for checks, calls the C library.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad.kernels.jit import exact, overload, types
from minigrad.kernels.rowwise.exponential import exp_float32

_P, _DENSITY = np.float32(0.2316419), np.float32(1 / math.sqrt(2 * math.pi))
_B1, _B2, _B3 = np.float32(0.319381530), np.float32(-0.356563782), np.float32(1.781477937)
_B4, _B5 = np.float32(-1.821255978), np.float32(1.330274429)
_HALF, _ONE, _ZERO = np.float32(0.5), np.float32(1), np.float32(0)
_ROOT = math.sqrt(0.5)


@exact
def normal_float32(x: Any) -> Any:
    """$\\Phi(x)$ for one float32; NaN for NaN."""
    size = abs(x)
    t = _ONE / (_ONE + _P * size)
    tail = _DENSITY * exp_float32(-_HALF * x * x) * t * (_B1 + t * (_B2 + t * (_B3 + t * (_B4 + t * _B5))))
    return tail if x < _ZERO else _ONE - tail


def normal(x: Any) -> Any:
    """$\\Phi(x)$ inside a kernel: the formula for float32, the C library's error function for float64.

    Plain Python runs this body (NUMBA_DISABLE_JIT=1).
    """
    return type(x)(0.5 * (1 + math.erf(x * _ROOT)))


@overload(normal)
def _normal_overload(x):  # type: ignore[no-untyped-def]  # Numba compares the two signatures, annotations included
    if x == types.float32:
        return lambda x: normal_float32(x)
    return lambda x: 0.5 * (1.0 + math.erf(x * _ROOT))
