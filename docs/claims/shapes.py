"""What claims of tensors of variable shape compute: the algebra, and what padding costs."""

from __future__ import annotations

import math
from collections.abc import Iterable

from minigrad import Tensor
from models.vsla.variable import add, kronecker, shrink, zero_extended_stack

MIX = (512, 1024, 2048, 4096)
"""The lengths of the plan for variable shapes, equally often."""


def kron(a: list[float], b: list[float]) -> list[float]:
    """Return the Kronecker product of two vectors."""
    return kronecker(Tensor(a), Tensor(b)).tolist()


def both_sides() -> tuple[list[float], list[float]]:
    """Return a (b + c) and a b + a c for a = [1, 1], b = [1], c = [0, 1]; shorter arrays continue with zeros."""
    left = kron([1, 1], zero_extended_sum([1], [0, 1]))
    return left, zero_extended_sum(kron([1, 1], [1]), kron([1, 1], [0, 1]))


def zero_extended_sum(a: list[float], b: list[float]) -> list[float]:
    """Return the sum of two vectors of which the shorter continues with zeros."""
    return add(Tensor(a), Tensor(b)).tolist()


def used(lengths: Iterable[int] = MIX) -> float:
    """Return the share of a batch, padded to its longest sequence, that is not padding."""
    given = list(lengths)
    return sum(given) / (max(given) * len(given))


def scores_used(lengths: Iterable[int] = MIX) -> float:
    """Return the share of the attention scores of a padded batch that are those of tokens."""
    given = list(lengths)
    return sum(length**2 for length in given) / (max(given) ** 2 * len(given))


def stacked_elements(*lengths: int) -> int:
    """Return the number of elements of a stack of vectors of these lengths."""
    return zero_extended_stack(*[Tensor([1.0] * length) for length in lengths]).size


def shrunk_elements(size: int) -> int:
    """Return the number of elements of the smallest equivalent of a square whose last corner alone is not zero."""
    corner = Tensor([[0.0] * size] * (size - 1) + [[0.0] * (size - 1) + [1.0]])
    return math.prod(shrink(corner).shape)
