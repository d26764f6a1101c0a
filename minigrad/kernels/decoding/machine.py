"""The loop that carries out a program, and the threads that run it together.

A pass of a model over one token is some hundred operations on short rows. As operations of the autograd engine, each
costs several microseconds of Python and perhaps a dispatch to another thread, which is more than the arithmetic of a
small model. Here the operations are rows of a table. Every thread walks through the same table and does its share of
each step; before a step that uses what other threads wrote, it waits at a barrier.
"""

from __future__ import annotations

import numpy as np

from minigrad.kernels import threads
from minigrad.kernels.codegen.barrier import arrive_and_wait
from minigrad.kernels.decoding.attention import attend, join, store
from minigrad.kernels.decoding.products import linear
from minigrad.kernels.decoding.program import (
    ADD,
    ATTEND,
    ATTEND_TO_FEW,
    EMBED,
    JOIN,
    LAYER_NORM,
    LINEAR,
    ROTATE,
    STORE,
    SUMMARISE,
    Heads,
    Share,
    Step,
    Texts,
)
from minigrad.kernels.decoding.rows import activate, embed, normalise, rotate
from minigrad.kernels.decoding.summaries import attend_to_few, blend, summarise
from minigrad.kernels.jit import kernel
from minigrad.typing import Array


@kernel
def run_program(
    program: Array, eps: float, memory: Array, heads: Heads, texts: Texts, arrived: Array, share: Share
) -> None:
    """Carry out every step of a program, (steps, 12) int64; memory (B, registers) holds the registers of each text.

    `arrived` (1,) int64 is 0 in the beginning and the same array for all threads.
    """
    barriers = 0
    for number in range(len(program)):
        row = program[number]
        step = Step(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9], row[10], row[11])
        if step.waits and share.threads > 1:
            barriers += 1
            arrive_and_wait(arrived, barriers * share.threads)
        if step.code == LINEAR:
            linear(memory, step, share)
        elif step.code == ATTEND:
            attend(memory, step, heads, texts, share)
        elif step.code == JOIN:
            join(memory, step, heads, texts, share)
        elif step.code == STORE:
            store(memory, step, heads, texts, share)
        elif step.code == ROTATE:
            rotate(memory, step, heads, texts, share)
        elif step.code == EMBED:
            embed(memory, step, texts, share)
        elif step.code <= LAYER_NORM:
            normalise(memory, step, eps, share)
        elif step.code <= ADD:
            activate(memory, step, share)
        elif step.code == SUMMARISE:
            summarise(memory, step, texts, share)
        elif step.code == ATTEND_TO_FEW:
            attend_to_few(memory, step, heads, share)
        else:
            blend(memory, step, share)


def run(program: Array, eps: float, memory: Array, heads: Heads, texts: Texts, work: int) -> None:
    """Run a program on all threads, or on one if that is faster; `work` is the number of weights that it reads."""
    arrived = np.zeros(1, np.int64)
    threads.run_on_all_threads(
        lambda number, count: run_program(program, eps, memory, heads, texts, arrived, Share(number, count)), work
    )
