"""The largest values of a row, found without sorting it, and a draw from a row of probabilities."""

from __future__ import annotations

from minigrad.kernels.jit import kernel
from minigrad.typing import Array

_BLOCK = 64  # probabilities that are added to the sum at a time


@kernel
def select_largest(values: Array, costs: Array, order: Array, limit: float) -> int:
    """Move the largest values to the front of `order` (int64 indices, rising); return how many there are.

    Taken from the largest on, of equal values the first, a value is among them if the costs of those before it are less
    than `limit`: with costs of 1 that is a number of values, with probabilities a share of the distribution.
    As in quicksort the values are split by one of them; but then only the part that holds the border is split again
    (Hoare 1961, "Algorithm 65: FIND").
    """
    first, stop = 0, len(order)
    before = 0.0  # the costs of order[:first], which are among the largest
    while first < stop:
        middle = (first + stop) // 2
        pivot = order[middle]
        order[middle] = order[stop - 1]
        place, above = first, 0.0
        for i in range(first, stop - 1):
            index = order[i]
            if values[index] > values[pivot] or (values[index] == values[pivot] and index < pivot):
                order[i], order[place] = order[place], index
                place, above = place + 1, above + costs[index]
        order[stop - 1], order[place] = order[place], pivot
        if before + above >= limit:
            stop = place
        else:
            first, before = place + 1, before + above + costs[pivot]
    return first


@kernel
def draw_index(weights: Array, uniform: float) -> int:
    """Return the index at the share `uniform`, from 0 to 1, of the cumulative sum of the weights; its weight is not 0.

    Sums of blocks are computed in vector registers; only the block that holds the index is walked through.
    """
    total = 0.0
    for start in range(0, len(weights), _BLOCK):
        total += _sum(weights[start : start + _BLOCK])
    goal, before, chosen, reached = uniform * total, 0.0, 0, 0.0  # `reached` is the sum before the chosen block
    for start in range(0, len(weights), _BLOCK):
        part = _sum(weights[start : start + _BLOCK])
        if part > 0:
            chosen, reached = start, before
        if before + part > goal:
            break
        before += part
    index = chosen
    for i in range(chosen, min(chosen + _BLOCK, len(weights))):
        if weights[i] > 0:
            index = i
            reached += weights[i]
            if reached > goal:
                break
    return index


@kernel
def _sum(weights: Array) -> float:
    total = 0.0
    for weight in weights:
        total += weight
    return total
