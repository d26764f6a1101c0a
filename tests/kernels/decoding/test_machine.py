"""Threads that run a program together compute what one thread computes, bit for bit."""

from __future__ import annotations

import time
from typing import Any

import numba
import numpy as np
import pytest

from minigrad.kernels import threads
from minigrad.kernels.codegen.addresses import address_of
from minigrad.kernels.decoding import machine
from minigrad.kernels.decoding.kept import Kept
from minigrad.kernels.decoding.machine import run, run_program
from minigrad.kernels.decoding.program import LINEAR, RMS_NORM, Heads, Share, Step, Texts

pytestmark = pytest.mark.usefixtures("_restore_pool")
SIZE, TEXTS, LAYERS = 700, 2, 40
RNG = np.random.default_rng(0)
WEIGHTS = [RNG.normal(0, SIZE**-0.5, (SIZE, SIZE)).astype(np.float32) for _ in range(2)]
SCALE = np.ones(SIZE, np.float32)
NONE = np.empty((0, 0), np.float32)
HEADS = Heads(1, 1, 2, np.zeros((1, 4)), NONE, NONE, False)
STORED = np.empty((1, TEXTS, 1, 1, 2), np.float32)
ZEROS = np.zeros(TEXTS, np.int64)
TEXTS_HELD = Texts(ZEROS, ZEROS, np.arange(TEXTS), *[Kept.of(STORED)] * 4, np.zeros((0, 0, 0)))


def program() -> np.ndarray:
    """Every layer needs all results of the layer before it."""
    steps = []
    for layer in range(LAYERS):
        source, target = (0, SIZE) if layer % 2 == 0 else (SIZE, 0)
        steps.append(Step(LINEAR, source, target, SIZE, SIZE, address_of(WEIGHTS[layer % 2]), waits=1))
        steps.append(Step(RMS_NORM, target, target, SIZE, SIZE, address_of(SCALE), waits=1))
    return np.array(steps, np.int64)


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="plain Python cannot wait inside a step")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_threads_wait_for_each_other(count: int) -> None:
    threads.set_threads(count)  # the pool decides how many wait, not the number that the machine was prepared for
    start = RNG.normal(size=(TEXTS, 2 * SIZE)).astype(np.float32)
    alone, together, texts = start.copy(), start.copy(), TEXTS_HELD
    run_program(program(), 1e-5, alone, HEADS, texts, np.zeros(1, np.int64), Share(0, 1))
    for _ in range(5):
        together[...] = start
        run(program(), 1e-5, together, HEADS, texts, work=1 << 30)
        np.testing.assert_array_equal(together, alone)


def test_little_work_stays_in_the_thread_that_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    threads.set_threads(2)
    monkeypatch.setattr(threads._Pool, "run", lambda *_: pytest.fail("work was shared"))
    memory = RNG.normal(size=(TEXTS, 2 * SIZE)).astype(np.float32)
    run(program()[:2], 1e-5, memory, HEADS, TEXTS_HELD, work=1000)
    np.testing.assert_allclose((memory[:, SIZE:] ** 2).mean(axis=1), 1, rtol=1e-3)


def test_a_thread_that_fails_leaves_no_other_at_a_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that Ctrl-C interrupts while it compiles the loop: the others would wait for it for ever."""

    def fails_in_one(*arguments: Any) -> None:
        *_, arrived, share = arguments
        if share.number == 0:
            raise KeyboardInterrupt
        end = time.monotonic() + 30
        while arrived[0] < 1_000_000:  # what a barrier waits for is far less
            assert time.monotonic() < end
            time.sleep(0.001)

    threads.set_threads(2)
    monkeypatch.setattr(machine, "run_program", fails_in_one)
    nothing: Any = None
    with pytest.raises(KeyboardInterrupt):
        run(nothing, 0.0, nothing, nothing, nothing, 10**9)
