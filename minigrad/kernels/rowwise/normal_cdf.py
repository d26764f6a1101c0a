"""The normal distribution function and its density, in vector registers.

The exact GELU multiplies $x$ by $\\Phi(x)$, the probability that a normal draw is below $x$. The C library's error
function, which gives it, computes one element at a time. For float32 one exponential and a rational function are
enough, and share the exponential with the density $\\phi(x) = e^{-x^2/2} / \\sqrt{2 \\pi}$:

$$\\Phi(-z) = e^{-z^2/2} R(z), \\quad R(z) \\approx t \\sum_{k=0}^{8} c_k s^k, \\quad t = \\frac{1}{1 + 0.35 z},
\\quad s = 1 - 2 t, \\quad z \\ge 0.$$

$R(z) = e^{z^2/2} \\mathrm{erfc}(z/\\sqrt 2) / 2$ falls slowly and has no steep parts. Its coefficients minimise the
largest relative error on 3,000 Chebyshev nodes of $t$ for z up to 13.3, where float32 ends: a least-squares fit divided
by $R$, repeated with each node weighted by its error so far (Lawson's method), which leaves 3.2e-8.

A relative rounding error of $2^{-24}$ in $z^2$ would become one of $z^2/2$ times that in the exponential, 80 times in
the tail.
So $z = h + l$, with 12 bits in $h$: $h^2$ is exact, and $e^{-l (z + h) / 2}$ is a short polynomial. The relative error
of both functions is below 6e-7 wherever they are normal numbers of float32, in the left tail down to -12.9; below -13.2
both are 0. float64, which is for checks, calls the C library.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad.kernels.codegen.bits import bits_of, float32_of
from minigrad.kernels.jit import exact, overload, types
from minigrad.kernels.rowwise.exponential import exp_float32

_SLOPE, _DENSITY = np.float32(0.35), np.float32(1 / math.sqrt(2 * math.pi))
_C0, _C1, _C2 = np.float32(0.253244277), np.float32(-0.171495805), np.float32(0.0710989542)
_C3, _C4, _C5 = np.float32(-0.0102338353), np.float32(-0.00510880834), np.float32(0.0017542155)
_C6, _C7, _C8 = np.float32(0.000690130279), np.float32(-0.000213737182), np.float32(-0.000113730555)
_HALF, _ONE, _TWO, _ZERO = np.float32(0.5), np.float32(1), np.float32(2), np.float32(0)
_SIXTH, _TWENTY_FOURTH = np.float32(1 / 6), np.float32(1 / 24)
_END = np.float32(14)  # from 13.2 on both functions of -z are 0, because the exponential is
_UPPER_BITS = np.uint32(0xFFFFF000)


@exact
def normal_float32(x: Any) -> Any:
    """$\\Phi(x)$ and $\\phi(x)$ for one float32; NaN for NaN."""
    size = abs(x)
    z = _END if size > _END else size
    high = float32_of(bits_of(z) & _UPPER_BITS)
    rest = -_HALF * (z - high) * (z + high)
    correction = _ONE + rest * (_ONE + rest * (_HALF + rest * (_SIXTH + rest * _TWENTY_FOURTH)))
    power = exp_float32(-_HALF * high * high) * correction  # e^(-z^2 / 2)
    t = _ONE / (_ONE + _SLOPE * z)
    s = _ONE - _TWO * t
    high_terms = _C4 + s * (_C5 + s * (_C6 + s * (_C7 + s * _C8)))
    tail = power * t * (_C0 + s * (_C1 + s * (_C2 + s * (_C3 + s * high_terms))))
    return tail if x < _ZERO else _ONE - tail, _DENSITY * power


def normal(x: Any) -> Any:
    """$\\Phi(x)$ and $\\phi(x)$ inside a kernel: the formula for float32, the C library for float64."""
    value = float(x)
    density = math.exp(-0.5 * value * value) / math.sqrt(2 * math.pi)
    return type(x)(0.5 * math.erfc(-value * math.sqrt(0.5))), type(x)(density)


@overload(normal)
def _normal_overload(x):  # type: ignore[no-untyped-def]  # Numba compares the two signatures, annotations included
    if x == types.float32:
        return lambda x: normal_float32(x)
    root, density = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)
    return lambda x: (0.5 * math.erfc(-x * root), density * math.exp(-0.5 * x * x))
