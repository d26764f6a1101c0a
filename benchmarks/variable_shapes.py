"""The operators of the variable-shape algebra against plain NumPy: stacks, windows, pyramids, convolutions.

The lengths of a stack are 512, 1,024, 2,048 and 4,096, equally often. Windows and pyramids are also built of vectors of
equal length, because np.stack takes no others.

    python benchmarks/variable_shapes.py
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable

import numpy as np
from machine import describe_machine
from turns import medians

from minigrad import Tensor, no_grad
from minigrad.typing import Array
from models.vsla.variable import VarTensor, convolve, pyramid, window_stack, zero_extended_stack

ROUNDS = 10


def measured(work: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median milliseconds of each piece of work."""
    return {name: 1000 * seconds for name, seconds in medians(work, ROUNDS).items()}


def stacks(count: int = 16, width: int = 96) -> dict[str, float]:
    """Join sequences of rows, forward and backward: packed, as a stack with zeros, and by filling an array."""
    lengths = [512, 1024, 2048, 4096] * (count // 4)
    parts = [np.ones((length, width), np.float32) for length in lengths]
    leaves = [Tensor(part, requires_grad=True) for part in parts]

    def filled() -> Array:
        y = np.zeros((count, max(lengths), width), np.float32)
        for row, part in zip(y, parts, strict=True):
            row[: len(part)] = part
        return y

    def packed() -> Tensor:
        return VarTensor.from_list(leaves).rows

    def stacked() -> Tensor:
        return zero_extended_stack(*leaves)

    gradients = {each: np.ones(each().shape, np.float32) for each in (packed, stacked)}
    times = measured(
        {
            "np.zeros and assignments": filled,
            "packed": packed,
            "stack": stacked,
            "packed, with backward": lambda: packed().backward(gradients[packed]),
            "stack, with backward": lambda: stacked().backward(gradients[stacked]),
        }
    )
    sizes = {"packed MB": packed().data.nbytes / 1e6, "stack MB": stacked().data.nbytes / 1e6}
    return times | sizes


def windows(count: int = 4096, size: int = 16, length: int = 256) -> dict[str, float]:
    """Stack a stream of vectors by windows: of equal lengths beside np.stack, and of unequal ones beside np.pad."""
    rng = np.random.default_rng(0)
    equal = [np.ones(length, np.float32) for _ in range(count)]
    unequal = [np.ones(each, np.float32) for each in rng.integers(1, 2 * length, count)]
    wrapped = {"equal": [Tensor(each) for each in equal], "unequal": [Tensor(each) for each in unequal]}

    def by_numpy() -> list[Array]:
        return [np.stack(equal[first : first + size]) for first in range(0, count, size)]

    def by_padding() -> list[Array]:
        found = []
        for first in range(0, count, size):
            window = unequal[first : first + size]
            longest = max(map(len, window))
            found.append(np.stack([np.pad(each, (0, longest - len(each))) for each in window]))
        return found

    return measured(
        {
            "np.stack, equal lengths": by_numpy,
            "window_stack, equal lengths": lambda: list(window_stack(wrapped["equal"], size)),
            "np.pad and np.stack": by_padding,
            "window_stack, unequal lengths": lambda: list(window_stack(wrapped["unequal"], size)),
        }
    )


def pyramids(size: int = 8, levels: int = 4, length: int = 256) -> dict[str, float]:
    """Build one pyramid: level by level, and as one np.stack of all vectors that is read in the pyramid's shape."""
    parts = [np.ones(length, np.float32) for _ in range(size**levels)]
    tensors = [Tensor(part) for part in parts]
    return measured(
        {
            "one np.stack, reshaped": lambda: np.stack(parts).reshape(*[size] * levels, length),
            "pyramid": lambda: list(pyramid(tensors, size, levels)),
        }
    )


def convolutions(dtype: str) -> dict[str, dict[str, float]]:
    """Convolve two vectors of equal length, forward, by both methods."""
    found = {}
    for length in (128, 256, 512, 1024, 4096, 16384):
        a, b = (Tensor(np.random.default_rng(0).normal(size=length).astype(dtype)) for _ in range(2))
        found[f"{length}"] = measured(
            {method: functools.partial(convolve, a, b, method=method) for method in ("direct", "fft")}
        )
    return found


def main() -> None:
    """Print each table, then all as JSON."""
    results: dict[str, dict[str, float]] = {"stacks": stacks()}
    with no_grad():
        results |= {"windows": windows(), "pyramids": pyramids()}
        for dtype in ("float32", "float64"):
            for length, times in convolutions(dtype).items():
                results[f"convolution of {length} {dtype}"] = times
    print(describe_machine())
    for title, lines in results.items():
        print(f"{title}, milliseconds unless named otherwise")
        for name, number in lines.items():
            print(f"  {name:32} {number:10.3f}")
    print(json.dumps({"machine": describe_machine(), **results}))


if __name__ == "__main__":
    main()
