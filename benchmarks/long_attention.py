"""Attention over a long sequence: peak memory beyond inputs and outputs, and seconds, forward and backward.

The scores of a sequence of T tokens are a T x T matrix for each head; the kernel never stores it.

    python benchmarks/long_attention.py [--length 8192]
"""

from __future__ import annotations

import argparse
import ctypes
import json
import time

import numpy as np
from machine import describe_machine

from minigrad.kernels.attention.backward import attention_backward
from minigrad.kernels.attention.forward import attention_forward
from minigrad.kernels.attention.plan import Plan
from minigrad.system import hardware

HEADS, SIZE = 9, 64


def once(length: int) -> tuple[float, int]:
    """Run both passes on one sequence; return the seconds and the bytes of all inputs and outputs."""
    rng = np.random.default_rng(0)
    q, k, v, dout = (rng.standard_normal((length, HEADS, SIZE), dtype=np.float32) for _ in range(4))
    whole = np.array([0, length])
    plan = Plan(whole, whole[None], np.arange(1, length + 1), SIZE**-0.5)
    start = time.perf_counter()
    out, denominators = attention_forward(q, k, v, plan)
    gradients = attention_backward(dout, q, k, v, out, denominators, plan)
    taken = time.perf_counter() - start
    return taken, sum(array.nbytes for array in (q, k, v, dout, out, *denominators, *gradients))


def main() -> None:
    """Compile on a short sequence, measure on the long one, print a line and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--length", type=int, default=8_192)
    length = parser.parse_args().length
    once(256)
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)  # memory that starting and compiling freed would be reused and not be counted
    before = hardware.memory_bytes()
    seconds, given = once(length)
    extra, scores = hardware.peak_memory_bytes() - before - given, 4 * length * length
    print(describe_machine())
    print(
        f"{length:,} tokens, {HEADS} heads x {SIZE}: {seconds:.1f} s forward and backward; {given / 1e6:.0f} MB in and "
        f"out, {extra / 1e6:.1f} MB beyond, {extra / scores:.1%} of what one head's scores would take"
    )
    print(json.dumps({"length": length, "seconds": seconds, "extra_bytes": extra, "scores_bytes": scores}))


if __name__ == "__main__":
    main()
