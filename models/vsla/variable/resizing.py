"""Packed sequences of other lengths: each is cut, or extended at its end.

A padded batch (B, T, ...) is B sequences of equal length, so padding is a change of the lengths from their own to T,
and removing the padding is the change back.
"""

from __future__ import annotations

import itertools

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import InputError, ShapeError
from minigrad.ops.sequences import are_offsets, checked_offsets
from minigrad.typing import Array


@op(integer_dtype="any")
def resize_sequences(x: Array, *, offsets: Array, new_offsets: Array, fill: float = 0) -> tuple[Array, Backward]:
    r"""Give each packed sequence another length: rows are cut off at its end, or rows of `fill` appended there.

    Shapes: x (rows, ...), offsets and new_offsets (S + 1,) -> (new rows, ...).  Raises ShapeError if the offsets do not
    rise from 0 to the number of rows, or if the numbers of sequences differ; InputError if x cannot hold `fill`.

    >>> from minigrad import Tensor
    >>> x = Tensor([1.0, 2.0, 3.0])  # two sequences, of lengths 1 and 2
    >>> resize_sequences(x, offsets=np.array([0, 1, 3]), new_offsets=np.array([0, 2, 3])).tolist()
    [1.0, 0.0, 2.0]
    """
    offsets = checked_offsets("resize_sequences", x, offsets)
    if np.shape(new_offsets) != np.shape(offsets) or not are_offsets(new_offsets):
        raise ShapeError(
            f"resize_sequences needs new offsets that rise from 0, one more than the {len(offsets) - 1} sequences; "
            f"got {new_offsets}"
        )
    new_offsets = np.array(new_offsets, np.int64)
    with np.errstate(invalid="ignore"):  # every number is close to a value of a float dtype
        holds_fill = x.dtype.kind == "f" or bool(np.asarray(fill).astype(x.dtype) == fill)
    if not holds_fill:
        raise InputError(
            f"resize_sequences cannot fill x of dtype {x.dtype} with {fill}; convert it, for example with "
            ".astype('float32')"
        )
    # A row that is in both has the gradient of its copy; a row that was cut off changes nothing, so its gradient is 0.
    # That is the same operation in the other direction, with 0 as fill.
    return _resized(x, offsets, new_offsets, fill), lambda dy: _resized(dy, new_offsets, offsets, 0)


def _resized(x: Array, offsets: Array, new_offsets: Array, fill: float) -> Array:
    """Return the rows of x with each sequence cut or extended to its new length."""
    y = np.empty((int(new_offsets[-1]), *x.shape[1:]), x.dtype)
    places = zip(itertools.pairwise(offsets), itertools.pairwise(new_offsets), strict=True)
    for (start, stop), (new_start, new_stop) in places:
        kept = min(stop - start, new_stop - new_start)
        y[new_start : new_start + kept] = x[start : start + kept]
        y[new_start + kept : new_stop] = fill
    return y
