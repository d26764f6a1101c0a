"""Dropout: training with randomly chosen activations set to zero, so that no single one becomes indispensable."""

from __future__ import annotations

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.kernels.rowwise import dropout as kernels
from minigrad.options import checked_number
from minigrad.random import philox_key
from minigrad.typing import Array


def dropout_formula(x: Array, keep: Array, *, probability: float) -> Array:
    """Compute `dropout` in plain NumPy, given which elements to keep: `keep` has the shape of x and holds booleans."""
    return x * keep / (1 - probability)


@op
def dropout(
    x: Array, *, probability: float, seed: int = 0, step: int = 0, index: int = 0, first_row: int = 0
) -> tuple[Array, Backward]:
    r"""Set each element to 0 with `probability` p, otherwise divide it by 1 - p (Srivastava et al. 2014, JMLR 15).

    The expected value of each element stays the same. The mask is a function of (seed, step, index), where `index` is
    the number of the dropout layer in its network, so the backward pass recomputes it instead of storing it. A row is a
    vector of C elements. If x is a part of a batch, `first_row` is the place of its first row in the batch: its mask
    is then that part of the mask of the whole batch.
    Shapes: x (..., C) -> (..., C).  Raises InputError unless 0 <= p < 1.
    """
    check_probability(probability)
    width = x.shape[-1] if x.ndim else 1
    stream = kernels.Stream(philox_key(seed, "dropout"), step, index, first_row * width)
    # Dropout multiplies by a constant mask, so its gradient is multiplied by the same mask.
    return kernels.dropout(x, probability, stream), lambda dy: kernels.dropout(dy, probability, stream)


def check_probability(probability: float) -> None:
    """Raise InputError unless elements can be dropped with this probability."""
    checked_number("the probability of dropout", probability, at_least=0, below=1)
