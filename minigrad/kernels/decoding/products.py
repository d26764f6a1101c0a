"""Products of a matrix with one vector of each text: every weight is read once, from front to back.

The time of a pass over one token is the time to read the weights: two FLOPs are done for each. So a line is read once
and multiplied with the vectors of all texts while it is in the first-level cache, and nothing is packed or copied.
"""

from __future__ import annotations

from minigrad.kernels.codegen.addresses import elements_at
from minigrad.kernels.decoding.program import Share, Step
from minigrad.kernels.gemm.narrow import dot
from minigrad.kernels.jit import kernel
from minigrad.typing import Array


@kernel
def part_of(size: int, share: Share) -> tuple[int, int]:
    """Return the start and the stop of a thread's share of `size` elements, in blocks of 16: whole cache lines."""
    blocks = (size + 15) // 16
    start, stop = blocks * share.number // share.threads, blocks * (share.number + 1) // share.threads
    return min(start * 16, size), min(stop * 16, size)


@kernel
def linear(memory: Array, step: Step, share: Share) -> None:
    """Compute a thread's share of the outputs of a linear layer, whose matrix lies in lines of one output each."""
    weights = elements_at(step.weight, step.inputs * step.outputs, memory.dtype)
    bias = elements_at(step.bias, step.outputs if step.bias else 0, memory.dtype)
    start, stop = part_of(step.outputs, share)
    for output in range(start, stop):
        line = weights[output * step.inputs : (output + 1) * step.inputs]
        for text in range(memory.shape[0]):
            total = dot(line, memory[text, step.source : step.source + step.inputs], False)
            if bias.size:
                total += bias[output]
            place = step.target + output
            memory[text, place] = memory[text, place] + total if step.adds else total
