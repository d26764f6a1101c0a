"""The weights of attention: how much of each earlier token goes into the output of a token.

The operations of attention never store these weights, but one can compute them with the operations themselves. Their
output is the sum of the values with the weights, so with unit vectors as values it *is* the weights: if the value of
key u is 1 in element u and 0 elsewhere, then element u of the output is the weight of key u. A head of size D answers
for D keys at a time. So the page shows what the model computes, whichever operation a layer uses. A family with an
operation of its own says by `asks` how it is asked.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minigrad.autograd.graph import no_grad
from minigrad.autograd.operators import OPS
from minigrad.autograd.tensor import Tensor
from minigrad.pages.explain.trace import Operation
from minigrad.typing import Array


def attention_weights(operation: Operation) -> Array:
    """Return the weight of each key for each query row and head, given an operation of attention on one sequence.

    Each row sums to 1.  Shapes: -> (rows, H, keys).
    """
    with no_grad():
        probe, num_keys = _PROBES[operation.name](operation)
        head_dim = operation.arrays[0].shape[-1]
        parts = [probe(start).data for start in range(0, num_keys, head_dim)]
    weights: Array = np.concatenate(parts, axis=-1)[..., :num_keys]
    return weights


Probe = tuple[Callable[[int], Tensor], int]
"""A function that returns the weights of the D keys from some key on, and the number of keys."""

_PROBES: dict[str, Callable[[Operation], Probe]] = {}
ATTENTIONS = _PROBES.keys()
"""The names of the operations of attention to the tokens of the text; a family adds its own when it is imported."""


def asks(name: str) -> Callable[[Callable[[Operation], Probe]], Callable[[Operation], Probe]]:
    """Return a decorator of a function that prepares the question to an operation of attention, given by its name."""

    def register(prepare: Callable[[Operation], Probe]) -> Callable[[Operation], Probe]:
        _PROBES[name] = prepare
        return prepare

    return register


@asks("attention")
def of_plain_keys(operation: Operation) -> Probe:
    """Ask an operation whose keys are those of the tokens."""
    q, k, _ = operation.arrays
    attend = OPS[operation.name]
    return lambda start: attend(q, k, unit_vectors(np.arange(len(k)), start, k), **operation.options), len(k)


def unit_vectors(places: Array, start: int, like: Array) -> Array:
    """Return for each place the vector that is 1 in element place - start, or 0 if there is no such element.

    Shapes: places (...), like (..., G, D) -> (..., G, D), in the dtype of `like`.
    """
    is_one = places[..., None, None] - start == np.arange(like.shape[-1])
    return np.broadcast_to(is_one, like.shape).astype(like.dtype)
