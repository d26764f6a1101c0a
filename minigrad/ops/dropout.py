"""Dropout: learn with parts missing, so that no part becomes indispensable."""

from __future__ import annotations

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.errors import InputError
from minigrad.kernels.rowwise import dropout as kernels
from minigrad.random import philox_key
from minigrad.typing import Array


@op
def dropout(x: Array, *, probability: float, seed: int = 0, step: int = 0, index: int = 0) -> tuple[Array, Backward]:
    r"""Set each number to 0 with probability p, else divide it by 1 - p (Srivastava et al. 2014, JMLR 15).

    The expected value stays the same. Which numbers go is a function of (seed, step, index), `index` telling one
    dropout of a network from another; so the mask is drawn again in the backward pass instead of being kept.
    Shapes: x (...) -> (...).  Raises InputError unless 0 <= p < 1.
    """
    if not 0 <= probability < 1:
        raise InputError(f"dropout needs a probability of at least 0 and below 1, not {probability}")
    key = philox_key(seed, "dropout")

    def backward(dy: Array) -> Array:
        # Dropout multiplies by a constant mask, so its gradient is multiplied by the same mask.
        return kernels.dropout(dy, probability, key, step, index)

    return kernels.dropout(x, probability, key, step, index), backward
