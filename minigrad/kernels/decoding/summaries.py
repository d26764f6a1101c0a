"""Steps of models whose layers attend to summaries of the layers below: running means, and a few keys of each text."""

from __future__ import annotations

import math

import numpy as np

from minigrad.kernels.codegen.addresses import elements_at
from minigrad.kernels.decoding.attention import exponentials
from minigrad.kernels.decoding.products import part_of
from minigrad.kernels.decoding.program import Heads, Share, Step, Texts
from minigrad.kernels.gemm.narrow import dot
from minigrad.kernels.jit import exact, kernel
from minigrad.kernels.rowwise.exponential import exp
from minigrad.typing import Array


@kernel
def summarise(memory: Array, step: Step, texts: Texts, share: Share) -> None:
    """Add the source to the running sum of its layer; set the target to the mean over the text so far."""
    for text in range(share.number, memory.shape[0], share.threads):
        x = memory[text, step.source : step.source + step.outputs]
        mean = memory[text, step.target : step.target + step.outputs]
        sums, weight = texts.sums[step.layer, texts.places[text]], 1.0 / (texts.lengths[text] + 1)
        for j in range(x.size):
            sums[j] += x[j]
            mean[j] = sums[j] * weight


@kernel
def attend_to_few(memory: Array, step: Step, heads: Heads, share: Share) -> None:
    """Mix the target with the attention of its heads to a few keys: target (1 - beta) + attention beta.

    The source holds queries (num_heads, size), keys (n, kv_heads, size) and values as keys; beta is a weight.
    """
    beta, scale = elements_at(step.weight, 1, memory.dtype)[0], memory.dtype.type(1 / math.sqrt(heads.size))
    rest, width, line = memory.dtype.type(1) - beta, heads.num_heads * heads.size, heads.kv_heads * heads.size
    count = (step.inputs - width) // (2 * line)
    scores = np.empty(count, memory.dtype)
    for text in range(share.number, memory.shape[0], share.threads):
        source = memory[text, step.source : step.source + step.inputs]
        for head in range(heads.num_heads):
            first = width + head // (heads.num_heads // heads.kv_heads) * heads.size
            query = source[head * heads.size : (head + 1) * heads.size]
            for n in range(count):
                key = source[first + n * line : first + n * line + heads.size]
                scores[n] = dot(query, key, False)
            _, total = exponentials(scores, scale)
            share_of_one = beta / total
            out = memory[text, step.target + head * heads.size : step.target + (head + 1) * heads.size]
            for d in range(out.size):
                out[d] *= rest
            for n in range(count):
                place = first + (count + n) * line
                value, weight = source[place : place + heads.size], scores[n] * share_of_one
                for d in range(out.size):
                    out[d] += weight * value[d]


@exact
def blend(memory: Array, step: Step, share: Share) -> None:
    """Add to the target the mixture of a and b, element by element, by the logistic function of a gate.

    The source holds a, b and the gate, each as large as the target.
    """
    # Exact, because the compiler would make b + part * (a - b) of it, which is NaN where b is infinite.
    one, size, (start, stop) = memory.dtype.type(1), step.outputs, part_of(step.outputs, share)
    for text in range(memory.shape[0]):
        a = memory[text, step.source + start : step.source + stop]
        b = memory[text, step.source + size + start : step.source + size + stop]
        gate = memory[text, step.source + 2 * size + start : step.source + 2 * size + stop]
        out = memory[text, step.target + start : step.target + stop]
        for j in range(out.size):
            part = one / (one + exp(-gate[j]))
            out[j] += part * a[j] + (one - part) * b[j]
