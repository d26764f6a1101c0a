"""The weights of attention: how much of each earlier token goes into the output of a token.

The operations of attention never store these weights, but one can compute them with the operations themselves. Their
output is the sum of the values with the weights, so with unit vectors as values it *is* the weights: if the value of
key u is 1 in element u and 0 elsewhere, then element u of the output is the weight of key u. A head of size D answers
for D keys at a time. So the page shows what the model computes, whichever operation a layer uses.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minigrad import ops
from minigrad.autograd.graph import no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.pages.explain.trace import Operation
from minigrad.typing import Array


def attention_weights(operation: Operation) -> Array:
    """Return the weight of each key for each query row and head, given an operation of attention on one sequence.

    Each row sums to 1. A far key of `attention_with_far_keys` is a mean, so its weight is shared out evenly among the
    keys of its block. The own key of a row of `attention_with_own_key` is counted as the key after the shared keys that
    it sees.
    Shapes: -> (rows, H, keys).
    """
    with no_grad():
        probe, num_keys = _PROBES[operation.name](operation)
        head_dim = operation.arrays[0].shape[-1]
        parts = [probe(start).data for start in range(0, num_keys, head_dim)]
    weights: Array = np.concatenate(parts, axis=-1)[..., :num_keys]
    return weights


Probe = tuple[Callable[[int], Tensor], int]
"""A function that returns the weights of the D keys from some key on, and the number of keys."""


def _attention(operation: Operation) -> Probe:
    q, k, _ = operation.arrays
    attend = getattr(ops, operation.name)
    return lambda start: attend(q, k, _unit_vectors(np.arange(len(k)), start, k), **operation.options), len(k)


def _far_keys(operation: Operation) -> Probe:
    q, k, _, far_k, _ = operation.arrays
    offsets, block = operation.options["near"].offsets, round(operation.options["far"].weight)

    def ask(start: int) -> Tensor:
        values = _unit_vectors(np.arange(len(k)), start, k)
        means = ops.block_mean(values, offsets=offsets, block=block)
        return ops.attention_with_far_keys(q, k, values, far_k, means, **operation.options)

    return ask, len(k)


def _own_key(operation: Operation) -> Probe:
    q, k, _, own_k, _ = operation.arrays
    own = operation.options["shared"].visible  # the place of the own key of each row

    def ask(start: int) -> Tensor:
        values, own_values = _unit_vectors(np.arange(len(k)), start, k), _unit_vectors(own, start, own_k)
        return ops.attention_with_own_key(q, k, values, own_k, own_values, **operation.options)

    return ask, int((own + operation.options["has_own"]).max())


def _unit_vectors(places: Array, start: int, like: Array) -> Array:
    """Return for each place the vector that is 1 in element place - start, or 0 if there is no such element.

    Shapes: places (...), like (..., G, D) -> (..., G, D), in the dtype of `like`.
    """
    is_one = places[..., None, None] - start == np.arange(like.shape[-1])
    return np.broadcast_to(is_one, like.shape).astype(like.dtype)


_PROBES: dict[str, Callable[[Operation], Probe]] = {
    "attention": _attention,
    "sparse_attention": _attention,
    "attention_with_far_keys": _far_keys,
    "attention_with_own_key": _own_key,
}
ATTENTIONS = frozenset(_PROBES)
"""The operations of attention to the tokens of the text."""
