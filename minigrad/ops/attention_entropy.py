"""The entropy of attention: how many keys a query really attends to. A measurement, not an operation: no gradient."""

from __future__ import annotations

import math

import numpy as np

from minigrad.kernels.attention.forward import attention_forward
from minigrad.kernels.attention.plan import Plan
from minigrad.ops.softmax import log_softmax_formula
from minigrad.ops.visible_keys import causal_visible, visible_keys
from minigrad.typing import Array


def relative_entropy_formula(q: Array, k: Array, *, offsets: Array, key_ranges: Array, first_visible: Array) -> Array:
    """Compute `relative_entropy` in plain NumPy, one query at a time."""
    group, found, visible = q.shape[1] // k.shape[1], np.zeros(len(q)), causal_visible(offsets, key_ranges)
    for s, (first, _) in enumerate(key_ranges):
        for row in range(offsets[s], offsets[s + 1]):
            keys = k[first + first_visible[row] : first + visible[row]].repeat(group, axis=1)  # (keys, H, D)
            log_p = log_softmax_formula(np.einsum("hd,uhd->hu", q[row], keys) / math.sqrt(q.shape[2]))
            entropies = -(np.exp(log_p) * log_p).sum(axis=1)  # (H,)
            found[row] = entropies.mean() / math.log(len(keys)) if len(keys) > 1 else 0.0
    return found


def relative_entropy(q: Array, k: Array, *, offsets: Array, key_ranges: Array, first_visible: Array) -> Array:
    r"""Return the entropy of each query's attention, from 0 (one key) to 1 (all keys that it sees alike).

    $H_t / \ln n_t$ with $H_t = -\sum_u p_{tu} \ln p_{tu}$, averaged over the heads, and $n_t$ the number of keys that
    the query sees; 0 if that is one. Since $\ln p_{tu} = s_{tu} - Z_t$, with $Z_t$ the logsumexp of the scores, the
    entropy is $Z_t - \sum_u p_{tu} s_{tu}$, and that sum is the score of the mean of the keys, attended to as values.
    Shapes: as in `attention`; -> (rows,), in the dtype of q.
    """
    keys = visible_keys(q, k, k, offsets, key_ranges, None, first_visible)
    plan = Plan(**keys, scale=1 / math.sqrt(q.shape[2]))
    mean_key, logsumexp = attention_forward(q, k, k, plan)
    entropy = logsumexp - (q * mean_key).sum(-1) * q.dtype.type(plan.scale)  # (rows, H)
    most = np.log(np.maximum(plan.visible - first_visible, 2)).astype(q.dtype)
    several = plan.visible - first_visible > 1
    found: Array = np.where(several, entropy.mean(axis=1) / most, q.dtype.type(0))
    return found
