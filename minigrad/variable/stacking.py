"""Stacks of a stream of tensors: windows of equally many, and pyramids of windows of windows.

Each takes an iterable and yields a stack as soon as its window is full, so a stream may be endless.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError


def window_stack(tensors: Iterable[Tensor], size: int, keep_rest: bool = False) -> Iterator[Tensor]:
    """Yield one stack (see `ops.zero_extended_stack`) for every `size` tensors: windows that do not overlap.

    The tensors after the last full window are dropped, or with `keep_rest` are a last, shorter stack.
    Raises InputError for a size below 1.

    >>> stream = [Tensor([1]), Tensor([2, 3]), Tensor([4])]
    >>> [each.tolist() for each in window_stack(stream, size=2)]
    [[[1, 0], [2, 3]]]
    >>> [each.shape for each in window_stack(stream, size=2, keep_rest=True)]
    [(2, 2), (1, 1)]
    """
    if size < 1:
        raise InputError(f"a window holds at least 1 tensor, not {size}")
    return _windows(iter(tensors), size, keep_rest)


def _windows(tensors: Iterator[Tensor], size: int, keep_rest: bool) -> Iterator[Tensor]:
    window: list[Tensor] = []
    for tensor in tensors:
        window.append(tensor)
        if len(window) == size:
            yield ops.zero_extended_stack(*window)
            window = []
    if window and keep_rest:
        yield ops.zero_extended_stack(*window)


def pyramid(tensors: Iterable[Tensor], size: int, levels: int, keep_rest: bool = False) -> Iterator[Tensor]:
    """Yield the top of a pyramid: windows of tensors, windows of those windows, and so on, `levels` times.

    Each level adds one axis. `keep_rest` is that of `window_stack`, at every level.
    Raises InputError for a size below 1 or a negative number of levels.

    >>> stream = (Tensor([float(number)]) for number in range(9))
    >>> [each.shape for each in pyramid(stream, size=2, levels=3)]
    [(2, 2, 2, 1)]
    """
    if levels < 0:
        raise InputError(f"a pyramid has at least 0 levels, not {levels}")
    stream = iter(tensors)
    for _ in range(levels):
        stream = window_stack(stream, size, keep_rest)
    return stream
