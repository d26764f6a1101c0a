"""The steps between the products: rows of embeddings, norms, activation functions and rotary positions.

They take a few microseconds, so norms are computed by the thread that has the text; elements are shared.
"""

from __future__ import annotations

import math

import numpy as np

from minigrad.kernels.codegen.addresses import elements_at
from minigrad.kernels.codegen.line_products import Lines
from minigrad.kernels.decoding.lines import widen_line
from minigrad.kernels.decoding.products import part_of
from minigrad.kernels.decoding.program import (
    ADD,
    EXACT_GELU,
    LAYER_NORM,
    OFFSET_RMS_NORM,
    SIGMOID_GATE,
    SWIGLU,
    Heads,
    Share,
    Step,
    Texts,
)
from minigrad.kernels.jit import kernel
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.rowwise.normal_cdf import normal
from minigrad.typing import Array


@kernel
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

    A layer norm adds its bias in the end, and an RMSNorm its offset, if there is one, in the beginning.
    """
    weight = elements_at(step.weight, step.outputs, memory.dtype)
    bias = elements_at(step.bias, step.outputs if step.bias else 0, memory.dtype)
    for text in range(share.number, memory.shape[0], share.threads):
        x = memory[text, step.source : step.source + step.outputs]
        y = memory[text, step.target : step.target + step.outputs]
        mean, square, size = memory.dtype.type(0), memory.dtype.type(0), memory.dtype.type(step.outputs)
        if step.code == OFFSET_RMS_NORM:
            for j in range(x.size):
                y[j] = x[j] + bias[j]
            x = y
        elif step.code == LAYER_NORM:
            for j in range(x.size):
                mean += x[j]
            mean /= size
        for j in range(x.size):
            square += (x[j] - mean) * (x[j] - mean)
        factor = memory.dtype.type(1) / np.sqrt(square / size + memory.dtype.type(eps))
        for j in range(x.size):
            value = (x[j] - mean) * factor * weight[j]
            y[j] = value + bias[j] if step.code == LAYER_NORM else value


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
        if step.code == SWIGLU:
            for j in range(y.size):
                y[j] = x[j] / (one + exp(-x[j])) * y[j]
        elif step.code == SIGMOID_GATE:
            for j in range(y.size):
                y[j] = y[j] / (one + exp(-x[j]))
        elif step.code == ADD:
            for j in range(y.size):
                y[j] += x[j]
        elif step.code == EXACT_GELU:
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
