"""The steps between the products: rows of embeddings, norms, activation functions and rotary positions; and those of
models whose layers attend to summaries of the layers below, running means and a few keys of each text.

They take a few microseconds, so the thread that has a text computes most of them; threads share only activation
functions and blends, element by element.
"""

from __future__ import annotations

import math

import numpy as np

from minigrad.kernels.codegen.addresses import elements_at
from minigrad.kernels.codegen.line_products import Lines
from minigrad.kernels.decoding import program as codes
from minigrad.kernels.decoding.attention import exponentials
from minigrad.kernels.decoding.lines import widen_line
from minigrad.kernels.decoding.products import part_of
from minigrad.kernels.decoding.program import Heads, Share, Step, Texts
from minigrad.kernels.gemm.narrow import dot
from minigrad.kernels.jit import allocating, exact, kernel
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.rowwise.normal_cdf import normal
from minigrad.typing import Array


@allocating
def embed(memory: Array, step: Step, texts: Texts, share: Share) -> None:
    """Copy the row of a table that belongs to the token of each text, or add the row of its position (`adds`)."""
    table = Lines(step.format, step.weight, step.outputs, step.inputs, step.scales)
    row = np.empty(step.outputs, memory.dtype)
    for text in range(share.number, memory.shape[0], share.threads):
        widen_line(table, texts.lengths[text] if step.adds else texts.tokens[text], row)
        out = memory[text, step.target : step.target + step.outputs]
        for j in range(out.size):
            out[j] = out[j] + row[j] if step.adds else row[j]


@kernel
def normalise(memory: Array, step: Step, eps: float, share: Share) -> None:
    """Divide a register by its root mean square, or by the deviation from its mean; scale it.

    A layer norm adds its bias at the end, and an RMSNorm adds its offset, if there is one, at the beginning.
    """
    weight = elements_at(step.weight, step.outputs, memory.dtype)
    bias = elements_at(step.bias, step.outputs if step.bias else 0, memory.dtype)
    for text in range(share.number, memory.shape[0], share.threads):
        x = memory[text, step.source : step.source + step.outputs]
        y = memory[text, step.target : step.target + step.outputs]
        mean, square, size = memory.dtype.type(0), memory.dtype.type(0), memory.dtype.type(step.outputs)
        if step.code == codes.OFFSET_RMS_NORM:
            for j in range(x.size):
                y[j] = x[j] + bias[j]
            x = y
        elif step.code == codes.LAYER_NORM:
            for j in range(x.size):
                mean += x[j]
            mean /= size
        for j in range(x.size):
            square += (x[j] - mean) * (x[j] - mean)
        square = square / size + memory.dtype.type(eps)
        # As in the operations (`minigrad.kernels.rowwise.norm`): a row whose squares overflow is NaN.
        factor = memory.dtype.type(1) / np.sqrt(square) if square < np.inf else memory.dtype.type(np.nan)
        for j in range(x.size):
            value = (x[j] - mean) * factor * weight[j]
            y[j] = value + bias[j] if step.code == codes.LAYER_NORM else value


@kernel
def activate(memory: Array, step: Step, share: Share) -> None:
    """Set the target to the GELU of the source, multiply it by a gate of the source, or add the source to it.

    The GELU has an exact form and one with tanh. A gate is a SiLU, as in a SwiGLU, or a logistic function.
    """
    one, two = memory.dtype.type(1), memory.dtype.type(2 * math.sqrt(2 / math.pi))
    cubic, (start, stop) = memory.dtype.type(0.044715), part_of(step.outputs, share)
    for text in range(memory.shape[0]):
        x = memory[text, step.source + start : step.source + stop]
        y = memory[text, step.target + start : step.target + stop]
        if step.code == codes.SWIGLU:
            for j in range(y.size):
                y[j] = x[j] / (one + exp(-x[j])) * y[j]
        elif step.code == codes.SIGMOID_GATE:
            for j in range(y.size):
                y[j] = y[j] / (one + exp(-x[j]))
        elif step.code == codes.ADD:
            for j in range(y.size):
                y[j] += x[j]
        elif step.code == codes.EXACT_GELU:
            for j in range(y.size):
                probability, _ = normal(x[j])
                y[j] = x[j] * probability
        else:
            for j in range(y.size):
                v = x[j]
                y[j] = v / (one + exp(-two * (v + cubic * v * v * v)))


@kernel
def rotate(memory: Array, step: Step, heads: Heads, texts: Texts, share: Share) -> None:
    """Rotate the pairs of every head of a register, in place, by the angles of the position."""
    half = heads.size // 2
    for text in range(share.number, memory.shape[0], share.threads):
        cosine, sine = heads.cosine[texts.lengths[text]], heads.sine[texts.lengths[text]]
        for first in range(step.target, step.target + step.outputs, heads.size):
            head = memory[text, first : first + heads.size]
            for j in range(half):
                a, b = (2 * j, 2 * j + 1) if heads.interleaved else (j, j + half)
                head[a], head[b] = head[a] * cosine[j] - head[b] * sine[j], head[b] * cosine[j] + head[a] * sine[j]


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


@allocating
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
