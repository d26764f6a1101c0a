"""The exponential, fast and in vector registers.

`math.exp` calls the C library once per element. Here the exponential is a handful of multiplications that the compiler
runs on 8 or 16 elements at once: with $n = \\lfloor x \\log_2 e + 1/2 \\rfloor$ and $r = x - n \\ln 2$, so that
$|r| \\le \\ln 2 / 2$,

$$e^x = 2^n e^r, \\qquad e^r \\approx 1 + r + r^2 p(r).$$

The coefficients of $p$ are those of the Cephes library's expf (Moshier 1989); the relative error is below 2e-7.
Only float32 uses this; float64, which is for checks, calls the C library.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad.kernels.codegen.bits import float32_of
from minigrad.kernels.jit import exact, overload, types

_LOG2_E = np.float32(1.44269504088896341)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # ln 2 in two parts, the first one exact
_P0, _P1, _P2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_P3, _P4, _P5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
_LOWEST, _HIGHEST = np.float32(-87.3), np.float32(88.37)
_HALF, _ONE, _ZERO, _INFINITY = (np.float32(v) for v in (0.5, 1.0, 0.0, np.inf))


@exact
def exp_float32(x: Any) -> Any:
    """$e^x$ for one float32; 0 below -87.3, infinity above 88.37, NaN for NaN."""
    n = np.floor(x * _LOG2_E + _HALF)
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    p = ((((_P0 * r + _P1) * r + _P2) * r + _P3) * r + _P4) * r + _P5
    # 2**n is written straight into the exponent bits, which hold n from -126 to 127.
    power = float32_of((np.int32(n) + np.int32(127)) << np.int32(23))
    y = (r * r * p + r + _ONE) * power
    y = _ZERO if x < _LOWEST else y
    return _INFINITY if x > _HIGHEST else y


def exp(x: Any) -> Any:
    """$e^x$ inside a kernel: the polynomial for float32, the C library for float64."""
    with np.errstate(over="ignore"):
        return np.exp(x)


@overload(exp)
def _exp_overload(x):  # type: ignore[no-untyped-def]  # Numba compares the two signatures, annotations included
    if x == types.float32:
        return lambda x: exp_float32(x)
    return lambda x: math.exp(x)
