"""VarTensor: sequences of different lengths as packed rows, and the layout that divides the rows.

Packed rows hold no padding. An operation on single rows (a linear layer, an activation) runs on all rows at once:
`map`. An operation along a sequence (a sum, attention) takes the offsets. An operation on two sequences of different
lengths extends the shorter one by zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from minigrad import ops
from minigrad.autograd.graph import no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError, ShapeError
from minigrad.nn.layout import Layout
from minigrad.typing import Array
from models.vsla.variable.extension import length_without_zeros, refuse_to_shrink_in_a_graph
from models.vsla.variable.resizing import resize_sequences


class VarTensor:
    """Packed rows and their layout: sequence s is ``rows[offsets[s]:offsets[s + 1]]``.

    Gradients belong to `rows` and have its shape; nothing else is stored.
    `==` compares classes: two sequences are equal if appending zeros to the shorter one makes them equal.
    Shapes: rows (rows, ...).  Raises ShapeError if the layout does not fit the rows.

    >>> x = VarTensor.from_list([[1.0, 2.0], [3.0]])
    >>> x.rows.tolist(), x.layout.offsets.tolist()
    ([1.0, 2.0, 3.0], [0, 2, 3])
    >>> (x + VarTensor.from_list([[10.0], [20.0, 30.0]])).to_padded().tolist()
    [[11.0, 2.0], [23.0, 30.0]]
    """

    __slots__ = ("layout", "rows")
    __array_ufunc__ = None  # so that ``array * x`` is refused, not computed as if x were a list of sequences

    def __init__(self, rows: Tensor | Array, layout: Layout) -> None:
        rows = _as_tensor(rows)
        if rows.ndim < 1 or len(rows) != layout.offsets[-1]:
            raise ShapeError(f"a layout of {layout.offsets[-1]} rows does not fit a tensor of shape {rows.shape}")
        self.rows = rows
        self.layout = layout

    @classmethod
    def from_list(cls, sequences: Sequence[Tensor | ArrayLike]) -> VarTensor:
        """Pack sequences: tensors or arrays of shape (length, ...).

        An empty list ``[]`` takes the dtype and the row shape of the others. Raises InputError for sequences of
        different dtypes, and ShapeError if their rows differ in shape.

        >>> VarTensor.from_list([[1, 2], [], [3]])
        VarTensor(3 sequences, 3 rows of shape (), lengths 2, 0, 1, dtype=int64)
        """
        given = [None if _is_empty_list(each) else _as_tensor(each) for each in sequences]
        tensors = [each for each in given if each is not None]
        if any(each.ndim < 1 for each in tensors) or len({each.shape[1:] for each in tensors}) > 1:
            shapes = ", ".join(str(each.shape) for each in tensors)
            raise ShapeError(f"sequences have shapes (length, ...) with rows of one shape; got {shapes}")
        if len({each.dtype for each in tensors}) > 1:
            dtypes = ", ".join(str(each.dtype) for each in tensors)
            raise InputError(f"sequences have one dtype; got {dtypes}. Make them alike, as with .astype('float32')")
        layout = Layout.packed([0 if each is None else len(each) for each in given])
        return cls(ops.concatenate(*tensors) if tensors else Tensor([]), layout)

    @classmethod
    def from_padded(cls, padded: Tensor | Array, lengths: ArrayLike) -> VarTensor:
        """Pack the first ``lengths[s]`` rows of each sequence s of a padded batch.

        Shapes: padded (S, T, ...), lengths (S,).  Raises ShapeError if they do not fit.

        >>> VarTensor.from_padded(Tensor([[1.0, 0.0], [2.0, 3.0]]), [1, 2]).rows.tolist()
        [1.0, 2.0, 3.0]
        """
        tensor, layout = _as_tensor(padded), Layout.packed(lengths)
        if tensor.ndim < 2 or len(layout.lengths) != len(tensor) or (layout.lengths > tensor.shape[1]).any():
            raise ShapeError(
                f"a padded batch (S, T, ...) has S lengths of at most T; got shape {tensor.shape} and lengths "
                f"{layout.lengths}"
            )
        count, longest = tensor.shape[:2]
        flat = tensor.reshape(count * longest, *tensor.shape[2:])
        offsets = np.arange(count + 1) * longest
        return cls(resize_sequences(flat, offsets=offsets, new_offsets=layout.offsets), layout)

    def to_padded(self, length: int | None = None, fill: float = 0) -> Tensor:
        """Return a batch (S, T, ...): `fill` follows each sequence up to T, the longest length or `length`.

        Raises ShapeError if a sequence is longer than `length`.
        """
        longest = int(self.lengths.max(initial=0))
        length = longest if length is None else length
        if longest > length:
            raise ShapeError(f"sequence {int(self.lengths.argmax())} has {longest} rows: more than the length {length}")
        offsets = np.arange(len(self) + 1) * length
        flat = resize_sequences(self.rows, offsets=self.layout.offsets, new_offsets=offsets, fill=fill)
        return flat.reshape(len(self), length, *self.rows.shape[1:])

    @property
    def lengths(self) -> Array:
        """The number of rows of each sequence, (S,)."""
        return self.layout.lengths

    def __len__(self) -> int:
        return len(self.layout.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> VarTensor: ...
    def __getitem__(self, index: int | slice) -> Tensor | VarTensor:
        """Return one sequence as a Tensor, or neighbouring sequences as a VarTensor; both are views.

        Raises ShapeError for a missing sequence, and InputError for a slice with a step.
        """
        if not isinstance(index, slice):
            if not -len(self) <= index < len(self):
                raise ShapeError(f"there is no sequence {index} among {len(self)}")
            start, stop = self.layout.offsets[index % len(self)], self.layout.offsets[index % len(self) + 1]
            return self.rows[start:stop]
        first, last, step = index.indices(len(self))
        if step != 1:
            raise InputError(f"a slice with step {step}: only neighbouring sequences share one block of memory")
        offsets = self.layout.offsets[first : max(first, last) + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        return VarTensor(self.rows[rows], Layout(offsets - offsets[0], self.layout.positions[rows]))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        raise InputError(
            "a VarTensor is not an array, because its sequences differ in length: use x.rows or x.to_padded()"
        )

    def __iter__(self) -> Iterator[Tensor]:
        return (self[number] for number in range(len(self)))

    def map(self, function: Callable[[Tensor], Tensor]) -> VarTensor:
        """Apply a function to all rows at once, for example a layer; it must treat each row separately.

        Raises ShapeError if the function returns another number of rows.
        """
        rows = function(self.rows)
        if rows.ndim < 1 or len(rows) != len(self.rows):
            raise ShapeError(f"map needs a function that returns {len(self.rows)} rows; it returned shape {rows.shape}")
        return VarTensor(rows, self.layout)

    def sum(self) -> Tensor:
        """Add up the rows of each sequence, (S, ...); an empty sequence gives 0."""
        return ops.sum_sequences(self.rows, offsets=self.layout.offsets)

    def mean(self) -> Tensor:
        """Average the rows of each sequence, (S, ...).  Raises ShapeError if a sequence has no rows."""
        if not self.lengths.all():
            raise ShapeError(f"mean of no rows: sequence {int(self.lengths.argmin())} is empty")
        return self.sum() / self.lengths.reshape(-1, *[1] * (self.rows.ndim - 1)).astype(self.rows.dtype)

    def shrink(self) -> VarTensor:
        """Drop the rows of zeros at the end of each sequence.  Raises GraphError as `extension.shrink` does."""
        refuse_to_shrink_in_a_graph(self.rows)
        return self._with_layout(Layout.packed([length_without_zeros(each.data) for each in self]))

    def __add__(self, other: VarTensor) -> VarTensor:
        return self._combine(ops.add, other)

    def __sub__(self, other: VarTensor) -> VarTensor:
        return self._combine(ops.subtract, other)

    def __mul__(self, other: VarTensor) -> VarTensor:
        return self._combine(ops.multiply, other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VarTensor):
            return NotImplemented
        if not self._fits(other):
            return False
        with no_grad():
            first, second, _ = self._alike(other)
        return bool(np.array_equal(first.data, second.data))

    __hash__ = None  # type: ignore[assignment]  # equal VarTensors may have different rows

    def __repr__(self) -> str:
        shown = [str(length) for length in self.lengths[:8]] + ["..."] * (len(self) > 8)
        return (
            f"VarTensor({len(self)} sequence{'s' * (len(self) != 1)}, {len(self.rows):,} rows of shape "
            f"{self.rows.shape[1:]}, lengths {', '.join(shown) or 'none'}, dtype={self.rows.dtype})"
        )

    def _combine(self, operation: Callable[[Tensor, Tensor], Tensor], other: VarTensor) -> VarTensor:
        if not isinstance(other, VarTensor):
            raise InputError(
                f"a VarTensor is added to and multiplied by another VarTensor, not {type(other).__name__}; to change "
                "every row alike use x.map(lambda rows: rows * 2)"
            )
        if not self._fits(other):
            raise ShapeError(f"{self} and {other} differ in the number of sequences or in the shape of a row")
        first, second, layout = self._alike(other)
        return VarTensor(operation(first, second), layout)

    def _fits(self, other: VarTensor) -> bool:
        return len(self) == len(other) and self.rows.shape[1:] == other.rows.shape[1:]

    def _alike(self, other: VarTensor) -> tuple[Tensor, Tensor, Layout]:
        """Return the rows of both, with every sequence extended by zeros to the longer length, and their layout."""
        layout = Layout.packed(np.maximum(self.lengths, other.lengths))
        return self._with_layout(layout).rows, other._with_layout(layout).rows, layout

    def _with_layout(self, layout: Layout) -> VarTensor:
        """Cut each sequence to its length in another layout, or extend it by zeros; without a copy if they agree."""
        if np.array_equal(self.layout.offsets, layout.offsets):
            return VarTensor(self.rows, layout)
        rows = resize_sequences(self.rows, offsets=self.layout.offsets, new_offsets=layout.offsets)
        return VarTensor(rows, layout)


def _as_tensor(data: Tensor | ArrayLike) -> Tensor:
    return data if isinstance(data, Tensor) else Tensor(data)


def _is_empty_list(data: Tensor | ArrayLike) -> bool:
    return isinstance(data, list | tuple) and len(data) == 0
