"""Attention to the keys with the highest scores only: a fixed number of keys for each query and head.

Every score is computed to find the highest, by a plain loop. What follows, the softmax, the sum of the values and the
backward pass, costs only as much as the chosen keys.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from minigrad.kernels.attention.factors import transpose
from minigrad.kernels.attention.plan import Arithmetic, Gradients, Inputs, Plan, flat, task_of
from minigrad.kernels.attention.queries import QueryPanel, first_query, next_query
from minigrad.kernels.gemm.packing import Matrix
from minigrad.kernels.jit import allocating, kernel
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.threads import over_rows
from minigrad.typing import Array


class Chosen(NamedTuple):
    """The chosen keys of each query and head, in the order in which they lie in memory."""

    keys: Array  # (rows, heads * most) int32: rows of the keys
    scores: Array  # (rows, heads * most): the unscaled scores; after `attend_to_chosen`, the probabilities
    counts: Array  # (rows, heads) int64: how many keys were chosen, at most `most`


@kernel
def keep_best(keys: Array, scores: Array, count: int, most: int) -> int:
    """Keep the `most` highest of the first `count` scores and their keys, in their order; return how many were kept.

    Of equal scores the earlier ones are kept. The bound is found by halving: each round counts the scores above it in
    vector registers.
    """
    half, low = scores.dtype.type(0.5), scores.dtype.type(np.inf)
    high = -low
    for i in range(count):
        low, high = min(low, scores[i]), max(high, scores[i])
    high = min(high, scores.dtype.type(np.finfo(scores.dtype).max))
    while True:  # at least `most` scores are `low` or more
        middle = low * half + high * half
        if not low < middle < high:
            break
        above = 0
        for i in range(count):
            above += 1 if scores[i] >= middle else 0
        if above < most:
            high = middle
            continue
        low = middle
        if above == most:
            break
    room, kept = most, 0  # room for scores equal to `low`
    for i in range(count):
        room -= 1 if scores[i] > low else 0
    for i in range(count):
        is_equal = scores[i] == low
        if kept < most and (scores[i] > low or (is_equal and room > 0)):
            keys[kept], scores[kept] = keys[i], scores[i]
            kept += 1
        room -= 1 if is_equal else 0
    return kept


@allocating
def _choose_tasks(inputs: Inputs, chosen: Chosen, start: int, stop: int) -> None:
    """Choose the keys of all queries of tasks start to stop."""
    q, flat_k, width = inputs.q, inputs.k.reshape(-1), inputs.k.shape[1]
    most, infinity = chosen.keys.shape[1] // chosen.counts.shape[1], q.dtype.type(np.inf)
    for number in range(start, stop):
        heads, first, num_rows, first_key, num_keys = task_of(inputs, number)
        if num_rows == 0:  # of a text in a cache that gets no token in this pass
            continue
        size, query = heads.size, first_query(QueryPanel(first, 0, num_rows), heads)
        elements, keys = np.empty(size * num_keys, q.dtype), np.empty(num_keys, np.int32)
        transpose(Matrix(flat_k, first_key * width + heads.head * size, width, False, num_keys, size), elements)
        scores = np.empty(num_keys, q.dtype)
        for _ in range(num_rows):
            row, head, count = query.position, query.head, 0
            seen = inputs.seen.visible[row]
            scores[:] = 0
            for d in range(size):  # in this order, so that every score is a sum of its own
                x, line = q[row, head * size + d], elements[d * num_keys : d * num_keys + seen]
                for i in range(line.size):
                    scores[i] += x * line[i]
            for i in range(inputs.seen.first[row], seen):
                score = scores[i] if scores[i] <= infinity else infinity  # a score that is NaN is not lost
                scores[count], keys[count] = score, first_key + i
                count += 1 if score > -infinity else 0
            if count > most:
                count = keep_best(keys, scores, count, most)
            for c in range(count):
                chosen.keys[row, head * most + c], chosen.scores[row, head * most + c] = keys[c], scores[c]
            chosen.counts[row, head] = count
            query = next_query(query, heads)


@kernel
def _attend_rows(inputs: Inputs, chosen: Chosen, out: Array, start: int, stop: int) -> None:
    """Compute rows start to stop of the output, and replace their scores by probabilities."""
    v, num_heads = inputs.v, chosen.counts.shape[1]
    size, most, zero = inputs.k.shape[1] // inputs.kv_heads, chosen.keys.shape[1] // num_heads, out.dtype.type(0)
    for row in range(start, stop):
        for head in range(num_heads):
            count, column = chosen.counts[row, head], head // (num_heads // inputs.kv_heads) * size
            p = chosen.scores[row, head * most : head * most + count]
            keys, line = chosen.keys[row, head * most : head * most + count], out[row, head * size : (head + 1) * size]
            top, total = out.dtype.type(-np.inf), zero
            for c in range(count):
                top = max(top, p[c] * inputs.scale)
            for c in range(count):
                p[c] = exp(p[c] * inputs.scale - top)
                total += p[c]
            line[:] = zero
            for c in range(count):
                p[c] /= total
                value = v[keys[c], column : column + size]
                for d in range(size):
                    line[d] += p[c] * value[d]


@allocating
def _chosen_backward_tasks(
    inputs: Inputs, dout: Array, chosen: Chosen, gradients: Gradients, start: int, stop: int
) -> None:
    """Write the gradients of the queries of tasks start to stop, and add to those of their keys and values."""
    q, k, v, (dq, dk, dv) = inputs.q, inputs.k, inputs.v, gradients
    num_heads, zero = chosen.counts.shape[1], q.dtype.type(0)
    most = chosen.keys.shape[1] // num_heads
    slopes = np.empty(most, q.dtype)
    for number in range(start, stop):
        heads, first, num_rows, _, _ = task_of(inputs, number)
        size, column = heads.size, heads.head * heads.size
        query = first_query(QueryPanel(first, 0, num_rows), heads)
        for _ in range(num_rows):
            row, count, place = query.position, chosen.counts[query.position, query.head], query.head * most
            p, keys = chosen.scores[row, place : place + count], chosen.keys[row, place : place + count]
            part = slice(query.head * size, (query.head + 1) * size)
            dy, x, dx, mean = dout[row, part], q[row, part], dq[row, part], zero
            for c in range(count):
                value, dvalue, dot = v[keys[c], column : column + size], dv[keys[c], column : column + size], zero
                for d in range(size):
                    dot += dy[d] * value[d]
                    dvalue[d] += p[c] * dy[d]
                slopes[c] = dot
                mean += p[c] * dot
            for c in range(count):
                key, dkey = k[keys[c], column : column + size], dk[keys[c], column : column + size]
                slope = p[c] * (slopes[c] - mean) * inputs.scale
                for d in range(size):
                    dx[d] += slope * key[d]
                    dkey[d] += slope * x[d]
            query = next_query(query, heads)


def choose(q: Array, k: Array, v: Array, plan: Plan, most: int) -> tuple[Inputs, Chosen]:
    """Return what the loops read, and the `most` keys of the highest scores for each query and head."""
    of_elements = Arithmetic.of(q.dtype, are_moderate=False)  # these loops pack nothing into words
    inputs, num_heads = plan.inputs(of_elements, q, k, v), q.shape[1]
    shape = (len(q), num_heads * most)
    chosen = Chosen(np.zeros(shape, np.int32), np.zeros(shape, q.dtype), np.zeros((len(q), num_heads), np.int64))
    over_rows(lambda start, stop: _choose_tasks(inputs, chosen, start, stop), plan.num_tasks(k), plan.work(q, k))
    return inputs, chosen


def attend_to_chosen(inputs: Inputs, chosen: Chosen) -> Array:
    """Return the attended values (rows, heads * D); the scores of the chosen keys become probabilities."""
    out, size = np.empty_like(inputs.q), inputs.k.shape[1] // inputs.kv_heads
    over_rows(partial(_attend_rows, inputs, chosen, out), len(out), 2 * chosen.keys.shape[1] * size)
    return out


def chosen_backward(dout: Array, inputs: Inputs, chosen: Chosen, plan: Plan) -> Gradients:
    """Return the gradients of queries, keys and values, as rows, from the probabilities of the chosen keys."""
    gradients = Gradients(*(np.zeros_like(x) for x in (inputs.q, inputs.k, inputs.v)))
    tasks, most = (len(plan.offsets) - 1) * inputs.kv_heads, chosen.keys.shape[1] // chosen.counts.shape[1]
    loop = partial(_chosen_backward_tasks, inputs, flat(dout), chosen, gradients)
    over_rows(loop, tasks, 4 * inputs.q.size * most // max(tasks, 1))
    return gradients
