"""Products of a matrix with one vector of each text: every weight is read once, from front to back.

The time of a pass over one token is the time to read the weights: two FLOPs are done for each. So a few lines are read
once and multiplied with the vectors of all texts while they are in the caches, and nothing is packed or copied.
"""

from __future__ import annotations

import numpy as np

from minigrad.kernels import threads
from minigrad.kernels.codegen.addresses import elements_at
from minigrad.kernels.codegen.line_products import Lines, Vectors, multiply_lines
from minigrad.kernels.codegen.line_tile import GROUP, INT4, INT8, LINES, TEXTS
from minigrad.kernels.decoding.lines import Packed, scales_of_groups
from minigrad.kernels.decoding.program import LINEAR, Share, Step
from minigrad.kernels.jit import allocating, kernel
from minigrad.typing import Array


def multiply_few(x: Array, matrix: Packed) -> Array:
    """Return the products of a few vectors with a matrix in a small format: x (B, inputs) -> (B, outputs), float32."""
    outputs, inputs = matrix.shape
    memory, lines = np.empty((len(x), inputs + outputs), np.float32), matrix.lines()
    memory[:, :inputs] = x
    step = Step(LINEAR, 0, inputs, inputs, outputs, lines.address, format=lines.format, scales=lines.scales)
    threads.run_on_all_threads(lambda number, count: linear(memory, step, Share(number, count)), inputs * outputs)
    return memory[:, inputs:]


@kernel
def part_of(size: int, share: Share) -> tuple[int, int]:
    """Return the start and the stop of a thread's share of `size` elements, in blocks of 16: whole cache lines."""
    blocks = (size + 15) // 16
    start, stop = blocks * share.number // share.threads, blocks * (share.number + 1) // share.threads
    return min(start * 16, size), min(stop * 16, size)


@allocating
def linear(memory: Array, step: Step, share: Share) -> None:
    """Compute a thread's share of the outputs of a linear layer, whose matrix lies in lines of one output each."""
    lines = Lines(step.format, step.weight, step.inputs, step.outputs, step.scales)
    vectors, texts = Vectors(memory, step.source), memory.shape[0]
    bias = elements_at(step.bias, step.outputs if step.bias else 0, memory.dtype)
    of_lines = elements_at(step.scales, step.outputs if step.format == INT8 else 0, np.float32)
    of_groups = np.empty((step.inputs + GROUP - 1) // GROUP * LINES if step.format == INT4 else 0, np.float32)
    sums = np.empty(TEXTS * LINES, memory.dtype)
    start, stop = part_of(step.outputs, share)
    for first in range(start, stop, LINES):
        scales_of_groups(lines, first, of_groups)
        for text in range(0, texts, TEXTS):
            multiply_lines(lines, first, vectors, text, of_groups, sums)
            for t in range(min(TEXTS, texts - text)):
                for i in range(min(LINES, stop - first)):
                    total, output = sums[t * LINES + i], first + i
                    if of_lines.size:
                        total *= of_lines[output]
                    if bias.size:
                        total += bias[output]
                    place = step.target + output
                    memory[text + t, place] = memory[text + t, place] + total if step.adds else total
