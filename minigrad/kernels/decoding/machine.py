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
from minigrad.kernels.decoding import attention, products, rows
from minigrad.kernels.decoding import program as codes
from minigrad.kernels.decoding.program import Heads, Share, Step, Texts
from minigrad.kernels.jit import allocating
from minigrad.typing import Array

_PAST_ALL = 1 << 62  # more than all threads count at all barriers


@allocating
def run_program(
    program: Array, eps: float, memory: Array, heads: Heads, texts: Texts, arrived: Array, share: Share
) -> None:
    """Carry out every step of a program, (steps, 12) int64; memory (B, registers) holds the registers of each text.

    `arrived` (1,) int64 is 0 at the beginning, and is the same array for all threads.
    """
    barriers = 0
    for number in range(len(program)):
        row = program[number]
        step = Step(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9], row[10], row[11])
        if step.waits and share.threads > 1:
            barriers += 1
            arrive_and_wait(arrived, barriers * share.threads)
        if step.code == codes.LINEAR:
            products.linear(memory, step, share)
        elif step.code == codes.ATTEND:
            attention.attend(memory, step, heads, texts, share)
        elif step.code == codes.JOIN:
            attention.join(memory, step, heads, texts, share)
        elif step.code == codes.STORE:
            attention.store(memory, step, heads, texts, share)
        elif step.code == codes.ROTATE:
            rows.rotate(memory, step, heads, texts, share)
        elif step.code == codes.EMBED:
            rows.embed(memory, step, texts, share)
        elif step.code <= codes.LAYER_NORM:
            rows.normalise(memory, step, eps, share)
        elif step.code <= codes.ADD:
            rows.activate(memory, step, share)
        elif step.code == codes.SUMMARISE:
            rows.summarise(memory, step, texts, share)
        elif step.code == codes.ATTEND_TO_FEW:
            rows.attend_to_few(memory, step, heads, share)
        else:
            rows.blend(memory, step, share)


def run(program: Array, eps: float, memory: Array, heads: Heads, texts: Texts, work: int) -> None:
    """Run a program on all threads, or on one if that is faster; `work` is the number of weights that it reads."""
    arrived = np.zeros(1, np.int64)

    def task(number: int, count: int) -> None:
        run_program(program, eps, memory, heads, texts, arrived, Share(number, count))

    def release() -> None:  # the others would wait at a barrier for ever
        arrived[0] = _PAST_ALL

    threads.run_on_all_threads(task, work, release)
