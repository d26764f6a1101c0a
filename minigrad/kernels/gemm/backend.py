"""The matmul backend: NumPy's BLAS library or our own loops, with factors in full or rounded to bfloat16.

The choice holds for the whole process and is made by `use`:

* `blas`: NumPy's library. Only products that are added to an array are computed by our own loops, because BLAS would
  need memory for the product first.
* `numba`: our own loops.
* `auto`: where the processor has tile registers (AMX), our own loops for products large enough to gain by them, because
  there they are faster than BLAS and closer to the true product (see `minigrad.kernels.codegen.bfloat16_pairs`); BLAS
  for the rest.

Products of float64, which is for checks, are always computed by BLAS.

In bfloat16 both factors of every product are rounded to 8 bits of precision, products and sums stay float32
(Kalamkar et al. 2019, "A study of bfloat16 for deep learning training", arXiv 1905.12322): the weights that the
optimizer updates, norms, softmax and sums stay as they are. Where the processor multiplies bfloat16 itself, our own
loops use that; elsewhere the factors are rounded first and multiplied as float32, which gives the same up to the order
of sums.
"""

from __future__ import annotations

import warnings

import numpy as np

from minigrad.errors import InputError
from minigrad.kernels.cpu import BFLOAT16, FLOAT32, SPLIT, Block
from minigrad.kernels.gemm.panels import multiply
from minigrad.kernels.gemm.rounding import round_bfloat16
from minigrad.typing import Array

BACKENDS, PRECISIONS = ("auto", "blas", "numba"), ("float32", "bfloat16", "float64")

_SPLIT_FROM = 64  # rows and columns from which splitting the factors pays (benchmarks/matmul.py)

_backend, _precision = "auto", "float32"


def use(backend: str = "auto", precision: str = "float32") -> None:
    """Let `backend` multiply all float32 matrices from now on, rounded first if `precision` is bfloat16.

    Raises InputError for an unknown name. Where our own loops have no block for the processor, BLAS stays, with a
    warning.
    """
    global _backend, _precision
    for name, value, known in (("backend", backend, BACKENDS), ("precision", precision, PRECISIONS)):
        if value not in known:
            raise InputError(f"the {name} of matrix products is one of {', '.join(known)}, not {value!r}")
    if backend == "numba" and FLOAT32 is None:
        warnings.warn(
            "this processor has no vector registers that our matrix product knows; BLAS is used", stacklevel=2
        )
        backend = "blas"
    _backend, _precision = backend, precision


def in_use() -> tuple[str, str]:
    """Return the backend and the precision of all matrix products."""
    return _backend, _precision


def describe() -> str:
    """Describe the precision and the backend, for a plan."""
    instructions = {"tiles": "AMX tiles", "bfloat16": "AVX512-BF16"}
    if _precision == "bfloat16":
        return f"bfloat16 by {instructions[BFLOAT16.kind]}" if BFLOAT16 else "float32 on factors rounded to bfloat16"
    if _precision == "float32" and _backend != "blas" and SPLIT is not None:
        return f"float32 by {instructions[SPLIT.kind]}"
    return "float32 by our own loops" if (_backend, _precision) == ("numba", "float32") else f"{_precision} by BLAS"


def _block_for(rows: int, columns: int, add: bool) -> Block | None:
    """Return the block in which our own loops compute a float32 result of this size; None if BLAS computes it."""
    if _precision == "bfloat16" and BFLOAT16 is not None:
        return BFLOAT16
    if _backend != "blas" and SPLIT is not None and min(rows, columns) >= _SPLIT_FROM:
        return SPLIT
    return FLOAT32 if add or _backend == "numba" else None


def goes_to_blas(a: Array, b: Array) -> bool:
    """Return whether BLAS computes products of such matrices, or of batches of them, with unrounded factors."""
    if not a.dtype == b.dtype == np.float32:
        return True
    return _precision != "bfloat16" and _block_for(a.shape[-2], b.shape[-1], add=False) is None


def product(a: Array, b: Array) -> Array:
    """Return a @ b.  Shapes: (M, K), (K, N) -> (M, N)."""
    if not a.dtype == b.dtype == np.float32:
        return np.asarray(a @ b)
    out = np.empty((a.shape[0], b.shape[1]), np.float32)
    product_into(a, b, out, False)
    return out


def product_into(a: Array, b: Array, out: Array, add: bool) -> None:
    """Set `out` to a @ b, or with `add` add it.  Shapes: (M, K), (K, N), out (M, N)."""
    if a.dtype == b.dtype == np.float32:
        if _precision == "bfloat16" and BFLOAT16 is None:
            a, b = round_bfloat16(a), round_bfloat16(b)
        block = _block_for(len(out), out.shape[1], add)
        if block is not None:
            if out.flags.carray:
                return multiply(a, b, out, block, add=add)
            result = np.empty(out.shape, np.float32)  # our loops need a contiguous result
            multiply(a, b, result, block)
            out[...] = out + result if add else result
            return None
    if add:
        out += a @ b
    else:
        np.matmul(a, b, out=out)
    return None
