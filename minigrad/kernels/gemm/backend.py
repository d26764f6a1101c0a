"""The matmul backend: NumPy's BLAS library or our own loops, with factors in full or rounded to bfloat16.

The choice holds for the whole process and is made by `use`:

* `blas`: NumPy's library.
* `numba`: our own loops.
* `auto`: our own loops for products large enough to gain by them, where they are faster than BLAS; BLAS for the rest.
  They are faster where the processor has tile registers (AMX), and there also closer to the true product, if its
  sums have from eight to about 2,500 terms (see `minigrad.kernels.codegen.bfloat16_pairs`). They are also faster where
  it has AVX-512 and OpenBLAS multiplies with kernels that were measured to be slower (`OWN_LOOPS_FROM`): in registers
  of half the width, for example.

Attention multiplies in loops of its own whatever is chosen (`minigrad.kernels.attention.plan`): they split and
round float32 where these products do, so with `blas` they split nothing. The iterations of Muon have our own loops too,
which round but do not split (`minigrad.kernels.gemm.newton_schulz`).

Products of float64, which is for checks, are always computed by BLAS. So are products in tiles whose values leave the
range in which three parts are as close as float32 (`is_as_close_as_float32`): infinite, NaN, or extreme. Within
`rows_apart`, our own float32 loops compute the rows concerned again.

In bfloat16 both factors of every product are rounded to 8 bits of precision, products and sums stay float32
(Kalamkar et al. 2019, "A study of bfloat16 for deep learning training", arXiv 1905.12322): the weights that the
optimizer updates, norms, softmax and sums stay as they are. Where the processor has fast instructions for bfloat16, our
own loops use them; elsewhere the factors are rounded first and multiplied as float32, which gives the same up to the
order of sums, and up to numbers below 2^-126, which the processor takes for zero.

Which arithmetic a product gets depends on its shape and type and on this choice, and, in tiles, on its values. It does
not depend on whether the result is set or added: a product is computed in the same parts of its rows in both cases, and
each part is then stored or added.

So the last bits of a row of a product can change with the number of rows. Within `rows_apart` they do not, whatever
other rows are multiplied with the same matrix, and however many: one of our own loops computes every product, whatever
its shape.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from minigrad.kernels import threads
from minigrad.kernels.cpu import BFLOAT16, FLOAT32, SMALL, SPLIT, Block
from minigrad.kernels.gemm.narrow import NARROW, multiply_narrow, round_bfloat16
from minigrad.kernels.gemm.panels import Extremes, extremes_of, is_as_close_as_float32, multiply
from minigrad.options import unknown
from minigrad.system import blas
from minigrad.typing import Array

BACKENDS, PRECISIONS = ("auto", "blas", "numba"), ("float32", "bfloat16", "float64")

_SPLIT_FROM = 64  # rows and columns from which splitting the factors pays (benchmarks/matmul.py)
_AVX512_LANES = 16  # float32 elements of a register
_PER_OPERATION = 8  # multiply-adds of a product that take as long as an element operation of a row loop
_SHARED_FROM = 4_000_000  # such operations, about half a millisecond
_PART_LANES, _MOST_PARTS = 256, 16  # of a product that threads share: the fewest rows or columns of a part
_PART = 1 << 22  # elements of a result that are computed at a time, in whole rows: 16 MB

OWN_LOOPS_FROM = {"Haswell": 2_000_000, "Zen": 2_000_000}
"""The least number of multiply-adds for which our loops in AVX-512 registers beat OpenBLAS with the kernels of a core.

Kernels of another core, and other libraries, are as fast as our loops or faster (benchmarks/matmul.py).
"""

_backend, _precision = "auto", "float32"


class _RowsApart(threading.local):
    wanted: bool = False  # by this thread


_rows_apart = _RowsApart()


def use(backend: str = "auto", precision: str = "float32") -> None:
    """Let `backend` multiply all float32 matrices from now on, rounded first if `precision` is bfloat16.

    Raises InputError for an unknown name. Where our own loops have no block for the processor, BLAS stays, with a
    warning.
    """
    global _backend, _precision
    for name, value, known in (("backend", backend, BACKENDS), ("precision", precision, PRECISIONS)):
        if value not in known:
            raise unknown(f"{name} of matrix products", value, known)
    if backend == "numba" and FLOAT32 is None:
        problem = "this processor has no vector registers that our matrix product knows; BLAS is used"
        warnings.warn(problem, stacklevel=2)
        backend = "blas"
    _backend, _precision = backend, precision


@contextlib.contextmanager
def own_choice() -> Iterator[None]:
    """Let a choice that is made in this block hold in it alone: afterwards, products are computed as before it."""
    before = in_use()
    try:
        yield
    finally:
        use(*before)


def multiplies_bfloat16() -> bool:
    """Return whether the processor has instructions that multiply bfloat16 faster than float32."""
    return BFLOAT16 is not None


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
    gains = _backend == "auto" and _own_loops_from() < math.inf
    has_own = _precision == "float32" and (_backend == "numba" or gains)
    return "float32 by our own loops" if has_own else f"{_precision} by BLAS"


def can_keep_rows_apart(dtype: Any) -> bool:
    """Return whether `rows_apart` holds for products of this type here."""
    return dtype == np.float32 and FLOAT32 is not None and _precision == "float32" and _backend != "blas"


@contextlib.contextmanager
def rows_apart() -> Iterator[None]:
    """Within this, a row of a product of two matrices, computed in this thread, does not depend on the other rows.

    It holds where `can_keep_rows_apart` does, and costs time for small products.
    """
    before, _rows_apart.wanted = _rows_apart.wanted, True
    try:
        yield
    finally:
        _rows_apart.wanted = before


def are_rows_apart() -> bool:
    """Return whether this thread computes within `rows_apart`."""
    return _rows_apart.wanted


def _own_loops_from() -> float:
    """Return the least number of multiply-adds for which our loops in vector registers beat BLAS; infinity for none."""
    if FLOAT32 is None or FLOAT32.lanes < _AVX512_LANES:
        return math.inf
    return OWN_LOOPS_FROM.get(blas.openblas_core(), math.inf)


def _arithmetic_for(rows: int, columns: int, depth: int) -> str | Block:
    """Return how a float32 product of this size is computed: "blas", "narrow", or the block of our own loops."""
    shorter, chosen = min(rows, columns), FLOAT32 if _backend == "numba" and FLOAT32 is not None else "blas"
    if _precision == "bfloat16":
        return "narrow" if shorter <= NARROW else BFLOAT16 or chosen
    if _backend == "blas":
        return "blas"
    if _rows_apart.wanted and FLOAT32 is not None:
        return SPLIT or FLOAT32
    if SPLIT is not None and shorter >= _SPLIT_FROM:
        return SPLIT
    if chosen != "blas" and shorter <= NARROW:
        return "narrow"
    is_faster = SPLIT is None and shorter > NARROW and rows * columns * depth >= _own_loops_from()
    return FLOAT32 if is_faster and FLOAT32 is not None else chosen


def describe_arithmetic() -> str:
    """Describe what decides the last bits of products, for the record of a run: each choice, and its origin."""
    library = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    blocks = ", ".join(f"{each.kind} {each.rows} x {each.columns}" for each in (FLOAT32, BFLOAT16, SMALL) if each)
    core = f" for {blas.openblas_core()}" if blas.openblas_core() else ""
    return f"{describe()}; blocks of {blocks}; BLAS is {library['name']} {library['version']}{core}"


def splits(dtype: Any) -> bool:
    """Return whether products of this type that are large enough are computed in tiles, in three bfloat16 parts."""
    return dtype == np.float32 and SPLIT is not None and _backend != "blas"


def rounds(dtype: Any) -> bool:
    """Return whether the factors of products of this type are rounded to bfloat16."""
    return dtype == np.float32 and _precision == "bfloat16"


def goes_to_blas(a: Array, b: Array) -> bool:
    """Return whether BLAS computes products of such matrices, or of batches of them, with unrounded factors."""
    if not a.dtype == b.dtype == np.float32:
        return True
    return _precision != "bfloat16" and _arithmetic_for(a.shape[-2], b.shape[-1], a.shape[-1]) == "blas"


def product(a: Array, b: Array) -> Array:
    """Return a @ b.  Shapes: (M, K), (K, N) -> (M, N)."""
    out = np.empty((a.shape[0], b.shape[1]), np.result_type(a, b))
    product_into(a, b, out, False)
    return out


def product_into(a: Array, b: Array, out: Array, add: bool) -> None:
    """Set `out` to a @ b, or, with `add`, add a @ b to it.  Shapes: (M, K), (K, N), out (M, N)."""
    arithmetic: str | Block = "blas"
    if a.dtype == b.dtype == np.float32:
        arithmetic = _arithmetic_for(len(out), out.shape[1], a.shape[1])
        if _precision == "bfloat16" and (arithmetic == "blas" or arithmetic is FLOAT32):
            a, b = round_bfloat16(a), round_bfloat16(b)
    count = max(min(len(out), -(-out.size // _PART)), 1)
    cuts = [len(out) * part // count for part in range(count + 1)]
    in_place = not add and out.flags.carray
    memory = None if in_place else np.empty((-(-len(out) // count), out.shape[1]), np.result_type(a, b))
    for start, stop in itertools.pairwise(cuts):
        part = out[start:stop] if memory is None else memory[: stop - start]
        _set_part(a[start:stop], b, part, arithmetic)
        if add:
            out[start:stop] += part
        elif not in_place:
            out[start:stop] = part


def _set_part(a: Array, b: Array, out: Array, arithmetic: str | Block) -> None:
    """Set `out`, which is contiguous, to a @ b."""
    if arithmetic == "narrow":
        multiply_narrow(a, b, out, rounding=_precision == "bfloat16")
        return
    if isinstance(arithmetic, Block):
        left, right = multiply(a, b, out, arithmetic)
        if arithmetic.parts != 3 or is_as_close_as_float32(left, right, a.shape[1], out):
            return
        if _rows_apart.wanted:
            _mend_rows(a, b, right, out)
            return
    _share_blas_product(a, b, out)


def _mend_rows(a: Array, b: Array, right: Extremes, out: Array) -> None:
    """Recompute, in float32, the rows of `out` that are not as close as float32; each is judged by itself.

    If the product as a whole is as close, so is each of its rows.
    """
    assert FLOAT32 is not None
    far = [i for i in range(len(a)) if not is_as_close_as_float32(extremes_of(a[i]), right, a.shape[1], out[i])]
    again = np.empty((len(far), out.shape[1]), np.float32)
    multiply(np.ascontiguousarray(a[far]), b, again, FLOAT32)
    out[far] = again


def _share_blas_product(a: Array, b: Array, out: Array) -> None:
    """Set `out` to a @ b, computed by BLAS in parts of its rows, or of its columns if these are more.

    The parts depend on the shapes alone, so the result does not depend on the threads that share them, nor on whether
    the product is itself part of a share. Every part reads one factor as a whole, so parts are few.
    """
    (rows, columns), depth = out.shape, a.shape[1]
    work, longer, count = rows * columns * depth // _PER_OPERATION, max(rows, columns), 1
    if work >= _SHARED_FROM and blas.can_use_one_thread():
        while count < _MOST_PARTS and longer // (2 * count) >= _PART_LANES:
            count *= 2
    cuts = [longer * part // count for part in range(count + 1)]

    def multiply_parts(start: int, stop: int) -> None:
        for part in range(start, stop):
            span = slice(cuts[part], cuts[part + 1])
            if rows >= columns:
                blas_product(a[span], b, out[span])
            else:
                blas_product(a, b[:, span], out[:, span])

    threads.over_rows(multiply_parts, count, work // count)


def blas_products(a: Array, b: Array) -> Array:
    """Return a @ b for batches of matrices, computed by BLAS; threads share the longest of the leading axes.

    Shapes: (..., M, K), (..., K, N) -> (..., M, N); the leading axes broadcast.
    """
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    y = np.empty((*lead, a.shape[-2], b.shape[-1]), np.result_type(a, b))
    if not lead:
        _share_blas_product(a, b, y)
        return y
    axis = int(np.argmax(lead))
    left, right = (np.moveaxis(np.broadcast_to(x, (*lead, *x.shape[-2:])), axis, 0) for x in (a, b))
    out = np.moveaxis(y, axis, 0)
    work = y.size // max(lead[axis], 1) * a.shape[-1] // _PER_OPERATION
    threads.over_rows(lambda a, b: blas_product(left[a:b], right[a:b], out[a:b]), lead[axis], work)
    return y


def blas_product(a: Array, b: Array, out: Array) -> None:
    """Set `out` to a @ b, computed by NumPy's BLAS library in this thread.

    BLAS may compute on unused parts of vector registers, so NumPy sometimes warns of invalid values where all values
    are finite (OpenBLAS on AVX-512, Accelerate). What a product is does not depend on the processor, and neither do its
    warnings here: there are none.
    """
    with np.errstate(all="ignore"):
        np.matmul(a, b, out=out)
